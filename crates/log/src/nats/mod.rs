//! The log on several machines: NATS JetStream, some streams that share all topics between them, and buckets for what the nodes share.
//!
//! JetStream's sequence is the order. A node follows every shard whole ([`shard`]) and knows of each topic where its entries are ([`topic_index`]). It folds
//! the topics that it uses, and hands its own clients' messages to them from there, like everybody's ([`topic`]). Appends keep the order of their calls
//! ([`lane`]). Retention is the gateways' work, not the server's ([`sweep`]), and so is forgetting topics of which nothing is left ([`forget`]): marks in the
//! shards tell all nodes of it ([`mark`]). Leases are keys ([`seats`]) that live as long as their node says it does ([`nodes`]).

mod bucket;
mod cluster;
mod connect;
mod context;
mod erase;
mod fault;
mod files;
mod follow;
mod forget;
mod import;
mod lag;
mod lane;
mod layout;
mod legacy;
mod link;
mod mark;
mod migrate;
mod names;
mod nodes;
mod open;
mod parts;
mod progress;
mod reader;
mod redact;
mod seat_view;
mod seats;
mod shard;
mod snapshot;
mod stored;
mod sweep;
mod timings;
mod topic;
mod topic_facts;
mod topic_index;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use salon_control::ControlNotice;
use salon_protocol::{Entry, Envelope, EnvelopeId, ParticipantId, Position, Stamp, Timestamp, TopicName};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;

pub use self::files::NatsFiles;
pub use self::migrate::{MigrateError, MigrationTotals};
pub use self::open::{NatsOptions, NatsPurpose, OpenError};
pub use self::timings::Timings;

use self::bucket::Bucket;
use self::context::TopicContext;
use self::lane::{AppendLane, NatsAppend};
use self::link::NatsLink;
use self::nodes::NodeRegistry;
use self::seats::{SeatCommand, Seats};
use self::shard::{IndexKeep, Shard};
use self::topic::Topic;
use crate::changes::Feeds;
use crate::tail::{Hub, Pages};
use crate::{
    AppendError, Appended, Claim, Durability, Lapses, Lease, LogHealth, ReadError, RosterVersion, Span, Standing, Tail,
    TopicLog, TopicSummary,
};

const CLOSED: &str = "it has been closed";

/// The header with the name of a message's topic: its subject has only a digest.
const TOPIC: &str = "Salon-Topic";

/// What a message has beside its payload: its subject, the longest stamp, and other headers, generously.
const ENVELOPE_OVERHEAD: usize = 1024 + Stamp::MAX_BYTES;

/// How long each step of a shutdown may take.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long keeping the indexes of all shards may take at a shutdown.
const INDEX_KEEP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait before a read for a tail is retried.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// A [`TopicLog`] on NATS, as one of perhaps several nodes.
pub struct Nats {
    shared: Arc<Shared>,
    lanes: Arc<Mutex<JoinSet<()>>>,
    /// Everything that runs for as long as the log is open. Ends with this.
    tasks: Mutex<JoinSet<()>>,
    /// What says that this node lives: ends before its departure is announced, which would be taken back otherwise.
    beating: Mutex<JoinSet<()>>,
}

/// What everything here works with.
struct Shared {
    link: Arc<NatsLink>,
    options: NatsOptions,
    epoch: u32,
    replicas: usize,
    shards: Vec<Arc<Shard>>,
    /// This node, among those that share the log.
    node: String,
    hub: Hub,
    topics: Mutex<HashMap<TopicName, Arc<Topic>>>,
    contexts: Mutex<HashMap<TopicName, Arc<TopicContext>>>,
    /// Who follows contexts.
    feeds: Feeds,
    /// How many bytes the contexts take, about.
    context_bytes: AtomicU64,
    /// A quota has refused something: what retention removes would make room.
    quota_exceeded: Notify,
    /// What topics and shards add up to.
    folds: Bucket,
    seat_keys: Bucket,
    node_keys: Bucket,
    /// The buckets of keyspaces, by their names.
    keyspaces: HashMap<&'static str, Bucket>,
    seats: Seats,
    nodes: NodeRegistry,
    desk: mpsc::UnboundedSender<SeatCommand>,
    health: watch::Sender<LogHealth>,
    stop: watch::Sender<bool>,
    lanes: Arc<Mutex<JoinSet<()>>>,
    runtime: tokio::runtime::Handle,
}

