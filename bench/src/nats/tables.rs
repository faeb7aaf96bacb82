//! Tables, and what is kept of a run.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::nats::site::{Shares, StoreSetup};
use crate::nats::topics::{Census, Idle};
use crate::nats::{NatsFigures, NatsLoad, NatsRecord};
use crate::report::{RunSetting, cell, json_lines, lay_out, save_run};
use crate::stats::Spread;

type FigureReader = fn(&NatsFigures) -> f64;

/// Runs of one setup that count, by round.
fn rounds(records: &[NatsRecord], load: NatsLoad, setup: StoreSetup) -> impl Iterator<Item = (u32, &NatsFigures)> {
    records
        .iter()
        .filter(move |record| record.load == load && record.setup == setup)
        .filter_map(|record| Some((record.round, record.figures.as_ref()?)))
}

fn shown(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    Spread::of(values.collect()).map_or_else(|| "–".to_owned(), |spread| cell(spread, decimals))
}

/// What two have between them, round by round: both had the machine in the same minute.
fn added(records: &[NatsRecord], load: NatsLoad, setup: StoreSetup, to: StoreSetup, figure: FigureReader) -> Vec<f64> {
    let base = |round| rounds(records, load, to).find(|(other, _)| *other == round);
    rounds(records, load, setup).filter_map(|(round, figures)| Some(figure(figures) - figure(base(round)?.1))).collect()
}

/// With how many decimals the CPU of a delivery is worth telling.
fn decimals(load: NatsLoad) -> usize {
    if load == NatsLoad::FanoutSaturated { 3 } else { 2 }
}

