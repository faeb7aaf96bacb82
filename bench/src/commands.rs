//! How long a person or a script waits for a command: `salon call` of a guest's tool on a terminal and off it, beside other commands and beside
//! a program that only starts. The commands take turns, so that what else the machine does hits them alike.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use crate::contender::{BenchScratch, Contender, ContenderServer, Installed};
use crate::lines::{BenchSeat, GUEST, TOPIC};
use crate::options::BenchOptions;
use crate::report::{RunSetting, cell, json_lines, lay_out, save_run};
use crate::stats::{Spread, percentile};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum TimedCommand {
    /// A program that starts and ends.
    Version,
    Call,
    /// The same with a terminal on its three streams, where the caller can be asked something.
    CallOnTerminal,
    Say,
    History,
}

impl TimedCommand {
    const ALL: [Self; 5] = [Self::Version, Self::Call, Self::CallOnTerminal, Self::Say, Self::History];

    fn name(self) -> &'static str {
        match self {
            Self::Version => "salon --version",
            Self::Call => "salon call",
            Self::CallOnTerminal => "salon call, on a terminal",
            Self::Say => "salon say",
            Self::History => "salon history -n 20",
        }
    }

    /// The process, without its environment.
    fn process(self, salon: &Path) -> Command {
        let call = ["call", TOPIC, GUEST, "echo", "value=1"];
        let words: &[&str] = match self {
            Self::Version => &["--version"],
            Self::Call | Self::CallOnTerminal => &call,
            Self::Say => &["say", TOPIC, "hello"],
            Self::History => &["history", TOPIC, "-n", "20"],
        };
        if self != Self::CallOnTerminal {
            let mut command = Command::new(salon);
            command.args(words);
            return command;
        }
        // `script` gives the command a terminal and passes its exit status on.
        let mut command = Command::new("script");
        command.args(["-qec", &format!("{} {}", salon.display(), words.join(" ")), "/dev/null"]);
        command
    }
}

/// One round of one command.
#[derive(Serialize)]
struct CommandRecord {
    scenario: &'static str,
    command: TimedCommand,
    round: u32,
    runs: usize,
    p50_ms: f64,
    p99_ms: f64,
}

#[expect(clippy::print_stdout, reason = "tables are shown as they come")]
pub(crate) fn measure(options: &BenchOptions) -> Result<()> {
    let salon = Installed::find(Contender::Salon, &options.salon)?;
    let program = options.salon.canonicalize()?;
    let server = options.server.canonicalize().with_context(|| format!("no server {}", options.server.display()))?;
    let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, &[])?;
    setting.contenders = vec![format!("salon ({})", salon.version), "rmcp-server (this commit)".to_owned()];
    println!("machine: {}\ncommit: {}\ndata on: {}", setting.machine, setting.commit, setting.file_system);
    let directory = options
        .out
        .clone()
        .unwrap_or_else(|| format!("bench/runs/{}-{}-commands", setting.date, setting.slug()).into());
    let home = BenchScratch::new()?;
    let file = home.0.join("salon.toml");
    fs::write(&file, format!("[topics.\"{TOPIC}\".guests.{GUEST}]\ncommand = {:?}\n", server.display().to_string()))?;
    let gateway = salon.start_with(&["--config", &file.to_string_lossy()])?;
    drop(BenchSeat::open(&gateway).with_context(|| format!("the guest does not answer\n{}", gateway.last_words()))?);
    let mut records = Vec::new();
    // The first runs read the program from the disk.
    one_round(&program, &gateway, &home.0, 0, Duration::ZERO)?;
    for round in 1..=options.rounds {
        records.extend(one_round(&program, &gateway, &home.0, round, options.duration)?);
    }
    let table = table(&records)?;
    println!("\n{table}");
    let RunSetting { date, machine, commit, file_system, seconds, rounds, .. } = &setting;
    let summary = format!(
        "# Commands, from start to end, {date}\n\n- machine: {machine}\n- commit: {commit}\n- data on: {file_system}\n\
         - runs: {rounds} rounds of {seconds} s; median (lowest–highest)\n\n{table}"
    );
    save_run(&directory, &setting, &json_lines(&records)?, &summary)?;
    println!("written: {}", directory.display());
    Ok(())
}

fn one_round(
    salon: &Path,
    gateway: &ContenderServer,
    home: &Path,
    round: u32,
    duration: Duration,
) -> Result<Vec<CommandRecord>> {
    let token = gateway.bearer(TOPIC, "person")?.context("a gateway has a key")?;
    let mut taken: Vec<Vec<u64>> = TimedCommand::ALL.iter().map(|_| Vec::new()).collect();
    let began = Instant::now();
    while began.elapsed() < duration || taken.iter().any(Vec::is_empty) {
        for (command, times) in TimedCommand::ALL.into_iter().zip(&mut taken) {
            let mut process = command.process(salon);
            process.env("HOME", home).env("SALON_GATEWAY", format!("http://{}", gateway.address));
            process.env("SALON_TOKEN", &token).current_dir(home).stdin(Stdio::null());
            let start = Instant::now();
            let output = process.output().with_context(|| format!("cannot start {}", command.name()))?;
            times.push(start.elapsed().as_nanos() as u64);
            if !output.status.success() {
                let said = [output.stdout, output.stderr].concat();
                bail!("{} failed: {}", command.name(), String::from_utf8_lossy(&said));
            }
        }
    }
    let record = |(command, mut times): (TimedCommand, Vec<u64>)| {
        times.sort_unstable();
        let millis = |p| percentile(&times, p).map(|nanos| nanos as f64 / 1e6).context("it was not run");
        let (p50_ms, p99_ms) = (millis(0.5)?, millis(0.99)?);
        Ok(CommandRecord { scenario: "commands", command, round, runs: times.len(), p50_ms, p99_ms })
    };
    TimedCommand::ALL.into_iter().zip(taken).map(record).collect()
}

fn table(records: &[CommandRecord]) -> Result<String> {
    let mut rows = vec![["command", "p50 ms", "p99 ms"].map(str::to_owned).to_vec()];
    for command in TimedCommand::ALL {
        let spread = |figure: fn(&CommandRecord) -> f64| {
            let figures = records.iter().filter(|record| record.command == command).map(figure);
            anyhow::Ok(cell(Spread::of(figures.collect()).context("no rounds")?, 1))
        };
        rows.push(vec![command.name().to_owned(), spread(|r| r.p50_ms)?, spread(|r| r.p99_ms)?]);
    }
    lay_out(&rows)
}
