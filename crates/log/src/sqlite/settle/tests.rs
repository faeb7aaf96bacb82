//! A writer without its thread, which can be stopped between any two slices as a killed process is.

use futures_util::FutureExt;
use proptest::prelude::*;
use rusqlite::Connection;
use salon_protocol::{Envelope, Position, Timestamp};
use tokio::sync::watch;

use super::super::disk::DiskGuard;
use super::super::groups::WaitingRequests;
use super::super::reader::ReadSource;
use super::super::tests::directory;
use super::super::writer::{SqliteAppend, WriterLimits, WriterRequest};
use super::super::{copy, schema, settled};
use super::*;
use crate::contract::{line, presence, request, response, topic};
use crate::{AppendFuture, LogHealth, Retention, RetentionRules, StoredQuotas};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn writer(db: &Connection, keep: Option<u64>) -> Writer<'_> {
    let retention = RetentionRules { default: Retention { age: None, count: keep }, ..RetentionRules::default() };
    let disk = DiskGuard::new(0, (Box::new(|| Ok(u64::MAX)), std::time::Duration::ZERO));
    let limits = WriterLimits { durability: Durability::Full, retention, disk, quotas: StoredQuotas::default() };
    let source = Arc::new(ReadSource::new(schema::epoch(db).expect("an epoch")));
    let health = watch::channel(LogHealth::Writable).0;
    Writer::new(db, source, limits, Box::new(|| Timestamp(1)), health).expect("a writer of what another has left")
}

/// Stores so many lines in one commit.
fn store_lines(writer: &mut Writer<'_>, name: &str, ids: std::ops::Range<u64>) {
    let mut waiting = WaitingRequests::default();
    waiting.requests.extend(ids.map(|id| {
        let envelope = line(&format!("e{id}"), "alice", "hello");
        WriterRequest::Append(SqliteAppend {
            topic: topic(name),
            envelope,
            stamp: None,
            reply: AppendFuture::channel().0,
        })
    }));
    writer.store(waiting.next_group(&mut Vec::new()));
    assert!(waiting.is_empty());
}

/// Stores an envelope; `None` where it is refused.
fn store(writer: &mut Writer<'_>, name: &str, envelope: Envelope) -> Option<Arc<Entry>> {
    let (reply, outcome) = AppendFuture::channel();
    let append = SqliteAppend { topic: topic(name), envelope, stamp: None, reply };
    let mut waiting = WaitingRequests::default();
    waiting.requests.push_back(WriterRequest::Append(append));
    writer.store(waiting.next_group(&mut Vec::new()));
    outcome.now_or_never().expect("an answer").ok().map(|appended| appended.entry)
}

/// What a fold says, in a form that can be compared.
fn shown(fold: &Fold) -> String {
    format!("{:?}", fold.standing(0, 0))
}

fn folded<'a>(entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> Fold {
    let mut fold = Fold::default();
    entries.into_iter().for_each(|entry| _ = fold.apply(entry));
    fold
}

#[derive(Debug, Clone)]
enum Step {
    Say(usize),
    Join(usize, u8),
    Leave(usize, u8),
    Ask(usize, u8),
    /// Answers one of the newest requests.
    Answer(usize, usize, u8),
    /// Settles so many entries, or deletes from the journal.
    Settle(usize),
    /// Ends without a word, and reads back.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let (name, who) = (0..NAMES.len(), 0..3_u8);
    prop_oneof![
        4 => name.clone().prop_map(Step::Say),
        3 => (name.clone(), who.clone()).prop_map(|(name, who)| Step::Join(name, who)),
        2 => (name.clone(), who.clone()).prop_map(|(name, who)| Step::Leave(name, who)),
        3 => (name.clone(), who.clone()).prop_map(|(name, who)| Step::Ask(name, who)),
        3 => (name, 0..4_usize, who).prop_map(|(name, back, who)| Step::Answer(name, back, who)),
        5 => (1..6_usize).prop_map(Step::Settle),
        1 => Just(Step::Crash),
    ]
}

