//! The attacks: what somebody with an ordinary token, or with none, can try again and again.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::HEALTHY;
use super::client::{HttpLine, head, join, open, say};
use crate::contender::ContenderServer;

/// How many threads attack at once, all as the same participant.
const ATTACKERS: usize = 2;
/// How many connections one of them holds at most.
const HELD: usize = 400;
const LARGE: usize = 512 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Attack {
    /// Requests to topics that nobody has named before.
    Rooms,
    /// Large messages into a room of its own.
    Bytes,
    /// Messages into the healthy room.
    Flood,
    /// Bodies of which a byte comes now and then.
    Bodies,
    /// Pages of history.
    Reads,
    /// Bodies that are not JSON.
    Malformed,
    /// Connections that are held and never read.
    Connections,
    /// Joins of the healthy room, and leaves.
    Churn,
    /// Tokens that are none.
    Strangers,
}

impl Attack {
    pub(crate) const ALL: [Self; 9] = [
        Self::Rooms,
        Self::Bytes,
        Self::Flood,
        Self::Bodies,
        Self::Reads,
        Self::Malformed,
        Self::Connections,
        Self::Churn,
        Self::Strangers,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rooms => "rooms",
            Self::Bytes => "bytes",
            Self::Flood => "flood",
            Self::Bodies => "bodies",
            Self::Reads => "reads",
            Self::Malformed => "malformed",
            Self::Connections => "connections",
            Self::Churn => "churn",
            Self::Strangers => "strangers",
        }
    }
}

/// What was tried, and what of it was taken.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct AttackTally {
    pub(crate) tried: AtomicU64,
    pub(crate) taken: AtomicU64,
}

impl AttackTally {
    fn note(&self, is_taken: bool) {
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.taken.fetch_add(u64::from(is_taken), Ordering::Relaxed);
    }
}

/// What an attacking process is told.
#[derive(Debug, Serialize, Deserialize)]
struct AttackOrder {
    attack: Attack,
    server: SocketAddr,
    token: String,
}

/// A process that attacks. It runs only while a core is idle (`SCHED_IDLE`): a real attacker has a machine of its own, and what counts
/// here is what its requests cost the gateway.
pub(crate) struct AttackProcess(Child);

impl AttackProcess {
    pub(crate) fn start(attack: Attack, server: &ContenderServer) -> Result<Self> {
        let token = server.bearer("room:*", "mallory")?.context("a gateway has a key")?;
        let order = AttackOrder { attack, server: server.address, token };
        let mut child = Command::new("chrt")
            .args(["--idle", "0"])
            .arg(std::env::current_exe()?)
            .arg("attacker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the attacker by `chrt` of util-linux")?;
        let stdin = child.stdin.as_mut().context("it was asked for")?;
        writeln!(stdin, "{}", serde_json::to_string(&order)?)?;
        Ok(Self(child))
    }

    /// Ends the attack, and gives what came of it.
    pub(crate) fn stop(mut self) -> Result<AttackTally> {
        drop(self.0.stdin.take());
        let mut told = String::new();
        self.0.stdout.take().context("it was asked for")?.read_to_string(&mut told)?;
        if !self.0.wait()?.success() {
            bail!("the attacker failed");
        }
        Ok(serde_json::from_str(&told)?)
    }
}

impl Drop for AttackProcess {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is wanted any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What an attacking process does: reads its order, attacks until its standard input ends, and prints what came of it.
#[expect(clippy::print_stdout, reason = "the process that started it reads this")]
pub(crate) fn attack_until_told() -> Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let AttackOrder { attack, server, token } = serde_json::from_str(&line)?;
    let (stop, tally) = (AtomicBool::new(false), AttackTally::default());
    std::thread::scope(|scope| {
        for number in 0..ATTACKERS {
            let (role, stop, tally) = (AttackerRole { server, number, token: token.clone() }, &stop, &tally);
            scope.spawn(move || role.run(attack, stop, tally));
        }
        let ended = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
        ended
    })?;
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}

/// One thread of the attacker.
struct AttackerRole {
    server: SocketAddr,
    number: usize,
    token: String,
}

