//! Performs a sign-in: sends what [`GuestSignIn`] asks for, and has a person open its page or type its code.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::{sleep, timeout};

use super::challenge::BearerChallenge;
use super::redirect::RedirectListener;
use super::sign_in::{GuestSignIn, RedirectOutcome, SignInOptions, SignInStep};
use super::wire::OAuthWire;
use super::{
    AuthorizationError, GuestAccess, OAuthOptions, OAuthTokens, ResourceUrl, SignInNotice, SignInPrompt, SignInWay,
};
use crate::upstream::{GuestTarget, UpstreamError, UpstreamSetup, UrlTransport, probe};

/// How long a person may take in the browser.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long the server may take to say whether it wants a token.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// What came of [`sign_in`].
#[derive(Debug)]
pub enum GuestSignInOutcome {
    /// There are tokens, and they are stored.
    SignedIn(Box<OAuthTokens>),
    /// The server wants none.
    NotNeeded,
}

/// Why [`sign_in`] failed.
#[derive(Debug, thiserror::Error)]
pub enum GuestSignInError {
    /// The server could not be asked.
    #[error("{0}")]
    Upstream(#[from] UpstreamError),
    /// It could not be signed in.
    #[error("{0}")]
    Authorization(#[from] AuthorizationError),
    /// The server takes no token of its own authorization server.
    #[error("the server refuses the token that its authorization server gave out")]
    TokenRefused,
}

/// Signs in to a server, whether or not there are tokens for it, and stores the new ones. `options.prompt` must be there.
pub async fn sign_in(url: &str, options: OAuthOptions) -> Result<GuestSignInOutcome, GuestSignInError> {
    let resource = ResourceUrl::parse(url)?;
    let access = Arc::new(GuestAccess::for_sign_in(resource, options));
    let target = GuestTarget::Url { url: url.to_owned(), headers: Vec::new(), transport: UrlTransport::Auto };
    let setup = UpstreamSetup { access: Some(access.clone()), ..UpstreamSetup::new("login") };
    let challenge = match (probe(&target, &setup, PROBE_TIMEOUT).await, access.sign_in_need()) {
        (Ok(_), _) => return Ok(GuestSignInOutcome::NotNeeded),
        (Err(_), Some(need)) => need.challenge,
        // A server of revision 2025-03-26 has no metadata that would have been found yet.
        (Err(UpstreamError::Unauthorized { status: 401 }), None) => BearerChallenge::default(),
        (Err(why), None) => return Err(why.into()),
    };
    let tokens = access.sign_in_now(&challenge).await?;
    match probe(&target, &setup, PROBE_TIMEOUT).await {
        Err(UpstreamError::Unauthorized { .. }) => Err(GuestSignInError::TokenRefused),
        // Whatever else is wrong with it is no matter of tokens.
        _ => Ok(GuestSignInOutcome::SignedIn(Box::new(OAuthTokens::clone(&tokens)))),
    }
}

/// Runs the flow to its end.
pub(super) async fn perform(
    resource: &ResourceUrl,
    challenge: &BearerChallenge,
    scope: Option<String>,
    options: &OAuthOptions,
    prompt: &SignInPrompt,
) -> Result<OAuthTokens, AuthorizationError> {
    let wire = OAuthWire::open(resource).await?;
    let mut listener = match prompt.way {
        SignInWay::Device => None,
        SignInWay::Browser | SignInWay::DeviceIfOffered => Some(RedirectListener::bind().await?),
    };
    let (mut flow, mut step) = GuestSignIn::begin(SignInOptions {
        resource: resource.clone(),
        challenge: challenge.clone(),
        scope,
        client: options.client.clone(),
        way: prompt.way,
        redirect: listener.as_ref().map(RedirectListener::uri),
        secrets: [random_word(), random_word()],
    })?;
    loop {
        step = match step {
            SignInStep::Ask(request) => {
                let answer = wire.ask(request).await;
                flow.answered(answer, Instant::now(), now())?
            }
            SignInStep::Browse(page) => {
                // The browser is ours, so it is sent nowhere either where we would not go.
                wire.check(&page)?;
                let Some(listener) = listener.take() else { return Err(AuthorizationError::Expired) };
                (prompt.show)(&SignInNotice::Browse { url: page.into() });
                let back = listener.wait(|query| match flow.redirected(query) {
                    RedirectOutcome::Unrelated => None,
                    RedirectOutcome::Answered(step) => Some(step),
                });
                timeout(BROWSER_TIMEOUT, back).await.map_err(|_| AuthorizationError::Expired)???
            }
            SignInStep::Wait { prompt: shown, time } => {
                if let Some(shown) = shown {
                    for page in [Some(&shown.url), shown.complete_url.as_ref()].into_iter().flatten() {
                        let page = page.parse().map_err(|_| AuthorizationError::Address(page.clone()))?;
                        wire.check(&page)?;
                    }
                    (prompt.show)(&SignInNotice::Code(shown));
                }
                sleep(time).await;
                flow.waited(Instant::now())?
            }
            SignInStep::Done(tokens) => return Ok(*tokens),
        };
    }
}

/// 244 random bits as 64 characters, which is within what RFC 7636 §4.1 allows.
fn random_word() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
