//! Guests from the command line: `salon join`, `salon import`, and those that `salon serve` hosts itself.
//!
//! What a guest is and does is `salon-guests`'; here is where they come from, and what is printed.

mod ask;
pub(crate) mod hosting;
pub(crate) mod import;
pub(crate) mod join;
mod lines;
pub(crate) mod oauth;
pub(crate) mod plan;

use std::ffi::OsString;
use std::process::ExitCode;

use salon_guests::upstream::{WATCHER_GRACE, Watcher, watch};

/// The word that makes this program watch over a guest's child. For this program alone, so it is not in the help.
const WATCH: &str = "watch-child";

/// Runs as a watcher, if that is what this process was started for. To be called before anything else.
pub(crate) fn watching() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == WATCH).then(|| watch(args, WATCHER_GRACE))
}

/// How to start a watcher, so that no child outlives us whichever way we end. `None` when the path of this program is unknown.
fn watcher() -> Option<Watcher> {
    let program = std::env::current_exe().ok()?;
    Some(Watcher { program, args: vec![OsString::from(WATCH)] })
}
