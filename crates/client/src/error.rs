//! What can go wrong, each with its cause.
//!
//! An error's text is a whole sentence, its cause included. [`source`](std::error::Error::source) hands out that cause for programs; printing the
//! chain of sources therefore repeats some things. [`ErrorKind`] is what the error types have in common.

use std::error::Error;
use std::io;
use std::sync::Arc;

use salon_protocol::{Code, Refusal, RpcError};

use crate::TokenError;

/// What kind of failure it was: enough to decide whether to try again, to get another token, or to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no token, or the gateway does not accept it.
    Unauthorized,
    /// The gateway cannot be reached, or the answer was lost with the connection.
    Unreachable,
    /// The gateway or the room refused.
    Refused,
    /// The other participant is not here, or left.
    Absent,
    /// The other participant answered with an error.
    Answered,
    /// An answer is not one of the protocol.
    Malformed,
    /// There was no answer in time.
    TimedOut,
    /// It was cancelled here.
    Cancelled,
    /// The stay in the room is over.
    Ended,
    /// What was to be sent cannot be written as JSON.
    Invalid,
}

/// A gateway's refusal over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct HttpRefusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable word, such as `forbidden`; empty when the answer is not a gateway's.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

impl HttpRefusal {
    fn kind(&self) -> ErrorKind {
        if self.status == 401 { ErrorKind::Unauthorized } else { ErrorKind::Refused }
    }
}

/// Why a question to the gateway was not answered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RestError {
    /// There is no token to ask with.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Nobody answers at the address.
    #[error("the gateway at {url} cannot be reached: {source}")]
    Unreachable {
        /// The address.
        url: Arc<str>,
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// The gateway refused.
    #[error(transparent)]
    Refused(#[from] HttpRefusal),
    /// Whatever answered does not speak as a gateway does.
    #[error("the answer from {url} is not a gateway's: {source}")]
    Unreadable {
        /// The address.
        url: Arc<str>,
        /// What is wrong with it.
        source: ReplyError,
    },
}

impl RestError {
    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Token(_) => ErrorKind::Unauthorized,
            Self::Unreachable { source, .. } if source.kind() == io::ErrorKind::TimedOut => ErrorKind::TimedOut,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::Refused(refusal) => refusal.kind(),
            Self::Unreadable { .. } => ErrorKind::Malformed,
        }
    }

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

/// Why an answer is not a gateway's.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// It is not the JSON that was expected.
    #[error("{0}")]
    Json(#[source] Arc<serde_json::Error>),
    /// It contains an envelope that is not valid.
    #[error("{0}")]
    Envelope(#[source] Refusal),
    /// It breaks the rules of HTTP or of WebSocket.
    #[error("{0}")]
    Transport(#[source] Arc<dyn Error + Send + Sync>),
    /// A connection to a room did not begin with a welcome.
    #[error("the first frame was not a welcome")]
    NoWelcome,
    /// What was asked for as an event stream is something else.
    #[error("it is not an event stream")]
    NoEventStream,
}

impl ReplyError {
    pub(crate) fn transport(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Transport(Arc::new(error))
    }
}

impl From<serde_json::Error> for ReplyError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(Arc::new(error))
    }
}

impl From<Refusal> for ReplyError {
    fn from(refusal: Refusal) -> Self {
        Self::Envelope(refusal)
    }
}

/// Why a connection to a room was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LostConnection {
    /// The gateway closed it.
    #[error("{reason}")]
    Closed {
        /// The WebSocket close code, where there was one.
        code: Option<u16>,
        /// The gateway's reason, for people.
        reason: Arc<str>,
    },
    /// It ended without a word.
    #[error("the connection has ended")]
    EndOfStream,
    /// The gateway gave no sign of life.
    #[error("no sign of the gateway")]
    Silent,
    /// Reading or writing failed.
    #[error("{0}")]
    Transport(#[source] Arc<dyn Error + Send + Sync>),
    /// An attempt to come back failed.
    #[error(transparent)]
    Reconnect(RestError),
}

impl LostConnection {
    pub(crate) fn transport(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Transport(Arc::new(error))
    }
}

/// How a stay in a room ended for good.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum End {
    /// The participant left by itself.
    #[error("the room was left")]
    Left,
    /// A newer connection of the same participant took the seat.
    #[error("a newer connection of this participant took its seat")]
    Replaced,
    /// The topic was deleted.
    #[error("the topic was deleted")]
    Deleted,
    /// Coming back was refused.
    #[error("the room cannot be entered again: {0}")]
    Refused(#[source] RestError),
    /// The connection was lost, and coming back was not wanted.
    #[error("the connection was lost: {0}")]
    Lost(#[source] LostConnection),
}

/// Why something was not published.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The room refused it.
    #[error(transparent)]
    Refused(Refusal),
    /// The stay in the room is over. Whether the envelope was stored is unknown when it had been sent.
    #[error(transparent)]
    Ended(End),
}

