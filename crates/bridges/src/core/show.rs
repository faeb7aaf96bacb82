//! How things of the room look on the platform, and sending them step by step.

use salon_protocol::{EnvelopeId, ParticipantId, Timestamp};

use super::calls::started;
use super::map::{MappedMessage, MessageOrigin};
use super::outbound::{OutItem, OutProgress, OutStep, OutWork};
use super::{BridgeCore, CoreOutput, StoreChange};
use crate::platform::{PlatformAction, PlatformMessageId, PlatformUserId, RenderedText, ResendRule, Speaker};
use crate::rich::{Flavour, InlineText, MentionTarget, RichText, TextBlock, lines, render, split};

/// The most characters of a name that is written before a text.
const MAX_PREFIX_CHARS: usize = 32;
/// How far a name is read after `@`, in bytes. Names have at most 100 characters.
const MAX_MENTION_BYTES: usize = 512;

impl BridgeCore {
    /// Gives out the next action, where one may be.
    pub(super) fn perform_next(&mut self, now: Timestamp) {
        loop {
            let outbound = &self.outbound;
            if outbound.in_flight.is_some() || !outbound.is_connected {
                return;
            }
            let must_wait = outbound.unresolved.is_some() && self.capabilities.resend == ResendRule::AfterEcho;
            if must_wait && !outbound.is_caught_up {
                return;
            }
            if self.outbound.current.is_none() {
                let Some(item) = self.outbound.pop() else { return };
                let steps = self.steps(&item);
                let done = self.map.delivered(&item.id).min(steps.len());
                self.outbound.current = Some(OutProgress { item, steps, done });
            }
            let Some(current) = &self.outbound.current else { return };
            let Some(step) = current.steps.get(current.done) else {
                self.item_done(now);
                continue;
            };
            let (key, action) = (step.action.key().clone(), step.action.clone());
            if let Some(id) = self.outbound.take_echo(&key) {
                self.outbound.unresolved = None;
                self.step_done(id, now);
                continue;
            }
            if self.outbound.unresolved.as_ref() == Some(&key) {
                self.outbound.unresolved = None;
                if self.capabilities.resend == ResendRule::Never {
                    self.step_done(None, now);
                    continue;
                }
            }
            if self.outbound.take_pace(now).is_err() {
                return;
            }
            if self.capabilities.resend != ResendRule::ByKey {
                self.store(StoreChange::Attempt(Some(key.clone())));
            }
            self.outbound.in_flight = Some(key);
            self.outputs.push(CoreOutput::Platform(action));
            return;
        }
    }

    /// The platform has the step under way, or never will.
    pub(super) fn step_done(&mut self, id: Option<PlatformMessageId>, now: Timestamp) {
        let Some(current) = &mut self.outbound.current else { return };
        let Some(step) = current.steps.get(current.done) else { return };
        let (envelope, extends) = (current.item.id.clone(), step.extends.clone());
        let author = match &current.item.work {
            OutWork::Chat { from, .. } | OutWork::Edit { from, .. } | OutWork::Retract { from, .. } => from.clone(),
            _ => self.participant.clone(),
        };
        let call_line = match &current.item.work {
            OutWork::CallStarted { line } => Some(line.clone()),
            _ => None,
        };
        current.done += 1;
        let is_last = current.done == current.steps.len();
        let is_of_room = current.item.through.is_some();
        let new =
            MappedMessage { envelope, origin: MessageOrigin::Room, author, parts: Vec::new(), call_line, at: now };
        let mut mapped = self.map.get(&new.envelope).cloned().unwrap_or(new);
        // A message that an edit makes longer is part of what was edited.
        mapped.parts.push(id.clone().filter(|_| extends.is_none()));
        if is_of_room {
            self.remember(mapped);
        }
        if let Some(mut extended) = extends.and_then(|extends| self.map.get(&extends).cloned()) {
            extended.parts.push(id);
            self.remember(extended);
        }
        if self.capabilities.resend != ResendRule::ByKey {
            self.store(StoreChange::Attempt(None));
        }
        if is_last {
            self.item_done(now);
        }
    }

    fn item_done(&mut self, now: Timestamp) {
        let Some(through) = self.outbound.current.take().and_then(|current| current.item.through) else { return };
        self.outbound.position.set(through, now);
        if let Some(position) = self.outbound.position.take_changed(now, true) {
            self.store(StoreChange::Position(position));
        }
    }

