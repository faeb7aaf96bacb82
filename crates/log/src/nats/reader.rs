//! Reading: what there is from the stream's leader, the entries from any replica.
//!
//! What there is of a topic says the index of its shard ([`super::topic_index`]), once the shard has been followed as far as its leader is. A replica
//! has everything up to some sequence, so one that has a later message of the topic, or its newest, lacks none before it. Tombstones stand in
//! the places of redacted entries ([`super::redact`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Info;
use futures_util::future::try_join_all;
use salon_protocol::{Entry, EnvelopeId, Position, Timestamp, TopicName};

use super::fault::NatsFault;
use super::link::{FetchRange, NatsLink, Stored};
use super::mark::TopicMark;
use super::shard::TopicAddress;
use super::stored::message_bytes;
use super::topic_index::{IndexBlock, TopicIndex};
use super::{Shared, import, redact, topic};
use crate::fold::may_be_ignored;
use crate::{MAX_PAGE_BYTES, ReadError, Span, Standing, TopicSummary};

/// How many messages are asked for at once.
const MAX_FETCHED_MESSAGES: usize = 1024;
/// How often a replica is asked for what it lacks before the leader is.
const MAX_REPLICA_ATTEMPTS: usize = 3;
/// How long the first answer of a leader is waited for: if there was none when it was asked, none comes.
pub(super) const FIRST_ANSWER: Duration = Duration::from_millis(250);
/// How long to wait before reading again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// What is kept of a topic: everything after `trimmed` up to and with `head`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) trimmed: u64,
    pub(super) head: u64,
    /// Whether anything was ever removed since it began.
    is_whole: bool,
    /// How often something was removed or redacted, as far as this process has seen.
    changes: u64,
}

impl From<&TopicIndex> for Extent {
    fn from(index: &TopicIndex) -> Self {
        let (removed, head) = (&index.removed, index.head);
        Self { trimmed: removed.through, head, is_whole: removed.count == 0, changes: index.changes }
    }
}

impl Extent {
    /// Where reading after an offset begins; `None` when entries are missing there.
    fn after(self, offset: u64) -> Option<u64> {
        match offset {
            // A position in a topic that nobody had entered yet.
            0 => self.is_whole.then_some(self.trimmed),
            offset => (self.trimmed..=self.head).contains(&offset).then_some(offset),
        }
    }
}

/// Messages of a topic: all that it has up to a sequence, after the one that was asked for.
pub(super) struct MessagePage {
    pub(super) messages: Vec<Stored>,
    pub(super) through: u64,
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

impl Shared {
    /// What is kept of a topic; `None` when nobody ever entered it.
    pub(super) async fn extent(&self, name: &TopicName) -> Result<Option<Extent>, NatsFault> {
        let place = self.place(name);
        place.shard.freshen(self).await?;
        Ok(self.known_extent(name, &place))
    }

    /// The same, as far as the topic's shard has been followed.
    fn known_extent(&self, name: &TopicName, place: &TopicAddress) -> Option<Extent> {
        let extent = place.indexed(|index| Extent::from(index))?;
        // What a deletion has yet to remove is not there any more.
        let deleted = self.deleted_at(name).min(extent.head);
        let is_whole = extent.is_whole && deleted <= extent.trimmed;
        Some(Extent { trimmed: extent.trimmed.max(deleted), is_whole, ..extent })
    }

    /// What the leader of a stream says of it, with patience unless NATS is known to be away.
    pub(super) async fn described(&self, stream: &str) -> Result<Info, NatsFault> {
        described(&self.link, stream, || self.trouble().is_none()).await
    }

    /// The offset of the newest deletion of a topic: what its fold says where it is followed, and what the index knows. That can only be later, by a notice
    /// that the fold ignored because nobody had entered the topic since the deletion before.
    pub(super) fn deleted_at(&self, name: &TopicName) -> u64 {
        let by_fold = self.followed(name).and_then(|topic| topic.deletion()).map_or(0, |deletion| deletion.at);
        by_fold.max(self.place(name).indexed(|index| index.facts.deleted_at).unwrap_or_default())
    }

