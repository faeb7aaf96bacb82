//! The tokens of one guest: which requests carry, which are refreshed, and what a person has to do when that is not enough.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::challenge::BearerChallenge;
use super::exchange::OAuthRequest;
use super::metadata::{ProtectedResource, resource_addresses};
use super::running::{now, perform};
use super::tokens::{UpstreamTokens, union};
use super::wire::OAuthWire;
use super::{AuthorizationError, OAuthOptions, ResourceUrl};

/// How often it is looked whether somebody has signed in.
const STORE_POLL: Duration = Duration::from_secs(2);

/// After this long the server is asked again all the same: what it lacked may have been its own fault.
const RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

/// How many times in a guest's life more scopes are asked for.
const MAX_STEP_UPS: usize = 8;

/// The way of one guest to its tokens.
#[derive(Debug)]
pub(crate) struct GuestAccess {
    resource: ResourceUrl,
    options: OAuthOptions,
    /// Whether tokens that are there already are used.
    uses_stored: bool,
    held: Mutex<Option<Arc<UpstreamTokens>>>,
    /// Held by the one task that refreshes; with the refresh token that was refused last, which is not used again.
    renewing: tokio::sync::Mutex<Option<String>>,
    needs: watch::Sender<AccessNeeds>,
}

/// What a person has to do.
#[derive(Debug, Default)]
struct AccessNeeds {
    sign_in: Option<SignInNeed>,
    step_up: Option<SignInNeed>,
    /// The scopes that were asked for so far.
    stepped_up: Vec<String>,
}

/// Why somebody has to sign in, and what to ask for then.
#[derive(Debug, Clone)]
pub(crate) struct SignInNeed {
    pub(crate) challenge: BearerChallenge,
    pub(crate) why: String,
    /// The access token that is no good any more.
    refused: Option<String>,
}

impl GuestAccess {
    /// Takes what is stored for the server.
    pub(crate) fn new(resource: ResourceUrl, options: OAuthOptions) -> Self {
        let access = Self { uses_stored: true, ..Self::for_sign_in(resource, options) };
        if let Some(tokens) = access.stored() {
            access.hold(tokens);
        }
        access
    }

    /// For a sign-in: tokens that are stored are left alone.
    pub(super) fn for_sign_in(resource: ResourceUrl, options: OAuthOptions) -> Self {
        Self {
            resource,
            options,
            uses_stored: false,
            held: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            needs: watch::Sender::default(),
        }
    }

    pub(crate) fn resource(&self) -> &ResourceUrl {
        &self.resource
    }

    fn stored(&self) -> Option<UpstreamTokens> {
        self.options.store.read(&self.resource).unwrap_or_else(|why| {
            let resource = self.resource.as_str();
            tracing::warn!(resource, "oauth: stored tokens unreadable, going on without: {why}");
            None
        })
    }

    fn hold(&self, tokens: UpstreamTokens) -> Arc<UpstreamTokens> {
        let tokens = Arc::new(tokens);
        *self.held.lock() = Some(tokens.clone());
        tokens
    }

    /// The tokens there are, whether or not they are good.
    pub(crate) fn held(&self) -> Option<Arc<UpstreamTokens>> {
        self.held.lock().clone()
    }

    /// The tokens for a request, refreshed where that is due.
    pub(crate) async fn tokens(self: &Arc<Self>) -> Option<Arc<UpstreamTokens>> {
        let held = self.held()?;
        if !held.is_due(now()) {
            return Some(held);
        }
        // Those that are there may still be good; if not, the server says so.
        Some(self.renew(held.clone()).await.unwrap_or(held))
    }

    /// What to try instead of tokens, or of none, that were answered with 401. `None` where nothing is left to try.
    pub(crate) async fn refused(
        self: &Arc<Self>,
        used: Option<Arc<UpstreamTokens>>,
        challenge: Option<BearerChallenge>,
    ) -> Option<Arc<UpstreamTokens>> {
        let Some(used) = used else {
            if let Some(stored) = self.uses_stored.then(|| self.stored()).flatten() {
                return Some(self.hold(stored));
            }
            let challenge = challenge.unwrap_or_default();
            if self.names_metadata(&challenge).await {
                self.require(None, challenge, "it wants a sign-in".into());
            }
            return None;
        };
        match self.renew(used.clone()).await {
            Ok(tokens) => Some(tokens),
            Err(why) if why.is_final() => {
                self.require(
                    Some(&used),
                    challenge.unwrap_or_default(),
                    format!("its tokens are no good any more: {why}"),
                );
                None
            }
            Err(why) => {
                let resource = self.resource.as_str();
                tracing::warn!(resource, "oauth: tokens not refreshed, trying again at the next request: {why}");
                None
            }
        }
    }

