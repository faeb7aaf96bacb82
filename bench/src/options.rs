//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::attacks::Attack;
use crate::contender::Contender;
use crate::mcp::McpWay;
use crate::nats::NatsPart;
use crate::scenario::Scenario;

pub(crate) const USAGE: &str = "\
Measure Salon next to a server that only copies frames

Usage:
  bench run   [options]           measure, print tables, write raw.jsonl and summary.md
  bench check [options]           the same, then judge the targets; fails when one is missed
  bench check --from DIR          judge what an earlier run wrote
  bench commands [options]        measure how long `salon call` and other commands take, on a terminal and off it
  bench guests [options]          measure calls of a guest's tool, directly and through a room
  bench mcp [options]             measure calls by MCP over HTTP: to the server itself, by proxies, and by rooms; fails when a target is missed
  bench nats [options]            measure rooms on SQLite and on NATS, on one gateway and on three, and with up to 10,000 topics;
                                  fails when 10,000 topics cost too much
  bench control [options]         measure a topic without settings next to one with a hundred rules
  bench recovery [options]        measure how long a gateway with a million entries takes to start, on SQLite and on NATS; fails above 2 s and 5 s,
                                  and above 50 ms for the first page
  bench growth [options]          measure what a delivery, a history page and memory cost as readers, rooms, entries and connections grow
  bench soak [options]            measure one hour of steady load; writes samples.tsv and soak.svg, too; fails when memory, files or p99 grow
  bench tails [options]           measure p99 at half load with retention running; fails above 3 times the p50 and above 10 ms
  bench attacks [options]         measure a healthy room while an attacker with an ordinary token tries what it can
  bench ceiling --listen ADDRESS  only serve the broadcast ceiling

Options:
  --only LIST     scenarios: fanout, rooms, calls, append, idle, join, stalled, reconnect [default: all];
                  of `tails`: fanout, rooms, calls, append [default: all];
                  of `nats`: fanout, calls, topics [default: all];
                  of `growth`: readers, many-rooms, history, stored-topics, idle, join [default: all]; of `attacks`: rooms, bytes, flood, bodies, reads, malformed,
                  connections, churn, strangers [default: all]
  --rounds N      how often each contender has its turn [default: 3; of `tails`: 1]
  --seconds S     length of one measurement [default: 3; of `soak`: 3600; of `tails`: 120; of `attacks`: 10]
  --entries N     the longest history of `growth`, up to 10000000 [default: 1000000]
  --window LIST   messages in flight in a saturated fan-out, measured once with each; `check` judges the smallest
                  [default: 512; of `check`: 16,64,512]. Other commands than `run` and `check` take one
  --with LIST     further contenders: salon-tls (the gateway with a certificate), nats (nats-server on the path), ws (installed by npm)
  --without LIST  contenders to leave out: ceiling, salon; of `growth`: salon, salon-tls
  --salon PATH    the gateway [default: target/release/salon]
  --before PATH   an earlier gateway, whose topic without settings `control` measures too
  --server PATH   the MCP server to call, of `commands`, `guests` and `mcp` [default: target/release/rmcp-server]
  --ways LIST     what `mcp` measures: direct, mcp-proxy, supergateway, salon, salon-room, salon-modern, and the last three
                  with -unflushed after their names [default: all]
  --proxies DIR   where `scripts/bench-proxies` has put the proxies of `mcp` [default: target/bench-mcp]
  --nats PATH     the NATS server of `nats` [default: target/nats/bin/nats-server, where `scripts/nats-server` puts it]
  --out DIR       where to write [default: bench/runs/<date>-<machine>]
  --quick         a smoke test of under a minute: one short round, smaller crowds
";

#[derive(Debug)]
pub(crate) enum BenchCommand {
    Run(BenchOptions),
    Check(BenchOptions),
    Commands(BenchOptions),
    Guests(BenchOptions),
    Mcp(BenchOptions),
    Attacks(BenchOptions),
    Control(BenchOptions),
    /// The process that attacks, which `attacks` starts.
    Attacker,
    Nats(BenchOptions),
    Recovery(BenchOptions),
    Growth(BenchOptions),
    Soak(BenchOptions),
    Tails(BenchOptions),
    Ceiling(SocketAddr),
    Help,
}

