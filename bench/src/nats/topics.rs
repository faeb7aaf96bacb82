//! What the number of topics costs: a cluster of three NATS servers with three replicas of everything, one gateway, one participant in
//! each topic.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use crate::load::{LoadCrowd, LoadRole};
use crate::nats::site::{Shares, Site, SitePrograms};
use crate::room::{PublishPace, Until};
use crate::scenario::{MAX_HANDSHAKES, MESSAGE, ONE_SECOND, topic};
use crate::stats::percentile;
use crate::targets::PerformanceTarget;
use crate::wire::{FrameFormat, MessageSort, MessageTemplate};

/// How many enter topics that are not yet there at the same time.
const MAKING: usize = 8;
/// Messages a second, over all topics.
const RATE: u32 = 100;
/// How long nothing is done: as long as it takes until retention has been looked after once.
const IDLE: Duration = Duration::from_secs(60);

/// How many NATS servers share what the cluster costs.
const SERVERS: f64 = 3.0;
/// What topics may cost each server while nothing happens, and the longest p99 of a first append.
const MAX_IDLE_CPU_PERCENT: f64 = 10.0;
const MAX_IDLE_MIB: f64 = 300.0;
const MAX_FIRST_APPEND_MS: f64 = 100.0;

/// What so many topics cost.
#[derive(Serialize)]
pub(super) struct Census {
    pub(super) topics: usize,
    /// From the first to enter until all topics are there, with their participants in them.
    pub(super) made_seconds: f64,
    /// How long it takes to enter a topic that is not yet there, one at a time, beside all the others: its first append.
    pub(super) entered_p50_us: f64,
    pub(super) entered_p99_us: f64,
    pub(super) messages: u64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// With a participant in each topic.
    pub(super) occupied: Idle,
    /// After the gateway was killed, and after it was stopped.
    pub(super) killed: Restart,
    pub(super) stopped: Restart,
    /// After an orderly restart, with nobody in any topic.
    pub(super) empty: Idle,
    /// The refusal of one topic more than the limit.
    pub(super) refusal: String,
}

#[derive(Serialize)]
pub(super) struct Idle {
    pub(super) cpu_percent: Shares,
    pub(super) resident_mib: Shares,
}

#[derive(Serialize)]
pub(super) struct Restart {
    /// From starting the process until it accepts messages.
    pub(super) ready_seconds: f64,
    /// From then until everybody is in their topics again.
    pub(super) back_seconds: f64,
}

/// What is judged of each number of topics.
pub(super) fn targets(censuses: &[Census]) -> Vec<PerformanceTarget> {
    let of = |census: &Census| {
        let topics = census.topics;
        let mut targets = Vec::new();
        for (who, idle) in [("one in each", &census.occupied), ("nobody in any", &census.empty)] {
            let what = format!("{topics} topics, idle, {who}, each NATS server");
            let (cpu, memory) = (idle.cpu_percent.nats / SERVERS, idle.resident_mib.nats / SERVERS);
            targets.push(PerformanceTarget::at_most(what.clone(), MAX_IDLE_CPU_PERCENT, "% of a core", Some(cpu)));
            targets.push(PerformanceTarget::at_most(what, MAX_IDLE_MIB, "RSS MiB", Some(memory)));
        }
        let first = Some(census.entered_p99_us / 1000.0);
        let what = format!("{topics} topics, first append in another");
        targets.push(PerformanceTarget::at_most(what, MAX_FIRST_APPEND_MS, "ms p99", first));
        targets
    };
    censuses.iter().flat_map(of).collect()
}

/// The numbers of topics to be measured.
pub(super) fn steps(quick: bool) -> &'static [usize] {
    if quick { &[10, 20] } else { &[1000, 10_000] }
}

/// How many topics are entered one at a time afterwards.
fn late_topics(quick: bool) -> usize {
    if quick { 5 } else { 200 }
}

