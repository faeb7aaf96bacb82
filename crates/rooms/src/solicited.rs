//! What a participant sends because another asked it to: the answer to an open call, its progress, its cancellation.
//!
//! The request has paid for them, so they do not count against the sender's own rate: a participant that many call would otherwise be
//! throttled for answering. A call pays for one answer, and for its notifications up to an allowance; anything beyond is the sender's.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use salon_log::Fold;
use salon_protocol::{Envelope, EnvelopeId, Message, ParticipantId, RateLimit, TokenBucket};

/// How many notifications one call pays for: a second, and at once.
const NOTIFICATIONS: (u32, u32) = (20, 64);

/// What the open calls of one room have been answered with.
pub(crate) struct Solicited {
    calls: Mutex<HashMap<EnvelopeId, Allowance>>,
    notifications: RateLimit,
    began: Instant,
}

#[derive(Default)]
struct Allowance {
    is_answered: bool,
    notifications: TokenBucket,
}

impl Solicited {
    pub(crate) fn new() -> Self {
        let (per_second, burst) = NOTIFICATIONS;
        let notifications = RateLimit::per_second(per_second, burst);
        Self { calls: Mutex::default(), notifications, began: Instant::now() }
    }

    /// Whether an envelope may be one that somebody asked for, judging by nothing but itself.
    pub(crate) fn is_possible(envelope: &Envelope) -> bool {
        envelope.correlation().is_some() && !matches!(envelope.message(), None | Some(Message::Request { .. }))
    }

    /// The caller that has paid for an envelope, where an open call has.
    pub(crate) fn paid_by(&self, author: &ParticipantId, envelope: &Envelope, fold: &Fold) -> Option<ParticipantId> {
        self.paid_at(author, envelope, fold, self.began.elapsed())
    }

    fn paid_at(
        &self,
        author: &ParticipantId,
        envelope: &Envelope,
        fold: &Fold,
        now: Duration,
    ) -> Option<ParticipantId> {
        let (message, request) = (envelope.message()?, envelope.correlation()?);
        let is_answer = matches!(message, Message::Response { .. });
        let call = fold.call(request).filter(|call| !call.has_failed)?;
        let is_party = match message {
            Message::Response { .. } => call.callee == author,
            Message::Notification { method } => match &**method {
                "notifications/progress" => call.callee == author,
                "notifications/cancelled" => call.caller == author,
                _ => false,
            },
            Message::Request { .. } => false,
        };
        if !is_party {
            return None;
        }
        let mut calls = self.calls.lock();
        let allowance = calls.entry(request.clone()).or_default();
        let is_paid = if is_answer {
            !std::mem::replace(&mut allowance.is_answered, true)
        } else {
            self.notifications.take(&mut allowance.notifications, 1, now).is_ok()
        };
        is_paid.then(|| call.caller.clone())
    }

    /// Forgets the calls that have ended.
    pub(crate) fn sweep(&self, fold: &Fold) {
        self.calls.lock().retain(|request, _| fold.call(request).is_some_and(|call| !call.has_failed));
    }
}
