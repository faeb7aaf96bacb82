//! Topics on NATS of which nothing is kept: when they are forgotten, and what happens to a participant that comes meanwhile, or later.
//!
//! Every node looks after retention by itself when it starts and once a minute. So those that are to keep something keep it for an hour,
//! and nothing is kept by one that is there for nothing else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use libtest_mimic::Trial;
use salon_log::nats::{Nats, NatsOptions};
use salon_log::{AppendError, ReadError, Retention, RetentionRules, Span, Tailed, TopicLog};
use salon_protocol::{Envelope, Position};
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use salon_testkit::within;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::props::{at, ids, line, options, presence, topic};
use crate::ways::{lossy_way, way};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        what_is_marked_and_was_not_purged_is_purged_later,
        nothing_is_left_of_a_topic_that_is_over,
        nothing_is_left_of_a_topic_that_is_over_on_three_servers,
        what_is_forgotten_makes_room,
        what_comes_before_a_topic_is_forgotten_is_kept,
        what_comes_after_a_topic_is_forgotten_begins_it_anew,
        what_was_marked_and_not_removed_is_not_read,
        a_topic_that_was_forgotten_is_counted_alike_by_a_node_that_starts_later,
    ]
}

const LONG: Duration = Duration::from_secs(3600);

/// How a log is opened that keeps everything for so long.
fn keeping(servers: &NatsServers, age: Duration) -> NatsOptions {
    let retention = RetentionRules { default: Retention { age: Some(age), count: None }, topics: HashMap::new() };
    NatsOptions { retention, ..options(servers) }
}

async fn append(log: &Nats, name: &str, envelope: Envelope) -> Position {
    let appended = within("an append", log.append(&topic(name), envelope)).await.expect("in time");
    appended.expect("stored").entry.position
}

async fn kept(log: &Nats, name: &str) -> Vec<String> {
    ids(&log.read(&topic(name), Span::Newest, 100).await.expect("a read"))
}

/// Every topic's name and how many entries it has.
async fn topics(log: &Nats) -> Vec<(String, u64)> {
    let topics = log.topics().await.expect("a list");
    topics.into_iter().map(|topic| (topic.name.to_string(), topic.entries)).collect()
}

/// Keeps nothing until the topics are these.
async fn until(servers: &NatsServers, wanted: &[(&str, u64)]) {
    let log = Nats::open(keeping(servers, Duration::ZERO)).await.expect("a node that keeps nothing");
    let applied = async {
        loop {
            // A stream of three servers that elect their leader has nobody to answer for it meanwhile, and the next sweep sees to it.
            match log.trim_now().await {
                Ok(()) | Err(ReadError::Unavailable(_)) => {}
                Err(error) => panic!("retention is not applied: {error}"),
            }
            let found = topics(&log).await;
            if found.iter().map(|(name, entries)| (name.as_str(), *entries)).eq(wanted.iter().copied()) {
                return;
            }
        }
    };
    within("retention to have come so far", applied).await.expect("in time");
    log.close().await;
}

/// A topic that has nothing in it any more, and is not forgotten.
async fn emptied(servers: &NatsServers, log: &Nats) {
    append(log, "room:a", line("e1")).await;
    let retention = RetentionRules { default: Retention { age: None, count: Some(0) }, topics: HashMap::new() };
    let emptying = Nats::open(NatsOptions { retention, ..options(servers) }).await.expect("a node");
    emptying.trim_now().await.expect("retention is applied");
    assert_eq!(topics(&emptying).await, [("room:a".to_owned(), 0)]);
    emptying.close().await;
}

async fn a_topic_is_forgotten_and_made_anew(servers: &NatsServers) {
    let all = keeping(servers, LONG);
    let (one, two) = (Nats::open(all.clone()).await.expect("a node"), Nats::open(all).await.expect("a node"));
    let first = append(&one, "room:a", line("e1")).await;
    append(&one, "room:b", presence("join")).await;
    let mut tail = two.tail(&topic("room:a"), Position { offset: 0, ..first });
    match within("what there is", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries[0].position, first),
        other => panic!("{other:?}"),
    }
    until(servers, &[("room:b", 0)]).await;
    assert_eq!(kept(&one, "room:a").await, [""; 0]);
    let standing = two.standing(&topic("room:b")).await.expect("a standing");
    assert_eq!(standing.present.len(), 1, "somebody present was forgotten");

    // The same id again, on a node that does not know: it is new, and behind everything that was.
    let again = append(&two, "room:a", line("e1")).await;
    assert!(again.offset > first.offset, "{again} is not behind {first}");
    let gap = within("a gap", tail.next()).await.expect("in time");
    assert!(matches!(&gap, Some(Ok(Tailed::Gap { resume })) if resume.offset < again.offset), "{gap:?}");
    match within("what is new", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries[0].position, again),
        other => panic!("{other:?}"),
    }
    let old = one.read(&topic("room:a"), Span::After(first), 10).await;
    assert!(matches!(old, Err(ReadError::Gap { .. })), "{old:?}");

    // And so once more, now that everybody has left.
    append(&one, "room:b", presence("leave")).await;
    drop(tail);
    until(servers, &[]).await;
    append(&one, "room:b", line("e2")).await;
    assert_eq!(kept(&two, "room:b").await, ["e2"]);
    assert!(two.standing(&topic("room:b")).await.expect("a standing").present.is_empty());
    one.close().await;
    two.close().await;
}

