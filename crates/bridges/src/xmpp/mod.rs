//! XMPP: a component (XEP-0114) of a server, in multi-user chats (XEP-0045). Every participant of the room that speaks is an occupant of the chat.

mod addresses;
mod body;
mod driver;
mod element;
mod inbound;
mod message_ids;
mod muc;
mod presence;
mod queries;
mod session;
mod styling;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use salon_protocol::Timestamp;
use serde::Deserialize;

use crate::config::{BridgeConfig, PlatformSecret};
use crate::init::{InitFile, InitOptions, InitPlan};
use crate::platform::{DriverError, Pace, PlatformCapabilities, PlatformChannel, PlatformDriver, ResendRule};
use crate::rich::Flavour;
use crate::stream_driver::{ServerAddress, StreamDriver, StreamServer};
use driver::XmppPlatform;
use element::{StreamItem, StreamReader};
use session::{XmppLogin, XmppSession};

/// The members of `[bridges.NAME]` that only XMPP has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct XmppMembers {
    /// `host:port` of the server's port for components.
    server: String,
    /// The component's domain.
    domain: String,
    secret_file: PathBuf,
    nick: Option<String>,
}

/// Servers take far more, clients show less.
const MAX_TEXT_BYTES: usize = 10_000;

/// Opens the driver for a bridge to XMPP.
pub fn open(config: &BridgeConfig) -> Result<Arc<dyn PlatformDriver>, DriverError> {
    let members: XmppMembers = config.platform_members()?;
    let address = ServerAddress::read(&members.server, &config.name)?;
    let channels: Vec<_> = config.channels.keys().cloned().collect();
    let is_room = |name: &str| {
        name.split_once('@')
            .is_some_and(|(room, host)| !room.is_empty() && !host.is_empty() && !host.contains(['@', '/']))
    };
    if let Some(wrong) = channels.iter().find(|channel| !is_room(channel.as_str())) {
        return Err(DriverError(format!(
            "bridges.{}: `{wrong}` is not a chat, such as `lab@conference.example.org`",
            config.name
        )));
    }
    let login = XmppLogin {
        domain: members.domain,
        secret: config.secret(&members.secret_file)?,
        nick: members.nick.unwrap_or_else(|| "salon".into()),
        channels: channels.clone(),
    };
    let capabilities = PlatformCapabilities {
        flavour: Flavour::XmppStyling,
        max_text_bytes: MAX_TEXT_BYTES,
        is_multiline: true,
        max_parts: 4,
        can_edit: true,
        can_retract: true,
        can_reply: true,
        shows_speaker: true,
        resend: ResendRule::AfterEcho,
        pace: Pace { interval: Duration::from_millis(20), burst: 50 },
    };
    Ok(Arc::new(StreamDriver::new(StreamServer { address, channels, capabilities }, XmppPlatform { login })))
}

/// Feeds the stream of a server to a session in one chat, and returns how many things it wants done. For fuzzing.
pub fn read_stream(bytes: &[u8]) -> usize {
    let login = XmppLogin {
        domain: "salon.example.org".into(),
        secret: PlatformSecret::new("secret"),
        nick: "salon".into(),
        channels: vec![PlatformChannel::new("lab@muc.example.org")],
    };
    let (mut session, mut reader) = (XmppSession::new(login), StreamReader::new(bytes));
    let mut wanted = 0;
    // A stream of bytes in memory is always ready.
    while let Some(Ok(item)) = reader.next().now_or_never() {
        wanted += match item {
            StreamItem::Opened(stream) => session.opened(&stream).len(),
            StreamItem::Stanza(stanza) => session.stanza(&stanza, Timestamp(0)).len(),
        };
    }
    wanted
}

/// What `salon bridge init xmpp` writes and says.
pub fn init(options: &InitOptions) -> InitPlan {
    let InitOptions { name, topic, secrets: [secret, _], .. } = options;
    let server = options.server.as_deref().unwrap_or("127.0.0.1:5347");
    let channel = options.channel.as_deref().unwrap_or("lab@conference.example.org");
    let host = channel.rsplit('@').next().unwrap_or_default();
    let domain = format!("salon.{}", host.split_once('.').map_or(host, |(_, parent)| parent));
    let section = format!(
        "[bridges.{name}]\nplatform = \"xmpp\"\nserver = \"{server}\"\ndomain = \"{domain}\"\nsecret_file = \"{name}.secret\"\n\
         channels = {{ \"{channel}\" = \"{topic}\" }}\n"
    );
    let prosody = format!("Component \"{domain}\"\n    component_secret = \"{secret}\"\n");
    InitPlan {
        section,
        files: vec![
            InitFile { path: format!("{name}.secret"), text: format!("{secret}\n"), is_secret: true },
            InitFile { path: format!("{name}.prosody.cfg.lua"), text: prosody, is_secret: true },
        ],
        steps: vec![
            format!(
                "Append `{name}.prosody.cfg.lua` to the end of the configuration of Prosody, and restart it: a reload does not start a component. For ejabberd, add a listener `ejabberd_service` with the host `{domain}` and the password in `{name}.secret`."
            ),
            format!("Make sure that occupants of {channel} may enter without a password."),
        ],
    }
}
