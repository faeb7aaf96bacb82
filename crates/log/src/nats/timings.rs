//! The times that nodes agree on, and those after which NATS counts as unreachable.
//!
//! Deliberately absent: a setting for people. All nodes of a log must have the same lease, and nothing is gained by another one. Tests
//! use [`Timings::FAST`], so that they wait for a lease of 2 seconds and not of 10.

use std::time::Duration;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// How long the log on NATS waits for what.
///
/// Invariants: `beat_timeout` and a retry fit into `lease`; `silence_limit` and a `beat_interval` do, too, so that a node that lives has
/// been heard before its lease can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// How long a node that says nothing counts as living: the time of every lease.
    pub lease: Duration,
    /// Between two beats, by which a node says that it lives.
    pub beat_interval: Duration,
    /// How long a beat may take until NATS counts as unreachable.
    pub beat_timeout: Duration,
    /// How long this node may hear of nobody, itself included, before it assumes that it has missed something.
    pub silence_limit: Duration,
    /// Between two looks whether a node is gone.
    pub lapse_interval: Duration,
    /// How long one answer of NATS may take. Elections take longer, and are retried.
    pub answer_timeout: Duration,
    /// How long an append, or a write to a context, is retried before its caller hears that NATS is unreachable.
    pub append_timeout: Duration,
    /// The same for everything else: claims, reads, tickets, sign-outs.
    pub retry_timeout: Duration,
    /// How long an acknowledged append waits for its entry to arrive before the entry is read.
    pub entry_timeout: Duration,
    /// Between two tries to follow a topic that cannot be.
    pub look_interval: Duration,
    /// How long a leader that was just elected may lack what its stream had.
    pub election_timeout: Duration,
    /// How often a server says that a consumer has nothing new. After two and a half of them without a word the consumer is gone.
    pub idle_heartbeat: Duration,
    /// How long nothing may come of a stream before its leader is asked whether there is more, and how long that may take to come.
    pub lag_interval: Duration,
    /// Between two tries to open the log: a cluster that was just started elects first.
    pub start_retry_delay: Duration,
    /// Between two pings of the connection, by which one that is only silent is noticed: after three of them. In [`Self::NORMAL`] that and a new
    /// connection fit into a lease, so that a NATS server that stands still takes no gateway with it.
    pub ping_interval: Duration,
}

impl Timings {
    /// What gateways use.
    pub const NORMAL: Self = Self {
        lease: seconds(10),
        beat_interval: seconds(3),
        beat_timeout: seconds(5),
        silence_limit: seconds(6),
        lapse_interval: millis(500),
        answer_timeout: seconds(4),
        append_timeout: seconds(10),
        retry_timeout: seconds(8),
        entry_timeout: seconds(5),
        look_interval: seconds(5),
        election_timeout: seconds(5),
        idle_heartbeat: seconds(2),
        lag_interval: seconds(5),
        start_retry_delay: millis(250),
        ping_interval: seconds(2),
    };

    /// What tests use that wait for these times.
    pub const FAST: Self = Self {
        lease: seconds(2),
        beat_interval: millis(400),
        beat_timeout: millis(1200),
        silence_limit: millis(1400),
        lapse_interval: millis(100),
        answer_timeout: millis(1500),
        append_timeout: millis(3500),
        retry_timeout: seconds(3),
        entry_timeout: seconds(1),
        look_interval: millis(500),
        election_timeout: seconds(1),
        idle_heartbeat: millis(500),
        lag_interval: millis(1500),
        start_retry_delay: millis(250),
        ping_interval: seconds(1),
    };

    /// How long a consumer may be silent before it is recreated.
    pub(super) fn consumer_silence(&self) -> Duration {
        self.idle_heartbeat * 5 / 2
    }

    /// How long everything that was submitted may take to be answered: as long as it is retried, and an answer.
    pub(super) fn finish_timeout(&self) -> Duration {
        self.append_timeout + self.answer_timeout + Duration::from_secs(1)
    }
}

impl Default for Timings {
    fn default() -> Self {
        Self::NORMAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_lives_is_heard_before_its_lease_ends() {
        for timings in [Timings::NORMAL, Timings::FAST] {
            assert!(timings.silence_limit + timings.beat_interval < timings.lease, "{timings:?}");
            assert!(timings.beat_timeout + timings.beat_interval < timings.lease, "{timings:?}");
            assert!(timings.beat_interval * 3 <= timings.silence_limit * 2, "{timings:?}");
            assert!(timings.consumer_silence() < timings.lease, "{timings:?}");
        }
    }
}
