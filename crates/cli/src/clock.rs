//! The one place that asks this machine what time it is.

use std::time::SystemTime;

use chrono::{DateTime, Local, TimeZone};
use salon_protocol::Timestamp;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// A time as people here read it: the day, and the minute of the day.
pub(crate) fn day_and_minute(time: Timestamp) -> (String, String) {
    local(time).map_or_else(Default::default, |time| {
        (time.format("%A, %-d %B %Y").to_string(), time.format("%H:%M").to_string())
    })
}

/// A time as clocks show it here: `2025-08-17 14:00:00`.
pub(crate) fn second(time: Timestamp) -> String {
    local(time).map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M:%S").to_string())
}

fn local(time: Timestamp) -> Option<DateTime<Local>> {
    i64::try_from(time.0).ok().and_then(|millis| Local.timestamp_millis_opt(millis).earliest())
}
