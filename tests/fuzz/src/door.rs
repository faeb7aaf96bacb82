//! A room for one door: any events between anything the client says, and the rules that every door keeps to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_dialects::{
    BodyForm, CatalogueAnswer, CatalogueSnapshot, Dialect, DialectAction, DialectEvent, Frame, History, Joined,
    RoomAnswer, RoomQuery, SnapshotBuilder, Stamps, StreamId, Ticket,
};
use salon_mcp::listing::{ListItem, Listing, read_page};
use salon_protocol::{
    CloseReason, Code, Compose, Draft, Entry, Envelope, EnvelopeId, FailureCause, Kind, Limits, McpVersion, Message,
    Participant, ParticipantId, Position, Refusal, RpcId, Stamp, Timestamp, TopicName,
};
use serde_json::value::RawValue;

pub(crate) const LIMITS: Limits = Limits { message: 4096, answer: 4096, depth: 16, recipients: 4 };

/// Parts the input into pieces: the byte after each says what comes next.
const SEPARATOR: u8 = 0xff;

/// The pieces of an input that are text, each with the byte before it.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = (u8, &str)> {
    bytes.split(|byte| *byte == SEPARATOR).filter_map(|piece| {
        let (what, body) = piece.split_first()?;
        Some((*what, std::str::from_utf8(body).ok()?))
    })
}

pub(crate) fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("a name")
}

pub(crate) fn topic() -> TopicName {
    TopicName::new("room:a").expect("a name")
}

pub(crate) fn is_json(text: &str) {
    assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "{text}");
}

/// What one door has for itself.
pub(crate) trait Rules {
    /// Its grammar.
    type Dialect: Dialect<Query: std::fmt::Debug>;
    /// What participants answer when they are asked to initialize, or anything else.
    const ANSWER: &str;
    /// How much time passes at the least when some does.
    const STEP: Duration;
    /// How the request begins that a message comes with, where each has its own.
    fn opening(&self, what: u8, text: &str) -> <Self::Dialect as Dialect>::Opening;
    /// How a request begins that only listens, after an event where it names one.
    fn listening(&self, after: Option<&str>) -> <Self::Dialect as Dialect>::Opening;
    /// What the gateway answers, if it does at once.
    fn answer(&self, query: <Self::Dialect as Dialect>::Query) -> Option<<Self::Dialect as Dialect>::Answer>;
    /// The door wants this published.
    fn published(&self, draft: &Draft);
    /// The door says this to its client.
    fn said(&self, text: &str);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Open,
    StartedCall(BodyForm),
    Finished,
}

pub(crate) struct Room<R: Rules> {
    door: R::Dialect,
    rules: R,
    now: Instant,
    duplex: bool,
    streams: HashMap<StreamId, Stream>,
    next: u32,
    said: u32,
    /// Requests of the door's: the envelope and whom it asks.
    open: Vec<(EnvelopeId, ParticipantId)>,
    /// What becomes of the next draft, unless it is accepted.
    refuses: Option<Code>,
    tickets: u64,
    closed: bool,
}

impl<R: Rules> Room<R> {
    pub(crate) fn open(duplex: bool, rules: R, door: impl FnOnce(Stamps, Instant) -> R::Dialect) -> Self {
        let now = Instant::now();
        let mut door = door(Stamps::new("s", now, Timestamp(0)), now);
        if duplex {
            door.handle_event(DialectEvent::StreamOpened(StreamId::ONLY, Default::default()), now);
        }
        let (streams, open, refuses) = (HashMap::new(), Vec::new(), None);
        let mut room =
            Self { door, rules, now, duplex, streams, next: 0, said: 0, open, refuses, tickets: 0, closed: false };
        room.acts();
        room
    }

