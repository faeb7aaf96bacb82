//! What everybody in a room offers, as far as somebody wanted to know.
//!
//! One slot a participant, filled by one handshake however many ask at once ([`super::handshake`]), and good until the participant
//! leaves, joins again or says that its list has changed. Deliberately absent: resources and prompts, which no tool of the host needs.
//!
//! Invariant: bounded. A slot belongs to somebody present, and what the slots of all rooms hold is counted in bytes ([`Shelf`]); a
//! list that does not fit is not kept, and whoever asks is told so.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use salon_protocol::{Participant, ParticipantId};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::calls::Lack;

/// The bytes of lists that all rooms keep together.
const MOST_BYTES: usize = 128 << 20;

/// What a tool weighs beyond its text.
const OVERHEAD: usize = 128;

/// How long somebody who did not answer is left alone.
const PEACE: Duration = Duration::from_secs(60);

/// Room for lists, which all rooms share.
pub(super) struct Shelf {
    used: AtomicUsize,
    limit: usize,
}

impl Shelf {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit: MOST_BYTES })
    }

    /// Takes some of it, until the returned value is dropped.
    fn take(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        let taken = Taken { shelf: self.clone(), bytes };
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        (before + bytes <= self.limit).then_some(taken)
    }
}

struct Taken {
    shelf: Arc<Shelf>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shelf.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A tool, as its owner wrote it.
pub(super) struct Tool {
    pub(super) name: Box<str>,
    pub(super) raw: Box<RawValue>,
}

impl Tool {
    /// A tool needs a name.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Named {
            name: Box<str>,
        }
        let Named { name } = serde_json::from_str(raw.get()).ok()?;
        Some(Self { name, raw: raw.to_owned() })
    }

    pub(super) fn weight(&self) -> usize {
        self.raw.get().len() + self.name.len() + OVERHEAD
    }
}

/// What somebody offers.
pub(super) struct Offer {
    pub(super) tools: Vec<Tool>,
    _taken: Taken,
}

impl Offer {
    pub(super) fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| *offered.name == *tool)
    }
}

/// What is known of somebody's offer.
#[derive(Clone)]
pub(super) enum Knowledge {
    /// It is being asked.
    Asking,
    Known(Arc<Offer>),
    /// It is not to be had, and not asked for again before a moment.
    Unknown(Lack, Instant),
}

struct Slot {
    /// As the newest join shows it. Every join makes another value, so this tells whether it is still the one that was asked.
    who: Arc<Participant>,
    /// The handshake is done.
    met: bool,
    /// A list has changed since it was asked for.
    stale: bool,
    knowledge: watch::Sender<Knowledge>,
}

/// An acquaintance to be made, or a list to be had again. Whoever gets one must see to it.
pub(super) struct Errand {
    pub(super) who: Arc<Participant>,
    pub(super) met: bool,
}

/// A place to wait for what somebody offers.
pub(super) struct Consulted {
    pub(super) who: Arc<Participant>,
    knowledge: watch::Receiver<Knowledge>,
}

impl Consulted {
    /// What it offers, when that is known by a deadline.
    pub(super) async fn offer(&mut self, deadline: Instant) -> Result<Arc<Offer>, Lack> {
        let settled = self.knowledge.wait_for(|knowledge| !matches!(knowledge, Knowledge::Asking));
        match tokio::time::timeout_at(deadline, settled).await {
            Err(_) => Err(Lack::Timeout),
            // The slot is gone, and so is whoever it was for.
            Ok(Err(_)) => Err(Lack::Left),
            Ok(Ok(settled)) => match &*settled {
                Knowledge::Known(offer) => Ok(offer.clone()),
                Knowledge::Unknown(lack, _) => Err(*lack),
                Knowledge::Asking => Err(Lack::Timeout),
            },
        }
    }
}

pub(super) struct Catalogue {
    slots: HashMap<ParticipantId, Slot>,
    shelf: Arc<Shelf>,
}

impl Catalogue {
    pub(super) fn new(shelf: Arc<Shelf>) -> Self {
        Self { slots: HashMap::new(), shelf }
    }

