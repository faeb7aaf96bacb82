//! What the framed door hears: any bytes on the wire, or any frames on several connections between any events of the room.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_dialects::framed::{
    Decoder, FrameRoute, Framed, FramedOptions, MAX_HEADER, encode, refuse, refuse_header, route, split,
};
use salon_dialects::{Dialect, DialectAction, DialectEvent, Frame, History, Joined, Stamps, StreamId, Ticket};
use salon_protocol::{
    CloseReason, Code, Draft, Entry, Envelope, EnvelopeId, FailureCause, Limits, Participant, ParticipantId, Position,
    Refusal, RpcId, Timestamp, TopicName,
};

const LIMITS: Limits = Limits { message: 2048, answer: 2048, depth: 16, recipients: 4 };

/// Parts the input into frames: the byte after each says what comes next.
const SEPARATOR: u8 = 0xff;

/// Parts a frame into header and body.
const MIDDLE: u8 = 0xfe;

pub(crate) fn run(bytes: &[u8]) -> bool {
    match bytes {
        [b'W', pieces, wire @ ..] => hear_wire(*pieces, wire),
        _ => hear_frames(bytes),
    }
    true
}

/// The bytes of a connection, arriving in pieces: it is all the same in which.
fn hear_wire(pieces: u8, bytes: &[u8]) {
    let now = Instant::now();
    let mut door = Door::open(now);
    let mut decoder = Decoder::new(LIMITS.message);
    let mut at_once = Decoder::new(LIMITS.message);
    at_once.push(bytes);
    let mut taken = 0;
    let (mut rest, mut length) = (bytes, pieces);
    while !rest.is_empty() {
        // Any lengths, from one byte on, and other ones for every first byte.
        length = length.wrapping_mul(5).wrapping_add(pieces | 1);
        let (piece, after) = rest.split_at(rest.len().min(usize::from(length >> (pieces & 7)) + 1));
        rest = after;
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    assert_eq!(at_once.next_frame().ok().flatten().as_deref(), Some(&*frame));
                    taken += frame.len();
                    let (header, body) = split(&frame).expect("what is decoded is a whole frame");
                    assert!(header.len() <= MAX_HEADER && body.len() <= LIMITS.message);
                    assert_eq!(*encode(header, body), *frame, "a frame is encoded in one way");
                    door.hears(1, &frame, now);
                }
                Ok(None) => break,
                Err(broken) => {
                    assert!(broken.to_string().contains("big-endian"));
                    assert_eq!(at_once.next_frame().map_err(|broken| broken.to_string()), Err(broken.to_string()));
                    answer(&refuse_header(decoder.header(), &Refusal::new(Code::TooLarge, "x"), Timestamp(0)));
                    return;
                }
            }
        }
    }
    assert!(taken <= bytes.len() && at_once.next_frame().is_ok_and(|frame| frame.is_none()));
    assert_eq!(decoder.has_begun(), taken < bytes.len(), "nothing is left over that was not begun");
}

fn hear_frames(bytes: &[u8]) {
    let mut now = Instant::now();
    let mut door = Door::open(now);
    for piece in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((what, rest)) = piece.split_first() else { continue };
        now += Duration::from_millis(300);
        let stream = u32::from(what >> 4) % 3 + 1;
        match (what % 8, std::str::from_utf8(rest)) {
            (0, Ok(text)) => door.is_sent(text, now),
            (1, _) => door.settles(rest.is_empty(), now),
            (2, _) => door.hangs_up(stream, now),
            (3, Ok(text)) => door.call_fails(text, now),
            (4, _) => door.passes_time(Duration::from_secs(rest.len() as u64), &mut now),
            _ => {
                let at = rest.iter().position(|byte| *byte == MIDDLE).unwrap_or(rest.len());
                let (header, body) = (&rest[..at], rest.get(at + 1..).unwrap_or_default());
                door.hears(stream, &encode(header, body), now);
            }
        }
    }
    door.closes(now);
}

struct Door {
    dialect: Framed,
    /// Requests without an answer, by stream.
    open: HashMap<u32, i64>,
    /// A stream that hung up comes back under another number, as it does from the carrier.
    numbers: HashMap<u32, u32>,
    next: u32,
    drafts: VecDeque<(Ticket, Draft)>,
    offset: u64,
    ended: bool,
}

