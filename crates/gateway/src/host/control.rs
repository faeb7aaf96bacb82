//! The host's tools for control: a topic's settings, approvals, pausing and removing participants.
//!
//! Every change is a notice in the topic's log ([`salon_control`]), so that all nodes agree on it and everybody can see who made it. Who may call
//! which tool is decided before, by the rules of the room; only approvals are judged here, because who may decide depends on the call.

mod describe;

use salon_control::{
    APPROVAL_DECIDED_METHOD, Act, ApprovalDecision, Authority, CapabilitySet, ControlNotice, Decision,
    OPERATOR_PERMISSION, RoleName, SETTINGS_METHOD, SettingsChange, TopicSettings,
};
use salon_log::HeldCall;
use salon_protocol::{Code, EnvelopeId, ParticipantId, Refusal, RpcError, Stamp};
use salon_rooms::{HostAccess, notice};
use serde_json::{Value, json};

pub(super) use describe::descriptions;

use super::arguments::Arguments;
use super::office::{HostRequest, Office};
use super::speech::{HostOutcome, derived_id, failed, structured};
use crate::config::TopicCreation;

/// How often a change is made again that another one was quicker than.
const MAX_TRIES: usize = 5;

/// A change of the settings: what it makes of those of before, or why it does not.
type SettingsEdit<'a> = Box<dyn Fn(&TopicSettings) -> Result<Value, String> + Send + Sync + 'a>;

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
                Err(format!("the settings have version {}, not {version}: read them again", before.version))
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

    /// Changes the settings, again where another change was quicker. The caller is judged by the settings that it changes: those that
    /// its request was judged by may be older, or none.
    async fn change(&self, act: Act<'_>, reason: Option<String>, make: SettingsEdit<'_>) -> HostOutcome {
        let (caller, asked) = (self.request.caller(), self.request.entry.envelope.id());
        if let Some(ControlNotice::Settings(made)) = self.written_before("settings").await {
            return Ok(structured(&json!({ "settings": made.settings })));
        }
        for number in 0..MAX_TRIES {
            let before = match self.desk().settings() {
                Some(settings) => {
                    let authority = Authority::new(Some(&settings), self.stamp());
                    if let Some(Err(refusal)) = authority.map(|authority| authority.check(caller, &act)) {
                        return Ok(failed(&refusal.message));
                    }
                    (*settings).clone()
                }
                None => match self.found_topic() {
                    Ok(settings) => settings,
                    Err(refusal) => return Ok(failed(&refusal.message)),
                },
            };
            let settings = match make(&before).and_then(|patch| before.patched(&patch).map_err(|why| why.to_string())) {
                Ok(settings) => settings,
                Err(why) => return Ok(failed(&why)),
            };
            let change = SettingsChange { settings, by: caller.clone(), reason: reason.clone() };
            let id = self.notice_id(&format!("settings {number}"), asked);
            match self.desk().append(notice(&id, Some(asked), SETTINGS_METHOD, &change)).await {
                Ok(_) => return Ok(structured(&json!({ "settings": change.settings }))),
                Err(refusal) if refusal.code == Code::VersionConflict => {}
                Err(refusal) => return Ok(failed(&refusal.message)),
            }
        }
        Ok(failed("the settings change too often; try again"))
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

    /// The settings that a topic without any begins with: its first owner is the participant that configures it, if it may.
    fn found_topic(&self) -> Result<TopicSettings, Refusal> {
        check_creation(self.office.toolbox.topic_creation, self.stamp())?;
        let members = [(self.request.caller().clone(), RoleName::owner())].into();
        Ok(TopicSettings { members, ..TopicSettings::default() })
    }

    fn notice_id(&self, purpose: &str, about: &EnvelopeId) -> EnvelopeId {
        EnvelopeId::new(derived_id(&self.office.toolbox.namespace, purpose, about)).expect("a UUID is an id")
    }

    fn list(&self, arguments: Arguments<'_>) -> HostOutcome {
        arguments.end()?;
        let shown = |hold: &HeldCall| {
            let mut shown = json!(*hold.request);
            shown["approved_by"] = json!(hold.approved_by);
            shown["you_may_decide"] = json!(self.check_approver(hold).is_ok());
            shown
        };
        let held = self.desk().held_calls();
        Ok(structured(&json!({ "approvals": held.iter().map(shown).collect::<Vec<_>>() })))
    }

    /// Whether the caller of the tool may decide about a held call.
    fn check_approver(&self, hold: &HeldCall) -> Result<(), String> {
        let (who, held) = (self.request.caller(), &hold.request);
        if *who == held.caller && !held.self_approval {
            return Err("a participant does not decide about its own call".into());
        }
        let Some(authority) = self.desk().authority(who, self.stamp()) else {
            return Err("nothing is held here".into());
        };
        authority.check_active(who).map_err(|refusal| refusal.message)?;
        let is_named = authority.settings().is_one_of(&held.approvers, who) || authority.is_operator();
        let act = Act::Approve(&held.callee, &held.tool);
        if held.approvers.is_empty() {
            return authority.check(who, &act).map_err(|refusal| refusal.message);
        }
        // A token that is limited to other things does not decide, whoever it is of.
        if is_named && authority.token_allows(&act) {
            Ok(())
        } else {
            Err("you are not an approver of this call".into())
        }
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
        let reason = read_reason(&mut arguments)?;
        arguments.end()?;
        if let Some(ControlNotice::Decided(made)) = self.written_before("decided").await {
            return Ok(structured(&json!({ "id": made.id, "decision": made.decision })));
        }
        let Some(hold) = self.desk().held_calls().into_iter().find(|hold| hold.request.id == id) else {
            return Ok(failed(&format!(
                "no call `{id}` waits for approval: it was decided about, cancelled, or never held"
            )));
        };
        if hold.request.digest != digest {
            return Ok(failed("the digest is of another text: read the request again, and decide about what it says"));
        }
        if let Err(why) = self.check_approver(&hold) {
            return Ok(failed(&why));
        }
        let decision = match verdict {
            Verdict::Approve => Decision::Approved,
            Verdict::Deny => Decision::Denied,
        };
        let by = self.request.caller().clone();
        let decided = ApprovalDecision { id, digest, decision, by: Some(by), reason };
        let notice_id = self.notice_id("decided 0", self.request.entry.envelope.id());
        match self.desk().append(notice(&notice_id, Some(&decided.id), APPROVAL_DECIDED_METHOD, &decided)).await {
            Ok(_) => {
                let approvals = hold.approved_by.len() + usize::from(decision == Decision::Approved);
                let state = json!({ "id": decided.id, "decision": decision, "approvals": approvals, "needs": hold.request.needs });
                Ok(structured(&state))
            }
            Err(refusal) if refusal.code == Code::VersionConflict => {
                Ok(failed("it was decided about meanwhile, or you have approved it already"))
            }
            Err(refusal) => Ok(failed(&refusal.message)),
        }
    }
}

