//! What the host of a room works with.

use std::sync::Arc;

use salon_control::{Authority, TopicSettings};
use salon_log::{Appended, HeldCall};
use salon_protocol::{Draft, Envelope, Participant, ParticipantId, Position, Refusal, Stamp, TopicName};
use tokio::sync::watch;

use crate::bell::Bell;
use crate::control::authority;
use crate::cursor::{Cursor, Interest};
use crate::publishing::Publishing;
use crate::room::{Room, closed, unwritable};

/// What the host knows of a room, and how it speaks there: as itself, or for a participant that asks it to.
#[derive(Clone)]
pub struct HostAccess(Arc<Room>);

impl HostAccess {
    pub(crate) fn new(room: Arc<Room>) -> Self {
        Self(room)
    }

    /// The room.
    pub fn topic(&self) -> &TopicName {
        &self.0.topic
    }

    /// Who is here.
    pub fn roster(&self) -> Vec<Arc<Participant>> {
        self.0.attendance().fold().roster().cloned().collect()
    }

    /// The settings of the topic, where it has some.
    pub fn settings(&self) -> Option<Arc<TopicSettings>> {
        self.0.attendance().fold().settings().cloned()
    }

    /// The calls that wait for approval.
    pub fn held_calls(&self) -> Vec<HeldCall> {
        self.0.attendance().fold().held_calls().values().cloned().collect()
    }

    /// What the topic's settings and a token say of a participant; `None` where they forbid nothing.
    pub fn authority(&self, participant: &ParticipantId, stamp: Option<&Stamp>) -> Option<Authority> {
        authority(self.0.attendance().fold(), participant, stamp)
    }

    /// Stores a notice of the gateway's, and waits until this room has folded it.
    pub async fn append(&self, notice: Envelope) -> Result<Appended, Refusal> {
        let appended = self.0.log.append(&self.0.topic, notice).await.map_err(|error| unwritable(&error))?;
        if self.0.folded(appended.entry.position.offset).await { Ok(appended) } else { Err(closed()) }
    }

    /// Somebody who is here.
    pub fn participant(&self, id: &ParticipantId) -> Option<Arc<Participant>> {
        self.0.attendance().fold().participant(id).cloned()
    }

    /// Whether somebody sits on another node and not on this one.
    pub fn is_elsewhere(&self, id: &ParticipantId) -> bool {
        !self.0.attendance().is_seated(id) && self.0.log.is_elsewhere(&self.0.topic, id)
    }

    /// Counts the nodes that are gone; `None` where there is only one.
    pub fn gone(&self) -> Option<watch::Receiver<u64>> {
        self.0.log.gone()
    }

    /// Reads the room after a position, or from now on. Does not keep the room from being evicted.
    pub fn observe(&self, after: Option<Position>, interest: Interest) -> Cursor {
        let began = after.map_or_else(|| self.0.ring().head(), |position| position.offset);
        Cursor::new(self.0.clone(), None, Bell::new(interest, None), began)
    }

    /// Publishes as the host, or as somebody on whose request the host acts.
    pub fn publish(&self, author: &ParticipantId, draft: Draft) -> Publishing {
        self.0.publish(author, draft)
    }
}
