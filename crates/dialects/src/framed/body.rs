//! The bodies of requests, and what a payload is in the room.

use std::time::Duration;

use data_encoding::BASE64;
use salon_protocol::{CHAT_METHOD, Code, EnvelopeId, Limits, ParticipantId, Refusal, RpcId, check_json, rpc};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::header::{MAX_DEPTH, present, strict, string};

/// The method of data that is neither chat nor a message of MCP.
pub(super) const DATA_METHOD: &str = "notifications/data";

/// How long a RECEIVE may wait, and how long one waits that does not say.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(30);

/// Capabilities of a client, and the characters of each.
const MAX_CAPABILITIES: usize = 64;
const MAX_CAPABILITY: usize = 128;

/// Characters of a reason that are passed on.
const MAX_REASON: usize = 256;

fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidParameters, message)
}

/// The body as text.
fn text(body: &[u8]) -> Result<&str, Refusal> {
    let not_utf8 = |_| Refusal::new(Code::InvalidJson, "the body is not UTF-8; raw bytes need another `contentType`");
    std::str::from_utf8(body).map_err(not_utf8)
}

/// A body that must be an object.
fn object<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, Refusal> {
    let no =
        |why: String| Refusal::new(Code::InvalidJson, format!("the body is not the JSON object it must be: {why}"));
    // An array would be read as the members in their order.
    if !body.trim_start().starts_with('{') {
        return Err(no("it does not begin with `{`".into()));
    }
    serde_json::from_str(body).map_err(|error| no(error.to_string()))
}

/// The same, as strictly as an envelope is read.
fn strict_object<'a, T: Deserialize<'a>>(body: &'a [u8], limits: &Limits) -> Result<T, Refusal> {
    let body = text(body)?;
    check_json(body, &Limits { message: 0, ..*limits })?;
    object(body)
}

fn text_of(name: &str, raw: Option<&RawValue>) -> Result<Option<String>, Refusal> {
    raw.map(|raw| string(raw).ok_or_else(|| wrong(format!("`{name}` must be a string")))).transpose()
}

/// The session a body names.
pub(super) fn session(body: &[u8]) -> Result<Option<String>, Refusal> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        session_id: Option<&'a RawValue>,
    }
    text_of("sessionId", object::<Named<'_>>(text(body)?)?.session_id)
}

/// Who wants in. No `Debug`: it has a secret.
pub struct Connect {
    /// What proves it.
    pub token: Option<String>,
    /// Where to, if it says so.
    pub topic: Option<String>,
    /// Who it says it is.
    pub id: String,
    pub(super) capabilities: Vec<String>,
}

pub(super) fn connect(body: &[u8]) -> Result<Connect, Refusal> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Raw<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        token: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        topic: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        client_info: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Info<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        id: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        version: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        capabilities: Option<&'a RawValue>,
    }
    // The refusal does not repeat serde's message, which might hold a part of the token.
    let broken =
        || Refusal::new(Code::InvalidJson, "the body of CONNECT is not a JSON object in which every key stands once");
    let body = text(body)?;
    strict(body).map_err(|code| match code {
        Code::TooDeep => Refusal::new(code, format!("the body of CONNECT is nested deeper than {MAX_DEPTH} levels")),
        _ => broken(),
    })?;
    let raw: Raw<'_> = object(body).map_err(|_| broken())?;
    let info = raw.client_info.filter(|info| info.get().starts_with('{'));
    let info = info.ok_or_else(|| wrong("`clientInfo` must be an object with `id`"))?;
    let info: Info<'_> = serde_json::from_str(info.get()).map_err(|_| broken())?;
    let id = text_of("clientInfo.id", info.id)?;
    text_of("clientInfo.version", info.version)?;
    let listed = info.capabilities.map(|raw| serde_json::from_str::<Vec<String>>(raw.get()));
    let capabilities = listed.transpose().ok().map(Option::unwrap_or_default).filter(|list| {
        let fits = |word: &String| word.chars().count() <= MAX_CAPABILITY && !word.chars().any(char::is_control);
        list.len() <= MAX_CAPABILITIES && list.iter().all(fits)
    });
    Ok(Connect {
        token: text_of("token", raw.token)?,
        topic: text_of("topic", raw.topic)?,
        id: id.ok_or_else(|| wrong("`clientInfo.id` is missing: it must be the token's participant"))?,
        capabilities: capabilities.ok_or_else(|| {
            wrong(format!(
                "`clientInfo.capabilities` must be at most {MAX_CAPABILITIES} strings of at most {MAX_CAPABILITY} characters"
            ))
        })?,
    })
}

/// How long a RECEIVE waits at the most.
pub(super) fn receive(body: &[u8], limits: &Limits) -> Result<Duration, Refusal> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        timeout: Option<&'a RawValue>,
    }
    let raw: Raw<'_> = strict_object(body, limits)?;
    let Some(raw) = raw.timeout else { return Ok(MAX_WAIT) };
    let millis = match string(raw) {
        // Digits of any number: what does not fit is longer than anything may be.
        Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(text.parse::<u64>().map_or(f64::INFINITY, |millis| millis as f64))
        }
        Some(_) => None,
        None => number(raw.get()),
    };
    let millis = millis.filter(|millis| *millis >= 0.0).ok_or_else(|| {
        let longest = MAX_WAIT.as_millis();
        wrong(format!("`timeout` must be a number of milliseconds from 0, as a number or in digits; more than {longest} is {longest}"))
    })?;
    Ok(MAX_WAIT.min(Duration::try_from_secs_f64(millis / 1000.0).unwrap_or(MAX_WAIT)))
}

