//! Tokens on disk: a file for each server, which only its owner can read, and a lock for processes that refresh them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use super::tokens::OAuthTokens;
use super::{AuthorizationError, ResourceUrl};
use crate::private_file;

/// How long another process may have a server's tokens to itself: longer than a refresh takes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The directory with the tokens of all guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenStore {
    directory: PathBuf,
}

impl TokenStore {
    /// A store in a directory, which need not be there yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Where a server's tokens are.
    pub fn path(&self, url: &ResourceUrl) -> PathBuf {
        let name = HEXLOWER.encode(digest(&SHA256, url.as_str().as_bytes()).as_ref());
        self.directory.join(format!("{}.json", &name[..32]))
    }

    /// What is stored for a server.
    pub fn read(&self, url: &ResourceUrl) -> Result<Option<OAuthTokens>, AuthorizationError> {
        let found = read(&self.path(url))?;
        Ok(found.filter(|tokens| tokens.url == url.as_str()))
    }

    /// Everything that is stored, by address. A file that cannot be read is an error.
    pub fn all(&self) -> Result<Vec<OAuthTokens>, AuthorizationError> {
        let mut all = Vec::new();
        for path in self.files()? {
            all.extend(read(&path)?);
        }
        all.sort_by(|a, b| a.url.cmp(&b.url));
        Ok(all)
    }

    /// The files with tokens, readable or not.
    fn files(&self) -> Result<Vec<PathBuf>, AuthorizationError> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed(&self.directory))?,
        };
        let mut files = Vec::new();
        for entry in entries {
            files.push(entry.map_err(failed(&self.directory))?.path());
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        Ok(files)
    }

    /// Stores a server's tokens in place of those before. Hands back where.
    pub fn write(&self, url: &ResourceUrl, tokens: &OAuthTokens) -> Result<PathBuf, AuthorizationError> {
        let path = self.path(url);
        let text = serde_json::to_string_pretty(tokens).expect("texts and numbers can be written");
        private_file::write(&path, &(text + "\n")).map_err(failed(&path))?;
        Ok(path)
    }

    /// Forgets a server's tokens; false where there are none.
    pub fn forget(&self, url: &ResourceUrl) -> Result<bool, AuthorizationError> {
        let path = self.path(url);
        if !path.try_exists().map_err(failed(&path))? {
            return Ok(false);
        }
        self.remove(&path)
    }

    /// Forgets the tokens of every server, those as well that cannot be read: one bad file must not keep the others. Hands back
    /// the address of each, or its file where that cannot be read, and then the first error.
    pub fn forget_all(&self) -> (Vec<String>, Result<(), AuthorizationError>) {
        let files = match self.files() {
            Ok(files) => files,
            Err(why) => return (Vec::new(), Err(why)),
        };
        let (mut forgotten, mut outcome) = (Vec::new(), Ok(()));
        for path in files {
            let url = read(&path).ok().flatten().map(|tokens| tokens.url);
            match self.remove(&path) {
                Ok(true) => forgotten.push(url.unwrap_or_else(|| path.display().to_string())),
                Ok(false) => {}
                Err(why) => outcome = outcome.and(Err(why)),
            }
        }
        (forgotten, outcome)
    }

    /// Removes a file under its lock: a process that is about to store refreshed tokens would bring them back.
    fn remove(&self, path: &Path) -> Result<bool, AuthorizationError> {
        let _lock = self.lock_file(path, LOCK_TIMEOUT)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true).map_err(failed(path)),
        }
    }

    /// Waits until no other process refreshes a server's tokens: a refresh token that is used twice is taken for stolen
    /// (RFC 9700 §4.14.2). The lock ends with the file. Blocks its thread, for [`LOCK_TIMEOUT`] at most.
    pub(super) fn lock(&self, url: &ResourceUrl) -> Result<File, AuthorizationError> {
        self.lock_within(url, LOCK_TIMEOUT)
    }

    pub(super) fn lock_within(&self, url: &ResourceUrl, timeout: Duration) -> Result<File, AuthorizationError> {
        self.lock_file(&self.path(url), timeout)
    }

    fn lock_file(&self, path: &Path, timeout: Duration) -> Result<File, AuthorizationError> {
        private_file::make_directory(&self.directory).map_err(failed(&self.directory))?;
        let path = path.with_extension("lock");
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(failed(&path))?;
        let deadline = Instant::now() + timeout;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_RETRY_DELAY),
                Err(TryLockError::WouldBlock) => {
                    let why = "another process has locked it for too long";
                    return Err(failed(&path)(io::Error::new(io::ErrorKind::TimedOut, why)));
                }
                Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
            }
        }
    }
}

fn read(path: &Path) -> Result<Option<OAuthTokens>, AuthorizationError> {
    let Some(text) = private_file::read(path).map_err(failed(path))? else { return Ok(None) };
    // The parser's own message could quote a token.
    let wrong = |_| failed(path)(io::Error::other("it is not as Salon writes it; delete it and sign in again"));
    let tokens: OAuthTokens = serde_json::from_str(&text).map_err(wrong)?;
    Ok(Some(tokens).filter(OAuthTokens::is_usable))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AuthorizationError {
    let path = path.to_owned();
    move |source| AuthorizationError::Store { path, source }
}
