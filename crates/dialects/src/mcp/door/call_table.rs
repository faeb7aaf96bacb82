//! The requests in the room that have no answer: the client's, and the door's own.
//!
//! Invariants: an envelope leads to the one call that waits for its answer, and only while it waits. A call is removed once, and its
//! deadlines go with it. A request of the door's own keeps its draft until the room has stored it, so that it can be sent again unchanged:
//! what was refused because the room was closing may have been stored all the same, and nobody is to be asked twice. A client that is away while its
//! call is paused finds what became of it when it comes back, and that does not change meanwhile.
//! Deliberately absent: handshakes, what answers mean, and how anything is written.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use salon_mcp::Era;
use salon_mcp::input::InputRequired;
use salon_mcp::rounds::{InputClient, InputFailure, InputRound};
use salon_protocol::{Draft, EnvelopeId, LogLevel, ParticipantId, Refusal};
use serde_json::value::RawValue;

use super::door_call::{CallPurpose, CallStage, ClientRequest, DoorCall, ResumedCall};
use super::outbox::RETRY_DELAY;
use super::{DoorRequest, DoorTimer};
use crate::streams::Channel;
use salon_mcp::timers::Timers;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DoorCalls {
    calls: BTreeMap<u64, DoorCall>,
    by_envelope: HashMap<EnvelopeId, u64>,
    /// [`DoorTimer::OwnRequest`], `Questions`, `Parked` and `Again` of a call, and [`DoorTimer::Refused`].
    pub(super) timers: Timers<DoorTimer>,
}

impl DoorCalls {
    /// Takes a call on, which waits to be sent. Without a deadline it lasts.
    pub(super) fn insert(&mut self, number: u64, call: DoorCall, deadline: Option<Instant>) {
        self.calls.insert(number, call);
        if let Some(deadline) = deadline {
            self.timers.set(DoorTimer::OwnRequest(number), deadline);
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&DoorCall> {
        self.calls.get(&number)
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.calls.contains_key(&number)
    }

    /// The client's request behind a call.
    pub(super) fn client(&self, number: u64) -> Option<&ClientRequest> {
        self.get(number)?.client()
    }

    pub(super) fn client_mut(&mut self, number: u64) -> Option<&mut ClientRequest> {
        match &mut self.calls.get_mut(&number)?.purpose {
            CallPurpose::Client(asked) => Some(asked),
            _ => None,
        }
    }

    /// Where messages that belong to a call are sent.
    pub(super) fn channel(&self, number: u64) -> Option<Channel> {
        self.client(number).map(|asked| asked.request.channel)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<DoorCall> {
        let call = self.calls.remove(&number)?;
        if let Some(envelope) = call.envelope() {
            self.by_envelope.remove(envelope);
        }
        let timers = [DoorTimer::OwnRequest, DoorTimer::Questions, DoorTimer::Parked, DoorTimer::Again];
        timers.into_iter().for_each(|timer| self.timers.forget(timer(number)));
        Some(call)
    }

    /// The calls that are wanted, the oldest first.
    pub(super) fn numbers(&self, is_wanted: impl Fn(&DoorCall) -> bool) -> Vec<u64> {
        self.calls.iter().filter(|(_, call)| is_wanted(call)).map(|(number, _)| *number).collect()
    }

    /// The oldest call that is wanted.
    pub(super) fn find(&self, is_wanted: impl Fn(u64, &DoorCall) -> bool) -> Option<u64> {
        self.calls.iter().find(|(number, call)| is_wanted(**number, call)).map(|(number, _)| *number)
    }

    /// The call that waits for the answer to an envelope.
    pub(super) fn of_envelope(&self, envelope: &EnvelopeId) -> Option<u64> {
        self.by_envelope.get(envelope).copied()
    }

    /// The same, where it asks that participant: envelopes' ids are seen by everybody in the room.
    pub(super) fn call_to(&self, envelope: &EnvelopeId, who: &ParticipantId) -> Option<u64> {
        self.of_envelope(envelope).filter(|number| self.get(*number).is_some_and(|call| call.to == *who))
    }

    /// Whether the room has a call, or may have it, and its answer is waited for.
    pub(super) fn is_in_room(&self, call: &DoorCall) -> bool {
        call.envelope().is_some_and(|envelope| self.by_envelope.contains_key(envelope))
    }

    /// The call of the client's that a message of a participant belongs to: the one that it names, else the oldest that is open.
    pub(super) fn cause(&self, named: Option<u64>, from: &ParticipantId) -> Option<&DoorCall> {
        let is_open =
            |call: &&DoorCall| call.to == *from && call.client().is_some_and(|asked| !asked.pause.is_parked());
        match named {
            Some(number) => self.get(number).filter(is_open),
            None => self.calls.values().find(is_open),
        }
    }

    /// How many requests of the client's are open.
    pub(super) fn client_count(&self) -> usize {
        self.calls.values().filter(|call| call.is_client()).count()
    }

    /// The most talkative level of log lines that open requests of the client's want of a participant.
    pub(super) fn finest_level(&self, who: &ParticipantId) -> Option<LogLevel> {
        let open = self.calls.values().filter(|call| call.to == *who && call.is_client());
        open.filter_map(|call| call.profile.level).min()
    }

    /// The subscription that a request of the door's own is part of.
    pub(super) fn listen_of(&self, number: u64) -> Option<u64> {
        match self.get(number)?.purpose {
            CallPurpose::Listen(listen) => Some(listen),
            _ => None,
        }
    }

    /// Parameters to send a call with, those of its newest round; its own are kept where it may have to be sent again.
    pub(super) fn params(&mut self, number: u64, is_kept: bool) -> Option<Box<RawValue>> {
        let call = self.calls.get_mut(&number)?;
        let own = if is_kept { call.params.clone() } else { call.params.take() };
        match call.client() {
            Some(asked) => asked.rounds.params(own),
            None => own,
        }
    }

    /// A call is a wait that the gateway sees to. What it would be sent with is kept.
    pub(super) fn at_gateway(&mut self, number: u64, era: Era) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.state = CallStage::AtGateway(era);
        }
    }

    /// A call is being sent, in an era.
    pub(super) fn sent(&mut self, number: u64, draft: &Draft, era: Era) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let envelope = draft.envelope().id().clone();
        call.state = CallStage::Sent(envelope.clone(), era);
        call.draft = (!call.is_client()).then(|| Box::new(draft.clone()));
        self.by_envelope.insert(envelope, number);
    }

