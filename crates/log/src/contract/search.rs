//! The contract of [`TopicSearch`] as a suite that every engine runs; the numbers are those of its documentation.

use std::sync::Arc;

use futures_util::FutureExt;
use salon_protocol::{Envelope, ParticipantId};

use super::checks::{all, within};
use super::{LogEngine, append, envelope, line, topic};
use crate::search::{SearchKind, SearchPage, SearchQuery};
use crate::{Retention, RetentionRules, SearchError, SearchRequest, TopicLog, TopicSearch};

/// An engine as the suite needs it.
pub trait SearchEngine: LogEngine {
    /// What searches a log of the engine.
    fn search(&self, log: &Arc<Self::Log>) -> Arc<dyn TopicSearch>;
}

/// Runs the whole suite; panics at the first broken promise.
pub async fn run(engine: &impl SearchEngine) {
    all(vec![
        within("1: hits match the query", hits_match_the_query(engine)).boxed_local(),
        within("1: hits match the filters", hits_match_the_filters(engine)).boxed_local(),
        within("2: pages are newest first", pages_are_newest_first(engine)).boxed_local(),
        within("3: a restart loses nothing", a_restart_loses_nothing(engine)).boxed_local(),
        within("4: only cursors of pages are taken", cursors_are_checked(engine)).boxed_local(),
        within("5: what is removed is not found", what_is_removed_is_not_found(engine)).boxed_local(),
    ])
    .await;
}

