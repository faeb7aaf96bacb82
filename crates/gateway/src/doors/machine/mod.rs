//! The addresses of the Machine Context Protocol: WebSocket, POST and a stream of events at `/context/v1`.
//!
//! What a message means is the grammar's business (`salon_dialects::machine`); here it is decided who sends it. A WebSocket may show
//! its token in its first message; every request over HTTP has one of its own.

mod door;
mod requests;
mod socket;
mod terms;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};

use crate::gateway::GatewayState;
use crate::http::{Incoming, Problem};
use door::MachineDoor;
use requests::{MachineRejection, MachineRequest};

/// Every address of the Machine Context Protocol.
pub(crate) fn router(gateway: &Arc<GatewayState>) -> Router<Arc<GatewayState>> {
    Router::new()
        .route("/context/v1/ws", get(connect))
        .route("/context/v1/messages", post(send))
        .route("/context/v1/stream", get(listen).head(|| async { MachineRejection::Method("GET") }))
        .with_state(MachineDoor::new(gateway))
}

#[utoipa::path(get, path = "/context/v1/ws", operation_id = "machine_connect", tag = "Machine Context Protocol", summary = "Enter a room by the Machine Context Protocol",
    description = "A WebSocket: one text frame a message, both ways. Without a token in the request, the first message has it in `payload.security.token`.",
    params(("topic" = Option<String>, Query, description = "The room; may be left out where the token opens only one"),
        ("ticket" = Option<String>, Query, description = "A ticket from POST /v0/tickets in place of a token")),
    responses((status = 101, description = "The connection is a WebSocket from here on"),
        (status = "4XX", description = "Refused", body = crate::http::ProblemBody)),
    security(("bearer" = []), ()))]
pub(crate) async fn connect(
    State(door): State<MachineDoor>,
    incoming: Incoming,
    request: Request,
) -> Result<Response, Problem> {
    socket::connect(&door, incoming, request).await
}

#[utoipa::path(post, path = "/context/v1/messages", operation_id = "machine_send", tag = "Machine Context Protocol", summary = "Send a message of the Machine Context Protocol",
    description = "A request is answered with its response, or with an error message; everything else with 202 once it is in the room. The sender is in the room, and \
        leaves it 60 seconds after the last connection.",
    params(("topic" = Option<String>, Query, description = "The room; may be left out where the token opens only one")),
    request_body(content = Object, description = "A message", content_type = "application/json"),
    responses((status = 200, description = "The response", body = Object), (status = 202, description = "Taken; nothing is to be answered"),
        (status = "4XX", description = "Refused, as an error message of the protocol", body = Object), (status = "5XX", description = "Not now", body = Object)),
    security(("bearer" = [])))]
pub(crate) async fn send(arrived: MachineRequest, request: Request) -> Result<Response, MachineRejection> {
    arrived.post(request).await
}

#[utoipa::path(get, path = "/context/v1/stream", operation_id = "machine_listen", tag = "Machine Context Protocol", summary = "Hear what the Machine Context Protocol has to say",
    description = "Everything that answers no POST: notifications, progress, and requests to tools that were registered.",
    params(("topic" = Option<String>, Query, description = "The room; may be left out where the token opens only one"),
        ("last-event-id" = Option<String>, Header, description = "The last event seen: what came after it comes first"),
        ("ticket" = Option<String>, Query, description = "A ticket from POST /v0/tickets in place of a token")),
    responses((status = 200, description = "One event a message", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "Refused", body = Object)),
    security(("bearer" = []), ()))]
pub(crate) async fn listen(arrived: MachineRequest, request: Request) -> Result<Response, MachineRejection> {
    arrived.listen(request.headers()).await
}
