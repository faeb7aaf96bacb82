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
                // The same join once more is no news.
                if let Some(older) = older.filter(|older| *older != offset) {
                    self.present.remove(&older);
                }
            }
        }
    }

    /// Restores what was kept of an earlier fold.
    #[cfg(feature = "nats")]
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
    #[cfg(feature = "nats")]
    pub(crate) fn is_unanswered(&self, request: &EnvelopeId) -> bool {
        self.requests.contains_key(request)
    }

    /// Forgets requests up to an offset, which are not kept any more, and the oldest of those that are too many.
    #[cfg(feature = "nats")]
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

#[cfg(test)]
mod tests {
    use salon_protocol::{Envelope, Timestamp};

    use super::*;

    fn entry(offset: u64, event: &str) -> Arc<Entry> {
        let envelope = Envelope::restore(format!(
            r#"{{"protocol":"mcp-x/v0","id":"p{offset}","ts":"2025-08-17T14:00:00Z","from":"system:gateway","kind":"presence","payload":{{"event":"{event}","participant":{{"id":"alice"}}}}}}"#
        ));
        let envelope = envelope.expect("an envelope");
        Arc::new(Entry { position: Position { epoch: 1, offset }, arrived: Timestamp(0), stamp: None, envelope })
    }

    fn present(folded: &Folded) -> Vec<u64> {
        let standing = folded.clone().standing(Position { epoch: 1, offset: 9 });
        standing.present.iter().map(|entry| entry.position.offset).collect()
    }

    #[test]
    fn a_join_that_is_folded_twice_is_one_join() {
        let mut folded = Folded::default();
        folded.add(&entry(3, "join"));
        folded.add(&entry(3, "join"));
        assert_eq!(present(&folded), [3]);
        folded.add(&entry(5, "join"));
        assert_eq!(present(&folded), [5], "a later one takes its place");
        folded.add(&entry(6, "leave"));
        assert_eq!(present(&folded), [0; 0]);
    }
}
