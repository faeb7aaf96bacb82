//! What a participant does when others ask it something.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use salon_protocol::{Code, Envelope, EnvelopeId, Kind, Message, ParticipantId, Presence, PresenceEvent, RpcId, rpc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Event, Events, Outgoing, PublishError, Room, RoomRef, RpcError};

/// How many requests are worked on at once, and how many more may wait their turn.
const MAX_RUNNING: usize = 64;
const MAX_QUEUED: usize = 1024;
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// What others can ask of a participant. A [`Toolbox`](crate::Toolbox) is one; write your own to answer anything MCP has.
pub trait Service: Send + Sync + 'static {
    /// Answers a request. Every request runs in a task of its own, 64 at a time.
    fn request(&self, request: Request) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>>;

    /// What this participant, as an MCP client, lets those it calls ask of it: the `capabilities` of its handshakes.
    fn declares(&self) -> Box<RawValue> {
        RawValue::from_string("{}".into()).expect("an empty object is JSON")
    }

    /// Whether others must perform the MCP handshake before they ask something else. Where they need not, one call is one request and its answer.
    fn needs_handshake(&self) -> bool {
        true
    }

    /// Learns that it is offered in a room, before anybody there can ask.
    fn entered(&self, room: RoomRef) {
        let _ = room;
    }

    /// Handles a notification to this participant or to everybody. Called in the room's order; it must not
    /// block.
    fn notification(&self, envelope: &Arc<Envelope>) {
        let _ = envelope;
    }

    /// Hears of a join or a leave, in the room's order; it must not block. A join of a participant that is here means that it starts over.
    fn presence(&self, presence: &Presence) {
        let _ = presence;
    }
}

/// A request to this participant.
pub struct Request {
    room: Room,
    envelope: Arc<Envelope>,
    id: RpcId,
    method: Box<str>,
    cancelled: CancellationToken,
}

impl Request {
    /// A question that came inside an answer (MCP 2026-07-28, `input_required`), as the request it would have been. `None` when its
    /// parameters make no valid envelope.
    pub(crate) fn from_answer(
        room: &Room,
        from: &ParticipantId,
        call: &EnvelopeId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Option<Self> {
        let id = RpcId::String(call.as_str().into());
        let payload = rpc::request(id.to_raw(), method, params);
        let outgoing = Outgoing::new(payload).to([room.id().clone()]).correlation(call.clone());
        let (_, text) = crate::compose(from, &outgoing);
        let envelope = Arc::new(Envelope::restore(text).ok()?);
        let cancelled = room.shared().leave.child_token();
        Some(Self { room: room.lend(), envelope, id, method: method.into(), cancelled })
    }

    /// Who asks.
    pub fn from(&self) -> &ParticipantId {
        self.envelope.from()
    }

    /// Who is asked: this participant, or one of its ghosts.
    fn callee(&self) -> &ParticipantId {
        self.envelope.to().first().unwrap_or(self.room.id())
    }

    fn is_for_ghost(&self) -> bool {
        self.callee() != self.room.id()
    }

    /// What is asked.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The room it was asked in. This handle alone does not keep the participant there.
    pub fn room(&self) -> Room {
        self.room.clone()
    }

    /// The whole envelope.
    pub fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    /// The parameters, as they were written.
    pub fn params_raw(&self) -> Option<&RawValue> {
        self.envelope.params().and_then(|params| serde_json::from_str(params).ok())
    }

    /// The parameters, read. Without any, an empty object is read.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        serde_json::from_str(self.envelope.params().unwrap_or("{}"))
            .map_err(|error| RpcError::invalid_params(format!("the parameters do not fit: {error}")))
    }

    /// Resolves when the caller cancels.
    pub fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Sends progress to the caller, if it asked for that.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "_meta")]
            meta: Meta<'a>,
        }
        #[derive(serde::Deserialize)]
        struct Meta<'a> {
            #[serde(borrow, rename = "progressToken")]
            token: &'a RawValue,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Report<'a> {
            progress_token: &'a RawValue,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        let asked = self.envelope.params().and_then(|params| serde_json::from_str::<Params<'_>>(params).ok());
        let Some(asked) = asked else { return };
        let report = Report { progress_token: asked.meta.token, progress, total, message };
        let payload = crate::room::notification("notifications/progress", &report);
        let outgoing = Outgoing::new(payload).to([self.from().clone()]).correlation(self.envelope.id().clone());
        // A report that the room does not take is not worth failing the work for.
        let _ = self.room.publish(outgoing).await;
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("from", self.from()).field("method", &self.method).finish_non_exhaustive()
    }
}

/// Who asked, and their id for it: what a cancellation names.
type RequestKey = (ParticipantId, RpcId);

/// Hands requests and notifications to a service, until the stay in the room is over.
pub(crate) struct Dispatcher {
    room: RoomRef,
    pub(crate) service: Arc<dyn Service>,
    running: JoinSet<RequestKey>,
    waiting: VecDeque<Request>,
    waiting_bytes: usize,
    cancels: HashMap<RequestKey, CancellationToken>,
}

impl Dispatcher {
    pub(crate) fn new(room: RoomRef, service: Arc<dyn Service>) -> Self {
        Self {
            room,
            service,
            running: JoinSet::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            cancels: HashMap::new(),
        }
    }

