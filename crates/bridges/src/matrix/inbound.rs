//! Requests of the homeserver to the bridge, and what its events mean to the core.
//!
//! Application service API v1.15: "Authorization", "Pushing events", "Querying", "Pinging".

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use hyper::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::MatrixDriver;
use super::events::{self, MatrixContent, MatrixEvent, MatrixMessage, MatrixMessageKind, Membership};
use super::homeserver::HomeserverFailure;
use super::html;
use crate::http_receiver::{PlatformAnswer, PlatformRequest};
use crate::platform::{
    Attachment, AuthorOrigin, BridgeEnded, PlatformAuthor, PlatformChannel, PlatformEvent, PlatformEvents,
    PlatformMessage, PlatformMessageId, PlatformUserId,
};
use crate::rich::{InlineText, MentionTarget, RichText, TextBlock};
use salon_protocol::{Timestamp, percent_decoded};

/// How long a transaction may wait for the bridge. Synapse gives up after a minute and sends it again.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(45);

impl MatrixDriver {
    pub(super) async fn take_request(&self, request: PlatformRequest, events: &PlatformEvents) -> PlatformAnswer {
        if let Some(refusal) = authorize(&request.head.headers, &self.hs_token) {
            return refusal;
        }
        let path = request.head.uri.path();
        let Some(rest) = path.strip_prefix("/_matrix/app/v1/") else { return unrecognized() };
        match (&request.head.method, rest.split_once('/').unwrap_or((rest, ""))) {
            (&Method::PUT, ("transactions", id)) if !id.is_empty() => self.transaction(&request.body, events).await,
            (&Method::POST, ("ping", "")) => PlatformAnswer::empty_object(),
            // Puppets and rooms are made by the bridge alone, when somebody speaks.
            (&Method::GET, ("users" | "rooms", id)) if percent_decoded(id).is_some() => {
                error(StatusCode::NOT_FOUND, "M_NOT_FOUND", "the bridge makes no users or rooms on request")
            }
            _ => unrecognized(),
        }
    }

