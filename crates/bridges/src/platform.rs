//! The interface between the core of a bridge and a platform: what the platform reports, what it is asked to do, and what it can do.
//!
//! A module per platform implements [`PlatformDriver`]. It owns the connection and the platform's grammar. It decides nothing about rooms:
//! which messages go where, their order, retries, pace, splitting and formatting are the core's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use salon_protocol::{ParticipantId, ParticipantKind, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::rich::{Flavour, RichText};

macro_rules! platform_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

platform_id!(
    /// A channel as its platform names it, and as the configuration does: `#lab`, `!abc:server`, `C0123`, `lab@conference.example`.
    PlatformChannel
);
platform_id!(
    /// A person's stable id on the platform, never a display name: `@alice:server`, `U0123`, a bare JID, a nick.
    PlatformUserId
);
platform_id!(
    /// The platform's id of a message, unique within its channel.
    PlatformMessageId
);
platform_id!(
    /// Names one thing to do on the platform, for ever: the same key is the same message. 24 hexadecimal digits that follow from
    /// the envelope's id. The platform's idempotency key where it has one (Matrix transaction id, Discord nonce, XMPP stanza id).
    ActionKey
);

/// Who wrote something on the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformAuthor {
    pub id: PlatformUserId,
    /// For people to read. Anybody can choose any.
    pub name: String,
    pub origin: AuthorOrigin,
    /// Whether the platform has checked that this is the owner of the id. An IRC nick without an account is not.
    pub is_verified: bool,
}

/// What kind of account an author is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorOrigin {
    Person,
    /// A bot or a webhook of somebody else. Dropped unless the configuration relays bots.
    Bot,
    /// This bridge: its own account, one of its puppets or its webhook. Always dropped.
    OwnBridge,
}

/// A message on the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformMessage {
    /// `None` on platforms without ids of messages (IRC).
    pub id: Option<PlatformMessageId>,
    pub author: PlatformAuthor,
    pub content: RichText,
    pub reply_to: Option<PlatformMessageId>,
    pub attachments: Vec<Attachment>,
    /// By the platform's clock.
    pub sent_at: Option<Timestamp>,
}

/// A file that belongs to a message, by link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub name: String,
    pub url: String,
}

/// What happened in one channel of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformEvent {
    /// The channel can be written to. Reported after every connect.
    Connected,
    /// Everything has been reported that the platform kept while the bridge was away, own messages as [`Self::Echo`]. Follows every
    /// [`Self::Connected`].
    CaughtUp,
    /// The channel cannot be written to until [`Self::Connected`].
    Disconnected {
        reason: String,
    },
    Message(PlatformMessage),
    /// The author of a message has replaced its text.
    Edit {
        target: PlatformMessageId,
        author: PlatformAuthor,
        content: RichText,
        id: Option<PlatformMessageId>,
    },
    /// A message has been deleted by its author or a moderator.
    Retract {
        target: PlatformMessageId,
        author: PlatformAuthor,
        /// Whether the platform has checked that the author may delete what others wrote. If not, only what the author wrote is deleted.
        is_moderated: bool,
        id: Option<PlatformMessageId>,
    },
    /// A message of this bridge was seen on the platform.
    Echo {
        key: ActionKey,
        id: Option<PlatformMessageId>,
    },
    /// Somebody entered the channel, or was there when the bridge entered.
    Join {
        author: PlatformAuthor,
    },
    Leave {
        user: PlatformUserId,
    },
}

/// As whom to send something: a participant of the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    pub id: ParticipantId,
    pub name: String,
    pub kind: Option<ParticipantKind>,
}

/// A text, ready to be sent: within the platform's limits, with the speaker's name in it where the platform cannot show names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedText {
    /// In the platform's [`Flavour`].
    pub formatted: String,
    /// Without any formatting, for platforms that want both (Matrix `body`, notifications).
    pub plain: String,
    /// People of the platform that the text names, for platforms that ping by a list.
    pub mentions: Vec<PlatformUserId>,
}

/// Something to do in one channel of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformAction {
    Send {
        key: ActionKey,
        /// `None` for notices of the bridge itself.
        speaker: Option<Speaker>,
        text: RenderedText,
        reply_to: Option<PlatformMessageId>,
        /// When it was said in the room, by the clock of who said it. Long ago where the bridge or the platform was away.
        sent_at: Option<Timestamp>,
    },
    /// Only where [`PlatformCapabilities::can_edit`].
    Edit { key: ActionKey, speaker: Option<Speaker>, target: PlatformMessageId, text: RenderedText },
    /// Only where [`PlatformCapabilities::can_retract`].
    Retract { key: ActionKey, speaker: Option<Speaker>, target: PlatformMessageId },
    /// A participant has left the room: its puppet leaves the channel, where it has one.
    RemovePuppet { key: ActionKey, participant: ParticipantId },
}

impl PlatformAction {
    pub fn key(&self) -> &ActionKey {
        match self {
            Self::Send { key, .. }
            | Self::Edit { key, .. }
            | Self::Retract { key, .. }
            | Self::RemovePuppet { key, .. } => key,
        }
    }
}

/// What the platform answered to an action that it took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlatformReceipt {
    /// The id of the message that was sent; `None` on platforms without ids, and for actions that send no message.
    pub id: Option<PlatformMessageId>,
}

