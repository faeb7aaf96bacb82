//! How long one request of a session may be answered: until its own token expires, or its own sign-in ends.
//!
//! A session can be used with several tokens. Where one of them ends, what was asked with it ends, and the session goes on.

use std::sync::Arc;
use std::time::Instant;

use crate::auth::SignedInVisit;

/// What a request stands on.
#[derive(Clone)]
pub(crate) struct RequestAccess {
    pub(super) expires: Instant,
    visit: Option<Arc<SignedInVisit>>,
}

impl RequestAccess {
    /// Of a token that expires, and of a sign-in where the request stands on one.
    pub(crate) fn new(expires: Instant, visit: Option<Arc<SignedInVisit>>) -> Self {
        Self { expires, visit }
    }

    /// Waits until the token expires or the sign-in ends.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let Self { expires, visit } = self.clone();
        async move {
            let expired = tokio::time::sleep_until(expires.into());
            match visit {
                None => expired.await,
                // The visit is kept for as long as this waits: a sign-in that nobody holds is not known.
                Some(visit) => tokio::select! { () = expired => {}, () = visit.ended() => {} },
            }
        }
    }
}

#[cfg(test)]
impl From<Instant> for RequestAccess {
    fn from(expires: Instant) -> Self {
        Self::new(expires, None)
    }
}
