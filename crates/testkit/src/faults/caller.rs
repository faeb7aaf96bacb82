//! Somebody who is in a room by MCP sessions over Streamable HTTP and calls a tool of the gateway's, one call after the other. A session ends with
//! its gateway; what was called then may or may not have been done, and the next session begins elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::crowd::{FaultCrowd, GATEWAYS};
use super::verdict::{FaultDoor, FaultRecord};
use super::{TOPICS, every};
use crate::Failure;
use crate::http::{HttpAnswer, HttpCall};

/// How often it calls.
const CALL_INTERVAL: Duration = Duration::from_millis(200);
const REVISION: &str = "2025-06-18";

/// What became of a call.
enum McpCallEnd {
    /// It was answered, with a result.
    Answered,
    /// It was answered with an error, or refused: the session is still there.
    Refused,
    /// The session is gone, or its gateway.
    Lost,
}

struct McpCaller {
    name: String,
    token: String,
    topic: usize,
    calls: u64,
    answered: usize,
}

/// Calls until the end.
pub(crate) async fn stay(
    name: String,
    token: String,
    topic: usize,
    crowd: Arc<FaultCrowd>,
) -> Result<FaultRecord, Failure> {
    let mut caller = McpCaller { name, token, topic, calls: 0, answered: 0 };
    let (mut beat, mut at) = (every(CALL_INTERVAL), topic % GATEWAYS);
    while !crowd.is_over() {
        beat.tick().await;
        let Some(address) = crowd.address(at) else {
            at = (at + 1) % GATEWAYS;
            continue;
        };
        if let Some(session) = caller.open(address).await? {
            crowd.entered(topic, &caller.name);
            let ended = caller.call_on(address, &session, &crowd).await;
            crowd.left(topic, &caller.name);
            ended.map_err(|of| format!("{} in {} at gateway {at}: {of}", caller.name, TOPICS[topic]))?;
        }
        at = (at + 1) % GATEWAYS;
    }
    let McpCaller { name, answered, .. } = caller;
    let by = FaultDoor::Mcp { answered };
    Ok(FaultRecord { name, topic, by, reached_the_end: true, ..FaultRecord::default() })
}

impl McpCaller {
    fn post(&self, session: Option<&str>, message: &Value) -> HttpCall {
        let call = HttpCall::new("POST", format!("/mcp/{}", TOPICS[self.topic])).bearer(&self.token);
        let call = call.header("Accept", "application/json, text/event-stream").body(message.to_string());
        match session {
            Some(session) => call.header("Mcp-Session-Id", session).header("MCP-Protocol-Version", REVISION),
            None => call,
        }
    }

    /// A session; `None` where the gateway is not there or cannot let anybody in now.
    async fn open(&self, address: SocketAddr) -> Result<Option<String>, Failure> {
        let info = json!({"name": self.name, "version": "1"});
        let params = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": info});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let Ok(answer) = self.post(None, &hello).send(address).await else { return Ok(None) };
        let is_closing = || {
            let refused: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            refused["error"]["data"]["code"] == "closing"
        };
        let session = match (answer.status, answer.header("mcp-session-id")) {
            (200, Some(session)) => session.to_owned(),
            (503, _) => return Ok(None),
            (200, None) if is_closing() => return Ok(None),
            _ => return Err(format!("{} has no MCP session: {} {}", self.name, answer.status, answer.body)),
        };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let told = self.post(Some(&session), &initialized).send(address).await;
        Ok(told.is_ok_and(|answer| answer.status == 202).then_some(session))
    }

    /// Calls for as long as the session lasts. Once nothing new is to be said, it only shows that it is there.
    async fn call_on(&mut self, address: SocketAddr, session: &str, crowd: &FaultCrowd) -> Result<(), Failure> {
        let mut beat = every(CALL_INTERVAL);
        while !crowd.is_over() {
            beat.tick().await;
            let is_open = crowd.is_open();
            let (method, params) = match is_open {
                true => ("tools/call", json!({"name": "system:gateway__presence.get", "arguments": {}})),
                false => ("ping", json!({})),
            };
            self.calls += 1;
            let call = json!({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params});
            let Ok(answer) = self.post(Some(session), &call).send(address).await else { return Ok(()) };
            match self.read(&answer)? {
                McpCallEnd::Answered if is_open => self.answered += 1,
                McpCallEnd::Answered | McpCallEnd::Refused => {}
                McpCallEnd::Lost => return Ok(()),
            }
        }
        Ok(())
    }

    /// What became of the newest call. It is answered once.
    fn read(&self, answer: &HttpAnswer) -> Result<McpCallEnd, Failure> {
        match answer.status {
            200 => {}
            503 => return Ok(McpCallEnd::Refused),
            404 => return Ok(McpCallEnd::Lost),
            status => return Err(format!("a call was answered with {status}: {}", answer.body)),
        }
        let is_stream = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let texts: Vec<&str> = match is_stream {
            true => answer.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect(),
            false => vec![&answer.body],
        };
        let read = |text: &&str| serde_json::from_str::<Value>(text).map_err(|e| format!("{e}: {text}"));
        let messages = texts.iter().filter(|text| !text.is_empty()).map(read).collect::<Result<Vec<_>, _>>()?;
        let answers: Vec<_> = messages.iter().filter(|message| message["id"] == self.calls).collect();
        match answers[..] {
            // A stream that its gateway has cut.
            [] => Ok(McpCallEnd::Lost),
            [one] if one.get("result").is_some() => Ok(McpCallEnd::Answered),
            [one] if one.get("error").is_some() => Ok(McpCallEnd::Refused),
            _ => Err(format!("call {} was not answered once: {}", self.calls, answer.body)),
        }
    }
}