    pub(crate) async fn run(mut self, mut events: Events) {
        loop {
            tokio::select! { biased;
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    if let Ok(key) = ended {
                        self.cancels.remove(&key);
                    }
                    if let Some(next) = self.waiting.pop_front() {
                        self.waiting_bytes -= next.envelope.text().len();
                        self.start(next);
                    }
                }
                // With a full line nobody is listened to; what is missed meanwhile is read from the history.
                event = events.next(), if !self.is_full() => match event {
                    Some(Event::Envelope(envelope)) => self.take(&envelope),
                    Some(Event::Gap | Event::Outage(_) | Event::Recovered) => {}
                    None => return,
                },
            }
        }
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_QUEUED || self.waiting_bytes >= MAX_QUEUED_BYTES
    }

    fn take(&mut self, envelope: &Arc<Envelope>) {
        let Some(room) = self.room.lend() else { return };
        // A participant's status changes nothing for its servers.
        if let Some(presence) = envelope.presence().filter(|presence| presence.event != PresenceEvent::Status) {
            self.service.presence(&presence);
            if presence.event == PresenceEvent::Leave {
                // A caller that is gone gets no answer; the room would refuse it.
                let theirs = self.cancels.iter().filter(|((from, _), _)| *from == presence.participant.id);
                theirs.for_each(|(_, cancel)| cancel.cancel());
            }
        }
        let is_for_ghost = matches!(envelope.to(), [callee] if room.shared().ghosts.has(callee));
        // What names another session of this participant is for that one.
        if envelope.kind() != Kind::Mcp || !(is_for_ghost || room.shared().is_for_us(envelope)) {
            return;
        }
        match envelope.message() {
            Some(Message::Request { id, method })
                if is_for_ghost || envelope.to() == std::slice::from_ref(room.id()) =>
            {
                let cancelled = room.shared().leave.child_token();
                self.cancels.insert((envelope.from().clone(), id.clone()), cancelled.clone());
                let (id, method) = (id.clone(), method.clone());
                let request = Request { room, envelope: envelope.clone(), id, method, cancelled };
                if self.running.len() < MAX_RUNNING {
                    self.start(request);
                } else {
                    self.waiting_bytes += envelope.text().len();
                    self.waiting.push_back(request);
                }
            }
            Some(Message::Notification { method }) if *envelope.from() != *room.id() => {
                if &**method == "notifications/cancelled" {
                    let cancel = cancelled_id(envelope).and_then(|id| self.cancels.get(&(envelope.from().clone(), id)));
                    cancel.inspect(|cancel| cancel.cancel());
                }
                self.service.notification(envelope);
            }
            _ => {}
        }
    }

    fn start(&mut self, request: Request) {
        let asked = Request {
            room: request.room.clone(),
            envelope: request.envelope.clone(),
            id: request.id.clone(),
            method: request.method.clone(),
            cancelled: request.cancelled.clone(),
        };
        let service = if request.is_for_ghost() {
            Arc::new(GhostService)
        } else {
            let stand_in = request.room.shared().directory.stand_in(request.from(), request.method());
            stand_in.unwrap_or_else(|| self.service.clone())
        };
        // Begun in the task as well: what panics there is that request's affair.
        let work = async move { service.request(asked).await };
        self.running.spawn(answer(request, work));
    }
}

fn cancelled_id(envelope: &Envelope) -> Option<RpcId> {
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    let params: Params<'_> = serde_json::from_str(envelope.params()?).ok()?;
    RpcId::parse(params.id.get())
}

/// What a service answers, also when it panics.
pub(crate) async fn attempt(
    work: impl Future<Output = Result<Box<RawValue>, RpcError>>,
) -> Result<Box<RawValue>, RpcError> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.unwrap_or_else(|_| Err(RpcError::internal("the participant failed at this")))
}

/// Does the work and publishes its outcome, unless it is not wanted any more.
async fn answer(request: Request, work: impl Future<Output = Result<Box<RawValue>, RpcError>>) -> RequestKey {
    let key = (request.from().clone(), request.id.clone());
    let outcome = tokio::select! { biased;
        // MCP wants no answer to what was cancelled.
        () = request.cancelled.cancelled() => return key,
        outcome = attempt(work) => outcome,
    };
    if let Err(PublishError::Refused(refusal)) = publish(&request, &outcome).await {
        tracing::debug!(%refusal, "service: answer refused by the room");
        if matches!(refusal.code, Code::TooLarge | Code::TooDeep | Code::StorageFull) {
            let error = RpcError::internal(format!("the answer does not fit into the room: {}", refusal.message));
            // This one fits; when the room is gone, it cannot be sent.
            let _ = publish(&request, &Err(error)).await;
        }
    }
    key
}

async fn publish(request: &Request, outcome: &Result<Box<RawValue>, RpcError>) -> Result<Arc<Envelope>, PublishError> {
    let payload = rpc::outcome(&request.id.to_raw(), outcome);
    let outgoing = Outgoing::new(payload).to([request.from().clone()]).correlation(request.envelope.id().clone());
    request.room.publish_from(request.callee(), outgoing).await
}

/// Answers for ghosts, which offer nothing.
struct GhostService;

impl Service for GhostService {
    fn request(&self, request: Request) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let answer = match request.method() {
            "ping" => Ok(RawValue::from_string("{}".into()).expect("an empty object is JSON")),
            method => Err(RpcError::method_not_found(method)),
        };
        Box::pin(std::future::ready(answer))
    }
}
