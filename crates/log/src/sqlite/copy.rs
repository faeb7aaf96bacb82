//! Copying a log that may be in use, and checking a copy before it is used.
//!
//! A copy is made of the database's pages, within one read transaction: it is the log as it was at one moment, and the process that
//! has the log open neither waits nor notices. Deliberately absent: `VACUUM INTO`, which may renumber rows, and everything in a data
//! directory that is not the log.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{DATABASE, FILES_DATABASE, OpenError, journal, schema, settled};

/// How many pages are copied between two reports of progress: 4 MiB.
const STEP_PAGES: i32 = 1024;

/// What a copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSummary {
    /// The version of the database's tables.
    pub version: i64,
    /// How many topics there are.
    pub topics: u64,
    /// How many entries they have, together.
    pub entries: u64,
    /// How many keys of contexts have a value.
    pub context_keys: u64,
}

/// Why a log was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The log or the copy could not be opened, read or written.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// `progress` said so.
    #[error("the copy was cancelled")]
    Cancelled,
}

/// Copies the log in a directory, whether or not a process has it open, to a file that must not exist yet. Everything acknowledged
/// before the call is in the copy. `progress` is called with the bytes done and the bytes in total, and may end the copy with `false`.
pub fn copy(directory: &Path, target: &Path, progress: impl FnMut(u64, u64) -> bool) -> Result<LogSummary, CopyError> {
    copy_pages(directory, target, progress)?;
    Ok(summarize(target)?)
}

/// Copies the files in a directory the same way, where it has any; whether it has.
pub fn copy_files(directory: &Path, target: &Path, progress: impl FnMut(u64, u64) -> bool) -> Result<bool, CopyError> {
    let source = directory.join(FILES_DATABASE);
    if !source.exists() {
        return Ok(false);
    }
    let from = schema::open_reader(&source)?;
    copy_database(&source, from, target, progress)?;
    Ok(true)
}

/// Copies the log without checking it.
fn copy_pages(directory: &Path, target: &Path, progress: impl FnMut(u64, u64) -> bool) -> Result<(), CopyError> {
    let source = directory.join(DATABASE);
    let from = schema::open_reader(&source)?;
    schema::identify(&from, &source)?;
    copy_database(&source, from, target, progress)
}

/// Copies a database. The read transaction ends with this function: while it is open, the write-ahead log only grows.
fn copy_database(
    source: &Path,
    from: Connection,
    target: &Path,
    mut progress: impl FnMut(u64, u64) -> bool,
) -> Result<(), CopyError> {
    let reading = |error| schema::refine(source, error);
    let writing = |error| schema::refine(target, error);
    // The first read begins the transaction, and the backup goes on within it: without one it would start over at every commit.
    from.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(reading)?;
    // Exclusive: a file or a symbolic link that somebody else put there is neither written to nor followed.
    let created = File::options().write(true).create_new(true).mode(0o600).open(target);
    created.map_err(|error| OpenError::Files { path: target.into(), source: error })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut to = Connection::open_with_flags(target, flags).map_err(writing)?;
    // The copy is thrown away when it does not come to its end.
    to.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF").map_err(writing)?;
    {
        let backup = Backup::new(&from, &mut to).map_err(writing)?;
        while step(&backup).map_err(writing)? == StepResult::More {
            let now = backup.progress();
            let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * schema::PAGE;
            if !progress(bytes(now.pagecount - now.remaining), bytes(now.pagecount)) {
                return Err(CopyError::Cancelled);
            }
        }
    }
    drop(from);
    // A log is in two files while it is written to; a copy is in one.
    to.execute_batch("PRAGMA journal_mode = DELETE").map_err(writing)?;
    Ok(())
}

/// One step. In a write-ahead log nobody keeps a reader waiting, so a lock is an error like others.
fn step(backup: &Backup<'_, '_>) -> rusqlite::Result<StepResult> {
    match backup.step(STEP_PAGES)? {
        StepResult::Busy => Err(locked(ErrorCode::DatabaseBusy)),
        StepResult::Locked => Err(locked(ErrorCode::DatabaseLocked)),
        other => Ok(other),
    }
}

fn locked(code: ErrorCode) -> rusqlite::Error {
    let told = "another process has locked the database".to_owned();
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error { code, extended_code: 0 }, Some(told))
}

/// The newest version of the database's tables that this program knows.
pub fn known_version() -> i64 {
    schema::KNOWN_VERSION
}

