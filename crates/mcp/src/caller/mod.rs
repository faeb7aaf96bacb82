//! One client's calls to one server, in whichever era that server speaks.
//!
//! A sans-IO state machine. The owner hands in calls, answers and the time, and performs every [`CallerStep`] that comes out. The caller
//! performs the legacy era's handshake before the first call, writes the modern era's `_meta` into every request, reads lists page by
//! page, and sends a call again with the input a modern server asks for.
//!
//! Invariants: a call ends once, with [`CallerStep::End`], unless the owner [forgets](Caller::forget) it. A request that the owner has to withdraw is never answered here.
//! Deliberately absent: JSON-RPC ids, progress tokens, envelopes and sockets. The owner maps a [`RequestId`] to what its transport uses,
//! and may drop the caller at any time.

mod list;
mod pending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use salon_protocol::{LogLevel, Members, RpcError};
use serde_json::value::RawValue;

use crate::handshake::{HandshakeParams, ServerProfile};
use crate::input::Question;
use crate::listing::Listing;
use crate::timers::Timers;
use crate::{Era, Revision, meta};
pub use list::{ListLimits, WholeList};
use list::{ListReading, PageOutcome};
use pending::{CallState, PendingCall, Work};

/// How long the client may take over the questions of a modern server: a person may have to think.
pub const INPUT_TIMEOUT: Duration = Duration::from_secs(600);

/// A call, from [`Caller::call`] or [`Caller::list`] to its [`CallerStep::End`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(u64);

/// One request on the wire. A call takes several when it is a list of several pages, or when the server asks for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u64);

/// Who calls, and for how long it waits.
#[derive(Debug, Clone)]
pub struct CallerProfile {
    /// What `initialize` says of the client, and in the modern era every request.
    pub client: HandshakeParams,
    /// The revision that `initialize` asks for.
    pub revision: Revision,
    /// The log messages that modern requests ask for.
    pub log_level: Option<LogLevel>,
    /// Whether a server that answers the handshake with an error is called all the same.
    pub calls_unwilling: bool,
    /// How long the handshake may take; `None` where the owner measures that itself.
    pub handshake_timeout: Option<Duration>,
    /// How long a call, its handshake included, may go on without an answer or progress; `None` where the owner measures that itself.
    pub silence_timeout: Option<Duration>,
}

impl CallerProfile {
    /// A client of the room that keeps its own time.
    pub fn new(client: HandshakeParams) -> Self {
        Self {
            client,
            revision: Revision::ROOM,
            log_level: None,
            calls_unwilling: false,
            handshake_timeout: None,
            silence_timeout: None,
        }
    }
}

/// What the owner has to do.
#[derive(Debug, Clone)]
pub enum CallerStep {
    /// Send a request, and hand in its outcome by [`Caller::answered`] or [`Caller::lost`].
    Send {
        /// To hand the outcome in by.
        request: RequestId,
        /// The call it belongs to; the handshake belongs to none.
        call: Option<CallId>,
        /// The method.
        method: Box<str>,
        /// The parameters, without a progress token.
        params: Option<Box<RawValue>>,
    },
    /// Send `notifications/initialized`, before anything else that follows.
    Initialized,
    /// Cancel a request: nothing waits for its answer any more.
    Withdraw {
        /// Which one.
        request: RequestId,
        /// Why, for people.
        reason: Box<str>,
    },
    /// Ask the client what the server wants to know, and hand in its answer by [`Caller::input`].
    Ask {
        /// The call that waits for it.
        call: CallId,
        /// The server's key for the question.
        key: Box<str>,
        /// The question.
        question: Question,
    },
    /// The handshake, or in the modern era the discovery, is over: its result as written.
    Introduced(Result<Box<RawValue>, CallFailure>),
    /// A call is over.
    End(CallId, Result<CallEnd, CallFailure>),
}

/// How a call ended well.
#[derive(Debug, Clone)]
pub enum CallEnd {
    /// With this result, as written.
    Result(Box<RawValue>),
    /// With all pages of a list.
    List(WholeList),
}

