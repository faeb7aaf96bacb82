//! A homeserver that forgets what it was about to hand over, as Synapse does when it crashes. It has one room, and knows as much of the API as the driver
//! needs to stay in it.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) const ROOM: &str = "!lab:salon.test";

/// The room's events, the oldest first.
type Timeline = Arc<Mutex<Vec<Value>>>;

pub(crate) struct FakeHomeserver {
    pub(crate) url: String,
    timeline: Timeline,
    http: reqwest::Client,
    transactions: u64,
    _serving: JoinSet<()>,
}

impl FakeHomeserver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let timeline = Timeline::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, timeline.clone()));
        Self { url, timeline, http: reqwest::Client::new(), transactions: 0, _serving: serving }
    }

    /// Somebody writes. The homeserver has the event, and hands nothing over.
    pub(crate) fn write(&self, body: &str) -> Value {
        self.write_content(json!({"msgtype": "m.text", "body": body}))
    }

    pub(crate) fn write_content(&self, content: Value) -> Value {
        let mut timeline = self.timeline.lock();
        let event = json!({
            "type": "m.room.message", "event_id": format!("${}", timeline.len()), "room_id": ROOM, "sender": "@ann:salon.test",
            "origin_server_ts": 0, "content": content,
        });
        timeline.push(event.clone());
        event
    }

    /// Hands events over, and returns the status of the bridge's answer.
    pub(crate) async fn hand_over(&mut self, bridge: &str, token: &str, events: &[&Value]) -> u16 {
        self.transactions += 1;
        let url = format!("{bridge}/_matrix/app/v1/transactions/{}", self.transactions);
        let body = json!({ "events": events }).to_string();
        let sent = self.http.put(url).bearer_auth(token).body(body).send().await;
        sent.expect("the bridge answers").status().as_u16()
    }
}

async fn serve(listener: TcpListener, timeline: Timeline) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let timeline = timeline.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(&request, &timeline.lock());
            async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer.to_string())))) }
        });
        connections.spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(request: &Request<Incoming>, timeline: &[Value]) -> Value {
    let path = request.uri().path();
    if path.ends_with("/messages") {
        let query = request.uri().query().unwrap_or_default();
        let number = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(key, _)| *key == name).and_then(|(_, value)| value.parse::<usize>().ok())
        };
        let (skipped, limit) = (number("from").unwrap_or(0), number("limit").unwrap_or(10));
        let chunk: Vec<_> = timeline.iter().rev().skip(skipped).take(limit).collect();
        let end = (skipped + chunk.len() < timeline.len()).then(|| (skipped + chunk.len()).to_string());
        return json!({ "chunk": chunk, "end": end });
    }
    if path.ends_with("/joined_members") {
        return json!({"joined": {}});
    }
    json!({})
}
