//! What everybody in a room offers, as far as somebody wanted to know.
//!
//! One slot a participant and list, filled by one errand however many ask at once ([`super::handshake`]), and good until the participant
//! leaves, joins again or says that the list has changed. Not every server says so: a list is asked for again when it is wanted and older than
//! its owner allows (`ttlMs` of MCP 2026-07-28), or than a fixed age.
//!
//! Invariant: bounded. A slot belongs to somebody present, and what the slots of all rooms hold is counted in bytes ([`Shelf`]); a
//! list that does not fit is not kept, and whoever asks is told so.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use salon_mcp::listing::{Item, Listing};
use salon_protocol::{Participant, ParticipantId};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::calls::Lack;

/// The bytes of lists that all rooms keep together.
const MAX_BYTES: usize = 128 << 20;

/// What an item weighs beyond its text.
const OVERHEAD: usize = 128;

/// How long a participant that did not answer is not asked again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// How long an answer waits for a participant, from when it was last asked something. The errand goes on behind it.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// The bounds of what a participant's `ttlMs` may be: the first keeps clients that list often from having everybody asked each time.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(3600);

/// Room for lists, which all rooms share.
pub(super) struct Shelf {
    used: AtomicUsize,
    limit: usize,
}

impl Shelf {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit: MAX_BYTES })
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

/// What an item weighs.
pub(super) fn weight(item: &Item) -> usize {
    item.raw.get().len() + item.name.len() + OVERHEAD
}

/// A list of somebody's.
pub(super) struct Offer {
    pub(super) items: Arc<[Item]>,
    _taken: Taken,
}

impl Offer {
    pub(super) fn has(&self, name: &str) -> bool {
        self.items.iter().any(|offered| *offered.name == *name)
    }
}

/// What is known of a list.
#[derive(Clone)]
pub(super) enum Knowledge {
    /// It is being asked for.
    Asking {
        /// When the last question was put.
        since: Instant,
        /// What it was before.
        known: Option<Arc<Offer>>,
    },
    Known(Arc<Offer>),
    /// It is not to be had, and not asked for again before a moment.
    Unknown(Lack, Instant),
}

/// What a participant said in its handshake: which lists it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met {
    pub(super) has: [bool; 4],
}

/// A handshake: the first who needs it makes it, and whoever else does waits for that.
pub(super) type Meeting = Mutex<Option<Met>>;

struct Slot {
    /// As the newest join shows it. Every join makes another value, so this tells whether it is still the one that was asked.
    who: Arc<Participant>,
    meeting: Arc<Meeting>,
    lists: [List; 4],
}

struct List {
    /// It has changed since it was asked for.
    stale: bool,
    /// It was said to change, so there is one, whatever the handshake said.
    said: bool,
    /// When it is too old, once it is known.
    fresh_until: Instant,
    knowledge: watch::Sender<Knowledge>,
}

/// A list as an errand brings it.
pub(super) struct Listed {
    pub(super) items: Vec<Item>,
    /// How long it may be kept, where its owner says so.
    pub(super) ttl: Option<Duration>,
}

/// A list to be had. Whoever gets one must see to it.
pub(super) struct Errand {
    pub(super) who: Arc<Participant>,
    pub(super) listing: Listing,
    pub(super) meeting: Arc<Meeting>,
    /// There is such a list, whatever the handshake says.
    pub(super) said: bool,
}

/// A place to wait for what somebody offers.
pub(super) struct Consulted {
    pub(super) who: Arc<Participant>,
    knowledge: watch::Receiver<Knowledge>,
}

impl Consulted {
    /// What it offers, when that is known by a deadline, and it does not take too long over it.
    pub(super) async fn offer(&mut self, deadline: Instant) -> Result<Arc<Offer>, Lack> {
        let asked = match &*self.knowledge.borrow() {
            Knowledge::Asking { since, .. } => Some(*since + LIST_TIMEOUT),
            _ => None,
        };
        let deadline = asked.map_or(deadline, |asked| deadline.min(asked));
        let settled = tokio::time::timeout_at(deadline, self.settled()).await;
        settled.unwrap_or_else(|_| self.before().ok_or(Lack::Timeout))
    }

