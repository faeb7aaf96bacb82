//! What a node knows of every topic of a shard without following it: how many entries there are and of how many bytes, when the oldest and the
//! newest arrived, how much is removed, and where some of the entries are. A pure fold over the shard's messages and marks.
//!
//! The entries of a topic stand among those of others, so their sequences have holes and cannot be counted back from. Instead the place of the
//! first entry of every block is remembered, and paging back reads from the beginning of a block.

use std::collections::{BTreeSet, HashMap, VecDeque};

use salon_protocol::{Timestamp, TopicName};
use serde::{Deserialize, Serialize};

use super::link::Stored;
use super::mark::TopicMark;
use super::names::{MARK, is_entry_token};
use super::stored::message_bytes;
use super::topic_facts::{FACTS_VERSION, TopicFacts};
use super::{TOPIC, import, redact};

/// How long a block is at most, but for its last entry.
const BLOCK_ENTRIES: u64 = 32;
const BLOCK_BYTES: u64 = 128 * 1024;

/// Where some entries of a topic begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexBlock {
    /// The sequence of its first entry.
    #[serde(rename = "s")]
    pub(super) sequence: u64,
    /// How many entries the topic had before it, and how many bytes.
    #[serde(rename = "c")]
    pub(super) count: u64,
    #[serde(rename = "b")]
    pub(super) bytes: u64,
    /// When its first entry arrived.
    #[serde(rename = "t")]
    pub(super) time: u64,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TopicIndex {
    pub(super) name: TopicName,
    /// How many entries it has had since it began, those that are removed included, and how many bytes.
    pub(super) count: u64,
    bytes: u64,
    /// The sequence of its newest message that is not a mark.
    pub(super) head: u64,
    /// When its newest entry arrived.
    newest: u64,
    /// What is removed. Before anything is, `through` is the sequence before its first message.
    pub(super) removed: TopicMark,
    blocks: VecDeque<IndexBlock>,
    /// The sequences of redacted entries that are kept: records have their tombstones.
    #[serde(default)]
    holes: BTreeSet<u64>,
    /// What its fold may say. Earlier versions did not keep it.
    #[serde(default = "TopicFacts::incomplete", rename = "f")]
    pub(super) facts: TopicFacts,
    /// How often something was removed or redacted, as far as this process has seen.
    #[serde(skip)]
    pub(super) changes: u64,
}

impl TopicIndex {
    fn new(name: TopicName, before: u64) -> Self {
        Self {
            name,
            count: 0,
            bytes: 0,
            head: before,
            newest: 0,
            removed: TopicMark { through: before, ..TopicMark::default() },
            blocks: VecDeque::new(),
            holes: BTreeSet::new(),
            facts: TopicFacts::default(),
            changes: 0,
        }
    }

    /// How many entries are kept.
    pub(super) fn entries(&self) -> u64 {
        self.count.saturating_sub(self.removed.count)
    }

    /// How many bytes they have.
    pub(super) fn stored(&self) -> u64 {
        if self.entries() == 0 { 0 } else { self.bytes.saturating_sub(self.removed.bytes) }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the newest entry arrived, if any ever did.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        (self.count > 0).then_some(Timestamp(self.newest))
    }

    /// No entry that is kept arrived earlier.
    pub(super) fn oldest(&self) -> Timestamp {
        Timestamp(self.removed.oldest.or(self.blocks.front().map(|block| block.time)).unwrap_or(self.newest))
    }

    /// The block in which an entry is, by its sequence.
    pub(super) fn block_at(&self, sequence: u64) -> Option<IndexBlock> {
        self.last_block(|block| block.sequence <= sequence)
    }

    /// The block in which the last of so many entries is, counted from the first it ever had.
    pub(super) fn block_of_count(&self, count: u64) -> Option<IndexBlock> {
        self.last_block(|block| block.count < count)
    }

    /// The last block that begins before a time.
    pub(super) fn block_before(&self, time: Timestamp) -> Option<IndexBlock> {
        self.last_block(|block| block.time < time.0)
    }

