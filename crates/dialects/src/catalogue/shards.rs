//! A hash map whose copies share what they have in common: a copy costs a pointer per shard, and a change copies one shard.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Entries per shard on average, above which there are more shards.
const MAX_ENTRIES_PER_SHARD: usize = 128;
/// How many times as many shards there are then.
const GROWTH: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Shards<V> {
    shards: Vec<Arc<HashMap<Arc<str>, V>>>,
    entries: usize,
    hasher: RandomState,
}

impl<V> Default for Shards<V> {
    fn default() -> Self {
        Self { shards: Vec::new(), entries: 0, hasher: RandomState::new() }
    }
}

impl<V: Clone> Shards<V> {
    fn shard(&self, key: &str) -> usize {
        self.hasher.hash_one(key) as usize % self.shards.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        if self.shards.is_empty() {
            return None;
        }
        self.shards[self.shard(key)].get(key)
    }

    /// The value of a key, which is made if there is none.
    pub(super) fn entry(&mut self, key: &Arc<str>) -> &mut V
    where
        V: Default,
    {
        if self.get(key).is_none() {
            self.insert(key.clone(), V::default());
        }
        let shard = self.shard(key);
        Arc::make_mut(&mut self.shards[shard]).get_mut(key).expect("it was put there")
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.get(key)?;
        let shard = self.shard(key);
        Arc::make_mut(&mut self.shards[shard]).get_mut(key)
    }

    pub(super) fn insert(&mut self, key: Arc<str>, value: V) {
        if self.entries >= self.shards.len() * MAX_ENTRIES_PER_SHARD {
            self.grow();
        }
        let shard = self.shard(&key);
        if Arc::make_mut(&mut self.shards[shard]).insert(key, value).is_none() {
            self.entries += 1;
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        if self.get(key).is_some() {
            let shard = self.shard(key);
            Arc::make_mut(&mut self.shards[shard]).remove(key);
            self.entries -= 1;
        }
    }

    fn grow(&mut self) {
        let count = (self.shards.len() * GROWTH).max(1);
        let before = std::mem::replace(&mut self.shards, vec![Arc::default(); count]);
        for shard in before {
            for (key, value) in Arc::unwrap_or_clone(shard) {
                let at = self.shard(&key);
                Arc::make_mut(&mut self.shards[at]).insert(key, value);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut shards = Shards::default();
        for number in 0..1000 {
            shards.insert(number.to_string().into(), number);
        }
        let before = shards.clone();
        shards.remove("7");
        *shards.entry(&"8".into()) += 1;
        shards.insert("new".into(), 1);
        assert_eq!((shards.get("7"), shards.get("8"), shards.get("new")), (None, Some(&9), Some(&1)));
        assert_eq!((before.get("7"), before.get("8"), before.get("new")), (Some(&7), Some(&8), None));
        let copied = shards.shards.iter().zip(&before.shards).filter(|(now, then)| !Arc::ptr_eq(now, then)).count();
        assert!((1..=3).contains(&copied), "{copied} of {} shards were copied", shards.shards.len());
        assert_eq!((shards.iter().count(), before.iter().count()), (1000, 1000));
    }
}
