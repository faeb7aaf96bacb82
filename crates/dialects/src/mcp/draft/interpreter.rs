//! The door for MCP clients, for those too who speak the draft dialect: the first `initialize` tells.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_mcp::Head;
use salon_protocol::{Code, RpcError, rpc};
use serde_json::value::RawValue;

use super::conversation::Conversation;
use super::words;
use crate::mcp::door::{Action, Door, Event, McpOpening, Options, Post, RoomAnswer, RoomQuery, Route, route};
use crate::{Dialect, Form, Frame, Stamps, StreamId};

const INVALID_REQUEST: i64 = -32600;

/// One client of the MCP door.
#[derive(Debug)]
pub struct Interpreter {
    door: Door,
    options: Options,
    speech: Speech,
    /// Polls whose body has not come, where nobody has them yet.
    polls: HashMap<StreamId, Duration>,
    refused: VecDeque<Action>,
}

/// What the client speaks.
#[derive(Debug)]
enum Speech {
    /// Nothing has been said that tells.
    Unknown(Unknown),
    Official,
    Draft(Box<Conversation>),
}

/// What has happened to streams meanwhile.
#[derive(Debug, Default)]
struct Unknown {
    /// There is one stream for life.
    duplex: bool,
    listening: Option<StreamId>,
    /// Requests whose body has not come: it may be what tells.
    posts: HashMap<StreamId, Post>,
}

impl Interpreter {
    /// A session of which nothing has been heard yet.
    pub fn new(options: Options, stamps: Stamps, now: Instant) -> Self {
        Self {
            door: Door::new(options.clone(), stamps, now),
            options,
            speech: Speech::Unknown(Unknown::default()),
            polls: HashMap::new(),
            refused: VecDeque::new(),
        }
    }

    /// Whether the body of a poll is the beginning of a session: an `initialize` of the dialect, alone or before others.
    pub fn begins_by_poll(body: &str) -> bool {
        let body = body.trim_ascii();
        match serde_json::from_str::<Vec<&RawValue>>(body) {
            Ok(messages) => messages.first().is_some_and(|first| words::is_hello(first.get())),
            Err(_) => words::is_hello(body),
        }
    }

    /// Something is said before it is known what the client speaks.
    fn hear_first(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        let Speech::Unknown(unknown) = &mut self.speech else { return };
        let post = unknown.posts.remove(&stream);
        let poll = self.polls.remove(&stream);
        let text = match &frame {
            Frame::Text(text) => &**text,
            _ => "",
        };
        let is_draft = match poll {
            Some(_) => Self::begins_by_poll(text),
            None => words::is_hello(text) && !matches!(route(None, text), Route::Refused(_)),
        };
        if is_draft {
            let unknown = std::mem::take(unknown);
            let mut conversation = self.converse(unknown, now);
            let arrival = poll.map(McpOpening::Poll).or(post.map(McpOpening::Post));
            if let Some(opening) = arrival {
                conversation.stream(stream, Some(opening), now);
            }
            conversation.hear(stream, &frame, now);
            conversation.settle(&mut self.door, now);
            self.speech = Speech::Draft(conversation);
            return;
        }
        if poll.is_some() {
            return self.refuse_poll(stream);
        }
        if let Some(post) = post {
            self.door.handle_event(Event::StreamOpened(stream, McpOpening::Post(post)), now);
        }
        if is_official(text) {
            let posts = std::mem::take(&mut unknown.posts);
            self.speech = Speech::Official;
            for (stream, post) in posts {
                self.door.handle_event(Event::StreamOpened(stream, McpOpening::Post(post)), now);
            }
        }
        self.door.handle_frame(stream, frame, now);
    }

    /// From now on the door is spoken to over one stream, whatever the client's are.
    fn converse(&mut self, unknown: Unknown, now: Instant) -> Box<Conversation> {
        let conversation = Conversation::new(&self.options, now);
        let mut conversation = if unknown.duplex {
            conversation.over_duplex()
        } else {
            self.door.handle_event(Event::StreamOpened(StreamId::ONLY, McpOpening::Duplex), now);
            if let Some(stream) = unknown.listening {
                self.door.handle_event(Event::StreamClosed(stream), now);
            }
            conversation.over_http(unknown.listening)
        };
        for (stream, post) in unknown.posts {
            conversation.stream(stream, Some(McpOpening::Post(post)), now);
        }
        for (stream, wait) in self.polls.drain() {
            conversation.stream(stream, Some(McpOpening::Poll(wait)), now);
        }
        Box::new(conversation)
    }

