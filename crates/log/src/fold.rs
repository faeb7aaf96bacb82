//! What follows from a topic's entries so far: who is present, which calls wait for an answer, and which have failed.
//!
//! The one place where presence and calls are decided. Every engine folds what it stores, and every room folds what its log's tail
//! yields; both use this value. Deliberately absent: IO, a clock, and what only one node knows (who is connected to it).
//!
//! Invariant: decided by the order of the entries alone. The same entries give the same fold on every node and after every restart.
//! A call ends once: by its first answer, or by failing, whichever stands first in the log. Nobody leaves who is not present.

mod calls;
mod control;
#[cfg(test)]
mod control_tests;
mod deletion;
mod presence;
mod statuses;
mod stopping;

use std::collections::BTreeMap;
use std::sync::Arc;

use salon_control::ControlNotice;
use salon_protocol::{Entry, Envelope, EnvelopeId, Message, ParticipantId, Position, PresenceEvent};

pub use self::calls::{CallClosure, CallRecord, FailedCall, answered_request};
use self::calls::{CallerLoad, FoldedCall, FoldedFailure};
use self::control::ControlFold;
pub use self::control::{HeldCall, MAX_HELD_CALLS};
pub use self::deletion::Deletion;
use self::presence::PresentParticipant;
pub use self::statuses::StatusRecord;
use crate::hash::FastMap;
use crate::{FailedRequest, OpenRequest, Standing};

/// What one more entry changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoldEffect {
    /// It counts, and no call fails by it.
    Counts,
    /// It counts, and calls fail by it.
    FailsCalls,
    /// It counts for nothing.
    Ignored(Ignored),
}

/// Why an entry counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It is an answer to a call that does not wait for one.
    Answer(CallClosure),
    /// It says that a participant leaves who is not present.
    Leave,
    /// It changes settings that have changed since, decides about a call that is held no longer, or ends a status that has ended.
    Stale,
}

/// Whether an envelope can be one that counts for nothing.
#[cfg(feature = "nats")]
pub(crate) fn may_be_ignored(envelope: &Envelope) -> bool {
    let is_request = matches!(envelope.message(), Some(Message::Request { .. }));
    let is_counted = |event| matches!(event, PresenceEvent::Leave | PresenceEvent::Status);
    is_request
        || answered_request(envelope).is_some()
        || envelope.presence().is_some_and(|said| is_counted(said.event))
        || ControlNotice::is_one(envelope)
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    present: BTreeMap<ParticipantId, PresentParticipant>,
    calls: FastMap<EnvelopeId, FoldedCall>,
    /// The waiting calls by caller: one caller's flood must not end the calls of another.
    callers: FastMap<ParticipantId, CallerLoad>,
    /// The calls that have failed, by when they did and in the order they were made. The oldest are forgotten.
    failures: BTreeMap<(u64, u64), EnvelopeId>,
    control: ControlFold,
    statuses: BTreeMap<ParticipantId, StatusRecord>,
    /// Whether there ever were settings, held calls or statuses since this fold was begun or restored: notices may be stored for it.
    keeps_notices: bool,
    deletion: Option<Deletion>,
    /// Why calls were denied, of those that have failed.
    denials: FastMap<EnvelopeId, Arc<str>>,
    /// The offset up to which every entry is folded.
    through: u64,
    /// See [`Fold::bytes`].
    bytes: usize,
}

/// What a participant or a call takes beside its texts: nodes of maps, allocations, fields.
const BYTES_BESIDE_TEXTS: usize = 512;

impl Fold {
    /// The fold of everything up to `standing.head`.
    pub fn restore(standing: &Standing) -> Self {
        let mut fold = Self::default();
        for entry in &standing.present {
            if let Some(presence) = entry.envelope.presence() {
                fold.join(presence.participant, entry);
            }
        }
        for open in &standing.waiting {
            // Standings that were stored by version 0.1 do not say which calls have failed, nor when. Its callers were notified then; by a
            // later offset they would be notified again after every restart.
            let waits = open.callee.is_host()
                || fold.present.get(&open.callee).is_some_and(|callee| callee.join.position.offset < open.offset);
            let failed = (!waits).then_some(FoldedFailure::callee_left(open.offset));
            fold.insert(open.clone(), failed);
        }
        for FailedRequest { at, open, cause } in &standing.failed {
            fold.insert(open.clone(), Some(FoldedFailure { at: *at, cause: *cause }));
        }
        fold.control = ControlFold::restore(&standing.control);
        fold.keeps_notices = !standing.control.is_empty();
        for entry in &standing.control {
            if let Some(presence) = entry.envelope.presence() {
                fold.set_status(presence, entry);
            }
        }
        fold.deletion = standing.deletion;
        fold.through = standing.head.offset;
        fold
    }

