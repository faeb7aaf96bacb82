//! What a dialect wants to know that is not known at once.

use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use salon_dialects::mcp::listing::Listing;
use salon_dialects::{Dialect, Event};
use salon_protocol::{EnvelopeId, ParticipantId};

use super::Session;
use crate::carriers::Carrier;
use crate::entrance::Consult;
use crate::nodes::Outage;

/// What was asked and not answered yet.
#[derive(Default)]
pub(super) struct Inquiries {
    /// The way to the room's catalogue, where there is one.
    consult: Option<Consult>,
    consulted: FuturesUnordered<BoxFuture<'static, Event>>,
    /// In the order of the calls, because whoever is called must hear them in that order.
    permitted: FuturesOrdered<BoxFuture<'static, Event>>,
}

impl Inquiries {
    pub(super) fn with(consult: Consult) -> Self {
        Self { consult: Some(consult), ..Self::default() }
    }
}

/// The next change of how the log is, and the rest of the changes.
pub(super) type NextOutage = BoxFuture<'static, (bool, Outage)>;

/// Waits for the next change.
pub(super) fn next_outage(mut outage: Outage) -> NextOutage {
    Box::pin(async move { (outage.changed().await, outage) })
}

impl<D: Dialect, C: Carrier> Session<D, C> {
    pub(super) fn consult(&mut self, who: ParticipantId, listing: Listing, now: Instant) {
        let Some((inquiries, consult)) =
            self.inquiries.as_mut().and_then(|inquiries| Some((&inquiries.consulted, inquiries.consult.as_ref()?)))
        else {
            return self.dialect.handle_event(Event::Consulted { who, listing, items: None }, now);
        };
        let found = consult(&who, listing);
        inquiries.push(Box::pin(async move { Event::Consulted { who, listing, items: found.await } }));
    }

    pub(super) fn look_up_permissions(&mut self, who: &ParticipantId, request: EnvelopeId, now: Instant) {
        match self.connection.granted(who, &request) {
            Ok(granted) => self.dialect.handle_event(Event::Permissions { request, granted }, now),
            Err(granted) => {
                let event = Box::pin(async move { Event::Permissions { request, granted: granted.await } });
                self.inquiries.get_or_insert_default().permitted.push_back(event);
            }
        }
    }

    pub(super) fn poll_inquiries(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(inquiries) = &mut self.inquiries else { return false };
        let mut progress = false;
        while let Poll::Ready(Some(event)) = inquiries.consulted.poll_next_unpin(cx) {
            self.dialect.handle_event(event, now);
            progress = true;
        }
        while let Poll::Ready(Some(event)) = inquiries.permitted.poll_next_unpin(cx) {
            self.dialect.handle_event(event, now);
            progress = true;
        }
        progress
    }

    /// Tells the dialect that the log cannot be reached, or can be again.
    pub(super) fn poll_outage(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(changed) = self.outage.as_mut().filter(|_| self.ending.is_none()) else { return false };
        let Poll::Ready((is_out, rest)) = changed.as_mut().poll(cx) else { return false };
        self.outage = Some(next_outage(rest));
        self.dialect.handle_event(if is_out { Event::Outage } else { Event::Recovered }, now);
        true
    }
}
