//! The MCP door's own part of a session: who shares one, how long it lasts, and the grammar it speaks.
//!
//! Invariants: nobody reaches a session with another's token or at another address. Requests without a session id share a session only
//! with sessions whose tokens permit the same.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::FromRef;
use axum::http::HeaderMap;
use axum::response::Response;
use salon_dialects::Introduction;
use salon_dialects::mcp::door::{DoorScope, McpDoorOptions, McpOpening};
use salon_dialects::mcp::draft::Interpreter;
use salon_log::Claim;
use salon_protocol::{Participant, ParticipantId, ParticipantKind, Refusal, TopicName};
use salon_rooms::{Admission, Deliver};

use super::super::sessions::{Handle, SessionTable, Visitor};
use super::super::upgrade::{self, Upgrade};
use super::super::{self as doors, CatalogueUse, MAX_NAME_CHARS};
use super::refusals::McpRejection;
use crate::auth::{self, Grant};
use crate::carriers::{Exchanges, Inbox, StreamCarrier};
use crate::connection::ConnectionContext;
use crate::gateway::GatewayState;
use crate::http::credentials::RequestCredentials;
use crate::session::{Resolver, Session};

/// What MCP clients offer over WebSocket, and what is echoed to those that do.
const SUBPROTOCOL: &str = "mcp";

/// Says how long a message may be: a client that knows can refuse what is longer before the connection suffers for it.
const LIMIT_HEADER: &str = "salon-message-limit";

/// In rooms with at most this many others, a client that can be asked things gets everybody's lists in its own name.
const MAX_OTHERS_LISTED: usize = 16;

/// How long a session may be silent that begins with a handshake and ends when its client says so.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long a participant stays whose requests belong to no session, or that was to come back and poll.
const SESSIONLESS_IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Where a session belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct McpSessionKey {
    pub(super) participant: ParticipantId,
    pub(super) topic: TopicName,
    pub(super) scope: DoorScope,
}

/// How long a session lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// From a handshake to a farewell.
    Session,
    /// As long as the stream it begins with (HTTP+SSE).
    Stream,
    /// As long as the client polls.
    Polls,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SessionKey {
    Id(Box<str>),
    /// The requests of the stateless revision: one session for all of a participant's at one address whose tokens permit this. A
    /// request with another token cannot begin a session of its own, and must neither gain nor lose by tokens shown before.
    Shared(McpSessionKey, BTreeSet<String>),
}

/// A session and what it is the server of.
#[derive(Clone)]
pub(super) struct McpSession {
    scope: DoorScope,
    pub(super) inbox: Inbox<McpOpening>,
}

impl Handle for McpSession {
    fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    fn idle_since(&self) -> Option<Instant> {
        self.inbox.idle_since()
    }
}

/// What the addresses of MCP share.
#[derive(Clone)]
pub(crate) struct McpDoor {
    pub(super) gateway: Arc<GatewayState>,
    sessions: Arc<SessionTable<SessionKey, McpSession>>,
}

impl FromRef<McpDoor> for Arc<GatewayState> {
    fn from_ref(door: &McpDoor) -> Self {
        door.gateway.clone()
    }
}

impl McpDoor {
    pub(super) fn new(gateway: &Arc<GatewayState>) -> Self {
        Self { gateway: gateway.clone(), sessions: Arc::new(SessionTable::evicting_idle()) }
    }

    /// The session of an id, if it is this participant's and belongs where the request says.
    pub(super) fn find(
        &self,
        id: &str,
        grant: &Grant,
        topic: Option<&TopicName>,
        scope: Option<&DoorScope>,
    ) -> Option<Inbox<McpOpening>> {
        let found = self.sessions.find(&SessionKey::Id(id.into()), grant, |session, at| {
            topic.is_none_or(|topic| topic == at) && scope.is_none_or(|scope| *scope == session.scope)
        });
        found.map(|session| session.inbox)
    }

    /// Begins a session; gives its id.
    pub(super) fn begin(
        &self,
        visitor: &Visitor,
        session_key: &McpSessionKey,
        lifetime: Lifetime,
    ) -> Result<(Box<str>, Inbox<McpOpening>), Refusal> {
        let id: Box<str> = auth::hex(&auth::random::<24>()).into();
        let idle = match lifetime {
            Lifetime::Session => IDLE_TIMEOUT,
            Lifetime::Stream => visitor.gateway.config.timings.stream_idle_timeout,
            Lifetime::Polls => SESSIONLESS_IDLE_TIMEOUT,
        };
        let (key, session_id) = (SessionKey::Id(id.clone()), Some(id.clone()));
        let begun = self.sessions.begin(visitor, key, &session_key.topic, |connection| {
            over_http(visitor, session_key, session_id, idle, connection)
        });
        Ok((id, begun?.inbox))
    }

    /// The session that requests share which belong to none.
    pub(super) fn shared(&self, visitor: &Visitor, session_key: &McpSessionKey) -> Result<Inbox<McpOpening>, Refusal> {
        let permissions = visitor.grant.permissions.iter().cloned().collect();
        let key = SessionKey::Shared(session_key.clone(), permissions);
        let found = self.sessions.find_or_begin(visitor, key, &session_key.topic, |connection| {
            over_http(visitor, session_key, None, SESSIONLESS_IDLE_TIMEOUT, connection)
        });
        Ok(found?.handle.inbox)
    }

    /// Nobody finds the session any more.
    pub(super) fn remove(&self, id: &str) {
        self.sessions.remove(&SessionKey::Id(id.into()));
    }
}

type BoxedSession<C> = Pin<Box<Session<Interpreter, C>>>;

