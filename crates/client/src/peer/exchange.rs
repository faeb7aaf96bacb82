//! Requests to a participant, as salon-mcp's [`Caller`] makes them in the participant's era: one caller for the handshake, and one for
//! every call and every list.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use salon_mcp::caller::{CallEnd, CallFailure, CallId, Caller, CallerProfile, CallerStep, RequestId, WholeList};
use salon_mcp::handshake::HandshakeParams;
use salon_mcp::input::Question;
use salon_mcp::listing::Listing;
use salon_mcp::{Era, Revision, meta};
use salon_protocol::{EnvelopeId, Members, ParticipantId, RpcError};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::catalogue::LIMITS;
use super::{HANDSHAKE_TIMEOUT, Peer, read};
use crate::mcp::{Initialized, LogLevel, raw};
use crate::service::{Request, attempt};
use crate::{Call, CallError, RequestOptions, ResultError, Room};

/// The description of a participant, and its caller.
#[derive(Clone)]
pub(super) struct Handshake {
    pub(super) server: Arc<Initialized>,
    pub(super) era: Era,
    profile: CallerProfile,
}

impl Handshake {
    /// The parameters of the first request to a participant that does not know who asks. In the modern era every request says so.
    pub(super) fn introduced(&self, params: &RawValue) -> Option<Box<RawValue>> {
        let client = &self.profile.client;
        let info = client.info.as_deref().filter(|_| self.era == Era::Legacy && client.capabilities.get() != "{}")?;
        let asker = meta::RequesterMeta { capabilities: &client.capabilities, info, level: None };
        meta::introduced(Some(params), asker)
    }

    fn caller(&self, log_level: Option<LogLevel>) -> Caller {
        Caller::after_handshake(CallerProfile { log_level, ..self.profile.clone() }, self.era)
    }
}

/// The era that a participant is called in: the legacy one, unless it names only revisions without a handshake.
pub(super) fn era_of(room: &Room, peer: &ParticipantId) -> Era {
    let peer = room.roster().into_iter().find(|one| one.id == *peer);
    peer.map_or(Era::Legacy, |peer| Era::Legacy.with(&peer.mcp))
}

/// What there is to know of a participant that takes requests without a handshake; `None` for one that needs it.
pub(super) fn without_handshake(room: &Room, peer: &ParticipantId) -> Option<Handshake> {
    let is_optional = peer.is_host() || room.roster().iter().any(|one| one.id == *peer && one.mcp.handshake_optional);
    let nothing_said = introduction(Era::Modern, &raw(&json!({ "capabilities": {} }))).ok().filter(|_| is_optional)?;
    Some(Handshake { server: Arc::new(nothing_said), era: era_of(room, peer), profile: profile(room) })
}

/// Has a participant introduce itself: by the handshake, or by `server/discover` where its era has none.
pub(super) async fn introduce(room: &Room, peer: &ParticipantId) -> Result<Handshake, CallError> {
    let (era, profile) = (era_of(room, peer), profile(room));
    let handshake = |server| Handshake { server: Arc::new(server), era, profile: profile.clone() };
    let mut caller = Caller::new(profile.clone(), era);
    caller.introduce(now());
    while let Some(step) = caller.poll_step() {
        match step {
            CallerStep::Send { request, method, params, .. } => match greet(room, peer, &method, params).await {
                Ok(answer) => caller.answered(request, Ok(&answer), now()),
                Err(CallError::Answered(error)) if era == Era::Modern && error.code == RpcError::METHOD_NOT_FOUND => {
                    // It declares no capabilities, so everything is asked for.
                    let unknown = json!({ "capabilities": { "tools": {}, "resources": {}, "prompts": {} } });
                    return introduction(era, &raw(&unknown)).map(handshake);
                }
                Err(error) => return Err(error),
            },
            CallerStep::Initialized => {
                room.notify(std::slice::from_ref(peer), "notifications/initialized", &json!({})).await?;
            }
            CallerStep::Introduced(Ok(result)) => return introduction(era, &result).map(handshake),
            CallerStep::Introduced(Err(failure)) => return Err(call_error("initialize", failure)),
            CallerStep::Withdraw { .. } | CallerStep::Ask { .. } | CallerStep::End(..) => {}
        }
    }
    Err(CallError::Cancelled)
}