    /// Only the dialect is polled.
    fn refuse_poll(&mut self, stream: StreamId) {
        let told = "only sessions of the draft dialect can be polled: begin with an `initialize` that has `mcpVersion`";
        let message = rpc::failure(RawValue::NULL, &RpcError::new(INVALID_REQUEST, told));
        let head = crate::Head { status: 400, form: Form::Json, headers: Vec::new() };
        self.refused.push_back(Action::Refused(Code::InvalidEnvelope));
        self.refused.push_back(Action::Begin(stream, head));
        self.refused.push_back(Action::Send(stream, Frame::Text(message.get().into())));
        self.refused.push_back(Action::Finish(stream));
    }
}

/// Whether a message tells that its sender speaks MCP as it is.
fn is_official(text: &str) -> bool {
    match route(None, text) {
        Route::Modern => true,
        Route::Initialize => Head::read(text).is_some(),
        Route::Legacy | Route::Refused(_) => false,
    }
}

impl Dialect for Interpreter {
    type Opening = McpOpening;
    type Query = RoomQuery;
    type Answer = RoomAnswer;

    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        match &mut self.speech {
            Speech::Unknown(_) => self.hear_first(stream, frame, now),
            Speech::Official if self.polls.remove(&stream).is_some() => self.refuse_poll(stream),
            Speech::Official => self.door.handle_frame(stream, frame, now),
            Speech::Draft(conversation) => {
                conversation.hear(stream, &frame, now);
                conversation.settle(&mut self.door, now);
            }
        }
    }

    fn handle_event(&mut self, event: Event, now: Instant) {
        match (&mut self.speech, event) {
            (Speech::Draft(conversation), event) => {
                match event {
                    Event::StreamOpened(stream, opening) => conversation.stream(stream, Some(opening), now),
                    Event::StreamClosed(stream) => {
                        conversation.stream(stream, None, now);
                        // The one stream for life: there is nobody any more for whom the door might go on.
                        if stream == StreamId::ONLY {
                            self.door.handle_event(event, now);
                        }
                    }
                    event => {
                        conversation.happens(now);
                        self.door.handle_event(event, now);
                    }
                }
                conversation.settle(&mut self.door, now);
            }
            (_, Event::StreamOpened(stream, McpOpening::Poll(wait))) => drop(self.polls.insert(stream, wait)),
            (_, Event::StreamClosed(stream)) if self.polls.remove(&stream).is_some() => {}
            (Speech::Unknown(unknown), event) => {
                match &event {
                    Event::StreamOpened(stream, McpOpening::Post(post)) => {
                        unknown.posts.insert(*stream, post.clone());
                        return;
                    }
                    Event::StreamClosed(stream) if unknown.posts.remove(stream).is_some() => return,
                    Event::StreamOpened(_, McpOpening::Duplex) => unknown.duplex = true,
                    Event::StreamOpened(stream, McpOpening::Listen(_)) => unknown.listening = Some(*stream),
                    Event::StreamClosed(stream) if unknown.listening == Some(*stream) => unknown.listening = None,
                    _ => {}
                }
                self.door.handle_event(event, now);
            }
            (Speech::Official, event) => self.door.handle_event(event, now),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.door.handle_timeout(now);
        if let Speech::Draft(conversation) = &mut self.speech {
            conversation.handle_timeout(&mut self.door, now);
            conversation.settle(&mut self.door, now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = match &self.speech {
            Speech::Draft(conversation) => conversation.due(),
            Speech::Unknown(_) | Speech::Official => None,
        };
        self.door.poll_timeout().into_iter().chain(own).min()
    }

    fn poll_action(&mut self) -> Option<Action> {
        if let Some(action) = self.refused.pop_front() {
            return Some(action);
        }
        match &mut self.speech {
            Speech::Draft(conversation) => conversation.poll_action(),
            Speech::Unknown(_) | Speech::Official => self.door.poll_action(),
        }
    }

    fn ready(&self) -> bool {
        self.door.ready()
    }
}
