//! The core of a bridge, for one channel and its topic: a state machine without IO. Events of both sides and the results of its actions go in;
//! actions and changes of what is stored come out.
//!
//! Invariants:
//! - Outputs are performed in their order, and a [`StoreChange`] is durable before what follows it. With that, a crash at any moment loses
//!   nothing that was acknowledged, and repeats nothing that the other side cannot tell from the first time.
//! - What this bridge has put somewhere is never taken from there: ids of its own ghosts, its own accounts, messages in the map.
//! - Everything that waits is bounded. What is left out is counted, and the count is shown.

mod calls;
mod commands;
mod ghosts;
pub(crate) mod ids;
mod inbound;
mod map;
mod millis;
mod outbound;
mod platform_side;
mod room_side;
mod show;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use salon_protocol::{EnvelopeId, Participant, ParticipantId, Timestamp};

pub use ghosts::ghost_id;
pub use inbound::InboxRow;
pub use map::{MappedMessage, MessageOrigin};

use crate::config::BridgeOptions;
use crate::platform::{
    ActionKey, PlatformAction, PlatformCapabilities, PlatformChannel, PlatformEvent, PlatformFailure,
    PlatformMessageId, PlatformReceipt,
};
use crate::room::{GhostProfile, HeldNotice, RoomAction, RoomEvent, RoomResult, RoomTicket};
use calls::{CallLines, HeldCalls};
use commands::BridgeCommand;
use ghosts::ChannelGhosts;
use ids::IdSource;
use inbound::RoomQueue;
use map::MessageMap;
use outbound::PlatformQueue;

/// Requests of people to the room that are under way at once.
const MAX_PENDING_COMMANDS: usize = 32;
/// How often the room or the platform is told that something could not be delivered.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// What a core is made of.
#[derive(Debug, Clone)]
pub struct CoreSetup {
    /// The bridge's own id in the room.
    pub participant: ParticipantId,
    pub namespace: String,
    pub channel: PlatformChannel,
    pub capabilities: PlatformCapabilities,
    pub options: BridgeOptions,
    /// A secret of the bridge, the same in every run.
    pub key: [u8; 32],
    /// Different in every run.
    pub run: u64,
    pub stored: StoredChannel,
}

/// What was stored of a channel when the bridge ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredChannel {
    /// How far the room has been shown; `None` before the first envelope.
    pub position: Option<EnvelopeId>,
    /// The oldest first.
    pub mapped: Vec<MappedMessage>,
    /// In their order.
    pub inbox: Vec<InboxRow>,
    /// An action that was given out, of which no result is known.
    pub attempt: Option<ActionKey>,
    pub held: Vec<HeldNotice>,
}

/// A change of what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChange {
    Position(EnvelopeId),
    /// Replaces what is stored of this envelope.
    Map(MappedMessage),
    Forget(EnvelopeId),
    InboxAdd(InboxRow),
    InboxRemove(EnvelopeId),
    /// At most one is stored: the newest.
    Attempt(Option<ActionKey>),
    HeldAdd(HeldNotice),
    HeldRemove(EnvelopeId),
}

impl StoredChannel {
    /// The newest message that a person of the platform wrote.
    pub fn newest_of_platform(&self) -> Option<&PlatformMessageId> {
        let waiting = self.inbox.iter().rev().find_map(|row| row.platform_id.as_ref());
        let written = self.mapped.iter().rev().filter(|mapped| mapped.origin == MessageOrigin::Platform);
        waiting.or_else(|| written.flat_map(|mapped| mapped.parts.iter().flatten()).next())
    }

    /// What a change does. The store does the same on disk.
    pub fn apply(&mut self, change: StoreChange) {
        match change {
            StoreChange::Position(position) => self.position = Some(position),
            StoreChange::Map(mapped) => match self.mapped.iter_mut().find(|one| one.envelope == mapped.envelope) {
                Some(one) => *one = mapped,
                None => self.mapped.push(mapped),
            },
            StoreChange::Forget(envelope) => self.mapped.retain(|one| one.envelope != envelope),
            StoreChange::InboxAdd(row) => self.inbox.push(row),
            StoreChange::InboxRemove(envelope) => self.inbox.retain(|row| row.envelope != envelope),
            StoreChange::Attempt(attempt) => self.attempt = attempt,
            StoreChange::HeldAdd(notice) => {
                self.held.retain(|one| one.id != notice.id);
                self.held.push(notice);
            }
            StoreChange::HeldRemove(id) => self.held.retain(|notice| notice.id != id),
        }
    }
}

/// Names a platform's event that waits to be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventTicket(pub u64);

/// What goes in.
#[derive(Debug, Clone)]
pub enum CoreInput {
    /// With a ticket, the platform reports the event again unless it is acknowledged.
    Platform(PlatformEvent, Option<EventTicket>),
    PlatformResult(ActionKey, Result<PlatformReceipt, PlatformFailure>),
    /// The room was entered. Nothing that was asked of it before is answered any more.
    RoomEntered(Vec<Participant>),
    RoomLost,
    Room(RoomEvent),
    /// The room no longer has what came after the position.
    RoomGap,
    RoomResult(RoomTicket, RoomResult),
    /// Time has passed.
    Tick,
}

/// What comes out.
#[derive(Debug, Clone, PartialEq)]
pub enum CoreOutput {
    Store(StoreChange),
    Platform(PlatformAction),
    Room(RoomAction),
    /// The event cannot be lost any more.
    Acknowledge(EventTicket),
}

