//! What writing and checking a fixture ask of a gateway.

use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ContextAnswer;
use crate::http::{HttpAnswer, HttpCall};
use crate::socket::{TestSocket, TestSocketEvent};
use crate::{Failure, within};

pub(super) const ALPHA: &str = "room:alpha";

/// An envelope of somebody's; `rest` is what follows its kind.
pub(super) fn envelope(id: &str, from: &str, rest: &str) -> String {
    format!(r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}","kind":"mcp",{rest}}}"#)
}

pub(super) fn chat(id: &str, from: &str, text: &str) -> String {
    let params = json!({ "text": text });
    let rest = format!(r#""payload":{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{params}}}"#);
    envelope(id, from, &rest)
}

pub(super) fn call(id: &str, from: &str, to: &str, tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    let payload = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{params}}}"#);
    envelope(id, from, &format!(r#""to":["{to}"],"payload":{payload}"#))
}

pub(super) fn answer(id: &str, from: &str, to: &str, request: &str) -> String {
    let payload = format!(r#"{{"jsonrpc":"2.0","id":"{request}","result":{{"content":[]}}}}"#);
    envelope(id, from, &format!(r#""to":["{to}"],"correlation_id":"{request}","payload":{payload}"#))
}

/// A participant in [`ALPHA`].
pub(super) struct FixtureParticipant {
    id: &'static str,
    socket: TestSocket,
}

impl FixtureParticipant {
    pub(super) async fn enter(
        address: SocketAddr,
        id: &'static str,
        token: &str,
        after: Option<&str>,
    ) -> Result<Self, Failure> {
        let after = after.map(|id| format!("&after={id}")).unwrap_or_default();
        let call = HttpCall::new("GET", format!("/v0/ws?topic={ALPHA}{after}")).bearer(token);
        let entered = TestSocket::connect(address, call).await?;
        let socket = entered.map_err(|answer| format!("{id} is refused: {} {}", answer.status, answer.body))?;
        let mut participant = Self { id, socket };
        participant.next().await?;
        Ok(participant)
    }

    pub(super) async fn next(&mut self) -> Result<Value, Failure> {
        match self.socket.next().await? {
            TestSocketEvent::Text(text) => serde_json::from_str(&text).map_err(|e| format!("not JSON ({e}): {text}")),
            other => Err(format!("{} expected a frame, and {other:?} came", self.id)),
        }
    }

    /// Waits for a frame of which something holds.
    pub(super) async fn wait(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
        let id = self.id;
        let waiting = async {
            loop {
                let frame = self.next().await?;
                if is(&frame) {
                    return Ok(frame);
                }
                if frame["payload"]["event"] == "error" {
                    return Err(format!("{id} was refused: {frame}"));
                }
            }
        };
        within(&format!("{what} to come to {id}"), waiting).await?
    }

    /// Publishes an envelope and waits for its echo.
    pub(super) async fn publish(&mut self, text: String) -> Result<(), Failure> {
        let sent: Value = serde_json::from_str(&text).map_err(|e| format!("not JSON ({e}): {text}"))?;
        self.socket.text(text).await?;
        self.wait("the echo", |frame| frame["id"] == sent["id"]).await.map(|_| ())
    }

    /// Calls a tool of the gateway's and hands out its structured answer.
    pub(super) async fn ask(&mut self, id: &str, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        self.publish(call(id, self.id, "system:gateway", tool, arguments)).await?;
        let mut answer = self.wait("the answer", |frame| frame["correlation_id"] == id).await?;
        Ok(answer["payload"]["result"]["structuredContent"].take())
    }

    /// The answers to every question about contexts; `prefix` makes the ids of the calls.
    pub(super) async fn contexts(&mut self, prefix: &str) -> Result<Vec<ContextAnswer>, Failure> {
        let questions = [
            ("context.get", json!({ "key": "plan" })),
            ("context.get", json!({ "key": "plan", "version": 1 })),
            ("context.history", json!({ "key": "plan" })),
            ("context.history", json!({ "key": "gone" })),
            ("context.get", json!({ "scope": "participant", "key": "mood" })),
            ("context.get", json!({ "scope": "tool:arm", "key": "mood" })),
            ("context.list", json!({})),
        ];
        let mut answers = Vec::new();
        for (number, (tool, arguments)) in questions.into_iter().enumerate() {
            let answer = self.ask(&format!("{prefix}-{number}"), tool, &arguments).await?;
            answers.push(ContextAnswer { tool: tool.into(), arguments, answer });
        }
        Ok(answers)
    }
}

/// Publishes over REST; hands out the status and the answer.
pub(super) async fn post(address: SocketAddr, token: &str, topic: &str, text: &str) -> Result<(u16, Value), Failure> {
    let call = HttpCall::new("POST", format!("/v0/topics/{topic}/messages")).bearer(token).body(text);
    let HttpAnswer { status, body, .. } = call.send(address).await?;
    Ok((status, serde_json::from_str(&body).map_err(|e| format!("not JSON ({e}): {body}"))?))
}

/// A topic's envelopes as they were delivered, oldest first.
pub(super) async fn history(address: SocketAddr, token: &str, topic: &str) -> Result<Vec<String>, Failure> {
    #[derive(Deserialize)]
    struct HistoryAnswer<'a> {
        #[serde(borrow)]
        history: Vec<&'a RawValue>,
    }
    let call = HttpCall::new("GET", format!("/v0/topics/{topic}/history?limit=1000")).bearer(token);
    let HttpAnswer { status, body, .. } = call.send(address).await?;
    if status != 200 {
        return Err(format!("the history of {topic}: {status} {body}"));
    }
    let page: HistoryAnswer<'_> = serde_json::from_str(&body).map_err(|e| format!("not JSON ({e}): {body}"))?;
    Ok(page.history.iter().rev().map(|envelope| envelope.get().to_owned()).collect())
}
