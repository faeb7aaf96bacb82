//! Who has signed out: remembered, in memory and in a file, until the sign-in would have ended by itself.
//!
//! Where several gateways share a log, each tells the others by it: a value a participant, which only ever grows but for what does not
//! matter any more. What is heard so counts as what was said here.
//!
//! Invariants: bounded. Somebody with many sign-outs is remembered as having ended every sign-in up to then; where more people have
//! signed out than can be told apart, at other gateways, everybody has. What the others may not know is known until they do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use salon_log::cluster::Keyspace;
use salon_protocol::{ParticipantId, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::AuthError;
use super::signins::LIFETIME_MS;

/// The name of the file in the data directory.
pub const SIGN_OUTS_FILE: &str = "signed-out.jsonl";

/// Where gateways tell one another who has signed out. A sign-in lasts a day at most, and clocks differ.
pub(crate) const SIGN_OUTS: Keyspace = Keyspace { name: "signouts", time_to_live: Duration::from_secs(25 * 60 * 60) };

/// How many sign-outs of one participant are kept one by one.
const MAX_PER_PARTICIPANT: usize = 32;

/// How many participants are remembered, of all gateways that share a log.
const MAX_PARTICIPANTS: usize = 10_000;

/// How many lines the file may have beyond twice those that matter.
const MAX_SPARE_LINES: usize = 1000;

/// The sign-ins that were ended.
pub(super) struct SignOuts {
    path: PathBuf,
    table: Mutex<SignOutTable>,
    /// Whether there are others to be told.
    is_shared: bool,
    per_participant: usize,
    participants: usize,
}

struct SignOutTable {
    ended: HashMap<ParticipantId, EndedSignIns>,
    /// Every sign-in that began no later has ended, whosever it is.
    everybody: Option<Timestamp>,
    file: File,
    /// How many lines the file has.
    lines: usize,
    /// Whose sign-outs the file may lack. While there are any, its last line may be there in part, and takes none behind it.
    unwritten: HashSet<ParticipantId>,
    /// Whose sign-outs the other gateways may not know of.
    unshared: HashSet<ParticipantId>,
}

/// What one participant has ended.
#[derive(Clone, Default, PartialEq, Eq)]
struct EndedSignIns {
    /// Everything that began no later.
    until: Option<Timestamp>,
    one_by_one: HashMap<Uuid, Timestamp>,
}

/// What one participant has ended, as gateways tell one another.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SharedSignOuts {
    participant: ParticipantId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    /// Each with when it would have ended by itself.
    #[serde(default)]
    one_by_one: BTreeMap<String, u64>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct SignOutLine {
    participant: ParticipantId,
    /// This sign-in, or everything up to that moment.
    #[serde(flatten)]
    what: SignOutScope,
    /// From here on the line does not matter.
    expires: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SignOutScope {
    One(String),
    Until(u64),
}

impl SignOuts {
    /// Reads what there is and leaves out what does not matter any more.
    pub(super) fn open(data: &Path, is_shared: bool, now: Timestamp) -> io::Result<Self> {
        let path = data.join(SIGN_OUTS_FILE);
        let ended = read(&path, now)?;
        let (file, lines) = write(&path, &ended)?;
        // Until the others' word comes it is not known what they have heard.
        let unshared = if is_shared { ended.keys().cloned().collect() } else { HashSet::new() };
        let table =
            Mutex::new(SignOutTable { ended, everybody: None, file, lines, unwritten: HashSet::new(), unshared });
        Ok(Self { path, table, is_shared, per_participant: MAX_PER_PARTICIPANT, participants: MAX_PARTICIPANTS })
    }

    fn table(&self) -> MutexGuard<'_, SignOutTable> {
        self.table.lock()
    }

    /// Whether a sign-in was ended.
    pub(super) fn has(&self, who: &ParticipantId, id: Uuid) -> bool {
        let table = self.table();
        is_before(id, table.everybody) || table.ended.get(who).is_some_and(|ended| ended.has(id))
    }

    /// Remembers that a sign-in was ended, at once in memory, and in the file where that can be written.
    pub(super) fn add(
        &self,
        who: &ParticipantId,
        id: Uuid,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<io::Result<()>, AuthError> {
        let mut table = self.table();
        if !table.has_room(who, self.participants, now) {
            return Err(AuthError::TooManySignOuts);
        }
        let own = table.ended.entry(who.clone()).or_default();
        own.one_by_one.retain(|_, expires| now < *expires);
        let (what, expires) = if own.one_by_one.len() < self.per_participant {
            own.one_by_one.insert(id, expires);
            (SignOutScope::One(id.to_string()), expires.0)
        } else {
            own.one_by_one.insert(id, expires);
            let until = own.end_all(now);
            (SignOutScope::Until(until.0), until.0.saturating_add(LIFETIME_MS))
        };
        if self.is_shared {
            table.unshared.insert(who.clone());
        }
        Ok(self.keep(&mut table, &SignOutLine { participant: who.clone(), what, expires }, now))
    }

    /// Takes in what another gateway, or this one, has told of a participant, and says whether that is news. What makes no sense is passed
    /// over.
    pub(super) fn hear(&self, told: &[u8], now: Timestamp) -> bool {
        let Ok(told) = serde_json::from_slice::<SharedSignOuts>(told) else {
            tracing::warn!("sign-out: stored value unreadable, ignored");
            return false;
        };
        let mut heard = EndedSignIns::of(&told, now);
        let mut table = self.table();
        if heard.matters() && !table.has_room(&told.participant, self.participants, now) {
            tracing::warn!("sign-out: too many participants signed out, signing everybody out");
            let until = Some(heard.end_all(Timestamp(0)));
            let is_news = table.everybody < until;
            table.everybody = table.everybody.max(until);
            return is_news;
        }
        let own = table.ended.entry(told.participant.clone()).or_default();
        let before = own.clone();
        own.merge(&told, now);
        let (matters, is_told, is_news) = (own.matters(), *own == heard, *own != before);
        if !matters {
            table.ended.remove(&told.participant);
        }
        if is_told {
            table.unshared.remove(&told.participant);
        }
        is_news
    }

    /// What the others must be told of a participant, with what they know; `None` where they know all, which is noted.
    pub(super) fn tell(&self, who: &ParticipantId, known: Option<&[u8]>, now: Timestamp) -> Option<Vec<u8>> {
        let known = known.and_then(|known| serde_json::from_slice::<SharedSignOuts>(known).ok());
        let mut all = known.as_ref().map(|known| EndedSignIns::of(known, now)).unwrap_or_default();
        let before = all.clone();
        // Locked until it is noted: a sign-out that comes meanwhile is not known.
        let mut table = self.table();
        let own = table.ended.get(who).map(|own| own.told(who));
        if let Some(own) = &own {
            all.merge(own, now);
        }
        if own.is_none() || (known.is_some() && all == before) {
            table.unshared.remove(who);
            return None;
        }
        drop(table);
        if all.one_by_one.len() > self.per_participant {
            all.end_all(now);
        }
        Some(serde_json::to_vec(&all.told(who)).expect("ids and numbers are plain JSON"))
    }

    /// Writes down what could not be written of a participant; `None` where the file has it all.
    pub(super) fn write_again(&self, who: &ParticipantId, now: Timestamp) -> Option<io::Result<()>> {
        let mut table = self.table();
        table.unwritten.contains(who).then(|| self.write_all(&mut table, now))
    }

    /// Whether the others may not know of a participant's sign-outs.
    pub(super) fn is_unshared(&self, who: &ParticipantId) -> bool {
        self.table().unshared.contains(who)
    }

    /// Whose sign-outs the others may not know of.
    pub(super) fn unshared(&self) -> Vec<ParticipantId> {
        self.table().unshared.iter().cloned().collect()
    }

    fn keep(&self, table: &mut SignOutTable, line: &SignOutLine, now: Timestamp) -> io::Result<()> {
        let matter: usize = table.ended.values().map(|ended| ended.one_by_one.len() + 1).sum();
        let takes_more = table.unwritten.is_empty() && table.lines <= 2 * matter + MAX_SPARE_LINES;
        table.unwritten.insert(line.participant.clone());
        if !takes_more {
            return self.write_all(table, now);
        }
        table.file.write_all(&text(line))?;
        table.lines += 1;
        table.file.sync_data()?;
        table.unwritten.clear();
        Ok(())
    }

    fn write_all(&self, table: &mut SignOutTable, now: Timestamp) -> io::Result<()> {
        table.sweep(now);
        (table.file, table.lines) = write(&self.path, &table.ended)?;
        table.unwritten.clear();
        Ok(())
    }
}

impl SignOutTable {
    /// Whether a participant is remembered, or can be.
    fn has_room(&mut self, who: &ParticipantId, most: usize, now: Timestamp) -> bool {
        if self.ended.len() >= most && !self.ended.contains_key(who) {
            self.sweep(now);
            return self.ended.len() < most;
        }
        true
    }

    /// Forgets what does not matter any more.
    fn sweep(&mut self, now: Timestamp) {
        self.ended.retain(|_, own| {
            own.forget(now);
            own.matters()
        });
        self.unshared.retain(|who| self.ended.contains_key(who));
        self.unwritten.retain(|who| self.ended.contains_key(who));
    }
}

impl EndedSignIns {
    /// What was told, as far as it matters.
    fn of(told: &SharedSignOuts, now: Timestamp) -> Self {
        let mut ended = Self::default();
        ended.merge(told, now);
        ended
    }

    fn told(&self, who: &ParticipantId) -> SharedSignOuts {
        SharedSignOuts {
            participant: who.clone(),
            until: self.until.map(|until| until.0),
            one_by_one: self.one_by_one.iter().map(|(id, expires)| (id.to_string(), expires.0)).collect(),
        }
    }

    /// Adds what was told, and leaves out what does not matter any more.
    fn merge(&mut self, told: &SharedSignOuts, now: Timestamp) {
        self.until = self.until.max(told.until.map(Timestamp));
        let read = |(id, expires): (&String, &u64)| Some((id.parse().ok()?, Timestamp(*expires)));
        self.one_by_one.extend(told.one_by_one.iter().filter_map(read));
        self.forget(now);
        let until = self.until;
        self.one_by_one.retain(|id, _| !is_before(*id, until));
    }

    /// Ends everything up to now, and what was ended one by one, by whichever clock it began.
    fn end_all(&mut self, now: Timestamp) -> Timestamp {
        let newest = self.one_by_one.drain().filter_map(|(id, _)| began(id)).max();
        let until = newest.max(self.until).unwrap_or(now).max(now);
        self.until = Some(until);
        until
    }

    fn forget(&mut self, now: Timestamp) {
        self.until = self.until.filter(|until| now.0 < until.0.saturating_add(LIFETIME_MS));
        self.one_by_one.retain(|_, expires| now < *expires);
    }

    fn has(&self, id: Uuid) -> bool {
        is_before(id, self.until) || self.one_by_one.contains_key(&id)
    }

    fn matters(&self) -> bool {
        self.until.is_some() || !self.one_by_one.is_empty()
    }
}

/// Whether a sign-in began no later; one that does not say when it began did.
fn is_before(id: Uuid, until: Option<Timestamp>) -> bool {
    until.is_some_and(|until| began(id).is_none_or(|began| began <= until))
}

/// When a sign-in began: its id says so.
fn began(id: Uuid) -> Option<Timestamp> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    Some(Timestamp(seconds * 1000 + u64::from(nanos) / 1_000_000))
}

fn text(line: &SignOutLine) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("a line has nothing that cannot be JSON");
    bytes.push(b'\n');
    bytes
}

