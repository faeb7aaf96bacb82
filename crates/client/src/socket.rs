//! A WebSocket to one of the gateway's addresses: texts both ways, understood by nobody here.
//!
//! Deliberately absent: coming back after a lost connection. Only the owner of the grammar knows what to resend.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use hyper::http::uri::InvalidUri;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use salon_protocol::CloseReason;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{ProtocolError, SubProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message as Frame};

use crate::client::refusal;
use crate::connection::{HANDSHAKE_TIME, PING_INTERVAL, SILENCE_TIMEOUT};
use crate::entering::is_stale_token;
use crate::error::{HttpRefusal, ReplyError};
use crate::gateway::{Gateway, Wire};
use crate::outbox::FrameOutbox;
use crate::{Client, RestError};

/// The longest frame that is read: more than any gateway lets a participant send.
const MAX_FRAME: usize = 256 << 20;

/// The header with the longest message that a gateway takes.
const LIMIT_HEADER: &str = "salon-message-limit";

pub(crate) type ClientSocket = WebSocketStream<Box<dyn Wire>>;

/// A WebSocket to one of the gateway's addresses, or to a server elsewhere.
///
/// Nothing moves unless [`next`](Self::next) is being waited for: it writes what was given to [`send`](Self::send), reads, and looks
/// for signs of life.
pub struct TextSocket {
    out: FrameOutbox,
    stream: SplitStream<ClientSocket>,
    heard_at: Instant,
    ping: Interval,
    message_limit: Option<usize>,
}

/// What happens on a [`TextSocket`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketEvent {
    /// A text came.
    Text(String),
    /// Everything that was to be sent is on its way.
    Sent,
}

/// How a [`TextSocket`] ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Closed {
    /// The code the gateway closed with; `None` when the connection broke.
    pub code: Option<u16>,
    /// A sentence for people.
    pub why: Arc<str>,
}

impl fmt::Debug for TextSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextSocket").field("message_limit", &self.message_limit).finish_non_exhaustive()
    }
}

/// Why a WebSocket could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// The address is invalid.
    #[error("{0}")]
    Address(String),
    /// A header cannot be sent. Only its name is reported, because its value may be a secret.
    #[error("the header `{0}` cannot be sent: its name or value is not allowed in HTTP")]
    Header(String),
    /// The server does not upgrade to a WebSocket.
    #[error("it was refused with HTTP {0}")]
    Refused(u16),
    /// Nobody is there, or not for long.
    #[error("{0}")]
    Unreachable(String),
}

impl TextSocket {
    fn of(socket: ClientSocket, headers: &HeaderMap) -> Self {
        let message_limit = headers.get(LIMIT_HEADER).and_then(|limit| limit.to_str().ok()?.parse().ok());
        let (sink, stream) = socket.split();
        let heard_at = Instant::now();
        let mut ping = tokio::time::interval_at(heard_at + PING_INTERVAL, PING_INTERVAL);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let out = FrameOutbox { sink, waiting: VecDeque::new(), flushed: true };
        Self { out, stream, heard_at, ping, message_limit }
    }

    /// Opens a WebSocket at an address of a gateway, such as `/mcp/room:lab` with the subprotocol `mcp`. The token goes into the header;
    /// one that is refused is replaced once, where the provider has another.
    pub async fn to_gateway(client: &Client, path: &str, subprotocol: &str) -> Result<Self, RestError> {
        let (socket, headers) = match upgrade(client, path, Some(subprotocol), false).await {
            Err(error) if is_stale_token(&error) => upgrade(client, path, Some(subprotocol), true).await?,
            upgraded => upgraded?,
        };
        Ok(Self::of(socket, &headers))
    }

    /// Opens a WebSocket anywhere, with headers of the caller's own: for servers that are no gateway. The subprotocol is offered unless the
    /// headers offer one already. A server that selects none is connected to without (RFC 6455 §4.1 lets it leave the header out).
    pub async fn open(url: &str, headers: &[(String, String)], subprotocol: &str) -> Result<Self, SocketError> {
        let (host, plain) = elsewhere(url, headers)?;
        let mut offering = plain.clone();
        let is_offered = plain.headers().contains_key(header::SEC_WEBSOCKET_PROTOCOL);
        if let (Ok(subprotocol), false) = (HeaderValue::from_str(subprotocol), is_offered) {
            offering.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
        }
        let opening = async {
            match connect(&host, offering, MAX_FRAME).await {
                Err(Unopened::NoSubprotocol) => connect(&host, plain, MAX_FRAME).await,
                opened => opened,
            }
        };
        Self::opened_in_time(opening).await
    }

