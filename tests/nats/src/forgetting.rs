//! Topics on NATS of which nothing is kept: when they are forgotten, and what happens to a participant that comes meanwhile, or later.
//!
//! Every node looks after retention by itself when it starts and once a minute. So those that are to keep something keep it for an hour,
//! and nothing is kept by one that is there for nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use libtest_mimic::Trial;
use salon_log::nats::{Nats, NatsOptions};
use salon_log::{AppendError, ReadError, Retention, RetentionRules, Span, Tailed, TopicLog};
use salon_protocol::{Envelope, Position};
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use salon_testkit::{DEADLINE, within};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::props::{ids, line, options, presence, topic};
use crate::ways::way;

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        nothing_is_left_of_a_topic_that_is_over,
        nothing_is_left_of_a_topic_that_is_over_on_three_servers,
        what_is_forgotten_makes_room,
        what_comes_before_a_topic_is_shut_is_kept,
        an_append_to_a_closed_topic_creates_it_again,
        what_is_open_is_not_deleted,
        what_could_not_be_deleted_is_opened_by_who_shut_it,
        a_topic_that_was_left_shut_is_opened_again,
    ]
}

const LONG: Duration = Duration::from_secs(3600);

/// How a log is opened that keeps everything for so long.
fn keeping(servers: &NatsServers, age: Duration) -> NatsOptions {
    let retention = RetentionRules { default: Retention { age: Some(age), count: None }, topics: HashMap::new() };
    NatsOptions { retention, ..options(servers) }
}

async fn append(log: &Nats, name: &str, envelope: Envelope) -> Position {
    let appended = within("an append", log.append(&topic(name), envelope)).await.expect("in time");
    appended.expect("stored").entry.position
}

async fn kept(log: &Nats, name: &str) -> Vec<String> {
    ids(&log.read(&topic(name), Span::Newest, 100).await.expect("a read"))
}

/// Every topic's name and how many entries it has.
async fn topics(log: &Nats) -> Vec<(String, u64)> {
    let topics = log.topics().await.expect("a list");
    topics.into_iter().map(|topic| (topic.name.to_string(), topic.entries)).collect()
}

/// Keeps nothing until the topics are these.
async fn until(servers: &NatsServers, wanted: &[(&str, u64)]) {
    let log = Nats::open(keeping(servers, Duration::ZERO)).await.expect("a node that keeps nothing");
    let applied = async {
        loop {
            // A stream of three servers that elect their leader has nobody to answer for it meanwhile, and the next sweep sees to it.
            match log.trim_now().await {
                Ok(()) | Err(ReadError::Unavailable(_)) => {}
                Err(error) => panic!("retention is not applied: {error}"),
            }
            let found = topics(&log).await;
            if found.iter().map(|(name, entries)| (name.as_str(), *entries)).eq(wanted.iter().copied()) {
                return;
            }
        }
    };
    within("retention to have come so far", applied).await.expect("in time");
    log.close().await;
}

/// A topic that has nothing in it any more.
async fn emptied(servers: &NatsServers, log: &Nats) -> Value {
    append(log, "room:a", line("e1")).await;
    let stream = servers.only_topic().await.expect("a topic");
    let name = stream["config"]["name"].as_str().expect("a name");
    let purged = servers.ask(&format!("STREAM.PURGE.{name}"), &json!({})).await.expect("an answer");
    assert_eq!(purged["purged"], 1, "{purged}");
    stream
}

async fn a_topic_is_forgotten_and_made_anew(servers: &NatsServers) {
    let all = keeping(servers, LONG);
    let (one, two) = (Nats::open(all.clone()).await.expect("a node"), Nats::open(all).await.expect("a node"));
    let first = append(&one, "room:a", line("e1")).await;
    append(&one, "room:b", presence("join")).await;
    let mut tail = two.tail(&topic("room:a"), Position { offset: 0, ..first });
    match within("what there is", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries[0].position, first),
        other => panic!("{other:?}"),
    }
    until(servers, &[("room:b", 0)]).await;
    assert_eq!(kept(&one, "room:a").await, [""; 0]);
    let standing = two.standing(&topic("room:b")).await.expect("a standing");
    assert_eq!(standing.present.len(), 1, "somebody present was forgotten");

    // The same id again, on a node that was not told: it is new, and behind everything that was.
    let again = append(&two, "room:a", line("e1")).await;
    assert!(again.offset > first.offset, "{again} is not behind {first}");
    let gap = within("a gap", tail.next()).await.expect("in time");
    assert!(matches!(&gap, Some(Ok(Tailed::Gap { resume })) if resume.offset < again.offset), "{gap:?}");
    match within("what is new", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries[0].position, again),
        other => panic!("{other:?}"),
    }
    let old = one.read(&topic("room:a"), Span::After(first), 10).await;
    assert!(matches!(old, Err(ReadError::Gap { .. })), "{old:?}");

    // And so once more, now that everybody has left.
    append(&one, "room:b", presence("leave")).await;
    drop(tail);
    until(servers, &[]).await;
    append(&one, "room:b", line("e2")).await;
    assert_eq!(kept(&two, "room:b").await, ["e2"]);
    assert!(two.standing(&topic("room:b")).await.expect("a standing").present.is_empty());
    one.close().await;
    two.close().await;
}