    /// What it was before it was asked for again.
    fn before(&self) -> Option<Arc<Offer>> {
        match &*self.knowledge.borrow() {
            Knowledge::Asking { known, .. } => known.clone(),
            _ => None,
        }
    }

    /// The same, however long it takes.
    pub(super) async fn settled(&mut self) -> Result<Arc<Offer>, Lack> {
        match self.knowledge.wait_for(|knowledge| !matches!(knowledge, Knowledge::Asking { .. })).await {
            // The slot is gone, and so is whoever it was for.
            Err(_) => Err(Lack::Left),
            Ok(settled) => match &*settled {
                Knowledge::Known(offer) => Ok(offer.clone()),
                Knowledge::Unknown(lack, _) => Err(*lack),
                Knowledge::Asking { .. } => Err(Lack::Timeout),
            },
        }
    }
}

pub(super) struct Catalogue {
    slots: HashMap<ParticipantId, Slot>,
    shelf: Arc<Shelf>,
    max_age: Duration,
}

impl Catalogue {
    /// `max_age` is how old a list may be whose owner does not say.
    pub(super) fn new(shelf: Arc<Shelf>, max_age: Duration) -> Self {
        Self { slots: HashMap::new(), shelf, max_age }
    }

    /// Looks a list up of somebody who is here.
    pub(super) fn consult(
        &mut self,
        who: &Arc<Participant>,
        listing: Listing,
        now: Instant,
    ) -> (Consulted, Option<Errand>) {
        let slot = self.slots.entry(who.id.clone()).or_insert_with(|| Slot::new(who, now));
        if !Arc::ptr_eq(&slot.who, who) {
            *slot = Slot::new(who, now);
        }
        let list = &mut slot.lists[listing as usize];
        let (is_due, known) = match &*list.knowledge.borrow() {
            Knowledge::Asking { .. } => (false, None),
            Knowledge::Known(offer) => (list.stale || list.fresh_until <= now, Some(offer.clone())),
            Knowledge::Unknown(_, again) => (*again <= now, None),
        };
        if is_due {
            list.knowledge.send_replace(Knowledge::Asking { since: now, known });
        }
        let errand =
            is_due.then(|| Errand { who: who.clone(), listing, meeting: slot.meeting.clone(), said: list.said });
        (Consulted { who: who.clone(), knowledge: list.knowledge.subscribe() }, errand)
    }

    /// The slot of somebody, unless they have joined again since.
    fn slot(&mut self, who: &Arc<Participant>) -> Option<&mut Slot> {
        self.slots.get_mut(&who.id).filter(|slot| Arc::ptr_eq(&slot.who, who))
    }

    /// A list is about to be asked for: what changed before does not matter any more. Whoever it is has shaken hands, so even one who took
    /// long over that is waited for again.
    pub(super) fn begin_listing(&mut self, errand: &Errand, now: Instant) {
        let Some(slot) = self.slot(&errand.who) else { return };
        let list = &mut slot.lists[errand.listing as usize];
        list.stale = false;
        list.knowledge.send_if_modified(|knowledge| {
            if let Knowledge::Asking { since, .. } = knowledge {
                *since = now;
            }
            // That is for whoever comes now; those who wait already have waited long enough.
            false
        });
    }

    /// Whether it changed since.
    pub(super) fn is_stale(&mut self, errand: &Errand) -> bool {
        self.slot(&errand.who).is_some_and(|slot| slot.lists[errand.listing as usize].stale)
    }

