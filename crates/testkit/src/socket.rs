//! A WebSocket as a test wants it: it shows what came, close codes included, and can also misbehave.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::http::{HttpAnswer, HttpCall, header_list};
use crate::{Failure, within};

/// What came over a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestSocketEvent {
    /// A text frame.
    Text(String),
    /// A binary frame, of so many bytes.
    Binary(usize),
    /// A close frame with its code and reason; 1005 stands for none.
    Closed(u16, String),
    /// The connection ended without a close frame.
    Broken,
}

/// Any 16 bytes do: the key guards against caches, not against people.
const KEY: &str = "c2Fsb24tdGVzdGtpdC0wMQ==";

/// A call that asks for a WebSocket.
fn upgrade(call: HttpCall) -> HttpCall {
    call.header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", KEY)
}

/// One WebSocket.
#[derive(Debug)]
pub struct TestSocket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    /// The subprotocol the gateway chose.
    pub subprotocol: Option<String>,
}

impl TestSocket {
    /// Connects; a refusal before the upgrade is handed back whole.
    pub async fn connect(address: SocketAddr, call: HttpCall) -> Result<Result<Self, HttpAnswer>, Failure> {
        let what = format!("the upgrade of {}", call.path);
        within(&what, Self::connect_unbounded(address, call)).await?
    }

    /// As [`TestSocket::connect`], without a deadline.
    pub(crate) async fn connect_unbounded(
        address: SocketAddr,
        call: HttpCall,
    ) -> Result<Result<Self, HttpAnswer>, Failure> {
        Self::upgraded(upgrade(call).open(address).await?).await
    }

    /// Connects over a connection made of memory.
    pub async fn connect_inside(memory: DuplexStream, call: HttpCall) -> Result<Result<Self, HttpAnswer>, Failure> {
        let call = upgrade(call);
        let what = format!("the upgrade of {} from inside", call.path);
        within(&what, async { Self::upgraded(call.open_over(memory, "inside.invalid").await?).await }).await?
    }

    async fn upgraded(response: hyper::Response<hyper::body::Incoming>) -> Result<Result<Self, HttpAnswer>, Failure> {
        if response.status() != 101 {
            return Ok(Err(HttpAnswer::read(response).await?));
        }
        let headers = header_list(&response);
        let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        if header("sec-websocket-accept") != Some(derive_accept_key(KEY.as_bytes())) {
            return Err("the upgrade has the wrong Sec-WebSocket-Accept".into());
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(|e| format!("the upgrade failed: {e}"))?;
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let stream = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await;
        Ok(Ok(Self { stream, subprotocol: header("sec-websocket-protocol") }))
    }

    /// Sends a text frame.
    pub async fn text(&mut self, text: impl Into<String>) -> Result<(), Failure> {
        self.message(Message::text(text.into())).await
    }

    /// Sends a binary frame.
    pub async fn binary(&mut self, bytes: impl Into<Bytes>) -> Result<(), Failure> {
        self.message(Message::binary(bytes)).await
    }

    /// Sends a ping.
    pub async fn ping(&mut self) -> Result<(), Failure> {
        self.message(Message::Ping(Bytes::new())).await
    }

    async fn message(&mut self, message: Message) -> Result<(), Failure> {
        within("the gateway to take a frame", self.stream.send(message)).await?.map_err(|e| format!("not sent: {e}"))
    }

    /// Puts a frame into the output buffer without writing it; [`TestSocket::flush`] writes.
    pub async fn feed(&mut self, text: impl Into<String>) -> Result<(), Failure> {
        let fed = self.stream.feed(Message::text(text.into()));
        within("the gateway to take a frame", fed).await?.map_err(|e| format!("not sent: {e}"))
    }

    /// Writes what was fed.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        within("the gateway to take frames", self.stream.flush()).await?.map_err(|e| format!("not sent: {e}"))
    }

    /// Writes bytes below the WebSocket protocol.
    pub async fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let write = async {
            let tcp = self.stream.get_mut();
            tcp.write_all(bytes).await?;
            tcp.flush().await
        };
        within("the gateway to take bytes", write).await?.map_err(|e| format!("not sent: {e}"))
    }

    /// What comes next. Pings are answered and pongs passed over.
    pub async fn next(&mut self) -> Result<TestSocketEvent, Failure> {
        within("the next frame", self.next_unbounded()).await
    }

    /// As [`TestSocket::next`], without a deadline.
    pub async fn next_unbounded(&mut self) -> TestSocketEvent {
        loop {
            let came = self.stream.next().await;
            if let Some(Ok(Message::Close(_))) = came {
                // The answer to a close waits for the next write. Then this side ends too, as clients do: the gateway waits for that.
                let _ = self.stream.flush().await;
                let _ = self.stream.get_mut().shutdown().await;
            }
            return match came {
                Some(Ok(Message::Text(text))) => TestSocketEvent::Text(text.as_str().to_owned()),
                Some(Ok(Message::Binary(bytes))) => TestSocketEvent::Binary(bytes.len()),
                Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) => {
                    TestSocketEvent::Closed(code.into(), reason.as_str().to_owned())
                }
                Some(Ok(Message::Close(None))) => TestSocketEvent::Closed(1005, String::new()),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                Some(Err(_)) | None => TestSocketEvent::Broken,
            };
        }
    }

    /// Says goodbye and waits until the gateway has said it too.
    pub async fn close(mut self) -> Result<(), Failure> {
        within("the closing handshake", async {
            // The gateway may be closing at the same moment: then there is nothing left to say.
            let leaving = CloseFrame { code: CloseCode::Normal, reason: Default::default() };
            let _ = self.stream.close(Some(leaving)).await;
            while !matches!(self.next_unbounded().await, TestSocketEvent::Closed(..) | TestSocketEvent::Broken) {}
        })
        .await
    }
}
