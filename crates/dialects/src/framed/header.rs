//! The header of a request, and the frames that answer one.

use salon_protocol::{Code, Limits, Refusal, Timestamp, check_json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::frame;

/// The only version there is.
pub(super) const VERSION: &str = "MCP/1.0";

/// Levels of nesting in a header or in the body of a CONNECT.
pub(super) const MAX_DEPTH: usize = 64;

/// Characters of a request's id.
const MAX_ID: usize = 64;

/// Characters of a content type.
const MAX_CONTENT_TYPE: usize = 128;

/// The last millisecond that can be written as a date with a year of four digits.
const LAST_MOMENT: u64 = 253_402_300_799_999;

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Connect,
    Send,
    Receive,
    Disconnect,
}

impl Method {
    pub(super) const ALL: [Self; 4] = [Self::Connect, Self::Send, Self::Receive, Self::Disconnect];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::Send => "SEND",
            Self::Receive => "RECEIVE",
            Self::Disconnect => "DISCONNECT",
        }
    }
}

/// Which request an answer is to. Both are empty where they could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Regarding {
    pub(super) id: Box<str>,
    pub(super) method: Box<str>,
}

impl Regarding {
    /// As far as a header, or what stands in its place, can be read.
    pub(super) fn read(header: &[u8]) -> Self {
        let raw = std::str::from_utf8(header).ok().and_then(|text| serde_json::from_str::<Raw<'_>>(text).ok());
        raw.as_ref().map(Self::of).unwrap_or_default()
    }

    fn of(raw: &Raw<'_>) -> Self {
        // What is too long to be an id is not repeated either.
        let short = |word: Option<&RawValue>| {
            word.and_then(string).filter(|word| word.chars().count() <= MAX_ID).unwrap_or_default().into()
        };
        Self { id: short(raw.id), method: short(raw.method) }
    }
}

/// A header as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    content_type: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    destination: Option<&'a RawValue>,
}

/// A member that is there, `null` included.
pub(super) fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

pub(super) fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// Whether JSON is as strict as an envelope's, in the members too that nobody reads; serde passes over those. Gives the code of what is
/// wrong, and no words: they might repeat a part of a token.
pub(super) fn strict(text: &str) -> Result<(), Code> {
    let limits = Limits { message: 0, depth: MAX_DEPTH, ..Limits::default() };
    check_json(text, &limits).map_err(|refusal| refusal.code)
}

/// A header that can be worked with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FramedHeader {
    pub(super) id: Box<str>,
    pub(super) method: Method,
    /// When its sender says it was sent.
    pub(super) timestamp: Option<Timestamp>,
    /// `None` where the body is JSON.
    pub(super) content_type: Option<Box<str>>,
    pub(super) session_id: Option<Box<str>>,
    pub(super) destination: Option<Box<str>>,
}

impl FramedHeader {
    /// Reads a header, and which request an answer is to, whether or not the header can be worked with.
    pub(super) fn read(bytes: &[u8]) -> (Regarding, Result<Self, Refusal>) {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return (Regarding::default(), Err(not_json(&error.to_string()))),
        };
        match serde_json::from_str::<Raw<'_>>(text) {
            Ok(raw) => (Regarding::of(&raw), Self::judge(text, &raw)),
            Err(error) => (Regarding::default(), Err(not_object(text).unwrap_or_else(|| not_json(&error.to_string())))),
        }
    }

    fn judge(text: &str, raw: &Raw<'_>) -> Result<Self, Refusal> {
        if let Some(refusal) = not_object(text) {
            return Err(refusal);
        }
        strict(text).map_err(|code| match code {
            Code::TooDeep => Refusal::new(code, format!("the header is nested deeper than {MAX_DEPTH} levels")),
            _ => not_json("a key stands twice in it, or a string is broken"),
        })?;
        let id = raw.id.and_then(string).filter(|id| is_word(id, MAX_ID)).ok_or_else(|| {
            invalid(format!("`id` must be a string of 1 to {MAX_ID} characters without control characters"))
        })?;
        if raw.version.and_then(string).as_deref() != Some(VERSION) {
            return Err(Refusal::new(Code::UnsupportedProtocol, format!("`version` must be \"{VERSION}\"")));
        }
        let method = raw.method.and_then(string).ok_or_else(|| invalid("`method` must be a string"))?;
        let method = Method::ALL.into_iter().find(|known| known.word() == method);
        let method = method.ok_or_else(|| {
            Refusal::new(Code::NotFound, "`method` must be CONNECT, SEND, RECEIVE or DISCONNECT, in capitals")
        })?;
        let timestamp = raw.timestamp.map(moment).transpose()?;
        let content_type = match raw.content_type {
            None => None,
            Some(raw) => content_type(raw)?,
        };
        if content_type.is_some() && method != Method::Send {
            return Err(invalid(format!(
                "`contentType` must be \"json\": only SEND has other bodies, not {}",
                method.word()
            )));
        }
        let text = |name: &str, raw: Option<&RawValue>| match raw {
            None => Ok(None),
            Some(raw) => string(raw)
                .map(|text| Some(text.into_boxed_str()))
                .ok_or_else(|| invalid(format!("`{name}` must be a string"))),
        };
        Ok(Self {
            id: id.into(),
            method,
            timestamp,
            content_type,
            session_id: text("sessionId", raw.session_id)?,
            destination: text("destination", raw.destination)?,
        })
    }
}

