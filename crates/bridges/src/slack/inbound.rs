//! Requests of Slack to the bridge, and what its messages mean to the core.

use std::time::{Duration, SystemTime};

use hyper::{Method, StatusCode};
use salon_protocol::Timestamp;
use serde_json::json;

use super::events::{self, SlackEvent, SlackMessage, SlackRequest};
use super::{SlackDriver, mrkdwn, signature};
use crate::http_receiver::{PlatformAnswer, PlatformRequest};
use crate::platform::{
    Attachment, AuthorOrigin, PlatformAuthor, PlatformChannel, PlatformEvent, PlatformEvents, PlatformMessage,
    PlatformMessageId, PlatformUserId,
};
use crate::rich::{InlineText, RichText, TextBlock};

/// Slack waits three seconds for an answer, and sends the event again otherwise.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2500);

const MAX_ATTACHMENTS: usize = 10;

impl SlackDriver {
    pub(super) async fn take_request(&self, request: PlatformRequest, events: &PlatformEvents) -> PlatformAnswer {
        if request.head.method != Method::POST {
            return error(StatusCode::METHOD_NOT_ALLOWED, "Slack posts its events");
        }
        let header = |name: &str| request.head.headers.get(name).and_then(|value| value.to_str().ok());
        let (timestamp, tag) = (header("x-slack-request-timestamp"), header("x-slack-signature"));
        let now = Timestamp::from_system(SystemTime::now());
        if let Err(refusal) = signature::verify(&self.signing_secret, timestamp, tag, &request.body, now) {
            return error(StatusCode::UNAUTHORIZED, &refusal.to_string());
        }
        match events::decode(&request.body) {
            None => error(StatusCode::BAD_REQUEST, "this is not a request of the Events API"),
            Some(SlackRequest::UrlVerification { challenge }) => {
                PlatformAnswer::new(StatusCode::OK, json!({"challenge": challenge}).to_string())
            }
            Some(SlackRequest::Other) => PlatformAnswer::empty_object(),
            Some(SlackRequest::Event { event_id, event }) => {
                match tokio::time::timeout(ANSWER_TIMEOUT, self.take(&event_id, *event, events)).await {
                    Ok(Some(())) => PlatformAnswer::empty_object(),
                    Ok(None) | Err(_) => error(StatusCode::SERVICE_UNAVAILABLE, "the bridge is not ready"),
                }
            }
        }
    }

    /// Hands an event to the core. `None` where it is not stored; Slack sends it again.
    async fn take(&self, event_id: &str, event: SlackEvent, events: &PlatformEvents) -> Option<()> {
        // Who the bridge itself is must be known, or its own messages would come back.
        let mut identity = self.identity.subscribe();
        identity.wait_for(Option::is_some).await.ok()?;
        if self.deliveries.lock().contains(event_id) {
            return Some(());
        }
        let _in_order = self.taking.lock().await;
        if let Some((channel, event)) = self.translate(event).await {
            events.report_stored(channel, event).await.ok()?;
        }
        self.deliveries.lock().add(event_id);
        Some(())
    }

    async fn translate(&self, event: SlackEvent) -> Option<(PlatformChannel, PlatformEvent)> {
        match event {
            SlackEvent::Message(message) => {
                let channel = self.bridged(message.channel.as_deref()?)?;
                let event = self.message_event(&channel, message).await?;
                Some((channel, event))
            }
            SlackEvent::Changed { channel, message } => {
                let channel = self.bridged(&channel)?;
                let author = self.author(&message).await?;
                let content = self.text(&author, &message);
                let edited = message.edited.as_ref().map(|edited| edited.ts.as_str()).unwrap_or_default();
                let id = Some(PlatformMessageId::new(format!("{}@{edited}", message.ts)));
                let target = PlatformMessageId::new(message.ts);
                Some((channel, PlatformEvent::Edit { target, author, content, id }))
            }
            SlackEvent::Deleted { channel, ts, event_ts } => {
                let channel = self.bridged(&channel)?;
                // Slack does not say who deleted it: its author or an administrator.
                let author = PlatformAuthor {
                    id: PlatformUserId::new("USLACK"),
                    name: "Slack".into(),
                    origin: AuthorOrigin::Person,
                    is_verified: true,
                };
                let id = Some(PlatformMessageId::new(format!("{ts}@{event_ts}")));
                let target = PlatformMessageId::new(ts);
                Some((channel, PlatformEvent::Retract { target, author, is_moderated: true, id }))
            }
            SlackEvent::Unrelated => None,
        }
    }

