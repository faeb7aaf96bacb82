//! The host as a client of the others: it fetches what a participant offers and calls its tools, in an era that the participant speaks.
//!
//! salon-mcp's [`Caller`] knows what to send; here its requests are published and their answers awaited.

use std::sync::Arc;
use std::time::Duration;

use salon_mcp::caller::{CallEnd, CallFailure, Caller, CallerProfile, CallerStep, ListLimits};
use salon_mcp::handshake::HandshakeParams;
use salon_mcp::listing::Listing;
use salon_mcp::{Era, Revision, downgrade, is_method_not_found};
use salon_protocol::{EnvelopeId, Members, Participant, RpcError, Stamp};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout};

use super::calls::{HostAnswer, HostCall, MissingReason};
use super::catalogue::{HandshakeResult, ListRequest, ListResult};
use super::implementation;
use super::office::Office;
use super::speech::text;

/// How long a participant may take for one answer of its handshake or of a list. No request waits that long: the catalogue announces
/// the list when it comes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest list that is kept.
const LIMITS: ListLimits = ListLimits { pages: 64, items: 4096, bytes: 4 << 20 };

/// How often a list is asked for again because it changed meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// Sends list requests that concern one participant, one after another: to a newcomer that is a lot at once.
pub(super) async fn run_in_turn(office: Arc<Office>, list_requests: Vec<ListRequest>) {
    for list_request in list_requests {
        run(office.clone(), list_request).await;
    }
}

/// Sends a list request, and settles it.
pub(super) async fn run(office: Arc<Office>, list_request: ListRequest) {
    let listed = match office.handshakes.acquire().await {
        Ok(_permit) => fetch(&office, &list_request).await,
        Err(_) => Err(MissingReason::Unasked),
    };
    let settled = office.catalogue().settle(&list_request, listed);
    if !settled.changes.is_empty() {
        office.announce_tool_changes(&list_request.who.id, &settled.changes);
    }
    if settled.is_left_out {
        let (topic, participant, listing) = (office.desk.topic(), &list_request.who.id, list_request.listing.method());
        tracing::warn!(%topic, %participant, listing, "catalogue: list left out, it is larger than what is kept");
    }
    office.catalogue_changed.notify_one();
}

async fn fetch(office: &Arc<Office>, list_request: &ListRequest) -> Result<ListResult, MissingReason> {
    let ListRequest { who, listing, meeting, is_announced } = list_request;
    let met = {
        let mut meeting = meeting.lock().await;
        match *meeting {
            Some(met) => met?,
            // The participant's other lists do not wait for another handshake that fails.
            None => (*meeting.insert(meet(office, who).await))?,
        }
    };
    if !met.has[*listing as usize] && !is_announced {
        return Ok(ListResult { items: Vec::new(), ttl: None });
    }
    let mut attempts = 0;
    loop {
        office.catalogue().begin_listing(list_request, Instant::now());
        let listed = list(office, who, *listing).await?;
        attempts += 1;
        if attempts == MAX_ATTEMPTS || !office.catalogue().is_stale(list_request) {
            return Ok(listed);
        }
    }
}

/// Performs the handshake where the participant's era has one, and reads which lists it has. One without a handshake may have any.
async fn meet(office: &Arc<Office>, who: &Participant) -> Result<HandshakeResult, MissingReason> {
    let era = Era::Legacy.with(&who.mcp);
    if era == Era::Modern {
        return Ok(HandshakeResult { has: [true; 4] });
    }
    let mut caller = Caller::new(profile(), era);
    caller.introduce(now());
    match drive(office, who, &mut caller, Some(ANSWER_TIMEOUT), None).await?.0 {
        CallerStep::Introduced(Ok(result)) => {
            let is_announced = Members::parse(result.get()).ok_or(MissingReason::Unreadable)?;
            let capabilities = is_announced
                .get("capabilities")
                .and_then(|is_announced| Members::parse(is_announced.get()))
                .unwrap_or_default();
            Ok(HandshakeResult { has: Listing::ALL.map(|listing| capabilities.get(listing.capability()).is_some()) })
        }
        // It is no server. That is an answer, too.
        CallerStep::Introduced(Err(CallFailure::Handshake(error))) if is_method_not_found(&error) => {
            Ok(HandshakeResult { has: [false; 4] })
        }
        _ => Err(MissingReason::Declined),
    }
}

