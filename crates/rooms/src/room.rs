//! A room: a topic's live state on this node.
//!
//! Order of things, for each batch of the log's tail: the attendance takes it, the ring takes it, the readers are woken. A task that holds
//! the attendance's lock therefore sees it and the ring at the same point of the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use salon_control::ControlNotice;
use salon_log::{AppendError, CallClosure, FoldEffect, ReadError, Standing, TopicLog};
use salon_protocol::{CloseReason, Code, Entry, EnvelopeId, ParticipantId, Position, Refusal, Timestamp, TopicName};
use tokio::sync::{Notify, watch};

use crate::attendance::Attendance;
use crate::batch::Batch;
use crate::bell::Bell;
use crate::control::ReaderCredentials;
use crate::delivery_order::DeliveryOrder;
use crate::ghosts::GhostBenches;
use crate::lifecycle::Lifecycle;
use crate::limits::ByteBudget;
use crate::presence::Appending;
use crate::redactions::RoomRedactions;
use crate::registry::{Common, Witness};
use crate::ring::Ring;
use crate::solicited::Solicited;
use crate::topic_limits::{AgentChains, TopicBudgets};
use crate::turn::RoomTurn;

/// What is said while the log is out of reach.
const UNREACHABLE: &str = "the gateway cannot reach its log now; try again, or another gateway";

/// What is said while the disk of the log is nearly full.
const READ_ONLY: &str = "the gateway stores nothing now, because its disk is nearly full; reading goes on";

/// How many readers are woken before other tasks may run.
const BELLS_AT_ONCE: usize = 128;

/// How long to wait before a log that was out of reach is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

pub(crate) struct Room {
    pub(crate) topic: TopicName,
    pub(crate) epoch: u32,
    pub(crate) log: Arc<dyn TopicLog>,
    pub(crate) common: Arc<Common>,
    attendance: Mutex<Attendance>,
    ring: RwLock<Ring>,
    /// Mirrors the ring's next batch, so that a reader who is up to date takes no lock.
    next_batch: AtomicU64,
    /// The offset the attendance has come to.
    folded: watch::Sender<u64>,
    lifecycle: watch::Sender<Lifecycle>,
    listeners: Mutex<Listeners>,
    pub(crate) departure: Notify,
    /// The settings or the held calls have changed.
    pub(crate) control_changed: Notify,
    /// Counts the changes of settings and held calls, for the host.
    pub(crate) control_changes: watch::Sender<u64>,
    /// The offset up to which the callees of stopped callers have been told.
    pub(crate) cancelled_through: AtomicU64,
    visits: AtomicUsize,
    pub(crate) solicited: Solicited,
    pub(crate) redactions: RoomRedactions,
    pub(crate) byte_budget: ByteBudget,
    pub(crate) topic_budgets: TopicBudgets,
    pub(crate) chains: AgentChains,
    /// Joins that nobody waits for and of which it is not known yet whether they are stored.
    pub(crate) announcements: Mutex<Vec<(ParticipantId, EnvelopeId, Appending)>>,
    pub(crate) ghost_benches: GhostBenches,
    pub(crate) turn: RoomTurn,
    /// Whether the witness has the notice that deleted the topic.
    pub(crate) is_deletion_witnessed: AtomicBool,
}

#[derive(Default)]
struct Listeners {
    bells: HashMap<u64, Arc<Bell>>,
    next: u64,
}

impl Room {
    pub(crate) fn new(topic: TopicName, log: Arc<dyn TopicLog>, common: Arc<Common>, standing: &Standing) -> Self {
        let head = standing.head.offset;
        let attendance = Attendance::restore(standing, common.settings.timings);
        // The newest settings may have stopped callers just before this node ended, or another.
        let cancelled_through = attendance.fold().settings_at().map_or(head, |offset| offset - 1);
        Self {
            topic,
            epoch: standing.head.epoch,
            log,
            attendance: Mutex::new(attendance),
            ring: RwLock::new(Ring::new(head, common.settings.ring, common.ring_budget.clone())),
            byte_budget: ByteBudget::of_topic(common.settings.byte_rates.topic),
            topic_budgets: TopicBudgets::default(),
            chains: AgentChains::default(),
            solicited: Solicited::default(),
            redactions: RoomRedactions::default(),
            common,
            next_batch: AtomicU64::new(0),
            folded: watch::Sender::new(head),
            lifecycle: watch::Sender::new(Lifecycle::Opening),
            listeners: Mutex::default(),
            departure: Notify::new(),
            control_changed: Notify::new(),
            control_changes: watch::Sender::new(0),
            cancelled_through: AtomicU64::new(cancelled_through),
            visits: AtomicUsize::new(0),
            announcements: Mutex::default(),
            ghost_benches: GhostBenches::default(),
            turn: RoomTurn::default(),
            is_deletion_witnessed: AtomicBool::new(false),
        }
    }

