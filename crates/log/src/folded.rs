//! What a topic's entries add up to: who is present, and which requests nobody has answered.
//!
//! Invariant: a fold in the log's order. The same entries give the same standing on every engine and every node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use salon_protocol::{Entry, EnvelopeId, Message, ParticipantId, Position, PresenceEvent};

use crate::{OpenRequest, Standing};

/// What a topic's entries add up to, as far as they have been folded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folded {
    joins: HashMap<ParticipantId, u64>,
    present: BTreeMap<u64, Arc<Entry>>,
    requests: HashMap<EnvelopeId, u64>,
    unanswered: BTreeMap<u64, OpenRequest>,
}

impl Folded {
    /// Takes one more entry into account.
    pub(crate) fn add(&mut self, entry: &Arc<Entry>) {
        let (offset, envelope) = (entry.position.offset, &entry.envelope);
        match envelope.message() {
            Some(Message::Request { .. }) => {
                if let Some(open) = OpenRequest::of(entry) {
                    self.requests.insert(open.request.clone(), offset);
                    self.unanswered.insert(offset, open);
                }
            }
            Some(Message::Response { .. }) => {
                if let Some(answered) = envelope.correlation().and_then(|request| self.requests.remove(request)) {
                    self.unanswered.remove(&answered);
                }
            }
            Some(Message::Notification { .. }) => {}
            None => {
                let Some(presence) = envelope.presence() else { return };
                if presence.event == PresenceEvent::Heartbeat {
                    return;
                }
                let older = match presence.event {
                    PresenceEvent::Join => {
                        self.present.insert(offset, entry.clone());
                        self.joins.insert(presence.participant.id, offset)
                    }
                    _ => self.joins.remove(&presence.participant.id),
                };
                if let Some(older) = older {
                    self.present.remove(&older);
                }
            }
        }
    }

    /// Restores what was kept of an earlier fold.
    pub(crate) fn restore(present: Vec<Arc<Entry>>, unanswered: Vec<OpenRequest>) -> Self {
        let mut folded = Self::default();
        for entry in &present {
            folded.add(entry);
        }
        for open in unanswered {
            folded.requests.insert(open.request.clone(), open.offset);
            folded.unanswered.insert(open.offset, open);
        }
        folded
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_unanswered(&self, request: &EnvelopeId) -> bool {
        self.requests.contains_key(request)
    }

    /// Forgets requests up to an offset, which are not kept any more, and the oldest of those that are too many.
    pub(crate) fn forget(&mut self, up_to: u64) {
        while let Some((&offset, _)) = self.unanswered.first_key_value()
            && (offset <= up_to || self.unanswered.len() > Standing::MAX_UNANSWERED)
            && let Some(open) = self.unanswered.remove(&offset)
        {
            self.requests.remove(&open.request);
        }
    }

    pub(crate) fn standing(self, head: Position) -> Standing {
        let surplus = self.unanswered.len().saturating_sub(Standing::MAX_UNANSWERED);
        Standing {
            head,
            present: self.present.into_values().collect(),
            unanswered: self.unanswered.into_values().skip(surplus).collect(),
        }
    }
}
