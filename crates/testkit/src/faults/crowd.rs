//! What the clients and the maker of faults know of each other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::TOPICS;

/// How many gateways there are.
pub(crate) const GATEWAYS: usize = 3;

/// How often something happened, by topic and gateway.
pub(crate) type EventCounts = [[u64; GATEWAYS]; TOPICS.len()];

/// What has happened so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct CrowdTally {
    pub(crate) acknowledged: EventCounts,
    pub(crate) seen: EventCounts,
    /// By gateway: how often it did not take an envelope, and how often it let nobody in.
    pub(crate) refused: [u64; GATEWAYS],
    pub(crate) shut: [u64; GATEWAYS],
    /// By topic: who is connected, and how often.
    connected: [BTreeMap<String, usize>; TOPICS.len()],
    /// Publishers to whom no acknowledgement is owed any more, and who say nothing new.
    pub(crate) done: HashSet<(usize, String)>,
}

impl CrowdTally {
    /// Who is connected in a topic.
    pub(crate) fn connected(&self, topic: usize) -> BTreeSet<String> {
        self.connected[topic].keys().cloned().collect()
    }

    /// How many connections there are of those for whom something holds.
    pub(crate) fn connections(&self, of: impl Fn(&str) -> bool) -> usize {
        self.connected.iter().flatten().filter(|(name, _)| of(name)).map(|(_, times)| times).sum()
    }
}

/// The doors of a gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatewayAddresses {
    pub(crate) http: SocketAddr,
    pub(crate) framed: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct FaultCrowd {
    addresses: Mutex<[Option<GatewayAddresses>; GATEWAYS]>,
    /// Counts how often everybody was called to where they belong.
    pub(crate) homes: watch::Sender<u64>,
    is_open: AtomicBool,
    is_over: AtomicBool,
    pub(crate) tally: watch::Sender<CrowdTally>,
}

impl FaultCrowd {
    pub(crate) fn new() -> Self {
        Self {
            addresses: Mutex::default(),
            homes: watch::Sender::new(0),
            is_open: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
            tally: watch::Sender::default(),
        }
    }

    /// Where a gateway is.
    pub(crate) fn address(&self, gateway: usize) -> Option<SocketAddr> {
        self.addresses.lock()[gateway].map(|addresses| addresses.http)
    }

    /// Where it takes framed connections.
    pub(crate) fn framed_address(&self, gateway: usize) -> Option<SocketAddr> {
        self.addresses.lock()[gateway].map(|addresses| addresses.framed)
    }

    pub(crate) fn is_at(&self, gateway: usize, addresses: GatewayAddresses) {
        self.addresses.lock()[gateway] = Some(addresses);
    }

    /// Nobody need try it: its port may be somebody else's by now.
    pub(crate) fn is_away(&self, gateway: usize) {
        self.addresses.lock()[gateway] = None;
    }

    pub(crate) fn call_home(&self) {
        self.homes.send_modify(|calls| *calls += 1);
    }

    /// Whether there is to be anything new.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::SeqCst);
    }

    /// Whether every topic has its end, so that nobody is needed any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn entered(&self, topic: usize, name: &str) {
        self.tally.send_modify(|tally| *tally.connected[topic].entry(name.to_owned()).or_default() += 1);
    }

    pub(crate) fn left(&self, topic: usize, name: &str) {
        self.tally.send_modify(|tally| {
            tally.connected[topic].entry(name.to_owned()).and_modify(|times| *times -= 1);
            tally.connected[topic].retain(|_, times| *times > 0);
        });
    }

    pub(crate) fn acknowledged(&self, topic: usize, gateway: usize) {
        self.tally.send_modify(|tally| tally.acknowledged[topic][gateway] += 1);
    }

    pub(crate) fn saw(&self, topic: usize, gateway: usize) {
        self.tally.send_modify(|tally| tally.seen[topic][gateway] += 1);
    }

    pub(crate) fn refused(&self, gateway: usize) {
        self.tally.send_modify(|tally| tally.refused[gateway] += 1);
    }

    pub(crate) fn shut_out(&self, gateway: usize) {
        self.tally.send_modify(|tally| tally.shut[gateway] += 1);
    }

    pub(crate) fn is_done(&self, topic: usize, name: &str) {
        self.tally.send_if_modified(|tally| tally.done.insert((topic, name.to_owned())));
    }
}
