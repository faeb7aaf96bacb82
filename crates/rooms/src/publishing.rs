//! Publishing: a draft is judged with what the room knows, and submitted to the log.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use salon_log::{AppendError, Appended};
use salon_protocol::{Code, Draft, Envelope, EnvelopeId, Message, ParticipantId, Refusal, Stamp};

use crate::room::{Room, unreadable, unwritable};
use crate::rules::{self, Circumstances, Referent, Refused};

impl Room {
    /// Counts a draft against its author's rate, then judges and submits it.
    pub(crate) fn publish(self: &Arc<Self>, author: &ParticipantId, draft: Draft) -> Publishing {
        if !author.is_host()
            && let Err(wait) = self.common.rates.take(author)
        {
            let id = draft.envelope().id().clone();
            return Publishing::Limited(self.common.rates.refusal(wait).regarding(Some(id)), wait);
        }
        self.admit(author, draft)
    }

    /// Judges a draft and submits it.
    pub(crate) fn admit(self: &Arc<Self>, author: &ParticipantId, draft: Draft) -> Publishing {
        if self.common.is_closing() {
            let refusal = Refusal::new(Code::Closing, "the gateway is shutting down");
            return Publishing::Refused(refusal.regarding(Some(draft.envelope().id().clone())));
        }
        let answered = answered_request(draft.envelope()).cloned();
        let mut fold = self.fold();
        let call = answered.as_ref().map(|request| fold.call_mut(request));
        let referent = match &call {
            // The fold knows every request that waits for an answer, but few of those that do not.
            Some(None) => {
                drop(fold);
                return Publishing::LookUp(self.clone().look_up(author.clone(), draft));
            }
            Some(Some(call)) => {
                Referent::Request { callee: call.callee.clone(), id: call.id.clone(), answered: call.answering }
            }
            None => Referent::Nothing,
        };
        let recipient_present = match draft.envelope().to() {
            [first, ..] if answered.is_none() => fold.is_present(first),
            _ => false,
        };
        let circumstances = Circumstances { recipient_present, referent };
        let stamp = draft.stamp().cloned();
        match rules::accept(author, draft, &circumstances) {
            Ok(envelope) => {
                if let Some(call) = answered.as_ref().and_then(|request| fold.call_mut(request)) {
                    call.answering = true;
                }
                drop(fold);
                Publishing::Submitted(self.submit(envelope, stamp, answered))
            }
            Err(refused) if depends_on_the_moment(refused.1.code) => {
                drop(fold);
                Publishing::LookUp(Box::pin(self.clone().retry(refused)))
            }
            Err(refused) => Publishing::Refused(refused.1),
        }
    }

    fn submit(self: &Arc<Self>, envelope: Envelope, stamp: Option<Stamp>, answered: Option<EnvelopeId>) -> Submission {
        let id = envelope.id().clone();
        Submission {
            append: self.log.append_stamped(&self.topic, envelope, stamp),
            id,
            answers: answered.map(|request| (self.clone(), request)),
        }
    }

    /// Judges an answer to a request that the fold does not know: answered before, or older than what it remembers.
    fn look_up(self: Arc<Self>, author: ParticipantId, draft: Draft) -> BoxFuture<'static, Result<Appended, Refusal>> {
        Box::pin(async move {
            let request = answered_request(draft.envelope()).cloned();
            let found = match &request {
                Some(request) => self.log.find(&self.topic, request).await.map_err(|error| unreadable(&error))?,
                None => None,
            };
            let referent = match found {
                None => Referent::Nothing,
                Some(found) => match (found.entry.envelope.message(), found.entry.envelope.to()) {
                    (Some(Message::Request { id, .. }), [callee]) => {
                        Referent::Request { callee: callee.clone(), id: id.clone(), answered: !found.unanswered }
                    }
                    _ => Referent::NoRequest,
                },
            };
            let circumstances = Circumstances { recipient_present: false, referent };
            let stamp = draft.stamp().cloned();
            match rules::accept(&author, draft, &circumstances) {
                Ok(envelope) => self.submit(envelope, stamp, request).await,
                Err(refused) if depends_on_the_moment(refused.1.code) => self.retry(refused).await,
                Err(refused) => Err(refused.1),
            }
        })
    }

    /// What the room refuses now it may have accepted before: the same envelope again is accepted again.
    async fn retry(self: Arc<Self>, refused: Refused) -> Result<Appended, Refusal> {
        let (draft, refusal) = *refused;
        let found = self.log.find(&self.topic, draft.envelope().id()).await.map_err(|error| unreadable(&error))?;
        match found {
            Some(found) if found.entry.envelope.text() == draft.envelope().text() => {
                Ok(Appended { entry: found.entry, repeated: true })
            }
            _ => Err(refusal),
        }
    }
}

/// The request an envelope answers, when it is a response.
fn answered_request(envelope: &Envelope) -> Option<&EnvelopeId> {
    matches!(envelope.message(), Some(Message::Response { .. })).then(|| envelope.correlation()).flatten()
}

/// Whether the same draft could have been accepted at another time.
fn depends_on_the_moment(code: Code) -> bool {
    matches!(code, Code::RecipientNotFound | Code::CorrelationMismatch)
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
    append: BoxFuture<'static, Result<Appended, AppendError>>,
    id: EnvelopeId,
    /// The request it answers, to be answerable again if this fails.
    answers: Option<(Arc<Room>, EnvelopeId)>,
}

impl Future for Submission {
    type Output = Result<Appended, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.append.as_mut().poll(cx));
        if outcome.is_ok() {
            self.answers = None;
        }
        Poll::Ready(outcome.map_err(|error| unwritable(&error).regarding(Some(self.id.clone()))))
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if let Some((room, request)) = self.answers.take()
            && let Some(call) = room.fold().call_mut(&request)
        {
            call.answering = false;
        }
    }
}
