//! Fixed timings; not configurable: no operator gains by changing them, and tests must not wait for them.

use std::time::Duration;

/// How long the gateway waits for what, with the times of its rooms and of its log on NATS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// Of the log on NATS.
    #[cfg(feature = "nats")]
    pub nats: salon_log::nats::Timings,
    /// Of the rooms.
    pub rooms: salon_rooms::Timings,
    /// How long the log is unreachable before clients hear of it: one server of a cluster that goes is no outage.
    pub outage_delay: Duration,
    /// Between two tries to tell the other gateways of a sign-out.
    pub sign_out_retry_delay: Duration,
    /// How long a session of the MCP door may be silent that lasts as long as its one stream.
    pub stream_idle_timeout: Duration,
    /// How long a session of the MCP door may be silent whose client hung up in the middle of something.
    pub vanished_timeout: Duration,
    /// How old a list of a participant's may be when somebody asks for it, where the participant does not say.
    pub list_max_age: Duration,
    /// How long after one announcement that a participant's tools have changed the next about it waits.
    pub announce_interval: Duration,
    /// How long after the start participants may still be on their way back, so that what they offer is not said to be missing.
    pub return_window: Duration,
    /// How long a framed connection may take to end a frame, and a new one to start its first.
    pub frame_timeout: Duration,
    /// How long a client may take for a body.
    pub body_timeout: Duration,
    /// How long a client may send nothing of a body.
    pub body_idle_timeout: Duration,
    /// How long a framed session without a connection waits for one.
    pub framed_session_timeout: Duration,
    /// How long the seat of a lost connection is kept, where it has that grace. Longer than a page takes to load over a slow line, shorter than a
    /// caller takes to give up.
    pub seat_grace: Duration,
    /// How long the lease of a bridge lasts that its gateway does not renew. Nobody bridges for as long when a gateway dies.
    pub bridge_lease: Duration,
}

impl Timings {
    /// What `salon serve` uses.
    pub const NORMAL: Self = Self {
        #[cfg(feature = "nats")]
        nats: salon_log::nats::Timings::NORMAL,
        rooms: salon_rooms::Timings::NORMAL,
        outage_delay: Duration::from_secs(1),
        sign_out_retry_delay: Duration::from_secs(3),
        stream_idle_timeout: Duration::from_secs(10),
        vanished_timeout: Duration::from_secs(60),
        list_max_age: Duration::from_secs(30),
        announce_interval: Duration::from_secs(10),
        return_window: Duration::from_secs(30),
        frame_timeout: Duration::from_secs(30),
        body_timeout: Duration::from_secs(15),
        body_idle_timeout: Duration::from_secs(5),
        framed_session_timeout: Duration::from_secs(60),
        seat_grace: Duration::from_secs(10),
        bridge_lease: Duration::from_secs(15),
    };

    /// What tests use.
    pub const FAST: Self = Self {
        #[cfg(feature = "nats")]
        nats: salon_log::nats::Timings::FAST,
        rooms: salon_rooms::Timings::FAST,
        outage_delay: Duration::from_millis(500),
        sign_out_retry_delay: Duration::from_millis(300),
        stream_idle_timeout: Duration::from_secs(1),
        vanished_timeout: Duration::from_secs(60),
        list_max_age: Duration::from_secs(60),
        announce_interval: Self::NORMAL.announce_interval,
        return_window: Duration::ZERO,
        frame_timeout: Self::NORMAL.frame_timeout,
        body_timeout: Self::NORMAL.body_timeout,
        body_idle_timeout: Self::NORMAL.body_idle_timeout,
        framed_session_timeout: Self::NORMAL.framed_session_timeout,
        seat_grace: Self::NORMAL.seat_grace,
        bridge_lease: Duration::from_secs(2),
    };
}

impl Default for Timings {
    fn default() -> Self {
        Self::NORMAL
    }
}
