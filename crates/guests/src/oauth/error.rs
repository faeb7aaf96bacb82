//! Why a sign-in or a refresh failed. No variant has a place for a token, a code or a secret.

use std::io;
use std::path::PathBuf;

/// How much of a server's own words is shown.
const MAX_QUOTED_CHARS: usize = 200;

/// Why a sign-in or a refresh failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// The address is not one that OAuth can be used with.
    #[error("`{0}` is not an address of an MCP server over HTTP")]
    Address(String),
    /// Tokens would go over the network in the clear.
    #[error("`{0}` is not https, and tokens are sent in the clear to this machine alone")]
    Insecure(String),
    /// A server on another network names an address that only this network has.
    #[error("the server names `{0}`, which is not an address on its own network; it is not asked")]
    ForeignNetwork(String),
    /// Neither the challenge nor the well-known addresses lead to metadata.
    #[error(
        "the server has no OAuth metadata, so there is no way to sign in; it may want a key, given with `--header`"
    )]
    NoMetadata,
    /// Metadata that cannot be used.
    #[error("{what} cannot be used: {why}")]
    Metadata {
        /// Whose.
        what: &'static str,
        why: String,
    },
    /// The authorization server has no S256, which MCP demands.
    #[error("the authorization server does not offer PKCE with S256, which MCP requires")]
    NoPkce,
    /// The client is unknown there and cannot register.
    #[error(
        "the authorization server registers no clients; register Salon there and give its id with `--oauth-client-id`"
    )]
    NoRegistration,
    /// A client with a secret, and no word on who may have it.
    #[error(
        "a client secret needs `--oauth-issuer`: the server could name any authorization server and get the secret"
    )]
    NoIssuer,
    /// The server names no authorization server that the client was registered with.
    #[error("the server does not name `{0}`, the authorization server of the client; no other gets its id or secret")]
    ForeignClient(String),
    /// The device flow was asked for and is not there.
    #[error("the authorization server offers no device flow")]
    NoDeviceFlow,
    /// The authorization server's own error.
    #[error("the authorization server refuses: {0}")]
    Refused(String),
    /// The tokens, or the client they were given out to, are good no more.
    #[error("the authorization server refuses: {0}")]
    Void(String),
    /// The server refuses a token that was just given out for it.
    #[error("the server refuses the token that its authorization server gave out")]
    TokenRefused,
    /// A refresh with these tokens failed a moment ago, and is not repeated yet.
    #[error("{0}")]
    NotRenewed(String),
    /// The stored tokens are gone.
    #[error("somebody has signed out (`salon logout`)")]
    SignedOut,
    /// The person said no.
    #[error("the sign-in was refused in the browser")]
    Denied,
    /// The answer came from another server than the one that was asked (RFC 9207).
    #[error("the answer is not from the authorization server that was asked")]
    OtherIssuer,
    /// Nobody finished the sign-in.
    #[error("nobody signed in in time")]
    Expired,
    /// An answer that cannot be read.
    #[error("the answer of the authorization server cannot be used: {0}")]
    Answer(String),
    /// No answer.
    #[error("cannot reach `{host}`: {why}")]
    Unreachable {
        /// The host.
        host: String,
        why: String,
    },
    /// No port for the browser to come back to.
    #[error("cannot listen on this machine for the browser's answer: {0}")]
    Listen(io::Error),
    /// The stored tokens cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    Store {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
}

impl AuthorizationError {
    /// Whether the tokens are void, and not the network or the disk to blame.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Void(_) | Self::SignedOut)
    }

    /// Whether it is the answer of a server, as at an address where there is nothing to be found.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Refused(_) | Self::Void(_))
    }

    pub(crate) fn metadata(what: &'static str, why: impl Into<String>) -> Self {
        Self::Metadata { what, why: why.into() }
    }
}

/// A server's words on one line, shortened.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_QUOTED_CHARS).collect()
}
