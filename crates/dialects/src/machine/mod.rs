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
mod streams;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_protocol::{
    CloseReason, Code, Compose, Draft, EnvelopeId, Kind as EnvelopeKind, Limits, ParticipantId, Refusal, Timestamp,
    TopicName,
};
use serde_json::value::RawValue;

use crate::{CatalogueAnswer, CatalogueQuery, Dialect, Frame, Stamps, StreamId, Ticket};
use asides::{Aside, Asides};
use callers::{Peer, SentRequest};
use calls::Call;
use message::{Kind, Spoken, malformed};
use opening::{Action, Event};
use registering::{Allowance, Registered};
use registry::Registry;
use service::{Asked, MAX_REPLIES, Reply};
use speech::Message;
use streams::{Answer, Streams};

pub use integrity::{Algorithm, Seal, SignedForm, Terms, Verify, Vouch, signed_form};
pub use opening::MachineOpening;
pub use speech::{error_text, status};

/// Messages that may wait for the seat.
const MAX_EARLY: usize = 64;

/// The token in a message, for a door that finds it nowhere else.
pub fn token_in(text: &str) -> Option<String> {
    message::token_in(text)
}

/// The id of a message, if it can be read.
pub fn message_id(text: &str) -> Option<EnvelopeId> {
    message::message_id(text)
}

/// What does not change while a session lasts.
#[derive(Debug, Clone)]
pub struct Options {
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
enum Place {
    Outside,
    Entering,
    Inside,
}

/// What falls due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// It takes too long to find out what the participant of a request offers.
    Consulting(EnvelopeId),
    /// A deadline of a participant's caller.
    Caller(ParticipantId),
    /// The client has been silent about a request for too long.
    Asked(EnvelopeId),
    /// Replies that the room did not take are said again.
    Replies,
    /// And so is what else it did not take.
    Asides,
    /// Nobody is connected.
    Idle,
}

/// What a draft was for, so that its outcome can be told.
#[derive(Debug)]
enum Purpose {
    /// A request in the client's name: a call, or a handshake.
    Request(EnvelopeId),
    /// Something the client told somebody.
    Told { stream: StreamId, id: Option<EnvelopeId> },
    /// The client's answer to a request, which can be given again should the room not take it.
    Answer { stream: StreamId, id: Option<EnvelopeId>, request: EnvelopeId, asked: Box<Asked> },
    /// The news that tools have changed; how it was before is kept until it is told.
    Registered(Box<Registered>),
    /// A reply in the client's name.
    Reply(Box<Reply>),
    /// The door's own.
    Aside(Box<Aside>),
}

impl Purpose {
    /// The stream that waits to hear what became of it, and the message that came by it.
    fn waiting(&self) -> Option<(StreamId, Option<&EnvelopeId>)> {
        match self {
            Self::Told { stream, id } | Self::Answer { stream, id, .. } => Some((*stream, id.as_ref())),
            Self::Registered(registered) => Some((registered.stream, Some(&registered.id))),
            Self::Request(_) | Self::Reply(_) | Self::Aside(_) => None,
        }
    }
}

/// One client.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    stamps: Stamps,
    place: Place,
    /// What came before the seat.
    early: VecDeque<(StreamId, Spoken)>,
    peers: BTreeMap<ParticipantId, Peer>,
    calls: HashMap<EnvelopeId, Call>,
    /// Requests in the client's name that are in the room, or on their way there.
    sent: HashMap<EnvelopeId, SentRequest>,
    registry: Registry,
    allowance: Allowance,
    /// Requests to the client that it has not answered.
    asked: HashMap<EnvelopeId, Asked>,
    /// Replies that are on their way into the room, and those it had too much to take.
    replying: usize,
    late: Vec<Reply>,
    /// What else the room has not taken.
    asides: Asides,
    /// Whether nothing can be stored for now.
    is_out: bool,
    /// The last requests that changed what is registered.
    changed: VecDeque<EnvelopeId>,
    published: HashMap<u64, Purpose>,
    streams: Streams,
    timers: BTreeSet<(Instant, Due)>,
    heard: Instant,
    tickets: u64,
    actions: VecDeque<Action>,
    closing: Option<CloseReason>,
}

impl Machine {
    /// A session of which nothing has been heard yet.
    pub fn new(options: Options, mut stamps: Stamps, now: Instant) -> Self {
        let mut timers = BTreeSet::new();
        if let Some(idle) = options.idle {
            timers.insert((now + idle, Due::Idle));
        }
        let (tag, _) = stamps.next(now);
        Self {
            options,
            stamps,
            place: Place::Outside,
            early: VecDeque::new(),
            peers: BTreeMap::new(),
            calls: HashMap::new(),
            sent: HashMap::new(),
            registry: Registry::default(),
            allowance: Allowance::new(now),
            asked: HashMap::new(),
            replying: 0,
            late: Vec::new(),
            asides: Asides::default(),
            is_out: false,
            changed: VecDeque::new(),
            published: HashMap::new(),
            streams: Streams::new(tag),
            timers,
            heard: now,
            tickets: 0,
            actions: VecDeque::new(),
            closing: None,
        }
    }

