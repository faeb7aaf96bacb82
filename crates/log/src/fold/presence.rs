//! Who is present, by the newest join of each.

use std::sync::Arc;

use salon_protocol::{Entry, FailureCause, Participant, ParticipantId};

use super::calls::FoldedFailure;
use super::{BYTES_BESIDE_TEXTS, Fold};

/// A participant that is present.
#[derive(Debug, Clone)]
pub(super) struct PresentParticipant {
    pub(super) participant: Arc<Participant>,
    pub(super) join: Arc<Entry>,
}

impl PresentParticipant {
    pub(super) fn bytes(&self) -> usize {
        // The participant is a copy of what the envelope says.
        BYTES_BESIDE_TEXTS + 2 * self.join.envelope.text().len()
    }
}

impl Fold {
    pub(super) fn join(&mut self, participant: Participant, entry: &Arc<Entry>) -> bool {
        self.end_vacancy();
        let id = participant.id.clone();
        let present = PresentParticipant { participant: Arc::new(participant), join: entry.clone() };
        self.bytes += present.bytes();
        let before = self.present.insert(id, present);
        self.bytes -= before.as_ref().map_or(0, PresentParticipant::bytes);
        before.is_some()
    }

    /// Says whether the participant was present.
    pub(super) fn leave(&mut self, id: &ParticipantId, at: u64) -> bool {
        let Some(before) = self.present.remove(id) else { return false };
        self.bytes -= before.bytes();
        self.end_status(id);
        // Also those that are approved: they are not stored any more.
        let failure = FoldedFailure { at, cause: FailureCause::Withdrawn };
        for call in self.control.release_calls_of(|caller| caller == id) {
            self.insert(call, Some(failure));
        }
        true
    }

    /// Whether a participant is present. The host always is.
    pub fn is_present(&self, participant: &ParticipantId) -> bool {
        participant.is_host() || self.present.contains_key(participant)
    }

    /// A participant that is present.
    pub fn participant(&self, id: &ParticipantId) -> Option<&Arc<Participant>> {
        self.present.get(id).map(|present| &present.participant)
    }

    /// The newest join of a participant that is present.
    pub fn join_of(&self, id: &ParticipantId) -> Option<&Arc<Entry>> {
        self.present.get(id).map(|present| &present.join)
    }

    /// Everybody present, by id.
    pub fn roster(&self) -> impl Iterator<Item = &Arc<Participant>> {
        self.present.values().map(|present| &present.participant)
    }

    /// How many are present.
    pub fn population(&self) -> usize {
        self.present.len()
    }
}
