//! The Machine Context Protocol 1.0: messages with a header and a payload, over a WebSocket or over HTTP.
//!
//! One value per session: a WebSocket, or all that one participant sends and hears over HTTP in a topic. A request is a tool call to
//! somebody in the room ([`calls`], made by [`callers`]); who registers tools is an MCP server there, and calls come as requests of this protocol
//! ([`service`]); everything else is a notification ([`news`]). A message's `messageId` is its envelope's id.
//!
//! Invariants: a request is answered once. A token in a message goes no further than [`message`]. Deliberately absent: sockets, keys,
//! and the store behind the `context` tool, which is the gateway's like any other tool.

mod asides;
mod callers;
mod calls;
mod integrity;
mod message;
mod news;
mod opening;
mod registering;
mod registry;
mod schema;
mod service;
mod speech;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_protocol::{
    CloseReason, Code, Compose, Draft, EnvelopeId, Kind as EnvelopeKind, Limits, ParticipantId, Refusal, SessionId,
    Sessions, Timestamp, TopicName,
};
use serde_json::value::RawValue;

use crate::streams::{Bound, Channel, PostStyle, StreamOptions, StreamReply, Streams};
use crate::{CatalogueAnswer, CatalogueQuery, Dialect, EventFrame, Frame, Stamps, StreamId, Ticket};
use asides::{Aside, Asides};
use callers::{MachinePeer, SentRequest};
use calls::MachineCall;
use message::{MessageKind, malformed};
use opening::{DialectAction, DialectEvent};
use registering::{Allowance, Registered};
use registry::Registry;
use service::{DoorReply, IncomingCall, MAX_REPLIES};
use speech::OutgoingMessage;

pub use integrity::{Algorithm, Seal, SignedForm, Terms, Verify, Vouch, signed_form};
pub use message::{MachineMessage, UnverifiedMessage};
pub use opening::MachineOpening;
pub use speech::{error_text, status};

/// Messages that may wait for the seat.
const MAX_EARLY: usize = 64;

/// What does not change while a session lasts.
#[derive(Debug, Clone)]
pub struct MachineOptions {
    /// Who the client is in the room.
    pub me: ParticipantId,
    /// The room.
    pub topic: TopicName,
    /// Bounds on what it sends.
    pub limits: Limits,
    /// What its messages are held to; `None` where that has been seen to before they come here.
    pub terms: Option<Terms>,
    /// How long a session without open streams lasts.
    pub idle: Option<Duration>,
    /// The gateway's version.
    pub version: &'static str,
}

/// Whether the client has its seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MachineSeatState {
    Outside,
    Entering,
    Inside,
}

/// What falls due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum MachineTimer {
    /// It takes too long to find out what the participant of a request offers.
    Consulting(EnvelopeId),
    /// A deadline of a participant's caller.
    Caller(ParticipantId),
    /// The client has been silent about a request for too long.
    Incoming(EnvelopeId),
    /// Replies that the room did not take are sent again.
    Replies,
    /// And so is what else it did not take.
    Asides,
    /// Nobody is connected.
    Idle,
}

/// What a draft was for, so that its outcome can be reported.
#[derive(Debug)]
enum Purpose {
    /// A request in the client's name: a call, or a handshake.
    Request(EnvelopeId),
    /// A notification of the client's.
    Notification { stream: StreamId, id: Option<EnvelopeId> },
    /// The client's answer to a request, which can be given again should the room not take it.
    Answer { stream: StreamId, id: Option<EnvelopeId>, request: EnvelopeId, incoming: Box<IncomingCall> },
    /// The news that tools have changed; the old state is kept until it is sent.
    Registered(Box<Registered>),
    /// A reply in the client's name.
    Reply(Box<DoorReply>),
    /// The door's own.
    Aside(Box<Aside>),
}

impl Purpose {
    /// The stream that waits to hear what became of it, and the message that came by it.
    fn waiting(&self) -> Option<(StreamId, Option<&EnvelopeId>)> {
        match self {
            Self::Notification { stream, id } | Self::Answer { stream, id, .. } => Some((*stream, id.as_ref())),
            Self::Registered(registered) => Some((registered.stream, Some(&registered.id))),
            Self::Request(_) | Self::Reply(_) | Self::Aside(_) => None,
        }
    }
}

