//! Connections to an existing MCP server: a child process on stdio, or a URL.
//!
//! One [`UpstreamConnection`] moves raw JSON-RPC messages in one era and keeps its child, its session and its streams in order. [`probe`]
//! finds out which eras a server speaks. Deliberately absent: translation between revisions, ids, callers and restarts, which are
//! their owner's. A message is looked at only as far as its head, and no further than moving it needs; only messages to and from a server of
//! the draft dialect of MCP are translated here, so that no code behind the connection need know it.

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
mod user;
mod watch;
mod websocket;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use salon_dialects::mcp::draft::{self, Passed, Translator};
use salon_mcp::RpcHead;
use tokio::sync::mpsc;
use tokio::time::timeout;

pub use error::UpstreamError;
pub use probe::{Era, LegacyDialect, ProbeVerdict, WireKind, probe};
pub use target::{GuestTarget, UpstreamSetup, UrlTransport};
pub use user::GuestUser;
pub use watch::{WATCHER_GRACE, Watcher, watch};

/// Messages that may wait between a connection and its owner, each way. Beyond it, senders wait.
const QUEUE: usize = 64;

/// The longest message taken from a server. A longer one ends a stdio connection, and fails the request it came for over HTTP.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The id of the request by which a server of the draft dialect is left.
const FAREWELL_ID: &str = "salon-shutdown";

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

/// Messages to a server are private: only the size and the names of headers can be printed.
impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Outbound").field("bytes", &self.text.len()).field("headers", &names).finish()
    }
}

/// What comes from the server, or instead of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamMessage {
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
pub struct UpstreamConnection {
    inner: UpstreamTransport,
    interpreter: DraftInterpreter,
    /// Our own way to the receiving half, for what the server need not be asked.
    answers: mpsc::Sender<UpstreamMessage>,
}

/// What stands between MCP and a server that speaks the draft dialect, once that is known.
#[derive(Debug, Clone, Default)]
struct DraftInterpreter(Arc<OnceLock<Mutex<Translator>>>);

impl DraftInterpreter {
    fn get(&self) -> Option<MutexGuard<'_, Translator>> {
        self.0.get().map(|translator| translator.lock())
    }
}

#[derive(Debug)]
enum UpstreamTransport {
    Stdio(stdio::Stdio),
    Streamable(streamable::Streamable),
    LegacySse(Box<legacy_sse::LegacySse>),
    WebSocket(websocket::WebSocketUpstream),
}

impl UpstreamConnection {
    /// Starts the child, or prepares to speak with the URL (over HTTP+SSE: waits until its endpoint is known). In the legacy era
    /// the handshake is the owner's: `initialize` is a message like any other, and the connection takes the session and the
    /// revision from its answer.
    pub async fn open(
        target: &GuestTarget,
        verdict: &ProbeVerdict,
        era: Era,
        setup: &UpstreamSetup,
    ) -> Result<(Self, Inbound), UpstreamError> {
        let (url, headers) = match target {
            GuestTarget::Command { program, args, env, cwd } => {
                let command = stdio::ChildCommand { program, args, env, cwd: cwd.as_ref() };
                return Self::start(command, setup, stdio::StderrVoice::Plain);
            }
            GuestTarget::Url { url, headers, .. } => (url, headers),
        };
        let (sender, receiver) = mpsc::channel(QUEUE);
        let answers = sender.clone();
        let client = || http::HttpUpstream::new(url, headers)?.with_access(setup.access.clone());
        let inner = match verdict.wire {
            WireKind::WebSocket => {
                UpstreamTransport::WebSocket(websocket::WebSocketUpstream::open(url, headers, sender).await?)
            }
            WireKind::Sse => {
                UpstreamTransport::LegacySse(Box::new(legacy_sse::LegacySse::open(client()?, setup, sender).await?))
            }
            WireKind::Stdio | WireKind::Streamable => {
                UpstreamTransport::Streamable(streamable::Streamable::open(client()?, era, setup, sender))
            }
        };
        Ok(Self::of(inner, answers, receiver))
    }

    fn of(
        inner: UpstreamTransport,
        answers: mpsc::Sender<UpstreamMessage>,
        receiver: mpsc::Receiver<UpstreamMessage>,
    ) -> (Self, Inbound) {
        let interpreter = DraftInterpreter::default();
        let inbound = Inbound { receiver: Some(receiver), interpreter: interpreter.clone(), waiting: VecDeque::new() };
        (Self { inner, interpreter, answers }, inbound)
    }

    /// From now on messages to the server are in the draft dialect. Its owner goes on in MCP; the handshake was the owner's.
    pub fn speak_draft(&self) {
        let _ = self.interpreter.0.set(Mutex::default());
    }

