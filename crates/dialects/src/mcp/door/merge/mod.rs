//! What this session's client sees of everybody's lists: the room's catalogue, and in its place what participants list to this client.
//!
//! A shelf reads the newest [`CatalogueSnapshot`] and holds only what differs for its client: lists that were fetched in the client's own name, the
//! host's, and links. Only `name`, `uri`, `uriTemplate` and titles of an item are ever changed, and only in what is handed out. Invariants:
//! within the room a tool's or prompt's name is unique, and it leads back to its owner and its own name; the order is that of
//! [`catalogue`](crate::catalogue). Deliberately absent: asking anybody, and deadlines.

mod links;
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use salon_control::Authority;
use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::ParticipantId;

use crate::catalogue::{self, CatalogueSnapshot, Merged, OwnerRank};
use links::ResourceLinks;

/// How many owners of the same name an error lists.
const MAX_OWNERS_FOUND: usize = 32;

/// Whose something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnerLookup {
    /// This participant's, who calls it so.
    One(ParticipantId, String),
    /// Nobody's.
    Nobody,
    /// Any of these could be meant.
    Several(Vec<ParticipantId>),
}

impl OwnerLookup {
    /// What is one participant's is found, and called `name` by it.
    fn among(owners: &[ParticipantId], name: &str) -> Self {
        match owners {
            [] => Self::Nobody,
            [owner] => Self::One(owner.clone(), name.to_owned()),
            several => Self::Several(several.to_vec()),
        }
    }
}

/// What one participant lists to this client, where it is not what it lists to all.
type OwnLists = [Option<Arc<[ListItem]>>; 4];

/// What everybody offers to one client.
#[derive(Debug)]
pub(super) struct MergedLists {
    snapshot: Arc<CatalogueSnapshot>,
    /// Participants that the snapshot has and this client is not shown: itself, and those that have left meanwhile.
    hidden: BTreeSet<ParticipantId>,
    me: Option<ParticipantId>,
    own: BTreeMap<OwnerRank, OwnLists>,
    own_merged: [Merged; 4],
    own_bytes: usize,
    links: ResourceLinks,
    /// What the client may call, where the room or its token forbids something.
    authority: Option<Arc<Authority>>,
}

impl Default for MergedLists {
    fn default() -> Self {
        Self {
            snapshot: Arc::default(),
            hidden: BTreeSet::new(),
            me: None,
            own: BTreeMap::new(),
            own_merged: Listing::ALL.map(|listing| Merged::new(listing, 0)),
            own_bytes: 0,
            links: ResourceLinks::default(),
            authority: None,
        }
    }
}

impl MergedLists {
    /// The shelf of a participant, which is not shown what it offers itself.
    pub(super) fn of(me: &ParticipantId) -> Self {
        Self { me: Some(me.clone()), hidden: BTreeSet::from([me.clone()]), ..Self::default() }
    }

