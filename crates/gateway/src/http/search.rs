//! Searching what was said, in all topics that a participant may read.

use axum::Json;
use axum::extract::Request;
use salon_log::SearchRequest;
use salon_log::search::{MAX_HITS, SearchHit, SearchKind, SearchMethod, SearchPage, SearchQuery};
use salon_protocol::{EnvelopeId, ParticipantId, Timestamp, TopicName};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Incoming, Problem, invalid};

const DEFAULT_LIMIT: usize = 20;

#[derive(Serialize, ToSchema)]
pub(super) struct SearchAnswer {
    /// Newest first
    hits: Vec<SearchedEnvelope>,
    /// Whether everything was searched. `false` where a bound ended the search, or where the index does not have the newest envelopes yet
    complete: bool,
    searched: SearchExtent,
    /// What to give as `before` for the next page; absent on the last
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Box<str>>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct SearchedEnvelope {
    #[schema(value_type = String)]
    topic: TopicName,
    /// Where it stands in the topic
    position: String,
    #[schema(value_type = String)]
    id: EnvelopeId,
    #[schema(value_type = String)]
    from: ParticipantId,
    /// When it arrived
    #[schema(value_type = String, format = DateTime)]
    ts: Timestamp,
    /// `chat`, `call` or `result`
    kind: &'static str,
    /// Plain text around the first match, in one line. Never HTML
    snippet: String,
    /// Begin and end of each match in `snippet`, in UTF-16 code units
    matches: Vec<(usize, usize)>,
}

/// What was searched
#[derive(Serialize, ToSchema)]
pub(super) struct SearchExtent {
    /// How many topics
    topics: usize,
    /// `index`: by an index of all envelopes. `scan`: by reading envelopes, newest first, up to a bound
    method: &'static str,
    /// Where a bound ended the search: envelopes that arrived before were not searched
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Envelopes that are not in the index yet
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<u64>,
}

impl SearchAnswer {
    pub(crate) fn new(page: SearchPage, topics: usize) -> Self {
        let SearchPage { hits, is_complete, method, since, pending, next } = page;
        let method = match method {
            SearchMethod::Index => "index",
            SearchMethod::Scan => "scan",
        };
        let searched = SearchExtent { topics, method, since, pending: (pending > 0).then_some(pending) };
        Self { hits: hits.into_iter().map(SearchedEnvelope::from).collect(), complete: is_complete, searched, next }
    }
}

impl From<SearchHit> for SearchedEnvelope {
    fn from(SearchHit { topic, entry, kind, snippet }: SearchHit) -> Self {
        Self {
            topic,
            position: entry.position.to_string(),
            id: entry.envelope.id().clone(),
            from: entry.envelope.from().clone(),
            ts: entry.arrived,
            kind: kind.word(),
            snippet: snippet.text,
            matches: snippet.matches,
        }
    }
}

#[utoipa::path(get, path = "/v0/search", tag = "MCPx", summary = "Search chat, calls and results in the topics that the participant may read, newest first",
    params(("q" = String, Query, description = "Words, `\"phrases\"` and prefixes such as `migrat*`; all must match. At most 512 bytes"),
        ("topic" = Option<String>, Query, description = "Only this topic"),
        ("from" = Option<String>, Query, description = "Only what this participant sent"),
        ("kind" = Option<String>, Query, description = "Only `chat`, `call` or `result`"),
        ("limit" = Option<u32>, Query, description = "1 to 100; 20 unless given"),
        ("before" = Option<String>, Query, description = "The `next` of the page before")),
    responses((status = 200, description = "One page", body = SearchAnswer), (status = "4XX", description = "Refused", body = super::ProblemBody),
        (status = 503, description = "Not now", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn search(incoming: Incoming, request: Request) -> Result<Json<SearchAnswer>, Problem> {
    let topic: Option<TopicName> = incoming.query.name("topic")?;
    let grant = incoming.credentials(request.headers(), topic.as_ref()).by_header_or_cookie(request.method())?;
    let Incoming { gateway, query, .. } = incoming;
    gateway.reads.take(&grant.participant)?;
    let text = query.get("q").ok_or_else(|| invalid("`q` is missing: what to search for"))?;
    let words = SearchQuery::parse(text).map_err(|error| invalid(format!("`q` is not acceptable: {error}")))?;
    let from: Option<ParticipantId> = query.name("from")?;
    let kind: Option<SearchKind> = query.name("kind")?;
    let wrong_limit = || invalid(format!("`limit` must be a whole number from 1 to {MAX_HITS}"));
    let limit = match query.get("limit") {
        None => DEFAULT_LIMIT,
        Some(text) => text.parse().ok().filter(|n| (1..=MAX_HITS).contains(n)).ok_or_else(wrong_limit)?,
    };
    let before = query.get("before").map(Into::into);
    let stamp = grant.stamp();
    if let Some(topic) = &topic {
        gateway.rooms.check_access(topic, &grant.participant, stamp.as_ref()).await?;
    }
    let topics = gateway.rooms.log().topics().await.map_err(|error| salon_rooms::unreadable(&error))?;
    let is_meant = |name: &TopicName| topic.as_ref().is_none_or(|topic| topic == name);
    let is_searched = |name: &TopicName| is_meant(name) && grant.opens(name) && gateway.has_history(name);
    let opened = topics.into_iter().filter(|topic| is_searched(&topic.name)).collect();
    let visible = gateway.rooms.visible(opened, &grant.participant, stamp.as_ref()).await?;
    let topics: Vec<_> = visible.into_iter().map(|topic| topic.summary).collect();
    let count = topics.len();
    let asked = SearchRequest { query: words, topics, from, kind, limit, before };
    let page = gateway.searches.run(&grant.participant, asked).await?;
    Ok(Json(SearchAnswer::new(page, count)))
}
