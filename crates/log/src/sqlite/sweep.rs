//! Removing what retention no longer keeps, a slice at a time.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use salon_control::TopicRetention;
use salon_protocol::{Timestamp, TopicName};
use tokio::sync::oneshot;

use super::SqliteFault;
use super::fresh::Recent;
use super::schema::{self, key};
use super::settle::Slice;
use super::settled::{self, Extent};
use super::stored;
use super::writer::Writer;

/// How often retention is looked after.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// When a sweep would have been for the next to be due at once.
pub(super) fn long_ago() -> Instant {
    Instant::now().checked_sub(SWEEP_INTERVAL).unwrap_or_else(Instant::now)
}

/// How many topics are looked at before appends get their turn.
const SLICE_TOPICS: usize = 32;

/// A walk over all topics.
pub(super) struct Sweep {
    /// The topics up to this one are done.
    done: i64,
    /// Held until the walk is over: dropping them says so.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Sweep {
    pub(super) fn new(waiting: Vec<oneshot::Sender<()>>) -> Self {
        Self { done: 0, waiting }
    }
}

impl Writer<'_> {
    /// One slice of a walk; `None` when it is over.
    pub(super) fn continue_sweep(&mut self, mut sweep: Sweep, slice: Slice) -> Result<Option<Sweep>, SqliteFault> {
        let mut list = self
            .db
            .prepare_cached("SELECT topic, trimmed, name FROM topics WHERE topic > ?1 ORDER BY topic LIMIT ?2")?;
        let topics = list
            .query_map(params![sweep.done, SLICE_TOPICS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<Vec<(i64, u64, String)>>>()?;
        if topics.is_empty() {
            if self.remove_erased(slice)? {
                return Ok(Some(sweep));
            }
            for waiting in sweep.waiting {
                let _ = waiting.send(());
            }
            return Ok(None);
        }
        for (topic, trimmed, name) in topics {
            let name = TopicName::new(&name).map_err(|_| SqliteFault::Topic { name })?;
            let extent = settled::extent_of(self.db, topic, trimmed)?;
            let gone = self.gone(&name, topic, &extent)?;
            if gone > trimmed {
                let gone = end_of_slice(self.db, topic, (trimmed, gone), slice)?;
                self.without_flush(|writer| writer.trim(&name, topic, trimmed, gone))?;
                // The same topic again, after the waiting requests.
                return Ok(Some(sweep));
            }
            if extent.head == trimmed {
                self.without_flush(|writer| writer.forget(&name, topic, trimmed))?;
            }
            sweep.done = topic;
        }
        Ok(Some(sweep))
    }

    /// The offset of the newest settled entry that is not to be kept.
    fn gone(&mut self, name: &TopicName, topic: i64, extent: &Extent) -> Result<u64, SqliteFault> {
        let rule = self.retention.of(name).narrowed(self.retention_of(name, topic)?);
        let mut gone = extent.trimmed;
        if let Some(count) = rule.count {
            let head = self.source.fresh().of(name).map_or(extent.head, Recent::head);
            gone = gone.max(head.saturating_sub(count));
        }
        if let Some(age) = rule.age {
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let horizon = Timestamp((self.clock)().0.saturating_sub(age));
            gone = gone.max(settled::newest_before(self.db, extent, horizon)?);
        }
        Ok(gone.min(extent.head))
    }

    /// The retention in a topic's settings. Most topics have none, which one look tells.
    fn retention_of(&mut self, name: &TopicName, topic: i64) -> Result<Option<TopicRetention>, SqliteFault> {
        let mut query = self.db.prepare_cached("SELECT EXISTS (SELECT 1 FROM control WHERE topic = ?1)")?;
        if !query.query_row([topic], |row| row.get::<_, bool>(0))? {
            return Ok(None);
        }
        Ok(self.know(name)?.settled_fold.settings().map(|settings| settings.retention))
    }

    fn trim(&mut self, name: &TopicName, topic: i64, trimmed: u64, gone: u64) -> Result<(), SqliteFault> {
        let step = Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?;
        let (first, last) = (key(topic, trimmed + 1), key(topic, gone));
        // A participant that is present stays so when the join is no longer kept.
        step.prepare_cached(
            "UPDATE present SET (arrived, text) = (SELECT arrived, text FROM entries WHERE entries.key = present.key)
             WHERE topic = ?1 AND key BETWEEN ?2 AND ?3",
        )?
        .execute([topic, first, last])?;
        // So do the settings.
        step.prepare_cached(
            "UPDATE control SET (arrived, text, stamp) = (SELECT arrived, text, stamp FROM entries WHERE entries.key = control.key)
             WHERE topic = ?1 AND key BETWEEN ?2 AND ?3",
        )?
        .execute([topic, first, last])?;
        // From the topic's beginning: rows of requests that were removed before are of no use, either.
        step.prepare_cached("DELETE FROM unanswered WHERE key BETWEEN ?1 AND ?2")?.execute([key(topic, 0), last])?;
        let removed = stored::trim(&step, name, (first, last))?;
        step.prepare_cached("DELETE FROM entries WHERE key BETWEEN ?1 AND ?2")?.execute([first, last])?;
        step.prepare_cached("UPDATE topics SET trimmed = ?2 WHERE topic = ?1")?.execute(params![topic, gone])?;
        step.commit()?;
        self.topic_states.update(name, |topic_states| topic_states.trimmed = gone);
        self.stored.remove(name, &removed);
        self.source.search.note_trimmed(topic, gone);
        Ok(())
    }

    /// Forgets a topic of which nothing is kept, unless somebody is present or it has settings. Whatever is called so later begins after everything
    /// that was ever forgotten, so that an old position in it is a gap.
    fn forget(&mut self, name: &TopicName, topic: i64, trimmed: u64) -> Result<(), SqliteFault> {
        if self.source.fresh().of(name).is_some() {
            return Ok(());
        }
        let step = Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?;
        let in_use =
            "SELECT EXISTS (SELECT 1 FROM present WHERE topic = ?1) OR EXISTS (SELECT 1 FROM control WHERE topic = ?1)";
        let in_use: bool = step.prepare_cached(in_use)?.query_row([topic], |row| row.get(0))?;
        if !in_use {
            step.prepare_cached("UPDATE meta SET value = max(value, ?1) WHERE name = 'floor'")?.execute([trimmed])?;
            step.prepare_cached("DELETE FROM topics WHERE topic = ?1")?.execute([topic])?;
            step.commit()?;
            self.topic_states.remove(name);
        }
        Ok(())
    }
}

/// The last offset up to which entries after `trimmed` fit into a slice, at least the next one.
fn end_of_slice(db: &Connection, topic: i64, (trimmed, gone): (u64, u64), slice: Slice) -> Result<u64, SqliteFault> {
    let mut lengths = db.prepare_cached(
        "SELECT key, octet_length(text) FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
    )?;
    let limit = i64::try_from(slice.entries).unwrap_or(i64::MAX);
    let mut rows = lengths.query(params![key(topic, trimmed + 1), key(topic, gone), limit])?;
    let (mut last, mut bytes) = (trimmed + 1, 0);
    while bytes < slice.bytes
        && let Some(row) = rows.next()?
    {
        last = schema::offset(row.get(0)?);
        bytes += row.get::<_, usize>(1)?;
    }
    Ok(last)
}
