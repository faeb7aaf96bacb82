//! The scenarios: which crowds and loads are measured, and which figures a run gives.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::contender::ContenderServer;
use crate::room::PublishPace;
use crate::stage::BenchStage;
use crate::stats::percentile;

/// Bytes of an envelope, unless a scenario says otherwise.
pub(crate) const MESSAGE: usize = 256;
pub(crate) const CALL: usize = 320;
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);
/// Handshakes under way at a time, where the scenario is not about everybody coming at once.
pub(crate) const MAX_HANDSHAKES: usize = 64;
/// Messages in flight to all readers of a room together, at most.
const READER_BACKLOG: u32 = 640_000;
/// Deliveries a second to all readers of a room together, where it is paced.
const READER_RATE: u32 = 100_000;
/// Messages a second, over all rooms.
const MANY_ROOMS_RATE: u32 = 2000;
pub(crate) const ONE_SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    Fanout,
    Rooms,
    Calls,
    Append,
    Idle,
    Join,
    Stalled,
    Reconnect,
    /// From few readers of one room to many.
    Readers,
    /// From one room to many, with the same number of messages a second in all of them together.
    ManyRooms,
    /// Pages of histories from short to long.
    History,
    /// Topics that are stored and that nobody uses.
    StoredTopics,
    /// A gateway that starts with much in its store.
    Recovery,
    /// Hours of steady load.
    Soak,
}

impl Scenario {
    /// Those of `run`.
    pub(crate) const ALL: [Self; 8] =
        [Self::Fanout, Self::Rooms, Self::Calls, Self::Append, Self::Idle, Self::Join, Self::Stalled, Self::Reconnect];
    /// Those of `growth`.
    pub(crate) const GROWTH: [Self; 6] =
        [Self::Readers, Self::ManyRooms, Self::History, Self::StoredTopics, Self::Idle, Self::Join];

    /// Those of `tails`.
    pub(crate) const TAILS: [Self; 4] = [Self::Fanout, Self::Rooms, Self::Calls, Self::Append];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fanout => "fanout",
            Self::Rooms => "rooms",
            Self::Calls => "calls",
            Self::Append => "append",
            Self::Idle => "idle",
            Self::Join => "join",
            Self::Stalled => "stalled",
            Self::Reconnect => "reconnect",
            Self::Readers => "readers",
            Self::ManyRooms => "many-rooms",
            Self::History => "history",
            Self::StoredTopics => "stored-topics",
            Self::Recovery => "recovery",
            Self::Soak => "soak",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Regime {
    /// As much in flight as a bounded window allows.
    Saturated,
    /// The next when the last is done.
    OneByOne,
    /// A fixed, modest rate.
    Paced,
    /// Half of the messages a second of a saturated run, evenly spaced.
    HalfLoad,
}

impl Regime {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Saturated => "saturated",
            Self::OneByOne => "one by one",
            Self::Paced => "paced",
            Self::HalfLoad => "half load",
        }
    }
}

/// What is read off a run, in the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    CpuUsPerDelivery,
    CpuUsPerMessage,
    CpuUsPerJoin,
    CpuUsPerIdleConnectionSecond,
    CpuUsPerPage,
    DeliveriesPerSecond,
    MessagesPerSecond,
    JoinsPerSecond,
    P50Us,
    P99Us,
    MaxUs,
    LateP99Us,
    AllLiveMs,
    ReadyMs,
    FirstPageMs,
    RssKibPerConnection,
    RssKibPerTopic,
    RssMib,
    FilesMib,
    PeakRssMib,
    RssGrowthMib,
    Messages,
    Deliveries,
    WallSeconds,
    ServerCpuSeconds,
    GeneratorCpuSeconds,
}

impl Figure {
    /// Its heading in a table and its decimals; `None` for what only the raw numbers show.
    pub(crate) fn column(self) -> Option<(&'static str, usize)> {
        Some(match self {
            Self::CpuUsPerDelivery => ("CPU µs/delivery", 3),
            Self::CpuUsPerMessage => ("CPU µs/message", 1),
            Self::CpuUsPerJoin => ("CPU µs/join", 1),
            Self::CpuUsPerIdleConnectionSecond => ("CPU µs/idle connection/s", 2),
            Self::CpuUsPerPage => ("CPU µs/page", 1),
            Self::DeliveriesPerSecond => ("deliveries/s", 0),
            Self::MessagesPerSecond => ("messages/s", 0),
            Self::JoinsPerSecond => ("joins/s", 0),
            Self::P50Us => ("p50 µs", 0),
            Self::P99Us => ("p99 µs", 0),
            Self::MaxUs => ("maximum µs", 0),
            Self::LateP99Us => ("sent late, p99 µs", 0),
            Self::AllLiveMs => ("all live ms", 0),
            Self::ReadyMs => ("ready ms", 0),
            Self::FirstPageMs => ("first page ms", 1),
            Self::RssKibPerConnection => ("RSS KiB/connection", 1),
            Self::RssKibPerTopic => ("RSS KiB/topic", 2),
            Self::RssMib => ("RSS MiB", 1),
            Self::FilesMib => ("files MiB", 1),
            Self::PeakRssMib => ("peak RSS MiB", 1),
            Self::RssGrowthMib => ("late growth MiB", 1),
            Self::Messages
            | Self::Deliveries
            | Self::WallSeconds
            | Self::ServerCpuSeconds
            | Self::GeneratorCpuSeconds => return None,
        })
    }
}