    /// Sees to it that [`Self::deleted_at`] is certain: where the facts of a topic are incomplete, only its fold tells.
    async fn ensure_deletion_known(self: &Arc<Self>, name: &TopicName, place: &TopicAddress) -> Result<(), ReadError> {
        match place.indexed(|index| index.facts.is_incomplete) {
            Some(true) => self.standing(name).await.map(drop),
            _ => Ok(()),
        }
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
        // After a deletion every entry may count for nothing.
        let is_deleted = || self.deleted_at(name) > 0;
        let last = page.iter().rev().find(|entry| may_be_ignored(&entry.envelope) || is_deleted());
        let Some(offset) = last.map(|entry| entry.position.offset) else { return Ok(None) };
        let topic = self.topic(name)?;
        topic.reach(offset, self.link.timings.answer_timeout).await?;
        let (count, first, last) = (page.len(), page[0].position, page[page.len() - 1].position);
        page.retain(|entry| topic.ignored_at(entry.position.offset).is_none());
        let count = count - page.len();
        Ok((count > 0).then_some(Removed { count, first, last }))
    }

    /// Reads what is stored. What retention removes meanwhile is read for again: by what is kept then, it is a gap, or not wanted.
    async fn read_stored(
        self: &Arc<Self>,
        name: &TopicName,
        span: Span,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, ReadError> {
        for _ in 0..MAX_REPLICA_ATTEMPTS {
            match self.read_once(name, span, limit).await? {
                Some(entries) => return Ok(entries),
                None => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
        Err(ReadError::Unavailable("no server has these entries yet".into()))
    }

    /// One try; `None` where entries were not there that should have been.
    async fn read_once(
        self: &Arc<Self>,
        name: &TopicName,
        span: Span,
        limit: usize,
    ) -> Result<Option<Vec<Arc<Entry>>>, ReadError> {
        let place = self.place(name);
        place.shard.freshen(self).await?;
        self.ensure_deletion_known(name, &place).await?;
        let extent = self.known_extent(name, &place);
        let gap = || ReadError::Gap { resume: self.position(extent.map_or(0, |extent| extent.trimmed)) };
        let read = match (span, extent) {
            (Span::After(position) | Span::Before(position), _) if position.epoch != self.epoch => return Err(gap()),
            (Span::After(position), None) if position.offset != 0 => return Err(gap()),
            (_, None) => return Ok(Some(Vec::new())),
            (Span::After(position), Some(extent)) => {
                let after = extent.after(position.offset).ok_or_else(gap)?;
                self.read_forward(&place, after, extent.head, limit).await
            }
            (Span::Newest, Some(extent)) => self.read_back(&place, extent, extent.head, limit).await,
            (Span::Before(position), Some(extent)) => {
                let through = position.offset.saturating_sub(1).min(extent.head);
                self.read_back(&place, extent, through, limit).await
            }
            (Span::BeforeTime(time), Some(extent)) => match self.newest_before(&place, extent, time).await {
                Ok(through) => self.read_back(&place, extent, through, limit).await,
                Err(fault) => Err(fault),
            },
        };
        let Some(entries) = there(read)? else { return Ok(None) };
        // What was removed or redacted before it was read has come by after this.
        place.shard.freshen(self).await?;
        let is_same = self.known_extent(name, &place).is_some_and(|now| {
            extent.is_some_and(|extent| (now.changes, now.trimmed) == (extent.changes, extent.trimmed))
        });
        Ok(is_same.then_some(entries))
    }

    /// The offset of the newest entry that arrived before a time.
    async fn newest_before(&self, place: &TopicAddress, extent: Extent, time: Timestamp) -> Result<u64, NatsFault> {
        let found = place.indexed(|index| (index.newest(), index.block_before(time)));
        let (newest, block) = found.unwrap_or_default();
        match (newest, block) {
            (Some(newest), _) if newest < time => Ok(extent.head),
            (_, None) => Ok(extent.trimmed),
            (_, Some(block)) => {
                let found = self.cut(place, block, |_, stored| import::arrived(stored) < time).await?;
                Ok(found.through.max(extent.trimmed))
            }
        }
    }

    /// What would be removed with the entries of a block for which something holds, given their numbers in the topic, and everything before.
    pub(super) async fn cut(
        &self,
        place: &TopicAddress,
        block: IndexBlock,
        is_gone: impl Fn(u64, &Stored) -> bool,
    ) -> Result<TopicMark, NatsFault> {
        let (head, next) = place.indexed(|index| (index.head, index.block_after(block))).ok_or(NatsFault::Missing)?;
        let (through, count, bytes) = (block.sequence - 1, block.count, block.bytes);
        let mut mark = TopicMark { through, count, bytes, ..TopicMark::default() };
        let end = next.map_or(head, |next| next.sequence - 1);
        let mut at = block.sequence - 1;
        while at < end {
            let page = self.messages(place, at, end, MAX_FETCHED_MESSAGES, MAX_PAGE_BYTES).await?;
            for stored in page.messages.iter().filter(|stored| is_entry(stored)) {
                if !is_gone(mark.count + 1, stored) {
                    mark.oldest = Some(import::arrived(stored).0);
                    return Ok(mark);
                }
                (mark.through, mark.count) = (stored.sequence, mark.count + 1);
                mark.bytes += message_bytes(stored);
            }
            at = page.through;
        }
        // Where everything of it is, what is known of the next one is exact.
        if let Some(next) = next {
            (mark.count, mark.bytes, mark.oldest) = (next.count, next.bytes, Some(next.time));
        }
        Ok(mark)
    }

    async fn read_forward(
        &self,
        place: &TopicAddress,
        after: u64,
        head: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, NatsFault> {
        let mut found: Vec<Arc<Entry>> = Vec::new();
        let (mut at, mut bytes) = (after, 0);
        while at < head && found.len() < limit && bytes < MAX_PAGE_BYTES {
            let page = self.messages(place, at, head, limit - found.len(), MAX_PAGE_BYTES - bytes).await?;
            at = page.through;
            let more = self.entries(&page.messages);
            bytes += text_bytes(&more);
            found.extend(more);
        }
        let count = page(found.iter(), limit);
        found.truncate(count);
        Ok(found)
    }

    async fn read_back(
        &self,
        place: &TopicAddress,
        extent: Extent,
        through: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Entry>>, NatsFault> {
        let mut pieces: Vec<Vec<Arc<Entry>>> = Vec::new();
        let (mut end, mut count, mut bytes) = (through, 0, 0);
        while end > extent.trimmed && count < limit && bytes < MAX_PAGE_BYTES {
            let wanted = u64::try_from(limit - count).unwrap_or(u64::MAX).min(MAX_FETCHED_MESSAGES as u64);
            let rest = (MAX_PAGE_BYTES - bytes) as u64;
            // A mark may have come meanwhile, and nothing of what is wanted be left: what there is must be looked at again.
            let begin = place.indexed(|index| index.begin_of_page(end, wanted, rest)).flatten();
            let begin = begin.ok_or(NatsFault::Missing)?;
            let begin = begin.saturating_sub(1).max(extent.trimmed);
            let mut piece = Vec::new();
            let mut at = begin;
            while at < end {
                let page = self.messages(place, at, end, MAX_FETCHED_MESSAGES, MAX_PAGE_BYTES).await?;
                at = page.through;
                piece.extend(self.entries(&page.messages));
            }
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
    fn entries(&self, messages: &[Stored]) -> Vec<Arc<Entry>> {
        let entries = messages.iter().filter(|stored| is_entry(stored));
        entries.filter_map(|stored| topic::entry(self.epoch, stored).ok()).collect()
    }

    /// Some messages of a topic after one sequence and up to another. `Missing` where there are none that should be there.
    pub(super) async fn messages(
        &self,
        place: &TopicAddress,
        after: u64,
        through: u64,
        count: usize,
        bytes: usize,
    ) -> Result<MessagePage, NatsFault> {
        let head = place.indexed(|index| index.head).unwrap_or_default().min(through);
        if head <= after {
            return Ok(MessagePage { messages: Vec::new(), through });
        }
        let batch = FetchRange {
            from: Some(after + 1),
            filter: Some(place.subjects.all()),
            count: count.clamp(1, MAX_FETCHED_MESSAGES),
            bytes: Some(bytes.clamp(1, MAX_PAGE_BYTES)),
        };
        let mut found = Vec::new();
        for _ in 0..MAX_REPLICA_ATTEMPTS {
            found = self.link.batch(place.stream(), &batch).await?;
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            // No replica that was asked has them yet; the leader has.
            found.extend(self.link.next(place.stream(), after + 1, &place.subjects.all()).await?);
        }
        let reached = match found.last() {
            // A replica that has later ones has these.
            Some(last) if last.sequence >= head => through,
            Some(last) => last.sequence,
            None => match place.indexed(|index| index.holes(after, through).is_empty()) {
                Some(false) => through,
                _ => return Err(NatsFault::Missing),
            },
        };
        found.retain(|message| message.sequence <= reached);
        let messages = self.with_tombstones(place, after, reached, found).await?;
        Ok(MessagePage { messages, through: reached })
    }

    pub(super) async fn find(
        self: &Arc<Self>,
        name: &TopicName,
        id: &EnvelopeId,
    ) -> Result<Option<Arc<Entry>>, ReadError> {
        let place = self.place(name);
        let Some(stored) = self.link.newest(place.stream(), &place.subjects.entry(id)).await? else {
            return Ok(None);
        };
        // A deletion before it is known then.
        place.shard.reach(stored.sequence, self.link.timings.answer_timeout).await?;
        self.ensure_deletion_known(name, &place).await?;
        let mut found = vec![topic::entry(self.epoch, &stored)?];
        self.remove_ignored(name, &mut found).await?;
        let trimmed = place.indexed(|index| index.removed.through).unwrap_or_default();
        let removed = trimmed.max(self.deleted_at(name));
        // Another id can have the same digest.
        Ok(found.pop().filter(|entry| entry.envelope.id() == id && entry.position.offset > removed))
    }

    pub(super) async fn standing(self: &Arc<Self>, name: &TopicName) -> Result<Standing, ReadError> {
        let Some(extent) = self.extent(name).await? else {
            return Ok(Standing::nothing(self.position(0)));
        };
        let topic = self.topic(name)?;
        topic.reach(extent.head, self.link.timings.answer_timeout).await?;
        topic.place.shard.note_facts(&topic);
        let standing = topic.standing(extent.trimmed);
        if let Some(deletion) = &standing.deletion {
            self.erase_context(name, deletion.at).await?;
        }
        Ok(standing)
    }

    pub(super) async fn topics(&self) -> Result<Vec<TopicSummary>, ReadError> {
        let indexed = |topics: &HashMap<String, TopicIndex>| topics.values().map(summary).collect::<Vec<_>>();
        let looked = try_join_all(self.shards.iter().map(|shard| shard.look_freshly(self, indexed))).await?;
        let topics = looked.into_iter().flat_map(|(topics, is_fresh)| {
            topics.into_iter().map(move |(topic, is_deleted)| {
                (
                    TopicSummary {
                        may_have_settings: topic.may_have_settings || !is_fresh,
                        may_have_participants: topic.may_have_participants || !is_fresh,
                        ..topic
                    },
                    is_deleted,
                )
            })
        });
        let is_vacant = |name: &TopicName| {
            self.followed(name).and_then(|topic| topic.deletion()).is_some_and(|deletion| deletion.is_vacant)
        };
        let listed = topics.filter(|(topic, is_deleted)| !is_deleted && !is_vacant(&topic.name));
        let mut listed: Vec<_> = listed.map(|(topic, _)| topic).collect();
        listed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    /// See [`crate::TopicLog::unsettled_topics`].
    pub(super) async fn unsettled_topics(&self) -> Result<Vec<TopicName>, ReadError> {
        let looked = try_join_all(self.shards.iter().map(|shard| {
            shard.look_freshly(self, |topics| {
                topics.values().map(|index| (index.name.clone(), index.facts.clone())).collect::<Vec<_>>()
            })
        }));
        let mut unsettled = Vec::new();
        for (topics, is_fresh) in looked.await? {
            for (name, facts) in topics {
                // Only where somebody may be present are the seats looked at, and after that was known.
                let is_unsettled =
                    !is_fresh || facts.may_need_recovery(|participant| self.is_seated(&name, participant));
                if is_unsettled {
                    unsettled.push(name);
                }
            }
        }
        Ok(unsettled)
    }

    /// See [`crate::TopicLog::may_have_settings`].
    pub(super) async fn may_have_settings(&self, name: &TopicName) -> Result<bool, ReadError> {
        let place = self.place(name);
        let settings = |topics: &HashMap<String, TopicIndex>| {
            topics.get(&place.token).is_some_and(|index| index.facts.may_have_settings())
        };
        let (may_have, is_fresh) = place.shard.look_freshly(self, settings).await?;
        Ok(may_have || !is_fresh)
    }

    /// Waits until everything of every shard has been taken in that was acknowledged before the call.
    pub(super) async fn freshen_all(&self) -> Result<(), NatsFault> {
        try_join_all(self.shards.iter().map(|shard| shard.freshen(self))).await.map(drop)
    }
}

/// What a list shows of a topic, and whether a deletion has removed everything: such a topic is indexed until it is forgotten.
fn summary(index: &TopicIndex) -> (TopicSummary, bool) {
    let summary = TopicSummary {
        name: index.name.clone(),
        entries: index.entries(),
        newest: index.newest().filter(|_| index.entries() > 0),
        may_have_settings: index.facts.may_have_settings(),
        may_have_participants: index.facts.may_have_participants(),
    };
    (summary, index.removed.is_deleted && index.entries() == 0)
}

/// Whether a message is an entry at its own place.
fn is_entry(stored: &Stored) -> bool {
    !redact::is_record(stored) && !import::is_settings(stored)
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
