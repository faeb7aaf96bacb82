//! One participant's wire in a scene.

use std::collections::VecDeque;
use std::fmt;

use super::client::Client;
use super::framed::Session;
use super::machine::Machine;
use super::requests::Requests;
use super::served::Served;
use super::stage::shorten;
use crate::Failure;
use crate::http::EventStream;
use crate::socket::{Event, Socket};

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

enum Wire {
    Socket(Box<Socket>),
    Stream(Box<EventStream>),
    Requests(Box<Requests>),
    Framed(Box<Session>),
    Served(Box<Served>),
}

pub(crate) struct Connection {
    wire: Wire,
    pub(crate) topic: String,
    /// Who speaks MCP over it, and not MCPx.
    pub(crate) client: Option<Client>,
    /// Who speaks the Machine Context Protocol over it.
    pub(crate) machine: Option<Machine>,
    /// The welcome, as it came; an MCP client's is the answer to its first request.
    pub(crate) welcome: String,
    /// What came while nobody was looking.
    waiting: VecDeque<Came>,
}

impl Connection {
    fn new(wire: Wire, topic: &str) -> Self {
        Self {
            wire,
            topic: topic.into(),
            client: None,
            machine: None,
            welcome: String::new(),
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn socket(socket: Socket, topic: &str) -> Self {
        Self::new(Wire::Socket(Box::new(socket)), topic)
    }

    pub(crate) fn stream(stream: EventStream, topic: &str) -> Self {
        Self::new(Wire::Stream(Box::new(stream)), topic)
    }

    pub(crate) fn requests(requests: Requests, topic: &str) -> Self {
        Self::new(Wire::Requests(Box::new(requests)), topic)
    }

    pub(crate) fn framed(session: Session, topic: &str) -> Self {
        Self::new(Wire::Framed(Box::new(session)), topic)
    }

    pub(crate) fn as_framed(&mut self) -> Option<&mut Session> {
        match &mut self.wire {
            Wire::Framed(session) => Some(session),
            Wire::Socket(_) | Wire::Stream(_) | Wire::Requests(_) | Wire::Served(_) => None,
        }
    }

    pub(crate) fn served(served: Served, topic: &str) -> Self {
        Self::new(Wire::Served(Box::new(served)), topic)
    }

    pub(crate) fn as_served(&mut self) -> Option<&mut Served> {
        match &mut self.wire {
            Wire::Served(served) => Some(served),
            Wire::Socket(_) | Wire::Stream(_) | Wire::Requests(_) | Wire::Framed(_) => None,
        }
    }

    pub(crate) fn as_requests(&mut self) -> Option<&mut Requests> {
        match &mut self.wire {
            Wire::Requests(requests) => Some(requests),
            Wire::Socket(_) | Wire::Stream(_) | Wire::Framed(_) | Wire::Served(_) => None,
        }
    }

    pub(crate) async fn send(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.wire {
            Wire::Socket(socket) => socket.text(text).await,
            Wire::Requests(requests) => requests.send(text).await,
            Wire::Stream(_) => Err("a stream of events is only for reading".into()),
            Wire::Framed(_) => Err("a framed connection sends requests, not texts".into()),
            Wire::Served(served) => served.send(text),
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
            Wire::Socket(socket) => Ok(match socket.next().await? {
                Event::Text(text) => Came::Text(text),
                Event::Binary(length) => Came::Binary(length),
                Event::Closed(code, reason) => Came::Closed(code, reason),
                Event::Broken => Came::Ended,
            }),
            Wire::Requests(requests) => requests.next().await,
            Wire::Framed(session) => session.next().await,
            Wire::Served(served) => served.next().await,
            Wire::Stream(stream) => {
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
            Wire::Socket(socket) => socket.close().await,
            Wire::Requests(requests) => requests.end().await,
            Wire::Framed(session) => session.leave().await,
            Wire::Served(served) => served.leave().await,
            Wire::Stream(_) => Ok(()),
        }
    }
}
