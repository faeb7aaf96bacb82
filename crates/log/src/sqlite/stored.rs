//! How many bytes are stored, by topic and author: what the quotas are compared with.
//!
//! The table `stored` has what is settled, changed in the transactions that settle and remove; this has what is fresh on top of it, in memory.
//! So an append costs two lookups in memory and no SQL, and a restart finds the counts.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, params};
use salon_protocol::{Entry, Envelope, ParticipantId, TopicName};

use super::SqliteFault;
use super::reader::ReadSource;
use crate::hash::FastMap;
use crate::quota::StoredBytes;
use crate::{QuotaExceeded, StoredQuotas};

/// The author of a context's row. No participant has an empty id.
const CONTEXT: &str = "";

/// How many topics and authors are remembered. The counts of others are read from the database when they are needed.
const MAX_COUNTS: usize = 100_000;

/// See the module.
pub(super) struct StoredCounts {
    quotas: StoredQuotas,
    topics: FastMap<TopicName, TopicCounts>,
    /// How many topics and authors are remembered.
    counts: usize,
    total: u64,
}

/// What one topic takes.
#[derive(Default)]
struct TopicCounts {
    entries: u64,
    authors: FastMap<ParticipantId, u64>,
    context: u64,
}

fn bytes_of(entry: &Entry) -> u64 {
    entry.envelope.text().len() as u64
}

impl StoredCounts {
    /// Begins with what is settled.
    pub(super) fn load(db: &Connection, quotas: StoredQuotas) -> Result<Self, SqliteFault> {
        let total = db.query_row("SELECT coalesce(sum(bytes), 0) FROM stored", [], |row| row.get(0))?;
        Ok(Self { quotas, topics: FastMap::default(), counts: 0, total })
    }

    /// Counts an entry that was read back from the journal.
    pub(super) fn add_recovered(&mut self, entry: &Entry) {
        self.total += bytes_of(entry);
    }

    /// Makes sure that the counts of a topic are in memory: those of its settled entries, and of the fresh ones.
    pub(super) fn load_topic(
        &mut self,
        db: &Connection,
        name: &TopicName,
        source: &ReadSource,
    ) -> Result<(), SqliteFault> {
        if self.topics.contains_key(name) {
            return Ok(());
        }
        let mut known = TopicCounts::default();
        let mut query = db.prepare_cached("SELECT author, bytes FROM stored WHERE topic = ?1")?;
        let mut rows = query.query([name.as_str()])?;
        while let Some(row) = rows.next()? {
            let (author, bytes): (String, u64) = (row.get(0)?, row.get(1)?);
            if author == CONTEXT {
                known.context = bytes;
                continue;
            }
            known.entries += bytes;
            // What no participant could have written counts for its topic alone.
            if let Ok(author) = ParticipantId::new(&author) {
                known.authors.insert(author, bytes);
            }
        }
        for entry in source.fresh().of(name).iter().flat_map(|recent| recent.entries()) {
            known.entries += bytes_of(entry);
            *known.authors.entry(entry.envelope.from().clone()).or_default() += bytes_of(entry);
        }
        self.counts += 1 + known.authors.len();
        self.topics.insert(name.clone(), known);
        Ok(())
    }

    /// Whether an entry may be stored. Of a known topic.
    pub(super) fn check(&self, name: &TopicName, envelope: &Envelope) -> Result<(), QuotaExceeded> {
        let known = self.topics.get(name).expect("the caller has looked it up");
        let participant = known.authors.get(envelope.from()).copied().unwrap_or_default();
        self.quotas.check_entry(StoredBytes { topic: known.entries, participant, gateway: self.total }, envelope)
    }

    /// Counts an entry that is about to be committed. Of a known topic.
    pub(super) fn add(&mut self, name: &TopicName, entry: &Entry) {
        let (bytes, author) = (bytes_of(entry), entry.envelope.from());
        self.total += bytes;
        let known = self.topics.get_mut(name).expect("the caller has looked it up");
        known.entries += bytes;
        match known.authors.get_mut(author) {
            Some(count) => *count += bytes,
            None => {
                self.counts += 1;
                known.authors.insert(author.clone(), bytes);
            }
        }
    }

    /// Counts an entry in the place of another of the same author. Of a known topic.
    pub(super) fn replace(&mut self, name: &TopicName, before: &Entry, after: &Entry) {
        let removed = vec![(before.envelope.from().as_str().to_owned(), bytes_of(before))];
        self.remove(name, &removed);
        self.add(name, after);
    }

    /// Forgets counts where there are too many: they are read again, from the database and from what is fresh.
    pub(super) fn evict(&mut self) {
        if self.counts > MAX_COUNTS {
            self.topics.clear();
            self.counts = 0;
        }
    }

    /// Takes off what retention has removed from a topic.
    pub(super) fn remove(&mut self, name: &TopicName, removed: &[(String, u64)]) {
        let mut known = self.topics.get_mut(name);
        for (author, bytes) in removed {
            self.total = self.total.saturating_sub(*bytes);
            let Some(known) = &mut known else { continue };
            known.entries = known.entries.saturating_sub(*bytes);
            if let Ok(author) = ParticipantId::new(author)
                && let Some(count) = known.authors.get_mut(&author)
            {
                *count = count.saturating_sub(*bytes);
            }
        }
    }

