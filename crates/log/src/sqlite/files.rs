//! The files of a log in SQLite: a database of its own beside the log, with a thread of its own.
//!
//! Files are long and need no order among entries, so that nobody who appends waits for one. In a database their bytes and what is known of
//! them change together, a copy of it is of one moment, and a name in it is never a path.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params};
use salon_protocol::{ParticipantId, Timestamp, TopicName};
use tokio::sync::{oneshot, watch};

use super::queue::WorkQueue;
use super::{CLOSED, Sqlite, SqliteFault};
use crate::files::{
    FILE_CHUNK_BYTES, FileError, FileId, FileQuotas, FileScope, FileStore, FileUpload, MAX_FILES, MAX_TOPIC_FILES,
    NewFile, StoredFile,
};
use crate::{LogHealth, ReadError};

/// The database of the files, in the log's directory.
pub const FILES_DATABASE: &str = "files.db";

const VERSION: i64 = 1;

/// How long SQLite waits for a lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Marks a file as ours; "SaFi".
const APPLICATION: i64 = 0x5361_4669;

const TABLES: &str = "
    -- One without a hash is being uploaded.
    CREATE TABLE files (
        file INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, topic TEXT NOT NULL, name TEXT NOT NULL, mime_type TEXT NOT NULL,
        author TEXT NOT NULL, created INTEGER NOT NULL, size INTEGER NOT NULL, sha256 TEXT
    );
    CREATE TABLE chunks (file INTEGER NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (file, number));
";

const COLUMNS: &str = "id, topic, name, mime_type, author, created, size, sha256";

type FileJob = Box<dyn FnOnce(&mut FileThread) + Send>;

/// Where jobs for the thread wait, and how many bytes there are.
pub(super) struct FileDesk {
    jobs: WorkQueue<FileJob>,
    quotas: FileQuotas,
    counts: Mutex<FileCounts>,
    health: watch::Receiver<LogHealth>,
}

/// What is stored and being uploaded.
#[derive(Default)]
struct FileCounts {
    total: u64,
    files: u64,
    topics: HashMap<TopicName, TopicFiles>,
    /// The files of each author.
    authors: HashMap<ParticipantId, u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct TopicFiles {
    bytes: u64,
    files: u64,
}

impl FileDesk {
    pub(super) fn new(quotas: FileQuotas, health: watch::Receiver<LogHealth>) -> Self {
        Self { jobs: WorkQueue::new(), quotas, counts: Mutex::default(), health }
    }

    pub(super) fn close(&self) {
        self.jobs.close();
    }

    fn check_health(&self) -> Result<(), FileError> {
        match &*self.health.borrow() {
            LogHealth::Writable => Ok(()),
            LogHealth::ReadOnly(why) | LogHealth::Unreachable(why) | LogHealth::Stopped(why) => {
                Err(FileError::Unavailable(why.clone()))
            }
        }
    }

    /// Counts one more file.
    fn enter(&self, file: &NewFile) -> Result<(), FileError> {
        let mut counts = self.counts.lock();
        if counts.files >= MAX_FILES {
            return Err(FileError::TooMany { scope: FileScope::Gateway, limit: MAX_FILES });
        }
        if counts.topics.get(&file.topic).is_some_and(|known| known.files >= MAX_TOPIC_FILES) {
            return Err(FileError::TooMany { scope: FileScope::Topic, limit: MAX_TOPIC_FILES });
        }
        let limit = self.quotas.author_files;
        if counts.authors.get(&file.author).is_some_and(|files| *files >= limit) {
            return Err(FileError::TooMany { scope: FileScope::Author, limit });
        }
        counts.topics.entry(file.topic.clone()).or_default().files += 1;
        *counts.authors.entry(file.author.clone()).or_default() += 1;
        counts.files += 1;
        Ok(())
    }

