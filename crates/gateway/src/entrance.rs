//! The way to a seat for a session that begins without one.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use salon_dialects::{Introduction, Joined};
use salon_mcp::listing::{Item, Listing};
use salon_protocol::{ParticipantId, Refusal};
use salon_rooms::Seat;

/// A seat, and what its holder is told of the room.
pub(crate) type Arrived = (Seat, Joined);

/// Somebody on the way in.
pub(crate) type Entering = BoxFuture<'static, Result<Arrived, Refusal>>;

/// Looks up in the room's catalogue what somebody offers.
pub(crate) type Consult = Box<dyn Fn(&ParticipantId, Listing) -> BoxFuture<'static, Option<Arc<[Item]>>> + Send>;

/// What became of somebody outside.
pub(crate) enum Entry {
    Joined(Box<Arrived>),
    NotJoined(Refusal),
    /// The gateway stops. Who has a seat hears it from the room.
    Dismissed,
}

/// Where a session waits that has no seat yet.
pub(crate) struct Entrance {
    consult: Option<Consult>,
    enter: Box<dyn Fn(Introduction) -> Entering + Send>,
    entering: Option<Entering>,
    dismissed: BoxFuture<'static, ()>,
}

impl Entrance {
    /// `enter` takes a seat; `dismissed` resolves when nobody may wait any longer.
    pub(crate) fn new(
        enter: impl Fn(Introduction) -> Entering + Send + 'static,
        dismissed: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { consult: None, enter: Box::new(enter), entering: None, dismissed: Box::pin(dismissed) }
    }

    /// With a way to ask what others in the room offer.
    pub(crate) fn with_catalogue(mut self, consult: Consult) -> Self {
        self.consult = Some(consult);
        self
    }

    /// That way, for whoever goes in.
    pub(crate) fn take_catalogue(&mut self) -> Option<Consult> {
        self.consult.take()
    }

    /// Begins to enter. Who is on the way already goes on as they are.
    pub(crate) fn enter(&mut self, introduction: Introduction) {
        self.entering.get_or_insert_with(|| (self.enter)(introduction));
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Entry> {
        if self.dismissed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Entry::Dismissed);
        }
        let Some(entering) = &mut self.entering else { return Poll::Pending };
        let Poll::Ready(outcome) = entering.as_mut().poll(cx) else { return Poll::Pending };
        self.entering = None;
        Poll::Ready(match outcome {
            Ok(arrived) => Entry::Joined(Box::new(arrived)),
            Err(refusal) => Entry::NotJoined(refusal),
        })
    }
}
