//! Marks: what a shard's stream says of a topic beside its entries. How much of the topic is removed is stored here before anything is purged, so a
//! reader at an old position gets a gap and no silent hole.
//!
//! A topic has one mark at most, the newest. A mark is a message of the shard's stream, so every node gets it in the order of the entries.

use serde::{Deserialize, Serialize};

/// How much of a topic is removed. Everything up to `through` is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TopicMark {
    /// The sequence of the newest removed message.
    pub(super) through: u64,
    /// How many entries are removed, of all that the topic ever had.
    pub(super) count: u64,
    /// How many bytes those had.
    pub(super) bytes: u64,
    /// When the oldest entry that is left arrived, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) oldest: Option<u64>,
    /// Whether a deletion of the topic has removed them.
    #[serde(default)]
    pub(super) is_deleted: bool,
    /// Whether the topic is forgotten, if nothing of it stands between `through` and this mark.
    #[serde(default)]
    pub(super) is_forgotten: bool,
}

impl TopicMark {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    pub(super) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain JSON")
    }
}
