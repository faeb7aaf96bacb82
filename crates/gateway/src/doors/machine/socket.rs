//! The protocol over WebSocket: one message a text frame. A client without a token in the upgrade sends one in the first of them.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use salon_dialects::machine::{self, Machine, MachineOpening, UnverifiedMessage};
use salon_dialects::{Frame, StreamId};
use salon_protocol::{CloseReason, Code, Refusal, TopicName};

use super::super::sessions::Visitor;
use super::super::upgrade::{self, Upgrade};
use super::super::{self as doors};
use super::door::{self, MachineDoor, MachineSessionKey};
use super::requests::session_key;
use super::terms;
use crate::carriers::{Carrier, Received, StreamCarrier, WebSocket};
use crate::clock;
use crate::connection::ConnectionContext;
use crate::gateway::{Counted, Counts, GatewayState};
use crate::http::credentials::RequestCredentials;
use crate::http::{Incoming, PeerAddress, Problem, Query, Requester};
use crate::session::Session;

/// What clients may offer, and what is echoed to those that do.
const SUBPROTOCOL: &str = "machine-context.v1";

/// How long a connection may take to show a token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of a first message, whose sender is not known. A token has at most 8 KiB.
const MAX_FIRST_BYTES: usize = 64 * 1024;

/// How long a refusal and the closing handshake may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Somebody who has been let in.
struct Admitted {
    visitor: Visitor,
    session_key: MachineSessionKey,
    counted: Counts,
    connection: ConnectionContext,
    token: Option<String>,
    /// The message that came before it was known who sends it.
    first: Option<UnverifiedMessage>,
}

/// Makes the connection a WebSocket and its session.
pub(super) async fn connect(door: &MachineDoor, incoming: Incoming, mut request: Request) -> Result<Response, Problem> {
    let gateway = &door.gateway;
    let upgrade = Upgrade::take(&mut request)?;
    let topic: Option<TopicName> = incoming.query.name("topic")?;
    let (headers, peer) = (request.headers(), incoming.peer);
    let credentials = incoming.credentials(headers, topic.as_ref());
    if !credentials.shows_something() {
        let counted = gateway.count_stranger(&peer)?;
        let (response, upgrade) = upgrade.answer(headers, SUBPROTOCOL);
        let door = door.clone();
        gateway.spawn(async move {
            let hearing = receive_first(door.gateway.clone(), peer, topic, upgrade, counted);
            let Some((known, carrier)) = Box::pin(hearing).await else { return };
            run(&door, known, carrier).await;
        });
        return Ok(response);
    }
    let grant = credentials.for_signed_stream().await?;
    let token = credentials.token().map(str::to_owned);
    let known = admit(Visitor { gateway: gateway.clone(), peer, grant }, topic, token, None)?;
    let (response, upgrade) = upgrade.answer(headers, SUBPROTOCOL);
    let door = door.clone();
    gateway.spawn(async move {
        if let Some(carrier) = Box::pin(upgrade::socket(&door.gateway, upgrade)).await {
            run(&door, known, carrier).await;
        }
    });
    Ok(response)
}

/// Counts somebody whose token is good, and says where it goes.
fn admit(
    visitor: Visitor,
    topic: Option<TopicName>,
    token: Option<String>,
    first: Option<UnverifiedMessage>,
) -> Result<Admitted, Problem> {
    let session_key = session_key(&visitor.grant, topic)?;
    let Visitor { gateway, peer, grant } = &visitor;
    let connection = gateway.connection(grant, &session_key.topic, peer.ip());
    let counted = gateway.count(grant, peer)?;
    Ok(Admitted { session_key, counted, connection, token, first, visitor })
}