    fn join(&mut self) {
        if self.place == Place::Outside {
            self.place = Place::Entering;
            self.actions.push_back(Action::Join(Box::default()));
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
        let text = Compose {
            id,
            ts,
            from: &self.options.me,
            to,
            kind: EnvelopeKind::Mcp,
            correlation_id: correlation.map(EnvelopeId::as_str),
            payload,
        }
        .text();
        let draft = match Draft::parse(text, &self.options.limits) {
            Ok(draft) => draft,
            Err(refusal) => return Err((refusal, purpose)),
        };
        let id = draft.envelope().id().clone();
        self.tickets += 1;
        let (ticket, draft) = (Ticket(self.tickets), Box::new(draft));
        self.actions.push_back(match &purpose {
            Purpose::Reply(_) => Action::Reply(ticket, draft),
            _ => Action::Publish(ticket, draft),
        });
        self.published.insert(self.tickets, purpose);
        Ok(id)
    }

    /// Answers a message by saying no to it.
    fn refuse(&mut self, stream: StreamId, refusal: &Refusal, now: Instant) {
        let text = self.error_text(refusal, now);
        self.streams.answer(stream, status(refusal.code), Answer::Refusal(refusal.code, text));
    }

    fn error_text(&mut self, refusal: &Refusal, now: Instant) -> String {
        let (id, at) = self.stamps.next(now);
        error_text(refusal, &id, at, Some(&self.options.me))
    }

    fn hear(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        let Frame::Text(text) = frame else {
            return self.refuse(stream, &malformed("a message is text, not binary"), now);
        };
        let spoken = Spoken::read(&text, &self.options.limits, &self.options.me).and_then(|spoken| {
            let judged = self.options.terms.as_ref().map_or(Ok(()), |terms| terms.check_spoken(&text, &spoken));
            judged.map(|()| spoken)
        });
        match spoken {
            Err(refusal) => self.refuse(stream, &refusal, now),
            Ok(spoken) if self.place == Place::Inside => self.serve(stream, spoken, now),
            Ok(spoken) if self.early.len() >= MAX_EARLY => {
                let told = "too many messages before the room was entered";
                self.refuse(stream, &Refusal::new(Code::RateLimited, told).regarding(spoken.id), now);
            }
            Ok(spoken) => {
                self.join();
                self.early.push_back((stream, spoken));
            }
        }
    }

    /// Sees to a message of a client that has its seat.
    fn serve(&mut self, stream: StreamId, spoken: Spoken, now: Instant) {
        let id = spoken.id.clone();
        let served = match &spoken.kind {
            Kind::Request => self.request(stream, spoken, now),
            Kind::Response | Kind::Error => self.answered(stream, spoken, now),
            Kind::Notification | Kind::Extension(_) => self.notify(stream, spoken, now),
        };
        if let Err(refusal) = served {
            self.refuse(stream, &refusal.regarding(id), now);
        }
    }

    fn accepted(&mut self, ticket: Ticket, repeated: bool, now: Instant) {
        match self.published.remove(&ticket.0) {
            Some(Purpose::Told { stream, .. } | Purpose::Answer { stream, .. }) => {
                self.streams.answer(stream, 202, Answer::Taken);
            }
            // Its answer, if there was one, went to whoever sent it first.
            Some(Purpose::Registered(registered)) if repeated => self.unregistered(*registered, sent_before(), now),
            Some(Purpose::Request(id)) if repeated => self.request_failed(&id, &sent_before(), now),
            Some(Purpose::Registered(registered)) => self.registered(*registered, now),
            Some(Purpose::Reply(_)) => self.replying -= 1,
            Some(Purpose::Aside(_)) => self.said(),
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
            Purpose::Told { stream, id } => {
                refusal.regarding = id;
                self.refuse(stream, &refusal, now);
            }
            Purpose::Answer { stream, id, request, asked } => {
                if refusal.code != Code::CorrelationMismatch {
                    self.wait_for(request, *asked);
                }
                refusal.regarding = id;
                self.refuse(stream, &refusal, now);
            }
            Purpose::Registered(registered) => self.unregistered(*registered, refusal, now),
            Purpose::Reply(reply) => {
                self.replying -= 1;
                self.not_replied(*reply, &refusal, now);
            }
            Purpose::Aside(aside) => self.not_said(*aside, &refusal, now),
        }
    }

    fn seated(&mut self, now: Instant) {
        self.place = Place::Inside;
        for (stream, spoken) in std::mem::take(&mut self.early) {
            self.serve(stream, spoken, now);
        }
    }

    fn not_seated(&mut self, refusal: &Refusal, now: Instant) {
        self.place = Place::Outside;
        for (stream, spoken) in std::mem::take(&mut self.early) {
            // The session has counted the refused join.
            let text = self.error_text(&refusal.clone().regarding(spoken.id), now);
            self.streams.answer(stream, status(refusal.code), Answer::Text(text));
        }
        self.end(CloseReason::Bye, now);
    }

    /// Ends the session once everything has been said. Whoever waits to hear whether a message was stored is told that this is not known.
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

    /// Says whether the room can be spoken in and heard.
    fn tell_outage(&mut self, over: bool, now: Instant) {
        let (id, at) = self.stamps.next(now);
        let gateway = ParticipantId::host();
        let message = Message::new("notification", &id, at, &gateway, Some(&self.options.me));
        let said = if over { salon_protocol::system::READY } else { salon_protocol::system::OUTAGE };
        self.streams.say(message.with("outage", &serde_json::json!({ "over": over, "message": said })).text());
    }

    /// Somebody listens, and is told if there is less to hear than there was.
    fn listen(&mut self, stream: StreamId, after: Option<&str>, now: Instant) {
        let (id, at) = self.stamps.next(now);
        let gateway = ParticipantId::host();
        let gone = |missing: u64| {
            let message = Message::new("notification", &id, at, &gateway, Some(&self.options.me));
            message.with("gap", &serde_json::json!({ "messages": missing })).text()
        };
        self.streams.listen(stream, after, gone);
    }

    fn idle(&mut self, now: Instant) {
        let Some(idle) = self.options.idle else { return };
        // What is still to be said is said before.
        let due = if self.streams.attended() || self.asides.len() > 0 { now + idle } else { self.heard + idle };
        if due <= now {
            self.end(CloseReason::Bye, now);
        } else {
            self.timers.insert((due, Due::Idle));
        }
    }
}

impl Dialect for Machine {
    type Opening = MachineOpening;
    type Query = CatalogueQuery;
    type Answer = CatalogueAnswer;

    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        self.heard = now;
        self.hear(stream, frame, now);
        self.answer_unheard(now);
    }

