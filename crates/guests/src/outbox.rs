//! What waits to be said in the room, in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use salon_client::{Outgoing, PublishError, Room};
use salon_protocol::Envelope;

use crate::switchboard::{Publish, What};

/// Envelopes on their way to the gateway.
const IN_FLIGHT: usize = 64;
/// What may wait behind them before nothing more is taken in.
const WAITING: usize = 1024;

type Publishing = Pin<Box<dyn Future<Output = (What, Result<Arc<Envelope>, PublishError>)> + Send>>;

/// What waits to be said, and what is being said. A guest may speak only so fast, and its callers together ask faster.
pub(crate) struct Outbox {
    room: Room,
    waiting: VecDeque<Publish>,
    publishing: FuturesUnordered<Publishing>,
}

impl Outbox {
    pub(crate) fn new(room: Room) -> Self {
        Self { room, waiting: VecDeque::new(), publishing: FuturesUnordered::new() }
    }

    /// Whether more can be taken in.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING
    }

    pub(crate) fn push(&mut self, publish: Publish) {
        // Later progress says all that earlier progress said, so a talkative server costs one place a call.
        if let What::Progress(number) = publish.what {
            let same = |waiting: &&mut Publish| matches!(waiting.what, What::Progress(other) if other == number);
            if let Some(earlier) = self.waiting.iter_mut().rev().find(same) {
                earlier.payload = publish.payload;
                return;
            }
        }
        self.waiting.push_back(publish);
    }

    /// Says as much as may be on its way at once. What was said first is stored first.
    pub(crate) async fn send(&mut self) {
        while self.publishing.len() < IN_FLIGHT
            && let Some(Publish { to, correlation, payload, what }) = self.waiting.pop_front()
        {
            let room = self.room.clone();
            let mut publishing: Publishing = Box::pin(async move {
                let outcome = room.publish(Outgoing { to, correlation, payload }).await;
                (what, outcome)
            });
            // Polled here once, it has its place in the queue to the gateway before the next one is made.
            match std::future::poll_fn(|context| Poll::Ready(publishing.as_mut().poll(context))).await {
                Poll::Pending => self.publishing.push(publishing),
                Poll::Ready(done) => self.publishing.push(Box::pin(std::future::ready(done))),
            }
        }
    }

    /// The outcome of something that was said; never when nothing is on its way.
    pub(crate) async fn outcome(&mut self) -> (What, Result<Arc<Envelope>, PublishError>) {
        match self.publishing.next().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.publishing.is_empty()
    }

    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Gives the room back.
    pub(crate) fn into_room(self) -> Room {
        self.room
    }
}