/// Compares the tables with the entries up to the newest settled one, and everything readable with all entries.
fn compare(writer: &mut Writer<'_>, name: &str, entries: &[Arc<Entry>]) {
    if entries.is_empty() {
        return;
    }
    let name = topic(name);
    let epoch = writer.source.epoch;
    let extent = settled::extent(writer.db, &name).expect("an extent");
    let of_tables = settled::fold(writer.db, epoch, &extent).expect("a fold");
    let through = entries.iter().filter(|entry| entry.position.offset <= extent.head);
    let zero = |fold: Fold| shown(&fold).replace(&format!("epoch: {epoch}"), "epoch: 0");
    assert_eq!(zero(of_tables), zero(folded(through)), "what is settled of {name}");
    assert_eq!(zero(writer.know(&name).expect("a topic").fold.clone()), zero(folded(entries)), "all of {name}");
    let number = extent.topic.expect("it has entries");
    let mut found = settled::after(writer.db, epoch, number, (0, extent.head), usize::MAX, usize::MAX).expect("rows");
    found.extend(writer.source.fresh().of(&name).iter().flat_map(|recent| recent.entries().to_vec()));
    assert_eq!(found, entries, "what can be read of {name}");
}

fn agree(steps: Vec<Step>) {
    let directory = directory();
    let path = directory.0.join(super::super::DATABASE);
    let db = schema::open_writer(&path, Durability::Full).expect("a new log");
    let mut writing = writer(&db, None);
    let mut pass = None;
    let mut entries: [Vec<Arc<Entry>>; NAMES.len()] = Default::default();
    for (serial, step) in steps.into_iter().enumerate() {
        let envelope = match step {
            Step::Say(at) => Some((at, line(&format!("e{serial}"), "alice", "hello"))),
            Step::Join(at, who) => Some((at, presence(&format!("e{serial}"), "join", &format!("p{who}")))),
            Step::Leave(at, who) => Some((at, presence(&format!("e{serial}"), "leave", &format!("p{who}")))),
            Step::Ask(at, who) => Some((at, request(&format!("ask{serial}"), "alice", &format!("p{who}")))),
            Step::Answer(at, back, who) => {
                let asked = entries[at].iter().rev().map(|entry| entry.envelope.id());
                let asked = asked.filter(|id| id.as_str().starts_with("ask")).nth(back);
                asked.map(|id| (at, response(&format!("e{serial}"), &format!("p{who}"), id.as_str())))
            }
            Step::Settle(count) => {
                let mut running = pass.take().unwrap_or_else(|| writing.begin_settling(None));
                let slice = Slice { entries: count, bytes: usize::MAX };
                if !writing.continue_settling(&mut running, slice).expect("a slice") {
                    pass = Some(running);
                }
                None
            }
            Step::Crash => {
                drop(writing);
                pass = None;
                writing = writer(&db, None);
                None
            }
        };
        if let Some((at, envelope)) = envelope {
            entries[at].extend(store(&mut writing, NAMES[at], envelope));
        }
        for (name, entries) in NAMES.iter().zip(&entries) {
            compare(&mut writing, name, entries);
        }
    }
    let total = entries.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(copy::summarize(&path).expect("a log").entries, total, "nothing is counted twice");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_writer_that_ends_between_two_slices_loses_and_repeats_nothing(steps in prop::collection::vec(step(), 1..100)) {
        agree(steps);
    }
}

#[test]
fn a_slice_is_bounded_and_grows_with_what_is_appended() {
    let entries: Vec<_> = (0..10).map(|number| entry(number, 1000)).collect();
    let mut slice = Slice { entries: 4, bytes: usize::MAX };
    assert_eq!((slice.take(&entries), slice.is_spent()), (4, true));
    let mut slice = Slice { entries: 100, bytes: 1500 };
    assert_eq!((slice.take(&entries), slice.is_spent()), (2, true), "as many as it takes to reach the bytes");
    let mut slice = Slice { entries: 100, bytes: 1 };
    assert_eq!(slice.take(&entries), 1, "one that is larger than a slice");
    let busy = Slice::after(Slice { entries: 1000, bytes: 1 << 20 }, true);
    assert_eq!((busy.entries, busy.bytes), (2000, 2 << 20));
    let ahead = Slice::after(Slice { entries: 1000, bytes: 1 << 20 }, false);
    assert_eq!((ahead.entries, ahead.bytes), (2000, 1 << 20));
    let quiet = Slice::after(Slice { entries: 1, bytes: 300 }, true);
    assert_eq!((quiet.entries, quiet.bytes), (SLICE_ENTRIES, SLICE_BYTES));
}