    /// Counts nothing of a topic any more. Of a known topic.
    pub(super) fn forget(&mut self, name: &TopicName) {
        let Some(known) = self.topics.remove(name) else { return };
        self.counts = self.counts.saturating_sub(1 + known.authors.len());
        self.total = self.total.saturating_sub(known.entries + known.context);
    }

    /// Whether a value may be added to a context from which others are removed. Of a known topic.
    pub(super) fn check_context(&self, name: &TopicName, removed: u64, added: usize) -> Result<(), QuotaExceeded> {
        self.quotas.check_context(self.context(name), removed, added)
    }

    /// Whether deleting a key should make room. Of a known topic.
    pub(super) fn is_tight(&self, name: &TopicName) -> bool {
        self.quotas.is_tight(self.context(name))
    }

    /// What a context takes, and what everything does.
    fn context(&self, name: &TopicName) -> (u64, u64) {
        (self.topics.get(name).map_or(0, |known| known.context), self.total)
    }

    /// Counts what a write has added to a context, and what it has removed. Within the transaction of the write.
    pub(super) fn change_context(
        &mut self,
        db: &Connection,
        name: &TopicName,
        added: u64,
        removed: u64,
    ) -> Result<(), SqliteFault> {
        if added == removed {
            return Ok(());
        }
        let changed = |bytes: u64| (bytes + added).saturating_sub(removed);
        self.total = changed(self.total);
        let known = self.topics.get_mut(name).expect("the caller has looked it up");
        known.context = changed(known.context);
        db.prepare_cached(SET)?.execute(params![name.as_str(), CONTEXT, known.context])?;
        Ok(())
    }
}

const SET: &str = "INSERT INTO stored (topic, author, bytes) VALUES (?1, ?2, ?3)
    ON CONFLICT (topic, author) DO UPDATE SET bytes = excluded.bytes";

/// Adds entries of a topic that are being settled to its rows.
pub(super) fn settle(step: &Connection, name: &TopicName, entries: &[Arc<Entry>]) -> Result<(), SqliteFault> {
    let mut added: HashMap<&ParticipantId, u64> = HashMap::new();
    for entry in entries {
        *added.entry(entry.envelope.from()).or_default() += bytes_of(entry);
    }
    let mut add = step.prepare_cached(
        "INSERT INTO stored (topic, author, bytes) VALUES (?1, ?2, ?3)
         ON CONFLICT (topic, author) DO UPDATE SET bytes = bytes + excluded.bytes",
    )?;
    for (author, bytes) in added {
        add.execute(params![name.as_str(), author.as_str(), bytes])?;
    }
    Ok(())
}

/// Takes the entries with some keys off their rows, before they are removed; says how many bytes of which author they have.
pub(super) fn trim(
    step: &Connection,
    name: &TopicName,
    (first, last): (i64, i64),
) -> Result<Vec<(String, u64)>, SqliteFault> {
    let mut query = step.prepare_cached(
        "SELECT CASE WHEN json_valid(text) THEN coalesce(text ->> '$.from', '?') ELSE '?' END, octet_length(text)
         FROM entries WHERE key BETWEEN ?1 AND ?2",
    )?;
    // Not added up by `GROUP BY`: SQLite would sort the rows with their texts, in memory.
    let mut removed: HashMap<String, u64> = HashMap::new();
    let mut rows = query.query([first, last])?;
    while let Some(row) = rows.next()? {
        *removed.entry(row.get(0)?).or_default() += row.get::<_, u64>(1)?;
    }
    let removed = Vec::from_iter(removed);
    let mut take_off =
        step.prepare_cached("UPDATE stored SET bytes = max(0, bytes - ?3) WHERE topic = ?1 AND author = ?2")?;
    for (author, bytes) in &removed {
        take_off.execute(params![name.as_str(), author, bytes])?;
    }
    step.prepare_cached("DELETE FROM stored WHERE topic = ?1 AND bytes = 0")?.execute([name.as_str()])?;
    Ok(removed)
}

/// Fills the table of a log that had none. Row by row, so that it takes no more memory than the counts do.
pub(super) fn count_all(step: &Connection) -> rusqlite::Result<()> {
    let entries =
        "SELECT name, CASE WHEN json_valid(text) THEN coalesce(text ->> '$.from', '?') ELSE '?' END, octet_length(text)
                   FROM entries JOIN topics USING (topic)";
    let contexts = "SELECT topic, '', coalesce(octet_length(value), 0) FROM context_versions
                    JOIN context_keys USING (slot) JOIN context_scopes USING (scope)";
    let mut counts: HashMap<(String, String), u64> = HashMap::new();
    for all in [entries, contexts] {
        let mut query = step.prepare(all)?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            *counts.entry((row.get(0)?, row.get(1)?)).or_default() += row.get::<_, u64>(2)?;
        }
    }
    let mut set = step.prepare(SET)?;
    for ((topic, author), bytes) in counts {
        set.execute(params![topic, author, bytes])?;
    }
    Ok(())
}
