//! How often one participant may read over HTTP.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;
use salon_protocol::{Code, ParticipantId, RateLimit, Refusal, TokenBucket};

/// How many times as many reads as a second's may come at once.
const BURST: u32 = 10;

/// Above this number of participants, a new one makes the gateway forget those that have read nothing for a while.
const SWEEP_ABOVE: usize = 1024;

/// A token bucket for each participant that reads.
pub(crate) struct ReadRates {
    /// `None` is no limit.
    limit: Option<RateLimit>,
    per_second: u32,
    buckets: Mutex<HashMap<ParticipantId, TokenBucket>>,
    began: Instant,
}

impl ReadRates {
    pub(crate) fn new(per_second: usize) -> Self {
        let per_second = u32::try_from(per_second).unwrap_or(u32::MAX);
        let limit = (per_second > 0).then(|| RateLimit::per_second(per_second, per_second.saturating_mul(BURST)));
        Self { limit, per_second, buckets: Mutex::default(), began: Instant::now() }
    }

    /// Takes one read, or refuses it.
    pub(crate) fn take(&self, participant: &ParticipantId) -> Result<(), Refusal> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let now = self.began.elapsed();
        let mut buckets = self.buckets.lock();
        if buckets.len() >= SWEEP_ABOVE && !buckets.contains_key(participant) {
            buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        limit.take(buckets.entry(participant.clone()).or_default(), 1, now).map_err(|wait| {
            let (rate, wait) = (self.per_second, wait.as_millis().max(1));
            let message = format!(
                "more than {rate} reads a second (bursts of {}); try again in {wait} ms",
                rate.saturating_mul(BURST)
            );
            Refusal::new(Code::RateLimited, message)
        })
    }
}
