//! What waits for the reader of one answer, and whether anybody still reads.
//!
//! Invariants: a reader that takes nothing is cut off alone, and what waits for all readers of a session is bounded. A stream that
//! ends on the reader's side is reported once, and only where it had not ended on ours.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use std::{io, mem};

use axum::body::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use hyper::body::Frame;
use parking_lot::{Mutex, MutexGuard};
use salon_dialects::StreamId;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::access::RequestAccess;
use super::events;

/// How many bytes may wait for one reader. What waits alone may be longer.
pub(super) const MAX_WAITING: usize = 4 << 20;

/// How many bytes may wait for all readers of a session, but for the first piece of each.
const MAX_WAITING_IN_ALL: usize = 4 * MAX_WAITING;

/// How often a reader hears something.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// What the answers of one session have in common.
#[derive(Debug, Default)]
pub(super) struct SharedPipes {
    hung_up: Mutex<HungUp>,
    /// How many bytes wait for readers.
    waiting: AtomicUsize,
    /// How many readers there are.
    open: AtomicUsize,
}

#[derive(Debug, Default)]
struct HungUp {
    streams: Vec<StreamId>,
    session: Option<Waker>,
}

impl SharedPipes {
    fn hung_up(&self) -> MutexGuard<'_, HungUp> {
        self.hung_up.lock()
    }

    /// A stream whose reader is gone and that was not finished.
    pub(super) fn poll_hung_up(&self, cx: &mut Context<'_>) -> Poll<StreamId> {
        let mut hung_up = self.hung_up();
        match hung_up.streams.pop() {
            Some(stream) => Poll::Ready(stream),
            None => {
                hung_up.session = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn tell(&self, stream: StreamId) {
        let mut hung_up = self.hung_up();
        hung_up.streams.push(stream);
        let session = hung_up.session.take();
        drop(hung_up);
        if let Some(session) = session {
            session.wake();
        }
    }

    /// Whether anybody waits for an answer or reads one.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }
}

/// Between the session that answers and the connection that carries the answer.
#[derive(Debug)]
pub(super) struct Pipe {
    common: Arc<SharedPipes>,
    state: Mutex<PipeState>,
}

#[derive(Debug, Default)]
struct PipeState {
    pieces: std::collections::VecDeque<Bytes>,
    bytes: usize,
    /// Known to the session under this name, until it ends on either side.
    stream: Option<StreamId>,
    end: Option<PipeEnd>,
    gone: bool,
    reader: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PipeEnd {
    Finished,
    Cut,
}

impl Pipe {
    /// A pipe with somebody at its far end.
    pub(super) fn new(common: Arc<SharedPipes>) -> (Arc<Self>, PipeReader) {
        common.open.fetch_add(1, Ordering::AcqRel);
        let pipe = Arc::new(Self { common, state: Mutex::default() });
        (pipe.clone(), PipeReader(pipe))
    }

    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock()
    }

    /// Gives the stream its name. From now on the session hears when the reader hangs up, which may have happened before.
    pub(super) fn adopt(&self, stream: StreamId) {
        let mut state = self.state();
        if state.gone {
            drop(state);
            self.common.tell(stream);
        } else {
            state.stream = Some(stream);
        }
    }

    /// Adds a piece; says whether the reader is still worth writing to. One that was cut off is reported once.
    pub(super) fn push(&self, piece: Bytes) -> bool {
        let mut state = self.state();
        if state.gone || state.end.is_some() {
            return true;
        }
        let all = self.common.waiting.load(Ordering::Acquire);
        let too_much = state.bytes + piece.len() > MAX_WAITING || all + piece.len() > MAX_WAITING_IN_ALL;
        let cut = !state.pieces.is_empty() && too_much;
        if cut {
            state.end = Some(PipeEnd::Cut);
            state.stream = None;
            self.empty(&mut state);
        } else {
            self.common.waiting.fetch_add(piece.len(), Ordering::AcqRel);
            state.bytes += piece.len();
            state.pieces.push_back(piece);
        }
        wake(state);
        !cut
    }

    /// Nothing more comes.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        state.end.get_or_insert(PipeEnd::Finished);
        state.stream = None;
        wake(state);
    }

    fn empty(&self, state: &mut PipeState) {
        self.common.waiting.fetch_sub(mem::take(&mut state.bytes), Ordering::AcqRel);
        state.pieces = Default::default();
    }

    fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut state = self.state();
        if let Some(piece) = state.pieces.pop_front() {
            state.bytes -= piece.len();
            self.common.waiting.fetch_sub(piece.len(), Ordering::AcqRel);
            return Poll::Ready(Some(Ok(piece)));
        }
        match state.end {
            Some(PipeEnd::Finished) => Poll::Ready(None),
            Some(PipeEnd::Cut) => Poll::Ready(Some(Err(io::Error::other("the reader is too slow")))),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn wake(mut state: MutexGuard<'_, PipeState>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

/// The far end of a pipe. Dropping it hangs up.
#[derive(Debug)]
pub(super) struct PipeReader(Arc<Pipe>);

impl PipeReader {
    /// The next piece, or the end.
    pub(super) fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.0.poll_piece(cx)
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let pipe = &self.0;
        let mut state = pipe.state();
        state.gone = true;
        pipe.empty(&mut state);
        let stream = state.stream.take();
        drop(state);
        pipe.common.open.fetch_sub(1, Ordering::AcqRel);
        if let Some(stream) = stream {
            pipe.common.tell(stream);
        }
    }
}

/// A stream of events as the body of an answer. It ends with what it was opened with: when the token expires, or the sign-in ends.
pub(super) struct EventBody {
    listener: PipeReader,
    keep_alive: Interval,
    access_ended: Fuse<BoxFuture<'static, ()>>,
}

impl EventBody {
    pub(super) fn new(listener: PipeReader, access: &RequestAccess) -> Self {
        let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { listener, keep_alive, access_ended: access.ended().boxed().fuse() }
    }
}

impl hyper::body::Body for EventBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        // A body may be polled after its end.
        if self.access_ended.is_terminated() || self.access_ended.poll_unpin(cx).is_ready() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(piece) = self.listener.poll_piece(cx) {
            self.keep_alive.reset();
            return Poll::Ready(piece.map(|piece| piece.map(Frame::data)));
        }
        ready!(self.keep_alive.poll_tick(cx));
        Poll::Ready(Some(Ok(Frame::data(events::KEEP_ALIVE))))
    }
}
