//! Following a topic: fed by the engine with whatever is new, falling back to reading when it was not fast enough.
//!
//! A tail is fed from the moment its line is laid (or mended) and reads the log from its position until that is dry. An engine
//! makes entries readable before it feeds them, so whatever was not fed is read; what was both is known by its offset.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Entry, Position, TopicName};
use tokio::sync::Notify;

use crate::hash::FastMap;
use crate::{ReadError, Tail, Tailed};

/// What may wait in a line. A tail that is further behind reads instead.
const MAX_WAITING: usize = 4096;
const MAX_WAITING_BYTES: usize = 4 << 20;

/// How much of the log a tail that is behind reads at once.
const PAGE_ENTRIES: usize = 512;

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
        for line in self.lines().by_topic.get(topic).into_iter().flatten() {
            line.offer(entries);
        }
    }

    /// Makes everyone who follows a topic read, because what comes next does not follow what was fed.
    #[cfg(feature = "nats")]
    pub(crate) fn sever(&self, topic: &TopicName) {
        for line in self.lines().by_topic.get(topic).into_iter().flatten() {
            let mut state = line.state();
            state.broken = true;
            state.waiting.clear();
            drop(state);
            line.changed.notify_one();
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
            line.state().closed = true;
            line.changed.notify_one();
        }
    }

    /// How many follow a topic.
    #[cfg(test)]
    pub(crate) fn count(&self, topic: &TopicName) -> usize {
        self.lines().by_topic.get(topic).map_or(0, Vec::len)
    }

    fn lay(&self, topic: &TopicName) -> Arc<TailSignal> {
        let mut lines = self.lines();
        let state = LineState { waiting: VecDeque::new(), entries: 0, bytes: 0, broken: true, closed: lines.closed };
        let line = Arc::new(TailSignal { state: Mutex::new(state), changed: Notify::new() });
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
    changed: Notify,
}

struct LineState {
    waiting: VecDeque<Vec<Arc<Entry>>>,
    entries: usize,
    bytes: usize,
    /// Something was not put in, and nothing will be until the tail begins to read. A new line is broken.
    broken: bool,
    closed: bool,
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

    fn offer(&self, entries: &[Arc<Entry>]) {
        let mut state = self.state();
        if state.broken {
            return;
        }
        state.entries += entries.len();
        state.bytes += entries.iter().map(|entry| entry.envelope.text().len()).sum::<usize>();
        if state.entries > MAX_WAITING || state.bytes > MAX_WAITING_BYTES {
            state.broken = true;
            state.waiting.clear();
        } else {
            state.waiting.push_back(entries.to_vec());
        }
        drop(state);
        self.changed.notify_one();
    }

    async fn next(&self) -> Next {
        loop {
            {
                let mut state = self.state();
                if state.broken {
                    (state.broken, state.entries, state.bytes) = (false, 0, 0);
                    return Next::Read;
                }
                if let Some(entries) = state.waiting.pop_front() {
                    state.entries -= entries.len();
                    state.bytes -= entries.iter().map(|entry| entry.envelope.text().len()).sum::<usize>();
                    return Next::Fed(entries);
                }
                if state.closed {
                    return Next::End;
                }
            }
            self.changed.notified().await;
        }
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
pub(crate) fn tail<P: Pages>(source: Arc<P>, topic: TopicName, after: Position) -> Tail {
    let line = source.hub().lay(&topic);
    let follower = TailReader { source, topic, line, at: after, reading: false, failed: false };
    Box::pin(stream::unfold(follower, |mut follower| async move { Some((follower.next().await?, follower)) }))
}

impl<P: Pages> TailReader<P> {
    async fn next(&mut self) -> Option<Result<Tailed, ReadError>> {
        while !self.failed {
            if self.reading {
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
