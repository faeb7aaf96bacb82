//! The participants as MCP servers: one [`Caller`] each, which performs the handshake in the client's name and makes its calls.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use salon_mcp::caller::{CallEnd, CallFailure, CallId, Caller, CallerProfile, CallerStep, RequestId};
use salon_mcp::handshake::HandshakeParams;
use salon_mcp::listing::ListItem;
use salon_mcp::{Era, RpcHead};
use salon_protocol::{Code, Envelope, EnvelopeId, Members, ParticipantId, Refusal, RpcError, Timestamp, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::{MachineCall, RequestStage, SILENCE_TIMEOUT, silent};
use super::message::read;
use super::speech::{MachineFailure, OutgoingMessage, ToolReply, code_of, read_result, status};
use super::{Machine, MachineTimer, Purpose, raw};
use crate::MAX_HOLD;
use crate::streams::StreamReply;

/// Somebody in the room, or somebody who left while requests to it are open.
#[derive(Debug)]
pub(super) struct MachinePeer {
    pub(super) caller: Caller,
    pub(super) is_here: bool,
    /// What it listed when that was looked up last, unless it has announced a change since.
    pub(super) tools: Option<Arc<[ListItem]>>,
    timer: Option<Instant>,
}

impl MachinePeer {
    pub(super) fn new(me: &ParticipantId, era: Era) -> Self {
        let info = raw(&json!({ "name": me.as_str(), "version": "" }));
        let profile = CallerProfile {
            // A participant that answers the handshake with an error may still answer calls.
            calls_unwilling: true,
            handshake_timeout: Some(SILENCE_TIMEOUT),
            silence_timeout: Some(SILENCE_TIMEOUT),
            ..CallerProfile::new(HandshakeParams { info: Some(info), ..HandshakeParams::default() })
        };
        Self { caller: Caller::new(profile, era), is_here: true, tools: None, timer: None }
    }

    pub(super) fn started_over(&mut self, era: Era, now: Instant) {
        (self.is_here, self.tools) = (true, None);
        self.caller.restarted(era, now);
    }
}

/// A request in the room, or on its way there.
#[derive(Debug)]
pub(super) struct SentRequest {
    to: ParticipantId,
    request: RequestId,
    /// Whether it is the handshake rather than a call.
    is_handshake: bool,
}

/// What a caller's steps follow from, and are reported to the client with.
#[derive(Debug, Clone, Copy)]
pub(super) enum StepCause<'a> {
    Answer(&'a Envelope, Timestamp),
    Refusal(&'a Refusal),
}

impl Machine {
    /// Performs what a participant's caller wants done.
    pub(super) fn perform(&mut self, who: &ParticipantId, cause: Option<StepCause<'_>>, now: Instant) {
        while let Some(step) = self.peers.get_mut(who).and_then(|peer| peer.caller.poll_step()) {
            match step {
                CallerStep::Send { request, call, method, params } => {
                    self.send(who, request, call, &method, params.as_deref(), now);
                }
                CallerStep::Initialized => {
                    self.tell(who, None, rpc::notification("notifications/initialized", None), now);
                }
                CallerStep::Withdraw { request, reason } => {
                    let found = self.sent.iter().find(|(_, sent)| sent.to == *who && sent.request == request);
                    if let Some(envelope) = found.map(|(envelope, _)| envelope.clone()) {
                        self.notify_cancelled(who, &envelope, &reason, now);
                    }
                }
                CallerStep::End(call, outcome) => self.ended(who, call, outcome, cause, now),
                // The client declares no capabilities, so its caller answers for it.
                CallerStep::Ask { .. } | CallerStep::Introduced(_) => {}
            }
        }
        self.schedule(who);
    }

    /// Has the participant's caller woken when its next deadline has come.
    pub(super) fn schedule(&mut self, who: &ParticipantId) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        let next = peer.caller.poll_timeout();
        let old = std::mem::replace(&mut peer.timer, next);
        if old == next {
            return;
        }
        if let Some(old) = old {
            self.timers.remove(&(old, MachineTimer::Caller(who.clone())));
        }
        if let Some(next) = next {
            self.timers.insert((next, MachineTimer::Caller(who.clone())));
        }
    }

    /// A deadline of a participant's caller has come.
    pub(super) fn caller_due(&mut self, who: &ParticipantId, now: Instant) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.timer = None;
            peer.caller.handle_timeout(now);
        }
        self.perform(who, None, now);
    }

    fn find_call(&mut self, who: &ParticipantId, call: CallId) -> Option<EnvelopeId> {
        let is_it = |one: &MachineCall| one.to == *who && one.state == RequestStage::Calling(call);
        self.calls.iter().find(|(_, one)| is_it(one)).map(|(id, _)| id.clone())
    }

    /// Publishes a request. The first of a call is the client's message, under its id; a later round has an id of its own.
    fn send(
        &mut self,
        who: &ParticipantId,
        request: RequestId,
        call: Option<CallId>,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        let of = call.and_then(|call| self.find_call(who, call));
        if call.is_some() && of.is_none() {
            return;
        }
        let first = of.as_ref().and_then(|id| Some((id, self.calls.get(id).filter(|call| call.sent.is_none())?)));
        let (id, at) = match first {
            Some((id, call)) => (id.as_str().to_owned(), call.at),
            None => self.stamps.next(now),
        };
        let Ok(envelope) = EnvelopeId::new(&id) else { return };
        let sent = SentRequest { to: who.clone(), request, is_handshake: call.is_none() };
        self.sent.insert(envelope.clone(), sent);
        if let Some(call) = of.and_then(|id| self.calls.get_mut(&id)) {
            call.sent = Some((request, envelope.clone()));
        }
        let payload = rpc::request(&id, method, params);
        let purpose = Purpose::Request(envelope);
        if let Err((refusal, purpose)) = self.publish((&id, at), std::slice::from_ref(who), None, payload, purpose) {
            self.undo(purpose, refusal, now);
        }
    }

    /// Somebody answered a request that was made in the client's name.
    pub(super) fn response(&mut self, envelope: &Envelope, at: Timestamp, now: Instant) {
        let Some(request) = envelope.correlation() else { return };
        let Entry::Occupied(sent) = self.sent.entry(request.clone()) else { return };
        if sent.get().to != *envelope.from() {
            return;
        }
        let SentRequest { to, request, .. } = sent.remove();
        let head = RpcHead::read(envelope.payload());
        let nothing = raw(&RpcError::internal(""));
        let outcome = match &head {
            Some(RpcHead { result: Some(result), .. }) => Ok(*result),
            Some(RpcHead { error: Some(error), .. }) => Err(*error),
            _ => Err(&*nothing),
        };
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.caller.answered(request, outcome, now);
        }
        self.perform(&to, Some(StepCause::Answer(envelope, at)), now);
    }

    /// The room did not take a request, or its participant left, or started over.
    pub(super) fn request_failed(&mut self, request: &EnvelopeId, refusal: &Refusal, now: Instant) {
        let Some(SentRequest { to, request, .. }) = self.sent.remove(request) else { return };
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.caller.lost(request, &RpcError::internal(&*refusal.message));
        }
        self.perform(&to, Some(StepCause::Refusal(refusal)), now);
    }

    /// A request waits for approval. It may do so for longer than a participant is waited for; what becomes of it the room tells.
    pub(super) fn held(&mut self, request: &EnvelopeId, now: Instant) {
        let Some(SentRequest { to, request, .. }) = self.sent.get(request) else { return };
        let (to, request) = (to.clone(), *request);
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.caller.wait_for_approval(request, now + MAX_HOLD);
        }
        self.schedule(&to);
    }

    /// A request is in the room. The time for its participant begins, which for a held one is when enough have approved it.
    pub(super) fn request_stored(&mut self, request: &EnvelopeId, now: Instant) {
        let Some(SentRequest { to, request, is_handshake: false }) = self.sent.get(request) else { return };
        let (to, request) = (to.clone(), *request);
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.caller.progressed(request, now);
        }
        self.schedule(&to);
    }

    pub(super) fn forget_handshakes_with(&mut self, who: &ParticipantId) {
        self.sent.retain(|_, sent| !(sent.is_handshake && sent.to == *who));
    }

    /// Forgets a participant that has left once no request to it is open.
    pub(super) fn forget_if_absent(&mut self, who: &ParticipantId) {
        let is_gone = self.peers.get(who).is_some_and(|peer| !peer.is_here);
        if is_gone && !self.calls.values().any(|call| call.to == *who) {
            self.peers.remove(who);
            self.timers.retain(|(_, due)| !matches!(due, MachineTimer::Caller(of) if of == who));
        }
    }

    /// A call is over: the client hears how.
    fn ended(
        &mut self,
        who: &ParticipantId,
        call: CallId,
        outcome: Result<CallEnd, CallFailure>,
        cause: Option<StepCause<'_>>,
        now: Instant,
    ) {
        let Some(id) = self.find_call(who, call) else { return };
        let unanswerable = || MachineFailure {
            code: Code::ToolError,
            message: "the tool asks its caller something, which this protocol has no way to answer".to_owned(),
            details: None,
        };
        let (answered, failure) = match (outcome, cause) {
            (Ok(CallEnd::Result(result)), _) => read_result(&result),
            (Err(CallFailure::Answered(error)), _) => (ToolReply::default(), Some(rpc_failure(&error))),
            (Err(CallFailure::TooMuchInput | CallFailure::NoInput { .. }), _) => {
                (ToolReply::default(), Some(unanswerable()))
            }
            (Err(_), Some(StepCause::Refusal(refusal))) => return self.fail(&id, refusal, now),
            (Err(_) | Ok(CallEnd::List(_)), _) => return self.fail(&id, &silent(who), now),
        };
        let Some(StepCause::Answer(envelope, at)) = cause else { return self.fail(&id, &silent(who), now) };
        let Some(call) = self.drop_call(&id) else { return };
        let kind = if failure.is_some() { "error" } else { "response" };
        let mut message =
            OutgoingMessage::new(kind, envelope.id().as_str(), at, envelope.from(), Some(&self.options.me));
        message = message.about(id.as_str()).with_metadata(answered.metadata);
        if let Some(result) = &answered.result {
            message = message.with("result", result);
        }
        if let Some(context) = &answered.context {
            message = message.with("context", context);
        }
        // An answer from the room is one, whatever it says.
        let answer_status = failure.as_ref().map_or(200, |failure| match failure.code {
            Code::ToolError => 200,
            code => status(code),
        });
        message.error = failure;
        let text = message.text();
        self.streams.answer_on(call.stream, answer_status, StreamReply::Text(text.into()));
    }
}

/// A JSON-RPC error as this protocol says it.
fn rpc_failure(error: &RawValue) -> MachineFailure {
    let unreadable = |_| RpcError::internal("the error that came cannot be read");
    let RpcError { code, message, data } = serde_json::from_str(error.get()).unwrap_or_else(unreadable);
    let mut members = data.as_deref().and_then(|data| Members::parse(data.get()));
    let word: Option<String> = members.as_ref().and_then(|data| read(data.get("code")?));
    if let (Some(code), Some(data)) = (word.as_deref().and_then(code_of), members.as_mut()) {
        data.remove("code");
        let details = data.remove("details").or_else(|| (!data.is_empty()).then(|| data.to_raw()));
        return MachineFailure { code, message, details };
    }
    let code = match code {
        RpcError::INVALID_PARAMS => Code::InvalidParameters,
        RpcError::METHOD_NOT_FOUND => Code::NotFound,
        _ => Code::ToolError,
    };
    MachineFailure { code, message, details: data }
}
