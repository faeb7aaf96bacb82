//! A queue from async callers to a thread.
//!
//! Pushing never waits, so that the order of calls is the order of work, and is not bounded here: the caller bounds what it has
//! in flight (a session its appends, a tail its one page).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::submit_together::{WakeTarget, defer_wake};

pub(super) struct WorkQueue<T> {
    state: Mutex<WorkQueueState<T>>,
    changed: Condvar,
}

struct WorkQueueState<T> {
    items: VecDeque<T>,
    closed: bool,
    sleepers: usize,
}

impl<T> WorkQueue<T> {
    pub(super) fn new() -> Self {
        let state = WorkQueueState { items: VecDeque::new(), closed: false, sleepers: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, WorkQueueState<T>> {
        self.state.lock()
    }

    /// Adds an item, or gives it back when the queue is closed.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        if self.add(item)? {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Like `push`, but within [`submit_together`](crate::submit_together()) the thread is woken at its end.
    pub(super) fn push_deferred(self: &Arc<Self>, item: T) -> Result<(), T>
    where
        T: Send + 'static,
    {
        if self.add(item)? && !defer_wake(self) {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Adds an item; whether a thread must be woken for it. Waking is a system call even when nobody sleeps, so the sleepers are counted.
    fn add(&self, item: T) -> Result<bool, T> {
        let mut state = self.lock();
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        Ok(state.sleepers > 0)
    }

    /// Takes the oldest item, waiting for one; `None` when the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state.sleepers += 1;
            self.changed.wait(&mut state);
            state.sleepers -= 1;
        }
    }

    /// Moves everything to the end of `into`, waiting at most `timeout` for something. False when the queue is closed and both are empty.
    pub(super) fn take(&self, into: &mut VecDeque<T>, timeout: Duration) -> bool {
        let mut state = self.lock();
        if state.items.is_empty() && !state.closed && !timeout.is_zero() {
            state.sleepers += 1;
            self.changed.wait_while_for(&mut state, |s| s.items.is_empty() && !s.closed, timeout);
            state.sleepers -= 1;
        }
        match into.is_empty() {
            true => std::mem::swap(&mut state.items, into),
            false => into.append(&mut state.items),
        }
        !(into.is_empty() && state.closed)
    }

    /// Refuses what is pushed from now on; what was pushed before is still handed out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl<T: Send> WakeTarget for WorkQueue<T> {
    fn wake(&self) {
        self.changed.notify_one();
    }
}
