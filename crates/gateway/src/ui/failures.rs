//! How often an address may fail to sign in: ten times at once, once a second in the long run.
//!
//! No token or code can be guessed by asking; this is so that nobody has the gateway try.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use salon_protocol::{Code, Refusal, Timestamp};

/// How long a failure counts.
const EACH_MS: u64 = 1000;

/// How many failures may count at once.
const AT_ONCE: u64 = 10;

/// How many addresses are remembered; those beyond are let be.
const ADDRESSES: usize = 10_000;

pub(super) struct Failures {
    counted: bool,
    /// Until when the failures of an address count.
    until: Mutex<HashMap<IpAddr, u64>>,
}

impl Failures {
    pub(super) fn new(counted: bool) -> Self {
        Self { counted, until: Mutex::default() }
    }

    fn until(&self) -> MutexGuard<'_, HashMap<IpAddr, u64>> {
        self.until.lock().expect("nothing panics while the failures are locked")
    }

    /// Refuses an address that has failed too often.
    pub(super) fn check(&self, address: IpAddr, now: Timestamp) -> Result<(), Refusal> {
        let until = self.until().get(&address).copied().unwrap_or_default();
        if until <= now.0.saturating_add((AT_ONCE - 1) * EACH_MS) {
            return Ok(());
        }
        Err(Refusal::new(Code::RateLimited, "too many failed attempts to sign in from this address; wait a second"))
    }

    /// An address has failed.
    pub(super) fn count(&self, address: IpAddr, now: Timestamp) {
        let mut until = self.until();
        if !self.counted {
            return;
        }
        if until.len() >= ADDRESSES {
            until.retain(|_, until| *until > now.0);
        }
        if until.len() < ADDRESSES || until.contains_key(&address) {
            let until = until.entry(address).or_default();
            *until = (*until).max(now.0).saturating_add(EACH_MS);
        }
    }
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
        for number in 0..=ADDRESSES as u32 {
            failures.count(address(number), NOW);
        }
        assert_eq!(failures.until().len(), ADDRESSES);
        failures.count(address(u32::MAX), Timestamp(NOW.0 + EACH_MS));
        assert_eq!(failures.until().len(), 1, "those that do not count any more make room");
    }
}