/// All pages of a participant's list.
async fn list(office: &Arc<Office>, who: &Participant, listing: Listing) -> Result<ListResult, MissingReason> {
    let mut caller = caller_of(who);
    caller.list(listing, LIMITS, now());
    match drive(office, who, &mut caller, Some(ANSWER_TIMEOUT), None).await?.0 {
        CallerStep::End(_, Ok(CallEnd::List(list))) => Ok(ListResult { items: list.items, ttl: list.lifetime }),
        CallerStep::End(_, Err(CallFailure::Endless)) => Err(MissingReason::TooLong),
        _ => Err(MissingReason::Unreadable),
    }
}

/// What a participant answered to a tool call: in which envelope, and its result or its error as a legacy revision has it.
pub(super) struct ToolAnswer {
    pub(super) envelope: EnvelopeId,
    pub(super) outcome: Result<Box<RawValue>, Box<RawValue>>,
}

/// Calls a tool of a participant with which the handshake has been performed, with the stamp of the request that asked for it.
pub(super) async fn call_tool(
    office: &Arc<Office>,
    who: &Participant,
    params: &RawValue,
    stamp: Option<Stamp>,
) -> Result<ToolAnswer, MissingReason> {
    const METHOD: &str = "tools/call";
    let mut caller = caller_of(who);
    caller.call(METHOD, Some(params), now());
    let (step, answer) = drive(office, who, &mut caller, None, stamp.as_ref()).await?;
    let envelope = answer.ok_or(MissingReason::Unasked)?.0.envelope.id().clone();
    let outcome = match step {
        // The caller of `room.call_all` speaks a legacy revision, as the host does.
        CallerStep::End(_, Ok(CallEnd::Result(result))) if caller.era() == Era::Modern => {
            Ok(downgrade::result(METHOD, &result, Revision::ROOM))
        }
        CallerStep::End(_, Ok(CallEnd::Result(result))) => Ok(result),
        CallerStep::End(_, Err(CallFailure::Answered(error))) => Err(error),
        CallerStep::End(_, Err(CallFailure::NoInput { method, .. })) => {
            let message = format!("the tool asks its caller for `{method}`, which the gateway does not answer");
            Err(text(&RpcError::internal(message)))
        }
        _ => Err(text(&RpcError::internal("the tool asks its caller for input again and again"))),
    };
    Ok(ToolAnswer { envelope, outcome })
}

/// Performs what a caller wants done until its handshake or a call of it is over. Returns that step, and the last answer that came.
async fn drive(
    office: &Arc<Office>,
    who: &Participant,
    caller: &mut Caller,
    limit: Option<Duration>,
    stamp: Option<&Stamp>,
) -> Result<(CallerStep, Option<HostAnswer>), MissingReason> {
    let mut last: Option<HostAnswer> = None;
    loop {
        match caller.poll_step() {
            Some(CallerStep::Send { request, method, params, .. }) => {
                let asked =
                    async { HostCall::ask(office, &who.id, &method, &params, stamp.cloned()).await?.reply().await };
                let answer = match limit {
                    Some(limit) => timeout(limit, asked).await.unwrap_or(Err(MissingReason::Timeout))?,
                    None => asked.await?,
                };
                caller.answered(request, answer.outcome(), now());
                last = Some(answer);
            }
            Some(CallerStep::Initialized) => {
                if let Some(answer) = &last {
                    office.tell(&who.id, answer.0.envelope.id(), "notifications/initialized", &json!({}));
                }
            }
            Some(step @ (CallerStep::Introduced(_) | CallerStep::End(..))) => return Ok((step, last)),
            // The host offers nothing that it could be asked, and an `HostCall` that is dropped withdraws itself.
            Some(CallerStep::Ask { .. } | CallerStep::Withdraw { .. }) => {}
            None => {
                let retry_at = caller.poll_timeout().ok_or(MissingReason::Unasked)?;
                sleep_until(retry_at.into()).await;
                caller.handle_timeout(now());
            }
        }
    }
}

fn caller_of(who: &Participant) -> Caller {
    Caller::after_handshake(profile(), Era::Legacy.with(&who.mcp))
}

fn profile() -> CallerProfile {
    CallerProfile::new(HandshakeParams { info: Some(text(&implementation())), ..HandshakeParams::default() })
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
