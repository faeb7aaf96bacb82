//! The files of topics on NATS: one stream, with a subject for the record of a file and one for each of its chunks.
//!
//! Every node follows the stream without the bytes, so the quotas count what all nodes store, uploads included. Nodes that store chunks at the
//! same moment do not see each other's yet: together they exceed a quota by at most the chunks that are on their way. What is read comes
//! from the stream's leader.
//!
//! A file that is removed gets a tombstone, which followers see, before its messages are purged; the tombstone expires. What a node left
//! behind that ended during an upload is removed after [`UPLOAD_EXPIRY`].
//!
//! Deliberately absent: NATS's object store. It reads an object from its beginning only, where a range of a file is one chunk here, and
//! it has no count of what a topic has.

mod index;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Timestamp, TopicName};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::index::{FileIndex, FileKey, FileRecord, RECORD_HEADER};
use super::fault::NatsFault;
use super::follow::{Course, Follow, expecting};
use super::lag::lagging;
use super::layout;
use super::names::token;
use super::open::OpenError;
use super::{Nats, Shared};
use crate::ReadError;
use crate::files::{FILE_CHUNK_BYTES, FileError, FileId, FileQuotas, FileStore, FileUpload, NewFile, StoredFile};

const TTL: &str = "Nats-TTL";
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// How long it is remembered that a file was removed, for nodes that were cut off meanwhile.
const TOMBSTONE_TTL: Duration = Duration::from_secs(60 * 60);
/// A node that followed nothing for so long reads everything again: a tombstone may have expired meanwhile.
const MAX_INTERRUPTION: Duration = Duration::from_secs(30 * 60);
/// How long an upload may take. A gateway ends it earlier.
const UPLOAD_EXPIRY: Duration = Duration::from_secs(20 * 60);
/// Between two looks for uploads that expired.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// A [`FileStore`] on the servers of a log.
pub struct NatsFiles {
    core: Arc<FilesCore>,
    log: Arc<Nats>,
    /// Following, and removing what expired. Ends with this.
    _tasks: JoinSet<()>,
}

struct FilesCore {
    shared: Arc<Shared>,
    stream: String,
    quotas: FileQuotas,
    index: Mutex<FileIndex>,
    /// How far the stream has been followed; `None` until everything was read once.
    head: watch::Sender<Option<u64>>,
}

fn config(shared: &Shared, stream: &str) -> Config {
    Config {
        name: stream.to_owned(),
        subjects: vec![format!("{}.files.>", shared.options.name)],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        num_replicas: shared.replicas,
        max_messages_per_subject: 1,
        allow_direct: true,
        allow_message_ttl: true,
        ..Config::default()
    }
}

impl NatsFiles {
    /// Makes the stream where there is none, and follows it.
    pub async fn open(log: &Arc<Nats>, quotas: FileQuotas) -> Result<Self, OpenError> {
        let shared = log.shared.clone();
        let stream = format!("{}-files", shared.options.name);
        layout::make(&shared.link, config(&shared, &stream)).await?;
        let runtime = shared.runtime.clone();
        let core =
            Arc::new(FilesCore { shared, stream, quotas, index: Mutex::default(), head: watch::Sender::new(None) });
        let mut tasks = JoinSet::new();
        tasks.spawn_on(core.clone().follow(), &runtime);
        tasks.spawn_on(core.clone().remove_expired(), &runtime);
        Ok(Self { core, log: log.clone(), _tasks: tasks })
    }

    /// The log whose servers have them.
    pub fn log(&self) -> &Arc<Nats> {
        &self.log
    }

    /// How many bytes they may have.
    pub fn quotas(&self) -> FileQuotas {
        self.core.quotas
    }
}

