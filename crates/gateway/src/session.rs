//! A session drives one connection: carrier, dialect and seat meet only here.
//!
//! It has its seat from the beginning, or takes it when its dialect says so. Nothing is published before.
//!
//! It never waits for one of them while another has something to do, keeps a bounded number of appends in flight in order, and stops
//! reading from a peer that does not take what it is sent. One timer serves every deadline of the connection.

mod deadlines;
mod drafts;
mod lookups;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use salon_dialects::{Dialect, DialectAction, DialectEvent, Frame, Introduction, Joined, StreamId};
use salon_protocol::CloseReason;
use salon_rooms::{FailedCall, Happening, Seat};
use tokio::time::Sleep;

use crate::carriers::{Opened, Received, StreamCarrier};
use crate::connection::ConnectionContext;
use crate::entrance::{Entrance, EntranceOutcome};
use crate::outages::Outage;
use drafts::{PendingAppend, PendingLookup};
use lookups::{Lookups, NextOutage, next_outage};

pub(crate) use deadlines::KeepAlive;
pub(crate) use lookups::Resolver;

/// How many bytes of entries are taken from the room at once.
const BATCH: usize = 64 * 1024;

/// How many times the session goes round before it lets others run.
const ROUNDS: usize = 16;

/// How long a peer has to answer a close.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// What a session begins with, but for its seat.
pub(crate) struct SessionStart<D: Dialect, C> {
    pub(crate) dialect: D,
    /// Answers what the dialect asks; `None` for one that asks nothing.
    pub(crate) resolver: Option<Resolver<D>>,
    pub(crate) carrier: C,
    /// `None` for a carrier that cannot tell silence from absence.
    pub(crate) keep_alive: Option<KeepAlive>,
    /// When the token's time is over.
    pub(crate) expires: Instant,
    pub(crate) connection: ConnectionContext,
}

/// What a session is made of.
pub(crate) struct Session<D: Dialect, C> {
    seat: Option<Seat>,
    /// The way to a seat, until there is one.
    entrance: Option<Box<Entrance>>,
    /// For dialects that ask things.
    lookups: Option<Box<Lookups<D>>>,
    dialect: D,
    carrier: C,
    connection: ConnectionContext,
    happenings: Vec<Happening>,
    in_flight: VecDeque<PendingAppend>,
    bytes_in_flight: usize,
    /// How many of those in flight the session must run for.
    awaited_in_flight: usize,
    pending_lookup: Option<Box<PendingLookup>>,
    keep_alive: Option<KeepAlive>,
    next_ping: Instant,
    last_received: Instant,
    expires: Instant,
    /// The end of the sign-in that the connection stands on.
    access_ended: Option<BoxFuture<'static, ()>>,
    /// How the log is, where that can change.
    outage: Option<NextOutage>,
    /// Until when nothing is read, because too much of it was malformed.
    paused: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    ending: Option<(CloseReason, Instant)>,
}

/// Runs until the connection is over, and says why it ended.
impl<D: Dialect + Unpin, C: StreamCarrier<D::Opening>> Future for Session<D, C> {
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

impl<D: Dialect, C: StreamCarrier<D::Opening>> Session<D, C> {
    /// A session for a peer that has its seat; it is welcomed first of all.
    pub(crate) fn seated(seat: Seat, joined: Joined, beginning: SessionStart<D, C>) -> Self {
        let mut session = Self::new(beginning);
        session.sit(seat, joined, session.last_received);
        session
    }

    /// A session for a peer that is yet to introduce itself.
    pub(crate) fn outside(entrance: Entrance, beginning: SessionStart<D, C>) -> Self {
        let mut session = Self::new(beginning);
        session.entrance = Some(Box::new(entrance));
        session
    }

    fn new(beginning: SessionStart<D, C>) -> Self {
        let SessionStart { mut dialect, resolver, carrier, keep_alive, expires, connection } = beginning;
        let now = Instant::now();
        if C::DUPLEX {
            dialect.handle_event(DialectEvent::StreamOpened(StreamId::ONLY, D::Opening::default()), now);
        }
        let next_ping = keep_alive.map_or(expires, |keep_alive| now + keep_alive.ping);
        let first_deadline = next_ping.min(expires);
        let access_ended: Option<BoxFuture<'static, ()>> = Some(Box::pin(connection.access_ended()));
        let outage = connection.outages.as_ref().map(|outages| next_outage(Outage::new(outages)));
        Self {
            seat: None,
            entrance: None,
            lookups: resolver.map(|resolver| Box::new(Lookups::new(resolver))),
            dialect,
            carrier,
            connection,
            happenings: Vec::new(),
            in_flight: VecDeque::new(),
            bytes_in_flight: 0,
            awaited_in_flight: 0,
            pending_lookup: None,
            keep_alive,
            next_ping,
            last_received: now,
            expires,
            access_ended,
            outage,
            paused: None,
            timer: Box::pin(tokio::time::sleep_until(first_deadline.into())),
            ending: None,
        }
    }

