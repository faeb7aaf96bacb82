//! Several nodes on one NATS: one order, exclusive places, and what becomes of a node, or of NATS, that is gone.

use std::time::Instant;

use futures_util::StreamExt;
use libtest_mimic::Trial;
use salon_log::nats::{Nats, NatsOptions, Timings};
use salon_log::{AppendError, Claim, Lapse, LogHealth, Span, Tail, Tailed, TopicLog};
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use salon_testkit::within;

use crate::props::{claim, ids, line, options, room, roster, topic, who};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        everybody_has_one_order,
        nodes_that_begin_a_topic_together_are_all_taken,
        a_place_is_one_nodes_unless_it_is_shared,
        a_node_that_is_gone_leaves_its_places,
        a_log_that_lost_nats_refuses_and_goes_on,
        what_does_not_fit_is_refused_at_the_start,
        one_topic_too_many_is_refused_by_the_limit,
        a_log_with_more_streams_than_its_account_allows_is_refused,
    ]
}

async fn node(servers: &NatsServers) -> Nats {
    Nats::open(options(servers)).await.expect("a node")
}

/// The next entries of a tail, at least so many; a gap is a failure.
async fn follow(tail: &mut Tail, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    while found.len() < count {
        match within("the next entry", tail.next()).await.expect("in time") {
            Some(Ok(Tailed::Entries(entries))) => found.extend(ids(&entries)),
            other => panic!("after {found:?} a tail yielded {other:?}"),
        }
    }
    found
}

async fn everybody_has_one_order() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers).await, node(&servers).await);
    let begin = one.standing(&room()).await.expect("a standing").head;
    let (mut first, mut second) = (one.tail(&room(), begin), two.tail(&room(), begin));
    let appends =
        |log: &Nats, who: &str| (0..200).map(|n| log.append(&room(), line(&format!("{who}{n}")))).collect::<Vec<_>>();
    let (ones, twos) = (appends(&one, "a"), appends(&two, "b"));
    for append in ones.into_iter().chain(twos) {
        append.await.expect("stored");
    }
    // The same again through the other node is the first.
    let again = two.append(&room(), line("a7")).await.expect("the same envelope");
    assert!(again.repeated);
    let order = follow(&mut first, 400).await;
    assert_eq!(order, follow(&mut second, 400).await, "two nodes have different orders");
    for mark in ["a", "b"] {
        let of_one: Vec<_> = order.iter().filter(|id| id.starts_with(mark)).cloned().collect();
        assert_eq!(of_one, (0..200).map(|n| format!("{mark}{n}")).collect::<Vec<_>>(), "calls changed places");
    }
    one.close().await;
    two.close().await;
}

async fn nodes_that_begin_a_topic_together_are_all_taken() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    let nodes = [node(&servers).await, node(&servers).await, node(&servers).await];
    for number in 0..8 {
        let topic = topic(&format!("room:{number}"));
        let begun = nodes.iter().enumerate().map(|(at, node)| {
            let topic = topic.clone();
            async move {
                // A node waits before it reports NATS as unreachable, and on a slow machine it does report it.
                let begun = Instant::now();
                loop {
                    let _ = node.standing(&topic).await;
                    match node.append(&topic, line(&format!("e{at}"))).await {
                        Ok(appended) => return appended.entry.position,
                        Err(AppendError::Unavailable(_)) if begun.elapsed() >= Timings::FAST.retry_timeout => {}
                        Err(error) => panic!("{topic} could not be begun: {error}"),
                    }
                }
            }
        });
        let mut stored = futures_util::future::join_all(begun).await;
        stored.sort_unstable_by_key(|position| position.offset);
        let entries = nodes[0].read(&topic, Span::Newest, 10).await.expect("read");
        assert_eq!(entries.iter().map(|entry| entry.position).collect::<Vec<_>>(), stored, "one stream has them all");
    }
    for node in nodes {
        node.close().await;
    }
}

async fn a_place_is_one_nodes_unless_it_is_shared() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers).await, node(&servers).await);

    let (older, lost) = claim(&one, "alice", Claim::Exclusive).await;
    roster(&two, &["alice"]).await;
    assert!(two.is_elsewhere(&room(), &who("alice")));
    let (newer, mut kept) = claim(&two, "alice", Claim::Exclusive).await;
    within("the older holder to be notified", lost).await.expect("in time").expect("a notification");
    drop(older);
    roster(&one, &["alice"]).await;
    assert!(kept.try_recv().is_err(), "the newer holder lost its place to the older one's drop");
    drop(newer);
    roster(&one, &[]).await;

    let (shared, mut beside) = claim(&one, "bob", Claim::Shared).await;
    let (shared_too, lost_too) = claim(&two, "bob", Claim::Shared).await;
    assert!(two.is_elsewhere(&room(), &who("bob")), "the other node holds it too");
    drop(shared_too);
    assert!(lost_too.await.is_err(), "a released claim was reported as lost");
    roster(&one, &["bob"]).await;
    roster(&two, &["bob"]).await;
    assert!(beside.try_recv().is_err(), "a shared claim was lost to another shared one");
    let (_alone, _) = claim(&two, "bob", Claim::Exclusive).await;
    within("the shared holder to be notified", beside).await.expect("in time").expect("a notification");
    drop(shared);
    one.close().await;
    two.close().await;
}

