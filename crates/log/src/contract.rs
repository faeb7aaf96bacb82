//! The contract of [`TopicLog`] as a suite that every engine runs; the numbers are those of its documentation.
//!
//! Deliberately absent: what cannot be brought about through the trait (a failing disk, a second node). Each engine shows that in
//! tests of its own.

mod checks;
pub mod cluster;
pub mod context;
pub(crate) mod deletion;
pub mod files;
mod folds;
mod quotas;
pub(crate) mod redaction;
mod retention;
pub mod search;
pub mod transfer;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt, StreamExt};
use salon_protocol::{Entry, Envelope, EnvelopeId, ParticipantId, Position, Stamp, Timestamp, TopicName};

use self::checks::{all, within};
use self::folds::{calls_end_once, requests_are_found, shown, standing_is_a_fold};
use crate::{
    AppendError, Appended, Claim, ContextStore, LogHealth, OpenRequest, ReadError, Retention, RetentionRules, Span,
    StoredQuotas, Tail, Tailed, TopicLog,
};

/// An engine as the suite needs it.
pub trait LogEngine {
    /// Its log.
    type Log: TopicLog + ContextStore;

    /// A new log with nothing in it.
    fn create(&self, retention: RetentionRules) -> impl Future<Output = Self::Log>;

    /// A new log with quotas.
    fn create_with(&self, retention: RetentionRules, quotas: StoredQuotas) -> impl Future<Output = Self::Log>;

    /// The same log after its process ended and began again.
    fn restart(&self, log: Self::Log) -> impl Future<Output = Self::Log>;

    /// Applies the retention, and does whatever else the engine does now and then.
    fn trim(&self, log: &Self::Log) -> impl Future<Output = ()>;
}

/// Runs the whole suite; panics at the first broken promise.
pub async fn run(engine: &impl LogEngine) {
    all([entries_and_leases(engine), folds_and_reads(engine), quotas_and_erasure(engine)].into_iter().flatten()).await;
}

// In functions of their own, because what they put on the stack must be gone when the checks run.

/// Promises 1 to 6.
fn entries_and_leases<'a>(engine: &'a impl LogEngine) -> Vec<LocalBoxFuture<'a, ()>> {
    vec![
        within("1: one order for everyone", one_order(engine)).boxed_local(),
        within("2: appended means readable and tailed", appended_means_readable(engine)).boxed_local(),
        within("2: calls take effect in their order", calls_keep_their_order(engine)).boxed_local(),
        within("3: a tail never skips", tails_never_skip(engine)).boxed_local(),
        within("3: tails begin where they are told to", tails_begin_anywhere(engine)).boxed_local(),
        within("4: an id is unique in its topic", ids_are_unique(engine)).boxed_local(),
        within("4: one of many equal appends is the first", equal_appends_race(engine)).boxed_local(),
        within("4: an entry keeps its stamp", stamps_are_kept(engine)).boxed_local(),
        within("5: positions are ordered", positions_are_ordered(engine)).boxed_local(),
        within("6: leases supersede", leases_supersede(engine)).boxed_local(),
    ]
}

/// Promises 7 to 9.
fn folds_and_reads<'a>(engine: &'a impl LogEngine) -> Vec<LocalBoxFuture<'a, ()>> {
    vec![
        within("7: the present is a fold", standing_is_a_fold(engine)).boxed_local(),
        within("7: a call ends once", calls_end_once(engine)).boxed_local(),
        within("7: requests are found, answered or not", requests_are_found(engine)).boxed_local(),
        within("8: what is gone is a gap", what_is_gone_is_a_gap(engine)).boxed_local(),
        within("8: retention leaves nobody out", retention::keeps_the_present(engine)).boxed_local(),
        within("8: the retention of a topic counts", retention::of_a_topic_counts(engine)).boxed_local(),
        within("reads are pages", reads_are_pages(engine)).boxed_local(),
        within("topics are listed", topics_are_listed(engine)).boxed_local(),
        within("9: a closed log takes nothing", closed_takes_nothing(engine)).boxed_local(),
    ]
}