    /// New tokens were refused as well.
    pub(crate) fn refused_again(&self, used: &UpstreamTokens, challenge: Option<BearerChallenge>) {
        self.require(Some(used), challenge.unwrap_or_default(), "it refuses its tokens".into());
    }

    /// A request needed more scopes than the tokens have (RFC 6750 §3.1). Asked for once.
    pub(crate) fn lacks_scope(&self, used: &UpstreamTokens, challenge: BearerChallenge) {
        let Some(wanted) = union(used.scope.as_deref(), challenge.scope.as_deref()) else { return };
        self.needs.send_if_modified(|needs| {
            if needs.stepped_up.contains(&wanted) || needs.stepped_up.len() == MAX_STEP_UPS {
                return false;
            }
            needs.stepped_up.push(wanted.clone());
            let why = format!("a request needs other scopes: {}", super::error::shown(&wanted));
            let challenge = BearerChallenge { scope: Some(wanted), ..challenge };
            needs.step_up = Some(SignInNeed { challenge, why, refused: Some(used.access_token.clone()) });
            true
        });
    }

    fn require(&self, used: Option<&UpstreamTokens>, challenge: BearerChallenge, why: String) {
        let refused = used.map(|used| used.access_token.clone());
        // A late answer to tokens that have been replaced since.
        if self.held.lock().as_ref().is_some_and(|held| Some(&held.access_token) != refused.as_ref()) {
            return;
        }
        self.needs.send_modify(|needs| needs.sign_in = Some(SignInNeed { challenge, why, refused }));
    }

    /// Whether the server is one of OAuth: it says where its metadata is, or has some in a well-known place.
    async fn names_metadata(&self, challenge: &BearerChallenge) -> bool {
        if challenge.resource_metadata.is_some() {
            return true;
        }
        let Ok(wire) = OAuthWire::open(&self.resource).await else { return false };
        for address in resource_addresses(&self.resource, None).into_iter().flatten() {
            let answer = wire.ask(OAuthRequest::get(address)).await;
            if answer.is_ok_and(|answer| ProtectedResource::read(&answer, &self.resource).is_ok()) {
                return true;
            }
        }
        false
    }

    /// New tokens in place of some that are due or were refused. Other tasks wait for them, and other processes.
    async fn renew(self: &Arc<Self>, used: Arc<UpstreamTokens>) -> Result<Arc<UpstreamTokens>, AuthorizationError> {
        let access = self.clone();
        // A task of its own: a request may be abandoned, but a refresh token that was replaced must be stored.
        let renewal = tokio::spawn(async move { access.renew_alone(&used).await });
        renewal.await.unwrap_or_else(|failed| Err(AuthorizationError::Answer(failed.to_string())))
    }

    async fn renew_alone(&self, used: &UpstreamTokens) -> Result<Arc<UpstreamTokens>, AuthorizationError> {
        let mut refused = self.renewing.lock().await;
        let _lock = self.lock().await?;
        // Another task, or another process, may have been first.
        let held = self.held();
        let newest = self.stored().or_else(|| held.as_deref().cloned()).unwrap_or_else(|| used.clone());
        if newest.access_token != used.access_token && !newest.is_due(now()) {
            return Ok(self.hold(newest));
        }
        let request = newest.refresh().filter(|_| *refused != newest.refresh_token);
        let request = request.ok_or_else(|| AuthorizationError::Refused("there is no refresh token".into()))?;
        let answer = OAuthWire::open(&self.resource).await?.ask(request).await?;
        let tokens = newest.refreshed(&answer, now()).inspect_err(|why| {
            if why.is_final() {
                refused.clone_from(&newest.refresh_token);
            }
        })?;
        // Before they are used: the old refresh token may be void by now.
        if let Err(why) = self.options.store.write(&self.resource, &tokens) {
            let resource = self.resource.as_str();
            tracing::warn!(resource, "oauth: new tokens not stored, a restart will need a sign-in: {why}");
        }
        Ok(self.hold(tokens))
    }

