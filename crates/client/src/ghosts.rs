//! The ghosts of a bridge: participants that it enters and speaks for, over its own connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use salon_protocol::{
    Compose, Envelope, EnvelopeId, Kind, Participant, ParticipantId, ParticipantKind, Presence, PresenceEvent,
};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::connection::{Order, OrderPurpose};
use crate::room::now;
use crate::{Call, CallError, Outgoing, PublishError, RequestOptions, Room};

/// A participant that a bridge speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ghost {
    /// Its id, in a namespace of the bridge's token (`acts_for`).
    pub id: ParticipantId,
    /// A name for people to read: at most 256 characters, none of them a control character.
    pub name: Option<String>,
    /// What it is: one of the kinds of the bridge's token (`ghost_kinds`), the first of them unless given.
    pub kind: Option<ParticipantKind>,
}

impl Ghost {
    /// A ghost without a name.
    pub fn new(id: ParticipantId) -> Self {
        Self { id, name: None, kind: None }
    }

    /// A name for people to read.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What it is.
    #[must_use]
    pub fn kind(mut self, kind: ParticipantKind) -> Self {
        self.kind = Some(kind);
        self
    }
}

/// The ghosts of one stay.
#[derive(Default)]
pub(crate) struct GhostTable(Mutex<GhostRecords>);

#[derive(Default)]
struct GhostRecords {
    /// What the ids of ghosts begin with, by the newest welcome.
    prefixes: Vec<String>,
    entered: BTreeMap<ParticipantId, GhostRecord>,
}

struct GhostRecord {
    ghost: Ghost,
    /// Whether it is in the room, as far as is known: a moderator may have removed it.
    is_present: bool,
}

impl GhostTable {
    /// Takes note of the namespaces that a welcome names.
    pub(crate) fn set_namespaces(&self, namespaces: &[String]) {
        let prefixes = namespaces.iter().map(|namespace| namespace.trim_end_matches('*').to_owned());
        self.0.lock().prefixes = prefixes.collect();
    }

    /// Whether an id is one that this participant may speak for.
    pub(crate) fn may_be(&self, id: &ParticipantId) -> bool {
        self.0.lock().prefixes.iter().any(|prefix| id.as_str().starts_with(prefix))
    }

    /// Whether a ghost was entered and is here.
    pub(crate) fn has(&self, id: &ParticipantId) -> bool {
        self.0.lock().entered.get(id).is_some_and(|record| record.is_present)
    }

    fn entered(&self, ghost: Ghost) {
        self.0.lock().entered.insert(ghost.id.clone(), GhostRecord { ghost, is_present: true });
    }

    pub(crate) fn forget(&self, id: &ParticipantId) {
        self.0.lock().entered.remove(id);
    }

    /// Hears that somebody joined or left. What a ghost has left for a reason of the room's is not entered again by itself.
    pub(crate) fn hear(&self, presence: &Presence) {
        let is_change = matches!(presence.event, PresenceEvent::Join | PresenceEvent::Leave);
        if is_change && let Some(record) = self.0.lock().entered.get_mut(&presence.participant.id) {
            record.is_present = presence.event == PresenceEvent::Join;
        }
    }

    pub(crate) fn present(&self) -> Vec<Ghost> {
        let records = self.0.lock();
        records.entered.values().filter(|record| record.is_present).map(|record| record.ghost.clone()).collect()
    }
}

/// A message about a ghost to the gateway, which is not stored.
#[derive(Serialize)]
struct GhostMessage<'a> {
    event: &'static str,
    id: &'a ParticipantId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<ParticipantKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl GhostMessage<'_> {
    fn order(&self, from: &ParticipantId, purpose: OrderPurpose) -> Order {
        let id = EnvelopeId::new(uuid::Uuid::now_v7().to_string()).expect("a UUID is an envelope id");
        let compose = Compose {
            id: id.as_str(),
            ts: now(),
            from,
            to: &[ParticipantId::host()],
            kind: Kind::System,
            correlation_id: None,
            payload: self,
        };
        let text = compose.text();
        Order { id, text, purpose }
    }
}

/// Enters a ghost.
pub(crate) fn enter(bridge: &ParticipantId, ghost: &Ghost, purpose: OrderPurpose) -> Order {
    let Ghost { id, name, kind } = ghost;
    let message = GhostMessage { event: "ghost.enter", id, name: name.as_deref(), kind: *kind, reason: None };
    message.order(bridge, purpose)
}

/// For bridges: participants whose tokens have `acts_for`.
impl Room {
    /// Enters a ghost, and returns when it is in the room. One that is here already stays; another name than before counts from now on.
    ///
    /// The ghost stays until [`leave_ghost`](Self::leave_ghost), or until this participant leaves. After a lost connection it is entered again
    /// before anything else is sent; if that takes less than ten seconds, nobody has seen it leave.
    pub async fn enter_ghost(&self, ghost: Ghost) -> Result<(), PublishError> {
        let (told, answer) = oneshot::channel();
        self.order(enter(self.id(), &ghost, OrderPurpose::Publish(told))).await?;
        answer.await.unwrap_or_else(|_| Err(PublishError::Ended(self.end())))?;
        self.shared().ghosts.entered(ghost);
        Ok(())
    }

    /// Lets a ghost leave, with a reason of at most 256 characters that everybody sees. Returns when the gateway knows; the leave follows. A
    /// ghost that is not here is no error.
    pub async fn leave_ghost(&self, ghost: &ParticipantId, reason: Option<&str>) -> Result<(), PublishError> {
        self.shared().ghosts.forget(ghost);
        let message = GhostMessage { event: "ghost.leave", id: ghost, name: None, kind: None, reason };
        let (told, answer) = oneshot::channel();
        self.order(message.order(self.id(), OrderPurpose::Publish(told))).await?;
        answer.await.unwrap_or_else(|_| Err(PublishError::Ended(self.end())))?;
        Ok(())
    }

    /// The ghosts that this stay has entered and that are here.
    pub fn ghosts(&self) -> Vec<Ghost> {
        self.shared().ghosts.present()
    }

    /// Publishes in a ghost's name, as [`publish`](Self::publish) does in one's own.
    pub async fn publish_as(&self, ghost: &ParticipantId, outgoing: Outgoing) -> Result<Arc<Envelope>, PublishError> {
        self.publish_from(ghost, outgoing).await
    }

    /// Sends a request in a ghost's name, as [`request_with`](Self::request_with) does in one's own. The bridge's token must let its ghosts call
    /// others (`ghosts_call`).
    pub async fn request_as(
        &self,
        ghost: &ParticipantId,
        to: &ParticipantId,
        method: &str,
        params: &(impl Serialize + ?Sized),
        options: RequestOptions,
    ) -> Result<Call, CallError> {
        self.request_from(ghost, to, method, params, options).await
    }
}

/// Whether somebody is a ghost, which offers nothing: nobody performs a handshake with it by itself.
pub(crate) fn is_ghost(participant: &Participant) -> bool {
    participant.via.is_some()
}
