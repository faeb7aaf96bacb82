//! Who offers what, and under which names the room offers it.
//!
//! A shelf holds what participants list, as they wrote it. Only `name`, `uri`, `uriTemplate` and titles of an item are ever changed, and only
//! in what is handed out. Invariants: within the room a tool's or prompt's name is unique, and it leads back to its owner and its
//! own name; the order is stable: the host, then participants by id, each in its own order. Deliberately absent: asking anybody,
//! and deadlines.

mod names;
mod pages;
mod templates;
mod uris;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use salon_mcp::listing::{Item, Listing};
use salon_protocol::ParticipantId;

use names::Names;
use uris::{Links, Uris};

/// Whether an item of a participant's is listed under this very name, whatever else is listed.
pub(super) fn is_named(who: &ParticipantId, item: &Item, name: &str) -> bool {
    names::natural(who, &item.name).is_some_and(|listed| listed == name)
}

/// Whose something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// This participant's, who calls it so.
    One(ParticipantId, String),
    /// Nobody's.
    Nobody,
    /// Any of these could be meant.
    Several(Vec<ParticipantId>),
}

impl Found {
    /// What is one participant's is found, and called `name` by it.
    fn among(owners: &[ParticipantId], name: &str) -> Self {
        match owners {
            [] => Self::Nobody,
            [owner] => Self::One(owner.clone(), name.to_owned()),
            several => Self::Several(several.to_vec()),
        }
    }
}

/// A participant's place in the order of all: the host is first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    guest: bool,
    who: ParticipantId,
}

impl Place {
    fn of(who: &ParticipantId) -> Self {
        Self { guest: !who.is_host(), who: who.clone() }
    }
}

/// What one participant offers, by listing.
type Stock = [Arc<[Item]>; 4];

/// What everybody offers.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    stocks: BTreeMap<Place, Stock>,
    links: Links,
    bytes: usize,
    index: Index,
}

/// What follows from the stocks. Made when it is needed, and again after they changed.
#[derive(Debug, Default)]
struct Index {
    tools: OnceLock<Names>,
    prompts: OnceLock<Names>,
    resources: OnceLock<Uris>,
    templates: OnceLock<Uris>,
}

impl Index {
    fn forget(&mut self, listing: Listing) {
        match listing {
            Listing::Tools => drop(self.tools.take()),
            Listing::Prompts => drop(self.prompts.take()),
            Listing::Resources => drop(self.resources.take()),
            Listing::Templates => drop(self.templates.take()),
        }
    }
}

impl Shelf {
    /// Puts down what a participant lists, in place of what was there. Whether that differs.
    pub(super) fn put(&mut self, who: &ParticipantId, listing: Listing, items: impl Into<Arc<[Item]>>) -> bool {
        let items = items.into();
        let place = &mut self.stocks.entry(Place::of(who)).or_default()[listing as usize];
        let same = Arc::ptr_eq(place, &items)
            || place.len() == items.len()
                && place.iter().zip(&*items).all(|(old, new)| old.name == new.name && old.raw.get() == new.raw.get());
        if same {
            return false;
        }
        self.bytes += bytes(&items);
        self.bytes -= bytes(&std::mem::replace(place, items));
        self.index.forget(listing);
        true
    }

    /// Takes away all that is a participant's. Gives the lists that had something of it.
    pub(super) fn remove(&mut self, who: &ParticipantId) -> Vec<Listing> {
        self.links.forget(who);
        let stock = self.stocks.remove(&Place::of(who)).unwrap_or_default();
        let touched: Vec<_> = Listing::ALL.into_iter().filter(|listing| !stock[*listing as usize].is_empty()).collect();
        for listing in &touched {
            self.bytes -= bytes(&stock[*listing as usize]);
            self.index.forget(*listing);
        }
        touched
    }

    /// How much is held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.links.bytes()
    }

    /// What a participant lists, as it wrote it.
    pub(super) fn items(&self, who: &ParticipantId, listing: Listing) -> &[Item] {
        self.stocks.get(&Place::of(who)).map_or(&[], |stock| &stock[listing as usize])
    }

    /// Finds a tool or prompt by the name the room lists, by `participant__name`, or by its own name where only one has it.
    pub(super) fn find(&self, listing: Listing, name: &str) -> Found {
        match listing {
            Listing::Tools | Listing::Prompts => self.names(listing).find(name),
            Listing::Resources => self.find_uri(name),
            Listing::Templates => self.find_template(name),
        }
    }

    fn names(&self, listing: Listing) -> &Names {
        let cell = if listing == Listing::Tools { &self.index.tools } else { &self.index.prompts };
        cell.get_or_init(|| Names::new(self.all(listing)))
    }

    fn uris(&self, listing: Listing) -> &Uris {
        let cell = if listing == Listing::Resources { &self.index.resources } else { &self.index.templates };
        cell.get_or_init(|| match listing {
            Listing::Templates => Uris::of_templates(self.all(listing)),
            _ => Uris::new(self.all(listing)),
        })
    }

    fn all(&self, listing: Listing) -> impl Iterator<Item = (&ParticipantId, &[Item])> + Clone {
        self.stocks.iter().map(move |(place, stock)| (&place.who, &*stock[listing as usize]))
    }
}

fn bytes(items: &[Item]) -> usize {
    items.iter().map(|item| item.name.len() + item.raw.get().len()).sum()
}

#[cfg(test)]
mod tests;
