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

    /// Whether this mark, which is stored, says as much as one that is to take its place. A node that was slow must not replace what was
    /// marked since, nor that the topic was forgotten since: what came after would be counted on by some nodes and from nothing by others.
    pub(super) fn says_as_much_as(&self, mark: &Self) -> bool {
        self.through > mark.through || (self.through == mark.through && !mark.is_forgotten)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_takes_the_place_of_one_that_says_less() {
        let mark = |through, is_forgotten| TopicMark { through, is_forgotten, ..TopicMark::default() };
        let table = [
            (mark(5, false), mark(9, false), false),
            (mark(9, false), mark(9, false), true),
            (mark(9, false), mark(5, false), true),
            // A topic is forgotten when everything of it is removed.
            (mark(9, false), mark(9, true), false),
            (mark(9, true), mark(9, true), false),
            // A node that has not heard that the topic was forgotten.
            (mark(9, true), mark(5, false), true),
            (mark(9, true), mark(9, false), true),
            // The next topic of this name.
            (mark(9, true), mark(12, false), false),
            // A node that would forget what was forgotten before, and does not know of the next one.
            (mark(12, false), mark(9, true), true),
        ];
        for (stored, new, expected) in table {
            assert_eq!(stored.says_as_much_as(&new), expected, "{stored:?} and {new:?}");
        }
    }
}
