//! Times as the wire has them: RFC 3339, and milliseconds since 1970 inside.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, Timelike, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// A moment of the system's clock, which the caller has asked. One before 1970 is 1970.
    pub fn from_system(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads an RFC 3339 date and time; `None` when it is anything else. A time before 1970 reads as 1970.
    pub fn parse(text: &str) -> Option<Self> {
        // The crate also takes the minus sign of Unicode in a zone, which RFC 3339 does not have.
        let time = text.is_ascii().then(|| DateTime::parse_from_rfc3339(text).ok())??;
        Some(Self(u64::try_from(time.timestamp_millis()).unwrap_or(0)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time =
            i64::try_from(self.0).ok().and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let (year, month, day) = (time.year(), time.month(), time.day());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", self.0 % 1000)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time of RFC 3339"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc3339_in_its_variety() {
        let read = |text: &str| Timestamp::parse(text).map(|t| t.to_string());
        assert_eq!(read("2025-08-17T14:00:00Z").as_deref(), Some("2025-08-17T14:00:00.000Z"));
        assert_eq!(read("2025-08-17t14:00:00.123456789z").as_deref(), Some("2025-08-17T14:00:00.123Z"));
        assert_eq!(read("2025-08-17T14:00:00+02:30").as_deref(), Some("2025-08-17T11:30:00.000Z"));
        assert_eq!(read("2024-02-29T23:59:60Z").as_deref(), Some("2024-03-01T00:00:00.000Z"));
        for wrong in [
            "",
            "2025-08-17",
            "2025-08-17T14:00:00",
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-08-17T24:00:00Z",
            "2025-08-17T14:00:00.Z",
            "2025-08-17T14:00:00+2:00",
            "1723903200",
            "2025-08-17T14:00:00Zz",
            "２025-08-17T14:00:00Z",
            "2025-08-17T14:00:00\u{2212}02:00",
            "2025-08-17T14:00:00+24:00",
            "2025-08-17T14:00:00+0200",
            " 2025-08-17T14:00:00Z",
            "2025-8-17T14:00:00Z",
            "+2025-08-17T14:00:00Z",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_system_time_is_counted_from_1970() {
        let second = std::time::Duration::from_millis(1_500);
        assert_eq!(Timestamp::from_system(UNIX_EPOCH + second), Timestamp(1_500));
        assert_eq!(Timestamp::from_system(UNIX_EPOCH - second), Timestamp(0));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 0u64..253_402_300_800_000) {
            prop_assert_eq!(Timestamp::parse(&Timestamp(ms).to_string()), Some(Timestamp(ms)));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = Timestamp::parse(&text);
        }
    }
}
