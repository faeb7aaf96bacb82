//! Entries that became readable together, and how they look on a wire, encoded once for everyone who takes all of them.

use std::sync::{Arc, OnceLock};

use salon_control::RedactedMessage;
use salon_protocol::Entry;

/// The most bytes of text in one batch of several entries.
const MAX_BYTES: usize = 128 * 1024;

/// The most entries in one batch.
const MAX_ENTRIES: usize = 1024;

/// Entries in the log's order, with nothing between them.
#[derive(Debug)]
pub struct Batch {
    entries: Box<[Arc<Entry>]>,
    bytes: usize,
    fails_calls: bool,
    encoded: OnceLock<Box<[u8]>>,
}

impl Batch {
    /// The entries, never none.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Bytes of all texts together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The batch in one piece, as `encode` makes it the first time. Every reader must mean the same encoding.
    pub fn encoded(&self, encode: impl FnOnce(&[Arc<Entry>]) -> Vec<u8>) -> &[u8] {
        self.encoded.get_or_init(|| encode(&self.entries).into())
    }

    /// Whether calls fail by the last of the entries.
    pub(crate) fn fails_calls(&self) -> bool {
        self.fails_calls
    }

    /// The same batch with a tombstone in the place of a redacted entry; `None` where it has no such entry.
    pub(crate) fn redacted(&self, message: &RedactedMessage) -> Option<Arc<Self>> {
        let place = self.entries.iter().position(|entry| entry.position.offset == message.offset)?;
        let mut entries = self.entries.clone();
        entries[place] = message.replace(&entries[place])?;
        let bytes = entries.iter().map(|entry| entry.envelope.text().len()).sum();
        Some(Arc::new(Self { entries, bytes, fails_calls: self.fails_calls, encoded: OnceLock::new() }))
    }

    /// The entries after an offset.
    pub(crate) fn after(&self, offset: u64) -> &[Arc<Entry>] {
        &self.entries[self.entries.partition_point(|entry| entry.position.offset <= offset)..]
    }

    /// The offset of the last entry.
    pub(crate) fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.position.offset)
    }

    /// Cuts entries into batches: none too large, and calls fail only by the last entry of one.
    pub(crate) fn cut(entries: Vec<Arc<Entry>>, mut fails_calls: impl FnMut(&Arc<Entry>) -> bool) -> Vec<Arc<Self>> {
        let mut batches = Vec::new();
        let (mut pending, mut bytes) = (Vec::new(), 0);
        let count = entries.len();
        for (at, entry) in entries.into_iter().enumerate() {
            let fails = fails_calls(&entry);
            bytes += entry.envelope.text().len();
            pending.push(entry);
            if fails || bytes >= MAX_BYTES || pending.len() >= MAX_ENTRIES || at + 1 == count {
                let entries = std::mem::take(&mut pending).into_boxed_slice();
                batches.push(Arc::new(Self { entries, bytes, fails_calls: fails, encoded: OnceLock::new() }));
                bytes = 0;
            }
        }
        batches
    }

    /// A batch of entries that say nothing, at these offsets.
    #[cfg(test)]
    pub(crate) fn of(offsets: &[u64]) -> Arc<Self> {
        let host = salon_protocol::ParticipantId::host();
        let entries = offsets.iter().map(|&offset| empty_entry(offset, &host, &[])).collect();
        Self::cut(entries, |_| false).pop().expect("one batch")
    }

    /// A batch of entries that say nothing, from these to those.
    #[cfg(test)]
    pub(crate) fn of_messages(messages: &[(&str, &[&str])]) -> Arc<Self> {
        let id = |name: &str| name.parse().expect("an id");
        let entries = (1..).zip(messages).map(|(offset, (from, to))| {
            empty_entry(offset, &id(from), &to.iter().map(|name| id(name)).collect::<Vec<_>>())
        });
        Self::cut(entries.collect(), |_| false).pop().expect("one batch")
    }
}

#[cfg(test)]
fn empty_entry(offset: u64, from: &salon_protocol::ParticipantId, to: &[salon_protocol::ParticipantId]) -> Arc<Entry> {
    use salon_protocol::{Compose, Kind, Position, Timestamp};
    let compose = Compose {
        id: &offset.to_string(),
        ts: Timestamp(0),
        from,
        to,
        kind: Kind::System,
        correlation_id: None,
        payload: std::collections::BTreeMap::<String, String>::new(),
    };
    let position = Position { epoch: 1, offset };
    Arc::new(Entry { position, arrived: Timestamp(0), stamp: None, envelope: compose.envelope() })
}
