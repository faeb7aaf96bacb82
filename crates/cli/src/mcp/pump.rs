//! Moves lines and texts between the client, the bridge and the gateway, and brings the gateway back when it goes.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_client::internal::{Closed, SocketEvent, TextSocket};
use salon_client::{Backoff, Client, RestError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, sleep_until, timeout};

use super::bridge::{Bridge, CancelRefused};
use super::lines::ReadLine;
use crate::signals::Stop;
use crate::{note, safe};

/// How long answers to what was asked are waited for when the client has no more to say.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long saying goodbye may take, to either side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a new session may take to take the client back.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that lasted this long was no failure: the next attempt to come back is the first again.
const RESET_BACKOFF_AFTER: Duration = Duration::from_secs(30);

/// How many lines may wait for a client that does not read.
const MAX_UNREAD: usize = 64;

/// Which address of which gateway.
#[derive(Clone)]
pub(super) struct BridgeDoor {
    pub(super) client: Client,
    pub(super) path: Arc<str>,
    pub(super) backoff: Backoff,
}

impl BridgeDoor {
    pub(super) async fn open(&self) -> Result<TextSocket, RestError> {
        TextSocket::to_gateway(&self.client, &self.path, super::SUBPROTOCOL).await
    }

    async fn open_after(self, wait: Duration) -> Result<TextSocket, RestError> {
        sleep(wait).await;
        self.open().await
    }
}

/// The client's end.
pub(super) struct PumpEnds {
    pub(super) input: mpsc::Receiver<ReadLine>,
    pub(super) output: mpsc::Sender<String>,
    /// Everything for the client is written.
    pub(super) written: oneshot::Receiver<()>,
}

type SocketOpening = Pin<Box<dyn Future<Output = Result<TextSocket, RestError>> + Send>>;

/// The gateway, as far as it is there.
enum GatewaySocket {
    /// Nobody needs it now.
    None,
    Opening(SocketOpening),
    Open(Box<TextSocket>),
}

pub(super) struct Pump {
    door: BridgeDoor,
    bridge: Bridge,
    way: GatewaySocket,
    /// When the connection there is began.
    opened: Instant,
    /// How many attempts to come back there were since a connection lasted.
    attempt: u32,
    /// Whether the outage has been reported.
    is_reported: bool,
}

impl Pump {
    pub(super) fn new(door: BridgeDoor, socket: TextSocket) -> Self {
        let mut bridge = Bridge::new(format!("salon-{}", uuid::Uuid::new_v4().simple()));
        bridge.connected(socket.message_limit());
        Self {
            door,
            bridge,
            way: GatewaySocket::Open(Box::new(socket)),
            opened: Instant::now(),
            attempt: 0,
            is_reported: false,
        }
    }

    /// Runs until the client is done, or somebody asks to stop, or the gateway does not let it in again.
    pub(super) async fn run(mut self, ends: PumpEnds, stop: Stop) -> Result<(), RestError> {
        let PumpEnds { mut input, output, written } = ends;
        let asked = stop.asked();
        tokio::pin!(asked);
        // When the client has no more to say: until when its last answers are waited for.
        let mut last: Option<Instant> = None;
        let ended = loop {
            self.hand_over();
            let sent = match &self.way {
                GatewaySocket::Open(socket) => socket.is_idle(),
                GatewaySocket::None | GatewaySocket::Opening(_) => true,
            };
            if last.is_some() && sent && !self.bridge.is_in_flight() && self.bridge.client_backlog() == 0 {
                break Ok(());
            }
            let readable = self.bridge.client_backlog() < MAX_UNREAD;
            let due = self.bridge.next_due();
            let greeting = self.bridge.is_greeting().then(|| self.opened + HANDSHAKE_TIMEOUT);
            tokio::select! { biased;
                () = &mut asked => break Ok(()),
                () = at(last), if last.is_some() => break Ok(()),
                // Nobody reads any more.
                () = output.closed() => break Ok(()),
                Ok(place) = output.reserve(), if self.bridge.client_backlog() > 0 => {
                    place.send(self.bridge.poll_client().expect("the backlog is not empty"));
                }
                () = at(due), if due.is_some() => self.bridge.expire(Instant::now()),
                () = at(greeting), if greeting.is_some() => self.lose("no answer in time"),
                line = input.recv(), if last.is_none() && readable && sent => match line {
                    Some(line) => {
                        self.bridge.handle_line(line, Instant::now());
                        last = self.bridge.has_exited().then(|| Instant::now() + ANSWERS_TIMEOUT);
                    }
                    None => last = Some(Instant::now() + ANSWERS_TIMEOUT),
                },
                happened = happens(&mut self.way), if readable => {
                    if let Err(error) = self.take(happened) {
                        break Err(error);
                    }
                }
            }
        };
        self.end(ended, output, written).await
    }

