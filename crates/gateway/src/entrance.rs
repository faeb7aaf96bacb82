//! The way to a seat for a session that begins without one.

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use salon_dialects::{Introduction, Joined};
use salon_protocol::Refusal;
use salon_rooms::Seat;

/// A seat, and what its holder gets to know of the room.
pub(crate) type Seated = (Seat, Joined);

/// Somebody on the way in.
pub(crate) type SeatFuture = BoxFuture<'static, Result<Seated, Refusal>>;

/// What became of somebody outside.
pub(crate) enum EntranceOutcome {
    Joined(Box<Seated>),
    NotJoined(Refusal),
    /// The gateway stops. Who has a seat hears it from the room.
    Dismissed,
}

/// Where a session waits that has no seat yet.
pub(crate) struct Entrance {
    enter: Box<dyn Fn(Introduction) -> SeatFuture + Send>,
    entering: Option<SeatFuture>,
    dismissed: BoxFuture<'static, ()>,
}

impl Entrance {
    /// `enter` takes a seat; `dismissed` resolves when nobody may wait any longer.
    pub(crate) fn new(
        enter: impl Fn(Introduction) -> SeatFuture + Send + 'static,
        dismissed: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self { enter: Box::new(enter), entering: None, dismissed: Box::pin(dismissed) }
    }

    /// Begins to enter. Who is on the way already goes on as they are.
    pub(crate) fn enter(&mut self, introduction: Introduction) {
        self.entering.get_or_insert_with(|| (self.enter)(introduction));
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<EntranceOutcome> {
        if self.dismissed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(EntranceOutcome::Dismissed);
        }
        let Some(entering) = &mut self.entering else { return Poll::Pending };
        let Poll::Ready(outcome) = entering.as_mut().poll(cx) else { return Poll::Pending };
        self.entering = None;
        Poll::Ready(match outcome {
            Ok(arrived) => EntranceOutcome::Joined(Box::new(arrived)),
            Err(refusal) => EntranceOutcome::NotJoined(refusal),
        })
    }
}
