//! Child processes: started, listened to, told to end, and gone when the test is.
//!
//! Everything a process prints is read as it comes, so it never waits for a reader, and is kept for the one who reads a failure.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use crate::{DEADLINE, Failure};

pub use rustix::process::Signal;

/// How many of its last lines, of each pipe, a failure shows.
const SHOWN_LINES: usize = 40;

/// Which of its pipes a process prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPipe {
    Out,
    Err,
}

/// What has been printed to one pipe.
#[derive(Debug, Default)]
struct PipeText {
    text: Vec<u8>,
    /// How much of it was handed out.
    read: usize,
    has_ended: bool,
}

impl PipeText {
    fn unread(&self) -> &[u8] {
        &self.text[self.read..]
    }

    /// The next line, without its end. The last one may have none.
    fn next_line(&mut self) -> Option<String> {
        let unread = self.unread();
        let (line, length) = match unread.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&unread[..end], end + 1),
            None if self.has_ended && !unread.is_empty() => (unread, unread.len()),
            None => return None,
        };
        let line = String::from_utf8_lossy(line).into_owned();
        self.read += length;
        Some(line)
    }

    fn take_unread(&mut self) -> String {
        let text = String::from_utf8_lossy(self.unread()).into_owned();
        self.read = self.text.len();
        text
    }
}

type ProcessPipes = [PipeText; 2];

/// A program that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    pipes: watch::Sender<ProcessPipes>,
    deadline: Duration,
}

/// How a process ended, and what it had printed that nobody had read.
#[derive(Debug)]
pub struct ProcessEnd {
    /// Its exit code; `None` where a signal ended it.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Process {
    /// Starts a program. `name` is for failures.
    pub fn start(name: &str, mut command: Command) -> Result<Self, Failure> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| format!("{name} does not start: {e}"))?;
        let pipes = watch::Sender::new(ProcessPipes::default());
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(collect(stdout, OutputPipe::Out, pipes.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(collect(stderr, OutputPipe::Err, pipes.clone()));
        }
        Ok(Self { name: name.to_owned(), child, pipes, deadline: DEADLINE })
    }

    /// The same with another limit to every wait than [`DEADLINE`].
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Its number, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it reads from, where the command was given a pipe; once.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The next line it prints to a pipe; `None` where that has ended.
    pub async fn line(&self, pipe: OutputPipe) -> Result<Option<String>, Failure> {
        self.until("print a line", |pipes| {
            let printed = &mut pipes[pipe as usize];
            match printed.next_line() {
                None if !printed.has_ended => None,
                line => Some(line),
            }
        })
        .await
    }

    /// Waits for a line, on either pipe, in which `find` finds what is wanted.
    pub async fn says<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T, Failure> {
        let saying = format!("say {what}");
        let found = self.until(&saying, |pipes| {
            for printed in pipes.iter_mut() {
                while let Some(line) = printed.next_line() {
                    if let Some(found) = find(&line) {
                        return Some(Some(found));
                    }
                }
            }
            pipes.iter().all(|printed| printed.has_ended).then_some(None)
        });
        found.await?.ok_or_else(|| self.explain(format!("{} ended before it said {what}", self.name)))
    }

    /// Waits until what it has printed to a pipe and nobody has read contains all of some texts, and hands that out.
    pub async fn prints(&self, pipe: OutputPipe, texts: &[&str]) -> Result<String, Failure> {
        let printing = format!("print {texts:?}");
        let printed = self.until(&printing, |pipes| {
            let printed = &mut pipes[pipe as usize];
            let unread = String::from_utf8_lossy(printed.unread());
            if texts.iter().all(|text| unread.contains(text)) {
                return Some(Some(printed.take_unread()));
            }
            printed.has_ended.then_some(None)
        });
        printed.await?.ok_or_else(|| self.explain(format!("{} ended without printing {texts:?}", self.name)))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let id = self.id().ok_or_else(|| self.explain(format!("{} has ended by itself", self.name)))?;
        self::signal(id, signal)
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub async fn kill(&mut self) -> Result<(), Failure> {
        let killed = tokio::time::timeout(self.deadline, self.child.kill()).await;
        killed.map_err(|_| format!("{} is killed and not gone", self.name))?.map_err(|e| format!("not killed: {e}"))
    }

    /// Waits until it has ended by itself, or by a signal that was sent, and gives its exit code. One that does not is killed, and that is
    /// a failure.
    pub async fn wait(&mut self) -> Result<Option<i32>, Failure> {
        match tokio::time::timeout(self.deadline, self.child.wait()).await {
            Ok(Ok(status)) => Ok(status.code()),
            Ok(Err(error)) => Err(format!("it is not known how {} ended: {error}", self.name)),
            Err(_) => {
                let seconds = self.deadline.as_secs();
                let told = self.explain(format!("{} did not end within {seconds} s", self.name));
                self.kill().await?;
                Err(told)
            }
        }
    }

    /// The same, with everything it printed.
    pub async fn end(&mut self) -> Result<ProcessEnd, Failure> {
        let status = self.wait().await?;
        // A child that it left behind would hold them, and is a failure as well.
        let read = self.until("close its pipes", |pipes| {
            pipes.iter().all(|printed| printed.has_ended).then(|| pipes.each_mut().map(PipeText::take_unread))
        });
        let [stdout, stderr] = read.await?;
        Ok(ProcessEnd { status, stdout, stderr })
    }

    /// Sends a signal, waits for the end, and gives the exit code.
    pub async fn stop(&mut self, signal: Signal) -> Result<Option<i32>, Failure> {
        self.signal(signal)?;
        self.wait().await
    }

    /// Its last lines.
    pub fn output(&self) -> String {
        let pipes = self.pipes.borrow();
        let mut shown = String::new();
        for printed in pipes.iter() {
            let text = String::from_utf8_lossy(&printed.text);
            let lines: Vec<_> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
                shown += &format!("  {}: {line}\n", self.name);
            }
        }
        shown
    }

    fn explain(&self, what: String) -> Failure {
        format!("{what}\n{}", self.output())
    }

    /// Waits until something can be had of what it has printed.
    async fn until<T>(&self, what: &str, mut look: impl FnMut(&mut ProcessPipes) -> Option<T>) -> Result<T, Failure> {
        let mut changes = self.pipes.subscribe();
        let looking = async {
            loop {
                let mut found = None;
                self.pipes.send_if_modified(|pipes| {
                    found = look(pipes);
                    // Only what is printed is news.
                    false
                });
                if let Some(found) = found {
                    return found;
                }
                // The sender is this process's own, so the wait cannot fail.
                let _ = changes.changed().await;
            }
        };
        let found = tokio::time::timeout(self.deadline, looking).await;
        found.map_err(|_| {
            let seconds = self.deadline.as_secs();
            self.explain(format!("waited {seconds} s for {} to {what} and it did not happen", self.name))
        })
    }
}