async fn nothing_is_left_of_a_topic_that_is_over() {
    let servers = NatsServers::one().await.expect("a NATS server");
    a_topic_is_forgotten_and_made_anew(&servers).await;
}

async fn nothing_is_left_of_a_topic_that_is_over_on_three_servers() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    a_topic_is_forgotten_and_made_anew(&servers).await;
}

async fn what_is_forgotten_makes_room() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(NatsOptions { topics: 1, ..keeping(&servers, LONG) }).await.expect("a log");
    for n in 0..5 {
        append(&log, &format!("room:{n}"), line("e")).await;
        let refused = log.append(&topic("one:more"), line("e")).await.map(|appended| appended.entry);
        assert_eq!(refused, Err(AppendError::TooManyTopics(1)));
        until(&servers, &[]).await;
    }
    let listed = servers.ask("STREAM.NAMES", &json!({ "subject": "salon.room.>" })).await.expect("an answer");
    assert_eq!(listed["total"], 0, "{listed}");
    let filter = json!({ "subjects_filter": "$KV.salon-standing.>" });
    let kept = servers.ask("STREAM.INFO.KV_salon-standing", &filter).await.expect("an answer");
    let kept: Vec<_> = kept["state"]["subjects"].as_object().expect("subjects").keys().cloned().collect();
    assert!(kept.iter().all(|key| key.ends_with(".lock") || key.ends_with(".floor")), "{kept:?}");
    log.close().await;
}

/// A way to a server on which something is done before the first request of some kind passes, if it then does. Tells of everything that
/// passes.
async fn delayed(
    port: u16,
    request: &'static str,
    meanwhile: impl Future<Output = bool> + Send + 'static,
) -> (String, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    let meanwhile = Arc::new(Mutex::new(Some(Box::pin(meanwhile))));
    let url = way(port, move |frame| {
        let is_it = frame.is_clients && frame.line.contains(request);
        let first = is_it.then(|| meanwhile.lock().expect("unpoisoned").take()).flatten();
        let tell = tell.clone();
        async move {
            if let Some(meanwhile) = first
                && !meanwhile.await
            {
                return Vec::new();
            }
            if frame.is_clients {
                // A test that has seen enough listens no more.
                let _ = tell.send(frame.line.clone());
            }
            vec![frame]
        }
    });
    (url.await, told)
}

/// What passes on a way, up to and with the first that has one of some words in it.
async fn passing(told: &mut mpsc::UnboundedReceiver<String>, words: &[&str]) -> String {
    let passing = async {
        loop {
            let line = told.recv().await.expect("a way");
            if words.iter().any(|word| line.contains(word)) {
                return line;
            }
        }
    };
    within("a request", passing).await.expect("in time")
}

