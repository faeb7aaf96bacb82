use std::fmt;

/// Why the gateway ends a connection. Each dialect writes it in its own format; the WebSocket code is the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer asked to go.
    Bye,
    /// The gateway is shutting down.
    Shutdown,
    /// The token's time is over.
    TokenExpired,
    /// A newer connection of the same participant took the seat.
    Replaced,
    /// The reader fell too far behind, or took no bytes for too long.
    TooSlow,
    /// The peer stopped answering pings.
    Unresponsive,
    /// The peer broke the carrier's own rules.
    ProtocolViolation,
    /// A text frame was not UTF-8.
    NotUtf8,
    /// One frame was beyond what the carrier reads at all.
    FrameTooLarge,
    /// The participant may not be in the topic any more.
    Removed,
    /// The topic was deleted.
    Deleted,
    /// The gateway failed: its log could not be read, or worse.
    Internal,
}

impl CloseReason {
    /// The WebSocket close code.
    pub fn code(self) -> u16 {
        match self {
            Self::Bye => 1000,
            Self::Shutdown => 1001,
            Self::ProtocolViolation => 1002,
            Self::NotUtf8 => 1007,
            Self::FrameTooLarge => 1009,
            Self::Internal => 1011,
            Self::TokenExpired => 4401,
            Self::Removed => 4403,
            Self::Deleted => 4404,
            Self::TooSlow => 4408,
            Self::Replaced => 4409,
            Self::Unresponsive => 4410,
        }
    }

    /// The reason as one word, stable for metrics and the audit trail.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bye => "bye",
            Self::Shutdown => "shutdown",
            Self::ProtocolViolation => "protocol_violation",
            Self::NotUtf8 => "not_utf8",
            Self::FrameTooLarge => "frame_too_large",
            Self::Internal => "internal",
            Self::TokenExpired => "token_expired",
            Self::Removed => "removed",
            Self::Deleted => "deleted",
            Self::TooSlow => "too_slow",
            Self::Replaced => "replaced",
            Self::Unresponsive => "unresponsive",
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "you may not be in this room any more",
            Self::Deleted => "this topic was deleted",
            Self::Bye => "bye",
            Self::Shutdown => "the gateway is shutting down; connect again and resume",
            Self::ProtocolViolation => "the WebSocket protocol was violated",
            Self::NotUtf8 => "a text frame must be UTF-8",
            Self::FrameTooLarge => "the frame is far beyond the message limit",
            Self::Internal => "the gateway failed; connect again and resume",
            Self::TokenExpired => "the token has expired",
            Self::TooSlow => "too slow to read; connect again and resume",
            Self::Replaced => "replaced by a newer connection of this participant",
            Self::Unresponsive => "no answer to pings",
        })
    }
}