    /// The room has stored an envelope.
    pub(super) fn stored(&mut self, envelope: &EnvelopeId) {
        if let Some(call) = self.of_envelope(envelope).and_then(|number| self.calls.get_mut(&number)) {
            call.draft = None;
        }
    }

    /// Keeps a request of the door's own that the room refused for now; false where it is not one that can be sent again.
    pub(super) fn refused(&mut self, number: u64, refusal: &Refusal) -> bool {
        match self.calls.get_mut(&number) {
            Some(DoorCall { state, draft: Some(_), .. }) => match state {
                CallStage::Sent(envelope, era) => {
                    *state = CallStage::Refused(envelope.clone(), *era, refusal.clone());
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether there are requests that the room has refused for now.
    pub(super) fn has_refused(&self) -> bool {
        self.calls.values().any(|call| call.refusal().is_some())
    }

    /// Tries requests that the room has refused again after a while.
    pub(super) fn retry_later(&mut self, now: Instant) {
        if !self.timers.has(DoorTimer::Refused) {
            self.timers.set(DoorTimer::Refused, now + RETRY_DELAY);
        }
    }

    /// The draft of a request that the room has refused, to be sent again in its era.
    pub(super) fn take_refused(&mut self, number: u64) -> Option<(Box<Draft>, Era)> {
        let call = self.calls.get_mut(&number)?;
        let CallStage::Refused(_, era, _) = call.state else { return None };
        Some((call.draft.take()?, era))
    }

    /// A call waits to be sent again: an answer to what was sent is none to it.
    pub(super) fn unsend(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if let Some(envelope) = std::mem::replace(&mut call.state, CallStage::Waiting).envelope() {
            self.by_envelope.remove(envelope);
        }
    }

    /// The same, at a moment.
    pub(super) fn send_again_at(&mut self, number: u64, at: Instant) {
        self.timers.set(DoorTimer::Again(number), at);
    }

    /// A participant reported progress, so it is given its time again.
    pub(super) fn renew(&mut self, number: u64, deadline: Instant) {
        if self.timers.has(DoorTimer::OwnRequest(number)) {
            self.timers.set(DoorTimer::OwnRequest(number), deadline);
        }
    }

    /// A call whose deadline has passed is given another one.
    pub(super) fn extend(&mut self, number: u64, deadline: Instant) {
        self.timers.set(DoorTimer::OwnRequest(number), deadline);
    }

    /// The participant wants input before it goes on. The call waits to be sent again, unless that is a failure.
    pub(super) fn begin_round(
        &mut self,
        number: u64,
        wanted: InputRequired,
        client: InputClient<'_>,
    ) -> Option<Result<InputRound, InputFailure>> {
        let round = self.client_mut(number)?.rounds.begin(wanted, client);
        if round.is_ok() {
            self.unsend(number);
        }
        Some(round)
    }

    /// A question has come for a call of a modern client: it is asked at that moment what has come until then.
    pub(super) fn gather_questions(&mut self, number: u64, at: Instant) {
        let is_parked = self.client(number).is_none_or(|asked| asked.pause.is_parked());
        if !is_parked && !self.timers.has(DoorTimer::Questions(number)) {
            self.timers.set(DoorTimer::Questions(number), at);
        }
    }

    /// A modern client's request is answered with questions: the client has its call again by this state.
    pub(super) fn park(&mut self, number: u64, state: &str, until: Instant) -> Option<&DoorRequest> {
        self.client(number)?;
        self.timers.forget(DoorTimer::Questions(number));
        self.timers.set(DoorTimer::Parked(number), until);
        let asked = self.client_mut(number)?;
        asked.pause.state = Some(state.into());
        Some(&asked.request)
    }

    /// The call that a client has again by a state.
    pub(super) fn parked(&self, state: &str, method: &str) -> Option<u64> {
        let is_it = |asked: &ClientRequest| asked.pause.state.as_deref() == Some(state);
        self.find(|_, call| call.client().is_some_and(is_it) && *call.method == *method)
    }

    /// The client is back, with another request for its call.
    pub(super) fn resume(
        &mut self,
        number: u64,
        request: DoorRequest,
        token: Option<Box<RawValue>>,
    ) -> Option<ResumedCall> {
        self.timers.forget(DoorTimer::Parked(number));
        let asked = self.client_mut(number)?;
        asked.pause.state = None;
        asked.request = request;
        asked.token = token;
        let (outcome, anew) = (asked.pause.outcome.take(), std::mem::take(&mut asked.pause.is_repeated));
        Some(match outcome {
            Some(outcome) => ResumedCall::Ended(outcome),
            None if anew => ResumedCall::Repeated,
            None => ResumedCall::UnderWay,
        })
    }

    /// Keeps what became of a call while its client is away; whether it is.
    pub(super) fn park_outcome(&mut self, number: u64, outcome: impl FnOnce() -> Box<RawValue>) -> bool {
        let Some(asked) = self.client_mut(number).filter(|asked| asked.pause.is_parked()) else { return false };
        // What it has come to is not changed by what happens to the participant afterwards.
        if asked.pause.is_under_way() {
            asked.pause.outcome = Some(outcome());
            self.forget_answer(number);
        }
        true
    }

    /// The participant wants a call made again once its client has done something. Whether the client is here to be asked that.
    pub(super) fn resend_call(&mut self, number: u64) -> bool {
        self.timers.forget(DoorTimer::Questions(number));
        self.forget_answer(number);
        let Some(asked) = self.client_mut(number) else { return false };
        asked.pause.is_repeated = true;
        !asked.pause.is_parked()
    }

    /// Nothing is an answer to a call any more.
    fn forget_answer(&mut self, number: u64) {
        if let Some(CallStage::Sent(envelope, _)) = self.calls.get(&number).map(|call| &call.state) {
            self.by_envelope.remove(envelope);
        }
    }
}
