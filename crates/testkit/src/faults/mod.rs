//! The fault scenes: three gateways and three NATS servers, all of them real processes, with publishers and readers at every gateway
//! in several topics, while something fails.
//!
//! A scene says what fails and when it is over; the checks at the end are the same for all: everything acknowledged is kept once,
//! everybody saw one order without a gap, on all gateways, every call has one answer at most, and exactly the connected participants are
//! present. Nothing here is over because of the time it took: publishing goes on until every gateway acknowledges and delivers again.

mod agent;
mod caller;
mod client;
mod clock;
mod crowd;
mod poller;
mod verdict;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use self::client::{FaultClient, FaultPart};
use self::clock::MovableClock;
pub use self::clock::clock_obstacle;
use self::crowd::{CrowdTally, FaultCrowd, GATEWAYS, GatewayAddresses};
use self::verdict::FaultRecord;
use crate::binary::{self, ServedProcess};
use crate::http::HttpCall;
use crate::nats::NatsServers;
use crate::process::Signal;
use crate::proxy::Proxy;
use crate::witness::{self, Seen, envelope};
use crate::{Failure, Scratch};

/// Where everything happens.
const TOPICS: [&str; 3] = ["room:one", "room:two", "room:three"];
/// The envelope that ends a topic.
const END: &str = "the-end";
/// How long anything may take here: an election on a machine that has other things to do, and more.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);
/// How often a client does something of its own accord: publishes, or tries the next gateway. Nothing that is checked depends on it.
const BEAT: Duration = Duration::from_millis(40);
/// Longer than a lease of these gateways.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(4);
// Only a gateway that is built with NATS has the times of leases.
#[cfg(feature = "nats")]
const _: () = assert!(LONGER_THAN_A_LEASE.as_millis() > salon_gateway::Timings::FAST.nats.lease.as_millis());
/// How often something is looked at that nobody tells of.
const LOOK: Duration = Duration::from_millis(100);
/// How long tokens are good for: a clock that is an hour ahead must not end them.
const LIFETIME: [&str; 2] = ["--ttl", "1d"];
/// How many envelopes show that something works.
const ENOUGH: u64 = 25;
/// How many connections there are when all are in: at each gateway a publisher, a reader and a visitor in every topic, and beside them
/// one by the client library, two of the same participant, an MCP session and a framed one.
const CONNECTIONS: usize = TOPICS.len() * (3 * GATEWAYS + 5);
/// How many of them do not come back, and how their names begin.
const VISITORS: usize = TOPICS.len() * GATEWAYS;
const VISITOR: &str = "visitor";
/// Every so many looks, clients at another gateway try their own.
const LOOKS_PER_CALL: u64 = 20;

/// Gateways, servers and everybody in the rooms.
pub struct FaultStage {
    /// The NATS servers, to be killed and revived.
    pub servers: NatsServers,
    gateways: Vec<FaultNode>,
    crowd: Arc<FaultCrowd>,
    clients: JoinSet<Result<FaultRecord, Failure>>,
    records: Vec<FaultRecord>,
    ender: String,
    binary: PathBuf,
    /// The variables of processes that make tokens.
    issuing: Vec<(&'static str, String)>,
}

struct FaultNode {
    process: Option<ServedProcess>,
    /// What was told by processes that are gone.
    report: String,
    ways: Vec<Proxy>,
    data: Scratch,
    /// The clock of its processes, if it is not that of everybody.
    clock: Option<MovableClock>,
}

impl FaultNode {
    async fn start(&mut self, binary: &Path, crowd: &FaultCrowd, number: usize) -> Result<(), Failure> {
        let log = self.ways.iter().map(Proxy::url).collect::<Vec<_>>().join(",");
        let settings = ["--store", &log, "--times-crash-grace", "2s", "--framed-listen", "127.0.0.1:0"];
        let variables = self.clock.as_ref().map(MovableClock::variables).transpose()?.unwrap_or_default();
        let process = ServedProcess::start_in(binary, self.data.path(), 0, &settings, &variables).await?;
        let framed = process.framed_address().await?;
        crowd.is_at(number, GatewayAddresses { http: process.address(), framed });
        self.process = Some(process);
        Ok(())
    }
}

impl FaultStage {
    /// Starts everything, lets everybody in, and waits until all of it works. `salon` is the program.
    pub async fn open(salon: &Path) -> Result<Self, Failure> {
        Self::open_with(salon, None).await
    }