    fn last_block(&self, is_before: impl Fn(&IndexBlock) -> bool) -> Option<IndexBlock> {
        let count = self.blocks.partition_point(is_before);
        count.checked_sub(1).and_then(|last| self.blocks.get(last)).copied()
    }

    /// The first block after one.
    pub(super) fn block_after(&self, block: IndexBlock) -> Option<IndexBlock> {
        self.blocks.get(self.blocks.partition_point(|other| other.sequence <= block.sequence)).copied()
    }

    /// The sequence of the first entry of a block such that so many entries, or so many bytes, stand between it and a sequence, or of the first
    /// that is kept. `None` where everything up to the sequence is removed.
    pub(super) fn begin_of_page(&self, through: u64, limit: u64, bytes: u64) -> Option<u64> {
        if through <= self.removed.through {
            return None;
        }
        let end = self.blocks.partition_point(|block| block.sequence <= through);
        let Some(last) = end.checked_sub(1).and_then(|last| self.blocks.get(last)) else {
            return Some(self.removed.through + 1);
        };
        let is_enough = |block: &IndexBlock| {
            last.count.saturating_sub(block.count) >= limit || last.bytes.saturating_sub(block.bytes) >= bytes
        };
        // Blocks are ordered, and what is enough is at the beginning.
        let enough = self.blocks.partition_point(is_enough);
        let begin = enough.checked_sub(1).and_then(|block| self.blocks.get(block));
        Some(begin.map_or(self.removed.through + 1, |block| block.sequence))
    }

    /// The redacted entries between two sequences, that after them included.
    pub(super) fn holes(&self, after: u64, through: u64) -> Vec<u64> {
        if after >= through { Vec::new() } else { self.holes.range(after + 1..=through).copied().collect() }
    }

    fn add(&mut self, stored: &Stored) {
        self.head = self.head.max(stored.sequence);
        // A mark may be learned before its turn, and then what it counts may still come by.
        if stored.sequence <= self.removed.through {
            return;
        }
        self.facts.add(stored);
        if let Some((of, _)) = redact::stands_for(stored)
            && of != stored.sequence
        {
            // An entry has two records; the first of them tells.
            if of > self.removed.through && self.holes.insert(of) {
                self.changes += 1;
            }
            return;
        }
        let is_tombstone = redact::stands_for(stored).is_some();
        if !is_tombstone && !stored.subject.rsplit_once('.').is_some_and(|(_, last)| is_entry_token(last)) {
            return;
        }
        let time = import::arrived(stored).0;
        let is_full = self.blocks.back().is_none_or(|block| {
            self.count >= block.count + BLOCK_ENTRIES || self.bytes >= block.bytes.saturating_add(BLOCK_BYTES)
        });
        if is_full {
            let (count, bytes) = (self.count, self.bytes);
            self.blocks.push_back(IndexBlock { sequence: stored.sequence, count, bytes, time });
        }
        self.count += 1;
        self.bytes += message_bytes(stored);
        self.newest = time;
        if is_tombstone {
            self.holes.insert(stored.sequence);
        }
    }

    /// Takes in what a mark says of removed entries; says whether it says something new.
    fn trim(&mut self, mark: &TopicMark) -> bool {
        let is_known = mark.through == self.removed.through && mark.count == self.removed.count;
        if mark.through < self.removed.through || is_known {
            return false;
        }
        // What is missing may have been anything.
        self.facts.is_incomplete |= mark.through > self.head || mark.count > self.count;
        // Some of them were removed before they came by. Where nothing is known of what is left, that is all there is to count.
        if mark.count > self.count || mark.through >= self.head {
            (self.count, self.bytes) = (mark.count, mark.bytes);
        }
        self.head = self.head.max(mark.through);
        self.removed = TopicMark { is_forgotten: false, ..mark.clone() };
        while self.blocks.get(1).is_some_and(|next| next.sequence <= mark.through) {
            self.blocks.pop_front();
        }
        if let Some(first) = self.blocks.front_mut()
            && first.sequence <= mark.through
        {
            let time = mark.oldest.unwrap_or(first.time);
            *first = IndexBlock { sequence: mark.through + 1, count: mark.count, bytes: mark.bytes, time };
        }
        if self.count == mark.count {
            self.blocks.clear();
            self.bytes = mark.bytes;
        }
        self.holes = self.holes.split_off(&(mark.through + 1));
        self.changes += 1;
        true
    }
}

