//! Pages of the merged lists. A cursor names a place, not a number, so that participants that join or leave between two pages take no
//! items of others with them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound;

use salon_mcp::listing::Listing;
use salon_protocol::ParticipantId;
use serde_json::value::RawValue;

use super::MergedLists;
use crate::catalogue::{Offered, OwnerRank, SCHEME, qualified_uri, render};

/// How much is on a page. Some clients take no message over 1 MiB.
const MAX_ITEMS: usize = 250;
const MAX_BYTES: usize = 512 << 10;

/// The items of a page, and the cursor of the next.
type MergedPage<'a> = (Vec<Cow<'a, RawValue>>, Option<String>);

impl MergedLists {
    /// A page of what the room lists. `None` for a cursor of another door.
    pub(in crate::mcp::door) fn page(&self, listing: Listing, cursor: Option<&str>) -> Option<MergedPage<'_>> {
        let (first, skipped) = match cursor {
            None => (Bound::Unbounded, 0),
            Some(cursor) => {
                let (index, who) = cursor.split_once('/')?;
                (Bound::Included(OwnerRank::of(&ParticipantId::new(who).ok()?)), index.parse().ok()?)
            }
        };
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (place, offered) in self.offers(listing, first.clone()) {
            let skipped = if first == Bound::Included(place.clone()) { skipped } else { 0 };
            for index in skipped..offered.items().len() {
                let Some(item) = self.listed(listing, &place.who, offered, index) else { continue };
                bytes += item.get().len();
                if page.len() == MAX_ITEMS || (!page.is_empty() && bytes > MAX_BYTES) {
                    return Some((page, Some(format!("{index}/{}", place.who))));
                }
                page.push(item);
            }
        }
        Some((page, None))
    }

    /// Everybody's lists in order, from a place on: the room's, and in their place those that are this client's own.
    fn offers(&self, listing: Listing, first: Bound<OwnerRank>) -> impl Iterator<Item = (&OwnerRank, &Offered)> {
        let room = self.snapshot.listing(listing).from(first.clone());
        let mut room = room.filter(move |(place, _)| self.is_shown(listing, &place.who)).peekable();
        let mut own = self.own_merged(listing).from(first).peekable();
        std::iter::from_fn(move || next_in_order(&mut own, &mut room))
    }

    /// An item as the room lists it; `None` for one that it leaves out.
    fn listed<'a>(
        &self,
        listing: Listing,
        who: &ParticipantId,
        offered: &'a Offered,
        index: usize,
    ) -> Option<Cow<'a, RawValue>> {
        let label = offered.label(index)?;
        let item = &offered.items()[index];
        if !self.is_permitted(listing, who, &item.name) {
            return None;
        }
        if matches!(listing, Listing::Resources | Listing::Templates) {
            // For this client it may be another participant's too, or no longer.
            let is_plain = self.owners_of(listing, &item.name).len() < 2 && !item.name.starts_with(SCHEME);
            let shown = if is_plain { Cow::from(&*item.name) } else { Cow::from(qualified_uri(who, &item.name)) };
            if shown != label {
                return render(listing, who, &shown, item).map(Cow::Owned);
            }
        }
        offered.rendered(listing, who, index).map(Cow::Borrowed)
    }
}

/// The next of two sequences in order.
fn next_in_order<'a>(
    one: &mut Peekable<impl Iterator<Item = (&'a OwnerRank, &'a Offered)>>,
    other: &mut Peekable<impl Iterator<Item = (&'a OwnerRank, &'a Offered)>>,
) -> Option<(&'a OwnerRank, &'a Offered)> {
    match (one.peek(), other.peek()) {
        (Some((first, _)), Some((second, _))) if first.cmp(second) == Ordering::Greater => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    }
}
