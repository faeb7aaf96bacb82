//! JSON-RPC messages, read as far as their head.

use std::borrow::Cow;

use salon_protocol::RpcError;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The error codes that are said here beside those of JSON-RPC: those of MCP, and one of ours.
pub mod code {
    use salon_protocol::RpcError;

    /// Ours: whom it asked is not there, or not any more, or the room does not take it.
    pub const GONE: i64 = RpcError::SERVER_ERROR;
    /// Legacy: there is no such resource. The modern era has `INVALID_PARAMS` for it.
    // MCP 2025-11-25, Resources, "Error Handling".
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Legacy: pages must be opened first. The modern era asks by `input_required`.
    // MCP 2025-11-25, Elicitation, "URL Elicitation Required Error".
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern, HTTP: headers and body differ, or a header is missing.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the request needs something its client cannot be asked for.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// Modern: the revision asked for is not spoken.
    pub const UNSUPPORTED_REVISION: i64 = -32022;
}

/// The head of a message, borrowed from its text. A member that is `null` counts as missing.
#[derive(Debug, Clone, Deserialize)]
pub struct RpcHead<'a> {
    /// Its sender's id for it, or that of the request it answers.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// What is asked or told; an answer has none.
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    /// With what.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    /// The answer.
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    /// Why there is none.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

impl<'a> RpcHead<'a> {
    /// `None` when the text is not a JSON object, or one in which these members have other shapes.
    pub fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The id of a request, as JSON.
    pub fn request_id(&self) -> Option<&'a str> {
        self.method.is_some().then_some(())?;
        self.id.map(RawValue::get)
    }

    /// Whether this answers the request with that id, as JSON.
    pub fn answers(&self, id: &str) -> bool {
        self.method.is_none() && self.id.is_some_and(|own| same_id(own.get(), id))
    }
}

/// What `notifications/cancelled` takes back.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Cancelled<'a> {
    /// The request's id, as its sender has it.
    #[serde(borrow, rename = "requestId")]
    pub id: &'a RawValue,
    /// Why, if that is said.
    #[serde(borrow)]
    pub reason: Option<&'a RawValue>,
}

impl<'a> Cancelled<'a> {
    /// `None` when the parameters name no request.
    pub fn read(params: Option<&'a RawValue>) -> Option<Self> {
        serde_json::from_str(params?.get()).ok()
    }
}

/// Whether a JSON-RPC error says that there is no such method.
pub fn is_method_not_found(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct ErrorCode {
        code: i64,
    }
    serde_json::from_str::<ErrorCode>(error.get()).is_ok_and(|error| error.code == RpcError::METHOD_NOT_FOUND)
}

/// The error of an answer, as far as it can be read.
pub fn read_error(error: Option<&RawValue>) -> RpcError {
    let read = error.and_then(|error| serde_json::from_str(error.get()).ok());
    read.unwrap_or_else(|| RpcError::internal("the answer is an error that cannot be read"))
}

/// Whether two ids, as JSON, are the same, type included, however their characters are escaped.
pub fn same_id(one: &str, other: &str) -> bool {
    let text = |raw: &str| serde_json::from_str::<String>(raw).ok();
    one == other || text(one).is_some_and(|one| Some(one) == text(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_id_type_included() {
        let answers = |text: &str, id: &str| RpcHead::read(text).unwrap().answers(id);
        assert!(answers(r#"{"id":1,"result":{}}"#, "1"));
        assert!(answers(r#"{"id":"a","error":{}}"#, r#""\u0061""#));
        assert!(answers(r#"{"id":1,"result":null}"#, "1"));
        assert!(!answers(r#"{"id":"1","result":{}}"#, "1"));
        assert!(!answers(r#"{"id":1,"method":"ping"}"#, "1"));
        assert!(!answers(r#"{"id":null,"error":{}}"#, "1"));
    }

    #[test]
    fn only_a_request_has_a_request_id() {
        let id = |text: &'static str| RpcHead::read(text).unwrap().request_id();
        assert_eq!(id(r#"{"id":7,"method":"ping"}"#), Some("7"));
        assert_eq!(id(r#"{"method":"notifications/initialized"}"#), None);
        assert_eq!(id(r#"{"id":7,"result":{}}"#), None);
    }
}
