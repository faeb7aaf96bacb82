//! Redaction: replacing the text of an entry by a tombstone wherever the database has it, and then erasing what is left of it in the files. What
//! deleted topics leave there is erased in the same way.
//!
//! The text is replaced in the transaction that stores the notice: in the row where it is settled, in the journal, and among the notices
//! that retention keeps. The file still has it in free pages (the journal's rows are deleted without being overwritten) and the write-ahead
//! log in old frames. A scrub overwrites both, a slice at a time. A mark in the database says that one is due, so that a crash does not prevent it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use salon_control::MessageRedaction;
use salon_protocol::{Entry, TopicName};

use super::schema::{self, PAGE, key};
use super::writer::Writer;
use super::{SqliteFault, journal, settled};

/// How many free pages one slice of a scrub overwrites: 1 MiB.
const SLICE_PAGES: u64 = 256;

/// How long to wait before the write-ahead log is tried again to be cut off, while a reader keeps it: a backup, for example.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(250);

/// How long SQLite waits for a lock; the writer's usual time.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Overwriting what the files have of redacted texts and of deleted topics.
pub(super) struct Scrub {
    /// How many pages may be written until the free ones must have been among them. Pages become free meanwhile.
    pages_left: u64,
    /// When to go on, where readers were in the way.
    retry_at: Option<Instant>,
}

/// The entries of a topic that take the place of others.
pub(super) struct Replacement {
    pub(super) topic: TopicName,
    /// The topic's number in the database.
    number: i64,
    pub(super) entries: Vec<Arc<Entry>>,
}

impl Scrub {
    /// Begins one. The table that takes all free pages may be left from one that was interrupted.
    pub(super) fn begin(db: &Connection) -> Result<Self, SqliteFault> {
        db.execute_batch("DROP TABLE IF EXISTS scrub")?;
        db.execute_batch("CREATE TABLE scrub (zeros BLOB NOT NULL)")?;
        Ok(Self { pages_left: 4 * free_pages(db)? + 4 * SLICE_PAGES, retry_at: None })
    }

    /// Whether it can go on.
    pub(super) fn is_ready(&self) -> bool {
        self.retry_at.is_none_or(|at| Instant::now() >= at)
    }

    /// Whether one was begun, or is due, when the database was last open.
    pub(super) fn is_due(db: &Connection) -> Result<bool, SqliteFault> {
        Ok(db.query_row("SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'scrub')", [], |row| row.get(0))?)
    }
}

/// Notes in the database that a scrub is due. Within the transaction that makes it so.
pub(super) fn mark_due(db: &Connection) -> Result<(), SqliteFault> {
    db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('scrub', 1)", [])?;
    Ok(())
}

fn free_pages(db: &Connection) -> Result<u64, SqliteFault> {
    Ok(db.query_row("PRAGMA freelist_count", [], |row| row.get(0))?)
}

/// Sets whether deleted content is overwritten: everywhere, or where that costs no further page (sqlite.org/pragma.html#pragma_secure_delete).
fn overwrite_everywhere(db: &Connection, everywhere: bool) -> Result<(), SqliteFault> {
    let how = if everywhere { "ON" } else { "FAST" };
    Ok(db.query_row(&format!("PRAGMA secure_delete = {how}"), [], |_| Ok(()))?)
}

