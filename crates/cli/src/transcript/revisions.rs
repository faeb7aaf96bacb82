//! What became of chat lines: edits and retractions by their authors.

use std::collections::{HashMap, HashSet};

use salon_protocol::{CHAT_METHOD, ChatRevision, Envelope, EnvelopeId, Message, ParticipantId};

/// See the module. A retraction is final, and of several edits the last counts.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    by_line: HashMap<EnvelopeId, (ParticipantId, ChatRevision)>,
    lines: HashSet<EnvelopeId>,
}

impl Revisions {
    /// Those in some envelopes, the oldest first.
    pub(super) fn of<'a>(envelopes: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let mut revisions = Self::default();
        for envelope in envelopes {
            revisions.note(envelope);
            if matches!(envelope.message(), Some(Message::Notification { method }) if &**method == CHAT_METHOD) {
                revisions.lines.insert(envelope.id().clone());
            }
        }
        revisions
    }

    /// Takes one more envelope, which may be a revision.
    pub(crate) fn note(&mut self, envelope: &Envelope) {
        let Some((original, revision)) = envelope.chat_revision() else { return };
        match self.by_line.get_mut(original) {
            Some((author, _)) if author != envelope.from() => {}
            Some((_, before)) if *before == ChatRevision::Retracted => {}
            Some((_, before)) => *before = revision,
            None => drop(self.by_line.insert(original.clone(), (envelope.from().clone(), revision))),
        }
    }

    /// What became of a chat line.
    pub(crate) fn of_line(&self, line: &Envelope) -> Option<&ChatRevision> {
        let (author, revision) = self.by_line.get(line.id())?;
        (author == line.from()).then_some(revision)
    }

    /// Whether a chat line is among the envelopes that this was made of, so that its revisions need no line of their own.
    pub(super) fn is_shown(&self, line: &EnvelopeId) -> bool {
        self.lines.contains(line)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_line.len()
    }

    pub(crate) fn clear(&mut self) {
        self.by_line.clear();
    }
}
