//! The connections of one session as a carrier: each is a stream for as long as it lasts, and the session outlives them all.
//!
//! Frames come through a [`SessionLines`], which the owner of the connection holds; what is answered goes through a pipe to the connection.
//! Invariants: no stream waits for another. What a connection sent before it broke is heard before its end is. A frame that the session
//! does not hear is answered all the same, with the answer that the door has given it.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Bytes;
use futures_util::Stream;
use salon_dialects::{Frame, StreamHead, StreamId};
use salon_protocol::CloseReason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::pipe::{Pipe, PipeReader, SharedPipes};
use super::{Carrier, Opened, Received, StreamCarrier};

/// How many frames may wait to be heard.
const INBOX: usize = 8;

/// How many connections may use one session at once.
pub(crate) const MAX_LINES: usize = 16;

/// Why a connection does not join a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The session has ended.
    Ended,
    /// As many connections use it as may.
    Full,
}

enum LineCall {
    Open(StreamId, Arc<Pipe>),
    Frame(StreamId, Box<[u8]>),
}

/// The way into a session. Cloning shares it.
#[derive(Clone)]
pub(crate) struct SessionLines {
    calls: mpsc::Sender<LineCall>,
    common: Arc<SharedPipes>,
    last: Arc<AtomicU32>,
    permits: Arc<Semaphore>,
}

impl SessionLines {
    /// Whether the session has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    /// A connection becomes one of the session's.
    pub(crate) async fn open(&self) -> Result<(LineInput, Answers), NotOpened> {
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| NotOpened::Full)?;
        let (pipe, listener) = Pipe::new(self.common.clone());
        // One session has fewer connections than there are numbers.
        let stream = StreamId(self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
        self.calls.send(LineCall::Open(stream, pipe)).await.map_err(|_| NotOpened::Ended)?;
        Ok((LineInput { calls: self.calls.clone(), stream, _permit: permit }, Answers(listener)))
    }
}

/// A connection's way into a session.
pub(crate) struct LineInput {
    calls: mpsc::Sender<LineCall>,
    stream: StreamId,
    _permit: OwnedSemaphorePermit,
}

impl LineInput {
    /// Sends a frame; gives it back when the session has ended.
    pub(crate) async fn send(&self, frame: Box<[u8]>) -> Result<(), Box<[u8]>> {
        let sent = self.calls.send(LineCall::Frame(self.stream, frame)).await;
        sent.map_err(|mpsc::error::SendError(call)| match call {
            LineCall::Frame(_, frame) => frame,
            LineCall::Open(..) => Box::default(),
        })
    }

    /// Whether the session has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }
}

/// What the session says to one connection. Dropping it hangs up.
pub(crate) struct Answers(PipeReader);

impl Stream for Answers {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.0.poll_piece(cx)
    }
}

/// What is said to a frame that nobody hears.
pub(crate) type Undelivered = Box<dyn Fn(&[u8]) -> Box<[u8]> + Send>;

/// The connections of one session.
pub(crate) struct LineConnections {
    calls: mpsc::Receiver<LineCall>,
    common: Arc<SharedPipes>,
    pipes: HashMap<StreamId, Arc<Pipe>>,
    /// Streams that were cut off, whose end is to be told.
    cut: Vec<StreamId>,
    undelivered: Undelivered,
    expires: Instant,
}

impl LineConnections {
    /// A session without connections, and the way to give it some. It may last until `expires`.
    pub(crate) fn new(expires: Instant, undelivered: Undelivered) -> (Self, SessionLines) {
        let (sender, calls) = mpsc::channel(INBOX);
        let common = Arc::<SharedPipes>::default();
        let way = SessionLines {
            calls: sender,
            common: common.clone(),
            last: Arc::default(),
            permits: Arc::new(Semaphore::new(MAX_LINES)),
        };
        (Self { calls, common, pipes: HashMap::new(), cut: Vec::new(), undelivered, expires }, way)
    }

    fn push(&mut self, stream: StreamId, bytes: Box<[u8]>) {
        let Some(pipe) = self.pipes.get(&stream) else { return };
        if !pipe.push(Bytes::from(bytes.into_vec())) {
            self.pipes.remove(&stream);
            self.cut.push(stream);
        }
    }

    /// Answers what nobody will hear, and lets go of everybody.
    fn reject_connection(&mut self) {
        self.calls.close();
        while let Ok(call) = self.calls.try_recv() {
            match call {
                LineCall::Open(stream, pipe) => drop(self.pipes.insert(stream, pipe)),
                LineCall::Frame(stream, frame) => {
                    let answer = (self.undelivered)(&frame);
                    self.push(stream, answer);
                }
            }
        }
        for (_, pipe) in self.pipes.drain() {
            pipe.finish();
        }
    }
}

impl Drop for LineConnections {
    fn drop(&mut self) {
        self.reject_connection();
    }
}

