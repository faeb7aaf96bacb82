//! Which of the gateway's own answers repeat a message: those of `history.get`, `room.wait`, `room.search` and `approval.list` are stored like any other.

use std::collections::HashSet;

use salon_protocol::{Entry, EnvelopeId, Message};
use serde_json::Value;

/// The members by which a tool shows what a message says, beside its `id`.
const SHOWN_BY: [&str; 3] = ["payload", "request", "snippet"];

/// Whether an entry is an answer of the gateway that shows one of some messages.
pub(super) fn repeats(entry: &Entry, messages: &HashSet<EnvelopeId>) -> bool {
    let envelope = &entry.envelope;
    let is_answer = envelope.from().is_host() && matches!(envelope.message(), Some(Message::Response { .. }));
    // An id that a JSON string has to escape is looked for in every answer.
    let may_have = |id: &EnvelopeId| is_escaped(id.as_str()) || envelope.payload().contains(id.as_str());
    is_answer
        && !envelope.is_redacted()
        && messages.iter().any(may_have)
        && serde_json::from_str(envelope.payload()).is_ok_and(|payload| shows(&payload, messages))
}

fn is_escaped(id: &str) -> bool {
    id.contains(['"', '\\']) || id.chars().any(char::is_control)
}

/// As deep as an envelope may be nested: an answer can show another answer.
fn shows(value: &Value, messages: &HashSet<EnvelopeId>) -> bool {
    match value {
        Value::Object(members) => {
            let id = members.get("id").and_then(Value::as_str).and_then(|id| EnvelopeId::new(id).ok());
            let is_one = id.is_some_and(|id| messages.contains(&id)) && !members.contains_key("redacted");
            is_one && SHOWN_BY.iter().any(|member| members.contains_key(*member))
                || members.values().any(|value| shows(value, messages))
        }
        Value::Array(values) => values.iter().any(|value| shows(value, messages)),
        _ => false,
    }
}
