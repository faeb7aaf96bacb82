//! Key-value buckets: streams in the form that NATS and its tools know them by, read from their leaders.
//!
//! Every value has a revision, that of its message. To replace one is to name the revision that is replaced; of the writers that name the
//! same, one succeeds.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use bytes::Bytes;

use super::fault::NatsFault;
use super::follow::expecting;
use super::link::{NatsLink, Stored};
use super::names::StreamNames;

const OPERATION: &str = "KV-Operation";
pub(super) const ROLLUP: &str = "Nats-Rollup";
pub(super) const TTL: &str = "Nats-TTL";

/// How long it is remembered that a key was removed, for followers that have to see it.
const REMOVAL_TTL: Duration = Duration::from_secs(60);

pub(super) struct Bucket {
    pub(super) stream: String,
    prefix: String,
}

/// What a key has.
#[derive(Debug, Clone)]
pub(super) struct KeyValue {
    /// What to name in order to replace it; 0 where there is nothing.
    pub(super) revision: u64,
    /// `None` where it was removed, or never was.
    pub(super) value: Option<Stored>,
}

impl Bucket {
    pub(super) fn new(names: &StreamNames, purpose: &str) -> Self {
        let bucket = names.bucket(purpose);
        Self { stream: format!("KV_{bucket}"), prefix: format!("$KV.{bucket}.") }
    }

    /// The subject of a key, or of several.
    pub(super) fn subject(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The subjects of all keys.
    pub(super) fn subjects(&self) -> String {
        self.subject(">")
    }

    /// How the bucket is made.
    pub(super) fn config(&self, replicas: usize, age: Duration) -> Config {
        Config {
            name: self.stream.clone(),
            subjects: vec![self.subjects()],
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            num_replicas: replicas,
            max_messages_per_subject: 1,
            max_age: age,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            allow_message_ttl: true,
            ..Config::default()
        }
    }

    /// The key of a message, and its value unless it was removed.
    pub(super) fn read<'a>(&self, stored: &'a Stored) -> Option<(&'a str, Option<&'a Bytes>)> {
        let key = stored.subject.strip_prefix(&self.prefix)?;
        Some((key, (!is_removed(stored)).then_some(&stored.payload)))
    }

    pub(super) async fn get(&self, link: &NatsLink, key: &str) -> Result<KeyValue, NatsFault> {
        let newest = link.newest(&self.stream, &self.subject(key)).await?;
        let revision = newest.as_ref().map_or(0, |stored| stored.sequence);
        Ok(KeyValue { revision, value: newest.filter(|stored| !is_removed(stored)) })
    }

    pub(super) async fn put(&self, link: &NatsLink, key: &str, value: Bytes) -> Result<u64, NatsFault> {
        link.store(self.subject(key), HeaderMap::new(), value).await
    }

    /// Replaces a revision.
    pub(super) async fn replace(
        &self,
        link: &NatsLink,
        key: &str,
        revision: u64,
        value: Bytes,
        more: HeaderMap,
    ) -> Result<u64, NatsFault> {
        let mut headers = expecting(revision);
        for (name, values) in more.iter() {
            for value in values {
                headers.insert(name.clone(), value.clone());
            }
        }
        link.store(self.subject(key), headers, value).await
    }

    /// Removes a key, if it has that revision where one is named.
    pub(super) async fn remove(&self, link: &NatsLink, key: &str, revision: Option<u64>) -> Result<u64, NatsFault> {
        let mut headers = revision.map(expecting).unwrap_or_default();
        headers.insert(OPERATION, "PURGE");
        headers.insert(ROLLUP, "sub");
        headers.insert(TTL, format!("{}s", REMOVAL_TTL.as_secs()));
        link.store(self.subject(key), headers, Bytes::new()).await
    }
}

fn is_removed(stored: &Stored) -> bool {
    stored.headers.get(OPERATION).is_some() || stored.headers.get("Nats-Marker-Reason").is_some()
}