    /// Everything the input says, and then the end.
    pub(crate) fn live<'a>(mut self, pieces: impl Iterator<Item = (u8, &'a str)>) {
        for (what, text) in pieces {
            self.happens(what, text);
            if self.closed {
                return self.is_over();
            }
        }
        self.door.handle_event(DialectEvent::Closing(CloseReason::Shutdown), self.now);
        self.acts();
        assert!(self.closed, "what is to close has closed");
        self.is_over();
    }

    fn is_over(&self) {
        assert!(self.streams.values().all(|stream| *stream == Stream::Finished), "its streams have ended too");
    }

    fn happens(&mut self, what: u8, text: &str) {
        match what % 12 {
            0 => self.passes(R::STEP * u32::from(what)),
            1 => self.overhears("bob", None, text),
            2 => self.overhears("carol", self.open.last().map(|(id, _)| id.clone()), text),
            3 => self.answers(what, text),
            4 => self.answers(what, R::ANSWER),
            5 => self.presence(if what & 16 == 0 { "join" } else { "leave" }),
            6 => self.loses(),
            7 => {
                if let Some(stream) = self.streams.iter().find(|(_, stream)| **stream != Stream::Finished) {
                    let stream = *stream.0;
                    self.streams.insert(stream, Stream::Finished);
                    self.door.handle_event(DialectEvent::StreamClosed(stream), self.now);
                }
            }
            8 if !self.duplex => {
                let stream = self.stream();
                let opening = self.rules.listening(Some(text).filter(|_| what & 16 == 0));
                self.door.handle_event(DialectEvent::StreamOpened(stream, opening), self.now);
            }
            9 if text.is_empty() => {
                self.refuses = Some(if what & 16 == 0 { Code::RateLimited } else { Code::RecipientNotFound });
            }
            _ => return self.hears(what, text),
        }
        self.acts();
    }

    /// The client says something.
    pub(crate) fn hears(&mut self, what: u8, text: &str) {
        if self.duplex {
            self.door.handle_frame(StreamId::ONLY, Frame::Text(text.into()), self.now);
        } else {
            let stream = self.stream();
            let opening = self.rules.opening(what, text);
            self.door.handle_event(DialectEvent::StreamOpened(stream, opening), self.now);
        }
        self.acts();
    }

    fn stream(&mut self) -> StreamId {
        self.next += 1;
        self.streams.insert(StreamId(self.next), Stream::Open);
        StreamId(self.next)
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
            self.door.handle_event(DialectEvent::Entry(stored(envelope)), self.now);
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
        self.overhears(from.as_str(), Some(request), &payload);
    }

    fn presence(&mut self, event: &str) {
        let presence =
            format!(r#"{{"event":"{event}","participant":{{"id":"bob","mcp":{{"version":"2025-06-18"}}}}}}"#);
        let presence = RawValue::from_string(presence).expect("an object");
        self.entry("system:gateway", Kind::Presence, None, presence);
    }

    fn loses(&mut self) {
        let event = match self.open.pop() {
            Some((request, callee)) => {
                let (id, cause) = (RpcId::String(request.as_str().into()), FailureCause::CalleeLeft);
                DialectEvent::CallFailed { id, request, callee, cause, reason: None }
            }
            None => DialectEvent::Gap,
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
                DialectAction::Join(_) => self.door.handle_event(DialectEvent::Joined(joined()), self.now),
                DialectAction::Publish(ticket, draft) | DialectAction::Reply(ticket, draft) => {
                    self.publishes(ticket, *draft)
                }
                DialectAction::Ask(query) => {
                    if let Some(answer) = self.rules.answer(query) {
                        self.door.handle_event(DialectEvent::Answered(answer), self.now);
                    }
                }
                DialectAction::Begin(stream, head) => {
                    let before = self.streams.insert(stream, Stream::StartedCall(head.form));
                    assert_eq!(before, Some(Stream::Open), "a stream begins once");
                }
                DialectAction::Send(stream, frame) | DialectAction::Refuse(stream, _, frame) => {
                    self.sends(stream, &frame)
                }
                DialectAction::Finish(stream) => {
                    let before = self.streams.insert(stream, Stream::Finished);
                    assert!(matches!(before, Some(Stream::StartedCall(_))), "what ends has begun: {before:?}");
                }
                DialectAction::Refused(_) => {}
                DialectAction::Close(_) => self.closed = true,
                other => panic!("{other:?}"),
            }
        }
    }

    fn publishes(&mut self, ticket: Ticket, draft: Draft) {
        assert!(ticket.0 > self.tickets, "a ticket is never used again");
        self.tickets = ticket.0;
        let envelope = draft.envelope();
        assert_eq!(envelope.from().as_str(), "alice");
        self.rules.published(&draft);
        let event = if let Some(code) = self.refuses.take() {
            DialectEvent::Refused { ticket, refusal: Refusal::new(code, "no").regarding(Some(envelope.id().clone())) }
        } else {
            if let (Some(Message::Request { .. }), [to]) = (envelope.message(), envelope.to()) {
                self.open.push((envelope.id().clone(), to.clone()));
            }
            DialectEvent::Accepted { ticket, entry: stored(draft.trust()), repeated: false }
        };
        self.door.handle_event(event, self.now);
    }

    fn sends(&self, stream: StreamId, frame: &Frame) {
        let text = match (frame, self.streams.get(&stream)) {
            (Frame::Text(text), None) if self.duplex => text,
            (Frame::Text(text), Some(Stream::StartedCall(BodyForm::Json))) => text,
            // An id to resume after, and nothing said yet.
            (Frame::Event(event), Some(Stream::StartedCall(BodyForm::Events))) if event.data.is_empty() => return,
            (Frame::Event(event), Some(Stream::StartedCall(BodyForm::Events))) => &event.data,
            other => panic!("{other:?}"),
        };
        is_json(text);
        self.rules.said(text);
    }
}

