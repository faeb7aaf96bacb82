//! Where tokens come from.
//!
//! A token is asked for whenever a connection or a request needs one, so whatever hands them out may hand out a new one each time.
//! Deliberately absent: verifying. Only the gateway can say whether a token is good; a provider is told when one was not.

mod claims;
mod command;
mod file;
mod refreshing;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

pub use command::TokenCommand;
pub use file::TokenFile;
pub use refreshing::Refreshing;

/// The longest token that is taken from a file or a program. Headers longer than this are refused by most servers anyway.
const MAX_TOKEN: usize = 64 * 1024;

/// Hands out tokens.
///
/// Implemented by [`StaticToken`], [`TokenFile`], [`TokenCommand`] and [`Refreshing`]; an own implementation is needed only for what
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
    fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() > MAX_TOKEN {
            return Err("it is longer than 64 KiB");
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?.trim();
        if text.is_empty() {
            return Err("it is empty");
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("it is more than one word");
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

/// Why there is no token.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TokenError {
    /// The file could not be read.
    #[error("the token file {} cannot be read: {why}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        why: Arc<io::Error>,
    },
    /// The file has something else in it.
    #[error("the token file {} has no token: {why}", path.display())]
    NotInFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong with its content.
        why: &'static str,
    },
    /// The program could not be started, or talking to it failed.
    #[error("the token command {program:?} cannot be run: {why}")]
    Command {
        /// Which program.
        program: String,
        /// What the system said.
        why: Arc<io::Error>,
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
        /// The end of what it wrote to its standard error. What it wrote to its standard output is never told: it may be the token.
        stderr: String,
    },
    /// The program wrote something else.
    #[error("the token command {program:?} wrote no token: {why}")]
    NotFromCommand {
        /// Which program.
        program: String,
        /// What is wrong with what it wrote.
        why: &'static str,
    },
    /// A provider of one's own says why.
    #[error("{0}")]
    Provider(Arc<str>),
}

impl TokenError {
    /// The error of a provider of one's own. The text is shown to people, so it must not have the token in it.
    pub fn provider(why: impl fmt::Display) -> Self {
        Self::Provider(why.to_string().into())
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
        assert_eq!(Token::read(b" \n"), Err("it is empty"));
        assert_eq!(Token::read(b"a\nb"), Err("it is more than one word"));
        assert_eq!(Token::read(b"\xff"), Err("it is not UTF-8"));
        assert_eq!(Token::read(&vec![b'a'; MAX_TOKEN + 1]), Err("it is longer than 64 KiB"));
    }
}
