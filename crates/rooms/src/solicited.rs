//! What a participant sends because another asked it to: the answer to an open call, and notifications about it.
//!
//! A request has paid for its answer, so that does not count against the rate of the participant that answers: one that many call would
//! otherwise be throttled for answering. There is one such answer a call, and none to oneself. Progress is the caller's to pay as well, but
//! one call pays for so much of it and no more: nobody's budget can be spent by whom they called once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use salon_log::{Fold, answered_request};
use salon_protocol::{Entry, Envelope, EnvelopeId, Message, ParticipantId, RateLimit, TokenBucket};

/// The progress notifications that one call pays for: a second in the long run, and at once.
const PROGRESS_PER_SECOND: u32 = 20;
const MAX_PROGRESS_AT_ONCE: u32 = 100;

/// The longest progress notification that a call pays for.
const MAX_PROGRESS_BYTES: usize = 4096;

/// What the open calls of one room have had paid for, as far as is known here.
pub(crate) struct Solicited {
    calls: Mutex<HashMap<EnvelopeId, PaidCall>>,
    began: Instant,
}

/// What one open call has had paid for.
#[derive(Default)]
struct PaidCall {
    is_answered: bool,
    progress: TokenBucket,
}

/// What an envelope is to the call that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Solicitation {
    /// Its first answer. The caller pays for the bytes.
    Answer(ParticipantId),
    /// Progress of its callee, within what a call pays for. The caller pays.
    Progress(ParticipantId),
    /// Its caller's cancellation.
    Cancellation,
}

impl Default for Solicited {
    fn default() -> Self {
        Self { calls: Mutex::default(), began: Instant::now() }
    }
}

impl Solicited {
    /// Whether an envelope may be one that somebody asked for, judging by nothing but itself.
    pub(crate) fn is_possible(envelope: &Envelope) -> bool {
        envelope.correlation().is_some() && !matches!(envelope.message(), None | Some(Message::Request { .. }))
    }

    /// What an envelope is to the open call that it names; `None` where its author pays like for any other.
    pub(crate) fn of(&self, author: &ParticipantId, envelope: &Envelope, fold: &Fold) -> Option<Solicitation> {
        self.at(author, envelope, fold, self.began.elapsed())
    }

    fn at(&self, author: &ParticipantId, envelope: &Envelope, fold: &Fold, now: Duration) -> Option<Solicitation> {
        let (message, request) = (envelope.message()?, envelope.correlation()?);
        let call = fold.call(request).filter(|call| !call.has_failed && call.caller != call.callee)?;
        match message {
            Message::Response { .. } if call.callee == author => {
                let mut calls = self.calls.lock();
                let paid = calls.entry(request.clone()).or_default();
                let is_first = !std::mem::replace(&mut paid.is_answered, true);
                is_first.then(|| Solicitation::Answer(call.caller.clone()))
            }
            Message::Notification { method } => match &**method {
                "notifications/progress" if call.callee == author => {
                    let is_paid = envelope.text().len() <= MAX_PROGRESS_BYTES && self.take_progress(request, now);
                    is_paid.then(|| Solicitation::Progress(call.caller.clone()))
                }
                "notifications/cancelled" if call.caller == author => Some(Solicitation::Cancellation),
                _ => None,
            },
            Message::Response { .. } | Message::Request { .. } => None,
        }
    }

    /// Takes one notification of what a call pays for, if there is one left.
    fn take_progress(&self, request: &EnvelopeId, now: Duration) -> bool {
        let limit = RateLimit::per_second(PROGRESS_PER_SECOND, MAX_PROGRESS_AT_ONCE);
        let mut calls = self.calls.lock();
        limit.take(&mut calls.entry(request.clone()).or_default().progress, 1, now).is_ok()
    }

    /// Lets a call be answered again whose answer was refused for a budget.
    pub(crate) fn take_back(&self, envelope: &Envelope) {
        let Some(request) = envelope.correlation() else { return };
        if let Some(paid) = self.calls.lock().get_mut(request) {
            paid.is_answered = false;
        }
    }

    /// Forgets the calls that some entries answer. Without this a busy room would have every call of a minute here.
    pub(crate) fn note_answered(&self, entries: &[Arc<Entry>]) {
        let mut answered = entries.iter().filter_map(|entry| answered_request(&entry.envelope)).peekable();
        if answered.peek().is_none() {
            return;
        }
        let mut calls = self.calls.lock();
        answered.for_each(|request| _ = calls.remove(request));
    }

    /// Forgets the calls that have ended.
    pub(crate) fn sweep(&self, fold: &Fold) {
        self.calls.lock().retain(|request, _| fold.call(request).is_some_and(|call| !call.has_failed));
    }
}

#[cfg(test)]
mod tests {
    use salon_protocol::{Draft, Limits, Position, Timestamp};

    use super::*;

    fn id(text: &str) -> ParticipantId {
        ParticipantId::new(text).expect("an id")
    }

    fn envelope(from: &str, to: &str, more: &str, payload: &str) -> Envelope {
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"r1","ts":"2025-08-17T14:00:00Z","from":"{from}","to":["{to}"],{more}"kind":"mcp","payload":{{"jsonrpc":"2.0",{payload}}}}}"#
        );
        Draft::parse(text, &Limits::default()).expect("a draft").envelope().clone()
    }

    fn progress(from: &str, extra: usize) -> Envelope {
        let message = "x".repeat(extra);
        let params =
            format!(r#""method":"notifications/progress","params":{{"progressToken":1,"message":"{message}"}}"#);
        envelope(from, "alice", r#""correlation_id":"r1","#, &params)
    }

    #[test]
    fn a_call_pays_for_some_progress_and_no_more() {
        let mut fold = Fold::default();
        let request = envelope("alice", "bob", "", r#""id":1,"method":"ping""#);
        let join = Envelope::restore(
            r#"{"protocol":"mcp-x/v0","id":"j1","ts":"2025-08-17T14:00:00Z","from":"system:gateway","kind":"presence","payload":{"event":"join","participant":{"id":"bob"}}}"#,
        );
        for (offset, envelope) in [(1, join.expect("an envelope")), (2, request)] {
            let position = Position { offset, ..Position::start(1) };
            fold.apply(&Arc::new(Entry { position, arrived: Timestamp(0), stamp: None, envelope }));
        }
        let solicited = Solicited::default();
        let paid = |from: &str, envelope: &Envelope, second: u64| {
            solicited.at(&id(from), envelope, &fold, Duration::from_secs(second))
        };
        let by_alice = Some(Solicitation::Progress(id("alice")));
        assert_eq!(paid("bob", &progress("bob", MAX_PROGRESS_BYTES), 0), None, "a long one");
        assert_eq!(paid("carol", &progress("carol", 0), 0), None, "another's");
        for (second, notifications) in
            [(0, MAX_PROGRESS_AT_ONCE), (1, PROGRESS_PER_SECOND), (3, 2 * PROGRESS_PER_SECOND)]
        {
            for _ in 0..notifications {
                assert_eq!(paid("bob", &progress("bob", 0), second), by_alice);
            }
            assert_eq!(paid("bob", &progress("bob", 0), second), None, "at second {second}");
        }
        let answer = envelope("bob", "alice", r#""correlation_id":"r1","#, r#""id":1,"result":{}"#);
        assert_eq!(paid("bob", &answer, 3), Some(Solicitation::Answer(id("alice"))), "its answer is another matter");
        assert_eq!(paid("bob", &answer, 3), None);
    }
}
