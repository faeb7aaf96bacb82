//! One connection to the server, from its handshake to its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use salon_dialects::mcp::draft::{self, words};
use salon_mcp::handshake::{HandshakeError, HandshakeParams, ServerProfile};
use salon_mcp::{Era, Revision, RpcHead};
use salon_protocol::{RpcError, rpc};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::outbox::once;
use crate::switchboard::LaneId;
use crate::upstream::{
    GuestTarget, Inbound, LegacyDialect, Outbound, ProbeVerdict, UpstreamConnection, UpstreamMessage, UpstreamSetup,
};

/// How long a child may take to end by itself, and then again when it is asked to.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// What may wait on its way to one connection: more messages than there can be open calls, and so many bytes.
const COMMANDS: usize = 4096;
const MAX_WAITING_BYTES: usize = 64 << 20;

/// The id of our `initialize`. The switchboard's numbers begin after it.
const INITIALIZE_ID: u64 = 0;

/// Where a lane leads, and how it begins.
#[derive(Debug, Clone)]
pub(crate) struct LaneOpening {
    pub(crate) target: Arc<GuestTarget>,
    pub(crate) verdict: Arc<ProbeVerdict>,
    pub(crate) setup: UpstreamSetup,
    pub(crate) timeout: Duration,
    pub(crate) era: Era,
    pub(crate) handshake_params: Box<HandshakeParams>,
    pub(crate) revision: Revision,
}

/// Commands to a lane.
#[derive(Debug)]
pub(crate) enum LaneCommand {
    /// To the server.
    Send {
        /// The number of the request, if it is one.
        request: Option<u64>,
        message: Outbound,
        /// Its place among the bytes that may wait.
        weight: OwnedSemaphorePermit,
    },
    /// An answer is not wanted any more.
    Abandon(u64),
}

/// The way to a lane. Dropping it closes the lane.
#[derive(Debug)]
pub(crate) struct LaneHandle {
    commands: mpsc::Sender<LaneCommand>,
    bytes: Arc<Semaphore>,
}

/// The lane takes nothing any more, or not as fast as it is given.
#[derive(Debug)]
pub(crate) struct Stuck;

impl LaneHandle {
    pub(crate) fn new() -> (Self, mpsc::Receiver<LaneCommand>) {
        let (commands, taken) = mpsc::channel(COMMANDS);
        (Self { commands, bytes: Arc::new(Semaphore::new(MAX_WAITING_BYTES)) }, taken)
    }

    pub(crate) fn send(&self, request: Option<u64>, message: Outbound) -> Result<(), Stuck> {
        let length = u32::try_from(message.text.len()).map_err(|_| Stuck)?;
        let weight = self.bytes.clone().try_acquire_many_owned(length).map_err(|_| Stuck)?;
        self.commands.try_send(LaneCommand::Send { request, message, weight }).map_err(|_| Stuck)
    }

    pub(crate) fn abandon(&self, request: u64) -> Result<(), Stuck> {
        self.commands.try_send(LaneCommand::Abandon(request)).map_err(|_| Stuck)
    }
}

/// Events of a lane.
#[derive(Debug)]
pub(crate) enum LaneReport {
    /// The handshake is done.
    Opened(Box<ServerProfile>),
    /// A message of the server.
    Message { text: Box<str>, related: Option<u64> },
    /// A request gets no answer.
    Unanswered { request: u64, why: String, error: Option<Box<str>> },
    /// It is over.
    Ended { why: String },
}

/// Opens a lane and serves it until it ends or `commands` does.
pub(crate) async fn drive(
    id: LaneId,
    opening: LaneOpening,
    mut commands: mpsc::Receiver<LaneCommand>,
    reports: mpsc::Sender<(LaneId, LaneReport)>,
) {
    let opened = tokio::select! { biased;
        () = dropped(&mut commands) => return,
        opened = tokio::time::timeout(opening.timeout, open(&opening)) => opened,
    };
    let (connection, mut inbound) = match opened {
        Ok(Ok((connection, inbound, server))) => {
            let _ = reports.send((id, LaneReport::Opened(Box::new(server)))).await;
            (connection, inbound)
        }
        Ok(Err(why)) => return report_end(id, &reports, why).await,
        Err(_) => {
            let why = format!("it did not finish its handshake within {} s", opening.timeout.as_secs());
            return report_end(id, &reports, why).await;
        }
    };
    // One task, two futures: a server that does not read must not keep us from reading, nor the other way round.
    tokio::select! {
        () = read(id, &mut inbound, &reports) => {}
        () = write(id, &connection, &mut commands, &reports) => {}
    }
    connection.end(inbound, EXIT_TIMEOUT).await;
}

