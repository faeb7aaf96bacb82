//! The host's tools for control: a topic's settings, approvals, pausing and removing participants.
//!
//! Every change is a notice in the topic's log ([`salon_control`]), so that all nodes agree on it and everybody can see who made it. Who may call
//! which tool is decided before, by the rules of the room; only approvals are judged here, because who may decide depends on the call.

mod describe;

use salon_control::{
    APPROVAL_DECIDED_METHOD, Act, ApprovalDecision, ApprovalRequest, Authority, ControlNotice, Decision, TopicSettings,
};
use salon_log::HeldCall;
use salon_protocol::{Code, EnvelopeId, FailureCause, ParticipantId, Refusal, RpcError, Stamp};
use salon_rooms::{HostAccess, notice};
use serde_json::{Value, json};

pub(super) use describe::descriptions;

use super::arguments::Arguments;
use super::office::{HostRequest, Office};
use super::speech::{HostOutcome, derived_id, failed, structured};
use crate::topic_control::{MAX_TRIES, NoticeTerms, SettingsEdit, TopicControl, check_creation};

/// The call of a tool for control.
pub(super) struct ControlCall<'a> {
    office: &'a Office,
    request: &'a HostRequest,
}

impl<'a> ControlCall<'a> {
    /// Whether a tool is one of these.
    pub(super) fn is_one(tool: &str) -> bool {
        let is_family = |family: &str| tool.split_once('.').is_some_and(|(first, _)| first == family);
        ["topic", "participant", "approval"].into_iter().any(is_family) || matches!(tool, "room.stop" | "room.resume")
    }

    /// Answers a call.
    pub(super) async fn serve(
        office: &'a Office,
        request: &'a HostRequest,
        tool: &str,
        arguments: Arguments<'_>,
    ) -> HostOutcome {
        let call = Self { office, request };
        match tool {
            "topic.get" => call.get(arguments),
            "topic.configure" => call.configure(arguments).await,
            "participant.pause" => call.set_paused(arguments, true).await,
            "participant.resume" => call.set_paused(arguments, false).await,
            "participant.remove" => call.set_removed(arguments, true).await,
            "participant.readmit" => call.set_removed(arguments, false).await,
            "room.stop" => call.set_stopped(arguments, true).await,
            "room.resume" => call.set_stopped(arguments, false).await,
            "approval.list" => call.list(arguments),
            "approval.decide" => call.decide(arguments).await,
            other => Err(RpcError::invalid_params(format!("the gateway has no tool `{other}`"))),
        }
    }

    fn desk(&self) -> &HostAccess {
        &self.office.desk
    }

    fn stamp(&self) -> Option<&Stamp> {
        self.request.entry.stamp.as_ref()
    }