    /// This fold as plain data, without the calls of requests up to `trimmed`, which retention has removed.
    pub fn standing(&self, epoch: u32, trimmed: u64) -> Standing {
        let open = |(request, call): (&EnvelopeId, &FoldedCall)| OpenRequest {
            request: request.clone(),
            caller: call.caller.clone(),
            callee: call.callee.clone(),
            id: call.id.clone(),
            offset: call.requested_at,
        };
        let mut present: Vec<_> = self.present.values().map(|present| present.join.clone()).collect();
        present.sort_unstable_by_key(|join| join.position.offset);
        let is_kept = |call: &FoldedCall| call.requested_at > trimmed;
        let waiting = self.calls.iter().filter(|(_, call)| call.failed.is_none() && is_kept(call));
        let mut waiting: Vec<_> = waiting.map(open).collect();
        waiting.sort_unstable_by_key(|open| open.offset);
        let failed = self.failures.iter().filter_map(|((at, _), request)| {
            let call = self.calls.get(request).filter(|call| is_kept(call))?;
            Some(FailedRequest { at: *at, open: open((request, call)), cause: call.failed?.cause })
        });
        let head = Position { epoch, offset: self.through };
        let (failed, control) = (failed.collect(), self.control_entries());
        Standing { head, present, waiting, failed, control, deletion: self.deletion }
    }

    /// Takes the next entry. An entry that is folded already changes nothing; it reports again whether calls failed by it.
    pub fn apply(&mut self, entry: &Arc<Entry>) -> FoldEffect {
        let at = entry.position.offset;
        if at <= self.through {
            return self.effect_at(at);
        }
        if self.is_too_late(&entry.envelope) {
            self.through = at;
            return FoldEffect::Ignored(Ignored::Stale);
        }
        if ControlNotice::deletes_topic(&entry.envelope) {
            *self = Self::deleted(at);
            return FoldEffect::Counts;
        }
        self.through = at;
        match entry.envelope.message() {
            Some(Message::Notification { .. }) => self.note(entry),
            Some(Message::Request { .. }) => match OpenRequest::of(entry) {
                Some(open) if self.is_released(&open.request) => FoldEffect::Ignored(Ignored::Stale),
                Some(open) => {
                    // Another request may have the id of a held call, which everybody can read.
                    if self.control.holds_text(&open.request, entry.envelope.text()) {
                        self.control.release(&open.request);
                    }
                    self.ask(open)
                }
                None => FoldEffect::Counts,
            },
            Some(Message::Response { .. }) => match entry.envelope.correlation() {
                Some(request) => self.answer(request),
                None => FoldEffect::Counts,
            },
            None => {
                let Some(presence) = entry.envelope.presence() else { return FoldEffect::Counts };
                let id = presence.participant.id.clone();
                let was_present = match presence.event {
                    PresenceEvent::Join => self.join(presence.participant, entry),
                    PresenceEvent::Leave if !self.leave(&id, at) => return FoldEffect::Ignored(Ignored::Leave),
                    PresenceEvent::Leave => true,
                    PresenceEvent::Heartbeat => false,
                    PresenceEvent::Status => return self.set_status(presence, entry),
                };
                // What was held for a participant that leaves has failed as well.
                match was_present.then(|| self.fail_calls_to(&id, at)) {
                    Some(FoldEffect::Counts) => self.effect_at(at),
                    Some(effect) => effect,
                    None => FoldEffect::Counts,
                }
            }
        }
    }

    /// Takes an entry that was copied from another log: nothing follows from it but settings, whatever their version.
    #[cfg(feature = "nats")]
    pub(crate) fn adopt(&mut self, entry: &Arc<Entry>) {
        self.through = self.through.max(entry.position.offset);
        self.end_vacancy();
        if let Some(ControlNotice::Settings(change)) = ControlNotice::of(&entry.envelope) {
            self.control.set(change.settings, entry);
        }
    }

    /// Passes over an offset that has no entry.
    pub fn pass(&mut self, offset: u64) {
        self.through = self.through.max(offset);
    }

    /// Whether calls failed at an offset that is folded already.
    fn effect_at(&self, at: u64) -> FoldEffect {
        match self.failures.range((at, 0)..=(at, u64::MAX)).next() {
            Some(_) => FoldEffect::FailsCalls,
            None => FoldEffect::Counts,
        }
    }

    /// Why an envelope would count for nothing if it came next, if it would.
    pub fn ignores(&self, envelope: &Envelope) -> Option<Ignored> {
        if self.is_too_late(envelope) {
            return Some(Ignored::Stale);
        }
        if let Some(request) = answered_request(envelope) {
            return self.end_of(request).map(Ignored::Answer);
        }
        if let Some(notice) = ControlNotice::of(envelope) {
            return self.is_stale(&notice).then_some(Ignored::Stale);
        }
        if matches!(envelope.message(), Some(Message::Request { .. })) {
            return self.is_released(envelope.id()).then_some(Ignored::Stale);
        }
        let presence = envelope.presence()?;
        match presence.event {
            PresenceEvent::Leave => (!self.is_present(&presence.participant.id)).then_some(Ignored::Leave),
            PresenceEvent::Status => self.is_stale_status(&presence, envelope).then_some(Ignored::Stale),
            PresenceEvent::Join | PresenceEvent::Heartbeat => None,
        }
    }

    /// How much memory it takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.control.bytes()
    }

    /// The offset up to which every entry is folded.
    pub fn through(&self) -> u64 {
        self.through
    }
}

