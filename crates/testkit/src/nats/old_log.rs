//! A log in which every topic has a stream of its own, as Salon 0.1 made it: what `salon log migrate` moves.

use std::time::Duration;

use salon_protocol::Envelope;
use serde_json::{Value, json};

use super::{NatsServers, frame, topic_token};
use crate::within;

/// A log as Salon 0.1 would have left it.
pub struct OldLog<'a>(&'a NatsServers);

impl OldLog<'_> {
    /// One without topics, of gateways whose key has this fingerprint and whose nodes have a lease of so long.
    ///
    /// # Panics
    ///
    /// Like all of this where the servers refuse something.
    pub async fn create<'a>(servers: &'a NatsServers, fingerprint: &str, lease: Duration) -> OldLog<'a> {
        let log = OldLog(servers);
        for (bucket, key, value) in [
            ("meta", "log", json!({ "format": 1, "epoch": 7, "fingerprint": fingerprint, "rules": "" })),
            ("standing", "floor", json!(17)),
            ("seats", "", Value::Null),
            ("nodes", "", Value::Null),
        ] {
            let mut config = json!({
                "name": format!("KV_salon-{bucket}"), "subjects": [format!("$KV.salon-{bucket}.>")], "max_msgs_per_subject": 1,
                "storage": "file", "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
                "allow_msg_ttl": true, "metadata": { "salon-layout": "1" },
            });
            if bucket == "nodes" {
                config["max_age"] = json!(lease.as_nanos() as u64);
            }
            log.ask(&format!("STREAM.CREATE.KV_salon-{bucket}"), &config).await;
            if !value.is_null() {
                log.publish(&format!("$KV.salon-{bucket}.{key}"), "", &value.to_string()).await;
            }
        }
        log
    }

    /// Asks the servers for something.
    pub async fn ask(&self, subject: &str, body: &Value) -> Value {
        let told = self.0.ask(subject, body).await.expect("an answer");
        assert!(told["error"].is_null(), "{subject}: {told}");
        told
    }

    /// Publishes a message with headers, and waits until the server has it.
    pub async fn publish(&self, subject: &str, headers: &str, payload: &str) {
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let (head, all) = (headers.len(), headers.len() + payload.len());
        let said = format!("HPUB {subject} {head} {all}\r\n{headers}{payload}\r\nPING\r\n");
        let mut answers = self.0.wire(&said).await.expect("a connection");
        while !within("a pong", frame(&mut answers)).await.expect("in time").expect("a frame").0.starts_with("PONG") {}
    }

    /// Makes a topic with entries, and gives its stream.
    pub async fn topic(&self, name: &str, entries: &[Envelope]) -> String {
        let token = topic_token(name);
        let stream = format!("salon-room-{token}");
        let config = json!({
            "name": stream, "subjects": [format!("salon.room.{token}.*")], "storage": "file", "allow_direct": true,
            "first_seq": 1000, "duplicate_window": 120_000_000_000_u64,
            "metadata": { "salon-layout": "1", "salon-topic": name },
        });
        self.ask(&format!("STREAM.CREATE.{stream}"), &config).await;
        for entry in entries {
            self.store(name, entry).await;
        }
        stream
    }

    /// Stores an entry of a topic.
    pub async fn store(&self, name: &str, entry: &Envelope) {
        let subject = format!("salon.room.{}.{}", topic_token(name), topic_token(entry.id().as_str()));
        self.publish(&subject, "", entry.text()).await;
    }

    /// The sequence of a stream's newest message.
    pub async fn newest(&self, stream: &str) -> u64 {
        let told = self.ask(&format!("STREAM.INFO.{stream}"), &json!({})).await;
        told["state"]["last_seq"].as_u64().expect("a sequence")
    }

    /// Gives a stream subjects and metadata.
    pub async fn change(&self, stream: &str, subject: &str, copied: Option<u64>) {
        let mut config = self.ask(&format!("STREAM.INFO.{stream}"), &json!({})).await["config"].clone();
        config["subjects"] = json!([subject]);
        if let Some(copied) = copied {
            config["metadata"]["salon-copied"] = json!(copied.to_string());
        }
        self.ask(&format!("STREAM.UPDATE.{stream}"), &config).await;
    }

    /// The names of all streams.
    pub async fn streams(&self) -> Vec<String> {
        let listed = self.ask("STREAM.NAMES", &json!({})).await;
        let names = listed["streams"].as_array().expect("a list").iter();
        names.map(|name| name.as_str().expect("a name").to_owned()).collect()
    }
}
