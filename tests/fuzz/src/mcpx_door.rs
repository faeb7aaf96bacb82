//! What the WebSocket door hears: any bytes on the wire, or any frames between any events of the room.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_dialects::mcpx::{Mcpx, McpxOptions};
use salon_dialects::{Dialect, DialectAction, DialectEvent, Frame, History, Joined, Stamps, StreamId, Ticket};
use salon_protocol::{
    CloseReason, Code, Draft, Entry, Envelope, EnvelopeId, Kind, Limits, Participant, ParticipantId, Position, Refusal,
    Timestamp, TopicName,
};
use tungstenite::Message;
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};

const LIMITS: Limits = Limits { message: 2048, answer: 2048, depth: 16, recipients: 4 };

/// Beyond this the carrier reads nothing.
const HARD_LIMIT: usize = 2 * LIMITS.message;

/// Parts the input into frames: the byte after each says what comes next.
const SEPARATOR: u8 = 0xff;

pub(crate) fn run(bytes: &[u8]) -> bool {
    let now = Instant::now();
    let mut door = Door::open(now);
    match bytes {
        [b'W', chunk, wire @ ..] => hear_wire(&mut door, usize::from(*chunk) + 1, wire, now),
        _ => hear_frames(&mut door, bytes, now),
    }
    door.closes(now);
    true
}

