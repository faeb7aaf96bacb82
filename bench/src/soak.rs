//! Hours of steady load with retention running: whether memory, files and latencies stay as they are.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::contender::{Contender, ContenderServer};
use crate::load::{LoadCrowd, LoadRole};
use crate::options::BenchOptions;
use crate::plot::{PlotPanel, svg};
use crate::procfs::{CpuClock, file_bytes, resident_kib};
use crate::room::{PublishPace, Until};
use crate::scenario::{Figure, Figures, MAX_HANDSHAKES, MESSAGE, ONE_SECOND, Regime, Scenario, micros, topic};
use crate::session::BenchRun;
use crate::stats::{Spread, percentile};
use crate::targets::{self, PerformanceTarget};
use crate::wire::{FrameFormat, MessageSort, MessageTemplate};

const ROOMS: usize = 20;
const READERS: usize = 9;
/// Messages a second, over all rooms.
const RATE: u32 = 200;
const MIB: f64 = 1024.0 * 1024.0;
/// How many times as much as in the second quarter of a run there may be in the last: of memory and files, and of the p99.
const MAX_GROWTH: f64 = 1.1;
const MAX_SLOWDOWN: f64 = 1.5;

/// How long messages are kept, and how often a sample is taken.
fn times(quick: bool) -> (&'static str, Duration) {
    if quick { ("5s", ONE_SECOND) } else { ("5m", 10 * ONE_SECOND) }
}

/// What was seen at one time.
struct SoakSample {
    seconds: f64,
    resident_mib: f64,
    database_mib: f64,
    wal_mib: f64,
    files_mib: f64,
    messages: u64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    cpu_us_per_delivery: f64,
}

impl SoakSample {
    const HEAD: &'static str =
        "seconds\trss_mib\tdatabase_mib\twal_mib\tfiles_mib\tmessages\tp50_us\tp99_us\tmax_us\tcpu_us_per_delivery\n";

    fn line(&self) -> String {
        let Self { seconds, resident_mib, database_mib, wal_mib, files_mib, messages, p50_us, p99_us, max_us, .. } =
            self;
        let cpu = self.cpu_us_per_delivery;
        format!(
            "{seconds:.0}\t{resident_mib:.2}\t{database_mib:.2}\t{wal_mib:.2}\t{files_mib:.2}\t{messages}\t{p50_us:.0}\t{p99_us:.0}\t\
             {max_us:.0}\t{cpu:.3}\n"
        )
    }
}

/// Runs the load and writes `samples.tsv` and `soak.svg` beside the report, after each sample what there is.
#[expect(clippy::print_stdout, reason = "progress is shown as it comes")]
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let mut session = BenchRun::open(options, &[Contender::Salon], "-soak")?;
    let salon = session.contender(Contender::Salon).context("no gateway was found")?;
    let (age, interval) = times(options.quick);
    let mut server = salon.start_with(&["--retention-age", age])?;
    server.wait_until_ready()?;
    fs::create_dir_all(&session.directory)?;
    let title = format!(
        "{ROOMS} rooms of {}, {RATE} messages a second, kept for {age}; {}, {}",
        READERS + 1,
        session.report.setting.commit,
        session.report.setting.date
    );
    println!("load: {title}");
    let mut samples: Vec<SoakSample> = Vec::new();
    let outcome = soak(&server, options.duration, interval, |sample| {
        print!("{}", if samples.is_empty() { SoakSample::HEAD } else { "" });
        print!("{}", sample.line());
        samples.push(sample);
        let table: String = samples.iter().map(SoakSample::line).collect();
        fs::write(session.directory.join("samples.tsv"), format!("{}{table}", SoakSample::HEAD))?;
        Ok(fs::write(session.directory.join("soak.svg"), picture(&title, &samples))?)
    });
    let figures = outcome.with_context(|| server.last_words()).and_then(|()| figures(&samples));
    let case = format!("{ROOMS} rooms of {}", READERS + 1);
    session.note(Scenario::Soak, &case, Regime::Paced, 1, figures)?;
    session.show(Scenario::Soak)?;
    println!("{}", drift(&samples)?);
    let has_met = targets::show(&drift_targets(&samples))?;
    let has_void = session.finish()?.has_void();
    // A short run says nothing of the targets.
    Ok(!has_void && (has_met || options.quick))
}

