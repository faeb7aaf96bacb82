//! Tickets for browsers, and tokens for the reference clients in dev mode.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use salon_protocol::{ParticipantId, Timestamp, TopicName, TopicPattern};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::credentials::Asking;
use super::{Peer, Problem, Query, invalid};
use crate::auth::Grant;
use crate::clock;
use crate::gateway::Gateway;

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
}

#[utoipa::path(post, path = "/v0/tickets", tag = "MCPx", summary = "Exchange a token for a single-use ticket to one room",
    request_body = TicketRequest,
    responses((status = 201, description = "The ticket", body = TicketBody), (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = [])))]
pub(super) async fn issue(
    State(gateway): State<Arc<Gateway>>,
    Extension(Peer(peer)): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<TicketBody>), Problem> {
    let query = Query::parse(uri.query())?;
    let TicketRequest { topic } = read(&body)?;
    let asking = Asking { gateway: &gateway, peer: peer.ip(), headers: &headers, query: &query, topic: Some(&topic) };
    let grant = asking.by_header()?;
    let ticket = gateway.tickets.issue(&grant, &topic, clock::now())?;
    Ok((StatusCode::CREATED, Json(TicketBody { ticket, expires_in: 30 })))
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
pub(super) async fn dev_token(State(gateway): State<Arc<Gateway>>, body: Bytes) -> Result<Json<DevToken>, Problem> {
    let DevTokenRequest { participant, topic } = read(&body)?;
    if participant.is_reserved() {
        return Err(crate::auth::AuthError::ReservedId.into());
    }
    let now = clock::now();
    let grant = Grant::new(participant, vec![TopicPattern::Exact(topic)], Timestamp(now.0 + DEV_TOKEN_MILLIS));
    Ok(Json(DevToken { token: gateway.signer.sign(&grant, now)? }))
}

fn read<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| invalid(format!("the body is not what it must be: {error}")))
}
