//! WebSocket as a carrier. tungstenite reads; what it wants to say itself (pong, close) goes through the same queue as our frames.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::{Mutex, MutexGuard};
use salon_dialects::{Frame, StreamHead, StreamId};
use salon_protocol::CloseReason;
use salon_rooms::{Batch, OfferOutcome};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tungstenite::error::{CapacityError, Error};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Bytes, Message};

use super::queue::{Piece, WriteQueue, encoded};
use super::read_ahead::ReadAhead;
use super::socket::Socket;
use super::utf8::Utf8Watch;
use super::{Carrier, Received, StreamCarrier};
use crate::meters::Meters;

/// How much waits in the queue before its owner should stop adding to it.
const HIGH_WATER: usize = 64 * 1024;

/// What tungstenite reads at once. Its own default would cost every idle connection 128 KiB. The connection is read in larger pieces
/// ([`ReadAhead`]): a system call for four messages cost as much as judging them.
const READ_BUFFER: usize = 1024;

/// One WebSocket connection, on the server's side.
pub(crate) struct WebSocket {
    io: Socket,
    context: WebSocketContext,
    watch: Utf8Watch,
    ahead: ReadAhead,
    /// What tungstenite wrote and the queue has not taken.
    replies: Vec<u8>,
    queue: Arc<Mutex<WriteQueue>>,
    /// Whether something written may still wait inside the transport.
    unflushed: bool,
    /// Whether our side has ended.
    shut: bool,
    /// Whether the peer has closed with 1000, as who leaves does. A browser that loads a page again says 1001 (RFC 6455 §7.4.1).
    said_bye: bool,
}

impl WebSocket {
    /// Takes a connection after its handshake, with what the peer had sent already. Frames beyond `hard_limit` are not read at all.
    pub(crate) fn new(io: Socket, early: &[u8], hard_limit: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(hard_limit))
            .max_frame_size(Some(hard_limit));
        let context = WebSocketContext::from_partially_read(early.to_vec(), Role::Server, Some(config));
        let mut watch = Utf8Watch::default();
        watch.feed(early);
        Self {
            io,
            context,
            watch,
            ahead: ReadAhead::default(),
            replies: Vec::new(),
            queue: Arc::default(),
            unflushed: false,
            shut: false,
            said_bye: false,
        }
    }

    /// From here on frames beyond another limit are not read.
    pub(crate) fn set_hard_limit(&mut self, hard_limit: usize) {
        self.context.set_config(|config| {
            *config = config.max_message_size(Some(hard_limit)).max_frame_size(Some(hard_limit));
        });
    }

    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        lock(&self.queue)
    }

    /// Lets tungstenite write into the queue. It cannot fail there, and a connection that is closing already may say nothing.
    fn own(&mut self, act: impl FnOnce(&mut WebSocketContext, &mut Port<'_, '_>) -> Result<(), Error>) {
        let waker = std::task::Waker::noop();
        let mut cx = Context::from_waker(waker);
        let Self { io, watch, ahead, replies, .. } = self;
        let _ = act(&mut self.context, &mut Port { io, cx: &mut cx, watch, ahead, replies });
        self.take_replies();
    }

    fn take_replies(&mut self) {
        if !self.replies.is_empty() {
            let bytes = std::mem::take(&mut self.replies);
            self.queue().push(Piece::Raw(bytes));
        }
    }
}

impl<O> StreamCarrier<O> for WebSocket {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Received<O>> {
        let Self { io, watch, ahead, replies, .. } = self;
        let read = self.context.read(&mut Port { io, cx, watch, ahead, replies });
        self.take_replies();
        Poll::Ready(match read {
            Ok(Message::Text(text)) => Received::Frame(StreamId::ONLY, Frame::Text(text.as_str().into())),
            Ok(Message::Binary(bytes)) => Received::Frame(StreamId::ONLY, Frame::Binary(bytes.as_ref().into())),
            Ok(Message::Close(frame)) => {
                self.said_bye = frame.is_some_and(|frame| frame.code == CloseCode::Normal);
                Received::Control
            }
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => Received::Control,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(Error::Io(_)) if self.watch.has_failed() => Received::End(CloseReason::NotUtf8),
            Err(Error::Utf8(_)) => Received::End(CloseReason::NotUtf8),
            Err(Error::Capacity(CapacityError::MessageTooLong { .. })) => Received::End(CloseReason::FrameTooLarge),
            Err(Error::Protocol(error)) if !ended(&error) => Received::End(CloseReason::ProtocolViolation),
            Err(_) => Received::Closed,
        })
    }
}

