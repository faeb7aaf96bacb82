//! The database file: its connections, its tables and how they came to be.

use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::{OpenError, stored};
use crate::Durability;

/// Marks a file as ours; "Saln".
const APPLICATION: i64 = 0x5361_6c6e;

/// What makes each version from the one before it; the first makes version 1 from an empty file.
///
/// A commit writes one row of `journal` and dirties one page, whatever topics and ids are in it. Now and then everything in the
/// journal is settled into `entries` and the folds, many entries of a topic at a time, because there each topic and each random id
/// dirties a page of its own ([`super::settle`]).
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    -- A topic's kept entries are numbered without holes from trimmed + 1.
    CREATE TABLE topics (topic INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, trimmed INTEGER NOT NULL);
    CREATE TABLE journal (number INTEGER PRIMARY KEY, entries BLOB NOT NULL);
    -- The key is topic << 40 | offset, so that a topic lies together, in order.
    CREATE TABLE entries (
        key INTEGER PRIMARY KEY, topic INTEGER NOT NULL, id TEXT NOT NULL, arrived INTEGER NOT NULL, text TEXT NOT NULL,
        UNIQUE (topic, id)
    );
    -- The newest join of everyone present. Its text is copied here when retention removes the entry.
    CREATE TABLE present (
        topic INTEGER NOT NULL, participant TEXT NOT NULL, key INTEGER NOT NULL, arrived INTEGER, text TEXT,
        PRIMARY KEY (topic, participant)
    ) WITHOUT ROWID;
    -- The settled requests that have no answer.
    CREATE TABLE unanswered (key INTEGER PRIMARY KEY);
    ",
    "
    -- How many keys a scope has, how many of them exist, and the highest version of any that was forgotten. Named by topic, because
    -- the context of a topic outlives its entries, and with them the topic's number.
    CREATE TABLE context_scopes (
        scope INTEGER PRIMARY KEY, topic TEXT NOT NULL, name TEXT NOT NULL,
        keys INTEGER NOT NULL, live INTEGER NOT NULL, floor INTEGER NOT NULL,
        UNIQUE (topic, name)
    );
    -- The newest version of every key and, where that is a delete, its row, which orders deletes by time.
    CREATE TABLE context_keys (
        slot INTEGER PRIMARY KEY, scope INTEGER NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, deleted INTEGER,
        UNIQUE (scope, key)
    );
    CREATE INDEX context_deleted ON context_keys (scope, deleted) WHERE deleted IS NOT NULL;
    -- A version without a value is a delete. The value comes last, so that the rest is read without it.
    CREATE TABLE context_versions (
        slot INTEGER NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL, author TEXT NOT NULL, cause TEXT NOT NULL, value TEXT,
        UNIQUE (slot, version)
    );
    INSERT INTO meta (name, value) VALUES ('context_floor', 0);
    ",
    "
    -- With which credentials an entry was published; none where it was the gateway's own, or older than this version.
    ALTER TABLE entries ADD COLUMN stamp TEXT;
    -- The offset at which the call of a settled request failed, and nothing while it waits for its answer.
    ALTER TABLE unanswered ADD COLUMN failed INTEGER;
    ",
    "
    -- How many bytes the settled entries of a topic have, by their authors, and under the author '' all versions in its context. Named by
    -- topic, as contexts are.
    CREATE TABLE stored (topic TEXT NOT NULL, author TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (topic, author)) WITHOUT ROWID;
    ",
    "
    -- The notices that a topic's settings and its held calls follow from. Their texts are copied here when retention removes the entries.
    CREATE TABLE control (
        topic INTEGER NOT NULL, key INTEGER NOT NULL, arrived INTEGER, text TEXT, stamp TEXT, PRIMARY KEY (topic, key)
    ) WITHOUT ROWID;
    ",
    "
    -- The numbers of deleted topics whose entries are still to be removed.
    CREATE TABLE erased (topic INTEGER PRIMARY KEY);
    ",
];

/// The migration that makes the table `stored`, which is then filled.
const STORED_MIGRATION: usize = 3;

/// The newest version known here.
pub(super) const KNOWN_VERSION: i64 = MIGRATIONS.len() as i64;

/// The length that the write-ahead log is given, and from which it is written back to the database ([`super::checkpoint`]). The longer, the
/// more changes of one page are written back as one.
pub(super) const WAL_PAGES: u64 = 4000;
/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;
const FRAME_HEADER: u64 = 24;

/// Bits of a key that hold the offset.
const OFFSET_BITS: u32 = 40;
/// The last offset a topic can reach.
pub(super) const LAST_OFFSET: u64 = (1 << OFFSET_BITS) - 1;
/// The last number a topic can have.
pub(super) const LAST_TOPIC: i64 = (1 << (63 - OFFSET_BITS)) - 1;

/// The key of an entry.
pub(super) fn key(topic: i64, offset: u64) -> i64 {
    debug_assert!((0..=LAST_TOPIC).contains(&topic) && offset <= LAST_OFFSET);
    topic << OFFSET_BITS | offset.cast_signed()
}

/// The offset in a key.
pub(super) fn offset(key: i64) -> u64 {
    key.cast_unsigned() & LAST_OFFSET
}

/// The number of the topic in a key.
pub(super) fn topic(key: i64) -> i64 {
    key >> OFFSET_BITS
}

