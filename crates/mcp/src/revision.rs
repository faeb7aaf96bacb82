//! The published revisions of MCP, and the two eras they form.

use std::fmt;

use salon_protocol::McpVersion;

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
            // A participant with unknown revisions still gets a handshake.
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
