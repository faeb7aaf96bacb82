//! The connections that stand on a browser's sign-in, so that they end with it.
//!
//! Invariant: a sign-in is known here as long as a [`SignedInVisit`] of it lives, and no longer.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::ParticipantId;
use tokio::sync::watch;
use uuid::Uuid;

/// The sign-ins that somebody is connected by.
#[derive(Default)]
pub(super) struct Visits(Mutex<HashMap<Uuid, VisitRecord>>);

struct VisitRecord {
    who: ParticipantId,
    connections: usize,
    ended: watch::Sender<bool>,
}

/// One connection.
pub(crate) struct SignedInVisit {
    visits: Arc<Visits>,
    id: Uuid,
    ended: watch::Receiver<bool>,
}

impl Visits {
    fn records(&self) -> MutexGuard<'_, HashMap<Uuid, VisitRecord>> {
        self.0.lock()
    }

    /// Somebody connects by a sign-in; known until the returned value is dropped.
    pub(super) fn hold(self: &Arc<Self>, who: &ParticipantId, id: Uuid) -> SignedInVisit {
        let mut records = self.records();
        let entry = records.entry(id);
        let own =
            entry.or_insert_with(|| VisitRecord { who: who.clone(), connections: 0, ended: watch::Sender::new(false) });
        own.connections += 1;
        SignedInVisit { visits: self.clone(), id, ended: own.ended.subscribe() }
    }

    /// Tells every connection whose sign-in has ended.
    pub(super) fn tell(&self, has_ended: impl Fn(&ParticipantId, Uuid) -> bool) {
        for (id, own) in &*self.records() {
            if has_ended(&own.who, *id) {
                own.ended.send_replace(true);
            }
        }
    }
}

impl SignedInVisit {
    /// Waits for the end of the sign-in.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            if ended.wait_for(|ended| *ended).await.is_err() {
                // The connection that asked is gone with its visit, and has nothing to end.
                std::future::pending().await
            }
        }
    }
}

impl Drop for SignedInVisit {
    fn drop(&mut self) {
        let mut records = self.visits.records();
        if let Some(own) = records.get_mut(&self.id) {
            own.connections -= 1;
            if own.connections == 0 {
                records.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
impl Visits {
    pub(super) fn count(&self) -> usize {
        self.records().len()
    }
}
