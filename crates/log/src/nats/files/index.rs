//! What a node knows of the files by following their stream: records, bytes, and chunks that are on their way.
//!
//! Invariant: pure. No clock and no connection. A message that comes twice counts once.

use std::collections::HashMap;
use std::fmt;

use async_nats::HeaderMap;
use salon_protocol::{ParticipantId, Timestamp, TopicName};
use serde::{Deserialize, Serialize};

use super::super::fault::NatsFault;
use super::super::link::Stored;
use super::super::names::token;
use crate::files::{FileError, FileId, FileQuotas, FileScope, MAX_FILES, MAX_TOPIC_FILES, NewFile, StoredFile};

/// Where a message has the record of its file; nothing stands there in a tombstone.
pub(super) const RECORD_HEADER: &str = "Salon-File";
/// Where a server says how long a payload is that it does not send.
const SIZE_HEADER: &str = "Nats-Msg-Size";
/// The last token of a record's subject. Those of chunks are numbers.
const RECORD: &str = "file";

/// What the subjects of a file begin with: the digest of its topic, and its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    topic: String,
    id: String,
}

impl FileKey {
    pub(super) fn new(topic: &TopicName, id: &FileId) -> Self {
        Self { topic: token(topic.as_str()), id: id.to_string() }
    }
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.topic, self.id)
    }
}

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) topic: TopicName,
    pub(super) name: String,
    pub(super) mime_type: String,
    pub(super) author: ParticipantId,
    /// In milliseconds.
    pub(super) created: u64,
    pub(super) size: u64,
    /// How long its chunks are, but for the last.
    pub(super) chunk: u64,
    /// `None` while it is being uploaded.
    pub(super) sha256: Option<String>,
}

impl FileRecord {
    /// The record in a message; `None` for a tombstone.
    pub(super) fn of(stored: &Stored) -> Result<Option<Self>, NatsFault> {
        let damaged = || NatsFault::Damaged("the record of a file".into());
        match stored.headers.get(RECORD_HEADER).ok_or_else(damaged)?.as_str() {
            "" => Ok(None),
            text => serde_json::from_str(text).map(Some).map_err(|_| damaged()),
        }
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(RECORD_HEADER, serde_json::to_string(self).expect("a record is plain JSON"));
        headers
    }

    /// The file, once it is one.
    pub(super) fn stored(self, id: &FileId) -> Option<StoredFile> {
        let Self { topic, name, mime_type, author, created, size, sha256, .. } = self;
        let name = name.parse().ok()?;
        let file = NewFile { id: id.clone(), topic, name, mime_type, author, created: Timestamp(created) };
        Some(StoredFile { file, size, sha256: sha256? })
    }
}

#[derive(Debug, Default)]
struct IndexedFile {
    record: Option<FileRecord>,
    /// The bytes of each chunk, those included that are on their way.
    chunks: HashMap<u64, u64>,
    /// When the newest of its messages was stored.
    newest: u64,
}

impl IndexedFile {
    fn is_finished(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.sha256.is_some())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FileIndex {
    head: u64,
    total: u64,
    topics: HashMap<String, TopicBytes>,
    files: HashMap<FileKey, IndexedFile>,
    /// The files and uploads of each author.
    authors: HashMap<ParticipantId, u64>,
}

#[derive(Debug, Default)]
struct TopicBytes {
    bytes: u64,
    files: u64,
}

impl FileIndex {
    /// The newest message.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes what the stream has next.
    pub(super) fn take(&mut self, prefix: &str, stored: &Stored) {
        self.head = self.head.max(stored.sequence);
        let mut tokens = stored.subject.strip_prefix(prefix).unwrap_or_default().split('.');
        let (Some(topic), Some(id), Some(part)) = (tokens.next(), tokens.next(), tokens.next()) else { return };
        let key = FileKey { topic: topic.to_owned(), id: id.to_owned() };
        if part != RECORD {
            let bytes = stored.headers.get(SIZE_HEADER).and_then(|size| size.as_str().parse().ok());
            if let Ok(number) = part.parse() {
                self.set_chunk(&key, number, Some(bytes.unwrap_or_default()));
                self.file(&key).newest = stored.time.0;
            }
            return;
        }
        match FileRecord::of(stored) {
            Ok(None) => self.remove(&key),
            Ok(Some(record)) => {
                let author = record.author.clone();
                let file = self.file(&key);
                let before = file.record.replace(record).map(|before| before.author);
                file.newest = stored.time.0;
                if let Some(before) = before {
                    self.release_author(&before);
                }
                *self.authors.entry(author).or_default() += 1;
            }
            Err(_) => tracing::error!(file = id, "files: record unreadable, ignoring it"),
        }
    }

    fn file(&mut self, key: &FileKey) -> &mut IndexedFile {
        if !self.files.contains_key(key) {
            self.topics.entry(key.topic.clone()).or_default().files += 1;
        }
        self.files.entry(key.clone()).or_default()
    }

