//! Which envelope is which message of the platform, both ways, for replies, edits and retractions, and so that nothing is mirrored twice.
//!
//! Invariant: bounded in number; the oldest are forgotten first.

use std::collections::{HashMap, VecDeque};

use salon_protocol::{EnvelopeId, ParticipantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::platform::PlatformMessageId;

/// Where a message was written first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageOrigin {
    Room,
    Platform,
}

/// An envelope and what it is on the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedMessage {
    pub envelope: EnvelopeId,
    pub origin: MessageOrigin,
    pub author: ParticipantId,
    /// The messages it is on the platform, in order; `None` for one without an id. Those that are here have been delivered.
    pub parts: Vec<Option<PlatformMessageId>>,
    /// The line that a call is shown as, to be completed with its answer.
    pub call_line: Option<String>,
    #[serde(with = "super::millis")]
    pub at: Timestamp,
}

/// The messages that are remembered.
#[derive(Debug, Default)]
pub(crate) struct MessageMap {
    by_envelope: HashMap<EnvelopeId, MappedMessage>,
    by_platform: HashMap<PlatformMessageId, EnvelopeId>,
    /// The oldest first.
    order: VecDeque<EnvelopeId>,
}

impl MessageMap {
    pub(crate) fn get(&self, envelope: &EnvelopeId) -> Option<&MappedMessage> {
        self.by_envelope.get(envelope)
    }

    pub(crate) fn by_platform(&self, message: &PlatformMessageId) -> Option<&MappedMessage> {
        self.get(self.by_platform.get(message)?)
    }

    /// How many parts of an envelope have been delivered.
    pub(crate) fn delivered(&self, envelope: &EnvelopeId) -> usize {
        self.get(envelope).map_or(0, |mapped| mapped.parts.len())
    }

    /// Remembers a message in place of what was known of it.
    pub(crate) fn put(&mut self, mapped: MappedMessage) {
        for id in mapped.parts.iter().flatten() {
            self.by_platform.insert(id.clone(), mapped.envelope.clone());
        }
        if self.by_envelope.insert(mapped.envelope.clone(), mapped.clone()).is_none() {
            self.order.push_back(mapped.envelope);
        }
    }

    /// Forgets the oldest message beyond a number of messages, or from before a time.
    pub(crate) fn expire(&mut self, max: usize, before: Timestamp) -> Option<EnvelopeId> {
        let oldest = self.by_envelope.get(self.order.front()?)?;
        if self.order.len() <= max && oldest.at >= before {
            return None;
        }
        let envelope = self.order.pop_front()?;
        let mapped = self.by_envelope.remove(&envelope)?;
        for id in mapped.parts.iter().flatten() {
            self.by_platform.remove(id);
        }
        Some(envelope)
    }
}
