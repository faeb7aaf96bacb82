//! The search index of a log in SQLite: a thread beside the writer, with a database of its own.
//!
//! The index follows from the log. So it is in another file, which a copy of the log is without, which is rebuilt where it does not
//! belong to the log, and whose writes nobody waits for: neither appends nor readers. The thread looks for new entries now and
//! then, and before every search. Of an entry the index has only its words; what a hit says is read from the log, so that nothing is
//! shown which the log no longer has.

mod index;
mod interrupt;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rusqlite::Connection;
use salon_protocol::{Entry, TopicName};
use tokio::sync::{oneshot, watch};

use self::index::{IndexQuery, SearchIndex, TopicFilter};
use super::fresh::Recent;
use super::queue::WorkQueue;
use super::reader::ReadSource;
use super::schema::LAST_OFFSET;
use super::{CLOSED, Sqlite, SqliteFault, settled};
use crate::hash::FastMap;
use crate::search::{SearchHit, SearchMethod, SearchPage, snippet};
use crate::{LogHealth, SearchError, SearchRequest, TopicSearch};

/// The database of the index, in the log's directory.
pub const SEARCH_DATABASE: &str = "search.db";

/// How often the thread looks for new entries.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How much is indexed in one transaction: what takes a few milliseconds.
const SLICE_ENTRIES: usize = 500;
const SLICE_BYTES: usize = 512 << 10;

/// One part in so many of the time goes into indexing while nobody searches: while the log is busy, when it has been for longer than [`MAX_LAG`], and
/// otherwise. At a tenth, indexing was a tenth of what the messages of a busy room cost.
const BUSY_TIME_SHARE: u32 = 40;
const LAGGING_TIME_SHARE: u32 = 10;
const IDLE_TIME_SHARE: u32 = 4;

/// How long the index may be incomplete before more time goes into it.
const MAX_LAG: Duration = Duration::from_secs(30);

/// How long a search waits until everything is in the index.
const CATCH_UP_TIME: Duration = Duration::from_secs(1);

/// How long a search looks for matches and through them, and after how many of them it looks at the clock.
const QUERY_TIME: Duration = Duration::from_millis(500);
const MATCHES_PER_LOOK: usize = 256;

/// How long an index that failed is left alone before it is rebuilt.
const RETRY_DELAY: Duration = Duration::from_secs(60);

type SearchReply = oneshot::Sender<Result<SearchPage, SearchError>>;

/// What the thread is asked, and what the writer notes for it.
pub(super) struct SearchDesk {
    requests: WorkQueue<(SearchRequest, SearchReply)>,
    notes: Mutex<IndexNotes>,
}

/// What has changed in the log since the thread last looked.
#[derive(Default)]
struct IndexNotes {
    /// Topics of which entries were settled.
    settled: FastMap<i64, TopicName>,
    /// Topics of which entries were removed: up to and with an offset.
    trimmed: FastMap<i64, u64>,
    /// Single entries whose text was removed or changed.
    changed: Vec<(i64, u64)>,
    /// Topics that were deleted, whose words must not stay in the file.
    erased: Vec<i64>,
}

impl SearchDesk {
    pub(super) fn new() -> Self {
        Self { requests: WorkQueue::new(), notes: Mutex::default() }
    }

    /// Entries of a topic were settled, and are read from the database from now on.
    pub(super) fn note_settled(&self, topic: i64, name: &TopicName) {
        self.notes.lock().settled.insert(topic, name.clone());
    }

    /// The entries of a topic up to an offset were removed.
    pub(super) fn note_trimmed(&self, topic: i64, through: u64) {
        let mut notes = self.notes.lock();
        let known = notes.trimmed.entry(topic).or_default();
        *known = (*known).max(through);
    }

    /// A topic was deleted, with its entries up to an offset.
    pub(super) fn note_erased(&self, topic: i64, through: u64) {
        self.note_trimmed(topic, through);
        self.notes.lock().erased.push(topic);
    }

    /// The text of one entry was removed or changed.
    pub(super) fn note_changed(&self, topic: i64, offset: u64) {
        self.notes.lock().changed.push((topic, offset));
    }

    pub(super) fn close(&self) {
        self.requests.close();
    }
}

