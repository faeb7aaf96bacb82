//! The newest entries, in memory: everything that is in the journal and not yet settled.
//!
//! An entry enters after its commit and leaves after the commit that settled it. So a reader that looks here first and into the
//! database second misses nothing; what it finds in both it knows by its offset.

use std::sync::Arc;

use salon_protocol::{Entry, EnvelopeId, Timestamp, TopicName};

use crate::hash::FastMap;

/// Settling is due at this many entries or bytes. More makes it cheaper by the entry, because entries of one topic change the same pages; by
/// the byte it costs the same.
const FULL_ENTRIES: usize = 8192;
const FULL_BYTES: usize = 2 << 20;
/// Settling must become faster.
const OVERFULL_BYTES: usize = 4 * FULL_BYTES;

#[derive(Default)]
pub(super) struct FreshEntries {
    topics: FastMap<TopicName, Recent>,
    entries: usize,
    bytes: usize,
}

/// What is fresh of one topic, never nothing.
pub(super) struct Recent {
    /// The topic's number in the database.
    pub(super) topic: i64,
    /// The offset of the newest settled entry; the fresh ones follow without a hole.
    pub(super) settled: u64,
    entries: Vec<Arc<Entry>>,
    /// Their offsets by id.
    ids: FastMap<EnvelopeId, u64>,
}

impl FreshEntries {
    pub(super) fn of(&self, topic: &TopicName) -> Option<&Recent> {
        self.topics.get(topic)
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = (&TopicName, &Recent)> {
        self.topics.iter()
    }

    /// Adds entries that follow those of their topic; `settled` counts where it has none yet.
    pub(super) fn extend(&mut self, name: &TopicName, topic: i64, settled: u64, entries: &[Arc<Entry>]) {
        let recent = self.topics.entry(name.clone()).or_insert_with(|| Recent {
            topic,
            settled,
            entries: Vec::new(),
            ids: FastMap::default(),
        });
        for entry in entries {
            debug_assert_eq!(entry.position.offset, recent.head() + 1, "a topic's offsets have no holes");
            self.entries += 1;
            self.bytes += entry.envelope.text().len();
            recent.push(entry);
        }
    }

    /// Removes the oldest entries of a topic, which are settled now; says how long their texts are.
    pub(super) fn remove(&mut self, name: &TopicName, count: usize) -> usize {
        let Some(recent) = self.topics.get_mut(name) else { return 0 };
        let removed = recent.remove(count);
        if recent.entries.is_empty() {
            self.topics.remove(name);
        }
        let bytes = removed.iter().map(|entry| entry.envelope.text().len()).sum();
        self.entries -= removed.len();
        self.bytes -= bytes;
        bytes
    }

    /// Puts an entry in the place of the one that has its offset, if that is here.
    pub(super) fn replace(&mut self, name: &TopicName, entry: &Arc<Entry>) {
        let Some(recent) = self.topics.get_mut(name) else { return };
        let place = entry.position.offset.checked_sub(recent.settled + 1).and_then(|place| usize::try_from(place).ok());
        if let Some(before) = place.and_then(|place| recent.entries.get_mut(place)) {
            self.bytes = self.bytes - before.envelope.text().len() + entry.envelope.text().len();
            *before = entry.clone();
        }
    }

    /// Removes all entries of a topic.
    pub(super) fn remove_all(&mut self, name: &TopicName) {
        let count = self.topics.get(name).map_or(0, |recent| recent.entries.len());
        self.remove(name, count);
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries >= FULL_ENTRIES || self.bytes >= FULL_BYTES
    }

    pub(super) fn is_overfull(&self) -> bool {
        self.bytes >= OVERFULL_BYTES
    }
}

impl Recent {
    fn push(&mut self, entry: &Arc<Entry>) {
        self.ids.insert(entry.envelope.id().clone(), entry.position.offset);
        self.entries.push(entry.clone());
    }

    fn remove(&mut self, count: usize) -> Vec<Arc<Entry>> {
        let removed: Vec<_> = self.entries.drain(..count).collect();
        self.settled += count as u64;
        match self.entries.is_empty() {
            true => self.ids.clear(),
            false => removed.iter().for_each(|entry| _ = self.ids.remove(entry.envelope.id())),
        }
        removed
    }

    pub(super) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The offset of the newest entry.
    pub(super) fn head(&self) -> u64 {
        self.settled + self.entries.len() as u64
    }

    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.entries.last().map(|entry| entry.arrived)
    }

    pub(super) fn find(&self, id: &EnvelopeId) -> Option<&Arc<Entry>> {
        self.ids.get(id).and_then(|offset| self.after(offset - 1).first())
    }

    /// Those after an offset that is not below `settled`.
    pub(super) fn after(&self, offset: u64) -> &[Arc<Entry>] {
        let skip = offset.saturating_sub(self.settled).min(self.entries.len() as u64);
        &self.entries[usize::try_from(skip).expect("not more than a length")..]
    }

    /// Those before an offset.
    pub(super) fn before(&self, offset: u64) -> &[Arc<Entry>] {
        let keep = offset.saturating_sub(self.settled + 1).min(self.entries.len() as u64);
        &self.entries[..usize::try_from(keep).expect("not more than a length")]
    }

    /// Those that arrived before a time.
    pub(super) fn before_time(&self, time: Timestamp) -> &[Arc<Entry>] {
        &self.entries[..self.entries.partition_point(|entry| entry.arrived < time)]
    }
}
