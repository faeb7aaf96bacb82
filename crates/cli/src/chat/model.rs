//! The room as one person sees it: everything that happens goes in, what is to be done comes out. No IO, and time is an argument.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use salon_protocol::{Envelope, EnvelopeId, Kind, Message, Participant, ParticipantId, PresenceEvent, TopicName};

use super::blocks::Look;
use super::completion::Popup;
use super::composer::Composer;
use super::event::{
    CallEnding, ChatEffect, ChatHistoryPage, ChatInput, ChatTicket, ChatTool, ConnectionStatus, Now, PersonQuestion,
    Zone,
};
use super::item::{ItemBody, TextTone};
use super::layout::{Anchor, PendingLine, Sheet};
use super::theme::Theme;
use super::transcript::{ChatTranscript, MAX_ITEMS, OlderHistory};

/// How many questions wait for the person at once; a participant that asks more is refused.
pub(crate) const MAX_QUESTIONS: usize = 16;

/// How many participants' tools are remembered.
const MAX_CATALOGUED: usize = 256;

/// A line of chat on its way, or a call before its request is in the log.
#[derive(Debug)]
pub(super) struct OutgoingLine {
    pub(super) ticket: ChatTicket,
    pub(super) line: String,
    /// What the echo will say: the text, or the callee and the tool.
    pub(super) echo: Echo,
    pub(super) stage: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Echo {
    Text(String),
    /// An edit or a retraction of a message.
    Revision(EnvelopeId),
    Call(ParticipantId, String),
}

/// A call of the person's that has not ended.
#[derive(Debug)]
pub(super) struct RunningCall {
    pub(super) ticket: ChatTicket,
    pub(super) to: ParticipantId,
    pub(super) line: String,
    pub(super) envelope: Option<EnvelopeId>,
}

/// A call that waits to know what the tool wants.
#[derive(Debug)]
pub(super) struct Unchecked {
    pub(super) ticket: ChatTicket,
    pub(super) to: ParticipantId,
    pub(super) tool: String,
    pub(super) pairs: Vec<String>,
    pub(super) line: String,
}

/// Everything there is to show.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) me: ParticipantId,
    pub(crate) topic: TopicName,
    pub(crate) theme: Theme,
    pub(crate) zone: Zone,
    pub(crate) size: (u16, u16),
    pub(crate) roster: Vec<Participant>,
    pub(crate) transcript: ChatTranscript,
    pub(crate) composer: Composer,
    pub(crate) popup: Option<Popup>,
    pub(crate) connection: ConnectionStatus,
    /// When the connection will be tried again.
    pub(crate) retry_at: Option<Duration>,
    /// Whether handshakes, lists and long answers are shown.
    pub(crate) all: bool,
    /// What came while the person looked at the past.
    pub(crate) unread: usize,
    pub(crate) questions: Vec<PersonQuestion>,
    /// Something to say until the next key.
    pub(crate) hint: Option<String>,
    pub(super) anchor: Anchor,
    pub(super) marker: Option<i64>,
    pub(super) tools: HashMap<ParticipantId, Vec<ChatTool>>,
    /// Whose tools were asked for, and whether the person wants to see them.
    pub(super) asking: HashMap<ParticipantId, bool>,
    pub(super) outgoing: Vec<OutgoingLine>,
    pub(super) running: Vec<RunningCall>,
    pub(super) unchecked: Vec<Unchecked>,
    pub(super) completing: bool,
    /// How long the longest id is of all who were here. It never becomes shorter, so that names do not move when somebody leaves.
    longest_name: usize,
    lost_since: Option<Duration>,
    next_ticket: ChatTicket,
    effects: Vec<ChatEffect>,
}

impl Model {
    pub(crate) fn new(me: ParticipantId, topic: TopicName, colour: bool, zone: Zone) -> Self {
        let mut model = Self {
            transcript: ChatTranscript::new(me.clone(), MAX_ITEMS),
            me,
            topic,
            theme: Theme::new(colour),
            zone,
            size: (80, 24),
            roster: Vec::new(),
            composer: Composer::default(),
            popup: None,
            connection: ConnectionStatus::Live,
            retry_at: None,
            all: false,
            unread: 0,
            questions: Vec::new(),
            hint: None,
            anchor: None,
            marker: None,
            tools: HashMap::new(),
            asking: HashMap::new(),
            outgoing: Vec::new(),
            running: Vec::new(),
            unchecked: Vec::new(),
            completing: false,
            longest_name: 0,
            lost_since: None,
            next_ticket: 0,
            effects: Vec::new(),
        };
        model.theme.meet(&model.me);
        model.load();
        model
    }

