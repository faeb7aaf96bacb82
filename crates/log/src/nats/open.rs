//! Opening: seeing to it that everything in NATS is as it must be.
//!
//! What is missing is made; what is there is compared with what would be made ([`super::layout`]). The first node decides what all have in
//! common (the epoch, the replicas, whose key), and the others are held to it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};

use async_nats::HeaderMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::bucket::Bucket;
use super::connect::{LEAST_PAYLOAD, OLDEST, reach};
use super::fault::NatsFault;
use super::layout::{self, LAYOUT, make};
use super::link::NatsLink;
use super::migrate::MIGRATION;
use super::names::{StreamNames, token};
use super::nodes::NodeRegistry;
use super::progress::ProgressDeadline;
use super::seats::Seats;
use super::shard::Shard;
use super::timings::Timings;
use super::topic::Topic;
use super::{Nats, Shared};
use crate::changes::Feeds;
use crate::cluster::Keyspace;
use crate::context::ContextLimits;
use crate::tail::Hub;
use crate::{AppendError, DEFAULT_MAX_TOPICS, LogHealth, Retention, RetentionRules, StoredQuotas, TopicLog};

/// How the record of a log is written. Another number is another form: up to 1 every topic had a stream of its own.
const FORMAT: u32 = 2;
/// How many streams share all topics, where nothing else is said when the log is made.
const DEFAULT_SHARDS: u16 = 16;
/// Where the record is.
pub(super) const RECORD: &str = "log";
/// How long everything may take once a server has answered, and after that how long the entries since the kept index may stand still.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// How often something is asked for while the log is opened.
const MAX_OPEN_ATTEMPTS: usize = 40;

/// How a log is kept.
#[derive(Clone)]
pub struct NatsOptions {
    /// The servers of one cluster, some or all.
    pub servers: Vec<String>,
    /// The file with what this node shows to get in.
    pub credentials: Option<PathBuf>,
    /// Certificates to trust, PEM.
    pub ca: Option<PathBuf>,
    /// A certificate to show and its key, PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What the log is called: several can be on the same servers.
    pub name: String,
    /// How many servers keep everything. If it is not said: as the log was made, or three where there is a cluster, or one.
    pub replicas: Option<usize>,
    /// How many topics there may be.
    pub topics: u64,
    /// How many streams share the topics. Counts only when the log is made.
    pub shards: u16,
    /// How long entries are kept.
    pub retention: RetentionRules,
    /// How many bytes of entries and contexts are stored.
    pub quotas: StoredQuotas,
    /// Tells whether all nodes have the same key, and nothing of the key.
    pub fingerprint: String,
    /// How long things between nodes take. The same at all of them; no setting for people.
    pub timings: Timings,
    /// How much a context has; no setting for people either.
    pub context_bounds: ContextLimits,
    /// The values that nodes share. The same at all of them.
    pub keyspaces: Vec<Keyspace>,
    /// What the log is opened for.
    pub purpose: NatsPurpose,
}

/// What a log is opened for. Only gateways look after retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NatsPurpose {
    /// A gateway's.
    #[default]
    Serve,
    /// To copy it: it must be there.
    CopyFrom,
    /// To copy another log into it: no gateway may have it open.
    CopyTo,
    /// To copy its own topics from an earlier layout: no gateway may have it open.
    Migrate,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            credentials: None,
            ca: None,
            certificate: None,
            name: "salon".into(),
            replicas: None,
            topics: DEFAULT_MAX_TOPICS,
            shards: DEFAULT_SHARDS,
            retention: RetentionRules::default(),
            quotas: StoredQuotas::default(),
            fingerprint: String::new(),
            timings: Timings::default(),
            context_bounds: ContextLimits::default(),
            keyspaces: Vec::new(),
            purpose: NatsPurpose::Serve,
        }
    }
}

impl fmt::Debug for NatsOptions {
    /// Without the servers' URLs, which may have passwords in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("name", &self.name).field("replicas", &self.replicas).finish_non_exhaustive()
    }
}

