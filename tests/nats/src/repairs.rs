//! What the log on NATS makes of messages that are lost on their way, and of what is gone, refused, or left over.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use libtest_mimic::Trial;
use salon_log::context::{Address, ContextScope, Key, Write, WriteError};
use salon_log::nats::{Nats, NatsOptions};
use salon_log::{
    AppendError, Claim, ContextStore, LogHealth, ReadError, Retention, RetentionRules, Span, Tailed, TopicLog,
};
use salon_protocol::{Envelope, Position};
use salon_testkit::nats::{NatsServers, frame, topic_token};
use salon_testkit::nats_trials;
use salon_testkit::proxy::Proxy;
use salon_testkit::within;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::props::{at, ids, line, options, presence, room, topic, who};
use crate::ways::{Frame, Unanswered, lossy_way, way};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        what_was_lost_is_not_put_behind_what_followed_it,
        what_has_come_by_is_stored_though_nobody_says_so,
        one_consumer_serves_all_topics_of_a_shard,
        what_is_gone_is_a_gap_and_not_a_hole,
        retention_goes_on_where_one_topic_cannot_be_looked_after,
        appends_under_way_when_the_leader_dies_keep_their_order,
        a_topic_that_lost_entries_is_read_anew,
        everybody_is_answered_while_nats_is_silent,
        everybody_is_answered_while_nats_is_away,
        nobody_waits_for_what_was_removed_before_it_came,
        a_goodbye_is_not_taken_back,
        parts_that_nobody_needs_are_removed,
        what_nats_does_not_take_is_not_out_of_reach,
        a_hole_in_what_comes_at_once_is_a_gap,
    ]
}

async fn kept(log: &Nats) -> Vec<String> {
    ids(&log.read(&room(), Span::Newest, 10_000).await.expect("a read"))
}

async fn what_was_lost_is_not_put_behind_what_followed_it() {
    let servers = NatsServers::one().await.expect("a NATS server");
    // One message of the client's is lost, once, and the acknowledgement of another.
    let (has_lost, unanswered) = (AtomicBool::new(false), Unanswered::default());
    let way = lossy_way(servers.port(0), move |frame| {
        if frame.word(0) == "HPUB" && frame.has(r#""id":"e7""#) {
            unanswered.note(frame);
        }
        let is_lost = frame.word(0) == "HPUB" && frame.has(r#""id":"e6""#);
        unanswered.has(frame) || (is_lost && !has_lost.swap(true, Ordering::Relaxed))
    });
    let log = Nats::open(at(&way.await)).await.expect("a log");
    log.append(&room(), line("e5")).await.expect("stored");
    let (sixth, seventh) = (log.append(&room(), line("e6")), log.append(&room(), line("e7")));
    let (sixth, seventh) = within("both answers", async { tokio::join!(sixth, seventh) }).await.expect("in time");
    assert!(!seventh.expect("stored, though nobody said so").repeated);
    let sixth = sixth.map(|appended| appended.entry);
    assert!(matches!(&sixth, Err(AppendError::Unavailable(why)) if why.contains("change places")), "{sixth:?}");
    assert_eq!(kept(&log).await, ["e5", "e7"]);
    // A retry is sent now.
    log.append(&room(), line("e6")).await.expect("stored");
    assert_eq!(kept(&log).await, ["e5", "e7", "e6"]);
    log.close().await;
}

/// An acknowledgement is lost, and nobody can be asked what became of the append.
async fn what_has_come_by_is_stored_though_nobody_says_so() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let unanswered = Unanswered::default();
    let way = lossy_way(servers.port(0), move |frame| {
        if frame.word(0) == "HPUB" && frame.has(r#""id":"e2""#) {
            unanswered.note(frame);
        }
        let is_asked_for = frame.is_clients && frame.line.contains("STREAM.MSG.GET.salon-shard-");
        is_asked_for || unanswered.has(frame)
    });
    let log = Nats::open(at(&way.await)).await.expect("a log");
    let first = log.append(&room(), line("e1")).await.expect("stored").entry.position;
    let mut tail = log.tail(&room(), first);
    let appended = within("an answer", log.append(&room(), line("e2"))).await.expect("in time");
    let appended = appended.expect("everybody has it");
    assert!(!appended.repeated);
    match within("an entry", tail.next()).await.expect("in time") {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(entries, [appended.entry]),
        other => panic!("{other:?}"),
    }
    log.append(&room(), line("e3")).await.expect("what follows goes on");
    assert_eq!(kept(&log).await, ["e1", "e2", "e3"]);
    log.close().await;
}

