//! The content of events that the bridge sends.
//!
//! Client-server API v1.15, "m.room.message msgtypes", "Rich replies", "Event replacements", "User and room mentions".

use serde_json::{Map, Value, json};

use super::homeserver::KEY_MEMBER;
use crate::platform::{ActionKey, PlatformMessageId, RenderedText};

/// A message. Notices of the bridge itself are `m.notice`, which bots do not answer.
pub(super) fn message(
    key: &ActionKey,
    text: &RenderedText,
    is_notice: bool,
    reply_to: Option<&PlatformMessageId>,
) -> Value {
    let mut content = body(text, is_notice);
    if let Some(target) = reply_to {
        content.insert("m.relates_to".into(), json!({"m.in_reply_to": {"event_id": target.as_str()}}));
    }
    content.insert(KEY_MEMBER.into(), key.as_str().into());
    Value::Object(content)
}

/// What replaces the content of a message. What is around `m.new_content` is for clients that know no replacements.
pub(super) fn replacement(key: &ActionKey, text: &RenderedText, is_notice: bool, target: &PlatformMessageId) -> Value {
    json!({
        "msgtype": message_type(is_notice),
        "body": format!("* {}", text.plain),
        "m.new_content": body(text, is_notice),
        // Nobody is notified of an edit.
        "m.mentions": {},
        "m.relates_to": {"rel_type": "m.replace", "event_id": target.as_str()},
        KEY_MEMBER: key.as_str(),
    })
}

fn body(text: &RenderedText, is_notice: bool) -> Map<String, Value> {
    let mut content = Map::new();
    content.insert("msgtype".into(), message_type(is_notice).into());
    content.insert("body".into(), text.plain.clone().into());
    if text.formatted != text.plain {
        content.insert("format".into(), "org.matrix.custom.html".into());
        content.insert("formatted_body".into(), text.formatted.clone().into());
    }
    let users: Vec<_> = text.mentions.iter().map(|user| user.as_str()).collect();
    let mentions = if users.is_empty() { json!({}) } else { json!({"user_ids": users}) };
    content.insert("m.mentions".into(), mentions);
    content
}

fn message_type(is_notice: bool) -> &'static str {
    if is_notice { "m.notice" } else { "m.text" }
}
