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

/// Messages a second in many rooms together, where it is found out what a single message costs.
const SINGLE_RATE: u32 = 1000;
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
    for plan in plans(&options.scenarios, &[16], session.effort) {
        let Some(case) = TailCase::of(plan) else { continue };
        if !session.has_room_for(&case.plan) {
            continue;
        }
        for round in 1..=options.rounds {
            let salon = session.contender(Contender::Salon).context("no gateway was found")?;
            for record in case.measure(salon, options, round)? {
                session.keep(record);
            }
        }
        let BenchPlan { scenario, case, .. } = case.plan;
        println!("\n{}\n{}", scenario.name(), session.report.table(|r| r.scenario == scenario && r.case == case)?);
        session.report.save(&session.directory)?;
    }
    let report = session.finish()?;
    let has_met = targets::show(&targets::tail_targets(&report))?;
    // A short run says nothing of the targets.
    Ok(!report.has_void() && (has_met || options.quick))
}

/// A crowd that is measured with single messages, for what one costs, and then at half load.
struct TailCase {
    plan: BenchPlan,
    crowd: (usize, usize, bool),
}

impl TailCase {
    /// The case that a saturated plan of `run` is.
    fn of(mut plan: BenchPlan) -> Option<Self> {
        let LoadShape::Traffic { rooms, others, calls, .. } = plan.shape else { return None };
        if plan.regime != Regime::Saturated {
            return None;
        }
        if plan.scenario == Scenario::Append {
            plan.case = "a publisher alone".to_owned();
        }
        Some(Self { plan, crowd: (rooms, others, calls) })
    }

    /// One record of the run with single messages, and one of the run at half load.
    fn measure(&self, salon: &Installed, options: &BenchOptions, round: u32) -> Result<Vec<RunRecord>> {
        let mut server = salon.start_with(&["--retention-age", RETENTION_AGE])?;
        server.wait_until_ready()?;
        let record = |regime, outcome: Result<Figures>| {
            let BenchPlan { scenario, case, .. } = &self.plan;
            let outcome = outcome.with_context(|| server.last_words());
            RunRecord::new(*scenario, case, (regime, None), salon.contender, round, outcome)
        };
        let mut stage = BenchStage::new(&server)?;
        let length = if options.quick { options.duration } else { 3 * ONE_SECOND };
        let (rooms, others, calls) = self.crowd;
        let (regime, pace) = match rooms {
            1 => (Regime::OneByOne, PublishPace::Window(1)),
            _ => (Regime::Paced, PublishPace::Scheduled(ONE_SECOND / SINGLE_RATE)),
        };
        let single = stage.gather(rooms, others, calls).and_then(|()| stage.traffic(pace, length));
        let rate = single.as_ref().ok().and_then(|figures| half_rate(figures, cores()));
        let mut records = vec![record(regime, single)];
        if let Some(rate) = rate {
            let half = half_load(&server, &mut stage, rate, options.duration);
            records.push(record(Regime::HalfLoad, half));
        }
        Ok(records)
    }
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

/// The messages a second that keep half of the cores busy, if each costs the gateway and the generator what a single one does.
fn half_rate(figures: &Figures, cores: f64) -> Option<f64> {
    let cpu = figures.get(&Figure::ServerCpuSeconds)? + figures.get(&Figure::GeneratorCpuSeconds)?;
    Some(0.5 * cores * figures.get(&Figure::Messages)? / cpu)
}

fn half_load(server: &ContenderServer, stage: &mut BenchStage<'_>, rate: f64, length: Duration) -> Result<Figures> {
    let mut figures = stage.traffic(PublishPace::Scheduled(Duration::from_secs_f64(1.0 / rate)), length)?;
    let bytes: u64 = file_bytes(&server.data_directory())?.into_values().sum();
    figures.insert(Figure::FilesMib, bytes as f64 / (1024.0 * 1024.0));
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_load_is_half_of_the_cores() {
        let figures = Figures::from([
            (Figure::ServerCpuSeconds, 2.0),
            (Figure::GeneratorCpuSeconds, 1.0),
            (Figure::Messages, 6000.0),
        ]);
        assert_eq!(half_rate(&figures, 2.0), Some(2000.0));
    }
}
