//! Finds bytes of a WebSocket's text that are not UTF-8 before their frame is whole (RFC 6455 §8.1).
//!
//! tungstenite checks whole frames, so a peer could hold a connection and a buffer with a frame that is invalid from its first byte.
//! This follows the frames as their bytes come. What it does not understand it leaves to tungstenite, which reads the same bytes.

/// The bytes of a frame's head: two, the longest length, the mask.
const MAX_HEAD: usize = 2 + 8 + 4;

/// How many bytes are unmasked at once.
const PIECE: usize = 512;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;

/// Follows the frames of one peer.
#[derive(Debug, Default)]
pub(super) struct Utf8Watch {
    /// What has come of a frame's head.
    head: [u8; MAX_HEAD],
    head_len: u8,
    /// How many bytes of the frame's payload are to come.
    left: u64,
    mask: [u8; 4],
    /// How many bytes of the payload have come, modulo four: where the mask goes on.
    turn: u8,
    /// Whether the message is text; its fragments are.
    is_text: bool,
    /// Whether the frame's payload is checked here.
    is_checked: bool,
    /// The beginning of a character whose end is to come.
    cut: [u8; 3],
    cut_len: u8,
    failed: bool,
}

impl Utf8Watch {
    /// Whether text has come that is not UTF-8. Nothing after it matters.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Takes the next bytes of the connection.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.failed {
            bytes = if self.left > 0 { self.payload(bytes) } else { self.header(bytes) };
        }
    }

    /// Takes bytes of a head, and returns those that follow it.
    fn header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let have = usize::from(self.head_len);
        // The second byte says how long the head is.
        let wanted = if have < 2 { 2 } else { head_len(self.head[1]) };
        let (taken, rest) = bytes.split_at(bytes.len().min(wanted - have));
        self.head[have..have + taken.len()].copy_from_slice(taken);
        self.head_len += taken.len() as u8;
        let have = usize::from(self.head_len);
        if have >= 2 && have == head_len(self.head[1]) {
            self.head_len = 0;
            self.begin(have, rest.len() as u64);
        }
        rest
    }

    /// A head is whole: what kind of payload follows it, of which `available` bytes have come already at most.
    fn begin(&mut self, head_len: usize, available: u64) {
        let (first, second) = (self.head[0], self.head[1]);
        let is_masked = second & 0x80 != 0;
        let length = &self.head[2..head_len - if is_masked { 4 } else { 0 }];
        self.left = match length.len() {
            0 => u64::from(second & 0x7f),
            _ => length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        self.mask = if is_masked { std::array::from_fn(|at| self.head[head_len - 4 + at]) } else { [0; 4] };
        self.turn = 0;
        let is_last = first & 0x80 != 0;
        let opcode = first & 0x0f;
        match opcode {
            TEXT | BINARY => {
                self.is_text = opcode == TEXT;
                self.cut_len = 0;
                // A message that has come whole is tungstenite's to check.
                self.is_checked = self.is_text && !(is_last && self.left <= available);
            }
            CONTINUATION => self.is_checked = self.is_text,
            // Control frames come between fragments and change nothing.
            _ => self.is_checked = false,
        }
    }

    /// Takes bytes of a payload, and returns those that follow it.
    fn payload<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let count = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (taken, rest) = bytes.split_at(count);
        self.left -= count as u64;
        if self.is_checked {
            for piece in taken.chunks(PIECE) {
                self.check(piece);
                if self.failed {
                    return &[];
                }
            }
        }
        rest
    }

    fn check(&mut self, masked: &[u8]) {
        let mut piece = [0; PIECE + 3];
        let cut = usize::from(self.cut_len);
        piece[..cut].copy_from_slice(&self.cut[..cut]);
        for (at, byte) in masked.iter().enumerate() {
            piece[cut + at] = byte ^ self.mask[(usize::from(self.turn) + at) % 4];
        }
        self.turn = ((usize::from(self.turn) + masked.len()) % 4) as u8;
        let text = &piece[..cut + masked.len()];
        self.cut_len = 0;
        if let Err(error) = std::str::from_utf8(text) {
            let rest = &text[error.valid_up_to()..];
            match error.error_len() {
                Some(_) => self.failed = true,
                // A character of at most four bytes that is not whole has at most three.
                None => {
                    self.cut[..rest.len()].copy_from_slice(rest);
                    self.cut_len = rest.len() as u8;
                }
            }
        }
    }
}

