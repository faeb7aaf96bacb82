//! Frames out and frames in: `[length][header][length][body]`, lengths in four bytes, big-endian.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use salon_protocol::{ParticipantId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use super::FramedError;
use crate::gateway::Wire;

const VERSION: &str = "MCP/1.0";

/// The longest header and body of an answer that are read: more than any gateway sends.
const MAX_HEADER: usize = 64 << 10;
const MAX_BODY: usize = 256 << 20;

/// A request as it is sent, however often.
pub(super) struct FramedRequest {
    id: String,
    frame: Vec<u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameHeader<'a> {
    id: &'a str,
    method: &'static str,
    version: &'static str,
    timestamp: u64,
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'a ParticipantId>,
}

impl FramedRequest {
    fn new(header: &FrameHeader<'_>, body: &[u8]) -> Self {
        let head = serde_json::to_vec(header).expect("a header has only string keys");
        let mut frame = Vec::with_capacity(8 + head.len() + body.len());
        for part in [&head[..], body] {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            frame.extend_from_slice(&length.to_be_bytes());
            frame.extend_from_slice(part);
        }
        Self { id: header.id.to_owned(), frame }
    }
}

fn now() -> u64 {
    Timestamp::from_system(SystemTime::now()).0
}

fn fresh() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A request whose body is JSON.
pub(super) fn json(method: &'static str, body: &impl Serialize) -> FramedRequest {
    let (id, timestamp) = (fresh(), now());
    let header = FrameHeader {
        id: &id,
        method,
        version: VERSION,
        timestamp,
        content_type: "json",
        session_id: None,
        destination: None,
    };
    let body = serde_json::to_vec(body).unwrap_or_default();
    FramedRequest::new(&header, &body)
}

/// A SEND whose body is bytes.
pub(super) fn binary(content_type: &str, session: &str, to: Option<&ParticipantId>, body: &[u8]) -> FramedRequest {
    let (id, timestamp) = (fresh(), now());
    let header = FrameHeader {
        id: &id,
        method: "SEND",
        version: VERSION,
        timestamp,
        content_type,
        session_id: Some(session),
        destination: to,
    };
    FramedRequest::new(&header, body)
}

/// An answer.
pub(super) struct FramedReply {
    code: u16,
    body: Vec<u8>,
}

impl FramedReply {
    /// The no that it is, if it is one.
    pub(super) fn refusal(&self) -> Result<Option<FramedError>, FramedError> {
        #[derive(Deserialize)]
        struct ErrorReply {
            code: String,
            message: String,
        }
        if self.code == 200 {
            return Ok(None);
        }
        let ErrorReply { code: word, message } = self.body()?;
        Ok(Some(FramedError::Refused { code: self.code, word, message }))
    }

    /// Its body.
    pub(super) fn body<'a, T: Deserialize<'a>>(&'a self) -> Result<T, FramedError> {
        serde_json::from_slice(&self.body).map_err(|error| FramedError::Unreadable(Arc::new(error)))
    }
}

/// One connection.
pub(super) struct FramedLine(BufReader<Box<dyn Wire>>);

impl FramedLine {
    pub(super) fn new(wire: Box<dyn Wire>) -> Self {
        Self(BufReader::new(wire))
    }

    /// Sends a request and reads until its answer comes.
    pub(super) async fn ask(&mut self, request: &FramedRequest) -> io::Result<FramedReply> {
        #[derive(Deserialize)]
        struct Answer {
            id: String,
            code: u16,
        }
        self.0.write_all(&request.frame).await?;
        self.0.flush().await?;
        loop {
            let header = self.part("header", MAX_HEADER).await?;
            let body = self.part("body", MAX_BODY).await?;
            let unreadable = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error);
            let Answer { id, code } = serde_json::from_slice(&header).map_err(unreadable)?;
            // An answer without an id is about the connection itself.
            if id == request.id || id.is_empty() {
                return Ok(FramedReply { code, body });
            }
        }
    }

    async fn part(&mut self, what: &str, limit: usize) -> io::Result<Vec<u8>> {
        let length = self.0.read_u32().await?;
        let fits = usize::try_from(length).ok().filter(|length| *length <= limit);
        let Some(length) = fits else {
            let message = format!("the {what} of an answer has {length} bytes; is this a gateway's framed door?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        };
        // What is announced is not made room for before it comes.
        let mut part = Vec::new();
        (&mut self.0).take(length as u64).read_to_end(&mut part).await?;
        if part.len() == length { Ok(part) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
