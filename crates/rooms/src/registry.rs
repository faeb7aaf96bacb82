//! The rooms of this node: opened when somebody comes, evicted when nobody is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use salon_control::GhostGrant;
use salon_log::{Claim, Fold, Lapse, ReadError, Span, TailSink, TopicLog};
use salon_protocol::{
    CloseReason, Code, Draft, Entry, EnvelopeId, Message, Participant, ParticipantId, Position, Refusal, Stamp,
    TopicName,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::attendance::EntryTerms;
use crate::batch::Batch;
use crate::bell::Bell;
use crate::control::ReaderCredentials;
use crate::cursor::{Cursor, Deliver, Interest};
use crate::ghosts::{BridgeSeat, BridgeSettings, GhostCounts};
use crate::host_access::HostAccess;
use crate::lifecycle::Lifecycle;
use crate::limits::{ByteBudget, ByteRates, Excess, Rate, Rates};
use crate::open_rooms::{OpenRooms, RoomCell};
use crate::presence::Joining;
use crate::publishing::Publishing;
use crate::ring::Budget;
use crate::room::{Room, RoomGuard, RoomVisit, closed, now, resolve, unreadable, unwritable};
use crate::seat::{Seat, SeatClaim};
use crate::timings::Timings;
use crate::visibility::SettingsCache;

/// How often a leave is submitted that cannot be stored.
const MAX_REMOVE_TRIES: usize = 10;
/// How many rooms are looked after at once when a gateway starts, or another is gone: each waits for its log.
const RECOVERED_AT_ONCE: usize = 16;

/// What all rooms have in common.
pub struct Settings {
    /// Bytes of the newest entries that one room keeps in memory.
    pub ring: usize,
    /// Bytes of the same that all rooms keep together.
    pub rings: usize,
    /// How often one participant may publish.
    pub rate: Rate,
    /// How many bytes may be published.
    pub byte_rates: ByteRates,
    /// What bridges may do.
    pub bridges: BridgeSettings,
    /// How many may be in one room. Zero is no limit.
    pub participants: usize,
    /// How many rooms may be open. Zero is no limit.
    pub rooms: usize,
    /// How many of them one participant may have opened. Zero is no limit.
    pub rooms_each: usize,
    /// How long participants that are present by the log have to come back after a start.
    pub grace: Duration,
    /// What the ids of leaves are derived with: the same at all gateways of a log, and known to nobody else.
    pub leaves: [u8; 16],
    /// Is told of everything that enters a room.
    pub witness: Option<Witness>,
    /// How long rooms wait for what; no settings for people.
    pub timings: Timings,
}

/// An observer of everything that enters a room.
pub type Witness = Box<dyn Fn(&TopicName, &Batch) + Send + Sync>;

pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) rates: Rates,
    pub(crate) byte_budget: ByteBudget,
    /// What each bridge has left for all its ghosts together.
    pub(crate) bridge_rates: Rates,
    pub(crate) ghost_counts: GhostCounts,
    pub(crate) ring_budget: Arc<Budget>,
    closing: AtomicBool,
    dismissed: AtomicBool,
}

