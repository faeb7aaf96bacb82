//! The modern era's own ways: discovery, and asking back by `input_required` where a participant asks by requests.
//!
//! A participant of the legacy era asks while its call is open. A modern client can only be asked by an answer, so its request is answered
//! with the questions while the call stays open; the client makes the request again with its answers, and is given the call back.

use std::time::{Duration, Instant};

use salon_mcp::{Era, Revision, upgrade};
use salon_protocol::{Members, RpcError};
use serde_json::value::{RawValue, to_raw_value};

use super::asks::ELICITATION;
use super::door_call::{CallPurpose, DoorCall, ResumedCall};
use super::incoming::{text_of, token_of};
use super::{Door, DoorRequest, DoorScope, askers};

/// How long questions of one call are gathered.
const QUESTION_DELAY: Duration = Duration::from_millis(30);
/// How long a client may think about its answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

impl Door {
    pub(super) fn discover(&mut self, request: DoorRequest, now: Instant) {
        let who = match &self.options.scope {
            DoorScope::Room => {
                let result = self.discovery();
                return self.streams.answer_request(&request, &Ok(result));
            }
            DoorScope::One(who) => who.clone(),
        };
        match self.peers.era(&who, Era::Modern) {
            Some(Era::Modern) => self.pass_on(request, &who, None, now),
            Some(Era::Legacy) | None => self.introduce_one(request, &who, now),
        }
    }

    /// The room, as it introduces itself to a client of the modern era.
    fn discovery(&self) -> Box<RawValue> {
        let mut result = Members::default();
        result.set("resultType", "complete");
        result.set("supportedVersions", &Revision::all_dates());
        result.set("capabilities", &self.capabilities());
        result.set("instructions", &self.instructions());
        upgrade::result("server/discover", &result.to_raw(), Some(&self.server_info()))
    }

    /// A question has come for a call of a modern client; others may follow at once.
    pub(super) fn question_arrived(&mut self, number: u64, now: Instant) {
        self.calls.gather_questions(number, now + QUESTION_DELAY);
    }

    /// Answers a modern client's request with what it is asked.
    pub(super) fn put_questions(&mut self, number: u64, now: Instant) {
        let questions = self.questions.for_modern_client(number);
        if !questions.is_empty() {
            let mut wanted = Members::default();
            for (key, question) in questions {
                wanted.set(&key, &question);
            }
            self.park(number, &wanted, now);
        }
    }

    fn park(&mut self, number: u64, wanted: &Members, now: Instant) {
        let turn = self.fresh();
        let state = format!("{}{turn}", self.state_prefix());
        let Some(request) = self.calls.park(number, &state, now + ANSWER_TIMEOUT) else { return };
        let (channel, id) = (request.channel, request.id.clone());
        let mut result = Members::default();
        result.set("resultType", "input_required");
        result.set("inputRequests", wanted);
        result.set("requestState", &state);
        self.streams.answer(channel, 200, &salon_protocol::rpc::response(&id, &result.to_raw()));
    }

    /// The call whose state a request gives back; an error for a state of ours that is no longer known.
    pub(super) fn resumed(&self, request: &DoorRequest) -> Option<Result<u64, RpcError>> {
        let prefix = self.state_prefix();
        let state = text_of(request.params.as_deref(), "requestState").filter(|state| state.starts_with(&prefix))?;
        Some(self.calls.parked(&state, &request.method).ok_or_else(lost))
    }

    /// What begins the states that are given out here, so that a participant's own are distinguished: it may be another gateway.
    fn state_prefix(&self) -> String {
        let salt: String = self.options.salt.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("salon.{salt}.")
    }

    /// Goes on with a call whose client has come back with answers.
    pub(super) fn resume(&mut self, number: u64, mut request: DoorRequest, now: Instant) {
        let params = request.params.take();
        let token = token_of(params.as_deref());
        let answers = params.as_deref().and_then(|params| Members::parse(params.get()));
        let answers = answers.and_then(|mut params| params.remove("inputResponses"));
        let answers = answers.and_then(|answers| Members::parse(answers.get())).unwrap_or_default();
        let Some(resumed) = self.calls.resume(number, request, token) else { return };
        for (key, answer) in answers.iter() {
            self.question_answered(number, key, answer, now);
        }
        match resumed {
            ResumedCall::Ended(outcome) => {
                self.drop_asks_of(number, now);
                let call = self.drop_call(number);
                if let Some(DoorCall { purpose: CallPurpose::Client(asked), to, .. }) = call {
                    let mut message = Members::parse(outcome.get()).unwrap_or_default();
                    self.adapt(&asked, &to, &mut message);
                    self.pass_back(&asked.request, message);
                }
            }
            ResumedCall::Repeated => {
                self.calls.unsend(number);
                self.dispatch(number, now);
            }
            // Some were not answered: they are put again.
            ResumedCall::UnderWay if !self.questions.for_modern_client(number).is_empty() => {
                self.question_arrived(number, now);
            }
            ResumedCall::UnderWay => {}
        }
    }

    /// A client did not come back.
    pub(super) fn not_resumed(&mut self, number: u64, now: Instant) {
        if self.calls.client(number).is_some_and(|asked| !asked.pause.is_under_way()) {
            self.drop_asks_of(number, now);
            self.drop_call(number);
            return;
        }
        let reason = to_raw_value("the client did not come back with answers").ok();
        self.cancel(number, reason.as_deref(), now);
    }

    /// A participant wants somebody to open pages in a browser, and then to be asked again.
    pub(super) fn elicit_by_url(&mut self, number: u64, wanted: &[Box<RawValue>], now: Instant) {
        self.drop_asks_of(number, now);
        let Some(who) = self.calls.get(number).map(|call| call.to.clone()) else { return };
        let mut questions = Members::default();
        for (at, params) in wanted.iter().enumerate() {
            let mut question = Members::default();
            question.set("method", ELICITATION);
            question.set("params", &askers::with_asker(ELICITATION, Some(params), &who));
            questions.set(&format!("req_{}", at + 1), &question);
        }
        // A client that is away hears of them when it is back and the call is made again.
        if self.calls.resend_call(number) {
            self.park(number, &questions, now);
        }
    }
}

/// Whether a request gives back a state, which a participant of the legacy era never gave it.
pub(super) fn has_state(request: &DoorRequest) -> bool {
    text_of(request.params.as_deref(), "requestState").is_some()
}

/// What to say of a state that is not known, or not any more.
pub(super) fn lost() -> RpcError {
    RpcError::invalid_params(
        "`requestState` names no request that waits for answers here: it was answered before, took too long, or the gateway was restarted",
    )
}
