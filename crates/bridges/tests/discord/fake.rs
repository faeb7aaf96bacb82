//! A stand-in for Discord that keeps its contract as its documentation states it (API v10): REST with webhooks, messages and rate limits, and
//! the gateway with hello, identify, resume, heartbeats and sequences. Real Discord was not reached when it was written.
//!
//! A test makes it refuse, repeat, disorder and disconnect.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, broadcast, watch};
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

pub(crate) const CHANNEL: &str = "100";
pub(crate) const BOT: &str = "1";
const WEBHOOK: &str = "200";

/// What happens on the gateway's connection.
#[derive(Debug, Clone)]
pub(crate) enum Push {
    Payload(String),
    Close(Option<u16>),
}

#[derive(Default)]
struct State {
    messages: Vec<Value>,
    next_id: u64,
    has_webhook: bool,
    /// Dispatches of the session, with their sequences.
    dispatched: Vec<Value>,
    /// Answers for the next executions of the webhook: a status, headers, a body.
    refusals: VecDeque<Refusal>,
    introductions: Vec<Value>,
    heartbeats: u64,
    is_session_valid: bool,
    heartbeat_interval: u64,
}

/// What happens to the next message instead of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    /// 429 with `retry_after` in seconds, for one bucket or for everything.
    Limited { retry_after: f64, is_global: bool },
    /// It is stored, and the answer is lost.
    Lost,
}

pub(crate) struct FakeDiscord {
    pub(crate) rest: SocketAddr,
    gateway: SocketAddr,
    state: Mutex<State>,
    pushes: broadcast::Sender<Push>,
    connections: watch::Sender<u64>,
    pub(crate) changed: Notify,
}

impl FakeDiscord {
    pub(crate) async fn start() -> Arc<Self> {
        let rest = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let gateway = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let fake = Arc::new(Self {
            rest: rest.local_addr().expect("an address"),
            gateway: gateway.local_addr().expect("an address"),
            state: Mutex::new(State { next_id: 1000, heartbeat_interval: 45_000, ..State::default() }),
            pushes: broadcast::channel(1024).0,
            connections: watch::Sender::new(0),
            changed: Notify::new(),
        });
        let (http, sockets) = (fake.clone(), fake.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = rest.accept().await {
                let fake = http.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| fake.answer(request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = gateway.accept().await {
                tokio::spawn(sockets.clone().serve_gateway(stream));
            }
        });
        fake
    }

    /// A person writes. Returns the message's id.
    pub(crate) fn write(&self, user: &str, content: &str) -> String {
        let message = {
            let mut state = self.state.lock();
            let message = json!({"id": state.id(), "channel_id": CHANNEL, "content": content, "type": 0,
                "timestamp": "2026-01-01T00:00:00.000000+00:00", "mentions": [], "attachments": [],
                "author": {"id": user, "username": format!("user{user}"), "global_name": format!("User {user}")}});
            state.messages.push(message.clone());
            message
        };
        let id = message["id"].as_str().expect("an id").to_owned();
        self.dispatch("MESSAGE_CREATE", message);
        id
    }

    /// A person writes while nobody is told: the event is lost with the session.
    pub(crate) fn write_unseen(&self, user: &str, content: &str) {
        let mut state = self.state.lock();
        let id = state.id();
        state.messages.push(json!({"id": id, "channel_id": CHANNEL, "content": content, "type": 0,
            "timestamp": "2026-01-01T00:00:00.000000+00:00",
            "author": {"id": user, "username": format!("user{user}")}}));
    }

    /// A message with an id that is older than the webhook's.
    pub(crate) fn write_before_the_webhook(&self, user: &str, content: &str) {
        self.state.lock().messages.push(json!({"id": "150", "channel_id": CHANNEL, "content": content, "type": 0,
            "author": {"id": user, "username": format!("user{user}")}}));
    }

    pub(crate) fn dispatch(&self, name: &str, body: Value) {
        let payload = {
            let mut state = self.state.lock();
            let sequence = state.dispatched.len() as u64 + 2;
            let payload = json!({"op": 0, "s": sequence, "t": name, "d": body});
            state.dispatched.push(payload.clone());
            payload
        };
        let _ = self.pushes.send(Push::Payload(payload.to_string()));
    }

    /// Sends the newest dispatches again, the newest first.
    pub(crate) fn repeat_in_disorder(&self, count: usize) {
        let dispatched = self.state.lock().dispatched.clone();
        for payload in dispatched.iter().rev().take(count) {
            let _ = self.pushes.send(Push::Payload(payload.to_string()));
        }
    }

    pub(crate) fn push(&self, push: Push) {
        let _ = self.pushes.send(push);
    }

    pub(crate) fn invalidate_session(&self) {
        self.state.lock().is_session_valid = false;
    }

    pub(crate) fn refuse_next(&self, refusal: Refusal) {
        self.state.lock().refusals.push_back(refusal);
    }

    pub(crate) fn beat_every(&self, millis: u64) {
        self.state.lock().heartbeat_interval = millis;
    }

    /// Heartbeats of the newest connection.
    pub(crate) fn heartbeats(&self) -> u64 {
        self.state.lock().heartbeats
    }

    /// `identify` and `resume` in the order in which they came.
    pub(crate) fn introductions(&self) -> Vec<&'static str> {
        let state = self.state.lock();
        state.introductions.iter().map(|payload| if payload["op"] == 6 { "resume" } else { "identify" }).collect()
    }

