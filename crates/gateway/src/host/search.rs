//! `room.search`: what was said in this room, by words.

use std::sync::Arc;

use salon_log::search::{SearchKind, SearchPage, SearchQuery};
use salon_log::{SearchRequest, TopicSummary};
use salon_protocol::{EnvelopeId, ParticipantId, RpcError, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::office::{HostRequest, Office};
use super::speech::{HostOutcome, failed, text, told};

pub(super) const MAX_FOUND: usize = 50;
pub(super) const USUAL_FOUND: usize = 20;

/// What is searched for.
pub(super) struct RoomSearchRequest {
    query: SearchQuery,
    from: Option<ParticipantId>,
    kind: Option<SearchKind>,
    limit: usize,
    before: Option<Box<str>>,
}

impl RoomSearchRequest {
    pub(super) fn read(mut arguments: Arguments<'_>) -> Result<Self, RpcError> {
        let typed: String = arguments.required("query")?;
        let query = SearchQuery::parse(&typed).map_err(|error| arguments.wrong("query", &error.to_string()))?;
        let from = arguments.optional("from")?;
        let kind: Option<String> = arguments.optional("kind")?;
        let kind = kind.map(|kind| kind.parse::<SearchKind>()).transpose();
        let kind = kind.map_err(|error| arguments.wrong("kind", &error.to_string()))?;
        let limit = arguments.number("limit", 1..=MAX_FOUND as u64, USUAL_FOUND as u64)? as usize;
        let before = arguments.optional("before")?;
        arguments.end()?;
        Ok(Self { query, from, kind, limit, before })
    }
}

/// Answers with one page of hits of this room. Every participant in it may read it.
pub(super) async fn search(office: Arc<Office>, request: HostRequest, options: RoomSearchRequest) -> HostOutcome {
    let topic = office.desk.topic();
    if office.toolbox.history_off.contains(topic) {
        return Ok(failed("this room keeps no history to search"));
    }
    let RoomSearchRequest { query, from, kind, limit, before } = options;
    // How new its newest entry is matters where several topics are searched.
    let summary = TopicSummary {
        name: topic.clone(),
        entries: 0,
        newest: Some(Timestamp(u64::MAX >> 1)),
        may_have_settings: true,
        may_have_participants: true,
    };
    let asked = SearchRequest { query, topics: vec![summary], from, kind, limit, before };
    match office.toolbox.searches.run(request.caller(), asked).await {
        Ok(page) => {
            let result = RoomSearchResult::new(&page);
            Ok(told(&words(&page), &text(&result), false))
        }
        Err(refusal) => Ok(failed(&refusal.message)),
    }
}

fn words(page: &SearchPage) -> String {
    let mut lines = Vec::new();
    for hit in &page.hits {
        let (envelope, snippet) = (&hit.entry.envelope, &hit.snippet.text);
        lines.push(format!("- {} {} ({}, {}): {snippet}", hit.entry.arrived, envelope.from(), hit.kind, envelope.id()));
    }
    if lines.is_empty() {
        lines.push("Nothing was found.".into());
    }
    if !page.is_complete {
        lines.push("Not everything was searched.".into());
    }
    if let Some(next) = &page.next {
        lines.push(format!("There may be more: ask again with `before` = `{next}`."));
    }
    lines.join("\n")
}

/// The structured result, as [`output_schema`] describes it.
#[derive(Serialize)]
struct RoomSearchResult<'a> {
    hits: Vec<RoomHit<'a>>,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct RoomHit<'a> {
    id: &'a EnvelopeId,
    from: &'a ParticipantId,
    ts: Timestamp,
    kind: &'static str,
    snippet: &'a str,
}

impl<'a> RoomSearchResult<'a> {
    fn new(page: &'a SearchPage) -> Self {
        let hits = page.hits.iter().map(|hit| RoomHit {
            id: hit.entry.envelope.id(),
            from: hit.entry.envelope.from(),
            ts: hit.entry.arrived,
            kind: hit.kind.word(),
            snippet: &hit.snippet.text,
        });
        Self { hits: hits.collect(), complete: page.is_complete, next: page.next.as_deref() }
    }
}

/// The `outputSchema` of the tool (MCP 2025-06-18, Tools, "Output Schema"). Clients hold results to it.
pub(super) fn output_schema() -> Value {
    let string = |about: &str| json!({ "type": "string", "description": about });
    json!({
        "type": "object",
        "properties": {
            "hits": {
                "type": "array", "description": "What was found, newest first",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": string("The envelope's id, as `history.get` takes it for `before` and `after`"),
                        "from": string("Who sent it"),
                        "ts": string("When it arrived"),
                        "kind": { "type": "string", "enum": ["chat", "call", "result"] },
                        "snippet": string("The text around the first match")
                    },
                    "required": ["id", "from", "ts", "kind", "snippet"]
                }
            },
            "complete": { "type": "boolean", "description": "Whether everything in the room was searched" },
            "next": string("`before` of the next page; absent on the last page")
        },
        "required": ["hits", "complete"]
    })
}

/// The tool as `tools/list` shows it.
pub(super) fn description() -> Value {
    json!({
        "name": "room.search",
        "title": "Search what was said",
        "description": "Searches the chat, the calls of tools and their results in this room, newest first. Every word of the query must be \
            found; case and accents do not count. \"Words in quotes\" must stand together, and `migrat*` finds words that begin so.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "Words to search for, such as `deploy \"rolled back\"`" },
                "from": { "type": "string", "description": "Only what this participant sent, by its id" },
                "kind": { "type": "string", "enum": ["chat", "call", "result"], "description": "Only this sort" },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": USUAL_FOUND },
                "before": { "type": "string", "description": "`next` of the answer before, for the next page" }
            },
            "required": ["query"],
            "additionalProperties": false
        },
        "outputSchema": output_schema(),
        "annotations": { "readOnlyHint": true }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }

    #[test]
    fn the_output_schema_describes_the_result() {
        let (id, from): (EnvelopeId, _) = ("e-1".parse().expect("an id"), ParticipantId::host());
        let hit = RoomHit { id: &id, from: &from, ts: Timestamp(0), kind: "chat", snippet: "" };
        let result = RoomSearchResult { hits: vec![hit], complete: true, next: Some("1") };
        let (result, schema) = (serde_json::to_value(result).expect("plain data"), output_schema());
        assert_eq!(keys(&result), keys(&schema["properties"]));
        assert_eq!(keys(&result["hits"][0]), keys(&schema["properties"]["hits"]["items"]["properties"]));
    }
}