/// What a message of a shard means for its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexEffect {
    /// It is one of the topic's messages.
    Message,
    /// Everything up to a sequence is removed.
    Trimmed(u64),
    /// The topic is forgotten.
    Forgotten,
}

/// All topics of a shard, by the digests of their names.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardIndex {
    /// Of which version the facts of the topics are. The first nodes that kept facts did not say.
    #[serde(default)]
    facts_version: u32,
    /// Everything up to this sequence has been taken in.
    pub(super) through: u64,
    pub(super) topics: HashMap<String, TopicIndex>,
    /// How many bytes are kept.
    #[serde(skip)]
    bytes: u64,
    /// The sequence of the newest mark that expires. What is kept of this index must have it by then: a node that starts from what was kept would
    /// otherwise count the entries of a topic from another beginning than the nodes that have seen the mark.
    #[serde(skip)]
    pub(super) expiring: u64,
}

impl Default for ShardIndex {
    fn default() -> Self {
        Self { facts_version: FACTS_VERSION, through: 0, topics: HashMap::new(), bytes: 0, expiring: 0 }
    }
}

impl ShardIndex {
    /// Of a shard that has nothing up to a sequence.
    pub(super) fn after(through: u64) -> Self {
        Self { through, ..Self::default() }
    }

    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut index: Self = serde_json::from_slice(payload).ok()?;
        if index.facts_version < FACTS_VERSION {
            index.topics.values_mut().for_each(|topic| topic.facts.is_incomplete = true);
        }
        index.facts_version = FACTS_VERSION;
        index.bytes = index.topics.values().map(TopicIndex::stored).sum();
        Some(index)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain JSON")
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes in a message, in its turn; says for which topic it is and what it means. `None` where it is nobody's.
    pub(super) fn take(&mut self, prefix: &str, stored: &Stored) -> Option<(String, IndexEffect)> {
        self.through = self.through.max(stored.sequence);
        let (first, last) = stored.subject.strip_prefix(prefix)?.split_once('.')?;
        if first == MARK {
            return self.take_mark(last, stored);
        }
        if !self.topics.contains_key(first) {
            let name = stored.headers.get(TOPIC).and_then(|name| TopicName::new(name.as_str()).ok())?;
            self.topics.insert(first.to_owned(), TopicIndex::new(name, stored.sequence - 1));
        }
        let topic = self.topics.get_mut(first).expect("it was just looked for");
        let before = topic.stored();
        topic.add(stored);
        self.bytes = (self.bytes + topic.stored()).saturating_sub(before);
        Some((first.to_owned(), IndexEffect::Message))
    }

    fn take_mark(&mut self, token: &str, stored: &Stored) -> Option<(String, IndexEffect)> {
        let mark = TopicMark::read(&stored.payload)?;
        if mark.is_forgotten {
            self.expiring = stored.sequence;
        }
        let is_over = self.topics.get(token).is_some_and(|topic| topic.head == mark.through);
        if mark.is_forgotten && is_over {
            let topic = self.topics.remove(token)?;
            self.bytes = self.bytes.saturating_sub(topic.stored());
            return Some((token.to_owned(), IndexEffect::Forgotten));
        }
        let effect = self.learn_mark(token, stored)?;
        Some((token.to_owned(), effect))
    }

