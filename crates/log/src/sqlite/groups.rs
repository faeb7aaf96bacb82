//! Which of the waiting requests are committed together.
//!
//! Everybody in a group waits until all of it is flushed, so a group is bounded in bytes, and so is what one topic has in it. A message that is longer
//! than a topic's share lets the short ones of other topics go first: they wait for the long commit that is under way, and not for those that
//! wait with them. Within a topic nothing changes places.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use salon_control::ControlNotice;
use salon_protocol::{Envelope, Stamp, TopicName};
use tokio::sync::oneshot;

use super::import::SqliteImport;
use super::writer::{SqliteWrite, WriterRequest};
use crate::AppendError;
use crate::append_future::OutcomeSender;
use crate::context::WriteError;

/// The most one commit takes. More would only make those at its beginning wait.
const GROUP_ENTRIES: usize = 1024;
const GROUP_BYTES: usize = 1 << 20;

/// The most bytes of one topic in a commit, unless a single message has more: where it is the only one, and where others wait.
const GROUP_BYTES_OF_TOPIC: usize = 256 << 10;
const SHARED_BYTES_OF_TOPIC: usize = 64 << 10;

/// How many groups of others a long message lets pass.
const MAX_PASSED_GROUPS: usize = 4;

/// The most that is delivered by the thread that has stored it. Under load groups are larger, and the rooms' tasks deliver beside the next commit.
const MAX_INLINE_ENTRIES: usize = 32;
const MAX_INLINE_TOPICS: usize = 4;
const MAX_INLINE_BYTES: usize = 16 << 10;

/// What is committed together.
#[derive(Default)]
pub(super) struct WriteBatch {
    pub(super) envelopes: Vec<(TopicName, Envelope, Option<Stamp>)>,
    pub(super) replies: Vec<OutcomeSender>,
    pub(super) writings: Vec<SqliteWrite>,
    /// Stored after the rest. It is the last of its group.
    pub(super) import: Option<SqliteImport>,
    /// It is little, and nothing else waited when it was taken: there is time to deliver it before the next group.
    pub(super) has_time: bool,
    /// It is so much that others may have come before it is stored.
    pub(super) is_long: bool,
}

impl WriteBatch {
    fn len(&self) -> usize {
        self.replies.len() + self.writings.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0 && self.import.is_none()
    }

    /// Whether it has few enough messages, of few enough topics, to be delivered by the thread that stores it.
    fn fits_inline_delivery(&self) -> bool {
        let mut topics: Vec<&TopicName> = Vec::with_capacity(MAX_INLINE_TOPICS);
        self.len() <= MAX_INLINE_ENTRIES
            && self.envelopes.iter().all(|(topic, ..)| {
                let is_known = topics.contains(&topic);
                let is_admitted = is_known || topics.len() < MAX_INLINE_TOPICS;
                if !is_known && is_admitted {
                    topics.push(topic);
                }
                is_admitted
            })
    }

    fn push(&mut self, request: WriterRequest) {
        match request {
            WriterRequest::Append(append) => {
                self.envelopes.push((append.topic, append.envelope, append.stamp));
                self.replies.push(append.reply);
            }
            WriterRequest::Write(writing) => self.writings.push(writing),
            WriterRequest::Import(import) => self.import = Some(import),
            WriterRequest::Trim(_) => {}
        }
    }
}

/// Why a batch was not stored.
pub(super) enum NotStored {
    Stopped(Arc<str>),
    ReadOnly(Arc<str>),
}

impl NotStored {
    pub(super) fn append_error(&self) -> AppendError {
        match self {
            Self::Stopped(reason) => AppendError::Stopped(reason.clone()),
            Self::ReadOnly(reason) => AppendError::ReadOnly(reason.clone()),
        }
    }

    pub(super) fn write_error(&self) -> WriteError {
        match self {
            Self::Stopped(reason) => WriteError::Stopped(reason.clone()),
            Self::ReadOnly(reason) => WriteError::ReadOnly(reason.clone()),
        }
    }
}

impl WriterRequest {
    /// Whether it is the last of its group: what follows a deletion is of another topic, though it may have the same name.
    fn ends_group(&self) -> bool {
        match self {
            Self::Append(append) => ControlNotice::deletes_topic(&append.envelope),
            Self::Import(_) => true,
            Self::Write(_) | Self::Trim(_) => false,
        }
    }

