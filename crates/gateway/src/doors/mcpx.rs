//! `GET /v0/ws`: MCPx over WebSocket. Every refusal comes before the upgrade, as an HTTP answer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use hyper::upgrade::OnUpgrade;
use salon_dialects::mcpx::{GhostAnswer, GhostOutcome, GhostQuery, GhostRequest, Mcpx, McpxOptions};
use salon_log::Claim;
use salon_mcp::Revision;
use salon_protocol::{Code, EnvelopeId, McpVersion, PROTOCOL, Participant, ParticipantKind, Refusal, TopicName};
use salon_rooms::{Admission, Arrival, Deliver, GhostIntroduction, Ghosts};

use super::upgrade::{self, Upgrade};
use super::{MAX_NAME_CHARS, is_date};
use crate::auth::Grant;
use crate::carriers::WebSocket;
use crate::clock;
use crate::connection::ConnectionContext;
use crate::gateway::{Counts, GatewayState, MAX_HISTORY};
use crate::http::credentials::SUBPROTOCOL;
use crate::http::{Incoming, PeerAddress, Problem, Query, invalid};
use crate::session::{Resolver, Session, SessionStart};

/// The most MCP revisions one participant may name.
const MAX_REVISIONS: usize = 8;

/// What the query of a connection asks for.
struct ConnectQuery {
    topic: TopicName,
    name: Option<String>,
    kind: Option<ParticipantKind>,
    after: Option<EnvelopeId>,
    recent: Option<usize>,
    echo: bool,
    deliver: Deliver,
    claim: Claim,
    /// Whether its seat is kept for a moment when it is lost.
    has_grace: bool,
    mcp: McpVersion,
}

impl ConnectQuery {
    fn read(query: &Query) -> Result<Self, Problem> {
        if query.get("protocol").is_some_and(|protocol| protocol != PROTOCOL) {
            return Err(Refusal::new(Code::UnsupportedProtocol, format!("`protocol` must be {PROTOCOL}")).into());
        }
        let wrong_name = |name: &String| name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control);
        let name = query.get("name").map(String::from);
        if name.as_ref().is_some_and(wrong_name) {
            return Err(invalid(format!(
                "`name` must have at most {MAX_NAME_CHARS} characters, none of them a control character"
            )));
        }
        let recent = query.value("history", "a whole number from 0 to 1000")?;
        if recent.is_some_and(|count: usize| count > MAX_HISTORY) {
            return Err(invalid("`history` must be a whole number from 0 to 1000"));
        }
        let is_shared = query.flag("share")?.unwrap_or(false);
        let has_grace = query.flag("grace")?.unwrap_or(false);
        if has_grace && !is_shared {
            return Err(invalid(
                "`grace` needs `share`: the next connection takes its seat beside the one that is kept",
            ));
        }
        let handshake_optional = match query.get("handshake") {
            None | Some("required") => false,
            Some("optional") => true,
            Some(_) => return Err(invalid("`handshake` must be required or optional")),
        };
        Ok(Self {
            topic: query.name("topic")?.ok_or_else(|| invalid("`topic` is missing"))?,
            name,
            kind: query.name("kind")?,
            after: query.name("after")?,
            recent,
            echo: query.flag("echo")?.unwrap_or(true),
            deliver: match query.get("deliver") {
                None | Some("all") => Deliver::All,
                Some("directed") => Deliver::Directed,
                Some(_) => return Err(invalid("`deliver` must be all or directed")),
            },
            claim: if is_shared { Claim::Shared } else { Claim::Exclusive },
            has_grace,
            mcp: McpVersion { handshake_optional, ..query.get("mcp").map_or(Ok(McpVersion::default()), revisions)? },
        })
    }

    /// The participant as everyone will see it: what the token fixes, and the query where it does not.
    fn participant(&self, grant: &Grant) -> Participant {
        Participant {
            id: grant.participant.clone(),
            name: grant.name.clone().or_else(|| self.name.clone()),
            kind: grant.kind.or(self.kind),
            mcp: self.mcp.clone(),
            capabilities: Vec::new(),
            via: None,
            status: None,
        }
    }
}

/// What a participant says it speaks. The revision of its handshake is the room's default where that is among them, else the newest
/// that has a handshake.
fn revisions(list: &str) -> Result<McpVersion, Problem> {
    let versions: Vec<String> = list.split(',').take(MAX_REVISIONS + 1).map(String::from).collect();
    let doubled = versions.iter().enumerate().any(|(at, revision)| versions[..at].contains(revision));
    if versions.len() > MAX_REVISIONS || doubled || !versions.iter().all(|revision| is_date(revision)) {
        return Err(invalid(format!(
            "`mcp` must be 1 to {MAX_REVISIONS} different revisions of MCP, such as 2025-06-18,2026-07-28"
        )));
    }
    let usual = McpVersion::default().version;
    let with_handshake = versions.iter().filter(|revision| revision.as_str() < Revision::MODERN.date());
    let version = if versions.contains(&usual) { Some(&usual) } else { with_handshake.max() };
    let version = version.unwrap_or(&versions[0]).clone();
    Ok(McpVersion { version, versions, handshake_optional: false })
}