async fn one_consumer_serves_all_topics_of_a_shard() {
    const TOPICS: usize = 12;
    let servers = NatsServers::one().await.expect("a NATS server");
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let way = lossy_way(servers.port(0), move |frame| {
        let is_made = frame.is_clients && frame.line.contains("CONSUMER.CREATE.salon-shard-");
        counted.fetch_add(is_made.into(), Ordering::Relaxed);
        false
    });
    let log = Nats::open(at(&way.await)).await.expect("a log");
    for id in ["e1", "e2"] {
        for n in 0..TOPICS {
            log.append(&topic(&format!("room:{n}")), line(id)).await.expect("stored");
        }
    }
    // It may start over on a busy machine.
    let made = made.load(Ordering::Relaxed);
    assert!((1..TOPICS / 2).contains(&made), "{TOPICS} topics of a shard have {made} consumers");
    log.close().await;
}

async fn what_is_gone_is_a_gap_and_not_a_hole() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(options(&servers)).await.expect("a log");
    let first = log.append(&room(), line("e0")).await.expect("stored").entry.position;
    for n in 1..40 {
        log.append(&room(), line(&format!("e{n}"))).await.expect("stored");
    }
    // Something that is no entry, in the middle and more of it than is read at once.
    let name = format!("salon.0.{}.stranger", topic_token(room().as_str()));
    let said: String = (0..40).map(|n| format!("PUB {name}{n} 1\r\nx\r\n")).collect();
    let mut answers = servers.wire(&format!("{said}PING\r\n")).await.expect("a connection");
    while !within("a pong", frame(&mut answers)).await.expect("in time").expect("a frame").0.starts_with("PONG") {}
    log.append(&room(), line("last")).await.expect("stored");
    let newest = log.read(&room(), Span::Newest, 2).await.expect("a read");
    assert_eq!(ids(&newest), ["e39", "last"], "a message that is not an entry ends no page");
    let thirty_eighth = Position { offset: first.offset + 38, ..first };
    let after = log.read(&room(), Span::After(thirty_eighth), 2).await.expect("a read");
    assert_eq!(ids(&after), ["e39", "last"]);
    let only_strangers = Position { offset: first.offset + 39, ..first };
    let after = log.read(&room(), Span::After(only_strangers), 2).await.expect("a read");
    assert_eq!(after.first().map(|entry| entry.envelope.id().as_str()), Some("last"));

    let retention = RetentionRules { default: Retention { age: None, count: Some(11) }, topics: HashMap::new() };
    let trimming = Nats::open(NatsOptions { retention, ..options(&servers) }).await.expect("a node");
    trimming.trim_now().await.expect("retention is applied");
    trimming.close().await;
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

async fn retention_goes_on_where_one_topic_cannot_be_looked_after() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let retention = RetentionRules { default: Retention { age: None, count: Some(1) }, topics: HashMap::new() };
    // Nobody hears what is to be removed of one topic.
    let broken = format!("salon.0.mark.{}", topic_token("room:3"));
    let way = lossy_way(servers.port(0), move |frame| frame.word(0) == "HPUB" && frame.word(1) == broken);
    let log = Nats::open(NatsOptions { retention, ..at(&way.await) }).await.expect("a log");
    let topic = |n: usize| topic(&format!("room:{n}"));
    for n in 0..6 {
        for id in ["a", "b", "c"] {
            log.append(&topic(n), line(id)).await.expect("stored");
        }
    }
    log.trim_now().await.expect_err("one of them could not be");
    let left = log.topics().await.expect("a list").into_iter().map(|topic| topic.entries).collect::<Vec<_>>();
    assert_eq!((left.iter().filter(|left| **left == 1).count(), left.iter().sum::<u64>()), (5, 8), "{left:?}");
    log.close().await;
}

