//! A participant's live place in a room.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use salon_log::Lease;
use salon_protocol::{CloseReason, Draft, Entry, Envelope, Message, Participant, ParticipantId, TopicName};

use crate::bell::BatchOutlet;
use crate::cursor::{Cursor, Happening};
use crate::ghosts::{BridgeSeat, Ghosts};
use crate::publishing::Publishing;
use crate::room::Room;

/// A seat: reads the room from where it began, and publishes to it. Dropping it leaves, unless the participant sits elsewhere.
pub struct Seat {
    // Dropped in this order: who no longer reads has left, and a bridge's ghosts leave before it.
    cursor: Cursor,
    bridge: Option<BridgeSeat>,
    seat_claim: SeatClaim,
}

impl Seat {
    pub(crate) fn new(cursor: Cursor, seat_claim: SeatClaim, bridge: Option<BridgeSeat>) -> Self {
        Self { cursor, bridge, seat_claim }
    }

    /// The room.
    pub fn topic(&self) -> &TopicName {
        &self.seat_claim.room.topic
    }

    /// Who sits here, as everyone sees it.
    pub fn participant(&self) -> &Arc<Participant> {
        &self.seat_claim.participant
    }

    /// The ghosts of a bridge's seat; `None` for a participant that acts for nobody.
    pub fn ghosts(&self) -> Option<Ghosts> {
        self.bridge.as_ref().map(BridgeSeat::ghosts)
    }

    /// Judges a draft and submits it. Drafts enter the log in the order they are published here.
    pub fn publish(&self, draft: Draft) -> Publishing {
        let own = &self.seat_claim.participant.id;
        match &self.bridge {
            Some(bridge) if draft.envelope().from() != own => bridge.publish(draft),
            _ => self.seat_claim.room.publish(own, draft),
        }
    }

    /// The same for an answer that is given in the participant's name without its doing, as one to a `ping`. It is not counted against
    /// its rate: the caller has paid for the question, and must not spend what is the participant's own.
    pub fn reply(&self, draft: Draft) -> Publishing {
        match draft.envelope().message() {
            Some(Message::Response { .. }) => self.seat_claim.room.admit(&self.seat_claim.participant.id, draft),
            _ => self.publish(draft),
        }
    }

    /// The participants that an envelope names and that are not present.
    pub fn absent(&self, envelope: &Envelope) -> Vec<ParticipantId> {
        self.seat_claim.room.absent(envelope)
    }

    /// Says why it is left, for the leave that everybody sees.
    pub fn farewell(&mut self, reason: String) {
        self.seat_claim.farewell(reason);
    }

    /// Counts a message that never became a draft; says how long to wait when there were too many.
    pub fn count_malformed(&self) -> Result<(), Duration> {
        self.seat_claim.room.common.rates.take_message(&self.seat_claim.participant.id)
    }

    /// See [`Cursor::poll_next`].
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<Happening>,
        budget: usize,
    ) -> Poll<Result<(), CloseReason>> {
        self.cursor.poll_next(cx, out, budget)
    }

    /// See [`Cursor::poll_rest`].
    pub fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.cursor.poll_rest(cx)
    }

    /// See [`Cursor::attach`].
    pub fn attach(&self, outlet: Arc<dyn BatchOutlet>) {
        self.cursor.attach(outlet);
    }

    /// See [`Cursor::has_passed`].
    pub fn has_passed(&self, entry: &Entry) -> bool {
        self.cursor.has_passed(entry)
    }

    /// See [`Cursor::current`].
    pub fn current(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        self.cursor.current(entry)
    }

    /// See [`Cursor::lag`].
    pub fn lag(&self) -> u64 {
        self.cursor.lag()
    }
}

/// Being seated: counted in the room, with the lease. Dropping it rises.
pub(crate) struct SeatClaim {
    pub(crate) room: Arc<Room>,
    pub(crate) participant: Arc<Participant>,
    lease: Option<Lease>,
    farewell: Option<String>,
}

impl SeatClaim {
    /// Takes a place whose participant the caller has just counted in the attendance.
    pub(crate) fn new(room: Arc<Room>, participant: Arc<Participant>, lease: Lease) -> Self {
        Self { room, participant, lease: Some(lease), farewell: None }
    }

    /// Says why it is left, for the leave that everybody sees.
    pub(crate) fn farewell(&mut self, reason: String) {
        self.farewell = Some(reason);
    }
}

impl Drop for SeatClaim {
    fn drop(&mut self) {
        // First the lease, so that an observer of the leave finds it released.
        self.lease = None;
        let farewell = self.farewell.take();
        // A gateway that is stopped sends everybody away, and they come back to it, or to another: their places are handed over, with
        // the time to come back that they would have after a crash. A participant that says farewell itself leaves all the same.
        let hands_over = self.room.common.is_dismissed() && farewell.is_none();
        self.room.attendance().rise(&self.participant.id, farewell, hands_over);
        self.room.departure.notify_one();
    }
}
