//! Envelopes: a proposed one is a [`Draft`], an accepted one an [`Envelope`], a stored one an [`Entry`].
//!
//! Invariant: the text of an envelope is what its sender wrote, byte for byte, from the first parse to the last delivery.

mod compose;
mod draft;
mod head;

use serde::Serialize;
use serde_json::value::RawValue;

pub use self::compose::{Compose, Sessions};
pub use self::draft::{Draft, Limits, check_json};
use self::head::EnvelopeHead;
use crate::{
    CHAT_EDIT_METHOD, CHAT_RETRACT_METHOD, Chat, ChatRevision, EnvelopeId, Message, ParticipantId, Position, Presence,
    Redaction, Refusal, RpcId, SessionId, Stamp, Timestamp,
};

/// The value of every envelope's `protocol` field.
pub const PROTOCOL: &str = "mcp-x/v0";

/// What an envelope carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A JSON-RPC message of MCP.
    Mcp,
    /// A join, a leave or a heartbeat; the gateway's alone.
    Presence,
    /// A welcome or an error; the gateway's alone.
    System,
}

/// An accepted envelope: its text, and what routing needs to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    text: Box<str>,
    head: EnvelopeHead,
}

impl Envelope {
    /// The whole envelope as its sender wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its id.
    pub fn id(&self) -> &EnvelopeId {
        &self.head.id
    }

    /// Who sent it.
    pub fn from(&self) -> &ParticipantId {
        &self.head.from
    }

    /// Whom it names; nobody means everybody.
    pub fn to(&self) -> &[ParticipantId] {
        &self.head.to
    }

    /// Whether it names a participant, or everybody.
    pub fn concerns(&self, participant: &ParticipantId) -> bool {
        self.head.to.is_empty() || self.head.to.contains(participant)
    }

    /// What it carries.
    pub fn kind(&self) -> Kind {
        self.head.kind
    }

    /// The envelope it replies to.
    pub fn correlation(&self) -> Option<&EnvelopeId> {
        self.head.correlation.as_ref()
    }

    /// Which session of its sender sent it, where the sender says so.
    pub fn from_session(&self) -> Option<&SessionId> {
        self.head.from_session.as_ref()
    }

    /// Which session of its one recipient it is for, where the sender says so.
    pub fn to_session(&self) -> Option<&SessionId> {
        self.head.to_session.as_ref()
    }

    /// Whether it is for a session of the participant that it names: it names that session, or none.
    pub fn concerns_session(&self, session: &SessionId) -> bool {
        self.head.to_session.as_ref().is_none_or(|named| named == session)
    }

    /// The payload as it was written.
    pub fn payload(&self) -> &str {
        &self.text[self.head.payload.clone()]
    }

    /// The payload's JSON-RPC head; `None` unless the kind is [`Kind::Mcp`].
    pub fn message(&self) -> Option<&Message> {
        self.head.message.as_ref()
    }

    /// The `params` of a request or notification, as written.
    pub fn params(&self) -> Option<&str> {
        self.head.params.clone().map(|range| &self.text[range])
    }

    /// The presence event, when this is one.
    pub fn presence(&self) -> Option<Presence> {
        (self.head.kind == Kind::Presence).then(|| serde_json::from_str(self.payload()).ok()).flatten()
    }

    /// The chat line, when its parameters are those of one.
    pub fn chat(&self) -> Option<Chat> {
        // By name only: an array would be read as the fields in their order.
        serde_json::from_str(self.params().filter(|params| params.starts_with('{'))?).ok()
    }

    /// Whether this stands in place of a message that was redacted.
    pub fn is_redacted(&self) -> bool {
        self.head.redacted.is_some()
    }

    /// By whom and why it was redacted, when it was.
    pub fn redaction(&self) -> Option<Redaction> {
        serde_json::from_str(&self.text[self.head.redacted.clone()?]).ok()
    }

    /// Whether this is to edit or to retract a chat line, whatever else it says.
    pub fn is_chat_revision(&self) -> bool {
        let is_one = |method: &str| method == CHAT_EDIT_METHOD || method == CHAT_RETRACT_METHOD;
        matches!(self.message(), Some(Message::Notification { method }) if is_one(method))
    }

    /// The chat line that this edits or retracts, and what becomes of it. `None` where the line or its new text is missing.
    pub fn chat_revision(&self) -> Option<(&EnvelopeId, ChatRevision)> {
        let Some(Message::Notification { method }) = self.message() else { return None };
        let revision = match &**method {
            CHAT_EDIT_METHOD => ChatRevision::Edited(self.chat()?),
            CHAT_RETRACT_METHOD => ChatRevision::Retracted,
            _ => return None,
        };
        Some((self.correlation()?, revision))
    }

