//! Reading a log of an earlier layout, in which every topic had a stream of its own, so that it can be migrated. It cannot be written to: before a stream is
//! read it gets another subject, so that an old gateway that still runs gets an error and no acknowledgement.
//!
//! What is different there: a topic's sequences have no holes but those of redacted entries, its stream's metadata has its name, and what it adds up to is
//! in another bucket.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_nats::jetstream::stream::{Config, Info};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use salon_protocol::{Entry, Envelope, EnvelopeId, ParticipantId, Position, Stamp, TopicName};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::bucket::Bucket;
use super::fault::NatsFault;
use super::link::{FetchRange, NatsLink, Stored, millis};
use super::names::token;
use super::open::patiently;
use super::snapshot::Snapshot;
use super::{import, parts, redact, topic};
use crate::{
    AppendError, Appended, Claim, Durability, Fold, FoldEffect, Ignored, Lapses, Lease, LogHealth, MAX_PAGE_BYTES,
    ReadError, Span, Standing, Tail, TopicLog, TopicSummary,
};

/// Where a stream's metadata has the name of its topic.
const TOPIC_KEY: &str = "salon-topic";
/// Where a stream's metadata has the sequence up to which it was copied and compared.
const COPIED_KEY: &str = "salon-copied";
/// How many streams are asked for or changed at once.
const MAX_AT_ONCE: usize = 8;
/// The bucket with what topics add up to.
const STANDINGS: &str = "standing";
/// How many messages are asked for at once.
const MAX_FETCHED_MESSAGES: u64 = 512;
const READ_ONLY: &str = "a log of an earlier layout can only be migrated";

/// A log of an earlier layout.
pub(super) struct LegacyLog {
    link: Arc<NatsLink>,
    epoch: u32,
    standings: Bucket,
    streams: HashMap<TopicName, Info>,
    /// The topic that was read last, folded.
    folded: Mutex<Option<(TopicName, Arc<LegacyTopic>)>>,
    health: watch::Sender<LogHealth>,
}

/// What a topic adds up to.
struct LegacyTopic {
    /// Everything up to here is removed.
    trimmed: u64,
    head: u64,
    fold: Fold,
    ignored: BTreeMap<u64, Ignored>,
}

impl LegacyLog {
    /// Makes streams refuse messages, and then reads what they have: nothing is added any more.
    pub(super) async fn close_streams(link: &Arc<NatsLink>, epoch: u32, streams: Vec<Info>) -> Result<Self, NatsFault> {
        let closed = stream::iter(streams).map(|info| async move {
            if !is_closed(link, &info) {
                let mut config = info.config.clone();
                config.subjects = vec![closed_subject(link, &info)?];
                update(link, &config).await?;
            }
            let info = patiently(link, || link.info(&info.config.name)).await?;
            Ok::<_, NatsFault>((topic_of(&info)?, info))
        });
        Ok(Self {
            link: link.clone(),
            epoch,
            standings: Bucket::new(&link.names, STANDINGS),
            streams: closed.buffer_unordered(MAX_AT_ONCE).try_collect().await?,
            folded: Mutex::default(),
            health: watch::Sender::new(LogHealth::ReadOnly(READ_ONLY.into())),
        })
    }

    /// Notes at every stream up to which sequence it was copied and compared.
    pub(super) async fn note_copied(&self) -> Result<(), NatsFault> {
        let noted = stream::iter(self.streams.values()).map(|info| async move {
            let mut config = info.config.clone();
            config.metadata.insert(COPIED_KEY.into(), info.state.last_sequence.to_string());
            update(&self.link, &config).await
        });
        noted.buffer_unordered(MAX_AT_ONCE).try_collect().await
    }

    fn subject(&self, name: &TopicName, last: &str) -> String {
        format!("{}{}.{last}", self.link.names.legacy_rooms(), token(name.as_str()))
    }

