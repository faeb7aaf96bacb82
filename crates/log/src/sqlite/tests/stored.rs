//! How many bytes are stored, as the database counts them.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use salon_protocol::ParticipantId;

use super::{directory, quick};
use crate::context::{Address, ContextScope, Key, Write};
use crate::contract::{append, line, presence, topic};
use crate::sqlite::{DATABASE, Sqlite, SqliteOptions};
use crate::{AppendError, ContextStore, QuotaExceeded, QuotaScope, Retention, RetentionRules, StoredQuotas, TopicLog};

/// Topic, author and bytes.
type StoredRows = Vec<(String, String, u64)>;

/// What the rows say, and what is there.
fn counted(directory: &Path) -> (StoredRows, StoredRows) {
    let db = Connection::open(directory.join(DATABASE)).expect("a database");
    let rows = |query: &str| -> StoredRows {
        let mut query = db.prepare(query).expect("a query");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
        rows.collect::<rusqlite::Result<_>>().expect("rows")
    };
    let counted = rows("SELECT topic, author, bytes FROM stored WHERE bytes > 0 ORDER BY topic, author");
    let found = rows(
        "SELECT name, text ->> '$.from' AS author, sum(octet_length(text)) FROM entries JOIN topics USING (topic) GROUP BY 1, 2
         UNION ALL SELECT topic, '', sum(octet_length(value)) FROM context_versions
         JOIN context_keys USING (slot) JOIN context_scopes USING (scope) GROUP BY topic ORDER BY 1, 2",
    );
    (counted, found)
}

async fn put(log: &Sqlite, key: &str, value: &str, cause: usize) {
    let address = Address { topic: topic("room"), scope: ContextScope::Topic, key: Key::new(key).expect("a key") };
    let author = ParticipantId::new("alice").expect("an id");
    let write =
        Write { value: Some(value.into()), expected: None, author, cause: cause.to_string().into(), requested: None };
    log.write(address, write).await.expect("a write");
}

#[tokio::test]
async fn rows_say_what_is_there() {
    let directory = directory();
    let retention = Retention { age: None, count: Some(5) };
    let retention = RetentionRules { default: retention, ..RetentionRules::default() };
    let log = Sqlite::open(&directory.0, SqliteOptions { retention, ..quick() }).expect("a log");
    for number in 0..20 {
        append(&log, &topic("room"), line(&format!("a{number}"), "alice", "h\u{e9}llo")).await;
        append(&log, &topic("room"), line(&format!("b{number}"), "bob", "hello, hello")).await;
        append(&log, &topic(&format!("room{number}")), presence("j", "join", "alice")).await;
        if number == 10 {
            log.trim_now().await;
        }
    }
    for number in 0..120 {
        put(&log, "k", &"x".repeat(number), number).await;
    }
    log.trim_now().await;
    put(&log, "other", "value", 0).await;
    append(&log, &topic("room"), line("last", "carol", "hello")).await;
    drop(log);
    let (counted, found) = counted(&directory.0);
    assert_eq!(counted, found);
    assert_eq!(counted[0].1, "", "the context is among them");
}

#[tokio::test]
async fn counts_are_there_after_the_process_was_killed() {
    let (lived, copied) = (directory(), directory());
    let log = Sqlite::open(&lived.0, quick()).expect("a log");
    append(&log, &topic("room"), line("e1", "alice", &"x".repeat(1000))).await;
    log.trim_now().await;
    append(&log, &topic("room"), line("e2", "alice", &"x".repeat(1000))).await;
    for file in ["log.db", "log.db-wal"] {
        fs::copy(lived.0.join(file), copied.0.join(file)).expect("a copy of an open file");
    }
    for (quotas, scope) in [
        (StoredQuotas { participant: 3000, ..StoredQuotas::default() }, QuotaScope::Participant),
        (StoredQuotas { topic: 3000, ..StoredQuotas::default() }, QuotaScope::Topic),
        (StoredQuotas { gateway: 3000, ..StoredQuotas::default() }, QuotaScope::Gateway),
    ] {
        let log = Sqlite::open(&copied.0, SqliteOptions { quotas, ..quick() }).expect("a log");
        let refused = log.append(&topic("room"), line("e3", "alice", &"x".repeat(1000))).await;
        let exceeded = QuotaExceeded { scope, limit: 3000 };
        assert_eq!(refused.map(|appended| appended.entry), Err(AppendError::Quota(exceeded)));
    }
}

#[tokio::test]
async fn entries_of_an_earlier_version_are_counted() {
    let directory = directory();
    let log = Sqlite::open(&directory.0, quick()).expect("a log");
    append(&log, &topic("room"), line("e1", "alice", "hello")).await;
    append(&log, &topic("room"), line("e2", "bob", "hello")).await;
    put(&log, "k", "value", 0).await;
    drop(log);
    let db = Connection::open(directory.0.join(DATABASE)).expect("a database");
    db.execute_batch("DROP TABLE erased; DROP TABLE control; DROP TABLE stored; PRAGMA user_version = 3;")
        .expect("an earlier version");
    drop(db);
    drop(Sqlite::open(&directory.0, quick()).expect("it is migrated"));
    let (counted, found) = counted(&directory.0);
    assert_eq!((counted.len(), counted), (3, found));
}
