//! The other sessions of the same participant.
//!
//! To their callees they are one client: with one handshake, one level of log lines, one subscription to a resource. What one of them
//! undoes of it another makes again for itself as soon as it overhears it; nothing is shared but the room, so it does not matter on which node they are.
//! Handshakes are made again with the next call only, for two clients would undo each other's for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use salon_mcp::Era;
use salon_protocol::{Envelope, EnvelopeId, LogLevel, Message, ParticipantId, RpcError, RpcId};
use serde_json::value::RawValue;

use super::asks::{MAX_ASKS, MAX_ASKS_EACH, too_many};
use super::calls::{CALL_TIMEOUT, CallPurpose, DoorCall};
use super::incoming::text_of;
use super::{Door, DoorRequest, DoorTimer};

/// How long a question waits that may be for another session: until that has certainly given it up, had it no call open.
const SIBLING_GRACE: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(10));
/// How long it waits at the most. A session that was killed leaves its calls open.
const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Calls of theirs that are remembered, the newest.
const MAX_CALLS: usize = 1024;

/// What is known of the others.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    /// Whether one was ever there.
    pub(super) seen: bool,
    /// What they have asked and was not answered yet.
    calls: HashMap<EnvelopeId, Theirs>,
    /// How many calls of theirs there were.
    heard: u64,
    /// Questions that are theirs to answer, as far as can be told.
    doubts: BTreeMap<u64, Doubt>,
}

/// A call of another session.
#[derive(Debug)]
struct Theirs {
    number: u64,
    callee: ParticipantId,
}

/// A question that may be for another session.
#[derive(Debug)]
struct Doubt {
    from: ParticipantId,
    envelope: EnvelopeId,
    id: RpcId,
    /// The call that it names.
    call: Option<EnvelopeId>,
    /// When it is given up in any case.
    until: Instant,
}

impl Doubt {
    /// Whether it may be about a call. Without a name it may be about any to whom it comes from.
    fn is_about(&self, call: &EnvelopeId, callee: &ParticipantId) -> bool {
        self.from == *callee && self.call.as_ref().is_none_or(|named| named == call)
    }
}

impl Siblings {
    /// Somebody has gone, or started over.
    pub(super) fn forget(&mut self, who: &ParticipantId) {
        self.calls.retain(|_, call| call.callee != *who);
        self.doubts.retain(|_, doubt| doubt.from != *who);
    }

    /// Somebody takes a question back.
    pub(super) fn withdrawn(&mut self, from: &ParticipantId, id: &RpcId) {
        self.doubts.retain(|_, doubt| doubt.from != *from || doubt.id != *id);
    }

    fn overhear(&mut self, envelope: &Envelope) {
        self.seen = true;
        match (envelope.message(), envelope.correlation(), envelope.to()) {
            // Nothing is asked about a subscription, which lasts.
            (Some(Message::Request { method, .. }), _, [who]) if **method != *"subscriptions/listen" => {
                self.note_call(envelope.id(), who);
            }
            (Some(Message::Response { .. }), Some(question), _) => {
                self.doubts.retain(|_, doubt| doubt.envelope != *question);
            }
            _ => {}
        }
    }

    fn note_call(&mut self, call: &EnvelopeId, callee: &ParticipantId) {
        if self.calls.len() >= MAX_CALLS {
            let oldest = self.calls.iter().min_by_key(|(_, call)| call.number).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| self.calls.remove(&oldest));
        }
        self.heard += 1;
        self.calls.insert(call.clone(), Theirs { number: self.heard, callee: callee.clone() });
    }

    /// Whether a call is open that a question may be about.
    fn is_open(&self, doubt: &Doubt) -> bool {
        match &doubt.call {
            Some(named) => self.calls.get(named).is_some_and(|call| doubt.is_about(named, &call.callee)),
            None => self.calls.values().any(|call| call.callee == doubt.from),
        }
    }
}

impl Door {
    /// Leaves a question to the others that is not for this session. `None` if it may be for them: the first answer counts, so it is refused
    /// in their place only when they have certainly given it up.
    pub(super) fn leave_to_siblings(
        &mut self,
        envelope: &Envelope,
        id: &RpcId,
        now: Instant,
    ) -> Option<Result<Box<RawValue>, RpcError>> {
        let from = envelope.from();
        // It may be of a session that has called before this one began, of which nothing was heard here.
        let call = envelope.correlation().filter(|call| !self.stamps.made(call.as_str()));
        if call.is_none() && !self.siblings.seen {
            return Some(Err(self.not_called()));
        }
        let doubts = &self.siblings.doubts;
        if doubts.len() >= MAX_ASKS || doubts.values().filter(|doubt| doubt.from == *from).count() >= MAX_ASKS_EACH {
            return Some(Err(too_many()));
        }
        let doubt = Doubt {
            from: from.clone(),
            envelope: envelope.id().clone(),
            id: id.clone(),
            call: call.cloned(),
            until: now + GIVE_UP_AFTER,
        };
        let number = self.fresh();
        self.siblings.doubts.insert(number, doubt);
        self.doubt_later(number, now);
        None
    }

    /// Gives the others some time for a question.
    fn doubt_later(&mut self, number: u64, now: Instant) {
        if let Some(doubt) = self.siblings.doubts.get(&number) {
            self.timers.set(DoorTimer::Doubt(number), doubt.until.min(now + SIBLING_GRACE));
        }
    }

