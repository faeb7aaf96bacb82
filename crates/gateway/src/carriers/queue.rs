//! What waits to be written to one connection.
//!
//! Many small frames leave in one write. Invariant: entries are held by reference, so a reader that stalls costs no copies.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use salon_dialects::Frame;
use salon_protocol::Entry;
use salon_rooms::Batch;

/// The most bytes gathered for one write.
const GATHER: usize = 64 * 1024;

/// A piece of at least this size is written from where it lies rather than copied together with its neighbours.
const LARGE: usize = 8 * 1024;

/// The opcodes of whole messages.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;

thread_local! {
    /// Where small frames are laid side by side for one write; nothing stays in it between two.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Frames in the order they are to be written.
#[derive(Default)]
pub(super) struct WriteQueue {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// How much of the front piece is already written.
    written: usize,
}

pub(super) enum Piece {
    Framed {
        header: WebSocketHeader,
        frame: Frame,
    },
    /// Entries, framed once for everyone.
    Batch(Arc<Batch>),
    /// Bytes that already are frames.
    Raw(Vec<u8>),
}

impl Piece {
    pub(super) fn frame(frame: Frame) -> Self {
        let opcode = if matches!(frame, Frame::Binary(_)) { BINARY } else { TEXT };
        Self::Framed { header: WebSocketHeader::new(opcode, payload(&frame).len()), frame }
    }

    /// The piece as at most two parts that follow each other.
    fn parts(&self) -> [&[u8]; 2] {
        match self {
            Self::Framed { header, frame } => [header.bytes(), payload(frame)],
            Self::Batch(batch) => [encoded(batch), &[]],
            Self::Raw(bytes) => [bytes, &[]],
        }
    }

    fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

/// A batch as frames, one an entry.
pub(super) fn encoded(batch: &Batch) -> &[u8] {
    batch.encoded(|entries: &[Arc<Entry>]| {
        let mut bytes = Vec::with_capacity(entries.iter().map(|entry| entry.envelope.text().len() + 10).sum());
        for entry in entries {
            let text = entry.envelope.text().as_bytes();
            bytes.extend_from_slice(WebSocketHeader::new(TEXT, text.len()).bytes());
            bytes.extend_from_slice(text);
        }
        bytes
    })
}

fn payload(frame: &Frame) -> &[u8] {
    match frame {
        Frame::Text(text) => text.as_bytes(),
        Frame::Binary(bytes) => bytes,
        Frame::Entry(entry) => entry.envelope.text().as_bytes(),
        // A WebSocket has no events; what one would say is its data.
        Frame::Event(event) => event.data.as_bytes(),
    }
}

/// The header of an unmasked, unfragmented frame.
pub(super) struct WebSocketHeader {
    bytes: [u8; 10],
    len: u8,
}

impl WebSocketHeader {
    fn new(opcode: u8, length: usize) -> Self {
        let mut bytes = [opcode, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let len = match length {
            0..=125 => {
                bytes[1] = length as u8;
                2
            }
            126..=0xffff => {
                bytes[1] = 126;
                bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                4
            }
            _ => {
                bytes[1] = 127;
                bytes[2..10].copy_from_slice(&(length as u64).to_be_bytes());
                10
            }
        };
        Self { bytes, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl WriteQueue {
    pub(super) fn push(&mut self, piece: Piece) {
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Queues a batch of which the beginning is already written.
    pub(super) fn push_rest(&mut self, batch: Arc<Batch>, written: usize) {
        debug_assert!(self.is_empty(), "only the front piece can be half written");
        self.push(Piece::Batch(batch));
        self.bytes -= written;
        self.written = written;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lays the front of the queue out for one write.
    pub(super) fn with_front<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        GATHERED.with_borrow_mut(|gathered| {
            gathered.clear();
            let mut skip = self.written;
            let mut large: &[u8] = &[];
            'gather: for piece in &self.pieces {
                for part in piece.parts() {
                    let rest = &part[skip.min(part.len())..];
                    skip = skip.saturating_sub(part.len());
                    if rest.len() >= LARGE {
                        large = rest;
                        break 'gather;
                    }
                    gathered.extend_from_slice(rest);
                }
                if gathered.len() >= GATHER {
                    break;
                }
            }
            match (gathered.is_empty(), large.is_empty()) {
                (false, true) => write(&[IoSlice::new(gathered)]),
                (true, false) => write(&[IoSlice::new(large)]),
                _ => write(&[IoSlice::new(gathered), IoSlice::new(large)]),
            }
        })
    }

    /// Forgets what was written.
    pub(super) fn advance(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while let Some(front) = self.pieces.front() {
            let left = front.len() - self.written;
            if bytes < left {
                self.written += bytes;
                return;
            }
            bytes -= left;
            self.written = 0;
            self.pieces.pop_front();
        }
        // An idle connection keeps no queue.
        self.pieces.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the queue in strides of `stride` bytes and gives everything that was written.
    fn drain(mut queue: WriteQueue, stride: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !queue.is_empty() {
            let taken: Vec<u8> =
                queue.with_front(|slices| slices.iter().flat_map(|slice| slice.iter().copied()).take(stride).collect());
            assert!(!taken.is_empty(), "a queue that is not empty has something to write");
            queue.advance(taken.len());
            all.extend(taken);
        }
        assert_eq!(queue.bytes(), 0);
        all
    }

    #[test]
    fn whatever_the_socket_takes_the_bytes_are_the_same() {
        let fill = || {
            let mut queue = WriteQueue::default();
            queue.push(Piece::frame(Frame::Text("hello".into())));
            queue.push(Piece::frame(Frame::Binary(vec![7; 300].into())));
            queue.push(Piece::Raw(vec![0x8a, 0]));
            queue.push(Piece::frame(Frame::Text("x".repeat(70_000).into())));
            queue.push(Piece::frame(Frame::Text("end".into())));
            queue
        };
        let mut expected = b"\x81\x05hello\x82\x7e\x01\x2c".to_vec();
        expected.extend([7; 300]);
        expected.extend(b"\x8a\x00\x81\x7f\x00\x00\x00\x00\x00\x01\x11\x70");
        expected.extend([b'x'; 70_000]);
        expected.extend(b"\x81\x03end");
        for stride in [1, 2, 3, 7, 311, 4096, 1 << 20] {
            assert!(drain(fill(), stride) == expected, "in strides of {stride}");
        }
    }
}
