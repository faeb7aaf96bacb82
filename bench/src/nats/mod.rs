//! What the distributed log costs: the same load on one gateway with SQLite, on one with NATS, and on three with three NATS servers, in turns
//! within a round. And what the number of topics costs.
//! Not measured: networks other than loopback; all of it shares one machine with the load generator.

pub(crate) mod site;
mod tables;
mod topics;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use crate::load::{LoadCrowd, LoadRole};
use crate::nats::site::{Shares, Site, SitePrograms, StoreSetup};
use crate::nats::topics::Census;
use crate::options::BenchOptions;
use crate::report::RunSetting;
use crate::room::{PublishPace, Until};
use crate::scenario::{CALL, MAX_HANDSHAKES, MESSAGE, WARM_UP, topic};
use crate::stats::percentile;
use crate::targets;
use crate::wire::{FrameFormat, MessageSort, MessageTemplate};

const READERS: usize = 100;
const CALLS_IN_FLIGHT: u32 = 64;
const BYSTANDERS: usize = 2;

/// What can be asked for alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NatsPart {
    Fanout,
    Calls,
    Topics,
}

impl NatsPart {
    pub(crate) const ALL: [Self; 3] = [Self::Fanout, Self::Calls, Self::Topics];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fanout => "fanout",
            Self::Calls => "calls",
            Self::Topics => "topics",
        }
    }

    fn loads(self) -> &'static [NatsLoad] {
        match self {
            Self::Fanout => &[NatsLoad::FanoutOneByOne, NatsLoad::FanoutSaturated],
            Self::Calls => &[NatsLoad::CallsOneByOne, NatsLoad::CallsSaturated],
            Self::Topics => &[],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum NatsLoad {
    FanoutOneByOne,
    FanoutSaturated,
    CallsOneByOne,
    CallsSaturated,
}

impl NatsLoad {
    const ALL: [Self; 4] = [Self::FanoutOneByOne, Self::FanoutSaturated, Self::CallsOneByOne, Self::CallsSaturated];

    fn name(self) -> String {
        match self {
            Self::FanoutOneByOne => format!("1 to {READERS}, one by one"),
            Self::FanoutSaturated => format!("1 to {READERS}, saturated"),
            Self::CallsOneByOne => "calls, one by one".to_owned(),
            Self::CallsSaturated => format!("calls, {CALLS_IN_FLIGHT} in flight"),
        }
    }

    fn is_calls(self) -> bool {
        matches!(self, Self::CallsOneByOne | Self::CallsSaturated)
    }

    fn pace(self, window: u32) -> PublishPace {
        PublishPace::Window(match self {
            Self::FanoutOneByOne | Self::CallsOneByOne => 1,
            Self::FanoutSaturated => window,
            Self::CallsSaturated => CALLS_IN_FLIGHT,
        })
    }
}

/// One run of one setup.
#[derive(Serialize)]
struct NatsRecord {
    load: NatsLoad,
    setup: StoreSetup,
    round: u32,
    #[serde(flatten)]
    figures: Option<NatsFigures>,
    /// Why the run counts for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    void: Option<String>,
}

#[derive(Serialize)]
struct NatsFigures {
    messages: u64,
    deliveries: u64,
    wall_seconds: f64,
    p50_us: f64,
    p99_us: f64,
    /// Of the gateways together, and of the NATS servers together.
    cpu_seconds: Shares,
    resident_mib: Shares,
}

impl NatsFigures {
    fn messages_per_second(&self) -> f64 {
        self.messages as f64 / self.wall_seconds
    }

    fn cpu_us_per_delivery(&self) -> Shares {
        self.cpu_seconds.times(1e6 / self.deliveries as f64)
    }

    fn cpu_us_per_message(&self) -> f64 {
        self.cpu_seconds.sum() * 1e6 / self.messages as f64
    }
}

/// Runs everything asked for, saving after each load what there is. Says whether every run counts and every target was met.
#[expect(clippy::print_stdout, reason = "tables are shown as they come")]
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let programs = SitePrograms::find(&options.salon, &options.nats)?;
    let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, &options.windows)?;
    setting.contenders.clone_from(&programs.versions);
    println!("machine: {}\ncommit: {}\ndata on: {}", setting.machine, setting.commit, setting.file_system);
    let directory =
        options.out.clone().unwrap_or_else(|| format!("bench/runs/{}-{}-nats", setting.date, setting.slug()).into());
    let mut records = Vec::new();
    let mut censuses = Vec::new();
    for part in NatsPart::ALL.into_iter().filter(|part| options.parts.contains(part)) {
        for &load in part.loads() {
            for round in 1..=options.rounds {
                for setup in StoreSetup::ALL {
                    let record = run_once(&programs, setup, load, round, options);
                    if let Some(reason) = &record.void {
                        println!("void: {}, {}: {reason}", load.name(), setup.name());
                    }
                    records.push(record);
                }
            }
            println!("\n{}\n{}", load.name(), tables::of_load(&records, load)?);
            tables::save(&directory, &setting, &records, &censuses)?;
        }
        if part == NatsPart::Topics {
            for &count in topics::steps(options.quick) {
                let census: Census = topics::measure(&programs, count, options.duration, options.quick)
                    .with_context(|| format!("with {count} topics"))?;
                println!("measured: {count} topics, made in {:.1} s", census.made_seconds);
                censuses.push(census);
                tables::save(&directory, &setting, &records, &censuses)?;
            }
            println!("\ntopics\n{}", tables::of_topics(&censuses)?);
        }
    }
    if !records.is_empty() {
        println!("\nwhat NATS adds\n{}", tables::of_additions(&records)?);
    }
    println!("written: {}", directory.display());
    let has_met = censuses.is_empty() || targets::show(&topics::targets(&censuses))?;
    // A short run says nothing of the targets.
    Ok(records.iter().all(|record| record.void.is_none()) && (has_met || options.quick))
}

