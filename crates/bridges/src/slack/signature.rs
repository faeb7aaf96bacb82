//! Signatures of Slack's requests.
//!
//! Slack, "Verifying requests from Slack": `v0=` and the HMAC-SHA256 of `v0:TIMESTAMP:BODY` with the signing secret. A request that is older
//! than five minutes may be a recorded one.

use aws_lc_rs::hmac;
use salon_protocol::Timestamp;

/// How far Slack's clock and this one may be apart, in seconds.
const TOLERANCE_SECONDS: u64 = 5 * 60;

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSignature {
    #[error("the headers `X-Slack-Request-Timestamp` and `X-Slack-Signature` are missing or malformed")]
    Missing,
    #[error("the request is too old")]
    Stale,
    #[error("the signature is not Slack's")]
    Wrong,
}

/// Checks a request, in time that does not depend on where the signature differs.
pub fn verify(
    secret: &str,
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), InvalidSignature> {
    let (Some(timestamp), Some(signature)) = (timestamp, signature) else { return Err(InvalidSignature::Missing) };
    let sent: u64 = timestamp.parse().map_err(|_| InvalidSignature::Missing)?;
    let tag = signature.strip_prefix("v0=").and_then(decode_hex).ok_or(InvalidSignature::Missing)?;
    if (now.0 / 1000).abs_diff(sent) > TOLERANCE_SECONDS {
        return Err(InvalidSignature::Stale);
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = [b"v0:", timestamp.as_bytes(), b":", body].concat();
    hmac::verify(&key, &signed, &tag).map_err(|_| InvalidSignature::Wrong)
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? * 16 + digit(pair[1])?)).collect()
}