/// Whether a token may make the first settings of a topic.
fn check_creation(creation: TopicCreation, stamp: Option<&Stamp>) -> Result<(), Refusal> {
    let permissions = stamp.map(Stamp::permissions).unwrap_or_default();
    let is_operator = permissions.iter().any(|permission| permission == OPERATOR_PERMISSION);
    let may_manage = || {
        let capabilities = stamp.and_then(Stamp::capabilities)?;
        Some(CapabilitySet::parse(&capabilities).ok()?.allows(&Act::Manage))
    };
    let needed = match creation {
        TopicCreation::Anyone => return Ok(()),
        _ if is_operator => return Ok(()),
        TopicCreation::Permitted if may_manage() == Some(true) => return Ok(()),
        TopicCreation::Permitted => "the capability `manage` or the permission `operator`",
        TopicCreation::Operator => "the permission `operator`",
    };
    let message = format!("this topic has no settings, and to make them your token needs {needed}");
    Err(Refusal::new(Code::Forbidden, message))
}

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

fn read_reason(arguments: &mut Arguments<'_>) -> Result<Option<String>, RpcError> {
    const MAX_CHARS: usize = 1000;
    let reason: Option<String> = arguments.optional("reason")?;
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_CHARS) {
        return Err(arguments.wrong("reason", "it has more than 1000 characters"));
    }
    Ok(reason)
}