#[derive(Debug)]
pub(crate) struct BenchOptions {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) rounds: u32,
    pub(crate) duration: Duration,
    pub(crate) windows: Vec<u32>,
    pub(crate) entries: u32,
    pub(crate) salon: PathBuf,
    pub(crate) before: Option<PathBuf>,
    pub(crate) server: PathBuf,
    pub(crate) ways: Vec<McpWay>,
    pub(crate) proxies: PathBuf,
    pub(crate) nats: PathBuf,
    pub(crate) parts: Vec<NatsPart>,
    pub(crate) attacks: Vec<Attack>,
    pub(crate) out: Option<PathBuf>,
    pub(crate) from: Option<PathBuf>,
    pub(crate) quick: bool,
}

pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<BenchCommand> {
    let command = arguments.next();
    let mut listen = None;
    let is = |name: &str| command.as_deref() == Some(name);
    let (scenarios, contenders) = match command.as_deref() {
        Some("growth") => (Scenario::GROWTH.to_vec(), vec![Contender::Salon, Contender::SalonTls]),
        Some("tails") => (Scenario::TAILS.to_vec(), vec![Contender::Salon]),
        _ => (Scenario::ALL.to_vec(), vec![Contender::Ceiling, Contender::Salon]),
    };
    let (seconds, quick_millis) = match command.as_deref() {
        Some("soak") => (3600, 10_000),
        Some("tails") => (120, 1000),
        Some("attacks") => (10, 400),
        _ => (3, 400),
    };
    let known_scenarios = scenarios.clone();
    let mut options = BenchOptions {
        scenarios,
        contenders,
        rounds: if is("tails") { 1 } else { 3 },
        duration: Duration::from_secs(seconds),
        windows: if is("check") { vec![16, 64, 512] } else { vec![512] },
        entries: 1_000_000,
        salon: "target/release/salon".into(),
        before: None,
        server: "target/release/rmcp-server".into(),
        ways: McpWay::ALL.to_vec(),
        proxies: "target/bench-mcp".into(),
        nats: "target/nats/bin/nats-server".into(),
        parts: NatsPart::ALL.to_vec(),
        attacks: Attack::ALL.to_vec(),
        out: None,
        from: None,
        quick: false,
    };
    while let Some(flag) = arguments.next() {
        if flag == "--quick" {
            options.quick = true;
            options.rounds = 1;
            options.duration = Duration::from_millis(quick_millis);
            continue;
        }
        let value = arguments.next().with_context(|| format!("`{flag}` needs a value"))?;
        let invalid = || format!("invalid value `{value}` for `{flag}`");
        match flag.as_str() {
            "--only" if is("nats") => options.parts = list(&value, &NatsPart::ALL, NatsPart::name)?,
            "--only" if is("attacks") => options.attacks = list(&value, &Attack::ALL, Attack::name)?,
            "--only" => options.scenarios = list(&value, &known_scenarios, Scenario::name)?,
            "--with" => options.contenders.extend(list(&value, &Contender::ALL, Contender::name)?),
            "--without" => {
                let unwanted = list(&value, &Contender::ALL, Contender::name)?;
                options.contenders.retain(|contender| !unwanted.contains(contender));
            }
            "--rounds" => options.rounds = value.parse().with_context(invalid)?,
            "--seconds" => {
                let seconds = value.parse().with_context(invalid)?;
                options.duration = Duration::try_from_secs_f64(seconds).with_context(invalid)?;
            }
            "--entries" => options.entries = value.parse().with_context(invalid)?,
            "--window" => {
                options.windows = value.split(',').map(str::parse).collect::<Result<_, _>>().with_context(invalid)?;
            }
            "--salon" => options.salon = value.into(),
            "--before" => options.before = Some(value.into()),
            "--server" => options.server = value.into(),
            "--ways" => options.ways = list(&value, &McpWay::ALL, McpWay::key)?,
            "--proxies" => options.proxies = value.into(),
            "--nats" => options.nats = value.into(),
            "--out" => options.out = Some(value.into()),
            "--from" => options.from = Some(value.into()),
            "--listen" => listen = Some(value.parse().with_context(invalid)?),
            _ => bail!("unknown option `{flag}`\n\nhint: see `bench --help`"),
        }
    }
    if options.rounds == 0 || options.duration.is_zero() || !options.windows.iter().all(|n| (2..=8192).contains(n)) {
        bail!("rounds and seconds must be above 0, windows from 2 to 8192");
    }
    if options.windows.len() > 1 && !is("run") && !is("check") {
        bail!("only `run` and `check` take several windows");
    }
    match command.as_deref() {
        None | Some("help" | "--help" | "-h") => Ok(BenchCommand::Help),
        Some("run") => Ok(BenchCommand::Run(options)),
        Some("check") => Ok(BenchCommand::Check(options)),
        Some("commands") => Ok(BenchCommand::Commands(options)),
        Some("guests") => Ok(BenchCommand::Guests(options)),
        Some("attacker") => Ok(BenchCommand::Attacker),
        Some("control") => Ok(BenchCommand::Control(options)),
        Some("attacks") => Ok(BenchCommand::Attacks(options)),
        Some("nats") => Ok(BenchCommand::Nats(options)),
        Some("mcp") => Ok(BenchCommand::Mcp(options)),
        Some("recovery") => Ok(BenchCommand::Recovery(options)),
        Some("growth") => Ok(BenchCommand::Growth(options)),
        Some("soak") => Ok(BenchCommand::Soak(options)),
        Some("tails") => Ok(BenchCommand::Tails(options)),
        Some("ceiling") => Ok(BenchCommand::Ceiling(listen.context("`ceiling` needs `--listen`")?)),
        Some(other) => bail!("unknown command `{other}`\n\nhint: see `bench --help`"),
    }
}

