//! Following a topic: fed by the engine with whatever is new, falling back to reading when it was not fast enough.
//!
//! A tail is fed from the moment its line is laid (or mended) and reads the log from its position until that is dry. An engine
//! makes entries readable before it feeds them, so whatever was not fed is read; what was both is known by its offset.
//!
//! Waking a task to take one entry costs more than taking it. So a tail can have a [`TailSink`], which takes a few entries on the thread that
//! has stored them; the tail does not yield those.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use futures_util::stream;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Entry, Position, TopicName};

use crate::hash::FastMap;
use crate::{ReadError, Tail, Tailed};

/// What may wait in a line. A tail that is further behind reads instead.
const MAX_WAITING: usize = 4096;
const MAX_WAITING_BYTES: usize = 4 << 20;

/// How much of the log a tail that is behind reads at once.
const PAGE_ENTRIES: usize = 512;

/// Takes entries in place of the task that follows the tail. Called by the thread that has stored them, one call at a time.
pub trait TailSink: Send + Sync {
    /// Takes some entries of one commit, or none of them; whether it did. It must take nothing unless they are what comes next: the tail may
    /// be about to yield entries before them. A tail that is just reading can yield them once more.
    fn take_now(&self, entries: &[Arc<Entry>]) -> bool;

    /// Whether the task must be woken for some entries. Where not, the tail yields them at its next poll.
    fn is_urgent(&self, entries: &[Arc<Entry>]) -> bool;
}

/// What a tail that is behind reads.
pub(crate) trait Pages: Send + Sync + 'static {
    /// Where it is fed from.
    fn hub(&self) -> &Hub;

    /// The oldest entries after a position.
    fn read_after(
        &self,
        topic: &TopicName,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>>;
}

/// The lines of all tails.
#[derive(Default)]
pub(crate) struct Hub(Mutex<TailSignals>);

#[derive(Default)]
struct TailSignals {
    by_topic: FastMap<TopicName, Vec<Arc<TailSignal>>>,
    closed: bool,
}

impl Hub {
    fn lines(&self) -> MutexGuard<'_, TailSignals> {
        self.0.lock()
    }

    /// Hands the entries of one commit to everyone who follows their topic.
    pub(crate) fn feed(&self, topic: &TopicName, entries: &[Arc<Entry>]) {
        self.feed_lines(topic, entries, false);
    }

    /// The same, on a thread that has the time to let sinks take them.
    pub(crate) fn feed_now(&self, topic: &TopicName, entries: &[Arc<Entry>]) {
        self.feed_lines(topic, entries, true);
    }

    fn feed_lines(&self, topic: &TopicName, entries: &[Arc<Entry>], has_time: bool) {
        // Not under the lock: a sink writes to sockets, and may be the last to hold what lays and removes lines.
        let lines = self.lines().by_topic.get(topic).cloned();
        for line in lines.iter().flatten() {
            line.offer(entries, has_time);
        }
    }

    /// Makes everyone who follows a topic read, because what comes next does not follow what was fed.
    #[cfg(feature = "nats")]
    pub(crate) fn sever(&self, topic: &TopicName) {
        for line in self.lines().by_topic.get(topic).into_iter().flatten() {
            let mut state = line.state();
            state.broken = true;
            state.waiting.clear();
            wake(state);
        }
    }

    /// Whether somebody follows a topic.
    #[cfg(feature = "nats")]
    pub(crate) fn is_followed(&self, topic: &TopicName) -> bool {
        self.lines().by_topic.contains_key(topic)
    }

    /// Ends every tail, after what waits in its line.
    pub(crate) fn close(&self) {
        let mut lines = self.lines();
        lines.closed = true;
        for line in lines.by_topic.values().flatten() {
            let mut state = line.state();
            state.closed = true;
            wake(state);
        }
    }

    /// How many follow a topic.
    #[cfg(test)]
    pub(crate) fn count(&self, topic: &TopicName) -> usize {
        self.lines().by_topic.get(topic).map_or(0, Vec::len)
    }

    fn lay(&self, topic: &TopicName, sink: Option<Weak<dyn TailSink>>) -> Arc<TailSignal> {
        let mut lines = self.lines();
        let state = LineState {
            waiting: VecDeque::new(),
            entries: 0,
            bytes: 0,
            taken: 0,
            broken: true,
            closed: lines.closed,
            waker: None,
        };
        let line = Arc::new(TailSignal { state: Mutex::new(state), sink });
        lines.by_topic.entry(topic.clone()).or_default().push(line.clone());
        line
    }

    fn remove(&self, topic: &TopicName, line: &Arc<TailSignal>) {
        let mut lines = self.lines();
        if let Some(list) = lines.by_topic.get_mut(topic) {
            list.retain(|other| !Arc::ptr_eq(other, line));
            if list.is_empty() {
                lines.by_topic.remove(topic);
            }
        }
    }
}