impl Common {
    pub(crate) fn is_dismissed(&self) -> bool {
        self.dismissed.load(Ordering::SeqCst)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// Who wants in, and how.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The participant, as everyone shall see it.
    pub participant: Participant,
    /// Alone, or beside its other connections.
    pub claim: Claim,
    /// The last envelope it has seen; it begins after this one.
    pub after: Option<EnvelopeId>,
    /// How many of the newest entries it wants at once.
    pub recent: Option<usize>,
    /// Which entries it wants.
    pub deliver: Deliver,
    /// Whether it wants its own.
    pub echo: bool,
    /// What its token says.
    pub stamp: Option<Stamp>,
    /// Whom it may act for, if it is a bridge.
    pub ghosts: Option<GhostGrant>,
}

/// Somebody is in.
pub struct Arrival {
    /// The seat.
    pub seat: Seat,
    /// Who is here, the newcomer included.
    pub roster: Vec<Arc<Participant>>,
    /// The newcomer's requests that wait for an answer and whom they ask, the oldest first.
    pub open_calls: Vec<(EnvelopeId, ParticipantId)>,
    /// The newest entries before the seat begins, oldest first, where they were asked for.
    pub recent: Option<Vec<Arc<Entry>>>,
}

/// The host's place in one room.
pub struct Residence {
    /// Yields what names the host.
    pub cursor: Cursor,
    /// What the host answers from.
    pub desk: HostAccess,
    /// The newest entry when the room was opened. Up to here, what names the host may have been answered before.
    pub opened_at: Position,
    /// All rooms, for tools that are about another one. The room's own task has them as well, so this keeps nothing longer.
    pub rooms: Rooms,
}

/// Runs the host in a room for as long as the room is open.
pub type Host = Box<dyn Fn(Residence) -> BoxFuture<'static, ()> + Send + Sync>;

/// The rooms of this node.
#[derive(Clone)]
pub struct Rooms(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    log: Arc<dyn TopicLog>,
    pub(crate) common: Arc<Common>,
    host: Host,
    open: Mutex<OpenRooms>,
    pub(crate) known_settings: SettingsCache,
    tasks: Mutex<JoinSet<()>>,
    pub(crate) closing: watch::Sender<bool>,
}

impl Rooms {
    /// No room is open yet.
    pub fn new(log: Arc<dyn TopicLog>, settings: Settings, host: Host) -> Self {
        let common = Common {
            rates: Rates::new(settings.rate, settings.byte_rates.participant),
            byte_budget: ByteBudget::of_gateway(settings.byte_rates.gateway),
            bridge_rates: Rates::of_bridges(settings.bridges.rate, settings.bridges.byte_rate),
            ghost_counts: GhostCounts::new(settings.bridges.ghosts),
            ring_budget: Arc::new(Budget::new(settings.rings)),
            closing: AtomicBool::new(false),
            dismissed: AtomicBool::new(false),
            settings,
        };
        let open = OpenRooms::new(common.settings.rooms, common.settings.rooms_each);
        Self(Arc::new(Inner {
            log,
            common: Arc::new(common),
            host,
            open: Mutex::new(open),
            known_settings: SettingsCache::default(),
            tasks: Mutex::default(),
            closing: watch::Sender::new(false),
        }))
    }

    /// The log beneath.
    pub fn log(&self) -> &Arc<dyn TopicLog> {
        &self.0.log
    }

    /// Opens every room that the log says somebody is in who has no place on any node, so that participants that do not come back are seen
    /// to leave. The log leaves out topics of which it knows that there is nothing to do. One that cannot be read keeps nobody from the others: it is repaired when it is next opened.
    pub async fn recover(&self) -> Result<(), ReadError> {
        let topics = futures_util::stream::iter(self.0.log.unsettled_topics().await?);
        let recovered = topics.for_each_concurrent(RECOVERED_AT_ONCE, |topic| async move {
            if let Err(error) = self.recover_one(&topic).await {
                tracing::warn!(%topic, %error, "presence recovery: room unreadable, repaired when it is next opened");
            }
        });
        recovered.await;
        Ok(())
    }

    pub(crate) async fn recover_one(&self, topic: &TopicName) -> Result<(), ReadError> {
        let standing = self.0.log.standing(topic).await?;
        let seated = self.0.log.roster(topic).await?;
        let mut present = standing.present.iter().filter_map(|entry| entry.envelope.presence());
        let is_orphaned = present.any(|present| !seated.contains(&present.participant.id));
        // Held calls are decided, or expire.
        let is_held = || !Fold::restore(&standing).held_calls().is_empty();
        if is_orphaned || is_held() {
            self.visit(topic).await?;
        }
        Ok(())
    }

