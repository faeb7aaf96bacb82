//! The log on one machine: SQLite, one writer thread with group commit, a few that read.
//!
//! A commit appends one row to a journal, whatever topics are in it; its entries stay in memory until many of them are settled
//! into the tables where they are read from (see `settle`). A killed process loses neither: the journal is read back.
//! Deliberately absent: other nodes, and any cache of what is settled beyond SQLite's own.

mod checkpoint;
mod context;
mod copy;
mod disk;
mod erase;
mod files;
mod fresh;
mod groups;
mod import;
mod journal;
mod look;
mod queue;
mod reader;
mod redact;
mod schema;
mod search;
mod settle;
mod settled;
mod stored;
mod sweep;
#[cfg(test)]
mod tests;
mod topic_states;
mod upkeep;
mod writer;

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use salon_protocol::{Entry, Envelope, EnvelopeId, ParticipantId, Position, Stamp, Timestamp, TopicName};
use tokio::sync::{oneshot, watch};

use self::checkpoint::Checkpointer;
pub use self::copy::{CopyError, LogSummary, copy, copy_files, known_version, renew_epoch, summarize};
use self::disk::{DiskGuard, FreeSpace};
pub use self::files::FILES_DATABASE;
use self::files::{FileDesk, FileThread};
pub use self::look::{Sight, look};
use self::queue::WorkQueue;
use self::reader::ReadSource;
use self::search::Indexer;
pub use self::search::SEARCH_DATABASE;
use self::writer::{SqliteAppend, Writer, WriterLimits, WriterRequest};
use crate::files::FileQuotas;
use crate::lease::Leases;
use crate::{
    AppendError, AppendFuture, Appended, Claim, Durability, Lapses, Lease, LogHealth, ReadError, RetentionRules, Span,
    Standing, StoredQuotas, Tail, TailSink, TopicLog, TopicSummary,
};

/// The database in a log's directory.
pub const DATABASE: &str = "log.db";
/// The file that is locked while a process has the log open.
pub const LOCK: &str = "log.lock";
/// The file that is there while a restore replaces the files of a directory. What it leaves behind when it is interrupted is neither
/// the old data nor the new, so nobody opens that.
pub const UNFINISHED_RESTORE: &str = "restore-unfinished";

const CLOSED: &str = "it has been closed";

/// Readers wait for the disk more than they compute, but each keeps a connection.
const READERS: usize = 2;

type Clock = Box<dyn Fn() -> Timestamp + Send>;

/// How a log is kept.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// What an acknowledgement is worth.
    pub durability: Durability,
    /// How long entries are kept.
    pub retention: RetentionRules,
    /// How many bytes of the disk are left free: with fewer, the log is read-only. Zero switches this off.
    pub disk_reserve: u64,
    /// How many bytes of entries and contexts are stored.
    pub quotas: StoredQuotas,
    /// How many bytes of files are stored.
    pub files: FileQuotas,
    /// How many bytes are free, for tests of the reserve.
    #[cfg(test)]
    free_space: Option<Arc<AtomicU64>>,
    /// The most pages the database may have, for tests of a full disk.
    #[cfg(test)]
    max_pages: Option<u32>,
    /// Milliseconds since 1970, for tests of age.
    #[cfg(test)]
    clock: Option<Arc<AtomicU64>>,
}

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another log of this one, has it open.
    #[error("the log in `{}` is in use by another process", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A restore has replaced some of the files, and not all.
    #[error(
        "a restore into `{}` was interrupted, and what is there is incomplete\n\nhint: run `salon restore FILE --force` again",
        path.display()
    )]
    Unfinished {
        /// The directory.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("`{}` is not a database", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database is somebody else's.
    #[error("`{}` is a database, but not a log of ours", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer version has made it.
    #[error("`{}` has version {found}, but this program knows versions up to {topic_states}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version known here.
        topic_states: usize,
    },
    /// The directory or a file in it could not be used.
    #[error("`{}` could not be opened", path.display())]
    Files {
        /// What could not be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// SQLite would not.
    #[error("the database `{}` could not be opened", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// What the database holds makes no sense.
    #[error("the database `{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not.
        what: String,
    },
}

