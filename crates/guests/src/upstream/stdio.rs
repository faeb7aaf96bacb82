//! A server on the standard streams of a child process: one JSON-RPC message a line.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio as Pipe};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lines::{LineRead, read_line};
use super::process::Group;
use super::{GuestUser, MAX_MESSAGE, Outbound, QUEUE, UpstreamError, UpstreamMessage, UpstreamSetup, frame};

/// The longest piece of a log line that is shown as one.
const MAX_LOG_LINE: usize = 8 * 1024;

/// Bytes logged of a line that is not a message.
const MAX_QUOTED_CHARS: usize = 200;

/// How long a child that closed its output may take to end, and how long the output of one that ended may stay silent before it
/// is given up: a process that left the process group may hold it open for ever.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Clone, Copy)]
pub(super) struct ChildCommand<'a> {
    pub(super) program: &'a OsString,
    pub(super) args: &'a [OsString],
    pub(super) env: &'a [(OsString, OsString)],
    pub(super) cwd: Option<&'a PathBuf>,
}

/// How what a child says outside of the protocol is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StderrVoice {
    /// For the people who run it.
    Plain,
    /// For debugging: some servers log at length that they do not know a method.
    Hushed,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Stdio {
    writer: mpsc::Sender<Box<str>>,
    leash: Leash,
    exited: watch::Receiver<bool>,
    process: Option<u32>,
    tasks: JoinSet<()>,
}

/// Kills the group when dropped, there and then: the tasks that share it end only when the runtime comes to them, which it may not
/// if the program ends.
#[derive(Debug)]
struct Leash(Arc<Group>);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl Stdio {
    /// Starts the child. Must be called within a runtime.
    pub(super) fn start(
        command: ChildCommand<'_>,
        setup: &UpstreamSetup,
        voice: StderrVoice,
        inbound: mpsc::Sender<UpstreamMessage>,
    ) -> Result<Self, UpstreamError> {
        let mut child = spawn(command, setup)
            .map_err(|source| UpstreamError::Start { program: command.program.display().to_string(), source })?;
        let process = child.id();
        let group = Arc::new(Group::led_by(process));
        let (input, output, log) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (writer, queue) = mpsc::channel(QUEUE);
        let (exit, exited) = watch::channel(false);

        let mut tasks = JoinSet::new();
        if let Some(input) = input {
            tasks.spawn(write(input, queue));
        }
        if let Some(log) = log {
            tasks.spawn(forward_log(log, setup.guest.clone(), voice));
        }
        if let Some(output) = output {
            let watched = setup.watcher.is_some();
            let reader = StdioReader::new(output, setup.guest.clone(), voice, inbound);
            tasks.spawn(attend(child, reader, group.clone(), exit, watched));
        }
        Ok(Self { writer, leash: Leash(group), exited, process, tasks })
    }

    pub(super) async fn send(&self, message: Outbound) -> Result<(), UpstreamError> {
        let mut text = message.text;
        if text.contains(['\n', '\r']) {
            // Outside of strings, which escape them, a line break is only a blank.
            text = text.replace(['\n', '\r'], " ").into();
        }
        self.writer.send(text).await.map_err(|_| UpstreamError::Closed)
    }

    pub(super) fn process(&self) -> Option<u32> {
        self.process
    }

    pub(super) async fn close(self, grace: Duration) {
        let Self { writer, leash, mut exited, process: _, tasks } = self;
        // The writer's task ends with its queue, and the child's input with the task.
        drop(writer);
        let mut gone = async || timeout(grace, exited.wait_for(|exited| *exited)).await.is_ok();
        if !gone().await {
            leash.0.terminate();
            gone().await;
        }
        drop((leash, tasks));
    }
}

fn spawn(command: ChildCommand<'_>, setup: &UpstreamSetup) -> std::io::Result<Child> {
    let mut process = match &setup.watcher {
        None => tokio::process::Command::new(command.program),
        Some(watcher) => {
            let mut process = tokio::process::Command::new(&watcher.program);
            process.args(&watcher.args).arg(std::process::id().to_string()).arg(command.program);
            process
        }
    };
    process.args(command.args).env_clear();
    let is_ours = |name: &OsStr| setup.user.is_some() && name.to_str().is_some_and(GuestUser::replaces);
    process.envs(std::env::vars_os().filter(|(name, value)| is_inherited(name, value) && !is_ours(name)));
    if let Some(user) = &setup.user {
        // Groups of ours go too: the standard library drops them where root becomes somebody else.
        process.envs(user.env()).uid(user.uid).gid(user.gid);
    }
    process.envs(command.env.iter().map(|(name, value)| (name, value)));
    if let Some(cwd) = command.cwd {
        process.current_dir(cwd);
    }
    process.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
    process.process_group(0).kill_on_drop(true).spawn()
}

/// Whether a server gets a variable of ours unasked: those without which programs do not find their way, and none that could be a secret.
fn is_inherited(name: &OsStr, value: &OsStr) -> bool {
    const NAMES: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM"];
    // What launchers such as `npx` and `uvx` need to download a server behind a proxy or with a certificate authority of one's own.
    const CERTIFICATES: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"];
    const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];
    let Some(name) = name.to_str() else { return false };
    let is_proxy = PROXIES.contains(&&*name.to_ascii_lowercase());
    // The address of a proxy may hold a password.
    let has_secret = value.as_encoded_bytes().contains(&b'@');
    NAMES.contains(&name)
        || CERTIFICATES.contains(&name)
        || ["LC_", "XDG_"].iter().any(|prefix| name.starts_with(prefix))
        || (is_proxy && !has_secret)
}

