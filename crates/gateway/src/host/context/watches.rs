//! Who is told of which changes.
//!
//! Invariant: a watch belongs to one stay in the room. Whoever has left since, though they may be back, is told nothing; every join
//! makes another [`Participant`] value, which tells the stays apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use salon_log::context::{Key, Scope};
use salon_protocol::{Participant, ParticipantId};

/// How many watches one participant has, and all in a room together.
pub(super) const MAX_OF_ONE: usize = 1024;
const MAX_OF_ALL: usize = 65_536;

/// What is watched: a key, or all of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) scope: Scope,
    pub(super) key: Option<Key>,
}

/// How somebody wants to hear of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Manner {
    /// As a change of the context.
    Change,
    /// As an update of a resource, by the URI they gave it.
    Resource(Box<str>),
}

/// Those who are to hear something, by how they want to.
pub(super) type Hearers = BTreeMap<Manner, Vec<ParticipantId>>;

/// How one participant wants to hear of one target. However many spellings of its URI there are, they hear of the resource once: by the last
/// one they gave. Otherwise one change could be told a thousand times, to everybody in the room.
#[derive(Default)]
struct Wanted {
    change: bool,
    resource: Option<Box<str>>,
}

impl Wanted {
    /// Whether this is one more than there was.
    fn add(&mut self, manner: Manner) -> bool {
        match manner {
            Manner::Change => !std::mem::replace(&mut self.change, true),
            Manner::Resource(uri) => self.resource.replace(uri).is_none(),
        }
    }

    /// Whether there was one.
    fn remove(&mut self, manner: &Manner) -> bool {
        match manner {
            Manner::Change => std::mem::take(&mut self.change),
            Manner::Resource(_) => self.resource.take().is_some(),
        }
    }

    fn has(&self, manner: &Manner) -> bool {
        match manner {
            Manner::Change => self.change,
            Manner::Resource(_) => self.resource.is_some(),
        }
    }

    fn is_empty(&self) -> bool {
        !self.change && self.resource.is_none()
    }

    fn manners(&self) -> impl Iterator<Item = Manner> {
        let change = self.change.then_some(Manner::Change);
        change.into_iter().chain(self.resource.clone().map(Manner::Resource))
    }
}

#[derive(Default)]
pub(super) struct Watches {
    targets: HashMap<Target, BTreeMap<ParticipantId, Wanted>>,
    stays: HashMap<ParticipantId, Stay>,
}

struct Stay {
    who: Arc<Participant>,
    watches: usize,
}

impl Watches {
    /// Begins a watch; an error says why not. `is_here` tells whether a stay goes on.
    pub(super) fn begin(
        &mut self,
        who: &Arc<Participant>,
        target: Target,
        manner: Manner,
        is_here: impl Fn(&Arc<Participant>) -> bool,
    ) -> Result<(), String> {
        if self.stays.get(&who.id).is_some_and(|stay| !Arc::ptr_eq(&stay.who, who)) {
            self.forget(&who.id);
        }
        if let Some(wanted) = self.targets.get_mut(&target).and_then(|watches| watches.get_mut(&who.id))
            && wanted.has(&manner)
        {
            wanted.add(manner);
            return Ok(());
        }
        if self.stays.get(&who.id).is_some_and(|stay| stay.watches >= MAX_OF_ONE) {
            return Err(format!("you watch {MAX_OF_ONE} things already, which is the limit"));
        }
        if self.count() >= MAX_OF_ALL {
            let gone: Vec<_> =
                self.stays.iter().filter(|(_, stay)| !is_here(&stay.who)).map(|(id, _)| id.clone()).collect();
            gone.iter().for_each(|id| self.forget(id));
            if self.count() >= MAX_OF_ALL {
                return Err(format!("{MAX_OF_ALL} things are watched in this room already, which is the limit"));
            }
        }
        self.targets.entry(target).or_default().entry(who.id.clone()).or_default().add(manner);
        self.stays.entry(who.id.clone()).or_insert_with(|| Stay { who: who.clone(), watches: 0 }).watches += 1;
        Ok(())
    }

