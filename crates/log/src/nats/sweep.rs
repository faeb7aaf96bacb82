//! Retention, by the gateways: what a topic's entries add up to is kept first, then a mark says what is removed, then those entries are removed.
//!
//! Every node does this for every topic. What one has done the next finds done. What is due is known by the index of a shard, so a topic of which nothing
//! is due costs no request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use salon_control::TopicRetention;
use salon_protocol::{Timestamp, TopicName};

use super::bucket::{ROLLUP, TTL};
use super::fault::NatsFault;
use super::follow::expecting;
use super::mark::TopicMark;
use super::reader::clock;
use super::shard::{IndexKeep, Shard, TopicAddress};
use super::snapshot::Snapshot;
use super::topic::Topic;
use super::topic_index::TopicIndex;
use super::{Shared, TOPIC};

/// How often retention is looked after.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// How often at most, where a quota refuses entries: what retention removes makes room.
pub(super) const QUOTA_INTERVAL: Duration = Duration::from_secs(5);

/// How far a topic may go beyond what was kept of it last.
const MAX_BEHIND: u64 = 1000;

/// The same for a topic that nobody uses now: so many messages are read about as fast as what was kept.
const MAX_BEHIND_IDLE: u64 = 64;
/// After how long without use that counts.
const IDLE_KEEP_DELAY: Duration = Duration::from_secs(60);
/// Of how many topics that is kept at once.
const CONCURRENT_KEEPS: usize = 16;

/// How many topics of a shard are looked after at once, and how many shards.
const CONCURRENT_SWEEPS: usize = 8;

/// How long a topic that nobody uses is followed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// A topic, as retention looks at it.
pub(super) struct TopicReview {
    pub(super) name: TopicName,
    pub(super) head: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) newest: Option<Timestamp>,
    entries: u64,
    oldest: Timestamp,
    trimmed: u64,
    is_deleted: bool,
    /// What time it is for the leader of its shard. What time it is here must not decide for all.
    pub(super) now: Timestamp,
}

impl TopicReview {
    fn new(index: &TopicIndex, now: Timestamp) -> Self {
        Self {
            name: index.name.clone(),
            head: index.head,
            count: index.count,
            bytes: index.bytes(),
            newest: index.newest(),
            entries: index.entries(),
            oldest: index.oldest(),
            trimmed: index.removed.through,
            is_deleted: index.removed.is_deleted,
            now,
        }
    }

