//! Who gets which changes.
//!
//! Invariant: a watch belongs to one stay in the room. A participant that has left since, even if it is back, gets nothing; every join
//! makes another [`Participant`] value, which tells the stays apart. Sessions of one participant watch for themselves: what one of them ends, the
//! others keep.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use salon_log::context::{ContextScope, Key};
use salon_protocol::{Participant, ParticipantId, SessionId};

/// A session of a participant, or all of a participant that names none.
type ContextWatcher = (ParticipantId, Option<SessionId>);

/// How many watches one participant has, and all in a room together.
pub(super) const MAX_OF_ONE: usize = 1024;
const MAX_OF_ALL: usize = 65_536;

/// What is watched: a key, or all of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WatchTarget {
    pub(super) scope: ContextScope,
    pub(super) key: Option<Key>,
}

/// How somebody wants to hear of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WatchForm {
    /// As a change of the context.
    Change,
    /// As an update of a resource, by the URI they gave it.
    Resource(Box<str>),
}

/// The recipients of a change, by the form they asked for.
pub(super) type WatchersByForm = BTreeMap<WatchForm, Vec<ParticipantId>>;

/// How one session wants to hear of one target. However many spellings of its URI there are, they hear of the resource once: by the last
/// one they gave. Otherwise one change could be told a thousand times, to everybody in the room.
#[derive(Default)]
struct WatchForms {
    change: bool,
    resource: Option<Box<str>>,
}

impl WatchForms {
    /// Whether this is one more than there was.
    fn add(&mut self, form: WatchForm) -> bool {
        match form {
            WatchForm::Change => !std::mem::replace(&mut self.change, true),
            WatchForm::Resource(uri) => self.resource.replace(uri).is_none(),
        }
    }

    /// Whether there was one.
    fn remove(&mut self, form: &WatchForm) -> bool {
        match form {
            WatchForm::Change => std::mem::take(&mut self.change),
            WatchForm::Resource(_) => self.resource.take().is_some(),
        }
    }

    fn has(&self, form: &WatchForm) -> bool {
        match form {
            WatchForm::Change => self.change,
            WatchForm::Resource(_) => self.resource.is_some(),
        }
    }

    fn is_empty(&self) -> bool {
        !self.change && self.resource.is_none()
    }

    fn manners(&self) -> impl Iterator<Item = WatchForm> {
        let change = self.change.then_some(WatchForm::Change);
        change.into_iter().chain(self.resource.clone().map(WatchForm::Resource))
    }
}

