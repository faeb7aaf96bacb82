//! Becoming a client of an IRC server: capabilities, SASL, a nick that is free.
//!
//! RFC 2812 §3.1; IRCv3 "Capability Negotiation" and "SASL".

use data_encoding::BASE64;

use super::line::{IrcLine, folded, one_line};
use super::session::IrcOutput;
use crate::config::PlatformSecret;
use crate::platform::PlatformChannel;

/// Capabilities of a server that are looked at.
const MAX_OFFERED: usize = 1_000;
/// Capabilities that are used where a server has them.
const CAPABILITIES: [&str; 4] = ["account-tag", "message-tags", "multi-prefix", "server-time"];
/// IRCv3 "SASL": bytes of one `AUTHENTICATE`.
const SASL_PIECE_BYTES: usize = 400;

/// How to log in.
#[derive(Debug, Clone)]
pub(super) struct IrcLogin {
    pub(super) nick: String,
    pub(super) real_name: String,
    pub(super) password: Option<PlatformSecret>,
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

#[derive(Debug)]
pub(super) struct IrcRegistration {
    pub(super) login: IrcLogin,
    /// The nick that the bridge has, or asks for.
    pub(super) nick: String,
    pub(super) is_done: bool,
    nick_attempts: u32,
    /// What the server has listed so far of its capabilities.
    offered: Vec<String>,
}

impl IrcRegistration {
    pub(super) fn new(login: IrcLogin) -> Self {
        Self { nick: login.nick.clone(), login, is_done: false, nick_attempts: 0, offered: Vec::new() }
    }

    /// What is sent first.
    pub(super) fn start(&self) -> Vec<IrcOutput> {
        let password = self.login.password.as_ref().map(|password| format!("PASS :{}", one_line(password.expose())));
        let user = format!("USER {} 0 * :{}", user_name(&self.login.nick), one_line(&self.login.real_name));
        let lines = ["CAP LS 302".to_owned()].into_iter().chain(password).chain([format!("NICK {}", self.nick), user]);
        lines.map(IrcOutput::Line).collect()
    }

    pub(super) fn is_self(&self, nick: &str) -> bool {
        folded(nick) == folded(&self.nick)
    }

    /// Takes a line of before the server's welcome. `None` where it is none of the registration's.
    pub(super) fn take(&mut self, line: &IrcLine) -> Option<Vec<IrcOutput>> {
        if self.is_done {
            return None;
        }
        Some(match line.command.as_str() {
            "001" => {
                (self.is_done, self.nick) = (true, line.param(0).to_owned());
                return None;
            }
            "CAP" => self.capabilities(line),
            "AUTHENTICATE" if line.param(0) == "+" => self.authenticate(),
            // IRCv3 "SASL": 903 and 907 say that the account is logged in to.
            "903" | "907" => lines(["CAP END".into()]),
            "902" | "904" | "905" | "906" | "908" => {
                let reason = line.params.last().cloned().unwrap_or_default();
                vec![IrcOutput::Refused(format!("the account is not accepted: {reason}"))]
            }
            "432" | "433" | "436" | "437" => vec![self.next_nick()],
            _ => return None,
        })
    }

    fn capabilities(&mut self, line: &IrcLine) -> Vec<IrcOutput> {
        let listed = line.params.last().map(String::as_str).unwrap_or_default().split(' ');
        let has_account = self.login.account.is_some();
        match line.param(1) {
            "LS" => {
                let room = MAX_OFFERED.saturating_sub(self.offered.len());
                self.offered.extend(listed.take(room).map(str::to_owned));
                // With `*`, another line follows.
                if line.param(2) == "*" { Vec::new() } else { vec![self.request_capabilities()] }
            }
            "ACK" if has_account && listed.into_iter().any(|one| one == "sasl") => lines(["AUTHENTICATE PLAIN".into()]),
            "ACK" | "NAK" if !has_account => lines(["CAP END".into()]),
            "NAK" => vec![no_sasl()],
            _ => Vec::new(),
        }
    }

    fn request_capabilities(&mut self) -> IrcOutput {
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
                return no_sasl();
            }
            wanted.push("sasl");
        }
        IrcOutput::Line(if wanted.is_empty() { "CAP END".into() } else { format!("CAP REQ :{}", wanted.join(" ")) })
    }

    /// RFC 4616, in pieces (IRCv3 "SASL").
    fn authenticate(&self) -> Vec<IrcOutput> {
        let Some(IrcAccount { name, password }) = &self.login.account else { return Vec::new() };
        let encoded = BASE64.encode(format!("\0{name}\0{}", password.expose()).as_bytes());
        let pieces =
            encoded.as_bytes().chunks(SASL_PIECE_BYTES).map(|piece| String::from_utf8_lossy(piece).into_owned());
        let last = encoded.len().is_multiple_of(SASL_PIECE_BYTES).then(|| "+".to_owned());
        lines(pieces.chain(last).map(|piece| format!("AUTHENTICATE {piece}")))
    }

    /// The nick is taken, or not allowed: with underscores, then with a number.
    fn next_nick(&mut self) -> IrcOutput {
        self.nick_attempts += 1;
        self.nick = match self.nick_attempts {
            attempt @ 1..=3 => format!("{}{}", self.login.nick, "_".repeat(attempt as usize)),
            attempt @ 4..=20 => {
                let short: String = self.login.nick.chars().take(6).collect();
                format!("{short}{attempt}")
            }
            _ => return IrcOutput::Refused(format!("no nick like `{}` is free", self.login.nick)),
        };
        IrcOutput::Line(format!("NICK {}", self.nick))
    }
}

fn lines(lines: impl IntoIterator<Item = String>) -> Vec<IrcOutput> {
    lines.into_iter().map(IrcOutput::Line).collect()
}

fn no_sasl() -> IrcOutput {
    IrcOutput::Refused("it does not log in to accounts by SASL PLAIN".into())
}

/// The user name of `USER`: letters and digits alone.
fn user_name(nick: &str) -> String {
    let name: String = nick.chars().filter(char::is_ascii_alphanumeric).take(9).collect();
    if name.is_empty() { "salon".into() } else { name }
}
