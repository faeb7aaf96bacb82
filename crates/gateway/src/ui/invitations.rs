//! Invitations: links that sign a browser in as somebody else, for one topic, made by operators on the page.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use salon_control::OPERATOR_PERMISSION;
use salon_protocol::{Code, ParticipantId, ParticipantKind, Timestamp, TopicName, TopicPattern};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::of;
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{AuthError, Grant};
use crate::clock;
use crate::http::{Incoming, Problem, invalid, tickets};

/// How long a person who was invited is signed in, unless tokens last shorter here.
const SESSION_MILLIS: u64 = 30 * 24 * 60 * 60 * 1000;

const MAX_NAME_CHARS: usize = 100;

/// Whom to let in, and where
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvitationRequest {
    /// The only topic that the invited person may enter
    #[schema(value_type = String)]
    topic: TopicName,
    /// The id that the person gets
    #[schema(value_type = String)]
    id: ParticipantId,
    /// The name that others see
    name: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct InvitationBody {
    /// The end of the link: the page's address with this fragment signs a browser in, once
    fragment: String,
    /// Until when the link works
    #[schema(value_type = String, format = DateTime)]
    expires: Timestamp,
}

#[utoipa::path(post, path = "/v0/invitations", operation_id = "invite", tag = "Web", summary = "Make a link that signs a person in, with a token that has the permission `operator`",
    request_body = InvitationRequest,
    responses((status = 201, description = "The link, which works once", body = InvitationBody),
        (status = "4XX", description = "Refused", body = crate::http::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn invite(
    incoming: Incoming,
    request: Request,
) -> Result<(StatusCode, Json<InvitationBody>), Problem> {
    let gateway = &incoming.gateway;
    let ui = of(gateway)?;
    let by = incoming.credentials(request.headers(), None).by_header_or_cookie(request.method())?;
    let read = tickets::read(gateway, (&by).into(), request).await;
    let InvitationRequest { topic, id, name } = read.map_err(|refusal| gateway.spend(&by.participant, refusal))?;
    by.require(&topic)?;
    if !by.permissions.iter().any(|permission| permission == OPERATOR_PERMISSION) {
        return Err(Problem::new(Code::Forbidden, "this token lacks the permission `operator`"));
    }
    if id.is_reserved() {
        return Err(AuthError::ReservedId.into());
    }
    if name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
        return Err(invalid(format!("`name` has more than {MAX_NAME_CHARS} characters")));
    }
    let now = clock::now();
    let longest = u64::try_from(gateway.config.auth.max_token_lifetime.as_millis()).unwrap_or(u64::MAX);
    let lasts = if longest == 0 { SESSION_MILLIS } else { SESSION_MILLIS.min(longest) };
    let mut grant = Grant::new(id, vec![TopicPattern::Exact(topic.clone())], Timestamp(now.0 + lasts));
    grant.name = name.filter(|name| !name.trim().is_empty());
    grant.kind = Some(ParticipantKind::Human);
    // Nobody hands out more than it has, and the invitation is revoked with its maker's token, the maker's tokens, or the key that signed it.
    grant.capabilities = by.capabilities.clone();
    grant.origin = by.origin.clone().or_else(|| by.token_id.clone());
    grant.inviter = Some(by.inviter.clone().unwrap_or_else(|| by.participant.clone()));
    grant.signing_key = by.signing_key.clone();
    let event = AuditEvent::new(AuditKind::Invitation, now).grant(&by).address(incoming.ip()).topic(&topic);
    gateway.audit.record(event.reason(format!("invited {}", grant.participant)));
    let (fragment, expires) = ui.links.invitation(grant, now);
    Ok((StatusCode::CREATED, Json(InvitationBody { fragment, expires })))
}
