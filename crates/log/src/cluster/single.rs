//! The cluster of one node: values in memory, until their time is over or the process ends.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{ChangeValue, Cluster, Keyspace, ValueListener};
use crate::ReadError;

/// How many values a keyspace has at least before those whose time is over are looked for.
const MIN_SWEPT: usize = 1024;

type ClockFn = Box<dyn Fn() -> Instant + Send + Sync>;

/// A [`Cluster`] without other nodes.
pub struct SingleNode {
    now: ClockFn,
    spaces: Mutex<HashMap<&'static str, Values>>,
}

#[derive(Default)]
struct Values {
    /// Each with when its time is over.
    kept: HashMap<String, (Vec<u8>, Instant)>,
    /// How many there are when those whose time is over are looked for next.
    sweep_at: usize,
    listeners: Vec<ValueListener>,
}

impl Values {
    fn get(&self, key: &str, now: Instant) -> Option<&[u8]> {
        self.kept.get(key).filter(|(_, expires)| now < *expires).map(|(value, _)| &**value)
    }

    fn insert(&mut self, key: &str, value: Vec<u8>, now: Instant, expires: Instant) {
        self.listeners.iter().for_each(|hear| hear(&value));
        self.kept.insert(key.to_owned(), (value, expires));
        if self.kept.len() >= self.sweep_at.max(MIN_SWEPT) {
            self.kept.retain(|_, (_, expires)| now < *expires);
            // So that a value is looked at a few times in its life, however many there are.
            self.sweep_at = 2 * self.kept.len();
        }
    }
}

impl Default for SingleNode {
    fn default() -> Self {
        Self::with_clock(Box::new(Instant::now))
    }
}

impl SingleNode {
    /// With another clock, for tests of age.
    pub fn with_clock(now: ClockFn) -> Self {
        Self { now, spaces: Mutex::default() }
    }

    fn spaces(&self) -> MutexGuard<'_, HashMap<&'static str, Values>> {
        self.spaces.lock()
    }
}

impl Cluster for SingleNode {
    fn is_shared(&self) -> bool {
        false
    }

    fn keep(&self, space: Keyspace, key: &str, value: Vec<u8>) -> BoxFuture<'static, Result<(), ReadError>> {
        let now = (self.now)();
        self.spaces().entry(space.name).or_default().insert(key, value, now, now + space.time_to_live);
        std::future::ready(Ok(())).boxed()
    }

    fn take(&self, space: Keyspace, key: &str) -> BoxFuture<'static, Result<Option<Vec<u8>>, ReadError>> {
        let now = (self.now)();
        let taken = self.spaces().get_mut(space.name).and_then(|values| values.kept.remove(key));
        let taken = taken.filter(|(_, expires)| now < *expires).map(|(value, _)| value);
        std::future::ready(Ok(taken)).boxed()
    }

    fn change<'a>(
        &'a self,
        space: Keyspace,
        key: &str,
        change: ChangeValue<'a>,
    ) -> BoxFuture<'a, Result<(), ReadError>> {
        let now = (self.now)();
        let mut spaces = self.spaces();
        let values = spaces.entry(space.name).or_default();
        if let Some(value) = change(values.get(key, now)) {
            values.insert(key, value, now, now + space.time_to_live);
        }
        drop(spaces);
        std::future::ready(Ok(())).boxed()
    }

    fn follow(&self, space: Keyspace, hear: ValueListener) -> BoxFuture<'static, Result<(), ReadError>> {
        let now = (self.now)();
        let mut spaces = self.spaces();
        let values = spaces.entry(space.name).or_default();
        values.kept.values().filter(|(_, expires)| now < *expires).for_each(|(value, _)| hear(value));
        values.listeners.push(hear);
        drop(spaces);
        std::future::ready(Ok(())).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    struct InMemory;

    impl crate::contract::cluster::ClusterEngine for InMemory {
        async fn nodes(&self, _: &[Keyspace]) -> [Arc<dyn Cluster>; 2] {
            let node: Arc<dyn Cluster> = Arc::new(SingleNode::default());
            [node.clone(), node]
        }
    }

    #[tokio::test]
    async fn memory_keeps_the_contract() {
        crate::contract::cluster::run(&InMemory).await;
    }

    #[test]
    fn what_is_over_makes_room() {
        let (begin, seconds) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let clock = seconds.clone();
        let node = SingleNode::with_clock(Box::new(move || begin + Duration::from_secs(clock.load(Ordering::Relaxed))));
        let space = Keyspace { name: "tickets", time_to_live: Duration::from_secs(30) };
        let keep = |number: usize| node.keep(space, &number.to_string(), Vec::new());
        (0..MIN_SWEPT - 1).for_each(|number| drop(keep(number)));
        seconds.store(30, Ordering::Relaxed);
        drop(keep(MIN_SWEPT));
        assert_eq!(node.spaces()["tickets"].kept.len(), 1);
    }
}