struct TailSignal {
    state: Mutex<LineState>,
    sink: Option<Weak<dyn TailSink>>,
}

struct LineState {
    waiting: VecDeque<Vec<Arc<Entry>>>,
    entries: usize,
    bytes: usize,
    /// The offset of the newest entry that the sink has taken.
    taken: u64,
    /// Something was not put in, and nothing will be until the tail begins to read. A new line is broken.
    broken: bool,
    closed: bool,
    /// Of the task that follows the tail.
    waker: Option<Waker>,
}

fn wake(mut state: MutexGuard<'_, LineState>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

enum Next {
    Read,
    Fed(Vec<Arc<Entry>>),
    End,
}

impl TailSignal {
    fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock()
    }

    fn offer(&self, entries: &[Arc<Entry>], has_time: bool) {
        let Some(last) = entries.last() else { return };
        let sink = self.sink.as_ref().and_then(Weak::upgrade);
        let state = self.state();
        if state.broken {
            return;
        }
        let is_next = state.waiting.is_empty() && !state.closed;
        drop(state);
        // Only this thread adds to the line, so nothing comes between.
        if has_time && is_next && sink.as_ref().is_some_and(|sink| sink.take_now(entries)) {
            self.state().taken = last.position.offset;
            return;
        }
        let mut state = self.state();
        state.entries += entries.len();
        state.bytes += entries.iter().map(|entry| entry.envelope.text().len()).sum::<usize>();
        if state.entries > MAX_WAITING || state.bytes > MAX_WAITING_BYTES {
            state.broken = true;
            state.waiting.clear();
        } else {
            state.waiting.push_back(entries.to_vec());
        }
        // Asked after the entries are there: a task that has just become urgent finds them.
        if state.broken || sink.is_none_or(|sink| sink.is_urgent(entries)) {
            wake(state);
        }
    }

    async fn next(&self) -> Next {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.state();
        if state.broken {
            (state.broken, state.entries, state.bytes) = (false, 0, 0);
            return Poll::Ready(Next::Read);
        }
        if let Some(entries) = state.waiting.pop_front() {
            state.entries -= entries.len();
            state.bytes -= entries.iter().map(|entry| entry.envelope.text().len()).sum::<usize>();
            return Poll::Ready(Next::Fed(entries));
        }
        if state.closed {
            return Poll::Ready(Next::End);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

struct TailReader<P: Pages> {
    source: Arc<P>,
    topic: TopicName,
    line: Arc<TailSignal>,
    at: Position,
    reading: bool,
    failed: bool,
}

impl<P: Pages> Drop for TailReader<P> {
    fn drop(&mut self) {
        self.source.hub().remove(&self.topic, &self.line);
    }
}

/// Follows a topic from a position.
pub(crate) fn tail<P: Pages>(
    source: Arc<P>,
    topic: TopicName,
    after: Position,
    sink: Option<Weak<dyn TailSink>>,
) -> Tail {
    let line = source.hub().lay(&topic, sink);
    let follower = TailReader { source, topic, line, at: after, reading: false, failed: false };
    Box::pin(stream::unfold(follower, |mut follower| async move { Some((follower.next().await?, follower)) }))
}

impl<P: Pages> TailReader<P> {
    async fn next(&mut self) -> Option<Result<Tailed, ReadError>> {
        while !self.failed {
            if self.reading {
                self.at.offset = self.at.offset.max(self.line.state().taken);
                match self.source.read_after(&self.topic, self.at, PAGE_ENTRIES).await {
                    Ok(entries) => match entries.last() {
                        Some(last) => {
                            self.at = last.position;
                            return Some(Ok(Tailed::Entries(entries)));
                        }
                        None => self.reading = false,
                    },
                    Err(ReadError::Gap { resume }) => {
                        self.at = resume;
                        return Some(Ok(Tailed::Gap { resume }));
                    }
                    Err(error) => {
                        self.failed = true;
                        return Some(Err(error));
                    }
                }
            }
            match self.line.next().await {
                Next::Read => self.reading = true,
                Next::Fed(mut entries) => {
                    entries.retain(|entry| entry.position.offset > self.at.offset);
                    if let Some(last) = entries.last() {
                        self.at = last.position;
                        return Some(Ok(Tailed::Entries(entries)));
                    }
                }
                Next::End => return None,
            }
        }
        None
    }
}
