//! A refusal as HTTP says it: a status, and `{"error", "code"}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use salon_protocol::{Code, EnvelopeId, Refusal};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::AuthError;

/// An answer that is a no.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    refusal: Refusal,
}

/// Marks an answer that is a no, for whoever counts them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedWith(pub(crate) Code);

/// What the body of a no looks like.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemBody {
    /// A sentence for a person
    error: String,
    /// A stable word for a program
    #[schema(value_type = String, example = "forbidden")]
    code: Code,
    /// The envelope that was refused, where there was one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    id: Option<EnvelopeId>,
}

impl Problem {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Refusal::new(code, message).into()
    }

    /// The same no with another status than its code usually has.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.refusal.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.refusal.message
    }
}

/// A value in the request that is not what it must be.
pub(crate) fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(Code::InvalidParameters, message)
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.code {
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden | Code::FromMismatch | Code::ReservedKind => StatusCode::FORBIDDEN,
            Code::NotFound | Code::RecipientNotFound => StatusCode::NOT_FOUND,
            Code::IdConflict | Code::VersionConflict | Code::CorrelationMismatch => StatusCode::CONFLICT,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Code::Timeout => StatusCode::REQUEST_TIMEOUT,
            Code::Closing => StatusCode::SERVICE_UNAVAILABLE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, refusal }
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        Refusal::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Refusal { code, message, regarding } = self.refusal;
        let body = Json(ProblemBody { error: message, code, id: regarding });
        let mut response = (self.status, body).into_response();
        response.extensions_mut().insert(RefusedWith(code));
        let mut add = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
        match self.status {
            StatusCode::UNAUTHORIZED => drop(add(header::WWW_AUTHENTICATE, "Bearer realm=\"salon\"")),
            StatusCode::TOO_MANY_REQUESTS => drop(add(header::RETRY_AFTER, "1")),
            StatusCode::UPGRADE_REQUIRED => drop(add(header::UPGRADE, "websocket")),
            _ => {}
        }
        response
    }
}
