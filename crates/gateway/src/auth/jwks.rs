//! Other people's public keys: a JSON Web Key Set, from a file or a URL, kept fresh.
//!
//! Deliberately absent: discovery of where an identity provider has its keys, and any trust in where a token says its key is.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use jsonwebtoken::jwk::Jwk;
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{KeySet, Verifier};
use crate::is_loopback;

/// The largest set that is read.
const MAX_BYTES: usize = 256 * 1024;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a key set is.
#[derive(Clone, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file.
    File(PathBuf),
    /// At an address: by https, or on this machine.
    Url(Url),
}

impl JwksSource {
    /// The same source, with a relative path taken from a folder.
    #[must_use]
    pub fn relative_to(self, folder: &Path) -> Self {
        match self {
            Self::File(path) => Self::File(folder.join(path)),
            url @ Self::Url(_) => url,
        }
    }
}

impl FromStr for JwksSource {
    type Err = JwksError;
    fn from_str(text: &str) -> Result<Self, JwksError> {
        if text.is_empty() {
            return Err(JwksError::Source("it is empty"));
        }
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        let url = Url::parse(text).map_err(|_| JwksError::Source("it is not a URL"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(JwksError::Source("a URL with a user name or password in it is not used"));
        }
        match url.scheme() {
            "https" => Ok(Self::Url(url)),
            "http" if is_local(&url) => Ok(Self::Url(url)),
            "http" => Err(JwksError::Source("keys from another machine need `https://`")),
            _ => Err(JwksError::Source("it is neither a path nor an `https://` URL")),
        }
    }
}

impl fmt::Display for JwksSource {
    /// Without the query, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(url) => write!(f, "{}{}", url.origin().ascii_serialization(), url.path()),
        }
    }
}

impl fmt::Debug for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JwksSource({self})")
    }
}

fn is_local(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback)
}

/// Why a key set could not be had.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// It is not known where to look.
    #[error("the key set's place is not usable: {0}")]
    Source(&'static str),
    /// The file could not be read.
    #[error("the key set could not be read: {0}")]
    Read(#[from] std::io::Error),
    /// The address did not answer as it should.
    #[error("the key set could not be fetched: {0}")]
    Fetch(String),
    /// The answer was no key set.
    #[error("the key set was answered with status {0}")]
    Status(u16),
    /// More than any key set is.
    #[error("the key set is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// Not a JSON object with a list of `keys`.
    #[error("the key set is not a JSON Web Key Set: {0}")]
    Malformed(String),
    /// Keys, but none to verify a token with.
    #[error("the key set has no key for EdDSA, ES256 or RS256 signatures")]
    NoUsableKey,
}

impl From<reqwest::Error> for JwksError {
    fn from(error: reqwest::Error) -> Self {
        // The URL may have a secret in its query, and the innermost cause says most.
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        if error.is_timeout() { Self::Fetch("it took too long".into()) } else { Self::Fetch(cause.to_string()) }
    }
}

/// Reads a key set, leaving out the keys that are for something else.
pub fn parse(text: &[u8]) -> Result<KeySet, JwksError> {
    #[derive(Deserialize)]
    struct Document {
        keys: Vec<Value>,
    }
    let document: Document = serde_json::from_slice(text).map_err(|error| JwksError::Malformed(error.to_string()))?;
    let mut set = KeySet::default();
    for (index, key) in document.keys.into_iter().enumerate() {
        let added = serde_json::from_value::<Jwk>(key).map_err(|_| "it is not a key").and_then(|jwk| set.add(&jwk));
        if let Err(why) = added {
            tracing::debug!(index, why, "jwks: key not usable, ignoring it");
        }
    }
    if set.is_empty() { Err(JwksError::NoUsableKey) } else { Ok(set) }
}

/// A key set's place, and how often to look there.
pub struct Jwks {
    source: JwksSource,
    client: Client,
    /// How often they are fetched.
    every: Duration,
    /// The least time between two looks, however many unknown keys are named meanwhile.
    at_most_every: Duration,
    /// How old keys may become while they cannot be fetched: a key that was withdrawn meanwhile is good no longer than that.
    max_age: Duration,
}

impl Jwks {
    /// Looks at a source every five minutes, and sooner after a failure or when a token names an unknown key, but not twice within 30
    /// seconds.
    pub fn new(source: JwksSource, max_age: Duration) -> Result<Self, JwksError> {
        let builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(FETCH_TIMEOUT)
            // A redirect could lead away from https, and a key set has no reason to move.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("salon/", env!("CARGO_PKG_VERSION")));
        let local = matches!(&source, JwksSource::Url(url) if is_local(url));
        let client = if local { builder.no_proxy() } else { builder }.build()?;
        let [every, at_most_every] = [300, 30].map(Duration::from_secs);
        Ok(Self { source, client, every, at_most_every, max_age })
    }

    /// The keys as they are now.
    pub async fn fetch(&self) -> Result<KeySet, JwksError> {
        match &self.source {
            JwksSource::Url(url) => parse(&self.get(url).await?),
            JwksSource::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                parse(&read.map_err(|error| JwksError::Fetch(error.to_string()))??)
            }
        }
    }

    async fn get(&self, url: &Url) -> Result<Vec<u8>, JwksError> {
        let mut response = self.client.get(url.clone()).header("accept", "application/json").send().await?;
        if response.status() != 200 {
            return Err(JwksError::Status(response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(JwksError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Keeps a verifier's keys fresh until `shutdown`. A failed look keeps the keys there are until they are too old.
    pub async fn refresh(&self, verifier: &Verifier, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let mut looked = Instant::now();
        let mut fresh_at = looked;
        let mut wait = self.every;
        loop {
            let work = async {
                tokio::select! {
                    () = tokio::time::sleep_until(looked + wait) => {}
                    () = verifier.unknown_key() => tokio::time::sleep_until(looked + self.at_most_every).await,
                }
                self.fetch().await
            };
            let fetched = tokio::select! { biased;
                () = &mut shutdown => return,
                fetched = work => fetched,
            };
            looked = Instant::now();
            match fetched {
                Ok(keys) => {
                    tracing::debug!(source = %self.source, keys = keys.len(), "jwks: key set refreshed");
                    verifier.trust(keys);
                    (fresh_at, wait) = (looked, self.every);
                }
                Err(error) => {
                    wait = self.at_most_every.min(self.every);
                    self.failed(verifier, &error, looked - fresh_at);
                }
            }
        }
    }

    fn failed(&self, verifier: &Verifier, error: &JwksError, age: Duration) {
        let source = &self.source;
        match self.max_age.checked_sub(age) {
            Some(left) if !left.is_zero() => {
                let left_s = left.as_secs();
                tracing::warn!(%source, %error, left_s, "jwks: refresh failed, keeping the present keys for now");
            }
            _ => {
                tracing::error!(%source, %error, age_s = age.as_secs(), "jwks: keys too old, refusing tokens signed with them until a refresh succeeds");
                verifier.distrust();
            }
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, JwksError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES { Err(JwksError::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
#[path = "jwks_tests.rs"]
mod tests;
