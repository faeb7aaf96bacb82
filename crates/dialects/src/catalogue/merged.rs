//! One listing of everybody's, merged: who offers what, and the names and URIs that lead there.
//!
//! Invariants: what a list of one participant changes follows from that list alone, or everything is built again ([`Merged::rebuild`]); the
//! result is the same either way. A copy shares all that does not differ. The order is stable: the host, then participants by id, each
//! in its own order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::ParticipantId;
use serde_json::value::RawValue;

use super::names::NameIndex;
use super::render;
use super::templates::Template;
use super::uris::UriIndex;

/// How many of the newest changes are remembered.
const MAX_CHANGES: usize = 64;

/// How many templates of one participant are looked through for the owner of a URI that nobody lists.
const MAX_TEMPLATES: usize = 1024;

/// A participant's place in the order of all: the host is first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerRank {
    is_guest: bool,
    pub(crate) who: ParticipantId,
}

impl OwnerRank {
    pub(crate) fn of(who: &ParticipantId) -> Self {
        Self { is_guest: !who.is_host(), who: who.clone() }
    }
}

/// By item, what the room lists it under; `None` for one that it leaves out.
pub(super) type Labels = Box<[Option<Arc<str>>]>;

/// What one participant offers, and as what the room lists it.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(super) items: Arc<[ListItem]>,
    pub(super) labels: Labels,
    /// The items as the room lists them. Made when they are first listed, once for all sessions.
    rendered: OnceLock<Box<[Option<Box<RawValue>>]>>,
    templates: OnceLock<Box<[Template]>>,
}

impl Offered {
    fn new(items: Arc<[ListItem]>, labels: Labels) -> Self {
        Self { items, labels, rendered: OnceLock::new(), templates: OnceLock::new() }
    }

    pub(crate) fn items(&self) -> &[ListItem] {
        &self.items
    }

    /// What the room lists an item under.
    pub(crate) fn label(&self, index: usize) -> Option<&str> {
        self.labels.get(index)?.as_deref()
    }

    /// An item as the room lists it.
    pub(crate) fn rendered(&self, listing: Listing, who: &ParticipantId, index: usize) -> Option<&RawValue> {
        let render = |(item, label): (&ListItem, &Option<Arc<str>>)| render(listing, who, label.as_deref()?, item);
        let rendered = self.rendered.get_or_init(|| self.items.iter().zip(&self.labels).map(render).collect());
        rendered.get(index)?.as_deref()
    }

    fn templates(&self) -> &[Template] {
        self.templates.get_or_init(|| {
            self.items.iter().filter_map(|item| Template::parse(&item.name)).take(MAX_TEMPLATES).collect()
        })
    }
}

#[derive(Debug, Clone)]
enum MergeIndex {
    Names(NameIndex),
    Uris(UriIndex),
}

/// A change of one participant's list.
#[derive(Debug, Clone)]
pub(crate) struct ListChange {
    pub(super) version: u64,
    pub(crate) who: ParticipantId,
    /// Whether it is news to clients that have not listed. The first look at a participant that was there before is none.
    pub(crate) is_news: bool,
}

/// One listing of everybody's.
#[derive(Debug, Clone)]
pub struct Merged {
    owners: BTreeMap<OwnerRank, Arc<Offered>>,
    index: MergeIndex,
    items: usize,
    bytes: usize,
    /// The version of the snapshot that it changed in last, and of the last change that was news.
    version: u64,
    announced: u64,
    /// The newest changes: all that came after the version `complete_after`.
    changes: VecDeque<ListChange>,
    complete_after: u64,
}

/// What a list weighs in bytes.
pub(super) fn weight(items: &[ListItem]) -> usize {
    /// What an item weighs beyond its text.
    const OVERHEAD: usize = 128;
    items.iter().map(|item| item.raw.get().len() + item.name.len() + OVERHEAD).sum()
}

/// Whether two lists say the same.
pub(crate) fn is_same(one: &[ListItem], other: &[ListItem]) -> bool {
    std::ptr::eq(one, other)
        || one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| one.name == other.name && one.raw.get() == other.raw.get())
}

