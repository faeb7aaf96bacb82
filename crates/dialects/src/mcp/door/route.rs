//! Which era a body is of, and what the modern era demands of a request before it is served.
//!
//! Pure. A body is read once, no further than the members of its messages, which takes no stack however deep it is nested; what has been
//! read is handed on. Deliberately absent: which methods there are, and whether a session exists.

use std::borrow::Cow;

use salon_mcp::{Revision, RpcHead, code, headers, meta};
use salon_protocol::{LogLevel, Members, RpcError, RpcId, rpc};
use serde_json::value::RawValue;

use crate::Frame;

const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
/// Messages that one batch or one poll may have.
const MAX_IN_BODY: usize = 64;
/// Characters of a client's text that an error repeats.
const MAX_ECHO_CHARS: usize = 100;

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
        Self::new(RawValue::NULL, INVALID_REQUEST, told)
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
        let wrong = |told: &str| ErrorBody::new(known_id.as_deref().unwrap_or(RawValue::NULL), INVALID_REQUEST, told);
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

/// A message, or the answer to what is none.
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
    serde_json::from_str(text).map_err(|_| ErrorBody::new(RawValue::NULL, PARSE_ERROR, "the body is not valid JSON"))
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

/// Who asks, as a modern request says it.
#[derive(Debug)]
pub(super) struct RequestOrigin {
    /// What it can be asked back.
    pub(super) capabilities: Box<RawValue>,
    /// Who it is.
    pub(super) info: Option<Box<RawValue>>,
    /// Which log lines it wants.
    pub(super) level: Option<LogLevel>,
}

/// Why a request of the modern era is not served.
#[derive(Debug)]
pub(super) struct ModernError {
    /// As HTTP has it.
    pub(super) status: u16,
    pub(super) error: RpcError,
}

impl ModernError {
    fn new(error: RpcError) -> Self {
        Self { status: 400, error }
    }

    fn params(told: impl Into<String>) -> Self {
        Self::new(RpcError::invalid_params(told))
    }

    fn mismatch(told: impl Into<String>) -> Self {
        Self::new(RpcError::new(code::HEADER_MISMATCH, told))
    }

    fn revision(requested: &str) -> Self {
        let requested = echo(requested);
        let told = format!("the revision {requested:?} of MCP is not spoken here without a handshake");
        let data = serde_json::json!({"supported": [Revision::MODERN.date()], "requested": requested});
        Self::new(RpcError::new(code::UNSUPPORTED_REVISION, told).with_data(&data))
    }
}

/// The beginning of a client's text, for an error.
pub(super) fn echo(text: &str) -> String {
    text.chars().take(MAX_ECHO_CHARS).collect()
}

/// The headers of a request over HTTP that matter here, their names in lower case.
type Headers = [(Box<str>, Box<str>)];

/// Checks what every modern request must say of itself, in `_meta` and, over HTTP, in its headers.
pub(super) fn check(
    headers: Option<&Headers>,
    method: &str,
    params: Option<&RawValue>,
) -> Result<RequestOrigin, ModernError> {
    let said = params.and_then(meta::revision);
    if let Some(headers) = headers {
        check_revision(headers, said.as_deref())?;
    }
    let said =
        said.ok_or_else(|| ModernError::params("`_meta` must have `io.modelcontextprotocol/protocolVersion`"))?;
    if said != Revision::MODERN.date() {
        return Err(ModernError::revision(&said));
    }
    let asker = params.map(meta::said).unwrap_or_default();
    let is_object = |raw: &RawValue| raw.get().starts_with('{');
    let capabilities = asker.capabilities.filter(|capabilities| is_object(capabilities)).ok_or_else(|| {
        ModernError::params("`_meta` must have `io.modelcontextprotocol/clientCapabilities`, which is an object")
    })?;
    let level = match asker.level {
        None => None,
        Some(level) => Some(
            serde_json::from_str::<LogLevel>(level.get())
                .map_err(|_| ModernError::params(format!("there is no log level {}", echo(level.get()))))?,
        ),
    };
    if let Some(headers) = headers {
        check_names(headers, method, params)?;
    }
    Ok(RequestOrigin { capabilities, info: asker.info.filter(|info| is_object(info)), level })
}

