//! What the door of the Machine Context Protocol hears: any messages, over a WebSocket or HTTP, between any events of the room; and
//! the canonical form of any text.
#![no_main]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use salon_dialects::machine::{Machine, Options, Terms, canonical, message_id, signed_form, token_in};
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

const REGISTER: &str = r#"{"header":{"version":"1.0","messageId":"t1","timestamp":"2025-03-21T10:00:00Z","messageType":"request","destination":"system:gateway"},"payload":{"tool":{"id":"registry","capability":"register","parameters":{"id":"a","capabilities":[{"name":"b","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}],"security":{"permissions":["p"]}}}}}"#;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut room = Room::open(*how);
    if how & 2 != 0 {
        room.hears(REGISTER);
        room.acts();
    }
    for piece in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((what, body)) = piece.split_first() else { continue };
        if let Ok(text) = std::str::from_utf8(body) {
            forms(text);
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

/// A canonical form is JSON, and its own form unless it has digits that only a double's text has.
fn forms(text: &str) {
    let _ = (message_id(text), token_in(text), signed_form(text));
    if let Ok(form) = canonical(text) {
        assert!(serde_json::from_str::<&RawValue>(&form).is_ok(), "{form}");
        if let Ok(again) = canonical(&form) {
            assert_eq!(again, form);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Open,
    Begun(Form),
    Finished,
}

struct Room {
    door: Machine,
    now: Instant,
    duplex: bool,
    streams: HashMap<StreamId, Stream>,
    next: u32,
    said: u32,
    /// Requests of the client's: the envelope and whom it asks.
    open: Vec<(EnvelopeId, ParticipantId)>,
    /// What becomes of the next draft.
    refuses: bool,
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

/// Seals are taken or not by their length alone, so that both can be met with.
fn terms(sealed: bool) -> Terms {
    let no = || Err(Refusal::new(Code::Forbidden, "no"));
    Terms {
        granted: ["p".to_owned()].into(),
        sealed,
        verify: Arc::new(move |seal, bytes| {
            assert!(serde_json::from_slice::<&RawValue>(bytes).is_ok(), "what is signed is JSON");
            if seal.value.len() % 2 == 1 { Ok(()) } else { no() }
        }),
        vouch: Arc::new(move |token| if token == "t" { Ok(()) } else { no() }),
    }
}

impl Room {
    fn open(how: u8) -> Self {
        let now = Instant::now();
        let duplex = how & 1 == 0;
        let options = Options {
            me: id("alice"),
            topic: TopicName::new("room:a").expect("a name"),
            limits: LIMITS,
            terms: (how & 4 != 0).then(|| terms(how & 8 != 0)),
            idle: (!duplex).then_some(Duration::from_secs(60)),
            version: "0",
        };
        let mut door = Machine::new(options, Stamps::new("s", now, Timestamp(0)), now);
        if duplex {
            door.handle_event(Event::StreamOpened(StreamId::ONLY, Opening::Duplex), now);
        }
        let (streams, open) = (HashMap::new(), Vec::new());
        let mut room =
            Self { door, now, duplex, streams, next: 0, said: 0, open, refuses: false, tickets: 0, closed: false };
        room.acts();
        room
    }

    fn happens(&mut self, what: u8, text: &str) {
        match what % 12 {
            0 => self.passes(Duration::from_millis(u64::from(what) * 500)),
            1 => self.overhears("bob", None, text),
            2 => self.overhears("carol", self.open.last().map(|(id, _)| id.clone()), text),
            3 => self.answers(what, text),
            4 => self.answers(what, "{}"),
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
            9 => self.refuses = true,
            _ => self.hears(text),
        }
        self.acts();
    }

    fn stream(&mut self) -> StreamId {
        self.next += 1;
        self.streams.insert(StreamId(self.next), Stream::Open);
        StreamId(self.next)
    }

    fn hears(&mut self, text: &str) {
        let mut stream = StreamId::ONLY;
        if !self.duplex {
            stream = self.stream();
            self.door.handle_event(Event::StreamOpened(stream, Opening::Post(Post::default())), self.now);
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
        let quoted = serde_json::Value::from(request.as_str());
        let payload = format!(r#"{{"jsonrpc":"2.0","id":{quoted},"result":{result}}}"#);
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
        let Some((request, callee)) = self.open.pop() else {
            return self.door.handle_event(Event::Gap, self.now);
        };
        if what & 16 == 0 {
            let id = salon_protocol::RpcId::String(request.as_str().into());
            self.door.handle_event(Event::CallFailed { id, request, callee }, self.now);
        }
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
                    let roster = vec![somebody("bob", &[]), somebody("carol", &["2026-07-28"])];
                    let joined = Joined {
                        topic: TopicName::new("room:a").expect("a name"),
                        participant: somebody("alice", &[]),
                        roster,
                        history: History { enabled: true, limit: 100, recent: None },
                        durability: None,
                    };
                    self.door.handle_event(Event::Joined(joined), self.now);
                }
                Action::Publish(Ticket(ticket), draft) | Action::Reply(Ticket(ticket), draft) => {
                    assert!(ticket > self.tickets, "a ticket is never used again");
                    self.tickets = ticket;
                    let envelope = draft.envelope();
                    assert_eq!(envelope.from().as_str(), "alice");
                    assert!(envelope.to().len() <= 1, "one, or everybody");
                    let ticket = Ticket(ticket);
                    let event = if std::mem::take(&mut self.refuses) {
                        let refusal =
                            Refusal::new(Code::RateLimited, "too much").regarding(Some(envelope.id().clone()));
                        Event::Refused { ticket, refusal }
                    } else {
                        if let (Some(Message::Request { .. }), [to]) = (envelope.message(), envelope.to()) {
                            self.open.push((envelope.id().clone(), to.clone()));
                        }
                        let entry =
                            Entry { position: Position::start(1), arrived: Timestamp(0), envelope: draft.trust() };
                        Event::Accepted { ticket, entry: Arc::new(entry), repeated: false }
                    };
                    self.door.handle_event(event, self.now);
                }
                Action::Consult(who, listing) => {
                    let page =
                        RawValue::from_string(r#"{"tools":[{"name":"t"},{"name":"a.b"}]}"#.into()).expect("an object");
                    let items = read_page(listing, &page).map(|(items, _)| items.into());
                    self.door.handle_event(Event::Consulted { who, listing, items }, self.now);
                }
                Action::Permissions { who, request } => {
                    let granted = if who.as_str() == "bob" { vec!["p".to_owned()] } else { Vec::new() };
                    self.door.handle_event(Event::Permissions { request, granted: granted.into() }, self.now);
                }
                Action::Begin(stream, head) => {
                    let before = self.streams.insert(stream, Stream::Begun(head.form));
                    assert_eq!(before, Some(Stream::Open), "a stream begins once");
                }
                Action::Send(stream, frame) | Action::Refuse(stream, _, frame) => self.sends(stream, &frame),
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
            (Frame::Event(event), Some(Stream::Begun(Form::Events))) => &event.data,
            other => panic!("{other:?}"),
        };
        assert!(text.starts_with(r#"{"header":{"version":"1.0","#), "{text}");
        assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
    }
}