    /// The topic it is about and how many bytes it has; `None` for one about all topics.
    fn weight(&self) -> Option<(&TopicName, usize)> {
        match self {
            Self::Append(append) => Some((&append.topic, append.envelope.text().len())),
            Self::Write(writing) => {
                let bytes = writing.write.value.as_ref().map_or(0, |value| value.len());
                Some((&writing.address.topic, bytes))
            }
            Self::Import(import) => Some((&import.topic, import.bytes())),
            Self::Trim(_) => None,
        }
    }
}

/// The requests that wait, in the order they came.
#[derive(Default)]
pub(super) struct WaitingRequests {
    pub(super) requests: VecDeque<WriterRequest>,
    /// How many groups in a row a long message has let pass.
    passed: usize,
}

/// How many bytes a group has of each topic.
struct TopicShares {
    /// `None` where everything fits, so that nothing has to be looked up.
    bytes: Option<HashMap<TopicName, usize>>,
    /// The most bytes of one topic.
    share: usize,
    /// Whether a message that is longer than that has to wait.
    are_long_held_back: bool,
    has_held_back_long: bool,
    /// Whether a message that is longer than that did not fit into the group.
    has_unfit_long: bool,
}

impl TopicShares {
    /// Whether a request may be in the group; `is_fitting`: the group has that many bytes left. Where one may not, no later one of its topic may.
    fn admit(&mut self, topic: &TopicName, bytes: usize, is_fitting: bool) -> bool {
        let Some(shares) = &mut self.bytes else { return is_fitting };
        let share = shares.entry(topic.clone()).or_default();
        let is_held_back = bytes > self.share && self.are_long_held_back;
        self.has_held_back_long |= is_held_back && *share == 0;
        let is_admitted = is_fitting && !is_held_back && (*share == 0 || share.saturating_add(bytes) <= self.share);
        self.has_unfit_long |= !is_fitting && !is_held_back && bytes > self.share;
        *share = if is_admitted { (*share).saturating_add(bytes.max(1)) } else { usize::MAX };
        is_admitted
    }
}

impl WaitingRequests {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Takes the next group. A trim ends it, because it is about what was appended before.
    pub(super) fn next_group(&mut self, trims: &mut Vec<oneshot::Sender<()>>) -> WriteBatch {
        let mut shares = self.shares();
        let mut group = self.take_group(&mut shares, trims);
        if group.is_empty() && shares.has_held_back_long {
            // Only long ones wait.
            (shares.are_long_held_back, shares.has_held_back_long, shares.bytes) = (false, false, Some(HashMap::new()));
            group = self.take_group(&mut shares, trims);
        }
        self.passed = match shares.has_held_back_long {
            true => self.passed + 1,
            // It is still the turn of a long one.
            false if shares.has_unfit_long && !group.is_long => MAX_PASSED_GROUPS,
            // Others that are as long have let as many pass: groups with a long message and without one take turns.
            false if group.is_long && self.has_long() => MAX_PASSED_GROUPS - 1,
            false => 0,
        };
        group
    }

    fn take_group(&mut self, shares: &mut TopicShares, trims: &mut Vec<oneshot::Sender<()>>) -> WriteBatch {
        let (mut group, mut bytes) = (WriteBatch::default(), 0);
        let mut held_back = VecDeque::new();
        while group.len() < GROUP_ENTRIES
            && bytes < GROUP_BYTES
            && held_back.len() < GROUP_ENTRIES
            && let Some(request) = self.requests.pop_front()
        {
            let Some((topic, size)) = request.weight() else {
                match request {
                    WriterRequest::Trim(reply) if held_back.is_empty() => trims.push(reply),
                    later => held_back.push_back(later),
                }
                break;
            };
            let is_fitting = bytes == 0 || bytes.saturating_add(size) <= GROUP_BYTES;
            if shares.admit(topic, size, is_fitting) {
                bytes += size;
                let ends = request.ends_group();
                group.push(request);
                if ends {
                    break;
                }
            } else {
                held_back.push_back(request);
            }
        }
        for request in held_back.into_iter().rev() {
            self.requests.push_front(request);
        }
        group.has_time = self.requests.is_empty() && bytes <= MAX_INLINE_BYTES && group.fits_inline_delivery();
        group.is_long = bytes > SHARED_BYTES_OF_TOPIC;
        group
    }