    /// Takes a newer snapshot. Returns the listings that differ for this client; of those that are not of `interest` to it, only where
    /// the change is news.
    pub(super) fn update(&mut self, snapshot: Arc<CatalogueSnapshot>, interest: &BTreeSet<Listing>) -> Vec<Listing> {
        if snapshot.version() <= self.snapshot.version() {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let (me, now) = (self.me.as_ref(), &self.snapshot);
        self.hidden.retain(|who| Some(who) == me || now.has(who));
        let changed: Vec<_> = Listing::ALL
            .into_iter()
            .filter(|listing| before.listing(*listing).version() < self.snapshot.listing(*listing).version())
            .collect();
        for listing in &changed {
            let taken = |(who, label): (&ParticipantId, &str)| is_taken(&self.snapshot, *listing, who, label);
            let own = &self.own_merged[*listing as usize];
            if own.has_displaced() || own.labels().any(taken) {
                self.merge_own(*listing);
            }
        }
        let is_told = |listing: &Listing| {
            let (now, since) = (self.snapshot.listing(*listing), before.listing(*listing).version());
            let is_wanted = interest.contains(listing);
            match now.changes_since(since) {
                Some(mut changes) => changes.any(|change| {
                    (is_wanted || change.is_news)
                        && self.me.as_ref() != Some(&change.who)
                        && self.own_merged(*listing).offer(&change.who).is_none()
                }),
                None => is_wanted || now.announced() > since,
            }
        };
        changed.into_iter().filter(is_told).collect()
    }

    /// The room's settings, or what they allow this client, have changed.
    pub(super) fn set_authority(&mut self, authority: Option<Arc<Authority>>) {
        self.authority = authority;
    }

    /// Whether the client may call a tool, and so is shown it. What the host lists depends on the client already.
    fn is_permitted(&self, listing: Listing, who: &ParticipantId, name: &str) -> bool {
        match (&self.authority, &self.me) {
            (Some(authority), Some(me)) if listing == Listing::Tools && !who.is_host() => {
                authority.lists(me, who, name)
            }
            _ => true,
        }
    }

    /// The version of the snapshot that is shown.
    pub(super) fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// Whether the room's catalogue knows a list.
    pub(super) fn is_catalogued(&self, who: &ParticipantId, listing: Listing) -> bool {
        self.snapshot.listing(listing).offer(who).is_some()
    }

    /// Puts down what a participant lists to this client, in place of what it lists to all. Whether that differs from what was shown.
    pub(super) fn put(&mut self, who: &ParticipantId, listing: Listing, items: impl Into<Arc<[ListItem]>>) -> bool {
        let items = items.into();
        let is_same = catalogue::is_same(self.items(who, listing), &items);
        self.own_bytes += bytes(&items);
        let own = &mut self.own.entry(OwnerRank::of(who)).or_default()[listing as usize];
        self.own_bytes -= own.replace(items).as_deref().map_or(0, bytes);
        self.merge_own(listing);
        !is_same
    }

    /// Takes away all that is a participant's, who has left. Returns the listings that had something of it which the room's catalogue
    /// has not, and so will not tell of.
    pub(super) fn remove(&mut self, who: &ParticipantId) -> Vec<Listing> {
        self.links.forget(who);
        let is_untold = |listing: &Listing| {
            let known = self.snapshot.listing(*listing).offer(who);
            known.is_none_or(|known| known.is_empty()) && !self.items(who, *listing).is_empty()
        };
        let untold: Vec<_> = Listing::ALL.into_iter().filter(is_untold).collect();
        self.drop_own(who);
        if self.snapshot.has(who) {
            self.hidden.insert(who.clone());
        }
        untold
    }

    /// A participant has joined, maybe again: what it listed to this client before is void.
    pub(super) fn joined(&mut self, who: &ParticipantId) {
        self.drop_own(who);
        if self.me.as_ref() != Some(who) {
            self.hidden.remove(who);
        }
    }

    fn drop_own(&mut self, who: &ParticipantId) {
        for (listing, items) in Listing::ALL.into_iter().zip(self.own.remove(&OwnerRank::of(who)).unwrap_or_default()) {
            if let Some(items) = items {
                self.own_bytes -= bytes(&items);
                self.merge_own(listing);
            }
        }
    }

    /// What is held for this client alone.
    pub(super) fn bytes(&self) -> usize {
        self.own_bytes + self.links.bytes()
    }

    /// What a participant lists, as it wrote it.
    pub(super) fn items(&self, who: &ParticipantId, listing: Listing) -> &[ListItem] {
        let room = || self.snapshot.listing(listing).offer(who).filter(|_| !self.hidden.contains(who));
        self.own_merged(listing).offer(who).or_else(room).map_or(&[], |items| items)
    }

    /// Whether anything is known of a participant.
    fn has(&self, who: &ParticipantId) -> bool {
        self.own.contains_key(&OwnerRank::of(who)) || (self.snapshot.has(who) && !self.hidden.contains(who))
    }

    /// Whether an item is listed under this very name, whatever else will be listed.
    pub(super) fn is_listed(&self, listing: Listing, name: &str) -> bool {
        let labelled = self.labelled(listing, name);
        labelled.is_some_and(|(who, own)| catalogue::natural(who, own).is_some_and(|natural| natural == name))
    }

    /// Finds a tool or prompt by the name the room lists, by `participant__name`, or by its own name where only one has it.
    pub(super) fn find(&self, listing: Listing, name: &str) -> OwnerLookup {
        match listing {
            Listing::Tools | Listing::Prompts => self.find_named(listing, name),
            Listing::Resources => self.find_uri(name),
            Listing::Templates => self.find_template(name),
        }
    }

    fn find_named(&self, listing: Listing, name: &str) -> OwnerLookup {
        if let Some((owner, own)) = self.labelled(listing, name) {
            return OwnerLookup::One(owner.clone(), own.to_owned());
        }
        let room = self.snapshot.listing(listing).aliased(name).filter(|(who, _)| self.is_shown(listing, who));
        let aliased: Vec<_> = self.own_merged(listing).aliased(name).chain(room).collect();
        match aliased.as_slice() {
            [] => {}
            [(owner, own)] if catalogue::ends_at_first_underscores(owner) => {
                return OwnerLookup::One((*owner).clone(), (*own).to_owned());
            }
            [_] => return OwnerLookup::Nobody,
            several => return OwnerLookup::Several(several.iter().map(|(owner, _)| (*owner).clone()).collect()),
        }
        // What looks like a name of somebody's is nobody else's, even while that somebody is away.
        if name.contains("__") {
            return OwnerLookup::Nobody;
        }
        let owners = self.owners_of(listing, name);
        match owners.as_slice() {
            // The host comes first, and its own names are as good as its listed ones.
            [host, ..] if host.is_host() => OwnerLookup::One(host.clone(), name.to_owned()),
            owners => OwnerLookup::among(owners, name),
        }
    }

    fn labelled(&self, listing: Listing, label: &str) -> Option<(&ParticipantId, &str)> {
        let room = || self.snapshot.listing(listing).labelled(label).filter(|(who, _)| self.is_shown(listing, who));
        self.own_merged(listing).labelled(label).or_else(room)
    }

    /// Some of those that have something of this name of their own, in order: all, unless they are many.
    fn owners_of(&self, listing: Listing, name: &str) -> Vec<ParticipantId> {
        let is_shown = |place: &&OwnerRank| self.is_shown(listing, &place.who);
        let room = self.snapshot.listing(listing).owners_of(name).iter().filter(is_shown);
        let own = self.own_merged(listing).owners_of(name).iter();
        let mut owners: Vec<_> = own.chain(room).take(MAX_OWNERS_FOUND).collect();
        owners.sort();
        owners.into_iter().map(|place| place.who.clone()).collect()
    }

    /// Whether a participant's list is shown as the room has it.
    fn is_shown(&self, listing: Listing, who: &ParticipantId) -> bool {
        !self.hidden.contains(who) && self.own_merged(listing).offer(who).is_none()
    }

    fn own_merged(&self, listing: Listing) -> &Merged {
        &self.own_merged[listing as usize]
    }

    fn merge_own(&mut self, listing: Listing) {
        let own = self.own.iter();
        let lists = own.filter_map(|(place, lists)| Some((place.clone(), lists[listing as usize].clone()?)));
        // No list of one client's own may take a name from somebody that the room gave it to.
        let taken = |who: &ParticipantId, label: &str| is_taken(&self.snapshot, listing, who, label);
        self.own_merged[listing as usize] = Merged::build(listing, lists, &taken);
    }
}

/// Whether the room lists something of another participant's under a name.
fn is_taken(snapshot: &CatalogueSnapshot, listing: Listing, who: &ParticipantId, label: &str) -> bool {
    snapshot.listing(listing).labelled(label).is_some_and(|(owner, _)| owner != who)
}

fn bytes(items: &[ListItem]) -> usize {
    items.iter().map(|item| item.name.len() + item.raw.get().len()).sum()
}

#[cfg(test)]
mod tests;
