//! From the others to the client: what they ask of it, and its answers.
//!
//! A participant may ask its caller: for a model's answer, a person's, or where its roots are. A client of the legacy
//! era hears a request, on the stream of the call that caused it where that is known; one of the modern era is asked by an answer ([`super::modern`]).

use std::time::Instant;

use salon_mcp::input::{self, InputRequired, LegacyQuestion, Question, ROOTS, SAMPLING};
pub(super) use salon_mcp::input::{ELICITATION, is_offered as offers};
use salon_mcp::rounds::{InputClient, InputFailure, InputRound};
use salon_mcp::{Era, Revision, RpcHead, meta, read_error, upgrade};
use salon_protocol::{Code, Envelope, McpVersion, Members, ParticipantId, RpcError, RpcId, rpc};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::calls::CALL_TIMEOUT;
use super::door_call::DoorCall;
use super::incoming::{text_of, token_of};
use super::outbox::Voice;
use super::questions::{ClientQuestion, QuestionOrigin, too_many};
use super::{Door, askers};
use crate::streams::Channel;

impl Door {
    /// A participant sends the client a request.
    pub(super) fn asked(&mut self, envelope: &Envelope, id: &RpcId, method: &str, now: Instant) {
        let params = envelope.params().and_then(|params| RawValue::from_string(params.to_owned()).ok());
        let outcome = match method {
            "initialize" => Ok(self.answer_handshake(params.as_deref())),
            "server/discover" => Ok(self.be_discovered()),
            "ping" => Ok(super::empty()),
            SAMPLING | ELICITATION | ROOTS => match self.question(envelope, id, method, params, now) {
                None => return,
                Some(outcome) => outcome,
            },
            other => Err(RpcError::method_not_found(other)),
        };
        self.outbox.reply(envelope.from(), envelope.id(), id, &outcome, now);
    }

    /// The client is a server too, with nothing to offer unless it is asked back.
    fn answer_handshake(&self, params: Option<&RawValue>) -> Box<RawValue> {
        let asked = text_of(params, "protocolVersion").unwrap_or_default();
        let info = self.client.info().unwrap_or_else(|| self.info());
        let mut result = Members::default();
        result.set("protocolVersion", McpVersion::answer_to(&asked));
        result.set("capabilities", &json!({}));
        result.set("serverInfo", &info);
        result.to_raw()
    }

    /// The same without a handshake (MCP 2026-07-28, "Discovery").
    fn be_discovered(&self) -> Box<RawValue> {
        let mut result = Members::default();
        result.set("supportedVersions", &Revision::all_dates());
        result.set("capabilities", &json!({}));
        let info = self.client.info().unwrap_or_else(|| self.info());
        upgrade::result("server/discover", &result.to_raw(), Some(&info))
    }

