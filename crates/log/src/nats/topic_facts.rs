//! What the index of a shard knows of a topic's fold without folding it: whether there may be settings, and who may be present.
//!
//! Invariant: never less than the fold says. A topic whose facts name no settings has none, and everyone who is present by the fold is in
//! [`TopicFacts::present`], unless the facts say that they are incomplete. So a node may skip the fold of a topic where nothing depends on it, and an error is
//! only ever a fold too many.

use std::collections::BTreeSet;

use salon_control::{ControlNotice, TopicRetention};
use salon_protocol::{Envelope, ParticipantId, PresenceEvent};
use serde::{Deserialize, Serialize};

use super::link::Stored;
use super::{import, redact};
use crate::Fold;

/// What must be in a message's text that is a presence entry or a notice of the gateway. Letters of a JSON string may be escaped, so that counts too.
const HINTS: [&str; 3] = ["system:gateway", "presence", "\\u"];

/// Which version of the rules of this module makes the facts. An index with facts of an earlier version has incomplete ones: increase this whenever facts mean
/// more than before, or the fold takes something into account that facts did not.
pub(super) const FACTS_VERSION: u32 = 1;

/// How many participants are remembered. A topic with more of them is looked at whenever somebody may be left behind.
const MAX_PRESENT: usize = 1000;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TopicFacts {
    /// Messages may be missing from these facts: they were removed before this node read them, or an earlier version kept the index.
    #[serde(default, rename = "u", skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_incomplete: bool,
    /// There was a notice with settings.
    #[serde(default, rename = "s", skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_settings: bool,
    /// The retention of the newest settings. Another change may have won, so this only tells when to look.
    #[serde(default, rename = "r", skip_serializing_if = "Option::is_none")]
    pub(super) retention: Option<TopicRetention>,
    /// The participants that joined and have not left since.
    #[serde(default, rename = "p", skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) present: BTreeSet<ParticipantId>,
    /// More joined than are remembered: anybody may be present, and [`Self::present`] is empty.
    #[serde(default, rename = "m", skip_serializing_if = "std::ops::Not::not")]
    pub(super) are_many_present: bool,
    /// A call may be held, a deletion unfinished, or a redacted text not erased.
    #[serde(default, rename = "w", skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_work: bool,
    /// The sequence of the newest notice that deletes the topic.
    #[serde(default, rename = "d", skip_serializing_if = "is_zero")]
    pub(super) deleted_at: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TopicFacts {
    /// Of a topic of which nothing else is known.
    pub(super) fn incomplete() -> Self {
        Self { is_incomplete: true, ..Self::default() }
    }

    /// What the fold of everything up to the topic's newest message says. `has_work` is what the fold does not know.
    pub(super) fn of(fold: &Fold, removed_through: u64, has_work: bool) -> Self {
        let without_roster = Self::without_roster(fold, removed_through, has_work);
        if without_roster.are_many_present {
            return without_roster;
        }
        Self { present: fold.roster().map(|participant| participant.id.clone()).collect(), ..without_roster }
    }

    /// The same, but for the participants: they are the only ones that may be many.
    fn without_roster(fold: &Fold, removed_through: u64, has_work: bool) -> Self {
        let deleted_at = fold.deletion().map_or(0, |deletion| deletion.at);
        let retention = fold.settings().map(|settings| settings.retention);
        Self {
            is_incomplete: false,
            has_settings: fold.settings().is_some(),
            retention: retention.filter(|own| *own != TopicRetention::default()),
            present: BTreeSet::new(),
            are_many_present: fold.population() > MAX_PRESENT,
            has_work: has_work || !fold.held_calls().is_empty() || deleted_at > removed_through,
            deleted_at,
        }
    }

    /// What the fold says, where that differs from these facts. Facts that are complete have everybody who is present, so they have somebody else as well only if
    /// they have more.
    pub(super) fn corrected(&self, fold: &Fold, removed_through: u64, has_work: bool) -> Option<Self> {
        let exact = Self::without_roster(fold, removed_through, has_work);
        let is_exact = (self.is_incomplete, self.has_settings, &self.retention, self.are_many_present)
            == (false, exact.has_settings, &exact.retention, exact.are_many_present)
            && (self.has_work, self.deleted_at) == (exact.has_work, exact.deleted_at)
            && (self.are_many_present || self.present.len() == fold.population());
        (!is_exact).then(|| Self::of(fold, removed_through, has_work))
    }

    /// Whether settings may decide who reads the topic.
    pub(super) fn may_have_settings(&self) -> bool {
        self.is_incomplete || self.has_settings
    }

    /// Whether somebody may be present.
    pub(super) fn may_have_participants(&self) -> bool {
        self.is_incomplete || self.are_many_present || !self.present.is_empty()
    }

    /// Whether a node that begins, or that another node has left alone, has something to do here, unless all who may be present have their seats.
    pub(super) fn may_need_recovery(&self, is_seated: impl Fn(&ParticipantId) -> bool) -> bool {
        self.is_incomplete || self.has_work || self.are_many_present || !self.present.iter().all(is_seated)
    }

    /// Takes in the topic's next message.
    pub(super) fn add(&mut self, stored: &Stored) {
        let Some(envelope) = gateway_envelope(stored) else {
            self.has_settings |= import::is_settings(stored);
            return;
        };
        if ControlNotice::is_one(&envelope) {
            return self.add_notice(stored, &envelope);
        }
        // Nobody is present by what was copied, and what stands for an erased message was counted when that came.
        if import::copied_at(stored).is_some() || redact::is_record(stored) {
            return;
        }
        let Some(presence) = envelope.presence() else { return };
        match presence.event {
            PresenceEvent::Join if self.are_many_present => {}
            PresenceEvent::Join => {
                self.present.insert(presence.participant.id.clone());
                if self.present.len() > MAX_PRESENT {
                    self.present.clear();
                    self.are_many_present = true;
                }
            }
            PresenceEvent::Leave => _ = self.present.remove(&presence.participant.id),
            PresenceEvent::Heartbeat | PresenceEvent::Status => {}
        }
    }

    fn add_notice(&mut self, stored: &Stored, envelope: &Envelope) {
        let is_copied = import::copied_at(stored).is_some();
        match ControlNotice::of(envelope) {
            _ if redact::is_record(stored) => (self.has_settings, self.has_work) = (true, true),
            Some(ControlNotice::Settings(change)) => {
                self.has_settings = true;
                self.retention = Some(change.settings.retention).filter(|own| *own != TopicRetention::default());
            }
            // Nothing but settings follows from what was copied.
            Some(_) if is_copied => {}
            // Nobody is present after it. That there were settings is still assumed.
            _ if ControlNotice::deletes_topic(envelope) => {
                self.present.clear();
                self.are_many_present = false;
                (self.has_work, self.deleted_at) = (true, stored.sequence);
            }
            Some(ControlNotice::Decided(_)) => {}
            Some(_) => self.has_work = true,
            // The text of the notice was redacted, or a later version has written it.
            None => (self.has_settings, self.has_work) = (true, true),
        }
    }
}

/// The envelope of a message that may be a presence entry or a notice. Most messages are neither, and are not parsed.
fn gateway_envelope(stored: &Stored) -> Option<Envelope> {
    let text = std::str::from_utf8(&stored.payload).ok()?;
    let may_be = HINTS.iter().any(|hint| text.contains(hint));
    may_be.then(|| Envelope::restore(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_nats::HeaderMap;
    use proptest::prelude::*;
    use salon_protocol::Timestamp;

    use super::super::import::COPIED;
    use super::super::topic;
    use super::*;

    /// What may be stored in a topic, by the kind of message and the number of the participant.
    fn text(kind: u8, number: u8, sequence: u64) -> String {
        let notice = |method: &str, params: &str| {
            (
                r#""from":"system:gateway","kind":"mcp""#,
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#),
            )
        };
        let presence = |event: &str| {
            let payload = format!(r#"{{"event":"{event}","participant":{{"id":"p{number}"}}}}"#);
            (r#""from":"system:gateway","kind":"presence""#, payload)
        };
        let method = |name: &str| name.trim_start_matches("notifications/").to_owned();
        let settings = format!(r#"{{"settings":{{"version":{}}},"by":"p1"}}"#, number % 3);
        let (head, payload) = match kind {
            0 | 1 => presence("join"),
            2 | 3 => presence("leave"),
            4 => notice(&method(salon_control::DELETED_METHOD), r#"{"by":"p1"}"#),
            5 => notice(&method(salon_control::SETTINGS_METHOD), &settings),
            6 => notice(&method(salon_control::SETTINGS_METHOD), r#"{"settings":1}"#),
            // The same letters, written in another way.
            7 => (r#""from":"system:gatewa\u0079","kind":"presence""#, presence("join").1),
            _ => (
                r#""from":"p1","kind":"mcp""#,
                r#"{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hello"}}"#.into(),
            ),
        };
        format!(
            r#"{{"protocol":"mcp-x/v0","id":"e{sequence}","ts":"2025-08-17T14:00:00Z",{head},"payload":{payload}}}"#
        )
    }

    fn stored(sequence: u64, text: String, is_copied: bool) -> Stored {
        let mut headers = HeaderMap::new();
        if is_copied {
            headers.insert(COPIED, "1");
        }
        let subject = "salon.0.token.abcdefghijklmnopqrstuvwx".to_owned();
        Stored { sequence, time: Timestamp(sequence), subject, headers, payload: text.into_bytes().into() }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn facts_are_never_less_than_the_fold(messages in prop::collection::vec((0..9_u8, 0..4_u8, any::<bool>()), 0..40)) {
            let (mut facts, mut fold) = (TopicFacts::default(), Fold::default());
            for ((kind, number, is_copied), sequence) in messages.into_iter().zip(1..) {
                let stored = stored(sequence, text(kind, number, sequence), is_copied && number == 3);
                facts.add(&stored);
                let entry: Arc<_> = topic::entry(1, &stored).expect("an entry");
                match import::copied_at(&stored) {
                    Some(_) => fold.adopt(&entry),
                    None => drop(fold.apply(&entry)),
                }
                let exact = TopicFacts::of(&fold, 0, false);
                prop_assert!(facts.has_settings || !exact.has_settings, "{entry:?}");
                prop_assert!(facts.present.is_superset(&exact.present), "{entry:?}");
                let corrected = facts.corrected(&fold, 0, false).unwrap_or_else(|| facts.clone());
                prop_assert_eq!(corrected, exact.clone(), "{:?}", entry);
                prop_assert!(facts.has_work || !exact.has_work, "{entry:?}");
                prop_assert!(facts.deleted_at >= exact.deleted_at, "{entry:?}");
            }
        }
    }

    #[test]
    fn a_participant_that_leaves_and_plain_messages_leave_nothing_to_do() {
        let mut facts = TopicFacts::default();
        for (kind, sequence) in [(0, 1), (8, 2), (2, 3)] {
            facts.add(&stored(sequence, text(kind, 0, sequence), false));
            assert_eq!(facts.may_have_participants(), sequence < 3);
            assert_eq!(facts.may_need_recovery(|_| false), sequence < 3);
            assert!(!facts.may_need_recovery(|_| true), "who has a seat is not lost");
        }
        assert_eq!(facts, TopicFacts::default());
        assert_eq!(serde_json::to_string(&facts).expect("plain JSON"), "{}");
    }

    #[test]
    fn too_many_participants_are_not_remembered_one_by_one() {
        let (mut facts, mut fold) = (TopicFacts::default(), Fold::default());
        let take = |facts: &mut TopicFacts, fold: &mut Fold, event: &str, number: usize, sequence| {
            let payload = format!(r#"{{"event":"{event}","participant":{{"id":"p{number}"}}}}"#);
            let rest = format!(r#""from":"system:gateway","kind":"presence","payload":{payload}"#);
            let text = format!(r#"{{"protocol":"mcp-x/v0","id":"e{sequence}","ts":"2025-08-17T14:00:00Z",{rest}}}"#);
            let stored = stored(sequence, text, false);
            facts.add(&stored);
            fold.apply(&topic::entry(1, &stored).expect("an entry"));
        };
        let mut sequence = 0;
        for number in 0..=MAX_PRESENT {
            assert_eq!((facts.are_many_present, facts.present.len()), (false, number));
            sequence += 1;
            take(&mut facts, &mut fold, "join", number, sequence);
        }
        assert!(facts.are_many_present && facts.present.is_empty());
        assert_eq!(facts, TopicFacts::of(&fold, 0, false));
        assert!(facts.may_have_participants() && facts.may_need_recovery(|_| true), "anybody may be left behind");
        for number in 0..MAX_PRESENT {
            sequence += 1;
            take(&mut facts, &mut fold, "leave", number, sequence);
        }
        assert!(facts.are_many_present, "who is left is not known without the fold");
        let corrected = facts.corrected(&fold, 0, false).expect("facts that differ");
        assert_eq!((corrected.are_many_present, corrected.present.len()), (false, 1));
        assert_eq!(corrected.corrected(&fold, 0, false), None);
    }

    #[test]
    fn the_retention_of_settings_that_lost_is_corrected() {
        let (mut facts, mut fold) = (TopicFacts::default(), Fold::default());
        for (sequence, count) in [(1, 5), (2, 9)] {
            let settings = format!(r#"{{"settings":{{"version":1,"retention":{{"max_entries":{count}}}}},"by":"p1"}}"#);
            let method = salon_control::SETTINGS_METHOD;
            let payload = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{settings}}}"#);
            let rest = format!(r#""from":"system:gateway","kind":"mcp","payload":{payload}"#);
            let text = format!(r#"{{"protocol":"mcp-x/v0","id":"e{sequence}","ts":"2025-08-17T14:00:00Z",{rest}}}"#);
            let stored = stored(sequence, text, false);
            facts.add(&stored);
            fold.apply(&topic::entry(1, &stored).expect("an entry"));
        }
        let by_fold = fold.settings().map(|settings| settings.retention);
        assert!(by_fold.is_some() && facts.retention != by_fold, "the first change of a version counts");
        let corrected = facts.corrected(&fold, 0, false).expect("facts that differ");
        assert_eq!(corrected.retention, by_fold);
        assert_eq!(corrected.corrected(&fold, 0, false), None);
    }

    #[test]
    fn held_calls_are_work() {
        let mut facts = TopicFacts::default();
        let params = r#"{"anything":1}"#;
        let payload =
            format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{params}}}"#, salon_control::APPROVAL_REQUESTED_METHOD);
        let rest = format!(r#""from":"system:gateway","kind":"mcp","payload":{payload}"#);
        let text = format!(r#"{{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00Z",{rest}}}"#);
        facts.add(&stored(1, text, false));
        assert!(facts.may_need_recovery(|_| true));
    }
}
