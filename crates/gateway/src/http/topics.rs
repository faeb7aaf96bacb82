//! Which rooms there are, and who is in one.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use salon_protocol::{Participant, Timestamp, TopicName};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Incoming, Problem};

/// Names, or with `detail=true` objects
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum TopicList {
    Names(TopicNames),
    Details(TopicDetails),
}

#[derive(Serialize, ToSchema)]
pub(super) struct TopicNames {
    #[schema(value_type = Vec<String>)]
    topics: Vec<TopicName>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TopicDetails {
    topics: Vec<TopicDetail>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TopicDetail {
    #[schema(value_type = String)]
    name: TopicName,
    /// How many envelopes are kept
    envelopes: u64,
    /// How many participants are present
    participants: usize,
    /// When the newest envelope arrived
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    newest: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Participants {
    #[schema(value_type = String)]
    topic: TopicName,
    #[schema(value_type = Vec<Object>)]
    participants: Vec<Arc<Participant>>,
}

#[utoipa::path(get, path = "/v0/topics", tag = "MCPx", summary = "The topics that the token opens, somebody has entered and the participant may read",
    params(("detail" = Option<bool>, Query, description = "true answers objects instead of names")),
    responses((status = 200, description = "Their names, or with `detail=true` what there is to say of them", body = TopicList), (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn list(incoming: Incoming, request: Request) -> Result<Json<TopicList>, Problem> {
    let grant = incoming.credentials(request.headers(), None).by_header_or_cookie(request.method())?;
    let Incoming { gateway, query, .. } = incoming;
    gateway.reads.take(&grant.participant)?;
    let topics = gateway.rooms.log().topics().await.map_err(|error| salon_rooms::unreadable(&error))?;
    let opened = topics.into_iter().filter(|topic| grant.opens(&topic.name)).collect();
    let visible = gateway.rooms.visible(opened, &grant.participant, grant.stamp().as_ref()).await?;
    if !query.flag("detail")?.unwrap_or(false) {
        return Ok(Json(TopicList::Names(TopicNames {
            topics: visible.into_iter().map(|topic| topic.name).collect(),
        })));
    }
    let mut details = Vec::new();
    for topic in visible {
        let participants = gateway.rooms.roster(&topic.name).await?.len();
        details.push(TopicDetail { name: topic.name, envelopes: topic.entries, participants, newest: topic.newest });
    }
    Ok(Json(TopicList::Details(TopicDetails { topics: details })))
}

#[utoipa::path(get, path = "/v0/topics/{topic}/participants", tag = "MCPx", summary = "Who is in a room",
    params(("topic" = String, Path)),
    responses((status = 200, description = "Everyone present", body = Participants), (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn participants(incoming: Incoming, request: Request) -> Result<Json<Participants>, Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header_or_cookie(request.method())?;
    incoming.gateway.reads.take(&grant.participant)?;
    incoming.gateway.rooms.check_access(&topic, &grant.participant, grant.stamp().as_ref()).await?;
    let participants = incoming.gateway.rooms.roster(&topic).await?;
    Ok(Json(Participants { topic, participants }))
}