/// A session over HTTP that is yet to join.
fn over_http(
    visitor: &Visitor,
    session_key: &McpSessionKey,
    id: Option<Box<str>>,
    idle: Duration,
    connection: ConnectionContext,
) -> (BoxedSession<Exchanges<McpOpening>>, McpSession) {
    let (carrier, inbox) = Exchanges::new();
    // Without a session nobody could be told of anything but in a subscription.
    let resolver = resolver(&visitor.gateway, session_key, &connection, id.is_some());
    let dialect = dialect(&visitor.gateway, session_key, id, Some(idle));
    (session(visitor, connection, carrier, dialect, resolver), McpSession { scope: session_key.scope.clone(), inbox })
}

/// Makes the connection a WebSocket and its session: one JSON-RPC message a text frame.
pub(super) fn connect(
    visitor: Visitor,
    session_key: McpSessionKey,
    upgrade: Upgrade,
    headers: &HeaderMap,
) -> Result<Response, McpRejection> {
    let gateway = visitor.gateway.clone();
    let connection = gateway.connection(&visitor.grant, &session_key.topic, visitor.peer.ip());
    let counted = gateway.count(&visitor.grant, &visitor.peer)?;
    RequestCredentials::audit_entry(&gateway, visitor.peer.ip(), &visitor.grant, &session_key.topic);
    let (mut response, upgrade) = upgrade.answer(headers, SUBPROTOCOL);
    let limit = gateway.config.limits.message;
    if limit > 0 {
        response.headers_mut().insert(LIMIT_HEADER, limit.into());
    }
    // What only the beginning needs is let go of before the long wait.
    let begun = connection.clone();
    let beginning = Box::pin(async move {
        let carrier = upgrade::socket(&visitor.gateway, upgrade).await?;
        let dialect = dialect(&visitor.gateway, &session_key, None, None);
        let resolver = resolver(&visitor.gateway, &session_key, &begun, true);
        Some(session(&visitor, begun, carrier, dialect, resolver))
    });
    gateway.spawn(async move {
        let _counted = counted;
        let Some(session) = beginning.await else { return };
        doors::run(session, &connection).await;
    });
    Ok(response)
}

/// A session that is yet to join.
fn session<C: StreamCarrier<McpOpening>>(
    visitor: &Visitor,
    connection: ConnectionContext,
    carrier: C,
    dialect: Interpreter,
    resolver: Option<Resolver<Interpreter>>,
) -> BoxedSession<C> {
    doors::session(visitor, connection, carrier, dialect, resolver, admit(&visitor.grant))
}

/// What answers the session's questions: the room's host and its catalogue, where the session sees them.
pub(super) fn resolver(
    gateway: &GatewayState,
    session_key: &McpSessionKey,
    connection: &ConnectionContext,
    is_announced_to: bool,
) -> Option<Resolver<Interpreter>> {
    let catalogue_use = match &session_key.scope {
        DoorScope::Room if is_announced_to => CatalogueUse::Announced,
        DoorScope::Room => CatalogueUse::Requested,
        DoorScope::One(who) if who.is_host() => CatalogueUse::None,
        DoorScope::One(_) => return None,
    };
    Some(doors::room_resolver::<Interpreter>(gateway, connection, catalogue_use))
}

/// The grammar of one session.
fn dialect(
    gateway: &GatewayState,
    session_key: &McpSessionKey,
    session: Option<Box<str>>,
    idle: Option<Duration>,
) -> Interpreter {
    let timings = &gateway.config.timings;
    let options = McpDoorOptions {
        me: session_key.participant.clone(),
        topic: session_key.topic.clone(),
        scope: session_key.scope.clone(),
        limits: gateway.config.limits.envelope(),
        session,
        idle,
        vanished_timeout: timings.vanished_timeout,
        list_max_age: timings.list_max_age,
        returning_until: Some(gateway.started + timings.return_window),
        few: MAX_OTHERS_LISTED,
        // Far from each other, and small enough for clients whose numbers are doubles.
        first: u64::from(u32::from_le_bytes(auth::random())) << 20,
        salt: auth::random(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let now = Instant::now();
    Interpreter::new(options, doors::stamps(now), now)
}

/// Admits a client beside its participant's other sessions.
fn admit(grant: &Grant) -> impl Fn(Introduction) -> Admission + Send + 'static {
    let (id, name, stamp) = (grant.participant.clone(), grant.name.clone(), grant.stamp());
    // A program that speaks MCP acts for a model, unless the token says otherwise.
    let kind = grant.kind.or(Some(ParticipantKind::Agent));
    move |introduction| {
        let own_name = || introduction.name.as_deref().and_then(display_name);
        let name = name.clone().or_else(own_name);
        Admission {
            participant: Participant { name, kind, mcp: introduction.mcp, ..Participant::new(id.clone()) },
            claim: Claim::Shared,
            after: None,
            recent: None,
            deliver: Deliver::Directed,
            // What another session of the same participant says to somebody can concern this one.
            echo: true,
            stamp: stamp.clone(),
            // Ghosts are entered by messages of MCPx.
            ghosts: None,
        }
    }
}

/// A name that a client gave itself, as far as it can be shown.
fn display_name(given: &str) -> Option<String> {
    let clean: String = given.chars().filter(|character| !character.is_control()).take(MAX_NAME_CHARS).collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cleaned_and_cut_rather_than_refused() {
        assert_eq!(display_name("Claude Code").as_deref(), Some("Claude Code"));
        assert_eq!(display_name(" a\nb\u{7}c ").as_deref(), Some("abc"));
        assert_eq!(display_name("é".repeat(300).as_str()).map(|name| name.chars().count()), Some(256));
        assert_eq!(display_name("\n \t"), None);
    }
}
