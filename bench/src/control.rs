//! What the settings of a topic cost: messages and calls into a topic without settings and into one with a hundred rules, and without settings by an
//! earlier program. All take turns, so that what else the machine does hits them alike; what one adds is told round by round.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde_json::json;

use crate::attacks::HttpLine;
use crate::contender::{Contender, ContenderServer, Installed};
use crate::options::BenchOptions;
use crate::report::{RunSetting, cell, json_lines, lay_out, save_run};
use crate::room::PublishPace;
use crate::scenario::{BenchPlan, Effort, Figure, Figures, LoadShape, Regime, Scenario, topic};
use crate::stats::Spread;

const RULES: usize = 100;
/// Messages in flight where a topic is saturated.
const MESSAGES_IN_FLIGHT: u32 = 64;

/// Whose topic it is, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ControlSetup {
    /// A topic without settings, by the program of `--before`.
    Before,
    Plain,
    Rules,
}

impl ControlSetup {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "no settings, before",
            Self::Plain => "no settings",
            Self::Rules => "100 rules",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ControlLoad {
    Messages,
    MessagesOneByOne,
    Calls,
    CallsOneByOne,
}

impl ControlLoad {
    const ALL: [Self; 4] = [Self::Messages, Self::MessagesOneByOne, Self::Calls, Self::CallsOneByOne];

    fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages, 64 in flight",
            Self::MessagesOneByOne => "messages, one by one",
            Self::Calls => "calls, 64 in flight",
            Self::CallsOneByOne => "calls, one by one",
        }
    }

    /// One publisher that reads its own messages; or a caller and a callee, so that each call has an answer.
    fn plan(self) -> BenchPlan {
        let is_saturated = matches!(self, Self::Messages | Self::Calls);
        let (regime, window) =
            if is_saturated { (Regime::Saturated, MESSAGES_IN_FLIGHT) } else { (Regime::OneByOne, 1) };
        let calls = matches!(self, Self::Calls | Self::CallsOneByOne);
        let pace = PublishPace::Window(window);
        let shape = LoadShape::Traffic { rooms: 1, others: usize::from(calls), calls, pace };
        let scenario = if calls { Scenario::Calls } else { Scenario::Append };
        BenchPlan { scenario, case: self.name().to_owned(), regime, shape }
    }
}

/// One run.
#[derive(Serialize)]
struct ControlRecord {
    scenario: &'static str,
    load: ControlLoad,
    setup: ControlSetup,
    round: u32,
    #[serde(skip_serializing_if = "Figures::is_empty")]
    figures: Figures,
    /// Why the run counts for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    void: Option<String>,
}

/// Measures, prints and writes. Says whether every run counts.
#[expect(clippy::print_stdout, reason = "tables are shown as they come")]
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let now = Installed::find(Contender::Salon, &options.salon)?;
    let before = options.before.as_deref().map(|path| Installed::find(Contender::Salon, path)).transpose()?;
    let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, &[MESSAGES_IN_FLIGHT])?;
    setting.contenders = vec![format!("salon ({}, {})", options.salon.display(), now.version)];
    if let (Some(program), Some(path)) = (&before, &options.before) {
        setting.contenders.push(format!("before ({}, {})", path.display(), program.version));
    }
    println!("machine: {}\ncommit: {}\ndata on: {}", setting.machine, setting.commit, setting.file_system);
    let directory =
        options.out.clone().unwrap_or_else(|| format!("bench/runs/{}-{}-control", setting.date, setting.slug()).into());
    let effort = Effort { duration: options.duration, quick: options.quick };
    let mut setups: Vec<(ControlSetup, &Installed)> = vec![(ControlSetup::Plain, &now), (ControlSetup::Rules, &now)];
    setups.extend(before.as_ref().map(|program| (ControlSetup::Before, program)));
    let mut records = Vec::new();
    for round in 1..=options.rounds {
        for load in ControlLoad::ALL {
            // The first in one round is the last in the next.
            setups.rotate_left(1);
            for &(setup, program) in &setups {
                let record = run_once(program, setup, load, round, effort);
                if let Some(reason) = &record.void {
                    println!("void: {}, {}: {reason}", load.name(), setup.name());
                }
                records.push(record);
            }
        }
        let (costs, additions) = (costs(&records)?, additions(&records)?);
        save(&directory, &setting, &records, &format!("{costs}\n{additions}"))?;
        println!("\nafter round {round}\n\n{costs}\n{additions}");
    }
    println!("written: {}", directory.display());
    Ok(records.iter().all(|record| record.void.is_none()))
}

