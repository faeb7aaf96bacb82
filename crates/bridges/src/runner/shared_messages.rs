//! What else processes share of a channel: its newest messages, so that the process that takes over can reply to them and edit them, and the calls that
//! wait for a decision.
//!
//! Invariant: bounded. Messages are in segments of about the same size, and the newest segment takes the place of the oldest.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use super::shared::SharedState;
use crate::core::{MappedMessage, StoreChange};
use crate::room::HeldNotice;

/// How many segments there are: more than 1,000 messages of the usual size.
const SEGMENTS: u64 = 64;
/// From which size on a segment is full. It is written as a whole with each of its messages.
const SEGMENT_BYTES: usize = 4 << 10;
/// A message that takes more is not shared: an id or the line of a call can be long.
const MAX_MESSAGE_BYTES: usize = 2 << 10;
/// The most bytes of the calls that wait. The newest are shared.
const MAX_HELD_BYTES: usize = 32 << 10;
/// A call that takes more is not shared: its arguments can be long.
const MAX_HELD_NOTICE_BYTES: usize = 8 << 10;
/// Values that are read at once.
const CONCURRENT_READS: usize = 8;

/// Messages that were mapped one after the other.
#[derive(Debug, Serialize, Deserialize)]
struct MessageSegment {
    number: u64,
    messages: Vec<MappedMessage>,
}

impl MessageSegment {
    fn bytes(&self) -> usize {
        self.messages.iter().map(encoded_bytes).sum()
    }
}

/// The newest messages of a channel and the calls that wait, as they are shared.
pub(super) struct SharedMessages {
    state: Arc<dyn SharedState>,
    name: String,
    /// The oldest first.
    segments: VecDeque<MessageSegment>,
    /// Numbers of segments that are not written yet.
    unwritten: BTreeSet<u64>,
    held: Vec<HeldNotice>,
    is_held_unwritten: bool,
}

impl SharedMessages {
    pub(super) async fn load(state: Arc<dyn SharedState>, name: &str) -> Result<Self, String> {
        let slots = (0..SEGMENTS).map(|slot| {
            let (state, name) = (state.clone(), slot_name(name, slot));
            async move { state.read(&name).await }
        });
        let read: Vec<_> = futures_util::stream::iter(slots).buffered(CONCURRENT_READS).try_collect().await?;
        let segments = read.into_iter().flatten().filter_map(|bytes| serde_json::from_slice(&bytes).ok());
        let mut segments: Vec<MessageSegment> = segments.collect();
        segments.sort_unstable_by_key(|segment| segment.number);
        let held = state.read(&held_name(name)).await?;
        let held = held.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Ok(Self {
            state,
            name: name.to_owned(),
            segments: segments.into(),
            unwritten: BTreeSet::new(),
            held,
            is_held_unwritten: false,
        })
    }

    /// The oldest first.
    pub(super) fn messages(&self) -> impl Iterator<Item = &MappedMessage> {
        self.segments.iter().flat_map(|segment| &segment.messages)
    }

    pub(super) fn held(&self) -> &[HeldNotice] {
        &self.held
    }

    /// Notes changes of the store.
    pub(super) fn apply(&mut self, changes: &[StoreChange]) {
        for change in changes {
            match change {
                StoreChange::Map(mapped) => self.put(mapped),
                StoreChange::HeldAdd(notice) => self.hold(notice.clone()),
                StoreChange::HeldRemove(id) => {
                    self.held.retain(|one| one.id != *id);
                    self.is_held_unwritten = true;
                }
                _ => {}
            }
        }
    }

    fn put(&mut self, mapped: &MappedMessage) {
        if encoded_bytes(mapped) > MAX_MESSAGE_BYTES {
            return;
        }
        // A message that changes is most likely a new one.
        for segment in self.segments.iter_mut().rev() {
            if let Some(known) = segment.messages.iter_mut().find(|known| known.envelope == mapped.envelope) {
                known.clone_from(mapped);
                self.unwritten.insert(segment.number);
                return;
            }
        }
        let next = self.segments.back().map_or(0, |newest| newest.number + 1);
        match self.segments.back_mut().filter(|newest| newest.bytes() < SEGMENT_BYTES) {
            Some(newest) => {
                newest.messages.push(mapped.clone());
                self.unwritten.insert(newest.number);
            }
            None => {
                self.segments.push_back(MessageSegment { number: next, messages: vec![mapped.clone()] });
                self.unwritten.insert(next);
            }
        }
        if self.segments.len() as u64 > SEGMENTS
            && let Some(oldest) = self.segments.pop_front()
        {
            self.unwritten.remove(&oldest.number);
        }
    }

    fn hold(&mut self, notice: HeldNotice) {
        if !is_shared(&notice) {
            return;
        }
        self.held.retain(|one| one.id != notice.id);
        self.held.push(notice);
        while encoded(&self.held).len() > MAX_HELD_BYTES {
            self.held.remove(0);
        }
        self.is_held_unwritten = true;
    }

    /// Writes what has changed. What could not be written is written with the next change.
    pub(super) async fn write(&mut self) -> Result<(), String> {
        if self.is_held_unwritten {
            self.state.keep(&held_name(&self.name), encoded(&self.held)).await?;
            self.is_held_unwritten = false;
        }
        while let Some(number) = self.unwritten.first().copied() {
            if let Some(segment) = self.segments.iter().find(|segment| segment.number == number) {
                self.state.keep(&slot_name(&self.name, number % SEGMENTS), encoded(segment)).await?;
            }
            self.unwritten.remove(&number);
        }
        Ok(())
    }
}

