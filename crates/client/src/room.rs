//! A stay in a room.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use salon_protocol::{
    CHAT_EDIT_METHOD, CHAT_METHOD, CHAT_RETRACT_METHOD, Compose, Envelope, EnvelopeId, Kind, Members, Participant,
    ParticipantId, SessionId, Sessions, Timestamp, TopicName, rpc,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::connection::{MAX_ORDERS, Order, OrderPurpose, RoomConnection};
use crate::entering::{Entering, OpenedConnection};
use crate::peer::Directory;
use crate::service::Dispatcher;
use crate::shared::{Link, RoomShared};
use crate::{Call, CallError, Client, DEFAULT_TIMEOUT, End, Events, HistoryQuery, Page, PublishError, RestError};

/// Something to publish.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outgoing {
    /// Whom it names; nobody means everybody.
    pub to: Vec<ParticipantId>,
    /// Which session of the one participant it names, where that participant may have several.
    pub to_session: Option<SessionId>,
    /// The envelope it replies to.
    pub correlation: Option<EnvelopeId>,
    /// A JSON-RPC message.
    pub payload: Box<RawValue>,
    /// The session that sends it, where its recipient may keep something for that session.
    pub(crate) from_session: Option<SessionId>,
    /// The envelope's id; a fresh one unless given.
    pub(crate) id: Option<EnvelopeId>,
    /// The envelope's time; now unless given.
    pub(crate) ts: Option<Timestamp>,
}

impl Outgoing {
    /// A JSON-RPC message to everybody.
    pub fn new(payload: Box<RawValue>) -> Self {
        Self { to: Vec::new(), to_session: None, correlation: None, payload, from_session: None, id: None, ts: None }
    }

    /// A chat message to everybody.
    pub fn chat(text: &str) -> Self {
        Self::chat_in("plain", text)
    }

    /// A chat message to everybody, in Markdown.
    pub fn chat_markdown(text: &str) -> Self {
        Self::chat_in("markdown", text)
    }

    fn chat_in(format: &str, text: &str) -> Self {
        Self::new(notification(CHAT_METHOD, &serde_json::json!({ "text": text, "format": format })))
    }

    /// Sets the envelope's id. Whatever is published again under the same id with the same [`ts`](Self::ts) and the same content is stored once,
    /// also by another process; with other content it is refused (`id_conflict`).
    #[must_use]
    pub fn id(mut self, id: EnvelopeId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the envelope's time.
    #[must_use]
    pub fn ts(mut self, ts: Timestamp) -> Self {
        self.ts = Some(ts);
        self
    }

    /// Names those it is for.
    #[must_use]
    pub fn to(mut self, participants: impl IntoIterator<Item = ParticipantId>) -> Self {
        self.to = participants.into_iter().collect();
        self
    }

    /// Names the session of the one participant that it is for: the `from_session` of what caused it.
    #[must_use]
    pub fn to_session(mut self, session: impl Into<Option<SessionId>>) -> Self {
        self.to_session = session.into();
        self
    }

    /// Names the envelope it replies to, if it does.
    #[must_use]
    pub fn correlation(mut self, envelope: impl Into<Option<EnvelopeId>>) -> Self {
        self.correlation = envelope.into();
        self
    }
}

/// How a request is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequestOptions {
    /// How long to wait without hearing anything; progress renews it.
    pub timeout: Duration,
    /// The envelope that caused this request.
    pub correlation: Option<EnvelopeId>,
    /// The session of the participant that is asked, where it may have several.
    pub to_session: Option<SessionId>,
    /// Whether to ask for reports of progress.
    pub progress: bool,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self { timeout: DEFAULT_TIMEOUT, correlation: None, to_session: None, progress: true }
    }
}

impl RequestOptions {
    /// 60 s without hearing anything, and reports of progress.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long to wait without hearing anything.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Names the envelope that caused this request.
    #[must_use]
    pub fn correlation(mut self, envelope: EnvelopeId) -> Self {
        self.correlation = Some(envelope);
        self
    }

    /// Names the session that is asked: the `from_session` of the request that caused this one.
    #[must_use]
    pub fn to_session(mut self, session: impl Into<Option<SessionId>>) -> Self {
        self.to_session = session.into();
        self
    }

    /// Whether to ask for reports of progress.
    #[must_use]
    pub fn progress(mut self, progress: bool) -> Self {
        self.progress = progress;
        self
    }
}