/// One client.
#[derive(Debug)]
pub struct Machine {
    options: MachineOptions,
    stamps: Stamps,
    seat_state: MachineSeatState,
    /// What came before the seat.
    early: VecDeque<(StreamId, MachineMessage)>,
    peers: BTreeMap<ParticipantId, MachinePeer>,
    calls: HashMap<EnvelopeId, MachineCall>,
    /// Requests in the client's name that are in the room, or on their way there.
    sent: HashMap<EnvelopeId, SentRequest>,
    registry: Registry,
    allowance: Allowance,
    /// Requests to the client that it has not answered.
    incoming: HashMap<EnvelopeId, IncomingCall>,
    /// Replies that are on their way into the room, and those it had too much to take.
    replying: usize,
    unsent_replies: Vec<DoorReply>,
    /// What else the room has not taken.
    asides: Asides,
    /// Whether nothing can be stored for now.
    is_out: bool,
    /// The last requests that changed what is registered.
    changed: VecDeque<EnvelopeId>,
    published: HashMap<u64, Purpose>,
    /// Tells this session from others of the same participant.
    session: SessionId,
    streams: Streams<CatalogueQuery>,
    timers: BTreeSet<(Instant, MachineTimer)>,
    tickets: u64,
    actions: VecDeque<DialectAction>,
    closing: Option<CloseReason>,
}

impl Machine {
    /// A session before its first message.
    pub fn new(options: MachineOptions, mut stamps: Stamps, now: Instant) -> Self {
        let mut timers = BTreeSet::new();
        if let Some(idle) = options.idle {
            timers.insert((now + idle, MachineTimer::Idle));
        }
        let (tag, _) = stamps.next(now);
        let session = stamps.session();
        Self {
            options,
            stamps,
            seat_state: MachineSeatState::Outside,
            early: VecDeque::new(),
            peers: BTreeMap::new(),
            calls: HashMap::new(),
            sent: HashMap::new(),
            registry: Registry::default(),
            allowance: Allowance::new(now),
            incoming: HashMap::new(),
            replying: 0,
            unsent_replies: Vec::new(),
            asides: Asides::default(),
            is_out: false,
            changed: VecDeque::new(),
            published: HashMap::new(),
            session,
            streams: Streams::new(stream_options(tag), now),
            timers,
            tickets: 0,
            actions: VecDeque::new(),
            closing: None,
        }
    }

    fn join(&mut self) {
        if self.seat_state == MachineSeatState::Outside {
            self.seat_state = MachineSeatState::Entering;
            self.actions.push_back(DialectAction::Join(Box::default()));
        }
    }

    /// Proposes an envelope in the client's name.
    fn publish(
        &mut self,
        (id, ts): (&str, Timestamp),
        to: &[ParticipantId],
        correlation: Option<&EnvelopeId>,
        payload: Box<RawValue>,
        purpose: Purpose,
    ) -> Result<EnvelopeId, (Refusal, Purpose)> {
        let compose = Compose {
            id,
            ts,
            from: &self.options.me,
            to,
            kind: EnvelopeKind::Mcp,
            correlation_id: correlation.map(EnvelopeId::as_str),
            payload,
        };
        // Only those that are addressed may keep something for the session.
        let from_session = (!to.is_empty()).then_some(&self.session);
        let text = compose.text_between(Sessions { from_session, to_session: None });
        let draft = match Draft::parse(text, &self.options.limits) {
            Ok(draft) => draft,
            Err(refusal) => return Err((refusal, purpose)),
        };
        let id = draft.envelope().id().clone();
        self.tickets += 1;
        let (ticket, draft) = (Ticket(self.tickets), Box::new(draft));
        self.actions.push_back(match &purpose {
            Purpose::Reply(_) => DialectAction::Reply(ticket, draft),
            _ => DialectAction::Publish(ticket, draft),
        });
        self.published.insert(self.tickets, purpose);
        Ok(id)
    }

