//! Consumers that were placed on a server which lacks the newest messages: they say by every heartbeat that there is nothing new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use libtest_mimic::Trial;
use salon_log::nats::Nats;
use salon_log::{Claim, TopicLog};
use salon_testkit::nats::NatsServers;
use salon_testkit::{eventually, nats_trials, within};

use crate::props::{at, claim, line, options, room, roster};
use crate::ways::{Frame, way};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        a_topic_goes_on_when_its_consumer_lags,
        places_are_known_when_their_consumer_lags,
        nodes_are_known_when_their_consumer_lags,
    ]
}

/// A way to a server on which the next consumer of some subjects to bring something lags from then on. Later ones do not.
#[derive(Clone)]
struct LaggingWay(Arc<Mutex<Replica>>);

struct Replica {
    subjects: &'static str,
    is_stopped: bool,
    /// How many messages consumers have brought, by their subscriptions.
    brought: HashMap<String, u64>,
    /// The subscription of the consumer that lags.
    lagging: Option<String>,
}

impl LaggingWay {
    fn new(subjects: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Replica { subjects, is_stopped: false, brought: HashMap::new(), lagging: None })))
    }

    async fn node(&self, servers: &NatsServers) -> Nats {
        let replica = self.0.clone();
        let url = way(servers.port(0), move |mut frame| {
            replica.lock().expect("unpoisoned").change(&mut frame);
            std::future::ready(vec![frame])
        });
        Nats::open(at(&url.await)).await.expect("a node")
    }

    fn stop(&self) {
        self.0.lock().expect("unpoisoned").is_stopped = true;
    }

    /// Waits until a message did not come.
    async fn lags(&self) {
        let lags = async || self.0.lock().expect("unpoisoned").lagging.is_some().then_some(());
        eventually("a message to be lost", lags).await.expect("in time");
    }
}

impl Replica {
    /// Puts heartbeats in the place of what the consumer that lags brings.
    fn change(&mut self, frame: &mut Frame) {
        if frame.is_clients || !["MSG", "HMSG"].contains(&frame.word(0)) {
            return;
        }
        let (is_message, subscription) = (frame.word(1).starts_with(self.subjects), frame.word(2).to_owned());
        if self.is_stopped && is_message {
            self.lagging.get_or_insert_with(|| subscription.clone());
        }
        if self.lagging.as_ref() == Some(&subscription) {
            if is_message || frame.has("Nats-Last-Consumer") {
                *frame = heartbeat(&subscription, self.brought.get(&subscription).copied().unwrap_or_default());
            }
            return;
        }
        if is_message {
            *self.brought.entry(subscription).or_default() += 1;
        }
    }
}

/// What a server says of a consumer that has brought so many messages and has no more.
fn heartbeat(subscription: &str, count: u64) -> Frame {
    let headers = format!("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {count}\r\n\r\n");
    let line = format!("HMSG heartbeat {subscription} {length} {length}\r\n", length = headers.len());
    Frame { is_clients: false, line, body: [headers.as_bytes(), b"\r\n"].concat() }
}

async fn a_topic_goes_on_when_its_consumer_lags() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let way = LaggingWay::new("salon.0.");
    let (one, two) = (Nats::open(options(&servers)).await.expect("a node"), way.node(&servers).await);
    one.append(&room(), line("early")).await.expect("stored");
    two.standing(&room()).await.expect("it has followed the topic");
    way.stop();
    let late = one.append(&room(), line("late")).await.expect("stored").entry.position;
    way.lags().await;
    let followed = async || two.standing(&room()).await.ok().filter(|standing| standing.head == late);
    eventually("what the consumer did not bring", followed).await.expect("in time");
    one.close().await;
    two.close().await;
}

async fn places_are_known_when_their_consumer_lags() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let way = LaggingWay::new("$KV.salon-seats.");
    let (one, two) = (Nats::open(options(&servers)).await.expect("a node"), way.node(&servers).await);
    way.stop();
    let (_place, _) = claim(&one, "alice", Claim::Exclusive).await;
    way.lags().await;
    roster(&two, &["alice"]).await;
    one.close().await;
    two.close().await;
}

/// While a node hears nobody, itself included, it takes nobody for gone.
async fn nodes_are_known_when_their_consumer_lags() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let way = LaggingWay::new("$KV.salon-nodes.");
    let one = Nats::open(options(&servers)).await.expect("a node");
    let two = way.node(&servers).await;
    let mut gone = two.gone().expect("it has nodes beside it");
    way.stop();
    way.lags().await;
    one.close().await;
    within("the other to be gone", gone.changed()).await.expect("in time").expect("the log is open");
    two.close().await;
}