/// Measures with so many topics, on servers of their own.
pub(super) fn measure(programs: &SitePrograms, topics: usize, duration: Duration, quick: bool) -> Result<Census> {
    let all = topics + late_topics(quick);
    let limit = all.to_string();
    // One participant opens all of them.
    let further: &[&str] = &["--nats-topics", &limit, "--limits-rooms-per-participant", "0"];
    let idle = if quick { ONE_SECOND } else { IDLE };
    let (mut site, data) = programs.start_cluster(further)?;

    let mut crowd = crowd(&site, topics)?;
    let start = Instant::now();
    crowd.connect(MAKING).context("the topics could not be made")?;
    let made_seconds = start.elapsed().as_secs_f64();
    let mut entered = Vec::with_capacity(all - topics);
    for at in topics..all {
        let start = Instant::now();
        let (status, body) = enter(&site, at)?;
        if !status.starts_with("HTTP/1.1 101") {
            bail!("topic {at} was not made: {status}: {body}");
        }
        entered.push(start.elapsed().as_nanos() as u64);
    }
    entered.sort_unstable();
    let entering = |p| percentile(&entered, p).map(|nanos| nanos as f64 / 1000.0).context("nobody entered");
    let (entered_p50_us, entered_p99_us) = (entering(0.5)?, entering(0.99)?);
    let pace = PublishPace::Every(ONE_SECOND / RATE);
    crowd.run(pace, Until::Sent(1), || Ok(()))?;
    let length = if quick { duration } else { duration.max(10 * ONE_SECOND) };
    let mut delivered = crowd.run(pace, Until::Elapsed(length), || Ok(()))?;
    delivered.latencies.sort_unstable();
    let micros =
        |p| percentile(&delivered.latencies, p).map(|nanos| nanos as f64 / 1000.0).context("nothing was timed");
    let (p50_us, p99_us) = (micros(0.5)?, micros(0.99)?);
    let occupied = rest(&site, &mut crowd, idle)?;

    let start_again = |site: &mut Site| -> Result<f64> {
        let start = Instant::now();
        let gateway = programs.start_gateway(site, data.clone(), further)?;
        site.gateways.push(gateway);
        Ok(start.elapsed().as_secs_f64())
    };
    drop(site.gateways.pop());
    let ready_seconds = start_again(&mut site).context("the gateway does not start again after it was killed")?;
    let (mut crowd, back_seconds) = come_back(&site, topics)?;
    let killed = Restart { ready_seconds, back_seconds };
    crowd.listen(Duration::ZERO, |_| false)?;
    site.gateways.pop().context("a gateway was started")?.stop()?;
    drop(crowd);
    let ready_seconds = start_again(&mut site).context("the gateway does not start again after it was stopped")?;
    let empty = rest(&site, &mut LoadCrowd::new(FrameFormat::WebSocket)?, idle)?;
    let (crowd, back_seconds) = come_back(&site, topics)?;
    let stopped = Restart { ready_seconds, back_seconds };

    let (status, body) = enter(&site, all)?;
    if status.starts_with("HTTP/1.1 101") {
        bail!("topic {} was made, and should have been refused", all + 1);
    }
    let refusal = format!("{status}: {body}");
    drop(crowd);
    let messages = delivered.messages;
    Ok(Census {
        topics,
        made_seconds,
        entered_p50_us,
        entered_p99_us,
        messages,
        p50_us,
        p99_us,
        occupied,
        killed,
        stopped,
        empty,
        refusal,
    })
}

/// A participant for each topic, who has not come yet.
fn crowd(site: &Site, topics: usize) -> Result<LoadCrowd> {
    let mut crowd = LoadCrowd::new(FrameFormat::WebSocket)?;
    for at in 0..topics {
        let topic = topic(at);
        let message =
            MessageTemplate::new(FrameFormat::WebSocket, &topic, MessageSort::Notification, "publisher", "", MESSAGE);
        let room = crowd.add_room(message, None);
        crowd.add_client(room, LoadRole::Publisher, site.gateway(0).greeting(&topic, "publisher", None)?);
    }
    Ok(crowd)
}

fn come_back(site: &Site, topics: usize) -> Result<(LoadCrowd, f64)> {
    let mut crowd = crowd(site, topics)?;
    let start = Instant::now();
    crowd.connect(MAX_HANDSHAKES).context("not everybody came back")?;
    Ok((crowd, start.elapsed().as_secs_f64()))
}

fn rest(site: &Site, crowd: &mut LoadCrowd, length: Duration) -> Result<Idle> {
    let (clocks, start) = (site.clocks()?, Instant::now());
    crowd.listen(length, |_| false)?;
    let cpu_percent = clocks.elapsed()?.times(100.0 / start.elapsed().as_secs_f64());
    Ok(Idle { cpu_percent, resident_mib: site.resident_mib()? })
}

/// Enters a topic and leaves it; gives the first line and the body of the answer.
fn enter(site: &Site, at: usize) -> Result<(String, String)> {
    let greeting = site.gateway(0).greeting(&topic(at), "publisher", None)?;
    let mut stream = TcpStream::connect(greeting.server)?;
    stream.set_read_timeout(Some(10 * ONE_SECOND))?;
    stream.write_all(&greeting.bytes)?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    // Until it is all there, or nothing more comes: what is said may leave the connection open.
    while !is_whole(&answer) {
        match stream.read(&mut part)? {
            0 => break,
            count => answer.extend_from_slice(&part[..count]),
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer to who would enter a topic")?;
    Ok((head.lines().next().unwrap_or_default().to_owned(), body.trim().to_owned()))
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    head.starts_with("http/1.1 101") || length.is_some_and(|length| body.len() >= length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::show;

    fn census(nats_cpu: f64, nats_mib: f64, first_append_us: f64) -> Census {
        let idle = || Idle {
            cpu_percent: Shares { gateways: 50.0, nats: nats_cpu },
            resident_mib: Shares { gateways: 500.0, nats: nats_mib },
        };
        let restart = || Restart { ready_seconds: 1.0, back_seconds: 1.0 };
        Census {
            topics: 1000,
            made_seconds: 1.0,
            entered_p50_us: 1.0,
            entered_p99_us: first_append_us,
            messages: 1,
            p50_us: 1.0,
            p99_us: 1.0,
            occupied: idle(),
            killed: restart(),
            stopped: restart(),
            empty: idle(),
            refusal: String::new(),
        }
    }

    #[test]
    fn each_of_three_servers_and_the_first_append_are_judged() {
        let is_met = |census| show(&targets(&[census])).unwrap();
        assert!(is_met(census(30.0, 900.0, 100_000.0)), "the gateway's own share counts as the servers'");
        assert!(!is_met(census(30.3, 900.0, 100_000.0)));
        assert!(!is_met(census(30.0, 903.0, 100_000.0)));
        assert!(!is_met(census(30.0, 900.0, 100_100.0)));
    }
}
