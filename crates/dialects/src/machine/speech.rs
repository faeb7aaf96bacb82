//! Messages as the client is sent them.

use salon_mcp::meta;
use salon_protocol::{Code, EnvelopeId, Members, ParticipantId, Refusal, Timestamp};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::message::{EVERYBODY, VERSION};
use crate::tool_result::{only_text, take_own_result};

/// A message to be said.
#[derive(Serialize)]
pub(super) struct OutgoingMessage<'a> {
    pub(super) header: MachineHeader<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Members>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<MachineFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineHeader<'a> {
    pub(super) version: &'static str,
    pub(super) message_id: &'a str,
    pub(super) timestamp: Timestamp,
    pub(super) message_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_id: Option<&'a str>,
    pub(super) source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) destination: Option<&'a str>,
}

/// Why something failed, as the source has it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct MachineFailure {
    pub(super) code: Code,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Box<RawValue>>,
}

/// The text that stands for an empty one.
const WORDLESS: &str = "the tool failed";

impl MachineFailure {
    /// What the content of a result says of it.
    fn words(&self) -> &str {
        if self.message.is_empty() { WORDLESS } else { &self.message }
    }
}

impl From<&Refusal> for MachineFailure {
    fn from(refusal: &Refusal) -> Self {
        Self { code: refusal.code, message: refusal.message.clone(), details: None }
    }
}

impl<'a> OutgoingMessage<'a> {
    /// A message of a type, from somebody to `me` or everybody.
    pub(super) fn new(
        kind: &'a str,
        id: &'a str,
        at: Timestamp,
        from: &'a ParticipantId,
        to: Option<&'a ParticipantId>,
    ) -> Self {
        let header = MachineHeader {
            version: VERSION,
            message_id: id,
            timestamp: at,
            message_type: kind,
            request_id: None,
            source: from.as_str(),
            destination: Some(to.map_or(EVERYBODY, ParticipantId::as_str)),
        };
        Self { header, payload: None, error: None, metadata: None }
    }

    pub(super) fn about(mut self, request: &'a str) -> Self {
        self.header.request_id = Some(request);
        self
    }

    /// With one member in its payload.
    pub(super) fn with(mut self, key: &str, value: &(impl Serialize + ?Sized)) -> Self {
        self.payload.get_or_insert_default().set(key, value);
        self
    }

    pub(super) fn with_context(self, context: Option<Box<RawValue>>) -> Self {
        match context {
            Some(context) => self.with("context", &context),
            None => self,
        }
    }

    pub(super) fn with_metadata(mut self, metadata: Option<Box<RawValue>>) -> Self {
        self.metadata = metadata;
        self
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("a message has only string keys")
    }
}

/// A refusal as an error message, from the gateway to its recipient, where that is known.
pub fn error_text(refusal: &Refusal, id: &str, at: Timestamp, to: Option<&ParticipantId>) -> String {
    let gateway = ParticipantId::host();
    let mut message = OutgoingMessage::new("error", id, at, &gateway, to);
    message.header.destination = to.map(ParticipantId::as_str);
    message.header.request_id = refusal.regarding.as_ref().map(EnvelopeId::as_str);
    message.error = Some(MachineFailure::from(refusal));
    message.text()
}

/// The status of an answer that is this refusal, where the message came by a POST.
pub fn status(code: Code) -> u16 {
    match code {
        Code::Unauthorized => 401,
        Code::Forbidden
        | Code::Paused
        | Code::Archived
        | Code::ApprovalDenied
        | Code::FromMismatch
        | Code::ReservedKind => 403,
        Code::NotFound | Code::RecipientNotFound => 404,
        Code::IdConflict | Code::VersionConflict | Code::CorrelationMismatch | Code::CallEnded | Code::TooManyHops => {
            409
        }
        Code::TooLarge => 413,
        Code::RateLimited => 429,
        Code::Internal => 500,
        Code::Closing => 503,
        Code::Timeout | Code::ApprovalExpired => 504,
        Code::StorageFull => 507,
        Code::InvalidJson
        | Code::InvalidEnvelope
        | Code::UnsupportedProtocol
        | Code::RecipientRequired
        | Code::CorrelationRequired
        | Code::InvalidParameters
        | Code::ToolError
        | Code::TooDeep => 400,
    }
}

/// What a tool answered, as far as it means something here.
#[derive(Debug, Default)]
pub(super) struct ToolReply {
    pub(super) result: Option<Box<RawValue>>,
    pub(super) context: Option<Box<RawValue>>,
    pub(super) metadata: Option<Box<RawValue>>,
}

