//! What the MCP door hears: any messages of a client, over a WebSocket or HTTP, between any events of the room.
#![no_main]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use salon_dialects::mcp::door::{Door, Options, Scope, route};
use salon_dialects::mcp::listing::read_page;
use salon_dialects::{
    Action, Dialect, Event, Form, Frame, History, Joined, Listen, Opening, Post, Stamps, StreamId, Ticket,
};
use salon_protocol::{
    CloseReason, Code, Compose, Entry, Envelope, EnvelopeId, Kind, Limits, McpVersion, Message, Participant,
    ParticipantId, Position, Refusal, Timestamp, TopicName,
};
use serde_json::value::RawValue;

const LIMITS: Limits = Limits { message: 4096, depth: 16, recipients: 4 };

/// Parts the input into pieces: the byte after each says what comes next.
const SEPARATOR: u8 = 0xff;

const SERVER: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut room = Room::open(*how);
    for piece in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((what, body)) = piece.split_first() else { continue };
        if let Ok(text) = std::str::from_utf8(body) {
            room.happens(*what, text);
        }
        if room.closed {
            return;
        }
    }
    room.door.handle_event(Event::Closing(CloseReason::Shutdown), room.now);
    room.acts();
    assert!(room.closed, "what is to close has closed");
    assert!(room.streams.values().all(|stream| *stream == Stream::Finished), "and so have its streams");
});

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Open,
    Begun(Form),
    Finished,
}

struct Room {
    door: Door,
    now: Instant,
    duplex: bool,
    streams: HashMap<StreamId, Stream>,
    next: u32,
    said: u32,
    /// Requests of the door's: the envelope, whom it asks, what.
    open: Vec<(EnvelopeId, ParticipantId, String)>,
    tickets: u64,
    closed: bool,
}

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("a name")
}

fn somebody(who: &str, versions: &[&str]) -> Arc<Participant> {
    let versions: Vec<_> = versions.iter().map(|date| (*date).to_owned()).collect();
    let mcp = McpVersion { versions, ..McpVersion::default() };
    Arc::new(Participant { mcp, ..Participant::new(id(who)) })
}

impl Room {
    fn open(how: u8) -> Self {
        let now = Instant::now();
        let options = Options {
            me: id("alice"),
            topic: TopicName::new("room:a").expect("a name"),
            scope: if how & 1 == 0 { Scope::Room } else { Scope::One(id("bob")) },
            limits: LIMITS,
            session: Some("session".into()),
            idle: (how & 2 != 0).then_some(Duration::from_secs(300)),
            few: 2,
            first: 0,
            salt: [7; 16],
            version: "0",
        };
        let duplex = how & 2 == 0;
        let mut door = Door::new(options, Stamps::new("s", now, Timestamp(0)), now);
        if duplex {
            door.handle_event(Event::StreamOpened(StreamId::ONLY, Opening::Duplex), now);
        }
        let (streams, open) = (HashMap::new(), Vec::new());
        Self { door, now, duplex, streams, next: 0, said: 0, open, tickets: 0, closed: false }
    }

    fn happens(&mut self, what: u8, text: &str) {
        match what % 12 {
            0 => self.passes(Duration::from_millis(u64::from(what) * 50)),
            1 => self.overhears("bob", None, text),
            2 => self.overhears("carol", self.open.last().map(|(id, ..)| id.clone()), text),
            3 => self.answers(what, text),
            4 => self.answers(what, SERVER),
            5 => self.presence(if what & 16 == 0 { "join" } else { "leave" }),
            6 => self.loses(what),
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
        let _ = route(Some("2026-07-28"), text);
        let mut stream = StreamId::ONLY;
        if !self.duplex {
            stream = self.stream();
            let headers = match what & 64 {
                0 => Vec::new(),
                _ => vec![("mcp-protocol-version".into(), "2026-07-28".into())],
            };
            let post = Post { headers, apart: what & 128 != 0 };
            self.door.handle_event(Event::StreamOpened(stream, Opening::Post(post)), self.now);
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
        let (request, from, _) = self.open.remove(usize::from(what) % self.open.len());
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

    fn loses(&mut self, what: u8) {
        let Some((request, callee, _)) = self.open.pop() else {
            return self.door.handle_event(Event::Gap, self.now);
        };
        let event = match what & 48 {
            0 => Event::CallFailed { id: salon_protocol::RpcId::String(request.as_str().into()), request, callee },
            16 => {
                let refusal = Refusal::new(Code::RateLimited, "too much").regarding(Some(request));
                Event::Refused { ticket: Ticket(0), refusal }
            }
            _ => {
                let refusal = Refusal::new(Code::RecipientNotFound, "gone").regarding(Some(request));
                Event::Refused { ticket: Ticket(0), refusal }
            }
        };
        self.door.handle_event(event, self.now);
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
                    let roster = vec![
                        somebody("bob", &[]),
                        somebody("carol", &["2026-07-28"]),
                        somebody("dave", &["2025-11-25", "2026-07-28"]),
                    ];
                    let joined = Joined {
                        topic: TopicName::new("room:a").expect("a name"),
                        participant: somebody("alice", &[]),
                        roster,
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
                        self.open.push((envelope.id().clone(), to.clone(), method.to_string()));
                    }
                }
                Action::Consult(who, listing) => {
                    let page =
                        format!(r#"{{"{}":[{{"name":"t","uri":"a:1","uriTemplate":"a:{{x}}"}}]}}"#, listing.key());
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
        assert!(text.contains(r#""jsonrpc":"2.0""#), "{text}");
        assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
    }
}