/// A stay in a room. Cheap to clone; the participant leaves when the last clone is dropped, or with [`leave`](Self::leave).
///
/// A lost connection is made good in the background: everything missed in between is delivered, in order and once, and what was being
/// published is published once.
#[derive(Clone)]
pub struct Room {
    inner: Arc<RoomInner>,
    /// What keeps the participant here. Handles that were lent to the library's own tasks and to requests have none.
    _stay: Option<Arc<LeaveGuard>>,
    way_back: Weak<LeaveGuard>,
}

/// What all clones of a [`Room`] share.
pub(crate) struct RoomInner {
    shared: Arc<RoomShared>,
    orders: mpsc::Sender<Order>,
    /// The last request id; MCP has none twice.
    requests: AtomicU64,
}

/// A way back to a room that does not keep the participant in it.
#[derive(Clone)]
pub struct RoomRef {
    inner: Weak<RoomInner>,
    stay: Weak<LeaveGuard>,
}

impl RoomRef {
    /// The room, if the participant still holds it.
    pub fn upgrade(&self) -> Option<Room> {
        let stay = self.stay.upgrade()?;
        Some(Room { inner: self.inner.upgrade()?, way_back: Arc::downgrade(&stay), _stay: Some(stay) })
    }

    /// Whether the participant still holds the room.
    pub fn is_open(&self) -> bool {
        self.stay.strong_count() > 0
    }

    /// The room, for a while: holding it does not keep the participant there.
    pub(crate) fn lend(&self) -> Option<Room> {
        Some(Room { inner: self.inner.upgrade()?, _stay: None, way_back: self.stay.clone() })
    }

    /// Notifies everybody of a change, as soon as that is possible. Two calls before then make one notification.
    pub fn announce(&self, method: &'static str) {
        if let Some(room) = self.upgrade() {
            room.shared().announce(method);
        }
    }
}

/// Leaves when nobody holds it any more.
struct LeaveGuard(CancellationToken);

impl Drop for LeaveGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("topic", self.topic()).field("id", self.id()).finish_non_exhaustive()
    }
}

impl Room {
    /// Starts the tasks behind a connection that stands.
    pub(crate) fn begin(mut entering: Entering, opened: OpenedConnection) -> (Self, Events) {
        let service = entering.take_service(&opened.id);
        let directed = entering.entry_options.directed;
        let directory = Directory::new(service.as_ref(), entering.discovery, entering.greetings);
        let shared = Arc::new(RoomShared::new(entering.client, entering.topic, directed, directory, &opened));
        let (orders, taken) = mpsc::channel(MAX_ORDERS);
        // Not from 1: connections that share a seat must not use each other's ids.
        let first = u64::from(rand::random::<u32>() >> 8);
        let inner = Arc::new(RoomInner { shared: shared.clone(), orders, requests: AtomicU64::new(first) });
        let stay = Arc::new(LeaveGuard(shared.leave.clone()));
        let room = Self { inner, way_back: Arc::downgrade(&stay), _stay: Some(stay) };
        let events = Events::new(shared.clone());
        if let Some(service) = service {
            service.entered(room.downgrade());
            let dispatcher = Dispatcher::new(room.downgrade(), service);
            tokio::spawn(dispatcher.run(Events::new(shared.clone())));
        }
        crate::discovery::begin(&room, entering.discovery, Events::new(shared.clone()));
        // Both tasks end with the stay: the connection when the last handle goes, the others when it has closed the ring.
        let connection = RoomConnection::new(shared, entering.entry_options, entering.backoff, taken);
        tokio::spawn(connection.run(opened.socket));
        (room, events)
    }

    /// A handle that does not keep the participant in the room.
    pub fn downgrade(&self) -> RoomRef {
        RoomRef { inner: Arc::downgrade(&self.inner), stay: self.way_back.clone() }
    }

    /// A handle for a while: holding it does not keep the participant in the room.
    pub(crate) fn lend(&self) -> Self {
        Self { _stay: None, ..self.clone() }
    }

    pub(crate) fn shared(&self) -> &Arc<RoomShared> {
        &self.inner.shared
    }

    /// This participant.
    pub fn id(&self) -> &ParticipantId {
        &self.inner.shared.id
    }

    /// The id of this stay, which tells it from others of the same participant. What it asks others carries it as `from_session`.
    pub fn session(&self) -> &SessionId {
        &self.inner.shared.session
    }

    /// The topic.
    pub fn topic(&self) -> &TopicName {
        &self.inner.shared.topic
    }

    /// The client it was entered with.
    pub fn client(&self) -> &Client {
        &self.inner.shared.client
    }

    /// Who is here, this participant included, as far as is known now.
    pub fn roster(&self) -> Vec<Participant> {
        self.inner.shared.roster()
    }

