//! Public keys with which the holders of tokens sign what they say.

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{DecodingKey, DecodingKeyKind};
use serde_json::{Value, json};

/// A public key of Ed25519.
#[derive(Clone, PartialEq, Eq)]
pub struct Confirmation {
    key: [u8; 32],
    /// The key in base64url, as it was given.
    text: String,
    id: Option<String>,
}

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Confirmation({})", self.text)
    }
}

impl Confirmation {
    /// Reads a key in base64url without padding; `None` when it is invalid.
    pub fn new(text: &str) -> Option<Self> {
        Self::from_jwk(&json!({ "kty": "OKP", "crv": "Ed25519", "x": text }))
    }

    /// Reads a JSON Web Key; `None` when it is no public key of Ed25519.
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        let text = jwk["x"].as_str()?.to_owned();
        let jwk: Jwk = serde_json::from_value(jwk.clone()).ok()?;
        let AlgorithmParameters::OctetKeyPair(pair) = &jwk.algorithm else { return None };
        let decoded = DecodingKey::from_jwk(&jwk).ok()?;
        let DecodingKeyKind::SecretOrDer(bytes) = decoded.kind() else { return None };
        let key = bytes.as_slice().try_into().ok()?;
        (pair.curve == EllipticCurve::Ed25519).then_some(Self { key, text, id: jwk.common.key_id })
    }

    /// The key as a JSON Web Key.
    pub(super) fn jwk(&self) -> Value {
        let mut jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": self.text });
        if let Some(id) = &self.id {
            jwk["kid"] = json!(id);
        }
        jwk
    }

    /// The key's bytes.
    pub(crate) fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// What it is called, where it has a name.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}
