//! Compares what was witnessed with what the gateway kept.

use super::client::CrashRecord;
use crate::Failure;
use crate::witness::{HistoryIndex, Seen};

pub(crate) fn check(history: &[Seen], readers: &[CrashRecord], publishers: &[CrashRecord]) -> Result<(), Failure> {
    let places = HistoryIndex::of(history)?;
    readers.iter().chain(publishers).try_for_each(|record| places.has_all(&record.name, &record.seen))?;
    readers.iter().try_for_each(|reader| places.same_order(&reader.name, &reader.seen))?;
    publishers.iter().try_for_each(|publisher| kept_once(history, publisher))
}

/// What was acknowledged is what is kept of a publisher: all of it, once, in the order it was written.
fn kept_once(history: &[Seen], publisher: &CrashRecord) -> Result<(), Failure> {
    let prefix = format!("{}-", publisher.name);
    let kept = history.iter().filter(|entry| entry.id.starts_with(&prefix)).map(|entry| &entry.text);
    if kept.eq(&publisher.acknowledged) {
        return Ok(());
    }
    let (kept, acknowledged) =
        (history.iter().filter(|e| e.id.starts_with(&prefix)).count(), publisher.acknowledged.len());
    Err(format!("of {}, {acknowledged} were acknowledged and {kept} kept, or not in that order", publisher.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: &str) -> Seen {
        let presence_of = id.strip_prefix("join-").map(str::to_owned);
        Seen { id: id.into(), text: format!("text of {id}"), from: String::new(), presence_of, is_leave: false }
    }

    fn verdict(history: &str, reader: &str, acknowledged: &str) -> String {
        let list = |ids: &str| ids.split_whitespace().map(seen).collect::<Vec<_>>();
        let record = |name: &str| CrashRecord { name: name.into(), ..CrashRecord::default() };
        let reader = CrashRecord { seen: list(reader), ..record("r") };
        let acknowledged = list(acknowledged).into_iter().map(|seen| seen.text).collect();
        let publisher = CrashRecord { acknowledged, ..record("p") };
        let told = check(&list(history), &[reader], &[publisher]).map_or_else(|told| told, |()| "fine".into());
        told.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn every_kind_of_loss_is_found() {
        assert_eq!(verdict("join-r p-1 join-q p-2 end", "p-1 join-r join-q p-2 end", "p-1 p-2"), "fine");
        assert_eq!(verdict("join-r p-1 join-q p-2 end", "join-q p-2 end", "p-1 p-2"), "fine");
        assert_eq!(verdict("p-1 end", "p-1 p-2 end", "p-1"), "r saw p-2, which is not in the history");
        assert_eq!(verdict("p-1 p-1", "p-1", "p-1"), "p-1 is in the history twice");
        assert_eq!(verdict("p-1 p-2 end", "p-1 end", "p-1 p-2"), "r saw end where the history has p-2");
        assert_eq!(verdict("p-1 p-2 end", "p-2 p-1 end", "p-1 p-2"), "r saw p-1 where the history has end");
        assert_eq!(verdict("p-1 end", "p-1 end end", "p-1"), "r saw end again");
        assert_eq!(verdict("p-1 end", "", "p-1"), "r saw nothing");
        let told = "of p, 2 were acknowledged and 1 kept, or not in that order";
        assert_eq!(verdict("p-1 end", "p-1 end", "p-1 p-2"), told);
        assert_eq!(verdict("p-2 p-1 end", "p-2 p-1 end", "p-1 p-2").replace("2 kept", "1 kept"), told);
    }
}