    /// What the bridge wrote: name and content.
    pub(crate) fn written(&self) -> Vec<(String, String)> {
        let state = self.state.lock();
        let own = state.messages.iter().filter(|message| message["webhook_id"] == WEBHOOK);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        own.map(|message| (text(&message["author"]["username"]), text(&message["content"]))).collect()
    }

    async fn serve_gateway(self: Arc<Self>, stream: TcpStream) {
        let mut pushes = self.pushes.subscribe();
        let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
        self.connections.send_modify(|count| *count += 1);
        let interval = {
            let mut state = self.state.lock();
            state.heartbeats = 0;
            state.heartbeat_interval
        };
        let hello = json!({"op": 10, "d": {"heartbeat_interval": interval}}).to_string();
        if socket.send(Frame::text(hello)).await.is_err() {
            return;
        }
        let mut is_online = false;
        loop {
            let mut replies = Vec::new();
            tokio::select! {
                frame = socket.next() => {
                    let Some(Ok(frame)) = frame else { return };
                    let Ok(text) = frame.to_text() else { continue };
                    let Ok(payload) = serde_json::from_str::<Value>(text) else { continue };
                    replies = self.take(&payload, &mut is_online);
                }
                push = pushes.recv() => match push {
                    Ok(Push::Payload(text)) if is_online => replies.push(text),
                    Ok(Push::Close(Some(code))) => {
                        let _ = socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await;
                        return;
                    }
                    Ok(Push::Close(None)) => return,
                    _ => {}
                },
            }
            for reply in replies {
                if socket.send(Frame::text(reply)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// The answers to a payload of the client.
    fn take(&self, payload: &Value, is_online: &mut bool) -> Vec<String> {
        let mut state = self.state.lock();
        let replies = match payload["op"].as_u64() {
            Some(1) => {
                state.heartbeats += 1;
                vec![json!({"op": 11}).to_string()]
            }
            Some(2) => {
                state.introductions.push(payload.clone());
                state.dispatched.clear();
                state.is_session_valid = true;
                *is_online = true;
                let ready = json!({"op": 0, "s": 1, "t": "READY", "d": {"session_id": "s", "user": {"id": BOT},
                    "resume_gateway_url": format!("ws://{}", self.gateway)}});
                vec![ready.to_string()]
            }
            Some(6) if state.is_session_valid => {
                state.introductions.push(payload.clone());
                *is_online = true;
                let after = payload["d"]["seq"].as_u64().unwrap_or_default();
                let missed = state.dispatched.iter().filter(|event| event["s"].as_u64() > Some(after));
                let mut replies: Vec<_> = missed.map(Value::to_string).collect();
                replies.push(json!({"op": 0, "s": after, "t": "RESUMED", "d": {}}).to_string());
                replies
            }
            Some(6) => {
                state.introductions.push(payload.clone());
                vec![json!({"op": 9, "d": false}).to_string()]
            }
            _ => Vec::new(),
        };
        drop(state);
        self.changed.notify_waiters();
        replies
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        if token != Some("Bot secret") {
            return Ok(reply(401, &[], &json!({"code": 0, "message": "401: Unauthorized"})));
        }
        let path: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
        Ok(match (&head.method, path.as_slice()) {
            (&Method::GET, ["users", "@me"]) => reply(200, &[], &json!({"id": BOT, "username": "salon"})),
            (&Method::GET, ["gateway", "bot"]) => {
                reply(200, &[], &json!({"url": format!("ws://{}", self.gateway), "shards": 1}))
            }
            (&Method::GET, ["channels", CHANNEL, "messages"]) => {
                let newest_first: Vec<_> = self.state.lock().messages.iter().rev().take(100).cloned().collect();
                reply(200, &[], &newest_first.into())
            }
            (&Method::GET, ["channels", CHANNEL, "webhooks"]) => {
                let has_webhook = self.state.lock().has_webhook;
                let hooks = if has_webhook { vec![webhook()] } else { Vec::new() };
                reply(200, &[], &hooks.into())
            }
            (&Method::POST, ["channels", CHANNEL, "webhooks"]) => {
                self.state.lock().has_webhook = true;
                reply(200, &[], &webhook())
            }
            (&Method::POST, ["webhooks", WEBHOOK, "hook"]) => self.execute(&body).await,
            (&Method::PATCH, ["webhooks", WEBHOOK, "hook", "messages", id]) => self.edit(id, &body),
            (&Method::DELETE, ["webhooks", WEBHOOK, "hook", "messages", id]) => self.delete(id),
            _ => reply(404, &[], &json!({"code": 10003, "message": "Unknown Channel"})),
        })
    }

    async fn execute(&self, body: &Value) -> Response<Full<Bytes>> {
        let refusal = self.state.lock().refusals.pop_front();
        if let Some(Refusal::Limited { retry_after, is_global }) = refusal {
            let body =
                json!({"message": "You are being rate limited.", "retry_after": retry_after, "global": is_global});
            return reply(429, &[("retry-after", "1".into())], &body);
        }
        let message = {
            let mut state = self.state.lock();
            let message = json!({"id": state.id(), "channel_id": CHANNEL, "content": body["content"], "type": 0,
                "webhook_id": WEBHOOK, "author": {"id": WEBHOOK, "username": body["username"], "bot": true}});
            state.messages.push(message.clone());
            message
        };
        self.dispatch("MESSAGE_CREATE", message.clone());
        self.changed.notify_waiters();
        if matches!(refusal, Some(Refusal::Lost)) {
            return reply(502, &[], &json!({"message": "Bad Gateway"}));
        }
        let limits = [
            ("x-ratelimit-bucket", "hook".to_owned()),
            ("x-ratelimit-remaining", "4".to_owned()),
            ("x-ratelimit-reset-after", "2.0".to_owned()),
        ];
        reply(200, &limits, &message)
    }

    fn edit(&self, id: &str, body: &Value) -> Response<Full<Bytes>> {
        let mut state = self.state.lock();
        let Some(message) = state.messages.iter_mut().find(|message| message["id"] == id) else {
            return reply(404, &[], &json!({"code": 10008, "message": "Unknown Message"}));
        };
        message["content"] = body["content"].clone();
        reply(200, &[], message)
    }

    fn delete(&self, id: &str) -> Response<Full<Bytes>> {
        self.state.lock().messages.retain(|message| message["id"] != id);
        reply(204, &[], &Value::Null)
    }
}

impl State {
    fn id(&mut self) -> String {
        self.next_id += 1;
        self.next_id.to_string()
    }
}

fn webhook() -> Value {
    json!({"id": WEBHOOK, "token": "hook", "name": "Salon lab", "application_id": BOT})
}

fn reply(status: u16, headers: &[(&'static str, String)], body: &Value) -> Response<Full<Bytes>> {
    let text = if status == 204 { String::new() } else { body.to_string() };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Full::new(Bytes::from(text))).expect("a response")
}
