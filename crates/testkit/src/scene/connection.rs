//! One participant's wire in a scene.

use std::collections::VecDeque;
use std::fmt;

use super::client::SceneClient;
use super::framed::SceneSession;
use super::machine::MachineScene;
use super::requests::Requests;
use super::served::ServedUpstream;
use super::stage::shorten;
use crate::Failure;
use crate::http::EventStream;
use crate::socket::{TestSocket, TestSocketEvent};

/// What came over it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Came {
    Text(String),
    Binary(usize),
    Closed(u16, String),
    /// A request was refused without a word.
    Refused(u16),
    Ended,
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&shorten(text)),
            Self::Binary(length) => write!(f, "a binary frame of {length} bytes"),
            Self::Closed(code, reason) => write!(f, "close {code} {reason:?}"),
            Self::Refused(status) => write!(f, "status {status}"),
            Self::Ended => f.write_str("the end"),
        }
    }
}

enum SceneWire {
    Socket(Box<TestSocket>),
    Stream(Box<EventStream>),
    Requests(Box<Requests>),
    Framed(Box<SceneSession>),
    Served(Box<ServedUpstream>),
}

pub(crate) struct SceneConnection {
    wire: SceneWire,
    pub(crate) topic: String,
    /// Who speaks MCP over it, and not MCPx.
    pub(crate) client: Option<SceneClient>,
    /// Who speaks the Machine Context Protocol over it.
    pub(crate) machine: Option<MachineScene>,
    /// The welcome, as it came; an MCP client's is the answer to its first request.
    pub(crate) welcome: String,
    /// What came while nobody was looking.
    waiting: VecDeque<Came>,
}

impl SceneConnection {
    fn new(wire: SceneWire, topic: &str) -> Self {
        Self {
            wire,
            topic: topic.into(),
            client: None,
            machine: None,
            welcome: String::new(),
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn socket(socket: TestSocket, topic: &str) -> Self {
        Self::new(SceneWire::Socket(Box::new(socket)), topic)
    }

    pub(crate) fn stream(stream: EventStream, topic: &str) -> Self {
        Self::new(SceneWire::Stream(Box::new(stream)), topic)
    }

    pub(crate) fn requests(requests: Requests, topic: &str) -> Self {
        Self::new(SceneWire::Requests(Box::new(requests)), topic)
    }

    pub(crate) fn framed(session: SceneSession, topic: &str) -> Self {
        Self::new(SceneWire::Framed(Box::new(session)), topic)
    }

    pub(crate) fn as_framed(&mut self) -> Option<&mut SceneSession> {
        match &mut self.wire {
            SceneWire::Framed(session) => Some(session),
            SceneWire::Socket(_) | SceneWire::Stream(_) | SceneWire::Requests(_) | SceneWire::Served(_) => None,
        }
    }

    pub(crate) fn served(served: ServedUpstream, topic: &str) -> Self {
        Self::new(SceneWire::Served(Box::new(served)), topic)
    }

    pub(crate) fn as_served(&mut self) -> Option<&mut ServedUpstream> {
        match &mut self.wire {
            SceneWire::Served(served) => Some(served),
            SceneWire::Socket(_) | SceneWire::Stream(_) | SceneWire::Requests(_) | SceneWire::Framed(_) => None,
        }
    }

    pub(crate) fn as_requests(&mut self) -> Option<&mut Requests> {
        match &mut self.wire {
            SceneWire::Requests(requests) => Some(requests),
            SceneWire::Socket(_) | SceneWire::Stream(_) | SceneWire::Framed(_) | SceneWire::Served(_) => None,
        }
    }

    pub(crate) async fn send(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.wire {
            SceneWire::Socket(socket) => socket.text(text).await,
            SceneWire::Requests(requests) => requests.send(text).await,
            SceneWire::Stream(_) => Err("a stream of events is only for reading".into()),
            SceneWire::Framed(_) => Err("a framed connection sends requests, not texts".into()),
            SceneWire::Served(served) => served.send(text),
        }
    }

    pub(crate) async fn next(&mut self) -> Result<Came, Failure> {
        match self.waiting.pop_front() {
            Some(came) => Ok(came),
            None => self.read().await,
        }
    }

    /// Makes frames the next ones again.
    pub(crate) fn put_back(&mut self, texts: Vec<String>) {
        for text in texts.into_iter().rev() {
            self.waiting.push_front(Came::Text(text));
        }
    }

    /// Reads until the connection ends and keeps what came.
    pub(crate) async fn drain(&mut self) {
        // Requests without a stream have no end to wait for.
        if self.as_requests().is_some_and(|requests| !requests.listens) {
            return;
        }
        while let Ok(came) = self.read().await {
            let over = matches!(came, Came::Closed(..) | Came::Ended);
            self.waiting.push_back(came);
            if over {
                return;
            }
        }
    }

    async fn read(&mut self) -> Result<Came, Failure> {
        match &mut self.wire {
            SceneWire::Socket(socket) => Ok(match socket.next().await? {
                TestSocketEvent::Text(text) => Came::Text(text),
                TestSocketEvent::Binary(length) => Came::Binary(length),
                TestSocketEvent::Closed(code, reason) => Came::Closed(code, reason),
                TestSocketEvent::Broken => Came::Ended,
            }),
            SceneWire::Requests(requests) => requests.next().await,
            SceneWire::Framed(session) => session.next().await,
            SceneWire::Served(served) => served.next().await,
            SceneWire::Stream(stream) => {
                let Some(event) = stream.next().await? else { return Ok(Came::Ended) };
                // What resumes a stream is the envelope's id, as with `after`.
                let envelope: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
                if envelope["id"].as_str() != event.id.as_deref() {
                    return Err(format!("an event has the id {:?} and the data {}", event.id, event.data));
                }
                Ok(Came::Text(event.data))
            }
        }
    }

    pub(crate) async fn leave(self) -> Result<(), Failure> {
        match self.wire {
            SceneWire::Socket(socket) => socket.close().await,
            SceneWire::Requests(requests) => requests.end().await,
            SceneWire::Framed(session) => session.leave().await,
            SceneWire::Served(served) => served.leave().await,
            SceneWire::Stream(_) => Ok(()),
        }
    }
}
