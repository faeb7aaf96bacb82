//! Notifications, both ways, and what else happens in the room.

use std::sync::Arc;
use std::time::Instant;

use salon_mcp::listing::Listing;
use salon_protocol::{
    CHAT_EDIT_METHOD, CHAT_METHOD, CHAT_RETRACT_METHOD, Code, Entry, Kind as EnvelopeKind, Members, Message as Rpc,
    ParticipantId, PresenceEvent, Refusal, rpc,
};
use serde_json::value::RawValue;

use super::message::{MachineDestination, MachineMessage, MessageKind, is_extension, read, wrong};
use super::speech::OutgoingMessage;
use super::{Machine, Purpose};
use crate::StreamId;
use crate::streams::StreamReply;

/// What a notification of this protocol is in the room, unless it is chat or a stream.
const CONTEXT: &str = "notifications/context";
/// News of the gateway's store.
const CONTEXT_CHANGED: &str = "notifications/context/changed";
/// Continuous data.
const STREAM: &str = "notifications/stream";

/// The longest id of a stream.
const MAX_STREAM_ID: usize = 128;

impl Machine {
    /// The client tells somebody or everybody something.
    pub(super) fn notify(&mut self, stream: StreamId, spoken: MachineMessage, now: Instant) -> Result<(), Refusal> {
        if spoken.request.is_some() && spoken.kind == MessageKind::Notification {
            return self.notify_about(stream, spoken, now);
        }
        let MachineMessage { id, at, kind, destination, mut payload, metadata, .. } = spoken;
        let to: &[ParticipantId] = match &destination {
            Some(MachineDestination::One(one)) => std::slice::from_ref(one),
            Some(MachineDestination::Everybody) => &[],
            None => {
                let told = "a notification needs one participant, or `*` for all, as its `header.destination`";
                return Err(Refusal::new(Code::RecipientRequired, told));
            }
        };
        let is_plain = kind == MessageKind::Notification;
        let chat = if is_plain { payload.remove("chat") } else { None };
        let (method, params) = if let Some(chat) = chat {
            (CHAT_METHOD, with_meta(chat, payload.get("context"), metadata.as_ref()))
        } else if let Some(data) = payload.get("stream").filter(|_| is_plain) {
            check_stream(data)?;
            (STREAM, with_meta(data.to_owned(), payload.get("context"), metadata.as_ref()))
        } else {
            let mut params = Members::default();
            params.set("messageType", kind.word());
            params.set("payload", &payload);
            if let Some(metadata) = &metadata {
                params.set("metadata", metadata);
            }
            (CONTEXT, params.to_raw())
        };
        let Some(envelope) = id.clone() else { return Err(wrong("a notification needs a `messageId`")) };
        let purpose = Purpose::Notification { stream, id };
        let payload = rpc::notification(method, Some(&params));
        if let Err((refusal, purpose)) = self.publish((envelope.as_str(), at), to, None, payload, purpose) {
            self.undo(purpose, refusal, now);
        }
        Ok(())
    }