    /// Counts a chunk, or takes it off.
    fn set_chunk(&mut self, key: &FileKey, number: u64, bytes: Option<u64>) {
        let chunks = &mut self.file(key).chunks;
        let before = match bytes {
            Some(bytes) => chunks.insert(number, bytes),
            None => chunks.remove(&number),
        };
        let (before, now) = (before.unwrap_or_default(), bytes.unwrap_or_default());
        self.total = (self.total + now).saturating_sub(before);
        let topic = self.topics.entry(key.topic.clone()).or_default();
        topic.bytes = (topic.bytes + now).saturating_sub(before);
    }

    fn release_author(&mut self, author: &ParticipantId) {
        if let Some(files) = self.authors.get_mut(author) {
            *files = files.saturating_sub(1);
            if *files == 0 {
                self.authors.remove(author);
            }
        }
    }

    fn remove(&mut self, key: &FileKey) {
        let Some(file) = self.files.remove(key) else { return };
        if let Some(record) = &file.record {
            self.release_author(&record.author);
        }
        let bytes: u64 = file.chunks.values().sum();
        self.total = self.total.saturating_sub(bytes);
        if let Some(topic) = self.topics.get_mut(&key.topic) {
            topic.bytes = topic.bytes.saturating_sub(bytes);
            topic.files = topic.files.saturating_sub(1);
            if topic.files == 0 {
                self.topics.remove(&key.topic);
            }
        }
    }

    /// Counts a chunk that is about to be stored, where the quotas allow it.
    pub(super) fn reserve(
        &mut self,
        key: &FileKey,
        number: u64,
        bytes: u64,
        quotas: &FileQuotas,
    ) -> Result<(), FileError> {
        let is_over = |limit: u64, held: u64| limit > 0 && held.saturating_add(bytes) > limit;
        if is_over(quotas.topic, self.topics.get(&key.topic).map_or(0, |topic| topic.bytes)) {
            return Err(FileError::Quota { scope: FileScope::Topic, limit: quotas.topic });
        }
        if is_over(quotas.total, self.total) {
            return Err(FileError::Quota { scope: FileScope::Gateway, limit: quotas.total });
        }
        self.set_chunk(key, number, Some(bytes));
        Ok(())
    }

    /// Takes off a chunk that was not stored.
    pub(super) fn release(&mut self, key: &FileKey, number: u64) {
        if self.files.get(key).is_some_and(|file| file.chunks.contains_key(&number)) {
            self.set_chunk(key, number, None);
        }
    }

    /// Whether a topic, by its digest, and an author may have one more file or upload.
    pub(super) fn check_count(
        &self,
        topic: &str,
        author: &ParticipantId,
        quotas: &FileQuotas,
    ) -> Result<(), FileError> {
        if self.files.len() as u64 >= MAX_FILES {
            return Err(FileError::TooMany { scope: FileScope::Gateway, limit: MAX_FILES });
        }
        if self.topics.get(topic).is_some_and(|topic| topic.files >= MAX_TOPIC_FILES) {
            return Err(FileError::TooMany { scope: FileScope::Topic, limit: MAX_TOPIC_FILES });
        }
        let limit = quotas.author_files;
        match self.authors.get(author).is_some_and(|files| *files >= limit) {
            true => Err(FileError::TooMany { scope: FileScope::Author, limit }),
            false => Ok(()),
        }
    }

    /// The files and uploads of a topic, by its digest.
    pub(super) fn keys_of(&self, topic: &str) -> Vec<FileKey> {
        self.files.keys().filter(|key| key.topic == topic).cloned().collect()
    }

    pub(super) fn record(&self, key: &FileKey) -> Option<&FileRecord> {
        self.files.get(key)?.record.as_ref()
    }

    /// Every file, the oldest first.
    pub(super) fn finished(&self) -> Vec<StoredFile> {
        let stored = |(key, file): (&FileKey, &IndexedFile)| file.record.clone()?.stored(&key.id.parse().ok()?);
        let mut files: Vec<_> = self.files.iter().filter_map(stored).collect();
        files.sort_by(|a, b| (a.file.created, &a.file.id).cmp(&(b.file.created, &b.file.id)));
        files
    }