fn run_once(
    programs: &SitePrograms,
    setup: StoreSetup,
    load: NatsLoad,
    round: u32,
    options: &BenchOptions,
) -> NatsRecord {
    let outcome = programs.start(setup).and_then(|site| run(&site, load, options).with_context(|| site.last_words()));
    match outcome {
        Ok(figures) => NatsRecord { load, setup, round, figures: Some(figures), void: None },
        Err(error) => NatsRecord { load, setup, round, figures: None, void: Some(format!("{error:#}")) },
    }
}

/// One room. Its clients take turns at the gateways: publishers and callers are at the first, callees at the second.
fn run(site: &Site, load: NatsLoad, options: &BenchOptions) -> Result<NatsFigures> {
    let topic = topic(0);
    let template = |sort, from, to, size| MessageTemplate::new(FrameFormat::WebSocket, &topic, sort, from, to, size);
    let mut crowd = LoadCrowd::new(FrameFormat::WebSocket)?;
    let mut clients = vec![("publisher".to_owned(), LoadRole::Publisher)];
    let (room, readers) = if load.is_calls() {
        clients.push(("callee".to_owned(), LoadRole::Callee));
        let answer = template(MessageSort::Response, "callee", "publisher", CALL);
        (crowd.add_room(template(MessageSort::Request, "publisher", "callee", CALL), Some(answer)), BYSTANDERS)
    } else {
        (crowd.add_room(template(MessageSort::Notification, "publisher", "", MESSAGE), None), READERS)
    };
    clients.extend((0..readers).map(|at| (format!("reader-{at}"), LoadRole::Reader)));
    // A gateway learns of a participant at another gateway a moment later, but when a participant enters it knows all before: so the
    // one who speaks to them comes last.
    for (at, (id, role)) in clients.iter().enumerate().rev() {
        if *role == LoadRole::Publisher {
            crowd.connect(MAX_HANDSHAKES)?;
        }
        crowd.add_client(room, *role, site.gateway(at).greeting(&topic, id, None)?);
    }
    crowd.connect(MAX_HANDSHAKES)?;
    // When everybody has this one, whatever was on its way before has arrived too.
    crowd.run(PublishPace::Window(1), Until::Sent(1), || Ok(()))?;
    let pace = load.pace(options.windows[0]);
    crowd.run(pace, Until::Elapsed(WARM_UP), || Ok(()))?;
    let clocks = site.clocks()?;
    let delivered = crowd.run(pace, Until::Elapsed(options.duration), || Ok(()))?;
    let cpu_seconds = clocks.elapsed()?;
    if delivered.deliveries == 0 {
        bail!("nothing was delivered");
    }
    let micros =
        |p| percentile(&delivered.latencies, p).map(|nanos| nanos as f64 / 1000.0).context("nothing was timed");
    Ok(NatsFigures {
        messages: delivered.messages,
        deliveries: delivered.deliveries,
        wall_seconds: delivered.wall.as_secs_f64(),
        p50_us: micros(0.5)?,
        p99_us: micros(0.99)?,
        cpu_seconds,
        resident_mib: site.resident_mib()?,
    })
}