    /// Removes the participants of lost nodes, for ever. On a log that several nodes share it begins with [`Self::recover`].
    pub async fn remove_lapsed(&self) {
        let mut lapses = self.0.log.lapses();
        let lapsing = async {
            while let Some(lapsed) = lapses.next().await {
                futures_util::future::join_all(lapsed.into_iter().map(|lapse| self.remove_one(lapse))).await;
            }
        };
        tokio::join!(lapsing, self.recover_from_ends());
    }

    /// Looks after the rooms of nodes that are gone. What such a node has let go of without a leave, nothing else tells of: it went in
    /// between, or could not store the last of them.
    async fn recover_from_ends(&self) {
        let Some(mut gone) = self.0.log.gone() else { return };
        // This node may have been killed itself, and nobody may have seen it.
        gone.mark_changed();
        while gone.changed().await.is_ok() {
            while let Err(error) = self.recover().await {
                tracing::warn!(%error, "presence recovery: rooms of a lost node unreadable, retrying");
                tokio::time::sleep(self.0.common.settings.timings.retry_delay).await;
            }
        }
    }

    /// Removes a participant of a lost node. A failure is abandoned, so that others need not wait: the node that has that room
    /// open, or opens it next, finds them without a place.
    async fn remove_one(&self, Lapse { topic, participant }: Lapse) {
        tracing::info!(%topic, %participant, "presence: node of the participant lost, appending its leave");
        for _ in 0..MAX_REMOVE_TRIES {
            let removal = async {
                let visit = self.visit(&topic).await?;
                visit.room().attendance().depart(&participant, None);
                visit.room().remove_orphans().await
            };
            match removal.await {
                Ok(true) => return,
                Ok(false) | Err(ReadError::Unavailable(_)) => {}
                Err(error) => tracing::error!(%topic, %participant, %error, "presence: leave failed, retrying"),
            }
            tokio::time::sleep(self.0.common.settings.timings.retry_delay).await;
        }
        tracing::warn!(%topic, %participant, "presence: leave failed too often, left to the room's next repair");
    }

    /// Gives somebody a seat.
    pub async fn enter(&self, topic: &TopicName, admission: Admission) -> Result<Arrival, Refusal> {
        if self.0.common.is_closing() {
            return Err(Refusal::new(Code::Closing, "the gateway is shutting down"));
        }
        let Admission { participant, .. } = &admission;
        self.0.common.settings.bridges.namespaces.check(&participant.id)?;
        self.0.common.rates.take_join(&participant.id, participant.text_bytes()).map_err(|(refusal, _)| refusal)?;
        let after = match &admission.after {
            Some(id) => Some(resolve(&*self.0.log, topic, id).await?.offset),
            None => None,
        };
        let visit = self.visit_as(topic, Some(&admission.participant.id)).await?;
        let room = visit.room().clone();
        let id = admission.participant.id.clone();
        if room.is_deleted() {
            return Err(closed());
        }
        room.check_access(&id, admission.stamp.as_ref())?;

        let interest = Interest {
            reader: Some(id.clone()),
            deliver: admission.deliver,
            without_own: !admission.echo,
            acts_for: admission.ghosts.as_ref().map(|ghosts| ghosts.namespaces.clone()).unwrap_or_default(),
        };
        let credentials = ReaderCredentials { participant: id.clone(), stamp: admission.stamp.clone() };
        let bell = Bell::new(interest, Some(credentials));
        let lost = {
            let bell = bell.clone();
            Box::new(move || bell.end(CloseReason::Replaced))
        };
        let lease = self.0.log.claim(topic, &id, admission.claim, lost).await.map_err(|error| unreadable(&error))?;

        let (place, began, joining) = {
            let (mut attendance, now) = (room.attendance(), Instant::now().into_std());
            room.check_population(&attendance, &id, now)?;
            // An exclusive holder has lost its seat to this claim, on whichever node.
            let is_elsewhere = admission.claim == Claim::Shared && self.0.log.is_elsewhere(topic, &id);
            let entrance = EntryTerms { claim: admission.claim, is_resumed: after.is_some(), is_elsewhere };
            let (participant, joins) = attendance.enter(admission.participant.presentable(), entrance, now);
            let place = SeatClaim::new(room.clone(), participant.clone(), lease);
            let joining = joins.then(|| Joining::submit(&room, &mut attendance, participant));
            (place, room.ring().head(), joining)
        };
        let began = match joining {
            Some(joining) => {
                let joined = joining.stored().await.map_err(|error| unwritable(&error))?;
                if !room.folded(joined).await {
                    return Err(closed());
                }
                joined
            }
            None => began,
        };
        let began = after.unwrap_or(began);
        let cursor = Cursor::new(room.clone(), Some(visit), bell, began);
        // Once more: settings that came meanwhile close the readers that they find, and this one was not there.
        room.check_access(&id, admission.stamp.as_ref())?;
        let recent = match admission.recent {
            Some(limit) => Some(self.newest(&room, began, limit).await?),
            None => None,
        };
        let (roster, open_calls) = {
            let attendance = room.attendance();
            let fold = attendance.fold();
            (fold.roster_with_statuses(now()), fold.open_calls(&id))
        };
        let stamp = admission.stamp;
        let bridge =
            admission.ghosts.map(|ghosts| BridgeSeat::new(&room, &id, ghosts, admission.after.is_some(), stamp));
        Ok(Arrival { seat: Seat::new(cursor, place, bridge), roster, open_calls, recent })
    }

