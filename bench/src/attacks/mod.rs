//! What an attacker with an ordinary token costs the others: a healthy room is measured in peace, and then while each attack runs, on a
//! gateway with its default limits. Beside the latency of the room: the memory and the disk that the gateway takes meanwhile.

mod attack;
mod client;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

pub(crate) use self::attack::Attack;
use self::attack::AttackProcess;
pub(crate) use self::attack::attack_until_told;
pub(crate) use self::client::HttpLine;
use crate::contender::{BenchScratch, Contender, ContenderServer, Installed};
use crate::load::{Delivered, LoadCrowd, LoadRole};
use crate::options::BenchOptions;
use crate::procfs;
use crate::report::{RunSetting, cell, json_lines, lay_out, save_run};
use crate::room::{PublishPace, Until};
use crate::stats::{Spread, percentile};
use crate::wire::{FrameFormat, MessageSort, MessageTemplate};

/// The healthy room: its name, its readers beside the publisher, and how often it publishes. Well within the default limits.
pub(crate) const HEALTHY: &str = "room:healthy";
const READERS: usize = 10;
const INTERVAL: Duration = Duration::from_millis(20);
const SIZE: usize = 256;

/// What must hold: how much slower the healthy room may be, and what the gateway may take more than in peace. The disk fills by
/// `limits.byte_burst` at once, `limits.byte_rate` a second, and what the store adds to them.
const MAX_SLOWER: f64 = 1.5;
const MAX_MEMORY_MIB: f64 = 256.0;
const MAX_DISK_BURST_MIB: f64 = 96.0;
const MAX_DISK_RATE_MIB: f64 = 6.0;

/// One attack in one round.
#[derive(Serialize)]
struct AttackRecord {
    scenario: &'static str,
    attack: Attack,
    round: u32,
    seconds: f64,
    quiet_p50_us: f64,
    quiet_p99_us: f64,
    p50_us: f64,
    p99_us: f64,
    /// More than in peace, at most, in MiB.
    memory_mib: f64,
    disk_mib: f64,
    /// What the attacker tried, and what of it was taken.
    tried: u64,
    taken: u64,
}

impl AttackRecord {
    fn slower(&self) -> f64 {
        self.p99_us / self.quiet_p99_us
    }

    fn is_bounded(&self) -> bool {
        let disk = MAX_DISK_BURST_MIB + MAX_DISK_RATE_MIB * self.seconds;
        self.memory_mib <= MAX_MEMORY_MIB && self.disk_mib <= disk
    }
}

#[expect(clippy::print_stdout, reason = "tables are shown as they come")]
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let salon = Installed::find(Contender::Salon, &options.salon)?;
    let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, &[])?;
    setting.contenders = vec![format!("salon ({})", salon.version)];
    println!("machine: {}\ncommit: {}\ndata on: {}", setting.machine, setting.commit, setting.file_system);
    let directory =
        options.out.clone().unwrap_or_else(|| format!("bench/runs/{}-{}-attacks", setting.date, setting.slug()).into());
    let mut records = Vec::new();
    for round in 1..=options.rounds {
        for &attack in &options.attacks {
            let record = one(&salon, attack, round, options.duration).with_context(|| attack.name())?;
            let (slower, memory, disk) = (record.slower(), record.memory_mib, record.disk_mib);
            println!("{:12} p99 × {slower:.2}, {memory:.0} MiB of memory, {disk:.0} MiB of disk", attack.name());
            records.push(record);
        }
    }
    let table = table(&records)?;
    println!("\n{table}");
    save(&directory, &setting, &records, &table)?;
    println!("written: {}", directory.display());
    judge(&records)
}

/// Measures the healthy room in peace, and then while it is attacked.
fn one(salon: &Installed, attack: Attack, round: u32, duration: Duration) -> Result<AttackRecord> {
    let scratch = std::rc::Rc::new(BenchScratch::new()?);
    let mut server = salon.start_limited(scratch.clone())?;
    server.wait_until_ready()?;
    let data = scratch.0.join("data");
    let mut crowd = crowd(&server)?;
    let peace = Until::Elapsed(duration);
    // The first messages of a room pay for what later ones find.
    crowd.run(PublishPace::Steady(INTERVAL), Until::Elapsed(duration / 4), || Ok(()))?;
    let quiet = crowd.run(PublishPace::Steady(INTERVAL), peace, || Ok(()))?;
    let before = (procfs::resident_kib(server.pid())?, size_of(&data)?);
    let mut most = before;
    let attacker = AttackProcess::start(attack, &server)?;
    let attacked = crowd.run(PublishPace::Steady(INTERVAL), Until::Elapsed(duration), || {
        most.0 = most.0.max(procfs::resident_kib(server.pid())?);
        Ok(())
    });
    let attacked = attacked.with_context(|| server.last_words())?;
    let tally = attacker.stop()?;
    most.1 = size_of(&data)?;
    let mib = |most: u64, before: u64, unit: f64| most.saturating_sub(before) as f64 / unit;
    let micros = |run: &Delivered, p| {
        percentile(&run.latencies, p).map(|nanos| nanos as f64 / 1000.0).context("nothing was delivered")
    };
    Ok(AttackRecord {
        scenario: "attacks",
        attack,
        round,
        seconds: duration.as_secs_f64(),
        quiet_p50_us: micros(&quiet, 0.5)?,
        quiet_p99_us: micros(&quiet, 0.99)?,
        p50_us: micros(&attacked, 0.5)?,
        p99_us: micros(&attacked, 0.99)?,
        memory_mib: mib(most.0, before.0, 1024.0),
        disk_mib: mib(most.1, before.1, 1024.0 * 1024.0),
        tried: tally.tried.load(Ordering::Relaxed),
        taken: tally.taken.load(Ordering::Relaxed),
    })
}