impl TopicSearch for Sqlite {
    fn search(&self, request: SearchRequest) -> BoxFuture<'static, Result<SearchPage, SearchError>> {
        let closed = || Err(SearchError::Index(CLOSED.into()));
        let (reply, page) = oneshot::channel();
        if self.source.search.requests.push((request, reply)).is_err() {
            return std::future::ready(closed()).boxed();
        }
        page.map(move |page| page.unwrap_or_else(|_| closed())).boxed()
    }
}

fn time_share(is_log_busy: bool, lag: Duration) -> u32 {
    match (is_log_busy, lag > MAX_LAG) {
        (true, false) => BUSY_TIME_SHARE,
        (true, true) => LAGGING_TIME_SHARE,
        (false, _) => IDLE_TIME_SHARE,
    }
}

/// The thread.
pub(super) struct Indexer {
    source: Arc<ReadSource>,
    /// A connection to the log that reads.
    log: Connection,
    path: PathBuf,
    health: watch::Receiver<LogHealth>,
    /// `None` until it is needed.
    index: Option<SearchIndex>,
    /// When an index that failed may be rebuilt.
    retry_at: Option<(Instant, Arc<str>)>,
    /// The topics that may have entries which are not in the index.
    behind: BTreeMap<i64, TopicName>,
    /// When the index was last complete.
    complete_at: Instant,
    /// The sum of the fresh topics' heads at the last slice, and whether it had changed since the one before.
    heads: u64,
    is_log_busy: bool,
}

impl Indexer {
    pub(super) fn new(
        source: Arc<ReadSource>,
        log: Connection,
        path: PathBuf,
        health: watch::Receiver<LogHealth>,
    ) -> Self {
        Self {
            source,
            log,
            path,
            health,
            index: None,
            retry_at: None,
            behind: BTreeMap::new(),
            complete_at: Instant::now(),
            heads: 0,
            is_log_busy: false,
        }
    }

    /// Works until the desk is closed.
    pub(super) fn run(&mut self) {
        let source = self.source.clone();
        let mut requests = VecDeque::new();
        let mut wait = POLL_INTERVAL;
        while source.search.requests.take(&mut requests, wait) {
            if requests.is_empty() {
                wait = self.index_some();
                continue;
            }
            for (request, reply) in requests.drain(..) {
                if !reply.is_closed() {
                    let _ = reply.send(self.answer(&request));
                }
            }
        }
    }

    /// One slice of indexing; how long to wait for the next.
    fn index_some(&mut self) -> Duration {
        let began = Instant::now();
        match self.catch_up(began) {
            Ok(true) => {
                self.complete_at = Instant::now();
                POLL_INTERVAL
            }
            Ok(false) => {
                let share = time_share(self.is_log_busy, self.complete_at.elapsed());
                began.elapsed().max(Duration::from_millis(1)) * (share - 1)
            }
            Err(fault) => {
                self.fail(&fault);
                POLL_INTERVAL
            }
        }
    }

    fn answer(&mut self, request: &SearchRequest) -> Result<SearchPage, SearchError> {
        if let Some((at, reason)) = &self.retry_at
            && Instant::now() < *at
        {
            return Err(SearchError::Index(reason.clone()));
        }
        let answer = self.catch_up(Instant::now() + CATCH_UP_TIME).and_then(|_| self.query(request));
        answer.map_err(|fault| SearchError::Index(self.fail(&fault))).flatten()
    }

    /// Gives the index up for a while. It is derived from the log, so that rebuilding it loses nothing.
    fn fail(&mut self, fault: &SqliteFault) -> Arc<str> {
        tracing::warn!(error = %fault, "search: index failed, rebuilding it in a minute");
        (self.index, self.behind) = (None, BTreeMap::new());
        if let Err(error) = index::remove(&self.path) {
            tracing::warn!(%error, "search: index not removed");
        }
        let reason: Arc<str> = "it is being rebuilt".into();
        self.retry_at = Some((Instant::now() + RETRY_DELAY, reason.clone()));
        reason
    }

    /// Indexes slices until nothing is left or the time is over, but at least one; whether nothing is left.
    fn catch_up(&mut self, deadline: Instant) -> Result<bool, SqliteFault> {
        if self.retry_at.as_ref().is_some_and(|(at, _)| Instant::now() < *at) {
            return Ok(true);
        }
        self.retry_at = None;
        self.take_notes()?;
        loop {
            let is_done = self.index_slice()?;
            if is_done || Instant::now() >= deadline {
                return Ok(is_done);
            }
        }
    }