impl Merged {
    pub(crate) fn new(listing: Listing, version: u64) -> Self {
        let index = match listing {
            Listing::Tools | Listing::Prompts => MergeIndex::Names(NameIndex::default()),
            Listing::Resources | Listing::Templates => MergeIndex::Uris(UriIndex::default()),
        };
        Self {
            owners: BTreeMap::new(),
            index,
            items: 0,
            bytes: 0,
            version,
            announced: version,
            changes: VecDeque::new(),
            complete_after: version,
        }
    }

    /// All of these lists at once. No item gets a name that is `taken`, unless its owner has that name there.
    pub(crate) fn build(
        listing: Listing,
        lists: impl Iterator<Item = (OwnerRank, Arc<[ListItem]>)>,
        taken: &dyn Fn(&ParticipantId, &str) -> bool,
    ) -> Self {
        let mut merged = Self::new(listing, 0);
        merged.owners = lists.map(|(place, items)| (place, Arc::new(Offered::new(items, Labels::default())))).collect();
        merged.items = merged.owners.values().map(|offered| offered.items.len()).sum();
        merged.bytes = merged.owners.values().map(|offered| weight(&offered.items)).sum();
        merged.rebuild(taken);
        merged
    }

    /// Puts a participant's list in place of what was there, or removes it.
    pub(super) fn replace(&mut self, who: &ParticipantId, items: Option<Arc<[ListItem]>>) {
        let place = OwnerRank::of(who);
        let mut affected = BTreeSet::new();
        let mut is_rebuilt = false;
        if let Some(before) = self.owners.remove(&place) {
            self.items -= before.items.len();
            self.bytes -= weight(&before.items);
            match &mut self.index {
                MergeIndex::Names(names) => {
                    names.remove(&place, &before.items, &before.labels);
                    is_rebuilt = names.displaced > 0;
                }
                MergeIndex::Uris(uris) => affected.extend(uris.remove(&place, &before.items)),
            }
        }
        if let Some(items) = items {
            self.items += items.len();
            self.bytes += weight(&items);
            let labels = match &mut self.index {
                MergeIndex::Names(names) if is_rebuilt || names.displaced > 0 => None,
                MergeIndex::Names(names) => names.add(&place, &items),
                MergeIndex::Uris(uris) => {
                    affected.extend(uris.add(&place, &items));
                    Some(uris.labels(&place, &items))
                }
            };
            is_rebuilt |= labels.is_none();
            self.owners.insert(place, Arc::new(Offered::new(items, labels.unwrap_or_default())));
        }
        if is_rebuilt {
            return self.rebuild(&|_, _| false);
        }
        for other in affected {
            self.relabel(&other);
        }
    }

    /// Names everything again, in order.
    fn rebuild(&mut self, taken: &dyn Fn(&ParticipantId, &str) -> bool) {
        match &mut self.index {
            MergeIndex::Names(names) => {
                *names = NameIndex::default();
                for (place, offered) in &mut self.owners {
                    let labels = names.add_next(place, &offered.items, taken);
                    label_again(offered, labels);
                }
            }
            MergeIndex::Uris(uris) => {
                *uris = UriIndex::default();
                for (place, offered) in &self.owners {
                    uris.add(place, &offered.items);
                }
                for (place, offered) in &mut self.owners {
                    let labels = uris.labels(place, &offered.items);
                    label_again(offered, labels);
                }
            }
        }
    }

    fn relabel(&mut self, place: &OwnerRank) {
        if let (MergeIndex::Uris(uris), Some(offered)) = (&self.index, self.owners.get_mut(place)) {
            let labels = uris.labels(place, &offered.items);
            label_again(offered, labels);
        }
    }

