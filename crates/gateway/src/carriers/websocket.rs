//! WebSocket as a carrier. tungstenite reads; what it wants to say itself (pong, close) goes through the same queue as our frames.
//!
//! Many small frames leave in one write. Invariant: the queue holds entries by reference, so a reader that stalls costs no copies.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use salon_dialects::Frame;
use salon_protocol::CloseReason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::error::{CapacityError, Error};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Bytes, Message};

/// How much waits in the queue before its owner should stop adding to it.
const HIGH_WATER: usize = 64 * 1024;

/// The most bytes gathered for one write.
const GATHER: usize = 64 * 1024;

/// A frame of at least this size is written from where it lies rather than copied together with its neighbours.
const LARGE: usize = 8 * 1024;

/// What tungstenite reads at once. Its own default would cost every idle connection 128 KiB.
const READ_BUFFER: usize = 2 * 1024;

thread_local! {
    /// Where small frames are laid side by side for one write; nothing stays in it between two.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What came from the peer.
#[derive(Debug)]
pub(crate) enum Received {
    Frame(Frame),
    /// A ping, a pong: a sign of life.
    Control,
    /// The peer closed, or the connection is gone.
    Closed,
    /// The peer broke the carrier's rules.
    Violation(CloseReason),
}

/// One WebSocket connection, on the server's side.
pub(crate) struct WebSocket<IO> {
    io: IO,
    context: WebSocketContext,
    /// What tungstenite wrote and the queue has not taken.
    replies: Vec<u8>,
    queue: VecDeque<Outgoing>,
    queued: usize,
    /// How much of the queue's front is already written.
    written: usize,
    /// Whether our side has ended.
    shut: bool,
}

struct Outgoing {
    header: [u8; 10],
    header_len: u8,
    frame: Frame,
}

impl Outgoing {
    /// Bytes that already are frames.
    fn raw(bytes: Vec<u8>) -> Self {
        Self { header: [0; 10], header_len: 0, frame: Frame::Binary(bytes.into()) }
    }

    fn new(frame: Frame) -> Self {
        let opcode = if matches!(frame, Frame::Binary(_)) { 0x82 } else { 0x81 };
        let mut header = [opcode, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let length = payload(&frame).len();
        let header_len = match length {
            0..=125 => {
                header[1] = length as u8;
                2
            }
            126..=0xffff => {
                header[1] = 126;
                header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                4
            }
            _ => {
                header[1] = 127;
                header[2..10].copy_from_slice(&(length as u64).to_be_bytes());
                10
            }
        };
        Self { header, header_len, frame }
    }

    fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    fn payload(&self) -> &[u8] {
        payload(&self.frame)
    }

    fn len(&self) -> usize {
        usize::from(self.header_len) + self.payload().len()
    }
}

fn payload(frame: &Frame) -> &[u8] {
    match frame {
        Frame::Text(text) => text.as_bytes(),
        Frame::Binary(bytes) => bytes,
        Frame::Entry(entry) => entry.envelope.text().as_bytes(),
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> WebSocket<IO> {
    /// Takes a connection after its handshake, with what the peer had sent already. Frames beyond `hard_limit` are not read at all.
    pub(crate) fn new(io: IO, early: &[u8], hard_limit: Option<usize>) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_message_size(hard_limit)
            .max_frame_size(hard_limit);
        let context = WebSocketContext::from_partially_read(early.to_vec(), Role::Server, Some(config));
        Self { io, context, replies: Vec::new(), queue: VecDeque::new(), queued: 0, written: 0, shut: false }
    }

    /// Whether the queue takes more without growing beyond its measure.
    pub(crate) fn has_room(&self) -> bool {
        self.queued < HIGH_WATER
    }

    /// Whether everything queued has been written.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many bytes wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn send(&mut self, frame: Frame) {
        self.push(Outgoing::new(frame));
    }

    fn push(&mut self, outgoing: Outgoing) {
        self.queued += outgoing.len();
        self.queue.push_back(outgoing);
    }

    pub(crate) fn ping(&mut self) {
        self.own(|context, port| context.write(port, Message::Ping(Bytes::new())));
    }

    pub(crate) fn close(&mut self, reason: CloseReason) {
        let frame = CloseFrame { code: CloseCode::from(reason.code()), reason: reason.to_string().into() };
        self.own(|context, port| context.close(port, Some(frame)));
    }

    /// Lets tungstenite write into the queue. It cannot fail there, and a connection that is closing already may say nothing.
    fn own(&mut self, act: impl FnOnce(&mut WebSocketContext, &mut Port<'_, '_, IO>) -> Result<(), Error>) {
        let waker = std::task::Waker::noop();
        let mut cx = Context::from_waker(waker);
        let _ = act(&mut self.context, &mut Port { io: &mut self.io, cx: &mut cx, replies: &mut self.replies });
        self.take_replies();
    }

    fn take_replies(&mut self) {
        if !self.replies.is_empty() {
            let bytes = std::mem::take(&mut self.replies);
            self.push(Outgoing::raw(bytes));
        }
    }

    /// The next thing from the peer.
    pub(crate) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let read = self.context.read(&mut Port { io: &mut self.io, cx, replies: &mut self.replies });
        self.take_replies();
        Poll::Ready(match read {
            Ok(Message::Text(text)) => Received::Frame(Frame::Text(text.as_str().into())),
            Ok(Message::Binary(bytes)) => Received::Frame(Frame::Binary(bytes.as_ref().into())),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_)) => Received::Control,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(Error::Utf8(_)) => Received::Violation(CloseReason::NotUtf8),
            Err(Error::Capacity(CapacityError::MessageTooLong { .. })) => {
                Received::Violation(CloseReason::FrameTooLarge)
            }
            Err(Error::Protocol(error)) if !ended(&error) => Received::Violation(CloseReason::ProtocolViolation),
            Err(_) => Received::Closed,
        })
    }

    /// Writes what is queued. Ready when all of it is written; the error is that of the connection.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            let written = ready!(self.poll_write_some(cx))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Ends our side and waits for the peer to end its own. Closing at once would, with bytes of the peer's still unread, make the
    /// system throw away the close frame.
    pub(crate) fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.shut {
            if ready!(Pin::new(&mut self.io).poll_shutdown(cx)).is_err() {
                return Poll::Ready(());
            }
            self.shut = true;
        }
        let mut waste = [0; 1024];
        loop {
            let mut buf = ReadBuf::new(&mut waste);
            let read = ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf));
            if read.is_err() || buf.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }

    fn poll_write_some(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        GATHERED.with_borrow_mut(|gathered| {
            gathered.clear();
            let mut skip = self.written;
            let mut large: &[u8] = &[];
            for outgoing in &self.queue {
                for part in [outgoing.header(), outgoing.payload()] {
                    let part = &part[skip.min(part.len())..];
                    if part.len() >= LARGE {
                        large = part;
                        break;
                    }
                    gathered.extend_from_slice(part);
                    skip = skip.saturating_sub(outgoing.header().len());
                }
                skip = 0;
                if !large.is_empty() || gathered.len() >= GATHER {
                    break;
                }
            }
            let io = Pin::new(&mut self.io);
            if large.is_empty() {
                io.poll_write(cx, gathered)
            } else {
                io.poll_write_vectored(cx, &[IoSlice::new(gathered), IoSlice::new(large)])
            }
        })
    }

    fn advance(&mut self, mut bytes: usize) {
        self.queued -= bytes;
        while let Some(front) = self.queue.front() {
            let left = front.len() - self.written;
            if bytes < left {
                self.written += bytes;
                return;
            }
            bytes -= left;
            self.written = 0;
            self.queue.pop_front();
        }
        // An idle connection keeps no queue.
        self.queue.shrink_to(0);
    }
}

/// Whether the error only says that the connection is over.
fn ended(error: &tungstenite::error::ProtocolError) -> bool {
    use tungstenite::error::ProtocolError::{ReceivedAfterClosing, ResetWithoutClosingHandshake, SendAfterClosing};
    matches!(error, ReceivedAfterClosing | ResetWithoutClosingHandshake | SendAfterClosing)
}

/// What tungstenite sees: reads come from the connection, writes go to the queue.
struct Port<'p, 'cx, IO> {
    io: &'p mut IO,
    cx: &'p mut Context<'cx>,
    replies: &'p mut Vec<u8>,
}

impl<IO: AsyncRead + Unpin> Read for Port<'_, '_, IO> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        match Pin::new(&mut *self.io).poll_read(self.cx, &mut buf) {
            Poll::Ready(outcome) => outcome.map(|()| buf.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<IO> Write for Port<'_, '_, IO> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.replies.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
