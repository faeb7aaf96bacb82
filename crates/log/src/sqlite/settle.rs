//! Settling: moving what is journalled into the tables it is read from, a slice at a time.
//!
//! A pass begins when enough is fresh. It goes from topic to topic, because entries of one topic change the same pages, and settles so
//! many entries between two groups of appends that nobody waits for long. At its end it removes the journal's rows. Until then the journal
//! has entries that are settled already; readers skip those up to their topic's newest settled one.
//!
//! Invariant: the tables always are what follows from a topic's settled entries alone, for which there is a fold of those
//! ([`TopicState::settled_fold`]).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rusqlite::{Transaction, TransactionBehavior, params};
use salon_protocol::{Entry, Message, ParticipantId, Stamp, TopicName};
use tokio::sync::oneshot;

use super::SqliteFault;
use super::schema::{LAST_OFFSET, key};
use super::stored;
use super::topic_states::TopicState;
use super::writer::Writer;
use crate::{Durability, Fold, answered_request};

/// How much is settled, removed or deleted from the journal before appends get their turn: what takes about a millisecond. Smaller slices cost more by
/// the entry, and made a busy log slower without shorter tails.
const SLICE_ENTRIES: usize = 128;
const SLICE_BYTES: usize = 128 << 10;

/// How many bytes of the journal are deleted in one slice, and how many times as many as were appended. Their pages only become free, which is cheap.
const SLICE_JOURNAL_BYTES: usize = 1 << 20;
const JOURNAL_FACTOR: usize = 8;

/// How many times as much as was appended one slice of a sweep removes. A sweep has at least one slice in [`SLICES_PER_SWEEP_TURN`], so it removes more
/// than is appended.
///
/// [`SLICES_PER_SWEEP_TURN`]: super::upkeep::SLICES_PER_SWEEP_TURN
const SWEEP_FACTOR: usize = 6;

/// How much one slice may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

impl Slice {
    /// The smallest: what takes about a millisecond.
    pub(super) const SMALL: Self = Self { entries: SLICE_ENTRIES, bytes: SLICE_BYTES };
    /// Everything at once.
    pub(super) const ALL: Self = Self { entries: usize::MAX, bytes: usize::MAX };

    /// Twice the entries that were appended since the last one, so that what waits becomes less however fast appends come. Of bytes as many,
    /// because everybody waits for a long slice, unless far too many wait.
    pub(super) fn after(appended: Self, is_overfull: bool) -> Self {
        let bytes = if is_overfull { appended.bytes.saturating_mul(2) } else { appended.bytes };
        Self {
            entries: Self::SMALL.entries.max(appended.entries.saturating_mul(2)),
            bytes: Self::SMALL.bytes.max(bytes),
        }
    }

    /// For a sweep. It removes more than is appended, or the store would grow for as long as the load lasts.
    pub(super) fn of_sweep(appended: Self) -> Self {
        Self {
            entries: Self::SMALL.entries.max(appended.entries.saturating_mul(SWEEP_FACTOR)),
            bytes: Self::SMALL.bytes.max(appended.bytes.saturating_mul(SWEEP_FACTOR)),
        }
    }

    fn is_spent(&self) -> bool {
        self.entries == 0 || self.bytes == 0
    }

    /// How many of some entries fit, at least one; takes them off.
    fn take(&mut self, entries: &[Arc<Entry>]) -> usize {
        let mut count = 0;
        while !self.is_spent() && count < entries.len() {
            self.entries -= 1;
            self.bytes = self.bytes.saturating_sub(entries[count].envelope.text().len());
            count += 1;
        }
        count
    }
}

/// A pass over the topics that had fresh entries when it began.
pub(super) struct SettlePass {
    /// The topics that are left, and the newest entry each had.
    topics: VecDeque<(TopicName, u64)>,
    /// The newest row of the journal when it began.
    through: i64,
    /// Who waits for the sweep that follows, if one does.
    pub(super) sweep_after: Option<Vec<oneshot::Sender<()>>>,
}

/// A row of the journal.
pub(super) struct JournalRow {
    pub(super) number: i64,
    pub(super) bytes: usize,
}

/// The oldest unsettled entries of a topic.
struct TopicSlice {
    name: TopicName,
    topic: i64,
    /// The offset of the newest settled entry before them.
    settled: u64,
    entries: Vec<Arc<Entry>>,
    /// The offsets of settled requests that they answer.
    answered: Vec<u64>,
}

impl TopicSlice {
    fn last(&self) -> u64 {
        self.settled + self.entries.len() as u64
    }

    /// Folds the entries.
    fn apply(&mut self, fold: &mut Fold) {
        for entry in &self.entries {
            // A request of the same slice that is answered is never stored as waiting.
            let request = answered_request(&entry.envelope).and_then(|request| fold.requested_at(request));
            self.answered.extend(request.filter(|offset| *offset <= self.settled));
            fold.apply(entry);
        }
    }
}

