//! Builds snapshots of a room's catalogue, change by change.
//!
//! Invariant: bounded. A list that would make the room's catalogue larger than its bounds is left out and counted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::ParticipantId;

use super::merged::{Merged, is_same, weight};

/// How many items a room's catalogue has, and how many bytes they weigh: their text, and 128 bytes for each.
pub const MAX_ROOM_ITEMS: usize = 250_000;
pub const MAX_ROOM_BYTES: usize = 64 << 20;

/// Versions are never given twice, so that those of a room's next host are above those of the one before.
static LAST_VERSION: AtomicU64 = AtomicU64::new(0);

fn next_version() -> u64 {
    LAST_VERSION.fetch_add(1, Ordering::Relaxed) + 1
}

/// What every participant of a room offers, at one moment. Cheap to clone and never changed.
#[derive(Debug, Clone)]
pub struct CatalogueSnapshot {
    version: u64,
    listings: [Arc<Merged>; 4],
    left_out: usize,
}

impl Default for CatalogueSnapshot {
    /// Nothing is known of anybody. Every other snapshot has a higher version.
    fn default() -> Self {
        Self::empty(0)
    }
}

impl CatalogueSnapshot {
    fn empty(version: u64) -> Self {
        Self { version, listings: Listing::ALL.map(|listing| Arc::new(Merged::new(listing, version))), left_out: 0 }
    }

    /// Higher for later ones.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// One listing of everybody's.
    pub fn listing(&self, listing: Listing) -> &Merged {
        &self.listings[listing as usize]
    }

    /// Whether anything is known of what a participant offers.
    pub fn has(&self, who: &ParticipantId) -> bool {
        self.listings.iter().any(|merged| merged.offer(who).is_some())
    }

    /// How many items there are.
    pub fn items(&self) -> usize {
        self.listings.iter().map(|merged| merged.items()).sum()
    }

    /// What they weigh in bytes.
    pub fn bytes(&self) -> usize {
        self.listings.iter().map(|merged| merged.bytes()).sum()
    }

    /// How many lists are left out because they are too long.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// What became of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It says what it said before.
    Same,
    /// It is in the catalogue.
    Changed,
    /// The catalogue has no room for it.
    LeftOut,
}

/// The next snapshot, in the making.
#[derive(Debug)]
pub struct SnapshotBuilder {
    /// What was published last.
    published: Arc<CatalogueSnapshot>,
    listings: [Arc<Merged>; 4],
    left_out: BTreeSet<(ParticipantId, Listing)>,
    /// The version of the next snapshot, once something has changed.
    version: Option<u64>,
    max_items: usize,
    max_bytes: usize,
}

impl SnapshotBuilder {
    /// Goes on after the snapshot that readers have, with nothing in it.
    pub fn after(before: &CatalogueSnapshot) -> Self {
        let version = if before.version == 0 { 0 } else { next_version() };
        let published = CatalogueSnapshot::empty(version);
        Self {
            listings: published.listings.clone(),
            published: Arc::new(published),
            left_out: BTreeSet::new(),
            version: None,
            max_items: MAX_ROOM_ITEMS,
            max_bytes: MAX_ROOM_BYTES,
        }
    }

    /// The same within other bounds.
    pub fn within(self, max_items: usize, max_bytes: usize) -> Self {
        Self { max_items, max_bytes, ..self }
    }

    /// Puts a participant's list in place of what was there. `is_news` where it is the first list of this participant and clients that
    /// have not listed are to be told of it; other changes always are.
    pub fn put(&mut self, who: &ParticipantId, listing: Listing, items: Arc<[ListItem]>, is_news: bool) -> Placement {
        let merged = &self.listings[listing as usize];
        let before = merged.offer(who);
        if before.is_some_and(|before| is_same(before, &items)) {
            return Placement::Same;
        }
        let (had_items, had_bytes) = before.map_or((0, 0), |before| (before.len(), weight(before)));
        let (all_items, all_bytes) = (self.items() - had_items, self.bytes() - had_bytes);
        if all_items + items.len() > self.max_items || all_bytes + weight(&items) > self.max_bytes {
            self.leave_out(who, listing);
            return Placement::LeftOut;
        }
        let is_news = if before.is_some() { true } else { is_news && !items.is_empty() };
        self.left_out.remove(&(who.clone(), listing));
        self.change(who, listing, Some(items), is_news);
        Placement::Changed
    }

    /// Leaves a list out that is too long.
    pub fn leave_out(&mut self, who: &ParticipantId, listing: Listing) {
        self.remove_list(who, listing);
        if self.left_out.insert((who.clone(), listing)) {
            self.version.get_or_insert_with(next_version);
        }
    }

    /// Whether a list is left out.
    pub fn is_left_out(&self, who: &ParticipantId, listing: Listing) -> bool {
        self.left_out.contains(&(who.clone(), listing))
    }

    /// Removes one list of a participant.
    pub fn remove_list(&mut self, who: &ParticipantId, listing: Listing) {
        self.left_out.remove(&(who.clone(), listing));
        if let Some(before) = self.listings[listing as usize].offer(who) {
            let is_news = !before.is_empty();
            self.change(who, listing, None, is_news);
        }
    }

    /// Removes all lists of a participant.
    pub fn remove(&mut self, who: &ParticipantId) {
        for listing in Listing::ALL {
            self.remove_list(who, listing);
        }
    }

    fn change(&mut self, who: &ParticipantId, listing: Listing, items: Option<Arc<[ListItem]>>, is_news: bool) {
        let version = *self.version.get_or_insert_with(next_version);
        // Copied once per published snapshot.
        let merged = Arc::make_mut(&mut self.listings[listing as usize]);
        let had_items = merged.offer(who).is_some_and(|before| !before.is_empty());
        let has_items = items.as_ref().is_some_and(|items| !items.is_empty());
        merged.replace(who, items);
        // That a list is known to be empty, or no longer known, is no change to a client.
        if had_items || has_items {
            merged.note(version, who, is_news);
        }
    }

    /// What a participant offers; `None` while that is not known.
    pub fn offer(&self, who: &ParticipantId, listing: Listing) -> Option<&Arc<[ListItem]>> {
        self.listings[listing as usize].offer(who)
    }

    /// Participants of which something is in the catalogue.
    pub fn participants(&self) -> BTreeSet<ParticipantId> {
        let all = self.listings.iter().flat_map(|merged| merged.from(std::ops::Bound::Unbounded));
        all.map(|(place, _)| place.who.clone()).collect()
    }

    fn items(&self) -> usize {
        self.listings.iter().map(|merged| merged.items()).sum()
    }

    fn bytes(&self) -> usize {
        self.listings.iter().map(|merged| merged.bytes()).sum()
    }

    /// The newest snapshot. Costs nothing while nothing changes.
    pub fn snapshot(&mut self) -> Arc<CatalogueSnapshot> {
        if let Some(version) = self.version.take() {
            let left_out = self.left_out.len();
            self.published = Arc::new(CatalogueSnapshot { version, listings: self.listings.clone(), left_out });
        }
        self.published.clone()
    }
}
