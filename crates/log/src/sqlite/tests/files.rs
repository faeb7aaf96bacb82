//! The directory and its files: what is opened, migrated and refused, and what outlives a kill.

use super::*;

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
         DROP TABLE erased; DROP TABLE control; DROP TABLE stored; DROP TABLE context_scopes; DROP TABLE context_keys; DROP TABLE context_versions;
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
        refusal(&sql("PRAGMA application_id = 0x53616c6e; PRAGMA user_version = 7; CREATE TABLE newer (a)")),
        "`/log.db` has version 7, but this program knows versions up to 6"
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

/// Whether a file has some bytes.
fn has(path: &std::path::Path, bytes: &[u8]) -> bool {
    std::fs::read(path).is_ok_and(|file| file.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test]
async fn no_file_has_a_text_that_was_redacted() {
    use crate::contract::redaction::{SECRET, redaction};
    let directory = directory();
    let (room, long) = (topic("room:a"), format!("{SECRET} {}", "x".repeat(20_000)));
    let database = directory.0.join(super::super::DATABASE);
    let files = [database.clone(), database.with_extension("db-wal")];
    let has_secret = || files.iter().any(|file| has(file, SECRET.as_bytes()));
    let log = Sqlite::open(&directory.0, quick()).expect("a log");
    let settled = append(&log, &room, line("s1", "alice", &long)).await;
    log.trim_now().await;
    let fresh = append(&log, &room, line("s2", "alice", SECRET)).await;
    assert!(has_secret(), "the test looks at the right files");
    append(&log, &room, redaction("n1", &[&settled, &fresh])).await;
    // Overwriting goes on beside appends.
    while has_secret() {
        log.trim_now().await;
    }
    append(&log, &room, line("e1", "alice", "hello")).await;
    let copy = directory.0.join("copy.db");
    super::super::copy(&directory.0, &copy, |_, _| true).expect("a copy");
    assert!(!has(&copy, SECRET.as_bytes()));
    TopicLog::close(&log).await;
    drop(log);
    assert!(!has_secret());
    let log = Sqlite::open(&directory.0, quick()).expect("the same log");
    let found = log.find(&room, settled.envelope.id()).await.expect("a lookup").expect("a tombstone");
    assert!(found.envelope.is_redacted());
    TopicLog::close(&log).await;
}

#[tokio::test]
async fn a_crash_does_not_keep_a_redacted_text() {
    use crate::contract::redaction::{SECRET, redaction};
    let (directory, copied) = (directory(), directory());
    let room = topic("room:a");
    let log = Sqlite::open(&directory.0, quick()).expect("a log");
    let secret = append(&log, &room, line("s1", "alice", SECRET)).await;
    append(&log, &room, redaction("n1", &[&secret])).await;
    // What a crash right after the notice would leave, or any moment later. A crash leaves both files as they are at one moment, so while they are
    // copied a reader keeps the writer from cutting off the write-ahead log.
    std::fs::create_dir_all(&copied.0).expect("a directory");
    let reader = rusqlite::Connection::open(directory.0.join("log.db")).expect("a reader");
    reader.execute_batch("BEGIN; SELECT count(*) FROM topics").expect("a read transaction");
    for name in ["log.db-wal", "log.db"] {
        std::fs::copy(directory.0.join(name), copied.0.join(name)).expect("a copy");
    }
    drop(reader);
    TopicLog::close(&log).await;
    let log = Sqlite::open(&copied.0, quick()).expect("what the crash has left");
    let found = log.find(&room, secret.envelope.id()).await.expect("a lookup").expect("a tombstone");
    assert!(found.envelope.is_redacted());
    let files = ["log.db", "log.db-wal"].map(|name| copied.0.join(name));
    while files.iter().any(|file| has(file, SECRET.as_bytes())) {
        log.trim_now().await;
    }
    TopicLog::close(&log).await;
}

#[tokio::test]
async fn no_file_has_a_text_of_a_deleted_topic() {
    const SECRET: &str = "swordfish";
    let (directory, copied) = (directory(), directory());
    let (room, long) = (topic("room"), format!("{SECRET} {}", "x".repeat(20_000)));
    let names = ["log.db", "log.db-wal", "search.db", "search.db-wal"];
    let has_secret = |of: &Temporary| names.iter().any(|name| has(&of.0.join(name), SECRET.as_bytes()));
    let log = Sqlite::open(&directory.0, quick()).expect("a log");
    append(&log, &room, line("s1", "alice", &long)).await;
    let (address, write) = writing("plan", &long, "r1");
    log.write(address, write).await.expect("written");
    log.trim_now().await;
    append(&log, &room, line("s2", "alice", SECRET)).await;
    append(&log, &topic("other"), line("e1", "alice", "hello")).await;
    assert!(has_secret(&directory), "the test looks at the right files");
    // Readers keep the files as a crash right after the deletion would leave them, while they are copied.
    let reader = rusqlite::Connection::open(directory.0.join("log.db")).expect("a reader");
    reader.execute_batch("BEGIN; SELECT count(*) FROM topics").expect("a read transaction");
    log.delete(&room, contract::deletion::deletion("d1")).await.expect("deleted");
    std::fs::create_dir_all(&copied.0).expect("a directory");
    for name in ["log.db-wal", "log.db"] {
        std::fs::copy(directory.0.join(name), copied.0.join(name)).expect("a copy");
    }
    drop(reader);
    let crashed = Sqlite::open(&copied.0, quick()).expect("what the crash has left");
    for (log, of) in [(&log, &directory), (&crashed, &copied)] {
        while has_secret(of) {
            log.trim_now().await;
            // The index is brought up to date by a search.
            search_for(log, "hello").await;
        }
        TopicLog::close(log).await;
        assert!(!has_secret(of));
    }
}

async fn search_for(log: &Sqlite, word: &str) {
    use crate::TopicSearch;
    let query = crate::search::SearchQuery::parse(word).expect("a query");
    let topics = log.topics().await.expect("listed");
    let asked = crate::SearchRequest { query, topics, from: None, kind: None, limit: 10, before: None };
    log.search(asked).await.expect("searched");
}
