//! The device flow (RFC 8628): the person signs in on any other machine, and we ask now and then whether that has happened.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::AuthorizationError;
use super::client::DEVICE_GRANT;
use super::error::shown;
use super::exchange::{Form, OAuthAnswer};

/// How long to wait between questions where the server does not say (RFC 8628 §3.2), and what `slow_down` adds (§3.5).
const INTERVAL: Duration = Duration::from_secs(5);

/// No server makes us ask faster, or slower.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// A code is good for no longer, whatever the server says.
const MAX_LIFE: Duration = Duration::from_secs(60 * 60);

/// What the person needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePrompt {
    /// The page.
    pub url: String,
    /// What to type there.
    pub code: String,
    /// The page with the code in it already.
    pub complete_url: Option<String>,
}

/// A device code, and when to ask about it.
pub(super) struct DeviceGrant {
    code: String,
    interval: Duration,
    expires: Instant,
}

impl fmt::Debug for DeviceGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceGrant").field("interval", &self.interval).finish_non_exhaustive()
    }
}

/// What a question came to.
pub(super) enum DevicePoll {
    Granted(OAuthAnswer),
    Pending,
}

impl DeviceGrant {
    pub(super) fn read(answer: &OAuthAnswer, now: Instant) -> Result<(Self, DevicePrompt), AuthorizationError> {
        #[derive(Deserialize)]
        struct DeviceText {
            device_code: String,
            user_code: String,
            verification_uri: String,
            verification_uri_complete: Option<String>,
            expires_in: u64,
            interval: Option<u64>,
        }
        let text: DeviceText = answer.read()?;
        let is_page = |url: &str| url.starts_with("https://") || url.starts_with("http://");
        if !is_page(&text.verification_uri) {
            return Err(AuthorizationError::Answer("its page for the code is not a URL".into()));
        }
        let interval = text.interval.map_or(INTERVAL, Duration::from_secs).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let expires = now + Duration::from_secs(text.expires_in).min(MAX_LIFE);
        let prompt = DevicePrompt {
            url: shown(&text.verification_uri),
            code: shown(&text.user_code),
            complete_url: text.verification_uri_complete.filter(|url| is_page(url)).map(|url| shown(&url)),
        };
        Ok((Self { code: text.device_code, interval, expires }, prompt))
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// The question, without the client.
    pub(super) fn poll(&self, now: Instant) -> Result<Form, AuthorizationError> {
        if now >= self.expires {
            return Err(AuthorizationError::Expired);
        }
        Ok(Form::default().with("grant_type", DEVICE_GRANT).with("device_code", &self.code))
    }

    /// Takes the answer. A server that cannot be reached is asked more seldom (RFC 8628 §3.5).
    pub(super) fn polled(
        &mut self,
        answer: Result<OAuthAnswer, AuthorizationError>,
        now: Instant,
    ) -> Result<DevicePoll, AuthorizationError> {
        let answer = match answer {
            Err(AuthorizationError::Unreachable { .. }) if now < self.expires => {
                self.interval = (self.interval * 2).min(MAX_INTERVAL);
                return Ok(DevicePoll::Pending);
            }
            answer => answer?,
        };
        match answer.error().as_ref().map(|failure| &*failure.error) {
            Some("authorization_pending") => Ok(DevicePoll::Pending),
            Some("slow_down") => {
                self.interval = (self.interval + INTERVAL).min(MAX_INTERVAL);
                Ok(DevicePoll::Pending)
            }
            Some("access_denied") => Err(AuthorizationError::Denied),
            Some("expired_token") => Err(AuthorizationError::Expired),
            // Any other error is told by whoever reads the tokens.
            _ => Ok(DevicePoll::Granted(answer)),
        }
    }
}
