//! Plain HTTP/1.1 to the gateway: one connection a request, so that nothing is shared between steps of a test.

use std::net::{IpAddr, SocketAddr};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

use crate::{Failure, within};

/// A request to be made.
#[derive(Debug, Clone, Default)]
pub struct HttpCall {
    /// `GET`, `POST`, ….
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers, in order. `Host` is filled in when it is not here.
    pub headers: Vec<(String, String)>,
    /// The body; JSON when it is not empty.
    pub body: String,
    /// The local address to connect from, where it matters which.
    pub source: Option<IpAddr>,
}

impl HttpCall {
    /// A request without headers and body.
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self { method: method.into(), path: path.into(), ..Self::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a bearer token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", format!("Bearer {token}"))
    }

    /// Connects from another local address.
    #[must_use]
    pub fn from(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// Makes the request and reads the whole answer.
    pub async fn send(&self, address: SocketAddr) -> Result<HttpAnswer, Failure> {
        let what = format!("the answer to {} {}", self.method, self.path);
        within(&what, async { HttpAnswer::read(self.open(address).await?).await }).await?
    }

    /// Makes the request and hands out the answer as soon as its head is there.
    pub(crate) async fn open(&self, address: SocketAddr) -> Result<hyper::Response<Incoming>, Failure> {
        let tcp = self.connect(address).await.map_err(|e| format!("no connection to {address}: {e}"))?;
        // Small frames wait for nobody: a test is a conversation.
        tcp.set_nodelay(true).map_err(|e| e.to_string())?;
        self.open_over(tcp, &address.to_string()).await
    }

    async fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let Some(source) = self.source else { return TcpStream::connect(address).await };
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        socket.connect(address).await
    }

    /// As [`HttpCall::open`], over a connection that is there already.
    pub(crate) async fn open_over(
        &self,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        host: &str,
    ) -> Result<hyper::Response<Incoming>, Failure> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(|e| e.to_string())?;
        // Ends with the connection, which ends with the answer's body.
        tokio::spawn(connection.with_upgrades());
        let mut request = hyper::Request::builder().method(self.method.as_str()).uri(self.path.as_str());
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("Host", host);
        }
        if !self.body.is_empty() && !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("Content-Type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::new(Bytes::from(self.body.clone())))
            .map_err(|e| format!("{} {} is not a request: {e}", self.method, self.path))?;
        sender.send_request(request).await.map_err(|e| format!("{} {}: {e}", self.method, self.path))
    }
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, as text.
    pub body: String,
}

impl HttpAnswer {
    pub(crate) async fn read(response: hyper::Response<Incoming>) -> Result<Self, Failure> {
        let (status, headers) = (response.status().as_u16(), header_list(&response));
        let body = response.into_body().collect().await.map_err(|e| format!("the answer broke off: {e}"))?.to_bytes();
        Ok(Self { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) fn header_list<B>(response: &hyper::Response<B>) -> Vec<(String, String)> {
    let value = |v: &hyper::header::HeaderValue| String::from_utf8_lossy(v.as_bytes()).into_owned();
    response.headers().iter().map(|(n, v)| (n.as_str().to_owned(), value(v))).collect()
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerSent {
    /// Its `id`.
    pub id: Option<String>,
    /// Its `event`.
    pub event: Option<String>,
    /// Its `data`, lines joined.
    pub data: String,
}

/// A stream of server-sent events.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    unread: Vec<u8>,
}

impl EventStream {
    /// Opens one; a refusal is handed back whole.
    pub async fn open(address: SocketAddr, call: &HttpCall) -> Result<Result<Self, HttpAnswer>, Failure> {
        within(&format!("the stream {}", call.path), async {
            let response = call.open(address).await?;
            if response.status() != 200 {
                return Ok(Err(HttpAnswer::read(response).await?));
            }
            let kind = response.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or("none");
            if !kind.starts_with("text/event-stream") {
                return Err(format!("the stream has content type {kind}, not text/event-stream"));
            }
            if response.headers().get("x-accel-buffering").is_none_or(|value| value != "no") {
                return Err("proxies may gather the stream: it has no `X-Accel-Buffering: no`".into());
            }
            Ok(Ok(Self::of(response)))
        })
        .await?
    }

    /// The events of an answer that has them.
    pub(crate) fn of(response: hyper::Response<Incoming>) -> Self {
        Self { body: response.into_body(), unread: Vec::new() }
    }

    /// The next event that has data, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<ServerSent>, Failure> {
        within("the next event of the stream", self.next_unbounded()).await
    }

    /// As [`EventStream::next`], without a deadline.
    pub(crate) async fn next_unbounded(&mut self) -> Option<ServerSent> {
        loop {
            while let Some(event) = self.take_event() {
                if !event.data.is_empty() {
                    return Some(event);
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.unread.extend(frame.into_data().unwrap_or_default()),
                // A stream that is cut has ended all the same: how is not part of its format.
                Some(Err(_)) | None => return None,
            }
        }
    }

    fn take_event(&mut self) -> Option<ServerSent> {
        let end = self.unread.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.unread.drain(..end + 2).collect();
        let mut event = ServerSent::default();
        let mut lines = Vec::new();
        for line in String::from_utf8_lossy(&block).lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => lines.push(value.to_owned()),
                "id" => event.id = Some(value.to_owned()),
                "event" => event.event = Some(value.to_owned()),
                _ => {}
            }
        }
        event.data = lines.join("\n");
        Some(event)
    }
}
