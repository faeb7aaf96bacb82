//! Which era a POST is of, and what the modern era demands of a request before it is served.
//!
//! Pure. A body is read no further than its members, which takes no stack however deep it is nested. Deliberately absent: which
//! methods there are, and whether a session exists.

use salon_mcp::{Head, Revision, code, headers, meta};
use salon_protocol::{LogLevel, Members, RpcError, RpcId, rpc};
use serde_json::value::RawValue;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
/// How much of what somebody said is said in an error.
const MAX_ECHO_CHARS: usize = 100;

/// Where a POST belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// A request of the stateless era.
    Modern,
    /// The beginning of a session.
    Initialize,
    /// Part of a session.
    Legacy,
    /// Nowhere; this is the answer.
    Refused(Box<Fault>),
}

/// An error as a whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// As HTTP has it.
    pub status: u16,
    /// A JSON-RPC error.
    pub body: Box<str>,
}

/// Says where a POST belongs, by its `MCP-Protocol-Version` and its body.
pub fn route(version_header: Option<&str>, body: &str) -> Route {
    let Ok(message) = serde_json::from_str::<&RawValue>(body) else {
        return refused(RawValue::NULL, PARSE_ERROR, "the body is not valid JSON");
    };
    let by_header = version_header.is_some_and(is_modern_date);
    if message.get().starts_with('[') {
        return route_batch(message, by_header);
    }
    let head = match read(message.get()) {
        Ok(head) => head,
        Err(told) => return refused(&readable_id(message.get()), INVALID_REQUEST, told),
    };
    if by_header || head.params.is_some_and(|params| meta::revision(params).is_some()) {
        return match head.method {
            Some(_) => Route::Modern,
            None => refused(RawValue::NULL, INVALID_REQUEST, "a client of this revision of MCP sends no answers"),
        };
    }
    match head.request_id() {
        Some(_) if head.method.as_deref() == Some("initialize") => Route::Initialize,
        _ => Route::Legacy,
    }
}

/// A batch is legacy, and everything in it too. What is no message in it is answered one by one, by whoever takes it apart.
fn route_batch(batch: &RawValue, by_header: bool) -> Route {
    let refused = |told| refused(RawValue::NULL, INVALID_REQUEST, told);
    let messages: Vec<&RawValue> = serde_json::from_str(batch.get()).unwrap_or_default();
    if messages.is_empty() {
        return refused("a batch has at least one message");
    }
    let mut heads = messages.iter().filter_map(|message| Head::read(message.get()));
    if by_header || heads.clone().any(|head| head.params.is_some_and(|params| meta::revision(params).is_some())) {
        return refused("this revision of MCP has no batches");
    }
    if heads.any(|head| head.method.as_deref() == Some("initialize")) {
        return refused("`initialize` must not be part of a batch");
    }
    Route::Legacy
}

/// Whether this is the date of a revision without a handshake, known or not.
fn is_modern_date(text: &str) -> bool {
    let text = text.trim();
    let shape = |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(shape) && text >= Revision::MODERN.date()
}

/// Reads a JSON-RPC message, or says why it is none.
pub(super) fn read(text: &str) -> Result<Head<'_>, &'static str> {
    let members = Members::parse(text).ok_or("a message is a JSON object")?;
    if members.get("jsonrpc").map(RawValue::get) != Some("\"2.0\"") {
        return Err("`jsonrpc` must be \"2.0\"");
    }
    if members.get("id").is_some_and(|id| RpcId::parse(id.get()).is_none()) {
        return Err("an `id` is a number or a string");
    }
    let head = Head::read(text).ok_or("`method` must be a string, and no member may stand twice")?;
    let outcomes = usize::from(members.get("result").is_some()) + usize::from(members.get("error").is_some());
    match (&head.method, head.id, outcomes) {
        (Some(_), _, 0) | (None, Some(_), 1) => Ok(head),
        (Some(_), _, _) => Err("a message has a `method` or is an answer, not both"),
        (None, None, 1) => Err("an answer must have an `id`"),
        (None, _, 0) => Err("a message has a `method`, a `result` or an `error`"),
        (None, _, _) => Err("an answer has either a `result` or an `error`, not both"),
    }
}

/// The id of what cannot be read otherwise.
pub(super) fn readable_id(text: &str) -> Box<RawValue> {
    let id = Members::parse(text).and_then(|mut members| members.remove("id"));
    id.filter(|id| RpcId::parse(id.get()).is_some()).unwrap_or_else(|| RawValue::NULL.to_owned())
}

