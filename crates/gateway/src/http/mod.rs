//! Everything the gateway says over plain HTTP.

pub(crate) mod bodies;
pub(crate) mod body;
pub(crate) mod credentials;
mod files;
pub(crate) mod guard;
mod guests;
mod history;
mod incoming;
mod lists;
mod metadata;
mod openapi;
mod problem;
mod publish;
mod query;
pub(crate) mod reads;
mod revocations;
mod search;
mod service;
mod stream;
pub(crate) mod tickets;
mod topic;
mod topics;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::routing::{any, get, post};
use axum::{Router, middleware};
use parking_lot::Mutex;
use salon_protocol::{Code, ParticipantId, TopicName};

use crate::doors;
use crate::gateway::GatewayState;

pub(crate) use incoming::Incoming;
pub(crate) use openapi::openapi;
pub(crate) use problem::{Problem, ProblemBody, RefusedWith, invalid};
pub(crate) use query::Query;

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PeerAddress {
    /// From a socket.
    At(SocketAddr),
    /// From this process, over a connection made of memory.
    Inside,
}

impl PeerAddress {
    /// The address it came from; this machine's own where it came from inside.
    pub(crate) fn ip(&self) -> IpAddr {
        match self {
            Self::At(address) => address.ip(),
            Self::Inside => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

/// Whose a request turned out to be, noted where its token is verified and read where a refusal is audited. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requester(Arc<Mutex<Option<Identity>>>);

/// A participant, and the topic it goes to where that is known.
type Identity = (ParticipantId, Option<TopicName>);

impl Requester {
    pub(crate) fn set(&self, participant: &ParticipantId, topic: Option<&TopicName>) {
        *self.0.lock() = Some((participant.clone(), topic.cloned()));
    }

    pub(crate) fn get(&self) -> Option<Identity> {
        self.0.lock().clone()
    }
}

/// Every address of the gateway.
pub(crate) fn router(gateway: Arc<GatewayState>) -> Router {
    let mut router = Router::new()
        .route("/health", get(service::health))
        .route("/ready", get(service::ready))
        .route("/metrics", get(service::metrics))
        .route("/v0/openapi.json", get(service::openapi))
        .route("/v0/tickets", post(tickets::issue))
        .route("/v0/auth/revocations", post(revocations::revoke))
        .route("/v0/guests", get(guests::list))
        .route("/v0/search", get(search::search))
        .route("/v0/topics", get(topics::list))
        .route("/v0/topics/{topic}", get(topic::show).put(topic::create).patch(topic::change).delete(topic::delete))
        .route("/v0/topics/{topic}/participants", get(topics::participants))
        .route("/v0/topics/{topic}/lists/{list}", get(lists::read))
        .route("/v0/topics/{topic}/history", get(history::page))
        .route("/v0/topics/{topic}/messages", post(publish::publish))
        .route("/v0/topics/{topic}/files", post(files::put))
        .route("/v0/topics/{topic}/files/{file}", get(files::get).delete(files::remove))
        .route("/v0/topics/{topic}/stream", get(stream::follow))
        .merge(doors::router(&gateway));
    for path in metadata::well_known_prefixes(&gateway.config) {
        for resource in ["", "/sse", "/mcp/{topic}", "/mcp/{topic}/{participant}"] {
            router = router.route(&format!("{}{path}{resource}", metadata::WELL_KNOWN), get(metadata::describe));
        }
    }
    for path in metadata::AUTHORIZATION_SERVER_PATHS {
        router = router.route(path, any(metadata::no_authorization_server));
    }
    if gateway.ui.is_some() {
        router = router.merge(crate::ui::router());
    }
    if gateway.config.dev {
        router = router.route("/v0/auth/token", post(tickets::dev_token));
    }
    guarded(router, gateway)
}

/// What is said to connections beyond the limit of their address: how the gateway is, and to everything else that there are too many.
pub(crate) fn overflow_router(gateway: Arc<GatewayState>) -> Router {
    let router = Router::new().route("/health", get(service::health)).route("/ready", get(service::ready));
    let limit = gateway.config.limits.connections_per_address;
    let too_many = move || async move {
        Problem::new(Code::RateLimited, format!("too many connections of this address; the limit is {limit}"))
    };
    router
        .fallback(any(too_many))
        .layer(middleware::from_fn_with_state(gateway.clone(), guard::guard))
        .with_state(gateway)
}

fn guarded(router: Router<Arc<GatewayState>>, gateway: Arc<GatewayState>) -> Router {
    router
        .fallback(any(|| async { Problem::new(Code::NotFound, "there is nothing at this address") }))
        .method_not_allowed_fallback(|| async {
            invalid("this address does not take that method").with_status(axum::http::StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(middleware::from_fn_with_state(gateway.clone(), metadata::point))
        .layer(middleware::from_fn_with_state(gateway.clone(), guard::guard))
        .with_state(gateway)
}
