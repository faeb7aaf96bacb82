//! The configuration of a Discord bridge, `salon bridge init discord` and `salon bridge check`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::StatusCode;
use serde::Deserialize;

use super::rest::DiscordApi;
use super::{DiscordDriver, DiscordTiming, text};
use crate::config::BridgeConfig;
use crate::connected_channels::ConnectedChannels;
use crate::init::{InitOptions, InitPlan};
use crate::platform::{CheckFinding, DriverError, PlatformChannel, PlatformDriver};

const DEFAULT_API: &str = "https://discord.com/api/v10";

/// The members of `[bridges.NAME]` that are Discord's own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiscordConfig {
    /// The bot's token.
    token_file: PathBuf,
    /// Where Discord's API is, for tests and proxies.
    api: Option<String>,
    /// The shortest wait before a reconnect, in milliseconds.
    reconnect_ms: Option<u64>,
    /// Milliseconds between messages.
    message_interval_ms: Option<u64>,
}

/// Opens a bridge.
pub fn open(config: &BridgeConfig) -> Result<Arc<dyn PlatformDriver>, DriverError> {
    let own: DiscordConfig = config.platform_members()?;
    let token = config.secret(&own.token_file)?;
    for channel in config.channels.keys() {
        if !text::is_snowflake(channel.as_str()) {
            let reason = "is not the id of a channel, which is a number (Developer Mode, Copy Channel ID)";
            return Err(DriverError(format!("bridges.{}: channel `{channel}` {reason}", config.name)));
        }
    }
    let driver = DiscordDriver {
        api: DiscordApi::new(own.api.as_deref().unwrap_or(DEFAULT_API), token.expose())?,
        token: token.expose().to_owned(),
        channels: ConnectedChannels::new(config.channels.keys().cloned()),
        webhook_name: format!("Salon {}", config.name),
        timing: DiscordTiming {
            reconnect_base: Duration::from_millis(own.reconnect_ms.unwrap_or(1_000)),
            message_interval: Duration::from_millis(own.message_interval_ms.unwrap_or(400)),
        },
        own_user: Mutex::default(),
        states: Mutex::default(),
    };
    Ok(Arc::new(driver))
}

/// What `salon bridge init discord` writes.
pub fn init(options: &InitOptions) -> InitPlan {
    let name = &options.name;
    let channel = options.channel.clone().unwrap_or_else(|| "123456789012345678".into());
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let section = format!(
        "[bridges.{name}]\nplatform = \"discord\"\ntoken_file = \"{name}-discord.token\"\nchannels = {{ {} = {} }}\n",
        quoted(&channel),
        quoted(&options.topic),
    );
    InitPlan {
        section,
        files: Vec::new(),
        steps: vec![
            "Make an application at https://discord.com/developers/applications. On its page Bot, switch on the Message Content Intent."
                .into(),
            format!("Reset the bot's token there and write it to `{name}-discord.token`, mode 600."),
            "On the page OAuth2, make a URL with the scope `bot` and the permissions View Channels, Read Message History and Manage Webhooks. Open it and choose your server."
                .into(),
            format!("Switch on Developer Mode in Discord's settings, copy the channel's id, and put it where `{channel}` is."),
        ],
    }
}

impl DiscordDriver {
    /// Looks for what is in the way of a bridge. It leaves the bridge's webhooks in the channels.
    pub(super) async fn look(&self) -> Vec<CheckFinding> {
        let mut findings = Vec::new();
        match self.api.own_user().await {
            Ok(user) => {
                findings.push(CheckFinding::fine("token", format!("the bot is {} ({})", user.username, user.id)));
                *self.own_user.lock() = Some(user.id);
            }
            Err(failure) => {
                let hint = if failure.is_status(StatusCode::UNAUTHORIZED) {
                    "reset the token in the developer portal, and write the new one to `token_file`"
                } else {
                    "see whether https://discord.com can be reached from here"
                };
                findings.push(CheckFinding::problem("token", failure.to_string(), hint));
                return findings;
            }
        }
        for channel in &self.channels.all {
            findings.push(self.check_channel(channel).await);
        }
        findings
    }

    async fn check_channel(&self, channel: &PlatformChannel) -> CheckFinding {
        let subject = format!("channel {channel}");
        if let Err(failure) = self.api.messages(channel.as_str(), 1).await {
            return CheckFinding::problem(
                &subject,
                failure.to_string(),
                "let the bot see the channel and read its history",
            );
        }
        match self.webhook(channel).await {
            Ok(_) => CheckFinding::fine(&subject, "the bot can read it and has a webhook in it"),
            Err(failure) => {
                CheckFinding::problem(&subject, failure.to_string(), "give the bot the permission Manage Webhooks")
            }
        }
    }
}
