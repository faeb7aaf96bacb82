//! The participants while things fail: publishers, readers, and visitors who do not come back.
//!
//! They come back as clients do: to the next gateway, after the last envelope they saw, and resend what was not acknowledged
//! under its id. What a gateway may answer meanwhile is `closing` and nothing else.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Interval, timeout};

use super::crowd::{FaultCrowd, GATEWAYS};
use super::verdict::FaultRecord;
use super::{BEAT, END, TOPICS, WAIT_TIMEOUT, every};
use crate::Failure;
use crate::http::HttpCall;
use crate::socket::{TestSocket, TestSocketEvent};
use crate::witness::{Seen, envelope};

/// How many envelopes a publisher has under way at once.
pub(super) const WINDOW: usize = 4;

/// What somebody is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultPart {
    /// Publishes; whether it goes to another gateway when it is refused, or says it again where it is.
    Publisher {
        moves: bool,
    },
    Reader,
    /// Reads, as one of two connections of the same participant.
    Twin,
    /// Reads for as long as its first connection lasts.
    Visitor,
}

pub(crate) struct FaultClient {
    part: FaultPart,
    topic: usize,
    token: String,
    /// The gateway it comes by whenever it can.
    home: usize,
    crowd: Arc<FaultCrowd>,
    record: FaultRecord,
    written: u64,
    pending: VecDeque<PendingPublish>,
}

struct PendingPublish {
    id: String,
    text: String,
    is_due: bool,
}

/// Why a connection is over.
enum DisconnectCause {
    /// Everything was seen to the end.
    End,
    Lost,
    /// The gateway it belongs to is there again.
    Home,
}

impl FaultClient {
    pub(crate) fn new(
        part: FaultPart,
        (name, token): (&str, &str),
        topic: usize,
        home: usize,
        crowd: &Arc<FaultCrowd>,
    ) -> Self {
        let record = FaultRecord { name: name.to_owned(), topic, ..FaultRecord::default() };
        let (crowd, token) = (crowd.clone(), token.to_owned());
        Self { part, topic, token, home, crowd, record, written: 0, pending: VecDeque::new() }
    }

    /// Stays until the end, over as many connections as that takes.
    pub(crate) async fn stay(mut self) -> Result<FaultRecord, Failure> {
        let mut beat = every(BEAT);
        let mut homes = self.crowd.homes.subscribe();
        let (mut at, mut has_been_in) = (self.home, false);
        loop {
            if at == self.home {
                homes.mark_unchanged();
            }
            let parting = match self.connect(at).await? {
                Some(mut socket) => {
                    let mut is_in = false;
                    let parting = self.talk(&mut socket, at, &mut is_in, &mut beat, &mut homes).await;
                    has_been_in |= is_in;
                    if is_in {
                        self.crowd.left(self.topic, &self.record.name);
                    }
                    parting?
                }
                None => DisconnectCause::Lost,
            };
            match (parting, self.part) {
                (DisconnectCause::End, _) => {
                    self.record.reached_the_end = true;
                    return Ok(self.record);
                }
                (_, FaultPart::Visitor) if has_been_in => return Ok(self.record),
                (DisconnectCause::Home, _) => at = self.home,
                (DisconnectCause::Lost, part) => {
                    // Visitors are to be where they belong.
                    at = if part == FaultPart::Visitor { at } else { (at + 1) % GATEWAYS };
                    beat.tick().await;
                }
            }
        }
    }

    /// `None` where the gateway is not there or cannot let anybody in now.
    async fn connect(&self, at: usize) -> Result<Option<TestSocket>, Failure> {
        let Some(address) = self.crowd.address(at) else { return Ok(None) };
        let after = self.record.seen.last().map_or(String::new(), |seen| format!("&after={}", seen.id));
        let share = if self.part == FaultPart::Twin { "&share=true" } else { "" };
        let call =
            HttpCall::new("GET", format!("/v0/ws?topic={}{share}{after}", TOPICS[self.topic])).bearer(&self.token);
        // A killed gateway does not answer, a living one does.
        match timeout(WAIT_TIMEOUT, TestSocket::connect_unbounded(address, call)).await {
            Ok(Ok(Ok(socket))) => Ok(Some(socket)),
            Ok(Ok(Err(answer))) if answer.status == 503 => {
                self.crowd.shut_out(at);
                Ok(None)
            }
            Ok(Ok(Err(answer))) => {
                Err(self.complain(at, format_args!("refused{after}: {} {}", answer.status, answer.body)))
            }
            Ok(Err(_)) => Ok(None),
            Err(_) => Err(self.complain(at, "no answer to who wants to come in")),
        }
    }

