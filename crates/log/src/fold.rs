//! What follows from a topic's entries so far: who is present, which calls wait for an answer, and which have failed.
//!
//! The one place where presence and calls are decided. Every engine folds what it stores, and every room folds what its log's tail
//! yields; both use this value. Deliberately absent: IO, a clock, and what only one node knows (who is connected to it).
//!
//! Invariant: decided by the order of the entries alone. The same entries give the same fold on every node and after every restart.
//! A call ends once: by its first answer, or by failing, whichever stands first in the log. Nobody leaves who is not present.

mod control;
#[cfg(test)]
mod control_tests;
mod stopping;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use salon_control::ControlNotice;
use salon_protocol::{
    Entry, Envelope, EnvelopeId, FailureCause, Message, Participant, ParticipantId, Position, PresenceEvent, RpcId,
};

use self::control::ControlFold;
pub use self::control::{HeldCall, MAX_HELD_CALLS};
use crate::{FailedRequest, OpenRequest, Standing};

/// How many calls of one caller may wait for an answer; of more, the oldest fails. Only a backstop: rooms refuse requests at
/// [`Fold::MAX_WAITING_OF_CALLER`]. Between the two there is room for requests that rooms of several nodes have accepted and not yet folded.
const MAX_FOLDED_OF_CALLER: usize = 2 * Fold::MAX_WAITING_OF_CALLER;

/// A request that no longer waits, because nobody will answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCall {
    /// The request's envelope.
    pub request: EnvelopeId,
    /// Its JSON-RPC id.
    pub id: RpcId,
    /// The participant that was to answer.
    pub callee: ParticipantId,
    /// Why it failed.
    pub cause: FailureCause,
}

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
    /// It changes settings that have changed since, or decides about a call that is held no longer.
    Stale,
}

/// Why a call does not wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallClosure {
    /// It has failed, and its caller has been notified, or will be.
    Failed,
    /// It has been answered, or there is no such call.
    Answered,
}

/// The request that an envelope answers, when it is a response.
pub fn answered_request(envelope: &Envelope) -> Option<&EnvelopeId> {
    matches!(envelope.message(), Some(Message::Response { .. })).then(|| envelope.correlation()).flatten()
}

/// Whether an envelope can be one that counts for nothing.
#[cfg(feature = "nats")]
pub(crate) fn may_be_ignored(envelope: &Envelope) -> bool {
    let is_request = matches!(envelope.message(), Some(Message::Request { .. }));
    is_request || answered_request(envelope).is_some() || leaver(envelope).is_some() || ControlNotice::is_one(envelope)
}

/// Who leaves by an envelope, if somebody does.
fn leaver(envelope: &Envelope) -> Option<ParticipantId> {
    let presence = envelope.presence().filter(|said| said.event == PresenceEvent::Leave);
    presence.map(|said| said.participant.id)
}

/// A call that waits, or has failed.
#[derive(Debug, Clone)]
struct FoldedCall {
    caller: ParticipantId,
    callee: ParticipantId,
    id: RpcId,
    requested_at: u64,
    failed: Option<FoldedFailure>,
}

/// Where and why a call failed.
#[derive(Debug, Clone, Copy)]
struct FoldedFailure {
    at: u64,
    cause: FailureCause,
}

impl FoldedFailure {
    fn callee_left(at: u64) -> Self {
        Self { at, cause: FailureCause::CalleeLeft }
    }
}

/// A call as [`Fold::call`] shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRecord<'a> {
    /// The participant that asked.
    pub caller: &'a ParticipantId,
    /// The participant that was asked.
    pub callee: &'a ParticipantId,
    /// The JSON-RPC id of the request.
    pub id: &'a RpcId,
    /// Whether it has failed; otherwise it waits.
    pub has_failed: bool,
}

/// A participant that is present.
#[derive(Debug, Clone)]
struct PresentParticipant {
    participant: Arc<Participant>,
    join: Arc<Entry>,
}

#[derive(Debug, Clone, Default)]
struct CallerLoad {
    waiting: usize,
    /// Its requests in the order they were made, some of them ended since.
    requested_at: VecDeque<EnvelopeId>,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    present: BTreeMap<ParticipantId, PresentParticipant>,
    calls: HashMap<EnvelopeId, FoldedCall>,
    /// The waiting calls by caller: one caller's flood must not end the calls of another.
    callers: HashMap<ParticipantId, CallerLoad>,
    /// The calls that have failed, by when they did and in the order they were made. The oldest are forgotten.
    failures: BTreeMap<(u64, u64), EnvelopeId>,
    control: ControlFold,
    /// The offset up to which every entry is folded.
    through: u64,
    /// See [`Fold::bytes`].
    bytes: usize,
}

