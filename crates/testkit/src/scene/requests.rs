//! An MCP client over HTTP: what it sends is posted, and what comes with any answer or stream comes as if by one wire.
//!
//! Deliberately absent: an order between streams, which HTTP has not.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::connection::Came;
use crate::http::{EventStream, HttpAnswer, HttpCall};
use crate::{Failure, within};

/// How much may come while nobody looks.
const MAX_WAITING_MESSAGES: usize = 1024;

const SESSION: &str = "mcp-session-id";

/// How many seconds a poll waits that has nothing else to do.
const LONG: u64 = 10;

pub(crate) struct Requests {
    address: SocketAddr,
    /// What every request has: an address and credentials.
    common: HttpCall,
    /// Where messages go, when that is elsewhere.
    endpoint: Option<String>,
    session: Arc<OnceLock<String>>,
    revision: Option<String>,
    came: mpsc::Receiver<Came>,
    coming: mpsc::Sender<Came>,
    /// They end with the connection.
    streams: JoinSet<()>,
    pub(crate) listens: bool,
    /// Whether everything is asked for by polls.
    polls: bool,
}

impl Requests {
    pub(crate) fn new(address: SocketAddr, call: HttpCall) -> Self {
        let (coming, came) = mpsc::channel(MAX_WAITING_MESSAGES);
        let common = call.header("Accept", "application/json, text/event-stream");
        let (session, streams) = (Arc::default(), JoinSet::new());
        Self {
            address,
            common,
            endpoint: None,
            session,
            revision: None,
            came,
            coming,
            streams,
            listens: false,
            polls: false,
        }
    }

    /// The same for a client that polls.
    pub(crate) fn polling(address: SocketAddr, call: HttpCall) -> Self {
        Self { polls: true, ..Self::new(address, call) }
    }

    /// Asks what there is to be said, again and again.
    pub(crate) fn poll(&mut self) {
        let mut call = self.request("POST");
        call.path.push_str(&format!("?wait={LONG}"));
        let (address, coming) = (self.address, self.coming.clone());
        self.streams.spawn(async move {
            loop {
                let Ok(answer) = call.send(address).await else { break };
                let Ok(messages) = serde_json::from_str::<Vec<Box<RawValue>>>(&answer.body) else { break };
                for message in messages {
                    if coming.send(Came::Text(message.get().to_owned())).await.is_err() {
                        return;
                    }
                }
            }
            let _ = coming.send(Came::Ended).await;
        });
        self.listens = true;
    }

    /// The handshake is done: from now on requests name what was agreed.
    pub(crate) fn agreed(&mut self, revision: &str) {
        self.revision = Some(revision.to_owned());
    }

    fn request(&self, method: &str) -> HttpCall {
        let mut call = self.common.clone();
        call.method = method.into();
        for (name, value) in [(SESSION, self.session.get()), ("MCP-Protocol-Version", self.revision.as_ref())] {
            if let Some(value) = value {
                call = call.header(name, value);
            }
        }
        call
    }

    /// Opens the session's stream.
    pub(crate) async fn listen(&mut self) -> Result<(), Failure> {
        let mut stream = self.open_stream().await?;
        let coming = self.coming.clone();
        self.streams.spawn(async move {
            pass_on(&mut stream, &coming).await;
            // The scene may have ended.
            let _ = coming.send(Came::Ended).await;
        });
        self.listens = true;
        Ok(())
    }

    /// The same where the stream comes first, and says where messages go.
    pub(crate) async fn listen_first(&mut self) -> Result<(), Failure> {
        let mut stream = self.open_stream().await?;
        let first = stream.next().await?.ok_or("the stream ended at once")?;
        if first.event.as_deref() != Some("endpoint") {
            return Err(format!("expected an endpoint, came {first:?}"));
        }
        self.endpoint = Some(first.data);
        let coming = self.coming.clone();
        self.streams.spawn(async move {
            pass_on(&mut stream, &coming).await;
            let _ = coming.send(Came::Ended).await;
        });
        self.listens = true;
        Ok(())
    }