/// The description of a participant, in the shape of an `initialize` result.
fn introduction(era: Era, result: &RawValue) -> Result<Initialized, CallError> {
    if era == Era::Legacy {
        return read(result);
    }
    let mut said: Members = read(result)?;
    if let Some(info) = meta::server_info(result) {
        said.set("serverInfo", &info);
    }
    said.set("protocolVersion", Revision::MODERN.date());
    read(&said.to_raw())
}

/// Sends a request of the handshake. It is not cancelled when it takes too long: MCP forbids that of `initialize`.
async fn greet(
    room: &Room,
    peer: &ParticipantId,
    method: &str,
    params: Option<Box<RawValue>>,
) -> Result<Box<RawValue>, CallError> {
    // The time is measured here: a call that does so by itself would cancel.
    let options = RequestOptions { timeout: HANDSHAKE_TIMEOUT * 2, progress: false, ..RequestOptions::default() };
    let mut call = room.request_with(peer, method, &params, options).await?;
    let over = async { while call.progress().await.is_some() {} };
    if timeout(HANDSHAKE_TIMEOUT, over).await.is_err() {
        call.forget();
        return Err(CallError::TimedOut);
    }
    call.result().await
}

/// Reads every page of a list.
pub(super) async fn fetch(
    peer: &Peer,
    handshake: &Handshake,
    log_level: Option<LogLevel>,
    listing: Listing,
) -> Result<WholeList, CallError> {
    let mut caller = handshake.caller(log_level);
    caller.list(listing, LIMITS, now());
    while let Some(step) = caller.poll_step() {
        match step {
            CallerStep::Send { request, method, params, .. } => {
                let options =
                    RequestOptions { timeout: HANDSHAKE_TIMEOUT, progress: false, ..RequestOptions::default() };
                match peer.room().request_with(peer.id(), &method, &params, options).await?.result().await {
                    Ok(answer) => caller.answered(request, Ok(&answer), now()),
                    Err(CallError::Answered(error)) => caller.answered(request, Err(&raw(&json!(error))), now()),
                    Err(error) => return Err(error),
                }
            }
            CallerStep::End(_, Ok(CallEnd::List(list))) => return Ok(list),
            CallerStep::End(_, Err(CallFailure::Unreadable)) => return Err(ResultError::Missing(listing.key()).into()),
            CallerStep::End(_, Err(failure)) => return Err(call_error(listing.method(), failure)),
            _ => {}
        }
    }
    Err(CallError::Cancelled)
}

/// One call of a [`Caller`]: what follows its answer, which may ask for input first.
pub(crate) struct CallExchange {
    caller: Caller,
    call: CallId,
    request: RequestId,
    method: Box<str>,
    options: RequestOptions,
}

/// What follows an answer.
pub(crate) enum AfterAnswer {
    /// The call is over.
    End(Result<Box<RawValue>, CallError>),
    /// The input is collected, then the request is sent again.
    Round(BoxFuture<'static, Result<Call, CallError>>),
}

impl CallExchange {
    /// Sends a request.
    pub(super) async fn start(
        peer: &Peer,
        handshake: &Handshake,
        log_level: Option<LogLevel>,
        (method, params): (&str, &RawValue),
        options: RequestOptions,
    ) -> Result<Call, CallError> {
        let mut caller = handshake.caller(log_level);
        let call = caller.call(method, Some(params), now());
        match caller.poll_step() {
            Some(CallerStep::Send { request, params, .. }) => {
                let exchange = Self { caller, call, request, method: method.into(), options };
                exchange.send(peer.room(), peer.id(), params).await
            }
            Some(CallerStep::End(_, Err(failure))) => Err(call_error(method, failure)),
            _ => Err(CallError::Cancelled),
        }
    }

    async fn send(self, room: &Room, peer: &ParticipantId, params: Option<Box<RawValue>>) -> Result<Call, CallError> {
        let call = room.request_with(peer, &self.method, &params, self.options.clone()).await?;
        Ok(call.with_exchange(self))
    }

