//! A session with a client that speaks the dialect: its streams, and the door behind it.
//!
//! The door is spoken to over one stream that lasts, whatever the client comes by: which of the client's own streams a message belongs
//! on is decided here. Invariant: a request is answered once, on the stream it came by or, where it was polled, by a poll.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_mcp::Head;
use salon_protocol::{CloseReason, Code, RpcError, rpc};
use serde_json::value::RawValue;

use super::client::{Client, Deed};
use super::polls::{Polls, TooMuch};
use crate::mcp::door::outlets::{Channel, Outlets, Style};
use crate::mcp::door::{Action, Door, Event, McpOpening, Options, Post, Route, refusal_code, route};
use crate::{Dialect, Frame, StreamId};

/// Messages one poll may bring.
const MAX_IN_POLL: usize = 64;
/// How long a request over HTTP may be silent before its stream is opened, so that nothing on the way takes it for dead.
const SLOW: Duration = Duration::from_secs(5);
/// How long a client that shuts down has to say `exit`.
const LAST_WORD: Duration = Duration::from_secs(10);

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// The door's one stream.
const DOOR: StreamId = StreamId::ONLY;

/// Where a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Channel(Channel),
    Poll,
}

/// A request over HTTP whose body has not come.
#[derive(Debug)]
enum Arrival {
    Post(Post),
    Poll(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A request has been silent for long.
    Slow(Channel),
    /// A client that shuts down has not left.
    LastWord,
    /// Nothing has been heard for long.
    Idle,
}

#[derive(Debug)]
pub(super) struct Conversation {
    client: Client<Place>,
    outlets: Outlets,
    polls: Polls,
    /// Whether the client has ever polled: then what belongs to no request waits for its polls.
    polled: bool,
    arrivals: HashMap<StreamId, Arrival>,
    session: Option<Box<str>>,
    idle: Option<Duration>,
    timers: BTreeSet<(Instant, Due)>,
    heard: Instant,
    actions: VecDeque<Action>,
    /// More waited than there was room for.
    overrun: bool,
    /// The room was left, and nothing more is said.
    ended: bool,
}

impl Conversation {
    pub(super) fn new(options: &Options, now: Instant) -> Self {
        let mut timers = BTreeSet::new();
        if let Some(idle) = options.idle {
            timers.insert((now + idle, Due::Idle));
        }
        Self {
            client: Client::new(),
            outlets: Outlets::new(options.session.clone()),
            polls: Polls::default(),
            polled: false,
            arrivals: HashMap::new(),
            session: options.session.clone(),
            idle: options.idle,
            timers,
            heard: now,
            actions: VecDeque::new(),
            overrun: false,
            ended: false,
        }
    }

    /// The client and the door have one stream for life.
    pub(super) fn over_duplex(mut self) -> Self {
        self.outlets.duplex(DOOR);
        self
    }

    /// The client comes by HTTP; a stream of events may have been opened before.
    pub(super) fn over_http(mut self, listening: Option<StreamId>) -> Self {
        if let Some(stream) = listening {
            self.outlets.adopt(stream);
        }
        self
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.polls.due()).min()
    }

    /// Something happens to one of the client's streams.
    pub(super) fn stream(&mut self, stream: StreamId, opening: Option<McpOpening>, now: Instant) {
        self.heard = now;
        match opening {
            Some(McpOpening::Duplex) => {}
            Some(McpOpening::Post(post)) => drop(self.arrivals.insert(stream, Arrival::Post(post))),
            Some(McpOpening::Poll(wait)) => drop(self.arrivals.insert(stream, Arrival::Poll(wait))),
            Some(McpOpening::Listen(listen)) => {
                self.outlets.listen(stream, &listen, true);
            }
            None => {
                self.arrivals.remove(&stream);
                if !self.polls.hang_up(stream) {
                    self.outlets.closed(stream);
                }
            }
        }
    }

    /// The client says something, on a stream that may have been announced.
    pub(super) fn hear(&mut self, stream: StreamId, frame: &Frame, now: Instant) {
        self.heard = now;
        let arrival = self.arrivals.remove(&stream);
        let Frame::Text(text) = frame else {
            return self.fault(stream, arrival.is_some(), INVALID_REQUEST, "a message is text, not binary");
        };
        match arrival {
            Some(Arrival::Poll(wait)) => self.hear_poll(stream, text, wait, now),
            Some(Arrival::Post(post)) => self.hear_one(stream, Some(&post), text, now),
            None => self.hear_one(stream, None, text, now),
        }
    }