/// Promises 10 to 12.
fn quotas_and_erasure<'a>(engine: &'a impl LogEngine) -> Vec<LocalBoxFuture<'a, ()>> {
    vec![
        within("10: a participant has a quota", quotas::of_a_participant(engine)).boxed_local(),
        within("10: a topic has a quota", quotas::of_a_topic(engine)).boxed_local(),
        within("10: a gateway has a quota", quotas::of_a_gateway(engine)).boxed_local(),
        within("10: retention makes room", quotas::make_room_by_retention(engine)).boxed_local(),
        within("11: what is redacted is gone", redaction::redacted_is_gone(engine)).boxed_local(),
        within("12: a deleted topic is erased", deletion::erases(engine)).boxed_local(),
        within("12: a deletion leaves nothing over", deletion::leaves_nothing_over(engine)).boxed_local(),
        within("12: a context goes with its topic", deletion::erases_context(engine)).boxed_local(),
    ]
}

// What the checks are written with.

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name).expect("a topic's name")
}

pub(crate) fn id(id: &str) -> EnvelopeId {
    EnvelopeId::new(id).expect("an envelope's id")
}

fn envelope(id: &str, from: &str, rest: &str) -> Envelope {
    Envelope::restore(format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}",{rest}}}"#
    ))
    .expect("a well-formed envelope")
}

