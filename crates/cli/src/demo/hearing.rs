//! What a participant of the demo listens for: what others say, and who comes in.

use salon_client::{Event, Events};
use salon_protocol::{CHAT_METHOD, Envelope, EnvelopeId, Message, ParticipantId, PresenceEvent};

/// Events that the participants of the demo react to.
#[derive(Debug, Clone)]
pub(crate) enum DemoEvent {
    Message { id: EnvelopeId, from: ParticipantId, text: String },
    Joined { id: ParticipantId, name: Option<String> },
}

/// The next message or action of another participant; `None` when the stay is over.
pub(crate) async fn next(events: &mut Events, me: &ParticipantId) -> Option<DemoEvent> {
    loop {
        if let Event::Envelope(envelope) = events.next().await?
            && let Some(heard) = read(&envelope, me)
        {
            return Some(heard);
        }
    }
}

fn read(envelope: &Envelope, me: &ParticipantId) -> Option<DemoEvent> {
    if let Some(presence) = envelope.presence().filter(|presence| presence.event == PresenceEvent::Join) {
        return Some(DemoEvent::Joined { id: presence.participant.id, name: presence.participant.name });
    }
    let Some(Message::Notification { method }) = envelope.message() else { return None };
    let chat = envelope.chat().filter(|_| &**method == CHAT_METHOD && envelope.from() != me)?;
    Some(DemoEvent::Message { id: envelope.id().clone(), from: envelope.from().clone(), text: chat.text })
}
