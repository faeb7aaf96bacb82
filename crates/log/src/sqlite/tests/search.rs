//! The index of a log: rebuilt where it does not fit, and without what the log has no more.

use super::*;
use crate::search::{ScanBounds, ScanSearch, SearchPage, SearchQuery};
use crate::{SearchRequest, TopicSearch};

async fn asked(log: &Sqlite, query: &str) -> SearchRequest {
    let topics = log.topics().await.expect("listed");
    let query = SearchQuery::parse(query).expect("a query");
    SearchRequest { query, topics, from: None, kind: None, limit: 100, before: None }
}

async fn search(log: &Sqlite, query: &str) -> SearchPage {
    log.search(asked(log, query).await).await.expect("searched")
}

fn found(page: &SearchPage) -> String {
    page.hits.iter().map(|hit| hit.entry.envelope.id().as_str()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn an_index_that_is_lost_or_damaged_is_made_anew() {
    let data = directory();
    let index = data.0.join(SEARCH_DATABASE);
    let log = Sqlite::open(&data.0, quick()).expect("opened");
    append(&log, &topic("room"), line("e1", "alice", "needle")).await;
    assert_eq!(found(&search(&log, "needle").await), "e1");
    drop(log);
    for damage in ["", "not a database", "another epoch"] {
        match damage {
            "" => fs::remove_file(&index).expect("removed"),
            "another epoch" => {
                schema_sql(&index, "UPDATE meta SET value = value + 1; DELETE FROM words; DELETE FROM documents")
            }
            text => fs::write(&index, text.repeat(1000)).expect("written"),
        }
        let log = Sqlite::open(&data.0, quick()).expect("opened");
        let page = search(&log, "needle").await;
        assert_eq!((found(&page).as_str(), page.is_complete), ("e1", true), "after {damage:?}");
    }
}

/// An entry moves from memory to the database at any time, also while a search is about to read it.
#[tokio::test]
async fn an_entry_that_is_settled_during_a_search_is_found() {
    let log = Sqlite::temporary(quick()).expect("opened");
    for number in 0..300 {
        let name = topic(&format!("room:{number}"));
        append(&log, &name, line("e1", "alice", &format!("needle{number}"))).await;
        let query = format!("needle{number}");
        let (mut page, ()) = tokio::join!(search(&log, &query), log.trim_now());
        // A machine that is busy may index it later; only a search that says that it has seen everything must have found it.
        while !page.is_complete {
            page = search(&log, &query).await;
        }
        assert_eq!(found(&page), "e1", "{query}");
    }
}

fn schema_sql(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).and_then(|db| db.execute_batch(sql)).expect("done");
}

#[tokio::test]
async fn an_entry_that_was_changed_is_no_longer_in_the_index() {
    let data = directory();
    let log = Sqlite::open(&data.0, quick()).expect("opened");
    let entry = append(&log, &topic("room"), line("e1", "alice", "swordfish")).await;
    append(&log, &topic("room"), line("e2", "alice", "other words")).await;
    assert_eq!(found(&search(&log, "swordfish").await), "e1");
    log.source.search.note_changed(1, entry.position.offset);
    assert_eq!(found(&search(&log, "swordfish").await), "");
    assert_eq!(found(&search(&log, "other").await), "e2");
    drop(log);
    let file = fs::read(data.0.join(SEARCH_DATABASE)).expect("read");
    assert!(!file.windows(9).any(|bytes| bytes == b"swordfish"), "nor are its words in the file");
}

#[tokio::test]
async fn a_log_with_many_topics_is_searched_in_those_asked_for() {
    let log = Sqlite::temporary(quick()).expect("opened");
    for number in 0..100 {
        append(&log, &topic(&format!("room:{number}")), line("e1", "alice", "needle")).await;
    }
    let mut request = asked(&log, "needle").await;
    request.topics.retain(|topic| topic.name.as_str() != "room:5");
    let page = log.search(request).await.expect("searched");
    assert_eq!((page.hits.len(), page.is_complete), (99, true));
    assert!(page.hits.iter().all(|hit| hit.topic.as_str() != "room:5"));
}

#[tokio::test]
async fn a_scan_that_meets_its_bound_goes_on_behind_it() {
    let log = Arc::new(Sqlite::temporary(quick()).expect("opened"));
    let long = "x".repeat(10_000);
    for number in 0..300 {
        let text = if number % 100 == 0 { "needle" } else { &long };
        append(&*log, &topic("room"), line(&format!("e{number}"), "alice", text)).await;
    }
    let bounds = ScanBounds { bytes: 1 << 20, time: Duration::from_secs(60) };
    let scan = ScanSearch::new(log.clone(), bounds);
    let mut request = asked(&log, "needle").await;
    let first = scan.search(request.clone()).await.expect("searched");
    assert_eq!((found(&first).as_str(), first.is_complete, first.since.is_some()), ("e200", false, true));
    request.before = first.next;
    let mut rest = Vec::new();
    while request.before.is_some() {
        let page = scan.search(request.clone()).await.expect("searched");
        rest.push(found(&page));
        request.before = page.next;
    }
    // A part without a match is a page as well. How much a part reads depends on how much is settled.
    rest.retain(|page| !page.is_empty());
    assert_eq!(rest.join(" "), "e100 e0");
}
