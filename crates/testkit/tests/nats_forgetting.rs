//! Topics on NATS of which nothing is kept: when they are forgotten, and what becomes of whoever comes meanwhile, or later.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use salon_log::nats::{Nats, Options};
use salon_log::{AppendError, ReadError, Retention, RetentionRules, Span, Tailed, TopicLog};
use salon_protocol::{Envelope, Position, TopicName};
use salon_testkit::nats::{Servers, frame, program};
use salon_testkit::within;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

fn options(servers: &Servers, age: Duration) -> Options {
    let retention = RetentionRules { default: Retention { age: Some(age), count: None }, topics: HashMap::new() };
    let servers = servers.url().split(',').map(str::to_owned).collect();
    Options { servers, retention, ..Options::default() }
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).expect("a name")
}

fn line(id: &str) -> Envelope {
    envelope(id, "alice", "mcp", r#"{"jsonrpc":"2.0","method":"m"}"#)
}

/// Says that somebody has come, or has gone.
fn presence(event: &str) -> Envelope {
    let payload = format!(r#"{{"event":"{event}","participant":{{"id":"alice","kind":"agent"}}}}"#);
    envelope(event, "system:gateway", "presence", &payload)
}

fn envelope(id: &str, from: &str, kind: &str, payload: &str) -> Envelope {
    Envelope::restore(format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}","kind":"{kind}","payload":{payload}}}"#
    ))
    .expect("an envelope")
}

async fn append(log: &Nats, name: &str, envelope: Envelope) -> Position {
    let appended = within("an append", log.append(&topic(name), envelope)).await.expect("in time");
    appended.expect("stored").entry.position
}

async fn ids(log: &Nats, name: &str) -> Vec<String> {
    let kept = log.read(&topic(name), Span::Newest, 100).await.expect("a read");
    kept.iter().map(|entry| entry.envelope.id().to_string()).collect()
}

/// Every topic's name and how many entries it has.
async fn topics(log: &Nats) -> Vec<(String, u64)> {
    let topics = log.topics().await.expect("a list");
    topics.into_iter().map(|topic| (topic.name.to_string(), topic.entries)).collect()
}

/// Applies the retention until the topics are these.
async fn until(log: &Nats, wanted: &[(&str, u64)]) {
    let applied = async {
        loop {
            log.trim_now().await.expect("retention is applied");
            let found = topics(log).await;
            if found.iter().map(|(name, entries)| (name.as_str(), *entries)).eq(wanted.iter().copied()) {
                return;
            }
        }
    };
    within("retention to have come so far", applied).await.expect("in time");
}