    /// Which share of the next group each topic has.
    fn shares(&self) -> TopicShares {
        let next = || self.requests.iter().take(GROUP_ENTRIES).filter_map(WriterRequest::weight);
        let bytes: usize = next().map(|(_, size)| size).sum();
        let first = next().next().map(|(topic, _)| topic);
        let is_shared = bytes > SHARED_BYTES_OF_TOPIC && next().any(|(topic, _)| Some(topic) != first);
        let share = if is_shared { SHARED_BYTES_OF_TOPIC } else { GROUP_BYTES_OF_TOPIC };
        TopicShares {
            bytes: (bytes > share).then(HashMap::new),
            share,
            are_long_held_back: is_shared && self.passed < MAX_PASSED_GROUPS,
            has_held_back_long: false,
            has_unfit_long: false,
        }
    }

    /// Whether something short waits.
    pub(super) fn has_short(&self) -> bool {
        self.sizes().any(|size| size <= SHARED_BYTES_OF_TOPIC)
    }

    /// Whether something long waits.
    fn has_long(&self) -> bool {
        self.sizes().any(|size| size > SHARED_BYTES_OF_TOPIC)
    }

    fn sizes(&self) -> impl Iterator<Item = usize> {
        self.requests.iter().take(GROUP_ENTRIES).filter_map(WriterRequest::weight).map(|(_, size)| size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer::SqliteAppend;
    use super::*;
    use crate::AppendFuture;
    use crate::contract::{line, topic};
    use crate::transfer::TopicImport;

    fn append(name: &str, id: &str, length: usize) -> WriterRequest {
        let envelope = line(id, "alice", &"x".repeat(length));
        let reply = AppendFuture::channel().0;
        WriterRequest::Append(SqliteAppend { topic: topic(name), envelope, stamp: None, reply })
    }

    fn group(waiting: &mut WaitingRequests, trims: &mut Vec<oneshot::Sender<()>>) -> Vec<String> {
        let group = waiting.next_group(trims);
        group.envelopes.iter().map(|(_, envelope, _)| envelope.id().to_string()).collect()
    }

    #[test]
    fn large_messages_of_one_topic_do_not_hold_up_others() {
        let (large, mut trims) = (SHARED_BYTES_OF_TOPIC / 2, Vec::new());
        let requests = [("a", "a1", large), ("a", "a2", large), ("a", "a3", large), ("a", "a4", 1), ("b", "b1", 1)];
        let mut waiting = WaitingRequests::default();
        waiting.requests.extend(requests.map(|(name, id, length)| append(name, id, length)));
        assert_eq!(group(&mut waiting, &mut trims), ["a1", "b1"], "what the texts add makes it more than the share");
        waiting.requests.push_back(append("b", "b2", 1));
        assert_eq!(group(&mut waiting, &mut trims), ["a2", "b2"], "nothing of a topic passes what is held back of it");
        assert_eq!(group(&mut waiting, &mut trims), ["a3", "a4"]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_message_larger_than_a_share_is_stored() {
        let mut waiting = WaitingRequests::default();
        waiting.requests.extend([append("a", "a1", 2 * GROUP_BYTES_OF_TOPIC), append("a", "a2", 1)]);
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a1"]);
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a2"]);
    }

    #[test]
    fn a_long_message_lets_short_ones_of_others_pass_but_not_for_ever() {
        let mut waiting = WaitingRequests::default();
        waiting.requests.extend([append("a", "a1", 8 * SHARED_BYTES_OF_TOPIC), append("a", "a2", 1)]);
        for number in 0..MAX_PASSED_GROUPS {
            let short = format!("b{number}");
            waiting.requests.push_back(append("b", &short, 1));
            assert_eq!(group(&mut waiting, &mut Vec::new()), [short]);
        }
        waiting.requests.push_back(append("b", "b9", 1));
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a1", "b9"]);
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a2"]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn long_messages_of_several_topics_are_stored() {
        let mut waiting = WaitingRequests::default();
        let large = 8 * SHARED_BYTES_OF_TOPIC;
        waiting.requests.extend([append("a", "a1", large), append("b", "b1", large), append("a", "a2", large)]);
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a1"], "together they would be more than a group may have");
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["b1"]);
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a2"]);
    }

    #[test]
    fn several_long_messages_take_turns_with_short_ones() {
        let (mut waiting, long) = (WaitingRequests::default(), GROUP_BYTES - 1000);
        waiting.requests.extend([append("a", "a1", long), append("b", "b1", long), append("c", "c1", long)]);
        let mut order = Vec::new();
        for number in 0..9 {
            waiting.requests.push_back(append("d", &format!("d{number}"), 1));
            order.push(group(&mut waiting, &mut Vec::new()).join(" "));
        }
        assert_eq!(order, ["d0", "d1", "d2", "d3", "a1 d4", "d5", "b1 d6", "d7", "c1 d8"]);
    }

    #[test]
    fn short_messages_behind_a_long_one_that_does_not_fit_are_in_the_group() {
        let mut waiting = WaitingRequests { passed: MAX_PASSED_GROUPS, ..WaitingRequests::default() };
        let half = GROUP_BYTES / 2;
        waiting.requests.extend([append("a", "a1", half), append("b", "b1", half), append("c", "c1", 1)]);
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a1", "c1"]);
    }

    #[test]
    fn a_long_message_behind_a_short_one_has_its_turn() {
        let mut waiting = WaitingRequests { passed: MAX_PASSED_GROUPS, ..WaitingRequests::default() };
        waiting.requests.extend([append("a", "a1", 1), append("b", "b1", GROUP_BYTES), append("c", "c1", 1)]);
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a1", "c1"]);
        waiting.requests.push_back(append("c", "c2", 1));
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["b1"], "its turn has not passed");
    }

    #[test]
    fn an_import_that_ends_a_group_of_its_own_is_kept() {
        let mut waiting = WaitingRequests::default();
        let (reply, _outcome) = oneshot::channel();
        let import = SqliteImport { topic: topic("b"), import: TopicImport::Entries(Vec::new()), reply };
        waiting.requests.push_back(append("a", "a1", 8 * SHARED_BYTES_OF_TOPIC));
        waiting.requests.push_back(WriterRequest::Import(import));
        assert!(waiting.next_group(&mut Vec::new()).import.is_some());
        assert_eq!(group(&mut waiting, &mut Vec::new()), ["a1"]);
    }

    #[test]
    fn what_one_thread_stores_and_delivers_is_of_few_topics() {
        let has_time = |names: &[&str]| {
            let mut waiting = WaitingRequests::default();
            waiting.requests.extend(names.iter().enumerate().map(|(at, name)| append(name, &format!("e{at}"), 1)));
            waiting.next_group(&mut Vec::new()).has_time
        };
        assert!(has_time(&["a", "b", "a", "c", "d", "a"]));
        assert!(!has_time(&["a", "b", "c", "d", "e"]));
        assert!(has_time(&["a"; MAX_INLINE_ENTRIES]));
        assert!(!has_time(&["a"; MAX_INLINE_ENTRIES + 1]));
        let mut waiting = WaitingRequests::default();
        waiting.requests.push_back(append("a", "a1", MAX_INLINE_BYTES));
        assert!(!waiting.next_group(&mut Vec::new()).has_time);
    }

    #[test]
    fn a_trim_waits_for_everything_before_it() {
        let (large, mut trims) = (GROUP_BYTES_OF_TOPIC / 2, Vec::new());
        let mut waiting = WaitingRequests::default();
        waiting.requests.extend([append("a", "a1", large), append("a", "a2", large)]);
        waiting.requests.push_back(WriterRequest::Trim(oneshot::channel().0));
        waiting.requests.push_back(append("b", "b1", 1));
        assert_eq!(group(&mut waiting, &mut trims), ["a1"]);
        assert!(trims.is_empty());
        assert_eq!(group(&mut waiting, &mut trims), ["a2"]);
        assert_eq!(trims.len(), 1);
        assert_eq!(group(&mut waiting, &mut trims), ["b1"]);
    }
}
