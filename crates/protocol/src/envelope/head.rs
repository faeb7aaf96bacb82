//! The members of an envelope: each is what it must be, or the envelope is refused.

use std::borrow::Cow;
use std::ops::Range;

use super::{Kind, Limits, PROTOCOL};
use crate::scan::{Field, Outline, Shape, string_value, string_values};
use crate::{Code, EnvelopeId, Message, ParticipantId, Refusal, SessionId, Timestamp};

/// The members of an envelope, and where its text has its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EnvelopeHead {
    pub(super) id: EnvelopeId,
    pub(super) from: ParticipantId,
    pub(super) to: Box<[ParticipantId]>,
    pub(super) kind: Kind,
    pub(super) correlation: Option<EnvelopeId>,
    pub(super) from_session: Option<SessionId>,
    pub(super) to_session: Option<SessionId>,
    pub(super) payload: Range<usize>,
    pub(super) params: Option<Range<usize>>,
    pub(super) message: Option<Message>,
    /// Where its text says that it was redacted.
    pub(super) redacted: Option<Range<usize>>,
}

impl EnvelopeHead {
    pub(super) fn read(text: &str, outline: &Outline<'_>, limits: &Limits) -> Result<Self, Refusal> {
        if outline.shape != Some(Shape::Object) {
            return Err(invalid("an envelope must be a JSON object"));
        }
        let fields = EnvelopeFields { text, fields: &outline.envelope };
        if fields.string("protocol")? != PROTOCOL {
            let message = format!("`protocol` must be \"{PROTOCOL}\"");
            return Err(Refusal::new(Code::UnsupportedProtocol, message));
        }
        let id = name(&fields, "id", EnvelopeId::new)?;
        if Timestamp::parse(&fields.string("ts")?).is_none() {
            return Err(invalid("`ts` must be an RFC 3339 date and time, such as 2025-08-17T14:00:00Z"));
        }
        let from = name(&fields, "from", ParticipantId::new)?;
        let to = fields.recipients(limits.recipients)?;
        let kind = match &*fields.string("kind")? {
            "mcp" => Kind::Mcp,
            "presence" => Kind::Presence,
            "system" => Kind::System,
            _ => return Err(invalid("`kind` must be \"mcp\", \"presence\" or \"system\"")),
        };
        let correlation = match fields.find("correlation_id") {
            None => None,
            Some(_) => Some(name(&fields, "correlation_id", EnvelopeId::new)?),
        };
        let from_session = fields.session("from_session");
        let to_session = fields.session("to_session").filter(|_| to.len() == 1);
        let payload = fields.find("payload").ok_or_else(|| invalid("`payload` is missing"))?;
        if payload.shape != Shape::Object {
            return Err(invalid("`payload` must be an object"));
        }
        let message = match kind {
            Kind::Mcp => Some(Message::read(text, &outline.payload)?),
            Kind::Presence | Kind::System => None,
        };
        let params = outline.payload.iter().find(|f| f.key == "params").map(|f| f.value.clone());
        let payload = payload.value.clone();
        let redacted = fields.find("redacted").map(|field| field.value.clone());
        Ok(Self { id, from, to, kind, correlation, from_session, to_session, payload, params, message, redacted })
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidEnvelope, message)
}

fn name<'a, T>(
    fields: &EnvelopeFields<'a>,
    key: &str,
    check: fn(Cow<'a, str>) -> Result<T, crate::InvalidId>,
) -> Result<T, Refusal> {
    check(fields.string(key)?).map_err(|error| invalid(format!("`{key}` is not acceptable: {error}")))
}

struct EnvelopeFields<'a> {
    text: &'a str,
    fields: &'a [Field<'a>],
}

impl<'a> EnvelopeFields<'a> {
    fn find(&self, key: &str) -> Option<&'a Field<'a>> {
        self.fields.iter().find(|f| f.key == key)
    }

    fn string(&self, key: &str) -> Result<Cow<'a, str>, Refusal> {
        let field = self.find(key).ok_or_else(|| invalid(format!("`{key}` is missing")))?;
        string_value(&self.text[field.value.clone()]).ok_or_else(|| invalid(format!("`{key}` must be a string")))
    }

    /// An extension of ours, so it is never a reason to refuse an envelope: what cannot be read as a session names none.
    fn session(&self, key: &str) -> Option<SessionId> {
        let field = self.find(key)?;
        SessionId::new(string_value(&self.text[field.value.clone()])?).ok()
    }

    fn recipients(&self, limit: usize) -> Result<Box<[ParticipantId]>, Refusal> {
        let Some(field) = self.find("to") else { return Ok(Box::default()) };
        let names = string_values(&self.text[field.value.clone()])
            .ok_or_else(|| invalid("`to` must be an array of participant ids"))?;
        if limit > 0 && names.len() > limit {
            return Err(invalid(format!("`to` has {} entries; the limit is {limit}", names.len())));
        }
        names
            .into_iter()
            .map(|name| ParticipantId::new(name).map_err(|error| invalid(format!("`to` names nobody: {error}"))))
            .collect()
    }
}
