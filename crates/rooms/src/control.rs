//! Judges drafts by a topic's settings, and holds calls until they are approved.
//!
//! What the settings are, which calls are held and which of them are approved follows from the log ([`salon_log::Fold`]). A node only writes
//! notices: that a call is held, that nobody decided in time. What is approved every node may store: its id makes it one entry.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use salon_control::{
    APPROVAL_DECIDED_METHOD, APPROVAL_REQUESTED_METHOD, Act, ApprovalDecision, ApprovalRequest, CallRule,
    CapabilitySet, Decision, RuleEffect, TopicSettings,
};
use salon_log::{AppendError, Appended, Fold, HeldCall, MAX_HELD_CALLS};
use salon_protocol::{
    CloseReason, Code, Compose, Envelope, EnvelopeId, Kind, Message, ParticipantId, ParticipantKind, Refusal, Stamp,
    Timestamp, rpc,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::room::{Room, now, unreadable, unwritable};

/// The permission of tokens whose owners may do everything in every topic that the token names.
pub const OPERATOR_PERMISSION: &str = "operator";

/// What a topic's settings and a token say of a participant.
#[derive(Debug, Clone)]
pub struct Authority {
    settings: Arc<TopicSettings>,
    /// What the token allows; everything where it does not say.
    token: Option<CapabilitySet>,
    kind: Option<ParticipantKind>,
    stamp: Option<Stamp>,
}

impl Authority {
    /// What a fold and a stamp say of a participant. `None` where they forbid nothing, which is usual and must cost little.
    pub(crate) fn of(fold: &Fold, author: &ParticipantId, stamp: Option<&Stamp>) -> Option<Self> {
        let token = stamp.and_then(Stamp::capabilities);
        if author.is_host() || (fold.settings().is_none() && token.is_none()) {
            return None;
        }
        // A token whose capabilities cannot be read allows nothing.
        let token = token.map(|list| CapabilitySet::parse(&list).unwrap_or_default());
        let kind = fold.participant(author).and_then(|participant| participant.kind);
        Some(Self { settings: fold.settings().cloned().unwrap_or_default(), token, kind, stamp: stamp.cloned() })
    }

    /// Whether the token is an operator's.
    pub fn is_operator(&self) -> bool {
        self.stamp.as_ref().is_some_and(|stamp| stamp.permissions().iter().any(|name| name == OPERATOR_PERMISSION))
    }

    /// Whether a participant may do something. The refusal names the capability that is missing.
    pub fn check(&self, author: &ParticipantId, act: &Act<'_>) -> Result<(), Refusal> {
        let forbidden = |why: String| Err(Refusal::new(Code::Forbidden, why));
        if self.token.as_ref().is_some_and(|token| !token.allows(act)) {
            return forbidden(format!("this needs the capability `{act}`, which your token does not have"));
        }
        // Who may make the first settings of a topic is decided by the host: nobody has a role there yet.
        if self.settings.version == 0 && matches!(act, Act::Manage | Act::Moderate) {
            return Ok(());
        }
        let role = self.settings.role_of(author);
        match self.settings.capabilities_of(author) {
            Some(allowed) if allowed.allows(act) => Ok(()),
            _ if self.is_operator() => Ok(()),
            None => forbidden("this topic is for its members".into()),
            Some(_) => {
                let role = role.map_or_else(String::new, |role| role.to_string());
                forbidden(format!("this needs the capability `{act}`, which the role `{role}` does not have"))
            }
        }
    }

    /// Judges an envelope: refuses it, or says which rule holds it and which tool it calls.
    pub(crate) fn judge(&self, envelope: &Envelope) -> Result<Option<(CallRule, String)>, Refusal> {
        let author = envelope.from();
        let tool = salon_control::called_tool(envelope);
        if tool.is_none() && is_tool_call(envelope) {
            // Callees could read a name that no rule was tried with.
            return Err(Refusal::new(Code::InvalidParameters, "a tool call needs a string `params.name`"));
        }
        let act = Act::of(envelope, tool.as_deref().unwrap_or_default());
        // Whoever moderates or manages can take back what keeps everybody from everything.
        if !matches!(act, Act::Read | Act::Moderate | Act::Manage) {
            if self.settings.archived {
                return Err(Refusal::new(
                    Code::Archived,
                    "this topic is archived: it can be read, and nothing new is stored",
                ));
            }
            if self.settings.is_paused(author, self.kind) {
                return Err(Refusal::new(Code::Paused, "you are paused in this room: you can read, and nothing else"));
            }
        }
        self.check(author, &act)?;
        let Act::Call(callee, tool) = act else { return Ok(None) };
        self.check_callee(callee)?;
        match self.settings.rule_for(author, &act) {
            Some((rule, RuleEffect::Hold)) => Ok(Some((rule.clone(), tool.to_owned()))),
            Some((_, RuleEffect::Deny)) => {
                Err(Refusal::new(Code::Forbidden, format!("a rule of this topic denies `{act}`")))
            }
            Some((_, RuleEffect::Allow)) | None => Ok(None),
        }
    }

    /// Whether a participant may call a tool at once: a refusal where it may not, or where somebody would have to approve first.
    pub fn check_call(&self, caller: &ParticipantId, callee: &ParticipantId, tool: &str) -> Result<(), Refusal> {
        let act = Act::Call(callee, tool);
        self.check(caller, &act)?;
        self.check_callee(callee)?;
        let forbidden = |why: String| Err(Refusal::new(Code::Forbidden, why));
        match self.settings.rule_for(caller, &act) {
            Some((_, RuleEffect::Hold)) => forbidden(format!("`{act}` needs approval: call it directly")),
            Some((_, RuleEffect::Deny)) => forbidden(format!("a rule of this topic denies `{act}`")),
            Some((_, RuleEffect::Allow)) | None => Ok(()),
        }
    }

    /// Whether the token is not limited to other things.
    pub fn token_allows(&self, act: &Act<'_>) -> bool {
        self.token.as_ref().is_none_or(|token| token.allows(act))
    }

    /// The topic's settings.
    pub fn settings(&self) -> &TopicSettings {
        &self.settings
    }

    /// Whether a participant may be called: one that may not offer tools has none here.
    fn check_callee(&self, callee: &ParticipantId) -> Result<(), Refusal> {
        let offers = |allowed: CapabilitySet| allowed.allows(&Act::Offer);
        if callee.is_host() || self.settings.capabilities_of(callee).is_some_and(offers) {
            return Ok(());
        }
        Err(Refusal::new(Code::Forbidden, format!("`{callee}` may not offer tools in this topic")))
    }
}

impl Room {
    /// Whether a participant may be in this room at all.
    pub(crate) fn check_access(&self, participant: &ParticipantId, stamp: Option<&Stamp>) -> Result<(), Refusal> {
        check_access(self.attendance().fold(), participant, stamp)
    }

    /// Holds a call: everybody reads that it is held, and its callee nothing yet. The same envelope again is held once.
    pub(crate) fn hold(
        self: Arc<Self>,
        envelope: Envelope,
        stamp: Option<Stamp>,
        rule: CallRule,
        tool: String,
    ) -> BoxFuture<'static, Result<Appended, Refusal>> {
        Box::pin(async move {
            let id = envelope.id().clone();
            let regarding = |refusal: Refusal| refusal.regarding(Some(id.clone()));
            // What was approved before is stored.
            let found = self.log.find(&self.topic, &id).await.map_err(|error| regarding(unreadable(&error)))?;
            let conflict = || regarding(unwritable(&AppendError::IdConflict));
            if let Some(entry) = found {
                let is_same = entry.envelope.text() == envelope.text();
                return if is_same { Ok(Appended { entry, repeated: true }) } else { Err(conflict()) };
            }
            {
                let attendance = self.attendance();
                let held = attendance.fold().held_calls();
                if let Some(hold) = held.get(&id) {
                    let is_same = hold.request.request == envelope.text();
                    let entry = hold.entry.clone();
                    return if is_same { Ok(Appended { entry, repeated: true }) } else { Err(conflict()) };
                }
                if held.len() >= MAX_HELD_CALLS {
                    let message = format!("{MAX_HELD_CALLS} calls wait for approval in this room, which is the limit");
                    return Err(regarding(Refusal::new(Code::RateLimited, message)));
                }
            }
            let notice = self.requested_notice(&envelope, &rule, tool);
            let appended = self.log.append_stamped(&self.topic, notice, stamp).await;
            appended.map_err(|error| regarding(unwritable(&error)))
        })
    }

    fn requested_notice(&self, envelope: &Envelope, rule: &CallRule, tool: String) -> Envelope {
        let request = ApprovalRequest {
            id: envelope.id().clone(),
            request: envelope.text().to_owned(),
            digest: digest(envelope.text()),
            caller: envelope.from().clone(),
            callee: envelope.to().first().cloned().unwrap_or_else(ParticipantId::host),
            tool,
            approvers: rule.approvers.clone(),
            needs: rule.needs,
            self_approval: rule.self_approval,
            expires: Timestamp(now().0.saturating_add(rule.expires_ms)),
        };
        let id = self.notice_id("held", envelope.id());
        notice(&id, Some(envelope.id()), APPROVAL_REQUESTED_METHOD, &request)
    }

    /// The id of a notice about an envelope: the same on every node, so that it is stored once, and nobody else can foresee it.
    fn notice_id(&self, purpose: &str, about: &EnvelopeId) -> EnvelopeId {
        let namespace = uuid::Uuid::from_bytes(self.common.settings.leaves);
        let id = uuid::Uuid::new_v5(&namespace, format!("{purpose} {about}").as_bytes());
        EnvelopeId::new(id.to_string()).expect("a UUID is an id")
    }

    /// Stores the calls that are approved, and gives back those that nobody has decided about in time. Says when to look again.
    pub(crate) async fn settle_holds(&self) -> Option<Duration> {
        let (approved, expired) = {
            let attendance = self.attendance();
            let held = attendance.fold().held_calls().values();
            let (approved, open): (Vec<_>, Vec<_>) = held.cloned().partition(HeldCall::is_approved);
            let expired: Vec<_> = open.into_iter().filter(|hold| hold.request.expires <= now()).collect();
            (approved, expired)
        };
        let mut is_done = true;
        for hold in approved {
            let Ok(envelope) = Envelope::restore(hold.request.request.as_str()) else { continue };
            is_done &= self.store(self.log.append_stamped(&self.topic, envelope, hold.entry.stamp.clone()).await);
        }
        for hold in expired {
            let id = self.notice_id("expired", &hold.request.id);
            let decision = ApprovalDecision {
                id: hold.request.id.clone(),
                digest: hold.request.digest.clone(),
                decision: Decision::Expired,
                by: None,
                reason: None,
            };
            let notice = notice(&id, Some(&hold.request.id), APPROVAL_DECIDED_METHOD, &decision);
            is_done &= self.store(self.log.append(&self.topic, notice).await);
        }
        if !is_done {
            return Some(self.common.settings.timings.retry_delay);
        }
        self.next_expiry()
    }

    /// When the next held call expires.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        let attendance = self.attendance();
        let open = attendance.fold().held_calls().values().filter(|hold| !hold.is_approved());
        let first = open.map(|hold| hold.request.expires).min()?;
        Some(Duration::from_millis(first.0.saturating_sub(now().0)))
    }

    /// Whether something was stored, or need not be any more.
    fn store(&self, outcome: Result<Appended, AppendError>) -> bool {
        match outcome {
            Ok(_) | Err(AppendError::Stale | AppendError::IdConflict) => true,
            Err(error) => {
                tracing::warn!(topic = %self.topic, %error, "approvals: call or decision not stored, retrying");
                false
            }
        }
    }

    /// Closes the readers that may not be here any more.
    pub(crate) fn remove_excluded(&self) {
        let Some(settings) = self.attendance().fold().settings().cloned() else { return };
        self.end_readers(CloseReason::Removed, |reader| !reader.is_host() && settings.role_of(reader).is_none());
    }
}

fn is_tool_call(envelope: &Envelope) -> bool {
    matches!(envelope.message(), Some(Message::Request { method, .. }) if &**method == "tools/call")
}

/// Whether a participant may be in a room, by its fold.
pub(crate) fn check_access(fold: &Fold, participant: &ParticipantId, stamp: Option<&Stamp>) -> Result<(), Refusal> {
    match Authority::of(fold, participant, stamp) {
        None => Ok(()),
        Some(authority) => authority.check(participant, &Act::Read),
    }
}

/// The SHA-256 of a text, as notices and decisions write it.
pub fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::from("sha256:"), |hex, byte| hex + &format!("{byte:02x}"))
}

/// A notice of the gateway to everybody.
pub fn notice(id: &EnvelopeId, about: Option<&EnvelopeId>, method: &str, params: &impl Serialize) -> Envelope {
    let params = serde_json::value::to_raw_value(params).expect("notices have only string keys");
    Compose {
        id: id.as_str(),
        ts: now(),
        from: &ParticipantId::host(),
        to: &[],
        kind: Kind::Mcp,
        correlation_id: about.map(EnvelopeId::as_str),
        payload: rpc::notification(method, Some(&params)),
    }
    .envelope()
}