impl Shared {
    fn topics_mut(&self) -> MutexGuard<'_, HashMap<TopicName, Arc<Topic>>> {
        self.topics.lock()
    }

    /// A topic that is being followed, if it is.
    fn followed(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.topics_mut().get(name).cloned()
    }

    /// A topic, followed from now on.
    fn topic(self: &Arc<Self>, name: &TopicName) -> Result<Arc<Topic>, ReadError> {
        self.with_topic(name, Arc::clone).ok_or_else(|| ReadError::Failed(CLOSED.into()))
    }

    /// Does something with a topic while it cannot be evicted. `None` when the log is closed.
    fn with_topic<T>(self: &Arc<Self>, name: &TopicName, work: impl FnOnce(&Arc<Topic>) -> T) -> Option<T> {
        let mut topics = self.topics_mut();
        if *self.stop.borrow() {
            return None;
        }
        let topic = topics.entry(name.clone()).or_insert_with(|| self.begin(name));
        topic.touch();
        Some(work(topic))
    }

    /// Hands an envelope to the lane of its topic. The order of these calls is the order of the entries.
    fn submit(
        self: &Arc<Self>,
        topic: &TopicName,
        envelope: Envelope,
        stamp: Option<Stamp>,
        copied: Option<Timestamp>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        let closed = || Err(AppendError::Stopped(CLOSED.into()));
        let (since, (reply, outcome)) = (Instant::now(), oneshot::channel());
        let append = NatsAppend { envelope, stamp, copied, since, reply };
        let submitted = self.with_topic(topic, |topic| topic.submit(append));
        if submitted != Some(true) {
            return std::future::ready(closed()).boxed();
        }
        outcome.map(move |outcome| outcome.unwrap_or_else(|_| closed())).boxed()
    }

    fn begin(self: &Arc<Self>, name: &TopicName) -> Arc<Topic> {
        let (appends, submitted) = mpsc::unbounded_channel();
        let (delivered, awaited) = mpsc::unbounded_channel();
        let topic = Arc::new(Topic::new(self, name, appends, delivered));
        let lane = AppendLane::new(self.clone(), topic.clone());
        let mut lanes = self.lanes.lock();
        while lanes.try_join_next().is_some() {}
        lanes.spawn_on(lane.run(submitted, awaited), &self.runtime);
        lanes.spawn_on(topic.clone().follow(self.clone()), &self.runtime);
        topic
    }

    fn contexts_mut(&self) -> MutexGuard<'_, HashMap<TopicName, Arc<TopicContext>>> {
        self.contexts.lock()
    }

    /// Does something with a topic's context while it cannot be evicted. `None` when the log is closed.
    fn with_context<T>(self: &Arc<Self>, name: &TopicName, work: impl FnOnce(&Arc<TopicContext>) -> T) -> Option<T> {
        let mut contexts = self.contexts_mut();
        if *self.stop.borrow() {
            return None;
        }
        let context = contexts.entry(name.clone()).or_insert_with(|| {
            let (writings, submitted) = mpsc::unbounded_channel();
            let context = Arc::new(TopicContext::new(name, writings));
            let mut lanes = self.lanes.lock();
            lanes.spawn_on(context.clone().write_all(self.clone(), submitted), &self.runtime);
            lanes.spawn_on(context.clone().follow(self.clone()), &self.runtime);
            context
        });
        context.touch();
        Some(work(context))
    }

    /// The longest envelope that fits into a message.
    fn longest(&self) -> usize {
        self.link.longest().saturating_sub(ENVELOPE_OVERHEAD)
    }

    fn set_health(&self, now: LogHealth) {
        self.health.send_if_modified(|health| {
            let changes = !matches!(health, LogHealth::Stopped(_)) && *health != now;
            if changes {
                match &now {
                    LogHealth::Writable => tracing::info!("nats: reachable again"),
                    LogHealth::Unreachable(why) | LogHealth::ReadOnly(why) | LogHealth::Stopped(why) => {
                        tracing::warn!(%why, "nats: unreachable, appends are refused until it answers")
                    }
                }
                *health = now.clone();
            }
            changes
        });
    }

    /// Why nothing can be done now, if nothing can.
    fn trouble(&self) -> Option<Arc<str>> {
        match &*self.health.borrow() {
            LogHealth::Writable => None,
            LogHealth::Unreachable(why) | LogHealth::ReadOnly(why) | LogHealth::Stopped(why) => Some(why.clone()),
        }
    }

    /// Keeps the indexes of busy shards between two sweeps.
    async fn keep_indexes(self: Arc<Self>) {
        loop {
            tokio::time::sleep(shard::KEEP_INTERVAL).await;
            for shard in &self.shards {
                if let Err(fault) = shard.keep_up(&self).await {
                    tracing::debug!(shard = shard.number, %fault, "nats: index of a shard not kept, retrying");
                }
            }
        }
    }

    /// Looks after retention, at once and then now and then.
    async fn sweep_now_and_then(self: Arc<Self>) {
        loop {
            if let Err(fault) = self.sweep().await {
                tracing::warn!(%fault, "retention: sweep failed, retrying");
            }
            // A connection may have moved to another server of the cluster.
            if let Err(error) = self.link.new_enough() {
                tracing::error!(%error, "nats: connected server too old, checking again in a minute");
            }
            let asked_for = async {
                tokio::time::sleep(sweep::QUOTA_INTERVAL).await;
                self.quota_exceeded.notified().await;
            };
            tokio::select! {
                () = tokio::time::sleep(sweep::INTERVAL) => {}
                () = asked_for => {}
            }
            self.forget_removed_seats();
        }
    }
}

