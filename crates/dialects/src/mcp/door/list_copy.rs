//! The copies of lists that one client has, the requests that wait for lists, and what a fetched list changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::ParticipantId;

use super::DoorRequest;

/// A copy of a list that the catalogue does not have: one in the client's own name, or the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListCopy {
    /// It is being asked for, and waited for until a moment; whether it has changed meanwhile.
    Asking { until: Instant, stale: bool },
    /// It is fetched, and fetched again when the client lists after a moment: not every server announces its changes.
    Fetched { until: Instant },
    /// It is not to be had, and not asked for before a moment.
    Lacking { until: Instant },
}

impl ListCopy {
    /// Whether a request for lists waits for it.
    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        matches!(self, Self::Asking { until, .. } if *until > now)
    }
}

/// The copies of a participant's lists.
#[derive(Debug, Default)]
pub(super) struct ListCopies {
    pub(super) lists: BTreeMap<Listing, ListCopy>,
    /// It told this client alone that a list changed, or is asked in its name: what it lists to others may be something else.
    pub(super) is_apart: bool,
}

/// A request that waits for lists.
#[derive(Debug)]
pub(super) struct ListWaiter {
    pub(super) needs: &'static [Listing],
    pub(super) request: DoorRequest,
    /// The host is bringing the catalogue up to date.
    pub(super) awaits_catalogue: bool,
    /// The catalogue has answered, and participants are listed in the client's own name.
    pub(super) is_in_own_name: bool,
}

/// How a list is to be fetched.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListFetch {
    /// Not now: the copy or the catalogue is good enough, or it is being fetched.
    No,
    /// From the room's host, which is here: what it lists depends on who asks.
    Host,
    /// From the participant, in the client's own name.
    Participant,
}

/// A participant's list, as it was fetched.
#[derive(Debug)]
pub(super) struct FetchedPeerList<'a> {
    pub(super) owner: &'a ParticipantId,
    pub(super) listing: Listing,
    pub(super) items: Arc<[ListItem]>,
    /// How long it may be kept, where its owner says so.
    pub(super) ttl: Option<Duration>,
}

impl<'a> FetchedPeerList<'a> {
    /// The list of a participant that has none.
    pub(super) fn empty(owner: &'a ParticipantId, listing: Listing) -> Self {
        Self { owner, listing, items: Arc::new([]), ttl: None }
    }
}

/// What a new copy of a list changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyChange {
    /// The client's lists differ in a way that no waiting request shows.
    pub(super) is_news: bool,
    /// The list has changed again meanwhile.
    pub(super) is_stale: bool,
}
