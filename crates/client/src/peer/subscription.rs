//! Hearing that a resource has changed.

use std::fmt;

use salon_protocol::{Envelope, Message, ParticipantId};
use serde_json::json;

use super::Peer;
use crate::{CallError, Event, Events};

/// Tells when a resource of a participant changes. Made by [`Peer::subscribe`].
///
/// Dropping it only stops listening: others in this program may listen too, and the participant knows them as one. Use
/// [`Peer::unsubscribe`] when nobody does any more.
pub struct Subscription {
    events: Events,
    me: ParticipantId,
    peer: ParticipantId,
    uri: String,
}

impl Subscription {
    pub(super) async fn begin(peer: &Peer, uri: &str) -> Result<Self, CallError> {
        // The handshake first, so that what is heard from here on belongs to this meeting.
        peer.server().await?;
        let events = peer.room().events();
        peer.request("resources/subscribe", &json!({ "uri": uri })).await?;
        Ok(Self { events, me: peer.room().id().clone(), peer: peer.id().clone(), uri: uri.into() })
    }

    /// The resource.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits until the resource, or one below it, has changed, and tells which. `None` when the participant left or began anew, or
    /// when the stay in the room is over: it has then forgotten that anybody wanted to know.
    pub async fn changed(&mut self) -> Option<String> {
        loop {
            let Event::Envelope(envelope) = self.events.next().await? else { return None };
            if envelope.presence().is_some_and(|presence| presence.participant.id == self.peer) {
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

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("peer", &self.peer).field("uri", &self.uri).finish_non_exhaustive()
    }
}
