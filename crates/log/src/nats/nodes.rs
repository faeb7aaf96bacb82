//! Which nodes live: each says so every few seconds under a key that expires.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::DeliverPolicy;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::Shared;
use super::bucket::Bucket;
use super::fault::NatsFault;
use super::follow::{Course, Follow};
use super::link::NatsLink;
use super::open::NatsPurpose;
use super::timings::Timings;
use crate::LogHealth;

/// How long to wait before a beat is retried, or following is.
const RETRY_DELAY: Duration = Duration::from_millis(250);

pub(super) struct NodeRegistry {
    own: String,
    table: Mutex<NodeTable>,
    /// Counts what was heard.
    changed: watch::Sender<u64>,
    /// Counts the nodes that are gone.
    gone: watch::Sender<u64>,
}

/// What a beat says of a node that only copies topics: nobody has a place there, so nothing is looked after when it ends. A gateway's beat is empty.
const TRANSFER: &[u8] = b"transfer";

/// What was heard of nodes.
///
/// Invariant: a node that did not announce its stop is gone only once this node has listened for a lease without a break and has heard nothing
/// of them. A node that was stopped for a while, or cut off, knows of nobody's death, however old what it remembers is.
#[derive(Default)]
struct NodeTable {
    timings: Timings,
    nodes: HashMap<String, NodeState>,
    /// Those of them that only copy topics.
    transfers: HashSet<String>,
    /// Since when nothing could have been missed. `None` while nobody listens.
    since: Option<Instant>,
    /// When anything was heard last. This node hears itself too, so that is never long ago.
    newest: Option<Instant>,
    liveness: Liveness,
}

/// Which nodes lived when they were looked at last.
#[derive(Default)]
struct Liveness {
    /// Whether each node of the table did.
    nodes: HashMap<String, bool>,
    /// Whether a node did of which nothing was heard.
    unheard: bool,
    /// Counts how often that has changed.
    version: u64,
}

/// The last that is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeState {
    /// It lived then, or could not have been heard before.
    Lived(Instant),
    /// It announced its stop, or its key has expired.
    Gone,
}

impl NodeTable {
    /// Begins to listen: whatever was said before may have been missed, so everybody's time starts over.
    fn restart_listening(&mut self, now: Instant) {
        (self.since, self.newest) = (Some(now), Some(now));
        self.nodes.values_mut().for_each(|word| *word = NodeState::Lived(now));
    }

    /// Nothing can be heard for now.
    fn stop_listening(&mut self) {
        self.since = None;
    }

    /// Notes what a node said: that it lives, or that it stops. Says whether a gateway has gone by it that was thought to live.
    fn hear(&mut self, node: &str, beat: Option<&[u8]>, now: Instant) -> bool {
        let lives = beat.is_some();
        // This process stood still, or the server did.
        if self.newest.is_none_or(|newest| now.duration_since(newest) >= self.timings.silence_limit) {
            self.restart_listening(now);
        }
        self.newest = Some(now);
        let word = if lives { NodeState::Lived(now) } else { NodeState::Gone };
        let before = self.nodes.insert(node.to_owned(), word);
        let was_transfer = self.transfers.remove(node);
        if beat == Some(TRANSFER) {
            self.transfers.insert(node.to_owned());
        }
        !lives && !was_transfer && matches!(before, Some(NodeState::Lived(_)))
    }

    fn is_alive(&self, node: &str, now: Instant) -> bool {
        self.lives(self.nodes.get(node).copied(), now)
    }

    /// Whether a node lives of which that is the last that is known.
    fn lives(&self, last: Option<NodeState>, now: Instant) -> bool {
        let is_silent = self.newest.is_none_or(|newest| now.duration_since(newest) >= self.timings.silence_limit);
        let lasts = |since: Instant| now.duration_since(since) < self.timings.lease;
        match (last, self.since.filter(|_| !is_silent)) {
            (Some(NodeState::Gone), _) => false,
            (_, None) => true,
            (Some(NodeState::Lived(at)), Some(since)) => lasts(since) || lasts(at),
            (None, Some(since)) => lasts(since),
        }
    }

    /// A version of which nodes live: it differs whenever that does, also because time has passed.
    fn version(&mut self, now: Instant) -> u64 {
        let before = &self.liveness;
        let is_same =
            |(node, last): (&String, &NodeState)| before.nodes.get(node) == Some(&self.lives(Some(*last), now));
        let is_unchanged = before.unheard == self.lives(None, now)
            && before.nodes.len() == self.nodes.len()
            && self.nodes.iter().all(is_same);
        if !is_unchanged {
            let nodes = self.nodes.iter().map(|(node, last)| (node.clone(), self.lives(Some(*last), now))).collect();
            self.liveness = Liveness { nodes, unheard: self.lives(None, now), version: before.version + 1 };
        }
        self.liveness.version
    }
}

