//! Events as a homeserver sends them in transactions, decoded to what a bridge acts on.
//!
//! Matrix application service API v1.15, "Pushing events"; client-server API, "Instant messaging", "Rich replies", "Event replacements",
//! "Redactions". An event that is malformed, or of a type that is not bridged, is left out: a transaction that was refused for one bad
//! event would come again for ever.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Events in a transaction that are looked at. Synapse sends at most 100.
const MAX_EVENTS: usize = 1000;

/// The largest event (client-server API, "Size limits").
const MAX_EVENT_BYTES: usize = 65_536;

/// An id or a name longer than this is no Matrix id (client-server API, "Size limits").
const MAX_ID_BYTES: usize = 255;

/// What happened in a Matrix room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixEvent {
    pub event_id: String,
    pub room_id: String,
    pub sender: String,
    /// Milliseconds since 1970, by the sender's homeserver.
    pub origin_server_ts: u64,
    pub content: MatrixContent,
}

/// The kinds of events that are bridged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatrixContent {
    Message(MatrixMessage),
    /// A message's content was replaced (`m.replace`).
    Replacement {
        of: String,
        by: MatrixMessage,
    },
    Redaction {
        of: String,
    },
    /// The state of a member changed.
    Member {
        user_id: String,
        membership: Membership,
        display_name: Option<String>,
    },
    /// Nobody but the members can read it. A bridge has no keys.
    Encrypted,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MatrixMessage {
    pub kind: MatrixMessageKind,
    pub body: String,
    /// HTML, not yet sanitised.
    pub formatted_body: Option<String>,
    pub reply_to: Option<String>,
    /// Users of `m.mentions`.
    pub mentions: Vec<String>,
    /// An `mxc://` address.
    pub media: Option<String>,
    pub file_name: Option<String>,
    /// What was written with a file (client-server API, "Media captions").
    pub caption: Option<String>,
    /// Whether a bridge of Salon wrote it, this one or another.
    pub is_of_bridge: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MatrixMessageKind {
    #[default]
    Text,
    Emote,
    /// Sent by a bot, to be answered by none ("m.notice").
    Notice,
    Media,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    Invite,
    Join,
    /// Left, was removed or banned.
    Leave,
}

/// A transaction's events that are bridged, in order, and how many were left out as malformed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MatrixTransaction {
    pub events: Vec<MatrixEvent>,
    pub malformed: usize,
}

#[derive(Deserialize)]
struct RawTransaction<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    r#type: String,
    event_id: String,
    room_id: String,
    sender: String,
    #[serde(default)]
    origin_server_ts: u64,
    state_key: Option<String>,
    #[serde(borrow)]
    content: &'a RawValue,
    /// Before room version 11; since then it is in the content.
    redacts: Option<String>,
}

