//! Slack: an app reads by the Events API and writes by the Web API, with a name of each speaker's own (`chat:write.customize`).
//!
//! A message carries the bridge's key in its metadata, so that one whose answer was lost is recognised in the history. Replies are threads.

mod connection;
pub mod events;
mod inbound;
pub mod mrkdwn;
mod recent;
mod setup;
pub mod signature;
#[cfg(test)]
mod tests;
mod web_api;

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::recent::{RecentDeliveries, ThreadRoots};
pub use self::setup::{init, open};
use self::web_api::{SlackApi, SlackFailure, SlackIdentity};
use crate::callback_driver;
use crate::connected_channels::ConnectedChannels;
use crate::display_names::DisplayNames;
use crate::platform::{
    CheckFinding, DriverError, Pace, PlatformAction, PlatformCapabilities, PlatformChannel, PlatformDriver,
    PlatformEvents, PlatformFailure, PlatformMessageId, PlatformReceipt, ResendRule,
};
use crate::rich::Flavour;

/// Slack recommends at most 4,000 characters for a message.
const MAX_TEXT_BYTES: usize = 4000;

const MAX_PARTS: usize = 5;

const MAX_USERNAME_CHARS: usize = 80;

/// The `event_type` of the metadata of the bridge's messages.
const METADATA_TYPE: &str = "salon_message";

/// The bridge to one workspace.
pub struct SlackDriver {
    api: SlackApi,
    signing_secret: String,
    listen: SocketAddr,
    pace: Pace,
    channels: ConnectedChannels,
    /// Who the bridge is, once Slack has said so.
    identity: watch::Sender<Option<SlackIdentity>>,
    names: DisplayNames,
    threads: Mutex<ThreadRoots>,
    deliveries: Mutex<RecentDeliveries>,
    /// Events are taken one by one.
    taking: tokio::sync::Mutex<()>,
}

impl SlackDriver {
    async fn send_action(
        &self,
        channel: &PlatformChannel,
        action: &PlatformAction,
    ) -> Result<PlatformReceipt, SlackFailure> {
        match action {
            PlatformAction::Send { key, speaker, text, reply_to, .. } => {
                let mut message = json!({
                    "channel": channel.as_str(), "text": text.formatted, "unfurl_links": false, "unfurl_media": false,
                    "metadata": {"event_type": METADATA_TYPE, "event_payload": {"key": key.as_str()}},
                });
                if let Some(speaker) = speaker {
                    let name: String =
                        speaker.name.chars().filter(|c| !c.is_control()).take(MAX_USERNAME_CHARS).collect();
                    message["username"] = name.into();
                }
                let root = reply_to.as_ref().map(|target| self.threads.lock().root(channel, target.as_str()));
                if let Some(root) = &root {
                    message["thread_ts"] = root.as_str().into();
                }
                let ts = self.api.post(message).await?;
                if let Some(root) = root {
                    self.threads.lock().add(channel, &ts, &root);
                }
                Ok(PlatformReceipt { id: Some(PlatformMessageId::new(ts)) })
            }
            PlatformAction::Edit { target, text, .. } => {
                self.api.update(channel.as_str(), target.as_str(), &text.formatted).await?;
                Ok(PlatformReceipt::default())
            }
            PlatformAction::Retract { target, .. } => {
                match self.api.delete(channel.as_str(), target.as_str()).await {
                    // Somebody was faster.
                    Err(failure) if failure.is_error("message_not_found") => {}
                    deleted => deleted?,
                }
                Ok(PlatformReceipt::default())
            }
            PlatformAction::RemovePuppet { .. } => Ok(PlatformReceipt::default()),
        }
    }
}

impl PlatformDriver for SlackDriver {
    fn capabilities(&self) -> PlatformCapabilities {
        PlatformCapabilities {
            flavour: Flavour::SlackMrkdwn,
            max_text_bytes: MAX_TEXT_BYTES,
            is_multiline: true,
            max_parts: MAX_PARTS,
            can_edit: true,
            can_retract: true,
            can_reply: true,
            shows_speaker: true,
            resend: ResendRule::AfterEcho,
            pace: self.pace,
        }
    }

    fn run(
        self: Arc<Self>,
        events: PlatformEvents,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), DriverError>> {
        callback_driver::run(self, events, stop).boxed()
    }

    fn perform<'a>(
        &'a self,
        channel: &'a PlatformChannel,
        action: &'a PlatformAction,
    ) -> BoxFuture<'a, Result<PlatformReceipt, PlatformFailure>> {
        let performing = async { self.send_action(channel, action).await.map_err(SlackFailure::into_failure) };
        self.channels.perform(channel, performing).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Vec<CheckFinding>> {
        self.look().boxed()
    }
}