async fn nothing_is_left_of_a_topic_that_is_over() {
    let servers = NatsServers::one().await.expect("a NATS server");
    a_topic_is_forgotten_and_made_anew(&servers).await;
}

async fn nothing_is_left_of_a_topic_that_is_over_on_three_servers() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    a_topic_is_forgotten_and_made_anew(&servers).await;
}

async fn what_is_forgotten_makes_room() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(NatsOptions { topics: 1, ..keeping(&servers, LONG) }).await.expect("a log");
    for n in 0..5 {
        append(&log, &format!("room:{n}"), line("e")).await;
        let refused = log.append(&topic("one:more"), line("e")).await.map(|appended| appended.entry);
        assert_eq!(refused, Err(AppendError::TooManyTopics(1)));
        until(&servers, &[]).await;
    }
    let subjects = async |stream: &str| {
        let asked = json!({ "subjects_filter": ">" });
        let told = servers.ask(&format!("STREAM.INFO.{stream}"), &asked).await.expect("an answer");
        let subjects = told["state"]["subjects"].as_object().cloned().unwrap_or_default();
        subjects.keys().cloned().collect::<Vec<_>>()
    };
    // Marks expire.
    let left = subjects("salon-shard-0").await;
    assert!(left.iter().all(|subject| subject.starts_with("salon.0.mark.")), "{left:?}");
    let kept = subjects("KV_salon-folds").await;
    assert!(kept.iter().all(|key| key.starts_with("$KV.salon-folds.shard-0")), "{kept:?}");
    log.close().await;
}

/// A way to a server on which something is done before the first request of some kind passes, if it then does. Tells of everything that
/// passes.
async fn delayed(
    port: u16,
    request: &'static str,
    meanwhile: impl Future<Output = bool> + Send + 'static,
) -> (String, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    let meanwhile = Arc::new(Mutex::new(Some(Box::pin(meanwhile))));
    let url = way(port, move |frame| {
        let is_it = frame.is_clients && frame.line.contains(request);
        let first = is_it.then(|| meanwhile.lock().expect("unpoisoned").take()).flatten();
        let tell = tell.clone();
        async move {
            if let Some(meanwhile) = first
                && !meanwhile.await
            {
                return Vec::new();
            }
            if frame.is_clients {
                // A test that has seen enough listens no more.
                let _ = tell.send(frame.line.clone());
            }
            vec![frame]
        }
    });
    (url.await, told)
}

/// Two nodes, one of which is about to forget a topic when the other appends to it: when it has sent everything before a request.
async fn appended_before(request: &'static str) {
    let servers = NatsServers::one().await.expect("a NATS server");
    let two = Arc::new(Nats::open(keeping(&servers, LONG)).await.expect("a node"));
    emptied(&servers, &two).await;
    let (tell, told) = oneshot::channel();
    let appending = two.clone();
    let meanwhile = async move { tell.send(append(&appending, "room:a", line("e2")).await).is_ok() };
    let (url, mut passing) = delayed(servers.port(0), request, meanwhile).await;
    // Forgets it as soon as it is there.
    let keeps_nothing = NatsOptions { servers: vec![url], ..keeping(&servers, Duration::ZERO) };
    let one = Nats::open(keeps_nothing).await.expect("a node");
    let position = within("the topic to be forgotten", told).await.expect("in time").expect("told");
    let passed = async { while !passing.recv().await.expect("a way").contains(request) {} };
    within("the request", passed).await.expect("in time");
    for node in [&one, &*two] {
        let read = node.read(&topic("room:a"), Span::Newest, 100).await.expect("a read");
        let found: Vec<_> = read.iter().map(|entry| (entry.envelope.id().as_str(), entry.position)).collect();
        assert_eq!(found, [("e2", position)], "what was acknowledged is not there");
        assert_eq!(topics(node).await, [("room:a".to_owned(), 1)]);
    }
    one.close().await;
    append(&two, "room:a", line("e3")).await;
    assert_eq!(kept(&two, "room:a").await, ["e2", "e3"]);
    two.close().await;
}

async fn what_comes_before_a_topic_is_forgotten_is_kept() {
    appended_before("salon.0.mark.").await;
}

async fn what_comes_after_a_topic_is_forgotten_begins_it_anew() {
    appended_before("STREAM.PURGE.salon-shard-0").await;
}

