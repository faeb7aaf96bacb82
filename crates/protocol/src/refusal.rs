use std::fmt;

use serde::{Serialize, Serializer};

use crate::{EnvelopeId, ParticipantId};

/// Declares every code once: its name here, its word on the wire, and its meaning in docs/reference/errors.md.
macro_rules! codes {
    ($($(#[doc = $meaning:literal])? $name:ident $word:literal,)*) => {
        /// The kind of a refusal: the same word in every dialect, for ever.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $meaning])? $name,)*
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

            /// When it is sent, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($meaning)?).trim_ascii(),)*
                }
            }
        }
    };
}

codes! {
    /// The text is not JSON, has a key twice, or has a lone surrogate.
    InvalidJson "invalid_json",
    /// A field of the envelope is missing or has the wrong form, the frame is binary, or there are too many recipients.
    InvalidEnvelope "invalid_envelope",
    /// `protocol` is not `mcp-x/v0`.
    UnsupportedProtocol "unsupported_protocol",
    /// There is no token, or it is invalid, expired or revoked.
    Unauthorized "unauthorized",
    /// The token does not allow this: another topic, `Host` or `Origin`, a missing permission, or a request by a participant that is not present.
    Forbidden "forbidden",
    /// The participant is paused in this topic: it can read, and nothing else.
    Paused "paused",
    /// The topic is archived: it can be read, and nothing new is stored.
    Archived "archived",
    /// `from` is not the participant of this connection.
    FromMismatch "from_mismatch",
    /// The kinds `presence` and `system` are the gateway's.
    ReservedKind "reserved_kind",
    /// A request must name exactly one recipient.
    RecipientRequired "recipient_required",
    /// The recipient is not in the room, or left before it answered.
    RecipientNotFound "recipient_not_found",
    /// A response must name its request in `correlation_id`.
    CorrelationRequired "correlation_required",
    /// The response does not belong to an open request: none of that id, somebody else's, with another JSON-RPC id, or answered already.
    CorrelationMismatch "correlation_mismatch",
    /// The call has ended before: its callee left, or too many calls were open.
    CallEnded "call_ended",
    /// The call was held for approval, and denied.
    ApprovalDenied "approval_denied",
    /// The call was held for approval, and nobody decided in time.
    ApprovalExpired "approval_expired",
    /// The id belongs to another envelope of the topic.
    IdConflict "id_conflict",
    /// A parameter, a header or a body is missing or has the wrong form.
    InvalidParameters "invalid_parameters",
    /// What the request names does not exist or is not stored any more.
    NotFound "not_found",
    /// The value has another version than the request expects.
    VersionConflict "version_conflict",
    /// The tool says that it failed.
    ToolError "tool_error",
    /// The message has more bytes than the limit.
    TooLarge "too_large",
    /// The message has more levels of nesting than the limit.
    TooDeep "too_deep",
    /// Too many messages, calls, connections or tickets. The message names the limit.
    RateLimited "rate_limited",
    /// The envelope follows from others by a chain of agents that is longer than the topic allows.
    TooManyHops "too_many_hops",
    /// A quota of stored bytes is used up. The message names the setting.
    StorageFull "storage_full",
    /// There was no answer in time.
    Timeout "timeout",
    /// The gateway is shutting down, or cannot store messages for now. Send the same again later.
    Closing "closing",
    /// The gateway failed, such as to read its log.
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
    /// How the caller is told. The reason is that of the approver who denied a call.
    pub fn refusal(self, callee: &ParticipantId, reason: Option<&str>) -> Refusal {
        match self {
            Self::CalleeLeft => Refusal::new(Code::RecipientNotFound, format!("`{callee}` left before it answered")),
            // Not `rate_limited`: clients send a request again that is refused so, and this one is stored.
            Self::TooManyWaiting => {
                let message = format!("too many calls waited for an answer, so this one to `{callee}` was cancelled");
                Refusal::new(Code::CallEnded, message)
            }
            Self::Denied => {
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                Refusal::new(Code::ApprovalDenied, format!("the call to `{callee}` was not approved{reason}"))
            }
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
