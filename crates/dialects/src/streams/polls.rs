//! Long polling: frames wait until a request asks for them, and requests wait until there are frames.
//!
//! Each frame is in the answer to one poll, in order. Invariant: no frame is dropped silently. Where more wait than the bound allows, the
//! queue says that it has overflowed, and the session ends.

use std::collections::VecDeque;
use std::time::Instant;

use super::buffer::{BufferedFrame, FrameBuffer};
use super::{Bound, Channel, StreamReply, respond};
use crate::{DialectAction, StreamId};

#[derive(Debug)]
pub(super) struct Polls {
    /// Polls without an answer, the oldest first.
    waiting: VecDeque<PendingPoll>,
    frames: FrameBuffer,
    has_polled: bool,
    has_overflowed: bool,
}

#[derive(Debug)]
struct PendingPoll {
    stream: StreamId,
    until: Instant,
    header: Option<(&'static str, Box<str>)>,
}

impl Polls {
    pub(super) fn new(bound: Bound) -> Self {
        Self { waiting: VecDeque::new(), frames: FrameBuffer::new(bound), has_polled: false, has_overflowed: false }
    }

    /// A poll that waits until then. Its answer has the header.
    pub(super) fn open(&mut self, stream: StreamId, until: Instant, header: Option<(&'static str, Box<str>)>) {
        self.has_polled = true;
        self.waiting.push_back(PendingPoll { stream, until, header });
    }

    /// The peer hung up. Returns whether the stream was a poll.
    pub(super) fn close(&mut self, stream: StreamId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|poll| poll.stream != stream);
        self.waiting.len() < before
    }

    pub(super) fn push(&mut self, text: Box<str>) {
        let frame = BufferedFrame { channel: Channel::POLLS, number: 0, text, request: None };
        self.has_overflowed |= !self.frames.push(frame).is_empty();
    }

    pub(super) fn has_polled(&self) -> bool {
        self.has_polled
    }

    pub(super) fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.has_overflowed)
    }

    pub(super) fn is_attended(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When the first poll has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|poll| poll.until).min()
    }

    /// Answers the oldest poll with every frame, and with none each poll that has waited long enough.
    pub(super) fn answer<Q>(&mut self, now: Instant, actions: &mut VecDeque<DialectAction<Q>>) {
        if !self.frames.is_empty()
            && let Some(oldest) = self.waiting.pop_front()
        {
            let texts: Vec<_> = std::iter::from_fn(|| self.frames.pop()).map(|frame| frame.text).collect();
            oldest.answer(&texts.join(","), actions);
        }
        for poll in std::mem::take(&mut self.waiting) {
            if poll.until <= now {
                poll.answer("", actions);
            } else {
                self.waiting.push_back(poll);
            }
        }
    }

    /// Answers every poll.
    pub(super) fn answer_all<Q>(&mut self, actions: &mut VecDeque<DialectAction<Q>>) {
        let Some(last) = self.waiting.iter().map(|poll| poll.until).max() else { return };
        self.answer(last, actions);
    }
}

impl PendingPoll {
    fn answer<Q>(self, messages: &str, actions: &mut VecDeque<DialectAction<Q>>) {
        let reply = StreamReply::Text(format!("[{messages}]").into());
        respond(actions, self.stream, 200, self.header.into_iter().collect(), reply);
    }
}
