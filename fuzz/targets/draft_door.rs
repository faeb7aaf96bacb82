//! The draft dialect in both roles: what its clients say at the MCP door, over a WebSocket, HTTP or polls, between any events of the room; and what its
//! servers say to the guest that brings them.
#![no_main]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use salon_dialects::mcp::door::{Options, Scope};
use salon_dialects::mcp::draft::{Interpreter, Passed, Translator, is_hello, is_introduction, words};
use salon_dialects::mcp::listing::read_page;
use salon_dialects::{
    Action, Dialect, Event, Form, Frame, History, Joined, Listen, Opening, Post, Stamps, StreamId, Ticket,
};
use salon_protocol::{
    CloseReason, Compose, Entry, Envelope, EnvelopeId, Kind, Limits, Message, Participant, ParticipantId, Position,
    RpcId, Timestamp, TopicName,
};
use serde_json::value::RawValue;

const LIMITS: Limits = Limits { message: 4096, depth: 16, recipients: 4 };

/// Parts the input into pieces: the byte after each says what comes next.
const SEPARATOR: u8 = 0xff;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"mcpVersion":"2025-06-18","clientCapabilities":{"supportsProgress":true,"supportsCancellation":true}}}"#;

const SERVER: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#;

/// What MCP says and the dialect has other words for.
const OFFICIAL: [&str; 4] = [
    "notifications/progress",
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
];

fuzz_target!(|bytes: &[u8]| match bytes {
    [b'S', said @ ..] => hear_server(said),
    [how, said @ ..] => hear_client(*how, said),
    [] => {}
});

/// What is said to a server and what it says, in turn.
fn hear_server(bytes: &[u8]) {
    let mut translator = Translator::default();
    let mut asked = HashSet::new();
    for piece in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((what, Ok(text))) = piece.split_first().map(|(what, body)| (what, std::str::from_utf8(body))) else {
            continue;
        };
        let Ok(value) = serde_json::from_str::<&RawValue>(text) else {
            assert_eq!(translator.from_server(text), [text.into()], "what is no JSON passes as it is");
            continue;
        };
        introduces(value);
        match what % 4 {
            0 => match translator.to_server(text) {
                Passed::On(on) => {
                    is_json(&on);
                    asked.extend(method(text).zip(id_of(text)).map(|(_, id)| id));
                }
                Passed::Back(back) => assert_eq!(id_of(&back), id_of(text), "an answer is to what was asked"),
            },
            1 => drop(translator.failed(&id_of(text).unwrap_or_default(), Some(text))),
            _ => {
                let heard = translator.from_server(text);
                heard.iter().for_each(|message| is_json(message));
                if let (None, Some(id)) = (method(text), id_of(text)) {
                    assert_eq!(heard.len(), 1, "an answer stays one");
                    assert_eq!(id_of(&heard[0]).as_ref(), Some(&id), "under its id");
                    asked.remove(&id);
                }
            }
        }
    }
}

/// The words that need no conversation.
fn introduces(value: &RawValue) {
    let _ = (is_hello(value.get()), is_introduction(value));
    for said in [
        words::introduction_to_draft(value),
        words::introduction_to_mcp(value),
        words::outcome_to_draft(value),
        words::outcome_to_mcp(value),
        words::error_to_draft(value),
        words::error_to_mcp(value),
        words::hello_to_either(value),
    ] {
        is_json(said.get());
    }
}

fn is_json(text: &str) {
    assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
}

fn member<'a>(text: &'a str, name: &str) -> Option<&'a RawValue> {
    serde_json::from_str::<HashMap<String, &RawValue>>(text).ok()?.remove(name)
}

fn method(text: &str) -> Option<String> {
    serde_json::from_str(member(text, "method")?.get()).ok()
}

/// An id that is one, as it is written.
fn id_of(text: &str) -> Option<String> {
    member(text, "id").filter(|id| RpcId::parse(id.get()).is_some()).map(|id| id.get().to_owned())
}

fn hear_client(how: u8, bytes: &[u8]) {
    let mut room = Room::open(how);
    for piece in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((what, body)) = piece.split_first() else { continue };
        if let Ok(text) = std::str::from_utf8(body) {
            room.happens(*what, text);
        }
        if room.closed {
            return room.is_over();
        }
    }
    room.door.handle_event(Event::Closing(CloseReason::Shutdown), room.now);
    room.acts();
    assert!(room.closed, "what is to close has closed");
    room.is_over();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Open,
    Begun(Form),
    Finished,
}

