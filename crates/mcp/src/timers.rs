//! The deadlines of a sans-IO machine, by key. A key has one deadline: setting it again replaces the earlier one.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Instant;

/// See the module.
#[derive(Debug, Clone)]
pub struct Timers<K> {
    order: BTreeSet<(Instant, K)>,
    deadlines: HashMap<K, Instant>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { order: BTreeSet::new(), deadlines: HashMap::new() }
    }
}

impl<K: Copy + Ord + Hash> Timers<K> {
    /// Gives a key this deadline.
    pub fn set(&mut self, key: K, at: Instant) {
        self.forget(key);
        self.order.insert((at, key));
        self.deadlines.insert(key, at);
    }

    /// Takes a key's deadline away.
    pub fn forget(&mut self, key: K) {
        if let Some(at) = self.deadlines.remove(&key) {
            self.order.remove(&(at, key));
        }
    }

    /// Whether a key has a deadline.
    pub fn has(&self, key: K) -> bool {
        self.deadlines.contains_key(&key)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.first().map(|(at, _)| at)
    }

    /// The earliest deadline with its key.
    pub fn first(&self) -> Option<(Instant, K)> {
        self.order.first().copied()
    }

    /// Takes the earliest key whose deadline has passed.
    pub fn take(&mut self, now: Instant) -> Option<K> {
        let &(_, key) = self.order.first().filter(|(at, _)| *at <= now)?;
        self.forget(key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_key_has_one_deadline_and_is_taken_once_it_has_passed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut timers = Timers::default();
        timers.set('a', at(1));
        timers.set('b', at(2));
        timers.set('a', at(3));
        assert_eq!((timers.first(), timers.next()), (Some((at(2), 'b')), Some(at(2))));
        assert_eq!(timers.take(at(1)), None);
        assert_eq!((timers.take(at(3)), timers.take(at(3)), timers.take(at(3))), (Some('b'), Some('a'), None));
        timers.set('a', at(4));
        timers.forget('a');
        assert!(!timers.has('a') && timers.next().is_none());
    }
}
