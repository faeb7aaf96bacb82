use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;

use super::{MAX_TOKEN, Token, TokenError, TokenProvider};

/// The token in a file, such as one that an orchestrator mounts and renews.
///
/// The file is read again when it has changed or when the last token was refused. White space around the token is left out.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    // With the file's time when it was read; never held across an await.
    read: Mutex<Option<(SystemTime, Token)>>,
}

impl TokenFile {
    /// Takes tokens from `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), read: Mutex::default() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn fetch(&self, refresh: bool) -> Result<Token, TokenError> {
        let failed = |why| TokenError::File { path: self.path.clone(), source: Arc::new(why) };
        let file = tokio::fs::File::open(&self.path).await.map_err(failed)?;
        // Some file systems have no times; there the file is read each time.
        let modified = file.metadata().await.map_err(failed)?.modified().ok();
        if !refresh {
            let read = self.read.lock();
            if let Some((_, token)) = read.as_ref().filter(|(at, _)| Some(*at) == modified) {
                return Ok(token.clone());
            }
        }
        let mut bytes = Vec::new();
        // One more than a token may have, so that a longer one is seen to be longer.
        file.take(MAX_TOKEN as u64 + 1).read_to_end(&mut bytes).await.map_err(failed)?;
        let token = Token::read(&bytes).map_err(|source| TokenError::NotInFile { path: self.path.clone(), source })?;
        *self.read.lock() = modified.map(|at| (at, token.clone()));
        Ok(token)
    }
}

impl TokenProvider for TokenFile {
    fn token(&self, refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        self.fetch(refresh).boxed()
    }
}
