//! What a room appends about presence: joins, leaves, and the repair of what nobody has seen coming.
//!
//! Who joins and leaves is decided by [`Attendance`]; here it becomes envelopes, submitted under the lock of the decision.

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::MutexGuard;
use salon_log::{AppendError, Appended, LogHealth, ReadError};
use salon_protocol::{Compose, EnvelopeId, Kind, Participant, ParticipantId, Presence, PresenceEvent};

use crate::attendance::{Announced, Attendance, Departure};
use crate::room::{Room, now};

impl Room {
    /// Has everybody join again who is connected here and is not present by the log: it may have been out of reach when that was to be
    /// said.
    pub(crate) fn reconcile(&self) {
        let mut attendance = self.attendance();
        self.settle(&mut attendance);
        for participant in attendance.missing(Instant::now()) {
            self.announce(&mut attendance, participant);
        }
    }

    /// Submits a join and does not wait for it.
    pub(crate) fn announce(&self, attendance: &mut Attendance, participant: Arc<Participant>) {
        self.settle(attendance);
        let id = participant.id.clone();
        let (join, append) = self.submit_join(attendance, participant);
        self.announcements().push((id, join, append));
    }

    /// Notes which of the joins that nobody waits for were not stored, so that they are submitted again.
    fn settle(&self, attendance: &mut Attendance) {
        self.announcements().retain_mut(|(id, join, append)| match append.now_or_never() {
            None => true,
            Some(outcome) => {
                if outcome.is_err() {
                    attendance.settled(id, join);
                }
                false
            }
        });
    }

    fn announcements(&self) -> MutexGuard<'_, Vec<(ParticipantId, EnvelopeId, Appending)>> {
        self.announcements.lock()
    }

    /// Submits a join.
    pub(crate) fn submit_join(
        &self,
        attendance: &mut Attendance,
        participant: Arc<Participant>,
    ) -> (EnvelopeId, Appending) {
        let id = random_id();
        let append = self.submit_presence(&id, PresenceEvent::Join, &participant, None);
        attendance.joins(participant, id.clone(), Instant::now());
        (id, append)
    }

    /// Composes a presence envelope and submits it. The caller holds the attendance's lock, which is what keeps presence in order.
    fn submit_presence(
        &self,
        id: &EnvelopeId,
        event: PresenceEvent,
        participant: &Participant,
        reason: Option<String>,
    ) -> Appending {
        let envelope = Compose {
            id: id.as_str(),
            ts: now(),
            from: &ParticipantId::host(),
            to: &[],
            kind: Kind::Presence,
            correlation_id: None,
            payload: Presence { event, participant: participant.clone(), reason },
        }
        .envelope();
        self.log.append(&self.topic, envelope)
    }

    /// Appends the leaves of participants that have gone and are not back, here or on another node. Says whether all of them are stored.
    pub(crate) async fn remove_orphans(&self) -> Result<bool, ReadError> {
        let departed = self.attendance().take_departed();
        if departed.is_empty() {
            return Ok(true);
        }
        let elsewhere = match self.log.roster(&self.topic).await {
            Ok(elsewhere) => elsewhere,
            Err(error) => {
                let mut attendance = self.attendance();
                departed.into_iter().for_each(|(id, reason)| attendance.depart(&id, reason));
                drop(attendance);
                return patiently::<()>(Err(error)).map(|_| false);
            }
        };
        let (mut leaves, mut is_done) = (Vec::new(), true);
        {
            let (mut attendance, now) = (self.attendance(), Instant::now());
            self.settle(&mut attendance);
            for (id, reason) in departed.into_iter().filter(|(id, _)| !elsewhere.contains(id)) {
                match attendance.departure(&id, now) {
                    Departure::Leaves(announced) => {
                        let leave = leave_of(&announced.join, self.common.settings.leaves);
                        let append =
                            self.submit_presence(&leave, PresenceEvent::Leave, &announced.participant, reason.clone());
                        attendance.leaves(&id, leave.clone(), now);
                        leaves.push((announced, reason, leave, append));
                    }
                    Departure::Over => {}
                    Departure::Later => {
                        attendance.depart(&id, reason);
                        is_done = false;
                    }
                }
            }
        }
        for (announced, reason, leave, append) in leaves {
            let id = announced.participant.id.clone();
            let error = match append.await {
                // One that is stored is settled when it is read; that of another node may have been read before.
                Ok(appended) if !appended.repeated => continue,
                outcome => outcome.err(),
            };
            self.attendance().settled(&id, &leave);
            let Some(error) = error else { continue };
            let has_left = match error {
                AppendError::IdConflict => self.leave_otherwise(&announced, &reason, &leave).await,
                // Another node has stored their leave for a later join, which this node has not read.
                AppendError::NotPresent => true,
                AppendError::Unavailable(_) | AppendError::ReadOnly(_) => false,
                error => {
                    tracing::warn!(topic = %self.topic, participant = %id, %error, "presence: leave not stored");
                    true
                }
            };
            if !has_left {
                self.attendance().depart(&id, reason);
                is_done = false;
            }
        }
        Ok(is_done)
    }

    /// Removes somebody whose leave has an id that is taken; says whether they have left. Another node has stored their leave, or
    /// somebody else has taken the id, who cannot keep them here by that.
    async fn leave_otherwise(&self, announced: &Announced, reason: &Option<String>, leave: &EnvelopeId) -> bool {
        let id = &announced.participant.id;
        match self.has_left(id, leave).await {
            Ok(true) => true,
            Err(_) => false,
            Ok(false) => {
                let append = {
                    let (mut attendance, now, leave) = (self.attendance(), Instant::now(), random_id());
                    if attendance.departure(id, now) != Departure::Leaves(announced.clone()) {
                        return true;
                    }
                    attendance.leaves(id, leave.clone(), now);
                    (self.submit_presence(&leave, PresenceEvent::Leave, &announced.participant, reason.clone()), leave)
                };
                let is_stored = matches!(append.0.await, Ok(_) | Err(AppendError::NotPresent));
                if !is_stored {
                    self.attendance().settled(id, &append.1);
                }
                is_stored
            }
        }
    }

    /// Repairs what nobody has seen coming: has those remove who have no place anywhere, and those join again who sit here. Says whether
    /// somebody is to be removed. Where nothing has changed since nothing was to be repaired, it reads no roster.
    pub(crate) async fn repair(&self) -> Result<bool, ReadError> {
        // What is known of places is not to be trusted while they cannot be heard of.
        if *self.log.health().borrow() != LogHealth::Writable {
            return Ok(false);
        }
        // Read before the roster, and after it: what changes between the two is looked at the next time.
        let version = self.log.roster_version(&self.topic);
        let is_announced = self.announcements().is_empty();
        if is_announced && self.attendance().is_settled_at(version) {
            return Ok(false);
        }
        self.reconcile();
        let Some(placed) = patiently(self.log.roster(&self.topic).await)? else { return Ok(false) };
        let version = version.filter(|before| self.log.roster_version(&self.topic).as_ref() == Some(before));
        let mut attendance = self.attendance();
        let departs = attendance.depart_orphaned(&placed, Instant::now());
        attendance.note_repaired(version);
        Ok(departs)
    }

    /// Whether an envelope is somebody's leave.
    async fn has_left(&self, id: &ParticipantId, leave: &EnvelopeId) -> Result<bool, ReadError> {
        let found = self.log.find(&self.topic, leave).await?;
        let presence = found.and_then(|found| found.envelope.presence());
        Ok(presence.is_some_and(|said| said.event == PresenceEvent::Leave && said.participant.id == *id))
    }
}

