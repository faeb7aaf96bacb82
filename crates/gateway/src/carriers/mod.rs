//! Carriers move frames and know no grammar.

mod access;
pub(crate) mod events;
mod exchanges;
mod lines;
mod pipe;
mod queue;
mod read_ahead;
mod socket;
mod utf8;
mod websocket;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use salon_dialects::{Frame, StreamHead, StreamId};
use salon_protocol::CloseReason;
use salon_rooms::{Batch, BatchOutlet};

use crate::meters::Meters;

pub(crate) use access::RequestAccess;
pub(crate) use exchanges::{ExchangeOutcome, Exchanges, Inbox, StreamRequest};
pub(crate) use lines::{Answers, LineConnections, LineInput, MAX_LINES, NotOpened, SessionLines, Undelivered};
pub(crate) use socket::Socket;
pub(crate) use websocket::WebSocket;

/// What came from the peer. `O` is how streams are opened at the dialect's door.
#[derive(Debug)]
pub(crate) enum Received<O> {
    /// A message on a stream that lasts.
    Frame(StreamId, Frame),
    /// A ping, a pong: a sign of life.
    Control,
    /// A request, which is a stream of its own.
    Opened(Box<Opened<O>>),
    /// The peer gave up a stream that was not finished.
    HungUp(StreamId),
    /// The peer closed, or the connection is gone.
    Closed,
    /// The session must end: the peer broke the carrier's rules, or asked for the end in a way that wants an answer.
    End(CloseReason),
}

/// A request as a stream.
#[derive(Debug)]
pub(crate) struct Opened<O> {
    pub(crate) stream: StreamId,
    pub(crate) opening: O,
    /// Whether it brings messages, which count against the rate.
    pub(crate) is_message: bool,
    /// Until when its sender is allowed to be here.
    pub(crate) expires: Instant,
}

/// A carrier whose streams are opened as the dialect `O` belongs to has it.
pub(crate) trait StreamCarrier<O>: Carrier {
    /// The next thing from the peer.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Received<O>>;
}

/// What moves the frames of one session.
pub(crate) trait Carrier: Unpin + Send {
    /// Whether there is one stream for life, on which both sides speak when they like.
    const DUPLEX: bool;

    /// Begins to answer a stream that is a request.
    fn begin(&mut self, stream: StreamId, head: StreamHead);

    /// Queues a frame. One for a stream that is gone goes nowhere.
    fn send(&mut self, stream: StreamId, frame: Frame);

    /// Nothing more comes on a stream.
    fn finish(&mut self, stream: StreamId);

    /// Queues entries, one frame each.
    fn send_batch(&mut self, batch: Arc<Batch>) {
        for entry in batch.entries() {
            self.send(StreamId::ONLY, Frame::Entry(entry.clone()));
        }
    }

    /// Where a room may write batches itself, if anywhere.
    fn outlet(&self, _: &Meters) -> Option<Arc<dyn BatchOutlet>> {
        None
    }

    /// Asks the peer for a sign of life, where it can be asked.
    fn ping(&mut self) {}

    /// Whether the peer has ended the connection because it leaves, rather than because it was lost or is loaded again.
    fn has_sent_close(&self) -> bool {
        false
    }

    /// Says that the session ends. Nothing is queued after this.
    fn close(&mut self, reason: CloseReason);

    // A carrier whose frames wait in pipes, which are bounded one by one and emptied by others, has no queue: that is what the rest says
    // unless it is configured otherwise.

    /// Whether what waits to be written leaves room for more.
    fn has_room(&self) -> bool {
        true
    }

    /// Whether everything queued has been written.
    fn is_drained(&self) -> bool {
        true
    }

    /// How many bytes wait to be written.
    fn queued(&self) -> usize {
        0
    }

    /// Writes what is queued. Ready when all of it is written; the error is that of the connection.
    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Waits for the peer to take its leave.
    fn poll_farewell(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}
