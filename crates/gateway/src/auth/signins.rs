//! Sign-ins: what a browser holds in a cookie in place of a token, for a day at most.
//!
//! The value is a grant, signed with a key made from the gateway's own: no token is one, no matter which key signed it, and it is no
//! token. So nothing is kept of sign-ins, and a restart forgets none; what is kept is who has signed out. Where several
//! gateways share a log, every one of them knows who has signed out at any, and looks nowhere else to see it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use salon_log::{Cluster, ReadError};
use salon_protocol::{ParticipantId, Timestamp};
use uuid::{NoContext, Uuid};

use super::keys::hex;
use super::signouts::{SIGN_OUTS, SignOuts};
use super::visits::{SignedInVisit, Visits};
use super::{AuthError, Grant, LocalKey, Signer, Verifier};
use crate::clock;

/// How long a sign-in lasts at most.
pub(super) const LIFETIME_MS: u64 = 24 * 60 * 60 * 1000;

/// What browsers take in a cookie for sure is 4096 bytes, with its name and its attributes.
const MAX_BYTES: usize = 3800;

/// Signs browsers in and out.
pub(crate) struct SignIns {
    signer: Signer,
    verifier: Verifier,
    ended: Arc<SignOuts>,
    visits: Arc<Visits>,
    /// Where the other gateways are notified.
    cluster: Arc<dyn Cluster>,
}

/// What became of a sign-out.
pub(crate) struct SignedOut {
    /// Who it was.
    pub(crate) who: ParticipantId,
    /// Whether it was written down.
    pub(crate) written: io::Result<()>,
}

/// A browser that is signed in.
pub(crate) struct SignedIn {
    /// For the cookie.
    pub(crate) value: String,
    /// What it stands for; it ends with the sign-in, and its token's id is the sign-in's.
    pub(crate) grant: Grant,
}

impl SignIns {
    /// With the gateway's own key, and with the sign-outs of a data directory.
    pub(crate) fn open(local: &LocalKey, data: &Path, cluster: Arc<dyn Cluster>, now: Timestamp) -> io::Result<Self> {
        let key = local.derive("sign-in cookie");
        Ok(Self {
            signer: Signer::new(&key),
            verifier: Verifier::for_sign_ins(&key),
            ended: Arc::new(SignOuts::open(data, cluster.is_shared(), now)?),
            visits: Arc::default(),
            cluster,
        })
    }

    /// Hears who has signed out at the other gateways, from now on. Resolves when all there was has been heard.
    pub(crate) async fn follow(&self) -> Result<(), ReadError> {
        let (ended, visits) = (self.ended.clone(), self.visits.clone());
        let hear = move |told: &[u8]| {
            // All values are delivered again whenever the log was out of reach, and hardly any of it is news.
            if ended.hear(told, clock::now()) {
                visits.tell(|who, id| ended.has(who, id));
            }
        };
        self.cluster.follow(SIGN_OUTS, Box::new(hear)).await
    }

    /// Tells the other gateways what somebody has ended. A failure is retried later.
    pub(crate) async fn share(&self, who: &ParticipantId) -> Result<(), ReadError> {
        if !self.cluster.is_shared() {
            return Ok(());
        }
        let key = hex(digest(&SHA256, who.as_str().as_bytes()).as_ref());
        self.cluster.change(SIGN_OUTS, &key, &|known| self.ended.tell(who, known, clock::now())).await
    }

    /// Tells the other gateways what they could not be told, for ever.
    pub(crate) async fn share_rest(&self, retry_delay: Duration) {
        loop {
            for who in self.ended.unshared() {
                // One that cannot be told keeps no other from being told.
                if let Err(error) = self.share(&who).await {
                    tracing::debug!(%error, "sign-out: other gateways unreachable, retrying");
                }
            }
            tokio::time::sleep(retry_delay).await;
        }
    }

    /// Signs a browser in with a grant, whichever key its token was signed with.
    pub(crate) fn begin(&self, grant: Grant, now: Timestamp) -> Result<SignedIn, AuthError> {
        if grant.expired(now) {
            return Err(AuthError::Expired);
        }
        let end = grant.expires.0.min(now.0.saturating_add(LIFETIME_MS));
        let second = u32::try_from(now.0 % 1000).expect("less than a thousand") * 1_000_000;
        let id = Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, now.0 / 1000, second));
        // Whole seconds, as signing would round up, and a sign-in does not outlast its token.
        let expires = Timestamp(end / 1000 * 1000);
        // Issued when its token was, and revoked with it.
        let origin = grant.origin.or(grant.token_id);
        let grant = Grant { expires, token_id: Some(id.to_string()), origin, by_sign_in: true, ghosts: None, ..grant };
        let value = self.signer.sign(&grant, grant.issued)?;
        if value.len() > MAX_BYTES { Err(AuthError::SignInTooLong) } else { Ok(SignedIn { value, grant }) }
    }

    /// What a cookie's value stands for. The reason is left out: whatever it is, the person signs in again.
    pub(crate) fn verify(&self, value: &str, now: Timestamp) -> Result<Grant, AuthError> {
        let grant = self.verifier.verify(value, now).map_err(|_| AuthError::NotSignedIn)?;
        let grant = Grant { by_sign_in: true, ..grant };
        self.require(&grant).map(|()| grant)
    }

    /// Refuses a grant whose sign-in was ended since.
    pub(crate) fn require(&self, grant: &Grant) -> Result<(), AuthError> {
        let ended = grant.by_sign_in && self.ended.has(&grant.participant, id_of(grant)?);
        if ended { Err(AuthError::NotSignedIn) } else { Ok(()) }
    }

    /// Ends a sign-in for good, and every connection here that stands on it. Blocks while that is written down. One that has ended can be
    /// ended again while it is not written down, or the others may not know of it.
    pub(crate) fn end(&self, value: &str, now: Timestamp) -> Result<SignedOut, AuthError> {
        let grant = self.verifier.verify(value, now).map_err(|_| AuthError::NotSignedIn)?;
        if self.ended.has(&grant.participant, id_of(&grant)?) {
            let who = grant.participant;
            return match self.ended.write_again(&who, now) {
                Some(written) => Ok(SignedOut { who, written }),
                None if self.ended.is_unshared(&who) => Ok(SignedOut { who, written: Ok(()) }),
                None => Err(AuthError::NotSignedIn),
            };
        }
        let written = self.ended.add(&grant.participant, id_of(&grant)?, grant.expires, now)?;
        self.visits.tell(|who, id| self.ended.has(who, id));
        Ok(SignedOut { who: grant.participant, written })
    }

    /// A connection begins that stands on a sign-in; `None` where it stands on something else.
    pub(crate) fn visit(&self, grant: &Grant) -> Option<SignedInVisit> {
        let id = id_of(grant).ok().filter(|_| grant.by_sign_in)?;
        let visit = self.visits.hold(&grant.participant, id);
        // Looked up only now that it is known: an end that came in between is not missed.
        if self.ended.has(&grant.participant, id) {
            self.visits.tell(|_, other| other == id);
        }
        Some(visit)
    }
}

fn id_of(grant: &Grant) -> Result<Uuid, AuthError> {
    grant.token_id.as_deref().and_then(|id| id.parse().ok()).ok_or(AuthError::NotSignedIn)
}

#[cfg(test)]
#[path = "signins_tests.rs"]
mod tests;