async fn collect(mut from: impl AsyncRead + Unpin, pipe: OutputPipe, pipes: watch::Sender<ProcessPipes>) {
    let mut some = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = from.read(&mut some).await {
        pipes.send_modify(|pipes| pipes[pipe as usize].text.extend_from_slice(&some[..count]));
    }
    pipes.send_modify(|pipes| pipes[pipe as usize].has_ended = true);
}

/// Runs a program to its end, which must come within a time.
pub async fn run(name: &str, command: Command, limit: Duration) -> Result<ProcessEnd, Failure> {
    Process::start(name, command)?.with_deadline(limit).end().await
}

/// Sends a signal to a process by its number.
pub fn signal(id: u32, signal: Signal) -> Result<(), Failure> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("a process has no such id")?;
    kill_process(id, signal).map_err(|e| format!("not signalled: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        Process::start("sh", command).expect("a shell")
    }

    #[test]
    fn what_a_process_prints_is_handed_out_once() {
        crate::run(async {
            let mut process = shell("echo one; echo two; echo bad >&2; printf rest; exit 3");
            assert_eq!(process.line(OutputPipe::Out).await, Ok(Some("one".into())));
            assert_eq!(process.says("t", |line| line.strip_prefix("tw").map(str::to_owned)).await, Ok("o".into()));
            assert_eq!(process.prints(OutputPipe::Err, &["a", "b"]).await, Ok("bad\n".into()));
            let ended = process.end().await.expect("it ends");
            assert_eq!((ended.status, &*ended.stdout, &*ended.stderr), (Some(3), "rest", ""));
            assert_eq!(process.line(OutputPipe::Out).await, Ok(None));
        });
    }

    #[test]
    fn a_process_that_does_not_do_what_is_waited_for_fails_with_its_output() {
        crate::run(async {
            let mut process = shell("echo started; exec sleep 60").with_deadline(Duration::from_millis(500));
            let told = process.says("more", |line| (line == "more").then_some(())).await.expect_err("it says no more");
            assert!(told.contains("sh: started"), "{told}");
            let stubborn = shell("trap '' TERM; echo started; exec sleep 60");
            stubborn.says("that it started", |line| (line == "started").then_some(())).await.expect("it starts");
            let mut stubborn = stubborn.with_deadline(Duration::from_millis(500));
            let told = stubborn.stop(Signal::TERM).await.expect_err("it ignores the signal");
            assert!(told.contains("did not end within"), "{told}");
            assert_eq!(stubborn.id(), None, "it was killed");
            process.kill().await.expect("killed");
        });
    }
}
