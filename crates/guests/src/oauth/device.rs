//! The device flow (RFC 8628): the person signs in on any other machine, and we ask now and then whether that has happened.

use std::fmt;
use std::time::{Duration, Instant};

use reqwest::Url;
use serde::Deserialize;

use super::AuthorizationError;
use super::address::is_loopback;
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

/// The longest code that a person is asked to type.
const MAX_USER_CODE: usize = 32;

/// The longest address that a person is shown.
const MAX_PAGE: usize = 2048;

/// What the person needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePrompt {
    /// The authorization server that gave the code out.
    pub issuer: String,
    /// What the tokens are for.
    pub resource: String,
    /// Whether the page is on another host than the authorization server, as where it passes on a code of somebody else's.
    pub is_foreign_page: bool,
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
    pub(super) fn read(
        answer: &OAuthAnswer,
        issuer: &str,
        resource: &str,
        now: Instant,
    ) -> Result<(Self, DevicePrompt), AuthorizationError> {
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
        let wrong = |why: &str| AuthorizationError::Answer(why.into());
        let page = page(&text.verification_uri).ok_or_else(|| wrong("its page for the code is not a URL of https"))?;
        let code = text.user_code;
        if code.is_empty() || code.len() > MAX_USER_CODE || !code.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("its code is not a short word"));
        }
        let complete = text.verification_uri_complete.and_then(|url| self::page(&url));
        let interval = text.interval.map_or(INTERVAL, Duration::from_secs).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let expires = now + Duration::from_secs(text.expires_in).min(MAX_LIFE);
        let prompt = DevicePrompt {
            issuer: shown(issuer),
            resource: shown(resource),
            is_foreign_page: !is_of_issuer(&page, issuer),
            complete_url: complete.filter(|url| url.origin() == page.origin()).map(String::from),
            url: page.into(),
            code,
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

    /// Takes the answer. A server that cannot be reached, or is in trouble, is asked more seldom (RFC 8628 §3.5).
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
            Ok(answer) if answer.is_passing() && now < self.expires => {
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
            // The reader of the tokens reports any other error.
            _ => Ok(DevicePoll::Granted(answer)),
        }
    }
}

/// A page that a person may be sent to.
fn page(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|url| url.as_str().len() <= MAX_PAGE)?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    Some(url).filter(|_| is_plain && is_safe)
}

/// Whether a page is on the issuer's host, or on one below it.
fn is_of_issuer(page: &Url, issuer: &str) -> bool {
    let issuer = Url::parse(issuer).ok();
    match (page.host_str(), issuer.as_ref().and_then(Url::host_str)) {
        (Some(host), Some(issuer)) => {
            host == issuer || host.strip_suffix(issuer).is_some_and(|above| above.ends_with('.'))
        }
        _ => false,
    }
}
