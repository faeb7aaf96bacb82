//! What messages are held to, by the token their sender came with.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::{hmac, signature};
use salon_dialects::machine::{Algorithm, Seal, SignedForm, Terms};
use salon_protocol::{Code, Refusal, TopicName};

use crate::auth::{Confirmation, Grant};
use crate::gateway::GatewayState;

/// The keys one sender may sign with.
struct SenderKeys {
    /// The token itself, with its id.
    shared: Option<(String, hmac::Key)>,
    /// The key whose holder the token is for, and what it is called.
    own: Option<(String, Confirmation)>,
    /// Those of the configuration.
    common: BTreeMap<String, Confirmation>,
}

impl SenderKeys {
    fn new(grant: &Grant, token: Option<&str>, common: BTreeMap<String, Confirmation>) -> Self {
        let id = grant.token_id.clone();
        let secret = |token: &str| hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        let named = |own: Confirmation| own.id().map(str::to_owned).or(id.clone()).map(|id| (id, own));
        let own = grant.confirmation.clone().and_then(named);
        Self { shared: id.zip(token.map(secret)), own, common }
    }

    fn verify(&self, seal: &Seal, signed: SignedForm<'_>) -> Result<(), Refusal> {
        let no = |message: &str| Refusal::new(Code::Forbidden, message);
        let wrong = |_| no("`metadata.integrity` is not that of the message");
        match seal.algorithm {
            Algorithm::Hs256 => {
                let known = self.shared.as_ref().filter(|(id, _)| **id == *seal.key_id);
                let (_, key) = known.ok_or_else(|| no("`metadata.integrity.keyId` must be the `jti` of your token"))?;
                hmac::verify(key, signed()?.as_bytes(), &seal.value).map_err(wrong)
            }
            Algorithm::EdDsa => {
                let own = self.own.as_ref().filter(|(id, _)| **id == *seal.key_id).map(|(_, own)| own);
                let known = own.or_else(|| self.common.get(&*seal.key_id));
                let known = known.ok_or_else(|| no("`metadata.integrity.keyId` names no key that is known here"))?;
                let key = signature::UnparsedPublicKey::new(&signature::ED25519, known.key());
                key.verify(signed()?.as_bytes(), &seal.value).map_err(wrong)
            }
        }
    }
}

/// The terms of a client with a token; `token` is its text, which a ticket does not have.
pub(super) fn terms(gateway: &Arc<GatewayState>, grant: &Grant, topic: &TopicName, token: Option<&str>) -> Terms {
    let keys = SenderKeys::new(grant, token, gateway.config.auth.integrity_keys.iter().cloned().collect());
    let (gateway, me, topic) = (gateway.clone(), grant.participant.clone(), topic.clone());
    Terms {
        granted: grant.permissions.clone().into(),
        sealed: grant.require_integrity,
        verify: Arc::new(move |seal, signed| keys.verify(seal, signed)),
        vouch: Arc::new(move |token| {
            let shown = gateway.verify(token)?;
            if shown.participant != me {
                return Err(Refusal::new(Code::Unauthorized, "the token in the message is somebody else's"));
            }
            Ok(shown.require(&topic)?)
        }),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    use salon_protocol::{ParticipantId, Timestamp};
    use serde_json::json;

    use super::*;

    /// A public key of the first key of RFC 8032, section 7.1, and its seed.
    const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const SEED: [u8; 32] = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
        0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
    ];

    fn grant() -> Grant {
        let alice = ParticipantId::new("alice").expect("an id");
        Grant { token_id: Some("t-1".into()), ..Grant::new(alice, Vec::new(), Timestamp(1)) }
    }

    fn seal(algorithm: Algorithm, key_id: &str, value: &[u8]) -> Seal {
        Seal { algorithm, key_id: key_id.into(), value: value.into() }
    }

    fn told(keys: &SenderKeys, seal: &Seal, message: &str) -> String {
        let signed = || Ok(message.to_owned());
        keys.verify(seal, &signed).map_or_else(|refusal| refusal.to_string(), |()| "verified".into())
    }

    #[test]
    fn the_token_is_the_key_of_hs256() {
        let keys = SenderKeys::new(&grant(), Some("the.token.itself"), BTreeMap::new());
        let tag = |secret: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), b"message");
        let good = tag("the.token.itself");
        let hs256 = |id: &str, value: &[u8], message: &str| told(&keys, &seal(Algorithm::Hs256, id, value), message);
        assert_eq!(hs256("t-1", good.as_ref(), "message"), "verified");
        let wrong = "forbidden: `metadata.integrity` is not that of the message";
        assert_eq!(hs256("t-1", good.as_ref(), "massage"), wrong);
        assert_eq!(hs256("t-1", tag("another").as_ref(), "message"), wrong);
        assert_eq!(hs256("t-1", &good.as_ref()[..16], "message"), wrong, "a part of the value is not enough");
        assert_eq!(hs256("t-1", b"", "message"), wrong);
        let unknown = "forbidden: `metadata.integrity.keyId` must be the `jti` of your token";
        assert_eq!(hs256("t-2", good.as_ref(), "message"), unknown);
        let by_ticket = SenderKeys::new(&grant(), None, BTreeMap::new());
        assert_eq!(told(&by_ticket, &seal(Algorithm::Hs256, "t-1", good.as_ref()), "message"), unknown);
    }

    #[test]
    fn a_key_is_looked_up_before_what_was_signed_is_made() {
        let keys = SenderKeys::new(&grant(), Some("the.token.itself"), BTreeMap::new());
        for algorithm in [Algorithm::Hs256, Algorithm::EdDsa] {
            let refused = keys.verify(&seal(algorithm, "t-2", b""), &|| panic!("nobody can have signed it"));
            assert_eq!(refused.unwrap_err().code, Code::Forbidden, "{algorithm:?}");
        }
    }

    #[test]
    fn eddsa_takes_the_key_of_the_token_or_of_the_configuration() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&SEED).expect("a key");
        let public = Confirmation::new(PUBLIC).expect("a public key");
        assert_eq!(pair.public_key().as_ref(), public.key());
        let signed = pair.sign(b"message");
        let eddsa = |keys: &SenderKeys, id: &str, message: &str| {
            told(keys, &seal(Algorithm::EdDsa, id, signed.as_ref()), message)
        };

        let own = SenderKeys::new(&Grant { confirmation: Some(public.clone()), ..grant() }, None, BTreeMap::new());
        assert_eq!(eddsa(&own, "t-1", "message"), "verified", "a key without a name has the token's");
        assert_eq!(eddsa(&own, "t-1", "massage"), "forbidden: `metadata.integrity` is not that of the message");
        let unknown = "forbidden: `metadata.integrity.keyId` names no key that is known here";
        assert_eq!(eddsa(&own, "k-1", "message"), unknown);

        let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": PUBLIC, "kid": "k-1" });
        let named = Grant { confirmation: Confirmation::from_jwk(&jwk), ..grant() };
        assert_eq!(eddsa(&SenderKeys::new(&named, None, BTreeMap::new()), "k-1", "message"), "verified");

        let common = SenderKeys::new(&grant(), None, BTreeMap::from([("robots".into(), public)]));
        assert_eq!(eddsa(&common, "robots", "message"), "verified");
        assert_eq!(eddsa(&common, "t-1", "message"), unknown);
        // The algorithm is the key's: a public key is no shared secret.
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &SEED), b"message");
        let confused = seal(Algorithm::Hs256, "robots", tag.as_ref());
        assert_eq!(
            told(&common, &confused, "message"),
            "forbidden: `metadata.integrity.keyId` must be the `jti` of your token"
        );
    }
}
