//! The one place that asks this machine what time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{Local, TimeZone};
use salon_protocol::Timestamp;

/// The present.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A time as people here read it: the day, and the minute of the day.
pub(crate) fn local(time: Timestamp) -> (String, String) {
    let time = i64::try_from(time.0).ok().and_then(|millis| Local.timestamp_millis_opt(millis).earliest());
    time.map_or_else(Default::default, |time| {
        (time.format("%A, %-d %B %Y").to_string(), time.format("%H:%M").to_string())
    })
}