    /// Looks somebody up who is here.
    pub(super) fn consult(&mut self, who: &Arc<Participant>, now: Instant) -> (Consulted, Option<Errand>) {
        let slot = self.slots.entry(who.id.clone()).or_insert_with(|| Slot::new(who, now));
        if !Arc::ptr_eq(&slot.who, who) {
            *slot = Slot::new(who, now);
        }
        let is_due = match &*slot.knowledge.borrow() {
            Knowledge::Asking => false,
            Knowledge::Known(_) => slot.stale,
            Knowledge::Unknown(_, again) => *again <= now,
        };
        if is_due {
            slot.knowledge.send_replace(Knowledge::Asking);
        }
        let errand = is_due.then(|| Errand { who: who.clone(), met: slot.met });
        (Consulted { who: who.clone(), knowledge: slot.knowledge.subscribe() }, errand)
    }

    /// The slot of somebody, unless they have joined again since.
    fn slot(&mut self, who: &Arc<Participant>) -> Option<&mut Slot> {
        self.slots.get_mut(&who.id).filter(|slot| Arc::ptr_eq(&slot.who, who))
    }

    /// The handshake with somebody is done.
    pub(super) fn met(&mut self, who: &Arc<Participant>) {
        if let Some(slot) = self.slot(who) {
            slot.met = true;
        }
    }

    /// Somebody's lists are about to be asked for: what changed before does not matter any more.
    pub(super) fn begin_listing(&mut self, who: &Arc<Participant>) {
        if let Some(slot) = self.slot(who) {
            slot.stale = false;
        }
    }

    /// Whether they changed since.
    pub(super) fn is_stale(&mut self, who: &Arc<Participant>) -> bool {
        self.slot(who).is_some_and(|slot| slot.stale)
    }

    /// Keeps what an errand brought.
    pub(super) fn settle(&mut self, who: &Arc<Participant>, tools: Result<Vec<Tool>, Lack>) {
        let weight = |tools: &Vec<Tool>| tools.iter().map(Tool::weight).sum::<usize>() + OVERHEAD;
        let shelf = self.shelf.clone();
        let Some(slot) = self.slot(who) else { return };
        let offer = tools.and_then(|tools| match shelf.take(weight(&tools)) {
            Some(taken) => Ok(Offer { tools, _taken: taken }),
            None => Err(Lack::TooLong),
        });
        match offer {
            Ok(offer) => drop(slot.knowledge.send_replace(Knowledge::Known(Arc::new(offer)))),
            Err(Lack::Left) => self.forget(&who.id),
            Err(lack) => {
                slot.met = false;
                slot.knowledge.send_replace(Knowledge::Unknown(lack, Instant::now() + PEACE));
            }
        }
    }

    /// Somebody said that a list of theirs has changed.
    pub(super) fn changed(&mut self, who: &ParticipantId) {
        if let Some(slot) = self.slots.get_mut(who) {
            slot.stale = true;
        }
        self.heard(who);
    }

    /// Somebody speaks MCP after all; if they were silent before, they are worth asking again.
    pub(super) fn heard(&mut self, who: &ParticipantId) {
        if self.slots.get(who).is_some_and(|slot| matches!(&*slot.knowledge.borrow(), Knowledge::Unknown(..))) {
            self.slots.remove(who);
        }
    }

    /// Somebody has left.
    pub(super) fn forget(&mut self, who: &ParticipantId) {
        self.slots.remove(who);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }
}

