//! How clients open streams at this door.

use std::time::Duration;

use crate::{RoomAnswer, RoomQuery};

/// An event of this door.
pub type Event = crate::Event<McpOpening, RoomAnswer>;

/// An action of this door.
pub type Action = crate::Action<RoomQuery>;

/// How a stream begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum McpOpening {
    /// Both sides speak when they like.
    #[default]
    Duplex,
    /// A request over HTTP; its body is the one frame that comes.
    Post(Post),
    /// A request over HTTP for a stream of events; no frame comes.
    Listen(Listen),
    /// A request of the draft dialect that brings messages or none in the one frame that comes, and waits this long for others.
    Poll(Duration),
}

/// A request that sends something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Post {
    /// Its headers that matter here, their names in lower case.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Answers go to the session's stream, and this one only hears that the message has come (MCP 2024-11-05, HTTP with SSE).
    pub apart: bool,
}

/// A request that listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listen {
    /// The last event its sender has seen.
    pub after: Option<Box<str>>,
    /// Where it is to send messages, when it must be told (MCP 2024-11-05, HTTP with SSE).
    pub endpoint: Option<Box<str>>,
}
