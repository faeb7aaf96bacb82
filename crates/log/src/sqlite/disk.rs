//! Stops writing before the disk is full.
//!
//! A disk that is full would fail a commit in the middle, and everything else that writes to it. Below the reserve the log takes nothing
//! more, which leaves room for what removes: retention, the checkpoint, and a person who repairs it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How long what was measured counts. At a gigabyte a second this is far less than a sensible reserve.
pub(super) const VALID_FOR: Duration = Duration::from_millis(100);

/// How often a log that is read-only looks whether there is room again.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// How many bytes can be written to the file system of a directory.
pub(super) type FreeSpace = Box<dyn Fn() -> io::Result<u64> + Send>;

/// See the module.
pub(super) struct DiskGuard {
    /// How many bytes are left free. Zero switches the guard off.
    reserve: u64,
    free: FreeSpace,
    /// How long what was measured counts.
    valid_for: Duration,
    measured: Option<Instant>,
    /// Why nothing is written, while nothing is.
    reason: Option<Arc<str>>,
}

impl DiskGuard {
    pub(super) fn new(reserve: u64, (free, valid_for): (FreeSpace, Duration)) -> Self {
        Self { reserve, free, valid_for, measured: None, reason: None }
    }

    /// Why nothing may be written now.
    pub(super) fn reason(&self) -> Option<&Arc<str>> {
        self.reason.as_ref()
    }

    /// Measures, unless it has just done so.
    pub(super) fn check(&mut self, db: &Connection) {
        if self.reserve == 0 || self.measured.is_some_and(|measured| measured.elapsed() < self.valid_for) {
            return;
        }
        self.measured = Some(Instant::now());
        // A file system that does not say how full it is keeps nobody from writing.
        let Ok(free) = (self.free)() else { return };
        // Free pages of the database count, as long as there is also room for the rest: the journal, the audit trail, the revocations.
        let free = if free < self.reserve / 4 { free } else { free.saturating_add(reusable(db)) };
        // A little more than the reserve, so that a log at its edge does not change with every commit.
        let wanted = if self.reason.is_some() { self.reserve.saturating_add(self.reserve / 8) } else { self.reserve };
        match (&self.reason, free < wanted) {
            (None, true) => {
                let reason = format!("the disk has {free} bytes left, and {} are reserved", self.reserve);
                tracing::error!(free, reserve = self.reserve, "store: disk nearly full, read-only until there is room");
                self.reason = Some(reason.into());
            }
            (Some(_), false) => {
                tracing::info!(free, reserve = self.reserve, "store: disk has room again, taking messages");
                self.reason = None;
            }
            _ => {}
        }
    }
}

/// How many bytes of the database are free for new rows.
fn reusable(db: &Connection) -> u64 {
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, u64>(0)).unwrap_or(0);
    pragma("freelist_count") * pragma("page_size")
}

/// Asks the operating system.
pub(super) fn of_directory(directory: &Path) -> FreeSpace {
    let directory: PathBuf = directory.to_owned();
    Box::new(move || {
        let statistics = rustix::fs::statvfs(&directory)?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    })
}
