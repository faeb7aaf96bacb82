//! What a text from a server consists of.

use serde::Deserialize;
use serde_json::value::RawValue;

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
}
