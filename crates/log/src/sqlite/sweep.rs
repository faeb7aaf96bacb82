//! Settling the journal, and removing what retention no longer keeps, a slice at a time.

use std::collections::BTreeSet;

use rusqlite::{Transaction, TransactionBehavior, params};
use salon_protocol::{Message, Stamp, Timestamp, TopicName};
use tokio::sync::oneshot;

use super::SqliteFault;
use super::fresh::{Fresh, Recent};
use super::schema::{LAST_OFFSET, key};
use super::settled::{self, Extent};
use super::stored;
use super::topic_states::TopicState;
use super::writer::Writer;
use crate::Fold;

/// How many topics are looked at, and how many entries removed, before appends get their turn.
const SLICE_TOPICS: usize = 64;
const SLICE_ENTRIES: u64 = 1024;

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
    /// Moves everything fresh into its place in the database.
    pub(super) fn settle(&mut self) -> Result<(), SqliteFault> {
        let names: Vec<_> = self.source.fresh().topics().map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            return Ok(());
        }
        for name in &names {
            self.know(name)?;
        }
        let fresh = self.source.fresh();
        let step = Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?;
        let mut topics: Vec<_> = fresh.topics().collect();
        topics.sort_unstable_by_key(|(_, recent)| recent.topic);
        for (name, recent) in topics {
            settle_topic(&step, recent, self.topic_states.get(name).expect("it was looked up for this"))?;
            stored::settle(&step, name, recent)?;
        }
        step.execute("DELETE FROM journal", [])?;
        step.commit()?;

        for (name, recent) in fresh.topics() {
            self.topic_states.update(name, |topic_states| topic_states.settled = recent.head());
        }
        let bytes = fresh.bytes();
        drop(fresh);
        *self.source.fresh_mut() = Fresh::default();
        self.note_written(bytes);
        self.topic_states.evict();
        self.stored.evict();
        Ok(())
    }

    /// One slice of a walk; `None` when it is over.
    pub(super) fn continue_sweep(&mut self, mut sweep: Sweep) -> Result<Option<Sweep>, SqliteFault> {
        let mut list = self
            .db
            .prepare_cached("SELECT topic, trimmed, name FROM topics WHERE topic > ?1 ORDER BY topic LIMIT ?2")?;
        let topics = list
            .query_map(params![sweep.done, SLICE_TOPICS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<Vec<(i64, u64, String)>>>()?;
        if topics.is_empty() {
            for waiting in sweep.waiting {
                let _ = waiting.send(());
            }
            return Ok(None);
        }
        for (topic, trimmed, name) in topics {
            let name = TopicName::new(&name).map_err(|_| SqliteFault::Topic { name })?;
            let extent = settled::extent_of(self.db, topic, trimmed)?;
            let gone = self.gone(&name, &extent)?;
            if gone > trimmed {
                let slice = gone.min(trimmed + SLICE_ENTRIES);
                self.trim(&name, topic, trimmed, slice)?;
                // The same topic again, after the waiting requests.
                return Ok(Some(sweep));
            }
            if extent.head == trimmed {
                self.forget(&name, topic, trimmed)?;
            }
            sweep.done = topic;
        }
        Ok(Some(sweep))
    }

    /// The offset of the newest settled entry that is not to be kept.
    fn gone(&self, name: &TopicName, extent: &Extent) -> Result<u64, SqliteFault> {
        let rule = self.retention.of(name);
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
        Ok(())
    }

    /// Forgets a topic of which nothing is kept, unless somebody is present or it has settings. Whatever is called so later begins after everything
    /// that was ever forgotten, so that an old position in it is a gap.
    fn forget(&mut self, name: &TopicName, topic: i64, trimmed: u64) -> Result<(), SqliteFault> {
        if self.source.fresh().of(name).is_some() {
            return Ok(());
        }
        let step = Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?;
        let in_use = "SELECT EXISTS (SELECT 1 FROM present WHERE topic = ?1) OR EXISTS (SELECT 1 FROM control WHERE topic = ?1)";
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

fn settle_topic(step: &Transaction<'_>, recent: &Recent, topic_states: &TopicState) -> Result<(), SqliteFault> {
    let mut keep = step
        .prepare_cached("INSERT INTO entries (key, topic, id, arrived, text, stamp) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for entry in recent.entries() {
        let (key, envelope) = (key(recent.topic, entry.position.offset), &entry.envelope);
        keep.raw_bind_parameter(1, key)?;
        keep.raw_bind_parameter(2, recent.topic)?;
        keep.raw_bind_parameter(3, envelope.id().as_str())?;
        keep.raw_bind_parameter(4, entry.arrived.0)?;
        keep.raw_bind_parameter(5, envelope.text())?;
        keep.raw_bind_parameter(6, entry.stamp.as_ref().map(Stamp::text))?;
        keep.raw_execute()?;
    }
    settle_calls(step, recent, topic_states)?;
    settle_control(step, recent, &topic_states.fold)?;
    settle_presence(step, recent, &topic_states.fold)
}

/// Stores which notices the settings and the held calls follow from. There is none held in a topic that never had settings.
fn settle_control(step: &Transaction<'_>, recent: &Recent, fold: &Fold) -> Result<(), SqliteFault> {
    if fold.is_uncontrolled() {
        return Ok(());
    }
    let wanted: BTreeSet<i64> =
        fold.control_entries().iter().map(|entry| key(recent.topic, entry.position.offset)).collect();
    let mut list = step.prepare_cached("SELECT key FROM control WHERE topic = ?1")?;
    let stored = list.query_map([recent.topic], |row| row.get(0))?.collect::<rusqlite::Result<BTreeSet<i64>>>()?;
    for gone in stored.difference(&wanted) {
        step.prepare_cached("DELETE FROM control WHERE topic = ?1 AND key = ?2")?.execute([recent.topic, *gone])?;
    }
    for new in wanted.difference(&stored) {
        step.prepare_cached("INSERT INTO control (topic, key) VALUES (?1, ?2)")?.execute([recent.topic, *new])?;
    }
    Ok(())
}

/// Stores which calls wait and which have failed, as far as the fresh entries have changed that.
fn settle_calls(step: &Transaction<'_>, recent: &Recent, topic_states: &TopicState) -> Result<(), SqliteFault> {
    let fold = &topic_states.fold;
    for entry in recent.entries() {
        let envelope = &entry.envelope;
        match (envelope.message(), envelope.correlation()) {
            (Some(Message::Request { .. }), _) if fold.call(envelope.id()).is_some_and(|call| !call.has_failed) => {
                step.prepare_cached("INSERT INTO unanswered (key) VALUES (?1)")?
                    .execute([key(recent.topic, entry.position.offset)])?;
            }
            // A fresh request that is answered was never stored as waiting.
            (Some(Message::Response { .. }), Some(request)) if recent.find(request).is_none() => {
                step.prepare_cached(
                    "DELETE FROM unanswered WHERE key = (SELECT key FROM entries WHERE topic = ?1 AND id = ?2)",
                )?
                .execute(params![recent.topic, request.as_str()])?;
            }
            _ => {}
        }
    }
    // A request that retention has removed leaves no row: nothing would ever delete it.
    for (at, asked) in fold.failures_after(recent.settled).filter(|(_, asked)| *asked > topic_states.trimmed) {
        step.prepare_cached("REPLACE INTO unanswered (key, failed) VALUES (?1, ?2)")?
            .execute(params![key(recent.topic, asked), at])?;
    }
    if let Some(oldest) = fold.forgotten_failures() {
        step.prepare_cached("DELETE FROM unanswered WHERE key BETWEEN ?1 AND ?2 AND failed < ?3")?.execute(params![
            key(recent.topic, 0),
            key(recent.topic, LAST_OFFSET),
            oldest
        ])?;
    }
    Ok(())
}

/// Stores who is present, as far as the fresh entries have changed that.
fn settle_presence(step: &Transaction<'_>, recent: &Recent, fold: &Fold) -> Result<(), SqliteFault> {
    let named = recent.entries().iter().filter_map(|entry| entry.envelope.presence());
    let named: BTreeSet<_> = named.map(|presence| presence.participant.id).collect();
    for participant in named {
        match fold.join_of(&participant).map(|join| join.position.offset) {
            Some(joined) if joined > recent.settled => {
                step.prepare_cached("REPLACE INTO present (topic, participant, key) VALUES (?1, ?2, ?3)")?
                    .execute(params![recent.topic, participant.as_str(), key(recent.topic, joined)])?;
            }
            Some(_) => {}
            None => {
                step.prepare_cached("DELETE FROM present WHERE topic = ?1 AND participant = ?2")?
                    .execute(params![recent.topic, participant.as_str()])?;
            }
        }
    }
    Ok(())
}
