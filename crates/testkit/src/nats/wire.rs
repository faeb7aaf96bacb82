//! The protocol of NATS as far as tests speak it themselves: a connection, its frames, and JetStream's API.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::{Failure, within};

/// A connection on which something was said.
pub(super) async fn open(address: &str, said: &str) -> Result<BufReader<TcpStream>, Failure> {
    let socket = TcpStream::connect(address).await.map_err(|e| format!("no connection to NATS: {e}"))?;
    let mut wire = BufReader::new(socket);
    let said = format!("CONNECT {{\"verbose\":false,\"headers\":true}}\r\n{said}");
    wire.write_all(said.as_bytes()).await.map_err(|e| format!("not sent to NATS: {e}"))?;
    Ok(wire)
}

/// Asks JetStream's API, as its own tools do.
pub(super) async fn ask(address: &str, subject: &str, body: &Value) -> Result<Value, Failure> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let sent = format!("SUB told 1\r\nPUB $JS.API.{subject} told {}\r\n{body}\r\n", body.len());
    let mut wire = open(address, &sent).await?;
    loop {
        let next = within("an answer of NATS", frame(&mut wire)).await?;
        let (line, body) = next.ok_or("NATS has closed the connection")?;
        if line.starts_with("MSG") {
            return serde_json::from_slice(&body).map_err(|e| format!("no JSON from NATS: {e}"));
        }
    }
}

/// One frame of NATS: its line, and what follows it. `None` where the connection ends.
pub async fn frame(from: &mut (impl AsyncBufReadExt + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    if from.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let verb = line.split_whitespace().next().unwrap_or_default();
    let mut body = Vec::new();
    if ["PUB", "HPUB", "MSG", "HMSG"].contains(&verb) {
        let bytes: usize = line.split_whitespace().last()?.parse().ok()?;
        body.resize(bytes + 2, 0);
        from.read_exact(&mut body).await.ok()?;
    }
    Some((line, body))
}
