//! Whether everybody saw what was kept, and what was kept is what was acknowledged.

use std::collections::{BTreeSet, HashSet};

use super::END;
use crate::Failure;
use crate::witness::{HistoryIndex, Seen};

/// What one client can bear witness to.
#[derive(Debug, Default)]
pub(crate) struct FaultRecord {
    pub(crate) name: String,
    pub(crate) topic: usize,
    /// Everything it saw, in order.
    pub(crate) seen: Vec<Seen>,
    /// What it published and saw stored, by id.
    pub(crate) acknowledged: HashSet<String>,
    /// What it said more than once.
    pub(crate) again: HashSet<String>,
    pub(crate) reached_the_end: bool,
}

/// One topic: its history up to the end, what its clients saw, and who was connected when it ended.
pub(crate) fn check(history: &[Seen], records: &[FaultRecord], connected: &BTreeSet<String>) -> Result<(), Failure> {
    if history.last().is_none_or(|last| last.id != END) {
        return Err("the history has no end".into());
    }
    let places = HistoryIndex::of(history)?;
    for record in records {
        places.has_all(&record.name, &record.seen)?;
        places.same_order(&record.name, &record.seen)?;
        if record.reached_the_end != record.seen.last().is_some_and(|last| last.id == END) {
            return Err(format!("{} did not see the end, or saw more", record.name));
        }
        kept_once(history, record)?;
    }
    let present = presence(history)?;
    match present == *connected {
        true => Ok(()),
        false => Err(format!("present by the log: {present:?}\n  connected: {connected:?}")),
    }
}

/// What was acknowledged is what is kept, and what was said once is in the order in which it was said.
fn kept_once(history: &[Seen], record: &FaultRecord) -> Result<(), Failure> {
    let said: Vec<_> = history.iter().filter(|entry| entry.from == record.name).collect();
    let kept: Vec<_> = said.iter().map(|entry| &entry.id).collect();
    let found = kept.iter().filter(|id| record.acknowledged.contains(**id)).count();
    if found < record.acknowledged.len() || kept.len() > found {
        let (name, acknowledged) = (&record.name, record.acknowledged.len());
        let unacknowledged = said.iter().enumerate().filter(|(_, entry)| !record.acknowledged.contains(&entry.id));
        let unacknowledged: String =
            unacknowledged.map(|(at, entry)| format!("\n  number {at}: {}", entry.text)).collect();
        let kept = kept.len();
        return Err(format!(
            "of {name}, {acknowledged} were acknowledged and {kept} kept, {found} of those{unacknowledged}"
        ));
    }
    let once: Vec<_> = kept.into_iter().filter(|id| !record.again.contains(*id)).collect();
    match once.windows(2).find(|pair| pair[0] >= pair[1]) {
        None => Ok(()),
        Some(pair) => Err(format!("{} was said after {}, each once, and is kept before it", pair[0], pair[1])),
    }
}

/// Who is present by what is kept. Nobody leaves who is not there.
fn presence(history: &[Seen]) -> Result<BTreeSet<String>, Failure> {
    let mut present = BTreeSet::new();
    for (entry, who) in history.iter().filter_map(|entry| Some((entry, entry.presence_of.clone()?))) {
        if !entry.is_leave {
            present.insert(who);
        } else if !present.remove(&who) {
            return Err(format!("{who} leaves and is not there: {}", entry.text));
        }
    }
    Ok(present)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: &str) -> Seen {
        let (join, leave) = (id.strip_prefix("join-"), id.strip_prefix("leave-"));
        let presence_of = join.or(leave).map(|who| who.trim_end_matches('\'').to_owned());
        let from = id.split('-').next().unwrap_or_default().to_owned();
        Seen { id: id.into(), text: format!("text of {id}"), from, presence_of, is_leave: leave.is_some() }
    }

    /// `p` publishes and reads: what it saw, and what of this it said more than once.
    fn verdict(history: &str, saw: &str, again: &str) -> String {
        let list = |ids: &str| ids.split_whitespace().map(seen).collect::<Vec<_>>();
        let ids = |ids: &str| ids.split_whitespace().map(str::to_owned).collect::<HashSet<_>>();
        let acknowledged: HashSet<_> = ids(saw).into_iter().filter(|id| id.starts_with("p-")).collect();
        let reached_the_end = saw.ends_with(END);
        let seen = list(saw);
        let record = FaultRecord {
            name: "p".into(),
            seen,
            acknowledged,
            again: ids(again),
            reached_the_end,
            ..FaultRecord::default()
        };
        let told = check(&list(history), &[record], &["p".to_owned()].into());
        told.map_or_else(|told| told.lines().next().unwrap_or_default().to_owned(), |()| "fine".into())
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        let told = |history: &str, saw: &str| verdict(history, saw, "");
        assert_eq!(told("join-p p-1 p-2 the-end", "p-1 p-2 the-end"), "fine");
        assert_eq!(told("join-p p-1 q-1 leave-p join-p' the-end", "p-1 q-1 the-end"), "fine");
        assert_eq!(told("join-p p-1 p-2", "p-1 p-2"), "the history has no end");
        assert_eq!(told("join-p p-1 p-1 the-end", "p-1 the-end"), "p-1 is in the history twice");
        assert_eq!(told("join-p p-1 the-end", "p-1 p-2 the-end"), "p saw p-2, which is not in the history");
        assert_eq!(told("join-p p-1 q-1 the-end", "p-1 the-end"), "p saw the-end where the history has q-1");
        assert_eq!(told("join-p q-1 p-1 the-end", "p-1 q-1 the-end"), "p saw q-1 where the history has the-end");
        assert_eq!(told("join-p q-1 the-end", "q-1 q-1 the-end"), "p saw q-1 where the history has the-end");
        let lost = "of p, 1 were acknowledged and 2 kept, 1 of those";
        assert_eq!(told("join-p p-1 p-2 the-end", "p-2 the-end"), lost);
        let behind = "p-2 was said after p-1, each once, and is kept before it";
        assert_eq!(told("join-p p-2 p-1 the-end", "p-2 p-1 the-end"), behind);
        assert_eq!(verdict("join-p p-2 p-1 the-end", "p-2 p-1 the-end", "p-1"), "fine");
        assert_eq!(told("join-p join-q p-1 the-end", "join-q p-1 the-end"), r#"present by the log: {"p", "q"}"#);
        assert_eq!(told("join-p leave-p p-1 the-end", "p-1 the-end"), "present by the log: {}");
        let twice = "q leaves and is not there: text of leave-q'";
        assert_eq!(told("join-p join-q leave-q leave-q' the-end", "leave-q leave-q' the-end"), twice);
    }
}
