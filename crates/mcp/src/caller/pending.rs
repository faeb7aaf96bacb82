//! A call that has not ended, and its rounds of input.

use std::time::Instant;

use salon_protocol::RpcError;
use serde_json::value::RawValue;

use super::list::ListReading;
use super::{CallFailure, CallId, Caller, CallerStep, INPUT_TIMEOUT, RequestId};
use crate::Revision;
use crate::input::InputRequired;
use crate::rounds::{InputClient, InputFailure, InputRound, InputRounds};

#[derive(Debug, Clone)]
pub(super) struct PendingCall {
    pub(super) method: Box<str>,
    /// As the owner gave them.
    pub(super) params: Option<Box<RawValue>>,
    pub(super) work: Work,
    pub(super) state: CallState,
    /// What the server has asked for.
    pub(super) rounds: InputRounds,
}

impl PendingCall {
    pub(super) fn new(method: &str, params: Option<&RawValue>, work: Work) -> Self {
        let params = params.map(ToOwned::to_owned);
        Self { method: method.into(), params, work, state: CallState::Handshake, rounds: InputRounds::default() }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Work {
    Call,
    List(Box<ListReading>),
}

#[derive(Debug, Clone)]
pub(super) enum CallState {
    /// It waits for the handshake.
    Handshake,
    /// The server has it.
    Sent(RequestId),
    /// The server wants answers first.
    Input,
    /// The server wants it again a little later.
    Pausing,
}

impl Caller {
    /// The server answered that it needs input before it goes on.
    // MCP 2026-07-28, Multi Round-Trip Requests, "Basic Workflow": the client sends the original request again, with `inputResponses` and `requestState`.
    pub(super) fn input_required(&mut self, id: CallId, wanted: InputRequired, now: Instant) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let capabilities = &self.profile.client.capabilities;
        let client = InputClient { capabilities, revision: Revision::MODERN, id_prefix: "" };
        match call.rounds.begin(wanted, client) {
            Err(failure) => self.end(id, Err(failure.into())),
            Ok(InputRound::Retry) => self.next_round(id, now),
            Ok(InputRound::RetryAfter(delay)) => {
                call.state = CallState::Pausing;
                self.wait_until(id, Some(now + delay));
            }
            Ok(InputRound::Ask(questions)) => {
                call.state = CallState::Input;
                let ask = |(key, question): (String, _)| CallerStep::Ask { call: id, key: key.into(), question };
                self.steps.extend(questions.into_iter().map(ask));
                let timeout = self.profile.silence_timeout.map(|timeout| timeout.max(INPUT_TIMEOUT));
                self.wait_until(id, timeout.map(|timeout| now + timeout));
            }
        }
    }

    /// The client answered a question of the server's.
    pub fn input(&mut self, id: CallId, key: &str, answer: Result<Box<RawValue>, RpcError>, now: Instant) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        match call.rounds.answer(key, answer) {
            Ok(true) => self.next_round(id, now),
            Ok(false) => {}
            Err(failure) => self.end(id, Err(failure.into())),
        }
    }

    /// Sends a call again, with what the server wanted.
    pub(super) fn next_round(&mut self, id: CallId, now: Instant) {
        self.renew(id, now);
        self.send(id);
    }
}

impl From<InputFailure> for CallFailure {
    fn from(failure: InputFailure) -> Self {
        match failure {
            InputFailure::TooMuch => Self::TooMuchInput,
            InputFailure::NotOffered { method } => Self::NoInput { error: RpcError::method_not_found(&method), method },
            InputFailure::Refused { method, error } => Self::NoInput { method, error },
        }
    }
}
