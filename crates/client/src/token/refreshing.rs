use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::{Token, TokenError, TokenProvider};

/// A token is replaced this long before it expires, or in the last tenth of a short one's life.
const MARGIN: Duration = Duration::from_secs(60);

/// Tokens from an async closure, kept until shortly before they expire.
///
/// When a token expires is read from its `exp` claim, unverified; one without it is kept until the gateway refuses it. The closure runs
/// once at a time: those who want a token meanwhile share what it gives.
///
/// ```
/// use salon_client::{Refreshing, Token, TokenError};
///
/// let tokens = Refreshing::new(|| async {
///     // Ask an identity provider here.
///     Ok::<_, TokenError>(Token::from("eyJhbGciOi…"))
/// });
/// ```
pub struct Refreshing<F> {
    fetch: F,
    kept: Kept,
}

impl<F, Fut> Refreshing<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Token, TokenError>> + Send + 'static,
{
    /// Takes tokens from `fetch`.
    pub fn new(fetch: F) -> Self {
        Self { fetch, kept: Kept::default() }
    }
}

impl<F, Fut> TokenProvider for Refreshing<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Token, TokenError>> + Send + 'static,
{
    fn token(&self, refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        self.kept.get(refresh, &self.fetch).boxed()
    }
}

impl<F> fmt::Debug for Refreshing<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refreshing").finish_non_exhaustive()
    }
}

/// A token, and until when it is handed out.
type Fetched = (Token, Option<SystemTime>);

/// The last token that was fetched and how long it is worth keeping, or why there is none.
#[derive(Debug, Default)]
pub(super) struct Kept {
    last: Mutex<Option<Result<Fetched, TokenError>>>,
    /// How often one was fetched. Whoever waited while it changed takes what came of it, though it came to ask for a refresh.
    fetched: AtomicU64,
}

impl Kept {
    pub(super) async fn get<Fut>(&self, refresh: bool, fetch: impl Fn() -> Fut) -> Result<Token, TokenError>
    where
        Fut: Future<Output = Result<Token, TokenError>>,
    {
        let seen = self.fetched.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        let shared = self.fetched.load(Ordering::Acquire) != seen;
        match &*last {
            Some(Ok((token, until))) if (shared || !refresh) && until.is_none_or(|until| SystemTime::now() < until) => {
                return Ok(token.clone());
            }
            Some(Err(error)) if shared => return Err(error.clone()),
            _ => {}
        }
        let fetched = fetch().await.map(|token| {
            let until = expiry(token.expose()).map(|expiry| keep_until(SystemTime::now(), expiry));
            (token, until)
        });
        self.fetched.fetch_add(1, Ordering::Release);
        last.insert(fetched).clone().map(|(token, _)| token)
    }
}

/// Until when a token that expires at `expiry` is handed out.
fn keep_until(now: SystemTime, expiry: SystemTime) -> SystemTime {
    let left = expiry.duration_since(now).unwrap_or_default();
    now + left - MARGIN.min(left / 10)
}

/// The `exp` claim of a JWT, unverified.
fn expiry(token: &str) -> Option<SystemTime> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let claims = token.split('.').nth(1)?;
    let Claims { exp } = serde_json::from_slice(&base64url(claims)?).ok()?;
    // A negative or absurd time is no time.
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(exp).ok()?)
}

/// Decodes unpadded base64url.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_read_without_verifying() {
        // {"exp":1700000000}
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(expiry("e30.eyJleHAiOjE3MDAwMDAwMDB9.sig"), Some(at(1_700_000_000)));
        // {"exp":-1}, {}, no JSON, not base64, no JWT
        for token in ["e30.eyJleHAiOi0xfQ.x", "e30.e30.x", "e30.AAAA.x", "e30.*.x", "opaque"] {
            assert_eq!(expiry(token), None, "{token}");
        }
    }

    #[test]
    fn base64url_decodes_every_length() {
        for (text, bytes) in [("", ""), ("Zg", "f"), ("Zm8", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")] {
            assert_eq!(base64url(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64url("-_8"), Some(vec![0xfb, 0xff]));
    }

    #[test]
    fn a_token_is_kept_until_shortly_before_it_expires() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let kept = |life| keep_until(now, now + Duration::from_secs(life)).duration_since(now).expect("not before now");
        assert_eq!(kept(3600), Duration::from_secs(3540));
        assert_eq!(kept(30), Duration::from_secs(27));
        assert_eq!(keep_until(now, now - Duration::from_secs(5)), now);
    }
}
