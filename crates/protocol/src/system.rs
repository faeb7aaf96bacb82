//! The payloads of `system` envelopes, which only the gateway writes.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Code, PROTOCOL, Participant, ParticipantId, ParticipantKind, Refusal, Timestamp, TopicName};

/// An id in an object of its own, as the specification has it.
#[derive(Debug, Serialize)]
pub struct WelcomeId<'a> {
    /// The id.
    pub id: &'a ParticipantId,
}

/// What a welcome says of the topic's history.
#[derive(Debug, Serialize)]
pub struct WelcomeHistory<'a> {
    /// Whether pages of it can be had.
    pub enabled: bool,
    /// The longest page.
    pub limit: usize,
    /// The newest envelopes, oldest first; none unless they were asked for.
    pub recent: Vec<&'a RawValue>,
}

/// What a welcome says of what may be sent.
#[derive(Debug, Serialize)]
pub struct WelcomeLimits {
    /// Bytes of one envelope; absent where there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// Bytes of one that answers a call; absent where that is no other limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<usize>,
}

/// The first thing a connection hears. Fields appear under the specification's names and under those that reference clients read.
#[derive(Debug, Serialize)]
pub struct Welcome<'a> {
    event: &'static str,
    r#type: &'static str,
    participant: &'a Participant,
    participant_id: &'a ParticipantId,
    topic: &'a TopicName,
    participants: &'a [&'a Participant],
    history: WelcomeHistory<'a>,
    protocol: &'static str,
    gateway: WelcomeId<'a>,
    limits: WelcomeLimits,
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<&'a str>,
    heartbeat_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ghosts: Option<WelcomeGhosts>,
}

/// What a welcome says to a bridge of the participants that it may speak for.
#[derive(Debug, Serialize)]
pub struct WelcomeGhosts {
    /// The namespaces of their ids.
    pub acts_for: Vec<String>,
    /// How many there may be by the bridge's token; the gateway's own limit may be less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// What they may be.
    pub kinds: Vec<ParticipantKind>,
    /// Whether they may call others.
    pub call: bool,
}

impl<'a> Welcome<'a> {
    /// A welcome to `topic`, where `participants` are the others (MCPx v0 §5.3). `durability` names a setting weaker than the default, and is absent otherwise.
    pub fn new(
        participant: &'a Participant,
        topic: &'a TopicName,
        participants: &'a [&'a Participant],
        history: WelcomeHistory<'a>,
        gateway: &'a ParticipantId,
        limits: WelcomeLimits,
        durability: Option<&'a str>,
    ) -> Self {
        Self {
            event: "welcome",
            r#type: "welcome",
            participant,
            participant_id: &participant.id,
            topic,
            participants,
            history,
            protocol: PROTOCOL,
            gateway: WelcomeId { id: gateway },
            limits,
            durability,
            heartbeat_ms: 0,
            ghosts: None,
        }
    }

    /// With what a bridge may do.
    pub fn with_ghosts(mut self, ghosts: Option<WelcomeGhosts>) -> Self {
        self.ghosts = ghosts;
        self
    }

    /// With the time between two heartbeats. Zero says that none are sent; without it a client cannot know that.
    pub fn with_heartbeat(mut self, every: Option<Duration>) -> Self {
        self.heartbeat_ms = every.map_or(0, |every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

/// A refusal, as MCPx says it.
#[derive(Debug, Serialize)]
pub struct Error<'a> {
    event: &'static str,
    r#type: &'static str,
    code: Code,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

/// What programs should know of an error beyond its code.
#[derive(Debug, Serialize)]
struct Details {
    /// It passes by itself, and the connection stays; a notice follows when it has passed.
    passing: bool,
}

impl<'a> From<&'a Refusal> for Error<'a> {
    fn from(refusal: &'a Refusal) -> Self {
        Self { event: "error", r#type: "error", code: refusal.code, message: &refusal.message, details: None }
    }
}

impl Error<'static> {
    /// Nothing can be stored for now.
    pub fn outage() -> Self {
        let details = Some(Details { passing: true });
        Self { event: "error", r#type: "error", code: Code::Closing, message: OUTAGE, details }
    }
}

/// A request waits for approval.
#[derive(Debug, Serialize)]
pub struct HeldRequest<'a> {
    event: &'static str,
    r#type: &'static str,
    message: String,
    callee: &'a ParticipantId,
    needs: u32,
    expires: Timestamp,
}

impl<'a> HeldRequest<'a> {
    /// A request to `callee` that so many have to approve until a time.
    pub fn new(callee: &'a ParticipantId, needs: u32, expires: Timestamp) -> Self {
        let message = format!("the call to `{callee}` waits for approval; its answer or a refusal follows");
        Self { event: "held", r#type: "held", message, callee, needs, expires }
    }
}

/// A message was stored that names participants that are not in the room.
#[derive(Debug, Serialize)]
pub struct AbsentRecipients<'a> {
    event: &'static str,
    r#type: &'static str,
    message: &'static str,
    participants: &'a [ParticipantId],
}

impl<'a> AbsentRecipients<'a> {
    /// These participants are absent.
    pub fn new(participants: &'a [ParticipantId]) -> Self {
        let message = "the message was stored, and these participants are not in the room to get it now";
        Self { event: "absent", r#type: "absent", message, participants }
    }
}

/// A ghost is present.
#[derive(Debug, Serialize)]
pub struct GhostEntered<'a> {
    event: &'static str,
    r#type: &'static str,
    participant: &'a Participant,
}

impl<'a> GhostEntered<'a> {
    /// The ghost, as everybody sees it.
    pub fn new(participant: &'a Participant) -> Self {
        Self { event: "ghost.entered", r#type: "ghost.entered", participant }
    }
}

/// A ghost leaves.
#[derive(Debug, Serialize)]
pub struct GhostLeft<'a> {
    event: &'static str,
    r#type: &'static str,
    id: &'a ParticipantId,
}

impl<'a> GhostLeft<'a> {
    /// The ghost's id.
    pub fn new(id: &'a ParticipantId) -> Self {
        Self { event: "ghost.left", r#type: "ghost.left", id }
    }
}

/// What is said while nothing can be stored.
pub const OUTAGE: &str = "nothing can be stored at the moment, and nothing new can be heard; it goes on by itself, and this connection stays";

/// What is said when it can be again.
pub const READY: &str = "messages are stored and heard again";

/// An outage is over.
#[derive(Debug, Serialize)]
pub struct Ready {
    event: &'static str,
    r#type: &'static str,
    message: &'static str,
}

impl Default for Ready {
    fn default() -> Self {
        Self { event: "ready", r#type: "ready", message: READY }
    }
}
