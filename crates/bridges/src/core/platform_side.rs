//! What the platform reports, and its answers.

use std::time::Duration;

use salon_protocol::{ParticipantId, Timestamp};

use super::commands::{BridgeCommand, HELP, parse_command};
use super::inbound::InboxRow;
use super::map::{MappedMessage, MessageOrigin};
use super::outbound::after;
use super::{BridgeCore, BridgeTrouble, CoreOutput, EventTicket, MAX_PENDING_COMMANDS, PendingCommand, StoreChange};
use crate::platform::{
    ActionKey, AuthorOrigin, PlatformAuthor, PlatformEvent, PlatformFailure, PlatformMessage, PlatformMessageId,
    PlatformReceipt, ResendRule,
};
use crate::rich::{Flavour, InlineText, MentionTarget, RichText, TextBlock, markdown, render};
use crate::room::{RoomAction, RoomSpeech};

/// The most of a message that goes into the room, in bytes.
const MAX_ROOM_TEXT_BYTES: usize = 64 << 10;
/// Files of one message that are linked to.
const MAX_ATTACHMENTS: usize = 16;
/// How long to wait before something is sent again whose outcome is unknown.
const RESEND_DELAY: Duration = Duration::from_secs(2);
/// From how long a wait on the room is told of it.
const WAIT_NOTICE_AFTER: Duration = Duration::from_secs(10);

impl BridgeCore {
    pub(super) fn on_platform_event(&mut self, event: PlatformEvent, ticket: Option<EventTicket>, now: Timestamp) {
        let is_taken = match event {
            PlatformEvent::Connected => {
                self.outbound.is_connected = true;
                self.outbound.is_caught_up = false;
                true
            }
            PlatformEvent::CaughtUp => {
                self.outbound.is_caught_up = true;
                true
            }
            PlatformEvent::Disconnected { .. } => {
                self.outbound.is_connected = false;
                self.outbound.is_caught_up = false;
                true
            }
            PlatformEvent::Echo { key, id } => {
                self.outbound.saw_echo(key, id);
                true
            }
            PlatformEvent::Join { author } => {
                if self.options.seat_everybody && self.is_relayed(&author) {
                    let ghost = self.meet(&author, now);
                    if self.inbound.is_open && !self.ghosts.is_seated(&ghost.id) {
                        let ticket = self.ticket();
                        self.ghosts.seat(&ghost, now);
                        self.outputs.push(CoreOutput::Room(RoomAction::EnterGhost { ticket, ghost }));
                    }
                }
                true
            }
            PlatformEvent::Leave { user } => {
                if let Some(ghost) = self.ghosts.forget(&user) {
                    self.unseat(ghost);
                }
                true
            }
            PlatformEvent::Message(message) => self.on_message(message, now),
            PlatformEvent::Edit { target, author, content, id } => self.on_edit(&target, &author, content, id, now),
            PlatformEvent::Retract { target, author, is_moderated, id } => {
                self.on_retract(&target, &author, is_moderated, id, now)
            }
        };
        if let Some(ticket) = ticket.filter(|_| is_taken) {
            self.outputs.push(CoreOutput::Acknowledge(ticket));
        }
    }

    fn is_relayed(&self, author: &PlatformAuthor) -> bool {
        match author.origin {
            AuthorOrigin::Person => true,
            AuthorOrigin::Bot => self.options.relay_bots,
            AuthorOrigin::OwnBridge => false,
        }
    }

    /// Whether a message has been taken before, or is one that the bridge sent.
    fn is_known(&self, id: Option<&PlatformMessageId>) -> bool {
        id.is_some_and(|id| self.map.by_platform(id).is_some() || self.inbound.has(id))
    }

    fn meet(&mut self, author: &PlatformAuthor, now: Timestamp) -> crate::room::GhostProfile {
        let (ghost, evicted) = self.ghosts.meet(author, now);
        if let Some(evicted) = evicted {
            self.unseat(evicted);
        }
        ghost
    }

    fn unseat(&mut self, ghost: ParticipantId) {
        let ticket = self.ticket();
        if self.inbound.is_open {
            self.outputs.push(CoreOutput::Room(RoomAction::LeaveGhost { ticket, ghost }));
        }
    }

    fn on_message(&mut self, message: PlatformMessage, now: Timestamp) -> bool {
        if !self.is_relayed(&message.author) || self.is_known(message.id.as_ref()) {
            return true;
        }
        let plain = render(&message.content, Flavour::Plain);
        if let Some(command) = parse_command(&plain) {
            self.on_command(command, message, now);
            return true;
        }
        let reply_to = message.reply_to.as_ref().and_then(|id| {
            let mapped = self.map.by_platform(id).map(|mapped| &mapped.envelope);
            mapped.or_else(|| self.inbound.envelope_of(id).map(|row| &row.envelope)).cloned()
        });
        let mut content = message.content;
        for file in message.attachments.iter().take(MAX_ATTACHMENTS) {
            let link = InlineText::Link { label: file.name.clone(), url: file.url.clone() };
            content.blocks.push(TextBlock::Paragraph(vec![link]));
        }
        let (text, is_markdown) = self.room_text(content);
        if text.trim().is_empty() {
            return true;
        }
        let speech = RoomSpeech::Chat { text, is_markdown, reply_to };
        self.take_in(&message.author, speech, message.id, message.sent_at, now)
    }

