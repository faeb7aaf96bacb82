//! Messages of a chat, and those that it does not take.

use std::time::Duration;

use salon_protocol::Timestamp;

use super::body::{REPLY, read_body};
use super::element::XmlElement;
use super::message_ids::IdOrigin;
use super::session::{XmppOutput, XmppSession, error_condition};
use crate::platform::{
    AuthorOrigin, PlatformChannel, PlatformEvent, PlatformFailure, PlatformMessage, PlatformMessageId, PlatformReceipt,
};

impl XmppSession {
    pub(super) fn message(&mut self, stanza: &XmlElement, now: Timestamp) {
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
        if nick.is_empty() && body.is_some() && !is_moderation(stanza) {
            // A notice of the chat itself, which nobody wrote.
            return;
        }
        let id = given_id(stanza, &channel).map(PlatformMessageId::new);
        let mut author = self.author(&channel, &nick);
        let origin = self.ids.origin(&sender_id);
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        if let Some(id) = &id
            && !sender_id.is_empty()
        {
            muc.aliases.add(&nick, &sender_id, id);
        }
        match origin {
            IdOrigin::Own(key) => {
                let is_pending = muc.pending.take_if(|pending| *pending.action.key() == key).is_some();
                self.outputs.push(match is_pending {
                    true => XmppOutput::Outcome(key, Ok(PlatformReceipt { id })),
                    false => XmppOutput::Event(channel, PlatformEvent::Echo { key, id }),
                });
                return;
            }
            _ if author.origin == AuthorOrigin::OwnBridge => return,
            // Two bridges in one chat that relayed each other would never end.
            IdOrigin::OtherBridge => author.origin = AuthorOrigin::Bot,
            IdOrigin::Person => {}
        }
        let delayed =
            stanza.find_in("delay", "urn:xmpp:delay").and_then(|delay| Timestamp::parse(delay.attribute("stamp")?));
        // An id is the chat's, or the one that a sender gave its own message: another sender can have given the same.
        let target = |name: &str, namespace: &str, sender: &str| {
            let id = stanza.find_in(name, namespace)?.attribute("id")?;
            Some(muc.aliases.message(sender, id).cloned().unwrap_or_else(|| PlatformMessageId::new(id)))
        };
        let corrected = target("replace", "urn:xmpp:message-correct:0", &nick);
        let retracted = target("retract", "urn:xmpp:message-retract:1", &nick)
            .or_else(|| target("retract", "urn:xmpp:message-retract:0", &nick));
        let replied = stanza.find_in("reply", REPLY).and_then(|reply| reply.attribute("to")?.split_once('/'));
        let reply_to = target("reply", REPLY, replied.map_or("", |(_, nick)| nick));
        let content = body.map(|body| read_body(stanza, body, reply_to.is_some())).unwrap_or_default();
        let event = if let Some(target) = retracted {
            // Nobody but the chat itself has checked who may delete what (XEP-0424 §5, XEP-0425).
            PlatformEvent::Retract { target, author, is_moderated: nick.is_empty(), id }
        } else if let Some(target) = corrected {
            PlatformEvent::Edit { target, author, content, id }
        } else if content.is_empty() {
            return;
        } else {
            let (attachments, sent_at) = (Vec::new(), delayed.or(Some(now)));
            PlatformEvent::Message(PlatformMessage { id, author, content, reply_to, attachments, sent_at })
        };
        self.outputs.push(XmppOutput::Event(channel, event));
    }

    fn rejected(&mut self, channel: &PlatformChannel, id: &str, stanza: &XmlElement) {
        let Some(muc) = self.mucs.get_mut(&channel.0.to_lowercase()) else { return };
        let IdOrigin::Own(key) = self.ids.origin(id) else { return };
        let Some(pending) = muc.pending.take_if(|pending| *pending.action.key() == key) else { return };
        let condition = error_condition(stanza);
        let is_wait = stanza.find("error").and_then(|error| error.attribute("type")) == Some("wait");
        let failure = match is_wait {
            true => PlatformFailure::RetryAfter { after: Duration::from_secs(2), reason: condition },
            false => PlatformFailure::Permanent { reason: condition },
        };
        self.outputs.push(XmppOutput::Outcome(pending.action.key().clone(), Err(failure)));
    }
}

/// The id that the chat gave a message, or the sender's where it gives none. Only the chat's own counts (XEP-0359 §4): senders can write others.
fn given_id<'a>(stanza: &'a XmlElement, channel: &PlatformChannel) -> Option<&'a str> {
    let is_given = |child: &&XmlElement| {
        let by = child.attribute("by").unwrap_or_default();
        child.name == "stanza-id"
            && child.attribute("xmlns") == Some("urn:xmpp:sid:0")
            && by.eq_ignore_ascii_case(channel.as_str())
    };
    let given = stanza.children.iter().find(is_given).and_then(|child| child.attribute("id"));
    given.or_else(|| stanza.attribute("id")).filter(|id| !id.is_empty())
}

fn is_moderation(stanza: &XmlElement) -> bool {
    stanza.find_in("retract", "urn:xmpp:message-retract:1").is_some()
}
