//! The head of a JSON-RPC message, read without touching the rest.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// What moving a message needs to know of it.
#[derive(Debug, Deserialize)]
pub(super) struct Head<'a> {
    /// `null` counts as none.
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

impl<'a> Head<'a> {
    /// `None` when the text is no JSON object.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The id of a request, as JSON.
    pub(super) fn request_id(&self) -> Option<&'a str> {
        self.method.is_some().then_some(())?;
        self.id.map(RawValue::get)
    }

    /// Whether this answers the request with that id.
    pub(super) fn answers(&self, id: &str) -> bool {
        self.method.is_none() && self.id.is_some_and(|own| same_id(own.get(), id))
    }
}

/// Whether two ids, as JSON, are the same. Strings may be escaped in different ways.
fn same_id(one: &str, other: &str) -> bool {
    let string = |raw: &str| serde_json::from_str::<String>(raw).ok();
    one == other || string(one).is_some_and(|one| string(other) == Some(one))
}

/// An error object, as far as it is looked at.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorObject<'a> {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(borrow, default)]
    pub(super) data: Option<&'a RawValue>,
}

/// Takes a text apart into messages: one object is one message, an array is a batch of them. `None` when it is neither.
pub(super) fn split(text: &str) -> Option<Vec<&str>> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    match text.as_bytes().first() {
        Some(b'{') => serde_json::from_str::<&RawValue>(text).ok().map(|_| vec![text]),
        Some(b'[') => {
            let batch: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            batch.iter().map(|one| Some(one.get()).filter(|one| one.starts_with('{'))).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_apart_and_nothing_else_is_a_message() {
        assert_eq!(split(" {\"a\":1}\r"), Some(vec!["{\"a\":1}"]));
        assert_eq!(split("[{\"a\":1}, {\"b\": [2]}]"), Some(vec!["{\"a\":1}", "{\"b\": [2]}"]));
        assert_eq!(split("[]"), Some(vec![]));
        for other in ["", "1", "\"text\"", "null", "{", "[{},1]", "{} {}", "hello {}"] {
            assert_eq!(split(other), None, "{other:?}");
        }
    }

    #[test]
    fn an_answer_is_known_by_its_id_type_included() {
        let answers = |text: &str, id: &str| Head::read(text).unwrap().answers(id);
        assert!(answers(r#"{"id":1,"result":{}}"#, "1"));
        assert!(answers(r#"{"id":"a","error":{}}"#, r#""\u0061""#));
        assert!(!answers(r#"{"id":"1","result":{}}"#, "1"));
        assert!(!answers(r#"{"id":1,"method":"ping"}"#, "1"));
        assert!(!answers(r#"{"id":null,"error":{}}"#, "1"));
    }

    #[test]
    fn only_a_request_has_a_request_id() {
        let id = |text: &'static str| Head::read(text).unwrap().request_id();
        assert_eq!(id(r#"{"id":7,"method":"ping"}"#), Some("7"));
        assert_eq!(id(r#"{"method":"notifications/initialized"}"#), None);
        assert_eq!(id(r#"{"id":7,"result":{}}"#), None);
    }
}
