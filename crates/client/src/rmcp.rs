//! The official Rust SDK in a room, unchanged: its servers as participants, its clients talking to peers.
//!
//! An rmcp service speaks to one other over one transport: message ids, the handshake and subscriptions are that transport's own. In a
//! room everybody may call, so [`Server`] makes one service for each participant that does, and [`Room::rmcp_client_transport`] is a
//! transport to one peer. Ids are renumbered on the way, so that an rmcp client and the room's own calls never get in each other's way.
//!
//! ```no_run
//! # use rmcp::{ServerHandler, ServiceExt};
//! # #[derive(Clone, Default)] struct Counter;
//! # impl ServerHandler for Counter {}
//! # async fn example(client: salon_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! // An rmcp server as a participant.
//! let counter = client.room("room:lab".parse()?).offer(salon_client::rmcp::Server::new(Counter::default)).join().await?;
//!
//! // An rmcp client to a peer.
//! let robot = ().serve(counter.rmcp_client_transport(&"robot-alpha".parse()?)).await?;
//! let tools = robot.list_all_tools().await?;
//! # Ok(())
//! # }
//! ```

mod line;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ::rmcp::service::{RoleClient, RoleServer, RxJsonRpcMessage, ServiceExt, ServiceRole, TxJsonRpcMessage};
use ::rmcp::transport::Transport;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Envelope, Message, ParticipantId, Presence, PresenceEvent};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Event, Events, Request, Room, RpcError, Service};
use line::RmcpLine;

pub use line::LineError;

/// How many callers one server serves at once.
const MAX_CALLERS: usize = 1024;

/// An rmcp server as a [`Service`]: one rmcp service for each participant that calls, made when it first does and dropped when it
/// leaves or starts over.
pub struct Server<F> {
    make: F,
    sessions: Mutex<HashMap<ParticipantId, Arc<RmcpSession>>>,
}

/// One caller's rmcp service. Dropping it ends the service; calls that have begun hold it until they are answered.
struct RmcpSession {
    line: Arc<RmcpLine>,
    _end: DropGuard,
}

impl<F, S> Server<F>
where
    F: Fn() -> S + Send + Sync + 'static,
    S: ::rmcp::Service<RoleServer>,
{
    /// Serves with what `make` makes, once for each caller.
    pub fn new(make: F) -> Self {
        Self { make, sessions: Mutex::default() }
    }

    /// The service for a caller. A handshake starts a new one: a caller that sends two has two clients, or lost one.
    fn session(&self, request: &Request) -> Option<Arc<RmcpSession>> {
        let mut sessions = self.sessions();
        sessions.retain(|_, session| session.line.is_open());
        let caller = request.from();
        if let Some(session) = sessions.get(caller).filter(|_| request.method() != "initialize") {
            return Some(session.clone());
        }
        if sessions.len() >= MAX_CALLERS && !sessions.contains_key(caller) {
            return None;
        }
        let end = CancellationToken::new();
        let (line, inbox) = RmcpLine::new(request.room().downgrade(), caller.clone(), end.clone());
        let transport = ServerTransport { line: line.clone(), inbox };
        let session = Arc::new(RmcpSession { line: line.clone(), _end: end.clone().drop_guard() });
        let service = (self.make)();
        let caller = caller.clone();
        sessions.insert(caller.clone(), session.clone());
        // Ends with the session.
        tokio::spawn(async move {
            match service.serve_with_ct(transport, end).await {
                Ok(running) => drop(running.waiting().await),
                Err(error) => tracing::debug!(%caller, %error, "rmcp: service did not start, closing its session"),
            }
            line.close();
        });
        Some(session)
    }
}

impl<F> Server<F> {
    fn sessions(&self) -> MutexGuard<'_, HashMap<ParticipantId, Arc<RmcpSession>>> {
        self.sessions.lock()
    }
}

impl<F, S> Service for Server<F>
where
    F: Fn() -> S + Send + Sync + 'static,
    S: ::rmcp::Service<RoleServer>,
{
    fn request(&self, request: Request) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let Some(session) = self.session(&request) else {
            return ready(Err(RpcError::internal("too many participants are calling; ask again later"))).boxed();
        };
        let answer = session.line.ask(&request);
        async move {
            let answer = answer.await;
            drop(session);
            answer
        }
        .boxed()
    }

    fn notification(&self, envelope: &Arc<Envelope>) {
        let session = self.sessions().get(envelope.from()).cloned();
        let meant = !envelope.to().is_empty() || method_of(envelope) == Some("notifications/roots/list_changed");
        if let Some(session) = session.filter(|_| meant) {
            session.line.hear(envelope);
        }
    }

    fn presence(&self, presence: &Presence) {
        // Dropped after the lock: ending a service runs code of others.
        let left = self.sessions().remove(&presence.participant.id);
        drop(left);
    }
}

