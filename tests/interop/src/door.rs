//! Where MCP clients come in, and as whom.

use std::net::SocketAddr;

use salon_testkit::Failure;
use salon_testkit::http::HttpCall;
use serde_json::Value;

use crate::stage::{GUEST, Stage, TOPIC};

/// What a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The room as one server.
    Room,
    /// One participant of it.
    Guest,
}

impl At {
    pub(crate) const ALL: [Self; 2] = [Self::Guest, Self::Room];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Guest => "participant",
        }
    }

    /// What the guest's names begin with there.
    pub(crate) fn prefix(self) -> String {
        match self {
            Self::Room => format!("{GUEST}__"),
            Self::Guest => String::new(),
        }
    }

    pub(crate) fn path(self) -> String {
        match self {
            Self::Room => format!("/mcp/{TOPIC}"),
            Self::Guest => format!("/mcp/{TOPIC}/{GUEST}"),
        }
    }

    pub(crate) fn sse_path(self) -> String {
        match self {
            Self::Room => format!("/sse?topic={TOPIC}"),
            Self::Guest => format!("/sse?topic={TOPIC}&participant={GUEST}"),
        }
    }
}

impl Stage {
    /// Where the gateway listens.
    pub(crate) fn socket(&self) -> Result<SocketAddr, Failure> {
        let address = self.address.trim_start_matches("http://");
        address.parse().map_err(|e| format!("{address}: {e}"))
    }

    /// A URL for a WebSocket, good once: with a ticket, because its clients can send no header.
    pub(crate) async fn websocket_url(&self, at: At, token: &str) -> Result<String, Failure> {
        let body = serde_json::json!({ "topic": TOPIC }).to_string();
        let answer = HttpCall::new("POST", "/v0/tickets").bearer(token).body(body).send(self.socket()?).await?;
        let made: Value = serde_json::from_str(&answer.body).map_err(|e| format!("{e}: {}", answer.body))?;
        let ticket = made["ticket"].as_str().ok_or_else(|| format!("no ticket: {}", answer.body))?;
        Ok(format!("{}{}?ticket={ticket}", self.address.replacen("http", "ws", 1), at.path()))
    }
}
