//! How this door says no: as an error message of the protocol, unless nobody was let in.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use salon_dialects::machine;
use salon_protocol::{Code, ParticipantId, Refusal};

use crate::clock;
use crate::http::{Problem, RefusedWith, invalid};

/// An answer that is a no.
pub(crate) enum MachineRejection {
    /// As everywhere.
    Problem(Problem),
    /// As an error message to somebody.
    Message { status: u16, refusal: Refusal, to: ParticipantId },
    /// This address does not take the method; it takes this.
    Method(&'static str),
}

impl From<Problem> for MachineRejection {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl IntoResponse for MachineRejection {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Message { status, refusal, to } => {
                let id = uuid::Uuid::new_v4().to_string();
                let body = machine::error_text(&refusal, &id, clock::now(), Some(&to));
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
                let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
                response.extensions_mut().insert(RefusedWith(refusal.code));
                if refusal.code == Code::RateLimited {
                    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                }
                response
            }
            Self::Method(allowed) => {
                let problem = invalid(format!("this address takes only {allowed}"));
                let mut response = problem.with_status(StatusCode::METHOD_NOT_ALLOWED).into_response();
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
                response
            }
        }
    }
}
