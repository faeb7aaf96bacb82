//! The host's own requests, and the tasks that wait for their answers.
//!
//! Invariant: a request that is no longer waited for is withdrawn, whatever the reason: [`HostCall`] says so when it is dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use salon_mcp::input::ELICITATION;
use salon_protocol::{Entry, EnvelopeId, ParticipantId, SessionId, Sessions, Stamp, rpc};
use salon_rooms::Publishing;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::events::is_upkeep;
use super::office::Office;
use super::speech::{compose_between, derived_id, text};
use crate::clock;

/// Why nothing came from somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MissingReason {
    /// It is not in the room.
    Absent,
    /// It was too slow.
    Timeout,
    /// It left, or started over.
    Left,
    /// There was an answer already; if it had been asked, it was told to stop.
    Unneeded,
    /// It did not want to be asked.
    Declined,
    /// What it has is more than the gateway keeps.
    TooLong,
    /// What it answered made no sense.
    Unreadable,
    /// The participant that asks may not call the tool, or not without approval.
    Forbidden,
    /// The gateway could not ask.
    Unasked,
}

impl MissingReason {
    /// To be read after a participant's name.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Absent => "is not here",
            Self::Timeout => "did not answer in time",
            Self::Left => "left before it answered",
            Self::Unneeded => "was no longer needed",
            Self::Declined => "answered the handshake with an error",
            Self::TooLong => "lists more than the gateway keeps",
            Self::Unreadable => "gave an answer that could not be read",
            Self::Forbidden => "may not be asked by you, or not without approval",
            Self::Unasked => "could not be asked",
        }
    }
}

/// Somebody from whom nothing came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct MissingAnswer {
    pub(super) participant: ParticipantId,
    pub(super) reason: MissingReason,
}

/// How many of those from whom nothing came are listed in an answer.
const MAX_LACKING: usize = 256;

/// Some of those from whom nothing came, and how many there are when these are not all.
pub(super) fn some(lacking: &[MissingAnswer]) -> (&[MissingAnswer], Option<usize>) {
    let shown = lacking.len().min(MAX_LACKING);
    (&lacking[..shown], (shown < lacking.len()).then_some(lacking.len()))
}

/// How many requests of its own the host waits for in a room, at each gateway. The limit on the calls of a participant exempts it.
const MAX_OPEN: usize = 900;

/// Everything the host waits for in a room.
pub(super) struct HostCalls {
    open: Mutex<HashMap<EnvelopeId, oneshot::Sender<CalleeReply>>>,
    /// The last JSON-RPC id. Begins at the time of day, so that it does not meet those of before a restart.
    last: AtomicU64,
}

enum CalleeReply {
    Answered(Arc<Entry>),
    Left,
}

impl HostCalls {
    pub(super) fn new() -> Self {
        Self { open: Mutex::default(), last: AtomicU64::new(clock::now().0) }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<EnvelopeId, oneshot::Sender<CalleeReply>>> {
        self.open.lock()
    }

    /// Hands an answer to the task that waits for it; false when none does.
    pub(super) fn answered(&self, entry: &Arc<Entry>) -> bool {
        let waiting = entry.envelope.correlation().and_then(|request| self.open().remove(request));
        waiting.is_some_and(|waiting| waiting.send(CalleeReply::Answered(entry.clone())).is_ok())
    }

    /// Nobody will answer a request any more.
    pub(super) fn failed(&self, request: &EnvelopeId) {
        if let Some(waiting) = self.open().remove(request) {
            // The waiting task may have given up just now.
            let _ = waiting.send(CalleeReply::Left);
        }
    }

    /// Gives everything up.
    pub(super) fn clear(&self) {
        self.open().clear();
    }
}

/// What the host takes back when it does not wait for an answer any more. The id of the notification is derived for it, by which a wait
/// knows what was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Withdrawal {
    /// A form for an approver.
    Form,
    /// A request that nobody waits for as an event, such as for a list.
    Upkeep,
    /// The call of a tool.
    Call,
}

impl Withdrawal {
    /// What the withdrawal of a request is.
    pub(super) fn of(method: &str) -> Self {
        match method {
            ELICITATION => Self::Form,
            method if is_upkeep(method) => Self::Upkeep,
            _ => Self::Call,
        }
    }

    pub(super) fn id(self, namespace: &uuid::Uuid, request: &EnvelopeId) -> String {
        let purpose = match self {
            Self::Form => "form withdrawn",
            Self::Upkeep => "upkeep withdrawn",
            Self::Call => "call withdrawn",
        };
        derived_id(namespace, purpose, request)
    }
}

/// A request on its way. Dropped without an answer, it is withdrawn.
pub(super) struct HostCall {
    office: Arc<Office>,
    callee: ParticipantId,
    request: EnvelopeId,
    id: u64,
    reply: oneshot::Receiver<CalleeReply>,
    may_withdraw: bool,
    withdrawal: Withdrawal,
}

