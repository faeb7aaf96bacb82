//! Capabilities: short patterns that say what may be done, `call:robot-*/move*` for example.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::act::Act;
use crate::pattern::{InvalidPattern, NamePattern};

/// How many capabilities a set has at most.
const MAX_CAPABILITIES: usize = 256;

/// A pattern for acts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CapabilityPattern {
    /// `*`: everything.
    All,
    /// `read`
    Read,
    /// `say`
    Say,
    /// `call:PARTICIPANT/TOOL`
    Call(NamePattern, NamePattern),
    /// `offer`
    Offer,
    /// `approve:PARTICIPANT/TOOL`
    Approve(NamePattern, NamePattern),
    /// `moderate`
    Moderate,
    /// `manage`
    Manage,
}

/// Why a text is not a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidCapability {
    /// A word that is none of them.
    Unknown(String),
    /// `call` or `approve` without participant and tool.
    NoTarget(&'static str),
    /// A participant or tool that is not a pattern.
    Target(InvalidPattern),
    /// More than 256 of them.
    TooMany,
}

impl fmt::Display for InvalidCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) => write!(
                f,
                "`{text}` is not a capability: use `read`, `say`, `call:PARTICIPANT/TOOL`, `offer`, `approve:PARTICIPANT/TOOL`, \
                 `moderate`, `manage` or `*`, with `!` in front of what is denied"
            ),
            Self::NoTarget(word) => {
                write!(f, "`{word}` needs a participant and a tool, such as `{word}:robot-*/move*`")
            }
            Self::Target(why) => write!(f, "a participant or tool is not usable: {why}"),
            Self::TooMany => write!(f, "there are more than {MAX_CAPABILITIES} capabilities"),
        }
    }
}

impl CapabilityPattern {
    /// Whether it covers an act.
    pub fn covers(&self, act: &Act<'_>) -> bool {
        match (self, act) {
            (Self::All, _)
            | (Self::Read, Act::Read)
            | (Self::Say, Act::Say)
            | (Self::Offer, Act::Offer)
            | (Self::Moderate, Act::Moderate)
            | (Self::Manage, Act::Manage) => true,
            (Self::Call(who, what), Act::Call(callee, tool))
            | (Self::Approve(who, what), Act::Approve(callee, tool)) => {
                who.matches(callee.as_str()) && what.matches(tool)
            }
            _ => false,
        }
    }

    /// Whether it covers every call.
    fn covers_all_calls(&self) -> bool {
        match self {
            Self::All => true,
            Self::Call(who, what) => who.is_any() && what.is_any(),
            _ => false,
        }
    }
}

fn target(word: &'static str, text: &str) -> Result<(NamePattern, NamePattern), InvalidCapability> {
    // A participant's id has no `/`; a tool's name may have.
    let (who, what) = text.split_once('/').ok_or(InvalidCapability::NoTarget(word))?;
    let read = |part: &str| part.parse::<NamePattern>().map_err(InvalidCapability::Target);
    Ok((read(who)?, read(what)?))
}

impl FromStr for CapabilityPattern {
    type Err = InvalidCapability;

    fn from_str(text: &str) -> Result<Self, InvalidCapability> {
        Ok(match text {
            "*" => Self::All,
            "read" => Self::Read,
            "say" => Self::Say,
            "offer" => Self::Offer,
            "moderate" => Self::Moderate,
            "manage" => Self::Manage,
            "call" => return Err(InvalidCapability::NoTarget("call")),
            "approve" => return Err(InvalidCapability::NoTarget("approve")),
            _ => match text.split_once(':') {
                Some(("call", rest)) => target("call", rest).map(|(who, what)| Self::Call(who, what))?,
                Some(("approve", rest)) => target("approve", rest).map(|(who, what)| Self::Approve(who, what))?,
                _ => return Err(InvalidCapability::Unknown(text.chars().take(64).collect())),
            },
        })
    }
}

impl fmt::Display for CapabilityPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Read => f.write_str("read"),
            Self::Say => f.write_str("say"),
            Self::Call(who, what) => write!(f, "call:{who}/{what}"),
            Self::Offer => f.write_str("offer"),
            Self::Approve(who, what) => write!(f, "approve:{who}/{what}"),
            Self::Moderate => f.write_str("moderate"),
            Self::Manage => f.write_str("manage"),
        }
    }
}

/// Capabilities that are allowed, without those that are denied (`!` in front). Deny overrides allow, in whichever order they stand.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CapabilitySet {
    allowed: Vec<CapabilityPattern>,
    denied: Vec<CapabilityPattern>,
}

