//! A server in a scene: a guest brings it into the room over a WebSocket, and the scene says what the server says.
//!
//! What every server does alike it does by itself: it answers handshakes, lists and farewells.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use salon_client::{Client, Gateway, StaticToken};
use salon_guests::upstream::{GuestTarget, UrlTransport};
use salon_guests::{GuestStatus, Spec};
use salon_protocol::{Members, TopicName};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::ConnectionName;
use super::connection::{Came, SceneConnection};
use super::stage::SceneStage;
use crate::gateway::TestToken;
use crate::{Failure, within};

/// How much may come while nobody looks.
const MAX_WAITING_MESSAGES: usize = 1024;

/// What all connections to one server share.
struct ServedShared {
    draft: bool,
    tools: Mutex<String>,
    /// What the scene is shown.
    messages: mpsc::Sender<Came>,
}

pub(crate) struct ServedUpstream {
    shared: Arc<ServedShared>,
    messages: mpsc::Receiver<Came>,
    /// What the scene sends, to the connected client.
    says: broadcast::Sender<String>,
    /// What it was asked, by the id as text.
    questions: BTreeMap<String, Value>,
    shutdown: CancellationToken,
    /// The listener, and the guest.
    tasks: JoinSet<()>,
}

impl ServedUpstream {
    pub(crate) fn offer(&mut self, tools: &str) {
        tools.clone_into(&mut self.shared.tools.lock());
    }

    /// Remembers what may be answered later.
    pub(crate) fn hear(&mut self, came: &Value) {
        let id = &came["id"];
        if !id.is_null() {
            self.questions.insert(id.as_str().map_or_else(|| id.to_string(), str::to_owned), id.clone());
        }
    }

    pub(crate) fn fill(&self, text: &str) -> Result<String, Failure> {
        let mut message = Members::parse(text).ok_or("only an object can be filled in")?;
        if message.get("jsonrpc").is_none() {
            message.set("jsonrpc", "2.0");
        }
        Ok(message.to_raw().get().to_owned())
    }

    /// An answer to what was asked under this id, its result as it is written in the scene.
    pub(crate) fn reply(&self, request: &str, result: Option<&str>, failed: bool) -> Result<String, Failure> {
        let id = self.questions.get(request).ok_or_else(|| format!("nobody asked {request}"))?;
        let outcome = if failed { "error" } else { "result" };
        Ok(format!(r#"{{"jsonrpc":"2.0","id":{id},"{outcome}":{}}}"#, result.unwrap_or("{}")))
    }

    pub(crate) fn send(&mut self, text: &str) -> Result<(), Failure> {
        self.says.send(text.to_owned()).map(drop).map_err(|_| "nobody is connected to this server".into())
    }

    pub(crate) async fn next(&mut self) -> Result<Came, Failure> {
        let came = within("the next message", self.messages.recv()).await?;
        came.ok_or_else(|| "the server is gone".into())
    }

    /// The guest leaves, and its server with it.
    pub(crate) async fn leave(mut self) -> Result<(), Failure> {
        self.shutdown.cancel();
        within("the guest to end", self.tasks.join_next()).await.map(drop)
    }
}

impl SceneStage {
    /// Somebody's server becomes a guest in a room.
    pub(crate) async fn serve(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        draft: bool,
        tools: &str,
    ) -> Result<(), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|e| e.to_string())?;
        let url = format!("ws://{}/mcp", listener.local_addr().map_err(|e| e.to_string())?);
        let (shown, messages) = mpsc::channel(MAX_WAITING_MESSAGES);
        let shared = Arc::new(ServedShared { draft, tools: Mutex::new(tools.to_owned()), messages: shown });
        let says = broadcast::Sender::new(MAX_WAITING_MESSAGES);
        let shutdown = CancellationToken::new();

        let at = Gateway::new(&format!("http://{}", self.gateway.address())).map_err(|e| e.to_string())?;
        let token = self.gateway.token(&TestToken::new(who.participant()))?;
        let (client, room) =
            (Client::new(at, StaticToken::new(token)), TopicName::new(topic).map_err(|e| e.to_string())?);
        let target = GuestTarget::Url { url, headers: Vec::new(), transport: UrlTransport::Auto };
        let (spec, stop) = (Spec::new(who.participant(), target), shutdown.clone());
        let (told, mut statuses) = mpsc::channel(MAX_WAITING_MESSAGES);
        let mut tasks = JoinSet::new();
        let (server, said) = (shared.clone(), says.clone());
        tasks.spawn(async move {
            let guest = salon_guests::run(
                spec,
                move || client.room(room.clone()),
                stop,
                move |status| {
                    let _ = told.try_send(status);
                },
            );
            // The server is there as long as its guest.
            tokio::select! {
                _ = guest => {}
                () = accept(listener, server, said) => {}
            }
        });
        let here = async {
            loop {
                match statuses.recv().await {
                    Some(GuestStatus::Here { .. }) => return Ok(()),
                    Some(GuestStatus::Restarting { why, .. } | GuestStatus::SignInNeeded { why, .. }) => {
                        return Err(why);
                    }
                    Some(_) => {}
                    None => return Err("the guest ended".to_owned()),
                }
            }
        };
        within("the guest to come", here).await??;
        let served = ServedUpstream { shared, messages, says, questions: BTreeMap::new(), shutdown, tasks };
        self.connections.insert(who.clone(), SceneConnection::served(served, topic));
        Ok(())
    }
}

async fn accept(listener: TcpListener, shared: Arc<ServedShared>, says: broadcast::Sender<String>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, shared.clone(), says.subscribe()));
    }
}

async fn converse(stream: TcpStream, shared: Arc<ServedShared>, mut says: broadcast::Receiver<String>) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
    loop {
        let text = tokio::select! {
            said = says.recv() => match said {
                Ok(text) => text,
                Err(_) => return,
            },
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => match shared.answer(text.as_str()) {
                    Some(answer) => answer,
                    None => {
                        // The scene may have ended.
                        let _ = shared.messages.send(Came::Text(text.as_str().to_owned())).await;
                        continue;
                    }
                },
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => return,
            },
        };
        if !text.is_empty() && socket.send(Message::text(text)).await.is_err() {
            return;
        }
    }
}

impl ServedShared {
    /// What the server says of itself; nothing at all to what wants no answer, and `None` where it is the scene's to answer.
    fn answer(&self, text: &str) -> Option<String> {
        let message: Value = serde_json::from_str(text).ok()?;
        let tools = || self.tools.lock().clone();
        let result = match (message["method"].as_str()?, self.draft) {
            ("initialize", true) => {
                let can = json!({
                    "supportsToolDiscovery": true, "supportsResourceDiscovery": false, "supportsNotifications": true,
                });
                json!({"server": {"name": "served", "version": "1"}, "serverCapabilities": can}).to_string()
            }
            ("initialize", false) => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "served", "version": "1"},
            })
            .to_string(),
            ("tools/list", true) => tools(),
            ("tools/list", false) => format!(r#"{{"tools":{}}}"#, tools()),
            ("ping", false) => "{}".to_owned(),
            ("shutdown", true) => "null".to_owned(),
            ("initialized" | "exit", true) | ("notifications/initialized", false) => return Some(String::new()),
            _ => return None,
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]))
    }
}
