//! Sorting what the gateway sends: echoes and refusals to the publisher, answers and progress to the caller, and everything
//! to the ring.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use salon_protocol::{Code, Envelope, EnvelopeId, Kind, Message, Participant, PresenceEvent, Refusal, Timestamp};
use serde::Deserialize;
use tokio::time::Instant;

use crate::connection::{Delayed, Order, OrderPurpose, RATE_LIMIT_DELAY, RoomConnection, STORAGE_RETRY_DELAY};
use crate::shared::Link;
use crate::{Event, PublishError};

impl RoomConnection {
    pub(crate) fn hear(&mut self, text: &str) {
        let envelope = match Envelope::restore(text) {
            Ok(envelope) => Arc::new(envelope),
            Err(refusal) => {
                tracing::warn!(topic = %self.shared.topic, %refusal, "room: received text is not an envelope, skipped");
                return;
            }
        };
        match envelope.kind() {
            Kind::System => self.notice(envelope),
            Kind::Presence => {
                let Some(presence) = envelope.presence() else { return };
                let mut roster = self.shared.roster.lock();
                let participant = &presence.participant;
                match presence.event {
                    PresenceEvent::Heartbeat => return,
                    // A join says nothing of what it is doing, and ends nothing of it.
                    PresenceEvent::Join => {
                        let status = roster.get(&participant.id).and_then(|before| before.status.clone());
                        let joined = Participant { status, ..participant.clone() };
                        drop(roster.insert(participant.id.clone(), joined));
                    }
                    PresenceEvent::Status => {
                        if let Some(known) = roster.get_mut(&participant.id) {
                            known.status = participant.status.clone();
                        }
                    }
                    PresenceEvent::Leave => drop(roster.remove(&participant.id)),
                }
                drop(roster);
                self.shared.ghosts.hear(&presence);
                self.pass_on(envelope);
            }
            Kind::Mcp => {
                // An envelope that was sent again is echoed again: by this library, or by a program that gave it the same id.
                if self.shared.is_own(envelope.from()) && !self.own.is_new(envelope.id()) {
                    if let Some(order) = self.forget(envelope.id()) {
                        order.purpose.tell(Ok(envelope));
                    }
                    return;
                }
                self.answered(&envelope);
                let order = self.forget(envelope.id());
                self.pass_on(envelope.clone());
                if let Some(order) = order {
                    order.purpose.tell(Ok(envelope));
                }
            }
            _ => self.pass_on(envelope),
        }
    }

    fn pass_on(&self, envelope: Arc<Envelope>) {
        self.shared.directory.observe(&envelope);
        self.shared.show(Event::Envelope(envelope));
    }

    fn forget(&mut self, id: &EnvelopeId) -> Option<Order> {
        for orders in [&mut self.unheard, &mut self.held_back] {
            if let Some(at) = orders.iter().position(|order| order.id == *id) {
                return orders.remove(at);
            }
        }
        None
    }

    /// Gives an answer, or its progress, to the waiting caller.
    fn answered(&self, envelope: &Envelope) {
        if !envelope.concerns(&self.shared.id) && !envelope.to().iter().any(|id| self.shared.is_own(id)) {
            return;
        }
        let mut calls = self.shared.calls.lock();
        match envelope.message() {
            Some(Message::Response { .. }) => {
                if self.entry_options.share && envelope.to_session() == Some(&self.shared.session) {
                    self.shared.session_keepers.lock().insert(envelope.from().clone());
                }
                let Some(request) = envelope.correlation() else { return };
                let is_expected = calls.get(request).is_some_and(|waiting| waiting.callee == *envelope.from());
                if let Some(waiting) = is_expected.then(|| calls.remove(request)).flatten() {
                    waiting.answer(envelope);
                }
            }
            Some(Message::Request { .. }) => {
                let cause = envelope.correlation().and_then(|request| calls.get(request));
                if let Some(waiting) = cause.filter(|waiting| waiting.callee == *envelope.from()) {
                    waiting.extend_for_input();
                }
            }
            Some(Message::Notification { method }) if &**method == "notifications/progress" => {
                let by_request = envelope.correlation().and_then(|request| calls.get(request));
                let waiting = by_request.filter(|waiting| waiting.callee == *envelope.from());
                match waiting {
                    Some(waiting) => waiting.tell(envelope),
                    // Not every callee names the request; the token does.
                    None => calls.values().filter(|w| w.callee == *envelope.from()).for_each(|w| w.tell(envelope)),
                }
            }
            _ => {}
        }
    }

