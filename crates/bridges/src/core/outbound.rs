//! From the room to the platform: what waits, what is under way, and how far the room has been shown.
//!
//! Invariants: one action at a time, in the order of the room. An action whose outcome could become unknown is written down before it is given
//! out. The position moves past an envelope only when everything that it causes has been delivered, refused or left out.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use salon_protocol::{EnvelopeId, ParticipantId, RateLimit, Timestamp, TokenBucket};

use crate::platform::{ActionKey, Pace, PlatformAction, PlatformMessageId};
use crate::rich::RichText;

/// Own messages seen on the platform that are remembered.
const MAX_ECHOES: usize = 1_000;

/// Something to show on the platform.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OutWork {
    Chat {
        from: ParticipantId,
        text: RichText,
        reply_to: Option<EnvelopeId>,
    },
    Edit {
        from: ParticipantId,
        target: EnvelopeId,
        text: RichText,
    },
    Retract {
        from: ParticipantId,
        target: EnvelopeId,
    },
    CallStarted {
        line: String,
    },
    CallEnded {
        call: EnvelopeId,
        text: RichText,
    },
    Notice {
        text: RichText,
        reply_to: Option<PlatformMessageId>,
    },
    RemovePuppet {
        participant: ParticipantId,
    },
    /// The queue was full.
    LeftOut {
        count: usize,
    },
}

/// One thing that waits.
#[derive(Debug)]
pub(crate) struct OutItem {
    /// What its keys follow from, and where its progress is kept.
    pub(crate) id: EnvelopeId,
    /// How far the room has been shown when it is done.
    pub(crate) through: Option<EnvelopeId>,
    pub(crate) sent_at: Option<Timestamp>,
    pub(crate) work: OutWork,
    pub(crate) bytes: usize,
}

/// An action, and the message that grows by it where that is not the item's own.
#[derive(Debug, Clone)]
pub(crate) struct OutStep {
    pub(crate) action: PlatformAction,
    pub(crate) extends: Option<EnvelopeId>,
}

/// The item at work.
#[derive(Debug)]
pub(crate) struct OutProgress {
    pub(crate) item: OutItem,
    pub(crate) steps: Vec<OutStep>,
    pub(crate) done: usize,
}

#[derive(Debug)]
pub(crate) struct PlatformQueue {
    queue: VecDeque<OutItem>,
    bytes: usize,
    pub(crate) current: Option<OutProgress>,
    pub(crate) in_flight: Option<ActionKey>,
    pub(crate) is_connected: bool,
    pub(crate) is_caught_up: bool,
    /// An action of which nobody knows whether the platform has it.
    pub(crate) unresolved: Option<ActionKey>,
    echoes: HashMap<ActionKey, Option<PlatformMessageId>>,
    pub(crate) not_before: Timestamp,
    pace: Option<RateLimit>,
    bucket: TokenBucket,
    pub(crate) position: PositionKeeper,
}

impl PlatformQueue {
    pub(crate) fn new(pace: Pace, position: Option<EnvelopeId>, unresolved: Option<ActionKey>) -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            current: None,
            in_flight: None,
            is_connected: false,
            is_caught_up: false,
            unresolved,
            echoes: HashMap::new(),
            not_before: Timestamp(0),
            pace: (!pace.interval.is_zero()).then(|| RateLimit::every(pace.interval, pace.burst)),
            bucket: TokenBucket::default(),
            position: PositionKeeper { position, changed_at: None },
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }

    /// Adds something, or counts it as left out.
    pub(crate) fn push(&mut self, item: OutItem, max: usize, max_bytes: usize) {
        if self.queue.len() < max && self.bytes.saturating_add(item.bytes) <= max_bytes {
            self.bytes += item.bytes;
            self.queue.push_back(item);
            return;
        }
        match self.queue.back_mut() {
            Some(OutItem { work: OutWork::LeftOut { count }, through, id, .. }) => {
                *count += 1;
                *through = item.through.or(through.take());
                *id = item.id;
            }
            _ => self.queue.push_back(OutItem { work: OutWork::LeftOut { count: 1 }, bytes: 0, ..item }),
        }
    }

    /// An envelope of which nothing is shown.
    pub(crate) fn pass(&mut self, envelope: EnvelopeId, now: Timestamp) {
        match (self.queue.back_mut(), &mut self.current) {
            (Some(item), _) => item.through = Some(envelope),
            (None, Some(current)) => current.item.through = Some(envelope),
            (None, None) => self.position.set(envelope, now),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<OutItem> {
        let item = self.queue.pop_front()?;
        self.bytes -= item.bytes;
        Some(item)
    }

    pub(crate) fn saw_echo(&mut self, key: ActionKey, id: Option<PlatformMessageId>) {
        if self.echoes.len() >= MAX_ECHOES {
            self.echoes.clear();
        }
        self.echoes.insert(key, id);
    }

    pub(crate) fn take_echo(&mut self, key: &ActionKey) -> Option<Option<PlatformMessageId>> {
        self.echoes.remove(key)
    }

    /// Takes leave to give out one action, or says when there will be one.
    pub(crate) fn take_pace(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        if now < self.not_before {
            return Err(self.not_before);
        }
        let Some(pace) = self.pace else { return Ok(()) };
        let taken = pace.take(&mut self.bucket, 1, Duration::from_millis(now.0));
        taken.map_err(|wait| after(now, wait))
    }

    /// The next moment at which something can be done that cannot be done now.
    pub(crate) fn next_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        let has_work = self.is_connected && self.in_flight.is_none() && self.len() > 0;
        let paced = self.pace.map_or(now, |pace| after(now, pace.wait(&self.bucket, 1, Duration::from_millis(now.0))));
        let work = has_work.then(|| paced.max(self.not_before));
        [work, self.position.due()].into_iter().flatten().min()
    }
}

/// A moment some time after another, rounded up to milliseconds.
pub(crate) fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let millis = u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
    Timestamp(now.0.saturating_add(millis))
}

/// How long a position that moved without anything being shown may stay unwritten.
const POSITION_DELAY_MS: u64 = 5_000;

/// How far the room has been shown.
#[derive(Debug)]
pub(crate) struct PositionKeeper {
    position: Option<EnvelopeId>,
    /// Since when it is not written down.
    changed_at: Option<Timestamp>,
}

impl PositionKeeper {
    pub(crate) fn set(&mut self, envelope: EnvelopeId, now: Timestamp) {
        self.position = Some(envelope);
        self.changed_at.get_or_insert(now);
    }

    fn due(&self) -> Option<Timestamp> {
        self.changed_at.map(|since| Timestamp(since.0.saturating_add(POSITION_DELAY_MS)))
    }

    /// The position, where it is time to write it down; `at_once` does not wait.
    pub(crate) fn take_changed(&mut self, now: Timestamp, at_once: bool) -> Option<EnvelopeId> {
        let is_due = self.due().is_some_and(|due| at_once || due <= now);
        if !is_due {
            return None;
        }
        self.changed_at = None;
        self.position.clone()
    }
}
