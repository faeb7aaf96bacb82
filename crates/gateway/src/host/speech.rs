//! How the host puts things into words: results, errors, and the envelopes around them.
//!
//! Invariant: what others wrote passes through as text. It never becomes values of ours, which could not hold every number a peer
//! can write.

use salon_protocol::{Compose, Draft, EnvelopeId, Kind, Limits, ParticipantId, RpcError, Sessions};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::clock;

/// What the host writes is its own, and needs no limit but those it keeps itself.
const UNLIMITED: Limits = Limits { message: 0, answer: 0, depth: usize::MAX, recipients: 0 };

/// What a request comes to.
pub(super) type HostOutcome = Result<Box<RawValue>, RpcError>;

/// More is under way than the host takes on.
pub(super) fn busy(message: impl Into<String>) -> RpcError {
    RpcError::new(RpcError::SERVER_ERROR, message)
}

/// MCP lets a cancelled request go without an answer. In a room it would then look open for ever, so it gets this one.
pub(super) fn cancelled() -> RpcError {
    RpcError::new(RpcError::CANCELLED, "the request was cancelled")
}

/// A value as JSON text.
pub(super) fn text(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("what the host answers has only string keys")
}

#[derive(Serialize)]
struct TextContent<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HostToolResult<'a> {
    content: [TextContent<'a>; 1],
    structured_content: &'a RawValue,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

/// A result that programs read as it is and models read as the same JSON.
pub(super) fn structured(value: &impl Serialize) -> Box<RawValue> {
    let structured_content = &*text(value);
    told(structured_content.get(), structured_content, false)
}

/// A result in words for models, and as it is for programs.
pub(super) fn told(words: &str, structured_content: &RawValue, is_error: bool) -> Box<RawValue> {
    text(&HostToolResult { content: [TextContent { r#type: "text", text: words }], structured_content, is_error })
}

/// A tool's own no.
pub(super) fn failed(message: &str) -> Box<RawValue> {
    text(&json!({ "content": [TextContent { r#type: "text", text: message }], "isError": true }))
}

/// The beginning of a text, when it is long.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The id of what the host writes for a purpose because of a request: always the same, and nobody else can foresee it.
pub(super) fn derived_id(namespace: &uuid::Uuid, purpose: &str, request: &EnvelopeId) -> String {
    uuid::Uuid::new_v5(namespace, format!("{purpose} {request}").as_bytes()).to_string()
}

/// An envelope of the host's, or of somebody on whose request it acts.
pub(super) fn compose(
    id: &str,
    from: &ParticipantId,
    to: &[ParticipantId],
    correlation: Option<&EnvelopeId>,
    payload: impl Serialize,
) -> Draft {
    compose_between(Sessions::default(), id, from, to, correlation, payload)
}

/// The same between sessions.
pub(super) fn compose_between(
    sessions: Sessions<'_>,
    id: &str,
    from: &ParticipantId,
    to: &[ParticipantId],
    correlation: Option<&EnvelopeId>,
    payload: impl Serialize,
) -> Draft {
    let correlation_id = correlation.map(EnvelopeId::as_str);
    let compose = Compose { id, ts: clock::now(), from, to, kind: Kind::Mcp, correlation_id, payload };
    Draft::parse(compose.text_between(sessions), &UNLIMITED).expect("what the host composes is well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("ab", 2), "ab");
        assert_eq!(cut("aéb", 2), "aé…");
    }

    #[test]
    fn a_result_says_that_it_is_an_error_only_when_it_is() {
        let value = text(&json!({ "n": 1 }));
        let plain = told("one", &value, false);
        assert_eq!(plain.get(), r#"{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}"#);
        assert!(told("one", &value, true).get().ends_with(r#","isError":true}"#));
    }
}
