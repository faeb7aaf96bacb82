//! The conversation with an XMPP server as a component (XEP-0114) in multi-user chats (XEP-0045), without sockets.
//!
//! The bridge's own occupant listens; every participant of the room that speaks has an occupant of its own, its puppet. A message counts as sent when
//! the chat reflects it to the listener.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use salon_protocol::Timestamp;

use super::addresses::{local_part, nick_of};
use super::body::{FALLBACK, REPLY, with_body};
use super::element::XmlElement;
use super::message_ids::MessageIds;
use super::muc::{MucState, PendingAction, PuppetState};
use super::queries;
use crate::config::PlatformSecret;
use crate::platform::{
    ActionKey, PlatformAction, PlatformChannel, PlatformEvent, PlatformFailure, PlatformMessageId, PlatformReceipt,
};

pub(super) const STANZA_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";

/// What the session is told at its beginning.
#[derive(Debug, Clone)]
pub(super) struct XmppLogin {
    /// The component's own domain.
    pub(super) domain: String,
    pub(super) secret: PlatformSecret,
    /// The bridge's nick in chats.
    pub(super) nick: String,
    pub(super) channels: Vec<PlatformChannel>,
}

/// What the session wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum XmppOutput {
    Send(String),
    Event(PlatformChannel, PlatformEvent),
    Outcome(ActionKey, Result<PlatformReceipt, PlatformFailure>),
    /// The server does not accept the component.
    Refused(String),
    Closed(String),
}

pub(super) struct XmppSession {
    pub(super) login: XmppLogin,
    pub(super) ids: MessageIds,
    is_ready: bool,
    pub(super) mucs: BTreeMap<String, MucState>,
    pub(super) outputs: Vec<XmppOutput>,
}

impl XmppSession {
    pub(super) fn new(login: XmppLogin) -> Self {
        let mucs = login.channels.iter().map(|channel| (channel.0.to_lowercase(), MucState::default())).collect();
        Self { ids: MessageIds::new(&login.secret), login, is_ready: false, mucs, outputs: Vec::new() }
    }

    pub(super) fn start(&self) -> String {
        let to = quick_xml::escape::escape(self.login.domain.as_str());
        format!(
            "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' to='{to}'>"
        )
    }

    /// The server has opened its stream: the digest of its id and the secret shows who the component is (XEP-0114 §3).
    pub(super) fn opened(&mut self, stream: &XmlElement) -> Vec<XmppOutput> {
        let text = format!("{}{}", stream.attribute("id").unwrap_or_default(), self.login.secret.expose());
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        vec![XmppOutput::Send(XmlElement::new("handshake").text(&hex).written())]
    }

    pub(super) fn stanza(&mut self, stanza: &XmlElement, now: Timestamp) -> Vec<XmppOutput> {
        match stanza.name.as_str() {
            "handshake" => {
                self.is_ready = true;
                for channel in self.login.channels.clone() {
                    self.enter(&channel, None);
                }
            }
            "stream:error" => {
                let reason = stanza.children.first().map_or("stream error", |child| &child.name).to_owned();
                let reason = stanza.find("text").map_or(reason.clone(), |text| format!("{reason}: {}", text.text));
                self.outputs.push(match self.is_ready {
                    false => XmppOutput::Refused(reason),
                    true => XmppOutput::Closed(reason),
                });
            }
            "presence" => self.presence(stanza),
            "message" => self.message(stanza, now),
            "iq" => self.outputs.extend(queries::answer(stanza).map(|answer| XmppOutput::Send(answer.written()))),
            _ => {}
        }
        std::mem::take(&mut self.outputs)
    }

    /// Tries again to enter chats that could not be entered.
    pub(super) fn retry_entries(&mut self) -> Vec<XmppOutput> {
        let is_out =
            |channel: &&PlatformChannel| self.mucs.get(&channel.0.to_lowercase()).is_some_and(|muc| !muc.is_joined);
        let out: Vec<PlatformChannel> = self.login.channels.iter().filter(is_out).cloned().collect();
        for channel in out.iter().filter(|_| self.is_ready).cloned().collect::<Vec<_>>() {
            self.enter(&channel, None);
        }
        std::mem::take(&mut self.outputs)
    }

