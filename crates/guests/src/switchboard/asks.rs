//! Questions to callers: a server's requests in the legacy era, and what `input_required` wants in the modern one.

use std::time::{Duration, Instant};

use salon_mcp::input::{InputRequired, Question};
use salon_mcp::rounds::{InputClient, InputFailure, InputRound};
use salon_mcp::{Era, meta, read_error, same_id};
use salon_protocol::{Envelope, EnvelopeId, Members, ParticipantId, RpcError, rpc};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::LaneCallStage;
use super::{CallerId, CallerState, LaneId, PublishPurpose, Switchboard, SwitchboardTimer};

/// How long a caller may think about a question: there may be a person behind it.
const THINKING_TIME: Duration = Duration::from_secs(600);
/// Questions that may be open: of one lane, and of one call on a shared lane.
const MAX_ASKS: usize = 64;
const MAX_ASKS_OF_CALL: usize = 16;
/// Failures that are kept for questions whose envelope is not known yet: as many as can be on their way to the room.
const MAX_EARLY: usize = 64;

#[derive(Debug)]
pub(super) struct CallerQuestion {
    caller: CallerId,
    cause: QuestionSource,
    /// The server's own progress token for it, as written.
    token: Option<Box<RawValue>>,
    /// Under which it stands in the room.
    envelope: Option<EnvelopeId>,
}

#[derive(Debug)]
enum QuestionSource {
    /// A server's request on a lane, with its id there, and on a shared lane the call it belongs to.
    Server { lane: LaneId, id: Box<RawValue>, call: Option<u64> },
    /// A question of the result that a call had.
    Input { call: u64, key: String },
}

impl Switchboard {
    /// A server asks something.
    pub(super) fn server_asks(
        &mut self,
        lane: LaneId,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        related: Option<u64>,
        now: Instant,
    ) {
        if method == "ping" {
            self.send(lane, rpc::response(id, &super::empty()));
            return;
        }
        let Some(known) = self.lanes.get(&lane).filter(|lane| lane.era == Era::Legacy) else {
            // Whatever waits for it must not wait for ever.
            let told = "in this revision servers ask with `input_required`, not by requests";
            self.send(lane, rpc::failure(id, &RpcError::new(RpcError::METHOD_NOT_FOUND, told)));
            return;
        };
        let addressee = match known.owner.clone() {
            Some(owner) => Ok((owner, self.cause_of(lane, related), None)),
            None => self
                .addressee_of(lane, method, params, related, now)
                .map(|(reply, call)| (reply.caller, Some(reply.envelope), Some(call))),
        };
        let addressee = addressee.and_then(|addressee| match self.too_many_asks(lane, addressee.2) {
            None => Ok(addressee),
            Some(limit) => Err(format!("{limit} questions are open already")),
        });
        match addressee {
            Ok((caller, correlation, call)) => {
                let cause = QuestionSource::Server { lane, id: id.to_owned(), call };
                self.ask(caller, cause, correlation, method, params, now);
            }
            Err(told) => self.send(lane, rpc::failure(id, &RpcError::new(RpcError::METHOD_NOT_FOUND, told))),
        }
    }

    /// The limit that one more question of a lane would exceed.
    fn too_many_asks(&self, lane: LaneId, call: Option<u64>) -> Option<usize> {
        let of_call = |ask: &CallerQuestion| matches!(ask.cause, QuestionSource::Server { call: of, .. } if of == call);
        let is_full = call.is_some() && self.asks.values().filter(|ask| of_call(ask)).count() >= MAX_ASKS_OF_CALL;
        if is_full { Some(MAX_ASKS_OF_CALL) } else { (self.open_asks(lane) >= MAX_ASKS).then_some(MAX_ASKS) }
    }

    /// The call that a server's request is about.
    fn cause_of(&self, lane: LaneId, related: Option<u64>) -> Option<EnvelopeId> {
        let named = related.and_then(|number| self.calls.get(&number)).filter(|call| call.lane == lane);
        // On pipes nothing says which; the oldest is likeliest.
        let found = named.or_else(|| self.calls.values().find(|call| call.lane == lane && call.asked().is_some()));
        found?.asked().map(|asked| asked.reply.envelope.clone())
    }

    fn ask(
        &mut self,
        caller: CallerId,
        cause: QuestionSource,
        correlation: Option<EnvelopeId>,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        let number = self.fresh();
        let token = params.and_then(meta::progress_token);
        let patched = params.filter(|_| token.is_some()).and_then(|params| meta::with_progress_token(params, &number));
        let payload = rpc::request(number, method, patched.as_deref().or(params));
        self.timers.set(SwitchboardTimer::Ask(number), now + THINKING_TIME);
        self.publish(Some(&caller), correlation, payload, PublishPurpose::Ask(number));
        self.asks.insert(number, CallerQuestion { caller, cause, token, envelope: None });
    }

