//! Reading: what there is from the stream's leader, the entries from any replica.
//!
//! A topic's sequences have no holes, because nothing but its oldest entries is ever removed. So a range is known by its ends, and a
//! replica that lacks part of it shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Info;
use salon_protocol::{Entry, EnvelopeId, Position, Timestamp, TopicName};
use serde::{Deserialize, Serialize};

use super::fault::NatsFault;
use super::link::{FetchRange, NatsLink, Stored, in_a_row, millis};
use super::{Shared, topic};
use crate::fold::may_be_ignored;
use crate::{MAX_PAGE_BYTES, ReadError, Span, Standing, TopicSummary};

/// How many entries are asked for at first when reading backwards, where their sizes are not known.
const FIRST_LOOK: u64 = 16;
/// How many entries are asked for at once.
const MAX_ASKED: u64 = 1024;
/// How often a replica is asked for what it lacks before the leader is.
const TRIES: usize = 3;
/// How long the first answer of a leader is waited for: if there was none when it was asked, none comes.
pub(super) const FIRST_ANSWER: Duration = Duration::from_millis(250);
/// How long to wait before reading again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// What is kept of a topic: everything after `trimmed` up to and with `head`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// What was before the first entry it ever had.
    start: u64,
    pub(super) trimmed: u64,
    pub(super) head: u64,
    /// When the oldest and the newest arrived.
    pub(super) oldest: Timestamp,
    pub(super) newest: Timestamp,
}

impl From<&Info> for Extent {
    fn from(info: &Info) -> Self {
        Self {
            start: info.config.first_sequence.unwrap_or(1).saturating_sub(1),
            trimmed: info.state.first_sequence.saturating_sub(1),
            head: info.state.last_sequence,
            oldest: millis(info.state.first_timestamp.unix_timestamp_nanos()),
            newest: millis(info.state.last_timestamp.unix_timestamp_nanos()),
        }
    }
}

impl Extent {
    /// Where reading after an offset begins; `None` when entries are missing there.
    fn after(self, offset: u64) -> Option<u64> {
        // A position in a topic that nobody had entered yet.
        let offset = if offset == 0 { self.start } else { offset };
        (self.trimmed..=self.head).contains(&offset).then_some(offset)
    }
}

/// How many of some entries make a page.
fn page<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>, limit: usize) -> usize {
    let mut bytes = 0;
    let mut count = 0;
    for entry in entries.take(limit) {
        count += 1;
        bytes += entry.envelope.text().len();
        if bytes >= MAX_PAGE_BYTES {
            break;
        }
    }
    count
}

fn text_bytes(entries: &[Arc<Entry>]) -> usize {
    entries.iter().map(|entry| entry.envelope.text().len()).sum()
}

