//! Whether a message is what its sender signed, and whether its sender may send it. The gateway knows which keys there are.

use std::fmt;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use salon_protocol::{CanonicalJson, Code, Refusal};
use serde_json::value::RawValue;

use super::message::{MachineMessage, read, wrong};

/// How a message was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256; the key is the sender's token.
    Hs256,
    /// Ed25519.
    EdDsa,
}

/// `metadata.integrity`: that a message has not been altered since its sender signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// How.
    pub algorithm: Algorithm,
    /// With which key.
    pub key_id: Box<str>,
    /// The signature.
    pub value: Box<[u8]>,
}

impl Seal {
    pub(super) fn read(raw: &RawValue) -> Result<Self, Refusal> {
        #[derive(serde::Deserialize)]
        struct Wire {
            alg: String,
            #[serde(rename = "keyId")]
            key_id: Box<str>,
            value: String,
        }
        let wire: Wire =
            read(raw).ok_or_else(|| wrong("`metadata.integrity` must have the strings `alg`, `keyId` and `value`"))?;
        let algorithm = match wire.alg.as_str() {
            "HS256" => Algorithm::Hs256,
            "EdDSA" => Algorithm::EdDsa,
            _ => return Err(wrong("`metadata.integrity.alg` must be HS256 or EdDSA")),
        };
        let value =
            decode(&wire.value).ok_or_else(|| wrong("`metadata.integrity.value` must be base64url without padding"))?;
        Ok(Self { algorithm, key_id: wire.key_id, value: value.into() })
    }
}

/// The bytes a seal is made over, which cost far more than anything else about a message: asked for when the key is known.
pub type SignedForm<'a> = &'a dyn Fn() -> Result<String, Refusal>;

/// Says whether a seal is that of a message.
pub type Verify = Arc<dyn Fn(&Seal, SignedForm<'_>) -> Result<(), Refusal> + Send + Sync>;

/// Whether a token belongs to the sender of the message.
pub type Vouch = Arc<dyn Fn(&str) -> Result<(), Refusal> + Send + Sync>;

/// What a message is held to, by the token its sender came with.
#[derive(Clone)]
pub struct Terms {
    /// What the token permits.
    pub granted: Arc<[String]>,
    /// Whether every message must be signed.
    pub sealed: bool,
    /// Knows the keys.
    pub verify: Verify,
    /// Knows tokens.
    pub vouch: Vouch,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("granted", &self.granted).field("sealed", &self.sealed).finish_non_exhaustive()
    }
}

impl Terms {
    /// Checks a message against its text.
    pub(super) fn check(&self, text: &str, message: &MachineMessage) -> Result<(), Refusal> {
        if let Some(token) = &message.security.token {
            (self.vouch)(token.text())?;
        }
        match &message.seal {
            Some(seal) => (self.verify)(seal, &|| signed(text))?,
            None if self.sealed => {
                let told = "the token demands that every message is signed: `metadata.integrity` is missing";
                return Err(Refusal::new(Code::Forbidden, told));
            }
            None => {}
        }
        let named = message.security.permissions.iter().flatten();
        if named.into_iter().any(|named| !self.granted.contains(named)) {
            let told = "`payload.security.permissions` may only narrow what the token permits";
            return Err(Refusal::new(Code::Forbidden, told));
        }
        Ok(())
    }
}

/// What is signed: the canonical form of a message without its seal.
fn signed(text: &str) -> Result<String, Refusal> {
    let mut message =
        CanonicalJson::parse(text).map_err(|why| wrong(format!("the message cannot be verified: {why}")))?;
    message.remove(&["metadata", "integrity"]);
    Ok(message.to_string())
}

/// The bytes of a message that a seal is made over: its canonical form without `metadata.integrity`. `None` where it has no such form.
pub fn signed_form(text: &str) -> Option<String> {
    signed(text).ok()
}

/// Decodes base64url without padding (RFC 4648 §5), strictly: one text for every value.
fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_read_strictly() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("Zm9vYg", b"foob"), ("_-8", b"\xff\xef")]
        {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zg==", "Zh", "Zm9", "+/8", "Zm9vY", "a b", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_signed_is_all_but_the_seal() {
        let form = |text: &str| signed(text).map_err(|refusal| refusal.message);
        assert_eq!(
            form(r#"{"payload":{"n":1.0},"metadata":{"z":1,"integrity":{"value":"x"}},"header":{}}"#).as_deref(),
            Ok(r#"{"header":{},"metadata":{"z":1},"payload":{"n":1}}"#)
        );
        assert_eq!(
            form(r#"{"metadata":{"integrity":1},"integrity":2}"#).as_deref(),
            Ok(r#"{"integrity":2,"metadata":{}}"#)
        );
        assert_eq!(
            form(r#"{"n":9007199254740993}"#).unwrap_err(),
            "the message cannot be verified: it has an integer beyond 2^53, which the canonical form cannot hold"
        );
    }
}
