//! What the participants that are present say that they are doing (`presence.set`).
//!
//! A status ends by another, by an entry that names it as `correlation_id` and has none, and with its participant's leave. That its time is
//! over is such an entry as well, because this is decided by entries alone.

use std::sync::Arc;

use salon_protocol::{Entry, Envelope, EnvelopeId, Participant, ParticipantId, Presence, PresenceStatus, Timestamp};

use super::{BYTES_BESIDE_TEXTS, Fold, FoldEffect, Ignored};

/// A status, and the entry that says it.
#[derive(Debug, Clone)]
pub struct StatusRecord {
    /// The status.
    pub status: PresenceStatus,
    /// The entry.
    pub entry: Arc<Entry>,
}

impl StatusRecord {
    fn bytes(&self) -> usize {
        BYTES_BESIDE_TEXTS + 2 * self.entry.envelope.text().len()
    }
}

impl Fold {
    /// Takes an entry with the event `status`.
    pub(super) fn set_status(&mut self, presence: Presence, entry: &Arc<Entry>) -> FoldEffect {
        if self.is_stale_status(&presence, &entry.envelope) {
            return FoldEffect::Ignored(Ignored::Stale);
        }
        let Participant { id, status, .. } = presence.participant;
        self.end_status(&id);
        if let Some(status) = status {
            let record = StatusRecord { status, entry: entry.clone() };
            self.bytes += record.bytes();
            self.statuses.insert(id, record);
            self.keeps_notices = true;
        }
        FoldEffect::Counts
    }

    /// Whether an entry with the event `status` would count for nothing: its participant has left, or it ends a status that has ended.
    pub(super) fn is_stale_status(&self, presence: &Presence, envelope: &Envelope) -> bool {
        let participant = &presence.participant;
        if !self.present.contains_key(&participant.id) {
            return true;
        }
        let current = || self.statuses.get(&participant.id).map(|record| record.entry.envelope.id());
        participant.status.is_none() && current() != envelope.correlation()
    }

    pub(super) fn end_status(&mut self, id: &ParticipantId) {
        if let Some(before) = self.statuses.remove(id) {
            self.bytes -= before.bytes();
        }
    }

    /// The notices that the settings, the held calls and the statuses follow from, the oldest first.
    pub(crate) fn control_entries(&self) -> Vec<Arc<Entry>> {
        let mut entries = self.control.entries();
        entries.extend(self.statuses.values().map(|record| record.entry.clone()));
        entries.sort_unstable_by_key(|entry| entry.position.offset);
        entries
    }

    /// Whether there were never settings, held calls or statuses, so that none of their notices is stored.
    pub(crate) fn is_uncontrolled(&self) -> bool {
        self.control.is_empty() && !self.keeps_notices
    }

    /// The status of a participant.
    pub fn status_of(&self, id: &ParticipantId) -> Option<&StatusRecord> {
        self.statuses.get(id)
    }

    /// The statuses that have ended by a time, with the ids of the entries that say them.
    pub fn ended_statuses(&self, now: Timestamp) -> Vec<(ParticipantId, EnvelopeId)> {
        let ended = self.statuses.iter().filter(|(_, record)| record.status.has_ended(now));
        ended.map(|(id, record)| (id.clone(), record.entry.envelope.id().clone())).collect()
    }

    /// When the next status ends.
    pub fn next_status_end(&self) -> Option<Timestamp> {
        self.statuses.values().filter_map(|record| record.status.until).min()
    }

    /// Everybody present, by id, with the statuses that have not ended by a time.
    pub fn roster_with_statuses(&self, now: Timestamp) -> Vec<Arc<Participant>> {
        let shown = |participant: &Arc<Participant>| {
            let status = self.statuses.get(&participant.id).map(|record| &record.status);
            match status.filter(|status| !status.has_ended(now)) {
                Some(status) => Arc::new(Participant { status: Some(status.clone()), ..(**participant).clone() }),
                None => participant.clone(),
            }
        };
        self.roster().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use salon_protocol::Position;

    use super::*;

    const UNTIL: &str = "2026-01-01T12:00:00.000Z";

    fn entry(offset: u64, event: &str, about: Option<&str>, status: &str) -> Arc<Entry> {
        let correlation = about.map_or(String::new(), |about| format!(r#""correlation_id":"{about}","#));
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"e{offset}","ts":"2026-01-01T00:00:00Z","from":"system:gateway",{correlation}"kind":"presence","payload":{{"event":"{event}","participant":{{"id":"alice"{status}}}}}}}"#
        );
        let envelope = Envelope::restore(text).expect("an envelope");
        Arc::new(Entry { position: Position { epoch: 1, offset }, arrived: Timestamp(0), stamp: None, envelope })
    }

    fn away(offset: u64) -> Arc<Entry> {
        entry(
            offset,
            "status",
            Some("r"),
            &format!(r#","status":{{"status":"away","text":"lunch","until":"{UNTIL}"}}"#),
        )
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    fn shown(fold: &Fold, now: Timestamp) -> Vec<Option<String>> {
        let roster = fold.roster_with_statuses(now);
        roster.iter().map(|one| one.status.as_ref().map(ToString::to_string)).collect()
    }

    #[test]
    fn a_status_lasts_until_its_time_or_its_end() {
        let mut fold = Fold::default();
        let (before, noon) = (at("2026-01-01T11:59:59.999Z"), at(UNTIL));
        assert_eq!(fold.apply(&away(1)), FoldEffect::Ignored(Ignored::Stale), "nobody has joined");
        fold.apply(&entry(2, "join", None, ""));
        assert_eq!(fold.apply(&away(3)), FoldEffect::Counts);
        assert_eq!(shown(&fold, before), [Some("away: lunch".into())]);
        assert_eq!(shown(&fold, noon), [None]);
        assert_eq!(fold.ended_statuses(before), []);
        assert_eq!(fold.ended_statuses(noon).len(), 1);
        assert_eq!(fold.next_status_end(), Some(noon));
        assert_eq!(
            fold.participant(&ParticipantId::new("alice").unwrap()).unwrap().status,
            None,
            "not part of the join"
        );
        // The end of a status that was replaced meanwhile does not end the new one.
        fold.apply(&away(4));
        assert_eq!(fold.apply(&entry(5, "status", Some("e3"), "")), FoldEffect::Ignored(Ignored::Stale));
        assert_eq!(shown(&fold, before), [Some("away: lunch".into())]);
        assert_eq!(fold.apply(&entry(6, "status", Some("e4"), "")), FoldEffect::Counts);
        assert_eq!((shown(&fold, before), fold.next_status_end()), (vec![None], None));
    }

    #[test]
    fn a_status_is_kept_with_the_standing_and_ends_with_a_leave() {
        let mut fold = Fold::default();
        let empty = fold.bytes();
        fold.apply(&entry(1, "join", None, ""));
        fold.apply(&away(2));
        let mut restored = Fold::restore(&fold.standing(1, 0));
        assert_eq!(shown(&restored, Timestamp(0)), [Some("away: lunch".into())]);
        assert_eq!(restored.bytes(), fold.bytes());
        // A second join of somebody who is present says that calls to it have failed, and nothing of what it is doing.
        restored.apply(&entry(3, "join", None, ""));
        assert_eq!(shown(&restored, Timestamp(0)), [Some("away: lunch".into())]);
        restored.apply(&entry(4, "leave", None, ""));
        assert_eq!((restored.bytes(), restored.standing(1, 0).control.len()), (empty, 0));
        restored.apply(&entry(5, "join", None, ""));
        assert_eq!(shown(&restored, Timestamp(0)), [None]);
    }
}
