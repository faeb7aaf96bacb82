//! How the deletion of a topic counts: nothing before it does any more, and the next join starts the topic over.

use salon_control::ControlNotice;
use salon_protocol::{Envelope, PresenceEvent};

use super::Fold;

/// That a topic was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// The offset of the notice that says so.
    pub at: u64,
    /// Whether nobody has entered or configured the topic since.
    pub is_vacant: bool,
}

impl Fold {
    /// The newest deletion of the topic, where its entries may not have been removed yet.
    pub fn deletion(&self) -> Option<Deletion> {
        self.deletion
    }

    /// Whether the topic was deleted, and nobody has entered or configured it since.
    pub fn is_vacant(&self) -> bool {
        self.deletion.is_some_and(|deletion| deletion.is_vacant)
    }

    /// The fold of a topic that was deleted at an offset.
    pub(crate) fn deleted(at: u64) -> Self {
        Self { through: at, deletion: Some(Deletion { at, is_vacant: true }), ..Self::default() }
    }

    /// Whether an envelope comes too late for a topic that was deleted: it was accepted by what counted before, and only a join or settings
    /// begin the topic anew.
    pub(super) fn is_too_late(&self, envelope: &Envelope) -> bool {
        self.is_vacant() && !begins_topic(envelope)
    }

    pub(super) fn end_vacancy(&mut self) {
        if let Some(deletion) = &mut self.deletion {
            deletion.is_vacant = false;
        }
    }
}

fn begins_topic(envelope: &Envelope) -> bool {
    let joins = || envelope.presence().is_some_and(|presence| presence.event == PresenceEvent::Join);
    match ControlNotice::of(envelope) {
        Some(notice) => matches!(notice, ControlNotice::Settings(_)),
        None => joins(),
    }
}
