//! Finding the token in a request: a header, a ticket, a WebSocket subprotocol, or the cookie of the gateway's own page. Never in a
//! URL, except in dev mode.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, header};
use salon_protocol::{Code, TopicName};

use super::Requester;
use super::metadata::where_to_get_a_token;
use super::problem::Problem;
use super::query::Query;
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{AuthError, Grant};
use crate::clock;
use crate::gateway::GatewayState;

/// The subprotocol that MCPx clients offer, and the only one that is ever echoed.
pub(crate) const SUBPROTOCOL: &str = "mcpx.v0";

const BEARER_SUBPROTOCOL: &str = "bearer.";

/// Whether what is said at an address can be signed. A token that demands it opens no other.
#[derive(Clone, Copy)]
enum Signing {
    Possible,
    No,
}

impl Signing {
    fn judge(self, grant: Grant) -> Result<Grant, AuthError> {
        match self {
            Self::Possible => Ok(grant),
            Self::No => grant.require_unsigned().map(|()| grant),
        }
    }
}

/// What a request shows to be let in.
pub(crate) struct RequestCredentials<'a> {
    pub(crate) gateway: &'a GatewayState,
    pub(crate) peer: IpAddr,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a Query,
    /// The topic it is to open, where the request names one.
    pub(crate) topic: Option<&'a TopicName>,
    /// Where the participant is noted once it is verified.
    pub(crate) requester: &'a Requester,
}

