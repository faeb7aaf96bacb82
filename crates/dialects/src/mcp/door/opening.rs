//! How clients open streams at this door.

use std::time::Duration;

use super::route::{Body, ErrorBody, PollBody};
use crate::streams::{Bound, Channel, StreamOptions, Streams};
use crate::{EventFrame, RoomAnswer, RoomQuery, StreamId};

/// An event of this door.
pub type DialectEvent = crate::DialectEvent<McpOpening, RoomAnswer>;

/// An action of this door.
pub type DialectAction = crate::DialectAction<RoomQuery>;

/// How a stream begins.
#[derive(Debug, Clone, Default)]
pub enum McpOpening {
    /// Both sides speak when they like.
    #[default]
    Duplex,
    /// A request over HTTP that brings messages.
    Post(Post),
    /// A request over HTTP for a stream of events.
    Listen(Listen),
    /// A request of the draft dialect that brings messages or none, and waits this long for others.
    Poll(Duration, Result<PollBody, ErrorBody>),
}

/// A request that sends something.
#[derive(Debug, Clone)]
pub struct Post {
    /// What it says, or the answer to what cannot be read.
    pub body: Result<Body, ErrorBody>,
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

impl Listen {
    /// Opens the stream of events; returns the channel that it carries.
    pub(in crate::mcp) fn open<Q>(&self, streams: &mut Streams<Q>, stream: StreamId) -> Channel {
        let endpoint =
            self.endpoint.clone().map(|data| EventFrame { name: Some("endpoint"), id: None, retry: None, data });
        streams.listen(stream, self.after.as_deref(), endpoint, true)
    }
}

/// What the streams of a session of this door are held to.
pub(in crate::mcp) fn stream_options(session: Option<Box<str>>) -> StreamOptions {
    StreamOptions {
        // MCP 2025-11-25, "Session Management".
        session_header: session.map(|session| ("mcp-session-id", session)),
        tag: None,
        unread: Bound { count: 256, bytes: 1 << 20 },
        replay: Bound { count: 512, bytes: 4 << 20 },
        polled: Bound { count: 1024, bytes: 16 << 20 },
    }
}
