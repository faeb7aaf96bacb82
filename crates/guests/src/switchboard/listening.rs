//! One standing subscription to a modern server, for the changes of its lists and for callers that subscribe the legacy way.
//!
//! It cannot be changed, so a changed request is a new one; the old is dropped when the new one has been acknowledged, and nothing is
//! missed in between.

use std::time::{Duration, Instant};

use salon_mcp::Era;
use salon_protocol::{Members, RpcError};
use serde_json::value::RawValue;

use super::own_requests::{OwnRequest, may_subscribe, too_many_subscriptions};
use super::upward::uri_of;
use super::{LaneId, ReplyAddress, SubscriptionState, Switchboard, SwitchboardTimer};

/// The longest wait before a subscription that ended is made again.
const MAX_LISTEN_DELAY: Duration = Duration::from_secs(60);

/// What news there is of a server's features, in the words of a subscription's filter.
const NEWS: [(&str, &str); 4] = [
    ("tools", "toolsListChanged"),
    ("prompts", "promptsListChanged"),
    ("resources", "resourcesListChanged"),
    ("resources", "resourceSubscriptions"),
];

/// How a lane listens.
#[derive(Debug, Default)]
pub(super) struct LaneListen {
    /// The subscription that is acknowledged.
    current: Option<u64>,
    /// The one that is to take its place.
    pending: Option<u64>,
    /// Who is answered when that is acknowledged.
    waiting: Vec<ReplyAddress>,
    /// Who came meanwhile.
    queued: Vec<ReplyAddress>,
    /// Something changed meanwhile.
    stale: bool,
    failures: u32,
    /// The server has no such thing.
    unsupported: bool,
}

impl Switchboard {
    /// Subscribes to what is wanted on a lane now.
    pub(super) fn listen(&mut self, lane: LaneId, now: Instant) {
        // A server that also speaks the legacy era sends its notifications there, unless it is another process there.
        let is_heard_elsewhere = self.setting.room_era() == Era::Legacy && self.setting.http;
        if self.era_of(lane) != Era::Modern || is_heard_elsewhere || self.lost {
            return;
        }
        let filter = self.subscription_filter(lane);
        let Some(known) = self.lanes.get_mut(&lane).filter(|lane| lane.is_open) else { return };
        let listening = &mut known.listening;
        if listening.pending.is_some() {
            listening.stale = true;
            return;
        }
        self.timers.forget(SwitchboardTimer::Listen(lane));
        let Some(filter) = filter.filter(|_| !listening.unsupported) else {
            let (current, queued) = (listening.current.take(), std::mem::take(&mut listening.queued));
            if let Some(current) = current {
                self.withdraw_from_server(current, Some("nothing is wanted any more"));
                self.remove(current);
            }
            for reply in queued {
                self.reply_empty(reply);
            }
            return;
        };
        let mut params = Members::default();
        params.set("notifications", &filter);
        let number = self.run(lane, OwnRequest::Listen, "subscriptions/listen", Some(&params.to_raw()), now);
        if let Some(known) = self.lanes.get_mut(&lane) {
            known.listening.pending = Some(number);
            known.listening.waiting = std::mem::take(&mut known.listening.queued);
        }
    }

    /// What to subscribe to on a lane; `None` for nothing.
    fn subscription_filter(&self, lane: LaneId) -> Option<Members> {
        let mut filter = Members::default();
        for (feature, key) in NEWS.into_iter().filter(|(_, key)| key.ends_with("ListChanged")) {
            if self.setting.expose.admits(feature) && self.server.does(feature, "listChanged") {
                filter.set(key, &true);
            }
        }
        let uris = self.callers.values().flat_map(|caller| caller.subscriptions.keys()).filter(|(of, _)| *of == lane);
        let uris: std::collections::BTreeSet<_> = uris.map(|(_, uri)| uri).collect();
        if !uris.is_empty() {
            filter.set("resourceSubscriptions", &uris);
        }
        (!filter.is_empty()).then_some(filter)
    }

