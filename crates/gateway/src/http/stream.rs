//! A topic as server-sent events. Reading it makes nobody a participant.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use salon_protocol::system::{OUTAGE, READY};
use salon_protocol::{CloseReason, EnvelopeId};
use salon_rooms::{Cursor, Happening, Interest};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{Incoming, Problem, invalid};
use crate::carriers::events::{self, EventFields};
use crate::clock;
use crate::connection::ConnectionContext;
use crate::gateway::Counts;
use crate::meters::OpenConnection;
use crate::outages::Outage;

/// How many bytes of entries go into one piece of the answer.
const BATCH: usize = 64 * 1024;

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

#[utoipa::path(get, path = "/v0/topics/{topic}/stream", tag = "MCPx", summary = "Follow a topic as server-sent events",
    params(("topic" = String, Path),
        ("after" = Option<String>, Query, description = "The last envelope seen; `Last-Event-ID` says the same"),
        ("last-event-id" = Option<String>, Header, description = "What a browser sends of itself when it reconnects"),
        ("ticket" = Option<String>, Query, description = "A ticket from POST /v0/tickets in place of a token")),
    responses((status = 200, description = "One event an envelope", content_type = "text/event-stream", body = String), (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = [])))]
pub(super) async fn follow(incoming: Incoming, request: Request) -> Result<Response, Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).for_stream().await?;
    let Incoming { gateway, peer, query, .. } = incoming;
    let after = match last_event_id(request.headers())? {
        Some(id) => Some(id),
        None => query.name("after")?,
    };
    gateway.reads.take(&grant.participant)?;
    let counted = gateway.count(&grant, &peer)?;
    gateway.rooms.count_refused(&grant.participant).map_err(|wait| gateway.rooms.too_many(wait))?;
    let stamp = grant.stamp();
    let reader = Some((&grant.participant, stamp.as_ref()));
    let cursor = gateway.rooms.observe(&topic, after.as_ref(), Interest::default(), reader).await?;
    let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let follower = EventFollower {
        cursor,
        happenings: Vec::new(),
        keep_alive,
        expires: clock::instant(grant.expires).into(),
        shutdown: gateway.shutdown.subscribe(),
        outage: gateway.outages.as_deref().map(Outage::new),
        connection: gateway.connection(&grant, &topic, peer.ip()),
        _open: gateway.meters.open_connection(),
        _counted: counted,
    };
    // Sent at once, so that the reader knows it is connected before anything happens.
    let opening = stream::iter([Ok::<_, std::convert::Infallible>(events::KEEP_ALIVE)]);
    let following = stream::unfold(follower, |mut follower| async move {
        let piece = follower.next().await?;
        Some((Ok(piece), follower))
    });
    // Proxies that gather an answer before they pass it on would gather this one for ever.
    let unbuffered = (header::HeaderName::from_static("x-accel-buffering"), "no");
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store"), unbuffered];
    Ok((headers, Body::from_stream(futures_util::StreamExt::chain(opening, following))).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EnvelopeId>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid("`Last-Event-ID` is not UTF-8"))?;
    if text.is_empty() {
        return Ok(None);
    }
    let id = EnvelopeId::new(text).map_err(|error| invalid(format!("`Last-Event-ID` is not acceptable: {error}")))?;
    Ok(Some(id))
}

struct EventFollower {
    cursor: Cursor,
    happenings: Vec<Happening>,
    keep_alive: Interval,
    expires: Instant,
    shutdown: watch::Receiver<bool>,
    /// How the log is, where that can change.
    outage: Option<Outage>,
    connection: ConnectionContext,
    _open: OpenConnection,
    _counted: Counts,
}

impl EventFollower {
    /// The next piece of the stream; `None` when it ends.
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! { biased;
            () = async { drop(self.shutdown.wait_for(|stop| *stop).await) } => None,
            () = tokio::time::sleep_until(self.expires) => None,
            () = self.connection.access_ended() => None,
            is_out = next_outage(&mut self.outage) => {
                let (name, said) = if is_out { ("closing", OUTAGE) } else { ("ready", READY) };
                let mut piece = String::new();
                EventFields { name: Some(name), data: said, ..EventFields::default() }.write(&mut piece);
                Some(piece.into())
            }
            read = self.cursor.next(&mut self.happenings, BATCH) => match read {
                Ok(()) => {
                    self.connection.delivered(&self.happenings);
                    let mut piece = String::new();
                    for happening in &self.happenings {
                        write_event(&mut piece, happening);
                    }
                    self.happenings.clear();
                    Some(piece.into())
                }
                Err(reason) => {
                    tracing::debug!(reason = CloseReason::word(reason), "stream: ended");
                    None
                }
            },
            _ = self.keep_alive.tick() => {
                self.connection.meters.lag.record(self.cursor.lag() as f64);
                Some(events::KEEP_ALIVE)
            }
        }
    }
}

async fn next_outage(outage: &mut Option<Outage>) -> bool {
    match outage {
        Some(outage) => outage.changed().await,
        None => std::future::pending().await,
    }
}

fn write_event(piece: &mut String, happening: &Happening) {
    for entry in happening.entries() {
        let (id, data) = (entry.envelope.id().as_str(), entry.envelope.text());
        EventFields { id: Some(id), data, ..EventFields::default() }.write(piece);
    }
    if let Happening::Gap = happening {
        // Without an id: a reader that reconnects resumes after the last envelope it has.
        let data = "envelopes before the next one are no longer kept";
        EventFields { name: Some("gap"), data, ..EventFields::default() }.write(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_an_event_of_its_own_and_moves_nobody() {
        let mut piece = String::new();
        write_event(&mut piece, &Happening::Gap);
        assert_eq!(piece, "event: gap\ndata: envelopes before the next one are no longer kept\n\n");
    }
}