fn not_json(why: &str) -> Refusal {
    Refusal::new(Code::InvalidJson, format!("the header is not a JSON object: {why}"))
}

/// An array would be read as the members in their order.
fn not_object(text: &str) -> Option<Refusal> {
    (!text.trim_start().starts_with('{')).then(|| not_json("it does not begin with `{`"))
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidEnvelope, message)
}

fn is_word(text: &str, most: usize) -> bool {
    !text.is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control)
}

fn moment(raw: &RawValue) -> Result<Timestamp, Refusal> {
    let wrong = || invalid("`timestamp` must be a number of milliseconds since 1970");
    let whole = serde_json::from_str::<u64>(raw.get()).ok().or_else(|| {
        let number = serde_json::from_str::<f64>(raw.get()).ok()?;
        (number >= 0.0 && number <= LAST_MOMENT as f64).then_some(number as u64)
    });
    whole.filter(|&millis| millis <= LAST_MOMENT).map(Timestamp).ok_or_else(wrong)
}

/// `None` is JSON.
fn content_type(raw: &RawValue) -> Result<Option<Box<str>>, Refusal> {
    let text = string(raw).filter(|text| is_word(text, MAX_CONTENT_TYPE));
    let text = text.ok_or_else(|| {
        invalid(format!("`contentType` must be a string of 1 to {MAX_CONTENT_TYPE} characters, such as \"json\""))
    })?;
    let essence = text.split(';').next().unwrap_or_default().trim();
    let json = ["json", "application/json"].iter().any(|known| essence.eq_ignore_ascii_case(known));
    Ok((!json).then(|| text.into()))
}

/// The code of an answer to what was refused.
pub(super) fn status(code: Code) -> u16 {
    match code {
        Code::InvalidJson
        | Code::InvalidEnvelope
        | Code::UnsupportedProtocol
        | Code::RecipientRequired
        | Code::RecipientNotFound
        | Code::CorrelationRequired
        | Code::CorrelationMismatch
        | Code::CallEnded
        | Code::ApprovalExpired
        | Code::IdConflict
        | Code::InvalidParameters
        | Code::NotFound
        | Code::VersionConflict
        | Code::ToolError
        | Code::TooLarge
        | Code::TooDeep => 400,
        Code::Unauthorized => 401,
        Code::Forbidden
        | Code::Paused
        | Code::Archived
        | Code::ApprovalDenied
        | Code::TooManyHops
        | Code::FromMismatch
        | Code::ReservedKind => 403,
        Code::Timeout => 408,
        // The source has eight codes, and none for this.
        Code::RateLimited | Code::StorageFull => 429,
        Code::Internal => 500,
        Code::Closing => 503,
    }
}

/// An answer.
pub(super) fn answer(to: &Regarding, code: u16, body: &impl Serialize, at: Timestamp) -> Box<[u8]> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer<'a> {
        id: &'a str,
        method: &'a str,
        version: &'static str,
        timestamp: u64,
        content_type: &'static str,
        code: u16,
    }
    let header =
        Answer { id: &to.id, method: &to.method, version: VERSION, timestamp: at.0, content_type: "json", code };
    let header = serde_json::to_vec(&header).expect("a header has only string keys");
    frame::encode(&header, &serde_json::to_vec(body).expect("a body has only string keys"))
}

/// A refusal. `word` is the `status` that the answer names.
pub(super) fn refuse(to: &Regarding, word: &'static str, refusal: &Refusal, at: Timestamp) -> Box<[u8]> {
    #[derive(Serialize)]
    struct ErrorReply<'a> {
        status: &'static str,
        code: Code,
        message: &'a str,
    }
    let body = ErrorReply { status: word, code: refusal.code, message: &refusal.message };
    answer(to, status(refusal.code), &body, at)
}