    /// Gives the gateway what is for it, and asks for one where one is needed.
    fn hand_over(&mut self) {
        match &mut self.way {
            GatewaySocket::Open(socket) => {
                while let Some(text) = self.bridge.poll_gateway() {
                    socket.send(text);
                }
            }
            GatewaySocket::None if self.bridge.needs_gateway() => self.come_back(),
            GatewaySocket::None | GatewaySocket::Opening(_) => {}
        }
    }

    fn take(&mut self, happened: Happened) -> Result<(), RestError> {
        match happened {
            Happened::Socket(SocketEvent::Sent) => {}
            Happened::Socket(SocketEvent::Text(text)) => {
                if let Err(CancelRefused(why)) = self.bridge.handle_text(&text) {
                    self.lose(&format!("the new session refuses the client: {why}"));
                }
            }
            Happened::Closed(Closed { why, .. }) => self.lose(&why),
            Happened::Opened(socket) => {
                if std::mem::take(&mut self.is_reported) {
                    note(format_args!("the gateway is back"));
                }
                self.opened = Instant::now();
                self.bridge.connected(socket.message_limit());
                self.way = GatewaySocket::Open(socket);
            }
            // A provider of tokens that fails may be as cut off as we are.
            Happened::NotOpened(error) if error.is_passing() || matches!(error, RestError::Token(_)) => {
                self.come_back();
            }
            Happened::NotOpened(error) => return Err(error),
        }
        Ok(())
    }

    fn lose(&mut self, why: &str) {
        // The rest of a close reason is advice for the owner of the connection, which is this code.
        let why = why.split(';').next().unwrap_or(why);
        if self.opened.elapsed() >= RESET_BACKOFF_AFTER {
            self.attempt = 0;
        }
        if !std::mem::replace(&mut self.is_reported, true) {
            note(format_args!("the gateway is gone: {}; waiting for it", safe::line(why)));
        }
        self.bridge.lost(why, Instant::now());
        self.way = GatewaySocket::None;
    }

    fn come_back(&mut self) {
        let wait = self.door.backoff.delay(self.attempt, uuid::Uuid::new_v4().as_u64_pair().0);
        self.attempt = self.attempt.saturating_add(1);
        self.way = GatewaySocket::Opening(Box::pin(self.door.clone().open_after(wait)));
    }

    /// Says goodbye to both sides.
    async fn end(
        mut self,
        ended: Result<(), RestError>,
        output: mpsc::Sender<String>,
        written: oneshot::Receiver<()>,
    ) -> Result<(), RestError> {
        self.bridge.give_up(match &ended {
            Ok(()) => "the connection to the gateway has been closed",
            Err(_) => "the gateway does not let this client in again",
        });
        let to_client = async {
            while let Some(line) = self.bridge.poll_client() {
                if output.send(line).await.is_err() {
                    return;
                }
            }
            drop(output);
            let _ = written.await;
        };
        let to_gateway = async {
            if let GatewaySocket::Open(socket) = self.way {
                socket.close().await;
            }
        };
        let _ = tokio::join!(timeout(CLOSE_TIMEOUT, to_client), timeout(CLOSE_TIMEOUT, to_gateway));
        ended
    }
}

enum Happened {
    Socket(SocketEvent),
    Closed(Closed),
    Opened(Box<TextSocket>),
    NotOpened(RestError),
}

/// What happens next on the way to the gateway. Nothing is lost when this is given up in between.
async fn happens(way: &mut GatewaySocket) -> Happened {
    match way {
        GatewaySocket::None => std::future::pending().await,
        GatewaySocket::Opening(opening) => match opening.await {
            Ok(socket) => Happened::Opened(Box::new(socket)),
            Err(error) => Happened::NotOpened(error),
        },
        GatewaySocket::Open(socket) => match socket.next().await {
            Ok(event) => Happened::Socket(event),
            Err(closed) => Happened::Closed(closed),
        },
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
