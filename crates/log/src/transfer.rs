//! Copying topics from one log into another, of the same engine or of the other one.
//!
//! Of a topic its kept entries are copied, each with the time it arrived and with its stamp, and its settings. Presence is not: joins and
//! leaves are left out. Nobody is present in the copy and no call waits in it, so nothing follows from a copied entry but settings. Positions
//! are those of the copy. A redacted entry is copied as its tombstone.
//!
//! A copy that was interrupted, or whose source has grown since, is continued. Every entry that is there is compared with the source's, and
//! a topic that differs is left alone. What was copied is read back and compared by count and digest.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use futures_util::future::BoxFuture;
use salon_control::ControlNotice;
use salon_protocol::{Entry, EnvelopeId, Kind, Position, Stamp, TopicName};

use crate::{AppendError, ReadError, Span, Standing, TopicLog};

/// How many entries are read or stored at once, and after how many bytes of text no more are.
const PAGE_ENTRIES: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

/// A log that topics can be copied into. No gateway may use it meanwhile: its rooms would take copied calls for new ones.
pub trait TransferLog: TopicLog {
    /// Stores what was copied behind what the topic has. Resolves when it is durable and readable. No quota holds.
    fn import(&self, topic: &TopicName, import: TopicImport) -> BoxFuture<'static, Result<(), AppendError>>;
}

/// What is stored in a copy.
#[derive(Debug, Clone)]
pub enum TopicImport {
    /// Settings whose notice is not among the entries, because retention has removed it. Only for a topic without entries.
    Settings(Arc<Entry>),
    /// The next entries, with their times and stamps. Their positions do not count.
    Entries(Vec<Arc<Entry>>),
}

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferTotals {
    /// How many topics have something in the source.
    pub topics: u64,
    /// How many entries they have there, without joins and leaves. As many are in the copy.
    pub entries: u64,
    /// How many of them were not in the copy before.
    pub copied: u64,
}

/// Why a log was not copied to the end. What was copied before stays.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The source failed.
    #[error("the source could not be read: {0}")]
    Source(ReadError),
    /// The copy failed.
    #[error("the copy could not be read: {0}")]
    Copy(ReadError),
    /// The copy did not take something.
    #[error("`{topic}` could not be copied: {why}")]
    Import {
        /// The topic.
        topic: TopicName,
        /// Why not.
        why: AppendError,
    },
    /// An entry of the copy is another one than the source's.
    #[error("`{topic}` is not the same in the copy, from the entry `{id}` on: it has changed since it was copied")]
    Differs {
        /// The topic.
        topic: TopicName,
        /// The first entry that differs.
        id: EnvelopeId,
    },
    /// Something else than a copy is there.
    #[error("`{topic}` has entries of its own in the copy")]
    Foreign {
        /// The topic.
        topic: TopicName,
    },
    /// What was read back is not what was copied.
    #[error("`{topic}` was copied, and its copy has other {what} than the source")]
    Unverified {
        /// The topic.
        topic: TopicName,
        /// What is not the same.
        what: &'static str,
    },
    /// `progress` said so.
    #[error("the copy was cancelled")]
    Cancelled,
}

/// Copies every topic of a log. `progress` is called with the entries done and the entries in total, and may end the copy with `false`.
pub async fn copy_topics(
    source: &dyn TopicLog,
    copy: &dyn TransferLog,
    mut progress: impl FnMut(u64, u64) -> bool,
) -> Result<TransferTotals, TransferError> {
    let topics = source.topics().await.map_err(TransferError::Source)?;
    let total = topics.iter().map(|topic| topic.entries).sum();
    let (mut totals, mut done) = (TransferTotals::default(), 0);
    for summary in topics {
        let mut watch = |entries: u64| progress((done + entries).min(total), total);
        let transfer = TopicTransfer { source, copy, topic: &summary.name };
        if let Some((entries, copied)) = transfer.run(&mut watch).await? {
            totals.topics += 1;
            totals.entries += entries;
            totals.copied += copied;
        }
        done += summary.entries;
    }
    Ok(totals)
}

/// One topic on its way.
struct TopicTransfer<'a> {
    source: &'a dyn TopicLog,
    copy: &'a dyn TransferLog,
    topic: &'a TopicName,
}