    /// The JSON-RPC id of the call that this cancels or tells the progress of. A progress token that the caller did not choose to be the
    /// id of its request names no call here.
    pub fn concerned_call(&self) -> Option<RpcId> {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "requestId")]
            request: Option<&'a RawValue>,
            #[serde(borrow, rename = "progressToken")]
            progress: Option<&'a RawValue>,
        }
        let Some(Message::Notification { method }) = self.message() else { return None };
        let is_cancellation = match &**method {
            "notifications/cancelled" => true,
            "notifications/progress" => false,
            _ => return None,
        };
        let params = self.params().filter(|params| params.starts_with('{'))?;
        let Params { request, progress } = serde_json::from_str(params).ok()?;
        RpcId::parse(if is_cancellation { request } else { progress }?.get())
    }

    /// Reads an envelope that was accepted before, from a store that is trusted to give back what it was given.
    pub fn restore(text: impl Into<Box<str>>) -> Result<Self, Refusal> {
        let unlimited = Limits { message: 0, answer: 0, depth: usize::MAX, recipients: 0 };
        Draft::parse(text, &unlimited).map(Draft::trust)
    }
}

/// A stored envelope: accepted, with its place in the log and the gateway's time of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub position: Position,
    /// When the gateway stored it, by the gateway's clock.
    pub arrived: Timestamp,
    /// The credentials it was published with. The gateway's own entries have none, nor have those of version 0.1: such an entry has no
    /// permissions.
    pub stamp: Option<Stamp>,
    /// The envelope.
    pub envelope: Envelope,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        match Draft::parse(text, &Limits { message: 2000, answer: 2000, depth: 8, recipients: 3 }) {
            Ok(_) => "accepted".into(),
            Err(refusal) => format!("{refusal} [{}]", refusal.regarding.as_ref().map_or("-", EnvelopeId::as_str)),
        }
    }

    /// An envelope in which one field is replaced, or left out.
    fn with(key: &str, value: &str) -> String {
        let fields = [
            ("protocol", "\"mcp-x/v0\""),
            ("id", "\"e1\""),
            ("ts", "\"2025-08-17T14:00:00Z\""),
            ("from", "\"alice\""),
            ("kind", "\"mcp\""),
            ("payload", r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
        ];
        let kept = fields.iter().filter(|(name, _)| *name != key).map(|(name, value)| format!("\"{name}\":{value}"));
        let added = (!value.is_empty()).then(|| format!("\"{key}\":{value}"));
        format!("{{{}}}", kept.chain(added).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn every_field_is_what_it_must_be() {
        for (key, value, told) in [
            ("x", "1", "accepted"),
            ("to", "[]", "accepted"),
            ("protocol", "\"mcp-x/v1\"", "unsupported_protocol: `protocol` must be \"mcp-x/v0\" [e1]"),
            ("protocol", "", "invalid_envelope: `protocol` is missing [e1]"),
            ("id", "", "invalid_envelope: `id` is missing [-]"),
            ("id", "7", "invalid_envelope: `id` must be a string [-]"),
            ("id", "\"\"", "invalid_envelope: `id` is not acceptable: it is empty [-]"),
            (
                "ts",
                "\"yesterday\"",
                "invalid_envelope: `ts` must be an RFC 3339 date and time, such as 2025-08-17T14:00:00Z [e1]",
            ),
            (
                "from",
                "\"al/ice\"",
                "invalid_envelope: `from` is not acceptable: '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~ [e1]",
            ),
            ("to", "\"bob\"", "invalid_envelope: `to` must be an array of participant ids [e1]"),
            ("to", "[\"a\",\"b\",\"c\",\"d\"]", "invalid_envelope: `to` has 4 entries; the limit is 3 [e1]"),
            ("kind", "\"chat\"", "invalid_envelope: `kind` must be \"mcp\", \"presence\" or \"system\" [e1]"),
            ("correlation_id", "null", "invalid_envelope: `correlation_id` must be a string [e1]"),
            ("payload", "[]", "invalid_envelope: `payload` must be an object [e1]"),
            (
                "payload",
                r#"{"jsonrpc":"2.0"}"#,
                "invalid_envelope: `payload` has neither `method` nor `result` nor `error` [e1]",
            ),
            (
                "payload",
                r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
                "invalid_envelope: `payload.id` must be a number or a string [e1]",
            ),
            (
                "payload",
                r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
                "invalid_envelope: a response has either `result` or `error`, not both [e1]",
            ),
            ("x", "[[[[[[[[0]]]]]]]]", "too_deep: the message was refused: it is nested deeper than 8 levels [e1]"),
            (
                "from",
                "\"alice\",\"from\":\"bob\"",
                "invalid_json: the message is not valid JSON: the key \"from\" stands twice in one object [e1]",
            ),
        ] {
            assert_eq!(refused(&with(key, value)), told, "{key}: {value}");
        }
        assert_eq!(refused("[]"), "invalid_envelope: an envelope must be a JSON object [-]");
        let long = with("x", &format!("\"{}\"", "x".repeat(2000)));
        let told =
            format!("too_large: the message has {} bytes; the limit is 2000 (`limits.message`) [e1]", long.len());
        assert_eq!(refused(&long), told);
        assert_eq!(
            refused(&" ".repeat(2001)),
            "too_large: the message has 2001 bytes; the limit is 2000 (`limits.message`) [-]"
        );
    }

    #[test]
    fn sessions_are_read_where_they_are_sessions_and_never_a_reason_to_refuse() {
        let sessions = |fields: &str| {
            let text = with("to", &format!(r#"["bob"]{fields}"#));
            let envelope = Draft::parse(text, &Limits::default()).expect("an envelope").trust();
            let word = |session: Option<&SessionId>| session.map_or_else(|| "-".to_owned(), ToString::to_string);
            format!("{} {}", word(envelope.from_session()), word(envelope.to_session()))
        };
        assert_eq!(sessions(""), "- -");
        assert_eq!(sessions(r#","from_session":"s1","to_session":"s\u0032""#), "s1 s2");
        assert_eq!(sessions(&format!(r#","from_session":"{}""#, "s".repeat(128))), format!("{} -", "s".repeat(128)));
        for odd in ["7", "null", "{}", r#""""#, r#""a b""#, &format!("\"{}\"", "s".repeat(129))] {
            assert_eq!(sessions(&format!(r#","from_session":{odd},"to_session":{odd}"#)), "- -", "{odd}");
        }
        let many = with("to", r#"["bob","carol"],"to_session":"s1""#);
        let many = Draft::parse(many, &Limits::default()).expect("an envelope").trust();
        assert_eq!(many.to_session(), None, "a session is one recipient's");
    }

    #[test]
    fn composed_sessions_are_read_again() {
        let (ours, theirs) = (SessionId::new("s1").expect("an id"), SessionId::new("s2").expect("an id"));
        let from = ParticipantId::new("alice").expect("a name");
        let to = [ParticipantId::new("bob").expect("a name")];
        let compose = Compose {
            id: "e1",
            ts: Timestamp(0),
            from: &from,
            to: &to,
            kind: Kind::System,
            correlation_id: None,
            payload: serde_json::json!({}),
        };
        let plain = compose.envelope();
        assert!(!plain.text().contains("session"));
        assert!(plain.concerns_session(&ours) && plain.concerns_session(&theirs));
        let both = compose.text_between(Sessions { from_session: Some(&ours), to_session: Some(&theirs) });
        let both = Envelope::restore(both).expect("an envelope");
        assert_eq!((both.from_session(), both.to_session()), (Some(&ours), Some(&theirs)));
        assert!(both.concerns_session(&theirs) && !both.concerns_session(&ours));
    }

    /// JSON as people and programs write it, which no two libraries print alike.
    fn raw_json() -> impl Strategy<Value = String> {
        let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
        let string = r#""([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u00[0-9a-fA-F]{2}|\\ud83d\\ude0[0-9])*""#;
        let leaf = prop_oneof![number, string, Just("null".to_owned()), Just("true".to_owned())];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let list =
                prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[ {} ]", items.join(" ,\t")));
            let object = prop::collection::vec(inner, 0..6).prop_map(|values| {
                let fields = values.iter().enumerate().map(|(n, value)| format!("\"k{n}\" :{value}"));
                format!("{{{}\n}}", fields.collect::<Vec<_>>().join(",\r\n "))
            });
            prop_oneof![list, object]
        })
    }

    proptest! {
        /// Key order, white space, escapes, unknown fields, `1.0` and integers beyond any machine's: all of it stays.
        #[test]
        fn what_is_accepted_is_kept_byte_for_byte(
            unknown in raw_json(),
            params in raw_json(),
            rotation in 0usize..8,
            gap in "[ \t\r\n]{0,3}",
        ) {
            let payload = format!(r#"{{{gap}"params":{{"v":{params}}},"method":"notifications/x","jsonrpc":"2.0"}}"#);
            let mut fields = [
                format!(r#""x-unknown":{gap}{unknown}"#),
                r#""protocol":"mcp-x/v0""#.to_owned(),
                r#""id":"e\u0031""#.to_owned(),
                r#""ts":"2025-08-17T14:00:00Z""#.to_owned(),
                r#""from":"alice""#.to_owned(),
                r#""to":["bob"]"#.to_owned(),
                r#""kind":"mcp""#.to_owned(),
                format!(r#""payload":{gap}{payload}"#),
            ];
            fields.rotate_left(rotation);
            let text = format!("{gap}{{{}}}{gap}", fields.join(&format!("{gap},")));

            let envelope = Draft::parse(text.as_str(), &Limits::default()).expect("an envelope").trust();
            prop_assert_eq!(envelope.text(), text.as_str());
            prop_assert_eq!(envelope.payload(), payload.as_str());
            let raw_params = format!(r#"{{"v":{params}}}"#);
            prop_assert_eq!(envelope.params(), Some(raw_params.as_str()));
            prop_assert_eq!(envelope.id().as_str(), "e1");
            prop_assert_eq!(envelope.from().as_str(), "alice");
            prop_assert_eq!(envelope.to().len(), 1);
            prop_assert_eq!(Envelope::restore(text).expect("what was accepted can be read again"), envelope);
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = Draft::parse(text, &Limits::default());
        }
    }
}
