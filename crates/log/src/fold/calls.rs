//! The calls of a topic: which wait for an answer, which have failed, and why.

use std::collections::VecDeque;
use std::sync::Arc;

use salon_protocol::{Envelope, EnvelopeId, FailureCause, Message, ParticipantId, RpcId};

use super::{BYTES_BESIDE_TEXTS, Fold, FoldEffect, Ignored};
use crate::{OpenRequest, Standing};

/// How many calls of one caller may wait for an answer; of more, the oldest fails. Only a backstop: rooms refuse requests at
/// [`Fold::MAX_WAITING_OF_CALLER`]. Between the two there is room for requests that rooms of several nodes have accepted and not yet folded.
pub(super) const MAX_FOLDED_OF_CALLER: usize = 2 * Fold::MAX_WAITING_OF_CALLER;

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
    /// Why it was denied, in the approver's words. Not kept when the fold is restored from less than all entries.
    pub reason: Option<Arc<str>>,
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

/// A call that waits, or has failed.
#[derive(Debug, Clone)]
pub(super) struct FoldedCall {
    pub(super) caller: ParticipantId,
    pub(super) callee: ParticipantId,
    pub(super) id: RpcId,
    pub(super) requested_at: u64,
    pub(super) failed: Option<FoldedFailure>,
}

/// Where and why a call failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoldedFailure {
    pub(super) at: u64,
    pub(super) cause: FailureCause,
}

impl FoldedFailure {
    pub(super) fn callee_left(at: u64) -> Self {
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

#[derive(Debug, Clone, Default)]
pub(super) struct CallerLoad {
    pub(super) waiting: usize,
    /// Its requests in the order they were made, some of them ended since.
    pub(super) requested_at: VecDeque<EnvelopeId>,
}

impl FoldedCall {
    pub(super) fn bytes(&self, request: &EnvelopeId) -> usize {
        let (RpcId::Number(id) | RpcId::String(id)) = &self.id;
        // The request's id is a key here, and is in the caller's list or among the failures.
        let names = self.caller.as_str().len() + self.callee.as_str().len() + 2 * request.as_str().len();
        BYTES_BESIDE_TEXTS + names + id.len()
    }
}

impl Fold {
    /// How many calls of one participant may wait for an answer before rooms refuse another. The host is exempt: every gateway limits
    /// its own, and they all call by the same name.
    pub const MAX_WAITING_OF_CALLER: usize = 1000;

    pub(super) fn ask(&mut self, open: OpenRequest) -> FoldEffect {
        let (at, caller) = (open.offset, open.caller.clone());
        // The participant that it asks may have left just before it.
        let failed = (!self.is_present(&open.callee)).then_some(FoldedFailure::callee_left(at));
        self.insert(open, failed);
        let mut fails = failed.is_some();
        if !caller.is_host() && self.waiting_of(&caller) > MAX_FOLDED_OF_CALLER {
            fails |= self.fail_oldest_of(&caller, at);
        }
        // The host's are looked up only where they matter.
        let unfailed = self.calls.len() - self.failures.len();
        if unfailed > Standing::MAX_CALLS && unfailed - self.waiting_of(&ParticipantId::host()) > Standing::MAX_CALLS {
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

    pub(super) fn insert(&mut self, open: OpenRequest, failed: Option<FoldedFailure>) {
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

    pub(super) fn forget(&mut self, request: &EnvelopeId) {
        let Some(call) = self.remove_call(request) else { return };
        match call.failed {
            Some(failure) => drop(self.failures.remove(&(failure.at, call.requested_at))),
            None => self.stop_waiting(&call.caller, request),
        }
    }

    pub(super) fn remember_failure(&mut self, request: EnvelopeId, at: u64, requested_at: u64) {
        self.failures.insert((at, requested_at), request);
        if self.failures.len() > Standing::MAX_CALLS
            && let Some((_, oldest)) = self.failures.pop_first()
        {
            self.remove_call(&oldest);
        }
    }

    pub(super) fn remove_call(&mut self, request: &EnvelopeId) -> Option<FoldedCall> {
        let call = self.calls.remove(request)?;
        self.bytes -= call.bytes(request);
        if !self.denials.is_empty()
            && let Some(reason) = self.denials.remove(request)
        {
            self.bytes -= BYTES_BESIDE_TEXTS + reason.len();
        }
        Some(call)
    }

    pub(super) fn answer(&mut self, request: &EnvelopeId) -> FoldEffect {
        match self.end_of(request) {
            Some(end) => FoldEffect::Ignored(Ignored::Answer(end)),
            None => {
                self.forget(request);
                FoldEffect::Counts
            }
        }
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
    pub(super) fn stop_waiting(&mut self, caller: &ParticipantId, request: &EnvelopeId) {
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

    pub(super) fn fail_oldest_of(&mut self, caller: &ParticipantId, at: u64) -> bool {
        while let Some(oldest) = self.callers.get_mut(caller).and_then(|made| made.requested_at.pop_front()) {
            if self.fail(&oldest, FoldedFailure { at, cause: FailureCause::TooManyWaiting }) {
                return true;
            }
        }
        false
    }

    /// Fails a call, if it waits.
    pub(super) fn fail(&mut self, request: &EnvelopeId, failure: FoldedFailure) -> bool {
        let Some(call) = self.calls.get_mut(request).filter(|call| call.failed.is_none()) else { return false };
        call.failed = Some(failure);
        let (caller, requested_at) = (call.caller.clone(), call.requested_at);
        self.stop_waiting(&caller, request);
        self.remember_failure(request.clone(), failure.at, requested_at);
        true
    }

    pub(super) fn fail_calls_to(&mut self, callee: &ParticipantId, at: u64) -> FoldEffect {
        let waiting = self.calls.iter().filter(|(_, call)| call.failed.is_none() && call.callee == *callee);
        let waiting: Vec<_> = waiting.map(|(request, _)| request.clone()).collect();
        waiting.iter().for_each(|request| _ = self.fail(request, FoldedFailure::callee_left(at)));
        if waiting.is_empty() { FoldEffect::Counts } else { FoldEffect::FailsCalls }
    }

    /// The calls of a caller that failed after one offset and up to another, in the order they failed.
    pub fn failed_calls(&self, caller: &ParticipantId, after: u64, up_to: u64) -> Vec<FailedCall> {
        self.failed_calls_of(|of| of == caller, after, up_to)
    }

    /// The same of several callers.
    pub fn failed_calls_of(
        &self,
        is_caller: impl Fn(&ParticipantId) -> bool,
        after: u64,
        up_to: u64,
    ) -> Vec<FailedCall> {
        if after >= up_to {
            return Vec::new();
        }
        let failed = self.failures.range((after + 1, 0)..=(up_to, u64::MAX)).filter_map(|(_, request)| {
            let call = self.calls.get(request).filter(|call| is_caller(&call.caller))?;
            let (id, callee, cause) = (call.id.clone(), call.callee.clone(), call.failed?.cause);
            Some(FailedCall { request: request.clone(), id, callee, cause, reason: self.denials.get(request).cloned() })
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

    /// The offset of a request that waits for an answer.
    pub(crate) fn requested_at(&self, request: &EnvelopeId) -> Option<u64> {
        self.calls.get(request).filter(|call| call.failed.is_none()).map(|call| call.requested_at)
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
}
