//! JSON-RPC messages, read as far as their head.

use salon_protocol::Members;
use serde_json::value::RawValue;

/// The error codes of MCP that are said here, beside those of JSON-RPC.
pub mod code {
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
