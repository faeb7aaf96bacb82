//! What Discord's events and messages mean to the core.

use salon_protocol::Timestamp;

use super::gateway_payload::{DiscordEvent, DiscordMessage};
use super::{DiscordDriver, text};
use crate::platform::{
    Attachment, AuthorOrigin, PlatformAuthor, PlatformChannel, PlatformEvent, PlatformMessage, PlatformMessageId,
    PlatformUserId,
};

/// "Message Types": what people write. The others are notices of Discord itself.
const DEFAULT_MESSAGE: u32 = 0;
const REPLY: u32 = 19;

const MAX_ATTACHMENTS: usize = 10;
const MAX_NAME_CHARS: usize = 100;

impl DiscordDriver {
    /// The events for the core, each with its channel. Those of other channels are nothing to this bridge.
    pub(super) fn translate(&self, event: DiscordEvent) -> Vec<(PlatformChannel, PlatformEvent)> {
        let (channel, events) = match event {
            DiscordEvent::MessageCreate(message) => (message.channel_id.clone(), self.message_event(message)),
            DiscordEvent::MessageUpdate(message) => (message.channel_id.clone(), self.edit_event(message)),
            DiscordEvent::MessageDelete { id, channel_id } => (channel_id, Some(retract_event(id))),
            DiscordEvent::MessageDeleteBulk { ids, channel_id } => {
                let channel = PlatformChannel::new(channel_id);
                if !self.channels.all.contains(&channel) {
                    return Vec::new();
                }
                return ids.into_iter().map(|id| (channel.clone(), retract_event(id))).collect();
            }
            DiscordEvent::Malformed => {
                tracing::warn!("discord bridge: malformed event left out");
                return Vec::new();
            }
            DiscordEvent::Ready { .. } | DiscordEvent::Resumed | DiscordEvent::Unrelated => return Vec::new(),
        };
        let channel = PlatformChannel::new(channel);
        let is_bridged = self.channels.all.contains(&channel);
        events.filter(|_| is_bridged).map(|event| (channel, event)).into_iter().collect()
    }

    pub(super) fn message_event(&self, message: DiscordMessage) -> Option<PlatformEvent> {
        if !matches!(message.kind, DEFAULT_MESSAGE | REPLY) {
            return None;
        }
        let author = self.author(&message)?;
        let content = text::parse(message.content.as_deref().unwrap_or_default(), &message.mentions);
        let attachments = message.attachments.into_iter().take(MAX_ATTACHMENTS);
        let attachments = attachments.map(|file| Attachment { name: file.filename, url: file.url }).collect();
        let reply = message.message_reference.filter(|_| message.kind == REPLY);
        Some(PlatformEvent::Message(PlatformMessage {
            id: Some(PlatformMessageId::new(message.id)),
            author,
            content,
            reply_to: reply.and_then(|reply| reply.message_id).map(PlatformMessageId::new),
            attachments,
            sent_at: message.timestamp.as_deref().and_then(Timestamp::parse),
        }))
    }

    /// An update without a time of editing is Discord's own: a preview of a link, a pin.
    fn edit_event(&self, message: DiscordMessage) -> Option<PlatformEvent> {
        let edited_at = message.edited_timestamp.as_deref()?;
        let content = text::parse(message.content.as_deref()?, &message.mentions);
        let author = self.author(&message)?;
        // The same edit comes again after a resumed session.
        let id = PlatformMessageId::new(format!("{}@{edited_at}", message.id));
        Some(PlatformEvent::Edit { target: PlatformMessageId::new(message.id), author, content, id: Some(id) })
    }

    fn author(&self, message: &DiscordMessage) -> Option<PlatformAuthor> {
        let user = message.author.as_ref()?;
        let origin = match &message.webhook_id {
            Some(webhook) if self.is_own_webhook(webhook) => AuthorOrigin::OwnBridge,
            Some(_) => AuthorOrigin::Bot,
            None if self.own_user.lock().as_deref() == Some(&user.id) => AuthorOrigin::OwnBridge,
            None if user.bot => AuthorOrigin::Bot,
            None => AuthorOrigin::Person,
        };
        let nick = message.member.as_ref().and_then(|member| member.nick.as_deref());
        let name = nick.filter(|nick| !nick.is_empty()).unwrap_or_else(|| user.shown_name());
        Some(PlatformAuthor {
            id: PlatformUserId::new(&user.id),
            name: name.chars().take(MAX_NAME_CHARS).collect(),
            origin,
            is_verified: true,
        })
    }
}

/// Discord does not say who deleted a message: its author or a moderator.
fn retract_event(id: String) -> PlatformEvent {
    let author = PlatformAuthor {
        id: PlatformUserId::new("0"),
        name: "Discord".into(),
        origin: AuthorOrigin::Person,
        is_verified: true,
    };
    PlatformEvent::Retract {
        id: Some(PlatformMessageId::new(format!("{id}@deleted"))),
        target: PlatformMessageId::new(id),
        author,
        is_moderated: true,
    }
}