    /// Some messages after a sequence, each the next, with tombstones for those that were redacted.
    async fn range(&self, name: &TopicName, info: &Info, after: u64) -> Result<Vec<Stored>, NatsFault> {
        let stream = &info.config.name;
        let count = usize::try_from((info.state.last_sequence - after).min(MAX_FETCHED_MESSAGES)).expect("few");
        let (from, bytes) = (Some(after + 1), Some(MAX_PAGE_BYTES));
        let found = self.link.batch(stream, &FetchRange { from, count, bytes, filter: None }).await?;
        let (mut row, mut next) = (Vec::with_capacity(found.len()), after + 1);
        let mut found = found.into_iter().peekable();
        while next <= info.state.last_sequence && row.len() < count {
            let message = match found.next_if(|message| message.sequence <= next) {
                Some(message) => Some(message),
                None => self.missing(name, stream, next).await?,
            };
            let Some(message) = message else {
                return Err(NatsFault::Damaged(format!("`{stream}` at {next}: a message").into()));
            };
            row.push(message);
            next += 1;
            // The rest is for the next batch.
            if found.peek().is_none() {
                break;
            }
        }
        Ok(row)
    }

    /// A message that a replica lacks, or the tombstone in its place.
    async fn missing(&self, name: &TopicName, stream: &str, sequence: u64) -> Result<Option<Stored>, NatsFault> {
        if let Some(message) = self.link.by_sequence(stream, sequence).await? {
            return Ok(Some(message));
        }
        let found = self.link.newest(stream, &self.subject(name, &format!("hole-{sequence}"))).await?;
        Ok(found.and_then(|record| redact::in_its_place(record, sequence)))
    }

    /// Whether a message is an entry that readers get at its own sequence.
    fn is_entry(&self, stored: &Stored) -> bool {
        !redact::is_record(stored) && !import::is_settings(stored) && !stored.subject.contains(".shut.")
    }

    async fn folded(&self, name: &TopicName) -> Result<Arc<LegacyTopic>, NatsFault> {
        if let Some((_, folded)) = self.folded.lock().as_ref().filter(|(known, _)| known == name) {
            return Ok(folded.clone());
        }
        let info = self.streams.get(name).ok_or(NatsFault::Missing)?;
        let folded = Arc::new(self.fold(name, info).await?);
        *self.folded.lock() = Some((name.clone(), folded.clone()));
        Ok(folded)
    }

    async fn fold(&self, name: &TopicName, info: &Info) -> Result<LegacyTopic, NatsFault> {
        let (mut trimmed, head) = (info.state.first_sequence.saturating_sub(1), info.state.last_sequence);
        let kept = parts::load(&self.link, &self.standings, &token(name.as_str())).await?;
        let kept = match kept {
            Some((_, bytes)) => {
                let damaged = || NatsFault::Damaged(format!("what was kept of `{name}`").into());
                Some(Snapshot::read(&bytes, self.epoch).ok_or_else(damaged)?)
            }
            None => None,
        };
        let mut at = kept.as_ref().map_or(trimmed, |kept| kept.head.max(trimmed));
        let (mut fold, mut ignored, _) = kept.map(Snapshot::parts).unwrap_or_default();
        fold.pass(at);
        while at < head {
            for message in self.range(name, info, at).await? {
                at = message.sequence;
                let is_told = self.is_entry(&message) || import::is_settings(&message);
                if let Some(entry) = topic::entry(self.epoch, &message).ok().filter(|_| is_told) {
                    match import::is_settings(&message) || import::copied_at(&message).is_some() {
                        true => fold.adopt(&entry),
                        false => {
                            if let FoldEffect::Ignored(why) = fold.apply(&entry) {
                                ignored.insert(at, why);
                            }
                        }
                    }
                }
                fold.pass(at);
            }
        }
        trimmed = trimmed.max(fold.deletion().map_or(0, |deletion| deletion.at));
        Ok(LegacyTopic { trimmed, head, fold, ignored })
    }