    fn bridged(&self, channel: &str) -> Option<PlatformChannel> {
        let channel = PlatformChannel::new(channel);
        self.channels.all.contains(&channel).then_some(channel)
    }

    pub(super) async fn message_event(
        &self,
        channel: &PlatformChannel,
        message: SlackMessage,
    ) -> Option<PlatformEvent> {
        if !message.is_written() {
            return None;
        }
        if let Some(root) = message.thread_root() {
            self.threads.lock().add(channel, &message.ts, root);
        }
        let author = self.author(&message).await?;
        let files = message.files.iter().filter_map(|file| {
            let url = file.permalink.clone()?;
            Some(Attachment { name: file.name.clone().unwrap_or_else(|| "file".into()), url })
        });
        Some(PlatformEvent::Message(PlatformMessage {
            content: self.text(&author, &message),
            author,
            reply_to: message.thread_root().map(PlatformMessageId::new),
            attachments: files.take(MAX_ATTACHMENTS).collect(),
            sent_at: events::milliseconds(&message.ts).map(Timestamp),
            id: Some(PlatformMessageId::new(message.ts)),
        }))
    }

    /// Whether the bridge wrote a message.
    pub(super) fn is_own(&self, message: &SlackMessage) -> bool {
        self.identity.borrow().as_ref().is_some_and(|identity| {
            message.user.as_deref() == Some(&identity.user_id)
                || (message.bot_id.is_some() && message.bot_id == identity.bot_id)
        })
    }

    async fn author(&self, message: &SlackMessage) -> Option<PlatformAuthor> {
        // Who the bridge is must be known, or its own messages would come back.
        self.identity.borrow().as_ref()?;
        let is_own = self.is_own(message);
        let id = message.user.clone().or_else(|| message.bot_id.clone())?;
        let origin = match (&message.bot_id, is_own) {
            (_, true) => AuthorOrigin::OwnBridge,
            (Some(_), false) => AuthorOrigin::Bot,
            (None, false) => AuthorOrigin::Person,
        };
        let name = match (&message.username, self.names.get(&id)) {
            (Some(name), _) if origin == AuthorOrigin::Bot => name.clone(),
            (_, Some(name)) => name,
            _ if origin != AuthorOrigin::Person => id.clone(),
            _ => match self.api.user_name(&id).await {
                Ok(name) => self.names.remember(&id, name),
                // Asked for again with the next message.
                Err(_) => id.clone(),
            },
        };
        Some(PlatformAuthor { id: PlatformUserId::new(id), name, origin, is_verified: true })
    }

    fn text(&self, author: &PlatformAuthor, message: &SlackMessage) -> RichText {
        let content = mrkdwn::parse(&message.text, &|user| self.names.get(user));
        if message.subtype.as_deref() != Some("me_message") {
            return content;
        }
        let text = format!("{} {}", author.name, crate::rich::render(&content, crate::rich::Flavour::Plain));
        RichText { blocks: vec![TextBlock::Paragraph(vec![InlineText::Emphasis(vec![InlineText::Text(text)])])] }
    }
}

fn error(status: StatusCode, message: &str) -> PlatformAnswer {
    PlatformAnswer::new(status, json!({"error": message}).to_string())
}
