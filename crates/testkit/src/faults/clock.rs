//! A wall clock that jumps, for one process: libfaketime, which Debian's package `libfaketime` installs. The monotonic clock goes on as it does.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// In which directory the library is installed, each architecture's in one of its own there, and as what.
const LIBRARIES: &str = "/usr/lib";
const INSTALLED: &str = "faketime/libfaketimeMT.so.1";

/// Where the library is: the one that `SALON_FAKETIME` names, or the installed one.
fn found() -> Option<PathBuf> {
    match env::var_os("SALON_FAKETIME") {
        Some(named) => Some(PathBuf::from(named)).filter(|library| library.is_file()),
        None => installed_in(Path::new(LIBRARIES)),
    }
}

fn installed_in(libraries: &Path) -> Option<PathBuf> {
    let architectures = fs::read_dir(libraries).into_iter().flatten().flatten();
    architectures.map(|architecture| architecture.path().join(INSTALLED)).find(|library| library.is_file())
}

/// Why tests in which a clock jumps are ignored here, if they are. Where `SALON_INTEROP=required` they fail without the library, unless an empty `SALON_FAKETIME`
/// says that this system has none.
pub fn clock_obstacle() -> Option<&'static str> {
    let is_unavailable = env::var_os("SALON_FAKETIME").is_some_and(|named| named.is_empty());
    let is_ignored = found().is_none() && (is_unavailable || !crate::is_interop_required());
    is_ignored.then_some("libfaketime is not installed, so no clock can jump; Debian's package `libfaketime` has it")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn the_library_is_found_on_every_architecture() {
        let libraries = Scratch::new().expect("a directory");
        assert_eq!(installed_in(libraries.path()), None);
        let library = libraries.path().join("aarch64-linux-gnu").join(INSTALLED);
        fs::create_dir_all(library.parent().expect("a directory")).expect("made");
        fs::write(&library, "").expect("written");
        assert_eq!(installed_in(libraries.path()), Some(library));
    }
}
