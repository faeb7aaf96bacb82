//! HTTP+SSE, of revision 2024-11-05: one stream brings everything, and its first event says where to POST.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;
use salon_mcp::RpcHead;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::frame;
use super::http::{HttpEvents, HttpFailure, HttpUpstream, header_map};
use super::lanes::{Lanes, SendLane, ends_handshake};
use super::{Outbound, UpstreamError, UpstreamMessage, UpstreamSetup};

/// How long the stream may take to say where to POST.
const ENDPOINT: Duration = Duration::from_secs(20);

/// How long a POST may take: its answer comes on the stream.
const POST: Duration = Duration::from_secs(60);

/// The sending half. The session is the stream, so there is nothing to resume.
pub(super) struct LegacySse {
    http: HttpUpstream,
    endpoint: Url,
    guest: Arc<str>,
    inbound: mpsc::Sender<UpstreamMessage>,
    lanes: Lanes,
}

/// The endpoint's query is the session.
impl fmt::Debug for LegacySse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacySse").field("guest", &self.guest).field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

impl LegacySse {
    pub(super) async fn open(
        http: HttpUpstream,
        setup: &UpstreamSetup,
        inbound: mpsc::Sender<UpstreamMessage>,
    ) -> Result<Self, UpstreamError> {
        let (events, endpoint) =
            timeout(ENDPOINT, connect(&http)).await.map_err(|_| UpstreamError::TimedOut(ENDPOINT))??;
        let (lanes, guest) = (Lanes::new(), setup.guest.clone());
        lanes.spawn(read(events, guest.clone(), inbound.clone()));
        Ok(Self { http, endpoint, guest, inbound, lanes })
    }

    pub(super) async fn send(&self, message: Outbound) -> Result<(), UpstreamError> {
        if self.inbound.is_closed() {
            return Err(UpstreamError::Closed);
        }
        let Outbound { text, headers } = message;
        let headers = header_map(&headers)?;
        let head =
            RpcHead::read(&text).ok_or_else(|| UpstreamError::NotMcp("a message must be a JSON object".into()))?;
        let id = head.request_id().map(Box::<str>::from);
        let place = self.lanes.place(SendLane::of(&head)).await?;
        let held = ends_handshake(&head).then(|| self.lanes.hold());
        let (http, endpoint, guest) = (self.http.clone(), self.endpoint.clone(), self.guest.clone());
        let (ready, inbound) = (self.lanes.ready(), self.inbound.clone());
        self.lanes.spawn(async move {
            if held.is_none() {
                ready.await;
            }
            let posted = timeout(POST, post(&http, &endpoint, headers, &text)).await;
            drop((held, place));
            let failure = match posted {
                Ok(Ok(())) => return,
                Ok(Err(failure)) => failure,
                Err(_) => HttpFailure::because("the server did not take it in time"),
            };
            match id {
                Some(id) => {
                    let error = failure.error().map(Box::from);
                    let _ = inbound.send(UpstreamMessage::Failed { id, why: failure.why, error }).await;
                }
                None => {
                    tracing::warn!(target: "guest", guest = &*guest, "upstream: message not delivered: {}", failure.why);
                }
            }
        });
        Ok(())
    }

    /// Says something that wants no answer, and waits until it has been taken.
    pub(super) async fn tell(&self, text: &str) {
        // What is lost now is lost for nobody.
        let _ = timeout(POST, post(&self.http, &self.endpoint, HeaderMap::new(), text)).await;
    }

    /// Dropping the stream ends the session.
    pub(super) fn close(self) {}
}

/// Opens the stream and waits for the endpoint.
pub(super) async fn connect(http: &HttpUpstream) -> Result<(HttpEvents, Url), UpstreamError> {
    let mut events = http.stream(HeaderMap::new()).await.map_err(HttpFailure::into_error)?;
    while let Some(event) = events.next().await.map_err(HttpFailure::into_error)? {
        if event.name == "endpoint" {
            return Ok((events, endpoint(http.url(), &event.data)?));
        }
    }
    Err(UpstreamError::NotMcp("its stream ended before it named an endpoint".into()))
}

/// The endpoint may be relative, and must be where the user sent us: requests to it carry the user's headers.
fn endpoint(base: &Url, named: &str) -> Result<Url, UpstreamError> {
    let url = base.join(named.trim()).map_err(|error| UpstreamError::NotMcp(format!("its endpoint: {error}")))?;
    if url.origin() != base.origin() {
        return Err(UpstreamError::NotMcp("its endpoint is at another origin".into()));
    }
    Ok(url)
}

async fn post(http: &HttpUpstream, endpoint: &Url, headers: HeaderMap, text: &str) -> Result<(), HttpFailure> {
    let response = http.post(endpoint, headers, text).await?;
    if response.status().is_success() { Ok(()) } else { Err(HttpFailure::refused(response).await) }
}

async fn read(mut events: HttpEvents, guest: Arc<str>, inbound: mpsc::Sender<UpstreamMessage>) {
    let why = loop {
        match events.next().await {
            Ok(Some(event)) if event.name == "message" && !event.data.is_empty() => {
                let Some(messages) = frame::split(&event.data) else {
                    let guest = &*guest;
                    tracing::warn!(target: "guest", guest, "upstream: message is not JSON-RPC, skipped");
                    continue;
                };
                for text in messages {
                    if inbound.send(UpstreamMessage::Message { text: text.into(), related: None }).await.is_err() {
                        return;
                    }
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => break "the server's stream ended".to_owned(),
            Err(failure) => break failure.why,
        }
    };
    let _ = inbound.send(UpstreamMessage::Ended { why }).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_stays_at_its_origin() {
        let base = Url::parse("http://127.0.0.1:9/a/sse?key=1").unwrap();
        let at = |named: &str| endpoint(&base, named).map(String::from).map_err(|error| error.to_string());
        assert_eq!(at("/messages?s=1").unwrap(), "http://127.0.0.1:9/messages?s=1");
        assert_eq!(at("messages").unwrap(), "http://127.0.0.1:9/a/messages");
        assert_eq!(at("http://127.0.0.1:9/x").unwrap(), "http://127.0.0.1:9/x");
        for other in ["http://127.0.0.1:10/x", "//elsewhere/x", "https://127.0.0.1:9/x", "file:///etc"] {
            assert_eq!(at(other).unwrap_err(), "it does not speak MCP: its endpoint is at another origin", "{other}");
        }
    }
}