impl NodeRegistry {
    pub(super) fn new(own: &str, timings: Timings) -> Self {
        let (changed, gone) = (watch::Sender::new(0), watch::Sender::new(0));
        let table = Mutex::new(NodeTable { timings, ..NodeTable::default() });
        Self { own: own.to_owned(), table, changed, gone }
    }

    fn table(&self) -> MutexGuard<'_, NodeTable> {
        self.table.lock()
    }

    /// Changes when something is heard of a node.
    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How many nodes were found to be gone.
    pub(super) fn gone(&self) -> watch::Receiver<u64> {
        self.gone.subscribe()
    }

    /// Whether a node lives, as far as is known here. One of which nothing could be heard lives.
    pub(super) fn is_alive(&self, node: &str) -> bool {
        node == self.own || self.table().is_alive(node, Instant::now())
    }

    /// A version of what [`Self::is_alive`] says of all nodes. It costs a look at each of them.
    pub(super) fn version(&self) -> u64 {
        self.table().version(Instant::now())
    }

    /// Whether other nodes live, as far as was heard.
    pub(super) fn has_others(&self) -> bool {
        self.table().nodes.iter().any(|(node, word)| *node != self.own && matches!(word, NodeState::Lived(_)))
    }

    /// Nodes that were heard of, or hold something, and are gone: they announced their stop, or their keys have expired.
    pub(super) async fn dead(&self, link: &NatsLink, keys: &Bucket) -> Vec<String> {
        let (mut dead, mut silent) = (Vec::new(), Vec::new());
        {
            let (table, now) = (self.table(), Instant::now());
            for (node, word) in table.nodes.iter().filter(|(node, _)| **node != self.own) {
                match word {
                    NodeState::Gone => dead.push(node.clone()),
                    NodeState::Lived(_) if !table.is_alive(node, now) => silent.push(node.clone()),
                    NodeState::Lived(_) => {}
                }
            }
        }
        for node in silent {
            if matches!(keys.get(link, &node).await, Ok(kept) if kept.value.is_none()) {
                let mut table = self.table();
                // It may have been heard while it was asked about.
                if !table.is_alive(&node, Instant::now()) {
                    table.nodes.insert(node.clone(), NodeState::Gone);
                    let is_transfer = table.transfers.remove(&node);
                    drop(table);
                    if !is_transfer {
                        self.gone.send_modify(|count| *count += 1);
                    }
                    dead.push(node);
                }
            }
        }
        dead
    }

    /// Forgets nodes that are gone and hold nothing. One that still holds something beside others must be known to be gone when they
    /// go, too.
    pub(super) fn forget(&self, dead: &[String], holds: impl Fn(&str) -> bool) {
        let mut table = self.table();
        for node in dead.iter().filter(|node| !holds(node)) {
            if table.nodes.get(node) == Some(&NodeState::Gone) {
                table.nodes.remove(node);
            }
        }
    }

    /// Has a node looked after of which only its seats tell.
    pub(super) fn mention(&self, node: &str) {
        let mut table = self.table();
        table.nodes.entry(node.to_owned()).or_insert_with(|| NodeState::Lived(Instant::now()));
    }
}

impl Shared {
    /// Says once that this node lives.
    pub(super) async fn put_beat(&self) -> Result<u64, NatsFault> {
        let beat = if self.options.purpose == NatsPurpose::Serve { &[] } else { TRANSFER };
        self.node_keys.put(&self.link, &self.node, Bytes::from_static(beat)).await
    }

