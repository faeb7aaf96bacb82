//! What a tool's result says: which of them say the same, which of them failed, and how they are put into words.

use aws_lc_rs::digest::{SHA256, digest};
use salon_protocol::comparable_json;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::speech::cut;

/// A tool's result, as far as it bears on others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ComparedResult<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
}

impl<'a> ComparedResult<'a> {
    fn read(result: &'a RawValue) -> Option<Self> {
        // By name only: an array would be read as the fields in their order.
        serde_json::from_str(Some(result.get()).filter(|text| text.starts_with('{'))?).ok()
    }
}

/// Whether a tool says that it did not succeed.
pub(super) fn is_error(result: &RawValue) -> bool {
    ComparedResult::read(result).and_then(|result| result.is_error).is_some_and(|is_error| is_error.get() == "true")
}

/// What a result says: its structured content, or else its content, or else all of it. Equal for equal answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ballot([u8; 32]);

impl Ballot {
    pub(super) fn of(result: &RawValue) -> Self {
        let read = ComparedResult::read(result);
        let says = read.as_ref().and_then(|read| read.structured_content.or(read.content)).unwrap_or(result);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, comparable_json(says).as_bytes()).as_ref());
        Self(bytes)
    }
}

/// What a result says, in words.
pub(super) fn words(result: &RawValue, most: usize) -> String {
    #[derive(Deserialize)]
    struct Content {
        #[serde(default)]
        text: Option<String>,
    }
    let content = ComparedResult::read(result).and_then(|result| result.content);
    let content: Vec<Content> = content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let texts: Vec<String> = content.into_iter().filter_map(|content| content.text).collect();
    cut(if texts.is_empty() { result.get().to_owned() } else { texts.join("\n") }.as_str(), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).expect("the test writes JSON")
    }

    fn same(one: &str, other: &str) -> bool {
        Ballot::of(&raw(one)) == Ballot::of(&raw(other))
    }

    #[test]
    fn structured_content_speaks_for_a_result() {
        let result = |content: &str, structured: &str| {
            format!(r#"{{"content":[{{"type":"text","text":"{content}"}}]{structured}}}"#)
        };
        let yes = r#","structuredContent":{"yes":true}"#;
        assert!(same(&result("Yes!", yes), &result("I agree.", yes)));
        assert!(!same(&result("Yes!", ""), &result("I agree.", "")));
        assert!(same(&result("Yes!", ""), &result("Yes!", r#","_meta":{"took":5}"#)));
        assert!(same(r#"{"a":1,"b":"x"}"#, r#"{ "b" : "\u0078", "a":1.0 }"#));
    }

    #[test]
    fn an_error_is_one_that_says_so() {
        assert!(is_error(&raw(r#"{"content":[],"isError":true}"#)));
        assert!(!is_error(&raw(r#"{"content":[],"isError":false}"#)));
        assert!(!is_error(&raw("[1,2,true]")));
    }

    #[test]
    fn a_result_is_told_by_its_texts() {
        let result = raw(
            r#"{"content":[{"type":"text","text":"one"},{"type":"image","data":"…"},{"type":"text","text":"two"}]}"#,
        );
        assert_eq!(words(&result, 99), "one\ntwo");
        assert_eq!(words(&result, 3), "one…");
        assert_eq!(words(&raw(r#"{"x":1}"#), 99), r#"{"x":1}"#);
    }
}
