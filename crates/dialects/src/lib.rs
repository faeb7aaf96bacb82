//! The grammars: each turns what a peer says into drafts, and what happens in the room into what the peer understands.
//!
//! A dialect is a sans-IO state machine, one value per connection: frames and events go in, actions come out, time is an argument.
//! Deliberately absent: sockets, tasks, tokens, rate limits and the room's rules.

mod catalogue;
pub mod framed;
pub mod json_schema;
pub mod machine;
pub mod mcp;
pub mod mcpx;
mod stamps;
mod streams;
mod tool_result;

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_control::ApprovalRequest;
use salon_protocol::{
    CloseReason, Code, Draft, Entry, EnvelopeId, FailureCause, McpVersion, Participant, ParticipantId, Refusal, RpcId,
    TopicName,
};

pub use catalogue::{
    CatalogueAnswer, CatalogueQuery, CatalogueSnapshot, MAX_ROOM_BYTES, MAX_ROOM_ITEMS, Merged, Placement, RoomAnswer,
    RoomQuery, SnapshotBuilder, WAIT_TOOL,
};
pub use stamps::Stamps;

/// How long a call may be held for approval at most, which the rules of topics are bounded by.
const MAX_HOLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// One of the streams a session talks over. A WebSocket has one for life; over HTTP every request is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The stream of a carrier that has only one.
    pub const ONLY: Self = Self(0);
}

/// One message on the wire, without its framing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Text.
    Text(Box<str>),
    /// Bytes.
    Binary(Box<[u8]>),
    /// Outwards only: an entry's text as it stands in the log, shared by all who are sent it.
    Entry(Arc<Entry>),
    /// Outwards only: a server-sent event.
    Event(Box<EventFrame>),
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFrame {
    /// The type of the event, where it has one.
    pub name: Option<&'static str>,
    /// What a reader that reconnects names to have what came after.
    pub id: Option<Box<str>>,
    /// How long a reader waits before it reconnects.
    pub retry: Option<Duration>,
    /// What it says.
    pub data: Box<str>,
}

/// How the answer on a stream begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    /// As HTTP has it.
    pub status: u16,
    /// What follows.
    pub form: BodyForm,
    /// Headers beyond those that follow from the form.
    pub headers: Vec<(&'static str, Box<str>)>,
}

/// What an answer consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// Nothing.
    Empty,
    /// One text frame.
    Json,
    /// Event frames.
    Events,
}

/// How a peer wants to be seen in the room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Introduction {
    /// Its name, unless the token fixes one.
    pub name: Option<Box<str>>,
    /// What it takes requests of.
    pub mcp: McpVersion,
    /// What else it says of itself, in words of its own.
    pub capabilities: Vec<String>,
}

/// Ties an outcome to the wire message that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What a newcomer gets to know of the room.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The room.
    pub topic: TopicName,
    /// The newcomer, as everyone sees it.
    pub participant: Arc<Participant>,
    /// Who is here, the newcomer included.
    pub roster: Vec<Arc<Participant>>,
    /// The newcomer's requests that wait for an answer and whom they ask, the oldest first: its participant may have sat here before, or sit
    /// here by another session.
    pub open_calls: Vec<(EnvelopeId, ParticipantId)>,
    /// What is kept of the room.
    pub history: History,
    /// A durability weaker than the default, by name.
    pub durability: Option<&'static str>,
}

/// What a newcomer gets to know of the room's history.
#[derive(Debug, Clone)]
pub struct History {
    /// Whether pages of it can be had.
    pub enabled: bool,
    /// The longest page.
    pub limit: usize,
    /// The newest entries, oldest first, where they were asked for.
    pub recent: Option<Vec<Arc<Entry>>>,
}

