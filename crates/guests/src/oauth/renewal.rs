//! What became of earlier refreshes of a guest's tokens: calls that wait for one share its failure instead of repeating it.

use std::time::Duration;

use tokio::time::Instant;

use super::AuthorizationError;
use super::tokens::OAuthTokens;

/// For so long a refresh that failed is not tried again with the same tokens.
const RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The last refresh that failed.
#[derive(Debug, Default)]
pub(super) struct RenewalHistory {
    /// The refresh token that was refused last. It is not used again (RFC 6749 §10.4: its reuse can void all tokens).
    void: Option<String>,
    failed: Option<RenewalFailure>,
}

#[derive(Debug)]
struct RenewalFailure {
    access_token: String,
    at: Instant,
    why: String,
}

impl RenewalHistory {
    /// Whether these tokens may be refreshed now.
    pub(super) fn may_try(&self, tokens: &OAuthTokens, now: Instant) -> Result<(), AuthorizationError> {
        if self.void.is_some() && self.void == tokens.refresh_token {
            return Err(AuthorizationError::Void("the refresh token was refused".into()));
        }
        match &self.failed {
            Some(failed) if failed.covers(tokens, now) => Err(AuthorizationError::NotRenewed(failed.why.clone())),
            _ => Ok(()),
        }
    }

    pub(super) fn record(&mut self, tokens: &OAuthTokens, why: &AuthorizationError, now: Instant) {
        if why.is_final() {
            self.void.clone_from(&tokens.refresh_token);
        } else {
            let access_token = tokens.access_token.clone();
            self.failed = Some(RenewalFailure { access_token, at: now, why: why.to_string() });
        }
    }
}

impl RenewalFailure {
    fn covers(&self, tokens: &OAuthTokens, now: Instant) -> bool {
        self.access_token == tokens.access_token && now.duration_since(self.at) < RENEWAL_RETRY_DELAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::tests::tokens;

    #[test]
    fn a_failure_is_shared_for_a_while_and_only_for_its_tokens() {
        let (first, start) = (tokens("first"), Instant::now());
        let mut history = RenewalHistory::default();
        assert!(history.may_try(&first, start).is_ok());
        history.record(&first, &AuthorizationError::Answer("503".into()), start);
        let shared = history.may_try(&first, start + Duration::from_secs(4)).unwrap_err();
        assert!(!shared.is_final() && shared.to_string().contains("503"), "{shared}");
        assert!(history.may_try(&tokens("second"), start).is_ok());
        assert!(history.may_try(&first, start + RENEWAL_RETRY_DELAY).is_ok());
    }

    #[test]
    fn a_refused_refresh_token_is_never_used_again() {
        let (first, start) = (tokens("first"), Instant::now());
        let mut history = RenewalHistory::default();
        history.record(&first, &AuthorizationError::Void("invalid_grant".into()), start);
        assert!(history.may_try(&first, start + Duration::from_secs(3600)).unwrap_err().is_final());
        assert!(history.may_try(&tokens("second"), start).is_ok());
    }
}