fn soak(
    server: &ContenderServer,
    length: Duration,
    interval: Duration,
    mut note: impl FnMut(SoakSample) -> Result<()>,
) -> Result<()> {
    let mut crowd = LoadCrowd::new(FrameFormat::WebSocket)?;
    for at in 0..ROOMS {
        let name = topic(at);
        let sort = MessageSort::Notification;
        let message = MessageTemplate::new(FrameFormat::WebSocket, &name, sort, "publisher", "", MESSAGE);
        let room = crowd.add_room(message, None);
        crowd.add_client(room, LoadRole::Publisher, server.greeting(&name, "publisher", None)?);
        for reader in 0..READERS {
            crowd.add_client(room, LoadRole::Reader, server.greeting(&name, &format!("reader-{reader}"), None)?);
        }
    }
    crowd.connect(MAX_HANDSHAKES)?;
    let start = Instant::now();
    while start.elapsed() < length {
        let clock = CpuClock::start(server.pid())?;
        let delivered = crowd.run(PublishPace::Steady(ONE_SECOND / RATE), Until::Elapsed(interval), || Ok(()))?;
        if delivered.deliveries == 0 {
            bail!("nothing was delivered");
        }
        let cpu = micros(clock.elapsed()?) / delivered.deliveries as f64;
        let at =
            |p| percentile(&delivered.latencies, p).map(|nanos| nanos as f64 / 1000.0).context("nothing was timed");
        let files = file_bytes(&server.data_directory())?;
        let mib = |is_wanted: &dyn Fn(&str) -> bool| {
            let bytes: u64 = files.iter().filter(|(name, _)| is_wanted(name)).map(|(_, bytes)| bytes).sum();
            bytes as f64 / MIB
        };
        note(SoakSample {
            seconds: start.elapsed().as_secs_f64(),
            resident_mib: resident_kib(server.pid())? as f64 / 1024.0,
            database_mib: mib(&|name| name.ends_with(".db")),
            wal_mib: mib(&|name| name.ends_with("-wal")),
            files_mib: mib(&|_| true),
            messages: delivered.messages,
            p50_us: at(0.5)?,
            p99_us: at(0.99)?,
            max_us: at(1.0)?,
            cpu_us_per_delivery: cpu,
        })?;
    }
    Ok(())
}

fn picture(title: &str, samples: &[SoakSample]) -> String {
    let line = |figure: SampleReader| samples.iter().map(figure).collect::<Vec<_>>();
    let panels = [
        PlotPanel { title: "resident memory, MiB", lines: vec![("RSS", line(|s| s.resident_mib))] },
        PlotPanel {
            title: "files, MiB",
            lines: vec![
                ("all", line(|s| s.files_mib)),
                ("database", line(|s| s.database_mib)),
                ("WAL", line(|s| s.wal_mib)),
            ],
        },
        PlotPanel { title: "latency, µs", lines: vec![("p50", line(|s| s.p50_us)), ("p99", line(|s| s.p99_us))] },
        PlotPanel { title: "CPU, µs a delivery", lines: vec![("CPU", line(|s| s.cpu_us_per_delivery))] },
    ];
    svg(title, &line(|s| s.seconds), &panels)
}

type SampleReader = fn(&SoakSample) -> f64;

fn median(samples: &[SoakSample], figure: SampleReader) -> Result<f64> {
    Ok(Spread::of(samples.iter().map(figure).collect()).context("no samples")?.median)
}

