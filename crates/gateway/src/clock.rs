//! The one place where the gateway asks what time it is by the calendar.

use std::time::{Duration, Instant, SystemTime};

use salon_protocol::Timestamp;

/// Now, by the calendar.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// A calendar moment on the clock that deadlines are kept by. A moment beyond a century is as good as never.
pub(crate) fn instant(at: Timestamp) -> Instant {
    const CENTURY: u64 = 100 * 365 * 86_400_000;
    Instant::now() + Duration::from_millis(at.0.saturating_sub(now().0).min(CENTURY))
}