    /// Ends a watch. One that there is not has ended.
    pub(super) fn end(&mut self, who: &ParticipantId, target: &Target, manner: &Manner) {
        let Some(watches) = self.targets.get_mut(target) else { return };
        let Some(wanted) = watches.get_mut(who) else { return };
        if wanted.remove(manner)
            && let Some(stay) = self.stays.get_mut(who)
        {
            stay.watches -= 1;
            if stay.watches == 0 {
                self.stays.remove(who);
            }
        }
        if wanted.is_empty() {
            watches.remove(who);
        }
        if watches.is_empty() {
            self.targets.remove(target);
        }
    }

    /// Who is to hear of a change of a key.
    pub(super) fn of(&mut self, scope: &Scope, key: &Key, is_here: impl Fn(&Arc<Participant>) -> bool) -> Hearers {
        let (one, all) = (Some(key.clone()), None);
        let targets = [one, all].map(|key| Target { scope: scope.clone(), key });
        self.hearers(&targets, is_here)
    }

    /// Everything that is watched.
    pub(super) fn all(&self) -> Vec<Target> {
        self.targets.keys().cloned().collect()
    }

    /// Who watches any of these. Those who are no longer here are forgotten.
    pub(super) fn hearers(&mut self, targets: &[Target], is_here: impl Fn(&Arc<Participant>) -> bool) -> Hearers {
        let mut heard: BTreeSet<(Manner, ParticipantId)> = BTreeSet::new();
        for target in targets {
            for (who, wanted) in self.targets.get(target).into_iter().flatten() {
                heard.extend(wanted.manners().map(|manner| (manner, who.clone())));
            }
        }
        let mut hearers = Hearers::new();
        for (manner, who) in heard {
            // Forgotten by now, or gone.
            match self.stays.get(&who) {
                Some(stay) if is_here(&stay.who) => hearers.entry(manner).or_default().push(who),
                _ => self.forget(&who),
            }
        }
        hearers
    }

    fn count(&self) -> usize {
        self.stays.values().map(|stay| stay.watches).sum()
    }