fn run_once(program: &Installed, setup: ControlSetup, load: ControlLoad, round: u32, effort: Effort) -> ControlRecord {
    let measured = || {
        let server = match setup {
            ControlSetup::Before | ControlSetup::Plain => program.start_with(&[])?,
            ControlSetup::Rules => with_rules(program)?,
        };
        load.plan().measure(&server, effort).with_context(|| server.last_words())
    };
    let (figures, void) = match measured() {
        Ok(figures) => (figures, None),
        Err(error) => (Figures::new(), Some(format!("{error:#}"))),
    };
    ControlRecord { scenario: "control", load, setup, round, figures, void }
}

/// A gateway whose topic has rules for calls of the participant that is called here, though for other tools.
fn with_rules(program: &Installed) -> Result<ContenderServer> {
    let mut server = program.start_with(&["--auth-create-topics", "anyone"])?;
    server.wait_until_ready()?;
    let rule = |number: usize| json!({ "hold": format!("call:call*/*_{number}"), "approvers": ["role:owner"] });
    let settings = json!({ "rules": (0..RULES).map(rule).collect::<Vec<_>>() });
    let token = server.bearer(&topic(0), "owner")?.context("a gateway has a key")?;
    let path = format!("/v0/topics/{}", topic(0));
    let status = HttpLine::new(server.address).request("PUT", &path, &token, settings.to_string().as_bytes());
    match status {
        Some(201) => Ok(server),
        status => bail!("the settings were not stored: {status:?}\n{}", server.last_words()),
    }
}

/// A figure of a setup, by round.
fn rounds(
    records: &[ControlRecord],
    load: ControlLoad,
    setup: ControlSetup,
    figure: Figure,
) -> impl Iterator<Item = (u32, f64)> {
    let of_setup = records.iter().filter(move |record| record.load == load && record.setup == setup);
    of_setup.filter_map(move |record| Some((record.round, *record.figures.get(&figure)?)))
}

fn shown(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    Spread::of(values.collect()).map_or_else(|| "–".to_owned(), |spread| cell(spread, decimals))
}

fn costs(records: &[ControlRecord]) -> Result<String> {
    let head = ["load", "topic", "CPU µs/message", "p50 µs", "p99 µs", "messages/s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for load in ControlLoad::ALL {
        for setup in [ControlSetup::Before, ControlSetup::Plain, ControlSetup::Rules] {
            if !records.iter().any(|record| record.load == load && record.setup == setup) {
                continue;
            }
            let figure = |figure, decimals| shown(rounds(records, load, setup, figure).map(|(_, it)| it), decimals);
            rows.push(vec![
                load.name().to_owned(),
                setup.name().to_owned(),
                figure(Figure::CpuUsPerMessage, 2),
                figure(Figure::P50Us, 0),
                figure(Figure::P99Us, 0),
                figure(Figure::MessagesPerSecond, 0),
            ]);
        }
    }
    lay_out(&rows)
}

/// What two have between them in one round, when both had the machine in the same minute.
fn pairs(records: &[ControlRecord], load: ControlLoad, of: ControlSetup, to: ControlSetup) -> Vec<(f64, f64)> {
    let cpu = Figure::CpuUsPerMessage;
    let base = |round| rounds(records, load, to, cpu).find(|(other, _)| *other == round).map(|(_, it)| it);
    rounds(records, load, of, cpu).filter_map(|(round, figure)| Some((figure, base(round)?))).collect()
}

fn additions(records: &[ControlRecord]) -> Result<String> {
    let head = ["load", "no settings: CPU, % more than before", "100 rules: CPU µs/message more than without"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for load in ControlLoad::ALL {
        let more = pairs(records, load, ControlSetup::Plain, ControlSetup::Before);
        let added = pairs(records, load, ControlSetup::Rules, ControlSetup::Plain);
        rows.push(vec![
            load.name().to_owned(),
            shown(more.into_iter().map(|(now, before)| 100.0 * (now / before - 1.0)), 1),
            shown(added.into_iter().map(|(rules, plain)| rules - plain), 2),
        ]);
    }
    lay_out(&rows)
}

fn save(directory: &Path, setting: &RunSetting, records: &[ControlRecord], tables: &str) -> Result<()> {
    let RunSetting { date, machine, commit, file_system, seconds, rounds, contenders, .. } = setting;
    let mut summary = format!(
        "# Topics with and without settings, {date}\n\n- machine: {machine}\n- commit: {commit}\n- data on: {file_system}\n\
         - runs: {rounds} rounds of {seconds} s; median (lowest–highest)\n"
    );
    for contender in contenders {
        writeln!(summary, "- contender: {contender}")?;
    }
    write!(summary, "\n{tables}")?;
    save_run(directory, setting, &json_lines(records)?, &summary)
}
