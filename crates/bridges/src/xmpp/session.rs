//! The conversation with an XMPP server as a component (XEP-0114) in multi-user chats (XEP-0045), without sockets.
//!
//! The bridge's own occupant listens; every participant of the room that speaks has an occupant of its own, its puppet. A message counts as sent when
//! the chat reflects it to the listener.

use std::collections::{BTreeMap, HashMap, VecDeque};

use aws_lc_rs::digest;
use salon_protocol::{ParticipantId, Timestamp};

use super::body::{FALLBACK, REPLY, read_body, with_body};
use super::element::XmlElement;
use crate::platform::{
    ActionKey, AuthorOrigin, PlatformAction, PlatformAuthor, PlatformChannel, PlatformEvent, PlatformFailure,
    PlatformMessage, PlatformMessageId, PlatformReceipt, PlatformUserId, Speaker,
};

const MUC: &str = "http://jabber.org/protocol/muc";
const MUC_USER: &str = "http://jabber.org/protocol/muc#user";
const MUC_OWNER: &str = "http://jabber.org/protocol/muc#owner";
const STANZA_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";
const DISCO_INFO: &str = "http://jabber.org/protocol/disco#info";
/// Message ids that are remembered for corrections, replies and retractions.
const MAX_ALIASES: usize = 4_000;
/// Occupants of a chat that are remembered.
const MAX_OCCUPANTS: usize = 5_000;
/// Messages that the chat is asked for after an entry.
const HISTORY_STANZAS: &str = "100";

/// What the session is told at its beginning.
#[derive(Debug, Clone)]
pub(super) struct XmppLogin {
    /// The component's own domain.
    pub(super) domain: String,
    pub(super) secret: String,
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

/// A multi-user chat.
#[derive(Debug, Default)]
struct MucState {
    is_joined: bool,
    is_caught_up: bool,
    /// By nick: the real address, where the chat shows it.
    occupants: BTreeMap<String, Option<String>>,
    /// By the local part of the puppet's address.
    puppets: HashMap<String, PuppetState>,
    /// From the id that a sender gave to the id that the chat gave, and back.
    aliases: MessageAliases,
    /// The action that waits for its reflection.
    pending: Option<PendingAction>,
}

#[derive(Debug)]
struct PuppetState {
    nick: String,
    is_joined: bool,
    attempts: u32,
}

#[derive(Debug)]
struct PendingAction {
    action: PlatformAction,
    puppet: Option<String>,
    is_sent: bool,
}

/// Ids of messages, both ways.
#[derive(Debug, Default)]
struct MessageAliases {
    by_sender_id: HashMap<String, PlatformMessageId>,
    by_message: HashMap<PlatformMessageId, String>,
    order: VecDeque<(String, PlatformMessageId)>,
}

impl MessageAliases {
    fn add(&mut self, sender_id: &str, message: &PlatformMessageId) {
        if self.order.len() >= MAX_ALIASES
            && let Some((id, message)) = self.order.pop_front()
        {
            self.by_sender_id.remove(&id);
            self.by_message.remove(&message);
        }
        self.by_sender_id.insert(sender_id.to_owned(), message.clone());
        self.by_message.insert(message.clone(), sender_id.to_owned());
        self.order.push_back((sender_id.to_owned(), message.clone()));
    }
}

#[derive(Debug)]
pub(super) struct XmppSession {
    login: XmppLogin,
    is_ready: bool,
    mucs: BTreeMap<String, MucState>,
    outputs: Vec<XmppOutput>,
}

impl XmppSession {
    pub(super) fn new(login: XmppLogin) -> Self {
        let mucs = login.channels.iter().map(|channel| (channel.0.to_lowercase(), MucState::default())).collect();
        Self { login, is_ready: false, mucs, outputs: Vec::new() }
    }

    pub(super) fn start(&self) -> String {
        let to = quick_xml::escape::escape(self.login.domain.as_str());
        format!(
            "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' to='{to}'>"
        )
    }