#[derive(Deserialize)]
struct RawMessage {
    msgtype: Option<String>,
    body: Option<String>,
    format: Option<String>,
    formatted_body: Option<String>,
    url: Option<String>,
    filename: Option<String>,
    #[serde(rename = "m.relates_to")]
    relates_to: Option<RawRelation>,
    #[serde(rename = "m.new_content")]
    new_content: Option<Box<RawMessage>>,
    #[serde(rename = "m.mentions")]
    mentions: Option<RawMentions>,
    /// See [`super::homeserver::KEY_MEMBER`].
    #[serde(rename = "chat.salon.key")]
    salon_key: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct RawRelation {
    rel_type: Option<String>,
    event_id: Option<String>,
    #[serde(rename = "m.in_reply_to")]
    in_reply_to: Option<RawReference>,
    /// True where `m.in_reply_to` is only for clients that know no threads.
    #[serde(default)]
    is_falling_back: bool,
}

#[derive(Deserialize)]
struct RawReference {
    event_id: String,
}

#[derive(Deserialize)]
struct RawMentions {
    #[serde(default)]
    user_ids: Vec<String>,
}

#[derive(Deserialize)]
struct RawMember {
    membership: String,
    displayname: Option<String>,
}

#[derive(Deserialize)]
struct RawRedaction {
    redacts: Option<String>,
}

/// Decodes the body of a transaction. `None` where it is no transaction at all.
pub fn decode_transaction(body: &[u8]) -> Option<MatrixTransaction> {
    let raw: RawTransaction<'_> = serde_json::from_slice(body).ok()?;
    let mut transaction = MatrixTransaction::default();
    for event in raw.events.into_iter().take(MAX_EVENTS) {
        match decode_event(event.get()) {
            Ok(Some(event)) => transaction.events.push(event),
            Ok(None) => {}
            Err(Malformed) => transaction.malformed += 1,
        }
    }
    Some(transaction)
}

struct Malformed;

impl From<serde_json::Error> for Malformed {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

fn decode_event(text: &str) -> Result<Option<MatrixEvent>, Malformed> {
    if text.len() > 4 * MAX_EVENT_BYTES {
        // `unsigned` comes on top of what the size limit counts.
        return Err(Malformed);
    }
    let raw: RawEvent<'_> = serde_json::from_str(text)?;
    let content = match raw.r#type.as_str() {
        "m.room.message" | "m.sticker" => decode_message(&raw)?,
        "m.room.redaction" => {
            let inner: RawRedaction = serde_json::from_str(raw.content.get())?;
            inner.redacts.or(raw.redacts.clone()).map(|of| MatrixContent::Redaction { of })
        }
        "m.room.member" => {
            let inner: RawMember = serde_json::from_str(raw.content.get())?;
            let membership = match inner.membership.as_str() {
                "invite" => Some(Membership::Invite),
                "join" => Some(Membership::Join),
                "leave" | "ban" => Some(Membership::Leave),
                _ => None,
            };
            let user_id = raw.state_key.clone().ok_or(Malformed)?;
            membership.map(|membership| MatrixContent::Member { user_id, membership, display_name: inner.displayname })
        }
        "m.room.encrypted" => Some(MatrixContent::Encrypted),
        _ => None,
    };
    let Some(content) = content else { return Ok(None) };
    let ids = [&raw.event_id, &raw.room_id, &raw.sender];
    if ids.iter().any(|id| id.is_empty() || id.len() > MAX_ID_BYTES) || !raw.sender.starts_with('@') {
        return Err(Malformed);
    }
    let RawEvent { event_id, room_id, sender, origin_server_ts, .. } = raw;
    Ok(Some(MatrixEvent { event_id, room_id, sender, origin_server_ts, content }))
}

/// A message or the replacement of one. `None` for what has no text and no media, such as a message that was redacted before it came.
fn decode_message(raw: &RawEvent<'_>) -> Result<Option<MatrixContent>, Malformed> {
    let message: RawMessage = serde_json::from_str(raw.content.get())?;
    let relation = message.relates_to.as_ref();
    let replaced = relation.filter(|relation| relation.rel_type.as_deref() == Some("m.replace"));
    if let Some(of) = replaced.and_then(|relation| relation.event_id.clone()) {
        // Client-server API, "Event replacements": without new content the event is not a valid replacement.
        let Some(new) = message.new_content else { return Err(Malformed) };
        let is_of_bridge = message.salon_key.is_some();
        let by = plain_message(&raw.r#type, *new).map(|by| MatrixMessage { is_of_bridge, ..by });
        return Ok(by.map(|by| MatrixContent::Replacement { of, by }));
    }
    Ok(plain_message(&raw.r#type, message).map(MatrixContent::Message))
}

fn plain_message(event_type: &str, raw: RawMessage) -> Option<MatrixMessage> {
    let kind = match raw.msgtype.as_deref() {
        _ if event_type == "m.sticker" => MatrixMessageKind::Media,
        Some("m.text") => MatrixMessageKind::Text,
        Some("m.emote") => MatrixMessageKind::Emote,
        Some("m.notice") => MatrixMessageKind::Notice,
        Some("m.image" | "m.file" | "m.audio" | "m.video") => MatrixMessageKind::Media,
        _ => return None,
    };
    // An encrypted room's file has no `url`: its key is in `file`, and nobody could read what the link leads to.
    let media = raw.url.filter(|url| kind == MatrixMessageKind::Media && url.starts_with("mxc://"));
    let reply_to = raw
        .relates_to
        .filter(|relation| !(relation.rel_type.as_deref() == Some("m.thread") && relation.is_falling_back))
        .and_then(|relation| relation.in_reply_to)
        .map(|reference| reference.event_id);
    let is_html = raw.format.as_deref() == Some("org.matrix.custom.html");
    let body = raw.body?;
    let file_name = raw.filename.filter(|_| kind == MatrixMessageKind::Media);
    let caption = file_name.as_ref().filter(|name| **name != body).map(|_| body.clone());
    Some(MatrixMessage {
        kind,
        body,
        formatted_body: raw.formatted_body.filter(|_| is_html),
        reply_to,
        mentions: raw.mentions.map(|mentions| mentions.user_ids).unwrap_or_default(),
        media,
        file_name,
        caption,
        is_of_bridge: raw.salon_key.is_some(),
    })
}

/// The server and the media id of an `mxc://` address (client-server API, "Matrix Content (MXC) URIs").
pub fn media_parts(address: &str) -> Option<(&str, &str)> {
    let (server, media) = address.strip_prefix("mxc://")?.split_once('/')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'[' | b']');
    let is_media = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let fits = |text: &str, allowed: &dyn Fn(u8) -> bool| {
        !text.is_empty() && text.len() <= MAX_ID_BYTES && text.bytes().all(allowed)
    };
    (fits(server, &is_name) && fits(media, &is_media)).then_some((server, media))
}
