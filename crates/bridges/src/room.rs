//! The interface between the core of a bridge and the room: what the room reports and what it is asked to do.

use std::time::Duration;

use salon_protocol::{
    CHAT_EDIT_METHOD, CHAT_RETRACT_METHOD, Envelope, EnvelopeId, Kind, Message, Participant, ParticipantId,
    PresenceEvent, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A person of the platform as a participant of the room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GhostProfile {
    /// `irc:alice`, in the namespace of the bridge's token.
    pub id: ParticipantId,
    pub name: String,
}

/// Something that a ghost puts into the room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomSpeech {
    Chat { text: String, is_markdown: bool, reply_to: Option<EnvelopeId> },
    Edit { target: EnvelopeId, text: String, is_markdown: bool },
    Retract { target: EnvelopeId },
}

/// What happened in the room, in the order of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomEvent {
    /// The envelope that says so: where to resume.
    pub id: EnvelopeId,
    pub from: ParticipantId,
    /// By the clock of the sender, who can write anything.
    pub sent_at: Option<Timestamp>,
    pub body: RoomEventBody,
}

/// What an envelope means to a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomEventBody {
    Chat {
        text: String,
        is_markdown: bool,
        reply_to: Option<EnvelopeId>,
    },
    Edit {
        target: EnvelopeId,
        text: String,
        is_markdown: bool,
    },
    Retract {
        target: EnvelopeId,
    },
    Call(RoomCall),
    Answer {
        call: EnvelopeId,
        is_error: bool,
        text: String,
    },
    Joined(Participant),
    Left(ParticipantId),
    Held(HeldNotice),
    Decided {
        call: EnvelopeId,
        decision: String,
        by: Option<ParticipantId>,
    },
    /// Nothing that a bridge shows. It still moves the position.
    Unrelated,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomCall {
    pub caller: ParticipantId,
    pub callee: ParticipantId,
    pub tool: String,
    /// As written, or empty.
    pub arguments: String,
}

/// A call that waits for somebody's approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldNotice {
    /// The envelope that is held.
    pub id: EnvelopeId,
    /// `sha256:` and hexadecimal digits: binds a decision to the text.
    pub digest: String,
    pub call: RoomCall,
}

impl RoomEvent {
    /// Reads an envelope. What a bridge does not show is [`RoomEventBody::Unrelated`].
    pub fn read(envelope: &Envelope) -> Self {
        let body = read_body(envelope).unwrap_or(RoomEventBody::Unrelated);
        Self { id: envelope.id().clone(), from: envelope.from().clone(), sent_at: sent_at(envelope), body }
    }
}

fn sent_at(envelope: &Envelope) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct SendingTime {
        ts: String,
    }
    let time: SendingTime = serde_json::from_str(envelope.text()).ok()?;
    Timestamp::parse(&time.ts)
}

fn read_body(envelope: &Envelope) -> Option<RoomEventBody> {
    if envelope.kind() == Kind::Presence {
        let presence = envelope.presence()?;
        return match presence.event {
            PresenceEvent::Join => Some(RoomEventBody::Joined(presence.participant)),
            PresenceEvent::Leave => Some(RoomEventBody::Left(presence.participant.id)),
            PresenceEvent::Heartbeat | PresenceEvent::Status => None,
        };
    }
    match envelope.message()? {
        Message::Request { method, .. } if &**method == "tools/call" => {
            let callee = envelope.to().first()?.clone();
            read_call(envelope.from().clone(), callee, envelope.params()?).map(RoomEventBody::Call)
        }
        Message::Request { .. } => None,
        Message::Response { .. } => {
            let (is_error, text) = read_answer(envelope.payload());
            Some(RoomEventBody::Answer { call: envelope.correlation()?.clone(), is_error, text })
        }
        Message::Notification { method } => read_notification(envelope, method),
    }
}