    /// The same with a gateway whose wall clock can jump. Not where [`clock_obstacle`] says why.
    pub async fn open_with_clock(salon: &Path, gateway: usize) -> Result<Self, Failure> {
        Self::open_with(salon, Some(gateway)).await
    }

    async fn open_with(salon: &Path, jumping: Option<usize>) -> Result<Self, Failure> {
        let servers = NatsServers::three_unadvertised().await?;
        let mut gateways = Vec::new();
        for number in 0..GATEWAYS {
            let data = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
            let mut ways = Vec::new();
            for number in 0..3 {
                ways.push(Proxy::to(servers.port(number)).await?);
            }
            let has_clock = jumping == Some(number);
            let clock = has_clock.then(|| MovableClock::new(data.path(), "clock", "+0")).transpose()?;
            gateways.push(FaultNode { process: None, report: String::new(), ways, data, clock });
        }
        // Made some time ago, so that they are valid for a clock that is behind, too.
        let issuing = match jumping {
            Some(gateway) => MovableClock::new(gateways[gateway].data.path(), "issuing", "-7200")?.variables()?,
            None => Vec::new(),
        };
        // The first token makes the key, which is the same for all.
        let ender = binary::token_with(salon, gateways[0].data.path(), "*", "ender", &LIFETIME, &issuing).await?;
        for other in &gateways[1..] {
            let key = |node: &FaultNode| node.data.path().join("auth.key");
            std::fs::copy(key(&gateways[0]), key(other)).map_err(|e| format!("no key for a gateway: {e}"))?;
        }
        let mut stage = Self {
            servers,
            gateways,
            crowd: Arc::new(FaultCrowd::new()),
            clients: JoinSet::new(),
            records: Vec::new(),
            ender,
            binary: salon.to_owned(),
            issuing,
        };
        stage.start_all().await?;
        stage.fill().await.map_err(|report| stage.explain(report))?;
        Ok(stage)
    }

    async fn fill(&mut self) -> Result<(), Failure> {
        let data = self.gateways[0].data.path().to_owned();
        let token = |name: String| {
            let (binary, data, issuing) = (&self.binary, &data, &self.issuing);
            async move {
                let token = binary::token_with(binary, data, "room:*", &name, &LIFETIME, issuing).await?;
                Ok::<_, Failure>((token, name))
            }
        };
        for home in 0..GATEWAYS {
            let names = ["reader", VISITOR, "publisher"].map(|part| token(format!("{part}-{home}")));
            let people = try_join_all(names).await?;
            let parts = [FaultPart::Reader, FaultPart::Visitor, FaultPart::Publisher { moves: false }];
            for ((token, name), part) in people.into_iter().zip(parts) {
                for topic in 0..TOPICS.len() {
                    // In one of the topics publishers stay where they are refused, and say it again.
                    let part = match part {
                        FaultPart::Publisher { .. } => FaultPart::Publisher { moves: topic > 0 },
                        other => other,
                    };
                    self.clients.spawn(FaultClient::new(part, (&name, &token), topic, home, &self.crowd).stay());
                }
            }
        }
        let names = ["agent", "twin", "caller", "poller"].map(|name| token(name.to_owned()));
        let mut tokens = try_join_all(names).await?.into_iter().map(|(token, _)| token);
        let mut next = || tokens.next().ok_or("a token is missing");
        let (token, twin, caller, poller) = (next()?, next()?, next()?, next()?);
        for topic in 0..TOPICS.len() {
            self.clients.spawn(caller::stay("caller".to_owned(), caller.clone(), topic, self.crowd.clone()));
            self.clients.spawn(poller::stay("poller".to_owned(), poller.clone(), topic, self.crowd.clone()));
            self.clients.spawn(agent::stay("agent".to_owned(), token.clone(), topic, self.crowd.clone()));
            for home in [topic, (topic + 1) % GATEWAYS] {
                self.clients.spawn(FaultClient::new(FaultPart::Twin, ("twin", &twin), topic, home, &self.crowd).stay());
            }
        }
        self.until("everybody to be in", |tally| tally.connections(|_| true) == CONNECTIONS).await?;
        self.works(&[0, 1, 2]).await
    }

