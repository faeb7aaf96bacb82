//! Why a server could not be reached or understood. No variant has a place for headers, arguments or a URL's query.

use std::io;
use std::time::Duration;

impl UpstreamError {
    /// Whether trying again, with nothing changed, ends the same way: the address, the credentials or the program are wrong.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Start { .. } | Self::Exited(_) | Self::Url(_) | Self::Header(_) => true,
            Self::Unauthorized { .. } | Self::NotMcp(_) => true,
            // 408, 425 and 429 ask for patience.
            Self::Status { status, .. } => (400..500).contains(status) && !matches!(status, 408 | 425 | 429),
            Self::Unreachable(_) | Self::TimedOut(_) | Self::TooManyStreams | Self::Closed => false,
        }
    }
}

/// Why a server could not be reached or understood.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The child could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        source: io::Error,
    },
    /// The child ended before it had answered.
    #[error("it did not answer: {0}")]
    Exited(String),
    /// The address cannot be used.
    #[error("not a usable URL: {0}")]
    Url(String),
    /// A header cannot be sent. Only its name is reported, because its value may be a secret.
    #[error("the header `{0}` cannot be sent: its name or value is not allowed in HTTP")]
    Header(String),
    /// The server wants other credentials.
    #[error("the server refuses us (HTTP {status}): credentials may be missing or wrong")]
    Unauthorized {
        /// 401 or 403.
        status: u16,
    },
    /// The server answered with a status that says nothing about eras.
    #[error("{message}")]
    Status {
        /// The status.
        status: u16,
        /// The status, and the body, shortened.
        message: String,
    },
    /// No connection, or one that broke.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing came in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The answer is not of an MCP revision that is supported.
    #[error("it does not speak MCP: {0}")]
    NotMcp(String),
    /// More standing streams than a connection carries.
    #[error("too many subscriptions are open on this connection already")]
    TooManyStreams,
    /// The connection has ended.
    #[error("the connection has ended")]
    Closed,
}
