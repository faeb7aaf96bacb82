//! What a bridge remembers across restarts: a SQLite file of its own.
//!
//! Invariant: a commit is durable when it returns, and holds all of its changes or none.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::ids::digest_hex;
use crate::core::{StoreChange, StoredChannel};
use crate::platform::{ActionKey, PlatformChannel};

/// The layout of the tables. A file of another layout is refused.
const LAYOUT: i64 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS channel (channel TEXT PRIMARY KEY, position TEXT, attempt TEXT) STRICT;
    CREATE TABLE IF NOT EXISTS message (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, envelope TEXT NOT NULL, data TEXT NOT NULL,
        UNIQUE (channel, envelope)) STRICT;
    CREATE TABLE IF NOT EXISTS inbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, envelope TEXT NOT NULL, data TEXT NOT NULL,
        UNIQUE (channel, envelope)) STRICT;
    CREATE TABLE IF NOT EXISTS held (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, envelope TEXT NOT NULL, data TEXT NOT NULL,
        UNIQUE (channel, envelope)) STRICT;
";

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BridgeStoreError {
    #[error("`{path}` is in use by another bridge")]
    InUse { path: String },
    #[error("`{path}` cannot be made: {error}")]
    Create { path: String, error: std::io::Error },
    #[error("`{path}` was written by another version of Salon (layout {found}, not {LAYOUT})")]
    Layout { path: String, found: i64 },
    #[error("the store of the bridge failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the store of the bridge has a row that cannot be read: {0}")]
    Row(#[from] serde_json::Error),
}

/// The file of one bridge.
#[derive(Debug)]
pub struct BridgeStore {
    connection: Connection,
    key: [u8; 32],
}

impl BridgeStore {
    /// Opens the file, or makes it. `fresh_key` is the secret of a new one.
    pub fn open(path: &Path, fresh_key: [u8; 32]) -> Result<Self, BridgeStoreError> {
        let shown = path.display().to_string();
        let create = |error| BridgeStoreError::Create { path: shown.clone(), error };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(create)?;
        }
        // It has what people wrote.
        OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(create)?;
        let in_use = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                BridgeStoreError::InUse { path: shown.clone() }
            }
            _ => error.into(),
        };
        let connection = Connection::open(path).map_err(in_use)?;
        // Two bridges with one file would send everything twice.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(in_use)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(in_use)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(in_use)?;
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(in_use)?;
        if found != 0 && found != LAYOUT {
            return Err(BridgeStoreError::Layout { path: shown, found });
        }
        connection.execute_batch(TABLES).map_err(in_use)?;
        connection.pragma_update(None, "user_version", LAYOUT)?;
        connection.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('key', ?1)", params![fresh_key])?;
        let key = connection.query_row("SELECT value FROM meta WHERE name = 'key'", [], |row| row.get(0))?;
        Ok(Self { connection, key })
    }

    /// The secret from which ids of envelopes follow.
    pub fn key(&self) -> [u8; 32] {
        self.key
    }

    /// Names this file among those of processes that run the same bridge. Tells nothing of the key.
    pub(crate) fn id(&self) -> String {
        digest_hex(&[b"store", &self.key], 32)
    }

    /// What is stored of a channel.
    pub fn load(&self, channel: &PlatformChannel) -> Result<StoredChannel, BridgeStoreError> {
        let sql = "SELECT position, attempt FROM channel WHERE channel = ?1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?));
        let (position, attempt) =
            self.connection.query_row(sql, [channel.as_str()], row).optional()?.unwrap_or_default();
        Ok(StoredChannel {
            // An id that cannot be read is as good as none.
            position: position.and_then(|text| salon_protocol::EnvelopeId::new(text).ok()),
            attempt: attempt.map(ActionKey),
            mapped: self.rows("message", channel)?,
            inbox: self.rows("inbox", channel)?,
            held: self.rows("held", channel)?,
        })
    }

    fn rows<T: DeserializeOwned>(&self, table: &str, channel: &PlatformChannel) -> Result<Vec<T>, BridgeStoreError> {
        let sql = format!("SELECT data FROM {table} WHERE channel = ?1 ORDER BY seq");
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map([channel.as_str()], |row| row.get::<_, String>(0))?;
        let mut read = Vec::new();
        for row in rows {
            read.push(serde_json::from_str(&row?)?);
        }
        Ok(read)
    }

    /// Makes changes of one channel.
    pub fn commit(&mut self, channel: &PlatformChannel, changes: &[StoreChange]) -> Result<(), BridgeStoreError> {
        let transaction = self.connection.transaction()?;
        for change in changes {
            apply(&transaction, channel.as_str(), change)?;
        }
        Ok(transaction.commit()?)
    }
}