/// What the room is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BridgeTrouble {
    PlatformLimit,
    Undeliverable,
}

/// What a person asked for that the room has not answered yet.
#[derive(Debug)]
enum PendingCommand {
    /// The ghost is being seated for this.
    Seating {
        ghost: GhostProfile,
        command: BridgeCommand,
        reply_to: Option<PlatformMessageId>,
    },
    Command {
        reply_to: Option<PlatformMessageId>,
    },
}

/// The state machine of one channel.
#[derive(Debug)]
pub struct BridgeCore {
    participant: ParticipantId,
    channel: PlatformChannel,
    capabilities: PlatformCapabilities,
    options: BridgeOptions,
    ids: IdSource,
    map: MessageMap,
    ghosts: ChannelGhosts,
    /// The participants of the room.
    people: HashMap<ParticipantId, Participant>,
    outbound: PlatformQueue,
    inbound: RoomQueue,
    calls: CallLines,
    held: HeldCalls,
    pending: HashMap<RoomTicket, PendingCommand>,
    tickets: u64,
    /// When the room was last told of each kind of trouble.
    told_at: HashMap<BridgeTrouble, Timestamp>,
    outputs: Vec<CoreOutput>,
}

impl BridgeCore {
    pub fn new(setup: CoreSetup) -> Self {
        let CoreSetup { participant, namespace, channel, capabilities, options, key, run, stored } = setup;
        let ids = IdSource { key, channel: channel.0.clone(), run, counter: 0 };
        let mut map = MessageMap::default();
        stored.mapped.into_iter().for_each(|mapped| map.put(mapped));
        let mut held = HeldCalls::default();
        for notice in stored.held {
            let _ = held.add(notice);
        }
        let inbound = RoomQueue { rows: stored.inbox.into(), ..RoomQueue::default() };
        Self {
            participant,
            channel,
            ids,
            map,
            ghosts: ChannelGhosts::new(namespace, options.max_ghosts),
            people: HashMap::new(),
            outbound: PlatformQueue::new(capabilities.pace, stored.position, stored.attempt),
            inbound,
            calls: CallLines::default(),
            held,
            pending: HashMap::new(),
            tickets: 0,
            told_at: HashMap::new(),
            outputs: Vec::new(),
            capabilities,
            options,
        }
    }

    /// Takes an input and returns what follows from it, to be performed in this order.
    pub fn handle(&mut self, input: CoreInput, now: Timestamp) -> Vec<CoreOutput> {
        match input {
            CoreInput::Platform(event, ticket) => self.on_platform_event(event, ticket, now),
            CoreInput::PlatformResult(key, result) => self.on_platform_result(&key, result, now),
            CoreInput::RoomEntered(roster) => {
                self.people = roster.into_iter().map(|one| (one.id.clone(), one)).collect();
                self.ghosts.unseat_all();
                self.inbound.in_flight = None;
                self.inbound.is_open = true;
                self.pending.clear();
            }
            CoreInput::RoomLost => {
                self.inbound.is_open = false;
                self.inbound.in_flight = None;
                self.pending.clear();
            }
            CoreInput::Room(event) => self.on_room_event(event, now),
            CoreInput::RoomGap => {
                self.notice_text("Some messages of the room are missing here: the room no longer keeps them.")
            }
            CoreInput::RoomResult(ticket, result) => self.on_room_result(ticket, result, now),
            CoreInput::Tick => {}
        }
        self.publish_next(now);
        self.perform_next(now);
        let expired = Timestamp(now.0.saturating_sub(self.options.mapped_for.as_millis() as u64));
        while let Some(forgotten) = self.map.expire(self.options.max_mapped, expired) {
            self.store(StoreChange::Forget(forgotten));
        }
        if let Some(position) = self.outbound.position.take_changed(now, false) {
            self.store(StoreChange::Position(position));
        }
        std::mem::take(&mut self.outputs)
    }

    /// When [`CoreInput::Tick`] is due.
    pub fn next_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        [self.outbound.next_timeout(now), self.inbound.next_timeout()].into_iter().flatten().min()
    }

    /// How many messages wait, to the platform and to the room.
    pub fn queue_lengths(&self) -> (usize, usize) {
        (self.outbound.len(), self.inbound.rows.len())
    }

    fn store(&mut self, change: StoreChange) {
        self.outputs.push(CoreOutput::Store(change));
    }

    fn remember(&mut self, mapped: MappedMessage) {
        self.map.put(mapped.clone());
        self.store(StoreChange::Map(mapped));
    }

    fn ticket(&mut self) -> RoomTicket {
        self.tickets += 1;
        RoomTicket(self.tickets)
    }

    /// Tells the room of trouble, of one kind not too often.
    fn tell_room(&mut self, trouble: BridgeTrouble, text: String, now: Timestamp) {
        let is_recent = self.told_at.get(&trouble).is_some_and(|last| outbound::after(*last, NOTICE_INTERVAL) > now);
        if is_recent || !self.inbound.is_open {
            return;
        }
        self.told_at.insert(trouble, now);
        let ticket = self.ticket();
        self.outputs.push(CoreOutput::Room(RoomAction::Notice { ticket, text }));
    }

    /// Whether a participant is this bridge or one of its ghosts.
    fn is_own(&self, participant: &ParticipantId) -> bool {
        *participant == self.participant || self.ghosts.is_own(participant)
    }
}
