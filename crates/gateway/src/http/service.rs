//! The state of the gateway, for its operators.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use salon_log::LogHealth;
use salon_protocol::{Code, PROTOCOL, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::proxy_header;
use super::{Incoming, Problem};
use crate::clock;
use crate::gateway::GatewayState;

/// The permission that opens `/metrics` to somebody who is not on this machine.
const METRICS_PERMISSION: &str = "metrics";

#[derive(Serialize, ToSchema)]
pub(super) struct HealthBody {
    /// `healthy` while the process answers
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    /// Seconds since the start
    uptime: f64,
    protocol: &'static str,
}

#[utoipa::path(get, path = "/health", tag = "service", summary = "Whether the process answers",
    responses((status = 200, description = "It answers", body = HealthBody)))]
pub(super) async fn health(State(gateway): State<Arc<GatewayState>>) -> Json<HealthBody> {
    Json(HealthBody {
        status: "healthy",
        timestamp: clock::now(),
        uptime: gateway.started.elapsed().as_secs_f64(),
        protocol: PROTOCOL,
    })
}

#[derive(Serialize, ToSchema)]
pub(super) struct ReadyBody {
    status: &'static str,
}

#[utoipa::path(get, path = "/ready", tag = "service", summary = "Whether messages are accepted",
    responses((status = 200, description = "They are", body = ReadyBody), (status = 503, description = "Not now", body = super::ProblemBody)))]
pub(super) async fn ready(State(gateway): State<Arc<GatewayState>>) -> Result<Json<ReadyBody>, Problem> {
    if *gateway.shutdown.borrow() {
        return Err(Problem::new(Code::Closing, "the gateway is shutting down"));
    }
    match &*gateway.rooms.log().health().borrow() {
        LogHealth::Writable => Ok(Json(ReadyBody { status: "ready" })),
        LogHealth::Unreachable(_) => Err(Problem::new(Code::Closing, "the gateway cannot reach its log now")),
        LogHealth::ReadOnly(reason) => Err(Problem::new(Code::Closing, format!("the gateway is read-only: {reason}"))),
        LogHealth::Stopped(_) => Err(Problem::new(Code::Closing, "the gateway cannot store messages any more")),
    }
}

#[utoipa::path(get, path = "/metrics", tag = "service",
    summary = "Counters for Prometheus: to this machine, or to a token with the permission `metrics`",
    responses((status = 200, description = "The counters", content_type = "text/plain", body = String), (status = "4XX", description = "Refused", body = super::ProblemBody)))]
pub(super) async fn metrics(incoming: Incoming, request: Request) -> Result<Response, Problem> {
    // A proxy on this machine makes everybody look local, and says so.
    if proxy_header(request.headers()).is_some() || !incoming.ip().is_loopback() {
        let grant = incoming.credentials(request.headers(), None).by_header()?;
        if !grant.permissions.iter().any(|permission| permission == METRICS_PERMISSION) {
            return Err(Problem::new(Code::Forbidden, "this token lacks the permission `metrics`"));
        }
    }
    let gateway = incoming.gateway;
    let (participants, rooms) = gateway.rooms.census();
    gateway.meters.participants.set(participants as f64);
    gateway.meters.rooms.set(rooms as f64);
    let catalogues = gateway.library.census();
    gateway.meters.catalogue_items.set(catalogues.items as f64);
    gateway.meters.catalogue_bytes.set(catalogues.bytes as f64);
    gateway.meters.catalogue_lists_left_out.set(catalogues.left_out as f64);
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; version=0.0.4")], gateway.meters.render()).into_response())
}

#[utoipa::path(get, path = "/v0/openapi.json", tag = "service", summary = "This description",
    responses((status = 200, description = "OpenAPI", content_type = "application/json", body = Object)))]
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi()).into_response()
}
