//! The stage of a run: one server, its clients, and what is read off it under each load.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::contender::ContenderServer;
use crate::load::{Delivered, LoadCrowd, LoadRole};
use crate::procfs::{CpuClock, resident_kib};
use crate::room::{PublishPace, Until};
use crate::scenario::{
    CALL, Effort, Figure, Figures, MAX_HANDSHAKES, MESSAGE, ONE_SECOND, WARM_UP, micros, topic, wait_figures,
};
use crate::stats::percentile;
use crate::wire::{MessageSort, MessageTemplate, envelope_id};

const STALLED_MESSAGE: usize = 4096;

/// A server, its clients and what it held before they came.
pub(crate) struct BenchStage<'a> {
    server: &'a ContenderServer,
    crowd: LoadCrowd,
    empty_kib: u64,
    connections: usize,
}

impl<'a> BenchStage<'a> {
    pub(crate) fn new(server: &'a ContenderServer) -> Result<Self> {
        let crowd = LoadCrowd::new(server.contender.wire())?;
        Ok(Self { server, crowd, empty_kib: resident_kib(server.pid())?, connections: 0 })
    }

    /// A room with its publisher.
    fn room(&mut self, calls: bool, size: usize) -> Result<usize> {
        let wire = self.server.contender.wire();
        let at = self.crowd.rooms();
        let sort = if calls { MessageSort::Request } else { MessageSort::Notification };
        let message = MessageTemplate::new(wire, &topic(at), sort, "publisher", "callee", size);
        let answer =
            calls.then(|| MessageTemplate::new(wire, &topic(at), MessageSort::Response, "callee", "publisher", size));
        let at = self.crowd.add_room(message, answer);
        self.client(at, LoadRole::Publisher, "publisher", None)?;
        Ok(at)
    }

    fn client(&mut self, room: usize, role: LoadRole, id: &str, after: Option<&str>) -> Result<()> {
        let greeting = self.server.greeting(&topic(room), id, after)?;
        self.crowd.add_client(room, role, greeting);
        self.connections += 1;
        Ok(())
    }

    fn readers(&mut self, room: usize, count: usize, after: Option<&str>) -> Result<()> {
        (0..count).try_for_each(|at| self.client(room, LoadRole::Reader, &format!("reader-{at}"), after))
    }

    /// One message in each room: when everybody has it, whatever was on its way before has arrived too.
    fn settle(&mut self) -> Result<()> {
        self.crowd.run(PublishPace::Window(1), Until::Sent(1), || Ok(())).map(drop)
    }

    fn kib_per_connection(&self) -> Result<f64> {
        let kib = resident_kib(self.server.pid())?.saturating_sub(self.empty_kib);
        Ok(kib as f64 / self.connections as f64)
    }

    /// Fills rooms with a publisher and so many others each, and waits until everybody is there; with `calls` one of the others answers.
    pub(crate) fn gather(&mut self, rooms: usize, others: usize, calls: bool) -> Result<()> {
        for _ in 0..rooms {
            let room = self.room(calls, if calls { CALL } else { MESSAGE })?;
            if calls {
                self.client(room, LoadRole::Callee, "callee", None)?;
            }
            self.readers(room, others - usize::from(calls), None)?;
        }
        self.crowd.connect(MAX_HANDSHAKES)?;
        self.settle()
    }

    /// Measures everybody who is there at `pace`, after a warm-up.
    pub(crate) fn traffic(&mut self, pace: PublishPace, duration: Duration) -> Result<Figures> {
        self.crowd.run(pace, Until::Elapsed(WARM_UP), || Ok(()))?;
        let (server, generator) = (CpuClock::start(self.server.pid())?, CpuClock::start(std::process::id())?);
        let delivered = self.crowd.run(pace, Until::Elapsed(duration), || Ok(()))?;
        let (server, generator) = (server.elapsed()?, generator.elapsed()?);
        let mut figures = delivery_figures(&delivered)?;
        figures.insert(Figure::CpuUsPerDelivery, micros(server) / delivered.deliveries as f64);
        figures.insert(Figure::CpuUsPerMessage, micros(server) / delivered.messages as f64);
        figures.insert(Figure::ServerCpuSeconds, server.as_secs_f64());
        figures.insert(Figure::GeneratorCpuSeconds, generator.as_secs_f64());
        figures.insert(Figure::RssKibPerConnection, self.kib_per_connection()?);
        if matches!(pace, PublishPace::Scheduled(_)) {
            figures.insert(Figure::MaxUs, delivered.longest as f64 / 1000.0);
            let late = percentile(&delivered.late, 0.99).context("nothing was sent")?;
            figures.insert(Figure::LateP99Us, late as f64 / 1000.0);
        }
        Ok(figures)
    }

    pub(crate) fn idle(&mut self, rooms: usize, each: usize, effort: Effort) -> Result<Figures> {
        for _ in 0..rooms {
            let room = self.room(false, MESSAGE)?;
            self.readers(room, each - 1, None)?;
        }
        self.crowd.connect(MAX_HANDSHAKES)?;
        self.settle()?;
        let clock = CpuClock::start(self.server.pid())?;
        self.crowd.listen(effort.duration, |_| false)?;
        let idle = micros(clock.elapsed()?) / self.connections as f64 / effort.duration.as_secs_f64();
        Ok(Figures::from([
            (Figure::RssKibPerConnection, self.kib_per_connection()?),
            (Figure::PeakRssMib, resident_kib(self.server.pid())? as f64 / 1024.0),
            (Figure::CpuUsPerIdleConnectionSecond, idle),
        ]))
    }

