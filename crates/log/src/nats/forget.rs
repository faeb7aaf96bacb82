//! Forgetting topics of which nothing is kept and in which nobody is, so that names that were used once do not fill the log for good.
//!
//! A stream can only be deleted by its name, whatever is in it by then. So it is shut first: its subjects become another one, and
//! nobody can append to it any more. A message to that subject comes behind everything that was on its way, and tells whether anything
//! was. If so, the stream is opened again; if not, it is deleted. An append meanwhile waits, and makes the topic again.
//!
//! Invariant: of the nodes that could delete a stream of some name, one has the lock, and acts at once, by the servers' clock and its own, or
//! never. What it has left shut because an answer did not come it opens later itself; where it has died, another does once the lock
//! is so old that nothing of the holder's is on its way.
//!
//! Left to chance is what happens between the last look and the deletion, which no server makes depend on anything. An election may be
//! won by a server that has not heard of the shutting. And the client sends what it had not yet written when its connection broke once
//! it has another: that must be within [`LOCK_TIME`]. So nothing is sent without a connection, and the last look was answered on it.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::stream::Info;
use bytes::Bytes;
use salon_protocol::{Timestamp, TopicName};

use super::Shared;
use super::fault::NatsFault;
use super::follow::expecting;
use super::link::{Stored, millis};
use super::names::token;
use super::reader::{Extent, TopicStream, clock, rooms};
use super::snapshot::Snapshot;

/// How long a lock is its holder's. Far longer than a request is on its way, if the connection does not break just then.
const LOCK_TIME: Duration = Duration::from_secs(600);
/// Where it is kept behind which offset every new topic begins.
const FLOOR: &str = "floor";

fn lock_of(topic: &TopicName) -> String {
    format!("{}.lock", token(topic.as_str()))
}

/// How long it is from one time to another of the servers'.
fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_millis(later.0.saturating_sub(earlier.0))
}

impl Shared {
    /// Forgets a topic that has no entries, unless somebody is in it, or it had some until lately.
    pub(super) async fn forget(&self, room: &TopicStream, extent: Extent) -> Result<(), NatsFault> {
        let (Some(now), Some(age)) = (room.now, self.options.retention.of(&room.name).age) else { return Ok(()) };
        let newest = extent.newest.max(millis(room.info.created.unix_timestamp_nanos()));
        let is_used =
            between(newest, now) < age || self.hub.is_followed(&room.name) || !self.roster(&room.name).is_empty();
        // Entries are removed only once it is kept who was present.
        if is_used || Snapshot::load(self, &room.name).await?.is_some_and(|(_, kept)| !kept.is_empty()) {
            return Ok(());
        }
        let since = Instant::now();
        let Some(lock) = self.lock(&room.name, now, LOCK_TIME).await? else { return Ok(()) };
        self.raise_floor(extent.head + 1).await?;
        if self.shut(room, extent, lock, since).await? {
            tracing::info!(topic = %room.name, "retention: topic empty, deleting its stream");
            let (bucket, key) = (&self.standings, token(room.name.as_str()));
            // Whatever is kept of it from now on is newer than the lock.
            for key in [key.clone(), format!("{key}.*.*")] {
                self.link.purge(&bucket.stream, Some(&bucket.subject(&key)), lock).await?;
            }
        }
        self.unlock(&room.name, lock).await
    }

    /// Deletes a stream if nothing was appended to it; says whether. Where that is not known, nobody touches it for a while.
    async fn shut(&self, room: &TopicStream, extent: Extent, lock: u64, since: Instant) -> Result<bool, NatsFault> {
        let (stream, mark) = (&room.info.config.name, self.link.names.shut(&room.name));
        let looked = async {
            self.rename(room, mark.clone()).await?;
            match self.link.store(mark.clone(), expecting(0), Bytes::new()).await {
                Ok(_) | Err(NatsFault::Raced) => {}
                Err(fault) => return Err(fault),
            }
            self.is_over(room, extent, lock, &mark).await
        };
        let looked = looked.await;
        // Another node's by now, or about to be opened.
        if looked == Err(NatsFault::Raced) || since.elapsed() >= self.link.timings.deletion_overdue() {
            return Err(looked.err().unwrap_or_else(|| NatsFault::unavailable("forgetting a topic took too long")));
        }
        if !matches!(looked, Ok(true)) || since.elapsed() >= self.link.timings.deletion_timeout {
            self.rename(room, self.link.names.entries(&room.name)).await?;
            return looked.map(|_| false);
        }
        self.link.connected()?;
        match self.link.ask::<serde_json::Value>(format!("STREAM.DELETE.{stream}"), &serde_json::json!({})).await {
            Ok(_) | Err(NatsFault::Missing) => Ok(true),
            Err(fault) => Err(fault),
        }
    }