impl CapabilitySet {
    /// The set that allows everything.
    pub fn all() -> Self {
        Self { allowed: vec![CapabilityPattern::All], denied: Vec::new() }
    }

    /// Reads a list of capabilities.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, InvalidCapability> {
        if list.len() > MAX_CAPABILITIES {
            return Err(InvalidCapability::TooMany);
        }
        let mut set = Self::default();
        for text in list {
            match text.as_ref().strip_prefix('!') {
                Some(denied) => set.denied.push(denied.parse()?),
                None => set.allowed.push(text.as_ref().parse()?),
            }
        }
        Ok(set)
    }

    /// Whether an act is allowed.
    pub fn allows(&self, act: &Act<'_>) -> bool {
        let covers = |list: &[CapabilityPattern]| list.iter().any(|capability| capability.covers(act));
        covers(&self.allowed) && !covers(&self.denied)
    }

    /// Whether every call is allowed, so that the name of the tool has not to be read.
    pub fn allows_all_calls(&self) -> bool {
        let concerns_calls =
            |capability: &CapabilityPattern| matches!(capability, CapabilityPattern::All | CapabilityPattern::Call(..));
        self.allowed.iter().any(CapabilityPattern::covers_all_calls) && !self.denied.iter().any(concerns_calls)
    }

    /// The set as a list that [`CapabilitySet::parse`] reads.
    pub fn to_list(&self) -> Vec<String> {
        let denied = self.denied.iter().map(|capability| format!("!{capability}"));
        self.allowed.iter().map(ToString::to_string).chain(denied).collect()
    }
}

impl Serialize for CapabilitySet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_list().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CapabilitySet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Vec::<String>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use proptest::prelude::*;
    use salon_protocol::ParticipantId;

    fn set(list: &[&str]) -> CapabilitySet {
        CapabilitySet::parse(list).expect("capabilities")
    }

    fn id(text: &str) -> ParticipantId {
        ParticipantId::new(text).expect("an id")
    }

    #[test]
    fn deny_overrides_allow() {
        let set = set(&["!call:robot/delete*", "read", "call:robot/*"]);
        let (robot, rover) = (id("robot"), id("rover"));
        assert!(set.allows(&Act::Call(&robot, "move")) && !set.allows(&Act::Call(&robot, "delete_all")));
        assert!(!set.allows(&Act::Call(&rover, "move")) && !set.allows(&Act::Approve(&robot, "move")));
        assert!(set.allows(&Act::Read) && !set.allows(&Act::Say));
    }

    #[test]
    fn what_need_not_be_looked_at() {
        assert!(CapabilitySet::all().allows_all_calls());
        assert!(set(&["call:*/*"]).allows_all_calls());
        assert!(!set(&["*", "!call:a/b"]).allows_all_calls() && set(&["*", "!say"]).allows_all_calls());
        assert!(!set(&["call:*/x"]).allows_all_calls());
    }

    #[test]
    fn what_is_no_capability_is_named() {
        let error = |text: &str| CapabilitySet::parse(&[text]).expect_err(text).to_string();
        assert_snapshot!(error("speak"), @"`speak` is not a capability: use `read`, `say`, `call:PARTICIPANT/TOOL`, `offer`, `approve:PARTICIPANT/TOOL`, `moderate`, `manage` or `*`, with `!` in front of what is denied");
        assert_snapshot!(error("call:robot"), @"`call` needs a participant and a tool, such as `call:robot-*/move*`");
        assert_snapshot!(error("!approve"), @"`approve` needs a participant and a tool, such as `approve:robot-*/move*`");
        assert_snapshot!(error("call:/move"), @"a participant or tool is not usable: a name is missing");
        assert_eq!(CapabilitySet::parse(&vec!["say"; 257]), Err(InvalidCapability::TooMany));
    }

    proptest! {
        #[test]
        fn roundtrip(list in proptest::collection::vec("!?(read|say|offer|moderate|manage|\\*|(call|approve):[a-z*]{1,5}/[a-z*/]{1,5})", 0..6)) {
            let set = CapabilitySet::parse(&list).expect("capabilities");
            prop_assert_eq!(&CapabilitySet::parse(&set.to_list()).expect("capabilities"), &set);
            let (who, tool) = (ParticipantId::new("abc").expect("an id"), "x/y");
            if set.allows_all_calls() {
                prop_assert!(set.allows(&Act::Call(&who, tool)));
            }
        }
    }
}
