//! Searching what was said, in all topics that a token opens.

use hyper::Method;
use salon_protocol::{EnvelopeId, ParticipantId, TopicName};
use serde::Deserialize;

use crate::client::{Client, RequestAuth, query_string};
use crate::error::RestError;

/// What to search for. Build it with [`SearchOptions::new`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SearchOptions {
    /// Words, `"phrases"` and prefixes such as `migrat*`; all must match.
    pub query: String,
    /// Only in this topic.
    pub topic: Option<TopicName>,
    /// Only what this participant sent.
    pub from: Option<ParticipantId>,
    /// Only `chat`, `call` or `result`.
    pub kind: Option<String>,
    /// At most this many, 1 to 100; 20 unless given.
    pub limit: Option<usize>,
    /// [`SearchResults::next`] of the page before.
    pub before: Option<String>,
}

impl SearchOptions {
    /// Everything that matches a query.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), ..Self::default() }
    }
}

/// One page of what was found, the newest first.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SearchResults {
    /// What was found.
    pub hits: Vec<FoundEnvelope>,
    /// Whether everything was searched.
    pub complete: bool,
    /// [`SearchOptions::before`] of the next page; `None` on the last.
    pub next: Option<String>,
}

/// An envelope that matches.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct FoundEnvelope {
    /// The topic it is in.
    pub topic: TopicName,
    /// Its id.
    pub id: EnvelopeId,
    /// Who sent it.
    pub from: ParticipantId,
    /// When it arrived, RFC 3339.
    pub ts: String,
    /// `chat`, `call` or `result`.
    pub kind: String,
    /// Plain text around the first match, in one line.
    pub snippet: String,
    /// Begin and end of each match in the snippet, in UTF-16 code units.
    pub matches: Vec<(usize, usize)>,
}

impl Client {
    /// Searches the topics that the token opens and the participant may read.
    pub async fn search(&self, options: &SearchOptions) -> Result<SearchResults, RestError> {
        let limit = options.limit.map(|limit| limit.to_string());
        let wanted = [
            ("q", Some(options.query.as_str())),
            ("topic", options.topic.as_ref().map(TopicName::as_str)),
            ("from", options.from.as_ref().map(ParticipantId::as_str)),
            ("kind", options.kind.as_deref()),
            ("limit", limit.as_deref()),
            ("before", options.before.as_deref()),
        ];
        let path = format!("/v0/search{}", query_string(&wanted));
        self.ask(RequestAuth::WithToken, Method::GET, &path, None).await
    }
}
