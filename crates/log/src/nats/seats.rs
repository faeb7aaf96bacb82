//! Places across nodes: who holds which, by a key each, and what happens to those of a lost node.
//!
//! A key names the nodes that hold a place, and is only ever replaced by revision, so a place is one node's unless it is shared. Which
//! connection of a node has it, the node's own table knows. Every node follows the keys: one that finds itself replaced tells its
//! holders.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered};
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{ParticipantId, TopicName};
use tokio::sync::{mpsc, oneshot, watch};

use super::Shared;
use super::fault::NatsFault;
use super::follow::{Course, Follow};
use super::lag::lagging;
use super::names::StreamNames;
use super::seat_view::{SeatValue, SeatView};
use crate::lease::Leases;
use crate::{Claim, Lapse, Lapses, Lease, ReadError, RosterVersion};

/// How long to wait before a claim is retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long it is remembered that a key was removed.
const REMOVAL_TTL: Duration = Duration::from_secs(60);
/// How many places of nodes that are gone are given at once.
const CONCURRENT_LAPSES: usize = 32;

/// A key's revision, and what it says unless it was removed or never was.
type SeatRevision = (u64, Option<SeatValue>);

pub(super) enum SeatCommand {
    Claim(TopicName, ParticipantId, Claim, Box<dyn FnOnce() + Send + Sync>, oneshot::Sender<Result<Lease, ReadError>>),
    /// Nobody here holds it any more, as it seemed.
    Release(TopicName, ParticipantId),
    /// This node was thought to be gone, and is not.
    Retake(TopicName, ParticipantId, Claim),
    /// Says when everything before is done.
    Finish(oneshot::Sender<()>),
}

#[derive(Default)]
pub(super) struct Seats {
    local: Leases,
    view: Mutex<SeatView>,
}

impl Seats {
    fn view(&self) -> MutexGuard<'_, SeatView> {
        self.view.lock()
    }

    /// Takes a place away from all who hold it here.
    fn revoke(&self, topic: &TopicName, participant: &ParticipantId) {
        self.local.revoke(topic, participant);
        // After that: who reads the roster in between has read an older version.
        self.view().touch(topic);
    }
}

/// A lease here. Dropping it lets go of the place everywhere, unless another connection here has it.
struct SeatLease {
    local: Option<Lease>,
    shared: Arc<Shared>,
    topic: TopicName,
    participant: ParticipantId,
}

impl Drop for SeatLease {
    fn drop(&mut self) {
        self.local = None;
        self.shared.seats.view().touch(&self.topic);
        if !self.shared.seats.local.is_held(&self.topic, &self.participant) {
            // A log that is closed has let go of everything.
            let _ = self.shared.desk.send(SeatCommand::Release(self.topic.clone(), self.participant.clone()));
        }
    }
}

impl Shared {
    /// Who holds a place in a topic, on a node that lives.
    pub(super) fn roster(&self, topic: &TopicName) -> Vec<ParticipantId> {
        let held = {
            let view = self.seats.view();
            let held = view.of_topic(topic).filter(|seat| self.is_held(seat));
            held.map(|seat| seat.participant.clone()).collect()
        };
        // Which nodes live may be as before again when the version is read next. That it was otherwise now must show.
        self.nodes.version();
        held
    }

    /// Changes whenever the roster of a topic may have: by a key, by a lease of this node, or because another node is gone or back.
    pub(super) fn roster_version(&self, topic: &TopicName) -> RosterVersion {
        let seats = self.seats.view().version(topic);
        RosterVersion::new(seats, self.nodes.version())
    }

    /// Whether a participant has a place in a topic, on a node that lives.
    pub(super) fn is_seated(&self, topic: &TopicName, participant: &ParticipantId) -> bool {
        let view = self.seats.view();
        view.seat(&StreamNames::seat(topic, participant)).is_some_and(|seat| self.is_held(seat))
    }

    fn is_held(&self, seat: &SeatValue) -> bool {
        // What this node has let go of may not have been told yet.
        seat.nodes.iter().any(|node| match *node == self.node {
            true => self.seats.local.is_held(&seat.topic, &seat.participant),
            false => self.nodes.is_alive(node),
        })
    }

