//! Hearing that a resource has changed.

use std::fmt;
use std::time::Duration;

use salon_mcp::{Era, meta};
use salon_protocol::{Envelope, Message, ParticipantId, PresenceEvent};
use serde_json::json;
use serde_json::value::RawValue;

use super::{HANDSHAKE_TIMEOUT, Peer};
use crate::{Call, CallError, Event, Events, RequestOptions, ResultError};

/// Tells when a resource of a participant changes. Made by [`Peer::subscribe`].
///
/// Dropping it only stops listening: others in this program may listen too, and the participant knows them as one. Use
/// [`Peer::unsubscribe`] when nobody does any more. With a participant of MCP 2026-07-28 each subscription is its own, and dropping it ends it.
pub struct Subscription {
    events: Events,
    me: ParticipantId,
    peer: ParticipantId,
    uri: String,
    /// The request that keeps it open, with a participant of MCP 2026-07-28.
    listening: Option<Call>,
}

impl Subscription {
    pub(super) async fn begin(peer: &Peer, uri: &str) -> Result<Self, CallError> {
        // The handshake first, so that notifications from here on belong to it.
        let (_, handshake) = peer.meet().await?;
        let mut events = peer.room().events();
        let listening = if handshake.era == Era::Modern {
            Some(listen(peer, uri, &mut events).await?)
        } else {
            peer.request("resources/subscribe", &json!({ "uri": uri })).await?;
            None
        };
        Ok(Self { events, me: peer.room().id().clone(), peer: peer.id().clone(), uri: uri.into(), listening })
    }

    /// The resource.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits until the resource, or one below it, has changed, and returns which. `None` when the participant left or started over, or
    /// when the stay in the room is over: it has then forgotten that anybody wanted to know.
    pub async fn changed(&mut self) -> Option<String> {
        loop {
            let event = match &mut self.listening {
                Some(listening) => tokio::select! { biased;
                    event = self.events.next() => event?,
                    progress = listening.progress() => match progress {
                        Some(_) => continue,
                        None => return None,
                    },
                },
                None => self.events.next().await?,
            };
            let Event::Envelope(envelope) = event else { return None };
            let presence = envelope.presence().filter(|presence| presence.event != PresenceEvent::Status);
            if presence.is_some_and(|presence| presence.participant.id == self.peer) {
                return None;
            }
            if let Some(uri) = self.update(&envelope) {
                return Some(uri);
            }
        }
    }

    fn update(&self, envelope: &Envelope) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Params {
            uri: String,
        }
        if *envelope.from() != self.peer || !envelope.concerns(&self.me) {
            return None;
        }
        let Some(Message::Notification { method }) = envelope.message() else { return None };
        if &**method != "notifications/resources/updated" {
            return None;
        }
        let Params { uri } = serde_json::from_str(envelope.params()?).ok()?;
        let below = |rest: &str| self.uri.ends_with('/') || rest.starts_with(['/', '?', '#']);
        (uri == self.uri || uri.strip_prefix(&self.uri).is_some_and(below)).then_some(uri)
    }
}

/// Listens for changes of a resource: an open request, which ends the subscription when it is dropped. Returns when the participant
/// has acknowledged it.
async fn listen(peer: &Peer, uri: &str, events: &mut Events) -> Result<Call, CallError> {
    let params = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    let options = RequestOptions { timeout: Duration::MAX, progress: false, ..RequestOptions::default() };
    let mut call = peer.start("subscriptions/listen", &params, options).await?;
    let id = call.rpc_id().to_json();
    let acknowledged = async {
        loop {
            tokio::select! { biased;
                event = events.next() => match event {
                    Some(Event::Envelope(envelope)) => {
                        let method = match envelope.message() {
                            Some(Message::Notification { method }) => &**method,
                            _ => continue,
                        };
                        let meant = *envelope.from() == *peer.id() && method == "notifications/subscriptions/acknowledged";
                        let params = envelope.params().and_then(|params| serde_json::from_str::<&RawValue>(params).ok());
                        let named = params.and_then(meta::subscription);
                        if meant && named.is_some_and(|named| named.get() == id) {
                            return true;
                        }
                    }
                    Some(_) => {}
                    None => return false,
                },
                progress = call.progress() => if progress.is_none() { return false },
            }
        }
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acknowledged).await {
        Ok(true) => Ok(call),
        Ok(false) => call.result().await.and(Err(ResultError::NotSubscribed.into())),
        Err(_) => Err(CallError::TimedOut),
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("peer", &self.peer).field("uri", &self.uri).finish_non_exhaustive()
    }
}
