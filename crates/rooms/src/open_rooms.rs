//! Which rooms are open on this node, who has opened them, and how many may be.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use salon_protocol::{CloseReason, Code, ParticipantId, Refusal, TopicName};
use tokio::sync::OnceCell;

use crate::lifecycle::Lifecycle;
use crate::room::Room;

/// How many rooms of a participant are looked at for one that can be closed to make room for another.
const MAX_TRIED: usize = 16;

/// A room, once it is open. Participants that come at once open it together.
pub(crate) type RoomCell = Arc<OnceCell<Arc<Room>>>;

/// See the module.
pub(crate) struct OpenRooms {
    listed: HashMap<TopicName, ListedRoom>,
    /// What each participant has opened, the oldest first.
    by_opener: HashMap<ParticipantId, VecDeque<TopicName>>,
    limit: usize,
    limit_each: usize,
}

struct ListedRoom {
    cell: RoomCell,
    /// The participant for which it was opened; `None` is the gateway.
    opener: Option<ParticipantId>,
}

impl OpenRooms {
    /// Zero is no limit.
    pub(crate) fn new(limit: usize, limit_each: usize) -> Self {
        Self { listed: HashMap::new(), by_opener: HashMap::new(), limit, limit_each }
    }

    /// A room that is open.
    pub(crate) fn room(&self, topic: &TopicName) -> Option<Arc<Room>> {
        self.listed.get(topic).and_then(|listed| listed.cell.get().cloned())
    }

    /// All rooms that are open.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = &Arc<Room>> {
        self.listed.values().filter_map(|listed| listed.cell.get())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.listed.len()
    }

    /// The cell of a topic. A new one counts as its opener's; the gateway itself is never refused one.
    pub(crate) fn find_or_list(
        &mut self,
        topic: &TopicName,
        opener: Option<&ParticipantId>,
    ) -> Result<RoomCell, Refusal> {
        if let Some(listed) = self.listed.get(topic) {
            return Ok(listed.cell.clone());
        }
        if let Some(opener) = opener {
            self.make_room(opener)?;
            self.by_opener.entry(opener.clone()).or_default().push_back(topic.clone());
        }
        let cell = RoomCell::default();
        self.listed.insert(topic.clone(), ListedRoom { cell: cell.clone(), opener: opener.cloned() });
        Ok(cell)
    }

    /// Closes a room of this participant that nobody uses, where it has opened as many as it may or the gateway has.
    fn make_room(&mut self, opener: &ParticipantId) -> Result<(), Refusal> {
        let opened = self.by_opener.get(opener).map_or(0, VecDeque::len);
        let is_full = self.limit > 0 && self.listed.len() >= self.limit;
        let is_full_for_one = self.limit_each > 0 && opened >= self.limit_each;
        if !(is_full || is_full_for_one) || self.close_idle_of(opener) {
            return Ok(());
        }
        let message = if is_full_for_one {
            format!("you have opened {opened} rooms that are in use; the limit is `limits.rooms_per_participant`")
        } else {
            format!("this gateway has {} open rooms; the limit is `limits.rooms`", self.listed.len())
        };
        Err(Refusal::new(Code::RateLimited, message))
    }

    fn close_idle_of(&mut self, opener: &ParticipantId) -> bool {
        for _ in 0..MAX_TRIED {
            let Some(opened) = self.by_opener.get_mut(opener) else { return false };
            // To the end, so that the next attempt looks at others.
            let Some(topic) = opened.pop_front() else { return false };
            opened.push_back(topic.clone());
            if self.room(&topic).is_some_and(|room| self.evict(&room)) {
                return true;
            }
        }
        false
    }

    /// Whether a cell is the one of its topic.
    pub(crate) fn is_listed(&self, topic: &TopicName, cell: &RoomCell) -> bool {
        self.listed.get(topic).is_some_and(|listed| Arc::ptr_eq(&listed.cell, cell))
    }

    pub(crate) fn remove(&mut self, topic: &TopicName) {
        let Some(ListedRoom { opener: Some(opener), .. }) = self.listed.remove(topic) else { return };
        let Some(opened) = self.by_opener.get_mut(&opener) else { return };
        if let Some(at) = opened.iter().position(|open| open == topic) {
            opened.remove(at);
        }
        if opened.is_empty() {
            self.by_opener.remove(&opener);
        }
    }

    /// Removes a room whatever it is used for.
    pub(crate) fn forget(&mut self, room: &Arc<Room>) {
        if self.room(&room.topic).is_some_and(|open| Arc::ptr_eq(&open, room)) {
            self.remove(&room.topic);
        }
    }

    /// Closes a room that nobody uses; its task ends with it.
    pub(crate) fn evict(&mut self, room: &Arc<Room>) -> bool {
        let is_idle = room.is_idle();
        if is_idle {
            room.advance(Lifecycle::Ended(CloseReason::Shutdown));
            room.departure.notify_one();
            self.forget(room);
        }
        is_idle
    }
}
