//! The watcher, with real processes. This program is all three of them: the test, the parent that is killed, and the watcher.
//!
//! That a process has ended is seen by a named pipe, which it held open for writing on descriptor 9.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use salon_guests::upstream::{
    Era, GuestTarget, Inbound, LegacyDialect, Outbound, ProbeVerdict, UpstreamConnection, UpstreamMessage,
    UpstreamSetup, Watcher, WireKind, watch,
};
use salon_testkit::{Scratch, run, within};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;

const WATCHER: &str = "be-the-watcher";
const PARENT: &str = "be-the-parent";

/// Whatever ignores a closed input and SIGTERM is killed after twice this time.
const KILL_DELAY: Duration = Duration::from_millis(500);

type Outcome = Result<(), Failed>;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(role) if role == WATCHER => return watch(args, KILL_DELAY),
        Some(role) if role == PARENT => return run(be_the_parent(args.next().unwrap_or_default())),
        _ => {}
    }
    let trials = vec![
        Trial::test("a_watched_child_is_like_any_other", || run(like_any_other())),
        Trial::test("a_watched_child_obeys_the_request_to_end", || run(obeys())),
        Trial::test("dropping_ends_watcher_and_child", || run(dropping())),
        Trial::test("a_watched_program_that_is_not_there_is_told", || run(not_there())),
        Trial::test("a_killed_parent_leaves_no_child_behind", || run(killed_parent())),
        Trial::test("a_killed_watcher_leaves_no_child_behind", || run(killed_watcher())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn like_any_other() -> Outcome {
    let (connection, mut inbound) = start(shell("cat; exit 7")).await?;
    connection.send(Outbound::new(r#"{"id":1}"#)).await?;
    assert_eq!(next(&mut inbound).await?, message(r#"{"id":1}"#));
    within("the end", connection.close(Duration::from_secs(15))).await?;
    assert_eq!(next(&mut inbound).await?, ended("it ended (exit status: 7)"));
    Ok(())
}

async fn obeys() -> Outcome {
    let mut held = LifePipe::new().await?;
    let script = r#"trap 'echo asked >&9; exit 0' TERM; echo '{"id":1}'; while :; do sleep 0.05; done"#;
    let (connection, mut inbound) = start(held.shell(script)).await?;
    next(&mut inbound).await?;
    // The first wait is in vain by intent; in the second the child obeys.
    within("the end", connection.close(Duration::from_secs(2))).await?;
    assert_eq!(held.line().await?, "asked");
    held.released().await
}

async fn dropping() -> Outcome {
    let held = LifePipe::new().await?;
    let script = r#"trap '' TERM; (while :; do sleep 60; done) & echo '{"id":1}'; while :; do sleep 60; done"#;
    let (connection, mut inbound) = start(held.shell(script)).await?;
    next(&mut inbound).await?;
    drop(connection);
    held.released().await
}

async fn not_there() -> Outcome {
    let target = GuestTarget::Command { program: "/no/such/program".into(), args: vec![], env: vec![], cwd: None };
    let (_connection, mut inbound) = start(target).await?;
    assert_eq!(next(&mut inbound).await?, ended("there is no such program (exit status: 127)"));
    Ok(())
}

async fn killed_parent() -> Outcome {
    let mut held = LifePipe::new().await?;
    // Neither a closed input nor SIGTERM ends it.
    let script = held.script("trap '' TERM; (while :; do sleep 60; done) & echo ready >&9; while :; do sleep 60; done");
    let mut parent = tokio::process::Command::new(std::env::current_exe()?);
    parent.arg(PARENT).arg(script).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut parent = parent.spawn()?;
    assert_eq!(held.line().await?, "ready");
    within("the parent's end", parent.kill()).await??;
    held.released().await
}

async fn killed_watcher() -> Outcome {
    let held = LifePipe::new().await?;
    let script = r#"trap '' TERM; echo '{"id":1}'; while :; do sleep 60; done"#;
    let (connection, mut inbound) = start(held.shell(script)).await?;
    next(&mut inbound).await?;
    let watcher = connection.process().ok_or("a child has a process id")?.to_string();
    let killed = tokio::process::Command::new("kill").args(["-9", &watcher]).status().await?;
    assert!(killed.success(), "kill is needed");
    assert_eq!(next(&mut inbound).await?, ended("it ended (signal: 9 (SIGKILL))"));
    held.released().await
}

/// Starts a child and does nothing more, until it is killed.
async fn be_the_parent(script: OsString) -> ExitCode {
    let target =
        GuestTarget::Command { program: "/bin/sh".into(), args: vec!["-c".into(), script], env: vec![], cwd: None };
    match start(target).await {
        Ok((_connection, mut inbound)) => {
            while inbound.next().await.is_some() {}
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

async fn start(target: GuestTarget) -> Result<(UpstreamConnection, Inbound), Failed> {
    let watcher = Watcher { program: std::env::current_exe()?, args: vec![WATCHER.into()] };
    let mut setup = UpstreamSetup::new("robot");
    setup.watcher = Some(watcher);
    let verdict = ProbeVerdict {
        eras: vec![Era::Legacy],
        discovered: None,
        wire: WireKind::Stdio,
        speech: LegacyDialect::Official,
    };
    Ok(UpstreamConnection::open(&target, &verdict, Era::Legacy, &setup).await?)
}

fn shell(script: &str) -> GuestTarget {
    let args = vec!["-c".into(), script.into()];
    GuestTarget::Command { program: "/bin/sh".into(), args, env: vec![], cwd: None }
}

async fn next(inbound: &mut Inbound) -> Result<Option<UpstreamMessage>, Failed> {
    Ok(within("something from the child", inbound.next()).await?)
}

fn message(text: &str) -> Option<UpstreamMessage> {
    Some(UpstreamMessage::Message { text: text.into(), related: None })
}

fn ended(why: &str) -> Option<UpstreamMessage> {
    Some(UpstreamMessage::Ended { why: why.to_owned() })
}

/// A named pipe that processes hold open for writing. It ends when the last of them has.
struct LifePipe {
    _scratch: Scratch,
    path: PathBuf,
    reader: BufReader<pipe::Receiver>,
    /// Ours, lest the pipe end before anybody has opened it.
    own: pipe::Sender,
}

impl LifePipe {
    async fn new() -> Result<Self, Failed> {
        let scratch = Scratch::new()?;
        let path = scratch.path().join("held");
        let made = tokio::process::Command::new("mkfifo").arg(&path).status().await?;
        assert!(made.success(), "mkfifo is needed");
        let reader = BufReader::new(pipe::OpenOptions::new().open_receiver(&path)?);
        let own = pipe::OpenOptions::new().open_sender(&path)?;
        Ok(Self { _scratch: scratch, path, reader, own })
    }

    /// A script whose processes hold the pipe.
    fn script(&self, script: &str) -> String {
        format!("exec 9>'{}'; {script}", self.path.display())
    }

    fn shell(&self, script: &str) -> GuestTarget {
        shell(&self.script(script))
    }

    async fn line(&mut self) -> Result<String, Failed> {
        let mut line = String::new();
        within("a line on the named pipe", self.reader.read_line(&mut line)).await??;
        Ok(line.trim_end().to_owned())
    }

    /// Waits until nobody holds the pipe. To be called when somebody does.
    async fn released(mut self) -> Outcome {
        drop(self.own);
        within("the end of every process", self.reader.read_to_end(&mut Vec::new())).await??;
        Ok(())
    }
}
