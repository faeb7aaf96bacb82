//! What one participant may do in one topic: the topic's settings together with what its token says.

use std::sync::Arc;

use salon_protocol::{Code, Envelope, Message, ParticipantId, Refusal, Stamp, StampVia};

use crate::act::{self, Act};
use crate::capability::CapabilitySet;
use crate::rule::{CallRule, Principal, RuleEffect};
use crate::settings::{SettingsSubject, TopicSettings};

/// The permission of tokens whose owners may do everything in every topic that the token names.
pub const OPERATOR_PERMISSION: &str = "operator";

/// The longest name of a tool, where settings or a token limit what may be called.
const MAX_TOOL_BYTES: usize = 1024;

/// See the module.
#[derive(Debug, Clone)]
pub struct Authority {
    settings: Arc<TopicSettings>,
    /// What the token allows; everything where it does not say.
    token: Option<CapabilitySet>,
    /// Whether the token says that its owner is a person.
    is_human: bool,
    is_operator: bool,
    /// The bridge that speaks for the participant, where one does.
    via: Option<StampVia>,
}

/// The rule that holds a call for approval, and the tool that is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    /// The rule.
    pub rule: CallRule,
    /// The tool.
    pub tool: String,
}

fn forbidden(why: String) -> Refusal {
    Refusal::new(Code::Forbidden, why)
}

impl Authority {
    /// What a topic's settings and a token say of a participant. `None` where they forbid nothing, which is usual and must cost little.
    pub fn new(settings: Option<&Arc<TopicSettings>>, stamp: Option<&Stamp>) -> Option<Self> {
        let token = stamp.and_then(Stamp::capabilities);
        let via = stamp.and_then(Stamp::via);
        if settings.is_none() && token.is_none() && via.is_none() {
            return None;
        }
        let is_operator = |stamp: &Stamp| stamp.permissions().iter().any(|name| name == OPERATOR_PERMISSION);
        Some(Self {
            settings: settings.cloned().unwrap_or_default(),
            // A token whose capabilities cannot be read allows nothing.
            token: token.map(|list| CapabilitySet::parse(&list).unwrap_or_default()),
            is_human: stamp.is_some_and(Stamp::is_human),
            is_operator: stamp.is_some_and(is_operator) && via.is_none(),
            via,
        })
    }

    fn subject<'a>(&'a self, id: &'a ParticipantId) -> SettingsSubject<'a> {
        SettingsSubject { id, via: self.via.as_ref().map(|via| &via.bridge) }
    }

    /// Whether principals include a participant.
    pub fn is_one_of(&self, principals: &[Principal], participant: &ParticipantId) -> bool {
        self.settings.is_one_of(principals, self.subject(participant))
    }

    /// Whether the token is an operator's.
    pub fn is_operator(&self) -> bool {
        self.is_operator
    }

    /// The topic's settings.
    pub fn settings(&self) -> &TopicSettings {
        &self.settings
    }

    /// Whether the token is not limited to other things.
    pub fn token_allows(&self, act: &Act<'_>) -> bool {
        self.token.as_ref().is_none_or(|token| token.allows(act))
    }

    /// Whether a participant may do something. The refusal names the capability that is missing.
    pub fn check(&self, author: &ParticipantId, act: &Act<'_>) -> Result<(), Refusal> {
        if !self.token_allows(act) {
            return Err(forbidden(format!("this needs the capability `{act}`, which your token does not have")));
        }
        // Who may make the first settings of a topic is decided by the host: nobody has a role there yet.
        if self.settings.version == 0 && matches!(act, Act::Manage | Act::Moderate) {
            return Ok(());
        }
        self.check_bridge(act)?;
        let subject = self.subject(author);
        match (self.settings.role_of(subject), self.settings.capabilities_of(subject)) {
            (_, Some(allowed)) if allowed.allows(act) => Ok(()),
            _ if self.is_operator => Ok(()),
            (Some(role), Some(_)) => {
                Err(forbidden(format!("this needs the capability `{act}`, which the role `{role}` does not have")))
            }
            _ => Err(forbidden("this topic is for its members".into())),
        }
    }

    /// Refuses to a ghost what its bridge may not do.
    fn check_bridge(&self, act: &Act<'_>) -> Result<(), Refusal> {
        let Some(StampVia { bridge, .. }) = &self.via else { return Ok(()) };
        match (self.settings.role_of(bridge), self.settings.capabilities_of(bridge)) {
            (_, Some(allowed)) if allowed.allows(act) => Ok(()),
            (Some(role), Some(_)) => Err(forbidden(format!(
                "this needs the capability `{act}`, which the role `{role}` of your bridge `{bridge}` does not have"
            ))),
            _ => {
                Err(forbidden(format!("this topic is for its members, and your bridge `{bridge}` is not one of them")))
            }
        }
    }

    /// Refuses what a ghost may not do that may only chat.
    fn check_chat_only(&self, envelope: &Envelope, act: &Act<'_>) -> Result<(), Refusal> {
        let Some(StampVia { bridge, chat_only: true }) = &self.via else { return Ok(()) };
        let is_request = matches!(envelope.message(), Some(Message::Request { .. }));
        let is_harmless = envelope.to().iter().all(ParticipantId::is_host) && matches!(act, Act::Read | Act::Say);
        if is_request && !is_harmless {
            let message = format!(
                "`{}` may only chat: the token of its bridge `{bridge}` does not let ghosts call (`ghosts_call`)",
                envelope.from()
            );
            return Err(forbidden(message));
        }
        Ok(())
    }