pub(super) fn of_load(records: &[NatsRecord], load: NatsLoad) -> Result<String> {
    let rate = if load.is_calls() { "calls/s" } else { "messages/s" };
    let each = if load.is_calls() { "CPU µs/call" } else { "CPU µs/message" };
    let head = [
        "setup",
        "p50 µs",
        "p99 µs",
        rate,
        "CPU µs/delivery",
        "of it gateways",
        "of it NATS",
        each,
        "gateways MiB",
        "NATS MiB",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for setup in StoreSetup::ALL {
        let figure = |figure: FigureReader, decimals| {
            shown(rounds(records, load, setup).map(|(_, figures)| figure(figures)), decimals)
        };
        let void = records.iter().filter(|r| r.load == load && r.setup == setup && r.void.is_some()).count();
        let name = if void > 0 { format!("{} ({void} void)", setup.name()) } else { setup.name().to_owned() };
        rows.push(vec![
            name,
            figure(|f| f.p50_us, 0),
            figure(|f| f.p99_us, 0),
            figure(NatsFigures::messages_per_second, 0),
            figure(|f| f.cpu_us_per_delivery().sum(), decimals(load)),
            figure(|f| f.cpu_us_per_delivery().gateways, decimals(load)),
            figure(|f| f.cpu_us_per_delivery().nats, decimals(load)),
            figure(NatsFigures::cpu_us_per_message, 0),
            figure(|f| f.resident_mib.gateways, 0),
            figure(|f| f.resident_mib.nats, 0),
        ]);
    }
    lay_out(&rows)
}

/// What the setups on NATS add to those on SQLite.
pub(super) fn of_additions(records: &[NatsRecord]) -> Result<String> {
    let bases = [(StoreSetup::SqliteFull, "full"), (StoreSetup::SqliteOs, "os")];
    let mut head = vec!["load".to_owned(), "setup".to_owned()];
    for what in ["p50 µs", "p99 µs", "CPU µs/delivery"] {
        head.extend(bases.map(|(_, base)| format!("{what} added to {base}")));
    }
    let mut rows = vec![head];
    let setups = [StoreSetup::NatsOne, StoreSetup::NatsOneAlways, StoreSetup::NatsThree, StoreSetup::NatsThreeAlways];
    for load in NatsLoad::ALL.into_iter().filter(|&load| records.iter().any(|record| record.load == load)) {
        for setup in setups {
            let mut row = vec![load.name(), setup.name().to_owned()];
            let figures: [(FigureReader, usize); 3] =
                [(|f| f.p50_us, 0), (|f| f.p99_us, 0), (|f| f.cpu_us_per_delivery().sum(), decimals(load))];
            for (figure, decimals) in figures {
                row.extend(
                    bases.map(|(base, _)| shown(added(records, load, setup, base, figure).into_iter(), decimals)),
                );
            }
            rows.push(row);
        }
    }
    lay_out(&rows)
}

/// One column for each number of topics.
pub(super) fn of_topics(censuses: &[Census]) -> Result<String> {
    let row = |what: &str, figure: &dyn Fn(&Census) -> String| {
        std::iter::once(what.to_owned()).chain(censuses.iter().map(figure)).collect::<Vec<_>>()
    };
    let shares = |shares: Shares, unit: &str| format!("{:.1}{unit}, {:.1}{unit}", shares.nats, shares.gateways);
    let cpu = |idle: &Idle| shares(idle.cpu_percent, " %");
    let memory = |idle: &Idle| shares(idle.resident_mib, " MiB");
    let rows = [
        row("topics", &|c| c.topics.to_string()),
        row("made in, s", &|c| format!("{:.1}", c.made_seconds)),
        row("made in, ms each", &|c| format!("{:.0}", c.made_seconds * 1000.0 / c.topics as f64)),
        row("entering one that is not there, p50 ms", &|c| format!("{:.1}", c.entered_p50_us / 1000.0)),
        row("entering one that is not there, p99 ms", &|c| format!("{:.1}", c.entered_p99_us / 1000.0)),
        row("publishing, p50 µs", &|c| format!("{:.0}", c.p50_us)),
        row("publishing, p99 µs", &|c| format!("{:.0}", c.p99_us)),
        row("idle, one in each: CPU of 3 NATS servers, of the gateway", &|c| cpu(&c.occupied)),
        row("idle, one in each: memory of 3 NATS servers, of the gateway", &|c| memory(&c.occupied)),
        row("idle, nobody in any: CPU of 3 NATS servers, of the gateway", &|c| cpu(&c.empty)),
        row("idle, nobody in any: memory of 3 NATS servers, of the gateway", &|c| memory(&c.empty)),
        row("gateway killed, started again: ready after, s", &|c| format!("{:.2}", c.killed.ready_seconds)),
        row("… and everybody back after, s", &|c| format!("{:.2}", c.killed.back_seconds)),
        row("gateway stopped, started again: ready after, s", &|c| format!("{:.2}", c.stopped.ready_seconds)),
        row("… and everybody back after, s", &|c| format!("{:.2}", c.stopped.back_seconds)),
    ];
    lay_out(&rows)
}

/// Writes `raw.jsonl` (the setting, a line for each run, and one for each number of topics) and `summary.md`.
pub(super) fn save(directory: &Path, setting: &RunSetting, records: &[NatsRecord], censuses: &[Census]) -> Result<()> {
    let mut lines = json_lines(records)?;
    lines.extend(json_lines(censuses)?);
    let RunSetting { date, machine, commit, file_system, seconds, rounds, contenders, .. } = setting;
    let mut out = format!(
        "# SQLite and NATS, {date}\n\n- machine: {machine}\n- commit: {commit}\n- data on: {file_system}\n- programs: {}\n\
         - runs: {rounds} rounds of {seconds} s, window {}; median (lowest–highest)\n",
        contenders.join(", "),
        setting.window_list()
    );
    if !records.is_empty() {
        out.push_str("\nWhat an acknowledged message survives:\n\n");
        for setup in StoreSetup::ALL {
            writeln!(out, "- {}: {}", setup.name(), setup.durability())?;
        }
    }
    for load in NatsLoad::ALL.into_iter().filter(|&load| records.iter().any(|record| record.load == load)) {
        let name = load.name();
        write!(out, "\n## {}{}\n\n{}", name[..1].to_uppercase(), &name[1..], of_load(records, load)?)?;
    }
    if !records.is_empty() {
        write!(out, "\n## What NATS adds\n\n{}", of_additions(records)?)?;
    }
    for record in records {
        if let Some(reason) = &record.void {
            write!(out, "\nVoid: {}, {}, round {}: {reason}\n", record.load.name(), record.setup.name(), record.round)?;
        }
    }
    if !censuses.is_empty() {
        let about = "Three NATS servers, three replicas, one gateway, one participant in each topic; measured once.";
        write!(out, "\n## Topics\n\n{about}\n\n{}", of_topics(censuses)?)?;
    }
    for census in censuses {
        write!(out, "\nOne topic more than the limit, beside {}:\n\n```\n{}\n```\n", census.topics, census.refusal)?;
    }
    save_run(directory, setting, &lines, &out)
}