async fn appends_under_way_when_the_leader_dies_keep_their_order() {
    const CONCURRENT_APPENDS: usize = 96;
    let mut servers = NatsServers::three().await.expect("three NATS servers");
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
                while calls.len() >= CONCURRENT_APPENDS || (is_over && !calls.is_empty()) {
                    if let Some((id, Ok(_))) = calls.next().await {
                        acknowledged.push(id);
                        told.send_replace(acknowledged.len());
                    }
                }
                if is_over {
                    break;
                }
                let id = format!("e{n}");
                let (appending, mut health) = (one.append(&room(), line(&id)), one.health());
                calls.push_back(async move {
                    let appended: Result<_, AppendError> = appending.await;
                    if appended.is_err() {
                        // While NATS is not there, everything is refused at once. One that is closed is not waited for.
                        let _ = health.wait_for(|health| *health == LogHealth::Writable).await;
                    }
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
        let leader = servers.first_shard().await.expect("a topic")["cluster"]["leader"]
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
    let there: HashSet<_> = orders[0].iter().collect();
    assert!(acknowledged.iter().all(|id| there.contains(id)), "something acknowledged is not there");
    assert!(acknowledged.len() > 2000);
    one.close().await;
    two.close().await;
}

/// What a server that loses power without flushing leaves: the same stream, with less in it.
async fn a_topic_that_lost_entries_is_read_anew() {
    let servers = NatsServers::one().await.expect("a NATS server");
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
    let made = servers.first_shard().await.expect("a topic")["config"].clone();
    let name = made["name"].as_str().expect("a name");
    for (what, body) in [("DELETE", &Value::Null), ("CREATE", &made)] {
        let told = servers.ask(&format!("STREAM.{what}.{name}"), body).await.expect("an answer");
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
    assert_eq!(kept(&log).await, ["new"]);
    log.close().await;
}

/// Many appends and writes that were submitted when NATS fell silent: each has the patience of one, not that of all in front of it.
async fn everybody_is_answered_while_nats_is_silent() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let way = Proxy::to(servers.port(0)).await.expect("a way");
    let log = Nats::open(at(&way.url())).await.expect("a log");
    log.append(&room(), line("first")).await.expect("stored");
    let address = |n: usize| Address {
        topic: room(),
        scope: ContextScope::Topic,
        key: Key::new(&format!("k{n}")).expect("a key"),
    };
    let write = |n: usize| Write {
        value: Some("1".into()),
        expected: None,
        author: who("alice"),
        cause: format!("c{n}").into(),
        requested: None,
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

/// More is asked for without a connection than the client's queue takes, which it reads only when it has one again.
async fn everybody_is_answered_while_nats_is_away() {
    const MORE_THAN_THE_QUEUE: usize = 3000;
    let mut servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(options(&servers)).await.expect("a log");
    let said = log.append(&room(), line("e1")).await.expect("stored").entry;
    let mut health = log.health();
    servers.kill(0).await.expect("killed");
    let unreachable = health.wait_for(|health| matches!(health, LogHealth::Unreachable(_)));
    within("the log to notice", unreachable).await.expect("in time").expect("it says so");
    let finds = (0..MORE_THAN_THE_QUEUE).map(|_| log.find(&room(), said.envelope.id()));
    let finds = within("an answer to each", join_all(finds)).await.expect("in time");
    assert!(finds.iter().all(|found| matches!(found, Err(ReadError::Unavailable(_)))));
    let address = Address { topic: room(), scope: ContextScope::Topic, key: Key::new("k").expect("a key") };
    let reads = async {
        tokio::join!(
            async { log.read(&room(), Span::Newest, 10).await.map(drop) },
            async { log.standing(&room()).await.map(drop) },
            async { log.topics().await.map(drop) },
            async { log.get(&address, None).await.map(drop) },
            async { log.claim(&room(), &who("alice"), Claim::Exclusive, Box::new(|| {})).await.map(drop) },
        )
    };
    let (history, standing, topics, value, place) = within("answers", reads).await.expect("in time");
    for refused in [history, standing, topics, value, place] {
        assert!(matches!(refused, Err(ReadError::Unavailable(_))), "{refused:?}");
    }
    servers.revive(0).await.expect("revived");
    let well = health.wait_for(|health| *health == LogHealth::Writable);
    within("the log to be well", well).await.expect("in time").expect("it says so");
    assert_eq!(kept(&log).await, ["e1"]);
    log.close().await;
}

/// A server that counts something that then does not come, because it was removed in between.
async fn nobody_waits_for_what_was_removed_before_it_came() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let counted = Arc::new(AtomicUsize::new(0));
    let count = counted.clone();
    let way = lossy_way(servers.port(0), move |frame| {
        let name = br#""num_pending":"#;
        let found = frame.body.windows(name.len()).position(|part| part == name);
        if let Some(at) = found.filter(|_| !frame.is_clients) {
            frame.body[at + name.len()] = b'7';
            count.fetch_add(1, Ordering::Relaxed);
        }
        false
    });
    let opening = Nats::open(at(&way.await));
    let log = within("the log to open", opening).await.expect("in time").expect("a log");
    let key = Address { topic: room(), scope: ContextScope::Topic, key: Key::new("k").expect("a key") };
    let author = who("alice");
    let write = Write { value: Some("1".into()), expected: None, author, cause: "c".into(), requested: None };
    within("a write", log.write(key, write)).await.expect("in time").expect("written");
    assert!(counted.load(Ordering::Relaxed) >= 3, "nothing was counted that did not come");
    log.close().await;
}

async fn a_goodbye_is_not_taken_back() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let going = Nats::open(options(&servers)).await.expect("a node");
    let mut said = servers.wire("SUB $KV.salon-nodes.> 1\r\n").await.expect("a connection");
    let mut next = async || loop {
        let (line, _) = within("a beat", frame(&mut said)).await.expect("in time").expect("a frame");
        let mut words = line.split_whitespace().map(str::to_owned);
        // With headers comes who has gone.
        match (words.next().as_deref(), words.next()) {
            (Some("HMSG"), Some(node)) => return (node, false),
            (Some("MSG"), Some(node)) => return (node, true),
            _ => {}
        }
    };
    let staying = Nats::open(options(&servers)).await.expect("a node");
    going.close().await;
    let gone = loop {
        if let (node, false) = next().await {
            break node;
        }
    };
    // As long as it takes another to beat three times, it would have beaten, too.
    let mut beats = 0;
    while beats < 3 {
        let (node, lives) = next().await;
        assert!(node != gone, "it says {lives} after its goodbye");
        beats += 1;
    }
    drop(going);
    staying.close().await;
}

/// What is kept of a topic is long enough to be cut into parts.
async fn parts_that_nobody_needs_are_removed() {
    let servers = NatsServers::configured("max_payload: 128KB").await.expect("a NATS server");
    let retention = RetentionRules { default: Retention { age: None, count: Some(2500) }, topics: HashMap::new() };
    let options = NatsOptions { retention, ..options(&servers) };
    let nodes = [Nats::open(options.clone()).await.expect("a node"), Nats::open(options).await.expect("a node")];
    let request = |n: usize| {
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"request-{n:032}","ts":"2025-08-17T14:00:00Z","from":"alice","to":["bob"],"kind":"mcp","payload":{{"jsonrpc":"2.0","id":{n},"method":"m"}}}}"#
        );
        Envelope::restore(text).expect("an envelope")
    };
    nodes[0].append(&room(), request(0)).await.expect("stored");
    let stray = format!("$KV.salon-folds.{}.somebody-7.1", topic_token(room().as_str()));
    let mut sent = 1;
    // Both at once, where one of them may find that the other was faster, and then one alone.
    for trimming in [&nodes[..], &nodes[..], &nodes[..1]] {
        let mut answers = servers.wire(&format!("PUB {stray} 1\r\nx\r\nPING\r\n")).await.expect("a connection");
        while !within("a pong", frame(&mut answers)).await.expect("in time").expect("a frame").0.starts_with("PONG") {}
        let until = sent + 3000;
        for appended in join_all((sent..until).map(|n| nodes[0].append(&room(), request(n)))).await {
            appended.expect("stored");
        }
        sent = until;
        let trimmed = within("retention", join_all(trimming.iter().map(Nats::trim_now))).await.expect("in time");
        assert!(trimmed.iter().all(Result::is_ok), "{trimmed:?}");
        let filter = json!({ "subjects_filter": "$KV.salon-folds.>" });
        let kept = servers.ask("STREAM.INFO.KV_salon-folds", &filter).await.expect("an answer");
        let subjects: Vec<_> = kept["state"]["subjects"].as_object().expect("subjects").keys().cloned().collect();
        assert!(!subjects.contains(&stray), "one that nobody names is still there: {subjects:?}");
        // Between the topic and the number of the part stands whose it is. Parts of a node that was too late go with the next.
        let marks: HashSet<_> = subjects.iter().filter_map(|subject| subject.split('.').nth(3)).collect();
        assert!(!marks.is_empty(), "it was not cut: {subjects:?}");
        assert!(marks.len() == 1 || trimming.len() > 1, "{subjects:?}");
    }
    for node in nodes {
        node.close().await;
    }
}

