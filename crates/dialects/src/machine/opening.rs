//! How clients open streams at this door, and what it asks of the gateway.

use std::sync::Arc;

use salon_protocol::{EnvelopeId, ParticipantId};

use crate::mcp::listing::Item;

pub(super) type Event = crate::Event<MachineOpening, MachineAnswer>;
pub(super) type Action = crate::Action<MachineQuery>;

/// How a stream begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MachineOpening {
    /// Both sides speak when they like.
    #[default]
    Duplex,
    /// A request over HTTP; its body is the one frame that comes.
    Post,
    /// A request over HTTP for a stream of events, after the last event its sender has seen.
    Listen(Option<Box<str>>),
}

/// What this dialect asks of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineQuery {
    /// Which tools a participant offers, by the room's catalogue.
    Tools(ParticipantId),
    /// What the token permits that a call was sent with.
    Permissions {
        /// Whose call it is.
        who: ParticipantId,
        /// Its envelope.
        request: EnvelopeId,
    },
}

/// What it is answered.
#[derive(Debug, Clone)]
pub enum MachineAnswer {
    /// The tools, where they are to be had.
    Tools(ParticipantId, Option<Arc<[Item]>>),
    /// The permissions; none where nothing is known of the call.
    Permissions {
        /// The call's envelope.
        request: EnvelopeId,
        /// What it is permitted.
        granted: Arc<[String]>,
    },
}
