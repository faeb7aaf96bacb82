//! The HTTP requests of one session as a carrier: each is a stream, with a response of its own.
//!
//! Requests come through an [`Inbox`], which the HTTP server holds; what is answered goes through a pipe to the connection the
//! request came by. Invariant: no stream waits for another. A request that the session had not heard when it ended is handed back
//! to its sender, who may try elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use parking_lot::Mutex;
use salon_dialects::{BodyForm, EventFrame, Frame, StreamHead, StreamId};
use salon_protocol::CloseReason;
use tokio::sync::{mpsc, oneshot};

use super::access::RequestAccess;
use super::pipe::{EventBody, Pipe, SharedPipes};
use super::{Carrier, Opened, Received, StreamCarrier, events};

/// How many requests may wait to be heard.
const INBOX: usize = 64;

/// How many requests of one session may be open.
const MAX_STREAMS: usize = 1024;

/// What a request asks for.
#[derive(Debug)]
pub(crate) struct StreamRequest<O> {
    pub(crate) opening: O,
    /// Whether it brings messages, which count against the rate.
    pub(crate) is_message: bool,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum ExchangeOutcome<O> {
    Answered(Response),
    /// The session had ended before it heard the request.
    Undelivered(StreamRequest<O>),
    /// The session ended and left it unanswered.
    Ended,
    /// The token it came with expired, or the sign-in ended, before it was answered.
    Expired,
    /// Too many others are open.
    Busy,
}

enum ExchangeCall<O> {
    Request(ExchangeRequest<O>),
    Goodbye,
}

struct ExchangeRequest<O> {
    stream_request: StreamRequest<O>,
    expires: Instant,
    answer: oneshot::Sender<ExchangeAnswer<O>>,
    pipe: Arc<Pipe>,
}

enum ExchangeAnswer<O> {
    Whole(StreamHead, Bytes),
    Events(StreamHead),
    Undelivered(StreamRequest<O>),
    Busy,
}

/// The way into a session. Cloning shares it.
pub(crate) struct Inbox<O> {
    calls: mpsc::Sender<ExchangeCall<O>>,
    common: Arc<SharedPipes>,
    used: Arc<Mutex<Instant>>,
}

impl<O> Clone for Inbox<O> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), common: self.common.clone(), used: self.used.clone() }
    }
}

impl<O> Inbox<O> {
    /// Sends a request and waits until its answer begins. The answer lasts no longer than what the request came with, even where the
    /// session does. Dropping this, or the answer's body, hangs up.
    pub(crate) async fn ask(&self, stream_request: StreamRequest<O>, access: RequestAccess) -> ExchangeOutcome<O> {
        tokio::select! { biased;
            outcome = self.ask_unbounded(stream_request, &access) => match outcome {
                // A session that ends with the last of its tokens ends with this one.
                ExchangeOutcome::Ended if Instant::now() >= access.expires => ExchangeOutcome::Expired,
                outcome => outcome,
            },
            () = access.ended() => ExchangeOutcome::Expired,
        }
    }

    async fn ask_unbounded(&self, stream_request: StreamRequest<O>, access: &RequestAccess) -> ExchangeOutcome<O> {
        let (pipe, listener) = Pipe::new(self.common.clone());
        let (answer, answered) = oneshot::channel();
        *self.used.lock() = Instant::now();
        let request = ExchangeRequest { stream_request, expires: access.expires, answer, pipe };
        if let Err(mpsc::error::SendError(call)) = self.calls.send(ExchangeCall::Request(request)).await {
            return match call {
                ExchangeCall::Request(request) => ExchangeOutcome::Undelivered(request.stream_request),
                ExchangeCall::Goodbye => ExchangeOutcome::Ended,
            };
        }
        match answered.await {
            Ok(ExchangeAnswer::Whole(head, body)) => ExchangeOutcome::Answered(respond(head, Body::from(body))),
            Ok(ExchangeAnswer::Events(head)) => {
                ExchangeOutcome::Answered(respond(head, Body::new(EventBody::new(listener, access))))
            }
            Ok(ExchangeAnswer::Undelivered(stream_request)) => ExchangeOutcome::Undelivered(stream_request),
            Ok(ExchangeAnswer::Busy) => ExchangeOutcome::Busy,
            Err(_) => ExchangeOutcome::Ended,
        }
    }

