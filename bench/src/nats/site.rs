//! What is measured: gateways, and the NATS servers below them, started afresh on loopback.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use crate::contender::{BenchScratch, Contender, ContenderServer, Installed, output};
use crate::procfs::{CpuClock, resident_kib};

/// How long servers may take to find each other.
const START_LIMIT: Duration = Duration::from_secs(60);

/// On what the rooms are kept, and by how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StoreSetup {
    SqliteFull,
    SqliteOs,
    NatsOne,
    NatsOneAlways,
    NatsThree,
    NatsThreeAlways,
}

impl StoreSetup {
    pub(super) const ALL: [Self; 6] =
        [Self::SqliteFull, Self::SqliteOs, Self::NatsOne, Self::NatsOneAlways, Self::NatsThree, Self::NatsThreeAlways];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SqliteFull => "1 gateway, SQLite, full",
            Self::SqliteOs => "1 gateway, SQLite, os",
            Self::NatsOne => "1 gateway, 1 NATS server",
            Self::NatsOneAlways => "1 gateway, 1 NATS server, always",
            Self::NatsThree => "3 gateways, 3 NATS servers",
            Self::NatsThreeAlways => "3 gateways, 3 NATS servers, always",
        }
    }

    /// What an acknowledged message survives.
    pub(super) fn durability(self) -> &'static str {
        match self {
            Self::SqliteFull => "flushed before it is delivered: survives a lost power supply",
            Self::SqliteOs => "written, and flushed by the system: survives a killed process",
            Self::NatsOne => "written, and flushed every two minutes: survives a killed process",
            Self::NatsOneAlways => {
                "sync_interval: always, by NATS's documents flushed before it is acknowledged: survives a lost power supply"
            }
            Self::NatsThree => {
                "3 replicas; written by two of three, and flushed every two minutes: survives killed processes and the loss of one machine"
            }
            Self::NatsThreeAlways => {
                "3 replicas, sync_interval: always, by NATS's documents flushed by two of three: survives a lost power supply and the loss of one machine"
            }
        }
    }

    /// Gateways, and NATS servers.
    fn counts(self) -> (usize, usize) {
        match self {
            Self::SqliteFull | Self::SqliteOs => (1, 0),
            Self::NatsOne | Self::NatsOneAlways => (1, 1),
            Self::NatsThree | Self::NatsThreeAlways => (3, 3),
        }
    }
}

/// What is needed to start any of them.
pub(crate) struct SitePrograms {
    salon: Installed,
    nats: std::path::PathBuf,
    pub(crate) versions: Vec<String>,
}

impl SitePrograms {
    pub(crate) fn find(salon: &Path, nats: &Path) -> Result<Self> {
        let salon = Installed::find(Contender::Salon, salon)?;
        let hint = || format!("no NATS server `{}`\n\nhint: `scripts/nats-server` installs one", nats.display());
        let version = output(Command::new(nats).arg("--version")).with_context(hint)?;
        let versions = vec![salon.version.clone(), version];
        Ok(Self { salon, nats: nats.to_owned(), versions })
    }

    /// Starts what a setup consists of.
    pub(super) fn start(&self, setup: StoreSetup) -> Result<Site> {
        let (gateways, servers) = setup.counts();
        let always = matches!(setup, StoreSetup::NatsOneAlways | StoreSetup::NatsThreeAlways);
        let mut site = Site { gateways: Vec::new(), servers: self.start_servers(servers, always)? };
        if servers == 0 {
            let durability = if setup == StoreSetup::SqliteFull { "full" } else { "os" };
            site.gateways.push(self.salon.start_with(&["--sqlite-durability", durability])?);
        }
        while site.gateways.len() < gateways {
            let data = site.data(site.gateways.len())?;
            site.gateways.push(self.start_gateway(&site, data, &[])?);
        }
        site.gateways.iter_mut().try_for_each(ContenderServer::wait_until_ready)?;
        Ok(site)
    }

    /// A cluster of three and one gateway on it, for which a directory is kept.
    pub(super) fn start_cluster(&self, further: &[&str]) -> Result<(Site, Rc<BenchScratch>)> {
        let mut site = Site { gateways: Vec::new(), servers: self.start_servers(3, false)? };
        let data = site.data(0)?;
        site.gateways.push(self.start_gateway(&site, data.clone(), further)?);
        Ok((site, data))
    }

    /// A gateway on the servers of a site, ready. Each is configured with one server, its own, and learns of the others from it.
    pub(super) fn start_gateway(
        &self,
        site: &Site,
        data: Rc<BenchScratch>,
        further: &[&str],
    ) -> Result<ContenderServer> {
        let mut gateway = self.begin_gateway(site, data, further)?;
        let own = site.next_server();
        gateway.wait_until_ready().with_context(|| format!("the NATS server's last words: {}", own.last_words()))?;
        Ok(gateway)
    }

    /// The same, before it is ready.
    pub(crate) fn begin_gateway(
        &self,
        site: &Site,
        data: Rc<BenchScratch>,
        further: &[&str],
    ) -> Result<ContenderServer> {
        let url = format!("nats://127.0.0.1:{}", site.next_server().port);
        // A program that knows nothing of logs on NATS refuses the name, and is not measured by mistake.
        let arguments = [&["--store", &url, "--nats-name", "bench"], further].concat();
        self.salon.start_in(data, &arguments)
    }

    /// NATS servers without gateways.
    pub(crate) fn start_servers_alone(&self, count: usize) -> Result<Site> {
        Ok(Site { gateways: Vec::new(), servers: self.start_servers(count, false)? })
    }

