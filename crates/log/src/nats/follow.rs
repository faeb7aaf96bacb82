//! Following a stream from a sequence on: a consumer of the server's that lives in its memory and is made again when anything is odd.
//!
//! Invariant: nothing is lost on its way here, or following ends. Messages count by consumer, so one that is lost shows at the next
//! message, and at the next heartbeat when there is none. What is removed before its turn is not counted: it shows only by the sequences
//! of what is yielded, anywhere among it, and a reader that must know looks at them.

use std::sync::Arc;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, push};
use async_nats::{HeaderMap, Message, StatusCode, Subscriber};
use futures_util::{FutureExt, StreamExt};
use tokio::sync::watch;

use super::fault::NatsFault;
use super::link::{Connection, NatsLink, Stored};

/// How much is yielded at once.
const MAX_AT_ONCE: usize = 512;
const MAX_BYTES: usize = 1 << 20;

/// What to follow.
pub(super) struct Course<'a> {
    pub(super) stream: &'a str,
    pub(super) from: DeliverPolicy,
    /// Only these subjects.
    pub(super) filter: Option<String>,
    /// Without payloads.
    pub(super) headers_only: bool,
}

pub(super) struct Follow {
    link: Arc<NatsLink>,
    messages: Subscriber,
    /// How many messages this consumer has brought.
    count: u64,
    /// How many there still are to bring of those that were there at the beginning.
    waiting: u64,
    connection: watch::Receiver<Connection>,
    /// Which connection it was made on.
    made_on: u64,
}

impl Follow {
    pub(super) async fn begin(link: &Arc<NatsLink>, course: Course<'_>) -> Result<Self, NatsFault> {
        let connection = link.connection.subscribe();
        let made_on = connection.borrow().count;
        let inbox = link.inbox();
        let messages = link.subscribe(inbox.clone()).await?;
        let config = push::Config {
            deliver_subject: inbox,
            deliver_policy: course.from,
            ack_policy: AckPolicy::None,
            filter_subject: course.filter.unwrap_or_default(),
            headers_only: course.headers_only,
            flow_control: true,
            idle_heartbeat: link.timings.idle_heartbeat,
            memory_storage: true,
            num_replicas: 1,
            max_deliver: 1,
            ..push::Config::default()
        };
        let waiting = link.consume(course.stream, config).await?;
        Ok(Self { link: link.clone(), messages, count: 0, waiting, connection, made_on })
    }

    /// How many messages are still to be yielded of those that were there at the beginning.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Whether all of them have been yielded.
    pub(super) fn has_caught_up(&self) -> bool {
        self.waiting == 0
    }

    /// What comes next; nothing only where that is how it has caught up. `None` when following must start over, after what was yielded
    /// last.
    pub(super) async fn next(&mut self) -> Option<Vec<Stored>> {
        loop {
            let reconnected = self.connection.wait_for(|now| now.count != self.made_on);
            let message = tokio::select! { biased;
                _ = reconnected => return None,
                message = tokio::time::timeout(self.link.timings.consumer_silence(), self.messages.next()) => message.ok()??,
            };
            let mut found = Vec::new();
            let (mut bytes, mut caught_up) = (0, false);
            let mut next = Some(message);
            while let Some(message) = next.take() {
                match message.status {
                    Some(StatusCode::IDLE_HEARTBEAT) => {
                        let is_idle = self.tend(&message).await.ok()?;
                        // What was counted and did not come was removed before its turn.
                        caught_up |= is_idle && std::mem::take(&mut self.waiting) > 0;
                    }
                    Some(_) => return None,
                    None => {
                        let stored = self.read(message)?;
                        bytes += stored.payload.len();
                        found.push(stored);
                    }
                }
                if found.len() < MAX_AT_ONCE && bytes < MAX_BYTES {
                    next = self.messages.next().now_or_never().flatten();
                }
            }
            if caught_up || !found.is_empty() {
                return Some(found);
            }
        }
    }

    fn read(&mut self, message: Message) -> Option<Stored> {
        let (count, stored) = self.link.brought(message)?;
        if count != self.count + 1 {
            return None;
        }
        self.count = count;
        self.waiting = self.waiting.saturating_sub(1);
        Some(stored)
    }

    /// Answers what the server wants answered, and compares what it has sent with what came. Says whether it has no more to send.
    async fn tend(&self, message: &Message) -> Result<bool, ()> {
        let header =
            |name: &str| message.headers.as_ref().and_then(|headers| headers.get(name)).map(ToString::to_string);
        let stalled = header("Nats-Consumer-Stalled");
        let is_idle = stalled.is_none() && message.reply.is_none();
        if let Some(reply) = message.reply.as_ref().map(ToString::to_string).or(stalled) {
            self.link.say(reply, bytes::Bytes::new()).await.map_err(drop)?;
        }
        match header("Nats-Last-Consumer").and_then(|count| count.parse::<u64>().ok()) {
            Some(count) if count != self.count => Err(()),
            count => Ok(is_idle && count.is_some()),
        }
    }
}

/// A header that expects a subject's newest message to be this one.
pub(super) fn expecting(sequence: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, sequence.to_string());
    headers
}
