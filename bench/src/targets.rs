//! The targets, and whether a report meets them.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::contender::Contender::{Ceiling, Salon};
use crate::report::{BenchReport, lay_out};
use crate::scenario::Figure::{
    self, AllLiveMs, CpuUsPerDelivery, CpuUsPerJoin, CpuUsPerMessage, P50Us, P99Us, PeakRssMib, ReadyMs, RssGrowthMib,
    RssKibPerConnection, RssKibPerTopic,
};
use crate::scenario::Regime::{self, OneByOne, Paced, Saturated};
use crate::scenario::Scenario;

/// What fifty stalled readers may add to the gateway's memory in all, and what it may still grow by in the second half
/// of the run. Each of them is tens of MiB behind by then.
const STALLED_MIB: f64 = 16.0;
/// Latencies under this are not told apart.
const NOTICEABLE_US: f64 = 1000.0;
/// The longest p99 of a room that is not at its limit.
const MAX_TAIL_US: f64 = 10_000.0;

pub(crate) struct PerformanceTarget {
    what: String,
    limit: f64,
    measured: Option<f64>,
    unit: &'static str,
}

/// Shows targets and what was measured; says whether all were measured and met.
#[expect(clippy::print_stdout, reason = "a command-line program talks on its terminal")]
pub(crate) fn show(targets: &[PerformanceTarget]) -> Result<bool> {
    let mut rows = vec![["target", "limit", "measured", "", ""].map(str::to_owned).to_vec()];
    let mut good = true;
    for target in targets {
        let met = target.measured.map(|measured| measured <= target.limit);
        good &= met == Some(true);
        let verdict = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "NOT MEASURED",
        };
        let measured = target.measured.map_or_else(|| "–".to_owned(), |measured| format!("{measured:.2}"));
        rows.push(vec![
            target.what.clone(),
            format!("{:.2}", target.limit),
            measured,
            target.unit.to_owned(),
            verdict.to_owned(),
        ]);
    }
    println!("{}", lay_out(&rows)?);
    Ok(good)
}

/// The targets of `recovery`.
pub(crate) fn recovery_targets(report: &BenchReport) -> Vec<PerformanceTarget> {
    let cases: BTreeSet<&str> = report.records.iter().map(|record| &*record.case).collect();
    let target = |case: &str| PerformanceTarget {
        what: format!("recovery, {case}"),
        limit: if case.starts_with("SQLite") { 2000.0 } else { 5000.0 },
        measured: report.median(Scenario::Recovery, case, OneByOne, Salon, ReadyMs),
        unit: "ms to ready",
    };
    cases.into_iter().map(target).collect()
}

/// The targets of `growth`, of what was measured.
pub(crate) fn growth_targets(report: &BenchReport) -> Vec<PerformanceTarget> {
    let target = |what: &str, limit, unit, measured| PerformanceTarget { what: what.to_owned(), limit, measured, unit };
    let salon = |scenario, case: &str, regime, figure| report.median(scenario, case, regime, Salon, figure);
    let idle = salon(Scenario::Idle, "10000 connections", Paced, RssKibPerConnection);
    let topics = report.records.iter().find(|record| record.scenario == Scenario::StoredTopics);
    let stored = topics.and_then(|record| salon(Scenario::StoredTopics, &record.case, OneByOne, RssKibPerTopic));
    let join = salon(Scenario::Join, "rooms filled to 100", Saturated, CpuUsPerJoin);
    let all = [
        target("idle, 10000 connections", 6.0, "RSS KiB/connection", idle),
        target("join, rooms of 100", 100.0, "CPU µs/join", join),
        target("a stored topic that nobody uses", 0.5, "RSS KiB/topic", stored),
    ];
    all.into_iter().filter(|target| target.measured.is_some()).collect()
}

/// The targets of `run`.
pub(crate) fn run_targets(report: &BenchReport) -> Vec<PerformanceTarget> {
    let salon = |scenario, case: &str, regime, figure| report.median(scenario, case, regime, Salon, figure);
    let ratio_in = |scenario, case: &str, regime: Regime| {
        let ceiling = report.median(scenario, case, regime, Ceiling, CpuUsPerDelivery)?;
        Some(salon(scenario, case, regime, CpuUsPerDelivery)? / ceiling)
    };
    let ratio = |case: &str, regime: Regime| ratio_in(Scenario::Fanout, case, regime);
    let mut targets = Vec::new();
    let mut add = |what: &str, limit, unit, measured| {
        targets.push(PerformanceTarget { what: what.to_owned(), limit, measured, unit })
    };
    for case in ["1 to 100", "1 to 1000"] {
        add(&format!("fanout {case}, saturated"), 1.3, "× the ceiling's CPU", ratio(case, Saturated));
    }
    add(
        "fanout 1 to 10, saturated",
        1.0,
        "CPU µs/delivery",
        salon(Scenario::Fanout, "1 to 10", Saturated, CpuUsPerDelivery),
    );
    for case in ["1 to 100", "1 to 1000"] {
        add(&format!("fanout {case}, one by one"), 1.15, "× the ceiling's CPU", ratio(case, OneByOne));
    }
    let crowd = "100 rooms of 10";
    add("rooms 100 × 10, saturated", 1.3, "× the ceiling's CPU", ratio_in(Scenario::Rooms, crowd, Saturated));
    let append = salon(Scenario::Append, "64 in flight", Saturated, CpuUsPerMessage);
    add("append, 64 in flight", 8.0, "CPU µs/message", append);
    let fanouts = ["1 to 10", "1 to 100", "1 to 1000"].map(|case| (Scenario::Fanout, case));
    for (scenario, case) in fanouts.into_iter().chain([(Scenario::Rooms, crowd)]) {
        let tail = salon(scenario, case, Paced, P99Us);
        add(&format!("{} {case}, paced, p99", scenario.name()), MAX_TAIL_US, "µs", tail);
        let spread = tail.zip(salon(scenario, case, Paced, P50Us)).map(|(tail, middle)| tail / middle);
        add(&format!("{} {case}, paced, p99 ÷ p50", scenario.name()), 3.0, "×", spread);
    }
    let full = "rooms filled to 100";
    add("join, rooms of 100", 100.0, "CPU µs/join", salon(Scenario::Join, full, Saturated, CpuUsPerJoin));
    let idle = salon(Scenario::Idle, "10000 connections", Paced, RssKibPerConnection);
    add("idle, 10000 connections", 6.0, "RSS KiB/connection", idle);
    let stalled = |case: &str, figure: Figure| salon(Scenario::Stalled, case, Paced, figure);
    let (without, with) = ("20 healthy, 0 stalled", "20 healthy, 50 stalled");
    let added = stalled(with, PeakRssMib).zip(stalled(without, PeakRssMib)).map(|(with, without)| with - without);
    add("stalled readers, added memory", STALLED_MIB, "MiB", added);
    add("stalled readers, late growth", STALLED_MIB, "MiB", stalled(with, RssGrowthMib));
    let disturbed = stalled(with, P99Us)
        .zip(stalled(without, P99Us))
        .map(|(with, without)| with.max(NOTICEABLE_US) / without.max(NOTICEABLE_US));
    add("stalled readers, p99 of the healthy", 1.5, "× without them", disturbed);
    for case in ["1 × 1000", "10 × 100"] {
        let live = salon(Scenario::Reconnect, case, Saturated, AllLiveMs);
        add(&format!("reconnect {case}, all live"), 2000.0, "ms", live);
    }
    targets
}