/// A node ends after it has marked what is to be removed.
async fn what_was_marked_and_not_removed_is_not_read() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(keeping(&servers, LONG)).await.expect("a node");
    let first = append(&log, "room:a", line("e1")).await;
    append(&log, "room:a", line("e2")).await;
    let (url, _passing) = delayed(servers.port(0), "STREAM.PURGE.salon-shard-0", std::future::ready(false)).await;
    let retention = RetentionRules { default: Retention { age: None, count: Some(1) }, topics: HashMap::new() };
    let ending = NatsOptions { servers: vec![url], retention, ..options(&servers) };
    let ending = Nats::open(ending).await.expect("a node");
    let _ = ending.trim_now().await;
    ending.close().await;
    let restarted = Nats::open(keeping(&servers, LONG)).await.expect("a node");
    for node in [&log, &restarted] {
        assert_eq!(kept(node, "room:a").await, ["e2"]);
        assert_eq!(topics(node).await, [("room:a".to_owned(), 1)]);
        assert_eq!(node.find(&topic("room:a"), line("e1").id()).await, Ok(None));
        let before = Position { offset: first.offset - 1, ..first };
        let gap = node.read(&topic("room:a"), Span::After(before), 10).await;
        assert!(matches!(gap, Err(ReadError::Gap { resume }) if resume == first), "{gap:?}");
    }
    log.close().await;
    restarted.close().await;
}

async fn what_is_marked_and_was_not_purged_is_purged_later() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let retention = RetentionRules { default: Retention { age: None, count: Some(1) }, topics: HashMap::new() };
    let is_deaf = Arc::new(AtomicBool::new(true));
    let is_lost = is_deaf.clone();
    let way = lossy_way(servers.port(0), move |frame| {
        frame.is_clients && frame.line.contains("STREAM.PURGE.salon-shard-0") && is_lost.load(Ordering::Relaxed)
    });
    let log = Nats::open(NatsOptions { retention, ..at(&way.await) }).await.expect("a log");
    for id in ["a", "b", "c"] {
        log.append(&topic("room:a"), line(id)).await.expect("stored");
        log.append(&topic("room:other"), line(id)).await.expect("stored");
    }
    let stored = async || servers.first_shard().await.expect("a shard")["state"]["messages"].as_u64();
    log.trim_now().await.expect_err("nobody hears what is to be removed");
    assert_eq!(
        (kept(&log, "room:a").await, stored().await),
        (vec!["c".to_owned()], Some(8)),
        "six entries and two marks"
    );
    is_deaf.store(false, Ordering::Relaxed);
    // What is removed has no claim to its id, though it is there.
    let again = log.append(&topic("room:other"), line("a")).await.expect("stored");
    assert!(!again.repeated);
    log.trim_now().await.expect("now everything is removed");
    assert_eq!(
        (kept(&log, "room:a").await, stored().await),
        (vec!["c".to_owned()], Some(4)),
        "an entry and a mark each"
    );
    log.close().await;
}

/// A node ends after it has marked that a topic is forgotten and before it has kept the index. The mark expires, and the topic has started over.
async fn a_topic_that_was_forgotten_is_counted_alike_by_a_node_that_starts_later() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(keeping(&servers, LONG)).await.expect("a node");
    for n in 1..=5 {
        append(&log, "room:a", line(&format!("old-{n}"))).await;
    }
    emptied(&servers, &log).await;
    let way = lossy_way(servers.port(0), |frame| frame.is_clients && frame.line.contains("$KV.salon-folds.shard-0"));
    let ending = NatsOptions { servers: vec![way.await], ..keeping(&servers, Duration::ZERO) };
    let ending = Nats::open(ending).await.expect("a node that keeps nothing");
    let forgotten = async {
        while !topics(&log).await.is_empty() {
            // Nobody hears what it would keep.
            let _ = ending.trim_now().await;
        }
    };
    within("the topic to be forgotten", forgotten).await.expect("in time");
    drop(ending);
    log.trim_now().await.expect("a sweep");
    for n in 1..=4 {
        append(&log, "room:a", line(&format!("new-{n}"))).await;
    }
    let expired = servers.ask("STREAM.PURGE.salon-shard-0", &json!({ "filter": "salon.0.mark.>" })).await;
    assert_eq!(expired.expect("an answer")["purged"], 1);

    let retention = RetentionRules { default: Retention { age: None, count: Some(3) }, topics: HashMap::new() };
    let later = Nats::open(NatsOptions { retention, ..options(&servers) }).await.expect("a node");
    later.trim_now().await.expect("retention is applied");
    for node in [&log, &later] {
        assert_eq!(topics(node).await, [("room:a".to_owned(), 3)]);
        assert_eq!(kept(node, "room:a").await, ["new-2", "new-3", "new-4"]);
    }
    log.close().await;
    later.close().await;
}
