//! Searching by reading entries, newest first, within bounds: for a log that has no index.
//!
//! Topics are read in the order of their newest entries, a page at a time, so that what is old in one topic is not read before what is
//! newer in another.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use salon_protocol::{Entry, Position, Timestamp, TopicName};
use tokio::time::Instant;

use super::{SearchError, SearchHit, SearchMethod, SearchPage, SearchRequest, TopicSearch, snippet};
use crate::{ReadError, Span, TopicLog};

/// How many entries of a topic are read at once.
const PAGE_ENTRIES: usize = 200;

/// What one page may cost.
#[derive(Debug, Clone, Copy)]
pub struct ScanBounds {
    /// Bytes of entries that are read.
    pub bytes: usize,
    /// How long it takes.
    pub time: Duration,
}

impl Default for ScanBounds {
    fn default() -> Self {
        Self { bytes: 16 << 20, time: Duration::from_secs(2) }
    }
}

/// A [`TopicSearch`] over any log.
pub struct ScanSearch {
    log: Arc<dyn TopicLog>,
    bounds: ScanBounds,
}

impl ScanSearch {
    /// Over a log, within bounds.
    pub fn new(log: Arc<dyn TopicLog>, bounds: ScanBounds) -> Self {
        Self { log, bounds }
    }
}

impl TopicSearch for ScanSearch {
    fn search(&self, request: SearchRequest) -> BoxFuture<'static, Result<SearchPage, SearchError>> {
        let (log, bounds) = (self.log.clone(), self.bounds);
        async move { Scan::new(&*log, &request, bounds)?.run().await }.boxed()
    }
}

/// Where an entry stands among those of all topics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EntryOrder {
    arrived: Timestamp,
    topic: TopicName,
    offset: u64,
}

impl EntryOrder {
    fn cursor(&self) -> Box<str> {
        format!("{}.{}.{}", self.arrived.0, self.offset, self.topic).into()
    }

    fn read(text: &str) -> Option<Self> {
        let (arrived, rest) = text.split_once('.')?;
        let (offset, topic) = rest.split_once('.')?;
        let arrived = Timestamp(arrived.parse().ok()?);
        Some(Self { arrived, offset: offset.parse().ok()?, topic: TopicName::new(topic).ok()? })
    }
}

/// A topic that is being read backwards.
struct TopicScan {
    topic: TopicName,
    /// What was read and not looked at, the oldest first.
    entries: Vec<Arc<Entry>>,
    /// Where to read on; `None` once its beginning was read.
    rest: Option<Span>,
    /// No entry that is left arrived later.
    newest: Timestamp,
}

impl TopicScan {
    /// Ordered by what comes next. Where nothing is read yet, that may be anything that arrived at that time.
    fn rank(&self) -> (Timestamp, &TopicName, u64) {
        let offset = self.entries.last().map_or(u64::MAX, |entry| entry.position.offset);
        (self.newest, &self.topic, offset)
    }
}

impl PartialEq for TopicScan {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for TopicScan {}

impl PartialOrd for TopicScan {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TopicScan {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

struct Scan<'a> {
    log: &'a dyn TopicLog,
    request: &'a SearchRequest,
    before: Option<EntryOrder>,
    topics: BinaryHeap<TopicScan>,
    bounds: ScanBounds,
    deadline: Instant,
    bytes: usize,
    /// The last entry that was looked at.
    last: Option<EntryOrder>,
}

impl<'a> Scan<'a> {
    fn new(log: &'a dyn TopicLog, request: &'a SearchRequest, bounds: ScanBounds) -> Result<Self, SearchError> {
        let before = match &request.before {
            Some(text) => Some(EntryOrder::read(text).ok_or(SearchError::Cursor)?),
            None => None,
        };
        let topics = request.topics.iter().filter_map(|topic| {
            let (newest, rest) = match &before {
                Some(before) => {
                    (topic.newest?.min(before.arrived), Span::BeforeTime(Timestamp(before.arrived.0.saturating_add(1))))
                }
                None => (topic.newest?, Span::Newest),
            };
            Some(TopicScan { topic: topic.name.clone(), entries: Vec::new(), rest: Some(rest), newest })
        });
        let topics = topics.collect();
        let deadline = Instant::now() + bounds.time;
        Ok(Self { log, request, before, topics, bounds, deadline, bytes: 0, last: None })
    }

    async fn run(mut self) -> Result<SearchPage, SearchError> {
        let mut hits = Vec::new();
        let (mut is_complete, mut has_more) = (true, false);
        while let Some(mut topic) = self.topics.pop() {
            if topic.entries.is_empty() {
                if self.bytes >= self.bounds.bytes || Instant::now() >= self.deadline {
                    (is_complete, has_more) = (false, true);
                    break;
                }
                if self.read(&mut topic).await? {
                    self.topics.push(topic);
                }
                continue;
            }
            let entry = topic.entries.pop().expect("it has some");
            let order =
                EntryOrder { arrived: entry.arrived, topic: topic.topic.clone(), offset: entry.position.offset };
            let is_wanted = self.before.as_ref().is_none_or(|before| order < *before);
            if is_wanted && let Some(document) = self.request.matching(&entry) {
                if hits.len() == self.request.limit {
                    has_more = true;
                    break;
                }
                let snippet = snippet(&self.request.query, &document.text);
                hits.push(SearchHit { topic: topic.topic.clone(), entry, kind: document.kind, snippet });
            }
            self.last = Some(order);
            if let Some(next) = topic.entries.last() {
                topic.newest = next.arrived;
            }
            if !topic.entries.is_empty() || topic.rest.is_some() {
                self.topics.push(topic);
            }
        }
        let since = self.last.as_ref().filter(|_| !is_complete).map(|last| last.arrived);
        let next = self.last.as_ref().filter(|_| has_more).map(EntryOrder::cursor);
        Ok(SearchPage { hits, is_complete, method: SearchMethod::Scan, since, pending: 0, next })
    }

    /// Reads the next page of a topic; whether there was one.
    async fn read(&mut self, topic: &mut TopicScan) -> Result<bool, SearchError> {
        let Some(span) = topic.rest.take() else { return Ok(false) };
        let page = match self.log.read(&topic.topic, span, PAGE_ENTRIES).await {
            Ok(page) => page,
            // Retention was faster.
            Err(ReadError::Gap { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        self.bytes += page.iter().map(|entry| entry.envelope.text().len()).sum::<usize>();
        let Some(oldest) = page.first() else { return Ok(false) };
        topic.rest = Some(Span::Before(Position { ..oldest.position }));
        topic.newest = page.last().map_or(topic.newest, |entry| entry.arrived);
        topic.entries = page;
        Ok(true)
    }
}