    /// Answers a message by saying no to it.
    fn refuse(&mut self, stream: StreamId, refusal: &Refusal, now: Instant) {
        let text = self.error_text(refusal, now);
        self.streams.answer_on(stream, status(refusal.code), StreamReply::Refusal(refusal.code, text.into()));
    }

    fn error_text(&mut self, refusal: &Refusal, now: Instant) -> String {
        let (id, at) = self.stamps.next(now);
        error_text(refusal, &id, at, Some(&self.options.me))
    }

    /// Opens a WebSocket whose first message came before it was known who sends it.
    pub fn begin(&mut self, first: UnverifiedMessage, now: Instant) {
        self.handle_event(DialectEvent::StreamOpened(StreamId::ONLY, MachineOpening::Duplex), now);
        let message = first.verify(&self.options.me, self.options.terms.as_ref());
        self.hear(StreamId::ONLY, message, now);
        self.answer_undelivered(now);
    }

    fn hear(&mut self, stream: StreamId, message: Result<MachineMessage, Refusal>, now: Instant) {
        match message {
            Err(refusal) => self.refuse(stream, &refusal, now),
            Ok(message) if self.seat_state == MachineSeatState::Inside => self.serve(stream, message, now),
            Ok(message) if self.early.len() >= MAX_EARLY => {
                let told = "too many messages before the room was entered";
                self.refuse(stream, &Refusal::new(Code::RateLimited, told).regarding(message.id), now);
            }
            Ok(message) => {
                self.join();
                self.early.push_back((stream, message));
            }
        }
    }

    /// Sees to a message of a client that has its seat.
    fn serve(&mut self, stream: StreamId, spoken: MachineMessage, now: Instant) {
        let id = spoken.id.clone();
        let served = match &spoken.kind {
            MessageKind::Request => self.request(stream, spoken, now),
            MessageKind::Response | MessageKind::Error => self.answered(stream, spoken, now),
            MessageKind::Notification | MessageKind::Extension(_) => self.notify(stream, spoken, now),
        };
        if let Err(refusal) = served {
            self.refuse(stream, &refusal.regarding(id), now);
        }
    }

    fn accepted(&mut self, ticket: Ticket, repeated: bool, now: Instant) {
        match self.published.remove(&ticket.0) {
            Some(Purpose::Notification { stream, .. } | Purpose::Answer { stream, .. }) => {
                self.streams.answer_on(stream, 202, StreamReply::Empty);
            }
            // Its answer, if there was one, went to the stream that sent it first.
            Some(Purpose::Registered(registered)) if repeated => self.unregistered(*registered, sent_before(), now),
            Some(Purpose::Request(id)) if repeated => self.request_failed(&id, &sent_before(), now),
            Some(Purpose::Registered(registered)) => self.registered(*registered, now),
            Some(Purpose::Reply(_)) => self.replying -= 1,
            Some(Purpose::Aside(_)) => self.aside_stored(),
            Some(Purpose::Request(_)) | None => {}
        }
    }

    fn not_accepted(&mut self, ticket: Ticket, refusal: Refusal, now: Instant) {
        let Some(purpose) = self.published.remove(&ticket.0) else { return };
        self.undo(purpose, refusal, now);
    }

    /// A draft will not be stored.
    fn undo(&mut self, purpose: Purpose, mut refusal: Refusal, now: Instant) {
        match purpose {
            Purpose::Request(id) => self.request_failed(&id, &refusal, now),
            Purpose::Notification { stream, id } => {
                refusal.regarding = id;
                self.refuse(stream, &refusal, now);
            }
            Purpose::Answer { stream, id, request, incoming } => {
                match refusal.code {
                    // Nobody waits for it any more.
                    Code::CorrelationMismatch | Code::CallEnded => {}
                    // It would be refused again: the caller is told, and waits no more.
                    Code::TooLarge | Code::TooDeep | Code::StorageFull => {
                        self.fail_caller(request, *incoming, &refusal, now);
                    }
                    _ => self.wait_for(request, *incoming),
                }
                refusal.regarding = id;
                self.refuse(stream, &refusal, now);
            }
            Purpose::Registered(registered) => self.unregistered(*registered, refusal, now),
            Purpose::Reply(reply) => {
                self.replying -= 1;
                self.not_replied(*reply, &refusal, now);
            }
            Purpose::Aside(aside) => self.aside_refused(*aside, &refusal, now),
        }
    }