impl PublishError {
    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(refusal) if refusal.code == Code::RecipientNotFound => ErrorKind::Absent,
            Self::Refused(_) => ErrorKind::Refused,
            Self::Ended(_) => ErrorKind::Ended,
        }
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The participant answered with an error.
    #[error(transparent)]
    Answered(RpcError),
    /// The participant is not here, or left before it answered.
    #[error("{}", .0.message)]
    Gone(Refusal),
    /// The room refused the request.
    #[error(transparent)]
    Refused(Refusal),
    /// No answer came in time.
    #[error("no answer in time")]
    TimedOut,
    /// The call was cancelled here.
    #[error("the call was cancelled")]
    Cancelled,
    /// The arguments cannot be written as JSON, so nothing was sent.
    #[error("the arguments cannot be written as JSON: {0}")]
    InvalidArguments(#[source] Arc<serde_json::Error>),
    /// The participant asked something before it would answer, and this participant did not answer that.
    #[error("the participant asked for `{method}`, which was not answered: {error}")]
    NoInput {
        /// What was asked.
        method: String,
        /// The error of this participant's service.
        #[source]
        error: RpcError,
    },
    /// The answer does not have the shape MCP gives it.
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[from] ResultError),
    /// The connection was away for longer than the topic keeps its history, so the answer may have passed by.
    #[error("the answer may have passed by while the connection was lost")]
    Missed,
    /// The stay in the room is over.
    #[error(transparent)]
    Ended(End),
}

impl CallError {
    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Answered(_) => ErrorKind::Answered,
            Self::Gone(_) => ErrorKind::Absent,
            Self::Refused(_) => ErrorKind::Refused,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::InvalidArguments(_) => ErrorKind::Invalid,
            Self::NoInput { .. } => ErrorKind::Refused,
            Self::Unreadable(_) => ErrorKind::Malformed,
            Self::Missed => ErrorKind::Unreachable,
            Self::Ended(_) => ErrorKind::Ended,
        }
    }

    pub(crate) fn invalid_arguments(error: serde_json::Error) -> Self {
        Self::InvalidArguments(Arc::new(error))
    }
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
            Code::RecipientNotFound => Self::Gone(refusal),
            _ => Self::Refused(refusal),
        }
    }
}

/// What is wrong with a participant's answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// It is not the JSON that was expected.
    #[error("{0}")]
    Json(#[source] Arc<serde_json::Error>),
    /// It is something else than an object.
    #[error("it is not an object")]
    NotAnObject,
    /// It is not a JSON-RPC response.
    #[error("it has neither a result nor an error")]
    NoOutcome,
    /// A member that MCP requires is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A list has more pages, items or bytes than are read, or its cursor leads to itself.
    #[error("the answer to `{0}` does not end")]
    Endless(String),
    /// It asks for input again and again, or for very much at once.
    #[error("the answer to `{0}` asks for too much input")]
    TooMuchInput(String),
    /// A subscription was answered before it was acknowledged.
    #[error("it ended the subscription at once")]
    NotSubscribed,
}

impl From<serde_json::Error> for ResultError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(error: &dyn Error) -> Vec<String> {
        let mut texts = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            texts.push(cause.to_string());
            next = cause.source();
        }
        texts
    }

    #[test]
    fn every_cause_can_be_had() {
        let io = || Arc::new(io::Error::other("refused by the kernel"));
        let url: Arc<str> = "http://x".into();
        let unreachable = RestError::Unreachable { url: url.clone(), source: io() };
        assert_eq!(
            chain(&CallError::from(PublishError::Ended(End::Refused(unreachable)))),
            [
                "the room cannot be entered again: the gateway at http://x cannot be reached: refused by the kernel",
                "the gateway at http://x cannot be reached: refused by the kernel",
                "refused by the kernel",
            ]
        );
        let broken = serde_json::from_str::<u8>("x").expect_err("it is no number");
        assert_eq!(chain(&CallError::Unreadable(broken.into())).len(), 3);
        let broken = serde_json::from_str::<u8>("x").expect_err("it is no number");
        assert_eq!(chain(&RestError::Unreadable { url, source: broken.into() }).len(), 3);
        assert_eq!(
            chain(&End::Lost(LostConnection::transport(io::Error::other("cut")))),
            ["the connection was lost: cut", "cut", "cut"]
        );
    }

    #[test]
    fn kinds_are_told_apart() {
        let gone = PublishError::Refused(Refusal::new(Code::RecipientNotFound, "nobody"));
        assert_eq!((gone.kind(), gone.to_string()), (ErrorKind::Absent, "recipient_not_found: nobody".into()));
        let gone = CallError::from(gone);
        assert_eq!((gone.kind(), gone.to_string()), (ErrorKind::Absent, "nobody".into()));
        let refused = |status| RestError::Refused(HttpRefusal { status, code: String::new(), message: String::new() });
        assert_eq!((refused(401).kind(), refused(403).kind()), (ErrorKind::Unauthorized, ErrorKind::Refused));
    }
}