/// The named ones of `all`.
fn list<T: Copy>(value: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<Vec<T>> {
    let find = |wanted: &str| {
        all.iter().copied().find(|&one| name(one) == wanted).with_context(|| {
            let names: Vec<&str> = all.iter().map(|&one| name(one)).collect();
            format!("unknown name `{wanted}`, there are {}", names.join(", "))
        })
    };
    value.split(',').map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> String {
        match parse(line.split_ascii_whitespace().map(str::to_owned)) {
            Ok(command) => format!("{command:?}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn lines_are_understood_or_refused_by_name() {
        let table = [
            ("", "Help"),
            ("ceiling --listen 127.0.0.1:7000", "Ceiling(127.0.0.1:7000)"),
            ("ceiling", "`ceiling` needs `--listen`"),
            ("run --only fanout,cals", "unknown name `cals`"),
            ("run --rounds x", "invalid value `x` for `--rounds`"),
            ("run --rounds", "`--rounds` needs a value"),
            ("run --seconds -1", "invalid value `-1` for `--seconds`"),
            ("run", "windows: [512]"),
            ("check", "windows: [16, 64, 512]"),
            ("run --window 16,64", "windows: [16, 64]"),
            ("check --window 32", "windows: [32]"),
            ("run --window 16,1", "windows from 2 to 8192"),
            ("run --window 16,", "invalid value `16,` for `--window`"),
            ("nats --window 16,64", "only `run` and `check` take several windows"),
            ("run --fast 1", "unknown option `--fast`"),
            ("commands --rounds 2", "Commands(BenchOptions"),
            ("control --before old/salon", r#"before: Some("old/salon")"#),
            ("race", "unknown command `race`"),
            ("mcp --ways direct,salon-room-unflushed", "ways: [Direct, SalonRoomUnflushed]"),
            ("nats --only calls,topics", "parts: [Calls, Topics]"),
            ("nats --only rooms", "unknown name `rooms`, there are fanout, calls, topics"),
            ("run --only topics", "unknown name `topics`"),
            ("growth --only history,idle --entries 5", "scenarios: [History, Idle], contenders: [Salon, SalonTls]"),
            ("growth --only stalled", "unknown name `stalled`, there are readers, many-rooms, history"),
            ("soak", "duration: 3600s"),
            ("soak --quick", "duration: 10s"),
            ("tails", "scenarios: [Fanout, Rooms, Calls, Append], contenders: [Salon], rounds: 1, duration: 120s"),
            ("tails --quick", "duration: 1s"),
            ("tails --only calls,append", "Tails(BenchOptions { scenarios: [Calls, Append]"),
            ("tails --only idle", "unknown name `idle`, there are fanout, rooms, calls, append"),
            ("recovery --rounds 1", "Recovery(BenchOptions"),
            ("attacks --only bytes,churn", "attacks: [Bytes, Churn]"),
            ("run --only calls --with nats --without salon", "scenarios: [Calls], contenders: [Ceiling, Nats]"),
        ];
        for (line, expected) in table {
            let got = parsed(line);
            assert!(got.contains(expected), "`{line}` gave {got}");
        }
    }
}
