//! Leases: who holds which place, in the memory of one node. With several nodes each has such a table beside what they share.
//!
//! A lease is a few words in a table: no task, no timer, no write. It ends when it is dropped, and with its process.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex, MutexGuard};
use salon_protocol::{ParticipantId, TopicName};

/// How a place is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Alone: its holder is superseded.
    Exclusive,
    /// Beside others who claim it so; an exclusive holder is superseded.
    Shared,
}

/// A participant's place, held until dropped.
pub struct Lease(#[expect(dead_code, reason = "dropping it is the release")] Box<dyn Any + Send + Sync>);

impl Lease {
    /// A lease that is released by dropping `guard`.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}

/// A version of what [`crate::TopicLog::roster`] says of a topic. Only whether two are equal says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RosterVersion {
    seats: u64,
    nodes: u64,
}

impl RosterVersion {
    /// A version of the topic's seats and of the nodes that live.
    pub fn new(seats: u64, nodes: u64) -> Self {
        Self { seats, nodes }
    }
}

/// The leases of one node.
#[derive(Clone, Default)]
pub(crate) struct Leases(Arc<Mutex<Table>>);

type Table = HashMap<TopicName, HashMap<ParticipantId, LeaseHolders>>;

/// Who holds a place: one exclusive holder, or any number that share; never nobody.
struct LeaseHolders {
    claim: Claim,
    holders: Vec<Arc<Holder>>,
}

impl Leases {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }

    /// Takes a place at once. A superseded holder has been notified when this returns.
    pub(crate) fn claim(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        claim: Claim,
        lost: Box<dyn FnOnce() + Send + Sync>,
    ) -> Lease {
        let holder = Arc::new(Holder { notice: Mutex::new(Notice::Due(lost)), ended: Condvar::new() });
        let mut superseded = Vec::new();
        let mut table = self.table();
        let places = table.entry(topic.clone()).or_default();
        let place = places.entry(participant.clone()).or_insert_with(|| LeaseHolders { claim, holders: Vec::new() });
        if place.claim == Claim::Exclusive || claim == Claim::Exclusive {
            superseded = std::mem::take(&mut place.holders);
        }
        place.claim = claim;
        place.holders.push(holder.clone());
        drop(table);

        for old in superseded {
            old.tell();
        }
        Lease::new(LocalLease { leases: self.clone(), topic: topic.clone(), participant: participant.clone(), holder })
    }

    /// Takes a place away from everyone who holds it. They have been told when this returns.
    #[cfg(feature = "nats")]
    pub(crate) fn revoke(&self, topic: &TopicName, participant: &ParticipantId) {
        let mut table = self.table();
        let place = table.get_mut(topic).and_then(|places| places.remove(participant));
        if table.get(topic).is_some_and(HashMap::is_empty) {
            table.remove(topic);
        }
        drop(table);
        for old in place.into_iter().flat_map(|place| place.holders) {
            old.tell();
        }
    }

    /// Whether somebody holds a place.
    #[cfg(feature = "nats")]
    pub(crate) fn is_held(&self, topic: &TopicName, participant: &ParticipantId) -> bool {
        self.table().get(topic).is_some_and(|places| places.contains_key(participant))
    }

    /// Every place that is held, and how.
    #[cfg(feature = "nats")]
    pub(crate) fn held(&self) -> Vec<(TopicName, ParticipantId, Claim)> {
        let table = self.table();
        let places = table.iter().flat_map(|(topic, places)| places.iter().map(move |place| (topic, place)));
        places.map(|(topic, (participant, place))| (topic.clone(), participant.clone(), place.claim)).collect()
    }

    /// Who holds a place in a topic.
    pub(crate) fn roster(&self, topic: &TopicName) -> Vec<ParticipantId> {
        self.table().get(topic).map(|places| places.keys().cloned().collect()).unwrap_or_default()
    }

    fn release(&self, held: &LocalLease) {
        let mut table = self.table();
        let Some(places) = table.get_mut(&held.topic) else { return };
        let Some(place) = places.get_mut(&held.participant) else { return };
        // A superseded holder is no longer among them, and must not take the seat of later holders.
        place.holders.retain(|holder| !Arc::ptr_eq(holder, &held.holder));
        if place.holders.is_empty() {
            places.remove(&held.participant);
            if places.is_empty() {
                table.remove(&held.topic);
            }
        }
    }
}

struct LocalLease {
    leases: Leases,
    topic: TopicName,
    participant: ParticipantId,
    holder: Arc<Holder>,
}

impl Drop for LocalLease {
    fn drop(&mut self) {
        self.leases.release(self);
        self.holder.silence();
    }
}

struct Holder {
    notice: Mutex<Notice>,
    ended: Condvar,
}

enum Notice {
    Due(Box<dyn FnOnce() + Send + Sync>),
    BeingGiven(ThreadId),
    Over,
}

