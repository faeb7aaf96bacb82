//! The versioned context in SQLite: written by the writer in the transaction of whatever else waits, read like everything.
//!
//! Invariant: a scope's row counts its keys; the versions of a key end with the one its row names and have no holes.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use salon_protocol::{ParticipantId, Timestamp, TopicName};
use tokio::sync::oneshot;

use super::stored::StoredCounts;
use super::writer::{SqliteWrite, WriterRequest};
use super::{CLOSED, Sqlite, SqliteFault};
use crate::context::{
    Address, Changes, ContextScope, Existence, Key, ListedKey, MAX_KEYS, MAX_TOOLS, MAX_VALUE_BYTES, MAX_VERSIONS,
    TOOLS, ToolId, Version, Write, WriteError, Written,
};
use crate::{ContextStore, MAX_PAGE_BYTES, ReadError};

/// What comes after the name of every tool's scope.
const AFTER_TOOLS: &str = "tool;";

impl ContextStore for Sqlite {
    fn write(&self, address: Address, write: Write) -> BoxFuture<'static, Result<Written, WriteError>> {
        let bytes = write.value.as_ref().map_or(0, |value| value.len());
        if bytes > MAX_VALUE_BYTES {
            return std::future::ready(Err(WriteError::TooLarge { bytes })).boxed();
        }
        let closed = || Err(WriteError::Stopped(CLOSED.into()));
        let (reply, outcome) = oneshot::channel();
        if self.requests.push(WriterRequest::Write(SqliteWrite { address, write, reply })).is_err() {
            return std::future::ready(closed()).boxed();
        }
        outcome.map(move |outcome| outcome.unwrap_or_else(|_| closed())).boxed()
    }

    fn get(&self, address: &Address, version: Option<u64>) -> BoxFuture<'static, Result<Option<Version>, ReadError>> {
        let address = address.clone();
        self.source.ask(move |db| {
            let Some(topic_states) = KeyRow::find(db, &address)? else { return Ok(None) };
            let version = version.unwrap_or(topic_states.version);
            // Beyond the newest are numbers that the database cannot even hold.
            if version > topic_states.version {
                return Ok(None);
            }
            let mut query = db.prepare_cached(
                "SELECT version, at, author, value FROM context_versions WHERE slot = ?1 AND version = ?2",
            )?;
            let mut rows = query.query(params![topic_states.slot, version])?;
            Ok(rows.next()?.map(read_version).transpose()?)
        })
    }

    fn history(
        &self,
        address: &Address,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Version>, ReadError>> {
        let address = address.clone();
        self.source.ask(move |db| {
            let (mut found, mut bytes) = (Vec::new(), 0);
            let Some(topic_states) = KeyRow::find(db, &address)? else { return Ok(found) };
            let mut query = db.prepare_cached(
                "SELECT version, at, author, value FROM context_versions WHERE slot = ?1 AND version < ?2
                 ORDER BY version DESC LIMIT ?3",
            )?;
            let before = before.unwrap_or(topic_states.version + 1).min(topic_states.version + 1);
            let mut rows = query.query(params![topic_states.slot, before, sql_limit(limit)])?;
            while bytes < MAX_PAGE_BYTES
                && let Some(row) = rows.next()?
            {
                let version = read_version(row)?;
                bytes += version.value.as_ref().map_or(0, |value| value.len());
                found.push(version);
            }
            Ok(found)
        })
    }

    fn list(
        &self,
        topic: &TopicName,
        scope: &ContextScope,
        after: Option<&Key>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ListedKey>, ReadError>> {
        let (topic, name) = (topic.clone(), scope.name());
        // No key is empty.
        let after = after.map_or_else(String::new, ToString::to_string);
        self.source.ask(move |db| {
            let mut query = db.prepare_cached(
                "SELECT key, context_keys.version, at, author, octet_length(value) FROM context_keys
                 JOIN context_scopes USING (scope)
                 JOIN context_versions USING (slot, version)
                 WHERE topic = ?1 AND name = ?2 AND key > ?3 AND deleted IS NULL ORDER BY key LIMIT ?4",
            )?;
            let mut rows = query.query(params![topic.as_str(), name, after, sql_limit(limit)])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let key = row.get::<_, String>(0)?;
                found.push(ListedKey {
                    key: Key::new(&key).map_err(|_| SqliteFault::Context { what: key })?,
                    version: row.get(1)?,
                    at: Timestamp(row.get(2)?),
                    author: read_author(row.get(3)?)?,
                    bytes: row.get(4)?,
                });
            }
            Ok(found)
        })
    }

    fn tools(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<ToolId>, ReadError>> {
        let topic = topic.clone();
        self.source.ask(move |db| {
            let mut query = db.prepare_cached(
                "SELECT name FROM context_scopes WHERE topic = ?1 AND name >= ?2 AND name < ?3 AND live > 0 ORDER BY name",
            )?;
            let mut rows = query.query([topic.as_str(), TOOLS, AFTER_TOOLS])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let name = row.get::<_, String>(0)?;
                let id = name.strip_prefix(TOOLS).and_then(|id| ToolId::new(id).ok());
                found.push(id.ok_or(SqliteFault::Context { what: name })?);
            }
            Ok(found)
        })
    }

    fn changes(&self, topic: &TopicName) -> Changes {
        self.source.changes.follow(topic)
    }
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn read_author(text: String) -> Result<ParticipantId, SqliteFault> {
    ParticipantId::new(&text).map_err(|_| SqliteFault::Context { what: text })
}

/// Makes a version of its number, time, author and value.
fn read_version(row: &Row<'_>) -> Result<Version, SqliteFault> {
    let value: Option<Arc<str>> = row.get(3)?;
    Ok(Version { number: row.get(0)?, at: Timestamp(row.get(1)?), author: read_author(row.get(2)?)?, value })
}

/// What a key's row says.
struct KeyRow {
    slot: i64,
    version: u64,
    exists: bool,
}

impl KeyRow {
    fn find(db: &Connection, address: &Address) -> Result<Option<Self>, SqliteFault> {
        let mut query = db.prepare_cached(
            "SELECT slot, version, deleted IS NULL FROM context_keys JOIN context_scopes USING (scope)
             WHERE topic = ?1 AND name = ?2 AND key = ?3",
        )?;
        let named = params![address.topic.as_str(), address.scope.name(), address.key.as_str()];
        let topic_states =
            query.query_row(named, |row| Ok(Self { slot: row.get(0)?, version: row.get(1)?, exists: row.get(2)? }));
        Ok(topic_states.optional()?)
    }
}

/// What came of a write: what it made, or why it was refused.
pub(super) type Judged = Result<(Written, Existence), WriteError>;

/// Judges a write and does it. Within a transaction; a refused write leaves nothing behind.
pub(super) fn apply(
    db: &Connection,
    counts: &mut StoredCounts,
    now: Timestamp,
    address: &Address,
    write: &Write,
) -> Result<Judged, SqliteFault> {
    let topic_states = KeyRow::find(db, address)?;
    if let Some(topic_states) = &topic_states
        && let Some(written) = first(db, topic_states.slot, &write.cause)?
    {
        return Ok(Ok((written, Existence::Unchanged)));
    }
    let (current, exists) =
        topic_states.as_ref().map_or((0, false), |topic_states| (topic_states.version, topic_states.exists));
    if write.expected.is_some_and(|expected| expected != current && (expected > 0 || exists)) {
        return Ok(Err(WriteError::Conflict { current }));
    }
    if write.value.is_none() && !exists {
        return Ok(Err(WriteError::Absent { current }));
    }
    let added = write.value.as_ref().map_or(0, |value| value.len());
    let makes_room = match counts.check_context(&address.topic, 0, added) {
        Ok(()) => write.value.is_none() && counts.is_tight(&address.topic),
        Err(_) => {
            let older = topic_states.as_ref().map(|topic_states| bytes_of_versions(db, topic_states.slot));
            let older = older.transpose()?.unwrap_or_default();
            if let Err(exceeded) = counts.check_context(&address.topic, older, added) {
                return Ok(Err(WriteError::Quota(exceeded)));
            }
            true
        }
    };
    let mut removed = 0;
    let (slot, version) = match topic_states {
        Some(topic_states) => (topic_states.slot, topic_states.version + 1),
        None => match make(db, address, &mut removed)? {
            Ok(made) => made,
            Err(refused) => return Ok(Err(refused)),
        },
    };
    let existence = match (exists, write.value.is_some()) {
        (false, _) => Existence::Begun,
        (true, true) => Existence::Unchanged,
        (true, false) => Existence::Ended,
    };
    let row = db
        .prepare_cached(
            "INSERT INTO context_versions (slot, version, at, author, cause, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .insert(params![slot, version, now.0, write.author.as_str(), write.cause, write.value])?;
    db.prepare_cached("UPDATE context_keys SET version = ?2, deleted = ?3 WHERE slot = ?1")?.execute(params![
        slot,
        version,
        write.value.is_none().then_some(row)
    ])?;
    let kept = if makes_room { 1 } else { MAX_VERSIONS };
    removed += remove(
        db,
        "DELETE FROM context_versions WHERE slot = ?1 AND version <= ?2 RETURNING octet_length(value)",
        params![slot, version.saturating_sub(kept)],
    )?;
    counts.change_context(db, &address.topic, added as u64, removed)?;
    let grown = match existence {
        Existence::Begun => 1,
        Existence::Unchanged => 0,
        Existence::Ended => -1,
    };
    if grown != 0 {
        db.prepare_cached(
            "UPDATE context_scopes SET live = live + ?2 WHERE scope = (SELECT scope FROM context_keys WHERE slot = ?1)",
        )?
        .execute(params![slot, grown])?;
    }
    Ok(Ok((Written { version, at: now, repeated: false }, existence)))
}

/// The version that a cause has made already.
fn first(db: &Connection, slot: i64, cause: &str) -> Result<Option<Written>, SqliteFault> {
    let mut query = db.prepare_cached("SELECT version, at FROM context_versions WHERE slot = ?1 AND cause = ?2")?;
    let first = query.query_row(params![slot, cause], |row| {
        Ok(Written { version: row.get(0)?, at: Timestamp(row.get(1)?), repeated: true })
    });
    Ok(first.optional()?)
}

/// How many bytes the kept versions of a key have.
fn bytes_of_versions(db: &Connection, slot: i64) -> Result<u64, SqliteFault> {
    let mut query =
        db.prepare_cached("SELECT coalesce(sum(octet_length(value)), 0) FROM context_versions WHERE slot = ?1")?;
    Ok(query.query_row([slot], |row| row.get(0))?)
}

/// Removes versions by a statement that returns the length of each; says how many bytes they had.
fn remove(db: &Connection, statement: &str, params: impl Params) -> Result<u64, SqliteFault> {
    let mut statement = db.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        bytes += row.get::<_, Option<u64>>(0)?.unwrap_or_default();
    }
    Ok(bytes)
}

/// Makes a row for a new key, and says which version is its first. Nothing is made when there is no place for it. `removed` grows by the bytes
/// of what was forgotten for it.
fn make(db: &Connection, address: &Address, removed: &mut u64) -> Result<Result<(i64, u64), WriteError>, SqliteFault> {
    let name = address.scope.name();
    let mut query =
        db.prepare_cached("SELECT scope, keys, live, floor FROM context_scopes WHERE topic = ?1 AND name = ?2")?;
    let scope = query
        .query_row([address.topic.as_str(), &name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let (scope, keys, live, mut floor): (i64, u64, u64, u64) = match scope {
        Some(topic_states) => topic_states,
        None => {
            if matches!(address.scope, ContextScope::Tool(_)) && !spare_tool(db, &address.topic, removed)? {
                return Ok(Err(WriteError::TooManyTools));
            }
            let floor = db
                .prepare_cached("SELECT value FROM meta WHERE name = 'context_floor'")?
                .query_row([], |row| row.get(0))?;
            let scope = db
                .prepare_cached(
                    "INSERT INTO context_scopes (topic, name, keys, live, floor) VALUES (?1, ?2, 0, 0, ?3)",
                )?
                .insert(params![address.topic.as_str(), name, floor])?;
            (scope, 0, 0, floor)
        }
    };
    if live >= MAX_KEYS {
        return Ok(Err(WriteError::TooManyKeys));
    }
    if keys >= MAX_KEYS {
        // Some are deleted, then. The longest deleted makes room.
        let (slot, version): (i64, u64) = db
            .prepare_cached(
                "SELECT slot, version FROM context_keys WHERE scope = ?1 AND deleted IS NOT NULL
                 ORDER BY deleted LIMIT 1",
            )?
            .query_row([scope], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let forget = "DELETE FROM context_versions WHERE slot = ?1 RETURNING octet_length(value)";
        *removed += remove(db, forget, [slot])?;
        db.prepare_cached("DELETE FROM context_keys WHERE slot = ?1")?.execute([slot])?;
        floor = floor.max(version);
    }
    db.prepare_cached("UPDATE context_scopes SET keys = min(keys + 1, ?2), floor = ?3 WHERE scope = ?1")?
        .execute(params![scope, MAX_KEYS, floor])?;
    let slot = db
        .prepare_cached("INSERT INTO context_keys (scope, key, version) VALUES (?1, ?2, 0)")?
        .insert(params![scope, address.key.as_str()])?;
    Ok(Ok((slot, floor + 1)))
}

/// Removes everything of a topic. Whatever is written there later begins after all versions of before.
pub(super) fn erase(db: &Connection, topic: &TopicName) -> Result<(), SqliteFault> {
    let scopes = "SELECT scope FROM context_scopes WHERE topic = ?1";
    let floor = format!(
        "UPDATE meta SET value = max(value, (SELECT coalesce(max(floor), 0) FROM context_scopes WHERE topic = ?1),
         (SELECT coalesce(max(version), 0) FROM context_keys WHERE scope IN ({scopes}))) WHERE name = 'context_floor'"
    );
    let versions =
        format!("DELETE FROM context_versions WHERE slot IN (SELECT slot FROM context_keys WHERE scope IN ({scopes}))");
    let keys = format!("DELETE FROM context_keys WHERE scope IN ({scopes})");
    for statement in [&floor, &versions, &keys, "DELETE FROM context_scopes WHERE topic = ?1"] {
        db.prepare_cached(statement)?.execute([topic.as_str()])?;
    }
    Ok(())
}

/// Sees to it that there is a place for one more tool in a topic; one of whose context nothing is left makes room. Whatever is called
/// so later begins after everything that was ever forgotten.
fn spare_tool(db: &Connection, topic: &TopicName, removed: &mut u64) -> Result<bool, SqliteFault> {
    let count: u64 = db
        .prepare_cached("SELECT count(*) FROM context_scopes WHERE topic = ?1 AND name >= ?2 AND name < ?3")?
        .query_row([topic.as_str(), TOOLS, AFTER_TOOLS], |row| row.get(0))?;
    if count < MAX_TOOLS {
        return Ok(true);
    }
    let idle: Option<i64> = db
        .prepare_cached(
            "SELECT scope FROM context_scopes WHERE topic = ?1 AND name >= ?2 AND name < ?3 AND live = 0
             ORDER BY scope LIMIT 1",
        )?
        .query_row([topic.as_str(), TOOLS, AFTER_TOOLS], |row| row.get(0))
        .optional()?;
    let Some(scope) = idle else { return Ok(false) };
    db.prepare_cached(
        "UPDATE meta SET value = max(value, (SELECT floor FROM context_scopes WHERE scope = ?1),
         (SELECT coalesce(max(version), 0) FROM context_keys WHERE scope = ?1)) WHERE name = 'context_floor'",
    )?
    .execute([scope])?;
    *removed += remove(
        db,
        "DELETE FROM context_versions WHERE slot IN (SELECT slot FROM context_keys WHERE scope = ?1)
         RETURNING octet_length(value)",
        [scope],
    )?;
    db.prepare_cached("DELETE FROM context_keys WHERE scope = ?1")?.execute([scope])?;
    db.prepare_cached("DELETE FROM context_scopes WHERE scope = ?1")?.execute([scope])?;
    Ok(true)
}