struct Room {
    door: Interpreter,
    now: Instant,
    duplex: bool,
    /// Whether the client began in the dialect.
    draft: bool,
    streams: HashMap<StreamId, Stream>,
    next: u32,
    said: u32,
    /// Requests of the door's: the envelope and whom it asks.
    open: Vec<(EnvelopeId, ParticipantId)>,
    tickets: u64,
    closed: bool,
}

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("a name")
}

impl Room {
    fn open(how: u8) -> Self {
        let now = Instant::now();
        let duplex = how & 2 == 0;
        let options = Options {
            me: id("alice"),
            topic: TopicName::new("room:a").expect("a name"),
            scope: if how & 1 == 0 { Scope::Room } else { Scope::One(id("bob")) },
            limits: LIMITS,
            session: Some("session".into()),
            idle: (!duplex).then_some(Duration::from_secs(300)),
            few: 2,
            first: 0,
            salt: [7; 16],
            version: "0",
        };
        let mut door = Interpreter::new(options, Stamps::new("s", now, Timestamp(0)), now);
        if duplex {
            door.handle_event(Event::StreamOpened(StreamId::ONLY, Opening::Duplex), now);
        }
        let (streams, open, draft) = (HashMap::new(), Vec::new(), how & 4 == 0);
        let mut room = Self { door, now, duplex, draft, streams, next: 0, said: 0, open, tickets: 0, closed: false };
        if draft {
            room.hears(if how & 8 == 0 { 0 } else { 32 }, HELLO);
            room.acts();
        }
        room
    }

    fn happens(&mut self, what: u8, text: &str) {
        match what % 12 {
            0 => self.passes(Duration::from_millis(u64::from(what) * 500)),
            1 => self.overhears("bob", None, text),
            2 => self.overhears("bob", self.open.last().map(|(id, _)| id.clone()), text),
            3 => self.answers(what, text),
            4 => self.answers(what, SERVER),
            5 => self.presence(if what & 16 == 0 { "join" } else { "leave" }),
            6 => self.loses(),
            7 => {
                if let Some(stream) = self.streams.iter().find(|(_, stream)| **stream != Stream::Finished) {
                    let stream = *stream.0;
                    self.streams.insert(stream, Stream::Finished);
                    self.door.handle_event(Event::StreamClosed(stream), self.now);
                }
            }
            8 if !self.duplex => {
                let stream = self.stream();
                let listen = Listen { after: Some(text.into()).filter(|_| what & 16 == 0), endpoint: None };
                self.door.handle_event(Event::StreamOpened(stream, Opening::Listen(listen)), self.now);
            }
            _ => self.hears(what, text),
        }
        self.acts();
    }

    fn stream(&mut self) -> StreamId {
        self.next += 1;
        self.streams.insert(StreamId(self.next), Stream::Open);
        StreamId(self.next)
    }

    fn hears(&mut self, what: u8, text: &str) {
        let _ = Interpreter::begins_by_poll(text);
        let mut stream = StreamId::ONLY;
        if !self.duplex {
            stream = self.stream();
            let opening = match what & 32 {
                0 => Opening::Post(Post { headers: Vec::new(), apart: what & 64 != 0 }),
                _ => Opening::Poll(Duration::from_secs(u64::from(what >> 6))),
            };
            self.door.handle_event(Event::StreamOpened(stream, opening), self.now);
        }
        self.door.handle_frame(stream, Frame::Text(text.into()), self.now);
    }

    fn entry(&mut self, from: &str, kind: Kind, correlation: Option<&EnvelopeId>, payload: Box<RawValue>) {
        self.said += 1;
        let text = Compose {
            id: &format!("e{}", self.said),
            ts: Timestamp(0),
            from: &id(from),
            to: &[id("alice")],
            kind,
            correlation_id: correlation.map(EnvelopeId::as_str),
            payload,
        }
        .text();
        if let Ok(envelope) = Envelope::restore(text) {
            let entry = Entry { position: Position::start(1), arrived: Timestamp(0), envelope };
            self.door.handle_event(Event::Entry(Arc::new(entry)), self.now);
        }
    }

    fn overhears(&mut self, from: &str, correlation: Option<EnvelopeId>, text: &str) {
        if let Ok(payload) = RawValue::from_string(text.into()) {
            self.entry(from, Kind::Mcp, correlation.as_ref(), payload);
        }
    }