    fn handle_event(&mut self, event: Event, now: Instant) {
        // Silence is counted from when the last connection ended.
        if self.streams.attended() {
            self.heard = now;
        }
        match event {
            Event::Joined(joined) => {
                self.meet(&joined.roster);
                self.seated(now);
            }
            Event::NotJoined(refusal) => self.not_seated(&refusal, now),
            Event::Accepted { ticket, repeated, .. } => self.accepted(ticket, repeated, now),
            Event::Refused { ticket, refusal } => self.not_accepted(ticket, refusal, now),
            Event::Entry(entry) => self.overhear(&entry, now),
            Event::CallFailed { request, callee, cause, .. } => {
                self.request_failed(&request, &cause.refusal(&callee), now);
            }
            Event::Outage => self.outage(true, now),
            Event::Recovered => self.outage(false, now),
            Event::Gap => self.close("messages of the room that concern you are no longer kept", CloseReason::Bye, now),
            Event::Answered(CatalogueAnswer { query, items }) => self.consulted(&query.who, items, now),
            Event::StreamOpened(stream, opening) => {
                match opening {
                    MachineOpening::Duplex => self.streams.duplex(stream),
                    MachineOpening::Post => self.streams.post(stream),
                    MachineOpening::Listen(after) => self.listen(stream, after.as_deref(), now),
                }
                self.heard = now;
                self.join();
            }
            Event::StreamClosed(stream) => {
                self.heard = now;
                if self.streams.closed(stream) {
                    self.hung_up(stream, now);
                }
            }
            Event::Closing(reason) => self.close(&reason.to_string(), reason, now),
        }
        self.answer_unheard(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            match self.timers.pop_first() {
                Some((_, Due::Consulting(id))) => self.not_consulted(&id, now),
                Some((_, Due::Caller(who))) => self.caller_due(&who, now),
                Some((_, Due::Asked(id))) => self.unanswered(&id, now),
                Some((_, Due::Replies)) => self.reply_again(),
                Some((_, Due::Asides)) => self.say_again(),
                Some((_, Due::Idle)) => self.idle(now),
                None => {}
            }
        }
        self.answer_unheard(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn poll_action(&mut self) -> Option<Action> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        // What is left to be said goes out before the end does.
        self.streams.poll_action().or_else(|| self.closing.take().map(Action::Close))
    }

    /// What others ask waits in the room while replies to them do not get in.
    fn ready(&self) -> bool {
        self.replying + self.late.len() < MAX_REPLIES
    }
}

/// What is said to a request whose id stands in the room already.
fn sent_before() -> Refusal {
    Refusal::new(Code::IdConflict, "a request with this `messageId` was sent before, and it is answered once")
}

fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a value has only string keys")
}
