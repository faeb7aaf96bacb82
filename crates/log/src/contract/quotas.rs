//! Quotas of stored bytes. Engines may count what they store beside an envelope, so the checks ask for no exact number of them.

use super::{LogEngine, append, id, ids, keep, line, presence, request, response, start, topic};
use crate::{AppendError, QuotaExceeded, QuotaScope, Retention, RetentionRules, Span, StoredQuotas, TopicLog};

/// The text of the lines here. An envelope with it is not much longer.
const TEXT_BYTES: usize = 4000;

/// Appends lines until one is refused; says how many were stored, and why the next was not.
async fn fill(log: &impl TopicLog, room: &str, from: &str) -> (usize, AppendError) {
    for n in 0..1000 {
        let line = line(&format!("{from}-{n}"), from, &"x".repeat(TEXT_BYTES));
        if let Err(refused) = log.append(&topic(room), line).await {
            return (n, refused);
        }
    }
    panic!("10: a thousand lines were stored")
}

async fn is_taken(log: &impl TopicLog, room: &str, id: &str, from: &str) -> bool {
    match log.append(&topic(room), line(id, from, &"x".repeat(TEXT_BYTES))).await {
        Ok(_) => true,
        Err(AppendError::Quota(_)) => false,
        Err(other) => panic!("10: {other}"),
    }
}

fn exceeded(scope: QuotaScope, limit: u64) -> AppendError {
    AppendError::Quota(QuotaExceeded { scope, limit })
}

/// A log that keeps everything, so that only the quotas decide what is refused.
async fn keeping_all<E: LogEngine>(engine: &E, quotas: StoredQuotas) -> E::Log {
    let all = Retention { age: None, count: None };
    engine.create_with(RetentionRules { default: all, ..RetentionRules::default() }, quotas).await
}

pub(super) async fn of_a_participant(engine: &impl LogEngine) {
    let log = keeping_all(engine, StoredQuotas { participant: 50_000, ..StoredQuotas::default() }).await;
    let room = topic("room");
    append(&log, &room, presence("j1", "join", "alice")).await;
    append(&log, &room, presence("j2", "join", "bob")).await;
    let (count, refused) = fill(&log, "room", "alice").await;
    assert_eq!((count, refused), (11, exceeded(QuotaScope::Participant, 50_000)));

    assert!(is_taken(&log, "room", "b1", "bob").await, "10: another participant has a quota of its own");
    assert!(is_taken(&log, "elsewhere", "a1", "alice").await, "10: another topic is counted by itself");
    append(&log, &room, presence("l1", "leave", "alice")).await;
    append(&log, &room, presence("j3", "join", "alice")).await;
    let again = log.append(&room, line("alice-0", "alice", &"x".repeat(TEXT_BYTES))).await;
    assert!(again.is_ok_and(|again| again.repeated), "10: what is stored is not known any more");
    let newest = log.read(&room, Span::Newest, 2).await.expect("a read");
    assert_eq!(ids(&newest), ["l1", "j3"], "10: what is stored cannot be read");
    let found = log.find(&room, &id("alice-11")).await.expect("a search");
    assert_eq!(found, None, "10: what was refused is stored");

    let log = engine.restart(log).await;
    start(&log, &room).await;
    assert!(!is_taken(&log, "room", "a2", "alice").await, "10: a restart has forgotten what counts");
    assert!(is_taken(&log, "room", "b2", "bob").await, "10: a restart counts too much");
}

pub(super) async fn of_a_topic(engine: &impl LogEngine) {
    let log = keeping_all(engine, StoredQuotas { topic: 50_000, ..StoredQuotas::default() }).await;
    let room = topic("room");
    append(&log, &room, presence("j1", "join", "alice")).await;
    append(&log, &room, request("r1", "bob", "alice")).await;
    let (count, refused) = fill(&log, "room", "alice").await;
    assert!((9..=11).contains(&count), "10: {count} lines of {TEXT_BYTES} bytes in 50,000");
    assert_eq!(refused, exceeded(QuotaScope::Topic, 50_000));
    assert!(!is_taken(&log, "room", "b1", "bob").await, "10: another participant shares the quota of the topic");
    assert!(is_taken(&log, "elsewhere", "b1", "bob").await, "10: another topic is counted by itself");
    append(&log, &room, response("a1", "alice", "r1")).await;

    let log = engine.restart(log).await;
    start(&log, &room).await;
    assert!(!is_taken(&log, "room", "b1", "bob").await, "10: a restart has forgotten what counts");
    assert!(is_taken(&log, "elsewhere", "b2", "bob").await, "10: a restart counts too much");
}

pub(super) async fn of_a_gateway(engine: &impl LogEngine) {
    let log = keeping_all(engine, StoredQuotas { gateway: 50_000, ..StoredQuotas::default() }).await;
    let (count, refused) = fill(&log, "room", "alice").await;
    assert!((9..=11).contains(&count), "10: {count} lines of {TEXT_BYTES} bytes in 50,000");
    assert_eq!(refused, exceeded(QuotaScope::Gateway, 50_000));
    assert!(!is_taken(&log, "elsewhere", "b1", "bob").await, "10: another topic shares the quota of the gateway");
    append(&log, &topic("elsewhere"), presence("j1", "join", "bob")).await;

    let log = engine.restart(log).await;
    start(&log, &topic("elsewhere")).await;
    assert!(!is_taken(&log, "elsewhere", "b1", "bob").await, "10: a restart has forgotten what counts");
    drop(log);
    let unlimited = keeping_all(engine, StoredQuotas::default()).await;
    for n in 0..20 {
        assert!(is_taken(&unlimited, "room", &format!("e{n}"), "alice").await, "10: zero is no limit");
    }
}

/// An engine looks after retention when it likes, so a line may be refused later than without; but one is.
pub(super) async fn make_room_by_retention(engine: &impl LogEngine) {
    for quotas in [
        StoredQuotas { participant: 50_000, ..StoredQuotas::default() },
        StoredQuotas { topic: 50_000, ..StoredQuotas::default() },
        StoredQuotas { gateway: 50_000, ..StoredQuotas::default() },
    ] {
        let log = engine.create_with(keep(2), quotas).await;
        fill(&log, "room", "alice").await;
        engine.trim(&log).await;
        for n in 0..8 {
            assert!(is_taken(&log, "room", &format!("a{n}"), "alice").await, "10: retention makes no room: {quotas:?}");
        }
    }
}