    fn open_asks(&self, lane: LaneId) -> usize {
        self.asks
            .values()
            .filter(|ask| matches!(ask.cause, QuestionSource::Server { lane: of, .. } if of == lane))
            .count()
    }

    /// Whether a caller is thinking about a question that a call waits for, so that the server rightly makes no progress.
    pub(super) fn is_waiting_for_caller(&self, number: u64, lane: LaneId) -> bool {
        self.asks.values().any(|ask| match ask.cause {
            QuestionSource::Server { lane: of, call, .. } => of == lane && call.is_none_or(|call| call == number),
            QuestionSource::Input { .. } => false,
        })
    }

    fn take_ask(&mut self, number: u64) -> Option<CallerQuestion> {
        self.timers.forget(SwitchboardTimer::Ask(number));
        self.asks.remove(&number)
    }

    /// A caller answered something. Numbers start over with every stay of the guest, and a question of an earlier one can still be answered, so an
    /// answer has to name the question's envelope too.
    pub(super) fn ask_answered(&mut self, answer: &Envelope, message: &Members, now: Instant) {
        let Some(number) = message.get("id").and_then(|id| id.get().parse().ok()) else { return };
        let is_its_answer = |ask: &CallerQuestion| {
            let is_its_envelope = |asked: &EnvelopeId| answer.correlation() == Some(asked);
            ask.caller.participant == *answer.from() && ask.envelope.as_ref().is_none_or(is_its_envelope)
        };
        if !self.asks.get(&number).is_some_and(is_its_answer) {
            return;
        }
        let Some(ask) = self.take_ask(number) else { return };
        match ask.cause {
            QuestionSource::Server { lane, id, .. } => {
                let mut message = message.clone();
                message.set("id", &id);
                self.send(lane, message.to_raw());
            }
            QuestionSource::Input { call, key } => {
                let answer = message.get("result").ok_or_else(|| read_error(message.get("error")));
                self.input_answered(call, &key, answer.map(ToOwned::to_owned), now);
            }
        }
    }

    /// A question cannot be put to its caller, or will not be answered.
    pub(super) fn ask_failed(&mut self, number: u64, why: &str, now: Instant) {
        let Some(ask) = self.take_ask(number) else { return };
        let told = RpcError::internal(format!("`{}` was not asked or did not answer: {why}", ask.caller.participant));
        match ask.cause {
            QuestionSource::Server { lane, id, .. } => self.send(lane, rpc::failure(&id, &told)),
            QuestionSource::Input { call, .. } => self.fail(call, &told, now),
        }
    }

    /// The room says that something of ours will not be answered.
    pub(super) fn ask_unanswerable(&mut self, envelope: &EnvelopeId, payload: &str, now: Instant) {
        #[derive(Deserialize)]
        struct Error {
            event: String,
            #[serde(default)]
            message: String,
        }
        let Ok(error) = serde_json::from_str::<Error>(payload) else { return };
        if error.event != "error" {
            return;
        }
        let named =
            self.asks.iter().find(|(_, ask)| ask.envelope.as_ref() == Some(envelope)).map(|(number, _)| *number);
        match named {
            Some(number) => self.ask_failed(number, &error.message, now),
            // It may be about one whose envelope is not known yet: what the room says of it can be heard first.
            None if self.asks.values().any(|ask| ask.envelope.is_none()) => {
                if self.early_failures.len() == MAX_EARLY {
                    self.early_failures.pop_front();
                }
                self.early_failures.push_back((envelope.clone(), error.message));
            }
            None => {}
        }
    }

    /// A question is in the room under this id.
    pub(super) fn ask_published(&mut self, number: u64, envelope: &EnvelopeId, now: Instant) {
        if let Some(ask) = self.asks.get_mut(&number) {
            ask.envelope = Some(envelope.clone());
        }
        let early = self.early_failures.iter().position(|(of, _)| of == envelope);
        if let Some((_, why)) = early.and_then(|at| self.early_failures.remove(at)) {
            self.ask_failed(number, &why, now);
        }
        if self.asks.values().all(|ask| ask.envelope.is_some()) {
            self.early_failures.clear();
        }
    }

    pub(super) fn ask_due(&mut self, number: u64, now: Instant) {
        if let Some(ask) = self.asks.get(&number) {
            let caller = ask.caller.clone();
            self.publish_cancelled(&caller, &number, Some("no answer in time"));
            self.ask_failed(number, "no answer in time", now);
        }
    }

    /// A caller tells how its answer gets on.
    pub(super) fn ask_progressed(&mut self, caller: &ParticipantId, params: Option<&RawValue>) {
        let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
        let number = params.get("progressToken").and_then(|token| token.get().parse::<u64>().ok());
        let Some(ask) = number.and_then(|number| self.asks.get(&number)) else { return };
        if let (QuestionSource::Server { lane, .. }, Some(token)) = (&ask.cause, &ask.token)
            && ask.caller.participant == *caller
        {
            params.set("progressToken", token);
            let lane = *lane;
            self.send(lane, rpc::notification("notifications/progress", Some(&params.to_raw())));
        }
    }