    /// Finds out which topics have something new, and removes what the log has no more.
    fn take_notes(&mut self) -> Result<(), SqliteFault> {
        // In this order: an entry that leaves the memory in between is among the notes.
        let fresh = self.source.fresh();
        let new: Vec<_> = fresh.topics().map(|(name, recent)| (recent.topic, recent.head(), name.clone())).collect();
        drop(fresh);
        let notes = std::mem::take(&mut *self.source.search.notes.lock());
        let epoch = self.source.epoch;
        let index = match &mut self.index {
            Some(index) => index,
            None => {
                let mut index = SearchIndex::open(&self.path, epoch)?;
                // Another version may have used the log without the index.
                for (topic, trimmed, name) in settled::all_topics(&self.log)? {
                    index.note_trimmed(topic, trimmed);
                    self.behind.insert(topic, name);
                }
                index.forget_unknown(&self.behind)?;
                self.index.insert(index)
            }
        };
        for (topic, through) in notes.trimmed {
            index.note_trimmed(topic, through);
        }
        index.remove_entries(notes.changed)?;
        let heads = new.iter().map(|(_, head, _)| head).fold(0_u64, |sum, head| sum.wrapping_add(*head));
        self.is_log_busy = std::mem::replace(&mut self.heads, heads) != heads;
        self.behind.extend(notes.settled);
        let is_new = |topic: i64, head: u64| index.indexed(topic) < head;
        let new = new.into_iter().filter(|(topic, head, _)| is_new(*topic, *head) && !notes.erased.contains(topic));
        self.behind.extend(new.map(|(topic, _, name)| (topic, name)));
        if !notes.erased.is_empty() {
            // The log has the entries of a deleted topic until a sweep removes them. What came after the deletion is in memory.
            let fresh = self.source.fresh();
            for topic in &notes.erased {
                self.behind.remove(topic);
                let after = fresh.topics().find(|(_, recent)| recent.topic == *topic && is_new(*topic, recent.head()));
                self.behind.extend(after.map(|(name, _)| (*topic, name.clone())));
            }
            drop(fresh);
            index.note_erased();
        }
        Ok(())
    }

    /// Indexes a slice, or removes one; whether there was nothing to do.
    fn index_slice(&mut self) -> Result<bool, SqliteFault> {
        let Some(index) = &mut self.index else { return Ok(true) };
        if index.remove_slice(SLICE_ENTRIES)? {
            return Ok(false);
        }
        // A log that takes nothing, for want of room on the disk for example, gets no larger index either.
        if *self.health.borrow() != LogHealth::Writable {
            return Ok(true);
        }
        let (mut entries, mut bytes, mut heads) = (Vec::new(), 0, Vec::new());
        while entries.len() < SLICE_ENTRIES
            && bytes < SLICE_BYTES
            && let Some((&topic, name)) = self.behind.first_key_value()
        {
            let found = new_entries(
                &self.log,
                &self.source,
                (topic, name),
                index.indexed(topic),
                SLICE_ENTRIES - entries.len(),
            )?;
            let Some(last) = found.last() else {
                self.behind.remove(&topic);
                continue;
            };
            let head = last.position.offset;
            index.reach(topic, head);
            heads.push((topic, head));
            bytes += found.iter().map(|entry| entry.envelope.text().len()).sum::<usize>();
            entries.extend(found.into_iter().map(|entry| (topic, entry)));
        }
        if heads.is_empty() {
            return Ok(true);
        }
        index.add(entries, &heads)?;
        Ok(false)
    }

