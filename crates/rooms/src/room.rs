//! A room: a topic's live state on this node.
//!
//! Order of things, for each batch of the log's tail: the fold takes it, the ring takes it, the readers are woken. Whoever holds the
//! fold's lock therefore sees fold and ring at the same point of the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use salon_log::{AppendError, Appended, Health, ReadError, Standing, TopicLog};
use salon_protocol::{
    CloseReason, Code, Compose, Entry, EnvelopeId, Kind, Participant, ParticipantId, Position, Presence, PresenceEvent,
    Refusal, Timestamp, TopicName,
};
use tokio::sync::{Notify, watch};

use crate::batch::Batch;
use crate::bell::Bell;
use crate::fold::Fold;
use crate::registry::Common;
use crate::ring::Ring;
use crate::seating::Seating;

/// What is said while the log is out of reach.
const UNREACHABLE: &str = "the gateway cannot reach its log now; try again, or another gateway";

/// How many readers are told of something before other tasks may run.
const BELLS_AT_ONCE: usize = 128;

/// How long to wait before a log that was out of reach is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

pub(crate) struct Room {
    pub(crate) topic: TopicName,
    pub(crate) epoch: u32,
    pub(crate) log: Arc<dyn TopicLog>,
    pub(crate) common: Arc<Common>,
    pub(crate) seating: Mutex<Seating>,
    fold: Mutex<Fold>,
    ring: RwLock<Ring>,
    /// Mirrors the ring's next batch, so that a reader who is up to date takes no lock.
    next_batch: AtomicU64,
    /// The offset the fold has come to.
    folded: watch::Sender<u64>,
    listeners: Mutex<Listeners>,
    pub(crate) departure: Notify,
    visits: AtomicUsize,
    /// Joins that nobody waits for and of which it is not known yet whether they are stored.
    announcements: Mutex<Vec<(ParticipantId, EnvelopeId, Appending)>>,
}

#[derive(Default)]
struct Listeners {
    bells: HashMap<u64, Arc<Bell>>,
    next: u64,
}

impl Room {
    pub(crate) fn new(topic: TopicName, log: Arc<dyn TopicLog>, common: Arc<Common>, standing: &Standing) -> Self {
        let fold = Fold::restore(standing);
        let head = standing.head.offset;
        Self {
            topic,
            epoch: standing.head.epoch,
            log,
            seating: Mutex::new(Seating::restore(standing, common.settings.timings)),
            fold: Mutex::new(fold),
            ring: RwLock::new(Ring::new(head, common.settings.ring, common.ring_budget.clone())),
            common,
            next_batch: AtomicU64::new(0),
            folded: watch::Sender::new(head),
            listeners: Mutex::default(),
            departure: Notify::new(),
            visits: AtomicUsize::new(0),
            announcements: Mutex::default(),
        }
    }