/// What went wrong on a thread.
#[derive(Debug, thiserror::Error)]
enum SqliteFault {
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    #[error("a row of the journal is damaged")]
    Journal,
    #[error("the entry with the key {key} is damaged")]
    Entry { key: i64 },
    #[error("the topic name {name:?} is damaged")]
    Topic { name: String },
    #[error("the name {what:?} in a context is damaged")]
    Context { what: String },
    #[error("{what} is damaged")]
    Damaged { what: &'static str },
    #[error("the database of the files could not be used: {why}")]
    FilesDatabase { why: String },
    #[error("the file of the search index could not be used: {why}")]
    SearchFile { why: String },
    #[error("there is no number left for another topic or entry")]
    Exhausted,
}

/// A [`TopicLog`], a [`crate::ContextStore`], a [`crate::FileStore`] and a [`crate::TopicSearch`] in a directory of their own.
pub struct Sqlite {
    source: Arc<ReadSource>,
    files: Arc<FileDesk>,
    requests: Arc<WorkQueue<WriterRequest>>,
    leases: Leases,
    health: watch::Receiver<LogHealth>,
    durability: Durability,
    finished: watch::Receiver<bool>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Sqlite {
    /// Opens the log in a directory, making both where there is none.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<Self, OpenError> {
        Self::start(directory, options, None)
    }

    /// A new log in a directory for temporary files, which is removed when the log is closed.
    pub fn temporary(options: SqliteOptions) -> Result<Self, OpenError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("salon-log-{}-{time:x}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = Temporary(std::env::temp_dir().join(name));
        Self::start(&directory.0.clone(), options, Some(directory))
    }

    fn start(directory: &Path, options: SqliteOptions, temporary: Option<Temporary>) -> Result<Self, OpenError> {
        let Hold(lock) = hold(directory)?;
        let path = directory.join(DATABASE);
        let db = schema::open_writer(&path, options.durability)?;
        let opened =
            |result: rusqlite::Result<u32>| result.map_err(|source| OpenError::Database { path: path.clone(), source });
        let epoch = opened(schema::epoch(&db))?;
        #[cfg(test)]
        if let Some(pages) = options.max_pages {
            opened(db.pragma_update_and_check(None, "max_page_count", pages, |row| row.get(0)))?;
        }
        let source = Arc::new(ReadSource::new(epoch));
        let requests = Arc::new(WorkQueue::new());
        let (health, healthy) = watch::channel(LogHealth::Writable);
        let (finish, finished) = watch::channel(false);
        let (ready, recovered) = std::sync::mpsc::sync_channel(1);
        let clock = options.clock();
        let disk = DiskGuard::new(options.disk_reserve, options.free_space(directory));

        let mut readers = Vec::new();
        for _ in 0..READERS {
            let (db, source) = (schema::open_reader(&path)?, source.clone());
            readers.push(spawn("log-reader", &path, move || source.serve(db))?);
        }
        let log = schema::open_reader(&path)?;
        let mut indexer = Indexer::new(source.clone(), log, directory.join(SEARCH_DATABASE), healthy.clone());
        readers.push(spawn("log-search", &path, move || indexer.run())?);
        let desk = Arc::new(FileDesk::new(options.files, healthy.clone()));
        let mut files = FileThread::new(desk.clone(), directory.join(FILES_DATABASE));
        readers.push(spawn("log-files", &path, move || files.serve())?);
        let database = File::open(&path).map_err(|source| OpenError::Files { path: path.clone(), source })?;
        let database = Arc::new(database);
        let checkpointer = Checkpointer::start(&path, database.clone())?;
        let end = WriterCleanup {
            source: source.clone(),
            files: desk.clone(),
            requests: requests.clone(),
            health,
            readers,
            db: Some(db),
            database: Some(database),
            lock: Some(lock),
            temporary,
            finish,
        };
        let limits =
            WriterLimits { durability: options.durability, retention: options.retention, disk, quotas: options.quotas };
        let writer = spawn("log-writer", &path, move || {
            let db = end.db.as_ref().expect("it is taken only at the end");
            match Writer::new(db, end.source.clone(), limits, clock, end.health.clone()) {
                Ok(mut writer) => {
                    writer.checkpointer = Some(checkpointer);
                    let _ = ready.send(Ok(()));
                    writer.run(&end.requests);
                }
                Err(fault) => _ = ready.send(Err(fault)),
            }
        })?;
        let log = Self {
            source,
            files: desk,
            requests,
            leases: Leases::default(),
            health: healthy,
            durability: options.durability,
            finished,
            writer: Mutex::new(Some(writer)),
        };
        match recovered.recv() {
            Ok(Ok(())) => Ok(log),
            Ok(Err(SqliteFault::Database(source))) => Err(OpenError::Database { path, source }),
            Ok(Err(fault)) => Err(OpenError::Damaged { path, what: fault.to_string() }),
            Err(_) => Err(OpenError::Damaged { path, what: "the journal could not be read back".into() }),
        }
    }

