//! The targets, and whether a report meets them.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::contender::Contender::{Ceiling, Nats, Salon};
use crate::report::{BenchReport, lay_out};
use crate::scenario::Figure::{
    self, AllLiveMs, CpuUsPerDelivery, CpuUsPerJoin, CpuUsPerMessage, FirstPageMs, P50Us, P99Us, PeakRssMib, ReadyMs,
    RssGrowthMib, RssKibPerConnection, RssKibPerTopic,
};
use crate::scenario::Regime::{HalfLoad, OneByOne, Paced, Saturated};
use crate::scenario::Scenario;

/// What fifty stalled readers may add to the gateway's memory in all, and what it may still grow by in the second half
/// of the run. Each of them is tens of MiB behind by then.
const STALLED_MIB: f64 = 16.0;
/// Latencies under this are not distinguished.
const NOTICEABLE_US: f64 = 1000.0;
/// The CPU of a call that is alone on its way: half of what it was before the redesign.
const MAX_CALL_CPU_US: f64 = 300.0;
/// The longest p99 of a room at half load.
const MAX_TAIL_US: f64 = 10_000.0;
/// How many times as long as the median the p99 may be.
const MAX_TAIL_TIMES: f64 = 3.0;

/// The longest that the first page of a topic may take after a start.
const MAX_FIRST_PAGE_MS: f64 = 50.0;

pub(crate) struct PerformanceTarget {
    what: String,
    bound: TargetBound,
    limit: f64,
    measured: Option<f64>,
    unit: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TargetBound {
    AtMost,
    AtLeast,
}

impl PerformanceTarget {
    pub(crate) fn at_most(what: impl Into<String>, limit: f64, unit: &'static str, measured: Option<f64>) -> Self {
        Self { what: what.into(), bound: TargetBound::AtMost, limit, measured, unit }
    }

    pub(crate) fn at_least(what: impl Into<String>, limit: f64, unit: &'static str, measured: Option<f64>) -> Self {
        Self { bound: TargetBound::AtLeast, ..Self::at_most(what, limit, unit, measured) }
    }

    /// Whether it is met, if it was measured.
    fn is_met(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(match self.bound {
            TargetBound::AtMost => measured <= self.limit,
            TargetBound::AtLeast => measured >= self.limit,
        })
    }

    fn row(&self) -> Vec<String> {
        let bound = if self.bound == TargetBound::AtLeast { "at least " } else { "" };
        let measured = self.measured.map_or_else(|| "–".to_owned(), |measured| format!("{measured:.2}"));
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "NOT MEASURED",
        };
        let (what, limit) = (self.what.clone(), format!("{bound}{:.2}", self.limit));
        vec![what, limit, measured, self.unit.to_owned(), verdict.to_owned()]
    }
}

/// Targets and what was measured, as a table.
pub(crate) fn table(targets: &[PerformanceTarget]) -> Result<String> {
    let mut rows = vec![["target", "limit", "measured", "", ""].map(str::to_owned).to_vec()];
    rows.extend(targets.iter().map(PerformanceTarget::row));
    lay_out(&rows)
}

/// Shows targets and what was measured; says whether all were measured and met.
#[expect(clippy::print_stdout, reason = "a command-line program talks on its terminal")]
pub(crate) fn show(targets: &[PerformanceTarget]) -> Result<bool> {
    println!("{}", table(targets)?);
    Ok(targets.iter().all(|target| target.is_met() == Some(true)))
}

/// The targets of `recovery`.
pub(crate) fn recovery_targets(report: &BenchReport) -> Vec<PerformanceTarget> {
    let cases: BTreeSet<&str> = report.records.iter().map(|record| &*record.case).collect();
    let targets = |case: &str| {
        let what = format!("recovery, {case}");
        let of = |figure| report.median(Scenario::Recovery, case, OneByOne, Salon, figure);
        let ready = if case.starts_with("SQLite") { 2000.0 } else { 5000.0 };
        [
            PerformanceTarget::at_most(what.clone(), ready, "ms to ready", of(ReadyMs)),
            PerformanceTarget::at_most(what, MAX_FIRST_PAGE_MS, "ms for the first page", of(FirstPageMs)),
        ]
    };
    cases.into_iter().flat_map(targets).collect()
}