    /// The client tells something about a request: how far it has come with one it was asked, or that it takes one of its own back.
    fn notify_about(&mut self, stream: StreamId, spoken: MachineMessage, now: Instant) -> Result<(), Refusal> {
        let MachineMessage { id: Some(id), at, request: Some(request), destination, payload, metadata, .. } = spoken
        else {
            return Err(wrong("a notification needs a `messageId`"));
        };
        if payload.get("cancelled").is_some() && self.cancel(&request, now) {
            self.streams.answer_on(stream, 202, StreamReply::Empty);
            return Ok(());
        }
        let Some(incoming) = self.incoming.get(&request) else {
            let told = format!("`{request}` is no request that waits for your answer");
            return Err(Refusal::new(Code::CorrelationMismatch, told));
        };
        if destination.is_some_and(|to| to != MachineDestination::One(incoming.caller.clone())) {
            return Err(Refusal::new(
                Code::CorrelationMismatch,
                format!("`{request}` was asked by `{}`", incoming.caller),
            ));
        }
        let data = payload.get("stream").and_then(|data| Members::parse(data.get()));
        let data = data.ok_or_else(|| wrong("a notification with a `requestId` needs `payload.stream`"))?;
        let Some(token) = &incoming.token else {
            // Its caller did not ask for it.
            self.lengthen(&request, now);
            self.streams.answer_on(stream, 202, StreamReply::Empty);
            return Ok(());
        };
        let progress = data.get("progress").or_else(|| data.get("sequence"));
        let progress = progress.filter(|number| read::<f64>(number).is_some());
        let progress = progress.ok_or_else(|| wrong("`payload.stream` needs the number `progress` or `sequence`"))?;
        let mut params = Members::default();
        params.set("progressToken", token);
        params.set("progress", progress);
        if let Some(total) = data.get("total").filter(|total| read::<f64>(total).is_some()) {
            params.set("total", total);
        }
        if let Some(message) = data.get("message").filter(|message| message.get().starts_with('"')) {
            params.set("message", message);
        }
        let caller = incoming.caller.clone();
        self.lengthen(&request, now);
        let params = with_meta(params.to_raw(), payload.get("context"), metadata.as_ref());
        let payload = rpc::notification("notifications/progress", Some(&params));
        let purpose = Purpose::Notification { stream, id: Some(id.clone()) };
        let to = std::slice::from_ref(&caller);
        if let Err((refusal, purpose)) = self.publish((id.as_str(), at), to, Some(&request), payload, purpose) {
            self.undo(purpose, refusal, now);
        }
        Ok(())
    }

    /// The next entry of the room.
    pub(super) fn overhear(&mut self, entry: &Arc<Entry>, now: Instant) {
        let envelope = &entry.envelope;
        if *envelope.from() == self.options.me {
            return self.request_stored(envelope.id(), now);
        }
        // What names another session of the participant is for that one.
        if envelope.to().contains(&self.options.me) && !envelope.concerns_session(&self.session) {
            return;
        }
        match (envelope.kind(), envelope.message()) {
            (EnvelopeKind::Presence, _) => self.overhear_presence(entry, now),
            (EnvelopeKind::Mcp, Some(Rpc::Response { .. })) => self.response(envelope, entry.arrived, now),
            (EnvelopeKind::Mcp, Some(Rpc::Request { id, method })) if envelope.to().contains(&self.options.me) => {
                self.request_from(entry, id, method, now);
            }
            (EnvelopeKind::Mcp, Some(Rpc::Notification { method })) if envelope.concerns(&self.options.me) => {
                self.told(entry, method, now);
            }
            _ => {}
        }
    }

    fn overhear_presence(&mut self, entry: &Entry, now: Instant) {
        let Some(presence) = entry.envelope.presence() else { return };
        if presence.participant.id == self.options.me {
            return;
        }
        self.presence(presence.event, &presence.participant, now);
        if presence.event == PresenceEvent::Leave {
            self.forget_caller(&presence.participant.id);
        }
        if presence.event != PresenceEvent::Heartbeat {
            self.pass(entry, "notification", |message| message.with("presence", &presence));
        }
    }

