//! Publishing one envelope over HTTP. It makes nobody present.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use salon_control::ControlNotice;
use salon_log::Appended;
use salon_protocol::{Code, Draft, EnvelopeId, ParticipantId, Position, Refusal};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::{Incoming, Problem, body};

#[derive(Serialize, ToSchema)]
pub(super) struct Published {
    #[schema(value_type = String)]
    id: EnvelopeId,
    /// Where it stands in the topic; later ones sort after it only by the log's order, not as text
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    position: Position,
    /// Whether the very same envelope had been stored before
    repeated: bool,
    /// Whether it is a call that waits for approval. `position` is then that of the notice about it
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    held: bool,
    /// The participants that `to` names and that are not in the room now
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    absent: Vec<ParticipantId>,
}

fn as_text<S: Serializer>(position: &Position, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(position)
}

#[utoipa::path(post, path = "/v0/topics/{topic}/messages", tag = "MCPx", summary = "Publish one envelope",
    params(("topic" = String, Path)),
    request_body(content = Object, description = "An MCPx envelope", content_type = "application/json"),
    responses((status = 201, description = "Stored", body = Published), (status = 200, description = "Had been stored before", body = Published),
        (status = 202, description = "Stored once somebody has approved it", body = Published),
        (status = "4XX", description = "Refused", body = super::ProblemBody), (status = 503, description = "Not now", body = super::ProblemBody)),
    security(("bearer" = [])))]
pub(super) async fn publish(incoming: Incoming, request: Request) -> Result<(StatusCode, Json<Published>), Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header()?;
    let gateway = &incoming.gateway;
    let limits = gateway.config.limits.envelope();
    // What is malformed spends the sender's rate as what is published does.
    let spent = |refusal: Refusal| gateway.spend(&grant.participant, refusal);
    let body =
        body::read(gateway, (&grant).into(), request.into_body(), gateway.max_envelope()).await.map_err(spent)?;
    let not_text = |_| spent(Refusal::new(Code::InvalidJson, "the body is not UTF-8"));
    let text = std::str::from_utf8(&body).map_err(not_text)?;
    let draft = Draft::parse(text, &limits).map_err(spent)?.stamped(grant.stamp());
    let id = draft.envelope().id().clone();
    let appended = gateway.rooms.publish(&topic, &grant.participant, draft).await?.outcome().await?;
    let Appended { entry, repeated } = appended;
    let held = ControlNotice::holds_call(&entry.envelope);
    let status = match (held, repeated) {
        (true, _) => StatusCode::ACCEPTED,
        (false, true) => StatusCode::OK,
        (false, false) => StatusCode::CREATED,
    };
    let absent = if held { Vec::new() } else { gateway.rooms.absent(&topic, &entry.envelope) };
    Ok((status, Json(Published { id, position: entry.position, repeated, held, absent })))
}
