//! HTTP as both HTTP transports need it: the user's headers on every request, no redirect to another origin, bounded answers.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, redirect};
use salon_client::internal::sse::{SseDecoder, SseEvent};
use salon_mcp::RpcHead;

use super::frame::ErrorObject;
use super::{MAX_MESSAGE, UpstreamError};
use crate::oauth::{BearerChallenge, GuestAccess, OAuthTokens, is_loopback};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// How much of an error's body is read, and how much of that is shown.
const MAX_REFUSAL: usize = 64 * 1024;
const MAX_QUOTED_CHARS: usize = 200;

const MAX_REDIRECTS: usize = 5;

const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A server's address, and how to speak with it.
#[derive(Clone)]
pub(super) struct HttpUpstream {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    tokens: Option<TokenSender>,
}

/// What sends requests with tokens: another client, which follows no redirects.
#[derive(Clone)]
struct TokenSender {
    access: Arc<GuestAccess>,
    client: reqwest::Client,
}

/// A URL's path or query may be a key, so no more than the names of headers can be printed.
impl fmt::Debug for HttpUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Http").field("headers", &names).finish_non_exhaustive()
    }
}

impl HttpUpstream {
    pub(super) fn new(url: &str, headers: &[(String, String)]) -> Result<Self, UpstreamError> {
        let url = Url::parse(url).map_err(|error| UpstreamError::Url(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UpstreamError::Url(format!("`{}` is not http or https", url.scheme())));
        }
        let headers = header_map(headers)?;
        let client = client(&url, redirect::Policy::custom(follow))?;
        Ok(Self { client, url, headers, tokens: None })
    }

    /// The same with tokens, unless the user gave credentials.
    pub(super) fn with_access(mut self, access: Option<Arc<GuestAccess>>) -> Result<Self, UpstreamError> {
        if let Some(access) = access.filter(|_| !self.headers.contains_key(AUTHORIZATION)) {
            let client = client(&self.url, redirect::Policy::none())?;
            self.tokens = Some(TokenSender { access, client });
        }
        Ok(self)
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Posts one message. The answer may take as long as the call does.
    pub(super) async fn post(&self, url: &Url, headers: HeaderMap, text: &str) -> Result<Response, HttpFailure> {
        let prepare = |client: &reqwest::Client| {
            let request = self.request(client, Method::POST, url).header(ACCEPT, BOTH).header(CONTENT_TYPE, JSON);
            request.headers(headers.clone()).body(text.to_owned())
        };
        self.send(prepare).await
    }

    /// Opens a stream of events.
    pub(super) async fn stream(&self, headers: HeaderMap) -> Result<HttpEvents, HttpFailure> {
        let prepare = |client: &reqwest::Client| {
            self.request(client, Method::GET, &self.url).header(ACCEPT, EVENTS).headers(headers.clone())
        };
        let response = self.send(prepare).await?;
        if !response.status().is_success() {
            return Err(HttpFailure::refused(response).await);
        }
        match kind(&response) {
            BodyKind::Events => Ok(HttpEvents::new(response)),
            BodyKind::Json | BodyKind::Other => {
                Err(HttpFailure::because("it answered GET with something else than events"))
            }
        }
    }

    /// Ends a session, as far as that can be done. Not worth a refresh.
    pub(super) async fn delete(&self, headers: HeaderMap) {
        let prepare =
            |client: &reqwest::Client| self.request(client, Method::DELETE, &self.url).headers(headers.clone());
        let held = self.tokens.as_ref().and_then(|tokens| tokens.access.current());
        let _ = self.attempt(&prepare, held.as_deref()).await;
    }

    /// A request to the server, at its own origin: `url` is its address, or an endpoint that has been checked.
    fn request(&self, client: &reqwest::Client, method: Method, url: &Url) -> RequestBuilder {
        client.request(method, url.clone()).headers(self.headers.clone())
    }

    /// Sends a request with the tokens there are. One that is refused is sent once more, with new tokens.
    async fn send(&self, prepare: impl Fn(&reqwest::Client) -> RequestBuilder) -> Result<Response, HttpFailure> {
        let Some(TokenSender { access, .. }) = &self.tokens else { return self.attempt(&prepare, None).await };
        let used = access.tokens().await;
        let response = self.attempt(&prepare, used.as_deref()).await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => {}
            StatusCode::FORBIDDEN => {
                if let (Some(used), Some(challenge)) =
                    (used, challenge(&response).filter(BearerChallenge::is_insufficient_scope))
                {
                    access.lacks_scope(&used, challenge);
                }
                return Ok(response);
            }
            _ => return Ok(response),
        }
        let Some(fresh) = access.refused(used, challenge(&response)).await else { return Ok(response) };
        let response = self.attempt(&prepare, Some(&fresh)).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            access.refused_again(&fresh, challenge(&response));
        }
        Ok(response)
    }

    async fn attempt(
        &self,
        prepare: &impl Fn(&reqwest::Client) -> RequestBuilder,
        tokens: Option<&OAuthTokens>,
    ) -> Result<Response, HttpFailure> {
        let request = match (&self.tokens, tokens) {
            (Some(sender), Some(tokens)) => prepare(&sender.client).header(AUTHORIZATION, tokens.header()),
            _ => prepare(&self.client),
        };
        request.send().await.map_err(HttpFailure::network)
    }
}

fn client(url: &Url, redirects: redirect::Policy) -> Result<reqwest::Client, UpstreamError> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .tcp_keepalive(Duration::from_secs(30))
        .referer(false)
        .redirect(redirects);
    if is_loopback(url) {
        // No proxy reaches our own loopback.
        client = client.no_proxy();
    }
    client.build().map_err(|error| UpstreamError::Unreachable(format!("cannot prepare HTTP: {}", reason(error))))
}

