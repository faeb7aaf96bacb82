mod stored;

use std::collections::HashMap;

use futures_util::StreamExt;
use proptest::prelude::*;
use salon_protocol::FailureCause;

use super::*;
use crate::context::{Address, ContextScope, Key, Write, WriteError};
use crate::contract::{
    self, append, append_lines, asked, caught_up, follow, ids, line, presence, request, start, topic,
};
use crate::{CallClosure, ContextStore, Retention, Tailed, answered_request};

/// A directory for one test, removed at its end.
pub(super) fn directory() -> Temporary {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("salon-log-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::create_dir_all(&path).expect("a directory for temporary files");
    Temporary(path)
}

pub(super) fn quick() -> SqliteOptions {
    SqliteOptions { durability: Durability::Os, ..SqliteOptions::default() }
}

fn rule(age: Option<Duration>, count: Option<u64>) -> RetentionRules {
    RetentionRules { default: Retention { age, count }, topics: HashMap::new() }
}

struct InDirectories(Mutex<HashMap<usize, (Temporary, SqliteOptions)>>, Durability);

impl InDirectories {
    /// A log's address stands for it until it is restarted.
    fn open(&self, directory: Temporary, options: SqliteOptions) -> Sqlite {
        let log = Sqlite::open(&directory.0, options.clone()).expect("a log in an empty directory");
        self.0.lock().insert(Arc::as_ptr(&log.source).addr(), (directory, options));
        log
    }
}

impl contract::LogEngine for InDirectories {
    type Log = Sqlite;

    async fn create(&self, retention: RetentionRules) -> Sqlite {
        contract::LogEngine::create_with(self, retention, StoredQuotas::default()).await
    }

    async fn create_with(&self, retention: RetentionRules, quotas: StoredQuotas) -> Sqlite {
        self.open(directory(), SqliteOptions { durability: self.1, retention, quotas, ..SqliteOptions::default() })
    }

    async fn restart(&self, log: Sqlite) -> Sqlite {
        let kept = self.0.lock().remove(&Arc::as_ptr(&log.source).addr());
        let (directory, options) = kept.expect("made by this engine");
        drop(log);
        self.open(directory, options)
    }

    async fn trim(&self, log: &Sqlite) {
        log.trim_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract() {
    contract::run(&InDirectories(Mutex::default(), Durability::Os)).await;
}

impl contract::context::ContextEngine for InDirectories {
    type Store = Sqlite;

    async fn create(&self) -> Sqlite {
        contract::LogEngine::create(self, RetentionRules::default()).await
    }

    async fn create_with(&self, quotas: StoredQuotas) -> Sqlite {
        contract::LogEngine::create_with(self, RetentionRules::default(), quotas).await
    }

    async fn restart(&self, store: Sqlite) -> Sqlite {
        contract::LogEngine::restart(self, store).await
    }

    async fn close(&self, store: &Sqlite) {
        TopicLog::close(store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract_of_contexts() {
    contract::context::run(&InDirectories(Mutex::default(), Durability::Os)).await;
}

/// A key that everybody in a room has, and something to write to it.
pub(super) fn writing(key: &str, value: &str, cause: &str) -> (Address, Write) {
    let key = Key::new(key).expect("a key");
    let author = ParticipantId::new("alice").expect("an id");
    let write = Write { value: Some(value.into()), expected: None, author, cause: cause.into() };
    (Address { topic: topic("room"), scope: ContextScope::Topic, key }, write)
}

#[tokio::test]
async fn a_log_of_the_first_version_is_migrated() {
    let directory = directory();
    let log = Sqlite::open(&directory.0, quick()).expect("a new log");
    let mut entries = append_lines(&log, &topic("room"), 0..10).await;
    entries.push(append(&log, &topic("room"), presence("j1", "join", "bob")).await);
    entries.push(append(&log, &topic("room"), request("r1", "alice", "bob")).await);
    entries.push(append(&log, &topic("room"), presence("l1", "leave", "bob")).await);
    drop(log);
    let db = rusqlite::Connection::open(directory.0.join(DATABASE)).expect("a database");
    db.execute_batch(
        "ALTER TABLE unanswered DROP COLUMN failed; ALTER TABLE entries DROP COLUMN stamp;
         DROP TABLE stored; DROP TABLE context_scopes; DROP TABLE context_keys; DROP TABLE context_versions;
         DELETE FROM meta WHERE name = 'context_floor'; PRAGMA user_version = 1;",
    )
    .expect("what later versions made can be unmade");
    drop(db);
    let log = Sqlite::open(&directory.0, quick()).expect("a log of the first version");
    let read = log.read(&topic("room"), Span::Newest, 100).await.expect("a read");
    assert_eq!(read, entries);
    let (mode, write) = writing("mode", "1", "1");
    assert_eq!(log.write(mode, write).await.expect("a write").version, 1);
    // The first version did not store which calls have failed; that follows from who is present.
    let standing = log.standing(&topic("room")).await.expect("a standing");
    assert_eq!((standing.waiting.len(), standing.failed.len()), (0, 1));
    // Its caller was told in its time, and must not be told again after every restart.
    assert_eq!(standing.failed[0].at, standing.failed[0].open.offset);
    append(&log, &topic("room"), line("after", "alice", "hello")).await;
    drop(log);
    let log = Sqlite::open(&directory.0, quick()).expect("a log of this version");
    assert_eq!(log.standing(&topic("room")).await.expect("a standing").failed, standing.failed);
    let answer = log.append(&topic("room"), contract::response("a1", "bob", "r1")).await;
    assert_eq!(answer.err(), Some(AppendError::CallEnded(CallClosure::Failed)));
}

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
async fn a_context_is_there_after_the_process_was_killed_and_outlives_the_entries() {
    let (lived, copied) = (directory(), directory());
    let options = SqliteOptions { retention: rule(None, Some(0)), ..SqliteOptions::default() };
    let log = Sqlite::open(&lived.0, options).expect("a new log");
    append_lines(&log, &topic("room"), 0..10).await;
    let (mode, write) = writing("mode", "1", "1");
    log.write(mode.clone(), write).await.expect("a write");
    log.trim_now().await;
    assert_eq!(log.topics().await, Ok(vec![]), "the topic is forgotten");
    for file in ["log.db", "log.db-wal"] {
        fs::copy(lived.0.join(file), copied.0.join(file)).expect("a copy of an open file");
    }
    let copy = Sqlite::open(&copied.0, quick()).expect("a log that was not closed");
    let kept = copy.get(&mode, None).await.expect("a read").expect("it is there");
    assert_eq!((kept.number, kept.value.as_deref()), (1, Some("1")));
}

#[tokio::test]
async fn a_full_disk_stops_contexts_and_entries_alike() {
    let directory = directory();
    let long = "x".repeat(60_000);
    let mut acknowledged = 0;
    {
        let options = SqliteOptions { max_pages: Some(200), ..SqliteOptions::default() };
        let log = Sqlite::open(&directory.0, options).expect("a new log");
        let writes: Vec<_> = (1..=90)
            .map(|n| {
                let (mode, write) = writing("mode", &format!("{long}{n}"), &n.to_string());
                log.write(mode, write)
            })
            .collect();
        let mut refused = 0;
        for write in writes {
            match write.await {
                Ok(written) => {
                    assert_eq!(refused, 0, "something was acknowledged after something was refused");
                    acknowledged = written.version;
                }
                Err(error) => {
                    assert_eq!(error, WriteError::Stopped("the disk is full".into()));
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "the disk was not full");
        let late = log.append(&topic("room"), line("late", "alice", "hello")).await.map(|appended| appended.entry);
        assert_eq!(late, Err(AppendError::Stopped("the disk is full".into())));
    }
    let log = Sqlite::open(&directory.0, quick()).expect("a log on a disk with room");
    let (mode, _) = writing("mode", "", "");
    let newest = log.get(&mode, None).await.expect("a read").map_or(0, |version| version.number);
    assert_eq!(newest, acknowledged, "exactly what was acknowledged is there");
}

#[tokio::test]
async fn everything_is_there_after_the_process_was_killed() {
    for durability in [Durability::Full, Durability::Os] {
        let (lived, copied) = (directory(), directory());
        let log = Sqlite::open(&lived.0, SqliteOptions { durability, ..SqliteOptions::default() }).expect("a new log");
        let (room, other) = (topic("room"), topic("other"));
        let mut expected = append_lines(&log, &room, 0..100).await;
        log.trim_now().await;
        expected.extend(append_lines(&log, &room, 100..150).await);
        append(&log, &other, presence("j1", "join", "alice")).await;
        let standing = log.standing(&other).await.expect("a standing");
        // What a killed process leaves is what the operating system has of its files.
        for file in ["log.db", "log.db-wal"] {
            fs::copy(lived.0.join(file), copied.0.join(file)).expect("a copy of an open file");
        }
        let copy = Sqlite::open(&copied.0, quick()).expect("a log that was not closed");
        let read = copy.read(&room, Span::Newest, 1000).await.expect("a read");
        assert_eq!(read, expected);
        let after = copy.standing(&other).await.expect("a standing");
        assert_eq!((after.head, after.present), (standing.head, standing.present));
        let next = append(&copy, &room, line("next", "alice", "hello")).await;
        assert_eq!(next.position.offset, 151);
    }
}

#[test]
fn files_that_are_no_log_are_refused() {
    let refusal = |prepare: &dyn Fn(&Path)| {
        let directory = directory();
        prepare(&directory.0.join(DATABASE));
        let refused = Sqlite::open(&directory.0, quick()).err().expect("a refusal");
        refused.to_string().replace(&directory.0.display().to_string(), "")
    };
    let sql = |text: &'static str| {
        move |path: &Path| {
            let db = rusqlite::Connection::open(path).expect("a database");
            db.execute_batch(text).expect("good SQL");
        }
    };
    assert_eq!(
        refusal(&|path| fs::write(path, "to be or not to be, ".repeat(500)).expect("a file")),
        "`/log.db` is not a database"
    );
    assert_eq!(refusal(&sql("CREATE TABLE theirs (a)")), "`/log.db` is a database, but not a log of ours");
    assert_eq!(
        refusal(&sql("PRAGMA application_id = 0x53616c6e; PRAGMA user_version = 5; CREATE TABLE newer (a)")),
        "`/log.db` has version 5, but this program knows versions up to 4"
    );
    assert_eq!(
        refusal(&|path| {
            drop(Sqlite::open(path.parent().expect("a directory"), quick()).expect("a new log"));
            sql("INSERT INTO journal VALUES (1, x'0102')")(path);
        }),
        "the database `/log.db` is damaged: a row of the journal is damaged"
    );
}

#[tokio::test]
async fn a_log_in_use_is_refused() {
    let directory = directory();
    let log = Sqlite::open(&directory.0, quick()).expect("a new log");
    let second = Sqlite::open(&directory.0, quick()).err().expect("a refusal");
    assert!(matches!(second, OpenError::InUse { .. }), "{second}");
    log.close().await;
    Sqlite::open(&directory.0, quick()).expect("a closed log is free, though not dropped");
}

#[tokio::test]
async fn a_temporary_log_removes_its_directory() {
    let directory = directory();
    let path = directory.0.clone();
    let log = Sqlite::start(&path, quick(), Some(directory)).expect("a temporary log");
    append_lines(&log, &topic("room"), 0..10).await;
    assert!(path.join(DATABASE).exists());
    log.close().await;
    assert!(!path.exists());
}

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

#[tokio::test]
async fn a_full_disk_stops_the_log_and_keeps_what_was_acknowledged() {
    let directory = directory();
    let room = topic("room");
    let mut acknowledged = Vec::new();
    {
        let options = SqliteOptions { max_pages: Some(200), ..SqliteOptions::default() };
        let log = Sqlite::open(&directory.0, options).expect("a new log");
        let mut health = log.health();
        let long = "x".repeat(1000);
        let appends: Vec<_> = (0..2000).map(|n| log.append(&room, line(&format!("e{n}"), "alice", &long))).collect();
        let mut refused = 0;
        for append in appends {
            match append.await {
                Ok(appended) => {
                    assert_eq!(refused, 0, "something was acknowledged after something was refused");
                    acknowledged.push(appended.entry);
                }
                Err(error) => {
                    assert_eq!(error, AppendError::Stopped("the disk is full".into()));
                    refused += 1;
                }
            }
            if acknowledged.len() == 300 {
                log.trim_now().await;
            }
        }
        assert!(refused > 0, "the disk was not full");
        let stopped = LogHealth::Stopped("the disk is full".into());
        assert_eq!(*health.wait_for(|health| *health != LogHealth::Writable).await.expect("the log is open"), stopped);
        let late = log.append(&room, line("late", "alice", "hello")).await.map(|appended| appended.entry);
        assert_eq!(late, Err(AppendError::Stopped("the disk is full".into())));
        let read = log.read(&room, Span::Newest, 5000).await.expect("what is there can still be read");
        assert_eq!(ids(&read), ids(&acknowledged));
        log.trim_now().await;
        log.close().await;
    }
    let log = Sqlite::open(&directory.0, quick()).expect("a log on a disk with room");
    let read = log.read(&room, Span::Newest, 5000).await.expect("a read");
    assert_eq!(ids(&read), ids(&acknowledged), "exactly what was acknowledged is there");
    append(&log, &room, line("late", "alice", "hello")).await;
}

#[tokio::test]
async fn a_tail_that_fell_out_of_its_line_reads_and_rejoins() {
    let log = Sqlite::temporary(quick()).expect("a temporary log");
    let room = topic("room");
    let mut tail = log.tail(&room, start(&log, &room).await);
    let long = "x".repeat(1 << 20);
    // The tail is live when these come, and is asked for none of them: their bytes do not fit its line.
    append_lines(&log, &room, 0..1).await;
    follow(&mut tail, 1).await;
    caught_up(&mut tail);
    for n in 1..9 {
        append(&log, &room, line(&format!("e{n}"), "alice", &long)).await;
    }
    log.trim_now().await;
    let Some(Ok(Tailed::Entries(page))) = tail.next().await else { panic!("a tail goes on") };
    assert!(page.len() < 8, "a page is bounded by its bytes");
    let rest = follow(&mut tail, 8 - page.len()).await;
    assert_eq!(ids(page.iter().chain(&rest)), (1..9).map(|n| format!("e{n}")).collect::<Vec<_>>());
    append_lines(&log, &room, 9..12).await;
    assert_eq!(ids(&follow(&mut tail, 3).await), ["e9", "e10", "e11"]);
}

#[tokio::test]
async fn dropping_a_tail_frees_its_line() {
    let log = Sqlite::temporary(quick()).expect("a temporary log");
    let room = topic("room");
    let begin = start(&log, &room).await;
    let tails: Vec<_> = (0..3).map(|_| log.tail(&room, begin)).collect();
    assert_eq!(log.source.hub.count(&room), 3);
    drop(tails);
    assert_eq!(log.source.hub.count(&room), 0);
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

#[derive(Debug, Clone)]
enum Step {
    Append { topic: usize, id: usize, text: usize },
    Join { topic: usize, who: usize },
    Leave { topic: usize, who: usize },
    Ask { topic: usize },
    Answer { topic: usize, request: usize },
    Trim,
    Reopen,
    Read { topic: usize, back: usize, limit: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let topic = 0..3usize;
    prop_oneof![
        8 => (topic.clone(), 0..60usize, 0..2usize).prop_map(|(topic, id, text)| Step::Append { topic, id, text }),
        2 => (topic.clone(), 0..3usize).prop_map(|(topic, who)| Step::Join { topic, who }),
        1 => (topic.clone(), 0..3usize).prop_map(|(topic, who)| Step::Leave { topic, who }),
        2 => topic.clone().prop_map(|topic| Step::Ask { topic }),
        2 => (topic.clone(), 0..5usize).prop_map(|(topic, request)| Step::Answer { topic, request }),
        1 => Just(Step::Trim),
        1 => Just(Step::Reopen),
        4 => (topic, 0..12usize, 0..12usize).prop_map(|(topic, back, limit)| Step::Read { topic, back, limit }),
    ]
}

/// Below the reserve nothing is stored, everything can be read, and it goes on by itself once there is room.
#[tokio::test]
async fn a_disk_that_is_nearly_full_makes_the_log_read_only() {
    let free = Arc::new(AtomicU64::new(1 << 30));
    let options = SqliteOptions { disk_reserve: 1 << 20, free_space: Some(free.clone()), ..quick() };
    let log = Sqlite::temporary(options).expect("a log");
    let mut health = log.health();
    let topic = topic("room:a");
    log.append(&topic, line("e1", "alice", "hello")).await.expect("there is room");

    free.store(1 << 19, Ordering::SeqCst);
    let refused = log.append(&topic, line("e2", "alice", "hello")).await.expect_err("too little is left");
    assert!(matches!(&refused, AppendError::ReadOnly(reason) if reason.contains("524288 bytes left")), "{refused:?}");
    drop(health.wait_for(|health| matches!(health, LogHealth::ReadOnly(_))).await.expect("the log is open"));
    let kept = log.read(&topic, Span::Newest, 10).await.expect("it can be read");
    assert_eq!(ids(&kept), ["e1"], "what was refused was not stored");

    free.store((1 << 20) + 1, Ordering::SeqCst);
    assert!(
        log.append(&topic, line("early", "alice", "hello")).await.is_err(),
        "a little more than the reserve is wanted"
    );
    free.store(1 << 21, Ordering::SeqCst);
    drop(health.wait_for(|health| *health == LogHealth::Writable).await.expect("the log is open"));
    log.append(&topic, line("late", "alice", "hello")).await.expect("there is room again");
}

/// A gateway that starts on a full disk says so at once.
#[tokio::test]
async fn a_log_that_is_opened_on_a_full_disk_is_read_only() {
    let options = SqliteOptions { disk_reserve: 1 << 20, free_space: Some(Arc::new(AtomicU64::new(0))), ..quick() };
    let log = Sqlite::temporary(options).expect("a log");
    assert!(matches!(&*log.health().borrow(), LogHealth::ReadOnly(_)));
}

/// A topic as a list. Its folds are computed again each time, over everything there ever was.
#[derive(Default)]
struct Model {
    ever: Vec<Arc<Entry>>,
    trimmed: usize,
}

impl Model {
    fn kept(&self) -> &[Arc<Entry>] {
        &self.ever[self.trimmed..]
    }

    fn present(&self) -> Vec<String> {
        let mut present: Vec<(String, String)> = Vec::new();
        for entry in &self.ever {
            let Some(event) = entry.envelope.presence() else { continue };
            present.retain(|(who, _)| who != event.participant.id.as_str());
            if event.event == salon_protocol::PresenceEvent::Join {
                present.push((event.participant.id.to_string(), entry.envelope.id().to_string()));
            }
        }
        present.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether somebody leaves who is not present.
    fn is_absent(&self, envelope: &Envelope) -> bool {
        let event = |envelope: &Envelope| envelope.presence().map(|said| (said.participant.id, said.event));
        let Some((who, salon_protocol::PresenceEvent::Leave)) = event(envelope) else { return false };
        let mut before = self.ever.iter().rev().filter_map(|entry| event(&entry.envelope));
        !before.find(|(other, _)| *other == who).is_some_and(|(_, said)| said == salon_protocol::PresenceEvent::Join)
    }

    fn waiting(&self) -> Vec<String> {
        let asks = self.kept().iter().filter(|entry| entry.envelope.id().as_str().starts_with("ask"));
        ids(asks.filter(|ask| self.end_of(ask.envelope.id()).is_none()))
    }

    /// Why a request to `p0` does not wait for an answer, found by reading everything once more.
    fn end_of(&self, request: &EnvelopeId) -> Option<CallClosure> {
        let at = self.ever.iter().rposition(|entry| entry.envelope.id() == request).expect("it was asked");
        let event = |entry: &Arc<Entry>| {
            entry.envelope.presence().filter(|said| said.participant.id.as_str() == "p0").map(|said| said.event)
        };
        if self.ever[..at].iter().rev().find_map(event) != Some(salon_protocol::PresenceEvent::Join) {
            return Some(CallClosure::Failed);
        }
        self.ever[at..].iter().find_map(|entry| match event(entry) {
            Some(_) => Some(CallClosure::Failed),
            None if entry.envelope.correlation() == Some(request) => Some(CallClosure::Answered),
            None => None,
        })
    }
}

async fn agree(steps: Vec<Step>) {
    const KEEP: usize = 10;
    let directory = directory();
    let options = SqliteOptions { retention: rule(None, Some(KEEP as u64)), ..quick() };
    let mut log = Sqlite::open(&directory.0, options.clone()).expect("a new log");
    let topics = [topic("a"), topic("b"), topic("c")];
    let mut models: [Model; 3] = Default::default();
    for (serial, step) in steps.into_iter().enumerate() {
        let mut store = None;
        match step {
            Step::Append { topic, id, text } => {
                store = Some((topic, line(&format!("e{id}"), "alice", &format!("text {text}"))));
            }
            Step::Join { topic, who } => {
                store = Some((topic, presence(&format!("join{serial}"), "join", &format!("p{who}"))));
            }
            Step::Leave { topic, who } => {
                store = Some((topic, presence(&format!("leave{serial}"), "leave", &format!("p{who}"))));
            }
            Step::Ask { topic } => store = Some((topic, request(&format!("ask{serial}"), "alice", "p0"))),
            Step::Answer { topic, request } => {
                let mut asked =
                    models[topic].kept().iter().rev().filter(|e| e.envelope.id().as_str().starts_with("ask"));
                if let Some(ask) = asked.nth(request) {
                    let to = ask.envelope.id().as_str();
                    store = Some((topic, contract::response(&format!("answer{serial}"), "p0", to)));
                }
            }
            Step::Trim => {
                log.trim_now().await;
                for model in &mut models {
                    model.trimmed = model.trimmed.max(model.ever.len().saturating_sub(KEEP));
                }
            }
            Step::Reopen => {
                log.close().await;
                log = Sqlite::open(&directory.0, options.clone()).expect("a log that was closed");
                // Opening begins with a sweep, which must be over before the model is compared with it.
                log.trim_now().await;
                for model in &mut models {
                    model.trimmed = model.trimmed.max(model.ever.len().saturating_sub(KEEP));
                }
            }
            Step::Read { topic, back, limit } => {
                let (name, model) = (&topics[topic], &models[topic]);
                let kept = model.kept();
                let newest = log.read(name, Span::Newest, limit).await.expect("a read");
                assert_eq!(newest, kept[kept.len().saturating_sub(limit)..]);
                if let Some(at) = model.ever.len().checked_sub(back + 1) {
                    let position = model.ever[at].position;
                    let after = log.read(name, Span::After(position), limit).await;
                    if at + 1 < model.trimmed {
                        let resume = model.ever[model.trimmed - 1].position;
                        assert_eq!(after, Err(ReadError::Gap { resume }));
                    } else {
                        let rest = &model.ever[at + 1..];
                        assert_eq!(after.expect("no gap"), rest[..limit.min(rest.len())]);
                    }
                    let before = &model.ever[model.trimmed.min(at)..at];
                    let expected = &before[before.len().saturating_sub(limit)..];
                    assert_eq!(log.read(name, Span::Before(position), limit).await.expect("a read"), expected);
                }
                let standing = log.standing(name).await.expect("a standing");
                assert_eq!((ids(&standing.present), asked(&standing.waiting)), (model.present(), model.waiting()));
            }
        }
        let Some((topic, envelope)) = store else { continue };
        let model = &mut models[topic];
        let topic_states = model.kept().iter().find(|entry| entry.envelope.id() == envelope.id()).cloned();
        let outcome = log.append(&topics[topic], envelope.clone()).await.map(|a| (a.entry, a.repeated));
        let ended = answered_request(&envelope).and_then(|request| model.end_of(request)).map(AppendError::CallEnded);
        let refused = ended.or_else(|| model.is_absent(&envelope).then_some(AppendError::NotPresent));
        match topic_states {
            None if refused.is_some() => assert_eq!(outcome.err(), refused),
            None => {
                let (entry, repeated) = outcome.expect("a new id");
                assert_eq!((&entry.envelope, repeated), (&envelope, false));
                model.ever.push(entry);
            }
            Some(first) if first.envelope == envelope => assert_eq!(outcome, Ok((first, true))),
            Some(_) => assert_eq!(outcome, Err(AppendError::IdConflict)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_steps_agrees_with_a_list(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(agree(steps));
    }
}
