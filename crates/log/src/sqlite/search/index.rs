//! The database of the index: words by entry (FTS5), and which entry each is.
//!
//! A row is numbered by its entry's time of arrival, so that matches come newest first without sorting. Beside its words it has marks for
//! its topic, its sender and its kind, so that a filter is a term like others.

use std::collections::BTreeMap;
use std::fs;
use std::hash::Hasher;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use salon_protocol::{Entry, ParticipantId, Timestamp, TopicName};

use super::super::SqliteFault;
use super::super::schema::{self, LAST_OFFSET, key};
use super::interrupt::within;
use crate::hash::FastMap;
use crate::search::{SearchDocument, SearchKind, SearchQuery, text_words};

/// The version of the tables, and of what is a word. An index of another version is rebuilt.
const VERSION: i64 = 1;

/// Bits of a row's number that tell entries of one millisecond apart.
const SEQUENCE_BITS: u32 = 20;
/// The last millisecond that a row's number can hold.
const LAST_ARRIVED: u64 = (1 << (62 - SEQUENCE_BITS)) - 1;

/// With how many topics a search is a term for each of them. With more, matches in other topics are passed over.
const MAX_TOPIC_TERMS: usize = 64;

/// The words are given folded and apart from one another (`crate::search`), so that the tokenizer has nothing to decide.
const TABLES: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE indexed (topic INTEGER PRIMARY KEY, through INTEGER NOT NULL);
    CREATE TABLE documents (doc INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE);
    CREATE VIRTUAL TABLE words USING fts5(text, marks, content = '', contentless_delete = 1,
        tokenize = \"unicode61 remove_diacritics 0\");
";

/// See the module.
pub(super) struct SearchIndex {
    db: Connection,
    /// Up to which offset each topic is indexed.
    indexed: FastMap<i64, u64>,
    /// Topics with rows to remove, up to and with an offset.
    trimmed: BTreeMap<i64, u64>,
    /// Whether the words of what is trimmed must not stay in the file.
    is_erased: bool,
}

/// When an entry arrived, by its row's number.
pub(super) fn arrived(doc: i64) -> Timestamp {
    Timestamp((doc >> SEQUENCE_BITS).cast_unsigned())
}

/// Removes the files of an index.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for extension in ["db", "db-wal", "db-shm"] {
        match fs::remove_file(path.with_extension(extension)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl SearchIndex {
    /// Opens the index of a log, or rebuilds it where it is of another one, of another version or damaged.
    pub(super) fn open(path: &Path, epoch: u32) -> Result<Self, SqliteFault> {
        match Self::open_existing(path, epoch) {
            Ok(Some(index)) => return Ok(index),
            Ok(None) => {}
            Err(fault) => tracing::warn!(error = %fault, "search: index unreadable, rebuilding it"),
        }
        remove(path).map_err(|error| SqliteFault::SearchFile { why: error.to_string() })?;
        let db = connect(path)?;
        db.execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION};"))?;
        db.execute("INSERT INTO meta (name, value) VALUES ('epoch', ?1)", [epoch])?;
        db.execute_batch("COMMIT")?;
        Ok(Self { db, indexed: FastMap::default(), trimmed: BTreeMap::new(), is_erased: false })
    }

    fn open_existing(path: &Path, epoch: u32) -> Result<Option<Self>, SqliteFault> {
        if !path.exists() {
            return Ok(None);
        }
        let db = connect(path)?;
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != VERSION {
            return Ok(None);
        }
        let made_for: Option<u32> =
            db.query_row("SELECT value FROM meta WHERE name = 'epoch'", [], |row| row.get(0)).optional()?;
        if made_for != Some(epoch) {
            return Ok(None);
        }
        let mut query = db.prepare("SELECT topic, through FROM indexed")?;
        let indexed = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
        drop(query);
        Ok(Some(Self { db, indexed, trimmed: BTreeMap::new(), is_erased: false }))
    }

    /// Up to which offset a topic is indexed.
    pub(super) fn indexed(&self, topic: i64) -> u64 {
        self.indexed.get(&topic).copied().unwrap_or(0)
    }

    /// A topic is being indexed up to an offset.
    pub(super) fn reach(&mut self, topic: i64, offset: u64) {
        self.indexed.insert(topic, offset);
    }

    /// The log has no entries of a topic up to an offset any more.
    pub(super) fn note_trimmed(&mut self, topic: i64, through: u64) {
        if through > 0 {
            let known = self.trimmed.entry(topic).or_default();
            *known = (*known).max(through);
        }
    }

    /// Among what is trimmed is a topic that was deleted.
    pub(super) fn note_erased(&mut self) {
        self.is_erased = true;
    }

    /// Notes the topics that the log has forgotten.
    pub(super) fn forget_unknown(&mut self, known: &BTreeMap<i64, TopicName>) -> Result<(), SqliteFault> {
        let unknown: Vec<i64> = self.indexed.keys().filter(|topic| !known.contains_key(topic)).copied().collect();
        // Some may have been deleted just before the last process ended.
        self.is_erased |= !unknown.is_empty();
        for topic in unknown {
            self.note_trimmed(topic, LAST_OFFSET);
            self.indexed.remove(&topic);
            self.db.execute("DELETE FROM indexed WHERE topic = ?1", [topic])?;
        }
        Ok(())
    }

    /// Removes some rows of trimmed entries; whether there were any.
    pub(super) fn remove_slice(&mut self, limit: usize) -> Result<bool, SqliteFault> {
        while let Some((&topic, &through)) = self.trimmed.first_key_value() {
            let mut query = self.db.prepare_cached("SELECT doc FROM documents WHERE key BETWEEN ?1 AND ?2 LIMIT ?3")?;
            let bounds = params![key(topic, 0), key(topic, through), limit];
            let docs = query.query_map(bounds, |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
            if docs.is_empty() {
                self.trimmed.remove(&topic);
                continue;
            }
            let step = self.db.unchecked_transaction()?;
            for doc in docs {
                remove_row(&step, doc)?;
            }
            step.commit()?;
            return Ok(true);
        }
        if std::mem::take(&mut self.is_erased) {
            merge_segments(&self.db)?;
            self.cut_off_log()?;
        }
        Ok(false)
    }

    /// Removes old frames of the write-ahead log, which may have words that nobody shall read any more. Nobody else reads this file.
    fn cut_off_log(&self) -> Result<(), SqliteFault> {
        Ok(self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    /// Removes the rows of entries, and their words from the file: they may be what nobody shall read any more.
    pub(super) fn remove_entries(&mut self, entries: impl IntoIterator<Item = (i64, u64)>) -> Result<(), SqliteFault> {
        let step = self.db.unchecked_transaction()?;
        let mut is_removed = false;
        for (topic, offset) in entries {
            let mut query = step.prepare_cached("SELECT doc FROM documents WHERE key = ?1")?;
            let doc: Option<i64> = query.query_row([key(topic, offset)], |row| row.get(0)).optional()?;
            if let Some(doc) = doc {
                remove_row(&step, doc)?;
                is_removed = true;
            }
        }
        if is_removed {
            merge_segments(&step)?;
            step.commit()?;
            self.cut_off_log()?;
        }
        Ok(())
    }

    /// Indexes entries, and notes how far their topics are.
    pub(super) fn add(&mut self, mut entries: Vec<(i64, Arc<Entry>)>, heads: &[(i64, u64)]) -> Result<(), SqliteFault> {
        // Rows in the order of their numbers are cheaper.
        entries.sort_by_key(|(topic, entry)| (entry.arrived, *topic, entry.position.offset));
        let step = self.db.unchecked_transaction()?;
        for (topic, entry) in &entries {
            let Some(document) = SearchDocument::of(&entry.envelope) else { continue };
            let key = key(*topic, entry.position.offset);
            let doc = free_number(&step, entry.arrived)?;
            let added = step
                .prepare_cached("INSERT INTO documents (doc, key) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING")?
                .execute([doc, key])?;
            if added == 0 {
                continue;
            }
            let words: Vec<String> = text_words(&document.text).into_iter().map(|word| word.folded).collect();
            let marks = [topic_mark(*topic), sender_mark(entry.envelope.from()), kind_mark(document.kind)].join(" ");
            step.prepare_cached("INSERT INTO words (rowid, text, marks) VALUES (?1, ?2, ?3)")?.execute(params![
                doc,
                words.join(" "),
                marks
            ])?;
        }
        for (topic, through) in heads {
            step.prepare_cached("REPLACE INTO indexed (topic, through) VALUES (?1, ?2)")?
                .execute(params![topic, through])?;
        }
        step.commit()?;
        self.indexed.extend(heads.iter().copied());
        Ok(())
    }

    /// Calls `found` with every match before a row, newest first, as long as it returns true: the row's number, the topic's and the offset. `None`
    /// where the time was over first.
    pub(super) fn matches(
        &self,
        query: &IndexQuery,
        before: i64,
        limit: Duration,
        found: impl FnMut(i64, i64, u64) -> Result<bool, SqliteFault>,
    ) -> Result<Option<()>, SqliteFault> {
        within(&self.db, limit, || self.all_matches(query, before, found))
    }

    fn all_matches(
        &self,
        query: &IndexQuery,
        before: i64,
        mut found: impl FnMut(i64, i64, u64) -> Result<bool, SqliteFault>,
    ) -> Result<(), SqliteFault> {
        let mut matches = self
            .db
            .prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1 AND rowid < ?2 ORDER BY rowid DESC")?;
        let mut entry = self.db.prepare_cached("SELECT key FROM documents WHERE doc = ?1")?;
        let mut rows = matches.query(params![query.expression, before])?;
        while let Some(row) = rows.next()? {
            let doc: i64 = row.get(0)?;
            let Some(key) = entry.query_row([doc], |row| row.get::<_, i64>(0)).optional()? else { continue };
            if !found(doc, schema::topic(key), schema::offset(key))? {
                break;
            }
        }
        Ok(())
    }
}

fn connect(path: &Path) -> Result<Connection, SqliteFault> {
    // Made here, because SQLite would let everybody read it.
    super::super::private(path).map_err(|error| SqliteFault::SearchFile { why: error.to_string() })?;
    let db = Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA secure_delete = ON;
         PRAGMA cache_size = -8192;
         PRAGMA journal_size_limit = 16777216;
         PRAGMA temp_store = MEMORY;",
    )?;
    Ok(db)
}

/// Removes the words of deleted rows from the file: they are there until the segments that have them are merged.
fn merge_segments(db: &Connection) -> Result<(), SqliteFault> {
    db.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
    Ok(())
}

fn remove_row(step: &Connection, doc: i64) -> Result<(), SqliteFault> {
    step.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([doc])?;
    step.prepare_cached("DELETE FROM documents WHERE doc = ?1")?.execute([doc])?;
    Ok(())
}

/// The next number of a row whose entry arrived at a time.
fn free_number(step: &Connection, arrived: Timestamp) -> Result<i64, SqliteFault> {
    let first = arrived.0.min(LAST_ARRIVED).cast_signed() << SEQUENCE_BITS;
    let last = first | ((1 << SEQUENCE_BITS) - 1);
    let mut query = step.prepare_cached("SELECT max(doc) FROM documents WHERE doc BETWEEN ?1 AND ?2")?;
    let taken: Option<i64> = query.query_row([first, last], |row| row.get(0))?;
    Ok(taken.map_or(first, |taken| taken + 1))
}

fn topic_mark(topic: i64) -> String {
    format!("t{topic}")
}

/// A word for a sender, whose id may have characters that no word has. Two senders may share it: a match is compared with the entry.
fn sender_mark(sender: &ParticipantId) -> String {
    format!("s{:x}", sender_hash(sender.as_str()))
}

fn kind_mark(kind: SearchKind) -> String {
    format!("k{}", kind.word())
}

/// FNV-1a: the same in every process, as what is stored must be.
fn sender_hash(text: &str) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.write(text.as_bytes());
    hash.finish()
}

/// In which topics matches are looked for.
pub(super) enum TopicFilter {
    Some(Vec<i64>),
    Any,
}

impl TopicFilter {
    pub(super) fn of<T>(topics: &std::collections::HashMap<i64, T>) -> Self {
        match topics.len() > MAX_TOPIC_TERMS {
            true => Self::Any,
            false => Self::Some(topics.keys().copied().collect()),
        }
    }
}

/// A query in the grammar of FTS5 (sqlite.org/fts5.html, "Full-text Query Syntax"). Every string in it is made of letters and digits, so that
/// nothing in it can be anything else.
pub(super) struct IndexQuery {
    expression: String,
}

impl IndexQuery {
    pub(super) fn new(query: &SearchQuery) -> Self {
        let terms = query.terms.iter().map(|term| {
            let phrase = format!("\"{}\"", term.words.join(" "));
            if term.is_prefix { phrase + " *" } else { phrase }
        });
        let terms: Vec<String> = terms.collect();
        Self { expression: format!("text : ({})", terms.join(" AND ")) }
    }

    fn and_marks(&mut self, marks: &[String]) {
        let marks: Vec<String> = marks.iter().map(|mark| format!("\"{mark}\"")).collect();
        self.expression = format!("{} AND marks : ({})", self.expression, marks.join(" OR "));
    }

    pub(super) fn topics(&mut self, topics: TopicFilter) {
        match topics {
            TopicFilter::Any => {}
            // No topic has this number.
            TopicFilter::Some(topics) if topics.is_empty() => self.and_marks(&[topic_mark(0)]),
            TopicFilter::Some(topics) => self.and_marks(&topics.into_iter().map(topic_mark).collect::<Vec<_>>()),
        }
    }

    pub(super) fn from(&mut self, sender: Option<&ParticipantId>) {
        if let Some(sender) = sender {
            self.and_marks(&[sender_mark(sender)]);
        }
    }

    pub(super) fn kind(&mut self, kind: Option<SearchKind>) {
        if let Some(kind) = kind {
            self.and_marks(&[kind_mark(kind)]);
        }
    }
}