    /// What is to be done, each thing once.
    pub(crate) fn effects(&mut self) -> Vec<ChatEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether something on the screen changes by itself, and how soon.
    pub(crate) fn beat(&self) -> Option<Duration> {
        if !self.outgoing.is_empty() || self.transcript.is_busy() {
            return Some(Duration::from_millis(100));
        }
        self.retry_at.map(|_| Duration::from_millis(500))
    }

    pub(crate) fn handle(&mut self, input: ChatInput, now: Now) {
        match input {
            ChatInput::Key(key) => self.key(key, now),
            ChatInput::Paste(text) => {
                self.popup = None;
                self.composer.insert(&text);
            }
            ChatInput::Wheel(lines) => self.scroll(lines, now),
            ChatInput::Resize(columns, rows) => {
                self.size = (columns, rows);
                // The end may have come into sight.
                self.scroll(0, now);
            }
            ChatInput::Tick => {}
            ChatInput::Envelope(envelope) => self.happened(&envelope, now),
            ChatInput::Gap => {
                let text = "something is missing here: the topic does not keep its history for so long";
                self.transcript.note(now.wall, TextTone::Dim, text);
            }
            ChatInput::Roster(roster) => self.roster(roster),
            ChatInput::Connection(connection) => self.connected(connection, now),
            ChatInput::Page { before, page } => self.page(before.as_ref(), page),
            ChatInput::Tools { of, tools } => self.listed(&of, tools, now),
            ChatInput::Resources { of, rows } => self.show_resources(&of, rows, now),
            ChatInput::Resource { of, uri, text } => self.show_resource(&of, &uri, text, now),
            ChatInput::Sent(ticket) => self.outgoing.retain(|outgoing| outgoing.ticket != ticket),
            ChatInput::NotSent(ticket, why) => {
                if let Some(outgoing) = self.take_outgoing(ticket) {
                    self.complain(&outgoing.line, &format!("not sent: {why}"), now);
                }
            }
            ChatInput::Called(ticket, envelope) => {
                if let Some(running) = self.running.iter_mut().find(|running| running.ticket == ticket) {
                    running.envelope = Some(envelope);
                }
            }
            ChatInput::Ended(ticket, ending) => self.ended(ticket, ending, now),
            ChatInput::Question(question) => {
                self.theme.meet(&question.from);
                self.questions.push(question);
                self.effects.push(ChatEffect::Bell);
            }
            ChatInput::Withdrawn(id) => self.questions.retain(|question| question.id != id),
        }
        self.load_if_needed(now);
    }

    /// The transcript as it is looked at.
    pub(crate) fn sheet<'a>(&'a self, pending: &'a [PendingLine], columns: usize, now: Now) -> Sheet<'a> {
        let Self { theme, zone, all, questions, marker, transcript, .. } = self;
        let look = Look { theme, columns, all: *all, now, zone: *zone, questions, longest_name: self.longest_name };
        Sheet { transcript, pending, look, marker: *marker }
    }

    /// What is being sent.
    pub(crate) fn pending(&self) -> Vec<PendingLine> {
        let waits = match self.connection {
            ConnectionStatus::Live => None,
            ConnectionStatus::Stalled(_) => Some("waits for the gateway"),
            ConnectionStatus::Lost { .. } | ConnectionStatus::Over(_) => Some("waits for the connection"),
        };
        let pending = |outgoing: &OutgoingLine| PendingLine {
            line: outgoing.line.clone(),
            stage: waits.unwrap_or(outgoing.stage),
        };
        self.outgoing.iter().map(pending).collect()
    }

    pub(crate) fn anchor(&self) -> Anchor {
        self.anchor
    }

    pub(super) fn do_later(&mut self, effect: ChatEffect) {
        self.effects.push(effect);
    }

    pub(super) fn ticket(&mut self) -> ChatTicket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Shows what went wrong with a line, and gives it back to be corrected.
    pub(super) fn complain(&mut self, line: &str, why: &str, now: Now) {
        self.transcript.note(now.wall, TextTone::Bad, &format!("{line}\n{why}"));
        if self.composer.is_empty() {
            self.composer.set(line);
        }
    }

    pub(super) fn take_outgoing(&mut self, ticket: ChatTicket) -> Option<OutgoingLine> {
        let at = self.outgoing.iter().position(|outgoing| outgoing.ticket == ticket)?;
        Some(self.outgoing.remove(at))
    }

    fn happened(&mut self, envelope: &Envelope, now: Now) {
        self.theme.meet(envelope.from());
        envelope.to().iter().for_each(|to| self.theme.meet(to));
        self.invalidate(envelope);
        let first = self.transcript.next_key();
        let news = self.transcript.append(envelope, now.since_start);
        if envelope.from() == &self.me {
            self.echoed(envelope);
            // Another terminal of the same person may have been faster.
            if let Some(at) = self.questions.iter().position(|question| Some(&question.id) == envelope.correlation()) {
                let question = self.questions.remove(at);
                self.effects.push(ChatEffect::Forget(question.id));
            }
        }
        if news.readable && self.anchor.is_some() {
            self.unread += 1;
            self.marker.get_or_insert(first);
        }
        if news.names_me {
            self.effects.push(ChatEffect::Bell);
        }
    }