    /// Puts a question to the client. `None` while it thinks, or when another session of the client's is meant.
    fn question(
        &mut self,
        envelope: &Envelope,
        id: &RpcId,
        method: &str,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Option<Result<Box<RawValue>, RpcError>> {
        let from = envelope.from();
        if self.is_for_another_session(envelope) {
            return None;
        }
        let is_of = |call: &DoorCall| call.to == *from && call.is_client() && askers::is_call(&call.method);
        let named = envelope.correlation().and_then(|correlation| self.calls.of_envelope(correlation));
        let call = match named {
            // A participant can name a call of another: ids are seen by everybody in the room.
            Some(number) => self.calls.get(number).filter(|call| is_of(call)).map(|_| number),
            // Of a call that is over, it may still be about something else that is going on.
            None => self.calls.find(|_, call| is_of(call)),
        };
        let refused = |told: String| Some(Err(RpcError::new(RpcError::METHOD_NOT_FOUND, told)));
        let may_ask = self.peers.may_ask(from, method);
        let profile = match call.and_then(|number| self.calls.get(number)) {
            Some(call) => Some(call.profile.clone()),
            None => self.client.introduced().filter(|_| may_ask),
        };
        let Some(profile) = profile else {
            return refused(format!("`{}` can be asked only by participants that it calls", self.options.me));
        };
        let method_of_call = call.and_then(|number| self.calls.get(number)).map(|call| call.method.clone());
        if profile.era() == Era::Modern && !method_of_call.as_deref().is_some_and(may_ask_back) {
            return refused(format!(
                "a client of this revision cannot be asked during `{}`",
                method_of_call.unwrap_or_default()
            ));
        }
        if !offers(&profile.capabilities, method) {
            return refused(format!("the client of `{}` does not offer `{method}`", self.options.me));
        }
        if !self.questions.has_room_for(from) {
            return Some(Err(too_many()));
        }
        let params = match profile.era() {
            // What it cannot be asked in its revision is answered for it.
            Era::Legacy if profile.revision < Revision::R2025_11_25 => {
                match input::put(&Question { method: method.into(), params }, profile.revision, String::new) {
                    LegacyQuestion::Ask(params) => params,
                    LegacyQuestion::Answer(answer) => return Some(Ok(answer)),
                }
            }
            Era::Legacy => params,
            Era::Modern => params.map(|params| without_elicitation_id(&params)),
        };
        let params = Some(askers::with_asker(method, params.as_deref(), from));
        let token = token_of(params.as_deref());
        let origin = QuestionOrigin::Request {
            from: from.clone(),
            envelope: envelope.id().clone(),
            id: id.clone(),
            params: params.clone().filter(|_| profile.era() == Era::Modern),
        };
        let number = self.fresh();
        let names_no_call = envelope.correlation().is_none();
        self.questions.insert(number, ClientQuestion { method: method.into(), origin, call, names_no_call, token });
        match (profile.era(), call) {
            (Era::Modern, Some(call)) => self.question_arrived(call, now),
            _ => self.put(number, method, params.as_deref(), now),
        }
        if call.is_none() {
            self.questions.expire_at(number, now + CALL_TIMEOUT);
        }
        None
    }

    /// Whether a question that does not name this session is for another one of the participant's. That one answers it, or refuses it.
    fn is_for_another_session(&self, envelope: &Envelope) -> bool {
        match envelope.correlation() {
            _ if envelope.to_session().is_some() => false,
            Some(call) if self.outbox.made(call) => false,
            Some(call) if self.sessions.is_open_elsewhere(call) => true,
            _ => !self.sessions.is_ours(envelope.from()),
        }
    }

    /// A question that ends with no call has been open for long enough.
    pub(super) fn ask_due(&mut self, number: u64, now: Instant) {
        if let Some((from, envelope, id)) = self.drop_ask(number).and_then(ClientQuestion::asker) {
            let error = RpcError::internal("the client did not answer in time");
            self.outbox.reply(&from, &envelope, &id, &Err(error.with_data(&json!({ "code": Code::Timeout }))), now);
        }
    }

    /// The client has gone: every open question is refused.
    pub(super) fn refuse_asks(&mut self, now: Instant) {
        for number in self.questions.all() {
            if let Some((from, envelope, id)) = self.questions.take(number).and_then(ClientQuestion::asker) {
                self.outbox.reply(&from, &envelope, &id, &Err(gone()), now);
            }
        }
    }

    /// Asks a client of the legacy era.
    fn put(&mut self, number: u64, method: &str, params: Option<&RawValue>, now: Instant) {
        let Some(ask) = self.questions.get(number) else { return };
        let ours = params.filter(|_| ask.token.is_some()).and_then(|params| meta::with_progress_token(params, &number));
        let message = rpc::request(number, method, ours.as_deref().or(params));
        let channel = ask.call.and_then(|call| self.calls.channel(call)).unwrap_or(Channel::SESSION);
        if self.streams.deliver(channel, &message) {
            return;
        }
        let nobody = gone();
        match self.questions.take(number) {
            Some(ClientQuestion { origin: QuestionOrigin::Request { from, envelope, id, .. }, .. }) => {
                self.outbox.reply(&from, &envelope, &id, &Err(nobody), now);
            }
            Some(ClientQuestion { call: Some(call), .. }) => self.fail(call, &nobody, now),
            _ => {}
        }
    }

    /// Where a question was put, unless it is one for an answer of the modern era.
    fn channel_of_ask(&self, ask: &ClientQuestion) -> Option<Channel> {
        match ask.call.and_then(|number| self.calls.get(number)) {
            Some(call) if call.profile.era() == Era::Modern => None,
            _ => Some(ask.call.and_then(|call| self.calls.channel(call)).unwrap_or(Channel::SESSION)),
        }
    }

    /// A client of the legacy era answered.
    pub(super) fn client_answered(&mut self, id: &RawValue, head: &RpcHead<'_>, now: Instant) {
        let Some(number) = id.get().parse::<u64>().ok() else { return };
        let Some(ask) = self.questions.take(number) else { return };
        let outcome = match (head.result, head.error) {
            (Some(result), _) => Ok(result.to_owned()),
            (None, Some(error)) => Err(error.to_owned()),
            (None, None) => Ok(super::empty()),
        };
        match (ask.origin, ask.call) {
            (QuestionOrigin::Request { from, envelope, id, .. }, _) => {
                let mut message = Members::default();
                message.set("jsonrpc", "2.0");
                message.set("id", &id.to_raw());
                match &outcome {
                    Ok(result) => message.set("result", result),
                    Err(error) => message.set("error", error),
                }
                self.outbox.answer(&from, &envelope, &id, message.to_raw(), Voice::Client, now);
            }
            (QuestionOrigin::Input { key }, Some(call)) => {
                self.input_arrived(call, &key, outcome.map_err(|error| read_error(Some(&error))), now);
            }
            (QuestionOrigin::Input { .. }, None) => {}
        }
    }

    /// A modern client answered a question. A key that names none is ignored.
    pub(super) fn question_answered(&mut self, call: u64, key: &str, answer: &RawValue, now: Instant) {
        if let Some((from, envelope, id)) = self.questions.take_keyed(call, key).and_then(ClientQuestion::asker) {
            let message = rpc::response(&id.to_raw(), answer);
            self.outbox.answer(&from, &envelope, &id, message, Voice::Client, now);
        }
    }

    /// A call was answered. A question that came with it may be about something else, and stays where the client can still answer it.
    pub(super) fn release_asks_of(&mut self, call: u64, now: Instant) {
        let Some(over) = self.calls.get(call) else { return };
        let (who, era) = (over.to.clone(), over.profile.era());
        // What a modern participant wants to know for this very call, nobody else does.
        for number in self.questions.inputs_of(call) {
            self.drop_ask(number);
        }
        // A modern client that has been asked answers when it comes back for the result.
        if era == Era::Modern && self.calls.client(call).is_some_and(|asked| asked.pause.is_parked()) {
            return;
        }
        // A modern client is asked by the answer to another of its calls: whose question it was, the asker only guessed.
        let is_heir = |number: u64, other: &DoorCall| {
            let is_open = other.client().is_some_and(|asked| asked.pause.is_under_way());
            let is_call = is_open && (other.profile.era() == Era::Legacy || may_ask_back(&other.method));
            number != call && is_call && other.to == who && other.profile.era() == era
        };
        let heir = self.calls.find(is_heir);
        let heir = heir.filter(|_| era == Era::Modern);
        if era == Era::Modern && heir.is_none() {
            self.drop_asks(self.questions.about_call(call), now);
            // What else it is asked, it is asked now: the result waits until it comes back.
            return self.put_questions(call, now);
        }
        let has_questions = self.questions.hand_over(call, heir, now + CALL_TIMEOUT);
        if let Some(heir) = heir.filter(|_| has_questions) {
            self.question_arrived(heir, now);
        }
    }

    /// A call has failed, and its questions with it: they are withdrawn from the client, and their askers get an error.
    pub(super) fn drop_asks_of(&mut self, call: u64, now: Instant) {
        self.drop_asks(self.questions.of_call(call), now);
    }

    fn drop_asks(&mut self, numbers: Vec<u64>, now: Instant) {
        for number in numbers {
            if let Some((from, envelope, id)) = self.drop_ask(number).and_then(ClientQuestion::asker) {
                let error = RpcError::internal("the call that this was asked with is over");
                self.outbox.reply(&from, &envelope, &id, &Err(error), now);
            }
        }
    }

    /// A participant that has left is not answered any more.
    pub(super) fn drop_asks_from(&mut self, who: &ParticipantId) {
        for number in self.questions.of_asker(who) {
            self.drop_ask(number);
        }
    }

    /// Takes a question back from the client, if it has been asked.
    fn drop_ask(&mut self, number: u64) -> Option<ClientQuestion> {
        let ask = self.questions.take(number)?;
        if let Some(channel) = self.channel_of_ask(&ask) {
            let mut params = Members::default();
            params.set("requestId", &number);
            self.streams.say(channel, &rpc::notification("notifications/cancelled", Some(&params.to_raw())));
        }
        Some(ask)
    }

    /// An asker takes its question back.
    pub(super) fn ask_withdrawn(&mut self, from: &ParticipantId, params: Option<&RawValue>) {
        let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
        let Some(named) = params.remove("requestId").and_then(|id| RpcId::parse(id.get())) else { return };
        let Some(number) = self.questions.of_request(from, &named) else { return };
        let Some(ask) = self.questions.take(number) else { return };
        if let Some(channel) = self.channel_of_ask(&ask) {
            params.set("requestId", &number);
            self.streams.say(channel, &rpc::notification("notifications/cancelled", Some(&params.to_raw())));
        }
    }

    /// The client tells how far it has got with a question.
    pub(super) fn client_progressed(&mut self, params: Option<&RawValue>, now: Instant) {
        let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
        let number = params.get("progressToken").and_then(|token| token.get().parse::<u64>().ok());
        let Some(ask) = number.and_then(|number| self.questions.get(number)) else { return };
        if let (QuestionOrigin::Request { from, envelope, .. }, Some(token)) = (&ask.origin, &ask.token) {
            let (from, envelope) = (from.clone(), envelope.clone());
            params.set("progressToken", token);
            let progress = rpc::notification("notifications/progress", Some(&params.to_raw()));
            self.outbox.publish_once(&from, &envelope, progress, now);
        }
    }

    /// A modern participant wants answers before it goes on, of a client of the legacy era: it is asked all of it at once.
    pub(super) fn input_required(&mut self, number: u64, wanted: InputRequired, now: Instant) {
        let Some(call) = self.calls.get(number) else { return };
        let (who, profile) = (call.to.clone(), call.profile.clone());
        let id_prefix = &format!("{}-{number}", self.options.me);
        let client = InputClient { capabilities: &profile.capabilities, revision: profile.revision, id_prefix };
        match self.calls.begin_round(number, wanted, client) {
            None => {}
            Some(Err(failure)) => self.input_failed(number, failure, now),
            Some(Ok(InputRound::Retry)) => self.dispatch(number, now),
            Some(Ok(InputRound::RetryAfter(delay))) => self.calls.send_again_at(number, now + delay),
            Some(Ok(InputRound::Ask(questions))) if !self.questions.has_room(questions.len()) => {
                self.fail(number, &too_many(), now);
            }
            Some(Ok(InputRound::Ask(questions))) => {
                for (key, Question { method, params }) in questions {
                    let params = askers::with_asker(&method, params.as_deref(), &who);
                    let ask = self.fresh();
                    let origin = QuestionOrigin::Input { key };
                    let (method_asked, call) = (method.as_str().into(), Some(number));
                    let question =
                        ClientQuestion { method: method_asked, origin, call, names_no_call: false, token: None };
                    self.questions.insert(ask, question);
                    self.put(ask, &method, Some(&params), now);
                    // A question that could not be put ends its call, and nobody waits for the answers to the others.
                    if !self.calls.has(number) {
                        return;
                    }
                }
            }
        }
    }

    fn input_arrived(&mut self, number: u64, key: &str, answer: Result<Box<RawValue>, RpcError>, now: Instant) {
        let Some(asked) = self.calls.client_mut(number) else { return };
        match asked.rounds.answer(key, answer) {
            Ok(true) => self.dispatch(number, now),
            Ok(false) => {}
            Err(failure) => self.input_failed(number, failure, now),
        }
    }

    fn input_failed(&mut self, number: u64, failure: InputFailure, now: Instant) {
        let Some(call) = self.calls.get(number) else { return };
        let error = failure.error(&format!("`{}`", call.to));
        self.fail(number, &error, now);
    }
}

fn gone() -> RpcError {
    RpcError::internal("the client has gone away and cannot be asked")
}

/// Whether the modern era lets a request be answered by questions.
fn may_ask_back(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// In the modern era a question by URL has no id of its own.
fn without_elicitation_id(params: &RawValue) -> Box<RawValue> {
    match Members::parse(params.get()) {
        Some(mut members) => match members.remove("elicitationId") {
            Some(_) => members.to_raw(),
            None => params.to_owned(),
        },
        None => to_raw_value(params).unwrap_or_else(|_| params.to_owned()),
    }
}