    /// What arrived before this is not to be kept for some time.
    fn horizon(&self, age: Duration) -> Timestamp {
        Timestamp(self.now.0.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl Shared {
    /// Goes through all topics once. A failure of one is reported at the end, and does not delay the others for long.
    pub(super) async fn sweep(self: &Arc<Self>) -> Result<(), NatsFault> {
        self.keep_idle().await;
        self.evict();
        self.count_contexts().await?;
        let swept = stream::iter(self.shards.clone()).map(|shard| async move { self.sweep_shard(&shard).await });
        let swept: Vec<_> = swept.buffer_unordered(CONCURRENT_SWEEPS).collect().await;
        swept.into_iter().collect()
    }

    async fn sweep_shard(self: &Arc<Self>, shard: &Arc<Shard>) -> Result<(), NatsFault> {
        let told: serde_json::Value = self.link.ask(format!("STREAM.INFO.{}", shard.stream), &()).await?;
        let now = clock(&told).ok_or_else(|| NatsFault::Damaged("what the server says of its clock".into()))?;
        shard.freshen(self).await?;
        let reviews = shard.all_indexed(|index| TopicReview::new(index, now));
        let unpurged = self.purge_marked(shard, &reviews).await;
        let due: Vec<_> = reviews.into_iter().filter(|review| self.is_due(review)).collect();
        let tended = stream::iter(due).map(|review| async move {
            let tended = self.tend(&review).await;
            if let Err(fault) = &tended {
                tracing::warn!(topic = %review.name, %fault, "retention: sweep of a topic failed, retrying");
            }
            tended
        });
        let tended: Vec<_> = tended.buffer_unordered(CONCURRENT_SWEEPS).collect().await;
        // After a failure a mark may be stored.
        let has_removed = tended.iter().any(|tended| !matches!(tended, Ok(false)));
        let keep = if has_removed { IndexKeep::Always } else { IndexKeep::WhenBehind };
        shard.keep(self, keep).await?;
        tended.into_iter().try_for_each(|tended| tended.map(drop)).and(unpurged)
    }

    /// Removes what is marked and was not removed, because a node ended in between, or a server did not answer.
    async fn purge_marked(&self, shard: &Shard, reviews: &[TopicReview]) -> Result<(), NatsFault> {
        let has_mark = |review: &&TopicReview| review.count > review.entries;
        let marked = reviews.iter().filter(has_mark).filter(|review| shard.may_be_unpurged(&review.name));
        let marked: Vec<_> = marked.map(|review| (review.name.clone(), review.trimmed)).collect();
        shard.note_unpurged(marked.iter().map(|(name, _)| name.clone()));
        let purged = stream::iter(marked).map(|(name, trimmed)| async move {
            self.purge_leftovers(&self.place(&name), trimmed).await?;
            shard.note_purged(&name);
            Ok(())
        });
        let purged: Vec<_> = purged.buffer_unordered(CONCURRENT_SWEEPS).collect().await;
        purged.into_iter().collect()
    }

    /// Whether something is to be done for a topic, as far as its index tells.
    fn is_due(&self, review: &TopicReview) -> bool {
        let rule = self.options.retention.of(&review.name).narrowed(self.known_retention(&review.name));
        let is_over = rule.count.is_some_and(|count| review.entries > count);
        let is_old = rule.age.is_some_and(|age| review.entries > 0 && review.oldest < review.horizon(age));
        let is_behind = || self.followed(&review.name).is_some_and(|topic| topic.behind() >= MAX_BEHIND);
        is_over || is_old || review.entries == 0 || self.deleted_at(&review.name) > review.trimmed || is_behind()
    }

    /// Does for one topic what is due. Says whether a mark was stored.
    async fn tend(self: &Arc<Self>, review: &TopicReview) -> Result<bool, NatsFault> {
        let place = self.place(&review.name);
        if self.gone(&place, review, self.known_retention(&review.name)).await?.is_some() {
            let topic = self.topic(&review.name).map_err(NatsFault::unavailable)?;
            topic.reach(review.head, self.link.timings.answer_timeout).await?;
            // An operator may have the topic keep more than the gateway does, which is known for certain only now.
            if let Some(deletion) = topic.deletion().filter(|deletion| deletion.at > review.trimmed) {
                self.erase_context(&review.name, deletion.at).await?;
            }
            if let Some(mark) = self.gone(&place, review, topic.retention()).await?
                && self.keep(&topic, review.trimmed, mark.through).await? >= mark.through
            {
                return self.remove(&topic, mark).await;
            }
        } else if review.entries == 0 {
            if review.is_deleted {
                self.purge_leftovers(&place, review.trimmed).await?;
            }
            return self.forget(&place, review).await;
        } else if let Some(topic) = self.followed(&review.name)
            && topic.behind() >= MAX_BEHIND
        {
            self.keep(&topic, review.trimmed, 0).await?;
        }
        Ok(false)
    }

    /// What is not to be kept of a topic, if anything is not.
    async fn gone(
        &self,
        place: &TopicAddress,
        review: &TopicReview,
        own: Option<TopicRetention>,
    ) -> Result<Option<TopicMark>, NatsFault> {
        let rule = self.options.retention.of(&review.name).narrowed(own);
        let mut gone: Option<TopicMark> = None;
        let mut take = |mark: TopicMark| {
            if mark.through > gone.as_ref().map_or(review.trimmed, |gone| gone.through) {
                gone = Some(mark);
            }
        };
        if let Some(most) = rule.count.filter(|count| review.entries > *count) {
            let number = review.count - most;
            if let Some(block) = place.indexed(|index| index.block_of_count(number)).flatten() {
                take(self.cut(place, block, |count, _| count <= number).await?);
            }
        }
        if let Some(horizon) = rule.age.map(|age| review.horizon(age))
            && review.entries > 0
            && let Some(block) = place.indexed(|index| index.block_before(horizon)).flatten()
        {
            take(self.cut(place, block, |_, stored| super::import::arrived(stored) < horizon).await?);
        }
        // What a deletion has left, where its node ended before it was done.
        if let Some(mark) = self.cut_deleted(place, self.deleted_at(&review.name)).await? {
            take(mark);
        }
        Ok(gone)
    }

    /// What a deletion at an offset removes.
    pub(super) async fn cut_deleted(&self, place: &TopicAddress, at: u64) -> Result<Option<TopicMark>, NatsFault> {
        let Some(block) = place.indexed(|index| index.block_at(at)).flatten().filter(|_| at > 0) else {
            return Ok(None);
        };
        let mark = self.cut(place, block, |_, stored| stored.sequence <= at).await?;
        Ok(Some(TopicMark { through: mark.through.max(at), is_deleted: true, ..mark }))
    }

    /// Marks what is removed of a topic, then removes it. Says whether a mark was stored: another node may have been faster.
    pub(super) async fn remove(&self, topic: &Topic, mark: TopicMark) -> Result<bool, NatsFault> {
        let place = &topic.place;
        place.shard.note_marking(&topic.name);
        let Some(stored) = self.store_mark(place, &topic.name, &mark, None).await? else { return Ok(false) };
        place.shard.reach(stored, self.link.timings.answer_timeout).await?;
        self.link.purge(place.stream(), Some(&place.subjects.all()), mark.through + 1).await?;
        place.shard.note_purged(&topic.name);
        Ok(true)
    }

    /// Stores a mark in place of the one before, and gives its sequence. `None` where another node was faster, or there is one that says as much.
    pub(super) async fn store_mark(
        &self,
        place: &TopicAddress,
        name: &TopicName,
        mark: &TopicMark,
        time_to_live: Option<Duration>,
    ) -> Result<Option<u64>, NatsFault> {
        let subject = self.link.names.mark(place.shard.number, &place.token);
        let before = self.link.newest(place.stream(), &subject).await?;
        let known = before.as_ref().and_then(|before| TopicMark::read(&before.payload));
        if known.is_some_and(|known| known.says_as_much_as(mark)) {
            return Ok(None);
        }
        let mut headers = expecting(before.map_or(0, |before| before.sequence));
        headers.insert(TOPIC, name.as_str());
        headers.insert(ROLLUP, "sub");
        if let Some(time) = time_to_live {
            headers.insert(TTL, format!("{}s", time.as_secs()));
        }
        match self.link.store(subject, headers, Bytes::from(mark.write())).await {
            Ok(stored) => Ok(Some(stored)),
            Err(NatsFault::Raced) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Removes what a node has marked and not removed, because it ended in between.
    async fn purge_leftovers(&self, place: &TopicAddress, trimmed: u64) -> Result<(), NatsFault> {
        match self.link.next(place.stream(), 1, &place.subjects.all()).await? {
            Some(first) if first.sequence <= trimmed => {
                self.link.purge(place.stream(), Some(&place.subjects.all()), trimmed + 1).await
            }
            _ => Ok(()),
        }
    }

    /// Keeps what a topic's entries add up to, unless somebody has kept enough, or that may not be kept now; says as of where something is kept.
    pub(super) async fn keep(&self, topic: &Topic, trimmed: u64, needed: u64) -> Result<u64, NatsFault> {
        let (mut revision, mut kept) = topic.kept().unwrap_or_default();
        loop {
            let Some(snapshot) = topic.snapshot(trimmed) else { return Ok(kept) };
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

    /// Keeps what a topic's entries add up to now, in place of what was kept before.
    pub(super) async fn keep_newest(&self, topic: &Topic) -> Result<(), NatsFault> {
        let Some(trimmed) = topic.place.indexed(|index| index.removed.through) else { return Ok(()) };
        let folded = topic.head();
        let kept = self.keep(topic, trimmed, 0).await?;
        match folded.is_some_and(|folded| kept >= folded) {
            true => Ok(()),
            false => Err(NatsFault::unavailable("the state of a topic cannot be kept now")),
        }
    }

    /// The retention in a topic's settings, as far as it is known here.
    fn known_retention(&self, name: &TopicName) -> Option<TopicRetention> {
        match self.followed(name) {
            Some(topic) => topic.retention(),
            None => self.place(name).indexed(|index| index.facts.retention).flatten(),
        }
    }

    /// Keeps what the topics add up to that nobody has used for a moment, so that the next node that uses them need not read them.
    async fn keep_idle(&self) {
        let topics: Vec<_> = self.topics_mut().values().cloned().collect();
        topics.iter().for_each(|topic| topic.place.shard.note_facts(topic));
        let idle = topics.into_iter().filter(|topic| topic.idle_for() >= IDLE_KEEP_DELAY).collect();
        self.keep_moved(idle).await;
    }

    /// Keeps what some topics add up to, of those that have moved on since that was kept.
    pub(super) async fn keep_moved(&self, topics: Vec<Arc<Topic>>) {
        let moved = topics.into_iter().filter(|topic| topic.behind() >= MAX_BEHIND_IDLE);
        let keep = |topic: Arc<Topic>| async move {
            if let Err(fault) = self.keep_newest(&topic).await {
                tracing::debug!(topic = %topic.name, %fault, "nats: state of an idle topic not kept, retrying");
            }
        };
        stream::iter(moved).for_each_concurrent(CONCURRENT_KEEPS, keep).await;
    }

    /// Stops following topics and contexts that nobody has used for a while.
    fn evict(&self) {
        self.topics_mut().retain(|name, topic| {
            let is_used = self.hub.is_followed(name) || topic.idle_for() < IDLE_TIMEOUT;
            if !is_used {
                topic.close_lane();
                topic.stop();
            }
            is_used
        });
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
