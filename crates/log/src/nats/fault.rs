//! Why NATS did not do something, and what that means for the caller of the log.

use std::error::Error as _;
use std::sync::Arc;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{self, ErrorCode};

use crate::context::WriteError;
use crate::{AppendError, ReadError};

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NatsFault {
    /// Nobody who could do it was reached; whether it was done is not known.
    #[error("{0}")]
    Unavailable(Arc<str>),
    /// There is no such stream or message.
    #[error("NATS has no such stream or message")]
    Missing,
    /// Something else is newest than what was expected.
    #[error("something else came first")]
    Raced,
    /// The server will not.
    #[error("NATS refuses: {0}")]
    Refused(Arc<str>),
    /// What was found makes no sense.
    #[error("{0} is damaged")]
    Damaged(Arc<str>),
}

impl NatsFault {
    pub(super) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::Unavailable(why.to_string().into())
    }
}

impl From<NatsFault> for ReadError {
    fn from(fault: NatsFault) -> Self {
        match fault {
            NatsFault::Unavailable(why) => Self::Unavailable(why),
            other => Self::Failed(other.to_string().into()),
        }
    }
}

impl From<NatsFault> for AppendError {
    fn from(fault: NatsFault) -> Self {
        match fault {
            NatsFault::Unavailable(why) => Self::Unavailable(why),
            // Another time it may be otherwise.
            NatsFault::Missing | NatsFault::Raced => Self::Unavailable(fault.to_string().into()),
            NatsFault::Refused(_) | NatsFault::Damaged(_) => Self::Refused(fault.to_string().into()),
        }
    }
}

impl From<NatsFault> for WriteError {
    fn from(fault: NatsFault) -> Self {
        match fault {
            NatsFault::Unavailable(why) => Self::Unavailable(why),
            // Another time it may be otherwise.
            NatsFault::Missing | NatsFault::Raced => Self::Unavailable(fault.to_string().into()),
            NatsFault::Refused(_) | NatsFault::Damaged(_) => Self::Refused(fault.to_string().into()),
        }
    }
}

impl From<&jetstream::Error> for NatsFault {
    fn from(error: &jetstream::Error) -> Self {
        match error.error_code() {
            ErrorCode::STREAM_NOT_FOUND | ErrorCode::NO_MESSAGE_FOUND => Self::Missing,
            ErrorCode::STREAM_WRONG_LAST_SEQUENCE
            | ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT
            | ErrorCode::STREAM_NAME_EXIST => Self::Raced,
            ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT => Self::unavailable(error),
            // Too few servers to hold all copies are known or up: so it is while a cluster starts.
            ErrorCode::CLUSTER_NO_PEERS => Self::unavailable(error),
            ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED => Self::Refused(error.to_string().into()),
            _ if error.code() >= 500 => Self::unavailable(error),
            _ => Self::Refused(error.to_string().into()),
        }
    }
}

impl From<PublishError> for NatsFault {
    fn from(error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::WrongLastSequence => Self::Raced,
            // Nobody answered: there is no such stream, or nobody leads it now.
            PublishErrorKind::StreamNotFound => Self::Missing,
            PublishErrorKind::MaxPayloadExceeded => Self::Refused(error.to_string().into()),
            _ => match error.source().and_then(|source| source.downcast_ref::<jetstream::Error>()) {
                Some(told) => told.into(),
                None => Self::unavailable(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: u16, number: u64) -> NatsFault {
        let told = format!(r#"{{"code":{code},"err_code":{number},"description":"told"}}"#);
        (&serde_json::from_str::<jetstream::Error>(&told).expect("an error")).into()
    }

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        // A cluster that has just started, and one that elects.
        assert!(matches!(fault(400, 10005), NatsFault::Unavailable(_)));
        assert!(matches!(fault(503, 10008), NatsFault::Unavailable(_)));
        assert_eq!(fault(404, 10059), NatsFault::Missing);
        assert_eq!(fault(400, 10071), NatsFault::Raced);
        assert!(matches!(fault(500, 10074), NatsFault::Refused(_)));
        assert!(matches!(fault(400, 10025), NatsFault::Refused(_)));
    }
}