impl<O: Default> StreamCarrier<O> for LineConnections {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Received<O>> {
        match self.calls.poll_recv(cx) {
            Poll::Ready(Some(LineCall::Open(stream, pipe))) => {
                pipe.adopt(stream);
                self.pipes.insert(stream, pipe);
                let opened = Opened { stream, opening: O::default(), is_message: false, expires: self.expires };
                return Poll::Ready(Received::Opened(Box::new(opened)));
            }
            Poll::Ready(Some(LineCall::Frame(stream, frame))) => {
                return Poll::Ready(Received::Frame(stream, Frame::Binary(frame)));
            }
            // Nobody can reach the session any more.
            Poll::Ready(None) => return Poll::Ready(Received::End(CloseReason::Bye)),
            Poll::Pending => {}
        }
        if let Some(stream) = self.cut.pop() {
            return Poll::Ready(Received::HungUp(stream));
        }
        while let Poll::Ready(stream) = self.common.poll_hung_up(cx) {
            if self.pipes.remove(&stream).is_some() {
                return Poll::Ready(Received::HungUp(stream));
            }
        }
        Poll::Pending
    }
}

impl Carrier for LineConnections {
    const DUPLEX: bool = false;

    /// Both sides speak when they like: there is nothing to begin.
    fn begin(&mut self, _: StreamId, _: StreamHead) {}

    fn send(&mut self, stream: StreamId, frame: Frame) {
        match frame {
            Frame::Binary(bytes) => self.push(stream, bytes),
            // The grammars that speak over these frame what they say themselves.
            Frame::Text(_) | Frame::Entry(_) | Frame::Event(_) => {}
        }
    }

    fn finish(&mut self, stream: StreamId) {
        if let Some(pipe) = self.pipes.remove(&stream) {
            pipe.finish();
        }
    }

    fn close(&mut self, _: CloseReason) {
        self.reject_connection();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use futures_util::future::poll_fn;

    use super::*;

    fn lines() -> (LineConnections, SessionLines) {
        let undelivered: Undelivered = Box::new(|frame| [b"undelivered ", frame].concat().into());
        LineConnections::new(Instant::now(), undelivered)
    }

    async fn next(lines: &mut LineConnections) -> String {
        match poll_fn(|cx| StreamCarrier::<()>::poll_receive(lines, cx)).await {
            Received::Opened(opened) => format!("opened {}", opened.stream.0),
            Received::Frame(stream, Frame::Binary(frame)) => {
                format!("{} {}", stream.0, String::from_utf8_lossy(&frame))
            }
            Received::HungUp(stream) => format!("hung up {}", stream.0),
            other => format!("{other:?}"),
        }
    }

    async fn answer(answers: &mut Answers) -> Option<String> {
        answers.next().await.map(|piece| String::from_utf8_lossy(&piece.expect("not cut off")).into_owned())
    }

    #[tokio::test]
    async fn what_a_connection_sent_is_heard_before_its_end() {
        let (mut lines, way) = lines();
        let (first, answers) = way.open().await.expect("open");
        let (second, mut others) = way.open().await.expect("open");
        first.send(b"a".as_slice().into()).await.expect("sent");
        drop((first, answers));
        second.send(b"b".as_slice().into()).await.expect("sent");
        for expected in ["opened 1", "opened 2", "1 a", "2 b", "hung up 1"] {
            assert_eq!(next(&mut lines).await, expected);
        }
        lines.send(StreamId(1), Frame::Binary(b"nobody".as_slice().into()));
        lines.send(StreamId(2), Frame::Binary(b"hello".as_slice().into()));
        assert_eq!(answer(&mut others).await.as_deref(), Some("hello"));
    }

    #[tokio::test]
    async fn what_is_not_heard_is_answered() {
        let (mut lines, way) = lines();
        let (line, mut answers) = way.open().await.expect("open");
        assert_eq!(next(&mut lines).await, "opened 1");
        line.send(b"a".as_slice().into()).await.expect("sent");
        lines.send(StreamId(1), Frame::Binary(b"before".as_slice().into()));
        lines.close(CloseReason::Bye);
        assert_eq!(answer(&mut answers).await.as_deref(), Some("before"));
        assert_eq!(answer(&mut answers).await.as_deref(), Some("undelivered a"));
        assert_eq!(answer(&mut answers).await, None);
        assert_eq!(line.send(b"b".as_slice().into()).await, Err(b"b".as_slice().into()));
        assert_eq!(way.open().await.err(), Some(NotOpened::Ended));
    }

    #[tokio::test]
    async fn so_many_connections_use_a_session_and_no_more() {
        let (mut lines, way) = lines();
        let mut open = Vec::new();
        for _ in 0..MAX_LINES {
            open.push(way.open().await.expect("open"));
            next(&mut lines).await;
        }
        assert_eq!(way.open().await.err(), Some(NotOpened::Full));
        open.pop();
        assert!(way.open().await.is_ok(), "a session that hangs up makes room");
    }

    #[tokio::test]
    async fn a_connection_that_takes_nothing_is_cut_off_alone() {
        let (mut lines, way) = lines();
        let (_line, mut slow) = way.open().await.expect("open");
        let (_other, mut quick) = way.open().await.expect("open");
        assert_eq!(next(&mut lines).await, "opened 1");
        assert_eq!(next(&mut lines).await, "opened 2");
        for _ in 0..3 {
            lines.send(StreamId(1), Frame::Binary(vec![0; 2 << 20].into()));
        }
        lines.send(StreamId(2), Frame::Binary(b"hello".as_slice().into()));
        assert_eq!(next(&mut lines).await, "hung up 1");
        assert!(slow.next().await.expect("told").is_err());
        assert_eq!(answer(&mut quick).await.as_deref(), Some("hello"));
    }
}
