//! Publishing: a draft is judged with what the room knows, and submitted to the log.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use salon_control::{Authority, TopicLimits, is_client_request};
use salon_log::{AppendError, AppendFuture, Appended, CallClosure, Fold, answered_request};
use salon_protocol::{CHAT_METHOD, Code, Draft, Entry, Envelope, EnvelopeId, Message, ParticipantId, Refusal, Stamp};

use crate::control::authority;
use crate::deletion::deleted;
use crate::limits::Excess;
use crate::room::{Room, closed, unreadable, unwritable};
use crate::rules::{self, AcceptedDraft, AgentChain, Circumstances, Referent, Refused};
use crate::solicited::{Solicitation, Solicited};

impl Room {
    /// Charges a draft to the budgets it costs, then judges and submits it.
    pub(crate) fn publish(self: &Arc<Self>, author: &ParticipantId, draft: Draft) -> Publishing {
        if let Err((refusal, wait)) = self.charge(author, draft.envelope()) {
            return Publishing::Limited(refusal.regarding(Some(draft.envelope().id().clone())), wait);
        }
        self.admit(author, draft)
    }

    /// Charges an envelope to its author or to the caller that has asked for it; and to the topic and the gateway. What is refused costs none
    /// of them anything.
    pub(crate) fn charge(&self, author: &ParticipantId, envelope: &Envelope) -> Result<(), Excess> {
        let bytes = envelope.text().len();
        let solicitation = Solicited::is_possible(envelope)
            .then(|| self.solicited.of(author, envelope, self.attendance().fold()))
            .flatten();
        if author.is_host() {
            // The host is never refused: the asker it pays, as far as it can.
            if let Some(Solicitation::Answer(caller) | Solicitation::Progress(caller)) = &solicitation {
                self.common.rates.owe_bytes(caller, bytes);
            }
            self.owe_bytes(bytes);
            return Ok(());
        }
        let is_answer = matches!(solicitation, Some(Solicitation::Answer(_)));
        let charged = self.check_bytes(bytes).and_then(|()| match &solicitation {
            Some(Solicitation::Answer(caller)) => self.common.rates.take_answer(author, caller, bytes),
            Some(Solicitation::Progress(caller)) => self.common.rates.take_progress(author, caller, bytes),
            Some(Solicitation::Cancellation) => self.common.rates.take_cancellation(author, bytes),
            None => self.common.rates.take(author, bytes),
        });
        match charged {
            Ok(()) => self.owe_bytes(bytes),
            Err(_) if is_answer => self.solicited.take_back(envelope),
            Err(_) => {}
        }
        charged
    }

    /// Whether the topic and the gateway have so many bytes left.
    fn check_bytes(&self, bytes: usize) -> Result<(), Excess> {
        self.byte_budget.check(bytes)?;
        self.common.byte_budget.check(bytes)
    }

    fn owe_bytes(&self, bytes: usize) {
        self.byte_budget.owe(bytes);
        self.common.byte_budget.owe(bytes);
    }

    /// Charges bytes to the topic and the gateway alone.
    pub(crate) fn charge_bytes(&self, bytes: usize) -> Result<(), Excess> {
        self.check_bytes(bytes)?;
        self.owe_bytes(bytes);
        Ok(())
    }

    /// Judges a draft and submits it.
    pub(crate) fn admit(self: &Arc<Self>, author: &ParticipantId, draft: Draft) -> Publishing {
        self.judge(author, draft, Judging::First)
    }

