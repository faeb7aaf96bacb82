//! A connection of the Multi-Component Protocol as a test wants it: whole frames or any bytes out, whole answers in.

use std::net::SocketAddr;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Failure, within};

/// The longest answer that is read.
const MAX_FRAME_BYTES: u32 = 64 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct FramedAnswer {
    /// Its header.
    pub header: Value,
    /// Its body, as it came.
    pub body: String,
}

impl FramedAnswer {
    /// The code.
    pub fn code(&self) -> u64 {
        self.header["code"].as_u64().unwrap_or_default()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// What was received, message by message as it came.
    pub fn messages(&self) -> Result<Vec<String>, Failure> {
        #[derive(serde::Deserialize)]
        struct Messages<'a> {
            #[serde(borrow)]
            messages: Vec<&'a RawValue>,
        }
        let body: Messages<'_> = serde_json::from_str(&self.body)
            .map_err(|e| format!("no messages ({e}): {} {}", self.header, self.body))?;
        Ok(body.messages.into_iter().map(|message| message.get().to_owned()).collect())
    }
}

/// A header as every request has one.
pub fn header(id: &str, method: &str) -> Value {
    json!({"id": id, "method": method, "version": "MCP/1.0", "timestamp": 1_755_439_200_000_u64, "contentType": "json"})
}

/// A frame.
pub fn frame(header: &[u8], body: &[u8]) -> Vec<u8> {
    let length = |part: &[u8]| u32::try_from(part.len()).expect("a test's frame is short").to_be_bytes();
    [&length(header), header, &length(body), body].concat()
}

/// One connection.
#[derive(Debug)]
pub struct FramedClient(TcpStream);

impl FramedClient {
    /// Connects, and says nothing yet.
    pub async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = within("a framed connection", TcpStream::connect(address)).await?;
        Ok(Self(stream.map_err(|e| format!("no connection to {address}: {e}"))?))
    }

    /// Writes any bytes.
    pub async fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        within("the gateway to take bytes", self.0.write_all(bytes)).await?.map_err(|e| format!("not sent: {e}"))
    }

    /// Writes a request.
    pub async fn request(&mut self, header: &Value, body: &[u8]) -> Result<(), Failure> {
        self.bytes(&frame(header.to_string().as_bytes(), body)).await
    }

    /// Writes a request and reads the next answer, which must be to it.
    pub async fn ask(&mut self, id: &str, method: &str, body: &Value) -> Result<FramedAnswer, Failure> {
        self.ask_text(id, method, &body.to_string()).await
    }

    /// The same with a body that is written already.
    pub async fn ask_text(&mut self, id: &str, method: &str, body: &str) -> Result<FramedAnswer, Failure> {
        self.request(&header(id, method), body.as_bytes()).await?;
        let reply = self.reply().await?;
        if reply.header["id"] != id || reply.header["method"] != method || reply.header["version"] != "MCP/1.0" {
            return Err(format!("{method} {id} was answered by {}", reply.header));
        }
        Ok(reply)
    }

    /// Connects a participant; gives the session's id.
    pub async fn connect(&mut self, who: &str, topic: &str, token: &str) -> Result<String, Failure> {
        let info = json!({"id": who, "version": "1", "capabilities": []});
        let reply =
            self.ask("connect", "CONNECT", &json!({"clientInfo": info, "token": token, "topic": topic})).await?;
        match reply.json()["sessionId"].as_str() {
            Some(session) if reply.code() == 200 => Ok(session.to_owned()),
            _ => Err(format!("{who} was not connected: {} {}", reply.header, reply.body)),
        }
    }

    /// The next answer.
    pub async fn reply(&mut self) -> Result<FramedAnswer, Failure> {
        self.next().await?.ok_or_else(|| "the connection ended without an answer".into())
    }

    /// The next answer, or the end. At the end this side ends too, as clients do: the gateway waits for that.
    pub async fn next(&mut self) -> Result<Option<FramedAnswer>, Failure> {
        let came = within("the next answer", self.read()).await??;
        if came.is_none() {
            let _ = self.0.shutdown().await;
        }
        Ok(came)
    }

    async fn read(&mut self) -> Result<Option<FramedAnswer>, Failure> {
        let Some(header) = self.part().await? else { return Ok(None) };
        let Some(body) = self.part().await? else { return Err("an answer ended in the middle".into()) };
        let header = serde_json::from_slice(&header).map_err(|e| format!("an answer's header is not JSON: {e}"))?;
        let body = String::from_utf8(body).map_err(|e| format!("an answer's body is not UTF-8: {e}"))?;
        Ok(Some(FramedAnswer { header, body }))
    }

    async fn part(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Ok(length) = self.0.read_u32().await else { return Ok(None) };
        if length > MAX_FRAME_BYTES {
            return Err(format!("an answer has {length} bytes"));
        }
        let mut part = vec![0; length as usize];
        self.0.read_exact(&mut part).await.map_err(|e| format!("an answer broke off: {e}"))?;
        Ok(Some(part))
    }
}
