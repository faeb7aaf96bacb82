//! What topics cost that nobody uses: a start, the end of another node, a list and a first page read none of them that they need not. And what must be
//! read all the same: settings, and who was left behind.

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use salon_control::{DELETED_METHOD, SETTINGS_METHOD, SettingsChange, TopicAccess, TopicSettings};
use salon_log::nats::{Nats, NatsOptions, NatsPurpose};
use salon_log::transfer::{TopicImport, TransferLog};
use salon_log::{AppendError, Retention, RetentionRules, Span, TopicLog};
use salon_protocol::{Entry, Envelope, Position, Presence, PresenceEvent, Timestamp, TopicName};
use salon_rooms::Rooms;
use salon_testkit::nats::{NatsServers, topic_token};
use salon_testkit::nats_trials;
use salon_testkit::{eventually, within};
use serde_json::json;

use crate::presence::rooms;
use crate::props::{at, envelope, ids, line, options, presence, topic, who};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        the_end_of_a_node_reads_no_idle_topic,
        the_end_of_a_copy_is_no_end_of_a_gateway,
        a_first_page_and_a_list_follow_no_topic,
        settings_are_known_to_nodes_that_start_later,
        settings_that_were_removed_or_copied_are_known,
        facts_of_an_earlier_version_are_assumed,
        a_participant_of_a_killed_node_is_removed_by_one_that_starts_later,
        a_deletion_that_was_not_finished_is_finished_by_a_node_that_starts_later,
        what_came_too_late_after_a_deletion_is_read_by_no_node,
        what_a_topic_adds_up_to_is_kept_when_its_node_is_closed,
    ]
}

const IDLE_TOPICS: usize = 60;

async fn node(servers: &NatsServers) -> Arc<Nats> {
    Arc::new(Nats::open(options(servers)).await.expect("a node"))
}

async fn append(log: &Nats, name: &TopicName, envelope: Envelope) -> u64 {
    log.append(name, envelope).await.expect("stored").entry.position.offset
}

/// Topics in which somebody was, and said something, and left.
async fn make_idle_topics(log: &Nats) -> Vec<TopicName> {
    let names: Vec<_> = (0..IDLE_TOPICS).map(|number| topic(&format!("idle:{number}"))).collect();
    for name in &names {
        for envelope in [presence("join"), line("e1"), presence("leave"), line("e2")] {
            append(log, name, envelope).await;
        }
    }
    names
}

/// The notice that sets settings by which nobody but operators may enter.
fn closing_settings() -> Envelope {
    let settings = TopicSettings { version: 1, access: TopicAccess::Members, ..TopicSettings::default() };
    let change = SettingsChange { settings, by: who("alice"), reason: None };
    let params = serde_json::to_string(&change).expect("plain JSON");
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"{SETTINGS_METHOD}","params":{params}}}"#);
    envelope("settings", "system:gateway", "mcp", &payload)
}

async fn may_read(rooms: &Rooms, name: &TopicName) -> bool {
    rooms.check_access(name, &who("mallory"), None).await.is_ok()
}

/// Who may read what in a list.
async fn listed(rooms: &Rooms) -> Vec<String> {
    let topics = rooms.log().topics().await.expect("a list");
    let visible = rooms.visible(topics, &who("mallory"), None).await.expect("a list");
    visible.into_iter().map(|topic| topic.summary.name.to_string()).collect()
}

async fn present(log: &Nats, name: &TopicName) -> usize {
    log.standing(name).await.expect("a standing").present.len()
}

