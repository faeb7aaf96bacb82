//! What the modern era demands of a request before it is served (MCP 2026-07-28, "Request metadata" and "Standard headers").
//!
//! Pure. Deliberately absent: which methods there are, and whether a session exists.

use salon_mcp::{Revision, code, headers, meta};
use salon_protocol::{LogLevel, Members, RpcError};
use serde_json::value::RawValue;

/// Characters of a client's text that an error repeats.
const MAX_ECHO_CHARS: usize = 100;

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
        | RpcError::PARSE_ERROR
        | RpcError::INVALID_REQUEST => 400,
        _ => 200,
    }
}
