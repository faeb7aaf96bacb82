//! An append on its way into a log, and how its outcome gets to the task that waits for it.
//!
//! To wake a task costs more than to store a short message. A task that learns from elsewhere that its message is stored, by the message's echo for
//! example, need not be woken for it, and finds the outcome when it runs next.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::{AppendError, Appended};

pub(crate) type AppendOutcome = Result<Appended, AppendError>;

/// Resolves when an append is durable and readable. Dropping it does not undo the append.
pub struct AppendFuture {
    state: AppendState,
    stored_at: Option<Instant>,
}

enum AppendState {
    /// Of an engine that only makes futures.
    Boxed(BoxFuture<'static, AppendOutcome>),
    Slot(Arc<OutcomeSlot>),
}

/// Between the thread that stores and the task that waits.
#[derive(Default)]
struct OutcomeSlot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    outcome: Option<(AppendOutcome, Instant)>,
    waker: Option<Waker>,
    /// Whether the task is woken for a success as well.
    is_awaited: bool,
}

impl AppendFuture {
    /// One whose outcome is sent.
    pub(crate) fn channel() -> (OutcomeSender, Self) {
        let slot = Arc::new(OutcomeSlot::default());
        (OutcomeSender(Some(slot.clone())), Self { state: AppendState::Slot(slot), stored_at: None })
    }

    /// Like `poll`, but the task need not be woken for a new entry: only where the append was refused, or the envelope was stored before. Every
    /// poll decides anew.
    pub fn poll_quietly(&mut self, cx: &mut Context<'_>) -> Poll<Result<Appended, AppendError>> {
        self.poll_outcome(cx, false)
    }

    /// Has the task woken if the append is refused, or the envelope was stored before; takes no outcome. Says whether that has happened already. For an
    /// append whose outcome is polled after that of an earlier one. An engine that only makes futures wakes nobody here.
    pub fn watch(&mut self, cx: &Context<'_>) -> bool {
        match &self.state {
            AppendState::Slot(slot) => slot.watch(cx),
            AppendState::Boxed(_) => false,
        }
    }

    /// When it was decided, for an engine that says so. `None` before the outcome was polled.
    pub fn stored_at(&self) -> Option<Instant> {
        self.stored_at
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>, is_awaited: bool) -> Poll<AppendOutcome> {
        let slot = match &mut self.state {
            AppendState::Boxed(append) => return append.as_mut().poll(cx),
            AppendState::Slot(slot) => slot,
        };
        let (outcome, at) = ready!(slot.poll(cx, is_awaited));
        self.stored_at = Some(at);
        Poll::Ready(outcome)
    }
}

impl Future for AppendFuture {
    type Output = Result<Appended, AppendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(cx, true)
    }
}

impl From<BoxFuture<'static, AppendOutcome>> for AppendFuture {
    fn from(append: BoxFuture<'static, AppendOutcome>) -> Self {
        Self { state: AppendState::Boxed(append), stored_at: None }
    }
}

fn is_new(outcome: &AppendOutcome) -> bool {
    matches!(outcome, Ok(Appended { repeated: false, .. }))
}

impl SlotState {
    fn register(&mut self, cx: &Context<'_>, is_awaited: bool) {
        self.is_awaited = is_awaited;
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }
}

impl OutcomeSlot {
    fn poll(&self, cx: &mut Context<'_>, is_awaited: bool) -> Poll<(AppendOutcome, Instant)> {
        let mut state = self.0.lock();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        state.register(cx, is_awaited);
        Poll::Pending
    }

    fn watch(&self, cx: &Context<'_>) -> bool {
        let mut state = self.0.lock();
        if state.outcome.is_none() {
            state.register(cx, false);
        }
        state.outcome.as_ref().is_some_and(|(outcome, _)| !is_new(outcome))
    }

    fn send(&self, outcome: AppendOutcome, at: Instant) {
        let mut state = self.0.lock();
        let waker = state.waker.take().filter(|_| state.is_awaited || !is_new(&outcome));
        state.outcome = Some((outcome, at));
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Sends the outcome of one append. Where it is dropped instead, the log has been closed.
pub(crate) struct OutcomeSender(Option<Arc<OutcomeSlot>>);

impl OutcomeSender {
    /// Sends what was decided at a moment. The appender may have gone.
    pub(crate) fn send(mut self, outcome: AppendOutcome, at: Instant) {
        if let Some(slot) = self.0.take() {
            slot.send(outcome, at);
        }
    }
}

impl Drop for OutcomeSender {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.send(Err(AppendError::Stopped("it has been closed".into())), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use salon_protocol::{Entry, Position, Timestamp};

    use super::*;
    use crate::contract::line;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn stored(repeated: bool) -> AppendOutcome {
        let envelope = line("e1", "alice", "hello");
        let entry = Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope };
        Ok(Appended { entry: Arc::new(entry), repeated })
    }

    /// Polls in some ways, sends an outcome, or drops what would send it; says how often the task was woken, and whether it was stored.
    fn woken(awaited: &[bool], outcome: Option<AppendOutcome>) -> (usize, bool) {
        let (sender, mut append) = AppendFuture::channel();
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let mut cx = Context::from_waker(&waker);
        for &is_awaited in awaited {
            assert!(append.poll_outcome(&mut cx, is_awaited).is_pending());
        }
        match outcome {
            Some(outcome) => sender.send(outcome, Instant::now()),
            None => drop(sender),
        }
        let Poll::Ready(outcome) = append.poll_quietly(&mut cx) else { panic!("it was sent") };
        assert!(append.stored_at().is_some());
        (woken.0.load(Ordering::Relaxed), outcome.is_ok())
    }

    #[test]
    fn a_quiet_task_is_woken_for_everything_but_a_new_entry() {
        assert_eq!(woken(&[false], Some(stored(false))), (0, true));
        assert_eq!(woken(&[true, false], Some(stored(false))), (0, true));
        assert_eq!(woken(&[false, true], Some(stored(false))), (1, true));
        assert_eq!(woken(&[false], Some(stored(true))), (1, true), "there is no echo of what was stored before");
        assert_eq!(woken(&[false], Some(Err(AppendError::IdConflict))), (1, false));
        assert_eq!(woken(&[false], None), (1, false), "the log was closed");
    }

    /// Watches an append before or after its outcome is sent; says how often the task was woken, and what watching said.
    fn watched(outcome: AppendOutcome, is_sent_first: bool) -> (usize, bool) {
        let (sender, mut append) = AppendFuture::channel();
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let mut cx = Context::from_waker(&waker);
        let is_refused = if is_sent_first {
            sender.send(outcome, Instant::now());
            append.watch(&cx)
        } else {
            let is_refused = append.watch(&cx);
            sender.send(outcome, Instant::now());
            is_refused
        };
        assert!(append.poll_quietly(&mut cx).is_ready(), "watching takes no outcome");
        (woken.0.load(Ordering::Relaxed), is_refused)
    }

    #[test]
    fn a_watched_append_wakes_its_task_for_everything_but_a_new_entry() {
        assert_eq!(watched(stored(false), false), (0, false));
        assert_eq!(watched(stored(true), false), (1, false));
        assert_eq!(watched(Err(AppendError::IdConflict), false), (1, false));
        assert_eq!(watched(stored(false), true), (0, false));
        assert_eq!(watched(Err(AppendError::IdConflict), true), (0, true), "`watch` returns it");
    }
}