    /// The gateway's notice about an envelope that was sent.
    fn notice(&mut self, envelope: Arc<Envelope>) {
        #[derive(Deserialize)]
        struct SystemNotice {
            event: String,
            #[serde(default)]
            code: String,
            #[serde(default)]
            message: String,
            #[serde(default)]
            details: Details,
            /// Of a call that is held for approval: until when.
            #[serde(default)]
            expires: Option<Timestamp>,
        }
        #[derive(Deserialize, Default)]
        struct Details {
            #[serde(default)]
            passing: bool,
        }
        let Ok(notice) = serde_json::from_str::<SystemNotice>(envelope.payload()) else { return };
        match &*notice.event {
            "error" => {}
            "ready" => return self.recovered(),
            "held" => {
                #[derive(Deserialize)]
                struct Sent {
                    ts: Timestamp,
                }
                // By the gateway's clock alone.
                let sent = serde_json::from_str::<Sent>(envelope.text()).ok();
                let millis = notice.expires.zip(sent).map_or(0, |(expires, sent)| expires.0.saturating_sub(sent.ts.0));
                let calls = self.shared.calls.lock();
                if let Some(call) = envelope.correlation().and_then(|id| calls.get(id)) {
                    call.hold(notice.message, Duration::from_millis(millis));
                }
                return;
            }
            "ghost.entered" | "ghost.left" => {
                if let Some(order) = envelope.correlation().cloned().and_then(|id| self.forget(&id)) {
                    order.purpose.tell(Ok(envelope));
                }
                return;
            }
            _ => return,
        }
        let code = Code::ALL.into_iter().find(|code| code.word() == notice.code).unwrap_or(Code::Internal);
        let Some(id) = envelope.correlation() else {
            // Not about anything that was sent: what the reader was to be given next is not kept any more.
            if code == Code::NotFound {
                return self.shared.missed();
            }
            // Nothing fails by this: an envelope that waits for its echo gets a notice of its own.
            if code == Code::Closing && notice.details.passing {
                let why: Arc<str> = notice.message.into();
                self.is_stalled = true;
                self.shared.link.send_replace(Link::Stalled { why: why.clone() });
                return self.shared.show(Event::Outage(why));
            }
            return self.shared.show(Event::Envelope(envelope));
        };
        // Neither is a no for good.
        let wait = match code {
            Code::RateLimited => Some(RATE_LIMIT_DELAY),
            Code::Closing => Some(STORAGE_RETRY_DELAY),
            _ => None,
        };
        let is_unheard = self.unheard.iter().any(|order| order.id == *id);
        let is_call = self.shared.calls.lock().contains_key(id);
        if let Some(wait) = wait {
            if is_unheard {
                let anew = || Delayed { due: Instant::now() + wait, refused: HashSet::new() };
                self.delayed.get_or_insert_with(anew).refused.insert(id.clone());
                return;
            }
            // It was sent twice, and the other one is stored: its echo has come.
            if is_call || self.own.knows(id) {
                return;
            }
        }
        if !is_unheard && !is_call {
            return self.shared.show(Event::Envelope(envelope));
        }
        self.refused(Refusal::new(code, notice.message).regarding(Some(id.clone())));
    }

    /// What could not be stored can be again.
    fn recovered(&mut self) {
        if self.is_stalled {
            if let Some(delayed) = &mut self.delayed {
                delayed.due = Instant::now();
            }
            self.go_on();
        }
    }

    /// The gateway can store again: it has announced that, or let us in, which implies it.
    pub(crate) fn go_on(&mut self) {
        self.shared.link.send_replace(Link::Live);
        if std::mem::take(&mut self.is_stalled) {
            self.shared.show(Event::Recovered);
        }
    }

    /// The room does not take something, or cannot have it answered.
    pub(crate) fn refused(&mut self, refusal: Refusal) {
        let Some(id) = refusal.regarding.clone() else { return };
        if let Some(waiting) = self.shared.calls.lock().remove(&id) {
            waiting.fail(refusal.clone().into());
        }
        if let Some(order) = self.forget(&id) {
            if let OrderPurpose::Reenter(ghost) = &order.purpose {
                tracing::warn!(topic = %self.shared.topic, %ghost, %refusal, "bridge: ghost refused after a lost connection, left out");
                self.shared.ghosts.forget(ghost);
            }
            order.purpose.tell(Err(PublishError::Refused(refusal)));
        }
    }
}
