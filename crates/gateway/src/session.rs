//! A session drives one connection: carrier, dialect and seat meet only here.
//!
//! It never waits for one of them while another has something to do, keeps a bounded number of appends in flight in order, and stops
//! reading from a peer that does not take what it is sent. One timer serves every deadline of the connection.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use salon_dialects::{Action, Dialect, Event, Frame, Joined, StreamId, Ticket};
use salon_log::Appended;
use salon_protocol::{CloseReason, Refusal};
use salon_rooms::{Happening, Publishing, Seat, Submission};
use tokio::time::Sleep;

use crate::carriers::{Received, WebSocket};
use crate::ledger::Ledger;

/// How many drafts of one session may be on their way into the log.
const MOST_IN_FLIGHT: usize = 256;

/// How many bytes of text they may have, but for the last of them.
const MOST_BYTES_IN_FLIGHT: usize = 2 << 20;

/// How long reading pauses, at the most, for one message too many.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// How many bytes of entries are taken from the room at once.
const BATCH: usize = 64 * 1024;

/// How many times the session goes round before it lets others run.
const ROUNDS: usize = 16;

/// How long a peer has to answer a close.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// The times a connection is held to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How often the peer is pinged.
    pub(crate) ping: Duration,
    /// How long it may say nothing at all.
    pub(crate) silence: Duration,
}

/// What a session is made of.
pub(crate) struct Session<D> {
    seat: Option<Seat>,
    dialect: D,
    socket: WebSocket,
    ledger: Ledger,
    happenings: Vec<Happening>,
    in_flight: VecDeque<Awaited>,
    bytes_in_flight: usize,
    looking_up: Option<(Ticket, BoxFuture<'static, Result<Appended, Refusal>>)>,
    patience: Patience,
    next_ping: Instant,
    heard: Instant,
    expires: Instant,
    /// Until when nothing is read, because too much of it was malformed.
    paused: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    ending: Option<(CloseReason, Instant)>,
}

/// Runs until the connection is over, and says why it ended.
impl<D: Dialect + Unpin> Future for Session<D> {
    type Output = CloseReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.get_mut().poll_all(cx)
    }
}

#[derive(Default)]
struct Acted {
    anything: bool,
    published: bool,
}

struct Awaited {
    ticket: Ticket,
    since: Instant,
    bytes: usize,
    submission: Submission,
}