impl Writer<'_> {
    /// Begins a pass over everything that is fresh.
    pub(super) fn begin_settling(&mut self, sweep_after: Option<Vec<oneshot::Sender<()>>>) -> SettlePass {
        let fresh = self.source.fresh();
        let mut topics: Vec<_> = fresh.topics().map(|(name, recent)| (recent.topic, name, recent.head())).collect();
        topics.sort_unstable_by_key(|(topic, ..)| *topic);
        SettlePass {
            topics: topics.into_iter().map(|(_, name, head)| (name.clone(), head)).collect(),
            through: self.journal.back().map_or(0, |row| row.number),
            sweep_after,
        }
    }

    /// Settles everything that is fresh.
    pub(super) fn settle(&mut self) -> Result<(), SqliteFault> {
        let mut pass = self.begin_settling(None);
        while !self.continue_settling(&mut pass, Slice::ALL)? {}
        Ok(())
    }

    /// One slice of a pass; whether that was the last.
    pub(super) fn continue_settling(&mut self, pass: &mut SettlePass, mut slice: Slice) -> Result<bool, SqliteFault> {
        if pass.topics.is_empty() {
            return self.delete_journal(pass.through, slice);
        }
        let mut topics = Vec::new();
        while !slice.is_spent()
            && let Some((name, head)) = pass.topics.front()
        {
            // The topic may have been deleted since the pass began.
            if self.source.fresh().of(name).is_none() {
                pass.topics.pop_front();
                continue;
            }
            self.know(name)?;
            let fresh = self.source.fresh();
            let taken = fresh.of(name).map(|recent| TopicSlice {
                name: name.clone(),
                topic: recent.topic,
                settled: recent.settled,
                entries: recent.entries()[..slice.take(recent.entries())].to_vec(),
                answered: Vec::new(),
            });
            drop(fresh);
            if taken.as_ref().is_none_or(|taken| taken.last() >= *head) {
                pass.topics.pop_front();
            }
            topics.extend(taken);
        }
        self.settle_slices(&mut topics)?;
        Ok(false)
    }

    fn settle_slices(&mut self, topics: &mut [TopicSlice]) -> Result<(), SqliteFault> {
        for slice in topics.iter_mut() {
            let name = slice.name.clone();
            self.topic_states.update(&name, |state| slice.apply(&mut state.settled_fold));
        }
        let topics = &*topics;
        self.without_flush(|writer| {
            let step = Transaction::new_unchecked(writer.db, TransactionBehavior::Immediate)?;
            for slice in topics {
                settle_topic(&step, slice, writer.topic_states.get(&slice.name).expect("it was looked up for this"))?;
                stored::settle(&step, &slice.name, &slice.entries)?;
            }
            Ok(step.commit()?)
        })?;
        let mut bytes = 0;
        for slice in topics {
            self.topic_states.update(&slice.name, |state| state.settled = slice.last());
            // Before the memory is without them: the search looks there first, and at the notes second.
            self.source.search.note_settled(slice.topic, &slice.name);
            bytes += self.source.fresh_mut().remove(&slice.name, slice.entries.len());
        }
        self.note_written(bytes);
        self.topic_states.evict();
        self.stored.evict();
        Ok(())
    }

    /// Deletes rows of the journal up to one, as far as a slice goes; whether none of them is left.
    fn delete_journal(&mut self, through: i64, slice: Slice) -> Result<bool, SqliteFault> {
        let mut bytes = SLICE_JOURNAL_BYTES.max(slice.bytes.saturating_mul(JOURNAL_FACTOR));
        let (mut last, mut count) = (None, 0);
        for row in self.journal.iter().take_while(|row| row.number <= through) {
            (last, count) = (Some(row.number), count + 1);
            bytes = bytes.saturating_sub(row.bytes);
            if bytes == 0 {
                break;
            }
        }
        if let Some(last) = last {
            self.without_flush(|writer| {
                let mut delete = writer.db.prepare_cached("DELETE FROM journal WHERE number <= ?1")?;
                Ok(delete.execute([last]).map(|_| ())?)
            })?;
            self.journal.drain(..count);
        }
        Ok(self.journal.front().is_none_or(|row| row.number > through))
    }

    /// Does work whose commits are not flushed. What a lost power supply takes back of it is done again, because everything it
    /// began with is still there; and nothing that is flushed later is without it.
    pub(super) fn without_flush<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, SqliteFault>,
    ) -> Result<T, SqliteFault> {
        if self.durability == Durability::Os {
            return work(self);
        }
        self.db.pragma_update(None, "synchronous", "NORMAL")?;
        let done = work(self);
        // Not possible within a transaction, of which only an error can have left one; then nothing is written any more.
        if done.is_ok() {
            self.db.pragma_update(None, "synchronous", "FULL")?;
        }
        done
    }
}