    async fn newest(&self, room: &Room, up_to: u64, limit: usize) -> Result<Vec<Arc<Entry>>, Refusal> {
        let before = Position { epoch: room.epoch, offset: up_to + 1 };
        let page = self.0.log.read(&room.topic, Span::Before(before), limit).await;
        page.map_err(|error| unreadable(&error))
    }

    /// Reads a room without being in it. A room that is opened for this counts as `reader`'s.
    pub async fn observe(
        &self,
        topic: &TopicName,
        after: Option<&EnvelopeId>,
        interest: Interest,
        reader: Option<(&ParticipantId, Option<&Stamp>)>,
    ) -> Result<Cursor, Refusal> {
        let after = match after {
            Some(id) => Some(resolve(&*self.0.log, topic, id).await?.offset),
            None => None,
        };
        let visit = self.visit_as(topic, reader.map(|(reader, _)| reader)).await?;
        let room = visit.room().clone();
        let began = after.unwrap_or_else(|| room.ring().head());
        let credentials =
            reader.map(|(id, stamp)| ReaderCredentials { participant: id.clone(), stamp: stamp.cloned() });
        let cursor = Cursor::new(room.clone(), Some(visit), Bell::new(interest, credentials), began);
        // After the cursor is there: settings that come later close it.
        if let Some((reader, stamp)) = reader {
            room.check_access(reader, stamp)?;
        }
        Ok(cursor)
    }

    /// Publishes without a seat. A request needs one: somebody must be there for the answer. The rate is taken first, and a room is
    /// opened only for what may enter it.
    pub async fn publish(
        &self,
        topic: &TopicName,
        author: &ParticipantId,
        draft: Draft,
    ) -> Result<Publishing, Refusal> {
        let (id, bytes) = (draft.envelope().id().clone(), draft.envelope().text().len());
        self.0
            .common
            .settings
            .bridges
            .namespaces
            .check(author)
            .map_err(|refusal| refusal.regarding(Some(id.clone())))?;
        let is_request = matches!(draft.envelope().message(), Some(Message::Request { .. }));
        let limited = |(refusal, wait): Excess| Publishing::Limited(refusal.regarding(Some(id.clone())), wait);
        if let Some(visit) = self.visit_open(topic) {
            let room = visit.room();
            if let Err(excess) = room.charge(author, draft.envelope()) {
                return Ok(limited(excess));
            }
            if is_request && !room.attendance().fold().is_present(author) {
                return Err(not_here().regarding(Some(id)));
            }
            return Ok(room.admit(author, draft));
        }
        if let Err(excess) = self.0.common.rates.take(author, bytes) {
            return Ok(limited(excess));
        }
        let regarding = |refusal: Refusal| refusal.regarding(Some(id.clone()));
        if is_request {
            let standing = self.0.log.standing(topic).await.map_err(|error| regarding(unreadable(&error)))?;
            if !Fold::restore(&standing).is_present(author) {
                return Err(regarding(not_here()));
            }
        }
        let visit = self.visit_as(topic, Some(author)).await.map_err(regarding)?;
        if let Err(excess) = visit.room().charge_bytes(bytes) {
            return Ok(limited(excess));
        }
        Ok(visit.room().admit(author, draft))
    }

