//! Who brings a room its entries: its task, or the thread that has stored them.
//!
//! Waking a task for a few messages of a small room costs more than delivering them. So the thread that has stored them delivers them, if
//! they are the next ones and the room's task is not about to take others. Only the holder of the room's turn takes entries.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use salon_control::ControlNotice;
use salon_log::TailSink;
use salon_protocol::{CloseReason, Entry, Kind};

use crate::lifecycle::Lifecycle;
use crate::room::Room;

/// How many readers a room may have whose messages are delivered by the thread that stored them. Everybody's messages wait meanwhile.
const MAX_READERS: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RoomTurn {
    is_taken: AtomicBool,
    /// The room's task waits for more comings and goings.
    is_gathering: AtomicBool,
}

/// The turn, until this is dropped.
pub(crate) struct TurnGuard<'a>(&'a RoomTurn);

impl RoomTurn {
    fn try_take(&self) -> Option<TurnGuard<'_>> {
        let taken = self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(TurnGuard(self))
    }

    /// Waits for the turn. The other holder waits for nothing.
    pub(crate) async fn wait(&self) -> TurnGuard<'_> {
        loop {
            if let Some(turn) = self.try_take() {
                return turn;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Says whether the room's task waits for comings and goings alone, and need not be woken for more of them.
    pub(crate) fn set_gathering(&self, is_gathering: bool) {
        self.is_gathering.store(is_gathering, Ordering::SeqCst);
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// Whether entries only say who comes and goes.
pub(crate) fn is_only_presence(entries: &[Arc<Entry>]) -> bool {
    entries.iter().all(|entry| entry.envelope.kind() == Kind::Presence)
}

impl Room {
    /// Takes and delivers entries, if they are next and everything about them is ordinary.
    fn take_next(&self, entries: &[Arc<Entry>]) -> bool {
        let is_ordinary =
            |entry: &Arc<Entry>| entry.envelope.kind() != Kind::Presence && !ControlNotice::is_one(&entry.envelope);
        if !entries.iter().all(is_ordinary) || self.reader_count() > MAX_READERS || !self.is_open() {
            return false;
        }
        let Some(_turn) = self.turn.try_take() else { return false };
        // Every topic's messages wait for this thread, so it does not wait for one room.
        if self.is_attendance_busy() {
            return false;
        }
        // Without a hole before them, or the tail has entries that come first.
        if !entries.iter().zip(self.head() + 1..).all(|(entry, next)| entry.position.offset == next) {
            return false;
        }
        let Some(taken) = self.fold_in(entries.to_vec()) else { return false };
        for bell in self.bells_for(&taken.batches) {
            bell.announce(taken.first, &taken.batches);
        }
        self.report(&taken);
        true
    }
}

impl TailSink for Room {
    fn take_now(&self, entries: &[Arc<Entry>]) -> bool {
        // A panic ends the room, as one of its task does, and not the log.
        catch_unwind(AssertUnwindSafe(|| self.take_next(entries))).unwrap_or_else(|_| {
            tracing::error!(topic = %self.topic, "room: panicked and was closed; this is a defect");
            self.advance(Lifecycle::Ended(CloseReason::Internal));
            self.departure.notify_one();
            true
        })
    }

    fn is_urgent(&self, entries: &[Arc<Entry>]) -> bool {
        !self.turn.is_gathering.load(Ordering::SeqCst) || !is_only_presence(entries)
    }
}
