//! Token buckets: how often something may be done, and at once how much of it.
//!
//! Invariant: no clock. A time is how long ago any fixed moment was; the caller decides which.

use std::time::Duration;

/// How often something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// How long one token takes to come back.
    interval: Duration,
    /// How many tokens a full bucket has.
    burst: u32,
}

/// What one party has left of a [`RateLimit`]. A new one is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// When every token will be back (the theoretical arrival time of the generic cell rate algorithm, ITU-T I.371).
    full_at: Duration,
}

impl RateLimit {
    /// So many tokens a second, and so many at once. Zero of either is one.
    pub fn per_second(tokens: u32, burst: u32) -> Self {
        Self { interval: Duration::from_secs(1) / tokens.max(1), burst: burst.max(1) }
    }

    /// So many tokens a minute, all of them at once if they are there. Zero is one.
    pub fn per_minute(tokens: u32) -> Self {
        Self { interval: Duration::from_secs(60) / tokens.max(1), burst: tokens.max(1) }
    }

    /// One token each interval, and so many at once. Zero tokens are one.
    pub fn every(interval: Duration, burst: u32) -> Self {
        Self { interval, burst: burst.max(1) }
    }

    /// Takes tokens, or none and says how long until there are enough. More than a full bucket has are never there: the answer is
    /// then how long the missing ones would take.
    pub fn take(&self, bucket: &mut TokenBucket, tokens: u32, now: Duration) -> Result<(), Duration> {
        let wait = self.wait(bucket, tokens, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.owe(bucket, tokens, now);
        Ok(())
    }

    /// Takes tokens whether they are there or not. Until the missing ones are back, nothing else can be taken.
    pub fn owe(&self, bucket: &mut TokenBucket, tokens: u32, now: Duration) {
        bucket.full_at = bucket.full_at.max(now).saturating_add(self.time(tokens));
    }

    /// How long until a bucket has so many tokens; zero when it has them. Takes none.
    pub fn wait(&self, bucket: &TokenBucket, tokens: u32, now: Duration) -> Duration {
        let full_at = bucket.full_at.max(now).saturating_add(self.time(tokens));
        full_at.saturating_sub(now).saturating_sub(self.time(self.burst))
    }

    fn time(&self, tokens: u32) -> Duration {
        self.interval.saturating_mul(tokens)
    }
}

impl TokenBucket {
    /// Whether every token is there: such a bucket need not be kept.
    pub fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_burst_and_then_the_rate() {
        let (limit, mut bucket) = (RateLimit::per_second(2, 3), TokenBucket::default());
        let mut take = |tokens, at| limit.take(&mut bucket, tokens, MS(at));
        assert_eq!(take(2, 10_000), Ok(()));
        assert_eq!(take(2, 10_000), Err(MS(500)), "and takes none");
        assert_eq!(take(1, 10_000), Ok(()));
        assert_eq!(take(1, 10_000), Err(MS(500)));
        assert_eq!(take(1, 10_499), Err(MS(1)));
        assert_eq!(take(1, 10_500), Ok(()));
        assert_eq!(take(1, 10_500), Err(MS(500)));
        // A bucket gets no fuller than full, however long it waits.
        assert_eq!(take(4, 90_000), Err(MS(500)), "more than a full bucket has");
        assert_eq!(take(3, 90_000), Ok(()));
        assert!(!bucket.is_full(MS(91_499)) && bucket.is_full(MS(91_500)));
    }

    #[test]
    fn zero_is_one_and_extremes_are_no_danger() {
        let mut bucket = TokenBucket::default();
        assert_eq!(RateLimit::per_second(0, 0).take(&mut bucket, 1, Duration::ZERO), Ok(()));
        assert_eq!(RateLimit::per_second(0, 0).take(&mut bucket, 1, Duration::ZERO), Err(MS(1000)));
        let _ = RateLimit::per_second(1, u32::MAX).take(&mut bucket, u32::MAX, Duration::MAX);
        let _ = RateLimit::per_second(u32::MAX, 1).wait(&bucket, u32::MAX, Duration::ZERO);
    }

    proptest! {
        /// In any span of time no more is taken than a burst and what came back in it; a refused taker has it after the wait.
        #[test]
        fn no_more_than_the_rate(steps in prop::collection::vec((0u64..400, 1u32..4), 1..200)) {
            let (limit, mut bucket) = (RateLimit::per_second(10, 5), TokenBucket::default());
            let (mut now, mut taken) = (MS(0), 0);
            for (pause, tokens) in steps {
                now += MS(pause);
                match limit.take(&mut bucket, tokens, now) {
                    Ok(()) => taken += u64::from(tokens),
                    Err(wait) => prop_assert!(limit.clone().take(&mut bucket.clone(), tokens, now + wait).is_ok()),
                }
                prop_assert!(taken <= 5 + now.as_millis() as u64 / 100);
            }
        }
    }
}
