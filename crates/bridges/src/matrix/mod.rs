//! Matrix: the bridge is an application service of a homeserver.
//!
//! People's messages come in transactions that the homeserver repeats until they are acknowledged. Participants of the room are users of the
//! homeserver in the bridge's namespace. Application service API and client-server API v1.15.
//!
//! Deliberately absent: end-to-end encryption. A bridge is no member that people gave their keys to; encrypted rooms are not bridged.

mod connection;
mod content;
pub mod events;
mod homeserver;
pub mod html;
mod inbound;
mod puppets;
pub mod registration;
mod setup;
#[cfg(test)]
mod tests;
pub mod user_ids;

pub use self::setup::{init, open};

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use salon_protocol::Timestamp;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::homeserver::{Homeserver, HomeserverFailure};
use self::puppets::Puppets;
use self::user_ids::PuppetIds;
use crate::callback_driver;
use crate::clock;
use crate::connected_channels::ConnectedChannels;
use crate::display_names::DisplayNames;
use crate::platform::{
    ActionKey, CheckFinding, DriverError, Pace, PlatformAction, PlatformCapabilities, PlatformChannel, PlatformDriver,
    PlatformEvents, PlatformFailure, PlatformMessageId, PlatformReceipt, ResendRule, Speaker,
};
use crate::rich::Flavour;

/// An event has at most 64 KiB, and an edit holds its text four times.
const MAX_TEXT_BYTES: usize = 10 * 1024;

const MAX_PARTS: usize = 4;

/// From which age on a message shows when it was said. Younger ones show when they came.
const LATE_AFTER: Duration = Duration::from_secs(30);
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The bridge to one homeserver.
pub struct MatrixDriver {
    homeserver: Homeserver,
    hs_token: String,
    appservice: String,
    listen: SocketAddr,
    media_url: Option<String>,
    ids: PuppetIds,
    channels: ConnectedChannels,
    /// The ids of channels' rooms.
    rooms: Mutex<HashMap<PlatformChannel, String>>,
    puppets: Puppets,
    names: DisplayNames,
    look_interval: Duration,
    /// The newest event of each channel that an earlier run has stored.
    begun: Mutex<HashMap<PlatformChannel, String>>,
    /// The newest event of each room that is stored here.
    newest_taken: Mutex<HashMap<String, String>>,
    /// Whether it is known which rooms are bridged, and what was missed in them.
    ready: watch::Sender<bool>,
    /// Transactions are taken one by one.
    transactions: tokio::sync::Mutex<()>,
    invited: Notify,
}

impl MatrixDriver {
    fn channel_of(&self, room_id: &str) -> Option<PlatformChannel> {
        let rooms = self.rooms.lock();
        rooms.iter().find(|(_, room)| *room == room_id).map(|(channel, _)| channel.clone())
    }

    async fn send_action(&self, room: &str, action: &PlatformAction) -> Result<PlatformReceipt, HomeserverFailure> {
        let (key, speaker, sending) = match action {
            PlatformAction::Send { key, speaker, text, reply_to, sent_at } => {
                let content = content::message(key, text, speaker.is_none(), reply_to.as_ref());
                (key, speaker, MatrixSending::Message { content, at: late(*sent_at, clock::now()) })
            }
            PlatformAction::Edit { key, speaker, target, text } => {
                let content = content::replacement(key, text, speaker.is_none(), target);
                (key, speaker, MatrixSending::Message { content, at: None })
            }
            PlatformAction::Retract { key, speaker, target } => (key, speaker, MatrixSending::Redaction(target)),
            PlatformAction::RemovePuppet { participant, .. } => {
                self.puppets.leave(&self.homeserver, room, participant).await?;
                return Ok(PlatformReceipt::default());
            }
        };
        let sent = match speaker {
            Some(speaker) => self.send_as(room, speaker, key, &sending).await?,
            None => self.send(room, None, key, &sending).await?,
        };
        Ok(PlatformReceipt { id: Some(PlatformMessageId::new(sent)) })
    }

    /// Sends something as a speaker's puppet. One that was removed from the room is brought back, once.
    async fn send_as(
        &self,
        room: &str,
        speaker: &Speaker,
        key: &ActionKey,
        sending: &MatrixSending<'_>,
    ) -> Result<String, HomeserverFailure> {
        let user = self.puppets.enter(&self.homeserver, room, speaker).await?;
        match self.send(room, user.as_deref(), key, sending).await {
            Err(failure) if failure.is_code("M_FORBIDDEN") => {
                self.puppets.forget_room(&speaker.id, room);
                let user = self.puppets.enter(&self.homeserver, room, speaker).await?;
                self.send(room, user.as_deref(), key, sending).await
            }
            sent => sent,
        }
    }

    async fn send(
        &self,
        room: &str,
        user: Option<&str>,
        key: &ActionKey,
        sending: &MatrixSending<'_>,
    ) -> Result<String, HomeserverFailure> {
        match sending {
            MatrixSending::Message { content, at } => {
                self.homeserver.send(room, key.as_str(), user, content, *at).await
            }
            MatrixSending::Redaction(target) => self.homeserver.redact(room, target.as_str(), key.as_str(), user).await,
        }
    }
}

/// An event on its way to the homeserver.
enum MatrixSending<'a> {
    /// With the time that it shows, where that is not now.
    Message {
        content: serde_json::Value,
        at: Option<Timestamp>,
    },
    Redaction(&'a PlatformMessageId),
}

/// The time of a message that comes late. Its sender can have written any time: one of the future, or of long ago, is not shown.
fn late(sent_at: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let age = |at: &Timestamp| Duration::from_millis(now.0.saturating_sub(at.0));
    sent_at.filter(|at| (LATE_AFTER..=MAX_AGE).contains(&age(at)))
}

impl PlatformDriver for MatrixDriver {
    fn capabilities(&self) -> PlatformCapabilities {
        PlatformCapabilities {
            flavour: Flavour::MatrixHtml,
            max_text_bytes: MAX_TEXT_BYTES,
            is_multiline: true,
            max_parts: MAX_PARTS,
            can_edit: true,
            can_retract: true,
            can_reply: true,
            shows_speaker: true,
            // Synapse forgets transaction ids of application services when it restarts.
            resend: ResendRule::AfterEcho,
            // The registration asks for no limit; a homeserver that has one all the same says so.
            pace: Pace { interval: Duration::ZERO, burst: 1 },
        }
    }

    fn begin(&self, channel: &PlatformChannel, newest: PlatformMessageId) {
        self.begun.lock().insert(channel.clone(), newest.0);
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
        let performing = async {
            let room = self.rooms.lock().get(channel).cloned().unwrap_or_default();
            self.send_action(&room, action).await.map_err(HomeserverFailure::into_failure)
        };
        self.channels.perform(channel, performing).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Vec<CheckFinding>> {
        self.look().boxed()
    }
}