impl FilesCore {
    fn index(&self) -> MutexGuard<'_, FileIndex> {
        self.index.lock()
    }

    fn prefix(&self) -> String {
        format!("{}.files.", self.shared.options.name)
    }

    fn record_subject(&self, key: &FileKey) -> String {
        format!("{}{key}.file", self.prefix())
    }

    fn chunk_subject(&self, key: &FileKey, number: u64) -> String {
        format!("{}{key}.{number}", self.prefix())
    }

    /// The chunks of a new file: what a message takes, also in base64 with a request around it, as the leader sends it.
    fn chunk_bytes(&self) -> usize {
        FILE_CHUNK_BYTES.min(self.shared.link.longest() / 2)
    }

    async fn follow(self: Arc<Self>) {
        let mut interrupted: Option<Instant> = None;
        loop {
            if interrupted.is_some_and(|since| since.elapsed() > MAX_INTERRUPTION) {
                self.start_over();
            }
            if self.follow_once().await.is_ok() {
                interrupted = None;
            }
            interrupted.get_or_insert_with(Instant::now);
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    fn start_over(&self) {
        self.head.send_replace(None);
        self.index().clear();
    }

    /// Follows the stream until something is odd. An error where it was not followed at all.
    async fn follow_once(&self) -> Result<(), NatsFault> {
        let link = &self.shared.link;
        let last = self.shared.described(&self.stream).await?.state.last_sequence;
        let head = *self.head.borrow();
        if head.is_some_and(|head| head > last) {
            // A leader that was just elected may be late, or the stream was made again. Either way what is there counts.
            self.start_over();
            return Err(NatsFault::unavailable("the stream of the files has less than was followed"));
        }
        let from = match head {
            None => DeliverPolicy::All,
            Some(head) => DeliverPolicy::ByStartSequence { start_sequence: head + 1 },
        };
        if head.is_none() {
            // An attempt before may have read some of it.
            self.index().clear();
        }
        let course = Course { stream: &self.stream, from, filter: None, headers_only: true };
        let mut follow = Follow::begin(link, course).await?;
        let followed = watch::Sender::new(last);
        let lagging = lagging(link, &self.stream, followed.subscribe());
        tokio::pin!(lagging);
        loop {
            if follow.has_caught_up() {
                // The last messages may have been purged: nothing of them is to come.
                let reached = self.index().head().max(last);
                self.head.send_replace(Some(reached));
                followed.send_replace(reached);
            }
            let next = tokio::select! { biased;
                next = follow.next() => next,
                () = &mut lagging => None,
            };
            let Some(messages) = next else { return Ok(()) };
            let (prefix, mut index) = (self.prefix(), self.index());
            messages.iter().for_each(|message| index.take(&prefix, message));
            if let Some(newest) = messages.last() {
                followed.send_modify(|last| *last = newest.sequence.max(*last));
            }
        }
    }

    /// Waits until the index has a message.
    async fn reach(&self, sequence: u64) -> Result<(), NatsFault> {
        let mut head = self.head.subscribe();
        let reached = head.wait_for(|head| head.is_some_and(|head| head >= sequence));
        match tokio::time::timeout(self.shared.link.timings.append_timeout, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(NatsFault::unavailable("the newest of the files has not come yet")),
        }
    }

    /// Waits until the index has everything that is stored now.
    async fn freshen(&self) -> Result<(), NatsFault> {
        let last = self.shared.described(&self.stream).await?.state.last_sequence;
        self.reach(last).await
    }

    /// Stores a message, retrying while nobody answers. A second copy has the subject of the first, and takes its place.
    async fn store(&self, subject: String, headers: HeaderMap, payload: Bytes) -> Result<u64, NatsFault> {
        let by = Instant::now() + self.shared.link.timings.append_timeout;
        loop {
            match self.shared.link.store(subject.clone(), headers.clone(), payload.clone()).await {
                Err(NatsFault::Unavailable(_)) if Instant::now() < by => tokio::time::sleep(RETRY_DELAY).await,
                stored => return stored,
            }
        }
    }

    /// The record of a file, and its revision.
    async fn record(&self, topic: &TopicName, id: &FileId) -> Result<Option<(u64, FileRecord)>, NatsFault> {
        let key = FileKey::new(topic, id);
        let Some(stored) = self.shared.link.newest(&self.stream, &self.record_subject(&key)).await? else {
            return Ok(None);
        };
        let record = FileRecord::of(&stored)?;
        Ok(record.filter(|record| record.topic == *topic).map(|record| (stored.sequence, record)))
    }

    async fn find(&self, topic: &TopicName, id: &FileId) -> Result<Option<StoredFile>, NatsFault> {
        let found = self.record(topic, id).await?;
        Ok(found.and_then(|(_, record)| record.stored(id)))
    }

    async fn read(&self, topic: &TopicName, id: &FileId, offset: u64) -> Result<Bytes, NatsFault> {
        let key = FileKey::new(topic, id);
        let known = self.index().record(&key).filter(|record| record.topic == *topic).cloned();
        let record = match known.filter(|record| record.sha256.is_some()) {
            Some(record) => record,
            None => match self.record(topic, id).await? {
                Some((_, record)) if record.sha256.is_some() => record,
                _ => return Ok(Bytes::new()),
            },
        };
        if offset >= record.size || record.chunk == 0 {
            return Ok(Bytes::new());
        }
        let subject = self.chunk_subject(&key, offset / record.chunk);
        let Some(chunk) = self.shared.link.newest(&self.stream, &subject).await? else { return Ok(Bytes::new()) };
        let mut bytes = chunk.payload;
        let skip = usize::try_from(offset % record.chunk).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes.split_off(skip))
    }

    /// Tells everybody that a file is gone, then purges it.
    async fn discard(&self, key: &FileKey) -> Result<(), NatsFault> {
        let mut headers = HeaderMap::new();
        headers.insert(RECORD_HEADER, "");
        headers.insert(TTL, format!("{}s", TOMBSTONE_TTL.as_secs()));
        let tombstone = self.store(self.record_subject(key), headers, Bytes::new()).await?;
        self.shared.link.purge(&self.stream, Some(&format!("{}{key}.>", self.prefix())), tombstone).await?;
        self.reach(tombstone).await
    }

    async fn remove(&self, topic: &TopicName, id: &FileId) -> Result<(), NatsFault> {
        match self.record(topic, id).await? {
            Some(_) => self.discard(&FileKey::new(topic, id)).await,
            None => Ok(()),
        }
    }

    /// Removes everything of a topic. An upload that goes on finds its record replaced.
    async fn remove_topic(&self, topic: &TopicName) -> Result<(), NatsFault> {
        self.freshen().await?;
        let keys = self.index().keys_of(&token(topic.as_str()));
        for key in keys {
            self.discard(&key).await?;
        }
        Ok(())
    }

    /// Removes uploads that nobody will finish, now and then.
    async fn remove_expired(self: Arc<Self>) {
        loop {
            tokio::time::sleep(EXPIRY_INTERVAL).await;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let before = now.saturating_sub(UPLOAD_EXPIRY).as_millis();
            let expired = self.index().unfinished_before(Timestamp(u64::try_from(before).unwrap_or_default()));
            for key in expired {
                if let Err(fault) = self.discard(&key).await {
                    tracing::warn!(%fault, "files: expired upload not removed, retrying later");
                }
            }
        }
    }

    async fn begin(self: Arc<Self>, file: NewFile) -> Result<NatsUpload, FileError> {
        if let Some(why) = self.shared.trouble() {
            return Err(FileError::Unavailable(why));
        }
        self.freshen().await.map_err(not_stored)?;
        let key = FileKey::new(&file.topic, &file.id);
        self.index().check_count(&token(file.topic.as_str()), &file.author, &self.quotas)?;
        let chunk = self.chunk_bytes();
        // What it has stored is removed when it is dropped, wherever this ends.
        let mut upload =
            NatsUpload { core: self.clone(), file, key, revision: 0, size: 0, chunk, waiting: Vec::new(), count: 0 };
        let headers = upload.record(None).headers();
        let stored = self.store(self.record_subject(&upload.key), headers, Bytes::new()).await;
        upload.revision = stored.map_err(not_stored)?;
        self.reach(upload.revision).await.map_err(not_stored)?;
        Ok(upload)
    }
}

