//! The versioned context on NATS: one stream, a subject a key, a hundred messages a subject.
//!
//! A topic's context has one order. A node that uses it follows it without values, and judges writes by that. What it judged is
//! stored only if nothing of the topic's context is newer than what it knew; otherwise it is judged again. So a refusal, too, is given
//! only by what is newest.

mod index;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Timestamp, TopicName};
use tokio::sync::{mpsc, oneshot, watch};

use self::index::{ContextIndex, Forgetting, Verdict};
use super::fault::NatsFault;
use super::follow::{Course, Follow};
use super::link::Stored;
use super::names::token;
use super::{CLOSED, Nats, Shared};
use crate::context::{
    Address, Changes, ContextScope, Key, ListedKey, MAX_VALUE_BYTES, MAX_VERSIONS, ToolId, Version, Write, WriteError,
    Written,
};
use crate::{ContextStore, MAX_PAGE_BYTES, ReadError};

/// How long to wait before a write is retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How many old versions are asked for at once.
const MAX_CONCURRENT_READS: usize = 8;
/// Stands for a scope or a key where something is forgotten. No digest is that short.
const FLOOR: &str = "floor";
/// Which subjects an expectation is about.
const EXPECTED_SUBJECTS: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

pub(super) struct NatsWrite {
    address: Address,
    write: Write,
    /// When it was submitted.
    since: Instant,
    reply: oneshot::Sender<Result<Written, WriteError>>,
}

/// A topic's context as this node follows it.
pub(super) struct TopicContext {
    topic: TopicName,
    /// `None` once nothing more is taken.
    writings: Mutex<Option<mpsc::UnboundedSender<NatsWrite>>>,
    index: Mutex<ContextIndex>,
    /// How far it has been followed; `None` until that is known.
    head: watch::Sender<Option<u64>>,
    used: Mutex<Instant>,
    stop: watch::Sender<bool>,
    ended: watch::Sender<bool>,
}

/// How the stream of all contexts is made.
pub(super) fn config((stream, subjects): (String, String), replicas: usize) -> Config {
    Config {
        name: stream,
        subjects: vec![subjects],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        num_replicas: replicas,
        max_messages_per_subject: MAX_VERSIONS.cast_signed(),
        deny_delete: true,
        allow_direct: true,
        ..Config::default()
    }
}

impl TopicContext {
    pub(super) fn new(topic: &TopicName, writings: mpsc::UnboundedSender<NatsWrite>) -> Self {
        Self {
            topic: topic.clone(),
            writings: Mutex::new(Some(writings)),
            index: Mutex::default(),
            head: watch::Sender::new(None),
            used: Mutex::new(Instant::now()),
            stop: watch::Sender::new(false),
            ended: watch::Sender::new(false),
        }
    }