async fn a_node_that_is_gone_leaves_its_places() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers).await, node(&servers).await);
    let mut lapses = one.lapses();
    let (_alice, _) = claim(&two, "alice", Claim::Exclusive).await;
    let (_bob, _) = claim(&one, "bob", Claim::Exclusive).await;
    roster(&one, &["alice", "bob"]).await;
    // Without a goodbye: the lease outlives the log that gave it.
    drop(two);
    let lapse = within("the place to lapse", lapses.next()).await.expect("in time");
    assert_eq!(lapse, Some(vec![Lapse { topic: room(), participant: who("alice") }]));
    roster(&one, &["bob"]).await;
    // Another node that did not see it off has it from its own list, until it is seen to.
    let three = node(&servers).await;
    let mut again = three.lapses();
    let lapse = within("the place to lapse there too", again.next()).await.expect("in time");
    assert_eq!(lapse, Some(vec![Lapse { topic: room(), participant: who("alice") }]));
    one.close().await;
    three.close().await;
}

async fn a_log_that_lost_nats_refuses_and_goes_on() {
    let mut servers = NatsServers::one().await.expect("a NATS server");
    let log = node(&servers).await;
    let begin = log.standing(&room()).await.expect("a standing").head;
    let mut tail = log.tail(&room(), begin);
    for id in ["e0", "e1"] {
        log.append(&room(), line(id)).await.expect("stored");
    }
    assert_eq!(follow(&mut tail, 2).await, ["e0", "e1"]);
    let (_seat, mut lost) = claim(&log, "alice", Claim::Exclusive).await;
    let mut health = log.health();
    servers.kill(0).await.expect("killed");
    let unreachable = health.wait_for(|health| matches!(health, LogHealth::Unreachable(_)));
    within("the log to notice", unreachable).await.expect("in time").expect("it says so");
    let refused = log.append(&room(), line("e2")).await.map(|appended| appended.entry);
    assert!(matches!(refused, Err(AppendError::Unavailable(_))), "without NATS an append gave {refused:?}");
    servers.revive(0).await.expect("revived");
    within("the log to be well", health.wait_for(|health| *health == LogHealth::Writable))
        .await
        .expect("in time")
        .expect("it says so");
    for id in ["e2", "e3"] {
        log.append(&room(), line(id)).await.expect("stored");
    }
    assert_eq!(follow(&mut tail, 2).await, ["e2", "e3"], "a tail went on elsewhere");
    let kept = log.read(&room(), Span::Newest, 100).await.expect("a read");
    assert_eq!(ids(&kept), ["e0", "e1", "e2", "e3"]);
    roster(&log, &["alice"]).await;
    assert!(lost.try_recv().is_err(), "a place was lost to nobody");
    log.close().await;
}

async fn what_does_not_fit_is_refused_at_the_start() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = node(&servers).await;
    let refused = async |options: NatsOptions| match Nats::open(options).await {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string(),
    };
    let other_key = NatsOptions { fingerprint: "another".into(), ..options(&servers) };
    insta::assert_snapshot!(refused(other_key).await, @"the gateways of the log `salon` have another key than this one, so what one signs the other would not take");
    let other_replicas = NatsOptions { replicas: Some(3), ..options(&servers) };
    insta::assert_snapshot!(refused(other_replicas).await, @"the log `salon` was made with 1 replicas, and 3 are asked for: leave it out, or change every stream of it with `nats stream edit`");
    let too_many = NatsOptions { name: "other".into(), replicas: Some(3), ..options(&servers) };
    insta::assert_snapshot!(refused(too_many).await, @"NATS would not make `KV_other-meta`: NATS refuses: replicas > 1 not supported in non-clustered mode (code 500, error code 10074)");
    let name = NatsOptions { name: "a.b".into(), ..options(&servers) };
    insta::assert_snapshot!(refused(name).await, @"`a.b` cannot be the name of a log: it is 1 to 32 letters, digits, `-` or `_`");
    let nobody = NatsOptions { servers: vec!["nats://u:secret@127.0.0.1:1".into()], ..NatsOptions::default() };
    let told = refused(nobody).await;
    assert!(told.starts_with("NATS at `127.0.0.1:1` cannot be connected to: "), "{told}");
    log.close().await;
}

async fn one_topic_too_many_is_refused_by_the_limit() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let log = Nats::open(NatsOptions { topics: 2, ..options(&servers) }).await.expect("a log");
    for name in ["one", "two"] {
        log.append(&topic(name), line("e")).await.expect("stored");
    }
    let refused = log.append(&topic("three"), line("e")).await.map(|appended| appended.entry);
    assert_eq!(refused, Err(AppendError::TooManyTopics(2)));
    log.append(&topic("two"), line("f")).await.expect("what is there goes on");
    assert_eq!(log.topics().await.expect("a list").len(), 2);
    log.close().await;
}

/// The servers have a limit of their own.
async fn a_log_with_more_streams_than_its_account_allows_is_refused() {
    // As many as a log with one shard has, without keyspaces.
    let account = "accounts { a { jetstream: { max_mem: 1G, max_file: 1G, max_streams: 6, max_consumers: 1000 }, users: [ { user: u, password: p } ] } }\nno_auth_user: u";
    let servers = NatsServers::configured(account).await.expect("a NATS server");
    let log = node(&servers).await;
    log.append(&room(), line("e1")).await.expect("stored");
    log.append(&topic("another"), line("e1")).await.expect("topics need no streams of their own");
    log.close().await;
    let other = NatsOptions { name: "other".into(), ..options(&servers) };
    let refused = match within("an answer", Nats::open(other)).await.expect("in time") {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(refused.starts_with("NATS would not make `") && refused.contains("streams"), "{refused}");
}
