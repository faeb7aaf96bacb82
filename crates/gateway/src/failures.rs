//! How often an address may fail at something before that has consequences: so many times at once, so many a second in the long run.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{RateLimit, Timestamp, TokenBucket};

use crate::gateway::network;

/// How many addresses are remembered; those beyond are not limited.
const MAX_ADDRESSES: usize = 10_000;

pub(crate) struct Failures {
    is_counted: bool,
    limit: RateLimit,
    /// A token for every failure that an address has left.
    buckets: Mutex<HashMap<IpAddr, TokenBucket>>,
}

impl Failures {
    /// Where addresses are not distinguished (`limits.connections_per_address` is 0), nothing is counted.
    pub(crate) fn new(is_counted: bool, per_second: u32, at_once: u32) -> Self {
        Self { is_counted, limit: RateLimit::per_second(per_second, at_once), buckets: Mutex::default() }
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<IpAddr, TokenBucket>> {
        self.buckets.lock()
    }

    /// Whether an address has failed too often.
    pub(crate) fn are_too_many(&self, address: IpAddr, now: Timestamp) -> bool {
        let bucket = self.buckets().get(&network(address)).copied().unwrap_or_default();
        !self.limit.wait(&bucket, 1, since_1970(now)).is_zero()
    }

    /// Counts a failure of an address.
    pub(crate) fn count(&self, address: IpAddr, now: Timestamp) {
        if !self.is_counted {
            return;
        }
        let (address, mut buckets, now) = (network(address), self.buckets(), since_1970(now));
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
        let failures = Failures::new(true, 1, 10);
        let passes = |now: u64| !failures.are_too_many(address(1), Timestamp(NOW.0 + now));
        for _ in 0..10 {
            assert!(passes(0));
            failures.count(address(1), NOW);
        }
        assert!(!passes(0) && !passes(999));
        assert!(passes(1000));
        failures.count(address(1), Timestamp(NOW.0 + 1000));
        assert!(!passes(1000) && passes(2000));
        assert!(!failures.are_too_many(address(2), NOW), "another address is another's");
    }

    #[test]
    fn not_counted_is_not_counted() {
        let failures = Failures::new(false, 1, 10);
        for _ in 0..100 {
            failures.count(address(1), NOW);
        }
        assert!(!failures.are_too_many(address(1), NOW), "nothing counts");
    }

    #[test]
    fn no_more_addresses_are_kept_than_some() {
        let failures = Failures::new(true, 1, 10);
        for number in 0..=MAX_ADDRESSES as u32 {
            failures.count(address(number), NOW);
        }
        assert_eq!(failures.buckets().len(), MAX_ADDRESSES);
        failures.count(address(u32::MAX), Timestamp(NOW.0 + 1000));
        assert_eq!(failures.buckets().len(), 1, "those that do not count any more make room");
    }
}
