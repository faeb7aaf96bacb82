//! Reading along without being in the room.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::http::{HeaderValue, Request, header};
use salon_protocol::{Envelope, EnvelopeId, TopicName, percent_encoded};

use crate::error::ReplyError;
use crate::sse::SseDecoder;
use crate::{Client, Event, RestError};

/// The gateway sends a comment every 15 s; after three times as long without one the connection is lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);

/// The longest event that is read: more than any gateway lets a participant send.
const MAX_BYTES: usize = 256 << 20;

/// A topic's event stream. Reading it makes nobody a participant.
///
/// Deliberately absent: coming back after a lost connection. The reader knows the last envelope and can [follow](Client::follow) again
/// from there.
pub struct Following {
    body: Incoming,
    /// What moves the bytes; gone when the connection is.
    connection: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    decoder: SseDecoder,
}

impl std::fmt::Debug for Following {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Following").finish_non_exhaustive()
    }
}

impl Client {
    /// Follows a topic from right after an envelope, or from now on.
    pub async fn follow(&self, topic: &TopicName, after: Option<&EnvelopeId>) -> Result<Following, RestError> {
        let token = self.tokens().token(false).await?;
        match self.follow_with(topic, after, &token).await {
            Err(error) if crate::entering::is_stale_token(&error) => {
                let token = self.tokens().token(true).await?;
                self.follow_with(topic, after, &token).await
            }
            followed => followed,
        }
    }

    async fn follow_with(
        &self,
        topic: &TopicName,
        after: Option<&EnvelopeId>,
        token: &crate::Token,
    ) -> Result<Following, RestError> {
        let mut request = self.request(&format!("/v0/topics/{}/stream", percent_encoded(topic.as_str())), Some(token));
        if let Some(after) = after {
            let id = HeaderValue::from_bytes(after.as_str().as_bytes());
            request = request.header("Last-Event-ID", id.expect("an envelope's id has no control characters"));
        }
        let request =
            request.body(Full::new(Bytes::new())).map_err(|error| self.unreadable(ReplyError::transport(error)))?;
        let opening = tokio::time::timeout(crate::client::ANSWER_TIME, self.open_stream(request));
        opening.await.unwrap_or_else(|_| Err(self.unreachable(io::ErrorKind::TimedOut.into())))
    }

    async fn open_stream(&self, request: Request<Full<Bytes>>) -> Result<Following, RestError> {
        let (mut sender, connection) = self.connect().await.map_err(|error| self.unreachable(error))?;
        let mut connection: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async { drop(connection.await) });
        let answering = sender.send_request(request);
        tokio::pin!(answering);
        let answer = tokio::select! { biased;
            answer = &mut answering => answer,
            () = &mut connection => answering.await,
        };
        let (head, body) = answer.map_err(|error| self.unreachable(io::Error::other(error)))?.into_parts();
        let mut following = Following { body, connection: Some(connection), decoder: SseDecoder::new(MAX_BYTES) };
        if !head.status.is_success() {
            let mut told = Vec::new();
            while let Some(chunk) = following.chunk().await.filter(|_| told.len() < MAX_BYTES) {
                told.extend_from_slice(&chunk);
            }
            return Err(crate::client::refusal(head.status, &told).into());
        }
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            Ok(following)
        } else {
            Err(self.unreadable(ReplyError::NoEventStream))
        }
    }
}

impl Following {
    /// The next event; `None` when the stream has ended, however that came.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(event) = self.decoder.take() {
                match &*event.name {
                    "gap" => return Some(Event::Gap),
                    "closing" => return Some(Event::Outage(event.data.into())),
                    "ready" => return Some(Event::Recovered),
                    _ => {}
                }
                // An event that is not an envelope is of a later version, and skipped.
                if let Ok(envelope) = Envelope::restore(event.data) {
                    return Some(Event::Envelope(Arc::new(envelope)));
                }
            }
            let chunk = tokio::time::timeout(SILENCE_TIMEOUT, self.chunk()).await.ok()??;
            self.decoder.push(&chunk).ok()?;
        }
    }

    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            let moving = async {
                match &mut self.connection {
                    Some(connection) => connection.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { biased;
                frame = self.body.frame() => match frame?.ok()?.into_data() {
                    Ok(chunk) => return Some(chunk),
                    Err(_trailers) => {}
                },
                // What has arrived may still be taken.
                () = moving => self.connection = None,
            }
        }
    }
}
