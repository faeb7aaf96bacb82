//! Requests to a platform's HTTP API: one client, no redirects, bounded answers.
//!
//! Deliberately absent: retries and rate limits. Each platform has its own; this module carries what they are decided by.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, StatusCode, Url, redirect};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::platform::{DriverError, PlatformFailure};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest answer that is read.
const MAX_ANSWER: usize = 8 << 20;

/// What a platform may ask a bridge to wait at most. A longer wait is retried then, and asked for again.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: ApiBody,
}

/// The body of a request.
#[derive(Debug, Clone)]
pub(crate) enum ApiBody {
    #[cfg(any(feature = "discord", feature = "matrix"))]
    None,
    Json(Value),
    /// `application/x-www-form-urlencoded`, which is also the format of a query.
    #[cfg(feature = "slack")]
    Form(String),
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct ApiAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request that has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct ApiRequestError {
    pub(crate) reason: String,
    /// Whether the platform certainly has not seen the request, because there was no connection.
    pub(crate) is_unsent: bool,
}

impl ApiRequestError {
    fn after_sending(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_unsent: false }
    }

    /// What an action that ended like this has come to.
    pub(crate) fn into_failure(self) -> PlatformFailure {
        let Self { reason, is_unsent } = self;
        if is_unsent { PlatformFailure::Offline { reason } } else { PlatformFailure::Unknown { reason } }
    }
}

/// Sends requests with one credential.
#[derive(Clone)]
pub(crate) struct ApiSender {
    client: reqwest::Client,
    authorization: HeaderValue,
}

impl ApiSender {
    /// `authorization` is the whole header, such as `Bearer …`.
    pub(crate) fn new(authorization: &str) -> Result<Self, DriverError> {
        let mut authorization = HeaderValue::from_str(authorization)
            .map_err(|_| DriverError("the token has characters that HTTP does not allow in a header".into()))?;
        authorization.set_sensitive(true);
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("salon-bridge/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| DriverError(describe(&error).reason))?;
        Ok(Self { client, authorization })
    }

    pub(crate) async fn send(&self, request: &ApiRequest) -> Result<ApiAnswer, ApiRequestError> {
        let mut builder = self.client.request(request.method.clone(), request.url.clone());
        builder = builder.header(AUTHORIZATION, self.authorization.clone());
        builder = match &request.body {
            #[cfg(any(feature = "discord", feature = "matrix"))]
            ApiBody::None => builder,
            ApiBody::Json(body) => {
                builder.header(CONTENT_TYPE, "application/json; charset=utf-8").body(body.to_string())
            }
            #[cfg(feature = "slack")]
            ApiBody::Form(body) => builder.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.clone()),
        };
        let mut response = builder.send().await.map_err(|error| describe(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| describe(&error))? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(ApiRequestError::after_sending(format!("the answer is larger than {MAX_ANSWER} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(ApiAnswer { status, headers, body: body.into() })
    }
}

impl ApiAnswer {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// The wait that `Retry-After` asks for, in seconds (RFC 9110 §10.2.3; platforms send no dates, and some send fractions).
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds: f64 = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        bounded_wait(seconds)
    }
}

/// A wait that a platform asked for in seconds, within bounds. `None` for what is no duration.
pub(crate) fn bounded_wait(seconds: f64) -> Option<Duration> {
    if seconds.is_nan() {
        return None;
    }
    Duration::try_from_secs_f64(seconds.min(MAX_RETRY_AFTER.as_secs_f64())).ok()
}

/// Without the address, whose path or query may hold a secret.
fn describe(error: &reqwest::Error) -> ApiRequestError {
    let kind = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "cannot connect"
    } else {
        "the request failed"
    };
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(std::error::Error::source) {
        cause = Some(deeper);
    }
    let reason = cause.map_or_else(|| kind.to_owned(), |cause| format!("{kind}: {cause}"));
    ApiRequestError { reason, is_unsent: error.is_connect() }
}