    /// Keeps what an errand brought.
    pub(super) fn settle(&mut self, errand: &Errand, listed: Result<Listed, Lack>) {
        let (shelf, max_age, now) = (self.shelf.clone(), self.max_age, Instant::now());
        let Some(slot) = self.slot(&errand.who) else { return };
        let ttl = listed.as_ref().ok().and_then(|listed| listed.ttl).map(|ttl| ttl.clamp(MIN_TTL, MAX_TTL));
        let offer = listed.and_then(|Listed { items, .. }| {
            let taken = shelf.take(items.iter().map(weight).sum::<usize>() + OVERHEAD).ok_or(Lack::TooLong)?;
            Ok(Offer { items: items.into(), _taken: taken })
        });
        let list = &mut slot.lists[errand.listing as usize];
        let before = match &*list.knowledge.borrow() {
            Knowledge::Asking { known, .. } => known.clone(),
            _ => None,
        };
        match (offer, before) {
            (Ok(offer), _) => {
                list.fresh_until = now + ttl.unwrap_or(max_age);
                list.knowledge.send_replace(Knowledge::Known(Arc::new(offer)));
            }
            (Err(Lack::Left), _) => self.forget(&errand.who.id),
            // A participant that is here and slow still offers what it did.
            (Err(Lack::Timeout | Lack::Unasked), Some(before)) => {
                list.fresh_until = now + RETRY_AFTER;
                list.knowledge.send_replace(Knowledge::Known(before));
            }
            (Err(lack), _) => {
                list.knowledge.send_replace(Knowledge::Unknown(lack, now + RETRY_AFTER));
                // A participant that answers again after all may have started over.
                slot.meeting = Arc::default();
            }
        }
    }

    /// Somebody said that a list of theirs has changed.
    pub(super) fn changed(&mut self, who: &ParticipantId, listings: &[Listing]) {
        if let Some(slot) = self.slots.get_mut(who) {
            for listing in listings {
                let list = &mut slot.lists[*listing as usize];
                (list.stale, list.said) = (true, true);
            }
        }
        self.heard(who);
    }

