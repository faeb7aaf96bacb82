//! URIs of resources as the room lists them: their own while only one participant lists them, else `salon://{participant}/{uri}`, the participant's id
//! percent-encoded.
//! A URI that begins with `salon://` is always written so: no participant can list a URI that looks like another participant's.

use std::collections::BTreeSet;
use std::sync::Arc;

use salon_mcp::listing::ListItem;
use salon_protocol::{ParticipantId, percent_encoded};

use super::merged::{Labels, OwnerRank};
use super::shards::Shards;

pub(crate) const SCHEME: &str = "salon://";

pub(crate) fn qualified(who: &ParticipantId, uri: &str) -> String {
    format!("{SCHEME}{}/{uri}", percent_encoded(who.as_str()))
}

/// Which participants list a URI, or a URI template.
#[derive(Debug, Clone, Default)]
pub(super) struct UriIndex {
    /// In the order of all participants.
    pub(super) owners: Shards<Vec<OwnerRank>>,
}

impl UriIndex {
    pub(super) fn owners(&self, uri: &str) -> &[OwnerRank] {
        self.owners.get(uri).map_or(&[], Vec::as_slice)
    }

    /// Adds a participant's list. Returns the participants whose labels may differ now: each listed alone something that it shares now.
    pub(super) fn add(&mut self, place: &OwnerRank, items: &[ListItem]) -> BTreeSet<OwnerRank> {
        let mut affected = BTreeSet::new();
        for ListItem { name, .. } in items {
            let owners = self.owners.entry(&Arc::from(&**name));
            let Err(at) = owners.binary_search(place) else { continue };
            if let [only] = owners.as_slice() {
                affected.insert(only.clone());
            }
            owners.insert(at, place.clone());
        }
        affected
    }

    /// Removes a participant's list. Returns the participants whose labels may differ now: each shares something no longer.
    pub(super) fn remove(&mut self, place: &OwnerRank, items: &[ListItem]) -> BTreeSet<OwnerRank> {
        let mut affected = BTreeSet::new();
        for ListItem { name, .. } in items {
            let Some(owners) = self.owners.get_mut(name) else { continue };
            let Ok(at) = owners.binary_search(place) else { continue };
            owners.remove(at);
            match owners.as_slice() {
                [] => self.owners.remove(name),
                [only] => drop(affected.insert(only.clone())),
                _ => {}
            }
        }
        affected
    }

    /// What the room lists for a participant's URIs or templates.
    pub(super) fn labels(&self, place: &OwnerRank, items: &[ListItem]) -> Labels {
        let label = |item: &ListItem| -> Arc<str> {
            let is_plain = self.owners(&item.name).len() < 2 && !item.name.starts_with(SCHEME);
            if is_plain { Arc::from(&*item.name) } else { qualified(&place.who, &item.name).into() }
        };
        items.iter().map(|item| Some(label(item))).collect()
    }
}
