//! Tombstones: what stands in the log in place of a message that was redacted.
//!
//! A tombstone keeps what routing needs (sender, recipients, the JSON-RPC head), so that presence and calls follow from it as they did
//! from the message. It is recognized by the envelope's member `redacted`, which only the gateway writes.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    CHAT_EDIT_METHOD, CHAT_METHOD, Envelope, Kind, Members, Message, PROTOCOL, ParticipantId, Presence, PresenceEvent,
    RpcError, Timestamp, rpc,
};

/// What is shown in place of a redacted text.
pub const REDACTED_TEXT: &str = "(redacted)";

/// The member `redacted` of a tombstone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redaction {
    /// The participant that redacted the message.
    pub by: ParticipantId,
    /// When.
    pub at: Timestamp,
    /// The SHA-256 of the message's text, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Envelope {
    /// What takes the place of this envelope. `None` for the gateway's own presence, but for what a participant says of itself there.
    pub fn tombstone(&self, redaction: &Redaction) -> Option<Self> {
        self.tombstone_around(redaction, None)
    }

    /// The same with parameters in place of those that a tombstone has by itself.
    pub fn tombstone_around(&self, redaction: &Redaction, params: Option<&RawValue>) -> Option<Self> {
        #[derive(Serialize)]
        struct Tombstone<'a> {
            protocol: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            from_session: Option<&'a crate::SessionId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            to_session: Option<&'a crate::SessionId>,
            id: &'a crate::EnvelopeId,
            ts: &'a RawValue,
            from: &'a ParticipantId,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            to: &'a [ParticipantId],
            kind: Kind,
            #[serde(skip_serializing_if = "Option::is_none")]
            correlation_id: Option<&'a crate::EnvelopeId>,
            redacted: &'a Redaction,
            payload: Box<RawValue>,
        }
        #[derive(Deserialize)]
        struct Time<'a> {
            #[serde(borrow)]
            ts: &'a RawValue,
        }
        let Time { ts } = serde_json::from_str(self.text()).ok()?;
        let payload = match self.message() {
            None => to_raw_value(&self.status_without_text()?).ok()?,
            Some(Message::Request { id, method }) => {
                let empty = RawValue::from_string("{}".into()).ok()?;
                rpc::request(id.to_raw(), method, Some(params.unwrap_or(&empty)))
            }
            Some(Message::Notification { method }) => {
                let kept = kept_params(method, self.params());
                rpc::notification(method, Some(params.unwrap_or(&kept)))
            }
            Some(Message::Response { id, .. }) => {
                rpc::failure(&id.to_raw(), &RpcError::new(RpcError::SERVER_ERROR, REDACTED_TEXT))
            }
        };
        let tombstone = Tombstone {
            protocol: PROTOCOL,
            from_session: self.from_session(),
            to_session: self.to_session(),
            id: self.id(),
            ts,
            from: self.from(),
            to: self.to(),
            kind: self.kind(),
            correlation_id: self.correlation(),
            redacted: redaction,
            payload,
        };
        Self::restore(serde_json::to_string(&tombstone).ok()?).ok()
    }

    /// What a participant says that it is doing, without its own words.
    fn status_without_text(&self) -> Option<Presence> {
        let mut presence = self.presence().filter(|said| said.event == PresenceEvent::Status)?;
        presence.participant.status.as_mut()?.text = None;
        Some(presence)
    }
}

/// What is left of the parameters of a notification: which call it is about. A chat line needs a text.
fn kept_params(method: &str, params: Option<&str>) -> Box<RawValue> {
    let members = params.and_then(Members::parse).unwrap_or_default();
    let mut kept = Members::default();
    let names: &[&str] = match method {
        CHAT_METHOD | CHAT_EDIT_METHOD => {
            return to_raw_value(&json!({ "text": REDACTED_TEXT })).expect("a text is JSON");
        }
        "notifications/cancelled" => &["requestId"],
        "notifications/progress" => &["progressToken", "progress", "total"],
        "notifications/message_acknowledged" => &["original_id"],
        _ => &[],
    };
    for name in names {
        if let Some(value) = members.get(name) {
            kept.set(name, value);
        }
    }
    kept.to_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone(envelope: &str) -> Envelope {
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00.5Z","from":"alice","secret":"member",{envelope}}}"#
        );
        let redaction = Redaction {
            by: ParticipantId::new("carol").expect("a name"),
            at: Timestamp(0),
            digest: "sha256:00".into(),
            reason: Some("leaked".into()),
        };
        let original = Envelope::restore(text).expect("an envelope");
        let tombstone = original.tombstone(&redaction).expect("a tombstone");
        assert!(!tombstone.text().contains("secret"), "{}", tombstone.text());
        assert_eq!(tombstone.redaction(), Some(redaction));
        assert!(tombstone.is_redacted() && !original.is_redacted());
        assert_eq!((tombstone.id(), tombstone.from(), tombstone.to()), (original.id(), original.from(), original.to()));
        assert_eq!((tombstone.correlation(), tombstone.kind()), (original.correlation(), original.kind()));
        tombstone
    }

    #[test]
    fn a_tombstone_keeps_what_routing_needs_and_no_text() {
        let chat = tombstone(
            r#""to":["bob"],"correlation_id":"e0","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"secret","x":"secret"}}"#,
        );
        assert_eq!(
            chat.text(),
            r#"{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00.5Z","from":"alice","to":["bob"],"kind":"mcp","correlation_id":"e0","redacted":{"by":"carol","at":"1970-01-01T00:00:00.000Z","digest":"sha256:00","reason":"leaked"},"payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"(redacted)"}}}"#
        );
        let request = tombstone(
            r#""to":["bob"],"from_session":"s1","kind":"mcp","payload":{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"secret"}}"#,
        );
        assert_eq!(request.payload(), r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{}}"#);
        assert!(request.from_session().is_some());
        let answer = tombstone(
            r#""to":["bob"],"correlation_id":"r1","kind":"mcp","payload":{"jsonrpc":"2.0","id":"7","result":{"content":"secret"}}"#,
        );
        assert_eq!(answer.payload(), r#"{"jsonrpc":"2.0","id":"7","error":{"code":-32000,"message":"(redacted)"}}"#);
        let cancelled = tombstone(
            r#""kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"secret"}}"#,
        );
        assert_eq!(cancelled.params(), Some(r#"{"requestId":7}"#), "the call that was cancelled stays so");
    }
}