    pub(super) fn is_elsewhere(&self, topic: &TopicName, participant: &ParticipantId) -> bool {
        let view = self.seats.view();
        let seat = view.seat(&StreamNames::seat(topic, participant));
        seat.is_some_and(|seat| seat.nodes.iter().any(|node| *node != self.node && self.nodes.is_alive(node)))
    }

    /// Follows the keys, for ever. Says when everything there was has been seen.
    pub(super) async fn follow_seats(self: Arc<Self>, ready: oneshot::Sender<()>) {
        let mut ready = Some(ready);
        loop {
            let from = DeliverPolicy::LastPerSubject;
            let course = Course {
                stream: &self.seat_keys.stream,
                from,
                filter: Some(self.seat_keys.subjects()),
                headers_only: false,
            };
            let began = Instant::now();
            // What is stored from now on must come. Of what was before, keys that have expired do not.
            let last = self.link.info(&self.seat_keys.stream).await.map_or(u64::MAX, |info| info.state.last_sequence);
            if let Ok(mut follow) = Follow::begin(&self.link, course).await {
                let followed = watch::Sender::new(last);
                let lagging = lagging(&self.link, &self.seat_keys.stream, followed.subscribe());
                tokio::pin!(lagging);
                let mut seen = Some(HashSet::new());
                loop {
                    if follow.has_caught_up()
                        && let Some(seen) = seen.take()
                    {
                        self.forget_unseen(&seen, began);
                        // The opener of the log may have given up.
                        let _ = ready.take().map(|ready| ready.send(()));
                    }
                    let next = tokio::select! { biased;
                        next = follow.next() => next,
                        () = &mut lagging => None,
                    };
                    let Some(messages) = next else { break };
                    if let Some(newest) = messages.last() {
                        followed.send_modify(|last| *last = newest.sequence.max(*last));
                    }
                    for message in messages {
                        let Some((key, value)) = self.seat_keys.read(&message) else { continue };
                        let seat = value.and_then(|value| serde_json::from_slice(value).ok());
                        self.hear(key, message.sequence, seat);
                        if let Some(seen) = &mut seen {
                            seen.insert(key.to_owned());
                        }
                    }
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Forgets keys that are not there any more: that they were removed was said while nobody listened here, and not for long.
    fn forget_unseen(&self, seen: &HashSet<String>, before: Instant) {
        let removed = self.seats.view().forget_unseen(seen, before);
        removed.into_iter().for_each(|seat| self.miss(seat));
    }

    /// A place is nobody's any more. One that is held here is taken again: somebody thought this node gone.
    fn miss(&self, SeatValue { topic, participant, claim, nodes }: SeatValue) {
        if nodes.contains(&self.node) && self.seats.local.is_held(&topic, &participant) {
            let _ = self.desk.send(SeatCommand::Retake(topic, participant, claim));
        }
    }

    /// Forgets that keys were removed, once that has been everywhere.
    pub(super) fn forget_removed_seats(&self) {
        if let Some(before) = Instant::now().checked_sub(REMOVAL_TTL) {
            self.seats.view().forget_removed(before);
        }
    }

    /// Takes in what a key says now.
    fn hear(&self, key: &str, revision: u64, seat: Option<SeatValue>) {
        let mut view = self.seats.view();
        let before = view.seat(key).cloned();
        if !view.learn(key, revision, seat.clone()) {
            return;
        }
        drop(view);
        for node in seat.iter().flat_map(|seat| &seat.nodes) {
            self.nodes.mention(node);
        }
        match (seat, before) {
            (Some(SeatValue { topic, participant, nodes, .. }), _) if !nodes.contains(&self.node) => {
                self.seats.revoke(&topic, &participant);
            }
            // A claim that timed out was stored all the same. One that is under way comes before this, and has its holder then.
            (Some(SeatValue { topic, participant, .. }), _) if !self.seats.local.is_held(&topic, &participant) => {
                let _ = self.desk.send(SeatCommand::Release(topic, participant));
            }
            (None, Some(seat)) => self.miss(seat),
            _ => {}
        }
    }

    /// Does what is wanted of seats, in order for each, until there is nobody to want something.
    pub(super) async fn keep_seats(self: Arc<Self>, mut commands: mpsc::UnboundedReceiver<SeatCommand>) {
        let mut waiting: HashMap<String, VecDeque<SeatCommand>> = HashMap::new();
        let mut running: FuturesUnordered<BoxFuture<'static, String>> = FuturesUnordered::new();
        let mut finishing: Vec<oneshot::Sender<()>> = Vec::new();
        loop {
            tokio::select! { biased;
                Some(key) = running.next() => {
                    let next = waiting.get_mut(&key).and_then(VecDeque::pop_front);
                    match next {
                        Some(command) => running.push(Box::pin(self.clone().carry_out(key, command))),
                        None => drop(waiting.remove(&key)),
                    }
                }
                command = commands.recv() => {
                    let key = match &command {
                        None => return,
                        Some(SeatCommand::Claim(topic, participant, ..) | SeatCommand::Release(topic, participant) | SeatCommand::Retake(topic, participant, _)) => {
                            StreamNames::seat(topic, participant)
                        }
                        Some(SeatCommand::Finish(_)) => String::new(),
                    };
                    match command {
                        Some(SeatCommand::Finish(done)) => finishing.push(done),
                        Some(command) => match waiting.get_mut(&key) {
                            Some(queue) => queue.push_back(command),
                            None => {
                                waiting.insert(key.clone(), VecDeque::new());
                                running.push(Box::pin(self.clone().carry_out(key, command)));
                            }
                        },
                        None => return,
                    }
                }
            }
            if running.is_empty() {
                for done in finishing.drain(..) {
                    // The waiting task may have given up.
                    let _ = done.send(());
                }
            }
        }
    }

    async fn carry_out(self: Arc<Self>, key: String, command: SeatCommand) -> String {
        match command {
            SeatCommand::Claim(topic, participant, claim, lost, reply) => {
                let taken = self.take_seat(&key, &topic, &participant, claim, true).await;
                let lease = taken.map(|revision| {
                    let local = self.seats.local.claim(&topic, &participant, claim, lost);
                    self.seats.view().touch(&topic);
                    let lease = SeatLease {
                        local: Some(local),
                        shared: self.clone(),
                        topic: topic.clone(),
                        participant: participant.clone(),
                    };
                    // A rival may have been heard of before there was anybody to tell.
                    let rival = self.known(&key).is_some_and(|(newest, seat)| {
                        newest > revision && seat.is_some_and(|seat| !seat.nodes.contains(&self.node))
                    });
                    if rival {
                        self.seats.revoke(&topic, &participant);
                    }
                    Lease::new(lease)
                });
                let is_taken = lease.is_ok();
                // The claimant may have gone; dropping the lease lets go.
                let _ = reply.send(lease.map_err(ReadError::from));
                // What was not acknowledged may have been stored all the same.
                if !is_taken {
                    self.release(&key, topic, participant).await;
                }
            }
            SeatCommand::Release(topic, participant) => self.release(&key, topic, participant).await,
            SeatCommand::Retake(topic, participant, claim) => {
                if self.seats.local.is_held(&topic, &participant) {
                    match self.take_seat(&key, &topic, &participant, claim, false).await {
                        Ok(_) => {}
                        Err(NatsFault::Raced) => self.seats.revoke(&topic, &participant),
                        Err(NatsFault::Unavailable(_) | NatsFault::Missing) if !*self.stop.borrow() => {
                            tokio::time::sleep(RETRY_DELAY).await;
                            let _ = self.desk.send(SeatCommand::Retake(topic, participant, claim));
                        }
                        Err(fault) => {
                            tracing::warn!(%topic, %fault, "seats: claim after an outage failed, not retried")
                        }
                    }
                }
            }
            SeatCommand::Finish(_) => {}
        }
        key
    }

    /// Lets go of a place that nobody here holds; one that this node is out of reach for is let go of later.
    async fn release(&self, key: &str, topic: TopicName, participant: ParticipantId) {
        if self.seats.local.is_held(&topic, &participant) {
            return;
        }
        match self.let_go(key).await {
            Ok(()) => {}
            Err(NatsFault::Unavailable(_) | NatsFault::Raced | NatsFault::Missing) if !*self.stop.borrow() => {
                tokio::time::sleep(RETRY_DELAY).await;
                let _ = self.desk.send(SeatCommand::Release(topic, participant));
            }
            Err(fault) => {
                tracing::warn!(%topic, %fault, "seats: release failed, the claim ends with this node's lease")
            }
        }
    }

    /// Makes this node a holder, and gives the key's revision. One that does not supersede yields to a living holder: `Raced`.
    async fn take_seat(
        &self,
        key: &str,
        topic: &TopicName,
        participant: &ParticipantId,
        claim: Claim,
        supersedes: bool,
    ) -> Result<u64, NatsFault> {
        let taken = self.change(key, self.known(key), |revision, seat| async move {
            let beside = seat.iter().filter(|seat| claim == Claim::Shared && seat.claim == Claim::Shared);
            let others = |node: &&String| **node != self.node && self.nodes.is_alive(node);
            let mut nodes: Vec<_> = beside.flat_map(|seat| seat.nodes.iter()).filter(others).cloned().collect();
            let is_taken = seat.as_ref().is_some_and(|seat| seat.nodes.iter().any(|node| others(&node)));
            if !supersedes && is_taken && nodes.is_empty() {
                return Ok(None);
            }
            nodes.push(self.node.clone());
            let seat = SeatValue { topic: topic.clone(), participant: participant.clone(), claim, nodes };
            let value = serde_json::to_vec(&seat).expect("a seat is plain JSON").into();
            let revision = self.seat_keys.replace(&self.link, key, revision, value, HeaderMap::new()).await?;
            self.seats.view().learn(key, revision, Some(seat));
            Ok(Some(revision))
        });
        match taken.await {
            Ok(taken) => taken.ok_or(NatsFault::Raced),
            Err(NatsFault::Raced) => Err(NatsFault::unavailable("others claim the same place over and over")),
            Err(fault) => Err(fault),
        }
    }

    async fn let_go(&self, key: &str) -> Result<(), NatsFault> {
        // A claim that was not acknowledged may not have been heard of yet.
        let is_named = |(_, seat): &SeatRevision| seat.as_ref().is_some_and(|seat| seat.nodes.contains(&self.node));
        let known = self.known(key).filter(is_named);
        self.change(key, known, |revision, seat| self.without(key, revision, seat, &self.node)).await
    }

    /// Does something with a key, by what is known of it or else by what is stored, and again where somebody was faster or nobody answers.
    async fn change<T, W: Future<Output = Result<T, NatsFault>>>(
        &self,
        key: &str,
        mut known: Option<SeatRevision>,
        work: impl Fn(u64, Option<SeatValue>) -> W,
    ) -> Result<T, NatsFault> {
        let by = Instant::now() + self.link.timings.retry_timeout;
        loop {
            let attempt = async {
                let (revision, seat) = match known.take() {
                    Some(known) => known,
                    None => self.look_at(key).await?,
                };
                work(revision, seat).await
            };
            match attempt.await {
                Err(NatsFault::Raced) if Instant::now() < by => {}
                Err(NatsFault::Unavailable(_)) if Instant::now() < by => tokio::time::sleep(RETRY_DELAY).await,
                done => return done,
            }
        }
    }

    /// Takes a node off a key; the last one removes it.
    async fn without(&self, key: &str, revision: u64, seat: Option<SeatValue>, node: &str) -> Result<(), NatsFault> {
        let Some(mut seat) = seat.filter(|seat| seat.nodes.iter().any(|other| other == node)) else { return Ok(()) };
        seat.nodes.retain(|other| other != node);
        if seat.nodes.is_empty() {
            let revision = self.seat_keys.remove(&self.link, key, Some(revision)).await?;
            self.seats.view().learn(key, revision, None);
        } else {
            let value = serde_json::to_vec(&seat).expect("a seat is plain JSON").into();
            let revision = self.seat_keys.replace(&self.link, key, revision, value, HeaderMap::new()).await?;
            self.seats.view().learn(key, revision, Some(seat));
        }
        Ok(())
    }

    fn known(&self, key: &str) -> Option<SeatRevision> {
        self.seats.view().get(key).map(|known| (known.revision, known.seat.clone()))
    }

    async fn look_at(&self, key: &str) -> Result<SeatRevision, NatsFault> {
        let kept = self.seat_keys.get(&self.link, key).await?;
        let seat = kept.value.and_then(|stored| serde_json::from_slice(&stored.payload).ok());
        Ok((kept.revision, seat))
    }

    /// Takes every place again that is held here, because others may have thought this node gone.
    pub(super) fn retake_all(&self) {
        for (topic, participant, claim) in self.seats.local.held() {
            let _ = self.desk.send(SeatCommand::Retake(topic, participant, claim));
        }
    }

    /// The places of nodes that are gone, some at a time. Their keys are removed when the next are asked for.
    pub(super) fn lapses(self: &Arc<Self>) -> Lapses {
        let stop = self.stop.subscribe();
        stream::unfold((self.clone(), Vec::new(), stop), |(shared, given, mut stop)| async move {
            let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
            let next = tokio::select! { biased;
                () = stopped => return None,
                next = shared.next_lapses(given) => next,
            };
            let lapse = |(_, seat): &(String, SeatValue)| Lapse {
                topic: seat.topic.clone(),
                participant: seat.participant.clone(),
            };
            let lapses = next.iter().map(lapse).collect();
            let given = next.into_iter().map(|(key, _)| key).collect();
            Some((lapses, (shared, given, stop)))
        })
        .boxed()
    }

    async fn next_lapses(&self, mut given: Vec<String>) -> Vec<(String, SeatValue)> {
        let mut changed: watch::Receiver<u64> = self.nodes.changed();
        loop {
            let removals = stream::iter(std::mem::take(&mut given)).map(|key| async {
                let removed = self.forget_the_dead(&key).await;
                removed.map_err(|fault| (key, fault))
            });
            let removals: Vec<_> = removals.buffer_unordered(CONCURRENT_LAPSES).collect().await;
            for (key, fault) in removals.into_iter().filter_map(Result::err) {
                tracing::debug!(%fault, "seats: removal of a lost node's claim failed, retrying");
                given.push(key);
            }
            let dead = self.nodes.dead(&self.link, &self.node_keys).await;
            // Nobody is gone most of the time: then no seat is looked at.
            if given.is_empty() && !dead.is_empty() {
                let lapsed = self.lapsed(&dead);
                if !lapsed.is_empty() {
                    return lapsed;
                }
                let view = self.seats.view();
                let named: HashSet<_> = view.seats().flat_map(|(_, seat)| &seat.nodes).cloned().collect();
                drop(view);
                self.nodes.forget(&dead, |node| named.contains(node));
            }
            let _ = tokio::time::timeout(self.link.timings.lapse_interval, changed.changed()).await;
        }
    }

    /// Some places that only nodes hold that are gone.
    fn lapsed(&self, dead: &[String]) -> Vec<(String, SeatValue)> {
        let view = self.seats.view();
        let lapsed = view.seats().filter(|(_, seat)| seat.nodes.iter().all(|node| dead.contains(node)));
        lapsed.take(CONCURRENT_LAPSES).map(|(key, seat)| (key.clone(), seat.clone())).collect()
    }

    async fn forget_the_dead(&self, key: &str) -> Result<(), NatsFault> {
        let (revision, seat) = self.look_at(key).await?;
        let lives = |node: &String| *node == self.node || self.nodes.is_alive(node);
        match seat {
            Some(seat) if !seat.nodes.iter().any(lives) => {
                match self.seat_keys.remove(&self.link, key, Some(revision)).await {
                    Ok(revision) => {
                        self.seats.view().learn(key, revision, None);
                        Ok(())
                    }
                    // Somebody has come back to it, or another node was faster.
                    Err(NatsFault::Raced) => Ok(()),
                    Err(fault) => Err(fault),
                }
            }
            Some(_) => Ok(()),
            None => {
                self.seats.view().remove(key);
                Ok(())
            }
        }
    }
}