    async fn read_after(&self, name: &TopicName, after: Position, limit: usize) -> Result<Vec<Arc<Entry>>, NatsFault> {
        let Some(info) = self.streams.get(name) else { return Ok(Vec::new()) };
        let folded = self.folded(name).await?;
        let mut at = after.offset.max(folded.trimmed);
        let (mut found, mut bytes) = (Vec::new(), 0);
        while at < folded.head && found.len() < limit && bytes < MAX_PAGE_BYTES {
            for message in self.range(name, info, at).await? {
                at = message.sequence;
                let is_read = self.is_entry(&message) && !folded.ignored.contains_key(&at);
                if let Some(entry) = topic::entry(self.epoch, &message).ok().filter(|_| is_read) {
                    bytes += entry.envelope.text().len();
                    found.push(entry);
                }
                if found.len() >= limit || bytes >= MAX_PAGE_BYTES {
                    break;
                }
            }
        }
        Ok(found)
    }
}

/// The topic that a stream is of.
fn topic_of(info: &Info) -> Result<TopicName, NatsFault> {
    let name = info.config.metadata.get(TOPIC_KEY).and_then(|name| TopicName::new(name.as_str()).ok());
    name.ok_or_else(|| NatsFault::Damaged(format!("the name of `{}`", info.config.name).into()))
}

/// The subject of a stream that takes no messages any more: no gateway sends anything there.
fn closed_subject(link: &NatsLink, info: &Info) -> Result<String, NatsFault> {
    Ok(format!("{}{}", link.names.legacy_closed(), token(topic_of(info)?.as_str())))
}

fn is_closed(link: &NatsLink, info: &Info) -> bool {
    closed_subject(link, info).is_ok_and(|subject| info.config.subjects == [subject])
}

/// Whether a stream takes no messages any more, and all that it has was copied and compared.
pub(super) fn is_copied(link: &NatsLink, info: &Info) -> bool {
    let through = info.config.metadata.get(COPIED_KEY).and_then(|through| through.parse().ok());
    is_closed(link, info) && through == Some(info.state.last_sequence)
}

async fn update(link: &NatsLink, config: &Config) -> Result<(), NatsFault> {
    patiently(link, || link.ask::<Info>(format!("STREAM.UPDATE.{}", config.name), config)).await.map(drop)
}

