//! Enforces a topic's settings in its room: who may read it, and what becomes of the calls of participants that are stopped.

use std::sync::atomic::Ordering;
use std::time::Duration;

use salon_control::{Act, Authority};
use salon_log::{Fold, OpenRequest};
use salon_protocol::{CloseReason, Compose, Envelope, EnvelopeId, Kind, ParticipantId, Refusal, Sessions, Stamp, rpc};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::approvals::is_permanent;
use crate::room::{Room, now};

/// What a fold and a stamp say of a participant; `None` where they forbid nothing.
pub(crate) fn authority(fold: &Fold, participant: &ParticipantId, stamp: Option<&Stamp>) -> Option<Authority> {
    if participant.is_host() { None } else { Authority::new(fold.settings(), stamp) }
}

/// Whether a participant may be in a room, by its fold.
pub(crate) fn check_access(fold: &Fold, participant: &ParticipantId, stamp: Option<&Stamp>) -> Result<(), Refusal> {
    authority(fold, participant, stamp).map_or(Ok(()), |authority| authority.check(participant, &Act::Read))
}

/// Whose connection or request reads a room, and with which token.
#[derive(Debug, Clone)]
pub(crate) struct ReaderCredentials {
    pub(crate) participant: ParticipantId,
    pub(crate) stamp: Option<Stamp>,
}

impl Room {
    /// Whether a participant may be in this room at all.
    pub(crate) fn check_access(&self, participant: &ParticipantId, stamp: Option<&Stamp>) -> Result<(), Refusal> {
        check_access(self.attendance().fold(), participant, stamp)
    }

    /// Does what new settings, new decisions and the time ask for. Says when to do so again.
    pub(crate) async fn enforce(&self) -> Option<Duration> {
        // Ghosts before their bridge, so that their leaves are stored before its own.
        self.remove_ghosts();
        self.remove_excluded();
        let is_done = self.cancel_stopped().await & self.settle_holds().await & self.end_statuses().await;
        if is_done { self.next_settling() } else { Some(self.common.settings.timings.retry_delay) }
    }

    /// Closes the readers that may not be here any more.
    fn remove_excluded(&self) {
        let settings = self.attendance().fold().settings().cloned();
        if settings.is_none() {
            return;
        }
        self.end_readers(CloseReason::Removed, |reader| {
            let authority = Authority::new(settings.as_ref(), reader.stamp.as_ref());
            let may_read = |authority: Authority| authority.check(&reader.participant, &Act::Read).is_ok();
            !reader.participant.is_host() && !authority.is_none_or(may_read)
        });
    }

    /// Tells callees, in the callers' names, that calls of stopped participants are cancelled. The calls have ended already, by the settings, and
    /// their callers may say nothing, or not even be here. Says whether all of them are told.
    async fn cancel_stopped(&self) -> bool {
        let after = self.cancelled_through.load(Ordering::Acquire);
        let (stopped, through) = {
            let attendance = self.attendance();
            (attendance.fold().stopped_calls(after), attendance.fold().through())
        };
        let mut is_done = true;
        for call in stopped {
            // Of a call that was held, its callee has heard nothing.
            let Ok(found) = self.log.find(&self.topic, &call.request).await else { return false };
            let Some(request) = found else { continue };
            let cancelled = self.cancellation(&call, &request.envelope);
            is_done &= match self.log.append(&self.topic, cancelled).await {
                // Such as the quota of a caller that was stopped because it stored too much: the call has ended without it.
                Err(error) if is_permanent(&error) => {
                    tracing::warn!(topic = %self.topic, %error, "control: cancellation not delivered to a callee");
                    true
                }
                appended => self.is_settled(appended),
            };
        }
        if is_done {
            self.cancelled_through.store(through, Ordering::Release);
        }
        is_done
    }

    fn cancellation(&self, call: &OpenRequest, request: &Envelope) -> Envelope {
        let id = call.id.to_raw();
        let params = CancelledParams { request_id: &id, reason: "the caller was paused or removed" };
        let params = serde_json::value::to_raw_value(&params).expect("it has only string keys");
        let id = self.notice_id("stopped", &call.request);
        let compose = Compose {
            id: id.as_str(),
            ts: now(),
            from: &call.caller,
            to: std::slice::from_ref(&call.callee),
            kind: Kind::Mcp,
            correlation_id: Some(call.request.as_str()),
            payload: rpc::notification("notifications/cancelled", Some(&params)),
        };
        let sessions = Sessions { from_session: request.from_session(), to_session: request.to_session() };
        Envelope::restore(compose.text_between(sessions)).expect("what the gateway composes is well-formed")
    }
}

/// The parameters of `notifications/cancelled`, with the id as its caller wrote it: not every number that an id may be is one for Rust.
#[derive(Serialize)]
struct CancelledParams<'a> {
    #[serde(rename = "requestId")]
    request_id: &'a RawValue,
    reason: &'static str,
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