    /// Counts so many bytes more, where the quotas allow it.
    fn grow(&self, topic: &TopicName, bytes: u64) -> Result<(), FileError> {
        let mut counts = self.counts.lock();
        let FileQuotas { topic: of_topic, total, .. } = self.quotas;
        let is_over = |limit: u64, held: u64| limit > 0 && held.saturating_add(bytes) > limit;
        let held = counts.topics.get(topic).map_or(0, |known| known.bytes);
        if is_over(of_topic, held) {
            return Err(FileError::Quota { scope: FileScope::Topic, limit: of_topic });
        }
        if is_over(total, counts.total) {
            return Err(FileError::Quota { scope: FileScope::Gateway, limit: total });
        }
        counts.total += bytes;
        counts.topics.entry(topic.clone()).or_default().bytes += bytes;
        Ok(())
    }

    /// Takes a file off.
    fn leave(&self, topic: &TopicName, author: &ParticipantId, bytes: u64) {
        let mut counts = self.counts.lock();
        if let Some(files) = counts.authors.get_mut(author) {
            *files = files.saturating_sub(1);
            if *files == 0 {
                counts.authors.remove(author);
            }
        }
        counts.total = counts.total.saturating_sub(bytes);
        counts.files = counts.files.saturating_sub(1);
        if let Some(known) = counts.topics.get_mut(topic) {
            known.bytes = known.bytes.saturating_sub(bytes);
            known.files = known.files.saturating_sub(1);
            if known.files == 0 {
                counts.topics.remove(topic);
            }
        }
    }

    /// Has the thread do something.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut FileThread) -> Result<T, SqliteFault> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Arc<str>>> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |files: &mut FileThread| {
            let done = work(files).map_err(|fault| Arc::from(fault.to_string()));
            // Who asked may have gone.
            let _ = reply.send(done);
        });
        if self.jobs.push(job).is_err() {
            return std::future::ready(Err(CLOSED.into())).boxed();
        }
        answer.map(|answer| answer.unwrap_or_else(|_| Err(CLOSED.into()))).boxed()
    }
}

fn failed(why: Arc<str>) -> FileError {
    tracing::error!(%why, "files: store failed");
    FileError::Failed(why)
}

fn unreadable(why: Arc<str>) -> ReadError {
    ReadError::Failed(why)
}