    /// Says an entry to the client as a message of a type. Other recipients are not shown to this client.
    fn pass(&mut self, entry: &Entry, kind: &str, fill: impl FnOnce(OutgoingMessage<'_>) -> OutgoingMessage<'_>) {
        let envelope = &entry.envelope;
        let to = (!envelope.to().is_empty()).then_some(&self.options.me);
        let message = fill(OutgoingMessage::new(kind, envelope.id().as_str(), entry.arrived, envelope.from(), to));
        let text = message.text();
        self.notify_client(text);
    }

    fn told(&mut self, entry: &Entry, method: &str, now: Instant) {
        let params = entry.envelope.params();
        let members = params.and_then(Members::parse).unwrap_or_default();
        match method {
            "notifications/progress" => self.progress(&entry.envelope, members, entry.arrived, now),
            "notifications/cancelled" => self.cancelled(entry, &members),
            // Nothing waits for it here.
            "notifications/initialized" => {}
            CONTEXT => self.notify_context(entry, members),
            CHAT_METHOD => self.notify_as(entry, "chat", members),
            CHAT_EDIT_METHOD => self.notify_as(entry, "chat_edit", revised(entry, members)),
            CHAT_RETRACT_METHOD => self.notify_as(entry, "chat_retract", revised(entry, members)),
            STREAM => self.notify_as(entry, "stream", members),
            CONTEXT_CHANGED => self.notify_as(entry, "context", members),
            _ => {
                if method == Listing::Tools.changed() {
                    self.tools_changed(entry.envelope.from());
                }
                let mut told = Members::default();
                told.set("method", method);
                if let Some(params) = params.and_then(|params| serde_json::from_str::<&RawValue>(params).ok()) {
                    told.set("params", params);
                }
                self.pass(entry, "notification", |message| message.with("notification", &told));
            }
        }
    }

    /// One of this protocol's own.
    fn notify_context(&mut self, entry: &Entry, mut params: Members) {
        let word: Option<String> = params.get("messageType").and_then(read);
        let kind = word.filter(|word| is_extension(word)).unwrap_or_else(|| "notification".to_owned());
        let payload = params.remove("payload").and_then(|payload| Members::parse(payload.get()));
        let metadata = params.remove("metadata");
        self.pass(entry, &kind, |mut message| {
            message.payload = Some(payload.unwrap_or_default());
            message.with_metadata(metadata)
        });
    }

    /// A member of the payload that holds the notification.
    fn notify_as(&mut self, entry: &Entry, key: &str, mut params: Members) {
        let own = take_meta(&mut params);
        // News of the store is the context itself.
        self.pass(entry, "notification", |message| {
            message.with_context(own.context).with(key, &params).with_metadata(own.metadata)
        });
    }
}

/// The parameters of an edit or a retraction, with the id of the chat line, which messages of this protocol have no other member for.
fn revised(entry: &Entry, mut params: Members) -> Members {
    if let Some(original) = entry.envelope.correlation() {
        params.set("original_id", original);
    }
    params
}

/// Parameters with the context and the metadata of the message they came from.
fn with_meta(params: Box<RawValue>, context: Option<&RawValue>, metadata: Option<&Members>) -> Box<RawValue> {
    if context.is_none() && metadata.is_none() {
        return params;
    }
    let Some(mut members) = Members::parse(params.get()) else { return params };
    let mut meta = members.get("_meta").and_then(|meta| Members::parse(meta.get())).unwrap_or_default();
    if let Some(context) = context {
        meta.set("context", context);
    }
    if let Some(metadata) = metadata {
        meta.set("metadata", metadata);
    }
    members.set("_meta", &meta);
    members.to_raw()
}

/// What a message of this protocol has beside what it tells.
pub(super) struct MessageMeta {
    pub(super) context: Option<Box<RawValue>>,
    pub(super) metadata: Option<Box<RawValue>>,
}

/// Takes out of parameters what [`with_meta`] has put there.
pub(super) fn take_meta(params: &mut Members) -> MessageMeta {
    let meta = params.remove("_meta").and_then(|meta| Members::parse(meta.get()));
    let mut meta = meta.unwrap_or_default();
    MessageMeta { context: meta.remove("context"), metadata: meta.remove("metadata") }
}

/// Continuous data says which stream it is of and where in it.
fn check_stream(data: &RawValue) -> Result<(), Refusal> {
    let told =
        "`payload.stream` must have the string `id` and the whole number `sequence`, and maybe `data` and `final`";
    let data = Members::parse(data.get()).ok_or_else(|| wrong(told))?;
    let id: Option<String> = data.get("id").and_then(read);
    let is_id = id.is_some_and(|id| !id.is_empty() && id.chars().count() <= MAX_STREAM_ID);
    let is_counted = data.get("sequence").and_then(read::<u64>).is_some();
    let is_final = data.get("final").is_none_or(|end| matches!(end.get(), "true" | "false"));
    if is_id && is_counted && is_final { Ok(()) } else { Err(wrong(told)) }
}
