//! What each envelope becomes in the transcript.

use std::time::Duration;

use salon_control::{APPROVAL_DECIDED_METHOD, APPROVAL_REQUESTED_METHOD, ControlNotice, MessageRedaction};
use salon_protocol::{
    CHAT_METHOD, ChatFormat, ChatRevision, Envelope, EnvelopeId, Kind, Members, Message, ParticipantId, Presence,
    PresenceEvent, REDACTED_TEXT, RpcId, Timestamp,
};

use super::item::{CallItem, CallOutcome, CallProgress, ChatItem, ChatMessage, ItemBody, MessageState};
use super::text::{clip, safe, safe_line};
use super::transcript::{ChatTranscript, MAX_TEXT, gone};
use crate::transcript::reading::{
    AnswerText, RequestText, answered, is_housekeeping, is_preparation, member, members, request_text, sent,
};

/// The most that is kept of the arguments of a call, or of its answer.
const MAX_KEPT: usize = 4 * 1024;

/// How many revisions are remembered for messages that are loaded later. The log has them all; with more, some messages of the past are
/// shown as they were said until their own page is loaded again.
const MAX_REVISIONS: usize = 1000;

impl ChatTranscript {
    /// What an envelope becomes: an item, or a change to one that is there.
    pub(super) fn fold(&mut self, envelope: &Envelope, now: Option<Duration>) -> Option<ChatItem> {
        let at = sent(envelope).unwrap_or(Timestamp(0));
        let body = match (envelope.kind(), envelope.message()) {
            (Kind::Presence, _) => self.presence(&envelope.presence()?, at, now)?,
            (Kind::System, _) => {
                let payload = members(envelope.payload());
                let is_error = member::<String>(&payload, "event").as_deref() == Some("error");
                let why: String = member(&payload, "message").filter(|_| is_error)?;
                self.fail(envelope.correlation()?, &why, at, now?);
                return None;
            }
            (_, Some(Message::Request { id, method })) => self.request(envelope, id, method, now)?,
            (_, Some(Message::Response { .. })) => self.response(envelope, at, now)?,
            (_, Some(Message::Notification { method })) => self.notification(envelope, method, now)?,
            (_, None) => return None,
        };
        Some(ChatItem { key: 0, envelope: Some(envelope.id().clone()), at, body })
    }

    fn presence(&mut self, presence: &Presence, at: Timestamp, now: Option<Duration>) -> Option<ItemBody> {
        let who = presence.participant.id.clone();
        let joined = match presence.event {
            PresenceEvent::Join => true,
            PresenceEvent::Leave => false,
            // The roster shows it.
            PresenceEvent::Heartbeat | PresenceEvent::Status => return None,
        };
        if !joined {
            for call in self.open_calls().filter(|call| call.to == who) {
                call.outcome = Some(gone(at, now.zip(call.began).map(|(now, began)| now.saturating_sub(began))));
            }
        }
        Some(ItemBody::Presence { who, kind: presence.participant.kind, joined })
    }

    fn request(&mut self, envelope: &Envelope, id: &RpcId, method: &str, now: Option<Duration>) -> Option<ItemBody> {
        let to = envelope.to().first()?.clone();
        let params = members(envelope.params().unwrap_or("{}"));
        let RequestText { what, details } = request_text(method, &params);
        let what = safe_line(&clip(&what, MAX_KEPT));
        let mut details = safe(&clip(&details, MAX_KEPT));
        let meta = params.get("_meta").map(|meta| members(meta.get())).unwrap_or_default();
        let token = meta.get("progressToken");
        let asks = method == "elicitation/create" || (method == "tools/call" && what == super::ASK_HUMAN);
        let question = asks && to == self.me;
        if question
            && let Some(text) =
                params.get("arguments").and_then(|raw| member::<String>(&members(raw.get()), "question"))
        {
            details = safe(&clip(&text, MAX_TEXT));
        }
        Some(ItemBody::Call(CallItem {
            question,
            from: envelope.from().clone(),
            to,
            rpc: id.clone(),
            token: token.map(|token| token.get().to_owned()),
            what,
            details,
            minor: is_preparation(method),
            began: now,
            progress: None,
            cancelled: false,
            outcome: None,
        }))
    }

