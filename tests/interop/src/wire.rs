//! Streamable HTTP by hand, for what no client's types may come between: the very text that is sent, and the very text that comes.

use std::net::SocketAddr;

use salon_testkit::Failure;
use salon_testkit::http::HttpCall;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::clients::Era;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// One client.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    gateway: SocketAddr,
    path: String,
    token: String,
    era: Era,
    session: Option<String>,
}

impl Wire {
    /// Connects. In the modern era there is nothing to be done for that.
    pub(crate) async fn open(gateway: SocketAddr, path: String, token: String, era: Era) -> Result<Self, Failure> {
        let mut wire = Self { gateway, path, token, era, session: None };
        if era == Era::Legacy {
            let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": LEGACY,
                "capabilities": {},
                "clientInfo": { "name": "wire", "version": "1" },
            } });
            let answer = wire.call().body(hello.to_string()).send(gateway).await?;
            wire.session = answer.header("mcp-session-id").map(str::to_owned);
            if wire.session.is_none() || messages(&answer.body).len() != 1 {
                return Err(format!("`initialize` was answered by {answer:?}"));
            }
            let answer = wire.call().body(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
            let answer = answer.send(gateway).await?;
            if answer.status != 202 {
                return Err(format!("`initialized` was answered by {answer:?}"));
            }
        }
        Ok(wire)
    }

    fn call(&self) -> HttpCall {
        let call = HttpCall::new("POST", &self.path).bearer(&self.token);
        let call = call.header("Accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) => call.header("Mcp-Session-Id", session).header("MCP-Protocol-Version", LEGACY),
            None => call,
        }
    }

    /// Makes a request with parameters that are written as they are, but for what the era adds to their `_meta`, which is the text of
    /// an object's members. What comes until the answer, the answer last.
    pub(crate) async fn request(
        &self,
        id: u64,
        method: &str,
        name: Option<&str>,
        params: &str,
        meta: &str,
    ) -> Result<Vec<String>, Failure> {
        let mut meta = vec![meta.to_owned()];
        let mut call = self.call();
        if self.era == Era::Modern {
            call = call.header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method);
            if let Some(name) = name {
                call = call.header("Mcp-Name", name);
            }
            meta.push(format!(r#""io.modelcontextprotocol/protocolVersion":"{MODERN}""#));
            meta.push(r#""io.modelcontextprotocol/clientCapabilities":{}"#.to_owned());
            meta.push(r#""io.modelcontextprotocol/clientInfo":{"name":"wire","version":"1"}"#.to_owned());
        }
        meta.retain(|members| !members.is_empty());
        let mut members = vec![params.to_owned(), format!(r#""_meta":{{{}}}"#, meta.join(","))];
        members.retain(|members| !members.is_empty());
        let params = members.join(",");
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#);
        let answer = call.body(body).send(self.gateway).await?;
        let came = messages(&answer.body);
        let last: Value = came.last().and_then(|last| serde_json::from_str(last).ok()).unwrap_or_default();
        if last["id"] != id || last.get("method").is_some() {
            return Err(format!("request {id} was answered by {answer:?}"));
        }
        Ok(came)
    }

    /// Ends the session, where there is one.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        if self.session.is_none() {
            return Ok(());
        }
        let answer = HttpCall { method: "DELETE".into(), ..self.call() }.send(self.gateway).await?;
        if (200..300).contains(&answer.status) { Ok(()) } else { Err(format!("the end was answered by {answer:?}")) }
    }
}

/// The JSON-RPC messages in a body, be it one of them or a stream of events.
fn messages(body: &str) -> Vec<String> {
    if serde_json::from_str::<&RawValue>(body).is_ok() {
        return vec![body.trim().to_owned()];
    }
    let data = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter(|data| !data.is_empty()).map(str::to_owned).collect()
}
