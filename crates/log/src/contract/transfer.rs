//! Copying topics between two logs ([`crate::transfer`]), of whichever engines.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use salon_control::{SETTINGS_METHOD, SettingsChange, TopicRetention, TopicSettings};
use salon_protocol::{Entry, Envelope, Kind, ParticipantId, Position, Stamp, Timestamp, TopicName};

use super::checks::{all, within};
use super::redaction::{SECRET, redaction};
use super::{LogEngine, append, append_lines, envelope, ids, line, presence, request, response, start, topic};
use crate::transfer::{TopicImport, TransferError, TransferLog, TransferTotals, copy_topics};
use crate::{AppendError, CallClosure, ReadError, Retention, RetentionRules, Span, TopicLog};

/// Runs the whole suite for a source of one engine and a copy of another; panics at the first broken promise.
pub async fn run<F: LogEngine, T: LogEngine>(from: &F, to: &T)
where
    T::Log: TransferLog,
{
    all([
        within("a copy has what its source has", a_copy_is_its_source(from, to)).boxed_local(),
        within("a copy is continued", a_copy_is_continued(from, to)).boxed_local(),
        within("what has changed since is not copied over", changes_are_refused(from, to)).boxed_local(),
        within("copied entries age by when they arrived", copies_keep_their_age(to)).boxed_local(),
        within("8: the age in a topic's settings counts", a_topics_own_age_counts(to)).boxed_local(),
    ])
    .await;
}

/// The notice of a topic's settings.
fn settings(id: &str, version: u64) -> Envelope {
    retaining(id, version, TopicRetention::default())
}