/// What was read, or nothing where the log was out of reach.
fn patiently<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Err(ReadError::Unavailable(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// An append on its way.
pub(crate) type Appending = BoxFuture<'static, Result<Appended, AppendError>>;

/// The join of somebody who waits to be let in. What becomes of it is noted even when nobody waits any more.
pub(crate) struct Joining {
    room: Arc<Room>,
    participant: ParticipantId,
    join: EnvelopeId,
    append: Option<Appending>,
}

impl Joining {
    pub(crate) fn submit(room: &Arc<Room>, attendance: &mut Attendance, participant: Arc<Participant>) -> Self {
        let id = participant.id.clone();
        let (join, append) = room.submit_join(attendance, participant);
        Self { room: room.clone(), participant: id, join, append: Some(append) }
    }

    /// Waits until it is stored, and says where.
    pub(crate) async fn stored(mut self) -> Result<u64, AppendError> {
        let append = self.append.as_mut().expect("it is taken only below, and when this is dropped");
        let outcome = append.await;
        self.append = None;
        if outcome.is_err() {
            self.room.attendance().settled(&self.participant, &self.join);
        }
        Ok(outcome?.entry.position.offset)
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        if let Some(append) = self.append.take() {
            self.room.announcements().push((self.participant.clone(), self.join.clone(), append));
        }
    }
}

/// A new id, for what a gateway writes of its own accord.
pub fn random_id() -> EnvelopeId {
    EnvelopeId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is an id")
}

/// The id of the leave that ends a join: one and the same on every node, so that however many nodes remove a participant, the leave is stored once. Nobody
/// else can foresee it, and take it first.
fn leave_of(join: &EnvelopeId, secret: [u8; 16]) -> EnvelopeId {
    let id = uuid::Uuid::new_v5(&uuid::Uuid::from_bytes(secret), format!("leave {join}").as_bytes());
    EnvelopeId::new(id.to_string()).expect("a UUID is an id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leave_has_the_same_id_everywhere_and_nobody_else_knows_it() {
        let join = random_id();
        let leave = leave_of(&join, [1; 16]);
        assert_eq!(leave, leave_of(&join, [1; 16]), "two gateways would tell it twice");
        assert_ne!(leave, leave_of(&join, [2; 16]), "it can be derived without the key");
        assert_ne!(leave, leave_of(&random_id(), [1; 16]));
    }
}