    /// What streams come from.
    pub(crate) fn path(&self) -> &str {
        &self.common.path
    }

    /// Messages go elsewhere.
    pub(crate) fn post_to(&mut self, path: String) {
        self.endpoint = Some(path);
    }

    /// Messages go where those of HTTP+SSE do, unless the stream has named another place.
    pub(crate) fn post_to_messages(&mut self) {
        self.endpoint.get_or_insert_with(|| "/message".into());
    }

    async fn open_stream(&self) -> Result<EventStream, Failure> {
        let opened = EventStream::open(self.address, &self.request("GET")).await?;
        opened.map_err(|answer| format!("the stream was refused: {} {}", answer.status, answer.body))
    }

    /// Posts a message. Only of what wants no answer is it known that it has arrived when this returns.
    pub(crate) async fn send(&mut self, text: &str) -> Result<(), Failure> {
        let mut call = self.request("POST").body(text);
        if let Some(endpoint) = &self.endpoint {
            call.path.clone_from(endpoint);
        }
        if self.polls {
            // Only the first of them has nobody else to wait for its answer.
            let wait = if self.session.get().is_some() { 0 } else { LONG };
            call.path.push_str(&format!("?wait={wait}"));
        }
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        for (name, value) in repeated(&message) {
            call = call.header(name, value);
        }
        let (address, session, coming) = (self.address, self.session.clone(), self.coming.clone());
        let polls = self.polls;
        let asks = message["method"].is_string() && !message["id"].is_null()
            || message.is_array()
            || message["header"]["messageType"] == "request";
        let posted = async move {
            let response = call.open(address).await?;
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            if let Some(id) = header(SESSION) {
                // Made once, and the same whenever it is repeated.
                let _ = session.set(id.to_owned());
            }
            if header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
                pass_on(&mut EventStream::of(response), &coming).await;
                return Ok(());
            }
            let answer = HttpAnswer::read(response).await?;
            if let Ok(messages) = serde_json::from_str::<Vec<Box<RawValue>>>(&answer.body)
                && polls
            {
                for message in messages {
                    let _ = coming.send(Came::Text(message.get().to_owned())).await;
                }
            } else if !answer.body.is_empty() {
                let _ = coming.send(Came::Text(answer.body)).await;
            } else if answer.status >= 400 {
                let _ = coming.send(Came::Refused(answer.status)).await;
            }
            Ok(())
        };
        if !asks {
            return within("a message to be taken", posted).await?;
        }
        // A request that fails shows when its answer is missed.
        self.streams.spawn(async move { drop::<Result<(), Failure>>(posted.await) });
        Ok(())
    }

    pub(crate) async fn next(&mut self) -> Result<Came, Failure> {
        let came = within("the next message", self.came.recv()).await?;
        Ok(came.expect("the sender is here too"))
    }

    /// Ends the session, where there is one to be ended.
    pub(crate) async fn end(self) -> Result<(), Failure> {
        if self.session.get().is_none() {
            return Ok(());
        }
        let answer = self.request("DELETE").send(self.address).await?;
        if answer.status == 204 { Ok(()) } else { Err(format!("the session did not end: {answer:?}")) }
    }
}

async fn pass_on(stream: &mut EventStream, coming: &mpsc::Sender<Came>) {
    while let Some(event) = stream.next_unbounded().await {
        if event.event.as_deref() == Some("message") && coming.send(Came::Text(event.data)).await.is_err() {
            return;
        }
    }
}

/// What a message of the modern era says in headers too.
fn repeated(message: &Value) -> Vec<(&'static str, String)> {
    let params = &message["params"];
    let Some(revision) = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str() else { return Vec::new() };
    let named = [
        ("MCP-Protocol-Version", Some(revision)),
        ("Mcp-Method", message["method"].as_str()),
        ("Mcp-Name", params["name"].as_str().or(params["uri"].as_str())),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))).collect()
}
