//! A server at the other end of a WebSocket: one JSON-RPC message a text frame. The connection is the session. The subprotocol `mcp` is
//! offered, as the SDKs' WebSocket transports do; some servers answer 400 without it.

use std::time::Duration;

use salon_client::internal::{SocketError, SocketEvent, TextSocket};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{MAX_MESSAGE, Outbound, QUEUE, UpstreamError, UpstreamMessage, frame};

const SUBPROTOCOL: &str = "mcp";

/// The sending half. Dropping it ends the connection.
#[derive(Debug)]
pub(super) struct WebSocketUpstream {
    writer: mpsc::Sender<Box<str>>,
    task: JoinSet<()>,
}

/// Whether an address and headers could be used at all.
pub(super) fn check(url: &str, headers: &[(String, String)]) -> Result<(), UpstreamError> {
    TextSocket::check(url, headers).map_err(describe)
}

fn describe(error: SocketError) -> UpstreamError {
    match error {
        SocketError::Address(why) => UpstreamError::Url(why),
        SocketError::Header(name) => UpstreamError::Header(name),
        SocketError::Refused(status @ (401 | 403)) => UpstreamError::Unauthorized { status },
        SocketError::Refused(status) => {
            UpstreamError::Status { status, message: format!("the server answered HTTP {status}") }
        }
        SocketError::Unreachable(why) => UpstreamError::Unreachable(format!("cannot reach the server: {why}")),
    }
}

impl WebSocketUpstream {
    pub(super) async fn open(
        url: &str,
        headers: &[(String, String)],
        inbound: mpsc::Sender<UpstreamMessage>,
    ) -> Result<Self, UpstreamError> {
        let socket = TextSocket::open(url, headers, SUBPROTOCOL).await.map_err(describe)?;
        let (writer, queue) = mpsc::channel(QUEUE);
        let mut task = JoinSet::new();
        task.spawn(attend(socket, queue, inbound));
        Ok(Self { writer, task })
    }

    pub(super) async fn send(&self, message: Outbound) -> Result<(), UpstreamError> {
        self.writer.send(message.text).await.map_err(|_| UpstreamError::Closed)
    }

    /// Sends what waits, and says goodbye.
    pub(super) async fn close(self, grace: Duration) {
        let Self { writer, mut task } = self;
        drop(writer);
        let _ = timeout(grace, task.join_next()).await;
    }
}

async fn attend(mut socket: TextSocket, mut queue: mpsc::Receiver<Box<str>>, inbound: mpsc::Sender<UpstreamMessage>) {
    let why = loop {
        let idle = socket.is_idle();
        tokio::select! {
            happened = socket.next() => match happened {
                Ok(SocketEvent::Sent) => {}
                Ok(SocketEvent::Text(text)) if text.len() > MAX_MESSAGE => {
                    break format!("it sent a message of more than {} MiB", MAX_MESSAGE >> 20);
                }
                Ok(SocketEvent::Text(text)) => {
                    for text in frame::split(&text).into_iter().flatten() {
                        // A reader that is gone closes soon, and what is queued is to go out before.
                        let _ = inbound.send(UpstreamMessage::Message { text: text.into(), related: None }).await;
                    }
                }
                Err(closed) => break format!("the connection ended: {closed}"),
            },
            text = queue.recv(), if idle => match text {
                Some(text) => socket.send(String::from(text)),
                None => return socket.close().await,
            },
        }
    };
    let _ = inbound.send(UpstreamMessage::Ended { why }).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// What a server hears when it is asked for a WebSocket.
    async fn offered(headers: &[(String, String)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
        let (inbound, _received) = mpsc::channel(1);
        let server = async {
            let (mut wire, _) = listener.accept().await.unwrap();
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n") {
                heard.push(wire.read_u8().await.unwrap());
            }
            wire.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8(heard).unwrap().to_ascii_lowercase()
        };
        let (opened, heard) = tokio::join!(WebSocketUpstream::open(&url, headers, inbound), server);
        assert!(matches!(opened, Err(UpstreamError::Status { status: 400, .. })), "{opened:?}");
        let offers = heard.lines().filter(|line| line.starts_with("sec-websocket-protocol"));
        offers.collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn the_subprotocol_of_mcp_is_offered() {
        assert_eq!(offered(&[]).await, "sec-websocket-protocol: mcp");
        let own = [("Sec-WebSocket-Protocol".to_owned(), "mcp.v2".to_owned())];
        assert_eq!(offered(&own).await, "sec-websocket-protocol: mcp.v2");
    }
}
