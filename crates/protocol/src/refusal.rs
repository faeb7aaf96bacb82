use std::fmt;

use serde::Serialize;

use crate::EnvelopeId;

/// What kind of no it is: the same word in every dialect, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each word is its own description; docs/protocols/mcpx.md tells when each is said")]
pub enum Code {
    InvalidJson,
    InvalidEnvelope,
    UnsupportedProtocol,
    Unauthorized,
    Forbidden,
    FromMismatch,
    ReservedKind,
    RecipientRequired,
    RecipientNotFound,
    CorrelationRequired,
    CorrelationMismatch,
    CallEnded,
    IdConflict,
    InvalidParameters,
    NotFound,
    VersionConflict,
    ToolError,
    TooLarge,
    TooDeep,
    RateLimited,
    Timeout,
    Closing,
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 23] = [
        Self::InvalidJson,
        Self::InvalidEnvelope,
        Self::UnsupportedProtocol,
        Self::Unauthorized,
        Self::Forbidden,
        Self::FromMismatch,
        Self::ReservedKind,
        Self::RecipientRequired,
        Self::RecipientNotFound,
        Self::CorrelationRequired,
        Self::CorrelationMismatch,
        Self::CallEnded,
        Self::IdConflict,
        Self::InvalidParameters,
        Self::NotFound,
        Self::VersionConflict,
        Self::ToolError,
        Self::TooLarge,
        Self::TooDeep,
        Self::RateLimited,
        Self::Timeout,
        Self::Closing,
        Self::Internal,
    ];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::InvalidEnvelope => "invalid_envelope",
            Self::UnsupportedProtocol => "unsupported_protocol",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::FromMismatch => "from_mismatch",
            Self::ReservedKind => "reserved_kind",
            Self::RecipientRequired => "recipient_required",
            Self::RecipientNotFound => "recipient_not_found",
            Self::CorrelationRequired => "correlation_required",
            Self::CorrelationMismatch => "correlation_mismatch",
            Self::CallEnded => "call_ended",
            Self::IdConflict => "id_conflict",
            Self::InvalidParameters => "invalid_parameters",
            Self::NotFound => "not_found",
            Self::VersionConflict => "version_conflict",
            Self::ToolError => "tool_error",
            Self::TooLarge => "too_large",
            Self::TooDeep => "too_deep",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::Closing => "closing",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The room's no: a stable code, a sentence for a person, and what was refused where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable word.
    pub code: Code,
    /// A sentence for a person. It may name ids and limits, never payloads or secrets.
    pub message: String,
    /// The envelope that was refused.
    pub regarding: Option<EnvelopeId>,
}

impl Refusal {
    /// A refusal of something that has no id (yet).
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), regarding: None }
    }

    /// Names the envelope that was refused.
    #[must_use]
    pub fn regarding(mut self, id: Option<EnvelopeId>) -> Self {
        self.regarding = self.regarding.or(id);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refusal {}
