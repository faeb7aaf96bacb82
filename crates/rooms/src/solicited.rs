//! What a participant sends because another asked it to: the answer to an open call, and notifications about it.
//!
//! A request has paid for its answer, so that does not count against the rate of the participant that answers: one that many call would
//! otherwise be throttled for answering. There is one such answer a call, and none to oneself. Progress and cancellations count against a
//! rate of their own before they count against the sender's.

use std::collections::HashSet;

use parking_lot::Mutex;
use salon_log::Fold;
use salon_protocol::{Envelope, EnvelopeId, Message, ParticipantId};

/// The open calls of one room that were answered, as far as is known here.
#[derive(Default)]
pub(crate) struct Solicited(Mutex<HashSet<EnvelopeId>>);

/// What an envelope is to the call that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Solicitation {
    /// Its first answer. The caller pays for the bytes.
    Answer(ParticipantId),
    /// Progress of its callee, or its caller's cancellation.
    Notification,
}

impl Solicited {
    /// Whether an envelope may be one that somebody asked for, judging by nothing but itself.
    pub(crate) fn is_possible(envelope: &Envelope) -> bool {
        envelope.correlation().is_some() && !matches!(envelope.message(), None | Some(Message::Request { .. }))
    }

    /// What an envelope is to the open call that it names; `None` where its author pays like for any other.
    pub(crate) fn of(&self, author: &ParticipantId, envelope: &Envelope, fold: &Fold) -> Option<Solicitation> {
        let (message, request) = (envelope.message()?, envelope.correlation()?);
        let call = fold.call(request).filter(|call| !call.has_failed && call.caller != call.callee)?;
        match message {
            Message::Response { .. } if call.callee == author => {
                self.0.lock().insert(request.clone()).then(|| Solicitation::Answer(call.caller.clone()))
            }
            Message::Notification { method } => {
                let is_party = match &**method {
                    "notifications/progress" => call.callee == author,
                    "notifications/cancelled" => call.caller == author,
                    _ => false,
                };
                is_party.then_some(Solicitation::Notification)
            }
            Message::Response { .. } | Message::Request { .. } => None,
        }
    }

    /// Lets a call be answered again whose answer was refused for a budget.
    pub(crate) fn take_back(&self, envelope: &Envelope) {
        if let Some(request) = envelope.correlation() {
            self.0.lock().remove(request);
        }
    }

    /// Forgets the calls that have ended.
    pub(crate) fn sweep(&self, fold: &Fold) {
        self.0.lock().retain(|request| fold.call(request).is_some_and(|call| !call.has_failed));
    }
}
