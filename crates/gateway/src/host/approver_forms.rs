//! Asks approvers that are MCP clients about held calls, by a form (MCP 2025-06-18, "Elicitation").
//!
//! A client is asked if it has called the gateway, its session offers elicitation, and its participant may decide. A client of the legacy era is asked at once. One of
//! the modern era can be asked only while a call of its own is open (MCP 2026-07-28, "Multi Round-Trip Requests"). So it is asked when it calls `room.wait`, before that
//! call is answered, and while a call of its takes time; its door keeps the result of that call until the form is answered. The form
//! shows the exact arguments; a call whose arguments are too long for it is decided elsewhere. Declining the form, or cancelling it, decides nothing.
//!
//! Participants by MCPx read the notice in the room, and are not asked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use salon_control::{Decision, called_arguments};
use salon_log::HeldCall;
use salon_mcp::{Era, input, meta};
use salon_protocol::{Envelope, EnvelopeId, ParticipantId, SessionId, Stamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::calls::{HostAnswer, HostCall};
use super::control::{Approver, MAX_REASON_CHARS};
use super::office::Office;
use super::speech::derived_id;

/// How many sessions may be asked in a room.
const MAX_SESSIONS: usize = 256;
/// About how many calls that wait one session is asked at most: fewer than a door takes of one asker.
const MAX_FORMS: usize = 8;

/// The longest arguments that are shown in a form, in bytes.
const MAX_SHOWN: usize = 4000;

/// A session of an MCP client that offers elicitation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FormSession {
    participant: ParticipantId,
    session: SessionId,
}

/// Which sessions can be asked, and which questions are open or were answered.
#[derive(Default)]
pub(super) struct ApproverForms {
    sessions: HashMap<FormSession, FormClient>,
    put_forms: HashSet<(EnvelopeId, FormSession)>,
}

/// What is known of a session's client.
struct FormClient {
    era: Era,
    /// The stamp of its newest request, by which it is judged whether it may decide.
    stamp: Option<Stamp>,
}

/// Which sessions are asked.
#[derive(Clone, Copy)]
pub(super) enum EligibleSessions<'a> {
    /// Those that can be asked now: of the legacy era, and of participants that these are.
    Now(&'a HashSet<ParticipantId>),
    /// Those of a participant whose call the host is about to see to.
    Of(&'a ParticipantId),
}

/// A question to put.
pub(super) struct ApprovalForm {
    pub(super) session: FormSession,
    hold: HeldCall,
}

/// What became of a question.
pub(super) enum FormOutcome {
    /// It was answered, or its call needs no decision any more.
    Over,
    /// It could not be put now.
    Unasked,
}

impl ApproverForms {
    /// Notes what a handshake says: only those of the MCP door count, which say so.
    pub(super) fn meet(&mut self, envelope: &Envelope, stamp: Option<&Stamp>) {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            capabilities: &'a RawValue,
        }
        let Some(session) = session_of(envelope) else { return };
        self.sessions.remove(&session);
        let params = envelope.params().and_then(|params| RawValue::from_string(params.to_owned()).ok());
        let Some(params) = params else { return };
        let Some(era) = meta::mcp_door_era(&params) else { return };
        let Ok(Params { capabilities }) = serde_json::from_str(params.get()) else { return };
        if input::is_offered(capabilities, input::ELICITATION) && self.sessions.len() < MAX_SESSIONS {
            self.sessions.insert(session, FormClient { era, stamp: stamp.cloned() });
        }
    }

    /// Notes the token of a session's newest request.
    pub(super) fn hear(&mut self, envelope: &Envelope, stamp: Option<&Stamp>) {
        if self.sessions.is_empty() {
            return;
        }
        if let Some(known) = session_of(envelope).and_then(|session| self.sessions.get_mut(&session)) {
            known.stamp = stamp.cloned();
        }
    }

    /// A session has ended.
    pub(super) fn session_ended(&mut self, envelope: &Envelope) {
        if let Some(session) = session_of(envelope) {
            self.sessions.remove(&session);
            self.put_forms.retain(|(_, asked)| *asked != session);
        }
    }

    /// The questions that are to be put now. Each is put once, unless that fails.
    pub(super) fn due(&mut self, office: &Office, askable: EligibleSessions<'_>) -> Vec<ApprovalForm> {
        if self.sessions.is_empty() {
            return Vec::new();
        }
        let held = office.desk.held_calls();
        self.put_forms.retain(|(id, _)| held.iter().any(|hold| hold.request.id == *id));
        self.sessions.retain(|session, _| office.desk.participant(&session.participant).is_some());
        let mut due: Vec<ApprovalForm> = Vec::new();
        for hold in held.iter().filter(|hold| !hold.is_approved()) {
            let is_askable = |(session, client): &(&FormSession, &FormClient)| match askable {
                EligibleSessions::Now(waiting) => client.era == Era::Legacy || waiting.contains(&session.participant),
                EligibleSessions::Of(caller) => session.participant == *caller,
            };
            for (session, client) in self.sessions.iter().filter(is_askable) {
                let approver = Approver { office, who: &session.participant, stamp: client.stamp.as_ref() };
                let is_asked = self.put_forms.contains(&(hold.request.id.clone(), session.clone()));
                let has_decided = hold.approved_by.contains(&session.participant);
                let asked = self.put_forms.iter().filter(|(_, asked)| asked == session).count();
                let is_busy = asked + due.iter().filter(|form| form.session == *session).count() >= MAX_FORMS;
                if !is_asked && !is_busy && !has_decided && approver.check(hold).is_ok() && form(hold).is_some() {
                    due.push(ApprovalForm { session: session.clone(), hold: hold.clone() });
                }
            }
        }
        self.put_forms.extend(due.iter().map(|form| (form.hold.request.id.clone(), form.session.clone())));
        due
    }

    /// Notes that a question could not be put.
    pub(super) fn unasked(&mut self, hold: &EnvelopeId, session: &FormSession) {
        self.put_forms.remove(&(hold.clone(), session.clone()));
    }
}

