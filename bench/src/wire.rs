//! What the load generator reads and writes: frames found by their headers, messages made from templates.
//! Deliberately absent: everything a measured server never sends (fragments, compression, binary messages) is an error.

use std::fmt::Write as _;

use anyhow::{Result, bail};

/// How a contender frames its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameFormat {
    WebSocket,
    Nats,
}

/// One frame from a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerFrame<'a> {
    Message(&'a [u8]),
    Ping(&'a [u8]),
    Pong,
    Close(&'a [u8]),
    /// Protocol chatter that nobody waits for.
    Chatter,
}

impl FrameFormat {
    /// The first frame in `buf` and how many bytes it takes, or `None` while it is incomplete.
    pub(crate) fn next(self, buf: &[u8]) -> Result<Option<(ServerFrame<'_>, usize)>> {
        match self {
            Self::WebSocket => next_websocket(buf),
            Self::Nats => next_nats(buf),
        }
    }

    /// The bytes that answer a ping.
    pub(crate) fn pong(self, body: &[u8]) -> Vec<u8> {
        match self {
            Self::WebSocket => {
                let mut out = vec![0x8a, 0x80 | body.len() as u8, 0, 0, 0, 0];
                out.extend_from_slice(body);
                out
            }
            Self::Nats => b"PONG\r\n".to_vec(),
        }
    }
}

/// Appends a text from a client, framed. A mask of zeros is a mask: the server unmasks as ever, and the generator need not.
pub(crate) fn masked(text: &[u8], out: &mut Vec<u8>) {
    out.push(0x81);
    match u16::try_from(text.len()) {
        Ok(length @ 0..=125) => out.push(0x80 | length as u8),
        Ok(length) => {
            out.push(0x80 | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(text.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(text);
}

fn next_websocket(buf: &[u8]) -> Result<Option<(ServerFrame<'_>, usize)>> {
    let [first, second, ..] = *buf else { return Ok(None) };
    if first & 0xf0 != 0x80 || second & 0x80 != 0 {
        bail!("a fragmented, compressed or masked frame (header {first:#04x} {second:#04x})");
    }
    let (start, len): (usize, usize) = match second {
        126 => match buf.get(2..4) {
            Some(&[a, b]) => (4, usize::from(u16::from_be_bytes([a, b]))),
            _ => return Ok(None),
        },
        127 => match buf.get(2..10).and_then(|l| <[u8; 8]>::try_from(l).ok()) {
            Some(len) => (10, usize::try_from(u64::from_be_bytes(len))?),
            None => return Ok(None),
        },
        short => (2, usize::from(short)),
    };
    let Some(end) = start.checked_add(len) else { bail!("a frame of {len} bytes") };
    let Some(body) = buf.get(start..end) else { return Ok(None) };
    let frame = match first & 0x0f {
        0x1 => ServerFrame::Message(body),
        0x8 => ServerFrame::Close(body),
        0x9 => ServerFrame::Ping(body),
        0xa => ServerFrame::Pong,
        opcode => bail!("a frame with opcode {opcode}"),
    };
    Ok(Some((frame, end)))
}

fn next_nats(buf: &[u8]) -> Result<Option<(ServerFrame<'_>, usize)>> {
    let Some(newline) = buf.iter().position(|&b| b == b'\n') else { return Ok(None) };
    let line = buf[..newline].trim_ascii_end();
    let after = newline + 1;
    if !line.starts_with(b"MSG ") {
        let frame = match line {
            b"PING" => ServerFrame::Ping(b""),
            b"PONG" => ServerFrame::Pong,
            line if line.starts_with(b"-ERR") => ServerFrame::Close(line),
            _ => ServerFrame::Chatter,
        };
        return Ok(Some((frame, after)));
    }
    let digits = line.rsplit(|&b| b == b' ').next().unwrap_or_default();
    let len: usize = std::str::from_utf8(digits)?.parse()?;
    let end = after + len;
    if buf.len() < end + 2 {
        return Ok(None);
    }
    Ok(Some((ServerFrame::Message(&buf[after..end]), end + 2)))
}

/// What a measured message is, told by one letter of its envelope id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageSort {
    Notification,
    Request,
    Response,
}

/// Where the envelope id of a measured message begins; the scan of a received message looks only there.
const PREFIX: &[u8] = br#"{"protocol":"mcp-x/v0","id":"bench-"#;
const DIGITS: usize = 10;
/// Sequence numbers are written from here on, so that each has ten digits and no leading zero (a JSON number may have none).
const BASE: u64 = 1_000_000_000;

/// The sort and sequence number of a message of ours, `None` for anybody else's.
pub(crate) fn identify(message: &[u8]) -> Option<(MessageSort, u32)> {
    let rest = message.strip_prefix(PREFIX)?;
    let sort = match rest.first()? {
        b'n' => MessageSort::Notification,
        b'q' => MessageSort::Request,
        b'r' => MessageSort::Response,
        _ => return None,
    };
    let number = rest
        .get(2..2 + DIGITS)?
        .iter()
        .try_fold(0u64, |n, d| d.is_ascii_digit().then(|| n * 10 + u64::from(d - b'0')))?;
    Some((sort, u32::try_from(number.checked_sub(BASE)?).ok()?))
}

/// The envelope id of a message of ours.
pub(crate) fn envelope_id(sort: MessageSort, sequence: u32) -> String {
    let letter = match sort {
        MessageSort::Notification => 'n',
        MessageSort::Request => 'q',
        MessageSort::Response => 'r',
    };
    format!("bench-{letter}-{}", BASE + u64::from(sequence))
}

/// A framed message with places for its sequence number: writing one is a copy and a patch.
pub(crate) struct MessageTemplate {
    frame: Vec<u8>,
    numbers: Vec<usize>,
}

impl MessageTemplate {
    /// An envelope of `size` bytes from `from`, framed for `wire` and bound for `topic`.
    pub(crate) fn new(wire: FrameFormat, topic: &str, sort: MessageSort, from: &str, to: &str, size: usize) -> Self {
        let envelope = envelope(sort, from, to, size);
        let mut frame = Vec::with_capacity(size + 64);
        match wire {
            FrameFormat::WebSocket => masked(envelope.as_bytes(), &mut frame),
            FrameFormat::Nats => {
                frame.extend_from_slice(format!("PUB {topic} {}\r\n", envelope.len()).as_bytes());
                frame.extend_from_slice(envelope.as_bytes());
                frame.extend_from_slice(b"\r\n");
            }
        }
        let zero = BASE.to_string();
        let numbers =
            (0..frame.len() - DIGITS).filter(|&at| frame[at..at + DIGITS] == *zero.as_bytes()).collect::<Vec<_>>();
        Self { frame, numbers }
    }

    /// Appends message number `sequence` to `out`.
    pub(crate) fn write(&self, sequence: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        let mut number = BASE + u64::from(sequence);
        let mut digits = [0u8; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        for at in &self.numbers {
            out[start + at..start + at + DIGITS].copy_from_slice(&digits);
        }
    }
}

fn envelope(sort: MessageSort, from: &str, to: &str, size: usize) -> String {
    let id = envelope_id(sort, 0);
    let mut head = format!(r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2026-01-01T00:00:00Z","from":"{from}","#);
    let (payload, tail) = match sort {
        MessageSort::Notification => (
            r#""kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":""#
                .to_owned(),
            r#""}}}"#,
        ),
        MessageSort::Request => (
            format!(
                r#""to":["{to}"],"kind":"mcp","payload":{{"jsonrpc":"2.0","id":{BASE},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":""#
            ),
            r#""}}}}"#,
        ),
        MessageSort::Response => (
            format!(
                r#""to":["{to}"],"kind":"mcp","correlation_id":"{}","payload":{{"jsonrpc":"2.0","id":{BASE},"result":{{"content":[{{"type":"text","text":""#,
                envelope_id(MessageSort::Request, 0)
            ),
            r#""}]}}}"#,
        ),
    };
    head.push_str(&payload);
    let padding = size.saturating_sub(head.len() + tail.len());
    let _ = write!(head, "{:x<padding$}{tail}", "");
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(body: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x81];
        match body.len() {
            0..=125 => frame.push(body.len() as u8),
            126..=65535 => {
                frame.push(126);
                frame.extend_from_slice(&(body.len() as u16).to_be_bytes());
            }
            _ => {
                frame.push(127);
                frame.extend_from_slice(&(body.len() as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(body);
        frame
    }

    #[test]
    fn every_length_form_is_found_and_every_cut_is_incomplete() {
        for len in [0, 1, 125, 126, 65535, 65536] {
            let body = vec![b'x'; len];
            let frame = served(&body);
            let mut two = frame.clone();
            two.extend_from_slice(&frame);
            assert_eq!(FrameFormat::WebSocket.next(&two).unwrap(), Some((ServerFrame::Message(&body), frame.len())));
            for cut in (0..frame.len()).step_by(1 + len / 64) {
                assert_eq!(FrameFormat::WebSocket.next(&frame[..cut]).unwrap(), None, "{len} cut at {cut}");
            }
        }
    }

    #[test]
    fn control_frames_are_told_apart() {
        let table: [(&[u8], ServerFrame<'_>); 3] = [
            (&[0x89, 1, b'a'], ServerFrame::Ping(b"a")),
            (&[0x8a, 0], ServerFrame::Pong),
            (&[0x88, 2, 3, 232], ServerFrame::Close(&[3, 232])),
        ];
        for (bytes, frame) in table {
            assert_eq!(FrameFormat::WebSocket.next(bytes).unwrap(), Some((frame, bytes.len())));
        }
    }

    #[test]
    fn what_no_server_here_sends_is_an_error() {
        for bytes in [[0x01, 0], [0xc1, 0], [0x81, 0x80], [0x82, 0]] {
            assert!(FrameFormat::WebSocket.next(&bytes).is_err(), "{bytes:?}");
        }
        let huge = [0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(FrameFormat::WebSocket.next(&huge).is_err());
    }

    #[test]
    fn nats_lines_are_told_apart() {
        let stream = b"INFO {}\r\nPONG\r\nMSG room 1 3\r\na\nb\r\nPING\r\n-ERR 'x'\r\nMSG room 1 4\r\nabc";
        let (mut at, mut seen) = (0, Vec::new());
        while let Some((frame, used)) = FrameFormat::Nats.next(&stream[at..]).unwrap() {
            seen.push(format!("{frame:?}"));
            at += used;
        }
        let expected = [
            ServerFrame::Chatter,
            ServerFrame::Pong,
            ServerFrame::Message(b"a\nb"),
            ServerFrame::Ping(b""),
            ServerFrame::Close(b"-ERR 'x'"),
        ];
        assert_eq!(seen, expected.map(|frame| format!("{frame:?}")));
    }

    #[test]
    fn a_template_has_its_size_and_carries_its_number_everywhere() {
        for sort in [MessageSort::Notification, MessageSort::Request, MessageSort::Response] {
            let template = MessageTemplate::new(FrameFormat::Nats, "room", sort, "alice", "bob", 300);
            let mut out = Vec::new();
            template.write(42, &mut out);
            let header = b"PUB room 300\r\n".len();
            let envelope = &out[header..out.len() - 2];
            assert_eq!(identify(envelope), Some((sort, 42)));
            let parsed: serde_json::Value = serde_json::from_slice(envelope).unwrap();
            assert_eq!(parsed["id"], envelope_id(sort, 42));
            if sort != MessageSort::Notification {
                assert_eq!(parsed["payload"]["id"], BASE + 42);
            }
            if sort == MessageSort::Response {
                assert_eq!(parsed["correlation_id"], envelope_id(MessageSort::Request, 42));
            }
        }
    }

    #[test]
    fn strangers_are_not_ours() {
        for message in [&b""[..], b"{}", PREFIX, br#"{"protocol":"mcp-x/v0","id":"bench-n-12345"#] {
            assert_eq!(identify(message), None);
        }
    }
}
