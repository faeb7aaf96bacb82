use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use super::{Token, TokenError, TokenProvider};

/// A token is replaced this long before it expires, or in the last tenth of a short one's life.
const MARGIN: Duration = Duration::from_secs(60);

/// Tokens from an async closure, kept until shortly before they expire.
///
/// When a token expires is read from its `exp` claim, unverified; one without it is kept until the gateway refuses it. The closure runs
/// once at a time: callers that want a token meanwhile share the result.
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
    kept: KeptToken,
}

impl<F, Fut> Refreshing<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Token, TokenError>> + Send + 'static,
{
    /// Takes tokens from `fetch`.
    pub fn new(fetch: F) -> Self {
        Self { fetch, kept: KeptToken::default() }
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
pub(super) struct KeptToken {
    last: Mutex<Option<Result<Fetched, TokenError>>>,
    /// How often one was fetched. A caller that waited while it changed takes the result, even one that asked for a refresh.
    fetched: AtomicU64,
}

impl KeptToken {
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
            let until = token.expires().map(|expiry| keep_until(SystemTime::now(), expiry));
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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_token_is_kept_until_shortly_before_it_expires() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let kept = |life| keep_until(now, now + Duration::from_secs(life)).duration_since(now).expect("not before now");
        assert_eq!(kept(3600), Duration::from_secs(3540));
        assert_eq!(kept(30), Duration::from_secs(27));
        assert_eq!(keep_until(now, now - Duration::from_secs(5)), now);
    }
}
