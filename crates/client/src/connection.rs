//! The task behind a room: it owns the socket, keeps what was sent until its echo comes, dispatches what is received, and comes back
//! after a lost connection.
//!
//! Invariants: an envelope is delivered once, in the topic's order, however many connections it took; what was sent is sent again
//! under the same id until the room has answered, so it is stored once. Nothing waits here for a listener: those read the ring.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use salon_protocol::{CloseReason, Code, Envelope, EnvelopeId, ParticipantId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message as Frame, Utf8Bytes};

use crate::entering::{EntryOptions, is_stale_token, open};
use crate::error::HttpRefusal;
use crate::outbox::{FrameOutbox, RecentIds};
use crate::shared::{Link, RoomShared};
use crate::socket::ClientSocket;
use crate::{Backoff, CallError, End, Ghost, LostConnection, PublishError, RestError, ghosts};

/// How long connecting and saying goodbye may take.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How often the gateway is asked for a sign of life, and how long it may give none.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(15);
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);

/// How many orders may wait to be sent, and how many may be sent and not yet echoed.
pub(crate) const MAX_ORDERS: usize = 64;
pub(crate) const MAX_UNREAD_EVENTS: usize = 256;

/// A connection that lasted this long was no failure: the next attempt to come back is the first again.
const RESET_BACKOFF_AFTER: Duration = Duration::from_secs(30);

/// How long to wait after a `rate_limited`.
pub(crate) const RATE_LIMIT_DELAY: Duration = Duration::from_millis(200);

/// How long to wait while the gateway can store nothing, unless it announces before that it can again. One that is going down
/// closes the connection, and what was held back is sent by the next.
pub(crate) const STORAGE_RETRY_DELAY: Duration = Duration::from_secs(1);

pub(crate) type EchoSender = oneshot::Sender<Result<Arc<Envelope>, PublishError>>;

/// Something to be sent.
pub(crate) struct Order {
    pub(crate) id: EnvelopeId,
    pub(crate) text: String,
    pub(crate) purpose: OrderPurpose,
}

/// What something is sent for.
pub(crate) enum OrderPurpose {
    /// Somebody wants to know when it is stored.
    Publish(EchoSender),
    /// Its answer ends it. When no caller waits for that any more, it is not sent.
    Call,
    /// Nobody waits.
    Notice,
    /// Enters a ghost again, after a lost connection.
    Reenter(ParticipantId),
}

impl OrderPurpose {
    /// Sends the result to the waiting publisher, who may have stopped waiting.
    pub(crate) fn tell(self, outcome: Result<Arc<Envelope>, PublishError>) {
        if let Self::Publish(echo) = self {
            let _ = echo.send(outcome);
        }
    }
}

/// What is held back: the gateway found us too fast, or could store nothing. Nothing new is sent meanwhile.
pub(crate) struct Delayed {
    /// When to send again.
    pub(crate) due: Instant,
    /// What the gateway refused, which it may do in another order than it was sent.
    pub(crate) refused: HashSet<EnvelopeId>,
}

/// How one connection ended.
enum ConnectionEnd {
    Left,
    Replaced,
    Deleted,
    Lost { why: LostConnection, token_expired: bool },
}

impl ConnectionEnd {
    fn lost(why: LostConnection) -> Self {
        Self::Lost { why, token_expired: false }
    }
}

/// The task.
pub(crate) struct RoomConnection {
    pub(crate) shared: Arc<RoomShared>,
    pub(crate) entry_options: EntryOptions,
    backoff: Option<Backoff>,
    orders: mpsc::Receiver<Order>,
    pub(crate) unheard: VecDeque<Order>,
    /// What was unheard when a connection was lost, until the ghosts are back that may have said it.
    pub(crate) held_back: VecDeque<Order>,
    pub(crate) delayed: Option<Delayed>,
    /// Whether an outage was announced, and its end was not.
    pub(crate) is_stalled: bool,
    /// How often in a row coming back did not last.
    attempt: u32,
    pub(crate) own: RecentIds,
}

impl RoomConnection {
    pub(crate) fn new(
        shared: Arc<RoomShared>,
        entry_options: EntryOptions,
        backoff: Option<Backoff>,
        orders: mpsc::Receiver<Order>,
    ) -> Self {
        Self {
            shared,
            entry_options,
            backoff,
            orders,
            unheard: VecDeque::new(),
            held_back: VecDeque::new(),
            delayed: None,
            is_stalled: false,
            attempt: 0,
            own: RecentIds::default(),
        }
    }

