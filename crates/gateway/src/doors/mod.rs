//! Doors: a carrier and a dialect at an address.

pub(crate) mod framed;
pub(crate) mod machine;
pub(crate) mod mcp;
pub(crate) mod mcpx;
mod sessions;
mod upgrade;

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use salon_control::Authority;
use salon_dialects::{
    CatalogueAnswer, CatalogueQuery, Dialect, History, Introduction, Joined, RoomAnswer, RoomQuery, Stamps,
};
use salon_log::{Claim, Durability};
use salon_protocol::{CloseReason, Code, Participant, Refusal, TopicName};
use salon_rooms::{Admission, Arrival, Deliver, Seat};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::audit::AuditKind;
use crate::auth::Grant;
use crate::carriers::StreamCarrier;
use crate::clock;
use crate::connection::ConnectionContext;
use crate::entrance::{Entrance, SeatFuture};
use crate::gateway::{GatewayState, MAX_HISTORY};
use crate::http::body;
use crate::session::{Resolver, Session, SessionStart};
use sessions::Visitor;

/// The longest display name.
const MAX_NAME_CHARS: usize = 256;

/// Every address of a door over HTTP.
pub(crate) fn router(gateway: &Arc<GatewayState>) -> Router<Arc<GatewayState>> {
    Router::new().merge(mcpx::router()).merge(machine::router(gateway)).merge(mcp::router(gateway))
}

/// Ids and times for what a dialect writes itself.
fn stamps(now: Instant) -> Stamps {
    Stamps::new(uuid::Uuid::new_v4().simple().to_string(), now, clock::now())
}

/// Whether a body is said to be JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether a stream of events may be answered.
fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut kinds = values.flat_map(|value| value.split(',')).filter_map(|range| range.split(';').next());
    kinds.any(|kind| ["text/event-stream", "text/*", "*/*"].iter().any(|fits| kind.trim().eq_ignore_ascii_case(fits)))
}

/// The last event that a reader which reconnects has seen.
fn last_event_id(headers: &HeaderMap) -> Option<Box<str>> {
    headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(Into::into)
}

/// A whole body, which must be text.
async fn read_text(gateway: &GatewayState, grant: &Grant, body: Body) -> Result<Box<str>, Refusal> {
    let bytes = body::read(gateway, grant.into(), body, gateway.max_message()).await?;
    let text = String::from_utf8(bytes.into()).map_err(|_| Refusal::new(Code::InvalidJson, "the body is not UTF-8"))?;
    Ok(text.into())
}

/// Whether a text could be a revision of MCP.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() })
}

/// A seat, and what its holder gets to know of the room.
fn welcome(gateway: &GatewayState, topic: TopicName, arrival: Arrival) -> (Seat, Joined) {
    let durability = gateway.rooms.log().durability();
    let joined = Joined {
        participant: arrival.seat.participant().clone(),
        roster: arrival.roster,
        open_calls: arrival.open_calls,
        history: History { enabled: gateway.has_history(&topic), limit: MAX_HISTORY, recent: arrival.recent },
        durability: (durability != Durability::Full).then(|| durability.word()),
        topic,
    };
    (arrival.seat, joined)
}

/// A session of a visitor that is yet to introduce itself. `admit` says as whom it comes in, and what it receives there.
fn session<D: Dialect + Unpin, C: StreamCarrier<D::Opening>>(
    Visitor { gateway, grant, .. }: &Visitor,
    connection: ConnectionContext,
    carrier: C,
    dialect: D,
    resolver: Option<Resolver<D>>,
    admit: impl Fn(Introduction) -> Admission + Send + 'static,
) -> Pin<Box<Session<D, C>>> {
    let entrance = entrance(gateway, &connection.topic, admit);
    let keep_alive = C::DUPLEX.then(|| upgrade::keep_alive(gateway));
    let expires = clock::instant(grant.expires);
    let beginning = SessionStart { dialect, resolver, carrier, keep_alive, expires, connection };
    Box::pin(Session::outside(entrance, beginning))
}

/// Admits a participant that is in the room once: two of them would both do what one was asked.
fn admit_once(grant: &Grant) -> impl Fn(Introduction) -> Admission + Send + 'static {
    let (id, name, kind, stamp) = (grant.participant.clone(), grant.name.clone(), grant.kind, grant.stamp());
    move |Introduction { mcp, capabilities, .. }| Admission {
        participant: Participant { name: name.clone(), kind, mcp, capabilities, ..Participant::new(id.clone()) },
        claim: Claim::Exclusive,
        after: None,
        recent: None,
        deliver: Deliver::Directed,
        echo: false,
        stamp: stamp.clone(),
        // Ghosts are entered by messages of MCPx.
        ghosts: None,
    }
}

fn entrance(
    gateway: &Arc<GatewayState>,
    topic: &TopicName,
    admit: impl Fn(Introduction) -> Admission + Send + 'static,
) -> Entrance {
    let (gateway, topic) = (gateway.clone(), topic.clone());
    let mut shutdown = gateway.shutdown.subscribe();
    let enter = move |introduction: Introduction| -> SeatFuture {
        let admission = admit(introduction);
        let (gateway, topic) = (gateway.clone(), topic.clone());
        Box::pin(async move {
            let arrival = gateway.rooms.enter(&topic, admission).await?;
            Ok(welcome(&gateway, topic, arrival))
        })
    };
    let dismissed = async move { drop(shutdown.wait_for(|stop| *stop).await) };
    Entrance::new(enter, dismissed)
}