    fn response(&mut self, envelope: &Envelope, at: Timestamp, now: Option<Duration>) -> Option<ItemBody> {
        let AnswerText { worked: well, says } = answered(envelope);
        let text = safe(&clip(&says, MAX_KEPT));
        let place = envelope.correlation().and_then(|about| self.place(*self.keys.get(about)?));
        let answer = Some(envelope.id().clone());
        let outcome = |took| CallOutcome { well, text: text.clone(), at, took, answer: answer.clone() };
        if let Some(item) = place.and_then(|place| self.items.get_mut(place))
            && let ItemBody::Call(call) = &mut item.body
        {
            // The first answer counts.
            if call.outcome.is_none() {
                let took = match now.zip(call.began) {
                    Some((now, began)) => Some(now.saturating_sub(began)),
                    None => at.0.checked_sub(item.at.0).map(Duration::from_millis),
                };
                call.outcome = Some(outcome(took));
            }
            return None;
        }
        let (from, to) = (envelope.from().clone(), envelope.to().to_vec());
        Some(ItemBody::Answer { from, to, about: envelope.correlation().cloned(), outcome: outcome(None) })
    }

    fn notification(&mut self, envelope: &Envelope, method: &str, now: Option<Duration>) -> Option<ItemBody> {
        let from = envelope.from().clone();
        if let Some(chat) = envelope.chat().filter(|_| method == CHAT_METHOD) {
            let text = safe(&clip(chat.text.trim_end(), MAX_TEXT));
            let to = envelope.to().to_vec();
            let names_me = from != self.me && (names(&text, &self.me) || to.contains(&self.me));
            let (markdown, reply_to) = (chat.format == ChatFormat::Markdown, envelope.correlation().cloned());
            let mut said = ChatMessage { from, to, text, markdown, reply_to, names_me, state: MessageState::AsSaid };
            // A page of the past may come after what became of it.
            if let Some(revision) = self.revisions.of_line(envelope) {
                said.revise(revision);
            }
            if envelope.is_redacted() {
                said.redact();
            }
            return Some(ItemBody::Chat(said));
        }
        if let Some(ControlNotice::Redacted(redaction)) = ControlNotice::of(envelope) {
            return Some(self.redact(&redaction));
        }
        if let Some((original, revision)) = envelope.chat_revision() {
            return self.revise(envelope, original, &revision);
        }
        let params = members(envelope.params().unwrap_or("{}"));
        match method {
            "notifications/progress" => {
                self.progress(envelope, &params, now);
                return None;
            }
            "notifications/cancelled" => {
                let request = params.get("requestId").map(|id| id.get().to_owned());
                let about = envelope.correlation().cloned();
                let about = about.and_then(|id| self.keys.get(&id).copied()).and_then(|key| self.place(key));
                let about = about.and_then(|place| match &self.items[place].body {
                    ItemBody::Call(call) => Some(call.rpc.to_json()),
                    _ => None,
                });
                let request = request.or(about)?;
                if let Some(call) = self.open_calls().find(|call| call.from == from && call.rpc.to_json() == request) {
                    call.cancelled = true;
                }
                return None;
            }
            _ => {}
        }
        let text = match method {
            "notifications/message" => {
                let level = member::<String>(&params, "level").unwrap_or_default();
                let data = params.get("data").map(|data| data.get()).unwrap_or_default();
                let data = serde_json::from_str::<String>(data).unwrap_or_else(|_| data.to_owned());
                format!("{level}: {data}")
            }
            APPROVAL_REQUESTED_METHOD if from.is_host() => {
                self.approvals.requested(envelope.params().unwrap_or("{}"))?
            }
            APPROVAL_DECIDED_METHOD if from.is_host() => self.approvals.decided(&params)?,
            _ => format!(
                "{} {}",
                method.strip_prefix("notifications/").unwrap_or(method),
                envelope.params().unwrap_or("")
            ),
        };
        let minor = is_housekeeping(method);
        Some(ItemBody::Notice { from, to: envelope.to().to_vec(), text: safe_line(&clip(&text, MAX_TEXT)), minor })
    }

