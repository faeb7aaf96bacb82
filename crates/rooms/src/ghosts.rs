//! Ghosts: participants that a bridge has entered into a room and speaks for, by its own seat.
//!
//! A ghost is present like everybody: it has a place of its own, joins and leaves. It has no cursor, because its bridge reads the room once for all.
//! Invariant: a ghost's seat is part of its bridge's. Whatever keeps the bridge's seat keeps the ghost's, and both end together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use salon_control::{Act, Authority, GhostGrant, Namespaces, OPERATOR_PERMISSION};
use salon_log::{Claim, Lease};
use salon_protocol::{Code, Draft, Participant, ParticipantId, ParticipantKind, Refusal, Stamp, StampVia, TopicName};

use crate::attendance::EntryTerms;
use crate::limits::{Excess, Rate};
use crate::presence::Joining;
use crate::publishing::Publishing;
use crate::room::{Room, closed, unreadable, unwritable};
use crate::seat::SeatClaim;

/// What bridges may do, and whose ids are theirs.
#[derive(Debug, Clone)]
pub struct BridgeSettings {
    /// How many messages all ghosts of one bridge may publish together.
    pub rate: Rate,
    /// How many bytes.
    pub byte_rate: Rate,
    /// How many ghosts one bridge may have in all rooms together. Zero is no limit.
    pub ghosts: usize,
    /// The ids that only bridges may use.
    pub namespaces: Namespaces,
}

impl Default for BridgeSettings {
    /// No limits, and no namespaces.
    fn default() -> Self {
        Self { rate: Rate::UNLIMITED, byte_rate: Rate::UNLIMITED, ghosts: 0, namespaces: Namespaces::default() }
    }
}

/// How many ghosts each bridge has, in which rooms. A ghost counts once in a room, also while a new connection takes its seat from an old one.
pub(crate) struct GhostCounts {
    /// How many a bridge may have, whatever its token says. Zero is no limit.
    limit: usize,
    seats: Mutex<HashMap<ParticipantId, HashMap<GhostSeatKey, usize>>>,
}

/// Where a ghost sits.
type GhostSeatKey = (TopicName, ParticipantId);

impl GhostCounts {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, seats: Mutex::default() }
    }

    fn enter(&self, bridge: &ParticipantId, max: Option<usize>, key: GhostSeatKey) -> Result<(), Refusal> {
        let by_setting = (self.limit > 0).then_some(self.limit);
        let limit = max.into_iter().chain(by_setting).min();
        let mut seats = self.seats.lock();
        let held = seats.entry(bridge.clone()).or_default();
        if !held.contains_key(&key) && limit.is_some_and(|limit| held.len() >= limit) {
            let message =
                format!("the bridge has {} ghosts, which is its limit (`ghosts_max`, `limits.ghosts`)", held.len());
            if held.is_empty() {
                seats.remove(bridge);
            }
            // Not `rate_limited`: clients send again what is refused so.
            return Err(Refusal::new(Code::Forbidden, message));
        }
        *held.entry(key).or_default() += 1;
        Ok(())
    }

    fn leave(&self, bridge: &ParticipantId, key: &GhostSeatKey) {
        let mut seats = self.seats.lock();
        let Some(held) = seats.get_mut(bridge) else { return };
        if let Some(count) = held.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                held.remove(key);
            }
        }
        if held.is_empty() {
            seats.remove(bridge);
        }
    }
}

/// A ghost that is counted, until this is dropped.
struct CountedGhost {
    room: Arc<Room>,
    bridge: ParticipantId,
    key: GhostSeatKey,
}

impl Drop for CountedGhost {
    fn drop(&mut self) {
        self.room.common.ghost_counts.leave(&self.bridge, &self.key);
    }
}

/// The place of a ghost, which a later connection of its bridge may take.
struct GhostLease {
    is_lost: Arc<AtomicBool>,
    _lease: Lease,
}

