//! Which nodes live: each says so every few seconds under a key that expires.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::DeliverPolicy;
use tokio::sync::{oneshot, watch};

use super::Shared;
use super::bucket::Bucket;
use super::follow::{Course, Follow};
use super::link::Link;
use crate::Health;

/// How long a node that says nothing counts as living: the time of every lease.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// How often a node says that it lives.
const BEAT: Duration = Duration::from_secs(3);
/// How long a beat may take until the log counts as unreachable.
const SLOW: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

pub(super) struct Nodes {
    own: String,
    heard: Mutex<Heard>,
    /// Counts what was heard.
    changed: watch::Sender<u64>,
}

struct Heard {
    /// When each node was last heard of.
    nodes: HashMap<String, Instant>,
    /// Since when nothing could have been missed.
    since: Instant,
}

impl Nodes {
    pub(super) fn new(own: &str) -> Self {
        let heard = Heard { nodes: HashMap::new(), since: Instant::now() };
        Self { own: own.to_owned(), heard: Mutex::new(heard), changed: watch::Sender::new(0) }
    }

    /// Nothing could be heard until now, so everybody's time begins anew.
    fn listen_anew(&self) {
        let mut heard = self.heard();
        heard.since = Instant::now();
        let since = heard.since;
        heard.nodes.values_mut().for_each(|at| *at = since);
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().expect("nothing panics while it holds the nodes")
    }

    /// Changes when something is heard of a node.
    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether a node lives, as far as is known here. One of which nothing could be heard lives.
    pub(super) fn is_alive(&self, node: &str) -> bool {
        let heard = self.heard();
        node == self.own || heard.nodes.get(node).copied().unwrap_or(heard.since).elapsed() < LEASE
    }

    /// Nodes that were heard of, or hold something, and are gone: their keys have expired.
    pub(super) async fn dead(&self, link: &Link, keys: &Bucket) -> Vec<String> {
        let silent: Vec<_> = {
            let heard = self.heard();
            heard.nodes.keys().filter(|node| **node != self.own).cloned().collect::<Vec<_>>()
        };
        let mut dead = Vec::new();
        for node in silent.into_iter().filter(|node| !self.is_alive(node)) {
            if matches!(keys.get(link, &node).await, Ok(kept) if kept.value.is_none()) {
                dead.push(node);
            }
        }
        dead
    }

    /// Forgets nodes that are gone and hold nothing.
    pub(super) fn forget(&self, dead: &[String]) {
        if !dead.is_empty() {
            self.heard().nodes.retain(|node, _| !dead.contains(node));
        }
    }

    /// Has a node looked after of which only its seats tell.
    pub(super) fn mention(&self, node: &str) {
        let mut heard = self.heard();
        let since = heard.since;
        heard.nodes.entry(node.to_owned()).or_insert(since);
    }
}

impl Shared {
    /// Says that this node lives, for ever, and how NATS is.
    pub(super) async fn beat(self: Arc<Self>) {
        let mut since = Instant::now();
        let mut connection = self.link.connection.clone();
        loop {
            let beat = self.node_keys.put(&self.link, &self.node, bytes::Bytes::new());
            let beaten = tokio::time::timeout(SLOW, beat).await;
            let pause = match beaten {
                Ok(Ok(_)) => {
                    if since.elapsed() >= LEASE {
                        tracing::warn!(
                            "this node was out of reach for longer than a lease; its places are taken again"
                        );
                        self.retake_all();
                    }
                    since = Instant::now();
                    self.set_health(Health::Writable);
                    BEAT
                }
                Ok(Err(fault)) => {
                    self.set_health(Health::Unreachable(fault.to_string().into()));
                    PAUSE
                }
                Err(_) => {
                    self.set_health(Health::Unreachable("NATS does not answer".into()));
                    PAUSE
                }
            };
            let was = *connection.borrow_and_update();
            tokio::select! { biased;
                changed = connection.wait_for(|now| *now != was) => {
                    if let Ok(now) = changed && !now.is_up {
                        self.set_health(Health::Unreachable("the connection to NATS is lost".into()));
                    }
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Follows what nodes say, for ever. Says when everything there was has been heard.
    pub(super) async fn follow_nodes(self: Arc<Self>, ready: oneshot::Sender<()>) {
        let mut ready = Some(ready);
        loop {
            let from = DeliverPolicy::LastPerSubject;
            let course = Course {
                stream: &self.node_keys.stream,
                from,
                filter: Some(self.node_keys.subjects()),
                headers_only: false,
            };
            if let Ok((mut follow, mut waiting)) = Follow::begin(&self.link, course).await {
                self.nodes.listen_anew();
                while waiting > 0 || ready.is_none() || ready.take().is_some_and(|ready| ready.send(()).is_ok()) {
                    let Some(messages) = follow.next().await else { break };
                    for message in messages {
                        waiting = waiting.saturating_sub(1);
                        let Some((node, value)) = self.node_keys.read(&message) else { continue };
                        let mut heard = self.nodes.heard();
                        match value {
                            Some(_) => _ = heard.nodes.insert(node.to_owned(), Instant::now()),
                            // It has said goodbye, or its time is over.
                            None => {
                                let long_ago = Instant::now().checked_sub(LEASE).unwrap_or(heard.since);
                                heard.nodes.insert(node.to_owned(), long_ago);
                            }
                        }
                    }
                    self.nodes.changed.send_modify(|count| *count += 1);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