/// The one address of MCPx that is a door.
pub(super) fn router() -> Router<Arc<GatewayState>> {
    Router::new().route("/v0/ws", get(connect))
}

/// Opens a connection.
#[utoipa::path(
    get,
    path = "/v0/ws",
    tag = "MCPx",
    summary = "Enter a room over WebSocket",
    params(
        ("topic" = String, Query, description = "The room to enter"),
        ("protocol" = Option<String>, Query, description = "Must be mcp-x/v0 where it is given"),
        ("name" = Option<String>, Query, description = "Display name, unless the token fixes one"),
        ("kind" = Option<String>, Query, description = "human, agent or robot, unless the token fixes it"),
        ("after" = Option<String>, Query, description = "The last envelope seen: everything since comes first"),
        ("history" = Option<u32>, Query, description = "Up to this many recent envelopes in the welcome"),
        ("echo" = Option<bool>, Query, description = "false leaves out one's own envelopes"),
        ("deliver" = Option<String>, Query, description = "directed: only broadcasts and what names me"),
        ("share" = Option<bool>, Query, description = "true sits beside one's other connections instead of replacing them"),
        ("grace" = Option<bool>, Query, description = "true keeps the seat for 10 seconds when the connection is lost; needs share"),
        ("mcp" = Option<String>, Query, description = "The MCP revisions one takes requests of, separated by commas; at most 8"),
        ("handshake" = Option<String>, Query, description = "optional: requests are answered without an MCP handshake before them; required unless given"),
        ("ticket" = Option<String>, Query, description = "A ticket from POST /v0/tickets in place of a token"),
    ),
    responses(
        (status = 101, description = "Welcome: envelopes both ways, as text frames"),
        (status = "4XX", description = "Refused", body = crate::http::ProblemBody),
        (status = 503, description = "Not now", body = crate::http::ProblemBody),
    ),
    security(("bearer" = []), ()),
)]
pub(crate) async fn connect(incoming: Incoming, mut request: Request) -> Result<Response, Problem> {
    let upgrade = Upgrade::take(&mut request)?;
    let connect_query = ConnectQuery::read(&incoming.query)?;
    let headers = request.headers();
    let grant = incoming.credentials(headers, Some(&connect_query.topic)).for_stream().await?;
    let Incoming { gateway, peer, .. } = incoming;
    let mut connection = gateway.connection(&grant, &connect_query.topic, peer.ip());
    // A bridge that comes back within the grace keeps its ghosts, also when it does not share its seat.
    let has_grace = connect_query.has_grace || grant.ghosts.is_some();
    connection.seat_keeper = has_grace.then(|| gateway.seat_keeper.clone());
    let (arrival, counted) = enter(&gateway, &peer, &grant, &connect_query).await?;

    let (response, upgrade) = upgrade.answer(headers, SUBPROTOCOL);
    gateway.spawn(hold(
        PendingConnection { gateway: gateway.clone(), arrival, connect_query, grant, connection, counted },
        upgrade,
    ));
    Ok(response)
}

/// Takes a seat, if there is room for one more.
async fn enter(
    gateway: &GatewayState,
    peer: &PeerAddress,
    grant: &Grant,
    connect_query: &ConnectQuery,
) -> Result<(Arrival, Counts), Refusal> {
    let counted = gateway.count(grant, peer)?;
    let admission = Admission {
        participant: connect_query.participant(grant),
        claim: connect_query.claim,
        after: connect_query.after.clone(),
        recent: connect_query.recent.filter(|_| gateway.has_history(&connect_query.topic)),
        deliver: connect_query.deliver,
        echo: connect_query.echo,
        stamp: grant.stamp(),
        ghosts: grant.ghosts.clone(),
    };
    let arrival = gateway.rooms.enter(&connect_query.topic, admission).await?;
    Ok((arrival, counted))
}

/// A connection that has its seat and waits for its upgrade.
struct PendingConnection {
    gateway: Arc<GatewayState>,
    arrival: Arrival,
    connect_query: ConnectQuery,
    grant: Grant,
    connection: ConnectionContext,
    counted: Counts,
}

