//! The switchboard: many callers in a room, few connections to a server, and nobody hears what is another's.
//!
//! A sans-IO state machine. Envelopes and servers' messages go in, [`SwitchboardAction`]s come out, time is an argument. Every request to a
//! server has a number of ours, which is its id and its progress token there; what comes back is given its caller's own id and
//! token again. A [lane](UpstreamLane) is a connection to the server. All callers share one, unless the guest or the caller asks for isolation. A server's
//! question on a shared lane goes to a caller only where it is certain that the question belongs to its call ([`questions`]). A caller is one session of a
//! participant ([`CallerId`]), so sessions of one participant have handshakes, subscriptions and log levels of their own.
//!
//! Deliberately absent: sockets, children, the room's client. Invariant: a request that was taken is answered, unless its caller cancelled it
//! or left.

mod asks;
mod call;
mod callers;
mod downward;
mod lanes;
mod listening;
mod own_requests;
mod questions;
#[cfg(test)]
mod tests;
mod upward;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_mcp::handshake::{HandshakeParams, ServerProfile};
use salon_mcp::headers::ToolHeaders;
use salon_mcp::timers::Timers;
use salon_mcp::{Era, Revision};
use salon_protocol::{EnvelopeId, ParticipantId, Refusal, RpcError, SessionId, rpc};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::{Expose, ToolFilter};
use asks::CallerQuestion;
use call::{LaneCall, LaneCalls, Origin};
use callers::{CallerId, CallerState};
use lanes::UpstreamLane;
use own_requests::ToolNames;
pub(crate) use questions::shared_handshake;

/// Calls of one participant that may be open.
const MAX_CALLS_OF_ONE: usize = 256;
/// Calls that may be open in all.
const MAX_CALLS: usize = 2048;
/// Bytes of parameters that are kept for calls which may have to be sent (again), and what counts as little.
const MAX_KEPT: usize = 16 << 20;
const SMALL_BYTES: usize = 16 << 10;
/// Lanes that belong to one caller each, in all and of one participant: each may be a process.
const MAX_OWN_LANES: usize = 64;
const MAX_OWN_LANES_OF_ONE: usize = 8;
/// Sessions of one participant of which something is remembered.
const MAX_SESSIONS_OF_ONE: usize = 64;
/// Recipients one envelope may name.
const MAX_RECIPIENTS: usize = 256;

/// A connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LaneId(pub(crate) u32);

impl LaneId {
    /// The lane whose life is the guest's.
    pub(crate) const BASE: Self = Self(0);
}

/// What does not change while the guest is in the room.
#[derive(Debug, Clone)]
pub(crate) struct SwitchboardOptions {
    /// What messages call the guest.
    pub(crate) name: String,
    /// Whether every caller has a lane of its own.
    pub(crate) isolated: bool,
    /// What of the server may be used.
    pub(crate) expose: Expose,
    /// Which of its tools.
    pub(crate) tools: ToolFilter,
    /// How long a call may go on without progress.
    pub(crate) timeout: Duration,
    /// The eras the server speaks.
    pub(crate) eras: Vec<Era>,
    /// Whether it is spoken to over HTTP.
    pub(crate) http: bool,
    /// Makes ids of ours differ from those of other stays.
    pub(crate) seed: String,
}

impl SwitchboardOptions {
    fn speaks(&self, era: Era) -> bool {
        self.eras.contains(&era)
    }

    /// The era of callers who begin with a handshake: translated only where there is no other way.
    pub(crate) fn room_era(&self) -> Era {
        if self.speaks(Era::Legacy) { Era::Legacy } else { Era::Modern }
    }
}

