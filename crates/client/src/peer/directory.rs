//! What is known of the others, and until when.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use salon_mcp::input;
use salon_mcp::listing::Listing;
use salon_protocol::{Envelope, Kind, Message, ParticipantId, PresenceEvent};
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};

use super::catalogue::CachedList;
use super::exchange::{Handshake, introduce};
use crate::mcp::{LogLevel, Prompt, Resource, ResourceTemplate, Tool, empty_object};
use crate::{CallError, Discovery, Room, Service};

/// The participants with a handshake. Every envelope passes through [`observe`](Self::observe), in order.
pub(crate) struct Directory {
    declares: Box<RawValue>,
    pub(crate) discovery: Discovery,
    /// Handshakes under way at once where no participant was named.
    pub(crate) at_once: usize,
    pub(crate) greetings: Semaphore,
    peers: Mutex<HashMap<ParticipantId, Arc<PeerRecord>>>,
    stand_ins: Mutex<HashMap<ParticipantId, Arc<dyn Service>>>,
    /// The room's own service, which its dispatcher keeps; nothing where requests are answered by hand.
    service: Option<Weak<dyn Service>>,
}

impl Directory {
    pub(crate) fn new(service: Option<&Arc<dyn Service>>, discovery: Discovery, at_once: usize) -> Self {
        // More than the semaphore can count is as good as any number.
        let at_once = at_once.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            declares: service.map_or_else(empty_object, |service| service.declares()),
            discovery,
            at_once,
            greetings: Semaphore::new(at_once),
            peers: Mutex::default(),
            stand_ins: Mutex::default(),
            service: service.map(Arc::downgrade),
        }
    }

    /// What this participant, as an MCP client, lets those it calls ask of it.
    pub(super) fn declares(&self) -> &RawValue {
        &self.declares
    }

    /// Who answers what a participant asks of its caller.
    pub(super) fn answering(&self, peer: &ParticipantId, method: &str) -> Option<Arc<dyn Service>> {
        self.stand_in(peer, method).or_else(|| self.service.as_ref()?.upgrade())
    }

    /// Who answers what a participant asks of its caller, where that is not the room's own service.
    pub(crate) fn stand_in(&self, peer: &ParticipantId, method: &str) -> Option<Arc<dyn Service>> {
        matches!(method, input::SAMPLING | input::ELICITATION | input::ROOTS)
            .then(|| self.stand_ins.lock().get(peer).cloned())
            .flatten()
    }

    /// Lets somebody else answer what a participant asks of its caller; the latest does.
    #[cfg(feature = "rmcp")]
    pub(crate) fn allow_stand_in(&self, peer: &ParticipantId, service: Arc<dyn Service>) {
        self.stand_ins.lock().insert(peer.clone(), service);
    }

    /// Ends that, unless somebody has come after.
    #[cfg(feature = "rmcp")]
    pub(crate) fn stand_down(&self, peer: &ParticipantId, service: &Arc<dyn Service>) {
        let mut stand_ins = self.stand_ins.lock();
        if stand_ins.get(peer).is_some_and(|current| Arc::ptr_eq(current, service)) {
            stand_ins.remove(peer);
        }
    }

    /// Takes note of what an envelope changes. Called for each, in order.
    pub(crate) fn observe(&self, envelope: &Envelope) {
        match envelope.kind() {
            Kind::Presence => {
                let Some(presence) = envelope.presence() else { return };
                // A join of a participant that is here means that it starts over and remembers nothing.
                if matches!(presence.event, PresenceEvent::Join | PresenceEvent::Leave) {
                    self.peers().remove(&presence.participant.id);
                }
            }
            Kind::Mcp => {
                let Some(Message::Notification { method }) = envelope.message() else { return };
                if let Some(known) = self.peers().get(envelope.from()).filter(|known| envelope.concerns(&known.me)) {
                    known.hear(method);
                }
            }
            _ => {}
        }
    }

    /// Forgets everybody, because they have forgotten this participant or envelopes were missed.
    pub(crate) fn forget_all(&self) {
        self.peers().clear();
    }

    /// Those with whom hands were shaken.
    pub(crate) fn greeted(&self) -> Vec<ParticipantId> {
        let peers = self.peers();
        peers.iter().filter(|(_, known)| known.is_greeted()).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn of(&self, me: &ParticipantId, peer: &ParticipantId) -> Arc<PeerRecord> {
        let mut peers = self.peers();
        peers.entry(peer.clone()).or_insert_with(|| Arc::new(PeerRecord::new(me.clone()))).clone()
    }

    /// Forgets somebody who turned out not to be here, so that names nobody has do not pile up.
    fn forget(&self, peer: &ParticipantId, known: &Arc<PeerRecord>) {
        let mut peers = self.peers();
        if peers.get(peer).is_some_and(|current| Arc::ptr_eq(current, known)) {
            peers.remove(peer);
        }
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<ParticipantId, Arc<PeerRecord>>> {
        self.peers.lock()
    }
}

/// Nothing that can panic runs while one of these is held.
impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("met", &self.peers().keys()).finish_non_exhaustive()
    }
}