    /// The server has opened its stream: the digest of its id and the secret shows who the component is (XEP-0114 §3).
    pub(super) fn opened(&mut self, stream: &XmlElement) -> Vec<XmppOutput> {
        let text = format!("{}{}", stream.attribute("id").unwrap_or_default(), self.login.secret);
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
            "iq" => self.iq(stanza),
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

    /// Enters a chat: as the listener, or as a puppet (XEP-0045 §7.2).
    fn enter(&mut self, channel: &PlatformChannel, puppet: Option<String>) {
        let Some(muc) = self.mucs.get(&channel.0.to_lowercase()) else { return };
        let (local, nick, history) = match &puppet {
            None => ("salon".to_owned(), self.login.nick.clone(), HISTORY_STANZAS),
            Some(local) => {
                let Some(state) = muc.puppets.get(local) else { return };
                (local.clone(), state.nick.clone(), "0")
            }
        };
        let history = XmlElement::new("history").with("maxstanzas", history);
        let presence = XmlElement::new("presence")
            .with("from", &format!("{local}@{}/salon", self.login.domain))
            .with("to", &format!("{channel}/{nick}"))
            .child(XmlElement::of("x", MUC).child(history));
        self.outputs.push(XmppOutput::Send(presence.written()));
    }

    fn send_pending(&mut self, channel: &PlatformChannel) {
        let domain = self.login.domain.clone();
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        let Some(pending) = &mut muc.pending else { return };
        let local = pending.puppet.clone().unwrap_or_else(|| "salon".into());
        let key = pending.action.key().clone();
        let message = XmlElement::new("message")
            .with("type", "groupchat")
            .with("from", &format!("{local}@{domain}/salon"))
            .with("to", &channel.0)
            .with("id", key.as_str());
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
        let message = message.child(XmlElement::of("origin-id", "urn:xmpp:sid:0").with("id", key.as_str()));
        self.outputs.push(XmppOutput::Send(message.written()));
    }

    /// The chat and nick of an occupant's address.
    fn occupant(&self, address: &str) -> Option<(PlatformChannel, String)> {
        let (room, nick) = address.split_once('/').unwrap_or((address, ""));
        let channel = self.login.channels.iter().find(|channel| channel.0.eq_ignore_ascii_case(room))?;
        Some((channel.clone(), nick.to_owned()))
    }

    fn presence(&mut self, stanza: &XmlElement) {
        let Some((channel, nick)) = self.occupant(stanza.attribute("from").unwrap_or_default()) else { return };
        let to = stanza.attribute("to").unwrap_or_default().split('@').next().unwrap_or_default().to_owned();
        let is_listener = to == "salon";
        let user = stanza.find_in("x", MUC_USER);
        let has_status = |code: &str| {
            user.is_some_and(|x| {
                x.children.iter().any(|child| child.name == "status" && child.attribute("code") == Some(code))
            })
        };
        match stanza.attribute("type") {
            Some("error") => self.not_entered(&channel, &to, is_listener, stanza),
            Some("unavailable") => self.gone(&channel, &nick, &to, is_listener, has_status("110")),
            _ => {
                if has_status("201") {
                    // A new chat is locked until its owner accepts a configuration (XEP-0045 §10.1.2).
                    let form = XmlElement::of("x", "jabber:x:data").with("type", "submit");
                    let unlock = XmlElement::new("iq")
                        .with("type", "set")
                        .with("id", "unlock")
                        .with("from", &format!("{to}@{}/salon", self.login.domain))
                        .with("to", &channel.0)
                        .child(XmlElement::of("query", MUC_OWNER).child(form));
                    self.outputs.push(XmppOutput::Send(unlock.written()));
                }
                let address = user.and_then(|x| x.find("item")?.attribute("jid")).map(str::to_owned);
                self.came(&channel, &nick, &to, address, is_listener, has_status("110"));
            }
        }
    }

    fn came(
        &mut self,
        channel: &PlatformChannel,
        nick: &str,
        to: &str,
        address: Option<String>,
        is_listener: bool,
        is_self: bool,
    ) {
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        if is_self && !is_listener {
            let Some(puppet) = muc.puppets.get_mut(to) else { return };
            (puppet.is_joined, puppet.nick) = (true, nick.to_owned());
            if muc.pending.as_ref().is_some_and(|pending| !pending.is_sent && pending.puppet.as_deref() == Some(to)) {
                self.send_pending(channel);
            }
            return;
        }
        if !is_listener {
            return;
        }
        if muc.occupants.len() < MAX_OCCUPANTS {
            muc.occupants.insert(nick.to_owned(), address);
        }
        if is_self {
            muc.is_joined = true;
            muc.is_caught_up = false;
            self.outputs.push(XmppOutput::Event(channel.clone(), PlatformEvent::Connected));
        } else {
            let author = self.author(channel, nick);
            self.outputs.push(XmppOutput::Event(channel.clone(), PlatformEvent::Join { author }));
        }
    }

    fn gone(&mut self, channel: &PlatformChannel, nick: &str, to: &str, is_listener: bool, is_self: bool) {
        let author = self.author(channel, nick);
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        if !is_listener {
            if is_self {
                muc.puppets.remove(to);
            }
            return;
        }
        muc.occupants.remove(nick);
        let event = if is_self {
            muc.is_joined = false;
            PlatformEvent::Disconnected { reason: format!("removed from {channel}") }
        } else {
            PlatformEvent::Leave { user: author.id }
        };
        self.outputs.push(XmppOutput::Event(channel.clone(), event));
        if is_self {
            self.outputs.push(XmppOutput::Closed(format!("removed from {channel}")));
        }
    }

    fn not_entered(&mut self, channel: &PlatformChannel, to: &str, is_listener: bool, stanza: &XmlElement) {
        let condition = error_condition(stanza);
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        if is_listener {
            let reason = format!("cannot enter {channel}: {condition}");
            return self.outputs.push(XmppOutput::Event(channel.clone(), PlatformEvent::Disconnected { reason }));
        }
        let Some(puppet) = muc.puppets.get_mut(to) else { return };
        puppet.attempts += 1;
        if condition == "conflict" && puppet.attempts < 4 {
            // The nick is somebody else's (XEP-0045 §7.2.8).
            puppet.nick.push('_');
            return self.enter(channel, Some(to.to_owned()));
        }
        muc.puppets.remove(to);
        if let Some(pending) = muc.pending.take_if(|pending| pending.puppet.as_deref() == Some(to)) {
            let failure = PlatformFailure::Permanent { reason: format!("a puppet cannot enter: {condition}") };
            self.outputs.push(XmppOutput::Outcome(pending.action.key().clone(), Err(failure)));
        }
    }

    fn author(&self, channel: &PlatformChannel, nick: &str) -> PlatformAuthor {
        let muc = self.mucs.get(&channel.0.to_lowercase());
        let address = muc.and_then(|muc| muc.occupants.get(nick)?.clone());
        let domain = &self.login.domain;
        let is_puppet = muc.is_some_and(|muc| muc.puppets.values().any(|puppet| puppet.nick == nick));
        let is_ours = address.as_ref().is_some_and(|address| bare(address).ends_with(&format!("@{domain}")));
        let is_own = nick == self.login.nick || is_puppet || is_ours;
        let is_verified = address.is_some();
        // Where the chat hides addresses, an occupant is known by its nick alone, which is not an identity.
        let id = address.map_or_else(|| nick.to_owned(), |address| bare(&address).to_owned());
        let origin = if is_own { AuthorOrigin::OwnBridge } else { AuthorOrigin::Person };
        PlatformAuthor { id: PlatformUserId(id), name: nick.to_owned(), origin, is_verified }
    }

    fn message(&mut self, stanza: &XmlElement, now: Timestamp) {
        let Some((channel, nick)) = self.occupant(stanza.attribute("from").unwrap_or_default()) else { return };
        let to = stanza.attribute("to").unwrap_or_default().split('@').next().unwrap_or_default();
        let sender_id = stanza.attribute("id").unwrap_or_default().to_owned();
        if stanza.attribute("type") == Some("error") {
            return self.rejected(&channel, &sender_id, stanza);
        }
        // Every occupant gets a copy; the listener's is the one that counts.
        if stanza.attribute("type") != Some("groupchat") || to != "salon" {
            return;
        }
        let body = stanza.find("body").map(|body| body.text.clone());
        if body.is_none() && stanza.find("subject").is_some() {
            // The subject ends the history (XEP-0045 §7.2.15).
            let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
            if !std::mem::replace(&mut muc.is_caught_up, true) {
                self.outputs.push(XmppOutput::Event(channel, PlatformEvent::CaughtUp));
            }
            return;
        }
        let stanza_id = stanza.find_in("stanza-id", "urn:xmpp:sid:0").and_then(|id| id.attribute("id"));
        let id = PlatformMessageId::new(stanza_id.unwrap_or(&sender_id));
        let author = self.author(&channel, &nick);
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        if !sender_id.is_empty() {
            muc.aliases.add(&sender_id, &id);
        }
        if author.origin == AuthorOrigin::OwnBridge || is_key(&sender_id) {
            let key = ActionKey(sender_id);
            let is_pending = muc.pending.as_ref().is_some_and(|pending| *pending.action.key() == key);
            if is_pending {
                muc.pending = None;
                self.outputs.push(XmppOutput::Outcome(key, Ok(PlatformReceipt { id: Some(id) })));
            } else if is_key(key.as_str()) {
                self.outputs.push(XmppOutput::Event(channel, PlatformEvent::Echo { key, id: Some(id) }));
            }
            return;
        }
        let delayed =
            stanza.find_in("delay", "urn:xmpp:delay").and_then(|delay| Timestamp::parse(delay.attribute("stamp")?));
        let target = |name: &str, namespace: &str| {
            let id = stanza.find_in(name, namespace)?.attribute("id")?;
            Some(muc.aliases.by_sender_id.get(id).cloned().unwrap_or_else(|| PlatformMessageId::new(id)))
        };
        let corrected = target("replace", "urn:xmpp:message-correct:0");
        let retracted =
            target("retract", "urn:xmpp:message-retract:1").or_else(|| target("retract", "urn:xmpp:message-retract:0"));
        let reply_to = target("reply", REPLY);
        let content = body.map(|body| read_body(stanza, body, reply_to.is_some())).unwrap_or_default();
        let event = if let Some(target) = retracted {
            PlatformEvent::Retract { target, author, id: Some(id) }
        } else if let Some(target) = corrected {
            PlatformEvent::Edit { target, author, content, id: Some(id) }
        } else if content.is_empty() {
            return;
        } else {
            let (attachments, sent_at) = (Vec::new(), delayed.or(Some(now)));
            PlatformEvent::Message(PlatformMessage { id: Some(id), author, content, reply_to, attachments, sent_at })
        };
        self.outputs.push(XmppOutput::Event(channel, event));
    }

    fn rejected(&mut self, channel: &PlatformChannel, id: &str, stanza: &XmlElement) {
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        let Some(pending) = muc.pending.take_if(|pending| pending.action.key().as_str() == id) else { return };
        let condition = error_condition(stanza);
        let is_wait = stanza.find("error").and_then(|error| error.attribute("type")) == Some("wait");
        let failure = match is_wait {
            true => PlatformFailure::RetryAfter { after: std::time::Duration::from_secs(2), reason: condition },
            false => PlatformFailure::Permanent { reason: condition },
        };
        self.outputs.push(XmppOutput::Outcome(pending.action.key().clone(), Err(failure)));
    }

    fn iq(&mut self, stanza: &XmlElement) {
        let kind = stanza.attribute("type").unwrap_or_default();
        if !matches!(kind, "get" | "set") {
            return;
        }
        let (from, to, id) = (stanza.attribute("from"), stanza.attribute("to"), stanza.attribute("id"));
        let answer = |kind: &str| {
            XmlElement::new("iq")
                .with("type", kind)
                .with("from", to.unwrap_or_default())
                .with("to", from.unwrap_or_default())
                .with("id", id.unwrap_or_default())
        };
        let answer = if kind == "get" && stanza.find_in("query", DISCO_INFO).is_some() {
            let identity = XmlElement::new("identity")
                .with("category", "gateway")
                .with("type", "salon")
                .with("name", "Salon bridge");
            let feature = |name: &str| XmlElement::new("feature").with("var", name);
            answer("result").child(
                XmlElement::of("query", DISCO_INFO)
                    .child(identity)
                    .child(feature(DISCO_INFO))
                    .child(feature("urn:xmpp:ping")),
            )
        } else if kind == "get" && stanza.find_in("ping", "urn:xmpp:ping").is_some() {
            answer("result")
        } else {
            let condition = XmlElement::of("service-unavailable", STANZA_ERRORS);
            answer("error").child(XmlElement::new("error").with("type", "cancel").child(condition))
        };
        self.outputs.push(XmppOutput::Send(answer.written()));
    }
}

fn error_condition(stanza: &XmlElement) -> String {
    let error = stanza.find("error");
    let condition = error.and_then(|error| {
        error.children.iter().find(|child| child.attribute("xmlns") == Some(STANZA_ERRORS) && child.name != "text")
    });
    condition.map_or("error", |condition| &condition.name).to_owned()
}

fn bare(address: &str) -> &str {
    address.split('/').next().unwrap_or_default()
}

/// Whether an id is one that the bridge gives its messages.
fn is_key(id: &str) -> bool {
    id.len() == 24 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The local part of a puppet's address (RFC 7622 §3.3), which has fewer characters than an id and no capitals. What is not kept is told apart by a digest.
fn local_part(participant: &ParticipantId) -> String {
    let id = participant.as_str();
    let is_kept = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let kept: String = id.chars().map(|c| if is_kept(c) { c } else { '.' }).collect();
    if kept == id && id != "salon" {
        return kept;
    }
    let digest = digest::digest(&digest::SHA256, id.as_bytes());
    let hex: String = digest.as_ref().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{}.{hex}", &kept[..kept.len().min(100)])
}

/// A nick for a participant: its name, without what a resource cannot have.
fn nick_of(speaker: &Speaker) -> String {
    let nick: String = speaker.name.chars().filter(|c| !c.is_control()).take(60).collect();
    let nick = nick.trim();
    if nick.is_empty() { speaker.id.to_string() } else { nick.to_owned() }
}
