//! An MCP client in a scene: how it begins, what it says of itself, and what it may answer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::compose::{SceneDoor, parse};
use super::connection::{Came, SceneConnection};
use super::requests::Requests;
use super::stage::{AwaitedFrame, SceneStage};
use super::{ConnectionName, Over, With};
use crate::Failure;
use crate::socket::TestSocket;

/// The id of the request a client begins with.
const HELLO: &str = "hello";

/// The first revision without a handshake.
const MODERN: &str = "2026-07-28";

/// What `with` says of the client itself.
pub(crate) const OWN_KEYS: [&str; 5] = ["version", "offers", "client", "first", "draft"];

pub(crate) struct SceneClient {
    revision: String,
    capabilities: Value,
    info: Value,
    /// What a client of the draft dialect declares, for it is one then.
    declares: Option<Value>,
    /// Whether it says more than the scene says.
    speaks: bool,
    /// Whether it sees the room rather than one participant.
    pub(crate) sees_all: bool,
    over: Over,
    /// What it was asked, by the id as text.
    questions: BTreeMap<String, Value>,
}

impl SceneClient {
    fn new(who: &ConnectionName, sees_all: bool, over: Over, with: &With, speaks: bool) -> Self {
        let said = |key: &str| with.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        let offers = said("offers").unwrap_or_default().split(',').filter(|word| !word.is_empty());
        let capabilities = offers.map(|word| (word.to_owned(), json!({}))).collect::<Map<_, _>>();
        let declared = said("offers").unwrap_or("progress,cancellation");
        let declares = |word: &str| declared.split(',').any(|said| said == word);
        let declares = said("draft").map(
            |_| json!({"supportsProgress": declares("progress"), "supportsCancellation": declares("cancellation")}),
        );
        Self {
            declares,
            revision: said("version").unwrap_or("2025-06-18").to_owned(),
            capabilities: capabilities.into(),
            info: json!({"name": said("client").unwrap_or(&who.0), "version": "1"}),
            speaks,
            sees_all,
            over,
            questions: BTreeMap::new(),
        }
    }

    fn is_modern(&self) -> bool {
        self.speaks && *self.revision >= *MODERN
    }

    fn hello(&self) -> Value {
        if self.is_modern() {
            return json!({"id": HELLO, "method": "server/discover"});
        }
        if let Some(declares) = &self.declares {
            let params = json!({"mcpVersion": self.revision, "clientCapabilities": declares});
            return json!({"id": HELLO, "method": "initialize", "params": params});
        }
        let params =
            json!({"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": self.info});
        json!({"id": HELLO, "method": "initialize", "params": params})
    }

    /// Fills in what every message has.
    pub(crate) fn fill(&self, mut message: Value) -> Result<String, Failure> {
        let fields = message.as_object_mut().ok_or("only an object can be filled in")?;
        fields.entry("jsonrpc").or_insert(json!("2.0"));
        if self.is_modern() && fields.contains_key("method") && fields.contains_key("id") {
            let params = fields.entry("params").or_insert(json!({}));
            let meta = params.as_object_mut().ok_or("`params` must be an object")?.entry("_meta").or_insert(json!({}));
            let meta = meta.as_object_mut().ok_or("`_meta` must be an object")?;
            for (key, value) in [
                ("protocolVersion", json!(self.revision)),
                ("clientCapabilities", self.capabilities.clone()),
                ("clientInfo", self.info.clone()),
            ] {
                meta.entry(format!("io.modelcontextprotocol/{key}")).or_insert(value);
            }
        }
        fields.retain(|_, value| *value != "(absent)");
        Ok(message.to_string())
    }

    /// Remembers what may be answered later.
    pub(crate) fn hear(&mut self, came: &Value) {
        let id = &came["id"];
        if came["method"].is_string() && !id.is_null() {
            let text = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            self.questions.insert(text, id.clone());
        }
    }

    /// An answer to what was asked under this id.
    pub(crate) fn reply(&self, request: &str, result: Option<&str>, failed: bool) -> Result<String, Failure> {
        let id = self.questions.get(request).ok_or_else(|| format!("nobody asked {request}"))?;
        let result = result.map_or(Ok(json!({})), parse)?;
        let outcome = if failed { "error" } else { "result" };
        self.fill(json!({"id": id, outcome: result}))
    }
}

