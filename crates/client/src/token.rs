//! Where tokens come from.
//!
//! A token is asked for whenever a connection or a request needs one, so whatever hands them out may hand out a new one each time.
//! Deliberately absent: verifying. Only the gateway can say whether a token is good; a provider is notified when one was refused.

mod claims;
#[cfg(feature = "process")]
mod command;
mod file;
mod refreshing;

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

#[cfg(feature = "process")]
pub use command::TokenCommand;
pub use file::TokenFile;
pub use refreshing::Refreshing;

/// The longest token that is taken from a file or a program. Headers longer than this are refused by most servers anyway.
const MAX_TOKEN: usize = 64 * 1024;

/// Hands out tokens.
///
/// Implemented by [`StaticToken`], [`TokenFile`], [`Refreshing`] and, with the feature `process`, `TokenCommand`; an own implementation is needed only for what
/// none of them covers.
pub trait TokenProvider: Send + Sync + 'static {
    /// A token to use now. `refresh` says that the last one was refused, so giving the same again is pointless.
    fn token(&self, refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>>;
}

impl<P: TokenProvider + ?Sized> TokenProvider for Arc<P> {
    fn token(&self, refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        (**self).token(refresh)
    }
}

impl<P: TokenProvider + ?Sized> TokenProvider for Box<P> {
    fn token(&self, refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        (**self).token(refresh)
    }
}

/// A token. Neither `Debug` nor anything else here prints it; [`expose`](Token::expose) is the one way to its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    /// The token itself, for a header.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Reads what a file or a program gave: one line of text, the white space around it left out.
    fn read(bytes: &[u8]) -> Result<Self, InvalidToken> {
        if bytes.len() > MAX_TOKEN {
            return Err(InvalidToken::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| InvalidToken::NotUtf8)?.trim();
        if text.is_empty() {
            return Err(InvalidToken::Empty);
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(InvalidToken::SeveralWords);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Why something is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidToken {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is longer than any token.
    #[error("it is longer than 64 KiB")]
    TooLong,
    /// It is no text.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// It has white space or control characters within.
    #[error("it is more than one word")]
    SeveralWords,
}

/// Why there is no token.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file could not be read.
    #[error("the token file {} cannot be read: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The file has something else in it.
    #[error("the token file {} has no token: {source}", path.display())]
    NotInFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong with its content.
        source: InvalidToken,
    },
    /// The program could not be started, or talking to it failed.
    #[error("the token command {program:?} cannot be run: {source}")]
    Command {
        /// Which program.
        program: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The program did not end in time.
    #[error("the token command {program:?} gave no token within {} s", after.as_secs())]
    CommandTimedOut {
        /// Which program.
        program: String,
        /// How long it was given.
        after: Duration,
    },
    /// The program failed.
    #[error("the token command {program:?} failed ({status}){}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    CommandFailed {
        /// Which program.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of what it wrote to its standard error. Its standard output is never shown: it may be the token.
        stderr: String,
    },
    /// The program wrote something else.
    #[error("the token command {program:?} wrote no token: {source}")]
    NotFromCommand {
        /// Which program.
        program: String,
        /// What is wrong with what it wrote.
        source: InvalidToken,
    },
    /// The error of a provider of your own.
    #[error("{0}")]
    Provider(#[source] Arc<dyn Error + Send + Sync>),
}

impl TokenError {
    /// The error of a provider of one's own. The text is shown to people, so it must not have the token in it.
    pub fn provider(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Provider(Arc::from(why.into()))
    }
}

/// The same token always.
///
/// ```
/// use salon_client::StaticToken;
///
/// let token = StaticToken::new("eyJhbGciOi…");
/// assert_eq!(format!("{token:?}"), "StaticToken(Token(…))");
/// ```
#[derive(Debug, Clone)]
pub struct StaticToken(Token);

impl StaticToken {
    /// Keeps a token.
    pub fn new(token: impl Into<Token>) -> Self {
        Self(token.into())
    }
}

impl TokenProvider for StaticToken {
    fn token(&self, _refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        ready(Ok(self.0.clone())).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_shows_itself() {
        let token = Token::from("secret");
        assert_eq!(format!("{token:?} {:?}", StaticToken::new(token.clone())), "Token(…) StaticToken(Token(…))");
        assert_eq!(token.expose(), "secret");
    }

    #[test]
    fn one_word_is_a_token() {
        assert_eq!(Token::read(b" a.b.c\r\n").map(|t| t.expose().to_owned()), Ok("a.b.c".into()));
        assert_eq!(Token::read(b" \n"), Err(InvalidToken::Empty));
        assert_eq!(Token::read(b"a\nb"), Err(InvalidToken::SeveralWords));
        assert_eq!(Token::read(b"\xff"), Err(InvalidToken::NotUtf8));
        assert_eq!(Token::read(&vec![b'a'; MAX_TOKEN + 1]), Err(InvalidToken::TooLong));
    }
}
