//! The refusals that the client gets, in the room's codes: to be counted, because in MCP a refusal is an answer like any other.
//!
//! Deliberately absent: errors that participants answer with, and calls that fail for other reasons than a refusal.

use salon_mcp::code;
use salon_protocol::{Code, RpcError};
use serde::Deserialize;

use super::{Door, DoorRequest};

impl Door {
    /// Refuses a request of the client's.
    pub(super) fn refuse(&mut self, request: &DoorRequest, error: RpcError) {
        self.outbox.count(code_of(&error));
        self.streams.answer_request(request, &Err(error));
    }
}

/// What an error of the door's own is in the room's words.
pub(in crate::mcp) fn code_of(error: &RpcError) -> Code {
    #[derive(Deserialize)]
    struct Data {
        code: String,
    }
    let data = error.data.as_ref().and_then(|data| serde_json::from_str::<Data>(data.get()).ok());
    let named = data.and_then(|data| Code::ALL.into_iter().find(|code| code.word() == data.code));
    named.unwrap_or(match error.code {
        RpcError::PARSE_ERROR => Code::InvalidJson,
        RpcError::INVALID_REQUEST => Code::InvalidEnvelope,
        code::UNSUPPORTED_REVISION => Code::UnsupportedProtocol,
        code::RESOURCE_NOT_FOUND => Code::NotFound,
        -32603 => Code::Internal,
        _ => Code::InvalidParameters,
    })
}
