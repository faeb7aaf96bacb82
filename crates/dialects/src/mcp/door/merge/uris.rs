//! URIs of resources as the room lists them: their own while only one participant lists them, else `salon://{participant}/{uri}`.
//! What begins with `salon://` is always written so, and so nobody can list what looks like another's.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use salon_protocol::ParticipantId;

use super::templates::Template;
use super::{Found, Item, Listing, Place, Shelf};

const SCHEME: &str = "salon://";
/// How many templates of one participant are looked through for the owner of a URI that nobody lists.
const MAX_TEMPLATES: usize = 1024;
/// How many links are remembered, and how long they may be.
const MAX_LINKS: usize = 1024;
const MAX_LINK_BYTES: usize = 4096;

/// Who lists which URI, or which template.
#[derive(Debug, Default)]
pub(super) struct Uris {
    /// In the order of all.
    owners: HashMap<Box<str>, Vec<ParticipantId>>,
    /// The templates as such, in the order of all.
    templates: Vec<(ParticipantId, Template)>,
}

impl Uris {
    /// Of a list of resources.
    pub(super) fn new<'a>(all: impl Iterator<Item = (&'a ParticipantId, &'a [Item])>) -> Self {
        let mut uris = Self::default();
        for (who, items) in all {
            for Item { name, .. } in items {
                let owners = uris.owners.entry(name.clone()).or_default();
                if owners.last() != Some(who) {
                    owners.push(who.clone());
                }
            }
        }
        uris
    }

    /// Of a list of templates.
    pub(super) fn of_templates<'a>(all: impl Iterator<Item = (&'a ParticipantId, &'a [Item])> + Clone) -> Self {
        let read = |(who, items): (&ParticipantId, &'a [Item])| {
            let who = who.clone();
            let templates = items.iter().filter_map(move |item| Some((who.clone(), Template::parse(&item.name)?)));
            templates.take(MAX_TEMPLATES)
        };
        let templates = all.clone().flat_map(read).collect();
        Self { templates, ..Self::new(all) }
    }

    fn owners(&self, uri: &str) -> &[ParticipantId] {
        self.owners.get(uri).map_or(&[], Vec::as_slice)
    }

    /// What the room lists for a URI or template of a participant's.
    pub(super) fn listed<'a>(&self, who: &ParticipantId, uri: &'a str) -> Cow<'a, str> {
        let plain = self.owners(uri).len() < 2 && !uri.starts_with(SCHEME);
        if plain { Cow::Borrowed(uri) } else { Cow::Owned(qualified(who, uri)) }
    }
}

fn qualified(who: &ParticipantId, uri: &str) -> String {
    format!("{SCHEME}{who}/{uri}")
}

impl Shelf {
    /// Finds whose resource a URI is: the participant it names, whoever lists it, has linked to it, or has a template for it.
    pub(in crate::mcp::door) fn find_uri(&self, uri: &str) -> Found {
        if uri.starts_with(SCHEME) {
            return self.find_qualified(uri);
        }
        let listed = self.uris(Listing::Resources).owners(uri);
        if !listed.is_empty() {
            return Found::among(listed, uri);
        }
        // A link makes nobody the owner of what is another's by its template.
        let matching = self.uris(Listing::Templates).templates.iter().filter(|(_, template)| template.matches(uri));
        let linked = self.links.owners(uri).iter();
        let mut owners: Vec<_> = matching.map(|(who, _)| who).chain(linked).cloned().collect();
        owners.sort();
        owners.dedup();
        Found::among(&owners, uri)
    }

    /// Finds whose template this is, or else whose resource.
    pub(in crate::mcp::door) fn find_template(&self, uri_template: &str) -> Found {
        match self.uris(Listing::Templates).owners(uri_template) {
            owners if owners.is_empty() || uri_template.starts_with(SCHEME) => self.find_uri(uri_template),
            owners => Found::among(owners, uri_template),
        }
    }

    fn find_qualified(&self, uri: &str) -> Found {
        let named = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/'));
        let named = named.and_then(|(who, rest)| Some((ParticipantId::new(who).ok()?, rest)));
        match named {
            Some((who, rest)) if self.stocks.contains_key(&Place::of(&who)) => Found::One(who, rest.to_owned()),
            _ => Found::Nobody,
        }
    }

    /// What the room calls a resource of a participant's: itself while that leads to nobody else.
    pub(in crate::mcp::door) fn listed_uri(&self, who: &ParticipantId, uri: &str) -> String {
        let plain = match self.find_uri(uri) {
            Found::One(owner, own) => owner == *who && own == uri,
            Found::Nobody => !uri.starts_with(SCHEME),
            Found::Several(_) => false,
        };
        if plain { uri.to_owned() } else { qualified(who, uri) }
    }

    /// Remembers that something of a participant's linked to a resource, which then is its.
    pub(in crate::mcp::door) fn note_link(&mut self, who: &ParticipantId, uri: &str) {
        self.links.note(who, uri);
    }
}

/// The newest links. A resource that is linked to need not be in any list.
#[derive(Debug, Default)]
pub(super) struct Links {
    order: VecDeque<(ParticipantId, Box<str>)>,
    owners: HashMap<Box<str>, Vec<ParticipantId>>,
    bytes: usize,
}

impl Links {
    fn note(&mut self, who: &ParticipantId, uri: &str) {
        if uri.len() > MAX_LINK_BYTES || self.owners(uri).contains(who) {
            return;
        }
        self.order.push_back((who.clone(), uri.into()));
        self.owners.entry(uri.into()).or_default().push(who.clone());
        self.bytes += uri.len();
        if self.order.len() > MAX_LINKS
            && let Some((who, uri)) = self.order.pop_front()
        {
            self.unlink(&who, &uri);
        }
    }

    pub(super) fn forget(&mut self, who: &ParticipantId) {
        let order = std::mem::take(&mut self.order);
        let (gone, rest): (VecDeque<_>, VecDeque<_>) = order.into_iter().partition(|(owner, _)| owner == who);
        self.order = rest;
        for (who, uri) in gone {
            self.unlink(&who, &uri);
        }
    }

    fn unlink(&mut self, who: &ParticipantId, uri: &str) {
        self.bytes -= uri.len();
        let Some(owners) = self.owners.get_mut(uri) else { return };
        owners.retain(|owner| owner != who);
        if owners.is_empty() {
            self.owners.remove(uri);
        }
    }

    fn owners(&self, uri: &str) -> &[ParticipantId] {
        self.owners.get(uri).map_or(&[], Vec::as_slice)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