/// A ghost that sits here.
struct GhostSeat {
    // Dropped in this order: the place is released before the room hears of the departure.
    lease: Arc<GhostLease>,
    claim: SeatClaim,
    /// What its entries are stamped with.
    stamp: Stamp,
    _counted: CountedGhost,
}

impl GhostSeat {
    fn is_lost(&self) -> bool {
        self.lease.is_lost.load(Ordering::SeqCst)
    }
}

/// The ghosts of one connection of a bridge to a room.
pub(crate) struct GhostBench {
    room: Arc<Room>,
    bridge: ParticipantId,
    grant: GhostGrant,
    /// Whether the bridge goes on after an envelope that it has seen: then it knows what its ghosts were asked.
    is_resumed: bool,
    /// The stamp of the bridge's own entries.
    stamp: Option<Stamp>,
    /// `None` once the bridge's seat has ended.
    seats: Mutex<Option<HashMap<ParticipantId, GhostSeat>>>,
}

/// Whom a bridge wants to enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GhostIntroduction {
    /// Its id, in a namespace of the bridge.
    pub id: ParticipantId,
    /// A name for people to read.
    pub name: Option<String>,
    /// What it is.
    pub kind: Option<ParticipantKind>,
}

/// Enters and removes the ghosts of a bridge's seat. Cloning shares it; it keeps nobody in the room.
#[derive(Clone)]
pub struct Ghosts(Arc<GhostBench>);

impl Ghosts {
    /// Enters a ghost, and says as whom everybody sees it. One that sits here already keeps its seat, with the new name where that differs.
    pub async fn enter(self, ghost: GhostIntroduction) -> Result<Arc<Participant>, Refusal> {
        self.0.enter(ghost).await
    }

    /// Whether none has been entered.
    pub fn is_empty(&self) -> bool {
        self.0.seats().as_ref().is_none_or(HashMap::is_empty)
    }

    /// Removes a ghost; one that does not sit here is left alone.
    pub fn leave(&self, ghost: &ParticipantId, reason: Option<String>) {
        // Dropped outside of the lock: it departs.
        let left = self.0.seats().as_mut().and_then(|seats| seats.remove(ghost));
        if let (Some(mut seat), Some(reason)) = (left, reason) {
            seat.claim.farewell(reason);
        }
    }
}

/// The bridge's part of its own seat. Dropping it ends its ghosts' seats.
pub(crate) struct BridgeSeat(Arc<GhostBench>);

impl BridgeSeat {
    pub(crate) fn new(
        room: &Arc<Room>,
        bridge: &ParticipantId,
        grant: GhostGrant,
        is_resumed: bool,
        stamp: Option<Stamp>,
    ) -> Self {
        let bench = Arc::new(GhostBench {
            room: room.clone(),
            bridge: bridge.clone(),
            grant,
            is_resumed,
            stamp,
            seats: Mutex::new(Some(HashMap::new())),
        });
        room.ghost_benches.add(&bench);
        Self(bench)
    }

    pub(crate) fn ghosts(&self) -> Ghosts {
        Ghosts(self.0.clone())
    }

    /// Judges and submits a draft that is not the bridge's own.
    pub(crate) fn publish(&self, draft: Draft) -> Publishing {
        let bench = &self.0;
        let (author, id) = (draft.envelope().from().clone(), draft.envelope().id().clone());
        let refused = |refusal: Refusal| Publishing::Refused(refusal.regarding(Some(id.clone())));
        let Some(stamp) = bench.stamp_of(&author) else {
            let message = format!(
                "`from` must be \"{}\" or a ghost that this connection has entered (`ghost.enter`)",
                bench.bridge
            );
            return refused(Refusal::new(Code::FromMismatch, message));
        };
        // All ghosts share one budget, which a ghost that says too much spends: only then is nothing more read from the connection.
        let bytes = draft.envelope().text().len();
        if let Err((refusal, wait)) = bench.room.common.bridge_rates.take(&bench.bridge, bytes) {
            return Publishing::Limited(refusal.regarding(Some(id)), wait);
        }
        match bench.room.charge(&author, draft.envelope()) {
            Ok(()) => bench.room.admit(&author, draft.stamped(Some(stamp))),
            Err((refusal, _)) => refused(refusal),
        }
    }
}