impl AttackerRole {
    /// Attacks until it is stopped.
    fn run(&self, attack: Attack, stop: &AtomicBool, tally: &AttackTally) {
        let mut line = HttpLine::new(self.server);
        let mut count = 0_u64;
        let mut held = Vec::new();
        let mut socket = None;
        while !stop.load(Ordering::Relaxed) {
            count += 1;
            let is_taken = match attack {
                Attack::Rooms => {
                    let path = format!("/v0/topics/room:{}-{count}/messages", self.number);
                    line.request("POST", &path, &self.token, self.request(count).as_bytes()) == Some(201)
                }
                Attack::Bytes => self.publish(&mut socket, "room:mallory", count, LARGE),
                Attack::Flood => self.publish(&mut socket, HEALTHY, count, 64),
                Attack::Bodies => self.hold_body(&mut held),
                Attack::Reads => {
                    let path = format!("/v0/topics/{HEALTHY}/history?limit=500");
                    line.request("GET", &path, &self.token, b"") == Some(200)
                }
                Attack::Malformed => {
                    let path = format!("/v0/topics/{HEALTHY}/messages");
                    line.request("POST", &path, &self.token, &[b'['; 60_000]) == Some(201)
                }
                Attack::Connections => self.hold_connection(&mut held),
                Attack::Churn => matches!(join(self.server, HEALTHY, &self.token), Ok((_, true))),
                Attack::Strangers => {
                    let path = format!("/v0/topics/{HEALTHY}/history");
                    line.request("GET", &path, &format!("{}x", self.token), b"") == Some(200)
                }
            };
            tally.note(is_taken);
        }
    }

    fn request(&self, count: u64) -> String {
        format!(
            r#"{{"protocol":"mcp-x/v0","id":"m-{}-{count}","ts":"2026-01-01T00:00:00Z","from":"mallory","to":["bob"],"kind":"mcp","payload":{{"jsonrpc":"2.0","id":1,"method":"ping"}}}}"#,
            self.number
        )
    }

    /// Says something by WebSocket, which is opened where it is not open.
    fn publish(&self, socket: &mut Option<TcpStream>, topic: &str, count: u64, size: usize) -> bool {
        if socket.is_none() {
            *socket = join(self.server, topic, &self.token).ok().filter(|(_, is_in)| *is_in).map(|(stream, _)| stream);
        }
        let Some(stream) = socket else { return false };
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"m-{}-{count}","ts":"2026-01-01T00:00:00Z","from":"mallory","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/x","params":{{"pad":"{}"}}}}}}"#,
            self.number,
            "x".repeat(size)
        );
        // What comes back is read away, so that it is the limits that hold the attacker up and not its own buffers.
        let mut back = vec![0; size + 4096];
        let is_done = say(stream, &text).is_ok() && matches!(stream.read(&mut back), Ok(read) if read > 0);
        if !is_done {
            *socket = None;
        }
        is_done
    }

    /// Begins a body that never ends, and adds a byte to those that have begun where there are enough.
    fn hold_body(&self, held: &mut Vec<TcpStream>) -> bool {
        if held.len() >= HELD {
            held.retain_mut(|stream| stream.write_all(b" ").is_ok());
            std::thread::sleep(Duration::from_millis(100));
            return false;
        }
        let head = head(self.server, "POST", &format!("/v0/topics/{HEALTHY}/messages"), &self.token, 1_000_000);
        let Ok(mut stream) = open(self.server) else { return false };
        let is_begun = stream.write_all(head.as_bytes()).is_ok() && stream.write_all(&[b' '; 100_000]).is_ok();
        if is_begun {
            held.push(stream);
        }
        is_begun
    }

    /// Joins a room and never reads.
    fn hold_connection(&self, held: &mut Vec<TcpStream>) -> bool {
        if held.len() >= HELD {
            held.clear();
        }
        match join(self.server, HEALTHY, &self.token) {
            Ok((stream, true)) => {
                held.push(stream);
                true
            }
            _ => false,
        }
    }
}
