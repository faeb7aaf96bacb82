//! The conversation with an IRC server, without sockets: RFC 1459 and RFC 2812, with capabilities of IRCv3 where the server has them.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use salon_protocol::Timestamp;

use super::line::{IrcLine, folded, one_line};
use super::text;
use crate::config::PlatformSecret;
use crate::platform::{
    AuthorOrigin, PlatformAuthor, PlatformChannel, PlatformEvent, PlatformMessage, PlatformMessageId, PlatformUserId,
};
use crate::rich::{InlineText, TextBlock};

/// How long to wait before a channel is joined again that could not be joined or was lost.
const REJOIN_DELAY_MS: u64 = 30_000;
/// Members of a channel that are remembered.
const MAX_MEMBERS: usize = 5_000;
/// Capabilities of a server that are looked at.
const MAX_OFFERED: usize = 1_000;
/// Capabilities that are used where a server has them.
const CAPABILITIES: [&str; 4] = ["account-tag", "message-tags", "multi-prefix", "server-time"];

/// How to log in.
#[derive(Debug, Clone)]
pub(super) struct IrcLogin {
    pub(super) nick: String,
    pub(super) real_name: String,
    pub(super) password: Option<String>,
    /// To log in to by SASL.
    pub(super) account: Option<IrcAccount>,
    pub(super) channels: Vec<PlatformChannel>,
    /// Whether a nick proves who somebody is, on networks where nobody can take another's.
    pub(super) trusts_nicks: bool,
}

