//! Times as the wire has them: RFC 3339, and milliseconds since 1970 inside.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

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
        let b = text.as_bytes();
        let number = |range: std::ops::Range<usize>| -> Option<i64> {
            let digits = b.get(range)?;
            digits.iter().try_fold(0, |n, d| d.is_ascii_digit().then(|| n * 10 + i64::from(d - b'0')))
        };
        let mark = |at: usize, allowed: &[u8]| b.get(at).filter(|c| allowed.contains(c)).map(drop);

        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        mark(4, b"-")?;
        mark(7, b"-")?;
        mark(10, b"Tt ")?;
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        mark(13, b":")?;
        mark(16, b":")?;

        let mut at = 19;
        let mut millis = 0;
        if b.get(at) == Some(&b'.') {
            let digits = b[at + 1..].iter().take_while(|c| c.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            for place in 0..3 {
                let digit = if place < digits { i64::from(b[at + 1 + place] - b'0') } else { 0 };
                millis = millis * 10 + digit;
            }
            at += 1 + digits;
        }
        let offset_minutes = match b.get(at)? {
            b'Z' | b'z' => {
                at += 1;
                0
            }
            sign @ (b'+' | b'-') => {
                let (hours, minutes) = (number(at + 1..at + 3)?, number(at + 4..at + 6)?);
                mark(at + 3, b":")?;
                if hours > 23 || minutes > 59 {
                    return None;
                }
                at += 6;
                (hours * 60 + minutes) * if *sign == b'+' { 1 } else { -1 }
            }
            _ => return None,
        };
        // Second 60 is a leap second, which RFC 3339 has.
        let in_range = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour <= 23
            && minute <= 59
            && second <= 60;
        if !in_range || at != b.len() {
            return None;
        }
        let minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
        Some(Self(u64::try_from((minutes * 60 + second) * 1000 + millis).unwrap_or(0)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil_from_days(i64::try_from(days).unwrap_or(i64::MAX / 2));
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Days are counted in 400-year eras that begin on 1 March, so that the leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
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