/// Why a log could not be opened. Nothing here repeats a URL as it was given: it may have a password in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The name has characters that NATS gives a meaning.
    #[error("`{0}` cannot be the name of a log: it is 1 to 32 letters, digits, `-` or `_`")]
    Name(String),
    /// The value is not a URL.
    #[error("a NATS server is named like `nats://host:4222` or `tls://host:4222`, several of them with commas between")]
    Url,
    /// The URLs name different users.
    #[error(
        "the URLs of the NATS servers name different users or passwords; all servers of a cluster are shown the same"
    )]
    Users,
    /// A file could not be read, or is not what it must be.
    #[error("`{}` cannot be used: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: std::io::Error,
    },
    /// No server lets this node in.
    #[error("NATS at {servers} cannot be connected to: {why}; {advice}")]
    Connect {
        /// Their hosts and ports.
        servers: String,
        /// What is wrong.
        why: String,
        /// What can be done about it.
        advice: &'static str,
    },
    /// The server cannot do what is asked of it.
    #[error(
        "the NATS server is version {found}, and at least {}.{} is needed (expiring keys and reading in batches): install a newer \
         nats-server, on every machine of the cluster", OLDEST.0, OLDEST.1
    )]
    TooOld {
        /// Its version.
        found: String,
    },
    /// Its messages are too short.
    #[error(
        "the NATS server takes messages of at most {found} bytes, and at least {LEAST_PAYLOAD} are needed: raise its `max_payload`, to 2MB for the usual limits"
    )]
    TooShort {
        /// The most it takes.
        found: usize,
    },
    /// Nobody answers for JetStream.
    #[error(
        "the NATS server answers, but JetStream does not: start it with `--jetstream`, and see that the account may use it ({0})"
    )]
    NoJetStream(String),
    /// A newer version has made it.
    #[error("the log `{name}` has the form {found}, and this program knows {FORMAT}")]
    Newer {
        /// The log's name.
        name: String,
        /// Its form.
        found: u32,
    },
    /// An earlier version has made it.
    #[error(
        "the log `{name}` has a stream for each topic, as Salon 0.1 made it: stop all gateways and run `salon log migrate`"
    )]
    OldLayout {
        /// The log's name.
        name: String,
    },
    /// Another number of replicas was asked for than the log was made with.
    #[error(
        "the log `{name}` was made with {made} replicas, and {asked} are asked for: leave it out, or change every stream of it with `nats stream edit`"
    )]
    Replicas {
        /// The log's name.
        name: String,
        /// As it was made.
        made: usize,
        /// As it is asked for.
        asked: usize,
    },
    /// A stream is not as it must be.
    #[error("the stream `{stream}` was changed: {what}")]
    Settings {
        /// Which.
        stream: String,
        /// What is not as it must be.
        what: String,
    },
    /// A newer version has made or migrated a stream.
    #[error("the stream `{stream}` has the layout {found}, and this program knows layouts up to {LAYOUT}")]
    NewerLayout {
        /// Which.
        stream: String,
        /// Its layout.
        found: u32,
    },
    /// A stream of an earlier layout could not be given the settings of this one.
    #[error("the stream `{stream}` could not be migrated to the layout {LAYOUT}: {why}")]
    Migration {
        /// Which.
        stream: String,
        /// Why not.
        why: String,
    },
    /// The other nodes have another key.
    #[error(
        "the gateways of the log `{name}` have another key than this one, so what one signs the other would not take"
    )]
    OtherKey {
        /// The log's name.
        name: String,
    },
    /// There is no log of this name.
    #[error("there is no log `{name}` on these NATS servers")]
    NoLog {
        /// The log's name.
        name: String,
    },
    /// Gateways have the log open that is to be copied into.
    #[error("the log `{name}` is in use by a gateway, or was until a moment ago")]
    InUse {
        /// The log's name.
        name: String,
    },
    /// NATS would not.
    #[error("NATS would not make `{what}`: {why}")]
    Refused {
        /// What was to be made.
        what: String,
        /// Why not.
        why: String,
    },
    /// Nobody answered in time.
    #[error("NATS did not answer in time: {0}")]
    Unavailable(String),
}

/// What all nodes of a log have in common.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    epoch: u32,
    /// How many streams share the topics.
    shards: u16,
    fingerprint: String,
    /// What the gateway that was opened last keeps, and how many topics it allows: gateways that differ log a warning.
    #[serde(default)]
    rules: String,
}

impl Nats {
    /// Connects, makes what is missing, and takes part.
    pub async fn open(options: NatsOptions) -> Result<Self, OpenError> {
        let names = StreamNames::new(&options.name).ok_or_else(|| OpenError::Name(options.name.clone()))?;
        let (client, connection) = reach(&options).await?;
        let is_clustered = client.server_info().cluster.is_some();
        let link = Arc::new(NatsLink::new(client, names, connection, options.timings));
        answers(&link).await?;
        let opened = tokio::time::timeout(OPEN_TIMEOUT, Self::begin(link, options, is_clustered)).await;
        let log = opened.unwrap_or_else(|_| Err(OpenError::Unavailable("the log could not be opened".into())))?;
        log.catch_up().await
    }

