//! JSON-RPC messages, read as far as their head and written around raw parts.

use salon_protocol::Members;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The error codes of JSON-RPC and MCP that are said here.
pub mod code {
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit.
    pub const INVALID_PARAMS: i64 = -32602;
    /// It went wrong.
    pub const INTERNAL: i64 = -32603;
    /// Modern, HTTP: headers and body differ, or a header is missing.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the revision asked for is not spoken.
    pub const UNSUPPORTED_REVISION: i64 = -32022;
}

/// What a message is.
#[derive(Debug, Clone)]
pub enum Head {
    /// Wants an answer.
    Request {
        /// Its sender's id for it, as written.
        id: Box<RawValue>,
        /// What is asked.
        method: String,
    },
    /// Wants none.
    Notification {
        /// What is told.
        method: String,
    },
    /// Is an answer.
    Response {
        /// The id of the request, as written.
        id: Box<RawValue>,
    },
}

impl Head {
    /// Reads a message's head; `None` when it is no JSON-RPC message.
    pub fn read(message: &Members) -> Option<Self> {
        let id = message.get("id");
        let method = message.get("method").map(|method| serde_json::from_str::<String>(method.get()));
        match (id, method) {
            (Some(id), Some(Ok(method))) => Some(Self::Request { id: id.to_owned(), method }),
            (None, Some(Ok(method))) => Some(Self::Notification { method }),
            (Some(id), None) if message.get("result").is_some() || message.get("error").is_some() => {
                Some(Self::Response { id: id.to_owned() })
            }
            _ => None,
        }
    }
}

/// Whether two ids are the same, type included, however their characters are escaped.
pub fn same_id(one: &RawValue, other: &RawValue) -> bool {
    let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).ok();
    one.get() == other.get() || text(one).is_some_and(|one| Some(one) == text(other))
}

/// A JSON-RPC error.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// Which kind of error.
    pub code: i64,
    /// A sentence for people.
    pub message: String,
    /// Anything more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl Failure {
    /// An error with a code and a sentence.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// With something more. What cannot be written is left out.
    #[must_use]
    pub fn data(mut self, data: &impl Serialize) -> Self {
        self.data = to_raw_value(data).ok();
        self
    }
}

#[derive(Serialize)]
struct Message<'a, I: Serialize> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<I>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
}

impl<I: Serialize> Default for Message<'_, I> {
    fn default() -> Self {
        Self { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None }
    }
}

impl<I: Serialize> Message<'_, I> {
    fn write(&self) -> Box<RawValue> {
        to_raw_value(self).expect("a message has only string keys")
    }
}

/// A request.
pub fn request(id: u64, method: &str, params: Option<&RawValue>) -> Box<RawValue> {
    Message { id: Some(id), method: Some(method), params, ..Message::default() }.write()
}

/// A notification.
pub fn notification(method: &str, params: Option<&RawValue>) -> Box<RawValue> {
    Message::<u64> { method: Some(method), params, ..Message::default() }.write()
}

/// An answer.
pub fn response(id: &RawValue, result: &RawValue) -> Box<RawValue> {
    Message { id: Some(id), result: Some(result), ..Message::default() }.write()
}

/// An answer that is an error.
pub fn failure(id: &RawValue, error: &Failure) -> Box<RawValue> {
    Message { id: Some(id), error: Some(error), ..Message::default() }.write()
}
