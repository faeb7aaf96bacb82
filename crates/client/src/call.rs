//! A request on its way: its progress, its answer, its end.

use std::time::Duration;

use futures_util::future::BoxFuture;
use salon_protocol::{Envelope, EnvelopeId, ParticipantId, RpcId};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::peer::{AfterAnswer, CallExchange};
use crate::{CallError, ResultError, Room, RpcError};

/// How long a call waits for its answer or progress by default.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a callee that asks something back may wait for it, and so the call with it: a person may have to think.
const INPUT_GRACE: Duration = Duration::from_secs(600);

/// How many reports of progress wait for somebody to look at them; more are left out.
const PROGRESS: usize = 64;

/// How a call is getting on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// How far it is.
    pub progress: f64,
    /// Where it will end, when that is known.
    #[serde(default)]
    pub total: Option<f64>,
    /// What it is doing.
    #[serde(default)]
    pub message: Option<String>,
}

/// A request on its way. Dropping it before its answer cancels it.
///
/// The time it may take is renewed by every report of progress; a callee that asks something back has ten minutes for it. A call that waits for
/// approval is reported as progress once, and its time begins when the approval would expire.
///
/// A participant of MCP 2026-07-28 asks back by answering `input_required`. The service that this participant offers answers its
/// questions, and the request is sent again with the answers: [`id`](Self::id) and [`rpc_id`](Self::rpc_id) are then those of the newest
/// request.
pub struct Call {
    room: Room,
    /// Who asks: the participant of the room, or one of its ghosts.
    caller: ParticipantId,
    id: EnvelopeId,
    number: u64,
    callee: ParticipantId,
    timeout: Duration,
    deadline: Instant,
    signs: mpsc::Receiver<Sign>,
    answer: oneshot::Receiver<Result<Box<RawValue>, CallError>>,
    /// The answer, when it came while progress was looked at.
    early: Option<Result<Box<RawValue>, CallError>>,
    over: bool,
    /// What follows the answer, which may ask for input; requests that are sent without a handshake have none.
    exchange: Option<Box<CallExchange>>,
    /// The answers to the callee's questions, then the request that carries them.
    next_round: Option<BoxFuture<'static, Result<Call, CallError>>>,
}

/// A sign that the callee is at work.
enum Sign {
    Progress(Progress),
    AskedBack,
    /// The gateway holds the call for approval: what it says, and for how long.
    Held(String, Duration),
}

/// The other end of a [`Call`].
pub(crate) struct CallWaiter {
    pub(crate) callee: ParticipantId,
    number: u64,
    answer: oneshot::Sender<Result<Box<RawValue>, CallError>>,
    signs: mpsc::Sender<Sign>,
}

impl CallWaiter {
    /// Hands over the answer.
    pub(crate) fn answer(self, envelope: &Envelope) {
        #[derive(Deserialize)]
        struct Response {
            result: Option<Box<RawValue>>,
            error: Option<RpcError>,
        }
        let outcome = match serde_json::from_str::<Response>(envelope.payload()) {
            Ok(Response { error: Some(error), .. }) => Err(CallError::Answered(error)),
            Ok(Response { result: Some(result), .. }) => Ok(result),
            Ok(_) => Err(ResultError::NoOutcome.into()),
            Err(error) => Err(ResultError::from(error).into()),
        };
        // The caller may have stopped waiting.
        let _ = self.answer.send(outcome);
    }

    pub(crate) fn fail(self, why: CallError) {
        // The caller may have stopped waiting.
        let _ = self.answer.send(Err(why));
    }

    /// Hands over a report of progress, if it is about this call.
    pub(crate) fn tell(&self, envelope: &Envelope) {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "progressToken")]
            token: u64,
            #[serde(flatten)]
            progress: Progress,
        }
        let params = envelope.params().and_then(|params| serde_json::from_str::<Params>(params).ok());
        if let Some(params) = params.filter(|params| params.token == self.number) {
            // Progress is news, not a record: what nobody looked at in time is left out.
            let _ = self.signs.try_send(Sign::Progress(params.progress));
        }
    }

    /// The gateway holds the call for approval, for so long.
    pub(crate) fn hold(&self, message: String, time: Duration) {
        let _ = self.signs.try_send(Sign::Held(message, time));
    }

    /// The callee asked something back because of this call.
    pub(crate) fn extend_for_input(&self) {
        // When nobody looks at the signs there is no deadline that runs.
        let _ = self.signs.try_send(Sign::AskedBack);
    }
}