    /// Whether somebody is here.
    pub fn is_present(&self, participant: &ParticipantId) -> bool {
        self.inner.shared.is_present(participant)
    }

    /// The longest envelope the gateway takes, in bytes, where the welcome has it. A longer one is refused before it is sent.
    pub fn message_limit(&self) -> Option<usize> {
        self.inner.shared.message_limit()
    }

    /// How the connection is doing, now and whenever it changes.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.inner.shared.link.subscribe()
    }

    /// Everything that happens from now on.
    pub fn events(&self) -> Events {
        Events::new(self.inner.shared.clone())
    }

    /// A page of the topic's history, the newest first.
    pub async fn history(&self, query: &HistoryQuery) -> Result<Page, RestError> {
        self.client().history(self.topic(), query).await
    }

    /// Publishes, and returns when the envelope has been stored and has its place in the room's order.
    ///
    /// A lost connection delays this, and so does a gateway that can store nothing for now ([`Link::Stalled`]), for as long as that
    /// lasts: the envelope is sent again under the same id, and stored once. To wait less, set a time of your
    /// own; the envelope is sent and may be stored all the same.
    ///
    /// What is published after this has returned comes behind it. Of envelopes that are under way at the same time, one that is refused
    /// for now and sent again can come to stand behind others that were sent after it, but what has not been sent yet waits for it.
    pub async fn publish(&self, outgoing: Outgoing) -> Result<Arc<Envelope>, PublishError> {
        self.publish_from(self.id(), outgoing).await
    }

    pub(crate) async fn publish_from(
        &self,
        from: &ParticipantId,
        outgoing: Outgoing,
    ) -> Result<Arc<Envelope>, PublishError> {
        let (id, text) = compose(from, &outgoing);
        let (heard, stored) = oneshot::channel();
        self.order(Order { id, text, purpose: OrderPurpose::Publish(heard) }).await?;
        stored.await.unwrap_or_else(|_| Err(PublishError::Ended(self.end())))
    }

    /// Says something to everybody.
    pub async fn say(&self, text: &str) -> Result<Arc<Envelope>, PublishError> {
        self.chat(None, text, "plain").await
    }

    /// Says something to everybody, in Markdown.
    pub async fn say_markdown(&self, text: &str) -> Result<Arc<Envelope>, PublishError> {
        self.chat(None, text, "markdown").await
    }

    /// Says something in reply to an envelope.
    pub async fn reply(&self, to: &EnvelopeId, text: &str) -> Result<Arc<Envelope>, PublishError> {
        self.chat(Some(to.clone()), text, "plain").await
    }

    /// Replaces the text of something this participant said before.
    pub async fn edit(&self, original: &EnvelopeId, text: &str) -> Result<Arc<Envelope>, PublishError> {
        let payload = notification(CHAT_EDIT_METHOD, &serde_json::json!({ "text": text }));
        self.publish(Outgoing::new(payload).correlation(Some(original.clone()))).await
    }

    /// Takes back something this participant said before.
    pub async fn retract(&self, original: &EnvelopeId) -> Result<Arc<Envelope>, PublishError> {
        let payload = notification(CHAT_RETRACT_METHOD, &serde_json::json!({}));
        self.publish(Outgoing::new(payload).correlation(Some(original.clone()))).await
    }

    async fn chat(
        &self,
        correlation: Option<EnvelopeId>,
        text: &str,
        format: &str,
    ) -> Result<Arc<Envelope>, PublishError> {
        self.publish(Outgoing::chat_in(format, text).correlation(correlation)).await
    }

    /// Tells some participants something, or everybody when none is named.
    pub async fn notify(
        &self,
        to: &[ParticipantId],
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Arc<Envelope>, PublishError> {
        let outgoing = Outgoing::new(notification(method, params)).to(to.to_vec());
        self.publish(if to.is_empty() { outgoing } else { self.as_caller(outgoing) }).await
    }

    /// What this participant sends as a client of another, which may keep something for it.
    pub(crate) fn as_caller(&self, outgoing: Outgoing) -> Outgoing {
        Outgoing { from_session: Some(self.session().clone()), ..outgoing }
    }

    /// Tells a participant that a call is not wanted any more, as soon as that is possible.
    pub(crate) fn withdraw(&self, caller: &ParticipantId, callee: &ParticipantId, params: &serde_json::Value) {
        let (id, text) = compose(caller, &self.cancellation(callee, params));
        self.shared().withdraw(Order { id, text, purpose: OrderPurpose::Notice });
    }

    /// What tells a participant that a call is not wanted any more.
    pub(crate) fn cancellation(&self, callee: &ParticipantId, params: &serde_json::Value) -> Outgoing {
        self.as_caller(Outgoing::new(notification("notifications/cancelled", params)).to([callee.clone()]))
    }

    /// Asks a participant something, without a handshake: the wire as it is. [`peer`](Self::peer) is the comfortable way.
    pub async fn request(
        &self,
        to: &ParticipantId,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Call, CallError> {
        self.request_with(to, method, params, RequestOptions::default()).await
    }

    /// Sends a request to a participant, with options.
    pub async fn request_with(
        &self,
        to: &ParticipantId,
        method: &str,
        params: &(impl Serialize + ?Sized),
        options: RequestOptions,
    ) -> Result<Call, CallError> {
        self.request_from(self.id(), to, method, params, options).await
    }

    pub(crate) async fn request_from(
        &self,
        from: &ParticipantId,
        to: &ParticipantId,
        method: &str,
        params: &(impl Serialize + ?Sized),
        options: RequestOptions,
    ) -> Result<Call, CallError> {
        let number = self.inner.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let params = to_raw_value(params).map_err(CallError::invalid_arguments)?;
        let params = if options.progress { with_progress_token(params, number) } else { params };
        let payload = rpc::request(number, method, Some(&params));
        let outgoing = Outgoing::new(payload).to([to.clone()]).to_session(options.to_session);
        let (id, text) = compose(from, &self.as_caller(outgoing.correlation(options.correlation)));
        let (call, waiting) = Call::new(self.clone(), from, id.clone(), number, to.clone(), options.timeout);
        self.shared().expect_answer(id.clone(), waiting);
        // With a gateway that is away even sending takes its time.
        let sending = self.order(Order { id: id.clone(), text, purpose: OrderPurpose::Call });
        let sent = match tokio::time::timeout_at(call.deadline(), sending).await {
            Ok(sent) => sent.map_err(CallError::from),
            Err(_) => Err(CallError::TimedOut),
        };
        if let Err(error) = sent {
            // It was never sent, so there is nothing to withdraw.
            call.forget();
            return Err(error);
        }
        Ok(call)
    }

    /// Leaves, and returns when the gateway knows.
    pub async fn leave(self) {
        self.inner.shared.leave.cancel();
        self.ended().await;
    }

    /// Waits until the connection ends for good, and returns why.
    pub async fn ended(&self) -> End {
        let mut link = self.link();
        match link.wait_for(|link| matches!(link, Link::Ended(_))).await.as_deref() {
            Ok(Link::Ended(end)) => end.clone(),
            _ => End::Left,
        }
    }

    pub(crate) async fn order(&self, order: Order) -> Result<(), PublishError> {
        // A gateway closes the connection over a frame far beyond its limit, so it is not tried.
        if let Some(refusal) = self.shared().too_large(&order) {
            return Err(PublishError::Refused(refusal));
        }
        self.inner.orders.send(order).await.map_err(|_| PublishError::Ended(self.end()))
    }

    pub(crate) fn end(&self) -> End {
        match &*self.inner.shared.link.borrow() {
            Link::Ended(end) => end.clone(),
            Link::Connecting { .. } | Link::Live | Link::Stalled { .. } => End::Left,
        }
    }
}

/// An envelope of a participant's: its id, which is fresh unless it is given, and its text.
pub fn compose(from: &ParticipantId, outgoing: &Outgoing) -> (EnvelopeId, String) {
    let fresh = || EnvelopeId::new(uuid::Uuid::now_v7().to_string()).expect("a UUID is an envelope id");
    let id = outgoing.id.clone().unwrap_or_else(fresh);
    let compose = Compose {
        id: id.as_str(),
        ts: outgoing.ts.unwrap_or_else(now),
        from,
        to: &outgoing.to,
        kind: Kind::Mcp,
        correlation_id: outgoing.correlation.as_ref().map(EnvelopeId::as_str),
        payload: &outgoing.payload,
    };
    let sessions = Sessions { from_session: outgoing.from_session.as_ref(), to_session: outgoing.to_session.as_ref() };
    let text = compose.text_between(sessions);
    (id, text)
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

fn with_progress_token(params: Box<RawValue>, number: u64) -> Box<RawValue> {
    let Some(mut members) = Members::parse(params.get()) else { return params };
    let mut meta = members.get("_meta").and_then(|meta| Members::parse(meta.get())).unwrap_or_default();
    meta.set("progressToken", &number);
    members.set("_meta", &meta);
    members.to_raw()
}

/// A notification's payload.
pub(crate) fn notification(method: &str, params: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    let params = to_raw_value(params).expect("parameters have only string keys");
    rpc::notification(method, Some(&params))
}
