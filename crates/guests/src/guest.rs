//! A guest's life: start the server, enter, serve, leave, and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use salon_client::Entering;
use tokio_util::sync::CancellationToken;

use crate::oauth::{AuthorizationError, GuestAccess, ResourceUrl};
use crate::stay::{GuestStay, StayOutcome};
use crate::upstream::{GuestTarget, ProbeVerdict};
use crate::{GuestError, GuestStatus, RestartPolicy, Spec};

/// A stay that lasted this long was no failure: the next start is the first again.
const RESET_BACKOFF_AFTER: Duration = Duration::from_secs(30);

/// How long the result of a probe is kept.
const VERDICT_TIME: Duration = Duration::from_secs(600);

/// What was found out about a server, and when.
pub(crate) struct ProbeRecord {
    verdict: Arc<ProbeVerdict>,
    since: Instant,
}

impl ProbeRecord {
    pub(crate) fn new(verdict: Arc<ProbeVerdict>) -> Self {
        Self { verdict, since: Instant::now() }
    }

    /// What is known, unless that was too long ago.
    pub(crate) fn fresh(known: Option<&Self>) -> Option<Arc<ProbeVerdict>> {
        known.filter(|known| known.since.elapsed() < VERDICT_TIME).map(|known| known.verdict.clone())
    }
}

/// Keeps an MCP server in a room until `shutdown`, or until its seat is lost for good.
///
/// The room sees the guest only while its server works. `entering` is called for every stay: it says where to go in, as whom, under
/// which name and kind; the revisions and who answers are the guest's to say. `watch` gets every change of its status and must not block.
pub async fn run(
    spec: Spec,
    entering: impl Fn() -> Entering,
    shutdown: CancellationToken,
    watch: impl Fn(GuestStatus),
) -> Result<(), GuestError> {
    // A fault at the first start is permanent; a later one may pass.
    if let Err(why) = spec.target.check() {
        return Err(GuestError::Unusable { name: spec.name, why });
    }
    let access = access(&spec);
    let outcome = stay_until(spec, access.as_ref(), entering, &shutdown, watch).await;
    if let Some(access) = access {
        access.finish_renewal().await;
    }
    outcome
}

/// One stay after another, until `shutdown` or a fault that is permanent.
async fn stay_until(
    spec: Spec,
    access: Option<&Arc<GuestAccess>>,
    entering: impl Fn() -> Entering,
    shutdown: &CancellationToken,
    watch: impl Fn(GuestStatus),
) -> Result<(), GuestError> {
    let spec = Arc::new(spec);
    let has_worked = AtomicBool::new(false);
    let watch = |status: GuestStatus| {
        has_worked.fetch_or(matches!(status, GuestStatus::Here { .. }), Ordering::Relaxed);
        watch(status);
    };
    let (mut attempt, mut known, mut is_fresh) = (0_u32, None, false);
    loop {
        watch(GuestStatus::Starting);
        let begun = Instant::now();
        let stay = GuestStay::begin(&spec, access, &entering, shutdown, &watch, &mut known);
        let (why, is_permanent) = match with_step_ups(access.map(|access| &**access), &watch, stay).await {
            StayOutcome::Shutdown => {
                watch(GuestStatus::Ended);
                return Ok(());
            }
            StayOutcome::Over(error) => return Err(error),
            StayOutcome::Lost { why, is_permanent } => (why, is_permanent),
        };
        if let Some(access) = access
            && let Some(need) = access.sign_in_need()
        {
            // Another sign-in would end the same way, and every one opens a page.
            if is_fresh && begun.elapsed() < RESET_BACKOFF_AFTER {
                let why = AuthorizationError::TokenRefused;
                return Err(GuestError::SignIn { name: spec.name.clone(), why });
            }
            watch(sign_in_needed(access, &need.why, false));
            tokio::select! { biased;
                () = shutdown.cancelled() => {
                    watch(GuestStatus::Ended);
                    return Ok(());
                }
                signed_in = access.sign_in(&need) => {
                    signed_in.map_err(|why| GuestError::SignIn { name: spec.name.clone(), why })?;
                }
            }
            is_fresh = access.prompts();
            continue;
        }
        let is_given_up = match spec.restarts {
            RestartPolicy::Always => false,
            RestartPolicy::OnceStarted => is_permanent && !has_worked.load(Ordering::Relaxed),
            RestartPolicy::Never => true,
        };
        if is_given_up {
            return Err(GuestError::GivenUp { name: spec.name.clone(), why });
        }
        if begun.elapsed() >= RESET_BACKOFF_AFTER {
            (attempt, is_fresh) = (0, false);
        }
        let in_ = spec.backoff.delay(attempt, random());
        attempt = attempt.saturating_add(1);
        tracing::debug!(guest = %spec.name, %why, "guest: restarting in {} ms", in_.as_millis());
        watch(GuestStatus::Restarting { in_, why });
        tokio::select! { biased;
            () = shutdown.cancelled() => {
                watch(GuestStatus::Ended);
                return Ok(());
            }
            () = tokio::time::sleep(in_) => {}
        }
    }
}

/// How the guest gets tokens, where its server is one that OAuth can be used with and the user gave it no credentials.
fn access(spec: &Spec) -> Option<Arc<GuestAccess>> {
    let GuestTarget::Url { url, headers, .. } = &spec.target else { return None };
    let resource = ResourceUrl::parse(url).ok()?;
    let given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let options = spec.oauth.clone().filter(|_| !given)?;
    Some(Arc::new(GuestAccess::new(resource, options)))
}

/// Asks for more scopes while a stay goes on.
async fn with_step_ups<T>(
    access: Option<&GuestAccess>,
    watch: &impl Fn(GuestStatus),
    stay: impl Future<Output = T>,
) -> T {
    let Some(access) = access else { return stay.await };
    tokio::select! { biased;
        outcome = stay => outcome,
        never = access.step_up(|why| watch(sign_in_needed(access, why, true))) => match never {},
    }
}

fn sign_in_needed(access: &GuestAccess, why: &str, stays: bool) -> GuestStatus {
    GuestStatus::SignInNeeded { url: access.resource().as_str().to_owned(), why: why.to_owned(), stays }
}

/// Any number, each as likely as every other. A version 4 UUID has 62 such bits at its end.
fn random() -> u64 {
    let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
    low << 2
}
