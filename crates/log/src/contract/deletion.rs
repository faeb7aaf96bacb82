//! Promise 11: a deleted topic is erased, and its name can be used again.

use futures_util::StreamExt;
use salon_protocol::{Envelope, ParticipantId, Position, TopicName};

use super::{LogEngine, append, append_lines, envelope, follow, id, ids, line, presence, request, start, topic};
use crate::context::{Address, ContextScope, Key, Write, WriteError};
use crate::{AppendError, ContextStore, ReadError, RetentionRules, Span, Tailed, TopicLog};

/// The notice that deletes a topic.
pub(crate) fn deletion(id: &str) -> Envelope {
    let payload = r#"{"jsonrpc":"2.0","method":"notifications/topic/deleted","params":{"by":"alice"}}"#;
    envelope(id, "system:gateway", &format!(r#""kind":"mcp","payload":{payload}"#))
}

pub(super) async fn erases(engine: &impl LogEngine) {
    let (mut log, room, other) = (engine.create(RetentionRules::default()).await, topic("room"), topic("other"));
    let begin = start(&log, &room).await;
    append(&log, &room, presence("j1", "join", "alice")).await;
    append(&log, &room, request("r1", "bob", "alice")).await;
    let old = append_lines(&log, &room, 0..10).await;
    engine.trim(&log).await;
    append(&log, &room, line("newer", "alice", "hello")).await;
    append_lines(&log, &other, 0..3).await;
    let mut tail = log.tail(&room, old[9].position);
    assert_eq!(ids(&follow(&mut tail, 1).await), ["newer"]);

    let deleted = log.delete(&room, deletion("d1")).await.expect("the topic is deleted").entry;
    match tail.next().await {
        Some(Ok(Tailed::Entries(entries))) => assert_eq!(ids(&entries), ["d1"], "11: a tail does not get the notice"),
        Some(Ok(Tailed::Gap { .. })) => {}
        other => panic!("11: a tail of a deleted topic yielded {other:?}"),
    }
    drop(tail);
    for step in ["at once", "after a sweep", "after a restart"] {
        match step {
            "after a sweep" => engine.trim(&log).await,
            "after a restart" => log = engine.restart(log).await,
            _ => {}
        }
        let standing = log.standing(&room).await.expect("a standing");
        assert!(standing.present.is_empty() && standing.waiting.is_empty(), "11: somebody is still present, {step}");
        for name in ["j1", "e0", "newer", "d1"] {
            assert_eq!(log.find(&room, &id(name)).await, Ok(None), "11: `{name}` is still found, {step}");
        }
        assert_eq!(log.read(&room, Span::Newest, 100).await, Ok(vec![]), "11: entries are still read, {step}");
        for position in [begin, old[3].position, deleted.position] {
            let read = log.read(&room, Span::After(position), 100).await;
            assert!(!matches!(&read, Ok(entries) if !entries.is_empty()), "11: {position} leads to entries, {step}");
        }
        let listed = log.topics().await.expect("a list of topics");
        assert_eq!(listed.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["other"], "11: {step}");
    }

    let join = append(&log, &room, presence("j1", "join", "carol")).await;
    assert_eq!(deleted.position.in_order(join.position), Some(true), "11: positions of the new topic are not later");
    let hello = append(&log, &room, line("e0", "carol", "hello")).await;
    assert_eq!(ids(&log.read(&room, Span::Newest, 100).await.expect("a read")), ["j1", "e0"], "11: the new topic");
    assert_eq!(log.find(&room, &id("e0")).await.expect("a search"), Some(hello));
    let resumed = log.read(&room, Span::After(old[9].position), 100).await;
    assert!(matches!(resumed, Err(ReadError::Gap { .. })), "11: an old position leads into the new topic: {resumed:?}");
    assert_eq!(log.read(&other, Span::Newest, 100).await.expect("a read").len(), 3, "11: another topic lost entries");
}

/// What is under way when a topic is deleted does not begin it anew.
pub(super) async fn leaves_nothing_over(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    append(&log, &room, presence("j1", "join", "alice")).await;
    let (delete, late) =
        (log.delete(&room, deletion("d1")), log.append(&room, line("late", "alice", "a secret of members")));
    delete.await.expect("the topic is deleted");
    // Stored before, or refused: it is in no case part of the next topic.
    let late = late.await.map(|appended| appended.entry.position);
    assert!(!matches!(&late, Err(error) if *error != AppendError::Stale), "11: what came too late: {late:?}");
    append(&log, &room, presence("j2", "join", "mallory")).await;
    append(&log, &room, line("new", "mallory", "hello")).await;
    assert_eq!(ids(&log.read(&room, Span::Newest, 100).await.expect("a read")), ["j2", "new"]);
    assert_eq!(log.find(&room, &id("late")).await, Ok(None));
    let standing = log.standing(&room).await.expect("a standing");
    assert_eq!(ids(&standing.present), ["j2"]);
}

fn address(room: &TopicName) -> Address {
    Address { topic: room.clone(), scope: ContextScope::Topic, key: Key::new("plan").expect("a key") }
}

/// Writes what was requested at a position.
async fn put(log: &impl ContextStore, room: &TopicName, value: &str, requested: Position) -> Result<u64, WriteError> {
    let (author, cause) = (ParticipantId::new("alice").expect("an id"), format!("{value} {requested}").into());
    let write = Write { value: Some(value.into()), expected: None, author, cause, requested: Some(requested) };
    log.write(address(room), write).await.map(|written| written.version)
}

/// Nothing of a deleted topic's context is read under its name: not where the deletion ended in the middle, as after a crash, nor what was
/// requested before it and is written later.
pub(super) async fn erases_context(engine: &impl LogEngine) {
    let log = engine.create(RetentionRules::default()).await;
    for name in ["deleted", "interrupted", "without"] {
        let room = topic(name);
        append(&log, &room, presence("j1", "join", "alice")).await;
        let asked = append(&log, &room, line("r1", "alice", "put it there")).await.position;
        let before = match name {
            "without" => 0,
            _ => put(&log, &room, "old", asked).await.expect("written"),
        };
        match name {
            // The notice is all that a crash may have left of the deletion.
            "interrupted" => drop(append(&log, &room, deletion("d1")).await),
            _ => drop(log.delete(&room, deletion("d1")).await.expect("deleted")),
        }
        assert_eq!(put(&log, &room, "late", asked).await, Err(WriteError::Deleted), "11: in `{name}`");
        // What opens a room, before anybody enters.
        log.standing(&room).await.expect("a standing");
        append(&log, &room, presence("j2", "join", "carol")).await;
        assert_eq!(put(&log, &room, "later", asked).await, Err(WriteError::Deleted), "11: in `{name}`");
        assert_eq!(log.get(&address(&room), None).await, Ok(None), "11: the context of `{name}` is still read");
        assert_eq!(log.history(&address(&room), None, 10).await, Ok(vec![]), "11: in `{name}`");
        assert_eq!(log.list(&room, &ContextScope::Topic, None, 10).await, Ok(vec![]), "11: in `{name}`");
        let asked = append(&log, &room, line("r2", "carol", "put it there")).await.position;
        let after = put(&log, &room, "new", asked).await.expect("written");
        assert!(after > before, "11: version {after} of `{name}` was given before");
        engine.trim(&log).await;
        let kept = log.get(&address(&room), None).await.expect("a read").and_then(|version| version.value);
        assert_eq!(kept.as_deref(), Some("new"), "11: a sweep removed what is the new topic's, in `{name}`");
    }
}
