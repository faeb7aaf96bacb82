//! The ways to the tools of one MCP server over HTTP, and how each is set up.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Serialize;

use crate::contender::{BenchScratch, Contender, ContenderServer, Installed, output};
use crate::lines::{GUEST, TOPIC};
use crate::mcp::session::{BenchEra, BenchSession, SessionTarget};

/// A proxy and the server behind it may take so long until they answer.
const START_LIMIT: Duration = Duration::from_secs(20);
const RETRY_DELAY: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum McpWay {
    /// The server speaks HTTP itself.
    Direct,
    McpProxy,
    Supergateway,
    /// A guest of a room, at its own address.
    Salon,
    /// The same, as one of the room's servers at the room's address.
    SalonRoom,
    /// The same as `Salon`, in the revision without sessions.
    SalonModern,
    /// The same as `Salon`, with a log that leaves flushing to the operating system.
    SalonUnflushed,
    SalonRoomUnflushed,
    SalonModernUnflushed,
}

impl McpWay {
    pub(crate) const ALL: [Self; 9] = [
        Self::Direct,
        Self::McpProxy,
        Self::Supergateway,
        Self::Salon,
        Self::SalonRoom,
        Self::SalonModern,
        Self::SalonUnflushed,
        Self::SalonRoomUnflushed,
        Self::SalonModernUnflushed,
    ];
    pub(crate) const PROXIES: [Self; 2] = [Self::McpProxy, Self::Supergateway];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::McpProxy => "mcp-proxy",
            Self::Supergateway => "supergateway",
            Self::Salon => "salon",
            Self::SalonRoom => "salon, room's URL",
            Self::SalonModern => "salon, 2026-07-28",
            Self::SalonUnflushed => "salon, durability os",
            Self::SalonRoomUnflushed => "salon, room's URL, durability os",
            Self::SalonModernUnflushed => "salon, 2026-07-28, durability os",
        }
    }

    /// Its name on the command line and in the raw numbers.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::McpProxy => "mcp-proxy",
            Self::Supergateway => "supergateway",
            Self::Salon => "salon",
            Self::SalonRoom => "salon-room",
            Self::SalonModern => "salon-modern",
            Self::SalonUnflushed => "salon-unflushed",
            Self::SalonRoomUnflushed => "salon-room-unflushed",
            Self::SalonModernUnflushed => "salon-modern-unflushed",
        }
    }

    pub(crate) fn is_salon(self) -> bool {
        !matches!(self, Self::Direct | Self::McpProxy | Self::Supergateway)
    }

    fn is_flushed(self) -> bool {
        !matches!(self, Self::SalonUnflushed | Self::SalonRoomUnflushed | Self::SalonModernUnflushed)
    }

    fn is_room(self) -> bool {
        matches!(self, Self::SalonRoom | Self::SalonRoomUnflushed)
    }

    fn era(self) -> BenchEra {
        if matches!(self, Self::SalonModern | Self::SalonModernUnflushed) { BenchEra::Modern } else { BenchEra::Legacy }
    }
}

/// What is there to set ways up with.
pub(crate) struct WayPrograms {
    salon: Installed,
    server: PathBuf,
    proxies: PathBuf,
}

impl WayPrograms {
    pub(crate) fn find(salon: &Path, server: &Path, proxies: &Path) -> Result<Self> {
        let server = server.canonicalize().with_context(|| format!("no server {}", server.display()))?;
        let proxies = proxies.canonicalize().unwrap_or_else(|_| proxies.to_owned());
        Ok(Self { salon: Installed::find(Contender::Salon, salon)?, server, proxies })
    }

    fn python(&self) -> PathBuf {
        self.proxies.join("python/bin/mcp-proxy")
    }

    fn node(&self) -> PathBuf {
        self.proxies.join("node_modules/.bin/node")
    }

    /// The version of what stands in the way, or why it cannot.
    pub(crate) fn version(&self, way: McpWay) -> Result<String> {
        let missing = |_| anyhow!("not installed, `scripts/bench-proxies` does that");
        match way {
            McpWay::Direct => Ok("rmcp-server, this commit".to_owned()),
            McpWay::McpProxy => output(Command::new(self.python()).arg("--version")).map_err(missing),
            McpWay::Supergateway => {
                let package = self.proxies.join("node_modules/supergateway/package.json");
                let package = fs::read(package).map_err(anyhow::Error::from).map_err(missing)?;
                let package: serde_json::Value = serde_json::from_slice(&package)?;
                let version = package["version"].as_str().unwrap_or("?");
                Ok(format!("supergateway {version}, node {}", output(Command::new(self.node()).arg("--version"))?))
            }
            _ => Ok(self.salon.version.clone()),
        }
    }