    fn seated(&mut self, now: Instant) {
        self.seat_state = MachineSeatState::Inside;
        for (stream, spoken) in std::mem::take(&mut self.early) {
            self.serve(stream, spoken, now);
        }
    }

    fn not_seated(&mut self, refusal: &Refusal, now: Instant) {
        self.seat_state = MachineSeatState::Outside;
        for (stream, spoken) in std::mem::take(&mut self.early) {
            // The session has counted the refused join.
            let text = self.error_text(&refusal.clone().regarding(spoken.id), now);
            self.streams.answer_on(stream, status(refusal.code), StreamReply::Text(text.into()));
        }
        self.end(CloseReason::Bye, now);
    }

    /// Ends the session once everything has been sent. A message whose storage is uncertain is answered with an error that says so.
    fn end(&mut self, reason: CloseReason, now: Instant) {
        let told = "the session ended before it was known whether the message was stored; with the same `messageId` it is stored once";
        let refusal = Refusal::new(Code::Closing, told);
        for stream in self.streams.unanswered() {
            let mut waiting = self.published.values().filter_map(Purpose::waiting);
            let id = waiting.find(|(waiting, _)| *waiting == stream).and_then(|(_, id)| id.cloned());
            self.refuse(stream, &refusal.clone().regarding(id), now);
        }
        self.streams.close_all();
        self.closing.get_or_insert(reason);
    }

    /// Answers everything that is open, and ends the session.
    fn close(&mut self, why: &str, reason: CloseReason, now: Instant) {
        let refusal = Refusal::new(Code::Closing, why);
        for (stream, spoken) in std::mem::take(&mut self.early) {
            self.refuse(stream, &refusal.clone().regarding(spoken.id), now);
        }
        let mut open: Vec<EnvelopeId> = self.calls.keys().cloned().collect();
        open.sort_unstable();
        for id in open {
            self.fail(&id, &refusal, now);
        }
        self.end(reason, now);
    }

    /// Tells the client whether the room stores and delivers messages.
    fn notify_outage(&mut self, over: bool, now: Instant) {
        let (id, at) = self.stamps.next(now);
        let gateway = ParticipantId::host();
        let message = OutgoingMessage::new("notification", &id, at, &gateway, Some(&self.options.me));
        let aside_stored = if over { salon_protocol::system::READY } else { salon_protocol::system::OUTAGE };
        self.notify_client(
            message.with("outage", &serde_json::json!({ "over": over, "message": aside_stored })).text(),
        );
    }

    /// A stream listens, and gets a notice if messages are lost.
    fn listen(&mut self, stream: StreamId, after: Option<&str>, now: Instant) {
        let (id, at) = self.stamps.next(now);
        let gateway = ParticipantId::host();
        let missing = self.streams.missing(after);
        let gap = (missing > 0).then(|| {
            let message = OutgoingMessage::new("notification", &id, at, &gateway, Some(&self.options.me));
            let data = message.with("gap", &serde_json::json!({ "messages": missing })).text().into();
            // Without an id: a listener that comes back names the last message that it has.
            EventFrame { name: Some("message"), id: None, retry: None, data }
        });
        self.streams.listen(stream, after, gap, true);
    }

    /// Says something to the client that answers no message of its own.
    fn notify_client(&mut self, text: String) {
        self.streams.say(Channel::SESSION, text);
    }

    fn idle(&mut self, now: Instant) {
        let Some(idle) = self.options.idle else { return };
        // What is still to be sent goes out first.
        let due = self.streams.idle_at(idle, self.asides.len() > 0, now);
        if due <= now {
            self.end(CloseReason::Bye, now);
        } else {
            self.timers.insert((due, MachineTimer::Idle));
        }
    }
}