    async fn talk(
        &mut self,
        socket: &mut TestSocket,
        at: usize,
        is_in: &mut bool,
        beat: &mut Interval,
        homes: &mut watch::Receiver<u64>,
    ) -> Result<DisconnectCause, Failure> {
        self.pending.iter_mut().for_each(|pending| pending.is_due = true);
        self.record.again.extend(self.pending.iter().map(|pending| pending.id.clone()));
        loop {
            let text = tokio::select! {
                event = socket.next_unbounded() => match event {
                    TestSocketEvent::Text(text) => text,
                    TestSocketEvent::Closed(1001 | 1006, _) | TestSocketEvent::Broken => return Ok(DisconnectCause::Lost),
                    other => return Err(self.complain(at, format_args!("{other:?}"))),
                },
                _ = beat.tick(), if *is_in && matches!(self.part, FaultPart::Publisher { .. }) => {
                    self.publish(socket).await;
                    continue;
                }
                _ = homes.changed(), if at != self.home => return Ok(DisconnectCause::Home),
            };
            let (seen, value) = Seen::read(&text)?;
            if !*is_in {
                if value["payload"]["event"] != "welcome" {
                    return Err(self.complain(at, format_args!("not welcomed first: {text}")));
                }
                *is_in = true;
                self.crowd.entered(self.topic, &self.record.name);
            } else if value["kind"] == "system" {
                if let Some(parting) = self.told(&value, at)? {
                    return Ok(parting);
                }
            } else if value["payload"]["event"] != "heartbeat" {
                self.saw(seen, &value, at)?;
                if self.record.seen.last().is_some_and(|seen| seen.id == END) {
                    return Ok(DisconnectCause::End);
                }
            }
        }
    }

    /// The gateway's own words: of these only refusals matter here.
    fn told(&mut self, value: &Value, at: usize) -> Result<Option<DisconnectCause>, Failure> {
        if value["payload"]["event"] != "error" {
            return Ok(None);
        }
        if value["payload"]["code"] != "closing" {
            return Err(self.complain(at, value));
        }
        let Some(id) = value["correlation_id"].as_str() else { return Ok(None) };
        self.crowd.refused(at);
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.id == id) {
            pending.is_due = true;
            self.record.again.insert(id.to_owned());
        }
        Ok((self.part == FaultPart::Publisher { moves: true }).then_some(DisconnectCause::Lost))
    }

    fn saw(&mut self, seen: Seen, value: &Value, at: usize) -> Result<(), Failure> {
        if value["from"] == *self.record.name {
            // What was resent may be received again: once in its place, and as the acknowledgement of the repetition.
            if self.record.acknowledged.contains(&seen.id) {
                return Ok(());
            }
            let found = self.pending.iter().position(|pending| pending.id == seen.id && pending.text == seen.text);
            let Some(found) = found else { return Err(self.complain(at, format_args!("it never said {}", seen.text))) };
            self.pending.remove(found);
            self.record.acknowledged.insert(seen.id.clone());
            self.crowd.acknowledged(self.topic, at);
        }
        self.record.seen.push(seen);
        self.crowd.saw(self.topic, at);
        Ok(())
    }

    fn complain(&self, at: usize, of: impl Display) -> Failure {
        format!("{} in {} at gateway {at}: {of}", self.record.name, TOPICS[self.topic])
    }

    async fn publish(&mut self, socket: &mut TestSocket) {
        let is_open = self.crowd.is_open();
        while is_open && self.pending.len() < WINDOW {
            let id = format!("{}-{:06}", self.record.name, self.written);
            let text = envelope(&self.record.name, &id, self.written);
            self.pending.push_back(PendingPublish { id, text, is_due: true });
            self.written += 1;
        }
        for pending in self.pending.iter_mut().filter(|pending| pending.is_due) {
            pending.is_due = false;
            // A connection that breaks here is noticed by the next read, after everything that still came.
            let _ = socket.feed(&*pending.text).await;
        }
        let _ = socket.flush().await;
        if !is_open && self.pending.is_empty() {
            self.crowd.is_done(self.topic, &self.record.name);
        }
    }
}
