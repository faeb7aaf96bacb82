//! Messages as the client says them: read strictly as far as their header, and no further than the parts that have a meaning here.
//!
//! Invariant: a token is taken out of a message while it is read. What is left of the message, and whatever is said about it, does not
//! have it.

use std::fmt;

use salon_protocol::{Code, EnvelopeId, Limits, Members, ParticipantId, Refusal, Timestamp, check_json};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::integrity::{Seal, Terms};

/// The version that is spoken here.
pub(super) const VERSION: &str = "1.0";

/// The destination that is everybody.
pub(super) const EVERYBODY: &str = "*";

/// What the type of an extension begins with.
pub(super) const EXTENSION: &str = "x-";

/// The longest type of an extension, in bytes.
const MAX_TYPE: usize = 64;

/// What sort of message it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request,
    Response,
    Notification,
    Error,
    /// `x-…`: a notification with a type of its own.
    Extension(Box<str>),
}

impl MessageKind {
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Notification => "notification",
            Self::Error => "error",
            Self::Extension(word) => word,
        }
    }

    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "request" => Self::Request,
            "response" => Self::Response,
            "notification" => Self::Notification,
            "error" => Self::Error,
            other if is_extension(other) => Self::Extension(other.into()),
            _ => return None,
        })
    }
}

/// Whether a word is the type of an extension.
pub(super) fn is_extension(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    word.len() <= MAX_TYPE
        && word.strip_prefix(EXTENSION).is_some_and(|name| !name.is_empty() && name.bytes().all(allowed))
}

/// Whom it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MachineDestination {
    One(ParticipantId),
    Everybody,
}

