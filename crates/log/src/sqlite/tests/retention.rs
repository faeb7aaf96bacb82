//! What retention removes, and what it leaves behind.

use super::*;

#[tokio::test]
async fn age_and_count_are_looked_at_topic_by_topic() {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let mut retention = rule(Some(Duration::from_secs(60)), None);
    retention.topics.insert(topic("short"), Retention { age: None, count: Some(4) });
    retention.topics.insert(topic("forever"), Retention { age: None, count: None });
    let log =
        Sqlite::temporary(SqliteOptions { retention, clock: Some(clock.clone()), ..quick() }).expect("a temporary log");
    let names = ["room", "short", "forever"];
    for minute in 0..3 {
        for name in names {
            append_lines(&log, &topic(name), minute * 1000..minute * 1000 + 600).await;
        }
        clock.fetch_add(45_000, Ordering::SeqCst);
    }
    log.trim_now().await;
    let mut kept = Vec::new();
    for name in names {
        kept.push(log.read(&topic(name), Span::Newest, 10_000).await.expect("a read").len());
    }
    // Of `room`: 135 and 90 seconds old are gone, 45 are not.
    assert_eq!(kept, [600, 4, 1800]);
}

#[tokio::test]
async fn a_clock_that_goes_back_does_not_take_arrivals_with_it() {
    let clock = Arc::new(AtomicU64::new(5000));
    let log = Sqlite::temporary(SqliteOptions { clock: Some(clock.clone()), ..quick() }).expect("a temporary log");
    let room = topic("room");
    append(&log, &room, line("e1", "alice", "hello")).await;
    clock.store(3000, Ordering::SeqCst);
    assert_eq!(append(&log, &room, line("e2", "alice", "hello")).await.arrived, Timestamp(5000));
}

#[tokio::test]
async fn a_forgotten_topic_leaves_a_gap_behind() {
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let retention = rule(Some(Duration::from_secs(1)), None);
    let log =
        Sqlite::temporary(SqliteOptions { retention, clock: Some(clock.clone()), ..quick() }).expect("a temporary log");
    let (room, held) = (topic("room"), topic("held"));
    let old = append_lines(&log, &room, 0..20).await;
    append(&log, &held, presence("j1", "join", "alice")).await;
    clock.fetch_add(10_000, Ordering::SeqCst);
    log.trim_now().await;
    let listed = log.topics().await.expect("a list");
    let listed: Vec<_> = listed.iter().map(|topic| (topic.name.as_str(), topic.entries)).collect();
    assert_eq!(listed, [("held", 0)], "somebody is present in the one and not in the other");

    let again = append(&log, &room, line("e0", "bob", "new")).await;
    assert_eq!(old[19].position.in_order(again.position), Some(true), "no position is given out twice");
    let before = Position { offset: again.position.offset - 1, ..again.position };
    for from in [Position::start(again.position.epoch), old[10].position] {
        assert_eq!(log.read(&room, Span::After(from), 10).await, Err(ReadError::Gap { resume: before }));
    }
    assert_eq!(log.read(&room, Span::After(before), 10).await, Ok(vec![again]));
}
