//! A shard: one stream with the entries of many topics, followed as a whole by one consumer of this node.
//!
//! Everything that comes by is taken into the index of the shard's topics ([`super::topic_index`]); what is for a topic that is followed here is handed to
//! it. So a topic that nobody here uses costs nothing but its line in the index.
//!
//! Messages that were purged before their turn leave a hole in the sequences of what comes. Marks tell which topics lost something by that
//! ([`super::mark`]): they are read before anything behind the hole is taken in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::Info;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::TopicName;
use tokio::sync::watch;

use super::Shared;
use super::fault::NatsFault;
use super::follow::{Course, Follow};
use super::lag::lagging;
use super::link::Stored;
use super::names::{MARK, StreamNames, TopicSubjects, shard_of, token};
use super::parts;
use super::reader::described;
use super::topic::{Topic, TopicEvent};
use super::topic_index::{IndexEffect, ShardIndex, TopicIndex};

/// How long to wait before following again.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// How many missing messages are looked for one by one: each may have been redacted.
const MAX_LOOKED_UP: u64 = 32;
/// How far the kept index may be behind after a sweep, and at any time, but for a few seconds: a node that starts reads what came since.
const MAX_BEHIND: u64 = 4096;
const MAX_BEHIND_EVER: u64 = 4 * MAX_BEHIND;
/// How often it is looked whether it is further behind than that.
pub(super) const KEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Marks of forgotten topics expire. After so long without a word what is known may lack one, and is read anew.
const MAX_INTERRUPTION: Duration = Duration::from_secs(30 * 60);

pub(super) struct Shard {
    pub(super) number: u16,
    pub(super) stream: String,
    /// What its subjects begin with.
    prefix: String,
    state: Mutex<ShardState>,
    /// Everything up to here has been taken in and handed on; `None` until that is known.
    position: watch::Sender<Option<u64>>,
    freshness: ShardFreshness,
    /// How many bytes its entries have. Appends look at it, and must not wait for what is taken in.
    bytes: AtomicU64,
    /// The newest sequence that was ever taken in, however often the shard was read from its beginning.
    furthest: AtomicU64,
    /// The topics of which something is marked and maybe not purged; `None` while that may be any.
    unpurged: Mutex<Option<HashSet<TopicName>>>,
}

/// When the index of a shard is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexKeep {
    /// Whenever something is new.
    Always,
    /// Where what was kept is far behind, or lacks facts.
    WhenBehind,
    /// Only where what was kept is far behind: a node that stops has little time, and facts are found again.
    AtStop,
}

/// Where a topic is.
#[derive(Clone)]
pub(super) struct TopicAddress {
    pub(super) shard: Arc<Shard>,
    /// The digest of its name.
    pub(super) token: String,
    pub(super) subjects: TopicSubjects,
}

impl TopicAddress {
    pub(super) fn stream(&self) -> &str {
        &self.shard.stream
    }

    /// What is known of the topic, as far as its shard has been followed.
    pub(super) fn indexed<T>(&self, look: impl FnOnce(&TopicIndex) -> T) -> Option<T> {
        self.shard.indexed(&self.token, look)
    }
}

#[derive(Default)]
struct ShardState {
    index: ShardIndex,
    /// The topics that are followed here, by the digests of their names.
    topics: HashMap<String, Arc<Topic>>,
    /// The revision of the index that was kept last, as far as is known here, and up to where that is.
    kept: (u64, u64),
    /// Facts were taken from folds since, which what was kept does not have.
    has_new_facts: bool,
}

/// One question to the leader answers everybody who asked before it was put.
#[derive(Default)]
struct ShardFreshness {
    asking: tokio::sync::Mutex<()>,
    /// How many questions were put.
    put: AtomicU64,
    /// The newest answer, with the number of its question.
    answer: Mutex<Option<(u64, Result<u64, NatsFault>)>>,
}