    /// Starts a child.
    fn start(
        command: stdio::ChildCommand<'_>,
        setup: &UpstreamSetup,
        voice: stdio::StderrVoice,
    ) -> Result<(Self, Inbound), UpstreamError> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let answers = sender.clone();
        let stdio = stdio::Stdio::start(command, setup, voice, sender)?;
        Ok(Self::of(UpstreamTransport::Stdio(stdio), answers, receiver))
    }

    /// Sends one message. Waits while too many are on their way already, so a task that also reads the [`Inbound`] half must not do
    /// both in one sequence. Answers and notifications never wait for requests.
    pub async fn send(&self, mut message: Outbound) -> Result<(), UpstreamError> {
        let passed = self.interpreter.get().map(|mut translator| translator.to_server(&message.text));
        match passed {
            None => {}
            Some(Passed::On(text)) => message.text = text,
            Some(Passed::Back(text)) => {
                let answer = UpstreamMessage::Message { text, related: None };
                return self.answers.send(answer).await.map_err(|_| UpstreamError::Closed);
            }
        }
        self.say(message).await
    }

    async fn say(&self, message: Outbound) -> Result<(), UpstreamError> {
        match &self.inner {
            UpstreamTransport::Stdio(stdio) => stdio.send(message).await,
            UpstreamTransport::Streamable(http) => http.send(message).await,
            UpstreamTransport::LegacySse(sse) => sse.send(message).await,
            UpstreamTransport::WebSocket(socket) => socket.send(message).await,
        }
    }

    /// Drops the HTTP answer of a request (its id as JSON): in the modern era this cancels the request. Nothing more comes for
    /// it, not even [`UpstreamMessage::Failed`]. Does nothing where answers have no stream of their own.
    pub fn abandon(&self, request_id: &str) {
        match &self.inner {
            UpstreamTransport::Streamable(http) => http.abandon(request_id),
            UpstreamTransport::Stdio(_) | UpstreamTransport::LegacySse(_) | UpstreamTransport::WebSocket(_) => {}
        }
    }

    /// The child's process id, which is also its process group's. With a [`Watcher`] it is the watcher's.
    pub fn process(&self) -> Option<u32> {
        match &self.inner {
            UpstreamTransport::Stdio(stdio) => stdio.process(),
            UpstreamTransport::Streamable(_) | UpstreamTransport::LegacySse(_) | UpstreamTransport::WebSocket(_) => {
                None
            }
        }
    }

    /// Ends the connection in order. A child's input is closed; if it is still there after `grace`, its process group is asked to
    /// end (SIGTERM), and after `grace` again killed. An HTTP session is deleted within `grace`. The [`Inbound`] half need not be
    /// read meanwhile.
    pub async fn close(self, grace: Duration) {
        match self.inner {
            UpstreamTransport::Stdio(stdio) => stdio.close(grace).await,
            UpstreamTransport::Streamable(http) => http.close(grace).await,
            UpstreamTransport::LegacySse(sse) => sse.close(),
            UpstreamTransport::WebSocket(socket) => socket.close(grace).await,
        }
    }

    /// The same, with everything that came meanwhile thrown away. A server of the draft dialect gets `shutdown` before, which it has
    /// `grace` to answer, then `exit`.
    pub async fn end(self, mut inbound: Inbound, grace: Duration) {
        if self.interpreter.get().is_some() {
            let (shutdown, exit) = draft::farewell(FAREWELL_ID);
            let id = format!("\"{FAREWELL_ID}\"");
            let farewell = async {
                if self.say(Outbound::new(shutdown)).await.is_err() {
                    return;
                }
                while let Some(received) = inbound.next().await {
                    let is_over = match &received {
                        UpstreamMessage::Message { text, .. } => {
                            RpcHead::read(text).is_some_and(|head| head.answers(&id))
                        }
                        UpstreamMessage::Failed { id: failed, .. } => **failed == *id,
                        UpstreamMessage::Ended { .. } => true,
                    };
                    if is_over {
                        return;
                    }
                }
            };
            // Delivered or not, this is the last message.
            let _ = timeout(grace, farewell).await;
            let _ = timeout(grace, self.send_last(exit)).await;
        }
        drop(inbound);
        self.close(grace).await;
    }

    /// Sends the last message, and waits until it has gone out where closing would not.
    async fn send_last(&self, text: Box<str>) {
        let message = Outbound::new(text);
        match &self.inner {
            UpstreamTransport::Streamable(http) => http.tell(&message.text).await,
            UpstreamTransport::LegacySse(sse) => sse.tell(&message.text).await,
            // These send what waits before they close.
            UpstreamTransport::Stdio(_) | UpstreamTransport::WebSocket(_) => drop(self.say(message).await),
        }
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Inbound {
    receiver: Option<mpsc::Receiver<UpstreamMessage>>,
    interpreter: DraftInterpreter,
    /// One word of the draft dialect may be several of MCP.
    waiting: VecDeque<UpstreamMessage>,
}

impl Inbound {
    /// What comes next. [`UpstreamMessage::Ended`] is the last; `None` follows it, and comes alone when the connection was closed by its
    /// owner. Cancel-safe.
    pub async fn next(&mut self) -> Option<UpstreamMessage> {
        loop {
            if let Some(received) = self.waiting.pop_front() {
                return Some(received);
            }
            let received = self.receiver.as_mut()?.recv().await;
            if matches!(received, None | Some(UpstreamMessage::Ended { .. })) {
                self.receiver = None;
            }
            match self.interpreter.get() {
                None => return received,
                Some(mut translator) => self.waiting.extend(interpreted(&mut translator, received?)),
            }
        }
    }
}

fn interpreted(translator: &mut Translator, received: UpstreamMessage) -> Vec<UpstreamMessage> {
    match received {
        UpstreamMessage::Message { text, related } => {
            let texts = translator.from_server(&text).into_iter();
            texts.map(|text| UpstreamMessage::Message { text, related: related.clone() }).collect()
        }
        UpstreamMessage::Failed { id, why, error } => {
            let error = translator.failed(&id, error.as_deref());
            vec![UpstreamMessage::Failed { id, why, error }]
        }
        ended @ UpstreamMessage::Ended { .. } => vec![ended],
    }
}