impl Slot {
    /// Due at once.
    fn new(who: &Arc<Participant>, now: Instant) -> Self {
        let knowledge = watch::Sender::new(Knowledge::Unknown(Lack::Unasked, now));
        Self { who: who.clone(), met: false, stale: false, knowledge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn somebody(id: &str) -> Arc<Participant> {
        let id = ParticipantId::new(id).expect("a name");
        Arc::new(Participant { id, name: None, kind: None, mcp: salon_protocol::McpVersion::default() })
    }

    fn named(name: &str) -> Tool {
        let raw = RawValue::from_string(format!(r#"{{"name":"{name}"}}"#)).expect("JSON");
        Tool::read(&raw).expect("a tool")
    }

    /// What a catalogue knows of somebody, and whether they would have to be asked.
    fn look(catalogue: &mut Catalogue, who: &Arc<Participant>) -> (String, bool) {
        let (consulted, errand) = catalogue.consult(who, Instant::now());
        let known = match &*consulted.knowledge.borrow() {
            Knowledge::Asking => "asking".to_owned(),
            Knowledge::Known(offer) => offer.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(" "),
            Knowledge::Unknown(lack, _) => format!("{lack:?}"),
        };
        (known, errand.is_some())
    }

    #[tokio::test(start_paused = true)]
    async fn one_asks_for_all() {
        let mut catalogue = Catalogue::new(Shelf::new());
        let bob = somebody("bob");
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), false), "somebody is asking already");
        let (mut consulted, _) = catalogue.consult(&bob, Instant::now());
        catalogue.settle(&bob, Ok(vec![named("move")]));
        assert_eq!(look(&mut catalogue, &bob), ("move".into(), false));
        let offer = consulted.offer(Instant::now()).await;
        assert_eq!(offer.map(|offer| offer.tools.len()), Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_a_leave_and_a_join_make_it_ask_again() {
        let mut catalogue = Catalogue::new(Shelf::new());
        let bob = somebody("bob");
        look(&mut catalogue, &bob);
        catalogue.met(&bob);
        catalogue.settle(&bob, Ok(vec![named("move")]));
        catalogue.changed(&bob.id);
        let (_, errand) = catalogue.consult(&bob, Instant::now());
        assert_eq!(errand.map(|errand| errand.met), Some(true), "no handshake");
        catalogue.begin_listing(&bob);
        assert!(!catalogue.is_stale(&bob));
        catalogue.changed(&bob.id);
        assert!(catalogue.is_stale(&bob), "it changed while it was being asked");

        let again = somebody("bob");
        let (_, errand) = catalogue.consult(&again, Instant::now());
        assert_eq!(errand.map(|errand| errand.met), Some(false), "whoever joined again is met again");
        catalogue.settle(&bob, Ok(vec![named("old")]));
        assert_eq!(look(&mut catalogue, &again).0, "asking", "what the one before answered is not kept");
        let (mut consulted, _) = catalogue.consult(&again, Instant::now());
        catalogue.forget(&bob.id);
        assert_eq!(consulted.offer(Instant::now() + PEACE).await.err(), Some(Lack::Left));
    }

    #[tokio::test(start_paused = true)]
    async fn the_silent_are_left_alone_until_they_speak() {
        let mut catalogue = Catalogue::new(Shelf::new());
        let bob = somebody("bob");
        for told in [Catalogue::changed, Catalogue::heard] {
            look(&mut catalogue, &bob);
            catalogue.settle(&bob, Err(Lack::Timeout));
            assert_eq!(look(&mut catalogue, &bob), ("Timeout".into(), false));
            told(&mut catalogue, &bob.id);
            assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
        }
        catalogue.settle(&bob, Err(Lack::Timeout));
        tokio::time::advance(PEACE).await;
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_weighed() {
        let shelf = Arc::new(Shelf { used: AtomicUsize::new(0), limit: 600 });
        let mut catalogue = Catalogue::new(shelf.clone());
        let (bob, carol) = (somebody("bob"), somebody("carol"));
        look(&mut catalogue, &bob);
        look(&mut catalogue, &carol);
        catalogue.settle(&bob, Ok(vec![named("move"), named("stop")]));
        catalogue.settle(&carol, Ok(vec![named("move"), named("stop")]));
        assert_eq!(look(&mut catalogue, &carol).0, "TooLong");
        assert_eq!(look(&mut catalogue, &bob).0, "move stop");
        let held = shelf.used.load(Ordering::Relaxed);
        assert!((1..=600).contains(&held), "{held} bytes are held");
        catalogue.clear();
        assert_eq!(shelf.used.load(Ordering::Relaxed), 0);
    }
}
