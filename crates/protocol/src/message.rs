//! The JSON-RPC head of an MCP payload. Beyond it a payload is the participants' own affair.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::scan::{Field, Shape, string_value};
use crate::{Code, Refusal};

/// The method of a chat line.
pub const CHAT_METHOD: &str = "notifications/chat/message";

/// The method by which the author of a chat line replaces its text. The envelope's `correlation_id` names the line.
pub const CHAT_EDIT_METHOD: &str = "notifications/chat/edit";

/// The method by which the author of a chat line takes it back. The envelope's `correlation_id` names the line.
pub const CHAT_RETRACT_METHOD: &str = "notifications/chat/retract";

/// The notification by which a session of a participant tells those that keep something for it that it has ended. Which session is in the
/// envelope's `from_session`.
pub const SESSION_ENDED_METHOD: &str = "notifications/session/ended";

/// A JSON-RPC id, type included: `1` and `"1"` are different, and so are `1` and `1.0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RpcId {
    /// A number, as it was written.
    Number(Box<str>),
    /// A string, decoded.
    String(Box<str>),
}

impl RpcId {
    fn read(raw: &str, shape: Shape) -> Option<Self> {
        match shape {
            Shape::Number => Some(Self::Number(raw.into())),
            Shape::String => string_value(raw).map(|text| Self::String(text.into())),
            _ => None,
        }
    }

    /// Reads an id from JSON; `None` when it is neither a number nor a string.
    pub fn parse(json: &str) -> Option<Self> {
        let json = json.trim();
        match json.as_bytes().first()? {
            // Nobody has scanned it.
            b'"' => serde_json::from_str::<String>(json).ok().map(|text| Self::String(text.into())),
            b'-' | b'0'..=b'9' => {
                serde_json::from_str::<&RawValue>(json).ok().and_then(|raw| Self::read(raw.get(), Shape::Number))
            }
            _ => None,
        }
    }

    /// The id as a raw value.
    pub fn to_raw(&self) -> Box<RawValue> {
        RawValue::from_string(self.to_json()).expect("a JSON-RPC id is JSON")
    }

    /// The id as JSON.
    pub fn to_json(&self) -> String {
        match self {
            Self::Number(raw) => raw.to_string(),
            Self::String(text) => serde_json::Value::from(&**text).to_string(),
        }
    }
}

/// What a payload is to JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Wants an answer.
    Request {
        /// The caller's id for it.
        id: RpcId,
        /// Its method.
        method: Box<str>,
    },
    /// Wants none.
    Notification {
        /// Its method.
        method: Box<str>,
    },
    /// Is an answer.
    Response {
        /// The id of the request.
        id: RpcId,
        /// Whether it carries a result rather than an error.
        succeeded: bool,
    },
}

impl Message {
    /// Reads the head from the payload's fields.
    pub(crate) fn read(text: &str, fields: &[Field<'_>]) -> Result<Self, Refusal> {
        let invalid = |message: &str| Refusal::new(Code::InvalidEnvelope, message);
        let field = |name: &str| fields.iter().find(|f| f.key == name);
        let raw = |f: &Field<'_>| &text[f.value.clone()];

        let version = field("jsonrpc").map(raw);
        if version != Some("\"2.0\"") {
            return Err(invalid("`payload.jsonrpc` must be \"2.0\""));
        }
        let id = match field("id") {
            None => None,
            Some(f) => {
                Some(RpcId::read(raw(f), f.shape).ok_or_else(|| invalid("`payload.id` must be a number or a string"))?)
            }
        };
        let outcomes = (field("result"), field("error"));
        let Some(method) = field("method") else {
            return match (id, outcomes) {
                (Some(id), (Some(_), None)) => Ok(Self::Response { id, succeeded: true }),
                (Some(id), (None, Some(error))) if error.shape == Shape::Object => {
                    Ok(Self::Response { id, succeeded: false })
                }
                (_, (None, Some(error))) if error.shape != Shape::Object => {
                    Err(invalid("`payload.error` must be an object"))
                }
                (None, (Some(_), _) | (_, Some(_))) => Err(invalid("a response must have `payload.id`")),
                (_, (Some(_), Some(_))) => Err(invalid("a response has either `result` or `error`, not both")),
                (_, (None, _)) => Err(invalid("`payload` has neither `method` nor `result` nor `error`")),
            };
        };
        if outcomes.0.is_some() || outcomes.1.is_some() {
            return Err(invalid("`payload` has a `method` and an answer at once"));
        }
        if field("params").is_some_and(|f| !matches!(f.shape, Shape::Object | Shape::Array)) {
            return Err(invalid("`payload.params` must be an object or an array"));
        }
        let method = string_value(raw(method)).ok_or_else(|| invalid("`payload.method` must be a string"))?;
        if method.is_empty() {
            return Err(invalid("`payload.method` must not be empty"));
        }
        let method = method.into();
        Ok(match id {
            Some(id) => Self::Request { id, method },
            None => Self::Notification { method },
        })
    }
}

/// How a chat line is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatFormat {
    /// As it is.
    #[default]
    Plain,
    /// As Markdown.
    Markdown,
}

/// The parameters of a chat line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Chat {
    /// The message, for people to read.
    pub text: String,
    /// How to show it.
    #[serde(default)]
    pub format: ChatFormat,
}

/// What the author of a chat line makes of it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatRevision {
    /// It says something else now.
    Edited(Chat),
    /// It is taken back.
    Retracted,
}
