//! What goes out on which stream: a WebSocket takes everything, a POST its one answer, and the rest goes to whoever listens.
//!
//! Over HTTP what belongs to no POST waits for a listener, and the newest of what was said is kept for one that comes back. Both are
//! bounded, and the oldest goes first. Nothing goes in silence: a request that nobody heard is given back, to be answered, and a listener
//! is told how many messages it has missed.

use std::collections::{HashSet, VecDeque};

use salon_protocol::{Code, EnvelopeId};

use super::opening::Action;
use crate::{EventFrame, Form, Frame, Head, StreamId};

/// How many messages are kept for listeners, and how many bytes.
const MAX_KEPT: usize = 512;
const MAX_BYTES: usize = 2 << 20;

/// An answer to a message.
pub(super) enum Answer {
    /// Something was said for it.
    Text(String),
    /// The message was refused.
    Refusal(Code, String),
    /// It was taken, and there is nothing to say.
    Taken,
}

#[derive(Debug)]
struct Said {
    number: u64,
    text: Box<str>,
    /// The request it is, where it is one.
    request: Option<EnvelopeId>,
}

/// The streams of one client.
#[derive(Debug)]
pub(super) struct Streams {
    /// Tells the events of this session from those of one before it.
    tag: Box<str>,
    duplex: Option<StreamId>,
    listener: Option<StreamId>,
    /// POSTs that have no answer yet.
    posts: HashSet<StreamId>,
    /// What was said to listeners, and what waits for one.
    kept: VecDeque<Said>,
    bytes: usize,
    /// How many messages there have been for listeners, and how many of them have been said.
    last: u64,
    told: u64,
    /// Requests that went without a listener having heard them.
    unheard: Vec<EnvelopeId>,
    actions: VecDeque<Action>,
}

impl Streams {
    pub(super) fn new(tag: impl Into<Box<str>>) -> Self {
        Self {
            tag: tag.into(),
            duplex: None,
            listener: None,
            posts: HashSet::new(),
            kept: VecDeque::new(),
            bytes: 0,
            last: 0,
            told: 0,
            unheard: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    pub(super) fn duplex(&mut self, stream: StreamId) {
        self.duplex = Some(stream);
    }

    pub(super) fn post(&mut self, stream: StreamId) {
        self.posts.insert(stream);
    }

    /// Somebody listens: first comes what it has not seen, after a word about how much of that is gone. Who listened before does not
    /// any more.
    pub(super) fn listen(&mut self, stream: StreamId, after: Option<&str>, gone: impl FnOnce(u64) -> String) {
        self.actions.push_back(Action::Begin(stream, head(200, Form::Events)));
        if let Some(before) = self.listener.replace(stream) {
            self.actions.push_back(Action::Finish(before));
        }
        // Whoever names no event of this session has what waits for a listener.
        let number = |after: &str| after.strip_prefix(&*self.tag)?.strip_prefix('.')?.parse::<u64>().ok();
        let seen = after.and_then(number).unwrap_or(self.told);
        let oldest = self.kept.front().map_or(self.last + 1, |said| said.number);
        let missing = oldest.saturating_sub(seen.saturating_add(1));
        if missing > 0 {
            // Without an id: whoever comes back names the last message it has.
            let event = EventFrame { name: Some("message"), id: None, retry: None, data: gone(missing).into() };
            self.actions.push_back(Action::Send(stream, Frame::Event(Box::new(event))));
        }
        let missed: Vec<_> = self.kept.iter().filter(|said| said.number > seen).map(|said| self.event(said)).collect();
        self.actions.extend(missed.into_iter().map(|event| Action::Send(stream, event)));
        self.told = self.last;
    }

    /// The peer hung up. Says whether it was a POST that waits for its answer.
    pub(super) fn closed(&mut self, stream: StreamId) -> bool {
        if self.duplex == Some(stream) {
            self.duplex = None;
        }
        if self.listener == Some(stream) {
            self.listener = None;
        }
        self.posts.remove(&stream)
    }

    /// Whether anybody is connected.
    pub(super) fn attended(&self) -> bool {
        self.duplex.is_some() || self.listener.is_some() || !self.posts.is_empty()
    }

    /// Says something that answers no message.
    pub(super) fn say(&mut self, text: String) {
        self.put_out(text, None);
    }

    /// Asks something, which is given back by [`Self::unheard`] should nobody hear it.
    pub(super) fn ask(&mut self, text: String, request: EnvelopeId) {
        self.put_out(text, Some(request));
    }

    /// What was asked and has gone without anybody having heard it.
    pub(super) fn unheard(&mut self) -> Vec<EnvelopeId> {
        std::mem::take(&mut self.unheard)
    }

    fn put_out(&mut self, text: String, request: Option<EnvelopeId>) {
        if let Some(stream) = self.duplex {
            return self.actions.push_back(Action::Send(stream, Frame::Text(text.into())));
        }
        self.last += 1;
        let said = Said { number: self.last, text: text.into(), request };
        if let Some(stream) = self.listener {
            self.told = self.last;
            let event = self.event(&said);
            self.actions.push_back(Action::Send(stream, event));
        }
        self.bytes += said.text.len();
        self.kept.push_back(said);
        while self.kept.len() > 1 && (self.kept.len() > MAX_KEPT || self.bytes > MAX_BYTES) {
            let Some(said) = self.kept.pop_front() else { break };
            self.bytes -= said.text.len();
            self.unheard.extend(said.request.filter(|_| said.number > self.told));
        }
    }

    /// Answers a message that came by a stream, with a status where that is a POST.
    pub(super) fn answer(&mut self, stream: StreamId, status: u16, answer: Answer) {
        if self.posts.remove(&stream) {
            let form = if matches!(answer, Answer::Taken) { Form::Empty } else { Form::Json };
            self.actions.push_back(Action::Begin(stream, head(status, form)));
            self.put(stream, answer);
            self.actions.push_back(Action::Finish(stream));
        } else if self.duplex == Some(stream) {
            self.put(stream, answer);
        }
    }

    fn put(&mut self, stream: StreamId, answer: Answer) {
        match answer {
            Answer::Text(text) => self.actions.push_back(Action::Send(stream, Frame::Text(text.into()))),
            Answer::Refusal(code, text) => {
                self.actions.push_back(Action::Refuse(stream, code, Frame::Text(text.into())));
            }
            Answer::Taken => {}
        }
    }

    /// POSTs that have no answer yet, in order.
    pub(super) fn unanswered(&self) -> Vec<StreamId> {
        let mut posts: Vec<_> = self.posts.iter().copied().collect();
        posts.sort_unstable();
        posts
    }

    /// Ends who listens. POSTs have been answered, and the WebSocket closes with the session.
    pub(super) fn close_all(&mut self) {
        self.actions.extend(self.listener.take().map(Action::Finish));
    }

    fn event(&self, said: &Said) -> Frame {
        let id = Some(format!("{}.{}", self.tag, said.number).into());
        Frame::Event(Box::new(EventFrame { name: Some("message"), id, retry: None, data: said.text.clone() }))
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

fn head(status: u16, form: Form) -> Head {
    Head { status, form, headers: Vec::new() }
}