fn read_notification(envelope: &Envelope, method: &str) -> Option<RoomEventBody> {
    // What is for some participants alone is not for a whole channel.
    let is_public = envelope.to().is_empty();
    let chat = || envelope.chat().map(|chat| (chat.text, chat.format == salon_protocol::ChatFormat::Markdown));
    match method {
        salon_protocol::CHAT_METHOD if is_public => {
            let (text, is_markdown) = chat()?;
            Some(RoomEventBody::Chat { text, is_markdown, reply_to: envelope.correlation().cloned() })
        }
        CHAT_EDIT_METHOD if is_public => {
            let (text, is_markdown) = chat()?;
            Some(RoomEventBody::Edit { target: envelope.correlation()?.clone(), text, is_markdown })
        }
        CHAT_RETRACT_METHOD => Some(RoomEventBody::Retract { target: envelope.correlation()?.clone() }),
        "notifications/approval/requested" if envelope.from().is_host() => {
            #[derive(Deserialize)]
            struct Requested {
                id: EnvelopeId,
                request: String,
                digest: String,
                caller: ParticipantId,
                callee: ParticipantId,
            }
            let held: Requested = serde_json::from_str(envelope.params()?).ok()?;
            let request = Envelope::restore(held.request).ok()?;
            let call = read_call(held.caller, held.callee, request.params()?)?;
            Some(RoomEventBody::Held(HeldNotice { id: held.id, digest: held.digest, call }))
        }
        "notifications/approval/decided" if envelope.from().is_host() => {
            #[derive(Deserialize)]
            struct Decided {
                id: EnvelopeId,
                decision: String,
                by: Option<ParticipantId>,
            }
            let Decided { id, decision, by } = serde_json::from_str(envelope.params()?).ok()?;
            Some(RoomEventBody::Decided { call: id, decision, by })
        }
        _ => None,
    }
}

fn read_call(caller: ParticipantId, callee: ParticipantId, params: &str) -> Option<RoomCall> {
    #[derive(Deserialize)]
    struct Params<'a> {
        name: String,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let Params { name, arguments } = serde_json::from_str(params).ok()?;
    Some(RoomCall { caller, callee, tool: name, arguments: arguments.map_or("", RawValue::get).into() })
}

/// Whether an answer is an error, and its text for people.
fn read_answer(payload: &str) -> (bool, String) {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<Value>,
        error: Option<AnswerError>,
    }
    #[derive(Deserialize)]
    struct AnswerError {
        #[serde(default)]
        message: String,
    }
    let Ok(Answer { result, error }) = serde_json::from_str(payload) else { return (true, String::new()) };
    if let Some(error) = error {
        return (true, error.message);
    }
    let result = result.unwrap_or(Value::Null);
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    (is_error, result_text(&result))
}

/// The text of a tool's result: its text contents, a line each, or its structured content.
pub fn result_text(result: &Value) -> String {
    let contents = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = contents.iter().filter_map(|content| content.get("text")?.as_str()).collect();
    match (texts.is_empty(), result.get("structuredContent")) {
        (false, _) => texts.join("\n"),
        (true, Some(structured)) => structured.to_string(),
        (true, None) if contents.is_empty() => String::new(),
        (true, None) => format!("({} parts without text)", contents.len()),
    }
}

/// Names a request to the room, so that its result can be told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomTicket(pub u64);

/// Something to do in the room. Each is answered once by a [`RoomResult`] with the same ticket, unless the room is entered again before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomAction {
    EnterGhost {
        ticket: RoomTicket,
        ghost: GhostProfile,
    },
    LeaveGhost {
        ticket: RoomTicket,
        ghost: ParticipantId,
    },
    /// Publishes under this id and with this time, so that the room takes it once.
    Publish {
        ticket: RoomTicket,
        id: EnvelopeId,
        at: Timestamp,
        ghost: ParticipantId,
        speech: RoomSpeech,
    },
    /// Says something as the bridge itself.
    Notice {
        ticket: RoomTicket,
        text: String,
    },
    ListTools {
        ticket: RoomTicket,
        participant: Option<ParticipantId>,
    },
    CallTool {
        ticket: RoomTicket,
        ghost: ParticipantId,
        callee: ParticipantId,
        tool: String,
        arguments: Map<String, Value>,
    },
}

impl RoomAction {
    pub fn ticket(&self) -> RoomTicket {
        match self {
            Self::EnterGhost { ticket, .. }
            | Self::LeaveGhost { ticket, .. }
            | Self::Publish { ticket, .. }
            | Self::Notice { ticket, .. }
            | Self::ListTools { ticket, .. }
            | Self::CallTool { ticket, .. } => *ticket,
        }
    }
}

/// What became of a [`RoomAction`]: text for people where there is any.
pub type RoomResult = Result<RoomReply, RoomFailure>;

/// What the room answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomReply {
    Done,
    /// The tools of participants, each with a description.
    Tools(Vec<ToolLine>),
    /// The result of a tool.
    ToolResult {
        is_error: bool,
        text: String,
    },
}

/// A tool that somebody offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLine {
    pub participant: ParticipantId,
    pub name: String,
    pub description: String,
}

/// Why the room did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomFailure {
    /// Not now.
    #[error("{reason}; trying again in {} s", after.as_secs())]
    RetryAfter { after: Duration, reason: String },
    /// The ghost is not in the room (any more).
    #[error("the ghost is not in the room")]
    NotSeated,
    /// An envelope with this id is there: it was published before.
    #[error("it was published before")]
    AlreadyPublished,
    /// Trying the same again is useless.
    #[error("{reason}")]
    Refused { reason: String },
}