/// The bytes of a WebSocket after its handshake, arriving in pieces, through the reader that the carrier uses.
fn hear_wire(door: &mut Door, chunk: usize, bytes: &[u8], now: Instant) {
    let (early, rest) = bytes.split_at(bytes.len().min(chunk));
    let config = WebSocketConfig::default()
        .read_buffer_size(64)
        .write_buffer_size(0)
        .max_message_size(Some(HARD_LIMIT))
        .max_frame_size(Some(HARD_LIMIT));
    let mut reader = WebSocketContext::from_partially_read(early.to_vec(), Role::Server, Some(config));
    let mut wire = Wire { unread: rest, chunk };
    for _ in 0..=bytes.len() {
        match reader.read(&mut wire) {
            Ok(Message::Text(text)) => {
                assert!(text.len() <= HARD_LIMIT);
                door.hears(&text, now);
            }
            Ok(Message::Binary(body)) => {
                assert!(body.len() <= HARD_LIMIT);
                door.hears_binary(&body, now);
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
    panic!("a frame has at least two bytes, so the wire has ended");
}

/// A wire that gives its bytes in pieces and takes all it is given.
struct Wire<'a> {
    unread: &'a [u8],
    chunk: usize,
}

impl Read for Wire<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (now, later) = self.unread.split_at(self.unread.len().min(self.chunk).min(buf.len()));
        buf[..now.len()].copy_from_slice(now);
        self.unread = later;
        Ok(now.len())
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hear_frames(door: &mut Door, bytes: &[u8], began: Instant) {
    let mut now = began;
    for piece in bytes.split(|byte| *byte == SEPARATOR) {
        let Some((what, body)) = piece.split_first() else { continue };
        now += Duration::from_millis(500);
        match (what % 8, std::str::from_utf8(body)) {
            (0, _) => door.hears_binary(body, now),
            (1, _) => door.passes_time(now),
            (2, Ok(text)) => door.is_refused(text, now),
            (3, Ok(text)) => door.is_sent(text, now),
            (_, Ok(text)) => door.hears(text, now),
            // A carrier passes no text on that is not UTF-8.
            (_, Err(_)) => {}
        }
    }
}

struct Door {
    dialect: Mcpx,
    published: u64,
}

impl Door {
    fn open(now: Instant) -> Self {
        let options = McpxOptions { limits: LIMITS, echo: true, heartbeat: Some(Duration::from_secs(1)) };
        let mut door = Self { dialect: Mcpx::new(options, Stamps::new("s", now, Timestamp(0))), published: 0 };
        let alice = Arc::new(Participant::new(ParticipantId::new("alice").expect("a name")));
        let joined = Joined {
            topic: TopicName::new("room:alpha").expect("a name"),
            participant: alice.clone(),
            roster: vec![alice],
            open_calls: Vec::new(),
            history: History { enabled: true, limit: 100, recent: Some(Vec::new()) },
            durability: None,
        };
        door.dialect.handle_event(DialectEvent::Joined(joined), now);
        assert!(door.said().contains("\"event\":\"welcome\""), "the welcome is first");
        door
    }

    /// A text frame is proposed as it is, or refused: exactly one of the two.
    fn hears(&mut self, text: &str, now: Instant) {
        self.dialect.handle_frame(StreamId::ONLY, Frame::Text(text.into()), now);
        match Draft::parse(text, &LIMITS) {
            Ok(_) => {
                let action = self.dialect.poll_action();
                let Some(DialectAction::Publish(Ticket(ticket), draft)) = action else {
                    panic!("not proposed: {action:?}")
                };
                assert_eq!(draft.envelope().text(), text, "what is proposed is what was sent");
                assert!(ticket > self.published, "a ticket is never used again");
                self.published = ticket;
            }
            Err(refusal) => self.says_no(refusal.code, refusal.regarding.as_ref()),
        }
        self.is_quiet();
    }

    fn hears_binary(&mut self, body: &[u8], now: Instant) {
        self.dialect.handle_frame(StreamId::ONLY, Frame::Binary(body.into()), now);
        self.says_no(Code::InvalidEnvelope, None);
        self.is_quiet();
    }

    fn is_refused(&mut self, message: &str, now: Instant) {
        let id = EnvelopeId::new(message).ok();
        let refusal = Refusal::new(Code::Internal, message).regarding(id.clone());
        self.dialect.handle_event(DialectEvent::Refused { ticket: Ticket(self.published), refusal }, now);
        self.says_no(Code::Internal, id.as_ref());
        self.is_quiet();
    }

    /// An entry goes out untouched.
    fn is_sent(&mut self, text: &str, now: Instant) {
        let Ok(envelope) = Envelope::restore(text) else { return };
        let entry = Arc::new(Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope });
        self.dialect.handle_event(DialectEvent::Entry(entry.clone()), now);
        assert_eq!(self.dialect.poll_action(), Some(DialectAction::Send(StreamId::ONLY, Frame::Entry(entry))));
        self.is_quiet();
    }

    fn passes_time(&mut self, now: Instant) {
        let due = self.dialect.poll_timeout().is_some_and(|at| at <= now);
        self.dialect.handle_timeout(now);
        if due {
            assert!(self.said().contains("\"event\":\"heartbeat\""));
        }
        self.is_quiet();
    }

    fn closes(&mut self, now: Instant) {
        self.dialect.handle_event(DialectEvent::Closing(CloseReason::Replaced), now);
        assert_eq!(self.dialect.poll_action(), Some(DialectAction::Close(CloseReason::Replaced)));
        self.is_quiet();
    }

    fn says_no(&mut self, code: Code, regarding: Option<&EnvelopeId>) {
        let action = self.dialect.poll_action();
        let Some(DialectAction::Refuse(StreamId::ONLY, told, Frame::Text(text))) = action else {
            panic!("no refusal: {action:?}")
        };
        assert_eq!(told, code);
        let envelope = Envelope::restore(text).expect("what the gateway says is an envelope");
        assert_eq!(envelope.kind(), Kind::System);
        assert!(envelope.from().is_host());
        assert_eq!(envelope.correlation(), regarding, "a refusal names what it refuses");
        assert!(envelope.payload().contains(&format!("\"event\":\"error\",\"type\":\"error\",\"code\":\"{code}\"")));
    }

    fn said(&mut self) -> String {
        let action = self.dialect.poll_action();
        let Some(DialectAction::Send(StreamId::ONLY, Frame::Text(text))) = action else {
            panic!("nothing was said: {action:?}")
        };
        text.into()
    }

    fn is_quiet(&mut self) {
        assert_eq!(self.dialect.poll_action(), None, "one thing heard has one answer");
    }
}