impl Dialect for Machine {
    type Opening = MachineOpening;
    type Query = CatalogueQuery;
    type Answer = CatalogueAnswer;

    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        self.streams.touch(now);
        let message = match frame {
            Frame::Text(text) => {
                let MachineOptions { me, limits, terms, .. } = &self.options;
                UnverifiedMessage::parse(text, limits).verify(me, terms.as_ref())
            }
            _ => Err(malformed("a message is text, not binary")),
        };
        self.hear(stream, message, now);
        self.answer_undelivered(now);
    }

    fn handle_event(&mut self, event: DialectEvent, now: Instant) {
        self.streams.pass_time(now);
        match event {
            DialectEvent::Joined(joined) => {
                self.meet(&joined.roster);
                self.seated(now);
            }
            DialectEvent::NotJoined(refusal) => self.not_seated(&refusal, now),
            DialectEvent::Accepted { ticket, repeated, .. } => self.accepted(ticket, repeated, now),
            DialectEvent::Held { ticket, held } => {
                self.accepted(ticket, false, now);
                self.held(&held.id, now);
            }
            // Messages of this protocol are for who is there.
            DialectEvent::Absent { .. } => {}
            DialectEvent::Refused { ticket, refusal } => self.not_accepted(ticket, refusal, now),
            DialectEvent::Entry(entry) => self.overhear(&entry, now),
            DialectEvent::CallFailed { request, callee, cause, reason, .. } => {
                self.request_failed(&request, &cause.refusal(&callee, reason.as_deref()), now);
            }
            DialectEvent::Outage => self.outage(true, now),
            DialectEvent::Recovered => self.outage(false, now),
            DialectEvent::Gap => {
                self.close("messages of the room that concern you are no longer kept", CloseReason::Bye, now)
            }
            DialectEvent::Answered(CatalogueAnswer { query, items }) => self.consulted(&query.who, items, now),
            DialectEvent::StreamOpened(stream, opening) => {
                self.streams.touch(now);
                match opening {
                    MachineOpening::Duplex => self.streams.open_duplex(stream),
                    MachineOpening::Listen(after) => self.listen(stream, after.as_deref(), now),
                    MachineOpening::Post(message) => {
                        self.streams.post(stream, 1, PostStyle::default());
                        self.join();
                        self.hear(stream, message.map(|message| *message), now);
                    }
                }
                self.join();
            }
            DialectEvent::StreamClosed(stream) => {
                self.streams.touch(now);
                if self.streams.closed(stream).is_some() {
                    self.hung_up(stream, now);
                }
            }
            DialectEvent::Closing(reason) => self.close(&reason.to_string(), reason, now),
        }
        self.answer_undelivered(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            match self.timers.pop_first() {
                Some((_, MachineTimer::Consulting(id))) => self.not_consulted(&id, now),
                Some((_, MachineTimer::Caller(who))) => self.caller_due(&who, now),
                Some((_, MachineTimer::Incoming(id))) => self.unanswered(&id, now),
                Some((_, MachineTimer::Replies)) => self.reply_again(),
                Some((_, MachineTimer::Asides)) => self.retry_asides(),
                Some((_, MachineTimer::Idle)) => self.idle(now),
                None => {}
            }
        }
        self.answer_undelivered(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn poll_action(&mut self) -> Option<DialectAction> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        // What is left to be said goes out before the end does.
        self.streams.poll_action().or_else(|| self.closing.take().map(DialectAction::Close))
    }

    /// What others ask waits in the room while replies to them do not get in.
    fn ready(&self) -> bool {
        self.replying + self.unsent_replies.len() < MAX_REPLIES
    }
}

/// What the streams of a session are held to. Events are told from those of an earlier session of the same participant by `tag`.
fn stream_options(tag: String) -> StreamOptions {
    let bound = Bound { count: 512, bytes: 2 << 20 };
    let tag = Some(tag.into());
    StreamOptions { session_header: None, tag, unread: bound, replay: bound, polled: bound }
}

/// The refusal of a request whose id is taken in the room.
fn sent_before() -> Refusal {
    Refusal::new(Code::IdConflict, "a request with this `messageId` was sent before, and it is answered once")
}

fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a value has only string keys")
}
