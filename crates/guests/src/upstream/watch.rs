//! The watcher: a small process between us and a child, which ends the child when we are gone without a word.
//!
//! Being killed leaves us no time to end children. What is left is their closed input, which ends a well-behaved server and no
//! other. So the watcher leads the child's process group, hands its own standard streams on to the child, and waits. Its input has
//! no writer any more when we closed it or are dead; in the second case (its parent is another then) it ends the whole group. There
//! is no moment in which the child runs and the watcher does not. A watcher that is killed itself is seen by us, who end the group.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, getpgrp, getppid, kill_process_group, setpgid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// The exit status for a program that cannot be started, and for one that is not there, as shells have them.
const NOT_STARTED: u8 = 126;
pub(super) const NOT_FOUND: u8 = 127;

/// The exit status for arguments that are none.
const USAGE: u8 = 2;

/// How long an orphaned child has to end by itself, and then to obey SIGTERM, unless a test is in a hurry.
pub const WATCHER_GRACE: Duration = Duration::from_secs(2);

/// How often a watcher whose input was closed looks whether its parent is still there.
const LOOK: Duration = Duration::from_millis(200);

/// How to start a watcher: the program that calls [`watch`] with the arguments after these.
#[derive(Debug, Clone)]
pub struct Watcher {
    /// The program; usually our own executable.
    pub program: PathBuf,
    /// What it takes to make it call [`watch`].
    pub args: Vec<OsString>,
}

/// Runs a child and ends it, with its process group, when the parent is gone. To be called by a process that [`Watcher`] describes,
/// with the arguments that follow the watcher's own (the parent's process id, the program, its arguments), before anything has read
/// from standard input or started a runtime. An orphaned child has `grace` to end by itself, and again to obey SIGTERM. The exit code is
/// the child's.
pub fn watch(args: impl IntoIterator<Item = OsString>, grace: Duration) -> ExitCode {
    let mut args = args.into_iter();
    let parent = args.next().and_then(|id| Pid::from_raw(id.to_str()?.parse().ok()?));
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        complain("usage: PARENT-PROCESS-ID PROGRAM [ARGUMENT…]");
        return ExitCode::from(USAGE);
    };
    // Started by hand it would otherwise end the group of the shell that started it.
    let _ = setpgid(None, None);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot watch `{}`: {error}", program.display()));
            return ExitCode::from(NOT_STARTED);
        }
    };
    ExitCode::from(runtime.block_on(attend(parent, program, args.collect(), grace)))
}

async fn attend(parent: Pid, program: OsString, args: Vec<OsString>, grace: Duration) -> u8 {
    // Signals to the group are the child's to obey. They are caught rather than ignored, because a child inherits what is ignored.
    let caught = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let mut child = match tokio::process::Command::new(&program).args(args).spawn() {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("cannot start `{}`: {error}", program.display()));
            return if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
        }
    };
    let status = tokio::select! {
        status = child.wait() => status,
        () = orphaned(parent) => {
            let end = async {
                if timeout(grace, child.wait()).await.is_err() {
                    let _ = kill_process_group(getpgrp(), Signal::TERM);
                    let _ = timeout(grace, child.wait()).await;
                }
            };
            end.await;
            // Ourselves included, so this is the last thing done.
            let _ = kill_process_group(getpgrp(), Signal::KILL);
            return 0;
        }
    };
    drop(caught);
    status.map_or(NOT_STARTED, code)
}

/// Ends when the parent is gone.
async fn orphaned(parent: Pid) {
    let (closed, input_closed) = oneshot::channel();
    // A thread, because polling without asking for readability wakes only at the end, not at every message to the child.
    std::thread::spawn(move || {
        let input = std::io::stdin();
        let mut fds = [PollFd::new(&input, PollFlags::empty())];
        while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
        let _ = closed.send(());
    });
    let _ = input_closed.await;
    while getppid() == Some(parent) {
        sleep(LOOK).await;
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The watcher's standard error is the child's, which is shown with the guest's name.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