impl Carrier for WebSocket {
    const DUPLEX: bool = true;

    /// Both sides speak when they like: there is nothing to begin.
    fn begin(&mut self, _: StreamId, _: StreamHead) {}

    fn send(&mut self, _: StreamId, frame: Frame) {
        self.queue().push(Piece::frame(frame));
    }

    /// The stream lasts as long as the session.
    fn finish(&mut self, _: StreamId) {}

    fn send_batch(&mut self, batch: Arc<Batch>) {
        self.queue().push(Piece::Batch(batch));
    }

    /// Only bytes that need no encryption can be written by another than the owner.
    fn outlet(&self, meters: &Meters) -> Option<Arc<dyn salon_rooms::BatchOutlet>> {
        let stream = self.io.shared()?.clone();
        Some(Arc::new(SocketOutlet { stream, queue: self.queue.clone(), meters: meters.clone() }))
    }

    fn ping(&mut self) {
        self.own(|context, port| context.write(port, Message::Ping(Bytes::new())));
    }

    fn has_sent_close(&self) -> bool {
        self.said_bye
    }

    fn close(&mut self, reason: CloseReason) {
        let frame = CloseFrame { code: CloseCode::from(reason.code()), reason: reason.to_string().into() };
        self.own(|context, port| context.close(port, Some(frame)));
    }

    fn has_room(&self) -> bool {
        self.queued() < HIGH_WATER
    }

    fn is_drained(&self) -> bool {
        !self.unflushed && self.queue().is_empty()
    }

    fn queued(&self) -> usize {
        self.queue().bytes()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = lock(&self.queue);
        while !queue.is_empty() {
            let written = ready!(queue.with_front(|slices| Pin::new(&mut self.io).poll_write_vectored(cx, slices)))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            queue.advance(written);
            self.unflushed = true;
        }
        drop(queue);
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Ends our side and waits for the peer to end its own. Closing at once would, with bytes of the peer's still unread, make the
    /// system throw away the close frame.
    fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
}

fn lock(queue: &Mutex<WriteQueue>) -> MutexGuard<'_, WriteQueue> {
    queue.lock()
}

/// The way past the session: a room writes a batch itself while nothing else waits.
struct SocketOutlet {
    stream: Arc<TcpStream>,
    queue: Arc<Mutex<WriteQueue>>,
    meters: Meters,
}

impl salon_rooms::BatchOutlet for SocketOutlet {
    fn offer(&self, batch: &Arc<Batch>) -> OfferOutcome {
        // The session may be writing: the caller, which can be the thread that stores, does not wait for its socket.
        let Some(mut queue) = self.queue.try_lock() else { return OfferOutcome::Busy };
        if !queue.is_empty() {
            return OfferOutcome::Busy;
        }
        let bytes = encoded(batch);
        match self.stream.try_write(bytes) {
            Ok(written) if written == bytes.len() => {
                self.meters.delivered(batch.entries());
                OfferOutcome::Written
            }
            Ok(0) => OfferOutcome::Busy,
            Ok(written) => {
                queue.push_rest(batch.clone(), written);
                self.meters.delivered(batch.entries());
                OfferOutcome::Queued
            }
            // A full socket or a broken one: its session finds out which.
            Err(_) => OfferOutcome::Busy,
        }
    }
}

/// Whether the error only says that the connection is over.
fn ended(error: &tungstenite::error::ProtocolError) -> bool {
    use tungstenite::error::ProtocolError::{ReceivedAfterClosing, ResetWithoutClosingHandshake, SendAfterClosing};
    matches!(error, ReceivedAfterClosing | ResetWithoutClosingHandshake | SendAfterClosing)
}

/// What tungstenite sees: reads come from the connection, writes go to the queue.
struct Port<'p, 'cx> {
    io: &'p mut Socket,
    cx: &'p mut Context<'cx>,
    watch: &'p mut Utf8Watch,
    ahead: &'p mut ReadAhead,
    replies: &'p mut Vec<u8>,
}

impl Read for Port<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let before = self.ahead.take(buf);
        if before > 0 {
            return Ok(before);
        }
        // tungstenite has got every message that was whole before the invalid one.
        if self.watch.has_failed() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match self.ahead.poll_read(Pin::new(&mut *self.io), self.cx, buf, |bytes| self.watch.feed(bytes)) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Port<'_, '_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.replies.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
