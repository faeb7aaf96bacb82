//! From the room to the server.

use std::time::Instant;

use salon_mcp::handshake::{self, HandshakeParams};
use salon_mcp::{Cancelled, Era, Revision, code, headers, meta, same_id};
use salon_protocol::{Envelope, Kind, LogLevel, Members, Message, PresenceEvent, RpcError, SESSION_ENDED_METHOD, rpc};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::call::{CallEffect, CallerRequest, LaneCall, LaneCallStage, Origin};
use super::{
    CallerId, LaneId, MAX_CALLS, MAX_CALLS_OF_ONE, MAX_KEPT, PublishPurpose, ReplyAddress, SMALL_BYTES, Switchboard,
    SwitchboardAction, SwitchboardTimer,
};

impl Switchboard {
    /// An envelope of the room.
    pub(crate) fn heard(&mut self, envelope: &Envelope, now: Instant) {
        match envelope.kind() {
            Kind::Presence => {
                if let Some(presence) = envelope.presence()
                    && presence.event == PresenceEvent::Leave
                {
                    self.left(&presence.participant.id, now);
                }
            }
            Kind::System => {
                if let Some(asked) = envelope.correlation() {
                    self.ask_unanswerable(asked, envelope.payload(), now);
                }
            }
            Kind::Mcp => self.addressed(envelope, now),
            _ => {}
        }
    }

    fn addressed(&mut self, envelope: &Envelope, now: Instant) {
        let for_me = self.me.as_ref().is_some_and(|me| envelope.to().contains(me) && envelope.from() != me);
        let Some(mut message) = Members::parse(envelope.payload()).filter(|_| for_me) else { return };
        let params = message.remove("params");
        match envelope.message() {
            Some(Message::Request { method, .. }) => {
                let Some(id) = message.remove("id") else { return };
                let reply = ReplyAddress { caller: CallerId::of(envelope), envelope: envelope.id().clone(), id };
                if let Err(failure) = self.requested(&reply, method, params, now) {
                    self.refuse(reply, &failure);
                }
            }
            Some(Message::Notification { method }) => self.told(envelope, method, params.as_deref(), now),
            Some(Message::Response { .. }) => self.ask_answered(envelope, &message, now),
            None => {}
        }
    }