    pub(crate) fn fold(&self) -> MutexGuard<'_, Fold> {
        self.fold.lock()
    }

    pub(crate) fn ring(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read()
    }

    pub(crate) fn seating(&self) -> MutexGuard<'_, Seating> {
        self.seating.lock()
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock()
    }

    pub(crate) fn next_batch(&self) -> u64 {
        self.next_batch.load(Ordering::Acquire)
    }

    pub(crate) fn listen(&self, bell: Arc<Bell>) -> u64 {
        let mut listeners = self.listeners();
        listeners.next += 1;
        let number = listeners.next;
        listeners.bells.insert(number, bell);
        number
    }

    pub(crate) fn unlisten(&self, number: u64) {
        self.listeners().bells.remove(&number);
    }

    /// Whether nobody uses the room here, and nobody has to be seen off or waited for.
    pub(crate) fn is_idle(&self) -> bool {
        self.visits.load(Ordering::Acquire) == 0 && self.seating().is_idle()
    }

    /// Waits until the fold has come to an offset.
    pub(crate) async fn folded(&self, offset: u64) {
        // The sender lives in this room, so the wait cannot fail.
        let _ = self.folded.subscribe().wait_for(|&at| at >= offset).await;
    }

    /// Begins again after a gap in the log.
    pub(crate) async fn restart(&self, resume: Position) -> Result<(), ReadError> {
        let standing = loop {
            match self.log.standing(&self.topic).await {
                // Out of reach: the room waits with its log.
                Err(ReadError::Unavailable(_)) => tokio::time::sleep(RETRY_DELAY).await,
                standing => break standing?,
            }
        };
        {
            let mut seating = self.seating();
            for participant in seating.restart(&standing) {
                self.announce(&mut seating, participant);
            }
        }
        let mut fold = self.fold();
        *fold = Fold::restore(&standing);
        let mut ring = self.ring.write();
        ring.restart(resume.offset);
        self.next_batch.store(ring.next(), Ordering::Release);
        drop((ring, fold));
        self.folded.send_replace(resume.offset);
        for bell in self.listeners().bells.values() {
            bell.ring();
        }
        Ok(())
    }

    /// Takes the next entries of the log and tells everyone who reads.
    pub(crate) async fn take(&self, entries: Vec<Arc<Entry>>) {
        let Some(last) = entries.last().map(|entry| entry.position.offset) else { return };
        self.hear_presence(&entries);
        let (first, batches) = {
            let mut fold = self.fold();
            let batches = Batch::cut(entries, |entry| fold.apply(entry));
            let mut ring = self.ring.write();
            let first = ring.next();
            for batch in &batches {
                ring.push(batch.clone());
            }
            self.next_batch.store(ring.next(), Ordering::Release);
            (first, batches)
        };
        self.folded.send_replace(last);
        let bells: Vec<_> = self.listeners().bells.values().cloned().collect();
        for some in bells.chunks(BELLS_AT_ONCE) {
            for bell in some {
                bell.announce(first, &batches);
            }
            if some.len() == BELLS_AT_ONCE {
                tokio::task::yield_now().await;
            }
        }
        if let Some(witness) = &self.common.settings.witness {
            for batch in &batches {
                witness(&self.topic, batch);
            }
        }
    }

    /// Ends every reader.
    pub(crate) fn end(&self, reason: CloseReason) {
        for bell in self.listeners().bells.values() {
            bell.end(reason);
        }
    }

    /// Takes in who came and went by what other nodes say. Somebody who sits here and has left by that comes again.
    fn hear_presence(&self, entries: &[Arc<Entry>]) {
        for entry in entries.iter().filter(|entry| entry.envelope.kind() == Kind::Presence) {
            let Some(presence) = entry.envelope.presence() else { continue };
            let mut seating = self.seating();
            if let Some(participant) = seating.hear(entry.envelope.id(), presence) {
                self.announce(&mut seating, participant);
            }
        }
    }

    /// Has everybody join again who sits here and is not present by the log: it may have been out of reach when that was to be said.
    pub(crate) fn reconcile(&self) {
        let mut seating = self.seating();
        self.settle(&mut seating);
        let unheard = {
            let fold = self.fold();
            seating.unheard(|id| fold.is_present(id))
        };
        for participant in unheard {
            self.announce(&mut seating, participant);
        }
    }

    /// Submits a join and does not wait for it.
    fn announce(&self, seating: &mut Seating, participant: Arc<Participant>) {
        self.settle(seating);
        let (id, join) = (participant.id.clone(), random_id());
        let append = self.submit_join_as(seating, participant, join.clone());
        self.announcements().push((id, join, append));
    }

    /// Notes which of the joins that nobody waits for were not stored, so that they are submitted again.
    fn settle(&self, seating: &mut Seating) {
        self.announcements().retain_mut(|(id, join, append)| match append.now_or_never() {
            None => true,
            Some(outcome) => {
                if outcome.is_err() {
                    seating.not_stored(id, join);
                }
                false
            }
        });
    }

    fn announcements(&self) -> MutexGuard<'_, Vec<(ParticipantId, EnvelopeId, Appending)>> {
        self.announcements.lock()
    }

    /// Submits a join.
    pub(crate) fn submit_join(&self, seating: &mut Seating, participant: Arc<Participant>) -> Appending {
        self.submit_join_as(seating, participant, random_id())
    }

    fn submit_join_as(&self, seating: &mut Seating, participant: Arc<Participant>, id: EnvelopeId) -> Appending {
        let append = self.submit_presence(&id, PresenceEvent::Join, &participant, None);
        seating.announce(participant, id);
        append
    }

    /// Composes a presence envelope and submits it. The caller holds the seating's lock, which is what keeps presence in order.
    fn submit_presence(
        &self,
        id: &EnvelopeId,
        event: PresenceEvent,
        participant: &Participant,
        reason: Option<String>,
    ) -> Appending {
        let envelope = Compose {
            id: id.as_str(),
            ts: now(),
            from: &ParticipantId::host(),
            to: &[],
            kind: Kind::Presence,
            correlation_id: None,
            payload: Presence { event, participant: participant.clone(), reason },
        }
        .envelope();
        self.log.append(&self.topic, envelope)
    }

    /// Appends the leaves of those who have gone and are not back, here or on another node. Says whether all of them are stored.
    pub(crate) async fn see_off(&self) -> Result<bool, ReadError> {
        let departed = self.seating().take_departed();
        if departed.is_empty() {
            return Ok(true);
        }
        let elsewhere = match self.log.roster(&self.topic).await {
            Ok(elsewhere) => elsewhere,
            Err(error) => {
                self.seating().still_departed(departed);
                return patiently::<()>(Err(error)).map(|_| false);
            }
        };
        let mut leaves = Vec::new();
        {
            let mut seating = self.seating();
            for (id, reason) in departed.into_iter().filter(|(id, _)| !elsewhere.contains(id)) {
                if let Some(announced) = seating.withdraw(&id) {
                    let leave = leave_of(&announced.join, self.common.settings.leaves);
                    let append =
                        self.submit_presence(&leave, PresenceEvent::Leave, &announced.participant, reason.clone());
                    seating.submitted(&id, leave.clone());
                    leaves.push((announced, reason, leave, append));
                }
            }
        }
        let mut is_done = true;
        for (announced, reason, leave, append) in leaves {
            let id = &announced.participant.id;
            let Err(error) = append.await else { continue };
            self.seating().not_stored(id, &leave);
            let has_left = match error {
                AppendError::IdConflict => self.has_left(id, &leave).await,
                _ => Ok(false),
            };
            match error {
                // One that cannot be looked up is no reason to give up on the others.
                AppendError::IdConflict if has_left.is_err() => {
                    self.seating().put_back(announced, reason);
                    is_done = false;
                }
                // Another node has said so, or somebody else has taken the id, who cannot keep them here by that.
                AppendError::IdConflict if has_left == Ok(true) => {}
                AppendError::IdConflict => {
                    let other = random_id();
                    let append =
                        self.submit_presence(&other, PresenceEvent::Leave, &announced.participant, reason.clone());
                    if append.await.is_err() {
                        self.seating().put_back(announced, reason);
                        is_done = false;
                    }
                }
                AppendError::Unavailable(_) => {
                    self.seating().put_back(announced, reason);
                    is_done = false;
                }
                error => tracing::warn!(topic = %self.topic, %error, "a leave could not be stored"),
            }
        }
        Ok(is_done)
    }

    /// Repairs what nobody has seen coming: has those see off who have no place anywhere, and those join again who sit here. Says whether
    /// somebody is to be seen off.
    pub(crate) async fn repair(&self) -> Result<bool, ReadError> {
        // What is known of places is not to be trusted while they cannot be heard of.
        if *self.log.health().borrow() != Health::Writable {
            return Ok(false);
        }
        self.reconcile();
        let placed = patiently(self.log.roster(&self.topic).await)?;
        Ok(placed.is_some_and(|placed| self.seating().depart_orphaned(&placed, Instant::now())))
    }

    /// Whether an envelope is somebody's leave.
    async fn has_left(&self, id: &ParticipantId, leave: &EnvelopeId) -> Result<bool, ReadError> {
        let found = self.log.find(&self.topic, leave).await?;
        let presence = found.and_then(|found| found.entry.envelope.presence());
        Ok(presence.is_some_and(|said| said.event == PresenceEvent::Leave && said.participant.id == *id))
    }
}

