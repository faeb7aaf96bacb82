//! From the server to the room.

use std::time::Instant;

use salon_mcp::input::InputRequired;
use salon_mcp::listing::is_part;
use salon_mcp::{Era, Revision, RpcHead, code, downgrade, meta};
use salon_protocol::{LogLevel, Members, RpcError, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::call::{CallEffect, CallerRequest, LaneCall, LaneCallStage, Origin};
use super::own_requests::OwnRequest;
use super::upward::uri_of;
use super::{
    CallerId, LaneId, MAX_RECIPIENTS, Publish, PublishPurpose, Switchboard, SwitchboardAction, SwitchboardTimer,
};

impl Switchboard {
    /// A server's message, and the request on whose answer stream it came where there was one.
    pub(crate) fn said(&mut self, lane: LaneId, text: &str, related: Option<u64>, now: Instant) {
        if self.lost || !self.lanes.contains_key(&lane) {
            return;
        }
        let no_message = || tracing::debug!(guest = %self.setting.name, "upstream: message is not JSON-RPC, skipped");
        let Some(head) = RpcHead::read(text) else { return no_message() };
        match (head.id, head.method.as_deref()) {
            (Some(id), Some(method)) => self.server_asks(lane, id, method, head.params, related, now),
            (None, Some(method)) => self.forward_notification(lane, method, head.params, related, now),
            (Some(id), None) => match (self.number_of(lane, id), Members::parse(text)) {
                (Some(number), Some(message)) => self.answered(number, message, now),
                (Some(_), None) => no_message(),
                // Of a call that is over.
                (None, _) => {}
            },
            (None, None) => no_message(),
        }
    }

    /// A request of ours got no answer.
    pub(crate) fn unanswered(&mut self, lane: LaneId, number: u64, why: &str, error: Option<&str>, now: Instant) {
        if self.calls.get(&number).is_none_or(|call| call.lane != lane) {
            return;
        }
        let error = error.and_then(|error| RawValue::from_string(error.to_owned()).ok());
        match error {
            Some(error) => {
                let mut message = Members::default();
                message.set("jsonrpc", "2.0");
                message.set("error", &error);
                self.answered(number, message, now);
            }
            None => {
                let told = format!("the server of `{}` gave no answer: {why}", self.setting.name);
                // Whether it is only this answer or the whole server, a word with it tells.
                self.ping(now);
                self.note_withdrawn(number, now);
                self.fail(number, &RpcError::new(RpcError::INTERNAL, told), now);
            }
        }
    }

    /// The call that a number of ours in a message stands for, if that lane may speak of it.
    fn number_of(&self, lane: LaneId, id: &RawValue) -> Option<u64> {
        let number = id.get().parse().ok()?;
        self.calls
            .get(&number)
            .filter(|call| call.lane == lane && matches!(call.state, LaneCallStage::Sent))
            .map(|_| number)
    }

    fn answered(&mut self, number: u64, mut message: Members, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let lane = call.lane;
        let era = self.lanes.get(&lane).map_or(Era::Legacy, |lane| lane.era);
        let Origin::Caller(asked) = &mut call.origin else {
            return self.own_request_done(number, &message, now);
        };
        if !asked.corrected && self.setting.http && era == Era::Modern && has_code(&message, code::HEADER_MISMATCH) {
            asked.corrected = true;
            call.state = LaneCallStage::Relisting;
            return self.list_tools(now);
        }
        let translated = self.calls.get(&number).is_some_and(|call| self.is_translated(call));
        if let Some(wanted) = message.get("result").filter(|_| translated).and_then(InputRequired::read) {
            return self.input_required(number, wanted, now);
        }
        self.withdraw_asks_of_call(number);
        let Some(LaneCall { method, origin: Origin::Caller(asked), .. }) = self.remove(number) else { return };
        let revision = self.callers.get(&asked.reply.caller).map_or(Revision::ROOM, |caller| caller.revision);
        let is_older = !asked.modern && self.lanes.get(&lane).is_some_and(|lane| revision < lane.revision);
        if let Some(result) = message.get("result") {
            if translated {
                let plain = downgrade::result(&method, result, revision);
                message.set("result", &plain);
            } else if is_older && let Some(plain) = downgrade::older(&method, result, revision) {
                message.set("result", &plain);
            } else if asked.effect == CallEffect::Listen
                && let Some(patched) = meta::with_subscription(result, &asked.reply.id)
            {
                message.set("result", &patched);
            } else if asked.effect == CallEffect::Discover
                && let Some(narrowed) = self.narrowed(result)
            {
                message.set("result", &narrowed);
            }
        }
        if let Some(narrowed) = message.get("result").and_then(|result| self.setting.tools.narrowed(&method, result)) {
            message.set("result", &narrowed);
        }
        let succeeded = message.get("result").is_some();
        message.set("jsonrpc", "2.0");
        message.set("id", &asked.reply.id);
        let caller = asked.reply.caller.clone();
        self.reply(asked.reply, message.to_raw());
        for completion in asked.rounds.completions() {
            self.publish(Some(&caller), None, completion, PublishPurpose::Notice);
        }
        self.take_effect(lane, &caller, asked.effect, succeeded, now);
        self.close_if_done(lane);
    }

    /// A discovery that tells no more than is exposed; `None` when everything is.
    fn narrowed(&self, result: &RawValue) -> Option<Box<RawValue>> {
        let expose = self.setting.expose;
        if expose == crate::Expose::default() {
            return None;
        }
        let mut result = Members::parse(result.get())?;
        let mut capabilities = Members::parse(result.get("capabilities")?.get())?;
        capabilities.retain(|capability| expose.admits_capability(capability));
        result.set("capabilities", &capabilities);
        Some(result.to_raw())
    }

    /// Takes a call away, with everything that counted it.
    pub(super) fn remove(&mut self, number: u64) -> Option<LaneCall> {
        let call = self.calls.remove(&number)?;
        self.timers.forget(SwitchboardTimer::Call(number));
        if let Some(asked) = call.asked()
            && let Some(caller) = self.callers.get_mut(&asked.reply.caller)
        {
            caller.open = caller.open.saturating_sub(1);
        }
        Some(call)
    }

    /// Answers a call with an error of ours.
    pub(super) fn fail(&mut self, number: u64, told: &RpcError, now: Instant) {
        self.withdraw_asks_of_call(number);
        let Some(call) = self.remove(number) else { return };
        let lane = call.lane;
        match call.origin {
            Origin::OwnRequest(own_request) => self.own_request_failed(number, lane, own_request, &told.message, now),
            Origin::Caller(asked) => {
                let caller = asked.reply.caller.clone();
                self.reply(asked.reply.clone(), rpc::failure(&asked.reply.id, told));
                self.take_effect(lane, &caller, asked.effect, false, now);
            }
        }
        self.close_if_done(lane);
    }

    /// A call took too long, or has rested long enough.
    pub(super) fn call_due(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get(&number) else { return };
        let (lane, resting) = (call.lane, matches!(call.state, LaneCallStage::Resting));
        if resting {
            return self.retry(number, now);
        }
        if self.is_waiting_for_caller(number, lane) {
            return self.timers.set(SwitchboardTimer::Call(number), now + self.setting.timeout);
        }
        let seconds = self.setting.timeout.as_secs();
        let told = format!("the server of `{}` gave no answer and no progress for {seconds} s", self.setting.name);
        self.note_withdrawn(number, now);
        self.withdraw_from_server(number, Some("no answer and no progress in time"));
        self.fail(number, &RpcError::new(RpcError::INTERNAL, told).with_data(&json!({ "code": "timeout" })), now);
    }

    fn forward_notification(
        &mut self,
        lane: LaneId,
        method: &str,
        params: Option<&RawValue>,
        related: Option<u64>,
        now: Instant,
    ) {
        if method == "notifications/progress" {
            return self.progressed(lane, params, now);
        }
        // Whatever a server tells of, and by whatever subscription: `notifications/resources/updated` is about resources.
        if !self.setting.expose.admits(feature_of(method)) {
            return;
        }
        if self.era_of(lane) == Era::Modern && self.notify_subscriber(lane, method, params, related, now) {
            return;
        }
        match method {
            "notifications/cancelled" => self.ask_cancelled(lane, params),
            "notifications/message" => self.logged(lane, params, related),
            "notifications/resources/updated" => self.updated(lane, params),
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => self.list_changed(lane, method, params, now),
            _ => self.notify_lane(lane, method, params, related),
        }
    }

    fn progressed(&mut self, lane: LaneId, params: Option<&RawValue>, now: Instant) {
        let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
        let Some(number) = params.get("progressToken").and_then(|token| self.number_of(lane, token)) else { return };
        let Some(call) = self.calls.get(&number) else { return };
        if self.timers.has(SwitchboardTimer::Call(number)) {
            self.timers.set(SwitchboardTimer::Call(number), now + self.setting.timeout);
        }
        let told = call.asked().and_then(|asked| Some((asked.reply.clone(), asked.token.clone()?)));
        if let Some((reply, token)) = told {
            params.set("progressToken", &token);
            let payload = rpc::notification("notifications/progress", Some(&params.to_raw()));
            self.publish(Some(&reply.caller), Some(reply.envelope), payload, PublishPurpose::Progress(number));
        }
    }

    /// What a modern server says on a subscription goes to whose subscription it is.
    fn notify_subscriber(
        &mut self,
        lane: LaneId,
        method: &str,
        params: Option<&RawValue>,
        related: Option<u64>,
        now: Instant,
    ) -> bool {
        let named = match method {
            "notifications/cancelled" => {
                params.and_then(|params| Members::parse(params.get())).and_then(|mut params| params.remove("requestId"))
            }
            "notifications/message" => return false,
            _ => params.and_then(meta::subscription),
        };
        let named = named.and_then(|id| self.number_of(lane, &id)).or(related);
        let found = named.and_then(|number| Some((number, self.calls.get(&number).filter(|call| call.lane == lane)?)));
        let Some((number, call)) = found else { return method == "notifications/cancelled" };
        match (&call.origin, method) {
            (Origin::OwnRequest(OwnRequest::Listen), "notifications/subscriptions/acknowledged") => {
                self.listens(lane, number, now)
            }
            (Origin::OwnRequest(OwnRequest::Listen), "notifications/cancelled") => {
                self.remove(number);
                self.listen_ended(lane, number, "it was cancelled by the server", now);
            }
            (Origin::Caller(asked), _) if asked.effect == CallEffect::Listen => {
                let reply = asked.reply.clone();
                let patched = match method {
                    "notifications/cancelled" => {
                        params.and_then(|params| Members::parse(params.get())).map(|mut params| {
                            params.set("requestId", &reply.id);
                            params.to_raw()
                        })
                    }
                    _ => params.and_then(|params| meta::with_subscription(params, &reply.id)),
                };
                let payload = rpc::notification(method, patched.as_deref());
                self.publish(Some(&reply.caller), Some(reply.envelope), payload, PublishPurpose::Notice);
            }
            _ => return false,
        }
        true
    }

    fn logged(&mut self, lane: LaneId, params: Option<&RawValue>, related: Option<u64>) {
        let Some(level) = super::upward::level_of(params) else { return };
        let payload = rpc::notification("notifications/message", params);
        let admits = |wanted: Option<LogLevel>| wanted.is_some_and(|wanted| level >= wanted);
        let Some(known) = self.lanes.get(&lane) else { return };
        let modern = known.era == Era::Modern;
        // A server that takes no wishes has not heard what the only one who hears it wants.
        let passes = |caller: &CallerId| {
            let wanted = self.callers.get(caller).and_then(|caller| caller.level);
            self.server.has("logging") || wanted.is_none() || admits(wanted)
        };
        let related = related.and_then(|number| self.calls.get(&number)).filter(|call| call.lane == lane);
        if let Some(asked) = related.and_then(LaneCall::asked) {
            let wanted = if modern {
                asked.level
            } else {
                self.callers.get(&asked.reply.caller).and_then(|caller| caller.level)
            };
            let (to, envelope) = (asked.reply.caller.clone(), asked.reply.envelope.clone());
            if admits(wanted) || known.owner.as_ref().is_some_and(passes) {
                self.publish(Some(&to), Some(envelope), payload, PublishPurpose::Notice);
            }
            return;
        }
        if let Some(owner) = known.owner.clone().filter(|_| !modern) {
            if passes(&owner) {
                self.publish(Some(&owner), None, payload, PublishPurpose::Notice);
            }
            return;
        }
        // On one wire for all, a modern server's log lines belong to one of the calls that asked for them.
        let callers = self.callers.iter().filter(|(id, caller)| {
            let theirs = |call: &LaneCall| {
                call.lane == lane && call.asked().is_some_and(|asked| asked.reply.caller == **id && admits(asked.level))
            };
            if modern { self.calls.values().any(theirs) } else { admits(caller.level) }
        });
        let to = callers.map(|(id, _)| id.clone()).collect();
        self.publish_to_some(to, &payload);
    }

    fn updated(&mut self, lane: LaneId, params: Option<&RawValue>) {
        let plain = params.map(|params| meta::strip(params).unwrap_or_else(|| params.to_owned()));
        let payload = rpc::notification("notifications/resources/updated", plain.as_deref());
        if let Some(owner) =
            self.lanes.get(&lane).filter(|lane| lane.era == Era::Legacy).and_then(|lane| lane.owner.clone())
        {
            return self.publish(Some(&owner), None, payload, PublishPurpose::Notice);
        }
        let Some(uri) = uri_of(params) else { return };
        // A server may also name a part of what was subscribed to.
        let holds = |subscribed: &(LaneId, String)| subscribed.0 == lane && is_part(&uri, &subscribed.1);
        let callers = self.callers.iter().filter(|(_, caller)| caller.subscriptions.keys().any(holds));
        let to = callers.map(|(id, _)| id.clone()).collect();
        self.publish_to_some(to, &payload);
    }

    fn list_changed(&mut self, lane: LaneId, method: &str, params: Option<&RawValue>, now: Instant) {
        let plain = params.map(|params| meta::strip(params).unwrap_or_else(|| params.to_owned()));
        let owner = self.lanes.get(&lane).and_then(|lane| lane.owner.clone());
        if owner.is_some() {
            self.publish(owner.as_ref(), None, rpc::notification(method, plain.as_deref()), PublishPurpose::Notice);
        } else if lane == LaneId::BASE && feature_of(method) == "tools" {
            self.list_tools(now);
        } else if lane == LaneId::BASE {
            self.publish(None, None, rpc::notification(method, plain.as_deref()), PublishPurpose::Notice);
        } else {
            // A process of its own, whose lists are only of those that call it. A caller's own subscription says the same.
            let listens = |id: &CallerId| {
                let is_theirs = |asked: &CallerRequest| asked.reply.caller == *id && asked.effect == CallEffect::Listen;
                self.calls.values().any(|call| call.lane == lane && call.asked().is_some_and(is_theirs))
            };
            let callers = self.callers.iter().filter(|(id, caller)| caller.is_modern && !listens(id));
            let to = callers.map(|(id, _)| id.clone()).collect();
            self.publish_to_some(to, &rpc::notification(method, plain.as_deref()));
        }
    }

    /// Anything else is passed on where it is known whose it is.
    fn notify_lane(&mut self, lane: LaneId, method: &str, params: Option<&RawValue>, related: Option<u64>) {
        let related = related.and_then(|number| self.calls.get(&number)).filter(|call| call.lane == lane);
        let reply = related.and_then(LaneCall::asked).map(|asked| asked.reply.clone());
        let owner = self.lanes.get(&lane).and_then(|lane| lane.owner.clone());
        let payload = rpc::notification(method, params);
        match (reply, owner) {
            (Some(reply), _) => {
                self.publish(Some(&reply.caller), Some(reply.envelope), payload, PublishPurpose::Notice)
            }
            (None, Some(owner)) => self.publish(Some(&owner), None, payload, PublishPurpose::Notice),
            (None, None) => {
                tracing::debug!(guest = %self.setting.name, method, "upstream: notification without a subscriber, dropped")
            }
        }
    }

    fn publish_to_some(&mut self, to: Vec<CallerId>, payload: &RawValue) {
        let (together, apart) = self.addressees(to);
        for some in together.chunks(MAX_RECIPIENTS) {
            let (to, payload) = (some.to_vec(), payload.to_owned());
            let what = PublishPurpose::Notice;
            self.actions.push_back(SwitchboardAction::Publish(Publish {
                to,
                session: None,
                correlation: None,
                payload,
                what,
            }));
        }
        for one in apart {
            self.publish(Some(&one), None, payload.to_owned(), PublishPurpose::Notice);
        }
    }
}

fn has_code(message: &Members, wanted: i64) -> bool {
    let error = message.get("error").and_then(|error| Members::parse(error.get()));
    error.is_some_and(|error| error.get("code").is_some_and(|code| code.get() == wanted.to_string()))
}

/// What a notification is about.
fn feature_of(method: &str) -> &str {
    method.split('/').nth(1).unwrap_or_default()
}
