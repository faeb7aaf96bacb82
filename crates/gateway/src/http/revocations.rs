//! Revoking tokens.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use salon_protocol::{Code, ParticipantId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Incoming, Problem, invalid, tickets};
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{Revocation, RevokeError, RevokedTokens};
use crate::clock;

/// What a token must permit to revoke others.
pub(crate) const REVOKE_PERMISSION: &str = "revoke";

/// One of `token`, `participant` and `all`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevocationRequest {
    /// The id of a token (`jti`)
    token: Option<String>,
    /// Revoke the tokens of this participant
    #[schema(value_type = Option<String>)]
    participant: Option<ParticipantId>,
    /// Revoke everybody's tokens
    #[serde(default)]
    all: bool,
    /// Only tokens issued up to this time; now, unless it is given. Not with `token`
    before: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct RevocationBody {
    /// Tokens issued up to here are revoked
    before: String,
}

#[utoipa::path(post, path = "/v0/auth/revocations", tag = "service", summary = "Revoke tokens, with a token that has the permission `revoke`",
    request_body = RevocationRequest,
    responses((status = 201, description = "Revoked; who is connected with such a token is disconnected", body = RevocationBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody), (status = 503, description = "Not now", body = super::ProblemBody)),
    security(("bearer" = [])))]
pub(super) async fn revoke(
    incoming: Incoming,
    request: Request,
) -> Result<(StatusCode, Json<RevocationBody>), Problem> {
    let grant = incoming.credentials(request.headers(), None).by_header()?;
    if !grant.permissions.iter().any(|permission| permission == REVOKE_PERMISSION) {
        return Err(Problem::new(Code::Forbidden, "this token lacks the permission `revoke`"));
    }
    let now = clock::now();
    let asked = tickets::read(&incoming.gateway, (&grant).into(), request).await?;
    let revocation = read(asked, now)?;
    let (revocations, adding) = (incoming.gateway.revocations.clone(), revocation.clone());
    let added = tokio::task::spawn_blocking(move || revocations.add(&adding)).await;
    let added = added.map_err(|_| Problem::new(Code::Internal, "the revocation failed"))?;
    if !matches!(added, Err(RevokeError::TooMany)) {
        let event = AuditEvent::new(AuditKind::Revocation, now).grant(&grant).address(incoming.ip());
        incoming.gateway.audit.record(event.reason(describe(&revocation.tokens)));
    }
    added.map_err(|error| match error {
        RevokeError::TooMany => Problem::new(Code::RateLimited, error.to_string()),
        RevokeError::NotWritten(_) => {
            tracing::error!(%error, "revocation: counts until the next restart only");
            Problem::new(Code::Internal, "it counts now, but could not be written and ends with the next restart")
        }
    })?;
    if incoming.gateway.revocations.share().await.is_err() {
        tracing::warn!("revocation: other gateways unreachable, telling them later");
    }
    Ok((StatusCode::CREATED, Json(RevocationBody { before: Timestamp(revocation.before).to_string() })))
}

fn read(asked: RevocationRequest, now: Timestamp) -> Result<Revocation, Problem> {
    let RevocationRequest { token, participant, all, before } = asked;
    let is_single = token.is_some();
    let tokens = match (token, participant, all) {
        (Some(id), None, false) if !id.is_empty() && id.len() <= 256 => RevokedTokens::Token(id),
        (Some(_), None, false) => return Err(invalid("`token` is the id of a token, of 1 to 256 bytes")),
        (None, Some(id), false) => RevokedTokens::Participant(id),
        (None, None, true) => RevokedTokens::All(true),
        _ => return Err(invalid("name one of `token`, `participant` and `all`")),
    };
    let before = match before {
        None => now,
        Some(_) if is_single => return Err(invalid("`before` goes with `participant` or `all`")),
        Some(text) => {
            Timestamp::parse(&text).ok_or_else(|| invalid("`before` is a time such as 2026-01-31T12:00:00Z"))?
        }
    };
    Ok(Revocation { tokens, before: before.0.min(now.0) })
}

fn describe(tokens: &RevokedTokens) -> String {
    match tokens {
        RevokedTokens::Token(id) => format!("token {id}"),
        RevokedTokens::Participant(id) => format!("participant {id}"),
        RevokedTokens::All(_) => "all".to_owned(),
    }
}