    fn on_edit(
        &mut self,
        target: &PlatformMessageId,
        author: &PlatformAuthor,
        content: RichText,
        id: Option<PlatformMessageId>,
        now: Timestamp,
    ) -> bool {
        let Some((envelope, owner)) = self.platform_message(target) else { return true };
        // Only the author edits (XEP-0308 §5, and every other platform).
        if !self.is_relayed(author) || self.is_known(id.as_ref()) || owner != self.ghosts.id(&author.id) {
            return true;
        }
        let (text, is_markdown) = self.room_text(content);
        let speech = RoomSpeech::Edit { target: envelope, text, is_markdown };
        self.take_in(author, speech, id, None, now)
    }

    fn on_retract(
        &mut self,
        target: &PlatformMessageId,
        author: &PlatformAuthor,
        is_moderated: bool,
        id: Option<PlatformMessageId>,
        now: Timestamp,
    ) -> bool {
        let Some((envelope, owner)) = self.platform_message(target) else { return true };
        let is_author = owner == self.ghosts.id(&author.id);
        let is_allowed = is_author || is_moderated;
        if author.origin == AuthorOrigin::OwnBridge || !is_allowed || self.is_known(id.as_ref()) {
            return true;
        }
        // A moderator of the platform deletes for the author: the room knows the message as the author's.
        let ghost = if is_author { self.meet(author, now) } else { self.ghosts.profile(owner) };
        let speech = RoomSpeech::Retract { target: envelope };
        self.add_row(ghost, speech, id, now, now)
    }

    /// A message that came from the platform: what it is in the room, and whose.
    fn platform_message(&self, id: &PlatformMessageId) -> Option<(salon_protocol::EnvelopeId, ParticipantId)> {
        if let Some(mapped) = self.map.by_platform(id) {
            let is_theirs = mapped.origin == MessageOrigin::Platform;
            return is_theirs.then(|| (mapped.envelope.clone(), mapped.author.clone()));
        }
        self.inbound.envelope_of(id).map(|row| (row.envelope.clone(), row.ghost.id.clone()))
    }

    /// A text as the room has it, and whether it is Markdown.
    fn room_text(&self, content: RichText) -> (String, bool) {
        let content = self.with_participants(content);
        let is_markdown = content.is_formatted();
        let mut text = render(&content, if is_markdown { Flavour::Markdown } else { Flavour::Plain });
        if text.len() > MAX_ROOM_TEXT_BYTES {
            text.truncate(text.floor_char_boundary(MAX_ROOM_TEXT_BYTES));
            text.push('…');
        }
        (text, is_markdown)
    }

    /// Mentions of people become mentions of their ghosts.
    fn with_participants(&self, content: RichText) -> RichText {
        content.map_inlines(&|inline| match inline {
            InlineText::Mention { target: MentionTarget::User(user), label } => {
                InlineText::Mention { target: MentionTarget::Participant(self.ghosts.id(&user)), label }
            }
            other => other,
        })
    }

    fn take_in(
        &mut self,
        author: &PlatformAuthor,
        speech: RoomSpeech,
        id: Option<PlatformMessageId>,
        sent_at: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        let ghost = self.meet(author, now);
        self.add_row(ghost, speech, id, sent_at.unwrap_or(now), now)
    }

    /// Writes something down for the room. `false`: too much waits.
    fn add_row(
        &mut self,
        ghost: crate::room::GhostProfile,
        speech: RoomSpeech,
        platform_id: Option<PlatformMessageId>,
        at: Timestamp,
        now: Timestamp,
    ) -> bool {
        if self.inbound.rows.len() >= self.options.max_queue {
            self.inbound.left_out += 1;
            return false;
        }
        let envelope = self.ids.envelope(platform_id.as_ref().map(PlatformMessageId::as_str));
        // A clock of the platform that is ahead would make messages of the future.
        let row = InboxRow { envelope, ghost, speech, platform_id, at: at.min(now) };
        self.inbound.rows.push_back(row.clone());
        self.store(StoreChange::InboxAdd(row));
        true
    }

