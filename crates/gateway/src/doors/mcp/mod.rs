//! The addresses of MCP: Streamable HTTP and WebSocket at `/mcp/{topic}`, HTTP+SSE at `/sse` and `/message`, long-polling at
//! `/mcp/{topic}/poll`.
//!
//! What a request means is the grammar's business (`salon_dialects::mcp::door`); here it is decided who makes it and which session
//! it belongs to. Every request has a token of its own, and a session is found only by who began it.

mod door;
mod refusals;
mod requests;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use super::upgrade::Upgrade;
use crate::gateway::GatewayState;
use door::McpDoor;
use refusals::McpRejection;
use requests::McpRequest;

/// Every address of MCP.
pub(crate) fn router(gateway: &Arc<GatewayState>) -> Router<Arc<GatewayState>> {
    let others = || async { McpRejection::Method("GET, POST, DELETE") };
    // A look at the headers alone would begin a session.
    let session = || -> MethodRouter<McpDoor> { get(listen).post(send).delete(end).head(others).fallback(others) };
    let polled = || -> MethodRouter<McpDoor> { post(poll).delete(end).fallback(|| async { McpRejection::Polling }) };
    Router::new()
        .route("/mcp", session().layer(middleware::from_fn(require_topic)))
        .route("/mcp/{topic}", session())
        .route("/mcp/{topic}/{participant}", session())
        .route("/mcp/{topic}/poll", polled())
        .route("/mcp/{topic}/{participant}/poll", polled())
        .route("/sse", session())
        .route("/message", post(message).fallback(|| async { McpRejection::Method("POST") }))
        .with_state(McpDoor::new(gateway))
}

/// At an address without a room the query has to name one: a client that guesses the transport asks with the same URL for each.
async fn require_topic(request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|pair| pair.starts_with("topic=")) {
        return next.run(request).await;
    }
    McpRejection::no_room().into_response()
}

#[utoipa::path(get, path = "/mcp/{topic}", tag = "MCP", summary = "Listen to a room as an MCP client",
    description = "The stream of a session, or a new one of HTTP+SSE (2024-11-05) where no session is named; a WebSocket where it is asked for. The same at \
        /mcp/{topic}/{participant}, where one participant is the server, at /mcp?topic= and at /sse.",
    params(("topic" = String, Path),
        ("mcp-session-id" = Option<String>, Header, description = "The session, from the answer to `initialize`"),
        ("last-event-id" = Option<String>, Header, description = "The last event seen: what came after it comes first"),
        ("ticket" = Option<String>, Query, description = "A ticket from POST /v0/tickets in place of a token")),
    responses((status = 200, description = "One event a JSON-RPC message", content_type = "text/event-stream", body = String),
        (status = 101, description = "One text frame a JSON-RPC message, both ways; the subprotocol is `mcp`"),
        (status = "4XX", description = "Refused, as JSON-RPC says it")),
    security(("bearer" = []), ()))]
pub(crate) async fn listen(arrived: McpRequest, mut request: Request) -> Result<Response, McpRejection> {
    if !Upgrade::is_wanted(request.headers()) {
        return arrived.listen(request.headers()).await;
    }
    let upgrade = Upgrade::take(&mut request).map_err(McpRejection::Problem)?;
    let (visitor, session_key) = arrived.newcomer()?;
    door::connect(visitor, session_key, upgrade, request.headers())
}

#[utoipa::path(post, path = "/mcp/{topic}", tag = "MCP", summary = "Send MCP messages to a room, which is one server",
    description = "Every revision: `initialize` begins a session, and requests of 2026-07-28 need none. The same at /mcp/{topic}/{participant}, where one \
        participant is the server, at /mcp?topic= and at /sse.",
    params(("topic" = String, Path),
        ("mcp-session-id" = Option<String>, Header, description = "The session, from the answer to `initialize`"),
        ("mcp-protocol-version" = Option<String>, Header, description = "The revision")),
    request_body(content = Object, description = "A JSON-RPC message; several in an array where the revision has that", content_type = "application/json"),
    responses((status = 200, description = "The answer, as JSON or as a stream of events", body = Object), (status = 202, description = "Taken; nothing is to be answered"),
        (status = "4XX", description = "Refused, as JSON-RPC says it", body = Object), (status = 503, description = "Not now", body = crate::http::ProblemBody)),
    security(("bearer" = [])))]
pub(crate) async fn send(arrived: McpRequest, request: Request) -> Result<Response, McpRejection> {
    arrived.post(request).await
}

#[utoipa::path(delete, path = "/mcp/{topic}", tag = "MCP", summary = "End an MCP session",
    params(("topic" = String, Path), ("mcp-session-id" = String, Header, description = "The session")),
    responses((status = 204, description = "It has ended"), (status = "4XX", description = "Refused, as JSON-RPC says it", body = Object)),
    security(("bearer" = [])))]
pub(crate) async fn end(arrived: McpRequest, request: Request) -> Result<Response, McpRejection> {
    arrived.delete(request.headers()).await
}

#[utoipa::path(post, path = "/message", tag = "MCP", summary = "Send an MCP message that is answered on the session's stream",
    params(("sessionId" = Option<String>, Query, description = "The session, as the stream's first event names it; the header Mcp-Session-Id says the same")),
    request_body(content = Object, description = "A JSON-RPC message", content_type = "application/json"),
    responses((status = 202, description = "Taken"), (status = "4XX", description = "Refused, as JSON-RPC says it", body = Object)),
    security(("bearer" = [])))]
pub(crate) async fn message(arrived: McpRequest, request: Request) -> Result<Response, McpRejection> {
    arrived.message(request).await
}

#[utoipa::path(post, path = "/mcp/{topic}/poll", tag = "MCP", summary = "Send messages and hear what there is to be said, or will be in a while",
    description = "For clients that speak the draft dialect of MCP: the first poll brings `initialize`. The same at /mcp/{topic}/{participant}/poll, where one \
        participant is the server.",
    params(("topic" = String, Path), ("wait" = Option<u64>, Query, description = "Seconds to wait while there is nothing; 25 unless said, at most 60"),
        ("mcp-session-id" = Option<String>, Header, description = "The session, from the answer to the first poll")),
    request_body(content = Object, description = "Nothing, a JSON-RPC message, or several in an array", content_type = "application/json"),
    responses((status = 200, description = "Messages, in an array", body = Vec<Object>), (status = "4XX", description = "Refused, as JSON-RPC says it", body = Object)),
    security(("bearer" = [])))]
pub(crate) async fn poll(arrived: McpRequest, request: Request) -> Result<Response, McpRejection> {
    arrived.poll(request).await
}
