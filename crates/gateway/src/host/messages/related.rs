//! What the log has about a message after it: edits, retractions, acknowledgements, answers.
//!
//! Nothing in the log is found by what it refers to, so the entries after the message are read, as many as a bound allows.

use std::sync::Arc;

use salon_log::{Span, TopicLog};
use salon_protocol::{Entry, Position, Refusal, TopicName};
use salon_rooms::unreadable;

/// How many entries are read at a time.
const PAGE: usize = 500;

/// How many of them are kept.
const MAX_FOUND: usize = 1000;

/// See the module.
pub(super) struct RelatedEntries {
    /// The entries that were looked for, the oldest first.
    pub(super) entries: Vec<Arc<Entry>>,
    /// Whether everything up to now was looked through.
    pub(super) is_complete: bool,
}

impl RelatedEntries {
    /// Looks through so many entries of the log after a position.
    pub(super) async fn find(
        log: &dyn TopicLog,
        topic: &TopicName,
        after: Position,
        max_scanned: usize,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Self, Refusal> {
        let (mut at, mut scanned, mut entries) = (after, 0, Vec::new());
        loop {
            let page = log.read(topic, Span::After(at), PAGE).await.map_err(|error| unreadable(&error))?;
            let Some(last) = page.last() else { return Ok(Self { entries, is_complete: true }) };
            at = last.position;
            scanned += page.len();
            entries.extend(page.into_iter().filter(|entry| is_wanted(entry)));
            if scanned >= max_scanned || entries.len() > MAX_FOUND {
                entries.truncate(MAX_FOUND);
                return Ok(Self { entries, is_complete: false });
            }
        }
    }
}
