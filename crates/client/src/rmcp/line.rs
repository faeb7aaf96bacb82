//! One conversation of an rmcp service with a participant.
//!
//! Requests of the service become calls of the room, and those of the participant get numbers of their own, so both sides may number as
//! they like. Everything is raw JSON; only ids and progress tokens are replaced.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Code, Envelope, EnvelopeId, Members, ParticipantId};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::method_of;
use crate::mcp::empty_object;
use crate::{Call, CallError, Outgoing, Progress, PublishError, Request, RequestOptions, RoomRef, RpcError};

/// How many messages wait for an rmcp service.
const INBOX: usize = 256;

/// How many calls an rmcp service has open at once.
const MAX_CALLS: usize = 256;

/// An rmcp service keeps its own time, so a call only has to end some day.
const CALL_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Why a message of an rmcp service did not get into the room.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It is not a JSON-RPC message.
    #[error("{0}")]
    Json(#[source] Arc<serde_json::Error>),
    /// The participant is in the room no more.
    #[error("the room was left")]
    Left,
    /// It was not published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// One conversation.
pub(super) struct RmcpLine {
    room: RoomRef,
    peer: ParticipantId,
    inbox: mpsc::Sender<Box<RawValue>>,
    end: CancellationToken,
    state: Mutex<RmcpLineState>,
}

#[derive(Default)]
struct RmcpLineState {
    /// How many requests the participant made.
    count: u64,
    /// Requests of the participant that wait for the service's answer.
    pending: HashMap<u64, PendingAnswer>,
    /// Calls of the service that wait for the participant's answer, by the service's id for them. A reason sent here cancels one.
    calls: HashMap<String, oneshot::Sender<String>>,
}

struct PendingAnswer {
    answer: oneshot::Sender<Result<Box<RawValue>, RpcError>>,
    envelope: EnvelopeId,
    token: Option<Box<RawValue>>,
}

/// What of a JSON-RPC message is looked at.
#[derive(Deserialize)]
struct LineHead {
    id: Option<Box<RawValue>>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LineParams {
    #[serde(rename = "_meta")]
    meta: ParamsMeta,
    progress_token: Option<Box<RawValue>>,
    request_id: Option<Box<RawValue>>,
    reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ParamsMeta {
    progress_token: Option<Box<RawValue>>,
}

impl LineParams {
    fn read(params: Option<&str>) -> Self {
        params.and_then(|params| serde_json::from_str(params).ok()).unwrap_or_default()
    }
}

impl RmcpLine {
    pub(super) fn new(
        room: RoomRef,
        peer: ParticipantId,
        end: CancellationToken,
    ) -> (Arc<Self>, mpsc::Receiver<Box<RawValue>>) {
        let (inbox, received) = mpsc::channel(INBOX);
        (Arc::new(Self { room, peer, inbox, end, state: Mutex::default() }), received)
    }

    pub(super) fn peer(&self) -> &ParticipantId {
        &self.peer
    }

    pub(super) fn is_open(&self) -> bool {
        !self.inbox.is_closed()
    }

    /// Ends every call, and leaves every question unanswered.
    pub(super) fn close(&self) {
        self.end.cancel();
        let pending = std::mem::take(&mut self.state().pending);
        drop(pending);
    }

    fn state(&self) -> MutexGuard<'_, RmcpLineState> {
        // Nothing that can panic runs while it is held.
        self.state.lock()
    }

    /// Passes a request of the participant to the service, at once, so that the order stays; the answer comes when it comes.
    pub(super) fn ask(self: &Arc<Self>, request: &Request) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let Some(mut payload) = Members::parse(request.envelope().payload()) else {
            return ready(Err(RpcError::internal("the request is no object"))).boxed();
        };
        let token = LineParams::read(request.envelope().params()).meta.progress_token;
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.count += 1;
            let number = state.count;
            state.pending.insert(number, PendingAnswer { answer, envelope: request.envelope().id().clone(), token });
            number
        };
        let waiting = UnansweredRequest { line: self.clone(), number };
        payload.set("id", &number);
        if self.inbox.try_send(payload.to_raw()).is_err() {
            return ready(Err(RpcError::internal("too much is waiting here; ask again later"))).boxed();
        }
        async move {
            let answer = answered.await;
            drop(waiting);
            answer.unwrap_or_else(|_| Err(RpcError::internal("the server has ended")))
        }
        .boxed()
    }

    /// Passes a notification of the participant to the service. What belongs to a request goes with that instead.
    pub(super) fn hear(&self, envelope: &Envelope) {
        if envelope.message().is_none()
            || matches!(method_of(envelope), None | Some("notifications/cancelled" | "notifications/progress"))
        {
            return;
        }
        let Ok(payload) = RawValue::from_string(envelope.payload().to_owned()) else { return };
        if self.inbox.try_send(payload).is_err() {
            tracing::debug!(peer = %self.peer, "rmcp: queue full, notification dropped");
        }
    }

    /// Answers a request that the service does not understand.
    pub(super) fn refuse(&self, message: &RawValue, why: &str) {
        let Ok(LineHead { id: Some(id), method: Some(_), .. }) = serde_json::from_str(message.get()) else { return };
        self.answer(&id, Err(RpcError::invalid_params(why)));
    }

    /// Carries a message of the service into the room.
    pub(super) async fn send(self: Arc<Self>, message: serde_json::Result<String>) -> Result<(), LineError> {
        let broken = |error: serde_json::Error| LineError::Json(Arc::new(error));
        let message = RawValue::from_string(message.map_err(broken)?).map_err(broken)?;
        match serde_json::from_str(message.get()).map_err(broken)? {
            LineHead { method: Some(method), id: Some(id), params, .. } => {
                self.call(method, id, params.unwrap_or_else(empty_object)).await;
                Ok(())
            }
            LineHead { method: Some(method), id: None, params, .. } => {
                self.tell(&method, LineParams::read(params.as_deref().map(RawValue::get)), message).await
            }
            LineHead { id: Some(id), result, error, .. } => {
                let answer = result.ok_or_else(|| error.unwrap_or_else(|| RpcError::internal("there was no answer")));
                self.answer(&id, answer);
                Ok(())
            }
            LineHead { .. } => Ok(()),
        }
    }

    /// Asks the participant what the service asks. Whatever comes of it goes to the inbox.
    async fn call(self: Arc<Self>, method: String, id: Box<RawValue>, params: Box<RawValue>) {
        let (cancel, cancelled) = oneshot::channel();
        let key = id.get().to_owned();
        let room = {
            let mut state = self.state();
            let room = self.room.upgrade().filter(|_| state.calls.len() < MAX_CALLS);
            if room.is_some() {
                state.calls.insert(key.clone(), cancel);
            }
            room
        };
        let token = LineParams::read(Some(params.get())).meta.progress_token;
        let options = RequestOptions { timeout: CALL_TIMEOUT, progress: token.is_some(), ..RequestOptions::default() };
        let call = match room {
            Some(room) => room.request_with(&self.peer, &method, &params, options).await,
            None => Err(CallError::Cancelled),
        };
        let line = self.clone();
        // Ends with the call, which ends with the line.
        tokio::spawn(async move {
            let outcome = match call {
                Ok(call) => line.follow(call, token, cancelled).await,
                Err(error) => Some(Err(error)),
            };
            line.state().calls.remove(&key);
            if let Some(outcome) = outcome {
                line.deliver(response(&id, outcome)).await;
            }
        });
    }

    /// Passes on a call's progress until it is over; nothing when it was cancelled.
    async fn follow(
        &self,
        mut call: Call,
        token: Option<Box<RawValue>>,
        mut cancelled: oneshot::Receiver<String>,
    ) -> Option<Result<Box<RawValue>, CallError>> {
        loop {
            let progress = tokio::select! { biased;
                // Dropping the call cancels it.
                () = self.end.cancelled() => return None,
                reason = &mut cancelled => {
                    call.cancel(reason.as_deref().unwrap_or("the caller has ended")).await;
                    return None;
                }
                progress = call.progress() => progress,
            };
            match (progress, &token) {
                (Some(progress), Some(token)) => self.deliver(report(token, &progress)).await,
                (Some(_), None) => {}
                (None, _) => return Some(call.result().await),
            }
        }
    }

    async fn deliver(&self, message: Members) {
        tokio::select! { biased;
            () = self.end.cancelled() => {}
            // A service that has ended needs no messages.
            _ = self.inbox.send(message.to_raw()) => {}
        }
    }

    /// Sends the service's notification to the participant.
    async fn tell(&self, method: &str, params: LineParams, message: Box<RawValue>) -> Result<(), LineError> {
        if method == "notifications/cancelled" {
            let cancel = params.request_id.and_then(|id| self.state().calls.remove(id.get()));
            if let Some(cancel) = cancel {
                // It may have been answered in the meantime.
                let _ = cancel.send(params.reason.unwrap_or_else(|| "the caller wants it no more".into()));
            }
            return Ok(());
        }
        let correlation = params.progress_token.and_then(|token| {
            let state = self.state();
            let meant =
                state.pending.values().find(|pending| pending.token.as_ref().is_some_and(|t| t.get() == token.get()));
            meant.map(|pending| pending.envelope.clone())
        });
        let Some(room) = self.room.upgrade() else { return Err(LineError::Left) };
        let outgoing = Outgoing::new(message).to([self.peer.clone()]).correlation(correlation);
        Ok(room.publish(room.as_caller(outgoing)).await.map(drop)?)
    }

    fn answer(&self, id: &RawValue, answer: Result<Box<RawValue>, RpcError>) {
        let pending = id.get().parse().ok().and_then(|number: u64| self.state().pending.remove(&number));
        if let Some(pending) = pending {
            // The asker may have cancelled.
            let _ = pending.answer.send(answer);
        }
    }
}

