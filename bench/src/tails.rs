//! Latencies at half load with retention running: how much longer than the median the slowest messages take.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::contender::{Contender, ContenderServer, Installed};
use crate::options::BenchOptions;
use crate::procfs::file_bytes;
use crate::report::RunRecord;
use crate::room::PublishPace;
use crate::scenario::{BenchPlan, Figure, Figures, LoadShape, ONE_SECOND, Regime, Scenario, plans};
use crate::session::BenchRun;
use crate::stage::BenchStage;
use crate::targets;

/// Messages in flight in the one room of a saturated run.
const WINDOW: u32 = 16;
/// The same in each of many rooms.
const ROOM_WINDOW: u32 = 2;
/// The same of a publisher alone.
const APPEND_WINDOW: u32 = 64;
/// How long messages are kept: less than the time between two sweeps of retention, so that each sweep removes.
const RETENTION_AGE: &str = "20s";
/// How often a gateway applies retention.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Measures each case; says whether every run counts and every target was met.
#[expect(clippy::print_stdout, reason = "a command-line program talks on its terminal")]
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let mut session = BenchRun::open(options, &[Contender::Salon], "-tails")?;
    // Each record of a saturated run names its own.
    session.report.setting.windows.clear();
    println!("messages are kept for {RETENTION_AGE}");
    if options.duration < SWEEP_INTERVAL {
        println!("note: retention is applied every {SWEEP_INTERVAL:?}, so runs as short as these are without it");
    }
    for plan in plans(&options.scenarios, &[WINDOW], session.effort) {
        let Some(case) = TailCase::of(plan) else { continue };
        if !session.has_room_for(&case.saturated) {
            continue;
        }
        for round in 1..=options.rounds {
            let salon = session.contender(Contender::Salon).context("no gateway was found")?;
            for record in case.measure(salon, options, round)? {
                session.keep(record);
            }
        }
        let BenchPlan { scenario, case, .. } = case.saturated;
        println!("\n{}\n{}", scenario.name(), session.report.table(|r| r.scenario == scenario && r.case == case)?);
        session.report.save(&session.directory)?;
    }
    let report = session.finish()?;
    let has_met = targets::show(&targets::tail_targets(&report))?;
    // A short run says nothing of the targets.
    Ok(!report.has_void() && (has_met || options.quick))
}

/// A crowd that is measured saturated, for the rate, and then at half of that rate.
struct TailCase {
    saturated: BenchPlan,
    crowd: (usize, usize, bool),
    window: u32,
}

impl TailCase {
    /// The case that a saturated plan of `run` is, with a window of its own.
    fn of(mut plan: BenchPlan) -> Option<Self> {
        let LoadShape::Traffic { rooms, others, calls, pace } = &mut plan.shape else { return None };
        if plan.regime != Regime::Saturated {
            return None;
        }
        let window = match plan.scenario {
            Scenario::Rooms => ROOM_WINDOW,
            Scenario::Append => APPEND_WINDOW,
            _ => WINDOW,
        };
        *pace = PublishPace::Window(window);
        let crowd = (*rooms, *others, *calls);
        if plan.scenario == Scenario::Append {
            plan.case = "a publisher alone".to_owned();
        }
        Some(Self { saturated: plan, crowd, window })
    }

    /// One record of the saturated run, and one of the run at half of its rate.
    fn measure(&self, salon: &Installed, options: &BenchOptions, round: u32) -> Result<Vec<RunRecord>> {
        let mut server = salon.start_with(&["--retention-age", RETENTION_AGE])?;
        server.wait_until_ready()?;
        let record = |regime, window, outcome: Result<Figures>| {
            let BenchPlan { scenario, case, .. } = &self.saturated;
            let outcome = outcome.with_context(|| server.last_words());
            RunRecord::new(*scenario, case, (regime, window), salon.contender, round, outcome)
        };
        let mut stage = BenchStage::new(&server)?;
        let length = if options.quick { options.duration } else { 3 * ONE_SECOND };
        let (rooms, others, calls) = self.crowd;
        let saturated =
            stage.gather(rooms, others, calls).and_then(|()| stage.traffic(PublishPace::Window(self.window), length));
        let rate = saturated.as_ref().ok().and_then(|figures| figures.get(&Figure::MessagesPerSecond)).copied();
        let mut records = vec![record(Regime::Saturated, Some(self.window), saturated)];
        if let Some(rate) = rate {
            let half = half_load(&server, &mut stage, rate / 2.0, options.duration);
            records.push(record(Regime::HalfLoad, None, half));
        }
        Ok(records)
    }
}

fn half_load(server: &ContenderServer, stage: &mut BenchStage<'_>, rate: f64, length: Duration) -> Result<Figures> {
    let mut figures = stage.traffic(PublishPace::Scheduled(Duration::from_secs_f64(1.0 / rate)), length)?;
    let bytes: u64 = file_bytes(&server.data_directory())?.into_values().sum();
    figures.insert(Figure::FilesMib, bytes as f64 / (1024.0 * 1024.0));
    Ok(figures)
}