async fn the_end_of_a_node_reads_no_idle_topic() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers).await, node(&servers).await);
    make_idle_topics(&two).await;
    // Whom the other node leaves behind is removed all the same.
    let orphaned = topic("room:orphan");
    append(&two, &orphaned, presence("join")).await;
    let rooms = rooms(&one);
    let watching = tokio::spawn({
        let rooms = rooms.clone();
        async move { rooms.remove_lapsed().await }
    });
    // When a node starts it looks at once; that is over before the other one ends.
    let is_removed = async || (one.followed_topics() > 0 && present(&one, &orphaned).await == 0).then_some(());
    eventually("the orphan to be removed", is_removed).await.expect("in time");
    append(
        &two,
        &orphaned,
        Envelope::restore(presence("join").text().replace(r#""id":"join""#, r#""id":"join2""#)).expect("a join"),
    )
    .await;
    two.close().await;
    eventually("the orphan to be removed again", is_removed).await.expect("in time");
    assert_eq!(one.followed_topics(), 1, "topics in which there was nothing to do were followed");
    watching.abort();
    rooms.close().await;
    one.close().await;
}

async fn the_end_of_a_copy_is_no_end_of_a_gateway() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let one = node(&servers).await;
    append(&one, &topic("room:a"), line("e1")).await;
    let mut gone = one.gone().expect("several nodes");
    let copy = NatsOptions { purpose: NatsPurpose::CopyFrom, ..options(&servers) };
    Nats::open(copy).await.expect("a copy").close().await;
    // The end of a gateway comes after it, in the order of the beats.
    node(&servers).await.close().await;
    within("a node to be gone", gone.wait_for(|gone| *gone > 0)).await.expect("in time").expect("a log");
    assert_eq!(*gone.borrow(), 1);
    one.close().await;
}

async fn a_first_page_and_a_list_follow_no_topic() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let one = node(&servers).await;
    make_idle_topics(&one).await;
    let plain = topic("room:plain");
    for number in 0..10 {
        append(&one, &plain, line(&format!("e{number}"))).await;
    }
    one.close().await;
    let two = node(&servers).await;
    let rooms = rooms(&two);
    assert!(may_read(&rooms, &plain).await);
    assert_eq!(two.read(&plain, Span::Newest, 100).await.expect("a page").len(), 10);
    assert_eq!(listed(&rooms).await.len(), IDLE_TOPICS + 1);
    let topics = two.topics().await.expect("a list");
    assert_eq!(rooms.populations(&topics).await.expect("counts"), vec![0; IDLE_TOPICS + 1]);
    assert_eq!(two.followed_topics(), 0, "a topic was followed to learn that it has no settings");
    rooms.close().await;
    two.close().await;
}

async fn settings_are_known_to_nodes_that_start_later() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, early) = (node(&servers).await, node(&servers).await);
    let (closed, open) = (topic("room:closed"), topic("room:open"));
    let early_rooms = rooms(&early);
    assert!(may_read(&early_rooms, &closed).await, "nobody has entered it");
    append(&one, &closed, line("e1")).await;
    append(&one, &open, line("e1")).await;
    assert!(may_read(&early_rooms, &closed).await);
    append(&one, &closed, closing_settings()).await;
    // At once, at another node, and before anything else: what was acknowledged counts for the participant that asks after it.
    assert!(!may_read(&early_rooms, &closed).await, "a node did not know settings that were stored");
    assert_eq!(listed(&early_rooms).await, ["room:open"]);
    append(&one, &closed, line("e2")).await;
    one.close().await;
    let late = node(&servers).await;
    let late_rooms = rooms(&late);
    assert!(!may_read(&late_rooms, &closed).await);
    assert!(may_read(&late_rooms, &open).await);
    assert_eq!(listed(&late_rooms).await, ["room:open"]);
    assert!(late_rooms.settings_of_topic(&closed).await.expect("settings").is_some());
    for rooms in [early_rooms, late_rooms] {
        rooms.close().await;
    }
    early.close().await;
    late.close().await;
}