async fn delete(link: &NatsLink, stream: &str) -> Result<(), NatsFault> {
    let body = serde_json::json!({});
    let asked = || link.ask::<serde_json::Value>(format!("STREAM.DELETE.{stream}"), &body);
    match patiently(link, asked).await {
        Ok(_) | Err(NatsFault::Missing) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Deletes the streams whose newest message was copied and compared; once no other is left, also what topics added up to. Says how many
/// streams of topics were deleted, and how many are left.
pub(super) async fn remove_copied(link: &NatsLink) -> Result<(u64, u64), NatsFault> {
    let (mut deleted, mut left) = (0, 0);
    for info in list(link).await? {
        match is_copied(link, &info) {
            true => {
                delete(link, &info.config.name).await?;
                deleted += 1;
            }
            false => left += 1,
        }
    }
    if left == 0 {
        delete(link, &Bucket::new(&link.names, STANDINGS).stream).await?;
    }
    Ok((deleted, left))
}

/// The streams of topics, as the leader of each describes it. If one does not answer, nothing is known.
pub(super) async fn list(link: &NatsLink) -> Result<Vec<Info>, NatsFault> {
    let mut names = names(link, &link.names.legacy_rooms()).await?;
    names.append(&mut self::names(link, &link.names.legacy_closed()).await?);
    let infos = stream::iter(names).map(|name| async move { patiently(link, || link.info(&name)).await });
    infos.buffer_unordered(MAX_AT_ONCE).try_collect().await
}

/// The names of the streams whose subjects begin with something.
async fn names(link: &NatsLink, prefix: &str) -> Result<BTreeSet<String>, NatsFault> {
    #[derive(Serialize)]
    struct NamesRequest {
        subject: String,
        offset: usize,
    }
    #[derive(Deserialize)]
    struct NamesAnswer {
        total: usize,
        streams: Option<Vec<String>>,
    }
    let (mut found, mut offset) = (BTreeSet::new(), 0);
    loop {
        let wanted = NamesRequest { subject: format!("{prefix}>"), offset };
        let page: NamesAnswer = patiently(link, || link.ask("STREAM.NAMES".into(), &wanted)).await?;
        let streams = page.streams.unwrap_or_default();
        offset += streams.len();
        let is_all = streams.is_empty() || offset >= page.total;
        found.extend(streams);
        if is_all {
            return Ok(found);
        }
    }
}

impl TopicLog for Arc<LegacyLog> {
    fn append_stamped(
        &self,
        _: &TopicName,
        _: Envelope,
        _: Option<Stamp>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        std::future::ready(Err(AppendError::ReadOnly(READ_ONLY.into()))).boxed()
    }

    fn delete(&self, _: &TopicName, _: Envelope) -> BoxFuture<'static, Result<Appended, AppendError>> {
        std::future::ready(Err(AppendError::ReadOnly(READ_ONLY.into()))).boxed()
    }

    fn read(
        &self,
        topic: &TopicName,
        span: Span,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>> {
        let (log, topic) = (self.clone(), topic.clone());
        Box::pin(async move {
            match span {
                Span::After(after) => Ok(log.read_after(&topic, after, limit).await?),
                Span::Before(_) | Span::BeforeTime(_) | Span::Newest => Err(ReadError::Failed(READ_ONLY.into())),
            }
        })
    }

    fn tail(&self, _: &TopicName, _: Position) -> Tail {
        Box::pin(stream::once(std::future::ready(Err(ReadError::Failed(READ_ONLY.into())))))
    }

    fn find(&self, _: &TopicName, _: &EnvelopeId) -> BoxFuture<'static, Result<Option<Arc<Entry>>, ReadError>> {
        std::future::ready(Err(ReadError::Failed(READ_ONLY.into()))).boxed()
    }

    fn standing(&self, topic: &TopicName) -> BoxFuture<'static, Result<Standing, ReadError>> {
        let (log, topic) = (self.clone(), topic.clone());
        Box::pin(async move {
            if !log.streams.contains_key(&topic) {
                return Ok(Standing::nothing(Position { epoch: log.epoch, offset: 0 }));
            }
            let folded = log.folded(&topic).await?;
            Ok(folded.fold.standing(log.epoch, folded.trimmed))
        })
    }

    fn claim(
        &self,
        _: &TopicName,
        _: &ParticipantId,
        _: Claim,
        _: Box<dyn FnOnce() + Send + Sync>,
    ) -> BoxFuture<'static, Result<Lease, ReadError>> {
        std::future::ready(Err(ReadError::Failed(READ_ONLY.into()))).boxed()
    }

    fn roster(&self, _: &TopicName) -> BoxFuture<'static, Result<Vec<ParticipantId>, ReadError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn is_elsewhere(&self, _: &TopicName, _: &ParticipantId) -> bool {
        false
    }

    fn lapses(&self) -> Lapses {
        Box::pin(stream::pending())
    }

    fn gone(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    fn topics(&self) -> BoxFuture<'static, Result<Vec<TopicSummary>, ReadError>> {
        let summary = |(name, info): (&TopicName, &Info)| TopicSummary {
            name: name.clone(),
            entries: info.state.messages,
            newest: (info.state.messages > 0).then(|| millis(info.state.last_timestamp.unix_timestamp_nanos())),
            may_have_settings: true,
            may_have_participants: true,
        };
        let mut topics: Vec<_> = self.streams.iter().map(summary).collect();
        topics.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        std::future::ready(Ok(topics)).boxed()
    }

    fn health(&self) -> watch::Receiver<LogHealth> {
        self.health.subscribe()
    }

    fn durability(&self) -> Durability {
        Durability::Os
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}