/// Why a call has no result.
#[derive(Debug, Clone)]
pub enum CallFailure {
    /// The server answered with this JSON-RPC error, as written.
    Answered(Box<RawValue>),
    /// The server answered the handshake with this JSON-RPC error, as written.
    Handshake(Box<RawValue>),
    /// There will be no answer: the owner's reason.
    Lost(RpcError),
    /// There was no answer in time.
    TimedOut,
    /// The owner cancelled it.
    Cancelled,
    /// The parameters, or their `_meta`, are no object, so a modern request cannot be made of them.
    InvalidParams,
    /// The server asked for input too often, or for too much of it.
    TooMuchInput,
    /// The server asked for input that the client does not give.
    NoInput {
        /// The question's method.
        method: String,
        /// Why.
        error: RpcError,
    },
    /// A page is not one of the list that was asked for.
    Unreadable,
    /// The list is longer than the limits, or its pages lead round in a circle.
    Endless,
}

#[derive(Debug, Clone)]
enum HandshakeState {
    None,
    Sent(RequestId),
    Done,
    /// It was answered with this error. Calls fail with it.
    Refused(Box<RawValue>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum CallerTimer {
    Handshake,
    Call(CallId),
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Caller {
    profile: CallerProfile,
    era: Era,
    handshake: HandshakeState,
    server: Option<ServerProfile>,
    calls: BTreeMap<CallId, PendingCall>,
    requests: BTreeMap<RequestId, CallId>,
    timers: Timers<CallerTimer>,
    steps: VecDeque<CallerStep>,
    last: u64,
}

impl Caller {
    /// A caller of a server that it has not spoken to.
    pub fn new(profile: CallerProfile, era: Era) -> Self {
        Self {
            profile,
            era,
            handshake: HandshakeState::None,
            server: None,
            calls: BTreeMap::new(),
            requests: BTreeMap::new(),
            timers: Timers::default(),
            steps: VecDeque::new(),
            last: 0,
        }
    }

    /// A caller of a server with which this client has performed the handshake before.
    pub fn after_handshake(profile: CallerProfile, era: Era) -> Self {
        Self { handshake: HandshakeState::Done, ..Self::new(profile, era) }
    }

    /// The era that requests are made in.
    pub fn era(&self) -> Era {
        self.era
    }

    /// What the server said of itself, where it did and that can be read.
    pub fn server(&self) -> Option<&ServerProfile> {
        self.server.as_ref()
    }

    /// Which log messages later modern requests ask for.
    pub fn set_log_level(&mut self, level: LogLevel) {
        self.profile.log_level = Some(level);
    }

    /// Has the server introduce itself, unless that is under way: [`CallerStep::Introduced`] follows.
    pub fn introduce(&mut self, now: Instant) {
        if matches!(self.handshake, HandshakeState::Sent(_)) {
            return;
        }
        let request = RequestId(self.fresh());
        self.handshake = HandshakeState::Sent(request);
        if let Some(timeout) = self.profile.handshake_timeout {
            self.timers.set(CallerTimer::Handshake, now + timeout);
        }
        let (method, params) = match self.era {
            // MCP 2025-11-25, Lifecycle, "Initialization".
            Era::Legacy => ("initialize", Some(self.profile.client.params(self.profile.revision, &self.info()))),
            // MCP 2026-07-28, Discovery, "When to Call": clients may, and nothing follows it.
            Era::Modern => ("server/discover", self.in_era(None)),
        };
        self.steps.push_back(CallerStep::Send { request, call: None, method: method.into(), params });
    }

    /// Calls a method. A legacy server is called once the handshake is done, which this begins where it has not been.
    pub fn call(&mut self, method: &str, params: Option<&RawValue>, now: Instant) -> CallId {
        self.begin(method, params, Work::Call, now)
    }

    /// Reads all pages of a list. A server that does not know the method has an empty one.
    pub fn list(&mut self, listing: Listing, limits: ListLimits, now: Instant) -> CallId {
        self.begin(listing.method(), None, Work::List(Box::new(ListReading::new(listing, limits))), now)
    }

    fn begin(&mut self, method: &str, params: Option<&RawValue>, work: Work, now: Instant) -> CallId {
        let id = CallId(self.fresh());
        let call = PendingCall::new(method, params, work);
        self.calls.insert(id, call);
        self.wait_until(id, self.profile.silence_timeout.map(|timeout| now + timeout));
        match (&self.handshake, self.era) {
            (HandshakeState::Done, _) | (_, Era::Modern) => self.send(id),
            (HandshakeState::None, _) => self.introduce(now),
            (HandshakeState::Sent(_), _) => {}
            (HandshakeState::Refused(error), _) => {
                let error = error.clone();
                self.end(id, Err(CallFailure::Handshake(error)));
            }
        }
        id
    }

    /// Ends a call, and withdraws its request.
    pub fn cancel(&mut self, call: CallId, reason: &str) {
        self.withdraw(call, reason);
        self.end(call, Err(CallFailure::Cancelled));
    }

    /// Drops a call that the owner has ended itself. Nothing is sent, and no [`CallerStep::End`] follows.
    pub fn forget(&mut self, call: CallId) {
        self.end(call, Err(CallFailure::Cancelled));
        self.steps
            .retain(|step| !matches!(step, CallerStep::End(id, _) | CallerStep::Ask { call: id, .. } if *id == call));
    }

    /// A request was answered: with its result, or with its error.
    pub fn answered(&mut self, request: RequestId, outcome: Result<&RawValue, &RawValue>, now: Instant) {
        if matches!(self.handshake, HandshakeState::Sent(sent) if sent == request) {
            return self.introduced(outcome);
        }
        let Some(id) = self.requests.remove(&request) else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        match (&mut call.work, outcome) {
            (Work::List(reading), outcome) => match reading.page(outcome, self.era) {
                PageOutcome::More => {
                    self.renew(id, now);
                    self.send(id);
                }
                PageOutcome::Done(list) => self.end(id, Ok(CallEnd::List(list))),
                PageOutcome::Failed(failure) => self.end(id, Err(failure)),
            },
            (Work::Call, Err(error)) => self.end(id, Err(CallFailure::Answered(error.to_owned()))),
            (Work::Call, Ok(result)) => match crate::input::InputRequired::read(result) {
                Some(wanted) if self.era == Era::Modern => self.input_required(id, wanted, now),
                _ => self.end(id, Ok(CallEnd::Result(result.to_owned()))),
            },
        }
    }

    /// A request will not be answered.
    pub fn lost(&mut self, request: RequestId, why: &RpcError) {
        if matches!(self.handshake, HandshakeState::Sent(sent) if sent == request) {
            return self.not_introduced(&CallFailure::Lost(why.clone()));
        }
        if let Some(id) = self.requests.remove(&request) {
            self.end(id, Err(CallFailure::Lost(why.clone())));
        }
    }

    /// The server reported progress of a request. Returns the call it belongs to.
    pub fn progressed(&mut self, request: RequestId, now: Instant) -> Option<CallId> {
        let id = *self.requests.get(&request)?;
        self.renew(id, now);
        Some(id)
    }

    /// A request waits for somebody's approval before the server gets it. It is waited for until `deadline`, or until
    /// [`progressed`](Self::progressed) is called when the server has it.
    pub fn wait_for_approval(&mut self, request: RequestId, deadline: Instant) {
        if let Some(id) = self.requests.get(&request).copied()
            && self.profile.silence_timeout.is_some()
        {
            self.wait_until(id, Some(deadline));
        }
    }

    /// The server has started over and knows of no handshake: what waits for one begins another. Requests it was sent before are the
    /// owner's to give up.
    pub fn restarted(&mut self, era: Era, now: Instant) {
        self.era = era;
        self.server = None;
        self.handshake = HandshakeState::None;
        self.timers.forget(CallerTimer::Handshake);
        let waiting = self.waiting_for_handshake();
        match era {
            Era::Legacy if waiting.is_empty() => {}
            Era::Legacy => self.introduce(now),
            Era::Modern => waiting.into_iter().for_each(|id| self.send(id)),
        }
    }

    /// The next thing to do.
    pub fn poll_step(&mut self) -> Option<CallerStep> {
        self.steps.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take(now) {
            match timer {
                CallerTimer::Handshake => self.not_introduced(&CallFailure::TimedOut),
                CallerTimer::Call(id) => self.call_due(id, now),
            }
        }
    }

    fn call_due(&mut self, id: CallId, now: Instant) {
        let Some(call) = self.calls.get(&id) else { return };
        if matches!(call.state, CallState::Pausing) {
            return self.next_round(id, now);
        }
        self.withdraw(id, "the answer took too long");
        self.end(id, Err(CallFailure::TimedOut));
    }

    fn introduced(&mut self, outcome: Result<&RawValue, &RawValue>) {
        self.timers.forget(CallerTimer::Handshake);
        let waiting = self.waiting_for_handshake();
        match outcome {
            Ok(result) => {
                let server = match self.era {
                    Era::Legacy => ServerProfile::from_initialize(result),
                    Era::Modern => ServerProfile::from_discover(result),
                };
                // A revision that is not known here is no reason not to call: owners that mind look at `server`.
                self.server = server.ok();
                self.handshake = HandshakeState::Done;
                if self.era == Era::Legacy {
                    // MCP 2025-11-25, Lifecycle: the client sends it before its first request.
                    self.steps.push_back(CallerStep::Initialized);
                }
            }
            Err(_) if self.profile.calls_unwilling || self.era == Era::Modern => self.handshake = HandshakeState::Done,
            Err(error) => self.handshake = HandshakeState::Refused(error.to_owned()),
        }
        let failed = |error: &RawValue| CallFailure::Handshake(error.to_owned());
        self.steps.push_back(CallerStep::Introduced(outcome.map(ToOwned::to_owned).map_err(failed)));
        for id in waiting {
            match &self.handshake {
                HandshakeState::Refused(error) => {
                    let error = error.clone();
                    self.end(id, Err(CallFailure::Handshake(error)));
                }
                _ => self.send(id),
            }
        }
    }

    /// The handshake could not be performed: the next call tries again. It is not withdrawn.
    // MCP 2025-11-25, Cancellation: "The `initialize` request MUST NOT be cancelled by clients".
    fn not_introduced(&mut self, failure: &CallFailure) {
        self.timers.forget(CallerTimer::Handshake);
        self.handshake = HandshakeState::None;
        self.steps.push_back(CallerStep::Introduced(Err(failure.clone())));
        for id in self.waiting_for_handshake() {
            self.end(id, Err(failure.clone()));
        }
    }

    fn waiting_for_handshake(&self) -> Vec<CallId> {
        let waiting = self.calls.iter().filter(|(_, call)| matches!(call.state, CallState::Handshake));
        waiting.map(|(id, _)| *id).collect()
    }

    /// Sends a call as it stands: from the beginning, its next page, or with the input that the server wanted.
    fn send(&mut self, id: CallId) {
        let request = RequestId(self.fresh());
        let Some(call) = self.calls.get(&id) else { return };
        let params = match &call.work {
            Work::Call => self.in_era(call.params.as_deref()),
            Work::List(reading) => self.in_era(Some(&reading.params())),
        };
        if self.era == Era::Modern && params.is_none() {
            return self.end(id, Err(CallFailure::InvalidParams));
        }
        let Some(call) = self.calls.get_mut(&id) else { return };
        let params = call.rounds.params(params);
        call.state = CallState::Sent(request);
        self.requests.insert(request, id);
        self.steps.push_back(CallerStep::Send { request, call: Some(id), method: call.method.clone(), params });
    }

    /// Parameters as the server's era has them; `None` in the modern era when they are no object.
    fn in_era(&self, params: Option<&RawValue>) -> Option<Box<RawValue>> {
        match self.era {
            Era::Legacy => params.map(ToOwned::to_owned),
            Era::Modern => {
                let capabilities = self.profile.client.modern_capabilities();
                let (info, level) = (self.info(), self.profile.log_level);
                meta::upgrade(params, meta::RequesterMeta { capabilities: &capabilities, info: &info, level })
            }
        }
    }

    fn info(&self) -> Box<RawValue> {
        self.profile.client.info.clone().unwrap_or_else(|| {
            let mut unnamed = Members::default();
            unnamed.set("name", "unnamed");
            unnamed.set("version", "");
            unnamed.to_raw()
        })
    }

    fn withdraw(&mut self, id: CallId, reason: &str) {
        if let Some(PendingCall { state: CallState::Sent(request), .. }) = self.calls.get(&id) {
            let request = *request;
            self.requests.remove(&request);
            self.steps.push_back(CallerStep::Withdraw { request, reason: reason.into() });
        }
    }

    /// The only place where a call goes away.
    fn end(&mut self, id: CallId, outcome: Result<CallEnd, CallFailure>) {
        self.wait_until(id, None);
        if let Some(call) = self.calls.remove(&id) {
            if let CallState::Sent(request) = call.state {
                self.requests.remove(&request);
            }
            self.steps.push_back(CallerStep::End(id, outcome));
        }
    }

    /// A call is given the whole time for an answer again.
    fn renew(&mut self, id: CallId, now: Instant) {
        self.wait_until(id, self.profile.silence_timeout.map(|timeout| now + timeout));
    }

    fn wait_until(&mut self, id: CallId, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => self.timers.set(CallerTimer::Call(id), deadline),
            None => self.timers.forget(CallerTimer::Call(id)),
        }
    }

    fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