async fn settings_that_were_removed_or_copied_are_known() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let retention = RetentionRules { default: Retention { age: None, count: Some(3) }, ..RetentionRules::default() };
    let keeping = NatsOptions { retention, ..options(&servers) };
    let one = Nats::open(keeping).await.expect("a node");
    let (removed, copied, alone) = (topic("room:removed"), topic("room:copied"), topic("room:alone"));
    append(&one, &removed, closing_settings()).await;
    for number in 0..10 {
        append(&one, &removed, line(&format!("e{number}"))).await;
    }
    one.trim_now().await.expect("retention is applied");
    let notice = Arc::new(Entry {
        position: Position { epoch: 1, offset: 1 },
        arrived: Timestamp(1),
        stamp: None,
        envelope: closing_settings(),
    });
    one.import(&copied, TopicImport::Entries(vec![notice.clone()])).await.expect("copied");
    one.import(&alone, TopicImport::Settings(notice)).await.expect("copied");
    let read = ids(&one.read(&removed, Span::Newest, 10).await.expect("a page"));
    assert_eq!(read, ["e7", "e8", "e9"], "the notice is not there any more");
    one.close().await;
    // A node that reads the index that was kept, and one that finds none: it has never seen the notice that was removed. Their sweeps remove the copied
    // entry, which is old, and forget no topic that has settings.
    for is_index_lost in [false, true] {
        if is_index_lost {
            let folds = json!({ "filter": "$KV.salon-folds.shard-0" });
            servers.ask("STREAM.PURGE.KV_salon-folds", &folds).await.expect("purged");
        }
        let log = node(&servers).await;
        log.trim_now().await.expect("a sweep");
        let rooms = rooms(&log);
        for name in [&removed, &copied, &alone] {
            assert!(!may_read(&rooms, name).await, "{name} can be read, index lost: {is_index_lost}");
        }
        assert_eq!(listed(&rooms).await, [""; 0]);
        rooms.close().await;
        log.close().await;
    }
}

/// An index that has no facts.
async fn facts_of_an_earlier_version_are_assumed() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let one = node(&servers).await;
    let (closed, left) = (topic("room:closed"), topic("room:left"));
    let closed_at = append(&one, &closed, closing_settings()).await;
    let left_at = append(&one, &left, presence("join")).await;
    one.trim_now().await.expect("a sweep");
    one.close().await;
    // Nothing is kept of so few entries, so this is what an earlier version would have kept of them.
    let index = |name: &TopicName, at: u64| {
        let block = json!({ "s": at, "c": 0, "b": 0, "t": u64::MAX >> 12 });
        json!({ "name": name, "count": 1, "bytes": 100, "head": at, "newest": u64::MAX >> 12, "blocks": [block],
            "removed": { "through": at - 1, "count": 0, "bytes": 0 } })
    };
    let topics = json!({ topic_token("room:closed"): index(&closed, closed_at), topic_token("room:left"): index(&left, left_at) });
    let kept = json!({ "through": left_at, "topics": topics });
    let put = format!("PUB $KV.salon-folds.shard-0 {}\r\n{kept}\r\n", kept.to_string().len());
    let _wire = servers.wire(&put).await.expect("an index");
    let stored = async || {
        let told = servers.ask("STREAM.INFO.KV_salon-folds", &json!({})).await.expect("an answer");
        (told["state"]["messages"].as_u64() > Some(0)).then_some(())
    };
    eventually("the index to be stored", stored).await.expect("in time");
    let log = node(&servers).await;
    let rooms = rooms(&log);
    assert!(!may_read(&rooms, &closed).await);
    let mut unsettled = log.unsettled_topics().await.expect("a list");
    unsettled.sort();
    assert_eq!(
        unsettled,
        std::slice::from_ref(&left),
        "the fold of the other has told that nothing is to be done there"
    );
    rooms.recover().await.expect("recovered");
    let is_removed = async || (present(&log, &left).await == 0).then_some(());
    eventually("the participant to be removed", is_removed).await.expect("in time");
    assert_eq!(log.unsettled_topics().await.expect("a list"), Vec::new());
    rooms.close().await;
    log.close().await;
}