impl Door {
    fn open(now: Instant) -> Self {
        let me = ParticipantId::new("alice").expect("a name");
        let options = FramedOptions {
            me: me.clone(),
            limits: LIMITS,
            session: "S".into(),
            linger: Duration::from_secs(60),
            version: "0",
        };
        let dialect = Framed::new(options, Stamps::new("s", now, Timestamp(0)), now);
        let mut door = Self {
            dialect,
            open: HashMap::new(),
            numbers: HashMap::new(),
            next: 0,
            drafts: VecDeque::new(),
            offset: 0,
            ended: false,
        };
        let connect =
            encode(br#"{"id":"c","method":"CONNECT","version":"MCP/1.0"}"#, br#"{"clientInfo":{"id":"alice"}}"#);
        door.hears(0, &connect, now);
        let alice = Arc::new(Participant::new(me));
        let joined = Joined {
            topic: TopicName::new("room:alpha").expect("a name"),
            participant: alice.clone(),
            roster: vec![alice],
            open_calls: Vec::new(),
            history: History { enabled: true, limit: 100, recent: None },
            durability: None,
        };
        door.dialect.handle_event(DialectEvent::Joined(joined), now);
        door.collect();
        assert_eq!(door.open.values().sum::<i64>(), 0, "a CONNECT is answered when there is a seat");
        door
    }

    /// Whatever a frame is, the connection or the session answers it once.
    fn hears(&mut self, stream: u32, frame: &[u8], now: Instant) {
        match route(frame) {
            FrameRoute::Refused(refusal) => answer(&refuse(frame, &refusal, Timestamp(0))),
            FrameRoute::Connect(_) | FrameRoute::Session(_) => {}
        }
        if self.ended {
            return;
        }
        let next = &mut self.next;
        let number = *self.numbers.entry(stream).or_insert_with(|| {
            *next += 1;
            *next
        });
        let heard = self.open.entry(number).or_insert_with(|| {
            self.dialect.handle_event(DialectEvent::StreamOpened(StreamId(number), ()), now);
            0
        });
        *heard += 1;
        self.dialect.handle_frame(StreamId(number), Frame::Binary(frame.into()), now);
        self.collect();
    }

    fn hangs_up(&mut self, stream: u32, now: Instant) {
        if let Some(number) = self.numbers.remove(&stream) {
            self.open.remove(&number);
            self.dialect.handle_event(DialectEvent::StreamClosed(StreamId(number)), now);
            self.collect();
        }
    }

    /// A session takes nothing from the room that it does not want.
    fn is_sent(&mut self, text: &str, now: Instant) {
        let Ok(envelope) = Envelope::restore(text) else { return };
        if self.dialect.ready() && !self.ended {
            let entry = self.entry(envelope);
            self.dialect.handle_event(DialectEvent::Entry(entry), now);
            self.collect();
        }
    }

    fn entry(&mut self, envelope: Envelope) -> Arc<Entry> {
        self.offset += 1;
        Arc::new(Entry {
            position: Position { epoch: 1, offset: self.offset },
            arrived: Timestamp(0),
            stamp: None,
            envelope,
        })
    }

    fn settles(&mut self, well: bool, now: Instant) {
        let Some((ticket, draft)) = self.drafts.pop_front() else { return };
        let event = match well {
            true => DialectEvent::Accepted { ticket, entry: self.entry(draft.trust()), repeated: false },
            false => DialectEvent::Refused { ticket, refusal: Refusal::new(Code::Internal, "no") },
        };
        self.dialect.handle_event(event, now);
        self.collect();
    }

    fn call_fails(&mut self, text: &str, now: Instant) {
        let Ok(request) = EnvelopeId::new(text) else { return };
        let callee = ParticipantId::new("bob").expect("a name");
        if !self.ended {
            let (id, cause) = (RpcId::String(text.into()), FailureCause::CalleeLeft);
            self.dialect.handle_event(DialectEvent::CallFailed { request, id, callee, cause, reason: None }, now);
            self.dialect.handle_event(DialectEvent::Gap, now);
            self.collect();
        }
    }

    fn passes_time(&mut self, time: Duration, now: &mut Instant) {
        *now += time;
        if !self.ended {
            self.dialect.handle_timeout(*now);
            self.collect();
            assert!(self.ended || self.dialect.poll_timeout().is_none_or(|at| at > *now), "what was due is done");
        }
    }

    fn closes(&mut self, now: Instant) {
        if !self.ended {
            self.dialect.handle_event(DialectEvent::Closing(CloseReason::Replaced), now);
            self.collect();
            assert!(self.ended);
            assert!(self.open.values().all(|open| *open == 0), "everything was answered before the end");
        }
    }

    fn collect(&mut self) {
        while let Some(action) = self.dialect.poll_action() {
            assert!(!self.ended, "nothing follows the end: {action:?}");
            match action {
                DialectAction::Send(stream, Frame::Binary(frame))
                | DialectAction::Refuse(stream, _, Frame::Binary(frame)) => {
                    answer(&frame);
                    // A stream that hung up is not answered any more.
                    if let Some(open) = self.open.get_mut(&stream.0) {
                        *open -= 1;
                        assert!(*open >= 0, "a request was answered twice");
                    }
                }
                DialectAction::Publish(ticket, draft) => {
                    assert_eq!(draft.envelope().from().as_str(), "alice");
                    assert!(draft.envelope().text().len() <= LIMITS.message);
                    self.drafts.push_back((ticket, *draft));
                }
                DialectAction::Join(_) | DialectAction::Farewell(_) => {}
                DialectAction::Close(_) => self.ended = true,
                other => panic!("not of this grammar: {other:?}"),
            }
        }
    }
}

/// Its recipient can read an answer.
fn answer(frame: &[u8]) {
    let (header, body) = split(frame).expect("an answer is a frame");
    let header: serde_json::Value = serde_json::from_slice(header).expect("its header is JSON");
    let code = header["code"].as_u64().expect("it has a code");
    assert!([200, 400, 401, 403, 408, 429, 500, 503].contains(&code));
    let body: serde_json::Value = serde_json::from_slice(body).expect("its body is JSON");
    assert!(body.is_object());
    assert_eq!(code == 200, body["message"].is_null(), "a no has a sentence");
}