    /// Counts a message that was refused before it came to a room; says how long to wait when there were too many.
    pub fn count_refused(&self, author: &ParticipantId) -> Result<(), Duration> {
        self.0.common.rates.take_message(author)
    }

    /// The refusal that says to wait so long.
    pub fn too_many(&self, wait: Duration) -> Refusal {
        self.0.common.rates.refusal(wait)
    }

    /// Who is in a room.
    pub async fn roster(&self, topic: &TopicName) -> Result<Vec<Arc<Participant>>, Refusal> {
        let room = self.open().room(topic);
        // Asking who is in a room does not open it.
        match room {
            Some(room) => Ok(room.attendance().fold().roster_with_statuses(now())),
            None => {
                let standing = self.0.log.standing(topic).await.map_err(|error| unreadable(&error))?;
                Ok(Fold::restore(&standing).roster_with_statuses(now()))
            }
        }
    }

    /// Opens a room, so that its host answers here while the value lives. The participant counts as its opener.
    pub async fn visit_for(&self, topic: &TopicName, asker: &ParticipantId) -> Result<RoomVisit, Refusal> {
        self.visit_as(topic, Some(asker)).await.map(RoomVisit)
    }

    /// How many participants are present, in how many rooms.
    pub fn census(&self) -> (usize, usize) {
        let open = self.open();
        open.rooms().fold((0, 0), |(people, rooms), room| (people + room.attendance().fold().population(), rooms + 1))
    }

    /// Evicts all rooms, after their readers were dismissed and have gone. A participant that was connected until then stays present, and has a
    /// grace to come back, here or at another node, as after a crash.
    pub async fn close(&self) {
        self.0.closing.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks());
        while tasks.join_next().await.is_some() {}
    }

