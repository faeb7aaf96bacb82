//! MCP itself, revision by revision: what the messages of each look like, and how one of them is said in another.
//!
//! Every function takes raw JSON and gives raw JSON, and changes only the members it names: numbers, order and unknown members of
//! the rest stay as they were written. Deliberately absent: connections, ids, time and callers. The legacy era begins with an
//! `initialize` handshake; the modern one has none, and every request says for itself what the handshake said.

pub mod door;
pub mod downgrade;
pub mod draft;
pub mod handshake;
pub mod headers;
pub mod input;
pub mod listing;
mod message;
pub mod meta;
#[cfg(test)]
mod scripts;
pub mod upgrade;

use std::fmt;

use salon_protocol::McpVersion;

pub use message::{Cancelled, Head, code, same_id};

/// The two ways of speaking MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// Up to 2025-11-25: a handshake, then both sides may ask.
    Legacy,
    /// From 2026-07-28 on: no handshake, and only the client asks.
    Modern,
}

impl Era {
    /// The era in which one who speaks this way speaks to somebody: its own where the other can, else the other's.
    pub fn with(self, other: &McpVersion) -> Self {
        let speaks = |era: Self| {
            let named = other.versions.iter().chain(std::iter::once(&other.version));
            named.filter_map(|version| Revision::parse(version)).any(|revision| revision.era() == era)
        };
        match self {
            Self::Modern if speaks(Self::Modern) => Self::Modern,
            Self::Legacy if speaks(Self::Modern) && !speaks(Self::Legacy) => Self::Modern,
            // Whoever names no revision that is known here is still worth a handshake.
            Self::Legacy | Self::Modern => Self::Legacy,
        }
    }
}

/// A published revision of MCP, the older the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Revision {
    /// 2024-11-05.
    R2024_11_05,
    /// 2025-03-26.
    R2025_03_26,
    /// 2025-06-18, the one MCPx names.
    R2025_06_18,
    /// 2025-11-25, the last with a handshake.
    R2025_11_25,
    /// 2026-07-28, the first without.
    R2026_07_28,
}

impl Revision {
    /// What participants of a room speak unless they agree otherwise.
    pub const ROOM: Self = Self::R2025_06_18;
    /// The revisions that begin with a handshake, the oldest first.
    pub const LEGACY: [Self; 4] = [Self::R2024_11_05, Self::R2025_03_26, Self::R2025_06_18, Self::R2025_11_25];
    /// The revision without a handshake.
    pub const MODERN: Self = Self::R2026_07_28;

    /// The dates of all of them, the newest first.
    pub fn all_dates() -> [&'static str; 5] {
        let [first, second, third, fourth] = Self::LEGACY.map(Self::date);
        [Self::MODERN.date(), fourth, third, second, first]
    }

    /// Reads a revision's date; `None` for one that is not known here.
    pub fn parse(date: &str) -> Option<Self> {
        Self::LEGACY.into_iter().chain([Self::MODERN]).find(|revision| revision.date() == date)
    }

    /// Its date.
    pub fn date(self) -> &'static str {
        match self {
            Self::R2024_11_05 => "2024-11-05",
            Self::R2025_03_26 => "2025-03-26",
            Self::R2025_06_18 => "2025-06-18",
            Self::R2025_11_25 => "2025-11-25",
            Self::R2026_07_28 => "2026-07-28",
        }
    }

    /// Which way of speaking it is of.
    pub fn era(self) -> Era {
        if self < Self::MODERN { Era::Legacy } else { Era::Modern }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.date())
    }
}
