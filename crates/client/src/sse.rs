//! Server-sent events: bytes in, events out. For event streams of gateways and of MCP servers (HTML Living Standard §9.2).
//!
//! Invariant: pure. No IO, no clock; how the bytes were cut into chunks changes nothing.

use std::collections::VecDeque;
use std::time::Duration;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its type; `message` when it named none.
    pub name: String,
    /// Its lines of data. Empty too for a block that only set an id or a delay.
    pub data: String,
    /// The stream's last id so far: where to resume after this event.
    pub id: Option<Box<str>>,
}

/// A line or an event is longer than the decoder keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of its stream has more than {0} bytes")]
pub struct TooLong(usize);

/// Takes a stream apart. Keeps at most `limit` bytes of an unfinished event.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The unfinished line.
    line: Vec<u8>,
    /// A carriage return was the last byte: a line feed right after it belongs to it.
    after_return: bool,
    /// Nothing but a part of the byte order mark was seen.
    fresh: bool,
    data: Vec<u8>,
    has_data: bool,
    name: String,
    touched: bool,
    id: Option<Box<str>>,
    retry: Option<Duration>,
    events: VecDeque<SseEvent>,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl SseDecoder {
    /// A decoder for the beginning of a stream.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            fresh: true,
            data: Vec::new(),
            has_data: false,
            name: String::new(),
            touched: false,
            id: None,
            retry: None,
            events: VecDeque::new(),
        }
    }

    /// Takes the next bytes. After an error nothing more is to be pushed.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), TooLong> {
        while let Some(first) = chunk.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let end = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &chunk[..end.unwrap_or(chunk.len())];
            if self.line.len() + self.data.len() + piece.len() > self.limit {
                return Err(TooLong(self.limit));
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { return Ok(()) };
            self.after_return = chunk[end] == b'\r';
            chunk = &chunk[end + 1..];
            let line = std::mem::take(&mut self.line);
            let bare = if std::mem::take(&mut self.fresh) { line.strip_prefix(BOM).unwrap_or(&line) } else { &line };
            self.take_line(bare);
        }
        Ok(())
    }

    /// The next whole event.
    pub fn take(&mut self) -> Option<SseEvent> {
        self.events.pop_front()
    }

    /// How long the server asks to wait before coming back.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn take_line(&mut self, line: &[u8]) {
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
                self.touched = true;
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.id = (!value.is_empty()).then(|| String::from_utf8_lossy(value).into());
                self.touched = true;
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        self.has_data = false;
        if std::mem::take(&mut self.touched) {
            let name = if name.is_empty() { "message".to_owned() } else { name };
            // Text that is not UTF-8 is not JSON either, and is refused as such.
            let data = String::from_utf8(data).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
            self.events.push_back(SseEvent { name, data, id: self.id.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Events as text: `name|data|id`.
    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut decoder = SseDecoder::new(1000);
        let mut told = Vec::new();
        for chunk in chunks {
            decoder.push(chunk).expect("short enough");
            while let Some(SseEvent { name, data, id }) = decoder.take() {
                told.push(format!("{name}|{data}|{}", id.as_deref().unwrap_or("-")));
            }
        }
        told
    }

    #[test]
    fn the_format_is_read_as_browsers_read_it() {
        let table: &[(&str, &[&str])] = &[
            ("data: one\n\n", &["message|one|-"]),
            ("data:one\r\rdata: two\r\n\r\n", &["message|one|-", "message|two|-"]),
            ("data: a\ndata:  b\ndata\n\n", &["message|a\n b\n|-"]),
            ("data: a\r\ndata: b\r\n\r\n", &["message|a\nb|-"]),
            ("\u{FEFF}event: endpoint\ndata: /m?s=1\n\n", &["endpoint|/m?s=1|-"]),
            ("\u{FEFF}\u{FEFF}data: x\n\n", &[]),
            (": a comment\n\n\n\ndata: x\n\n", &["message|x|-"]),
            ("id: 7\ndata:\nretry: 20\n\ndata: y\n\n", &["message||7", "message|y|7"]),
            ("id: 7\n\nid\ndata: y\n\n", &["message||7", "message|y|-"]),
            ("id: a\0b\ndata: y\n\n", &["message|y|-"]),
            ("event: lost\n\ndata: y\n\n", &["message|y|-"]),
            ("data: no end\n", &[]),
            ("Data: x\nunknown: y\n\n", &[]),
        ];
        for (text, events) in table {
            assert_eq!(decode([text.as_bytes()]), *events, "{text:?}");
        }
    }

    #[test]
    fn the_delay_is_the_last_one_that_is_a_number() {
        let mut decoder = SseDecoder::new(100);
        decoder.push(b"retry: 1500\nretry: soon\nretry:\nretry: 99999999999999999999\n").unwrap();
        assert_eq!(decoder.retry(), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn an_event_is_bounded_over_its_lines() {
        let mut decoder = SseDecoder::new(20);
        decoder.push(b"data: 12345678\n").unwrap();
        decoder.push(b"data: 12345").unwrap();
        assert_eq!(decoder.push(b"6789"), Err(TooLong(20)));
        let mut decoder = SseDecoder::new(20);
        for _ in 0..10 {
            decoder.push(b"data: 12345678\n\n").unwrap();
        }
    }

    proptest! {
        #[test]
        fn chunks_change_nothing(text in "(\u{FEFF})?((data|id|event|retry|x)?:? ?[a-z0-9é]{0,5}(\n|\r|\r\n)){0,12}", cuts in prop::collection::vec(0usize..200, 0..20)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(decode(chunks), decode([bytes]));
        }

        #[test]
        fn no_bytes_are_too_strange(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let mut decoder = SseDecoder::new(64);
            for chunk in &chunks {
                if decoder.push(chunk).is_err() { break }
            }
        }
    }
}