    /// A call is over, which may be one of theirs. What was asked with it has some time left.
    pub(super) fn siblings_call_over(&mut self, call: &EnvelopeId, now: Instant) {
        let Some(Theirs { callee, .. }) = self.siblings.calls.remove(call) else { return };
        let doubts = self.siblings.doubts.iter().filter(|(_, doubt)| doubt.is_about(call, &callee));
        for number in doubts.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.doubt_later(number, now);
        }
    }

    /// Nobody has answered a question.
    pub(super) fn doubt_due(&mut self, number: u64, now: Instant) {
        let Some(doubt) = self.siblings.doubts.get(&number) else { return };
        // It has no other deadline while its call is open.
        if now < doubt.until && self.siblings.is_open(doubt) {
            return self.doubt_later(number, now);
        }
        let Some(doubt) = self.siblings.doubts.remove(&number) else { return };
        let error = self.not_called();
        self.reply(&doubt.from, &doubt.envelope, &doubt.id, &Err(error), now);
    }

    fn not_called(&self) -> RpcError {
        let told = format!("`{}` can be asked only by those whom it calls", self.options.me);
        RpcError::new(RpcError::METHOD_NOT_FOUND, told)
    }

    /// Something this participant said itself, by this session or another.
    pub(super) fn overhear_own(&mut self, envelope: &Envelope, now: Instant) {
        if self.stamps.made(envelope.id().as_str()) {
            return;
        }
        self.siblings.overhear(envelope);
        if let (Some(Message::Notification { method }), Some(call)) = (envelope.message(), envelope.correlation())
            && **method == *"notifications/cancelled"
        {
            self.siblings_call_over(call, now);
        }
        let (Some(Message::Request { method, .. }), [who]) = (envelope.message(), envelope.to()) else { return };
        let params = envelope.params().and_then(|params| RawValue::from_string(params.to_owned()).ok());
        let params = params.as_deref();
        match &**method {
            "initialize" => self.greeted_elsewhere(who, params),
            "resources/unsubscribe" => {
                if let Some(uri) = text_of(params, "uri") {
                    self.unsubscribed_elsewhere(who, &uri, now);
                }
            }
            "logging/setLevel" => {
                if let Some(level) = level_of(params) {
                    self.level_set_elsewhere(who, level, now);
                }
            }
            _ => {}
        }
    }

    fn unsubscribed_elsewhere(&mut self, who: &ParticipantId, uri: &str, now: Instant) {
        let is_about = |call: &&DoorCall| match &call.purpose {
            CallPurpose::Client(asked) => {
                call.to == *who && asked.uri.as_ref().is_some_and(|(_, theirs)| theirs == uri)
            }
            _ => false,
        };
        // What the client is just asking for is newer than what it has.
        let asking = self.calls.values().rev().filter(is_about).find_map(|call| match &*call.method {
            "resources/subscribe" => Some(true),
            "resources/unsubscribe" => Some(false),
            _ => None,
        });
        let one = (who.clone(), uri.to_owned());
        let is_wanted = asking.unwrap_or_else(|| self.subscriptions.contains(&one)) || self.listens_to(who, uri);
        if let Some(profile) = self.profile.clone().filter(|_| is_wanted) {
            self.duty(who, "resources/subscribe", uri, &profile, now);
        }
    }

    /// Subscribes again where another's handshake may have ended it.
    pub(super) fn renew_subscriptions(&mut self, who: &ParticipantId, now: Instant) {
        let Some(profile) = self.profile.clone() else { return };
        if self.peers.get(who).is_none_or(|peer| peer.era_for(profile.era()) == Era::Modern) {
            return;
        }
        let listened = self.listens.values().flat_map(|listening| listening.uris());
        let theirs = listened.chain(&self.subscriptions).filter(|(owner, _)| owner == who);
        let theirs: BTreeSet<String> = theirs.map(|(_, uri)| uri.clone()).collect();
        for uri in theirs {
            self.duty(who, "resources/subscribe", &uri, &profile, now);
        }
    }

    fn level_set_elsewhere(&mut self, who: &ParticipantId, level: LogLevel, now: Instant) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        peer.note_level(level, true);
        let wanted = self.finest_level(who);
        if let (Some(wanted), Some(profile)) = (wanted.filter(|wanted| *wanted < level), self.profile.clone()) {
            self.want_level(who, wanted, &profile, now);
        }
    }

    /// The most talkative level that the client wants of somebody, now.
    pub(super) fn finest_level(&self, who: &ParticipantId) -> Option<LogLevel> {
        let is_open = |call: &&DoorCall| call.to == *who && matches!(call.purpose, CallPurpose::Client(_));
        let open = self.calls.values().filter(is_open).filter_map(|call| call.profile.level);
        open.chain(self.level).min()
    }

    /// Takes note of a level that a client asks its one participant for by itself.
    pub(super) fn note_level(&mut self, request: &DoorRequest, who: &ParticipantId) {
        if let Some(level) = level_of(request.params.as_deref()) {
            self.level = Some(level);
            if let Some(peer) = self.peers.get_mut(who) {
                peer.note_level(level, false);
            }
        }
    }
}

/// The level that a request asks for.
pub(super) fn level_of(params: Option<&RawValue>) -> Option<LogLevel> {
    text_of(params, "level").and_then(|level| level.parse().ok())
}
