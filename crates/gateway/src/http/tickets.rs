//! Tickets for browsers, and tokens for the reference clients in dev mode.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use salon_protocol::{Code, ParticipantId, Refusal, Timestamp, TopicName, TopicPattern};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::bodies::BodySender;
use super::{Incoming, Problem, body};
use crate::auth::{AuthError, Grant};
use crate::clock;
use crate::gateway::GatewayState;
use crate::ui::session::SessionBody;

/// More than any body here needs.
const MAX_BODY: usize = 4 * 1024;

/// How long a token of dev mode lasts.
const DEV_TOKEN_MILLIS: u64 = 24 * 60 * 60 * 1000;

#[derive(Deserialize, ToSchema)]
pub(super) struct TicketRequest {
    #[schema(value_type = String)]
    topic: TopicName,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TicketBody {
    /// Goes into `?ticket=` of the WebSocket or the stream, once
    ticket: String,
    /// Seconds it can be used for
    expires_in: u64,
    /// Who is signed in, for a browser: the page needs no request of its own for that
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionBody>,
}

#[utoipa::path(post, path = "/v0/tickets", tag = "MCPx", summary = "Exchange a token, or a browser's session, for a single-use ticket to one room",
    request_body = TicketRequest,
    responses((status = 201, description = "The ticket", body = TicketBody), (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn issue(incoming: Incoming, request: Request) -> Result<(StatusCode, Json<TicketBody>), Problem> {
    let grant = incoming.credentials(request.headers(), None).for_ticket(request.method())?;
    let gateway = &incoming.gateway;
    let read = read(gateway, (&grant).into(), request).await;
    let TicketRequest { topic } = read.map_err(|refusal| gateway.spend(&grant.participant, refusal))?;
    incoming.note(&grant, Some(&topic));
    grant.require(&topic)?;
    gateway.reads.take(&grant.participant)?;
    let ticket = gateway.tickets.give(&grant, &topic, clock::now()).await?;
    let session = grant.by_sign_in.then(|| SessionBody::of(gateway, grant));
    Ok((StatusCode::CREATED, Json(TicketBody { ticket, expires_in: 30, session })))
}

#[derive(Deserialize)]
pub(super) struct DevTokenRequest {
    #[serde(rename = "participantId")]
    participant: ParticipantId,
    topic: TopicName,
}

#[derive(Serialize)]
pub(super) struct DevToken {
    token: String,
}

/// Gives anybody who asks a token for any id. Routed in dev mode alone, which is refused on any address but loopback.
pub(super) async fn dev_token(incoming: Incoming, request: Request) -> Result<Json<DevToken>, Problem> {
    let gateway = &incoming.gateway;
    let sender = BodySender::stranger(&incoming.peer);
    let DevTokenRequest { participant, topic } = read(gateway, sender, request).await?;
    if participant.is_reserved() {
        return Err(AuthError::ReservedId.into());
    }
    let now = clock::now();
    let grant = Grant::new(participant, vec![TopicPattern::Exact(topic)], Timestamp(now.0 + DEV_TOKEN_MILLIS));
    grant.require_namespaces(&gateway.namespaces)?;
    Ok(Json(DevToken { token: gateway.signer.sign(&grant, now)? }))
}

pub(crate) async fn read<T: serde::de::DeserializeOwned>(
    gateway: &GatewayState,
    sender: BodySender,
    request: Request,
) -> Result<T, Refusal> {
    let body = body::read(gateway, sender, request.into_body(), MAX_BODY).await?;
    let unfit = |error| Refusal::new(Code::InvalidParameters, format!("the body is not what it must be: {error}"));
    serde_json::from_slice(&body).map_err(unfit)
}