/// Stores entries of a topic where they are read from.
pub(super) fn insert(step: &Transaction<'_>, topic: i64, entries: &[Arc<Entry>]) -> Result<(), SqliteFault> {
    let mut keep = step
        .prepare_cached("INSERT INTO entries (key, topic, id, arrived, text, stamp) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for entry in entries {
        let (key, envelope) = (key(topic, entry.position.offset), &entry.envelope);
        keep.raw_bind_parameter(1, key)?;
        keep.raw_bind_parameter(2, topic)?;
        keep.raw_bind_parameter(3, envelope.id().as_str())?;
        keep.raw_bind_parameter(4, entry.arrived.0)?;
        keep.raw_bind_parameter(5, envelope.text())?;
        keep.raw_bind_parameter(6, entry.stamp.as_ref().map(Stamp::text))?;
        keep.raw_execute()?;
    }
    Ok(())
}

fn settle_topic(step: &Transaction<'_>, slice: &TopicSlice, state: &TopicState) -> Result<(), SqliteFault> {
    insert(step, slice.topic, &slice.entries)?;
    settle_calls(step, slice, state)?;
    settle_control(step, slice.topic, &state.settled_fold)?;
    settle_presence(step, slice, &state.settled_fold)
}

/// Stores which notices the settings, the held calls and the statuses follow from.
fn settle_control(step: &Transaction<'_>, topic: i64, fold: &Fold) -> Result<(), SqliteFault> {
    if fold.is_uncontrolled() {
        return Ok(());
    }
    let wanted: BTreeSet<i64> = fold.control_entries().iter().map(|entry| key(topic, entry.position.offset)).collect();
    let mut list = step.prepare_cached("SELECT key FROM control WHERE topic = ?1")?;
    let stored = list.query_map([topic], |row| row.get(0))?.collect::<rusqlite::Result<BTreeSet<i64>>>()?;
    for gone in stored.difference(&wanted) {
        step.prepare_cached("DELETE FROM control WHERE topic = ?1 AND key = ?2")?.execute([topic, *gone])?;
    }
    for new in wanted.difference(&stored) {
        step.prepare_cached("INSERT INTO control (topic, key) VALUES (?1, ?2)")?.execute([topic, *new])?;
    }
    Ok(())
}

/// Stores which calls wait and which have failed, as far as the entries have changed that.
fn settle_calls(step: &Transaction<'_>, slice: &TopicSlice, state: &TopicState) -> Result<(), SqliteFault> {
    let fold = &state.settled_fold;
    let mut wait = step.prepare_cached("INSERT INTO unanswered (key) VALUES (?1)")?;
    for entry in &slice.entries {
        let envelope = &entry.envelope;
        if matches!(envelope.message(), Some(Message::Request { .. })) && fold.requested_at(envelope.id()).is_some() {
            wait.execute([key(slice.topic, entry.position.offset)])?;
        }
    }
    let mut end = step.prepare_cached("DELETE FROM unanswered WHERE key = ?1")?;
    for request in &slice.answered {
        end.execute([key(slice.topic, *request)])?;
    }
    // A request that retention has removed leaves no row: nothing would ever delete it.
    for (at, asked) in fold.failures_after(slice.settled).filter(|(_, asked)| *asked > state.trimmed) {
        step.prepare_cached("REPLACE INTO unanswered (key, failed) VALUES (?1, ?2)")?
            .execute(params![key(slice.topic, asked), at])?;
    }
    if let Some(oldest) = fold.forgotten_failures() {
        step.prepare_cached("DELETE FROM unanswered WHERE key BETWEEN ?1 AND ?2 AND failed < ?3")?.execute(params![
            key(slice.topic, 0),
            key(slice.topic, LAST_OFFSET),
            oldest
        ])?;
    }
    Ok(())
}

/// Stores who is present, as far as the entries have changed that.
fn settle_presence(step: &Transaction<'_>, slice: &TopicSlice, fold: &Fold) -> Result<(), SqliteFault> {
    let named = slice.entries.iter().filter_map(|entry| entry.envelope.presence());
    let named: BTreeSet<ParticipantId> = named.map(|presence| presence.participant.id).collect();
    for participant in named {
        match fold.join_of(&participant).map(|join| join.position.offset) {
            Some(joined) if joined > slice.settled => {
                step.prepare_cached("REPLACE INTO present (topic, participant, key) VALUES (?1, ?2, ?3)")?
                    .execute(params![slice.topic, participant.as_str(), key(slice.topic, joined)])?;
            }
            Some(_) => {}
            None => {
                step.prepare_cached("DELETE FROM present WHERE topic = ?1 AND participant = ?2")?
                    .execute(params![slice.topic, participant.as_str()])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
