//! A cursor over a room: reads the ring while it is near the end, and the log while it is not.
//!
//! Invariant: a cursor yields every entry after where it began, once and in order, or says that there is a gap.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use salon_control::Namespace;
use salon_log::{FailedCall, ReadError, Span};
use salon_protocol::{CloseReason, Entry, Envelope, ParticipantId, Position};

use crate::batch::Batch;
use crate::bell::{BatchOutlet, Bell, Parked};
use crate::room::{Room, RoomGuard};

/// How many entries a cursor that fell behind reads from the log at once.
const PAGE: usize = 128;

/// How long a cursor that was live may go on reading from the log before it counts as too slow.
const MAX_LAG: Duration = Duration::from_secs(60);

/// How long a cursor waits before it asks a log again that was out of reach.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Which entries somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deliver {
    /// All of them.
    #[default]
    All,
    /// Broadcasts and what names the reader.
    Directed,
    /// Only what names the reader.
    Named,
}

/// What a cursor yields to whom.
#[derive(Debug, Clone, Default)]
pub struct Interest {
    /// The reader; `None` reads as nobody, which is to see everything.
    pub reader: Option<ParticipantId>,
    /// Which entries.
    pub deliver: Deliver,
    /// Whether to leave out the reader's own.
    pub without_own: bool,
    /// The namespaces of a bridge: what its ghosts say is its own, and what names them names it.
    pub acts_for: Vec<Namespace>,
}

impl Interest {
    pub(crate) fn wants(&self, envelope: &Envelope) -> bool {
        let Some(reader) = &self.reader else { return true };
        if self.is_own(reader, envelope.from()) {
            return !self.without_own;
        }
        let names = || envelope.to().iter().any(|named| self.is_own(reader, named));
        match self.deliver {
            Deliver::All => true,
            Deliver::Directed => envelope.to().is_empty() || names(),
            Deliver::Named => names(),
        }
    }

    /// Whether an id is the reader's, or that of a ghost of the reader's.
    fn is_own(&self, reader: &ParticipantId, id: &ParticipantId) -> bool {
        id == reader || self.acts_for.iter().any(|namespace| namespace.contains(id))
    }
}

/// What a cursor yields.
#[derive(Debug, Clone)]
pub enum Happening {
    /// The next entry.
    Entry(Arc<Entry>),
    /// The next entries, all of them wanted.
    Batch(Arc<Batch>),
    /// A request of the reader's will not be answered.
    CallFailed(FailedCall),
    /// Entries here are no longer kept.
    Gap,
}

impl Happening {
    /// The entries it brings.
    pub fn entries(&self) -> &[Arc<Entry>] {
        match self {
            Self::Entry(entry) => std::slice::from_ref(entry),
            Self::Batch(batch) => batch.entries(),
            Self::CallFailed(_) | Self::Gap => &[],
        }
    }
}

/// A reader's place in a room's order.
pub struct Cursor {
    room: Arc<Room>,
    _visit: Option<RoomGuard>,
    bell: Arc<Bell>,
    listener: u64,
    /// The offset of the last entry passed, wanted or not.
    at: u64,
    /// Failed calls up to this offset have been told.
    reported: u64,
    reading: CursorSource,
    /// Since when a cursor that was live has been reading from the log.
    behind_since: Option<Instant>,
}

enum CursorSource {
    /// The number of the next batch in the ring.
    Ring(u64),
    Log(LogPage),
}

struct LogPage {
    page: BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>>,
    /// What the ring was complete after when the page was asked for.
    ring_began: u64,
}

impl Cursor {
    /// Begins after an offset.
    pub(crate) fn new(room: Arc<Room>, visit: Option<RoomGuard>, bell: Arc<Bell>, after: u64) -> Self {
        bell.note_handed(after);
        let listener = room.listen(bell.clone());
        // Looked at after listening: a reader of a room that ends later is notified, and one of a room that has ended finds out here.
        if let Some(reason) = room.end_reason() {
            bell.end(reason);
        }
        let place = room.ring().seek(after);
        let reading = match place {
            Some(next) => CursorSource::Ring(next),
            None => CursorSource::Log(LogPage::ask(&room, after)),
        };
        Self { room, _visit: visit, bell, listener, at: after, reported: after, reading, behind_since: None }
    }