    fn fault(&mut self, stream: StreamId, by_request: bool, code: i64, told: &str) {
        let message = rpc::failure(RawValue::NULL, &RpcError::new(code, told));
        self.say_fault(stream, by_request, &message);
    }

    fn say_fault(&mut self, stream: StreamId, by_request: bool, message: &RawValue) {
        self.actions.push_back(Action::Refused(code_of(message)));
        match by_request {
            true => self.outlets.refuse(stream, 400, message),
            false => self.outlets.answer(Channel::SESSION, 400, message),
        }
    }

    fn hear_one(&mut self, stream: StreamId, post: Option<&Post>, text: &str, now: Instant) {
        let head = match self.read(text) {
            Ok(head) => head,
            Err(message) => return self.say_fault(stream, post.is_some(), &message),
        };
        let (is_request, is_hello) = (head.request_id().is_some(), head.method.as_deref() == Some("initialize"));
        let channel = match post {
            None => Channel::SESSION,
            Some(post) if post.apart => {
                self.outlets.apart(stream);
                Channel::SESSION
            }
            Some(_) => {
                let style = Style { resumable: true, prime: false, session_header: is_hello };
                self.outlets.post(stream, usize::from(is_request), style)
            }
        };
        if is_request && channel != Channel::SESSION {
            self.timers.insert((now + SLOW, Due::Slow(channel)));
        }
        // What comes apart from its answer is answered where everything else is told.
        self.client.hear(&head, Place::Channel(channel));
    }

    fn hear_poll(&mut self, stream: StreamId, text: &str, wait: Duration, now: Instant) {
        let text = text.trim_ascii();
        let messages: Vec<&RawValue> = match text.as_bytes().first() {
            None => Vec::new(),
            Some(b'[') => match serde_json::from_str(text) {
                Ok(messages) => messages,
                Err(_) => return self.fault(stream, true, PARSE_ERROR, "the body is not valid JSON"),
            },
            Some(_) => match serde_json::from_str(text) {
                Ok(message) => vec![message],
                Err(_) => return self.fault(stream, true, PARSE_ERROR, "the body is not valid JSON"),
            },
        };
        if messages.len() > MAX_IN_POLL {
            let told = format!("a poll brings at most {MAX_IN_POLL} messages");
            return self.fault(stream, true, INVALID_REQUEST, &told);
        }
        let mut session = None;
        for message in messages {
            match self.read(message.get()) {
                Ok(head) => {
                    if head.method.as_deref() == Some("initialize") {
                        session.clone_from(&self.session);
                    }
                    self.client.hear(&head, Place::Poll);
                }
                Err(fault) => {
                    self.actions.push_back(Action::Refused(code_of(&fault)));
                    self.wait(&fault);
                }
            }
        }
        self.polled = true;
        self.polls.ask(stream, now + wait, session);
    }

