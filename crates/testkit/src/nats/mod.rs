//! Real NATS servers: where their program is, one that many tests share, and those that a test has for itself.
//!
//! The program is the one that `SALON_NATS_SERVER` names, or the one that `scripts/nats-server` has installed. Where there is none, tests
//! that need it are reported as ignored, and fail where `SALON_INTEROP=required`.

mod old_log;
mod servers;
mod shared;
mod trials;
mod wire;

use std::env;
use std::path::{Path, PathBuf};

pub use old_log::OldLog;
pub use servers::{NatsServers, topic_token};
pub(crate) use shared::SharedServer;
pub use shared::close_shared;
pub use trials::trial;
pub use wire::frame;

const MISSING: &str = "there is no nats-server here; `scripts/nats-server` installs one";

/// Where the program is, if it is installed.
fn found() -> Option<PathBuf> {
    let named = env::var_os("SALON_NATS_SERVER").map(PathBuf::from);
    // <target>/<profile>/deps/<this test>
    let target = env::current_exe().ok().and_then(|test| test.ancestors().nth(3).map(Path::to_owned));
    let installed = target.map(|target| target.join("nats/bin/nats-server")).filter(|program| program.is_file());
    named.or(installed)
}

/// Whether tests without the program are ignored: it is not installed, and nobody said that it must be.
pub fn is_missing() -> bool {
    found().is_none() && !crate::is_interop_required()
}

/// Where the program is.
///
/// # Panics
///
/// Where it is not installed. Tests that need it are trials made by [`trial`], which are ignored then.
pub fn program() -> PathBuf {
    found().expect(MISSING)
}
