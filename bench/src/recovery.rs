//! How long a gateway with much in its store takes from its start until it accepts messages, after it was killed and after it was stopped.

use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::contender::{BenchScratch, Contender, ContenderServer};
use crate::growth::FLAGS;
use crate::history::{PageReader, Writers};
use crate::nats::site::SitePrograms;
use crate::options::BenchOptions;
use crate::procfs::{CpuClock, file_bytes, resident_kib};
use crate::scenario::{Figure, Figures, Regime, Scenario, topic};
use crate::session::BenchRun;
use crate::targets;

/// Topics, and messages in each.
fn size(quick: bool) -> (usize, u32) {
    if quick { (50, 200) } else { (1000, 1000) }
}

/// Fills stores and starts gateways on them; says whether every run counts and every target was met.
#[expect(clippy::print_stdout, reason = "what is skipped is shown as it comes")]
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let mut session = BenchRun::open(options, &[Contender::Salon], "-recovery")?;
    let nats = SitePrograms::find(&options.salon, &options.nats);
    match &nats {
        Ok(programs) => session.report.setting.contenders.extend(programs.versions.iter().skip(1).cloned()),
        Err(error) => session.report.setting.skipped.push(format!("NATS ({error:#})")),
    }
    for round in 1..=options.rounds {
        on_sqlite(&mut session, options.quick, round)?;
        if let Ok(programs) = &nats {
            on_nats(&mut session, programs, options.quick, round)?;
        }
        println!("done: round {round} of {}", options.rounds);
    }
    session.show(Scenario::Recovery)?;
    let report = session.finish()?;
    let has_met = targets::show(&targets::recovery_targets(&report))?;
    Ok(!report.has_void() && has_met)
}

fn on_sqlite(session: &mut BenchRun, quick: bool, round: u32) -> Result<()> {
    let data = Rc::new(BenchScratch::new()?);
    let salon = session.contender(Contender::Salon).context("no gateway was found")?;
    let start = || salon.start_in(data.clone(), &FLAGS);
    let outcomes = restarts(start, quick);
    note(session, "SQLite", quick, round, outcomes)
}

fn on_nats(session: &mut BenchRun, programs: &SitePrograms, quick: bool, round: u32) -> Result<()> {
    let site = programs.start_servers_alone(1)?;
    let data = Rc::new(BenchScratch::new()?);
    let start = || programs.begin_gateway(&site, data.clone(), &FLAGS);
    let outcomes = restarts(start, quick);
    note(session, "NATS", quick, round, outcomes)
}

fn note(
    session: &mut BenchRun,
    store: &str,
    quick: bool,
    round: u32,
    outcomes: Result<[(&'static str, Figures); 2]>,
) -> Result<()> {
    let (topics, entries) = size(quick);
    let case = |how: &str| format!("{store}, {topics} topics × {entries} entries, {how}");
    match outcomes {
        Ok(all) => all.into_iter().try_for_each(|(how, figures)| {
            session.note(Scenario::Recovery, &case(how), Regime::OneByOne, round, Ok(figures))
        }),
        Err(error) => session.note(Scenario::Recovery, &case("killed"), Regime::OneByOne, round, Err(error)),
    }
}

/// Fills a store by a gateway and kills that; starts another, stops it in an orderly way, and starts a third.
fn restarts(start: impl Fn() -> Result<ContenderServer>, quick: bool) -> Result<[(&'static str, Figures); 2]> {
    let (topics, entries) = size(quick);
    let mut server = start()?;
    server.wait_until_ready()?;
    let mut writers = Writers::enter(&server, topics).with_context(|| server.last_words())?;
    writers.publish(entries).with_context(|| server.last_words())?;
    // It is killed with everybody in their topics.
    drop(server);
    drop(writers);
    let (server, ready) = timed_start(&start)?;
    let killed = figures(&server, ready, topics, entries)?;
    server.stop()?;
    let (server, ready) = timed_start(&start)?;
    let stopped = figures(&server, ready, topics, entries)?;
    Ok([("killed", killed), ("stopped", stopped)])
}

/// Starts a gateway; says how many milliseconds it took until it accepted messages.
pub(crate) fn timed_start(start: impl Fn() -> Result<ContenderServer>) -> Result<(ContenderServer, f64)> {
    let begun = Instant::now();
    let mut server = start()?;
    server.wait_until_ready()?;
    Ok((server, begun.elapsed().as_secs_f64() * 1000.0))
}

/// What a gateway that has just become ready has taken, and how long the first page of a topic takes, on which the newest messages are.
fn figures(server: &ContenderServer, ready: f64, topics: usize, entries: u32) -> Result<Figures> {
    let cpu = CpuClock::total(server.pid())?;
    let resident = resident_kib(server.pid())?;
    let files: u64 = file_bytes(&server.data_directory())?.values().sum();
    let first =
        PageReader::connect(server, &topic(topics / 2))?.page(None, entries).with_context(|| server.last_words())?;
    Ok(Figures::from([
        (Figure::ReadyMs, ready),
        (Figure::FirstPageMs, first.as_secs_f64() * 1000.0),
        (Figure::ServerCpuSeconds, cpu.as_secs_f64()),
        (Figure::RssMib, resident as f64 / 1024.0),
        (Figure::FilesMib, files as f64 / (1024.0 * 1024.0)),
    ]))
}
