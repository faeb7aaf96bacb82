//! Calls: why they failed, and when they ended.

use super::*;

#[tokio::test]
async fn why_a_call_failed_is_known_after_a_restart() {
    let (directory, room) = (directory(), topic("room"));
    let log = Sqlite::open(&directory.0, quick()).expect("a new log");
    append(&log, &room, presence("j1", "join", "bob")).await;
    append(&log, &room, presence("j2", "join", "carol")).await;
    append(&log, &room, request("r0", "alice", "carol")).await;
    append(&log, &room, presence("l1", "leave", "carol")).await;
    let calls: Vec<_> = (1..=2001).map(|n| log.append(&room, request(&format!("r{n}"), "alice", "bob"))).collect();
    for call in calls {
        call.await.expect("stored");
    }
    let before = log.standing(&room).await.expect("a standing").failed;
    drop(log);
    let log = Sqlite::open(&directory.0, quick()).expect("the same log");
    let after = log.standing(&room).await.expect("a standing").failed;
    assert_eq!(after, before);
    let causes: Vec<_> = after.iter().map(|call| (call.open.request.as_str(), call.cause)).collect();
    assert_eq!(causes, [("r0", FailureCause::CalleeLeft), ("r1", FailureCause::TooManyWaiting)]);
}

#[tokio::test]
async fn a_call_whose_request_is_not_kept_leaves_nothing_behind() {
    let (directory, room) = (directory(), topic("room"));
    let options = SqliteOptions { retention: rule(None, Some(2)), ..quick() };
    let log = Sqlite::open(&directory.0, options).expect("a new log");
    append(&log, &room, presence("j1", "join", "bob")).await;
    append(&log, &room, request("r1", "alice", "bob")).await;
    append_lines(&log, &room, 0..5).await;
    log.trim_now().await;
    append(&log, &room, presence("l1", "leave", "bob")).await;
    log.trim_now().await;
    drop(log);
    let db = rusqlite::Connection::open(directory.0.join(DATABASE)).expect("a database");
    let orphans = "SELECT count(*) FROM unanswered WHERE key NOT IN (SELECT key FROM entries)";
    assert_eq!(db.query_row(orphans, [], |row| row.get::<_, i64>(0)).expect("a count"), 0);
}

#[tokio::test]
async fn settling_between_two_looks_neither_doubles_nor_hides() {
    let log = Sqlite::temporary(quick()).expect("a temporary log");
    let room = topic("room");
    let begin = start(&log, &room).await;
    append(&log, &room, presence("j1", "join", "alice")).await;
    append(&log, &room, presence("j2", "join", "bob")).await;
    append(&log, &room, request("r1", "alice", "bob")).await;
    log.trim_now().await;
    append(&log, &room, presence("l1", "leave", "alice")).await;
    append(&log, &room, contract::response("a1", "bob", "r1")).await;
    let last = append(&log, &room, request("r2", "alice", "bob")).await;

    // Every reader is kept busy while the questions look at what is fresh and then wait for their turn at the database.
    let (release, held): (Vec<_>, Vec<_>) = (0..READERS)
        .map(|_| {
            let (release, released) = std::sync::mpsc::channel::<()>();
            (release, log.source.ask(move |_| Ok(released.recv().is_err())))
        })
        .unzip();
    let after = log.read(&room, Span::After(begin), 10);
    let newest = log.read(&room, Span::Newest, 10);
    let before = log.read(&room, Span::Before(last.position), 10);
    let (standing, topics) = (log.standing(&room), log.topics());
    let found = log.find(&room, &EnvelopeId::new("r1").expect("an id"));
    log.trim_now().await;
    drop(release);
    for held in held {
        assert_eq!(held.await, Ok(true));
    }

    assert_eq!(ids(&after.await.expect("a read")), ["j1", "j2", "r1", "l1", "a1", "r2"]);
    assert_eq!(ids(&newest.await.expect("a read")), ["j1", "j2", "r1", "l1", "a1", "r2"]);
    assert_eq!(ids(&before.await.expect("a read")), ["j1", "j2", "r1", "l1", "a1"]);
    let standing = standing.await.expect("a standing");
    assert_eq!(
        (standing.head, ids(&standing.present), asked(&standing.waiting)),
        (last.position, vec!["j2".into()], vec!["r2".into()])
    );
    assert_eq!(topics.await.expect("a list")[0].entries, 6);
    assert_eq!(found.await.expect("a search").expect("it is there").envelope.id().as_str(), "r1");
}