impl Call {
    /// A call and its other end.
    pub(crate) fn new(
        room: Room,
        caller: &ParticipantId,
        id: EnvelopeId,
        number: u64,
        callee: ParticipantId,
        timeout: Duration,
    ) -> (Self, CallWaiter) {
        let (answer, answered) = oneshot::channel();
        let (telling, signs) = mpsc::channel(PROGRESS);
        let waiting = CallWaiter { callee: callee.clone(), number, answer, signs: telling };
        let deadline = deadline_in(timeout);
        let call = Self {
            room,
            caller: caller.clone(),
            id,
            number,
            callee,
            timeout,
            deadline,
            signs,
            answer: answered,
            early: None,
            over: false,
            exchange: None,
            next_round: None,
        };
        (call, waiting)
    }

    /// A call whose answer may ask for input first.
    pub(crate) fn with_exchange(mut self, exchange: CallExchange) -> Self {
        self.exchange = Some(Box::new(exchange));
        self
    }

    /// The envelope that carries the request.
    pub fn id(&self) -> &EnvelopeId {
        &self.id
    }

    /// Who was asked.
    pub fn callee(&self) -> &ParticipantId {
        &self.callee
    }

    /// The request's JSON-RPC id.
    pub fn rpc_id(&self) -> RpcId {
        RpcId::Number(self.number.to_string().into())
    }

    /// The next report of progress; `None` when there is an answer, or none in time. Either is then [`result`](Self::result).
    pub async fn progress(&mut self) -> Option<Progress> {
        while self.early.is_none() {
            if let Some(next_round) = &mut self.next_round {
                let next = tokio::select! { biased;
                    next = next_round => next,
                    () = tokio::time::sleep_until(self.deadline) => Err(CallError::TimedOut),
                };
                self.next_round = None;
                match next {
                    // What is replaced has been answered, so dropping it sends nothing.
                    Ok(next) => *self = next,
                    Err(error) => self.early = Some(Err(error)),
                }
                continue;
            }
            tokio::select! { biased;
                Some(sign) = self.signs.recv() => match sign {
                    Sign::Progress(progress) => {
                        self.deadline = deadline_in(self.timeout);
                        return Some(progress);
                    }
                    Sign::AskedBack => self.deadline = deadline_in(self.timeout.max(INPUT_GRACE)),
                    Sign::Held(message, time) => {
                        self.deadline = deadline_in(self.timeout.saturating_add(time));
                        return Some(Progress { progress: 0.0, total: None, message: Some(message) });
                    }
                },
                answer = &mut self.answer => self.answered(answer.unwrap_or(Err(CallError::Cancelled))),
                () = tokio::time::sleep_until(self.deadline) => self.early = Some(Err(CallError::TimedOut)),
            }
        }
        None
    }

    fn answered(&mut self, answer: Result<Box<RawValue>, CallError>) {
        let next = match (self.exchange.take(), answer) {
            (Some(exchange), Ok(answer)) => exchange.answered(&self.room, &self.callee, &self.id, &answer),
            (_, answer) => AfterAnswer::End(answer),
        };
        match next {
            AfterAnswer::Round(next_round) => {
                self.deadline = deadline_in(self.timeout.max(INPUT_GRACE));
                self.next_round = Some(next_round);
            }
            AfterAnswer::End(answer) => self.early = Some(answer),
        }
    }

    /// Waits for the answer.
    pub async fn result(mut self) -> Result<Box<RawValue>, CallError> {
        while self.progress().await.is_some() {}
        let outcome = self.early.take().unwrap_or(Err(CallError::Cancelled));
        // After a timeout the callee is still at work, and gets a cancellation.
        self.over = !matches!(outcome, Err(CallError::TimedOut));
        outcome
    }

    /// Tells the participant to stop, and why. The room has it when this returns.
    pub async fn cancel(mut self, reason: &str) {
        self.over = true;
        if self.room.shared().expect_no_answer(&self.id) {
            let params = self.cancellation(reason);
            // When the room is gone, no cancellation can be sent.
            let _ = self.room.publish_from(&self.caller, self.room.cancellation(&self.callee, &params)).await;
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Stops waiting without telling the participant.
    pub(crate) fn forget(mut self) {
        self.over = true;
        self.room.shared().expect_no_answer(&self.id);
    }

    fn cancellation(&self, reason: &str) -> serde_json::Value {
        serde_json::json!({ "requestId": self.number, "reason": reason })
    }
}

/// When a wait that begins now ends. One beyond the end of time ends in a year.
fn deadline_in(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 60 * 60))
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.over && self.room.shared().expect_no_answer(&self.id) {
            let reason = self.cancellation("nobody waits for the answer any more");
            self.room.withdraw(&self.caller, &self.callee, &reason);
        }
    }
}