async fn a_topic_is_forgotten_and_made_anew(servers: &Servers) {
    let all = options(servers, Duration::from_millis(300));
    let (one, two) = (Nats::open(all.clone()).await.expect("a node"), Nats::open(all).await.expect("a node"));
    let first = append(&one, "room:a", line("e1")).await;
    append(&one, "room:b", presence("join")).await;
    let mut tail = two.tail(&topic("room:a"), Position { offset: 0, ..first });
    match within("what there is", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries[0].position, first),
        other => panic!("{other:?}"),
    }
    until(&one, &[("room:b", 0)]).await;
    assert_eq!(ids(&one, "room:a").await, [""; 0]);
    let standing = two.standing(&topic("room:b")).await.expect("a standing");
    assert_eq!(standing.present.len(), 1, "somebody present was forgotten");

    // The same id again, on the node that was not told: it is new, and behind everything that was.
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
    until(&two, &[]).await;
    append(&one, "room:b", line("e2")).await;
    assert_eq!(ids(&two, "room:b").await, ["e2"]);
    assert!(two.standing(&topic("room:b")).await.expect("a standing").present.is_empty());
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_topic_that_is_over() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    a_topic_is_forgotten_and_made_anew(&servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_topic_that_is_over_on_three_servers() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::three(&program).await.expect("three NATS servers");
    a_topic_is_forgotten_and_made_anew(&servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_forgotten_makes_room() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let options = Options { topics: 1, ..options(&servers, Duration::from_millis(1)) };
    let log = Nats::open(options).await.expect("a log");
    for n in 0..5 {
        append(&log, &format!("room:{n}"), line("e")).await;
        let refused = log.append(&topic("one:more"), line("e")).await.map(|appended| appended.entry);
        assert_eq!(refused, Err(AppendError::TooManyTopics(1)));
        until(&log, &[]).await;
    }
    let listed = servers.ask("STREAM.NAMES", &json!({ "subject": "salon.room.>" })).await.expect("an answer");
    assert_eq!(listed["total"], 0, "{listed}");
    let filter = json!({ "subjects_filter": "$KV.salon-standing.>" });
    let kept = servers.ask("STREAM.INFO.KV_salon-standing", &filter).await.expect("an answer");
    let kept: Vec<_> = kept["state"]["subjects"].as_object().expect("subjects").keys().cloned().collect();
    assert!(kept.iter().all(|key| key.ends_with(".lock") || key.ends_with(".floor")), "{kept:?}");
    log.close().await;
}

/// A way to a server on which something is done before the first request of some kind passes.
async fn way(port: u16, request: &'static str, meanwhile: impl Future<Output = ()> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.expect("a connection");
        let server = TcpStream::connect(("127.0.0.1", port)).await.expect("a server");
        let ((from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        let (mut from_client, mut meanwhile) = (BufReader::new(from_client), Some(Box::pin(meanwhile)));
        while let Some((line, body)) = frame(&mut from_client).await {
            if line.contains(request)
                && let Some(meanwhile) = meanwhile.take()
            {
                meanwhile.await;
            }
            to_server.write_all(line.as_bytes()).await.expect("passed on");
            to_server.write_all(&body).await.expect("passed on");
        }
    });
    own
}

/// Two nodes, one of which is about to forget a topic when the other appends to it: when it has sent everything before a request.
async fn appended_before(request: &'static str) {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let all = options(&servers, Duration::from_secs(1));
    let two = Arc::new(Nats::open(all.clone()).await.expect("a node"));
    append(&two, "room:a", line("e1")).await;
    let (tell, told) = tokio::sync::oneshot::channel::<JoinHandle<Position>>();
    let appending = two.clone();
    let port = way(servers.port(0), request, async move {
        let appended = tokio::spawn(async move { append(&appending, "room:a", line("e2")).await });
        if request.contains("UPDATE") {
            tell.send(tokio::spawn(std::future::ready(appended.await.expect("stored")))).expect("a test");
        } else {
            // It waits until the topic is forgotten, and that waits for this.
            tell.send(appended).expect("a test");
        }
    });
    let one = Nats::open(Options { servers: vec![format!("nats://127.0.0.1:{}", port.await)], ..all }).await;
    let one = one.expect("a node");
    let mut told = std::pin::pin!(told);
    let appended = loop {
        within("retention", one.trim_now()).await.expect("in time").expect("applied");
        if let Ok(appended) = told.try_recv() {
            break appended;
        }
    };
    let position = within("the append", appended).await.expect("in time").expect("no panic");
    for node in [&one, &*two] {
        let read = node.read(&topic("room:a"), Span::Newest, 100).await.expect("a read");
        let found: Vec<_> = read.iter().map(|entry| (entry.envelope.id().as_str(), entry.position)).collect();
        assert_eq!(found, [("e2", position)], "what was acknowledged is not there");
    }
    append(&two, "room:a", line("e3")).await;
    assert_eq!(ids(&one, "room:a").await, ["e2", "e3"]);
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_before_a_topic_is_shut_is_kept() {
    appended_before("STREAM.UPDATE.salon-room-").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_while_a_topic_is_shut_makes_it_anew() {
    appended_before("STREAM.DELETE.salon-room-").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_was_left_shut_is_opened_again() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let log = Nats::open(options(&servers, Duration::from_secs(3600))).await.expect("a log");
    append(&log, "room:a", line("e1")).await;
    let listed = servers.ask("STREAM.LIST", &json!({ "subject": "salon.room.>" })).await.expect("an answer");
    let mut config: Value = listed["streams"][0]["config"].clone();
    let stream = config["name"].as_str().expect("a name").to_owned();
    config["subjects"] = json!([stream.replace("salon-room-", "salon.shut.")]);
    let told = servers.ask(&format!("STREAM.UPDATE.{stream}"), &config).await.expect("an answer");
    assert!(told["error"].is_null(), "{told}");
    let refused = within("an answer", log.append(&topic("room:a"), line("e2"))).await.expect("in time");
    let refused = refused.map(|appended| appended.entry);
    assert!(matches!(refused, Err(AppendError::Unavailable(_))), "{refused:?}");
    log.trim_now().await.expect("retention is applied");
    append(&log, "room:a", line("e2")).await;
    assert_eq!(ids(&log, "room:a").await, ["e1", "e2"]);
    log.close().await;
}
