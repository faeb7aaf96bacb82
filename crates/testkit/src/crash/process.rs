//! The real binary as a child process.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::{Failure, within};

/// How many lines of its output are kept for whoever reads a failure.
const KEPT_LINES: usize = 40;

pub(crate) struct Process {
    child: Child,
    address: SocketAddr,
    output: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts `salon serve` with some further arguments and waits until it says where it listens.
    pub(crate) async fn start(binary: &Path, data: &Path, port: u16, further: &[&str]) -> Result<Self, Failure> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut child = salon(binary, data)
            .args(["serve", "--listen", &address.to_string(), "--rate-limit", "0", "--data"])
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
        let process = Self { child, address, output };
        let announced = address.to_string();
        let up = async {
            while let Some(line) = heard.recv().await {
                if line.contains(&announced) {
                    return true;
                }
            }
            false
        };
        match within("the gateway to say where it listens", up).await {
            Ok(true) => Ok(process),
            Ok(false) => Err(format!("the gateway ended before it listened\n{}", process.output())),
            Err(told) => Err(format!("{told}\n{}", process.output())),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it as `kill -9` does and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), Failure> {
        within("the process to be gone", self.child.kill()).await?.map_err(|e| format!("not killed: {e}"))
    }

    /// Its last lines.
    pub(crate) fn output(&self) -> String {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("  salon: {line}\n")).collect()
    }
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
pub(crate) async fn token(binary: &Path, data: &Path, id: String) -> Result<String, Failure> {
    let made = salon(binary, data).args(["token", "--topic", super::TOPIC, "--id", &id, "--data"]).arg(data).output();
    let made = within("a token", made).await?.map_err(|e| format!("{} does not start: {e}", binary.display()))?;
    if !made.status.success() {
        return Err(format!("`salon token` failed: {}", String::from_utf8_lossy(&made.stderr)));
    }
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}
