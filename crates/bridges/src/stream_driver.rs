//! Platforms with one long connection to a server (IRC, XMPP): connecting again, actions that wait for the server, `salon bridge check`.
//!
//! Deliberately absent: the grammar. A platform's module speaks it in [`StreamPlatform::converse`].

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use salon_client::{Backoff, Wire};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::platform::{
    BridgeEnded, CheckFinding, DriverError, PlatformAction, PlatformCapabilities, PlatformChannel, PlatformDriver,
    PlatformEvent, PlatformEvents, PlatformFailure, PlatformReceipt,
};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server may take to confirm an action, and to let the bridge in when it is checked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection must have lasted for the next wait to be short again.
const STEADY_AFTER: Duration = Duration::from_secs(60);
/// Actions that wait for the connection to take them: at most one a channel is under way.
const REQUEST_QUEUE: usize = 16;

/// What became of an action.
pub(crate) type ActionOutcome = Result<PlatformReceipt, PlatformFailure>;

/// An action on its way to the server. Dropping `outcome` means that the connection was lost.
#[derive(Debug)]
pub(crate) struct ActionRequest {
    pub(crate) channel: PlatformChannel,
    pub(crate) action: PlatformAction,
    pub(crate) outcome: oneshot::Sender<ActionOutcome>,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum StreamEnd {
    /// The bridge has ended.
    Stopped,
    /// The server does not let the bridge in.
    Refused(String),
    Lost(String),
}

impl From<BridgeEnded> for StreamEnd {
    fn from(_: BridgeEnded) -> Self {
        Self::Stopped
    }
}

impl From<io::Error> for StreamEnd {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl ServerAddress {
    /// Reads the member `server` of a bridge.
    pub(crate) fn read(text: &str, bridge: &str) -> Result<Self, DriverError> {
        let wrong = |reason: String| DriverError(format!("bridges.{bridge}: `server`: {reason}"));
        let (host, port) = text
            .rsplit_once(':')
            .filter(|(host, _)| !host.is_empty())
            .ok_or_else(|| wrong(format!("`{text}` is not `host:port`")))?;
        let port = port.parse().map_err(|_| wrong(format!("`{port}` is not a port")))?;
        Ok(Self { host: host.trim_start_matches('[').trim_end_matches(']').to_owned(), port })
    }

    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// What `salon bridge check` says of a platform.
pub(crate) struct CheckTexts {
    pub(crate) unreachable_hint: &'static str,
    /// What the platform calls a channel, and being in it.
    pub(crate) channel: &'static str,
    pub(crate) entered: &'static str,
    pub(crate) channel_hint: &'static str,
    /// What the server refuses when it refuses the bridge.
    pub(crate) login: &'static str,
    pub(crate) login_hint: &'static str,
}

/// What a driver needs to know of a server, whatever its grammar.
pub(crate) struct StreamServer {
    pub(crate) address: ServerAddress,
    pub(crate) channels: Vec<PlatformChannel>,
    pub(crate) capabilities: PlatformCapabilities,
}

/// The grammar of a platform with one connection.
pub(crate) trait StreamPlatform: Send + Sync + 'static {
    const NAME: &'static str;
    const CHECK: CheckTexts;

    /// Connects, here without encryption.
    fn open(&self, server: &ServerAddress) -> impl Future<Output = io::Result<Box<dyn Wire>>> + Send {
        async { Ok::<Box<dyn Wire>, _>(Box::new(server.connect().await?)) }
    }

    /// What to do where the server does not let the bridge in.
    fn login_hint(_reason: &str) -> &'static str {
        Self::CHECK.login_hint
    }

    /// One connection, until `stop` or until it ends.
    fn converse(
        &self,
        wire: Box<dyn Wire>,
        requests: &mut mpsc::Receiver<ActionRequest>,
        events: &PlatformEvents,
        stop: &CancellationToken,
    ) -> impl Future<Output = Result<(), StreamEnd>> + Send;
}

/// Stays connected to the server of a platform.
pub(crate) struct StreamDriver<P> {
    server: StreamServer,
    platform: P,
    /// The way to the connection that stands.
    requests: Mutex<Option<mpsc::Sender<ActionRequest>>>,
}

impl<P: StreamPlatform> StreamDriver<P> {
    pub(crate) fn new(server: StreamServer, platform: P) -> Self {
        Self { server, platform, requests: Mutex::new(None) }
    }

