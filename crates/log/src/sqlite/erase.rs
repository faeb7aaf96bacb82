//! Erasing a deleted topic: it is gone at once, and its entries are removed in slices.
//!
//! A topic's entries are found by its number. So a topic is deleted by forgetting its number, in one transaction of bounded length; whatever is
//! called so later gets another number. The table `erased` has the numbers whose entries are still to be removed, by the next sweep. What the
//! files have of them then, in free pages and in the write-ahead log, is overwritten as after a redaction ([`super::redact`]).

use std::collections::{HashMap, VecDeque};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use salon_control::ControlNotice;
use salon_protocol::{Entry, Position, TopicName};

use super::schema::{LAST_OFFSET, key};
use super::settle::Slice;
use super::writer::Writer;
use super::{SqliteFault, context, redact};

/// How many names of deleted topics are remembered, so that what was accepted before a deletion does not begin the topic anew.
const MAX_VACATED: usize = 1000;

/// The topics that were deleted last, and up to which offset.
#[derive(Default)]
pub(super) struct DeletedTopics {
    through: HashMap<TopicName, u64>,
    /// The oldest deletion first.
    order: VecDeque<TopicName>,
}

impl DeletedTopics {
    fn note(&mut self, name: &TopicName, through: u64) {
        if self.through.insert(name.clone(), through).is_none() {
            self.order.push_back(name.clone());
        }
        if self.order.len() > MAX_VACATED
            && let Some(oldest) = self.order.pop_front()
        {
            self.through.remove(&oldest);
        }
    }

    /// Whether what was requested at a position comes after its topic was deleted.
    pub(super) fn is_too_late(&self, name: &TopicName, requested: Option<Position>) -> bool {
        match (self.through.get(name), requested) {
            (Some(through), Some(requested)) => requested.offset <= *through,
            _ => false,
        }
    }
}

impl Writer<'_> {
    /// Erases the topics whose newest entries say that they are deleted: nothing follows such an entry in its group.
    pub(super) fn erase_deleted<'e>(
        &mut self,
        committed: impl Iterator<Item = (&'e TopicName, Option<&'e Entry>)>,
    ) -> Result<(), SqliteFault> {
        for (name, newest) in committed {
            if newest.is_some_and(|newest| ControlNotice::deletes_topic(&newest.envelope)) {
                self.erase(name)?;
            }
        }
        Ok(())
    }

    fn erase(&mut self, name: &TopicName) -> Result<(), SqliteFault> {
        let state = self.know(name)?;
        let (topic, head) = (state.topic, state.head);
        self.stored.load_topic(self.db, name, &self.source)?;
        let step = Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?;
        // One more than its newest: a reader that has had everything must not go on in the next topic of this name.
        step.prepare_cached("UPDATE meta SET value = max(value, ?1) WHERE name = 'floor'")?.execute([head + 1])?;
        step.prepare_cached("INSERT INTO erased (topic) VALUES (?1)")?.execute([topic])?;
        step.prepare_cached("DELETE FROM topics WHERE topic = ?1")?.execute([topic])?;
        step.prepare_cached("DELETE FROM present WHERE topic = ?1")?.execute([topic])?;
        step.prepare_cached("DELETE FROM control WHERE topic = ?1")?.execute([topic])?;
        step.prepare_cached("DELETE FROM unanswered WHERE key BETWEEN ?1 AND ?2")?
            .execute([key(topic, 0), key(topic, LAST_OFFSET)])?;
        step.prepare_cached("DELETE FROM stored WHERE topic = ?1")?.execute([name.as_str()])?;
        context::erase(&step, name)?;
        redact::mark_due(&step)?;
        step.commit()?;
        self.upkeep.scrub_after = self.journal.back().map(|row| row.number).or(Some(0));
        self.deleted.note(name, head);
        self.source.search.note_erased(topic, head);
        self.source.fresh_mut().remove_all(name);
        self.topic_states.remove(name);
        self.stored.forget(name);
        if self.vacated.len() >= MAX_VACATED {
            self.vacated.clear();
        }
        self.vacated.insert(name.clone());
        self.sweep_soon();
        Ok(())
    }

    /// Erases the topics whose deletion was journalled just before the last writer ended.
    pub(super) fn erase_recovered(&mut self) -> Result<(), SqliteFault> {
        let deleted: Vec<_> = {
            let fresh = self.source.fresh();
            let newest = fresh.topics().map(|(name, recent)| (name.clone(), recent.entries().last().cloned()));
            newest.collect()
        };
        self.erase_deleted(deleted.iter().map(|(name, newest)| (name, newest.as_deref())))?;
        // There is nothing under way any more.
        self.vacated.clear();
        Ok(())
    }

    /// Has what deletions left in the files overwritten, once neither the tables nor the journal have their texts. After a sweep.
    pub(super) fn scrub_erased(&mut self) -> Result<(), SqliteFault> {
        let Some(through) = self.upkeep.scrub_after else { return Ok(()) };
        let is_journalled = self.journal.front().is_some_and(|row| row.number <= through);
        if is_journalled || has_erased(self.db)? {
            self.sweep_soon();
        } else {
            (self.upkeep.scrub_after, self.upkeep.is_scrub_due) = (None, true);
        }
        Ok(())
    }

    /// Removes a slice of the entries of deleted topics; says whether there were any.
    pub(super) fn remove_erased(&mut self, slice: Slice) -> Result<bool, SqliteFault> {
        let mut next = self.db.prepare_cached("SELECT topic FROM erased LIMIT 1")?;
        let Some(topic) = next.query_row([], |row| row.get::<_, i64>(0)).optional()? else { return Ok(false) };
        let limit = i64::try_from(slice.entries).unwrap_or(i64::MAX);
        self.without_flush(|writer| {
            let removed = writer
                .db
                .prepare_cached(
                    "DELETE FROM entries WHERE key IN (SELECT key FROM entries WHERE key BETWEEN ?1 AND ?2 LIMIT ?3)",
                )?
                .execute(params![key(topic, 0), key(topic, LAST_OFFSET), limit])?;
            if removed == 0 {
                writer.db.prepare_cached("DELETE FROM erased WHERE topic = ?1")?.execute([topic])?;
            }
            Ok(())
        })?;
        Ok(true)
    }
}

/// Whether entries of deleted topics are still to be removed.
pub(super) fn has_erased(db: &Connection) -> Result<bool, SqliteFault> {
    Ok(db.query_row("SELECT EXISTS (SELECT 1 FROM erased)", [], |row| row.get(0))?)
}