/// What a participant or a call takes beside its texts: nodes of maps, allocations, fields.
const BYTES_BESIDE_TEXTS: usize = 512;

impl FoldedCall {
    fn bytes(&self, request: &EnvelopeId) -> usize {
        let (RpcId::Number(id) | RpcId::String(id)) = &self.id;
        // The request's id is a key here, and is in the caller's list or among the failures.
        let names = self.caller.as_str().len() + self.callee.as_str().len() + 2 * request.as_str().len();
        BYTES_BESIDE_TEXTS + names + id.len()
    }
}

impl PresentParticipant {
    fn bytes(&self) -> usize {
        // The participant is a copy of what the envelope says.
        BYTES_BESIDE_TEXTS + 2 * self.join.envelope.text().len()
    }
}

impl Fold {
    /// How many calls of one participant may wait for an answer before rooms refuse another. The host is exempt: every gateway limits
    /// its own, and they all call by the same name.
    pub const MAX_WAITING_OF_CALLER: usize = 1000;

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
        Standing { head, present, waiting, failed: failed.collect(), control: self.control.entries() }
    }

    /// Takes the next entry. An entry that is folded already changes nothing; whether calls failed by it is said again.
    pub fn apply(&mut self, entry: &Arc<Entry>) -> FoldEffect {
        let at = entry.position.offset;
        if at <= self.through {
            return self.effect_at(at);
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

    fn join(&mut self, participant: Participant, entry: &Arc<Entry>) -> bool {
        let id = participant.id.clone();
        let present = PresentParticipant { participant: Arc::new(participant), join: entry.clone() };
        self.bytes += present.bytes();
        let before = self.present.insert(id, present);
        self.bytes -= before.as_ref().map_or(0, PresentParticipant::bytes);
        before.is_some()
    }

    /// Says whether the participant was present.
    fn leave(&mut self, id: &ParticipantId, at: u64) -> bool {
        let Some(before) = self.present.remove(id) else { return false };
        self.bytes -= before.bytes();
        // Also those that are approved: they are not stored any more.
        let failure = FoldedFailure { at, cause: FailureCause::Withdrawn };
        for call in self.control.release_calls_of(|caller| caller == id) {
            self.insert(call, Some(failure));
        }
        true
    }

    fn ask(&mut self, open: OpenRequest) -> FoldEffect {
        let (at, caller) = (open.offset, open.caller.clone());
        // The participant that it asks may have left just before it.
        let failed = (!self.is_present(&open.callee)).then_some(FoldedFailure::callee_left(at));
        self.insert(open, failed);
        let mut fails = failed.is_some();
        if !caller.is_host() && self.waiting_of(&caller) > MAX_FOLDED_OF_CALLER {
            fails |= self.fail_oldest_of(&caller, at);
        }
        if self.calls.len() - self.failures.len() - self.waiting_of(&ParticipantId::host()) > Standing::MAX_CALLS {
            let callers = self.callers.iter().filter(|(id, _)| !id.is_host());
            if let Some(busiest) = callers.max_by_key(|(id, made)| (made.waiting, *id)).map(|(id, _)| id.clone()) {
                fails |= self.fail_oldest_of(&busiest, at);
            }
        }
        if fails { FoldEffect::FailsCalls } else { FoldEffect::Counts }
    }

    /// How many calls of a participant wait for an answer.
    pub fn waiting_of(&self, caller: &ParticipantId) -> usize {
        self.callers.get(caller).map_or(0, |made| made.waiting)
    }

    fn insert(&mut self, open: OpenRequest, failed: Option<FoldedFailure>) {
        let OpenRequest { request, caller, callee, id, offset: requested_at } = open;
        // An id may be used again once retention has removed the request that had it.
        self.forget(&request);
        if failed.is_none() {
            let made = self.callers.entry(caller.clone()).or_default();
            made.waiting += 1;
            made.requested_at.push_back(request.clone());
        }
        let call = FoldedCall { caller, callee, id, requested_at, failed };
        self.bytes += call.bytes(&request);
        self.calls.insert(request.clone(), call);
        if let Some(failure) = failed {
            self.remember_failure(request, failure.at, requested_at);
        }
    }

    fn forget(&mut self, request: &EnvelopeId) {
        let Some(call) = self.remove_call(request) else { return };
        match call.failed {
            Some(failure) => drop(self.failures.remove(&(failure.at, call.requested_at))),
            None => self.stop_waiting(&call.caller, request),
        }
    }

    fn remember_failure(&mut self, request: EnvelopeId, at: u64, requested_at: u64) {
        self.failures.insert((at, requested_at), request);
        if self.failures.len() > Standing::MAX_CALLS
            && let Some((_, oldest)) = self.failures.pop_first()
        {
            self.remove_call(&oldest);
        }
    }

    fn remove_call(&mut self, request: &EnvelopeId) -> Option<FoldedCall> {
        let call = self.calls.remove(request)?;
        self.bytes -= call.bytes(request);
        Some(call)
    }

    fn answer(&mut self, request: &EnvelopeId) -> FoldEffect {
        match self.end_of(request) {
            Some(end) => FoldEffect::Ignored(Ignored::Answer(end)),
            None => {
                self.forget(request);
                FoldEffect::Counts
            }
        }
    }

    /// Why an envelope would count for nothing if it came next, if it would.
    pub fn ignores(&self, envelope: &Envelope) -> Option<Ignored> {
        if let Some(request) = answered_request(envelope) {
            return self.end_of(request).map(Ignored::Answer);
        }
        if let Some(notice) = ControlNotice::of(envelope) {
            return self.is_stale(&notice).then_some(Ignored::Stale);
        }
        if matches!(envelope.message(), Some(Message::Request { .. })) {
            return self.is_released(envelope.id()).then_some(Ignored::Stale);
        }
        leaver(envelope).filter(|who| !self.is_present(who)).map(|_| Ignored::Leave)
    }

    /// Why an answer to a request would count for nothing; `None` where the call waits for it.
    pub fn end_of(&self, request: &EnvelopeId) -> Option<CallClosure> {
        match self.calls.get(request) {
            Some(call) if call.failed.is_none() => None,
            Some(_) => Some(CallClosure::Failed),
            None => Some(CallClosure::Answered),
        }
    }

    /// Counts one waiting call of a caller less.
    fn stop_waiting(&mut self, caller: &ParticipantId, request: &EnvelopeId) {
        let Some(made) = self.callers.get_mut(caller) else { return };
        made.waiting -= 1;
        if made.requested_at.front() == Some(request) {
            made.requested_at.pop_front();
        }
        if made.waiting == 0 {
            self.callers.remove(caller);
        } else if made.requested_at.len() > 2 * made.waiting + 64 {
            made.requested_at.retain(|id| self.calls.get(id).is_some_and(|call| call.failed.is_none()));
        }
    }

    fn fail_oldest_of(&mut self, caller: &ParticipantId, at: u64) -> bool {
        while let Some(oldest) = self.callers.get_mut(caller).and_then(|made| made.requested_at.pop_front()) {
            if self.fail(&oldest, FoldedFailure { at, cause: FailureCause::TooManyWaiting }) {
                return true;
            }
        }
        false
    }

    /// Fails a call, if it waits.
    fn fail(&mut self, request: &EnvelopeId, failure: FoldedFailure) -> bool {
        let Some(call) = self.calls.get_mut(request).filter(|call| call.failed.is_none()) else { return false };
        call.failed = Some(failure);
        let (caller, requested_at) = (call.caller.clone(), call.requested_at);
        self.stop_waiting(&caller, request);
        self.remember_failure(request.clone(), failure.at, requested_at);
        true
    }

    fn fail_calls_to(&mut self, callee: &ParticipantId, at: u64) -> FoldEffect {
        let waiting = self.calls.iter().filter(|(_, call)| call.failed.is_none() && call.callee == *callee);
        let waiting: Vec<_> = waiting.map(|(request, _)| request.clone()).collect();
        waiting.iter().for_each(|request| _ = self.fail(request, FoldedFailure::callee_left(at)));
        if waiting.is_empty() { FoldEffect::Counts } else { FoldEffect::FailsCalls }
    }

    /// The calls of a caller that failed after one offset and up to another, in the order they failed.
    pub fn failed_calls(&self, caller: &ParticipantId, after: u64, up_to: u64) -> Vec<FailedCall> {
        if after >= up_to {
            return Vec::new();
        }
        let failed = self.failures.range((after + 1, 0)..=(up_to, u64::MAX)).filter_map(|(_, request)| {
            let call = self.calls.get(request).filter(|call| call.caller == *caller)?;
            let (id, callee, cause) = (call.id.clone(), call.callee.clone(), call.failed?.cause);
            Some(FailedCall { request: request.clone(), id, callee, cause })
        });
        failed.collect()
    }

    /// Where the calls failed that did so after an offset, and where their requests stand.
    pub(crate) fn failures_after(&self, offset: u64) -> impl Iterator<Item = (u64, u64)> {
        self.failures.range((offset + 1, 0)..).map(|(place, _)| *place)
    }

    /// The offset before which failures are forgotten, where there were too many of them.
    pub(crate) fn forgotten_failures(&self) -> Option<u64> {
        let oldest = self.failures.first_key_value().map(|((at, _), _)| *at);
        oldest.filter(|_| self.failures.len() >= Standing::MAX_CALLS)
    }

    /// A call that waits, or has failed.
    pub fn call(&self, request: &EnvelopeId) -> Option<CallRecord<'_>> {
        let call = self.calls.get(request)?;
        Some(CallRecord { caller: &call.caller, callee: &call.callee, id: &call.id, has_failed: call.failed.is_some() })
    }

    /// Whether a waiting call of this JSON-RPC id is one that a speaker may tell `to` of: it is a party of it, or there is no such call of
    /// theirs. Nobody in `to` is everybody.
    pub fn may_concern(&self, speaker: &ParticipantId, id: &RpcId, to: &[ParticipantId]) -> bool {
        let named: Vec<&FoldedCall> =
            self.calls.values().filter(|call| call.failed.is_none() && call.id == *id).collect();
        let is_party = |call: &FoldedCall, who: &ParticipantId| call.caller == *who || call.callee == *who;
        let may = |of: &dyn Fn(&FoldedCall) -> bool| {
            let mut calls = named.iter().filter(|call| of(call)).peekable();
            calls.peek().is_none() || calls.any(|call| is_party(call, speaker))
        };
        if to.is_empty() { may(&|_| true) } else { to.iter().all(|who| may(&|call| is_party(call, who))) }
    }

    /// The requests of a participant that wait for an answer and whom they ask, the oldest first. Those from before its newest join are left
    /// out: the sessions that made them have ended.
    pub fn open_calls(&self, caller: &ParticipantId) -> Vec<(EnvelopeId, ParticipantId)> {
        let joined = self.join_of(caller).map_or(0, |join| join.position.offset);
        let made = self.callers.get(caller).into_iter().flat_map(|made| &made.requested_at);
        let open = made.filter_map(|request| Some((request, self.calls.get(request)?)));
        let open = open.filter(|(_, call)| call.failed.is_none() && call.requested_at > joined);
        open.map(|(request, call)| (request.clone(), call.callee.clone())).collect()
    }

    /// Whether requests to a participant wait for an answer.
    pub fn is_awaited(&self, callee: &ParticipantId) -> bool {
        self.calls.values().any(|call| call.callee == *callee && call.failed.is_none())
    }

    /// The offset of the oldest waiting request to a participant.
    pub fn first_requested(&self, callee: &ParticipantId) -> Option<u64> {
        let waiting = self.calls.values().filter(|call| call.callee == *callee && call.failed.is_none());
        waiting.map(|call| call.requested_at).min()
    }

    /// Whether a participant is present. The host always is.
    pub fn is_present(&self, participant: &ParticipantId) -> bool {
        participant.is_host() || self.present.contains_key(participant)
    }

    /// A participant that is present.
    pub fn participant(&self, id: &ParticipantId) -> Option<&Arc<Participant>> {
        self.present.get(id).map(|present| &present.participant)
    }

    /// The newest join of a participant that is present.
    pub fn join_of(&self, id: &ParticipantId) -> Option<&Arc<Entry>> {
        self.present.get(id).map(|present| &present.join)
    }

    /// Everybody present, by id.
    pub fn roster(&self) -> impl Iterator<Item = &Arc<Participant>> {
        self.present.values().map(|present| &present.participant)
    }

    /// How many are present.
    pub fn population(&self) -> usize {
        self.present.len()
    }

    /// The notices that the settings and the held calls follow from, the oldest first.
    pub(crate) fn control_entries(&self) -> Vec<Arc<Entry>> {
        self.control.entries()
    }

    /// Whether there are neither settings nor held calls.
    pub(crate) fn is_uncontrolled(&self) -> bool {
        self.control.is_empty()
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
    use salon_protocol::Timestamp;

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
