//! What a call by MCP over HTTP costs on different ways to one server: to itself, by proxies for one server, and by the rooms of a gateway.
//! The ways take turns within a round, so that what else the machine does hits them alike.

pub(crate) mod http;
mod session;
mod tables;
mod ways;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;

use crate::mcp::session::{BenchSession, BenchTool};
pub(crate) use crate::mcp::ways::McpWay;
use crate::mcp::ways::{OpenWay, WayPrograms};
use crate::options::BenchOptions;
use crate::procfs::{CpuClock, descendants, resident_kib};
use crate::report::RunSetting;
use crate::stats::percentile;
use crate::targets;

/// How long one way is measured before the next has its turn.
const TURN: Duration = Duration::from_millis(100);
const WARM_UP: u64 = 200;
/// How many sessions are open at the last reading of memory.
const SESSIONS: usize = 50;

/// What is asked of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum McpLoad {
    OneByOne,
    Sixteen,
    /// One by one, with results of 64 KiB.
    Long,
    /// Clients with a session each, which call one by one.
    TenClients,
}

impl McpLoad {
    const ALL: [Self; 4] = [Self::OneByOne, Self::Sixteen, Self::Long, Self::TenClients];

    fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one call at a time",
            Self::Sixteen => "16 calls in flight",
            Self::Long => "one call at a time, results of 64 KiB",
            Self::TenClients => "ten clients, one call at a time each",
        }
    }

    fn tool(self) -> BenchTool {
        if self == Self::Long { BenchTool::Long } else { BenchTool::Echo }
    }

    fn in_flight(self) -> usize {
        if self == Self::Sixteen { 16 } else { 1 }
    }

    /// How many sessions call at the same time.
    fn clients(self) -> usize {
        if self == Self::TenClients { 10 } else { 1 }
    }
}

/// One round of one way.
#[derive(Serialize)]
struct McpRecord {
    load: McpLoad,
    way: McpWay,
    round: u32,
    calls: usize,
    calls_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// What the process that is called takes of a CPU, and the servers that it has started.
    cpu_us_per_call: f64,
    children_cpu_us_per_call: f64,
}

/// When memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Moment {
    /// With one session open, and one call made.
    StartedCall,
    /// With that session still open, and all calls of one client made.
    Done,
    /// When more sessions were opened, each with one call.
    Crowded,
}

/// What one way holds in memory.
#[derive(Serialize)]
struct Memory {
    way: McpWay,
    moment: Moment,
    sessions: usize,
    rss_mib: f64,
    children: usize,
    children_rss_mib: f64,
}

#[expect(clippy::print_stdout, reason = "tables are shown as they come")]
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let programs = WayPrograms::find(&options.salon, &options.server, &options.proxies)?;
    let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, &[])?;
    println!("machine: {}\ncommit: {}\ndata on: {}", setting.machine, setting.commit, setting.file_system);
    let directory =
        options.out.clone().unwrap_or_else(|| format!("bench/runs/{}-{}-mcp", setting.date, setting.slug()).into());
    let mut standing = Vec::new();
    for way in McpWay::ALL.into_iter().filter(|way| options.ways.contains(way)) {
        match programs.version(way) {
            Ok(version) => {
                setting.contenders.push(format!("{} ({version})", way.name()));
                standing.push(programs.stand(way)?);
            }
            Err(error) => setting.skipped.push(format!("{} ({error:#})", way.name())),
        }
    }
    let mut records = Vec::new();
    let mut memory = readings(&standing, Moment::StartedCall)?;
    for load in McpLoad::ALL {
        if load == McpLoad::TenClients {
            memory.extend(readings(&standing, Moment::Done)?);
        }
        open_sessions(&mut standing, load.clients())?;
        for way in &mut standing {
            calls(way, load, |begun| begun < WARM_UP, &mut Vec::new())?;
        }
        for round in 1..=options.rounds {
            records.extend(one_round(&mut standing, load, round, options.duration)?);
        }
        println!("\n{}\n{}", load.name(), tables::of_load(&records, load)?);
    }
    open_sessions(&mut standing, SESSIONS)?;
    memory.extend(readings(&standing, Moment::Crowded)?);
    println!("\nmemory\n{}", tables::of_memory(&memory)?);
    println!("{}", tables::of_targets(&records)?);
    tables::save(&directory, &setting, &records, &memory)?;
    for line in &setting.skipped {
        println!("skipped: {line}");
    }
    println!("written: {}", directory.display());
    let has_met = targets::show(&tables::targets(&records))?;
    // A short run says nothing of the targets.
    Ok(has_met || options.quick)
}

