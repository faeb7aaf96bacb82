//! Where the browser comes back to: a port on loopback (RFC 8252 §7.3), open for as long as one sign-in takes.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::AuthorizationError;

const PATH: &str = "/callback";

/// How long a browser may take to send its request, and how much of it is read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Browsers open connections in advance, so several are read at once.
const MAX_CONNECTIONS: usize = 16;

const DONE: &str = "Salon has the answer. You can close this page; the terminal tells the rest.\n";
const UNRELATED: &str = "This is not the sign-in that Salon waits for.\n";
const NOT_FOUND: &str = "There is nothing here.\n";

/// A port that waits for a browser.
#[derive(Debug)]
pub(super) struct RedirectListener {
    listener: TcpListener,
    port: u16,
}

impl RedirectListener {
    pub(super) async fn bind() -> Result<Self, AuthorizationError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(AuthorizationError::Listen)?;
        let port = listener.local_addr().map_err(AuthorizationError::Listen)?.port();
        Ok(Self { listener, port })
    }

    /// The address to come back to.
    pub(super) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the request that `judge` takes, by its query. Every other one is answered and forgotten.
    pub(super) async fn wait<T>(self, mut judge: impl FnMut(&str) -> Option<T>) -> Result<T, AuthorizationError> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let (stream, _) = accepted.map_err(AuthorizationError::Listen)?;
                    connections.spawn(timeout(READ_TIMEOUT, target(stream)));
                }
                Some(read) = connections.join_next(), if !connections.is_empty() => {
                    let Ok(Ok(Some((stream, target)))) = read else { continue };
                    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
                    if path != PATH {
                        answer(stream, "404 Not Found", NOT_FOUND).await;
                        continue;
                    }
                    match judge(query) {
                        Some(outcome) => {
                            answer(stream, "200 OK", DONE).await;
                            return Ok(outcome);
                        }
                        None => answer(stream, "400 Bad Request", UNRELATED).await,
                    }
                }
            }
        }
    }
}

/// The target of a GET request; `None` for anything else.
async fn target(mut stream: TcpStream) -> Option<(TcpStream, String)> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    let target = line.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?.to_owned();
    Some((stream, target))
}

/// Plain text: nothing of the request is in it, and nothing that a page could run.
async fn answer(mut stream: TcpStream, status: &str, text: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
        text.len()
    );
    let whole = async {
        stream.write_all(format!("{head}{text}").as_bytes()).await?;
        stream.shutdown().await
    };
    // The browser has done its part, whether or not it reads this.
    let _ = timeout(READ_TIMEOUT, whole).await;
}
