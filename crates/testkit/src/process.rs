//! The real binary as a child process.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::{Failure, within};

/// How many lines of its output are kept for whoever reads a failure.
const KEPT_LINES: usize = 40;

/// How long a start and an end may take: both wait for NATS where that has just been started itself, and an end for those who are
/// connected.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Process {
    child: Child,
    address: SocketAddr,
    output: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts `salon serve` with some further arguments and waits until it says where it listens. Port 0 is any that is free.
    pub(crate) async fn start(binary: &Path, data: &Path, port: u16, further: &[&str]) -> Result<Self, Failure> {
        let asked = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut child = salon(binary, data)
            .args(["serve", "--listen", &asked.to_string(), "--rate-limit", "0", "--data"])
            .arg(data)
            .args(further)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{} does not start: {e}", binary.display()))?;
        let output = Arc::default();
        let (lines, mut heard) = mpsc::channel(64);
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(listen(stdout, Arc::clone(&output), lines.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(listen(stderr, Arc::clone(&output), lines));
        }
        let process = Self { child, address: asked, output };
        let up = async {
            while let Some(line) = heard.recv().await {
                if let Some(address) = announced(&line) {
                    return Some(address);
                }
            }
            None
        };
        match timeout(PATIENCE, up).await {
            Ok(Some(address)) => Ok(Self { address, ..process }),
            Ok(None) => Err(format!("the gateway ended before it listened\n{}", process.output())),
            Err(_) => Err(format!("the gateway does not say where it listens\n{}", process.output())),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it as `kill -9` does and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), Failure> {
        within("the process to be gone", self.child.kill()).await?.map_err(|e| format!("not killed: {e}"))
    }

    /// Ends it as SIGTERM does, and waits until it has ended well.
    pub(crate) async fn terminate(&mut self) -> Result<(), Failure> {
        self.signal("TERM").await?;
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("the gateway ended with {status}\n{}", self.output())),
            Ok(Err(error)) => Err(format!("it is not known how the gateway ended: {error}")),
            Err(_) => Err(format!("the gateway does not end\n{}", self.output())),
        }
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, name: &str) -> Result<(), Failure> {
        let pid = self.child.id().ok_or("the process has ended by itself")?;
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        let sent = within("a signal to be sent", sent).await?.map_err(|e| format!("no shell: {e}"))?;
        if sent.success() { Ok(()) } else { Err(format!("{name} could not be sent")) }
    }

    /// Its last lines.
    pub(crate) fn output(&self) -> String {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("  salon: {line}\n")).collect()
    }
}

/// Where a gateway is that says so.
fn announced(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("Salon on http://")?.split(',').next()?.parse().ok()
}

/// The binary, with nothing of the surroundings: no variables, and no configuration where it runs.
fn salon(binary: &Path, data: &Path) -> Command {
    let mut command = Command::new(binary);
    command.env_clear().current_dir(data).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Reads lines until the process ends, so that it never waits for somebody to read them.
async fn listen(pipe: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<String>>>, lines: mpsc::Sender<String>) {
    let mut reader = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(line.clone());
        if kept.len() > KEPT_LINES {
            kept.pop_front();
        }
        // Nobody listens any more once the gateway is up.
        let _ = lines.try_send(line);
    }
}

/// A token of the gateway's own, as an operator would make it.
pub(crate) async fn token(binary: &Path, data: &Path, topic: &str, id: &str) -> Result<String, Failure> {
    let made = salon(binary, data).args(["token", "--topic", topic, "--id", id, "--data"]).arg(data).output();
    let made = within("a token", made).await?.map_err(|e| format!("{} does not start: {e}", binary.display()))?;
    if !made.status.success() {
        return Err(format!("`salon token` failed: {}", String::from_utf8_lossy(&made.stderr)));
    }
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

/// The version that the binary says it has.
pub(crate) async fn version(binary: &Path) -> Result<String, Failure> {
    let told = Command::new(binary).arg("--version").stdin(Stdio::null()).output();
    let told = within("the version", told).await?.map_err(|e| format!("{} does not start: {e}", binary.display()))?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    told.trim().strip_prefix("salon ").map(str::to_owned).ok_or_else(|| format!("`{told}` is not a version"))
}
