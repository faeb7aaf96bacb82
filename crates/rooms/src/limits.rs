//! How much one participant may do, and how many may be in a room. Zero switches a limit off.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Code, ParticipantId, RateLimit, Refusal, TokenBucket};

/// How often one participant may publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Messages a second, in the long run. Zero is no limit.
    pub per_second: u32,
    /// Messages at once.
    pub burst: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Self { per_second: 100, burst: 1000 }
    }
}

/// A token bucket for each participant, whatever rooms and connections it uses.
pub(crate) struct Rates {
    limit: Option<RateLimit>,
    buckets: Mutex<HashMap<ParticipantId, TokenBucket>>,
    began: Instant,
    rate: Rate,
}

impl Rates {
    pub(crate) fn new(rate: Rate) -> Self {
        let burst = if rate.burst == 0 { rate.per_second } else { rate.burst };
        let limit = (rate.per_second > 0).then(|| RateLimit::per_second(rate.per_second, burst));
        Self { limit, buckets: Mutex::default(), began: Instant::now(), rate }
    }

    /// Takes one token; otherwise says how long until there is one.
    pub(crate) fn take(&self, participant: &ParticipantId) -> Result<(), Duration> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let mut buckets = self.buckets();
        let bucket = match buckets.get_mut(participant) {
            Some(bucket) => bucket,
            None => buckets.entry(participant.clone()).or_default(),
        };
        limit.take(bucket, 1, self.began.elapsed())
    }

    pub(crate) fn refusal(&self, wait: Duration) -> Refusal {
        let Rate { per_second, burst } = self.rate;
        let message = format!(
            "more than {per_second} messages a second (bursts of {burst}); try again in {} ms",
            wait.as_millis().max(1)
        );
        Refusal::new(Code::RateLimited, message)
    }

    /// Forgets participants whose bucket is full again.
    pub(crate) fn sweep(&self) {
        let now = self.began.elapsed();
        self.buckets().retain(|_, bucket| !bucket.is_full(now));
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<ParticipantId, TokenBucket>> {
        self.buckets.lock()
    }
}
