//! How a cursor hears of something new: it is rung, or, when it has nothing else to do, handed the batch at once.
//!
//! Waking a task for every reader of every message costs more than the message. A reader that is up to date therefore parks its
//! place here, and the room writes new batches straight to its outlet for as long as the outlet takes them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use salon_protocol::CloseReason;

use crate::batch::Batch;
use crate::cursor::{Deliver, Interest};

/// Somewhere batches can be written without waiting.
pub trait Outlet: Send + Sync {
    /// Takes a whole batch, or none of it.
    fn offer(&self, batch: &Arc<Batch>) -> Offer;
}

/// What an outlet did with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It is on its way.
    Written,
    /// It was taken, but its owner must see to the rest.
    Queued,
    /// It was not taken.
    Busy,
}

/// The place of a cursor that has read everything: the batch that comes next, and the offset before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parked {
    pub(crate) batch: u64,
    pub(crate) at: u64,
}

pub(crate) struct Bell {
    waker: AtomicWaker,
    pub(crate) interest: Interest,
    ended: OnceLock<CloseReason>,
    outlet: OnceLock<Arc<dyn Outlet>>,
    parked: Mutex<Option<Parked>>,
}

impl Bell {
    pub(crate) fn new(interest: Interest) -> Arc<Self> {
        Arc::new(Self {
            waker: AtomicWaker::new(),
            interest,
            ended: OnceLock::new(),
            outlet: OnceLock::new(),
            parked: Mutex::new(None),
        })
    }

    pub(crate) fn attach(&self, outlet: Arc<dyn Outlet>) {
        let _ = self.outlet.set(outlet);
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    fn parked(&self) -> MutexGuard<'_, Option<Parked>> {
        self.parked.lock().expect("no code panics while it holds a parked place")
    }

    /// Leaves a place here. Until it is taken back, the room may move it on.
    pub(crate) fn park(&self, place: Parked) {
        *self.parked() = Some(place);
    }

    /// Takes the place back, as far as the room has moved it.
    pub(crate) fn unpark(&self) -> Option<Parked> {
        self.parked().take()
    }

    /// Tells of new batches, the first of which has the number `first`.
    pub(crate) fn announce(&self, first: u64, batches: &[Arc<Batch>]) {
        let mut parked = self.parked();
        let mut queued = false;
        for (number, batch) in (first..).zip(batches) {
            let Some(place) = &mut *parked else { break };
            let is_next = place.batch == number && batch.after(place.at).len() == batch.entries().len();
            if !is_next || self.ended.get().is_some() || batch.fails_calls() {
                break;
            }
            let taken = match self.wanted(batch) {
                Wanted::Nothing => Offer::Written,
                Wanted::Everything => self.outlet.get().map_or(Offer::Busy, |outlet| outlet.offer(batch)),
                Wanted::Some => Offer::Busy,
            };
            if taken == Offer::Busy {
                break;
            }
            *place = Parked { batch: number + 1, at: batch.last() };
            if taken == Offer::Queued {
                // The rest of it is for the session to write, once the socket takes more.
                queued = true;
                break;
            }
        }
        let is_served = !queued && parked.is_some_and(|place| place.batch == first + batches.len() as u64);
        drop(parked);
        if !is_served {
            self.waker.wake();
        }
    }

    /// Has the cursor look around.
    pub(crate) fn ring(&self) {
        self.waker.wake();
    }

    fn wanted(&self, batch: &Batch) -> Wanted {
        if self.interest.deliver == Deliver::All && !self.interest.without_own {
            return Wanted::Everything;
        }
        let wanted = batch.entries().iter().filter(|entry| self.interest.wants(&entry.envelope)).count();
        match wanted {
            0 => Wanted::Nothing,
            all if all == batch.entries().len() => Wanted::Everything,
            _ => Wanted::Some,
        }
    }

    /// Ends the cursor. The first reason stays.
    pub(crate) fn end(&self, reason: CloseReason) {
        let _ = self.ended.set(reason);
        self.waker.wake();
    }

    pub(crate) fn ended(&self) -> Option<CloseReason> {
        self.ended.get().copied()
    }
}

enum Wanted {
    Nothing,
    Some,
    Everything,
}
