//! Holds calls until they are approved, and ends those that nobody decides about in time.
//!
//! Which calls are held and which of them are approved follows from the log ([`salon_log::Fold`]). A node only writes notices: that a call is
//! held, that nobody decided in time. What is approved every node may store: its id makes it one entry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use salon_control::{
    APPROVAL_DECIDED_METHOD, APPROVAL_REQUESTED_METHOD, ApprovalDecision, ApprovalRequest, ControlNotice, Decision,
    HeldBy, text_digest,
};
use salon_log::{AppendError, Appended, Fold, HeldCall, MAX_HELD_CALLS};
use salon_protocol::{Code, Envelope, EnvelopeId, ParticipantId, Refusal, Stamp, Timestamp};

use crate::control::notice;
use crate::room::{Room, now, unreadable, unwritable};

/// How many calls of one caller may be held in a topic, and how many bytes of envelopes: of one caller, and of all.
const MAX_HELD_OF_CALLER: usize = 64;
const MAX_HELD_BYTES_OF_CALLER: usize = 4 << 20;
const MAX_HELD_BYTES: usize = 16 << 20;

impl Room {
    /// Holds a call: everybody reads that it is held, and its callee nothing yet. The same envelope again is held once.
    pub(crate) fn hold(
        self: Arc<Self>,
        envelope: Envelope,
        stamp: Option<Stamp>,
        held_by: HeldBy,
    ) -> BoxFuture<'static, Result<Appended, Refusal>> {
        Box::pin(async move {
            let held = self.hold_once(&envelope, stamp, held_by).await;
            held.map_err(|refusal| refusal.regarding(Some(envelope.id().clone())))
        })
    }

    async fn hold_once(&self, envelope: &Envelope, stamp: Option<Stamp>, held_by: HeldBy) -> Result<Appended, Refusal> {
        let conflict = || unwritable(&AppendError::IdConflict);
        // What was approved before is stored.
        let found = self.log.find(&self.topic, envelope.id()).await.map_err(|error| unreadable(&error))?;
        if let Some(entry) = found {
            let is_same = entry.envelope.text() == envelope.text();
            return if is_same { Ok(Appended { entry, repeated: true }) } else { Err(conflict()) };
        }
        if let Some(entry) = check_holds(self.attendance().fold(), envelope)? {
            return Ok(Appended { entry, repeated: true });
        }
        let notice = self.requested_notice(envelope, held_by);
        // The envelope itself was charged when it was published; the notice has its text once more.
        self.common.rates.owe_bytes(envelope.from(), notice.text().len());
        let id = notice.id().clone();
        match self.log.append_stamped(&self.topic, notice, stamp).await {
            // Held already, by another node or by a notice that this room has not read yet.
            Err(AppendError::IdConflict) => {
                let found = self.log.find(&self.topic, &id).await.map_err(|error| unreadable(&error))?;
                let is_same = |entry: &Envelope| match ControlNotice::of(entry) {
                    Some(ControlNotice::Requested(held)) => held.request == envelope.text(),
                    _ => false,
                };
                let entry = found.filter(|entry| is_same(&entry.envelope)).ok_or_else(conflict)?;
                Ok(Appended { entry, repeated: true })
            }
            Err(AppendError::Stale) => {
                Err(Refusal::new(Code::Forbidden, "the call cannot be held: its caller is not in the room any more"))
            }
            appended => appended.map_err(|error| unwritable(&error)),
        }
    }

    fn requested_notice(&self, envelope: &Envelope, HeldBy { rule, tool }: HeldBy) -> Envelope {
        let request = ApprovalRequest {
            id: envelope.id().clone(),
            request: envelope.text().to_owned(),
            digest: text_digest(envelope.text()),
            caller: envelope.from().clone(),
            callee: envelope.to().first().cloned().unwrap_or_else(ParticipantId::host),
            tool,
            approvers: rule.approvers,
            needs: rule.needs,
            self_approval: rule.self_approval,
            expires: Timestamp(now().0.saturating_add(rule.expires_ms)),
        };
        let id = self.notice_id("held", envelope.id());
        notice(&id, Some(envelope.id()), APPROVAL_REQUESTED_METHOD, &request)
    }

    /// Stores the calls that are approved, and ends those that nobody has decided about in time. Says whether all of that is done.
    pub(crate) async fn settle_holds(&self) -> bool {
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
            let appended = self.log.append_stamped(&self.topic, envelope, hold.entry.stamp.clone()).await;
            is_done &= match appended {
                Err(error) if is_permanent(&error) => self.end_hold(&hold, Decision::Dropped).await,
                appended => self.is_settled(appended),
            };
        }
        for hold in expired {
            is_done &= self.end_hold(&hold, Decision::Expired).await;
        }
        is_done
    }

    /// Writes that a call is held no longer; says whether that is done.
    async fn end_hold(&self, hold: &HeldCall, decision: Decision) -> bool {
        let id = self.notice_id("ended", hold.entry.envelope.id());
        let ApprovalRequest { id: request, digest, .. } = &*hold.request;
        let decision =
            ApprovalDecision { id: request.clone(), digest: digest.clone(), decision, by: None, reason: None };
        let notice = notice(&id, Some(request), APPROVAL_DECIDED_METHOD, &decision);
        self.is_settled(self.log.append(&self.topic, notice).await)
    }

    /// Whether something was stored, or need not be any more.
    pub(crate) fn is_settled(&self, outcome: Result<Appended, AppendError>) -> bool {
        match outcome {
            Ok(_) | Err(AppendError::Stale | AppendError::IdConflict) => true,
            Err(error) => {
                tracing::warn!(topic = %self.topic, %error, "control: entry not stored, retrying");
                false
            }
        }
    }

    /// When held calls and statuses have to be looked at again: when the next of them ends, and soon where one has ended and is still there.
    pub(crate) fn next_settling(&self) -> Option<Duration> {
        let soon = self.common.settings.timings.retry_delay;
        let attendance = self.attendance();
        let until = |time: Timestamp| match time.0.checked_sub(now().0) {
            Some(wait) if wait > 0 => Duration::from_millis(wait),
            _ => soon,
        };
        let wait = |hold: &HeldCall| if hold.is_approved() { soon } else { until(hold.request.expires) };
        let status = attendance.fold().next_status_end().map(until);
        attendance.fold().held_calls().values().map(wait).chain(status).min()
    }

    /// The id of a notice about an envelope: the same on every node, so that it is stored once, and nobody else can foresee it.
    pub(crate) fn notice_id(&self, purpose: &str, about: &EnvelopeId) -> EnvelopeId {
        let namespace = uuid::Uuid::from_bytes(self.common.settings.leaves);
        let id = uuid::Uuid::new_v5(&namespace, format!("{purpose} {about}").as_bytes());
        EnvelopeId::new(id.to_string()).expect("a UUID is an id")
    }
}