    /// Asks the session to end.
    pub(crate) async fn dismiss(&self) {
        // One that does not hear it has ended.
        let _ = self.calls.send(ExchangeCall::Goodbye).await;
    }

    /// Since when nothing was asked of the session; `None` while anybody waits for an answer or reads one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let used = *self.used.lock();
        (!self.common.is_open()).then_some(used)
    }

    /// Whether the session has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }
}

fn respond(head: StreamHead, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let content_type = match head.form {
        BodyForm::Empty => None,
        BodyForm::Json => Some("application/json"),
        BodyForm::Events => Some("text/event-stream"),
    };
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if head.form == BodyForm::Events {
        // Proxies that gather an answer before they pass it on would gather this one for ever.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    }
    for (name, value) in head.headers {
        if let Ok(value) = HeaderValue::try_from(&*value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    response
}

/// The requests of one session.
pub(crate) struct Exchanges<O> {
    calls: mpsc::Receiver<ExchangeCall<O>>,
    common: Arc<SharedPipes>,
    streams: HashMap<StreamId, Stream<O>>,
    last: StreamId,
    /// A stream that was cut off, whose end is to be told.
    cut: Vec<StreamId>,
}

enum Stream<O> {
    Waiting {
        answer: oneshot::Sender<ExchangeAnswer<O>>,
        pipe: Arc<Pipe>,
    },
    /// The head waits for the one frame there will be, so that the answer's length is known.
    Json {
        head: StreamHead,
        answer: oneshot::Sender<ExchangeAnswer<O>>,
        pipe: Arc<Pipe>,
    },
    Events {
        pipe: Arc<Pipe>,
    },
}

impl<O> Exchanges<O> {
    /// A session's requests, and the way to make them.
    pub(crate) fn new() -> (Self, Inbox<O>) {
        let (sender, calls) = mpsc::channel(INBOX);
        let common = Arc::<SharedPipes>::default();
        let inbox = Inbox { calls: sender, common: common.clone(), used: Arc::new(Mutex::new(Instant::now())) };
        (Self { calls, common, streams: HashMap::new(), last: StreamId::ONLY, cut: Vec::new() }, inbox)
    }

    fn open(&mut self, request: ExchangeRequest<O>) -> Option<Received<O>> {
        let ExchangeRequest { stream_request, expires, answer, pipe } = request;
        if self.streams.len() >= MAX_STREAMS {
            // A request that was cancelled needs no answer.
            let _ = answer.send(ExchangeAnswer::Busy);
            return None;
        }
        loop {
            self.last = StreamId(self.last.0.wrapping_add(1));
            if self.last != StreamId::ONLY && !self.streams.contains_key(&self.last) {
                break;
            }
        }
        let stream = self.last;
        self.streams.insert(stream, Stream::Waiting { answer, pipe: pipe.clone() });
        pipe.adopt(stream);
        let StreamRequest { opening, is_message } = stream_request;
        Some(Received::Opened(Box::new(Opened { stream, opening, is_message, expires })))
    }

    fn push(&mut self, stream: StreamId, piece: Bytes) {
        let Some(Stream::Events { pipe }) = self.streams.get(&stream) else { return };
        if !pipe.push(piece) {
            self.streams.remove(&stream);
            self.cut.push(stream);
        }
    }

    /// Hands back what nobody will hear.
    fn reject_connection(&mut self) {
        self.calls.close();
        while let Ok(call) = self.calls.try_recv() {
            if let ExchangeCall::Request(ExchangeRequest { stream_request, answer, .. }) = call {
                let _ = answer.send(ExchangeAnswer::Undelivered(stream_request));
            }
        }
    }
}

impl<O> Drop for Exchanges<O> {
    fn drop(&mut self) {
        self.reject_connection();
        // A session that was cut short finishes nothing, but its readers must not wait for more.
        for (_, stream) in self.streams.drain() {
            if let Stream::Events { pipe } = stream {
                pipe.finish();
            }
        }
    }
}

impl<O: Send> StreamCarrier<O> for Exchanges<O> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Received<O>> {
        if let Some(stream) = self.cut.pop() {
            return Poll::Ready(Received::HungUp(stream));
        }
        while let Poll::Ready(stream) = self.common.poll_hung_up(cx) {
            if self.streams.remove(&stream).is_some() {
                return Poll::Ready(Received::HungUp(stream));
            }
        }
        loop {
            return match self.calls.poll_recv(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(ExchangeCall::Request(request))) => match self.open(request) {
                    Some(received) => Poll::Ready(received),
                    None => continue,
                },
                Poll::Ready(Some(ExchangeCall::Goodbye)) => Poll::Ready(Received::End(CloseReason::Bye)),
                // Nobody can reach the session any more.
                Poll::Ready(None) => Poll::Ready(Received::End(CloseReason::Bye)),
            };
        }
    }
}

impl<O: Send> Carrier for Exchanges<O> {
    const DUPLEX: bool = false;

    fn begin(&mut self, stream: StreamId, head: StreamHead) {
        let Some(state) = self.streams.remove(&stream) else { return };
        let Stream::Waiting { answer, pipe } = state else {
            self.streams.insert(stream, state);
            return;
        };
        match head.form {
            BodyForm::Empty => {
                pipe.finish();
                let _ = answer.send(ExchangeAnswer::Whole(head, Bytes::new()));
            }
            BodyForm::Json => drop(self.streams.insert(stream, Stream::Json { head, answer, pipe })),
            BodyForm::Events => {
                // A closed request counts as hung up.
                let _ = answer.send(ExchangeAnswer::Events(head));
                self.streams.insert(stream, Stream::Events { pipe });
            }
        }
    }

    fn send(&mut self, stream: StreamId, frame: Frame) {
        if let Some(Stream::Json { .. }) = self.streams.get(&stream) {
            let Some(Stream::Json { head, answer, pipe }) = self.streams.remove(&stream) else { return };
            pipe.finish();
            let _ = answer.send(ExchangeAnswer::Whole(head, text(frame)));
            return;
        }
        let event = match frame {
            Frame::Event(event) => *event,
            other => EventFrame { name: None, id: None, retry: None, data: lossy(&text(other)) },
        };
        self.push(stream, events::encode(&event));
    }

    fn finish(&mut self, stream: StreamId) {
        match self.streams.remove(&stream) {
            Some(Stream::Waiting { pipe, .. } | Stream::Events { pipe }) => pipe.finish(),
            Some(Stream::Json { head, answer, pipe }) => {
                pipe.finish();
                let _ = answer.send(ExchangeAnswer::Whole(head, Bytes::new()));
            }
            None => {}
        }
    }

    fn close(&mut self, _: CloseReason) {
        self.reject_connection();
        let open: Vec<StreamId> = self.streams.keys().copied().collect();
        for stream in open {
            self.finish(stream);
        }
    }
}

/// What a frame says.
fn text(frame: Frame) -> Bytes {
    match frame {
        Frame::Text(text) => Bytes::from(text.into_string()),
        Frame::Binary(bytes) => Bytes::from(bytes.into_vec()),
        Frame::Entry(entry) => Bytes::copy_from_slice(entry.envelope.text().as_bytes()),
        Frame::Event(event) => Bytes::from(event.data.into_string()),
    }
}

fn lossy(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
#[path = "exchanges_tests.rs"]
mod tests;
