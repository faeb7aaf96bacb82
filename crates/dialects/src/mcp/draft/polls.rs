//! Long-polling: what is to be said waits until it is asked for.
//!
//! Invariant: nothing that waits is lost without a word. A client that never asks for it is told that its session is over, by its end.

use std::collections::VecDeque;
use std::time::Instant;

use crate::mcp::door::Action;
use crate::{Form, Frame, Head, StreamId};

/// How much may wait for a client that does not ask.
const MAX_WAITING: usize = 1024;
const MAX_BYTES: usize = 16 << 20;

/// More waits than there is room for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// What waits for whom.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// Requests that ask, the oldest first.
    asking: VecDeque<Asking>,
    waiting: VecDeque<Box<str>>,
    bytes: usize,
}

#[derive(Debug)]
struct Asking {
    stream: StreamId,
    until: Instant,
    /// The session to be named in the answer.
    session: Option<Box<str>>,
}

impl Polls {
    /// Somebody asks, and waits until then.
    pub(super) fn ask(&mut self, stream: StreamId, until: Instant, session: Option<Box<str>>) {
        self.asking.push_back(Asking { stream, until, session });
    }

    /// Somebody does not wait any more. Whether they did.
    pub(super) fn hang_up(&mut self, stream: StreamId) -> bool {
        let before = self.asking.len();
        self.asking.retain(|asking| asking.stream != stream);
        self.asking.len() < before
    }

    pub(super) fn say(&mut self, text: &str) -> Result<(), TooMuch> {
        self.bytes += text.len();
        self.waiting.push_back(text.into());
        let fits = self.waiting.len() <= MAX_WAITING && self.bytes <= MAX_BYTES;
        // One message is taken however long it is: it could not be had otherwise.
        if fits || self.waiting.len() == 1 { Ok(()) } else { Err(TooMuch) }
    }

    /// Whether somebody waits.
    pub(super) fn is_asked(&self) -> bool {
        !self.asking.is_empty()
    }

    /// When the first has waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        self.asking.iter().map(|asking| asking.until).min()
    }

    /// Answers: the oldest with everything that waits, and with nothing whoever has waited long enough.
    pub(super) fn answer(&mut self, now: Instant, actions: &mut VecDeque<Action>) {
        if !self.waiting.is_empty()
            && let Some(oldest) = self.asking.pop_front()
        {
            self.bytes = 0;
            let all: Vec<Box<str>> = std::mem::take(&mut self.waiting).into();
            give(oldest, &all.join(","), actions);
        }
        let (over, asking) = std::mem::take(&mut self.asking).into_iter().partition(|asking| asking.until <= now);
        self.asking = asking;
        for asking in Vec::from(over) {
            give(asking, "", actions);
        }
    }

    /// Answers whoever still waits, for good.
    pub(super) fn close(&mut self, now: Instant, actions: &mut VecDeque<Action>) {
        self.answer(now, actions);
        for asking in std::mem::take(&mut self.asking) {
            give(asking, "", actions);
        }
    }
}

fn give(asking: Asking, messages: &str, actions: &mut VecDeque<Action>) {
    let Asking { stream, session, .. } = asking;
    let headers = session.map(|session| ("mcp-session-id", session)).into_iter().collect();
    actions.push_back(Action::Begin(stream, Head { status: 200, form: Form::Json, headers }));
    actions.push_back(Action::Send(stream, Frame::Text(format!("[{messages}]").into())));
    actions.push_back(Action::Finish(stream));
}