impl<F> fmt::Debug for Server<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("callers", &self.sessions().keys()).finish_non_exhaustive()
    }
}

struct ServerTransport {
    line: Arc<RmcpLine>,
    inbox: mpsc::Receiver<Box<RawValue>>,
}

impl Transport<RoleServer> for ServerTransport {
    type Error = LineError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), LineError>> + Send + 'static {
        self.line.clone().send(serde_json::to_string(&item))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inbox.recv().await?;
            if let Some(message) = read::<RoleServer>(&self.line, &message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), LineError> {
        self.line.close();
        Ok(())
    }
}

impl Room {
    /// A transport on which an rmcp client talks to a participant, beginning with its own handshake.
    ///
    /// While it lives, what the participant asks of its caller (sampling, elicitation, roots) is asked of this client, unless requests
    /// are answered by hand here. It is closed when the participant leaves or starts over.
    pub fn rmcp_client_transport(&self, peer: &ParticipantId) -> ClientTransport {
        let end = CancellationToken::new();
        let (line, inbox) = RmcpLine::new(self.downgrade(), peer.clone(), end.clone());
        let line_service: Arc<dyn Service> = Arc::new(LineService(line.clone()));
        self.shared().directory.allow_stand_in(peer, line_service.clone());
        ClientTransport {
            room: self.clone(),
            events: Some(self.events()),
            line,
            inbox,
            line_service,
            _end: end.drop_guard(),
        }
    }
}

/// A transport from an rmcp client to a participant. Made by [`Room::rmcp_client_transport`].
pub struct ClientTransport {
    room: Room,
    /// Taken away when the participant is gone.
    events: Option<Events>,
    line: Arc<RmcpLine>,
    inbox: mpsc::Receiver<Box<RawValue>>,
    line_service: Arc<dyn Service>,
    _end: DropGuard,
}

/// Answers what a participant asks of the rmcp client that calls it.
struct LineService(Arc<RmcpLine>);

impl Service for LineService {
    fn request(&self, request: Request) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        self.0.ask(&request)
    }
}

impl ClientTransport {
    /// Whether an envelope shows that the participant left or started over.
    fn ends(&self, envelope: &Envelope) -> bool {
        let presence = envelope.presence().filter(|presence| presence.event != PresenceEvent::Status);
        presence.is_some_and(|presence| presence.participant.id == *self.line.peer())
    }
}

impl Transport<RoleClient> for ClientTransport {
    type Error = LineError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), LineError>> + Send + 'static {
        self.line.clone().send(serde_json::to_string(&item))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = tokio::select! { biased;
                Some(message) = self.inbox.recv() => {
                    match read::<RoleClient>(&self.line, &message) {
                        Some(message) => return Some(message),
                        None => continue,
                    }
                }
                event = async { self.events.as_mut()?.next().await } => event,
            };
            match event {
                Some(Event::Envelope(envelope)) if self.ends(&envelope) => self.events = None,
                Some(Event::Envelope(envelope)) => {
                    if *envelope.from() == *self.line.peer() && self.room.shared().is_for_us(&envelope) {
                        self.line.hear(&envelope);
                    }
                }
                Some(Event::Gap | Event::Outage(_) | Event::Recovered) => {}
                None => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), LineError> {
        self.line.close();
        Ok(())
    }
}

impl Drop for ClientTransport {
    fn drop(&mut self) {
        self.room.shared().directory.stand_down(self.line.peer(), &self.line_service);
        self.line.close();
    }
}

impl fmt::Debug for ClientTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTransport").field("peer", self.line.peer()).finish_non_exhaustive()
    }
}

fn method_of(envelope: &Envelope) -> Option<&str> {
    match envelope.message() {
        Some(Message::Request { method, .. } | Message::Notification { method }) => Some(method),
        _ => None,
    }
}

/// Reads a message for rmcp. One that it does not understand is refused when it wants an answer.
fn read<R: ServiceRole>(line: &RmcpLine, message: &RawValue) -> Option<RxJsonRpcMessage<R>> {
    match serde_json::from_str(message.get()) {
        Ok(message) => Some(message),
        Err(error) => {
            tracing::debug!(peer = %line.peer(), %error, "rmcp: message not understood, refusing it");
            line.refuse(message, &error.to_string());
            None
        }
    }
}
