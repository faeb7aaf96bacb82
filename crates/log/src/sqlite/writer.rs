//! The writer: one thread, one connection, one commit for everything that waits, entries and writes to contexts alike.
//!
//! Order within a commit: journal row, commit, readable, tailed, acknowledged. After the first error nothing is written or
//! acknowledged any more.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, Statement};
use salon_control::ControlNotice;
use salon_protocol::{Entry, Envelope, EnvelopeId, Stamp, Timestamp, TopicName};
use tokio::sync::{oneshot, watch};

use super::checkpoint::Checkpointer;
use super::disk::{self, DiskGuard};
use super::erase::{self, DeletedTopics};
use super::fresh::Recent;
use super::groups::{NotStored, WaitingRequests, WriteBatch};
use super::import::SqliteImport;
use super::queue::WorkQueue;
use super::reader::ReadSource;
use super::redact::{Replacement, Scrub};
use super::schema::{LAST_OFFSET, LAST_TOPIC};
use super::settle::JournalRow;
use super::stored::StoredCounts;
use super::sweep::{SWEEP_INTERVAL, long_ago};
use super::topic_states::{TopicState, TopicStateCache};
use super::upkeep::Upkeep;
use super::{Clock, SqliteFault, context, journal, redact, settled};
use crate::append_future::{AppendOutcome, OutcomeSender};
use crate::context::{Address, Change, Write, WriteError, Written};
use crate::hash::FastMap;
use crate::{AppendError, Appended, Durability, Fold, LogHealth, RetentionRules, StoredQuotas};

/// How often an idle writer looks whether the thread that writes back is done.
const CHECKPOINT_POLL: Duration = Duration::from_millis(1);

/// How often at most, where a quota refuses entries: what retention removes makes room.
const QUOTA_SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What the writer is asked to do.
pub(super) enum WriterRequest {
    Append(SqliteAppend),
    /// Write to a context.
    Write(SqliteWrite),
    /// Store what was copied from another log.
    Import(SqliteImport),
    /// Apply the retention now, and say when it is done.
    Trim(oneshot::Sender<()>),
}

pub(super) struct SqliteAppend {
    pub(super) topic: TopicName,
    pub(super) envelope: Envelope,
    pub(super) stamp: Option<Stamp>,
    pub(super) reply: OutcomeSender,
}

pub(super) struct SqliteWrite {
    pub(super) address: Address,
    pub(super) write: Write,
    pub(super) reply: oneshot::Sender<Result<Written, WriteError>>,
}

/// The new entries of a commit.
type Accepted = FastMap<TopicName, Vec<Arc<Entry>>>;

/// What a commit has made of a batch.
struct Committed {
    outcomes: Vec<AppendOutcome>,
    accepted: Accepted,
    redacted: Vec<Replacement>,
    judged: Vec<context::Judged>,
}

/// What bounds how much is kept, and says how well.
pub(super) struct WriterLimits {
    pub(super) durability: Durability,
    pub(super) retention: RetentionRules,
    pub(super) disk: DiskGuard,
    pub(super) quotas: StoredQuotas,
}

pub(super) struct Writer<'db> {
    pub(super) db: &'db Connection,
    pub(super) source: Arc<ReadSource>,
    pub(super) topic_states: TopicStateCache,
    pub(super) stored: StoredCounts,
    pub(super) retention: RetentionRules,
    pub(super) durability: Durability,
    disk: DiskGuard,
    pub(super) clock: Clock,
    health: watch::Sender<LogHealth>,
    pub(super) stopped: Option<Arc<str>>,
    statements: WriterStatements<'db>,
    /// The journal row being written; kept for its memory.
    row: Vec<u8>,
    /// The rows of the journal, the oldest first.
    pub(super) journal: VecDeque<JournalRow>,
    /// The names of topics that were deleted and have not started over since.
    pub(super) vacated: HashSet<TopicName>,
    pub(super) deleted: DeletedTopics,
    pub(super) upkeep: Upkeep,
    /// Writes back beside this thread, once there is one.
    pub(super) checkpointer: Option<Checkpointer>,
}

/// What every commit runs.
struct WriterStatements<'db> {
    begin: Statement<'db>,
    commit: Statement<'db>,
    record: Statement<'db>,
    find: Statement<'db>,
}

