//! The connections that stand on a browser's sign-in, so that they end with it.
//!
//! Invariant: a sign-in is known here as long as a [`Visit`] of it lives, and no longer.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::ParticipantId;
use tokio::sync::watch;
use uuid::Uuid;

/// The sign-ins that somebody is connected by.
#[derive(Default)]
pub(super) struct Visits(Mutex<HashMap<Uuid, Known>>);

struct Known {
    who: ParticipantId,
    connections: usize,
    ended: watch::Sender<bool>,
}

/// One connection.
pub(crate) struct Visit {
    visits: Arc<Visits>,
    id: Uuid,
    ended: watch::Receiver<bool>,
}

impl Visits {
    fn known(&self) -> MutexGuard<'_, HashMap<Uuid, Known>> {
        self.0.lock()
    }

    /// Somebody connects by a sign-in; known until the returned value is dropped.
    pub(super) fn hold(self: &Arc<Self>, who: &ParticipantId, id: Uuid) -> Visit {
        let mut known = self.known();
        let entry = known.entry(id);
        let own = entry.or_insert_with(|| Known { who: who.clone(), connections: 0, ended: watch::Sender::new(false) });
        own.connections += 1;
        Visit { visits: self.clone(), id, ended: own.ended.subscribe() }
    }

    /// Tells every connection whose sign-in has ended.
    pub(super) fn tell(&self, has_ended: impl Fn(&ParticipantId, Uuid) -> bool) {
        for (id, own) in &*self.known() {
            if has_ended(&own.who, *id) {
                own.ended.send_replace(true);
            }
        }
    }
}

impl Visit {
    /// Waits for the end of the sign-in.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            if ended.wait_for(|ended| *ended).await.is_err() {
                // Whoever asked is gone with its visit, and has nothing to end.
                std::future::pending().await
            }
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut known = self.visits.known();
        if let Some(own) = known.get_mut(&self.id) {
            own.connections -= 1;
            if own.connections == 0 {
                known.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
impl Visits {
    pub(super) fn count(&self) -> usize {
        self.known().len()
    }
}
