//! How a cursor hears of something new: it is rung, or, when it has nothing else to do, handed the batch at once.
//!
//! Waking a task for every reader of every message costs more than the message. A reader that is up to date therefore parks its
//! place here, and the room writes new batches straight to its outlet for as long as the outlet takes them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::CloseReason;

use crate::batch::Batch;
use crate::control::ReaderCredentials;
use crate::cursor::{Deliver, Interest};

/// Somewhere batches can be written without waiting.
pub trait BatchOutlet: Send + Sync {
    /// Takes a whole batch, or none of it.
    fn offer(&self, batch: &Arc<Batch>) -> OfferOutcome;
}

/// What an outlet did with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferOutcome {
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
    /// Whose reader it is; `None` for the host's, which reads as itself or for nobody.
    pub(crate) credentials: Option<ReaderCredentials>,
    ended: OnceLock<CloseReason>,
    outlet: OnceLock<Arc<dyn BatchOutlet>>,
    parked: Mutex<Option<Parked>>,
    /// The offset up to which its reader was handed everything, while no place is parked.
    handed: AtomicU64,
}

impl Bell {
    pub(crate) fn new(interest: Interest, credentials: Option<ReaderCredentials>) -> Arc<Self> {
        Arc::new(Self {
            waker: AtomicWaker::new(),
            interest,
            credentials,
            ended: OnceLock::new(),
            outlet: OnceLock::new(),
            parked: Mutex::new(None),
            handed: AtomicU64::new(0),
        })
    }

    pub(crate) fn attach(&self, outlet: Arc<dyn BatchOutlet>) {
        let _ = self.outlet.set(outlet);
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    fn parked(&self) -> MutexGuard<'_, Option<Parked>> {
        self.parked.lock()
    }

    /// Leaves a place here. Until it is taken back, the room may move it on.
    pub(crate) fn park(&self, place: Parked) {
        *self.parked() = Some(place);
    }

    /// How far the room has moved the place, while one is here.
    pub(crate) fn parked_at(&self) -> Option<u64> {
        self.parked().as_ref().map(|place| place.at)
    }

    /// Notes up to where the reader was handed everything.
    pub(crate) fn note_handed(&self, at: u64) {
        self.handed.store(at, Ordering::Release);
    }

    /// Up to where the reader was handed everything.
    pub(crate) fn handed(&self) -> u64 {
        self.parked_at().unwrap_or(0).max(self.handed.load(Ordering::Acquire))
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
                BatchInterest::Nothing => OfferOutcome::Written,
                BatchInterest::Everything => self.outlet.get().map_or(OfferOutcome::Busy, |outlet| outlet.offer(batch)),
                BatchInterest::Some => OfferOutcome::Busy,
            };
            if taken == OfferOutcome::Busy {
                break;
            }
            *place = Parked { batch: number + 1, at: batch.last() };
            if taken == OfferOutcome::Queued {
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

    fn wanted(&self, batch: &Batch) -> BatchInterest {
        if self.interest.deliver == Deliver::All && !self.interest.without_own {
            return BatchInterest::Everything;
        }
        let wanted = batch.entries().iter().filter(|entry| self.interest.wants(&entry.envelope)).count();
        match wanted {
            0 => BatchInterest::Nothing,
            all if all == batch.entries().len() => BatchInterest::Everything,
            _ => BatchInterest::Some,
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

enum BatchInterest {
    Nothing,
    Some,
    Everything,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    /// Always does the same with a batch.
    struct Always(OfferOutcome);

    impl BatchOutlet for Always {
        fn offer(&self, _: &Arc<Batch>) -> OfferOutcome {
            self.0
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Announces batch 7 to a cursor parked before it; says how often its task was woken and where its place is then.
    fn announce(outcome: OfferOutcome) -> (usize, Option<u64>) {
        let bell = Bell::new(Interest::default(), None);
        bell.attach(Arc::new(Always(outcome)));
        let woken = Arc::new(Woken::default());
        bell.register(&woken.clone().into());
        bell.park(Parked { batch: 7, at: 100 });
        bell.announce(7, &[Batch::of(&[101])]);
        (woken.0.load(Ordering::Relaxed), bell.unpark().map(|place| place.batch))
    }

    #[test]
    fn only_what_was_written_whole_wakes_nobody() {
        assert_eq!(announce(OfferOutcome::Written), (0, Some(8)));
        assert_eq!(announce(OfferOutcome::Queued), (1, Some(8)), "the session must write the rest");
        assert_eq!(announce(OfferOutcome::Busy), (1, Some(7)), "the session must read it itself");
    }

    #[test]
    fn a_batch_that_was_partly_read_is_not_handed_over() {
        let bell = Bell::new(Interest::default(), None);
        bell.attach(Arc::new(Always(OfferOutcome::Written)));
        bell.park(Parked { batch: 7, at: 101 });
        bell.announce(7, &[Batch::of(&[101])]);
        assert_eq!(bell.unpark(), Some(Parked { batch: 7, at: 101 }));
    }
}
