//! Keeps the seat of a page that is reloaded.
//!
//! A browser closes its socket when a page is reloaded, and opens the next one a moment later. Without this the person would have left in between:
//! every question to them would have failed, and every call of theirs would be without a caller.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use salon_protocol::{ParticipantId, TopicName};
use salon_rooms::Seat;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How long a seat is kept. Longer than a page takes to load over a slow line, shorter than a caller takes to give up.
const RELOAD_GRACE: Duration = Duration::from_secs(10);

/// Seats without a connection, at most one for each participant of a topic. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SeatKeeper {
    kept: Arc<Mutex<HashMap<(TopicName, ParticipantId), AbortHandle>>>,
    shutdown: watch::Receiver<bool>,
}

impl SeatKeeper {
    pub(crate) fn new(shutdown: watch::Receiver<bool>) -> Self {
        Self { kept: Arc::default(), shutdown }
    }

    /// Holds a seat until the grace is over, the gateway stops, or its participant may not be here any more. Its participant takes another
    /// seat beside it meanwhile, so it must be a shared one.
    pub(crate) fn keep(&self, seat: Seat, access_ended: impl Future<Output = ()> + Send + 'static) {
        let key = (seat.topic().clone(), seat.participant().id.clone());
        let (kept, mut shutdown) = (self.kept.clone(), self.shutdown.clone());
        let mut map = self.kept.lock();
        let of = key.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(RELOAD_GRACE) => {}
                () = access_ended => {}
                _ = shutdown.wait_for(|stopping| *stopping) => {}
            }
            let mut kept = kept.lock();
            if kept.get(&of).is_some_and(|newest| newest.id() == tokio::task::id()) {
                kept.remove(&of);
            }
            drop(kept);
            drop(seat);
        });
        // The newer seat takes the place of the older, which is given up only now: its participant has one at every moment.
        if let Some(older) = map.insert(key, task.abort_handle()) {
            older.abort();
        }
    }
}
