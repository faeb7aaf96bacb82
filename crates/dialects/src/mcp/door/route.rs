//! Which era a body is of, and the messages in it.
//!
//! Pure. A body is read once, no further than the members of its messages, which takes no stack however deep it is nested; what has been
//! read is handed on. Deliberately absent: which methods there are, and whether a session exists.

use std::borrow::Cow;

use salon_mcp::{Revision, RpcHead, meta};
use salon_protocol::{Members, RpcError, RpcId, rpc};
use serde_json::value::RawValue;

use crate::Frame;

/// Messages that one batch or one poll may have.
const MAX_IN_BODY: usize = 64;

/// Where a body belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostRoute {
    /// A request of the stateless era.
    Modern,
    /// The beginning of a session.
    Initialize,
    /// Part of a session.
    Legacy,
}

/// An error as a whole answer.
#[derive(Debug, Clone)]
pub struct ErrorBody {
    /// As HTTP has it.
    pub status: u16,
    /// The id of what it answers.
    id: Box<RawValue>,
    pub(in crate::mcp) error: RpcError,
}

impl ErrorBody {
    fn new(id: &RawValue, code: i64, told: impl Into<String>) -> Self {
        Self { status: 400, id: id.to_owned(), error: RpcError::new(code, told.into()) }
    }

    /// One that answers nothing in particular.
    pub(in crate::mcp) fn invalid(told: impl Into<String>) -> Self {
        Self::new(RawValue::NULL, RpcError::INVALID_REQUEST, told)
    }

    /// The JSON-RPC message.
    pub fn message(&self) -> Box<RawValue> {
        rpc::failure(&self.id, &self.error)
    }
}

/// A JSON-RPC message, read as far as its head. A member that is `null` counts as missing.
#[derive(Debug, Clone)]
pub struct ClientMessage {
    pub(super) id: Option<Box<RawValue>>,
    pub(super) method: Option<Box<str>>,
    pub(super) params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

impl ClientMessage {
    /// Reads a message, or says why it is none.
    fn read(text: &str) -> Result<Self, ErrorBody> {
        let Some(mut members) = Members::parse(text) else {
            return Err(ErrorBody::invalid("a message is a JSON object"));
        };
        let id = members.remove("id");
        let known_id = id.clone().filter(|id| RpcId::parse(id.get()).is_some());
        let wrong =
            |told: &str| ErrorBody::new(known_id.as_deref().unwrap_or(RawValue::NULL), RpcError::INVALID_REQUEST, told);
        if members.get("jsonrpc").map(RawValue::get) != Some("\"2.0\"") {
            return Err(wrong("`jsonrpc` must be \"2.0\""));
        }
        if id.is_some() && known_id.is_none() {
            return Err(wrong("an `id` is a number or a string"));
        }
        let [method, params, result, error] = ["method", "params", "result", "error"].map(|key| members.remove(key));
        let is_twice = ["id", "method", "params", "result", "error"].iter().any(|key| members.get(key).is_some());
        let method = match method.map(|method| serde_json::from_str(method.get())) {
            Some(Ok(method)) if !is_twice => method,
            None if !is_twice => None,
            _ => return Err(wrong("`method` must be a string, and no member may stand twice")),
        };
        let outcomes = usize::from(result.is_some()) + usize::from(error.is_some());
        match (&method, &id, outcomes) {
            (Some(_), _, 0) | (None, Some(_), 1) => {}
            (Some(_), _, _) => return Err(wrong("a message has a `method` or is an answer, not both")),
            (None, None, 1) => return Err(wrong("an answer must have an `id`")),
            (None, _, 0) => return Err(wrong("a message has a `method`, a `result` or an `error`")),
            (None, _, _) => return Err(wrong("an answer has either a `result` or an `error`, not both")),
        }
        let [params, result, error] = [params, result, error].map(|raw| raw.filter(|raw| raw.get() != "null"));
        Ok(Self { id, method, params, result, error })
    }

    /// The same, borrowed.
    pub(in crate::mcp) fn head(&self) -> RpcHead<'_> {
        RpcHead {
            id: self.id.as_deref(),
            method: self.method.as_deref().map(Cow::Borrowed),
            params: self.params.as_deref(),
            result: self.result.as_deref(),
            error: self.error.as_deref(),
        }
    }

