//! What tests of the whole need: a gateway on port 0, clients that wait for events, scenes, a crash test, NATS servers, a way to
//! them that can be held up, the fault scenes, and an MCP server behind OAuth.
//!
//! A development dependency only. Deliberately absent: sleeping for a guessed time, mocks of our own types, and any network beyond
//! loopback. Whatever is waited for has a deadline, and missing it is an error that says what was waited for.

mod binary;
pub mod crash;
pub mod data_fixture;
pub mod faults;
pub mod framed;
pub mod gateway;
pub mod http;
pub mod irc;
pub mod nats;
pub mod oauth;
pub mod process;
pub mod proxy;
pub mod scene;
mod scratch;
pub mod socket;
mod witness;

use std::time::Duration;

pub use gateway::{TestEngine, TestGateway, TestOptions, TestToken};
pub use scratch::Scratch;
pub use socket::{TestSocket, TestSocketEvent};

/// How long anything may take. Generous, because it only ever passes when a test fails, and the machine may do ten other things.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// How often something is looked at that nobody tells of.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What went wrong, told for the person who reads the test's output.
pub type Failure = String;

/// Whether a missing program is a failure rather than a reason to ignore a test: `SALON_INTEROP=required`, which `scripts/test` sets after it has
/// installed what tests need.
pub fn is_interop_required() -> bool {
    std::env::var_os("SALON_INTEROP").is_some_and(|value| value == "required")
}

/// Says on standard error which tests are ignored, and why.
#[expect(clippy::print_stderr, reason = "the person who runs the tests must know which are ignored")]
pub fn report_ignored(why: &str) {
    eprintln!("ignored: {why}");
}

/// Waits for something, but not for ever.
pub async fn within<T>(what: &str, wait: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(DEADLINE, wait)
        .await
        .map_err(|_| format!("waited {} s for {what} and it did not happen", DEADLINE.as_secs()))
}

/// Looks again and again whether something is so, and gives what was found then. Every look that waits has to have an end of its own.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> Result<T, Failure> {
    let mut ticks = tokio::time::interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let looking = async {
        loop {
            ticks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    within(what, looking).await
}

/// Runs one test's future on a runtime of its own.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime needs only threads")
        .block_on(test)
}
