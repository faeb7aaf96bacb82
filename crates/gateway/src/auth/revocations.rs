//! Revocations: tokens that are refused although they have not expired.
//!
//! A revocation names one token by its id, a participant, everybody, or a signing key that was removed; participants and everybody mean the tokens
//! issued up to a moment. It is kept
//! in a file, and every gateway of the store is told. A participant that is connected with a revoked token is disconnected.
//!
//! Invariants: what was revoked stays revoked, so a moment only moves forward. The number of revocations is limited.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::{Mutex, MutexGuard};
use salon_log::cluster::Keyspace;
use salon_log::{Cluster, ReadError};
use salon_protocol::{ParticipantId, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::keys::hex;
use super::{AuthError, Grant};

/// The name of the file in the data directory.
pub const REVOCATIONS_FILE: &str = "revoked.jsonl";

/// Where gateways tell one another what is revoked. Each keeps it in its file too, so the time only has to be long.
pub(crate) const REVOCATIONS: Keyspace =
    Keyspace { name: "revocations", time_to_live: Duration::from_secs(10 * 365 * 24 * 60 * 60) };

/// How many revocations there may be. Beyond it, everybody's tokens can still be revoked.
const MAX_REVOCATIONS: usize = 100_000;

/// Which tokens are revoked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RevokedTokens {
    /// The one with this id (`jti`).
    Token(String),
    /// Those of a participant.
    Participant(ParticipantId),
    /// All of them.
    All(bool),
    /// Those of a signing key that was removed, by its id.
    Key(String),
}

/// Some tokens are refused from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revocation {
    #[serde(flatten)]
    pub(crate) tokens: RevokedTokens,
    /// Those issued up to here, in milliseconds since 1970. For a single token, when it was revoked.
    pub(crate) before: u64,
}

impl Revocation {
    /// A name for it that says nothing of it: a key of the cluster.
    fn key(&self) -> String {
        let name = match &self.tokens {
            RevokedTokens::Token(id) => format!("token {id}"),
            RevokedTokens::Participant(id) => format!("participant {id}"),
            RevokedTokens::All(_) => "all".to_owned(),
            RevokedTokens::Key(kid) => format!("key {kid}"),
        };
        hex(digest(&SHA256, name.as_bytes()).as_ref())
    }
}

/// See the module.
pub(crate) struct Revocations {
    path: PathBuf,
    revoked: Mutex<RevokedState>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    cluster: Arc<dyn Cluster>,
}

struct RevokedState {
    /// When each was revoked.
    before: HashMap<RevokedTokens, u64>,
    /// What the other gateways may not know.
    unshared: HashSet<RevokedTokens>,
    file: File,
    /// Whether the file lacks something, or ends with half a line: it is then written again.
    is_incomplete: bool,
}

/// Why something was not revoked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RevokeError {
    /// There are as many revocations as there may be.
    #[error("{MAX_REVOCATIONS} revocations are the limit; revoke all tokens issued up to now instead")]
    TooMany,
    /// It counts here, but not after a restart.
    #[error("the revocation could not be written to the data directory: {0}")]
    NotWritten(#[from] io::Error),
}

impl Revocations {
    /// Reads what is revoked from the data directory.
    pub(crate) fn open(data: &Path, cluster: Arc<dyn Cluster>) -> io::Result<Self> {
        let path = data.join(REVOCATIONS_FILE);
        let before = read(&path)?;
        let file = write(&path, &before)?;
        let unshared = if cluster.is_shared() { before.keys().cloned().collect() } else { HashSet::new() };
        let revoked = Mutex::new(RevokedState { before, unshared, file, is_incomplete: false });
        Ok(Self { path, revoked, changes: watch::Sender::new(0), cluster })
    }