fn crowd(server: &ContenderServer) -> Result<LoadCrowd> {
    let mut crowd = LoadCrowd::new(FrameFormat::WebSocket)?;
    let message =
        MessageTemplate::new(FrameFormat::WebSocket, HEALTHY, MessageSort::Notification, "publisher", "", SIZE);
    let room = crowd.add_room(message, None);
    crowd.add_client(room, LoadRole::Publisher, server.greeting(HEALTHY, "publisher", None)?);
    for number in 0..READERS {
        crowd.add_client(room, LoadRole::Reader, server.greeting(HEALTHY, &format!("reader-{number}"), None)?);
    }
    crowd.connect(READERS)?;
    Ok(crowd)
}

/// What the files of a directory take, in bytes.
fn size_of(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        // A file may go between the listing and the look.
        let Ok(metadata) = entry?.metadata() else { continue };
        sum += metadata.len();
    }
    Ok(sum)
}

/// The attacks that there are records of.
fn measured(records: &[AttackRecord]) -> impl Iterator<Item = Attack> {
    Attack::ALL.into_iter().filter(|attack| records.iter().any(|record| record.attack == *attack))
}

fn table(records: &[AttackRecord]) -> Result<String> {
    let head =
        ["attack", "tried/s", "taken/s", "quiet p99 µs", "p50 µs", "p99 µs", "p99 ÷ quiet", "memory MiB", "disk MiB"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for attack in measured(records) {
        let spread = |figure: &dyn Fn(&AttackRecord) -> f64, decimals: usize| {
            let values = records.iter().filter(|record| record.attack == attack).map(figure).collect();
            anyhow::Ok(cell(Spread::of(values).context("no rounds")?, decimals))
        };
        rows.push(vec![
            attack.name().to_owned(),
            spread(&|r| r.tried as f64 / r.seconds, 0)?,
            spread(&|r| r.taken as f64 / r.seconds, 0)?,
            spread(&|r| r.quiet_p99_us, 0)?,
            spread(&|r| r.p50_us, 0)?,
            spread(&|r| r.p99_us, 0)?,
            spread(&AttackRecord::slower, 2)?,
            spread(&|r| r.memory_mib, 0)?,
            spread(&|r| r.disk_mib, 0)?,
        ]);
    }
    lay_out(&rows)
}

/// Whether every bound held in every round, and the latency in the median of the rounds.
#[expect(clippy::print_stdout, reason = "the verdict is shown")]
fn judge(records: &[AttackRecord]) -> Result<bool> {
    let mut is_good = true;
    for attack in measured(records) {
        let of = || records.iter().filter(move |record| record.attack == attack);
        let slower = Spread::of(of().map(AttackRecord::slower).collect()).context("no rounds")?.median;
        if slower > MAX_SLOWER {
            println!(
                "missed: {} makes the healthy room {slower:.2} times as slow, at most {MAX_SLOWER}",
                attack.name()
            );
            is_good = false;
        }
        if !of().all(AttackRecord::is_bounded) {
            println!("missed: {} takes more memory or disk than it may", attack.name());
            is_good = false;
        }
    }
    Ok(is_good)
}

/// Writes `raw.jsonl` (the setting, then a line for each attack and round) and `summary.md`.
fn save(directory: &Path, setting: &RunSetting, records: &[AttackRecord], table: &str) -> Result<()> {
    let RunSetting { date, machine, commit, file_system, seconds, rounds, .. } = setting;
    let summary = format!(
        "# A healthy room while the gateway is attacked, {date}\n\n- machine: {machine}\n- commit: {commit}\n- data on: {file_system}\n\
         - runs: {rounds} rounds of {seconds} s in peace and as long under attack; median (lowest–highest)\n\
         - everything shares the cores; the attacker runs only while a core is idle\n\n{table}"
    );
    save_run(directory, setting, &json_lines(records)?, &summary)
}
