//! The newest events, in memory, for everybody who listens: bounded in number and in bytes, however slow a listener is.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::Event;

/// Events kept. A listener further behind reads the history.
const MAX_EVENTS: usize = 1024;
const MAX_BYTES: usize = 8 << 20;

/// The newest events.
pub(crate) struct EventRing {
    kept: Mutex<RingState>,
    /// How many there were in all; changes wake waiting listeners.
    count: watch::Sender<u64>,
}

#[derive(Default)]
struct RingState {
    /// The number of the oldest that is kept.
    first: u64,
    events: VecDeque<Event>,
    bytes: usize,
    closed: bool,
}

/// A listener's place.
pub(crate) struct RingCursor {
    ring: Arc<EventRing>,
    next: u64,
    count: watch::Receiver<u64>,
}

/// Why there is no event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// Some have gone by unheard. The next one is the oldest that is kept.
    Lagged,
    /// There will be no more.
    Closed,
}

impl EventRing {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), count: watch::Sender::new(0) })
    }

    pub(crate) fn push(&self, event: Event) {
        let mut kept = self.kept.lock();
        kept.bytes += size(&event);
        kept.events.push_back(event);
        while kept.events.len() > MAX_EVENTS || (kept.bytes > MAX_BYTES && kept.events.len() > 1) {
            if let Some(oldest) = kept.events.pop_front() {
                kept.bytes -= size(&oldest);
                kept.first += 1;
            }
        }
        let count = kept.first + kept.events.len() as u64;
        drop(kept);
        self.count.send_replace(count);
    }

    pub(crate) fn close(&self) {
        self.kept.lock().closed = true;
        self.count.send_modify(|_| {});
    }

    /// A place from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> RingCursor {
        let count = self.count.subscribe();
        let kept = self.kept.lock();
        RingCursor { next: kept.first + kept.events.len() as u64, ring: self.clone(), count }
    }
}

impl RingCursor {
    /// Waits until there may be something that [`look`](Self::look) has not seen.
    pub(crate) async fn changed(&mut self) {
        // The ring is held, so it can still change.
        let _ = self.count.changed().await;
    }

    /// The next event, if there is one.
    pub(crate) fn look(&mut self) -> Option<Result<Event, Nothing>> {
        // Before the ring is looked at, so that whatever comes after is a change.
        self.count.borrow_and_update();
        let kept = self.ring.kept.lock();
        if self.next < kept.first {
            self.next = kept.first;
            return Some(Err(Nothing::Lagged));
        }
        let at = usize::try_from(self.next - kept.first).unwrap_or(usize::MAX);
        match kept.events.get(at) {
            Some(event) => {
                self.next += 1;
                Some(Ok(event.clone()))
            }
            None => kept.closed.then_some(Err(Nothing::Closed)),
        }
    }
}

fn size(event: &Event) -> usize {
    match event {
        Event::Envelope(envelope) => envelope.text().len(),
        Event::Gap | Event::Outage(_) | Event::Recovered => 0,
    }
}