/// A request that the service has not answered. Dropping it cancels it at the service.
struct UnansweredRequest {
    line: Arc<RmcpLine>,
    number: u64,
}

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        if self.line.state().pending.remove(&self.number).is_some() {
            let mut cancelled = Members::default();
            cancelled.set("jsonrpc", "2.0");
            cancelled.set("method", "notifications/cancelled");
            cancelled.set("params", &json!({ "requestId": self.number }));
            // A service that cannot even take this is busy with other things.
            let _ = self.line.inbox.try_send(cancelled.to_raw());
        }
    }
}

/// The answer to one of the service's requests.
fn response(id: &RawValue, outcome: Result<Box<RawValue>, CallError>) -> Members {
    let mut message = Members::default();
    message.set("jsonrpc", "2.0");
    message.set("id", id);
    match outcome {
        Ok(result) => message.set("result", &*result),
        Err(CallError::Answered(error)) => message.set("error", &error),
        Err(error) => {
            let code = match &error {
                CallError::Gone(_) => Some(Code::RecipientNotFound),
                CallError::Refused(refusal) => Some(refusal.code),
                _ => None,
            };
            let mut told = json!({ "code": RpcError::INTERNAL, "message": error.to_string() });
            if let Some(code) = code {
                told["data"] = json!({ "code": code.word() });
            }
            message.set("error", &told);
        }
    }
    message
}

/// A report of progress on one of the service's requests.
fn report(token: &RawValue, progress: &Progress) -> Members {
    let mut params = Members::default();
    params.set("progressToken", token);
    params.set("progress", &progress.progress);
    if let Some(total) = progress.total {
        params.set("total", &total);
    }
    if let Some(text) = &progress.message {
        params.set("message", text);
    }
    let mut message = Members::default();
    message.set("jsonrpc", "2.0");
    message.set("method", "notifications/progress");
    message.set("params", &params);
    message
}
