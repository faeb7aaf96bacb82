//! A participant of the Machine Context Protocol in a scene.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compose::{SceneDoor, parse};
use super::connection::{Came, SceneConnection};
use super::matching::substitute;
use super::requests::Requests;
use super::stage::{AwaitedFrame, SceneStage};
use super::{ConnectionName, Over, SceneOutgoing, With};
use crate::Failure;
use crate::socket::TestSocket;

/// The id of the request it begins with, whose answer shows that it is in the room.
const HELLO: &str = "hello";

pub(crate) struct MachineScene {
    participant: String,
    /// What the next message shows in its payload.
    token: Option<String>,
    /// Who asked it what, by the message's id.
    questions: BTreeMap<String, Value>,
    messages: u64,
}

impl MachineScene {
    /// Fills in what every message has.
    pub(crate) fn fill(&mut self, mut message: Value) -> Result<String, Failure> {
        self.messages += 1;
        let fields = message.as_object_mut().ok_or("only an object can be filled in")?;
        let header = fields.entry("header").or_insert(json!({}));
        let header = header.as_object_mut().ok_or("`header` must be an object")?;
        for (key, value) in [
            ("version", json!("1.0")),
            ("messageId", json!(format!("{}-{}", self.participant, self.messages))),
            ("timestamp", json!("2025-03-21T10:00:00Z")),
            ("messageType", json!("notification")),
            ("source", json!(self.participant)),
        ] {
            header.entry(key).or_insert(value);
        }
        header.retain(|_, value| *value != "(absent)");
        if let Some(token) = self.token.take() {
            let payload = fields.entry("payload").or_insert(json!({}));
            payload["security"]["token"] = token.into();
        }
        fields.retain(|_, value| *value != "(absent)");
        Ok(message.to_string())
    }

    /// The text of what a scene has it send.
    pub(crate) fn compose(
        &mut self,
        what: &SceneOutgoing,
        bindings: &BTreeMap<String, String>,
    ) -> Result<String, Failure> {
        match what {
            SceneOutgoing::Raw(text) => Ok(substitute(text, bindings)),
            SceneOutgoing::Filled(text) => self.fill(parse(&substitute(text, bindings))?),
            SceneOutgoing::Chat { text, id } => {
                let header = json!({"messageId": id, "destination": "*"});
                self.fill(json!({"header": header, "payload": {"chat": {"text": text}}}))
            }
            SceneOutgoing::Call { to, method, id, params } => {
                let (tool, capability) =
                    method.rsplit_once('.').map_or((method.as_str(), None), |(tool, rest)| (tool, Some(rest)));
                let mut wanted = json!({"id": tool});
                if let Some(capability) = capability {
                    wanted["capability"] = capability.into();
                }
                if let Some(params) = params {
                    wanted["parameters"] = parse(&substitute(params, bindings))?;
                }
                let header = json!({"messageId": id, "messageType": "request", "destination": to});
                self.fill(json!({"header": header, "payload": {"tool": wanted}}))
            }
            SceneOutgoing::Reply { request, result, failed } => {
                let request = substitute(request, bindings);
                let from = self.questions.get(&request).ok_or_else(|| format!("nobody asked {request}"))?.clone();
                let outcome = result.as_deref().map_or(Ok(json!({})), |text| parse(&substitute(text, bindings)))?;
                let kind = if *failed { "error" } else { "response" };
                let header = json!({"messageType": kind, "requestId": request, "destination": from});
                self.fill(match *failed {
                    true => json!({"header": header, "error": outcome}),
                    false => json!({"header": header, "payload": {"result": outcome}}),
                })
            }
            other => Err(format!("by the Machine Context Protocol nobody does {other:?}")),
        }
    }

    /// Remembers what may be answered later.
    pub(crate) fn hear(&mut self, came: &Value) {
        let header = &came["header"];
        if let (Some("request"), Some(id)) = (header["messageType"].as_str(), header["messageId"].as_str()) {
            self.questions.insert(id.to_owned(), header["source"].clone());
        }
    }
}

impl SceneStage {
    /// Somebody comes by the Machine Context Protocol. Who is to `speak` asks for its tools, and is in the room when that is answered.
    pub(crate) async fn come_by_machine(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        over: Over,
        with: &With,
        speaks: bool,
    ) -> Result<(), Failure> {
        let in_message = with.iter().any(|(key, value)| key == "auth" && value == "message");
        let mut shown = with.clone();
        for (key, value) in &mut shown {
            if key == "auth" && value == "message" {
                "none".clone_into(value);
            }
        }
        let call = self.call(who, topic, SceneDoor::Machine { over }, &shown).await?;
        let token = in_message.then(|| self.bindings.get("TOKEN").cloned()).flatten();
        let address = self.gateway.address();
        let mut connection = match over {
            Over::WebSocket => {
                let connected = TestSocket::connect(address, call).await?;
                let socket = connected.map_err(|a| format!("the connection was refused: {} {}", a.status, a.body))?;
                SceneConnection::socket(socket, topic)
            }
            Over::Http | Over::Sse | Over::Poll => {
                let mut requests = Requests::new(address, call);
                let posts = requests.path().replacen("/stream", "/messages", 1);
                requests.post_to(posts);
                if speaks {
                    requests.listen().await?;
                }
                SceneConnection::requests(requests, topic)
            }
        };
        let (participant, questions) = (who.participant().to_owned(), BTreeMap::new());
        let mut machine = MachineScene { participant, token, questions, messages: 0 };
        let list = json!({"id": "registry", "capability": "list"});
        let header = json!({"messageId": HELLO, "messageType": "request", "destination": "system:gateway"});
        let hello = speaks.then(|| machine.fill(json!({"header": header, "payload": {"tool": list}}))).transpose()?;
        connection.machine = Some(machine);
        if let Some(hello) = &hello {
            connection.send(hello).await?;
        }
        self.connections.insert(who.clone(), connection);
        if speaks { self.expect_hello(who).await } else { Ok(()) }
    }

    async fn expect_hello(&mut self, who: &ConnectionName) -> Result<(), Failure> {
        let mut others = Vec::new();
        loop {
            let came = self.next(who, AwaitedFrame::Frame).await?;
            let Came::Text(text) = came else { return Err(format!("expected an answer, came {came}")) };
            let answer = parse(&text)?;
            if answer["header"]["requestId"] != HELLO {
                others.push(text);
                continue;
            }
            if answer["header"]["messageType"] != "response" {
                return Err(format!("expected a response, came {text}"));
            }
            let connection = self.connection(who)?;
            connection.put_back(others);
            connection.welcome = text;
            return Ok(());
        }
    }
}

/// Presence, as this protocol tells it.
pub(crate) fn presence(payload: &Value) -> Value {
    json!({"header": {"messageType": "notification", "source": "system:gateway"}, "payload": {"presence": payload}})
}

/// A refusal, as this protocol tells it.
pub(crate) fn refusal(code: &str, regarding: &str) -> Value {
    let header = json!({"version": "1.0", "messageId": "(any)", "timestamp": "(any)", "messageType": "error", "requestId": regarding});
    json!({"header": header, "error": {"code": code, "message": "(any)"}})
}