    fn on_command(&mut self, command: Result<BridgeCommand, String>, message: PlatformMessage, now: Timestamp) {
        let ghost = self.meet(&message.author, now);
        let reply_to = message.id.clone();
        if message.id.is_some() {
            // Taken: not again when the platform repeats it, whatever becomes of it.
            let envelope = self.ids.envelope(message.id.as_ref().map(PlatformMessageId::as_str));
            let (origin, author, parts) = (MessageOrigin::Platform, ghost.id.clone(), vec![message.id]);
            self.remember(MappedMessage { envelope, origin, author, parts, call_line: None, at: now });
        }
        let refuse = |text: &str| markdown::parse(text);
        let answer = match &command {
            Err(error) => Some(refuse(error)),
            Ok(BridgeCommand::Help) => Some(RichText::plain(HELP)),
            Ok(BridgeCommand::Who) => Some(self.who()),
            Ok(_) if !self.inbound.is_open => Some(refuse("the room cannot be reached now")),
            Ok(_) if self.pending.len() >= MAX_PENDING_COMMANDS => Some(refuse("too many commands wait for an answer")),
            Ok(BridgeCommand::Call { .. }) if !self.options.ghosts_call => {
                Some(refuse("calls from here are not allowed; the bridge's operator can allow them with `ghosts_call`"))
            }
            Ok(BridgeCommand::Decide { .. }) if !self.options.approvers.contains(&ghost.id) => {
                Some(refuse(&format!("`{}` is not one of this bridge's approvers", ghost.id)))
            }
            Ok(BridgeCommand::Decide { .. }) if !message.author.is_verified => {
                Some(refuse("this platform has not checked who you are, so you cannot decide here"))
            }
            Ok(BridgeCommand::Decide { id, .. }) => self.held.find(id).err().map(|error| refuse(&error)),
            Ok(BridgeCommand::Call { .. } | BridgeCommand::Tools { .. }) => None,
        };
        let command = match (answer, command) {
            (Some(answer), _) => return self.notice(answer, reply_to),
            (None, Ok(command)) => command,
            (None, Err(_)) => return,
        };
        if self.ghosts.is_seated(&ghost.id) || matches!(command, BridgeCommand::Tools { .. }) {
            return self.ask_room(ghost.id, command, reply_to);
        }
        let ticket = self.ticket();
        self.pending.insert(ticket, PendingCommand::Seating { ghost: ghost.clone(), command, reply_to });
        self.outputs.push(CoreOutput::Room(RoomAction::EnterGhost { ticket, ghost }));
    }

    fn who(&self) -> RichText {
        let mut lines: Vec<String> = self
            .people
            .values()
            .filter(|one| one.id != self.participant)
            .map(|one| match &one.name {
                Some(name) if name != one.id.as_str() => format!("{name} ({})", one.id),
                _ => one.id.to_string(),
            })
            .collect();
        lines.sort_unstable();
        let count = lines.len();
        RichText::plain(&format!("{count} in the room: {}", lines.join(", ")))
    }

    pub(super) fn on_platform_result(
        &mut self,
        key: &ActionKey,
        result: Result<PlatformReceipt, PlatformFailure>,
        now: Timestamp,
    ) {
        if self.outbound.in_flight.as_ref() != Some(key) {
            return;
        }
        self.outbound.in_flight = None;
        let is_written_down = self.capabilities.resend != ResendRule::ByKey;
        match result {
            Ok(receipt) => self.step_done(receipt.id, now),
            Err(PlatformFailure::Permanent { reason }) => {
                let text = format!("A message could not be delivered to {}: {reason}", self.channel);
                self.tell_room(BridgeTrouble::Undeliverable, text, now);
                self.step_done(None, now);
            }
            Err(PlatformFailure::RetryAfter { after: wait, reason }) => {
                self.outbound.not_before = after(now, wait.max(Duration::from_millis(50)));
                if wait >= WAIT_NOTICE_AFTER {
                    let waiting = self.outbound.len();
                    let text = format!(
                        "{} is limited ({reason}): {waiting} messages wait {} s.",
                        self.channel,
                        wait.as_secs()
                    );
                    self.tell_room(BridgeTrouble::PlatformLimit, text, now);
                }
                if is_written_down {
                    self.store(StoreChange::Attempt(None));
                }
            }
            Err(PlatformFailure::Offline { .. }) => {
                self.outbound.is_connected = false;
                if is_written_down {
                    self.store(StoreChange::Attempt(None));
                }
            }
            Err(PlatformFailure::Unknown { .. }) => match self.capabilities.resend {
                ResendRule::ByKey => self.outbound.not_before = after(now, RESEND_DELAY),
                ResendRule::AfterEcho => {
                    self.outbound.unresolved = Some(key.clone());
                    // Only a connect of afterwards tells. A `CaughtUp` of the connection before may still be on its way.
                    self.outbound.is_connected = false;
                    self.outbound.is_caught_up = false;
                }
                ResendRule::Never => self.step_done(None, now),
            },
        }
    }
}
