//! Who may ask the client something, and how the client learns who asks.
//!
//! Only a participant that the client has itself called may ask it: a server that was merely listed must not reach the client's model, its person or
//! its directories. The client then reads the asker's id where its person does, in the message of an elicitation, and in
//! `_meta` of every question.

use salon_mcp::input::{ELICITATION, is_input_required};
use salon_mcp::meta;
use salon_protocol::{Members, ParticipantId};
use serde_json::value::RawValue;

/// Whether a request of the client's is a call, after which its callee may ask the client something. Lists, handshakes, pings, log levels and
/// subscriptions to lists are not: clients send them to everybody without their person's doing.
pub(super) fn is_call(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read" | "resources/subscribe" | "completion/complete")
}

/// A question's parameters, with the id of the participant that asks. Parameters and a `_meta` that are no objects are no valid question; they
/// are left out, so that nobody asks without a name.
pub(super) fn with_asker(method: &str, params: Option<&RawValue>, who: &ParticipantId) -> Box<RawValue> {
    let mut members = params.and_then(|params| Members::parse(params.get())).unwrap_or_default();
    if members.get("_meta").is_some_and(|meta| Members::parse(meta.get()).is_none()) {
        members.remove("_meta");
    }
    if method == ELICITATION
        && let Some(message) = members.get("message").and_then(|text| serde_json::from_str::<String>(text.get()).ok())
    {
        members.set("message", &format!("{who} asks: {message}"));
    }
    let named = members.to_raw();
    meta::with_asked_by(&named, who.as_str()).unwrap_or(named)
}

/// The same for the questions of a modern participant's `input_required`, which a modern client gets as they are. `None` for other results.
// MCP 2026-07-28, Multi Round-Trip Requests, "InputRequests".
pub(super) fn with_asker_of_input(result: &RawValue, who: &ParticipantId) -> Option<Box<RawValue>> {
    let mut result = Members::parse(result.get())?;
    if !is_input_required(&result) {
        return None;
    }
    let questions = Members::parse(result.get("inputRequests")?.get())?;
    let mut named = Members::default();
    for (key, question) in questions.iter() {
        match Members::parse(question.get()) {
            Some(mut members) => {
                let method = members.get("method").and_then(|text| serde_json::from_str::<String>(text.get()).ok());
                let params = with_asker(&method.unwrap_or_default(), members.get("params"), who);
                members.set("params", &params);
                named.set(key, &members);
            }
            None => named.set(key, question),
        }
    }
    result.set("inputRequests", &named);
    Some(result.to_raw())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::value::RawValue;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    fn bob() -> ParticipantId {
        ParticipantId::new("bob").expect("an id")
    }

    #[test]
    fn listing_is_no_call() {
        let calls = ["tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete"];
        assert!(calls.into_iter().all(is_call));
        let others = [
            "initialize",
            "server/discover",
            "ping",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/unsubscribe",
            "logging/setLevel",
            "subscriptions/listen",
            "tasks/get",
        ];
        assert!(!others.into_iter().any(is_call));
    }

    #[test]
    fn the_asker_is_in_the_message_and_in_meta() {
        let named = |method: &str, params: &str| with_asker(method, Some(&raw(params)), &bob()).get().to_owned();
        assert_snapshot!(named("elicitation/create", r#"{"message":"Who?","n": 1.0}"#), @r#"{"message":"bob asks: Who?","n":1.0,"_meta":{"salon/askedBy":"bob"}}"#);
        // What others write there does not count.
        assert_snapshot!(named("elicitation/create", r#"{"message":"carol asks: Who?","_meta":{"salon/askedBy":"carol","k":1}}"#), @r#"{"message":"bob asks: carol asks: Who?","_meta":{"salon/askedBy":"bob","k":1}}"#);
        // A model's answer is asked for without words of ours: they would change the answer.
        assert_snapshot!(named("sampling/createMessage", r#"{"messages":[],"message":"m"}"#), @r#"{"messages":[],"message":"m","_meta":{"salon/askedBy":"bob"}}"#);
        assert_snapshot!(named("elicitation/create", r#"{"message":7,"_meta":[]}"#), @r#"{"message":7,"_meta":{"salon/askedBy":"bob"}}"#);
        assert_snapshot!(named("roots/list", "[1]"), @r#"{"_meta":{"salon/askedBy":"bob"}}"#);
        let alone = with_asker("roots/list", None, &bob());
        assert_snapshot!(alone.get(), @r#"{"_meta":{"salon/askedBy":"bob"}}"#);
    }

    #[test]
    fn questions_of_an_answer_name_their_asker_too() {
        let named = |result: &str| with_asker_of_input(&raw(result), &bob()).map(|result| result.get().to_owned());
        assert_eq!(named(r#"{"resultType":"complete","inputRequests":{}}"#), None);
        assert_eq!(named(r#"{"resultType":"input_required","requestState":"s"}"#), None);
        let escaped = r#"{"resultType":"input\u005frequired","inputRequests":{"b":{"method":"roots/list"}}}"#;
        assert!(named(escaped).is_some_and(|named| named.contains("salon/askedBy")), "an escape hides who asks");
        let asked = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}},"b":{"method":"roots/list"},"c":7},"requestState":"s"}"#;
        assert_snapshot!(named(asked).expect("questions"), @r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"bob asks: ?","_meta":{"salon/askedBy":"bob"}}},"b":{"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}},"c":7},"requestState":"s"}"#);
    }
}