    /// Whether a stream is shut and has nothing but its mark, and the lock was taken just now. `Raced` where it is not held any more.
    async fn is_over(&self, room: &TopicStream, extent: Extent, lock: u64, mark: &str) -> Result<bool, NatsFault> {
        let held = self.standings.get(&self.link, &lock_of(&room.name)).await?;
        let held = held.value.filter(|held| held.sequence == lock).ok_or(NatsFault::Raced)?;
        let told: serde_json::Value = self.link.ask(format!("STREAM.INFO.{}", room.info.config.name), &()).await?;
        let now = clock(&told);
        let info: Info =
            serde_json::from_value(told).map_err(|_| NatsFault::Damaged("what is told of a stream".into()))?;
        let is_empty = info.state.messages == 1 && info.state.last_sequence == extent.head + 1;
        let is_fresh = now.is_some_and(|now| between(held.time, now) < self.link.timings.deletion_timeout);
        Ok(is_empty && info.config.subjects == [mark] && is_fresh)
    }

    /// Gives a stream another subject.
    async fn rename(&self, room: &TopicStream, subject: String) -> Result<(), NatsFault> {
        self.link.connected()?;
        let mut config = room.info.config.clone();
        config.subjects = vec![subject];
        self.link.ask::<Info>(format!("STREAM.UPDATE.{}", config.name), &config).await.map(drop)
    }

    /// Opens streams again that somebody has shut and not deleted.
    pub(super) async fn reopen_shut(&self) -> Result<(), NatsFault> {
        for room in rooms(&self.link, self.link.names.all_shut()).await? {
            if let Err(fault) = self.reopen(&room).await {
                tracing::warn!(topic = %room.name, %fault, "retention: closed topic not reopened, retrying");
            }
        }
        Ok(())
    }

    async fn reopen(&self, room: &TopicStream) -> Result<(), NatsFault> {
        let Some(now) = room.now else { return Ok(()) };
        let Some(lock) = self.lock(&room.name, now, self.link.timings.deletion_overdue()).await? else { return Ok(()) };
        tracing::warn!(topic = %room.name, "retention: deletion of a topic interrupted, reopening it");
        self.rename(room, self.link.names.entries(&room.name)).await?;
        self.unlock(&room.name, lock).await
    }

    /// Takes the lock of a topic, and gives its revision. `None` where another node has it, or this one for less than some time.
    async fn lock(&self, topic: &TopicName, now: Timestamp, own: Duration) -> Result<Option<u64>, NatsFault> {
        let key = lock_of(topic);
        let kept = self.standings.get(&self.link, &key).await?;
        let locked = |held: &Stored| if held.payload == self.node.as_bytes() { own } else { LOCK_TIME };
        if kept.value.is_some_and(|held| between(held.time, now) < locked(&held)) {
            return Ok(None);
        }
        self.link.connected()?;
        let own = Bytes::from(self.node.clone());
        match self.standings.replace(&self.link, &key, kept.revision, own, HeaderMap::new()).await {
            Ok(revision) => Ok(Some(revision)),
            Err(NatsFault::Raced) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn unlock(&self, topic: &TopicName, lock: u64) -> Result<(), NatsFault> {
        self.standings.remove(&self.link, &lock_of(topic), Some(lock)).await.map(drop)
    }

    /// The offset behind which every new topic begins, so that a position in one that was forgotten is a gap in the next of its name,
    /// whatever time it is where that is made.
    pub(super) async fn floor(&self) -> Result<u64, NatsFault> {
        Ok(self.kept_floor().await?.1)
    }

    async fn kept_floor(&self) -> Result<(u64, u64), NatsFault> {
        let kept = self.standings.get(&self.link, FLOOR).await?;
        let floor = kept.value.and_then(|stored| std::str::from_utf8(&stored.payload).ok()?.parse().ok());
        Ok((kept.revision, floor.unwrap_or_default()))
    }

    async fn raise_floor(&self, to: u64) -> Result<(), NatsFault> {
        loop {
            let (revision, floor) = self.kept_floor().await?;
            if floor >= to {
                return Ok(());
            }
            let own = Bytes::from(to.to_string());
            match self.standings.replace(&self.link, FLOOR, revision, own, HeaderMap::new()).await {
                Ok(_) => return Ok(()),
                Err(NatsFault::Raced) => {}
                Err(fault) => return Err(fault),
            }
        }
    }
}