    /// The participant answered the request, which was sent in this envelope.
    pub(crate) fn answered(
        mut self,
        room: &Room,
        peer: &ParticipantId,
        envelope: &EnvelopeId,
        answer: &RawValue,
    ) -> AfterAnswer {
        self.caller.answered(self.request, Ok(answer), now());
        match self.caller.poll_step() {
            Some(CallerStep::End(_, Ok(CallEnd::Result(result)))) => AfterAnswer::End(Ok(result)),
            Some(CallerStep::End(_, Err(failure))) => AfterAnswer::End(Err(call_error(&self.method, failure))),
            first => AfterAnswer::Round(self.next_round(room.clone(), peer.clone(), envelope.clone(), first).boxed()),
        }
    }

    /// Performs the caller's steps up to the next request.
    async fn next_round(
        mut self,
        room: Room,
        peer: ParticipantId,
        envelope: EnvelopeId,
        mut step: Option<CallerStep>,
    ) -> Result<Call, CallError> {
        let mut asking = FuturesUnordered::new();
        loop {
            while let Some(due) = step.take() {
                match due {
                    CallerStep::Ask { key, question, .. } => asking.push(ask(&room, &peer, &envelope, key, question)),
                    CallerStep::Send { request, params, .. } => {
                        self.request = request;
                        return self.send(&room, &peer, params).await;
                    }
                    CallerStep::End(_, Err(failure)) => return Err(call_error(&self.method, failure)),
                    _ => {}
                }
                step = self.caller.poll_step();
            }
            let retry_at = self.caller.poll_timeout();
            let retry = async { tokio::time::sleep_until(retry_at.map_or_else(Instant::now, Instant::from_std)).await };
            tokio::select! {
                Some((key, answer)) = asking.next() => self.caller.input(self.call, &key, answer, now()),
                () = retry, if retry_at.is_some() => self.caller.handle_timeout(now()),
                else => return Err(CallError::Cancelled),
            }
            step = self.caller.poll_step();
        }
    }
}

/// Has this participant's service answer a question that came inside an answer.
async fn ask(
    room: &Room,
    peer: &ParticipantId,
    envelope: &EnvelopeId,
    key: Box<str>,
    Question { method, params }: Question,
) -> (Box<str>, Result<Box<RawValue>, RpcError>) {
    let request = Request::from_answer(room, peer, envelope, &method, params.as_deref());
    let answer = match (request, room.shared().directory.answering(peer, &method)) {
        (Some(request), Some(service)) => attempt(async move { service.request(request).await }).await,
        (None, _) => Err(RpcError::invalid_params("the question does not fit into an envelope")),
        (_, None) => Err(RpcError::method_not_found(&method)),
    };
    (key, answer)
}

/// The identity and the capabilities of this participant as an MCP client.
fn profile(room: &Room) -> CallerProfile {
    let name = room.roster().into_iter().find(|one| one.id == *room.id()).and_then(|me| me.name);
    let info = json!({ "name": name.as_deref().unwrap_or(room.id().as_str()), "version": env!("CARGO_PKG_VERSION") });
    let capabilities = room.shared().directory.declares().to_owned();
    CallerProfile::new(HandshakeParams { requested_revision: None, capabilities, info: Some(raw(&info)) })
}

fn call_error(method: &str, failure: CallFailure) -> CallError {
    match failure {
        CallFailure::Answered(error) | CallFailure::Handshake(error) => match serde_json::from_str(error.get()) {
            Ok(error) => CallError::Answered(error),
            Err(error) => ResultError::from(error).into(),
        },
        CallFailure::Lost(error) => CallError::Answered(error),
        CallFailure::TimedOut => CallError::TimedOut,
        CallFailure::Cancelled => CallError::Cancelled,
        CallFailure::InvalidParams => {
            let message = "the parameters and their `_meta` must be objects";
            CallError::invalid_arguments(serde::de::Error::custom(message))
        }
        CallFailure::TooMuchInput => ResultError::TooMuchInput(method.into()).into(),
        CallFailure::NoInput { method, error } => CallError::NoInput { method, error },
        CallFailure::Unreadable => ResultError::NotAnObject.into(),
        CallFailure::Endless => ResultError::Endless(method.into()).into(),
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