/// What happens in the room, or to a draft. `O` is how streams are opened at the dialect's door, `A` what it is answered that it asks of the
/// gateway.
#[derive(Debug, Clone)]
pub enum DialectEvent<O, A> {
    /// The peer has its seat.
    Joined(Joined),
    /// The peer gets no seat.
    NotJoined(Refusal),
    /// A draft was stored.
    Accepted {
        /// Whose outcome this is.
        ticket: Ticket,
        /// What was stored.
        entry: Arc<Entry>,
        /// Whether it had been stored before.
        repeated: bool,
    },
    /// A draft is a call that is stored once somebody has approved it.
    Held {
        /// Whose outcome this is.
        ticket: Ticket,
        /// What everybody is told of it.
        held: Box<ApprovalRequest>,
    },
    /// A draft that was stored names participants that are not in the room.
    Absent {
        /// The envelope.
        id: EnvelopeId,
        /// Who is not there.
        participants: Vec<ParticipantId>,
    },
    /// A draft was not stored.
    Refused {
        /// Whose outcome this is.
        ticket: Ticket,
        /// Why.
        refusal: Refusal,
    },
    /// The next entry of the room.
    Entry(Arc<Entry>),
    /// A request of this peer's will not be answered.
    CallFailed {
        /// The request's envelope.
        request: EnvelopeId,
        /// Its JSON-RPC id.
        id: RpcId,
        /// Whom it asked.
        callee: ParticipantId,
        /// Why nobody will answer it.
        cause: FailureCause,
        /// Why it was denied, in the approver's words.
        reason: Option<Arc<str>>,
    },
    /// Entries the peer has not seen are no longer kept.
    Gap,
    /// Nothing can be stored for now, and nothing new is delivered. The connection stays.
    Outage,
    /// What could not be stored can be again, and what was stored elsewhere meanwhile comes now.
    Recovered,
    /// The answer to an [`DialectAction::Ask`].
    Answered(A),
    /// The peer opened a stream.
    StreamOpened(StreamId, O),
    /// The peer hung up a stream that was not finished.
    StreamClosed(StreamId),
    /// The connection is about to end.
    Closing(CloseReason),
}

/// What a dialect wants done. `Q` is what it may ask of the gateway.
#[derive(Debug, Clone, PartialEq)]
pub enum DialectAction<Q> {
    /// Take a seat. Only for dialects whose peers introduce themselves; the others have theirs from the beginning.
    Join(Box<Introduction>),
    /// Propose an envelope to the room.
    Publish(Ticket, Box<Draft>),
    /// Propose an answer that the peer knows nothing of, and that is not counted against its rate.
    Reply(Ticket, Box<Draft>),
    /// Begin to answer a stream that is a request.
    Begin(StreamId, StreamHead),
    /// Say something to the peer.
    Send(StreamId, Frame),
    /// Say no to the peer, for a reason that is counted.
    Refuse(StreamId, Code, Frame),
    /// Count a refusal whose answer is a message like any other, as in JSON-RPC.
    Refused(Code),
    /// Nothing more is sent on a stream.
    Finish(StreamId),
    /// Ask the gateway something, which it answers with [`DialectEvent::Answered`].
    Ask(Q),
    /// Why the peer leaves, for the others to see. The close comes after it.
    Farewell(String),
    /// End the connection.
    Close(CloseReason),
}

/// A grammar. `handle_*` take what happened and return nothing: bad input becomes the dialect's own error frame or a close.
/// After each, `poll_action` is drained.
pub trait Dialect: Send {
    /// How peers open streams at its door. The default is a stream on which both sides speak when they like.
    type Opening: Default + Send + 'static;

    /// What it may ask of the gateway; [`Infallible`](std::convert::Infallible) where it asks nothing.
    type Query: Send + 'static;

    /// What it is answered.
    type Answer: Send + 'static;

    /// The peer said something.
    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant);

    /// Something happened in the room.
    fn handle_event(&mut self, event: DialectEvent<Self::Opening, Self::Answer>, now: Instant);

    /// The moment named by `poll_timeout` has come.
    fn handle_timeout(&mut self, now: Instant);

    /// When to call `handle_timeout`.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next thing to do.
    fn poll_action(&mut self) -> Option<DialectAction<Self::Query>>;

    /// Replaces the entries that it may still send, or send again, by what the log has of them now: a redaction may have come after it got them.
    fn refresh(&mut self, _current: &dyn Fn(&Arc<Entry>) -> Arc<Entry>) {}

    /// Whether entries are wanted now. A peer that asks for them has them wait in the room until it does.
    fn ready(&self) -> bool {
        true
    }

    /// Whether what the peer said last counts against its rate even though nothing was published.
    fn is_counted(&self) -> bool {
        true
    }

    /// Whether every entry becomes one frame of the entry's own text and changes nothing here. Then entries need not pass through
    /// `handle_event` at all, and many can share one encoding.
    fn forwards_entries(&self) -> bool {
        false
    }

    /// Whether [`DialectEvent::Accepted`] says something to the peer where the entry is a new one. Where not, the event may come late.
    fn awaits_acceptance(&self) -> bool {
        true
    }
}

/// What everybody is told of an envelope that is held, in the tests of dialects.
#[cfg(test)]
fn held_for_test(envelope: &salon_protocol::Envelope) -> Box<ApprovalRequest> {
    Box::new(ApprovalRequest {
        id: envelope.id().clone(),
        request: envelope.text().to_owned(),
        digest: "sha256:00".to_owned(),
        caller: envelope.from().clone(),
        callee: envelope.to()[0].clone(),
        tool: "t".to_owned(),
        approvers: Vec::new(),
        needs: 2,
        self_approval: false,
        expires: salon_protocol::Timestamp(0),
    })
}