    /// Takes in what a mark says of removed entries, whether or not it is its turn.
    pub(super) fn learn_mark(&mut self, token: &str, stored: &Stored) -> Option<IndexEffect> {
        let mark = TopicMark::read(&stored.payload)?;
        if !self.topics.contains_key(token) && !mark.is_forgotten {
            let name = stored.headers.get(TOPIC).and_then(|name| TopicName::new(name.as_str()).ok())?;
            self.topics.insert(token.to_owned(), TopicIndex::new(name, 0));
        }
        let topic = self.topics.get_mut(token)?;
        let before = topic.stored();
        let is_new = topic.trim(&mark);
        self.bytes = (self.bytes + topic.stored()).saturating_sub(before);
        is_new.then_some(IndexEffect::Trimmed(mark.through))
    }
}

#[cfg(test)]
mod tests {
    use async_nats::HeaderMap;

    use super::*;

    const PREFIX: &str = "salon.3.";
    const TOKEN: &str = "abcdefghijklmnopqrstuvwx";

    /// A message of a topic called by its token.
    fn message(sequence: u64, topic: &str, last: &str, headers: &[(&'static str, String)], payload: Vec<u8>) -> Stored {
        let mut all = HeaderMap::new();
        all.insert(TOPIC, topic);
        headers.iter().for_each(|(name, value)| all.insert(*name, value.as_str()));
        let (time, subject) = (Timestamp(sequence * 10), format!("{PREFIX}{topic}.{last}"));
        Stored { sequence, time, subject, headers: all, payload: payload.into() }
    }

    fn entry(sequence: u64, topic: &str) -> Stored {
        message(sequence, topic, TOKEN, &[], vec![b'x'; 100])
    }

    fn mark(sequence: u64, topic: &str, mark: &TopicMark) -> Stored {
        let stored = message(sequence, topic, "", &[], mark.write());
        Stored { subject: format!("{PREFIX}{MARK}.{topic}"), ..stored }
    }

    /// An index of two topics whose entries alternate.
    fn index(through: u64) -> ShardIndex {
        let mut index = ShardIndex::after(0);
        for sequence in 1..=through {
            let topic = if sequence % 2 == 1 { "odd" } else { "even" };
            index.take(PREFIX, &entry(sequence, topic));
        }
        index
    }

    #[test]
    fn what_a_node_has_not_seen_may_have_been_anything() {
        let facts = |index: &ShardIndex| index.topics["odd"].facts.is_incomplete;
        // An index of an earlier version has no facts.
        let mut form: serde_json::Value = serde_json::from_slice(&index(9).write()).expect("plain JSON");
        form["topics"]["odd"].as_object_mut().expect("a topic").remove("f");
        assert!(facts(&ShardIndex::read(&serde_json::to_vec(&form).expect("plain JSON")).expect("an index")));
        // Facts of an earlier version mean less, or are missing some.
        for version in [None, Some(FACTS_VERSION - 1), Some(FACTS_VERSION)] {
            let mut form: serde_json::Value = serde_json::from_slice(&index(9).write()).expect("plain JSON");
            let fields = form.as_object_mut().expect("an index");
            match version {
                Some(version) => drop(fields.insert("facts_version".into(), version.into())),
                None => drop(fields.remove("facts_version").expect("a version")),
            }
            let read = ShardIndex::read(&serde_json::to_vec(&form).expect("plain JSON")).expect("an index");
            assert_eq!(facts(&read), version != Some(FACTS_VERSION), "version {version:?}");
            assert!(ShardIndex::read(&read.write()).is_some_and(|again| facts(&again) == facts(&read)));
        }
        let removed = |through, count| TopicMark { through, count, bytes: 100, ..TopicMark::default() };
        for (through, count, is_incomplete) in [(5, 3, false), (9, 5, false), (9, 7, true), (11, 6, true)] {
            let mut index = index(9);
            assert!(!facts(&index));
            index.take(PREFIX, &mark(10, "odd", &removed(through, count)));
            assert_eq!(facts(&index), is_incomplete, "removed through {through}, {count} entries");
        }
        // Of this topic nothing else is left.
        let mut index = ShardIndex::after(0);
        index.take(PREFIX, &mark(10, "odd", &removed(9, 5)));
        assert!(facts(&index));
    }

    #[test]
    fn blocks_tell_where_entries_are() {
        let index = index(1000);
        let odd = &index.topics["odd"];
        assert_eq!((odd.entries(), odd.head, odd.removed.through), (500, 999, 0));
        assert_eq!(odd.newest(), Some(Timestamp(9990)));
        let block = odd.block_of_count(100).expect("a block");
        // The 97th to the 128th.
        assert_eq!((block.count, block.sequence, block.time), (96, 193, 1930));
        assert_eq!(odd.block_at(255), Some(block));
        assert_eq!(odd.block_before(Timestamp(1931)), Some(block));
        assert_eq!(odd.block_before(Timestamp(10)), None);
        assert_eq!(odd.block_after(block).expect("one more").count, 128);
        // Fifty entries before the 500th begin in the block with the 417th at the latest.
        assert_eq!(odd.begin_of_page(999, 50, u64::MAX), Some(833));
        assert_eq!(odd.begin_of_page(10, 50, u64::MAX), Some(1));
        let kept = ShardIndex::read(&index.write()).expect("what was written");
        assert_eq!(kept, index);
    }

    #[test]
    fn what_a_mark_says_is_removed_does_not_count() {
        let mut index = index(1000);
        let (bytes, each) = (index.bytes(), index.topics["odd"].bytes() / 500);
        let through =
            TopicMark { through: 199, count: 100, bytes: 100 * each, oldest: Some(2010), ..TopicMark::default() };
        let effect = index.take(PREFIX, &mark(1001, "odd", &through));
        assert_eq!(effect, Some(("odd".into(), IndexEffect::Trimmed(199))));
        assert_eq!(index.take(PREFIX, &mark(1002, "odd", &through)).map(|(_, effect)| effect), None, "it is known");
        let odd = &index.topics["odd"];
        assert_eq!((odd.entries(), odd.head, odd.oldest()), (400, 999, Timestamp(2010)));
        assert_eq!(index.bytes(), bytes - 100 * each);
        let first = odd.block_of_count(101).expect("the first that is kept");
        assert_eq!((first.count, first.sequence, first.bytes), (100, 200, 100 * each));
        // A reader that pages back and has come to where a mark that came meanwhile begins has nothing more to read.
        assert_eq!(odd.begin_of_page(200, 50, u64::MAX), Some(200));
        assert_eq!((odd.begin_of_page(199, 50, u64::MAX), odd.begin_of_page(100, 50, u64::MAX)), (None, None));
    }

    #[test]
    fn what_was_removed_before_it_came_is_counted() {
        let mut index = index(10);
        // Everything up to the 50th entry was removed, and this node has seen five of them.
        let through = TopicMark { through: 99, count: 50, bytes: 5000, oldest: Some(1010), ..TopicMark::default() };
        index.learn_mark("odd", &mark(300, "odd", &through));
        index.take(PREFIX, &entry(101, "odd"));
        let odd = &index.topics["odd"];
        assert_eq!((odd.count, odd.entries(), odd.head, odd.removed.through), (51, 1, 101, 99));
        assert_eq!(odd.block_of_count(51).expect("its block").sequence, 101);
    }

    #[test]
    fn what_is_marked_and_not_purged_yet_counts_once() {
        let mut index = index(10);
        let through = TopicMark { through: 99, count: 50, bytes: 5000, oldest: Some(1010), ..TopicMark::default() };
        index.learn_mark("odd", &mark(300, "odd", &through));
        for sequence in [97, 99] {
            index.take(PREFIX, &entry(sequence, "odd"));
        }
        let odd = &index.topics["odd"];
        assert_eq!((odd.count, odd.entries(), odd.head, odd.stored()), (50, 0, 99, 0));
        index.take(PREFIX, &entry(101, "odd"));
        let odd = &index.topics["odd"];
        assert_eq!((odd.count, odd.entries(), odd.head), (51, 1, 101));
        assert_eq!(odd.block_of_count(51).expect("its block").sequence, 101);
    }

    #[test]
    fn what_is_kept_counts_if_its_mark_is_learned_first() {
        // Read from the oldest message: 400 entries are removed, and a hundred come before the mark does.
        let mut index = ShardIndex::after(400);
        let through = TopicMark { through: 400, count: 400, bytes: 40_000, ..TopicMark::default() };
        index.learn_mark("odd", &mark(501, "odd", &through));
        for sequence in 401..=500 {
            index.take(PREFIX, &entry(sequence, "odd"));
        }
        assert_eq!(index.take(PREFIX, &mark(501, "odd", &through)), None, "it is known");
        let odd = &index.topics["odd"];
        assert_eq!((odd.count, odd.entries(), odd.head, odd.removed.through), (500, 100, 500, 400));
        assert_eq!(odd.block_of_count(401).expect("the first that is kept").sequence, 401);
    }

    #[test]
    fn a_mark_of_more_than_is_known_says_how_much_there_was() {
        // A topic that was forgotten and has started over: what this node knows is of the one before.
        let mut index = index(100);
        let through = TopicMark { through: 299, count: 20, bytes: 2000, ..TopicMark::default() };
        index.learn_mark("odd", &mark(400, "odd", &through));
        index.take(PREFIX, &entry(301, "odd"));
        let odd = &index.topics["odd"];
        assert_eq!((odd.count, odd.entries(), odd.head), (21, 1, 301));
    }

    #[test]
    fn a_topic_is_forgotten_if_nothing_came_meanwhile() {
        let over = TopicMark { through: 9, count: 5, is_forgotten: true, ..TopicMark::default() };
        let mut index = index(10);
        assert_eq!(index.take(PREFIX, &mark(11, "odd", &over)), Some(("odd".into(), IndexEffect::Forgotten)));
        assert!(!index.topics.contains_key("odd"));
        index.take(PREFIX, &entry(20, "odd"));
        let anew = &index.topics["odd"];
        assert_eq!((anew.entries(), anew.removed.through), (1, 19), "positions of before are a gap");
        // What came between the newest message that the mark names and the mark keeps the topic.
        let over = TopicMark { through: 10, ..over };
        index.take(PREFIX, &entry(21, "even"));
        index.take(PREFIX, &mark(22, "even", &over));
        assert_eq!(index.topics["even"].entries(), 1);
    }

    #[test]
    fn redacted_entries_are_known_by_their_records() {
        let mut index = index(10);
        let redacted = [(redact::REDACTED, "5 50".to_owned())];
        index.take(PREFIX, &message(11, "odd", "hole-5", &redacted, Vec::new()));
        index.take(PREFIX, &message(12, "odd", TOKEN, &redacted, Vec::new()));
        let odd = &index.topics["odd"];
        assert_eq!((odd.entries(), odd.head, odd.holes(0, 12), odd.changes), (5, 12, vec![5], 1));
        assert_eq!((odd.holes(5, 12), odd.holes(4, 5)), (vec![], vec![5]));
        // At its own place, where the message was erased before it came by.
        let redacted = [(redact::REDACTED, "13 130".to_owned())];
        index.take(PREFIX, &message(13, "odd", "hole-13", &redacted, Vec::new()));
        assert_eq!(index.topics["odd"].entries(), 6);
    }

    #[test]
    fn strangers_are_not_entries() {
        let mut index = index(10);
        index.take(PREFIX, &message(11, "odd", "stranger", &[], Vec::new()));
        assert_eq!((index.topics["odd"].entries(), index.topics["odd"].head), (5, 11));
        let nameless = Stored { headers: HeaderMap::new(), ..entry(12, "unknown") };
        assert_eq!(index.take(PREFIX, &nameless), None);
        assert_eq!(index.topics.len(), 2);
        assert_eq!(index.through, 12);
    }
}