/// Two nodes, one of which is about to forget a topic when the other appends to it: when it has sent everything before a request.
async fn appended_before(request: &'static str) {
    let servers = NatsServers::one().await.expect("a NATS server");
    let two = Arc::new(Nats::open(keeping(&servers, LONG)).await.expect("a node"));
    emptied(&servers, &two).await;
    let (tell, told) = oneshot::channel();
    let appending = two.clone();
    let meanwhile = async move {
        let appended = tokio::spawn(async move { append(&appending, "room:a", line("e2")).await });
        // One that comes later waits until the topic is forgotten, and that waits for this.
        let appended = match request.contains("UPDATE") {
            true => tokio::spawn(std::future::ready(appended.await.expect("stored"))),
            false => appended,
        };
        tell.send(appended).is_ok()
    };
    let (url, _passing) = delayed(servers.port(0), request, meanwhile).await;
    // Forgets it as soon as it is there.
    let keeps_nothing = NatsOptions { servers: vec![url], ..keeping(&servers, Duration::ZERO) };
    let one = Nats::open(keeps_nothing).await.expect("a node");
    let appended = within("the topic to be forgotten", told).await.expect("in time").expect("told");
    let position = within("the append", appended).await.expect("in time").expect("no panic");
    for node in [&one, &*two] {
        let read = node.read(&topic("room:a"), Span::Newest, 100).await.expect("a read");
        let found: Vec<_> = read.iter().map(|entry| (entry.envelope.id().as_str(), entry.position)).collect();
        assert_eq!(found, [("e2", position)], "what was acknowledged is not there");
    }
    one.close().await;
    append(&two, "room:a", line("e3")).await;
    assert_eq!(kept(&two, "room:a").await, ["e2", "e3"]);
    two.close().await;
}

async fn what_comes_before_a_topic_is_shut_is_kept() {
    appended_before("STREAM.UPDATE.salon-room-").await;
}

async fn an_append_to_a_closed_topic_creates_it_again() {
    appended_before("STREAM.DELETE.salon-room-").await;
}

/// A node has shut a topic to delete it, and another one opens it before it looks a last time.
async fn what_is_open_is_not_deleted() {
    let servers = Arc::new(NatsServers::one().await.expect("a NATS server"));
    let log = Nats::open(keeping(&servers, LONG)).await.expect("a node");
    let stream = emptied(&servers, &log).await;
    let (opening, opened) = (servers.clone(), stream.clone());
    let meanwhile = async move {
        opening.change(&opened, "subjects", opened["config"]["subjects"].clone()).await.expect("opened");
        true
    };
    let look = "STREAM.INFO.salon-room-";
    let (url, mut told) = delayed(servers.port(0), look, meanwhile).await;
    let keeps_nothing = NatsOptions { servers: vec![url], ..keeping(&servers, Duration::ZERO) };
    let forgetful = Nats::open(keeps_nothing).await.expect("a node");
    passing(&mut told, &[look]).await;
    let next = passing(&mut told, &["STREAM.DELETE.", "STREAM.UPDATE.salon-room-"]).await;
    assert!(next.contains("STREAM.UPDATE."), "a topic that is open was deleted: {next}");
    forgetful.close().await;
    append(&log, "room:a", line("e2")).await;
    assert_eq!(kept(&log, "room:a").await, ["e2"]);
    log.close().await;
}

/// Nobody hears of the deletion, so nobody answers.
async fn what_could_not_be_deleted_is_opened_by_who_shut_it() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(keeping(&servers, LONG)).await.expect("a node");
    emptied(&servers, &log).await;
    let (tell, told) = oneshot::channel();
    let lose = async move { tell.send(()).is_err() };
    let (url, _passing) = delayed(servers.port(0), "STREAM.DELETE.salon-room-", lose).await;
    let keeps_nothing = NatsOptions { servers: vec![url], ..keeping(&servers, Duration::ZERO) };
    let forgetful = Nats::open(keeps_nothing).await.expect("a node");
    within("the topic to be deleted", told).await.expect("in time").expect("told");
    // Once everything it has sent is answered or lost, which takes longer than other things are waited for.
    let opened = async {
        loop {
            match log.append(&topic("room:a"), line("e2")).await {
                Ok(_) => return,
                Err(AppendError::Unavailable(_)) => forgetful.trim_now().await.expect("retention is applied"),
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(6 * DEADLINE, opened).await.expect("in time");
    forgetful.close().await;
    log.close().await;
}

async fn a_topic_that_was_left_shut_is_opened_again() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(keeping(&servers, LONG)).await.expect("a log");
    append(&log, "room:a", line("e1")).await;
    let stream = servers.only_topic().await.expect("a topic");
    let shut = stream["config"]["name"].as_str().expect("a name").replace("salon-room-", "salon.shut.");
    servers.change(&stream, "subjects", json!([shut])).await.expect("shut");
    let refused = within("an answer", log.append(&topic("room:a"), line("e2"))).await.expect("in time");
    let refused = refused.map(|appended| appended.entry);
    assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
    log.trim_now().await.expect("retention is applied");
    append(&log, "room:a", line("e2")).await;
    assert_eq!(kept(&log, "room:a").await, ["e1", "e2"]);
    log.close().await;
}