/// An account of the network's services.
#[derive(Debug, Clone)]
pub(super) struct IrcAccount {
    pub(super) name: String,
    pub(super) password: PlatformSecret,
}

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
    login: IrcLogin,
    nick: String,
    is_registered: bool,
    nick_attempts: u32,
    /// Capabilities that the server has named so far.
    offered: Vec<String>,
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
        let nick = login.nick.clone();
        let (offered, outputs) = (Vec::new(), Vec::new());
        Self { nick, login, is_registered: false, nick_attempts: 0, offered, channels, outputs }
    }

    /// What is sent first.
    pub(super) fn start(&mut self) -> Vec<IrcOutput> {
        self.send("CAP LS 302".into());
        if let Some(password) = self.login.password.clone() {
            self.send(format!("PASS :{}", one_line(&password)));
        }
        self.send(format!("NICK {}", self.nick));
        self.send(format!("USER {} 0 * :{}", user_name(&self.login.nick), one_line(&self.login.real_name)));
        std::mem::take(&mut self.outputs)
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
        if self.is_registered {
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
        [format!("PRIVMSG {} :{}", one_line(&channel.0), one_line(text)), format!("PING :salon-{confirmation}")]
    }

    fn send(&mut self, line: String) {
        self.outputs.push(IrcOutput::Line(line));
    }

    fn event(&mut self, channel: &PlatformChannel, event: PlatformEvent) {
        self.outputs.push(IrcOutput::Event(channel.clone(), event));
    }

    fn take(&mut self, line: &IrcLine, now: Timestamp) {
        let source = line.source.clone().unwrap_or_default();
        match line.command.as_str() {
            "PING" => self.send(format!("PONG :{}", one_line(line.params.last().map_or("", String::as_str)))),
            "PONG" => {
                let token = line.params.last().and_then(|token| token.strip_prefix("salon-")?.parse().ok());
                self.outputs.extend(token.map(IrcOutput::Confirmed));
            }
            "CAP" => self.capabilities(line),
            "AUTHENTICATE" if line.param(0) == "+" => self.authenticate(),
            // IRCv3 "SASL": 903 and 907 say that the account is logged in to.
            "903" | "907" if !self.is_registered => self.send("CAP END".into()),
            "902" | "904" | "905" | "906" | "908" if !self.is_registered => {
                let reason = line.params.last().cloned().unwrap_or_default();
                self.outputs.push(IrcOutput::Refused(format!("the account is not accepted: {reason}")));
            }
            "001" => self.registered(line),
            "432" | "433" | "436" | "437" if !self.is_registered => self.next_nick(),
            "353" => self.names(line),
            "366" => self.names_end(line.param(1)),
            "JOIN" => self.joined(&source, line.param(0), line, now),
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

    fn capabilities(&mut self, line: &IrcLine) {
        let listed = line.params.last().map(String::as_str).unwrap_or_default().split(' ').map(str::to_owned);
        match line.param(1) {
            "LS" => {
                self.offered.extend(listed.take(MAX_OFFERED.saturating_sub(self.offered.len())));
                // With `*`, another line follows.
                if line.param(2) != "*" {
                    self.request_capabilities();
                }
            }
            "ACK" if !self.is_registered && self.login.account.is_some() && listed.clone().any(|one| one == "sasl") => {
                self.send("AUTHENTICATE PLAIN".into());
            }
            "ACK" | "NAK" if !self.is_registered && self.login.account.is_none() => self.send("CAP END".into()),
            "NAK" if !self.is_registered => self.no_sasl(),
            _ => {}
        }
    }

    fn request_capabilities(&mut self) {
        let offered = std::mem::take(&mut self.offered);
        let value_of = |name: &str| {
            let named = offered.iter().map(|one| one.split_once('=').unwrap_or((one, "")));
            named.into_iter().find(|(offered, _)| *offered == name).map(|(_, value)| value)
        };
        let mut wanted: Vec<&str> = CAPABILITIES.into_iter().filter(|name| value_of(name).is_some()).collect();
        if self.login.account.is_some() {
            // A server of IRCv3.1 does not list its mechanisms.
            let has_plain = |value: &str| value.is_empty() || value.split(',').any(|one| one == "PLAIN");
            if !value_of("sasl").is_some_and(has_plain) {
                return self.no_sasl();
            }
            wanted.push("sasl");
        }
        self.send(if wanted.is_empty() { "CAP END".into() } else { format!("CAP REQ :{}", wanted.join(" ")) });
    }

    fn no_sasl(&mut self) {
        self.outputs.push(IrcOutput::Refused("it does not log in to accounts by SASL PLAIN".into()));
    }

    /// RFC 4616, in pieces of 400 bytes (IRCv3 "SASL").
    fn authenticate(&mut self) {
        const PIECE: usize = 400;
        let Some(IrcAccount { name, password }) = self.login.account.clone().filter(|_| !self.is_registered) else {
            return;
        };
        let encoded = BASE64.encode(format!("\0{name}\0{}", password.expose()).as_bytes());
        let pieces = encoded.as_bytes().chunks(PIECE).map(|piece| String::from_utf8_lossy(piece).into_owned());
        let last = encoded.len().is_multiple_of(PIECE).then(|| "+".to_owned());
        for piece in pieces.chain(last) {
            self.send(format!("AUTHENTICATE {piece}"));
        }
    }

    fn registered(&mut self, line: &IrcLine) {
        self.is_registered = true;
        self.nick = line.param(0).to_owned();
        let joins: Vec<String> =
            self.channels.values().map(|channel| format!("JOIN {}", one_line(&channel.name.0))).collect();
        joins.into_iter().for_each(|line| self.send(line));
    }

    /// The nick is taken, or not allowed: with underscores, then with a number.
    fn next_nick(&mut self) {
        self.nick_attempts += 1;
        self.nick = match self.nick_attempts {
            attempt @ 1..=3 => format!("{}{}", self.login.nick, "_".repeat(attempt as usize)),
            attempt @ 4..=20 => {
                let short: String = self.login.nick.chars().take(6).collect();
                format!("{short}{attempt}")
            }
            _ => {
                let reason = format!("no nick like `{}` is free", self.login.nick);
                return self.outputs.push(IrcOutput::Refused(reason));
            }
        };
        self.send(format!("NICK {}", self.nick));
    }

    fn is_self(&self, nick: &str) -> bool {
        folded(nick) == folded(&self.nick)
    }

    fn author(&self, nick: &str, account: Option<&str>) -> PlatformAuthor {
        let origin = if self.is_self(nick) { AuthorOrigin::OwnBridge } else { AuthorOrigin::Person };
        // An account proves who somebody is only for the nick of the same name.
        let has_account = account.is_some_and(|account| folded(account) == folded(nick));
        PlatformAuthor {
            id: PlatformUserId(folded(nick)),
            name: nick.to_owned(),
            origin,
            is_verified: has_account || self.login.trusts_nicks,
        }
    }

    fn joined(&mut self, nick: &str, channel: &str, line: &IrcLine, _now: Timestamp) {
        let author = self.author(nick, line.tag("account"));
        let is_self = self.is_self(nick);
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
        for nick in members.iter().filter(|nick| !self.is_self(nick)).cloned().collect::<Vec<_>>() {
            let author = self.author(&nick, None);
            self.event(&name, PlatformEvent::Join { author });
        }
    }

    fn left(&mut self, nick: &str, channel: &str, how: &str, now: Timestamp) {
        let is_self = self.is_self(nick);
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
        if self.is_self(from) {
            self.nick = to.to_owned();
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
        let message = PlatformMessage {
            id: line.tag("msgid").map(PlatformMessageId::new),
            author: self.author(nick, line.tag("account")),
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

/// The user name of `USER`: letters and digits alone.
fn user_name(nick: &str) -> String {
    let name: String = nick.chars().filter(char::is_ascii_alphanumeric).take(9).collect();
    if name.is_empty() { "salon".into() } else { name }
}