/// Waits until nobody wants the lane any more. Nothing is sent on it before it has reported that it is open.
async fn dropped(commands: &mut mpsc::Receiver<LaneCommand>) {
    while commands.recv().await.is_some() {
        tracing::debug!("lane: command before the connection is open, dropped");
    }
}

async fn report_end(id: LaneId, reports: &mpsc::Sender<(LaneId, LaneReport)>, why: String) {
    // Nobody listens when the guest itself is ending.
    let _ = reports.send((id, LaneReport::Ended { why })).await;
}

async fn read(id: LaneId, inbound: &mut Inbound, reports: &mpsc::Sender<(LaneId, LaneReport)>) {
    while let Some(received) = inbound.next().await {
        let report = match received {
            UpstreamMessage::Message { text, related } => {
                LaneReport::Message { text, related: related.and_then(|related| related.parse().ok()) }
            }
            UpstreamMessage::Failed { id, why, error } => match id.parse() {
                Ok(request) => LaneReport::Unanswered { request, why, error },
                Err(_) => continue,
            },
            UpstreamMessage::Ended { why } => LaneReport::Ended { why },
        };
        if reports.send((id, report)).await.is_err() {
            return;
        }
    }
}

async fn write(
    id: LaneId,
    connection: &UpstreamConnection,
    commands: &mut mpsc::Receiver<LaneCommand>,
    reports: &mpsc::Sender<(LaneId, LaneReport)>,
) {
    // The answer to a server's question must not wait behind the calls that wait for it. Each is polled once in its turn, so that
    // they still go out in order where there is only one way out.
    let mut sending = FuturesUnordered::new();
    // The requests among them. One that is abandoned before it has gone out must not go out.
    let mut waiting = HashMap::new();
    loop {
        let command = tokio::select! { biased;
            Some((request, report)) = sending.next(), if !sending.is_empty() => {
                if let Some(request) = request {
                    waiting.remove(&request);
                }
                if let Some(report) = report {
                    let _ = reports.send((id, report)).await;
                }
                continue;
            }
            command = commands.recv() => command,
        };
        match command {
            None => return,
            Some(LaneCommand::Abandon(request)) => match waiting.remove(&request) {
                Some(abandoned) => CancellationToken::cancel(&abandoned),
                None => connection.abandon(&request.to_string()),
            },
            Some(LaneCommand::Send { request, message, weight }) => {
                let abandoned = CancellationToken::new();
                let dropped = abandoned.clone();
                let mut send = Box::pin(async move {
                    let sent = tokio::select! { biased;
                        () = dropped.cancelled() => Ok(()),
                        sent = connection.send(message) => sent,
                    };
                    drop(weight);
                    let unanswered = |request| {
                        sent.err().map(|why| LaneReport::Unanswered { request, why: why.to_string(), error: None })
                    };
                    (request, request.and_then(unanswered))
                });
                match once(&mut send).await {
                    Poll::Pending => {
                        waiting.extend(request.map(|request| (request, abandoned)));
                        sending.push(send);
                    }
                    Poll::Ready((_, Some(report))) => drop(reports.send((id, report)).await),
                    Poll::Ready((_, None)) => {}
                }
            }
        }
    }
}

async fn open(opening: &LaneOpening) -> Result<(UpstreamConnection, Inbound, ServerProfile), String> {
    let opened = UpstreamConnection::open(&opening.target, &opening.verdict, opening.era, &opening.setup).await;
    let (connection, mut inbound) = opened.map_err(|error| error.to_string())?;
    let server = match opening.era {
        Era::Legacy => perform_handshake(&connection, &mut inbound, opening).await?,
        Era::Modern => {
            let discovered = opening.verdict.discovered.as_deref().ok_or("it was not discovered")?;
            ServerProfile::from_discover(discovered).map_err(describe)?
        }
    };
    Ok((connection, inbound, server))
}

