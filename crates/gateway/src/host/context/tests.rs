//! What a scene cannot bring about: a gateway that went down between a write and its answer.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use salon_log::context::{Address, ContextScope, Key, Write};
use salon_log::sqlite::{Sqlite, SqliteOptions};
use salon_log::{ContextStore, Durability, Tailed, TopicLog};
use salon_protocol::{Entry, Envelope, ParticipantId, TopicName};
use salon_rooms::{ByteRates, Rate, Rooms, Settings};

use super::super::{HostSettings, Library};

fn envelope(id: &str, from: &str, rest: &str) -> Envelope {
    let head = format!(r#""protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}""#);
    Envelope::restore(format!("{{{head},{rest}}}")).expect("an envelope")
}

async fn append(log: &Sqlite, topic: &TopicName, envelope: Envelope) -> Arc<Entry> {
    log.append(topic, envelope).await.expect("an append").entry
}

/// Opens the rooms that somebody is in, and waits for the next answer of the host's.
async fn next_answer(log: Arc<Sqlite>, topic: &TopicName, after: &Entry) -> serde_json::Value {
    let settings = Settings {
        ring: 1 << 20,
        rings: 1 << 20,
        rate: Rate::UNLIMITED,
        byte_rates: ByteRates::UNLIMITED,
        bridges: salon_rooms::BridgeSettings::default(),
        participants: 0,
        rooms: 0,
        rooms_each: 0,
        grace: Duration::from_secs(600),
        leaves: [7; 16],
        witness: None,
        timings: salon_rooms::Timings::default(),
    };
    let host_settings = HostSettings {
        searches: Arc::new(crate::search::Searches::new(log.clone())),
        files: log.clone(),
        audit: crate::audit::Audit::off(),
        history_off: HashSet::new(),
        message_limit: 0,
        namespace: [7; 16],
        list_times: (Duration::from_secs(60), Duration::from_secs(10)),
        topic_creation: crate::config::TopicCreation::Anyone,
    };
    let cluster = Arc::new(salon_log::cluster::SingleNode::default());
    let host = super::super::host((log.clone(), log.clone(), cluster), host_settings, Arc::new(Library::default()));
    let rooms = Rooms::new(log.clone(), settings, host);
    rooms.recover().await.expect("the log can be read");
    let mut tail = log.tail(topic, after.position);
    let answer = match tokio::time::timeout(Duration::from_secs(20), tail.next()).await {
        Ok(Some(Ok(Tailed::Entries(entries)))) => entries[0].clone(),
        other => panic!("instead of an answer came {other:?}"),
    };
    rooms.close().await;
    serde_json::from_str(answer.envelope.payload()).expect("JSON")
}

#[tokio::test]
async fn what_was_written_before_a_crash_is_answered_and_not_written_again() {
    let options = SqliteOptions { durability: Durability::Os, ..SqliteOptions::default() };
    let log = Arc::new(Sqlite::temporary(options).expect("a temporary log"));
    let topic = TopicName::new("room:alpha").expect("a name");
    let join = r#""kind":"presence","payload":{"event":"join","participant":{"id":"alice"}}"#;
    append(&log, &topic, envelope("j1", "system:gateway", join)).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context.put","arguments":{"key":"count","value":1,"expectedVersion":0}}}"#;
    let call = envelope("c1", "alice", &format!(r#""to":["system:gateway"],"kind":"mcp","payload":{call}"#));
    let request = append(&log, &topic, call).await;

    // So far the host came, and then the power failed.
    let address = Address { topic: topic.clone(), scope: ContextScope::Topic, key: Key::new("count").expect("a key") };
    let cause = request.position.to_string().into();
    let author = ParticipantId::new("alice").expect("an id");
    let write = Write { value: Some("1".into()), expected: Some(0), author: author.clone(), cause, requested: None };
    log.write(address.clone(), write).await.expect("a first write");
    // Meanwhile somebody else has written; what was expected is no longer so.
    let write = Write { value: Some("2".into()), expected: None, author, cause: "another".into(), requested: None };
    log.write(address.clone(), write).await.expect("another write");

    let answer = next_answer(log.clone(), &topic, &request).await;
    assert_eq!(answer["result"]["structuredContent"]["version"], 1, "{answer}");
    let versions = log.history(&address, None, 10).await.expect("a history");
    assert_eq!(versions.len(), 2, "it was written once");
}
