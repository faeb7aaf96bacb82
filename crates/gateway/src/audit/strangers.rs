//! Records of senders without a valid token: so many a second, and the others as one record that counts them.
//!
//! Anybody can cause them, as often as the network allows. Were all of them kept, a stranger could rotate the records of participants away.

use std::time::Duration;

use salon_protocol::{RateLimit, Timestamp, TokenBucket};
use serde::Serialize;

/// How many are kept of one second.
const MAX_PER_SECOND: u32 = 20;

/// How long others are counted until a record says how many there were.
pub(super) const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Strangers {
    bucket: TokenBucket,
    counting: Option<Suppressed>,
}

/// The record of those that were not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Suppressed {
    /// When the last of them was.
    pub(super) ts: Timestamp,
    event: &'static str,
    count: u64,
    /// When the first of them was.
    since: Timestamp,
}

impl Strangers {
    /// Whether an event is kept. If it is not, it is counted.
    pub(super) fn takes(&mut self, ts: Timestamp) -> bool {
        let limit = RateLimit::per_second(MAX_PER_SECOND, MAX_PER_SECOND);
        if limit.take(&mut self.bucket, 1, Duration::from_millis(ts.0)).is_ok() {
            return true;
        }
        let counting = self.counting.get_or_insert(Suppressed { ts, event: "suppressed", count: 0, since: ts });
        counting.count += 1;
        counting.ts = counting.ts.max(ts);
        false
    }

    /// The record that is due at a moment.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<Suppressed> {
        let is_due = |counting: &mut Suppressed| {
            Duration::from_millis(now.0.saturating_sub(counting.since.0)) >= SUMMARY_INTERVAL
        };
        self.counting.take_if(is_due)
    }

    /// What has been counted so far.
    pub(super) fn take(&mut self) -> Option<Suppressed> {
        self.counting.take()
    }
}