    pub(crate) async fn run(mut self, socket: ClientSocket) {
        let end = self.stay(socket).await;
        tracing::debug!(topic = %self.shared.topic, participant = %self.shared.id, %end, "room: connection ended for good");
        self.shared.link.send_replace(Link::Ended(end.clone()));
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            self.unheard.push_back(order);
        }
        for order in self.unheard.drain(..).chain(self.held_back.drain(..)) {
            order.purpose.tell(Err(PublishError::Ended(end.clone())));
        }
        self.shared.fail_calls(&CallError::Ended(end));
        self.shared.directory.forget_all();
        self.shared.ring.close();
    }

    async fn stay(&mut self, mut socket: ClientSocket) -> End {
        loop {
            self.go_on();
            let began = Instant::now();
            let parting = self.hold(socket).await;
            if began.elapsed() >= RESET_BACKOFF_AFTER {
                self.attempt = 0;
            }
            match parting {
                ConnectionEnd::Left => return End::Left,
                ConnectionEnd::Replaced => return End::Replaced,
                // To come back would make the topic again.
                ConnectionEnd::Deleted => return End::Deleted,
                ConnectionEnd::Lost { why, token_expired } => match self.come_back(why, token_expired).await {
                    Ok(again) => socket = again,
                    Err(end) => return end,
                },
            }
        }
    }

    /// Opens connections until one stands.
    async fn come_back(&mut self, mut why: LostConnection, mut refresh: bool) -> Result<ClientSocket, End> {
        let Some(backoff) = self.backoff else { return Err(End::Lost(why)) };
        let mut after = self.shared.last();
        let mut missed = after.is_none();
        loop {
            let retry_in = backoff.delay(self.attempt, rand::random());
            self.attempt = self.attempt.saturating_add(1);
            let attempt = self.attempt;
            self.shared.link.send_replace(Link::Connecting { attempt, retry_in, why: why.clone() });
            tokio::select! { biased;
                () = self.shared.leave.cancelled() => return Err(End::Left),
                () = tokio::time::sleep(retry_in) => {}
            }
            let shared = self.shared.clone();
            let opened = tokio::select! { biased;
                () = shared.leave.cancelled() => return Err(End::Left),
                opened = open(&shared.client, &shared.topic, &self.entry_options, after.as_ref(), refresh) => opened,
            };
            match opened {
                Ok(opened) => {
                    self.shared.welcomed(&opened);
                    if missed {
                        self.shared.start_over(opened.last);
                    }
                    return Ok(opened.socket);
                }
                Err(RestError::Refused(HttpRefusal { code, .. }))
                    if code == Code::NotFound.word() && after.is_some() =>
                {
                    // Retention has removed the last envelope received; what came after it is unknown.
                    (after, missed) = (None, true);
                }
                Err(error) if is_stale_token(&error) && !refresh => refresh = true,
                // A provider that fails may be as cut off as we are.
                Err(error) if error.is_passing() || matches!(error, RestError::Token(_)) => {
                    why = LostConnection::Reconnect(error)
                }
                Err(error) => return Err(End::Refused(error)),
            }
        }
    }

    /// One connection, from its welcome to its end.
    async fn hold(&mut self, socket: ClientSocket) -> ConnectionEnd {
        let (sink, mut stream) = socket.split();
        let mut out = FrameOutbox { sink, waiting: VecDeque::new(), flushed: true };
        self.delayed = None;
        self.unheard.extend(self.held_back.drain(..));
        self.give_up_on_the_hopeless();
        self.reenter_ghosts();
        out.waiting.extend(self.unheard.iter().map(|order| Frame::text(order.text.as_str())));
        let shared = self.shared.clone();
        let mut heard_at = Instant::now();
        let mut ping = tokio::time::interval_at(heard_at + PING_INTERVAL, PING_INTERVAL);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_reentering = self.is_reentering();
            if !is_reentering {
                out.waiting.extend(self.held_back.iter().map(|order| Frame::text(order.text.as_str())));
                self.unheard.extend(self.held_back.drain(..));
            }
            let is_free = out.waiting.is_empty() && self.delayed.is_none() && !is_reentering;
            let taking = is_free && self.unheard.len() < MAX_UNREAD_EVENTS;
            // Not while the last time is still going out: that would pile up at a gateway that reads slowly.
            let due = self.delayed.as_ref().map(|delayed| delayed.due).filter(|_| out.waiting.is_empty());
            // Listening comes last: a room that never falls silent must not keep this participant from speaking.
            tokio::select! { biased;
                () = shared.leave.cancelled() => {
                    self.send_close(out, stream).await;
                    return ConnectionEnd::Left;
                }
                moved = out.progress(), if !out.is_idle() => {
                    if let Err(error) = moved {
                        return ConnectionEnd::lost(LostConnection::transport(error));
                    }
                }
                Some(order) = self.orders.recv(), if taking => self.send(order, &mut out),
                () = shared.soon.notified(), if taking => {
                    for order in shared.take_soon() {
                        self.send(order, &mut out);
                    }
                }
                () = async { tokio::time::sleep_until(due.unwrap_or(heard_at)).await }, if due.is_some() => {
                    self.send_again(&mut out);
                }
                frame = stream.next() => {
                    heard_at = Instant::now();
                    match frame {
                        Some(Ok(Frame::Text(text))) => self.hear(text.as_str()),
                        Some(Ok(Frame::Close(close))) => return parting(close),
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return ConnectionEnd::lost(LostConnection::transport(error)),
                        None => return ConnectionEnd::lost(LostConnection::EndOfStream),
                    }
                }
                now = ping.tick() => {
                    if now.duration_since(heard_at) > SILENCE_TIMEOUT {
                        return ConnectionEnd::lost(LostConnection::Silent);
                    }
                    out.waiting.push_back(Frame::Ping(Default::default()));
                }
            }
        }
    }

    /// Enters the ghosts of a bridge again. Everything else waits for that: it may be theirs.
    fn reenter_ghosts(&mut self) {
        self.unheard.retain(|order| !matches!(order.purpose, OrderPurpose::Reenter(_)));
        let ghosts = self.shared.ghosts.present();
        if ghosts.is_empty() {
            return;
        }
        self.held_back = std::mem::take(&mut self.unheard);
        let reenter = |ghost: Ghost| ghosts::enter(&self.shared.id, &ghost, OrderPurpose::Reenter(ghost.id.clone()));
        self.unheard = ghosts.into_iter().map(reenter).collect();
    }

    fn is_reentering(&self) -> bool {
        // They are sent first, so one that waits is at the front unless those before it have been answered.
        self.unheard.iter().any(|order| matches!(order.purpose, OrderPurpose::Reenter(_)))
    }

    /// A gateway may have come back with a smaller limit than it went with, and calls have been given up meanwhile.
    fn give_up_on_the_hopeless(&mut self) {
        self.unheard.retain(|order| self.shared.is_still_awaited(order));
        let refused: Vec<_> = self.unheard.iter().filter_map(|order| self.shared.too_large(order)).collect();
        for refusal in refused {
            self.refused(refusal);
        }
    }

    fn send(&mut self, order: Order, out: &mut FrameOutbox) {
        if self.shared.is_still_awaited(&order) {
            out.waiting.push_back(Frame::text(order.text.as_str()));
            self.unheard.push_back(order);
        }
    }

    /// Sends what was held back.
    fn send_again(&mut self, out: &mut FrameOutbox) {
        let Some(Delayed { refused, .. }) = self.delayed.take() else { return };
        // A call that was reported as failed must not be carried out later. What was not refused is still answered.
        self.unheard.retain(|order| !refused.contains(&order.id) || self.shared.is_still_awaited(order));
        // With everything behind it, so that what was taken meanwhile is not the only thing out of order. Of what was refused, some may
        // be stored all the same and received by now.
        let orders = self.unheard.iter().skip_while(|order| !refused.contains(&order.id));
        let wanted = orders.filter(|order| self.shared.is_still_awaited(order));
        out.waiting.extend(wanted.map(|order| Frame::text(order.text.as_str())));
    }

    /// Sends what is still waiting, and closes.
    async fn send_close(&mut self, mut out: FrameOutbox, mut stream: SplitStream<ClientSocket>) {
        self.send_again(&mut out);
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            self.send(order, &mut out);
        }
        for order in self.shared.take_soon() {
            self.send(order, &mut out);
        }
        let may_be_kept = self.entry_options.share && !self.entry_options.single_calls;
        if let Some(order) = may_be_kept.then(|| self.shared.session_ended()).flatten() {
            self.send(order, &mut out);
        }
        // RFC 6455 §7.4.1: by 1000 the gateway knows that the participant leaves, and keeps neither its seat nor those of its ghosts.
        let goodbye = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        out.waiting.push_back(Frame::Close(Some(goodbye)));
        let goodbye = async {
            loop {
                tokio::select! { biased;
                    moved = out.progress(), if !out.is_idle() => if moved.is_err() { return },
                    frame = stream.next() => match frame {
                        Some(Ok(Frame::Text(text))) => self.hear(text.as_str()),
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => return,
                    },
                }
            }
        };
        // A gateway that does not answer the Close frame has seen it all the same.
        let _ = tokio::time::timeout(HANDSHAKE_TIME, goodbye).await;
    }
}

fn parting(close: Option<CloseFrame>) -> ConnectionEnd {
    let Some(close) = close else {
        let reason = "the gateway closed the connection".into();
        return ConnectionEnd::lost(LostConnection::Closed { code: None, reason });
    };
    let code = u16::from(close.code);
    if code == CloseReason::Replaced.code() {
        return ConnectionEnd::Replaced;
    }
    if code == CloseReason::Deleted.code() {
        return ConnectionEnd::Deleted;
    }
    let why = LostConnection::Closed { code: Some(code), reason: close.reason.as_str().into() };
    ConnectionEnd::Lost { why, token_expired: code == CloseReason::TokenExpired.code() }
}
