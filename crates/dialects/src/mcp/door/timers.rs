//! What falls due when. A thing is due once: set again, it is due at the new moment alone.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::Due;

#[derive(Debug, Default)]
pub(super) struct Timers {
    order: BTreeSet<(Instant, Due)>,
    moments: HashMap<Due, Instant>,
}

impl Timers {
    pub(super) fn set(&mut self, due: Due, at: Instant) {
        self.forget(due);
        self.order.insert((at, due));
        self.moments.insert(due, at);
    }

    pub(super) fn forget(&mut self, due: Due) {
        if let Some(at) = self.moments.remove(&due) {
            self.order.remove(&(at, due));
        }
    }

    pub(super) fn has(&self, due: Due) -> bool {
        self.moments.contains_key(&due)
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The next that is due by now.
    pub(super) fn take(&mut self, now: Instant) -> Option<Due> {
        let &(_, due) = self.order.first().filter(|(at, _)| *at <= now)?;
        self.forget(due);
        Some(due)
    }
}
