use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How grave a log line of MCP is, from the most to the least talkative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For debugging.
    Debug,
    /// What goes on.
    Info,
    /// Worth noticing.
    Notice,
    /// May become a problem.
    Warning,
    /// Something failed.
    Error,
    /// Something important failed.
    Critical,
    /// Somebody must act.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for LogLevel {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|level| level.word() == word).ok_or("it is not one of MCP's log levels")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_one_word_however_it_is_written() {
        for level in LogLevel::ALL {
            assert_eq!(serde_json::to_string(&level).unwrap(), format!("\"{level}\""));
            assert_eq!(level.word().parse(), Ok(level));
        }
        assert!("verbose".parse::<LogLevel>().is_err());
        assert!(LogLevel::ALL.is_sorted());
    }
}