    /// Applies the retention to everything appended before this call; done when the future resolves.
    pub fn trim_now(&self) -> BoxFuture<'static, ()> {
        let (reply, done) = oneshot::channel();
        let _ = self.requests.push(WriterRequest::Trim(reply));
        done.map(|_| ()).boxed()
    }
}

impl Drop for Sqlite {
    /// Waits for the writer, which waits for nobody but the disk.
    fn drop(&mut self) {
        self.requests.close();
        let writer = self.writer.lock().take();
        if let Some(writer) = writer.filter(|writer| writer.thread().id() != thread::current().id()) {
            // A panic of the writer has been reported where it happened.
            let _ = writer.join();
        }
    }
}

impl TopicLog for Sqlite {
    fn append_stamped(
        &self,
        topic: &TopicName,
        envelope: Envelope,
        stamp: Option<Stamp>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        self.submit(topic, envelope, stamp).boxed()
    }

    fn submit(&self, topic: &TopicName, envelope: Envelope, stamp: Option<Stamp>) -> AppendFuture {
        let (reply, outcome) = AppendFuture::channel();
        // A queue that is closed gives the request back, and dropping that says so.
        let _ = self.requests.push_deferred(WriterRequest::Append(SqliteAppend {
            topic: topic.clone(),
            envelope,
            stamp,
            reply,
        }));
        outcome
    }

