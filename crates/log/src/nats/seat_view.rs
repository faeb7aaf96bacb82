//! What is known here of the keys that say who holds which place.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use salon_protocol::{ParticipantId, TopicName};
use serde::{Deserialize, Serialize};

use crate::Claim;

/// What a key says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeatValue {
    pub(super) topic: TopicName,
    pub(super) participant: ParticipantId,
    pub(super) claim: Claim,
    /// Who holds it; never nobody.
    pub(super) nodes: Vec<String>,
}

/// The keys, and which of them are of which topic: a roster costs what its topic has, not what all topics have.
#[derive(Default)]
pub(super) struct SeatView {
    keys: HashMap<String, SeatRecord>,
    by_topic: HashMap<TopicName, TopicSeats>,
    /// Counts the changes of all topics.
    changes: u64,
}

/// The keys of a topic that say that somebody holds a place.
#[derive(Default)]
struct TopicSeats {
    keys: HashSet<String>,
    /// What the count of changes was when something of this topic changed last.
    version: u64,
}

/// What a key says, as far as is known here.
#[derive(Clone)]
pub(super) struct SeatRecord {
    pub(super) revision: u64,
    /// `None` where it was removed; remembered for a while, so that nothing older takes its place.
    pub(super) seat: Option<SeatValue>,
    pub(super) since: Instant,
}

impl SeatView {
    /// Takes what is newer than what is known.
    pub(super) fn learn(&mut self, key: &str, revision: u64, seat: Option<SeatValue>) -> bool {
        let is_news = self.keys.get(key).is_none_or(|known| known.revision < revision);
        if is_news {
            if let Some(seat) = &seat {
                self.by_topic.entry(seat.topic.clone()).or_default().keys.insert(key.to_owned());
                self.touch(&seat.topic);
            }
            let record = SeatRecord { revision, seat, since: Instant::now() };
            let before = self.keys.insert(key.to_owned(), record).and_then(|before| before.seat);
            if let Some(before) = before.filter(|_| self.seat(key).is_none()) {
                self.unlist(&before.topic, key);
            }
        }
        is_news
    }

    fn unlist(&mut self, topic: &TopicName, key: &str) {
        if let Some(seats) = self.by_topic.get_mut(topic) {
            seats.keys.remove(key);
            if seats.keys.is_empty() {
                self.by_topic.remove(topic);
            }
        }
        self.touch(topic);
    }

    /// A version of what is known of a topic's places: it differs whenever that does. Nobody holds one in a topic without keys.
    pub(super) fn version(&self, topic: &TopicName) -> u64 {
        self.by_topic.get(topic).map_or(0, |seats| seats.version)
    }

    /// Notes that something changed of which a topic's roster depends.
    pub(super) fn touch(&mut self, topic: &TopicName) {
        self.changes += 1;
        if let Some(seats) = self.by_topic.get_mut(topic) {
            seats.version = self.changes;
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&SeatRecord> {
        self.keys.get(key)
    }

    /// Forgets a key altogether.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some(seat) = self.keys.remove(key).and_then(|known| known.seat) {
            self.unlist(&seat.topic, key);
        }
    }

    /// Forgets the keys that were removed before a moment.
    pub(super) fn forget_removed(&mut self, before: Instant) {
        self.keys.retain(|_, known| known.seat.is_some() || known.since >= before);
    }

    /// Forgets what keys said that are not there any more, and gives it. The server that was asked may only lag behind the others: what it
    /// brings later counts if it is at least as new as what was known, and nothing older does.
    pub(super) fn forget_unseen(&mut self, seen: &HashSet<String>, before: Instant) -> Vec<SeatValue> {
        let unseen = self.keys.iter_mut().filter(|(key, known)| known.since < before && !seen.contains(*key));
        let removed = unseen.filter_map(|(key, known)| {
            let seat = known.seat.take()?;
            known.revision = known.revision.saturating_sub(1);
            known.since = Instant::now();
            Some((key.clone(), seat))
        });
        let removed: Vec<_> = removed.collect();
        removed.iter().for_each(|(key, seat)| self.unlist(&seat.topic, key));
        removed.into_iter().map(|(_, seat)| seat).collect()
    }

    pub(super) fn seat(&self, key: &str) -> Option<&SeatValue> {
        self.keys.get(key).and_then(|known| known.seat.as_ref())
    }

