//! Windows onto a topic's history, for every door that shows one.

use std::sync::Arc;

use salon_log::{MAX_PAGE_BYTES, Span, TopicLog};
use salon_protocol::{Code, Entry, EnvelopeId, Refusal, Timestamp, TopicName};
use salon_rooms::{resolve, unreadable};
use serde_json::value::RawValue;

/// An entry's envelope, byte for byte.
pub(crate) fn raw(entry: &Entry) -> Box<RawValue> {
    RawValue::from_string(entry.envelope.text().into()).expect("a stored envelope is JSON")
}

/// Which part of a history is asked for.
pub(crate) struct Window<'a> {
    pub(crate) before: Option<&'a str>,
    pub(crate) after: Option<EnvelopeId>,
    pub(crate) limit: usize,
}

/// One page.
#[derive(Debug, Default)]
pub(crate) struct StoredPage {
    /// Oldest first.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// What comes before the next page, when there is one.
    pub(crate) next: Option<EnvelopeId>,
}

/// The newest entries of a window.
pub(crate) async fn read(log: &dyn TopicLog, topic: &TopicName, window: Window<'_>) -> Result<StoredPage, Refusal> {
    let span = match window.before {
        None => Span::Newest,
        Some(text) => before(log, topic, text).await?,
    };
    let after = match &window.after {
        None => None,
        Some(id) => Some(resolve(log, topic, id).await?),
    };
    // One more than asked for tells whether there is a next page; a page cut short by its size has one as well.
    let entries = log.read(topic, span, window.limit + 1).await.map_err(|error| unreadable(&error))?;
    let bytes: usize = entries.iter().map(|entry| entry.envelope.text().len()).sum();
    let within = |entry: &Arc<Entry>| after.is_none_or(|after| after.in_order(entry.position) == Some(true));
    let mut entries: Vec<_> = entries.into_iter().filter(within).collect();
    let surplus = entries.len().saturating_sub(window.limit);
    entries.drain(..surplus);
    let next =
        entries.first().filter(|_| surplus > 0 || bytes >= MAX_PAGE_BYTES).map(|entry| entry.envelope.id().clone());
    Ok(StoredPage { entries, next })
}

/// `before` names an envelope, or a time by the gateway's clock.
async fn before(log: &dyn TopicLog, topic: &TopicName, text: &str) -> Result<Span, Refusal> {
    let id = EnvelopeId::new(text)
        .map_err(|error| Refusal::new(Code::InvalidParameters, format!("`before` is not acceptable: {error}")))?;
    match (resolve(log, topic, &id).await, Timestamp::parse(text)) {
        (Ok(position), _) => Ok(Span::Before(position)),
        (Err(refusal), Some(time)) if refusal.code == Code::NotFound => Ok(Span::BeforeTime(time)),
        (Err(refusal), _) => Err(refusal),
    }
}
