//! The Multi-Component Protocol from the client's side: a session over framed TCP, for programs that speak nothing else.
//!
//! Prefer a [`Room`](crate::Room), which does more: this sends, receives and leaves. A lost connection is made good
//! while the session lasts, nothing is sent twice by it, and nothing is handed out twice. Deliberately absent: calls, peers and tools as such; their
//! JSON-RPC messages are payloads like any other.

mod address;
mod message;
mod wire;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use salon_protocol::{EnvelopeId, ParticipantId, TopicName};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::ErrorKind;
use crate::backoff::Backoff;
use wire::{FramedLine, FramedReply};

pub use address::FramedAddress;
pub use message::FramedMessage;

/// What the gateway waits for at the most when it is asked to.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How long an answer may take, beyond the time it was asked to wait.
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// How often a request is tried.
const MAX_TRIES: u32 = 5;

/// Between two tries.
const BACKOFF: Backoff = Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(5) };

/// Why a request came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FramedError {
    /// Nobody answers at the address.
    #[error("the gateway at {address} cannot be reached: {source}")]
    Unreachable {
        /// The address.
        address: Arc<str>,
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// The gateway or the room refused.
    #[error("{message}")]
    Refused {
        /// The code in the answer's header, such as 403.
        code: u16,
        /// The stable word, such as `forbidden`.
        word: String,
        /// A sentence for people.
        message: String,
    },
    /// The answer is not one of this protocol.
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl FramedError {
    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { source, .. } if source.kind() == io::ErrorKind::TimedOut => ErrorKind::TimedOut,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::Refused { code: 401, .. } => ErrorKind::Unauthorized,
            Self::Refused { .. } => ErrorKind::Refused,
            Self::Unreadable(_) => ErrorKind::Malformed,
        }
    }
}

/// How somebody comes in.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FramedEntry {
    /// Where to; may be left out where the token opens exactly one topic.
    pub topic: Option<TopicName>,
    /// Capabilities to show in presence.
    pub capabilities: Vec<String>,
}

impl FramedEntry {
    /// Into the only topic that the token opens, without a word of itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// Into a topic.
    #[must_use]
    pub fn topic(mut self, topic: TopicName) -> Self {
        self.topic = Some(topic);
        self
    }

    /// Says something of itself, for presence.
    #[must_use]
    pub fn capabilities<C: Into<String>>(mut self, capabilities: impl IntoIterator<Item = C>) -> Self {
        self.capabilities = capabilities.into_iter().map(Into::into).collect();
        self
    }
}

/// A session.
///
/// ```no_run
/// # async fn example(token: &str) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use salon_client::{FramedAddress, FramedEntry, FramedSession};
///
/// let address = FramedAddress::new("tcp://127.0.0.1:8788")?;
/// let entry = FramedEntry::new().topic("room:lab".parse()?);
/// let mut session = FramedSession::connect(address, &"lift".parse()?, token, &entry).await?;
/// session.send(&"going up", None).await?;
/// for message in session.receive(Duration::from_secs(30)).await? {
///     println!("{}: {}", message.sender, message.payload);
/// }
/// session.disconnect(Some("shift over")).await?;
/// # Ok(())
/// # }
/// ```
pub struct FramedSession {
    address: FramedAddress,
    /// It is the secret of the session.
    id: Box<str>,
    line: Option<FramedLine>,
    /// What was handed out last, which comes again where that could not be acknowledged.
    handed_out: HashSet<EnvelopeId>,
}

impl fmt::Debug for FramedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramedSession").field("address", &self.address).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConnectBody<'a> {
    client_info: ClientInfo<'a>,
    token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a TopicName>,
}

#[derive(Serialize)]
struct ClientInfo<'a> {
    id: &'a ParticipantId,
    version: &'static str,
    capabilities: &'a [String],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConnectedBody {
    session_id: Box<str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Say<'a, P> {
    session_id: &'a str,
    payload: P,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a ParticipantId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    message_id: EnvelopeId,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceiveBody<'a> {
    session_id: &'a str,
    timeout: u64,
}

