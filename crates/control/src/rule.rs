//! Rules of a topic: what becomes of calls that the caller's role allows.

use salon_protocol::ParticipantId;
use serde::{Deserialize, Serialize};

use crate::capability::CapabilityPattern;
use crate::role::RoleName;

const DEFAULT_HOLD_MILLIS: u64 = 5 * 60 * 1000;

/// Participants that a rule names: one of them, or all with a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Principal {
    /// `role:NAME`
    Role(RoleName),
    /// An id.
    Participant(ParticipantId),
}

impl TryFrom<String> for Principal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix("role:") {
            Some(role) => RoleName::new(role).map(Self::Role).map_err(|why| why.to_string()),
            None => ParticipantId::new(&text)
                .map(Self::Participant)
                .map_err(|why| format!("`{text}` is neither a participant nor `role:NAME`: {why}")),
        }
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        match principal {
            Principal::Role(role) => format!("role:{role}"),
            Principal::Participant(id) => id.as_str().to_owned(),
        }
    }
}

/// What a rule does with the calls that match it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleEffect {
    /// They are held until they are approved.
    Hold,
    /// They pass, whatever later rules say.
    Allow,
    /// They are refused.
    Deny,
}

/// Says what becomes of some calls. Exactly one of `hold`, `allow` and `deny` names them, as `call:PARTICIPANT/TOOL`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallRule {
    /// The calls that are held until they are approved.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub hold: Option<CapabilityPattern>,
    /// The calls that pass.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub allow: Option<CapabilityPattern>,
    /// The calls that are refused.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub deny: Option<CapabilityPattern>,
    /// Who may approve: everyone here with `approve` for the call, where it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<Principal>,
    /// How many of them have to.
    #[serde(default = "one")]
    pub needs: u32,
    /// How long the call waits for them, in milliseconds.
    #[serde(default = "default_hold")]
    pub expires_ms: u64,
    /// Whether the caller may be one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub self_approval: bool,
    /// The rule is for calls of these participants; for everybody's, where it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Principal>,
}

fn one() -> u32 {
    1
}

fn default_hold() -> u64 {
    DEFAULT_HOLD_MILLIS
}

mod as_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::capability::CapabilityPattern;

    pub(super) fn serialize<S: Serializer>(
        capability: &Option<CapabilityPattern>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        capability.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<CapabilityPattern>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse()).transpose().map_err(serde::de::Error::custom)
    }
}

impl CallRule {
    /// The members of a rule in JSON.
    pub(crate) const FIELDS: [&str; 8] =
        ["hold", "allow", "deny", "approvers", "needs", "expires_ms", "self_approval", "callers"];

    /// What it does, and to which calls. `None` for a rule that is not valid.
    pub fn effect(&self) -> Option<(RuleEffect, &CapabilityPattern)> {
        match (&self.hold, &self.allow, &self.deny) {
            (Some(calls), None, None) => Some((RuleEffect::Hold, calls)),
            (None, Some(calls), None) => Some((RuleEffect::Allow, calls)),
            (None, None, Some(calls)) => Some((RuleEffect::Deny, calls)),
            _ => None,
        }
    }
}
