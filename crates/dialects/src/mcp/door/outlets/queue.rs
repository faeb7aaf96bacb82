//! Events in the order they were said, within bounds.

use std::collections::VecDeque;

use super::Channel;

/// An event of a channel.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) channel: Channel,
    pub(super) number: u64,
    pub(super) data: Box<str>,
}

/// How much a queue holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

/// The newest of what was put in. The very newest stays however long it is.
#[derive(Debug)]
pub(super) struct Queue {
    bound: Bound,
    bytes: usize,
    said: VecDeque<Said>,
}

impl Queue {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Said> {
        self.said.iter()
    }

    pub(super) fn new(bound: Bound) -> Self {
        Self { bound, bytes: 0, said: VecDeque::new() }
    }

    pub(super) fn push(&mut self, said: Said) {
        self.bytes += said.data.len();
        self.said.push_back(said);
        while self.said.len() > 1 && (self.said.len() > self.bound.count || self.bytes > self.bound.bytes) {
            self.pop();
        }
    }

    pub(super) fn pop(&mut self) -> Option<Said> {
        let said = self.said.pop_front()?;
        self.bytes -= said.data.len();
        Some(said)
    }
}
