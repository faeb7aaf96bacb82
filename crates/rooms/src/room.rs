//! A room: a topic's live state on this node.
//!
//! Order of things, for each batch of the log's tail: the fold takes it, the ring takes it, the readers are woken. Whoever holds the
//! fold's lock therefore sees fold and ring at the same point of the log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use futures_util::future::BoxFuture;
use salon_log::{AppendError, Appended, ReadError, Standing, TopicLog};
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

/// How many readers are told of something before other tasks may run.
const BELLS_AT_ONCE: usize = 128;

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
            seating: Mutex::new(Seating::restore(fold.roster())),
            fold: Mutex::new(fold),
            ring: RwLock::new(Ring::new(head, common.settings.ring, common.ring_budget.clone())),
            common,
            next_batch: AtomicU64::new(0),
            folded: watch::Sender::new(head),
            listeners: Mutex::default(),
            departure: Notify::new(),
            visits: AtomicUsize::new(0),
        }
    }

    pub(crate) fn fold(&self) -> MutexGuard<'_, Fold> {
        self.fold.lock().expect("no code panics while it holds the fold")
    }

    pub(crate) fn ring(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read().expect("no code panics while it holds the ring")
    }

    pub(crate) fn seating(&self) -> MutexGuard<'_, Seating> {
        self.seating.lock().expect("no code panics while it holds the seating")
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().expect("no code panics while it holds the listeners")
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

    /// Whether anybody uses the room, or the log says that somebody is in it.
    pub(crate) fn is_idle(&self) -> bool {
        self.visits.load(Ordering::Acquire) == 0 && self.seating().is_empty()
    }

    /// Waits until the fold has come to an offset.
    pub(crate) async fn folded(&self, offset: u64) {
        // The sender lives in this room, so the wait cannot fail.
        let _ = self.folded.subscribe().wait_for(|&at| at >= offset).await;
    }

    /// Begins again after a gap in the log.
    pub(crate) async fn restart(&self, resume: Position) -> Result<(), ReadError> {
        let standing = self.log.standing(&self.topic).await?;
        let mut fold = self.fold();
        *fold = Fold::restore(&standing);
        let mut ring = self.ring.write().expect("no code panics while it holds the ring");
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
        let (first, batches) = {
            let mut fold = self.fold();
            let batches = Batch::cut(entries, |entry| fold.apply(entry));
            let mut ring = self.ring.write().expect("no code panics while it holds the ring");
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

    /// Composes a presence envelope and submits it. The caller holds the seating's lock, which is what keeps presence in order.
    pub(crate) fn submit_presence(
        &self,
        event: PresenceEvent,
        participant: &Participant,
        reason: Option<String>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        let id = uuid::Uuid::new_v4().to_string();
        let envelope = Compose {
            id: &id,
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

    /// Appends the leaves of those who have gone and are not back, here or on another node.
    pub(crate) async fn see_off(&self) -> Result<(), ReadError> {
        let departed = self.seating().take_departed();
        if departed.is_empty() {
            return Ok(());
        }
        let elsewhere = self.log.roster(&self.topic).await?;
        let mut leaves = Vec::new();
        {
            let mut seating = self.seating();
            for (id, reason) in departed.into_iter().filter(|(id, _)| !elsewhere.contains(id)) {
                if let Some(participant) = seating.withdraw(&id) {
                    leaves.push(self.submit_presence(PresenceEvent::Leave, &participant, reason));
                }
            }
        }
        for leave in leaves {
            if let Err(error) = leave.await {
                tracing::warn!(topic = %self.topic, %error, "a leave could not be stored");
            }
        }
        Ok(())
    }
}

/// Where an envelope stands.
pub async fn resolve(log: &dyn TopicLog, topic: &TopicName, id: &EnvelopeId) -> Result<Position, Refusal> {
    let found = log.find(topic, id).await.map_err(|error| unreadable(&error))?;
    let unknown = || Refusal::new(Code::NotFound, format!("no envelope `{id}` is kept in this topic"));
    Ok(found.ok_or_else(unknown)?.entry.position)
}

/// What is said when the log cannot be read; why is for the log lines alone.
pub fn unreadable(error: &ReadError) -> Refusal {
    tracing::error!(%error, "the log could not be read");
    Refusal::new(Code::Internal, "the gateway's log could not be read")
}

pub(crate) fn unwritable(error: &AppendError) -> Refusal {
    match error {
        AppendError::IdConflict => Refusal::new(Code::IdConflict, "the id is taken by another envelope in this topic"),
        AppendError::Stopped(_) => Refusal::new(Code::Closing, "the gateway cannot store messages any more"),
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