    /// Notes a change that is part of a version.
    pub(super) fn note(&mut self, version: u64, who: &ParticipantId, is_news: bool) {
        self.version = version;
        if is_news {
            self.announced = version;
        }
        if self.changes.len() == MAX_CHANGES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.complete_after = oldest.version;
        }
        self.changes.push_back(ListChange { version, who: who.clone(), is_news });
    }

    /// The version of the snapshot that this listing changed in last.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The version of the last change that is news to clients that have not listed.
    pub(crate) fn announced(&self) -> u64 {
        self.announced
    }

    /// The changes after a version; `None` when they are no longer all known.
    pub(crate) fn changes_since(&self, version: u64) -> Option<impl Iterator<Item = &ListChange>> {
        let newer = self.changes.iter().filter(move |change| change.version > version);
        (version >= self.complete_after).then_some(newer)
    }

    /// How many items there are.
    pub fn items(&self) -> usize {
        self.items
    }

    /// What the items weigh.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a participant offers; `None` while that is not known.
    pub fn offer(&self, who: &ParticipantId) -> Option<&Arc<[ListItem]>> {
        self.owners.get(&OwnerRank::of(who)).map(|offered| &offered.items)
    }

    /// Participants and what they offer, in order, from a place on.
    pub(crate) fn from(&self, first: Bound<OwnerRank>) -> impl Iterator<Item = (&OwnerRank, &Offered)> {
        self.owners.range((first, Bound::Unbounded)).map(|(place, offered)| (place, &**offered))
    }

    /// Every label with its owner.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&ParticipantId, &str)> {
        self.owners
            .iter()
            .flat_map(|(place, offered)| offered.labels.iter().flatten().map(move |label| (&place.who, &**label)))
    }

    /// Whether an item has another name than it would have alone.
    pub(crate) fn has_displaced(&self) -> bool {
        matches!(&self.index, MergeIndex::Names(names) if names.displaced > 0)
    }

    /// Whose tool or prompt the room lists under a name, and its owner's name for it.
    pub(crate) fn labelled(&self, label: &str) -> Option<(&ParticipantId, &str)> {
        let MergeIndex::Names(names) = &self.index else { return None };
        names.labels.get(label).map(|(who, own)| (who, &**own))
    }

    /// Whose tools or prompts `participant__name` is where it is not the listed name, and their owners' names for them.
    pub(crate) fn aliased(&self, name: &str) -> impl Iterator<Item = (&ParticipantId, &str)> {
        let known = match &self.index {
            MergeIndex::Names(names) => names.aliases.get(name),
            MergeIndex::Uris(_) => None,
        };
        known.into_iter().flatten().map(|(place, own)| (&place.who, &**own))
    }

    /// Which participants have a tool or prompt of this name of their own, or list this URI, in order.
    pub(crate) fn owners_of(&self, name: &str) -> &[OwnerRank] {
        match &self.index {
            MergeIndex::Names(names) => names.bare.get(name).map_or(&[], Vec::as_slice),
            MergeIndex::Uris(uris) => uris.owners(name),
        }
    }

    /// Whose templates match a URI, in order.
    pub(crate) fn matching<'a>(&'a self, uri: &'a str) -> impl Iterator<Item = &'a ParticipantId> {
        let is_match = move |offered: &Offered| offered.templates().iter().any(|template| template.matches(uri));
        self.owners.iter().filter(move |(_, offered)| is_match(offered)).map(|(place, _)| &place.who)
    }

    #[cfg(test)]
    pub(super) fn dump(&self) -> String {
        let mut lines: Vec<String> = self
            .owners
            .iter()
            .map(|(place, offered)| format!("{} {:?} {:?}", place.who, offered.labels, offered.items.len()))
            .collect();
        match &self.index {
            MergeIndex::Names(names) => {
                lines.extend(names.labels.iter().map(|(label, owner)| format!("label {label} {owner:?}")));
                lines.extend(names.aliases.iter().map(|(name, owners)| format!("alias {name} {owners:?}")));
                lines.extend(names.bare.iter().map(|(name, owners)| format!("bare {name} {owners:?}")));
                lines.push(format!("displaced {}", names.displaced));
            }
            MergeIndex::Uris(uris) => {
                lines.extend(uris.owners.iter().map(|(uri, owners)| format!("uri {uri} {owners:?}")));
            }
        }
        lines.push(format!("{} items {} bytes", self.items, self.bytes));
        lines.sort();
        lines.join("\n")
    }
}

/// Gives an offer other labels. What has been rendered is kept where they are the same.
fn label_again(offered: &mut Arc<Offered>, labels: Labels) {
    if offered.labels != labels {
        *offered = Arc::new(Offered::new(offered.items.clone(), labels));
    }
}
