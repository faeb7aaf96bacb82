//! What a scene's participants send: envelopes filled in, and requests with their credentials.

use serde_json::{Value, json};

use super::client::OWN_KEYS;
use super::connection::SceneConnection;
use super::matching::substitute;
use super::stage::SceneStage;
use super::{ConnectionName, Over, SceneOutgoing, With};
use crate::Failure;
use crate::gateway::TestToken;
use crate::http::HttpCall;

/// What a connection is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SceneDoor<'a> {
    Socket,
    Stream,
    Mcp { at: Option<&'a str>, over: Over },
    Machine { over: Over },
}

impl SceneDoor<'_> {
    /// The address of a topic, and its query.
    fn address(self, topic: &str) -> (String, Vec<(String, String)>) {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let topics: Vec<_> =
            Some(topic).filter(|&topic| topic != "(none)").map(|t| named("topic", t)).into_iter().collect();
        match self {
            Self::Stream => (format!("/v0/topics/{}/stream", escape(topic)), Vec::new()),
            Self::Socket => ("/v0/ws".to_owned(), topics),
            Self::Machine { over: Over::WebSocket } => ("/context/v1/ws".to_owned(), topics),
            Self::Machine { .. } => ("/context/v1/stream".to_owned(), topics),
            Self::Mcp { at, over: Over::Sse } => {
                ("/sse".to_owned(), topics.into_iter().chain(at.map(|at| named("participant", at))).collect())
            }
            Self::Mcp { at, over } => {
                let at = at.map(|at| format!("/{}", escape(at))).unwrap_or_default();
                let poll = if over == Over::Poll { "/poll" } else { "" };
                (format!("/mcp/{}{at}{poll}", escape(topic)), Vec::new())
            }
        }
    }

    /// The subprotocol its clients offer.
    fn subprotocol(self) -> &'static str {
        match self {
            Self::Mcp { .. } => "mcp",
            Self::Machine { .. } => "machine-context.v1",
            Self::Socket | Self::Stream => "mcpx.v0",
        }
    }
}

impl SceneStage {
    /// The text to send, which is remembered under its id.
    pub(crate) fn compose(&mut self, who: &ConnectionName, what: &SceneOutgoing) -> Result<String, Failure> {
        if let Some(client) = self.connections.get(who).and_then(|connection| connection.client.as_ref()) {
            return match what {
                SceneOutgoing::Raw(text) => Ok(substitute(text, &self.bindings)),
                SceneOutgoing::Filled(text) => client.fill(parse(&substitute(text, &self.bindings))?),
                SceneOutgoing::Reply { request, result, failed } => {
                    client.reply(&substitute(request, &self.bindings), result.as_deref(), *failed)
                }
                other => Err(format!("an MCP client does not do {other:?}")),
            };
        }
        if let Some(served) = self.connections.get_mut(who).and_then(SceneConnection::as_served) {
            return match what {
                SceneOutgoing::Raw(text) => Ok(substitute(text, &self.bindings)),
                SceneOutgoing::Filled(text) => served.fill(&substitute(text, &self.bindings)),
                SceneOutgoing::Reply { request, result, failed } => {
                    let result = result.as_deref().map(|result| substitute(result, &self.bindings));
                    served.reply(&substitute(request, &self.bindings), result.as_deref(), *failed)
                }
                other => Err(format!("a server does not do {other:?}")),
            };
        }
        if let Some(machine) = self.connections.get_mut(who).and_then(|connection| connection.machine.as_mut()) {
            return machine.compose(what, &self.bindings);
        }
        let envelope = match what {
            SceneOutgoing::Raw(text) => {
                let text = self.named.write(substitute(text, &self.bindings));
                self.remember(&text);
                return Ok(text);
            }
            SceneOutgoing::Repeat { id } => {
                return self.sent.get(id).cloned().ok_or_else(|| format!("nobody ever sent {id}"));
            }
            SceneOutgoing::Filled(text) => substitute(text, &self.bindings),
            SceneOutgoing::Chat { text, id } => {
                let payload = json!({"method": "notifications/chat/message", "params": {"text": text}});
                json!({"id": id, "payload": payload}).to_string()
            }
            SceneOutgoing::Notify { to, id } => {
                let to = to.as_deref().map_or(json!("(absent)"), |to| json!([to]));
                json!({"id": id, "to": to}).to_string()
            }
            SceneOutgoing::Call { to, method, id, params } => {
                self.requests += 1;
                let mut payload = json!({"id": self.requests, "method": method});
                if let Some(params) = params {
                    payload["params"] = parse(&substitute(params, &self.bindings))?;
                }
                json!({"id": id, "to": [to], "payload": payload}).to_string()
            }
            SceneOutgoing::Reply { request, .. } => {
                return Err(format!("the answer to {request} needs an id: `as ID`"));
            }
            SceneOutgoing::Answer { request, id, result, failed } => {
                let request = &substitute(request, &self.bindings);
                let asked = self.sent.get(request).or_else(|| self.last_ids.get(request));
                let asked = parse(asked.ok_or_else(|| format!("nobody ever sent {request}"))?)?;
                let result = result.as_deref().map_or(Ok(json!({})), parse)?;
                let outcome = if *failed { "error" } else { "result" };
                let payload = json!({"id": asked["payload"]["id"], outcome: result});
                json!({"id": id, "to": [asked["from"]], "correlation_id": request, "payload": payload}).to_string()
            }
        };
        self.fill(who, &envelope)
    }

