//! Inputs of the model, and effects that it asks its driver for.

use std::sync::Arc;
use std::time::Duration;

use ratatui::crossterm::event::KeyEvent;
use salon_protocol::{Envelope, EnvelopeId, Participant, ParticipantId, Timestamp};
use serde_json::value::RawValue;

use crate::arguments::ArgumentSchema;

/// The moment, by both clocks: one for people, one that never jumps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) wall: Timestamp,
    pub(crate) since_start: Duration,
}

/// A time as people here read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) day: String,
    pub(crate) minute: String,
}

/// How times become days and minutes: the time zone.
pub(crate) type Zone = fn(Timestamp) -> Civil;

/// Ties the outcome of an effect to the request for it.
pub(crate) type ChatTicket = u64;

#[derive(Debug)]
pub(crate) enum ChatInput {
    Key(KeyEvent),
    Paste(String),
    /// Lines, downwards when positive.
    Wheel(isize),
    Resize(u16, u16),
    Tick,
    Envelope(Arc<Envelope>),
    /// Something happened that cannot be had any more.
    Gap,
    Roster(Vec<Participant>),
    Connection(ConnectionStatus),
    Page {
        before: Option<EnvelopeId>,
        page: Result<ChatHistoryPage, String>,
    },
    Tools {
        of: ParticipantId,
        tools: Result<Vec<ChatTool>, String>,
    },
    /// The resources of a participant: URIs and titles.
    Resources {
        of: ParticipantId,
        rows: Result<Vec<(String, String)>, String>,
    },
    /// What a resource says.
    Resource {
        of: ParticipantId,
        uri: String,
        text: Result<String, String>,
    },
    /// A line of chat is in the log.
    Sent(ChatTicket),
    NotSent(ChatTicket, String),
    /// The request of a call is on its way, under this id.
    Called(ChatTicket, EnvelopeId),
    Ended(ChatTicket, CallEnding),
    Question(PersonQuestion),
    /// A question needs no answer any more.
    Withdrawn(EnvelopeId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectionStatus {
    Live,
    /// Connected, and waiting for what the gateway waits for.
    Stalled(String),
    Lost {
        attempt: u32,
        retry_in: Option<Duration>,
        why: String,
    },
    Over(String),
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallEnding {
    /// With an answer, which is in the log.
    Answered,
    /// On the person's request.
    Cancelled,
    Failed(String),
}

#[derive(Debug)]
pub(crate) struct ChatHistoryPage {
    /// Newest first.
    pub(crate) envelopes: Vec<Arc<Envelope>>,
    pub(crate) more: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct ChatTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: ArgumentSchema,
}

/// Something a participant wants to know from the person.
#[derive(Debug, Clone)]
pub(crate) struct PersonQuestion {
    /// The request it came with.
    pub(crate) id: EnvelopeId,
    pub(crate) from: ParticipantId,
    /// What the answer must look like; any text will do without it.
    pub(crate) form: Option<ArgumentSchema>,
}

#[derive(Debug)]
pub(crate) enum QuestionAnswer {
    Text(String),
    Form(Box<RawValue>),
    Declined,
}

#[derive(Debug)]
pub(crate) enum ChatEffect {
    Say {
        ticket: ChatTicket,
        text: String,
    },
    Reply {
        ticket: ChatTicket,
        to: EnvelopeId,
        text: String,
    },
    Edit {
        ticket: ChatTicket,
        original: EnvelopeId,
        text: String,
    },
    Retract {
        ticket: ChatTicket,
        original: EnvelopeId,
    },
    Call {
        ticket: ChatTicket,
        to: ParticipantId,
        tool: String,
        arguments: Box<RawValue>,
    },
    Cancel(ChatTicket),
    Load {
        before: Option<EnvelopeId>,
    },
    ListTools(ParticipantId),
    ListResources(ParticipantId),
    ReadResource {
        of: ParticipantId,
        uri: String,
    },
    Answer {
        question: EnvelopeId,
        answer: QuestionAnswer,
    },
    /// The question was answered elsewhere.
    Forget(EnvelopeId),
    /// Call the person's attention.
    Bell,
    Redraw,
    Quit,
}
