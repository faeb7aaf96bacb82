//! What the log on NATS makes of messages that are lost on their way, of entries that are gone, and of servers that are not as they must be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use salon_log::context::{Address, Key, Scope, Write, WriteError};
use salon_log::nats::{Nats, Options};
use salon_log::{AppendError, ContextStore, Retention, RetentionRules, Span, Tailed, TopicLog};
use salon_protocol::{Envelope, ParticipantId, Position, TopicName};
use salon_testkit::nats::{Servers, program};
use salon_testkit::proxy::Proxy;
use salon_testkit::within;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

fn options(servers: &Servers) -> Options {
    Options { servers: servers.url().split(',').map(str::to_owned).collect(), ..Options::default() }
}

fn room() -> TopicName {
    TopicName::new("room:a").expect("a name")
}

fn line(id: &str) -> Envelope {
    Envelope::restore(format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"{id}"}}}}}}"#
    ))
    .expect("an envelope")
}

async fn ids(log: &Nats) -> Vec<String> {
    let kept = log.read(&room(), Span::Newest, 10_000).await.expect("a read");
    kept.iter().map(|entry| entry.envelope.id().to_string()).collect()
}

async fn refusal(options: Options) -> String {
    match within("an answer", Nats::open(options)).await.expect("in time") {
        Ok(_) => "opened".into(),
        Err(error) => error.to_string(),
    }
}