    /// Refuses a newcomer that the room has no space for.
    pub(crate) fn check_population(
        &self,
        attendance: &Attendance,
        id: &ParticipantId,
        now: Instant,
    ) -> Result<(), Refusal> {
        let limit = self.common.settings.participants;
        if limit > 0 && attendance.announced(id, now).is_none() && attendance.population(now) >= limit {
            let participants = if limit == 1 { "participant" } else { "participants" };
            let message = format!("the room is full; the limit is {limit} {participants}");
            return Err(Refusal::new(Code::RateLimited, message));
        }
        Ok(())
    }

    pub(crate) fn attendance(&self) -> MutexGuard<'_, Attendance> {
        self.attendance.lock()
    }

    /// Whether another thread works on the attendance just now.
    pub(crate) fn is_attendance_busy(&self) -> bool {
        self.attendance.is_locked()
    }

    pub(crate) fn ring(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read()
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

    /// Ends the readers whose credentials say so.
    pub(crate) fn end_readers(&self, reason: CloseReason, ends: impl Fn(&ReaderCredentials) -> bool) {
        for bell in self.listeners().bells.values() {
            if bell.credentials.as_ref().is_some_and(&ends) {
                bell.end(reason);
            }
        }
    }

    /// The bells of those that sit here.
    pub(crate) fn seat_bells(&self) -> Vec<Arc<Bell>> {
        let is_seat = |bell: &&Arc<Bell>| bell.credentials.is_some() && bell.interest.reader.is_some();
        self.listeners().bells.values().filter(is_seat).cloned().collect()
    }

    pub(crate) fn unlisten(&self, number: u64) {
        self.listeners().bells.remove(&number);
    }

    /// Whether nobody uses the room here, and nobody has to be removed or waited for.
    pub(crate) fn is_idle(&self) -> bool {
        let attendance = self.attendance();
        let is_nothing_held = attendance.fold().held_calls().is_empty();
        self.visits.load(Ordering::Acquire) == 0 && is_nothing_held && attendance.is_idle(Instant::now())
    }

    /// Waits until an offset is folded; says whether that happened before the room ended.
    pub(crate) async fn folded(&self, offset: u64) -> bool {
        let (mut folded, mut lifecycle) = (self.folded.subscribe(), self.lifecycle.subscribe());
        tokio::select! { biased;
            // The senders live in this room, so neither wait can fail.
            _ = folded.wait_for(|&at| at >= offset) => true,
            _ = lifecycle.wait_for(|stage| matches!(stage, Lifecycle::Ended(_))) => false,
        }
    }

    /// Why readers of this room must go, once they must.
    pub(crate) fn end_reason(&self) -> Option<CloseReason> {
        let end = self.lifecycle.borrow().end();
        end.or_else(|| self.common.is_dismissed().then_some(CloseReason::Shutdown))
    }

    /// Waits until readers of this room must go.
    pub(crate) async fn ending(&self) {
        // The sender lives in this room, so the wait cannot fail.
        let _ = self.lifecycle.subscribe().wait_for(|stage| stage.end().is_some()).await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.lifecycle.borrow(), Lifecycle::Ended(_))
    }

    /// Goes on to another stage. Readers of an ending room are notified.
    pub(crate) fn advance(&self, next: Lifecycle) {
        if Lifecycle::advance(&self.lifecycle, next)
            && let Some(reason) = next.end()
        {
            for bell in self.listeners().bells.values() {
                bell.end(reason);
            }
        }
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
        // The notice is among what was missed.
        if standing.deletion.is_some_and(|deletion| deletion.at > *self.folded.borrow()) {
            self.end_by_deletion();
            return Ok(());
        }
        let _turn = self.turn.wait().await;
        let mut attendance = self.attendance();
        for participant in attendance.restart(&standing, Instant::now()) {
            self.announce(&mut attendance, participant);
        }
        let mut ring = self.ring.write();
        ring.restart(resume.offset);
        self.next_batch.store(ring.next(), Ordering::Release);
        drop((ring, attendance));
        self.folded.send_replace(resume.offset);
        self.control_changed.notify_one();
        self.control_changes.send_modify(|count| *count += 1);
        for bell in self.listeners().bells.values() {
            bell.ring();
        }
        Ok(())
    }

    /// The offset of the newest entry that the room has taken.
    pub(crate) fn head(&self) -> u64 {
        self.ring().head()
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.lifecycle.borrow() == Lifecycle::Open
    }

    pub(crate) fn reader_count(&self) -> usize {
        self.listeners().bells.len()
    }

    /// The bells of everybody who reads, in the order in which these batches are delivered.
    pub(crate) fn bells_for(&self, batches: &[Arc<Batch>]) -> Vec<Arc<Bell>> {
        DeliveryOrder::of(batches).sort(self.listeners().bells.values())
    }

    /// Takes the next entries of the log and tells everyone who reads.
    pub(crate) async fn take(&self, mut entries: Vec<Arc<Entry>>) {
        let _turn = self.turn.wait().await;
        // The thread that stored them may have delivered some while the tail was reading.
        let head = self.head();
        entries.retain(|entry| entry.position.offset > head);
        let Some(taken) = self.fold_in(entries) else { return };
        // Listed after the ring has them: a reader that comes later finds them there.
        for some in self.bells_for(&taken.batches).chunks(BELLS_AT_ONCE) {
            for bell in some {
                bell.announce(taken.first, &taken.batches);
            }
            if some.len() == BELLS_AT_ONCE {
                tokio::task::yield_now().await;
            }
        }
        self.report(&taken);
    }

    /// Folds entries and puts them into the ring. By the holder of the turn alone.
    pub(crate) fn fold_in(&self, entries: Vec<Arc<Entry>>) -> Option<TakenEntries> {
        let last = entries.last().map(|entry| entry.position.offset)?;
        let changes_control = entries.iter().any(|entry| ControlNotice::is_one(&entry.envelope));
        let redacted = if changes_control { self.redactions.note(&entries) } else { Vec::new() };
        let entries = match redacted.is_empty() {
            true => entries,
            false => entries.iter().map(|entry| self.redactions.current(entry)).collect(),
        };
        let is_deleted = changes_control && entries.iter().any(|entry| ControlNotice::deletes_topic(&entry.envelope));
        if self.attendance().fold().settings().is_some() {
            self.chains.note(entries.iter().map(|entry| &**entry));
        }
        let (first, batches, changes_status_end, ends_holds) = {
            let (mut attendance, mut returning, now) = (self.attendance(), Vec::new(), Instant::now());
            let status_end = attendance.fold().next_status_end();
            let held = attendance.fold().held_calls().len();
            let batches = Batch::cut(entries, |entry| {
                let (effect, returns) = attendance.take(entry, now);
                returning.extend(returns);
                effect == FoldEffect::FailsCalls
            });
            for participant in returning {
                self.announce(&mut attendance, participant);
            }
            let mut ring = self.ring.write();
            redacted.iter().for_each(|message| ring.redact(message));
            let first = ring.next();
            for batch in &batches {
                ring.push(batch.clone());
            }
            self.next_batch.store(ring.next(), Ordering::Release);
            // A held call ends without a notice as well: by a cancellation, or with its caller. None begins without one.
            let ends_holds = attendance.fold().held_calls().len() != held;
            (first, batches, attendance.fold().next_status_end() != status_end, ends_holds)
        };
        self.folded.send_replace(last);
        for batch in &batches {
            self.solicited.note_answered(batch.entries());
        }
        Some(TakenEntries { first, batches, changes_control, changes_status_end, ends_holds, is_deleted })
    }

    /// Tells everyone but the readers of what was taken.
    pub(crate) fn report(&self, taken: &TakenEntries) {
        if taken.changes_control || taken.changes_status_end {
            self.control_changed.notify_one();
        }
        if taken.changes_control || taken.ends_holds {
            self.control_changes.send_modify(|count| *count += 1);
        }
        let is_repeated = taken.is_deleted && self.is_deletion_witnessed.swap(true, Ordering::AcqRel);
        if let Some(witness) = self.common.settings.witness.as_ref() {
            for batch in &taken.batches {
                match is_repeated {
                    true => witness_without_deletion(witness, &self.topic, batch),
                    false => witness(&self.topic, batch),
                }
            }
        }
        if taken.is_deleted {
            self.end_by_deletion();
        }
    }
}

