//! Which answers are the same, and what the answers of several come to.
//!
//! Two answers are the same when they are equal as JSON: blanks, escapes and the order of keys do not matter, but numbers are
//! compared as they are written, because `1e999` and `2e999` would both be too large for a number of ours.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::speech::cut;

/// A tool's result, as far as it bears on others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
}

impl<'a> ToolResult<'a> {
    fn read(result: &'a RawValue) -> Option<Self> {
        // By name only: an array would be read as the fields in their order.
        serde_json::from_str(Some(result.get()).filter(|text| text.starts_with('{'))?).ok()
    }
}

/// Whether a tool says that it did not succeed.
pub(super) fn is_error(result: &RawValue) -> bool {
    ToolResult::read(result).and_then(|result| result.is_error).is_some_and(|is_error| is_error.get() == "true")
}

/// What a result says: its structured content, or else its content, or else all of it. Equal for equal answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ballot([u8; 32]);

impl Ballot {
    pub(super) fn of(result: &RawValue) -> Self {
        let read = ToolResult::read(result);
        let says = read.as_ref().and_then(|read| read.structured_content.or(read.content)).unwrap_or(result);
        let mut canonical = String::new();
        write(says, &mut canonical);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, canonical.as_bytes()).as_ref());
        Self(bytes)
    }
}

/// Writes JSON in the one form that all equal texts have. As deep as the text is, which the room bounds.
fn write(raw: &RawValue, out: &mut String) {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.push('{');
            for (key, value) in fields {
                out.push_str(&Value::from(key).to_string());
                out.push(':');
                write(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.push('[');
            for item in items {
                write(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Some(b'"') => {
            let text: String = serde_json::from_str(text).unwrap_or_default();
            out.push_str(&Value::from(text).to_string());
        }
        _ => out.push_str(text),
    }
}

/// What a result says, in words.
pub(super) fn words(result: &RawValue, most: usize) -> String {
    #[derive(Deserialize)]
    struct Content {
        #[serde(default)]
        text: Option<String>,
    }
    let content = ToolResult::read(result).and_then(|result| result.content);
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
    fn answers_are_equal_as_json() {
        assert!(same(r#"{"a":1,"b":["x"]}"#, r#"{ "b" : ["\u0078"], "a":1 }"#));
        assert!(!same(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!same(r#"{"n":100000000000000000001}"#, r#"{"n":100000000000000000002}"#));
        assert!(!same(r#"["a","b"]"#, r#"["b","a"]"#));
        assert!(!same(r#"["a,b"]"#, r#"["a","b"]"#));
        assert!(!same(r#""1""#, "1"));
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