    pub(crate) fn sign_in_need(&self) -> Option<SignInNeed> {
        self.needs.borrow().sign_in.clone()
    }

    /// Waits until somebody has to sign in.
    pub(crate) async fn until_sign_in_needed(&self) -> String {
        let mut needs = self.needs.subscribe();
        let needed = needs.wait_for(|needs| needs.sign_in.is_some()).await;
        let why = needed.ok().and_then(|needs| needs.sign_in.as_ref().map(|need| need.why.clone()));
        why.expect("the sender is ours, and there is a need")
    }

    /// Has a person sign in, or waits until somebody has done so elsewhere.
    pub(crate) async fn sign_in(&self, need: &SignInNeed) -> Result<(), AuthorizationError> {
        if self.options.prompt.is_some() {
            self.sign_in_now(&need.challenge).await?;
        } else {
            self.wait_for_tokens(need.refused.as_deref(), RETRY_AFTER).await;
        }
        self.needs.send_modify(|needs| needs.sign_in = None);
        Ok(())
    }

    /// Runs the flow and stores what comes of it.
    pub(super) async fn sign_in_now(
        &self,
        challenge: &BearerChallenge,
    ) -> Result<Arc<UpstreamTokens>, AuthorizationError> {
        let Some(prompt) = &self.options.prompt else { return Err(AuthorizationError::Expired) };
        let wanted = self.stored().and_then(|stored| stored.wanted_scope);
        let tokens = perform(&self.resource, challenge, wanted, &self.options, prompt).await?;
        self.options.store.write(&self.resource, &tokens)?;
        Ok(self.hold(tokens))
    }

    /// Until there are other tokens than those that were refused, for so long at most.
    async fn wait_for_tokens(&self, refused: Option<&str>, limit: Duration) {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            sleep(STORE_POLL).await;
            if let Some(stored) = self.stored().filter(|stored| Some(&*stored.access_token) != refused) {
                self.hold(stored);
                return;
            }
        }
    }

    /// Asks for more scopes whenever a request needed them, while the guest goes on. `announce` gets why.
    pub(crate) async fn step_up(&self, announce: impl Fn(&str)) -> Infallible {
        let mut needs = self.needs.subscribe();
        loop {
            let needed = needs.wait_for(|needs| needs.step_up.is_some()).await;
            let need = needed.ok().and_then(|needs| needs.step_up.clone());
            let need = need.expect("the sender is ours, and there is a need");
            self.needs.send_if_modified(|needs| {
                needs.step_up = None;
                false
            });
            announce(&need.why);
            let outcome = match self.options.prompt {
                Some(_) => self.sign_in_now(&need.challenge).await.map(drop),
                None => self.remember_scope(&need.challenge).await,
            };
            match outcome {
                Ok(()) if self.options.prompt.is_some() => {}
                Ok(()) => self.wait_for_tokens(need.refused.as_deref(), RETRY_AFTER).await,
                Err(why) => {
                    let resource = self.resource.as_str();
                    tracing::warn!(resource, "oauth: no tokens with other scopes, keeping those there are: {why}");
                }
            }
        }
    }

    /// Stores what the next sign-in is to ask for.
    async fn remember_scope(&self, challenge: &BearerChallenge) -> Result<(), AuthorizationError> {
        let _alone = self.renewing.lock().await;
        let _lock = self.lock().await?;
        match self.stored() {
            Some(stored) => {
                let wanted = union(stored.wanted_scope.as_deref(), challenge.scope.as_deref());
                let mut tokens = stored;
                tokens.wanted_scope = wanted;
                self.options.store.write(&self.resource, &tokens).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Waits for other processes.
    async fn lock(&self) -> Result<std::fs::File, AuthorizationError> {
        let (store, resource) = (self.options.store.clone(), self.resource.clone());
        let locked = tokio::task::spawn_blocking(move || store.lock(&resource)).await;
        locked.unwrap_or_else(|failed| Err(AuthorizationError::Answer(failed.to_string())))
    }
}