/// A number as JSON has it, however large.
fn number(raw: &str) -> Option<f64> {
    raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()).then(|| raw.parse().ok()).flatten()
}

/// Why somebody leaves, as far as it can be shown.
pub(super) fn disconnect(body: &[u8], limits: &Limits) -> Result<Option<String>, Refusal> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        reason: Option<&'a RawValue>,
    }
    let raw: Raw<'_> = strict_object(body, limits)?;
    let Some(reason) = text_of("reason", raw.reason)? else { return Ok(None) };
    let clean: String = reason.chars().filter(|character| !character.is_control()).take(MAX_REASON).collect();
    Ok(Some(clean.trim().to_owned()).filter(|reason| !reason.is_empty()))
}

/// What is to be said in the room.
#[derive(Debug)]
pub(super) struct SendBody {
    pub(super) payload: Box<RawValue>,
    pub(super) destination: FrameDestination,
    /// What it says it replies to.
    pub(super) correlation: Option<EnvelopeId>,
    /// The request it answers, when it is a response.
    pub(super) answers: Option<RpcId>,
}

/// Whom something is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameDestination {
    /// It does not say.
    Open,
    Everybody,
    One(ParticipantId),
}

impl FrameDestination {
    fn read(text: Option<&str>) -> Result<Self, Refusal> {
        match text {
            None => Ok(Self::Open),
            Some("*") => Ok(Self::Everybody),
            Some(id) => ParticipantId::new(id)
                .map(Self::One)
                .map_err(|error| wrong(format!("`destination` names nobody: {error}"))),
        }
    }
}

/// A SEND whose body is JSON.
pub(super) fn send(body: &[u8], header: Option<&str>, limits: &Limits) -> Result<SendBody, Refusal> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Raw<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        payload: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        data: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        metadata: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        destination: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        correlation_id: Option<&'a RawValue>,
    }
    let raw: Raw<'_> = strict_object(body, limits)?;
    let payload = match (raw.payload, raw.data) {
        (Some(payload), None) | (None, Some(payload)) => payload,
        (None, None) => return Err(wrong("`payload` is missing")),
        (Some(_), Some(_)) => return Err(wrong("`payload` and `data` are two names for one thing; use one of them")),
    };
    let metadata = raw.metadata.filter(|metadata| metadata.get() != "{}");
    if metadata.is_some_and(|metadata| !metadata.get().starts_with('{')) {
        return Err(wrong("`metadata` must be an object"));
    }
    let destination = text_of("destination", raw.destination)?;
    let correlation = text_of("correlationId", raw.correlation_id)?.map(EnvelopeId::new).transpose();
    let correlation = correlation.map_err(|error| wrong(format!("`correlationId` is no message's id: {error}")))?;
    let (payload, answers) = translate(payload, metadata)?;
    let destination = FrameDestination::read(destination.as_deref().or(header))?;
    Ok(SendBody { payload, destination, correlation, answers })
}

/// A SEND whose body is bytes.
pub(super) fn send_bytes(body: &[u8], content_type: &str, destination: Option<&str>) -> Result<SendBody, Refusal> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<'a> {
        content_type: &'a str,
        data: String,
        encoding: &'static str,
    }
    let data = Data { content_type, data: BASE64.encode(body), encoding: "base64" };
    let params = parameters(&data);
    Ok(SendBody {
        payload: rpc::notification(DATA_METHOD, Some(&params)),
        destination: FrameDestination::read(destination)?,
        correlation: None,
        answers: None,
    })
}

/// A payload as a message of MCP; and the request it answers, when it is a response.
fn translate(payload: &RawValue, metadata: Option<&RawValue>) -> Result<(Box<RawValue>, Option<RpcId>), Refusal> {
    #[derive(Default, Deserialize)]
    struct Shape<'a> {
        #[serde(borrow, default, deserialize_with = "present")]
        jsonrpc: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        id: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        method: Option<&'a RawValue>,
        #[serde(borrow, default, deserialize_with = "present")]
        text: Option<&'a RawValue>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<'a> {
        content_type: &'static str,
        data: &'a RawValue,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a RawValue>,
    }
    #[derive(Serialize)]
    struct Line<'a> {
        text: &'a RawValue,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a RawValue>,
    }
    let is_object = payload.get().starts_with('{');
    let shape: Shape<'_> =
        if is_object { serde_json::from_str(payload.get()).unwrap_or_default() } else { Shape::default() };
    if shape.jsonrpc.is_some() {
        if metadata.is_some() {
            return Err(wrong("a JSON-RPC payload has its own `_meta`: `metadata` does not go with it"));
        }
        let answers = shape.id.filter(|_| shape.method.is_none()).and_then(|id| RpcId::parse(id.get()));
        return Ok((payload.to_owned(), answers));
    }
    let is_text = |raw: &RawValue| raw.get().starts_with('"');
    let (method, params) = match shape.text {
        _ if is_text(payload) => (CHAT_METHOD, parameters(&Line { text: payload, meta: metadata })),
        Some(text) if is_text(text) => {
            let mut members = salon_protocol::Members::parse(payload.get()).unwrap_or_default();
            if let Some(metadata) = metadata {
                members.set("_meta", metadata);
            }
            (CHAT_METHOD, members.to_raw())
        }
        _ => (DATA_METHOD, parameters(&Data { content_type: "json", data: payload, meta: metadata })),
    };
    Ok((rpc::notification(method, Some(&params)), None))
}

fn parameters(params: &impl Serialize) -> Box<RawValue> {
    to_raw_value(params).expect("parameters have only string keys")
}
