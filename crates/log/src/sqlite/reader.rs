//! Reading: the fresh entries from memory, the settled ones from the database, on a few threads with a connection each.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use rusqlite::Connection;
use salon_protocol::{Entry, EnvelopeId, Position, TopicName};
use tokio::sync::oneshot;

use super::fresh::{FreshEntries, Recent};
use super::queue::WorkQueue;
use super::search::SearchDesk;
use super::settled;
use super::{CLOSED, SqliteFault};
use crate::changes::Feeds;
use crate::tail::{Hub, Pages};
use crate::{MAX_PAGE_BYTES, ReadError, Span, Standing, TopicSummary};

type ReadFuture<T> = BoxFuture<'static, Result<T, ReadError>>;
type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// What there is to read.
pub(super) struct ReadSource {
    pub(super) epoch: u32,
    pub(super) hub: Hub,
    pub(super) changes: Feeds,
    fresh: RwLock<FreshEntries>,
    jobs: WorkQueue<Job>,
    pub(super) search: SearchDesk,
}

impl ReadSource {
    pub(super) fn new(epoch: u32) -> Self {
        Self {
            epoch,
            hub: Hub::default(),
            changes: Feeds::default(),
            fresh: RwLock::default(),
            jobs: WorkQueue::new(),
            search: SearchDesk::new(),
        }
    }

