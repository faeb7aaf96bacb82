//! What a room costs a call: the same tool of the same server, called on its pipes, and as a guest of a gateway by a caller over
//! WebSocket. The ways take turns within a round, so that what else the machine does hits them alike.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::contender::{BenchScratch, Contender, ContenderServer, Installed};
use crate::lines::{BenchSeat, GUEST, MessageLine, ServerPipes, TOPIC};
use crate::options::BenchOptions;
use crate::report::{RunSetting, cell, json_lines, lay_out, save_run};
use crate::stats::{Spread, percentile};

/// How long one way is measured before the next has its turn.
const TURN: Duration = Duration::from_millis(100);
const WARM_UP: u64 = 200;
const CALLS_IN_FLIGHT: [u64; 2] = [1, 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum GuestWay {
    Direct,
    Room,
    /// A room whose log leaves flushing to the operating system.
    RoomUnflushed,
}

impl GuestWay {
    const ALL: [Self; 3] = [Self::Direct, Self::Room, Self::RoomUnflushed];

    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Room => "room",
            Self::RoomUnflushed => "room, durability os",
        }
    }
}

/// One round of one way.
#[derive(Serialize)]
struct GuestRecord {
    scenario: &'static str,
    in_flight: u64,
    way: GuestWay,
    round: u32,
    calls: usize,
    calls_per_second: f64,
    p50_us: f64,
    p99_us: f64,
}

/// A way that stands: its line, and what must live as long as it is used.
struct GuestCourse {
    way: GuestWay,
    line: Box<dyn MessageLine>,
    _server: Option<ContenderServer>,
    _config: Option<BenchScratch>,
}

#[expect(clippy::print_stdout, reason = "tables are shown as they come")]
pub(crate) fn measure(options: &BenchOptions) -> Result<()> {
    let salon = Installed::find(Contender::Salon, &options.salon)?;
    let server = options.server.canonicalize().with_context(|| format!("no server {}", options.server.display()))?;
    let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, &[])?;
    setting.contenders = vec![format!("salon ({})", salon.version), "rmcp-server (this commit)".to_owned()];
    println!("machine: {}\ncommit: {}\ndata on: {}", setting.machine, setting.commit, setting.file_system);
    let directory =
        options.out.clone().unwrap_or_else(|| format!("bench/runs/{}-{}-guests", setting.date, setting.slug()).into());
    let mut courses = GuestWay::ALL.iter().map(|&way| course(way, &salon, &server)).collect::<Result<Vec<_>>>()?;
    let mut records = Vec::new();
    for in_flight in CALLS_IN_FLIGHT {
        for course in &mut courses {
            calls(&mut *course.line, in_flight, |done| done < WARM_UP, &mut Vec::new())?;
        }
        for round in 1..=options.rounds {
            records.extend(one_round(&mut courses, in_flight, round, options.duration)?);
        }
    }
    let table = table(&records)?;
    println!("\n{table}");
    save(&directory, &setting, &records, &table)?;
    println!("written: {}", directory.display());
    Ok(())
}

fn course(way: GuestWay, salon: &Installed, server: &Path) -> Result<GuestCourse> {
    let durability = match way {
        GuestWay::Direct => {
            let line = Box::new(ServerPipes::open(server)?);
            return Ok(GuestCourse { way, line, _server: None, _config: None });
        }
        GuestWay::Room => "full",
        GuestWay::RoomUnflushed => "os",
    };
    let directory = BenchScratch::new()?;
    let file = directory.0.join("salon.toml");
    fs::write(&file, format!("[topics.\"{TOPIC}\".guests.{GUEST}]\ncommand = {:?}\n", server.display().to_string()))?;
    let file = file.to_string_lossy();
    let gateway = salon.start_with(&["--config", &file, "--sqlite-durability", durability])?;
    let line =
        BenchSeat::open(&gateway).with_context(|| format!("the guest does not answer\n{}", gateway.last_words()))?;
    Ok(GuestCourse { way, line: Box::new(line), _server: Some(gateway), _config: Some(directory) })
}