    /// Says that this node lives, for ever, and how NATS is.
    pub(super) async fn beat(self: Arc<Self>) {
        let timings = self.link.timings;
        let mut since = Instant::now();
        let mut connection = self.link.connection.subscribe();
        loop {
            let beat = self.put_beat();
            let beaten = tokio::time::timeout(timings.beat_timeout, beat).await;
            let pause = match beaten {
                Ok(Ok(_)) => {
                    self.link.note_answer();
                    if since.elapsed() >= timings.lease {
                        tracing::warn!("nats: node unreachable for longer than a lease, claiming its seats again");
                        self.retake_all();
                    }
                    since = Instant::now();
                    self.set_health(LogHealth::Writable);
                    timings.beat_interval
                }
                Ok(Err(fault)) => {
                    self.set_health(LogHealth::Unreachable(fault.to_string().into()));
                    RETRY_DELAY
                }
                Err(_) => {
                    self.set_health(LogHealth::Unreachable("NATS does not answer".into()));
                    RETRY_DELAY
                }
            };
            let was = *connection.borrow_and_update();
            tokio::select! { biased;
                changed = connection.wait_for(|now| *now != was) => {
                    if let Ok(now) = changed && !now.is_up {
                        self.set_health(LogHealth::Unreachable("the connection to NATS is lost".into()));
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
            if let Ok(mut follow) = Follow::begin(&self.link, course).await {
                self.nodes.table().restart_listening(Instant::now());
                loop {
                    if follow.has_caught_up() {
                        // The opener of the log may have given up.
                        let _ = ready.take().map(|ready| ready.send(()));
                    }
                    // This node hears itself, too: from a consumer whose server lags, it does not.
                    let next = tokio::time::timeout(self.link.timings.silence_limit, follow.next()).await;
                    let Ok(Some(messages)) = next else { break };
                    for message in messages {
                        let Some((node, value)) = self.node_keys.read(&message) else { continue };
                        if self.nodes.table().hear(node, value.map(|beat| &beat[..]), Instant::now()) {
                            self.nodes.gone.send_modify(|count| *count += 1);
                        }
                    }
                    self.nodes.changed.send_modify(|count| *count += 1);
                }
                self.nodes.table().stop_listening();
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_SECOND: Duration = Duration::from_secs(1);

    /// Listens from a moment on, hearing itself and others, for so many seconds.
    fn hears(table: &mut NodeTable, from: Instant, seconds: u32, others: &[&str]) -> Instant {
        for second in (0..=seconds).step_by(3) {
            for node in others.iter().chain(&["own"]) {
                table.hear(node, Some(b""), from + ONE_SECOND * second);
            }
        }
        from + ONE_SECOND * seconds
    }

    #[test]
    fn a_node_that_is_silent_for_a_lease_is_gone() {
        let (mut table, begin) = (NodeTable::default(), Instant::now());
        assert!(table.is_alive("other", begin), "nobody has listened yet");
        table.restart_listening(begin);
        let last = hears(&mut table, begin, 12, &["other"]);
        let later = hears(&mut table, last, 9, &[]);
        assert!(table.is_alive("other", later), "its lease is not over");
        assert!(!table.is_alive("other", later + ONE_SECOND));
        assert!(!table.is_alive("never", later), "nothing was ever heard of it");
        table.hear("other", Some(b""), later + ONE_SECOND);
        assert!(table.is_alive("other", later + ONE_SECOND), "it is back");
        assert!(table.hear("other", None, later + ONE_SECOND));
        assert!(!table.is_alive("other", later + ONE_SECOND), "it announced its stop");
    }

    #[test]
    fn the_version_differs_when_a_node_is_gone_by_time_alone() {
        let (mut table, begin) = (NodeTable::default(), Instant::now());
        table.restart_listening(begin);
        let last = hears(&mut table, begin, 12, &["other"]);
        let version = table.version(last);
        let later = hears(&mut table, last, 9, &[]);
        assert_eq!(table.version(later), version, "its lease is not over");
        let gone = table.version(later + ONE_SECOND);
        assert_ne!(gone, version, "its lease is over");
        assert_eq!(table.version(later + ONE_SECOND), gone);
        table.hear("other", Some(b""), later + ONE_SECOND);
        let back = table.version(later + ONE_SECOND);
        assert_ne!(back, gone, "it is back");
        table.hear("third", Some(b""), later + ONE_SECOND);
        assert_ne!(table.version(later + ONE_SECOND), back, "there is another one");
    }

    #[test]
    fn after_standing_still_nobody_is_gone_before_a_lease_of_listening() {
        let (mut table, begin) = (NodeTable::default(), Instant::now());
        table.restart_listening(begin);
        let stopped = hears(&mut table, begin, 30, &["other"]);
        let back = stopped + ONE_SECOND * 60;
        assert!(table.is_alive("other", back), "judged by what was heard before it stood still");
        let last = hears(&mut table, back, 9, &[]);
        assert!(table.is_alive("other", last), "this node has not listened for a lease");
        assert!(!table.is_alive("other", last + ONE_SECOND));
    }

    #[test]
    fn while_nobody_listens_nobody_is_gone() {
        let (mut table, begin) = (NodeTable::default(), Instant::now());
        table.restart_listening(begin);
        let last = hears(&mut table, begin, 12, &["other"]);
        let later = hears(&mut table, last, 12, &[]);
        assert!(!table.is_alive("other", later));
        table.stop_listening();
        assert!(table.is_alive("other", later), "the connection is lost");
        table.restart_listening(later + ONE_SECOND);
        assert!(table.is_alive("other", later + ONE_SECOND * 2));
    }
}
