//! Names of tools and prompts as the room lists them: `participant__name`, within what every MCP host takes.

use std::collections::{HashMap, HashSet};

use salon_protocol::ParticipantId;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Found, Item};

/// The longest name that every host takes.
const MAX_NAME_LENGTH: usize = 64;
/// Hexadecimal digits of a hash at the end of a name, with a `_` before them.
const HASH_DIGITS: usize = 8;
/// What is left of an owner's id however long the name is.
const MIN_OWNER_LENGTH: usize = 16;

/// The names of one kind of list.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Per participant and item, in its order; `None` for one that repeats a name of its owner's, or that cannot be called here.
    listed: HashMap<ParticipantId, Vec<Option<Box<str>>>>,
    /// By the listed name: whose, and its own name.
    owners: HashMap<Box<str>, (ParticipantId, Box<str>)>,
    /// By `participant__name`, where that is not the listed name.
    aliases: HashMap<String, Vec<(ParticipantId, Box<str>)>>,
    /// By the own name.
    bare: HashMap<Box<str>, Vec<ParticipantId>>,
}

impl Names {
    pub(super) fn new<'a>(all: impl Iterator<Item = (&'a ParticipantId, &'a [Item])>) -> Self {
        let mut names = Self::default();
        for (who, items) in all {
            let mut own = HashSet::new();
            let mut list =
                |item: &'a Item| (own.insert(&item.name) && !requires_task(item)).then(|| names.take(who, &item.name));
            let listed = items.iter().map(&mut list).collect();
            names.listed.insert(who.clone(), listed);
        }
        names
    }

    /// Gives an item the first name of its that is still free.
    fn take(&mut self, who: &ParticipantId, name: &str) -> Box<str> {
        let natural = natural(who, name);
        let hashed = (0_u32..).map(|attempt| hashed(who, name, attempt));
        let listed: Box<str> = natural
            .into_iter()
            .chain(hashed)
            .find(|listed| !self.owners.contains_key(listed.as_str()))
            .expect("there are more hashes than names")
            .into();
        self.owners.insert(listed.clone(), (who.clone(), name.into()));
        let full = qualified(who, name);
        if *full != *listed && !is_ambiguous(who, name) {
            self.aliases.entry(full).or_default().push((who.clone(), name.into()));
        }
        self.bare.entry(name.into()).or_default().push(who.clone());
        listed
    }

    /// The name the room lists for a participant's item; `None` where it lists none.
    pub(super) fn listed(&self, who: &ParticipantId, index: usize) -> Option<&str> {
        self.listed.get(who)?.get(index)?.as_deref()
    }

    pub(super) fn find(&self, name: &str) -> Found {
        if let Some((owner, own)) = self.owners.get(name) {
            return Found::One(owner.clone(), own.to_string());
        }
        match self.aliases.get(name).map(Vec::as_slice) {
            Some([(owner, own)]) => return Found::One(owner.clone(), own.to_string()),
            Some(several) => return Found::Several(several.iter().map(|(owner, _)| owner.clone()).collect()),
            None => {}
        }
        // What looks like a name of somebody's is nobody else's, even while that somebody is away.
        if name.contains("__") {
            return Found::Nobody;
        }
        match self.bare.get(name).map(Vec::as_slice) {
            // The host comes first, and its own names are as good as its listed ones.
            Some([host, ..]) if host.is_host() => Found::One(host.clone(), name.to_owned()),
            owners => Found::among(owners.unwrap_or_default(), name),
        }
    }
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
pub(super) fn natural(who: &ParticipantId, name: &str) -> Option<String> {
    // Where it can be told only by guessing what is the owner's and what the tool's, nobody is to guess.
    if !who.is_host() && is_ambiguous(who, name) {
        return None;
    }
    let base = base(who, name);
    ((1..=MAX_NAME_LENGTH).contains(&base.len()) && base.chars().all(is_plain)).then_some(base)
}

/// Whether `participant__name` could be read as somebody else's.
fn is_ambiguous(who: &ParticipantId, name: &str) -> bool {
    let who = who.as_str();
    who.contains("__") || name.contains("__") || who.ends_with('_') || name.starts_with('_')
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
fn requires_task(item: &Item) -> bool {
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