/// Reads the result of `tools/call`: what came of it, or why it failed.
pub(super) fn read_result(raw: &RawValue) -> (ToolReply, Option<MachineFailure>) {
    let mut result = Members::parse(raw.get()).unwrap_or_default();
    let mut own = result.remove("_meta").and_then(|meta| Members::parse(meta.get())).unwrap_or_default();
    let mut answered = ToolReply { context: own.remove("context"), metadata: own.remove("metadata"), result: None };
    if salon_mcp::input::is_input_required(&result) {
        let message = "the tool asks its caller something, which this protocol has no way to answer".to_owned();
        return (answered, Some(MachineFailure { code: Code::ToolError, message, details: None }));
    }
    let texts = only_text(result.get("content"));
    // What stands beside the content says the same, or it does not count: nobody is shown another result than all others.
    let is_said = |told: &str| texts.as_deref() == Some(told);
    let structured = result.remove("structuredContent").filter(|content| content.get() != "null");
    let failed = result.get("isError").is_some_and(|failed| failed.get() == "true");
    if failed {
        let told = own.remove(meta::ERROR).and_then(|error| read_failure(&error));
        let told = told.filter(|failure| is_said(failure.words()));
        let worded = || structured.as_deref().and_then(read_worded);
        let content = || result.get("content").filter(|_| texts.is_none()).map(ToOwned::to_owned);
        let message = || texts.clone().unwrap_or_else(|| WORDLESS.to_owned());
        let plain = || MachineFailure {
            code: Code::ToolError,
            message: message(),
            details: structured.clone().or_else(content),
        };
        return (answered, Some(told.or_else(worded).unwrap_or_else(plain)));
    }
    let kept = take_own_result(&mut own, texts.as_deref());
    let text = || texts.as_ref().and_then(|text| to_raw_value(text).ok());
    answered.result = kept
        .or(structured)
        .or_else(text)
        .or_else(|| result.remove("content"))
        .or_else(|| to_raw_value(&serde_json::Value::Null).ok());
    (answered, None)
}

/// An error as a participant of this protocol said it. A word that is no refusal's counts as a tool's failure.
pub(super) fn read_failure(raw: &RawValue) -> Option<MachineFailure> {
    let mut error = Members::parse(raw.get())?;
    let word: Option<String> = error.get("code").and_then(|code| serde_json::from_str(code.get()).ok());
    let message = error.get("message").and_then(|message| serde_json::from_str(message.get()).ok());
    let code = word.as_deref().and_then(code_of).unwrap_or(Code::ToolError);
    Some(MachineFailure { code, message: message.unwrap_or_default(), details: error.remove("details") })
}

/// A failure that says in its structured content which refusal it is, as the gateway's own tools do.
fn read_worded(structured: &RawValue) -> Option<MachineFailure> {
    let mut members = Members::parse(structured.get())?;
    let text = |raw: Box<RawValue>| serde_json::from_str::<String>(raw.get()).ok();
    let code = members.remove("code").and_then(text).as_deref().and_then(code_of)?;
    let message = members.remove("message").and_then(text).unwrap_or_default();
    let details = (!members.is_empty()).then(|| members.to_raw());
    Some(MachineFailure { code, message, details })
}

pub(super) fn code_of(word: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.word() == word)
}

/// What a participant of this protocol answered, as the result of `tools/call`.
pub(super) fn write_result(
    result: Option<&RawValue>,
    context: Option<&RawValue>,
    metadata: Option<&Members>,
) -> Box<RawValue> {
    let (mut answer, mut own) = (Members::default(), Members::default());
    let text =
        result.map(|result| serde_json::from_str::<String>(result.get()).unwrap_or_else(|_| result.get().to_owned()));
    let content: Vec<_> = text.iter().map(|text| serde_json::json!({ "type": "text", "text": text })).collect();
    answer.set("content", &content);
    match result {
        Some(object) if object.get().starts_with('{') => answer.set("structuredContent", object),
        // A text is in the content alone; other values would come out as texts of it.
        Some(other) if !other.get().starts_with('"') => own.set(meta::RESULT, other),
        _ => {}
    }
    finish(answer, own, context, metadata)
}

/// The failure a participant of this protocol answered with, as the result of `tools/call`.
pub(super) fn write_failure(error: &Members, context: Option<&RawValue>, metadata: Option<&Members>) -> Box<RawValue> {
    let (mut answer, mut own) = (Members::default(), Members::default());
    let text: Option<String> = error.get("message").and_then(|message| serde_json::from_str(message.get()).ok());
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| WORDLESS.to_owned());
    answer.set("content", &[serde_json::json!({ "type": "text", "text": text })]);
    answer.set("isError", &true);
    own.set(meta::ERROR, error);
    finish(answer, own, context, metadata)
}

fn finish(
    mut answer: Members,
    mut own: Members,
    context: Option<&RawValue>,
    metadata: Option<&Members>,
) -> Box<RawValue> {
    if let Some(context) = context {
        own.set("context", context);
    }
    if let Some(metadata) = metadata {
        own.set("metadata", metadata);
    }
    if !own.is_empty() {
        answer.set("_meta", &own);
    }
    answer.to_raw()
}
