//! The conversation with an IRC server, without sockets: RFC 1459 and RFC 2812, with capabilities of IRCv3 where the server has them.

use std::collections::BTreeMap;

use salon_protocol::Timestamp;

use super::line::{IrcLine, folded, one_line};
use super::registration::{IrcLogin, IrcRegistration};
use super::text;
use crate::platform::{
    AuthorOrigin, PlatformAuthor, PlatformChannel, PlatformEvent, PlatformMessage, PlatformMessageId, PlatformUserId,
};
use crate::rich::{InlineText, TextBlock};

/// How long to wait before a channel is joined again that could not be joined or was lost.
const REJOIN_DELAY_MS: u64 = 30_000;
/// Members of a channel that are remembered.
const MAX_MEMBERS: usize = 5_000;

/// What each line of a bridge begins with: codes that reset the formatting twice, which nobody sees. Another bridge of Salon in the channel knows by it what not
/// to relay; two that relayed each other would never end.
const RELAY_MARK: &str = "\u{f}\u{f}";

/// What the session wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IrcOutput {
    Line(String),
    Event(PlatformChannel, PlatformEvent),
    /// The server has processed everything that was sent before this confirmation was asked for.
    Confirmed(u64),
    /// The server did not take what was sent to a channel.
    Rejected(PlatformChannel, String),
    /// The server does not let the bridge in.
    Refused(String),
    /// The connection ends.
    Closed(String),
}

/// A channel of the session.
#[derive(Debug)]
struct JoinedChannel {
    name: PlatformChannel,
    is_joined: bool,
    /// When to join, where that failed.
    rejoin_at: Option<Timestamp>,
    /// By their folded nicks.
    members: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) struct IrcSession {
    registration: IrcRegistration,
    channels: BTreeMap<String, JoinedChannel>,
    outputs: Vec<IrcOutput>,
}

impl IrcSession {
    pub(super) fn new(login: IrcLogin) -> Self {
        let channels = login.channels.iter().map(|name| {
            let channel =
                JoinedChannel { name: name.clone(), is_joined: false, rejoin_at: None, members: BTreeMap::new() };
            (folded(&name.0), channel)
        });
        let channels = channels.collect();
        Self { channels, registration: IrcRegistration::new(login), outputs: Vec::new() }
    }

    /// What is sent first.
    pub(super) fn start(&self) -> Vec<IrcOutput> {
        self.registration.start()
    }

    /// Takes a line of the server.
    pub(super) fn line(&mut self, line: &str, now: Timestamp) -> Vec<IrcOutput> {
        if let Some(line) = IrcLine::parse(line) {
            self.take(&line, now);
        }
        std::mem::take(&mut self.outputs)
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Timestamp) -> Vec<IrcOutput> {
        if self.registration.is_done {
            let is_due = |channel: &JoinedChannel| channel.rejoin_at.is_some_and(|at| at <= now);
            let due = self.channels.values_mut().filter(|channel| is_due(channel)).map(|channel| {
                channel.rejoin_at = None;
                format!("JOIN {}", one_line(&channel.name.0))
            });
            let due: Vec<String> = due.collect();
            due.into_iter().for_each(|line| self.send(line));
        }
        std::mem::take(&mut self.outputs)
    }

    pub(super) fn is_joined(&self, channel: &PlatformChannel) -> bool {
        self.channels.get(&folded(&channel.0)).is_some_and(|channel| channel.is_joined)
    }

    /// The lines that say something in a channel, and make the server confirm it.
    pub(super) fn say(channel: &PlatformChannel, text: &str, confirmation: u64) -> [String; 2] {
        let said = format!("PRIVMSG {} :{RELAY_MARK}{}", one_line(&channel.0), one_line(text));
        [said, format!("PING :salon-{confirmation}")]
    }

    fn send(&mut self, line: String) {
        self.outputs.push(IrcOutput::Line(line));
    }

    fn event(&mut self, channel: &PlatformChannel, event: PlatformEvent) {
        self.outputs.push(IrcOutput::Event(channel.clone(), event));
    }