    async fn connect(&self) -> io::Result<Box<dyn Wire>> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.platform.open(&self.server.address)).await;
        connected.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")))
    }

    async fn converse(&self, wire: Box<dyn Wire>, events: &PlatformEvents, stop: &CancellationToken) -> StreamEnd {
        let (sender, mut requests) = mpsc::channel(REQUEST_QUEUE);
        *self.requests.lock() = Some(sender);
        let ended = self.platform.converse(wire, &mut requests, events, stop).await;
        *self.requests.lock() = None;
        requests.close();
        // These were never sent.
        while let Ok(request) = requests.try_recv() {
            let _ = request.outcome.send(Err(offline()));
        }
        ended.err().unwrap_or(StreamEnd::Stopped)
    }

    /// Returns when the bridge has ended.
    async fn stay(&self, events: PlatformEvents, stop: CancellationToken) -> Result<Infallible, BridgeEnded> {
        let backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(120) };
        let mut attempt = 0;
        loop {
            let started = tokio::time::Instant::now();
            let connected = tokio::select! { biased;
                () = stop.cancelled() => return Err(BridgeEnded),
                connected = self.connect() => connected,
            };
            let reason = match connected {
                Ok(wire) => match self.converse(wire, &events, &stop).await {
                    StreamEnd::Stopped => return Err(BridgeEnded),
                    StreamEnd::Refused(reason) => format!("the server refuses the bridge: {reason}"),
                    StreamEnd::Lost(reason) => reason,
                },
                Err(error) => error.to_string(),
            };
            for channel in &self.server.channels {
                let event = PlatformEvent::Disconnected { reason: reason.clone() };
                events.report(channel.clone(), event).await?;
            }
            if started.elapsed() > STEADY_AFTER {
                attempt = 0;
            }
            let delay = backoff.delay(attempt, rand::random()).max(Duration::from_millis(500));
            attempt += 1;
            let (platform, host) = (P::NAME, &self.server.address.host);
            tracing::warn!(server = %host, "{platform}: {reason}; connecting again in {:.1} s", delay.as_secs_f64());
            tokio::select! { biased;
                () = stop.cancelled() => return Err(BridgeEnded),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    async fn look(&self) -> Vec<CheckFinding> {
        let ServerAddress { host, port } = &self.server.address;
        let wire = match self.connect().await {
            Ok(wire) => wire,
            Err(error) => {
                let detail = format!("{host}:{port} cannot be reached: {error}");
                return vec![CheckFinding::problem("connection", detail, P::CHECK.unreachable_hint)];
            }
        };
        let mut findings = vec![CheckFinding::fine("connection", format!("{host}:{port} answers"))];
        let (events, mut reported) = PlatformEvents::channel(256);
        let stop = CancellationToken::new();
        let mut waiting = self.server.channels.clone();
        let watching = async {
            while let (false, Some(report)) = (waiting.is_empty(), reported.recv().await) {
                let Some(at) = waiting.iter().position(|one| *one == report.channel) else { continue };
                let subject = format!("{} {}", P::CHECK.channel, report.channel);
                findings.push(match report.event {
                    PlatformEvent::Connected => CheckFinding::fine(&subject, P::CHECK.entered),
                    PlatformEvent::Disconnected { reason } => {
                        CheckFinding::problem(&subject, reason, P::CHECK.channel_hint)
                    }
                    _ => continue,
                });
                waiting.remove(at);
            }
        };
        let failed = tokio::select! {
            end = self.converse(wire, &events, &stop) => match end {
                StreamEnd::Refused(reason) | StreamEnd::Lost(reason) => Some(reason),
                StreamEnd::Stopped => None,
            },
            watched = tokio::time::timeout(ANSWER_TIMEOUT, watching) => {
                let seconds = ANSWER_TIMEOUT.as_secs();
                watched.err().map(|_| format!("the server did not let the bridge into every {} within {seconds} s", P::CHECK.channel))
            }
        };
        findings.extend(failed.map(|detail| {
            let hint = P::login_hint(&detail);
            CheckFinding::problem(P::CHECK.login, detail, hint)
        }));
        findings
    }

    async fn act(&self, channel: &PlatformChannel, action: &PlatformAction) -> ActionOutcome {
        let requests = self.requests.lock().clone().ok_or_else(offline)?;
        let (outcome, waiting) = oneshot::channel();
        let request = ActionRequest { channel: channel.clone(), action: action.clone(), outcome };
        requests.send(request).await.map_err(|_| offline())?;
        let unknown = |reason: &str| Err(PlatformFailure::Unknown { reason: reason.into() });
        match tokio::time::timeout(ANSWER_TIMEOUT, waiting).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => unknown("the connection was lost"),
            Err(_) => unknown("the server confirmed nothing in time"),
        }
    }
}

fn offline() -> PlatformFailure {
    PlatformFailure::Offline { reason: "there is no connection".into() }
}

impl<P: StreamPlatform> PlatformDriver for StreamDriver<P> {
    fn capabilities(&self) -> PlatformCapabilities {
        self.server.capabilities.clone()
    }

    fn run(
        self: Arc<Self>,
        events: PlatformEvents,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), DriverError>> {
        async move {
            match self.stay(events, stop).await {
                Ok(never) => match never {},
                Err(BridgeEnded) => Ok(()),
            }
        }
        .boxed()
    }

    fn perform<'a>(&'a self, channel: &'a PlatformChannel, action: &'a PlatformAction) -> BoxFuture<'a, ActionOutcome> {
        self.act(channel, action).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Vec<CheckFinding>> {
        self.look().boxed()
    }
}