    /// Shows a chat message as its author has left it. One that is not in the window is shown so when it is loaded.
    fn revise(&mut self, envelope: &Envelope, original: &EnvelopeId, revision: &ChatRevision) -> Option<ItemBody> {
        if self.revisions.len() >= MAX_REVISIONS {
            self.revisions.clear();
        }
        self.revisions.note(envelope);
        let place = self.keys.get(original).and_then(|key| self.place(*key));
        if let Some(ItemBody::Chat(said)) = place.and_then(|place| self.items.get_mut(place)).map(|item| &mut item.body)
        {
            if said.from == *envelope.from() {
                said.revise(revision);
            }
            return None;
        }
        let text = match revision {
            ChatRevision::Edited(chat) => format!("edited an earlier message: {}", chat.text),
            ChatRevision::Retracted => "retracted an earlier message".to_owned(),
        };
        let (from, to) = (envelope.from().clone(), envelope.to().to_vec());
        Some(ItemBody::Notice { from, to, text: safe_line(&clip(&text, MAX_TEXT)), minor: true })
    }

    /// Shows nothing any more of what was redacted, and says so.
    fn redact(&mut self, redaction: &MessageRedaction) -> ItemBody {
        for message in &redaction.messages {
            let place = self.keys.get(&message.id).and_then(|key| self.place(*key));
            match place.and_then(|place| self.items.get_mut(place)).map(|item| &mut item.body) {
                Some(ItemBody::Chat(said)) => said.redact(),
                Some(ItemBody::Call(call)) => call.details = REDACTED_TEXT.into(),
                Some(ItemBody::Answer { outcome, .. }) => outcome.text = REDACTED_TEXT.into(),
                Some(ItemBody::Notice { text, .. }) => *text = REDACTED_TEXT.into(),
                Some(ItemBody::Presence { .. } | ItemBody::Note { .. }) => {}
                // The answer to a call is part of the call.
                None => self.redact_answer(&message.id),
            }
        }
        let whose = redaction.messages.first().map_or_else(String::new, |message| format!(" of {}", message.from));
        let reason = redaction.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let text = format!("redacted a message{whose}{reason}");
        ItemBody::Notice {
            from: redaction.by.clone(),
            to: Vec::new(),
            text: safe_line(&clip(&text, MAX_TEXT)),
            minor: false,
        }
    }

    fn redact_answer(&mut self, answer: &EnvelopeId) {
        let calls = self.items.iter_mut().filter_map(|item| match &mut item.body {
            ItemBody::Call(call) => call.outcome.as_mut(),
            _ => None,
        });
        for outcome in calls.filter(|outcome| outcome.answer.as_ref() == Some(answer)) {
            outcome.text = REDACTED_TEXT.into();
        }
    }

    fn progress(&mut self, envelope: &Envelope, params: &Members, now: Option<Duration>) {
        // What progress a call made in the past says nothing about whether it is still worked on.
        let (Some(_), Some(done)) = (now, member(params, "progress")) else { return };
        let message = safe_line(&clip(&member::<String>(params, "message").unwrap_or_default(), MAX_TEXT));
        let progress = CallProgress { done, total: member(params, "total").filter(|total| *total > 0.0), message };
        let token = params.get("progressToken").map(|token| token.get().to_owned());
        let from = envelope.from();
        if let Some(about) = envelope.correlation()
            && let Some(call) = self.call_mut(about)
        {
            if call.to == *from && call.outcome.is_none() {
                call.progress = Some(progress);
            }
            return;
        }
        let told = |call: &&mut CallItem| call.to == *from && call.token == token && envelope.concerns(&call.from);
        if let Some(call) = self.open_calls().find(told).filter(|_| token.is_some()) {
            call.progress = Some(progress);
        }
    }
}

impl ChatMessage {
    fn redact(&mut self) {
        self.text.clear();
        (self.state, self.names_me) = (MessageState::Redacted, false);
    }

    /// A retraction is final.
    fn revise(&mut self, revision: &ChatRevision) {
        match revision {
            _ if matches!(self.state, MessageState::Retracted | MessageState::Redacted) => {}
            ChatRevision::Edited(chat) => {
                self.text = safe(&clip(chat.text.trim_end(), MAX_TEXT));
                self.markdown = chat.format == ChatFormat::Markdown;
                self.state = MessageState::Edited;
            }
            ChatRevision::Retracted => {
                self.text.clear();
                (self.state, self.names_me) = (MessageState::Retracted, false);
            }
        }
    }
}

/// Whether a text names a participant, as a word of its own.
fn names(text: &str, id: &ParticipantId) -> bool {
    let (text, id) = (text.to_ascii_lowercase(), id.as_str().to_ascii_lowercase());
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    text.match_indices(&id)
        .any(|(at, _)| !inside(text[..at].chars().next_back()) && !inside(text[at + id.len()..].chars().next()))
}