async fn a_participant_of_a_killed_node_is_removed_by_one_that_starts_later() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let one = node(&servers).await;
    let idle = make_idle_topics(&one).await;
    append(
        &one,
        &idle[7],
        Envelope::restore(presence("join").text().replace(r#""id":"join""#, r#""id":"again""#)).expect("a join"),
    )
    .await;
    // Without a goodbye.
    drop(one);
    let two = node(&servers).await;
    let rooms = rooms(&two);
    assert_eq!(two.unsettled_topics().await.expect("a list"), [idle[7].clone()]);
    rooms.recover().await.expect("recovered");
    let is_removed = async || (present(&two, &idle[7]).await == 0).then_some(());
    eventually("the participant to be removed", is_removed).await.expect("in time");
    let newest = two.read(&idle[7], Span::Newest, 1).await.expect("a page");
    let said: Option<Presence> = newest[0].envelope.presence();
    assert_eq!(said.map(|said| said.event), Some(PresenceEvent::Leave));
    assert_eq!(two.followed_topics(), 1);
    rooms.close().await;
    two.close().await;
}

async fn a_deletion_that_was_not_finished_is_finished_by_a_node_that_starts_later() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let one = node(&servers).await;
    let name = topic("room:deleted");
    append(&one, &name, line("e1")).await;
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"{DELETED_METHOD}","params":{{"by":"alice"}}}}"#);
    // Only the notice: its node ends before it removes anything.
    append(&one, &name, envelope("deleted", "system:gateway", "mcp", &payload)).await;
    drop(one);
    let two = node(&servers).await;
    assert_eq!(two.read(&name, Span::Newest, 10).await.expect("a page").len(), 0, "what was deleted is read");
    drop(two);
    let three = node(&servers).await;
    let rooms = rooms(&three);
    rooms.recover().await.expect("recovered");
    three.trim_now().await.expect("a sweep");
    three.trim_now().await.expect("a sweep");
    assert_eq!(three.unsettled_topics().await.expect("a list"), Vec::new());
    assert_eq!(three.topics().await.expect("a list"), []);
    rooms.close().await;
    three.close().await;
}

async fn what_came_too_late_after_a_deletion_is_read_by_no_node() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let one = node(&servers).await;
    let name = topic("room:deleted");
    append(&one, &name, closing_settings()).await;
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"{DELETED_METHOD}","params":{{"by":"alice"}}}}"#);
    let deleted = append(&one, &name, envelope("deleted", "system:gateway", "mcp", &payload)).await;
    // It was under way when the topic was deleted.
    let refused = one.append(&name, line("late")).await.map(drop);
    assert_eq!(refused, Err(AppendError::Stale));
    for _ in 0..2 {
        one.trim_now().await.expect("what was deleted is removed");
    }
    // By the index that was kept, nothing is to be done in the topic.
    let two = node(&servers).await;
    assert_eq!(two.unsettled_topics().await.expect("a list"), []);
    let late = line("late");
    let begin = Position { epoch: 1, offset: deleted };
    for _ in 0..2 {
        assert_eq!(ids(&two.read(&name, Span::Newest, 10).await.expect("a page")), [""; 0], "it is read");
        let read = two.read(&name, Span::After(begin), 10).await;
        assert!(!read.is_ok_and(|read| !read.is_empty()), "it is read");
        assert_eq!(two.find(&name, late.id()).await, Ok(None), "it is found");
    }
    let three = node(&servers).await;
    assert_eq!(three.find(&name, late.id()).await, Ok(None), "it is found");
    let join = Envelope::restore(presence("join").text().replace("alice", "mallory")).expect("a join");
    append(&one, &name, join).await;
    append(&one, &name, line("new")).await;
    let four = node(&servers).await;
    for log in [&two, &three, &four] {
        assert_eq!(ids(&log.read(&name, Span::Newest, 10).await.expect("a page")), ["join", "new"]);
    }
    for log in [one, two, three, four] {
        log.close().await;
    }
}

async fn what_a_topic_adds_up_to_is_kept_when_its_node_is_closed() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let one = Nats::open(at(&servers.url())).await.expect("a node");
    let (long, short) = (topic("room:long"), topic("room:short"));
    for number in 0..100 {
        append(&one, &long, line(&format!("e{number}"))).await;
    }
    append(&one, &short, line("e1")).await;
    one.close().await;
    let folds = json!({ "subjects_filter": ">" });
    let told = servers.ask("STREAM.INFO.KV_salon-folds", &folds).await.expect("an answer");
    let kept = told["state"]["subjects"].as_object().cloned().unwrap_or_default();
    assert!(kept.contains_key(&format!("$KV.salon-folds.{}", topic_token("room:long"))), "{kept:?}");
    assert!(!kept.contains_key(&format!("$KV.salon-folds.{}", topic_token("room:short"))), "{kept:?}");
    let two = Nats::open(at(&servers.url())).await.expect("a node");
    tokio::time::timeout(Duration::from_secs(5), two.standing(&long)).await.expect("in time").expect("a standing");
    two.close().await;
}