    /// The actions that an item needs.
    fn steps(&self, item: &OutItem) -> Vec<OutStep> {
        let key = |part: usize| self.ids.action(&item.id, part);
        let only = |action: PlatformAction| vec![OutStep { action, extends: None }];
        match &item.work {
            OutWork::Chat { from, text, reply_to } => {
                let speaker = self.speaker(from);
                let replied = reply_to.as_ref().and_then(|id| self.map.get(id));
                let reply_id = replied.and_then(|mapped| mapped.parts.iter().flatten().next().cloned());
                let mut text = self.with_mentions(text.clone());
                if let (false, Some(mapped)) = (self.capabilities.can_reply, replied) {
                    address(&mut text, self.ghosts.named(mapped.author.as_str()));
                }
                let reply_to = reply_id.filter(|_| self.capabilities.can_reply);
                self.send_all(Some(&speaker), &text, reply_to, item)
            }
            OutWork::Edit { from, target, text } => self.edit(from, target, text, item),
            OutWork::Retract { from, target } => {
                let Some(mapped) = self.map.get(target) else { return Vec::new() };
                let speaker = (mapped.origin == MessageOrigin::Room).then(|| self.speaker(from));
                let targets: Vec<_> = mapped.parts.iter().flatten().cloned().collect();
                if !self.capabilities.can_retract || targets.is_empty() {
                    let text = RichText::plain(&format!("({} deleted a message)", self.speaker(from).name));
                    return self.send_all(None, &text, None, item);
                }
                let retracted = targets.into_iter().enumerate().map(|(part, target)| OutStep {
                    action: PlatformAction::Retract { key: key(part), speaker: speaker.clone(), target },
                    extends: None,
                });
                retracted.collect()
            }
            OutWork::CallStarted { line } => self.send_all(None, &started(line), None, item),
            OutWork::CallEnded { call, text } => {
                let shown = self.map.get(call).and_then(|mapped| mapped.parts.iter().flatten().next().cloned());
                match (shown.filter(|_| self.capabilities.can_edit), self.rendered(None, text).into_iter().next()) {
                    (Some(target), Some(text)) => {
                        only(PlatformAction::Edit { key: key(0), speaker: None, target, text })
                    }
                    _ => self.send_all(None, text, None, item),
                }
            }
            OutWork::Notice { text, reply_to } => {
                let reply_to = reply_to.clone().filter(|_| self.capabilities.can_reply);
                self.send_all(None, text, reply_to, item)
            }
            OutWork::RemovePuppet { participant } => {
                only(PlatformAction::RemovePuppet { key: key(0), participant: participant.clone() })
            }
            OutWork::LeftOut { count } => {
                let text = format!("({count} messages of the room were left out here: too many came at once)");
                self.send_all(None, &RichText::plain(&text), None, item)
            }
        }
    }

    fn send_all(
        &self,
        speaker: Option<&Speaker>,
        text: &RichText,
        reply_to: Option<PlatformMessageId>,
        item: &OutItem,
    ) -> Vec<OutStep> {
        let parts = self.rendered(speaker, text).into_iter().enumerate();
        let sent = parts.map(|(part, text)| {
            let reply_to = reply_to.clone().filter(|_| part == 0);
            let key = self.ids.action(&item.id, part);
            let (speaker, sent_at) = (speaker.cloned(), item.sent_at);
            OutStep { action: PlatformAction::Send { key, speaker, text, reply_to, sent_at }, extends: None }
        });
        sent.collect()
    }

    fn edit(&self, from: &ParticipantId, target: &EnvelopeId, text: &RichText, item: &OutItem) -> Vec<OutStep> {
        let speaker = self.speaker(from);
        let text = self.with_mentions(text.clone());
        let Some(mapped) = self.map.get(target).filter(|mapped| mapped.origin == MessageOrigin::Room) else {
            return Vec::new();
        };
        if !self.capabilities.can_edit || mapped.parts.contains(&None) {
            let mut text = text;
            prepend(&mut text, InlineText::Text("(edited) ".into()));
            return self.send_all(Some(&speaker), &text, None, item);
        }
        let mut steps = Vec::new();
        let mut texts = self.rendered(Some(&speaker), &text).into_iter();
        let speaker = Some(speaker);
        for old in mapped.parts.iter().flatten() {
            let (key, speaker, target) = (self.ids.action(&item.id, steps.len()), speaker.clone(), old.clone());
            let action = match texts.next() {
                Some(text) => PlatformAction::Edit { key, speaker, target, text },
                None if self.capabilities.can_retract => PlatformAction::Retract { key, speaker, target },
                None => break,
            };
            steps.push(OutStep { action, extends: None });
        }
        for text in texts {
            let (key, speaker) = (self.ids.action(&item.id, steps.len()), speaker.clone());
            let action = PlatformAction::Send { key, speaker, text, reply_to: None, sent_at: item.sent_at };
            steps.push(OutStep { action, extends: Some(target.clone()) });
        }
        steps
    }

