//! Signing keys beside `auth.key`, so that a key can be replaced while tokens of the one before are still good.
//!
//! All of them are in one file, which is replaced as a whole: a backup has it, and gateways that share a log have copies of it.
//! `auth.key` stays where it is for good, because the log's own names follow from it; its tokens can be refused.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use salon_protocol::Timestamp;
use serde::{Deserialize, Serialize};

use super::keys::{self, hex, random, unhex};
use super::{KEY_FILE, KeyFileError, LocalKey, Signer};

/// The name of the file in the data directory.
pub const SIGNING_KEYS_FILE: &str = "signing-keys.json";

/// The longest file that is read.
pub const MAX_SIGNING_KEYS_BYTES: u64 = 64 * 1024;

/// The id of `auth.key` in lists. Its tokens have no `kid`.
pub const FIRST_KEY: &str = "first";

/// Begins the id of every other key.
pub(super) const KID_PREFIX: &str = "salon-";

/// How many keys there may be beside `auth.key`.
const MAX_KEYS: usize = 32;

/// How many keys the file names that were removed, the newest. Gateways that have read it remember all of them.
const MAX_REMOVED: usize = 256;

/// The gateway's own keys.
#[derive(Clone)]
pub struct SigningKeys {
    first: LocalKey,
    is_first_refused: bool,
    /// By the time from which they sign.
    added: Vec<AddedKey>,
    /// The ids of those that were removed, the oldest first.
    removed: Vec<String>,
}

#[derive(Clone)]
struct AddedKey {
    kid: String,
    key: LocalKey,
    signs_from: Timestamp,
}

/// What a key does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// New tokens are signed with it.
    Signs,
    /// Its tokens are good until they expire.
    Verifies,
    /// It will sign; its tokens are good already.
    Waits,
    /// Its tokens are refused.
    Refused,
}

/// One of the gateway's own keys, without the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// What tokens name it by.
    pub kid: String,
    /// From when on it signs; not known of `auth.key`.
    pub signs_from: Option<Timestamp>,
    /// What it does now.
    pub key_use: KeyUse,
}

/// Why keys could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// One of the files cannot be used.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The file is not what this program writes.
    #[error("`{}` is not a list of signing keys: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, without what is in it.
        why: &'static str,
    },
    /// No more can be added.
    #[error("there are {MAX_KEYS} signing keys already\n\nhint: remove old ones with `salon key remove`")]
    TooMany,
    /// No key of that id.
    #[error("there is no key `{0}`\n\nhint: `salon key list` has them")]
    Unknown(String),
    /// It cannot be removed.
    #[error("the key `{0}` signs new tokens now\n\nhint: run `salon key rotate` first")]
    Signing(String),
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct KeysDocument {
    /// Whether tokens of `auth.key` are refused.
    #[serde(default)]
    first_refused: bool,
    keys: Vec<KeyRecord>,
    /// The ids of keys that were removed. A key that is only missing, as in an older copy of the file, was not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRecord {
    kid: String,
    /// Milliseconds since 1970.
    signs_from: u64,
    /// In hexadecimal.
    key: String,
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({} added)", self.added.len())
    }
}

impl From<LocalKey> for SigningKeys {
    fn from(first: LocalKey) -> Self {
        Self { first, is_first_refused: false, added: Vec::new(), removed: Vec::new() }
    }
}

impl SigningKeys {
    /// Reads the keys of a data directory, making `auth.key` where there is none.
    pub fn load_or_create(data: &Path) -> Result<Self, RotationError> {
        Self::beside(LocalKey::load_or_create(data)?, data)
    }

    /// Reads the keys of a data directory, where there is `auth.key`; makes nothing.
    pub fn find(data: &Path) -> Result<Option<Self>, RotationError> {
        LocalKey::find(data)?.map(|first| Self::beside(first, data)).transpose()
    }