impl TopicTransfer<'_> {
    /// Says how many entries the copy has and how many of them are new; `None` where there is nothing to copy.
    async fn run(&self, watch: &mut dyn FnMut(u64) -> bool) -> Result<Option<(u64, u64)>, TransferError> {
        let topic = self.topic;
        let standing = self.source.standing(topic).await.map_err(TransferError::Source)?;
        let before = self.copy.standing(topic).await.map_err(TransferError::Copy)?;
        let mut source = EntryWalk::new(self.source, topic, standing.head);
        let mut copy = EntryWalk::new(self.copy, topic, before.head);
        let mut next = source.next().await.map_err(TransferError::Source)?;
        let wanted = settings_of(&standing);
        if next.is_none() && wanted.is_none() {
            return Ok(None);
        }

        let (mut digest, mut entries, mut older) = (EntryDigest::new(), 0, 0);
        while let Some(there) = copy.next().await.map_err(TransferError::Copy)? {
            match &next {
                Some(entry) if entry.envelope.id() == there.envelope.id() => {
                    if !is_same(entry, &there) {
                        return Err(TransferError::Differs { topic: topic.clone(), id: there.envelope.id().clone() });
                    }
                    entries += 1;
                    digest.add(entry);
                    next = source.next().await.map_err(TransferError::Source)?;
                }
                // Retention has removed it from the source since.
                Some(_) if entries == 0 => older += 1,
                _ => return Err(TransferError::Foreign { topic: topic.clone() }),
            }
            go_on(watch, entries)?;
        }
        if older > 0 && entries == 0 {
            return Err(TransferError::Foreign { topic: topic.clone() });
        }

        let is_settled = || same_text(wanted, settings_of(&before));
        let is_in_history =
            |notice: &Arc<Entry>| next.as_ref().is_some_and(|first| first.position.offset <= notice.position.offset);
        if let Some(notice) = wanted.filter(|notice| entries == 0 && !is_settled() && !is_in_history(notice)) {
            self.import(TopicImport::Settings(notice.clone())).await?;
        }
        let known = entries;
        while next.is_some() {
            let (mut page, mut bytes) = (Vec::new(), 0);
            while page.len() < PAGE_ENTRIES
                && bytes < PAGE_BYTES
                && let Some(entry) = next.take()
            {
                bytes += entry.envelope.text().len();
                digest.add(&entry);
                page.push(entry);
                next = source.next().await.map_err(TransferError::Source)?;
            }
            entries += page.len() as u64;
            self.import(TopicImport::Entries(page)).await?;
            go_on(watch, entries)?;
        }
        self.verify(&standing, older, (entries, digest)).await?;
        Ok(Some((entries, entries - known)))
    }

    async fn import(&self, import: TopicImport) -> Result<(), TransferError> {
        let imported = self.copy.import(self.topic, import).await;
        imported.map_err(|why| TransferError::Import { topic: self.topic.clone(), why })
    }

    /// Reads the copy back and compares it with what was read from the source.
    async fn verify(
        &self,
        source: &Standing,
        older: u64,
        (entries, digest): (u64, EntryDigest),
    ) -> Result<(), TransferError> {
        let unverified = |what| Err(TransferError::Unverified { topic: self.topic.clone(), what });
        let standing = self.copy.standing(self.topic).await.map_err(TransferError::Copy)?;
        if !same_text(settings_of(source), settings_of(&standing)) {
            return unverified("settings");
        }
        let mut walk = EntryWalk::new(self.copy, self.topic, standing.head);
        let (mut count, mut found) = (0, EntryDigest::new());
        while let Some(entry) = walk.next().await.map_err(TransferError::Copy)? {
            count += 1;
            if count > older {
                found.add(&entry);
            }
        }
        match (count == older + entries, found.finish() == digest.finish()) {
            (false, _) => unverified("entries"),
            (true, false) => unverified("texts, times or stamps"),
            (true, true) => Ok(()),
        }
    }
}

fn go_on(watch: &mut dyn FnMut(u64) -> bool, entries: u64) -> Result<(), TransferError> {
    if watch(entries) { Ok(()) } else { Err(TransferError::Cancelled) }
}

/// The notice that a topic's settings follow from.
fn settings_of(standing: &Standing) -> Option<&Arc<Entry>> {
    let is_settings =
        |entry: &&Arc<Entry>| matches!(ControlNotice::of(&entry.envelope), Some(ControlNotice::Settings(_)));
    standing.control.iter().rev().find(is_settings)
}

fn same_text(one: Option<&Arc<Entry>>, other: Option<&Arc<Entry>>) -> bool {
    let text = |entry: Option<&Arc<Entry>>| entry.map(|entry| entry.envelope.text().to_owned());
    text(one) == text(other)
}

fn is_same(one: &Entry, other: &Entry) -> bool {
    one.arrived == other.arrived && one.stamp == other.stamp && one.envelope.text() == other.envelope.text()
}

/// The entries of a topic up to a position, without joins and leaves.
struct EntryWalk<'a> {
    log: &'a dyn TopicLog,
    topic: &'a TopicName,
    at: Position,
    through: u64,
    page: VecDeque<Arc<Entry>>,
    is_over: bool,
}

impl<'a> EntryWalk<'a> {
    fn new(log: &'a dyn TopicLog, topic: &'a TopicName, through: Position) -> Self {
        let at = Position { offset: 0, ..through };
        Self { log, topic, at, through: through.offset, page: VecDeque::new(), is_over: false }
    }

    async fn next(&mut self) -> Result<Option<Arc<Entry>>, ReadError> {
        loop {
            while let Some(entry) = self.page.pop_front() {
                if entry.position.offset > self.through {
                    self.page.clear();
                    self.is_over = true;
                } else if entry.envelope.kind() != Kind::Presence {
                    return Ok(Some(entry));
                }
            }
            if self.is_over || self.at.offset >= self.through {
                return Ok(None);
            }
            match self.log.read(self.topic, Span::After(self.at), PAGE_ENTRIES).await {
                Ok(page) => match page.last() {
                    Some(last) => {
                        self.at = last.position;
                        self.page = page.into();
                    }
                    None => self.is_over = true,
                },
                // What retention has removed is not there to be copied.
                Err(ReadError::Gap { resume }) if resume.offset > self.at.offset => self.at = resume,
                Err(error) => return Err(error),
            }
        }
    }
}

/// A digest of entries in their order: ids, times, stamps and texts.
struct EntryDigest(Context);

impl EntryDigest {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn add(&mut self, entry: &Entry) {
        self.0.update(&entry.arrived.0.to_le_bytes());
        for text in [entry.stamp.as_ref().map_or("", Stamp::text), entry.envelope.text()] {
            self.0.update(&(text.len() as u64).to_le_bytes());
            self.0.update(text.as_bytes());
        }
    }

    fn finish(self) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}
