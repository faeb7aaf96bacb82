//! The door for MCP clients, for those too who speak the draft dialect: the first `initialize` tells.

use std::collections::VecDeque;
use std::time::Instant;

use salon_protocol::{Code, RpcError, rpc};
use serde_json::value::RawValue;

use super::conversation::{ArrivingRequest, Conversation};
use super::words;
use crate::mcp::door::{
    Body, BodyMessages, DialectAction, DialectEvent, Door, McpDoorOptions, McpOpening, PollBody, Post, PostRoute,
    RoomAnswer, RoomQuery,
};
use crate::streams::{StreamReply, respond};
use crate::{Dialect, Frame, Stamps, StreamId};

/// One client of the MCP door.
#[derive(Debug)]
pub struct Interpreter {
    door: Door,
    options: McpDoorOptions,
    speech: Speech,
    refused: VecDeque<DialectAction>,
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
}

impl Interpreter {
    /// A session before its first message.
    pub fn new(options: McpDoorOptions, stamps: Stamps, now: Instant) -> Self {
        Self {
            door: Door::new(options.clone(), stamps, now),
            options,
            speech: Speech::Unknown(Unknown::default()),
            refused: VecDeque::new(),
        }
    }

    /// Whether the body of a poll is the beginning of a session: an `initialize` of the dialect, alone or before others.
    pub fn starts_by_poll(PollBody(messages): &PollBody) -> bool {
        matches!(messages.first(), Some(Ok(message)) if words::is_initialize_head(&message.head()))
    }

    /// The client says something. The first `initialize` tells what it speaks.
    fn hear(&mut self, stream: StreamId, arrival: ArrivingRequest, now: Instant) {
        if let Speech::Unknown(unknown) = &mut self.speech {
            if arrival.starts_draft() {
                let unknown = std::mem::take(unknown);
                self.speech = Speech::Draft(self.converse(unknown, now));
            } else if arrival.starts_official() {
                self.speech = Speech::Official;
            }
        }
        match (&mut self.speech, arrival) {
            (Speech::Draft(conversation), arrival) => {
                conversation.hear(stream, arrival, now);
                conversation.settle(&mut self.door, now);
            }
            (_, ArrivingRequest::Frame(body)) => self.door.receive_body(stream, body, now),
            (_, ArrivingRequest::Post(post)) => {
                self.door.handle_event(DialectEvent::StreamOpened(stream, McpOpening::Post(post)), now);
            }
            (_, ArrivingRequest::Poll(..)) => self.refuse_poll(stream),
        }
    }

    /// From now on the door is spoken to over one stream, whatever the client's are.
    fn converse(&mut self, unknown: Unknown, now: Instant) -> Box<Conversation> {
        let conversation = Conversation::new(&self.options, now);
        Box::new(if unknown.duplex {
            conversation.over_duplex()
        } else {
            self.door.handle_event(DialectEvent::StreamOpened(StreamId::ONLY, McpOpening::Duplex), now);
            if let Some(stream) = unknown.listening {
                self.door.handle_event(DialectEvent::StreamClosed(stream), now);
            }
            conversation.over_http(unknown.listening)
        })
    }

    /// Only the dialect is polled.
    fn refuse_poll(&mut self, stream: StreamId) {
        let told = "only sessions of the draft dialect can be polled: begin with an `initialize` that has `mcpVersion`";
        let message = rpc::failure(RawValue::NULL, &RpcError::new(RpcError::INVALID_REQUEST, told));
        self.refused.push_back(DialectAction::Refused(Code::InvalidEnvelope));
        respond(&mut self.refused, stream, 400, Vec::new(), StreamReply::from(&*message));
    }
}

impl ArrivingRequest {
    fn body(&self) -> Option<&Body> {
        match self {
            Self::Frame(body) | Self::Post(Post { body, .. }) => body.as_ref().ok(),
            Self::Poll(..) => None,
        }
    }

    fn starts_draft(&self) -> bool {
        match (self, self.body()) {
            (Self::Poll(_, Ok(poll)), _) => Interpreter::starts_by_poll(poll),
            (_, Some(Body { messages: BodyMessages::One(message), .. })) => words::is_initialize_head(&message.head()),
            _ => false,
        }
    }

    /// Whether it tells that its sender speaks MCP as it is.
    fn starts_official(&self) -> bool {
        self.body().is_some_and(|body| matches!(body.route, PostRoute::Modern | PostRoute::Initialize))
    }
}

impl Dialect for Interpreter {
    type Opening = McpOpening;
    type Query = RoomQuery;
    type Answer = RoomAnswer;

    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        self.hear(stream, ArrivingRequest::Frame(Body::read_frame(&frame)), now);
    }

    fn handle_event(&mut self, event: DialectEvent, now: Instant) {
        match event {
            DialectEvent::StreamOpened(stream, McpOpening::Post(post)) => {
                return self.hear(stream, ArrivingRequest::Post(post), now);
            }
            DialectEvent::StreamOpened(stream, McpOpening::Poll(wait, body)) => {
                return self.hear(stream, ArrivingRequest::Poll(wait, body), now);
            }
            _ => {}
        }
        match (&mut self.speech, event) {
            (Speech::Draft(conversation), event) => {
                match event {
                    DialectEvent::StreamOpened(stream, McpOpening::Listen(listen)) => {
                        conversation.listen(stream, &listen, now);
                    }
                    DialectEvent::StreamOpened(..) => {}
                    DialectEvent::StreamClosed(stream) => {
                        conversation.closed(stream, now);
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
            (Speech::Unknown(unknown), event) => {
                match &event {
                    DialectEvent::StreamOpened(_, McpOpening::Duplex) => unknown.duplex = true,
                    DialectEvent::StreamOpened(stream, McpOpening::Listen(_)) => unknown.listening = Some(*stream),
                    DialectEvent::StreamClosed(stream) if unknown.listening == Some(*stream) => {
                        unknown.listening = None
                    }
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

    fn poll_action(&mut self) -> Option<DialectAction> {
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
