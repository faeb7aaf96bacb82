//! What was redacted since a room was opened: the ring and pages that were read before show it no more.
//!
//! The log replaces the text by a tombstone; a room has copies of it in memory, and a page of the log may have been read just before.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use salon_control::{ControlNotice, RedactedMessage};
use salon_protocol::Entry;

/// How many redacted entries are remembered. A page that was read before more of them is of the past.
const MAX_REMEMBERED: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RoomRedactions {
    newest: Mutex<NewestRedactions>,
    is_used: AtomicBool,
}

#[derive(Debug, Default)]
struct NewestRedactions {
    by_offset: HashMap<u64, RedactedMessage>,
    /// In the order in which they were redacted.
    order: VecDeque<u64>,
}

impl NewestRedactions {
    fn add(&mut self, message: &RedactedMessage) {
        if self.by_offset.insert(message.offset, message.clone()).is_none() {
            self.order.push_back(message.offset);
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_offset.remove(&oldest);
        }
    }
}

impl RoomRedactions {
    /// Takes the notices among some entries of the log; gives what they redact.
    pub(crate) fn note(&self, entries: &[Arc<Entry>]) -> Vec<RedactedMessage> {
        let redactions = entries.iter().filter_map(|entry| match ControlNotice::of(&entry.envelope) {
            Some(ControlNotice::Redacted(redaction)) => Some(redaction.messages),
            _ => None,
        });
        let redacted: Vec<_> = redactions.flatten().collect();
        if !redacted.is_empty() {
            let mut newest = self.newest.lock();
            redacted.iter().for_each(|message| newest.add(message));
            self.is_used.store(true, Ordering::Release);
        }
        redacted
    }

    /// An entry as the log has it by now.
    pub(crate) fn current(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        if !self.is_used.load(Ordering::Acquire) {
            return entry.clone();
        }
        let newest = self.newest.lock();
        let tombstone = newest.by_offset.get(&entry.position.offset).and_then(|message| message.replace(entry));
        tombstone.unwrap_or_else(|| entry.clone())
    }
}

#[cfg(test)]
mod tests {
    use salon_protocol::{EnvelopeId, ParticipantId};

    use super::*;

    #[test]
    fn the_newest_redactions_are_remembered_however_old_the_messages_are() {
        let message = |offset: u64| RedactedMessage {
            id: EnvelopeId::new(format!("e{offset}")).expect("an id"),
            from: ParticipantId::new("alice").expect("a participant"),
            offset,
            digest: String::new(),
            tombstone: String::new(),
        };
        let mut newest = NewestRedactions::default();
        (0..MAX_REMEMBERED as u64).for_each(|number| newest.add(&message(1000 + number)));
        newest.add(&message(1));
        assert!(newest.by_offset.contains_key(&1));
        assert!(!newest.by_offset.contains_key(&1000), "the oldest redaction is forgotten");
        assert_eq!((newest.by_offset.len(), newest.order.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
