//! What is known of a topic's context: everything but values. A fold over its messages, the same on every node, and the judgment of
//! writes by it.
//!
//! Invariant: pure. No connection, no clock.

use std::collections::BTreeMap;

use async_nats::HeaderMap;
use salon_protocol::{ParticipantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::StoredQuotas;
use crate::context::{
    Address, Change, ContextLimits, ContextScope, Existence, Key, ListedKey, MAX_VERSIONS, TOOLS, ToolId, Write,
    WriteError,
};
use crate::nats::link::Stored;
use crate::nats::names::token;

/// What a message says of itself.
const META: &str = "Salon-Context";
/// Where the older versions of its key are, newest first.
const OLDER_VERSIONS_HEADER: &str = "Salon-Back";

/// How many bytes those have.
const OLDER_BYTES_HEADER: &str = "Salon-Back-Bytes";

/// How much of a cause's digest tells it from the others of its key.
const CAUSE: usize = 16;

/// The beginning of a cause's digest. There are many of these in memory, so they are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct CauseDigest([u8; CAUSE]);

impl CauseDigest {
    fn read(text: &str) -> Option<Self> {
        text.is_ascii().then_some(text.as_bytes())?.try_into().ok().map(Self)
    }

    fn of(write: &Write) -> Self {
        Self::read(&token(&write.cause)[..CAUSE]).expect("digests are ASCII and longer than that")
    }
}

impl std::fmt::Display for CauseDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).expect("only ASCII is read"))
    }
}

impl From<CauseDigest> for String {
    fn from(cause: CauseDigest) -> Self {
        cause.to_string()
    }
}

impl TryFrom<String> for CauseDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::read(&text).ok_or("a cause has another length")
    }
}

/// A version of a key, without its value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Meta {
    scope: String,
    key: String,
    pub(super) version: u64,
    pub(super) at: u64,
    pub(super) author: ParticipantId,
    cause: CauseDigest,
    bytes: u64,
    pub(super) is_deleted: bool,
}

/// Says that something was forgotten, and after which version those begin that come later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Forgetting {
    pub(super) scope: String,
    /// `None` where the whole scope is.
    pub(super) forgotten: Option<String>,
    floor: u64,
    /// The offset of the newest deletion of the topic. What was requested before it is not written any more.
    #[serde(default)]
    deleted_at: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ContextRecord {
    Version(Meta),
    Forgetting(Forgetting),
}

/// A kept version: where it is, and what caused it.
pub(super) type Mark = (u64, CauseDigest);

#[derive(Debug, Default)]
pub(super) struct ContextIndex {
    /// Everything up to here has been taken.
    pub(super) head: u64,
    /// A scope begins after this version.
    floor: u64,
    scopes: BTreeMap<String, ScopeKeys>,
    /// The offset of the topic's newest deletion for which the context was erased.
    deleted_at: u64,
    /// How many bytes all kept versions have.
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
struct ScopeKeys {
    floor: u64,
    live: u64,
    keys: BTreeMap<String, KeySlot>,
}

#[derive(Debug)]
struct KeySlot {
    sequence: u64,
    meta: Meta,
    /// The versions before this one that are kept, newest first.
    back: Box<[Mark]>,
    /// How many bytes each of them has, as far as that was written down.
    back_bytes: Box<[u64]>,
}

/// What is to be done about a write.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It was done: by the version that is so many before the newest, which is there.
    Done { version: u64, at: Option<Timestamp>, sequence: u64 },
    /// Store this. Where it makes room, remove the older versions afterwards.
    Store { meta: Meta, headers: HeaderMap, makes_room: bool },
    /// Make room first: say this, then remove what is forgotten, up to this sequence.
    Forget { forgetting: Forgetting, headers: HeaderMap },
}

