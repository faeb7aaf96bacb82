//! The settings of one topic: who may enter, with which role, which calls wait for approval.
//!
//! A topic without settings is [`TopicSettings::default`], in which every token that names the topic may do everything except moderate and manage it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use salon_protocol::{Participant, ParticipantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::act::Act;
use crate::capability::{CapabilityPattern, CapabilitySet};
use crate::limits::{TopicLimits, TopicRetention};
use crate::role::RoleName;
use crate::rule::{CallRule, Principal, RuleEffect};
use crate::rule_list::RuleList;

/// Bounds of one topic's settings. They are stored with every change, and every room has them in memory.
const MAX_BYTES: usize = 64 << 10;
const MAX_TITLE_CHARS: usize = 200;
const MAX_DESCRIPTION_CHARS: usize = 4000;
const MAX_PARTICIPANTS: usize = 1000;
const MAX_ROLES: usize = 32;
const MAX_RULES: usize = 100;
const MAX_APPROVERS: usize = 32;
const MAX_HOLD_MILLIS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Who may enter a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicAccess {
    /// Everybody whose token names the topic.
    #[default]
    Token,
    /// Of them, the members.
    Members,
}

/// See the module. Settings that a later version stored may have members that this version does not know; a change may not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicSettings {
    /// Counts the changes. A change that was made from another version than the newest is refused.
    pub version: u64,
    /// What people call the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may enter.
    pub access: TopicAccess,
    /// Roles by participant.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<ParticipantId, RoleName>,
    /// The role of participants that have none; `member` unless it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_role: Option<RoleName>,
    /// Roles beside `owner`, `member` and `observer`. A topic may define the last two otherwise.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<RoleName, CapabilitySet>,
    /// What becomes of calls that the role allows. The first rule that matches counts.
    #[serde(skip_serializing_if = "RuleList::is_empty")]
    pub rules: RuleList,
    /// How much may be done here, beside the limits of the gateway.
    #[serde(skip_serializing_if = "TopicLimits::is_default")]
    pub limits: TopicLimits,
    /// How long entries are kept.
    #[serde(skip_serializing_if = "TopicRetention::is_default")]
    pub retention: TopicRetention,
    /// Nothing new is stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// Everyone is paused who is neither a person by its token nor may moderate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Participants that may read and nothing else, for now.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub paused: BTreeSet<ParticipantId>,
    /// Participants that may not enter.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub removed: BTreeSet<ParticipantId>,
}

/// Why settings are not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidSettings {
    /// They are not of the right shape.
    Shape(String),
    /// More of something than a topic may have: how many, and of what.
    TooMany(usize, &'static str),
    /// A role that is not defined.
    UnknownRole(RoleName),
    /// `owner` is defined.
    OwnerDefined,
    /// A rule is for something else than calls, or does not say what becomes of them.
    NotACall,
    /// A rule needs no approval, or more approvals than a rule may.
    Needs,
    /// A rule's calls expire at once, or too late.
    Expiry,
    /// A limit is zero.
    Zero,
    /// No owner is left that may enter.
    NoOwner,
    /// A member that settings or rules do not have.
    Unknown(String),
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(why) => write!(f, "the settings cannot be read: {why}"),
            Self::TooMany(most, what) => write!(f, "a topic has at most {most} {what}"),
            Self::UnknownRole(role) => write!(f, "the role `{role}` is not defined"),
            Self::OwnerDefined => f.write_str("the role `owner` may do everything and cannot be defined otherwise"),
            Self::NotACall => {
                f.write_str("a rule has one of `hold`, `allow` and `deny`, with calls such as `call:robot-*/move*`")
            }
            Self::Needs => write!(f, "`needs` is a number from 1 to {MAX_APPROVERS}"),
            Self::Expiry => f.write_str("a held call expires after 1 second to 7 days"),
            Self::Zero => {
                f.write_str("limits and retention are whole numbers from 1; without one, the gateway's counts")
            }
            Self::NoOwner => f.write_str("a topic needs a member with the role `owner` that is not removed"),
            Self::Unknown(name) => write!(f, "there is no setting `{name}`"),
        }
    }
}

impl TopicSettings {
    /// The members of settings in JSON.
    const FIELDS: [&str; 14] = [
        "version",
        "title",
        "description",
        "access",
        "members",
        "default_role",
        "roles",
        "rules",
        "limits",
        "retention",
        "archived",
        "stopped",
        "paused",
        "removed",
    ];

