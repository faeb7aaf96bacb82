//! A call that has not ended, and its rounds of input.

use std::collections::BTreeMap;
use std::time::Instant;

use salon_protocol::RpcError;
use serde_json::value::RawValue;

use super::list::ListReading;
use super::{CallFailure, CallId, Caller, CallerStep, INPUT_TIMEOUT, RequestId};
use crate::input::{self, InputRequired, MAX_QUESTIONS, MAX_ROUNDS};

#[derive(Debug, Clone)]
pub(super) struct PendingCall {
    pub(super) method: Box<str>,
    /// As the owner gave them.
    pub(super) params: Option<Box<RawValue>>,
    pub(super) work: Work,
    pub(super) state: CallState,
    /// How often the server has asked for input.
    pub(super) rounds: u32,
    pub(super) deadline: Option<Instant>,
}

impl PendingCall {
    pub(super) fn new(method: &str, params: Option<&RawValue>, work: Work) -> Self {
        let params = params.map(ToOwned::to_owned);
        Self { method: method.into(), params, work, state: CallState::Handshake, rounds: 0, deadline: None }
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
    /// The server wants answers first: the methods of its open questions by their keys.
    Input { open: BTreeMap<Box<str>, String>, answers: Vec<(String, Box<RawValue>)>, state: Option<Box<RawValue>> },
    /// The server wants it again a little later.
    Pausing { state: Option<Box<RawValue>> },
}

impl Caller {
    /// The server answered that it needs input before it goes on.
    // MCP 2026-07-28, Multi Round-Trip Requests, "Basic Workflow": the client sends the original request again, with `inputResponses` and `requestState`.
    pub(super) fn input_required(&mut self, id: CallId, wanted: InputRequired, now: Instant) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let InputRequired { questions, state } = wanted;
        if call.rounds >= MAX_ROUNDS || questions.len() > MAX_QUESTIONS {
            return self.end(id, Err(CallFailure::TooMuchInput));
        }
        call.rounds += 1;
        if questions.is_empty() {
            let retry_at = now + input::retry_delay(call.rounds);
            call.state = CallState::Pausing { state };
            return self.wait_until(id, Some(retry_at));
        }
        let (mut open, mut answers) = (BTreeMap::new(), Vec::new());
        for (key, question) in questions {
            if input::is_offered(&self.profile.client.capabilities, &question.method) {
                open.insert(key.as_str().into(), question.method.clone());
                self.steps.push_back(CallerStep::Ask { call: id, key: key.into(), question });
            } else if question.method == input::ELICITATION {
                // A person who cannot be asked has declined; for the rest there is no answer but the client's.
                answers.push((key, input::declined()));
            } else {
                self.steps.retain(|step| !matches!(step, CallerStep::Ask { call, .. } if *call == id));
                let error = RpcError::method_not_found(&question.method);
                return self.end(id, Err(CallFailure::NoInput { method: question.method, error }));
            }
        }
        if open.is_empty() {
            return self.next_round(id, &answers, state.as_deref(), now);
        }
        if let Some(call) = self.calls.get_mut(&id) {
            call.state = CallState::Input { open, answers, state };
        }
        let timeout = self.profile.silence_timeout.map(|timeout| timeout.max(INPUT_TIMEOUT));
        self.wait_until(id, timeout.map(|timeout| now + timeout));
    }

    /// The client answered a question of the server's.
    pub fn input(&mut self, id: CallId, key: &str, answer: Result<Box<RawValue>, RpcError>, now: Instant) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let CallState::Input { open, answers, state } = &mut call.state else { return };
        let Some(method) = open.remove(key) else { return };
        // An error has no place among the answers.
        let answer = answer.or_else(|error| input::instead_of_error(&method).ok_or(error));
        match answer {
            Err(error) => self.end(id, Err(CallFailure::NoInput { method, error })),
            Ok(answer) => {
                answers.push((key.to_owned(), answer));
                if open.is_empty() {
                    let (answers, state) = (std::mem::take(answers), state.take());
                    self.next_round(id, &answers, state.as_deref(), now);
                }
            }
        }
    }

    /// Sends a call again, with what the server wanted.
    pub(super) fn next_round(
        &mut self,
        id: CallId,
        answers: &[(String, Box<RawValue>)],
        state: Option<&RawValue>,
        now: Instant,
    ) {
        let original = self.calls.get(&id).and_then(|call| call.params.clone());
        let original = self.in_era(original.as_deref());
        let Some(params) = original.and_then(|params| input::retry(&params, answers, state)) else {
            return self.end(id, Err(CallFailure::InvalidParams));
        };
        self.renew(id, now);
        self.send_request(id, Some(params));
    }
}