/// What somebody signs in with.
pub(crate) enum SignIn<'a> {
    Token(&'a str),
    /// Of a one-time link.
    Code(&'a str),
}

impl RequestCredentials<'_> {
    /// Verifies a token in a header.
    pub(crate) fn by_header(&self) -> Result<Grant, Problem> {
        self.audited(self.verify(None, Signing::No))
    }

    /// Verifies a token in a header, or the cookie of the gateway's own page. A header overrides a cookie.
    pub(crate) fn by_header_or_cookie(&self, method: &Method) -> Result<Grant, Problem> {
        self.by_either(method, Signing::No)
    }

    /// The same for a ticket, which permits no more than what was shown for it.
    pub(crate) fn for_ticket(&self, method: &Method) -> Result<Grant, Problem> {
        self.by_either(method, Signing::Possible)
    }

    fn by_either(&self, method: &Method, signing: Signing) -> Result<Grant, Problem> {
        self.audited(match self.cookie(method) {
            Some(found) => found.and_then(|grant| self.opening(grant, signing)),
            None => self.verify(None, signing),
        })
    }

    fn cookie(&self, method: &Method) -> Option<Result<Grant, Problem>> {
        let ui = self.gateway.ui.as_ref().filter(|_| !self.shows_something())?;
        ui.grant(self.gateway, method, self.headers, clock::now())
    }

    /// Verifies a sign-in of a browser.
    pub(crate) fn by_sign_in(&self, shown: SignIn<'_>) -> Result<Grant, Problem> {
        self.audited(refuse_tokens_in_url(self.gateway, self.query).and_then(|()| {
            let found = match (shown, &self.gateway.ui) {
                (SignIn::Token(token), _) => self.gateway.verify(token),
                (SignIn::Code(code), Some(ui)) => ui.redeem(code, clock::now()),
                (SignIn::Code(_), None) => Err(AuthError::CodeUnknown),
            };
            Ok(found.and_then(|grant| Signing::No.judge(grant))?)
        }))
    }

    /// Verifies a stream or a socket: by header, by ticket, or by subprotocol.
    pub(crate) async fn for_stream(&self) -> Result<Grant, Problem> {
        self.for_stream_with(Signing::No).await
    }

    /// The same where messages can be signed, or must be.
    pub(crate) async fn for_signed_stream(&self) -> Result<Grant, Problem> {
        self.for_stream_with(Signing::Possible).await
    }

    async fn for_stream_with(&self, signing: Signing) -> Result<Grant, Problem> {
        match (self.query.get("ticket"), self.topic) {
            (Some(ticket), Some(topic)) => {
                let redeemed = self.gateway.tickets.take(ticket, topic, clock::now()).await;
                let still = |grant| match &self.gateway.ui {
                    Some(ui) => ui.still(grant),
                    None => Ok(grant),
                };
                let redeemed = redeemed.and_then(still).and_then(|grant| signing.judge(grant));
                self.audited(redeemed.map_err(Problem::from))
            }
            _ => self.audited(self.verify(subprotocol_token(self.headers), signing)),
        }
    }

    /// Verifies one of many requests of a session. Only a failure is audited; a success is with the session's beginning.
    pub(crate) async fn for_request(&self, is_stream: bool) -> Result<Grant, Problem> {
        self.for_request_with(is_stream, Signing::No).await
    }

    /// The same where messages can be signed, or must be.
    pub(crate) async fn for_signed_request(&self, is_stream: bool) -> Result<Grant, Problem> {
        self.for_request_with(is_stream, Signing::Possible).await
    }

    async fn for_request_with(&self, is_stream: bool, signing: Signing) -> Result<Grant, Problem> {
        if is_stream && self.query.get("ticket").is_some() {
            return self.for_stream_with(signing).await;
        }
        match self.verify(subprotocol_token(self.headers).filter(|_| is_stream), signing) {
            Ok(grant) => {
                self.note(&grant);
                Ok(grant)
            }
            refused => self.audited(refused),
        }
    }

    /// Writes to the audit trail that a participant was let in.
    pub(crate) fn audit_entry(gateway: &GatewayState, peer: IpAddr, grant: &Grant, topic: &TopicName) {
        let event = AuditEvent::new(AuditKind::AuthOk, clock::now()).grant(grant);
        gateway.audit.record(event.address(peer).topic(topic));
    }

    /// Verifies a token that came in a message, as only those do that can be signed.
    pub(crate) fn by_message(&self, token: &str) -> Result<Grant, Problem> {
        self.audited(self.verify(Some(token), Signing::Possible))
    }

    /// Whether anything is shown that could let somebody in.
    pub(crate) fn shows_something(&self) -> bool {
        let named = ["ticket", "token", "access_token"].into_iter().any(|name| self.query.get(name).is_some());
        named || self.headers.contains_key(header::AUTHORIZATION) || subprotocol_token(self.headers).is_some()
    }

    /// The token that is shown, which is not that of a ticket.
    pub(crate) fn token(&self) -> Option<&str> {
        let token = bearer(self.headers).ok().flatten().or_else(|| subprotocol_token(self.headers));
        token.or_else(|| dev_token(self.gateway, self.query)).filter(|_| self.query.get("ticket").is_none())
    }

    fn verify(&self, otherwise: Option<&str>, signing: Signing) -> Result<Grant, Problem> {
        refuse_tokens_in_url(self.gateway, self.query)?;
        let token = bearer(self.headers)?.or(otherwise).or_else(|| dev_token(self.gateway, self.query));
        let missing = || {
            let message = format!("{}. {}", AuthError::Missing, where_to_get_a_token(&self.gateway.config));
            Problem::from(AuthError::Missing).with_message(message)
        };
        self.opening(self.gateway.verify(token.ok_or_else(missing)?)?, signing)
    }

    /// The grant, where it opens the topic that is wanted.
    fn opening(&self, grant: Grant, signing: Signing) -> Result<Grant, Problem> {
        if let Some(topic) = self.topic {
            grant.require(topic)?;
        }
        Ok(signing.judge(grant)?)
    }

    /// Notes whose request it is, for a refusal that may follow.
    fn note(&self, grant: &Grant) {
        self.requester.set(&grant.participant, self.topic);
    }

    /// Writes to the audit trail how the attempt went.
    fn audited(&self, attempt: Result<Grant, Problem>) -> Result<Grant, Problem> {
        // Tickets, cookies and links stand for grants that may be revoked since, or whose id a bridge has since.
        let attempt = attempt.and_then(|grant| {
            self.gateway.require_current(&grant)?;
            Ok(grant)
        });
        let event = match &attempt {
            Ok(grant) => {
                self.note(grant);
                AuditEvent::new(AuditKind::AuthOk, clock::now()).grant(grant)
            }
            Err(problem) => {
                let event = AuditEvent::new(AuditKind::AuthFailed, clock::now());
                event.code(problem.code()).reason(problem.message().to_owned())
            }
        };
        let event = event.address(self.peer);
        self.gateway.audit.record(match self.topic {
            Some(topic) => event.topic(topic),
            None => event,
        });
        attempt
    }
}

fn refuse_tokens_in_url(gateway: &GatewayState, query: &Query) -> Result<(), Problem> {
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

fn dev_token<'a>(gateway: &GatewayState, query: &'a Query) -> Option<&'a str> {
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