/// What the switchboard wants done.
#[derive(Debug)]
pub(crate) enum SwitchboardAction {
    /// Say something in the room.
    Publish(Publish),
    /// Say something to the server.
    Send { lane: LaneId, request: Option<u64>, text: Box<str>, headers: Vec<(String, String)> },
    /// Drop a request's answer stream.
    Abandon { lane: LaneId, request: u64 },
    /// Connect, with a handshake that says this where there is one.
    Open { lane: LaneId, era: Era, handshake_params: Box<HandshakeParams>, revision: Revision },
    /// Disconnect.
    Close { lane: LaneId },
    /// The tools are known, or have changed.
    Listed,
    /// The guest has no server any more.
    Lost { why: String },
}

/// Something to be said in the room.
#[derive(Debug)]
pub(crate) struct Publish {
    /// To whom; nobody is everybody.
    pub(crate) to: Vec<ParticipantId>,
    /// To which session of the one recipient, where it says which it has.
    pub(crate) session: Option<SessionId>,
    /// In reply to what.
    pub(crate) correlation: Option<EnvelopeId>,
    /// The JSON-RPC message.
    pub(crate) payload: Box<RawValue>,
    /// What becomes of it matters to whom.
    pub(crate) what: PublishPurpose,
}

/// What a published message is to the switchboard.
#[derive(Debug, Clone)]
pub(crate) enum PublishPurpose {
    /// The answer to a request. When the room does not take it, the caller must still hear something.
    Answer(ReplyAddress),
    /// A question to a caller.
    Ask(u64),
    /// Progress of a call: a later one says all that an earlier one said.
    Progress(u64),
    /// Nobody waits for it.
    Notice,
}

/// Where an answer goes.
#[derive(Debug, Clone)]
pub(crate) struct ReplyAddress {
    caller: CallerId,
    envelope: EnvelopeId,
    id: Box<RawValue>,
}

/// How far a subscription has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscriptionState {
    /// The server has not said yes yet.
    Pending,
    /// It has.
    Made,
}

/// What falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum SwitchboardTimer {
    Call(u64),
    Ask(u64),
    Listen(LaneId),
    Ping,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Switchboard {
    setting: SwitchboardOptions,
    me: Option<ParticipantId>,
    server: ServerProfile,
    lanes: BTreeMap<LaneId, UpstreamLane>,
    shared: BTreeMap<Era, LaneId>,
    callers: BTreeMap<CallerId, CallerState>,
    calls: LaneCalls,
    asks: HashMap<u64, CallerQuestion>,
    /// What the room said of envelopes that none of them is known to be, the oldest first.
    early_failures: VecDeque<(EnvelopeId, String)>,
    catalogue: ToolNames,
    headers: ToolHeaders,
    /// Who we are to the server.
    ours: HandshakeParams,
    timers: Timers<SwitchboardTimer>,
    actions: VecDeque<SwitchboardAction>,
    next: u64,
    /// How many requests callers have made.
    requests: u64,
    lost: bool,
}

impl Switchboard {
    /// A switchboard whose base lane is open, to a server that introduced itself so.
    pub(crate) fn new(setting: SwitchboardOptions, server: ServerProfile, ours: HandshakeParams, now: Instant) -> Self {
        let era = setting.room_era();
        let mut board = Self {
            me: None,
            lanes: BTreeMap::from([(LaneId::BASE, UpstreamLane::open(era, None, server.revision()))]),
            shared: BTreeMap::from([(era, LaneId::BASE)]),
            callers: BTreeMap::new(),
            calls: LaneCalls::default(),
            asks: HashMap::new(),
            early_failures: VecDeque::new(),
            catalogue: ToolNames::default(),
            headers: ToolHeaders::default(),
            ours,
            timers: Timers::default(),
            actions: VecDeque::new(),
            next: 1,
            requests: 0,
            lost: false,
            server,
            setting,
        };
        board.list_tools(now);
        board.listen(LaneId::BASE, now);
        board.schedule_ping(now);
        board
    }

    /// The next thing to do.
    pub(crate) fn poll(&mut self) -> Option<SwitchboardAction> {
        self.actions.pop_front()
    }

