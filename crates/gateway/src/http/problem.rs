//! Refusals over HTTP: a status, and a body `{"error", "code"}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use salon_protocol::{Code, EnvelopeId, Refusal};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::AuthError;

/// A refusal as an answer over HTTP.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    refusal: Refusal,
    fault: Option<TokenFault>,
}

/// What RFC 6750 calls the reason, where a token was shown and is the reason.
#[derive(Debug, Clone, Copy)]
enum TokenFault {
    Invalid,
    InsufficientScope,
}

/// The most characters of a reason in a header; the whole of it is in the body.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Marks an answer as a refusal, for the meters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusedWith(pub(crate) Code);

/// The body of a refusal.
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

    /// The same refusal with another status than its code usually has.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The same refusal in other words.
    pub(crate) fn with_message(mut self, message: String) -> Self {
        self.refusal.message = message;
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.refusal.code
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
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
            Code::Forbidden
            | Code::Paused
            | Code::Archived
            | Code::ApprovalDenied
            | Code::FromMismatch
            | Code::ReservedKind => StatusCode::FORBIDDEN,
            Code::NotFound | Code::RecipientNotFound => StatusCode::NOT_FOUND,
            Code::IdConflict
            | Code::VersionConflict
            | Code::CorrelationMismatch
            | Code::CallEnded
            | Code::TooManyHops => StatusCode::CONFLICT,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Code::Timeout | Code::ApprovalExpired => StatusCode::REQUEST_TIMEOUT,
            Code::Closing => StatusCode::SERVICE_UNAVAILABLE,
            Code::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Code::InvalidJson
            | Code::InvalidEnvelope
            | Code::UnsupportedProtocol
            | Code::RecipientRequired
            | Code::CorrelationRequired
            | Code::InvalidParameters
            | Code::ToolError
            | Code::TooDeep => StatusCode::BAD_REQUEST,
        };
        Self { status, refusal, fault: None }
    }
}

impl From<Problem> for Refusal {
    /// Without what only HTTP has a place for.
    fn from(problem: Problem) -> Self {
        problem.refusal
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        let fault = match error {
            AuthError::TopicNotOpen(_) | AuthError::NoTopic(_) => Some(TokenFault::InsufficientScope),
            // No token was shown, or it was not the token that was wrong. An id that nobody may have is nothing that another
            // token of the same participant would fix.
            AuthError::Missing
            | AuthError::ReservedId
            | AuthError::BridgeId(_)
            | AuthError::TicketUnknown
            | AuthError::TicketForOtherTopic
            | AuthError::TicketsUnavailable
            | AuthError::KeysUnavailable
            | AuthError::TooManyTickets
            | AuthError::CodeUnknown
            | AuthError::NotSignedIn
            | AuthError::SignInTooLong
            | AuthError::TooManySignOuts => None,
            AuthError::TooLong
            | AuthError::Malformed
            | AuthError::UnsupportedAlgorithm
            | AuthError::CriticalExtension
            | AuthError::UnknownKey
            | AuthError::KeyNotNamed
            | AuthError::AlgorithmMismatch
            | AuthError::BadSignature
            | AuthError::MissingClaim(_)
            | AuthError::NotAnAccessToken
            | AuthError::WrongIssuer
            | AuthError::WrongAudience(_)
            | AuthError::InvalidClaim { .. }
            | AuthError::UndeclaredNamespace(..)
            | AuthError::Expired
            | AuthError::Revoked
            | AuthError::NotYetValid
            | AuthError::TooLongLived(_)
            | AuthError::MustSign => Some(TokenFault::Invalid),
        };
        Self { fault, ..Refusal::from(error).into() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Refusal { code, message, regarding } = self.refusal;
        let challenge = challenge(self.status, self.fault, &message);
        let body = Json(ProblemBody { error: message, code, id: regarding });
        let mut response = (self.status, body).into_response();
        response.extensions_mut().insert(RefusedWith(code));
        let mut add = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => drop(add(header::RETRY_AFTER, "1")),
            StatusCode::UPGRADE_REQUIRED => {
                add(header::UPGRADE, "websocket");
                // RFC 6455 §4.4: the versions there are.
                add(header::SEC_WEBSOCKET_VERSION, "13");
            }
            _ => {}
        }
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// What a client is to do about its token, as RFC 6750 says it.
fn challenge(status: StatusCode, fault: Option<TokenFault>, message: &str) -> Option<HeaderValue> {
    let error = match fault {
        None if status != StatusCode::UNAUTHORIZED => return None,
        None => return Some(HeaderValue::from_static("Bearer realm=\"salon\"")),
        Some(TokenFault::Invalid) => "invalid_token",
        Some(TokenFault::InsufficientScope) => "insufficient_scope",
    };
    let description: String = message.chars().take(MAX_DESCRIPTION_CHARS).map(describing).collect();
    let challenge = format!("Bearer realm=\"salon\", error=\"{error}\", error_description=\"{description}\"");
    Some(HeaderValue::try_from(challenge).expect("every character is printable ASCII"))
}

/// A character as a description may have it: printable ASCII without what ends or escapes a quoted text.
fn describing(character: char) -> char {
    match character {
        '"' | '\\' => '\'',
        ' '..='~' => character,
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge_of(problem: impl Into<Problem>) -> String {
        let response = problem.into().into_response();
        let challenge = response.headers().get(header::WWW_AUTHENTICATE);
        let challenge = challenge.map_or("-", |value| value.to_str().expect("printable"));
        format!("{} {challenge}", response.status().as_u16())
    }

    #[test]
    fn a_challenge_says_what_is_wrong_with_the_token() {
        let topic = salon_protocol::TopicName::new("room:a").expect("a name");
        let odd = AuthError::InvalidClaim { claim: "sub", why: "\"a\\b\" é\n, x=\"y\"".into() };
        let long = AuthError::InvalidClaim { claim: "sub", why: "x".repeat(5000) };
        let told = [
            challenge_of(AuthError::Missing),
            challenge_of(AuthError::Expired),
            challenge_of(AuthError::TopicNotOpen(topic)),
            challenge_of(odd),
            challenge_of(AuthError::TicketUnknown),
            challenge_of(AuthError::TicketsUnavailable),
            challenge_of(AuthError::ReservedId),
            challenge_of(Refusal::new(Code::Forbidden, "no")),
            challenge_of(Refusal::new(Code::NotFound, "no")),
        ];
        insta::assert_snapshot!(told.join("\n"), @r#"
        401 Bearer realm="salon"
        401 Bearer realm="salon", error="invalid_token", error_description="the token has expired"
        403 Bearer realm="salon", error="insufficient_scope", error_description="topic `room:a` is not open to this token"
        401 Bearer realm="salon", error="invalid_token", error_description="the token's `sub` is not usable: 'a'b' ??, x='y'"
        401 Bearer realm="salon"
        503 -
        403 -
        403 -
        404 -
        "#);
        assert!(challenge_of(long).len() < 400, "a header has bounds");
    }
}