    fn topic_control(&self) -> TopicControl<'_> {
        let creation = self.office.toolbox.topic_creation;
        TopicControl { desk: self.desk(), creation, who: self.request.caller(), stamp: self.stamp() }
    }

    fn get(&self, arguments: Arguments<'_>) -> HostOutcome {
        arguments.end()?;
        let settings = self.desk().settings();
        let shown = settings.as_deref().cloned().unwrap_or_default();
        let (caller, topic) = (self.request.caller(), self.desk().topic());
        Ok(structured(&json!({
            "topic": topic, "configured": settings.is_some(), "settings": shown,
            "you": { "role": shown.role_of(caller), "capabilities": shown.capabilities_of(caller) },
        })))
    }

    async fn configure(&self, mut arguments: Arguments<'_>) -> HostOutcome {
        let change: Value = arguments.required("change")?;
        let version: Option<u64> = arguments.optional("version")?;
        let reason = read_reason(&mut arguments)?;
        arguments.end()?;
        let make = move |before: &TopicSettings| match version {
            Some(version) if version != before.version => {
                let message = format!("the settings have version {}, not {version}: read them again", before.version);
                Err(Refusal::new(Code::VersionConflict, message))
            }
            _ => Ok(change.clone()),
        };
        self.change(Act::Manage, reason, Box::new(make)).await
    }

    async fn set_paused(&self, mut arguments: Arguments<'_>, paused: bool) -> HostOutcome {
        let who: ParticipantId = arguments.required("participant")?;
        let reason = read_reason(&mut arguments)?;
        arguments.end()?;
        let make = |before: &TopicSettings| {
            let mut list = before.paused.clone();
            if paused {
                list.insert(who.clone())
            } else {
                list.remove(&who)
            };
            Ok(json!({ "paused": list }))
        };
        self.change(Act::Moderate, reason, Box::new(make)).await
    }

    async fn set_removed(&self, mut arguments: Arguments<'_>, removed: bool) -> HostOutcome {
        let who: ParticipantId = arguments.required("participant")?;
        let reason = read_reason(&mut arguments)?;
        arguments.end()?;
        let make = |before: &TopicSettings| {
            let mut list = before.removed.clone();
            if removed {
                list.insert(who.clone())
            } else {
                list.remove(&who)
            };
            Ok(json!({ "removed": list }))
        };
        self.change(Act::Moderate, reason, Box::new(make)).await
    }

    async fn set_stopped(&self, mut arguments: Arguments<'_>, stopped: bool) -> HostOutcome {
        let reason = read_reason(&mut arguments)?;
        arguments.end()?;
        self.change(Act::Moderate, reason, Box::new(move |_| Ok(json!({ "stopped": stopped })))).await
    }

    /// Changes the settings; see [`TopicControl::change`].
    async fn change(&self, act: Act<'_>, reason: Option<String>, make: SettingsEdit<'_>) -> HostOutcome {
        if let Some(ControlNotice::Settings(made)) = self.written_before("settings").await {
            return Ok(structured(&json!({ "settings": made.settings })));
        }
        let asked = self.request.entry.envelope.id();
        let id = |number: usize| self.notice_id(&format!("settings {number}"), asked);
        let terms = NoticeTerms { id: &id, about: Some(asked), reason };
        match self.topic_control().change(act, terms, make).await {
            Ok(settings) => Ok(structured(&json!({ "settings": settings }))),
            Err(refusal) => Ok(failed(&refusal.message)),
        }
    }

    /// The notice that this very request has led to, where the gateway was restarted before it answered.
    async fn written_before(&self, purpose: &str) -> Option<ControlNotice> {
        let asked = self.request.entry.envelope.id();
        for number in 0..MAX_TRIES {
            if !self.request.is_old {
                return None;
            }
            let id = self.notice_id(&format!("{purpose} {number}"), asked);
            let found = self.office.toolbox.log.find(self.desk().topic(), &id).await.ok().flatten();
            if let Some(entry) = found {
                return ControlNotice::of(&entry.envelope);
            }
        }
        None
    }

    fn notice_id(&self, purpose: &str, about: &EnvelopeId) -> EnvelopeId {
        EnvelopeId::new(derived_id(&self.office.toolbox.namespace, purpose, about)).expect("a UUID is an id")
    }

    fn list(&self, arguments: Arguments<'_>) -> HostOutcome {
        arguments.end()?;
        let shown = |hold: &HeldCall| {
            let mut shown = json!(*hold.request);
            shown["approved_by"] = json!(hold.approved_by);
            shown["you_may_decide"] = json!(self.approver().check(hold).is_ok());
            shown
        };
        let held = self.desk().held_calls();
        Ok(structured(&json!({ "approvals": held.iter().map(shown).collect::<Vec<_>>() })))
    }

    /// Why a call is not held, for a participant that would decide about it.
    async fn ending_of(&self, id: &EnvelopeId) -> &'static str {
        match self.desk().released(id) {
            Some(FailureCause::Denied) => "it was denied",
            Some(FailureCause::Expired) => "nobody decided about it in time",
            Some(FailureCause::Withdrawn) => "its caller cancelled it or left, and it is not sent",
            Some(FailureCause::Stopped) => "its caller was paused or removed, and it is not sent",
            Some(FailureCause::CalleeLeft | FailureCause::TooManyWaiting) | None => {
                let found = self.office.toolbox.log.find(self.desk().topic(), id).await;
                match found.ok().flatten() {
                    Some(_) => "it was approved, and sent",
                    None => "it was decided about, cancelled, or never held",
                }
            }
        }
    }

    fn approver(&self) -> Approver<'_> {
        Approver { office: self.office, who: self.request.caller(), stamp: self.stamp() }
    }

    fn check_manager(&self) -> Result<(), Refusal> {
        let authority = self.desk().authority(self.request.caller(), self.stamp());
        authority.map_or(Ok(()), |authority| authority.check(self.request.caller(), &Act::Manage))
    }

    /// Makes a decision a rule for this caller and this tool, before all other rules.
    async fn remember(
        &self,
        held: &ApprovalRequest,
        decision: Decision,
        reason: Option<String>,
    ) -> Result<(), Refusal> {
        let calls = format!("call:{}/{}", held.callee, held.tool);
        // A name with `*` would stand for others, too.
        if held.tool.contains('*') || held.callee.as_str().contains('*') {
            let message = format!("`{calls}` would match other calls as well; change the rules yourself");
            return Err(Refusal::new(Code::InvalidParameters, message));
        }
        let effect = if decision == Decision::Approved { "allow" } else { "deny" };
        let rule = json!({ effect: calls, "callers": [held.caller] });
        let make: SettingsEdit<'_> = Box::new(move |before| {
            let unreadable = |error: serde_json::Error| Refusal::new(Code::Internal, error.to_string());
            let rules = serde_json::to_value(&before.rules).map_err(unreadable)?;
            let others = rules
                .as_array()
                .into_iter()
                .flatten()
                .filter(|known| known["callers"] != rule["callers"] || known[effect] != rule[effect]);
            let rules: Vec<_> = std::iter::once(&rule).chain(others).cloned().collect();
            Ok(json!({ "rules": rules }))
        });
        let asked = self.request.entry.envelope.id();
        let id = |number: usize| self.notice_id(&format!("remembered {number}"), asked);
        let terms = NoticeTerms { id: &id, about: Some(asked), reason };
        self.topic_control().change(Act::Manage, terms, make).await.map(drop)
    }

    async fn decide(&self, mut arguments: Arguments<'_>) -> HostOutcome {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Verdict {
            Approve,
            Deny,
        }
        let id: EnvelopeId = arguments.required("id")?;
        let digest: String = arguments.required("digest")?;
        let verdict: Verdict = arguments.required("decision")?;
        let remember = arguments.optional::<bool>("remember")?.unwrap_or(false);
        let reason = read_reason(&mut arguments)?;
        arguments.end()?;
        if let Some(ControlNotice::Decided(made)) = self.written_before("decided").await {
            return Ok(structured(&json!({ "id": made.id, "decision": made.decision })));
        }
        let Some(hold) = self.desk().held_calls().into_iter().find(|hold| hold.request.id == id) else {
            return Ok(failed(&format!("no call `{id}` waits for approval: {}", self.ending_of(&id).await)));
        };
        if hold.request.digest != digest {
            return Ok(failed("the digest is of another text: read the request again, and decide about what it says"));
        }
        if let Err(why) = self.approver().check(&hold) {
            return Ok(failed(&why));
        }
        if remember && let Err(refusal) = self.check_manager() {
            return Ok(failed(&format!("it was not decided: to remember a decision, {}", refusal.message)));
        }
        let decision = match verdict {
            Verdict::Approve => Decision::Approved,
            Verdict::Deny => Decision::Denied,
        };
        let notice_id = self.notice_id("decided 0", self.request.entry.envelope.id());
        if let Err(why) = self.approver().decide(&hold, decision, reason.clone(), &notice_id).await {
            return Ok(failed(&why));
        }
        let approvals = hold.approved_by.len() + usize::from(decision == Decision::Approved);
        let mut state = json!({ "id": id, "decision": decision, "approvals": approvals, "needs": hold.request.needs });
        if remember {
            let remembered = self.remember(&hold.request, decision, reason).await;
            state["remembered"] = json!(remembered.is_ok());
            state["not_remembered"] = remembered.err().map_or(Value::Null, |refusal| json!(refusal.message));
        }
        Ok(structured(&state))
    }
}

