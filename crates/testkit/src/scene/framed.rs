//! A participant of the Multi-Component Protocol in a scene.

use std::collections::VecDeque;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::compose::parse;
use super::connection::{Came, SceneConnection};
use super::matching::{NamedValues, substitute};
use super::stage::{SceneStage, shorten};
use super::{ConnectionName, SceneOutgoing, With};
use crate::Failure;
use crate::framed::{FramedClient, header};
use crate::gateway::TestToken;

/// How long one request to receive waits, in milliseconds. When nothing has come another is made.
const WAIT: u64 = 2000;

/// One session, over one connection.
pub(crate) struct SceneSession {
    line: FramedClient,
    session: String,
    received: VecDeque<Came>,
    /// Whether a request to receive has no answer yet.
    waits: bool,
    requests: u64,
    /// What it was asked and has not answered: the message's id, the request's, and who asked.
    questions: Vec<(String, Value, String)>,
}

impl SceneSession {
    async fn open(address: SocketAddr, body: &Value) -> Result<(Self, String), Failure> {
        let mut line = FramedClient::open(address).await?;
        let reply = line.ask("connect", "CONNECT", body).await?;
        let answer = reply.json();
        let session = answer["sessionId"].as_str().filter(|_| reply.code() == 200);
        let session = session.ok_or_else(|| format!("the connection was refused: {} {}", reply.code(), reply.body))?;
        let session = session.to_owned();
        Ok((
            Self { line, session, received: VecDeque::new(), waits: false, requests: 0, questions: Vec::new() },
            reply.body,
        ))
    }

    fn name(&mut self) -> String {
        self.requests += 1;
        format!("request-{}", self.requests)
    }

    /// Sends the body of a SEND; the answer.
    async fn send(&mut self, id: Option<&str>, mut body: Value, named: &NamedValues) -> Result<Value, Failure> {
        let fields = body.as_object_mut().ok_or("only an object can be filled in")?;
        fields.entry("sessionId").or_insert(self.session.as_str().into());
        let body = named.write(body.to_string());
        let name = id.map_or_else(|| self.name(), str::to_owned);
        let reply = self.line.ask_text(&name, "SEND", &body).await?;
        if reply.code() != 200 {
            self.received.push_back(Came::Text(reply.body.clone()));
        }
        Ok(reply.json())
    }

    pub(crate) async fn next(&mut self) -> Result<Came, Failure> {
        loop {
            if let Some(came) = self.received.pop_front() {
                return Ok(came);
            }
            let reply = match std::mem::take(&mut self.waits) {
                true => self.line.reply().await,
                false => {
                    let (name, body) = (self.name(), json!({"sessionId": self.session, "timeout": WAIT}));
                    self.line.ask(&name, "RECEIVE", &body).await
                }
            };
            let Ok(reply) = reply else { return Ok(Came::Ended) };
            if reply.code() != 200 {
                return Ok(Came::Text(reply.body));
            }
            self.received.extend(reply.messages()?.into_iter().map(Came::Text));
        }
    }

    /// Asks for what is new, and goes on when the gateway has heard that: what cannot be done is asked for next, and answered at once.
    pub(crate) async fn begin_to_wait(&mut self) -> Result<(), Failure> {
        let (waiting, proof) = (self.name(), self.name());
        for (name, timeout) in [(&waiting, json!(WAIT)), (&proof, json!(-1))] {
            let body = json!({"sessionId": self.session, "timeout": timeout}).to_string();
            self.line.request(&header(name, "RECEIVE"), body.as_bytes()).await?;
        }
        self.waits = true;
        loop {
            let reply = self.line.reply().await?;
            if reply.header["id"] == proof.as_str() {
                return Ok(());
            }
            self.waits = false;
            self.received.extend(reply.messages()?.into_iter().map(Came::Text));
        }
    }

    pub(crate) async fn leave(mut self) -> Result<(), Failure> {
        let reply = self.line.ask("leave", "DISCONNECT", &json!({"sessionId": self.session, "reason": "bye"})).await?;
        if reply.json()["status"] == "disconnected" { Ok(()) } else { Err(format!("not disconnected: {}", reply.body)) }
    }

