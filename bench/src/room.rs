//! A room as its publisher sees it: what was sent, what has arrived, what may be sent next. No sockets.

use std::time::Duration;

use crate::wire::MessageTemplate;

/// Messages written before the sockets are looked at again.
const BATCH: u32 = 256;
/// When each of the latest messages of a room was sent; a power of two, above any window.
const TIMED_MESSAGES: usize = 16 * 1024;

/// In a saturated run one message in so many has its latency taken.
const SAMPLED: u32 = 32;
/// So many latencies of a scheduled run are kept, about; its longest one is known in any case.
const MAX_LATENCIES: f64 = 4e6;

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
    /// As `Steady`, but a message is timed from when it was due, so that what delays its sender counts too.
    Scheduled(Duration),
}

impl PublishPace {
    /// The time between two messages, where there is one.
    pub(crate) fn interval(self) -> Option<Duration> {
        match self {
            Self::Every(interval) | Self::Steady(interval) | Self::Scheduled(interval) => Some(interval),
            Self::Window(_) => None,
        }
    }

    /// One message in how many has its latency taken, where each has so many latencies.
    pub(crate) fn sampling(self, until: Until, each: u64) -> u32 {
        match (self, until) {
            (Self::Window(2..), _) => SAMPLED,
            (Self::Scheduled(interval), Until::Elapsed(duration)) => {
                (duration.as_secs_f64() / interval.as_secs_f64() * each as f64 / MAX_LATENCIES).ceil() as u32
            }
            _ => 1,
        }
    }
}

/// When the messages of a room are due, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct PublishSchedule {
    /// The first message of the schedule, and when it is due.
    first: (u32, u64),
    /// From one message of the room to the next.
    step: u64,
}

/// When a run stops sending. It always ends when everything sent has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Elapsed(Duration),
    /// So many messages from each publisher.
    Sent(u32),
}

impl Until {
    /// Whether messages that are due after so long belong to the run.
    pub(crate) fn is_open(self, elapsed: Duration) -> bool {
        match self {
            Self::Elapsed(duration) => elapsed < duration,
            Self::Sent(_) => true,
        }
    }
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
    /// Where messages are timed from when they were due.
    schedule: Option<PublishSchedule>,
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
            schedule: None,
            sent_at: vec![0; TIMED_MESSAGES],
        }
    }

    /// Begins a run at `start`. Rooms take turns: this one's is the first of the pair, of as many as the second says.
    pub(crate) fn begin(&mut self, pace: PublishPace, start: u64, (turn, rooms): (u64, u64)) {
        self.due = 0;
        self.schedule = match pace {
            PublishPace::Scheduled(interval) => {
                let interval = interval.as_nanos() as u64;
                Some(PublishSchedule { first: (self.sent, start + turn * interval), step: rooms * interval })
            }
            _ => None,
        };
    }

    /// Whether every message of the run is timed, for the longest latency.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.schedule.is_some()
    }

    /// How many clients time each message: all that get it, or only the caller.
    pub(crate) fn timed(&self) -> u64 {
        if self.answer.is_some() { 1 } else { self.readers }
    }

    /// Writes the next `count` messages to `out`, as sent at `now`.
    pub(crate) fn write(&mut self, count: u32, now: u64, out: &mut Vec<u8>) {
        for _ in 0..count {
            self.message.write(self.sent, out);
            self.sent_at[self.sent as usize % TIMED_MESSAGES] = now;
            self.sent += 1;
        }
        self.due = self.due.saturating_sub(count);
    }

    /// When a message was sent or, by a schedule, due.
    pub(crate) fn began_at(&self, sequence: u32) -> u64 {
        match self.schedule {
            Some(PublishSchedule { first: (first, due), step }) => {
                due + u64::from(sequence.saturating_sub(first)) * step
            }
            None => self.sent_at[sequence as usize % TIMED_MESSAGES],
        }
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
            PublishPace::Steady(_) | PublishPace::Scheduled(_) => self.due,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FrameFormat, MessageSort};

    const INTERVAL: Duration = Duration::from_micros(10);

    #[test]
    fn scheduled_messages_begin_when_due_and_others_when_sent() {
        let message = MessageTemplate::new(FrameFormat::WebSocket, "room", MessageSort::Notification, "alice", "", 256);
        let mut room = BenchRoom::new(message, None);
        let mut out = Vec::new();
        room.begin(PublishPace::Steady(INTERVAL), 1000, (2, 4));
        room.write(2, 5000, &mut out);
        assert_eq!([0, 1].map(|sequence| room.began_at(sequence)), [5000, 5000]);
        // The third of four rooms: its turn comes two intervals after the beginning, and then every fourth.
        room.begin(PublishPace::Scheduled(INTERVAL), 1_000_000, (2, 4));
        room.due = 2;
        assert_eq!(room.allowance(PublishPace::Scheduled(INTERVAL)), 2);
        room.write(2, 9_000_000, &mut out);
        assert_eq!([2, 3].map(|sequence| room.began_at(sequence)), [1_020_000, 1_060_000]);
        assert_eq!(room.due, 0);
    }

    #[test]
    fn so_many_latencies_are_taken_as_can_be_kept() {
        let hour = Until::Elapsed(Duration::from_secs(3600));
        let table = [
            (PublishPace::Window(1), 1000, 1),
            (PublishPace::Window(16), 1000, SAMPLED),
            (PublishPace::Steady(INTERVAL), 1000, 1),
            (PublishPace::Scheduled(Duration::from_millis(1)), 1, 1),
            (PublishPace::Scheduled(Duration::from_millis(1)), 1000, 900),
        ];
        for (pace, each, expected) in table {
            assert_eq!(pace.sampling(hour, each), expected, "{pace:?}, {each} each");
        }
    }
}
