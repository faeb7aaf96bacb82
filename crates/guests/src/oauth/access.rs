//! The tokens of one guest: which requests carry, which are refreshed, and what a person has to do when that is not enough.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::challenge::BearerChallenge;
use super::exchange::{OAuthAnswer, OAuthRequest};
use super::metadata::{ProtectedResource, resource_addresses};
use super::renewal::RenewalHistory;
use super::running::{now, perform};
use super::tokens::{OAuthTokens, union};
use super::wire::OAuthWire;
use super::{AuthorizationError, OAuthOptions, ResourceUrl};

/// How often it is looked whether somebody has signed in.
const STORE_POLL: Duration = Duration::from_secs(2);

/// How long after a failure tokens are stored again.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(10);

/// After this long the server is asked again all the same: what it lacked may have been its own fault.
const RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

/// How long a guest that ends waits for a refresh that is under way.
const RENEWAL_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How many times in a guest's life more scopes are asked for.
const MAX_STEP_UPS: usize = 8;

/// The way of one guest to its tokens.
#[derive(Debug)]
pub(crate) struct GuestAccess {
    resource: ResourceUrl,
    options: OAuthOptions,
    /// Whether tokens that are there already are used.
    uses_stored: bool,
    current: Mutex<Option<Arc<OAuthTokens>>>,
    /// Whether tokens have been on disk: if there are none then, somebody has signed out.
    was_stored: AtomicBool,
    /// When it last failed to store the current tokens.
    store_failed: Mutex<Option<Instant>>,
    /// Held by the one task that refreshes.
    renewing: tokio::sync::Mutex<RenewalHistory>,
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
            current: Mutex::default(),
            was_stored: AtomicBool::new(false),
            store_failed: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            needs: watch::Sender::default(),
        }
    }

    pub(crate) fn resource(&self) -> &ResourceUrl {
        &self.resource
    }

    /// Whether there is a person to sign in.
    pub(crate) fn prompts(&self) -> bool {
        self.options.prompt.is_some()
    }

    fn stored(&self) -> Option<OAuthTokens> {
        let stored = self.options.store.read(&self.resource).unwrap_or_else(|why| {
            let resource = self.resource.origin();
            tracing::warn!(resource, "oauth: stored tokens unreadable, going on without: {why}");
            None
        });
        if stored.is_some() {
            self.was_stored.store(true, Ordering::Relaxed);
        }
        stored
    }

    /// Stores tokens. The caller has the lock.
    fn store(&self, tokens: &OAuthTokens) -> Result<(), AuthorizationError> {
        let stored = self.options.store.write(&self.resource, tokens);
        *self.store_failed.lock() = stored.is_err().then(Instant::now);
        stored?;
        self.was_stored.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The newest tokens there are, or an error where somebody has signed out since. The caller has the lock.
    fn newest(&self) -> Result<Option<OAuthTokens>, AuthorizationError> {
        let stored = self.stored();
        let path = self.options.store.path(&self.resource);
        if stored.is_none()
            && self.was_stored.load(Ordering::Relaxed)
            && path.try_exists().is_ok_and(|is_there| !is_there)
        {
            self.was_stored.store(false, Ordering::Relaxed);
            *self.store_failed.lock() = None;
            *self.current.lock() = None;
            return Err(AuthorizationError::SignedOut);
        }
        Ok(OAuthTokens::newer(stored, self.current().as_deref()))
    }

    fn hold(&self, tokens: OAuthTokens) -> Arc<OAuthTokens> {
        let tokens = Arc::new(tokens);
        *self.current.lock() = Some(tokens.clone());
        tokens
    }

    /// The tokens there are, whether or not they are good.
    pub(crate) fn current(&self) -> Option<Arc<OAuthTokens>> {
        self.current.lock().clone()
    }

    /// The tokens for a request, refreshed where that is due.
    pub(crate) async fn tokens(self: &Arc<Self>) -> Option<Arc<OAuthTokens>> {
        let held = self.current()?;
        if !held.is_due(now()) {
            self.store_again();
            return Some(held);
        }
        match self.renew(held.clone()).await {
            Ok(tokens) => Some(tokens),
            Err(AuthorizationError::SignedOut) => None,
            // Those that are there may still be good; if not, the server says so.
            Err(_) => Some(held),
        }
    }

    /// Tries again to store what could not be stored, now and then.
    fn store_again(self: &Arc<Self>) {
        let mut failed = self.store_failed.lock();
        if failed.is_none_or(|at| at.elapsed() < STORE_RETRY_DELAY) {
            return;
        }
        *failed = Some(Instant::now());
        let access = self.clone();
        tokio::spawn(async move {
            if let Err(why) = access.store_held().await {
                let resource = access.resource.origin();
                tracing::warn!(resource, "oauth: tokens still not stored, retrying: {why}");
            }
        });
    }

    async fn store_held(&self) -> Result<(), AuthorizationError> {
        let _alone = self.renewing.lock().await;
        let _lock = self.lock().await?;
        match self.newest()? {
            Some(tokens) => {
                self.store(&tokens)?;
                self.hold(tokens);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// What to try instead of tokens, or of none, that were answered with 401. `None` where nothing is left to try.
    pub(crate) async fn refused(
        self: &Arc<Self>,
        used: Option<Arc<OAuthTokens>>,
        challenge: Option<BearerChallenge>,
    ) -> Option<Arc<OAuthTokens>> {
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
                let resource = self.resource.origin();
                tracing::warn!(resource, "oauth: tokens not refreshed, trying again at the next request: {why}");
                None
            }
        }
    }

    /// New tokens were refused as well.
    pub(crate) fn refused_again(&self, used: &OAuthTokens, challenge: Option<BearerChallenge>) {
        self.require(Some(used), challenge.unwrap_or_default(), "it refuses its tokens".into());
    }

    /// A request needed more scopes than the tokens have (RFC 6750 §3.1). Asked for once.
    pub(crate) fn lacks_scope(&self, used: &OAuthTokens, challenge: BearerChallenge) {
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

    fn require(&self, used: Option<&OAuthTokens>, challenge: BearerChallenge, why: String) {
        let refused = used.map(|used| used.access_token.clone());
        // A late answer to tokens that have been replaced since.
        if self.current.lock().as_ref().is_some_and(|held| Some(&held.access_token) != refused.as_ref()) {
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
            let answer = wire.ask(OAuthRequest::get(address.clone())).await;
            if answer.is_ok_and(|answer| ProtectedResource::read(&answer, &address, &self.resource).is_ok()) {
                return true;
            }
        }
        false
    }

    /// New tokens in place of some that are due or were refused. Other tasks wait for them, and other processes.
    async fn renew(self: &Arc<Self>, used: Arc<OAuthTokens>) -> Result<Arc<OAuthTokens>, AuthorizationError> {
        let access = self.clone();
        // A task of its own: a request may be abandoned, but a refresh token that was replaced must be stored.
        let renewal = tokio::spawn(async move { access.renew_alone(&used).await });
        renewal.await.unwrap_or_else(|failed| Err(AuthorizationError::Answer(failed.to_string())))
    }

    async fn renew_alone(&self, used: &OAuthTokens) -> Result<Arc<OAuthTokens>, AuthorizationError> {
        let mut history = self.renewing.lock().await;
        let _lock = self.lock().await?;
        // Another task, or another process, may have been first.
        let newest = self.newest()?.ok_or(AuthorizationError::SignedOut)?;
        if newest.access_token != used.access_token && !newest.is_due(now()) {
            return Ok(self.hold(newest));
        }
        let request = newest.refresh();
        let request = request.ok_or_else(|| AuthorizationError::Void("there is no refresh token".into()))?;
        history.may_try(&newest, Instant::now())?;
        let refreshed = match self.ask(request).await {
            Ok(answer) => newest.refreshed(&answer, now()),
            Err(why) => Err(why),
        };
        let tokens = refreshed.inspect_err(|why| history.record(&newest, why, Instant::now()))?;
        // Before they are used: the old refresh token may be void by now.
        if let Err(why) = self.store(&tokens) {
            let resource = self.resource.origin();
            tracing::warn!(resource, "oauth: new tokens not stored, retrying; a restart before needs a sign-in: {why}");
        }
        Ok(self.hold(tokens))
    }

    async fn ask(&self, request: OAuthRequest) -> Result<OAuthAnswer, AuthorizationError> {
        OAuthWire::open(&self.resource).await?.ask(request).await
    }

    /// Waits, for a bounded time, until a refresh that is under way has been stored. Otherwise the refresh token that it replaced
    /// would be the stored one, and the next start would need a person.
    pub(crate) async fn finish_renewal(&self) {
        if tokio::time::timeout(RENEWAL_DRAIN_TIMEOUT, self.renewing.lock()).await.is_err() {
            let resource = self.resource.origin();
            tracing::warn!(resource, "oauth: a refresh did not end in time, the next start may need a sign-in");
        }
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
    ) -> Result<Arc<OAuthTokens>, AuthorizationError> {
        let Some(prompt) = &self.options.prompt else { return Err(AuthorizationError::Expired) };
        let wanted = self.stored().and_then(|stored| stored.wanted_scope);
        let mut tokens = perform(&self.resource, challenge, wanted, &self.options, prompt).await?;
        // A refresh that is under way must not replace them.
        let _alone = self.renewing.lock().await;
        let _lock = self.lock().await?;
        for other in [self.stored().as_ref(), self.current().as_deref()].into_iter().flatten() {
            tokens.follow(other);
        }
        self.store(&tokens)?;
        Ok(self.hold(tokens))
    }

    /// Until there are other tokens than those that were refused, for so long at most.
    async fn wait_for_tokens(&self, refused: Option<&str>, limit: Duration) {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            sleep(STORE_POLL).await;
            let held = self.current();
            let is_new = |stored: &OAuthTokens| {
                let is_stale = held.as_ref().is_some_and(|held| stored.generation < held.generation);
                Some(&*stored.access_token) != refused && !is_stale
            };
            if let Some(stored) = self.stored().filter(is_new) {
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
                    let resource = self.resource.origin();
                    tracing::warn!(resource, "oauth: no tokens with other scopes, keeping those there are: {why}");
                }
            }
        }
    }

    /// Stores what the next sign-in is to ask for.
    async fn remember_scope(&self, challenge: &BearerChallenge) -> Result<(), AuthorizationError> {
        let _alone = self.renewing.lock().await;
        let _lock = self.lock().await?;
        match self.newest()? {
            Some(mut tokens) => {
                tokens.wanted_scope = union(tokens.wanted_scope.as_deref(), challenge.scope.as_deref());
                self.store(&tokens)
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
