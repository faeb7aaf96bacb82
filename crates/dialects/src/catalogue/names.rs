//! Names of tools and prompts as the room lists them: `participant__name`, within what every MCP host takes.

use std::collections::HashSet;
use std::sync::Arc;

use salon_mcp::listing::ListItem;
use salon_protocol::ParticipantId;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::merged::{Labels, OwnerRank};
use super::shards::Shards;

/// The longest name that every host takes.
const MAX_NAME_LENGTH: usize = 64;
/// Hexadecimal digits of a hash at the end of a name, with a `_` before them.
const HASH_DIGITS: usize = 8;
/// What is left of an owner's id however long the name is.
const MIN_OWNER_LENGTH: usize = 16;

/// The names of one kind of list.
#[derive(Debug, Clone, Default)]
pub(super) struct NameIndex {
    /// By the listed name: whose, and its own name.
    pub(super) labels: Shards<(ParticipantId, Arc<str>)>,
    /// By `participant__name`, where that is not the listed name.
    pub(super) aliases: Shards<Vec<(OwnerRank, Arc<str>)>>,
    /// By the own name, in the order of all participants.
    pub(super) bare: Shards<Vec<OwnerRank>>,
    /// How many items have not the name they would have alone. While there are none, no list changes the names of another.
    pub(super) displaced: usize,
}

impl NameIndex {
    /// Adds a participant's list, if each of its items can have the first name of its choice. Changes nothing otherwise: then the names of
    /// all depend on their order.
    pub(super) fn add(&mut self, place: &OwnerRank, items: &[ListItem]) -> Option<Labels> {
        let mut own = HashSet::new();
        let mut is_free = |label: &Arc<str>| self.labels.get(label).is_none() && own.insert(label.clone());
        let mut labels = Vec::with_capacity(items.len());
        for name in callable(items) {
            let label = name.map(|name| first_choice(&place.who, name));
            if label.as_ref().is_some_and(|label| !is_free(label)) {
                return None;
            }
            labels.push(label);
        }
        for (item, label) in items.iter().zip(&labels) {
            if let Some(label) = label {
                self.insert(place, &item.name, label);
            }
        }
        Some(labels.into())
    }

    /// Adds a participant's list after those before it in the order of all: each item gets the first of its names that is free, and that is
    /// not `taken` elsewhere.
    pub(super) fn add_next(
        &mut self,
        place: &OwnerRank,
        items: &[ListItem],
        taken: &dyn Fn(&ParticipantId, &str) -> bool,
    ) -> Labels {
        let mut labels = Vec::with_capacity(items.len());
        for name in callable(items) {
            labels.push(name.map(|name| {
                let hashed = (0_u32..).map(|attempt| hashed(&place.who, name, attempt));
                let choices = natural(&place.who, name).into_iter().chain(hashed);
                let is_free = |label: &str| self.labels.get(label).is_none() && !taken(&place.who, label);
                let mut free = choices.enumerate().filter(|(_, label)| is_free(label));
                let (choice, label) = free.next().expect("there are more hashes than names");
                self.displaced += usize::from(choice > 0);
                let label: Arc<str> = label.into();
                self.insert(place, name, &label);
                label
            }));
        }
        labels.into()
    }

    fn insert(&mut self, place: &OwnerRank, name: &str, label: &Arc<str>) {
        let (who, name): (_, Arc<str>) = (&place.who, name.into());
        self.labels.insert(label.clone(), (who.clone(), name.clone()));
        let full = qualified(who, &name);
        if *full != **label {
            let known = self.aliases.entry(&full.into());
            let at = known.partition_point(|other| other < &(place.clone(), name.clone()));
            known.insert(at, (place.clone(), name.clone()));
        }
        let owners = self.bare.entry(&name);
        if let Err(at) = owners.binary_search(place) {
            owners.insert(at, place.clone());
        }
    }