fn session_of(envelope: &Envelope) -> Option<FormSession> {
    let session = envelope.from_session()?.clone();
    Some(FormSession { participant: envelope.from().clone(), session })
}

/// The parameters of `elicitation/create`; `None` where the arguments are too long to be shown as they are.
fn form(hold: &HeldCall) -> Option<Value> {
    let held = &hold.request;
    let envelope = Envelope::restore(held.request.as_str()).ok()?;
    let arguments = called_arguments(&envelope).unwrap_or_else(|| "{}".into());
    if arguments.len() > MAX_SHOWN {
        return None;
    }
    let (caller, callee, tool) = (&held.caller, &held.callee, &held.tool);
    let message = format!(
        "`{caller}` wants to call the tool `{tool}` of `{callee}`, which waits for approval until {}. Its arguments are:\n{arguments}",
        held.expires
    );
    Some(json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": { "type": "string", "title": "Decision", "enum": ["approve", "deny"], "description": "Whether the call is sent" },
                "reason": { "type": "string", "title": "Reason", "maxLength": MAX_REASON_CHARS, "description": "Why, for everybody to read" }
            },
            "required": ["decision"]
        }
    }))
}

impl ApprovalForm {
    pub(super) fn hold_id(&self) -> &EnvelopeId {
        &self.hold.request.id
    }

    /// Puts the question; `None` where that is not possible now.
    pub(super) async fn put(&self, office: &Arc<Office>) -> Option<HostCall> {
        let params = form(&self.hold)?;
        let FormSession { participant, session } = &self.session;
        HostCall::ask_session(office, participant, session, input::ELICITATION, &params).await.ok()
    }

    /// Waits for the answer and does what it says. The question is withdrawn when the call is decided about otherwise.
    pub(super) async fn finish(
        &self,
        office: &Arc<Office>,
        asked: HostCall,
        mut changes: watch::Receiver<u64>,
    ) -> FormOutcome {
        let is_open = |hold: &HeldCall| hold.request.id == self.hold.request.id && !hold.is_approved();
        let decided =
            async { while office.desk.held_calls().iter().any(is_open) && changes.changed().await.is_ok() {} };
        let answer = tokio::select! {
            answer = asked.reply() => answer,
            () = decided => return FormOutcome::Over,
        };
        match answer {
            Ok(answer) => self.take(office, &answer).await,
            Err(_) => FormOutcome::Unasked,
        }
    }

    async fn take(&self, office: &Office, answer: &HostAnswer) -> FormOutcome {
        let Ok(result) = answer.outcome() else { return FormOutcome::Unasked };
        let Some((decision, reason)) = read_answer(result) else { return FormOutcome::Over };
        // The token of the session that has answered counts, not that of the one that was asked.
        let approver = Approver { office, who: &self.session.participant, stamp: answer.0.stamp.as_ref() };
        let id = derived_id(&office.toolbox.namespace, "decided by form", answer.0.envelope.id());
        let id = EnvelopeId::new(id).expect("a UUID is an id");
        if let Err(why) = approver.decide(&self.hold, decision, reason, &id).await {
            tracing::debug!(topic = %office.desk.topic(), %why, "approvals: decision by a form refused, the call stays held");
        }
        FormOutcome::Over
    }
}

/// What a form says. Only one that was accepted, and filled in, says anything.
fn read_answer(result: &RawValue) -> Option<(Decision, Option<String>)> {
    #[derive(Deserialize)]
    struct Answer {
        action: String,
        content: Option<Content>,
    }
    #[derive(Deserialize)]
    struct Content {
        decision: String,
        reason: Option<String>,
    }
    let Answer { action, content } = serde_json::from_str(result.get()).ok()?;
    let Content { decision, reason } = content.filter(|_| action == "accept")?;
    let decision = match decision.as_str() {
        "approve" => Decision::Approved,
        "deny" => Decision::Denied,
        _ => return None,
    };
    let reason = reason.filter(|reason| !reason.is_empty());
    let cut = |reason: String| reason.chars().take(MAX_REASON_CHARS).collect();
    Some((decision, reason.map(cut)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_form_that_was_filled_in_decides() {
        let read = |text: &str| read_answer(&RawValue::from_string(text.into()).expect("JSON"));
        let approved = r#"{"action":"accept","content":{"decision":"approve"}}"#;
        assert_eq!(read(approved), Some((Decision::Approved, None)));
        let denied = r#"{"action":"accept","content":{"decision":"deny","reason":"too fast"}}"#;
        assert_eq!(read(denied), Some((Decision::Denied, Some("too fast".into()))));
        for nothing in [
            r#"{"action":"decline","content":{"decision":"approve"}}"#,
            r#"{"action":"cancel"}"#,
            r#"{"action":"accept"}"#,
            r#"{"action":"accept","content":{"decision":"yes"}}"#,
            r#"{"action":"accept","content":{}}"#,
            "null",
        ] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
