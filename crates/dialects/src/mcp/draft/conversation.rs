//! A session with a client that speaks the dialect: its streams, and the door behind it.
//!
//! The door is spoken to over one stream that lasts, whatever the client comes by: which of the client's own streams a message belongs
//! on is decided here. Invariant: a request is answered once, on the stream it came by or, where it was polled, by a poll.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use salon_mcp::RpcHead;
use salon_protocol::CloseReason;

use super::client::{ClientAction, DraftClient};
use crate::mcp::door::{
    Body, BodyMessages, DialectAction, DialectEvent, Door, ErrorBody, Listen, McpDoorOptions, PollBody, Post,
    PostRoute, RoomQuery, refusal_code, stream_options,
};
use crate::streams::{Channel, PostStyle, STREAM_OPEN_DELAY, Streams};
use crate::{Dialect, Frame, StreamId};

/// How long a client that shuts down has to say `exit`.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The door's one stream.
const DOOR: StreamId = StreamId::ONLY;

/// Something that the client says.
#[derive(Debug)]
pub(super) enum ArrivingRequest {
    /// On a stream that lasts.
    Frame(Result<Body, ErrorBody>),
    Post(Post),
    Poll(Duration, Result<PollBody, ErrorBody>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DraftTimer {
    /// A client that shuts down has not left.
    LastWord,
    /// The client has been silent for long.
    Idle,
}

#[derive(Debug)]
pub(super) struct Conversation {
    client: DraftClient<Channel>,
    streams: Streams<RoomQuery>,
    idle: Option<Duration>,
    timers: BTreeSet<(Instant, DraftTimer)>,
    actions: VecDeque<DialectAction>,
    /// The room was left, and nothing more is sent.
    ended: bool,
}

impl Conversation {
    pub(super) fn new(options: &McpDoorOptions, now: Instant) -> Self {
        let mut timers = BTreeSet::new();
        if let Some(idle) = options.idle {
            timers.insert((now + idle, DraftTimer::Idle));
        }
        Self {
            client: DraftClient::new(),
            streams: Streams::new(stream_options(options.session.clone()), now),
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

    pub(super) fn poll_action(&mut self) -> Option<DialectAction> {
        self.actions.pop_front()
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.streams.poll_timeout()).min()
    }

    /// The client listens.
    pub(super) fn listen(&mut self, stream: StreamId, listen: &Listen, now: Instant) {
        self.streams.touch(now);
        listen.open(&mut self.streams, stream);
    }

    /// The client hung up a stream.
    pub(super) fn closed(&mut self, stream: StreamId, now: Instant) {
        self.streams.touch(now);
        self.streams.closed(stream);
    }

    /// The client says something.
    pub(super) fn hear(&mut self, stream: StreamId, arrival: ArrivingRequest, now: Instant) {
        self.streams.touch(now);
        match arrival {
            ArrivingRequest::Frame(body) => self.receive_body(stream, None, body, now),
            ArrivingRequest::Post(Post { body, apart, .. }) => self.receive_body(stream, Some(apart), body, now),
            ArrivingRequest::Poll(_, Err(fault)) => self.refuse(stream, true, &fault),
            ArrivingRequest::Poll(wait, Ok(body)) => self.receive_poll(stream, body, now + wait),
        }
    }

    fn refuse(&mut self, stream: StreamId, by_request: bool, fault: &ErrorBody) {
        self.actions.push_back(DialectAction::Refused(refusal_code(&fault.error)));
        match by_request {
            true => self.streams.refuse(stream, fault.status, &*fault.message()),
            false => self.streams.answer(Channel::SESSION, fault.status, &*fault.message()),
        }
    }

    /// Hears a frame or a POST; `apart` says of a POST whether its answer goes to the session's stream.
    fn receive_body(&mut self, stream: StreamId, apart: Option<bool>, body: Result<Body, ErrorBody>, now: Instant) {
        let message = body.and_then(|body| match body {
            Body { messages: BodyMessages::Batch(_), .. } => {
                Err(ErrorBody::invalid("the draft dialect has no batches; only a poll brings several messages"))
            }
            Body { route: PostRoute::Modern, .. } => Err(not_draft()),
            Body { messages: BodyMessages::One(message), .. } => Ok(message),
        });
        let message = match message {
            Ok(message) => message,
            Err(fault) => return self.refuse(stream, apart.is_some(), &fault),
        };
        let channel = match apart {
            None => Channel::SESSION,
            Some(true) => {
                self.streams.accept(stream);
                Channel::SESSION
            }
            Some(false) => {
                let style = PostStyle { resumable: true, prime: false, session_header: message.is_initialize() };
                self.streams.post(stream, usize::from(message.is_request()), style)
            }
        };
        self.streams.open_at(channel, Some(now + STREAM_OPEN_DELAY));
        // What comes apart from its answer is answered where everything else is sent.
        self.client.hear(&message.head(), channel);
    }

    fn receive_poll(&mut self, stream: StreamId, PollBody(messages): PollBody, until: Instant) {
        let mut names_session = false;
        for message in messages {
            match message.and_then(|message| if message.is_modern() { Err(not_draft()) } else { Ok(message) }) {
                Ok(message) => {
                    names_session |= message.is_initialize();
                    self.client.hear(&message.head(), Channel::POLLS);
                }
                Err(fault) => {
                    self.actions.push_back(DialectAction::Refused(refusal_code(&fault.error)));
                    self.streams.say(Channel::POLLS, fault.message().get());
                }
            }
        }
        self.streams.poll(stream, until, names_session);
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
                DraftTimer::LastWord => self.leave(door, now),
                DraftTimer::Idle => self.idle(door, now),
            }
        }
    }

    fn idle(&mut self, door: &mut Door, now: Instant) {
        let Some(idle) = self.idle else { return };
        let due = self.streams.idle_at(idle, self.client.is_waiting(), now);
        if due <= now {
            self.leave(door, now);
        } else {
            self.timers.insert((due, DraftTimer::Idle));
        }
    }

    /// The client leaves the room; whatever it waits for is answered first.
    fn leave(&mut self, door: &mut Door, now: Instant) {
        self.client.give_up("the session ended before this was answered");
        door.handle_event(DialectEvent::Closing(CloseReason::Bye), now);
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
            while let Some(action) = self.client.poll() {
                self.does(action, door, now);
            }
            match door.poll_action() {
                Some(DialectAction::Send(_, Frame::Text(text)) | DialectAction::Refuse(_, _, Frame::Text(text))) => {
                    self.client.receive_from_door(&text);
                }
                Some(DialectAction::Close(reason)) => self.end(reason),
                Some(other) => self.actions.push_back(other),
                None => break,
            }
        }
    }

