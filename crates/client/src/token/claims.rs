//! The claims of a token. Deliberately absent: verifying its signature.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use salon_protocol::Members;

use super::Token;

impl Token {
    /// The claims of a signed JWT as written; `None` when it is not a JWT. They prove nothing: only the gateway verifies.
    pub fn claims(&self) -> Option<Members> {
        let [_, claims, _] = self.0.split('.').collect::<Vec<_>>()[..] else { return None };
        Members::parse(std::str::from_utf8(&base64url(claims)?).ok()?)
    }

    /// When it expires (`exp`), unverified. `None` for a negative or absurd time.
    pub fn expires(&self) -> Option<SystemTime> {
        self.time("exp")
    }

    /// From when on it is valid (`nbf`), unverified.
    pub fn begins(&self) -> Option<SystemTime> {
        self.time("nbf")
    }

    fn time(&self, claim: &str) -> Option<SystemTime> {
        let seconds: f64 = serde_json::from_str(self.claims()?.get(claim)?.get()).ok()?;
        UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }
}

/// Decodes base64url (RFC 4648 §5), with or without its padding.
fn base64url(text: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.trim_end_matches('=').as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_without_verifying() {
        // {"sub":"alice","exp":1700000000}
        let token = Token::from("e30.eyJzdWIiOiJhbGljZSIsImV4cCI6MTcwMDAwMDAwMH0.sig");
        assert_eq!(token.claims().expect("claims").get("sub").expect("a claim").get(), r#""alice""#);
        assert_eq!(token.expires(), Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)));
        assert_eq!(token.begins(), None);
        // {"exp":-1}, {}
        for token in ["e30.eyJleHAiOi0xfQ.x", "e30.e30.x"] {
            assert!(Token::from(token).claims().is_some(), "{token}");
            assert_eq!(Token::from(token).expires(), None, "{token}");
        }
        // No JSON, no object, not base64, no JWT, an encrypted one.
        for token in ["e30.AAAA.x", "e30.W10.x", "e30.*.x", "opaque", "e30.e30", "e30.e30.e30.e30.e30"] {
            assert!(Token::from(token).claims().is_none(), "{token}");
        }
    }

    #[test]
    fn base64url_decodes_every_length() {
        for (text, bytes) in [("", ""), ("Zg", "f"), ("Zm8", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")] {
            assert_eq!(base64url(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64url("-_8"), Some(vec![0xfb, 0xff]));
    }
}