impl Shard {
    pub(super) fn new(names: &StreamNames, number: u16) -> Self {
        Self {
            number,
            stream: names.shard(number),
            prefix: names.shard_prefix(number),
            state: Mutex::default(),
            position: watch::Sender::new(None),
            freshness: ShardFreshness::default(),
            bytes: AtomicU64::new(0),
            furthest: AtomicU64::new(0),
            unpurged: Mutex::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, ShardState> {
        self.state.lock()
    }

    /// What is known of a topic, as far as the shard has been followed.
    pub(super) fn indexed<T>(&self, token: &str, look: impl FnOnce(&TopicIndex) -> T) -> Option<T> {
        self.state().index.topics.get(token).map(look)
    }

    /// Something of every topic of the shard.
    pub(super) fn all_indexed<T>(&self, look: impl FnMut(&TopicIndex) -> T) -> Vec<T> {
        self.state().index.topics.values().map(look).collect()
    }

    /// Something of a topic's index, or of all of them, and whether that has everything that was acknowledged before the call. Where the shard is being
    /// read anew it has not, although the shard was followed that far before.
    pub(super) async fn look_freshly<T>(
        &self,
        shared: &Shared,
        look: impl FnOnce(&HashMap<String, TopicIndex>) -> T,
    ) -> Result<(T, bool), NatsFault> {
        let last = self.last(shared).await?;
        self.reach(last, shared.link.timings.answer_timeout).await?;
        let state = self.state();
        Ok((look(&state.index.topics), state.index.through >= last))
    }

    /// Puts what a topic's fold says in place of what the index knows of it, if the fold is as new as the index.
    pub(super) fn note_facts(&self, topic: &Topic) {
        let mut state = self.state();
        let ShardState { index, has_new_facts, .. } = &mut *state;
        // While the shard is read again, the fold may be of messages that are lost.
        if self.position.borrow().is_none() {
            return;
        }
        let Some(known) = index.topics.get_mut(&topic.place.token) else { return };
        if let Some(facts) = topic.corrected_facts(known.head, known.removed.through, &known.facts) {
            known.facts = facts;
            *has_new_facts = true;
        }
    }

    pub(super) fn count(&self) -> usize {
        self.state().index.topics.len()
    }

    /// How many bytes its entries have.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The newest sequence that was ever taken in.
    pub(super) fn furthest(&self) -> u64 {
        self.furthest.load(Ordering::Relaxed)
    }

    /// Whether something of a topic may be marked and not purged.
    pub(super) fn may_be_unpurged(&self, name: &TopicName) -> bool {
        self.unpurged.lock().as_ref().is_none_or(|unpurged| unpurged.contains(name))
    }

    /// Something of these topics may be marked and not purged. Of the others nothing is, unless it was noted before.
    pub(super) fn note_unpurged(&self, names: impl IntoIterator<Item = TopicName>) {
        self.unpurged.lock().get_or_insert_default().extend(names);
    }

    /// Something of a topic is about to be marked.
    pub(super) fn note_marking(&self, name: &TopicName) {
        if let Some(unpurged) = &mut *self.unpurged.lock() {
            unpurged.insert(name.clone());
        }
    }

    /// What is marked of a topic is purged.
    pub(super) fn note_purged(&self, name: &TopicName) {
        if let Some(unpurged) = &mut *self.unpurged.lock() {
            unpurged.remove(name);
        }
    }

    /// Hands what comes from now on to a topic; says after which sequence that is.
    pub(super) fn attach(&self, topic: &Arc<Topic>) -> u64 {
        let mut state = self.state();
        topic.await_events();
        state.topics.insert(topic.place.token.clone(), topic.clone());
        state.index.through
    }

    /// Hands nothing more to a topic.
    pub(super) fn detach(&self, topic: &Arc<Topic>) {
        let mut state = self.state();
        if state.topics.get(&topic.place.token).is_some_and(|known| Arc::ptr_eq(known, topic)) {
            state.topics.remove(&topic.place.token);
        }
    }

    /// Waits until everything up to a sequence has been taken in.
    pub(super) async fn reach(&self, sequence: u64, patience: Duration) -> Result<(), NatsFault> {
        let mut position = self.position.subscribe();
        let reached = position.wait_for(|position| position.is_some_and(|position| position >= sequence));
        match tokio::time::timeout(patience, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(NatsFault::unavailable("the newest entries have not come yet")),
        }
    }

    /// Waits until everything has been taken in that was acknowledged before the call.
    pub(super) async fn freshen(&self, shared: &Shared) -> Result<(), NatsFault> {
        let last = self.last(shared).await?;
        self.reach(last, shared.link.timings.answer_timeout).await
    }

    async fn last(&self, shared: &Shared) -> Result<u64, NatsFault> {
        let before = self.freshness.put.load(Ordering::SeqCst);
        let _asking = self.freshness.asking.lock().await;
        if let Some((number, answer)) = &*self.freshness.answer.lock()
            && *number > before
        {
            return answer.clone();
        }
        let number = self.freshness.put.fetch_add(1, Ordering::SeqCst) + 1;
        let answer = shared.described(&self.stream).await.map(|info| info.state.last_sequence);
        *self.freshness.answer.lock() = Some((number, answer.clone()));
        answer
    }

    /// Follows the shard until the log is closed, whatever happens to the connection.
    pub(super) async fn follow(self: Arc<Self>, shared: Arc<Shared>) {
        let mut interrupted: Option<Instant> = None;
        loop {
            if interrupted.is_some_and(|since| since.elapsed() > MAX_INTERRUPTION) {
                self.start_over();
                interrupted = None;
            }
            let mut has_followed = false;
            match self.follow_once(&shared, &mut has_followed).await {
                Ok(()) | Err(NatsFault::Unavailable(_)) => {}
                Err(NatsFault::Missing) => {
                    tracing::error!(stream = self.stream, "nats: the stream of a shard is missing")
                }
                Err(fault) => {
                    tracing::warn!(stream = self.stream, %fault, "nats: following a shard failed, retrying");
                }
            }
            if has_followed || interrupted.is_none() {
                interrupted = Some(Instant::now());
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Follows until it must start over.
    async fn follow_once(self: &Arc<Self>, shared: &Arc<Shared>, has_followed: &mut bool) -> Result<(), NatsFault> {
        let known = *self.position.borrow();
        let info = self.look(shared, known.unwrap_or_default()).await?;
        let (first, last) = (info.state.first_sequence, info.state.last_sequence);
        if known.is_none_or(|known| known > last) {
            if known.is_some() {
                tracing::error!(stream = self.stream, "nats: stored entries lost, rereading the shard");
                // Nobody may take what is known of a shard that is being read for all there is.
                self.position.send_replace(None);
            }
            // Before the index is replaced, so that no fold of what is lost is taken for as new as it; and after, for topics that came to it meanwhile.
            self.restart_topics();
            self.restore(shared, first.saturating_sub(1), last).await?;
            self.restart_topics();
        }
        let mut at = self.state().index.through;
        let from = DeliverPolicy::ByStartSequence { start_sequence: at + 1 };
        let course = Course { stream: &self.stream, from, filter: None, headers_only: false };
        let mut follow = Follow::begin(&shared.link, course).await?;
        *has_followed = true;
        let mut unpassed = Some(last);
        let followed = watch::Sender::new(at);
        let lagging = lagging(&shared.link, &self.stream, followed.subscribe());
        tokio::pin!(lagging);
        loop {
            if follow.has_caught_up()
                && let Some(last) = unpassed.take()
            {
                if at < last {
                    // The leader has it, and the replica that the consumer reads from does not yet.
                    let behind = shared.link.next(&self.stream, at + 1, &format!("{}>", self.prefix)).await?;
                    if behind.is_some_and(|message| message.sequence <= last) {
                        tracing::info!(
                            stream = self.stream,
                            "nats: consumer lags behind its stream, following from another"
                        );
                        return Ok(());
                    }
                    // What is missing at the end was removed, too.
                    self.pass(shared, at, last).await?;
                    at = last;
                    followed.send_replace(at);
                }
                // Not before: a reader would take for missing what is only on its way.
                self.position.send_replace(Some(at));
            }
            let next = tokio::select! { biased;
                next = follow.next() => next,
                () = &mut lagging => {
                    tracing::info!(stream = self.stream, "nats: consumer lags behind its stream, following from another");
                    return Ok(());
                }
            };
            let Some(messages) = next else { return Ok(()) };
            if messages.is_empty() {
                continue;
            }
            at = self.take(shared, at, messages).await?;
            followed.send_replace(at);
            self.position.send_if_modified(|position| {
                let is_known = position.is_some();
                if is_known {
                    *position = Some(at);
                }
                is_known
            });
        }
    }

    /// What the leader says of the stream, once it has everything up to a sequence, or after a while without.
    async fn look(&self, shared: &Shared, sequence: u64) -> Result<Info, NatsFault> {
        let by = Instant::now() + shared.link.timings.election_timeout;
        loop {
            let info = described(&shared.link, &self.stream, || shared.trouble().is_none()).await?;
            if info.state.last_sequence >= sequence || Instant::now() >= by {
                return Ok(info);
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Begins from the index that was kept, or from the oldest message there is.
    async fn restore(&self, shared: &Shared, before: u64, last: u64) -> Result<(), NatsFault> {
        let kept = parts::load(&shared.link, &shared.folds, &self.key()).await?;
        let (revision, kept) = match kept {
            Some((revision, bytes)) => (revision, ShardIndex::read(&bytes)),
            None => (0, None),
        };
        // What was kept may be older than the oldest message: marks tell what is removed since.
        let kept = kept.filter(|kept| kept.through <= last);
        let index = kept.unwrap_or_else(|| ShardIndex::after(before));
        let through = index.through;
        {
            let mut state = self.state();
            (state.kept, state.has_new_facts) = ((revision, through), false);
            self.bytes.store(index.bytes(), Ordering::Relaxed);
            state.index = index;
        }
        // How much was removed in front of the oldest message cannot be counted, and there is no hole to tell of it.
        if through < last { self.learn_marks(shared, through).await } else { Ok(()) }
    }

    /// The index is read again, because it may lack something.
    fn start_over(&self) {
        self.position.send_replace(None);
        self.restart_topics();
    }

    fn restart_topics(&self) {
        let topics: Vec<_> = self.state().topics.values().cloned().collect();
        topics.iter().for_each(|topic| topic.restart());
    }

    fn key(&self) -> String {
        format!("shard-{}", self.number)
    }

    /// Takes in what came, after a sequence; says up to where.
    async fn take(&self, shared: &Arc<Shared>, after: u64, mut messages: Vec<Stored>) -> Result<u64, NatsFault> {
        let is_whole = messages.iter().zip(after + 1..).all(|(message, next)| message.sequence == next);
        let mut restarting = Vec::new();
        if !is_whole {
            self.learn_marks(shared, after).await?;
            match self.fill_holes(shared, after, messages).await? {
                (filled, true) => messages = filled,
                // So much is missing that whatever was redacted cannot be looked for.
                (filled, false) => {
                    messages = filled;
                    restarting = self.state().topics.values().cloned().collect();
                }
            }
        }
        let mut order: Vec<Arc<Topic>> = Vec::new();
        let mut events: HashMap<String, Vec<TopicEvent>> = HashMap::new();
        let at = {
            let mut state = self.state();
            let ShardState { index, topics, .. } = &mut *state;
            for message in messages {
                let Some((token, effect)) = index.take(&self.prefix, &message) else { continue };
                let Some(topic) = topics.get(&token) else { continue };
                let event = match effect {
                    IndexEffect::Message => TopicEvent::Message(message),
                    IndexEffect::Trimmed(through) => TopicEvent::Trimmed(through),
                    IndexEffect::Forgotten => TopicEvent::Forgotten,
                };
                let list = events.entry(token).or_default();
                if list.is_empty() {
                    order.push(topic.clone());
                }
                list.push(event);
            }
            self.bytes.store(index.bytes(), Ordering::Relaxed);
            self.furthest.fetch_max(index.through, Ordering::Relaxed);
            index.through
        };
        for topic in &restarting {
            topic.restart();
        }
        for topic in order {
            if let Some(list) = events.remove(&topic.place.token) {
                topic.take(shared, list);
            }
        }
        Ok(at)
    }

    /// Passes over messages that are not there.
    async fn pass(&self, shared: &Arc<Shared>, after: u64, last: u64) -> Result<(), NatsFault> {
        self.learn_marks(shared, after).await?;
        self.state().index.through = last;
        Ok(())
    }

    /// Reads every mark of the shard, and lets the topics start over of which something was removed before it came by. At once: a mark that is
    /// known is not new when it is read again.
    async fn learn_marks(&self, shared: &Shared, after: u64) -> Result<(), NatsFault> {
        let filter = format!("{}{MARK}.*", self.prefix);
        // A mark is stored before anything is removed, so the leader has the marks of all that is missing here.
        let newest = shared.link.newest(&self.stream, &filter).await?.map(|newest| newest.sequence);
        let Some(newest) = newest else { return Ok(()) };
        let from = DeliverPolicy::LastPerSubject;
        let course = Course { stream: &self.stream, from, filter: Some(filter), headers_only: false };
        let mut follow = Follow::begin(&shared.link, course).await?;
        let mut marks = BTreeMap::new();
        while !follow.has_caught_up() {
            let Some(messages) = follow.next().await else {
                return Err(NatsFault::unavailable("the marks of a shard could not be read"));
            };
            for message in messages {
                if let Some((_, token)) = message.subject.rsplit_once('.') {
                    marks.insert(token.to_owned(), message);
                }
            }
        }
        if marks.values().map(|mark| mark.sequence).max().unwrap_or_default() < newest {
            return Err(NatsFault::unavailable("a replica lacks the newest marks of a shard"));
        }
        let mut affected = Vec::new();
        {
            let mut state = self.state();
            let ShardState { index, topics, .. } = &mut *state;
            for (token, mark) in marks {
                if let Some(IndexEffect::Trimmed(through)) = index.learn_mark(&token, &mark)
                    && through > after
                    && let Some(topic) = topics.get(&token)
                {
                    affected.push(topic.clone());
                }
            }
        }
        affected.iter().for_each(|topic| topic.restart());
        Ok(())
    }

    /// Puts tombstones where messages are missing. Says whether all that are missing have been looked for.
    async fn fill_holes(
        &self,
        shared: &Shared,
        after: u64,
        messages: Vec<Stored>,
    ) -> Result<(Vec<Stored>, bool), NatsFault> {
        let last = messages.last().map_or(after, |message| message.sequence);
        let missing = last.saturating_sub(after).saturating_sub(messages.len() as u64);
        if missing > MAX_LOOKED_UP {
            return Ok((messages, false));
        }
        let (mut filled, mut next) = (Vec::with_capacity(messages.len()), after + 1);
        for message in messages {
            while next < message.sequence {
                if let Some(tombstone) =
                    shared.tombstone(&self.stream, &format!("{}*.hole-{next}", self.prefix), next).await?
                {
                    filled.push(tombstone);
                }
                next += 1;
            }
            next = message.sequence + 1;
            filled.push(message);
        }
        Ok((filled, true))
    }

    /// Keeps the index, where what was kept is too far behind for a node that starts.
    pub(super) async fn keep_up(&self, shared: &Shared) -> Result<(), NatsFault> {
        let is_due = {
            let state = self.state();
            state.index.through >= state.kept.1.saturating_add(MAX_BEHIND_EVER)
        };
        if is_due { self.keep(shared, IndexKeep::WhenBehind).await } else { Ok(()) }
    }

    /// Keeps the index, where that is due.
    pub(super) async fn keep(&self, shared: &Shared, keep: IndexKeep) -> Result<(), NatsFault> {
        loop {
            let (bytes, through, (revision, _)) = {
                let mut state = self.state();
                let is_new = state.index.through > state.kept.1;
                let is_behind = state.index.through >= state.kept.1.saturating_add(MAX_BEHIND);
                // A mark that has expired is not there for a node that starts.
                let is_needed = keep == IndexKeep::Always || state.index.expiring > state.kept.1;
                let has_new_facts = state.has_new_facts && keep != IndexKeep::AtStop;
                if self.position.borrow().is_none() || !(is_behind || is_needed && is_new || has_new_facts) {
                    return Ok(());
                }
                state.has_new_facts = false;
                (state.index.write(), state.index.through, state.kept)
            };
            let kept = match parts::keep(shared, &self.key(), through, bytes, revision).await {
                Ok(revision) => (revision, through),
                // Another node was faster. What it has kept may be less: then this is tried again.
                Err(NatsFault::Raced) => match parts::load(&shared.link, &shared.folds, &self.key()).await? {
                    Some((revision, bytes)) => (revision, ShardIndex::read(&bytes).map_or(0, |kept| kept.through)),
                    None => (0, 0),
                },
                Err(fault) => {
                    self.state().has_new_facts = true;
                    return Err(fault);
                }
            };
            self.state().kept = kept;
            if kept.1 >= through {
                return Ok(());
            }
        }
    }
}

impl Shared {
    /// Where a topic is.
    pub(super) fn place(&self, topic: &TopicName) -> TopicAddress {
        let number = shard_of(topic, u16::try_from(self.shards.len()).expect("few"));
        let token = token(topic.as_str());
        let subjects = self.link.names.entries(number, &token);
        TopicAddress { shard: self.shards[usize::from(number)].clone(), token, subjects }
    }
}
