//! `input_required`: a modern server's way of asking back. A client of the legacy era is asked by real requests instead, and the
//! call is made again with its answers.

use salon_protocol::Members;
use serde_json::value::RawValue;

use crate::{Revision, downgrade};

/// The methods a server may ask its client for.
// MCP 2026-07-28, Multi Round-Trip Requests, "InputRequests": one of these three.
pub const ELICITATION: &str = "elicitation/create";
/// See [`ELICITATION`].
pub const SAMPLING: &str = "sampling/createMessage";
/// See [`ELICITATION`].
pub const ROOTS: &str = "roots/list";

/// Whether a client with these capabilities can be asked this.
pub fn is_offered(capabilities: &RawValue, method: &str) -> bool {
    let capability = match method {
        ELICITATION => "elicitation",
        SAMPLING => "sampling",
        ROOTS => "roots",
        _ => return false,
    };
    Members::parse(capabilities.get()).is_some_and(|capabilities| capabilities.get(capability).is_some())
}

/// What a server wants to know before it goes on.
#[derive(Debug, Clone)]
pub struct InputRequired {
    /// The questions by the server's keys.
    pub questions: Vec<(String, Question)>,
    /// To be given back as it is.
    pub state: Option<Box<RawValue>>,
}

/// One question.
#[derive(Debug, Clone)]
pub struct Question {
    /// Which request it is.
    pub method: String,
    /// Its parameters.
    pub params: Option<Box<RawValue>>,
}

impl InputRequired {
    /// Reads a result; `None` when it is complete.
    pub fn read(result: &RawValue) -> Option<Self> {
        let result = Members::parse(result.get())?;
        if !is_input_required(&result) {
            return None;
        }
        let questions = result.get("inputRequests").and_then(|raw| Members::parse(raw.get())).unwrap_or_default();
        let questions = questions.iter().filter_map(|(key, question)| {
            let mut question = Members::parse(question.get())?;
            let method = serde_json::from_str(question.get("method")?.get()).ok()?;
            Some((key.to_owned(), Question { method, params: question.remove("params") }))
        });
        let questions = questions.collect();
        let mut result = result;
        Some(Self { questions, state: result.remove("requestState") })
    }
}

/// Whether a result asks something, however its type is escaped.
pub fn is_input_required(result: &Members) -> bool {
    let kind = result.get("resultType").and_then(|kind| serde_json::from_str::<String>(kind.get()).ok());
    kind.is_some_and(|kind| kind == "input_required")
}

/// How a question reaches a client of the legacy era.
#[derive(Debug, Clone)]
pub enum LegacyQuestion {
    /// As a request with these parameters.
    Ask(Option<Box<RawValue>>),
    /// Not at all: its revision cannot say it, and this is the answer.
    Answer(Box<RawValue>),
}

/// Puts a question as `revision` has it. `elicitation` makes an id, which a question by URL needs in the legacy era.
pub fn put(question: &Question, revision: Revision, elicitation: impl FnOnce() -> String) -> LegacyQuestion {
    let asked = LegacyQuestion::Ask(question.params.clone());
    if question.method != ELICITATION || revision == Revision::MODERN {
        return asked;
    }
    // MCP 2025-06-18, changelog: elicitation is new.
    if revision < Revision::R2025_06_18 {
        return LegacyQuestion::Answer(declined());
    }
    let Some(mut params) = question.params.as_deref().and_then(|params| Members::parse(params.get())) else {
        return asked;
    };
    let by_url = params.get("mode").is_some_and(|mode| mode.get() == "\"url\"");
    if by_url {
        // MCP 2025-11-25, changelog (SEP-1036): URL mode is new, and `elicitationId` is required there.
        if revision < Revision::R2025_11_25 {
            return LegacyQuestion::Answer(declined());
        }
        params.set("elicitationId", &elicitation());
        return LegacyQuestion::Ask(Some(params.to_raw()));
    }
    let schema = params.get("requestedSchema").filter(|_| revision < Revision::R2025_11_25);
    let Some(schema) = schema else { return asked };
    let Some(form) = downgrade::form(schema) else { return LegacyQuestion::Answer(declined()) };
    params.set("requestedSchema", &form);
    LegacyQuestion::Ask(Some(params.to_raw()))
}

/// What stands in for an error, which has no place among the answers; `None` where only failing the whole call is honest.
pub(crate) fn instead_of_error(method: &str) -> Option<Box<RawValue>> {
    (method == ELICITATION).then(|| action("cancel"))
}

/// What a person is taken to answer who cannot be asked.
pub(crate) fn declined() -> Box<RawValue> {
    action("decline")
}

fn action(word: &str) -> Box<RawValue> {
    let mut answer = Members::default();
    answer.set("action", word);
    answer.to_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn what_a_server_wants_to_know_is_read_in_order() {
        let asked = InputRequired::read(&raw(
            r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"},"e":{"method":"elicitation/create","params":{"n": 1}}},"requestState":"a\u0062"}"#,
        ))
        .unwrap();
        let questions: Vec<_> =
            asked.questions.iter().map(|(key, question)| (key.as_str(), question.method.as_str())).collect();
        assert_eq!(questions, [("k", "roots/list"), ("e", "elicitation/create")]);
        assert_eq!(asked.state.unwrap().get(), r#""a\u0062""#);
        assert!(InputRequired::read(&raw(r#"{"resultType":"complete"}"#)).is_none());
        assert!(InputRequired::read(&raw(r#"{"content":[]}"#)).is_none());
    }

    fn put_to(revision: Revision, params: &str) -> String {
        let question = Question { method: "elicitation/create".into(), params: Some(raw(params)) };
        match put(&question, revision, || "el-1".into()) {
            LegacyQuestion::Ask(params) => format!("ask {}", params.unwrap()),
            LegacyQuestion::Answer(answer) => format!("answer {answer}"),
        }
    }

    #[test]
    fn questions_are_put_as_the_revision_has_them() {
        let form = r#"{"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"r","title":"Red"}],"default":"r"},"n":{"type":"integer","default": 1}}}}"#;
        assert_snapshot!(put_to(Revision::ROOM, form), @r#"ask {"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"string","default":"r","enum":["r"],"enumNames":["Red"]},"n":{"type":"integer","default": 1}}}}"#);
        assert_eq!(put_to(Revision::R2025_11_25, form), format!("ask {form}"));
        assert_snapshot!(put_to(Revision::R2025_03_26, form), @r#"answer {"action":"decline"}"#);
        let many = r#"{"requestedSchema":{"properties":{"m":{"type":"array"}}}}"#;
        assert_snapshot!(put_to(Revision::ROOM, many), @r#"answer {"action":"decline"}"#);
        let url = r#"{"mode":"url","url":"https://a.example"}"#;
        assert_snapshot!(put_to(Revision::ROOM, url), @r#"answer {"action":"decline"}"#);
        assert_snapshot!(put_to(Revision::R2025_11_25, url), @r#"ask {"mode":"url","url":"https://a.example","elicitationId":"el-1"}"#);
    }
}