    /// A server takes back a question.
    pub(super) fn ask_cancelled(&mut self, lane: LaneId, params: Option<&RawValue>) {
        let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
        let Some(id) = params.remove("requestId") else { return };
        let named = self.asks.iter().find(|(_, ask)| {
            matches!(&ask.cause, QuestionSource::Server { lane: of, id: theirs, .. } if *of == lane && same_id(theirs.get(), id.get()))
        });
        let Some(number) = named.map(|(number, _)| *number) else { return };
        if let Some(ask) = self.take_ask(number) {
            params.set("requestId", &number);
            self.publish_notice(&ask.caller, "notifications/cancelled", &params.to_raw());
        }
    }

    /// Takes back the questions of a lane that is going.
    pub(super) fn withdraw_asks(&mut self, lane: LaneId) {
        drop(self.withdraw(|cause| matches!(cause, QuestionSource::Server { lane: of, .. } if *of == lane)));
    }

    /// Takes back the questions of a call that is over. The server hears that they get no answer.
    pub(super) fn withdraw_asks_of_call(&mut self, number: u64) {
        let withdrawn = self.withdraw(|cause| match cause {
            QuestionSource::Input { call, .. } => *call == number,
            QuestionSource::Server { call, .. } => *call == Some(number),
        });
        for cause in withdrawn {
            if let QuestionSource::Server { lane, id, .. } = cause {
                let told = RpcError::internal("the call that this question belongs to is over");
                self.send(lane, rpc::failure(&id, &told));
            }
        }
    }

    fn withdraw(&mut self, wanted: impl Fn(&QuestionSource) -> bool) -> Vec<QuestionSource> {
        let mut numbers: Vec<_> =
            self.asks.iter().filter(|(_, ask)| wanted(&ask.cause)).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        let mut withdrawn = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(ask) = self.take_ask(number) else { continue };
            if self.callers.contains_key(&ask.caller) {
                self.publish_cancelled(&ask.caller, &number, None);
            }
            withdrawn.push(ask.cause);
        }
        withdrawn
    }

    fn publish_cancelled(&mut self, caller: &CallerId, number: &u64, reason: Option<&str>) {
        let mut params = Members::default();
        params.set("requestId", number);
        if let Some(reason) = reason {
            params.set("reason", reason);
        }
        self.publish_notice(caller, "notifications/cancelled", &params.to_raw());
    }

    /// A modern server wants answers before it goes on: its questions become real requests, all at once.
    pub(super) fn input_required(&mut self, number: u64, wanted: InputRequired, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let Some(asked) = call.asked_mut() else { return };
        let (caller, envelope) = (asked.reply.caller.clone(), asked.reply.envelope.clone());
        let unknown = CallerState::default();
        let known = self.callers.get(&caller).unwrap_or(&unknown);
        let client = InputClient {
            capabilities: &known.handshake_params.capabilities,
            revision: known.revision,
            id_prefix: &format!("{}-{number}", self.setting.seed),
        };
        let round = asked.rounds.begin(wanted, client);
        call.state = LaneCallStage::Asking;
        self.timers.forget(SwitchboardTimer::Call(number));
        match round {
            Err(failure) => self.input_failed(number, failure, now),
            Ok(InputRound::RetryAfter(delay)) => {
                call.state = LaneCallStage::Resting;
                self.timers.set(SwitchboardTimer::Call(number), now + delay);
            }
            Ok(InputRound::Retry) => self.retry(number, now),
            Ok(InputRound::Ask(questions)) => {
                for (key, Question { method, params }) in questions {
                    let cause = QuestionSource::Input { call: number, key };
                    self.ask(caller.clone(), cause, Some(envelope.clone()), &method, params.as_deref(), now);
                }
            }
        }
    }

    fn input_answered(&mut self, number: u64, key: &str, answer: Result<Box<RawValue>, RpcError>, now: Instant) {
        let Some(asked) = self.calls.get_mut(&number).and_then(|call| call.asked_mut()) else { return };
        match asked.rounds.answer(key, answer) {
            Ok(true) => self.retry(number, now),
            Ok(false) => {}
            Err(failure) => self.input_failed(number, failure, now),
        }
    }

    fn input_failed(&mut self, number: u64, failure: InputFailure, now: Instant) {
        let server = format!("the server of `{}`", self.setting.name);
        self.fail(number, &failure.error(&server), now);
    }

    /// Makes a call again, under a new number.
    pub(super) fn retry(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.remove(&number) else { return };
        self.timers.forget(SwitchboardTimer::Call(number));
        let fresh = self.fresh();
        self.calls.insert(fresh, call);
        self.dispatch(fresh, now);
    }
}