    fn beside(first: LocalKey, data: &Path) -> Result<Self, RotationError> {
        let path = data.join(SIGNING_KEYS_FILE);
        let text = match keys::read_private(&path, MAX_SIGNING_KEYS_BYTES) {
            Err(KeyFileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(first.into()),
            read => read?,
        };
        // What a parser says would repeat what it read.
        let malformed = |why| RotationError::Malformed { path: path.clone(), why };
        let document: KeysDocument =
            serde_json::from_slice(&text).map_err(|_| malformed("it is not the JSON that `salon key` writes"))?;
        let mut added = Vec::new();
        for KeyRecord { kid, signs_from, key } in document.keys {
            let key = unhex(&key).map(LocalKey::from).ok_or_else(|| malformed("a key is not 64 hexadecimal digits"))?;
            if !kid.starts_with(KID_PREFIX) || added.iter().any(|other: &AddedKey| other.kid == kid) {
                return Err(malformed("a key's id is taken, or does not begin with `salon-`"));
            }
            added.push(AddedKey { kid, key, signs_from: Timestamp(signs_from) });
        }
        added.sort_by_key(|key| key.signs_from);
        if document.first_refused && added.is_empty() {
            return Err(malformed("tokens of `auth.key` are refused and there is no other key"));
        }
        Ok(Self { first, is_first_refused: document.first_refused, added, removed: document.removed })
    }

    /// The key that names of the log follow from, whether its tokens are good or not.
    pub fn first(&self) -> &LocalKey {
        &self.first
    }

    /// The key that sign-ins of browsers follow from: the oldest whose tokens are good.
    pub(crate) fn for_sign_ins(&self) -> &LocalKey {
        let added = self.added.first().filter(|_| self.is_first_refused);
        added.map_or(&self.first, |added| &added.key)
    }

    /// Signs with the newest key whose time has come.
    pub fn signer(&self, now: Timestamp) -> Signer {
        match self.signing(now) {
            Some(added) => Signer::with_kid(&added.key, added.kid.clone()),
            None => Signer::new(&self.first),
        }
    }

    /// The key that signs, unless it is `auth.key`.
    fn signing(&self, now: Timestamp) -> Option<&AddedKey> {
        let due = self.added.iter().rfind(|key| key.signs_from <= now);
        due.or_else(|| self.added.first().filter(|_| self.is_first_refused))
    }

    /// The keys whose tokens are good: `auth.key`, where it is one of them, and the others by id.
    pub(super) fn verifying(&self) -> (Option<&LocalKey>, impl Iterator<Item = (&str, &LocalKey)>) {
        let first = Some(&self.first).filter(|_| !self.is_first_refused);
        (first, self.added.iter().map(|added| (added.kid.as_str(), &added.key)))
    }

    /// The ids of keys that were removed, whose tokens are refused.
    pub(super) fn removed(&self) -> impl Iterator<Item = &str> {
        let first = self.is_first_refused.then_some(FIRST_KEY);
        first.into_iter().chain(self.removed.iter().map(String::as_str))
    }

    /// All keys, the oldest first.
    pub fn list(&self, now: Timestamp) -> Vec<KeyInfo> {
        let signing = self.signing(now).map(|key| key.kid.as_str());
        let first_use = match signing {
            _ if self.is_first_refused => KeyUse::Refused,
            None => KeyUse::Signs,
            Some(_) => KeyUse::Verifies,
        };
        let first = KeyInfo { kid: FIRST_KEY.into(), signs_from: None, key_use: first_use };
        let use_of = |key: &AddedKey| match signing {
            Some(kid) if kid == key.kid => KeyUse::Signs,
            _ if key.signs_from > now => KeyUse::Waits,
            _ => KeyUse::Verifies,
        };
        let info =
            |key: &AddedKey| KeyInfo { kid: key.kid.clone(), signs_from: Some(key.signs_from), key_use: use_of(key) };
        let added = self.added.iter().map(info);
        std::iter::once(first).chain(added).collect()
    }

    /// Adds a key to those of a data directory, which signs from a time on. Says its id.
    pub fn rotate(data: &Path, signs_from: Timestamp) -> Result<String, RotationError> {
        LocalKey::load_or_create(data)?;
        Self::change(data, |keys| {
            if keys.added.len() >= MAX_KEYS {
                return Err(RotationError::TooMany);
            }
            let day: String = signs_from.to_string().chars().take(10).filter(char::is_ascii_digit).collect();
            let kid = format!("{KID_PREFIX}{day}-{}", hex(&random::<4>()));
            keys.added.push(AddedKey { kid: kid.clone(), key: LocalKey::generate(), signs_from });
            Ok(kid)
        })
    }

    /// Removes a key from those of a data directory: its tokens are refused from now on.
    pub fn remove(data: &Path, kid: &str, now: Timestamp) -> Result<(), RotationError> {
        Self::change(data, |keys| {
            let info = keys.list(now).into_iter().find(|info| info.kid == kid && info.key_use != KeyUse::Refused);
            match info.ok_or_else(|| RotationError::Unknown(kid.to_owned()))?.key_use {
                KeyUse::Signs => return Err(RotationError::Signing(kid.to_owned())),
                _ if kid == FIRST_KEY => keys.is_first_refused = true,
                _ => {
                    keys.added.retain(|added| added.kid != kid);
                    keys.removed.push(kid.to_owned());
                    let excess = keys.removed.len().saturating_sub(MAX_REMOVED);
                    keys.removed.drain(..excess);
                }
            }
            Ok(())
        })
    }

    /// Changes the file, alone: who comes meanwhile waits.
    fn change<T>(data: &Path, change: impl FnOnce(&mut Self) -> Result<T, RotationError>) -> Result<T, RotationError> {
        let path = data.join(SIGNING_KEYS_FILE);
        let failed = |source| KeyFileError::Io { path: path.clone(), action: "written", source };
        let directory = File::open(data).map_err(failed)?;
        rustix::fs::flock(&directory, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let first = LocalKey::find(data)?.ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
        let mut keys = Self::beside(first, data)?;
        let done = change(&mut keys)?;
        keys.write(data, &path).and_then(|()| directory.sync_all()).map_err(failed)?;
        Ok(done)
    }

    fn write(&self, data: &Path, path: &Path) -> io::Result<()> {
        let record = |added: &AddedKey| KeyRecord {
            kid: added.kid.clone(),
            signs_from: added.signs_from.0,
            key: hex(added.key.bytes()),
        };
        let document = KeysDocument {
            first_refused: self.is_first_refused,
            keys: self.added.iter().map(record).collect(),
            removed: self.removed.clone(),
        };
        let text = serde_json::to_vec_pretty(&document).expect("texts and numbers are plain JSON");
        let scratch = data.join(format!("{SIGNING_KEYS_FILE}.{}", hex(&random::<8>())));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&scratch)?;
            // What root does in somebody's data directory, it does for them.
            let owner = fs::metadata(data.join(KEY_FILE))?;
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
            }
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&scratch, path)
        })();
        if written.is_err() {
            // It may not have been made.
            let _ = fs::remove_file(&scratch);
        }
        written
    }
}

#[cfg(test)]
#[path = "rotation_tests.rs"]
mod tests;
