//! What the tokens of those who are here permit, topic by topic, for whoever offers tools that not everybody may call.
//!
//! Invariant: a connection is known here as long as its [`Held`] lives, and the newest connection of a participant counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use salon_protocol::{ParticipantId, TopicName};

type Granted = Arc<[String]>;

/// What everybody is permitted.
#[derive(Default)]
pub(crate) struct Permissions(Mutex<Table>);

#[derive(Default)]
struct Table {
    topics: HashMap<TopicName, HashMap<ParticipantId, Vec<(u64, Granted)>>>,
    next: u64,
}

impl Permissions {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no code panics while it holds the permissions")
    }

    /// Somebody connects; known until the returned value is dropped.
    pub(crate) fn hold(self: &Arc<Self>, topic: &TopicName, who: &ParticipantId, granted: &[String]) -> Arc<Held> {
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        let connections = table.topics.entry(topic.clone()).or_default().entry(who.clone()).or_default();
        connections.push((number, granted.into()));
        Arc::new(Held { permissions: self.clone(), topic: topic.clone(), who: who.clone(), number })
    }
}

/// One connection's permissions.
pub(crate) struct Held {
    permissions: Arc<Permissions>,
    topic: TopicName,
    who: ParticipantId,
    number: u64,
}

impl Held {
    /// What the newest connection of somebody in the same room is permitted.
    pub(crate) fn of(&self, who: &ParticipantId) -> Granted {
        let table = self.permissions.table();
        let connections = table.topics.get(&self.topic).and_then(|people| people.get(who));
        connections.and_then(|connections| connections.last()).map_or_else(|| [].into(), |(_, granted)| granted.clone())
    }

    /// The connection has shown another token.
    pub(crate) fn renew(&self, granted: &[String]) {
        let mut table = self.permissions.table();
        let connections = table.topics.get_mut(&self.topic).and_then(|people| people.get_mut(&self.who));
        let own = connections.and_then(|connections| connections.iter_mut().find(|(number, _)| *number == self.number));
        if let Some((_, known)) = own
            && **known != *granted
        {
            *known = granted.into();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = self.permissions.table();
        let Some(people) = table.topics.get_mut(&self.topic) else { return };
        if let Some(connections) = people.get_mut(&self.who) {
            connections.retain(|(number, _)| *number != self.number);
            if connections.is_empty() {
                people.remove(&self.who);
            }
        }
        if people.is_empty() {
            table.topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_connection_counts_as_long_as_it_lasts() {
        let permissions = Arc::new(Permissions::default());
        let (room, other) = (TopicName::new("room").expect("a name"), TopicName::new("other").expect("a name"));
        let (alice, bob) = (ParticipantId::new("alice").expect("an id"), ParticipantId::new("bob").expect("an id"));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let bobs = permissions.hold(&room, &bob, &[]);
        let first = permissions.hold(&room, &alice, &words(&["read", "write"]));
        let second = permissions.hold(&room, &alice, &words(&["read"]));
        let elsewhere = permissions.hold(&other, &bob, &words(&["all"]));
        assert_eq!(*bobs.of(&alice), words(&["read"]));
        assert_eq!(*bobs.of(&bob), words(&[]), "another topic's grant is not this one's");
        second.renew(&words(&["drive"]));
        assert_eq!(*bobs.of(&alice), words(&["drive"]));
        drop(second);
        assert_eq!(*bobs.of(&alice), words(&["read", "write"]));
        drop((first, bobs));
        assert!(elsewhere.of(&alice).is_empty());
        drop(elsewhere);
        assert!(permissions.table().topics.is_empty(), "nothing is kept of those who have gone");
    }
}
