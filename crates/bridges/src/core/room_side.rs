//! What the room reports, and its answers.

use std::time::Duration;

use salon_protocol::{EnvelopeId, ParticipantId, Timestamp};

use super::calls::{self, call_line, paragraph};
use super::commands::BridgeCommand;
use super::inbound::InboundRequest;
use super::map::{MappedMessage, MessageOrigin};
use super::outbound::{OutItem, OutWork, after};
use super::{BridgeCore, CoreOutput, PendingCommand, StoreChange};
use crate::config::CallDisplay;
use crate::platform::PlatformMessageId;
use crate::rich::{InlineText, RichText, markdown};
use crate::room::{HeldNotice, RoomAction, RoomEvent, RoomEventBody, RoomFailure, RoomReply, RoomResult, RoomTicket};

/// The most of an answer that a person gets for a command, in characters.
const MAX_ANSWER_CHARS: usize = 4_000;
/// Tools that `!tools` lists at most.
const MAX_LISTED_TOOLS: usize = 50;
/// How long to wait before a row is tried again of which the room said nothing more.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl BridgeCore {
    pub(super) fn on_room_event(&mut self, event: RoomEvent, now: Timestamp) {
        let RoomEvent { id, from, sent_at, body } = event;
        let work = self.work_of(&id, from, body);
        match work {
            Some(work) => {
                let bytes = work_bytes(&work);
                let item = OutItem { through: Some(id.clone()), id, sent_at, work, bytes };
                self.outbound.push(item, self.options.max_queue, self.options.max_queue_bytes);
            }
            None => self.outbound.pass(id, now),
        }
    }

    /// What an envelope causes on the platform.
    fn work_of(&mut self, id: &EnvelopeId, from: ParticipantId, body: RoomEventBody) -> Option<OutWork> {
        let is_own = self.is_own(&from);
        let rich =
            |text: &str, is_markdown: bool| if is_markdown { markdown::parse(text) } else { RichText::plain(text) };
        match body {
            RoomEventBody::Joined(participant) => {
                let is_own = self.is_own(&participant.id);
                let name = participant.name.clone().unwrap_or_else(|| participant.id.to_string());
                self.people.insert(participant.id.clone(), participant);
                (self.options.show_joins && !is_own).then(|| notice(format!("{name} joined")))
            }
            RoomEventBody::Left(participant) => {
                let known = self.people.remove(&participant);
                if self.is_own(&participant) {
                    self.ghosts.unseat(&participant);
                    return None;
                }
                if self.options.show_joins {
                    let name = known.and_then(|one| one.name).unwrap_or_else(|| participant.to_string());
                    return Some(notice(format!("{name} left")));
                }
                self.capabilities.shows_speaker.then_some(OutWork::RemovePuppet { participant })
            }
            // An own ghost's words are on the platform already; a call of one is answered as a reply.
            _ if is_own => None,
            RoomEventBody::Chat { text, is_markdown, reply_to } => {
                Some(OutWork::Chat { from, text: rich(&text, is_markdown), reply_to })
            }
            RoomEventBody::Edit { target, text, is_markdown } => {
                Some(OutWork::Edit { from, target, text: rich(&text, is_markdown) })
            }
            RoomEventBody::Retract { target } => Some(OutWork::Retract { from, target }),
            RoomEventBody::Call(call) => {
                if self.options.calls == CallDisplay::None || self.is_own(&call.caller) {
                    return None;
                }
                let line = call_line(&call, self.options.calls);
                self.calls.add(id.clone(), line.clone());
                self.capabilities.can_edit.then_some(OutWork::CallStarted { line })
            }
            RoomEventBody::Answer { call, is_error, text } => {
                let known = self.calls.take(&call);
                let line = known.or_else(|| self.map.get(&call)?.call_line.clone())?;
                let text = calls::ended(&line, is_error, &text, self.options.calls);
                Some(OutWork::CallEnded { call, text })
            }
            RoomEventBody::Held(held) => {
                self.store(StoreChange::HeldAdd(held.clone()));
                let text = self.held_text(&held);
                if let Some(oldest) = self.held.add(held) {
                    self.store(StoreChange::HeldRemove(oldest.id));
                }
                Some(OutWork::Notice { text, reply_to: None })
            }
            RoomEventBody::Decided { call, decision, by } => {
                let held = self.held.remove(&call)?;
                self.store(StoreChange::HeldRemove(call));
                let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
                let line = call_line(&held.call, CallDisplay::Summary);
                let inlines = vec![InlineText::Text(format!("⏸ {decision}{by}: ")), InlineText::Code(line)];
                Some(OutWork::Notice { text: paragraph(inlines), reply_to: None })
            }
            RoomEventBody::Unrelated => None,
        }
    }

    fn held_text(&self, held: &HeldNotice) -> RichText {
        let code = self.held.code(held);
        let line = call_line(&held.call, CallDisplay::Summary);
        paragraph(vec![
            InlineText::Text("⏸ waits for approval: ".into()),
            InlineText::Code(line),
            InlineText::Text(format!(" – !approve {code} or !deny {code}")),
        ])
    }

    /// Asks the room for the next thing that it is to have.
    pub(super) fn publish_next(&mut self, now: Timestamp) {
        let is_waiting = self.inbound.not_before.is_some_and(|until| now < until);
        if !self.inbound.is_open || self.inbound.in_flight.is_some() || is_waiting {
            return;
        }
        let Some(row) = self.inbound.rows.front().cloned() else {
            let left_out = std::mem::take(&mut self.inbound.left_out);
            if left_out > 0 {
                let text = format!("{left_out} messages from {} were left out: too many came at once.", self.channel);
                let ticket = self.ticket();
                self.outputs.push(CoreOutput::Room(RoomAction::Notice { ticket, text }));
            }
            return;
        };
        self.inbound.not_before = None;
        let ticket = self.ticket();
        let (request, action) = if self.ghosts.is_seated_as(&row.ghost) {
            let (id, at, ghost, speech) = (row.envelope, row.at, row.ghost.id, row.speech);
            (InboundRequest::Publish(ticket), RoomAction::Publish { ticket, id, at, ghost, speech })
        } else {
            (InboundRequest::Enter(ticket), RoomAction::EnterGhost { ticket, ghost: row.ghost })
        };
        self.inbound.in_flight = Some(request);
        self.outputs.push(CoreOutput::Room(action));
    }

    pub(super) fn on_room_result(&mut self, ticket: RoomTicket, result: RoomResult, now: Timestamp) {
        match self.inbound.in_flight {
            Some(request @ (InboundRequest::Enter(waited) | InboundRequest::Publish(waited))) if waited == ticket => {
                self.inbound.in_flight = None;
                self.on_inbound_result(request, result, now);
            }
            _ => self.on_command_result(ticket, result, now),
        }
    }

    fn on_inbound_result(&mut self, request: InboundRequest, result: RoomResult, now: Timestamp) {
        let Some(row) = self.inbound.rows.front() else { return };
        let ghost = row.ghost.clone();
        match (request, result) {
            (InboundRequest::Enter(_), Ok(_)) => self.ghosts.seat(&ghost, now),
            (InboundRequest::Publish(_), Ok(_) | Err(RoomFailure::AlreadyPublished)) => self.published(now),
            (_, Err(RoomFailure::NotSeated | RoomFailure::AlreadyPublished)) => {
                self.ghosts.unseat(&ghost.id);
                self.inbound.not_before = Some(after(now, RETRY_DELAY));
            }
            (_, Err(RoomFailure::RetryAfter { after: wait, .. })) => {
                self.inbound.not_before = Some(after(now, wait.max(Duration::from_millis(100))));
            }
            (_, Err(RoomFailure::Refused { reason })) => {
                let Some(row) = self.inbound.rows.pop_front() else { return };
                self.store(StoreChange::InboxRemove(row.envelope));
                let inlines = vec![InlineText::Text("Not delivered to the room: ".into()), InlineText::Code(reason)];
                self.notice(paragraph(inlines), row.platform_id);
            }
        }
    }

    /// The room has the first row.
    fn published(&mut self, now: Timestamp) {
        let Some(row) = self.inbound.rows.pop_front() else { return };
        self.remember(MappedMessage {
            envelope: row.envelope.clone(),
            origin: MessageOrigin::Platform,
            author: row.ghost.id,
            parts: vec![row.platform_id],
            call_line: None,
            at: now,
        });
        self.store(StoreChange::InboxRemove(row.envelope));
    }

    fn on_command_result(&mut self, ticket: RoomTicket, result: RoomResult, now: Timestamp) {
        match (self.pending.remove(&ticket), result) {
            (None, _) => {}
            (Some(PendingCommand::Seating { ghost, command, reply_to }), Ok(_)) => {
                self.ghosts.seat(&ghost, now);
                self.ask_room(ghost.id, command, reply_to);
            }
            (Some(PendingCommand::Seating { reply_to, .. } | PendingCommand::Command { reply_to }), Err(failure)) => {
                let inlines = vec![InlineText::Text("✗ ".into()), InlineText::Code(failure.to_string())];
                self.notice(paragraph(inlines), reply_to);
            }
            (Some(PendingCommand::Command { reply_to }), Ok(reply)) => self.answer(reply, reply_to),
        }
    }

    fn answer(&mut self, reply: RoomReply, reply_to: Option<PlatformMessageId>) {
        match reply {
            RoomReply::Done => self.notice(RichText::plain("✓"), reply_to),
            RoomReply::ToolResult { is_error, text } => {
                let text: String = text.chars().take(MAX_ANSWER_CHARS).collect();
                let mark = if is_error { "✗ " } else { "✓ " };
                self.notice(RichText::plain(&format!("{mark}{text}")), reply_to);
            }
            RoomReply::Tools(tools) => {
                let mut lines: Vec<String> = tools
                    .iter()
                    .take(MAX_LISTED_TOOLS)
                    .map(|tool| {
                        let description = calls::shortened(&tool.description);
                        let dash = if description.is_empty() { "" } else { " – " };
                        format!("{} {}{dash}{description}", tool.participant, tool.name)
                    })
                    .collect();
                match tools.len() {
                    0 => lines.push("nobody here offers a tool".into()),
                    count if count > MAX_LISTED_TOOLS => {
                        lines.push(format!(
                            "… and {} more; `!tools PARTICIPANT` lists one participant's",
                            count - MAX_LISTED_TOOLS
                        ));
                    }
                    _ => {}
                }
                self.notice(RichText::plain(&lines.join("\n")), reply_to);
            }
        }
    }

    /// Asks the room what a person wants from it. The ghost is seated.
    pub(super) fn ask_room(
        &mut self,
        ghost: ParticipantId,
        command: BridgeCommand,
        reply_to: Option<PlatformMessageId>,
    ) {
        let ticket = self.ticket();
        let action = match command {
            BridgeCommand::Tools { participant } => RoomAction::ListTools { ticket, participant },
            BridgeCommand::Call { callee, tool, arguments } => {
                RoomAction::CallTool { ticket, ghost, callee, tool, arguments }
            }
            BridgeCommand::Decide { id, approve } => {
                let held = match self.held.find(&id) {
                    Ok(held) => held,
                    Err(reason) => return self.notice(markdown::parse(&reason), reply_to),
                };
                let decision = if approve { "approve" } else { "deny" };
                let arguments = serde_json::json!({ "id": held.id, "digest": held.digest, "decision": decision });
                let serde_json::Value::Object(arguments) = arguments else { return };
                let (callee, tool) = (ParticipantId::host(), "approval.decide".to_owned());
                RoomAction::CallTool { ticket, ghost, callee, tool, arguments }
            }
            BridgeCommand::Help | BridgeCommand::Who => return,
        };
        self.pending.insert(ticket, PendingCommand::Command { reply_to });
        self.outputs.push(CoreOutput::Room(action));
    }

    /// Shows something on the platform that is not in the room.
    pub(super) fn notice(&mut self, text: RichText, reply_to: Option<PlatformMessageId>) {
        let work = OutWork::Notice { text, reply_to };
        let (id, bytes) = (self.ids.envelope(None), work_bytes(&work));
        let item = OutItem { id, through: None, sent_at: None, work, bytes };
        self.outbound.push(item, self.options.max_queue, self.options.max_queue_bytes);
    }

    pub(super) fn notice_text(&mut self, text: &str) {
        self.notice(RichText::plain(text), None);
    }
}

fn notice(text: String) -> OutWork {
    OutWork::Notice { text: RichText::plain(&text), reply_to: None }
}

/// About how much memory something takes that waits.
fn work_bytes(work: &OutWork) -> usize {
    let text = match work {
        OutWork::Chat { text, .. } | OutWork::Edit { text, .. } | OutWork::CallEnded { text, .. } => text,
        OutWork::Notice { text, .. } => text,
        _ => return 64,
    };
    64 + crate::rich::render(text, crate::rich::Flavour::Plain).len()
}
