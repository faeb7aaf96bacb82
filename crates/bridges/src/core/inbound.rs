//! From the platform to the room: what was written down and has not been published yet.
//!
//! Invariant: one thing at a time, in the order of the platform; a row goes when the room has it or refuses it for good.

use std::collections::VecDeque;

use salon_protocol::{EnvelopeId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::platform::PlatformMessageId;
use crate::room::{GhostProfile, RoomSpeech, RoomTicket};

/// Something that a person of the platform wrote, on its way to the room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxRow {
    /// The envelope that it becomes.
    pub envelope: EnvelopeId,
    pub ghost: GhostProfile,
    pub speech: RoomSpeech,
    pub platform_id: Option<PlatformMessageId>,
    /// When it was written: part of the envelope, which is the same whenever it is sent.
    #[serde(with = "super::millis")]
    pub at: Timestamp,
}

/// What is asked of the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InboundRequest {
    Enter(RoomTicket),
    Publish(RoomTicket),
}

#[derive(Debug, Default)]
pub(crate) struct RoomQueue {
    pub(crate) rows: VecDeque<InboxRow>,
    pub(crate) in_flight: Option<InboundRequest>,
    pub(crate) not_before: Option<Timestamp>,
    /// How many messages were not taken, because too many waited.
    pub(crate) left_out: usize,
    pub(crate) is_open: bool,
}

impl RoomQueue {
    pub(crate) fn has(&self, id: &PlatformMessageId) -> bool {
        self.rows.iter().any(|row| row.platform_id.as_ref() == Some(id))
    }

    /// The envelope that a message of the platform will be.
    pub(crate) fn envelope_of(&self, id: &PlatformMessageId) -> Option<&InboxRow> {
        self.rows.iter().find(|row| row.platform_id.as_ref() == Some(id))
    }

    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        let waits = self.is_open && self.in_flight.is_none() && !self.rows.is_empty();
        self.not_before.filter(|_| waits)
    }
}
