//! What the writer remembers of topics: at most so many, and so many bytes of them. The topics that were used longest ago are forgotten
//! first; what is forgotten is read from the database again.

use salon_protocol::{Timestamp, TopicName};

use crate::Fold;
use crate::hash::FastMap;

/// How many topics are remembered, and how many bytes of them.
const MAX_TOPICS: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;

/// What a topic takes beside its folds.
const BYTES_BESIDE_FOLDS: usize = 512;

/// What the writer knows of a topic.
pub(super) struct TopicState {
    pub(super) topic: i64,
    pub(super) trimmed: u64,
    pub(super) settled: u64,
    pub(super) head: u64,
    pub(super) newest: Timestamp,
    /// As of `head`.
    pub(super) fold: Fold,
    /// As of `settled`, or of what is just being settled: what the tables say.
    pub(super) settled_fold: Fold,
}

impl TopicState {
    fn bytes(&self) -> usize {
        BYTES_BESIDE_FOLDS + self.fold.bytes() + self.settled_fold.bytes()
    }
}

/// A topic, and when it was used last.
struct CachedTopic {
    topic_states: TopicState,
    used: u64,
}

pub(super) struct TopicStateCache {
    topics: FastMap<TopicName, CachedTopic>,
    bytes: usize,
    /// How many times a topic was used.
    uses: u64,
    max_topics: usize,
    max_bytes: usize,
}

impl Default for TopicStateCache {
    fn default() -> Self {
        Self { topics: FastMap::default(), bytes: 0, uses: 0, max_topics: MAX_TOPICS, max_bytes: MAX_BYTES }
    }
}

impl TopicStateCache {
    pub(super) fn get(&self, name: &TopicName) -> Option<&TopicState> {
        self.topics.get(name).map(|remembered| &remembered.topic_states)
    }

    pub(super) fn insert(&mut self, name: TopicName, topic_states: TopicState) {
        self.remove(&name);
        self.bytes += topic_states.bytes();
        self.uses += 1;
        self.topics.insert(name, CachedTopic { topic_states, used: self.uses });
    }

    pub(super) fn remove(&mut self, name: &TopicName) {
        if let Some(removed) = self.topics.remove(name) {
            self.bytes -= removed.topic_states.bytes();
        }
    }

    /// Uses a topic that is known.
    pub(super) fn update<T>(&mut self, name: &TopicName, change: impl FnOnce(&mut TopicState) -> T) -> Option<T> {
        let remembered = self.topics.get_mut(name)?;
        self.uses += 1;
        remembered.used = self.uses;
        let before = remembered.topic_states.bytes();
        let changed = change(&mut remembered.topic_states);
        self.bytes = self.bytes - before + remembered.topic_states.bytes();
        Some(changed)
    }

    /// Forgets the topics that were used longest ago, where there are too many or too large ones. The newest stays.
    pub(super) fn evict(&mut self) {
        if self.topics.len() <= self.max_topics && self.bytes <= self.max_bytes {
            return;
        }
        let mut by_use: Vec<_> = self.topics.iter().map(|(name, topic)| (topic.used, name.clone())).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        by_use.pop();
        for (_, name) in by_use {
            // Further than it must, so that there is not a search for every topic that is new.
            if self.topics.len() <= self.max_topics / 4 * 3 && self.bytes <= self.max_bytes / 4 * 3 {
                return;
            }
            self.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use salon_protocol::{Entry, Position};

    use super::*;
    use crate::contract::{presence, topic};

    fn nothing() -> TopicState {
        TopicState {
            topic: 1,
            trimmed: 0,
            settled: 0,
            head: 0,
            newest: Timestamp(0),
            fold: Fold::default(),
            settled_fold: Fold::default(),
        }
    }

    fn bounded(max_topics: usize, max_bytes: usize) -> TopicStateCache {
        TopicStateCache { max_topics, max_bytes, ..TopicStateCache::default() }
    }

    fn names(topics: &TopicStateCache) -> Vec<&str> {
        let mut names: Vec<_> = topics.topics.keys().map(TopicName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_topics_used_longest_ago_are_forgotten() {
        let mut topics = bounded(4, usize::MAX);
        for name in ["a", "b", "c", "d"] {
            topics.insert(topic(name), nothing());
            topics.evict();
        }
        topics.update(&topic("a"), |_| ()).expect("it is known");
        assert_eq!(names(&topics), ["a", "b", "c", "d"]);
        topics.insert(topic("e"), nothing());
        topics.evict();
        assert_eq!(names(&topics), ["a", "d", "e"]);
    }

    #[test]
    fn large_topics_are_forgotten_by_their_bytes() {
        let mut topics = bounded(1000, 16 << 10);
        for name in ["a", "b", "c"] {
            topics.insert(topic(name), nothing());
            topics.evict();
        }
        assert_eq!(names(&topics), ["a", "b", "c"]);
        let people = |topic_states: &mut TopicState| {
            for offset in 1..=100 {
                let envelope = presence(&format!("j{offset}"), "join", &format!("p{offset}"));
                let position = Position { epoch: 1, offset };
                topic_states.fold.apply(&Arc::new(Entry { position, arrived: Timestamp(0), stamp: None, envelope }));
            }
        };
        topics.update(&topic("b"), people).expect("it is known");
        topics.evict();
        assert_eq!(names(&topics), ["b"], "the newest stays, however large");
        topics.insert(topic("d"), nothing());
        topics.evict();
        assert_eq!(names(&topics), ["d"]);
        topics.remove(&topic("d"));
        assert_eq!(topics.bytes, 0);
    }
}