impl HostCall {
    /// Asks somebody something, with the stamp of the participant it is asked for.
    pub(super) async fn ask(
        office: &Arc<Office>,
        callee: &ParticipantId,
        method: &str,
        params: &impl Serialize,
        stamp: Option<Stamp>,
    ) -> Result<Self, MissingReason> {
        Self::ask_between(office, callee, Sessions::default(), (method, params), stamp).await
    }

    /// Asks one session of a participant something.
    pub(super) async fn ask_session(
        office: &Arc<Office>,
        callee: &ParticipantId,
        session: &SessionId,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Self, MissingReason> {
        let sessions = Sessions { to_session: Some(session), from_session: None };
        Self::ask_between(office, callee, sessions, (method, params), None).await
    }

    async fn ask_between(
        office: &Arc<Office>,
        callee: &ParticipantId,
        sessions: Sessions<'_>,
        (method, params): (&str, &impl Serialize),
        stamp: Option<Stamp>,
    ) -> Result<Self, MissingReason> {
        let id = office.calls.last.fetch_add(1, Ordering::Relaxed) + 1;
        let host = ParticipantId::host();
        let payload = rpc::request(id, method, Some(&text(params)));
        let envelope = uuid::Uuid::new_v4().to_string();
        let draft = compose_between(sessions, &envelope, &host, std::slice::from_ref(callee), None, payload);
        let draft = draft.stamped(stamp);
        let request = draft.envelope().id().clone();

        // Before it is published: the answer may come before this goes on.
        let (waiting, reply) = oneshot::channel();
        {
            let mut open = office.calls.open();
            if open.len() >= MAX_OPEN {
                return Err(MissingReason::Unasked);
            }
            open.insert(request.clone(), waiting);
        }
        let (office, callee) = (office.clone(), callee.clone());
        let withdrawal = Withdrawal::of(method);
        let mut asked = Self { office, callee, request, id, reply, may_withdraw: false, withdrawal };
        let refusal = match asked.office.desk.publish(&host, draft) {
            Publishing::Submitted(submission) => {
                // MCP does not let a client cancel its `initialize`.
                asked.may_withdraw = method != "initialize";
                match submission.await {
                    Ok(_) => return Ok(asked),
                    Err(refusal) => {
                        asked.may_withdraw = false;
                        refusal
                    }
                }
            }
            other => match other.outcome().await {
                Ok(_) => return Ok(asked),
                Err(refusal) => refusal,
            },
        };
        tracing::debug!(topic = %asked.office.desk.topic(), %refusal, "host: request refused by the room");
        Err(if refusal.code == salon_protocol::Code::RecipientNotFound {
            MissingReason::Left
        } else {
            MissingReason::Unasked
        })
    }

    /// Waits for the answer.
    pub(super) async fn reply(mut self) -> Result<HostAnswer, MissingReason> {
        let reply = (&mut self.reply).await;
        self.may_withdraw = false;
        match reply {
            Ok(CalleeReply::Answered(entry)) => Ok(HostAnswer(entry)),
            Ok(CalleeReply::Left) => Err(MissingReason::Left),
            Err(_) => Err(MissingReason::Unasked),
        }
    }
}

impl Drop for HostCall {
    fn drop(&mut self) {
        self.office.calls.open().remove(&self.request);
        if self.may_withdraw {
            let params = json!({ "requestId": self.id, "reason": "the answer is no longer needed" });
            let notification = self.withdrawal.id(&self.office.toolbox.namespace, &self.request);
            self.office.tell_as(&notification, &self.callee, &self.request, "notifications/cancelled", &params);
        }
    }
}

/// An answer, as it came.
pub(super) struct HostAnswer(pub(super) Arc<Entry>);

impl HostAnswer {
    /// Its result, or its error.
    pub(super) fn outcome(&self) -> Result<&RawValue, &RawValue> {
        #[derive(Deserialize)]
        struct Payload<'a> {
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            #[serde(borrow)]
            error: Option<&'a RawValue>,
        }
        match serde_json::from_str(self.0.envelope.payload()) {
            Ok(Payload { error: Some(error), .. }) => Err(error),
            Ok(Payload { result: Some(result), .. }) => Ok(result),
            // A `null` result is read as none.
            _ => Ok(RawValue::NULL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_named_in_part_and_counted() {
        let crowd = |count: usize| -> Vec<MissingAnswer> {
            let named = |n| ParticipantId::new(format!("p{n}")).expect("a name");
            (0..count).map(|n| MissingAnswer { participant: named(n), reason: MissingReason::Timeout }).collect()
        };
        assert_eq!(some(&crowd(MAX_LACKING)), (&*crowd(MAX_LACKING), None));
        assert_eq!(some(&crowd(1000)), (&*crowd(MAX_LACKING), Some(1000)));
    }
}
