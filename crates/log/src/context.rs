//! The versioned context of a topic: what is known there now, by name, and how it came to be.
//!
//! [`ContextStore`] is the contract; its suite is in [`crate::contract`]. Deliberately absent: who may read or write what, and what
//! a value means. A value is a text to the store.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use salon_protocol::{ParticipantId, Position, Timestamp, TopicName};

use crate::ReadError;

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
/// The longest key, in characters.
pub const MAX_KEY_CHARS: usize = 256;
/// The longest id of a tool, in characters.
pub const MAX_TOOL_CHARS: usize = 128;
/// How many versions of a key are kept: the newest.
pub const MAX_VERSIONS: u64 = 100;
/// How many keys a scope has, those included that were deleted and are still remembered.
pub const MAX_KEYS: u64 = 10_000;
/// How many tools have a scope in a topic.
pub const MAX_TOOLS: u64 = 1000;

/// How many keys a scope has and how many tools a topic. Every gateway has the default; tests of an engine with slow writes have less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextLimits {
    /// Keys of a scope.
    pub keys: u64,
    /// Tools that have a scope in a topic.
    pub tools: u64,
}

impl Default for ContextLimits {
    fn default() -> Self {
        Self { keys: MAX_KEYS, tools: MAX_TOOLS }
    }
}

/// Values by scope and key, each with its versions. What every engine promises:
///
/// 1. Every write makes a new version of its key. Versions count from 1, without a hole, and a delete is one of them. Once keys were
///    forgotten (6), a new key begins after every version that those had: no version of a key is ever another.
/// 2. Written means durable, readable and announced to followers, in that order. Writes take effect in the order they are called.
///    A read sees everything that was acknowledged before it was called.
/// 3. A write that expects a version is done only if that is the newest; 0 is expected of a key that does not exist, or not any more. Of
///    several that expect the same, one is done.
/// 4. A write with the cause of one that is among the kept versions of its key is that one: it changes nothing, and gets its version.
/// 5. Of a key the newest [`MAX_VERSIONS`] are kept, and fewer where that makes room in a quota (10).
/// 6. A scope has at most [`MAX_KEYS`] keys. Where a new one finds no place, the key that was deleted longest ago is forgotten; where
///    none was deleted, the new one is refused. Likewise for [`MAX_TOOLS`] and tools of which every key is deleted.
/// 7. Topics, scopes and keys are apart: nothing that is done to one is seen in another. They outlive the topic's entries.
/// 8. A follower gets every change from the call on, in order, or that some were missed.
/// 9. Nothing is acknowledged that is not kept; after a failed write, or when closed, every write is refused.
/// 10. Values of all kept versions count. Where a write would exceed [`crate::StoredQuotas::context`] or the quota of everything, the older
///     versions of its key are removed; where that does not suffice, it is refused. Where more than half of a quota is used, a
///     delete removes the older versions of its key. A delete is never refused for a quota.
/// 11. Of a deleted topic nothing is read any more, and a write that was requested before the deletion is refused, also after the topic was started over.
pub trait ContextStore: Send + Sync + 'static {
    /// Writes a value, or deletes one. Dropping the future does not undo it.
    fn write(&self, address: Address, write: Write) -> BoxFuture<'static, Result<Written, WriteError>>;

    /// Reads a version, or the newest. `None` when there never was such a one, or it is not kept.
    fn get(&self, address: &Address, version: Option<u64>) -> BoxFuture<'static, Result<Option<Version>, ReadError>>;

    /// The versions of a key below one, or all, newest first: up to `limit`, and no more once they have
    /// [`crate::MAX_PAGE_BYTES`] of text.
    fn history(
        &self,
        address: &Address,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Version>, ReadError>>;

    /// The keys of a scope that exist, in the order of their bytes: up to `limit` of those after one.
    fn list(
        &self,
        topic: &TopicName,
        scope: &ContextScope,
        after: Option<&Key>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ListedKey>, ReadError>>;

    /// The tools that have something in a topic, in the order of their bytes.
    fn tools(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<ToolId>, ReadError>>;

    /// Follows what is written in a topic, from now on, until the store is closed.
    fn changes(&self, topic: &TopicName) -> Changes;
}

/// Whose context it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContextScope {
    /// Everybody's in the topic.
    Topic,
    /// One participant's own.
    Participant(ParticipantId),
    /// A tool's.
    Tool(ToolId),
}

/// What the name of a tool's scope begins with.
pub(crate) const TOOLS: &str = "tool:";

impl ContextScope {
    /// The name engines keep it by. No two scopes have the same.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Topic => "topic".into(),
            Self::Participant(id) => format!("participant:{id}"),
            Self::Tool(id) => format!("{TOOLS}{id}"),
        }
    }

    /// The scope of a name.
    #[cfg(feature = "nats")]
    pub(crate) fn read(name: &str) -> Option<Self> {
        match name.split_once(':') {
            None if name == "topic" => Some(Self::Topic),
            Some(("participant", id)) => ParticipantId::new(id).ok().map(Self::Participant),
            Some(("tool", id)) => ToolId::new(id).ok().map(Self::Tool),
            _ => None,
        }
    }
}

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The topic.
    pub topic: TopicName,
    /// The scope in it.
    pub scope: ContextScope,
    /// The key in that.
    pub key: Key,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The value; none deletes.
    pub value: Option<Box<str>>,
    /// The version that must be the newest; 0 when there must be no value.
    pub expected: Option<u64>,
    /// Who writes.
    pub author: ParticipantId,
    /// What tells this write from every other of its key, however often it is tried.
    pub cause: Box<str>,
    /// Where the request is that it follows from. A topic that was deleted after it takes the write no more.
    pub requested: Option<Position>,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The version it made.
    pub version: u64,
    /// When.
    pub at: Timestamp,
    /// Whether it had been done before.
    pub repeated: bool,
}