impl<'db> WriterStatements<'db> {
    fn prepare(db: &'db Connection) -> Result<Self, SqliteFault> {
        Ok(Self {
            begin: db.prepare("BEGIN IMMEDIATE")?,
            commit: db.prepare("COMMIT")?,
            record: db.prepare("INSERT INTO journal (entries) VALUES (?1)")?,
            find: db.prepare("SELECT key, arrived, text, stamp FROM entries WHERE topic = ?1 AND id = ?2")?,
        })
    }
}

impl<'db> Writer<'db> {
    /// Reads back what had not been settled when the last writer ended.
    pub(super) fn new(
        db: &'db Connection,
        source: Arc<ReadSource>,
        WriterLimits { durability, retention, disk, quotas }: WriterLimits,
        clock: Clock,
        health: watch::Sender<LogHealth>,
    ) -> Result<Self, SqliteFault> {
        db.set_prepared_statement_cache_capacity(64);
        let stored = StoredCounts::load(db, quotas)?;
        let mut writer = Self {
            statements: WriterStatements::prepare(db)?,
            db,
            source,
            topic_states: TopicStateCache::default(),
            stored,
            retention,
            durability,
            disk,
            clock,
            health,
            stopped: None,
            row: Vec::new(),
            journal: VecDeque::new(),
            upkeep: Upkeep::new(Scrub::is_due(db)?),
            vacated: HashSet::new(),
            deleted: DeletedTopics::default(),
            checkpointer: None,
        };
        writer.recover()?;
        writer.erase_recovered()?;
        if erase::has_erased(writer.db)? {
            writer.upkeep.is_scrub_due = false;
            writer.upkeep.scrub_after = writer.journal.back().map(|row| row.number).or(Some(0));
        }
        writer.disk.check(writer.db);
        writer.report_health();
        Ok(writer)
    }

    fn recover(&mut self) -> Result<(), SqliteFault> {
        let mut names = HashMap::new();
        let mut journal = self.db.prepare("SELECT number, entries FROM journal ORDER BY number")?;
        let mut rows = journal.query([])?;
        while let Some(row) = rows.next()? {
            let number = row.get(0)?;
            let row = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            self.journal.push_back(JournalRow { number, bytes: row.len() });
            for (topic, entry) in journal::read(row, self.source.epoch)? {
                let known = match names.entry(topic) {
                    Slot::Occupied(known) => known.into_mut(),
                    Slot::Vacant(unknown) => unknown.insert(settled::name_and_head(self.db, topic)?),
                };
                // Entries that are settled stay in the journal for a while, longer than a topic that is forgotten.
                let Some((name, settled)) = known.as_ref().filter(|(_, head)| entry.position.offset > *head) else {
                    continue;
                };
                self.stored.add_recovered(&entry);
                self.source.fresh_mut().extend(name, topic, *settled, &[entry]);
            }
        }
        Ok(())
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(&mut self, requests: &WorkQueue<WriterRequest>) {
        let mut waiting = WaitingRequests::default();
        let mut is_tidying_due = false;
        loop {
            let wait = match !waiting.is_empty() || self.is_behind() {
                true => Duration::ZERO,
                false => SWEEP_INTERVAL.saturating_sub(self.upkeep.swept.elapsed()),
            };
            let wait = if self.disk.reason().is_some() { wait.min(disk::RETRY_INTERVAL) } else { wait };
            let wait = if self.upkeep.scrub.is_some() { wait.min(redact::RETRY_DELAY) } else { wait };
            let is_written_back = self.checkpointer.as_ref().is_some_and(Checkpointer::is_running);
            let wait = if is_written_back { wait.min(CHECKPOINT_POLL) } else { wait };
            if !requests.take(&mut waiting.requests, wait) {
                break;
            }
            self.disk.check(self.db);
            // Between any two groups, so that what has come meanwhile can be in the next one.
            let group = waiting.next_group(&mut self.upkeep.trims);
            let is_long = group.is_long;
            self.store(group);
            // What came during a long commit has waited: it is stored first. Not twice, or nothing would be tidied.
            if is_long && !is_tidying_due {
                requests.take(&mut waiting.requests, Duration::ZERO);
                is_tidying_due = waiting.has_short();
                if is_tidying_due {
                    continue;
                }
            }
            is_tidying_due = false;
            self.tidy_a_little();
            self.write_back();
            self.report_health();
        }
        self.finish();
        self.report_health();
    }

    pub(super) fn store(&mut self, mut group: WriteBatch) {
        let import = group.import.take();
        if !(group.replies.is_empty() && group.writings.is_empty()) {
            self.store_group(group);
        }
        if let Some(SqliteImport { topic, import, reply }) = import {
            let imported = self.if_writable(|writer| writer.import(&topic, import));
            // The importer may have gone.
            let _ = reply.send(imported.map_err(|not_stored| not_stored.append_error()));
        }
    }

    /// Does something that writes, unless nothing is written now.
    fn if_writable<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, SqliteFault>) -> Result<T, NotStored> {
        self.disk.check(self.db);
        match (&self.stopped, self.disk.reason()) {
            (None, None) => work(self).map_err(|fault| NotStored::Stopped(self.stop(&fault))),
            (Some(reason), _) => Err(NotStored::Stopped(reason.clone())),
            (None, Some(reason)) => Err(NotStored::ReadOnly(reason.clone())),
        }
    }

