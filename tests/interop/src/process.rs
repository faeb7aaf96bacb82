//! Programs as child processes: started, listened to, killed, and looked for in the table of processes.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use salon_testkit::{DEADLINE, Failure, within};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// How many lines of its output are kept for whoever reads a failure.
const KEPT_LINES: usize = 60;

/// A running program. Dropping it kills it.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    output: Arc<Mutex<VecDeque<String>>>,
    lines: mpsc::Receiver<String>,
}

impl Process {
    /// Starts a program with nothing of the surroundings but `PATH`, in a directory of its own.
    pub(crate) fn start(name: &'static str, command: &[String], directory: &Path) -> Result<Self, Failure> {
        Self::start_with(name, command, directory, &[])
    }

    pub(crate) fn start_with(
        name: &'static str,
        command: &[String],
        directory: &Path,
        variables: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let mut child = prepared(command, directory, variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("{name} does not start: {e}"))?;
        let output = Arc::default();
        let (heard, lines) = mpsc::channel(256);
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(listen(stdout, Arc::clone(&output), heard.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(listen(stderr, Arc::clone(&output), heard));
        }
        Ok(Self { name, child, output, lines })
    }

    /// Waits for a line in which `find` finds what is wanted.
    pub(crate) async fn says<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T, Failure> {
        let found = async {
            while let Some(line) = self.lines.recv().await {
                if let Some(found) = find(&line) {
                    return Some(found);
                }
            }
            None
        };
        match within(&format!("{} to say {what}", self.name), found).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(format!("{} ended before it said {what}\n{}", self.name, self.output())),
            Err(told) => Err(format!("{told}\n{}", self.output())),
        }
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it as `kill -9` does and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), Failure> {
        within("the process to be gone", self.child.kill()).await?.map_err(|e| format!("not killed: {e}"))
    }

    /// Asks it to end as Ctrl-C does, and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        if let Some(id) = self.child.id() {
            signal(id, Signal::INT)?;
        }
        let ended = within(&format!("{} to end", self.name), self.child.wait()).await;
        ended.map_err(|told| format!("{told}\n{}", self.output()))?.map(drop).map_err(|e| e.to_string())
    }

    /// Its last lines.
    pub(crate) fn output(&self) -> String {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("  {}: {line}\n", self.name)).collect()
    }
}

fn prepared(command: &[String], directory: &Path, variables: &[(&str, &str)]) -> Command {
    let mut prepared = Command::new(&command[0]);
    prepared.args(&command[1..]).env_clear().current_dir(directory).stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        prepared.env("PATH", path);
    }
    prepared.envs(variables.iter().copied());
    prepared
}

/// Reads lines until the process ends, so that it never waits for somebody to read them.
async fn listen(pipe: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<String>>>, heard: mpsc::Sender<String>) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(line.clone());
            if kept.len() > KEPT_LINES {
                kept.pop_front();
            }
        }
        // Once nobody waits for a line any more, the queue is full and further ones are only kept.
        let _ = heard.try_send(line);
    }
}

/// What a program wrote, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program to its end.
pub(crate) async fn run(command: &[String], directory: &Path, variables: &[(&str, &str)]) -> Result<Ended, Failure> {
    run_for(DEADLINE, command, directory, variables).await
}

/// Runs a program to its end, which must come within `limit`; otherwise the failure says how far it came.
pub(crate) async fn run_for(
    limit: Duration,
    command: &[String],
    directory: &Path,
    variables: &[(&str, &str)],
) -> Result<Ended, Failure> {
    let mut child = prepared(command, directory, variables)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("`{}` does not start: {e}", command[0]))?;
    let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("a program that was started with pipes has none".into());
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let end = async { tokio::try_join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr), child.wait()) };
    let ended = tokio::time::timeout(limit, end).await;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(stdout), text(stderr));
    match ended {
        Ok(Ok((_, _, status))) => Ok(Ended { status: status.code(), stdout, stderr }),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            let command = command.join(" ");
            Err(format!("`{command}` did not end within {} s\n{stdout}{stderr}", limit.as_secs()))
        }
    }
}

pub(crate) fn signal(id: u32, signal: Signal) -> Result<(), Failure> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("a process has no such id")?;
    kill_process(id, signal).map_err(|e| format!("not signalled: {e}"))
}

/// The processes below `root` whose command line contains `mark`.
pub(crate) fn below(root: u32, mark: &str) -> Result<Vec<u32>, Failure> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(|e| e.to_string())? {
        let name = entry.map_err(|e| e.to_string())?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that has ended meanwhile is below nobody.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        // The name in parentheses may hold anything; the parent is the second field after it.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent: u32| (id, parent)));
    }
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&elder) = family.get(at) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == elder).map(|(id, _)| *id));
        at += 1;
    }
    let server = |&id: &u32| {
        let line = command_line(id);
        // Whoever starts a server has its command line in its own.
        line.contains(mark) && !line.contains("salon ")
    };
    Ok(family.into_iter().skip(1).filter(server).collect())
}

fn command_line(id: u32) -> String {
    std::fs::read(format!("/proc/{id}/cmdline"))
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
}