    fn index(&self) -> MutexGuard<'_, ContextIndex> {
        self.index.lock()
    }

    pub(super) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    pub(super) fn idle_for(&self) -> Duration {
        self.used.lock().elapsed()
    }

    fn submit(&self, writing: NatsWrite) -> bool {
        let writings = self.writings.lock();
        writings.as_ref().is_some_and(|lane| lane.send(writing).is_ok())
    }

    /// Takes no more writes; those before are finished.
    pub(super) fn close_lane(&self) {
        self.writings.lock().take();
    }

    /// Waits until every write is answered.
    pub(super) async fn finished(&self) {
        // The sender lives in this context, so the wait cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Ends following.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    async fn reach(&self, shared: &Shared, sequence: u64) -> Result<(), NatsFault> {
        let mut head = self.head.subscribe();
        let reached = head.wait_for(|head| head.is_some_and(|head| head >= sequence));
        match tokio::time::timeout(shared.link.timings.answer_timeout, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(NatsFault::unavailable("the newest of the context has not come yet")),
        }
    }

    /// Follows the topic's context until it is stopped, whatever happens to the connection.
    pub(super) async fn follow(self: Arc<Self>, shared: Arc<Shared>) {
        let mut stop = self.stop.subscribe();
        let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
        tokio::pin!(stopped);
        loop {
            tokio::select! { biased;
                () = &mut stopped => return,
                () = async {
                    self.follow_once(&shared).await;
                    tokio::time::sleep(RETRY_DELAY).await;
                } => {}
            }
        }
    }

    async fn follow_once(&self, shared: &Arc<Shared>) {
        let (stream, _) = shared.link.names.context();
        let mut head = *self.head.borrow();
        match self.is_lost(shared, &stream, head.unwrap_or_default()).await {
            Ok(false) => {}
            Ok(true) => {
                tracing::error!(topic = %self.topic, "nats: stored context values lost, rereading the context");
                *self.index() = ContextIndex::default();
                self.head.send_replace(None);
                shared.feeds.miss(&self.topic);
                head = None;
            }
            Err(_) => return,
        }
        let from = match head {
            None => DeliverPolicy::LastPerSubject,
            Some(head) => DeliverPolicy::ByStartSequence { start_sequence: head + 1 },
        };
        let filter = Some(format!("{}.>", shared.link.names.context_of(&self.topic)));
        let course = Course { stream: &stream, from, filter, headers_only: true };
        let Ok(mut follow) = Follow::begin(&shared.link, course).await else { return };
        let mut is_told = head.is_some();
        loop {
            if follow.has_caught_up() && !is_told {
                self.head.send_replace(Some(self.index().head));
                is_told = true;
            }
            let waiting = if is_told { 0 } else { follow.waiting() };
            let Some(messages) = follow.next().await else {
                if !is_told {
                    // What was taken so far may be only some of what there was.
                    *self.index() = ContextIndex::default();
                }
                return;
            };
            for (number, message) in (0..).zip(&messages) {
                let change = self.index().take(message);
                // A follower of changes gets those that come from now on.
                if let Some(change) = change.filter(|_| number >= waiting) {
                    shared.feeds.feed(&self.topic, change);
                }
            }
            if is_told {
                self.head.send_replace(Some(self.index().head));
            }
        }
    }

    /// Whether the stream has less than has come by here, also after a while: a leader that was just elected may be late.
    async fn is_lost(&self, shared: &Shared, stream: &str, head: u64) -> Result<bool, NatsFault> {
        let by = Instant::now() + shared.link.timings.election_timeout;
        loop {
            if shared.link.info(stream).await?.state.last_sequence >= head {
                return Ok(false);
            }
            if Instant::now() >= by {
                return Ok(true);
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Writes, one after the other, until nobody can any more.
    pub(super) async fn write_all(
        self: Arc<Self>,
        shared: Arc<Shared>,
        mut writings: mpsc::UnboundedReceiver<NatsWrite>,
    ) {
        // A request behind a write that timed out has waited for as long, and in vain.
        let mut gave_up: Option<Instant> = None;
        while let Some(NatsWrite { address, write, since, reply }) = writings.recv().await {
            let written = match shared.trouble() {
                Some(why) => Err(WriteError::Unavailable(why)),
                None if gave_up.is_some_and(|then| since <= then) => {
                    Err(WriteError::Unavailable("NATS did not answer in time".into()))
                }
                None => self.write(&shared, &address, &write).await,
            };
            if matches!(written, Err(WriteError::Unavailable(_))) {
                gave_up = Some(Instant::now());
            }
            // The writer may have gone.
            let _ = reply.send(written);
        }
        self.ended.send_replace(true);
    }

    async fn write(&self, shared: &Shared, address: &Address, write: &Write) -> Result<Written, WriteError> {
        let by = Instant::now() + shared.link.timings.append_timeout;
        let (mut is_fresh, mut is_tried) = (false, false);
        loop {
            match self.try_to_write(shared, address, write, is_fresh, is_tried).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) | Err(NatsFault::Raced) if Instant::now() < by => is_fresh = false,
                Ok(None) | Err(NatsFault::Raced) => {
                    return Err(WriteError::Unavailable("others write to this context over and over".into()));
                }
                Err(NatsFault::Unavailable(_)) if Instant::now() < by => {
                    (is_fresh, is_tried) = (false, true);
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            }
            if !is_fresh {
                match self.freshen(shared).await {
                    Ok(()) => is_fresh = true,
                    Err(fault) if Instant::now() >= by => return Err(fault.into()),
                    Err(_) => tokio::time::sleep(RETRY_DELAY).await,
                }
            }
        }
    }

    /// One try. `None` where it must be judged by more than is known.
    async fn try_to_write(
        &self,
        shared: &Shared,
        address: &Address,
        write: &Write,
        is_fresh: bool,
        is_tried: bool,
    ) -> Result<Option<Result<Written, WriteError>>, NatsFault> {
        if self.head.borrow().is_none() {
            return Ok(None);
        }
        // Where there was no context to erase, only the topic's own log says that it was deleted.
        if write.requested.is_some_and(|requested| requested.offset <= shared.deleted_at(&self.topic)) {
            return Ok(Some(Err(WriteError::Deleted)));
        }
        let now = Timestamp::from_system(SystemTime::now());
        let (judged, head) = {
            let index = self.index();
            let quotas = (&shared.options.quotas, shared.stored_bytes());
            (index.judge(address, write, shared.options.context_bounds, quotas, now), index.head)
        };
        match judged {
            // What is newest may be known elsewhere.
            Err(_) if !is_fresh => Ok(None),
            Err(refused) => Ok(Some(Err(refused))),
            Ok(Verdict::Done { version, at, sequence }) => {
                let at = match at {
                    Some(at) => at,
                    None => shared.version_at(sequence).await?.map_or(now, |version| version.at),
                };
                Ok(Some(Ok(Written { version, at, repeated: !is_tried })))
            }
            Ok(Verdict::Store { meta, headers, makes_room }) => {
                let value = write.value.as_deref().unwrap_or_default().as_bytes();
                let subject = shared.subject(address);
                let removed = subject.clone();
                let sequence = self.store(shared, subject, headers, Bytes::copy_from_slice(value), head).await?;
                shared.context_bytes.fetch_add(value.len() as u64, std::sync::atomic::Ordering::Relaxed);
                if makes_room {
                    // Nothing names these versions any more. What is not removed now goes with the hundredth version after it.
                    let purged = shared.link.purge(&shared.link.names.context().0, Some(&removed), sequence).await;
                    if let Err(fault) = purged {
                        tracing::warn!(topic = %self.topic, %fault, "nats: older context versions not purged, newer ones replace them");
                    }
                }
                self.reach(shared, sequence).await?;
                let written = Written { version: meta.version, at: Timestamp(meta.at), repeated: false };
                Ok(Some(Ok(written)))
            }
            Ok(Verdict::Forget { forgetting, headers }) => {
                self.forget(shared, forgetting, headers, head).await?;
                Ok(None)
            }
        }
    }

    /// Stores a message if nothing of this context is newer than a sequence.
    async fn store(
        &self,
        shared: &Shared,
        subject: String,
        mut headers: HeaderMap,
        payload: Bytes,
        head: u64,
    ) -> Result<u64, NatsFault> {
        headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, head.to_string());
        headers.insert(EXPECTED_SUBJECTS, format!("{}.>", shared.link.names.context_of(&self.topic)));
        shared.link.store(subject, headers, payload).await
    }

    /// Says what is forgotten, then removes it: as far as it was known, so that nothing newer goes with it.
    async fn forget(
        &self,
        shared: &Shared,
        forgetting: Forgetting,
        headers: HeaderMap,
        head: u64,
    ) -> Result<(), NatsFault> {
        let topic = shared.link.names.context_of(&self.topic);
        let scope = token(&forgetting.scope);
        let (said, removed) = match &forgetting.forgotten {
            Some(key) => (format!("{topic}.{scope}.{FLOOR}"), format!("{topic}.{scope}.{}", token(key))),
            None => (format!("{topic}.{FLOOR}.{FLOOR}"), format!("{topic}.{scope}.>")),
        };
        let sequence = self.store(shared, said, headers, Bytes::new(), head).await?;
        shared.link.purge(&shared.link.names.context().0, Some(&removed), head + 1).await?;
        self.reach(shared, sequence).await
    }

    /// Waits until everything is known that is stored now.
    async fn freshen(&self, shared: &Shared) -> Result<(), NatsFault> {
        let subjects = format!("{}.>", shared.link.names.context_of(&self.topic));
        let newest = shared.link.newest(&shared.link.names.context().0, &subjects).await?;
        self.reach(shared, newest.map_or(0, |newest| newest.sequence)).await
    }
}