    fn sit(&mut self, seat: Seat, joined: Joined, now: Instant) {
        self.dialect.handle_event(DialectEvent::Joined(joined), now);
        if self.dialect.forwards_entries()
            && let Some(outlet) = self.carrier.outlet(&self.connection.meters)
        {
            seat.attach(outlet);
        }
        self.seat = Some(seat);
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let now = Instant::now();
        for _ in 0..ROUNDS {
            let mut progress = self.act(now).anything;
            progress |= self.poll_outcomes(cx, now);
            // Before the peer: nothing more is taken from one that has signed out, or whose token is revoked.
            progress |= self.poll_access(cx, now);
            // The peer before the room: what it has to say must not wait for a quiet moment.
            progress |= salon_log::submit_together(|| self.poll_peer(cx, now));
            progress |= self.poll_room(cx, now);
            progress |= self.poll_lookups(cx, now);
            progress |= self.poll_outage(cx, now);
            progress |= self.act(now).anything;
            match self.poll_write(cx) {
                Ok(wrote) => progress |= wrote,
                Err(error) => {
                    let broken = match error.kind() {
                        io::ErrorKind::TimedOut => CloseReason::TooSlow,
                        _ => CloseReason::Bye,
                    };
                    self.keep_seat();
                    return Poll::Ready(self.ending.map_or(broken, |(reason, _)| reason));
                }
            }
            if self.poll_deadlines(cx) {
                progress = true;
            }
            if let Some((reason, deadline)) = self.ending
                && (now >= deadline || (self.carrier.is_drained() && self.carrier.poll_farewell(cx).is_ready()))
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
                DialectAction::Send(stream, frame) => self.carrier.send(stream, frame),
                DialectAction::Refuse(stream, code, frame) => {
                    self.connection.refused(code);
                    self.carrier.send(stream, frame);
                }
                DialectAction::Refused(code) => self.connection.refused(code),
                DialectAction::Publish(ticket, draft) => {
                    acted.published = true;
                    self.publish(ticket, *draft, now);
                }
                DialectAction::Reply(ticket, draft) => self.reply(ticket, *draft, now),
                DialectAction::Begin(stream, head) => self.carrier.begin(stream, head),
                DialectAction::Finish(stream) => self.carrier.finish(stream),
                DialectAction::Join(introduction) => self.enter(*introduction),
                DialectAction::Ask(query) => self.look_up(query),
                DialectAction::Farewell(reason) => {
                    if let Some(seat) = &mut self.seat {
                        seat.farewell(reason);
                    }
                }
                DialectAction::Close(reason) => {
                    // The seat first: nothing may follow a close frame.
                    self.end(reason, now);
                    self.carrier.close(reason);
                }
            }
        }
        acted
    }

    fn enter(&mut self, introduction: Introduction) {
        if let Some(entrance) = &mut self.entrance {
            entrance.enter(introduction);
        }
    }

    /// A peer that is gone without saying that it leaves may be back in a moment: a page that is reloaded.
    fn keep_seat(&mut self) {
        if let Some(keeper) = &self.connection.seat_keeper
            && !self.carrier.has_sent_close()
            && let Some(seat) = self.seat.take()
        {
            keeper.keep(seat, self.connection.access_ended());
        }
    }

    /// Leaves the room and stops everything but the writing of what is queued.
    fn end(&mut self, reason: CloseReason, now: Instant) {
        self.seat = None;
        self.entrance = None;
        if self.ending.is_none() {
            self.ending = Some((reason, now + CLOSING_TIME));
            self.timer.as_mut().reset((now + CLOSING_TIME).into());
        }
    }

    /// A bridge's connection that another takes over keeps the ghosts present until the other has entered them.
    fn keep_ghosts(&mut self) {
        if let Some(keeper) = &self.connection.seat_keeper
            && let Some(seat) = self.seat.take_if(|seat| seat.ghosts().is_some())
        {
            keeper.keep(seat, self.connection.access_ended());
        }
    }

    /// Tells the dialect that the connection is about to end, for a reason of ours.
    fn close(&mut self, reason: CloseReason, now: Instant) {
        if reason == CloseReason::Replaced {
            self.keep_ghosts();
        }
        if self.ending.is_none() {
            self.dialect.handle_event(DialectEvent::Closing(reason), now);
            self.act(now);
        }
        // Whatever the dialect had to say, it has said.
        if self.ending.is_none() {
            self.end(reason, now);
            self.carrier.close(reason);
        }
    }

    fn poll_access(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(access_ended) = &mut self.access_ended else { return false };
        if access_ended.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.access_ended = None;
        self.close(CloseReason::TokenExpired, now);
        true
    }

