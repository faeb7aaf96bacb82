//! Which rooms there are, and who is in one.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use salon_log::TopicSummary;
use salon_protocol::{Participant, Timestamp, TopicName};
use salon_rooms::VisibleTopic;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Incoming, Problem, invalid};

/// The longest words to find topics by.
const MAX_QUERY_BYTES: usize = 1000;

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
    /// What people call it
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// What it is for
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Whether it can only be read
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Participants {
    #[schema(value_type = String)]
    topic: TopicName,
    #[schema(value_type = Vec<Object>)]
    participants: Vec<ListedParticipant>,
}

#[derive(Serialize)]
struct ListedParticipant {
    #[serde(flatten)]
    participant: Arc<Participant>,
    /// Up to where it was handed everything that it wants. Absent for one that is connected to another gateway
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered: Option<String>,
}

#[utoipa::path(get, path = "/v0/topics", tag = "MCPx", summary = "The topics that the token opens, somebody has entered and the participant may read",
    params(("detail" = Option<bool>, Query, description = "true answers objects instead of names"),
        ("q" = Option<String>, Query, description = "Words that the name, the title or the description must have, in any case")),
    responses((status = 200, description = "Their names, or with `detail=true` what there is to say of them", body = TopicList), (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn list(incoming: Incoming, request: Request) -> Result<Json<TopicList>, Problem> {
    let grant = incoming.credentials(request.headers(), None).by_header_or_cookie(request.method())?;
    let Incoming { gateway, query, .. } = incoming;
    gateway.reads.take(&grant.participant)?;
    let topics = gateway.rooms.log().topics().await.map_err(|error| salon_rooms::unreadable(&error))?;
    let opened = topics.into_iter().filter(|topic| grant.opens(&topic.name)).collect();
    let mut visible = gateway.rooms.visible(opened, &grant.participant, grant.stamp().as_ref()).await?;
    if let Some(words) = query.get("q") {
        if words.len() > MAX_QUERY_BYTES {
            return Err(invalid(format!("`q` has at most {MAX_QUERY_BYTES} bytes")));
        }
        visible.retain(|topic| topic.matches(words));
    }
    if !query.flag("detail")?.unwrap_or(false) {
        return Ok(Json(TopicList::Names(TopicNames {
            topics: visible.into_iter().map(|topic| topic.summary.name).collect(),
        })));
    }
    let summaries: Vec<_> = visible.iter().map(|topic| topic.summary.clone()).collect();
    let populations = gateway.rooms.populations(&summaries).await?;
    let mut details = Vec::new();
    for (VisibleTopic { summary, settings }, participants) in visible.into_iter().zip(populations) {
        let TopicSummary { name, entries, newest, .. } = summary;
        let settings = settings.as_deref();
        details.push(TopicDetail {
            name,
            envelopes: entries,
            participants,
            newest,
            title: settings.and_then(|settings| settings.title.clone()),
            description: settings.and_then(|settings| settings.description.clone()),
            archived: settings.is_some_and(|settings| settings.archived),
        });
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
    let delivered = incoming.gateway.rooms.delivered(&topic);
    let listed = |participant: Arc<Participant>| {
        let delivered = delivered.get(&participant.id).map(ToString::to_string);
        ListedParticipant { participant, delivered }
    };
    let participants = incoming.gateway.rooms.roster(&topic).await?.into_iter().map(listed).collect();
    Ok(Json(Participants { topic, participants }))
}
