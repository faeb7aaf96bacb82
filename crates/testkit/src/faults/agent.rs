//! Somebody who is in a room by the client library, which comes back by itself.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use salon_client::{Backoff, Client, Dial, Event, Events, Gateway, Room, StaticToken, Wire};
use salon_protocol::Kind;
use tokio::net::TcpStream;

use super::crowd::{FaultCrowd, GATEWAYS};
use super::verdict::FaultRecord;
use super::{BEAT, END, TOPICS, every};
use crate::Failure;
use crate::witness::Seen;

/// As a balancer does: every connection to the next gateway.
struct Balancer {
    crowd: Arc<FaultCrowd>,
    next: AtomicUsize,
}

impl Dial for Balancer {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Wire>>> {
        Box::pin(async {
            let gateway = self.next.fetch_add(1, Ordering::Relaxed) % GATEWAYS;
            let address = self.crowd.address(gateway).ok_or(io::ErrorKind::NotConnected)?;
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Wire>)
        })
    }
}

/// Publishes and listens until the end.
pub(crate) async fn stay(
    name: String,
    token: String,
    topic: usize,
    crowd: Arc<FaultCrowd>,
) -> Result<FaultRecord, Failure> {
    let complain = |of: String| format!("{name} in {}: {of}", TOPICS[topic]);
    let way = Gateway::through(Balancer { crowd: crowd.clone(), next: AtomicUsize::new(topic) });
    let client = Client::new(way, StaticToken::new(token));
    let often = Backoff { base: Duration::from_millis(50), cap: Duration::from_secs(1) };
    let mut beat = every(BEAT);
    let (room, events) = loop {
        let entering = client.room(TOPICS[topic].parse().map_err(|e| format!("{e}"))?);
        match entering.answer_by_hand().backoff(often).join_listening().await {
            Ok(entered) => break entered,
            Err(error) if error.is_passing() => drop(beat.tick().await),
            Err(error) => return Err(complain(error.to_string())),
        }
    };
    crowd.entered(topic, &name);
    let mut record = FaultRecord { name: name.clone(), topic, ..FaultRecord::default() };
    let (said, heard) = tokio::join!(speak(&room, topic, &name, &crowd), listen(events));
    crowd.left(topic, &name);
    record.acknowledged = said.map_err(complain)?;
    record.seen = heard.map_err(complain)?;
    record.reached_the_end = true;
    Ok(record)
}

/// Says one thing after the other, and waits each out; what was stored.
async fn speak(room: &Room, topic: usize, name: &str, crowd: &FaultCrowd) -> Result<HashSet<String>, Failure> {
    let mut acknowledged = HashSet::new();
    let mut beat = every(BEAT);
    while crowd.is_open() {
        beat.tick().await;
        let envelope = room.say("still here").await.map_err(|error| error.to_string())?;
        acknowledged.insert(envelope.id().to_string());
    }
    crowd.is_done(topic, name);
    Ok(acknowledged)
}

async fn listen(mut events: Events) -> Result<Vec<Seen>, Failure> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if matches!(event, Event::Gap) {
            return Err("a gap".into());
        }
        let Event::Envelope(envelope) = event else { continue };
        if envelope.kind() == Kind::System {
            continue;
        }
        seen.push(Seen::read(envelope.text())?.0);
        if envelope.id().as_str() == END {
            return Ok(seen);
        }
    }
    Err("the stay was over before the end".into())
}
