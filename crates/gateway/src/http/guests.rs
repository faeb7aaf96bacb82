//! The guests of the gateway's process and how they are, for operators.

use axum::Json;
use axum::extract::Request;
use salon_control::OPERATOR_PERMISSION;
use salon_protocol::{Code, ParticipantId, TopicName};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Incoming, Problem};
use crate::guest_board::GuestReport;

#[derive(Serialize, ToSchema)]
pub(super) struct GuestsBody {
    guests: Vec<GuestBody>,
}

#[derive(Serialize, ToSchema)]
struct GuestBody {
    #[schema(value_type = String)]
    topic: TopicName,
    #[schema(value_type = String)]
    id: ParticipantId,
    #[serde(flatten)]
    report: GuestReport,
}

#[utoipa::path(get, path = "/v0/guests", operation_id = "guests", tag = "service", summary = "The guests that this gateway hosts and how they are, with a token that has the permission `operator`",
    responses((status = 200, description = "Those of the topics that the token opens", body = GuestsBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn list(incoming: Incoming, request: Request) -> Result<Json<GuestsBody>, Problem> {
    let grant = incoming.credentials(request.headers(), None).by_header_or_cookie(request.method())?;
    let gateway = &incoming.gateway;
    gateway.reads.take(&grant.participant)?;
    if !grant.permissions.iter().any(|permission| permission == OPERATOR_PERMISSION) {
        return Err(Problem::new(Code::Forbidden, "this token lacks the permission `operator`"));
    }
    let guests = gateway.guests.list().into_iter().filter(|(topic, ..)| grant.opens(topic));
    let guests = guests.map(|(topic, id, report)| GuestBody { topic, id, report }).collect();
    Ok(Json(GuestsBody { guests }))
}