    /// Starts a gateway that does not run.
    pub async fn start(&mut self, gateway: usize) -> Result<(), Failure> {
        self.gateways[gateway].start(&self.binary, &self.crowd, gateway).await
    }

    /// Starts all of them at once, none of which runs.
    pub async fn start_all(&mut self) -> Result<(), Failure> {
        let starting = self.gateways.iter_mut().enumerate();
        try_join_all(starting.map(|(number, node)| node.start(&self.binary, &self.crowd, number))).await.map(drop)
    }

    /// Kills a gateway as `kill -9` does.
    pub async fn kill(&mut self, gateway: usize) -> Result<(), Failure> {
        let killed = self.take(gateway)?.kill().await;
        self.crowd.is_away(gateway);
        killed
    }

    /// Stops a gateway as SIGTERM does. It ends well.
    pub async fn stop(&mut self, gateway: usize) -> Result<(), Failure> {
        let ended = self.take(gateway)?.terminate().await;
        self.crowd.is_away(gateway);
        ended
    }

    /// Has a gateway stand still, as a machine does that swaps or is moved, until SIGCONT.
    pub async fn pause(&mut self, gateway: usize) -> Result<(), Failure> {
        self.signal(gateway, Signal::STOP)
    }

    /// Has it go on.
    pub async fn resume(&mut self, gateway: usize) -> Result<(), Failure> {
        self.signal(gateway, Signal::CONT)
    }

    /// Has the wall clock of a gateway differ from that of everybody else by so much, as `+3600` or `-3600` seconds.
    pub fn shift_clock(&self, gateway: usize, by: &str) -> Result<(), Failure> {
        self.gateways[gateway].clock.as_ref().ok_or("this gateway has everybody's clock")?.shift(by)
    }

    fn signal(&self, gateway: usize, signal: Signal) -> Result<(), Failure> {
        let process = self.gateways[gateway].process.as_ref();
        process.ok_or_else(|| format!("gateway {gateway} does not run"))?.signal(signal)
    }

    fn take(&mut self, gateway: usize) -> Result<ServedProcess, Failure> {
        let node = &mut self.gateways[gateway];
        let process = node.process.take().ok_or_else(|| format!("gateway {gateway} does not run"))?;
        node.report += &process.output();
        Ok(process)
    }

    /// Holds up everything between a gateway and NATS, without a word to either.
    pub fn cut_off(&self, gateway: usize) {
        self.gateways[gateway].ways.iter().for_each(Proxy::hold);
    }

    /// Lets it pass again.
    pub fn rejoin(&self, gateway: usize) {
        self.gateways[gateway].ways.iter().for_each(Proxy::release);
    }