    fn store_group(&mut self, WriteBatch { envelopes, replies, writings, has_time, .. }: WriteBatch) {
        let stored = self.if_writable(|writer| writer.commit(envelopes, &writings));
        match stored {
            Ok(Committed { mut outcomes, accepted, redacted, judged }) => {
                let values = writings.iter().map(|writing| writing.write.value.as_ref().map_or(0, |value| value.len()));
                self.note_written(self.row.len() + values.sum::<usize>());
                if let Err(fault) = self.publish_redacted(redacted) {
                    self.stop(&fault);
                }
                let deleted: Vec<_> = accepted
                    .iter()
                    .filter_map(|(name, entries)| Some((name.clone(), entries.last()?.clone())))
                    .filter(|(_, newest)| ControlNotice::deletes_topic(&newest.envelope))
                    .collect();
                self.publish(accepted, has_time);
                for (writing, judged) in writings.into_iter().zip(judged) {
                    self.report_written(writing, judged);
                }
                let deleted = deleted.iter().map(|(name, newest)| (name, Some(&**newest)));
                if let Err(fault) = self.erase_deleted(deleted) {
                    // It is erased when the log is opened again. The deletion is the last of its group.
                    let stopped = self.stop(&fault);
                    outcomes.pop();
                    outcomes.push(Err(AppendError::Stopped(stopped)));
                }
                let stored_at = Instant::now();
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    reply.send(outcome, stored_at);
                }
                self.topic_states.evict();
            }
            Err(not_stored) => {
                for reply in replies {
                    reply.send(Err(not_stored.append_error()), Instant::now());
                }
                for writing in writings {
                    let _ = writing.reply.send(Err(not_stored.write_error()));
                }
            }
        }
    }

    /// Judges and commits a batch. Nothing of it may be shown to anyone unless this succeeds.
    fn commit(
        &mut self,
        envelopes: Vec<(TopicName, Envelope, Option<Stamp>)>,
        writings: &[SqliteWrite],
    ) -> Result<Committed, SqliteFault> {
        let now = (self.clock)();
        let mut outcomes = Vec::with_capacity(envelopes.len());
        let mut accepted = Accepted::default();
        let mut ids: FastMap<(i64, EnvelopeId), Arc<Entry>> = FastMap::default();
        ids.reserve(envelopes.len());
        let mut is_quota_exceeded = false;
        let mut redactions = Vec::new();
        self.row.clear();
        self.statements.begin.raw_execute()?;
        for (name, envelope, stamp) in envelopes {
            let id = (self.know(&name)?.topic, envelope.id().clone());
            let first = match ids.get(&id) {
                Some(entry) => Some(entry.clone()),
                None => self.first(&name, &id.1)?,
            };
            if let Some(entry) = first {
                // The text names the sender, so the same text is from the same one.
                outcomes.push(match entry.envelope.text() == envelope.text() {
                    true => Ok(Appended { entry, repeated: true }),
                    false => Err(AppendError::IdConflict),
                });
                continue;
            }
            let topic_states = self.topic_states.get(&name).expect("it was known a moment ago");
            if let Some(ignored) = topic_states.fold.ignores(&envelope) {
                outcomes.push(Err(ignored.into()));
                continue;
            }
            if topic_states.head == LAST_OFFSET {
                return Err(SqliteFault::Exhausted);
            }
            self.stored.load_topic(self.db, &name, &self.source)?;
            if let Err(exceeded) = self.stored.check(&name, &envelope) {
                outcomes.push(Err(AppendError::Quota(exceeded)));
                is_quota_exceeded = true;
                continue;
            }
            let (position, arrived) = (self.source.position(topic_states.head + 1), topic_states.newest.max(now));
            let entry = Arc::new(Entry { position, arrived, stamp, envelope });
            self.topic_states.update(&name, |topic_states| {
                (topic_states.head, topic_states.newest) = (position.offset, arrived);
                topic_states.fold.apply(&entry);
            });
            self.stored.add(&name, &entry);
            if let Some(ControlNotice::Redacted(redaction)) = ControlNotice::of(&entry.envelope) {
                redactions.push((name.clone(), redaction));
            }
            journal::write(&mut self.row, id.0, &entry);
            ids.insert(id, entry.clone());
            outcomes.push(Ok(Appended { entry: entry.clone(), repeated: false }));
            accepted.entry(name).or_default().push(entry);
        }
        if !self.row.is_empty() {
            self.statements.record.raw_bind_parameter(1, self.row.as_slice())?;
            self.statements.record.raw_execute()?;
            self.journal.push_back(JournalRow { number: self.db.last_insert_rowid(), bytes: self.row.len() });
        }
        let mut redacted = Vec::with_capacity(redactions.len());
        for (name, redaction) in &redactions {
            let replaced = self.redact(name, redaction, &redacted)?;
            redacted.push(replaced);
        }
        let mut judged = Vec::with_capacity(writings.len());
        for SqliteWrite { address, write, .. } in writings {
            if self.deleted.is_too_late(&address.topic, write.requested) {
                judged.push(Err(WriteError::Deleted));
                continue;
            }
            self.stored.load_topic(self.db, &address.topic, &self.source)?;
            judged.push(context::apply(self.db, &mut self.stored, now, address, write)?);
        }
        self.statements.commit.raw_execute()?;
        if is_quota_exceeded && self.upkeep.swept.elapsed() >= QUOTA_SWEEP_INTERVAL {
            self.upkeep.swept = long_ago();
        }
        Ok(Committed { outcomes, accepted, redacted, judged })
    }

    /// Tells the followers of a context what was written, then the writer.
    fn report_written(&self, SqliteWrite { address, reply, .. }: SqliteWrite, judged: context::Judged) {
        if let Ok((Written { version, repeated: false, .. }, existence)) = judged {
            let Address { topic, scope, key } = address;
            self.source.changes.feed(&topic, Change { scope, key, version, existence });
        }
        let _ = reply.send(judged.map(|(written, _)| written));
    }

    /// Makes what was committed readable, then hands it to the tails.
    fn publish(&mut self, accepted: Accepted, has_time: bool) {
        let mut fresh = self.source.fresh_mut();
        for (name, entries) in &accepted {
            let topic_states = self.topic_states.get(name).expect("its entries were just stored");
            fresh.extend(name, topic_states.topic, topic_states.settled, entries);
            self.upkeep.appended.entries += entries.len();
        }
        self.upkeep.appended.bytes += self.row.len();
        drop(fresh);
        for (name, entries) in &accepted {
            match has_time {
                true => self.source.hub.feed_now(name, entries),
                false => self.source.hub.feed(name, entries),
            }
        }
    }

    /// Looks a topic up, making it where it is new: then within a transaction.
    pub(super) fn know(&mut self, name: &TopicName) -> Result<&TopicState, SqliteFault> {
        if self.topic_states.get(name).is_none() {
            let extent = settled::extent(self.db, name)?;
            let topic = match extent.topic {
                Some(topic) => topic,
                None => {
                    // Entries of a deleted topic have its number until they are removed.
                    let mut make = self.db.prepare_cached(
                        "INSERT INTO topics (topic, name, trimmed) VALUES (1 + max(
                             (SELECT coalesce(max(topic), 0) FROM topics), (SELECT coalesce(max(topic), 0) FROM erased)), ?1, ?2)",
                    )?;
                    let topic = make.insert((name.as_str(), extent.trimmed))?;
                    if topic > LAST_TOPIC {
                        return Err(SqliteFault::Exhausted);
                    }
                    topic
                }
            };
            let settled_fold = match extent.topic {
                None if self.vacated.remove(name) => Fold::deleted(extent.trimmed),
                _ => settled::fold(self.db, self.source.epoch, &extent)?,
            };
            let mut fold = settled_fold.clone();
            let fresh = self.source.fresh();
            let recent = fresh.of(name);
            recent.iter().flat_map(|recent| recent.entries()).for_each(|entry| _ = fold.apply(entry));
            let topic_states = TopicState {
                fold,
                settled_fold,
                topic,
                trimmed: extent.trimmed,
                settled: extent.head,
                head: recent.map_or(extent.head, Recent::head),
                newest: recent.and_then(Recent::newest).or(extent.newest).unwrap_or(Timestamp(0)),
            };
            drop(fresh);
            self.topic_states.insert(name.clone(), topic_states);
        }
        Ok(self.topic_states.get(name).expect("it was looked up where it was not known"))
    }

    /// The entry that has an id already. Of a known topic.
    fn first(&mut self, name: &TopicName, id: &EnvelopeId) -> Result<Option<Arc<Entry>>, SqliteFault> {
        if let Some(entry) = self.source.fresh().of(name).and_then(|recent| recent.find(id)) {
            return Ok(Some(entry.clone()));
        }
        let topic_states = self.topic_states.get(name).expect("the caller has looked it up");
        if topic_states.settled == topic_states.trimmed {
            return Ok(None);
        }
        self.statements.find.raw_bind_parameter(1, topic_states.topic)?;
        self.statements.find.raw_bind_parameter(2, id.as_str())?;
        let mut rows = self.statements.find.raw_query();
        rows.next()?.map(|row| settled::entry(self.source.epoch, row)).transpose()
    }

    /// Counts what was written to the write-ahead log.
    pub(super) fn note_written(&mut self, bytes: usize) {
        if let Some(checkpointer) = &mut self.checkpointer {
            checkpointer.note(bytes);
        }
    }

    /// Sees to it that the write-ahead log is written back when it is long.
    fn write_back(&mut self) {
        if self.stopped.is_none()
            && let Some(checkpointer) = &mut self.checkpointer
            && let Err(fault) = checkpointer.turn(self.db)
        {
            self.stop(&fault);
        }
    }

    fn settle_or_stop(&mut self) {
        if let Err(fault) = self.settle() {
            self.stop(&fault);
        }
    }

    /// Leaves the database settled and in one file.
    fn finish(&mut self) {
        // Its connection must not keep the log from being cut off.
        self.checkpointer = None;
        if self.stopped.is_none() {
            self.settle_or_stop();
        }
        if self.stopped.is_none()
            && let Err(fault) = self.finish_scrub()
        {
            self.stop(&fault);
        }
        if self.stopped.is_none()
            && let Err(error) = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::warn!(%error, "sqlite: closed without a checkpoint, the next start runs it");
        }
    }

    /// Gives up for good.
    pub(super) fn stop(&mut self, fault: &SqliteFault) -> Arc<str> {
        if !self.db.is_autocommit() {
            // Whether or not this succeeds, nothing of the transaction is committed any more.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        let reason: Arc<str> = match fault {
            SqliteFault::Database(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                "the disk is full".into()
            }
            fault => fault.to_string().into(),
        };
        tracing::error!(%reason, "sqlite: write failed, the store takes no more entries");
        self.stopped = Some(reason.clone());
        reason
    }

    /// Says whether the log takes entries, after everyone whose envelope was not stored has been told so.
    fn report_health(&self) {
        let now = match (&self.stopped, self.disk.reason()) {
            (Some(reason), _) => LogHealth::Stopped(reason.clone()),
            (None, Some(reason)) => LogHealth::ReadOnly(reason.clone()),
            (None, None) => LogHealth::Writable,
        };
        self.health.send_if_modified(|health| std::mem::replace(health, now.clone()) != now);
    }
}