/// Why an action was not done. The core decides by the variant alone what happens next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlatformFailure {
    /// Not done, because of a limit (`429`, `Retry-After`) or trouble that passes. Tried again after this time, at the earliest.
    #[error("{reason}; trying again in {} s", after.as_secs())]
    RetryAfter { after: Duration, reason: String },
    /// Not done, and trying the same again is useless: too long, forbidden, the target is gone.
    #[error("{reason}")]
    Permanent { reason: String },
    /// Not done, because there is no connection. Tried again after the next [`PlatformEvent::Connected`].
    #[error("not connected: {reason}")]
    Offline { reason: String },
    /// Perhaps done: the connection was lost, or nothing was answered in time. What happens next is in [`ResendRule`]; with
    /// [`ResendRule::AfterEcho`] the driver connects again, because only a new [`PlatformEvent::CaughtUp`] tells.
    #[error("outcome unknown: {reason}")]
    Unknown { reason: String },
}

/// What to do with a message that was perhaps sent: after [`PlatformFailure::Unknown`], and after a crash of the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResendRule {
    /// Send it again: the platform takes the same [`ActionKey`] once (Matrix).
    ByKey,
    /// Send it again after the next [`PlatformEvent::CaughtUp`], unless a [`PlatformEvent::Echo`] with its key came before (XMPP).
    AfterEcho,
    /// Never: the platform cannot say whether it has it (IRC).
    Never,
}

/// How fast a channel may be written to. Each [`PlatformAction`] takes one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long one token takes to come back. Zero is no limit.
    pub interval: Duration,
    /// How many tokens there are at most.
    pub burst: u32,
}

/// What a platform can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformCapabilities {
    /// How texts are written.
    pub flavour: Flavour,
    /// The most bytes that [`RenderedText::formatted`] has. Longer texts become several messages.
    pub max_text_bytes: usize,
    /// Whether a message can have several lines. If not, every line is a message.
    pub is_multiline: bool,
    /// The most messages that one text becomes. The last says that there is more.
    pub max_parts: usize,
    pub can_edit: bool,
    pub can_retract: bool,
    pub can_reply: bool,
    /// Whether a message shows its [`Speaker`]. If not, texts begin with `<name> `.
    pub shows_speaker: bool,
    pub resend: ResendRule,
    pub pace: Pace,
}

/// The way of a driver's events to the core. Waits while the core is busy, so a platform that reports too much is read no faster.
#[derive(Debug, Clone)]
pub struct PlatformEvents {
    sender: mpsc::Sender<ReportedEvent>,
}

/// An event on its way to the core.
#[derive(Debug)]
pub struct ReportedEvent {
    pub channel: PlatformChannel,
    pub event: PlatformEvent,
    /// Where to say that the event is stored.
    pub stored: Option<oneshot::Sender<()>>,
}

/// The bridge has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bridge has ended")]
pub struct BridgeEnded;

/// The event was not stored: too much waits for the room, or the bridge has ended. The platform should report it again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bridge has not stored the event")]
pub struct EventNotStored;

impl PlatformEvents {
    /// A way with room for so many events.
    pub fn channel(capacity: usize) -> (Self, mpsc::Receiver<ReportedEvent>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self { sender }, receiver)
    }

    /// Hands an event over.
    pub async fn report(&self, channel: PlatformChannel, event: PlatformEvent) -> Result<(), BridgeEnded> {
        self.sender.send(ReportedEvent { channel, event, stored: None }).await.map_err(|_| BridgeEnded)
    }

    /// Hands an event over and returns once it cannot be lost any more, not even by a crash of the bridge. For platforms that keep an event
    /// until it is acknowledged: acknowledge after this, and not after an error.
    pub async fn report_stored(&self, channel: PlatformChannel, event: PlatformEvent) -> Result<(), EventNotStored> {
        let (stored, waiting) = oneshot::channel();
        let reported = ReportedEvent { channel, event, stored: Some(stored) };
        self.sender.send(reported).await.map_err(|_| EventNotStored)?;
        waiting.await.map_err(|_| EventNotStored)
    }
}

/// Why a bridge cannot run at all: the configuration or the credentials are wrong. A lost connection is none; drivers reconnect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DriverError(pub String);

/// One thing that `salon bridge check` looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    /// What was looked at: `connection`, `password`, `channel #lab`.
    pub subject: String,
    pub verdict: CheckVerdict,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckVerdict {
    Fine { detail: String },
    Problem { detail: String, hint: String },
}

/// A platform. One value for a bridge, with all of its channels.
pub trait PlatformDriver: Send + Sync + 'static {
    fn capabilities(&self) -> PlatformCapabilities;

    /// Says before [`run`](Self::run) which message of a person was the newest that an earlier run has stored, for drivers that look for what came after it.
    fn begin(&self, _channel: &PlatformChannel, _newest: PlatformMessageId) {}

    /// Stays connected until `stop`, and reports what happens in every channel. Reconnects by itself with a growing delay. Returns an error only for
    /// what a person has to change.
    fn run(
        self: Arc<Self>,
        events: PlatformEvents,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), DriverError>>;

    /// Does something in a channel. The core has at most one action of a channel under way; it may drop the future, which counts
    /// as [`PlatformFailure::Unknown`].
    fn perform<'a>(
        &'a self,
        channel: &'a PlatformChannel,
        action: &'a PlatformAction,
    ) -> BoxFuture<'a, Result<PlatformReceipt, PlatformFailure>>;

    /// Connects, looks, disconnects: what is in the way of a bridge with this configuration.
    fn check(&self) -> BoxFuture<'_, Vec<CheckFinding>>;
}
