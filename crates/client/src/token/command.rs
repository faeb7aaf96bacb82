use std::ffi::OsString;
use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::refreshing::KeptToken;
use super::{InvalidToken, MAX_TOKEN, Token, TokenError, TokenProvider};

/// How long a program may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a program's last words an error repeats.
const MAX_STDERR: usize = 1024;

/// Tokens from a program's standard output, such as a cloud's command-line tool.
///
/// The program is run without a shell. Its token is kept until shortly before its `exp` claim or until the gateway refuses it. It has
/// 30 s, unless [`timeout`](Self::timeout) says otherwise, and is killed when they are over.
///
/// ```
/// use salon_client::TokenCommand;
///
/// let tokens = TokenCommand::new("vault", ["read", "-field=token", "salon/alice"]);
/// ```
pub struct TokenCommand {
    program: OsString,
    args: Vec<OsString>,
    timeout: Duration,
    kept: KeptToken,
}

impl TokenCommand {
    /// Runs `program` with `args` for a token.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: program.into(), args, timeout: TIMEOUT, kept: KeptToken::default() }
    }

    /// Gives the program another time to answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn run(&self) -> Result<Token, TokenError> {
        // Dropping a cancelled run kills the child.
        tokio::time::timeout(self.timeout, self.ask())
            .await
            .unwrap_or_else(|_| Err(TokenError::CommandTimedOut { program: self.name(), after: self.timeout }))
    }

    async fn ask(&self) -> Result<Token, TokenError> {
        let failed = |why| TokenError::Command { program: self.name(), source: Arc::new(why) };
        let wrong = |why| TokenError::NotFromCommand { program: self.name(), source: why };
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let stdout = child.stdout.take().expect("it was piped");
        let stderr = child.stderr.take().expect("it was piped");
        let mut token = Vec::new();
        let mut stdout = stdout.take(MAX_TOKEN as u64 + 1);
        let read = async {
            // A program that writes too much must not wait for a reader: it is killed at once.
            stdout.read_to_end(&mut token).await.map_err(failed)?;
            if token.len() > MAX_TOKEN { Err(wrong(InvalidToken::TooLong)) } else { Ok(()) }
        };
        let ((), stderr) = tokio::try_join!(read, async { last_words(stderr).await.map_err(failed) })?;
        let status = child.wait().await.map_err(failed)?;
        if !status.success() {
            return Err(TokenError::CommandFailed { program: self.name(), status, stderr });
        }
        Token::read(&token).map_err(wrong)
    }

    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

/// Reads everything and keeps the end.
async fn last_words(mut stderr: impl AsyncRead + Unpin) -> std::io::Result<String> {
    let mut kept = Vec::new();
    let mut chunk = [0; MAX_STDERR];
    loop {
        let read = stderr.read(&mut chunk).await?;
        if read == 0 {
            return Ok(String::from_utf8_lossy(&kept).trim().to_owned());
        }
        kept.extend_from_slice(&chunk[..read]);
        kept.drain(..kept.len().saturating_sub(MAX_STDERR));
    }
}

impl TokenProvider for TokenCommand {
    fn token(&self, refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        self.kept.get(refresh, || self.run()).boxed()
    }
}

impl fmt::Debug for TokenCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Arguments are left out: some programs take secrets in them.
        f.debug_struct("TokenCommand").field("program", &self.program).finish_non_exhaustive()
    }
}
