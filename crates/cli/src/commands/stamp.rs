//! The time an envelope carries, as a line shows it.

use chrono::{Local, TimeZone};
use salon_protocol::{Envelope, Timestamp};
use serde::Deserialize;

/// The producer's time as `2025-08-17 14:00:00`, as clocks show it here.
pub(crate) fn of(envelope: &Envelope) -> String {
    #[derive(Deserialize)]
    struct Stamped {
        ts: String,
    }
    let stamped: Option<Stamped> = serde_json::from_str(envelope.text()).ok();
    let millis = stamped.and_then(|stamped| i64::try_from(Timestamp::parse(&stamped.ts)?.0).ok());
    let time = millis.and_then(|millis| Local.timestamp_millis_opt(millis).earliest());
    time.map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M:%S").to_string())
}

/// A time as `2025-08-17 14:00:00`, in UTC.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.to_string().replacen('T', " ", 1).chars().take("2025-08-17 14:00:00".len()).collect()
}