#[derive(Deserialize)]
struct ReceivedBody {
    messages: Vec<FramedMessage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Disconnect<'a> {
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl FramedSession {
    /// Begins a session. `who` must be the token's participant.
    pub async fn connect(
        address: FramedAddress,
        who: &ParticipantId,
        token: &str,
        entry: &FramedEntry,
    ) -> Result<Self, FramedError> {
        let client_info = ClientInfo { id: who, version: env!("CARGO_PKG_VERSION"), capabilities: &entry.capabilities };
        let body = ConnectBody { client_info, token, topic: entry.topic.as_ref() };
        let frame = wire::json("CONNECT", &body);
        // Not tried again: a session that began unseen would only be in the way.
        let (line, reply) = try_once(&address, None, &frame, ANSWER_TIME).await?;
        let ConnectedBody { session_id } = reply.body()?;
        Ok(Self { address, id: session_id, line: Some(line), handed_out: HashSet::new() })
    }

    /// Goes on with a session that somebody else has begun, or another run of this program. Nothing is sent before the first request.
    pub fn resume(address: FramedAddress, id: impl Into<Box<str>>) -> Self {
        Self { address, id: id.into(), line: None, handed_out: HashSet::new() }
    }

    /// The session's id. It is a secret: with it anybody can use the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Says something: a text is chat, a JSON-RPC message is that, anything else is data. To nobody in particular is to everybody.
    pub async fn send(
        &mut self,
        payload: &(impl Serialize + ?Sized),
        to: Option<&ParticipantId>,
    ) -> Result<EnvelopeId, FramedError> {
        let body = Say { session_id: &self.id, payload, destination: to };
        let frame = wire::json("SEND", &body);
        let Sent { message_id } = self.ask(&frame, ANSWER_TIME).await?.body()?;
        Ok(message_id)
    }

    /// Sends bytes that are not JSON.
    pub async fn send_bytes(
        &mut self,
        content_type: &str,
        bytes: &[u8],
        to: Option<&ParticipantId>,
    ) -> Result<EnvelopeId, FramedError> {
        let frame = wire::binary(content_type, &self.id, to, bytes);
        let Sent { message_id } = self.ask(&frame, ANSWER_TIME).await?.body()?;
        Ok(message_id)
    }

    /// What is new, oldest first; empty when nothing came in time. The gateway waits 30 s at the most. Asking again acknowledges what was
    /// received before.
    pub async fn receive(&mut self, wait: Duration) -> Result<Vec<FramedMessage>, FramedError> {
        let until = Instant::now() + wait.min(MAX_WAIT);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            let frame = wire::json("RECEIVE", &ReceiveBody { session_id: &self.id, timeout });
            let ReceivedBody { messages } = self.ask(&frame, left.saturating_add(ANSWER_TIME)).await?.body()?;
            // A batch comes again as a whole.
            if messages.iter().any(|message| self.handed_out.contains(&message.id)) {
                continue;
            }
            self.handed_out = messages.iter().map(|message| message.id.clone()).collect();
            return Ok(messages);
        }
    }

    /// Leaves the room; the others see why.
    pub async fn disconnect(mut self, reason: Option<&str>) -> Result<(), FramedError> {
        let frame = wire::json("DISCONNECT", &Disconnect { session_id: &self.id, reason });
        self.ask(&frame, ANSWER_TIME).await.map(drop)
    }

    /// Asks until there is an answer. To the gateway all tries are one request.
    async fn ask(&mut self, frame: &wire::FramedRequest, wait: Duration) -> Result<FramedReply, FramedError> {
        let mut tries = 0;
        loop {
            // Taken while it is in use: a cancelled request leaves a line on which an answer may still come.
            match try_once(&self.address, self.line.take(), frame, wait).await {
                Ok((line, reply)) => {
                    self.line = Some(line);
                    return Ok(reply);
                }
                Err(Failed::Lost(_)) if tries + 1 < MAX_TRIES => {
                    tokio::time::sleep(BACKOFF.delay(tries, rand::random())).await;
                    tries += 1;
                }
                Err(Failed::Refused(line, error)) => {
                    self.line = Some(line);
                    return Err(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How a try came to nothing.
enum Failed {
    /// No answer came. The same request may be sent again.
    Lost(FramedError),
    /// There was an answer, and it was no.
    Refused(FramedLine, FramedError),
    Unreadable(FramedError),
}

impl From<Failed> for FramedError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Lost(error) | Failed::Refused(_, error) | Failed::Unreadable(error) => error,
        }
    }
}

async fn try_once(
    address: &FramedAddress,
    line: Option<FramedLine>,
    frame: &wire::FramedRequest,
    wait: Duration,
) -> Result<(FramedLine, FramedReply), Failed> {
    let unreachable =
        |why: io::Error| FramedError::Unreachable { address: address.shared_text(), source: Arc::new(why) };
    let asked = async {
        let mut line = match line {
            Some(line) => line,
            None => FramedLine::new(address.dial().await?),
        };
        let reply = line.ask(frame).await?;
        Ok::<_, io::Error>((line, reply))
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    let asked = tokio::time::timeout(wait, asked).await.map_err(late).and_then(|asked| asked);
    match asked {
        Ok((line, reply)) => match reply.refusal() {
            Ok(None) => Ok((line, reply)),
            Ok(Some(error)) => Err(Failed::Refused(line, error)),
            Err(error) => Err(Failed::Unreadable(error)),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Failed::Unreadable(FramedError::Unreadable(Arc::new(error))))
        }
        Err(error) => Err(Failed::Lost(unreachable(error))),
    }
}
