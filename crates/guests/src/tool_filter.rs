//! Which of a server's tools the room may use, by name.
//!
//! Names are compared as the server writes them. Patterns are those of capabilities: `*` stands for any characters.

use salon_control::NamePattern;
use salon_protocol::Members;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Which tools the room may use: those that `allow` covers, or all where there is no `allow`, without those that `deny` covers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// The tools that may be used; `None` for all.
    pub allow: Option<Vec<NamePattern>>,
    /// The tools that may not. Overrides `allow`.
    pub deny: Vec<NamePattern>,
}

impl ToolFilter {
    /// Whether the room may use the tool of that name.
    pub fn admits(&self, name: &str) -> bool {
        let covers = |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(name));
        self.allow.as_deref().is_none_or(covers) && !covers(&self.deny)
    }

    fn admits_all(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Whether a request may pass: every one but a call of a tool that is not admitted. A call without a readable name is the server's to refuse,
    /// unless only some tools are admitted.
    pub(crate) fn admits_request(&self, method: &str, params: Option<&RawValue>) -> bool {
        #[derive(Deserialize)]
        struct Params {
            name: String,
        }
        if method != "tools/call" || self.admits_all() {
            return true;
        }
        // Anything but an object has no name: a list would be read by position here. Nor has an object with two of them.
        let named = params.filter(|params| Members::parse(params.get()).is_some());
        let named = named.and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
        named.is_some_and(|params| self.admits(&params.name))
    }

    /// The result of `tools/list` without the tools that are not admitted; `None` where it can stay as it is.
    pub(crate) fn narrowed(&self, method: &str, result: &RawValue) -> Option<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Tool {
            name: String,
        }
        if method != "tools/list" || self.admits_all() {
            return None;
        }
        let mut result = Members::parse(result.get())?;
        let tools: Vec<Box<RawValue>> = serde_json::from_str(result.get("tools")?.get()).ok()?;
        let is_admitted =
            |tool: &RawValue| serde_json::from_str::<Tool>(tool.get()).is_ok_and(|tool| self.admits(&tool.name));
        let kept: Vec<_> = tools.into_iter().filter(|tool| is_admitted(tool)).collect();
        result.set("tools", &kept);
        Some(result.to_raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allow: &[&str], deny: &[&str]) -> ToolFilter {
        let read = |list: &[&str]| list.iter().map(|text| text.parse().expect("a pattern")).collect::<Vec<_>>();
        ToolFilter { allow: (!allow.is_empty()).then(|| read(allow)), deny: read(deny) }
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    #[test]
    fn a_denial_overrides() {
        let admitted = |filter: &ToolFilter| {
            let names = ["read_file", "read_secret", "write_file", "read_"];
            names.into_iter().filter(|name| filter.admits(name)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(admitted(&filter(&[], &[])), "read_file read_secret write_file read_");
        assert_eq!(admitted(&filter(&["read_*"], &["read_secret"])), "read_file read_");
        assert_eq!(admitted(&filter(&["write_file", "read_"], &[])), "write_file read_");
        assert_eq!(admitted(&filter(&["*_file"], &["w*"])), "read_file");
        assert_eq!(admitted(&filter(&[], &["*"])), "");
        // An empty list allows nothing, unlike a list that is not there.
        assert_eq!(admitted(&ToolFilter { allow: Some(Vec::new()), deny: Vec::new() }), "");
    }

    #[test]
    fn only_admitted_tools_can_be_called() {
        let filter = filter(&["read_*"], &[]);
        let calls = |params: &str| filter.admits_request("tools/call", Some(&raw(params)));
        assert!(calls(r#"{"name":"read_file","arguments":{"name":"write_file"}}"#));
        assert!(calls(r#"{"n\u0061me":"read_file"}"#));
        for refused in [r#"{"name":"write_file"}"#, "{}", "[]", r#"{"name":7}"#, r#"{"name":"read_a","name":"write"}"#]
        {
            assert!(!calls(refused), "{refused}");
        }
        assert!(!filter.admits_request("tools/call", None));
        assert!(filter.admits_request("resources/read", None));
        assert!(ToolFilter::default().admits_request("tools/call", Some(&raw("{}"))));
    }

    #[test]
    fn a_list_loses_what_is_not_admitted_and_keeps_the_rest_as_written() {
        let listed = r#"{"x":1.0,"tools":[{"name":"a","n":1E+2},{"name":"b"},{"title":"?"}],"nextCursor":"2"}"#;
        let narrowed = filter(&[], &["b"]).narrowed("tools/list", &raw(listed)).expect("fewer tools");
        assert_eq!(narrowed.get(), r#"{"x":1.0,"tools":[{"name":"a","n":1E+2}],"nextCursor":"2"}"#);
        assert!(ToolFilter::default().narrowed("tools/list", &raw(listed)).is_none());
        assert!(filter(&[], &["b"]).narrowed("tools/call", &raw(listed)).is_none());
    }
}