fn one_round(courses: &mut [GuestCourse], in_flight: u64, round: u32, duration: Duration) -> Result<Vec<GuestRecord>> {
    let mut taken: Vec<(Vec<u64>, Duration)> = courses.iter().map(|_| Default::default()).collect();
    let turn = TURN.min(duration);
    while taken.iter().any(|(_, spent)| *spent < duration) {
        for (course, (latencies, spent)) in courses.iter_mut().zip(&mut taken) {
            let began = Instant::now();
            calls(&mut *course.line, in_flight, |_| began.elapsed() < turn, latencies)?;
            *spent += began.elapsed();
        }
    }
    let record = |(course, (mut latencies, spent)): (&mut GuestCourse, (Vec<u64>, Duration))| {
        latencies.sort_unstable();
        let micros = |p| percentile(&latencies, p).map(|nanos| nanos as f64 / 1000.0).context("no call was made");
        Ok(GuestRecord {
            scenario: "guests",
            in_flight,
            way: course.way,
            round,
            calls: latencies.len(),
            calls_per_second: latencies.len() as f64 / spent.as_secs_f64(),
            p50_us: micros(0.5)?,
            p99_us: micros(0.99)?,
        })
    };
    courses.iter_mut().zip(taken).map(record).collect()
}

/// What `echo` answers, as far as it is looked at.
#[derive(Deserialize)]
struct Echoed {
    #[serde(rename = "structuredContent")]
    arguments: GuestValue,
}

#[derive(Deserialize)]
struct GuestValue {
    value: u64,
}

/// Keeps so many calls under way while `go_on` says so, which is asked with the number of calls begun; then takes what is still to come.
fn calls(
    line: &mut dyn MessageLine,
    in_flight: u64,
    go_on: impl Fn(u64) -> bool,
    latencies: &mut Vec<u64>,
) -> Result<()> {
    let mut open: VecDeque<(u64, Instant)> = VecDeque::new();
    let mut begun = 0;
    loop {
        while (open.len() as u64) < in_flight && go_on(begun) {
            begun += 1;
            let request = format!(
                r#"{{"jsonrpc":"2.0","id":{begun},"method":"tools/call","params":{{"name":"echo","arguments":{{"value":{begun}}}}}}}"#
            );
            open.push_back((begun, Instant::now()));
            line.send(&request)?;
        }
        if open.is_empty() {
            return Ok(());
        }
        let answer = line.receive()?;
        let Some(id) = answer.id else { continue };
        let place = open.iter().position(|(open, _)| *open == id).context("an answer to nothing that was asked")?;
        let (_, sent) = open.remove(place).context("it was found there")?;
        latencies.push(sent.elapsed().as_nanos() as u64);
        let result = answer.result.with_context(|| format!("a call failed: {:?}", answer.error))?;
        let Echoed { arguments } = serde_json::from_str(result.get())?;
        if arguments.value != id {
            bail!("call {id} got the answer to call {}", arguments.value);
        }
    }
}

fn table(records: &[GuestRecord]) -> Result<String> {
    let head = ["in flight", "way", "p50 µs", "p50 ÷ direct", "p99 µs", "p99 ÷ direct", "calls/s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for in_flight in CALLS_IN_FLIGHT {
        let of = |way: GuestWay| records.iter().filter(move |r| r.in_flight == in_flight && r.way == way);
        for way in GuestWay::ALL {
            let spread = |figure: &dyn Fn(&GuestRecord) -> f64, decimals: usize| {
                let spread = Spread::of(of(way).map(figure).collect()).context("no rounds")?;
                anyhow::Ok(cell(spread, decimals))
            };
            // A ratio is of one round: both had the machine in the same seconds.
            let ratio = |figure: fn(&GuestRecord) -> f64| {
                let direct = |round| of(GuestWay::Direct).find(|r| r.round == round).map_or(f64::NAN, figure);
                spread(&|record: &GuestRecord| figure(record) / direct(record.round), 2)
            };
            rows.push(vec![
                in_flight.to_string(),
                way.name().to_owned(),
                spread(&|r| r.p50_us, 0)?,
                ratio(|r| r.p50_us)?,
                spread(&|r| r.p99_us, 0)?,
                ratio(|r| r.p99_us)?,
                spread(&|r| r.calls_per_second, 0)?,
            ]);
        }
    }
    lay_out(&rows)
}

/// Writes `raw.jsonl` (the setting, then a line for each round of each way) and `summary.md`.
fn save(directory: &Path, setting: &RunSetting, records: &[GuestRecord], table: &str) -> Result<()> {
    let RunSetting { date, machine, commit, file_system, seconds, rounds, .. } = setting;
    let summary = format!(
        "# Calls of a guest's tool, {date}\n\n- machine: {machine}\n- commit: {commit}\n- data on: {file_system}\n\
         - runs: {rounds} rounds of {seconds} s; median (lowest–highest)\n\n{table}"
    );
    save_run(directory, setting, &json_lines(records)?, &summary)
}
