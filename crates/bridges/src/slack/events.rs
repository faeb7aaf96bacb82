//! What Slack sends to the bridge's endpoint, decoded to what a bridge acts on.
//!
//! Slack, "Events API": `url_verification` and `event_callback`; "message event" with its subtypes. What else comes is acknowledged and ignored.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A request of the Events API.
#[derive(Debug, Clone, PartialEq)]
pub enum SlackRequest {
    /// Slack checks that the endpoint is the app's.
    UrlVerification {
        challenge: String,
    },
    Event {
        event_id: String,
        event: Box<SlackEvent>,
    },
    /// Something that is not bridged.
    Other,
}

/// The events that are bridged.
#[derive(Debug, Clone, PartialEq)]
pub enum SlackEvent {
    Message(SlackMessage),
    Changed { channel: String, message: SlackMessage },
    Deleted { channel: String, ts: String, event_ts: String },
    Unrelated,
}

/// A message, as events and the history have it.
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
pub struct SlackMessage {
    /// Only in events.
    pub channel: Option<String>,
    pub subtype: Option<String>,
    pub user: Option<String>,
    pub bot_id: Option<String>,
    /// The name that a bot chose for one message.
    pub username: Option<String>,
    #[serde(default)]
    pub text: String,
    pub ts: String,
    pub thread_ts: Option<String>,
    #[serde(default)]
    pub files: Vec<SlackFile>,
    pub edited: Option<SlackEdited>,
    pub metadata: Option<SlackMetadata>,
    /// Replies in its thread, in the history.
    #[serde(default)]
    pub reply_count: u32,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SlackFile {
    pub name: Option<String>,
    pub permalink: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SlackEdited {
    pub ts: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SlackMetadata {
    pub event_payload: Option<SlackPayload>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SlackPayload {
    pub key: Option<String>,
}

impl SlackMessage {
    /// The bridge's key of a message that the bridge wrote.
    pub fn key(&self) -> Option<&str> {
        self.metadata.as_ref()?.event_payload.as_ref()?.key.as_deref()
    }

    /// The message that this one is a reply to: the first of its thread.
    pub fn thread_root(&self) -> Option<&str> {
        self.thread_ts.as_deref().filter(|root| *root != self.ts)
    }

    /// Whether it is Slack's notice that somebody has entered the channel.
    pub fn is_entry(&self) -> bool {
        matches!(self.subtype.as_deref(), Some("channel_join" | "group_join"))
    }

    /// Whether it is something that a person or a bot wrote. The other subtypes are notices of Slack itself.
    pub fn is_written(&self) -> bool {
        matches!(self.subtype.as_deref(), None | Some("me_message" | "file_share" | "thread_broadcast" | "bot_message"))
    }
}

#[derive(Deserialize)]
struct RawRequest<'a> {
    r#type: String,
    challenge: Option<String>,
    event_id: Option<String>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawKind {
    r#type: String,
    subtype: Option<String>,
}

#[derive(Deserialize)]
struct RawChanged {
    channel: String,
    message: SlackMessage,
    previous_message: Option<RawText>,
}

#[derive(Deserialize)]
struct RawText {
    text: Option<String>,
}

#[derive(Deserialize)]
struct RawDeleted {
    channel: String,
    deleted_ts: String,
    event_ts: Option<String>,
    ts: Option<String>,
}

/// Decodes a request. `None` if it is not one.
pub fn decode(body: &[u8]) -> Option<SlackRequest> {
    let raw: RawRequest<'_> = serde_json::from_slice(body).ok()?;
    Some(match raw.r#type.as_str() {
        "url_verification" => SlackRequest::UrlVerification { challenge: raw.challenge? },
        "event_callback" => {
            let event = raw.event.and_then(|event| decode_event(event.get())).unwrap_or(SlackEvent::Unrelated);
            SlackRequest::Event { event_id: raw.event_id?, event: Box::new(event) }
        }
        _ => SlackRequest::Other,
    })
}

fn decode_event(text: &str) -> Option<SlackEvent> {
    let kind: RawKind = serde_json::from_str(text).ok()?;
    if kind.r#type != "message" {
        return Some(SlackEvent::Unrelated);
    }
    match kind.subtype.as_deref() {
        Some("message_changed") => {
            let changed: RawChanged = serde_json::from_str(text).ok()?;
            // A preview of a link was added, or a reply to it was written.
            let before = changed.previous_message.and_then(|message| message.text);
            let is_same = before.as_deref() == Some(&changed.message.text) || changed.message.edited.is_none();
            let RawChanged { channel, message, .. } = changed;
            Some(if is_same { SlackEvent::Unrelated } else { SlackEvent::Changed { channel, message } })
        }
        Some("message_deleted") => {
            let deleted: RawDeleted = serde_json::from_str(text).ok()?;
            let event_ts = deleted.event_ts.or(deleted.ts).unwrap_or_default();
            Some(SlackEvent::Deleted { channel: deleted.channel, ts: deleted.deleted_ts, event_ts })
        }
        _ => {
            let message: SlackMessage = serde_json::from_str(text).ok()?;
            Some(if message.is_written() { SlackEvent::Message(message) } else { SlackEvent::Unrelated })
        }
    }
}

/// Milliseconds since 1970 of a `ts`, which has seconds and a fraction that makes it unique.
pub fn milliseconds(ts: &str) -> Option<u64> {
    let (seconds, fraction) = ts.split_once('.').unwrap_or((ts, "0"));
    let millis: u64 = fraction.get(..3).unwrap_or("0").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(millis)
}
