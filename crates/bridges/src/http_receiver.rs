//! A small HTTP/1 server for the requests that platforms send to a bridge: Matrix transactions, Slack events.
//!
//! Bounded in connections, in the size of a body and in the time a request may take to arrive. It knows no paths and no secrets: a
//! platform's module answers every request itself.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections at once. A platform uses a few; anything beyond waits in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;

/// How long the head of a request may take, and then its body.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// How long to wait after the listener could not accept a connection: usually there are no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// A request with its whole body.
#[derive(Debug)]
pub(crate) struct PlatformRequest {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
}

/// The answer to a request. Its body is JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlatformAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

impl PlatformAnswer {
    pub(crate) fn new(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, body: body.into() }
    }

    pub(crate) fn empty_object() -> Self {
        Self::new(StatusCode::OK, "{}")
    }
}

/// Serves requests until cancelled, and then waits for those under way. `max_body` says how large a body may be, by the headers before it.
pub(crate) async fn serve<L, A, F>(listener: TcpListener, max_body: L, answer: A, done: CancellationToken)
where
    L: Fn(&HeaderMap) -> usize + Clone + Send + Sync + 'static,
    A: Fn(PlatformRequest) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = PlatformAnswer> + Send,
{
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = permits.clone().acquire_owned().await else { break };
        let accepted = tokio::select! { biased;
            () = done.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (max_body, answer, done) = (max_body.clone(), answer.clone(), done.clone());
                connections.spawn(async move {
                    serve_connection(stream, max_body, answer, done).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "bridge receiver: accept failed, retrying");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn serve_connection<L, A, F>(stream: TcpStream, max_body: L, answer: A, done: CancellationToken)
where
    L: Fn(&HeaderMap) -> usize,
    A: Fn(PlatformRequest) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = PlatformAnswer> + Send,
{
    let service = service_fn(|request: Request<Incoming>| {
        let (max_body, answer) = (max_body(request.headers()), answer.clone());
        async move { Ok::<_, Infallible>(answer_request(request, max_body, answer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // A connection that breaks is the platform's to retry.
    let _ = tokio::select! { biased;
        () = done.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        ended = connection.as_mut() => ended,
    };
}

async fn answer_request<A, F>(request: Request<Incoming>, max_body: usize, answer: A) -> Response<Full<Bytes>>
where
    A: Fn(PlatformRequest) -> F,
    F: Future<Output = PlatformAnswer>,
{
    let (head, body) = request.into_parts();
    let answer = match tokio::time::timeout(READ_TIMEOUT, Limited::new(body, max_body).collect()).await {
        Ok(Ok(body)) => answer(PlatformRequest { head, body: body.to_bytes() }).await,
        Ok(Err(_)) => {
            PlatformAnswer::new(StatusCode::PAYLOAD_TOO_LARGE, r#"{"error":"the body is too large or broken"}"#)
        }
        Err(_) => PlatformAnswer::new(StatusCode::REQUEST_TIMEOUT, r#"{"error":"the body did not arrive in time"}"#),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