    fn speaker(&self, participant: &ParticipantId) -> Speaker {
        let known = self.people.get(participant);
        let name = known.and_then(|one| one.name.clone()).unwrap_or_else(|| participant.to_string());
        Speaker { id: participant.clone(), name, kind: known.and_then(|one| one.kind) }
    }

    /// A text as the platform takes it, in as many messages as it needs.
    fn rendered(&self, speaker: Option<&Speaker>, text: &RichText) -> Vec<RenderedText> {
        let capabilities = &self.capabilities;
        let flavour = capabilities.flavour;
        let name = speaker.filter(|_| !capabilities.shows_speaker).map(|speaker| {
            let name: String = speaker.name.chars().filter(|c| !c.is_control()).take(MAX_PREFIX_CHARS).collect();
            RichText::plain(&format!("<{name}> "))
        });
        let prefix = |flavour: Flavour| name.as_ref().map(|name| render(name, flavour)).unwrap_or_default();
        let limit = capabilities.max_text_bytes.saturating_sub(prefix(flavour).len());
        let mut parts: Vec<RichText> = if capabilities.is_multiline {
            split(text, flavour, limit)
        } else {
            lines(text).iter().flat_map(|line| split(line, flavour, limit)).collect()
        };
        let max = capabilities.max_parts.max(1);
        if parts.len() > max {
            let left_out = parts.len() - (max - 1);
            parts.truncate(max - 1);
            parts.push(RichText::plain(&format!("… ({left_out} more parts of this message are in the room)")));
        }
        let finished = parts.iter().map(|part| RenderedText {
            formatted: prefix(flavour) + &render(part, flavour),
            plain: prefix(Flavour::Plain) + &render(part, Flavour::Plain),
            mentions: mentions(part),
        });
        finished.collect()
    }

    /// `@name` of a person of the platform becomes a mention.
    fn with_mentions(&self, text: RichText) -> RichText {
        text.flat_map_text(&|text| {
            let mut found = Vec::new();
            let mut rest = text;
            let mut plain = String::new();
            while let Some(at) = rest.find('@') {
                let starts_word = rest[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
                let after = &rest[at + 1..];
                // No further than a name goes: a text of nothing but `@` would be read once for each of them.
                let near = &after[..after.floor_char_boundary(MAX_MENTION_BYTES)];
                let word = near.split(char::is_whitespace).next().unwrap_or_default();
                let named = |word: &str| self.ghosts.named(word).filter(|_| starts_word && !word.is_empty());
                let trimmed = word.trim_end_matches(['.', ',', ':', ';', '!', '?', ')', '\'']);
                let person = named(word).map(|person| (person, word)).or_else(|| Some((named(trimmed)?, trimmed)));
                plain.push_str(&rest[..at]);
                match person {
                    Some(((user, label), word)) => {
                        if !plain.is_empty() {
                            found.push(InlineText::Text(std::mem::take(&mut plain)));
                        }
                        found.push(InlineText::Mention { target: MentionTarget::User(user), label });
                        rest = &after[word.len()..];
                    }
                    None => {
                        plain.push('@');
                        rest = after;
                    }
                }
            }
            plain.push_str(rest);
            if !plain.is_empty() {
                found.push(InlineText::Text(plain));
            }
            found
        })
    }
}

/// Names the person that a text replies to.
fn address(text: &mut RichText, person: Option<(PlatformUserId, String)>) {
    let Some((user, label)) = person else { return };
    prepend(text, InlineText::Text(": ".into()));
    prepend(text, InlineText::Mention { target: MentionTarget::User(user), label });
}

fn prepend(text: &mut RichText, inline: InlineText) {
    match text.blocks.first_mut() {
        Some(TextBlock::Paragraph(inlines)) => inlines.insert(0, inline),
        _ => text.blocks.insert(0, TextBlock::Paragraph(vec![inline])),
    }
}

fn mentions(text: &RichText) -> Vec<PlatformUserId> {
    let mut users = Vec::new();
    text.visit_inlines(&mut |inline| {
        if let InlineText::Mention { target: MentionTarget::User(user), .. } = inline
            && !users.contains(user)
        {
            users.push(user.clone());
        }
    });
    users
}