/// One frame of NATS: its line, and what follows it.
async fn frame(from: &mut (impl AsyncBufReadExt + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    if from.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let verb = line.split_whitespace().next().unwrap_or_default();
    let mut body = Vec::new();
    if ["PUB", "HPUB", "MSG", "HMSG"].contains(&verb) {
        let bytes: usize = line.split_whitespace().last()?.parse().ok()?;
        body.resize(bytes + 2, 0);
        from.read_exact(&mut body).await.ok()?;
    }
    Some((line, body))
}

fn has(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Asks JetStream's API, as its own tools do.
async fn ask(servers: &Servers, subject: &str, body: &Value) -> Value {
    let url = servers.url();
    let host = url.split(',').next().and_then(|url| url.strip_prefix("nats://")).expect("a URL");
    let mut socket = BufReader::new(TcpStream::connect(host).await.expect("a connection"));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let sent = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB told 1\r\nPUB $JS.API.{subject} told {}\r\n{body}\r\n",
        body.len()
    );
    socket.write_all(sent.as_bytes()).await.expect("sent");
    loop {
        let (line, body) = within("an answer", frame(&mut socket)).await.expect("in time").expect("an answer");
        if line.starts_with("MSG") {
            return serde_json::from_slice(&body).expect("JSON");
        }
    }
}

/// The only topic's stream.
async fn stream(servers: &Servers) -> Value {
    let listed = ask(servers, "STREAM.LIST", &json!({ "subject": "salon.room.>" })).await;
    listed["streams"][0].clone()
}

async fn change(servers: &Servers, stream: &Value, name: &str, to: Value) {
    let mut config = stream["config"].clone();
    config[name] = to;
    let told = ask(servers, &format!("STREAM.UPDATE.{}", config["name"].as_str().expect("a name")), &config).await;
    assert!(told["error"].is_null(), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_and_password_of_the_url_are_shown() {
    let Some(program) = program().expect("a NATS server") else { return };
    let more = r#"authorization { user: "al@ice", password: "s3cr:t" }"#;
    let servers = Servers::configured(&program, more).await.expect("a NATS server");
    let with = |user: &str| {
        let url = servers.url().replace("nats://", &format!("nats://{user}"));
        Options { servers: vec![url], ..Options::default() }
    };
    let log = Nats::open(with("al%40ice:s3cr%3At@")).await.expect("a log");
    log.append(&room(), line("e1")).await.expect("stored");
    assert_eq!(ids(&log).await, ["e1"]);
    log.close().await;
    for wrong in ["", "al%40ice:wr0ng@", "t0ken@"] {
        let told = refusal(with(wrong)).await;
        assert!(told.contains("cannot be connected to: ") && told.contains("authorization"), "{told}");
        assert!(!told.contains("wr0ng") && !told.contains("t0ken"), "{told}");
    }
    let two = Options { servers: ["u:p", "u:q"].map(|user| format!("nats://{user}@h:1")).into(), ..Options::default() };
    insta::assert_snapshot!(refusal(two).await, @"the URLs of the NATS servers name different users or passwords; all servers of a cluster are shown the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_the_url_is_shown() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::configured(&program, r#"authorization { token: "t0ken" }"#).await.expect("a NATS server");
    let url = servers.url().replace("nats://", "nats://t0ken@");
    let log = Nats::open(Options { servers: vec![url], ..Options::default() }).await.expect("a log");
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_as_it_must_be_is_refused() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::configured(&program, "max_payload: 64KB").await.expect("a NATS server");
    insta::assert_snapshot!(refusal(options(&servers)).await, @"the NATS server takes messages of at most 65536 bytes, and at least 131072 are needed: raise its `max_payload`, to 2MB for the usual limits");
    let servers = Servers::configured(&program, "jetstream: disabled").await.expect("a NATS server");
    let told = refusal(options(&servers)).await;
    assert!(told.starts_with("the NATS server answers, but JetStream does not: start it with `--jetstream`"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_changed_is_told_at_the_start() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    Nats::look(&options(&servers)).await.expect("nothing is there, and nothing wrong");
    let listed = ask(&servers, "STREAM.NAMES", &json!({})).await;
    assert_eq!(listed["total"], 0, "looking made something: {listed}");
    let log = Nats::open(options(&servers)).await.expect("a log");
    log.append(&room(), line("e1")).await.expect("stored");
    log.close().await;
    Nats::look(&options(&servers)).await.expect("as it was made");
    let other_key = Options { fingerprint: "another".into(), ..options(&servers) };
    let told = Nats::look(&other_key).await.expect_err("another key").to_string();
    assert!(told.contains("have another key"), "{told}");

    let made = stream(&servers).await;
    change(&servers, &made, "max_msgs", json!(5)).await;
    let told = refusal(options(&servers)).await;
    assert!(told.ends_with("was changed: `max_msgs` is 5 and must be 0"), "{told}");
    let looked = Nats::look(&options(&servers)).await.expect_err("it was changed").to_string();
    assert_eq!(looked, told, "a look says what a start would");
    change(&servers, &made, "max_msgs", json!(-1)).await;
    let context = ask(&servers, "STREAM.INFO.salon-context", &json!({})).await;
    change(&servers, &context, "max_msg_size", json!(1000)).await;
    insta::assert_snapshot!(refusal(options(&servers)).await, @"the stream `salon-context` was changed: `max_msg_size` is 1000 and must be 0");
}

/// Passes everything on, but for one message of the client's, once, and the acknowledgement of another.
async fn forgetful(server: String, lost: &'static str, unacknowledged: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let has_lost = Arc::new(Mutex::new(false));
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(&server).await else { return };
            let (has_lost, reply) = (has_lost.clone(), Arc::new(Mutex::new(None::<String>)));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let expected = reply.clone();
            tokio::spawn(pass(from_client, to_server, move |line, body| {
                if line.starts_with("HPUB") && has(body, unacknowledged) {
                    *reply.lock().expect("unpoisoned") = line.split_whitespace().nth(2).map(str::to_owned);
                }
                let is_lost = line.starts_with("HPUB") && has(body, lost);
                is_lost && !std::mem::replace(&mut *has_lost.lock().expect("unpoisoned"), true)
            }));
            tokio::spawn(pass(from_server, to_client, move |line, _| {
                let mut expected = expected.lock().expect("unpoisoned");
                let is_it = expected.is_some() && line.split_whitespace().nth(1) == expected.as_deref();
                if is_it {
                    *expected = None;
                }
                is_it
            }));
        }
    });
    port
}

async fn pass(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, is_dropped: impl Fn(&str, &[u8]) -> bool) {
    let mut from = BufReader::new(from);
    while let Some((line, body)) = frame(&mut from).await {
        if is_dropped(&line, &body) {
            continue;
        }
        if to.write_all(line.as_bytes()).await.is_err() || to.write_all(&body).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_is_not_put_behind_what_followed_it() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let server = servers.url().trim_start_matches("nats://").to_owned();
    let port = forgetful(server, r#""id":"e6""#, r#""id":"e7""#).await;
    let through = Options { servers: vec![format!("nats://127.0.0.1:{port}")], ..Options::default() };
    let log = Nats::open(through).await.expect("a log");
    log.append(&room(), line("e5")).await.expect("stored");
    let (sixth, seventh) = (log.append(&room(), line("e6")), log.append(&room(), line("e7")));
    let (sixth, seventh) = within("both answers", async { tokio::join!(sixth, seventh) }).await.expect("in time");
    assert!(!seventh.expect("stored, though nobody said so").repeated);
    let sixth = sixth.map(|appended| appended.entry);
    assert!(matches!(sixth, Err(AppendError::Unavailable(_))), "{sixth:?}");
    assert_eq!(ids(&log).await, ["e5", "e7"]);
    // Whoever says it again says it now.
    log.append(&room(), line("e6")).await.expect("stored");
    assert_eq!(ids(&log).await, ["e5", "e7", "e6"]);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_gone_is_a_gap_and_not_a_hole() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let log = Nats::open(options(&servers)).await.expect("a log");
    let first = log.append(&room(), line("e0")).await.expect("stored").entry.position;
    for n in 1..40 {
        log.append(&room(), line(&format!("e{n}"))).await.expect("stored");
    }
    // Something that is no entry, in the middle and more of it than is read at once.
    let name = stream(&servers).await["config"]["subjects"][0].as_str().expect("a subject").replace('*', "stranger");
    let host = servers.url().trim_start_matches("nats://").to_owned();
    let mut stranger = TcpStream::connect(host).await.expect("a connection");
    let said: String = (0..40).map(|n| format!("PUB {name}{n} 1\r\nx\r\n")).collect();
    stranger.write_all(format!("CONNECT {{\"verbose\":false}}\r\n{said}PING\r\n").as_bytes()).await.expect("sent");
    let mut answers = BufReader::new(stranger);
    while !within("a pong", frame(&mut answers)).await.expect("in time").expect("a frame").0.starts_with("PONG") {}
    log.append(&room(), line("last")).await.expect("stored");
    let newest = log.read(&room(), Span::Newest, 2).await.expect("a read");
    let newest: Vec<_> = newest.iter().map(|entry| entry.envelope.id().as_str()).collect();
    assert_eq!(newest, ["e39", "last"], "what is no entry ends no page");
    let thirty_eighth = Position { offset: first.offset + 38, ..first };
    let after = log.read(&room(), Span::After(thirty_eighth), 2).await.expect("a read");
    let after: Vec<_> = after.iter().map(|entry| entry.envelope.id().as_str()).collect();
    assert_eq!(after, ["e39", "last"]);
    let only_strangers = Position { offset: first.offset + 39, ..first };
    let after = log.read(&room(), Span::After(only_strangers), 2).await.expect("a read");
    assert_eq!(after.first().map(|entry| entry.envelope.id().as_str()), Some("last"));

    let info = stream(&servers).await;
    let name = info["config"]["name"].as_str().expect("a name");
    let purged = ask(&servers, &format!("STREAM.PURGE.{name}"), &json!({ "seq": first.offset + 30 })).await;
    assert_eq!(purged["purged"], 30, "{purged}");
    let mut tail = log.tail(&room(), first);
    let gap = within("a gap", tail.next()).await.expect("in time");
    let resume = Position { offset: first.offset + 29, ..first };
    assert!(matches!(&gap, Some(Ok(Tailed::Gap { resume: told })) if *told == resume), "{gap:?}");
    match within("what is left", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries[0].envelope.id().as_str(), "e30"),
        other => panic!("{other:?}"),
    }
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_goes_on_where_one_topic_cannot_be_looked_after() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let retention = RetentionRules { default: Retention { age: None, count: Some(1) }, topics: HashMap::new() };
    let log = Nats::open(Options { retention, ..options(&servers) }).await.expect("a log");
    let topic = |n: usize| TopicName::new(format!("room:{n}")).expect("a name");
    for n in 0..6 {
        for id in ["a", "b", "c"] {
            log.append(&topic(n), line(id)).await.expect("stored");
        }
    }
    // One that nobody may purge.
    let broken = stream(&servers).await;
    change(&servers, &broken, "deny_purge", json!(true)).await;
    log.trim_now().await.expect_err("one of them could not be");
    let left = log.topics().await.expect("a list").into_iter().map(|topic| topic.entries).collect::<Vec<_>>();
    assert_eq!((left.iter().filter(|left| **left == 1).count(), left.iter().sum::<u64>()), (5, 8), "{left:?}");
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_under_way_when_the_leader_dies_keep_their_order() {
    const AT_ONCE: usize = 96;
    let Some(program) = program().expect("a NATS server") else { return };
    let mut servers = Servers::three(&program).await.expect("three NATS servers");
    let (one, two) = (
        Arc::new(Nats::open(options(&servers)).await.expect("a node")),
        Nats::open(options(&servers)).await.expect("a node"),
    );
    let first = one.append(&room(), line("first")).await.expect("stored").entry.position;
    let tails = [one.tail(&room(), first), two.tail(&room(), first)];
    let (told, mut progress) = tokio::sync::watch::channel(0_usize);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writer = tokio::spawn({
        let one = one.clone();
        async move {
            let mut acknowledged = Vec::new();
            let mut calls = futures_util::stream::FuturesOrdered::new();
            for n in 0.. {
                let is_over = *stopped.borrow() || n >= 100_000;
                while calls.len() >= AT_ONCE || (is_over && !calls.is_empty()) {
                    if let Some((id, Ok(_))) = calls.next().await {
                        acknowledged.push(id);
                        told.send_replace(acknowledged.len());
                    }
                }
                if is_over {
                    break;
                }
                let id = format!("e{n}");
                let appending = one.append(&room(), line(&id));
                calls.push_back(async move {
                    let appended: Result<_, AppendError> = appending.await;
                    // Refused at once while NATS is not there: others may run.
                    tokio::task::yield_now().await;
                    (id, appended)
                });
            }
            acknowledged
        }
    });
    let mut reach = async |count: usize| {
        tokio::time::timeout(Duration::from_secs(60), progress.wait_for(|told| *told >= count))
            .await
            .expect("in time")
            .map(|told| *told)
            .expect("a writer")
    };
    for _ in 0..2 {
        let now = reach(1).await;
        reach(now + 500).await;
        let leader = stream(&servers).await["cluster"]["leader"]
            .as_str()
            .and_then(|name| name.strip_prefix('n'))
            .map(str::to_owned);
        let leader: usize = leader.expect("a leader").parse().expect("a number");
        servers.kill(leader).await.expect("killed");
        let now = reach(1).await;
        reach(now + 500).await;
        servers.revive(leader).await.expect("revived");
    }
    stop.send_replace(true);
    let acknowledged = tokio::time::timeout(Duration::from_secs(60), writer).await.expect("in time").expect("no panic");
    let end = one.append(&room(), line("end")).await.expect("stored").entry.position;
    let mut orders = Vec::new();
    for mut tail in tails {
        let (mut order, mut at) = (Vec::new(), first);
        while at.offset < end.offset {
            match within("the next entry", tail.next()).await.expect("in time") {
                Some(Ok(Tailed::Entries(entries))) => {
                    for entry in entries {
                        assert_eq!(entry.position.offset, at.offset + 1, "a hole after {at}");
                        at = entry.position;
                        order.push(entry.envelope.id().to_string());
                    }
                }
                other => panic!("a tail yielded {other:?}"),
            }
        }
        orders.push(order);
    }
    assert_eq!(orders[0], orders[1], "two nodes have different orders");
    // What was refused may be stored or not; whatever is stored is in the order of the calls, and once.
    let number = |id: &String| id.trim_start_matches('e').parse::<usize>().ok();
    let numbers: Vec<_> = orders[0].iter().filter_map(number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "calls changed places, or are there twice");
    let there: std::collections::HashSet<_> = orders[0].iter().collect();
    assert!(acknowledged.iter().all(|id| there.contains(id)), "something acknowledged is not there");
    assert!(acknowledged.len() > 2000);
    one.close().await;
    two.close().await;
}

/// What a server that loses power without flushing leaves: the same stream, with less in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_lost_entries_is_read_anew() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let log = Nats::open(options(&servers)).await.expect("a log");
    let first = log.append(&room(), line("e0")).await.expect("stored").entry.position;
    for id in ["e1", "e2", "e3"] {
        log.append(&room(), line(id)).await.expect("stored");
    }
    let mut tail = log.tail(&room(), first);
    match within("what there is", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries.len(), 3),
        other => panic!("{other:?}"),
    }
    let made = stream(&servers).await["config"].clone();
    let name = made["name"].as_str().expect("a name");
    for (what, body) in [("DELETE", &Value::Null), ("CREATE", &made)] {
        let told = ask(&servers, &format!("STREAM.{what}.{name}"), body).await;
        assert!(told["error"].is_null(), "{told}");
    }
    let appended = within("an answer", log.append(&room(), line("new"))).await.expect("in time").expect("stored");
    assert_eq!(appended.entry.position, first, "the place of what was lost");
    let gap = within("a gap", tail.next()).await.expect("in time");
    assert!(matches!(&gap, Some(Ok(Tailed::Gap { resume })) if resume.offset + 1 == first.offset), "{gap:?}");
    match within("what is new", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries[0].envelope.id().as_str(), "new"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ids(&log).await, ["new"]);
    log.close().await;
}

/// Many appends and writes that were submitted when NATS fell silent: each has the patience of one, not that of all in front of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_answered_while_nats_is_silent() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    let port = servers.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let way = Proxy::to(port).await.expect("a way");
    let log = Nats::open(Options { servers: vec![way.url()], ..Options::default() }).await.expect("a log");
    log.append(&room(), line("first")).await.expect("stored");
    let address =
        |n: usize| Address { topic: room(), scope: Scope::Topic, key: Key::new(&format!("k{n}")).expect("a key") };
    let write = |n: usize| Write {
        value: Some("1".into()),
        expected: None,
        author: ParticipantId::new("alice").expect("an id"),
        cause: format!("c{n}").into(),
    };
    log.write(address(0), write(0)).await.expect("written");
    way.hold();
    let appends: Vec<_> = (0..900).map(|n| log.append(&room(), line(&format!("e{n}")))).collect();
    let writes: Vec<_> = (1..6).map(|n| log.write(address(n), write(n))).collect();
    let all = futures_util::future::join(join_all(appends), join_all(writes));
    let (appends, writes) = within("an answer to each", all).await.expect("in time");
    assert!(appends.iter().all(|append| matches!(append, Err(AppendError::Unavailable(_)))));
    assert!(writes.iter().all(|write| matches!(write, Err(WriteError::Unavailable(_)))), "{writes:?}");
    within("the log to close without NATS", log.close()).await.expect("in time");
}