/// What a message says of its key, and where the older versions are. Nothing of one that no gateway would write: versions count, so
/// none has more before it than its number says, and there is a number for the next.
pub(super) fn read(stored: &Stored) -> Option<(Meta, Box<[Mark]>)> {
    let ContextRecord::Version(meta) = told(stored)? else { return None };
    let back = stored.headers.get(OLDER_VERSIONS_HEADER).map(|back| back.as_str()).unwrap_or_default();
    let marks = back.split(' ').filter(|mark| !mark.is_empty()).map(|mark| {
        let (sequence, cause) = mark.split_once(':')?;
        Some((sequence.parse().ok()?, CauseDigest::read(cause)?))
    });
    let marks = marks.collect::<Option<Box<[_]>>>()?;
    let fits = (marks.len() as u64) < meta.version && meta.version < u64::MAX;
    fits.then_some((meta, marks))
}

/// How many bytes the older versions have.
fn read_back_bytes(stored: &Stored) -> Box<[u64]> {
    let listed = stored.headers.get(OLDER_BYTES_HEADER).map(|bytes| bytes.as_str()).unwrap_or_default();
    listed.split(' ').map_while(|bytes| bytes.parse().ok()).take(MAX_VERSIONS as usize).collect()
}

fn told(stored: &Stored) -> Option<ContextRecord> {
    serde_json::from_str(stored.headers.get(META)?.as_str()).ok()
}

fn headers(told: &ContextRecord) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(META, serde_json::to_string(told).expect("plain JSON").as_str());
    headers
}

impl KeySlot {
    fn exists(&self) -> bool {
        !self.meta.is_deleted
    }

    /// How many bytes each kept version has, newest first, as far as that was written down.
    fn version_bytes(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.meta.bytes).chain(self.back_bytes.iter().copied())
    }

    fn bytes(&self) -> u64 {
        self.version_bytes().fold(0, u64::saturating_add)
    }

    /// All kept versions, newest first.
    fn marks(&self) -> impl Iterator<Item = Mark> {
        std::iter::once((self.sequence, self.meta.cause)).chain(self.back.iter().copied())
    }
}

impl ContextIndex {
    /// Takes the next message; says what changed for its followers.
    pub(super) fn take(&mut self, stored: &Stored) -> Option<Change> {
        self.head = stored.sequence;
        match told(stored)? {
            ContextRecord::Forgetting(Forgetting { scope, floor, deleted_at, .. })
                if scope.is_empty() && floor < u64::MAX =>
            {
                let deleted_at = self.deleted_at.max(deleted_at);
                *self = Self { head: self.head, floor: self.floor.max(floor), deleted_at, ..Self::default() };
                None
            }
            // There would be no version after it.
            ContextRecord::Forgetting(Forgetting { floor: u64::MAX, .. }) => None,
            ContextRecord::Forgetting(Forgetting { scope, forgotten: Some(key), floor, .. }) => {
                let keys = self.scopes.entry(scope).or_default();
                keys.floor = keys.floor.max(floor);
                // One that was written meanwhile is remembered.
                if keys.keys.get(&key).is_some_and(|slot| !slot.exists())
                    && let Some(removed) = keys.keys.remove(&key)
                {
                    self.bytes = self.bytes.saturating_sub(removed.bytes());
                }
                None
            }
            ContextRecord::Forgetting(Forgetting { scope, forgotten: None, floor, deleted_at }) => {
                (self.floor, self.deleted_at) = (self.floor.max(floor), self.deleted_at.max(deleted_at));
                if self.scopes.get(&scope).is_some_and(|keys| keys.live == 0)
                    && let Some(removed) = self.scopes.remove(&scope)
                {
                    let bytes = removed.keys.values().map(KeySlot::bytes).fold(0, u64::saturating_add);
                    self.bytes = self.bytes.saturating_sub(bytes);
                }
                None
            }
            ContextRecord::Version(_) => {
                let (meta, back) = read(stored)?;
                let (scope, key) = (ContextScope::read(&meta.scope)?, Key::new(&meta.key).ok()?);
                let floor = self.floor;
                let keys = self
                    .scopes
                    .entry(meta.scope.clone())
                    .or_insert_with(|| ScopeKeys { floor, ..ScopeKeys::default() });
                let existed = keys.keys.get(&meta.key).is_some_and(KeySlot::exists);
                let existence = match (existed, !meta.is_deleted) {
                    (false, _) => Existence::Begun,
                    (true, true) => Existence::Unchanged,
                    (true, false) => Existence::Ended,
                };
                match existence {
                    Existence::Begun if !meta.is_deleted => keys.live += 1,
                    Existence::Ended => keys.live -= 1,
                    Existence::Begun | Existence::Unchanged => {}
                }
                let version = meta.version;
                let slot = KeySlot { sequence: stored.sequence, meta, back, back_bytes: read_back_bytes(stored) };
                self.bytes = self.bytes.saturating_add(slot.bytes());
                if let Some(older) = keys.keys.insert(slot.meta.key.clone(), slot) {
                    self.bytes = self.bytes.saturating_sub(older.bytes());
                }
                Some(Change { scope, key, version, existence })
            }
        }
    }

