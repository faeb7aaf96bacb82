//! Roles: named sets of capabilities.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::capability::CapabilitySet;

/// The longest name, in bytes.
const MAX_BYTES: usize = 64;

/// The name of a role.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoleName(Box<str>);

/// Why a text is not the name of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidRole;

impl fmt::Display for InvalidRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a role has a name of 1 to 64 lower-case letters, digits, `-` and `_`")
    }
}

impl RoleName {
    /// May do everything.
    pub const OWNER: &str = "owner";
    /// May do everything but moderate, manage, and approve calls.
    pub const MEMBER: &str = "member";
    /// May read.
    pub const OBSERVER: &str = "observer";

    /// Checks a name.
    pub fn new(text: &str) -> Result<Self, InvalidRole> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let is_name = (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(fits);
        if is_name { Ok(Self(text.into())) } else { Err(InvalidRole) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The role of participants that have no other.
    pub fn member() -> &'static Self {
        static NAME: LazyLock<RoleName> = LazyLock::new(|| RoleName(RoleName::MEMBER.into()));
        &NAME
    }

    /// The role that may do everything.
    pub fn owner() -> Self {
        Self(Self::OWNER.into())
    }

    /// What a role allows that every topic has; `None` for others. `owner` cannot be defined otherwise by a topic, so that somebody can always
    /// manage it.
    pub(crate) fn built_in(&self) -> Option<&'static CapabilitySet> {
        static OWNER: LazyLock<CapabilitySet> = LazyLock::new(CapabilitySet::all);
        static MEMBER: LazyLock<CapabilitySet> =
            LazyLock::new(|| CapabilitySet::parse(&["read", "say", "call:*/*", "offer"]).unwrap_or_default());
        static OBSERVER: LazyLock<CapabilitySet> =
            LazyLock::new(|| CapabilitySet::parse(&["read"]).unwrap_or_default());
        match &*self.0 {
            Self::OWNER => Some(&OWNER),
            Self::MEMBER => Some(&MEMBER),
            Self::OBSERVER => Some(&OBSERVER),
            _ => None,
        }
    }
}

impl TryFrom<String> for RoleName {
    type Error = InvalidRole;

    fn try_from(text: String) -> Result<Self, InvalidRole> {
        Self::new(&text)
    }
}

impl From<RoleName> for String {
    fn from(role: RoleName) -> Self {
        role.0.into()
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(RoleName::new("crew-2").is_ok());
        for wrong in ["", "Crew", "a b", &"x".repeat(65)] {
            assert_eq!(RoleName::new(wrong), Err(InvalidRole), "{wrong}");
        }
    }
}