fn apply(connection: &Connection, channel: &str, change: &StoreChange) -> Result<(), BridgeStoreError> {
    let column = |name: &str, value: Option<&str>| {
        let sql = format!(
            "INSERT INTO channel (channel, {name}) VALUES (?1, ?2) ON CONFLICT (channel) DO UPDATE SET {name} = ?2"
        );
        connection.prepare_cached(&sql)?.execute(params![channel, value])
    };
    let put = |table: &str, envelope: &str, data: String| {
        let sql = format!(
            "INSERT INTO {table} (channel, envelope, data) VALUES (?1, ?2, ?3)
             ON CONFLICT (channel, envelope) DO UPDATE SET data = ?3"
        );
        connection.prepare_cached(&sql)?.execute(params![channel, envelope, data])
    };
    let remove = |table: &str, envelope: &str| {
        let sql = format!("DELETE FROM {table} WHERE channel = ?1 AND envelope = ?2");
        connection.prepare_cached(&sql)?.execute(params![channel, envelope])
    };
    match change {
        StoreChange::Position(position) => column("position", Some(position.as_str())),
        StoreChange::Attempt(attempt) => column("attempt", attempt.as_ref().map(ActionKey::as_str)),
        StoreChange::Map(mapped) => put("message", mapped.envelope.as_str(), text(mapped)?),
        StoreChange::Forget(envelope) => remove("message", envelope.as_str()),
        StoreChange::InboxAdd(row) => put("inbox", row.envelope.as_str(), text(row)?),
        StoreChange::InboxRemove(envelope) => remove("inbox", envelope.as_str()),
        StoreChange::HeldAdd(notice) => put("held", notice.id.as_str(), text(notice)?),
        StoreChange::HeldRemove(id) => remove("held", id.as_str()),
    }?;
    Ok(())
}

fn text(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

#[cfg(test)]
mod tests {
    use salon_protocol::{EnvelopeId, ParticipantId, Timestamp};

    use super::*;
    use crate::core::{InboxRow, MappedMessage, MessageOrigin};
    use crate::platform::PlatformMessageId;
    use crate::room::{GhostProfile, HeldNotice, RoomCall, RoomSpeech};

    /// Removed when dropped.
    struct TestDirectory(std::path::PathBuf);

    impl TestDirectory {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("salon-bridge-store-{:x}", rand::random::<u64>()));
            std::fs::create_dir(&path).expect("a directory");
            Self(path)
        }
    }

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn changes() -> Vec<StoreChange> {
        let id = |text: &str| EnvelopeId::new(text).expect("an id");
        let name = |text: &str| ParticipantId::new(text).expect("a name");
        let mapped = |envelope: &str, parts: &[&str]| MappedMessage {
            envelope: id(envelope),
            origin: MessageOrigin::Room,
            author: name("bob"),
            parts: parts.iter().map(|part| Some(PlatformMessageId::new(*part))).chain([None]).collect(),
            call_line: Some("a line".into()),
            at: Timestamp(7),
        };
        let row = |envelope: &str| InboxRow {
            envelope: id(envelope),
            ghost: GhostProfile { id: name("x:ann"), name: "Ann".into() },
            speech: RoomSpeech::Chat { text: "hi".into(), is_markdown: true, reply_to: Some(id("e1")) },
            platform_id: Some(PlatformMessageId::new("p1")),
            at: Timestamp(8),
        };
        let held = |held: &str| {
            let call = RoomCall { caller: name("a"), callee: name("b"), tool: "t".into(), arguments: "{}".into() };
            HeldNotice { id: id(held), digest: "sha256:00".into(), call }
        };
        vec![
            StoreChange::Map(mapped("e1", &["p1"])),
            StoreChange::Map(mapped("e2", &[])),
            StoreChange::Map(mapped("e1", &["p1", "p2"])),
            StoreChange::Map(mapped("e3", &[])),
            StoreChange::Forget(id("e2")),
            StoreChange::InboxAdd(row("b2")),
            StoreChange::InboxAdd(row("b1")),
            StoreChange::InboxAdd(row("b3")),
            StoreChange::InboxRemove(id("b1")),
            StoreChange::Attempt(Some(ActionKey::new("k1"))),
            StoreChange::HeldAdd(held("h1")),
            StoreChange::HeldAdd(held("h2")),
            StoreChange::HeldRemove(id("h1")),
            StoreChange::Position(id("e1")),
            StoreChange::Position(id("e3")),
            StoreChange::Attempt(None),
        ]
    }

    /// The file and the model that the property tests use have the same in them after every change, also when opened again.
    #[test]
    fn what_is_stored_is_read_again() {
        let directory = TestDirectory::new();
        let path = directory.0.join("bridges").join("x.sqlite");
        let (channel, other) = (PlatformChannel::new("#lab"), PlatformChannel::new("#other"));
        let mut model = StoredChannel::default();
        for change in changes() {
            let mut store = BridgeStore::open(&path, [1; 32]).expect("a store");
            store.commit(&channel, std::slice::from_ref(&change)).expect("a commit");
            drop(store);
            model.apply(change);
            let store = BridgeStore::open(&path, [2; 32]).expect("a store");
            assert_eq!(store.key(), [1; 32], "the key stays");
            assert_eq!(store.load(&channel).expect("rows"), model);
            assert_eq!(store.load(&other).expect("rows"), StoredChannel::default());
        }
    }

    #[test]
    fn one_bridge_at_a_time() {
        let directory = TestDirectory::new();
        let path = directory.0.join("x.sqlite");
        let mut first = BridgeStore::open(&path, [1; 32]).expect("a store");
        first.commit(&PlatformChannel::new("#lab"), &[StoreChange::Attempt(None)]).expect("a commit");
        let second = BridgeStore::open(&path, [1; 32]);
        assert!(matches!(second, Err(BridgeStoreError::InUse { .. })), "{second:?}");
    }
}