    fn judge(self: &Arc<Self>, author: &ParticipantId, draft: Draft, judging: Judging) -> Publishing {
        if self.common.is_closing() {
            let refusal = Refusal::new(Code::Closing, "the gateway is shutting down");
            return Publishing::Refused(refusal.regarding(Some(draft.envelope().id().clone())));
        }
        if draft.envelope().is_chat_revision() {
            return Publishing::LookUp(self.clone().look_up_original(author.clone(), draft));
        }
        let answered = answered_request(draft.envelope()).cloned();
        let attendance = self.attendance();
        let fold = attendance.fold();
        if !author.is_host() && (fold.is_vacant() || self.is_deleted()) {
            return Publishing::Refused(deleted().regarding(Some(draft.envelope().id().clone())));
        }
        let limits = fold.settings().map(|settings| settings.limits);
        let referent = match answered.as_ref().map(|request| fold.call(request)) {
            // The fold knows every request that waits for an answer, but few of those that do not.
            Some(None) => {
                drop(attendance);
                return Publishing::LookUp(self.clone().look_up(author.clone(), draft));
            }
            Some(Some(call)) => Referent::Request {
                callee: call.callee.clone(),
                id: call.id.clone(),
                ended: call.has_failed.then_some(CallClosure::Failed),
            },
            None => Referent::Nothing,
        };
        let recipient_present = match draft.envelope().to() {
            [first, ..] if answered.is_none() => fold.is_present(first),
            _ => false,
        };
        let calls_waiting = if author.is_host() { 0 } else { fold.waiting_of(author) };
        let concerns_others = concerns_others(fold, author, draft.envelope());
        let stamp = draft.stamp().cloned();
        let authority = authority(fold, author, stamp.as_ref());
        let is_called = match (&authority, draft.envelope().to()) {
            (Some(_), [caller]) if is_client_request(draft.envelope()) => fold.is_called_by(author, caller),
            _ => false,
        };
        // The id of a held call is taken. The same text again is held once.
        let is_taken = fold
            .held_calls()
            .get(draft.envelope().id())
            .is_some_and(|hold| hold.request.request != draft.envelope().text());
        drop(attendance);
        if is_taken {
            return Publishing::Refused(
                unwritable(&AppendError::IdConflict).regarding(Some(draft.envelope().id().clone())),
            );
        }
        let chain = limits.map(|limits| self.chain(&limits, draft.envelope(), stamp.as_ref()));
        let circumstances =
            Circumstances { recipient_present, calls_waiting, referent, concerns_others, is_called, authority, chain };
        let accepted = rules::accept(author, draft, &circumstances);
        if let (Ok(accepted), Some(limits)) = (&accepted, &limits)
            && let Err(refusal) = self.topic_budgets.take(limits, &accepted.envelope, stamp.as_ref())
        {
            return Publishing::Refused(refusal.regarding(Some(accepted.envelope.id().clone())));
        }
        match accepted {
            Ok(AcceptedDraft { envelope, held_by: None }) => Publishing::Submitted(self.submit(envelope, stamp)),
            Ok(AcceptedDraft { envelope, held_by: Some(held_by) }) => {
                Publishing::LookUp(self.clone().hold(envelope, stamp, held_by))
            }
            Err(refused) if depends_on_the_moment(refused.1.code) => {
                Publishing::LookUp(Box::pin(self.clone().retry_or_catch_up(author.clone(), refused, judging)))
            }
            Err(refused) => Publishing::Refused(refused.1),
        }
    }

    /// Submits an envelope. Two answers to one call may be submitted at once: the log takes the first and refuses the other.
    fn submit(&self, envelope: Envelope, stamp: Option<Stamp>) -> Submission {
        let (id, answers) = (envelope.id().clone(), answered_request(&envelope).cloned());
        Submission { append: self.log.submit(&self.topic, envelope, stamp), id, answers }
    }

