//! What a dialect asks of the gateway, which may not be known at once; and whether the log can be reached.

use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use salon_dialects::{Dialect, DialectEvent};

use super::Session;
use crate::carriers::StreamCarrier;
use crate::outages::Outage;

/// How a door answers what its dialect asks.
pub(crate) type Resolver<D> = Box<dyn Fn(<D as Dialect>::Query) -> BoxFuture<'static, <D as Dialect>::Answer> + Send>;

/// What was asked and is not answered yet.
pub(super) struct Lookups<D: Dialect> {
    resolver: Resolver<D>,
    pending: FuturesUnordered<BoxFuture<'static, D::Answer>>,
}

impl<D: Dialect> Lookups<D> {
    pub(super) fn new(resolver: Resolver<D>) -> Self {
        Self { resolver, pending: FuturesUnordered::new() }
    }
}

/// The next change of how the log is, and the rest of the changes.
pub(super) type NextOutage = BoxFuture<'static, (bool, Outage)>;

/// Waits for the next change.
pub(super) fn next_outage(mut outage: Outage) -> NextOutage {
    Box::pin(async move { (outage.changed().await, outage) })
}

impl<D: Dialect, C: StreamCarrier<D::Opening>> Session<D, C> {
    pub(super) fn look_up(&mut self, query: D::Query) {
        let Some(lookups) = &mut self.lookups else { return };
        lookups.pending.push((lookups.resolver)(query));
    }

    pub(super) fn poll_lookups(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(lookups) = &mut self.lookups else { return false };
        let mut progress = false;
        while let Poll::Ready(Some(answer)) = lookups.pending.poll_next_unpin(cx) {
            self.dialect.handle_event(DialectEvent::Answered(answer), now);
            progress = true;
        }
        progress
    }

    /// Tells the dialect that the log cannot be reached, or can be again.
    pub(super) fn poll_outage(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(changed) = self.outage.as_mut().filter(|_| self.ending.is_none()) else { return false };
        let Poll::Ready((is_out, rest)) = changed.as_mut().poll(cx) else { return false };
        self.outage = Some(next_outage(rest));
        self.dialect.handle_event(if is_out { DialectEvent::Outage } else { DialectEvent::Recovered }, now);
        true
    }
}