    /// Refuses newcomers and messages from now on, and ends every reader.
    pub fn dismiss(&self) {
        self.0.common.closing.store(true, Ordering::Release);
        self.0.common.dismissed.store(true, Ordering::SeqCst);
        let rooms: Vec<_> = self.open().rooms().cloned().collect();
        for room in rooms {
            room.advance(Lifecycle::Ending(CloseReason::Shutdown));
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenRooms> {
        self.0.open.lock()
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.tasks.lock()
    }

    /// How many rooms are open, or are being opened.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.open().len()
    }

    /// A room that is open already.
    pub(crate) fn visit_open(&self, topic: &TopicName) -> Option<RoomGuard> {
        let open = self.open();
        open.room(topic).filter(|room| !room.has_ended()).map(RoomGuard::new)
    }

    /// Finds a room, or opens it for the gateway itself.
    async fn visit(&self, topic: &TopicName) -> Result<RoomGuard, ReadError> {
        match self.open_room(topic, None).await {
            Ok(visit) => Ok(visit),
            Err(RoomOpenError::Unreadable(error)) => Err(error),
            Err(RoomOpenError::Full(refusal)) => Err(ReadError::Failed(refusal.message.into())),
        }
    }

    /// Finds a room, or opens it for a participant, which counts as its opener.
    pub(crate) async fn visit_as(
        &self,
        topic: &TopicName,
        opener: Option<&ParticipantId>,
    ) -> Result<RoomGuard, Refusal> {
        self.open_room(topic, opener).await.map_err(|error| match error {
            RoomOpenError::Unreadable(error) => unreadable(&error),
            RoomOpenError::Full(refusal) => refusal,
        })
    }

    async fn open_room(&self, topic: &TopicName, opener: Option<&ParticipantId>) -> Result<RoomGuard, RoomOpenError> {
        loop {
            let cell = self.open().find_or_list(topic, opener).map_err(RoomOpenError::Full)?;
            // Also when the caller gives up waiting: a cell that nobody opens must not stay listed.
            let opening = OpeningRoom { rooms: self, topic, cell };
            let opened = opening.cell.get_or_try_init(|| self.begin(topic)).await.cloned();
            let mut open = self.open();
            let is_listed = open.is_listed(topic, &opening.cell);
            match opened {
                Err(error) => {
                    drop(open);
                    return Err(RoomOpenError::Unreadable(error));
                }
                // It ended just now, and its task has not come to remove it yet.
                Ok(room) if room.has_ended() => {
                    if is_listed {
                        open.remove(topic);
                    }
                }
                Ok(room) if is_listed => return Ok(RoomGuard::new(room)),
                // Between opening and visiting the room was evicted again.
                Ok(_) => {}
            }
        }
    }

    async fn begin(&self, topic: &TopicName) -> Result<Arc<Room>, ReadError> {
        let standing = self.0.log.standing(topic).await?;
        let room = Arc::new(Room::new(topic.clone(), self.0.log.clone(), self.0.common.clone(), &standing));
        let sink: Weak<dyn TailSink> = Arc::downgrade(&(room.clone() as Arc<dyn TailSink>));
        let tail = self.0.log.tail_into(topic, standing.head, sink);
        let host = ParticipantId::host();
        // Requests to the host that it had not answered when this node went down are answered now.
        let unanswered = room.attendance().fold().first_requested(&host).map(|offset| offset - 1);
        let began = unanswered.unwrap_or(standing.head.offset);
        let bell = Bell::new(
            Interest { reader: Some(host), deliver: Deliver::Named, without_own: true, acts_for: Vec::new() },
            None,
        );
        let cursor = Cursor::new(room.clone(), None, bell, began);
        let host = (self.0.host)(Residence {
            cursor,
            desk: HostAccess::new(room.clone()),
            opened_at: standing.head,
            rooms: self.clone(),
        });
        let grace = (!standing.present.is_empty()).then(|| Instant::now() + self.0.common.settings.grace);
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(self.clone().watch_over(room.clone(), tail, host, grace));
        Ok(room)
    }

    pub(crate) fn forget(&self, room: &Arc<Room>) {
        self.open().forget(room);
    }

    /// Closes a room that nobody uses.
    pub(crate) fn evict(&self, room: &Arc<Room>) -> bool {
        self.open().evict(room)
    }
}

/// A room that is being opened. Unlists it where nobody has come to open it.
struct OpeningRoom<'a> {
    rooms: &'a Rooms,
    topic: &'a TopicName,
    cell: RoomCell,
}

impl Drop for OpeningRoom<'_> {
    fn drop(&mut self) {
        if self.cell.initialized() {
            return;
        }
        let mut open = self.rooms.open();
        // Cells are handed out only under this lock: with no other holder, nobody else is about to open it.
        if open.is_listed(self.topic, &self.cell) && Arc::strong_count(&self.cell) == 2 {
            open.remove(self.topic);
        }
    }
}

/// Why a room is not opened.
enum RoomOpenError {
    Unreadable(ReadError),
    /// Too many are open.
    Full(Refusal),
}

/// What the sender of a request is told that nobody could answer.
fn not_here() -> Refusal {
    Refusal::new(Code::Forbidden, "a request wants an answer, and its sender is not in the room to get it; join first")
}