    pub(super) fn fresh(&self) -> RwLockReadGuard<'_, FreshEntries> {
        self.fresh.read()
    }

    /// For the writer alone, after a commit.
    pub(super) fn fresh_mut(&self) -> RwLockWriteGuard<'_, FreshEntries> {
        self.fresh.write()
    }

    /// Answers questions until the source is closed.
    pub(super) fn serve(&self, mut db: Connection) {
        while let Some(job) = self.jobs.pop() {
            job(&mut db);
        }
    }

    pub(super) fn close(&self) {
        self.jobs.close();
        self.search.close();
    }

    pub(super) fn position(&self, offset: u64) -> Position {
        Position { epoch: self.epoch, offset }
    }

    /// Asks the database, in one transaction.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, ReadFailure> + Send + 'static,
    ) -> ReadFuture<T> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |db: &mut Connection| {
            let answer =
                db.transaction().map_err(|error| ReadFailure::Fault(error.into())).and_then(|view| question(&view));
            // The asker may have gone.
            let _ = reply.send(answer);
        });
        if self.jobs.push(job).is_err() {
            return std::future::ready(Err(ReadError::Failed(CLOSED.into()))).boxed();
        }
        let answer = answer.map(|answer| match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(ReadFailure::Gap(resume))) => Err(ReadError::Gap { resume }),
            Ok(Err(ReadFailure::Fault(fault))) => Err(ReadError::Failed(fault.to_string().into())),
            Err(_) => Err(ReadError::Failed(CLOSED.into())),
        });
        answer.boxed()
    }

    pub(super) fn read(&self, topic: &TopicName, span: Span, limit: usize) -> ReadFuture<Vec<Arc<Entry>>> {
        match span {
            Span::After(position) => self.read_after(topic, position, limit),
            Span::Newest => {
                let fresh = self.fresh();
                let recent = fresh.of(topic);
                self.read_back(topic, recent, recent.map_or(&[], Recent::entries), Older::All, limit)
            }
            Span::Before(position) if position.epoch != self.epoch => {
                let (epoch, name) = (self.epoch, topic.clone());
                self.ask(move |db| {
                    let offset = settled::extent(db, &name)?.trimmed;
                    Err(ReadFailure::Gap(Position { epoch, offset }))
                })
            }
            Span::Before(position) => {
                let fresh = self.fresh();
                let recent = fresh.of(topic);
                let newer = recent.map_or(&[][..], |recent| recent.before(position.offset));
                self.read_back(topic, recent, newer, Older::Before(position.offset), limit)
            }
            Span::BeforeTime(time) => {
                let fresh = self.fresh();
                let recent = fresh.of(topic);
                let newer = recent.map_or(&[][..], |recent| recent.before_time(time));
                self.read_back(topic, recent, newer, Older::BeforeTime(time), limit)
            }
        }
    }

    pub(super) fn read_after(&self, name: &TopicName, after: Position, limit: usize) -> ReadFuture<Vec<Arc<Entry>>> {
        let (newer, fresh_head) = {
            let fresh = self.fresh();
            let recent = fresh.of(name);
            let here = |recent: &&Recent| {
                after.epoch == self.epoch && (recent.settled..=recent.head()).contains(&after.offset)
            };
            if let Some(recent) = recent.filter(here) {
                let found = recent.after(after.offset);
                return std::future::ready(Ok(found[..page(found.iter(), limit).0].to_vec())).boxed();
            }
            let newer = recent.map_or(&[][..], Recent::entries);
            (newer[..page(newer.iter(), limit).0].to_vec(), recent.map(Recent::head))
        };
        let (epoch, name) = (self.epoch, name.clone());
        self.ask(move |db| {
            let extent = settled::extent(db, &name)?;
            let head = extent.head.max(fresh_head.unwrap_or(0));
            // A position this log has not given out yet is as foreign as one of another epoch.
            if after.epoch != epoch || after.offset < extent.trimmed || after.offset > head {
                return Err(ReadFailure::Gap(Position { epoch, offset: extent.trimmed }));
            }
            let Some(topic) = extent.topic else { return Ok(Vec::new()) };
            // What was settled since we looked is in `newer` already.
            let through = newer.first().map_or(extent.head, |entry| entry.position.offset - 1);
            let mut found = settled::after(db, epoch, topic, (after.offset, through), limit, MAX_PAGE_BYTES)?;
            if found.last().map_or(after.offset, |entry| entry.position.offset) == through {
                found.extend(newer);
                let (count, _) = page(found.iter(), limit);
                found.truncate(count);
            }
            Ok(found)
        })
    }

    /// The end of `newer`, with older entries before it as far as the limit allows.
    fn read_back(
        &self,
        name: &TopicName,
        recent: Option<&Recent>,
        newer: &[Arc<Entry>],
        older: Older,
        limit: usize,
    ) -> ReadFuture<Vec<Arc<Entry>>> {
        let (count, bytes) = page(newer.iter().rev(), limit);
        let newer = newer[newer.len() - count..].to_vec();
        let settled = recent.map(|recent| recent.settled);
        if count == limit || bytes >= MAX_PAGE_BYTES || settled == Some(0) {
            return std::future::ready(Ok(newer)).boxed();
        }
        let (epoch, name) = (self.epoch, name.clone());
        self.ask(move |db| {
            let extent = settled::extent(db, &name)?;
            let Some(topic) = extent.topic else { return Ok(newer) };
            let through = match older {
                // What was fresh when we looked is in `newer`, or not wanted.
                _ if !newer.is_empty() => settled.unwrap_or(extent.head),
                Older::All => extent.head,
                Older::Before(offset) => extent.head.min(offset.saturating_sub(1)),
                Older::BeforeTime(time) => settled::newest_before(db, &extent, time)?,
            };
            let mut found = settled::up_to(db, epoch, topic, through, limit - count, MAX_PAGE_BYTES - bytes)?;
            found.extend(newer);
            Ok(found)
        })
    }

    pub(super) fn find(&self, topic: &TopicName, id: &EnvelopeId) -> ReadFuture<Option<Arc<Entry>>> {
        let fresh = self.fresh().of(topic).and_then(|recent| recent.find(id)).cloned();
        if let Some(entry) = fresh {
            return std::future::ready(Ok(Some(entry))).boxed();
        }
        let (epoch, name, id) = (self.epoch, topic.clone(), id.clone());
        self.ask(move |db| Ok(settled::find(db, epoch, &name, &id)?))
    }

    pub(super) fn standing(&self, topic: &TopicName) -> ReadFuture<Standing> {
        let newer = self.fresh().of(topic).map(|recent| recent.entries().to_vec()).unwrap_or_default();
        let (epoch, name) = (self.epoch, topic.clone());
        self.ask(move |db| {
            let extent = settled::extent(db, &name)?;
            let mut fold = settled::fold(db, epoch, &extent)?;
            // What was settled since we looked is folded already, and changes nothing.
            newer.iter().for_each(|entry| _ = fold.apply(entry));
            Ok(fold.standing(epoch, extent.trimmed))
        })
    }

    pub(super) fn topics(&self) -> ReadFuture<Vec<TopicSummary>> {
        let fresh = self.fresh();
        let heads = fresh.topics().map(|(name, recent)| (name.clone(), (recent.head(), recent.newest())));
        let heads: HashMap<_, _> = heads.collect();
        drop(fresh);
        self.ask(move |db| {
            let mut summaries = Vec::new();
            let mut query = db.prepare_cached("SELECT topic, trimmed, name FROM topics ORDER BY name")?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let (topic, trimmed, name) = (row.get(0)?, row.get(1)?, row.get::<_, String>(2)?);
                let name = TopicName::new(&name).map_err(|_| SqliteFault::Topic { name })?;
                let extent = settled::extent_of(db, topic, trimmed)?;
                let (head, newest) = match heads.get(&name) {
                    Some(&(head, newest)) if head > extent.head => (head, newest),
                    _ => (extent.head, extent.newest),
                };
                let entries = head - trimmed;
                // What a fold costs here is little, so nothing is kept for it.
                let (may_have_settings, may_have_participants) = (true, true);
                summaries.push(TopicSummary { name, entries, newest, may_have_settings, may_have_participants });
            }
            Ok(summaries)
        })
    }
}

impl Pages for ReadSource {
    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn read_after(&self, topic: &TopicName, after: Position, limit: usize) -> ReadFuture<Vec<Arc<Entry>>> {
        ReadSource::read_after(self, topic, after, limit)
    }
}

/// How many of some entries make a page, and how many bytes of text they have.
fn page<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>, limit: usize) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for entry in entries.take(limit) {
        count += 1;
        bytes += entry.envelope.text().len();
        if bytes >= MAX_PAGE_BYTES {
            break;
        }
    }
    (count, bytes)
}

/// Which settled entries to read, when no fresh one qualifies.
#[derive(Clone, Copy)]
enum Older {
    All,
    Before(u64),
    BeforeTime(salon_protocol::Timestamp),
}

/// Why the database gave no answer.
pub(super) enum ReadFailure {
    Gap(Position),
    Fault(SqliteFault),
}

impl<E: Into<SqliteFault>> From<E> for ReadFailure {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}