impl Writer<'_> {
    /// Replaces what a notice says is redacted, within the transaction that stores the notice, after what others there have replaced.
    pub(super) fn redact(
        &mut self,
        name: &TopicName,
        redaction: &MessageRedaction,
        earlier: &[Replacement],
    ) -> Result<Replacement, SqliteFault> {
        overwrite_everywhere(self.db, true)?;
        let topic = self.know(name)?.topic;
        let mut entries = Vec::new();
        let is_replaced = |offset: u64| {
            let of_topic = earlier.iter().filter(|replacement| replacement.number == topic);
            of_topic.flat_map(|replacement| &replacement.entries).any(|entry| entry.position.offset == offset)
        };
        for message in redaction.messages.iter().filter(|message| !is_replaced(message.offset)) {
            let Some(before) = self.entry_at(name, topic, message.offset)? else { continue };
            // The first redaction of a message counts.
            let Some(tombstone) = message.replace(&before) else { continue };
            self.replace_settled(name, topic, &before, &tombstone)?;
            entries.push(tombstone);
        }
        if !entries.is_empty() {
            self.rewrite_journal(topic, &entries)?;
            mark_due(self.db)?;
        }
        Ok(Replacement { topic: name.clone(), number: topic, entries })
    }

    /// What stands at an offset. Of a known topic.
    fn entry_at(&self, name: &TopicName, topic: i64, offset: u64) -> Result<Option<Arc<Entry>>, SqliteFault> {
        if let Some(recent) = self.source.fresh().of(name).filter(|recent| offset > recent.settled) {
            return Ok(recent.after(offset - 1).first().cloned());
        }
        if offset == 0 || offset > schema::LAST_OFFSET {
            return Ok(None);
        }
        let found = settled::after(self.db, self.source.epoch, topic, (offset - 1, offset), 1, usize::MAX)?;
        Ok(found.into_iter().next())
    }

    /// Replaces the text of an entry in the tables, as far as it is there, and its bytes in what is counted.
    fn replace_settled(
        &mut self,
        name: &TopicName,
        topic: i64,
        before: &Entry,
        tombstone: &Entry,
    ) -> Result<(), SqliteFault> {
        let (key, text) = (key(topic, before.position.offset), tombstone.envelope.text());
        let is_settled =
            self.db.prepare_cached("UPDATE entries SET text = ?2 WHERE key = ?1")?.execute(params![key, text])? > 0;
        self.db
            .prepare_cached("UPDATE control SET text = ?3 WHERE topic = ?1 AND key = ?2 AND text IS NOT NULL")?
            .execute(params![topic, key, text])?;
        if is_settled {
            let author = before.envelope.from().as_str();
            let (removed, added) = (before.envelope.text().len(), text.len());
            self.db
                .prepare_cached("UPDATE stored SET bytes = max(0, bytes - ?3) + ?4 WHERE topic = ?1 AND author = ?2")?
                .execute(params![name.as_str(), author, removed, added])?;
        }
        self.stored.replace(name, before, tombstone);
        Ok(())
    }

    /// Replaces the texts in the rows of the journal, which has settled entries for a while.
    fn rewrite_journal(&mut self, topic: i64, tombstones: &[Arc<Entry>]) -> Result<(), SqliteFault> {
        let mut rows = self.db.prepare_cached("SELECT entries FROM journal WHERE number = ?1")?;
        let mut write = self.db.prepare_cached("UPDATE journal SET entries = ?2 WHERE number = ?1")?;
        for row in &mut self.journal {
            let before: Vec<u8> = rows.query_row([row.number], |found| found.get(0))?;
            if let Some(after) = journal::replace(&before, topic, tombstones)? {
                row.bytes = after.len();
                write.execute(params![row.number, after])?;
            }
        }
        Ok(())
    }

    /// Makes what was redacted readable as such; after the commit.
    pub(super) fn publish_redacted(&mut self, replacements: Vec<Replacement>) -> Result<(), SqliteFault> {
        if replacements.is_empty() {
            return Ok(());
        }
        overwrite_everywhere(self.db, false)?;
        let mut fresh = self.source.fresh_mut();
        for Replacement { topic, entries, .. } in &replacements {
            entries.iter().for_each(|tombstone| fresh.replace(topic, tombstone));
        }
        drop(fresh);
        for Replacement { number, entries, .. } in &replacements {
            entries.iter().for_each(|entry| self.source.search.note_changed(*number, entry.position.offset));
        }
        if replacements.iter().any(|replacement| !replacement.entries.is_empty()) {
            self.upkeep.is_scrub_due = true;
        }
        Ok(())
    }

    /// The scrub that is under way, or the one that is due.
    pub(super) fn take_scrub(&mut self) -> Result<Option<Scrub>, SqliteFault> {
        if std::mem::take(&mut self.upkeep.is_scrub_due) {
            return Scrub::begin(self.db).map(Some);
        }
        Ok(self.upkeep.scrub.take_if(|scrub| scrub.is_ready()))
    }

    /// Scrubs as far as readers allow. Their connections end after this, and what is left is begun again by the next writer.
    pub(super) fn finish_scrub(&mut self) -> Result<(), SqliteFault> {
        while let Some(scrub) = self.take_scrub()? {
            self.upkeep.scrub = self.continue_scrub(scrub)?;
        }
        Ok(())
    }

    /// One slice of a scrub; `None` when it is over.
    pub(super) fn continue_scrub(&mut self, mut scrub: Scrub) -> Result<Option<Scrub>, SqliteFault> {
        let free = free_pages(self.db)?;
        if free > 0 && scrub.pages_left > 0 {
            let pages = free.min(SLICE_PAGES);
            scrub.pages_left = scrub.pages_left.saturating_sub(pages);
            self.without_flush(|writer| {
                overwrite_everywhere(writer.db, true)?;
                writer.db.execute("INSERT INTO scrub (zeros) VALUES (zeroblob(?1))", [pages * PAGE])?;
                overwrite_everywhere(writer.db, false)
            })?;
            self.note_written(usize::try_from(pages * PAGE).unwrap_or(usize::MAX));
            return Ok(Some(scrub));
        }
        // What the table gives back is overwritten. Where readers are in the way of the rest, only that is tried again.
        scrub.pages_left = 0;
        self.db.execute_batch("DROP TABLE IF EXISTS scrub")?;
        // Without waiting: a backup may read for long, and appends go on meanwhile.
        self.db.busy_timeout(Duration::ZERO)?;
        let truncated = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.db.busy_timeout(BUSY_TIMEOUT)?;
        if truncated? {
            scrub.retry_at = Some(Instant::now() + RETRY_DELAY);
            return Ok(Some(scrub));
        }
        // The mark goes last: what a crash interrupts is begun again. So is what a deletion has yet to remove.
        if self.upkeep.scrub_after.is_none() {
            self.db.execute("DELETE FROM meta WHERE name = 'scrub'", [])?;
        }
        if let Some(path) = self.db.path() {
            schema::lengthen_again(std::path::Path::new(path), self.durability);
        }
        Ok(None)
    }
}
