//! Links that sign a browser in: each has a code in its fragment that works once, for ten minutes, or as an invitation for a day.
//!
//! Only a digest of a code is kept, as with `super::Tickets`. Codes are kept in memory: a restart makes them worthless.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::Timestamp;

use super::keys::{hex, random};
use super::{AuthError, Grant};

/// How long a code works.
const LIFETIME_MS: u64 = 10 * 60 * 1000;

/// How long an invitation works: somebody has to read it first.
const INVITATION_MS: u64 = 24 * 60 * 60 * 1000;

/// Random bytes in a code.
const BYTES: usize = 16;

/// How many unused codes there are at most; then the oldest goes.
const MAX_CODES: usize = 64;

/// The codes that were given out and not yet used. Cloning shares them: the program that starts a gateway hands one clone to it and makes
/// links with the other.
#[derive(Clone, Default)]
pub struct SignInLinks(Arc<Mutex<VecDeque<SignInCode>>>);

struct SignInCode {
    digest: [u8; 32],
    grant: Grant,
    expires: Timestamp,
}

impl std::fmt::Debug for SignInLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Links(..)")
    }
}

impl SignInLinks {
    /// None given out yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The fragment of a link that signs a browser in with this grant. The text is returned once and not kept.
    pub fn fragment(&self, grant: Grant, now: Timestamp) -> String {
        self.give(grant, now, LIFETIME_MS).0
    }

    /// The fragment of a link for somebody else, and until when it works.
    pub(crate) fn invitation(&self, grant: Grant, now: Timestamp) -> (String, Timestamp) {
        self.give(grant, now, INVITATION_MS)
    }

    fn give(&self, grant: Grant, now: Timestamp, lifetime_ms: u64) -> (String, Timestamp) {
        let text = hex(&random::<BYTES>());
        // It is as good as a token that is made now.
        let grant = Grant { issued: now, ..grant };
        let mut codes = self.codes();
        codes.retain(|code| now < code.expires);
        if codes.len() >= MAX_CODES {
            codes.pop_front();
        }
        let expires = Timestamp(now.0.saturating_add(lifetime_ms));
        codes.push_back(SignInCode { digest: digest_of(&text), grant, expires });
        (format!("#code={text}"), expires)
    }

    /// The grant a code stands for. Whatever the answer, the code is used up.
    pub(crate) fn redeem(&self, text: &str, now: Timestamp) -> Result<Grant, AuthError> {
        if text.len() != 2 * BYTES {
            return Err(AuthError::CodeUnknown);
        }
        let mut codes = self.codes();
        let digest = digest_of(text);
        let at = codes.iter().position(|code| code.digest == digest).ok_or(AuthError::CodeUnknown)?;
        let code = codes.remove(at).expect("it was found there");
        if now >= code.expires {
            Err(AuthError::CodeUnknown)
        } else if code.grant.expired(now) {
            Err(AuthError::Expired)
        } else {
            Ok(code.grant)
        }
    }

    fn codes(&self) -> MutexGuard<'_, VecDeque<SignInCode>> {
        self.0.lock()
    }
}

fn digest_of(text: &str) -> [u8; 32] {
    digest(&SHA256, text.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use salon_protocol::ParticipantId;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn grant(id: &str) -> Grant {
        let id = ParticipantId::new(id).expect("an id");
        Grant::new(id, vec!["room:*".parse().expect("a pattern")], Timestamp(NOW.0 + 24 * 60 * 60 * 1000))
    }

    fn later(ms: u64) -> Timestamp {
        Timestamp(NOW.0 + ms)
    }

    fn code(links: &SignInLinks, grant: Grant) -> String {
        let fragment = links.fragment(grant, NOW);
        fragment.strip_prefix("#code=").expect("a code").to_owned()
    }

    #[test]
    fn a_code_works_once() {
        let links = SignInLinks::new();
        let (alice, bob) = (code(&links, grant("alice")), code(&links, grant("bob")));
        assert_eq!(alice.len(), 32, "128 bits");
        assert_ne!(alice, bob);
        let redeemed = links.clone().redeem(&alice, later(LIFETIME_MS - 1)).expect("the grant");
        assert_eq!(redeemed.participant.as_str(), "alice");
        assert_eq!(links.redeem(&alice, NOW), Err(AuthError::CodeUnknown));
        assert_eq!(links.redeem(&bob, NOW).map(|grant| grant.participant.to_string()).as_deref(), Ok("bob"));
    }

    #[test]
    fn a_code_is_refused_when_it_should_be() {
        let links = SignInLinks::new();
        let late = code(&links, grant("alice"));
        assert_eq!(links.redeem(&late, later(LIFETIME_MS)), Err(AuthError::CodeUnknown));
        assert_eq!(links.redeem(&late, NOW), Err(AuthError::CodeUnknown), "the attempt used it");
        let short = code(&links, Grant { expires: later(1000), ..grant("alice") });
        assert_eq!(links.redeem(&short, later(1000)), Err(AuthError::Expired));
        code(&links, grant("alice"));
        for wrong in ["", "0", &"0".repeat(32), &"0".repeat(10_000), &"é".repeat(16)] {
            assert_eq!(links.redeem(wrong, NOW), Err(AuthError::CodeUnknown), "{wrong}");
        }
    }

    #[test]
    fn there_are_never_more_than_some() {
        let links = SignInLinks::new();
        let first = code(&links, grant("alice"));
        let second = code(&links, grant("alice"));
        for _ in 2..=MAX_CODES {
            code(&links, grant("bob"));
        }
        assert_eq!(links.codes().len(), MAX_CODES);
        assert_eq!(links.redeem(&first, NOW), Err(AuthError::CodeUnknown), "the oldest went");
        links.redeem(&second, NOW).expect("the next is there");
        links.fragment(grant("alice"), later(LIFETIME_MS));
        assert_eq!(links.codes().len(), 1, "what is too old makes room");
    }
}
