//! The grammars: each turns what a peer says into drafts, and what happens in the room into what the peer understands.
//!
//! A dialect is a sans-IO state machine, one value per connection: frames and events go in, actions come out, time is an argument.
//! Deliberately absent: sockets, tasks, tokens, rate limits and the room's rules.

pub mod mcp;
pub mod mcpx;
mod stamps;

use std::sync::Arc;
use std::time::Instant;

use salon_protocol::{
    CloseReason, Code, Draft, Entry, EnvelopeId, Participant, ParticipantId, Refusal, RpcId, TopicName,
};

pub use stamps::Stamps;

/// One of the streams a session talks over. A WebSocket has one for life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
}

/// Ties an outcome to the wire message that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What a newcomer is told of the room.
#[derive(Debug, Clone)]
pub struct Joined {
    /// The room.
    pub topic: TopicName,
    /// The newcomer, as everyone sees it.
    pub participant: Arc<Participant>,
    /// Who is here, the newcomer included.
    pub roster: Vec<Arc<Participant>>,
    /// What is kept of the room.
    pub history: History,
    /// A durability weaker than the default, by name.
    pub durability: Option<&'static str>,
}

/// What a newcomer is told of the room's history.
#[derive(Debug, Clone)]
pub struct History {
    /// Whether pages of it can be had.
    pub enabled: bool,
    /// The longest page.
    pub limit: usize,
    /// The newest entries, oldest first, where they were asked for.
    pub recent: Option<Vec<Arc<Entry>>>,
}

/// What happens in the room, or to a draft.
#[derive(Debug, Clone)]
pub enum Event {
    /// The peer has its seat. Always the first event.
    Joined(Joined),
    /// A draft was stored.
    Accepted {
        /// Whose outcome this is.
        ticket: Ticket,
        /// What was stored.
        entry: Arc<Entry>,
        /// Whether it had been stored before.
        repeated: bool,
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
    /// A request of this peer's will not be answered: whom it asked has left, or began anew without having seen it.
    CallFailed {
        /// The request's envelope.
        request: EnvelopeId,
        /// Its JSON-RPC id.
        id: RpcId,
        /// Whom it asked.
        callee: ParticipantId,
    },
    /// Entries the peer has not seen are no longer kept.
    Gap,
    /// The connection is about to end.
    Closing(CloseReason),
}

/// What a dialect wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Propose an envelope to the room.
    Publish(Ticket, Box<Draft>),
    /// Say something to the peer.
    Send(StreamId, Frame),
    /// Say no to the peer, for a reason that is counted.
    Refuse(StreamId, Code, Frame),
    /// End the connection.
    Close(CloseReason),
}

/// A grammar. `handle_*` take what happened and return nothing: bad input becomes the dialect's own error frame or a close.
/// After each, `poll_action` is drained.
pub trait Dialect: Send {
    /// The peer said something.
    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant);

    /// Something happened in the room.
    fn handle_event(&mut self, event: Event, now: Instant);

    /// The moment named by `poll_timeout` has come.
    fn handle_timeout(&mut self, now: Instant);

    /// When to call `handle_timeout`.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next thing to do.
    fn poll_action(&mut self) -> Option<Action>;

    /// Whether every entry becomes one frame of the entry's own text and changes nothing here. Then entries need not pass through
    /// `handle_event` at all, and many can share one encoding.
    fn forwards_entries(&self) -> bool {
        false
    }
}