    /// Judges an answer to a request that the fold does not know: answered before, older than what it remembers, or not folded yet.
    fn look_up(self: Arc<Self>, author: ParticipantId, draft: Draft) -> BoxFuture<'static, Result<Appended, Refusal>> {
        Box::pin(async move {
            let regarded = draft.envelope().id().clone();
            let found = match answered_request(draft.envelope()) {
                Some(request) => self.find(request, &regarded).await?,
                None => None,
            };
            let referent = match found {
                None => Referent::Nothing,
                Some(found) => match (found.envelope.message(), found.envelope.to()) {
                    (Some(Message::Request { id, .. }), [callee]) => {
                        if !self.folded(found.position.offset).await {
                            return Err(closed().regarding(Some(regarded)));
                        }
                        let ended = self.attendance().fold().end_of(found.envelope.id());
                        Referent::Request { callee: callee.clone(), id: id.clone(), ended }
                    }
                    _ => Referent::NoRequest,
                },
            };
            // A response needs no capability, and neither a rule nor a limit of the topic holds it.
            self.judge_reference(&author, draft, referent, None, None).await
        })
    }

    /// Judges an edit or a retraction of a chat message, which the fold does not know.
    fn look_up_original(
        self: Arc<Self>,
        author: ParticipantId,
        draft: Draft,
    ) -> BoxFuture<'static, Result<Appended, Refusal>> {
        Box::pin(async move {
            let regarded = draft.envelope().id().clone();
            let found = match draft.envelope().correlation() {
                Some(original) => self.find(original, &regarded).await?,
                None => None,
            };
            let is_chat = |method: &str| method == CHAT_METHOD;
            let referent = match found.as_ref().map(|found| (&found.envelope, found.envelope.message())) {
                None => Referent::Nothing,
                Some((original, _)) if original.is_redacted() => Referent::Redacted,
                Some((original, Some(Message::Notification { method }))) if is_chat(method) => {
                    Referent::Chat { author: original.from().clone() }
                }
                Some(_) => Referent::NoRequest,
            };
            let (authority, limits) = {
                let attendance = self.attendance();
                let limits = attendance.fold().settings().map(|settings| settings.limits);
                (authority(attendance.fold(), &author, draft.stamp()), limits)
            };
            self.judge_reference(&author, draft, referent, authority, limits).await
        })
    }

    /// Of how many agents' messages an envelope is the last, and how many that may be.
    fn chain(&self, limits: &TopicLimits, envelope: &Envelope, stamp: Option<&Stamp>) -> AgentChain {
        AgentChain { hops: self.chains.hops(envelope, stamp), limit: limits.hops() }
    }

    /// Judges a draft by what it refers to, and submits it.
    async fn judge_reference(
        self: Arc<Self>,
        author: &ParticipantId,
        draft: Draft,
        referent: Referent,
        authority: Option<Authority>,
        limits: Option<TopicLimits>,
    ) -> Result<Appended, Refusal> {
        let stamp = draft.stamp().cloned();
        let chain = limits.map(|limits| self.chain(&limits, draft.envelope(), stamp.as_ref()));
        let circumstances = Circumstances {
            recipient_present: false,
            calls_waiting: 0,
            referent,
            concerns_others: false,
            is_called: false,
            authority,
            chain,
        };
        match rules::accept(author, draft, &circumstances) {
            Ok(accepted) => {
                if let Some(limits) = &limits {
                    let taken = self.topic_budgets.take(limits, &accepted.envelope, stamp.as_ref());
                    taken.map_err(|refusal| refusal.regarding(Some(accepted.envelope.id().clone())))?;
                }
                self.submit(accepted.envelope, stamp).await
            }
            Err(refused) if depends_on_the_moment(refused.1.code) => self.retry(refused).await,
            Err(refused) => Err(refused.1),
        }
    }

    /// Finds an envelope, in order to judge a draft, which the refusal names.
    async fn find(&self, wanted: &EnvelopeId, draft: &EnvelopeId) -> Result<Option<Arc<Entry>>, Refusal> {
        let found = self.log.find(&self.topic, wanted).await;
        found.map_err(|error| unreadable(&error).regarding(Some(draft.clone())))
    }

    /// Looks whether what was refused is stored already. If not, and its callee has joined at another node a moment ago, it is judged once more,
    /// when this room has read that join.
    async fn retry_or_catch_up(
        self: Arc<Self>,
        author: ParticipantId,
        refused: Refused,
        judging: Judging,
    ) -> Result<Appended, Refusal> {
        let (draft, refusal) = *refused;
        if let Some(stored) = self.stored(draft.envelope()).await? {
            return Ok(stored);
        }
        let (Judging::First, Code::RecipientNotFound, [callee]) = (judging, refusal.code, draft.envelope().to()) else {
            return Err(refusal);
        };
        if !self.has_joined_elsewhere(callee).await {
            return Err(refusal);
        }
        self.judge(&author, draft, Judging::CaughtUp).outcome().await
    }

    /// Whether somebody who is not here by what this room has read is here by what the log has. Then this room has read that too.
    async fn has_joined_elsewhere(&self, callee: &ParticipantId) -> bool {
        // One node appends what it then folds, so only several can be apart.
        if self.log.gone().is_none() {
            return false;
        }
        let Ok(standing) = self.log.standing(&self.topic).await else { return false };
        let joins = standing.present.iter().filter_map(|join| join.envelope.presence());
        joins.into_iter().any(|join| join.participant.id == *callee) && self.folded(standing.head.offset).await
    }

    /// What the room refuses now it may have accepted before: the same envelope again is accepted again.
    async fn retry(self: Arc<Self>, refused: Refused) -> Result<Appended, Refusal> {
        let (draft, refusal) = *refused;
        self.stored(draft.envelope()).await?.ok_or(refusal)
    }

    /// The entry of an envelope that is stored already, with the same text.
    async fn stored(&self, envelope: &Envelope) -> Result<Option<Appended>, Refusal> {
        let found = self.find(envelope.id(), envelope.id()).await?;
        let same = found.filter(|found| found.envelope.text() == envelope.text());
        Ok(same.map(|entry| Appended { entry, repeated: true }))
    }
}

