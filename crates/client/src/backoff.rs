use std::time::Duration;

/// How long to wait between attempts: full jitter, so that many who lost the same gateway do not return at the same moment.
///
/// Before attempt *n* the wait is anything from nothing to `base` · 2ⁿ, never more than `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait before the first attempt.
    pub base: Duration,
    /// The longest wait of all.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(250), cap: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// The wait before an attempt, the first being 0. `random` is any number, each as likely as every other.
    pub fn delay(&self, attempt: u32, random: u64) -> Duration {
        let doubled = self.base.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
        let longest = doubled.min(self.cap).as_nanos();
        // The high half of the product: `longest` times a fraction in [0, 1).
        let nanos = (longest.min(u64::MAX.into()) * u128::from(random)) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_millis(100), cap: Duration::from_secs(10) };

    fn about(millis: u64, delay: Duration) -> bool {
        (Duration::from_millis(millis) - Duration::from_micros(1)..=Duration::from_millis(millis)).contains(&delay)
    }

    #[test]
    fn the_longest_wait_doubles_up_to_the_cap() {
        for (attempt, millis) in
            [(0, 100), (1, 200), (2, 400), (6, 6400), (7, 10_000), (31, 10_000), (32, 10_000), (u32::MAX, 10_000)]
        {
            let longest = BACKOFF.delay(attempt, u64::MAX);
            assert!(about(millis, longest), "attempt {attempt}: {longest:?}");
        }
    }

    #[test]
    fn the_wait_is_spread_from_nothing_on() {
        assert_eq!(BACKOFF.delay(3, 0), Duration::ZERO);
        assert!(about(400, BACKOFF.delay(3, u64::MAX / 2)));
        assert!(about(200, BACKOFF.delay(3, u64::MAX / 4)));
    }

    #[test]
    fn absurd_settings_do_not_overflow() {
        let absurd = Backoff { base: Duration::MAX, cap: Duration::MAX };
        assert!(absurd.delay(5, u64::MAX) > Duration::from_secs(1));
        assert_eq!(Backoff { base: Duration::ZERO, cap: Duration::MAX }.delay(40, u64::MAX), Duration::ZERO);
    }
}