/// Opens the connection that writes, making or migrating the database first.
pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let failed = |source| refine(path, source);
    // Made here, because SQLite would let everybody read it. Its other files get the mode of this one.
    super::private(path).map_err(|source| OpenError::Files { path: path.into(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(failed)?;
    identify(&db, path)?;
    // `NORMAL` flushes at checkpoints only: a lost power supply costs the newest entries, never the file.
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Os => "NORMAL",
    };
    db.execute_batch(&format!(
        "PRAGMA page_size = {PAGE};
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = {synchronous};
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -32768;
         PRAGMA temp_store = MEMORY;
         PRAGMA secure_delete = FAST;"
    ))
    .map_err(failed)?;
    // Only somebody else's tool can hold the write lock, and only for a while.
    db.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    migrate(&mut db).map_err(failed)?;
    lengthen_again(path, durability);
    Ok(db)
}

/// Gives the write-ahead log of a database its length, where commits are flushed.
pub(super) fn lengthen_again(path: &Path, durability: Durability) {
    if durability == Durability::Full {
        let wal = path.with_extension("db-wal");
        // Only for speed. On a full disk the log opens without, and is read-only.
        if let Err(error) = lengthen(&wal) {
            tracing::warn!(%error, "store: write-ahead log not preallocated, commits are slower");
        }
    }
}

/// Gives the write-ahead log the length it will come to have. SQLite overwrites it from its beginning after every checkpoint; flushing
/// what was overwritten takes half the time and half the processor that flushing a longer file does, which matters when every
/// message is flushed. SQLite takes zeros for what they are, the end of the log.
fn lengthen(wal: &Path) -> io::Result<()> {
    let mut file = super::private(wal)?;
    let length = file.seek(io::SeekFrom::End(0))?;
    io::copy(&mut io::repeat(0).take((WAL_PAGES * (PAGE + FRAME_HEADER)).saturating_sub(length)), &mut file)?;
    file.sync_all()
}

/// Opens the connection by which the write-ahead log is written back beside the writer.
pub(super) fn open_checkpointer(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| refine(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    // Its length is the writer's to watch.
    db.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -256;").map_err(failed)?;
    Ok(db)
}

/// Opens a connection that reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| refine(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    db.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
}

/// Refuses a file that is not a log, or one that a newer version has made.
pub(super) fn identify(db: &Connection, path: &Path) -> Result<(), OpenError> {
    let (application, version) = marks(db, path)?;
    let tables = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    let tables = tables.map_err(|source| refine(path, source))?;
    if application == 0 && version == 0 && tables == 0 { Ok(()) } else { recognize(application, version, path) }
}

/// What a database says of itself: which program it is of, and the version of its tables.
pub(super) fn marks(db: &Connection, path: &Path) -> Result<(i64, i64), OpenError> {
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let both = pragma("application_id").and_then(|application| Ok((application, pragma("user_version")?)));
    both.map_err(|source| refine(path, source))
}

/// Refuses a file by what it says of itself.
pub(super) fn recognize(application: i64, version: i64, path: &Path) -> Result<(), OpenError> {
    let topic_states = MIGRATIONS.len();
    match usize::try_from(version) {
        _ if application != APPLICATION => Err(OpenError::Foreign { path: path.into() }),
        Ok(version) if version <= topic_states => Ok(()),
        _ => Err(OpenError::Newer { path: path.into(), found: version, topic_states }),
    }
}

fn migrate(db: &mut Connection) -> rusqlite::Result<()> {
    let version: usize = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (number, migration) in MIGRATIONS.iter().enumerate().skip(version) {
        let step = db.transaction()?;
        step.execute_batch(migration)?;
        step.pragma_update(None, "application_id", APPLICATION)?;
        step.pragma_update(None, "user_version", number + 1)?;
        if number == STORED_MIGRATION {
            stored::count_all(&step)?;
        }
        if number == 0 {
            step.execute("INSERT INTO meta (name, value) VALUES ('epoch', ?1), ('floor', 0)", [fresh_epoch()])?;
        }
        step.commit()?;
    }
    Ok(())
}

/// A number no earlier making of this log is likely to have had.
fn fresh_epoch() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(std::time::SystemTime::now());
    u32::try_from(random >> 32).expect("half of 64 bits")
}

/// Which making of the log this is.
pub(super) fn epoch(db: &Connection) -> rusqlite::Result<u32> {
    meta(db, "epoch").map(|value| value.unwrap_or_default())
}

/// Makes this another making of the log, to which no position given out so far belongs.
pub(super) fn renew_epoch(db: &Connection) -> rusqlite::Result<()> {
    db.execute("UPDATE meta SET value = ?1 WHERE name = 'epoch'", [fresh_epoch()]).map(|_| ())
}

/// The highest offset any forgotten topic had: a topic of whom nothing is known begins after it.
pub(super) fn floor(db: &Connection) -> rusqlite::Result<u64> {
    meta(db, "floor").map(|value| value.unwrap_or_default())
}

fn meta<T: rusqlite::types::FromSql>(db: &Connection, name: &str) -> rusqlite::Result<Option<T>> {
    db.prepare_cached("SELECT value FROM meta WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()
}

pub(super) fn refine(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = PathBuf::from(path);
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
        _ => OpenError::Database { path, source },
    }
}