    fn does(&mut self, action: ClientAction<Channel>, door: &mut Door, now: Instant) {
        match action {
            ClientAction::Door(message) => door.handle_frame(DOOR, Frame::Text(message.get().into()), now),
            ClientAction::Answer(channel, message) => {
                if RpcHead::read(message.get()).is_some_and(|head| head.error.is_some()) {
                    // A handshake that failed began no session.
                    self.streams.unname(channel);
                }
                self.streams.answer(channel, 200, &*message);
            }
            ClientAction::About(channel, message) => drop(self.streams.say(channel, message.get())),
            ClientAction::Tell(message) => drop(self.streams.say(Channel::SESSION, message.get())),
            ClientAction::Refused(error) => self.actions.push_back(DialectAction::Refused(refusal_code(&error))),
            ClientAction::ShuttingDown => drop(self.timers.insert((now + EXIT_TIMEOUT, DraftTimer::LastWord))),
            ClientAction::Leave => self.leave(door, now),
        }
    }

    fn end(&mut self, reason: CloseReason) {
        self.ended = true;
        self.timers.clear();
        self.streams.close_all();
        self.actions.extend(std::iter::from_fn(|| self.streams.poll_action()));
        self.actions.push_back(DialectAction::Close(reason));
    }
}

/// The answer to a message of the modern era.
fn not_draft() -> ErrorBody {
    ErrorBody::invalid("this session speaks the draft dialect of 2025-06-18")
}
