//! What a room's handles and the task behind it share.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use salon_protocol::{
    Code, Envelope, EnvelopeId, Kind, Message, Participant, ParticipantId, Refusal, SESSION_ENDED_METHOD, SessionId,
    TopicName,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::call::CallWaiter;
use crate::connection::{Order, OrderPurpose};
use crate::entering::OpenedConnection;
use crate::ghosts::GhostTable;
use crate::peer::Directory;
use crate::ring::{EventRing, RingCursor};
use crate::room::notification;
use crate::{CallError, Client, End, Event, LostConnection, Outgoing, compose};

/// How many cancellations may wait to be sent.
const MAX_CANCELLATIONS: usize = 1024;

/// How many participants are told of a session's end: as many as one envelope may name.
const MAX_KEEPERS: usize = 256;

/// How the connection is doing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Link {
    /// Not connected at the moment.
    Connecting {
        /// Which attempt comes next, the first being 1.
        attempt: u32,
        /// How long until then.
        retry_in: Duration,
        /// Why it is needed.
        why: LostConnection,
    },
    /// Connected.
    Live,
    /// Connected, but the gateway can store nothing for now. It passes by itself: nothing need be done.
    Stalled {
        /// The gateway's own sentence.
        why: Arc<str>,
    },
    /// Over for good.
    Ended(End),
}

/// What the room's handles and its task share.
pub(crate) struct RoomShared {
    pub(crate) client: Client,
    pub(crate) topic: TopicName,
    pub(crate) id: ParticipantId,
    /// Tells this stay from others of the same participant.
    pub(crate) session: SessionId,
    /// Participants that keep something for this session: their responses name it.
    pub(crate) session_keepers: Mutex<BTreeSet<ParticipantId>>,
    pub(crate) directed: bool,
    pub(crate) directory: Directory,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) leave: CancellationToken,
    /// Notifications to everybody that wait, one for each method.
    pub(crate) announcements: Mutex<BTreeSet<&'static str>>,
    /// Calls to be withdrawn.
    cancellations: Mutex<VecDeque<Order>>,
    /// Either has something.
    pub(crate) soon: Notify,
    pub(crate) ring: Arc<EventRing>,
    /// The last envelope received. Changes together with the ring.
    last: Mutex<Option<EnvelopeId>>,
    /// The longest envelope the gateway takes, in bytes; 0 where it is unknown.
    message_limit: AtomicUsize,
    answer_limit: AtomicUsize,
    pub(crate) roster: Mutex<HashMap<ParticipantId, Participant>>,
    pub(crate) calls: Mutex<HashMap<EnvelopeId, CallWaiter>>,
    /// Those that this participant speaks for, if it is a bridge.
    pub(crate) ghosts: GhostTable,
}

impl RoomShared {
    pub(crate) fn new(
        client: Client,
        topic: TopicName,
        directed: bool,
        directory: Directory,
        opened: &OpenedConnection,
    ) -> Self {
        let shared = Self {
            client,
            topic,
            id: opened.id.clone(),
            session: SessionId::new(format!("{:016x}", rand::random::<u64>())).expect("hexadecimal digits are allowed"),
            session_keepers: Mutex::default(),
            directed,
            directory,
            link: watch::Sender::new(Link::Live),
            leave: CancellationToken::new(),
            announcements: Mutex::default(),
            cancellations: Mutex::default(),
            soon: Notify::new(),
            ring: EventRing::new(),
            last: Mutex::new(opened.last.clone()),
            message_limit: AtomicUsize::new(0),
            answer_limit: AtomicUsize::new(0),
            roster: Mutex::default(),
            calls: Mutex::default(),
            ghosts: GhostTable::default(),
        };
        shared.welcomed(opened);
        shared
    }

    /// Takes note of what a connection began with.
    pub(crate) fn welcomed(&self, opened: &OpenedConnection) {
        self.message_limit.store(opened.message_limit.unwrap_or(0), Ordering::Relaxed);
        self.answer_limit.store(opened.answer_limit.unwrap_or(0), Ordering::Relaxed);
        self.ghosts.set_namespaces(&opened.acts_for);
        *self.roster.lock() = opened.roster.iter().map(|one| (one.id.clone(), one.clone())).collect();
    }

    /// Whether an envelope is for everybody, or for this session of this participant.
    pub(crate) fn is_for_us(&self, envelope: &Envelope) -> bool {
        envelope.concerns(&self.id) && envelope.concerns_session(&self.session)
    }

    /// Whether an id is this participant's, or that of a ghost of its own.
    pub(crate) fn is_own(&self, id: &ParticipantId) -> bool {
        *id == self.id || self.ghosts.may_be(id)
    }