/// Why something was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Another version is the newest.
    #[error("the newest version is {current}")]
    Conflict {
        /// The newest version; 0 when there never was one.
        current: u64,
    },
    /// There is nothing to delete.
    #[error("there is nothing to delete")]
    Absent {
        /// The version that deleted it; 0 when there never was one.
        current: u64,
    },
    /// The value is too long.
    #[error("the value has {bytes} bytes, and the limit is {MAX_VALUE_BYTES}")]
    TooLarge {
        /// How long it is.
        bytes: usize,
    },
    /// The scope has no place for another key.
    #[error("the scope has {MAX_KEYS} keys, which is the limit")]
    TooManyKeys,
    /// The topic has no place for another tool.
    #[error("{MAX_TOOLS} tools have a scope in this topic, which is the limit")]
    TooManyTools,
    /// A quota of stored bytes is used up. Nothing was written.
    #[error("{0}")]
    Quota(crate::QuotaExceeded),
    /// The topic was deleted after it was requested.
    #[error("the topic was deleted")]
    Deleted,
    /// The store takes nothing any more.
    #[error("the log has stopped: {0}")]
    Stopped(Arc<str>),
    /// The store takes nothing now, because what it writes to is nearly full. Nothing was written.
    #[error("the log is read-only: {0}")]
    ReadOnly(Arc<str>),
    /// What the store writes to could not be reached. It may have been written all the same: the same cause again tells.
    #[error("the log cannot be reached: {0}")]
    Unavailable(Arc<str>),
    /// What the store writes to was reached, and does not take it.
    #[error("the log was refused: {0}")]
    Refused(Arc<str>),
}

/// A version of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its number.
    pub number: u64,
    /// When it was written.
    pub at: Timestamp,
    /// Who wrote it.
    pub author: ParticipantId,
    /// The value; none where the key was deleted.
    pub value: Option<Arc<str>>,
}

/// A key that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    /// The key.
    pub key: Key,
    /// Its newest version.
    pub version: u64,
    /// When that was written.
    pub at: Timestamp,
    /// Who wrote it.
    pub author: ParticipantId,
    /// How long the value is.
    pub bytes: u64,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In which scope.
    pub scope: ContextScope,
    /// Under which key.
    pub key: Key,
    /// Which version it made.
    pub version: u64,
    /// Whether the key existed before, and whether it does now.
    pub existence: Existence,
}

/// What a change did to the list of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// The key was not there before.
    Begun,
    /// It was, and is.
    Unchanged,
    /// It was deleted.
    Ended,
}

/// What a follower gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// The next change.
    One(Change),
    /// Some were missed.
    Missed,
}

/// A topic's context being followed. Ends only with the store.
pub type Changes = Pin<Box<dyn Stream<Item = Changed> + Send>>;

/// Why a key or a tool's id was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has more than {0} characters")]
    TooLong(usize),
    /// A control character.
    #[error("it has a control character")]
    Control,
}

fn check(text: &str, most: usize) -> Result<Arc<str>, InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty);
    }
    // Bytes bound characters from above, so the count is needed only for long names.
    if text.len() > most && text.chars().count() > most {
        return Err(InvalidName::TooLong(most));
    }
    if text.chars().any(char::is_control) { Err(InvalidName::Control) } else { Ok(text.into()) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $most:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and keeps a name.
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                check(text, $most).map(Self)
            }

            /// The name as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A key: 1 to 256 characters that are not control characters.
    Key,
    MAX_KEY_CHARS
);
name!(
    /// A tool's id: 1 to 128 characters that are not control characters.
    ToolId,
    MAX_TOOL_CHARS
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_in_characters() {
        assert!(Key::new(&"é".repeat(256)).is_ok());
        assert_eq!(Key::new(&"é".repeat(257)), Err(InvalidName::TooLong(256)));
        assert_eq!(Key::new(""), Err(InvalidName::Empty));
        assert_eq!(Key::new("a\u{85}b"), Err(InvalidName::Control));
        assert_eq!(ToolId::new(&"t".repeat(129)), Err(InvalidName::TooLong(128)));
    }

    #[test]
    fn scopes_have_an_order() {
        let tool = |id: &str| ContextScope::Tool(ToolId::new(id).expect("an id"));
        let own = ContextScope::Participant(ParticipantId::new("zoe").expect("an id"));
        let mut scopes = vec![tool("b"), own.clone(), tool("a"), ContextScope::Topic];
        scopes.sort();
        assert_eq!(scopes, [ContextScope::Topic, own, tool("a"), tool("b")]);
    }
}
