//! The guest's own requests: the list of tools, a word to see whether the server is there, and what several callers want together.

use std::time::{Duration, Instant};

use salon_mcp::headers::ToolHeaders;
use salon_mcp::listing::{Listing, read_page};
use salon_mcp::{Era, meta};
use salon_protocol::{LogLevel, Members, RpcError, rpc};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::call::{CallEffect, CallerRequest, LaneCall, LaneCallStage, Origin};
use super::upward::{level_of, uri_of};
use super::{
    CallerId, LaneId, PublishPurpose, ReplyAddress, SubscriptionState, Switchboard, SwitchboardAction, SwitchboardTimer,
};

/// Names of tools that an announcement carries.
const MAX_ANNOUNCED: usize = 256;
/// Pages of tools that are read, and tools that are remembered.
const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 10_000;
/// Subscriptions of one caller.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// How often a server that nothing is heard of is asked whether it is there. A child's end is heard at once.
const PING_EVERY: Duration = Duration::from_secs(30);

/// A request of the guest's own.
#[derive(Debug)]
pub(super) enum OwnRequest {
    /// A page of the list of tools.
    Tools(Box<ToolsReading>),
    /// Is the server there?
    Ping,
    /// A standing subscription, see [`listening`](super::listening).
    Listen,
    /// Something whose answer changes nothing.
    Duty,
}

/// A list of tools that is being read.
#[derive(Debug, Default)]
pub(super) struct ToolsReading {
    names: Vec<String>,
    headers: ToolHeaders,
    pages: usize,
}

/// The names of the tools, as last read.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    names: Vec<String>,
    /// It is being read.
    reading: bool,
    /// It has changed again meanwhile.
    stale: bool,
}

impl ToolNames {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Switchboard {
    /// Makes a request of our own.
    pub(super) fn run(
        &mut self,
        lane: LaneId,
        own_request: OwnRequest,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) -> u64 {
        let params = match self.era_of(lane) {
            Era::Legacy => params.map(ToOwned::to_owned),
            Era::Modern => {
                let nobody = super::empty();
                let info = self.ours.info.as_deref().unwrap_or(&nobody);
                meta::upgrade(params, meta::RequesterMeta { capabilities: &self.ours.capabilities, info, level: None })
            }
        };
        let number = self.fresh();
        let origin = Origin::OwnRequest(own_request);
        let call = LaneCall { lane, method: method.into(), params, origin, state: LaneCallStage::Waiting };
        self.calls.insert(number, call);
        self.dispatch(number, now);
        number
    }

    pub(super) fn own_request_done(&mut self, number: u64, message: &Members, now: Instant) {
        let Some(LaneCall { lane, origin: Origin::OwnRequest(own_request), .. }) = self.remove(number) else { return };
        match (own_request, message.get("result")) {
            (OwnRequest::Tools(listing), Some(result)) => self.read_tools(*listing, result, now),
            (OwnRequest::Tools(_), None) => {
                tracing::warn!(guest = %self.setting.name, "upstream: tools/list failed, offering no tools");
                self.listed(None, now);
            }
            // An error is a sign of life as well.
            (OwnRequest::Ping, _) => self.schedule_ping(now),
            (OwnRequest::Listen, Some(_)) => self.listen_ended(lane, number, "it was ended by the server", now),
            (OwnRequest::Listen, None) => self.listen_refused(lane, number, message.get("error"), now),
            (OwnRequest::Duty, _) => {}
        }
    }

    pub(super) fn own_request_failed(
        &mut self,
        number: u64,
        lane: LaneId,
        own_request: OwnRequest,
        why: &str,
        now: Instant,
    ) {
        match own_request {
            OwnRequest::Tools(_) => self.listed(None, now),
            OwnRequest::Ping if !self.lost => self.ended(LaneId::BASE, why, now),
            OwnRequest::Listen => self.listen_ended(lane, number, why, now),
            OwnRequest::Ping | OwnRequest::Duty => {}
        }
    }

    pub(super) fn schedule_ping(&mut self, now: Instant) {
        if self.setting.http {
            self.timers.set(SwitchboardTimer::Ping, now + PING_EVERY);
        }
    }

