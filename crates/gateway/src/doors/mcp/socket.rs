//! MCP over WebSocket: one JSON-RPC message a text frame.

use std::pin::Pin;

use axum::http::HeaderMap;
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use salon_dialects::mcp::draft::Interpreter;

use super::super::sessions::Visitor;
use super::super::upgrade::{self, Upgrade};
use super::super::{self as doors};
use super::door::{self, McpPlace};
use super::refusals::McpRejection;
use crate::carriers::WebSocket;
use crate::clock;
use crate::connection::ConnectionContext;
use crate::http::credentials::Credentials;
use crate::session::{Beginning, Session};

/// What MCP clients offer, and what is echoed to those that do.
const SUBPROTOCOL: &str = "mcp";

/// Says how long a message may be: a client that knows can refuse what is longer before the connection suffers for it.
const LIMIT_HEADER: &str = "salon-message-limit";

/// Makes the connection a WebSocket and its session.
pub(super) fn connect(
    visitor: Visitor,
    place: McpPlace,
    upgrade: Upgrade,
    headers: &HeaderMap,
) -> Result<Response, McpRejection> {
    let gateway = visitor.gateway.clone();
    let connection = gateway.connection(&visitor.grant, &place.topic, visitor.peer.ip());
    let counted = gateway.count(&visitor.grant, &visitor.peer)?;
    Credentials::audit_entry(&gateway, visitor.peer.ip(), &visitor.grant, &place.topic);
    let (mut response, upgrade) = upgrade.answer(headers, SUBPROTOCOL);
    let limit = gateway.config.limits.message;
    if limit > 0 {
        response.headers_mut().insert(LIMIT_HEADER, limit.into());
    }
    // What only the beginning needs is let go of before the long wait.
    let beginning = Box::pin(begin(visitor, place, connection.clone(), upgrade));
    gateway.spawn(async move {
        let _counted = counted;
        let Some(session) = beginning.await else { return };
        doors::run(session, &connection).await;
    });
    Ok(response)
}

async fn begin(
    visitor: Visitor,
    place: McpPlace,
    connection: ConnectionContext,
    upgrade: OnUpgrade,
) -> Option<Pin<Box<Session<Interpreter, WebSocket>>>> {
    let Visitor { gateway, grant, .. } = visitor;
    let carrier = upgrade::socket(&gateway, upgrade).await?;
    let dialect = door::dialect(&gateway, &place, None, None);
    let keep_alive = Some(upgrade::keep_alive(&gateway));
    let expires = clock::instant(grant.expires);
    let entrance = door::entrance(&gateway, &grant, &place.topic);
    let resolver = door::resolver(&gateway, &place, &connection, true);
    let beginning = Beginning { dialect, resolver, carrier, keep_alive, expires, connection };
    Some(Box::pin(Session::outside(entrance, beginning)))
}