    fn requested(
        &mut self,
        reply: &ReplyAddress,
        method: &str,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Result<(), RpcError> {
        self.admit(&reply.caller, now)?;
        match params.as_deref().and_then(meta::revision) {
            Some(asked) => self.requested_modern(reply, method, params, &asked, now),
            None => self.requested_legacy(reply, method, params, now),
        }
    }

    fn requested_modern(
        &mut self,
        reply: &ReplyAddress,
        method: &str,
        params: Option<Box<RawValue>>,
        asked: &str,
        now: Instant,
    ) -> Result<(), RpcError> {
        if !self.setting.speaks(Era::Modern) {
            let told = format!("`{}` does not speak MCP {asked}; it begins with `initialize`", self.setting.name);
            let supported = Revision::LEGACY.map(Revision::date);
            let data = json!({ "supported": supported, "requested": asked });
            return Err(RpcError::new(code::UNSUPPORTED_REVISION, told).with_data(&data));
        }
        if method == "initialize" {
            return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("MCP {asked} has no `initialize`")));
        }
        self.check_exposed(method, params.as_deref())?;
        let said = params.as_deref().map(meta::said).unwrap_or_default();
        let isolated = said.capabilities.as_deref().is_some_and(handshake::wants_isolation);
        let lane = self.lane_for(&reply.caller, Era::Modern, isolated)?;
        if let Some(caller) = self.callers.get_mut(&reply.caller) {
            caller.is_modern = true;
        }
        let effect = match method {
            "subscriptions/listen" => CallEffect::Listen,
            "server/discover" => CallEffect::Discover,
            _ => CallEffect::None,
        };
        let level = params.as_deref().and_then(meta::level);
        let params = match effect {
            CallEffect::Listen => params.map(|params| self.exposed_notification(&params).unwrap_or(params)),
            _ => params,
        };
        let asked = CallerRequest { modern: true, level, effect, ..CallerRequest::new(reply.clone()) };
        self.open_call(lane, asked, method, params, now)
    }

    fn requested_legacy(
        &mut self,
        reply: &ReplyAddress,
        method: &str,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Result<(), RpcError> {
        match method {
            "initialize" => {
                self.introduce(reply, params.as_deref());
                return Ok(());
            }
            "ping" => {
                self.reply_empty(reply.clone());
                return Ok(());
            }
            _ => self.check_exposed(method, params.as_deref())?,
        }
        let params = self.without_introduction(reply, params);
        let era = self.setting.room_era();
        let isolated = self.callers.get(&reply.caller).is_some_and(|known| known.handshake_params.wants_isolation());
        let lane = self.lane_for(&reply.caller, era, isolated)?;
        let shared = !self.is_own(lane);
        match (method, era) {
            ("logging/setLevel", Era::Modern) => return self.remember_level(reply, params.as_deref()),
            // Some servers log all the same.
            ("logging/setLevel", Era::Legacy) if !self.server.has("logging") => {
                return self.remember_level(reply, params.as_deref());
            }
            ("logging/setLevel", Era::Legacy) if shared => return self.set_level(lane, reply, params, now),
            ("resources/subscribe" | "resources/unsubscribe", Era::Modern) => {
                return self.change_subscription(lane, reply, method, params.as_deref(), now);
            }
            ("resources/subscribe" | "resources/unsubscribe", Era::Legacy) if shared => {
                return self.subscribe(lane, reply, method, params, now);
            }
            (_, Era::Modern) if method.starts_with("tasks/") => {
                return Err(RpcError::new(
                    RpcError::METHOD_NOT_FOUND,
                    "tasks are not carried between revisions of MCP",
                ));
            }
            ("tasks/list", Era::Legacy) if shared => {
                let told = format!("`{}` is shared, and its list of tasks would be everybody's", self.setting.name);
                return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, told));
            }
            _ => {}
        }
        let mut asked = CallerRequest::new(reply.clone());
        let params = match era {
            Era::Legacy => params,
            Era::Modern => {
                let caller = self.callers.entry(reply.caller.clone()).or_default();
                asked.level = caller.level;
                Some(self.upgrade(&reply.caller, params.as_deref())?)
            }
        };
        self.open_call(lane, asked, method, params, now)
    }

    /// Takes note of what a legacy request says of its caller, as modern requests do, and leaves it out: a caller that makes one call
    /// needs no handshake for its questions.
    fn without_introduction(&mut self, reply: &ReplyAddress, params: Option<Box<RawValue>>) -> Option<Box<RawValue>> {
        let said = meta::said(params.as_deref()?);
        let Some(capabilities) = said.capabilities.filter(|said| said.get().starts_with('{')) else { return params };
        let handshake_params = HandshakeParams { requested_revision: None, capabilities, info: said.info };
        self.retire(&reply.caller, &handshake_params);
        self.callers.entry(reply.caller.clone()).or_default().handshake_params = handshake_params;
        params.map(|params| meta::strip(&params).unwrap_or(params))
    }

    fn upgrade(&self, caller: &CallerId, params: Option<&RawValue>) -> Result<Box<RawValue>, RpcError> {
        let caller = self.callers.get(caller);
        let handshake_params = caller.map_or(&self.ours, |caller| &caller.handshake_params);
        let capabilities = handshake_params.modern_capabilities();
        let info = handshake_params.info.as_deref().or(self.ours.info.as_deref());
        let nobody = super::empty();
        let asker = meta::RequesterMeta {
            capabilities: &capabilities,
            info: info.unwrap_or(&nobody),
            level: caller.and_then(|caller| caller.level),
        };
        let wrong = || RpcError::new(RpcError::INVALID_PARAMS, "`params` and `params._meta` must be objects");
        meta::upgrade(params, asker).ok_or_else(wrong)
    }

    /// Answers a handshake from the server's own.
    fn introduce(&mut self, reply: &ReplyAddress, params: Option<&RawValue>) {
        let handshake_params = HandshakeParams::read(params);
        let revision = handshake::agree(handshake_params.requested_revision.as_deref(), self.server.revision());
        self.retire(&reply.caller, &handshake_params);
        let own = self.setting.isolated || handshake_params.wants_isolation();
        let caller = self.callers.entry(reply.caller.clone()).or_default();
        (caller.handshake_params, caller.revision) = (handshake_params, revision);
        let expose = self.setting.expose;
        let keep = |capability: &str| match capability {
            // Whose task it is, only a connection of one's own can tell.
            "tasks" => own,
            other => expose.admits_capability(other),
        };
        // Which log lines a caller wants is taken note of here, where the server does not.
        let introduction = self.server.introduce(revision, keep, &["logging"]);
        self.reply(reply.clone(), rpc::response(&reply.id, &introduction));
    }

    fn check_exposed(&self, method: &str, params: Option<&RawValue>) -> Result<(), RpcError> {
        let feature = match method.split_once('/') {
            Some(("completion", _)) => completed_feature(params),
            Some((feature, _)) => feature.to_owned(),
            None => return Ok(()),
        };
        if !self.setting.tools.admits_request(method, params) {
            let told = format!("`{}` does not offer this tool here: its owner does not allow it", self.setting.name);
            return Err(RpcError::new(RpcError::INVALID_PARAMS, told));
        }
        if self.setting.expose.admits(&feature) {
            return Ok(());
        }
        let told = format!(
            "`{}` does not offer `{method}` here: its owner exposes only {}",
            self.setting.name, self.setting.expose
        );
        Err(RpcError::new(RpcError::METHOD_NOT_FOUND, told))
    }

    /// Takes a call on. One that cannot be taken on has no effect.
    pub(super) fn open_call(
        &mut self,
        lane: LaneId,
        asked: CallerRequest,
        method: &str,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Result<(), RpcError> {
        let (caller, effect) = (asked.reply.caller.clone(), asked.effect.clone());
        let opened = self.take_on(lane, asked, method, params, now);
        if opened.is_err() {
            self.take_effect(lane, &caller, effect, false, now);
        }
        opened
    }

    fn take_on(
        &mut self,
        lane: LaneId,
        mut asked: CallerRequest,
        method: &str,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Result<(), RpcError> {
        let busy = |told: String| RpcError::new(RpcError::INTERNAL, told).with_data(&json!({ "code": "rate_limited" }));
        if self.open_calls(&asked.reply.caller.participant) >= MAX_CALLS_OF_ONE {
            return Err(busy(format!("{MAX_CALLS_OF_ONE} calls of yours are open already; wait for an answer")));
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(busy(format!("`{}` has {MAX_CALLS} open calls already; try again later", self.setting.name)));
        }
        let size = params.as_ref().map_or(0, |params| params.get().len());
        if size > SMALL_BYTES && size + self.kept() > MAX_KEPT {
            return Err(busy(format!("`{}` has too much to do already; try again later", self.setting.name)));
        }
        self.callers.entry(asked.reply.caller.clone()).or_default().open += 1;
        asked.token = params.as_deref().and_then(meta::progress_token);
        let origin = Origin::Caller(Box::new(asked));
        let call = LaneCall { lane, method: method.into(), params, origin, state: LaneCallStage::Waiting };
        let number = self.fresh();
        self.calls.insert(number, call);
        if self.lanes.get(&lane).is_some_and(|lane| lane.is_open) {
            self.dispatch(number, now);
        }
        Ok(())
    }

    /// Bytes of parameters that are kept.
    fn kept(&self) -> usize {
        self.calls.values().filter_map(|call| call.params.as_ref()).map(|params| params.get().len()).sum()
    }

    /// Sends a call as it stands, with the input that the server wanted.
    pub(super) fn dispatch(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let params = match &call.origin {
            Origin::Caller(asked) => asked.rounds.params(call.params.clone()),
            Origin::OwnRequest(_) => call.params.clone(),
        };
        let era = self.lanes.get(&call.lane).map_or(Era::Legacy, |lane| lane.era);
        let asks_progress = call.asked().is_some_and(|asked| asked.token.is_some());
        let lasts = call.asked().is_some_and(|asked| asked.effect == CallEffect::Listen);
        let patched = params.as_deref().filter(|_| asks_progress);
        let patched = patched.and_then(|params| meta::with_progress_token(params, &number));
        let params = patched.as_deref().or(params.as_deref());
        let text = rpc::request(number, &call.method, params);
        let headers = match era {
            Era::Modern if self.setting.http => headers::headers(&call.method, params, &self.headers),
            _ => Vec::new(),
        };
        call.state = LaneCallStage::Sent;
        if era == Era::Legacy {
            call.params = None;
        }
        let lane = call.lane;
        match lasts {
            true => self.timers.forget(SwitchboardTimer::Call(number)),
            false => self.timers.set(SwitchboardTimer::Call(number), now + self.setting.timeout),
        }
        self.actions.push_back(SwitchboardAction::Send { lane, request: Some(number), text: text.into(), headers });
    }

    fn told(&mut self, envelope: &Envelope, method: &str, params: Option<&RawValue>, now: Instant) {
        let id = CallerId::of(envelope);
        let Some(caller) = self.callers.get(&id) else { return };
        match method {
            SESSION_ENDED_METHOD if id.session.is_some() => self.remove_caller(&id, now),
            "notifications/cancelled" => self.cancelled_by_caller(&id, envelope, params, now),
            "notifications/progress" => self.ask_progressed(envelope.from(), params),
            "notifications/roots/list_changed" | "notifications/tasks/status" => {
                // A lane that is still being opened will ask for what it wants to know.
                let lane = caller.lanes.get(&Era::Legacy).copied();
                if let Some(lane) = lane.filter(|lane| self.lanes.get(lane).is_some_and(|lane| lane.is_open)) {
                    self.send(lane, rpc::notification(method, params));
                }
            }
            // `initialized` among them: the server's own handshake is long done.
            _ => {}
        }
    }

    fn cancelled_by_caller(&mut self, caller: &CallerId, envelope: &Envelope, params: Option<&RawValue>, now: Instant) {
        let Some(cancelled) = Cancelled::read(params) else { return };
        let theirs =
            |asked: &CallerRequest| asked.reply.caller == *caller && same_id(asked.reply.id.get(), cancelled.id.get());
        let mut found = self.calls_where(|call| call.asked().is_some_and(theirs));
        // One caller may use an id twice at once (it sits at two places); then only the envelope tells which is meant.
        if let Some(correlation) = envelope.correlation() {
            let exact =
                |number: &&u64| self.calls[number].asked().is_some_and(|asked| asked.reply.envelope == *correlation);
            if let Some(number) = found.iter().find(exact).copied() {
                found = vec![number];
            }
        }
        if let Some(number) = found.pop() {
            self.cancel(number, cancelled.reason, now);
        }
    }

    /// Withdraws a call from the server and forgets it.
    pub(super) fn cancel(&mut self, number: u64, reason: Option<&RawValue>, now: Instant) {
        let Some(lane) = self.calls.get(&number).map(|call| call.lane) else { return };
        self.note_withdrawn(number, now);
        self.withdraw_from_server(number, reason);
        self.withdraw_asks_of_call(number);
        let effect = call_effect(self.remove(number));
        if let Some((caller, CallEffect::Subscribe(uri))) = effect {
            self.drop_subscription(lane, &caller, &uri, now);
        }
        self.close_if_done(lane);
    }

    pub(super) fn publish_notice(&mut self, to: &CallerId, method: &str, params: &RawValue) {
        self.publish(Some(to), None, rpc::notification(method, Some(params)), PublishPurpose::Notice);
    }
}

fn call_effect(call: Option<LaneCall>) -> Option<(CallerId, CallEffect)> {
    match call?.origin {
        Origin::Caller(asked) => Some((asked.reply.caller, asked.effect)),
        Origin::OwnRequest(_) => None,
    }
}

/// What a completion is asked for.
fn completed_feature(params: Option<&RawValue>) -> String {
    #[derive(Deserialize)]
    struct Params {
        r#ref: Ref,
    }
    #[derive(Deserialize)]
    struct Ref {
        r#type: String,
    }
    let read = params.and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
    match read.map(|read| read.r#ref.r#type).as_deref() {
        Some("ref/prompt") => "prompts".into(),
        Some("ref/resource") => "resources".into(),
        _ => "completion".into(),
    }
}

/// The level that `logging/setLevel` asks for.
pub(super) fn level_of(params: Option<&RawValue>) -> Option<LogLevel> {
    let params = Members::parse(params?.get())?;
    serde_json::from_str::<String>(params.get("level")?.get()).ok()?.parse().ok()
}

/// The resource that a subscription names.
pub(super) fn uri_of(params: Option<&RawValue>) -> Option<String> {
    let params = Members::parse(params?.get())?;
    serde_json::from_str(params.get("uri")?.get()).ok()
}
