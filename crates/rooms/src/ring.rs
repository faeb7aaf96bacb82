//! The newest batches of a room, in memory, shared by everyone who is nearly up to date.
//!
//! Bounded in bytes, for each room and for all together. Invariant: batches stand in the log's order without a gap among them, so a
//! cursor whose next entry is not here can only have fallen behind, never have missed one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use salon_control::RedactedMessage;

use crate::batch::Batch;

/// What an entry weighs beyond its text: the parsed head, its allocations, its place.
const OVERHEAD: usize = 256;

/// The bytes all rings may hold together.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }
}

#[derive(Debug)]
pub(crate) struct Ring {
    batches: VecDeque<Arc<Batch>>,
    /// How many batches were ever evicted: the number of the front one.
    evicted: u64,
    /// The offset after which the batches are complete.
    complete_after: u64,
    bytes: usize,
    limit: usize,
    budget: Arc<Budget>,
}

impl Ring {
    /// An empty ring, complete from `head` on.
    pub(crate) fn new(head: u64, limit: usize, budget: Arc<Budget>) -> Self {
        Self { batches: VecDeque::new(), evicted: 0, complete_after: head, bytes: 0, limit, budget }
    }

    pub(crate) fn push(&mut self, batch: Arc<Batch>) {
        let weight = weigh(&batch);
        self.bytes += weight;
        self.budget.used.fetch_add(weight, Ordering::Relaxed);
        self.batches.push_back(batch);
        // The newest batch stays whatever it weighs: its readers are about to come for it.
        while self.batches.len() > 1 && (self.bytes > self.limit || self.budget.is_exceeded()) {
            self.evict();
        }
    }

    /// Puts a tombstone in the place of a redacted entry, where it is here.
    pub(crate) fn redact(&mut self, message: &RedactedMessage) {
        let place = self.batches.partition_point(|batch| batch.last() < message.offset);
        let Some(batch) = self.batches.get_mut(place) else { return };
        let Some(redacted) = batch.redacted(message) else { return };
        let (before, after) = (weigh(batch), weigh(&redacted));
        *batch = redacted;
        self.bytes = self.bytes - before + after;
        self.budget.used.fetch_add(after, Ordering::Relaxed);
        self.budget.used.fetch_sub(before, Ordering::Relaxed);
    }

    /// Forgets everything, because entries are missing before what comes next.
    pub(crate) fn restart(&mut self, head: u64) {
        while !self.batches.is_empty() {
            self.evict();
        }
        self.complete_after = head;
        // A reader that was up to date is behind now, and finds out that it is.
        self.evicted += 1;
    }

    fn evict(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            let weight = weigh(&batch);
            self.bytes -= weight;
            self.budget.used.fetch_sub(weight, Ordering::Relaxed);
            self.evicted += 1;
            self.complete_after = batch.last();
        }
    }

    /// The offset of the newest entry.
    pub(crate) fn head(&self) -> u64 {
        self.batches.back().map_or(self.complete_after, |batch| batch.last())
    }

    /// The offset after which nothing is missing here.
    pub(crate) fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// The number of the batch that comes next.
    pub(crate) fn next(&self) -> u64 {
        self.evicted + self.batches.len() as u64
    }

    /// The number of the batch that has the entry after an offset; `None` when some entry between is no longer here.
    pub(crate) fn seek(&self, after: u64) -> Option<u64> {
        if after < self.complete_after {
            return None;
        }
        Some(self.evicted + self.batches.partition_point(|batch| batch.last() <= after) as u64)
    }

    /// The batches from a number on; `None` when it was evicted.
    pub(crate) fn from(&self, number: u64) -> Option<impl Iterator<Item = &Arc<Batch>>> {
        let index = usize::try_from(number.checked_sub(self.evicted)?).ok()?;
        Some(self.batches.range(index.min(self.batches.len())..))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The texts count twice: once as they are, once as they are encoded.
fn weigh(batch: &Batch) -> usize {
    let stamps: usize = batch.entries().iter().filter_map(|entry| Some(entry.stamp.as_ref()?.text().len())).sum();
    2 * batch.bytes() + stamps + batch.entries().len() * OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a cursor after an offset would read.
    fn offsets(ring: &Ring, after: u64) -> Option<Vec<u64>> {
        let batches = ring.from(ring.seek(after)?)?;
        let offsets = batches.flat_map(|batch| batch.after(after)).map(|entry| entry.position.offset);
        Some(offsets.collect())
    }

    #[test]
    fn a_cursor_finds_its_place_or_is_behind() {
        let budget = Arc::new(Budget::new(usize::MAX));
        let mut ring = Ring::new(10, 4 * weigh(&Batch::of(&[100])), budget.clone());
        assert_eq!(offsets(&ring, 10), Some(vec![]));
        assert_eq!(offsets(&ring, 9), None, "what stands between 9 and 10 is not here");
        ring.push(Batch::of(&[100, 102]));
        ring.push(Batch::of(&[105, 107]));
        assert_eq!(offsets(&ring, 10), Some(vec![100, 102, 105, 107]));
        assert_eq!(offsets(&ring, 100), Some(vec![102, 105, 107]));
        assert_eq!(offsets(&ring, 103), Some(vec![105, 107]));
        assert_eq!(offsets(&ring, 107), Some(vec![]));
        ring.push(Batch::of(&[110]));
        assert_eq!(offsets(&ring, 100), None, "102 was evicted with its batch");
        assert_eq!(offsets(&ring, 102), Some(vec![105, 107, 110]));
        assert_eq!(ring.head(), 110);
        ring.restart(200);
        assert_eq!(offsets(&ring, 110), None);
        assert_eq!(offsets(&ring, 200), Some(vec![]));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_rings_share_one_budget() {
        let budget = Arc::new(Budget::new(3 * weigh(&Batch::of(&[100]))));
        let mut one = Ring::new(0, usize::MAX, budget.clone());
        let mut two = Ring::new(0, usize::MAX, budget.clone());
        for offset in 100..104 {
            one.push(Batch::of(&[offset]));
        }
        assert_eq!(offsets(&one, 100), Some(vec![101, 102, 103]));
        two.push(Batch::of(&[100]));
        two.push(Batch::of(&[101]));
        assert_eq!(offsets(&two, 100), Some(vec![101]), "the newest stays, the older goes");
        drop(one);
        drop(two);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