/// Holds one connection from its upgrade to its end. What only the beginning needs is let go of before the long wait: most
/// connections are idle most of the time, and this is what each of them costs.
fn hold(pending: PendingConnection, upgrade: OnUpgrade) -> impl Future<Output = ()> + Send {
    let connection = pending.connection.clone();
    let beginning = Box::pin(begin(pending, upgrade));
    async move {
        let Some((session, _counted)) = beginning.await else { return };
        super::run(session, &connection).await;
    }
}

async fn begin(pending: PendingConnection, upgrade: OnUpgrade) -> Option<(Pin<Box<Session<Mcpx, WebSocket>>>, Counts)> {
    let PendingConnection { gateway, arrival, connect_query, grant, connection, counted } = pending;
    let carrier = upgrade::socket(&gateway, upgrade).await?;
    let heartbeat = gateway.config.times.heartbeat;
    let limits = gateway.config.limits.envelope();
    let options =
        McpxOptions { limits, echo: connect_query.echo, heartbeat: (!heartbeat.is_zero()).then_some(heartbeat) };
    let dialect = Mcpx::new(options, super::stamps(Instant::now())).acting_for(grant.ghosts.clone());
    let keep_alive = Some(upgrade::keep_alive(&gateway));
    let (seat, joined) = super::welcome(&gateway, connect_query.topic, arrival);
    let expires = clock::instant(grant.expires);
    let resolver = seat.ghosts().map(ghost_resolver);
    let session =
        Session::seated(seat, joined, SessionStart { dialect, resolver, carrier, keep_alive, expires, connection });
    Some((Box::pin(session), counted))
}

/// Enters and removes the ghosts of a bridge's connection.
fn ghost_resolver(ghosts: Ghosts) -> Resolver<Mcpx> {
    Box::new(move |GhostQuery { regarding, request }| match request {
        GhostRequest::Enter { id, name, kind } => {
            let entering = ghosts.clone().enter(GhostIntroduction { id, name, kind });
            Box::pin(async move {
                let outcome = entering.await.map(GhostOutcome::Entered);
                GhostAnswer {
                    outcome: outcome.map_err(|refusal| refusal.regarding(Some(regarding.clone()))),
                    regarding,
                }
            })
        }
        GhostRequest::Leave { id, reason } => {
            ghosts.leave(&id, reason);
            Box::pin(std::future::ready(GhostAnswer { outcome: Ok(GhostOutcome::Left(id)), regarding }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_dates_and_one_of_them_is_the_handshakes() {
        let told = |list: &str| match revisions(list) {
            Ok(mcp) => format!("{list} → {} of {:?}", mcp.version, mcp.versions),
            Err(problem) => format!("{list} → {}: {}", problem.code(), problem.message()),
        };
        let lists = [
            "2025-06-18",
            "2026-07-28,2025-06-18,2025-11-25",
            "2024-11-05,2026-07-28,2025-03-26",
            "2026-07-28",
            "2027-01-01,2026-07-28",
            "",
            "latest",
            "2025-06-18,",
            "2025-6-18",
            "2025-06-18,2025-06-18",
            "2001-01-01,2002-01-01,2003-01-01,2004-01-01,2005-01-01,2006-01-01,2007-01-01,2008-01-01,2009-01-01",
        ];
        insta::assert_snapshot!(lists.map(told).join("\n"), @r#"
        2025-06-18 → 2025-06-18 of ["2025-06-18"]
        2026-07-28,2025-06-18,2025-11-25 → 2025-06-18 of ["2026-07-28", "2025-06-18", "2025-11-25"]
        2024-11-05,2026-07-28,2025-03-26 → 2025-03-26 of ["2024-11-05", "2026-07-28", "2025-03-26"]
        2026-07-28 → 2026-07-28 of ["2026-07-28"]
        2027-01-01,2026-07-28 → 2027-01-01 of ["2027-01-01", "2026-07-28"]
         → invalid_parameters: `mcp` must be 1 to 8 different revisions of MCP, such as 2025-06-18,2026-07-28
        latest → invalid_parameters: `mcp` must be 1 to 8 different revisions of MCP, such as 2025-06-18,2026-07-28
        2025-06-18, → invalid_parameters: `mcp` must be 1 to 8 different revisions of MCP, such as 2025-06-18,2026-07-28
        2025-6-18 → invalid_parameters: `mcp` must be 1 to 8 different revisions of MCP, such as 2025-06-18,2026-07-28
        2025-06-18,2025-06-18 → invalid_parameters: `mcp` must be 1 to 8 different revisions of MCP, such as 2025-06-18,2026-07-28
        2001-01-01,2002-01-01,2003-01-01,2004-01-01,2005-01-01,2006-01-01,2007-01-01,2008-01-01,2009-01-01 → invalid_parameters: `mcp` must be 1 to 8 different revisions of MCP, such as 2025-06-18,2026-07-28
        "#);
    }
}
