//! The crash tests: publishers and readers go on while the real binary is killed again and again.
//!
//! Nothing here waits by the clock. A kill comes after a random number of further envelopes were seen, clients come back when they
//! wait until the next process listens, and the end is a marker that every reader must reach.

mod client;
mod disk;
mod grace;
mod verdict;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::task::JoinSet;

use self::client::{CrashClient, CrashReader, CrashRecord, Publisher};
use self::disk::LossyDisk;
use crate::binary::{self, ServedProcess};
use crate::process::Signal;
use crate::{Failure, Scratch, within, witness};

pub use self::grace::grace;

const TOPIC: &str = "room:crash";
/// The envelope that ends the test.
const END: &str = "the-end";

/// How hard the gateway is treated.
#[derive(Debug, Clone, Copy)]
pub struct CrashPlan {
    /// Where the randomness begins; the same seed kills after the same counts.
    pub seed: u64,
    /// How often the process is killed.
    pub kills: usize,
    /// How many publish.
    pub publishers: usize,
    /// How many only read.
    pub readers: usize,
    /// Whether the disk loses power with the process, and with that everything that was not flushed. Needs root and a loop device.
    pub loses_power: bool,
}

impl CrashPlan {
    /// Twenty kills, three publishers and two readers.
    pub fn new(seed: u64) -> Self {
        Self { seed, kills: 20, publishers: 3, readers: 2, loses_power: false }
    }

    /// Why tests in which a disk loses power are ignored here, if they are: that needs root, a loop device and some programs. Where
    /// `SALON_INTEROP=required` they fail without the programs.
    pub fn power_loss_obstacle() -> Option<String> {
        disk::missing_right().or_else(|| disk::missing_program().filter(|_| !crate::is_interop_required()))
    }

    /// The same with power failures. Not where [`Self::power_loss_obstacle`] says why.
    #[must_use]
    pub fn losing_power(self) -> Self {
        Self { loses_power: true, ..self }
    }

    /// A seed nobody chose.
    pub fn random() -> Self {
        Self::new(uuid::Uuid::new_v4().as_u64_pair().0)
    }

    /// Runs the test with `binary`, which must be `salon`. An error names the seed.
    pub async fn run(self, binary: &Path) -> Result<(), Failure> {
        self.attempt(binary).await.map_err(|told| format!("seed {}: {told}", self.seed))
    }

    async fn attempt(self, binary: &Path) -> Result<(), Failure> {
        let scratch = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
        let disk = if self.loses_power { Some(LossyDisk::new().await?) } else { None };
        let data = disk.as_ref().map_or(scratch.path(), LossyDisk::path).join("data");
        std::fs::create_dir(&data).map_err(|e| format!("no data directory: {e}"))?;
        let mut random = Random(self.seed);
        let mut process = ServedProcess::start(binary, &data, free_port()?, &[]).await?;
        let token = async |id: String| binary::token(binary, &data, TOPIC, &id).await;

        let shared = Arc::new(CrashShared::new(process.address()));
        let mut readers = JoinSet::new();
        for n in 0..self.readers {
            let token = token(format!("reader-{n}")).await?;
            readers.spawn(CrashClient::new(format!("reader-{n}"), token, &shared).follow(CrashReader::default()));
        }
        // A reader that comes later would have missed the beginning, and what it missed would look like a gap.
        shared.arrived(self.readers).await?;
        let mut publishers = JoinSet::new();
        for n in 0..self.publishers {
            let token = token(format!("publisher-{n}")).await?;
            publishers.spawn(CrashClient::new(format!("publisher-{n}"), token, &shared).follow(Publisher::default()));
        }

        for kill in 1..=self.kills {
            let further = if random.below(5) == 0 { 0 } else { 1 + random.below(300) };
            let clients = async {
                tokio::select! {
                    seen = shared.further(further) => seen,
                    lost = readers.join_next() => Err(ended_early(lost)),
                    lost = publishers.join_next() => Err(ended_early(lost)),
                }
            };
            clients.await.map_err(|told| format!("before kill {kill}: {told}\n{}", process.output()))?;
            // Not always at a quiet moment.
            for _ in 0..random.below(64) {
                tokio::task::yield_now().await;
            }
            if let Some(disk) = &disk {
                // It stands still, so that nobody hears of a disk that fails before the machine does.
                process.signal(Signal::STOP)?;
                disk.lose_power().await?;
            }
            process.kill().await?;
            if let Some(disk) = &disk {
                disk.regain_power().await?;
            }
            process = ServedProcess::start(binary, &data, process.address().port(), &[])
                .await
                .map_err(|told| format!("after kill {kill}: {told}"))?;
            shared.up();
        }

        let finish = async {
            shared.finishing.store(true, Ordering::SeqCst);
            let published = records(&mut publishers).await?;
            let token = token("ender".to_owned()).await?;
            client::publish_end(shared.address, &token).await?;
            let read = records(&mut readers).await?;
            let history = witness::history(shared.address, TOPIC, &token).await?;
            verdict::check(&history, &read, &published)
        };
        let verdict = within("everyone to finish after the last kill", finish).await.and_then(|v| v);
        verdict.map_err(|told| format!("{told}\n{}", process.output()))?;
        process.kill().await
    }
}

fn ended_early(lost: Option<Result<Result<CrashRecord, Failure>, tokio::task::JoinError>>) -> Failure {
    match lost {
        Some(Ok(Err(told))) => told,
        Some(Err(panicked)) => panicked.to_string(),
        _ => "a client ended before the end".into(),
    }
}

async fn records(clients: &mut JoinSet<Result<CrashRecord, Failure>>) -> Result<Vec<CrashRecord>, Failure> {
    let mut records = Vec::new();
    while let Some(ended) = clients.join_next().await {
        records.push(ended.map_err(|e| e.to_string())??);
    }
    Ok(records)
}

/// A port that was free a moment ago. The same one is used for every process, as an operator would.
fn free_port() -> Result<u16, Failure> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map(|a| a.port()).map_err(|e| e.to_string())
}

/// What the clients and the executioner know of each other.
struct CrashShared {
    address: SocketAddr,
    /// Which process listens, counted from 1.
    generation: watch::Sender<u64>,
    /// How many envelopes readers have seen.
    seen: AtomicU64,
    counted: watch::Sender<u64>,
    welcomed: watch::Sender<usize>,
    finishing: AtomicBool,
}

impl CrashShared {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            generation: watch::Sender::new(1),
            seen: AtomicU64::new(0),
            counted: watch::Sender::new(0),
            welcomed: watch::Sender::new(0),
            finishing: AtomicBool::new(false),
        }
    }

    fn up(&self) {
        self.generation.send_modify(|n| *n += 1);
    }

    fn saw_one(&self) {
        let seen = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        self.counted.send_replace(seen);
    }

    async fn arrived(&self, readers: usize) -> Result<(), Failure> {
        let mut welcomed = self.welcomed.subscribe();
        let all = welcomed.wait_for(|&n| n >= readers);
        within("the readers to be welcomed", all).await?.map(drop).map_err(|e| e.to_string())
    }

    async fn further(&self, count: u64) -> Result<(), Failure> {
        let goal = self.seen.load(Ordering::SeqCst) + count;
        let mut counted = self.counted.subscribe();
        let reached = counted.wait_for(|&n| n >= goal);
        within("the readers to see more", reached).await?.map(drop).map_err(|e| e.to_string())
    }
}

/// SplitMix64: small, seeded, and good enough to choose moments with.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
