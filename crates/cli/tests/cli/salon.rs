//! Running the binary: nothing of the surroundings reaches it, and whatever is waited for has a deadline.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use salon_testkit::process::{self, OutputPipe, Process};
use salon_testkit::{DEADLINE, Failure, Scratch};
use tokio::process::Command;

pub(crate) use salon_testkit::process::Signal;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_salon");

/// A directory to live in, which is also the home directory and the place for temporary files.
pub(crate) struct Home(Scratch);

/// What came of running the binary.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self(Scratch::new().expect("a temporary directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("a file is written");
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.path())
            .env("TMPDIR", self.path())
            .env("COLUMNS", "100")
            .env("TZ", "UTC")
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs `salon` to its end; arguments are separated by blanks.
    pub(crate) async fn salon(&self, arguments: &str) -> Ran {
        let mut command = self.command(BINARY);
        command.args(arguments.split_whitespace());
        finish(command).await
    }

    /// What a person sees of a run: output, errors and exit code, with the directory's name taken out.
    pub(crate) async fn told(&self, arguments: &str) -> String {
        self.normal(self.salon(arguments).await)
    }

    /// A run as a person sees it.
    pub(crate) fn normal(&self, Ran { code, stdout, stderr }: Ran) -> String {
        let code = code.map_or("a signal".into(), |code| code.to_string());
        format!("{stdout}{stderr}exit: {code}").replace(&self.path().display().to_string(), "HOME")
    }

    /// A token from the binary, as an operator would make it.
    pub(crate) async fn token(&self, topic: &str, id: &str) -> String {
        let ran = self.salon(&format!("token {topic} --as {id}")).await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout.trim().to_owned()
    }

    /// Starts a gateway on a free port.
    pub(crate) async fn serve(&self, arguments: &str) -> Running {
        let mut command = self.command(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments.split_whitespace());
        Running::start(command).await
    }
}

/// Runs a command to its end.
pub(crate) async fn finish(command: Command) -> Ran {
    let ended = process::run("the command", command, DEADLINE).await.expect("it ends in time");
    // Another program of the machine may listen on the usual port, which `serve --check` then reports.
    let is_ours = |line: &&str| !line.contains("`127.0.0.1:8787` cannot be listened on now");
    let stdout = ended.stdout.split_inclusive('\n').filter(is_ours).collect();
    Ran { code: ended.status, stdout, stderr: ended.stderr }
}

/// A `salon` that runs. Whatever is waited for has a deadline, and missing it fails the test with what was printed.
pub(crate) struct Running {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// Starts a gateway and waits until it says where it is.
    pub(crate) async fn start(command: Command) -> Self {
        let mut running = Self::spawn(command);
        let line = running.line().await.expect("a line that says where it is");
        let (_, rest) = line.split_once("://").expect("an address");
        let address = rest.split([',', ' ', '/']).next().and_then(|text| text.parse().ok());
        running.address = address.expect("an address and port");
        running
    }

    /// Starts anything, without waiting.
    pub(crate) fn spawn(command: Command) -> Self {
        let process = Process::start("salon", command).expect("it starts");
        Self { process, address: SocketAddr::from(([127, 0, 0, 1], 0)) }
    }

    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> Option<String> {
        told(self.process.line(OutputPipe::Out).await)
    }

    /// Reads lines until one has a text in it, and hands out all of them.
    pub(crate) async fn until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            let found = line.contains(text);
            lines.push(line);
            if found {
                return lines;
            }
        }
        panic!("no line had {text:?} in it:\n{}", lines.join("\n"));
    }

    /// Reads its errors until they have a text in them.
    pub(crate) async fn complained(&mut self, text: &str) -> String {
        self.complained_of(&[text]).await
    }

    /// Reads its errors until they have several texts in them, in any order.
    pub(crate) async fn complained_of(&mut self, texts: &[&str]) -> String {
        told(self.process.prints(OutputPipe::Err, texts).await)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        told(self.process.signal(signal));
    }

    /// Waits for the end.
    pub(crate) async fn end(mut self) -> Ran {
        let ended = told(self.process.end().await);
        Ran { code: ended.status, stdout: ended.stdout, stderr: ended.stderr }
    }
}

/// What was waited for; the test fails where it did not come.
fn told<T>(came: Result<T, Failure>) -> T {
    came.unwrap_or_else(|why| panic!("{why}"))
}