    fn poll_room(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(seat) = &mut self.seat else { return self.poll_entrance(cx, now) };
        // Drafts that wait their turn may come from what happened in the room: no more of those for now.
        let backed_up = self.pending_lookup.as_ref().is_some_and(|pending_lookup| !pending_lookup.behind.is_empty());
        if backed_up || !self.carrier.has_room() {
            return false;
        }
        if !self.dialect.ready() {
            let Poll::Ready(reason) = seat.poll_rest(cx) else { return false };
            self.close(reason, now);
            return true;
        }
        match seat.poll_next(cx, &mut self.happenings, BATCH) {
            Poll::Pending => false,
            Poll::Ready(Err(reason)) => {
                self.close(reason, now);
                true
            }
            Poll::Ready(Ok(())) => {
                self.connection.delivered(&self.happenings);
                // Given up while idle, as most connections are.
                for happening in std::mem::take(&mut self.happenings) {
                    self.pass_on(happening, now);
                }
                true
            }
        }
    }

    fn poll_entrance(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(entrance) = &mut self.entrance else { return false };
        let Poll::Ready(entry) = entrance.poll(cx) else { return false };
        match entry {
            EntranceOutcome::Joined(arrived) => {
                self.entrance = None;
                let (seat, joined) = *arrived;
                self.sit(seat, joined, now);
            }
            EntranceOutcome::NotJoined(refusal) => {
                self.connection.refused(refusal.code);
                self.dialect.handle_event(DialectEvent::NotJoined(refusal), now);
            }
            EntranceOutcome::Dismissed => self.close(CloseReason::Shutdown, now),
        }
        true
    }

    /// Says to the peer, in its dialect, what happened.
    fn pass_on(&mut self, happening: Happening, now: Instant) {
        match happening {
            Happening::Batch(batch) if self.dialect.forwards_entries() => {
                // What the dialect has said before comes first.
                self.act(now);
                self.carrier.send_batch(batch);
            }
            Happening::Batch(batch) => {
                for entry in batch.entries() {
                    self.dialect.handle_event(DialectEvent::Entry(entry.clone()), now);
                }
            }
            Happening::Entry(entry) => self.dialect.handle_event(DialectEvent::Entry(entry), now),
            Happening::CallFailed(call) => {
                let FailedCall { request, id, callee, cause, reason } = call;
                let event = DialectEvent::CallFailed { request, id, callee, cause, reason };
                self.dialect.handle_event(event, now);
            }
            Happening::Gap => self.dialect.handle_event(DialectEvent::Gap, now),
        }
    }

    fn poll_peer(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut progress = false;
        while self.may_read() {
            let Poll::Ready(received) = self.carrier.poll_receive(cx) else { break };
            progress = true;
            self.last_received = now;
            if let Some(seat) = &self.seat {
                self.dialect.refresh(&|entry| seat.current(entry));
            }
            match received {
                Received::Frame(stream, frame) => self.hear(stream, frame, now),
                Received::Control => {}
                Received::Opened(opened) => self.open(*opened, now),
                Received::HungUp(stream) => {
                    self.dialect.handle_event(DialectEvent::StreamClosed(stream), now);
                    self.act(now);
                }
                Received::Closed => {
                    self.dialect.handle_event(DialectEvent::StreamClosed(StreamId::ONLY), now);
                    self.act(now);
                    self.keep_seat();
                    self.end(CloseReason::Bye, now);
                    break;
                }
                Received::End(reason) => {
                    self.close(reason, now);
                    break;
                }
            }
        }
        progress
    }

    /// Reading stops while too much is under way, which is how a peer feels back-pressure.
    fn may_read(&self) -> bool {
        self.ending.is_none() && self.may_publish() && self.carrier.has_room() && self.paused.is_none()
    }

    fn open(&mut self, opened: Opened<D::Opening>, now: Instant) {
        let Opened { stream, opening, is_message, expires } = opened;
        self.expires = self.expires.max(expires);
        self.dialect.handle_event(DialectEvent::StreamOpened(stream, opening), now);
        let published = self.act(now).published;
        if is_message && !published {
            // Its body was counted and limited on its way.
            self.count_unpublished(0, now);
        }
    }

    fn hear(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        let bytes = match &frame {
            Frame::Text(text) => text.len(),
            Frame::Binary(bytes) => bytes.len(),
            Frame::Entry(_) | Frame::Event(_) => 0,
        };
        self.dialect.handle_frame(stream, frame, now);
        if !self.act(now).published {
            self.count_unpublished(bytes, now);
        }
    }

    /// Counts a message of the peer's that published nothing.
    fn count_unpublished(&mut self, bytes: usize, now: Instant) {
        if self.dialect.is_counted()
            && let Some(Err(wait)) = self.seat.as_ref().map(Seat::count_malformed)
        {
            self.pause(wait, bytes, now);
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if self.carrier.is_drained() {
            return Ok(false);
        }
        let before = self.carrier.queued();
        match self.carrier.poll_flush(cx) {
            Poll::Ready(outcome) => outcome.map(|()| true),
            Poll::Pending => Ok(self.carrier.queued() < before),
        }
    }
}

#[cfg(test)]
mod tests;
