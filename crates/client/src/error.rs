//! What can go wrong, each with its cause.

use std::io;
use std::sync::Arc;

use salon_protocol::{Code, Refusal, RpcError};

use crate::TokenError;

/// What a gateway's refusal over HTTP says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HttpRefusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable word, such as `forbidden`; empty when whoever answered was no gateway.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

/// Why a question to the gateway was not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RestError {
    /// There is no token to ask with.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Nobody answers at the address.
    #[error("the gateway at {url} cannot be reached: {why}")]
    Unreachable {
        /// The address.
        url: Arc<str>,
        /// What went wrong.
        why: Arc<io::Error>,
    },
    /// The gateway said no.
    #[error(transparent)]
    Refused(#[from] HttpRefusal),
    /// Whatever answered does not speak as a gateway does.
    #[error("the answer from {url} is not a gateway's: {why}")]
    Unreadable {
        /// The address.
        url: Arc<str>,
        /// What is wrong with it.
        why: Arc<str>,
    },
}

impl RestError {
    /// Whether the same question may succeed later without anybody changing anything.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => matches!(refusal.status, 429 | 500..),
            Self::Token(_) | Self::Unreadable { .. } => false,
        }
    }
}

/// Why a room could not be entered.
pub type JoinError = RestError;

/// How a stay in a room ended for good.
#[derive(Debug, Clone, thiserror::Error)]
pub enum End {
    /// The participant left by itself.
    #[error("the room was left")]
    Left,
    /// A newer connection of the same participant took the seat.
    #[error("a newer connection of this participant took its seat")]
    Replaced,
    /// Coming back was refused.
    #[error("the room cannot be entered again: {0}")]
    Refused(RestError),
    /// The connection was lost, and coming back was not wanted.
    #[error("the connection was lost: {0}")]
    Lost(Arc<str>),
}

/// Why something was not published.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PublishError {
    /// The room said no.
    #[error("{0}")]
    Refused(Refusal),
    /// The stay in the room is over. Whether the envelope was stored is unknown when it had been sent.
    #[error("{0}")]
    Ended(End),
}

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The participant answered with an error.
    #[error("{0}")]
    Answered(RpcError),
    /// The participant is not here, or left before it answered.
    #[error("{0}")]
    Gone(String),
    /// The room said no.
    #[error("{0}")]
    Refused(Refusal),
    /// Nothing was heard in time.
    #[error("no answer in time")]
    TimedOut,
    /// The call was cancelled here.
    #[error("the call was cancelled")]
    Cancelled,
    /// The answer does not have the shape MCP gives it.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// The connection was away for longer than the topic keeps its history, so the answer may have passed by.
    #[error("the answer may have passed by while the connection was lost")]
    Missed,
    /// The stay in the room is over.
    #[error("{0}")]
    Ended(End),
}

impl From<PublishError> for CallError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Refused(refusal) => refusal.into(),
            PublishError::Ended(end) => Self::Ended(end),
        }
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> Self {
        match refusal.code {
            Code::RecipientNotFound => Self::Gone(refusal.message),
            _ => Self::Refused(refusal),
        }
    }
}
