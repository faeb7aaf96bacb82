//! The newest entries of a room, in memory, shared by everyone who is nearly up to date.
//!
//! Bounded in bytes, for each room and for all together. Invariant: entries stand in the log's order without a gap among them, so a
//! cursor whose next entry is not here can only have fallen behind, never have missed one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use salon_protocol::Entry;

/// What an entry weighs beyond its text: the parsed head, its allocations, the slot.
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

/// An entry, and whether calls fail by it.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) entry: Arc<Entry>,
    pub(crate) fails_calls: bool,
}

#[derive(Debug)]
pub(crate) struct Ring {
    slots: VecDeque<Slot>,
    /// How many slots were ever evicted: the number of the front slot.
    evicted: u64,
    /// The offset after which the slots are complete.
    complete_after: u64,
    bytes: usize,
    limit: usize,
    budget: Arc<Budget>,
}

impl Ring {
    /// An empty ring, complete from `head` on.
    pub(crate) fn new(head: u64, limit: usize, budget: Arc<Budget>) -> Self {
        Self { slots: VecDeque::new(), evicted: 0, complete_after: head, bytes: 0, limit, budget }
    }

    pub(crate) fn push(&mut self, slot: Slot) {
        let weight = weigh(&slot);
        self.bytes += weight;
        self.budget.used.fetch_add(weight, Ordering::Relaxed);
        self.slots.push_back(slot);
        // The newest entry stays whatever it weighs: its readers are about to come for it.
        while self.slots.len() > 1 && (self.bytes > self.limit || self.budget.is_exceeded()) {
            self.evict();
        }
    }

    /// Forgets everything, because entries are missing before what comes next.
    pub(crate) fn restart(&mut self, head: u64) {
        while !self.slots.is_empty() {
            self.evict();
        }
        self.complete_after = head;
    }

    fn evict(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            let weight = weigh(&slot);
            self.bytes -= weight;
            self.budget.used.fetch_sub(weight, Ordering::Relaxed);
            self.evicted += 1;
            self.complete_after = slot.entry.position.offset;
        }
    }

    /// The offset of the newest entry.
    pub(crate) fn head(&self) -> u64 {
        self.slots.back().map_or(self.complete_after, |slot| slot.entry.position.offset)
    }

    /// The offset after which nothing is missing here.
    pub(crate) fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// The number of the slot that comes next.
    pub(crate) fn next_slot(&self) -> u64 {
        self.evicted + self.slots.len() as u64
    }

    /// The number of the slot that follows an offset; `None` when some entry between is no longer here.
    pub(crate) fn seek(&self, after: u64) -> Option<u64> {
        if after < self.complete_after {
            return None;
        }
        let index = self.slots.partition_point(|slot| slot.entry.position.offset <= after);
        Some(self.evicted + index as u64)
    }

    /// The slots from a number on; `None` when it was evicted.
    pub(crate) fn from(&self, number: u64) -> Option<impl Iterator<Item = &Slot>> {
        let index = usize::try_from(number.checked_sub(self.evicted)?).ok()?;
        Some(self.slots.range(index.min(self.slots.len())..))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn weigh(slot: &Slot) -> usize {
    slot.entry.envelope.text().len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use salon_protocol::{Compose, Kind, ParticipantId, Position, Timestamp};

    fn slot(offset: u64) -> Slot {
        let id = offset.to_string();
        let compose = Compose {
            id: &id,
            ts: Timestamp(0),
            from: &ParticipantId::host(),
            to: &[],
            kind: Kind::System,
            correlation_id: None,
            payload: std::collections::BTreeMap::<String, String>::new(),
        };
        let entry =
            Entry { position: Position { epoch: 1, offset }, arrived: Timestamp(0), envelope: compose.envelope() };
        Slot { entry: Arc::new(entry), fails_calls: false }
    }

    fn offsets(ring: &Ring, after: u64) -> Option<Vec<u64>> {
        let slots = ring.from(ring.seek(after)?)?;
        Some(slots.map(|slot| slot.entry.position.offset).collect())
    }

    #[test]
    fn a_cursor_finds_its_place_or_is_behind() {
        let budget = Arc::new(Budget::new(usize::MAX));
        let mut ring = Ring::new(10, 4 * weigh(&slot(100)), budget.clone());
        assert_eq!(offsets(&ring, 10), Some(vec![]));
        assert_eq!(offsets(&ring, 9), None, "what stands between 9 and 10 is not here");
        for offset in [100, 102, 105, 107] {
            ring.push(slot(offset));
        }
        assert_eq!(offsets(&ring, 10), Some(vec![100, 102, 105, 107]));
        assert_eq!(offsets(&ring, 103), Some(vec![105, 107]));
        ring.push(slot(110));
        assert_eq!(offsets(&ring, 99), None, "100 was evicted");
        assert_eq!(offsets(&ring, 100), Some(vec![102, 105, 107, 110]));
        assert_eq!(ring.head(), 110);
        ring.restart(200);
        assert_eq!(offsets(&ring, 110), None);
        assert_eq!(offsets(&ring, 200), Some(vec![]));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_rings_share_one_budget() {
        let budget = Arc::new(Budget::new(3 * weigh(&slot(100))));
        let mut one = Ring::new(0, usize::MAX, budget.clone());
        let mut two = Ring::new(0, usize::MAX, budget.clone());
        for offset in 100..104 {
            one.push(slot(offset));
        }
        assert_eq!(offsets(&one, 100), Some(vec![101, 102, 103]));
        two.push(slot(100));
        two.push(slot(101));
        assert_eq!(offsets(&two, 100), Some(vec![101]), "the newest stays, the older goes");
        drop(one);
        drop(two);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