/// A call of a tool.
fn call(id: &str, from: &str, to: &str, tool: &str, text: &str) -> Envelope {
    let params = format!(r#"{{"name":"{tool}","arguments":{{"text":"{text}"}}}}"#);
    let payload = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    envelope(id, from, &format!(r#""to":["{to}"],"kind":"mcp","payload":{payload}"#))
}

/// The answer to one.
fn result(id: &str, from: &str, request: &str, text: &str) -> Envelope {
    let payload = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#);
    envelope(id, from, &format!(r#""kind":"mcp","correlation_id":"{request}","payload":{payload}"#))
}

/// What is asked, in all topics that a log has.
async fn asked(log: &impl TopicLog, query: &str) -> SearchRequest {
    let topics = log.topics().await.expect("listed");
    let query = SearchQuery::parse(query).expect("a query");
    SearchRequest { query, topics, from: None, kind: None, limit: 100, before: None }
}

fn ids(page: &SearchPage) -> String {
    page.hits.iter().map(|hit| hit.entry.envelope.id().as_str()).collect::<Vec<_>>().join(" ")
}

async fn found(search: &dyn TopicSearch, request: SearchRequest) -> String {
    let page = search.search(request).await.expect("searched");
    assert!(page.is_complete && page.next.is_none(), "{page:?}");
    assert!(page.hits.is_sorted_by(|newer, older| newer.entry.arrived >= older.entry.arrived), "{page:?}");
    ids(&page)
}

/// The same, by name: entries of different topics that arrive in one millisecond have no order.
async fn found_somewhere(search: &dyn TopicSearch, request: SearchRequest) -> String {
    let found = found(search, request).await;
    let mut ids: Vec<&str> = found.split(' ').collect();
    ids.sort_unstable();
    ids.join(" ")
}

async fn hits_match_the_query(engine: &impl SearchEngine) {
    let log = Arc::new(engine.create(RetentionRules::default()).await);
    let search = engine.search(&log);
    let room = topic("room:a");
    for (id, text) in [
        ("e1", "The quick brown fox"),
        ("e2", "a brown quick fox"),
        ("e3", "Migrating the café"),
        ("e4", "東京タワー"),
        ("e5", "foxes & <b>hens</b>"),
    ] {
        append(&*log, &room, line(id, "alice", text)).await;
    }
    for (query, expected) in [
        ("quick fox", "e2 e1"),
        ("\"quick brown\"", "e1"),
        ("fox", "e2 e1"),
        ("fox*", "e5 e2 e1"),
        ("CAFE migrat*", "e3"),
        ("京", "e4"),
        ("東京", "e4"),
        ("京東", ""),
        ("hens", "e5"),
        ("b OR hens", ""),
        ("text", ""),
    ] {
        assert_eq!(found(&*search, asked(&*log, query).await).await, expected, "{query}");
    }
    let page = search.search(asked(&*log, "hens").await).await.expect("searched");
    let [hit] = page.hits.as_slice() else { panic!("{page:?}") };
    assert_eq!((hit.topic.as_str(), hit.kind, &*hit.snippet.text), ("room:a", SearchKind::Chat, "foxes & <b>hens</b>"));
    assert_eq!(hit.snippet.matches, [(11, 15)]);
}

async fn hits_match_the_filters(engine: &impl SearchEngine) {
    let log = Arc::new(engine.create(RetentionRules::default()).await);
    let search = engine.search(&log);
    let (a, b) = (topic("room:a"), topic("room:b"));
    append(&*log, &a, super::presence("p1", "join", "bob")).await;
    append(&*log, &a, line("e1", "alice", "move the arm")).await;
    append(&*log, &b, line("e2", "bob", "move along")).await;
    append(&*log, &a, call("e3", "alice", "bob", "arm.move", "up")).await;
    append(&*log, &a, result("e4", "bob", "e3", "the move is done")).await;
    assert_eq!(found_somewhere(&*search, asked(&*log, "move").await).await, "e1 e2 e3 e4");
    let with = async |change: &dyn Fn(&mut SearchRequest)| {
        let mut request = asked(&*log, "move").await;
        change(&mut request);
        found_somewhere(&*search, request).await
    };
    let from = |id: &str| ParticipantId::new(id).ok();
    assert_eq!(with(&|request| request.from = from("bob")).await, "e2 e4");
    assert_eq!(with(&|request| request.from = from("bobby")).await, "");
    assert_eq!(with(&|request| request.kind = Some(SearchKind::Call)).await, "e3");
    assert_eq!(with(&|request| request.kind = Some(SearchKind::Result)).await, "e4");
    assert_eq!(with(&|request| request.topics.retain(|topic| topic.name == b)).await, "e2");
    assert_eq!(with(&|request| request.topics.clear()).await, "");
}

async fn pages_are_newest_first(engine: &impl SearchEngine) {
    let log = Arc::new(engine.create(RetentionRules::default()).await);
    let search = engine.search(&log);
    let mut stored = Vec::new();
    for number in 0..40 {
        let room = topic(["room:a", "room:b", "room:c"][number % 3]);
        let text = if number % 4 == 3 { "something else" } else { "needle" };
        let entry = append(&*log, &room, line(&format!("e{number}"), "alice", text)).await;
        if text == "needle" {
            stored.push(entry.envelope.id().to_string());
        }
    }
    let mut request = SearchRequest { limit: 7, ..asked(&*log, "needle").await };
    let (mut hits, mut pages) = (Vec::new(), 0);
    loop {
        let page = search.search(request.clone()).await.expect("searched");
        assert!(page.is_complete && page.hits.len() <= 7, "{page:?}");
        hits.extend(page.hits);
        pages += 1;
        match page.next {
            Some(next) => request.before = Some(next),
            None => break,
        }
        // What comes meanwhile is newer than every page that follows.
        append(&*log, &topic("room:a"), line(&format!("late{pages}"), "alice", "needle")).await;
    }
    assert_eq!(pages, 5);
    assert!(hits.is_sorted_by(|newer, older| newer.entry.arrived >= older.entry.arrived));
    let mut ids: Vec<_> = hits.iter().map(|hit| hit.entry.envelope.id().to_string()).collect();
    for name in ["room:a", "room:b", "room:c"] {
        let of = hits.iter().filter(|hit| hit.topic.as_str() == name).map(|hit| hit.entry.position.offset);
        assert!(of.is_sorted_by(|newer, older| newer > older), "the log's order within {name}");
    }
    ids.sort();
    stored.sort();
    assert_eq!(ids, stored);
}

async fn a_restart_loses_nothing(engine: &impl SearchEngine) {
    let log = engine.create(RetentionRules::default()).await;
    append(&log, &topic("room:a"), line("e1", "alice", "before the restart")).await;
    let log = engine.restart(log).await;
    append(&log, &topic("room:a"), line("e2", "alice", "after the restart")).await;
    engine.trim(&log).await;
    append(&log, &topic("room:b"), line("e3", "alice", "restart elsewhere")).await;
    let log = Arc::new(log);
    let search = engine.search(&log);
    assert_eq!(found_somewhere(&*search, asked(&*log, "restart").await).await, "e1 e2 e3");
}

async fn cursors_are_checked(engine: &impl SearchEngine) {
    let log = Arc::new(engine.create(RetentionRules::default()).await);
    append(&*log, &topic("room:a"), line("e1", "alice", "hello")).await;
    let request = SearchRequest { before: Some("'; DROP".into()), ..asked(&*log, "hello").await };
    let refused = engine.search(&log).search(request).await;
    assert_eq!(refused.map(|page| ids(&page)), Err(SearchError::Cursor));
}

async fn what_is_removed_is_not_found(engine: &impl SearchEngine) {
    let retention = Retention { age: None, count: Some(2) };
    let rules = RetentionRules { default: retention, ..RetentionRules::default() };
    let log = Arc::new(engine.create(rules).await);
    let search = engine.search(&log);
    for number in 0..5 {
        append(&*log, &topic("room:a"), line(&format!("e{number}"), "alice", "needle")).await;
    }
    assert_eq!(search.search(asked(&*log, "needle").await).await.expect("searched").hits.len(), 5);
    engine.trim(&log).await;
    assert_eq!(found(&*search, asked(&*log, "needle").await).await, "e4 e3");
}
