//! One connection to the server, from its handshake to its end.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use salon_dialects::mcp::handshake::{Hello, Server, Unfit};
use salon_dialects::mcp::{Era, Head, Revision};
use salon_protocol::{Members, rpc};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::switchboard::LaneId;
use crate::upstream::{Connection, Inbound, Outbound, Received, Setup, Target, Verdict};

/// How long a child may take to end by itself, and then again when it is asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// What may wait on its way to one connection: more messages than there can be open calls, and so many bytes.
const COMMANDS: usize = 4096;
const WAITING_BYTES: usize = 64 << 20;

/// The id of our `initialize`. The switchboard's numbers begin after it.
const GREETING: u64 = 0;

/// Where a lane leads, and how it begins.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) target: Arc<Target>,
    pub(crate) verdict: Arc<Verdict>,
    pub(crate) setup: Setup,
    pub(crate) timeout: Duration,
    pub(crate) era: Era,
    pub(crate) hello: Box<Hello>,
    pub(crate) revision: Revision,
}

/// What a lane is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// To the server.
    Send {
        /// The number of the request, if it is one.
        request: Option<u64>,
        /// The message.
        message: Outbound,
        /// Its place among the bytes that may wait.
        weight: OwnedSemaphorePermit,
    },
    /// An answer is not wanted any more.
    Abandon(u64),
}

/// The way to a lane. Dropping it closes the lane.
#[derive(Debug)]
pub(crate) struct Way {
    commands: mpsc::Sender<Command>,
    bytes: Arc<Semaphore>,
}

/// The lane takes nothing any more, or not as fast as it is given.
#[derive(Debug)]
pub(crate) struct Stuck;

impl Way {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, taken) = mpsc::channel(COMMANDS);
        (Self { commands, bytes: Arc::new(Semaphore::new(WAITING_BYTES)) }, taken)
    }

    pub(crate) fn send(&self, request: Option<u64>, message: Outbound) -> Result<(), Stuck> {
        let length = u32::try_from(message.text.len()).map_err(|_| Stuck)?;
        let weight = self.bytes.clone().try_acquire_many_owned(length).map_err(|_| Stuck)?;
        self.commands.try_send(Command::Send { request, message, weight }).map_err(|_| Stuck)
    }

    pub(crate) fn abandon(&self, request: u64) -> Result<(), Stuck> {
        self.commands.try_send(Command::Abandon(request)).map_err(|_| Stuck)
    }
}

/// What a lane tells.
#[derive(Debug)]
pub(crate) enum Report {
    /// The handshake is done.
    Opened(Box<Server>),
    /// The server said something.
    Said { text: Box<str>, related: Option<u64> },
    /// A request gets no answer.
    Unanswered { request: u64, why: String, error: Option<Box<str>> },
    /// It is over.
    Ended { why: String },
}