impl Pages for TailSource {
    fn hub(&self) -> &Hub {
        &self.0.hub
    }

    fn read_after(
        &self,
        topic: &TopicName,
        after: Position,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>> {
        let (shared, topic) = (self.0.clone(), topic.clone());
        Box::pin(async move {
            loop {
                match shared.read(&topic, Span::After(after), limit).await {
                    // Followers of the topic wait with it.
                    Err(ReadError::Unavailable(_)) if !*shared.stop.borrow() => tokio::time::sleep(RETRY_DELAY).await,
                    read => return read,
                }
            }
        })
    }
}

/// What tails read.
struct TailSource(Arc<Shared>);

impl Nats {
    /// What the log is called.
    pub fn name(&self) -> &str {
        &self.shared.options.name
    }

    /// Applies the retention now; done when the future resolves.
    pub async fn trim_now(&self) -> Result<(), ReadError> {
        Ok(self.shared.sweep().await?)
    }

    /// How many topics this node follows: those that were used here lately. The others cost it no more than their place in the index.
    pub fn followed_topics(&self) -> usize {
        self.shared.topics_mut().len()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().spawn_on(task, &self.shared.runtime);
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
        self.shared.hub.close();
        for (_, topic) in self.shared.topics_mut().drain() {
            topic.close_lane();
            topic.stop();
        }
        for (_, context) in self.shared.contexts_mut().drain() {
            context.close_lane();
            context.stop();
        }
        self.shared.feeds.close();
        self.lanes.lock().abort_all();
    }
}

impl TopicLog for Nats {
    fn append_stamped(
        &self,
        topic: &TopicName,
        envelope: Envelope,
        stamp: Option<Stamp>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        if let Some(why) = self.shared.trouble().filter(|_| !*self.shared.stop.borrow()) {
            return std::future::ready(Err(AppendError::Unavailable(why))).boxed();
        }
        if let Some(ControlNotice::Redacted(redaction)) = ControlNotice::of(&envelope) {
            let (shared, topic) = (self.shared.clone(), topic.clone());
            let stored = shared.submit(&topic, envelope, stamp, None);
            return Box::pin(async move {
                let appended = stored.await?;
                shared.erase_soon(&topic, appended.entry.position.offset, &redaction).await;
                Ok(appended)
            });
        }
        let Some(over) = self.shared.over_quota(topic, &envelope) else {
            return self.shared.submit(topic, envelope, stamp, None);
        };
        let (shared, topic) = (self.shared.clone(), topic.clone());
        match over.lookup {
            None => std::future::ready(Err(AppendError::Quota(over.exceeded))).boxed(),
            Some(lookup) => Box::pin(async move {
                match lookup.finds_stored(&shared, envelope.id()).await? {
                    true => shared.submit(&topic, envelope, stamp, None).await,
                    false => Err(AppendError::Quota(over.exceeded)),
                }
            }),
        }
    }