impl<D: Dialect> Session<D> {
    /// A session for a peer that has its seat; it is welcomed first of all.
    pub(crate) fn new(
        seat: Seat,
        joined: Joined,
        mut dialect: D,
        socket: WebSocket,
        patience: Patience,
        expires: Instant,
        ledger: Ledger,
    ) -> Self {
        let now = Instant::now();
        dialect.handle_event(Event::Joined(joined), now);
        if dialect.forwards_entries()
            && let Some(outlet) = socket.outlet(&ledger.meters)
        {
            seat.attach(outlet);
        }
        let next_ping = now + patience.ping;
        let first_deadline = next_ping.min(expires);
        Self {
            seat: Some(seat),
            dialect,
            socket,
            ledger,
            happenings: Vec::new(),
            in_flight: VecDeque::new(),
            bytes_in_flight: 0,
            looking_up: None,
            patience,
            next_ping,
            heard: now,
            expires,
            paused: None,
            timer: Box::pin(tokio::time::sleep_until(first_deadline.into())),
            ending: None,
        }
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let now = Instant::now();
        for _ in 0..ROUNDS {
            let mut progress = self.act(now).anything;
            progress |= self.poll_outcomes(cx, now);
            // The peer before the room: what it has to say must not wait for a quiet moment.
            progress |= self.poll_peer(cx, now);
            progress |= self.poll_room(cx, now);
            progress |= self.act(now).anything;
            match self.poll_write(cx) {
                Ok(wrote) => progress |= wrote,
                Err(error) => {
                    let broken = match error.kind() {
                        io::ErrorKind::TimedOut => CloseReason::TooSlow,
                        _ => CloseReason::Bye,
                    };
                    return Poll::Ready(self.ending.map_or(broken, |(reason, _)| reason));
                }
            }
            if self.poll_deadlines(cx) {
                progress = true;
            }
            if let Some((reason, deadline)) = self.ending
                && (now >= deadline || (self.socket.is_drained() && self.socket.poll_farewell(cx).is_ready()))
            {
                return Poll::Ready(reason);
            }
            if !progress {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Does what the dialect wants done; says whether there was anything, and whether a draft was among it.
    fn act(&mut self, now: Instant) -> Acted {
        let mut acted = Acted::default();
        while let Some(action) = self.dialect.poll_action() {
            acted.anything = true;
            match action {
                Action::Send(_, frame) => self.socket.send(frame),
                Action::Refuse(_, code, frame) => {
                    self.ledger.refused(code);
                    self.socket.send(frame);
                }
                Action::Publish(ticket, draft) => {
                    acted.published = true;
                    self.publish(ticket, *draft, now);
                }
                Action::Close(reason) => {
                    // The seat first: nothing may follow a close frame.
                    self.end(reason, now);
                    self.socket.close(reason);
                }
            }
        }
        acted
    }

    fn publish(&mut self, ticket: Ticket, draft: salon_protocol::Draft, now: Instant) {
        let Some(seat) = &self.seat else { return };
        let bytes = draft.envelope().text().len();
        match seat.publish(draft) {
            Publishing::Submitted(submission) => {
                self.bytes_in_flight += bytes;
                self.in_flight.push_back(Awaited { ticket, since: now, bytes, submission });
            }
            Publishing::LookUp(outcome) => self.looking_up = Some((ticket, outcome)),
            Publishing::Refused(refusal) => self.dialect.handle_event(Event::Refused { ticket, refusal }, now),
            Publishing::Limited(refusal, wait) => {
                self.pause(wait, now);
                self.dialect.handle_event(Event::Refused { ticket, refusal }, now);
            }
        }
    }

    /// Leaves the room and stops everything but the writing of what is queued.
    fn end(&mut self, reason: CloseReason, now: Instant) {
        self.seat = None;
        if self.ending.is_none() {
            self.ending = Some((reason, now + CLOSING_TIME));
            self.timer.as_mut().reset((now + CLOSING_TIME).into());
        }
    }

    /// Tells the dialect that the connection is about to end, for a reason of ours.
    fn close(&mut self, reason: CloseReason, now: Instant) {
        if self.ending.is_none() {
            self.dialect.handle_event(Event::Closing(reason), now);
            self.act(now);
        }
    }

    fn poll_outcomes(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut progress = false;
        while let Some(first) = self.in_flight.front_mut() {
            let Poll::Ready(outcome) = Pin::new(&mut first.submission).poll(cx) else { break };
            let (ticket, since) = (first.ticket, first.since);
            self.bytes_in_flight -= first.bytes;
            self.in_flight.pop_front();
            self.ledger.meters.append_seconds.record(since.elapsed().as_secs_f64());
            self.settle(ticket, outcome, now);
            progress = true;
        }
        // What had to be looked up was published last, so its outcome comes last as well.
        if self.in_flight.is_empty()
            && let Some((ticket, outcome)) = &mut self.looking_up
            && let Poll::Ready(outcome) = outcome.as_mut().poll(cx)
        {
            let ticket = *ticket;
            self.looking_up = None;
            self.settle(ticket, outcome, now);
            progress = true;
        }
        progress
    }

    fn settle(&mut self, ticket: Ticket, outcome: Result<Appended, Refusal>, now: Instant) {
        match outcome {
            Ok(Appended { entry, repeated }) => {
                // One that lies ahead is still to be delivered in its place.
                let repeated = repeated && self.seat.as_ref().is_none_or(|seat| seat.has_passed(&entry));
                self.dialect.handle_event(Event::Accepted { ticket, entry, repeated }, now);
            }
            Err(refusal) => self.dialect.handle_event(Event::Refused { ticket, refusal }, now),
        }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(seat) = &mut self.seat else { return false };
        if !self.socket.has_room() {
            return false;
        }
        match seat.poll_next(cx, &mut self.happenings, BATCH) {
            Poll::Pending => false,
            Poll::Ready(Err(reason)) => {
                self.close(reason, now);
                true
            }
            Poll::Ready(Ok(())) => {
                self.ledger.delivered(&self.happenings);
                // Given up while idle, as most connections are.
                for happening in std::mem::take(&mut self.happenings) {
                    self.pass_on(happening, now);
                }
                true
            }
        }
    }

    /// Says to the peer, in its dialect, what happened.
    fn pass_on(&mut self, happening: Happening, now: Instant) {
        match happening {
            Happening::Batch(batch) if self.dialect.forwards_entries() => {
                // What the dialect has said before comes first.
                self.act(now);
                self.socket.send_batch(batch);
            }
            Happening::Batch(batch) => {
                for entry in batch.entries() {
                    self.dialect.handle_event(Event::Entry(entry.clone()), now);
                }
            }
            Happening::Entry(entry) => self.dialect.handle_event(Event::Entry(entry), now),
            Happening::CallFailed(call) => {
                let event = Event::CallFailed { request: call.request, id: call.id, callee: call.callee };
                self.dialect.handle_event(event, now);
            }
            Happening::Gap => self.dialect.handle_event(Event::Gap, now),
        }
    }

    fn poll_peer(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut progress = false;
        while self.may_read() {
            let Poll::Ready(received) = self.socket.poll_receive(cx) else { break };
            progress = true;
            self.heard = now;
            match received {
                Received::Frame(frame) => self.hear(frame, now),
                Received::Control => {}
                Received::Closed => {
                    self.end(CloseReason::Bye, now);
                    break;
                }
                Received::Violation(reason) => {
                    self.close(reason, now);
                    break;
                }
            }
        }
        progress
    }

    /// Reading stops while too much is under way, which is how a peer feels back-pressure.
    fn may_read(&self) -> bool {
        self.seat.is_some()
            && self.in_flight.len() < MOST_IN_FLIGHT
            && self.bytes_in_flight < MOST_BYTES_IN_FLIGHT
            && self.looking_up.is_none()
            && self.socket.has_room()
            && self.paused.is_none()
    }

    fn hear(&mut self, frame: Frame, now: Instant) {
        self.dialect.handle_frame(StreamId::ONLY, frame, now);
        if !self.act(now).published
            && let Some(Err(wait)) = self.seat.as_ref().map(Seat::count_malformed)
        {
            self.pause(wait, now);
        }
    }

    /// Reads nothing for a while: whoever sends too much is slowed down rather than answered ever faster.
    fn pause(&mut self, wait: Duration, now: Instant) {
        let until = now + wait.min(LONGEST_PAUSE);
        self.paused = Some(until);
        self.timer.as_mut().reset(until.into());
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if self.socket.is_drained() {
            return Ok(false);
        }
        let before = self.socket.queued();
        match self.socket.poll_flush(cx) {
            Poll::Ready(outcome) => outcome.map(|()| true),
            Poll::Pending => Ok(self.socket.queued() < before),
        }
    }

    /// Looks after pings, silence, the token's end and the dialect's own timer.
    fn poll_deadlines(&mut self, cx: &mut Context<'_>) -> bool {
        if self.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        let now = Instant::now();
        if self.ending.is_some() {
            return true;
        }
        if self.paused.is_some_and(|until| now >= until) {
            self.paused = None;
        }
        if now >= self.expires {
            self.close(CloseReason::TokenExpired, now);
            return true;
        }
        if now >= self.heard + self.patience.silence {
            self.close(CloseReason::Unresponsive, now);
            return true;
        }
        if now >= self.next_ping {
            self.next_ping = now + self.patience.ping;
            self.socket.ping();
            self.ledger.meters.lag.record(self.seat.as_ref().map_or(0, Seat::lag) as f64);
        }
        if self.dialect.poll_timeout().is_some_and(|at| now >= at) {
            self.dialect.handle_timeout(now);
        }
        let next = self.next_deadline();
        self.timer.as_mut().reset(next.into());
        true
    }

    fn next_deadline(&self) -> Instant {
        let silence = self.heard + self.patience.silence;
        [Some(self.expires), Some(self.next_ping), Some(silence), self.dialect.poll_timeout(), self.paused]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.next_ping)
    }
}
