//! A token as an old version made it, but for when it begins and ends.

use std::time::SystemTime;

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD as BASE64;
use serde_json::{Value, json};

use super::TEST_KEY;
use crate::Failure;

/// How long it is good for, in seconds: longer than any test takes.
const LIFETIME: u64 = 24 * 60 * 60;

/// Signs the claims of a token again, as if it had been made just now. Header and all other claims stay as the old version wrote them.
pub(super) fn extended(token: &str) -> Result<String, Failure> {
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, _] = parts[..] else { return Err("a token has three parts".into()) };
    let claims = BASE64.decode(claims.as_bytes()).map_err(|e| format!("the claims are not base64url: {e}"))?;
    let mut claims: Value = serde_json::from_slice(&claims).map_err(|e| format!("the claims are not JSON: {e}"))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|e| e.to_string())?.as_secs();
    claims["iat"] = json!(now);
    claims["exp"] = json!(now + LIFETIME);
    let signed = format!("{header}.{}", BASE64.encode(claims.to_string().as_bytes()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, TEST_KEY), signed.as_bytes());
    Ok(format!("{signed}.{}", BASE64.encode(tag.as_ref())))
}
