//! Pages of the merged lists. A cursor names a place, not a number, so that whoever comes or goes between two pages takes nobody
//! else's items with them.

use std::ops::Bound;

use salon_protocol::{Members, ParticipantId};
use serde_json::value::RawValue;

use super::{Item, Listing, Place, Shelf, names};

/// How much is on a page. Some clients take no message over 1 MiB.
const MAX_ITEMS: usize = 250;
const MAX_BYTES: usize = 512 << 10;

impl Shelf {
    /// A page of what the room lists, and the cursor of the next. `None` for a cursor that is none of ours.
    pub(in crate::mcp::door) fn page(
        &self,
        listing: Listing,
        cursor: Option<&str>,
    ) -> Option<(Vec<Box<RawValue>>, Option<String>)> {
        let (first, skipped) = match cursor {
            None => (Bound::Unbounded, 0),
            Some(cursor) => {
                let (index, who) = cursor.split_once('/')?;
                (Bound::Included(Place::of(&ParticipantId::new(who).ok()?)), index.parse().ok()?)
            }
        };
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (place, stock) in self.stocks.range((first.clone(), Bound::Unbounded)) {
            let skipped = if first == Bound::Included(place.clone()) { skipped } else { 0 };
            for (index, item) in stock[listing as usize].iter().enumerate().skip(skipped) {
                let Some(item) = self.listed(listing, &place.who, index, item) else { continue };
                bytes += item.get().len();
                if page.len() == MAX_ITEMS || (!page.is_empty() && bytes > MAX_BYTES) {
                    return Some((page, Some(format!("{index}/{}", place.who))));
                }
                page.push(item);
            }
        }
        Some((page, None))
    }

    /// An item as the room lists it; `None` for one that it leaves out.
    fn listed(&self, listing: Listing, who: &ParticipantId, index: usize, item: &Item) -> Option<Box<RawValue>> {
        let name = match listing {
            Listing::Tools | Listing::Prompts => self.names(listing).listed(who, index)?.into(),
            Listing::Resources | Listing::Templates => self.uris(listing).listed(who, &item.name),
        };
        let is_shown_as_written = who.is_host() && *name == *item.name;
        if is_shown_as_written {
            return Some(item.raw.clone());
        }
        let mut members = Members::parse(item.raw.get())?;
        members.set(listing.label(), &name);
        if !who.is_host() {
            mark_owner(&mut members, listing, who);
        }
        Some(members.to_raw())
    }
}

/// Says in what people are shown whose it is: in the name of a resource, which is not what finds it, and in titles.
fn mark_owner(item: &mut Members, listing: Listing, who: &ParticipantId) {
    if let (Listing::Resources | Listing::Templates, Some(name)) = (listing, text(item, "name")) {
        item.set("name", &names::qualified(who, &name));
    }
    mark_title(item, who);
    // MCP 2025-03-26 has the title of a tool among its annotations only.
    let annotations = item.get("annotations").and_then(|annotations| Members::parse(annotations.get()));
    if let Some(mut annotations) = annotations.filter(|annotations| annotations.get("title").is_some()) {
        mark_title(&mut annotations, who);
        item.set("annotations", &annotations);
    }
}

fn mark_title(holder: &mut Members, who: &ParticipantId) {
    if let Some(title) = text(holder, "title") {
        holder.set("title", &format!("{title} ({who})"));
    }
}

fn text(holder: &Members, key: &str) -> Option<String> {
    serde_json::from_str(holder.get(key)?.get()).ok()
}