    fn delete(&self, topic: &TopicName, notice: Envelope) -> BoxFuture<'static, Result<Appended, AppendError>> {
        if let Some(why) = self.shared.trouble().filter(|_| !*self.shared.stop.borrow()) {
            return std::future::ready(Err(AppendError::Unavailable(why))).boxed();
        }
        let (shared, topic) = (self.shared.clone(), topic.clone());
        Box::pin(async move { shared.delete(&topic, notice).await })
    }

    fn read(
        &self,
        topic: &TopicName,
        span: Span,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>> {
        let (shared, topic) = (self.shared.clone(), topic.clone());
        Box::pin(async move { shared.read(&topic, span, limit).await })
    }

    fn tail(&self, topic: &TopicName, after: Position) -> Tail {
        let tail = crate::tail::tail(Arc::new(TailSource(self.shared.clone())), topic.clone(), after, None);
        // Followed only once there is a line to feed, and for as long as there is one.
        let _ = self.shared.topic(topic);
        tail
    }

    fn find(&self, topic: &TopicName, id: &EnvelopeId) -> BoxFuture<'static, Result<Option<Arc<Entry>>, ReadError>> {
        let (shared, topic, id) = (self.shared.clone(), topic.clone(), id.clone());
        Box::pin(async move { shared.find(&topic, &id).await })
    }