    /// Whether everything from before a deletion of the topic, at an offset, was erased.
    pub(super) fn is_erased(&self, deleted_at: u64) -> bool {
        self.deleted_at >= deleted_at
    }

    /// What says that all scopes are forgotten, because the topic was deleted at an offset.
    pub(super) fn erasure(&self, deleted_at: u64) -> HeaderMap {
        let scopes = self.scopes.values();
        let versions = scopes.flat_map(|scope| scope.keys.values().map(|slot| slot.meta.version).chain([scope.floor]));
        let floor = versions.fold(self.floor, u64::max);
        headers(&ContextRecord::Forgetting(Forgetting { scope: String::new(), forgotten: None, floor, deleted_at }))
    }

    /// Judges a write by everything taken so far.
    pub(super) fn judge(
        &self,
        address: &Address,
        write: &Write,
        bounds: ContextLimits,
        (quotas, gateway): (&StoredQuotas, u64),
        now: Timestamp,
    ) -> Result<Verdict, WriteError> {
        if write.requested.is_some_and(|requested| requested.offset <= self.deleted_at) {
            return Err(WriteError::Deleted);
        }
        let name = address.scope.name();
        let keys = self.scopes.get(&name);
        let slot = keys.and_then(|keys| keys.keys.get(address.key.as_str()));
        let cause = CauseDigest::of(write);
        if let Some(slot) = slot
            && let Some((before, (sequence, _))) = (0..).zip(slot.marks()).find(|(_, (_, known))| *known == cause)
        {
            let at = (before == 0).then_some(Timestamp(slot.meta.at));
            return Ok(Verdict::Done { version: slot.meta.version - before, at, sequence });
        }
        let (current, exists) = slot.map_or((0, false), |slot| (slot.meta.version, slot.exists()));
        if write.expected.is_some_and(|expected| expected != current && (expected > 0 || exists)) {
            return Err(WriteError::Conflict { current });
        }
        if write.value.is_none() && !exists {
            return Err(WriteError::Absent { current });
        }
        let (stored, added) = ((self.bytes, gateway), write.value.as_ref().map_or(0, |value| value.len()));
        let makes_room = match quotas.check_context(stored, 0, added) {
            Ok(()) => write.value.is_none() && quotas.is_tight(stored),
            Err(_) => {
                let older = slot.map_or(0, KeySlot::bytes);
                quotas.check_context(stored, older, added).map_err(WriteError::Quota)?;
                true
            }
        };
        let version = match (slot, keys) {
            (Some(slot), _) => slot.meta.version + 1,
            (None, Some(keys)) => match keys.room_for_one(&name, bounds.keys)? {
                Some(forgetting) => return Ok(forget(forgetting)),
                None => keys.floor + 1,
            },
            (None, None) => match self.room_for_scope(&address.scope, bounds.tools)? {
                Some(forgetting) => return Ok(forget(forgetting)),
                None => self.floor + 1,
            },
        };
        let meta = Meta {
            scope: name,
            key: address.key.to_string(),
            version,
            // Times do not go back along the versions of a key.
            at: slot.map_or(now.0, |slot| now.0.max(slot.meta.at)),
            author: write.author.clone(),
            cause,
            bytes: write.value.as_ref().map_or(0, |value| value.len() as u64),
            is_deleted: write.value.is_none(),
        };
        let mut headers = headers(&ContextRecord::Version(meta.clone()));
        if let Some(slot) = slot.filter(|_| !makes_room) {
            let most = usize::try_from(MAX_VERSIONS - 1).expect("few");
            let back: Vec<_> = slot.marks().take(most).map(|(sequence, cause)| format!("{sequence}:{cause}")).collect();
            headers.insert(OLDER_VERSIONS_HEADER, back.join(" ").as_str());
            let bytes: Vec<_> = slot.version_bytes().take(most).map(|bytes| bytes.to_string()).collect();
            headers.insert(OLDER_BYTES_HEADER, bytes.join(" ").as_str());
        }
        Ok(Verdict::Store { meta, headers, makes_room })
    }