    /// A modern caller's subscription without the news of what is not exposed; `None` when it can stay as it is.
    pub(super) fn exposed_notification(&self, params: &RawValue) -> Option<Box<RawValue>> {
        let mut params = Members::parse(params.get())?;
        let mut filter = Members::parse(params.get("notifications")?.get())?;
        let hidden =
            |key: &str| NEWS.iter().any(|(feature, news)| *news == key && !self.setting.expose.admits(feature));
        if !filter.iter().any(|(key, _)| hidden(key)) {
            return None;
        }
        filter.retain(|key| !hidden(key));
        params.set("notifications", &filter);
        Some(params.to_raw())
    }

    /// A caller's subscription to a resource, the legacy way.
    pub(super) fn change_subscription(
        &mut self,
        lane: LaneId,
        reply: &ReplyAddress,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) -> Result<(), RpcError> {
        let wrong = || RpcError::new(RpcError::INVALID_PARAMS, "`uri` must be a string");
        let key = (lane, uri_of(params).ok_or_else(wrong)?);
        let caller = self.callers.entry(reply.caller.clone()).or_default();
        let changed = if method == "resources/subscribe" {
            if !may_subscribe(caller.subscriptions.len()) {
                return Err(too_many_subscriptions());
            }
            caller.subscriptions.insert(key.clone(), SubscriptionState::Made).is_none()
        } else {
            caller.subscriptions.remove(&key).is_some()
        };
        let others =
            self.callers.iter().any(|(id, caller)| *id != reply.caller && caller.subscriptions.contains_key(&key));
        let Some(known) = self.lanes.get_mut(&lane) else { return Ok(()) };
        if known.listening.unsupported {
            return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "the server has no subscriptions"));
        }
        if !changed || (others && known.listening.pending.is_none()) {
            self.reply_empty(reply.clone());
            return Ok(());
        }
        known.listening.queued.push(reply.clone());
        self.listen(lane, now);
        Ok(())
    }

    /// The server has taken the subscription.
    pub(super) fn listens(&mut self, lane: LaneId, number: u64, now: Instant) {
        let Some(known) = self.lanes.get_mut(&lane).filter(|lane| lane.listening.pending == Some(number)) else {
            return;
        };
        let listening = &mut known.listening;
        listening.pending = None;
        listening.failures = 0;
        let (before, stale) = (listening.current.replace(number), std::mem::take(&mut listening.stale));
        let waiting = std::mem::take(&mut listening.waiting);
        // It lasts from now on.
        self.timers.forget(SwitchboardTimer::Call(number));
        for reply in waiting {
            self.reply_empty(reply);
        }
        if let Some(before) = before {
            self.withdraw_from_server(before, Some("replaced"));
            self.remove(before);
        }
        if stale {
            self.listen(lane, now);
        }
    }

    /// The server will not have it.
    pub(super) fn listen_refused(&mut self, lane: LaneId, number: u64, error: Option<&RawValue>, now: Instant) {
        let told = error.and_then(|error| Members::parse(error.get()));
        let unknown = told.is_some_and(|error| error.get("code").is_some_and(|code| code.get() == "-32601"));
        if let Some(known) = self.lanes.get_mut(&lane) {
            known.listening.unsupported |= unknown;
        }
        self.listen_ended(lane, number, "the server refused it", now);
    }

    /// A subscription is over, and is made again a little later.
    pub(super) fn listen_ended(&mut self, lane: LaneId, number: u64, why: &str, now: Instant) {
        let Some(known) = self.lanes.get_mut(&lane) else { return };
        let listening = &mut known.listening;
        let mut refused = Vec::new();
        if listening.pending == Some(number) {
            listening.pending = None;
            refused = std::mem::take(&mut listening.waiting);
        } else if listening.current == Some(number) {
            listening.current = None;
        } else {
            return;
        }
        let pause =
            Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(listening.failures)).min(MAX_LISTEN_DELAY);
        listening.failures += 1;
        match !listening.unsupported && !self.lost {
            true => self.timers.set(SwitchboardTimer::Listen(lane), now + pause),
            false => self.timers.forget(SwitchboardTimer::Listen(lane)),
        }
        for reply in refused {
            self.refuse(reply, &RpcError::new(RpcError::INTERNAL, format!("the subscription was not made: {why}")));
        }
    }
}
