//! Requests to authorization servers and their answers, as data: the flows make and read them, `wire` carries them.

use std::fmt;

use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::AuthorizationError;
use super::error::shown;

/// A request.
pub(crate) struct OAuthRequest {
    pub(crate) url: Url,
    /// The body of a POST, with its media type. Without one the request is a GET.
    pub(crate) body: Option<(&'static str, String)>,
    /// The value of `Authorization`.
    pub(crate) authorization: Option<String>,
}

impl OAuthRequest {
    pub(crate) fn get(url: Url) -> Self {
        Self { url, body: None, authorization: None }
    }

    pub(crate) fn json(url: Url, body: String) -> Self {
        Self { url, body: Some(("application/json", body)), authorization: None }
    }

    pub(crate) fn form(url: Url, form: &Form) -> Self {
        Self { url, body: Some(("application/x-www-form-urlencoded", form.encoded())), authorization: None }
    }
}

/// Bodies hold codes, secrets and tokens.
impl fmt::Debug for OAuthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthRequest").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// The fields of a form, in order.
#[derive(Default)]
pub(crate) struct Form(Vec<(&'static str, String)>);

impl Form {
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    pub(crate) fn with_some(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the fields to the query of a URL, which may have one of its own (RFC 6749 §3.1).
    pub(crate) fn append_to(&self, url: &mut Url) {
        url.query_pairs_mut().extend_pairs(&self.0);
    }

    fn encoded(&self) -> String {
        let mut url = Url::parse("form:").expect("a URL without a host");
        self.append_to(&mut url);
        url.query().unwrap_or_default().to_owned()
    }
}

/// An answer.
pub(crate) struct OAuthAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

impl OAuthAnswer {
    /// A successful answer's body. An error of OAuth (RFC 6749 §5.2) is told in its own words.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, AuthorizationError> {
        if !self.status.is_success() {
            return Err(match self.error().filter(|_| !self.is_passing()) {
                Some(error) if error.voids_tokens() => AuthorizationError::Void(error.to_string()),
                Some(error) => AuthorizationError::Refused(error.to_string()),
                None => AuthorizationError::Answer(format!("HTTP {}", self.status.as_u16())),
            });
        }
        // The parser's own message could quote a token.
        serde_json::from_str(&self.body)
            .map_err(|_| AuthorizationError::Answer("it is not the JSON that was asked for".into()))
    }

    /// Whether the server is in trouble: it has refused nothing.
    pub(crate) fn is_passing(&self) -> bool {
        self.status.is_server_error() || self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// The error, where the answer is one of OAuth.
    pub(crate) fn error(&self) -> Option<OAuthFailure> {
        serde_json::from_str(&self.body).ok().filter(|_| !self.status.is_success())
    }
}

/// An error as OAuth writes it.
#[derive(Deserialize)]
pub(crate) struct OAuthFailure {
    pub(crate) error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl OAuthFailure {
    pub(crate) fn new(error: &str, description: Option<&str>) -> Self {
        Self { error: error.to_owned(), error_description: description.map(str::to_owned) }
    }

    /// Whether the grant or its client is good no more (RFC 6749 §5.2). Other errors are of the one request.
    fn voids_tokens(&self) -> bool {
        matches!(&*self.error, "invalid_grant" | "invalid_client" | "unauthorized_client")
    }
}

impl fmt::Display for OAuthFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.error))?;
        match &self.error_description {
            Some(description) => write!(f, " ({})", shown(description)),
            None => Ok(()),
        }
    }
}