fn check_revision(headers: &Headers, said: Option<&str>) -> Result<(), ModernError> {
    let header = of(headers, "mcp-protocol-version")?;
    match (header, said) {
        // Without `_meta` the header is all that says the revision, and only a known one can demand more.
        (Some(header), None) if header != Revision::MODERN.date() => Err(ModernError::revision(&header)),
        (_, None) => Ok(()),
        (header, said) => same("MCP-Protocol-Version", header.as_deref(), said),
    }
}

fn check_names(headers: &Headers, method: &str, params: Option<&RawValue>) -> Result<(), ModernError> {
    same("Mcp-Method", of(headers, "mcp-method")?.as_deref(), Some(method))?;
    let Some(key) = headers::name_key(method) else { return Ok(()) };
    let name = params.and_then(|params| Members::parse(params.get())?.remove(key));
    let name = name.and_then(|name| serde_json::from_str::<String>(name.get()).ok());
    let header = of(headers, "mcp-name")?;
    // Where tasks are not spoken of at all, a missing header is not what is wrong with asking for one.
    if header.is_none() && method.starts_with("tasks/") {
        return Ok(());
    }
    same("Mcp-Name", header.as_deref(), name.as_deref())
}

fn same(name: &str, header: Option<&str>, body: Option<&str>) -> Result<(), ModernError> {
    if header == body {
        return Ok(());
    }
    let told = match (header.map(echo), body.map(echo)) {
        (Some(header), Some(body)) => format!("{name} says {header:?}, the body {body:?}"),
        (Some(header), None) => format!("{name} says {header:?}, the body nothing"),
        (None, _) => format!("the header {name} is missing"),
    };
    Err(ModernError::mismatch(told))
}

/// A header's value, decoded. Given twice it must be the same: a proxy that routed by it may have looked at the other.
fn of(headers: &Headers, name: &str) -> Result<Option<String>, ModernError> {
    let mut values = headers.iter().filter(|(key, _)| **key == *name).map(|(_, value)| headers::decode(value));
    let Some(first) = values.next() else { return Ok(None) };
    match first {
        Some(first) if values.all(|value| value.as_ref() == Some(&first)) => Ok(Some(first)),
        Some(_) => Err(ModernError::mismatch(format!("the header {} stands twice and differs", echo(name)))),
        None => Err(ModernError::mismatch(format!("the header {} has a value that is not allowed", echo(name)))),
    }
}

/// Checks the headers that repeat arguments of a tool, as its input schema wants them.
pub(super) fn check_params(
    headers: &Headers,
    tool: &RawValue,
    arguments: Option<&RawValue>,
) -> Result<(), ModernError> {
    let schema = Members::parse(tool.get()).and_then(|mut tool| tool.remove("inputSchema"));
    for (name, path) in schema.as_deref().map(headers::annotations).unwrap_or_default() {
        let header = of(headers, &format!("mcp-param-{}", name.to_ascii_lowercase()))?;
        let value = arguments.and_then(|arguments| headers::at(arguments, &path));
        let body = value.as_deref().and_then(headers::plain);
        let is_number =
            value.is_some_and(|value| value.get().starts_with(|char: char| char == '-' || char.is_ascii_digit()));
        if let (true, Some(header), Some(body)) = (is_number, &header, &body)
            && same_number(header, body)
        {
            continue;
        }
        same(&format!("Mcp-Param-{}", echo(&name)), header.as_deref(), body.as_deref())?;
    }
    Ok(())
}

/// Whether two texts are one number, such as `42` and `42.0`. Integers are not compared by way of floating point, in which large
/// ones run together.
fn same_number(one: &str, other: &str) -> bool {
    let is_integer = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if one == other || (is_integer(one) && is_integer(other)) || !is_number(one) || !is_number(other) {
        return one == other;
    }
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    number(one).is_some_and(|one| number(other) == Some(one))
}

/// The HTTP status of a modern answer that is an error. What a participant says of a call's parameters is an answer like any other;
/// only what is wrong with the request itself is a bad request.
pub(super) fn status(code: i64) -> u16 {
    match code {
        RpcError::METHOD_NOT_FOUND => 404,
        code::HEADER_MISMATCH
        | code::MISSING_CAPABILITY
        | code::UNSUPPORTED_REVISION
        | PARSE_ERROR
        | INVALID_REQUEST => 400,
        _ => 200,
    }
}

#[cfg(test)]
mod tests;