    /// Opens a WebSocket anywhere, without a subprotocol. A message with more bytes than `max_message` ends the connection.
    pub async fn open_bounded(url: &str, max_message: usize) -> Result<Self, SocketError> {
        let (host, request) = elsewhere(url, &[])?;
        Self::opened_in_time(connect(&host, request, max_message)).await
    }

    async fn opened_in_time(
        opening: impl Future<Output = Result<(ClientSocket, HeaderMap), Unopened>>,
    ) -> Result<Self, SocketError> {
        match tokio::time::timeout(HANDSHAKE_TIME, opening).await {
            Ok(Ok((socket, headers))) => Ok(Self::of(socket, &headers)),
            Ok(Err(Unopened::NoSubprotocol)) => {
                Err(SocketError::Unreachable("the server selected none of the subprotocols that were offered".into()))
            }
            Ok(Err(Unopened::Other(error))) => Err(error),
            Err(_) => Err(SocketError::Unreachable("no answer in time".into())),
        }
    }

    /// Whether an address and headers are such that [`open`](Self::open) could do something with them.
    pub fn check(url: &str, headers: &[(String, String)]) -> Result<(), SocketError> {
        elsewhere(url, headers).map(drop)
    }

    /// The longest text the gateway takes, in bytes, where the gateway gives it.
    pub fn message_limit(&self) -> Option<usize> {
        self.message_limit
    }

    /// Puts a text behind those that wait to be sent. How many wait is the caller's to bound: see [`is_idle`](Self::is_idle).
    pub fn send(&mut self, text: impl Into<String>) {
        self.out.waiting.push_back(Frame::text(text.into()));
    }

    /// Whether everything has been sent.
    pub fn is_idle(&self) -> bool {
        self.out.is_idle()
    }

    /// Waits for what happens next. Nothing is lost when this is given up in between.
    pub async fn next(&mut self) -> Result<SocketEvent, Closed> {
        loop {
            tokio::select! { biased;
                moved = self.out.progress(), if !self.out.is_idle() => {
                    return moved.map(|()| SocketEvent::Sent).map_err(|error| Closed::broken(error.to_string()));
                }
                frame = self.stream.next() => {
                    self.heard_at = Instant::now();
                    match frame {
                        Some(Ok(Frame::Text(text))) => return Ok(SocketEvent::Text(text.as_str().to_owned())),
                        Some(Ok(Frame::Close(close))) => return Err(Closed::from_close_frame(close)),
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return Err(Closed::broken(error.to_string())),
                        None => return Err(Closed::broken("the connection has ended")),
                    }
                }
                now = self.ping.tick() => {
                    if now.duration_since(self.heard_at) > SILENCE_TIMEOUT {
                        return Err(Closed::broken("no sign of the gateway"));
                    }
                    self.out.waiting.push_back(Frame::Ping(Default::default()));
                }
            }
        }
    }

    /// Sends what is still waiting, and closes. Frames that come meanwhile are dropped.
    pub async fn close(mut self) {
        self.out.waiting.push_back(Frame::Close(None));
        let goodbye = async {
            loop {
                tokio::select! { biased;
                    moved = self.out.progress(), if !self.out.is_idle() => if moved.is_err() { return },
                    frame = self.stream.next() => match frame {
                        Some(Ok(Frame::Close(_)) | Err(_)) | None => return,
                        Some(Ok(_)) => {}
                    },
                }
            }
        };
        // A gateway that does not answer the Close frame has seen it all the same.
        let _ = tokio::time::timeout(HANDSHAKE_TIME, goodbye).await;
    }
}

impl Closed {
    /// Whether the gateway closed because of the token's time.
    pub fn is_token_expired(&self) -> bool {
        self.code == Some(CloseReason::TokenExpired.code())
    }

    fn broken(why: impl Into<Arc<str>>) -> Self {
        Self { code: None, why: why.into() }
    }

    fn from_close_frame(close: Option<CloseFrame>) -> Self {
        match close {
            Some(close) => Self { code: Some(close.code.into()), why: close.reason.as_str().into() },
            None => Self::broken("the gateway closed the connection"),
        }
    }
}