fn version(stored: &Stored, meta: &index::Meta) -> Result<Version, NatsFault> {
    let damaged = |_| NatsFault::Damaged(format!("the value {}", stored.sequence).into());
    let text = std::str::from_utf8(&stored.payload).map_err(damaged)?;
    Ok(Version {
        number: meta.version,
        at: Timestamp(meta.at),
        author: meta.author.clone(),
        value: (!meta.is_deleted).then(|| text.into()),
    })
}

impl Shared {
    fn subject(&self, address: &Address) -> String {
        let topic = self.link.names.context_of(&address.topic);
        format!("{topic}.{}.{}", token(&address.scope.name()), token(address.key.as_str()))
    }

    /// The version that a message is.
    async fn version_at(&self, sequence: u64) -> Result<Option<Version>, NatsFault> {
        let stored = self.link.by_sequence(&self.link.names.context().0, sequence).await?;
        let read = stored.as_ref().and_then(|stored| Some((stored, index::read(stored)?.0)));
        read.map(|(stored, meta)| version(stored, &meta)).transpose()
    }

    /// The newest version of a key, and where the older ones are, newest first.
    async fn newest_version(&self, address: &Address) -> Result<Option<(Version, Vec<u64>)>, NatsFault> {
        let newest = self.link.newest(&self.link.names.context().0, &self.subject(address)).await?;
        let Some(stored) = newest else { return Ok(None) };
        let damaged = || NatsFault::Damaged(format!("the message {}", stored.sequence).into());
        let (meta, back) = index::read(&stored).ok_or_else(damaged)?;
        Ok(Some((version(&stored, &meta)?, back.into_iter().map(|(sequence, _)| sequence).collect())))
    }