    fn take(&mut self, line: &IrcLine, now: Timestamp) {
        if let Some(outputs) = self.registration.take(line) {
            return self.outputs.extend(outputs);
        }
        let source = line.source.clone().unwrap_or_default();
        match line.command.as_str() {
            "PING" => self.send(format!("PONG :{}", one_line(line.params.last().map_or("", String::as_str)))),
            "PONG" => {
                let token = line.params.last().and_then(|token| token.strip_prefix("salon-")?.parse().ok());
                self.outputs.extend(token.map(IrcOutput::Confirmed));
            }
            "001" => self.registered(),
            "353" => self.names(line),
            "366" => self.names_end(line.param(1)),
            "JOIN" => self.joined(&source, line.param(0), line),
            "PART" => self.left(&source, line.param(0), "left", now),
            "KICK" => self.left(line.param(1), line.param(0), "kicked", now),
            "QUIT" => self.quit(&source),
            "NICK" => self.renamed(&source, line.param(0)),
            "PRIVMSG" => self.message(&source, line),
            "ERROR" => self.outputs.push(IrcOutput::Closed(line.params.join(" "))),
            "464" | "465" => self.outputs.push(IrcOutput::Refused(line.params.last().cloned().unwrap_or_default())),
            "403" | "405" | "437" | "471" | "473" | "474" | "475" | "476" | "477" => self.not_joined(line, now),
            // RFC 2812 §5.2: what can come back for a PRIVMSG to a channel.
            "401" | "404" | "407" | "412" | "415" => self.rejected(line),
            _ => {}
        }
    }

    fn registered(&mut self) {
        let joins: Vec<String> =
            self.channels.values().map(|channel| format!("JOIN {}", one_line(&channel.name.0))).collect();
        joins.into_iter().for_each(|line| self.send(line));
    }

    fn author(&self, nick: &str, account: Option<&str>) -> PlatformAuthor {
        let origin = if self.registration.is_self(nick) { AuthorOrigin::OwnBridge } else { AuthorOrigin::Person };
        // An account proves who somebody is only for the nick of the same name.
        let has_account = account.is_some_and(|account| folded(account) == folded(nick));
        PlatformAuthor {
            id: PlatformUserId(folded(nick)),
            name: nick.to_owned(),
            origin,
            is_verified: has_account || self.registration.login.trusts_nicks,
        }
    }

    fn joined(&mut self, nick: &str, channel: &str, line: &IrcLine) {
        let author = self.author(nick, line.tag("account"));
        let is_self = self.registration.is_self(nick);
        let Some(joined) = self.channels.get_mut(&folded(channel)) else { return };
        let name = joined.name.clone();
        if is_self {
            joined.is_joined = true;
            joined.rejoin_at = None;
            joined.members.clear();
            self.event(&name, PlatformEvent::Connected);
            // The server keeps nothing of what was said meanwhile.
            self.event(&name, PlatformEvent::CaughtUp);
        } else {
            if joined.members.len() < MAX_MEMBERS {
                joined.members.insert(folded(nick), nick.to_owned());
            }
            self.event(&name, PlatformEvent::Join { author });
        }
    }

    fn names(&mut self, line: &IrcLine) {
        let Some(joined) = self.channels.get_mut(&folded(line.param(2))) else { return };
        for nick in line.param(3).split(' ') {
            let nick = nick.trim_start_matches(['~', '&', '@', '%', '+', '!']);
            if !nick.is_empty() && joined.members.len() < MAX_MEMBERS {
                joined.members.insert(folded(nick), nick.to_owned());
            }
        }
    }

    fn names_end(&mut self, channel: &str) {
        let Some(joined) = self.channels.get(&folded(channel)) else { return };
        let (name, members): (_, Vec<String>) = (joined.name.clone(), joined.members.values().cloned().collect());
        for nick in members.iter().filter(|nick| !self.registration.is_self(nick)).cloned().collect::<Vec<_>>() {
            let author = self.author(&nick, None);
            self.event(&name, PlatformEvent::Join { author });
        }
    }