    /// What the person sent is in the log: it is not on its way any more.
    fn echoed(&mut self, envelope: &Envelope) {
        let revised = envelope.chat_revision().map(|(original, _)| original.clone());
        let echo = match self.transcript.get(envelope.id()).map(|item| &item.body) {
            _ if let Some(original) = revised => Echo::Revision(original),
            Some(ItemBody::Call(call)) => Echo::Call(call.to.clone(), call.what.clone()),
            Some(ItemBody::Chat(_)) => Echo::Text(envelope.chat().unwrap_or_else(|| unreachable!("it was read")).text),
            _ => return,
        };
        if let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.echo == echo) {
            self.outgoing.remove(at);
        }
    }

    /// Forgets tools that may have changed.
    fn invalidate(&mut self, envelope: &Envelope) {
        let changed = match envelope.message() {
            Some(Message::Notification { method }) => &**method == "notifications/tools/list_changed",
            _ => false,
        };
        let presence = (envelope.kind() == Kind::Presence).then(|| envelope.presence()).flatten();
        match presence {
            Some(presence) if matches!(presence.event, PresenceEvent::Join | PresenceEvent::Leave) => {
                self.tools.remove(&presence.participant.id);
            }
            _ if changed => drop(self.tools.remove(envelope.from())),
            _ => {}
        }
    }

    fn roster(&mut self, roster: Vec<Participant>) {
        for participant in &roster {
            self.theme.meet(&participant.id);
            self.longest_name = self.longest_name.max(participant.id.as_str().len());
        }
        self.roster = roster;
        self.roster.sort_by_cached_key(|one| (one.kind.map_or(3, |kind| kind as u8), one.id.as_str().to_lowercase()));
    }

    fn connected(&mut self, connection: ConnectionStatus, now: Now) {
        self.retry_at = match &connection {
            ConnectionStatus::Lost { retry_in, .. } => retry_in.map(|wait| now.since_start + wait),
            _ => None,
        };
        match (&self.connection, &connection) {
            (ConnectionStatus::Live, ConnectionStatus::Stalled(why)) => {
                self.transcript.note(now.wall, TextTone::Dim, &format!("the gateway says: {why}"));
            }
            (ConnectionStatus::Stalled(_), ConnectionStatus::Live) => {
                self.transcript.note(now.wall, TextTone::Dim, "the gateway stores messages again");
            }
            (ConnectionStatus::Live | ConnectionStatus::Stalled(_), ConnectionStatus::Lost { why, .. }) => {
                self.lost_since = Some(now.since_start);
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                self.transcript.note(now.wall, TextTone::Dim, &format!("connection lost{why}"));
            }
            (ConnectionStatus::Lost { .. }, ConnectionStatus::Live) => {
                let away = self.lost_since.take().map(|since| now.since_start.saturating_sub(since));
                let away = away.map(super::layout::duration).unwrap_or_default();
                self.transcript.note(now.wall, TextTone::Dim, &format!("connected again after {away}"));
                if matches!(self.transcript.older, OlderHistory::Failed(_)) {
                    self.transcript.older = OlderHistory::Perhaps;
                }
            }
            (_, ConnectionStatus::Over(why)) => {
                self.transcript.note(now.wall, TextTone::Bad, &format!("this is the end: {why}"))
            }
            _ => {}
        }
        self.connection = connection;
    }

    fn page(&mut self, before: Option<&EnvelopeId>, page: Result<ChatHistoryPage, String>) {
        match page {
            Ok(page) => {
                for envelope in &page.envelopes {
                    self.theme.meet(envelope.from());
                }
                let first = self.transcript.items().front().map(|item| item.key);
                self.transcript.prepend(before, &page.envelopes, page.more);
                // A view of the top stays where it is, with more above it.
                let grown = first > self.transcript.items().front().map(|item| item.key);
                if let (Some((i64::MIN, _)), Some(first), true) = (self.anchor, first, grown) {
                    self.anchor = Some((first, 0));
                }
            }
            Err(why) => self.transcript.older = OlderHistory::Failed(why),
        }
    }

    fn listed(&mut self, of: &ParticipantId, tools: Result<Vec<ChatTool>, String>, now: Now) {
        let wanted = self.asking.remove(of).unwrap_or(false);
        match tools {
            Ok(tools) => {
                self.hint = None;
                if wanted {
                    self.show_tools(of, &tools, now);
                }
                if self.tools.len() >= MAX_CATALOGUED {
                    self.tools.clear();
                }
                self.tools.insert(of.clone(), tools);
            }
            Err(why) => {
                if wanted {
                    self.transcript.note(now.wall, TextTone::Bad, &format!("{of} does not say what it offers\n{why}"));
                }
                self.hint = self.completing.then(|| format!("{of}: {why}"));
                let (failed, rest) = std::mem::take(&mut self.unchecked).into_iter().partition(|call| call.to == *of);
                self.unchecked = rest;
                for call in failed {
                    self.take_outgoing(call.ticket);
                    self.complain(&call.line, &why, now);
                }
            }
        }
        let (ready, rest) = std::mem::take(&mut self.unchecked).into_iter().partition(|call| call.to == *of);
        self.unchecked = rest;
        for call in ready {
            self.check_and_call(call, now);
        }
        if std::mem::take(&mut self.completing) && self.tools.contains_key(of) {
            self.complete(true);
        }
    }

    fn ended(&mut self, ticket: ChatTicket, ending: CallEnding, now: Now) {
        self.take_outgoing(ticket);
        let Some(at) = self.running.iter().position(|running| running.ticket == ticket) else { return };
        let running = self.running.remove(at);
        // An item in the transcript shows its own state; the rest is noted under it.
        let shown = running.envelope.filter(|envelope| self.transcript.get(envelope).is_some());
        match (ending, shown) {
            (CallEnding::Answered, _) => {}
            (CallEnding::Cancelled, Some(envelope)) => self.transcript.cancel(&envelope),
            (CallEnding::Failed(why), Some(envelope)) => {
                self.transcript.fail(&envelope, &why, now.wall, now.since_start)
            }
            (CallEnding::Cancelled, None) => {
                self.transcript.note(
                    now.wall,
                    TextTone::Dim,
                    &format!("cancelled before it was sent: {}", running.line),
                );
            }
            (CallEnding::Failed(why), None) => self.complain(&running.line, &why, now),
        }
    }

    pub(super) fn scroll(&mut self, lines: isize, now: Now) {
        let (columns, rows) = self.transcript_size();
        let pending = self.pending();
        let sheet = self.sheet(&pending, columns, now);
        let anchor = sheet.moved(self.anchor, rows, lines);
        self.move_to(anchor);
    }

    /// Shows an item from its beginning, if it is longer than the screen.
    pub(super) fn show(&mut self, key: i64, now: Now) {
        let (columns, rows) = self.transcript_size();
        let pending = self.pending();
        let anchor = self.sheet(&pending, columns, now).at(key, rows);
        self.move_to(anchor);
    }

    pub(super) fn move_to(&mut self, anchor: Anchor) {
        if self.anchor.is_none() && anchor.is_some() {
            self.marker = None;
        }
        self.anchor = anchor;
        if anchor.is_none() {
            self.unread = 0;
            if self.transcript.is_detached() {
                self.transcript.reset();
            }
        }
    }

    /// Loads older messages when the top is in sight, unless that would evict the newest messages.
    fn load_if_needed(&mut self, now: Now) {
        if self.transcript.older != OlderHistory::Perhaps || (self.anchor.is_none() && !self.transcript.has_space()) {
            return;
        }
        let (columns, rows) = self.transcript_size();
        let pending = self.pending();
        if self.sheet(&pending, columns, now).window(self.anchor, rows).at_top {
            self.load();
        }
    }

    pub(super) fn load(&mut self) {
        self.transcript.older = OlderHistory::Loading;
        self.effects.push(ChatEffect::Load { before: self.transcript.oldest().cloned() });
    }

    /// Everybody else who is here.
    pub(super) fn others(&self) -> impl Iterator<Item = &Participant> {
        self.roster.iter().filter(|participant| participant.id != self.me)
    }

    /// The ids that could be meant by what was typed: an id, or a name whatever its case.
    pub(super) fn resolve(&self, typed: &str) -> Result<ParticipantId, String> {
        let typed = typed.trim_start_matches('@');
        if let Some(one) = self.roster.iter().find(|one| one.id.as_str() == typed) {
            return Ok(one.id.clone());
        }
        if typed == ParticipantId::host().as_str() || typed == "gateway" {
            return Ok(ParticipantId::host());
        }
        let same = |text: &str| text.eq_ignore_ascii_case(typed);
        let named = |one: &&Participant| same(one.id.as_str()) || one.name.as_deref().is_some_and(same);
        let found: HashSet<_> = self.roster.iter().filter(named).map(|one| &one.id).collect();
        match found.into_iter().collect::<Vec<_>>()[..] {
            [one] => Ok(one.clone()),
            [] => Err(format!("`{typed}` is not here; `/who` lists who is")),
            _ => Err(format!("`{typed}` is the name of several; use an id")),
        }
    }
}