/// The handshake of the legacy era, in MCP's methods or in those of its draft dialect: where it is not known which the server supports, its
/// answer shows it.
async fn perform_handshake(
    connection: &UpstreamConnection,
    inbound: &mut Inbound,
    opening: &LaneOpening,
) -> Result<ServerProfile, String> {
    let official = opening.handshake_params.params(opening.revision, &our_info());
    let say = |text: Box<RawValue>| async move {
        connection.send(Outbound::new(text.get())).await.map_err(|error| error.to_string())
    };
    let handshake_params = |speech: LegacyDialect| match speech {
        LegacyDialect::Official => rpc::request(INITIALIZE_ID, "initialize", Some(&official)),
        LegacyDialect::Draft => rpc::request(INITIALIZE_ID, "initialize", Some(&words::initialize_draft())),
        LegacyDialect::Unknown => rpc::request(INITIALIZE_ID, "initialize", Some(&words::initialize_either(&official))),
    };
    let mut asked = opening.verdict.speech;
    say(handshake_params(asked)).await?;
    let server = loop {
        let received = inbound.next().await.ok_or("it ended before its handshake")?;
        let text = match received {
            UpstreamMessage::Message { text, .. } => text,
            UpstreamMessage::Failed { why, error, .. } => {
                match error.as_deref().and_then(|error| other_speech(error, asked)) {
                    Some(other) => {
                        asked = other;
                        say(handshake_params(asked)).await?;
                        continue;
                    }
                    None => return Err(why),
                }
            }
            UpstreamMessage::Ended { why } => return Err(why),
        };
        let Some(head) = RpcHead::read(&text) else { continue };
        if head.answers(&INITIALIZE_ID.to_string()) {
            if let Some(result) = head.result {
                if !draft::is_introduction(result) {
                    break ServerProfile::from_initialize(result).map_err(describe)?;
                }
                connection.speak_draft();
                break ServerProfile::from_initialize(&words::introduction_to_mcp(result)).map_err(describe)?;
            }
            let error = head.error.map(RawValue::get).unwrap_or_default();
            if let Some(other) = other_speech(error, asked) {
                asked = other;
                say(handshake_params(asked)).await?;
                continue;
            }
            return Err(format!("it refused the handshake: {}", error.chars().take(300).collect::<String>()));
        }
        if let (Some(id), Some("ping")) = (head.id, head.method.as_deref()) {
            say(rpc::response(id, &to_raw_value(&json!({})).map_err(|error| error.to_string())?)).await?;
        }
        // Some servers log before the handshake; nobody has asked for it yet.
    };
    say(rpc::notification("notifications/initialized", None)).await?;
    Ok(server)
}

/// Which handshake to send to a server that does not take the combined one.
fn other_speech(error: &str, asked: LegacyDialect) -> Option<LegacyDialect> {
    let error: RpcError = serde_json::from_str(error).ok().filter(|_| asked == LegacyDialect::Unknown)?;
    match error.code {
        draft::INVALID_PARAMETERS => Some(LegacyDialect::Draft),
        RpcError::INVALID_PARAMS => Some(LegacyDialect::Official),
        _ => None,
    }
}

fn describe(unfit: HandshakeError) -> String {
    match unfit {
        HandshakeError::Unreadable => "its introduction is not one of MCP".into(),
        HandshakeError::Revision(said) => {
            format!("it speaks MCP {said}, which is not one of {}", Revision::LEGACY.map(Revision::date).join(", "))
        }
    }
}

/// Our client info for requests that are not for one caller.
pub(crate) fn our_info() -> Box<RawValue> {
    to_raw_value(&json!({ "name": "salon", "version": env!("CARGO_PKG_VERSION") })).expect("two strings can be written")
}

#[cfg(test)]
mod tests {
    use salon_testkit::within;

    use super::*;
    use crate::upstream::tests::server::Server as Http;
    use crate::upstream::{UrlTransport, WireKind};

    #[tokio::test]
    async fn a_request_that_is_abandoned_while_it_waits_never_goes_out() {
        let mut server = Http::start().await;
        let verdict = ProbeVerdict::legacy(WireKind::Streamable, LegacyDialect::Official);
        let target = server.target_as(UrlTransport::Streamable);
        let (connection, _inbound) =
            UpstreamConnection::open(&target, &verdict, Era::Legacy, &UpstreamSetup::new("robot")).await.unwrap();
        let (way, mut commands) = LaneHandle::new();
        let (reports, _reported) = mpsc::channel(1);
        let said = |id: u64| Outbound::new(format!(r#"{{"id":{id},"method":"tools/call"}}"#));
        let talk = async {
            let mut open = Vec::new();
            for id in 0..64 {
                way.send(Some(id), said(id)).unwrap();
                open.push(server.expect("tools/call").await);
            }
            way.send(Some(64), said(64)).unwrap();
            way.send(Some(65), said(65)).unwrap();
            way.abandon(64).unwrap();
            // One that is under way is hung up on, and its place is the next one's that is still wanted.
            way.abandon(0).unwrap();
            let _next = server.expect(r#""id":65"#).await;
            drop(way);
        };
        let both = async { tokio::join!(talk, write(LaneId::BASE, &connection, &mut commands, &reports)) };
        within("the request that is wanted", both).await.unwrap();
    }

    #[test]
    fn what_is_said_to_a_server_is_not_printed() {
        let message = Outbound { text: "hunter2".into(), headers: vec![("Mcp-Name".into(), "hunter2".into())] };
        let weight = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let describe = format!("{:?}", LaneCommand::Send { request: Some(1), message, weight });
        assert!(describe.contains("Mcp-Name") && !describe.contains("hunter2"), "{describe}");
    }
}