/// What was read, or nothing where the log was out of reach.
fn patiently<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Err(ReadError::Unavailable(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// An append on its way.
pub(crate) type Appending = BoxFuture<'static, Result<Appended, AppendError>>;

fn random_id() -> EnvelopeId {
    EnvelopeId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is an id")
}

/// The id of the leave that ends a join: one and the same on every node, so that however many see somebody off, it is told once. Nobody
/// else can foresee it, and take it first.
fn leave_of(join: &EnvelopeId, secret: [u8; 16]) -> EnvelopeId {
    let id = uuid::Uuid::new_v5(&uuid::Uuid::from_bytes(secret), format!("leave {join}").as_bytes());
    EnvelopeId::new(id.to_string()).expect("a UUID is an id")
}

/// Where an envelope stands.
pub async fn resolve(log: &dyn TopicLog, topic: &TopicName, id: &EnvelopeId) -> Result<Position, Refusal> {
    let found = log.find(topic, id).await.map_err(|error| unreadable(&error))?;
    let unknown = || Refusal::new(Code::NotFound, format!("no envelope `{id}` is kept in this topic"));
    Ok(found.ok_or_else(unknown)?.entry.position)
}

/// What is said when the log cannot be read; why is for the log lines alone.
pub fn unreadable(error: &ReadError) -> Refusal {
    if let ReadError::Unavailable(_) = error {
        return Refusal::new(Code::Closing, UNREACHABLE);
    }
    tracing::error!(%error, "the log could not be read");
    Refusal::new(Code::Internal, "the gateway's log could not be read")
}

pub(crate) fn unwritable(error: &AppendError) -> Refusal {
    match error {
        AppendError::IdConflict => Refusal::new(Code::IdConflict, "the id is taken by another envelope in this topic"),
        AppendError::Stopped(_) => Refusal::new(Code::Closing, "the gateway cannot store messages any more"),
        AppendError::Unavailable(_) => Refusal::new(Code::Closing, UNREACHABLE),
        AppendError::Refused(_) => {
            tracing::error!(%error, "a message could not be stored");
            Refusal::new(Code::Internal, "the gateway's log does not take this message")
        }
        AppendError::TooManyTopics(limit) => Refusal::new(
            Code::RateLimited,
            format!("there are {limit} topics, which is the limit of this gateway's log"),
        ),
        AppendError::TooLarge(most) => Refusal::new(
            Code::TooLarge,
            format!("the message is too long for the gateway's log, which takes {most} bytes"),
        ),
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(std::time::SystemTime::now())
}

/// Keeps a room from being put away.
pub(crate) struct Visit(Arc<Room>);

impl Visit {
    /// Only under the registry's lock, so that a room is never put away between being found and being visited.
    pub(crate) fn new(room: Arc<Room>) -> Self {
        room.visits.fetch_add(1, Ordering::AcqRel);
        Self(room)
    }

    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.0
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.visits.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leave_has_the_same_id_everywhere_and_nobody_else_knows_it() {
        let join = random_id();
        let leave = leave_of(&join, [1; 16]);
        assert_eq!(leave, leave_of(&join, [1; 16]), "two gateways would tell it twice");
        assert_ne!(leave, leave_of(&join, [2; 16]), "it can be derived without the key");
        assert_ne!(leave, leave_of(&random_id(), [1; 16]));
    }
}