    /// Sets a way up and opens the first session on it.
    pub(crate) fn stand(&self, way: McpWay) -> Result<OpenWay> {
        let scratch = BenchScratch::new()?;
        let process = if way.is_salon() { self.host(way, &scratch)? } else { self.start(way, &scratch)? };
        let mut standing = OpenWay { way, sessions: Vec::new(), process, scratch };
        let began = Instant::now();
        // It may listen before the server behind it is there.
        while let Err(error) = standing.open_session() {
            if began.elapsed() > START_LIMIT {
                return Err(error.context(format!("{} does not answer\n{}", way.name(), standing.last_words())));
            }
            std::thread::sleep(RETRY_DELAY);
        }
        Ok(standing)
    }

    /// A gateway with the server as a guest.
    fn host(&self, way: McpWay, scratch: &BenchScratch) -> Result<WayProcess> {
        let file = scratch.0.join("salon.toml");
        let command = self.server.display().to_string();
        fs::write(&file, format!("[topics.\"{TOPIC}\".guests.{GUEST}]\ncommand = {command:?}\n"))?;
        let durability = if way.is_flushed() { "full" } else { "os" };
        let file = file.to_string_lossy();
        Ok(WayProcess::Gateway(self.salon.start_with(&["--config", &file, "--sqlite-durability", durability])?))
    }

    /// The server itself, or a proxy with it; both log nothing but errors.
    fn start(&self, way: McpWay, scratch: &BenchScratch) -> Result<WayProcess> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let port = address.port().to_string();
        let mut command = match way {
            McpWay::McpProxy => {
                let mut command = Command::new(self.python());
                command.args(["--log-level", "ERROR", "--host", "127.0.0.1", "--port", &port, "--"]).arg(&self.server);
                command
            }
            McpWay::Supergateway => {
                let mut command = Command::new(self.node());
                command
                    .arg(self.proxies.join("node_modules/supergateway/dist/index.js"))
                    .args(["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"])
                    .args(["--port", &port, "--stdio"])
                    .arg(&self.server);
                command
            }
            _ => {
                let mut command = Command::new(&self.server);
                command.args(["--http", &address.to_string()]);
                command
            }
        };
        let log = File::create(scratch.0.join("server.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", way.name()))?;
        Ok(WayProcess::Other(Other { child, address }))
    }
}

/// A way that stands, with the sessions opened on it.
pub(crate) struct OpenWay {
    pub(crate) way: McpWay,
    /// Closed before the process ends.
    pub(crate) sessions: Vec<BenchSession>,
    process: WayProcess,
    scratch: BenchScratch,
}

impl OpenWay {
    pub(crate) fn pid(&self) -> u32 {
        match &self.process {
            WayProcess::Gateway(gateway) => gateway.pid(),
            WayProcess::Other(other) => other.child.id(),
        }
    }

    /// Opens one more session; to a gateway it is that of another participant.
    pub(crate) fn open_session(&mut self) -> Result<()> {
        let caller = format!("caller-{}", self.sessions.len() + 1);
        let (address, path, bearer) = match &mut self.process {
            WayProcess::Gateway(gateway) => {
                let path = if self.way.is_room() { format!("/mcp/{TOPIC}") } else { format!("/mcp/{TOPIC}/{GUEST}") };
                (gateway.address, path, gateway.bearer(TOPIC, &caller)?)
            }
            WayProcess::Other(other) => {
                if let Some(status) = other.child.try_wait()? {
                    bail!("it has ended: {status}");
                }
                (other.address, "/mcp".to_owned(), None)
            }
        };
        let prefix = if self.way.is_room() { PREFIX } else { "" };
        self.sessions.push(BenchSession::open(SessionTarget { address, path, bearer, era: self.way.era(), prefix })?);
        Ok(())
    }

    /// The end of what it logged, for a report of what went wrong.
    pub(crate) fn last_words(&self) -> String {
        match &self.process {
            WayProcess::Gateway(gateway) => gateway.last_words(),
            WayProcess::Other(_) => {
                let log = fs::read_to_string(self.scratch.0.join("server.log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                lines[lines.len().saturating_sub(5)..].join("\n")
            }
        }
    }
}

/// What the room puts before the names of the guest's tools.
const PREFIX: &str = "guest__";

enum WayProcess {
    Gateway(ContenderServer),
    Other(Other),
}

/// Dropping it ends it; the servers that it has started end when their pipes do.
struct Other {
    child: Child,
    address: SocketAddr,
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_tools_are_named_after_it() {
        assert_eq!(PREFIX, format!("{GUEST}__"));
    }
}