/// How long the head is whose second byte is this (RFC 6455 §5.2).
fn head_len(second: u8) -> usize {
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & 0x80 != 0 { 4 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tungstenite::protocol::frame::FrameHeader;
    use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

    use super::*;

    /// A masked frame as a client writes it.
    fn frame(payload: &[u8], opcode: OpCode, is_last: bool) -> Vec<u8> {
        let mask = [0x12, 0x34, 0x56, 0x78];
        let header = FrameHeader { is_final: is_last, opcode, mask: Some(mask), ..FrameHeader::default() };
        let mut bytes = Vec::new();
        header.format(payload.len() as u64, &mut bytes).expect("a head");
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// After how many bytes the watch has failed, when they come in pieces of this size.
    fn failed_after(bytes: &[u8], size: usize) -> Option<usize> {
        let mut watch = Utf8Watch::default();
        let mut fed = 0;
        for piece in bytes.chunks(size) {
            watch.feed(piece);
            fed += piece.len();
            if watch.has_failed() {
                return Some(fed);
            }
        }
        None
    }

    #[test]
    fn text_fails_where_it_becomes_invalid() {
        let text = OpCode::Data(Data::Text);
        let long = [b"{\"id\":\"".as_slice(), b"\xff", &[b'a'; 70_000]].concat();
        // The head of a frame of this length has 14 bytes.
        assert_eq!(failed_after(&frame(&long, text, true), 1), Some(14 + 8));
        // Neither an encoded surrogate nor an overlong encoding is waited for to its end.
        assert_eq!(failed_after(&frame(b"\xed\xa0\x80", text, true), 1), Some(6 + 2));
        assert_eq!(failed_after(&frame(b"a\xc0\xaf", text, true), 1), Some(6 + 2));
        // The same bytes as binary, or in a control frame, are nobody's text.
        assert_eq!(failed_after(&frame(&long, OpCode::Data(Data::Binary), true), 1), None);
        assert_eq!(failed_after(&frame(b"\xff", OpCode::Control(Control::Ping), true), 1), None);
    }

    #[test]
    fn a_character_may_be_cut_anywhere() {
        let (text, more) = (OpCode::Data(Data::Text), OpCode::Data(Data::Continue));
        let smile = "😀".as_bytes();
        let whole = [
            frame(&smile[..1], text, false),
            frame(b"\xff", OpCode::Control(Control::Ping), true),
            frame(&smile[1..3], more, false),
            frame(&smile[3..], more, true),
            frame("é".as_bytes(), text, true),
        ]
        .concat();
        for size in 1..whole.len() {
            assert_eq!(failed_after(&whole, size), None, "in pieces of {size}");
        }
        let broken = [frame(&smile[..1], text, false), frame(b"a", more, false)].concat();
        assert_eq!(failed_after(&broken, 1), Some(broken.len()));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_look_at_the_whole(payload: Vec<u8>, cut in 0_usize..64, size in 1_usize..64) {
            let cut = cut.min(payload.len());
            let (first, rest) = payload.split_at(cut);
            // A last fragment that does not come, so that nothing is left to tungstenite.
            let frames = [
                frame(first, OpCode::Data(Data::Text), false),
                frame(rest, OpCode::Data(Data::Continue), false),
            ].concat();
            let is_invalid = std::str::from_utf8(&payload).is_err_and(|error| error.error_len().is_some());
            prop_assert_eq!(failed_after(&frames, size).is_some(), is_invalid);
        }

        #[test]
        fn noise_is_no_reason_to_panic(bytes: Vec<u8>, size in 1_usize..20) {
            failed_after(&bytes, size);
        }
    }
}