    fn revoked(&self) -> MutexGuard<'_, RevokedState> {
        self.revoked.lock()
    }

    /// Refuses a grant that is revoked.
    pub(crate) fn require(&self, grant: &Grant) -> Result<(), AuthError> {
        let holder = TokenHolder::of(grant);
        if self.has(&holder) { Err(AuthError::Revoked) } else { Ok(()) }
    }

    fn has(&self, holder: &TokenHolder) -> bool {
        let revoked = self.revoked();
        if revoked.before.is_empty() {
            return false;
        }
        let moment = |tokens: &RevokedTokens| revoked.before.get(tokens).copied();
        let issued_before = |tokens: &RevokedTokens| moment(tokens).is_some_and(|before| holder.issued.0 <= before);
        [&holder.token, &holder.origin, &holder.key].into_iter().flatten().any(|token| moment(token).is_some())
            || issued_before(&holder.participant)
            || holder.inviter.as_ref().is_some_and(issued_before)
            || issued_before(&RevokedTokens::All(true))
    }

    /// Revokes tokens at this gateway, and writes that down. Blocks meanwhile.
    pub(crate) fn add(&self, revocation: &Revocation) -> Result<(), RevokeError> {
        self.take(revocation, self.cluster.is_shared())?;
        let mut revoked = self.revoked();
        if !revoked.is_incomplete {
            let appended = append(&mut revoked.file, revocation);
            revoked.is_incomplete = appended.is_err();
            return Ok(appended?);
        }
        Ok(self.complete(&mut revoked)?)
    }

    /// Revokes the tokens of signing keys that were removed, at every gateway. Says whether there was one that was not known.
    pub(crate) fn add_removed_keys(&self, kids: Vec<String>, now: Timestamp) -> Result<bool, RevokeError> {
        let mut is_any_new = false;
        for kid in kids {
            let tokens = RevokedTokens::Key(kid);
            if !self.revoked().before.contains_key(&tokens) {
                is_any_new = true;
                self.add(&Revocation { tokens, before: now.0 })?;
            }
        }
        Ok(is_any_new)
    }

    /// Writes down what the file lacks. Blocks meanwhile.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut revoked = self.revoked();
        if revoked.is_incomplete { self.complete(&mut revoked) } else { Ok(()) }
    }

    fn complete(&self, revoked: &mut RevokedState) -> io::Result<()> {
        revoked.file = write(&self.path, &revoked.before)?;
        revoked.is_incomplete = false;
        Ok(())
    }

    /// Revokes tokens in memory.
    fn take(&self, revocation: &Revocation, unshared: bool) -> Result<(), RevokeError> {
        let Revocation { tokens, before } = revocation;
        {
            let mut revoked = self.revoked();
            if revoked.before.get(tokens).is_some_and(|known| known >= before) {
                return Ok(());
            }
            let is_new = !revoked.before.contains_key(tokens);
            let is_limited = matches!(tokens, RevokedTokens::Token(_) | RevokedTokens::Participant(_));
            if is_new && is_limited && revoked.before.len() >= MAX_REVOCATIONS {
                return Err(RevokeError::TooMany);
            }
            revoked.before.insert(tokens.clone(), *before);
            if unshared {
                revoked.unshared.insert(tokens.clone());
            }
        }
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Hears what is revoked at the other gateways, from now on. Resolves when all there was has been heard.
    pub(crate) async fn follow(self: &Arc<Self>) -> Result<(), ReadError> {
        let own = self.clone();
        let hear = move |value: &[u8]| {
            let Ok(revocation) = serde_json::from_slice::<Revocation>(value) else { return };
            match own.take(&revocation, false) {
                // Written down by `keep`: this is called once for each of what may be very many.
                Ok(()) => own.revoked().is_incomplete = true,
                Err(error) => {
                    tracing::error!(%error, "revocation: one of another gateway not taken, its tokens stay valid here")
                }
            }
        };
        self.cluster.follow(REVOCATIONS, Box::new(hear)).await
    }

    /// Tells the other gateways what they may not know.
    pub(crate) async fn share(&self) -> Result<(), ReadError> {
        let unshared: Vec<_> = {
            let revoked = self.revoked();
            let with_moment = |tokens: &RevokedTokens| {
                Some(Revocation { tokens: tokens.clone(), before: *revoked.before.get(tokens)? })
            };
            revoked.unshared.iter().filter_map(with_moment).collect()
        };
        for revocation in unshared {
            let later = |known: Option<&[u8]>| {
                let known = known.and_then(|known| serde_json::from_slice::<Revocation>(known).ok());
                let is_known = known.is_some_and(|known| known.before >= revocation.before);
                (!is_known).then(|| serde_json::to_vec(&revocation).expect("plain data is JSON"))
            };
            self.cluster.change(REVOCATIONS, &revocation.key(), &later).await?;
            let mut revoked = self.revoked();
            if revoked.before.get(&revocation.tokens) == Some(&revocation.before) {
                revoked.unshared.remove(&revocation.tokens);
            }
        }
        Ok(())
    }

    /// Writes down what other gateways have revoked, and tells them what they could not be told. Never ends.
    pub(crate) async fn keep(self: &Arc<Self>, retry_delay: Duration) {
        loop {
            let own = self.clone();
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || own.flush()).await {
                tracing::error!(%error, "revocation: file not written, retrying");
            }
            if let Err(error) = self.share().await {
                tracing::debug!(%error, "revocation: other gateways unreachable, retrying");
            }
            tokio::time::sleep(retry_delay).await;
        }
    }

    /// Waits until a grant is revoked.
    pub(crate) fn revoked_later(self: &Arc<Self>, grant: &Grant) -> RevocationWatch {
        let holders = Arc::new(Mutex::new(vec![TokenHolder::of(grant)]));
        RevocationWatch { revocations: self.clone(), holders }
    }
}

