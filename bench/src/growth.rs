//! What grows with what: the cost of a delivery with readers and with rooms, a page with the length of its history, memory with rooms, topics and
//! connections. Plain and encrypted connections side by side.

use std::rc::Rc;

use anyhow::{Context as _, Result};

use crate::contender::{BenchScratch, Contender, Installed};
use crate::history::{PagePosition, PageReader, Writers};
use crate::options::BenchOptions;
use crate::procfs::resident_kib;
use crate::scenario::{Figure, Figures, Regime, Scenario, plans, topic};
use crate::session::BenchRun;
use crate::{recovery, targets};

/// Limits that a single generator would meet.
pub(crate) const FLAGS: [&str; 6] =
    ["--limits-participants", "0", "--limits-rooms-per-participant", "0", "--limits-read-rate", "0"];

/// Measures what is asked for; says whether every run counts and every target was met.
pub(crate) fn measure(options: &BenchOptions) -> Result<bool> {
    let mut session = BenchRun::open(options, &options.contenders, "-growth")?;
    for &scenario in &options.scenarios {
        match scenario {
            Scenario::History => histories(&mut session, options)?,
            Scenario::StoredTopics => stored_topics(&mut session, options)?,
            _ => {
                let plans = plans(&[scenario], &options.windows, session.effort);
                session.run(&plans, options.rounds, &FLAGS)?;
            }
        }
    }
    let report = session.finish()?;
    let has_met = targets::show(&targets::growth_targets(&report))?;
    // A short run says nothing of the targets.
    Ok(!report.has_void() && (has_met || options.quick))
}

/// The lengths of the histories to be measured.
fn lengths(options: &BenchOptions) -> Vec<u32> {
    let all: &[u32] = if options.quick { &[1000, 5000] } else { &[1000, 100_000, 1_000_000, 10_000_000] };
    all.iter().copied().filter(|&length| options.quick || length <= options.entries).collect()
}

/// One topic whose history becomes longer, and the time of its pages at each length.
fn histories(session: &mut BenchRun, options: &BenchOptions) -> Result<()> {
    let Some(salon) = session.contender(Contender::Salon) else { return Ok(()) };
    let mut server = salon.start_with(&FLAGS)?;
    server.wait_until_ready()?;
    let mut writers = Writers::enter(&server, 1)?;
    let mut stored = 0;
    for length in lengths(options) {
        writers.publish(length - stored).with_context(|| server.last_words())?;
        stored = length;
        for round in 1..=options.rounds {
            for place in PagePosition::ALL {
                let figures = PageReader::connect(&server, &topic(0))
                    .and_then(|mut reader| reader.measure(server.pid(), place, length, options.duration))
                    .with_context(|| server.last_words());
                let case = format!("{length} entries, {}", place.name());
                session.note(Scenario::History, &case, Regime::OneByOne, round, figures)?;
            }
        }
    }
    session.show(Scenario::History)
}

/// What topics cost that are stored and that nobody uses: the memory of a gateway that was started with them, less that of one without any.
fn stored_topics(session: &mut BenchRun, options: &BenchOptions) -> Result<()> {
    let topics = if options.quick { 50 } else { 10_000 };
    for round in 1..=options.rounds {
        let Some(salon) = session.contender(Contender::Salon) else { return Ok(()) };
        let figures = stored_figures(salon, topics);
        let case = format!("{topics} topics of 10 entries");
        session.note(Scenario::StoredTopics, &case, Regime::OneByOne, round, figures)?;
    }
    session.show(Scenario::StoredTopics)
}

fn stored_figures(salon: &Installed, topics: usize) -> Result<Figures> {
    let fresh = || anyhow::Ok(Rc::new(BenchScratch::new()?));
    let restarted = |data: &Rc<BenchScratch>| -> Result<(u64, f64)> {
        let (server, ready) = recovery::timed_start(|| salon.start_in(data.clone(), &FLAGS))?;
        Ok((resident_kib(server.pid())?, ready))
    };
    let empty = fresh()?;
    restarted(&empty)?;
    let (without, _) = restarted(&empty)?;
    let data = fresh()?;
    let mut server = salon.start_in(data.clone(), &FLAGS)?;
    server.wait_until_ready()?;
    let mut writers = Writers::enter(&server, topics).with_context(|| server.last_words())?;
    writers.publish(10).with_context(|| server.last_words())?;
    drop(writers);
    server.stop()?;
    let (with, ready) = restarted(&data)?;
    Ok(Figures::from([
        (Figure::ReadyMs, ready),
        (Figure::RssMib, with as f64 / 1024.0),
        (Figure::RssKibPerTopic, with.saturating_sub(without) as f64 / topics as f64),
    ]))
}