    /// Which NATS server leads the first topic.
    pub async fn leader(&self) -> Result<usize, Failure> {
        let mut look = every(LOOK);
        let leading = async {
            loop {
                look.tick().await;
                if let Some(leader) = self.servers.leader(TOPICS[0]).await? {
                    return Ok(leader);
                }
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, leading).await.map_err(|_| "nobody leads")?
    }

    /// Waits until publishers at these gateways have had more acknowledged in every topic, and readers there have seen more.
    pub async fn works(&mut self, gateways: &[usize]) -> Result<(), Failure> {
        let before = self.crowd.tally.borrow().clone();
        let has_more = |tally: &CrowdTally| {
            (0..TOPICS.len()).flat_map(|topic| gateways.iter().map(move |gateway| (topic, *gateway))).all(|(t, g)| {
                tally.acknowledged[t][g] >= before.acknowledged[t][g] + ENOUGH
                    && tally.seen[t][g] >= before.seen[t][g] + ENOUGH
            })
        };
        self.until(&format!("gateways {gateways:?} to work"), has_more).await
    }

    /// Waits until a gateway has refused an envelope of somebody who is there, and somebody who wanted to come in.
    pub async fn refuses(&mut self, gateway: usize) -> Result<(), Failure> {
        let of = |tally: &CrowdTally| (tally.refused[gateway], tally.shut[gateway]);
        let before = of(&self.crowd.tally.borrow());
        let both = |tally: &CrowdTally| of(tally).0 > before.0 && of(tally).1 > before.1;
        self.until(&format!("gateway {gateway} to refuse"), both).await
    }

    /// Waits until a gateway has refused as much as it can only in longer than a lease: one publisher is refused at most a window at
    /// every beat.
    pub async fn refuses_for_long(&mut self, gateway: usize) -> Result<(), Failure> {
        let beats = LONGER_THAN_A_LEASE.as_millis() / BEAT.as_millis();
        let goal = self.crowd.tally.borrow().refused[gateway] + client::WINDOW as u64 * beats as u64;
        self.until(&format!("gateway {gateway} to refuse for long"), |tally| tally.refused[gateway] >= goal).await
    }

    /// Waits until `/ready` of a gateway has this status.
    pub async fn ready(&mut self, gateway: usize, status: u16) -> Result<(), Failure> {
        let address = self.crowd.address(gateway).ok_or("a gateway that does not run")?;
        let what = format!("/ready of gateway {gateway} to be {status}");
        self.look(&what, async || Ok(HttpCall::new("GET", "/ready").send(address).await?.status == status)).await
    }

    /// Waits until a gateway says of every topic that somebody is present, or is not.
    pub async fn sees(&mut self, gateway: usize, who: &str, is_present: bool) -> Result<(), Failure> {
        let address = self.crowd.address(gateway).ok_or("a gateway that does not run")?;
        let ender = self.ender.clone();
        let what = format!("{who} to be {}present at gateway {gateway}", if is_present { "" } else { "not " });
        let look = async || {
            for topic in TOPICS {
                let there = participants(address, topic, &ender).await?;
                if there.is_none_or(|there| there.contains(who) != is_present) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        self.look(&what, look).await
    }

    /// Ends the scene: everything works, nothing more is said, presence is true, and then everything is compared.
    pub async fn finish(mut self) -> Result<(), Failure> {
        match self.compare().await {
            Ok(()) => Ok(()),
            Err(report) => Err(self.explain(report)),
        }
    }

    async fn compare(&mut self) -> Result<(), Failure> {
        self.works(&[0, 1, 2]).await?;
        self.crowd.close();
        let publishers = (GATEWAYS + 1) * TOPICS.len();
        self.until("all acknowledgements", |tally| tally.done.len() == publishers).await?;
        let addresses: Vec<_> = (0..GATEWAYS).filter_map(|gateway| self.crowd.address(gateway)).collect();
        let (crowd, ender) = (self.crowd.clone(), self.ender.clone());
        self.look("everybody to be in, and presence to be true everywhere", async || {
            if crowd.tally.borrow().connections(|name| !name.starts_with(VISITOR)) < CONNECTIONS - VISITORS {
                return Ok(false);
            }
            for (number, topic) in TOPICS.iter().enumerate() {
                for address in &addresses {
                    let there = participants(*address, topic, &ender).await?;
                    if there != Some(crowd.tally.borrow().connected(number)) {
                        return Ok(false);
                    }
                }
            }
            Ok(true)
        })
        .await?;
        let tally = self.crowd.tally.borrow().clone();
        for topic in TOPICS {
            let call = HttpCall::new("POST", format!("/v0/topics/{topic}/messages")).bearer(&self.ender);
            let call = call.body(envelope("ender", END, 0));
            let said = async || Ok(call.send(addresses[0]).await?.status / 100 == 2);
            self.look(&format!("the end of {topic} to be stored"), said).await?;
        }
        self.crowd.end();
        while self.records.len() < CONNECTIONS {
            self.next_record().await?;
        }
        for (number, topic) in TOPICS.iter().enumerate() {
            let mut histories = Vec::new();
            for address in &addresses {
                histories.push(until_the_end(witness::history(*address, topic, &self.ender).await?));
            }
            if histories.iter().any(|history| *history != histories[0]) {
                return Err(format!("gateways have different histories of {topic}"));
            }
            let (of_topic, others) = std::mem::take(&mut self.records).into_iter().partition(|r| r.topic == number);
            self.records = others;
            verdict::check(&histories[0], &of_topic, &tally.connected(number))
                .map_err(|report| format!("{topic}: {report}"))?;
        }
        Ok(())
    }

    async fn next_record(&mut self) -> Result<(), Failure> {
        let next = tokio::time::timeout(WAIT_TIMEOUT, self.clients.join_next()).await;
        let record = next.map_err(|_| "waited for the clients to end")?.ok_or("a client is missing")?;
        self.records.push(record.map_err(|e| e.to_string())??);
        Ok(())
    }

    /// Waits for something the clients tell of. One of them that fails is the end of it.
    async fn until(&mut self, what: &str, has_come: impl Fn(&CrowdTally) -> bool) -> Result<(), Failure> {
        let mut tally = self.crowd.tally.subscribe();
        let mut look = every(LOOK);
        let mut looks = 0;
        let crowd = self.crowd.clone();
        let waiting = async {
            loop {
                tokio::select! {
                    come = tally.wait_for(|tally| has_come(tally)) => return come.map(drop).map_err(|e| e.to_string()),
                    Some(ended) = self.clients.join_next() => self.records.push(ended.map_err(|e| e.to_string())??),
                    _ = look.tick() => {
                        looks += 1;
                        if looks % LOOKS_PER_CALL == 0 {
                            crowd.call_home();
                        }
                    }
                }
            }
        };
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
        let late = |_| format!("waited {} s for {what}: {:?}", WAIT_TIMEOUT.as_secs(), *crowd.tally.borrow());
        waited.map_err(late)?
    }

    /// Waits for something nobody tells of.
    async fn look(
        &mut self,
        what: &str,
        mut has_come: impl AsyncFnMut() -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut look = every(LOOK);
        let waiting = async {
            while !has_come().await? {
                tokio::select! {
                    _ = look.tick() => {}
                    Some(ended) = self.clients.join_next() => self.records.push(ended.map_err(|e| e.to_string())??),
                }
            }
            Ok(())
        };
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
        waited.map_err(|_| format!("waited {} s for {what}", WAIT_TIMEOUT.as_secs()))?
    }

    /// What went wrong, with what the gateways said last.
    pub fn explain(&self, report: Failure) -> Failure {
        let said = self.gateways.iter().enumerate().map(|(number, node)| {
            let now = node.process.as_ref().map(ServedProcess::output).unwrap_or_default();
            format!("gateway {number}:\n{}{now}", node.report)
        });
        format!("{report}\n{}", said.collect::<String>())
    }
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn until_the_end(mut history: Vec<Seen>) -> Vec<Seen> {
    let end = history.iter().position(|seen| seen.id == END).map_or(history.len(), |end| end + 1);
    history.truncate(end);
    history
}

/// Who is present in a topic, as a gateway says; `None` when it cannot say now.
async fn participants(address: SocketAddr, topic: &str, token: &str) -> Result<Option<BTreeSet<String>>, Failure> {
    let call = HttpCall::new("GET", format!("/v0/topics/{topic}/participants")).bearer(token);
    let answer = call.send(address).await?;
    if answer.status == 503 {
        return Ok(None);
    }
    let report: Value = serde_json::from_str(&answer.body).map_err(|e| format!("{e}: {}", answer.body))?;
    let listed =
        report["participants"].as_array().ok_or_else(|| format!("no list: {} {}", answer.status, answer.body))?;
    Ok(Some(listed.iter().filter_map(|one| one["id"].as_str()).map(str::to_owned).collect()))
}
