//! The notifications by which a gateway writes into a topic's log what was decided there. Only those of the gateway's own participant count.

use salon_protocol::{Envelope, EnvelopeId, Message, ParticipantId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

use crate::settings::{Principal, TopicSettings};

/// The settings were changed.
pub const SETTINGS_METHOD: &str = "notifications/topic/settings";
/// A call is held until somebody decides.
pub const APPROVAL_REQUESTED_METHOD: &str = "notifications/approval/requested";
/// Somebody has decided about a held call, or it is held no longer.
pub const APPROVAL_DECIDED_METHOD: &str = "notifications/approval/decided";

/// The parameters of [`SETTINGS_METHOD`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// All of the settings as they are now.
    pub settings: TopicSettings,
    /// The participant that changed them.
    pub by: ParticipantId,
    /// What it was for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The parameters of [`APPROVAL_REQUESTED_METHOD`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The id of the envelope that is held, by which it is decided about.
    pub id: EnvelopeId,
    /// The text of that envelope, as its sender wrote it.
    pub request: String,
    /// The SHA-256 of the text, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// The participant that calls.
    pub caller: ParticipantId,
    /// The participant that is called.
    pub callee: ParticipantId,
    /// The tool that is called.
    pub tool: String,
    /// Who may decide; nobody named means everyone with `approve` for the call.
    #[serde(default)]
    pub approvers: Vec<Principal>,
    /// How many of them have to approve.
    pub needs: u32,
    /// Whether the caller may be one of them.
    #[serde(default)]
    pub self_approval: bool,
    /// When the call is given back undecided.
    #[serde(deserialize_with = "timestamp")]
    pub expires: Timestamp,
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    Timestamp::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time of RFC 3339"))
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// An approver approves.
    Approved,
    /// An approver denies.
    Denied,
    /// Nobody decided in time.
    Expired,
}

/// The parameters of [`APPROVAL_DECIDED_METHOD`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// The id of the envelope that is held.
    pub id: EnvelopeId,
    /// Of the text that was decided about. A decision about another text counts for nothing.
    pub digest: String,
    /// What was decided.
    pub decision: Decision,
    /// The approver, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ParticipantId>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlNotice {
    /// See [`SettingsChange`].
    Settings(Box<SettingsChange>),
    /// See [`ApprovalRequest`].
    Requested(Box<ApprovalRequest>),
    /// See [`ApprovalDecision`].
    Decided(Box<ApprovalDecision>),
}

impl ControlNotice {
    /// Reads an envelope, where it is one of them.
    pub fn of(envelope: &Envelope) -> Option<Self> {
        if !Self::is_one(envelope) {
            return None;
        }
        let Some(Message::Notification { method }) = envelope.message() else { return None };
        let params = envelope.params()?;
        match &**method {
            SETTINGS_METHOD => serde_json::from_str(params).ok().map(Self::Settings),
            APPROVAL_REQUESTED_METHOD => serde_json::from_str(params).ok().map(Self::Requested),
            _ => serde_json::from_str(params).ok().map(Self::Decided),
        }
    }

    /// Whether an envelope is one of them, by its sender and method.
    pub fn is_one(envelope: &Envelope) -> bool {
        const METHODS: [&str; 3] = [SETTINGS_METHOD, APPROVAL_REQUESTED_METHOD, APPROVAL_DECIDED_METHOD];
        envelope.from().is_host()
            && matches!(envelope.message(), Some(Message::Notification { method }) if METHODS.contains(&&**method))
    }
}