    /// Whether there is a place for one more tool, or which makes room.
    fn room_for_scope(&self, scope: &ContextScope, limit: u64) -> Result<Option<Forgetting>, WriteError> {
        if !matches!(scope, ContextScope::Tool(_)) {
            return Ok(None);
        }
        let tools = || self.tools_and_keys();
        if (tools().count() as u64) < limit {
            return Ok(None);
        }
        let newest = |keys: &ScopeKeys| keys.keys.values().map(|slot| slot.sequence).max();
        let (name, keys) = tools()
            .filter(|(_, keys)| keys.live == 0)
            .min_by_key(|(_, keys)| newest(keys))
            .ok_or(WriteError::TooManyTools)?;
        let highest = keys.keys.values().map(|slot| slot.meta.version).max().unwrap_or_default();
        let floor = self.floor.max(keys.floor).max(highest);
        // This takes the place of what says that the topic was deleted, so it says that too.
        Ok(Some(Forgetting { scope: name.clone(), forgotten: None, floor, deleted_at: self.deleted_at }))
    }

    fn tools_and_keys(&self) -> impl Iterator<Item = (&String, &ScopeKeys)> {
        self.scopes.range(TOOLS.to_owned()..).take_while(|(name, _)| name.starts_with(TOOLS))
    }

    /// The tools that have something.
    pub(super) fn tools(&self) -> Vec<ToolId> {
        let live = self.tools_and_keys().filter(|(_, keys)| keys.live > 0);
        live.filter_map(|(name, _)| ToolId::new(name.strip_prefix(TOOLS)?).ok()).collect()
    }

    /// The keys of a scope that exist, up to `limit` of those after one.
    pub(super) fn list(&self, scope: &ContextScope, after: Option<&Key>, limit: usize) -> Vec<ListedKey> {
        let keys = self.scopes.get(&scope.name()).map(|keys| &keys.keys);
        let after = after.map_or("", Key::as_str);
        let slots = keys.into_iter().flat_map(|keys| {
            let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
            keys.range::<str, _>(range).map(|(_, slot)| slot)
        });
        let listed = slots.filter(|slot| slot.exists()).filter_map(|slot| {
            Some(ListedKey {
                key: Key::new(&slot.meta.key).ok()?,
                version: slot.meta.version,
                at: Timestamp(slot.meta.at),
                author: slot.meta.author.clone(),
                bytes: slot.meta.bytes,
            })
        });
        listed.take(limit).collect()
    }
}

