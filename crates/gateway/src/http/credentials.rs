//! Finding the token in a request: a header, a ticket, or a WebSocket subprotocol. Never in a URL, except in dev mode.

use axum::http::{HeaderMap, header};
use salon_protocol::{Code, TopicName};

use super::problem::Problem;
use super::query::Query;
use crate::auth::{AuthError, Grant};
use crate::clock;
use crate::gateway::Gateway;

/// The subprotocol that MCPx clients offer, and the only one that is ever echoed.
pub(crate) const SUBPROTOCOL: &str = "mcpx.v0";

const BEARER_SUBPROTOCOL: &str = "bearer.";

/// Verifies whoever asks, by header alone.
pub(crate) fn by_header(gateway: &Gateway, headers: &HeaderMap, query: &Query) -> Result<Grant, Problem> {
    refuse_tokens_in_url(gateway, query)?;
    let token = bearer(headers)?.or_else(|| dev_token(gateway, query)).ok_or(AuthError::Missing)?;
    Ok(gateway.verifier.verify(token, clock::now())?)
}

/// Verifies whoever wants a stream or a socket: by header, by ticket, or by subprotocol.
pub(crate) fn for_stream(
    gateway: &Gateway,
    headers: &HeaderMap,
    query: &Query,
    topic: &TopicName,
) -> Result<Grant, Problem> {
    let now = clock::now();
    if let Some(ticket) = query.get("ticket") {
        return Ok(gateway.tickets.redeem(ticket, topic, now)?);
    }
    refuse_tokens_in_url(gateway, query)?;
    let token = bearer(headers)?.or_else(|| subprotocol_token(headers)).or_else(|| dev_token(gateway, query));
    let grant = gateway.verifier.verify(token.ok_or(AuthError::Missing)?, now)?;
    grant.require(topic)?;
    Ok(grant)
}

fn refuse_tokens_in_url(gateway: &Gateway, query: &Query) -> Result<(), Problem> {
    let named = ["token", "access_token"].into_iter().find(|name| query.get(name).is_some());
    match named {
        Some(_) if gateway.config.dev => Ok(()),
        Some(name) => {
            let message = format!(
                "a token does not belong in a URL (`{name}`): send `Authorization: Bearer`, or exchange it at POST /v0/tickets"
            );
            Err(Problem::new(Code::Unauthorized, message))
        }
        None => Ok(()),
    }
}

fn dev_token<'a>(gateway: &Gateway, query: &'a Query) -> Option<&'a str> {
    query.get("token").filter(|_| gateway.config.dev)
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| AuthError::Malformed)?;
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(AuthError::Missing),
    }
}

/// Every subprotocol a client offers.
pub(crate) fn subprotocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn subprotocol_token(headers: &HeaderMap) -> Option<&str> {
    subprotocols(headers).find_map(|offered| offered.strip_prefix(BEARER_SUBPROTOCOL))
}
