//! A server at the other end of a WebSocket: one JSON-RPC message a text frame. The connection is the session. No subprotocol is offered: a
//! server that knows none would have to refuse.

use std::time::Duration;

use salon_client::internal::{SocketError, SocketEvent, TextSocket};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{MAX_MESSAGE, Outbound, QUEUE, Received, UpstreamError, frame};

/// The sending half. Dropping it ends the connection.
#[derive(Debug)]
pub(super) struct WebSocket {
    writer: mpsc::Sender<Box<str>>,
    task: JoinSet<()>,
}

/// Whether an address and headers could be used at all.
pub(super) fn check(url: &str, headers: &[(String, String)]) -> Result<(), UpstreamError> {
    TextSocket::check(url, headers).map_err(told)
}

fn told(error: SocketError) -> UpstreamError {
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

impl WebSocket {
    pub(super) async fn open(
        url: &str,
        headers: &[(String, String)],
        inbound: mpsc::Sender<Received>,
    ) -> Result<Self, UpstreamError> {
        let socket = TextSocket::open(url, headers).await.map_err(told)?;
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

async fn attend(mut socket: TextSocket, mut queue: mpsc::Receiver<Box<str>>, inbound: mpsc::Sender<Received>) {
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
                        // Whoever does not read any more closes soon, and what it still has to say is to go out.
                        let _ = inbound.send(Received::Message { text: text.into(), related: None }).await;
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
    let _ = inbound.send(Received::Ended { why }).await;
}