    /// Removes a participant's list.
    pub(super) fn remove(&mut self, place: &OwnerRank, items: &[ListItem], labels: &Labels) {
        for (item, label) in items.iter().zip(labels) {
            let Some(label) = label else { continue };
            self.labels.remove(label);
            let full = qualified(&place.who, &item.name);
            if let Some(known) = self.aliases.get_mut(&full) {
                known.retain(|(owner, _)| owner != place);
                if known.is_empty() {
                    self.aliases.remove(&full);
                }
            }
            if let Some(owners) = self.bare.get_mut(&item.name) {
                if let Ok(at) = owners.binary_search(place) {
                    owners.remove(at);
                }
                if owners.is_empty() {
                    self.bare.remove(&item.name);
                }
            }
        }
    }
}

/// The names of a list's items; none for one that repeats a name of its owner's, or that cannot be called here.
fn callable(items: &[ListItem]) -> impl Iterator<Item = Option<&str>> {
    let mut own = HashSet::new();
    items.iter().map(move |item| (own.insert(&*item.name) && !requires_task(item)).then_some(&*item.name))
}

fn first_choice(who: &ParticipantId, name: &str) -> Arc<str> {
    natural(who, name).unwrap_or_else(|| hashed(who, name, 0)).into()
}

pub(super) fn qualified(who: &ParticipantId, name: &str) -> String {
    qualified_in(who.as_str(), name)
}

fn qualified_in(owner: &str, name: &str) -> String {
    format!("{owner}__{name}")
}

/// The name before it is altered in any way that could make two of them one. The host's have no prefix.
fn base(who: &ParticipantId, name: &str) -> String {
    if who.is_host() { name.replace('.', "_") } else { qualified(who, name) }
}

/// The name as the room lists it, unless it must be told apart by a hash.
pub(crate) fn natural(who: &ParticipantId, name: &str) -> Option<String> {
    // A name whose owner and tool cannot be separated without guessing is not split.
    if !who.is_host() && is_ambiguous(who, name) {
        return None;
    }
    let base = base(who, name);
    ((1..=MAX_NAME_LENGTH).contains(&base.len()) && base.chars().all(is_plain)).then_some(base)
}

/// Whether `participant__name` could be read as somebody else's.
fn is_ambiguous(who: &ParticipantId, name: &str) -> bool {
    !ends_at_first_underscores(who) || name.contains("__") || name.starts_with('_')
}

/// Whether `participant__name` has this participant before its first `__`. A call by such a name is read so, no matter who is present: nobody
/// gets what was meant for another that is away.
pub(crate) fn ends_at_first_underscores(who: &ParticipantId) -> bool {
    !who.as_str().contains("__") && !who.as_str().ends_with('_')
}

/// The name altered, cut, and told apart by a hash.
fn hashed(who: &ParticipantId, name: &str, attempt: u32) -> String {
    let plain = |text: &str, most: usize| -> String {
        text.chars().map(|char| if is_plain(char) { char } else { '_' }).take(most).collect()
    };
    let room = MAX_NAME_LENGTH - 1 - HASH_DIGITS;
    // Of a long owner the beginning will do; what it is called for must be seen.
    let owner = room.saturating_sub(2 + name.chars().count()).max(MIN_OWNER_LENGTH);
    let plain = match who.is_host() {
        true => plain(&base(who, name), room),
        false => plain(&qualified_in(&plain(who.as_str(), owner), name), room),
    };
    let mut hash = fnv(FNV_BASIS, who.as_str().as_bytes());
    hash = fnv(hash, b"\0");
    hash = fnv(hash, name.as_bytes());
    if attempt > 0 {
        hash = fnv(hash, &attempt.to_be_bytes());
    }
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    format!("{plain}_{folded:08x}")
}

/// Whether a tool can be called only as a task (MCP 2025-11-25, "Tool-Level Negotiation"), which the room does not carry.
fn requires_task(item: &ListItem) -> bool {
    #[derive(Deserialize)]
    struct Tool<'a> {
        #[serde(borrow)]
        execution: Option<Execution<'a>>,
    }
    #[derive(Deserialize)]
    struct Execution<'a> {
        #[serde(borrow, rename = "taskSupport")]
        task_support: Option<&'a RawValue>,
    }
    let support = serde_json::from_str::<Tool<'_>>(item.raw.get()).ok().and_then(|tool| tool.execution?.task_support);
    support.is_some_and(|support| support.get() == r#""required""#)
}

fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_' || char == '-'
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: the same on every machine and in every version, which a name that clients remember must be.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
