//! The other sessions of the same participant.
//!
//! To those whom they call they are one client: with one handshake, one level of log lines, one subscription to a resource. What one of them
//! undoes of it another makes again for itself as soon as it overhears it; nothing is shared but the room, so it does not matter on which node they are.
//! Handshakes are made again with the next call only, for two clients would undo each other's for ever.

use std::time::Instant;

use salon_protocol::{Envelope, LogLevel, Message, ParticipantId};
use serde_json::value::RawValue;

use super::calls::{Call, Errand};
use super::incoming::text_of;
use super::{Door, Request};
use crate::mcp::Era;

impl Door {
    /// Something this participant said itself, by this session or another.
    pub(super) fn overhear_own(&mut self, envelope: &Envelope, now: Instant) {
        if self.stamps.made(envelope.id().as_str()) {
            return;
        }
        self.has_siblings = true;
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
        let is_about = |call: &&Call| match &call.errand {
            Errand::Client(asked) => call.to == *who && asked.uri.as_ref().is_some_and(|(_, theirs)| theirs == uri),
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
        if let Some(manner) = self.manner.clone().filter(|_| is_wanted) {
            self.duty(who, "resources/subscribe", uri, &manner, now);
        }
    }

    /// Subscribes again where another's handshake may have ended it.
    pub(super) fn renew_subscriptions(&mut self, who: &ParticipantId, now: Instant) {
        let Some(manner) = self.manner.clone() else { return };
        if self.peers.get(who).is_none_or(|peer| peer.era_for(manner.era()) == Era::Modern) {
            return;
        }
        let listened = self.listens.values().flat_map(|listening| listening.uris());
        let theirs = listened.chain(&self.subscriptions).filter(|(owner, _)| owner == who);
        let theirs: std::collections::BTreeSet<String> = theirs.map(|(_, uri)| uri.clone()).collect();
        for uri in theirs {
            self.duty(who, "resources/subscribe", &uri, &manner, now);
        }
    }

    fn level_set_elsewhere(&mut self, who: &ParticipantId, level: LogLevel, now: Instant) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        peer.note_level(level, true);
        let wanted = self.finest_level(who);
        if let (Some(wanted), Some(manner)) = (wanted.filter(|wanted| *wanted < level), self.manner.clone()) {
            self.want_level(who, wanted, &manner, now);
        }
    }

    /// The most talkative level that the client wants of somebody, now.
    pub(super) fn finest_level(&self, who: &ParticipantId) -> Option<LogLevel> {
        let is_open = |call: &&Call| call.to == *who && matches!(call.errand, Errand::Client(_));
        let open = self.calls.values().filter(is_open).filter_map(|call| call.manner.level);
        open.chain(self.level).min()
    }

    /// Takes note of a level that a client asks its one participant for by itself.
    pub(super) fn note_level(&mut self, request: &Request, who: &ParticipantId) {
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
