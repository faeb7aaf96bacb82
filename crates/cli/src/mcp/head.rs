//! What is read of a message: enough to know who waits for what. Everything else passes as it was written.

use std::borrow::Cow;

use salon_protocol::RpcId;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::value::RawValue;

/// What a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageHead {
    Request {
        id: RpcId,
        method: Box<str>,
    },
    Notification {
        method: Box<str>,
    },
    Response {
        id: RpcId,
        succeeded: bool,
    },
    /// Nothing of JSON-RPC, which is for the gateway to say.
    Other,
}

/// A text as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heads {
    /// Of the message, or of every message of a batch.
    pub(super) all: Vec<MessageHead>,
    /// Whether it is one message rather than a batch.
    pub(super) single: bool,
}

#[derive(Deserialize)]
struct HeadFields<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "is_there")]
    result: bool,
    #[serde(default, deserialize_with = "is_there")]
    error: bool,
}

/// Whatever it is: `null` is there too.
fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl Heads {
    /// Reads a text; `None` when it is not JSON.
    pub(super) fn read(text: &str) -> Option<Self> {
        let whole: &RawValue = serde_json::from_str(text).ok()?;
        Some(match serde_json::from_str::<Vec<&RawValue>>(whole.get()) {
            Ok(batch) => {
                Self { all: batch.into_iter().map(|one| MessageHead::read(one.get())).collect(), single: false }
            }
            Err(_) => Self { all: vec![MessageHead::read(whole.get())], single: true },
        })
    }

    /// The message, where there is one alone.
    pub(super) fn only(&self) -> Option<&MessageHead> {
        self.all.first().filter(|_| self.single)
    }

    /// The ids that wait for an answer.
    pub(super) fn requests(&self) -> impl Iterator<Item = &RpcId> {
        self.all.iter().filter_map(|head| match head {
            MessageHead::Request { id, .. } => Some(id),
            _ => None,
        })
    }

    /// The ids that are answered.
    pub(super) fn responses(&self) -> impl Iterator<Item = &RpcId> {
        self.all.iter().filter_map(|head| match head {
            MessageHead::Response { id, .. } => Some(id),
            _ => None,
        })
    }
}

impl MessageHead {
    fn read(text: &str) -> Self {
        let Ok(fields) = serde_json::from_str::<HeadFields<'_>>(text) else { return Self::Other };
        let id = fields.id.and_then(|id| RpcId::parse(id.get()));
        match (id, fields.method, fields.result, fields.error) {
            (Some(id), Some(method), ..) => Self::Request { id, method: method.into() },
            (None, Some(method), ..) => Self::Notification { method: method.into() },
            (Some(id), None, true, false) => Self::Response { id, succeeded: true },
            (Some(id), None, false, true) => Self::Response { id, succeeded: false },
            _ => Self::Other,
        }
    }
}

/// The URI that a request is about.
pub(super) fn uri(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Request {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    serde_json::from_str::<Request>(text).ok().map(|request| request.params.uri)
}

/// Whether an `initialize` is one of the draft dialect, in which a client announces its end. One that supports MCP as well is answered in MCP.
pub(super) fn speaks_draft(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "mcpVersion")]
        draft: Option<&'a RawValue>,
        #[serde(borrow, rename = "protocolVersion")]
        official: Option<&'a RawValue>,
    }
    let read = serde_json::from_str::<Request<'_>>(text);
    read.is_ok_and(|Request { params }| params.draft.is_some() && params.official.is_none())
}

/// The request that a `notifications/cancelled` gives up.
pub(super) fn cancelled(text: &str) -> Option<RpcId> {
    #[derive(Deserialize)]
    struct Notification<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "requestId")]
        request_id: &'a RawValue,
    }
    let read: Notification<'_> = serde_json::from_str(text).ok()?;
    RpcId::parse(read.params.request_id.get())
}

/// The lists whose changes the answer to `initialize` promises to announce.
pub(super) fn promised_lists(answer: &str) -> Vec<&'static str> {
    #[derive(Deserialize)]
    struct Answer {
        result: Result,
    }
    #[derive(Deserialize)]
    struct Result {
        capabilities: Capabilities,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Capabilities {
        tools: List,
        prompts: List,
        resources: List,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct List {
        list_changed: bool,
    }
    let Ok(Answer { result }) = serde_json::from_str(answer) else { return Vec::new() };
    let Capabilities { tools, prompts, resources } = result.capabilities;
    let all = [("tools", tools), ("prompts", prompts), ("resources", resources)];
    all.into_iter().filter(|(_, list)| list.list_changed).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_wherever_they_stand() {
        let told = |text: &str| match Heads::read(text) {
            None => "no JSON".to_owned(),
            Some(heads) => format!("{} {:?}", if heads.single { "one" } else { "batch" }, heads.all),
        };
        let texts = [
            r#"{"params":{"id":9,"method":"x"},"method":"tools/call","jsonrpc":"2.0","id":12345678901234567890}"#,
            r#"{"id":"1","method":"a\/b"}"#,
            r#"{"id":1,"result":null}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"id":1,"error":{}}"#,
            r#"{"id":null,"error":{}}"#,
            r#"{"method":"notifications/initialized"}"#,
            r#"[{"id":1,"method":"a"},{"id":2,"result":1},5]"#,
            "[]",
            "5",
            r#"{"id":1,"id":2,"method":"a"}"#,
            "{",
            r#"{"id":1} x"#,
        ];
        insta::assert_snapshot!(texts.map(told).join("\n"), @r#"
        one [Request { id: Number("12345678901234567890"), method: "tools/call" }]
        one [Request { id: String("1"), method: "a/b" }]
        one [Response { id: Number("1"), succeeded: true }]
        one [Response { id: Number("1"), succeeded: true }]
        one [Response { id: Number("1"), succeeded: false }]
        one [Other]
        one [Notification { method: "notifications/initialized" }]
        batch [Request { id: Number("1"), method: "a" }, Response { id: Number("2"), succeeded: true }, Other]
        batch []
        one [Other]
        one [Other]
        no JSON
        no JSON
        "#);
    }

    #[test]
    fn nesting_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(Heads::read(&deep).map(|heads| heads.all), Some(vec![MessageHead::Other]));
        let inside = format!(r#"{{"id":1,"method":"x","params":{deep}}}"#);
        assert!(Heads::read(&inside).is_some());
    }

    #[test]
    fn promises_are_read() {
        let answer = r#"{"id":1,"result":{"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true}}}}"#;
        assert_eq!(promised_lists(answer), ["tools", "resources"]);
        assert!(promised_lists("{}").is_empty());
        assert_eq!(uri(r#"{"params":{"uri":"a:b"}}"#).as_deref(), Some("a:b"));
        assert_eq!(cancelled(r#"{"params":{"requestId":7}}"#), RpcId::parse("7"));
        assert_eq!(cancelled(r#"{"params":{}}"#), None);
        assert!(speaks_draft(r#"{"params":{"mcpVersion":"2025-06-18"}}"#) && !speaks_draft(r#"{"params":{}}"#));
        assert!(!speaks_draft(r#"{"params":{"mcpVersion":"2025-06-18","protocolVersion":"2025-06-18"}}"#));
    }
}
