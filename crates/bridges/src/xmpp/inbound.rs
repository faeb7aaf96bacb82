//! Messages of a chat, and those that it does not take.

use std::time::Duration;

use salon_protocol::Timestamp;

use super::body::{REPLY, read_body};
use super::element::XmlElement;
use super::session::{XmppOutput, XmppSession, error_condition};
use crate::platform::{
    ActionKey, AuthorOrigin, PlatformChannel, PlatformEvent, PlatformFailure, PlatformMessage, PlatformMessageId,
    PlatformReceipt,
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
            true => PlatformFailure::RetryAfter { after: Duration::from_secs(2), reason: condition },
            false => PlatformFailure::Permanent { reason: condition },
        };
        self.outputs.push(XmppOutput::Outcome(pending.action.key().clone(), Err(failure)));
    }
}

/// Whether an id is one that the bridge gives its messages.
fn is_key(id: &str) -> bool {
    id.len() == 24 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
