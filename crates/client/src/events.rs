//! What happens in a room, in its order, for its listeners.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use salon_protocol::{Envelope, EnvelopeId};

use crate::ring::{Nothing, RingCursor};
use crate::shared::{Link, RoomShared};
use crate::{HistoryQuery, RestError};

/// The longest stretch of history that is read to catch up, in bytes of envelopes.
const MAX_CATCHING_UP: usize = 64 << 20;

/// How long to wait before a page that could not be had is asked for again.
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);

/// The largest page of history.
const PAGE: usize = 1000;

/// Something that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// An envelope: of kind `mcp`, a join, a leave, or a message of the gateway to this participant alone.
    Envelope(Arc<Envelope>),
    /// Something happened that cannot be had any more: the topic does not keep its history for so long.
    Gap,
    /// The gateway can store nothing for now, with its message. It passes by itself.
    Outage(Arc<str>),
    /// It can again.
    Recovered,
}

/// What happens in a room, in its order: every envelope once. A [`Stream`], and [`next`](Self::next) for callers without `StreamExt`.
///
/// Listeners share one bounded ring. A listener that falls behind it reads what it missed from the topic's history, so a slow listener
/// costs no memory, delays nobody, and loses nothing that the topic keeps.
pub struct Events {
    state: EventsState,
}

enum EventsState {
    /// Nobody waits.
    Idle(Box<EventReader>),
    /// Waiting for the room or for its history. The future owns the reader, so giving up a wait loses nothing.
    Waiting(BoxFuture<'static, (Box<EventReader>, Option<Event>)>),
    /// Only while one of the others is put in place.
    Moving,
}

impl Events {
    pub(crate) fn new(shared: Arc<RoomShared>) -> Self {
        Self { state: EventsState::Idle(Box::new(EventReader::new(shared))) }
    }

    /// The next event; `None` when the stay in the room is over. Nothing is lost when this is given up while waiting.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut waiting = match std::mem::replace(&mut self.state, EventsState::Moving) {
            EventsState::Idle(mut reader) => match reader.at_hand() {
                Some(event) => {
                    self.state = EventsState::Idle(reader);
                    return Poll::Ready(event);
                }
                None => async move {
                    let event = reader.next().await;
                    (reader, event)
                }
                .boxed(),
            },
            EventsState::Waiting(waiting) => waiting,
            EventsState::Moving => unreachable!("the state is put back before this returns"),
        };
        let polled = waiting.poll_unpin(cx);
        let (reader, event) = match polled {
            Poll::Ready(done) => done,
            Poll::Pending => {
                self.state = EventsState::Waiting(waiting);
                return Poll::Pending;
            }
        };
        self.state = EventsState::Idle(reader);
        Poll::Ready(event)
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(cx)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// How far one listener has read.
struct EventReader {
    cursor: RingCursor,
    shared: Arc<RoomShared>,
    /// The last envelope that was handed out, or after which this began.
    last: Option<EnvelopeId>,
    /// What was read from the history.
    backlog: VecDeque<Event>,
    /// What is in the ring up to this envelope was in the backlog as well.
    skip_to: Option<EnvelopeId>,
    /// The ring has dropped something that has not been read yet.
    behind: bool,
}

impl EventReader {
    fn new(shared: Arc<RoomShared>) -> Self {
        let (cursor, last) = shared.listen();
        Self { cursor, shared, last, backlog: VecDeque::new(), skip_to: None, behind: false }
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.at_hand() {
                return event;
            }
            if self.behind {
                self.catch_up().await;
            } else {
                self.cursor.changed().await;
            }
        }
    }

    /// What can be handed out without waiting; `Some(None)` when the stay in the room is over.
    fn at_hand(&mut self) -> Option<Option<Event>> {
        loop {
            if let Some(event) = self.backlog.pop_front() {
                return Some(Some(self.hand_out(event)));
            }
            if self.behind {
                return None;
            }
            match self.cursor.look()? {
                Ok(Event::Envelope(envelope)) if self.skip_to.is_some() && !is_word(&envelope) => {
                    if self.skip_to.as_ref() == Some(envelope.id()) {
                        self.skip_to = None;
                    }
                }
                Ok(event) => return Some(Some(self.hand_out(event))),
                Err(Nothing::Lagged) => self.behind = true,
                Err(Nothing::Closed) => return Some(None),
            }
        }
    }

    fn hand_out(&mut self, event: Event) -> Event {
        match &event {
            Event::Envelope(envelope) if !is_word(envelope) => self.last = Some(envelope.id().clone()),
            Event::Envelope(_) | Event::Outage(_) | Event::Recovered => {}
            // What was to be skipped may never come.
            Event::Gap => self.skip_to = None,
        }
        event
    }

    /// Reads what the ring has dropped.
    async fn catch_up(&mut self) {
        let mut link = self.shared.link.subscribe();
        let missed = loop {
            match self.read_missed().await {
                Ok(missed) => break missed,
                Err(error) if error.is_passing() => {
                    tracing::debug!(%error, "events: history unreachable, retrying after a reconnect");
                    if matches!(*link.borrow_and_update(), Link::Ended(_)) {
                        break None;
                    }
                    // The link changes when the gateway is back; one that is back but busy is asked again after a while.
                    let _ = tokio::time::timeout(RETRY, link.changed()).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "events: history refused, reporting a gap");
                    break None;
                }
            }
        };
        // From here on there is no more waiting, so a caller that is cancelled before finds it undone.
        self.behind = false;
        match missed {
            Some(envelopes) => {
                // The newest of them is in the ring too, or will be.
                self.skip_to = envelopes.last().map(|envelope| envelope.id().clone());
                self.backlog.extend(envelopes.into_iter().map(Event::Envelope));
            }
            None => self.backlog.push_back(Event::Gap),
        }
    }

    /// Everything after the last envelope, oldest first; `None` when it cannot be had.
    async fn read_missed(&self) -> Result<Option<Vec<Arc<Envelope>>>, RestError> {
        let Some(last) = &self.last else { return Ok(None) };
        let mut missed = Vec::new();
        let mut bytes = 0;
        let mut query = HistoryQuery { limit: Some(PAGE), before: None, after: Some(last.clone()) };
        loop {
            let page = self.shared.client.history(&self.shared.topic, &query).await?;
            if !page.enabled {
                return Ok(None);
            }
            for envelope in page.envelopes {
                bytes += envelope.text().len();
                let meant =
                    !self.shared.directed || envelope.concerns(&self.shared.id) || *envelope.from() == self.shared.id;
                if meant {
                    missed.push(Arc::new(envelope));
                }
            }
            query.before = page.next;
            if query.before.is_none() {
                missed.reverse();
                return Ok(Some(missed));
            }
            if bytes > MAX_CATCHING_UP {
                return Ok(None);
            }
        }
    }
}

/// Whether it is a word of the gateway to this participant alone, which no history has.
fn is_word(envelope: &Envelope) -> bool {
    envelope.kind() == salon_protocol::Kind::System
}