/// Checks a copy and counts what is in it. Refuses what is damaged, what a newer version has made, and what is not a log.
pub fn summarize(path: &Path) -> Result<LogSummary, OpenError> {
    let failed = |error| schema::refine(path, error);
    let damaged = |what: String| OpenError::Damaged { path: path.into(), what };
    let db = schema::open_reader(path)?;
    // The file may come from anywhere: what it defines must not be run.
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON").map_err(failed)?;
    let (application, version) = schema::marks(&db, path)?;
    schema::recognize(application, version, path)?;
    let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if verdict != "ok" {
        return Err(damaged(verdict));
    }
    let count = |query: &str| db.query_row(query, [], |row| row.get::<_, u64>(0)).map_err(failed);
    if count("SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index')")? > 0 {
        return Err(damaged("it has triggers or views, which no log has".into()));
    }
    let epoch = schema::epoch(&db).map_err(failed)?;
    let mut entries = count("SELECT count(*) FROM entries")?;
    let mut heads = HashMap::new();
    let mut rows = db.prepare("SELECT entries FROM journal").map_err(failed)?;
    let mut rows = rows.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let row = row.get_ref(0).map_err(failed)?.as_blob().map_err(|error| failed(error.into()))?;
        for (topic, entry) in journal::read(row, epoch).map_err(|fault| damaged(fault.to_string()))? {
            let known = match heads.entry(topic) {
                Slot::Occupied(known) => *known.get(),
                Slot::Vacant(unknown) => {
                    let found = settled::name_and_head(&db, topic).map_err(|fault| damaged(fault.to_string()))?;
                    *unknown.insert(found.map(|(_, head)| head))
                }
            };
            // The journal still has entries that are settled already.
            entries += u64::from(known.is_some_and(|head| entry.position.offset > head));
        }
    }
    let context_keys = match version {
        ..=1 => 0,
        _ => count("SELECT count(*) FROM context_keys WHERE deleted IS NULL")?,
    };
    Ok(LogSummary { version, topics: count("SELECT count(*) FROM topics")?, entries, context_keys })
}