    fn start_servers(&self, count: usize, always: bool) -> Result<Vec<NatsServer>> {
        // Held until all are chosen, so that no two are the same.
        let held =
            (0..2 * count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
        let ports =
            held.iter().map(|held| held.local_addr().map(|address| address.port())).collect::<Result<Vec<_>, _>>()?;
        drop(held);
        let (clients, routes) = ports.split_at(count);
        let peers: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let mut servers = Vec::new();
        for (number, (&port, route)) in clients.iter().zip(routes).enumerate() {
            let directory = BenchScratch::new()?;
            let store = directory.0.join("jetstream").display().to_string();
            let flushing = if always { ", sync_interval: always" } else { "" };
            let mut config = format!(
                "server_name: n{number}\nlisten: 127.0.0.1:{port}\nmax_payload: 2MB\njetstream {{ store_dir: {store:?}{flushing} }}\n"
            );
            if count > 1 {
                let peers = peers.join(", ");
                config += &format!("cluster {{ name: bench, listen: 127.0.0.1:{route}, routes: [{peers}] }}\n");
            }
            fs::write(directory.0.join("server.conf"), config)?;
            let log = File::create(directory.0.join("server.log"))?;
            let child = Command::new(&self.nats)
                .arg("--config")
                .arg(directory.0.join("server.conf"))
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
                .with_context(|| format!("cannot start {}", self.nats.display()))?;
            servers.push(NatsServer { child, port, directory });
        }
        // One of a cluster is ready only when it has met the others.
        servers.iter_mut().try_for_each(NatsServer::wait_until_ready)?;
        Ok(servers)
    }
}

/// What runs for one measurement; dropping it ends it, the gateways first.
pub(crate) struct Site {
    pub(super) gateways: Vec<ContenderServer>,
    servers: Vec<NatsServer>,
}

impl Site {
    /// A directory for another gateway, with the key of the first in it: all must have the same.
    fn data(&self, number: usize) -> Result<Rc<BenchScratch>> {
        let data = BenchScratch::new()?;
        if number > 0 {
            fs::create_dir(data.0.join("data"))?;
            fs::copy(self.gateways[0].key_file(), data.0.join("data/auth.key"))?;
        }
        Ok(Rc::new(data))
    }

    /// The server of the gateway that is started next.
    fn next_server(&self) -> &NatsServer {
        &self.servers[self.gateways.len() % self.servers.len()]
    }

    /// The gateway of the client that comes as number `at`.
    pub(super) fn gateway(&self, at: usize) -> &ContenderServer {
        &self.gateways[at % self.gateways.len()]
    }

    fn pids(&self) -> [Vec<u32>; 2] {
        [
            self.gateways.iter().map(ContenderServer::pid).collect(),
            self.servers.iter().map(|server| server.child.id()).collect(),
        ]
    }

    /// Resident memory of all gateways and of all NATS servers, in MiB.
    pub(super) fn resident_mib(&self) -> Result<Shares> {
        let sum = |pids: &Vec<u32>| -> Result<f64> {
            let kib = pids.iter().map(|&pid| resident_kib(pid)).sum::<Result<u64>>()?;
            Ok(kib as f64 / 1024.0)
        };
        let [gateways, nats] = &self.pids();
        Ok(Shares { gateways: sum(gateways)?, nats: sum(nats)? })
    }

    pub(super) fn clocks(&self) -> Result<SiteClocks> {
        let start = |pids: &Vec<u32>| pids.iter().map(|&pid| CpuClock::start(pid)).collect::<Result<_>>();
        let [gateways, nats] = &self.pids();
        Ok(SiteClocks { gateways: start(gateways)?, nats: start(nats)? })
    }

    /// The end of what everybody logged, for a report of what went wrong. Where the machine keeps its temporary files is nobody's concern.
    pub(super) fn last_words(&self) -> String {
        let gateways = self.gateways.iter().map(|gateway| format!("a gateway's last words: {}", gateway.last_words()));
        let servers = self.servers.iter().map(|server| format!("a NATS server's last words: {}", server.last_words()));
        let words = gateways.chain(servers).collect::<Vec<_>>().join("\n");
        words.replace(&std::env::temp_dir().display().to_string(), "TMP")
    }
}

/// A figure of the gateways together, and of the NATS servers together.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Shares {
    pub(super) gateways: f64,
    pub(super) nats: f64,
}

impl Shares {
    pub(super) fn sum(self) -> f64 {
        self.gateways + self.nats
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { gateways: self.gateways * factor, nats: self.nats * factor }
    }
}

pub(super) struct SiteClocks {
    gateways: Vec<CpuClock>,
    nats: Vec<CpuClock>,
}

impl SiteClocks {
    /// Seconds on a CPU since they were started.
    pub(super) fn elapsed(&self) -> Result<Shares> {
        let sum = |clocks: &[CpuClock]| -> Result<f64> {
            Ok(clocks.iter().map(CpuClock::elapsed).sum::<Result<Duration>>()?.as_secs_f64())
        };
        Ok(Shares { gateways: sum(&self.gateways)?, nats: sum(&self.nats)? })
    }
}

struct NatsServer {
    child: Child,
    port: u16,
    directory: BenchScratch,
}

impl NatsServer {
    fn log(&self) -> String {
        fs::read_to_string(self.directory.0.join("server.log")).unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while !self.log().contains("Server is ready") {
            if start.elapsed() > START_LIMIT || self.child.try_wait()?.is_some() {
                bail!("a NATS server does not start\n{}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
