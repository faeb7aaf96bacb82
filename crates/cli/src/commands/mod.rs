//! The everyday commands: saying, calling, looking and listening from a shell.
//!
//! Each is a short-lived client of a gateway, and ends with an exit code that says what kept it from its aim (`outcome`). What others
//! wrote is made safe for the terminal before it is printed. Deliberately absent: taking a seat where none is needed.

pub(crate) mod call;
pub(crate) mod control;
pub(crate) mod dm;
pub(crate) mod doctor;
pub(crate) mod existing;
pub(crate) mod file;
pub(crate) mod filter;
pub(crate) mod framed;
pub(crate) mod guests;
pub(crate) mod history;
pub(crate) mod login;
pub(crate) mod message;
pub(crate) mod offers;
pub(crate) mod outcome;
mod output;
pub(crate) mod read;
pub(crate) mod revise;
pub(crate) mod revoke;
pub(crate) mod say;
pub(crate) mod search;
mod seatless;
mod table;
pub(crate) mod tail;
pub(crate) mod tools;
pub(crate) mod topic;
pub(crate) mod topics;
pub(crate) mod who;

use crate::trouble::Trouble;

/// Runs a command to its end.
pub(crate) fn run(command: impl Future<Output = Result<(), Trouble>>) -> Result<(), Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Trouble::failed)?;
    let done = runtime.block_on(command);
    // A read from the terminal cannot be interrupted, and must not keep the command from ending.
    runtime.shutdown_background();
    done
}
