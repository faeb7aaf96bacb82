//! What an envelope of MCP says, in words a person can read. Numbers are shown with the digits they came with.
//!
//! Nothing here is safe to show yet, and nothing is short: it is what others wrote.

use salon_protocol::{Envelope, Members, Message, SESSION_ENDED_METHOD, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestText {
    /// A tool's name, or a method.
    pub(crate) what: String,
    /// Its arguments, as one would type them; empty when there are none.
    pub(crate) details: String,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerText {
    /// Neither an error of the protocol nor one of the tool.
    pub(crate) worked: bool,
    /// What the answer says; empty when there is nothing to it.
    pub(crate) says: String,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reached {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// The time that the sender wrote on an envelope.
pub(crate) fn sent(envelope: &Envelope) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Stamped {
        ts: String,
    }
    let stamped: Stamped = serde_json::from_str(envelope.text()).ok()?;
    Timestamp::parse(&stamped.ts)
}

/// The members of what should be an object.
pub(crate) fn members(text: &str) -> Members {
    Members::parse(text).unwrap_or_default()
}

/// A member of the type it should have.
pub(crate) fn member<T: DeserializeOwned>(members: &Members, name: &str) -> Option<T> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

fn text(members: &Members, name: &str) -> String {
    member(members, name).unwrap_or_default()
}

/// Whether a request only prepares others: handshakes and lists.
pub(crate) fn is_preparation(method: &str) -> bool {
    matches!(method, "initialize" | "ping" | "logging/setLevel" | "server/discover" | "completion/complete")
        || method.ends_with("/list")
}

/// Whether a notification belongs to handshakes and lists.
pub(crate) fn is_housekeeping(method: &str) -> bool {
    matches!(method, "notifications/initialized" | SESSION_ENDED_METHOD) || method.ends_with("/list_changed")
}

pub(crate) fn request_text(method: &str, params: &Members) -> RequestText {
    let (what, details) = match method {
        "tools/call" => (text(params, "name"), arguments(params.get("arguments"))),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => (method.to_owned(), text(params, "uri")),
        "prompts/get" => {
            let name = text(params, "name");
            (method.to_owned(), format!("{name} {}", arguments(params.get("arguments"))))
        }
        "elicitation/create" => ("asks".to_owned(), text(params, "message")),
        _ => (method.to_owned(), String::new()),
    };
    RequestText { what, details: details.trim_end().to_owned() }
}

/// Arguments as one would type them: `x=1 label="two words"`.
fn arguments(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else { return String::new() };
    let told: Vec<_> = members(raw.get()).iter().map(|(key, value)| format!("{key}={}", value_text(value))).collect();
    told.join(" ")
}

fn value_text(value: &RawValue) -> String {
    match serde_json::from_str::<String>(value.get()) {
        Ok(text) if !text.is_empty() && !text.contains([' ', '\n', '"', '=']) => text,
        _ => json::compact(value.get()),
    }
}

pub(crate) fn answered(envelope: &Envelope) -> AnswerText {
    let payload = members(envelope.payload());
    let (worked, says) = match payload.get("error") {
        Some(error) => {
            let error = members(error.get());
            let code = error.get("code").map(|code| format!(" ({})", code.get())).unwrap_or_default();
            (false, format!("{}{code}", text(&error, "message")))
        }
        None => result(payload.get("result")),
    };
    AnswerText { worked, says: says.trim_end().to_owned() }
}

fn result(result: Option<&RawValue>) -> (bool, String) {
    let Some(raw) = result else { return (true, String::new()) };
    let members = members(raw.get());
    let well = members.get("isError").is_none_or(|value| value.get() != "true");
    if let Some(content) = member::<Vec<Value>>(&members, "content") {
        let told: Vec<_> = content.iter().map(block).collect();
        // Structured content usually says the same again.
        let structured = members.get("structuredContent").filter(|_| told.is_empty());
        return (well, structured.map_or_else(|| told.join("\n"), |raw| raw.get().to_owned()));
    }
    let told = if let Some(tools) = names(&members, "tools", "name") {
        tools
    } else if let Some(resources) = names(&members, "resources", "uri") {
        resources
    } else if let Some(prompts) = names(&members, "prompts", "name") {
        prompts
    } else if let Some(server) = members.get("serverInfo") {
        format!("{}, MCP {}", text(&self::members(server.get()), "name"), text(&members, "protocolVersion"))
    } else if let Some(action) = member::<String>(&members, "action") {
        format!("{action} {}", arguments(members.get("content")))
    } else if let Some(contents) = member::<Vec<Value>>(&members, "contents").or_else(|| member(&members, "messages")) {
        contents.iter().map(|content| block(content.get("content").unwrap_or(content))).collect::<Vec<_>>().join("\n")
    } else if members.is_empty() {
        String::new()
    } else {
        raw.get().to_owned()
    };
    (well, told)
}

fn names(members: &Members, list: &str, key: &str) -> Option<String> {
    let list: Vec<Value> = member(members, list)?;
    let names: Vec<_> = list.iter().filter_map(|entry| entry[key].as_str()).collect();
    Some(if names.is_empty() { "none".into() } else { names.join(", ") })
}

/// A block of content: its text, or what it is.
fn block(content: &Value) -> String {
    let text = |key: &str| content[key].as_str().unwrap_or_default();
    let size = |key: &str| text(key).trim_end_matches('=').len() * 3 / 4;
    match content["type"].as_str() {
        Some("image" | "audio") => format!("[{} {}, {} bytes]", text("type"), text("mimeType"), size("data")),
        Some("resource_link") => format!("[{}]", text("uri")),
        Some("resource") => block(&content["resource"]),
        _ if content["text"].is_string() => text("text").to_owned(),
        _ if content["blob"].is_string() => format!("[{} {}, {} bytes]", text("uri"), text("mimeType"), size("blob")),
        _ => content.to_string(),
    }
}

/// Reads a progress notification; `None` for another message.
pub(crate) fn reached(envelope: &Envelope) -> Option<Reached> {
    #[derive(Deserialize)]
    struct Params {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }
    let Some(Message::Notification { method }) = envelope.message() else { return None };
    let params = envelope.params().filter(|_| &**method == "notifications/progress")?;
    let Params { progress, total, message } = serde_json::from_str(params).ok()?;
    Some(Reached { progress, total, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(json: &str) -> String {
        arguments(Some(serde_json::from_str(json).expect("JSON")))
    }

    fn told(result: &str) -> String {
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"e","ts":"2025-08-17T14:00:00Z","from":"a","to":["b"],"kind":"mcp","correlation_id":"c","payload":{{"jsonrpc":"2.0","id":1,{result}}}}}"#
        );
        let AnswerText { worked, says } = answered(&Envelope::restore(text).expect("an envelope"));
        format!("{} {says}", if worked { "✓" } else { "✗" })
    }

    #[test]
    fn arguments_read_as_one_would_type_them() {
        assert_eq!(
            args(r#"{"y":2,"x":12345678901234567890123,"s":"a b","t":"plain","n":null,"o":{"a": [1]}}"#),
            r#"y=2 x=12345678901234567890123 s="a b" t=plain n=null o={"a":[1]}"#
        );
        assert_eq!(args("[1]"), "");
    }

    #[test]
    fn an_answer_is_told_by_what_it_holds() {
        for (result, expected) in [
            (r#""result":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#, "✓ a\nb"),
            (r#""result":{"content":[{"type":"text","text":"stuck"}],"isError":true}"#, "✗ stuck"),
            (
                r#""result":{"content":[{"type":"image","mimeType":"image/png","data":"AAAABB=="}]}"#,
                "✓ [image image/png, 4 bytes]",
            ),
            (r#""result":{"content":[],"structuredContent":{"n":1}}"#, r#"✓ {"n":1}"#),
            (r#""error":{"code":-32601,"message":"no such method"}"#, "✗ no such method (-32601)"),
            (r#""result":{"tools":[{"name":"move"},{"name":"stop"}]}"#, "✓ move, stop"),
            (r#""result":{"tools":[]}"#, "✓ none"),
            (r#""result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"rover"}}"#, "✓ rover, MCP 2025-06-18"),
            (r#""result":{"action":"accept","content":{"colour":"red"}}"#, "✓ accept colour=red"),
            (r#""result":{"contents":[{"uri":"f","text":"inside"}]}"#, "✓ inside"),
            (r#""result":{}"#, "✓ "),
            (r#""result":{"any":[1,2.50]}"#, r#"✓ {"any":[1,2.50]}"#),
            (r#""result":7"#, "✓ "),
        ] {
            assert_eq!(told(result), expected);
        }
    }
}
