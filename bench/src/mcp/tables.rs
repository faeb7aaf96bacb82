//! Tables, and what is kept of a run.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::mcp::ways::McpWay;
use crate::mcp::{McpLoad, McpRecord, Memory, SESSIONS};
use crate::report::{RunSetting, cell, json_lines, lay_out, save_run};
use crate::stats::Spread;
use crate::targets::{self, PerformanceTarget};

/// Of what a proxy adds to a call, a room may add this much.
const SHARE: f64 = 0.5;
/// The longest p50 of a call of one client of a room, and how many calls a second ten clients have at least.
const MAX_CALL_US: f64 = 500.0;
const MIN_CALLS_PER_SECOND: f64 = 3500.0;

fn rounds(records: &[McpRecord], load: McpLoad, way: McpWay) -> impl Iterator<Item = &McpRecord> {
    records.iter().filter(move |record| record.load == load && record.way == way)
}

fn shown(values: impl Iterator<Item = f64>, decimals: usize) -> String {
    Spread::of(values.collect()).map_or_else(|| "–".to_owned(), |spread| cell(spread, decimals))
}

/// What a way adds to the latency of a direct call, round by round: both had the machine in the same seconds.
fn added(records: &[McpRecord], load: McpLoad, way: McpWay) -> impl Iterator<Item = f64> {
    let direct = move |round| rounds(records, load, McpWay::Direct).find(|direct| direct.round == round);
    rounds(records, load, way).filter_map(move |record| Some(record.p50_us - direct(record.round)?.p50_us))
}

