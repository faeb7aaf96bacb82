//! Retention, by the gateways: what a topic's entries add up to is kept first, then those entries are removed that are not to be.
//!
//! Every node does this for every topic. What one has done the next finds done.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use salon_protocol::{Timestamp, TopicName};

use super::Shared;
use super::fault::NatsFault;
use super::reader::{Extent, TopicStream, rooms};
use super::snapshot::Snapshot;
use super::topic::Topic;

/// How often retention is looked after.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// How often at most, where a quota refuses entries: what retention removes makes room.
pub(super) const QUOTA_INTERVAL: Duration = Duration::from_secs(5);

/// How far a topic may go beyond what was kept of it last.
const MAX_BEHIND: u64 = 1000;

/// How many topics are looked after at once.
const AT_ONCE: usize = 8;

/// How long a topic that nobody uses is followed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// What the streams of topics take.
fn bytes_of(rooms: &[TopicStream]) -> Vec<(TopicName, u64)> {
    rooms.iter().map(|room| (room.name.clone(), room.info.state.bytes)).collect()
}

impl Shared {
    /// Goes through all topics once. A failure of one is reported at the end, and does not delay the others for long.
    pub(super) async fn sweep(self: &Arc<Self>) -> Result<(), NatsFault> {
        self.evict();
        self.reopen_shut().await?;
        let listed = rooms(&self.link, self.link.names.rooms()).await?;
        self.count_others(bytes_of(&listed)).await?;
        let tended = stream::iter(listed).map(|room| async move {
            let tended = self.tend(&room).await;
            if let Err(fault) = &tended {
                tracing::warn!(topic = %room.name, %fault, "retention: sweep of a topic failed, retrying");
            }
            tended
        });
        let tended: Vec<_> = tended.buffer_unordered(AT_ONCE).collect().await;
        tended.into_iter().collect()
    }

    /// Does for one topic what is due.
    async fn tend(self: &Arc<Self>, room: &TopicStream) -> Result<(), NatsFault> {
        let extent = Extent::from(&room.info);
        if let Some(topic) = self.followed(&room.name) {
            topic.count_removed(self, &room.info.state);
        }
        let gone = self.gone(room, extent).await?;
        if gone > extent.trimmed {
            let topic = self.topic(&room.name).map_err(NatsFault::unavailable)?;
            topic.reach(extent.head, self.link.timings.answer_timeout).await?;
            if self.keep(&topic, extent, gone).await? >= gone {
                self.link.purge(&topic.stream, None, gone + 1).await?;
                topic.count_removed(self, &self.described(&topic.stream).await?.state);
            }
        } else if extent.head == extent.trimmed {
            self.forget(room, extent).await?;
        } else if let Some(topic) = self.followed(&room.name)
            && topic.head().is_some_and(|head| head >= topic.kept().map_or(0, |(_, kept)| kept) + MAX_BEHIND)
        {
            self.keep(&topic, extent, 0).await?;
        }
        Ok(())
    }

    /// The offset of the newest entry that is not to be kept. Ages are by the servers' clock, which gave the entries their times: what
    /// time it is here must not decide for all.
    async fn gone(&self, room: &TopicStream, extent: Extent) -> Result<u64, NatsFault> {
        let rule = self.options.retention.of(&room.name);
        let mut gone = extent.trimmed;
        if let Some(count) = rule.count {
            gone = gone.max(extent.head.saturating_sub(count));
        }
        if let Some(age) = rule.age
            && extent.head > extent.trimmed
        {
            let now = room.now.ok_or_else(|| NatsFault::Damaged("what the server says of its clock".into()))?;
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let horizon = Timestamp(now.0.saturating_sub(age));
            if extent.oldest >= horizon {
                return Ok(gone.min(extent.head));
            }
            gone = gone.max(self.newest_before(&room.name, extent, horizon).await?);
        }
        Ok(gone.min(extent.head))
    }

    /// Keeps what a topic's entries add up to, unless somebody has kept enough; says as of where.
    async fn keep(&self, topic: &Topic, extent: Extent, needed: u64) -> Result<u64, NatsFault> {
        let (mut revision, mut kept) = topic.kept().unwrap_or_default();
        loop {
            let snapshot = topic.snapshot(extent.trimmed);
            if kept >= snapshot.head || (needed > 0 && kept >= needed) {
                return Ok(kept);
            }
            match snapshot.keep(self, &topic.name, revision).await {
                Ok(revision) => {
                    topic.note_kept(revision, snapshot.head);
                    return Ok(snapshot.head);
                }
                Err(NatsFault::Raced) => {
                    let newest = Snapshot::load(self, &topic.name).await?;
                    (revision, kept) = newest.map_or((0, 0), |(revision, newest)| (revision, newest.head));
                    topic.note_kept(revision, kept);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Stops following topics and contexts that nobody has used for a while.
    fn evict(&self) {
        let mut evicted = Vec::new();
        self.topics_mut().retain(|name, topic| {
            let is_used = self.hub.is_followed(name) || topic.idle_for() < IDLE_TIMEOUT;
            if !is_used {
                topic.close_lane();
                topic.stop();
                evicted.push(topic.clone());
            }
            is_used
        });
        evicted.iter().for_each(|topic| topic.stop_counting(self));
        self.contexts_mut().retain(|name, context| {
            let is_used = self.feeds.is_followed(name) || context.idle_for() < IDLE_TIMEOUT;
            if !is_used {
                context.close_lane();
                context.stop();
            }
            is_used
        });
    }
}
