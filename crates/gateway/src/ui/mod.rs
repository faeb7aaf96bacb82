//! The room in a browser: the page, and the cookie that stands in for a token there.
//!
//! The page is a client like any other and uses only addresses that others use. Deliberately absent: anything that is made for one
//! visitor. What is served is what stands in `ui/` of the repository, the same for everybody.

pub(crate) mod assets;
mod comments;
mod cookie;
pub(crate) mod invitations;
pub(crate) mod session;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, Method};
use axum::routing::{get, post};
use salon_log::{Cluster, ReadError};
use salon_protocol::Timestamp;

use crate::auth::{AuthError, Grant, LocalKey, SignInLinks, SignIns, SignedInVisit};
use crate::config::Config;
use crate::failures::Failures;
use crate::gateway::GatewayState;
use crate::http::Problem;

use cookie::Cookie;

/// How often an address may fail to sign in. No token or code can be guessed by asking; this is so that nobody has the gateway try.
const SIGN_INS_PER_SECOND: u32 = 1;
const MAX_SIGN_INS_AT_ONCE: u32 = 10;

/// What the gateway keeps for its own page.
pub(crate) struct Ui {
    sign_ins: SignIns,
    links: SignInLinks,
    cookie: Cookie,
    failures: Failures,
}

impl Ui {
    /// For a gateway of this configuration and key, with the links that are given out for it, beside the others of a cluster.
    pub(crate) fn open(
        config: &Config,
        local: &LocalKey,
        links: SignInLinks,
        cluster: Arc<dyn Cluster>,
        now: Timestamp,
    ) -> io::Result<Self> {
        // A sign-in by a token of development mode ends with development mode, as the token does.
        let development = config.dev.then(|| local.for_development());
        Ok(Self {
            sign_ins: SignIns::open(development.as_ref().unwrap_or(local), &config.data, cluster, now)?,
            links,
            cookie: Cookie::new(config, local),
            // Where addresses are not counted they say nothing: everybody comes from a proxy's.
            failures: Failures::new(
                config.limits.connections_per_address > 0,
                SIGN_INS_PER_SECOND,
                MAX_SIGN_INS_AT_ONCE,
            ),
        })
    }

    /// Hears who has signed out at other gateways; resolves when that is known.
    pub(crate) async fn follow_sign_outs(&self) -> Result<(), ReadError> {
        self.sign_ins.follow().await
    }

    /// Tells other gateways who has signed out here and could not be told at once, for ever.
    pub(crate) async fn share_sign_outs(&self, retry_delay: Duration) {
        self.sign_ins.share_rest(retry_delay).await;
    }

    /// The grant of a request's cookie; `None` without one.
    pub(crate) fn grant(
        &self,
        gateway: &GatewayState,
        method: &Method,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Option<Result<Grant, Problem>> {
        let value = self.cookie.read(headers)?;
        let own = self.cookie.require_own_page(gateway, method, headers);
        Some(own.and_then(|()| self.sign_ins.verify(value, now).map_err(Problem::from)))
    }

    /// The grant of a ticket, unless its participant signed out since.
    pub(crate) fn still(&self, grant: Grant) -> Result<Grant, AuthError> {
        self.sign_ins.require(&grant).map(|()| grant)
    }

    /// A connection that ends with its sign-in; `None` where it stands on something else.
    pub(crate) fn visit(&self, grant: &Grant) -> Option<SignedInVisit> {
        self.sign_ins.visit(grant)
    }

    /// The grant that a link's code stands for.
    pub(crate) fn redeem(&self, code: &str, now: Timestamp) -> Result<Grant, AuthError> {
        self.links.redeem(code, now)
    }
}

/// The page's addresses.
pub(crate) fn router() -> Router<Arc<GatewayState>> {
    Router::new()
        .route("/", get(assets::page))
        .route("/ui/{*path}", get(assets::asset))
        .route("/v0/invitations", post(invitations::invite))
        .route("/v0/session", get(session::show).post(session::begin).delete(session::end))
}
