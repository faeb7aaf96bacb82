//! `GET /v0/ws`: MCPx over WebSocket. Every refusal comes before the upgrade, as an HTTP answer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use salon_dialects::mcpx::{Mcpx, Options};
use salon_dialects::{History, Joined, Stamps};
use salon_log::{Claim, Durability};
use salon_protocol::{
    CloseReason, Code, EnvelopeId, McpVersion, PROTOCOL, Participant, ParticipantKind, Refusal, TopicName,
};
use salon_rooms::{Admission, Arrival, Deliver};

use crate::audit::AuditKind;
use crate::auth::Grant;
use crate::carriers::{Socket, WebSocket};
use crate::clock;
use crate::gateway::{Counts, Gateway, MOST_HISTORY, MOST_MESSAGE};
use crate::http::credentials::{self, Asking, SUBPROTOCOL};
use crate::http::{Peer, Problem, Query, invalid};
use crate::ledger::Ledger;
use crate::session::{Patience, Session};

/// The longest display name.
const MOST_NAME_CHARS: usize = 256;

/// The most MCP revisions one participant may name.
const MOST_REVISIONS: usize = 8;

/// The revision from which on there is no handshake.
const FIRST_WITHOUT_HANDSHAKE: &str = "2026-07-28";

/// What the query of a connection asks for.
struct Wish {
    topic: TopicName,
    name: Option<String>,
    kind: Option<ParticipantKind>,
    after: Option<EnvelopeId>,
    recent: Option<usize>,
    echo: bool,
    deliver: Deliver,
    claim: Claim,
    mcp: McpVersion,
}

impl Wish {
    fn read(query: &Query) -> Result<Self, Problem> {
        if query.get("protocol").is_some_and(|protocol| protocol != PROTOCOL) {
            return Err(Refusal::new(Code::UnsupportedProtocol, format!("`protocol` must be {PROTOCOL}")).into());
        }
        let wrong_name = |name: &String| name.chars().count() > MOST_NAME_CHARS || name.chars().any(char::is_control);
        let name = query.get("name").map(String::from);
        if name.as_ref().is_some_and(wrong_name) {
            return Err(invalid(format!(
                "`name` must have at most {MOST_NAME_CHARS} characters, none of them a control character"
            )));
        }
        let recent = query.value("history", "a whole number from 0 to 1000")?;
        if recent.is_some_and(|count: usize| count > MOST_HISTORY) {
            return Err(invalid("`history` must be a whole number from 0 to 1000"));
        }
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
            claim: if query.flag("share")?.unwrap_or(false) { Claim::Shared } else { Claim::Exclusive },
            mcp: query.get("mcp").map_or(Ok(McpVersion::default()), revisions)?,
        })
    }

    /// The participant as everyone will see it: what the token fixes, and the query where it does not.
    fn participant(&self, grant: &Grant) -> Participant {
        Participant {
            id: grant.participant.clone(),
            name: grant.name.clone().or_else(|| self.name.clone()),
            kind: grant.kind.or(self.kind),
            mcp: self.mcp.clone(),
        }
    }
}

/// What a participant says it speaks. The revision of its handshake is the room's default where that is among them, else the newest
/// that has a handshake.
fn revisions(list: &str) -> Result<McpVersion, Problem> {
    let versions: Vec<String> = list.split(',').take(MOST_REVISIONS + 1).map(String::from).collect();
    let doubled = versions.iter().enumerate().any(|(at, revision)| versions[..at].contains(revision));
    if versions.len() > MOST_REVISIONS || doubled || !versions.iter().all(|revision| is_date(revision)) {
        return Err(invalid(format!(
            "`mcp` must be 1 to {MOST_REVISIONS} different revisions of MCP, such as 2025-06-18,2026-07-28"
        )));
    }
    let usual = McpVersion::default().version;
    let with_handshake = versions.iter().filter(|revision| revision.as_str() < FIRST_WITHOUT_HANDSHAKE);
    let version = if versions.contains(&usual) { Some(&usual) } else { with_handshake.max() };
    let version = version.unwrap_or(&versions[0]).clone();
    Ok(McpVersion { version, versions })
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() })
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
        ("mcp" = Option<String>, Query, description = "The MCP revisions one takes requests of, separated by commas; at most 8"),
        ("ticket" = Option<String>, Query, description = "A ticket from POST /v0/tickets in place of a token"),
    ),
    responses(
        (status = 101, description = "Welcome: envelopes both ways, as text frames"),
        (status = "4XX", description = "Refused", body = crate::http::ProblemBody),
        (status = 503, description = "Not now", body = crate::http::ProblemBody),
    ),
    security(("bearer" = []), ()),
)]
pub(crate) async fn connect(
    State(gateway): State<Arc<Gateway>>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
) -> Result<Response, Problem> {
    let accept = handshake(request.headers())?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| invalid("this connection cannot be upgraded"))?;
    let query = Query::parse(request.uri().query())?;
    let wish = Wish::read(&query)?;
    let (headers, topic) = (request.headers(), Some(&wish.topic));
    let grant = Asking { gateway: &gateway, peer: peer.ip(), headers, query: &query, topic }.for_stream()?;
    let ledger = gateway.ledger(&grant, &wish.topic, peer.ip());
    let entering = enter(&gateway, &peer, &grant, &wish).await;
    let (arrival, counted) = entering.inspect_err(|refusal| ledger.told_no(refusal.code))?;

    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if credentials::subprotocols(request.headers()).any(|offered| offered == SUBPROTOCOL) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    gateway.spawn(hold(Held { gateway: gateway.clone(), arrival, wish, grant, ledger, counted }, upgrade));
    Ok(response)
}

