//! Envelopes folded into what a person reads: calls paired with their answers, progress with its call.
//!
//! Invariants: a window of bounded length onto the topic's log, contiguous, in the log's order. What falls out of it at the old end is
//! loaded again when it is wanted; when it grows at the old end beyond its bound, the new end is cut off and the window is
//! [detached](Transcript::is_detached) from the present until it starts over.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use salon_protocol::{Envelope, EnvelopeId, Kind, ParticipantId, PresenceEvent, Timestamp};

use super::approvals::ApprovalList;
use super::item::{CallItem, CallOutcome, ChatItem, ChatMessage, ItemBody, MessageState, TextTone};
use super::text::{clip, safe, safe_line};
use crate::transcript::revisions::Revisions;

/// How many items are kept at most.
pub(crate) const MAX_ITEMS: usize = 2000;

/// How much is kept of one line of chat.
pub(super) const MAX_TEXT: usize = 16 * 1024;

/// Whether there is more before the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OlderHistory {
    Perhaps,
    Loading,
    /// Asking for it failed.
    Failed(String),
    /// The window begins where the history begins.
    None,
}

/// What an envelope brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TranscriptNews {
    /// Something a person would want to read.
    pub(crate) readable: bool,
    /// It names the person at this terminal.
    pub(crate) names_me: bool,
}

#[derive(Debug)]
pub(crate) struct ChatTranscript {
    pub(super) me: ParticipantId,
    most: usize,
    pub(super) items: VecDeque<ChatItem>,
    next_key: i64,
    pub(super) keys: HashMap<EnvelopeId, i64>,
    /// The oldest envelope folded in, whether it became an item or not.
    oldest: Option<EnvelopeId>,
    detached: bool,
    pub(crate) older: OlderHistory,
    /// What became of chat messages.
    pub(super) revisions: Revisions,
    pub(super) approvals: ApprovalList,
}

impl ChatTranscript {
    pub(crate) fn new(me: ParticipantId, most: usize) -> Self {
        Self {
            me,
            most,
            items: VecDeque::new(),
            next_key: 0,
            keys: HashMap::new(),
            oldest: None,
            detached: false,
            older: OlderHistory::Perhaps,
            revisions: Revisions::default(),
            approvals: ApprovalList::default(),
        }
    }

    pub(crate) fn items(&self) -> &VecDeque<ChatItem> {
        &self.items
    }

    pub(crate) fn get(&self, envelope: &EnvelopeId) -> Option<&ChatItem> {
        self.items.get(self.place(*self.keys.get(envelope)?)?)
    }

    /// Where to go on reading towards the past.
    pub(crate) fn oldest(&self) -> Option<&EnvelopeId> {
        self.oldest.as_ref()
    }

    /// The key the next item will have.
    pub(crate) fn next_key(&self) -> i64 {
        self.next_key
    }