fn stored(envelope: Envelope) -> Arc<Entry> {
    // Bob's token permits what a tool may ask for.
    let stamp = (envelope.from().as_str() == "bob").then(|| Stamp::new(None, &["p".to_owned()], None)).flatten();
    Arc::new(Entry { position: Position::start(1), arrived: Timestamp(0), stamp, envelope })
}

fn somebody(who: &str, versions: &[&str]) -> Arc<Participant> {
    let versions: Vec<_> = versions.iter().map(|date| (*date).to_owned()).collect();
    let mcp = McpVersion { versions, ..McpVersion::default() };
    Arc::new(Participant { mcp, ..Participant::new(id(who)) })
}

fn joined() -> Joined {
    Joined {
        topic: topic(),
        participant: somebody("alice", &[]),
        roster: vec![
            somebody("bob", &[]),
            somebody("carol", &["2026-07-28"]),
            somebody("dave", &["2025-11-25", "2026-07-28"]),
        ],
        open_calls: Vec::new(),
        history: History { enabled: true, limit: 100, recent: None },
        durability: None,
    }
}

/// What everybody offers.
pub(crate) fn offered(listing: Listing) -> Option<Arc<[ListItem]>> {
    read_page(listing, &page(listing)).map(|(items, _)| items.into())
}

/// What the room's catalogue answers: `bob` offers the same of everything. There is never a newer snapshot than the first.
pub(crate) fn catalogue(query: RoomQuery) -> Option<RoomAnswer> {
    let snapshot = || {
        let mut builder = SnapshotBuilder::after(&CatalogueSnapshot::default());
        for listing in Listing::ALL {
            builder.put(&id("bob"), listing, offered(listing).unwrap_or_default(), true);
        }
        builder.snapshot()
    };
    match query {
        RoomQuery::One(query) => Some(RoomAnswer::One(CatalogueAnswer { items: offered(query.listing), query })),
        RoomQuery::Gather { number, .. } => Some(RoomAnswer::Gathered { number, snapshot: Some(snapshot()) }),
        RoomQuery::Authority => Some(RoomAnswer::Authority(None)),
        RoomQuery::Watch { .. } => Some(RoomAnswer::Watching),
        RoomQuery::Next { after: 0 } => Some(RoomAnswer::Next(snapshot())),
        RoomQuery::Next { .. } => None,
        RoomQuery::Wait { number, .. } => Some(RoomAnswer::Waited { number, idle: None }),
        RoomQuery::StopWaiting { .. } => Some(RoomAnswer::StoppedWaiting),
    }
}

fn page(listing: Listing) -> Box<RawValue> {
    let page = format!(
        r#"{{"{}":[{{"name":"t","uri":"a:1","uriTemplate":"a:{{x}}"}},{{"name":"a.b","uri":"b:1","uriTemplate":"b:{{x}}"}}]}}"#,
        listing.key()
    );
    RawValue::from_string(page).expect("an object")
}