    /// What is no file, and has not grown since a moment.
    pub(super) fn unfinished_before(&self, time: Timestamp) -> Vec<FileKey> {
        let is_over = |file: &IndexedFile| !file.is_finished() && file.newest < time.0;
        self.files.iter().filter(|(_, file)| is_over(file)).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const QUOTAS: FileQuotas = FileQuotas { topic: 100, total: 150, author_files: 2 };

    fn key(topic: &str, number: u8) -> FileKey {
        FileKey::new(&TopicName::new(topic).expect("a topic"), &FileId::from_bytes([number; 16]))
    }

    fn message(key: &FileKey, part: &str, sequence: u64, headers: HeaderMap) -> Stored {
        let subject = format!("salon.files.{key}.{part}");
        Stored { sequence, time: Timestamp(1000 * sequence), subject, headers, payload: Bytes::new() }
    }

    fn chunk(index: &mut FileIndex, key: &FileKey, number: u64, sequence: u64, bytes: u64) {
        let mut headers = HeaderMap::new();
        headers.insert(SIZE_HEADER, bytes.to_string());
        index.take("salon.files.", &message(key, &number.to_string(), sequence, headers));
    }

    fn record(index: &mut FileIndex, key: &FileKey, sequence: u64, sha256: Option<&str>) {
        let record = FileRecord {
            topic: TopicName::new("room:a").expect("a topic"),
            name: "Übersicht.txt".into(),
            mime_type: "text/plain".into(),
            author: ParticipantId::new("alice").expect("an id"),
            created: 5,
            size: 60,
            chunk: 60,
            sha256: sha256.map(str::to_owned),
        };
        index.take("salon.files.", &message(key, RECORD, sequence, record.headers()));
    }

    fn tombstone(index: &mut FileIndex, key: &FileKey, sequence: u64) {
        let mut headers = HeaderMap::new();
        headers.insert(RECORD_HEADER, "");
        index.take("salon.files.", &message(key, RECORD, sequence, headers));
    }

    #[test]
    fn what_is_on_its_way_counts_once() {
        let (mut index, one, other) = (FileIndex::default(), key("room:a", 1), key("room:b", 2));
        record(&mut index, &one, 1, None);
        assert_eq!(index.reserve(&one, 0, 60, &QUOTAS), Ok(()));
        let of_topic = Err(FileError::Quota { scope: FileScope::Topic, limit: 100 });
        assert_eq!(index.reserve(&one, 1, 41, &QUOTAS), of_topic, "before it is stored");
        chunk(&mut index, &one, 0, 2, 60);
        chunk(&mut index, &one, 0, 3, 60);
        assert_eq!(index.reserve(&one, 1, 41, &QUOTAS), of_topic);
        assert_eq!(index.reserve(&one, 1, 40, &QUOTAS), Ok(()), "a message that came twice was counted twice");
        let of_all = Err(FileError::Quota { scope: FileScope::Gateway, limit: 150 });
        assert_eq!(index.reserve(&other, 0, 51, &QUOTAS), of_all);
        index.release(&one, 1);
        assert_eq!(index.reserve(&other, 0, 51, &QUOTAS), Ok(()), "what was not stored makes room");
    }

    #[test]
    fn a_tombstone_makes_room() {
        let (mut index, one) = (FileIndex::default(), key("room:a", 1));
        record(&mut index, &one, 1, None);
        chunk(&mut index, &one, 0, 2, 60);
        assert_eq!(index.finished(), [], "it is not finished");
        record(&mut index, &one, 3, Some("00ff"));
        assert_eq!(index.finished().len(), 1);
        assert_eq!(index.finished()[0].file.name.as_str(), "Übersicht.txt");
        assert_eq!(index.unfinished_before(Timestamp(u64::MAX)), []);
        tombstone(&mut index, &one, 4);
        assert_eq!((index.finished(), index.total, index.topics.len(), index.head()), (Vec::new(), 0, 0, 4));
    }

    #[test]
    fn an_author_has_its_share() {
        let (mut index, topic, alice) = (FileIndex::default(), token("room:a"), ParticipantId::new("alice"));
        let alice = alice.expect("an id");
        record(&mut index, &key("room:a", 1), 1, None);
        record(&mut index, &key("room:a", 1), 2, Some("00ff"));
        assert_eq!(index.check_count(&topic, &alice, &QUOTAS), Ok(()), "two records of one file were counted twice");
        record(&mut index, &key("room:b", 2), 3, None);
        let too_many = Err(FileError::TooMany { scope: FileScope::Author, limit: 2 });
        assert_eq!(index.check_count(&topic, &alice, &QUOTAS), too_many);
        tombstone(&mut index, &key("room:b", 2), 4);
        assert_eq!(index.check_count(&topic, &alice, &QUOTAS), Ok(()));
    }

    #[test]
    fn uploads_expire_by_their_newest_message() {
        let (mut index, one, orphan) = (FileIndex::default(), key("room:a", 1), key("room:a", 2));
        record(&mut index, &one, 1, None);
        chunk(&mut index, &orphan, 0, 2, 60);
        chunk(&mut index, &one, 0, 3, 30);
        assert_eq!(index.unfinished_before(Timestamp(2500)), [orphan]);
        assert_eq!(index.keys_of(&token("room:a")).len(), 2);
        assert_eq!(index.keys_of(&token("room:b")), []);
        assert_eq!(index.unfinished_before(Timestamp(3001)).len(), 2);
    }
}