impl FileStore for Sqlite {
    fn begin(&self, file: NewFile) -> BoxFuture<'static, Result<Box<dyn FileUpload>, FileError>> {
        let desk = self.files.clone();
        async move {
            desk.check_health()?;
            // What is stored is counted from the first time that the database is opened.
            desk.ask(FileThread::open_for_writing).await.map_err(failed)?;
            desk.enter(&file)?;
            // Counted until it is finished, or dropped.
            let mut upload = SqliteUpload {
                desk,
                file: file.clone(),
                number: None,
                size: 0,
                chunk: Vec::new(),
                chunks: 0,
                is_finished: false,
            };
            upload.number = Some(upload.desk.ask(move |files| files.insert(&file)).await.map_err(failed)?);
            Ok(Box::new(upload) as Box<dyn FileUpload>)
        }
        .boxed()
    }

    fn find(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<Option<StoredFile>, ReadError>> {
        let (topic, id) = (topic.clone(), id.clone());
        self.files.ask(move |files| files.find(&topic, &id)).map(|found| found.map_err(unreadable)).boxed()
    }

    fn read(&self, topic: &TopicName, id: &FileId, offset: u64) -> BoxFuture<'static, Result<Bytes, ReadError>> {
        let (topic, id) = (topic.clone(), id.clone());
        self.files.ask(move |files| files.read(&topic, &id, offset)).map(|read| read.map_err(unreadable)).boxed()
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<StoredFile>, ReadError>> {
        self.files.ask(FileThread::list).map(|list| list.map_err(unreadable)).boxed()
    }

    fn remove(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<(), FileError>> {
        let (desk, topic, id) = (self.files.clone(), topic.clone(), id.clone());
        async move {
            let (name, id) = (topic.clone(), id.clone());
            let removed = desk.ask(move |files| files.remove(&name, &id)).await.map_err(failed)?;
            if let Some((author, bytes)) = removed {
                desk.leave(&topic, &author, bytes);
            }
            Ok(())
        }
        .boxed()
    }

    fn remove_topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<(), FileError>> {
        let (desk, topic) = (self.files.clone(), topic.clone());
        async move {
            let name = topic.clone();
            let files = desk.ask(move |files| files.abandon(&name)).await.map_err(failed)?;
            // One by one: others who use files wait for each of them, and not for all.
            for AbandonedFile { row, author, bytes } in files {
                desk.ask(move |files| files.delete(row)).await.map_err(failed)?;
                desk.leave(&topic, &author, bytes);
            }
            desk.ask(FileThread::scrub).await.map_err(failed)
        }
        .boxed()
    }
}

struct SqliteUpload {
    desk: Arc<FileDesk>,
    file: NewFile,
    /// Its row.
    number: Option<i64>,
    size: u64,
    /// What is not stored yet.
    chunk: Vec<u8>,
    /// How many chunks are.
    chunks: u64,
    is_finished: bool,
}

impl SqliteUpload {
    async fn store_chunk(&mut self, chunk: Vec<u8>) -> Result<(), FileError> {
        let (Some(file), number) = (self.number, self.chunks) else { return Ok(()) };
        self.chunks += 1;
        self.desk.check_health()?;
        self.desk.ask(move |files| files.add(file, number, &chunk)).await.map_err(failed)
    }
}

impl FileUpload for SqliteUpload {
    fn write(&mut self, mut bytes: Bytes) -> BoxFuture<'_, Result<(), FileError>> {
        async move {
            self.desk.grow(&self.file.topic, bytes.len() as u64)?;
            self.size += bytes.len() as u64;
            while !bytes.is_empty() {
                let taken = bytes.split_to(bytes.len().min(FILE_CHUNK_BYTES - self.chunk.len()));
                self.chunk.extend_from_slice(&taken);
                if self.chunk.len() == FILE_CHUNK_BYTES {
                    let chunk = std::mem::take(&mut self.chunk);
                    self.store_chunk(chunk).await?;
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn finish(mut self: Box<Self>, sha256: String) -> BoxFuture<'static, Result<StoredFile, FileError>> {
        async move {
            if !self.chunk.is_empty() {
                let chunk = std::mem::take(&mut self.chunk);
                self.store_chunk(chunk).await?;
            }
            let (Some(file), size, hash) = (self.number, self.size, sha256.clone()) else {
                return Err(FileError::Failed("the upload was not begun".into()));
            };
            let topic = self.file.topic.clone();
            if !self.desk.ask(move |files| files.finish((file, &topic), size, &hash)).await.map_err(failed)? {
                return Err(FileError::Removed);
            }
            self.is_finished = true;
            Ok(StoredFile { file: self.file.clone(), size, sha256 })
        }
        .boxed()
    }
}

impl Drop for SqliteUpload {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        self.desk.leave(&self.file.topic, &self.file.author, self.size);
        if let Some(file) = self.number {
            drop(self.desk.ask(move |files| files.delete(file)));
        }
    }
}

/// A file that was taken from its topic, and whose bytes are still to be removed.
struct AbandonedFile {
    row: i64,
    author: ParticipantId,
    bytes: u64,
}

/// The thread's connection.
pub(super) struct FileThread {
    desk: Arc<FileDesk>,
    path: PathBuf,
    /// `None` until it is needed: most logs have no files.
    db: Option<Connection>,
}

impl FileThread {
    pub(super) fn new(desk: Arc<FileDesk>, path: PathBuf) -> Self {
        Self { desk, path, db: None }
    }

    /// Works until the desk is closed.
    pub(super) fn serve(&mut self) {
        let desk = self.desk.clone();
        while let Some(job) = desk.jobs.pop() {
            job(self);
        }
    }

    /// Opens the database, making it where there is none.
    fn open_for_writing(&mut self) -> Result<(), SqliteFault> {
        self.db(true).map(|_| ())
    }

    /// The database; `None` where there is none and none is to be made.
    fn db(&mut self, makes: bool) -> Result<Option<&mut Connection>, SqliteFault> {
        if self.db.is_none() && (makes || self.path.exists()) {
            let db = connect(&self.path)?;
            // What was being uploaded when the last process ended is nobody's.
            db.execute_batch(
                "DELETE FROM chunks WHERE file IN (SELECT file FROM files WHERE sha256 IS NULL);
                 DELETE FROM files WHERE sha256 IS NULL",
            )?;
            let mut counts = FileCounts::default();
            for stored in list(&db)? {
                (counts.total, counts.files) = (counts.total + stored.size, counts.files + 1);
                *counts.authors.entry(stored.file.author).or_default() += 1;
                let known = counts.topics.entry(stored.file.topic).or_default();
                (known.bytes, known.files) = (known.bytes + stored.size, known.files + 1);
            }
            *self.desk.counts.lock() = counts;
            self.db = Some(db);
        }
        Ok(self.db.as_mut())
    }

    /// The database of a file that is being uploaded.
    fn opened(&mut self) -> Result<&mut Connection, SqliteFault> {
        self.db.as_mut().ok_or(SqliteFault::Damaged { what: "the database of the files" })
    }

    fn insert(&mut self, file: &NewFile) -> Result<i64, SqliteFault> {
        let NewFile { id, topic, name, mime_type, author, created } = file;
        let mut insert = self.opened()?.prepare_cached(
            "INSERT INTO files (id, topic, name, mime_type, author, created, size) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)",
        )?;
        let row = params![id.as_str(), topic.as_str(), name.as_str(), mime_type, author.as_str(), created.0];
        Ok(insert.insert(row)?)
    }

    fn add(&mut self, file: i64, number: u64, data: &[u8]) -> Result<(), SqliteFault> {
        let mut insert =
            self.opened()?.prepare_cached("INSERT INTO chunks (file, number, data) VALUES (?1, ?2, ?3)")?;
        insert.execute(params![file, number, data])?;
        Ok(())
    }

    /// Makes an upload a file; whether it was not removed meanwhile.
    fn finish(&mut self, (file, topic): (i64, &TopicName), size: u64, sha256: &str) -> Result<bool, SqliteFault> {
        // The commit that makes it a file is flushed, and with it the chunks before it.
        let db = self.opened()?;
        db.pragma_update(None, "synchronous", "FULL")?;
        let update = "UPDATE files SET size = ?3, sha256 = ?4 WHERE file = ?1 AND topic = ?2";
        let finished = db.execute(update, params![file, topic.as_str(), size, sha256])?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(finished > 0)
    }

    /// Takes everything from a topic: files are no files any more, and uploads cannot be finished. Gives the files; an
    /// upload removes its row itself, whose number is taken until then.
    fn abandon(&mut self, topic: &TopicName) -> Result<Vec<AbandonedFile>, SqliteFault> {
        let Some(db) = self.db(false)? else { return Ok(Vec::new()) };
        let step = db.transaction()?;
        let mut query = step.prepare("SELECT file, author, size FROM files WHERE topic = ?1 AND sha256 IS NOT NULL")?;
        let mut rows = query.query([topic.as_str()])?;
        let mut files = Vec::new();
        while let Some(row) = rows.next()? {
            files.push(AbandonedFile { row: row.get(0)?, author: author_in(row, 1)?, bytes: row.get(2)? });
        }
        drop(rows);
        drop(query);
        // No topic has this name. What is left of it when the process ends is removed like any unfinished upload.
        step.execute("UPDATE files SET topic = '', sha256 = NULL WHERE topic = ?1", [topic.as_str()])?;
        step.commit()?;
        Ok(files)
    }

    fn delete(&mut self, file: i64) -> Result<(), SqliteFault> {
        let step = self.opened()?.transaction()?;
        step.execute("DELETE FROM chunks WHERE file = ?1", [file])?;
        step.execute("DELETE FROM files WHERE file = ?1", [file])?;
        Ok(step.commit()?)
    }

    /// Removes what old frames of the write-ahead log have of deleted files. Where a backup reads them just now, they go with the next file.
    fn scrub(&mut self) -> Result<(), SqliteFault> {
        let Some(db) = self.db(false)? else { return Ok(()) };
        db.busy_timeout(Duration::ZERO)?;
        let truncated = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        db.busy_timeout(BUSY_TIMEOUT)?;
        Ok(truncated?)
    }

    /// Removes a file; whose it was, and its bytes.
    fn remove(&mut self, topic: &TopicName, id: &FileId) -> Result<Option<(ParticipantId, u64)>, SqliteFault> {
        let Some(stored) = self.find(topic, id)? else { return Ok(None) };
        let Some(db) = self.db(false)? else { return Ok(None) };
        let Some((file, size)) = row(db, topic, id)? else { return Ok(None) };
        self.delete(file)?;
        self.scrub()?;
        Ok(Some((stored.file.author, size)))
    }

    fn find(&mut self, topic: &TopicName, id: &FileId) -> Result<Option<StoredFile>, SqliteFault> {
        let Some(db) = self.db(false)? else { return Ok(None) };
        let mut query = db.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM files WHERE id = ?1 AND topic = ?2 AND sha256 IS NOT NULL"
        ))?;
        let mut rows = query.query([id.as_str(), topic.as_str()])?;
        rows.next()?.map(stored).transpose()
    }

    fn read(&mut self, topic: &TopicName, id: &FileId, offset: u64) -> Result<Bytes, SqliteFault> {
        let Some(db) = self.db(false)? else { return Ok(Bytes::new()) };
        let Some((file, size)) = row(db, topic, id)? else { return Ok(Bytes::new()) };
        if offset >= size {
            return Ok(Bytes::new());
        }
        let chunk_bytes = FILE_CHUNK_BYTES as u64;
        let mut query = db.prepare_cached("SELECT data FROM chunks WHERE file = ?1 AND number = ?2")?;
        let chunk: Option<Vec<u8>> =
            query.query_row(params![file, offset / chunk_bytes], |row| row.get(0)).optional()?;
        let mut chunk = Bytes::from(chunk.unwrap_or_default());
        let skip = usize::try_from(offset % chunk_bytes).unwrap_or(usize::MAX).min(chunk.len());
        Ok(chunk.split_off(skip))
    }

    fn list(&mut self) -> Result<Vec<StoredFile>, SqliteFault> {
        self.db(false)?.map_or(Ok(Vec::new()), |db| list(db))
    }
}

