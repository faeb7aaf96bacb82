//! `message.redact`: a moderator removes a text for good.
//!
//! A text can be in several entries: a message that was edited, a call and the notice that held it, what somebody said and the request to
//! `chat.say`, and answers of the gateway that repeat it. They are redacted together, and the author's files that they link are removed.

use std::collections::HashSet;
use std::sync::Arc;

use salon_control::{
    ControlNotice, MAX_REDACTED_MESSAGES, MessageRedaction, REDACTED_METHOD, RedactedMessage, called_tool, text_digest,
    tombstone_of,
};
use salon_protocol::{CHAT_METHOD, Entry, EnvelopeId, Message, ParticipantId, Redaction, Refusal};
use salon_rooms::{StatusNotice, notice, unreadable};
use serde::Deserialize;
use serde_json::json;

use super::MessageCall;
use super::related::RelatedEntries;
use super::repeated::repeats;
use crate::audit::{AuditEvent, AuditKind};
use crate::clock;
use crate::files::{linked_files, not_removed};
use crate::host::arguments::Arguments;
use crate::host::control::read_reason;
use crate::host::speech::{HostOutcome, derived_id, failed, structured};
use crate::host::status;
use crate::topic_control::TopicControl;

/// How many entries after a message are looked through for what has its text.
const MAX_SCANNED: usize = 200_000;
/// How many files that a message links are removed with it. No client links so many.
const MAX_LINKED_FILES: usize = 256;

/// The entries that have a text.
struct RedactionTargets {
    entries: Vec<Arc<Entry>>,
    /// Whether everything after the message was looked through.
    is_complete: bool,
}