/// Waits for the first message, and for the token in it.
async fn receive_first(
    gateway: Arc<GatewayState>,
    peer: PeerAddress,
    topic: Option<TopicName>,
    upgrade: OnUpgrade,
    counted: Option<Counted<IpAddr>>,
) -> Option<(Admitted, WebSocket)> {
    let most = upgrade::hard_limit(&gateway).min(MAX_FIRST_BYTES);
    let mut carrier = upgrade::socket_within(most, upgrade).await?;
    let mut shutdown = gateway.shutdown.subscribe();
    let heard = tokio::select! { biased;
        _ = shutdown.wait_for(|stop| *stop) => Err(Refusal::new(Code::Closing, "the gateway is shutting down")),
        heard = tokio::time::timeout(TOKEN_TIMEOUT, first(&mut carrier)) => match heard {
            Ok(FirstMessage::Text(text)) => Ok(text),
            Ok(FirstMessage::TooLong) => {
                let told = format!("the message that shows the token may have at most {most} bytes");
                Err(Refusal::new(Code::TooLarge, told))
            }
            Ok(FirstMessage::Nothing) => return None,
            Err(_) => Err(Refusal::new(Code::Unauthorized, "no message came with a token in `payload.security.token`")),
        },
    };
    // A participant that is let in is counted by name, and not twice.
    drop(counted);
    let requester = Requester::default();
    let limits = gateway.config.limits.envelope();
    let parsed = heard.map(|text| UnverifiedMessage::parse(text, &limits));
    match parsed.and_then(|first| admit_by_message(&gateway, peer, topic, first, &requester)) {
        Ok(known) => {
            carrier.set_hard_limit(upgrade::hard_limit(&gateway));
            Some((known, carrier))
        }
        Err(refusal) => {
            gateway.refused(refusal.code, &requester, peer.ip());
            refuse(carrier, &refusal).await;
            None
        }
    }
}

/// Verifies the token in a first message, and admits its sender.
fn admit_by_message(
    gateway: &Arc<GatewayState>,
    peer: PeerAddress,
    topic: Option<TopicName>,
    first: UnverifiedMessage,
    requester: &Requester,
) -> Result<Admitted, Refusal> {
    let regarding = first.id();
    let admitted = || {
        let missing = "a token is required: `payload.security.token` in the first message, or a header";
        let token = first.token().ok_or_else(|| Refusal::new(Code::Unauthorized, missing))?;
        let (headers, query) = (HeaderMap::new(), Query::none());
        let credentials = RequestCredentials {
            gateway,
            peer: peer.ip(),
            headers: &headers,
            query: &query,
            topic: topic.as_ref(),
            requester,
        };
        let grant = credentials.by_message(&token)?;
        let visitor = Visitor { gateway: gateway.clone(), peer, grant };
        admit(visitor, topic.clone(), Some(token), Some(first))
    };
    admitted().map_err(|problem: Problem| Refusal::from(problem).regarding(regarding))
}

/// Answers a first message that is refused, and closes the connection.
async fn refuse(mut carrier: WebSocket, refusal: &Refusal) {
    let id = uuid::Uuid::new_v4().to_string();
    let text = machine::error_text(refusal, &id, clock::now(), None);
    carrier.send(StreamId::ONLY, Frame::Text(text.into()));
    carrier.close(match refusal.code {
        Code::Closing => CloseReason::Shutdown,
        Code::TooLarge => CloseReason::FrameTooLarge,
        _ => CloseReason::Bye,
    });
    let farewell = async {
        // A peer that is gone needs no farewell.
        let _ = poll_fn(|cx| carrier.poll_flush(cx)).await;
        poll_fn(|cx| carrier.poll_farewell(cx)).await;
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, farewell).await;
}

/// What comes first from somebody nobody knows.
enum FirstMessage {
    Text(Box<str>),
    /// More than is read of a stranger.
    TooLong,
    /// The connection ended.
    Nothing,
}

async fn first(carrier: &mut WebSocket) -> FirstMessage {
    loop {
        match poll_fn(|cx| StreamCarrier::<MachineOpening>::poll_receive(carrier, cx)).await {
            Received::Frame(_, Frame::Text(text)) => return FirstMessage::Text(text),
            // A binary frame has no token in it.
            Received::Frame(..) => return FirstMessage::Text("".into()),
            Received::Control => {
                if poll_fn(|cx| carrier.poll_flush(cx)).await.is_err() {
                    return FirstMessage::Nothing;
                }
            }
            Received::End(CloseReason::FrameTooLarge) => return FirstMessage::TooLong,
            _ => return FirstMessage::Nothing,
        }
    }
}

async fn run(door: &MachineDoor, known: Admitted, carrier: WebSocket) {
    let connection = known.connection.clone();
    let _open = door.open_socket(&known.session_key);
    let (session, _counted) = begin(known, carrier);
    doors::run(session, &connection).await;
}

fn begin(known: Admitted, carrier: WebSocket) -> (Pin<Box<Session<Machine, WebSocket>>>, Counts) {
    let Admitted { visitor, session_key, counted, connection, token, first } = known;
    let terms = terms::terms(&visitor.gateway, &visitor.grant, &session_key.topic, token.as_deref());
    let mut dialect = door::dialect(&visitor.gateway, &session_key, Some(terms), None);
    if let Some(first) = first {
        dialect.begin(first, Instant::now());
    }
    (door::session(&visitor, connection, carrier, dialect), counted)
}