async fn write(mut input: ChildStdin, mut queue: mpsc::Receiver<Box<str>>) {
    while let Some(text) = queue.recv().await {
        let mut line = String::from(text);
        line.push('\n');
        // A child that does not read any more ends, or is ended by its owner: its exit is reported instead.
        if input.write_all(line.as_bytes()).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

async fn forward_log(log: impl AsyncRead + Unpin, guest: Arc<str>, voice: StderrVoice) {
    let mut log = BufReader::new(log);
    let mut line = Vec::new();
    while let Ok(LineRead::Whole | LineRead::Part) = read_line(&mut log, &mut line, MAX_LOG_LINE).await {
        let (guest, text) = (&*guest, String::from_utf8_lossy(&line));
        match voice {
            StderrVoice::Plain => tracing::info!(target: "guest", guest, "{}", text.trim_end()),
            StderrVoice::Hushed => tracing::debug!(target: "guest", guest, "{}", text.trim_end()),
        }
        line.clear();
    }
}

/// Waits for the child while its output is read, and reports the end after everything before it.
async fn attend(
    mut child: Child,
    mut reader: StdioReader<ChildStdout>,
    group: Arc<Group>,
    exit: watch::Sender<bool>,
    watched: bool,
) {
    let first = tokio::select! {
        status = child.wait() => Ok(status),
        stopped = reader.read(None) => Err(stopped),
    };
    let why = match first {
        Ok(status) => {
            group.kill();
            exit.send_replace(true);
            // What was written before the end is still in the pipe.
            let stopped = reader.read(Some(EXIT_TIMEOUT)).await;
            if stopped == Stopped::AbandonedExchange {
                return;
            }
            describe(status, watched)
        }
        Err(stopped) => {
            let status = match stopped {
                Stopped::Closed => timeout(EXIT_TIMEOUT, child.wait()).await.ok(),
                Stopped::TooLong | Stopped::AbandonedExchange => None,
            };
            group.kill();
            // Killed, it ends at once; waiting for it frees its place in the process table.
            let ended = child.wait().await;
            exit.send_replace(true);
            match stopped {
                Stopped::AbandonedExchange => return,
                Stopped::TooLong => format!("it wrote a line of more than {} MiB", MAX_MESSAGE >> 20),
                Stopped::Closed if status.is_none() => "it closed its output without ending".to_owned(),
                Stopped::Closed => describe(ended, watched),
            }
        }
    };
    // A receiver that is gone is not an error.
    let _ = reader.inbound.send(UpstreamMessage::Ended { why }).await;
}

fn describe(status: std::io::Result<ExitStatus>, watched: bool) -> String {
    match status {
        Ok(status) if watched && status.code() == Some(super::watch::NOT_FOUND.into()) => {
            "there is no such program (exit status: 127)".to_owned()
        }
        Ok(status) => format!("it ended ({status})"),
        Err(error) => format!("it ended ({error})"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// The output ended.
    Closed,
    /// A line passed the limit.
    TooLong,
    /// Nobody takes messages any more.
    AbandonedExchange,
}

/// Reads messages. What is half done when a read is given up stays here, so that the next goes on with it.
struct StdioReader<R> {
    output: BufReader<R>,
    guest: Arc<str>,
    voice: StderrVoice,
    inbound: mpsc::Sender<UpstreamMessage>,
    line: Vec<u8>,
    waiting: VecDeque<Box<str>>,
}

impl<R: AsyncRead + Unpin> StdioReader<R> {
    fn new(output: R, guest: Arc<str>, voice: StderrVoice, inbound: mpsc::Sender<UpstreamMessage>) -> Self {
        Self { output: BufReader::new(output), guest, voice, inbound, line: Vec::new(), waiting: VecDeque::new() }
    }

    /// Reads to the end, or until the output was silent for `patience`. Cancel-safe.
    async fn read(&mut self, patience: Option<Duration>) -> Stopped {
        loop {
            while !self.waiting.is_empty() {
                let Ok(place) = self.inbound.reserve().await else { return Stopped::AbandonedExchange };
                if let Some(text) = self.waiting.pop_front() {
                    place.send(UpstreamMessage::Message { text, related: None });
                }
            }
            let reading = read_line(&mut self.output, &mut self.line, MAX_MESSAGE);
            let read = match patience {
                None => reading.await,
                Some(patience) => timeout(patience, reading).await.unwrap_or(Ok(LineRead::End)),
            };
            match read {
                Ok(LineRead::Whole) => {
                    let line = std::mem::take(&mut self.line);
                    self.take(&line);
                }
                Ok(LineRead::Part) => return Stopped::TooLong,
                Ok(LineRead::End) | Err(_) => return Stopped::Closed,
            }
        }
    }

    /// Servers that print to their output by mistake are common; what they print is shown and skipped.
    fn take(&mut self, line: &[u8]) {
        match std::str::from_utf8(line).ok().and_then(frame::split) {
            Some(messages) => self.waiting.extend(messages.into_iter().map(Box::from)),
            None if line.iter().all(u8::is_ascii_whitespace) => {}
            None => {
                let (guest, shown) = (&*self.guest, String::from_utf8_lossy(&line[..line.len().min(MAX_QUOTED_CHARS)]));
                let what = "upstream: line of output is not a JSON-RPC message, skipped";
                match self.voice {
                    StderrVoice::Plain => tracing::warn!(target: "guest", guest, "{what}: {shown:?}"),
                    StderrVoice::Hushed => tracing::debug!(target: "guest", guest, "{what}: {shown:?}"),
                }
            }
        }
    }
}
