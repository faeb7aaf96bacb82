//! A room as its publisher sees it: what was sent, what has arrived, what may be sent next. No sockets.

use std::time::Duration;

use crate::wire::MessageTemplate;

/// Messages written before the sockets are looked at again.
const BATCH: u32 = 256;
/// When each of the latest messages of a room was sent; a power of two, above any window.
const REMEMBERED: usize = 16 * 1024;

/// How fast publishers send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PublishPace {
    /// As fast as so many unfinished messages in each room allow. A message is finished when its sender has its echo (or
    /// its answer) and the readers, on average, have it too. A window of one waits for the last reader.
    Window(u32),
    /// One each interval, the rooms taking turns, but in a room never a second one before every reader has the first.
    Every(Duration),
    /// One each interval, the rooms taking turns, come what may.
    Steady(Duration),
}

/// When a run stops sending. It always ends when everything sent has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Elapsed(Duration),
    /// So many messages from each publisher.
    Sent(u32),
}

pub(crate) struct BenchRoom {
    pub(crate) publisher: Option<usize>,
    /// Clients that must get each message.
    pub(crate) readers: u64,
    message: MessageTemplate,
    pub(crate) answer: Option<MessageTemplate>,
    pub(crate) sent: u32,
    /// Messages whose echo or answer the publisher has.
    pub(crate) finished: u32,
    pub(crate) received: u64,
    pub(crate) due: u32,
    sent_at: Vec<u64>,
}

impl BenchRoom {
    pub(crate) fn new(message: MessageTemplate, answer: Option<MessageTemplate>) -> Self {
        Self {
            publisher: None,
            readers: 0,
            message,
            answer,
            sent: 0,
            finished: 0,
            received: 0,
            due: 0,
            sent_at: vec![0; REMEMBERED],
        }
    }

    /// Writes the next `count` messages to `out`, as sent at `now`.
    pub(crate) fn write(&mut self, count: u32, now: u64, out: &mut Vec<u8>) {
        for _ in 0..count {
            self.message.write(self.sent, out);
            self.sent_at[self.sent as usize % REMEMBERED] = now;
            self.sent += 1;
        }
        self.due = self.due.saturating_sub(count);
    }

    /// When a message was sent.
    pub(crate) fn sent_at(&self, sequence: u32) -> u64 {
        self.sent_at[sequence as usize % REMEMBERED]
    }

    /// How often each message, with its answer, must arrive.
    fn copies(&self) -> u64 {
        if self.answer.is_some() { 2 * self.readers } else { self.readers }
    }

    /// What was sent and has not arrived.
    pub(crate) fn outstanding(&self) -> u64 {
        u64::from(self.sent) * self.copies() - self.received
    }

    /// How many messages may be sent now.
    pub(crate) fn allowance(&self, pace: PublishPace) -> u32 {
        match pace {
            PublishPace::Window(window) => {
                let by_sender = window.saturating_sub(self.sent - self.finished);
                let by_readers =
                    (u64::from(window) * self.copies()).saturating_sub(self.outstanding()) / self.copies().max(1);
                by_sender.min(by_readers as u32).min(BATCH)
            }
            PublishPace::Every(_) if self.outstanding() > 0 => 0,
            PublishPace::Every(_) => self.due.min(1),
            PublishPace::Steady(_) => self.due,
        }
    }
}