    fn delete(&self, topic: &TopicName, notice: Envelope) -> BoxFuture<'static, Result<Appended, AppendError>> {
        // The writer erases what a notice deletes, before it acknowledges the notice.
        self.append(topic, notice)
    }

    fn read(
        &self,
        topic: &TopicName,
        span: Span,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>> {
        self.source.read(topic, span, limit)
    }

    fn tail(&self, topic: &TopicName, after: Position) -> Tail {
        crate::tail::tail(self.source.clone(), topic.clone(), after, None)
    }

    fn tail_into(&self, topic: &TopicName, after: Position, sink: Weak<dyn TailSink>) -> Tail {
        crate::tail::tail(self.source.clone(), topic.clone(), after, Some(sink))
    }

    fn find(&self, topic: &TopicName, id: &EnvelopeId) -> BoxFuture<'static, Result<Option<Arc<Entry>>, ReadError>> {
        self.source.find(topic, id)
    }

    fn standing(&self, topic: &TopicName) -> BoxFuture<'static, Result<Standing, ReadError>> {
        self.source.standing(topic)
    }

    fn claim(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        claim: Claim,
        lost: Box<dyn FnOnce() + Send + Sync>,
    ) -> BoxFuture<'static, Result<Lease, ReadError>> {
        std::future::ready(Ok(self.leases.claim(topic, participant, claim, lost))).boxed()
    }

    fn roster(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<ParticipantId>, ReadError>> {
        std::future::ready(Ok(self.leases.roster(topic))).boxed()
    }

    fn is_elsewhere(&self, _: &TopicName, _: &ParticipantId) -> bool {
        false
    }

    fn lapses(&self) -> Lapses {
        // A lease ends with its process, and there is one process.
        stream::pending().boxed()
    }

    fn gone(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<TopicSummary>, ReadError>> {
        self.source.topics()
    }

    fn health(&self) -> watch::Receiver<LogHealth> {
        self.health.clone()
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.requests.close();
        let mut finished = self.finished.clone();
        async move {
            // An error means that the writer is gone, which is as good.
            let _ = finished.wait_for(|finished| *finished).await;
        }
        .boxed()
    }
}

/// A directory that is this process's own until dropped, as that of an open log is.
#[derive(Debug)]
pub struct Hold(File);

/// Takes a directory without opening a log in it, for a process that keeps other things there.
pub fn hold(directory: &Path) -> Result<Hold, OpenError> {
    let hold = hold_for_restore(directory)?;
    refuse_unfinished(directory)?;
    Ok(hold)
}

/// Takes a directory in order to replace what is in it, even where an earlier restore was interrupted.
pub fn hold_for_restore(directory: &Path) -> Result<Hold, OpenError> {
    lock(directory).map(Hold)
}

/// Refuses a directory in which a restore was interrupted.
pub fn refuse_unfinished(directory: &Path) -> Result<(), OpenError> {
    match directory.join(UNFINISHED_RESTORE).exists() {
        true => Err(OpenError::Unfinished { path: directory.into() }),
        false => Ok(()),
    }
}

/// Takes a directory for this process, or says that another has it.
fn lock(directory: &Path) -> Result<File, OpenError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| OpenError::Files { path, source }
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let path = directory.join(LOCK);
    let file = private(&path).map_err(failed(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: directory.into() }),
        Err(TryLockError::Error(error)) => Err(failed(&path)(error)),
    }
}

/// Opens a file for writing that only its owner may read, making it where there is none.
fn private(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path)
}

fn spawn(name: &str, path: &Path, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    spawned.map_err(|source| OpenError::Files { path: path.into(), source })
}

/// What is left to do when the writer's thread ends, however it ends.
struct WriterCleanup {
    source: Arc<ReadSource>,
    files: Arc<FileDesk>,
    requests: Arc<WorkQueue<WriterRequest>>,
    health: watch::Sender<LogHealth>,
    readers: Vec<JoinHandle<()>>,
    db: Option<rusqlite::Connection>,
    database: Option<Arc<File>>,
    lock: Option<File>,
    temporary: Option<Temporary>,
    finish: watch::Sender<bool>,
}

impl Drop for WriterCleanup {
    fn drop(&mut self) {
        if thread::panicking() {
            self.health.send_replace(LogHealth::Stopped("the writer has failed".into()));
        }
        self.requests.close();
        // Empty unless the writer failed; requests that wait for an answer end with an error.
        self.requests.take(&mut VecDeque::new(), Duration::ZERO);
        self.source.hub.close();
        self.source.changes.close();
        self.source.close();
        self.files.close();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        // The last connection to close removes the write-ahead log; only then may another process come.
        drop(self.db.take());
        drop(self.database.take());
        drop(self.lock.take());
        drop(self.temporary.take());
        self.finish.send_replace(true);
    }
}

/// A directory that is removed with this value.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "sqlite: temporary directory not removed");
        }
    }
}

impl SqliteOptions {
    fn clock(&self) -> Clock {
        #[cfg(test)]
        if let Some(clock) = self.clock.clone() {
            return Box::new(move || Timestamp(clock.load(Ordering::SeqCst)));
        }
        Box::new(|| Timestamp::from_system(SystemTime::now()))
    }

    fn free_space(&self, directory: &Path) -> (FreeSpace, Duration) {
        #[cfg(test)]
        if let Some(free) = self.free_space.clone() {
            return (Box::new(move || Ok(free.load(Ordering::SeqCst))), Duration::ZERO);
        }
        (disk::of_directory(directory), disk::VALID_FOR)
    }
}