/// A participant that may decide about held calls, or not: by the tool or by a form.
pub(super) struct Approver<'a> {
    pub(super) office: &'a Office,
    pub(super) who: &'a ParticipantId,
    pub(super) stamp: Option<&'a Stamp>,
}

impl Approver<'_> {
    /// Whether it may decide about a held call.
    pub(super) fn check(&self, hold: &HeldCall) -> Result<(), String> {
        let (who, held) = (self.who, &hold.request);
        // A bridge and its ghosts use one token, so neither decides about a call of the other.
        let bridge_of = |stamp: Option<&Stamp>| stamp.and_then(Stamp::via).map(|via| via.bridge);
        let is_own = *who == held.caller
            || bridge_of(self.stamp).as_ref() == Some(&held.caller)
            || bridge_of(hold.entry.stamp.as_ref()).as_ref() == Some(who);
        if is_own && !held.self_approval {
            return Err("a participant does not decide about its own call".into());
        }
        let Some(authority) = self.office.desk.authority(who, self.stamp) else {
            return Err("nothing is held here".into());
        };
        authority.check_active(who).map_err(|refusal| refusal.message)?;
        let is_named = authority.is_one_of(&held.approvers, who) || authority.is_operator();
        let act = Act::Approve(&held.callee, &held.tool);
        if held.approvers.is_empty() {
            return authority.check(who, &act).map_err(|refusal| refusal.message);
        }
        // A token that is limited to other things does not decide, no matter whose it is.
        if is_named && authority.token_allows(&act) {
            Ok(())
        } else {
            Err("you are not an approver of this call".into())
        }
    }

    /// Decides about a held call, if it may.
    pub(super) async fn decide(
        &self,
        hold: &HeldCall,
        decision: Decision,
        reason: Option<String>,
        notice_id: &EnvelopeId,
    ) -> Result<(), String> {
        self.check(hold)?;
        let ApprovalRequest { id, digest, .. } = &*hold.request;
        let by = Some(self.who.clone());
        let decided = ApprovalDecision { id: id.clone(), digest: digest.clone(), decision, by, reason };
        let notice = notice(notice_id, Some(id), APPROVAL_DECIDED_METHOD, &decided);
        match self.office.desk.append(notice).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.code == Code::VersionConflict => {
                Err("it was decided about or cancelled meanwhile, or you have approved it already".into())
            }
            Err(refusal) => Err(refusal.message),
        }
    }
}

/// How many characters a reason has at most.
pub(super) const MAX_REASON_CHARS: usize = 1000;

/// Whether a tool for control is listed to a participant: where it may use it.
pub(super) fn is_listed(tool: &str, office: &Office, caller: &ParticipantId, stamp: Option<&Stamp>) -> bool {
    let Some(settings) = office.desk.settings() else {
        // Nothing is held in a topic without settings, and only who may make settings has use for the rest.
        let is_approval = tool.starts_with("approval.");
        return !is_approval && check_creation(office.toolbox.topic_creation, stamp).is_ok();
    };
    let authority = Authority::new(Some(&settings), stamp);
    authority.is_none_or(|authority| authority.lists(caller, &ParticipantId::host(), tool))
}

pub(super) fn read_reason(arguments: &mut Arguments<'_>) -> Result<Option<String>, RpcError> {
    let reason: Option<String> = arguments.optional("reason")?;
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON_CHARS) {
        return Err(arguments.wrong("reason", "it has more than 1000 characters"));
    }
    Ok(reason)
}
