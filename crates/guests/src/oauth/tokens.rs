//! Tokens as they are given out (RFC 6749 §5.1), stored and refreshed (§6).

use std::fmt;

use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};

use super::address::Endpoint;
use super::client::RegisteredClient;
use super::exchange::{Form, OAuthAnswer, OAuthRequest};
use super::{AuthorizationError, ResourceUrl};

/// A token is refreshed this long before it expires, or a quarter of its life if that is less.
const REFRESH_SECONDS: u64 = 60;

/// A token that lives longer is taken to live this long, so that sums do not overflow: a century.
const MAX_LIFE_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;

/// All that is stored for one server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthTokens {
    /// The server's address.
    pub url: String,
    /// What the tokens are for (RFC 8707).
    pub(super) resource: String,
    /// Who gave them out.
    pub issuer: String,
    pub(super) token_endpoint: Endpoint,
    pub(super) client: RegisteredClient,
    pub(super) access_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// When the access token expires, in seconds since 1970, where the server said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_from: Option<u64>,
    /// The scopes they have, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<String>,
    /// The scopes to ask for at the next sign-in, because a request needed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wanted_scope: Option<String>,
    /// Which of two is newer. It begins with the clock, so that tokens of a later sign-in are newer than any before.
    #[serde(default)]
    pub(super) generation: u64,
}

impl fmt::Debug for OAuthTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthTokens").field("url", &self.url).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// What a sign-in is for, known before there is a token.
pub(super) struct TokenTerms<'a> {
    pub(super) url: &'a ResourceUrl,
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: Endpoint,
    pub(super) client: RegisteredClient,
    /// What was asked for: granted where the answer names no scope (RFC 6749 §5.1).
    pub(super) scope: Option<String>,
}

#[derive(Deserialize)]
struct TokenText {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

impl TokenText {
    fn read(answer: &OAuthAnswer) -> Result<Self, AuthorizationError> {
        let text: Self = answer.read()?;
        if !text.token_type.eq_ignore_ascii_case("bearer") {
            return Err(AuthorizationError::Answer("its token is not a bearer token".into()));
        }
        let fits = !text.access_token.is_empty() && text.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits {
            return Err(AuthorizationError::Answer("its token is not one word".into()));
        }
        Ok(text)
    }
}

impl OAuthTokens {
    /// Reads the first tokens of a sign-in. `now` is in seconds since 1970.
    pub(super) fn granted(answer: &OAuthAnswer, terms: TokenTerms<'_>, now: u64) -> Result<Self, AuthorizationError> {
        let text = TokenText::read(answer)?;
        let mut tokens = Self {
            url: terms.url.as_str().to_owned(),
            resource: terms.resource,
            issuer: terms.issuer,
            token_endpoint: terms.token_endpoint,
            client: terms.client,
            access_token: String::new(),
            refresh_token: None,
            expires: None,
            refresh_from: None,
            scope: terms.scope,
            wanted_scope: None,
            generation: 0,
        };
        tokens.take(text, now);
        Ok(tokens)
    }

    /// The request for new tokens, where there is a refresh token.
    pub(super) fn refresh(&self) -> Option<OAuthRequest> {
        let token = self.refresh_token.as_deref()?;
        let form = Form::default()
            .with("grant_type", "refresh_token")
            .with("refresh_token", token)
            .with("resource", &self.resource);
        Some(self.client.request(self.token_endpoint.clone(), form))
    }

    /// Reads the answer to [`Self::refresh`]. A refresh token that is not replaced stays good.
    pub(super) fn refreshed(&self, answer: &OAuthAnswer, now: u64) -> Result<Self, AuthorizationError> {
        let mut tokens = self.clone();
        tokens.take(TokenText::read(answer)?, now);
        Ok(tokens)
    }

    fn take(&mut self, text: TokenText, now: u64) {
        let life = text.expires_in.map(|life| life.min(MAX_LIFE_SECONDS));
        self.generation = now.max(self.generation.saturating_add(1));
        self.access_token = text.access_token;
        self.refresh_token = text.refresh_token.or(self.refresh_token.take());
        self.scope = text.scope.or(self.scope.take());
        self.expires = life.map(|life| now + life);
        self.refresh_from = life.map(|life| now + life - REFRESH_SECONDS.min(life / 4));
    }

    /// Makes these tokens newer than others.
    pub(super) fn follow(&mut self, other: &Self) {
        self.generation = self.generation.max(other.generation.saturating_add(1));
    }

    /// The newer of what is stored and what is held. A file that could not be written is older than what is held.
    pub(super) fn newer(stored: Option<Self>, held: Option<&Self>) -> Option<Self> {
        match (stored, held) {
            (Some(stored), Some(held)) if stored.generation < held.generation => Some(held.clone()),
            (Some(stored), _) => Some(stored),
            (None, held) => held.cloned(),
        }
    }

    /// Whether new ones can be had without a person.
    pub fn is_refreshable(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// Whether new tokens are due.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.refresh_token.is_some() && self.refresh_from.is_some_and(|from| now >= from)
    }

    /// What a request says.
    pub(crate) fn header(&self) -> HeaderValue {
        let mut value =
            HeaderValue::try_from(format!("Bearer {}", self.access_token)).expect("a token is one ASCII word");
        value.set_sensitive(true);
        value
    }

    /// A file that somebody changed could hold what no header takes.
    pub(super) fn is_usable(&self) -> bool {
        self.access_token.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

/// Two lists of scopes as one, in order and without repetition.
pub(super) fn union(one: Option<&str>, other: Option<&str>) -> Option<String> {
    let mut all = Vec::new();
    for scope in [one, other].into_iter().flatten().flat_map(str::split_ascii_whitespace) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    (!all.is_empty()).then(|| all.join(" "))
}
