//! Forgetting topics of which nothing is kept and in which nobody is, so that names that were used once do not fill the log for good.
//!
//! A stream can only be deleted by its name, whatever is in it by then. So it is shut first: its subjects become another one, and
//! nobody can append to it any more. A message to that subject comes behind everything that was on its way, and tells whether anything
//! was. If so, the stream is opened again; if not, it is deleted. Whoever appends meanwhile waits, and makes the topic anew.
//!
//! Invariant: of those who could delete a stream of some name, one has the lock, and acts at once or never. Nobody else touches what is
//! shut before the lock is so old that nothing of its holder's can be on its way. What a holder leaves behind that has died is opened
//! then. What is left to chance is an election between the look and the deletion, won by a server that has not heard of the shutting.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::stream::Info;
use bytes::Bytes;
use salon_protocol::{Timestamp, TopicName};

use super::Shared;
use super::follow::expecting;
use super::link::{Fault, millis};
use super::names::token;
use super::reader::{Extent, Room, rooms};
use super::snapshot::Snapshot;

/// How long a lock is its holder's. Far longer than a request can be on its way.
const LOCKED: Duration = Duration::from_secs(600);
/// How soon after taking the lock a stream must be deleted, or is not.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Where it is kept behind which offset every new topic begins.
const FLOOR: &str = "floor";

fn lock_of(topic: &TopicName) -> String {
    format!("{}.lock", token(topic.as_str()))
}

impl Shared {
    /// Forgets a topic that has no entries, unless somebody is in it, or it had some until lately.
    pub(super) async fn forget(&self, room: &Room, extent: Extent) -> Result<(), Fault> {
        let (Some(now), Some(age)) = (room.now, self.options.retention.of(&room.name).age) else { return Ok(()) };
        let newest = extent.newest.max(millis(room.info.created.unix_timestamp_nanos()));
        let is_used = Duration::from_millis(now.0.saturating_sub(newest.0)) < age
            || self.hub.is_followed(&room.name)
            || !self.roster(&room.name).is_empty();
        // Entries are removed only once it is kept who was present.
        if is_used || Snapshot::load(self, &room.name).await?.is_some_and(|(_, kept)| !kept.is_empty()) {
            return Ok(());
        }
        let Some(lock) = self.lock(&room.name, now).await? else { return Ok(()) };
        self.raise_floor(extent.head + 1).await?;
        if self.shut(room, extent, Instant::now()).await? {
            tracing::info!(topic = %room.name, "nothing is kept of a topic any more; it is forgotten");
            let (bucket, key) = (&self.standings, token(room.name.as_str()));
            // Whatever is kept of it from now on is newer than the lock.
            for key in [key.clone(), format!("{key}.*.*")] {
                self.link.purge(&bucket.stream, Some(&bucket.subject(&key)), lock).await?;
            }
        }
        self.unlock(&room.name, lock).await
    }

    /// Deletes a stream if nothing was appended to it; says whether. Where that is not known, nobody touches it for a while.
    async fn shut(&self, room: &Room, extent: Extent, since: Instant) -> Result<bool, Fault> {
        let (stream, mark) = (&room.info.config.name, self.link.names.shut(&room.name));
        let looked = async {
            self.rename(room, mark.clone()).await?;
            match self.link.store(mark, expecting(0), Bytes::new()).await {
                Ok(_) | Err(Fault::Raced) => {}
                Err(fault) => return Err(fault),
            }
            let state = self.link.info(stream).await?.state;
            Ok(state.messages == 1 && state.last_sequence == extent.head + 1)
        };
        let looked = looked.await;
        if !matches!(looked, Ok(true)) || since.elapsed() >= AT_ONCE {
            self.rename(room, self.link.names.entries(&room.name)).await?;
            return looked.map(|_| false);
        }
        match self.link.ask::<serde_json::Value>(format!("STREAM.DELETE.{stream}"), &serde_json::json!({})).await {
            Ok(_) | Err(Fault::Missing) => Ok(true),
            Err(fault) => Err(fault),
        }
    }

    /// Gives a stream another subject.
    async fn rename(&self, room: &Room, subject: String) -> Result<(), Fault> {
        let mut config = room.info.config.clone();
        config.subjects = vec![subject];
        self.link.ask::<Info>(format!("STREAM.UPDATE.{}", config.name), &config).await.map(drop)
    }

    /// Opens streams again that somebody has shut and not deleted.
    pub(super) async fn reopen_shut(&self) -> Result<(), Fault> {
        for room in rooms(&self.link, self.link.names.all_shut()).await? {
            if let Err(fault) = self.reopen(&room).await {
                tracing::warn!(topic = %room.name, %fault, "a topic that is shut could not be opened again; it is tried again");
            }
        }
        Ok(())
    }

    async fn reopen(&self, room: &Room) -> Result<(), Fault> {
        let Some(now) = room.now else { return Ok(()) };
        let Some(lock) = self.lock(&room.name, now).await? else { return Ok(()) };
        tracing::warn!(topic = %room.name, "a topic was to be forgotten, and was not; it is opened again");
        self.rename(room, self.link.names.entries(&room.name)).await?;
        self.unlock(&room.name, lock).await
    }

    /// Takes the lock of a topic, and gives its revision. `None` where another node has it.
    async fn lock(&self, topic: &TopicName, now: Timestamp) -> Result<Option<u64>, Fault> {
        let key = lock_of(topic);
        let kept = self.standings.get(&self.link, &key).await?;
        let age = |since: Timestamp| Duration::from_millis(now.0.saturating_sub(since.0));
        if kept.value.is_some_and(|held| age(held.time) < LOCKED) {
            return Ok(None);
        }
        let own = Bytes::from(self.node.clone());
        match self.standings.replace(&self.link, &key, kept.revision, own, HeaderMap::new()).await {
            Ok(revision) => Ok(Some(revision)),
            Err(Fault::Raced) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn unlock(&self, topic: &TopicName, lock: u64) -> Result<(), Fault> {
        self.standings.remove(&self.link, &lock_of(topic), Some(lock)).await.map(drop)
    }

    /// The offset behind which every new topic begins, so that a position in one that was forgotten is a gap in the next of its name,
    /// whatever time it is where that is made.
    pub(super) async fn floor(&self) -> Result<u64, Fault> {
        Ok(self.kept_floor().await?.1)
    }

    async fn kept_floor(&self) -> Result<(u64, u64), Fault> {
        let kept = self.standings.get(&self.link, FLOOR).await?;
        let floor = kept.value.and_then(|stored| std::str::from_utf8(&stored.payload).ok()?.parse().ok());
        Ok((kept.revision, floor.unwrap_or_default()))
    }

    async fn raise_floor(&self, to: u64) -> Result<(), Fault> {
        loop {
            let (revision, floor) = self.kept_floor().await?;
            if floor >= to {
                return Ok(());
            }
            let own = Bytes::from(to.to_string());
            match self.standings.replace(&self.link, FLOOR, revision, own, HeaderMap::new()).await {
                Ok(_) => return Ok(()),
                Err(Fault::Raced) => {}
                Err(fault) => return Err(fault),
            }
        }
    }
}