    fn left(&mut self, nick: &str, channel: &str, how: &str, now: Timestamp) {
        let is_self = self.registration.is_self(nick);
        let Some(joined) = self.channels.get_mut(&folded(channel)) else { return };
        let name = joined.name.clone();
        if is_self {
            joined.is_joined = false;
            joined.rejoin_at = Some(Timestamp(now.0 + REJOIN_DELAY_MS));
            let reason = format!("{how} from {channel}");
            self.event(&name, PlatformEvent::Disconnected { reason });
        } else {
            joined.members.remove(&folded(nick));
            self.event(&name, PlatformEvent::Leave { user: PlatformUserId(folded(nick)) });
        }
    }

    fn quit(&mut self, nick: &str) {
        let folded_nick = folded(nick);
        let there = self
            .channels
            .values_mut()
            .filter_map(|channel| channel.members.remove(&folded_nick).map(|_| channel.name.clone()));
        for channel in there.collect::<Vec<_>>() {
            self.event(&channel, PlatformEvent::Leave { user: PlatformUserId(folded_nick.clone()) });
        }
    }

    fn renamed(&mut self, from: &str, to: &str) {
        if self.registration.is_self(from) {
            self.registration.nick = to.to_owned();
            return;
        }
        let (old, new, author) = (folded(from), folded(to), self.author(to, None));
        let there = self.channels.values_mut().filter_map(|channel| {
            channel.members.remove(&old)?;
            channel.members.insert(new.clone(), to.to_owned());
            Some(channel.name.clone())
        });
        for channel in there.collect::<Vec<_>>() {
            self.event(&channel, PlatformEvent::Leave { user: PlatformUserId(old.clone()) });
            self.event(&channel, PlatformEvent::Join { author: author.clone() });
        }
    }

    fn message(&mut self, nick: &str, line: &IrcLine) {
        let Some(joined) = self.channels.get(&folded(line.param(0))) else { return };
        let name = joined.name.clone();
        let said = line.param(1);
        let content = match said.strip_prefix('\u{1}') {
            None => text::parse(said),
            Some(ctcp) => {
                // CTCP ACTION is `/me`; no other request is answered in a channel.
                let Some(action) = ctcp.trim_end_matches('\u{1}').strip_prefix("ACTION ") else { return };
                let mut content = text::parse(action);
                if let Some(TextBlock::Paragraph(inlines)) = content.blocks.first_mut() {
                    *inlines = vec![InlineText::Emphasis(std::mem::take(inlines))];
                }
                content
            }
        };
        let mut author = self.author(nick, line.tag("account"));
        if said.starts_with(RELAY_MARK) && author.origin == AuthorOrigin::Person {
            author.origin = AuthorOrigin::Bot;
        }
        let message = PlatformMessage {
            id: line.tag("msgid").map(PlatformMessageId::new),
            author,
            content,
            reply_to: line.tag("+draft/reply").or_else(|| line.tag("+reply")).map(PlatformMessageId::new),
            attachments: Vec::new(),
            sent_at: line.tag("time").and_then(Timestamp::parse),
        };
        self.event(&name, PlatformEvent::Message(message));
    }

    fn not_joined(&mut self, line: &IrcLine, now: Timestamp) {
        let Some(channel) = self.channels.get_mut(&folded(line.param(1))) else { return };
        let (name, reason) = (channel.name.clone(), line.params.last().cloned().unwrap_or_default());
        if channel.is_joined {
            return self.outputs.push(IrcOutput::Rejected(name, reason));
        }
        channel.rejoin_at = Some(Timestamp(now.0 + REJOIN_DELAY_MS));
        let reason = format!("cannot join {name}: {reason}");
        self.event(&name, PlatformEvent::Disconnected { reason });
    }

    fn rejected(&mut self, line: &IrcLine) {
        if let Some(channel) = self.channels.get(&folded(line.param(1))) {
            let reason = line.params.last().cloned().unwrap_or_default();
            self.outputs.push(IrcOutput::Rejected(channel.name.clone(), reason));
        }
    }
}
