//! Searching the text of entries: chat, calls of tools and their results.
//!
//! [`TopicSearch`] is the contract; its suite is in [`crate::contract`]. SQLite has an index of words beside the log, NATS is searched by
//! [`scan::ScanSearch`], newest entries first and within bounds. Both find the same: what a word is and what an entry says are
//! decided here. Deliberately absent: who may search which topics.

mod document;
mod query;
mod scan;
mod words;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use salon_protocol::{Entry, ParticipantId, Timestamp, TopicName};

pub use document::SearchDocument;
pub use query::{InvalidQuery, MAX_QUERY_BYTES, SearchQuery};
pub use scan::{ScanBounds, ScanSearch};
pub(crate) use words::text_words;
pub use words::{SearchSnippet, snippet};

use crate::{ReadError, TopicSummary};

/// The most hits of one page.
pub const MAX_HITS: usize = 100;

/// Entries by what they say. What every engine promises:
///
/// 1. A hit is an entry of one of the topics asked for that matches every term of the query and the filters. Nothing else is one.
/// 2. Hits are newest first, by their time of arrival. Pages that follow `next` have no hit twice, and none is missing that was
///    stored before the first of them.
/// 3. An entry that was acknowledged before the call is found, or the page says that it is not complete.
/// 4. A page is bounded in time and in what is read for it. Where a bound ends it, it is not complete, and `next` goes on behind it. Where it
///    ends before anything was found to go on behind, that is an error which says so.
/// 5. What retention has removed is not found.
pub trait TopicSearch: Send + Sync + 'static {
    /// One page of hits.
    fn search(&self, request: SearchRequest) -> BoxFuture<'static, Result<SearchPage, SearchError>>;
}

/// What is searched for, and where.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// Which words.
    pub query: SearchQuery,
    /// In which topics.
    pub topics: Vec<TopicSummary>,
    /// Sent by whom; `None` is everybody.
    pub from: Option<ParticipantId>,
    /// Which sort of entries; `None` is every.
    pub kind: Option<SearchKind>,
    /// How many hits at most.
    pub limit: usize,
    /// The `next` of the page before.
    pub before: Option<Box<str>>,
}

impl SearchRequest {
    /// What an entry says, if it is of the sort and from the participant asked for and matches the query.
    pub(crate) fn matching(&self, entry: &Entry) -> Option<SearchDocument> {
        if self.from.as_ref().is_some_and(|from| from != entry.envelope.from()) {
            return None;
        }
        let document = SearchDocument::of(&entry.envelope)?;
        let is_kind = self.kind.is_none_or(|kind| kind == document.kind);
        (is_kind && self.query.matches(&document.text)).then_some(document)
    }
}

/// Which sort of entry a hit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchKind {
    /// A chat line.
    Chat,
    /// A call of a tool.
    Call,
    /// The answer to one.
    Result,
}

impl SearchKind {
    /// Every sort.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Call, Self::Result];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Call => "call",
            Self::Result => "result",
        }
    }
}

/// A word that is no sort of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it must be `chat`, `call` or `result`")]
pub struct InvalidKind;

impl FromStr for SearchKind {
    type Err = InvalidKind;

    fn from_str(text: &str) -> Result<Self, InvalidKind> {
        Self::ALL.into_iter().find(|kind| kind.word() == text).ok_or(InvalidKind)
    }
}

impl fmt::Display for SearchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// An entry that matches.
#[derive(Debug, Clone)]
pub struct SearchHit {
    /// The topic it is in.
    pub topic: TopicName,
    /// The entry.
    pub entry: Arc<Entry>,
    /// Which sort it is.
    pub kind: SearchKind,
    /// What it says around the first match.
    pub snippet: SearchSnippet,
}

/// How a page was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMethod {
    /// By an index of all entries.
    Index,
    /// By reading entries, newest first.
    Scan,
}

/// One page of hits.
#[derive(Debug, Clone)]
pub struct SearchPage {
    /// The hits, newest first.
    pub hits: Vec<SearchHit>,
    /// Whether everything was searched that this page is about.
    pub is_complete: bool,
    /// How.
    pub method: SearchMethod,
    /// Where a bound ended the search: nothing that arrived before was looked at.
    pub since: Option<Timestamp>,
    /// How many entries are not in the index yet.
    pub pending: u64,
    /// What to give as `before` for the next page, where there may be one.
    pub next: Option<Box<str>>,
}

/// Why nothing was searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// `before` is of no page of this log.
    #[error("`before` is not the `next` of an earlier page")]
    Cursor,
    /// The time of a search was over before the first match was found.
    #[error("the search took too long: search for whole words or longer beginnings of words")]
    TooSlow,
    /// The index cannot be used now.
    #[error("the search index cannot be used: {0}")]
    Index(Arc<str>),
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
