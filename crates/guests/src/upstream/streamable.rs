//! Streamable HTTP, of both eras: every message is a POST, and its answer is JSON or a stream of events.
//!
//! In the legacy era there is a session, a stream of its own for what the server says unasked ([`StreamableShared::listen`]), and a stream
//! that breaks is resumed. The modern era has none of these: a stream that ends has ended its request.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use salon_mcp::{Revision, RpcHead};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::frame;
use super::http::{BodyKind, HttpEvents, HttpFailure, HttpUpstream, header_map, kind, read_text};
use super::lanes::{Lanes, SendGate, SendLane, ends_handshake};
use super::{Era, Outbound, UpstreamError, UpstreamMessage, UpstreamSetup};

pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a message that wants no answer may take.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a stream may stay open after its answer, for what the server still says and so that the connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a stream is resumed in vain before its request has failed.
const RESUMES: u32 = 8;

/// When the server does not say how long to wait before resuming, and what is made of what it says.
const RESUME_DELAY: Duration = Duration::from_secs(1);
const MIN_RESUME_DELAY: Duration = Duration::from_millis(20);
const MAX_RESUME_DELAY: Duration = Duration::from_secs(60);

/// How long requests wait for the first GET stream.
const OPENING_TIME: Duration = Duration::from_secs(1);

/// A GET stream that lasted this long was no failure, though it brought nothing.
const RESET_BACKOFF_AFTER: Duration = Duration::from_secs(10);

/// How long deleting the session of a dropped connection may take.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// The sending half.
#[derive(Debug)]
pub(super) struct Streamable {
    lanes: Lanes,
    shared: Arc<StreamableShared>,
}

#[derive(Debug)]
struct StreamableShared {
    http: HttpUpstream,
    era: Era,
    guest: Arc<str>,
    inbound: mpsc::Sender<UpstreamMessage>,
    session: Mutex<HttpUpstreamSession>,
    /// Requests under way, by their id.
    open_requests: Mutex<HashMap<Box<str>, CancellationToken>>,
}

/// What `initialize` agreed on; in the modern era only the revision, from the beginning.
#[derive(Debug, Default)]
struct HttpUpstreamSession {
    id: Option<HeaderValue>,
    revision: Option<HeaderValue>,
}

impl Streamable {
    pub(super) fn open(
        http: HttpUpstream,
        era: Era,
        setup: &UpstreamSetup,
        inbound: mpsc::Sender<UpstreamMessage>,
    ) -> Self {
        let revision = (era == Era::Modern).then(|| HeaderValue::from_static(Revision::MODERN.date()));
        let shared = StreamableShared {
            http,
            era,
            guest: setup.guest.clone(),
            inbound,
            session: Mutex::new(HttpUpstreamSession { id: None, revision }),
            open_requests: Mutex::default(),
        };
        Self { lanes: Lanes::new(), shared: Arc::new(shared) }
    }

    pub(super) async fn send(&self, message: Outbound) -> Result<(), UpstreamError> {
        if self.shared.inbound.is_closed() {
            return Err(UpstreamError::Closed);
        }
        let Outbound { text, headers } = message;
        let headers = header_map(&headers)?;
        let head =
            RpcHead::read(&text).ok_or_else(|| UpstreamError::NotMcp("a message must be a JSON object".into()))?;
        let place = self.lanes.place(SendLane::of(&head)).await?;
        let (ready, shared) = (self.lanes.ready(), self.shared.clone());
        let Some(id) = head.request_id().map(Box::<str>::from) else {
            let begins = shared.era == Era::Legacy && ends_handshake(&head);
            let held = begins.then(|| self.lanes.hold());
            self.lanes.spawn(async move {
                if held.is_none() {
                    ready.await;
                }
                let heard = shared.tell(&text, headers).await;
                drop(place);
                if begins && heard {
                    shared.listen(held).await;
                }
            });
            return Ok(());
        };
        let opens = shared.era == Era::Legacy && head.method.as_deref() == Some("initialize");
        let abandoned = CancellationToken::new();
        shared.open_requests().insert(id.clone(), abandoned.clone());
        self.lanes.spawn(async move {
            let asking = async {
                ready.await;
                shared.ask(&id, &text, headers, opens, place).await;
            };
            tokio::select! { biased;
                () = abandoned.cancelled() => {}
                () = asking => {}
            }
        });
        Ok(())
    }