async fn what_nats_does_not_take_is_not_out_of_reach() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(options(&servers)).await.expect("a log");
    log.append(&room(), line("e1")).await.expect("stored");
    servers.change(&servers.first_shard().await.expect("a topic"), "max_msg_size", json!(10)).await.expect("changed");
    let refused = within("an answer", log.append(&room(), line("e2"))).await.expect("in time");
    let refused = refused.map(|appended| appended.entry).expect_err("longer than it takes");
    assert!(matches!(&refused, AppendError::Refused(why) if why.contains("message size")), "{refused:?}");
    let context = servers.ask("STREAM.INFO.salon-context", &json!({})).await.expect("an answer");
    servers.change(&context, "max_msg_size", json!(10)).await.expect("changed");
    let key = Address { topic: room(), scope: ContextScope::Topic, key: Key::new("k").expect("a key") };
    let author = who("alice");
    let write = Write { value: Some("1".into()), expected: None, author, cause: "c".into(), requested: None };
    let refused = within("an answer", log.write(key, write)).await.expect("in time").expect_err("longer than it takes");
    assert!(matches!(&refused, WriteError::Refused(why) if why.contains("message size")), "{refused:?}");
    log.close().await;
}

/// A node that is behind when another one's retention removes what it has not had yet: it comes at once, with a hole in it that the
/// server's counting does not show.
async fn a_hole_in_what_comes_at_once_is_a_gap() {
    // On one thread, where the follower looks only when all of it has been read.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let played = tokio::task::spawn_blocking(move || runtime.block_on(a_hole_comes_at_once()));
    played.await.expect("no panic");
}