    /// Whether the present is outside the window.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached
    }

    /// Whether it could hold another page without letting go of the present.
    pub(crate) fn has_space(&self) -> bool {
        self.items.len() < self.most / 2
    }

    /// Whether anything in it moves by itself.
    pub(crate) fn is_busy(&self) -> bool {
        let busy = |item: &ChatItem| matches!(&item.body, ItemBody::Call(call) if call.is_running() && !call.minor);
        self.items.iter().any(busy)
    }

    /// Empties it, to start over at the newest message.
    pub(crate) fn reset(&mut self) {
        self.items.clear();
        self.keys.clear();
        (self.oldest, self.detached, self.older) = (None, false, OlderHistory::Perhaps);
    }

    /// Takes in what just happened; `now` is the moment.
    pub(crate) fn append(&mut self, envelope: &Envelope, now: Duration) -> TranscriptNews {
        if self.keys.contains_key(envelope.id()) {
            return TranscriptNews { readable: false, names_me: false };
        }
        let item = self.fold(envelope, Some(now));
        let news = item.as_ref().map_or(TranscriptNews { readable: false, names_me: false }, |item| {
            let (theirs, names_me) = match &item.body {
                ItemBody::Chat(said) => (said.from != self.me, said.names_me),
                ItemBody::Call(call) => (call.from != self.me, false),
                ItemBody::Presence { .. }
                | ItemBody::Answer { .. }
                | ItemBody::Notice { .. }
                | ItemBody::Note { .. } => (false, false),
            };
            TranscriptNews { readable: theirs && !item.is_minor(), names_me }
        });
        if !self.detached {
            if self.oldest.is_none() && is_stored(envelope) {
                self.oldest = Some(envelope.id().clone());
            }
            self.push(item);
            self.trim_front();
        }
        news
    }

    /// Takes in a page that was asked for with `before`, newest first. Answers whether it fits: one asked for without `before` does not
    /// when the window has begun elsewhere meanwhile, and has to be asked for again.
    pub(crate) fn prepend(&mut self, before: Option<&EnvelopeId>, page: &[Arc<Envelope>], more: bool) -> bool {
        self.older = OlderHistory::Perhaps;
        let older = match &self.oldest {
            oldest if oldest.as_ref() == before => page,
            None => return false,
            Some(oldest) => match page.iter().position(|envelope| envelope.id() == oldest) {
                Some(at) => &page[at + 1..],
                None => return false,
            },
        };
        let newer = std::mem::take(&mut self.items);
        let (first, after) = (newer.front().map_or(self.next_key, |item| item.key), self.next_key);
        self.next_key = first - i64::try_from(older.len()).unwrap_or(0);
        for envelope in older.iter().rev() {
            if !self.keys.contains_key(envelope.id()) {
                let item = self.fold(envelope, None);
                self.push(item);
            }
        }
        self.next_key = after.max(self.next_key);
        if let Some(envelope) = older.last() {
            self.oldest = Some(envelope.id().clone());
        }
        self.older = if more { OlderHistory::Perhaps } else { OlderHistory::None };
        self.rejoin(newer);
        while self.items.len() > self.most {
            self.forget(false);
            self.detached = true;
        }
        true
    }

    /// Says something to the person.
    pub(crate) fn note(&mut self, at: Timestamp, tone: TextTone, text: &str) {
        self.table(at, tone, text, Vec::new());
    }

    /// Says something to the person, and lists what belongs to it.
    pub(crate) fn table(&mut self, at: Timestamp, tone: TextTone, text: &str, rows: Vec<(String, String)>) {
        let rows = rows.iter().map(|(what, about)| (safe_line(what), safe_line(about))).collect();
        self.push(Some(ChatItem { key: 0, envelope: None, at, body: ItemBody::Note { tone, text: safe(text), rows } }));
        self.trim_front();
    }

    /// A call ended without an answer in the log.
    pub(crate) fn fail(&mut self, call: &EnvelopeId, why: &str, at: Timestamp, now: Duration) {
        if let Some(call) = self.call_mut(call).filter(|call| call.outcome.is_none()) {
            let took = call.began.map(|began| now.saturating_sub(began));
            call.outcome = Some(CallOutcome { well: false, text: safe(&clip(why, MAX_TEXT)), at, took, answer: None });
        }
    }

    /// The answer to a call is not wanted any more.
    pub(crate) fn cancel(&mut self, call: &EnvelopeId) {
        if let Some(call) = self.call_mut(call) {
            call.cancelled = true;
        }
    }

    /// The newest line of chat by somebody, or by anybody else.
    pub(crate) fn last_message(&self, by: Option<&ParticipantId>) -> Option<&EnvelopeId> {
        let wanted = |said: &ChatMessage| by.map_or(said.from != self.me, |by| said.from == *by);
        let said = |item: &&ChatItem| matches!(&item.body, ItemBody::Chat(said) if wanted(said));
        self.items.iter().rev().find(said)?.envelope.as_ref()
    }

    /// The newest line of chat that the person said and has not taken back.
    pub(crate) fn last_own_message(&self) -> Option<&EnvelopeId> {
        let is_own = |said: &ChatMessage| {
            said.from == self.me && !matches!(said.state, MessageState::Retracted | MessageState::Redacted)
        };
        let own = |item: &&ChatItem| matches!(&item.body, ItemBody::Chat(said) if is_own(said));
        self.items.iter().rev().find(own)?.envelope.as_ref()
    }

    /// Puts the newer part back behind older items, and joins what belongs together across the seam.
    fn rejoin(&mut self, newer: VecDeque<ChatItem>) {
        let left = |who: &ParticipantId| {
            newer
                .iter()
                .any(|item| matches!(&item.body, ItemBody::Presence { who: gone, joined: false, .. } if gone == who))
        };
        for item in &mut self.items {
            if let ItemBody::Call(call) = &mut item.body
                && call.outcome.is_none()
                && left(&call.to)
            {
                call.outcome = Some(gone(item.at, None));
            }
        }
        for item in newer {
            if let ItemBody::Answer { about: Some(about), outcome, .. } = &item.body
                && let Some(place) = self.keys.get(about).and_then(|key| self.place(*key))
                && let ChatItem { at, body: ItemBody::Call(call), .. } = &mut self.items[place]
            {
                let took = outcome.at.0.checked_sub(at.0).map(Duration::from_millis);
                call.outcome = Some(CallOutcome { took, ..outcome.clone() });
                self.keys.retain(|_, key| *key != item.key);
            } else {
                self.items.push_back(item);
            }
        }
    }

    fn push(&mut self, item: Option<ChatItem>) {
        if let Some(mut item) = item {
            item.key = self.next_key;
            self.next_key += 1;
            if let Some(envelope) = &item.envelope {
                self.keys.insert(envelope.clone(), item.key);
            }
            self.items.push_back(item);
        }
    }

    fn trim_front(&mut self) {
        while self.items.len() > self.most {
            self.forget(true);
            if let Some(envelope) = self.items.iter().find_map(|item| item.envelope.clone()) {
                (self.oldest, self.older) = (Some(envelope), OlderHistory::Perhaps);
            }
        }
    }

    fn forget(&mut self, oldest: bool) {
        let item = if oldest { self.items.pop_front() } else { self.items.pop_back() };
        if let Some(envelope) = item.and_then(|item| item.envelope) {
            self.keys.remove(&envelope);
        }
    }

    /// Where the item with a key is.
    pub(super) fn place(&self, key: i64) -> Option<usize> {
        let place = self.items.partition_point(|item| item.key < key);
        self.items.get(place).filter(|item| item.key == key).map(|_| place)
    }

    pub(super) fn call_mut(&mut self, envelope: &EnvelopeId) -> Option<&mut CallItem> {
        let place = self.place(*self.keys.get(envelope)?)?;
        match &mut self.items[place].body {
            ItemBody::Call(call) => Some(call),
            _ => None,
        }
    }

    pub(super) fn open_calls(&mut self) -> impl Iterator<Item = &mut CallItem> {
        self.items.iter_mut().rev().filter_map(|item| match &mut item.body {
            ItemBody::Call(call) if call.outcome.is_none() => Some(call),
            _ => None,
        })
    }
}

pub(super) fn gone(at: Timestamp, took: Option<Duration>) -> CallOutcome {
    CallOutcome { well: false, text: "left before it answered".into(), at, took, answer: None }
}

/// Heartbeats and refusals are of the moment and cannot be asked for again.
fn is_stored(envelope: &Envelope) -> bool {
    match envelope.kind() {
        Kind::Mcp => true,
        Kind::Presence => envelope.presence().is_some_and(|presence| presence.event != PresenceEvent::Heartbeat),
        _ => false,
    }
}