    /// Answers 200 once everything in it is stored. The homeserver sends it again until then.
    async fn transaction(&self, body: &[u8], events: &PlatformEvents) -> PlatformAnswer {
        let Some(transaction) = events::decode_transaction(body) else {
            return error(StatusCode::BAD_REQUEST, "M_BAD_JSON", "this is not a transaction");
        };
        if transaction.malformed > 0 {
            tracing::warn!(count = transaction.malformed, "matrix bridge: malformed events left out of a transaction");
        }
        let taking = async {
            // Which rooms are bridged is known after the first connect. An event that came before would be lost.
            let mut ready = self.ready.subscribe();
            ready.wait_for(|is_ready| *is_ready).await.ok()?;
            let _in_order = self.transactions.lock().await;
            let rooms: BTreeSet<String> = transaction.events.iter().map(|event| event.room_id.clone()).collect();
            let mut taken = HashSet::new();
            for room in rooms.iter().filter(|room| self.channel_of(room).is_some()) {
                match self.take_unsent(room, events).await? {
                    Ok(ids) => taken.extend(ids),
                    Err(failure @ HomeserverFailure::Refused { status: 400..=428, .. }) => {
                        tracing::warn!(%room, %failure, "matrix bridge: history unreadable, taking what was handed over");
                    }
                    // It hands over the same again.
                    Err(_) => return None,
                }
            }
            for event in transaction.events.into_iter().filter(|event| !taken.contains(&event.event_id)) {
                self.take(event, events).await?;
            }
            Some(())
        };
        match tokio::time::timeout(TRANSACTION_TIMEOUT, taking).await {
            Ok(Some(())) => PlatformAnswer::empty_object(),
            Ok(None) | Err(_) => error(StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN", "the bridge is not ready"),
        }
    }

    /// Hands an event to the core. `None` when the bridge has ended.
    async fn take(&self, event: MatrixEvent, events: &PlatformEvents) -> Option<()> {
        let invited = self.ids.bot_id();
        if matches!(&event.content, MatrixContent::Member { user_id, membership: Membership::Invite, .. } if *user_id == invited)
        {
            self.invited.notify_one();
        }
        let Some(channel) = self.channel_of(&event.room_id) else { return Some(()) };
        let (room, id) = (event.room_id.clone(), event.event_id.clone());
        if let Some(event) = self.translate(&channel, event).await {
            events.report_stored(channel, event).await.ok()?;
        }
        self.newest_taken.lock().insert(room, id);
        Some(())
    }

    /// Takes events of a room that the homeserver has and did not hand over: Synapse keeps some in memory, and forgets them when it crashes. Nothing tells
    /// the bridge of that, so it compares the history with the newest event that it has. Returns the ids of what it took; `None` when the bridge has ended.
    ///
    /// The caller holds `transactions`.
    async fn take_unsent(&self, room: &str, events: &PlatformEvents) -> Option<Result<Vec<String>, HomeserverFailure>> {
        let Some(last) = self.newest_taken.lock().get(room).cloned() else { return Some(Ok(Vec::new())) };
        match self.homeserver.newest_events(room, Some(&last)).await {
            Ok(newest) => self.take_after(&last, newest, events).await.map(Ok),
            Err(failure) => Some(Err(failure)),
        }
    }

    /// Looks in every connected channel for what the homeserver did not hand over.
    pub(super) async fn look_for_unsent(
        &self,
        events: &PlatformEvents,
    ) -> Result<Result<(), HomeserverFailure>, BridgeEnded> {
        let rooms = self.rooms.lock().clone();
        for (_, room) in rooms.iter().filter(|(channel, _)| self.channels.is_connected(channel)) {
            let _in_order = self.transactions.lock().await;
            match self.take_unsent(room, events).await {
                Some(Ok(_)) => {}
                Some(Err(failure)) => return Ok(Err(failure)),
                None => tracing::warn!(%room, "matrix bridge: missed messages not stored, looking again later"),
            }
        }
        Ok(Ok(()))
    }

    /// As [`Self::take_unsent`], of events that have been read already.
    pub(super) async fn take_missed(&self, room: &str, newest: Vec<Value>, events: &PlatformEvents) -> Option<()> {
        let _in_order = self.transactions.lock().await;
        let Some(last) = self.newest_taken.lock().get(room).cloned() else { return Some(()) };
        self.take_after(&last, newest, events).await.map(drop)
    }

    async fn take_after(&self, last: &str, newest: Vec<Value>, events: &PlatformEvents) -> Option<Vec<String>> {
        // Beyond the events that were looked at, only transactions bring them, in their order.
        let Some(known) = newest.iter().rposition(|event| event["event_id"] == *last) else { return Some(Vec::new()) };
        let missed = newest.into_iter().skip(known + 1);
        let transaction = json!({ "events": missed.collect::<Vec<_>>() }).to_string();
        let mut taken = Vec::new();
        for event in events::decode_transaction(transaction.as_bytes())?.events {
            taken.push(event.event_id.clone());
            self.take(event, events).await?;
        }
        Some(taken)
    }

    async fn translate(&self, channel: &PlatformChannel, event: MatrixEvent) -> Option<PlatformEvent> {
        let MatrixEvent { event_id, room_id, sender, origin_server_ts, content } = event;
        if let MatrixContent::Member { user_id, membership, display_name } = content {
            return self.member_event(user_id, membership, display_name);
        }
        if self.ids.is_own(&sender) {
            return None;
        }
        let id = PlatformMessageId::new(&event_id);
        Some(match content {
            MatrixContent::Message(message) => {
                let author = self.author(&sender, message.kind, message.is_of_bridge).await;
                let attachments = self.attachments(&message, &room_id, &event_id);
                PlatformEvent::Message(PlatformMessage {
                    id: Some(id),
                    content: self.text(&author, &message),
                    author,
                    reply_to: message.reply_to.map(PlatformMessageId::new),
                    attachments,
                    sent_at: Some(Timestamp(origin_server_ts)),
                })
            }
            MatrixContent::Replacement { of, by } => {
                let author = self.author(&sender, by.kind, by.is_of_bridge).await;
                let content = self.text(&author, &by);
                PlatformEvent::Edit { target: PlatformMessageId::new(of), author, content, id: Some(id) }
            }
            MatrixContent::Redaction { of } => {
                let author = self.author(&sender, MatrixMessageKind::Text, false).await;
                // The homeserver has checked it (client-server API, "Redactions").
                PlatformEvent::Retract { target: PlatformMessageId::new(of), author, is_moderated: true, id: Some(id) }
            }
            MatrixContent::Encrypted => {
                tracing::warn!(%channel, "matrix bridge: message left out, the room is encrypted and a bridge has no keys");
                return None;
            }
            MatrixContent::Member { .. } => return None,
        })
    }

    fn member_event(
        &self,
        user_id: String,
        membership: Membership,
        display_name: Option<String>,
    ) -> Option<PlatformEvent> {
        if self.ids.is_own(&user_id) {
            return None;
        }
        match membership {
            Membership::Invite => None,
            Membership::Join => {
                let name = self.names.remember(&user_id, display_name);
                Some(PlatformEvent::Join { author: person(user_id, name) })
            }
            Membership::Leave => Some(PlatformEvent::Leave { user: PlatformUserId::new(user_id) }),
        }
    }

    async fn author(&self, sender: &str, kind: MatrixMessageKind, is_of_bridge: bool) -> PlatformAuthor {
        let name = match self.names.get(sender) {
            Some(name) => name,
            // Without an answer the local part has to do; it is asked for again with the next message.
            None => match self.homeserver.display_name(sender).await {
                Ok(name) => self.names.remember(sender, name),
                Err(_) => crate::display_names::fallback(sender),
            },
        };
        // Two bridges in one room that relayed each other would never end.
        let is_bot = kind == MatrixMessageKind::Notice || is_of_bridge;
        let origin = if is_bot { AuthorOrigin::Bot } else { AuthorOrigin::Person };
        PlatformAuthor { origin, ..person(sender.to_owned(), name) }
    }

    fn text(&self, author: &PlatformAuthor, message: &MatrixMessage) -> RichText {
        let mentioned = |user: &str| match self.ids.participant(user) {
            Some(participant) => MentionTarget::Participant(participant),
            None => MentionTarget::User(PlatformUserId::new(user)),
        };
        let is_reply = message.reply_to.is_some();
        match (message.kind, &message.formatted_body) {
            (MatrixMessageKind::Media, _) => message.caption.as_deref().map(RichText::plain).unwrap_or_default(),
            (MatrixMessageKind::Emote, _) => {
                let text = format!("{} {}", author.name, message.body.replace('\n', " "));
                RichText {
                    blocks: vec![TextBlock::Paragraph(vec![InlineText::Emphasis(vec![InlineText::Text(text)])])],
                }
            }
            (_, Some(html)) => html::parse(html, &mentioned),
            (_, None) if is_reply => RichText::plain(without_reply_fallback(&message.body)),
            (_, None) => RichText::plain(&message.body),
        }
    }

    /// Media need a token to download (client-server API, "Content repository"), which nobody in the room has. Unless there is a public
    /// address for them, the link leads to the message, which its members can open.
    fn attachments(&self, message: &MatrixMessage, room: &str, event: &str) -> Vec<Attachment> {
        if message.kind != MatrixMessageKind::Media {
            return Vec::new();
        }
        let public = self.media_url.as_ref().and_then(|base| {
            let (server, media) = events::media_parts(message.media.as_deref()?)?;
            Some(format!("{}/{server}/{media}", base.trim_end_matches('/')))
        });
        let url = public.unwrap_or_else(|| format!("https://matrix.to/#/{room}/{event}?via={}", self.ids.server_name));
        let name = message.file_name.as_deref().unwrap_or(&message.body);
        vec![Attachment { name: name.chars().take(200).collect(), url }]
    }
}

/// Checks the token of the homeserver, in time that does not depend on where it differs.
pub(super) fn authorize(headers: &HeaderMap, hs_token: &str) -> Option<PlatformAnswer> {
    let header = headers.get(hyper::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = header.and_then(|value| value.strip_prefix("Bearer ")) else {
        return Some(error(StatusCode::UNAUTHORIZED, "M_UNAUTHORIZED", "the token of the homeserver is missing"));
    };
    let is_right = aws_lc_rs::constant_time::verify_slices_are_equal(token.as_bytes(), hs_token.as_bytes()).is_ok();
    (!is_right).then(|| error(StatusCode::FORBIDDEN, "M_FORBIDDEN", "the token is not the homeserver's"))
}

/// Answers a ping alone, for a bridge that is not running. Everything else is to come again later.
pub(super) fn answer_ping(request: &PlatformRequest, hs_token: &str) -> PlatformAnswer {
    match authorize(&request.head.headers, hs_token) {
        Some(refusal) => refusal,
        None if request.head.uri.path() == "/_matrix/app/v1/ping" => PlatformAnswer::empty_object(),
        None => error(StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN", "the bridge is not running"),
    }
}

pub(super) fn person(id: String, name: String) -> PlatformAuthor {
    PlatformAuthor { id: PlatformUserId::new(id), name, origin: AuthorOrigin::Person, is_verified: true }
}

/// A reply without the quotation that clients once put before it (client-server API v1.12 and earlier, "Fallbacks for rich replies").
fn without_reply_fallback(body: &str) -> &str {
    if !body.starts_with("> <") {
        return body;
    }
    let mut rest = body;
    while rest.starts_with('>') {
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
    rest.strip_prefix('\n').unwrap_or(rest)
}

fn unrecognized() -> PlatformAnswer {
    error(StatusCode::NOT_FOUND, "M_UNRECOGNIZED", "no such endpoint")
}

fn error(status: StatusCode, code: &str, message: &str) -> PlatformAnswer {
    PlatformAnswer::new(status, json!({"errcode": code, "error": message}).to_string())
}