/// A chat line.
pub(crate) fn line(id: &str, from: &str, text: &str) -> Envelope {
    let params = format!(r#"{{"text":"{text}"}}"#);
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{params}}}"#);
    envelope(id, from, &format!(r#""kind":"mcp","payload":{payload}"#))
}

pub(crate) fn request(id: &str, from: &str, to: &str) -> Envelope {
    let payload = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    envelope(id, from, &format!(r#""to":["{to}"],"kind":"mcp","payload":{payload}"#))
}

pub(crate) fn response(id: &str, from: &str, request: &str) -> Envelope {
    let payload = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    envelope(id, from, &format!(r#""kind":"mcp","correlation_id":"{request}","payload":{payload}"#))
}

pub(crate) fn presence(id: &str, event: &str, who: &str) -> Envelope {
    let payload = format!(r#"{{"event":"{event}","participant":{{"id":"{who}"}}}}"#);
    envelope(id, "system:gateway", &format!(r#""kind":"presence","payload":{payload}"#))
}

pub(crate) async fn append(log: &impl TopicLog, topic: &TopicName, envelope: Envelope) -> Arc<Entry> {
    let id = envelope.id().clone();
    match log.append(topic, envelope).await {
        Ok(Appended { entry, repeated: false }) => entry,
        other => panic!("appending {id:?} for the first time gave {other:?}"),
    }
}

pub(crate) async fn append_lines(
    log: &impl TopicLog,
    topic: &TopicName,
    numbers: std::ops::Range<usize>,
) -> Vec<Arc<Entry>> {
    let appends: Vec<_> = numbers.map(|n| log.append(topic, line(&format!("e{n}"), "alice", "hello"))).collect();
    let mut entries = Vec::new();
    for append in appends {
        entries.push(append.await.expect("an append of a new id").entry);
    }
    entries
}

/// The ids of open requests, in order.
pub(crate) fn asked(open: &[OpenRequest]) -> Vec<String> {
    open.iter().map(|open| open.request.to_string()).collect()
}

pub(crate) fn ids<'a>(entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.envelope.id().to_string()).collect()
}

pub(crate) async fn start(log: &impl TopicLog, topic: &TopicName) -> Position {
    log.standing(topic).await.expect("the standing of a topic").head
}

/// The next entries of a tail, so many of them; panics at a gap.
pub(crate) async fn follow(tail: &mut Tail, count: usize) -> Vec<Arc<Entry>> {
    let mut entries = Vec::new();
    while entries.len() < count {
        match tail.next().await {
            Some(Ok(Tailed::Entries(more))) => {
                assert!(!more.is_empty(), "a tail yielded a batch of nothing");
                entries.extend(more);
            }
            other => panic!("after {} of {count} entries a tail yielded {other:?}", entries.len()),
        }
    }
    assert_eq!(entries.len(), count, "a tail yielded more entries than were appended");
    entries
}

/// Polls a tail that has had everything, so that it knows.
pub(crate) fn caught_up(tail: &mut Tail) {
    if let Some(more) = tail.next().now_or_never() {
        panic!("a tail that has had everything yielded {more:?}");
    }
}

fn keep(count: u64) -> RetentionRules {
    RetentionRules { default: Retention { age: None, count: Some(count) }, topics: HashMap::new() }
}

// The checks.

async fn one_order(engine: &impl LogEngine) {
    const WRITERS: usize = 4;
    const EACH: usize = 100;
    let (log, room) = (Arc::new(engine.create(RetentionRules::default()).await), topic("room"));
    let begin = start(&*log, &room).await;
    let tails: Vec<_> = (0..3).map(|_| log.tail(&room, begin)).collect();
    let following = tails.into_iter().map(|mut tail| async move { follow(&mut tail, WRITERS * EACH).await });
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (log, room) = (log.clone(), room.clone());
            tokio::spawn(async move {
                for n in 0..EACH {
                    append(&*log, &room, line(&format!("w{writer}-{n}"), "alice", "hello")).await;
                }
            })
        })
        .collect();
    let followed = futures_util::future::join_all(following).await;
    for writer in writers {
        writer.await.expect("a writer comes to its end");
    }
    let read = log.read(&room, Span::After(begin), 2 * WRITERS * EACH).await.expect("a read from the start");
    for entries in followed {
        assert_eq!(ids(&entries), ids(&read), "1: a tail has an order of its own");
    }
    let mut next = [0; WRITERS];
    for id in ids(&read) {
        let (writer, n) = id[1..].split_once('-').expect("an id of a writer");
        let writer: usize = writer.parse().expect("a writer's number");
        assert_eq!(n, next[writer].to_string(), "1: entries of one writer changed places, are missing, or are doubled");
        next[writer] += 1;
    }
    assert_eq!(next, [EACH; WRITERS], "1: entries are missing");
}

async fn appended_means_readable(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let mut tail = log.tail(&room, start(&log, &room).await);
    for n in 0..20 {
        let entry = append(&log, &room, line(&format!("e{n}"), "alice", "h\\u00e9llo \\\"you\\\" 1.0")).await;
        let newest = log.read(&room, Span::Newest, 1).await.expect("a read of the newest");
        assert_eq!(newest, std::slice::from_ref(&entry), "2: an acknowledged entry is not the newest that can be read");
        let found = log.find(&room, entry.envelope.id()).await.expect("a search");
        assert_eq!(found, Some(entry.clone()), "2: an acknowledged entry is not found by its id");
        assert_eq!(
            start(&log, &room).await,
            entry.position,
            "2: the standing is not as of the newest acknowledged entry"
        );
        assert_eq!(follow(&mut tail, 1).await, [entry], "2: an acknowledged entry is not tailed");
        if n == 10 {
            engine.trim(&log).await;
        }
    }
}

async fn calls_keep_their_order(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let begin = start(&log, &room).await;
    let mut appends: Vec<_> = (0..50).map(|n| log.append(&room, line(&format!("e{n}"), "alice", "hello"))).collect();
    // Every third is given up by its caller; it is stored all the same.
    let kept = appends.split_off(1).into_iter().enumerate().filter(|(n, _)| n % 3 != 0);
    drop(appends);
    for (n, append) in kept.collect::<Vec<_>>().into_iter().rev() {
        append.await.unwrap_or_else(|error| panic!("2: append {n} failed: {error}"));
    }
    let last = append(&log, &room, line("last", "alice", "hello")).await;
    let read = log.read(&room, Span::After(begin), 100).await.expect("a read from the start");
    let expected: Vec<_> = (0..50).map(|n| format!("e{n}")).chain(["last".into()]).collect();
    assert_eq!(ids(&read), expected, "2: the order is not that of the calls");
    assert_eq!(read.last(), Some(&last));
}

async fn tails_never_skip(engine: &impl LogEngine) {
    // Far more than any tail would keep waiting for one that does not listen.
    const COUNT: usize = 12_000;
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let mut late = log.tail(&room, start(&log, &room).await);
    let mut appended = append_lines(&log, &room, 0..1).await;
    let mut followed = follow(&mut late, 1).await;
    caught_up(&mut late);
    appended.extend(append_lines(&log, &room, 1..COUNT).await);
    // It begins to catch up, and while it does, more is appended: that is not to be yielded twice.
    match late.next().await {
        Some(Ok(Tailed::Entries(entries))) => followed.extend(entries),
        other => panic!("3: a tail that did not listen for a while yielded {other:?}"),
    }
    appended.extend(append_lines(&log, &room, COUNT..COUNT + 10).await);
    followed.extend(follow(&mut late, appended.len() - followed.len()).await);
    assert!(followed == appended, "3: a tail that did not listen for a while has other entries than were appended");
    caught_up(&mut late);
    let more = append_lines(&log, &room, COUNT + 10..COUNT + 20).await;
    assert_eq!(ids(&follow(&mut late, 10).await), ids(&more), "3: a tail that caught up does not go on");
}

async fn tails_begin_anywhere(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let begin = start(&log, &room).await;
    let mut entries = append_lines(&log, &room, 0..30).await;
    engine.trim(&log).await;
    entries.extend(append_lines(&log, &room, 30..60).await);
    let mut tails = vec![(0, log.tail(&room, begin))];
    tails.extend([0, 10, 29, 30, 45, 59].map(|n| (n + 1, log.tail(&room, entries[n].position))));
    let elsewhere = topic("elsewhere");
    append_lines(&log, &elsewhere, 0..5).await;
    entries.extend(append_lines(&log, &room, 60..65).await);
    for (from, tail) in &mut tails {
        let followed = follow(tail, entries.len() - *from).await;
        assert_eq!(ids(&followed), ids(&entries[*from..]), "3: a tail that began after {from} entries");
    }
}

async fn ids_are_unique(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let begin = start(&log, &room).await;
    let first = append(&log, &room, line("e1", "alice", "hello")).await;
    for settled in [false, true] {
        if settled {
            engine.trim(&log).await;
        }
        let again = log.append(&room, line("e1", "alice", "hello")).await.expect("the same envelope again");
        assert!(again.repeated, "4: the same envelope again is not known as repeated");
        assert_eq!(again.entry, first, "4: the same envelope again gives another entry");
        for other in [line("e1", "alice", "goodbye"), line("e1", "bob", "hello")] {
            let refused = log.append(&room, other).await.map(|appended| appended.entry);
            assert_eq!(refused, Err(AppendError::IdConflict), "4: another envelope took the id");
        }
    }
    let elsewhere = append(&log, &topic("elsewhere"), line("e1", "bob", "hello")).await;
    assert_eq!(elsewhere.envelope.from().as_str(), "bob", "4: an id is unique in its topic, not beyond");
    append(&log, &room, line("e2", "alice", "hello")).await;
    let mut tail = log.tail(&room, begin);
    assert_eq!(ids(&follow(&mut tail, 2).await), ["e1", "e2"], "4: what was repeated or refused was tailed");
}

async fn stamps_are_kept(engine: &impl LogEngine) {
    let (mut log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let begin = start(&log, &room).await;
    let permissions = ["drive \u{1f697}".to_owned(), "a\"b\r\nc".to_owned()];
    let strong = Stamp::new(Some("t1"), &permissions, None).expect("a stamp");
    let weak = Stamp::new(Some("t2"), &[], None).expect("a stamp");
    let longest = Stamp::new(None, &["p".repeat(Stamp::MAX_BYTES - 20)], None).expect("a stamp that just fits");
    let expected = [Some(strong.clone()), Some(weak.clone()), Some(longest), None];
    for (number, stamp) in expected.iter().enumerate() {
        let envelope = line(&format!("e{number}"), "alice", "hello");
        let appended = log.append_stamped(&room, envelope, stamp.clone()).await.expect("an append of a new id");
        assert_eq!(appended.entry.stamp, *stamp, "4: an append gives another stamp than it was given");
    }
    let mut tail = log.tail(&room, begin);
    let tailed: Vec<_> = follow(&mut tail, 4).await.iter().map(|entry| entry.stamp.clone()).collect();
    assert_eq!(tailed, expected, "4: a tail gives other stamps than were stored");
    drop(tail);
    for restarted in [false, true] {
        for settled in [false, true] {
            if settled {
                engine.trim(&log).await;
            }
            let told = format!("after a restart: {restarted}, settled: {settled}");
            let read = log.read(&room, Span::After(begin), 10).await.expect("a read");
            let read: Vec<_> = read.iter().map(|entry| entry.stamp.clone()).collect();
            assert_eq!(read, expected, "4: a read gives other stamps than were stored, {told}");
            let found = log.find(&room, &id("e0")).await.expect("a look").expect("it is there");
            assert_eq!(found.stamp.as_ref(), Some(&strong), "4: another stamp is found than was stored, {told}");
            let again = log.append_stamped(&room, line("e0", "alice", "hello"), Some(weak.clone())).await;
            let again = again.expect("the same envelope again");
            assert!(again.repeated && again.entry == found, "4: a repeated envelope got another stamp, {told}");
        }
        log = engine.restart(log).await;
    }
}

async fn equal_appends_race(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let mut appends: Vec<_> = (0..8).map(|_| log.append(&room, line("e1", "alice", "hello"))).collect();
    appends.push(log.append(&room, line("e1", "alice", "goodbye")));
    let mut outcomes = futures_util::future::join_all(appends).await;
    let other = outcomes.pop().expect("nine of them").map(|appended| appended.entry);
    assert_eq!(other, Err(AppendError::IdConflict), "4: another envelope took an id that was still in flight");
    let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.expect("an equal append")).collect();
    let repeated: Vec<_> = outcomes.iter().map(|appended| appended.repeated).collect();
    let expected: Vec<_> = (0..8).map(|n| n > 0).collect();
    assert_eq!(repeated, expected, "4: the first of equal appends is the first, the others are repeated");
    assert!(
        outcomes.iter().all(|appended| appended.entry == outcomes[0].entry),
        "4: equal appends gave different entries"
    );
}

async fn positions_are_ordered(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let mut before = start(&log, &room).await;
    let mut arrived = Timestamp(0);
    for entry in append_lines(&log, &room, 0..50).await {
        assert_eq!(before.in_order(entry.position), Some(true), "5: {before} is not before {}", entry.position);
        assert!(arrived <= entry.arrived, "5: times of arrival go back along the positions");
        (before, arrived) = (entry.position, entry.arrived);
    }
    let log = engine.restart(log).await;
    let entry = append(&log, &room, line("after", "alice", "hello")).await;
    assert_eq!(
        before.in_order(entry.position),
        Some(true),
        "5: after a restart {before} is not before {}",
        entry.position
    );
}

async fn leases_supersede(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let alice = ParticipantId::new("alice").expect("a participant's id");
    let take = async |name: &str, claim| {
        let lost = Arc::new(AtomicUsize::new(0));
        let counted = lost.clone();
        let told = Box::new(move || _ = counted.fetch_add(1, Ordering::SeqCst));
        let participant = ParticipantId::new(name).expect("a participant's id");
        (lost, log.claim(&room, &participant, claim, told).await.expect("a lease"))
    };
    let count = |lost: &Arc<AtomicUsize>| lost.load(Ordering::SeqCst);
    let (bob_lost, bob) = take("bob", Claim::Exclusive).await;

    let (first_lost, first) = take("alice", Claim::Exclusive).await;
    let (second_lost, second) = take("alice", Claim::Exclusive).await;
    assert_eq!(count(&first_lost), 1, "6: the older of two exclusive holders is told once");
    drop(first);
    let (third_lost, third) = take("alice", Claim::Shared).await;
    assert_eq!(count(&second_lost), 1, "6: an exclusive holder is superseded by one who shares");
    let (fourth_lost, fourth) = take("alice", Claim::Shared).await;
    assert_eq!(count(&third_lost), 0, "6: shared claims hold side by side");
    drop((second, third));
    let mut roster = log.roster(&room).await.expect("a roster");
    roster.sort();
    assert_eq!(roster.iter().map(ParticipantId::as_str).collect::<Vec<_>>(), ["alice", "bob"], "6: who holds a lease");
    let (_, fifth) = take("alice", Claim::Exclusive).await;
    assert_eq!(count(&third_lost), 0, "6: a claim that was released gets no notice");
    assert_eq!(count(&fourth_lost), 1, "6: an exclusive claim supersedes one who shares");
    drop(fourth);
    assert!(
        log.roster(&room).await.expect("a roster").contains(&alice),
        "6: the drop of a lost lease took the newer one"
    );
    drop(fifth);
    assert_eq!(log.roster(&room).await.expect("a roster"), [ParticipantId::new("bob").expect("an id")]);
    assert_eq!(log.roster(&topic("elsewhere")).await.expect("a roster"), [], "6: a lease is for one topic");
    assert_eq!(count(&bob_lost), 0, "6: one participant's claims are nothing to another");
    assert_eq!(count(&first_lost), 1, "6: a holder is told at most once");
    drop(bob);
    assert_eq!(log.roster(&room).await.expect("a roster"), [], "6: dropping a lease releases it");
}

async fn what_is_gone_is_a_gap(engine: &impl LogEngine) {
    let (log, room) = (engine.create(keep(3)).await, topic("room"));
    let begin = start(&log, &room).await;
    let entries = append_lines(&log, &room, 0..10).await;
    let mut late = log.tail(&room, entries[1].position);
    engine.trim(&log).await;
    let Err(ReadError::Gap { resume }) = log.read(&room, Span::After(begin), 100).await else {
        panic!("8: reading from the start is not a gap although entries were removed");
    };
    let rest = log.read(&room, Span::After(resume), 100).await.expect("a read from where the gap says");
    assert_eq!(ids(&rest), ["e7", "e8", "e9"], "8: what is left begins after `resume`");
    let removed = log.read(&room, Span::After(entries[5].position), 100).await;
    assert_eq!(removed, Err(ReadError::Gap { resume }), "8: reading after an entry whose successor was removed");
    let last_removed =
        log.read(&room, Span::After(entries[6].position), 100).await.expect("no gap after the last removed");
    assert_eq!(ids(&last_removed), ids(&rest), "8: nothing is missing after the newest that was removed");
    let foreign = Position { epoch: begin.epoch.wrapping_add(1), ..entries[8].position };
    let other = log.read(&room, Span::After(foreign), 100).await;
    assert_eq!(other, Err(ReadError::Gap { resume }), "8: a position of another epoch says nothing here");
    let newest = log.read(&room, Span::Newest, 100).await.expect("a read of the newest");
    assert_eq!(ids(&newest), ids(&rest), "8: removed entries are still read");
    assert!(log.find(&room, &id("e0")).await.expect("a search").is_none(), "8: a removed entry is still found");

    for (name, tail) in [("from a foreign position", foreign), ("from a removed one", entries[1].position)] {
        let mut tail = log.tail(&room, tail);
        match tail.next().await {
            Some(Ok(Tailed::Gap { resume: at })) => assert_eq!(at, resume, "8: a tail {name} resumes elsewhere"),
            other => panic!("8: a tail {name} began with {other:?} and not with a gap"),
        }
        assert_eq!(ids(&follow(&mut tail, 3).await), ids(&rest), "8: a tail {name} goes on after the gap");
    }
    match late.next().await {
        Some(Ok(Tailed::Gap { resume: at })) => {
            assert_eq!(at, resume, "8: a tail that was too late resumes elsewhere");
            assert_eq!(
                ids(&follow(&mut late, 3).await),
                ids(&rest),
                "8: a tail that was too late goes on after the gap"
            );
        }
        // It may have had them waiting.
        Some(Ok(Tailed::Entries(mut entries))) => {
            let missing = 8 - entries.len();
            entries.extend(follow(&mut late, missing).await);
            assert_eq!(ids(&entries)[..2], ["e2", "e3"], "8: a tail skipped without a gap");
        }
        other => panic!("8: a tail that was too late yielded {other:?}"),
    }
    let again = append(&log, &room, line("e0", "bob", "new")).await;
    assert_eq!(entries[9].position.in_order(again.position), Some(true), "8: a position was given out twice");
    assert_eq!(ids(&follow(&mut late, 1).await), ["e0"], "8: a tail ended with its gap");
}

async fn reads_are_pages(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let begin = start(&log, &room).await;
    for span in [Span::Newest, Span::After(begin), Span::Before(begin), Span::BeforeTime(Timestamp(u64::MAX >> 1))] {
        assert_eq!(log.read(&room, span, 10).await, Ok(vec![]), "{span:?} of a topic nobody entered");
    }
    let mut entries = append_lines(&log, &room, 0..20).await;
    engine.trim(&log).await;
    entries.extend(append_lines(&log, &room, 20..40).await);
    let read = async |span, limit| ids(&log.read(&room, span, limit).await.expect("a read"));
    for limit in [0, 1, 10, 20, 25, 40, 100] {
        let last = |end: usize| ids(&entries[end.saturating_sub(limit)..end]);
        assert_eq!(read(Span::Newest, limit).await, last(40), "the newest {limit}");
        assert_eq!(read(Span::After(begin), limit).await, ids(entries.iter().take(limit)), "the oldest {limit}");
        for n in [0, 1, 10, 19, 20, 21, 30, 39] {
            let position = entries[n].position;
            assert_eq!(read(Span::Before(position), limit).await, last(n), "{limit} before the entry {n}");
            let after = ids(entries[n + 1..].iter().take(limit));
            assert_eq!(read(Span::After(position), limit).await, after, "{limit} after the entry {n}");
            let time = entries[n].arrived;
            let earlier = entries.iter().filter(|entry| entry.arrived < time).count();
            assert_eq!(read(Span::BeforeTime(time), limit).await, last(earlier), "{limit} that arrived before {time}");
        }
        let ever = Timestamp(entries[39].arrived.0 + 1);
        assert_eq!(read(Span::BeforeTime(ever), limit).await, last(40), "{limit} that arrived at any time");
        assert_eq!(read(Span::BeforeTime(Timestamp(0)), limit).await, [""; 0], "{limit} that arrived before any time");
    }
}

async fn topics_are_listed(engine: &impl LogEngine) {
    let log = engine.create(RetentionRules::default()).await;
    assert_eq!(log.topics().await, Ok(vec![]), "an empty log has a topic");
    let mut newest = BTreeMap::new();
    for round in 0..2 {
        for (name, count) in [("b", 3), ("a", 1), ("c", 2)] {
            let entries = append_lines(&log, &topic(name), round * count..(round + 1) * count).await;
            newest.insert(name, ((round + 1) * count, entries.last().expect("at least one").arrived));
        }
        let listed = log.topics().await.expect("a list of topics");
        let listed: Vec<_> = listed.iter().map(|t| (t.name.as_str(), (t.entries as usize, t.newest))).collect();
        let expected: Vec<_> = newest.iter().map(|(name, (count, time))| (*name, (*count, Some(*time)))).collect();
        assert_eq!(listed, expected, "topics are listed by name, with how much is kept of them and since when");
        engine.trim(&log).await;
    }
}

async fn closed_takes_nothing(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    assert_eq!(*log.health().borrow(), LogHealth::Writable, "9: a new log does not take entries");
    let mut tail = log.tail(&room, start(&log, &room).await);
    let appends: Vec<_> = (0..100).map(|n| log.append(&room, line(&format!("e{n}"), "alice", "hello"))).collect();
    log.close().await;
    for append in appends {
        append.await.expect("what was submitted before the close is finished");
    }
    log.close().await;
    let refused = log.append(&room, line("late", "alice", "hello")).await.map(|appended| appended.entry);
    assert!(matches!(refused, Err(AppendError::Stopped(_))), "9: a closed log answered an append with {refused:?}");
    let mut followed = 0;
    while let Some(Ok(Tailed::Entries(entries))) = tail.next().await {
        followed += entries.len();
    }
    assert!(followed <= 100, "9: a tail of a closed log yielded {followed} of 100 entries");
    let log = engine.restart(log).await;
    let kept = log.read(&room, Span::Newest, 1000).await.expect("a read of the newest");
    assert_eq!(ids(&kept), (0..100).map(|n| format!("e{n}")).collect::<Vec<_>>(), "9: what was submitted is not kept");
}