    /// When to call [`tick`](Self::tick).
    pub(crate) fn due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some(due) = self.timers.take(now) {
            match due {
                SwitchboardTimer::Call(number) => self.call_due(number, now),
                SwitchboardTimer::Ask(number) => self.ask_due(number, now),
                SwitchboardTimer::Listen(lane) => self.listen(lane, now),
                SwitchboardTimer::Ping => self.ping(now),
            }
        }
    }

    /// The guest has its seat: it tells everybody what it can do.
    pub(crate) fn seated(&mut self, me: ParticipantId) {
        self.me = Some(me);
        self.announce();
    }

    /// What the server calls itself.
    pub(crate) fn server(&self) -> &ServerProfile {
        &self.server
    }

    /// How many tools it has.
    pub(crate) fn tools(&self) -> usize {
        self.catalogue.len()
    }

    /// Something we said was stored under this id.
    pub(crate) fn published(&mut self, what: &PublishPurpose, envelope: &EnvelopeId, now: Instant) {
        if let PublishPurpose::Ask(number) = what {
            self.ask_published(*number, envelope, now);
        }
    }

    /// Something we said was not stored.
    pub(crate) fn refused(&mut self, what: &PublishPurpose, refusal: &Refusal, now: Instant) {
        match what {
            PublishPurpose::Answer(reply) => {
                let told = format!("the room did not take the answer: {}", refusal.message);
                let failure = RpcError::new(RpcError::INTERNAL, told).with_data(&json!({ "code": refusal.code }));
                // What the room refuses about this one is not its size, so nothing further could be said.
                let payload = rpc::failure(&reply.id, &failure);
                self.publish(Some(&reply.caller), Some(reply.envelope.clone()), payload, PublishPurpose::Notice);
            }
            PublishPurpose::Ask(number) => self.ask_failed(*number, &refusal.message, now),
            PublishPurpose::Progress(_) | PublishPurpose::Notice => {}
        }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn publish(
        &mut self,
        to: Option<&CallerId>,
        correlation: Option<EnvelopeId>,
        payload: Box<RawValue>,
        what: PublishPurpose,
    ) {
        let session = to.and_then(|to| to.session.clone());
        let to = to.map(|to| to.participant.clone()).into_iter().collect();
        self.actions.push_back(SwitchboardAction::Publish(Publish { to, session, correlation, payload, what }));
    }

    fn reply(&mut self, reply: ReplyAddress, payload: Box<RawValue>) {
        let (caller, envelope) = (reply.caller.clone(), reply.envelope.clone());
        self.publish(Some(&caller), Some(envelope), payload, PublishPurpose::Answer(reply));
    }

    fn reply_empty(&mut self, reply: ReplyAddress) {
        let payload = rpc::response(&reply.id, &empty());
        self.reply(reply, payload);
    }

    fn refuse(&mut self, reply: ReplyAddress, failure: &RpcError) {
        let payload = rpc::failure(&reply.id, failure);
        self.reply(reply, payload);
    }

    fn send(&mut self, lane: LaneId, text: Box<RawValue>) {
        self.actions.push_back(SwitchboardAction::Send { lane, request: None, text: text.into(), headers: Vec::new() });
    }

    /// Every call of a lane or a caller, in the order they were made.
    fn calls_where(&self, wanted: impl Fn(&LaneCall) -> bool) -> Vec<u64> {
        self.calls.iter().filter(|(_, call)| wanted(call)).map(|(number, _)| *number).collect()
    }

    fn is_own(&self, lane: LaneId) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| lane.owner.is_some())
    }

    fn era_of(&self, lane: LaneId) -> Era {
        self.lanes.get(&lane).map_or(Era::Legacy, |lane| lane.era)
    }

    /// Whether a call's caller must be told of it in another era than its server speaks.
    fn is_translated(&self, call: &LaneCall) -> bool {
        matches!(&call.origin, Origin::Caller(asked) if !asked.modern) && self.era_of(call.lane) == Era::Modern
    }
}

fn empty() -> Box<RawValue> {
    to_raw_value(&json!({})).expect("an empty object can be written")
}
