//! What the host of a room works with.

use std::collections::BTreeMap;
use std::sync::Arc;

use salon_control::{Authority, TopicSettings};
use salon_log::{Appended, HeldCall};
use salon_protocol::{
    Draft, Entry, Envelope, EnvelopeId, FailureCause, Participant, ParticipantId, Position, Refusal, Stamp, TopicName,
};
use tokio::sync::watch;

use crate::bell::Bell;
use crate::control::authority;
use crate::cursor::{Cursor, Interest};
use crate::publishing::Publishing;
use crate::receipts::DeliveryReport;
use crate::room::{Room, RoomGuard, closed, now, unwritable};

/// What the host knows of a room, and how it speaks there: as itself, or for a participant that asks it to.
#[derive(Clone)]
pub struct HostAccess {
    pub(crate) room: Arc<Room>,
    /// Keeps the room from being evicted, where nothing else does.
    _visit: Option<Arc<RoomGuard>>,
}

impl HostAccess {
    pub(crate) fn new(room: Arc<Room>) -> Self {
        Self { room, _visit: None }
    }

    /// The same, which keeps the room from being evicted.
    pub(crate) fn visiting(visit: RoomGuard) -> Self {
        Self { room: visit.room().clone(), _visit: Some(Arc::new(visit)) }
    }

    /// The room.
    pub fn topic(&self) -> &TopicName {
        &self.room.topic
    }

    /// Who is here.
    pub fn roster(&self) -> Vec<Arc<Participant>> {
        self.room.attendance().fold().roster().cloned().collect()
    }

    /// Who is here, and what they say that they are doing.
    pub fn roster_with_statuses(&self) -> Vec<Arc<Participant>> {
        self.room.attendance().fold().roster_with_statuses(now())
    }

    /// The settings of the topic, where it has some.
    pub fn settings(&self) -> Option<Arc<TopicSettings>> {
        self.room.attendance().fold().settings().cloned()
    }

    /// The calls that wait for approval.
    pub fn held_calls(&self) -> Vec<HeldCall> {
        self.room.attendance().fold().held_calls().values().cloned().collect()
    }

    /// Why a call that was held will not be stored, where this is known.
    pub fn released(&self, call: &EnvelopeId) -> Option<FailureCause> {
        self.room.attendance().fold().released(call)
    }

    /// Counts the changes of the settings and of the calls that wait for approval.
    pub fn control_changes(&self) -> watch::Receiver<u64> {
        self.room.control_changes.subscribe()
    }

    /// The id of the notice that a call was held by, if it was.
    pub fn hold_notice(&self, call: &EnvelopeId) -> EnvelopeId {
        self.room.notice_id("held", call)
    }

    /// What the topic's settings and a token say of a participant; `None` where they forbid nothing.
    pub fn authority(&self, participant: &ParticipantId, stamp: Option<&Stamp>) -> Option<Authority> {
        authority(self.room.attendance().fold(), participant, stamp)
    }

    /// What became of an entry at the participants that it is for.
    pub fn delivery_report(&self, entry: &Entry) -> DeliveryReport {
        self.room.delivery_report(entry)
    }

    /// The offset up to which each participant that sits at this node was handed everything that it wants.
    pub fn handed(&self) -> BTreeMap<ParticipantId, u64> {
        self.room.handed()
    }

    /// Stores a notice of the gateway's, and waits until this room has folded it.
    pub async fn append(&self, notice: Envelope) -> Result<Appended, Refusal> {
        let appended = self.room.log.append(&self.room.topic, notice).await.map_err(|error| unwritable(&error))?;
        if self.room.folded(appended.entry.position.offset).await { Ok(appended) } else { Err(closed()) }
    }

    /// Somebody who is here.
    pub fn participant(&self, id: &ParticipantId) -> Option<Arc<Participant>> {
        self.room.attendance().fold().participant(id).cloned()
    }

    /// Whether somebody sits on another node and not on this one.
    pub fn is_elsewhere(&self, id: &ParticipantId) -> bool {
        !self.room.attendance().is_seated(id) && self.room.log.is_elsewhere(&self.room.topic, id)
    }

    /// Counts the nodes that are gone; `None` where there is only one.
    pub fn gone(&self) -> Option<watch::Receiver<u64>> {
        self.room.log.gone()
    }

    /// Reads the room after a position, or from now on. Does not keep the room from being evicted.
    pub fn observe(&self, after: Option<Position>, interest: Interest) -> Cursor {
        let began = after.map_or_else(|| self.room.ring().head(), |position| position.offset);
        Cursor::new(self.room.clone(), None, Bell::new(interest, None), began)
    }

    /// Publishes as the host, or as somebody on whose request the host acts.
    pub fn publish(&self, author: &ParticipantId, draft: Draft) -> Publishing {
        self.room.publish(author, draft)
    }
}