    /// Refuses a participant that is paused.
    pub fn check_active(&self, author: &ParticipantId) -> Result<(), Refusal> {
        if !self.is_operator && self.settings.is_paused(self.subject(author), self.is_human) {
            return Err(Refusal::new(Code::Paused, "you are paused in this room: you can read, and nothing else"));
        }
        Ok(())
    }

    /// Refuses what is new in a topic that is archived, and of a participant that is paused.
    fn check_open(&self, author: &ParticipantId) -> Result<(), Refusal> {
        if self.settings.archived {
            let message = "this topic is archived: it can be read, and nothing new is stored";
            return Err(Refusal::new(Code::Archived, message));
        }
        self.check_active(author)
    }

    /// Whether a participant may say something, or put a file there.
    pub fn check_say(&self, author: &ParticipantId) -> Result<(), Refusal> {
        self.check(author, &Act::Read)?;
        self.check_open(author)?;
        self.check(author, &Act::Say)
    }

    /// Judges an envelope: refuses it, or says which rule holds it. `is_called` where its recipient waits for an answer of its author.
    pub fn judge(&self, envelope: &Envelope, is_called: bool) -> Result<Option<HeldBy>, Refusal> {
        let author = envelope.from();
        let tool = if self.needs_tool(envelope) {
            // Callees could read a name in a call that no rule was tried with.
            let wrong = |why: String| Refusal::new(Code::InvalidParameters, why);
            let tool =
                act::called_tool(envelope).ok_or_else(|| wrong("a tool call needs a string `params.name`".into()))?;
            // Each rule is tried with it.
            if tool.len() > MAX_TOOL_BYTES {
                return Err(wrong(format!("the name of a tool has at most {MAX_TOOL_BYTES} bytes in this topic")));
            }
            tool
        } else {
            String::new()
        };
        let act = match is_called && act::is_client_request(envelope) {
            true => Act::Read,
            false => Act::of(envelope, &tool),
        };
        self.check_chat_only(envelope, &act)?;
        // Who moderates or manages can take back what keeps everybody from everything.
        if !matches!(act, Act::Read | Act::Moderate | Act::Manage) {
            self.check_open(author)?;
        }
        self.check(author, &act)?;
        let Act::Call(callee, _) = act else { return Ok(None) };
        self.check_callee(callee)?;
        match self.settings.rule_for(self.subject(author), &act) {
            Some((rule, RuleEffect::Hold)) => {
                let rule = rule.clone();
                let tool = act.tool().unwrap_or_default().to_owned();
                Ok(Some(HeldBy { rule, tool }))
            }
            Some((_, RuleEffect::Deny)) => Err(forbidden(format!("a rule of this topic denies `{act}`"))),
            Some((_, RuleEffect::Allow)) | None => Ok(None),
        }
    }

    /// Whether the name of the called tool matters, so that the payload has to be read.
    fn needs_tool(&self, envelope: &Envelope) -> bool {
        let allows_all_calls = || {
            let by_role = |who: SettingsSubject<'_>| {
                self.settings.capabilities_of(who).is_some_and(CapabilitySet::allows_all_calls)
            };
            let by_bridge = self.via.as_ref().is_none_or(|via| by_role((&via.bridge).into()));
            (self.is_operator || by_role(self.subject(envelope.from())))
                && by_bridge
                && self.token.as_ref().is_none_or(CapabilitySet::allows_all_calls)
        };
        let is_for_host = || envelope.to().iter().any(ParticipantId::is_host);
        act::is_tool_call(envelope) && (is_for_host() || !self.settings.rules.is_empty() || !allows_all_calls())
    }

    /// Whether a participant may call a tool at once: a refusal where it may not, or where somebody would have to approve first.
    pub fn check_call(&self, caller: &ParticipantId, callee: &ParticipantId, tool: &str) -> Result<(), Refusal> {
        let act = Act::Call(callee, tool);
        self.check(caller, &act)?;
        self.check_callee(callee)?;
        match self.settings.rule_for(self.subject(caller), &act) {
            Some((_, RuleEffect::Hold)) => Err(forbidden(format!("`{act}` needs approval: call it directly"))),
            Some((_, RuleEffect::Deny)) => Err(forbidden(format!("a rule of this topic denies `{act}`"))),
            Some((_, RuleEffect::Allow)) | None => Ok(()),
        }
    }

    /// Whether a list of tools for a participant has a tool: one that it may call, at once or after an approval.
    pub fn lists(&self, caller: &ParticipantId, callee: &ParticipantId, tool: &str) -> bool {
        if callee.is_host() {
            return self.check(caller, &act::host_act(callee, tool)).is_ok();
        }
        let act = Act::Call(callee, tool);
        let is_denied = || matches!(self.settings.rule_for(self.subject(caller), &act), Some((_, RuleEffect::Deny)));
        self.check(caller, &act).is_ok() && self.check_callee(callee).is_ok() && !is_denied()
    }

    /// Whether a participant may be called: one that may not offer tools has none here.
    fn check_callee(&self, callee: &ParticipantId) -> Result<(), Refusal> {
        let offers = |allowed: &CapabilitySet| allowed.allows(&Act::Offer);
        if callee.is_host() || self.settings.capabilities_of(callee).is_some_and(offers) {
            return Ok(());
        }
        Err(forbidden(format!("`{callee}` may not offer tools in this topic")))
    }
}