#[derive(Default)]
pub(super) struct Watches {
    targets: HashMap<WatchTarget, BTreeMap<ContextWatcher, WatchForms>>,
    stays: BTreeMap<ContextWatcher, Stay>,
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
        session: Option<&SessionId>,
        target: WatchTarget,
        form: WatchForm,
        is_here: impl Fn(&Arc<Participant>) -> bool,
    ) -> Result<(), String> {
        if self.stays_of(&who.id).any(|(_, stay)| !Arc::ptr_eq(&stay.who, who)) {
            self.forget(&who.id);
        }
        let watcher = (who.id.clone(), session.cloned());
        if let Some(wanted) = self.targets.get_mut(&target).and_then(|watches| watches.get_mut(&watcher))
            && wanted.has(&form)
        {
            wanted.add(form);
            return Ok(());
        }
        if self.stays_of(&who.id).map(|(_, stay)| stay.watches).sum::<usize>() >= MAX_OF_ONE {
            return Err(format!("you watch {MAX_OF_ONE} things already, which is the limit"));
        }
        if self.count() >= MAX_OF_ALL {
            let gone: Vec<_> =
                self.stays.iter().filter(|(_, stay)| !is_here(&stay.who)).map(|((id, _), _)| id.clone()).collect();
            gone.iter().for_each(|id| self.forget(id));
            if self.count() >= MAX_OF_ALL {
                return Err(format!("{MAX_OF_ALL} things are watched in this room already, which is the limit"));
            }
        }
        self.targets.entry(target).or_default().entry(watcher.clone()).or_default().add(form);
        self.stays.entry(watcher).or_insert_with(|| Stay { who: who.clone(), watches: 0 }).watches += 1;
        Ok(())
    }

    /// What the sessions of a participant have.
    fn stays_of(&self, who: &ParticipantId) -> impl Iterator<Item = (&ContextWatcher, &Stay)> {
        let who = who.clone();
        self.stays.range((who.clone(), None)..).take_while(move |((id, _), _)| *id == who)
    }

    /// Ends a watch. One that there is not has ended.
    pub(super) fn end(
        &mut self,
        who: &ParticipantId,
        session: Option<&SessionId>,
        target: &WatchTarget,
        form: &WatchForm,
    ) {
        let watcher = (who.clone(), session.cloned());
        let Some(watches) = self.targets.get_mut(target) else { return };
        let Some(wanted) = watches.get_mut(&watcher) else { return };
        if wanted.remove(form)
            && let Some(stay) = self.stays.get_mut(&watcher)
        {
            stay.watches -= 1;
            if stay.watches == 0 {
                self.stays.remove(&watcher);
            }
        }
        if wanted.is_empty() {
            watches.remove(&watcher);
        }
        if watches.is_empty() {
            self.targets.remove(target);
        }
    }

    /// Who is to hear of a change of a key.
    pub(super) fn of(
        &mut self,
        scope: &ContextScope,
        key: &Key,
        is_here: impl Fn(&Arc<Participant>) -> bool,
    ) -> WatchersByForm {
        let (one, all) = (Some(key.clone()), None);
        let targets = [one, all].map(|key| WatchTarget { scope: scope.clone(), key });
        self.hearers(&targets, is_here)
    }

    /// Everything that is watched.
    pub(super) fn all(&self) -> Vec<WatchTarget> {
        self.targets.keys().cloned().collect()
    }

    /// Who watches any of these. Participants that are no longer here are forgotten.
    pub(super) fn hearers(
        &mut self,
        targets: &[WatchTarget],
        is_here: impl Fn(&Arc<Participant>) -> bool,
    ) -> WatchersByForm {
        let mut heard: BTreeSet<(WatchForm, ParticipantId)> = BTreeSet::new();
        for target in targets {
            for ((who, _), wanted) in self.targets.get(target).into_iter().flatten() {
                heard.extend(wanted.manners().map(|form| (form, who.clone())));
            }
        }
        let mut hearers = WatchersByForm::new();
        for (form, who) in heard {
            // Forgotten by now, or gone.
            let is_known = self.stays_of(&who).next().is_some_and(|(_, stay)| is_here(&stay.who));
            if is_known {
                hearers.entry(form).or_default().push(who);
            } else {
                self.forget(&who);
            }
        }
        hearers
    }

    fn count(&self) -> usize {
        self.stays.values().map(|stay| stay.watches).sum()
    }

    /// Ends everything of a participant.
    fn forget(&mut self, who: &ParticipantId) {
        let sessions: Vec<_> = self.stays_of(who).map(|(watcher, _)| watcher.clone()).collect();
        sessions.iter().for_each(|watcher| self.forget_watcher(watcher));
    }

    /// Ends everything of one session.
    pub(super) fn session_ended(&mut self, who: &ParticipantId, session: &SessionId) {
        self.forget_watcher(&(who.clone(), Some(session.clone())));
    }

    fn forget_watcher(&mut self, watcher: &ContextWatcher) {
        if self.stays.remove(watcher).is_some() {
            self.targets.retain(|_, watches| {
                watches.remove(watcher);
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

    fn target(text: Option<&str>) -> WatchTarget {
        WatchTarget { scope: ContextScope::Topic, key: text.map(key) }
    }

    fn told(hearers: &WatchersByForm) -> String {
        let line = |(form, who): (&WatchForm, &Vec<ParticipantId>)| {
            let who: Vec<_> = who.iter().map(ParticipantId::as_str).collect();
            match form {
                WatchForm::Change => who.join(" "),
                WatchForm::Resource(uri) => format!("{uri}: {}", who.join(" ")),
            }
        };
        hearers.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_key_and_its_scope_are_heard_once() {
        let mut watches = Watches::default();
        let (alice, bob) = (somebody("alice"), somebody("bob"));
        let here = |_: &Arc<Participant>| true;
        let uri = || WatchForm::Resource("context://topic/a".into());
        for (who, watched, form) in [
            (&alice, Some("a"), WatchForm::Change),
            (&alice, Some("a"), WatchForm::Change),
            (&alice, None, WatchForm::Change),
            (&bob, Some("a"), uri()),
            (&bob, Some("b"), WatchForm::Change),
        ] {
            watches.begin(who, None, target(watched), form, here).expect("there is room");
        }
        assert_eq!(watches.count(), 4, "the same watch twice is one");
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("a"), here)), "alice, context://topic/a: bob");
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("b"), here)), "alice bob");
        assert_eq!(told(&watches.of(&ContextScope::Participant(bob.id.clone()), &key("b"), here)), "");
        watches.end(&alice.id, None, &target(None), &WatchForm::Change);
        watches.end(&alice.id, None, &target(None), &WatchForm::Change);
        watches.end(&bob.id, None, &target(Some("a")), &uri());
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("b"), here)), "bob");
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("a"), here)), "alice");
        watches.end(&alice.id, None, &target(Some("a")), &WatchForm::Change);
        watches.end(&bob.id, None, &target(Some("b")), &WatchForm::Change);
        assert!(watches.targets.is_empty() && watches.stays.is_empty(), "nothing is left of what ended");
    }

    #[test]
    fn however_a_resource_is_spelt_it_is_heard_of_once() {
        let mut watches = Watches::default();
        let (alice, here) = (somebody("alice"), |_: &Arc<Participant>| true);
        for spelling in ["context://topic/a", "context://topic/%61", "context://topic/a"] {
            watches
                .begin(&alice, None, target(Some("a")), WatchForm::Resource(spelling.into()), here)
                .expect("there is room");
        }
        watches
            .begin(&alice, None, target(Some("a")), WatchForm::Resource("context://topic/%61".into()), here)
            .expect("room");
        assert_eq!(watches.count(), 1);
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("a"), here)), "context://topic/%61: alice");
        watches.end(&alice.id, None, &target(Some("a")), &WatchForm::Resource("context://topic/a".into()));
        assert!(watches.targets.is_empty() && watches.stays.is_empty());
    }

    #[test]
    fn a_watch_ends_with_a_stay() {
        let mut watches = Watches::default();
        let (before, again) = (somebody("alice"), somebody("alice"));
        let here = |who: &Arc<Participant>| Arc::ptr_eq(who, &again);
        watches.begin(&before, None, target(Some("a")), WatchForm::Change, here).expect("there is room");
        assert_eq!(
            told(&watches.of(&ContextScope::Topic, &key("a"), here)),
            "",
            "a participant that is back has no watches"
        );
        watches.begin(&before, None, target(Some("a")), WatchForm::Change, here).expect("there is room");
        watches.begin(&again, None, target(Some("b")), WatchForm::Change, here).expect("there is room");
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("a"), here)), "");
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("b"), here)), "alice");
    }

    #[test]
    fn sessions_of_one_participant_watch_for_themselves() {
        let mut watches = Watches::default();
        let (alice, here) = (somebody("alice"), |_: &Arc<Participant>| true);
        let (first, second) = (SessionId::new("s1").expect("an id"), SessionId::new("s2").expect("an id"));
        for session in [None, Some(&first), Some(&second)] {
            watches.begin(&alice, session, target(Some("a")), WatchForm::Change, here).expect("there is room");
        }
        assert_eq!(told(&watches.of(&ContextScope::Topic, &key("a"), here)), "alice", "the participant is told once");
        watches.end(&alice.id, Some(&first), &target(Some("a")), &WatchForm::Change);
        watches.end(&alice.id, None, &target(Some("a")), &WatchForm::Change);
        assert_eq!(
            told(&watches.of(&ContextScope::Topic, &key("a"), here)),
            "alice",
            "the other session watches still"
        );
        watches.session_ended(&alice.id, &first);
        assert_eq!(watches.count(), 1);
        watches.session_ended(&alice.id, &second);
        assert!(watches.targets.is_empty() && watches.stays.is_empty());
        for number in 0..MAX_OF_ONE {
            let session = [&first, &second][number % 2];
            watches
                .begin(&alice, Some(session), target(Some(&number.to_string())), WatchForm::Change, here)
                .expect("room");
        }
        watches.begin(&alice, None, target(None), WatchForm::Change, here).expect_err("sessions add up");
    }

    #[test]
    fn watches_are_counted_and_the_gone_make_room() {
        let mut watches = Watches::default();
        let here = |who: &Arc<Participant>| who.id.as_str() != "p0";
        let crowd: Vec<_> = (0..MAX_OF_ALL / MAX_OF_ONE).map(|n| somebody(&format!("p{n}"))).collect();
        for who in &crowd {
            for n in 0..MAX_OF_ONE {
                watches.begin(who, None, target(Some(&n.to_string())), WatchForm::Change, here).expect("there is room");
            }
        }
        let one_more = watches.begin(&crowd[1], None, target(Some("one more")), WatchForm::Change, here);
        assert_eq!(one_more, Err("you watch 1024 things already, which is the limit".into()));
        let late = somebody("late");
        watches
            .begin(&late, None, target(None), WatchForm::Change, here)
            .expect("a participant that is gone makes room");
        assert_eq!(watches.count(), MAX_OF_ALL - MAX_OF_ONE + 1);
        assert!(!watches.stays.contains_key(&(crowd[0].id.clone(), None)));
        for n in 1..MAX_OF_ONE {
            watches.begin(&late, None, target(Some(&n.to_string())), WatchForm::Change, here).expect("there is room");
        }
        let full = watches.begin(&somebody("later"), None, target(None), WatchForm::Change, here);
        assert_eq!(full, Err("65536 things are watched in this room already, which is the limit".into()));
    }
}