    pub(crate) fn fill(&mut self, rooms: usize, each: usize) -> Result<Figures> {
        for _ in 0..rooms {
            let room = self.room(false, MESSAGE)?;
            self.readers(room, each - 1, None)?;
        }
        let (clock, start) = (CpuClock::start(self.server.pid())?, Instant::now());
        let live = self.crowd.connect(MAX_HANDSHAKES)?;
        let wall = start.elapsed();
        self.settle()?;
        let cpu = micros(clock.elapsed()?);
        Ok(Figures::from([
            (Figure::CpuUsPerJoin, cpu / live.len() as f64),
            (Figure::JoinsPerSecond, live.len() as f64 / wall.as_secs_f64()),
            (Figure::RssKibPerConnection, self.kib_per_connection()?),
        ]))
    }

    pub(crate) fn enter(&mut self, rooms: usize, present: usize, joins: usize) -> Result<Figures> {
        for _ in 0..rooms {
            let room = self.room(false, MESSAGE)?;
            self.readers(room, present - 1, None)?;
        }
        self.crowd.connect(MAX_HANDSHAKES)?;
        self.settle()?;
        let mut told = self.crowd.strangers();
        let mut waits = Vec::new();
        let clock = CpuClock::start(self.server.pid())?;
        for join in 0..joins {
            for room in 0..rooms {
                self.client(room, LoadRole::Reader, &format!("late-{join}"), None)?;
                waits.extend(self.crowd.connect(1)?.into_iter().map(|wait| wait.as_nanos() as u64));
                // Only Salon tells those present; the others have nothing to wait for.
                if self.server.contender.is_gateway() {
                    told += (present + join) as u64;
                    self.crowd.listen(5 * ONE_SECOND, |heard| heard >= told)?;
                }
            }
        }
        // Everybody has been told by now, so there is nothing left to arrive.
        let cpu = micros(clock.elapsed()?);
        let mut figures = wait_figures(waits)?;
        figures.insert(Figure::CpuUsPerJoin, cpu / (joins * rooms) as f64);
        Ok(figures)
    }

    pub(crate) fn stalled(&mut self, healthy: usize, stalled: usize, effort: Effort) -> Result<Figures> {
        let room = self.room(false, STALLED_MESSAGE)?;
        self.readers(room, healthy, None)?;
        (0..stalled).try_for_each(|at| self.client(room, LoadRole::Stalled, &format!("stalled-{at}"), None))?;
        self.crowd.connect(MAX_HANDSHAKES)?;
        self.settle()?;
        let pid = self.server.pid();
        let duration = effort.duration * if effort.quick { 2 } else { 4 };
        let (start, mut early, mut late) = (Instant::now(), 0, 0);
        let delivered = self.crowd.run(PublishPace::Steady(ONE_SECOND / 2000), Until::Elapsed(duration), || {
            let peak = if start.elapsed() < duration / 2 { &mut early } else { &mut late };
            *peak = resident_kib(pid)?.max(*peak);
            Ok(())
        })?;
        let mut figures = delivery_figures(&delivered)?;
        figures.insert(Figure::PeakRssMib, early.max(late) as f64 / 1024.0);
        figures.insert(Figure::RssGrowthMib, (late as f64 - early as f64) / 1024.0);
        Ok(figures)
    }

    pub(crate) fn reconnect(&mut self, rooms: usize, each: usize) -> Result<Figures> {
        for _ in 0..rooms {
            let room = self.room(false, MESSAGE)?;
            self.readers(room, each, None)?;
        }
        self.crowd.connect(MAX_HANDSHAKES)?;
        self.settle()?;
        self.crowd.retire_readers();
        let seen = envelope_id(MessageSort::Notification, 0);
        (0..rooms).try_for_each(|room| self.readers(room, each, Some(&seen)))?;
        let (clock, start) = (CpuClock::start(self.server.pid())?, Instant::now());
        let live = self.crowd.connect(usize::MAX)?;
        self.settle()?;
        let (cpu, all) = (micros(clock.elapsed()?), start.elapsed());
        let mut figures = wait_figures(live.iter().map(|wait| wait.as_nanos() as u64).collect())?;
        figures.insert(Figure::AllLiveMs, all.as_secs_f64() * 1000.0);
        figures.insert(Figure::CpuUsPerJoin, cpu / live.len() as f64);
        Ok(figures)
    }
}

fn delivery_figures(delivered: &Delivered) -> Result<Figures> {
    let wall = delivered.wall.as_secs_f64();
    let mut figures = wait_figures(delivered.latencies.clone())?;
    figures.extend([
        (Figure::DeliveriesPerSecond, delivered.deliveries as f64 / wall),
        (Figure::MessagesPerSecond, delivered.messages as f64 / wall),
        (Figure::Messages, delivered.messages as f64),
        (Figure::Deliveries, delivered.deliveries as f64),
        (Figure::WallSeconds, wall),
    ]);
    Ok(figures)
}
