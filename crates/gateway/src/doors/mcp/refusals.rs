//! How the MCP door says no: as JSON-RPC where MCP says what a status means, else as the gateway says it everywhere.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use salon_dialects::mcp::door::ErrorBody;
use salon_protocol::{Code, Refusal, RpcError, rpc};
use serde_json::value::RawValue;

use crate::http::{Problem, RefusedWith};

/// The JSON-RPC code of a session that is not there.
const NO_SESSION: i64 = -32001;

/// An answer that is a no.
pub(crate) enum McpRejection {
    /// As everywhere.
    Problem(Problem),
    /// As a JSON-RPC error that answers no request in particular.
    Rpc { status: StatusCode, error: i64, code: Code, message: String },
    /// The grammar's own.
    Fault(ErrorBody),
    /// This address does not take the method; it takes these.
    Method(&'static str),
    /// Nor does the one for long-polling, which somebody may have taken for a participant's.
    Polling,
}

/// What long-polling's address takes, and how to address a participant whose id is the end of that address.
const POLLED: &str = "POST, DELETE";
const NAMESAKE: &str = "a participant called `poll` is at /sse?topic={topic}&participant=poll";

impl McpRejection {
    fn rpc(status: StatusCode, error: i64, code: Code, message: impl Into<String>) -> Self {
        Self::Rpc { status, error, code, message: message.into() }
    }

    pub(super) fn wrong(status: StatusCode, message: impl Into<String>) -> Self {
        Self::rpc(status, RpcError::SERVER_ERROR, Code::InvalidParameters, message)
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::wrong(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn not_json(message: impl Into<String>) -> Self {
        Self::rpc(StatusCode::BAD_REQUEST, RpcError::PARSE_ERROR, Code::InvalidJson, message)
    }

    /// An address of MCP names a room.
    pub(super) fn no_room() -> Self {
        let told =
            "name a room: /mcp/{topic} or /mcp?topic={topic}, or one of its participants: /mcp/{topic}/{participant}";
        Self::rpc(StatusCode::NOT_FOUND, NO_SESSION, Code::NotFound, told)
    }

    /// A poll that belongs to no session and begins none.
    pub(super) fn no_poll() -> Self {
        let told = "`Mcp-Session-Id` is missing; long-polling begins with an `initialize` that has `mcpVersion`";
        Self::bad(format!("{told}; {NAMESAKE}"))
    }

    /// A client that gets this begins a new session.
    pub(super) fn no_session() -> Self {
        Self::rpc(StatusCode::NOT_FOUND, NO_SESSION, Code::NotFound, "there is no such session, or not any more")
    }
}

impl From<Problem> for McpRejection {
    fn from(problem: Problem) -> Self {
        let status = match problem.code() {
            Code::InvalidJson => return Self::not_json(problem.message()),
            Code::InvalidParameters => StatusCode::BAD_REQUEST,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::Timeout => StatusCode::REQUEST_TIMEOUT,
            _ => return Self::Problem(problem),
        };
        Self::rpc(status, RpcError::SERVER_ERROR, problem.code(), problem.message())
    }
}

impl From<Refusal> for McpRejection {
    fn from(refusal: Refusal) -> Self {
        Problem::from(refusal).into()
    }
}

impl IntoResponse for McpRejection {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Rpc { status, error, code, message } => answer(status, code, rpc_error(error, &message)),
            Self::Fault(fault) => {
                let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::BAD_REQUEST);
                answer(status, Code::InvalidParameters, fault.message().get().to_owned())
            }
            Self::Method(allowed) => {
                not_allowed(allowed, &format!("this address takes only {allowed} in this revision of MCP"))
            }
            Self::Polling => {
                not_allowed(POLLED, &format!("this address is for long-polling and takes only {POLLED}; {NAMESAKE}"))
            }
        }
    }
}

fn not_allowed(allowed: &'static str, message: &str) -> Response {
    let body = rpc_error(RpcError::SERVER_ERROR, message);
    let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, Code::InvalidParameters, body);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn rpc_error(code: i64, message: &str) -> String {
    rpc::failure(RawValue::NULL, &RpcError::new(code, message)).get().to_owned()
}

fn answer(status: StatusCode, code: Code, body: String) -> Response {
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    response.extensions_mut().insert(RefusedWith(code));
    response
}