impl MessageCall<'_> {
    pub(super) async fn redact(&self, mut arguments: Arguments<'_>) -> HostOutcome {
        let id: EnvelopeId = arguments.required("id")?;
        let reason = read_reason(&mut arguments)?;
        arguments.end()?;
        match self.redact_once(&id, reason).await {
            Ok((redaction, is_complete)) => {
                let redacted: Vec<_> = redaction.messages.iter().map(|message| &message.id).collect();
                let digest = redaction.messages.first().map(|message| &message.digest);
                Ok(structured(
                    &json!({ "id": redaction.id, "redacted": redacted, "digest": digest, "complete": is_complete }),
                ))
            }
            Err(refusal) => Ok(failed(&refusal)),
        }
    }

    async fn redact_once(&self, id: &EnvelopeId, reason: Option<String>) -> Result<(MessageRedaction, bool), String> {
        // The gateway may have been restarted before it answered. What is left is redacted then.
        let first_notice = self.notice_id("redacted");
        let before = if self.request.is_old { self.find(&first_notice).await? } else { None };
        let made = before.and_then(|entry| match ControlNotice::of(&entry.envelope) {
            Some(ControlNotice::Redacted(made)) => Some(*made),
            _ => None,
        });
        if made.is_none() {
            self.check_moderator().map_err(|refusal| refusal.message)?;
        }
        let subject = self.subject_of(id).await?;
        let targets = match (self.targets(&subject).await, made) {
            (Err(_), Some(made)) => return Ok((made, true)),
            (targets, _) => targets?,
        };
        let (by, at) = (self.request.caller().clone(), clock::now());
        let mut messages = Vec::new();
        for entry in &targets.entries {
            let digest = text_digest(entry.envelope.text());
            let redaction = Redaction { by: by.clone(), at, digest: digest.clone(), reason: reason.clone() };
            let tombstone = tombstone_of(&entry.envelope, &redaction).ok_or_else(|| {
                format!("`{}` is a notice of the gateway, which is not redacted", entry.envelope.id())
            })?;
            messages.push(RedactedMessage {
                id: entry.envelope.id().clone(),
                from: entry.envelope.from().clone(),
                offset: entry.position.offset,
                digest,
                tombstone: tombstone.text().to_owned(),
            });
        }
        for entry in &targets.entries {
            self.end_status(entry).await?;
        }
        // Before the notice: the entries do not say later which files they linked.
        self.remove_linked_files(&targets.entries).await?;
        let redaction = MessageRedaction { id: subject, by, reason, messages };
        for (number, messages) in redaction.messages.chunks(MAX_REDACTED_MESSAGES).enumerate() {
            // What is left to do after a restart is other entries than before.
            let notice_id = match (number, self.request.is_old) {
                (0, false) => first_notice.clone(),
                _ => self.notice_id(&format!("redacted {}", messages[0].id)),
            };
            let part = MessageRedaction { messages: messages.to_vec(), ..redaction.clone() };
            let notice = notice(&notice_id, Some(&part.id), REDACTED_METHOD, &part);
            self.office.desk.append(notice).await.map_err(|refusal| refusal.message)?;
        }
        Ok((redaction, targets.is_complete))
    }

    fn notice_id(&self, purpose: &str) -> EnvelopeId {
        let id = derived_id(&self.office.toolbox.namespace, purpose, self.request.entry.envelope.id());
        EnvelopeId::new(id).expect("a UUID is an id")
    }

    /// The message that is meant: the notice of a held call stands for the call.
    async fn subject_of(&self, id: &EnvelopeId) -> Result<EnvelopeId, String> {
        let named = self.find(id).await?;
        Ok(match named.and_then(|entry| ControlNotice::of(&entry.envelope)) {
            Some(ControlNotice::Requested(held)) => held.id,
            _ => id.clone(),
        })
    }

    /// Ends the status that an entry says, where it still counts: participants show it, and so would the next welcome.
    async fn end_status(&self, entry: &Entry) -> Result<(), String> {
        let (desk, id) = (&self.office.desk, entry.envelope.id());
        let Some(author) = status_author(entry) else { return Ok(()) };
        if desk.status_of(&author).is_none_or(|(_, said_by)| said_by != *id) {
            return Ok(());
        }
        let end = EnvelopeId::new(derived_id(&self.office.toolbox.namespace, "status redacted", id));
        let end = end.expect("a UUID is an id");
        let ended = desk.set_status(&author, None, StatusNotice { id: &end, about: id }).await;
        ended.map_err(|refusal| refusal.message)
    }

    pub(super) async fn find(&self, id: &EnvelopeId) -> Result<Option<Arc<Entry>>, String> {
        let found = self.office.toolbox.log.find(self.office.desk.topic(), id).await;
        found.map_err(|error| unreadable(&error).message)
    }

    /// Whether the caller may moderate here. The room has judged the request, but not in a topic without settings.
    fn check_moderator(&self) -> Result<(), Refusal> {
        let (who, stamp) = (self.request.caller(), self.request.entry.stamp.as_ref());
        let (desk, creation) = (&self.office.desk, self.office.toolbox.topic_creation);
        TopicControl { desk, creation, who, stamp }.check_moderation()
    }

    /// Removes the files that some entries link and that their authors have put there themselves. A message that links the file of somebody else
    /// takes nothing with it.
    async fn remove_linked_files(&self, entries: &[Arc<Entry>]) -> Result<(), String> {
        let (topic, files) = (self.office.desk.topic(), &self.office.toolbox.files);
        for entry in entries {
            for id in linked_files(&entry.envelope).into_iter().take(MAX_LINKED_FILES) {
                let found = files.find(topic, &id).await.map_err(|error| unreadable(&error).message)?;
                if found.is_some_and(|stored| stored.file.author == *entry.envelope.from()) {
                    files.remove(topic, &id).await.map_err(|error| not_removed(topic, &error).message)?;
                    let event = AuditEvent::new(AuditKind::FileRemoved, clock::now()).topic(topic);
                    let event = event.participant(self.request.caller()).reason(id.to_string());
                    self.office.toolbox.audit.record(event);
                }
            }
        }
        Ok(())
    }

    /// Everything that is to be redacted with a message.
    async fn targets(&self, id: &EnvelopeId) -> Result<RedactionTargets, String> {
        let (message, notice) = (self.find(id).await?, self.find(&self.office.desk.hold_notice(id)).await?);
        let held = notice.filter(|entry| ControlNotice::holds_call(&entry.envelope));
        if message.is_none() && held.is_none() {
            return Err(format!("no message `{id}` is kept in this topic"));
        }
        let mut found: Vec<Arc<Entry>> = message.iter().cloned().collect();
        let mut is_complete = true;
        if let Some(message) = &message {
            found.extend(self.copies_of(message).await?);
            if is_chat(message) {
                let edits = self.related(message, |entry| {
                    let envelope = &entry.envelope;
                    envelope.is_chat_revision()
                        && envelope.from() == message.envelope.from()
                        && envelope.correlation() == Some(id)
                });
                let edits = edits.await?;
                is_complete &= edits.is_complete;
                for edit in edits.entries {
                    found.extend(self.copies_of(&edit).await?);
                    found.push(edit);
                }
            }
        }
        found.extend(held);
        let ids: HashSet<_> = found.iter().map(|entry| entry.envelope.id().clone()).chain([id.clone()]).collect();
        if let Some(first) = found.iter().min_by_key(|entry| entry.position.offset) {
            let answers = self.related(first, |entry| repeats(entry, &ids)).await?;
            is_complete &= answers.is_complete;
            found.extend(answers.entries);
        }
        let mut seen = HashSet::new();
        found.retain(|entry| !entry.envelope.is_redacted() && seen.insert(entry.envelope.id().clone()));
        if found.is_empty() {
            return Err(format!("`{id}` was redacted already"));
        }
        Ok(RedactionTargets { entries: found, is_complete })
    }

    async fn related(&self, message: &Entry, is_wanted: impl Fn(&Entry) -> bool) -> Result<RelatedEntries, String> {
        let (log, topic) = (&*self.office.toolbox.log, self.office.desk.topic());
        let related = RelatedEntries::find(log, topic, message.position, MAX_SCANNED, is_wanted).await;
        related.map_err(|refusal| refusal.message)
    }

    /// The entries that have the text of a message because the gateway has published it for its author: the request to do so, or what was
    /// published.
    async fn copies_of(&self, message: &Entry) -> Result<Vec<Arc<Entry>>, String> {
        let envelope = &message.envelope;
        let namespace = &self.office.toolbox.namespace;
        let mut ids = Vec::new();
        match called_tool(envelope).filter(|_| envelope.to().iter().any(ParticipantId::is_host)).as_deref() {
            Some("chat.say") => ids.push(derived_id(namespace, "say", envelope.id())),
            Some("chat.edit") => ids.push(derived_id(namespace, "revise", envelope.id())),
            Some("presence.set") => ids.push(derived_id(namespace, status::PURPOSE, envelope.id())),
            _ => {}
        }
        let mut copies = Vec::new();
        for id in ids {
            let id = EnvelopeId::new(id).expect("a UUID is an id");
            copies.extend(self.find(&id).await?);
        }
        let status = status_author(message);
        let request = match is_chat(message) || status.is_some() {
            true => envelope.correlation().cloned(),
            false => requested_by(message),
        };
        let publishes = |tool: String| tool.starts_with("chat.") || tool == "presence.set";
        if let Some(request) = request
            && let Some(request) = self.find(&request).await?
            && request.envelope.from() == status.as_ref().unwrap_or(envelope.from())
            && called_tool(&request.envelope).is_some_and(publishes)
        {
            copies.push(request);
        }
        Ok(copies)
    }
}

fn is_chat(entry: &Entry) -> bool {
    matches!(entry.envelope.message(), Some(Message::Notification { method }) if &**method == CHAT_METHOD)
}

/// The participant that says by an entry what it is doing, if one does.
fn status_author(entry: &Entry) -> Option<ParticipantId> {
    let presence = entry.envelope.presence().filter(|said| said.participant.status.is_some())?;
    Some(presence.participant.id)
}

/// The request that led to an edit, where the gateway published it.
fn requested_by(entry: &Entry) -> Option<EnvelopeId> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        request: EnvelopeId,
    }
    let params = entry.envelope.params().filter(|_| entry.envelope.is_chat_revision())?;
    serde_json::from_str::<Params>(params).ok().map(|params| params.meta.request)
}
