//! Appends that are submitted together, and wake the thread that stores them once.
//!
//! A thread that is woken for the first of ten messages stores it alone, and flushes the disk once more for the other nine. So a session that has
//! read several messages submits all of them first.

use std::cell::RefCell;
use std::sync::Arc;

/// The most appends for which waking is deferred. The first of them waits until the last is submitted.
const MAX_DEFERRED: usize = 32;

thread_local! {
    /// Of the outermost call of [`submit_together`] on this thread.
    static DEFERRED: RefCell<Option<DeferredWakes>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct DeferredWakes {
    target: Option<Arc<dyn WakeTarget>>,
    count: usize,
}

/// A thread that sleeps until it is woken for new work.
pub(crate) trait WakeTarget: Send + Sync {
    fn wake(&self);
}

/// Runs `submit`. What this thread submits to a log meanwhile may be stored from the end of it on, and not before.
pub fn submit_together<T>(submit: impl FnOnce() -> T) -> T {
    struct WakeAtEnd;
    impl Drop for WakeAtEnd {
        fn drop(&mut self) {
            if let Some(DeferredWakes { target: Some(target), .. }) = DEFERRED.take() {
                target.wake();
            }
        }
    }
    if DEFERRED.with_borrow(Option::is_some) {
        return submit();
    }
    DEFERRED.set(Some(DeferredWakes::default()));
    let _end = WakeAtEnd;
    submit()
}

/// Defers waking `target` to the end of [`submit_together`]. False where the caller must wake it now: outside `submit_together`, for a second target, or after
/// [`MAX_DEFERRED`] appends.
pub(crate) fn defer_wake<T: WakeTarget + 'static>(target: &Arc<T>) -> bool {
    DEFERRED.with_borrow_mut(|deferred| {
        let Some(deferred) = deferred else { return false };
        let is_same =
            deferred.target.as_ref().is_none_or(|other| Arc::as_ptr(other).addr() == Arc::as_ptr(target).addr());
        if !is_same || deferred.count == MAX_DEFERRED {
            return false;
        }
        deferred.count += 1;
        deferred.target.get_or_insert_with(|| target.clone());
        true
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Sleeper(AtomicUsize);

    impl WakeTarget for Sleeper {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Sleeper {
        fn woken(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_target_is_woken_once_at_the_end() {
        let sleeper = Arc::new(Sleeper::default());
        submit_together(|| {
            assert!(defer_wake(&sleeper));
            submit_together(|| assert!(defer_wake(&sleeper)));
            assert_eq!(sleeper.woken(), 0, "the outermost call ends it");
        });
        assert_eq!(sleeper.woken(), 1);
        assert!(!defer_wake(&sleeper), "nothing is deferred outside");
    }

    #[test]
    fn many_wake_it_before_the_end() {
        let sleeper = Arc::new(Sleeper::default());
        submit_together(|| assert_eq!((0..100).filter(|_| defer_wake(&sleeper)).count(), MAX_DEFERRED));
        assert_eq!(sleeper.woken(), 1);
    }

    #[test]
    fn only_one_sleeper_is_defer_wake() {
        let (first, second) = (Arc::new(Sleeper::default()), Arc::new(Sleeper::default()));
        submit_together(|| assert_eq!((defer_wake(&first), defer_wake(&second)), (true, false)));
        assert_eq!((first.woken(), second.woken()), (1, 0));
    }

    #[test]
    fn a_panic_wakes_it_too() {
        let sleeper = Arc::new(Sleeper::default());
        let run = std::panic::AssertUnwindSafe(|| {
            submit_together(|| {
                defer_wake(&sleeper);
                panic!("of the test");
            })
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert_eq!(sleeper.woken(), 1);
        assert!(!defer_wake(&sleeper));
    }
}