fn refused(id: &RawValue, code: i64, told: &str) -> Route {
    let body = rpc::failure(id, &RpcError::new(code, told)).get().into();
    Route::Refused(Box::new(Fault { status: 400, body }))
}

/// Who asks, as a modern request says it.
#[derive(Debug)]
pub(super) struct Asker {
    /// What it can be asked back.
    pub(super) capabilities: Box<RawValue>,
    /// Who it is.
    pub(super) info: Option<Box<RawValue>>,
    /// Which log lines it wants.
    pub(super) level: Option<LogLevel>,
}

/// Why a request of the modern era is not served.
#[derive(Debug)]
pub(super) struct Wrong {
    /// As HTTP has it.
    pub(super) status: u16,
    pub(super) error: RpcError,
}

impl Wrong {
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

/// The beginning of what somebody said, for an error.
pub(super) fn echo(text: &str) -> String {
    text.chars().take(MAX_ECHO_CHARS).collect()
}

/// The headers of a request over HTTP that matter here, their names in lower case.
type Headers = [(Box<str>, Box<str>)];

/// Checks what every modern request must say of itself, in `_meta` and, over HTTP, in its headers.
pub(super) fn check(headers: Option<&Headers>, method: &str, params: Option<&RawValue>) -> Result<Asker, Wrong> {
    let said = params.and_then(meta::revision);
    if let Some(headers) = headers {
        check_revision(headers, said.as_deref())?;
    }
    let said = said.ok_or_else(|| Wrong::params("`_meta` must have `io.modelcontextprotocol/protocolVersion`"))?;
    if said != Revision::MODERN.date() {
        return Err(Wrong::revision(&said));
    }
    let asker = params.map(meta::said).unwrap_or_default();
    let is_object = |raw: &RawValue| raw.get().starts_with('{');
    let capabilities = asker.capabilities.filter(|capabilities| is_object(capabilities)).ok_or_else(|| {
        Wrong::params("`_meta` must have `io.modelcontextprotocol/clientCapabilities`, which is an object")
    })?;
    let level = match asker.level {
        None => None,
        Some(level) => Some(
            serde_json::from_str::<LogLevel>(level.get())
                .map_err(|_| Wrong::params(format!("there is no log level {}", echo(level.get()))))?,
        ),
    };
    if let Some(headers) = headers {
        check_names(headers, method, params)?;
    }
    Ok(Asker { capabilities, info: asker.info.filter(|info| is_object(info)), level })
}

fn check_revision(headers: &Headers, said: Option<&str>) -> Result<(), Wrong> {
    let header = of(headers, "mcp-protocol-version")?;
    match (header, said) {
        // Without `_meta` the header is all that says the revision, and only a known one can demand more.
        (Some(header), None) if header != Revision::MODERN.date() => Err(Wrong::revision(&header)),
        (_, None) => Ok(()),
        (header, said) => same("MCP-Protocol-Version", header.as_deref(), said),
    }
}

fn check_names(headers: &Headers, method: &str, params: Option<&RawValue>) -> Result<(), Wrong> {
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

fn same(name: &str, header: Option<&str>, body: Option<&str>) -> Result<(), Wrong> {
    if header == body {
        return Ok(());
    }
    let told = match (header.map(echo), body.map(echo)) {
        (Some(header), Some(body)) => format!("{name} says {header:?}, the body {body:?}"),
        (Some(header), None) => format!("{name} says {header:?}, the body nothing"),
        (None, _) => format!("the header {name} is missing"),
    };
    Err(Wrong::mismatch(told))
}

/// A header's value, decoded. Said twice it must be the same: whoever routed by it may have looked at the other.
fn of(headers: &Headers, name: &str) -> Result<Option<String>, Wrong> {
    let mut values = headers.iter().filter(|(key, _)| **key == *name).map(|(_, value)| headers::decode(value));
    let Some(first) = values.next() else { return Ok(None) };
    match first {
        Some(first) if values.all(|value| value.as_ref() == Some(&first)) => Ok(Some(first)),
        Some(_) => Err(Wrong::mismatch(format!("the header {} stands twice and differs", echo(name)))),
        None => Err(Wrong::mismatch(format!("the header {} has a value that is not allowed", echo(name)))),
    }
}

/// Checks the headers that repeat arguments of a tool, as its input schema wants them.
pub(super) fn check_params(headers: &Headers, tool: &RawValue, arguments: Option<&RawValue>) -> Result<(), Wrong> {
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
