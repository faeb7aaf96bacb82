//! The configuration of a Slack bridge, `salon bridge init slack` and `salon bridge check`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

use super::SlackDriver;
use super::web_api::{SlackApi, SlackFailure};
use crate::config::BridgeConfig;
use crate::connected_channels::ConnectedChannels;
use crate::display_names::DisplayNames;
use crate::init::{InitFile, InitOptions, InitPlan};
use crate::platform::{CheckFinding, DriverError, Pace, PlatformDriver};

const DEFAULT_API: &str = "https://slack.com/api/";
const DEFAULT_LISTEN: &str = "127.0.0.1:9010";
/// Slack, "Rate limits": one message a second in a channel, with short bursts.
const MESSAGE_INTERVAL_MS: u64 = 1_000;
const MESSAGE_BURST: u32 = 5;

/// The members of `[bridges.NAME]` that are Slack's own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackConfig {
    /// The bot token, `xoxb-…`.
    token_file: PathBuf,
    signing_secret_file: PathBuf,
    /// Where the bridge takes Slack's events. A proxy with a certificate is in front of it.
    listen: Option<SocketAddr>,
    /// Where Slack's Web API is, for tests and proxies.
    api: Option<String>,
    /// Milliseconds between messages.
    message_interval_ms: Option<u64>,
}

/// Opens a bridge.
pub fn open(config: &BridgeConfig) -> Result<Arc<dyn PlatformDriver>, DriverError> {
    let own: SlackConfig = config.platform_members()?;
    let token = config.secret(&own.token_file)?;
    let listen = own.listen.or_else(|| DEFAULT_LISTEN.parse().ok()).ok_or_else(|| DriverError("no `listen`".into()))?;
    for channel in config.channels.keys() {
        let is_id = channel.as_str().starts_with(['C', 'G'])
            && channel.as_str().bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if !is_id {
            let reason = "is not the id of a channel, such as `C0123ABCD` (channel details, at the bottom)";
            return Err(DriverError(format!("bridges.{}: channel `{channel}` {reason}", config.name)));
        }
    }
    let driver = SlackDriver {
        api: SlackApi::new(own.api.as_deref().unwrap_or(DEFAULT_API), token.expose())?,
        signing_secret: config.secret(&own.signing_secret_file)?.expose().to_owned(),
        listen,
        pace: Pace {
            interval: Duration::from_millis(own.message_interval_ms.unwrap_or(MESSAGE_INTERVAL_MS)),
            burst: MESSAGE_BURST,
        },
        channels: ConnectedChannels::new(config.channels.keys().cloned()),
        identity: watch::Sender::new(None),
        names: DisplayNames::default(),
        threads: Default::default(),
        deliveries: Default::default(),
        taking: Default::default(),
    };
    Ok(Arc::new(driver))
}

/// What `salon bridge init slack` writes: an app manifest (Slack, "App manifest reference") and where secrets go.
pub fn init(options: &InitOptions) -> InitPlan {
    let name = &options.name;
    let channel = options.channel.clone().unwrap_or_else(|| "C0123ABCD".into());
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let section = format!(
        "[bridges.{name}]\nplatform = \"slack\"\ntoken_file = \"{name}-slack.token\"\n\
         signing_secret_file = \"{name}-slack.secret\"\nlisten = \"{DEFAULT_LISTEN}\"\nchannels = {{ {} = {} }}\n",
        quoted(&channel),
        quoted(&options.topic),
    );
    let request_url = options.server.clone().unwrap_or_else(|| "https://salon.example.org/slack/events".into());
    let scopes = [
        "channels:history",
        "channels:join",
        "channels:read",
        "chat:write",
        "chat:write.customize",
        "groups:history",
        "users:read",
    ];
    let manifest = json!({
        "display_information": {"name": format!("Salon {name}")},
        "features": {"bot_user": {"display_name": format!("Salon {name}"), "always_online": true}},
        "oauth_config": {"scopes": {"bot": scopes}},
        "settings": {"event_subscriptions": {
            "request_url": request_url, "bot_events": ["message.channels", "message.groups"]}},
    });
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
    let manifest = format!("{name}-slack-manifest.json");
    InitPlan {
        section,
        files: vec![InitFile { path: manifest.clone(), text, is_secret: false }],
        steps: vec![
            format!("Forward {request_url} to {DEFAULT_LISTEN}, with a certificate that Slack accepts."),
            format!("At https://api.slack.com/apps choose Create New App, From a manifest, and paste `{manifest}`."),
            format!(
                "Install the app. Write its Bot User OAuth Token to `{name}-slack.token` and its Signing Secret to `{name}-slack.secret`, both mode 600."
            ),
            format!("Put the id of the channel where `{channel}` is, and invite the app into a private channel."),
            "When the bridge runs (the last step), let Slack verify the request URL on the page Event Subscriptions."
                .into(),
        ],
    }
}

impl SlackDriver {
    /// Looks for what is in the way of a bridge. It leaves the app in the channels.
    pub(super) async fn look(&self) -> Vec<CheckFinding> {
        let mut findings = Vec::new();
        match self.api.identity().await {
            Ok(identity) => {
                findings.push(CheckFinding::fine("token", format!("{} in {}", identity.user_id, identity.team)));
            }
            Err(failure) => {
                let hint = match &failure {
                    SlackFailure::Refused(_) => "write the Bot User OAuth Token of the installed app to `token_file`",
                    _ => "see whether https://slack.com can be reached from here, or correct `api`",
                };
                findings.push(CheckFinding::problem("token", failure.to_string(), hint));
                return findings;
            }
        }
        for channel in &self.channels.all {
            let subject = format!("channel {channel}");
            findings.push(match self.read_channel(channel).await {
                Ok(_) => CheckFinding::fine(&subject, "the app can read it"),
                Err(failure) => {
                    let hint = "invite the app into the channel, and compare its scopes with the manifest";
                    CheckFinding::problem(&subject, failure.to_string(), hint)
                }
            });
        }
        findings
    }
}