/// Opens a WebSocket; returns the headers of the answer with it.
pub(crate) async fn upgrade(
    client: &Client,
    path: &str,
    subprotocol: Option<&str>,
    refresh: bool,
) -> Result<(ClientSocket, HeaderMap), RestError> {
    let token = client.tokens().token(refresh).await?;
    let gateway = client.gateway();
    let address = format!("ws://{}{}{path}", gateway.authority, gateway.prefix);
    let mut request = address.into_client_request().map_err(|error| client.unreadable(ReplyError::transport(error)))?;
    let bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| {
        RestError::Refused(HttpRefusal {
            status: 401,
            code: "unauthorized".into(),
            message: "the token has characters that no token has".into(),
        })
    })?;
    request.headers_mut().insert(header::AUTHORIZATION, bearer);
    if let Some(subprotocol) = subprotocol {
        let subprotocol = HeaderValue::from_str(subprotocol);
        let subprotocol = subprotocol.map_err(|error| client.unreadable(ReplyError::transport(error)))?;
        request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
    }
    let opening = async {
        let wire = gateway.dial().await.map_err(|error| client.unreachable(error))?;
        let connected = tokio_tungstenite::client_async_with_config(request, wire, Some(config(MAX_FRAME))).await;
        connected.map_err(|error| refused(client, error))
    };
    match tokio::time::timeout(HANDSHAKE_TIME, opening).await {
        Ok(opened) => opened.map(|(socket, response)| (socket, response.into_parts().0.headers)),
        Err(_) => Err(client.unreachable(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time"))),
    }
}

/// Why one attempt at a server elsewhere failed.
enum Unopened {
    /// The server made it a WebSocket without one of the subprotocols that were offered.
    NoSubprotocol,
    Other(SocketError),
}

async fn connect(host: &Gateway, request: Request, max_message: usize) -> Result<(ClientSocket, HeaderMap), Unopened> {
    const NO_SUBPROTOCOL: ProtocolError = ProtocolError::SecWebSocketSubProtocolError(SubProtocolError::NoSubProtocol);
    let unreachable = |why: String| Unopened::Other(SocketError::Unreachable(why));
    let wire = host.dial().await.map_err(|error| unreachable(error.to_string()))?;
    match tokio_tungstenite::client_async_with_config(request, wire, Some(config(max_message))).await {
        Ok((socket, response)) => Ok((socket, response.into_parts().0.headers)),
        Err(tungstenite::Error::Http(response)) => {
            Err(Unopened::Other(SocketError::Refused(response.status().as_u16())))
        }
        Err(tungstenite::Error::Protocol(error)) if error == NO_SUBPROTOCOL => Err(Unopened::NoSubprotocol),
        Err(error) => Err(unreachable(error.to_string())),
    }
}

fn config(max_message: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(16 << 10)
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message))
}

/// Where a URL leads, and the request that asks for a WebSocket there.
fn elsewhere(url: &str, headers: &[(String, String)]) -> Result<(Gateway, Request), SocketError> {
    let invalid = |error: &dyn fmt::Display| SocketError::Address(error.to_string());
    let uri: Uri = url.parse().map_err(|error: InvalidUri| invalid(&error))?;
    let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |it| it.as_str()));
    let host = Gateway::new(&format!("{scheme}://{authority}")).map_err(|error| invalid(&error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // The scheme only says what the bytes go over, which is decided by now.
    let request = format!("ws://{authority}{path}").into_client_request();
    let mut request = request.map_err(|error| invalid(&error))?;
    for (name, value) in headers {
        let parsed = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        let (Ok(key), Ok(mut value)) = parsed else { return Err(SocketError::Header(name.clone())) };
        value.set_sensitive(true);
        request.headers_mut().append(key, value);
    }
    Ok((host, request))
}

fn refused(client: &Client, error: tungstenite::Error) -> RestError {
    match error {
        tungstenite::Error::Http(response) => {
            let status = StatusCode::from_u16(response.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
            refusal(status, response.body().as_deref().unwrap_or_default()).into()
        }
        tungstenite::Error::Io(error) => client.unreachable(error),
        // A gateway that is going down, or something in front of one that is gone.
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Protocol(ProtocolError::HandshakeIncomplete) => client.unreachable(cut_off()),
        error => client.unreadable(ReplyError::transport(error)),
    }
}

/// What is wrong with a connection that ends before it has begun.
pub(crate) fn cut_off() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the connection was closed at once")
}
