//! The keys a token may be signed with: the gateway's own secret, and the public keys of others.
//!
//! Every key has exactly one algorithm. Nothing here prints a key.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, Validation};

use crate::private_file;

/// Bytes of the gateway's own key, as many as the hash of HS256 has.
pub const KEY_BYTES: usize = 32;

/// The name of the key's file in the data directory.
pub const KEY_FILE: &str = "auth.key";

/// The gateway's own secret, for HS256.
#[derive(Clone)]
pub struct LocalKey([u8; KEY_BYTES]);

impl fmt::Debug for LocalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalKey(..)")
    }
}

/// Why the gateway's own key could not be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The operating system said no.
    #[error("the key file `{}` could not be {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Somebody else could have read it.
    #[error(
        "the key file `{}` is open to other users (mode {mode:03o})\n\nhint: run `chmod 600` on it; if others could have read it, delete it \
         and a new key is made, which makes the tokens signed with the old one worthless", path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else can change it.
    #[error(
        "the key file `{}` belongs to another user (uid {owner})\n\nhint: run this as the gateway's user; if that is you, `chown` the file, \
         or delete it and a new key is made", path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// It is not a key.
    #[error("the key file `{}` is not a key: it must be a regular file of exactly {KEY_BYTES} bytes", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

impl LocalKey {
    /// Reads the key of a data directory, making the directory and the key where there are none.
    ///
    /// Two processes may do this at once: both end up with the same key.
    pub fn load_or_create(data: &Path) -> Result<Self, KeyFileError> {
        let path = data.join(KEY_FILE);
        match Self::load(&path) {
            Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        create(data, &path).map_err(|source| KeyFileError::Io { path: path.clone(), action: "made", source })?;
        Self::load(&path)
    }

    /// Bytes for names that all gateways of a log must derive alike: ids of leaves, the host's namespace, the log's fingerprint.
    /// Not HKDF, because gateways of 0.1 and logs they have written have these.
    pub(crate) fn shared_name(&self, purpose: &str) -> [u8; 16] {
        let mut whole = self.0.to_vec();
        whole.extend_from_slice(purpose.as_bytes());
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &whole);
        std::array::from_fn(|at| digest.as_ref()[at])
    }

    /// Another key, the same for the same purpose (HKDF with SHA-256, RFC 5869). What it signs is invalid under this one.
    pub(crate) fn derive(&self, purpose: &str) -> Self {
        let mut derived = [0; KEY_BYTES];
        Salt::new(HKDF_SHA256, b"salon")
            .extract(&self.0)
            .expand(&[purpose.as_bytes()], HKDF_SHA256)
            .and_then(|output| output.fill(&mut derived))
            .expect("HKDF-SHA-256 has 32 bytes for every purpose");
        Self(derived)
    }

    /// Tells keys apart in public, and says nothing of the key.
    pub(crate) fn label(&self, purpose: &str) -> String {
        hex(&self.derive(purpose).0[..4])
    }