/// What a file says that still matters. A line that was cut off by a crash was never acknowledged, and is passed over.
fn read(path: &Path, now: Timestamp) -> io::Result<HashMap<ParticipantId, EndedSignIns>> {
    let mut ended: HashMap<ParticipantId, EndedSignIns> = HashMap::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ended),
        Err(error) => return Err(error),
    };
    for line in BufReader::new(file).split(b'\n') {
        let Ok(SignOutLine { participant, what, expires }) = serde_json::from_slice(&line?) else { continue };
        if now.0 >= expires {
            continue;
        }
        let own = ended.entry(participant).or_default();
        match what {
            SignOutScope::One(id) => own.one_by_one.extend(id.parse().map(|id: Uuid| (id, Timestamp(expires)))),
            SignOutScope::Until(until) => own.until = own.until.max(Some(Timestamp(until))),
        }
    }
    Ok(ended)
}

/// Writes a whole file beside the old one and puts it in its place; hands out the new one to add to, and how many lines it has.
fn write(path: &Path, ended: &HashMap<ParticipantId, EndedSignIns>) -> io::Result<(File, usize)> {
    let scratch = path.with_extension("new");
    let _ = fs::remove_file(&scratch);
    let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&scratch)?;
    let mut out = BufWriter::new(&file);
    let mut lines = 0;
    for (participant, own) in ended {
        let all = own.until.map(|until| (SignOutScope::Until(until.0), until.0.saturating_add(LIFETIME_MS)));
        let each = own.one_by_one.iter().map(|(id, expires)| (SignOutScope::One(id.to_string()), expires.0));
        for (what, expires) in all.into_iter().chain(each) {
            out.write_all(&text(&SignOutLine { participant: participant.clone(), what, expires }))?;
            lines += 1;
        }
    }
    out.flush()?;
    drop(out);
    file.sync_all()?;
    fs::rename(&scratch, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok((file, lines))
}

#[cfg(test)]
impl SignOuts {
    pub(super) fn with_room_for(participants: usize, data: &Path, now: Timestamp) -> io::Result<Self> {
        Ok(Self { participants, ..Self::open(data, true, now)? })
    }

    /// From here on the file that is open takes no lines.
    pub(super) fn break_file(&self) -> io::Result<()> {
        self.table().file = File::open(&self.path)?;
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.table().ended.len()
    }
}