/// What of a grant decides whether it is revoked.
#[derive(PartialEq, Eq)]
struct TokenHolder {
    token: Option<RevokedTokens>,
    /// The token that a browser signed in with.
    origin: Option<RevokedTokens>,
    key: Option<RevokedTokens>,
    participant: RevokedTokens,
    /// Who made the invitation that a browser signed in with.
    inviter: Option<RevokedTokens>,
    issued: Timestamp,
}

impl TokenHolder {
    fn of(grant: &Grant) -> Self {
        Self {
            token: grant.token_id.clone().map(RevokedTokens::Token),
            origin: grant.origin.clone().map(RevokedTokens::Token),
            key: grant.signing_key.clone().map(RevokedTokens::Key),
            participant: RevokedTokens::Participant(grant.participant.clone()),
            inviter: grant.inviter.clone().map(RevokedTokens::Participant),
            issued: grant.issued,
        }
    }
}

/// How many tokens of one session are watched, the newest.
const MAX_HOLDERS: usize = 16;

/// A connection, or a session of several requests, that ends when one of its tokens is revoked.
#[derive(Clone)]
pub(crate) struct RevocationWatch {
    revocations: Arc<Revocations>,
    holders: Arc<Mutex<Vec<TokenHolder>>>,
}

impl RevocationWatch {
    /// Watches another token that the session is used with.
    pub(crate) fn add(&self, grant: &Grant) {
        let (holder, mut holders) = (TokenHolder::of(grant), self.holders.lock());
        if !holders.contains(&holder) {
            if holders.len() >= MAX_HOLDERS {
                holders.remove(0);
            }
            holders.push(holder);
        }
    }

    fn is_revoked(&self) -> bool {
        self.holders.lock().iter().any(|holder| self.revocations.has(holder))
    }

    /// Waits until a token is revoked.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let watch = self.clone();
        let mut changes = watch.revocations.changes.subscribe();
        async move {
            while !watch.is_revoked() {
                // The sender lives as long as `revocations`, so there is always another change to wait for.
                let _ = changes.changed().await;
            }
        }
    }
}

/// Reads the file, where there is one. Half a line, as a crash or a full disk leaves it, is left out; it is never followed by another that
/// counts, unless a restore has put it there.
fn read(path: &Path) -> io::Result<HashMap<RevokedTokens, u64>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        text => text?,
    };
    let mut before = HashMap::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.is_empty()) {
        match serde_json::from_slice::<Revocation>(line) {
            Ok(revocation) => {
                let known = before.entry(revocation.tokens).or_insert(revocation.before);
                *known = revocation.before.max(*known);
            }
            Err(_) => tracing::error!(file = REVOCATIONS_FILE, line = number, "revocation: unreadable line left out"),
        }
    }
    Ok(before)
}

/// Writes the file again, and opens it for what follows.
fn write(path: &Path, before: &HashMap<RevokedTokens, u64>) -> io::Result<File> {
    let next: PathBuf = path.with_extension("jsonl.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    let mut text = String::new();
    for (tokens, before) in before {
        text.push_str(&line(&Revocation { tokens: tokens.clone(), before: *before }));
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    Ok(file)
}

fn append(file: &mut File, revocation: &Revocation) -> io::Result<()> {
    file.write_all(line(revocation).as_bytes())?;
    file.sync_data()
}

fn line(revocation: &Revocation) -> String {
    let mut line = serde_json::to_string(revocation).expect("plain data is JSON");
    line.push('\n');
    line
}

#[cfg(test)]
#[path = "revocations_tests.rs"]
mod tests;
