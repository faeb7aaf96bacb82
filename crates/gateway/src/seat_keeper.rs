//! Keeps the seat of a page that is reloaded, and of a bridge that has lost its connection.
//!
//! A browser closes its socket when a page is reloaded, and opens the next one a moment later. Without this the person would have left in between:
//! every question to them would have failed, and every call of theirs would be without a caller. With a bridge all its ghosts would have left.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use salon_protocol::{ParticipantId, TopicName};
use salon_rooms::Seat;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// Seats without a connection, at most one for each participant of a topic. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SeatKeeper {
    kept: Arc<Mutex<HashMap<(TopicName, ParticipantId), AbortHandle>>>,
    grace: Duration,
    shutdown: watch::Receiver<bool>,
}

impl SeatKeeper {
    pub(crate) fn new(grace: Duration, shutdown: watch::Receiver<bool>) -> Self {
        Self { kept: Arc::default(), grace, shutdown }
    }

    /// Holds a seat until the grace is over, the gateway stops, or its participant may not be here any more. Its participant takes another
    /// seat beside it meanwhile, or takes its place; its ghosts stay present until then.
    pub(crate) fn keep(&self, seat: Seat, access_ended: impl Future<Output = ()> + Send + 'static) {
        let key = (seat.topic().clone(), seat.participant().id.clone());
        let (kept, grace, mut shutdown) = (self.kept.clone(), self.grace, self.shutdown.clone());
        let mut map = self.kept.lock();
        // A bridge that was lost again before it had entered its ghosts: those of its last connection are still to be kept.
        if map.contains_key(&key) && seat.ghosts().is_some_and(|ghosts| ghosts.is_empty()) {
            drop(map);
            return drop(seat);
        }
        let of = key.clone();
        let keeping = async move {
            tokio::select! {
                () = tokio::time::sleep(grace) => {}
                () = access_ended => {}
                _ = shutdown.wait_for(|stopping| *stopping) => {}
            }
            let mut kept = kept.lock();
            if kept.get(&of).is_some_and(|newest| newest.id() == tokio::task::id()) {
                kept.remove(&of);
            }
            drop(kept);
            drop(seat);
        };
        let task = tokio::spawn(keeping.in_current_span());
        // The newer seat takes the place of the older, which is given up only now: its participant has one at every moment.
        if let Some(older) = map.insert(key, task.abort_handle()) {
            older.abort();
        }
    }
}