/// The same with a retention of the topic's own.
fn retaining(id: &str, version: u64, retention: TopicRetention) -> Envelope {
    let by = ParticipantId::new("alice").expect("a name");
    let settings = TopicSettings { version, retention, ..TopicSettings::default() };
    let params = serde_json::to_string(&SettingsChange { settings, by, reason: None }).expect("plain JSON");
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"{SETTINGS_METHOD}","params":{params}}}"#);
    envelope(id, "system:gateway", &format!(r#""kind":"mcp","payload":{payload}"#))
}

async fn copy(source: &impl TopicLog, target: &impl TransferLog) -> Result<TransferTotals, TransferError> {
    copy_topics(source, target, |done, total| done <= total).await
}

/// Everything of a topic but joins and leaves, without positions.
async fn all_of(log: &impl TopicLog, room: &TopicName) -> Vec<(Timestamp, Option<Stamp>, String)> {
    let mut at = Position { offset: 0, ..start(log, room).await };
    let mut found = Vec::new();
    loop {
        match log.read(room, Span::After(at), 100).await {
            Ok(page) if page.is_empty() => return found,
            Ok(page) => {
                at = page.last().map_or(at, |last| last.position);
                let said = page.into_iter().filter(|entry| entry.envelope.kind() != Kind::Presence);
                found.extend(said.map(|entry| (entry.arrived, entry.stamp.clone(), entry.envelope.text().to_owned())));
            }
            Err(ReadError::Gap { resume }) => at = resume,
            Err(error) => panic!("a topic could not be read: {error}"),
        }
    }
}

/// The version of a topic's settings.
async fn version_of(log: &impl TopicLog, room: &TopicName) -> Option<u64> {
    let standing = log.standing(room).await.expect("a standing");
    crate::Fold::restore(&standing).settings().map(|settings| settings.version)
}

async fn a_copy_is_its_source<F: LogEngine, T: LogEngine>(from: &F, to: &T)
where
    T::Log: TransferLog,
{
    let (room, ruled, quiet) = (topic("room"), topic("ruled"), topic("quiet"));
    let kept = Retention { age: None, count: Some(3) };
    let rules = RetentionRules { topics: HashMap::from([(ruled.clone(), kept)]), ..RetentionRules::default() };
    let source = from.create(rules).await;
    append(&source, &quiet, presence("j0", "join", "alice")).await;
    // The notice of its settings is removed before it is copied.
    append(&source, &ruled, settings("s1", 1)).await;
    append_lines(&source, &ruled, 0..6).await;
    for (number, who) in ["alice", "bob"].into_iter().enumerate() {
        append(&source, &room, presence(&format!("j{number}"), "join", who)).await;
    }
    append(&source, &room, settings("s1", 1)).await;
    let stamp = Stamp::new(Some("t1"), &["drive".into()], None);
    source.append_stamped(&room, line("stamped", "alice", "hello"), stamp).await.expect("stored");
    let secret = append(&source, &room, line("secret", "alice", SECRET)).await;
    append(&source, &room, redaction("n1", &[&secret])).await;
    append(&source, &room, request("r1", "alice", "bob")).await;
    append(&source, &room, response("a1", "bob", "r1")).await;
    append(&source, &room, request("r2", "alice", "bob")).await;
    append(&source, &room, presence("l1", "leave", "bob")).await;
    append(&source, &room, settings("s2", 2)).await;
    let last = append_lines(&source, &room, 0..3).await.pop().expect("an entry");
    from.trim(&source).await;

    let mut target = to.create(RetentionRules::default()).await;
    let copied = copy(&source, &target).await.expect("copied");
    assert_eq!(copied, TransferTotals { topics: 2, entries: 14, copied: 14 });
    for step in ["at once", "after a sweep", "after a restart"] {
        match step {
            "after a sweep" => to.trim(&target).await,
            "after a restart" => target = to.restart(target).await,
            _ => {}
        }
        for name in [&room, &ruled] {
            assert_eq!(all_of(&target, name).await, all_of(&source, name).await, "{name} {step}");
        }
        let standing = target.standing(&room).await.expect("a standing");
        let (present, waiting, failed) = (standing.present.len(), standing.waiting.len(), standing.failed.len());
        assert_eq!((present, waiting, failed), (0, 0, 0), "presence was copied, or calls, {step}");
        assert_eq!((version_of(&target, &room).await, version_of(&target, &ruled).await), (Some(2), Some(1)), "{step}");
        let mut listed = target.topics().await.expect("a list");
        listed.retain(|topic| topic.name == room);
        assert_eq!(listed[0].newest, Some(last.arrived), "{step}");
        // By the times of the source, though all of it was stored later.
        let before = target.read(&room, Span::BeforeTime(Timestamp(last.arrived.0 + 1)), 100).await.expect("a page");
        assert_eq!(before.len(), 11, "{step}");
        let none = target.read(&room, Span::BeforeTime(before[0].arrived), 100).await.expect("a page");
        assert_eq!(ids(&none), [""; 0], "{step}");
        for entry in &before {
            let found = target.find(&room, entry.envelope.id()).await.expect("a lookup");
            assert_eq!(found.as_ref(), Some(entry), "{step}");
            assert!(!entry.envelope.text().contains(SECRET), "{step}");
        }
    }

    // The copy is a topic like others.
    let again = target.append(&room, line("e0", "alice", "hello")).await.expect("the same again");
    assert!(again.repeated);
    let other = target.append(&room, line("e0", "alice", "other")).await.map(|appended| appended.entry);
    assert_eq!(other, Err(AppendError::IdConflict));
    let late = target.append(&room, response("a2", "bob", "r2")).await.map(|appended| appended.entry);
    assert_eq!(late, Err(AppendError::CallEnded(CallClosure::Answered)), "a call of the source waits in the copy");
    let stale = target.append(&room, settings("s3", 2)).await.map(|appended| appended.entry);
    assert_eq!(stale, Err(AppendError::Stale));
    append(&target, &room, settings("s4", 3)).await;
    append(&target, &room, presence("j9", "join", "bob")).await;
    append(&target, &room, request("r3", "alice", "bob")).await;
    append(&target, &room, response("a3", "bob", "r3")).await;
    let said = target.find(&room, &super::id("stamped")).await.expect("a lookup").expect("found");
    append(&target, &room, redaction("n2", &[&said])).await;
    let found = target.find(&room, said.envelope.id()).await.expect("a lookup").expect("a tombstone");
    assert!(found.envelope.is_redacted());
    assert_eq!((found.position, found.arrived), (said.position, said.arrived));
    // It has a life of its own now.
    let refused = copy(&source, &target).await;
    assert!(matches!(refused, Err(TransferError::Differs { .. })), "{refused:?}");
}

async fn a_copy_is_continued<F: LogEngine, T: LogEngine>(from: &F, to: &T)
where
    T::Log: TransferLog,
{
    let room = topic("room");
    let rules = RetentionRules { default: Retention { age: None, count: Some(500) }, topics: HashMap::new() };
    let (source, target) = (from.create(rules).await, to.create(RetentionRules::default()).await);
    append_lines(&source, &room, 0..400).await;
    let cancelled = copy_topics(&source, &target, |_, _| false).await;
    assert!(matches!(cancelled, Err(TransferError::Cancelled)), "{cancelled:?}");
    let begun = all_of(&target, &room).await.len();
    assert!((1..400).contains(&begun), "{begun} entries were copied before it was cancelled");
    let copied = copy(&source, &target).await.expect("continued");
    assert_eq!(copied, TransferTotals { topics: 1, entries: 400, copied: 400 - begun as u64 });
    // The source goes on, and loses its oldest entries.
    append_lines(&source, &room, 400..600).await;
    from.trim(&source).await;
    let copied = copy(&source, &target).await.expect("continued");
    assert_eq!(copied, TransferTotals { topics: 1, entries: 500, copied: 200 });
    assert_eq!(all_of(&target, &room).await[100..], all_of(&source, &room).await);
    let copied = copy(&source, &target).await.expect("there is nothing to do");
    assert_eq!(copied, TransferTotals { topics: 1, entries: 500, copied: 0 });
}

async fn changes_are_refused<F: LogEngine, T: LogEngine>(from: &F, to: &T)
where
    T::Log: TransferLog,
{
    let room = topic("room");
    let (source, target) = (from.create(RetentionRules::default()).await, to.create(RetentionRules::default()).await);
    append(&source, &room, line("first", "alice", "hello")).await;
    let said = append(&source, &room, line("e0", "alice", SECRET)).await;
    copy(&source, &target).await.expect("copied");
    append(&source, &room, redaction("n1", &[&said])).await;
    let refused = copy(&source, &target).await;
    assert!(matches!(&refused, Err(TransferError::Differs { id, .. }) if id.as_str() == "e0"), "{refused:?}");
    let used = to.create(RetentionRules::default()).await;
    append(&used, &room, line("other", "alice", "hello")).await;
    let refused = copy(&source, &used).await;
    assert!(matches!(refused, Err(TransferError::Foreign { .. })), "{refused:?}");
    assert_eq!(all_of(&used, &room).await.len(), 1, "a topic that is no copy was written to");
}

/// Three entries of long ago and two of now: copies say when they arrived, so that no clock has to be set.
fn old_and_new() -> TopicImport {
    let now = Timestamp::from_system(SystemTime::now());
    let entry = |(id, arrived): (&str, Timestamp)| {
        let position = Position { epoch: 0, offset: 1 };
        Arc::new(Entry { position, arrived, stamp: None, envelope: line(id, "alice", "hello") })
    };
    let old = [("e0", Timestamp(1000)), ("e1", Timestamp(2000)), ("e2", Timestamp(2000))];
    TopicImport::Entries(old.into_iter().chain([("e3", now), ("e4", now)]).map(entry).collect())
}

async fn copies_keep_their_age<T: LogEngine>(to: &T)
where
    T::Log: TransferLog,
{
    let room = topic("room");
    let rules = Retention { age: Some(Duration::from_secs(24 * 3600)), count: None };
    let log = to.create(RetentionRules { default: rules, topics: HashMap::new() }).await;
    log.import(&room, old_and_new()).await.expect("imported");
    to.trim(&log).await;
    let kept = log.read(&room, Span::Newest, 100).await.expect("a page");
    assert_eq!(ids(&kept), ["e3", "e4"]);
    let second = Position { offset: kept[0].position.offset - 2, ..kept[0].position };
    let gap = log.read(&room, Span::After(second), 100).await;
    assert!(matches!(gap, Err(ReadError::Gap { .. })), "{gap:?}");
    append(&log, &room, line("e5", "alice", "hello")).await;
    to.trim(&log).await;
    assert_eq!(ids(&log.read(&room, Span::Newest, 100).await.expect("a page")), ["e3", "e4", "e5"]);
}

/// For this topic alone, where it is less than the gateway's, and beyond it where an operator says so.
async fn a_topics_own_age_counts<T: LogEngine>(to: &T)
where
    T::Log: TransferLog,
{
    let (short, long, plain) = (topic("short"), topic("long"), topic("plain"));
    let day = Duration::from_secs(24 * 3600);
    let topics = HashMap::from([(long.clone(), Retention { age: Some(day), count: None })]);
    let default = Retention { age: None, count: None };
    let log = to.create(RetentionRules { default, topics }).await;
    // A log trims soon after it is opened: not between the import and the settings.
    to.trim(&log).await;
    let ages = [(&short, 24 * 3600 * 1000, false), (&long, u64::MAX >> 12, true)];
    for room in [&short, &long, &plain] {
        log.import(room, old_and_new()).await.expect("imported");
    }
    for (room, max_age_ms, beyond_gateway) in ages {
        let own = TopicRetention { max_age_ms: Some(max_age_ms), max_entries: None, beyond_gateway };
        append(&log, room, retaining("t1", 1, own)).await;
    }
    append(&log, &short, line("e5", "alice", "hello")).await;
    to.trim(&log).await;
    let kept = async |log: &T::Log, room: &TopicName| ids(&log.read(room, Span::Newest, 100).await.expect("a page"));
    assert_eq!(kept(&log, &short).await, ["e3", "e4", "t1", "e5"], "8: the topic's own age does not count");
    assert_eq!(
        kept(&log, &long).await,
        ["e0", "e1", "e2", "e3", "e4", "t1"],
        "8: it does not count beyond the gateway's"
    );
    assert_eq!(kept(&log, &plain).await.len(), 5, "8: it counts for another topic");
    let log = to.restart(log).await;
    assert_eq!(
        (version_of(&log, &short).await, version_of(&log, &long).await),
        (Some(1), Some(1)),
        "8: settings are lost"
    );
    append(&log, &short, line("e6", "alice", "hello")).await;
    to.trim(&log).await;
    assert_eq!(kept(&log, &short).await, ["e3", "e4", "t1", "e5", "e6"], "8: what is young enough is removed");
}
