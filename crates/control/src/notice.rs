//! The notifications by which a gateway writes into a topic's log what was decided there. Only those of the gateway's own participant count.

use std::sync::Arc;

use salon_protocol::{Entry, Envelope, EnvelopeId, Message, ParticipantId, Redaction, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::rule::Principal;
use crate::settings::TopicSettings;

/// The settings were changed.
pub const SETTINGS_METHOD: &str = "notifications/topic/settings";
/// A call is held until somebody decides.
pub const APPROVAL_REQUESTED_METHOD: &str = "notifications/approval/requested";
/// Somebody has decided about a held call, or it is held no longer.
pub const APPROVAL_DECIDED_METHOD: &str = "notifications/approval/decided";

/// A message was redacted.
pub const REDACTED_METHOD: &str = "notifications/message/redacted";

/// The topic was deleted: nothing before this counts any more.
pub const DELETED_METHOD: &str = "notifications/topic/deleted";

/// The SHA-256 of an envelope's text, as notices and decisions write it: `sha256:` and hexadecimal digits.
pub fn text_digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::from("sha256:"), |hex, byte| hex + &format!("{byte:02x}"))
}

/// The parameters of [`DELETED_METHOD`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDeletion {
    /// The participant that deleted it.
    pub by: ParticipantId,
    /// What it was for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

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
    pub expires: Timestamp,
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
    /// It was approved, and cannot be stored: its id is taken, or it is too large.
    Dropped,
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

/// How many messages one redaction has at most.
pub const MAX_REDACTED_MESSAGES: usize = 64;

/// The parameters of [`REDACTED_METHOD`]: a message, and those that have the same text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRedaction {
    /// The id of the message.
    pub id: EnvelopeId,
    /// The participant that redacted it.
    pub by: ParticipantId,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What takes the place of which entries.
    pub messages: Vec<RedactedMessage>,
}

/// One entry that was redacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactedMessage {
    /// The id of its envelope.
    pub id: EnvelopeId,
    /// Its sender.
    pub from: ParticipantId,
    /// Where it stands in the topic's log.
    pub offset: u64,
    /// The SHA-256 of its text, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// The envelope that takes its place, as a text.
    pub tombstone: String,
}

impl RedactedMessage {
    /// What takes the place of an entry. `None` where it is another entry, or one that has been redacted before.
    pub fn replace(&self, entry: &Entry) -> Option<Arc<Entry>> {
        if entry.position.offset != self.offset || *entry.envelope.id() != self.id || entry.envelope.is_redacted() {
            return None;
        }
        let envelope = Envelope::restore(self.tombstone.as_str()).ok()?;
        let is_tombstone = envelope.is_redacted() && *envelope.id() == self.id && *envelope.from() == self.from;
        is_tombstone.then(|| Arc::new(Entry { envelope, stamp: entry.stamp.clone(), ..*entry }))
    }
}

/// What takes the place of a message, if it may be redacted: not the gateway's own notices, but for the text of a call that one of them holds.
pub fn tombstone_of(envelope: &Envelope, redaction: &Redaction) -> Option<Envelope> {
    match ControlNotice::of(envelope) {
        Some(ControlNotice::Requested(mut held)) => {
            let request = Envelope::restore(held.request.as_str()).ok()?;
            // As the tombstone of the call itself, so that a call that was approved is still known as the one that was held.
            let of_call = Redaction { digest: held.digest.clone(), ..redaction.clone() };
            held.request = request.tombstone(&of_call)?.text().to_owned();
            let params = serde_json::value::to_raw_value(&held).ok()?;
            envelope.tombstone_around(redaction, Some(&params))
        }
        None if !ControlNotice::is_one(envelope) => envelope.tombstone(redaction),
        _ => None,
    }
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
    /// See [`MessageRedaction`].
    Redacted(Box<MessageRedaction>),
    /// See [`TopicDeletion`].
    Deleted(Box<TopicDeletion>),
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
            SETTINGS_METHOD => read_settings(params).map(Box::new).map(Self::Settings),
            APPROVAL_REQUESTED_METHOD => serde_json::from_str(params).ok().map(Self::Requested),
            REDACTED_METHOD => serde_json::from_str(params).ok().map(Self::Redacted),
            DELETED_METHOD => serde_json::from_str(params).ok().map(Self::Deleted),
            _ => serde_json::from_str(params).ok().map(Self::Decided),
        }
    }

    /// Whether an envelope says that the topic was deleted.
    pub fn deletes_topic(envelope: &Envelope) -> bool {
        envelope.from().is_host()
            && matches!(envelope.message(), Some(Message::Notification { method }) if &**method == DELETED_METHOD)
    }

    /// Whether an envelope says that a call is held.
    pub fn holds_call(envelope: &Envelope) -> bool {
        let is_request = |method: &str| method == APPROVAL_REQUESTED_METHOD;
        envelope.from().is_host()
            && matches!(envelope.message(), Some(Message::Notification { method }) if is_request(method))
    }

    /// Whether an envelope is one of them, by its sender and method.
    pub fn is_one(envelope: &Envelope) -> bool {
        const METHODS: [&str; 5] =
            [SETTINGS_METHOD, APPROVAL_REQUESTED_METHOD, APPROVAL_DECIDED_METHOD, REDACTED_METHOD, DELETED_METHOD];
        envelope.from().is_host()
            && matches!(envelope.message(), Some(Message::Notification { method }) if METHODS.contains(&&**method))
    }
}

/// Settings that this version cannot read are not ignored: nobody but operators may enter then.
fn read_settings(params: &str) -> Option<SettingsChange> {
    #[derive(Deserialize)]
    struct Unreadable {
        settings: Version,
        by: ParticipantId,
    }
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    serde_json::from_str(params).ok().or_else(|| {
        let Unreadable { settings, by } = serde_json::from_str(params).ok()?;
        Some(SettingsChange { settings: TopicSettings::closed(settings.version), by, reason: None })
    })
}

#[cfg(test)]
mod tests {
    use salon_protocol::{Draft, Limits};
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_that_cannot_be_read_let_nobody_in() {
        let settings = json!({ "version": 7, "access": "by_invitation_of_a_later_version" });
        let payload =
            json!({ "jsonrpc": "2.0", "method": SETTINGS_METHOD, "params": { "settings": settings, "by": "alice" } });
        let text = json!({ "protocol": "mcp-x/v0", "id": "e1", "ts": "2026-01-01T00:00:00Z", "from": "system:gateway", "to": [], "kind": "mcp", "payload": payload });
        let envelope = Envelope::restore(text.to_string()).expect("an envelope");
        let Some(ControlNotice::Settings(change)) = ControlNotice::of(&envelope) else { panic!("settings") };
        assert_eq!((change.settings.version, change.settings.role_of(&change.by)), (7, None));
        let forged = text.to_string().replace("system:gateway", "mallory");
        let forged = Draft::parse(forged, &Limits::default()).expect("a draft").trust();
        assert_eq!(ControlNotice::of(&forged), None);
    }
}