impl Holder {
    fn notice(&self) -> MutexGuard<'_, Notice> {
        self.notice.lock()
    }

    /// Tells the holder that it lost its place, unless it has let go.
    fn tell(&self) {
        /// However the callback ends, a thread that waits for its end must be woken.
        struct EndNotifier<'a>(&'a Holder);
        impl Drop for EndNotifier<'_> {
            fn drop(&mut self) {
                *self.0.notice() = Notice::Over;
                self.0.ended.notify_all();
            }
        }
        let lost = {
            let mut notice = self.notice();
            match std::mem::replace(&mut *notice, Notice::BeingGiven(thread::current().id())) {
                Notice::Due(lost) => lost,
                before => return *notice = before,
            }
        };
        let _ending = EndNotifier(self);
        lost();
    }

    /// Makes sure that the callback does not run after this: one that runs on another thread is waited for, one that runs on
    /// this thread is the caller.
    fn silence(&self) {
        let mut notice = self.notice();
        loop {
            match &*notice {
                Notice::Due(_) => {
                    // Dropped outside the lock: what it owns is not ours to know.
                    let unused = std::mem::replace(&mut *notice, Notice::Over);
                    drop(notice);
                    return drop(unused);
                }
                Notice::BeingGiven(by) if *by != thread::current().id() => {
                    self.ended.wait(&mut notice);
                }
                Notice::BeingGiven(_) | Notice::Over => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn names() -> (TopicName, ParticipantId) {
        (TopicName::new("room").expect("a name"), ParticipantId::new("alice").expect("a name"))
    }

    fn counter() -> (Arc<AtomicUsize>, Box<dyn FnOnce() + Send + Sync>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        (count, Box::new(move || _ = counted.fetch_add(1, Ordering::SeqCst)))
    }

    #[test]
    fn a_claim_supersedes_as_its_kind_says() {
        use Claim::{Exclusive, Shared};
        for (first, second, superseded) in
            [(Exclusive, Exclusive, 1), (Exclusive, Shared, 1), (Shared, Exclusive, 1), (Shared, Shared, 0)]
        {
            let (leases, (topic, alice)) = (Leases::default(), names());
            let (told, lost) = counter();
            let older = leases.claim(&topic, &alice, first, lost);
            let newer =
                leases.claim(&topic, &alice, second, Box::new(|| panic!("the newest holder is not superseded")));
            assert_eq!(told.load(Ordering::SeqCst), superseded, "{first:?} then {second:?}");
            drop(older);
            assert_eq!(
                leases.roster(&topic),
                std::slice::from_ref(&alice),
                "the newer of {first:?} and {second:?} keeps the place"
            );
            drop(newer);
            assert_eq!(leases.roster(&topic), [], "nobody holds the place after {first:?} and {second:?}");
            assert!(leases.table().is_empty(), "an empty topic takes no memory");
        }
    }

    #[test]
    fn an_exclusive_claim_supersedes_everyone_who_shares() {
        let (leases, (topic, alice)) = (Leases::default(), names());
        let (told, held): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| counter())
            .map(|(told, lost)| (told, leases.claim(&topic, &alice, Claim::Shared, lost)))
            .unzip();
        let _newest = leases.claim(&topic, &alice, Claim::Exclusive, Box::new(|| {}));
        let told: Vec<_> = told.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        assert_eq!(told, [1, 1, 1]);
        drop(held);
        assert_eq!(leases.roster(&topic), [alice]);
    }

    #[test]
    fn the_callback_may_drop_its_own_lease_and_claim_anew() {
        let (leases, (topic, alice)) = (Leases::default(), names());
        let own: Arc<Mutex<Vec<Lease>>> = Arc::default();
        let (again, place) = (leases.clone(), (topic.clone(), alice.clone()));
        let in_callback = own.clone();
        let lost = Box::new(move || {
            let mine = std::mem::take(&mut *in_callback.lock());
            drop(mine);
            in_callback.lock().push(again.claim(&place.0, &place.1, Claim::Shared, Box::new(|| {})));
        });
        let first = leases.claim(&topic, &alice, Claim::Exclusive, lost);
        own.lock().push(first);
        let (told, lost) = counter();
        let _second = leases.claim(&topic, &alice, Claim::Exclusive, lost);
        assert_eq!(told.load(Ordering::SeqCst), 1, "the claim made in the callback is newer still");
    }

    #[test]
    fn a_holder_that_lets_go_before_its_turn_gets_no_notice() {
        let (leases, (topic, alice)) = (Leases::default(), names());
        let second: Arc<Mutex<Option<Lease>>> = Arc::default();
        let let_go = second.clone();
        let first = Box::new(move || drop(let_go.lock().take()));
        let _first = leases.claim(&topic, &alice, Claim::Shared, first);
        let (told, lost) = counter();
        *second.lock() = Some(leases.claim(&topic, &alice, Claim::Shared, lost));
        // Both are superseded at once; the first hears of it first, and lets the second go.
        let _newest = leases.claim(&topic, &alice, Claim::Exclusive, Box::new(|| {}));
        assert_eq!(told.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_drop_waits_for_a_callback_on_another_thread() {
        let (leases, (topic, alice)) = (Leases::default(), names());
        let (entered, has_entered) = mpsc::channel();
        let (release, may_go) = mpsc::channel::<()>();
        let (may_go, ended) = (Mutex::new(may_go), Arc::new(AtomicUsize::new(0)));
        let ending = ended.clone();
        let lost = Box::new(move || {
            entered.send(()).expect("the test waits");
            may_go.lock().recv().expect("the test lets it go");
            ending.fetch_add(1, Ordering::SeqCst);
        });
        let older = leases.claim(&topic, &alice, Claim::Exclusive, lost);
        thread::scope(|scope| {
            let superseding = scope.spawn(|| leases.claim(&topic, &alice, Claim::Exclusive, Box::new(|| {})));
            has_entered.recv().expect("the callback runs");
            let dropping = scope.spawn(|| {
                drop(older);
                ended.load(Ordering::SeqCst)
            });
            release.send(()).expect("the callback waits");
            assert_eq!(dropping.join().expect("no panic"), 1, "the callback was over when the drop returned");
            drop(superseding.join().expect("no panic"));
        });
    }
}
