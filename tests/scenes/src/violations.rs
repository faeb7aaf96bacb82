//! Violations of the WebSocket protocol itself: they end that connection with the right code, and only that.

use libtest_mimic::Trial;
use salon_testkit::{Failure, TestEngine, TestSocketEvent};

use crate::room::{Room, envelope, next};
use crate::tables::{Case, Logs, check_all, trial};

const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    if !Logs::SqliteOnly.include(engine) {
        return Vec::new();
    }
    let violations: Vec<(&str, Vec<u8>, u16)> = vec![
        ("invalid UTF-8", frame(FIN | TEXT, b"{\"id\":\"\xff\"}"), 1007),
        ("an overlong encoding", frame(FIN | TEXT, b"\xc0\xaf"), 1007),
        ("an encoded surrogate", frame(FIN | TEXT, b"\xed\xa0\x80"), 1007),
        ("a character cut off", frame(FIN | TEXT, b"\xf0\x9f\x98"), 1007),
        ("invalid UTF-8 in a frame whose end does not come", unended(b"{\"id\":\"\xff"), 1007),
        ("invalid UTF-8 after a whole message", [frame(FIN | PING, b"first"), unended(b"\xff")].concat(), 1007),
        (
            "invalid UTF-8 in a fragment whose end does not come",
            [frame(TEXT, b"{\"id\":\"\xf0\x9f"), frame(FIN | PING, b"\xff"), frame(0, b"\x41")].concat(),
            1007,
        ),
        ("invalid UTF-8 in a fragment", [frame(TEXT, b"{\"id\":"), frame(FIN, b"\xff}")].concat(), 1007),
        ("an unmasked frame", [&[FIN | TEXT, 2][..], b"{}"].concat(), 1002),
        ("a reserved bit", frame(FIN | 0x40 | TEXT, b"{}"), 1002),
        ("all reserved bits", frame(FIN | 0x70 | TEXT, b"{}"), 1002),
        ("a reserved data opcode", frame(FIN | 3, b"{}"), 1002),
        ("a reserved control opcode", frame(FIN | 0xb, b""), 1002),
        ("an oversize ping", frame(FIN | PING, &[b'a'; 126]), 1002),
        ("a fragmented ping", frame(PING, b"a"), 1002),
        ("a continuation of nothing", frame(FIN, b"{}"), 1002),
        ("a message within a message", [frame(TEXT, b"{"), frame(FIN | TEXT, b"}")].concat(), 1002),
        ("a binary message within a message", [frame(TEXT, b"{"), frame(FIN | BINARY, b"}")].concat(), 1002),
        ("a close of one byte", frame(FIN | CLOSE, b"\x03"), 1002),
        ("a close with a code nobody may send", frame(FIN | CLOSE, &1005u16.to_be_bytes()), 1002),
        ("a close with a code below all", frame(FIN | CLOSE, &999u16.to_be_bytes()), 1002),
        ("a close whose reason is no UTF-8", frame(FIN | CLOSE, b"\x03\xe8\xff"), 1007),
        ("a frame of a gigabyte", header(FIN | TEXT, 1 << 30), 1009),
    ];
    let violations = violations.into_iter().map(|(name, bytes, code)| Violation { name, bytes, code });
    let violations: Vec<Violation> = violations.collect();
    vec![
        trial(engine, "violation::all", move || async move {
            check_all(violations, async || Room::open(engine).await, violate).await?.close().await
        }),
        trial(engine, "violation::none in fragments with a ping between", move || fragments(engine)),
    ]
}

struct Violation {
    name: &'static str,
    bytes: Vec<u8>,
    /// The code of the close that must follow.
    code: u16,
}

impl Case for Violation {
    fn name(&self) -> String {
        self.name.to_owned()
    }
}

async fn violate(room: &mut Room, Violation { bytes, code, .. }: Violation) -> Result<(), Failure> {
    room.mallory.bytes(&bytes).await?;
    match room.mallory.next().await? {
        TestSocketEvent::Closed(came, _) if came == code => {}
        other => return Err(format!("expected to be closed with {code}, came {other:?}")),
    }
    room.goes_on_without_mallory().await
}

/// What the protocol allows is taken: one message in three fragments, and a ping between them.
async fn fragments(engine: TestEngine) -> Result<(), Failure> {
    let mut room = Room::open(engine).await?;
    let text = envelope("mallory", "in-pieces", "", r#""method":"notifications/é""#);
    // The second cut goes through the é: a fragment need not end with a character.
    let (first, second) = (20, text.find('é').expect("it is there") + 1);
    let bytes = text.as_bytes();
    for piece in [
        frame(TEXT, &bytes[..first]),
        frame(FIN | PING, b"still there?"),
        frame(0, &bytes[first..second]),
        frame(FIN, &bytes[second..]),
    ] {
        room.mallory.bytes(&piece).await?;
    }
    for socket in [&mut room.alice, &mut room.bob, &mut room.mallory] {
        let came = next(socket).await?;
        if came != text {
            return Err(format!("expected {text}, came {came}"));
        }
    }
    room.goes_on().await?;
    room.close().await
}

/// A masked frame with this first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut bytes = header(first, payload.len() as u64);
    let start = bytes.len() - mask.len();
    bytes[start..].copy_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// The beginning of a text frame that has a thousand bytes more.
fn unended(payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(FIN | TEXT, payload.len() as u64 + 1000);
    bytes.extend(payload);
    bytes
}

/// The head of a masked frame of this length; the mask is zero.
fn header(first: u8, length: u64) -> Vec<u8> {
    const MASKED: u8 = 0x80;
    let mut bytes = vec![first];
    match length {
        0..126 => bytes.push(MASKED | length as u8),
        126..65_536 => {
            bytes.push(MASKED | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(MASKED | 127);
            bytes.extend(length.to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes
}