fn entry(offset: u64, length: usize) -> Arc<Entry> {
    let envelope = line(&format!("e{offset}"), "alice", &"x".repeat(length));
    Arc::new(Entry { position: Position { epoch: 0, offset }, arrived: Timestamp(0), stamp: None, envelope })
}

/// Load that never pauses has one slice of tidying after each commit. Retention must keep up with it.
#[test]
fn a_sweep_keeps_up_with_load_that_never_pauses() {
    for count in [200, 1000] {
        let directory = directory();
        let db = schema::open_writer(&directory.0.join(super::super::DATABASE), Durability::Os).expect("a new log");
        let mut writing = writer(&db, Some(500));
        let mut newest = 0;
        while newest < 40_000 {
            store_lines(&mut writing, "a", newest..newest + count);
            newest += count;
            writing.sweep_soon();
            writing.tidy_a_little();
        }
        let kept = newest - writing.know(&topic("a")).expect("a topic").trimmed;
        assert!(kept < 20_000, "{kept} of {newest} are kept with {count} in each commit");
    }
}

/// The journal has rows of a topic that was settled, trimmed and forgotten since.
#[test]
fn the_journal_may_name_a_topic_that_is_forgotten() {
    let directory = directory();
    let db = schema::open_writer(&directory.0.join(super::super::DATABASE), Durability::Full).expect("a new log");
    let mut writing = writer(&db, Some(0));
    let first = store(&mut writing, "a", line("e1", "alice", "hello")).expect("stored");
    let mut pass = writing.begin_settling(None);
    assert!(!writing.continue_settling(&mut pass, Slice::ALL).expect("a slice"), "the journal is left");
    let mut sweep = Some(super::super::sweep::Sweep::new(Vec::new()));
    while let Some(walk) = sweep {
        sweep = writing.continue_sweep(walk, Slice::SMALL).expect("a slice");
    }
    assert!(settled::name_and_head(&db, 1).expect("a read").is_none(), "nothing is left of the topic");
    drop(writing);
    let mut writing = writer(&db, None);
    let second = store(&mut writing, "b", line("e2", "alice", "hello")).expect("stored");
    assert!(second.position.offset > first.position.offset, "another topic may have its number");
    drop(writing);
    let writing = writer(&db, None);
    let fresh = writing.source.fresh();
    assert_eq!(fresh.of(&topic("b")).map(|recent| recent.entries().to_vec()), Some(vec![second]));
    assert!(fresh.of(&topic("a")).is_none());
}

/// While a backup reads, the write-ahead log cannot be cut off. The scrub tries that again until it can, and nothing fails meanwhile.
#[test]
fn a_scrub_waits_for_readers() {
    use crate::contract::redaction::{SECRET, redaction};
    let directory = directory();
    let path = directory.0.join(super::super::DATABASE);
    let db = schema::open_writer(&path, Durability::Full).expect("a new log");
    let mut writing = writer(&db, None);
    let secret = format!("{SECRET} {}", "x".repeat(100_000));
    let entry = store(&mut writing, "a", line("e1", "alice", &secret)).expect("stored");
    writing.settle().expect("settled");
    store(&mut writing, "a", redaction("n1", &[&entry])).expect("stored");
    let reader = Connection::open(&path).expect("a reader");
    reader.execute_batch("BEGIN; SELECT count(*) FROM topics").expect("a read transaction");
    let mut scrub = writing.take_scrub().expect("begun");
    for _ in 0..50 {
        scrub = writing.continue_scrub(scrub.expect("a reader keeps it from ending")).expect("a slice");
    }
    drop(reader);
    while let Some(left) = scrub {
        scrub = writing.continue_scrub(left).expect("a slice");
    }
    for name in ["log.db", "log.db-wal"] {
        let file = std::fs::read(directory.0.join(name)).unwrap_or_default();
        assert!(!file.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()), "{name} has the text");
    }
}