    /// Reads a message, or says as a whole answer why it is none.
    fn read<'a>(&self, text: &'a str) -> Result<Head<'a>, Box<RawValue>> {
        let refused = |told: &str| rpc::failure(RawValue::NULL, &RpcError::new(INVALID_REQUEST, told));
        match route(None, text) {
            Route::Refused(fault) => Err(RawValue::from_string(fault.body.into()).unwrap_or_else(|_| refused(""))),
            Route::Modern => Err(refused("this session speaks the draft dialect of 2025-06-18")),
            Route::Initialize | Route::Legacy if text.trim_ascii_start().starts_with('[') => {
                Err(refused("the draft dialect has no batches; only a poll brings several messages"))
            }
            Route::Initialize | Route::Legacy => Head::read(text).ok_or_else(|| refused("this is no JSON-RPC message")),
        }
    }

    /// Something happens in the room, or time goes by.
    pub(super) fn happens(&mut self, now: Instant) {
        // Silence is counted from the last answer.
        if self.is_attended() {
            self.heard = now;
        }
    }

    pub(super) fn handle_timeout(&mut self, door: &mut Door, now: Instant) {
        self.happens(now);
        while let Some(&(at, due)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            match due {
                Due::Slow(channel) => self.outlets.quicken(channel),
                Due::LastWord => self.leave(door, now),
                Due::Idle => self.idle(door, now),
            }
        }
    }

    fn is_attended(&self) -> bool {
        self.outlets.attended() || self.polls.is_asked()
    }

    fn idle(&mut self, door: &mut Door, now: Instant) {
        let Some(idle) = self.idle else { return };
        let busy = self.is_attended() || self.client.is_waiting();
        let due = if busy { now + idle } else { self.heard + idle };
        if due <= now {
            self.leave(door, now);
        } else {
            self.timers.insert((due, Due::Idle));
        }
    }

    /// The client leaves the room; whatever it waits for is answered first.
    fn leave(&mut self, door: &mut Door, now: Instant) {
        self.client.give_up("the session ended before this was answered");
        door.handle_event(Event::Closing(CloseReason::Bye), now);
    }

    /// Passes on what either side has said, until neither has anything more to say.
    pub(super) fn settle(&mut self, door: &mut Door, now: Instant) {
        self.pass_on(door, now);
        if std::mem::take(&mut self.overrun) {
            self.leave(door, now);
            self.pass_on(door, now);
        }
        if !self.ended {
            self.polls.answer(now, &mut self.actions);
            self.actions.extend(std::iter::from_fn(|| self.outlets.poll_action()));
        }
    }

    fn pass_on(&mut self, door: &mut Door, now: Instant) {
        while !self.ended {
            while let Some(deed) = self.client.poll() {
                self.does(deed, door, now);
            }
            match door.poll_action() {
                Some(Action::Send(_, Frame::Text(text)) | Action::Refuse(_, _, Frame::Text(text))) => {
                    self.client.hear_door(&text);
                }
                Some(Action::Close(reason)) => self.end(reason, now),
                Some(other) => self.actions.push_back(other),
                None => break,
            }
        }
    }

    fn does(&mut self, deed: Deed<Place>, door: &mut Door, now: Instant) {
        match deed {
            Deed::Door(message) => door.handle_frame(DOOR, Frame::Text(message.get().into()), now),
            Deed::Answer(Place::Channel(Channel::SESSION), message) | Deed::Tell(message) => self.tell(&message),
            Deed::Answer(Place::Channel(channel), message) => {
                self.timers.retain(|(_, due)| *due != Due::Slow(channel));
                if Head::read(message.get()).is_some_and(|head| head.error.is_some()) {
                    // A handshake that failed began no session.
                    self.outlets.unname(channel);
                }
                self.outlets.answer(channel, 200, &message);
            }
            Deed::Answer(Place::Poll, message) | Deed::About(Place::Poll, message) => self.wait(&message),
            Deed::About(Place::Channel(channel), message) => {
                let _ = self.outlets.say(channel, &message);
            }
            Deed::Refused(error) => self.actions.push_back(Action::Refused(refusal_code(&error))),
            Deed::ShuttingDown => drop(self.timers.insert((now + LAST_WORD, Due::LastWord))),
            Deed::Leave => self.leave(door, now),
        }
    }

    /// Says what belongs to no request, or is answered apart from it.
    fn tell(&mut self, message: &RawValue) {
        if self.polled && !self.outlets.is_heard() {
            self.wait(message);
        } else {
            let _ = self.outlets.say(Channel::SESSION, message);
        }
    }

    /// Has something wait for the next poll.
    fn wait(&mut self, message: &RawValue) {
        // The client learns by its session's end that it has missed something; until then no more is kept for it.
        self.overrun = self.overrun || self.polls.say(message.get()) == Err(TooMuch);
    }

    fn end(&mut self, reason: CloseReason, now: Instant) {
        self.ended = true;
        self.timers.clear();
        self.polls.close(now, &mut self.actions);
        self.outlets.close_all();
        self.actions.extend(std::iter::from_fn(|| self.outlets.poll_action()));
        self.actions.push_back(Action::Close(reason));
    }
}

/// The code of a whole answer that is an error.
fn code_of(message: &RawValue) -> Code {
    let error = Head::read(message.get()).and_then(|head| head.error);
    let error = error.and_then(|error| serde_json::from_str(error.get()).ok());
    error.map_or(Code::InvalidEnvelope, |error: RpcError| refusal_code(&error))
}