async fn a_hole_comes_at_once() {
    /// What is on its way to the node that is behind.
    enum Way {
        Open,
        Held(Vec<Frame>),
        Due(Vec<Frame>),
    }
    let servers = NatsServers::one().await.expect("a NATS server");
    let state = Arc::new(Mutex::new(Way::Open));
    let (held, (tell, mut told)) = (state.clone(), mpsc::unbounded_channel());
    let url = way(servers.port(0), move |frame| {
        let mut way = held.lock().expect("unpoisoned");
        let is_entry = !frame.is_clients && frame.word(3).starts_with("$JS.ACK.salon-shard-");
        let is_beat = !frame.is_clients && frame.has("Idle Heartbeat");
        let passed = match &mut *way {
            Way::Held(entries) if is_entry => {
                entries.push(frame);
                // A test that has seen enough listens no more.
                let _ = tell.send(entries.len());
                Vec::new()
            }
            // It would tell how many there are.
            Way::Held(_) if is_beat => Vec::new(),
            Way::Due(entries) if !frame.is_clients => {
                let passed = std::mem::take(entries).into_iter().chain([frame]).collect();
                *way = Way::Open;
                passed
            }
            _ => vec![frame],
        };
        std::future::ready(passed)
    });
    let retention = RetentionRules { default: Retention { age: None, count: Some(2) }, topics: HashMap::new() };
    let one = Nats::open(NatsOptions { retention, ..options(&servers) }).await.expect("a node");
    let behind = Nats::open(at(&url.await)).await.expect("a node");
    let mut first = one.append(&room(), line("first")).await.expect("stored").entry.position;
    let mut tail = behind.tail(&room(), first);
    let (tell, mut tailed) = mpsc::unbounded_channel();
    tokio::spawn(async move { while tail.next().await.is_some_and(|next| tell.send(next).is_ok()) {} });
    for id in ["a", "b", "c"] {
        first = one.append(&room(), line(id)).await.expect("stored").entry.position;
        within("an entry", tailed.recv()).await.expect("in time").expect("a tail").expect("entries");
    }
    // By now the tail has read what there is, and is fed from here on.
    behind.standing(&room()).await.expect("a standing");
    behind.topics().await.expect("a list");

    *state.lock().expect("unpoisoned") = Way::Held(Vec::new());
    for envelope in ["e1", "e2", "e3", "join", "e4", "e5", "e6"].map(|id| match id {
        "join" => presence("join"),
        id => line(id),
    }) {
        one.append(&room(), envelope).await.expect("stored");
    }
    while within("the entries on their way", told.recv()).await.expect("in time").expect("a way") < 7 {}
    one.trim_now().await.expect("retention is applied");
    {
        let mut way = state.lock().expect("unpoisoned");
        let Way::Held(all) = std::mem::replace(&mut *way, Way::Open) else { panic!("nothing is held") };
        // As the server would have sent them had it been slower than retention.
        let mut left = all[..2].to_vec();
        let before = left[1].word(3).rsplit('.').nth(2).and_then(|count| count.parse::<u64>().ok()).expect("a count");
        for (count, mut entry) in (before + 1..).zip(all[5..].to_vec()) {
            let reply = entry.word(3).to_owned();
            let mut words: Vec<_> = reply.split('.').map(str::to_owned).collect();
            let place = words.len() - 3;
            words[place] = count.to_string();
            entry.line = entry.line.replace(&reply, &words.join("."));
            left.push(entry);
        }
        *way = Way::Due(left);
    }
    // Whatever is answered brings them along.
    behind.topics().await.expect("a list");

    let mut at = first;
    while at.offset < first.offset + 7 {
        match within("what is left", tailed.recv()).await.expect("in time") {
            Some(Ok(Tailed::Entries(entries))) => {
                for entry in entries {
                    assert_eq!(entry.position.offset, at.offset + 1, "a hole after {at} of which nobody was told");
                    at = entry.position;
                }
            }
            Some(Ok(Tailed::Gap { resume })) => {
                assert_eq!(resume.offset, first.offset + 5);
                at = resume;
            }
            other => panic!("{other:?}"),
        }
    }
    let standing = behind.standing(&room()).await.expect("a standing");
    assert_eq!(standing.present.len(), 1, "a participant that came in the hole is not present");
    one.close().await;
    behind.close().await;
}