pub(super) fn of_load(records: &[McpRecord], load: McpLoad) -> Result<String> {
    let head = ["way", "p50 µs", "added p50 µs", "p99 µs", "calls/s", "CPU µs/call", "its children's CPU µs/call"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for way in McpWay::ALL.into_iter().filter(|&way| rounds(records, load, way).next().is_some()) {
        let figure = |figure: fn(&McpRecord) -> f64| shown(rounds(records, load, way).map(figure), 0);
        rows.push(vec![
            way.name().to_owned(),
            figure(|r| r.p50_us),
            if way == McpWay::Direct { "–".to_owned() } else { shown(added(records, load, way), 0) },
            figure(|r| r.p99_us),
            figure(|r| r.calls_per_second),
            figure(|r| r.cpu_us_per_call),
            figure(|r| r.children_cpu_us_per_call),
        ]);
    }
    lay_out(&rows)
}

pub(super) fn of_memory(memory: &[Memory]) -> Result<String> {
    let mut head = vec!["way".to_owned()];
    for moment in ["at the start".to_owned(), "after the calls".to_owned(), format!("with {SESSIONS} sessions")] {
        head.extend([format!("MiB {moment}"), "its children".to_owned()]);
    }
    let mut rows = vec![head];
    for way in McpWay::ALL {
        let of_way = memory.iter().filter(|memory| memory.way == way);
        let cells = of_way.flat_map(|Memory { rss_mib, children, children_rss_mib, .. }| {
            let started =
                if *children == 0 { "–".to_owned() } else { format!("{children_rss_mib:.1} in {children}") };
            [format!("{rss_mib:.1}"), started]
        });
        let row: Vec<String> = std::iter::once(way.name().to_owned()).chain(cells).collect();
        if row.len() > 1 {
            rows.push(row);
        }
    }
    lay_out(&rows)
}

/// What is judged: a guest at its own address, with a log that is flushed.
pub(super) fn targets(records: &[McpRecord]) -> Vec<PerformanceTarget> {
    let way = McpWay::Salon;
    let median = |values: Vec<f64>| Spread::of(values).map(|spread| spread.median);
    let figure = |load, figure: fn(&McpRecord) -> f64| median(rounds(records, load, way).map(figure).collect());
    let share = |load: McpLoad| {
        let pairs = added(records, load, way).zip(added(records, load, McpWay::Supergateway));
        let measured = median(pairs.map(|(ours, theirs)| ours / theirs).collect());
        PerformanceTarget::at_most(format!("{}, added p50", load.name()), SHARE, "× what supergateway adds", measured)
    };
    let mut targets: Vec<_> = [McpLoad::OneByOne, McpLoad::Sixteen, McpLoad::Long].into_iter().map(share).collect();
    let middle = figure(McpLoad::OneByOne, |r| r.p50_us);
    targets.push(PerformanceTarget::at_most(McpLoad::OneByOne.name(), MAX_CALL_US, "µs p50", middle));
    let rate = figure(McpLoad::TenClients, |r| r.calls_per_second);
    targets.push(PerformanceTarget::at_least(McpLoad::TenClients.name(), MIN_CALLS_PER_SECOND, "calls/s", rate));
    targets
}

/// What the rooms add, as shares of what each proxy adds.
pub(super) fn of_targets(records: &[McpRecord]) -> Result<String> {
    let mut rows = vec![["load", "way"].map(str::to_owned).to_vec()];
    rows[0].extend(McpWay::PROXIES.iter().map(|proxy| format!("added ÷ {}'s", proxy.name())));
    rows[0].push(format!("at most {SHARE} of either"));
    for load in McpLoad::ALL {
        for way in McpWay::ALL.into_iter().filter(|&way| way.is_salon() && added(records, load, way).next().is_some()) {
            // Every way has all rounds, in order.
            let shares = McpWay::PROXIES.map(|proxy| {
                let pairs = added(records, load, way).zip(added(records, load, proxy));
                pairs.map(|(ours, theirs)| ours / theirs).collect::<Vec<f64>>()
            });
            let verdict = match shares.each_ref().map(|shares| Spread::of(shares.clone())) {
                [Some(first), Some(second)] if first.median <= SHARE && second.median <= SHARE => "met",
                [Some(_), Some(_)] => "MISSED",
                _ => "NOT MEASURED",
            };
            let mut row = vec![load.name().to_owned(), way.name().to_owned()];
            row.extend(shares.into_iter().map(|shares| shown(shares.into_iter(), 2)));
            row.push(verdict.to_owned());
            rows.push(row);
        }
    }
    lay_out(&rows)
}

/// Writes `raw.jsonl` (the setting, a line for each round of each way, and a line for each reading of memory) and `summary.md`.
pub(super) fn save(directory: &Path, setting: &RunSetting, records: &[McpRecord], memory: &[Memory]) -> Result<()> {
    let mut lines = json_lines(records)?;
    lines.extend(json_lines(memory)?);
    let RunSetting { date, machine, commit, file_system, seconds, rounds, .. } = setting;
    let mut summary = format!(
        "# Calls by MCP over HTTP, {date}\n\n- machine: {machine}\n- commit: {commit}\n- data on: {file_system}\n\
         - runs: {rounds} rounds of {seconds} s; median (lowest–highest)\n"
    );
    for contender in &setting.contenders {
        writeln!(summary, "- contender: {contender}")?;
    }
    for skipped in &setting.skipped {
        writeln!(summary, "- skipped: {skipped}")?;
    }
    for load in McpLoad::ALL {
        let name = load.name();
        write!(summary, "\n## {}{}\n\n{}", name[..1].to_uppercase(), &name[1..], of_load(records, load)?)?;
    }
    write!(summary, "\n## Memory, when the calls are done\n\n{}", of_memory(memory)?)?;
    write!(summary, "\n## What a room adds, as shares of what a proxy adds\n\n{}", of_targets(records)?)?;
    write!(summary, "\n## Targets\n\n{}", targets::table(&targets(records))?)?;
    save_run(directory, setting, &lines, &summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(load: McpLoad, way: McpWay, p50_us: f64, calls_per_second: f64) -> McpRecord {
        let (cpu_us_per_call, children_cpu_us_per_call) = (1.0, 1.0);
        McpRecord {
            load,
            way,
            round: 1,
            calls: 1,
            calls_per_second,
            p50_us,
            p99_us: p50_us,
            cpu_us_per_call,
            children_cpu_us_per_call,
        }
    }

    /// Rounds in which a direct call takes 0.1 ms and one by supergateway 1 ms.
    fn judged(salon_us: f64, ten_clients: f64) -> Vec<bool> {
        let mut records = Vec::new();
        for load in McpLoad::ALL {
            let ways = [(McpWay::Direct, 100.0), (McpWay::Supergateway, 1000.0), (McpWay::Salon, salon_us)];
            records.extend(ways.map(|(way, p50)| record(load, way, p50, ten_clients)));
        }
        targets(&records).into_iter().map(|target| targets::show(&[target]).unwrap()).collect()
    }

    #[test]
    fn a_room_is_judged_by_what_it_adds_and_by_ten_clients() {
        assert_eq!(judged(500.0, 3500.0), [true; 5]);
        assert_eq!(judged(540.0, 3400.0), [true, true, true, false, false]);
        assert_eq!(judged(560.0, 3500.0), [false, false, false, false, true]);
    }

    #[test]
    fn without_supergateway_its_targets_are_not_met() {
        let records = [McpWay::Direct, McpWay::Salon].map(|way| record(McpLoad::OneByOne, way, 100.0, 1.0));
        assert!(!targets::show(&targets(&records)[..1]).unwrap());
    }
}
