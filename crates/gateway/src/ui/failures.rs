//! How often an address may fail to sign in: ten times at once, once a second in the long run.
//!
//! No token or code can be guessed by asking; this is so that nobody has the gateway try.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Code, RateLimit, Refusal, Timestamp, TokenBucket};

const FAILURES_PER_SECOND: u32 = 1;
const MAX_FAILURES_AT_ONCE: u32 = 10;

/// How many addresses are remembered; those beyond are not limited.
const MAX_ADDRESSES: usize = 10_000;

pub(super) struct Failures {
    counted: bool,
    limit: RateLimit,
    /// A token for every failure that an address has left.
    buckets: Mutex<HashMap<IpAddr, TokenBucket>>,
}

impl Failures {
    pub(super) fn new(counted: bool) -> Self {
        let limit = RateLimit::per_second(FAILURES_PER_SECOND, MAX_FAILURES_AT_ONCE);
        Self { counted, limit, buckets: Mutex::default() }
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<IpAddr, TokenBucket>> {
        self.buckets.lock()
    }

    /// Refuses an address that has failed too often.
    pub(super) fn check(&self, address: IpAddr, now: Timestamp) -> Result<(), Refusal> {
        let bucket = self.buckets().get(&address).copied().unwrap_or_default();
        if self.limit.wait(&bucket, 1, since_1970(now)).is_zero() {
            return Ok(());
        }
        Err(Refusal::new(Code::RateLimited, "too many failed attempts to sign in from this address; wait a second"))
    }

    /// Counts a failure of an address.
    pub(super) fn count(&self, address: IpAddr, now: Timestamp) {
        if !self.counted {
            return;
        }
        let (mut buckets, now) = (self.buckets(), since_1970(now));
        if buckets.len() >= MAX_ADDRESSES {
            buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        if buckets.len() < MAX_ADDRESSES || buckets.contains_key(&address) {
            // Attempts that were let in together may fail together; those beyond the limit do not lengthen the wait.
            let _ = self.limit.take(buckets.entry(address).or_default(), 1, now);
        }
    }
}

fn since_1970(time: Timestamp) -> Duration {
    Duration::from_millis(time.0)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn ten_at_once_and_one_a_second() {
        let failures = Failures::new(true);
        let passes = |now: u64| failures.check(address(1), Timestamp(NOW.0 + now)).is_ok();
        for _ in 0..10 {
            assert!(passes(0));
            failures.count(address(1), NOW);
        }
        assert!(!passes(0) && !passes(999));
        assert!(passes(1000));
        failures.count(address(1), Timestamp(NOW.0 + 1000));
        assert!(!passes(1000) && passes(2000));
        failures.check(address(2), NOW).expect("another address is another's");
    }

    #[test]
    fn not_counted_is_not_counted() {
        let failures = Failures::new(false);
        for _ in 0..100 {
            failures.count(address(1), NOW);
        }
        failures.check(address(1), NOW).expect("nothing counts");
    }

    #[test]
    fn no_more_addresses_are_kept_than_some() {
        let failures = Failures::new(true);
        for number in 0..=MAX_ADDRESSES as u32 {
            failures.count(address(number), NOW);
        }
        assert_eq!(failures.buckets().len(), MAX_ADDRESSES);
        failures.count(address(u32::MAX), Timestamp(NOW.0 + 1000));
        assert_eq!(failures.buckets().len(), 1, "those that do not count any more make room");
    }
}