    /// Fills in what every envelope has, takes out what is to be `(absent)`, and remembers the result.
    pub(crate) fn fill(&mut self, who: &ConnectionName, envelope: &str) -> Result<String, Failure> {
        let mut envelope = parse(envelope)?;
        let fields = envelope.as_object_mut().ok_or("only an object can be filled in")?;
        for (key, value) in [
            ("protocol", json!("mcp-x/v0")),
            ("ts", json!("2025-08-17T14:00:00Z")),
            ("from", json!(who.participant())),
            ("kind", json!("mcp")),
            ("payload", json!({"method": "notifications/note"})),
        ] {
            fields.entry(key).or_insert(value);
        }
        if let Some(payload) = fields.get_mut("payload").and_then(Value::as_object_mut) {
            payload.entry("jsonrpc").or_insert(json!("2.0"));
            payload.retain(|_, value| *value != "(absent)");
        }
        fields.retain(|_, value| *value != "(absent)");
        let text = self.named.write(envelope.to_string());
        self.remember(&text);
        Ok(text)
    }

    fn remember(&mut self, text: &str) {
        if let Ok(envelope) = serde_json::from_str::<Value>(text)
            && let Some(id) = envelope["id"].as_str()
        {
            self.sent.entry(id.to_owned()).or_insert_with(|| text.to_owned());
        }
    }

    /// A request for a connection: `with` is its headers, its token, how the token is shown, and the query.
    pub(crate) async fn call(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        door: SceneDoor<'_>,
        with: &With,
    ) -> Result<HttpCall, Failure> {
        let mut token = TestToken::new(who.participant());
        for (key, value) in with {
            if let Some(claim) = key.strip_prefix("token.") {
                token.claim(claim, value)?;
            }
        }
        let token = self.gateway.token(&token)?;
        self.bindings.insert("TOKEN".into(), token.clone());

        let (path, mut query) = door.address(topic);
        let is_client = matches!(door, SceneDoor::Mcp { .. });
        let mut call = HttpCall::new("GET", path);
        let mut auth = "header";
        for (key, value) in with.iter().filter(|(key, _)| !key.starts_with("token.")) {
            let shown = substitute(value, &self.bindings);
            if is_client && OWN_KEYS.contains(&key.as_str()) {
                continue;
            }
            if key.starts_with(|c: char| c.is_ascii_uppercase()) {
                call = call.header(key, shown);
            } else if key == "auth" {
                auth = value;
            } else {
                query.push((key.clone(), shown));
            }
        }
        let shown = |key: &str| query.iter().any(|(k, _)| k == key);
        let credentials = shown("ticket") || shown("token") || call.headers.iter().any(|(k, _)| k == "Authorization");
        match auth {
            _ if credentials => {}
            "header" => call = call.bearer(&token),
            "subprotocol" => {
                let offered = format!("{}, bearer.{token}", door.subprotocol());
                call = call.header("Sec-WebSocket-Protocol", offered);
            }
            "url" => query.push(("token".into(), token)),
            "ticket" => query.push(("ticket".into(), self.ticket(&token, topic).await?)),
            "none" => {}
            other => return Err(format!("`auth={other}` is no way to show a token")),
        }
        if matches!(door, SceneDoor::Mcp { over: Over::WebSocket, .. }) && auth != "subprotocol" {
            call = call.header("Sec-WebSocket-Protocol", door.subprotocol());
        }
        let query: Vec<String> = query.iter().map(|(k, v)| format!("{k}={}", escape(v))).collect();
        if !query.is_empty() {
            call.path = format!("{}?{}", call.path, query.join("&"));
        }
        Ok(call)
    }

    async fn ticket(&self, token: &str, topic: &str) -> Result<String, Failure> {
        let call = HttpCall::new("POST", "/v0/tickets").bearer(token).body(json!({"topic": topic}).to_string());
        let answer = call.send(self.gateway.address()).await?;
        match parse(&answer.body)?["ticket"].as_str() {
            Some(ticket) if answer.status / 100 == 2 => Ok(ticket.to_owned()),
            _ => Err(format!("no ticket: {} {}", answer.status, answer.body)),
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|e| format!("not JSON ({e}): {text}"))
}

/// Percent-encodes a query's value, or a part of a path.
fn escape(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:@".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