    /// What counts in place of settings that this version cannot read: only operators may enter.
    pub(crate) fn closed(version: u64) -> Self {
        Self { version, access: TopicAccess::Members, ..Self::default() }
    }

    /// The settings after a change: a JSON merge patch (RFC 7396), in which `null` removes a member. The version goes up by one.
    pub fn patched(&self, patch: &Value) -> Result<Self, InvalidSettings> {
        let shape = |error: serde_json::Error| InvalidSettings::Shape(error.to_string());
        if !patch.is_object() {
            return Err(InvalidSettings::Shape("a change is an object".into()));
        }
        check_fields(patch, &Self::FIELDS)?;
        check_fields(&patch["limits"], &TopicLimits::FIELDS)?;
        check_fields(&patch["retention"], &TopicRetention::FIELDS)?;
        for rule in patch["rules"].as_array().into_iter().flatten() {
            check_fields(rule, &CallRule::FIELDS)?;
        }
        let mut document = serde_json::to_value(self).map_err(shape)?;
        merge(&mut document, patch);
        let settings: Self = serde_json::from_value(document).map_err(shape)?;
        Self { version: self.version + 1, ..settings }.checked()
    }

    fn checked(self) -> Result<Self, InvalidSettings> {
        let bounded = |count: usize, most: usize, what: &'static str| {
            if count > most { Err(InvalidSettings::TooMany(most, what)) } else { Ok(()) }
        };
        let chars = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
        bounded(chars(&self.title), MAX_TITLE_CHARS, "characters in its title")?;
        bounded(chars(&self.description), MAX_DESCRIPTION_CHARS, "characters in its description")?;
        let named = self.members.len().max(self.paused.len()).max(self.removed.len());
        bounded(named, MAX_PARTICIPANTS, "members, and as many paused or removed participants")?;
        bounded(self.roles.len(), MAX_ROLES, "roles of its own")?;
        bounded(self.rules.len(), MAX_RULES, "rules")?;
        if !self.limits.are_positive() || !self.retention.is_positive() {
            return Err(InvalidSettings::Zero);
        }
        if self.roles.keys().any(|role| role.as_str() == RoleName::OWNER) {
            return Err(InvalidSettings::OwnerDefined);
        }
        for role in self.members.values().chain(&self.default_role) {
            self.role(role).ok_or_else(|| InvalidSettings::UnknownRole(role.clone()))?;
        }
        self.rules.iter().try_for_each(|rule| self.check_rule(rule))?;
        // Also a paused owner can manage the topic.
        let is_owner =
            |(who, role): (&ParticipantId, &RoleName)| role.as_str() == RoleName::OWNER && !self.removed.contains(who);
        if !self.members.iter().any(is_owner) {
            return Err(InvalidSettings::NoOwner);
        }
        let bytes = serde_json::to_string(&self).map_or(usize::MAX, |text| text.len());
        bounded(bytes, MAX_BYTES, "bytes of settings")?;
        Ok(self)
    }

    fn check_rule(&self, rule: &CallRule) -> Result<(), InvalidSettings> {
        if !matches!(rule.effect(), Some((_, CapabilityPattern::Call(..)))) {
            return Err(InvalidSettings::NotACall);
        }
        if rule.approvers.len() > MAX_APPROVERS || rule.callers.len() > MAX_APPROVERS {
            return Err(InvalidSettings::TooMany(MAX_APPROVERS, "approvers or callers in a rule"));
        }
        if rule.needs == 0 || rule.needs as usize > MAX_APPROVERS {
            return Err(InvalidSettings::Needs);
        }
        if !(1000..=MAX_HOLD_MILLIS).contains(&rule.expires_ms) {
            return Err(InvalidSettings::Expiry);
        }
        for principal in rule.approvers.iter().chain(&rule.callers) {
            if let Principal::Role(role) = principal {
                self.role(role).ok_or_else(|| InvalidSettings::UnknownRole(role.clone()))?;
            }
        }
        Ok(())
    }

    /// What a role allows here.
    fn role(&self, role: &RoleName) -> Option<&CapabilitySet> {
        self.roles.get(role).or_else(|| role.built_in())
    }

    /// The role of a participant; `None` for one that may not enter. A ghost may enter where its bridge may.
    pub fn role_of<'a>(&self, subject: impl Into<SettingsSubject<'a>>) -> Option<&RoleName> {
        let SettingsSubject { id, via } = subject.into();
        if let Some(bridge) = via {
            self.role_of(bridge)?;
        }
        if self.removed.contains(id) {
            return None;
        }
        if let Some(role) = self.members.get(id) {
            return Some(role);
        }
        match self.access {
            TopicAccess::Members if via.is_none() => None,
            TopicAccess::Members | TopicAccess::Token => Some(self.default_role.as_ref().unwrap_or(RoleName::member())),
        }
    }

    /// What a participant may do here by its role; `None` for one that may not enter. What a ghost may do, its bridge's role must allow, too.
    pub fn capabilities_of<'a>(&self, subject: impl Into<SettingsSubject<'a>>) -> Option<&CapabilitySet> {
        self.role_of(subject).and_then(|role| self.role(role))
    }

    /// Whether a participant is paused; `is_human` where its token says that it is a person. A ghost is paused with its bridge.
    pub fn is_paused<'a>(&self, subject: impl Into<SettingsSubject<'a>>, is_human: bool) -> bool {
        let subject = subject.into();
        self.names_paused(subject) || (self.stopped && !is_human && !self.may_moderate(subject))
    }

    fn names_paused(&self, SettingsSubject { id, via }: SettingsSubject<'_>) -> bool {
        self.paused.contains(id) || via.is_some_and(|bridge| self.paused.contains(bridge))
    }

    /// Whether these settings end the calls of a participant: it has lost its role, is paused, or the room is stopped, and was not so by the
    /// settings before. A stop ends the calls of everyone who may not moderate: which of them are people, the entries of a log do not say.
    /// People may go on calling after it, so each cause counts by itself.
    pub fn ends_calls_of<'a>(&self, subject: impl Into<SettingsSubject<'a>>, before: Option<&Self>) -> bool {
        let subject = subject.into();
        let is_new = |holds: &dyn Fn(&Self) -> bool| holds(self) && !before.is_some_and(holds);
        is_new(&|settings| settings.role_of(subject).is_none())
            || is_new(&|settings| settings.names_paused(subject))
            || is_new(&|settings| settings.stopped && !settings.may_moderate(subject))
    }

    fn may_moderate(&self, subject: SettingsSubject<'_>) -> bool {
        let may = |subject| self.capabilities_of(subject).is_some_and(|allowed| allowed.allows(&Act::Moderate));
        may(subject) && subject.via.is_none_or(|bridge| may(bridge.into()))
    }

    /// The rule for a call; `None` where there is none.
    pub fn rule_for<'a>(
        &self,
        caller: impl Into<SettingsSubject<'a>>,
        call: &Act<'_>,
    ) -> Option<(&CallRule, RuleEffect)> {
        let (caller, Act::Call(callee, tool)) = (caller.into(), call) else { return None };
        self.rules.candidates(callee, tool).find_map(|rule| {
            let (effect, calls) = rule.effect()?;
            let concerns = || rule.callers.is_empty() || self.is_one_of(&rule.callers, caller);
            (calls.covers(call) && concerns()).then_some((rule, effect))
        })
    }

    /// Whether principals include a participant.
    pub fn is_one_of<'a>(&self, principals: &[Principal], subject: impl Into<SettingsSubject<'a>>) -> bool {
        let subject = subject.into();
        principals.iter().any(|principal| match principal {
            Principal::Participant(id) => id == subject.id,
            Principal::Role(role) => self.role_of(subject) == Some(role),
        })
    }
}

/// Of whom settings are asked: a participant, and the bridge that speaks for it where one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsSubject<'a> {
    /// The participant.
    pub id: &'a ParticipantId,
    /// The bridge of a ghost.
    pub via: Option<&'a ParticipantId>,
}

impl<'a> From<&'a ParticipantId> for SettingsSubject<'a> {
    fn from(id: &'a ParticipantId) -> Self {
        Self { id, via: None }
    }
}

impl<'a> From<&'a Participant> for SettingsSubject<'a> {
    fn from(participant: &'a Participant) -> Self {
        Self { id: &participant.id, via: participant.via.as_ref() }
    }
}

/// Refuses members of an object that have other names.
fn check_fields(object: &Value, known: &[&str]) -> Result<(), InvalidSettings> {
    let mut names = object.as_object().into_iter().flat_map(serde_json::Map::keys);
    match names.find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(InvalidSettings::Unknown(unknown.chars().take(64).collect())),
        None => Ok(()),
    }
}

/// JSON merge patch, RFC 7396 §2.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests;