fn not_stored(fault: NatsFault) -> FileError {
    match fault {
        NatsFault::Unavailable(why) => FileError::Unavailable(why),
        fault => {
            tracing::error!(%fault, "files: store failed, request refused");
            FileError::Failed(fault.to_string().into())
        }
    }
}

impl FileStore for NatsFiles {
    fn begin(&self, file: NewFile) -> BoxFuture<'static, Result<Box<dyn FileUpload>, FileError>> {
        let begun = self.core.clone().begin(file);
        begun.map(|begun| begun.map(|upload| Box::new(upload) as Box<dyn FileUpload>)).boxed()
    }

    fn find(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<Option<StoredFile>, ReadError>> {
        let (core, topic, id) = (self.core.clone(), topic.clone(), id.clone());
        async move { Ok(core.find(&topic, &id).await?) }.boxed()
    }

    fn read(&self, topic: &TopicName, id: &FileId, offset: u64) -> BoxFuture<'static, Result<Bytes, ReadError>> {
        let (core, topic, id) = (self.core.clone(), topic.clone(), id.clone());
        async move { Ok(core.read(&topic, &id, offset).await?) }.boxed()
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<StoredFile>, ReadError>> {
        let core = self.core.clone();
        async move {
            core.freshen().await?;
            Ok(core.index().finished())
        }
        .boxed()
    }

    fn remove(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<(), FileError>> {
        let (core, topic, id) = (self.core.clone(), topic.clone(), id.clone());
        async move { core.remove(&topic, &id).await.map_err(not_stored) }.boxed()
    }

    fn remove_topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<(), FileError>> {
        let (core, topic) = (self.core.clone(), topic.clone());
        async move { core.remove_topic(&topic).await.map_err(not_stored) }.boxed()
    }
}

struct NatsUpload {
    core: Arc<FilesCore>,
    file: NewFile,
    key: FileKey,
    /// Of its record; 0 while none is known to be stored.
    revision: u64,
    /// The bytes that were stored.
    size: u64,
    chunk: usize,
    /// Less than a chunk.
    waiting: Vec<u8>,
    /// How many chunks were stored.
    count: u64,
}

impl NatsUpload {
    fn record(&self, sha256: Option<String>) -> FileRecord {
        let NewFile { topic, name, mime_type, author, created, .. } = self.file.clone();
        let (size, chunk) = (self.size, self.chunk as u64);
        FileRecord { topic, name: name.to_string(), mime_type, author, created: created.0, size, chunk, sha256 }
    }

    async fn store_chunk(&mut self) -> Result<(), FileError> {
        let bytes = Bytes::from(std::mem::take(&mut self.waiting));
        let (core, length) = (&self.core, bytes.len() as u64);
        core.index().reserve(&self.key, self.count, length, &core.quotas)?;
        let subject = core.chunk_subject(&self.key, self.count);
        let stored = match core.store(subject, HeaderMap::new(), bytes).await {
            Ok(sequence) => core.reach(sequence).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = stored {
            core.index().release(&self.key, self.count);
            return Err(not_stored(fault));
        }
        (self.size, self.count) = (self.size + length, self.count + 1);
        Ok(())
    }

    async fn store_record(&mut self, sha256: &str) -> Result<(), FileError> {
        let (core, subject) = (self.core.clone(), self.core.record_subject(&self.key));
        let mut headers = self.record(Some(sha256.to_owned())).headers();
        for (name, values) in expecting(self.revision).iter() {
            values.iter().for_each(|value| headers.insert(name.clone(), value.clone()));
        }
        let stored = match core.store(subject, headers, Bytes::new()).await {
            // A first attempt may have been stored without an answer. Otherwise the upload was removed.
            Err(NatsFault::Raced) => match core.record(&self.file.topic, &self.file.id).await {
                Ok(Some((sequence, record))) if record.sha256.as_deref() == Some(sha256) => Ok(sequence),
                Ok(_) => return Err(FileError::Removed),
                Err(fault) => Err(fault),
            },
            stored => stored,
        };
        let sequence = stored.map_err(not_stored)?;
        core.reach(sequence).await.map_err(not_stored)
    }
}

impl FileUpload for NatsUpload {
    fn write(&mut self, mut bytes: Bytes) -> BoxFuture<'_, Result<(), FileError>> {
        async move {
            while !bytes.is_empty() {
                let taken = bytes.split_to(bytes.len().min(self.chunk - self.waiting.len()));
                self.waiting.extend_from_slice(&taken);
                if self.waiting.len() == self.chunk {
                    self.store_chunk().await?;
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn finish(mut self: Box<Self>, sha256: String) -> BoxFuture<'static, Result<StoredFile, FileError>> {
        async move {
            if !self.waiting.is_empty() {
                self.store_chunk().await?;
            }
            self.store_record(&sha256).await?;
            self.revision = FINISHED;
            Ok(StoredFile { file: self.file.clone(), size: self.size, sha256 })
        }
        .boxed()
    }
}

/// The revision of an upload that is a file now.
const FINISHED: u64 = u64::MAX;

impl Drop for NatsUpload {
    fn drop(&mut self) {
        if self.revision == FINISHED {
            return;
        }
        let (core, key) = (self.core.clone(), self.key.clone());
        core.index().release(&key, self.count);
        // Closing the log waits for it. Should it fail, the upload expires.
        let shared = core.shared.clone();
        let mut lanes = shared.lanes.lock();
        lanes.spawn_on(async move { drop(core.discard(&key).await) }, &shared.runtime);
    }
}