    /// Says something that wants no answer, and waits until it has been taken.
    pub(super) async fn tell(&self, text: &str) {
        self.shared.tell(text, HeaderMap::new()).await;
    }

    pub(super) fn abandon(&self, request_id: &str) {
        if let Some(abandoned) = self.shared.open_requests().remove(request_id) {
            abandoned.cancel();
        }
    }

    pub(super) async fn close(self, grace: Duration) {
        let farewell = self.shared.farewell();
        drop(self);
        if let Some(farewell) = farewell {
            let _ = timeout(grace, farewell).await;
        }
    }
}

impl Drop for Streamable {
    fn drop(&mut self) {
        let Some(farewell) = self.shared.farewell() else { return };
        // Nobody is left to own this task; its time is short. Without a runtime the server has to notice by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(timeout(DELETE_TIMEOUT, farewell));
        }
    }
}

/// Nobody reads any more.
struct AbandonedExchange;

impl StreamableShared {
    fn open_requests(&self) -> MutexGuard<'_, HashMap<Box<str>, CancellationToken>> {
        self.open_requests.lock()
    }

    fn session(&self) -> MutexGuard<'_, HttpUpstreamSession> {
        self.session.lock()
    }

    /// The connection's own headers, which a message's may replace.
    fn headers(&self) -> HeaderMap {
        let session = self.session();
        let own = [(SESSION_ID, &session.id), (PROTOCOL_VERSION, &session.revision)];
        own.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }

    /// Deletes the session, once.
    fn farewell(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let headers = self.headers();
        self.session().id.take()?;
        let http = self.http.clone();
        Some(async move { http.delete(headers).await })
    }

    async fn post(&self, text: &str, headers: HeaderMap) -> Result<Response, HttpFailure> {
        let mut all = self.headers();
        all.extend(headers);
        let response = self.http.post(self.http.url(), all, text).await?;
        if response.status().is_success() { Ok(response) } else { Err(HttpFailure::refused(response).await) }
    }

    /// Posts a message that wants no answer. Whether it was taken.
    async fn tell(&self, text: &str, headers: HeaderMap) -> bool {
        let failure = match timeout(NOTIFICATION_TIMEOUT, self.post(text, headers)).await {
            Ok(Ok(_)) => return true,
            Ok(Err(failure)) => failure,
            Err(_) => HttpFailure::because("the server did not take it in time"),
        };
        let guest = &*self.guest;
        tracing::warn!(target: "guest", guest, "upstream: message not delivered: {}", failure.why);
        self.end_if_closed(&failure).await;
        false
    }

    /// Posts a request and delivers what comes for it.
    async fn ask(&self, id: &str, text: &str, headers: HeaderMap, opens: bool, place: OwnedSemaphorePermit) {
        let outcome = self.exchange(id, text, headers, opens).await;
        self.open_requests().remove(id);
        drop(place);
        match outcome {
            Ok(Ok(None)) | Err(AbandonedExchange) => {}
            Ok(Ok(Some(rest))) => {
                let _ = timeout(DRAIN_TIMEOUT, self.drain(rest, id)).await;
            }
            Ok(Err(failure)) if failure.answers(id) => {
                let text = failure.body.clone().unwrap_or_default();
                let _ = self.notify_owner(UpstreamMessage::Message { text, related: Some(id.into()) }).await;
            }
            Ok(Err(failure)) => {
                let error = failure.error().map(Box::from);
                let failed = UpstreamMessage::Failed { id: id.into(), why: failure.why.clone(), error };
                let _ = self.notify_owner(failed).await;
                self.end_if_closed(&failure).await;
            }
        }
    }

    /// Until the answer is there. The stream it came on may have more to say.
    async fn exchange(
        &self,
        id: &str,
        text: &str,
        headers: HeaderMap,
        opens: bool,
    ) -> Result<Result<Option<HttpEvents>, HttpFailure>, AbandonedExchange> {
        let response = match self.post(text, headers).await {
            Ok(response) => response,
            Err(failure) => return Ok(Err(failure)),
        };
        if opens {
            let id = response.headers().get(SESSION_ID).cloned().map(|mut id| {
                id.set_sensitive(true);
                id
            });
            self.session().id = id;
        }
        match kind(&response) {
            BodyKind::Events => self.follow(id, HttpEvents::new(response), opens).await,
            BodyKind::Json | BodyKind::Other => {
                let text = match read_text(response).await {
                    Ok(text) => text,
                    Err(failure) => return Ok(Err(failure)),
                };
                if self.deliver(&text, Some(id), opens).await? {
                    return Ok(Ok(None));
                }
                Ok(Err(HttpFailure::because("the server's answer has no answer to the request in it")))
            }
        }
    }

    /// Reads a stream, and in the legacy era those that resume it, until the answer has come.
    async fn follow(
        &self,
        id: &str,
        mut events: HttpEvents,
        opens: bool,
    ) -> Result<Result<Option<HttpEvents>, HttpFailure>, AbandonedExchange> {
        let (mut last, mut in_vain) = (None, 0);
        loop {
            match events.next().await {
                Ok(Some(event)) => {
                    in_vain = 0;
                    last = event.id;
                    if event.name == "message" && self.deliver(&event.data, Some(id), opens).await? {
                        return Ok(Ok(Some(events)));
                    }
                    continue;
                }
                Ok(None) => {}
                Err(failure) => return Ok(Err(failure)),
            }
            let Some(from) = last.as_deref().filter(|_| self.era == Era::Legacy) else {
                return Ok(Err(HttpFailure::because("the server's stream ended before the answer")));
            };
            events = loop {
                if in_vain == RESUMES {
                    return Ok(Err(HttpFailure::because("the server's stream broke and could not be resumed")));
                }
                sleep(pause(events.retry(), in_vain)).await;
                in_vain += 1;
                match self.resume(Some(from)).await {
                    Ok(events) => break events,
                    Err(failure) if failure.nobody || failure.status.is_some_and(|status| status.is_client_error()) => {
                        return Ok(Err(failure));
                    }
                    Err(_) => {}
                }
            };
        }
    }

    async fn drain(&self, mut events: HttpEvents, id: &str) -> Result<(), AbandonedExchange> {
        while let Ok(Some(event)) = events.next().await {
            if event.name == "message" {
                self.deliver(&event.data, Some(id), false).await?;
            }
        }
        Ok(())
    }

    async fn resume(&self, last: Option<&str>) -> Result<HttpEvents, HttpFailure> {
        let mut headers = self.headers();
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            headers.insert(LAST_EVENT_ID, last);
        }
        self.http.stream(headers).await
    }

    /// Opens the stream that [`Self::listen`] reads, and lets go of what is held then.
    async fn open_listening(&self, last: Option<&str>, held: Option<SendGate>) -> Result<HttpEvents, HttpFailure> {
        let mut opening = pin!(self.resume(last));
        match timeout(OPENING_TIME, &mut opening).await {
            Ok(opened) => opened,
            // A server may answer with nothing until it has something to say.
            Err(_) => {
                drop(held);
                opening.await
            }
        }
    }

    /// The legacy era's stream for what the server says unasked. Opened again as long as the session lasts, so a server that was
    /// restarted is noticed here, without a request.
    ///
    /// Requests are held until it is open: what a server asks on it while nobody reads it, some servers drop, and a call would wait in vain.
    async fn listen(&self, mut held: Option<SendGate>) {
        let (mut last, mut retry, mut in_vain, mut served) = (None::<Box<str>>, None, 0, false);
        loop {
            let began = Instant::now();
            let opened = self.open_listening(last.as_deref(), held.take()).await;
            match opened {
                Ok(mut events) => {
                    served = true;
                    while let Ok(Some(event)) = events.next().await {
                        in_vain = 0;
                        last = event.id;
                        if event.name == "message" && self.deliver(&event.data, None, false).await.is_err() {
                            return;
                        }
                    }
                    retry = events.retry().or(retry);
                }
                // Most servers that have no such stream say 405, but not all.
                Err(failure) if !served && failure.status.is_some_and(|status| status.is_client_error()) => return,
                Err(failure) => {
                    if self.end_if_closed(&failure).await {
                        return;
                    }
                }
            }
            if began.elapsed() >= RESET_BACKOFF_AFTER {
                in_vain = 0;
            }
            sleep(pause(retry, in_vain)).await;
            in_vain += 1;
        }
    }

    /// Hands messages on. Whether the answer to the request was among them.
    async fn deliver(&self, text: &str, id: Option<&str>, opens: bool) -> Result<bool, AbandonedExchange> {
        if text.is_empty() {
            return Ok(false);
        }
        let Some(messages) = frame::split(text) else {
            let guest = &*self.guest;
            tracing::warn!(target: "guest", guest, "upstream: message is not JSON-RPC, skipped");
            return Ok(false);
        };
        let mut answered = false;
        for message in messages {
            if let (Some(id), Some(head)) = (id, RpcHead::read(message))
                && head.answers(id)
            {
                answered = true;
                if opens {
                    self.agree(&head);
                }
            }
            self.notify_owner(UpstreamMessage::Message { text: message.into(), related: id.map(Box::from) }).await?;
        }
        Ok(answered)
    }

    /// Takes the revision from the answer to `initialize`.
    fn agree(&self, head: &RpcHead<'_>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Agreed<'a> {
            protocol_version: &'a str,
        }
        let agreed = head.result.and_then(|result| serde_json::from_str::<Agreed<'_>>(result.get()).ok());
        self.session().revision = agreed.and_then(|agreed| HeaderValue::from_str(agreed.protocol_version).ok());
    }

    async fn notify_owner(&self, received: UpstreamMessage) -> Result<(), AbandonedExchange> {
        self.inbound.send(received).await.map_err(|_| AbandonedExchange)
    }

    /// A session that the server does not know any more is the end of the connection.
    async fn end_if_closed(&self, failure: &HttpFailure) -> bool {
        if failure.nobody {
            let _ = self.notify_owner(UpstreamMessage::Ended { why: failure.why.clone() }).await;
            return true;
        }
        let in_session = self.session().id.is_some();
        let gone = in_session
            && match failure.status {
                Some(StatusCode::NOT_FOUND) => true,
                // Not what the specification says, but what some servers do after a restart.
                Some(StatusCode::BAD_REQUEST) => {
                    let nameless = failure.body.as_deref().and_then(RpcHead::read).is_none_or(|head| head.id.is_none());
                    nameless && failure.why.to_ascii_lowercase().contains("session")
                }
                _ => false,
            };
        if gone {
            self.session().id = None;
            let why = "the server does not know our session any more".to_owned();
            let _ = self.notify_owner(UpstreamMessage::Ended { why }).await;
        }
        gone
    }
}

fn pause(asked: Option<Duration>, in_vain: u32) -> Duration {
    let base = asked.unwrap_or(RESUME_DELAY).clamp(MIN_RESUME_DELAY, MAX_RESUME_DELAY);
    base.saturating_mul(1 << in_vain.min(5)).min(MAX_RESUME_DELAY)
}