    fn query(&mut self, request: &SearchRequest) -> Result<Result<SearchPage, SearchError>, SqliteFault> {
        let before = match request.before.as_deref().map(str::parse::<i64>) {
            Some(Ok(doc)) => doc,
            Some(Err(_)) => return Ok(Err(SearchError::Cursor)),
            None => i64::MAX,
        };
        let Some(index) = &self.index else { return Ok(Err(SearchError::Index("it is not there yet".into()))) };
        // No transaction: its snapshot would lack what is settled, and so leaves the memory, while this searches.
        let log = &self.log;
        let mut topics: HashMap<i64, &TopicName> = HashMap::with_capacity(request.topics.len());
        for topic in &request.topics {
            if let Some(number) = settled::number(log, &topic.name)? {
                topics.insert(number, &topic.name);
            }
        }
        let mut query = IndexQuery::new(&request.query);
        query.topics(TopicFilter::of(&topics));
        query.from(request.from.as_ref());
        query.kind(request.kind);
        let deadline = Instant::now() + QUERY_TIME;
        let (mut hits, mut last, mut end) = (Vec::new(), None, QueryEnd::All);
        let (mut pending, mut looked_at) = (0, 0_usize);
        for (topic, name) in topics.iter().filter(|(topic, _)| self.behind.contains_key(topic)) {
            pending += head(log, &self.source, (*topic, name))?.saturating_sub(index.indexed(*topic));
        }
        let looked = index.matches(&query, before, QUERY_TIME, |doc, topic, offset| {
            looked_at += 1;
            if looked_at.is_multiple_of(MATCHES_PER_LOOK) && Instant::now() >= deadline {
                end = QueryEnd::Time;
                return Ok(false);
            }
            if let Some(name) = topics.get(&topic)
                && let Some(entry) = entry_at(log, &self.source, (topic, name), offset)?
                && let Some(document) = request.matching(&entry)
            {
                if hits.len() == request.limit {
                    end = QueryEnd::Limit;
                    return Ok(false);
                }
                let snippet = snippet(&request.query, &document.text);
                hits.push(SearchHit { topic: (*name).clone(), entry, kind: document.kind, snippet });
            }
            last = Some(doc);
            Ok(true)
        })?;
        if looked.is_none() {
            if last.is_none() {
                return Ok(Err(SearchError::TooSlow));
            }
            end = QueryEnd::Time;
        }
        let is_complete = end != QueryEnd::Time && pending == 0;
        let since = last.filter(|_| end == QueryEnd::Time).map(index::arrived);
        let next = last.filter(|_| end != QueryEnd::All).map(|doc| doc.to_string().into());
        Ok(Ok(SearchPage { hits, is_complete, method: SearchMethod::Index, since, pending, next }))
    }
}

/// Why no more matches were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueryEnd {
    All,
    Limit,
    Time,
}

/// The oldest entries of a topic after an offset, from the database or from memory.
fn new_entries(
    log: &Connection,
    source: &ReadSource,
    (topic, name): (i64, &TopicName),
    after: u64,
    limit: usize,
) -> Result<Vec<Arc<Entry>>, SqliteFault> {
    {
        let fresh = source.fresh();
        if let Some(recent) = fresh.of(name).filter(|recent| recent.settled <= after) {
            return Ok(recent.after(after).iter().take(limit).cloned().collect());
        }
    }
    settled::after(log, source.epoch, topic, (after, LAST_OFFSET), limit, SLICE_BYTES)
}

/// The offset of the newest entry of a topic.
fn head(log: &Connection, source: &ReadSource, (topic, name): (i64, &TopicName)) -> Result<u64, SqliteFault> {
    let fresh = source.fresh().of(name).map(Recent::head);
    match fresh {
        Some(head) => Ok(head),
        None => Ok(settled::extent_of(log, topic, 0)?.head),
    }
}

/// The entry at an offset, while the log has it.
fn entry_at(
    log: &Connection,
    source: &ReadSource,
    (topic, name): (i64, &TopicName),
    offset: u64,
) -> Result<Option<Arc<Entry>>, SqliteFault> {
    {
        let fresh = source.fresh();
        if let Some(recent) = fresh.of(name).filter(|recent| recent.settled < offset) {
            return Ok(recent.after(offset - 1).first().cloned());
        }
    }
    let found = settled::after(log, source.epoch, topic, (offset - 1, offset), 1, 1)?;
    Ok(found.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_log_is_indexed_slowly_and_never_left_behind() {
        let (soon, late) = (MAX_LAG, MAX_LAG + Duration::from_secs(1));
        assert!(time_share(true, soon) > time_share(true, late), "a larger number is a smaller share");
        assert!(time_share(true, late) > time_share(false, late));
        assert_eq!(time_share(false, soon), time_share(false, late));
    }
}