#[cfg(test)]
mod tests {
    use salon_protocol::{FailureCause, Timestamp};

    use super::calls::MAX_FOLDED_OF_CALLER;
    use super::*;

    fn entry(offset: u64, envelope: &str) -> Arc<Entry> {
        let text = format!(r#"{{"protocol":"mcp-x/v0","ts":"2025-08-17T14:00:00Z",{envelope}}}"#);
        let envelope = Envelope::restore(text).expect("an envelope");
        Arc::new(Entry { position: Position { epoch: 1, offset }, arrived: Timestamp(0), stamp: None, envelope })
    }

    fn said(offset: u64, event: &str) -> Arc<Entry> {
        let payload = format!(r#"{{"event":"{event}","participant":{{"id":"alice"}}}}"#);
        entry(offset, &format!(r#""id":"p{offset}","from":"system:gateway","kind":"presence","payload":{payload}"#))
    }

    /// A request of a caller's to the host, called by its offset.
    fn requested_at(offset: u64, caller: &str) -> Arc<Entry> {
        let payload = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
        let rest = format!(r#""from":"{caller}","to":["system:gateway"],"kind":"mcp","payload":{payload}"#);
        entry(offset, &format!(r#""id":"r{offset}",{rest}"#))
    }

    /// What [`Fold::bytes`] must be.
    fn counted_bytes(fold: &Fold) -> usize {
        let calls: usize = fold.calls.iter().map(|(request, call)| call.bytes(request)).sum();
        calls + fold.present.values().map(PresentParticipant::bytes).sum::<usize>()
    }

    fn present(fold: &Fold) -> Vec<u64> {
        fold.standing(1, 0).present.iter().map(|entry| entry.position.offset).collect()
    }

    #[test]
    fn a_join_that_is_folded_twice_is_one_join() {
        let mut fold = Fold::default();
        assert_eq!(fold.apply(&said(3, "join")), FoldEffect::Counts);
        assert_eq!(fold.apply(&said(3, "join")), FoldEffect::Counts);
        assert_eq!(present(&fold), [3]);
        fold.apply(&said(5, "join"));
        assert_eq!(present(&fold), [5], "a later one takes its place");
        assert_eq!(fold.bytes(), counted_bytes(&fold));
        assert_eq!(fold.apply(&said(6, "leave")), FoldEffect::Counts);
        assert_eq!(present(&fold), [0; 0]);
        assert_eq!(fold.apply(&said(7, "leave")), FoldEffect::Ignored(Ignored::Leave));
        assert_eq!(fold.bytes(), 0);
    }

    #[test]
    fn one_callers_flood_ends_only_its_own_calls() {
        let mut fold = Fold::default();
        let mut next = 0..;
        let mut ask =
            |fold: &mut Fold, caller: &str| fold.apply(&requested_at(next.next().expect("endless") + 1, caller));
        let waits =
            |fold: &Fold, offset: u64| fold.end_of(&EnvelopeId::new(format!("r{offset}")).expect("an id")).is_none();
        ask(&mut fold, "alice");
        for _ in 0..MAX_FOLDED_OF_CALLER {
            assert_eq!(ask(&mut fold, "mallory"), FoldEffect::Counts);
        }
        assert_eq!(ask(&mut fold, "mallory"), FoldEffect::FailsCalls, "the oldest fails, and its caller is notified");
        assert!(waits(&fold, 1) && !waits(&fold, 2) && waits(&fold, 3));
        let mallory = ParticipantId::new("mallory").expect("a name");
        let restored = Fold::restore(&fold.standing(1, 0));
        for fold in [&fold, &restored] {
            let failed = fold.failed_calls(&mallory, 0, fold.through());
            let failed: Vec<_> = failed.iter().map(|call| (call.request.as_str(), call.cause)).collect();
            assert_eq!(failed, [("r2", FailureCause::TooManyWaiting)]);
        }
        for number in 0..20 {
            for _ in 0..Fold::MAX_WAITING_OF_CALLER {
                ask(&mut fold, &format!("crowd-{number}"));
            }
        }
        assert_eq!(fold.standing(1, 0).waiting.len(), Standing::MAX_CALLS);
        assert_eq!(fold.standing(1, 0).failed.len(), Standing::MAX_CALLS, "the oldest failures are forgotten");
        assert!(waits(&fold, 1), "the calls of the busiest end first");
        assert_eq!(fold.bytes(), counted_bytes(&fold));
    }

    #[test]
    fn the_calls_of_the_host_never_fail_for_being_many() {
        let mut fold = Fold::default();
        fold.apply(&requested_at(1, "alice"));
        let many = u64::try_from(Standing::MAX_CALLS).expect("a small number") + 1;
        for offset in 2..=many + 1 {
            assert_eq!(fold.apply(&requested_at(offset, "system:gateway")), FoldEffect::Counts);
        }
        assert_eq!(fold.waiting_of(&ParticipantId::host()), Standing::MAX_CALLS + 1);
        assert_eq!(fold.waiting_of(&ParticipantId::new("alice").expect("a name")), 1, "nor anybody else's by them");
    }
}