/// Shows a batch to the witness but for the notice of the topic's deletion, which it has already.
fn witness_without_deletion(witness: &Witness, topic: &TopicName, batch: &Batch) {
    let is_other = |entry: &&Arc<Entry>| !ControlNotice::deletes_topic(&entry.envelope);
    let others: Vec<_> = batch.entries().iter().filter(is_other).cloned().collect();
    Batch::cut(others, |_| false).iter().for_each(|batch| witness(topic, batch));
}

/// What a room has folded and put into its ring.
pub(crate) struct TakenEntries {
    /// The number of the first batch.
    pub(crate) first: u64,
    pub(crate) batches: Vec<Arc<Batch>>,
    changes_control: bool,
    changes_status_end: bool,
    ends_holds: bool,
    is_deleted: bool,
}

/// Where an envelope stands.
pub async fn resolve(log: &dyn TopicLog, topic: &TopicName, id: &EnvelopeId) -> Result<Position, Refusal> {
    let found = log.find(topic, id).await.map_err(|error| unreadable(&error))?;
    let unknown = || Refusal::new(Code::NotFound, format!("no envelope `{id}` is kept in this topic"));
    Ok(found.ok_or_else(unknown)?.position)
}

/// What is said when the log cannot be read; why is for the log lines alone.
pub fn unreadable(error: &ReadError) -> Refusal {
    if let ReadError::Unavailable(_) = error {
        return Refusal::new(Code::Closing, UNREACHABLE);
    }
    tracing::error!(%error, "room: store unreadable, request refused");
    Refusal::new(Code::Internal, "the gateway's log could not be read")
}

