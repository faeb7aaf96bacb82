//! Deadlines by key. A key has one deadline: setting it again replaces the earlier one.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct Timers<K> {
    order: BTreeSet<(Instant, K)>,
    deadlines: HashMap<K, Instant>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { order: BTreeSet::new(), deadlines: HashMap::new() }
    }
}

impl<K: Copy + Ord + Hash> Timers<K> {
    pub(crate) fn set(&mut self, key: K, at: Instant) {
        self.forget(key);
        self.order.insert((at, key));
        self.deadlines.insert(key, at);
    }

    pub(crate) fn forget(&mut self, key: K) {
        if let Some(at) = self.deadlines.remove(&key) {
            self.order.remove(&(at, key));
        }
    }

    pub(crate) fn has(&self, key: K) -> bool {
        self.deadlines.contains_key(&key)
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.first().map(|(at, _)| at)
    }

    /// The earliest deadline with its key.
    pub(crate) fn first(&self) -> Option<(Instant, K)> {
        self.order.first().copied()
    }

    /// Takes the earliest key whose deadline has passed.
    pub(crate) fn take(&mut self, now: Instant) -> Option<K> {
        let &(_, key) = self.order.first().filter(|(at, _)| *at <= now)?;
        self.forget(key);
        Some(key)
    }
}