/// Whether a call may be held. `Some` is the notice that holds it already.
fn check_holds(fold: &Fold, envelope: &Envelope) -> Result<Option<Arc<salon_protocol::Entry>>, Refusal> {
    let held = fold.held_calls();
    if let Some(hold) = held.get(envelope.id()) {
        let is_same = hold.request.request == envelope.text();
        return if is_same { Ok(Some(hold.entry.clone())) } else { Err(unwritable(&AppendError::IdConflict)) };
    }
    // The same again after it has ended gets the same outcome.
    if let Some(cause) = fold.released(envelope.id()) {
        let callee = envelope.to().first().cloned().unwrap_or_else(ParticipantId::host);
        return Err(cause.refusal(&callee, fold.denial(envelope.id()).map(|reason| &**reason)));
    }
    check_space(held, envelope).map(|()| None)
}

fn check_space(held: &BTreeMap<EnvelopeId, HeldCall>, envelope: &Envelope) -> Result<(), Refusal> {
    let bytes = |hold: &HeldCall| hold.request.request.len();
    let own = held.values().filter(|hold| hold.request.caller == *envelope.from());
    let (own_count, own_bytes) = own.fold((1, envelope.text().len()), |(n, sum), hold| (n + 1, sum + bytes(hold)));
    let all_bytes = envelope.text().len() + held.values().map(bytes).sum::<usize>();
    let message = if held.len() >= MAX_HELD_CALLS {
        format!("{MAX_HELD_CALLS} calls wait for approval in this room, which is the limit")
    } else if own_count > MAX_HELD_OF_CALLER {
        format!("{MAX_HELD_OF_CALLER} of your calls wait for approval in this room, which is the limit")
    } else if own_bytes > MAX_HELD_BYTES_OF_CALLER || all_bytes > MAX_HELD_BYTES {
        "the calls that wait for approval in this room have too many bytes for another".into()
    } else {
        return Ok(());
    };
    Err(Refusal::new(Code::RateLimited, message))
}

/// Whether an envelope will not be stored, however often it is tried.
pub(crate) fn is_permanent(error: &AppendError) -> bool {
    match error {
        AppendError::IdConflict
        | AppendError::TooLarge(_)
        | AppendError::Quota(_)
        | AppendError::TooManyTopics(_)
        | AppendError::Refused(_) => true,
        AppendError::Stale
        | AppendError::CallEnded(_)
        | AppendError::NotPresent
        | AppendError::Stopped(_)
        | AppendError::Unavailable(_)
        | AppendError::ReadOnly(_) => false,
    }
}