/// The bearer challenge of an answer.
fn challenge(response: &Response) -> Option<BearerChallenge> {
    let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
    BearerChallenge::read(values.filter_map(|value| value.to_str().ok()))
}

/// Headers go only where the user sent them.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let first = attempt.previous().first();
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error("too many redirects")
    } else if first.is_some_and(|first| first.origin() == attempt.url().origin()) {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

pub(super) fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, UpstreamError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let parsed = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        let (Ok(key), Ok(mut value)) = parsed else { return Err(UpstreamError::Header(name.clone())) };
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}

/// What an answer's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    Events,
    Other,
}

pub(super) fn kind(response: &Response) -> BodyKind {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/json" => BodyKind::Json,
        "text/event-stream" => BodyKind::Events,
        _ => BodyKind::Other,
    }
}

/// Reads a body of at most [`MAX_MESSAGE`] bytes.
pub(super) async fn read_text(response: Response) -> Result<String, HttpFailure> {
    let (bytes, whole) = read(response, MAX_MESSAGE).await?;
    if !whole {
        return Err(HttpFailure::because(format!("its answer has more than {} MiB", MAX_MESSAGE >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| HttpFailure::because("its answer is no UTF-8"))
}

async fn read(mut response: Response, limit: usize) -> Result<(Vec<u8>, bool), HttpFailure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(HttpFailure::network)? {
        if bytes.len() + chunk.len() > limit {
            return Ok((bytes, false));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, true))
}

/// Events as they come.
pub(super) struct HttpEvents {
    response: Response,
    decoder: SseDecoder,
}

impl HttpEvents {
    pub(super) fn new(response: Response) -> Self {
        Self { response, decoder: SseDecoder::new(MAX_MESSAGE) }
    }

    /// The next event. `Ok(None)` when the stream ended or broke, which is the same for a stream that resumes; an error when going on is
    /// no use.
    pub(super) async fn next(&mut self) -> Result<Option<SseEvent>, HttpFailure> {
        loop {
            if let Some(event) = self.decoder.take() {
                return Ok(Some(event));
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => {
                    self.decoder.push(&chunk).map_err(|error| HttpFailure::because(error.to_string()))?
                }
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }

    /// How long the server asks to wait before coming back.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.decoder.retry()
    }
}

/// Why an HTTP request came to nothing.
#[derive(Debug)]
pub(super) struct HttpFailure {
    pub(super) why: String,
    pub(super) status: Option<StatusCode>,
    /// The body, when it is a JSON-RPC message with an error.
    pub(super) body: Option<Box<str>>,
    /// Nobody listens at the address: not a connection that broke, but a server that is not there.
    pub(super) nobody: bool,
}

impl HttpFailure {
    pub(super) fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), status: None, body: None, nobody: false }
    }

    pub(super) fn network(error: reqwest::Error) -> Self {
        let mut cause = error.source();
        let mut nobody = false;
        while let Some(inner) = cause {
            nobody |= inner.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused);
            cause = inner.source();
        }
        Self { nobody, ..Self::because(format!("cannot reach the server: {}", reason(error))) }
    }

    /// Reads an answer that is not a success.
    pub(super) async fn refused(response: Response) -> Self {
        let status = response.status();
        let redirect = status.is_redirection().then(|| redirect_note(&response));
        let text = read(response, MAX_REFUSAL).await.map(|(bytes, _)| bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let said = RpcHead::read(&text).and_then(|head| head.error).map(|error| {
            serde_json::from_str::<ErrorObject<'_>>(error.get()).map(|error| error.message).unwrap_or_default()
        });
        let body = said.is_some().then(|| Box::from(text));
        let mut why = format!("the server answered HTTP {}", status.as_u16());
        why.push_str(redirect.unwrap_or_default());
        if let Some(said) = said.filter(|said| !said.is_empty()) {
            why.push_str(": ");
            why.extend(said.chars().take(MAX_QUOTED_CHARS));
        }
        Self { why, status: Some(status), body, nobody: false }
    }

    /// The same, where there is no request to fail.
    pub(super) fn into_error(self) -> UpstreamError {
        match self.status {
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                UpstreamError::Unauthorized { status: self.status.map_or(0, |status| status.as_u16()) }
            }
            Some(status) => UpstreamError::Status { status: status.as_u16(), message: self.why },
            None => UpstreamError::Unreachable(self.why),
        }
    }

    /// The error object of the body, as JSON.
    pub(super) fn error(&self) -> Option<&str> {
        RpcHead::read(self.body.as_deref()?)?.error.map(|error| error.get())
    }

    /// Whether the body is an answer to that request.
    pub(super) fn answers(&self, id: &str) -> bool {
        self.body.as_deref().and_then(RpcHead::read).is_some_and(|head| head.answers(id))
    }
}

/// Why a redirect was not followed: within an origin only a request with a token is not sent on.
fn redirect_note(response: &Response) -> &'static str {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let target = location.and_then(|location| response.url().join(location).ok());
    match target.is_some_and(|target| target.origin() == response.url().origin()) {
        true => ", a redirect, which is not followed with a token: give the address that it leads to",
        false => ", a redirect to another origin, which is not followed",
    }
}

/// The innermost cause, without the URL, whose query may be a key.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    if let Some(mut source) = error.source() {
        while let Some(next) = source.source() {
            source = next;
        }
        cause = source;
    }
    cause.to_string()
}
