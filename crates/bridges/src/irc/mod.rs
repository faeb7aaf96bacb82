//! IRC: one connection with a nick of its own, which writes `<name> text` for everybody in the room.
//!
//! IRC has no ids of messages, so there are no replies, edits or retractions, and nothing that was said while the bridge was away. After every
//! line the server is asked for a `PONG`: what came before it has been processed. A line without one was perhaps sent, and is not
//! sent again.

mod driver;
mod line;
mod registration;
mod session;
#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use salon_protocol::Timestamp;
use serde::Deserialize;

use crate::config::BridgeConfig;
use crate::init::{InitFile, InitOptions, InitPlan};
use crate::platform::{DriverError, Pace, PlatformCapabilities, PlatformChannel, PlatformDriver, ResendRule};
use crate::rich::Flavour;
use crate::stream_driver::{ServerAddress, StreamDriver, StreamServer};
use driver::IrcPlatform;
use registration::{IrcAccount, IrcLogin};
use session::IrcSession;

/// The members of `[bridges.NAME]` that only IRC has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IrcMembers {
    /// `host:port`.
    server: String,
    /// Whether the connection is encrypted; with port 6697 it is unless this says otherwise.
    tls: Option<bool>,
    /// Certificates to trust beside the system's, as PEM.
    ca_file: Option<PathBuf>,
    nick: Option<String>,
    real_name: Option<String>,
    /// The server's password.
    password_file: Option<PathBuf>,
    /// An account to log in to by SASL, and its password.
    account: Option<String>,
    account_password_file: Option<PathBuf>,
    trust_nicks: Option<bool>,
    /// Milliseconds between lines, and how many may be sent at once.
    line_interval_ms: Option<u64>,
    line_burst: Option<u32>,
    max_lines: Option<usize>,
}

/// RFC 7194: the port for encrypted connections.
const TLS_PORT: u16 = 6697;
/// Bytes of a text in one line: RFC 2812 §2.3 has 512 for all, and the server puts the nick, user and host before it.
const MAX_TEXT_BYTES: usize = 400;
/// What servers commonly take without closing the connection for flooding.
const LINE_INTERVAL_MS: u64 = 1_300;
const LINE_BURST: u32 = 4;
const MAX_LINES: usize = 8;

/// Opens the driver for a bridge to IRC.
pub fn open(config: &BridgeConfig) -> Result<Arc<dyn PlatformDriver>, DriverError> {
    let members: IrcMembers = config.platform_members()?;
    let address = ServerAddress::read(&members.server, &config.name)?;
    let roots = members.ca_file.as_ref().map(|file| {
        let file = config.path(file);
        std::fs::read(&file).map_err(|error| DriverError(format!("`{}` cannot be read: {error}", file.display())))
    });
    let channels: Vec<_> = config.channels.keys().cloned().collect();
    if let Some(wrong) = channels.iter().find(|channel| !is_channel(channel.as_str())) {
        return Err(DriverError(format!("bridges.{}: `{wrong}` is not a channel of IRC, such as `#lab`", config.name)));
    }
    let password = members.password_file.as_ref().map(|file| config.secret(file)).transpose()?;
    let nick = members.nick.unwrap_or_else(|| "salon".into());
    if nick.is_empty() || nick.contains(|c: char| !c.is_ascii_graphic() || matches!(c, ':' | '#' | '@' | '!' | ',')) {
        return Err(DriverError(format!("bridges.{}: `nick`: `{nick}` is not a nick", config.name)));
    }
    let is_encrypted = members.tls.unwrap_or(address.port == TLS_PORT);
    let account = match (members.account, members.account_password_file) {
        (Some(name), Some(file)) if is_encrypted || is_loopback(&address.host) => {
            Some(IrcAccount { name, password: config.secret(&file)? })
        }
        (Some(_), Some(_)) => {
            let reason = "`account` needs `tls = true`: its password would be sent in clear text";
            return Err(DriverError(format!("bridges.{}: {reason}", config.name)));
        }
        (None, None) => None,
        _ => {
            let reason = "`account` and `account_password_file` belong together";
            return Err(DriverError(format!("bridges.{}: {reason}", config.name)));
        }
    };
    let login = IrcLogin {
        real_name: members.real_name.unwrap_or_else(|| "Salon bridge".into()),
        nick,
        password,
        account,
        channels: channels.clone(),
        trusts_nicks: members.trust_nicks.unwrap_or(false),
    };
    let capabilities = PlatformCapabilities {
        flavour: Flavour::IrcCodes,
        max_text_bytes: MAX_TEXT_BYTES,
        is_multiline: false,
        max_parts: members.max_lines.unwrap_or(MAX_LINES),
        can_edit: false,
        can_retract: false,
        can_reply: false,
        shows_speaker: false,
        resend: ResendRule::Never,
        pace: Pace {
            interval: Duration::from_millis(members.line_interval_ms.unwrap_or(LINE_INTERVAL_MS)),
            burst: members.line_burst.unwrap_or(LINE_BURST),
        },
    };
    let platform = IrcPlatform { is_encrypted, roots: roots.transpose()?, login };
    Ok(Arc::new(StreamDriver::new(StreamServer { address, channels, capabilities }, platform)))
}

/// Feeds the lines of a server to a session in `#lab`, and returns how many things it wants done. For fuzzing.
pub fn read_lines(bytes: &[u8]) -> usize {
    let login = IrcLogin {
        nick: "salon".into(),
        real_name: "Salon bridge".into(),
        password: None,
        account: None,
        channels: vec![PlatformChannel::new("#lab")],
        trusts_nicks: false,
    };
    let mut session = IrcSession::new(login);
    let lines = bytes.split(|byte| *byte == b'\n').map(driver::decoded);
    lines.map(|line| session.line(line.trim_end_matches('\r'), Timestamp(0)).len()).sum()
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_channel(name: &str) -> bool {
    let is_allowed = |c: char| !c.is_control() && !matches!(c, ' ' | ',' | ':');
    name.starts_with(['#', '&', '+', '!']) && name.len() > 1 && name.len() <= 64 && name.chars().all(is_allowed)
}

/// What `salon bridge init irc` writes and says.
pub fn init(options: &InitOptions) -> InitPlan {
    let server = options.server.as_deref().unwrap_or("irc.example.org:6697");
    let channel = options.channel.as_deref().unwrap_or("#lab");
    let InitOptions { name, topic, .. } = options;
    let section = format!(
        "[bridges.{name}]\nplatform = \"irc\"\nserver = \"{server}\"\nnick = \"salon\"\nchannels = {{ \"{channel}\" = \"{topic}\" }}\n\
         # account = \"salon\"                                # where the network has accounts\n\
         # account_password_file = \"{name}.password\"\n"
    );
    InitPlan {
        section,
        files: Vec::<InitFile>::new(),
        steps: vec![
            format!("Choose a nick that is free on {server}, and write it to `nick`."),
            format!("Make sure that the bridge may enter {channel}: it needs no rights there, only not to be banned."),
            format!(
                "If the network has accounts, register one for the bridge, and write its password to `{name}.password`, mode 600."
            ),
        ],
    }
}
