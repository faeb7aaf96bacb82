//! Connections to an existing MCP server: a child process on stdio, or a URL.
//!
//! One [`Connection`] moves raw JSON-RPC messages in one era and keeps its child, its session and its streams in order. [`probe`]
//! finds out which eras a server speaks. Deliberately absent: translation between revisions, ids, callers and restarts, which are
//! their owner's. A message is looked at only as far as its head, and no further than moving it needs.

mod error;
mod frame;
mod http;
mod lanes;
mod legacy_sse;
mod lines;
mod probe;
mod process;
mod stdio;
mod streamable;
mod target;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc;

pub use error::UpstreamError;
pub use probe::{Era, Verdict, Wire, probe};
pub use target::{Setup, Target, UrlTransport};
pub use watch::{Watcher, watch};

/// Messages that may wait between a connection and its owner, each way. Beyond it, whoever sends waits.
const QUEUE: usize = 64;

/// The longest message taken from a server. A longer one ends a stdio connection, and fails the request it came for over HTTP.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// A message on its way to the server.
#[derive(Clone)]
pub struct Outbound {
    /// One JSON-RPC message.
    pub text: Box<str>,
    /// Headers for this message alone: the modern era's `Mcp-Method`, `Mcp-Name` and `Mcp-Param-…`. Unused on stdio.
    /// `MCP-Protocol-Version` and `Mcp-Session-Id` are the connection's own.
    pub headers: Vec<(String, String)>,
}

impl Outbound {
    /// A message without headers.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self { text: text.into(), headers: Vec::new() }
    }
}

/// What is said to a server is between it and its caller: only the size and the names of headers can be printed.
impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Outbound").field("bytes", &self.text.len()).field("headers", &names).finish()
    }
}

/// What comes from the server, or instead of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A JSON-RPC message: an object, never a batch.
    Message {
        /// The message as it came.
        text: Box<str>,
        /// The id, as JSON, of the request on whose HTTP answer it came. `None` on stdio, HTTP+SSE and the GET stream.
        related: Option<Box<str>>,
    },
    /// A request that will get no answer.
    Failed {
        /// Its id, as JSON.
        id: Box<str>,
        /// Why, for a person.
        why: String,
        /// The JSON-RPC error object of the answer, where it had one that did not name the request.
        error: Option<Box<str>>,
    },
    /// The connection is gone. Nothing follows, and requests without an answer will get none.
    Ended {
        /// Why, for a person.
        why: String,
    },
}

/// The sending half of one live connection in one era. Dropping it ends the connection: the child's whole process group is
/// killed, an HTTP session is deleted if that can still be done.
#[derive(Debug)]
pub struct Connection(Inner);

#[derive(Debug)]
enum Inner {
    Stdio(stdio::Stdio),
    Streamable(streamable::Streamable),
    LegacySse(Box<legacy_sse::LegacySse>),
}

impl Connection {
    /// Starts the child, or prepares to speak with the URL (over HTTP+SSE: waits until its endpoint is known). In the legacy era
    /// the handshake is the owner's: `initialize` is a message like any other, and the connection takes the session and the
    /// revision from its answer.
    pub async fn open(
        target: &Target,
        verdict: &Verdict,
        era: Era,
        setup: &Setup,
    ) -> Result<(Self, Inbound), UpstreamError> {
        let (url, headers) = match target {
            Target::Command { program, args, env, cwd } => {
                let command = stdio::Command { program, args, env, cwd: cwd.as_ref() };
                return Self::start(command, setup, stdio::Voice::Plain);
            }
            Target::Url { url, headers, .. } => (url, headers),
        };
        let client = http::Http::new(url, headers)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let inner = match verdict.wire {
            Wire::Sse => Inner::LegacySse(Box::new(legacy_sse::LegacySse::open(client, setup, sender).await?)),
            Wire::Stdio | Wire::Streamable => {
                Inner::Streamable(streamable::Streamable::open(client, era, setup, sender))
            }
        };
        Ok((Self(inner), Inbound { receiver: Some(receiver) }))
    }

    /// Starts a child.
    fn start(
        command: stdio::Command<'_>,
        setup: &Setup,
        voice: stdio::Voice,
    ) -> Result<(Self, Inbound), UpstreamError> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let stdio = stdio::Stdio::start(command, setup, voice, sender)?;
        Ok((Self(Inner::Stdio(stdio)), Inbound { receiver: Some(receiver) }))
    }

    /// Sends one message. Waits while too many are on their way already, so whoever also reads the [`Inbound`] half must not do
    /// both in one sequence. Answers and notifications never wait for requests.
    pub async fn send(&self, message: Outbound) -> Result<(), UpstreamError> {
        match &self.0 {
            Inner::Stdio(stdio) => stdio.send(message).await,
            Inner::Streamable(http) => http.send(message).await,
            Inner::LegacySse(sse) => sse.send(message).await,
        }
    }

    /// Drops the HTTP answer of a request (its id as JSON): in the modern era this cancels the request. Nothing more comes for
    /// it, not even [`Received::Failed`]. Does nothing where answers have no stream of their own.
    pub fn abandon(&self, request_id: &str) {
        match &self.0 {
            Inner::Streamable(http) => http.abandon(request_id),
            Inner::Stdio(_) | Inner::LegacySse(_) => {}
        }
    }

    /// The child's process id, which is also its process group's. With a [`Watcher`] it is the watcher's.
    pub fn process(&self) -> Option<u32> {
        match &self.0 {
            Inner::Stdio(stdio) => stdio.process(),
            Inner::Streamable(_) | Inner::LegacySse(_) => None,
        }
    }

    /// Ends the connection in order. A child's input is closed; if it is still there after `grace`, its process group is asked to
    /// end (SIGTERM), and after `grace` again killed. An HTTP session is deleted within `grace`. The [`Inbound`] half need not be
    /// read meanwhile.
    pub async fn close(self, grace: Duration) {
        match self.0 {
            Inner::Stdio(stdio) => stdio.close(grace).await,
            Inner::Streamable(http) => http.close(grace).await,
            Inner::LegacySse(sse) => sse.close(),
        }
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Inbound {
    receiver: Option<mpsc::Receiver<Received>>,
}

impl Inbound {
    /// What comes next. [`Received::Ended`] is the last; `None` follows it, and comes alone when the connection was closed by its
    /// owner. Cancel-safe.
    pub async fn next(&mut self) -> Option<Received> {
        let received = self.receiver.as_mut()?.recv().await;
        if matches!(received, None | Some(Received::Ended { .. })) {
            self.receiver = None;
        }
        received
    }
}
