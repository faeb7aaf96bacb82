//! The memory that the catalogues of all rooms may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use salon_mcp::listing::ListItem;

/// The bytes of lists that all rooms keep together.
const MAX_BYTES: usize = 128 << 20;

/// What an item weighs beyond its text.
pub(super) const OVERHEAD: usize = 128;

/// Room for lists, which all rooms share.
pub(in super::super) struct ListBudget {
    pub(super) used: AtomicUsize,
    pub(super) limit: usize,
}

impl ListBudget {
    pub(in super::super) fn new() -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit: MAX_BYTES })
    }

    /// Takes some of it, until the returned value is dropped.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<TakenBytes> {
        let taken = TakenBytes { budget: self.clone(), bytes };
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        (before + bytes <= self.limit).then_some(taken)
    }
}

pub(super) struct TakenBytes {
    budget: Arc<ListBudget>,
    bytes: usize,
}

impl Drop for TakenBytes {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What an item weighs.
pub(super) fn weight(item: &ListItem) -> usize {
    item.raw.get().len() + item.name.len() + OVERHEAD
}