    /// Reads the key of a data directory, where there is one; makes nothing.
    pub fn find(data: &Path) -> Result<Option<Self>, KeyFileError> {
        match Self::load(&data.join(KEY_FILE)) {
            Err(KeyFileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// A key that lives as long as the process.
    pub fn generate() -> Self {
        Self(random())
    }

    fn load(path: &Path) -> Result<Self, KeyFileError> {
        let bytes = read_private(path, KEY_BYTES as u64)?;
        bytes.try_into().map(Self).map_err(|_| KeyFileError::Malformed { path: path.into() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn encoding(&self) -> EncodingKey {
        EncodingKey::from_secret(&self.0)
    }

    pub(super) fn verifying(&self) -> VerifyingKey {
        VerifyingKey::new(Algorithm::HS256, DecodingKey::from_secret(&self.0))
    }
}

/// Reads a file with keys in it, which must be ours and nobody else's to read: at most one byte more than it may have.
pub(super) fn read_private(path: &Path, max_bytes: u64) -> Result<Vec<u8>, KeyFileError> {
    let failed = |source| KeyFileError::Io { path: path.into(), action: "read", source };
    // Asked before opening, because opening a pipe waits for its other end.
    let found = fs::symlink_metadata(path).map_err(failed)?;
    if !found.is_file() && !found.is_symlink() {
        return Err(KeyFileError::Malformed { path: path.into() });
    }
    let file = private_file::open(path, OpenOptions::new().read(true)).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !is_ours(about.uid(), path).map_err(failed)? {
        return Err(KeyFileError::Foreign { path: path.into(), owner: about.uid() });
    }
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: path.into(), mode });
    }
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

impl From<[u8; KEY_BYTES]> for LocalKey {
    fn from(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }
}

/// Whether a file with this owner is ours. What root does in somebody's data directory, it does for the directory's owner.
fn is_ours(owner: u32, path: &Path) -> io::Result<bool> {
    let us = rustix::process::geteuid();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(owner == us.as_raw() || us.is_root() && owner == fs::metadata(directory)?.uid())
}

/// Writes a new key under a name of its own and then links it into place: the file at `path` is whole from its first moment on,
/// and one that is already there stays.
fn create(data: &Path, path: &Path) -> io::Result<()> {
    // Closed to others, because the log will be here too.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    let scratch = data.join(format!("{KEY_FILE}.{}", hex(&random::<8>())));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&scratch)?;
        file.write_all(&random::<KEY_BYTES>())?;
        file.sync_all()?;
        match fs::hard_link(&scratch, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    let removed = fs::remove_file(&scratch);
    written.and(removed)?;
    File::open(data)?.sync_all()
}

/// Random bytes from the operating system's generator.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the process-wide random generator cannot be exhausted");
    bytes
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What [`hex`] wrote, where it is as many bytes as are wanted.
pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let bytes: Option<Vec<u8>> = digits?.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair.get(1)?).ok()).collect();
    bytes?.try_into().ok()
}

/// A key to verify with, and the one algorithm it is for.
#[derive(Clone)]
pub(super) struct VerifyingKey {
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
    /// Checks the algorithm and the signature and leaves every claim, and so every clock, to us.
    pub(super) validation: Validation,
}

impl VerifyingKey {
    fn new(algorithm: Algorithm, key: DecodingKey) -> Self {
        let mut validation = Validation::new(algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        Self { algorithm, key, validation }
    }
}

/// Somebody else's public keys, by id.
#[derive(Clone, Default)]
pub struct KeySet {
    named: HashMap<String, VerifyingKey>,
    nameless: Vec<VerifyingKey>,
    /// The keys are too old to be used, and newer ones cannot be had.
    unavailable: bool,
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({} keys)", self.len())
    }
}

/// Which key of a set a token wants.
pub(super) enum Choice<'a> {
    Key(&'a VerifyingKey),
    Unknown,
    Ambiguous,
    Unavailable,
}

impl KeySet {
    /// The set in place of keys that were not refreshed for too long.
    pub(super) fn unavailable() -> Self {
        Self { unavailable: true, ..Self::default() }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.named.len() + self.nameless.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a key in; says why when it is not one that could sign a token. The first key of an id stays.
    pub(super) fn add(&mut self, jwk: &Jwk) -> Result<(), &'static str> {
        let key = verifying_key(jwk)?;
        match &jwk.common.key_id {
            Some(id) if self.named.contains_key(id) => return Err("its id is taken by another key of the set"),
            Some(id) => drop(self.named.insert(id.clone(), key)),
            None => self.nameless.push(key),
        }
        Ok(())
    }

    /// The key a token names, or the only one of its algorithm when it names none. A key without an id serves only tokens that
    /// name none.
    pub(super) fn choose(&self, id: Option<&str>, algorithm: Algorithm) -> Choice<'_> {
        if self.unavailable {
            return Choice::Unavailable;
        }
        if let Some(id) = id {
            return self.named.get(id).map_or(Choice::Unknown, Choice::Key);
        }
        let mut fitting = self.named.values().chain(&self.nameless).filter(|key| key.algorithm == algorithm);
        match (fitting.next(), fitting.next()) {
            (None, _) => Choice::Unknown,
            (Some(key), None) => Choice::Key(key),
            (Some(_), Some(_)) => Choice::Ambiguous,
        }
    }
}

fn verifying_key(jwk: &Jwk) -> Result<VerifyingKey, &'static str> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return Err("it is not for signatures");
    }
    let algorithm = match (&jwk.algorithm, jwk.common.key_algorithm) {
        (AlgorithmParameters::RSA(_), None | Some(KeyAlgorithm::RS256)) => Algorithm::RS256,
        (AlgorithmParameters::OctetKeyPair(pair), None | Some(KeyAlgorithm::EdDSA))
            if pair.curve == EllipticCurve::Ed25519 =>
        {
            Algorithm::EdDSA
        }
        (AlgorithmParameters::EllipticCurve(point), None | Some(KeyAlgorithm::ES256))
            if point.curve == EllipticCurve::P256 =>
        {
            Algorithm::ES256
        }
        // A shared secret has no place in a published set.
        (AlgorithmParameters::OctetKey(_), _) => return Err("it is a shared secret, not a public key"),
        _ => return Err("its algorithm is not one of EdDSA, ES256, RS256"),
    };
    let key = DecodingKey::from_jwk(jwk).map_err(|_| "its numbers are not base64url")?;
    let sound = match (key.kind(), algorithm) {
        // 2048 bits; jsonwebtoken refuses less too, but only when a token comes.
        (DecodingKeyKind::RsaModulusExponent { n, .. }, _) => n.iter().skip_while(|b| **b == 0).count() >= 256,
        (DecodingKeyKind::SecretOrDer(bytes), Algorithm::EdDSA) => bytes.len() == 32,
        (DecodingKeyKind::SecretOrDer(bytes), _) => bytes.len() == 65,
    };
    if sound { Ok(VerifyingKey::new(algorithm, key)) } else { Err("it has the wrong length") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_key_is_made_once_and_closed_to_others() {
        let scratch = Scratch::new();
        let data = scratch.path().join("deep/er");
        let first = LocalKey::load_or_create(&data).expect("a key");
        let again = LocalKey::load_or_create(&data).expect("the same key");
        assert_eq!(first.0, again.0);
        assert_ne!(first.0, LocalKey::generate().0);
        let mode = fs::metadata(data.join(KEY_FILE)).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left: Vec<_> = fs::read_dir(&data).expect("the folder").map(|e| e.expect("a name").file_name()).collect();
        assert_eq!(left, [KEY_FILE], "nothing but the key is left behind");
    }

    /// What browsers and logs keep depends on these bytes: a change signs people out, or keeps gateways of two versions apart.
    #[test]
    fn derived_bytes_stay_what_they_are() {
        let key = LocalKey([7; KEY_BYTES]);
        assert_eq!(
            hex(&key.derive("sign-in cookie").0),
            "e3ef0baed301ebde0ab2c5a6ec5cda94cd259b037cf483e3f9fee7733721ed83"
        );
        assert_ne!(key.derive("sign-in cookie").0, key.derive("sign-in cookie name").0);
        assert_eq!(hex(&key.shared_name("leaves")), "e1752df21b812aa156caf253d358c268");
    }

    #[test]
    fn many_at_once_agree_on_one_key() {
        let scratch = Scratch::new();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let racers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| LocalKey::load_or_create(scratch.path()).expect("a key").0)).collect();
            racers.into_iter().map(|racer| racer.join().expect("no panic")).collect()
        });
        assert!(keys.iter().all(|key| key == &keys[0]));
    }

    #[test]
    fn a_key_that_is_not_one_is_refused() {
        let refusal = |contents: &[u8], mode: u32| {
            let scratch = Scratch::new();
            let path = scratch.path().join(KEY_FILE);
            fs::write(&path, contents).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            let error = LocalKey::load_or_create(scratch.path()).expect_err("refused").to_string();
            assert_eq!(fs::read(&path).expect("still there"), contents, "the file is left as it was");
            error.replace(&scratch.path().display().to_string(), "DATA")
        };
        insta::assert_snapshot!(refusal(&[7; 31], 0o600), @"the key file `DATA/auth.key` is not a key: it must be a regular file of exactly 32 bytes");
        insta::assert_snapshot!(refusal(&[7; 33], 0o600), @"the key file `DATA/auth.key` is not a key: it must be a regular file of exactly 32 bytes");
        insta::assert_snapshot!(refusal(&[], 0o600), @"the key file `DATA/auth.key` is not a key: it must be a regular file of exactly 32 bytes");
        insta::assert_snapshot!(refusal(&[7; 32], 0o640), @"
        the key file `DATA/auth.key` is open to other users (mode 640)

        hint: run `chmod 600` on it; if others could have read it, delete it and a new key is made, which makes the tokens signed with the old one worthless
        ");
    }

    #[test]
    fn a_folder_in_place_of_the_key_is_refused() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path().join(KEY_FILE)).expect("made");
        assert!(matches!(LocalKey::load_or_create(scratch.path()), Err(KeyFileError::Malformed { .. })));
    }

    #[test]
    fn a_key_behind_a_symbolic_link_is_refused() {
        let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
        LocalKey::load_or_create(elsewhere.path()).expect("a key");
        std::os::unix::fs::symlink(elsewhere.path().join(KEY_FILE), scratch.path().join(KEY_FILE)).expect("linked");
        for refused in [LocalKey::load_or_create(scratch.path()).map(Some), LocalKey::find(scratch.path())] {
            let told = refused.expect_err("refused").to_string();
            assert!(told.ends_with("could not be read: it is a symbolic link, and none is followed here"), "{told}");
        }
    }

    /// Only root can give a file away, so that only root can see this.
    #[test]
    fn a_key_of_somebody_else_is_refused() {
        let scratch = Scratch::new();
        LocalKey::load_or_create(scratch.path()).expect("a key");
        let path = scratch.path().join(KEY_FILE);
        if std::os::unix::fs::chown(&path, Some(54321), None).is_err() {
            return;
        }
        let refused = LocalKey::load_or_create(scratch.path()).expect_err("refused");
        assert!(matches!(refused, KeyFileError::Foreign { owner: 54321, .. }), "{refused}");
        // What root does for the owner of the whole directory is the owner's.
        std::os::unix::fs::chown(scratch.path(), Some(54321), None).expect("root can");
        LocalKey::load_or_create(scratch.path()).expect("the key");
    }

    #[test]
    fn nothing_prints_a_key() {
        assert_eq!(format!("{:?}", LocalKey([0x5a; KEY_BYTES])), "LocalKey(..)");
        assert_eq!(format!("{:?}", KeySet::default()), "KeySet(0 keys)");
    }
}
