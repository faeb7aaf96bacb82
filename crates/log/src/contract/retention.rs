//! Promise 8: what retention removes, and what it leaves.

use super::*;

fn status(id: &str, who: &str, word: &str) -> Envelope {
    let participant = format!(r#"{{"id":"{who}","status":{{"status":"{word}"}}}}"#);
    let payload = format!(r#"{{"event":"status","participant":{participant}}}"#);
    envelope(id, "system:gateway", &format!(r#""kind":"presence","payload":{payload}"#))
}

pub(super) async fn keeps_the_present(engine: &impl LogEngine) {
    let (log, room) = (engine.create(keep(2)).await, topic("room"));
    let join = append(&log, &room, presence("j1", "join", "alice")).await;
    append(&log, &room, presence("j2", "join", "bob")).await;
    append(&log, &room, request("r1", "alice", "bob")).await;
    let status = append(&log, &room, status("s1", "bob", "away")).await;
    append_lines(&log, &room, 0..5).await;
    engine.trim(&log).await;
    let standing = log.standing(&room).await.expect("a standing");
    assert_eq!(
        shown(&standing),
        (vec!["j1".into(), "j2".into()], vec![]),
        "8: who is present, and which requests are gone"
    );
    assert_eq!(standing.present[0], join, "8: the join of someone present is no longer what it was");
    assert_eq!(standing.control, [status], "8: what somebody says that it is doing is no longer what it was");
    append(&log, &room, presence("l1", "leave", "alice")).await;
    append_lines(&log, &room, 5..10).await;
    engine.trim(&log).await;
    let log = engine.restart(log).await;
    let standing = log.standing(&room).await.expect("a standing");
    assert_eq!(shown(&standing), (vec!["j2".into()], vec![]), "8: who is present after a leave was removed as well");
    assert_eq!(ids(&standing.control), ["s1"], "8: a status is forgotten by a restart");
    append(&log, &room, presence("l2", "leave", "bob")).await;
    append_lines(&log, &room, 10..15).await;
    engine.trim(&log).await;
    let log = engine.restart(log).await;
    let standing = log.standing(&room).await.expect("a standing");
    assert_eq!(standing.control, [], "8: a status outlasts its participant");
}

/// The settings of a topic say how much of it is kept, and are kept themselves.
pub(super) async fn of_a_topic_counts(engine: &impl LogEngine) {
    let (log, room, other) = (engine.create(RetentionRules::default()).await, topic("room"), topic("other"));
    for topic in [&room, &other] {
        append_lines(&log, topic, 0..5).await;
    }
    let change = r#"{"settings":{"version":1,"access":"token","retention":{"max_entries":2}},"by":"alice"}"#;
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"notifications/topic/settings","params":{change}}}"#);
    let rest = format!(r#""to":[],"kind":"mcp","payload":{payload}"#);
    let settings = append(&log, &room, envelope("t1", "system:gateway", &rest)).await;
    append_lines(&log, &room, 5..10).await;
    engine.trim(&log).await;
    let kept = async |log: &_, topic: &_| {
        let log: &dyn TopicLog = log;
        ids(&log.read(topic, Span::Newest, 100).await.expect("a read"))
    };
    assert_eq!(kept(&log, &room).await, ["e8", "e9"], "8: the topic's own retention does not count");
    assert_eq!(kept(&log, &other).await.len(), 5, "8: it counts for another topic");
    let log = engine.restart(log).await;
    assert_eq!(kept(&log, &room).await, ["e8", "e9"], "8: what was removed is back");
    assert_eq!(log.standing(&room).await.expect("a standing").control, [settings], "8: the settings are removed");
}
