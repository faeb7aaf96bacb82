//! Frames in the order in which they were sent, bounded in number and in bytes.

use std::collections::VecDeque;

use salon_protocol::EnvelopeId;

use super::Channel;

/// A frame of a channel.
#[derive(Debug)]
pub(super) struct BufferedFrame {
    pub(super) channel: Channel,
    /// Its number within the channel, from 1.
    pub(super) number: u64,
    pub(super) text: Box<str>,
    /// The request that it brings to the peer.
    pub(super) request: Option<EnvelopeId>,
}

/// How much a buffer holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// The newest frames. The very newest stays however long it is: the peer could not receive it otherwise.
#[derive(Debug)]
pub(super) struct FrameBuffer {
    bound: Bound,
    bytes: usize,
    frames: VecDeque<BufferedFrame>,
}

impl FrameBuffer {
    pub(super) fn new(bound: Bound) -> Self {
        Self { bound, bytes: 0, frames: VecDeque::new() }
    }

    /// Adds a frame; returns those that it evicts, the oldest first.
    pub(super) fn push(&mut self, frame: BufferedFrame) -> Vec<BufferedFrame> {
        self.bytes += frame.text.len();
        self.frames.push_back(frame);
        let mut evicted = Vec::new();
        while self.frames.len() > 1 && (self.frames.len() > self.bound.count || self.bytes > self.bound.bytes) {
            evicted.extend(self.pop());
        }
        evicted
    }

    pub(super) fn pop(&mut self) -> Option<BufferedFrame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.text.len();
        Some(frame)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frames of a channel after a number.
    pub(super) fn after(&self, channel: Channel, number: u64) -> impl Iterator<Item = &BufferedFrame> {
        self.frames.iter().filter(move |frame| frame.channel == channel && frame.number > number)
    }

    #[cfg(test)]
    pub(super) fn is_within_bound(&self) -> bool {
        let bytes = self.frames.iter().map(|frame| frame.text.len()).sum::<usize>();
        let fits = self.frames.len() <= self.bound.count && bytes <= self.bound.bytes;
        bytes == self.bytes && (fits || self.frames.len() == 1)
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }
}