    /// What the keys of a topic say.
    pub(super) fn of_topic(&self, topic: &TopicName) -> impl Iterator<Item = &SeatValue> {
        self.by_topic.get(topic).into_iter().flat_map(|seats| &seats.keys).filter_map(|key| self.seat(key))
    }

    pub(super) fn seats(&self) -> impl Iterator<Item = (&String, &SeatValue)> {
        self.keys.iter().filter_map(|(key, known)| Some((key, known.seat.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seat(node: &str) -> Option<SeatValue> {
        let (topic, participant) = ("room:one".parse().expect("a topic"), "alice".parse().expect("an id"));
        Some(SeatValue { topic, participant, claim: Claim::Exclusive, nodes: vec![node.to_owned()] })
    }

    #[test]
    fn a_server_that_lags_behind_revokes_nothing() {
        let mut view = SeatView::default();
        assert!(view.learn("key", 5, seat("first")));
        assert!(view.learn("key", 9, seat("second")));
        let removed = view.forget_unseen(&HashSet::new(), Instant::now() + Duration::from_secs(1));
        assert_eq!(removed, Vec::from_iter(seat("second")));
        assert!(view.seat("key").is_none(), "nothing is known to hold it");
        assert!(!view.learn("key", 5, seat("first")), "what was replaced before it was forgotten is news");
        assert!(view.learn("key", 9, seat("second")), "what was forgotten by mistake is not learnt again");
        assert_eq!(view.seat("key"), seat("second").as_ref());
    }

    #[test]
    fn seats_are_listed_by_topic_for_as_long_as_they_are_held() {
        let mut view = SeatView::default();
        let topic: TopicName = "room:one".parse().expect("a topic");
        let listed = |view: &SeatView| view.of_topic(&topic).map(|seat| seat.nodes[0].clone()).collect::<Vec<_>>();
        view.learn("key", 1, seat("first"));
        view.learn("key", 2, seat("second"));
        assert_eq!(listed(&view), ["second"]);
        view.learn("key", 3, None);
        assert_eq!((listed(&view), view.by_topic.len()), (Vec::new(), 0), "a seat was given up");
        view.learn("key", 4, seat("third"));
        view.forget_unseen(&HashSet::new(), Instant::now() + Duration::from_secs(1));
        assert_eq!((listed(&view), view.by_topic.len()), (Vec::new(), 0), "a key was forgotten");
        view.learn("key", 5, seat("fourth"));
        view.remove("key");
        assert_eq!((listed(&view), view.by_topic.len()), (Vec::new(), 0), "a key was removed");
    }

    #[test]
    fn the_version_of_a_topic_changes_with_its_seats_alone() {
        let mut view = SeatView::default();
        let (topic, other): (TopicName, TopicName) =
            ("room:one".parse().expect("a topic"), "room:two".parse().expect("a topic"));
        let mut last = view.version(&topic);
        let mut moves = |view: &SeatView| {
            let before = std::mem::replace(&mut last, view.version(&topic));
            before != last
        };
        view.learn("key", 2, seat("first"));
        assert!(moves(&view), "a seat was claimed");
        assert!(!view.learn("key", 1, seat("older")));
        view.touch(&other);
        assert!(!moves(&view), "nothing of this topic has changed");
        view.learn("key", 3, seat("second"));
        assert!(moves(&view), "a seat has another holder");
        view.touch(&topic);
        assert!(moves(&view), "a lease of this node has ended");
        view.learn("beside", 4, seat("first"));
        assert!(moves(&view));
        view.learn("key", 5, None);
        assert!(moves(&view), "one of two seats was given up");
        view.forget_unseen(&HashSet::new(), Instant::now() + Duration::from_secs(1));
        assert!(moves(&view), "a key was forgotten");
        view.learn("key", 6, seat("first"));
        assert!(moves(&view));
        view.remove("key");
        assert!(moves(&view), "a key was removed");
    }

    #[test]
    fn what_was_seen_or_learnt_meanwhile_stays() {
        let mut view = SeatView::default();
        view.learn("seen", 5, seat("first"));
        let before = Instant::now();
        view.learn("new", 6, seat("first"));
        assert_eq!(view.forget_unseen(&["seen".to_owned()].into(), before), []);
        assert!(view.seat("seen").is_some() && view.seat("new").is_some());
    }
}
