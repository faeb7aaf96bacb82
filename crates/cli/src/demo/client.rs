//! A small MCPx client over WebSocket: what the demo's participants need, and no more.
//!
//! One task owns the socket. It knows which calls wait for an answer and sorts what comes in; everybody else has a [`Voice`] to
//! give it orders with. Deliberately absent: reconnecting and resuming.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{SinkExt, StreamExt};
use salon_protocol::{CHAT_METHOD, Compose, Envelope, EnvelopeId, Kind, Message, ParticipantId, PresenceEvent, RpcId};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, http};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::clock;

/// How long a call waits, progress or not. No tool here takes as long.
const CALL_TIME: Duration = Duration::from_secs(30);

/// How long connecting and saying goodbye may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// How much may wait to be said or heard.
const QUEUE: usize = 64;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A participant's place in the room.
pub(crate) struct Seat {
    pub(crate) voice: Voice,
    /// What others ask of it.
    pub(crate) requests: mpsc::Receiver<Request>,
    /// What it overhears. When it does not listen for a while, the rest passes it by.
    pub(crate) overheard: mpsc::Receiver<Overheard>,
    /// Who was here when it came, itself among them.
    pub(crate) present: Vec<ParticipantId>,
}

/// A request to this participant.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) envelope: EnvelopeId,
    pub(crate) from: ParticipantId,
    pub(crate) id: RpcId,
    pub(crate) method: Box<str>,
    pub(crate) params: Value,
}

/// What everybody hears.
#[derive(Debug, Clone)]
pub(crate) enum Overheard {
    Said { id: EnvelopeId, from: ParticipantId, text: String },
    Joined { id: ParticipantId, name: Option<String> },
}

/// A JSON-RPC error.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{}", .0.message)]
    Answered(RpcError),
    #[error("{0}")]
    Refused(String),
    #[error("no answer in time")]
    TooLate,
    #[error("the connection has ended")]
    Disconnected,
}

type Answer = oneshot::Sender<Result<Value, CallError>>;

enum Order {
    Publish(String),
    Call(EnvelopeId, String, Answer),
}

impl Seat {
    /// Connects and waits for the welcome. The task that is handed back ends when the participant has left.
    pub(crate) async fn take(
        address: SocketAddr,
        topic: &str,
        id: &ParticipantId,
        token: &str,
    ) -> anyhow::Result<(Self, JoinHandle<()>)> {
        let url = format!("ws://{address}/v0/ws?topic={topic}&protocol=mcp-x/v0&deliver=directed");
        let mut request = url.into_client_request()?;
        let bearer = http::HeaderValue::from_str(&format!("Bearer {token}"))?;
        request.headers_mut().insert(http::header::AUTHORIZATION, bearer);
        let welcomed = async {
            let (mut socket, _) = tokio_tungstenite::connect_async(request).await?;
            let frame = socket.next().await.context("the gateway closed without a welcome")??;
            Ok::<_, anyhow::Error>((socket, frame.into_text()?))
        };
        let (socket, welcome) =
            tokio::time::timeout(HANDSHAKE_TIME, welcomed).await.context("no welcome in time")??;
        let welcome: Value = serde_json::from_str(&welcome)?;
        if welcome["payload"]["event"] != "welcome" {
            bail!("the first frame was no welcome");
        }
        let listed = welcome["payload"]["participants"].as_array().cloned().unwrap_or_default();
        let present = listed.iter().filter_map(|p| ParticipantId::new(p["id"].as_str()?).ok()).collect();

        let (orders, taken) = mpsc::channel(QUEUE);
        let (asked, requests) = mpsc::channel(QUEUE);
        let (hearing, overheard) = mpsc::channel(QUEUE);
        let connection = Connection { socket, id: id.clone(), waiting: HashMap::new(), asked, hearing };
        let connection = tokio::spawn(connection.run(taken));
        Ok((
            Self { voice: Voice { id: id.clone(), orders, calls: Arc::default() }, requests, overheard, present },
            connection,
        ))
    }
}

/// Speaks in a participant's name. When the last one is dropped, the participant leaves.
#[derive(Clone)]
pub(crate) struct Voice {
    id: ParticipantId,
    orders: mpsc::Sender<Order>,
    /// How many requests were made; MCP has no request id twice.
    calls: Arc<AtomicU64>,
}

