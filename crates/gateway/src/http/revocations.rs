//! Revoking tokens.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use salon_protocol::{Code, ParticipantId, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Incoming, Problem, tickets};
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{Revocation, RevokeError, RevokedTokens, participant_of_subject};
use crate::clock;

/// What a token must permit to revoke others.
pub(crate) const REVOKE_PERMISSION: &str = "revoke";

/// One of `token`, `participant` and `all`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevocationRequest {
    /// The id of a token (`jti`)
    token: Option<String>,
    /// Revoke the tokens of this participant: its id, or its subject (`sub`) at the authorization server
    participant: Option<String>,
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
    /// The ids of the participant whose tokens are revoked, as the gateway uses them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    participants: Vec<ParticipantId>,
}

#[utoipa::path(post, path = "/v0/auth/revocations", tag = "service", summary = "Revoke tokens, with a token that has the permission `revoke`",
    request_body = RevocationRequest,
    responses((status = 201, description = "Revoked; who is connected with such a token is disconnected", body = RevocationBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody), (status = 503, description = "Not now", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn revoke(
    incoming: Incoming,
    request: Request,
) -> Result<(StatusCode, Json<RevocationBody>), Problem> {
    let grant = incoming.credentials(request.headers(), None).by_header_or_cookie(request.method())?;
    if !grant.permissions.iter().any(|permission| permission == REVOKE_PERMISSION) {
        return Err(Problem::new(Code::Forbidden, "this token lacks the permission `revoke`"));
    }
    let now = clock::now();
    let spent = |refusal| incoming.gateway.spend(&grant.participant, refusal);
    let asked = tickets::read(&incoming.gateway, (&grant).into(), request).await.map_err(spent)?;
    let has_subjects = !incoming.gateway.config.auth.authorization_servers.is_empty();
    let revocations = read(asked, has_subjects, now).map_err(spent)?;
    for revocation in &revocations {
        let (all, adding) = (incoming.gateway.revocations.clone(), revocation.clone());
        let added = tokio::task::spawn_blocking(move || all.add(&adding)).await;
        let added = added.map_err(|_| Problem::new(Code::Internal, "the revocation failed"))?;
        if !matches!(added, Err(RevokeError::TooMany)) {
            let event = AuditEvent::new(AuditKind::Revocation, now).grant(&grant).address(incoming.ip());
            incoming.gateway.audit.record(event.reason(describe(&revocation.tokens)));
        }
        added.map_err(|error| match error {
            RevokeError::TooMany => Problem::new(Code::RateLimited, error.to_string()),
            RevokeError::NotWritten(_) => {
                tracing::error!(%error, "revocation: file not written, it applies until the next restart");
                Problem::new(Code::Internal, "it counts now, but could not be written and ends with the next restart")
            }
        })?;
    }
    if incoming.gateway.revocations.share().await.is_err() {
        tracing::warn!("revocation: other gateways unreachable, retrying");
    }
    let before = revocations.first().map_or(now, |revocation| Timestamp(revocation.before)).to_string();
    let participants = revocations.into_iter().filter_map(|revocation| match revocation.tokens {
        RevokedTokens::Participant(id) => Some(id),
        _ => None,
    });
    Ok((StatusCode::CREATED, Json(RevocationBody { before, participants: participants.collect() })))
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidParameters, message)
}

fn read(asked: RevocationRequest, has_subjects: bool, now: Timestamp) -> Result<Vec<Revocation>, Refusal> {
    let RevocationRequest { token, participant, all, before } = asked;
    let is_single = token.is_some();
    let tokens = match (token, participant, all) {
        (Some(id), None, false) if !id.is_empty() && id.len() <= 256 => vec![RevokedTokens::Token(id)],
        (Some(_), None, false) => return Err(invalid("`token` is the id of a token, of 1 to 256 bytes")),
        (None, Some(name), false) => {
            participants(&name, has_subjects)?.into_iter().map(RevokedTokens::Participant).collect()
        }
        (None, None, true) => vec![RevokedTokens::All(true)],
        _ => return Err(invalid("name one of `token`, `participant` and `all`")),
    };
    let before = match before {
        None => now,
        Some(_) if is_single => return Err(invalid("`before` goes with `participant` or `all`")),
        Some(text) => {
            Timestamp::parse(&text).ok_or_else(|| invalid("`before` is a time such as 2026-01-31T12:00:00Z"))?
        }
    };
    let before = before.0.min(now.0);
    Ok(tokens.into_iter().map(|tokens| Revocation { tokens, before }).collect())
}

/// The participants that a text can mean: the one with this id, and the one with this subject at the authorization server. `auth0|1` is an id as
/// well as a subject, so where they differ both are meant: revoking too little would leave a connection open.
fn participants(name: &str, has_subjects: bool) -> Result<Vec<ParticipantId>, Refusal> {
    let by_subject = if has_subjects { participant_of_subject(name).ok() } else { None };
    match (ParticipantId::new(name), by_subject) {
        (Ok(id), Some(other)) if other != id => Ok(vec![id, other]),
        (Ok(id), _) | (Err(_), Some(id)) => Ok(vec![id]),
        (Err(error), None) => Err(invalid(format!("`participant` is not the id of a participant: {error}"))),
    }
}

fn describe(tokens: &RevokedTokens) -> String {
    match tokens {
        RevokedTokens::Token(id) => format!("token {id}"),
        RevokedTokens::Participant(id) => format!("participant {id}"),
        RevokedTokens::All(_) => "all".to_owned(),
        RevokedTokens::Key(kid) => format!("key {kid}"),
    }
}
