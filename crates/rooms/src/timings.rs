//! The times by which presence is told and repaired.

use std::time::Duration;

/// How long rooms wait for what. No settings for people: [`Timings::orphan_timeout`] follows the lease of the log beneath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// How long a participant that is present by the log must be without a place on any node before it has left: as long as a lease.
    pub orphan_timeout: Duration,
    /// After so long a join or leave that was submitted and not read back was not stored.
    pub submission_timeout: Duration,
    /// Between two looks whether what the log says of presence is true, where other nodes share it.
    pub repair_interval: Duration,
    /// Before a leave that could not be stored is submitted again.
    pub retry_delay: Duration,
    /// How long a room waits for more comings and goings before it tells of them, unless something else is to be told: when a hundred people
    /// enter at once, each of them would otherwise be told of each of the others by a write of its own.
    pub presence_delay: Duration,
}

impl Timings {
    /// What gateways use.
    pub const NORMAL: Self = Self {
        orphan_timeout: Duration::from_secs(10),
        submission_timeout: Duration::from_secs(30),
        repair_interval: Duration::from_secs(3),
        retry_delay: Duration::from_secs(1),
        presence_delay: Duration::from_millis(3),
    };

    /// What tests use that wait for these times.
    pub const FAST: Self = Self {
        orphan_timeout: Duration::from_secs(2),
        submission_timeout: Duration::from_secs(6),
        repair_interval: Duration::from_millis(400),
        retry_delay: Duration::from_millis(200),
        presence_delay: Duration::from_millis(3),
    };
}

impl Default for Timings {
    fn default() -> Self {
        Self::NORMAL
    }
}
