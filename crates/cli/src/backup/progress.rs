//! How far long work is, for a person at a terminal; nothing where nobody watches.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// One line on stderr that is written over as work goes on, and taken away at the end.
pub(crate) struct PercentLine<'a> {
    cancelled: &'a AtomicBool,
    is_shown: bool,
    last: Option<(&'static str, u64)>,
}

impl<'a> PercentLine<'a> {
    pub(crate) fn new(cancelled: &'a AtomicBool) -> Self {
        Self { cancelled, is_shown: io::stderr().is_terminal(), last: None }
    }

    /// Shows how far the work is, and says whether it is to go on.
    pub(crate) fn go_on(&mut self, what: &'static str, done: u64, total: u64) -> bool {
        let percent = u64::try_from(u128::from(done) * 100 / u128::from(total.max(1))).unwrap_or(100);
        if self.is_shown && self.last != Some((what, percent)) {
            self.last = Some((what, percent));
            let _ = write!(io::stderr().lock(), "\r\x1b[K{what}: {percent} %");
        }
        !self.cancelled.load(Ordering::Relaxed)
    }

    /// Takes the line away, so that something else can be written there.
    pub(crate) fn clear(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for PercentLine<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
