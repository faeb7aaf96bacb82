//! Clients that come back: they remember the last envelope they saw and resume after it.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CrashShared, END, TOPIC};
use crate::http::HttpCall;
use crate::socket::{TestSocket, TestSocketEvent};
use crate::witness::{Seen, envelope};
use crate::{Failure, within};

/// How many envelopes a publisher has under way at once.
const WINDOW: usize = 8;

/// What one client can bear witness to.
#[derive(Debug, Default)]
pub(crate) struct CrashRecord {
    pub(crate) name: String,
    /// Everything it saw live or resumed, in order.
    pub(crate) seen: Vec<Seen>,
    /// Of a publisher: everything that was acknowledged, in order.
    pub(crate) acknowledged: Vec<String>,
}

/// What a client does with its connection. Tells whether it is done.
pub(crate) trait ClientPart: Send {
    fn counts(&self) -> bool {
        false
    }
    fn connected(&mut self, name: &str, finishing: bool) -> Vec<String>;
    fn saw(&mut self, name: &str, seen: &Seen, from: &str, finishing: bool) -> Result<Vec<String>, Failure>;
    fn done(&self, finishing: bool) -> bool;
    fn acknowledged(self) -> Vec<String>;
}

pub(crate) struct CrashClient {
    name: String,
    token: String,
    shared: Arc<CrashShared>,
}

impl CrashClient {
    pub(crate) fn new(name: String, token: String, shared: &Arc<CrashShared>) -> Self {
        Self { name, token, shared: Arc::clone(shared) }
    }

    /// Plays a part until it is done, over as many connections as that takes.
    pub(crate) async fn follow(self, mut part: impl ClientPart) -> Result<CrashRecord, Failure> {
        let mut record = CrashRecord { name: self.name.clone(), ..CrashRecord::default() };
        let mut generations = self.shared.generation.subscribe();
        loop {
            let generation = *generations.borrow_and_update();
            let last = record.seen.last().map(|seen| seen.id.clone());
            if let Some(mut socket) = self.connect(last.as_deref()).await? {
                self.talk(&mut socket, &mut part, &mut record).await?;
                if part.done(self.finishing()) {
                    record.acknowledged = part.acknowledged();
                    return Ok(record);
                }
            }
            let next = generations.wait_for(|&n| n > generation);
            within("the next process", next).await?.map_err(|e| e.to_string())?;
        }
    }

    fn finishing(&self) -> bool {
        self.shared.finishing.load(Ordering::SeqCst)
    }

    /// `None` when the gateway died meanwhile. A refusal is an error: a client that resumes after what it saw must be let in.
    async fn connect(&self, after: Option<&str>) -> Result<Option<TestSocket>, Failure> {
        let after = after.map_or(String::new(), |id| format!("&after={id}"));
        let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}{after}")).bearer(&self.token);
        match TestSocket::connect(self.shared.address, call).await {
            Err(_) => Ok(None),
            Ok(Ok(socket)) => Ok(Some(socket)),
            Ok(Err(answer)) => Err(format!("{} was refused{after}: {} {}", self.name, answer.status, answer.body)),
        }
    }

    /// Until the part is done or the connection ends.
    async fn talk(
        &self,
        socket: &mut TestSocket,
        part: &mut impl ClientPart,
        record: &mut CrashRecord,
    ) -> Result<(), Failure> {
        let mut welcomed = false;
        loop {
            let text = match within("the next frame", socket.next_unbounded()).await? {
                TestSocketEvent::Text(text) => text,
                TestSocketEvent::Closed(1001 | 1006, _) | TestSocketEvent::Broken => return Ok(()),
                other => return Err(format!("{} got {other:?}", self.name)),
            };
            let (seen, value) = Seen::read(&text)?;
            let outgoing = if !welcomed {
                if value["payload"]["event"] != "welcome" {
                    return Err(format!("{} was not welcomed first: {text}", self.name));
                }
                welcomed = true;
                self.shared.welcomed.send_modify(|n| *n += 1);
                part.connected(&self.name, self.finishing())
            } else if value["payload"]["event"] == "heartbeat" {
                Vec::new()
            } else if value["kind"] == "system" {
                return Err(format!("{} was refused: {text}", self.name));
            } else {
                let from = value["from"].as_str().unwrap_or_default();
                let outgoing = part.saw(&self.name, &seen, from, self.finishing())?;
                record.seen.push(seen);
                if part.counts() {
                    self.shared.saw_one();
                }
                outgoing
            };
            for text in outgoing {
                // A connection that breaks here is noticed by the next read, after everything that still came.
                let _ = socket.feed(text).await;
            }
            let _ = socket.flush().await;
            if part.done(self.finishing()) {
                return Ok(());
            }
        }
    }
}

/// Reads until the end.
#[derive(Debug, Default)]
pub(crate) struct CrashReader {
    ended: bool,
}

impl ClientPart for CrashReader {
    fn counts(&self) -> bool {
        true
    }

    fn connected(&mut self, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }

    fn saw(&mut self, _: &str, seen: &Seen, _: &str, _: bool) -> Result<Vec<String>, Failure> {
        self.ended |= seen.id == END;
        Ok(Vec::new())
    }

    fn done(&self, _: bool) -> bool {
        self.ended
    }

    fn acknowledged(self) -> Vec<String> {
        Vec::new()
    }
}

/// Publishes with a window of unacknowledged envelopes and says them again, byte for byte, after every interruption.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    written: u64,
    pending: VecDeque<(String, String)>,
    acknowledged: Vec<String>,
    ids: HashSet<String>,
}

impl Publisher {
    fn fill_window(&mut self, name: &str, finishing: bool) -> Vec<String> {
        let mut fresh = Vec::new();
        while !finishing && self.pending.len() < WINDOW {
            let id = format!("{name}-{:06}", self.written);
            let text = envelope(name, &id, self.written);
            self.written += 1;
            self.pending.push_back((id, text.clone()));
            fresh.push(text);
        }
        fresh
    }
}

impl ClientPart for Publisher {
    fn connected(&mut self, name: &str, finishing: bool) -> Vec<String> {
        let mut again: Vec<String> = self.pending.iter().map(|(_, text)| text.clone()).collect();
        again.extend(self.fill_window(name, finishing));
        again
    }

    fn saw(&mut self, name: &str, seen: &Seen, from: &str, finishing: bool) -> Result<Vec<String>, Failure> {
        // What was resent may be received twice: once resumed, once as the repeated acknowledgement.
        if from != name || self.ids.contains(&seen.id) {
            return Ok(Vec::new());
        }
        match self.pending.pop_front() {
            Some((id, text)) if id == seen.id && text == seen.text => {
                self.ids.insert(id);
                self.acknowledged.push(text);
                Ok(self.fill_window(name, finishing))
            }
            expected => Err(format!("{name} expected its {expected:?} and got {}", seen.text)),
        }
    }

    fn done(&self, finishing: bool) -> bool {
        finishing && self.pending.is_empty()
    }

    fn acknowledged(self) -> Vec<String> {
        self.acknowledged
    }
}

/// Publishes the marker at which readers end.
pub(crate) async fn publish_end(address: SocketAddr, token: &str) -> Result<(), Failure> {
    let call =
        HttpCall::new("POST", format!("/v0/topics/{TOPIC}/messages")).bearer(token).body(envelope("ender", END, 0));
    let answer = call.send(address).await?;
    if answer.status / 100 == 2 { Ok(()) } else { Err(format!("the end: {} {}", answer.status, answer.body)) }
}