/// The targets of `growth`, of what was measured.
pub(crate) fn growth_targets(report: &BenchReport) -> Vec<PerformanceTarget> {
    let salon = |scenario, case: &str, regime, figure| report.median(scenario, case, regime, Salon, figure);
    let idle = salon(Scenario::Idle, "10000 connections", Paced, RssKibPerConnection);
    let topics = report.records.iter().find(|record| record.scenario == Scenario::StoredTopics);
    let stored = topics.and_then(|record| salon(Scenario::StoredTopics, &record.case, OneByOne, RssKibPerTopic));
    let join = salon(Scenario::Join, "rooms filled to 100", Saturated, CpuUsPerJoin);
    let all = [
        PerformanceTarget::at_most("idle, 10000 connections", 6.0, "RSS KiB/connection", idle),
        PerformanceTarget::at_most("join, rooms of 100", 100.0, "CPU µs/join", join),
        PerformanceTarget::at_most("a stored topic that nobody uses", 0.5, "RSS KiB/topic", stored),
    ];
    all.into_iter().filter(|target| target.measured.is_some()).collect()
}

/// The targets of `tails`, for each case that was measured.
pub(crate) fn tail_targets(report: &BenchReport) -> Vec<PerformanceTarget> {
    let mut cases: Vec<(Scenario, &str)> = Vec::new();
    for record in &report.records {
        let case = (record.scenario, &*record.case);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let targets = |(scenario, case): (Scenario, &str)| {
        let name = report.name_of(scenario, case, HalfLoad);
        let of = |figure| report.median(scenario, case, HalfLoad, Salon, figure);
        let times = of(P99Us).zip(of(P50Us)).map(|(tail, middle)| tail / middle);
        [
            PerformanceTarget::at_most(format!("{name}, p99"), MAX_TAIL_US, "µs", of(P99Us)),
            PerformanceTarget::at_most(format!("{name}, p99 ÷ p50"), MAX_TAIL_TIMES, "×", times),
        ]
    };
    cases.into_iter().flat_map(targets).collect()
}

/// The targets of `check`. Saturated fan-outs are judged by the smallest window that was measured.
pub(crate) fn run_targets(report: &BenchReport) -> Vec<PerformanceTarget> {
    let salon = |scenario, case: &str, regime, figure| report.median(scenario, case, regime, Salon, figure);
    let cpu = |scenario, case: &str, regime| salon(scenario, case, regime, CpuUsPerDelivery);
    let times = |other, scenario, case: &str, regime| {
        let other = report.median(scenario, case, regime, other, CpuUsPerDelivery)?;
        Some(cpu(scenario, case, regime)? / other)
    };
    let mut targets = Vec::new();
    let mut add =
        |what: &str, limit, unit, measured| targets.push(PerformanceTarget::at_most(what, limit, unit, measured));
    let (small, middle, large, crowd) = ("1 to 10", "1 to 100", "1 to 1000", "100 rooms of 10");
    let relative = [
        (Scenario::Fanout, small, Saturated, Nats, 1.0),
        (Scenario::Fanout, middle, Saturated, Ceiling, 1.3),
        (Scenario::Fanout, large, Saturated, Ceiling, 1.3),
        (Scenario::Fanout, middle, OneByOne, Ceiling, 1.15),
        (Scenario::Fanout, large, OneByOne, Ceiling, 1.15),
        (Scenario::Rooms, crowd, Saturated, Ceiling, 1.3),
    ];
    for (scenario, case, regime, other, limit) in relative {
        let unit = if other == Nats { "× the CPU of nats-server" } else { "× the ceiling's CPU" };
        add(&report.name_of(scenario, case, regime), limit, unit, times(other, scenario, case, regime));
    }
    let absolute = [
        (Scenario::Fanout, small, Saturated, 1.0),
        (Scenario::Fanout, middle, Saturated, 0.35),
        (Scenario::Fanout, large, Saturated, 0.4),
        (Scenario::Fanout, middle, OneByOne, 7.5),
        (Scenario::Rooms, crowd, Saturated, 2.5),
    ];
    for (scenario, case, regime, limit) in absolute {
        add(&report.name_of(scenario, case, regime), limit, "CPU µs/delivery", cpu(scenario, case, regime));
    }
    let append = salon(Scenario::Append, "64 in flight", Saturated, CpuUsPerMessage);
    add("append, 64 in flight", 8.0, "CPU µs/message", append);
    for (case, limit) in [("2 bystanders", 400.0), ("50 bystanders", 800.0)] {
        let middle = salon(Scenario::Calls, case, OneByOne, P50Us);
        add(&report.name_of(Scenario::Calls, case, OneByOne), limit, "µs p50", middle);
    }
    // With few bystanders: with many, most of it is what their deliveries cost.
    let call = salon(Scenario::Calls, "2 bystanders", OneByOne, CpuUsPerMessage);
    add(&report.name_of(Scenario::Calls, "2 bystanders", OneByOne), MAX_CALL_CPU_US, "CPU µs/call", call);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::contender::Contender;
    use crate::report::{RunRecord, RunSetting};
    use crate::scenario::{Figures, Regime};

    fn record(case: &str, regime: Regime, window: Option<u32>, contender: Contender, cpu: f64) -> RunRecord {
        let (figures, case) = (Figures::from([(CpuUsPerDelivery, cpu)]), case.to_owned());
        RunRecord { scenario: Scenario::Fanout, case, regime, window, contender, round: 1, figures, void: None }
    }

    fn report(records: Vec<RunRecord>) -> BenchReport {
        BenchReport { setting: RunSetting::new(1.0, 1, &[16, 512]).unwrap(), records }
    }

    /// The limit and the measured value of a target.
    fn found(targets: &[PerformanceTarget], what: &str, unit: &str) -> (f64, Option<f64>) {
        let named = |target: &&PerformanceTarget| (&*target.what, target.unit) == (what, unit);
        let target = targets.iter().find(named).unwrap_or_else(|| panic!("no target `{what}` in {unit}"));
        (target.limit, target.measured)
    }

    #[test]
    fn the_smallest_window_is_judged() {
        let mut records = Vec::new();
        for (window, cpu) in [(512, 0.2), (16, 0.8)] {
            records.push(record("1 to 10", Saturated, Some(window), Salon, cpu));
            records.push(record("1 to 10", Saturated, Some(window), Nats, 0.4));
            records.push(record("1 to 100", Saturated, Some(window), Salon, cpu));
            records.push(record("1 to 100", Saturated, Some(window), Ceiling, cpu / 2.0));
        }
        records.push(record("1 to 100", OneByOne, None, Salon, 6.0));
        let targets = run_targets(&report(records));
        let (small, middle) = ("fanout 1 to 10, saturated, window 16", "fanout 1 to 100, saturated, window 16");
        assert_eq!(found(&targets, small, "CPU µs/delivery"), (1.0, Some(0.8)));
        assert_eq!(found(&targets, small, "× the CPU of nats-server"), (1.0, Some(2.0)));
        assert_eq!(found(&targets, middle, "CPU µs/delivery"), (0.35, Some(0.8)));
        assert_eq!(found(&targets, middle, "× the ceiling's CPU"), (1.3, Some(2.0)));
        assert_eq!(found(&targets, "fanout 1 to 100, one by one", "CPU µs/delivery"), (7.5, Some(6.0)));
        assert_eq!(found(&targets, "fanout 1 to 100, one by one", "× the ceiling's CPU"), (1.15, None));
    }

    #[test]
    fn a_call_one_at_a_time_is_judged_by_its_cpu() {
        let call = RunRecord {
            scenario: Scenario::Calls,
            figures: Figures::from([(CpuUsPerMessage, 350.0)]),
            ..record("2 bystanders", OneByOne, None, Salon, 0.0)
        };
        let targets = run_targets(&report(vec![call]));
        assert_eq!(found(&targets, "calls 2 bystanders, one by one", "CPU µs/call"), (300.0, Some(350.0)));
    }

    #[test]
    fn a_start_is_judged_by_ready_and_by_the_first_page() {
        let start = |case: &str, ready, page| RunRecord {
            scenario: Scenario::Recovery,
            figures: Figures::from([(ReadyMs, ready), (FirstPageMs, page)]),
            ..record(case, OneByOne, None, Salon, 0.0)
        };
        let targets =
            recovery_targets(&report(vec![start("NATS, killed", 430.0, 486.0), start("SQLite, killed", 212.0, 0.6)]));
        assert_eq!(targets.len(), 4);
        assert_eq!(found(&targets, "recovery, NATS, killed", "ms to ready"), (5000.0, Some(430.0)));
        assert_eq!(found(&targets, "recovery, NATS, killed", "ms for the first page"), (50.0, Some(486.0)));
        assert!(!show(&targets[..2]).unwrap());
        assert!(show(&targets[2..]).unwrap());
    }

    #[test]
    fn a_target_can_be_a_lower_bound() {
        let calls = |measured| [PerformanceTarget::at_least("calls", 3500.0, "calls/s", measured)];
        assert!(show(&calls(Some(3500.0))).unwrap());
        assert!(!show(&calls(Some(3499.0))).unwrap());
        assert!(!show(&calls(None)).unwrap());
        assert!(table(&calls(None)).unwrap().contains("at least 3500.00"));
    }

    #[test]
    fn tails_are_judged_by_time_and_by_ratio() {
        let tail = |case: &str, middle, slow| {
            let figures = Figures::from([(P50Us, middle), (P99Us, slow)]);
            RunRecord { figures, ..record(case, HalfLoad, None, Salon, 0.0) }
        };
        // The saturated run before it gives the rate and is not judged.
        let saturated = RunRecord {
            figures: Figures::from([(P50Us, 1.0), (P99Us, 99_000.0)]),
            ..record("1 to 10", Saturated, Some(16), Salon, 0.0)
        };
        let failed = record("1 to 1000", Saturated, Some(16), Salon, 0.0);
        let records = vec![saturated, tail("1 to 10", 500.0, 1000.0), tail("1 to 100", 2000.0, 12_000.0), failed];
        let targets = tail_targets(&report(records));
        assert_eq!(targets.len(), 6);
        assert_eq!(found(&targets, "fanout 1 to 10, half load, p99", "µs"), (10_000.0, Some(1000.0)));
        assert_eq!(found(&targets, "fanout 1 to 10, half load, p99 ÷ p50", "×"), (3.0, Some(2.0)));
        assert_eq!(found(&targets, "fanout 1 to 100, half load, p99", "µs"), (10_000.0, Some(12_000.0)));
        assert_eq!(found(&targets, "fanout 1 to 1000, half load, p99", "µs"), (10_000.0, None));
        assert!(show(&targets[..2]).unwrap());
        assert!(!show(&targets[2..4]).unwrap());
        assert!(!show(&targets[4..]).unwrap());
    }

    #[test]
    fn a_run_from_before_windows_were_recorded_is_judged() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs/2026-11-15-epyc-2core");
        let report = BenchReport::load(&kept).unwrap();
        assert_eq!(report.setting.windows, [512]);
        let targets = run_targets(&report);
        assert!(targets.iter().all(|target| target.measured.is_some()));
        let (limit, measured) = found(&targets, "fanout 1 to 100, saturated, window 512", "CPU µs/delivery");
        assert_eq!((limit, format!("{:.3}", measured.unwrap())), (0.35, "0.154".to_owned()));
    }
}
