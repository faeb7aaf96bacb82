//! The host's tools.

use std::collections::HashSet;
use std::sync::Arc;

use salon_log::TopicLog;
use salon_protocol::{CHAT_METHOD, Entry, EnvelopeId, TopicName};
use salon_rooms::Desk;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{RpcError, compose, text};
use crate::history::{self, Page, Window};

/// The longest page `history.get` answers, and how many bytes of envelopes fit into one.
const MOST_ENTRIES: usize = 100;
const MOST_BYTES: usize = 256 * 1024;

/// What the tools work with.
pub(super) struct Toolbox {
    pub(super) log: Arc<dyn TopicLog>,
    pub(super) history_off: HashSet<TopicName>,
    /// The longest answer. Zero is no limit.
    pub(super) message_limit: usize,
    /// What the ids of the host's envelopes are derived in.
    pub(super) namespace: uuid::Uuid,
}

/// The tools as `tools/list` shows them.
pub(super) fn descriptions() -> Value {
    json!([
        {
            "name": "chat.say",
            "title": "Say something",
            "description": "Says something to everyone in this room, in the caller's name",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "text": { "type": "string", "description": "What to say" },
                    "format": { "type": "string", "enum": ["plain", "markdown"], "default": "plain" }
                },
                "required": ["text"],
                "additionalProperties": false
            }
        },
        {
            "name": "presence.get",
            "title": "Who is here",
            "description": "Lists the participants present in this room",
            "inputSchema": { "type": "object", "properties": {}, "additionalProperties": false },
            "annotations": { "readOnlyHint": true }
        },
        {
            "name": "history.get",
            "title": "What was said",
            "description": "Reads envelopes of this room, newest first",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "limit": { "type": "integer", "minimum": 1, "maximum": MOST_ENTRIES, "default": 20 },
                    "before": { "type": "string", "description": "An envelope id or an RFC 3339 time; only what came before" },
                    "after": { "type": "string", "description": "An envelope id; only what came after" }
                },
                "additionalProperties": false
            },
            "annotations": { "readOnlyHint": true }
        }
    ])
}

#[derive(Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Say {
    text: String,
    #[serde(default)]
    format: Option<SayFormat>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum SayFormat {
    Plain,
    Markdown,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    before: Option<String>,
    #[serde(default)]
    after: Option<EnvelopeId>,
}

impl Toolbox {
    /// Answers `tools/call`.
    pub(super) async fn call(
        &self,
        desk: &Desk,
        request: &Entry,
        params: Option<&str>,
    ) -> Result<Box<RawValue>, RpcError> {
        let call: Call = serde_json::from_str(params.unwrap_or("{}"))
            .map_err(|error| RpcError::invalid_params(format!("the parameters of a tool call: {error}")))?;
        let arguments = call.arguments.unwrap_or_else(|| json!({}));
        match call.name.as_str() {
            "chat.say" => self.say(desk, request, read(&call.name, arguments)?).await,
            "presence.get" => {
                let Nothing {} = read(&call.name, arguments)?;
                Ok(structured(&json!({ "topic": desk.topic(), "participants": desk.roster() })))
            }
            "history.get" => self.history(desk.topic(), read(&call.name, arguments)?).await,
            other => Err(RpcError::invalid_params(format!("the gateway has no tool `{other}`"))),
        }
    }

    async fn history(&self, topic: &TopicName, wish: Read) -> Result<Box<RawValue>, RpcError> {
        let limit = wish.limit.unwrap_or(20);
        if !(1..=MOST_ENTRIES).contains(&limit) {
            return Err(RpcError::invalid_params(format!("`limit` must be from 1 to {MOST_ENTRIES}")));
        }
        let mut shown = Shown { enabled: !self.history_off.contains(topic), ..Shown::of(topic) };
        if !shown.enabled {
            return Ok(structured(&shown));
        }
        let window = Window { before: wish.before.as_deref(), after: wish.after, limit };
        let Page { entries, next } = match history::read(&*self.log, topic, window).await {
            Ok(page) => page,
            Err(refusal) => return Ok(failed(&refusal.message)),
        };
        let mut bytes = 0;
        for entry in entries.iter().rev() {
            let length = entry.envelope.text().len();
            if length > MOST_BYTES {
                shown.omitted.push(entry.envelope.id().clone());
            } else if bytes + length > MOST_BYTES {
                // The page ends early; the next one begins with what did not fit.
                return Ok(structured(&shown));
            } else {
                bytes += length;
                shown.messages.push(history::raw(entry));
            }
            shown.next = Some(entry.envelope.id().clone());
        }
        shown.next = next;
        Ok(structured(&shown))
    }

    async fn say(&self, desk: &Desk, request: &Entry, say: Say) -> Result<Box<RawValue>, RpcError> {
        let mut params = json!({ "text": say.text });
        if let Some(format) = say.format {
            params["format"] = match format {
                SayFormat::Plain => "plain".into(),
                SayFormat::Markdown => "markdown".into(),
            };
        }
        let payload = json!({ "jsonrpc": "2.0", "method": CHAT_METHOD, "params": params });
        let caller = request.envelope.from();
        let draft = compose(self, "say", caller, &[], request.envelope.id(), payload);
        let id = draft.envelope().id().clone();
        match desk.publish(caller, draft).outcome().await {
            Ok(_) => Ok(structured(&json!({ "id": id }))),
            Err(refusal) => Ok(failed(&refusal.message)),
        }
    }
}

/// What `history.get` shows.
#[derive(Serialize)]
struct Shown<'a> {
    topic: &'a TopicName,
    enabled: bool,
    messages: Vec<Box<RawValue>>,
    /// Envelopes too long for an answer, which `GET …/history` has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<EnvelopeId>,
    next: Option<EnvelopeId>,
}

impl<'a> Shown<'a> {
    fn of(topic: &'a TopicName) -> Self {
        Self { topic, enabled: true, messages: Vec::new(), omitted: Vec::new(), next: None }
    }
}

fn read<T: serde::de::DeserializeOwned>(tool: &str, arguments: Value) -> Result<T, RpcError> {
    serde_json::from_value(arguments)
        .map_err(|error| RpcError::invalid_params(format!("the arguments of `{tool}`: {error}")))
}

#[derive(Serialize)]
struct Content<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// A result that programs read as it is and models read as text.
fn structured(value: &impl Serialize) -> Box<RawValue> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Result<'a> {
        content: [Content<'a>; 1],
        structured_content: &'a RawValue,
    }
    let structured_content = &*text(value);
    text(&Result { content: [Content { r#type: "text", text: structured_content.get() }], structured_content })
}

fn failed(message: &str) -> Box<RawValue> {
    text(&json!({ "content": [Content { r#type: "text", text: message }], "isError": true }))
}