/// What is said when a room has ended before something was done there.
pub(crate) fn closed() -> Refusal {
    Refusal::new(Code::Closing, "the room was closed meanwhile; try again")
}

pub(crate) fn unwritable(error: &AppendError) -> Refusal {
    match error {
        AppendError::IdConflict => Refusal::new(Code::IdConflict, "the id is taken by another envelope in this topic"),
        AppendError::CallEnded(CallClosure::Failed) => Refusal::new(Code::CallEnded, "the call it answers has failed"),
        AppendError::CallEnded(CallClosure::Answered) => {
            Refusal::new(Code::CorrelationMismatch, "the request it answers was already answered")
        }
        AppendError::Stopped(_) => Refusal::new(Code::Closing, "the gateway cannot store messages any more"),
        AppendError::Unavailable(_) => Refusal::new(Code::Closing, UNREACHABLE),
        AppendError::ReadOnly(_) => Refusal::new(Code::Closing, READ_ONLY),
        AppendError::Stale => Refusal::new(Code::VersionConflict, "it was decided otherwise meanwhile"),
        AppendError::Refused(_) | AppendError::NotPresent => {
            tracing::error!(%error, "room: message not stored, refused");
            Refusal::new(Code::Internal, "the gateway's log does not take this message")
        }
        AppendError::Quota(exceeded) => Refusal::new(Code::StorageFull, exceeded.to_string()),
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

/// A room that stays open while this lives, though the holder has no seat in it.
pub struct RoomVisit(#[expect(dead_code, reason = "held for its drop")] pub(crate) RoomGuard);

/// Keeps a room from being evicted.
pub(crate) struct RoomGuard(Arc<Room>);

impl RoomGuard {
    /// Only under the registry's lock, so that a room is never evicted between being found and being visited.
    pub(crate) fn new(room: Arc<Room>) -> Self {
        room.visits.fetch_add(1, Ordering::AcqRel);
        Self(room)
    }

    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.0
    }
}

impl Drop for RoomGuard {
    fn drop(&mut self) {
        self.0.visits.fetch_sub(1, Ordering::AcqRel);
    }
}
