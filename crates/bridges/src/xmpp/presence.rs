//! Who is in a chat: the listener, puppets, people (XEP-0045 §7).

use super::addresses::bare;
use super::element::XmlElement;
use super::session::{XmppOutput, XmppSession, error_condition};
use crate::platform::{AuthorOrigin, PlatformAuthor, PlatformChannel, PlatformEvent, PlatformFailure, PlatformUserId};

const MUC: &str = "http://jabber.org/protocol/muc";
const MUC_USER: &str = "http://jabber.org/protocol/muc#user";
const MUC_OWNER: &str = "http://jabber.org/protocol/muc#owner";
/// Occupants of a chat that are remembered.
const MAX_OCCUPANTS: usize = 5_000;
/// Messages that the chat is asked for after an entry.
const HISTORY_STANZAS: &str = "100";

impl XmppSession {
    /// Enters a chat: as the listener, or as a puppet (XEP-0045 §7.2).
    pub(super) fn enter(&mut self, channel: &PlatformChannel, puppet: Option<String>) {
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

    pub(super) fn presence(&mut self, stanza: &XmlElement) {
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

    pub(super) fn author(&self, channel: &PlatformChannel, nick: &str) -> PlatformAuthor {
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
}