/// Runs a session to its end, counted as an open connection and in a span of its own: a session over HTTP outlives the connection it
/// began with.
pub(crate) fn run<D: Dialect + Unpin, C: StreamCarrier<D::Opening>>(
    session: Pin<Box<Session<D, C>>>,
    connection: &ConnectionContext,
) -> impl Future<Output = CloseReason> + Send {
    let span = tracing::error_span!("session", topic = %connection.topic, participant = %connection.participant);
    async move {
        tracing::debug!("session: started");
        let open = connection.meters.open_connection();
        let reason = session.await;
        drop(open);
        if reason == CloseReason::Replaced {
            connection.record(AuditKind::Takeover, |event| event.reason(reason.word()));
        }
        tracing::debug!(reason = reason.word(), "session: ended");
        reason
    }
    .instrument(span)
}

/// Which part of a room's catalogue a session of the MCP door follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CatalogueUse {
    /// None: it sees the room's host alone.
    None,
    /// The lists that it asks for.
    Requested,
    /// All: the client is told of changes of lists that it has not asked for.
    Announced,
}

/// Answers what a session asks that sees a room as one server, or its host. It follows the catalogue from now on, before it has its seat.
fn room_resolver<D>(gateway: &GatewayState, connection: &ConnectionContext, catalogue_use: CatalogueUse) -> Resolver<D>
where
    D: Dialect<Query = RoomQuery, Answer = RoomAnswer>,
{
    let library = gateway.library.clone();
    let (topic, asker) = (connection.topic.clone(), connection.participant.clone());
    let (rooms, stamps) = (gateway.rooms.clone(), connection.stamps.clone());
    let is_announced_to = catalogue_use == CatalogueUse::Announced;
    let follower = (catalogue_use != CatalogueUse::None).then(|| library.follow(&topic, &asker, is_announced_to));
    let waits = Arc::<DoorWaits>::default();
    Box::new(move |query: RoomQuery| match query {
        RoomQuery::One(query) => {
            let found = library.consult(&topic, (&asker, stamps.own()), &query.who, query.listing);
            Box::pin(async move { RoomAnswer::One(CatalogueAnswer { query, items: found.await }) })
        }
        RoomQuery::Gather { number, listings } => {
            let gathered = library.gather(&topic, &asker, listings);
            Box::pin(async move { RoomAnswer::Gathered { number, snapshot: gathered.await } })
        }
        RoomQuery::Watch { listings } => {
            if let Some(follower) = &follower {
                follower.watch(&listings);
            }
            Box::pin(std::future::ready(RoomAnswer::Watching))
        }
        RoomQuery::Next { after } => {
            let next = follower.as_ref().map(|follower| follower.next(after));
            Box::pin(async move {
                match next {
                    Some(next) => RoomAnswer::Next(next.await),
                    None => std::future::pending().await,
                }
            })
        }
        RoomQuery::Authority => {
            let authority = Authority::new(rooms.settings(&topic).as_ref(), stamps.own().as_ref());
            Box::pin(std::future::ready(RoomAnswer::Authority(authority.map(Arc::new))))
        }
        RoomQuery::Wait { number, params } => {
            let (waits, stopped) = (waits.clone(), waits.begin(number));
            let waited = library.wait(&topic, (&asker, stamps.own()), params);
            Box::pin(async move {
                let idle = tokio::select! { biased;
                    _ = stopped => None,
                    idle = waited => idle,
                };
                waits.end(number);
                RoomAnswer::Waited { number, idle }
            })
        }
        RoomQuery::StopWaiting { number } => {
            waits.end(number);
            Box::pin(std::future::ready(RoomAnswer::StoppedWaiting))
        }
    })
}

/// The waits of one session, by number. A wait ends when its sender here is dropped.
#[derive(Default)]
struct DoorWaits(Mutex<HashMap<u64, oneshot::Sender<Infallible>>>);

impl DoorWaits {
    fn begin(&self, number: u64) -> oneshot::Receiver<Infallible> {
        let (stop, stopped) = oneshot::channel();
        self.0.lock().insert(number, stop);
        stopped
    }

    fn end(&self, number: u64) {
        self.0.lock().remove(&number);
    }
}

/// Answers what a dialect asks of one participant's lists.
fn catalogue_resolver<D>(gateway: &GatewayState, connection: &ConnectionContext) -> Resolver<D>
where
    D: Dialect<Query = CatalogueQuery, Answer = CatalogueAnswer>,
{
    let library = gateway.library.clone();
    let (topic, asker) = (connection.topic.clone(), connection.participant.clone());
    let stamps = connection.stamps.clone();
    Box::new(move |query: CatalogueQuery| {
        let found = library.consult(&topic, (&asker, stamps.own()), &query.who, query.listing);
        Box::pin(async move { CatalogueAnswer { query, items: found.await } })
    })
}