impl ScopeKeys {
    /// Whether there is a place for one more key, or which makes room.
    fn room_for_one(&self, scope: &str, limit: u64) -> Result<Option<Forgetting>, WriteError> {
        if self.live >= limit {
            return Err(WriteError::TooManyKeys);
        }
        if (self.keys.len() as u64) < limit {
            return Ok(None);
        }
        // Some are deleted, then. The longest deleted makes room.
        let deleted = self.keys.values().filter(|slot| !slot.exists());
        let oldest = deleted.min_by_key(|slot| slot.sequence).ok_or(WriteError::TooManyKeys)?;
        let floor = self.floor.max(oldest.meta.version);
        let forgotten = Some(oldest.meta.key.clone());
        Ok(Some(Forgetting { scope: scope.to_owned(), forgotten, floor, deleted_at: 0 }))
    }
}

fn forget(forgetting: Forgetting) -> Verdict {
    let headers = headers(&ContextRecord::Forgetting(forgetting.clone()));
    Verdict::Forget { forgetting, headers }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(key: &str) -> Address {
        Address {
            topic: salon_protocol::TopicName::new("room:a").expect("a name"),
            scope: ContextScope::Topic,
            key: Key::new(key).expect("a key"),
        }
    }

    fn write(cause: &str) -> Write {
        let author = ParticipantId::new("alice").expect("an id");
        Write { value: Some("1".into()), expected: None, author, cause: cause.into(), requested: None }
    }

    fn stored(sequence: u64, headers: HeaderMap) -> Stored {
        let (time, subject, payload) = (Timestamp(0), String::new(), bytes::Bytes::new());
        Stored { sequence, time, subject, headers, payload }
    }

    /// Judges a write and takes what becomes of it.
    fn done(index: &mut ContextIndex, write: &Write) -> u64 {
        let quotas = (&StoredQuotas::default(), 0);
        match index.judge(&at("k"), write, ContextLimits::default(), quotas, Timestamp(0)) {
            Ok(Verdict::Store { meta, headers, .. }) => {
                index.take(&stored(index.head + 1, headers)).expect("a change");
                meta.version
            }
            Ok(Verdict::Done { version, .. }) => version,
            other => panic!("{other:?}"),
        }
    }

    /// What somebody else writes into the stream is no reason to fail, nor to count on.
    #[test]
    fn what_no_gateway_writes_is_passed_over() {
        let mut index = ContextIndex::default();
        assert_eq!((done(&mut index, &write("a")), done(&mut index, &write("b"))), (1, 2));
        let version = |version: u64, back: &str| {
            let author = ParticipantId::new("mallory").expect("an id");
            let (scope, key, cause) = (at("k").scope.name(), "k".to_owned(), CauseDigest::of(&write("m")));
            let meta = Meta { scope, key, version, at: 0, author, cause, bytes: 1, is_deleted: false };
            let mut headers = headers(&ContextRecord::Version(meta));
            headers.insert(OLDER_VERSIONS_HEADER, back);
            headers
        };
        let floor = |forgotten: Option<&str>| {
            let (scope, forgotten) = ("nobody's".to_owned(), forgotten.map(str::to_owned));
            headers(&ContextRecord::Forgetting(Forgetting { scope, forgotten, floor: u64::MAX, deleted_at: 0 }))
        };
        let mark = format!("1:{}", CauseDigest::of(&write("a")));
        let strange = [
            version(u64::MAX, ""),
            version(0, ""),
            version(1, &mark),
            version(3, "1:short"),
            version(3, "one:abcdefghijklmnop"),
            version(3, "1:ключ"),
            floor(None),
            floor(Some("k")),
            HeaderMap::new(),
        ];
        for headers in strange {
            let next = index.head + 1;
            assert_eq!(index.take(&stored(next, headers)), None);
            assert_eq!(index.head, next, "it was not passed");
        }
        assert_eq!((done(&mut index, &write("a")), done(&mut index, &write("b"))), (1, 2), "the same as before");
        assert_eq!(done(&mut index, &write("c")), 3);
    }
}
