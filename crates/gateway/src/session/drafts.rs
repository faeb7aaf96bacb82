//! Drafts on their way into the log: in order, and not too many at once.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::BoxFuture;
use salon_control::ControlNotice;
use salon_dialects::{Dialect, DialectEvent, Ticket};
use salon_log::Appended;
use salon_protocol::{Code, Draft, Envelope, Message, Refusal};
use salon_rooms::{Publishing, Seat, Submission};

use super::Session;
use crate::carriers::StreamCarrier;

/// How many drafts of one session may be on their way into the log.
const MAX_IN_FLIGHT: usize = 256;

/// How many bytes they may take, but for the last of them.
const MAX_BYTES_IN_FLIGHT: usize = 2 << 20;

/// How many bytes of drafts whose outcomes nobody waits for. An idle session has their entries in memory until it runs again.
const MAX_QUIET_BYTES: usize = 16 << 10;

/// What a draft takes beside its text, in bytes: its head, its ids, and its place here.
const DRAFT_OVERHEAD: usize = 512;

/// How many drafts an idle session keeps room for.
const MAX_IDLE_CAPACITY: usize = 16;

/// A draft on its way into the log.
pub(super) struct PendingAppend {
    ticket: Ticket,
    since: Instant,
    bytes: usize,
    /// Whether the session must run when it is stored.
    is_awaited: bool,
    /// Whether the session runs when it is refused, though another is before it.
    is_watched: bool,
    submission: Submission,
}

/// A draft about which the log must be asked, and those that wait their turn meanwhile.
pub(super) struct PendingLookup {
    ticket: Ticket,
    outcome: BoxFuture<'static, Result<Appended, Refusal>>,
    pub(super) behind: VecDeque<(Ticket, Draft, SubmitFn)>,
}

/// How a draft is given to the room.
type SubmitFn = fn(&Seat, Draft) -> Publishing;

impl<D: Dialect, C: StreamCarrier<D::Opening>> Session<D, C> {
    /// Whether more drafts may be made of what the peer says.
    pub(super) fn may_publish(&self) -> bool {
        self.in_flight.len() < MAX_IN_FLIGHT
            && self.bytes_in_flight < MAX_BYTES_IN_FLIGHT
            && self.pending_lookup.is_none()
    }

    pub(super) fn publish(&mut self, ticket: Ticket, draft: Draft, now: Instant) {
        self.propose(ticket, draft, Seat::publish, now);
    }

    /// Publishes an answer that the peer knows nothing of.
    pub(super) fn reply(&mut self, ticket: Ticket, draft: Draft, now: Instant) {
        self.propose(ticket, draft, Seat::reply, now);
    }

    fn propose(&mut self, ticket: Ticket, draft: Draft, submit: SubmitFn, now: Instant) {
        let Some(seat) = &self.seat else { return self.refuse_outside(ticket, now) };
        if let Some(pending_lookup) = &mut self.pending_lookup {
            return pending_lookup.behind.push_back((ticket, draft, submit));
        }
        let stamp = self.connection.stamps.of(draft.envelope().id());
        let draft = draft.stamped(stamp);
        let text = draft.envelope().text().len();
        let bytes = text + DRAFT_OVERHEAD;
        let is_awaited = self.dialect.awaits_acceptance()
            || self.bytes_in_flight + bytes > MAX_QUIET_BYTES
            || !(draft.envelope().to().is_empty() || is_call(draft.envelope()));
        match submit(seat, draft) {
            Publishing::Submitted(submission) => {
                self.bytes_in_flight += bytes;
                self.awaited_in_flight += usize::from(is_awaited);
                self.in_flight.push_back(PendingAppend {
                    ticket,
                    since: now,
                    bytes,
                    is_awaited,
                    is_watched: false,
                    submission,
                });
            }
            Publishing::LookUp(outcome) => {
                self.pending_lookup = Some(Box::new(PendingLookup { ticket, outcome, behind: VecDeque::new() }));
            }
            Publishing::Refused(refusal) => self.dialect.handle_event(DialectEvent::Refused { ticket, refusal }, now),
            Publishing::Limited(refusal, wait) => {
                self.pause(wait, text, now);
                self.dialect.handle_event(DialectEvent::Refused { ticket, refusal }, now);
            }
        }
    }