    /// Begins an action. Its outcome follows.
    pub(super) fn act(&mut self, channel: &PlatformChannel, action: PlatformAction) -> Vec<XmppOutput> {
        let key = action.key().clone();
        let domain = self.login.domain.clone();
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return Vec::new() };
        if !muc.is_joined {
            let failure = PlatformFailure::Offline { reason: format!("not in {channel}") };
            return vec![XmppOutput::Outcome(key, Err(failure))];
        }
        if let PlatformAction::RemovePuppet { participant, .. } = &action {
            let local = local_part(participant);
            if let Some(puppet) = muc.puppets.remove(&local) {
                let gone = XmlElement::new("presence")
                    .with("type", "unavailable")
                    .with("from", &format!("{local}@{domain}/salon"))
                    .with("to", &format!("{channel}/{}", puppet.nick));
                self.outputs.push(XmppOutput::Send(gone.written()));
            }
            self.outputs.push(XmppOutput::Outcome(key, Ok(PlatformReceipt::default())));
            return std::mem::take(&mut self.outputs);
        }
        let speaker = match &action {
            PlatformAction::Send { speaker, .. }
            | PlatformAction::Edit { speaker, .. }
            | PlatformAction::Retract { speaker, .. } => speaker.clone(),
            PlatformAction::RemovePuppet { .. } => None,
        };
        let puppet = speaker.as_ref().map(|speaker| local_part(&speaker.id));
        muc.pending = Some(PendingAction { action, puppet: puppet.clone(), is_sent: false });
        match (&puppet, &speaker) {
            (Some(local), Some(speaker)) if !muc.puppets.get(local).is_some_and(|puppet| puppet.is_joined) => {
                let nick = nick_of(speaker);
                let state = PuppetState { nick, is_joined: false, attempts: 0 };
                muc.puppets.entry(local.clone()).or_insert(state);
                self.enter(channel, Some(local.clone()));
            }
            _ => self.send_pending(channel),
        }
        std::mem::take(&mut self.outputs)
    }
    pub(super) fn send_pending(&mut self, channel: &PlatformChannel) {
        let domain = self.login.domain.clone();
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        let Some(pending) = &mut muc.pending else { return };
        let local = pending.puppet.clone().unwrap_or_else(|| "salon".into());
        let id = self.ids.id(pending.action.key());
        let message = XmlElement::new("message")
            .with("type", "groupchat")
            .with("from", &format!("{local}@{domain}/salon"))
            .with("to", &channel.0)
            .with("id", &id);
        let sender_id = |target: &PlatformMessageId| muc.aliases.by_message.get(target).cloned();
        let message = match &pending.action {
            PlatformAction::Send { text, reply_to, .. } => {
                let message = with_body(message, text);
                match reply_to {
                    // XEP-0461: in a chat the id is the one that the chat gave.
                    Some(id) => {
                        message.child(XmlElement::of("reply", REPLY).with("id", id.as_str()).with("to", &channel.0))
                    }
                    None => message,
                }
            }
            PlatformAction::Edit { text, target, .. } => {
                let original = sender_id(target).unwrap_or_else(|| target.0.clone());
                with_body(message, text)
                    .child(XmlElement::of("replace", "urn:xmpp:message-correct:0").with("id", &original))
            }
            PlatformAction::Retract { target, .. } => {
                let fallback = "This message was deleted, but your client does not support that.";
                message
                    .child(XmlElement::of("retract", "urn:xmpp:message-retract:1").with("id", target.as_str()))
                    .child(XmlElement::of("fallback", FALLBACK).with("for", "urn:xmpp:message-retract:1"))
                    .child(XmlElement::new("body").text(fallback))
            }
            PlatformAction::RemovePuppet { .. } => return,
        };
        pending.is_sent = true;
        let message = message.child(XmlElement::of("origin-id", "urn:xmpp:sid:0").with("id", &id));
        self.outputs.push(XmppOutput::Send(message.written()));
    }

    /// The chat and nick of an occupant's address.
    pub(super) fn occupant(&self, address: &str) -> Option<(PlatformChannel, String)> {
        let (room, nick) = address.split_once('/').unwrap_or((address, ""));
        let channel = self.login.channels.iter().find(|channel| channel.0.eq_ignore_ascii_case(room))?;
        Some((channel.clone(), nick.to_owned()))
    }
}

pub(super) fn error_condition(stanza: &XmlElement) -> String {
    let error = stanza.find("error");
    let condition = error.and_then(|error| {
        error.children.iter().find(|child| child.attribute("xmlns") == Some(STANZA_ERRORS) && child.name != "text")
    });
    condition.map_or("error", |condition| &condition.name).to_owned()
}