fn figures(samples: &[SoakSample]) -> Result<Figures> {
    let last = samples.last().context("no samples")?;
    let half = samples.len() / 2;
    let peak = |samples: &[SoakSample]| samples.iter().map(|sample| sample.resident_mib).fold(0.0, f64::max);
    Ok(Figures::from([
        (Figure::CpuUsPerDelivery, median(samples, |s| s.cpu_us_per_delivery)?),
        (Figure::P50Us, median(samples, |s| s.p50_us)?),
        (Figure::P99Us, median(samples, |s| s.p99_us)?),
        (Figure::PeakRssMib, peak(samples)),
        (Figure::RssGrowthMib, peak(&samples[half..]) - peak(&samples[..half.max(1)])),
        (Figure::FilesMib, last.files_mib),
        (Figure::Messages, samples.iter().map(|sample| sample.messages as f64).sum()),
        (Figure::WallSeconds, last.seconds),
    ]))
}

/// The median of a figure in the second and in the last quarter, if there are enough samples.
fn quarters(samples: &[SoakSample], figure: SampleReader) -> Option<(f64, f64)> {
    let quarter = samples.len() / 4;
    let second = median(samples.get(quarter..2 * quarter)?, figure).ok()?;
    Some((second, median(&samples[samples.len() - quarter..], figure).ok()?))
}

/// Whether a run leaves the gateway as it was.
fn drift_targets(samples: &[SoakSample]) -> Vec<PerformanceTarget> {
    let target = |what: &str, limit, figure: SampleReader| {
        let times = quarters(samples, figure).map(|(second, last)| last / second);
        PerformanceTarget::at_most(what, limit, "× in the last quarter", times)
    };
    vec![
        target("soak, resident memory", MAX_GROWTH, |s| s.resident_mib),
        target("soak, all files", MAX_GROWTH, |s| s.files_mib),
        target("soak, p99", MAX_SLOWDOWN, |s| s.p99_us),
    ]
}

/// The last quarter beside the second: the first is needed to fill rings, caches and the time that messages are kept.
fn drift(samples: &[SoakSample]) -> Result<String> {
    let mut out = String::new();
    let all: [(&str, SampleReader); 4] = [
        ("RSS MiB", |s| s.resident_mib),
        ("files MiB", |s| s.files_mib),
        ("p50 µs", |s| s.p50_us),
        ("p99 µs", |s| s.p99_us),
    ];
    for (name, figure) in all {
        let Some((early, late)) = quarters(samples, figure) else {
            return Ok("too short to tell a drift".to_owned());
        };
        writeln!(out, "{name}: {early:.1} in the second quarter, {late:.1} in the last")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sample for each value, which is the memory, the files and the p99 of it.
    fn samples(values: &[f64]) -> Vec<SoakSample> {
        let sample = |(at, &value): (usize, &f64)| SoakSample {
            seconds: at as f64,
            resident_mib: value,
            database_mib: value,
            wal_mib: 0.0,
            files_mib: value,
            messages: 1,
            p50_us: value,
            p99_us: value,
            max_us: value,
            cpu_us_per_delivery: 1.0,
        };
        values.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn the_last_quarter_is_judged_by_the_second() {
        // The first quarter fills caches and counts for nothing.
        let verdicts = |last| {
            let samples = samples(&[1.0, 1.0, 100.0, 100.0, 500.0, 500.0, last, last]);
            drift_targets(&samples).into_iter().map(|target| targets::show(&[target]).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(110.0), [true, true, true]);
        assert_eq!(verdicts(120.0), [false, false, true]);
        assert_eq!(verdicts(151.0), [false, false, false]);
    }

    #[test]
    fn a_run_without_four_samples_is_not_judged() {
        assert!(!targets::show(&drift_targets(&samples(&[1.0, 1.0, 1.0]))).unwrap());
        assert_eq!(drift(&samples(&[1.0])).unwrap(), "too short to tell a drift");
    }
}