    fn answers(&mut self, what: u8, result: &str) {
        if self.open.is_empty() {
            return;
        }
        let (request, from) = self.open.remove(usize::from(what) % self.open.len());
        let payload = format!(r#"{{"jsonrpc":"2.0","id":"{request}","result":{result}}}"#);
        if let Ok(payload) = RawValue::from_string(payload) {
            self.entry(from.as_str(), Kind::Mcp, Some(&request), payload);
        }
    }

    fn presence(&mut self, event: &str) {
        let presence =
            format!(r#"{{"event":"{event}","participant":{{"id":"bob","mcp":{{"version":"2025-06-18"}}}}}}"#);
        let presence = RawValue::from_string(presence).expect("an object");
        self.entry("system:gateway", Kind::Presence, None, presence);
    }

    fn loses(&mut self) {
        let Some((request, callee)) = self.open.pop() else {
            return self.door.handle_event(Event::Gap, self.now);
        };
        let id = RpcId::String(request.as_str().into());
        self.door.handle_event(Event::CallFailed { id, request, callee }, self.now);
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.door.handle_timeout(self.now);
        assert!(self.door.poll_timeout().is_none_or(|due| due > self.now), "what was due has been seen to");
    }

    /// Does what the door wants, and sees that it keeps to the rules.
    fn acts(&mut self) {
        while let Some(action) = self.door.poll_action() {
            assert!(!self.closed, "nothing comes after the end: {action:?}");
            match action {
                Action::Join(_) => {
                    let joined = Joined {
                        topic: TopicName::new("room:a").expect("a name"),
                        participant: Arc::new(Participant::new(id("alice"))),
                        roster: vec![Arc::new(Participant::new(id("bob")))],
                        history: History { enabled: true, limit: 100, recent: None },
                        durability: None,
                    };
                    self.door.handle_event(Event::Joined(joined), self.now);
                }
                Action::Publish(Ticket(ticket), draft) => {
                    assert!(ticket > self.tickets, "a ticket is never used again");
                    self.tickets = ticket;
                    let envelope = draft.envelope();
                    assert_eq!(envelope.from().as_str(), "alice");
                    let [to] = envelope.to() else { panic!("the door speaks to one at a time") };
                    if let Some(Message::Request { method, .. }) = envelope.message() {
                        assert!(&**method != "tools/invoke" || !self.draft, "the room hears MCP");
                        self.open.push((envelope.id().clone(), to.clone()));
                    }
                }
                Action::Consult(who, listing) => {
                    let page = format!(r#"{{"{}":[{{"name":"t{}","uri":"a:1"}}]}}"#, listing.key(), self.said % 3);
                    let page = RawValue::from_string(page).expect("an object");
                    let items = read_page(listing, &page).map(|(items, _)| items.into());
                    self.door.handle_event(Event::Consulted { who, listing, items }, self.now);
                }
                Action::Begin(stream, head) => {
                    let before = self.streams.insert(stream, Stream::Begun(head.form));
                    assert_eq!(before, Some(Stream::Open), "a stream begins once");
                }
                Action::Send(stream, frame) => self.sends(stream, &frame),
                Action::Finish(stream) => {
                    let before = self.streams.insert(stream, Stream::Finished);
                    assert!(matches!(before, Some(Stream::Begun(_))), "what ends has begun: {before:?}");
                }
                Action::Close(_) => self.closed = true,
                other => panic!("{other:?}"),
            }
        }
    }

    fn sends(&mut self, stream: StreamId, frame: &Frame) {
        let text = match (frame, self.streams.get(&stream)) {
            (Frame::Text(text), None) if self.duplex => text,
            (Frame::Text(text), Some(Stream::Begun(Form::Json))) => text,
            (Frame::Event(event), Some(Stream::Begun(Form::Events))) if event.data.is_empty() => return,
            (Frame::Event(event), Some(Stream::Begun(Form::Events))) => &event.data,
            other => panic!("{other:?}"),
        };
        // A poll is answered with all that waits.
        match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(messages) => messages.iter().for_each(|message| self.is_said(message.get())),
            Err(_) => self.is_said(text),
        }
    }

    fn is_said(&self, text: &str) {
        assert!(text.contains(r#""jsonrpc":"2.0""#), "{text}");
        is_json(text);
        if let (true, Some(method)) = (self.draft, method(text)) {
            assert!(!OFFICIAL.contains(&method.as_str()), "the dialect has a word for this: {text}");
        }
    }

    fn is_over(&self) {
        assert!(self.streams.values().all(|stream| *stream == Stream::Finished), "its streams have ended too");
    }
}
