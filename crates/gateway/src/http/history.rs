//! Pages of a topic's history, newest first.

use axum::Json;
use axum::extract::Request;
use salon_protocol::{EnvelopeId, TopicName};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Incoming, Problem, invalid};
use crate::gateway::MAX_HISTORY;
use crate::history::{StoredPage, Window, raw, read};

const DEFAULT_LIMIT: usize = 100;

#[derive(Serialize, ToSchema)]
pub(super) struct HistoryPage {
    #[schema(value_type = String)]
    topic: TopicName,
    /// Whether this topic keeps a history for reading
    enabled: bool,
    /// The envelopes as they were sent, newest first
    #[schema(value_type = Vec<Object>)]
    history: Vec<Box<RawValue>>,
    /// The same again, under the name that some clients read
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Box<RawValue>>,
    /// What to give as `before` for the next page; absent on the last
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    next: Option<EnvelopeId>,
}

#[utoipa::path(get, path = "/v0/topics/{topic}/history", tag = "MCPx", summary = "Envelopes of a topic, newest first",
    params(("topic" = String, Path),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 100 unless given"),
        ("before" = Option<String>, Query, description = "An envelope id, or an RFC 3339 time of arrival"),
        ("after" = Option<String>, Query, description = "An envelope id: only what came after it")),
    responses((status = 200, description = "One page", body = HistoryPage), (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn page(incoming: Incoming, request: Request) -> Result<Json<HistoryPage>, Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header_or_cookie(request.method())?;
    let Incoming { gateway, query, .. } = incoming;
    gateway.reads.take(&grant.participant)?;
    gateway.rooms.check_access(&topic, &grant.participant, grant.stamp().as_ref()).await?;
    let wrong_limit = || invalid("`limit` must be a whole number from 1 to 1000");
    let limit = match query.get("limit") {
        None => DEFAULT_LIMIT,
        Some(text) => text.parse().ok().filter(|n| (1..=MAX_HISTORY).contains(n)).ok_or_else(wrong_limit)?,
    };
    let window = Window { before: query.get("before"), after: query.name("after")?, limit };
    let enabled = gateway.has_history(&topic);
    let page = if enabled { read(&**gateway.rooms.log(), &topic, window).await? } else { StoredPage::default() };
    let StoredPage { entries, next } = page;
    let history: Vec<_> = entries.iter().rev().map(|entry| raw(entry)).collect();
    Ok(Json(HistoryPage { topic, enabled, messages: history.clone(), history, next }))
}
