//! A wall clock that jumps, for one process: libfaketime, which Debian's package `libfaketime` installs. The monotonic clock goes on as it does.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

const INSTALLED: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// Where the library is: the one that `SALON_FAKETIME` names, or the installed one.
fn found() -> Option<PathBuf> {
    let named = env::var_os("SALON_FAKETIME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(INSTALLED))).filter(|library| library.is_file())
}

/// Whether clocks can jump here.
pub fn can_jump() -> bool {
    found().is_some()
}

/// The clock of one process, in a file.
pub(super) struct MovableClock(PathBuf);

impl MovableClock {
    /// One of a name in a directory, which differs from the right time by so many seconds.
    pub(super) fn new(directory: &Path, name: &str, by: &str) -> Result<Self, Failure> {
        let clock = Self(directory.join(name));
        clock.shift(by)?;
        Ok(clock)
    }

    /// Has it differ from the right time by so much, as `+3600` or `-3600` seconds.
    pub(super) fn shift(&self, by: &str) -> Result<(), Failure> {
        // In one step, so that nobody reads half of it.
        let next = self.0.with_extension("next");
        fs::write(&next, by).and_then(|()| fs::rename(&next, &self.0)).map_err(|e| format!("no clock: {e}"))
    }

    /// The variables of a process that has this clock.
    pub(super) fn variables(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let library = found().ok_or("libfaketime is not installed")?;
        Ok(vec![
            ("LD_PRELOAD", library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.0.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("DONT_FAKE_MONOTONIC", "1".into()),
        ])
    }
}
