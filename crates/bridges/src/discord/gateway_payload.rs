//! Payloads of Discord's gateway, decoded to what a bridge acts on.
//!
//! Discord API v10, "Gateway Events". Unknown members and events are ignored. An event whose body is malformed is left out and counted as such by
//! the caller: the connection is worth more than one event.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The largest payload that is looked at. A message with everything that Discord allows is far smaller.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// What the gateway says ("Gateway Opcodes").
#[derive(Debug, Clone, PartialEq)]
pub enum GatewayPayload {
    /// 10: begins a connection.
    Hello { heartbeat_interval_ms: u64 },
    /// 11
    HeartbeatAck,
    /// 1: wants a heartbeat now.
    HeartbeatRequest,
    /// 7: wants the client to reconnect and resume.
    Reconnect,
    /// 9
    InvalidSession { is_resumable: bool },
    /// 0
    Dispatch { sequence: u64, event: Box<DiscordEvent> },
    /// Something that a client may ignore.
    Other,
}

/// The events that are bridged.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscordEvent {
    Ready {
        session_id: String,
        resume_url: String,
        user_id: String,
    },
    Resumed,
    MessageCreate(DiscordMessage),
    /// Only what was sent; a message whose embeds were added later has no content here.
    MessageUpdate(DiscordMessage),
    MessageDelete {
        id: String,
        channel_id: String,
    },
    /// Messages deleted at once by a moderator.
    MessageDeleteBulk {
        ids: Vec<String>,
        channel_id: String,
    },
    /// Of a kind that is not bridged.
    Unrelated,
    /// Of a kind that is bridged, and not readable.
    Malformed,
}

/// A message ("Message Object").
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DiscordMessage {
    pub id: String,
    pub channel_id: String,
    pub author: Option<DiscordUser>,
    pub member: Option<DiscordMember>,
    pub content: Option<String>,
    /// RFC 3339.
    pub timestamp: Option<String>,
    pub edited_timestamp: Option<String>,
    #[serde(default)]
    pub mentions: Vec<DiscordUser>,
    #[serde(default)]
    pub attachments: Vec<DiscordAttachment>,
    pub message_reference: Option<DiscordReference>,
    pub webhook_id: Option<String>,
    pub nonce: Option<serde_json::Value>,
    /// 0 is an ordinary message, 19 a reply; the others are notices of Discord itself ("Message Types").
    #[serde(default, rename = "type")]
    pub kind: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DiscordUser {
    pub id: String,
    pub username: String,
    pub global_name: Option<String>,
    #[serde(default)]
    pub bot: bool,
}

impl DiscordUser {
    pub fn shown_name(&self) -> &str {
        self.global_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.username)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DiscordMember {
    pub nick: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DiscordAttachment {
    pub filename: String,
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DiscordReference {
    pub message_id: Option<String>,
    /// 0 is a reply, 1 a forwarded message ("Message Reference Types").
    #[serde(default, rename = "type")]
    pub kind: u32,
}

#[derive(Deserialize)]
struct RawPayload<'a> {
    op: u8,
    s: Option<u64>,
    t: Option<String>,
    #[serde(borrow)]
    d: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawHello {
    heartbeat_interval: u64,
}

#[derive(Deserialize)]
struct RawReady {
    session_id: String,
    resume_gateway_url: String,
    user: RawUserId,
}

#[derive(Deserialize)]
struct RawUserId {
    id: String,
}

#[derive(Deserialize)]
struct RawDelete {
    id: String,
    channel_id: String,
}

#[derive(Deserialize)]
struct RawDeleteBulk {
    ids: Vec<String>,
    channel_id: String,
}

/// Decodes a payload. `None` if it is not one.
pub fn decode(text: &str) -> Option<GatewayPayload> {
    if text.len() > MAX_PAYLOAD_BYTES {
        return None;
    }
    let raw: RawPayload<'_> = serde_json::from_str(text).ok()?;
    let body = raw.d.map_or("null", RawValue::get);
    Some(match raw.op {
        0 => GatewayPayload::Dispatch { sequence: raw.s?, event: Box::new(decode_event(raw.t.as_deref()?, body)) },
        1 => GatewayPayload::HeartbeatRequest,
        7 => GatewayPayload::Reconnect,
        9 => GatewayPayload::InvalidSession { is_resumable: body == "true" },
        10 => {
            let hello: RawHello = serde_json::from_str(body).ok()?;
            GatewayPayload::Hello { heartbeat_interval_ms: hello.heartbeat_interval }
        }
        11 => GatewayPayload::HeartbeatAck,
        _ => GatewayPayload::Other,
    })
}

fn decode_event(name: &str, body: &str) -> DiscordEvent {
    let decoded = match name {
        "READY" => serde_json::from_str(body).map(|ready: RawReady| DiscordEvent::Ready {
            session_id: ready.session_id,
            resume_url: ready.resume_gateway_url,
            user_id: ready.user.id,
        }),
        "RESUMED" => Ok(DiscordEvent::Resumed),
        "MESSAGE_CREATE" => serde_json::from_str(body).map(DiscordEvent::MessageCreate),
        "MESSAGE_UPDATE" => serde_json::from_str(body).map(DiscordEvent::MessageUpdate),
        "MESSAGE_DELETE" => serde_json::from_str(body)
            .map(|RawDelete { id, channel_id }| DiscordEvent::MessageDelete { id, channel_id }),
        "MESSAGE_DELETE_BULK" => serde_json::from_str(body)
            .map(|RawDeleteBulk { ids, channel_id }| DiscordEvent::MessageDeleteBulk { ids, channel_id }),
        _ => Ok(DiscordEvent::Unrelated),
    };
    decoded.unwrap_or(DiscordEvent::Malformed)
}