    /// Sees whether a server behind a URL is still there.
    pub(super) fn ping(&mut self, now: Instant) {
        let asked = self.calls.values().any(|call| matches!(call.origin, Origin::OwnRequest(OwnRequest::Ping)));
        if !self.setting.http || self.lost || asked {
            return;
        }
        let method = match self.era_of(LaneId::BASE) {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        self.run(LaneId::BASE, OwnRequest::Ping, method, None, now);
    }

    /// Reads the list of tools again.
    pub(super) fn list_tools(&mut self, now: Instant) {
        if std::mem::replace(&mut self.catalogue.reading, true) {
            self.catalogue.stale = true;
        } else if self.server.has("tools") && self.setting.expose.tools {
            self.run(LaneId::BASE, OwnRequest::Tools(Box::default()), Listing::Tools.method(), None, now);
        } else {
            self.listed(Some(ToolsReading::default()), now);
        }
    }

    fn read_tools(&mut self, mut listing: ToolsReading, result: &RawValue, now: Instant) {
        let Some((tools, next)) = read_page(Listing::Tools, result) else { return self.listed(None, now) };
        let admitted = tools.into_iter().filter(|tool| self.setting.tools.admits(&tool.name));
        for tool in admitted.take(MAX_TOOLS - listing.names.len().min(MAX_TOOLS)) {
            listing.headers.learn(&tool.raw);
            listing.names.push(tool.name.into());
        }
        listing.pages += 1;
        match next {
            Some(cursor) if listing.pages < MAX_PAGES && listing.names.len() < MAX_TOOLS => {
                let mut params = Members::default();
                params.set("cursor", &cursor);
                self.run(
                    LaneId::BASE,
                    OwnRequest::Tools(Box::new(listing)),
                    Listing::Tools.method(),
                    Some(&params.to_raw()),
                    now,
                );
            }
            _ => self.listed(Some(listing), now),
        }
    }

    /// The list has been read, or cannot be.
    fn listed(&mut self, listing: Option<ToolsReading>, now: Instant) {
        self.catalogue.reading = false;
        if self.lost {
            return;
        }
        if let Some(listing) = listing {
            (self.catalogue.names, self.headers) = (listing.names, listing.headers);
        }
        if std::mem::take(&mut self.catalogue.stale) {
            return self.list_tools(now);
        }
        self.announce();
        self.actions.push_back(SwitchboardAction::Listed);
        for number in self.calls_where(|call| matches!(call.state, LaneCallStage::Relisting)) {
            self.retry(number, now);
        }
    }

    /// Tells everybody the names of the tools.
    pub(super) fn announce(&mut self) {
        if self.me.is_none() || !self.setting.expose.tools {
            return;
        }
        let names = &self.catalogue.names[..self.catalogue.names.len().min(MAX_ANNOUNCED)];
        let mut params = Members::default();
        params.set("tools", names);
        if names.len() < self.catalogue.names.len() {
            params.set("more", &true);
        }
        let payload = rpc::notification(Listing::Tools.changed(), Some(&params.to_raw()));
        self.publish(None, None, payload, PublishPurpose::Notice);
    }

    /// A shared server logs at the most talkative level that anybody asked for; everybody hears their own.
    pub(super) fn set_level(
        &mut self,
        lane: LaneId,
        reply: &ReplyAddress,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Result<(), RpcError> {
        let Some(level) = level_of(params.as_deref()) else {
            // What it is asked for here is the server's to refuse.
            return self.open_call(lane, CallerRequest::new(reply.clone()), "logging/setLevel", params, now);
        };
        let caller = self.callers.entry(reply.caller.clone()).or_default();
        let before = caller.level.replace(level);
        let wanted = self.wanted_level();
        let Some(known) = self.lanes.get_mut(&lane) else { return Ok(()) };
        if known.level.is_some() && known.level == wanted {
            self.reply_empty(reply.clone());
            return Ok(());
        }
        known.level = wanted;
        let asked = CallerRequest { effect: CallEffect::Level(before), ..CallerRequest::new(reply.clone()) };
        self.open_call(lane, asked, "logging/setLevel", Some(level_params(wanted.unwrap_or(level))), now)
    }

    fn wanted_level(&self) -> Option<LogLevel> {
        self.callers.values().filter_map(|caller| caller.level).min()
    }

    /// Somebody who wanted log lines has gone.
    pub(super) fn lower_level(&mut self, now: Instant) {
        let wanted = self.wanted_level();
        let Some(lane) = self.shared.get(&Era::Legacy).copied() else { return };
        let Some(known) = self.lanes.get_mut(&lane) else { return };
        // A server that takes no wishes has none to be changed: `level` is `None` then.
        if let Some(wanted) = wanted
            && known.level.is_some_and(|level| level != wanted)
        {
            known.level = Some(wanted);
            self.run(lane, OwnRequest::Duty, "logging/setLevel", Some(&level_params(wanted)), now);
        }
    }

    /// Takes note of a caller's level: a modern server hears it with every request, others may never hear of it.
    pub(super) fn remember_level(&mut self, reply: &ReplyAddress, params: Option<&RawValue>) -> Result<(), RpcError> {
        let wrong = || {
            RpcError::new(
                RpcError::INVALID_PARAMS,
                "`level` must be one of debug, info, notice, warning, error, critical, alert, emergency",
            )
        };
        let level = level_of(params).ok_or_else(wrong)?;
        self.callers.entry(reply.caller.clone()).or_default().level = Some(level);
        self.reply_empty(reply.clone());
        Ok(())
    }

    /// A subscription on a lane that others use too: the server hears of a resource once, however many want it.
    pub(super) fn subscribe(
        &mut self,
        lane: LaneId,
        reply: &ReplyAddress,
        method: &str,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Result<(), RpcError> {
        let Some(uri) = uri_of(params.as_deref()) else {
            return self.open_call(lane, CallerRequest::new(reply.clone()), method, params, now);
        };
        let key = (lane, uri.clone());
        let others: Vec<_> = self.callers.iter().filter(|(id, _)| **id != reply.caller).collect();
        let wanted = others.iter().any(|(_, caller)| caller.subscriptions.contains_key(&key));
        let made = others.iter().any(|(_, caller)| caller.subscriptions.get(&key) == Some(&SubscriptionState::Made));
        let caller = self.callers.entry(reply.caller.clone()).or_default();
        let (effect, known) = if method == "resources/subscribe" {
            if caller.subscriptions.len() >= MAX_SUBSCRIPTIONS {
                return Err(too_many_subscriptions());
            }
            // Wanted from now on: another's leaving must not end it before the server has answered.
            let standing = if made { SubscriptionState::Made } else { SubscriptionState::Pending };
            caller.subscriptions.insert(key, standing);
            (CallEffect::Subscribe(uri), made)
        } else {
            caller.subscriptions.remove(&key);
            (CallEffect::None, wanted)
        };
        if known {
            self.reply_empty(reply.clone());
            return Ok(());
        }
        self.open_call(lane, CallerRequest { effect, ..CallerRequest::new(reply.clone()) }, method, params, now)
    }

    /// What the end of a call changes.
    pub(super) fn take_effect(
        &mut self,
        lane: LaneId,
        caller: &CallerId,
        effect: CallEffect,
        succeeded: bool,
        now: Instant,
    ) {
        match effect {
            CallEffect::Subscribe(uri) if !succeeded => self.drop_subscription(lane, caller, &uri, now),
            CallEffect::Subscribe(uri) => {
                let known = self.callers.get_mut(caller).and_then(|caller| caller.subscriptions.get_mut(&(lane, uri)));
                if let Some(standing) = known {
                    *standing = SubscriptionState::Made;
                }
            }
            CallEffect::Level(before) if !succeeded => {
                if let Some(caller) = self.callers.get_mut(caller) {
                    caller.level = before;
                }
                if let Some(lane) = self.lanes.get_mut(&lane) {
                    lane.level = None;
                }
            }
            _ => {}
        }
    }

    pub(super) fn drop_subscription(&mut self, lane: LaneId, caller: &CallerId, uri: &str, now: Instant) {
        let key = (lane, uri.to_owned());
        if self.callers.get_mut(caller).is_some_and(|caller| caller.subscriptions.remove(&key).is_some()) {
            self.release_subscription(lane, uri, now);
        }
    }

    /// Ends a subscription at the server when nobody holds it any more.
    pub(super) fn release_subscription(&mut self, lane: LaneId, uri: &str, now: Instant) {
        let key = (lane, uri.to_owned());
        let wanted = self.callers.values().any(|caller| caller.subscriptions.contains_key(&key));
        if wanted || self.lost || !self.lanes.contains_key(&lane) {
            return;
        }
        match self.era_of(lane) {
            Era::Modern => self.listen(lane, now),
            Era::Legacy => {
                let params = to_raw_value(&json!({ "uri": uri })).expect("a string can be written");
                self.run(lane, OwnRequest::Duty, "resources/unsubscribe", Some(&params), now);
            }
        }
    }

    /// Takes a request back from the server without forgetting it here.
    pub(super) fn withdraw_from_server(&mut self, number: u64, reason: Option<&(impl Serialize + ?Sized)>) {
        let Some(call) = self.calls.get(&number).filter(|call| matches!(call.state, LaneCallStage::Sent)) else {
            return;
        };
        let lane = call.lane;
        // Over HTTP a modern server knows it by our hanging up.
        if !self.setting.http || self.era_of(lane) == Era::Legacy {
            let mut params = Members::default();
            params.set("requestId", &number);
            if let Some(reason) = reason {
                params.set("reason", reason);
            }
            self.send(lane, rpc::notification("notifications/cancelled", Some(&params.to_raw())));
        }
        // A legacy server that does not heed the word must not keep the request's place for ever either.
        if self.setting.http {
            self.actions.push_back(SwitchboardAction::Abandon { lane, request: number });
        }
    }
}

pub(super) fn too_many_subscriptions() -> RpcError {
    RpcError::new(RpcError::INTERNAL, format!("{MAX_SUBSCRIPTIONS} resources are subscribed to already"))
}

pub(super) fn may_subscribe(count: usize) -> bool {
    count < MAX_SUBSCRIPTIONS
}

fn level_params(level: LogLevel) -> Box<RawValue> {
    to_raw_value(&json!({ "level": level.word() })).expect("a word can be written")
}
