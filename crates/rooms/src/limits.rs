//! How much one participant may do, and how many may be in a room. Zero switches a limit off.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use salon_protocol::{Code, ParticipantId, Refusal};

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
    buckets: Option<DefaultKeyedRateLimiter<ParticipantId>>,
    rate: Rate,
}

impl Rates {
    pub(crate) fn new(rate: Rate) -> Self {
        let quota = NonZeroU32::new(rate.per_second).map(|per_second| {
            Quota::per_second(per_second).allow_burst(NonZeroU32::new(rate.burst).unwrap_or(per_second))
        });
        Self { buckets: quota.map(RateLimiter::keyed), rate }
    }

    /// Takes one token; otherwise says how long until there is one.
    pub(crate) fn take(&self, participant: &ParticipantId) -> Result<(), Duration> {
        let Some(buckets) = &self.buckets else { return Ok(()) };
        buckets.check_key(participant).map_err(|until| until.wait_time_from(DefaultClock::default().now()))
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
        if let Some(buckets) = &self.buckets {
            buckets.retain_recent();
        }
    }
}