/// What was read; `None` where something was missing.
fn there(read: Result<Vec<Arc<Entry>>, NatsFault>) -> Result<Option<Vec<Arc<Entry>>>, ReadError> {
    match read {
        Ok(entries) => Ok(Some(entries)),
        Err(NatsFault::Missing) => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

/// What was removed of a page because it counts for nothing.
struct Removed {
    count: usize,
    /// Where the page began and ended, before.
    first: Position,
    last: Position,
}

/// A topic's stream as its leader describes it.
pub(super) struct TopicStream {
    pub(super) name: TopicName,
    pub(super) info: Info,
    /// What time it is there.
    pub(super) now: Option<Timestamp>,
}

impl Shared {
    /// What is kept of a topic; `None` when nobody ever entered it.
    pub(super) async fn extent(&self, name: &TopicName) -> Result<Option<Extent>, NatsFault> {
        match self.described(&self.link.names.room(name)).await {
            Ok(info) => Ok(Some((&info).into())),
            Err(NatsFault::Missing) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// What the leader of a topic's stream says of it, with patience unless NATS is known to be away.
    pub(super) async fn described(&self, stream: &str) -> Result<Info, NatsFault> {
        described(&self.link, stream, || self.trouble().is_none()).await
    }

    fn position(&self, offset: u64) -> Position {
        Position { epoch: self.epoch, offset }
    }

    /// Reads entries, without those that count for nothing. A page that has some is filled up, because one that is short or
    /// empty would say that there is nothing more.
    pub(super) async fn read(
        self: &Arc<Self>,
        name: &TopicName,
        span: Span,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, ReadError> {
        let mut found = self.read_stored(name, span, limit).await?;
        let Some(mut removed) = self.remove_ignored(name, &mut found).await? else { return Ok(found) };
        loop {
            let is_forward = matches!(span, Span::After(_));
            let span = if is_forward { Span::After(removed.last) } else { Span::Before(removed.first) };
            let mut more = self.read_stored(name, span, removed.count).await?;
            let next = self.remove_ignored(name, &mut more).await?;
            match is_forward {
                true => found.append(&mut more),
                false => drop(found.splice(..0, more)),
            }
            match next {
                Some(next) => removed = next,
                None => return Ok(found),
            }
        }
    }

    /// Removes the entries of a page that count for nothing; says how many there were, and where the page began and ended.
    async fn remove_ignored(
        self: &Arc<Self>,
        name: &TopicName,
        page: &mut Vec<Arc<Entry>>,
    ) -> Result<Option<Removed>, ReadError> {
        let last = page.iter().rev().find(|entry| may_be_ignored(&entry.envelope));
        let Some(offset) = last.map(|entry| entry.position.offset) else { return Ok(None) };
        let topic = self.topic(name)?;
        topic.reach(offset, self.link.timings.answer_timeout).await?;
        let (count, first, last) = (page.len(), page[0].position, page[page.len() - 1].position);
        page.retain(|entry| topic.ignored_at(entry.position.offset).is_none());
        let count = count - page.len();
        Ok((count > 0).then_some(Removed { count, first, last }))
    }

    /// Reads what is stored. What retention removes meanwhile is read for again: by what is kept then, it is a gap, or not wanted.
    async fn read_stored(&self, name: &TopicName, span: Span, limit: usize) -> Result<Vec<Arc<Entry>>, ReadError> {
        for _ in 0..TRIES {
            match self.read_once(name, span, limit).await? {
                Some(entries) => return Ok(entries),
                None => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
        Err(ReadError::Unavailable("no server has these entries yet".into()))
    }

    /// One try; `None` where entries were not there that should have been.
    async fn read_once(
        &self,
        name: &TopicName,
        span: Span,
        limit: usize,
    ) -> Result<Option<Vec<Arc<Entry>>>, ReadError> {
        let mut extent = self.extent(name).await?;
        let trimmed = extent.map_or(0, |extent| extent.trimmed);
        let gap = Err(ReadError::Gap { resume: self.position(trimmed) });
        let head = extent.map_or(0, |extent| extent.head);
        let through = match span {
            Span::After(position) => {
                if let Some(extent) = &mut extent {
                    // What has come by here may be more than the leader counts yet, and nobody is fed it again.
                    let followed = self.followed(name).and_then(|topic| topic.head()).unwrap_or_default();
                    extent.head = extent.head.max(followed);
                }
                let after = match extent {
                    Some(extent) => extent.after(position.offset),
                    None => Some(0).filter(|_| position.offset == 0),
                };
                return match after.filter(|_| position.epoch == self.epoch) {
                    Some(after) => {
                        let head = extent.map_or(0, |extent| extent.head);
                        there(self.read_forward(name, after, head, limit).await)
                    }
                    None => gap,
                };
            }
            Span::Newest => head,
            Span::Before(position) if position.epoch != self.epoch => return gap,
            Span::Before(position) => position.offset.saturating_sub(1).min(head),
            Span::BeforeTime(time) => match extent {
                Some(extent) => self.newest_before(name, extent, time).await?,
                None => head,
            },
        };
        there(self.read_back(name, trimmed, through, limit).await)
    }

    /// The offset of the newest entry that arrived before a time. Times are the servers'.
    pub(super) async fn newest_before(
        &self,
        name: &TopicName,
        extent: Extent,
        time: Timestamp,
    ) -> Result<u64, NatsFault> {
        if extent.newest < time || extent.head == extent.trimmed {
            return Ok(extent.head);
        }
        // By what the leader said there is a later one, so a replica that finds none lacks it.
        let batch = FetchRange { since: Some(time), count: 1, ..FetchRange::default() };
        for _ in 0..TRIES {
            let found = self.link.batch(&self.link.names.room(name), &batch).await?;
            if let Some(first) = found.first() {
                return Ok(first.sequence - 1);
            }
        }
        Err(NatsFault::unavailable("no replica has the newest entries yet"))
    }

    async fn read_forward(
        &self,
        name: &TopicName,
        after: u64,
        head: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, NatsFault> {
        let mut found: Vec<Arc<Entry>> = Vec::new();
        let (mut at, mut bytes) = (after, 0);
        while at < head && found.len() < limit && bytes < MAX_PAGE_BYTES {
            let wanted = u64::try_from(limit - found.len()).unwrap_or(u64::MAX);
            let row = self.range(name, at, head.min(at.saturating_add(wanted)), MAX_PAGE_BYTES - bytes).await?;
            at = row.last().map_or(head, |last| last.sequence);
            let more = self.entries(&row);
            bytes += text_bytes(&more);
            found.extend(more);
        }
        let count = page(found.iter(), usize::MAX);
        found.truncate(count);
        Ok(found)
    }

    async fn read_back(
        &self,
        name: &TopicName,
        trimmed: u64,
        through: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, NatsFault> {
        let mut pieces: Vec<Vec<Arc<Entry>>> = Vec::new();
        let (mut end, mut seen, mut count, mut bytes) = (through, 0_u64, 0, 0);
        while end > trimmed && count < limit && bytes < MAX_PAGE_BYTES {
            // As many as would fill the page if they are as long as those so far.
            let fitting = match seen {
                0 => FIRST_LOOK,
                seen => ((MAX_PAGE_BYTES - bytes) as u64).saturating_mul(seen) / (bytes as u64).max(1),
            };
            let guess = fitting.min(u64::try_from(limit - count).unwrap_or(u64::MAX)).clamp(1, MAX_ASKED);
            let begin = end.saturating_sub(guess).max(trimmed);
            let mut piece = Vec::new();
            let mut at = begin;
            while at < end {
                let row = self.range(name, at, end, MAX_PAGE_BYTES).await?;
                at = row.last().map_or(end, |last| last.sequence);
                piece.extend(self.entries(&row));
            }
            seen += end - begin;
            count += piece.len();
            bytes += text_bytes(&piece);
            pieces.push(piece);
            end = begin;
        }
        let mut found: Vec<_> = pieces.into_iter().rev().flatten().collect();
        let keep = page(found.iter().rev(), limit);
        found.drain(..found.len() - keep);
        Ok(found)
    }

    /// Those of some messages that are entries. Another one was told of when it came by.
    fn entries(&self, row: &[Stored]) -> Vec<Arc<Entry>> {
        row.iter().filter_map(|stored| topic::entry(self.epoch, stored).ok()).collect()
    }

    /// Some messages after an offset, at least one, and each the next. `Missing` where the first of them is not there.
    async fn range(&self, name: &TopicName, after: u64, through: u64, bytes: usize) -> Result<Vec<Stored>, NatsFault> {
        let stream = self.link.names.room(name);
        let count = usize::try_from((through - after).min(MAX_ASKED)).expect("few");
        let batch = FetchRange { from: Some(after + 1), count, bytes: Some(bytes.max(1)), ..FetchRange::default() };
        for _ in 0..TRIES {
            let mut found = self.link.batch(&stream, &batch).await?;
            found.truncate(in_a_row(after, &found));
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let first = self.link.by_sequence(&stream, after + 1).await?;
        Ok(vec![first.ok_or(NatsFault::Missing)?])
    }

    pub(super) async fn find(
        self: &Arc<Self>,
        name: &TopicName,
        id: &EnvelopeId,
    ) -> Result<Option<Arc<Entry>>, ReadError> {
        let stream = self.link.names.room(name);
        let Some(stored) = self.link.newest(&stream, &self.link.names.entry(name, id)).await? else {
            return Ok(None);
        };
        let mut found = vec![topic::entry(self.epoch, &stored)?];
        self.remove_ignored(name, &mut found).await?;
        // Another id can have the same digest.
        Ok(found.pop().filter(|entry| entry.envelope.id() == id))
    }

    pub(super) async fn standing(self: &Arc<Self>, name: &TopicName) -> Result<Standing, ReadError> {
        let Some(extent) = self.extent(name).await? else {
            return Ok(Standing::nothing(self.position(0)));
        };
        let topic = self.topic(name)?;
        topic.reach(extent.head, self.link.timings.answer_timeout).await?;
        Ok(topic.standing(extent.trimmed))
    }

    pub(super) async fn topics(&self) -> Result<Vec<TopicSummary>, ReadError> {
        let summary = |TopicStream { name, info, .. }: TopicStream| TopicSummary {
            name,
            entries: info.state.messages,
            newest: (info.state.messages > 0).then(|| millis(info.state.last_timestamp.unix_timestamp_nanos())),
        };
        let mut topics: Vec<_> = rooms(&self.link, self.link.names.rooms()).await?.into_iter().map(summary).collect();
        topics.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(topics)
    }
}

/// What the leader of a stream says of it. One that is being made just now, maybe by another node, has none yet, and a request in that
/// moment is refused or never answered: it is asked for again, with a longer wait each time, while that makes sense.
pub(super) async fn described(
    link: &NatsLink,
    stream: &str,
    makes_sense: impl Fn() -> bool,
) -> Result<Info, NatsFault> {
    let by = Instant::now() + link.timings.retry_timeout;
    let mut wait = FIRST_ANSWER;
    loop {
        let answer = tokio::time::timeout(wait, link.info(stream)).await;
        match answer.unwrap_or_else(|_| Err(NatsFault::unavailable("nobody answers for a stream"))) {
            Err(NatsFault::Unavailable(_)) if makes_sense() && Instant::now() < by => {
                tokio::time::sleep(RETRY_DELAY).await
            }
            answer => return answer,
        }
        wait = link.timings.answer_timeout.min(2 * wait);
    }
}

/// What time it is for a server that describes a stream.
pub(super) fn clock(described: &serde_json::Value) -> Option<Timestamp> {
    Timestamp::parse(described.get("ts")?.as_str()?)
}

/// The streams of topics that have some subjects, as their leaders describe them.
pub(super) async fn rooms(link: &NatsLink, subject: String) -> Result<Vec<TopicStream>, NatsFault> {
    #[derive(Serialize)]
    struct BatchRequest<'a> {
        subject: &'a str,
        offset: usize,
    }
    #[derive(Deserialize)]
    struct Listed {
        total: usize,
        streams: Option<Vec<serde_json::Value>>,
    }
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let wanted = BatchRequest { subject: &subject, offset };
        let listed: Listed = link.ask("STREAM.LIST".into(), &wanted).await?;
        let streams = listed.streams.unwrap_or_default();
        offset += streams.len();
        let is_all = streams.is_empty() || offset >= listed.total;
        for described in streams {
            let now = clock(&described);
            let info: Info =
                serde_json::from_value(described).map_err(|_| NatsFault::Damaged("a list of streams".into()))?;
            let name = info.config.metadata.get(super::TOPIC).and_then(|name| TopicName::new(name).ok());
            match name {
                Some(name) => found.push(TopicStream { name, info, now }),
                None => tracing::warn!(stream = info.config.name, "nats: stream without a topic name, skipped"),
            }
        }
        if is_all {
            return Ok(found);
        }
    }
}