    fn standing(&self, topic: &TopicName) -> BoxFuture<'static, Result<Standing, ReadError>> {
        let (shared, topic) = (self.shared.clone(), topic.clone());
        Box::pin(async move { shared.standing(&topic).await })
    }

    fn claim(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        claim: Claim,
        lost: Box<dyn FnOnce() + Send + Sync>,
    ) -> BoxFuture<'static, Result<Lease, ReadError>> {
        if let Some(why) = self.shared.trouble() {
            return std::future::ready(Err(ReadError::Unavailable(why))).boxed();
        }
        let (reply, outcome) = oneshot::channel();
        // A desk that has closed drops the reply, which says as much.
        let _ = self.shared.desk.send(SeatCommand::Claim(topic.clone(), participant.clone(), claim, lost, reply));
        outcome.map(|outcome| outcome.unwrap_or_else(|_| Err(ReadError::Failed(CLOSED.into())))).boxed()
    }

    fn roster(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<ParticipantId>, ReadError>> {
        std::future::ready(Ok(self.shared.roster(topic))).boxed()
    }

    fn roster_version(&self, topic: &TopicName) -> Option<RosterVersion> {
        Some(self.shared.roster_version(topic))
    }

    fn is_elsewhere(&self, topic: &TopicName, participant: &ParticipantId) -> bool {
        self.shared.is_elsewhere(topic, participant)
    }

    fn lapses(&self) -> Lapses {
        self.shared.lapses()
    }

    fn gone(&self) -> Option<watch::Receiver<u64>> {
        Some(self.shared.nodes.gone())
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<TopicSummary>, ReadError>> {
        let shared = self.shared.clone();
        Box::pin(async move { shared.topics().await })
    }

    fn unsettled_topics(&self) -> BoxFuture<'static, Result<Vec<TopicName>, ReadError>> {
        let shared = self.shared.clone();
        Box::pin(async move { shared.unsettled_topics().await })
    }

    fn may_have_settings(&self, topic: &TopicName) -> BoxFuture<'static, Result<bool, ReadError>> {
        let (shared, topic) = (self.shared.clone(), topic.clone());
        Box::pin(async move { shared.may_have_settings(&topic).await })
    }

    fn health(&self) -> watch::Receiver<LogHealth> {
        self.shared.health.subscribe()
    }

    /// When a server flushes is its own setting, which nobody can ask it for.
    fn durability(&self) -> Durability {
        Durability::Os
    }

    fn max_envelope_bytes(&self) -> Option<usize> {
        Some(self.shared.longest())
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let (shared, lanes) = (self.shared.clone(), self.lanes.clone());
        let mut beating = std::mem::take(&mut *self.beating.lock());
        let topics: Vec<_> = {
            let mut topics = shared.topics_mut();
            shared.stop.send_replace(true);
            topics.drain().map(|(_, topic)| topic).collect()
        };
        let contexts: Vec<_> = shared.contexts_mut().drain().map(|(_, context)| context).collect();
        topics.iter().for_each(|topic| topic.close_lane());
        contexts.iter().for_each(|context| context.close_lane());
        Box::pin(async move {
            // A lane ends when it has an answer for everyone; until then their topics are followed.
            let finished = async {
                futures_util::future::join_all(topics.iter().map(|topic| topic.finished())).await;
                futures_util::future::join_all(contexts.iter().map(|context| context.finished())).await;
            };
            if tokio::time::timeout(shared.link.timings.finish_timeout(), finished).await.is_err() {
                tracing::warn!("nats: close timed out, unacknowledged appends may or may not be stored");
            }
            // First of all: the other gateways wait for the seats. What is kept after that only saves the next node work.
            let announcement = async {
                let (done, finished) = oneshot::channel();
                let _ = shared.desk.send(SeatCommand::Finish(done));
                let _ = finished.await;
                beating.shutdown().await;
                let _ = shared.node_keys.remove(&shared.link, &shared.node, None).await;
                let _ = shared.link.flush().await;
            };
            if tokio::time::timeout(SHUTDOWN_TIMEOUT, announcement).await.is_err() {
                tracing::warn!("nats: shutdown not announced in time, seats of this node end with its lease");
            }
            if shared.options.purpose == NatsPurpose::Serve {
                // The next node that uses these topics would read them from their beginning.
                topics.iter().for_each(|topic| topic.place.shard.note_facts(topic));
                let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, shared.keep_moved(topics.clone())).await;
            }
            topics.iter().for_each(|topic| topic.stop());
            contexts.iter().for_each(|context| context.stop());
            shared.hub.close();
            shared.feeds.close();
            let mut lanes = std::mem::take(&mut *lanes.lock());
            let ended = async { while lanes.join_next().await.is_some() {} };
            if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
                lanes.abort_all();
            }
            // The next node would read what came since.
            let kept = shared.shards.iter().map(|shard| shard.keep(&shared, IndexKeep::AtStop));
            let kept = tokio::time::timeout(INDEX_KEEP_TIMEOUT, futures_util::future::join_all(kept)).await;
            if !kept.is_ok_and(|kept| kept.iter().all(Result::is_ok)) {
                tracing::debug!("nats: indexes of some shards not kept, the next node reads what came since");
            }
        })
    }
}