    /// Nobody speaks in a room without a seat. A participant that left its seat gets no more answers.
    fn refuse_outside(&mut self, ticket: Ticket, now: Instant) {
        if self.ending.is_none() {
            let refusal = Refusal::new(Code::Forbidden, "only who has joined the room may speak in it");
            self.dialect.handle_event(DialectEvent::Refused { ticket, refusal }, now);
        }
    }

    /// Tells the dialect what became of its drafts, in the order they were published.
    pub(super) fn poll_outcomes(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut progress = false;
        // They come in order, and only the first is polled. A session that does not read waits for all of them.
        let is_awaited = self.awaited_in_flight > 0 || !self.may_publish();
        while let Some(first) = self.in_flight.front_mut() {
            let polled = match is_awaited {
                true => Pin::new(&mut first.submission).poll(cx),
                false => first.submission.poll_quietly(cx),
            };
            let Poll::Ready(outcome) = polled else { break };
            let ticket = first.ticket;
            let took = match first.submission.stored_at() {
                Some(stored_at) => stored_at.saturating_duration_since(first.since),
                None => first.since.elapsed(),
            };
            self.bytes_in_flight -= first.bytes;
            self.awaited_in_flight -= usize::from(first.is_awaited);
            self.in_flight.pop_front();
            self.connection.meters.append_seconds.record(took.as_secs_f64());
            self.settle(ticket, outcome, now);
            progress = true;
        }
        self.watch_later(cx);
        // What had to be looked up was published last, so its outcome comes last as well.
        if self.in_flight.is_empty()
            && let Some(pending_lookup) = &mut self.pending_lookup
            && let Poll::Ready(outcome) = pending_lookup.outcome.as_mut().poll(cx)
        {
            let ticket = pending_lookup.ticket;
            let behind = std::mem::take(&mut pending_lookup.behind);
            self.pending_lookup = None;
            self.settle(ticket, outcome, now);
            salon_log::submit_together(|| {
                for (ticket, draft, submit) in behind {
                    self.propose(ticket, draft, submit, now);
                }
            });
            progress = true;
        }
        progress
    }

    /// Has the session run when a draft is refused, though an earlier one is not stored yet. One task polls a session for its whole life, so this is
    /// done once for each draft. It relies on the engine to send outcomes in the order of submission: when a refusal wakes the session, everything
    /// before it is decided.
    fn watch_later(&mut self, cx: &Context<'_>) {
        for append in self.in_flight.iter_mut().skip(1).rev().take_while(|append| !append.is_watched) {
            append.is_watched = true;
            if append.submission.watch(cx) && !append.is_awaited {
                append.is_awaited = true;
                self.awaited_in_flight += 1;
                // The first must be polled as one that is awaited.
                cx.waker().wake_by_ref();
            }
        }
        if self.in_flight.len() * 4 <= self.in_flight.capacity() {
            // Back to twice of what is needed, so that a steady number of drafts neither shrinks nor grows it.
            self.in_flight.shrink_to((2 * self.in_flight.len()).max(MAX_IDLE_CAPACITY));
        }
    }

    fn settle(&mut self, ticket: Ticket, outcome: Result<Appended, Refusal>, now: Instant) {
        match outcome {
            Ok(Appended { entry, .. }) if ControlNotice::holds_call(&entry.envelope) => {
                if let Some(ControlNotice::Requested(held)) = ControlNotice::of(&entry.envelope) {
                    self.dialect.handle_event(DialectEvent::Held { ticket, held }, now);
                }
            }
            Ok(Appended { entry, repeated }) => {
                // One that lies ahead is still to be delivered in its place.
                let repeated = repeated && self.seat.as_ref().is_none_or(|seat| seat.has_passed(&entry));
                let absent = match &self.seat {
                    Some(seat) if !repeated && !is_call(&entry.envelope) => seat.absent(&entry.envelope),
                    _ => Vec::new(),
                };
                let id = entry.envelope.id().clone();
                self.dialect.handle_event(DialectEvent::Accepted { ticket, entry, repeated }, now);
                if !absent.is_empty() {
                    self.dialect.handle_event(DialectEvent::Absent { id, participants: absent }, now);
                }
            }
            Err(refusal) => self.dialect.handle_event(DialectEvent::Refused { ticket, refusal }, now),
        }
    }
}

/// Whether an envelope is part of a call: its parties hear of an absent one otherwise.
fn is_call(envelope: &Envelope) -> bool {
    !matches!(envelope.message(), Some(Message::Notification { .. })) || envelope.concerned_call().is_some()
}