/// Gives a copy that is about to replace a log an epoch of its own. Offsets that the log gave out after the copy was made are given
/// out once more, to other entries; the epoch tells their positions apart.
pub fn renew_epoch(path: &Path) -> Result<(), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags);
    db.and_then(|db| schema::renew_epoch(&db)).map_err(|error| schema::refine(path, error))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use salon_protocol::Stamp;

    use super::super::tests::{directory, quick, writing};
    use super::super::{Sqlite, SqliteOptions};
    use super::*;
    use crate::contract::{append, ids, line, topic};
    use crate::{ContextStore, ReadError, Span, TopicLog};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_of_a_log_in_use_is_the_log_of_one_moment() {
        let (data, elsewhere) = (directory(), directory());
        let target = elsewhere.0.join("copy.db");
        let log = Sqlite::open(&data.0, quick()).expect("opened");
        // Long enough for several steps.
        let long = "x".repeat(64 << 10);
        let room = topic("room");
        let mut before = Vec::new();
        for number in 0..200 {
            let id = format!("before-{number}");
            append(&log, &room, line(&id, "alice", &long)).await;
            before.push(id);
        }
        log.trim_now().await;
        let stamp = Stamp::new(Some("t1"), &["drive".into()], None);
        let unsettled = log.append_stamped(&room, line("unsettled", "alice", "short"), stamp.clone());
        unsettled.await.expect("stored");
        before.push("unsettled".into());
        let (plan, write) = writing("plan", "1", "1");
        log.write(plan, write).await.expect("written");

        let mut steps = 0;
        let runtime = tokio::runtime::Handle::current();
        let summary = tokio::task::block_in_place(|| {
            copy(&data.0, &target, |done, total| {
                assert!(done <= total);
                assert!(steps < 1000, "writing must not make the copy start over");
                let id = format!("during-{steps}");
                runtime.block_on(append(&log, &room, line(&id, "alice", &long)));
                // Settling writes to pages all over the file.
                runtime.block_on(log.trim_now());
                steps += 1;
                true
            })
        })
        .expect("copied");
        assert!(steps > 1, "one step shows nothing");
        assert_eq!(summary, LogSummary { version: 6, topics: 1, entries: 201, context_keys: 1 });
        let mode = fs::metadata(&target).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let files: Vec<_> = fs::read_dir(&elsewhere.0).expect("read").map(|f| f.expect("a file").file_name()).collect();
        assert_eq!(files, ["copy.db"], "a copy is one file");

        fs::rename(&target, elsewhere.0.join(DATABASE)).expect("moved");
        let copied = Sqlite::open(&elsewhere.0, SqliteOptions::default()).expect("a copy is a log");
        let found = copied.read(&room, Span::Newest, 1000).await.expect("read");
        assert!(!found.is_empty());
        assert!(ids(&found).iter().all(|id| before.contains(id)), "nothing of later is in it");
        assert_eq!(ids(&found).last().map(String::as_str), Some("unsettled"));
        assert_eq!(found.last().map(|entry| entry.stamp.clone()), Some(stamp), "the stamp is copied with its entry");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_copy_can_be_cancelled() {
        let (data, elsewhere) = (directory(), directory());
        let log = Sqlite::open(&data.0, quick()).expect("opened");
        for number in 0..100 {
            append(&log, &topic("room"), line(&format!("e{number}"), "alice", &"x".repeat(64 << 10))).await;
        }
        log.trim_now().await;
        let copied = copy(&data.0, &elsewhere.0.join("copy.db"), |_, _| false);
        assert!(matches!(copied, Err(CopyError::Cancelled)), "{copied:?}");
    }

    #[test]
    fn a_file_or_a_link_that_is_there_already_is_not_written_to() {
        let (data, elsewhere) = (directory(), directory());
        drop(Sqlite::open(&data.0, quick()).expect("made"));
        let (file, link) = (elsewhere.0.join("file"), elsewhere.0.join("link"));
        fs::write(&file, "").expect("written");
        let dangling = elsewhere.0.join("dangling");
        symlink(&file, &link).expect("linked");
        symlink(elsewhere.0.join("nothing"), &dangling).expect("linked");
        for target in [&file, &link, &dangling] {
            let copied = copy(&data.0, target, |_, _| true);
            let Err(CopyError::Open(OpenError::Files { path, source })) = copied else { panic!("{copied:?}") };
            assert_eq!((&path, source.kind()), (target, std::io::ErrorKind::AlreadyExists));
        }
        assert_eq!(fs::read(&file).expect("read"), b"");
        assert!(!elsewhere.0.join("nothing").exists());
    }

    #[tokio::test]
    async fn a_renewed_epoch_makes_old_positions_foreign() {
        let data = directory();
        let log = Sqlite::open(&data.0, quick()).expect("opened");
        let entry = append(&log, &topic("room"), line("e1", "alice", "hello")).await;
        let before = entry.position;
        drop(log);
        renew_epoch(&data.0.join(DATABASE)).expect("renewed");
        let log = Sqlite::open(&data.0, quick()).expect("opened again");
        let found = log.read(&topic("room"), Span::Newest, 10).await.expect("read");
        assert_eq!(found[0].position.offset, before.offset);
        assert_ne!(found[0].position.epoch, before.epoch);
        assert!(matches!(log.read(&topic("room"), Span::After(before), 10).await, Err(ReadError::Gap { .. })));
    }

    #[test]
    fn what_is_not_a_sound_log_is_refused() {
        let data = directory();
        drop(Sqlite::open(&data.0, quick()).expect("made"));
        let path = data.0.join(DATABASE);
        let told = || {
            let told = summarize(&path).map_or_else(|error| error.to_string(), |summary| format!("{summary:?}"));
            told.replace(&data.0.display().to_string(), "DATA")
        };
        assert_eq!(told(), "LogSummary { version: 6, topics: 0, entries: 0, context_keys: 0 }");
        let run = |sql: &str| Connection::open(&path).and_then(|db| db.execute_batch(sql)).expect("done");
        run("CREATE TRIGGER t AFTER INSERT ON journal BEGIN DELETE FROM entries; END");
        assert_eq!(told(), "the database `DATA/log.db` is damaged: it has triggers or views, which no log has");
        run("DROP TRIGGER t; INSERT INTO journal (entries) VALUES (x'0102')");
        assert_eq!(told(), "the database `DATA/log.db` is damaged: a row of the journal is damaged");
        run("PRAGMA user_version = 99");
        assert_eq!(told(), "`DATA/log.db` has version 99, but this program knows versions up to 6");
        fs::write(&path, "hello").expect("written");
        assert_eq!(told(), "`DATA/log.db` is not a database");
    }
}