    /// Appends what comes next to `out`, about `budget` bytes of it. Pending when there is nothing now; an error when the cursor
    /// must end, after which it yields nothing more.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<Happening>,
        budget: usize,
    ) -> Poll<Result<(), CloseReason>> {
        let before = out.len();
        self.unpark();
        loop {
            if let Some(reason) = self.bell.ended() {
                return Poll::Ready(Err(reason));
            }
            match &mut self.reading {
                CursorSource::Ring(next) if *next == self.room.next_batch() => {
                    let next = *next;
                    self.bell.register(cx.waker());
                    self.bell.park(Parked { batch: next, at: self.at });
                    // Looked at again after parking: what came between would otherwise never ring.
                    if next == self.room.next_batch() && self.bell.ended().is_none() {
                        return Poll::Pending;
                    }
                    self.unpark();
                }
                CursorSource::Ring(_) => self.read_ring(out, budget),
                CursorSource::Log(reading) => {
                    let Poll::Ready(page) = reading.page.as_mut().poll(cx) else {
                        self.bell.register(cx.waker());
                        return Poll::Pending;
                    };
                    let ring_began = reading.ring_began;
                    if let Err(reason) = self.take_page(page, ring_began, out) {
                        return Poll::Ready(Err(reason));
                    }
                }
            }
            if out.len() > before {
                self.bell.note_handed(self.at);
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads nothing, but hears when the cursor must end. Who is not asked to read is not slow, however far behind.
    pub fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.unpark();
        self.behind_since = None;
        self.bell.register(cx.waker());
        self.bell.ended().map_or(Poll::Pending, Poll::Ready)
    }

    /// Goes on from where the room has moved the parked place to.
    fn unpark(&mut self) {
        if let Some(parked) = self.bell.unpark() {
            self.bell.note_handed(parked.at);
            self.at = parked.at;
            self.reading = CursorSource::Ring(parked.batch);
        }
    }

    /// Lets the room write straight to `outlet` whenever this cursor is up to date. Only for a reader that means by a batch its
    /// entries' own texts, one after the other.
    pub fn attach(&self, outlet: Arc<dyn BatchOutlet>) {
        self.bell.attach(outlet);
    }

    /// Waits for what comes next.
    pub async fn next(&mut self, out: &mut Vec<Happening>, budget: usize) -> Result<(), CloseReason> {
        std::future::poll_fn(|cx| self.poll_next(cx, out, budget)).await
    }

    /// Whether an entry lies behind. One that does not will still come, if it is wanted here.
    pub fn has_passed(&self, entry: &Entry) -> bool {
        self.bell.parked_at().unwrap_or(self.at) >= entry.position.offset
    }

    /// An entry as the log has it by now: it may have been redacted since this cursor yielded it.
    pub fn current(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        self.room.redactions.current(entry)
    }

    /// How old the next entry is that this cursor has not passed, in offsets of the log.
    pub fn lag(&self) -> u64 {
        self.room.ring().head().saturating_sub(self.at)
    }

    fn read_ring(&mut self, out: &mut Vec<Happening>, budget: usize) {
        let CursorSource::Ring(next) = &mut self.reading else { return };
        let ring = self.room.ring();
        let Some(batches) = ring.from(*next) else {
            drop(ring);
            self.behind_since.get_or_insert_with(Instant::now);
            self.reading = CursorSource::Log(LogPage::ask(&self.room, self.at));
            return;
        };
        let (mut bytes, mut calls_failed) = (0, false);
        for batch in batches {
            let wanted = |entry: &&Arc<Entry>| self.bell.interest.wants(&entry.envelope);
            // A page of the log, or the envelope somebody resumed after, can be ahead of what the room had heard of.
            let fresh = batch.after(self.at);
            if fresh.len() == batch.entries().len() && fresh.iter().all(|entry| wanted(&entry)) {
                bytes += batch.bytes();
                out.push(Happening::Batch(batch.clone()));
            } else {
                for entry in fresh.iter().filter(wanted) {
                    bytes += entry.envelope.text().len();
                    out.push(Happening::Entry(entry.clone()));
                }
            }
            *next += 1;
            self.at = self.at.max(batch.last());
            calls_failed = batch.fails_calls();
            if calls_failed || bytes >= budget {
                break;
            }
        }
        drop(ring);
        if calls_failed {
            self.report_failed_calls(out);
        }
    }

    fn take_page(
        &mut self,
        page: Result<Vec<Arc<Entry>>, ReadError>,
        ring_began: u64,
        out: &mut Vec<Happening>,
    ) -> Result<(), CloseReason> {
        match page {
            Ok(entries) => {
                if entries.is_empty() {
                    // The log had nothing up to where the ring began, so the ring continues from here.
                    self.at = self.at.max(ring_began);
                }
                for entry in entries {
                    self.at = entry.position.offset;
                    // It may have been redacted after it was read.
                    let entry = self.room.redactions.current(&entry);
                    if self.bell.interest.wants(&entry.envelope) {
                        out.push(Happening::Entry(entry));
                    }
                }
            }
            Err(ReadError::Gap { resume }) => {
                self.at = self.at.max(resume.offset);
                out.push(Happening::Gap);
            }
            // The log is out of reach, which is not the reader's doing: it waits with it.
            Err(ReadError::Unavailable(_)) => {
                self.behind_since = self.behind_since.map(|_| Instant::now());
                self.reading = CursorSource::Log(LogPage::ask_later(&self.room, self.at));
                return Ok(());
            }
            Err(ReadError::Failed(reason)) => {
                tracing::error!(topic = %self.room.topic, %reason, "cursor: page unreadable, closing the connection");
                return Err(CloseReason::Internal);
            }
        }
        let place = self.room.ring().seek(self.at);
        match place {
            Some(next) => {
                self.reading = CursorSource::Ring(next);
                self.behind_since = None;
                self.report_failed_calls(out);
            }
            // The host has nowhere to reconnect from.
            None if self.bell.interest.deliver != Deliver::Named
                && self.behind_since.is_some_and(|since| since.elapsed() > MAX_LAG) =>
            {
                return Err(CloseReason::TooSlow);
            }
            None => self.reading = CursorSource::Log(LogPage::ask(&self.room, self.at)),
        }
        Ok(())
    }

    fn report_failed_calls(&mut self, out: &mut Vec<Happening>) {
        let interest = &self.bell.interest;
        let Some(reader) = &interest.reader else { return };
        let attendance = self.room.attendance();
        // A page of the log can be ahead of the fold; a failure there is reported when the fold has come so far.
        let known = self.at.min(self.room.ring().head());
        let failed = attendance.fold().failed_calls_of(|caller| interest.is_own(reader, caller), self.reported, known);
        out.extend(failed.into_iter().map(Happening::CallFailed));
        self.reported = self.reported.max(known);
    }
}

impl LogPage {
    fn ask(room: &Room, after: u64) -> Self {
        let ring_began = room.ring().complete_after();
        let after = Position { epoch: room.epoch, offset: after };
        Self { page: room.log.read(&room.topic, Span::After(after), PAGE), ring_began }
    }

    fn ask_later(room: &Arc<Room>, after: u64) -> Self {
        let ring_began = room.ring().complete_after();
        let room = room.clone();
        let page = async move {
            tokio::time::sleep(RETRY_DELAY).await;
            let after = Position { epoch: room.epoch, offset: after };
            room.log.read(&room.topic, Span::After(after), PAGE).await
        };
        Self { page: Box::pin(page), ring_began }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // Taken back first: the room must not write for a reader that is gone.
        self.bell.unpark();
        self.room.unlisten(self.listener);
    }
}
