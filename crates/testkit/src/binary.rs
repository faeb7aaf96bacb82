//! The real `salon` as a child process that serves.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::process::{self, Process, Signal};
use crate::{DEADLINE, Failure};

/// How long a start and an end may take: both wait for NATS where that has just been started itself, and an end for participants that are
/// connected.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A gateway in a process of its own.
pub(crate) struct ServedProcess {
    process: Process,
    address: SocketAddr,
}

impl ServedProcess {
    /// Starts `salon serve` with some further arguments and waits until it says where it listens. Port 0 is any that is free.
    pub(crate) async fn start(binary: &Path, data: &Path, port: u16, further: &[&str]) -> Result<Self, Failure> {
        Self::start_in(binary, data, port, further, &[]).await
    }

    /// The same with some variables.
    pub(crate) async fn start_in(
        binary: &Path,
        data: &Path,
        port: u16,
        further: &[&str],
        variables: &[(&'static str, String)],
    ) -> Result<Self, Failure> {
        let asked = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = salon(binary, data);
        command
            .args(["serve", "--test-timings", "--listen", &asked.to_string(), "--limits-rate", "0", "--data"])
            .arg(data)
            .args(further)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        let process = Process::start("salon", command)?.with_deadline(START_TIMEOUT);
        let address = process.says("where it listens", announced).await?;
        Ok(Self { process, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it takes framed connections, once it has said so. For one that was told to.
    pub(crate) async fn framed_address(&self) -> Result<SocketAddr, Failure> {
        self.process.says("where it takes framed connections", framed_announced).await
    }

    /// Kills it as `kill -9` does and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<(), Failure> {
        self.process.kill().await
    }

    /// Ends it as SIGTERM does, and waits until it has ended well.
    pub(crate) async fn terminate(&mut self) -> Result<(), Failure> {
        match self.process.stop(Signal::TERM).await? {
            Some(0) => Ok(()),
            status => Err(format!("the gateway ended with {status:?}\n{}", self.output())),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        self.process.signal(signal)
    }

    /// Its last lines.
    pub(crate) fn output(&self) -> String {
        self.process.output()
    }
}

/// Where a gateway is that says so.
fn announced(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("Salon on http://")?.split(',').next()?.parse().ok()
}

fn framed_announced(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("Framed connections on tcp://")?.trim().parse().ok()
}

/// The binary, with nothing of the surroundings: no variables, and no configuration where it runs.
fn salon(binary: &Path, data: &Path) -> Command {
    let mut command = Command::new(binary);
    command.env_clear().current_dir(data).stdin(Stdio::null());
    command
}

/// A token of the gateway's own, as an operator would make it.
pub(crate) async fn token(binary: &Path, data: &Path, topic: &str, id: &str) -> Result<String, Failure> {
    token_with(binary, data, topic, id, &[], &[]).await
}

/// The same with some further arguments and variables.
pub(crate) async fn token_with(
    binary: &Path,
    data: &Path,
    topic: &str,
    id: &str,
    further: &[&str],
    variables: &[(&'static str, String)],
) -> Result<String, Failure> {
    let mut command = salon(binary, data);
    command.args(["token", "--topic", topic, "--id", id, "--data"]).arg(data).args(further);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let made = process::run("salon token", command, DEADLINE).await?;
    match made.status {
        Some(0) => Ok(made.stdout.trim().to_owned()),
        _ => Err(format!("`salon token` failed: {}", made.stderr)),
    }
}

/// The version that the binary says it has.
pub(crate) async fn version(binary: &Path) -> Result<String, Failure> {
    let mut command = Command::new(binary);
    command.arg("--version").stdin(Stdio::null());
    let printed = process::run("salon --version", command, DEADLINE).await?.stdout;
    let version = printed.trim().strip_prefix("salon ").map(str::to_owned);
    version.ok_or_else(|| format!("`{printed}` is not a version"))
}
