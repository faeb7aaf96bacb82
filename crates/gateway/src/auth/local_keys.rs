//! The gateway's own keys whose tokens are good, as the data directory has them now.
//!
//! `salon key` changes the file while the gateway runs. An unknown key is looked for at once, so that the first token of a new key is
//! good; what was removed is noticed by [`FollowedKeys::reload`], which somebody calls from time to time.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::keys::VerifyingKey;
use super::rotation::KID_PREFIX;
use super::token::signed_claims;
use super::{AuthError, FIRST_KEY, LocalKey, SIGNING_KEYS_FILE, SigningKeys};

/// Tells whether a file was replaced: when it was changed, its number and its size.
type FileStamp = (i64, i64, u64, u64);

type SignedClaims = (Map<String, Value>, Option<String>);

pub(super) struct FollowedKeys {
    current: watch::Sender<CurrentKeys>,
    /// The data directory, and what its file of keys was when it was read last.
    source: Option<(PathBuf, Mutex<Option<FileStamp>>)>,
    is_dev: bool,
}

struct CurrentKeys {
    /// That of `auth.key`, whose tokens name no key.
    first: Option<VerifyingKey>,
    added: HashMap<String, VerifyingKey>,
    /// That of development mode, where it is on.
    dev: Option<VerifyingKey>,
    /// The ids of keys that were removed.
    removed: Vec<String>,
}

impl CurrentKeys {
    fn new(keys: &SigningKeys, is_dev: bool) -> Self {
        let (first, added) = keys.verifying();
        Self {
            first: first.map(LocalKey::verifying),
            added: added.map(|(kid, key)| (kid.to_owned(), key.verifying())).collect(),
            dev: is_dev.then(|| keys.first().for_development().verifying()),
            removed: keys.removed().map(str::to_owned).collect(),
        }
    }
}

impl FollowedKeys {
    /// These keys, and what becomes of them in a data directory.
    pub(super) fn new(keys: &SigningKeys, data: Option<&Path>, is_dev: bool) -> Self {
        // Whatever is there now is read once more, in case it is newer than the keys.
        let source = data.map(|data| (data.to_owned(), Mutex::new(None)));
        Self { current: watch::Sender::new(CurrentKeys::new(keys, is_dev)), source, is_dev }
    }

    /// Reads the keys again, where their file has changed.
    pub(super) fn reload(&self) {
        let Some((data, stamp)) = &self.source else { return };
        let mut stamp = stamp.lock();
        let found = stamp_of(&data.join(SIGNING_KEYS_FILE));
        if *stamp == found {
            return;
        }
        match SigningKeys::find(data) {
            Ok(Some(keys)) => {
                *stamp = found;
                tracing::info!(added = keys.verifying().1.count(), "auth: signing keys read");
                self.current.send_replace(CurrentKeys::new(&keys, self.is_dev));
            }
            // Without `auth.key` there is nothing that the others could be beside.
            Ok(None) => *stamp = found,
            // It is read again at the next look: a key that was removed must not stay for one failure.
            Err(error) => tracing::error!(%error, "auth: signing keys unreadable, keeping the present ones for now"),
        }
    }

    pub(super) fn removed(&self) -> Vec<String> {
        self.current.borrow().removed.clone()
    }

    /// The claims of a token that one of the keys has signed, and the id of that key; that of development mode has none.
    pub(super) fn claims(&self, token: &str, kid: Option<&str>) -> Result<SignedClaims, AuthError> {
        if let Some(kid) = kid.filter(|kid| kid.starts_with(KID_PREFIX)) {
            let is_known = self.current.borrow().added.contains_key(kid);
            if !is_known {
                self.reload();
            }
            let current = self.current.borrow();
            let claims = signed_claims(token, current.added.get(kid).ok_or(AuthError::UnknownKey)?)?;
            return Ok((claims, Some(kid.to_owned())));
        }
        let current = self.current.borrow();
        let claims = current.first.as_ref().map_or(Err(AuthError::UnknownKey), |first| signed_claims(token, first));
        match (claims, &current.dev) {
            (Err(AuthError::BadSignature | AuthError::UnknownKey), Some(dev)) => Ok((signed_claims(token, dev)?, None)),
            (claims, _) => Ok((claims?, Some(FIRST_KEY.to_owned()))),
        }
    }
}

fn stamp_of(path: &Path) -> Option<FileStamp> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.ino(), found.size()))
}