impl Drop for BridgeSeat {
    fn drop(&mut self) {
        let seats = self.0.seats().take();
        drop(seats);
    }
}

impl GhostBench {
    fn seats(&self) -> MutexGuard<'_, Option<HashMap<ParticipantId, GhostSeat>>> {
        self.seats.lock()
    }

    /// What the entries of a ghost are stamped with; `None` where it does not sit here.
    fn stamp_of(&self, ghost: &ParticipantId) -> Option<Stamp> {
        let seats = self.seats();
        let seat = seats.as_ref()?.get(ghost).filter(|seat| !seat.is_lost())?;
        Some(seat.stamp.clone())
    }

    /// A ghost has what its bridge's token permits, but for what is the operator's alone.
    fn stamp_for(&self, kind: Option<ParticipantKind>) -> Stamp {
        let via = StampVia { bridge: self.bridge.clone(), chat_only: !self.grant.calls };
        let is_human = kind == Some(ParticipantKind::Human);
        Stamp::of_ghost(self.stamp.as_ref(), via, is_human, |permission| permission != OPERATOR_PERMISSION)
    }

    /// A ghost as everybody will see it, if the bridge may enter it.
    fn describe(&self, GhostIntroduction { id, name, kind }: GhostIntroduction) -> Result<Participant, Refusal> {
        if !self.grant.contains(&id) {
            let message = format!("`{id}` is in no namespace that your token acts for (`acts_for`)");
            return Err(Refusal::new(Code::Forbidden, message));
        }
        let Some(kind) = self.grant.kind_of(kind) else {
            let kinds: Vec<_> = self.grant.kinds.iter().map(|kind| kind.word()).collect();
            let message = format!("your token lets ghosts be {} (`ghost_kinds`)", kinds.join(" or "));
            return Err(Refusal::new(Code::Forbidden, message));
        };
        let ghost = Participant { name, kind: Some(kind), via: Some(self.bridge.clone()), ..Participant::new(id) };
        Ok(ghost.presentable())
    }

    async fn enter(self: Arc<Self>, ghost: GhostIntroduction) -> Result<Arc<Participant>, Refusal> {
        let ghost = self.describe(ghost)?;
        let (room, id, stamp) = (self.room.clone(), ghost.id.clone(), self.stamp_for(ghost.kind));
        let held = match self.seats().as_ref().map(|seats| seats.get(&id).filter(|seat| !seat.is_lost())) {
            None => return Err(closed()),
            Some(Some(seat)) if *seat.claim.participant == ghost => return Ok(seat.claim.participant.clone()),
            Some(seat) => seat.map(|seat| seat.lease.clone()),
        };
        self.charge_join(&ghost)?;
        let counted = self.count(&id)?;
        room.check_access(&id, Some(&stamp))?;
        let lease = match held {
            Some(lease) => lease,
            None => self.claim(&id).await?,
        };
        let (claim, joining) = {
            let (mut attendance, now) = (room.attendance(), Instant::now());
            let space = room.check_population(&attendance, &id, now);
            space.map_err(|full| Refusal { code: Code::Forbidden, ..full })?;
            let is_known = attendance.announced(&id, now).is_some_and(|known| *known.participant == ghost);
            let is_resumed = self.is_resumed && is_known;
            let terms = EntryTerms { claim: Claim::Exclusive, is_resumed, is_elsewhere: false };
            let (ghost, joins) = attendance.enter(ghost, terms, now);
            let claim = SeatClaim::new(room.clone(), ghost.clone(), Lease::new(lease.clone()));
            (claim, joins.then(|| Joining::submit(&room, &mut attendance, ghost)))
        };
        let seat = GhostSeat { lease, claim, stamp: stamp.clone(), _counted: counted };
        if let Some(joining) = joining {
            let joined = joining.stored().await.map_err(|error| unwritable(&error))?;
            if !room.folded(joined).await {
                return Err(closed());
            }
        }
        let entered = seat.claim.participant.clone();
        let replaced = match &mut *self.seats() {
            Some(_) if seat.is_lost() => {
                return Err(Refusal::new(
                    Code::FromMismatch,
                    format!("another connection of the bridge has entered `{id}`"),
                ));
            }
            Some(seats) => seats.insert(id.clone(), seat),
            None => return Err(closed()),
        };
        drop(replaced);
        // Once more: settings that came meanwhile remove the ghosts that they find, and this one was not there.
        if let Err(refusal) = room.check_access(&id, Some(&stamp)) {
            Ghosts(self).leave(&id, None);
            return Err(refusal);
        }
        Ok(entered)
    }

    fn charge_join(&self, ghost: &Participant) -> Result<(), Refusal> {
        let common = &self.room.common;
        let taken = common.bridge_rates.take_join(&self.bridge, ghost.text_bytes());
        let taken = taken.and_then(|()| common.rates.take_join(&ghost.id, ghost.text_bytes()));
        taken.map_err(|(refusal, _): Excess| refusal)
    }

    fn count(&self, id: &ParticipantId) -> Result<CountedGhost, Refusal> {
        let key = (self.room.topic.clone(), id.clone());
        self.room.common.ghost_counts.enter(&self.bridge, self.grant.max, key.clone())?;
        Ok(CountedGhost { room: self.room.clone(), bridge: self.bridge.clone(), key })
    }

    /// Takes the place of a ghost. Only another connection of the same bridge can have it.
    async fn claim(&self, id: &ParticipantId) -> Result<Arc<GhostLease>, Refusal> {
        let is_lost = Arc::new(AtomicBool::new(false));
        let lost = {
            let (is_lost, room) = (is_lost.clone(), Arc::downgrade(&self.room));
            Box::new(move || {
                is_lost.store(true, Ordering::SeqCst);
                if let Some(room) = room.upgrade() {
                    room.control_changed.notify_one();
                }
            })
        };
        let lease = self.room.log.claim(&self.room.topic, id, Claim::Exclusive, lost).await;
        let lease = lease.map_err(|error| unreadable(&error))?;
        Ok(Arc::new(GhostLease { is_lost, _lease: lease }))
    }

    /// Takes the seats away of ghosts that another connection has, and of those that may not be here any more.
    fn remove(&self, is_excluded: impl Fn(&ParticipantId, &Stamp) -> bool) {
        let mut removed = Vec::new();
        if let Some(seats) = &mut *self.seats() {
            let is_over = |id: &ParticipantId, seat: &GhostSeat| seat.is_lost() || is_excluded(id, &seat.stamp);
            let over: Vec<_> = seats.iter().filter(|(id, seat)| is_over(id, seat)).map(|(id, _)| id.clone()).collect();
            removed.extend(over.iter().filter_map(|id| seats.remove(id)));
        }
        // Outside of the lock: they depart.
        drop(removed);
    }
}

/// The benches of a room, which their connections hold.
#[derive(Default)]
pub(crate) struct GhostBenches(Mutex<Vec<Weak<GhostBench>>>);

impl GhostBenches {
    fn add(&self, bench: &Arc<GhostBench>) {
        let mut benches = self.0.lock();
        benches.retain(|bench| bench.strong_count() > 0);
        benches.push(Arc::downgrade(bench));
    }

    fn all(&self) -> Vec<Arc<GhostBench>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Room {
    /// Removes the ghosts that may not be here any more, and those whose place another connection has taken.
    pub(crate) fn remove_ghosts(&self) {
        let benches = self.ghost_benches.all();
        if benches.is_empty() {
            return;
        }
        let settings = self.attendance().fold().settings().cloned();
        for bench in benches {
            bench.remove(|id, stamp| {
                let authority = Authority::new(settings.as_ref(), Some(stamp));
                settings.is_some() && authority.is_some_and(|authority| authority.check(id, &Act::Read).is_err())
            });
        }
    }
}