/// Takes a seat, if there is room for one more.
async fn enter(gateway: &Gateway, peer: &Peer, grant: &Grant, wish: &Wish) -> Result<(Arrival, Counts), Refusal> {
    let counted = gateway.count(grant, peer)?;
    let admission = Admission {
        participant: wish.participant(grant),
        claim: wish.claim,
        after: wish.after.clone(),
        recent: wish.recent.filter(|_| gateway.has_history(&wish.topic)),
        deliver: wish.deliver,
        echo: wish.echo,
    };
    let arrival = gateway.rooms.enter(&wish.topic, admission).await?;
    Ok((arrival, counted))
}

/// Checks that the request is a WebSocket's, and derives the answer to its key.
fn handshake(headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    let has = |name, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    let wrong = |message: &str| Err(invalid(message).with_status(StatusCode::UPGRADE_REQUIRED));
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return wrong("this address speaks WebSocket: connect with an `Upgrade: websocket` request");
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return wrong("`Sec-WebSocket-Version` must be 13");
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| invalid("`Sec-WebSocket-Key` is missing"))?;
    let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
    HeaderValue::try_from(accept).map_err(|_| invalid("`Sec-WebSocket-Key` is not acceptable"))
}

/// A connection that has its seat and waits for its upgrade.
struct Held {
    gateway: Arc<Gateway>,
    arrival: Arrival,
    wish: Wish,
    grant: Grant,
    ledger: Ledger,
    counted: Counts,
}

/// Holds one connection from its upgrade to its end. What only the beginning needs is let go of before the long wait: most
/// connections are idle most of the time, and this is what each of them costs.
fn hold(held: Held, upgrade: OnUpgrade) -> impl Future<Output = ()> + Send {
    let ledger = held.ledger.clone();
    let beginning = Box::pin(begin(held, upgrade));
    async move {
        let Some((session, _counted)) = beginning.await else { return };
        ledger.meters.connections.increment(1);
        let reason = session.await;
        ledger.meters.connections.decrement(1);
        if reason == CloseReason::Replaced {
            ledger.record(AuditKind::Takeover, |event| event.reason(reason.word()));
        }
        tracing::debug!(topic = %ledger.topic, participant = %ledger.participant, reason = reason.word(), "disconnected");
    }
}

async fn begin(held: Held, upgrade: OnUpgrade) -> Option<(Pin<Box<Session<Mcpx>>>, Counts)> {
    let upgraded = upgrade.await.ok()?;
    let Held { gateway, arrival, wish, grant, ledger, counted } = held;
    let Ok(parts) = upgraded.downcast::<TokioIo<Socket>>() else {
        tracing::error!("an upgraded connection is not one of ours");
        return None;
    };
    let limits = gateway.config.limits.envelope();
    // Twice the limit is still read, so that a message just over it gets its refusal and the connection stays usable.
    let hard_limit = if limits.message > 0 { limits.message.saturating_mul(2) } else { MOST_MESSAGE };
    let socket = WebSocket::new(parts.io.into_inner(), &parts.read_buf, hard_limit);

    let times = gateway.config.times;
    let (began, heartbeat) = (Instant::now(), times.heartbeat);
    let stamps = Stamps::new(uuid::Uuid::new_v4().simple().to_string(), began, clock::now());
    let options = Options { limits, echo: wish.echo, heartbeat: (!heartbeat.is_zero()).then_some(heartbeat) };
    let durability = gateway.rooms.log().durability();
    let joined = Joined {
        participant: arrival.seat.participant().clone(),
        roster: arrival.roster,
        history: History { enabled: gateway.has_history(&wish.topic), limit: MOST_HISTORY, recent: arrival.recent },
        durability: (durability != Durability::Full).then(|| durability.word()),
        topic: wish.topic,
    };
    let patience = Patience { ping: times.ping_interval, silence: times.silence_limit };
    let expires = clock::instant(grant.expires);
    tracing::debug!(topic = %ledger.topic, participant = %ledger.participant, "connected");
    let session = Session::new(arrival.seat, joined, Mcpx::new(options, stamps), socket, patience, expires, ledger);
    Some((Box::pin(session), counted))
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