/// Opens a lane and serves it until it ends or `commands` does.
pub(crate) async fn drive(
    id: LaneId,
    opening: Opening,
    mut commands: mpsc::Receiver<Command>,
    reports: mpsc::Sender<(LaneId, Report)>,
) {
    let opened = tokio::select! { biased;
        () = given_up(&mut commands) => return,
        opened = tokio::time::timeout(opening.timeout, open(&opening)) => opened,
    };
    let (connection, inbound) = match opened {
        Ok(Ok((connection, inbound, server))) => {
            let _ = reports.send((id, Report::Opened(Box::new(server)))).await;
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
        () = read(id, inbound, &reports) => {}
        () = write(id, &connection, &mut commands, &reports) => {}
    }
    connection.close(GRACE).await;
}

/// Waits until nobody wants the lane any more. Nothing is sent on it before it has reported that it is open.
async fn given_up(commands: &mut mpsc::Receiver<Command>) {
    while let Some(command) = commands.recv().await {
        tracing::debug!(?command, "said to a connection that is not open yet");
    }
}

async fn report_end(id: LaneId, reports: &mpsc::Sender<(LaneId, Report)>, why: String) {
    // Nobody listens when the guest itself is ending.
    let _ = reports.send((id, Report::Ended { why })).await;
}

async fn read(id: LaneId, mut inbound: Inbound, reports: &mpsc::Sender<(LaneId, Report)>) {
    while let Some(received) = inbound.next().await {
        let report = match received {
            Received::Message { text, related } => {
                Report::Said { text, related: related.and_then(|related| related.parse().ok()) }
            }
            Received::Failed { id, why, error, .. } => match id.parse() {
                Ok(request) => Report::Unanswered { request, why, error },
                Err(_) => continue,
            },
            Received::Ended { why } => Report::Ended { why },
        };
        if reports.send((id, report)).await.is_err() {
            return;
        }
    }
}

async fn write(
    id: LaneId,
    connection: &Connection,
    commands: &mut mpsc::Receiver<Command>,
    reports: &mpsc::Sender<(LaneId, Report)>,
) {
    // The answer to a server's question must not wait behind the calls that wait for it. Each is polled once in its turn, so that
    // they still go out in order where there is only one way out.
    let mut sending = FuturesUnordered::new();
    loop {
        let command = tokio::select! { biased;
            Some(failed) = sending.next(), if !sending.is_empty() => {
                if let Some(report) = failed {
                    let _ = reports.send((id, report)).await;
                }
                continue;
            }
            command = commands.recv() => command,
        };
        match command {
            None => return,
            Some(Command::Abandon(request)) => connection.abandon(&request.to_string()),
            Some(Command::Send { request, message, weight }) => {
                let mut send = Box::pin(async move {
                    let sent = connection.send(message).await;
                    drop(weight);
                    let error = sent.err()?;
                    Some(Report::Unanswered { request: request?, why: error.to_string(), error: None })
                });
                match poll_fn(|context| Poll::Ready(send.as_mut().poll(context))).await {
                    Poll::Pending => sending.push(send),
                    Poll::Ready(Some(report)) => drop(reports.send((id, report)).await),
                    Poll::Ready(None) => {}
                }
            }
        }
    }
}

async fn open(opening: &Opening) -> Result<(Connection, Inbound, Server), String> {
    let opened = Connection::open(&opening.target, &opening.verdict, opening.era, &opening.setup).await;
    let (connection, mut inbound) = opened.map_err(|error| error.to_string())?;
    let server = match opening.era {
        Era::Legacy => greet(&connection, &mut inbound, opening).await?,
        Era::Modern => {
            let discovered = opening.verdict.discovered.as_deref().ok_or("it was not discovered")?;
            Server::from_discover(discovered).map_err(told)?
        }
    };
    Ok((connection, inbound, server))
}

/// The handshake of the legacy era.
async fn greet(connection: &Connection, inbound: &mut Inbound, opening: &Opening) -> Result<Server, String> {
    let params = opening.hello.params(opening.revision, &our_info());
    let say = |text: Box<RawValue>| async move {
        connection.send(Outbound::new(text.get())).await.map_err(|error| error.to_string())
    };
    say(rpc::request(GREETING, "initialize", Some(&params))).await?;
    let server = loop {
        let received = inbound.next().await.ok_or("it ended before its handshake")?;
        let text = match received {
            Received::Message { text, .. } => text,
            Received::Failed { why, .. } | Received::Ended { why } => return Err(why),
        };
        let Some(message) = Members::parse(&text) else { continue };
        match Head::read(&message) {
            Some(Head::Request { id, method }) if method == "ping" => {
                say(rpc::response(&id, &to_raw_value(&json!({})).map_err(|error| error.to_string())?)).await?;
            }
            Some(Head::Response { id }) if id.get().parse() == Ok(GREETING) => match message.get("result") {
                Some(result) => break Server::from_initialize(result).map_err(told)?,
                None => {
                    let error = message.get("error").map(RawValue::get).unwrap_or_default();
                    return Err(format!("it refused the handshake: {}", error.chars().take(300).collect::<String>()));
                }
            },
            // Servers that log before they are greeted exist; nobody has asked for it yet.
            _ => {}
        }
    };
    say(rpc::notification("notifications/initialized", None)).await?;
    Ok(server)
}

fn told(unfit: Unfit) -> String {
    match unfit {
        Unfit::Unreadable => "its introduction is not one of MCP".into(),
        Unfit::Revision(said) => {
            format!("it speaks MCP {said}, which is none of {}", Revision::LEGACY.map(Revision::date).join(", "))
        }
    }
}

/// Who we are to servers, when we speak for nobody in particular.
pub(crate) fn our_info() -> Box<RawValue> {
    to_raw_value(&json!({ "name": "salon", "version": env!("CARGO_PKG_VERSION") })).expect("two strings can be written")
}
