//! From an HTTP request to a WebSocket. Every refusal comes before the upgrade, as an HTTP answer.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::carriers::{Socket, WebSocket};
use crate::gateway::{GatewayState, MAX_MESSAGE};
use crate::http::{Problem, credentials, invalid};
use crate::session::KeepAlive;

/// The one version of the protocol.
const VERSION: &str = "13";

/// A request that may become a WebSocket.
pub(super) struct Upgrade {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Upgrade {
    /// Whether a request asks for a WebSocket at all.
    pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
        has(headers, header::UPGRADE, "websocket")
    }

    /// Checks that the request is a WebSocket's, and derives the answer to its key.
    pub(super) fn take(request: &mut Request) -> Result<Self, Problem> {
        // RFC 6455 §4.1. A handler of GET gets HEAD too, and must not answer it with a connection.
        if request.method() != Method::GET {
            return Err(invalid("a WebSocket is opened with GET").with_status(StatusCode::METHOD_NOT_ALLOWED));
        }
        let headers = request.headers();
        let wrong = |message: &str| Err(invalid(message).with_status(StatusCode::UPGRADE_REQUIRED));
        if !has(headers, header::CONNECTION, "upgrade") || !Self::is_wanted(headers) {
            return wrong("this address speaks WebSocket: connect with an `Upgrade: websocket` request");
        }
        if only(headers, header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
            return wrong("`Sec-WebSocket-Version` must be 13");
        }
        let key = only(headers, header::SEC_WEBSOCKET_KEY).filter(|key| is_key(key.as_bytes()));
        let key = key.ok_or_else(|| invalid("there must be one `Sec-WebSocket-Key`: 16 bytes in base64"))?;
        let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
        let accept = HeaderValue::try_from(accept).map_err(|_| invalid("`Sec-WebSocket-Key` is not acceptable"))?;
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        Ok(Self { accept, upgrade: upgrade.ok_or_else(|| invalid("this connection cannot be upgraded"))? })
    }

    /// The answer that begins the WebSocket, which names the subprotocol only where it was offered; and what becomes the connection.
    pub(super) fn answer(self, headers: &HeaderMap, subprotocol: &'static str) -> (Response, OnUpgrade) {
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let answer = response.headers_mut();
        answer.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        answer.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        if credentials::subprotocols(headers).any(|offered| offered == subprotocol) {
            answer.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
        }
        (response, self.upgrade)
    }
}

fn has(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

/// The value of a header that must stand once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&HeaderValue> {
    let mut values = headers.get_all(name).into_iter();
    values.next().filter(|_| values.next().is_none())
}

/// Whether a text could be 16 bytes in base64 (RFC 6455 §4.1).
fn is_key(text: &[u8]) -> bool {
    let digits = text.strip_suffix(b"==").unwrap_or_default();
    digits.len() == 22 && digits.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// How long a message may be for it to be read at all. Somewhat more than the limit is still read, so that a message just over it gets its
/// refusal and the connection stays usable.
pub(super) fn hard_limit(gateway: &GatewayState) -> usize {
    /// How much longer than the longest answer.
    const EXTRA_BYTES: usize = 64 * 1024;
    let limits = gateway.config.limits.envelope();
    match limits.message {
        0 => MAX_MESSAGE,
        message => message.saturating_mul(2).max(limits.answer.saturating_add(EXTRA_BYTES)),
    }
}

/// Waits for the connection to become a WebSocket.
pub(super) async fn socket(gateway: &GatewayState, upgrade: OnUpgrade) -> Option<WebSocket> {
    socket_within(hard_limit(gateway), upgrade).await
}

/// The same with a limit of its own.
pub(super) async fn socket_within(hard_limit: usize, upgrade: OnUpgrade) -> Option<WebSocket> {
    let upgraded = upgrade.await.ok()?;
    let Ok(parts) = upgraded.downcast::<TokioIo<Socket>>() else {
        tracing::error!("websocket: upgraded connection has an unknown transport, closing it");
        return None;
    };
    Some(WebSocket::new(parts.io.into_inner(), &parts.read_buf, hard_limit))
}

/// The times a WebSocket is held to.
pub(super) fn keep_alive(gateway: &GatewayState) -> KeepAlive {
    let times = &gateway.config.times;
    KeepAlive { ping: times.ping_interval, silence: times.silence_limit }
}