type HandshakeOutcome = Result<Handshake, CallError>;

/// One of the others, from a handshake to the moment it leaves or starts over.
pub(crate) struct PeerRecord {
    me: ParticipantId,
    /// The handshake that is under way or was made. Calls made while it is under way wait for the same.
    greeting: Mutex<Option<watch::Receiver<Option<HandshakeOutcome>>>>,
    pub(super) tools: CachedList<Tool>,
    pub(super) resources: CachedList<Resource>,
    pub(super) templates: CachedList<ResourceTemplate>,
    pub(super) prompts: CachedList<Prompt>,
    /// The log lines that requests of MCP 2026-07-28 ask for.
    pub(super) log_level: Mutex<Option<LogLevel>>,
}

impl PeerRecord {
    fn new(me: ParticipantId) -> Self {
        Self {
            me,
            greeting: Mutex::default(),
            tools: CachedList::default(),
            resources: CachedList::default(),
            templates: CachedList::default(),
            prompts: CachedList::default(),
            log_level: Mutex::default(),
        }
    }

    fn hear(&self, method: &str) {
        for listing in Listing::ALL.into_iter().filter(|listing| listing.changed() == method) {
            match listing {
                Listing::Tools => self.tools.changed(),
                Listing::Prompts => self.prompts.changed(),
                Listing::Resources => self.resources.changed(),
                Listing::Templates => self.templates.changed(),
            }
        }
    }

    fn greeting(&self) -> MutexGuard<'_, Option<watch::Receiver<Option<HandshakeOutcome>>>> {
        self.greeting.lock()
    }

    pub(super) fn is_greeted(&self) -> bool {
        self.greeting().as_ref().is_some_and(|greeting| matches!(&*greeting.borrow(), Some(Ok(_))))
    }

    /// The participant's answer to the handshake, which is started unless it was. A failed one is started again.
    pub(super) async fn handshake(self: &Arc<Self>, room: &Room, peer: &ParticipantId) -> HandshakeOutcome {
        let mut greeting = {
            let mut greeting = self.greeting();
            match &*greeting {
                Some(begun) if is_of_use(begun) => begun.clone(),
                _ => greeting.insert(self.clone().begin(room.lend(), peer.clone())).clone(),
            }
        };
        match greeting.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            // Its task was dropped, and so is the runtime.
            _ => Err(CallError::Cancelled),
        }
    }

    /// Performs the handshake in a task of its own: MCP lets no client cancel it, and the task that wanted it first may stop waiting. It
    /// ends within [`HANDSHAKE_TIMEOUT`](super::HANDSHAKE_TIMEOUT).
    fn begin(self: Arc<Self>, room: Room, peer: ParticipantId) -> watch::Receiver<Option<HandshakeOutcome>> {
        let (tell, told) = watch::channel(None);
        tokio::spawn(async move {
            let outcome = introduce(&room, &peer).await;
            if let Err(error) = &outcome {
                tracing::debug!(%peer, %error, "peer: MCP handshake failed, retrying at the next request");
                room.shared().directory.forget(&peer, &self);
            }
            tell.send_replace(Some(outcome));
        });
        told
    }
}

/// Whether a handshake was made or is under way.
fn is_of_use(greeting: &watch::Receiver<Option<HandshakeOutcome>>) -> bool {
    match &*greeting.borrow() {
        Some(outcome) => outcome.is_ok(),
        None => greeting.has_changed().is_ok(),
    }
}
