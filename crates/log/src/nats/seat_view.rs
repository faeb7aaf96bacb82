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

#[derive(Default)]
pub(super) struct SeatView(pub(super) HashMap<String, SeatRecord>);

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
        let is_news = self.0.get(key).is_none_or(|known| known.revision < revision);
        if is_news {
            self.0.insert(key.to_owned(), SeatRecord { revision, seat, since: Instant::now() });
        }
        is_news
    }

    /// Forgets what keys said that are not there any more, and gives it. The server that was asked may only lag behind the others: what it
    /// brings later counts if it is at least as new as what was known, and nothing older does.
    pub(super) fn forget_unseen(&mut self, seen: &HashSet<String>, before: Instant) -> Vec<SeatValue> {
        let unseen = self.0.iter_mut().filter(|(key, known)| known.since < before && !seen.contains(*key));
        let removed = unseen.filter_map(|(_, known)| {
            let seat = known.seat.take()?;
            known.revision = known.revision.saturating_sub(1);
            known.since = Instant::now();
            Some(seat)
        });
        removed.collect()
    }

    pub(super) fn seat(&self, key: &str) -> Option<&SeatValue> {
        self.0.get(key).and_then(|known| known.seat.as_ref())
    }

    pub(super) fn seats(&self) -> impl Iterator<Item = (&String, &SeatValue)> {
        self.0.iter().filter_map(|(key, known)| Some((key, known.seat.as_ref()?)))
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
    fn what_was_seen_or_learnt_meanwhile_stays() {
        let mut view = SeatView::default();
        view.learn("seen", 5, seat("first"));
        let before = Instant::now();
        view.learn("new", 6, seat("first"));
        assert_eq!(view.forget_unseen(&["seen".to_owned()].into(), before), []);
        assert!(view.seat("seen").is_some() && view.seat("new").is_some());
    }
}
