//! What the host knows of each participant's lists, and which of them it is to ask for next.

use std::collections::BTreeSet;
use std::sync::Arc;

use salon_mcp::listing::ListItem;
use salon_protocol::{Participant, ParticipantId};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::super::calls::MissingReason;
use super::LIST_TIMEOUT;
use super::budget::TakenBytes;

/// A list of a participant's.
pub(in super::super) struct OfferedList {
    pub(in super::super) items: Arc<[ListItem]>,
    pub(super) _taken: TakenBytes,
}

impl OfferedList {
    pub(in super::super) fn has(&self, name: &str) -> bool {
        self.items.iter().any(|offered| *offered.name == *name)
    }
}

/// What is known of a list.
#[derive(Clone)]
pub(in super::super) enum ListState {
    /// It is being asked for.
    Asking {
        /// When the last question was put.
        since: Instant,
        /// What it was before.
        earlier: Option<Arc<OfferedList>>,
    },
    Fetched(Arc<OfferedList>),
    /// It is not to be had.
    Unknown(MissingReason),
}

/// What a participant said in its handshake: which lists it has.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct HandshakeResult {
    pub(in super::super) has: [bool; 4],
}

/// A handshake: the first task that needs it performs it, and the others wait for that. A new one begins after one has failed.
pub(in super::super) type Meeting = Mutex<Option<Result<HandshakeResult, MissingReason>>>;

pub(super) struct ParticipantSlot {
    /// As the newest join shows it. Every join makes another value, so this tells whether it is still the one that was asked.
    pub(super) who: Arc<Participant>,
    pub(super) meeting: Arc<Meeting>,
    pub(super) lists: [CatalogueList; 4],
    /// It joined while sessions followed the catalogue, so its lists are news to them.
    pub(super) is_newcomer: bool,
}

impl ParticipantSlot {
    pub(super) fn new(who: &Arc<Participant>, is_newcomer: bool) -> Self {
        let list = || CatalogueList {
            is_stale: false,
            is_announced: false,
            turn: None,
            knowledge: watch::Sender::new(ListState::Unknown(MissingReason::Unasked)),
        };
        Self { who: who.clone(), meeting: Arc::default(), lists: [list(), list(), list(), list()], is_newcomer }
    }
}

pub(super) struct CatalogueList {
    /// It has changed since it was asked for.
    pub(super) is_stale: bool,
    /// It was said to change, so there is one, whatever the handshake said.
    pub(super) is_announced: bool,
    turn: Option<ListStep>,
    pub(super) knowledge: watch::Sender<ListState>,
}

impl CatalogueList {
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.turn, Some(ListStep::Pending(_)))
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        matches!(self.turn, Some(ListStep::Due(at) | ListStep::Aging(at)) if at <= now)
    }

    pub(super) fn is_known(&self) -> bool {
        matches!(&*self.knowledge.borrow(), ListState::Fetched(_))
    }
}

/// What is next for a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListStep {
    /// It has been asked for since then.
    Pending(Instant),
    /// It is not known, or known to be wrong: it is asked for from then on.
    Due(Instant),
    /// It is known, and too old from then on.
    Aging(Instant),
}

type Turns = BTreeSet<(Instant, ParticipantId)>;

/// All participants' lists of one kind, by what is next for them. Who is due is found without looking at everybody.
#[derive(Default)]
pub(super) struct Queue {
    pending: Turns,
    due: Turns,
    aging: Turns,
}

impl Queue {
    pub(super) fn set(&mut self, who: &ParticipantId, list: &mut CatalogueList, turn: Option<ListStep>) {
        if let Some(before) = list.turn.take() {
            let (turns, at) = self.of(before);
            turns.remove(&(at, who.clone()));
        }
        if let Some(turn) = turn {
            let (turns, at) = self.of(turn);
            turns.insert((at, who.clone()));
        }
        list.turn = turn;
    }

    fn of(&mut self, turn: ListStep) -> (&mut Turns, Instant) {
        match turn {
            ListStep::Pending(at) => (&mut self.pending, at),
            ListStep::Due(at) => (&mut self.due, at),
            ListStep::Aging(at) => (&mut self.aging, at),
        }
    }

    /// The next that is due, but for the one that asks.
    pub(super) fn next_due(&self, asker: &ParticipantId, now: Instant) -> Option<ParticipantId> {
        let mut due = self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, who)| who);
        due.find(|who| *who != asker).cloned()
    }

    pub(super) fn next_aged(&self, now: Instant) -> Option<ParticipantId> {
        self.aging.first().filter(|(at, _)| *at <= now).map(|(_, who)| who.clone())
    }

    pub(super) fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }

    /// Until when the list is waited for that was asked for last.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.last().map(|(since, _)| *since + LIST_TIMEOUT)
    }
}

/// A place to wait for what a participant offers.
pub(in super::super) struct Consulted {
    pub(in super::super) who: Arc<Participant>,
    pub(super) knowledge: watch::Receiver<ListState>,
}

impl Consulted {
    /// What it offers, when that is known by a deadline, and it does not take too long over it.
    pub(in super::super) async fn offer(&mut self, deadline: Instant) -> Result<Arc<OfferedList>, MissingReason> {
        let asked = match &*self.knowledge.borrow() {
            ListState::Asking { since, .. } => Some(*since + LIST_TIMEOUT),
            _ => None,
        };
        let deadline = asked.map_or(deadline, |asked| deadline.min(asked));
        let settled = tokio::time::timeout_at(deadline, self.settled()).await;
        settled.unwrap_or_else(|_| self.before().ok_or(MissingReason::Timeout))
    }

    /// What it was before it was asked for again.
    fn before(&self) -> Option<Arc<OfferedList>> {
        match &*self.knowledge.borrow() {
            ListState::Asking { earlier, .. } => earlier.clone(),
            _ => None,
        }
    }

    /// The same, however long it takes.
    pub(in super::super) async fn settled(&mut self) -> Result<Arc<OfferedList>, MissingReason> {
        match self.knowledge.wait_for(|knowledge| !matches!(knowledge, ListState::Asking { .. })).await {
            // The slot is gone, and so is its participant.
            Err(_) => Err(MissingReason::Left),
            Ok(settled) => match &*settled {
                ListState::Fetched(offer) => Ok(offer.clone()),
                ListState::Unknown(lack) => Err(*lack),
                ListState::Asking { .. } => Err(MissingReason::Timeout),
            },
        }
    }
}