/// The row of a finished file, and its size.
fn row(db: &Connection, topic: &TopicName, id: &FileId) -> Result<Option<(i64, u64)>, SqliteFault> {
    let mut query =
        db.prepare_cached("SELECT file, size FROM files WHERE id = ?1 AND topic = ?2 AND sha256 IS NOT NULL")?;
    Ok(query.query_row([id.as_str(), topic.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn list(db: &Connection) -> Result<Vec<StoredFile>, SqliteFault> {
    let mut query = db.prepare(&format!("SELECT {COLUMNS} FROM files WHERE sha256 IS NOT NULL ORDER BY file"))?;
    let mut rows = query.query([])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        files.push(stored(row)?);
    }
    Ok(files)
}

fn damaged() -> SqliteFault {
    SqliteFault::Damaged { what: "a row of the files" }
}

fn author_in(row: &Row<'_>, column: usize) -> Result<ParticipantId, SqliteFault> {
    ParticipantId::new(row.get::<_, String>(column)?).map_err(|_| damaged())
}

fn stored(row: &Row<'_>) -> Result<StoredFile, SqliteFault> {
    let text = |at: usize| row.get::<_, String>(at);
    let file = NewFile {
        id: text(0)?.parse().map_err(|_| damaged())?,
        topic: TopicName::new(text(1)?).map_err(|_| damaged())?,
        name: text(2)?.parse().map_err(|_| damaged())?,
        mime_type: text(3)?,
        author: author_in(row, 4)?,
        created: Timestamp(row.get(5)?),
    };
    Ok(StoredFile { file, size: row.get(6)?, sha256: text(7)? })
}

fn connect(path: &Path) -> Result<Connection, SqliteFault> {
    // Made here, because SQLite would let everybody read it.
    super::private(path).map_err(|error| SqliteFault::FilesDatabase { why: error.to_string() })?;
    let db = Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA secure_delete = ON;
         PRAGMA cache_size = -4096;
         PRAGMA journal_size_limit = 16777216;",
    )?;
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (pragma("application_id")?, pragma("user_version")?) {
        (APPLICATION, VERSION) => Ok(db),
        (0, 0) => {
            db.execute_batch(&format!(
                "BEGIN; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT"
            ))?;
            Ok(db)
        }
        _ => Err(SqliteFault::Damaged { what: "the database of the files" }),
    }
}
