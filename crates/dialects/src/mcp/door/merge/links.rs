//! Whose resource a URI is, and what the room calls it.

use std::collections::{HashMap, VecDeque};

use salon_mcp::listing::Listing;
use salon_protocol::{ParticipantId, percent_decoded};

use super::{MergedLists, OwnerLookup};
use crate::catalogue::{SCHEME, qualified_uri};

/// How many links are remembered, and how long they may be.
const MAX_LINKS: usize = 1024;
const MAX_LINK_BYTES: usize = 4096;

impl MergedLists {
    /// Finds whose resource a URI is: the participant it names, or those that list it, have linked to it, or have a template for it.
    pub(in crate::mcp::door) fn find_uri(&self, uri: &str) -> OwnerLookup {
        if uri.starts_with(SCHEME) {
            return self.find_qualified(uri);
        }
        let listed = self.owners_of(Listing::Resources, uri);
        if !listed.is_empty() {
            return OwnerLookup::among(&listed, uri);
        }
        // A link makes nobody the owner of what is another's by its template.
        let (own, room) = (self.own_merged(Listing::Templates), self.snapshot.listing(Listing::Templates));
        let matching = room.matching(uri).filter(|who| self.is_shown(Listing::Templates, who)).chain(own.matching(uri));
        let mut owners: Vec<_> = matching.chain(self.links.owners(uri)).cloned().collect();
        owners.sort();
        owners.dedup();
        OwnerLookup::among(&owners, uri)
    }

    /// Finds whose template this is, or else whose resource.
    pub(in crate::mcp::door) fn find_template(&self, uri_template: &str) -> OwnerLookup {
        match self.owners_of(Listing::Templates, uri_template) {
            owners if owners.is_empty() || uri_template.starts_with(SCHEME) => self.find_uri(uri_template),
            owners => OwnerLookup::among(&owners, uri_template),
        }
    }

    fn find_qualified(&self, uri: &str) -> OwnerLookup {
        let named = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/'));
        let named = named.and_then(|(who, rest)| Some((ParticipantId::new(percent_decoded(who)?).ok()?, rest)));
        match named {
            Some((who, rest)) if self.has(&who) => OwnerLookup::One(who, rest.to_owned()),
            _ => OwnerLookup::Nobody,
        }
    }

    /// What the room calls a resource of a participant's: itself while that leads to nobody else.
    pub(in crate::mcp::door) fn listed_uri(&self, who: &ParticipantId, uri: &str) -> String {
        let plain = match self.find_uri(uri) {
            OwnerLookup::One(owner, own) => owner == *who && own == uri,
            OwnerLookup::Nobody => !uri.starts_with(SCHEME),
            OwnerLookup::Several(_) => false,
        };
        if plain { uri.to_owned() } else { qualified_uri(who, uri) }
    }

    /// Remembers that something of a participant's linked to a resource, which then is its.
    pub(in crate::mcp::door) fn note_link(&mut self, who: &ParticipantId, uri: &str) {
        self.links.note(who, uri);
    }
}

/// The newest links. A resource that is linked to need not be in any list.
#[derive(Debug, Default)]
pub(super) struct ResourceLinks {
    order: VecDeque<(ParticipantId, Box<str>)>,
    owners: HashMap<Box<str>, Vec<ParticipantId>>,
    bytes: usize,
}

impl ResourceLinks {
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