    /// Somebody speaks MCP after all; if they were silent before, they are worth asking again.
    pub(super) fn heard(&mut self, who: &ParticipantId) {
        let Some(slot) = self.slots.get_mut(who) else { return };
        let now = Instant::now();
        for list in &slot.lists {
            list.knowledge.send_if_modified(|knowledge| match knowledge {
                Knowledge::Unknown(_, again) if *again > now => {
                    *again = now;
                    true
                }
                _ => false,
            });
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
    /// Every list is due at once.
    fn new(who: &Arc<Participant>, now: Instant) -> Self {
        let list = || List {
            stale: false,
            said: false,
            fresh_until: now,
            knowledge: watch::Sender::new(Knowledge::Unknown(Lack::Unasked, now)),
        };
        Self { who: who.clone(), meeting: Arc::default(), lists: [list(), list(), list(), list()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    const MAX_AGE: Duration = Duration::from_secs(600);

    fn somebody(id: &str) -> Arc<Participant> {
        let id = ParticipantId::new(id).expect("a name");
        Arc::new(Participant::new(id))
    }

    fn named(name: &str) -> Item {
        let raw = RawValue::from_string(format!(r#"{{"name":"{name}"}}"#)).expect("JSON");
        Item { name: name.into(), raw }
    }

    /// What an errand for somebody's tools would be.
    fn errand(catalogue: &mut Catalogue, who: &Arc<Participant>) -> Errand {
        let slot = catalogue.slots.get(&who.id).filter(|slot| Arc::ptr_eq(&slot.who, who));
        let meeting = slot.map(|slot| slot.meeting.clone()).unwrap_or_default();
        Errand { who: who.clone(), listing: Listing::Tools, meeting, said: false }
    }

    fn settle(catalogue: &mut Catalogue, who: &Arc<Participant>, items: Result<Vec<Item>, Lack>) {
        let errand = errand(catalogue, who);
        catalogue.settle(&errand, items.map(|items| Listed { items, ttl: None }));
    }

    /// What a catalogue knows of somebody, and whether they would have to be asked.
    fn look(catalogue: &mut Catalogue, who: &Arc<Participant>) -> (String, bool) {
        let (consulted, errand) = catalogue.consult(who, Listing::Tools, Instant::now());
        let known = match &*consulted.knowledge.borrow() {
            Knowledge::Asking { .. } => "asking".to_owned(),
            Knowledge::Known(offer) => offer.items.iter().map(|tool| &*tool.name).collect::<Vec<_>>().join(" "),
            Knowledge::Unknown(lack, _) => format!("{lack:?}"),
        };
        (known, errand.is_some())
    }

    #[tokio::test(start_paused = true)]
    async fn one_asks_for_all() {
        let mut catalogue = Catalogue::new(Shelf::new(), MAX_AGE);
        let bob = somebody("bob");
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), false), "somebody is asking already");
        let (mut consulted, _) = catalogue.consult(&bob, Listing::Tools, Instant::now());
        settle(&mut catalogue, &bob, Ok(vec![named("move")]));
        assert_eq!(look(&mut catalogue, &bob), ("move".into(), false));
        let offer = consulted.offer(Instant::now()).await;
        assert_eq!(offer.map(|offer| offer.items.len()), Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_a_leave_and_a_join_make_it_ask_again() {
        let mut catalogue = Catalogue::new(Shelf::new(), MAX_AGE);
        let bob = somebody("bob");
        look(&mut catalogue, &bob);
        settle(&mut catalogue, &bob, Ok(vec![named("move")]));
        let met = errand(&mut catalogue, &bob).meeting;
        *met.lock().await = Some(Met { has: [false; 4] });
        catalogue.changed(&bob.id, &[Listing::Tools]);
        let (_, again) = catalogue.consult(&bob, Listing::Tools, Instant::now());
        let again = again.expect("a list that changed is asked for again");
        assert!(again.meeting.lock().await.is_some(), "no handshake");
        assert!(again.said, "it has tools, whatever its handshake said");
        catalogue.begin_listing(&again, Instant::now());
        assert!(!catalogue.is_stale(&again));
        catalogue.changed(&bob.id, &[Listing::Tools]);
        assert!(catalogue.is_stale(&again), "it changed while it was being asked");

        let again = somebody("bob");
        let (_, errand) = catalogue.consult(&again, Listing::Tools, Instant::now());
        let meeting = errand.expect("whoever joined again is asked again").meeting;
        assert!(meeting.lock().await.is_none(), "whoever joined again is met again");
        settle(&mut catalogue, &bob, Ok(vec![named("old")]));
        assert_eq!(look(&mut catalogue, &again).0, "asking", "what the one before answered is not kept");
        let (mut consulted, _) = catalogue.consult(&again, Listing::Tools, Instant::now());
        catalogue.forget(&bob.id);
        assert_eq!(consulted.offer(Instant::now() + RETRY_AFTER).await.err(), Some(Lack::Left));
    }

    #[tokio::test(start_paused = true)]
    async fn the_silent_are_left_alone_until_they_speak() {
        let mut catalogue = Catalogue::new(Shelf::new(), MAX_AGE);
        let bob = somebody("bob");
        let changed = |catalogue: &mut Catalogue, who: &ParticipantId| catalogue.changed(who, &[Listing::Tools]);
        for told in [changed, Catalogue::heard] {
            look(&mut catalogue, &bob);
            settle(&mut catalogue, &bob, Err(Lack::Timeout));
            assert_eq!(look(&mut catalogue, &bob), ("Timeout".into(), false));
            told(&mut catalogue, &bob.id);
            assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
        }
        settle(&mut catalogue, &bob, Err(Lack::Timeout));
        tokio::time::advance(RETRY_AFTER).await;
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
    }

    #[tokio::test(start_paused = true)]
    async fn who_shook_hands_late_is_waited_for_again() {
        let mut catalogue = Catalogue::new(Shelf::new(), MAX_AGE);
        let bob = somebody("bob");
        let (mut consulted, errand) = catalogue.consult(&bob, Listing::Tools, Instant::now());
        let errand = errand.expect("nobody has asked yet");
        tokio::time::advance(2 * LIST_TIMEOUT).await;
        let deadline = Instant::now() + RETRY_AFTER;
        assert_eq!(consulted.offer(deadline).await.err(), Some(Lack::Timeout), "nobody waits that long");
        catalogue.begin_listing(&errand, Instant::now());
        let (mut consulted, _) = catalogue.consult(&bob, Listing::Tools, Instant::now());
        let settled = async { catalogue.settle(&errand, Ok(Listed { items: vec![named("late")], ttl: None })) };
        let (offer, ()) = tokio::join!(consulted.offer(deadline), settled);
        assert_eq!(offer.map(|offer| offer.items.len()), Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_asked_for_again_when_it_is_too_old() {
        let mut catalogue = Catalogue::new(Shelf::new(), MAX_AGE);
        let bob = somebody("bob");
        look(&mut catalogue, &bob);
        settle(&mut catalogue, &bob, Ok(vec![named("move")]));
        tokio::time::advance(MAX_AGE - Duration::from_millis(1)).await;
        assert_eq!(look(&mut catalogue, &bob), ("move".into(), false));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
        // What was known is shown while a slow participant is asked, and after it did not answer.
        let (mut consulted, _) = catalogue.consult(&bob, Listing::Tools, Instant::now());
        let offer = consulted.offer(Instant::now() + LIST_TIMEOUT).await;
        assert_eq!(offer.map(|offer| offer.has("move")), Ok(true));
        settle(&mut catalogue, &bob, Err(Lack::Timeout));
        assert_eq!(look(&mut catalogue, &bob), ("move".into(), false));
        tokio::time::advance(RETRY_AFTER).await;
        assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true));
        settle(&mut catalogue, &bob, Ok(vec![named("move"), named("silently added")]));
        assert_eq!(look(&mut catalogue, &bob), ("move silently added".into(), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_kept_as_long_as_its_owner_says() {
        let mut catalogue = Catalogue::new(Shelf::new(), MAX_AGE);
        let bob = somebody("bob");
        for (ttl, kept) in
            [(Duration::ZERO, MIN_TTL), (Duration::from_secs(7), Duration::from_secs(7)), (2 * MAX_TTL, MAX_TTL)]
        {
            look(&mut catalogue, &bob);
            let listed = Listed { items: vec![named("move")], ttl: Some(ttl) };
            let errand = errand(&mut catalogue, &bob);
            catalogue.settle(&errand, Ok(listed));
            tokio::time::advance(kept - Duration::from_millis(1)).await;
            assert_eq!(look(&mut catalogue, &bob), ("move".into(), false), "{ttl:?}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(look(&mut catalogue, &bob), ("asking".into(), true), "{ttl:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_weighed() {
        let shelf = Arc::new(Shelf { used: AtomicUsize::new(0), limit: 600 });
        let mut catalogue = Catalogue::new(shelf.clone(), MAX_AGE);
        let (bob, carol) = (somebody("bob"), somebody("carol"));
        look(&mut catalogue, &bob);
        look(&mut catalogue, &carol);
        settle(&mut catalogue, &bob, Ok(vec![named("move"), named("stop")]));
        settle(&mut catalogue, &carol, Ok(vec![named("move"), named("stop")]));
        assert_eq!(look(&mut catalogue, &carol).0, "TooLong");
        assert_eq!(look(&mut catalogue, &bob).0, "move stop");
        let held = shelf.used.load(Ordering::Relaxed);
        assert!((1..=600).contains(&held), "{held} bytes are held");
        catalogue.clear();
        assert_eq!(shelf.used.load(Ordering::Relaxed), 0);
    }
}
