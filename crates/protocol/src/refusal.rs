use std::fmt;

use serde::{Serialize, Serializer};

use crate::{EnvelopeId, ParticipantId};

/// Declares every code once: its name here and its word on the wire.
macro_rules! codes {
    ($($name:ident $word:literal,)*) => {
        /// The kind of a refusal: the same word in every dialect, for ever.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each word is its own description; docs/protocols/mcpx.md tells when each is sent")]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// The word on the wire.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

codes! {
    InvalidJson "invalid_json",
    InvalidEnvelope "invalid_envelope",
    UnsupportedProtocol "unsupported_protocol",
    Unauthorized "unauthorized",
    Forbidden "forbidden",
    Paused "paused",
    Archived "archived",
    FromMismatch "from_mismatch",
    ReservedKind "reserved_kind",
    RecipientRequired "recipient_required",
    RecipientNotFound "recipient_not_found",
    CorrelationRequired "correlation_required",
    CorrelationMismatch "correlation_mismatch",
    CallEnded "call_ended",
    ApprovalDenied "approval_denied",
    ApprovalExpired "approval_expired",
    IdConflict "id_conflict",
    InvalidParameters "invalid_parameters",
    NotFound "not_found",
    VersionConflict "version_conflict",
    ToolError "tool_error",
    TooLarge "too_large",
    TooDeep "too_deep",
    RateLimited "rate_limited",
    StorageFull "storage_full",
    Timeout "timeout",
    Closing "closing",
    Internal "internal",
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The room's refusal: a stable code, a sentence for a person, and what was refused where that is known.
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

/// Why a call failed: it will never be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureCause {
    /// The callee left, or started over without having seen the request.
    CalleeLeft,
    /// Too many calls waited for an answer, and this was the oldest of its caller.
    TooManyWaiting,
    /// The call was held for approval, and denied.
    Denied,
    /// The call was held for approval, and nobody decided in time.
    Expired,
    /// The call was held for approval, and was cancelled or could not be stored.
    Withdrawn,
    /// The caller was paused or removed.
    Stopped,
}

impl FailureCause {
    /// How the caller is told.
    pub fn refusal(self, callee: &ParticipantId) -> Refusal {
        match self {
            Self::CalleeLeft => Refusal::new(Code::RecipientNotFound, format!("`{callee}` left before it answered")),
            // Not `rate_limited`: clients send a request again that is refused so, and this one is stored.
            Self::TooManyWaiting => {
                let message = format!("too many calls waited for an answer, so this one to `{callee}` was cancelled");
                Refusal::new(Code::CallEnded, message)
            }
            Self::Denied => Refusal::new(Code::ApprovalDenied, format!("the call to `{callee}` was not approved")),
            Self::Expired => {
                Refusal::new(Code::ApprovalExpired, format!("nobody approved the call to `{callee}` in time"))
            }
            Self::Withdrawn => Refusal::new(
                Code::CallEnded,
                format!("the call to `{callee}`, which was held for approval, was cancelled or could not be stored"),
            ),
            Self::Stopped => Refusal::new(
                Code::CallEnded,
                format!("the call to `{callee}` was stopped: its caller was paused or removed"),
            ),
        }
    }
}
