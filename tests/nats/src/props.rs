//! What the tests on NATS have in common: a topic, names, envelopes, logs and places.

use std::sync::Arc;

use salon_log::nats::{Nats, NatsOptions, Timings};
use salon_log::{Claim, Lease, TopicLog};
use salon_protocol::{Entry, Envelope, ParticipantId, TopicName};
use salon_testkit::eventually;
use salon_testkit::nats::NatsServers;
use tokio::sync::oneshot;

/// How a log is opened on servers, named with commas between, with times that need not be waited for and all topics in one shard, where tests find
/// them.
pub(crate) fn at(url: &str) -> NatsOptions {
    let servers = url.split(',').map(str::to_owned).collect();
    NatsOptions { servers, timings: Timings::FAST, shards: 1, ..NatsOptions::default() }
}

pub(crate) fn options(servers: &NatsServers) -> NatsOptions {
    at(&servers.url())
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name).expect("a name")
}

pub(crate) fn room() -> TopicName {
    topic("room:a.b")
}

pub(crate) fn who(id: &str) -> ParticipantId {
    ParticipantId::new(id).expect("an id")
}

pub(crate) fn envelope(id: &str, from: &str, kind: &str, payload: &str) -> Envelope {
    Envelope::restore(format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}","kind":"{kind}","payload":{payload}}}"#
    ))
    .expect("an envelope")
}

/// Something that Alice says.
pub(crate) fn line(id: &str) -> Envelope {
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"{id}"}}}}"#);
    envelope(id, "alice", "mcp", &payload)
}

/// Says that Alice has come, or has gone.
pub(crate) fn presence(event: &str) -> Envelope {
    let payload = format!(r#"{{"event":"{event}","participant":{{"id":"alice","kind":"agent"}}}}"#);
    envelope(event, "system:gateway", "presence", &payload)
}

pub(crate) fn ids(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|entry| entry.envelope.id().to_string()).collect()
}

/// Claims a place; what comes tells that it was lost.
pub(crate) async fn claim(log: &Nats, id: &str, claim: Claim) -> (Lease, oneshot::Receiver<()>) {
    let (tell, lost) = oneshot::channel();
    let told = Box::new(move || _ = tell.send(()));
    (log.claim(&room(), &who(id), claim, told).await.expect("a lease"), lost)
}

/// Waits until the places that are held are these.
pub(crate) async fn roster(log: &Nats, expected: &[&str]) {
    let shown = async || {
        let mut roster = log.roster(&room()).await.expect("a roster");
        roster.sort();
        roster.iter().map(ParticipantId::as_str).eq(expected.iter().copied()).then_some(())
    };
    eventually(&format!("the roster to be {expected:?}"), shown).await.expect("in time");
}