pub(crate) type Figures = BTreeMap<Figure, f64>;

/// One thing to measure.
#[derive(Clone, Debug)]
pub(crate) struct BenchPlan {
    pub(crate) scenario: Scenario,
    pub(crate) case: String,
    pub(crate) regime: Regime,
    pub(crate) shape: LoadShape,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LoadShape {
    /// Rooms with a publisher and so many others each; with `calls` one of the others answers.
    Traffic { rooms: usize, others: usize, calls: bool, pace: PublishPace },
    /// So many connections that nobody uses.
    Idle { rooms: usize, each: usize },
    /// Rooms are filled, one after the other, many handshakes at a time.
    Fill { rooms: usize, each: usize },
    /// Into rooms with so many present, one joins after the other.
    Enter { rooms: usize, present: usize, joins: usize },
    /// Healthy readers next to some that never read.
    Stalled { healthy: usize, stalled: usize },
    /// Everybody connects again at once while the old connections are still open.
    Reconnect { rooms: usize, each: usize },
}

/// How long and how hard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) duration: Duration,
    pub(crate) quick: bool,
}

/// Everything to measure for these scenarios; a saturated fan-out once with each window.
pub(crate) fn plans(scenarios: &[Scenario], windows: &[u32], effort: Effort) -> Vec<BenchPlan> {
    scenarios.iter().flat_map(|&scenario| plans_of(scenario, windows, effort)).collect()
}

fn plans_of(scenario: Scenario, windows: &[u32], effort: Effort) -> Vec<BenchPlan> {
    let plan = |case: String, regime, shape| BenchPlan { scenario, case, regime, shape };
    let every = |per_second: u32| PublishPace::Every(ONE_SECOND / per_second);
    match scenario {
        Scenario::Fanout => {
            let sizes: &[(usize, u32)] =
                if effort.quick { &[(10, 200), (100, 100)] } else { &[(10, 200), (100, 100), (1000, 20)] };
            let regimes = |&(others, rate): &(usize, u32)| {
                let saturated = windows.iter().map(|&window| (Regime::Saturated, PublishPace::Window(window)));
                let unsaturated = [(Regime::OneByOne, PublishPace::Window(1)), (Regime::Paced, every(rate))];
                saturated.chain(unsaturated).map(move |(regime, pace)| {
                    let shape = LoadShape::Traffic { rooms: 1, others, calls: false, pace };
                    plan(format!("1 to {others}"), regime, shape)
                })
            };
            sizes.iter().flat_map(regimes).collect()
        }
        Scenario::Rooms => [(Regime::Saturated, PublishPace::Window(16)), (Regime::Paced, every(1000))]
            .map(|(regime, pace)| {
                let shape = LoadShape::Traffic { rooms: 100, others: 9, calls: false, pace };
                plan("100 rooms of 10".to_owned(), regime, shape)
            })
            .to_vec(),
        Scenario::Calls => [2, 50]
            .into_iter()
            .flat_map(|bystanders| {
                [(Regime::Saturated, PublishPace::Window(64)), (Regime::OneByOne, PublishPace::Window(1))].map(
                    |(regime, pace)| {
                        let shape = LoadShape::Traffic { rooms: 1, others: bystanders + 1, calls: true, pace };
                        plan(format!("{bystanders} bystanders"), regime, shape)
                    },
                )
            })
            .collect(),
        Scenario::Append => [(Regime::Saturated, 64), (Regime::OneByOne, 1)]
            .map(|(regime, window)| {
                let shape = LoadShape::Traffic { rooms: 1, others: 0, calls: false, pace: PublishPace::Window(window) };
                plan(format!("{window} in flight"), regime, shape)
            })
            .to_vec(),
        Scenario::Idle => {
            let each = if effort.quick { 10 } else { 100 };
            vec![plan(format!("{} connections", 100 * each), Regime::Paced, LoadShape::Idle { rooms: 100, each })]
        }
        Scenario::Join => vec![
            plan("rooms filled to 100".to_owned(), Regime::Saturated, LoadShape::Fill { rooms: 20, each: 100 }),
            plan(
                "into rooms of 90 to 110".to_owned(),
                Regime::OneByOne,
                LoadShape::Enter { rooms: 10, present: 90, joins: if effort.quick { 2 } else { 20 } },
            ),
        ],
        Scenario::Stalled => [0, 50]
            .map(|stalled| {
                plan(
                    format!("20 healthy, {stalled} stalled"),
                    Regime::Paced,
                    LoadShape::Stalled { healthy: 20, stalled },
                )
            })
            .to_vec(),
        Scenario::Readers => {
            let sizes: &[usize] = if effort.quick { &[10, 100] } else { &[10, 100, 1000, 10_000] };
            let regimes = |&others: &usize| {
                // What is in flight to all readers together stays within what sockets hold.
                let most = READER_BACKLOG / others as u32;
                let window = move |&window: &u32| (Regime::Saturated, PublishPace::Window(window.min(most).max(2)));
                let rate = (READER_RATE / others as u32).clamp(5, 200);
                windows.iter().map(window).chain([(Regime::Paced, every(rate))]).map(move |(regime, pace)| {
                    let shape = LoadShape::Traffic { rooms: 1, others, calls: false, pace };
                    plan(format!("1 to {others}"), regime, shape)
                })
            };
            sizes.iter().flat_map(regimes).collect()
        }
        Scenario::ManyRooms => {
            let sizes: &[usize] = if effort.quick { &[1, 20] } else { &[1, 100, 1000, 10_000] };
            let shape = |&rooms: &usize| {
                let pace = PublishPace::Steady(ONE_SECOND / MANY_ROOMS_RATE);
                let shape = LoadShape::Traffic { rooms, others: 0, calls: false, pace };
                plan(format!("{rooms} rooms of 1"), Regime::Paced, shape)
            };
            sizes.iter().map(shape).collect()
        }
        // These are not of one server that is started afresh.
        Scenario::History | Scenario::StoredTopics | Scenario::Recovery | Scenario::Soak => Vec::new(),
        Scenario::Reconnect => [(1, 1000), (10, 100)]
            .map(|(rooms, each)| {
                let each = if effort.quick { each / 10 } else { each };
                plan(format!("{rooms} × {each}"), Regime::Saturated, LoadShape::Reconnect { rooms, each })
            })
            .to_vec(),
    }
}