/// Whether an envelope cancels a call of others, or tells of its progress: by the id of the request or by that of its envelope.
fn concerns_others(fold: &Fold, author: &ParticipantId, envelope: &Envelope) -> bool {
    let Some(id) = envelope.concerned_call() else { return false };
    let named = envelope.correlation().and_then(|request| fold.call(request)).filter(|call| !call.has_failed);
    named.is_some_and(|call| call.caller != author && call.callee != author)
        || !fold.may_concern(author, &id, envelope.to())
}

/// Whether the same draft could have been accepted at another time.
fn depends_on_the_moment(code: Code) -> bool {
    matches!(
        code,
        Code::RecipientNotFound | Code::RateLimited | Code::CorrelationMismatch | Code::Paused | Code::Archived
    )
}

/// Whether a draft is judged for the first time, or again after the room has caught up with the log.
#[derive(Clone, Copy)]
enum Judging {
    First,
    CaughtUp,
}

/// What becomes of a draft.
pub enum Publishing {
    /// Refused at once.
    Refused(Refusal),
    /// Refused because there was too much of it; nothing more should be read from this author for the time given.
    Limited(Refusal, Duration),
    /// On its way into the log; later drafts may follow.
    Submitted(Submission),
    /// The log must be asked first; later drafts of this author wait until it is done.
    LookUp(BoxFuture<'static, Result<Appended, Refusal>>),
}

impl Publishing {
    /// Waits for the outcome.
    pub async fn outcome(self) -> Result<Appended, Refusal> {
        match self {
            Self::Refused(refusal) | Self::Limited(refusal, _) => Err(refusal),
            Self::Submitted(submission) => submission.await,
            Self::LookUp(outcome) => outcome.await,
        }
    }
}

/// A draft on its way into the log.
pub struct Submission {
    append: AppendFuture,
    id: EnvelopeId,
    /// The request it answers.
    answers: Option<EnvelopeId>,
}

impl Submission {
    /// Like `poll`, but the task need not be woken for an envelope that is stored as a new one ([`AppendFuture::poll_quietly`]).
    pub fn poll_quietly(&mut self, cx: &mut Context<'_>) -> Poll<Result<Appended, Refusal>> {
        self.append.poll_quietly(cx).map_err(|error| self.refusal(error))
    }

    /// Has the task woken if it is refused; whether it is already. See [`AppendFuture::watch`].
    pub fn watch(&mut self, cx: &Context<'_>) -> bool {
        self.append.watch(cx)
    }

    /// When it was decided, where the log says so ([`AppendFuture::stored_at`]).
    pub fn stored_at(&self) -> Option<Instant> {
        self.append.stored_at()
    }

    fn refusal(&self, error: AppendError) -> Refusal {
        let refusal = match (error, &self.answers) {
            (AppendError::CallEnded(end), Some(request)) => rules::call_ended(request, end),
            (error, _) => unwritable(&error),
        };
        refusal.regarding(Some(self.id.clone()))
    }
}

impl Future for Submission {
    type Output = Result<Appended, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.append).poll(cx));
        Poll::Ready(outcome.map_err(|error| self.refusal(error)))
    }
}