    async fn get_version(&self, address: &Address, number: Option<u64>) -> Result<Option<Version>, NatsFault> {
        let Some((newest, back)) = self.newest_version(address).await? else { return Ok(None) };
        let before = match number {
            None => 0,
            Some(number) if number > newest.number => return Ok(None),
            Some(number) => newest.number - number,
        };
        match usize::try_from(before) {
            Ok(0) => Ok(Some(newest)),
            Ok(before) => match back.get(before - 1) {
                Some(sequence) => self.version_at(*sequence).await,
                None => Ok(None),
            },
            Err(_) => Ok(None),
        }
    }

    async fn versions(
        self: &Arc<Self>,
        address: &Address,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Version>, NatsFault> {
        let Some((newest, back)) = self.newest_version(address).await? else { return Ok(Vec::new()) };
        let number = newest.number;
        let before = before.unwrap_or(number + 1).min(number + 1);
        let skipped = usize::try_from(number + 1 - before).unwrap_or(usize::MAX);
        let older = back.into_iter().skip(skipped.saturating_sub(1)).map(|sequence| {
            let shared = self.clone();
            async move { shared.version_at(sequence).await }.boxed()
        });
        let own = (skipped == 0).then(|| std::future::ready(Ok(Some(newest))).boxed());
        let all: Vec<_> = own.into_iter().chain(older).take(limit).collect();
        let mut versions = stream::iter(all).buffered(MAX_CONCURRENT_READS);
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes < MAX_PAGE_BYTES
            && let Some(version) = versions.next().await
        {
            // What is not kept any more ends it: so is everything before.
            let Some(version) = version? else { break };
            bytes += version.value.as_ref().map_or(0, |value| value.len());
            found.push(version);
        }
        Ok(found)
    }

    /// Removes everything from the context of a topic that was deleted at an offset, once. Nodes that follow it learn of this in its order.
    pub(super) async fn erase_context(self: &Arc<Self>, topic: &TopicName, deleted_at: u64) -> Result<(), NatsFault> {
        let (stream, subjects) = (self.link.names.context().0, self.link.names.context_of(topic));
        if self.link.newest(&stream, &format!("{subjects}.>")).await?.is_none() {
            return Ok(());
        }
        let context = self.with_context(topic, Arc::clone).ok_or_else(|| NatsFault::unavailable(CLOSED))?;
        let by = Instant::now() + self.link.timings.append_timeout;
        loop {
            context.freshen(self).await?;
            let (headers, head) = {
                let index = context.index();
                if index.is_erased(deleted_at) {
                    return Ok(());
                }
                (index.erasure(deleted_at), index.head)
            };
            let said = format!("{subjects}.{FLOOR}.{FLOOR}");
            match context.store(self, said, headers, Bytes::new(), head).await {
                Ok(sequence) => return self.link.purge(&stream, Some(&format!("{subjects}.>")), sequence).await,
                Err(NatsFault::Raced) if Instant::now() < by => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    /// A topic's context, followed from now on and as of now.
    async fn fresh_context(self: &Arc<Self>, topic: &TopicName) -> Result<Arc<TopicContext>, ReadError> {
        let context = self.with_context(topic, Arc::clone).ok_or_else(|| ReadError::Failed(CLOSED.into()))?;
        context.freshen(self).await?;
        Ok(context)
    }
}

impl ContextStore for Nats {
    fn write(&self, address: Address, write: Write) -> BoxFuture<'static, Result<Written, WriteError>> {
        let bytes = write.value.as_ref().map_or(0, |value| value.len());
        if bytes > MAX_VALUE_BYTES {
            return std::future::ready(Err(WriteError::TooLarge { bytes })).boxed();
        }
        let closed = || Err(WriteError::Stopped(CLOSED.into()));
        if let Some(why) = self.shared.trouble().filter(|_| !*self.shared.stop.borrow()) {
            return std::future::ready(Err(WriteError::Unavailable(why))).boxed();
        }
        let (since, (reply, outcome)) = (Instant::now(), oneshot::channel());
        let topic = address.topic.clone();
        let submitted =
            self.shared.with_context(&topic, |context| context.submit(NatsWrite { address, write, since, reply }));
        if submitted != Some(true) {
            return std::future::ready(closed()).boxed();
        }
        outcome.map(move |outcome| outcome.unwrap_or_else(|_| closed())).boxed()
    }

    fn get(&self, address: &Address, version: Option<u64>) -> BoxFuture<'static, Result<Option<Version>, ReadError>> {
        let (shared, address) = (self.shared.clone(), address.clone());
        Box::pin(async move { Ok(shared.get_version(&address, version).await?) })
    }

    fn history(
        &self,
        address: &Address,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Version>, ReadError>> {
        let (shared, address) = (self.shared.clone(), address.clone());
        Box::pin(async move { Ok(shared.versions(&address, before, limit).await?) })
    }

    fn list(
        &self,
        topic: &TopicName,
        scope: &ContextScope,
        after: Option<&Key>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ListedKey>, ReadError>> {
        let (shared, topic, scope, after) = (self.shared.clone(), topic.clone(), scope.clone(), after.cloned());
        Box::pin(async move { Ok(shared.fresh_context(&topic).await?.index().list(&scope, after.as_ref(), limit)) })
    }

    fn tools(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<ToolId>, ReadError>> {
        let (shared, topic) = (self.shared.clone(), topic.clone());
        Box::pin(async move { Ok(shared.fresh_context(&topic).await?.index().tools()) })
    }

    fn changes(&self, topic: &TopicName) -> Changes {
        let changes = self.shared.feeds.follow(topic);
        // Followed only once there is somebody to tell, and for as long as there is.
        let _ = self.shared.with_context(topic, |_| ());
        changes
    }
}