    /// The refusal of what the gateway does not take for its length.
    pub(crate) fn too_large(&self, order: &Order) -> Option<Refusal> {
        let length = order.text.len();
        let message = self.message_limit().filter(|limit| length > *limit)?;
        // Only what is longer than most messages is looked at twice.
        let answer = self.answer_limit.load(Ordering::Relaxed);
        let is_answer = || {
            let envelope = Envelope::restore(order.text.as_str()).ok()?;
            matches!(envelope.message(), Some(Message::Response { .. })).then_some(())
        };
        let (limit, setting) = match answer > message && is_answer().is_some() {
            true => (answer, "limits.answer"),
            false => (message, "limits.message"),
        };
        let told = format!("the message has {length} bytes; the limit is {limit} (`{setting}`)");
        (length > limit).then(|| Refusal::new(Code::TooLarge, told).regarding(Some(order.id.clone())))
    }

    pub(crate) fn message_limit(&self) -> Option<usize> {
        Some(self.message_limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    pub(crate) fn announce(&self, method: &'static str) {
        self.announcements.lock().insert(method);
        self.soon.notify_one();
    }

    /// Withdraws a call as soon as that is possible. When too many wait for that already, the callee works in vain.
    pub(crate) fn withdraw(&self, order: Order) {
        let mut waiting = self.cancellations.lock();
        if waiting.len() < MAX_CANCELLATIONS {
            waiting.push_back(order);
            self.soon.notify_one();
        }
    }

    /// What is to be sent beside what was ordered.
    pub(crate) fn take_soon(&self) -> Vec<Order> {
        let mut orders: Vec<_> = self.cancellations.lock().drain(..).collect();
        let methods = std::mem::take(&mut *self.announcements.lock());
        orders.extend(methods.into_iter().map(|method| {
            let payload = notification(method, &serde_json::json!({}));
            let (id, text) = compose(&self.id, &Outgoing::new(payload));
            Order { id, text, purpose: OrderPurpose::Notice }
        }));
        orders
    }

    /// What tells those that keep something for this session that it has ended. Its participant may stay, by another connection.
    pub(crate) fn session_ended(&self) -> Option<Order> {
        let keepers = std::mem::take(&mut *self.session_keepers.lock());
        let keepers: Vec<_> = keepers.into_iter().filter(|keeper| self.is_present(keeper)).take(MAX_KEEPERS).collect();
        if keepers.is_empty() {
            return None;
        }
        let payload = notification(SESSION_ENDED_METHOD, &serde_json::json!({}));
        let from_session = Some(self.session.clone());
        let (id, text) = compose(&self.id, &Outgoing { from_session, ..Outgoing::new(payload).to(keepers) });
        Some(Order { id, text, purpose: OrderPurpose::Notice })
    }

    /// A new listener's place, and the envelope it begins after.
    pub(crate) fn listen(&self) -> (RingCursor, Option<EnvelopeId>) {
        let last = self.last.lock();
        (self.ring.listen(), last.clone())
    }

    pub(crate) fn roster(&self) -> Vec<Participant> {
        let mut roster: Vec<_> = self.roster.lock().values().cloned().collect();
        roster.sort_by(|a, b| a.id.cmp(&b.id));
        roster
    }

    pub(crate) fn is_present(&self, id: &ParticipantId) -> bool {
        self.roster.lock().contains_key(id)
    }

    pub(crate) fn expect_answer(&self, request: EnvelopeId, waiting: CallWaiter) {
        self.calls.lock().insert(request, waiting);
    }

    /// Whether somebody still waited.
    pub(crate) fn expect_no_answer(&self, request: &EnvelopeId) -> bool {
        self.calls.lock().remove(request).is_some()
    }

    pub(crate) fn show(&self, event: Event) {
        let mut last = self.last.lock();
        match &event {
            Event::Envelope(envelope) if envelope.kind() != Kind::System => *last = Some(envelope.id().clone()),
            _ => {}
        }
        self.ring.push(event);
    }

    pub(crate) fn last(&self) -> Option<EnvelopeId> {
        self.last.lock().clone()
    }

    /// Something happened that cannot be had any more: no answer can be relied on, and nothing known of the others.
    pub(crate) fn missed(&self) {
        self.directory.forget_all();
        self.fail_calls(&CallError::Missed);
        self.show(Event::Gap);
    }

    /// Starts over right after an envelope.
    pub(crate) fn start_over(&self, after: Option<EnvelopeId>) {
        self.missed();
        *self.last.lock() = after;
    }

    /// Whether somebody still wants what an order is for.
    pub(crate) fn is_still_awaited(&self, order: &Order) -> bool {
        !matches!(order.purpose, OrderPurpose::Call) || self.calls.lock().contains_key(&order.id)
    }

    pub(crate) fn fail_calls(&self, why: &CallError) {
        for (_, waiting) in self.calls.lock().drain() {
            waiting.fail(why.clone());
        }
    }
}
