//! How settings and decisions end calls: those that are held, and those of callers that are stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use salon_control::{ControlNotice, SettingsSubject, TopicSettings};
use salon_protocol::{Entry, Envelope, EnvelopeId, FailureCause, Message, ParticipantId};

use super::calls::FoldedFailure;
use super::control::{ControlEffect, HeldCall};
use super::{Fold, FoldEffect, Ignored};
use crate::OpenRequest;

impl Fold {
    /// Takes a notification: the gateway's notices, and cancellations of calls that are held.
    pub(super) fn note(&mut self, entry: &Arc<Entry>) -> FoldEffect {
        let at = entry.position.offset;
        let mut denial: Option<Arc<str>> = None;
        let effect = match ControlNotice::of(&entry.envelope) {
            Some(notice) if self.is_stale(&notice) => ControlEffect::Stale,
            Some(notice) => {
                if let ControlNotice::Decided(decided) = &notice {
                    denial = decided.reason.as_deref().map(Arc::from);
                }
                self.control.apply(entry, notice)
            }
            None if self.control.holds().is_empty() => ControlEffect::Counts,
            None => self.withdraw(&entry.envelope),
        };
        match effect {
            ControlEffect::Counts => FoldEffect::Counts,
            ControlEffect::Stale => FoldEffect::Ignored(Ignored::Stale),
            ControlEffect::Settings { by, before } => {
                self.end_vacancy();
                self.stop_calls(at, &by, before.as_deref())
            }
            ControlEffect::Fails(call, cause) => {
                let request = call.request.clone();
                self.insert(call, Some(FoldedFailure { at, cause }));
                if let Some(reason) = denial {
                    self.bytes += super::BYTES_BESIDE_TEXTS + reason.len();
                    self.denials.insert(request, reason);
                }
                FoldEffect::FailsCalls
            }
        }
    }

    /// Ends the calls of callers that may do nothing any more by new settings; not those of the participant that changed them, whose call
    /// this is.
    fn stop_calls(&mut self, at: u64, by: &ParticipantId, before: Option<&TopicSettings>) -> FoldEffect {
        let Some(settings) = self.control.settings().cloned() else { return FoldEffect::Counts };
        let is_stopped = |caller: &ParticipantId| {
            let is_exempt = caller.is_host() || caller == by;
            // A ghost is stopped with its bridge, which the join says that made it present.
            let via = self.present.get(caller).and_then(|present| present.participant.via.as_ref());
            !is_exempt && settings.ends_calls_of(SettingsSubject { id: caller, via }, before)
        };
        let held = self.control.release_calls_of(is_stopped);
        let waiting = self.calls.iter().filter(|(_, call)| call.failed.is_none() && is_stopped(&call.caller));
        let waiting: Vec<_> = waiting.map(|(request, _)| request.clone()).collect();
        let failure = FoldedFailure { at, cause: FailureCause::Stopped };
        let fails = !(held.is_empty() && waiting.is_empty());
        held.into_iter().for_each(|call| self.insert(call, Some(failure)));
        waiting.iter().for_each(|request| _ = self.fail(request, failure));
        if fails { FoldEffect::FailsCalls } else { FoldEffect::Counts }
    }

    /// A held call that its caller cancels is held no longer.
    fn withdraw(&mut self, envelope: &Envelope) -> ControlEffect {
        let is_cancellation = matches!(envelope.message(), Some(Message::Notification { method }) if &**method == "notifications/cancelled");
        let id = envelope.concerned_call().filter(|_| is_cancellation);
        let held = id.and_then(|id| self.control.cancelled_by(envelope, &id).cloned());
        match held.and_then(|held| self.control.release(&held)) {
            Some(call) => ControlEffect::Fails(call, FailureCause::Withdrawn),
            None => ControlEffect::Counts,
        }
    }

    /// Whether a request was held for approval, and is held no longer without having been stored: it is not stored any more.
    pub(super) fn is_released(&self, request: &EnvelopeId) -> bool {
        let failure = self.calls.get(request).and_then(|call| call.failed);
        failure.is_some_and(|failure| match failure.cause {
            FailureCause::Denied | FailureCause::Expired | FailureCause::Withdrawn | FailureCause::Stopped => true,
            FailureCause::CalleeLeft | FailureCause::TooManyWaiting => false,
        })
    }

    /// Whether a notice would count for nothing. A caller that has left gets no answer, so nothing is held for it.
    pub(super) fn is_stale(&self, notice: &ControlNotice) -> bool {
        let is_orphan = matches!(notice, ControlNotice::Requested(held) if !self.is_present(&held.caller) || self.is_released(&held.id));
        is_orphan || self.control.is_stale(notice)
    }

    /// The settings of the topic, where it has some.
    pub fn settings(&self) -> Option<&Arc<TopicSettings>> {
        self.control.settings()
    }

    /// The calls that are held for approval, by the ids of their envelopes.
    pub fn held_calls(&self) -> &BTreeMap<EnvelopeId, HeldCall> {
        self.control.holds()
    }

    /// Why a call that was held has ended without being stored, where it has and this is known.
    pub fn released(&self, request: &EnvelopeId) -> Option<FailureCause> {
        let call = self.calls.get(request).filter(|_| self.is_released(request))?;
        call.failed.map(|failure| failure.cause)
    }

    /// Why a call was denied, in the approver's words, where it gave a reason and this is known.
    pub fn denial(&self, request: &EnvelopeId) -> Option<&Arc<str>> {
        self.denials.get(request)
    }

    /// The calls that ended after an offset because their callers were stopped.
    pub fn stopped_calls(&self, after: u64) -> Vec<OpenRequest> {
        let failed = self.failures.range((after + 1, 0)..).filter_map(|(_, request)| {
            let call = self.calls.get(request)?;
            let is_stopped = call.failed.is_some_and(|failure| failure.cause == FailureCause::Stopped);
            is_stopped.then(|| OpenRequest {
                request: request.clone(),
                caller: call.caller.clone(),
                callee: call.callee.clone(),
                id: call.id.clone(),
                offset: call.requested_at,
            })
        });
        failed.collect()
    }

    /// Whether a participant waits for the answer of another.
    pub fn is_called_by(&self, callee: &ParticipantId, caller: &ParticipantId) -> bool {
        let made = self.callers.get(caller).into_iter().flat_map(|made| &made.requested_at);
        made.filter_map(|request| self.calls.get(request)).any(|call| call.failed.is_none() && call.callee == *callee)
    }

    /// The offset of the newest settings.
    pub fn settings_at(&self) -> Option<u64> {
        self.control.settings_at()
    }
}
