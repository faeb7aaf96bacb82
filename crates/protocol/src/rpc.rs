//! JSON-RPC messages, written around raw parts: what is put in comes out as it was.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// A JSON-RPC error, as a participant answers it.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Which kind of error.
    pub code: i64,
    /// A sentence for people.
    pub message: String,
    /// Anything more, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// The message is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is JSON, but no valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist here.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The participant failed.
    pub const INTERNAL: i64 = -32603;
    /// Any failure for which JSON-RPC and MCP have no code. `data` often says which.
    pub const SERVER_ERROR: i64 = -32000;
    /// The request was cancelled.
    pub const CANCELLED: i64 = -32800;

    /// An error with a code and a sentence.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The method does not exist here.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("the method `{method}` is not offered here"))
    }

    /// The parameters do not fit.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// The participant failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Self::INTERNAL, message)
    }

    /// With something more. What cannot be written is left out.
    #[must_use]
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = to_raw_value(data).ok();
        self
    }
}

#[derive(Serialize)]
struct RpcFrame<'a, I> {
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
    error: Option<&'a RpcError>,
}

impl<I> Default for RpcFrame<'_, I> {
    fn default() -> Self {
        Self { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None }
    }
}

impl<I: Serialize> RpcFrame<'_, I> {
    fn write(&self) -> Box<RawValue> {
        to_raw_value(self).expect("a message has only string keys")
    }
}

/// A request. Its id is a number or a string.
pub fn request(id: impl Serialize, method: &str, params: Option<&RawValue>) -> Box<RawValue> {
    RpcFrame { id: Some(id), method: Some(method), params, ..RpcFrame::default() }.write()
}

/// A notification.
pub fn notification(method: &str, params: Option<&RawValue>) -> Box<RawValue> {
    RpcFrame::<u64> { method: Some(method), params, ..RpcFrame::default() }.write()
}

/// An answer, the request's id exactly as it was given.
pub fn response(id: &RawValue, result: &RawValue) -> Box<RawValue> {
    RpcFrame { id: Some(id), result: Some(result), ..RpcFrame::default() }.write()
}

/// An answer that is an error.
pub fn failure(id: &RawValue, error: &RpcError) -> Box<RawValue> {
    RpcFrame { id: Some(id), error: Some(error), ..RpcFrame::default() }.write()
}

/// An answer of either kind.
pub fn outcome(id: &RawValue, outcome: &Result<Box<RawValue>, RpcError>) -> Box<RawValue> {
    match outcome {
        Ok(result) => response(id, result),
        Err(error) => failure(id, error),
    }
}
