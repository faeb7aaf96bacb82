//! What a room's handles and the task behind it share.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use salon_protocol::{Code, EnvelopeId, Kind, Participant, ParticipantId, Refusal, TopicName};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::call::Waiting;
use crate::connection::Order;
use crate::entering::Opened;
use crate::peer::Directory;
use crate::room::notification;
use crate::{CallError, Client, End, Event, Outgoing, compose};

/// How many envelopes a listener may be behind before it reads them from the history.
const RING: usize = 1024;

/// How the connection is doing.
#[derive(Debug, Clone)]
pub enum Link {
    /// Not connected at the moment.
    Connecting {
        /// Which attempt comes next, the first being 1.
        attempt: u32,
        /// How long until then.
        retry_in: Duration,
        /// Why it is needed.
        why: Arc<str>,
    },
    /// Connected.
    Live,
    /// Over for good.
    Ended(End),
}

/// What the room's handles and its task share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) topic: TopicName,
    pub(crate) id: ParticipantId,
    pub(crate) directed: bool,
    pub(crate) directory: Directory,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) leave: CancellationToken,
    /// What everybody is to be told, once for each method.
    pub(crate) announcements: Mutex<BTreeSet<&'static str>>,
    pub(crate) announced: Notify,
    pub(crate) stage: Mutex<Stage>,
    /// The longest envelope the gateway takes, in bytes; 0 where it has not said.
    message_limit: AtomicUsize,
    pub(crate) roster: Mutex<HashMap<ParticipantId, Participant>>,
    pub(crate) calls: Mutex<HashMap<EnvelopeId, Waiting>>,
}

/// Where listeners stand. The ring is taken away when the stay is over.
pub(crate) struct Stage {
    pub(crate) ring: Option<broadcast::Sender<Event>>,
    pub(crate) last: Option<EnvelopeId>,
}

/// A poisoned lock is one whose holder panicked in between two plain assignments: what it guards is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(client: Client, topic: TopicName, directed: bool, directory: Directory, opened: &Opened) -> Self {
        let shared = Self {
            client,
            topic,
            id: opened.id.clone(),
            directed,
            directory,
            link: watch::Sender::new(Link::Live),
            leave: CancellationToken::new(),
            announcements: Mutex::default(),
            announced: Notify::new(),
            stage: Mutex::new(Stage { ring: Some(broadcast::Sender::new(RING)), last: opened.last.clone() }),
            message_limit: AtomicUsize::new(0),
            roster: Mutex::default(),
            calls: Mutex::default(),
        };
        shared.welcomed(opened);
        shared
    }

    /// Takes note of what a connection began with.
    pub(crate) fn welcomed(&self, opened: &Opened) {
        self.message_limit.store(opened.message_limit.unwrap_or(0), Ordering::Relaxed);
        *lock(&self.roster) = opened.roster.iter().map(|one| (one.id.clone(), one.clone())).collect();
    }

    /// The refusal of what the gateway does not take for its length.
    pub(crate) fn too_large(&self, order: &Order) -> Option<Refusal> {
        let limit = self.message_limit().filter(|limit| order.text.len() > *limit)?;
        let told = format!("the message has {} bytes; the limit is {limit}", order.text.len());
        Some(Refusal::new(Code::TooLarge, told).regarding(Some(order.id.clone())))
    }

    pub(crate) fn message_limit(&self) -> Option<usize> {
        Some(self.message_limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    pub(crate) fn announce(&self, method: &'static str) {
        lock(&self.announcements).insert(method);
        self.announced.notify_one();
    }

    pub(crate) fn take_announcements(&self) -> Vec<Order> {
        let methods = std::mem::take(&mut *lock(&self.announcements));
        let orders = methods.into_iter().map(|method| {
            let payload = notification(method, &serde_json::json!({}));
            let (id, text) = compose(&self.id, &Outgoing { to: Vec::new(), correlation: None, payload });
            Order { id, text, heard: None }
        });
        orders.collect()
    }

    /// A new listener, and the envelope it begins after; no listener when the stay is over.
    pub(crate) fn listen(&self) -> (Option<broadcast::Receiver<Event>>, Option<EnvelopeId>) {
        let stage = lock(&self.stage);
        (stage.ring.as_ref().map(broadcast::Sender::subscribe), stage.last.clone())
    }

    pub(crate) fn roster(&self) -> Vec<Participant> {
        let mut roster: Vec<_> = lock(&self.roster).values().cloned().collect();
        roster.sort_by(|a, b| a.id.cmp(&b.id));
        roster
    }

    pub(crate) fn is_present(&self, id: &ParticipantId) -> bool {
        lock(&self.roster).contains_key(id)
    }

    pub(crate) fn expect_answer(&self, request: EnvelopeId, waiting: Waiting) {
        lock(&self.calls).insert(request, waiting);
    }

    /// Whether somebody still waited.
    pub(crate) fn expect_no_answer(&self, request: &EnvelopeId) -> bool {
        lock(&self.calls).remove(request).is_some()
    }

    pub(crate) fn show(&self, event: Event) {
        let mut stage = lock(&self.stage);
        if let Event::Envelope(envelope) = &event
            && envelope.kind() != Kind::System
        {
            stage.last = Some(envelope.id().clone());
        }
        if let Some(ring) = &stage.ring {
            // Without a listener there is nobody to tell.
            let _ = ring.send(event);
        }
    }

    pub(crate) fn last(&self) -> Option<EnvelopeId> {
        lock(&self.stage).last.clone()
    }

    pub(crate) fn fail_calls(&self, why: &CallError) {
        for (_, waiting) in lock(&self.calls).drain() {
            waiting.fail(why.clone());
        }
    }
}
