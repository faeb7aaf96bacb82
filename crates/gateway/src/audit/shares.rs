//! Records that a sender can cause as often as it likes: so many a second of each kind and participant, and of all senders without a valid
//! token together. The others are one record that counts them.
//!
//! Were all of them kept, one sender could rotate the records of everybody else away.

use std::collections::HashMap;
use std::time::Duration;

use salon_protocol::{ParticipantId, RateLimit, Timestamp, TokenBucket};
use serde::Serialize;

use super::AuditKind;

/// How many are kept of one second, of senders without a valid token.
const MAX_STRANGERS_PER_SECOND: u32 = 20;

/// How many of a kind are kept of one participant: in a second on average, and at once.
const MAX_PARTICIPANT_PER_SECOND: u32 = 20;
const MAX_PARTICIPANT_AT_ONCE: u32 = 200;

/// How long others are counted until a record says how many there were.
pub(super) const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

/// From how many participants on those are forgotten who have caused nothing for a while.
const MAX_PARTICIPANTS: usize = 1024;

/// Who has caused an event: a participant by events of a kind; `None` is a sender without a valid token.
pub(super) type SenderShare<'a> = Option<(&'a ParticipantId, AuditKind)>;

/// A token bucket for each share.
#[derive(Debug, Default)]
pub(super) struct SenderShares {
    strangers: TokenBucket,
    participants: HashMap<(ParticipantId, AuditKind), TokenBucket>,
    /// What is counted now of each share.
    counting: HashMap<Option<(ParticipantId, AuditKind)>, Suppressed>,
}

/// The record of those that were not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Suppressed {
    /// When the last of them was.
    pub(super) ts: Timestamp,
    event: &'static str,
    /// Whose they are; absent where nobody showed a valid token.
    #[serde(skip_serializing_if = "Option::is_none")]
    participant: Option<ParticipantId>,
    /// What kind of events they are; absent where nobody showed a valid token.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<AuditKind>,
    count: u64,
    /// When the first of them was.
    since: Timestamp,
}

impl SenderShares {
    /// Whether an event is kept. If it is not, it is counted.
    pub(super) fn takes(&mut self, share: SenderShare<'_>, ts: Timestamp) -> bool {
        let share = share.map(|(participant, kind)| (participant.clone(), kind));
        if self.take_token(share.as_ref(), Duration::from_millis(ts.0)) {
            return true;
        }
        let (participant, of) = share.clone().unzip();
        let first = Suppressed { ts, event: "suppressed", participant, of, count: 0, since: ts };
        let counting = self.counting.entry(share).or_insert(first);
        counting.count += 1;
        counting.ts = counting.ts.max(ts);
        false
    }

    fn take_token(&mut self, share: Option<&(ParticipantId, AuditKind)>, now: Duration) -> bool {
        let Some(share) = share else {
            let limit = RateLimit::per_second(MAX_STRANGERS_PER_SECOND, MAX_STRANGERS_PER_SECOND);
            return limit.take(&mut self.strangers, 1, now).is_ok();
        };
        let limit = RateLimit::per_second(MAX_PARTICIPANT_PER_SECOND, MAX_PARTICIPANT_AT_ONCE);
        if self.participants.len() >= MAX_PARTICIPANTS && !self.participants.contains_key(share) {
            self.participants.retain(|_, bucket| !bucket.is_full(now));
        }
        limit.take(self.participants.entry(share.clone()).or_default(), 1, now).is_ok()
    }

    /// The records that are due at a moment.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Suppressed> {
        let is_due =
            |counting: &Suppressed| Duration::from_millis(now.0.saturating_sub(counting.since.0)) >= SUMMARY_INTERVAL;
        in_order(self.counting.extract_if(|_, counting| is_due(counting)).map(|(_, counting)| counting))
    }

    /// What has been counted so far.
    pub(super) fn take(&mut self) -> Vec<Suppressed> {
        in_order(self.counting.drain().map(|(_, counting)| counting))
    }
}

fn in_order(counted: impl Iterator<Item = Suppressed>) -> Vec<Suppressed> {
    let mut counted: Vec<_> = counted.collect();
    counted.sort_by(|one, other| (one.ts, &one.participant, one.of).cmp(&(other.ts, &other.participant, other.of)));
    counted
}