    /// Looks whether a log could be opened, and makes nothing.
    pub async fn look(options: &NatsOptions) -> Result<(), OpenError> {
        let names = StreamNames::new(&options.name).ok_or_else(|| OpenError::Name(options.name.clone()))?;
        let (client, connection) = reach(options).await?;
        let is_clustered = client.server_info().cluster.is_some();
        let link = NatsLink::new(client, names, connection, options.timings);
        answers(&link).await?;
        let looked = async {
            let meta = Bucket::new(&link.names, "meta");
            let replicas = replicas(&link, &meta, options, is_clustered).await?;
            let kept = patiently(&link, || meta.get(&link, RECORD)).await;
            let kept = kept.map_err(|fault| OpenError::Unavailable(fault.to_string()))?;
            let record = kept.value.map(|stored| judge(&stored.payload, options)).transpose()?;
            let shards = record.map_or(options.shards, |record| record.shards);
            for wanted in layout::streams(&link.names, &link.timings, replicas, shards) {
                if let Some(found) = layout::found(&link, &wanted).await? {
                    layout::compare(&wanted, &found.config)?;
                }
            }
            for wanted in layout::keyspaces(&link.names, replicas, &options.keyspaces) {
                if let Some(found) = layout::found(&link, &wanted).await? {
                    layout::compare_keyspace(&wanted, &found.config)?;
                }
            }
            Ok(())
        };
        let looked = tokio::time::timeout(OPEN_TIMEOUT, looked).await;
        looked.unwrap_or_else(|_| Err(OpenError::Unavailable("the log could not be looked at".into())))
    }

    async fn begin(link: Arc<NatsLink>, options: NatsOptions, is_clustered: bool) -> Result<Self, OpenError> {
        let bucket = |purpose| Bucket::new(&link.names, purpose);
        let meta = bucket("meta");
        let replicas = replicas(&link, &meta, &options, is_clustered).await?;
        if options.purpose != NatsPurpose::Migrate {
            refuse_old(&link, &meta, &options).await?;
        }
        make(&link, meta.config(replicas, Duration::ZERO)).await?;
        let record = record(&link, &meta, &options).await?;
        layout::make_all(&link, layout::streams(&link.names, &link.timings, replicas, record.shards)).await?;
        for wanted in layout::keyspaces(&link.names, replicas, &options.keyspaces) {
            layout::make_keyspace(&link, wanted).await?;
        }
        let (folds, seat_keys, node_keys) = (bucket(layout::FOLDS), bucket("seats"), bucket("nodes"));
        let keyspaces = options.keyspaces.iter().map(|space| (space.name, bucket(space.name))).collect();
        let shards = (0..record.shards).map(|number| Arc::new(Shard::new(&link.names, number))).collect();

        let node = token(&format!("{:?}{}", SystemTime::now(), link.inbox()));
        let (desk, commands) = mpsc::unbounded_channel();
        let lanes = Arc::default();
        let shared = Arc::new(Shared {
            nodes: NodeRegistry::new(&node, link.timings),
            link,
            options,
            epoch: record.epoch,
            replicas,
            shards,
            node,
            hub: Hub::default(),
            topics: Mutex::default(),
            contexts: Mutex::default(),
            feeds: Feeds::default(),
            context_bytes: AtomicU64::new(0),
            quota_exceeded: Notify::new(),
            folds,
            seat_keys,
            node_keys,
            keyspaces,
            seats: Seats::default(),
            desk,
            health: watch::Sender::new(LogHealth::Writable),
            stop: watch::Sender::new(false),
            lanes: Arc::clone(&lanes),
            runtime: tokio::runtime::Handle::current(),
        });
        let counted = patiently(&shared.link, || shared.count_contexts()).await;
        counted.map_err(|fault| OpenError::Unavailable(fault.to_string()))?;
        let log = Self { shared: shared.clone(), lanes, tasks: Mutex::default(), beating: Mutex::default() };
        // Its stream may have been made just now, and elect a leader first.
        let beat = patiently(&shared.link, || shared.put_beat());
        beat.await.map_err(|fault| OpenError::Unavailable(fault.to_string()))?;
        let ((seats, seats_seen), (nodes, nodes_heard)) = (oneshot::channel(), oneshot::channel());
        log.spawn(shared.clone().follow_nodes(nodes));
        log.spawn(shared.clone().follow_seats(seats));
        log.spawn(shared.clone().keep_seats(commands));
        for shard in &shared.shards {
            log.spawn(shard.clone().follow(shared.clone()));
        }
        if shared.options.purpose == NatsPurpose::Serve {
            log.spawn(shared.clone().sweep_now_and_then());
            log.spawn(shared.clone().keep_indexes());
        }
        let _ = tokio::join!(seats_seen, nodes_heard);
        Ok(log)
    }

