//! The one place that asks this machine what time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use salon_protocol::Timestamp;

/// The present.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