/// Has every way so many sessions, each of another participant where there are participants.
fn open_sessions(standing: &mut [OpenWay], count: usize) -> Result<()> {
    for way in standing {
        while way.sessions.len() < count {
            let opened = way.open_session();
            opened.with_context(|| format!("session {} of {}", way.sessions.len() + 1, way.way.name()))?;
        }
    }
    Ok(())
}

fn calls(way: &mut OpenWay, load: McpLoad, go_on: impl Fn(u64) -> bool + Sync, latencies: &mut Vec<u64>) -> Result<()> {
    let sessions = &mut way.sessions[..load.clients()];
    let outcome = match sessions {
        [session] => session.calls(load.tool(), load.in_flight(), go_on, latencies),
        sessions => calls_of_clients(sessions, load, &go_on, latencies),
    };
    outcome.with_context(|| format!("{}, {}\n{}", way.way.name(), load.name(), way.last_words()))
}

/// Calls of several sessions at the same time, each on a thread of its own.
fn calls_of_clients(
    sessions: &mut [BenchSession],
    load: McpLoad,
    go_on: &(impl Fn(u64) -> bool + Sync),
    latencies: &mut Vec<u64>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = sessions
            .iter_mut()
            .map(|session| {
                scope.spawn(move || {
                    let mut own = Vec::new();
                    session.calls(load.tool(), load.in_flight(), go_on, &mut own).map(|()| own)
                })
            })
            .collect();
        for client in clients {
            latencies.extend(client.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        Ok(())
    })
}

/// The clocks of a process and of those that it has started. They run through the whole round: what a server does when its
/// calls are answered is part of their price.
struct ProcessClocks {
    own: CpuClock,
    children: Vec<CpuClock>,
}

impl ProcessClocks {
    fn start(pid: u32) -> Result<Self> {
        let children = descendants(pid)?.into_iter().map(CpuClock::start).collect::<Result<_>>()?;
        Ok(Self { own: CpuClock::start(pid)?, children })
    }

    fn elapsed(&self) -> Result<[Duration; 2]> {
        let children = self.children.iter().map(CpuClock::elapsed).sum::<Result<_>>()?;
        Ok([self.own.elapsed()?, children])
    }
}

fn one_round(standing: &mut [OpenWay], load: McpLoad, round: u32, duration: Duration) -> Result<Vec<McpRecord>> {
    let mut taken: Vec<(Vec<u64>, Duration)> = standing.iter().map(|_| Default::default()).collect();
    let clocks = standing.iter().map(|way| ProcessClocks::start(way.pid())).collect::<Result<Vec<_>>>()?;
    let turn = TURN.min(duration);
    while taken.iter().any(|(_, spent)| *spent < duration) {
        for (way, (latencies, spent)) in standing.iter_mut().zip(&mut taken) {
            let began = Instant::now();
            calls(way, load, |_| began.elapsed() < turn, latencies)?;
            *spent += began.elapsed();
        }
    }
    let mut records = Vec::new();
    for ((way, clocks), (mut latencies, spent)) in standing.iter().zip(&clocks).zip(taken) {
        latencies.sort_unstable();
        let calls = latencies.len();
        let micros = |p| percentile(&latencies, p).map(|nanos| nanos as f64 / 1000.0).context("no call was made");
        let [own, children] = clocks.elapsed()?.map(|cpu| cpu.as_secs_f64() * 1e6 / calls as f64);
        records.push(McpRecord {
            load,
            way: way.way,
            round,
            calls,
            calls_per_second: calls as f64 / spent.as_secs_f64(),
            p50_us: micros(0.5)?,
            p99_us: micros(0.99)?,
            cpu_us_per_call: own,
            children_cpu_us_per_call: children,
        });
    }
    Ok(records)
}

fn readings(standing: &[OpenWay], moment: Moment) -> Result<Vec<Memory>> {
    let read = |way: &OpenWay| {
        let children = descendants(way.pid())?;
        let of_children = children.iter().map(|&child| resident_kib(child)).sum::<Result<u64>>()?;
        Ok(Memory {
            way: way.way,
            moment,
            sessions: way.sessions.len(),
            rss_mib: resident_kib(way.pid())? as f64 / 1024.0,
            children: children.len(),
            children_rss_mib: of_children as f64 / 1024.0,
        })
    };
    standing.iter().map(read).collect()
}