    /// Waits until everything has been taken in that was stored before. Where no index was kept that is all there is, and takes as long as it takes.
    async fn catch_up(self) -> Result<Self, OpenError> {
        let (log, shared) = (&self, &self.shared);
        let mut deadline = ProgressDeadline::new(OPEN_TIMEOUT, Instant::now());
        while let Err(fault) = shared.freshen_all().await {
            let is_busy = matches!(fault, NatsFault::Unavailable(_));
            let furthest = shared.shards.iter().map(|shard| shard.furthest()).sum();
            if !is_busy || !deadline.goes_on(furthest, Instant::now()) {
                return Err(OpenError::Unavailable(fault.to_string()));
            }
            tracing::info!(taken_in = furthest, "nats: reading the entries since the kept index, not ready yet");
            tokio::time::sleep(shared.link.timings.start_retry_delay).await;
        }
        let is_alone = matches!(shared.options.purpose, NatsPurpose::CopyTo | NatsPurpose::Migrate);
        if is_alone && shared.nodes.has_others() {
            TopicLog::close(log).await;
            return Err(OpenError::InUse { name: shared.options.name.clone() });
        }
        log.beating.lock().spawn_on(shared.clone().beat(), &shared.runtime);
        Ok(self)
    }
}

impl Shared {
    /// Whether there is a topic of this name, or room for one more. May take long; the caller sets the timeout.
    pub(super) async fn make_room(&self, topic: &Topic) -> Result<(), AppendError> {
        let has_room = || {
            let count = || self.shards.iter().map(|shard| shard.count() as u64).sum::<u64>();
            topic.place.indexed(|_| ()).is_some() || count() < self.options.topics
        };
        if !has_room() {
            // What was forgotten elsewhere may make room.
            self.freshen_all().await?;
            if !has_room() {
                return Err(AppendError::TooManyTopics(self.options.topics));
            }
        }
        Ok(())
    }
}

/// Refuses a log that an earlier version has made, before anything is changed.
async fn refuse_old(link: &NatsLink, meta: &Bucket, options: &NatsOptions) -> Result<(), OpenError> {
    let kept = match patiently(link, || meta.get(link, RECORD)).await {
        Ok(kept) => kept,
        Err(NatsFault::Missing) => return Ok(()),
        Err(fault) => return Err(OpenError::Unavailable(fault.to_string())),
    };
    kept.value.map_or(Ok(()), |stored| judge(&stored.payload, options).map(drop))
}

/// Whether JetStream answers.
pub(super) async fn answers(link: &NatsLink) -> Result<(), OpenError> {
    let told = patiently(link, || link.ask::<serde_json::Value>("INFO".into(), &())).await;
    told.map(drop).map_err(|fault| OpenError::NoJetStream(fault.to_string()))
}

/// How many replicas everything has.
async fn replicas(
    link: &NatsLink,
    meta: &Bucket,
    options: &NatsOptions,
    is_clustered: bool,
) -> Result<usize, OpenError> {
    match patiently(link, || link.info(&meta.stream)).await {
        Ok(info) => match options.replicas {
            Some(asked) if asked != info.config.num_replicas => {
                Err(OpenError::Replicas { name: options.name.clone(), made: info.config.num_replicas, asked })
            }
            _ => Ok(info.config.num_replicas),
        },
        Err(NatsFault::Missing) if options.purpose == NatsPurpose::CopyFrom => {
            Err(OpenError::NoLog { name: options.name.clone() })
        }
        Err(NatsFault::Missing) => Ok(options.replicas.unwrap_or(if is_clustered { 3 } else { 1 })),
        Err(fault) => Err(OpenError::Unavailable(fault.to_string())),
    }
}

