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
use crate::mcp::door::{
    Action, CatalogueQuery, Door, Event, McpOpening, Options, Post, Route, refusal_code, route, stream_options,
};
use crate::streams::{Channel, PostStyle, STREAM_OPEN_DELAY, Streams};
use crate::{Dialect, Frame, StreamId};

/// Messages one poll may bring.
const MAX_IN_POLL: usize = 64;
/// How long a client that shuts down has to say `exit`.
const LAST_WORD: Duration = Duration::from_secs(10);

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// The door's one stream.
const DOOR: StreamId = StreamId::ONLY;

/// A request over HTTP whose body has not come.
#[derive(Debug)]
enum Arrival {
    Post(Post),
    Poll(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A client that shuts down has not left.
    LastWord,
    /// Nothing has been heard for long.
    Idle,
}

#[derive(Debug)]
pub(super) struct Conversation {
    client: Client<Channel>,
    streams: Streams<CatalogueQuery>,
    arrivals: HashMap<StreamId, Arrival>,
    idle: Option<Duration>,
    timers: BTreeSet<(Instant, Due)>,
    actions: VecDeque<Action>,
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
            streams: Streams::new(stream_options(options.session.clone()), now),
            arrivals: HashMap::new(),
            idle: options.idle,
            timers,
            actions: VecDeque::new(),
            ended: false,
        }
    }

    /// The client and the door have one stream for life.
    pub(super) fn over_duplex(mut self) -> Self {
        self.streams.open_duplex(DOOR);
        self
    }

    /// The client comes by HTTP; a stream of events may have been opened before.
    pub(super) fn over_http(mut self, listening: Option<StreamId>) -> Self {
        if let Some(stream) = listening {
            self.streams.adopt(stream);
        }
        self
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.streams.poll_timeout()).min()
    }

    /// Something happens to one of the client's streams.
    pub(super) fn stream(&mut self, stream: StreamId, opening: Option<McpOpening>, now: Instant) {
        self.streams.touch(now);
        match opening {
            Some(McpOpening::Duplex) => {}
            Some(McpOpening::Post(post)) => drop(self.arrivals.insert(stream, Arrival::Post(post))),
            Some(McpOpening::Poll(wait)) => drop(self.arrivals.insert(stream, Arrival::Poll(wait))),
            Some(McpOpening::Listen(listen)) => {
                listen.open(&mut self.streams, stream);
            }
            None => {
                self.arrivals.remove(&stream);
                self.streams.closed(stream);
            }
        }
    }

    /// The client says something, on a stream that may have been announced.
    pub(super) fn hear(&mut self, stream: StreamId, frame: &Frame, now: Instant) {
        self.streams.touch(now);
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
            true => self.streams.refuse(stream, 400, message),
            false => self.streams.answer(Channel::SESSION, 400, message),
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
                self.streams.accept(stream);
                Channel::SESSION
            }
            Some(_) => {
                let style = PostStyle { resumable: true, prime: false, session_header: is_hello };
                self.streams.post(stream, usize::from(is_request), style)
            }
        };
        self.streams.open_at(channel, Some(now + STREAM_OPEN_DELAY));
        // What comes apart from its answer is answered where everything else is told.
        self.client.hear(&head, channel);
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
        let mut names_session = false;
        for message in messages {
            match self.read(message.get()) {
                Ok(head) => {
                    names_session |= head.method.as_deref() == Some("initialize");
                    self.client.hear(&head, Channel::POLLS);
                }
                Err(fault) => {
                    self.actions.push_back(Action::Refused(code_of(&fault)));
                    self.streams.say(Channel::POLLS, fault.get());
                }
            }
        }
        self.streams.poll(stream, now + wait, names_session);
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
        self.streams.pass_time(now);
    }

    pub(super) fn handle_timeout(&mut self, door: &mut Door, now: Instant) {
        self.happens(now);
        self.streams.handle_timeout(now);
        while let Some(&(at, due)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            match due {
                Due::LastWord => self.leave(door, now),
                Due::Idle => self.idle(door, now),
            }
        }
    }

    fn idle(&mut self, door: &mut Door, now: Instant) {
        let Some(idle) = self.idle else { return };
        let due = self.streams.idle_at(idle, self.client.is_waiting(), now);
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
        // The client learns by its session's end that it has missed something.
        if self.streams.take_overflow() {
            self.leave(door, now);
            self.pass_on(door, now);
        }
        if !self.ended {
            self.streams.answer_polls(now);
            self.actions.extend(std::iter::from_fn(|| self.streams.poll_action()));
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
                Some(Action::Close(reason)) => self.end(reason),
                Some(other) => self.actions.push_back(other),
                None => break,
            }
        }
    }

    fn does(&mut self, deed: Deed<Channel>, door: &mut Door, now: Instant) {
        match deed {
            Deed::Door(message) => door.handle_frame(DOOR, Frame::Text(message.get().into()), now),
            Deed::Answer(channel, message) => {
                if Head::read(message.get()).is_some_and(|head| head.error.is_some()) {
                    // A handshake that failed began no session.
                    self.streams.unname(channel);
                }
                self.streams.answer(channel, 200, &*message);
            }
            Deed::About(channel, message) => drop(self.streams.say(channel, message.get())),
            Deed::Tell(message) => drop(self.streams.say(Channel::SESSION, message.get())),
            Deed::Refused(error) => self.actions.push_back(Action::Refused(refusal_code(&error))),
            Deed::ShuttingDown => drop(self.timers.insert((now + LAST_WORD, Due::LastWord))),
            Deed::Leave => self.leave(door, now),
        }
    }

    fn end(&mut self, reason: CloseReason) {
        self.ended = true;
        self.timers.clear();
        self.streams.close_all();
        self.actions.extend(std::iter::from_fn(|| self.streams.poll_action()));
        self.actions.push_back(Action::Close(reason));
    }
}

/// The code of a whole answer that is an error.
fn code_of(message: &RawValue) -> Code {
    let error = Head::read(message.get()).and_then(|head| head.error);
    let error = error.and_then(|error| serde_json::from_str(error.get()).ok());
    error.map_or(Code::InvalidEnvelope, |error: RpcError| refusal_code(&error))
}