impl BenchPlan {
    /// How many messages are in flight in each room, where the plan is to have that many.
    pub(crate) fn window(&self) -> Option<u32> {
        match (self.regime, self.shape) {
            (Regime::Saturated, LoadShape::Traffic { pace: PublishPace::Window(window), .. }) => Some(window),
            _ => None,
        }
    }

    /// Sockets that this process needs.
    pub(crate) fn connections(&self) -> usize {
        match self.shape {
            LoadShape::Traffic { rooms, others, .. } => rooms * (others + 1),
            LoadShape::Idle { rooms, each } | LoadShape::Fill { rooms, each } => rooms * each,
            LoadShape::Enter { rooms, present, joins } => rooms * (present + joins),
            LoadShape::Stalled { healthy, stalled } => 1 + healthy + stalled,
            LoadShape::Reconnect { rooms, each } => rooms * (2 * each + 1),
        }
    }

    /// Measures a freshly started server.
    pub(crate) fn measure(&self, server: &ContenderServer, effort: Effort) -> Result<Figures> {
        let mut stage = BenchStage::new(server)?;
        match self.shape {
            LoadShape::Traffic { rooms, others, calls, pace } => {
                stage.gather(rooms, others, calls)?;
                stage.traffic(pace, effort.duration)
            }
            LoadShape::Idle { rooms, each } => stage.idle(rooms, each, effort),
            LoadShape::Fill { rooms, each } => stage.fill(rooms, each),
            LoadShape::Enter { rooms, present, joins } => stage.enter(rooms, present, joins),
            LoadShape::Stalled { healthy, stalled } => stage.stalled(healthy, stalled, effort),
            LoadShape::Reconnect { rooms, each } => stage.reconnect(rooms, each),
        }
    }
}

pub(crate) fn topic(room: usize) -> String {
    format!("bench.{room}")
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(crate) fn wait_figures(mut waits: Vec<u64>) -> Result<Figures> {
    waits.sort_unstable();
    let at = |p| percentile(&waits, p).map(|nanos| nanos as f64 / 1000.0).context("nothing was timed");
    Ok(Figures::from([(Figure::P50Us, at(0.5)?), (Figure::P99Us, at(0.99)?)]))
}