    /// Ends everything of somebody's.
    fn forget(&mut self, who: &ParticipantId) {
        if self.stays.remove(who).is_some() {
            self.targets.retain(|_, watches| {
                watches.remove(who);
                !watches.is_empty()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn somebody(id: &str) -> Arc<Participant> {
        let id = ParticipantId::new(id).expect("a name");
        Arc::new(Participant::new(id))
    }

    fn key(text: &str) -> Key {
        Key::new(text).expect("a key")
    }

    fn target(text: Option<&str>) -> Target {
        Target { scope: Scope::Topic, key: text.map(key) }
    }

    fn told(hearers: &Hearers) -> String {
        let line = |(manner, who): (&Manner, &Vec<ParticipantId>)| {
            let who: Vec<_> = who.iter().map(ParticipantId::as_str).collect();
            match manner {
                Manner::Change => who.join(" "),
                Manner::Resource(uri) => format!("{uri}: {}", who.join(" ")),
            }
        };
        hearers.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_key_and_its_scope_are_heard_once() {
        let mut watches = Watches::default();
        let (alice, bob) = (somebody("alice"), somebody("bob"));
        let here = |_: &Arc<Participant>| true;
        let uri = || Manner::Resource("context://topic/a".into());
        for (who, watched, manner) in [
            (&alice, Some("a"), Manner::Change),
            (&alice, Some("a"), Manner::Change),
            (&alice, None, Manner::Change),
            (&bob, Some("a"), uri()),
            (&bob, Some("b"), Manner::Change),
        ] {
            watches.begin(who, target(watched), manner, here).expect("there is room");
        }
        assert_eq!(watches.count(), 4, "the same watch twice is one");
        assert_eq!(told(&watches.of(&Scope::Topic, &key("a"), here)), "alice, context://topic/a: bob");
        assert_eq!(told(&watches.of(&Scope::Topic, &key("b"), here)), "alice bob");
        assert_eq!(told(&watches.of(&Scope::Participant(bob.id.clone()), &key("b"), here)), "");
        watches.end(&alice.id, &target(None), &Manner::Change);
        watches.end(&alice.id, &target(None), &Manner::Change);
        watches.end(&bob.id, &target(Some("a")), &uri());
        assert_eq!(told(&watches.of(&Scope::Topic, &key("b"), here)), "bob");
        assert_eq!(told(&watches.of(&Scope::Topic, &key("a"), here)), "alice");
        watches.end(&alice.id, &target(Some("a")), &Manner::Change);
        watches.end(&bob.id, &target(Some("b")), &Manner::Change);
        assert!(watches.targets.is_empty() && watches.stays.is_empty(), "nothing is left of what ended");
    }

    #[test]
    fn however_a_resource_is_spelt_it_is_heard_of_once() {
        let mut watches = Watches::default();
        let (alice, here) = (somebody("alice"), |_: &Arc<Participant>| true);
        for spelling in ["context://topic/a", "context://topic/%61", "context://topic/a"] {
            watches.begin(&alice, target(Some("a")), Manner::Resource(spelling.into()), here).expect("there is room");
        }
        watches.begin(&alice, target(Some("a")), Manner::Resource("context://topic/%61".into()), here).expect("room");
        assert_eq!(watches.count(), 1);
        assert_eq!(told(&watches.of(&Scope::Topic, &key("a"), here)), "context://topic/%61: alice");
        watches.end(&alice.id, &target(Some("a")), &Manner::Resource("context://topic/a".into()));
        assert!(watches.targets.is_empty() && watches.stays.is_empty());
    }

    #[test]
    fn a_watch_ends_with_a_stay() {
        let mut watches = Watches::default();
        let (before, again) = (somebody("alice"), somebody("alice"));
        let here = |who: &Arc<Participant>| Arc::ptr_eq(who, &again);
        watches.begin(&before, target(Some("a")), Manner::Change, here).expect("there is room");
        assert_eq!(told(&watches.of(&Scope::Topic, &key("a"), here)), "", "whoever is back asked for nothing");
        watches.begin(&before, target(Some("a")), Manner::Change, here).expect("there is room");
        watches.begin(&again, target(Some("b")), Manner::Change, here).expect("there is room");
        assert_eq!(told(&watches.of(&Scope::Topic, &key("a"), here)), "");
        assert_eq!(told(&watches.of(&Scope::Topic, &key("b"), here)), "alice");
    }

    #[test]
    fn watches_are_counted_and_the_gone_make_room() {
        let mut watches = Watches::default();
        let here = |who: &Arc<Participant>| who.id.as_str() != "p0";
        let crowd: Vec<_> = (0..MAX_OF_ALL / MAX_OF_ONE).map(|n| somebody(&format!("p{n}"))).collect();
        for who in &crowd {
            for n in 0..MAX_OF_ONE {
                watches.begin(who, target(Some(&n.to_string())), Manner::Change, here).expect("there is room");
            }
        }
        let one_more = watches.begin(&crowd[1], target(Some("one more")), Manner::Change, here);
        assert_eq!(one_more, Err("you watch 1024 things already, which is the limit".into()));
        let late = somebody("late");
        watches.begin(&late, target(None), Manner::Change, here).expect("whoever is gone makes room");
        assert_eq!(watches.count(), MAX_OF_ALL - MAX_OF_ONE + 1);
        assert!(!watches.stays.contains_key(&crowd[0].id));
        for n in 1..MAX_OF_ONE {
            watches.begin(&late, target(Some(&n.to_string())), Manner::Change, here).expect("there is room");
        }
        let full = watches.begin(&somebody("later"), target(None), Manner::Change, here);
        assert_eq!(full, Err("65536 things are watched in this room already, which is the limit".into()));
    }
}
