//! How far everyone has come with `room.wait`.
//!
//! Remembered while the gateway runs, for the participants that asked most recently. Of the others the log knows, if it was not long ago: their
//! last answer says where it began and ended. An answer that came while its caller was away counts as not read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use salon_log::Span;
use salon_protocol::{Code, Entry, EnvelopeId, ParticipantId, Position, PresenceEvent, Refusal, TopicName};
use salon_rooms::{resolve, unreadable};

use super::office::Office;
use super::waiting;

/// How many are remembered.
const MAX_READ_POSITIONS: usize = 10_000;

/// How many entries are looked through for somebody who is not.
const MAX_LOOKED_THROUGH: usize = 1000;

type Key = (TopicName, ParticipantId);

/// The last envelope somebody has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadPosition {
    pub(super) id: EnvelopeId,
    pub(super) position: Position,
}

/// Who waits, and the request by which it does; `None` where a door waits for it.
#[derive(Clone, Copy)]
pub(super) struct WaitingCaller<'a> {
    pub(super) id: &'a ParticipantId,
    pub(super) request: Option<&'a Arc<Entry>>,
}

impl ReadPosition {
    pub(super) fn of(entry: &Entry) -> Self {
        Self { id: entry.envelope.id().clone(), position: entry.position }
    }

    /// Where a wait begins; the caller gets an error.
    pub(super) async fn begin(
        office: &Office,
        waiting: WaitingCaller<'_>,
        after: Option<EnvelopeId>,
    ) -> Result<Self, String> {
        let (log, topic, caller) = (&*office.toolbox.log, office.desk.topic(), waiting.id);
        let is_given = after.is_some();
        let remembered = || office.toolbox.read_positions().get(topic, caller);
        let position = match after {
            Some(id) => {
                let found = resolve(log, topic, &id).await;
                Self { position: found.map_err(|refusal| format!("`after`: {}", refusal.message))?, id }
            }
            None => match remembered() {
                Some(position) => position,
                None => Self::look_back(office, waiting).await.map_err(|refusal| refusal.message.to_string())?,
            },
        };
        if !office.toolbox.history_off.contains(topic) {
            return Ok(position);
        }
        // What was said before somebody came is nobody's to read here.
        let standing = log.standing(topic).await.map_err(|error| unreadable(&error).message.to_string())?;
        let is_callers =
            |entry: &&Arc<Entry>| entry.envelope.presence().is_some_and(|presence| presence.participant.id == *caller);
        let joined = standing.present.iter().find(is_callers).or(waiting.request).ok_or("you are not in this room")?;
        if joined.position.in_order(position.position) == Some(true) || joined.position == position.position {
            Ok(position)
        } else if is_given {
            Err("`after`: history is off in this topic, and this envelope is older than your joining".into())
        } else {
            Ok(Self::of(joined))
        }
    }

    /// Where somebody is by the log: where its last answer ended, else where it joined, else at the oldest entry looked at.
    async fn look_back(office: &Office, waiting: WaitingCaller<'_>) -> Result<Self, Refusal> {
        let (log, topic, caller) = (&*office.toolbox.log, office.desk.topic(), waiting.id);
        let span = waiting.request.map_or(Span::Newest, |request| Span::Before(request.position));
        let page = log.read(topic, span, MAX_LOOKED_THROUGH).await.map_err(|error| unreadable(&error))?;
        let presence = |entry: &Entry| {
            entry
                .envelope
                .presence()
                .filter(|presence| presence.participant.id == *caller)
                .map(|presence| presence.event)
        };
        let answered = page.iter().enumerate().rev().find_map(|(at, entry)| {
            let is_callers =
                entry.envelope.to().contains(caller) && waiting::is_answer(entry, &office.toolbox.namespace);
            Some((at, is_callers.then(|| waiting::read_span(entry))??))
        });
        if let Some((at, (since, cursor))) = answered {
            let was_away = page[..at].iter().rev().find_map(|entry| presence(entry)) == Some(PresenceEvent::Leave);
            let id = if was_away { since } else { cursor };
            // An entry that retention has removed says nothing any more.
            if let Ok(position) = resolve(log, topic, &id).await {
                return Ok(Self { id, position });
            }
        }
        let joined = page.iter().rev().find(|entry| presence(entry) == Some(PresenceEvent::Join));
        let nothing_kept = || Refusal::new(Code::NotFound, "nothing of this room is kept");
        joined.or(page.first()).or(waiting.request).map(|entry| Self::of(entry)).ok_or_else(nothing_kept)
    }
}

#[derive(Debug, Default)]
pub(super) struct ReadPositions {
    positions: HashMap<Key, (u64, ReadPosition)>,
    /// Who was noted when, the longest ago first.
    noted: BTreeMap<u64, Key>,
    clock: u64,
}

impl ReadPositions {
    pub(super) fn get(&self, topic: &TopicName, who: &ParticipantId) -> Option<ReadPosition> {
        self.positions.get(&(topic.clone(), who.clone())).map(|(_, position)| position.clone())
    }

    pub(super) fn note(&mut self, topic: &TopicName, who: &ParticipantId, position: ReadPosition) {
        self.clock += 1;
        let key = (topic.clone(), who.clone());
        if let Some((before, _)) = self.positions.insert(key.clone(), (self.clock, position)) {
            self.noted.remove(&before);
        }
        self.noted.insert(self.clock, key);
        if self.positions.len() > MAX_READ_POSITIONS
            && let Some((_, oldest)) = self.noted.pop_first()
        {
            self.positions.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_longest_ago_is_forgotten() {
        let topic = TopicName::new("room:alpha").expect("a name");
        let who = |n: usize| ParticipantId::new(format!("p{n}")).expect("a name");
        let position = |n: u64| ReadPosition {
            id: EnvelopeId::new(format!("e{n}")).expect("an id"),
            position: Position { epoch: 1, offset: n },
        };
        let mut table = ReadPositions::default();
        for n in 0..MAX_READ_POSITIONS {
            table.note(&topic, &who(n), position(1));
        }
        table.note(&topic, &who(0), position(2));
        table.note(&topic, &who(MAX_READ_POSITIONS), position(3));
        assert_eq!(table.get(&topic, &who(0)), Some(position(2)));
        assert_eq!(table.get(&topic, &who(1)), None);
        assert_eq!(table.get(&topic, &who(MAX_READ_POSITIONS)), Some(position(3)));
        assert_eq!(table.get(&TopicName::new("room:beta").expect("a name"), &who(0)), None);
        assert_eq!((table.positions.len(), table.noted.len()), (MAX_READ_POSITIONS, MAX_READ_POSITIONS));
    }
}