/// Whether a call that waits is among what processes share.
pub(super) fn is_shared(notice: &HeldNotice) -> bool {
    encoded(notice).len() <= MAX_HELD_NOTICE_BYTES
}

fn slot_name(name: &str, slot: u64) -> String {
    format!("{name}:messages:{slot}")
}

fn held_name(name: &str) -> String {
    format!("{name}:held")
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}

fn encoded_bytes(message: &MappedMessage) -> usize {
    encoded(message).len()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use salon_protocol::{EnvelopeId, ParticipantId, Timestamp};

    use super::*;
    use crate::core::MessageOrigin;
    use crate::platform::PlatformMessageId;
    use crate::room::RoomCall;

    #[derive(Default)]
    struct RecordedState {
        values: Mutex<HashMap<String, Vec<u8>>>,
        is_away: Mutex<bool>,
    }

    impl SharedState for RecordedState {
        fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
            async move { Ok(self.values.lock().get(name).cloned()) }.boxed()
        }

        fn keep<'a>(&'a self, name: &'a str, value: Vec<u8>) -> BoxFuture<'a, Result<(), String>> {
            async move {
                if *self.is_away.lock() {
                    return Err("away".into());
                }
                self.values.lock().insert(name.to_owned(), value);
                Ok(())
            }
            .boxed()
        }
    }

    fn mapped(number: usize, part: &str) -> MappedMessage {
        MappedMessage {
            envelope: EnvelopeId::new(format!("0198b6c2-7d4e-7000-8000-{number:012}")).expect("an id"),
            origin: MessageOrigin::Room,
            author: ParticipantId::new("agent:bob").expect("a name"),
            parts: vec![Some(PlatformMessageId::new(part))],
            call_line: None,
            at: Timestamp(1_700_000_000_000),
        }
    }

    async fn load(state: &Arc<RecordedState>) -> SharedMessages {
        SharedMessages::load(state.clone(), "channel:#lab").await.expect("read")
    }

    async fn share(messages: &mut SharedMessages, mapped: MappedMessage) {
        messages.apply(&[StoreChange::Map(mapped)]);
        messages.write().await.expect("written");
    }

    #[tokio::test]
    async fn the_newest_messages_are_read_again_in_their_order_and_within_bounds() {
        let state = Arc::new(RecordedState::default());
        let mut messages = load(&state).await;
        for number in 0..3_000 {
            share(&mut messages, mapped(number, "$event-id-of-a-usual-length-43-characters-xx")).await;
        }
        let again = load(&state).await;
        let numbers: Vec<_> = again.messages().map(|message| message.envelope.clone()).collect();
        assert!(numbers.len() >= 1_000, "{}", numbers.len());
        let newest: Vec<_> = (3_000 - numbers.len()..3_000).map(|number| mapped(number, "").envelope).collect();
        assert_eq!(numbers, newest);
        let values = state.values.lock();
        assert_eq!(values.len() as u64, SEGMENTS);
        assert!(values.values().all(|value| value.len() < SEGMENT_BYTES + MAX_MESSAGE_BYTES));
    }

    #[tokio::test]
    async fn a_message_that_changes_stays_where_it_is_and_a_huge_one_is_left_out() {
        let state = Arc::new(RecordedState::default());
        let mut messages = load(&state).await;
        for number in 0..100 {
            share(&mut messages, mapped(number, "first")).await;
        }
        // Written by the next process, too.
        let mut messages = load(&state).await;
        share(&mut messages, mapped(3, "second")).await;
        share(&mut messages, mapped(100, &"x".repeat(MAX_MESSAGE_BYTES))).await;
        let again = load(&state).await;
        let parts: Vec<_> = again.messages().map(|message| message.parts[0].clone().expect("a part").0).collect();
        assert_eq!(parts.len(), 100);
        assert_eq!((parts[3].as_str(), parts[4].as_str()), ("second", "first"));
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_written_later() {
        let state = Arc::new(RecordedState::default());
        let mut messages = load(&state).await;
        *state.is_away.lock() = true;
        messages.apply(&[StoreChange::Map(mapped(0, "p"))]);
        assert!(messages.write().await.is_err());
        *state.is_away.lock() = false;
        share(&mut messages, mapped(1, "p")).await;
        assert_eq!(load(&state).await.messages().count(), 2);
    }

    #[tokio::test]
    async fn calls_that_wait_are_shared_within_bounds() {
        let state = Arc::new(RecordedState::default());
        let mut messages = load(&state).await;
        let name = |text: &str| ParticipantId::new(text).expect("a name");
        let held = |id: &str, arguments: String| {
            let call = RoomCall { caller: name("a"), callee: name("b"), tool: "t".into(), arguments };
            StoreChange::HeldAdd(HeldNotice {
                id: EnvelopeId::new(id).expect("an id"),
                digest: "sha256:00".into(),
                call,
            })
        };
        messages.apply(&[held("h1", "x".repeat(MAX_HELD_BYTES)), held("h2", "{}".into()), held("h3", "{}".into())]);
        messages.apply(&[StoreChange::HeldRemove(EnvelopeId::new("h2").expect("an id"))]);
        messages.write().await.expect("written");
        let again = load(&state).await;
        assert_eq!(again.held().iter().map(|notice| notice.id.as_str()).collect::<Vec<_>>(), ["h3"]);
    }
}