impl Voice {
    /// Asks one participant and waits for the answer.
    pub(crate) async fn call(&self, to: &ParticipantId, method: &str, params: Value) -> Result<Value, CallError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut params = params;
        // A progress token is as unique as the request it belongs to.
        if let Some(token) = params.pointer_mut("/_meta/progressToken") {
            *token = number.into();
        }
        let payload = json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
        let (id, text) = self.compose(std::slice::from_ref(to), None, payload);
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Call(id, text, answer)).await.map_err(|_| CallError::Disconnected)?;
        match tokio::time::timeout(CALL_TIME, answered).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CallError::Disconnected),
            Err(_) => Err(CallError::TooLate),
        }
    }

    /// Says something to everybody, perhaps as a reply.
    pub(crate) async fn say(&self, text: &str, reply_to: Option<&EnvelopeId>) {
        let params = json!({ "text": text, "format": "plain" });
        self.publish(&[], reply_to, json!({ "jsonrpc": "2.0", "method": CHAT_METHOD, "params": params })).await;
    }

    /// Tells one participant something.
    pub(crate) async fn notify(&self, to: &ParticipantId, about: Option<&EnvelopeId>, method: &str, params: Value) {
        let payload = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.publish(std::slice::from_ref(to), about, payload).await;
    }

    /// Answers a request, its id exactly as it was given.
    pub(crate) async fn answer(&self, request: &Request, outcome: Result<Value, RpcError>) {
        #[derive(Serialize)]
        struct Response<'a> {
            jsonrpc: &'static str,
            id: &'a RawValue,
            #[serde(flatten)]
            outcome: Outcome,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case")]
        enum Outcome {
            Result(Value),
            Error(RpcError),
        }
        let id = RawValue::from_string(request.id.to_json()).expect("a JSON-RPC id is JSON");
        let outcome = outcome.map_or_else(Outcome::Error, Outcome::Result);
        let response = Response { jsonrpc: "2.0", id: &id, outcome };
        self.publish(std::slice::from_ref(&request.from), Some(&request.envelope), response).await;
    }

    async fn publish(&self, to: &[ParticipantId], about: Option<&EnvelopeId>, payload: impl Serialize) {
        let (_, text) = self.compose(to, about, payload);
        // Without a connection there is nobody to tell; whoever waits for an answer hears of it.
        let _ = self.orders.send(Order::Publish(text)).await;
    }

    fn compose(
        &self,
        to: &[ParticipantId],
        about: Option<&EnvelopeId>,
        payload: impl Serialize,
    ) -> (EnvelopeId, String) {
        let id = EnvelopeId::new(uuid::Uuid::now_v7().to_string()).expect("a UUID is an envelope id");
        let compose = Compose {
            id: id.as_str(),
            ts: clock::now(),
            from: &self.id,
            to,
            kind: Kind::Mcp,
            correlation_id: about.map(EnvelopeId::as_str),
            payload,
        };
        let text = compose.text();
        (id, text)
    }
}

/// The task behind a seat.
struct Connection {
    socket: Socket,
    id: ParticipantId,
    waiting: HashMap<EnvelopeId, Answer>,
    asked: mpsc::Sender<Request>,
    hearing: mpsc::Sender<Overheard>,
}

impl Connection {
    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            tokio::select! { biased;
                order = orders.recv() => {
                    let text = match order {
                        Some(Order::Publish(text)) => text,
                        Some(Order::Call(id, text, answer)) => {
                            self.waiting.retain(|_, waiting| !waiting.is_closed());
                            self.waiting.insert(id, answer);
                            text
                        }
                        None => break,
                    };
                    if self.socket.send(tungstenite::Message::text(text)).await.is_err() {
                        return;
                    }
                }
                frame = self.socket.next() => match frame {
                    Some(Ok(tungstenite::Message::Text(text))) => self.sort(&text),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                },
            }
        }
        let goodbye = async {
            let _ = self.socket.close(None).await;
            while let Some(Ok(_)) = self.socket.next().await {}
        };
        let _ = tokio::time::timeout(HANDSHAKE_TIME, goodbye).await;
    }

    fn sort(&mut self, text: &str) {
        let Ok(envelope) = Envelope::restore(text) else { return };
        match (envelope.kind(), envelope.message()) {
            (Kind::System, _) => self.refused(&envelope),
            (Kind::Presence, _) => {
                if let Some(presence) = envelope.presence().filter(|p| p.event == PresenceEvent::Join) {
                    let (id, name) = (presence.participant.id, presence.participant.name);
                    let _ = self.hearing.try_send(Overheard::Joined { id, name });
                }
            }
            (Kind::Mcp, Some(Message::Response { .. })) => self.answered(&envelope),
            (Kind::Mcp, Some(Message::Request { id, method })) if envelope.to() == [self.id.clone()] => {
                let params = envelope.params().and_then(|params| serde_json::from_str(params).ok());
                let _ = self.asked.try_send(Request {
                    envelope: envelope.id().clone(),
                    from: envelope.from().clone(),
                    id: id.clone(),
                    method: method.clone(),
                    params: params.unwrap_or_default(),
                });
            }
            (Kind::Mcp, Some(Message::Notification { method })) if &**method == CHAT_METHOD => {
                if let Some(chat) = envelope.chat().filter(|_| *envelope.from() != self.id) {
                    let (id, from) = (envelope.id().clone(), envelope.from().clone());
                    let _ = self.hearing.try_send(Overheard::Said { id, from, text: chat.text });
                }
            }
            (Kind::Mcp, _) => {}
        }
    }

    fn answered(&mut self, envelope: &Envelope) {
        let Some(answer) = envelope.correlation().and_then(|id| self.waiting.remove(id)) else { return };
        let mut payload: Value = serde_json::from_str(envelope.payload()).unwrap_or_default();
        let outcome = match payload.get("error") {
            None => Ok(payload["result"].take()),
            Some(error) => Err(CallError::Answered(RpcError {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or("an error without a message").to_owned(),
            })),
        };
        // Whoever asked may have stopped waiting.
        let _ = answer.send(outcome);
    }

    fn refused(&mut self, envelope: &Envelope) {
        let Some(answer) = envelope.correlation().and_then(|id| self.waiting.remove(id)) else { return };
        let payload: Value = serde_json::from_str(envelope.payload()).unwrap_or_default();
        let _ = answer.send(Err(CallError::Refused(payload["message"].as_str().unwrap_or("refused").to_owned())));
    }
}