    /// Remembers what may be answered later.
    pub(crate) fn hear(&mut self, came: &Value) {
        let payload = &came["payload"];
        if let (Some(id), Some(sender), true) =
            (came["id"].as_str(), came["sender"].as_str(), payload["method"].is_string())
            && !payload["id"].is_null()
        {
            self.questions.push((id.to_owned(), payload["id"].clone(), sender.to_owned()));
        }
    }

    fn reply(&self, request: &str, result: Option<&str>, failed: bool) -> Result<Value, Failure> {
        let questions = self.questions.iter().find(|(id, ..)| id == request);
        let (_, id, sender) = questions.ok_or_else(|| format!("nobody asked {request}"))?;
        let result = result.map_or(Ok(json!({})), parse)?;
        let outcome = if failed { "error" } else { "result" };
        Ok(json!({"destination": sender, "payload": {"jsonrpc": "2.0", "id": id, outcome: result}}))
    }
}

/// What an envelope must have, as a message that is received has it.
pub(crate) fn received(envelope: &Value) -> Value {
    let mut message = envelope.clone();
    if let Some(fields) = message.as_object_mut() {
        if let Some(from) = fields.remove("from") {
            fields.insert("sender".into(), from);
        }
        if let Some(to) = fields.remove("to") {
            fields.insert("destination".into(), to[0].clone());
        }
    }
    message
}

impl SceneStage {
    pub(crate) async fn come_by_framed(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        with: &With,
    ) -> Result<(), Failure> {
        let mut token = TestToken::new(who.participant());
        let mut info = json!({"id": who.participant(), "version": "1"});
        for (key, value) in with {
            match (key.strip_prefix("token."), key.as_str()) {
                (Some(claim), _) => token.claim(claim, value)?,
                (None, "capabilities") => info["capabilities"] = value.split(',').collect(),
                (None, other) => return Err(format!("`{other}` is nothing a framed client says")),
            }
        }
        let token = self.gateway.token(&token)?;
        let body = json!({"clientInfo": info, "token": token, "topic": topic});
        let (session, welcome) = SceneSession::open(self.gateway.framed_address(), &body).await?;
        self.transcript.push(format!("      {} ← {}", who.0, shorten(&welcome)));
        let mut connection = SceneConnection::framed(session, topic);
        connection.welcome = welcome;
        self.connections.insert(who.clone(), connection);
        Ok(())
    }

    /// Sends something by SEND; `$ID` is then what the gateway called it.
    pub(crate) async fn send_framed(&mut self, who: &ConnectionName, what: &SceneOutgoing) -> Result<(), Failure> {
        let mut name = None;
        let body = match what {
            SceneOutgoing::Filled(text) => parse(&substitute(text, &self.bindings))?,
            SceneOutgoing::Chat { text, id } => {
                name = Some(id.clone());
                json!({ "payload": text })
            }
            SceneOutgoing::Notify { to, id } => {
                name = Some(id.clone());
                let payload = json!({"jsonrpc": "2.0", "method": "notifications/note"});
                json!({"payload": payload, "destination": to.as_deref().unwrap_or("*")})
            }
            SceneOutgoing::Call { to, method, id, params } => {
                name = Some(id.clone());
                self.requests += 1;
                let mut payload = json!({"jsonrpc": "2.0", "id": self.requests, "method": method});
                if let Some(params) = params {
                    payload["params"] = parse(&substitute(params, &self.bindings))?;
                }
                json!({"payload": payload, "destination": to})
            }
            SceneOutgoing::Reply { request, result, failed }
            | SceneOutgoing::Answer { request, result, failed, .. } => {
                let request = substitute(request, &self.bindings);
                let session = self.connection(who)?.as_framed().ok_or("not a framed connection")?;
                session.reply(&request, result.as_deref(), *failed)?
            }
            other => return Err(format!("a framed client does not do {other:?}")),
        };
        self.transcript.push(format!("      {} → SEND {}", who.0, shorten(&body.to_string())));
        // Not by `connection`: the names are the stage's too.
        let connection = self.connections.get_mut(who).ok_or_else(|| format!("{} is not connected", who.0))?;
        let session = connection.as_framed().ok_or("not a framed connection")?;
        let answer = session.send(name.as_deref(), body, &self.named).await?;
        self.transcript.push(format!("      {} ← {answer}", who.0));
        if let (Some(name), Some(id)) = (name, answer["messageId"].as_str()) {
            self.bindings.insert(name, id.to_owned());
        }
        Ok(())
    }
}