impl SceneStage {
    /// Somebody comes by the MCP door. Who is to `speak` begins as its revision does; the others say nothing yet.
    pub(crate) async fn come_by_mcp(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        (at, over): (Option<&str>, Over),
        with: &With,
        speaks: bool,
    ) -> Result<(), Failure> {
        let call = self.call(who, topic, SceneDoor::Mcp { at, over }, with).await?;
        let client = SceneClient::new(who, at.is_none(), over, with, speaks);
        let address = self.gateway.address();
        let mut connection = match over {
            Over::WebSocket => {
                let connected = TestSocket::connect(address, call).await?;
                let socket = connected.map_err(|a| format!("the connection was refused: {} {}", a.status, a.body))?;
                if socket.subprotocol.as_deref() != Some("mcp") {
                    return Err(format!("expected the subprotocol mcp, came {:?}", socket.subprotocol));
                }
                SceneConnection::socket(socket, topic)
            }
            Over::Http => SceneConnection::requests(Requests::new(address, call), topic),
            Over::Poll => SceneConnection::requests(Requests::polling(address, call), topic),
            Over::Sse => {
                let mut requests = Requests::new(address, call);
                if !with.contains(&("first".into(), "post".into())) {
                    requests.listen_first().await?;
                }
                SceneConnection::requests(requests, topic)
            }
        };
        let hello = speaks.then(|| client.fill(client.hello())).transpose()?;
        connection.client = Some(client);
        if let Some(hello) = &hello {
            connection.send(hello).await?;
        }
        self.connections.insert(who.clone(), connection);
        // One participant must answer before its client is answered.
        if speaks && at.is_none() { self.expect_introduction(who).await } else { Ok(()) }
    }

    /// The answer to what a client began with, unless it has come before.
    pub(crate) async fn expect_introduction(&mut self, who: &ConnectionName) -> Result<(), Failure> {
        if !self.connection(who)?.welcome.is_empty() {
            return Ok(());
        }
        let came = self.next(who, AwaitedFrame::Frame).await?;
        let Came::Text(text) = came else { return Err(format!("expected an introduction, came {came}")) };
        let answer = parse(&text)?;
        if answer["id"] != HELLO || !answer["result"].is_object() {
            return Err(format!("expected an introduction, came {text}"));
        }
        let connection = self.connection(who)?;
        connection.welcome = text;
        let Some(client) = connection.client.as_ref().filter(|client| !client.is_modern()) else { return Ok(()) };
        let (over, agreed) = (client.over, answer["result"]["protocolVersion"].as_str().unwrap_or_default().to_owned());
        let is_draft = client.declares.is_some();
        let initialized = match is_draft {
            true => client.fill(json!({"method": "initialized", "params": {}}))?,
            false => client.fill(json!({"method": "notifications/initialized"}))?,
        };
        if let Some(requests) = connection.as_requests() {
            if !is_draft {
                requests.agreed(&agreed);
            }
            if over == Over::Poll {
                requests.poll();
            } else if over == Over::Http || !requests.listens {
                requests.listen().await?;
            }
            if over == Over::Sse {
                requests.post_to_messages();
            }
        }
        connection.send(&initialized).await
    }

    /// Lets anything pass until somebody's `initialize` comes, and answers it.
    pub(crate) async fn meet(
        &mut self,
        who: &ConnectionName,
        whom: &str,
        id: &str,
        capabilities: &str,
    ) -> Result<(), Failure> {
        let capabilities = parse(capabilities)?;
        let questions = loop {
            let text = match self.next(who, AwaitedFrame::OwnPresence).await? {
                Came::Text(text) => parse(&text)?,
                other => return Err(format!("expected a handshake, came {other}")),
            };
            let is_for = text["to"] == json!([who.participant()]);
            if text["from"] == whom && is_for && text["payload"]["method"] == "initialize" {
                break text;
            }
        };
        let payload = &questions["payload"];
        let result = json!({
            "protocolVersion": payload["params"]["protocolVersion"], "capabilities": capabilities,
            "serverInfo": {"name": who.participant(), "version": "1"},
        });
        let answer = json!({
            "id": id, "to": [whom], "correlation_id": questions["id"], "payload": {"id": payload["id"], "result": result},
        });
        let text = self.fill(who, &answer.to_string())?;
        self.connection(who)?.send(&text).await
    }

    /// The next thing a client gets must be the answer to a call that goes through the room.
    pub(crate) async fn fence_by_call(&mut self, who: &ConnectionName, id: &str) -> Result<(), Failure> {
        let connection = self.connection(who)?;
        let client = connection.client.as_ref().filter(|client| client.sees_all && client.over == Over::WebSocket);
        let client = client.ok_or("only over a WebSocket to the whole room is it known that nothing more came")?;
        let method = if client.declares.is_some() { "tools/invoke" } else { "tools/call" };
        let call = json!({"id": id, "method": method, "params": {"name": "system:gateway__presence.get"}});
        let call = client.fill(call)?;
        connection.send(&call).await?;
        match self.next(who, AwaitedFrame::Frame).await? {
            Came::Text(came) if parse(&came)?["id"] == id => Ok(()),
            other => Err(format!("expected nothing more, came {other}")),
        }
    }
}
