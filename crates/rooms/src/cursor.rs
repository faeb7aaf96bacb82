//! A cursor over a room: reads the ring while it is near the end, and the log while it is not.
//!
//! Invariant: a cursor yields every entry after where it began, once and in order, or says that there is a gap.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use salon_log::{ReadError, Span};
use salon_protocol::{CloseReason, Entry, Envelope, ParticipantId, Position};

use crate::fold::FailedCall;
use crate::room::{Room, Visit};

/// How many entries a cursor that fell behind reads from the log at once.
const PAGE: usize = 128;

/// How long a cursor that was live may go on reading from the log before it counts as too slow.
const MOST_LAG: Duration = Duration::from_secs(60);

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
}

impl Interest {
    fn wants(&self, envelope: &Envelope) -> bool {
        let Some(reader) = &self.reader else { return true };
        if envelope.from() == reader {
            return !self.without_own;
        }
        match self.deliver {
            Deliver::All => true,
            Deliver::Directed => envelope.concerns(reader),
            Deliver::Named => envelope.to().contains(reader),
        }
    }
}

/// What a cursor yields.
#[derive(Debug, Clone)]
pub enum Happening {
    /// The next entry.
    Entry(Arc<Entry>),
    /// A request of the reader's will not be answered.
    CallFailed(FailedCall),
    /// Entries here are no longer kept.
    Gap,
}

/// Rung when there is something new for one cursor, or when it must end.
#[derive(Debug)]
pub(crate) struct Bell {
    waker: AtomicWaker,
    interest: Interest,
    ended: OnceLock<CloseReason>,
}

impl Bell {
    pub(crate) fn new(interest: Interest) -> Arc<Self> {
        Arc::new(Self { waker: AtomicWaker::new(), interest, ended: OnceLock::new() })
    }

    pub(crate) fn ring_for(&self, entries: &[Arc<Entry>]) {
        if self.interest.deliver == Deliver::All || entries.iter().any(|entry| self.interest.wants(&entry.envelope)) {
            self.waker.wake();
        }
    }

    /// Ends the cursor. The first reason stays.
    pub(crate) fn end(&self, reason: CloseReason) {
        let _ = self.ended.set(reason);
        self.waker.wake();
    }

    fn ended(&self) -> Option<CloseReason> {
        self.ended.get().copied()
    }
}

/// A reader's place in a room's order.
pub struct Cursor {
    room: Arc<Room>,
    _visit: Option<Visit>,
    bell: Arc<Bell>,
    listener: u64,
    /// The offset of the last entry passed, wanted or not.
    at: u64,
    /// Failed calls up to this offset have been told.
    told: u64,
    reading: Reading,
    /// Since when a cursor that was live has been reading from the log.
    behind_since: Option<Instant>,
}

enum Reading {
    /// The number of the next slot in the ring.
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
    pub(crate) fn new(room: Arc<Room>, visit: Option<Visit>, bell: Arc<Bell>, after: u64) -> Self {
        let listener = room.listen(bell.clone());
        // Looked at after listening: whoever is dismissed later is told, and whoever was dismissed before finds out here.
        if room.common.is_dismissed() {
            bell.end(CloseReason::Shutdown);
        }
        let place = room.ring().seek(after);
        let reading = match place {
            Some(number) => Reading::Ring(number),
            None => Reading::Log(LogPage::ask(&room, after)),
        };
        Self { room, _visit: visit, bell, listener, at: after, told: after, reading, behind_since: None }
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
        loop {
            if let Some(reason) = self.bell.ended() {
                return Poll::Ready(Err(reason));
            }
            match &mut self.reading {
                Reading::Ring(number) => {
                    if *number == self.room.next_slot() {
                        self.bell.waker.register(cx.waker());
                        // Looked at again after registering: what came between would otherwise never ring.
                        if *number == self.room.next_slot() && self.bell.ended().is_none() {
                            return Poll::Pending;
                        }
                        continue;
                    }
                    self.read_ring(out, budget);
                }
                Reading::Log(reading) => {
                    let Poll::Ready(page) = reading.page.as_mut().poll(cx) else {
                        self.bell.waker.register(cx.waker());
                        return Poll::Pending;
                    };
                    let ring_began = reading.ring_began;
                    if let Err(reason) = self.take_page(page, ring_began, out) {
                        return Poll::Ready(Err(reason));
                    }
                }
            }
            if out.len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Waits for what comes next.
    pub async fn next(&mut self, out: &mut Vec<Happening>, budget: usize) -> Result<(), CloseReason> {
        std::future::poll_fn(|cx| self.poll_next(cx, out, budget)).await
    }

    /// How old the next entry is that this cursor has not passed, in offsets of the log.
    pub fn lag(&self) -> u64 {
        self.room.ring().head().saturating_sub(self.at)
    }

    fn read_ring(&mut self, out: &mut Vec<Happening>, budget: usize) {
        let Reading::Ring(number) = &mut self.reading else { return };
        let ring = self.room.ring();
        let Some(slots) = ring.from(*number) else {
            drop(ring);
            self.behind_since.get_or_insert_with(Instant::now);
            self.reading = Reading::Log(LogPage::ask(&self.room, self.at));
            return;
        };
        let (mut bytes, mut calls_failed) = (0, false);
        for slot in slots {
            *number += 1;
            self.at = slot.entry.position.offset;
            if self.bell.interest.wants(&slot.entry.envelope) {
                bytes += slot.entry.envelope.text().len();
                out.push(Happening::Entry(slot.entry.clone()));
            }
            calls_failed = slot.fails_calls;
            if calls_failed || bytes >= budget {
                break;
            }
        }
        drop(ring);
        if calls_failed {
            self.tell_failed_calls(out);
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
                    if self.bell.interest.wants(&entry.envelope) {
                        out.push(Happening::Entry(entry));
                    }
                }
            }
            Err(ReadError::Gap { resume }) => {
                self.at = self.at.max(resume.offset);
                out.push(Happening::Gap);
            }
            Err(ReadError::Failed(reason)) => {
                tracing::error!(topic = %self.room.topic, %reason, "a reader's page could not be read");
                return Err(CloseReason::LogFailed);
            }
        }
        let place = self.room.ring().seek(self.at);
        match place {
            Some(number) => {
                self.reading = Reading::Ring(number);
                self.behind_since = None;
                self.tell_failed_calls(out);
            }
            None if self.behind_since.is_some_and(|since| since.elapsed() > MOST_LAG) => {
                return Err(CloseReason::TooSlow);
            }
            None => self.reading = Reading::Log(LogPage::ask(&self.room, self.at)),
        }
        Ok(())
    }

    fn tell_failed_calls(&mut self, out: &mut Vec<Happening>) {
        if let Some(reader) = &self.bell.interest.reader {
            let failed = self.room.fold().failed_calls(reader, self.told, self.at);
            out.extend(failed.into_iter().map(Happening::CallFailed));
        }
        self.told = self.at;
    }
}

impl LogPage {
    fn ask(room: &Room, after: u64) -> Self {
        let ring_began = room.ring().complete_after();
        let after = Position { epoch: room.epoch, offset: after };
        Self { page: room.log.read(&room.topic, Span::After(after), PAGE), ring_began }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.room.unlisten(self.listener);
    }
}
