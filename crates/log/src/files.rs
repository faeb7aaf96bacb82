//! The files of a topic: what people and agents have put there, beside its entries.
//!
//! [`FileStore`] is the contract; its suite is in [`crate::contract`]. Deliberately absent: who may read or put what, and what a file means. A
//! file is bytes with a name to the store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use salon_protocol::{ParticipantId, Timestamp, TopicName};

use crate::ReadError;

/// How many bytes are stored and read at once.
pub const FILE_CHUNK_BYTES: usize = 256 << 10;
/// The longest name of a file, in bytes.
pub const MAX_FILE_NAME_BYTES: usize = 255;
/// How many files a topic has at most.
pub const MAX_TOPIC_FILES: u64 = 10_000;
/// How many files all topics have at most: what is known of each is in memory while files are looked at that may have to go.
pub const MAX_FILES: u64 = 200_000;
/// How many files of one author all topics have at most: nobody takes all the room that there is.
pub const MAX_AUTHOR_FILES: u64 = 20_000;

/// Files by topic and id. What every engine promises:
///
/// 1. A file is there once its upload is finished, whole and durable, and not before. An upload that is dropped leaves nothing behind that
///    is read or counts.
/// 2. It is found in its topic alone, and its bytes are those that were uploaded.
/// 3. Quotas of [`FileQuotas`] count finished files and, as far as they have come, uploads. What would exceed one is refused, and what is
///    removed makes room. So it is with the numbers of files: of all, of a topic, of an author.
/// 4. What is removed is not found any more, and a restart changes nothing of all this.
/// 5. Where all files of a topic are removed, so are the uploads that are under way there: those end with [`FileError::Removed`].
pub trait FileStore: Send + Sync + 'static {
    /// Begins an upload.
    fn begin(&self, file: NewFile) -> BoxFuture<'static, Result<Box<dyn FileUpload>, FileError>>;

    /// What is known of a file; `None` where the topic has none of that id.
    fn find(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<Option<StoredFile>, ReadError>>;

    /// Up to [`FILE_CHUNK_BYTES`] of a file from an offset on; none at its end, or where there is no such file.
    fn read(&self, topic: &TopicName, id: &FileId, offset: u64) -> BoxFuture<'static, Result<Bytes, ReadError>>;

    /// Every file.
    fn list(&self) -> BoxFuture<'static, Result<Vec<StoredFile>, ReadError>>;

    /// Removes a file, where it is there.
    fn remove(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<(), FileError>>;

    /// Removes all files of a topic, and what is being uploaded there.
    fn remove_topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<(), FileError>>;
}

/// A file that is being uploaded. Dropping it ends that.
pub trait FileUpload: Send {
    /// Adds bytes at its end.
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), FileError>>;

    /// It is whole, and has this SHA-256 in hexadecimal.
    fn finish(self: Box<Self>, sha256: String) -> BoxFuture<'static, Result<StoredFile, FileError>>;
}

/// A file that is about to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Nobody else's.
    pub id: FileId,
    /// Where it is put.
    pub topic: TopicName,
    /// What it is called; no path.
    pub name: FileName,
    /// Its media type, as its sender or its bytes say.
    pub mime_type: String,
    /// Who puts it there.
    pub author: ParticipantId,
    /// When.
    pub created: Timestamp,
}

/// A file that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// What was said of it when it was put there.
    pub file: NewFile,
    /// How many bytes it has.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
}

/// How many bytes of files are stored, where zero is no limit, and how many files of one author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileQuotas {
    /// The bytes in one topic.
    pub topic: u64,
    /// The bytes in all topics.
    pub total: u64,
    /// The files of one author in all topics.
    pub author_files: u64,
}

impl Default for FileQuotas {
    fn default() -> Self {
        Self { topic: 0, total: 0, author_files: MAX_AUTHOR_FILES }
    }
}

/// Why a file was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The topic has as many bytes of files as it may, or all topics together have.
    #[error("the files of {scope} have {limit} bytes already, which is the limit")]
    Quota {
        /// Of what.
        scope: FileScope,
        /// The quota.
        limit: u64,
    },
    /// There are too many files, however short they are.
    #[error("{scope} has {limit} files, which is the limit")]
    TooMany {
        /// Of what.
        scope: FileScope,
        /// The limit.
        limit: u64,
    },
    /// The upload was removed before it was finished: its topic was deleted.
    #[error("the topic was deleted")]
    Removed,
    /// The store takes nothing now.
    #[error("the store takes no files now: {0}")]
    Unavailable(Arc<str>),
    /// The store failed.
    #[error("the file could not be stored: {0}")]
    Failed(Arc<str>),
}

/// What a quota of files is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileScope {
    /// One topic.
    Topic,
    /// All topics.
    Gateway,
    /// One author, in all topics.
    Author,
}

impl fmt::Display for FileScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Topic => "this topic",
            Self::Gateway => "all topics",
            Self::Author => "this participant",
        })
    }
}

/// The id of a file: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(Arc<str>);

/// A text that is not the id of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it must be 32 hexadecimal digits")]
pub struct InvalidFileId;

impl FileId {
    /// The id with some bytes, which must be random.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(bytes)).into())
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FileId {
    type Err = InvalidFileId;

    fn from_str(text: &str) -> Result<Self, InvalidFileId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 32 && text.bytes().all(is_digit) { Ok(Self(text.into())) } else { Err(InvalidFileId) }
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a file is called: one part of a path, and nothing that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName(Arc<str>);

/// Why a name was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFileName {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has more than {MAX_FILE_NAME_BYTES} bytes")]
    TooLong,
    /// It is a path, or has a character that is not shown.
    #[error("it must be a name without `/`, `\\` and control characters, and not `.` or `..`")]
    NotAName,
}

impl FileName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FileName {
    type Err = InvalidFileName;

    fn from_str(text: &str) -> Result<Self, InvalidFileName> {
        let is_hidden = |c: char| {
            c.is_control()
                || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
        };
        match text {
            "" => Err(InvalidFileName::Empty),
            text if text.len() > MAX_FILE_NAME_BYTES => Err(InvalidFileName::TooLong),
            "." | ".." => Err(InvalidFileName::NotAName),
            text if text.contains(['/', '\\']) || text.chars().any(is_hidden) => Err(InvalidFileName::NotAName),
            text => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_a_path() {
        for good in ["plan.pdf", "Übersicht (2).png", "a b", "...", "-rf"] {
            assert_eq!(good.parse::<FileName>().map(|name| name.to_string()), Ok(good.to_owned()));
        }
        for bad in [".", "..", "../x", "a/b", "a\\b", "a\nb", "a\u{202e}b", "\0"] {
            assert_eq!(bad.parse::<FileName>(), Err(InvalidFileName::NotAName), "{bad:?}");
        }
        assert_eq!("".parse::<FileName>(), Err(InvalidFileName::Empty));
        assert_eq!("x".repeat(256).parse::<FileName>(), Err(InvalidFileName::TooLong));
    }

    #[test]
    fn an_id_is_32_digits() {
        let id = FileId::from_bytes([0xab; 16]);
        assert_eq!(id.as_str(), "ab".repeat(16));
        assert_eq!(id.as_str().parse(), Ok(id));
        for bad in ["", "../../etc/passwd", &"AB".repeat(16), &"a".repeat(33)] {
            assert_eq!(bad.parse::<FileId>(), Err(InvalidFileId), "{bad:?}");
        }
    }
}
