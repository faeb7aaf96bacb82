//! Running the binary: nothing of the surroundings reaches it, and whatever is waited for has a deadline.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use salon_testkit::{Scratch, within};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_salon");

/// A directory to live in, which is also the home directory and the place for temporary files.
pub(crate) struct Home(Scratch);

/// What came of running the binary.
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
        let Ran { code, stdout, stderr } = self.salon(arguments).await;
        let code = code.map_or("a signal".into(), |code| code.to_string());
        let told = format!("{stdout}{stderr}exit: {code}");
        told.replace(&self.path().display().to_string(), "HOME")
    }

    /// A token from the binary, as an operator would make it.
    pub(crate) async fn token(&self, topic: &str, id: &str) -> String {
        let ran = self.salon(&format!("token --topic {topic} --id {id}")).await;
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
pub(crate) async fn finish(mut command: Command) -> Ran {
    let output = within("the command to end", command.output()).await.expect("in time").expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A `salon` that runs.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// Starts a gateway and waits until it says where it is.
    pub(crate) async fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut running = Self { child, lines, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let line = running.line().await.expect("a line that says where it is");
        let (_, rest) = line.split_once("://").expect("an address");
        let address = rest.split([',', ' ', '/']).next().and_then(|text| text.parse().ok());
        running.address = address.expect("an address and port");
        running
    }

    /// Starts anything, without waiting.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines, address: SocketAddr::from(([127, 0, 0, 1], 0)) }
    }

    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> Option<String> {
        within("a line of output", self.lines.next_line()).await.expect("in time").expect("output is UTF-8")
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
        let stderr = self.child.stderr.as_mut().expect("a pipe");
        let mut told = Vec::new();
        let reading = async {
            while !texts.iter().all(|text| String::from_utf8_lossy(&told).contains(text)) {
                let more = stderr.read_buf(&mut told).await.expect("a pipe");
                assert_ne!(more, 0, "it ended without saying {texts:?}:\n{}", String::from_utf8_lossy(&told));
            }
        };
        within(&format!("{texts:?} on stderr"), reading).await.expect("in time");
        String::from_utf8(told).expect("output is UTF-8")
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs");
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().await.expect("a shell");
        assert!(sent.success());
    }

    /// Waits for the end.
    pub(crate) async fn end(mut self) -> Ran {
        let mut stdout = String::new();
        while let Some(line) = self.line().await {
            stdout.push_str(&line);
            stdout.push('\n');
        }
        let output = within("the end of the process", self.child.wait_with_output()).await.expect("in time");
        let output = output.expect("it was started");
        Ran { code: output.status.code(), stdout, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
    }
}