    pub(in crate::mcp) fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }

    pub(in crate::mcp) fn is_initialize(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }

    /// Whether it says itself that it is of the stateless era.
    pub(in crate::mcp) fn is_modern(&self) -> bool {
        self.params.as_deref().is_some_and(|params| meta::revision(params).is_some())
    }
}

/// A message, or the answer to a body that is no message.
pub(in crate::mcp) type ReadMessage = Result<ClientMessage, ErrorBody>;

/// What a POST or a text frame says.
#[derive(Debug, Clone)]
pub struct Body {
    /// Where it belongs.
    pub route: PostRoute,
    pub(in crate::mcp) messages: BodyMessages,
}

/// The messages of a body.
#[derive(Debug, Clone)]
pub(in crate::mcp) enum BodyMessages {
    One(Box<ClientMessage>),
    /// Each is answered for itself, also what is no message.
    Batch(Vec<ReadMessage>),
}

impl Body {
    /// Reads a body. The revision that the `MCP-Protocol-Version` header names decides where it belongs, too.
    pub fn read(version_header: Option<&str>, text: &str) -> Result<Self, ErrorBody> {
        let body = parse(text)?;
        let by_header = version_header.is_some_and(is_modern_date);
        if body.get().starts_with('[') {
            return Self::read_batch(body, by_header);
        }
        let message = ClientMessage::read(body.get())?;
        let route = match by_header || message.is_modern() {
            true if message.method.is_none() => {
                return Err(ErrorBody::invalid("a client of this revision of MCP sends no answers"));
            }
            true => PostRoute::Modern,
            false if message.is_request() && message.is_initialize() => PostRoute::Initialize,
            false => PostRoute::Legacy,
        };
        Ok(Self { route, messages: BodyMessages::One(Box::new(message)) })
    }

    /// Reads a frame on a stream that lasts.
    pub(in crate::mcp) fn read_frame(frame: &Frame) -> Result<Self, ErrorBody> {
        match frame {
            Frame::Text(text) => Self::read(None, text),
            _ => Err(ErrorBody::invalid("a message is text, not binary")),
        }
    }

    /// A batch is legacy, and everything in it too.
    fn read_batch(batch: &RawValue, by_header: bool) -> Result<Self, ErrorBody> {
        let messages = read_each(batch, "a batch has 1 to")?;
        if messages.is_empty() {
            return Err(ErrorBody::invalid("a batch has at least one message"));
        }
        let mut read = messages.iter().flatten();
        if by_header || read.clone().any(ClientMessage::is_modern) {
            return Err(ErrorBody::invalid("this revision of MCP has no batches"));
        }
        if read.any(ClientMessage::is_initialize) {
            return Err(ErrorBody::invalid("`initialize` must not be part of a batch"));
        }
        Ok(Self { route: PostRoute::Legacy, messages: BodyMessages::Batch(messages) })
    }
}

/// What a poll brings: no message, one, or several in an array.
#[derive(Debug, Clone, Default)]
pub struct PollBody(pub(in crate::mcp) Vec<ReadMessage>);

impl PollBody {
    /// Reads the body of a poll.
    pub fn read(text: &str) -> Result<Self, ErrorBody> {
        if text.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let body = parse(text)?;
        match body.get().starts_with('[') {
            true => read_each(body, "a poll brings at most").map(Self),
            false => Ok(Self(vec![ClientMessage::read(body.get())])),
        }
    }
}

fn parse(text: &str) -> Result<&RawValue, ErrorBody> {
    serde_json::from_str(text)
        .map_err(|_| ErrorBody::new(RawValue::NULL, RpcError::PARSE_ERROR, "the body is not valid JSON"))
}

fn read_each(array: &RawValue, limit: &str) -> Result<Vec<ReadMessage>, ErrorBody> {
    let messages: Vec<&RawValue> = serde_json::from_str(array.get()).unwrap_or_default();
    if messages.len() > MAX_IN_BODY {
        return Err(ErrorBody::invalid(format!("{limit} {MAX_IN_BODY} messages")));
    }
    Ok(messages.into_iter().map(|message| ClientMessage::read(message.get())).collect())
}

/// Whether this is the date of a revision without a handshake, known or not.
fn is_modern_date(text: &str) -> bool {
    let text = text.trim();
    let shape = |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(shape) && text >= Revision::MODERN.date()
}

#[cfg(test)]
mod tests;