/// What all nodes have in common, as the first of them decided.
async fn record(link: &NatsLink, meta: &Bucket, options: &NatsOptions) -> Result<Record, OpenError> {
    let own = Record {
        format: FORMAT,
        epoch: fresh_epoch(),
        shards: options.shards.max(1),
        fingerprint: options.fingerprint.clone(),
        rules: rules(options),
    };
    let key = if options.purpose == NatsPurpose::Migrate { MIGRATION } else { RECORD };
    let found = patiently(link, || async {
        loop {
            let kept = meta.get(link, key).await?;
            if let Some(stored) = kept.value {
                return Ok((kept.revision, stored.payload));
            }
            let value: bytes::Bytes = serde_json::to_vec(&own).expect("a record is plain JSON").into();
            match meta.replace(link, key, kept.revision, value.clone(), HeaderMap::new()).await {
                Ok(revision) => return Ok((revision, value)),
                Err(NatsFault::Raced) => {}
                Err(fault) => return Err(fault),
            }
        }
    });
    let (revision, found) = found.await.map_err(|fault| OpenError::Unavailable(fault.to_string()))?;
    let record = judge(&found, options)?;
    if record.shards != own.shards {
        tracing::warn!(
            store = record.shards,
            configured = own.shards,
            "nats: the store was made with another number of shards than nats.shards, its own number counts"
        );
    }
    if record.rules != own.rules && options.purpose == NatsPurpose::Serve {
        tracing::warn!(
            before = record.rules,
            now = own.rules,
            "nats: gateways of this store differ in retention rules, the shortest applies"
        );
        let newer = Record { rules: own.rules, fingerprint: own.fingerprint, ..record };
        let value = serde_json::to_vec(&newer).expect("a record is plain JSON").into();
        // Only so that the next one can warn. A node that was faster warns as well.
        let _ = meta.replace(link, RECORD, revision, value, HeaderMap::new()).await;
        return Ok(newer);
    }
    Ok(record)
}

/// What a gateway keeps and allows, in words that are the same for the same.
fn rules(options: &NatsOptions) -> String {
    let words = |rule: Retention| {
        let age = rule.age.map_or("any age".into(), |age| format!("{} s", age.as_secs_f64()));
        let count = rule.count.map_or("any number".into(), |count| count.to_string());
        format!("{age}, {count}")
    };
    let mut topics: Vec<_> =
        options.retention.topics.iter().map(|(name, rule)| (name.as_str(), words(*rule))).collect();
    topics.sort();
    let topics: String = topics.into_iter().map(|(name, rule)| format!("; {name}: {rule}")).collect();
    format!("at most {} topics; kept: {}{topics}", options.topics, words(options.retention.default))
}

/// Reads what all nodes have in common, and whether this one has it too.
fn judge(found: &[u8], options: &NatsOptions) -> Result<Record, OpenError> {
    #[derive(Deserialize)]
    struct Form {
        format: u32,
    }
    let form = serde_json::from_slice::<Form>(found).map_or(0, |form| form.format);
    if form > 0 && form < FORMAT {
        return Err(OpenError::OldLayout { name: options.name.clone() });
    }
    let record = serde_json::from_slice::<Record>(found).ok().filter(|record| record.format == FORMAT);
    let record = record.ok_or_else(|| OpenError::Newer { name: options.name.clone(), found: form })?;
    if record.fingerprint != options.fingerprint {
        return Err(OpenError::OtherKey { name: options.name.clone() });
    }
    Ok(record)
}

/// The epoch of a log that an earlier version has made; `None` where it has this version's form.
pub(super) fn old_epoch(found: &[u8], options: &NatsOptions) -> Result<Option<u32>, OpenError> {
    #[derive(Deserialize)]
    struct OldRecord {
        format: u32,
        epoch: u32,
        fingerprint: String,
    }
    let newer = || OpenError::Newer { name: options.name.clone(), found: 0 };
    let old: OldRecord = serde_json::from_slice(found).map_err(|_| newer())?;
    if old.format >= FORMAT {
        return judge(found, options).map(|_| None);
    }
    match old.fingerprint == options.fingerprint {
        true => Ok(Some(old.epoch)),
        false => Err(OpenError::OtherKey { name: options.name.clone() }),
    }
}

/// A number no earlier making of this log is likely to have had.
fn fresh_epoch() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(SystemTime::now());
    u32::try_from(random >> 32).expect("half of 64 bits")
}

/// Asks again for as long as nobody is there who could answer: a cluster that has just started elects first.
pub(super) async fn patiently<T, F: Future<Output = Result<T, NatsFault>>>(
    link: &NatsLink,
    mut ask: impl FnMut() -> F,
) -> Result<T, NatsFault> {
    for _ in 1..MAX_OPEN_ATTEMPTS {
        match ask().await {
            Err(NatsFault::Unavailable(_)) => tokio::time::sleep(link.timings.start_retry_delay).await,
            answer => return answer,
        }
    }
    ask().await
}
