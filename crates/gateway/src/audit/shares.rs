//! Records that a sender can cause as often as it likes: the gateway keeps so many a second of each [`SenderShare`], and of all senders without a
//! valid token together. It counts the others, and one record says how many there were.
//!
//! If it kept all of them, one sender could rotate the records of the others away.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use salon_protocol::{Code, ParticipantId, RateLimit, Timestamp, TokenBucket};
use serde::Serialize;

use super::AuditKind;

/// How many are kept of one second, of senders without a valid token.
const MAX_STRANGERS_PER_SECOND: u32 = 20;

/// How many are kept of one share of a participant: in a second on average, and at once.
const MAX_SHARE_PER_SECOND: u32 = 20;
const MAX_SHARE_AT_ONCE: u32 = 60;

/// How long others are counted until a record says how many there were.
pub(super) const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

/// Above this number of shares, a new one makes the gateway forget those that have caused nothing for a while.
const SWEEP_ABOVE: usize = 1024;

/// What is counted together. Records that say something else have a share of their own, so that nobody hides one among others: another code, another
/// token, another network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SenderShare {
    pub(super) participant: ParticipantId,
    pub(super) kind: AuditKind,
    /// Of refusals.
    pub(super) code: Option<Code>,
    /// Of tokens that were accepted: which, and from which network.
    pub(super) token_id: Option<String>,
    pub(super) network: Option<IpAddr>,
}

/// A token bucket for each share.
#[derive(Debug, Default)]
pub(super) struct SenderShares {
    strangers: TokenBucket,
    participants: HashMap<SenderShare, TokenBucket>,
    /// What is counted now of each share; `None` is that of senders without a valid token.
    counting: HashMap<Option<SenderShare>, Suppressed>,
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
    /// With which code they were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    /// Which token they showed, and from which network.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<IpAddr>,
    count: u64,
    /// When the first of them was.
    since: Timestamp,
}

impl SenderShares {
    /// Whether an event is kept. If it is not, it is counted.
    pub(super) fn takes(&mut self, share: Option<SenderShare>, ts: Timestamp) -> bool {
        if self.take_token(share.as_ref(), Duration::from_millis(ts.0)) {
            return true;
        }
        let first = Suppressed {
            ts,
            event: "suppressed",
            participant: share.as_ref().map(|share| share.participant.clone()),
            of: share.as_ref().map(|share| share.kind),
            code: share.as_ref().and_then(|share| share.code),
            token_id: share.as_ref().and_then(|share| share.token_id.clone()),
            network: share.as_ref().and_then(|share| share.network),
            count: 0,
            since: ts,
        };
        let counting = self.counting.entry(share).or_insert(first);
        counting.count += 1;
        counting.ts = counting.ts.max(ts);
        false
    }

    fn take_token(&mut self, share: Option<&SenderShare>, now: Duration) -> bool {
        let Some(share) = share else {
            let limit = RateLimit::per_second(MAX_STRANGERS_PER_SECOND, MAX_STRANGERS_PER_SECOND);
            return limit.take(&mut self.strangers, 1, now).is_ok();
        };
        let limit = RateLimit::per_second(MAX_SHARE_PER_SECOND, MAX_SHARE_AT_ONCE);
        if self.participants.len() >= SWEEP_ABOVE && !self.participants.contains_key(share) {
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
    counted.sort_by(|one, other| {
        let order = |record: &Suppressed| (record.ts, record.participant.clone(), record.of, record.code);
        order(one).cmp(&order(other))
    });
    counted
}