/// A token, which nobody prints.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SecretToken(Box<str>);

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl SecretToken {
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// What a message says of its sender's rights.
#[derive(Debug, Clone, Default)]
pub(super) struct Security {
    pub(super) token: Option<SecretToken>,
    /// What the sender narrows its permissions to.
    pub(super) permissions: Option<Vec<String>>,
}

/// A message of the client's that has been read and checked.
#[derive(Debug, Clone)]
pub struct MachineMessage {
    /// None where an error has none: the source's own errors have no `messageId`.
    pub(super) id: Option<EnvelopeId>,
    pub(super) at: Timestamp,
    pub(super) kind: MessageKind,
    /// The request it belongs to.
    pub(super) request: Option<EnvelopeId>,
    pub(super) destination: Option<MachineDestination>,
    /// Without a token.
    pub(super) payload: Members,
    /// Without the seal.
    pub(super) metadata: Option<Members>,
    pub(super) error: Option<Members>,
    pub(super) security: Security,
    pub(super) seal: Option<Seal>,
}

impl MachineMessage {
    /// Its `messageId`.
    pub fn id(&self) -> Option<&EnvelopeId> {
        self.id.as_ref()
    }
}

/// A message that has been parsed, before it is known who sends it. A text is parsed once, here.
/// It may hold a token, so it cannot be printed.
pub struct UnverifiedMessage {
    text: Box<str>,
    /// Whether it is JSON within the limits.
    checked: Result<(), Refusal>,
    /// Its members but for those below; none where it is no object.
    members: Option<Members>,
    header: ObjectMember,
    payload: ObjectMember,
}

/// A member that should be an object.
enum ObjectMember {
    Missing,
    NotAnObject,
    Object(Members),
}

impl ObjectMember {
    fn take(message: &mut Option<Members>, key: &str) -> Self {
        match message.as_mut().and_then(|message| message.remove(key)) {
            None => Self::Missing,
            Some(raw) => Members::parse(raw.get()).map_or(Self::NotAnObject, Self::Object),
        }
    }

    fn object(&self) -> Option<&Members> {
        match self {
            Self::Object(members) => Some(members),
            Self::Missing | Self::NotAnObject => None,
        }
    }
}

impl UnverifiedMessage {
    /// Parses a text. What is wrong with it [`Self::verify`] says.
    pub fn parse(text: impl Into<Box<str>>, limits: &Limits) -> Self {
        let text = text.into();
        let checked = check_json(&text, limits);
        let mut members = Members::parse(&text);
        // One that is `null` counts as missing.
        let is_null =
            members.as_ref().and_then(|members| members.get("payload")).is_some_and(|raw| raw.get() == "null");
        let header = ObjectMember::take(&mut members, "header");
        let payload = match ObjectMember::take(&mut members, "payload") {
            ObjectMember::NotAnObject if is_null => ObjectMember::Missing,
            payload => payload,
        };
        Self { text, checked, members, header, payload }
    }

    /// The id of the message, if it can be read.
    pub fn id(&self) -> Option<EnvelopeId> {
        read(self.header.object()?.get("messageId")?)
    }

    /// The token in the message, where it can be read that far.
    pub fn token(&self) -> Option<String> {
        let security = self.payload.object()?.get("security")?;
        read(Members::parse(security.get())?.get("token")?)
    }

    /// The message as one of `me`, who is held to those terms. The refusal names the message's id wherever one can be read.
    pub fn verify(self, me: &ParticipantId, terms: Option<&Terms>) -> Result<MachineMessage, Refusal> {
        let id = self.id();
        let Self { text, checked, members, header, payload } = self;
        let message = checked.and_then(|()| interpret(members, header, payload, me));
        let message = message.and_then(|message| {
            terms.map_or(Ok(()), |terms| terms.check(&text, &message))?;
            Ok(message)
        });
        message.map_err(|refusal| refusal.regarding(id))
    }
}

fn interpret(
    members: Option<Members>,
    header: ObjectMember,
    payload: ObjectMember,
    me: &ParticipantId,
) -> Result<MachineMessage, Refusal> {
    let mut message = members.ok_or_else(|| malformed("a message must be a JSON object"))?;
    let header = match header {
        ObjectMember::Object(header) => header,
        ObjectMember::Missing => return Err(malformed("`header` is missing")),
        ObjectMember::NotAnObject => return Err(malformed("`header` must be an object")),
    };
    let kind = text_of(&header, "messageType")?.ok_or_else(|| malformed("`header.messageType` is missing"))?;
    let kind = MessageKind::read(&kind).ok_or_else(|| {
        malformed("`header.messageType` must be request, response, notification or error, or begin with `x-`")
    })?;
    // The source's own errors have only a type, a time and what they answer.
    let may_lack = kind == MessageKind::Error;
    match text_of(&header, "version")? {
        Some(version) if is_supported_version(&version) => {}
        Some(_) => {
            return Err(Refusal::new(
                Code::UnsupportedProtocol,
                format!("`header.version` must be 1.x; {VERSION} is spoken here"),
            ));
        }
        None if may_lack => {}
        None => return Err(malformed("`header.version` is missing")),
    }
    let id = envelope_id(&header, "messageId")?;
    if id.is_none() && !may_lack {
        return Err(malformed("`header.messageId` is missing"));
    }
    let at = text_of(&header, "timestamp")?.ok_or_else(|| malformed("`header.timestamp` is missing"))?;
    let at = Timestamp::parse(&at).ok_or_else(|| {
        malformed("`header.timestamp` must be an ISO 8601 date and time with its zone, such as 2025-08-17T14:00:00Z")
    })?;
    if text_of(&header, "source")?.is_some_and(|source| source != me.as_str()) {
        let told = format!("`header.source` must be \"{me}\", whom this connection belongs to");
        return Err(Refusal::new(Code::FromMismatch, told));
    }
    let destination = match text_of(&header, "destination")? {
        None => None,
        Some(all) if all == EVERYBODY => Some(MachineDestination::Everybody),
        Some(one) => Some(MachineDestination::One(
            ParticipantId::new(one)
                .map_err(|error| malformed(format!("`header.destination` names nobody: {error}")))?,
        )),
    };
    let request = envelope_id(&header, "requestId")?;
    let mut payload = match payload {
        ObjectMember::Object(payload) => payload,
        ObjectMember::Missing => Members::default(),
        ObjectMember::NotAnObject => return Err(malformed("`payload` must be an object")),
    };
    let security = Security::take(&mut payload)?;
    let mut metadata = object(&mut message, "metadata")?;
    let seal = match metadata.as_mut().and_then(|metadata| metadata.remove("integrity")) {
        None => None,
        Some(seal) => Some(Seal::read(&seal)?),
    };
    let metadata = metadata.filter(|metadata| !metadata.is_empty());
    let error = object(&mut message, "error")?;
    Ok(MachineMessage { id, at, kind, request, destination, payload, metadata, error, security, seal })
}

impl Security {
    /// Takes a payload's `security` apart; the token does not stay in it.
    fn take(payload: &mut Members) -> Result<Self, Refusal> {
        let Some(raw) = payload.remove("security") else { return Ok(Self::default()) };
        let mut security = Members::parse(raw.get()).ok_or_else(|| wrong("`payload.security` must be an object"))?;
        let token = match security.remove("token") {
            None => None,
            Some(token) => {
                let token: Result<Box<str>, _> = serde_json::from_str(token.get());
                Some(SecretToken(
                    token.map_err(|_| Refusal::new(Code::Unauthorized, "`payload.security.token` must be a string"))?,
                ))
            }
        };
        let permissions = match security.get("permissions") {
            None => None,
            Some(listed) => {
                let listed: Result<Vec<String>, _> = serde_json::from_str(listed.get());
                Some(listed.map_err(|_| wrong("`payload.security.permissions` must be a list of strings"))?)
            }
        };
        if !security.is_empty() {
            payload.set("security", &security);
        }
        Ok(Self { token, permissions })
    }
}

/// `1.` and a number, and maybe more numbers.
fn is_supported_version(version: &str) -> bool {
    let rest = version.strip_prefix("1.");
    rest.is_some_and(|rest| {
        rest.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

pub(super) fn malformed(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidEnvelope, message)
}

pub(super) fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidParameters, message)
}

pub(super) fn read<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// A string of the header. One that is `null` counts as missing.
fn text_of(header: &Members, key: &str) -> Result<Option<String>, Refusal> {
    let Some(raw) = header.get(key).filter(|raw| raw.get() != "null") else { return Ok(None) };
    read(raw).map(Some).ok_or_else(|| malformed(format!("`header.{key}` must be a string")))
}

fn envelope_id(header: &Members, key: &str) -> Result<Option<EnvelopeId>, Refusal> {
    let Some(id) = text_of(header, key)? else { return Ok(None) };
    let id = EnvelopeId::new(id).map_err(|error| malformed(format!("`header.{key}` is not acceptable: {error}")))?;
    Ok(Some(id))
}

/// A member that is an object where it is there.
fn object(message: &mut Members, key: &str) -> Result<Option<Members>, Refusal> {
    let Some(raw) = message.remove(key).filter(|raw| raw.get() != "null") else { return Ok(None) };
    Members::parse(raw.get()).map(Some).ok_or_else(|| malformed(format!("`{key}` must be an object")))
}
