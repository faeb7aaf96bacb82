//! Promise 11: what is redacted cannot be read any more.

use std::sync::Arc;

use salon_control::{MessageRedaction, REDACTED_METHOD, RedactedMessage, tombstone_of};
use salon_protocol::{Entry, Envelope, ParticipantId, Redaction, Timestamp, TopicName};

use super::{
    AppendError, LogEngine, RetentionRules, Span, TopicLog, append, append_lines, asked, envelope, follow, id, ids,
    line, presence, response, start, topic,
};

/// What nobody may read any more.
pub(crate) const SECRET: &str = "hunter2-hunter2-hunter2";

/// The notice by which carol redacts entries.
pub(crate) fn redaction(notice: &str, entries: &[&Arc<Entry>]) -> Envelope {
    let by = ParticipantId::new("carol").expect("a name");
    let message = |entry: &&Arc<Entry>| {
        let redaction = Redaction { by: by.clone(), at: Timestamp(0), digest: "sha256:00".into(), reason: None };
        RedactedMessage {
            id: entry.envelope.id().clone(),
            from: entry.envelope.from().clone(),
            offset: entry.position.offset,
            digest: redaction.digest.clone(),
            tombstone: tombstone_of(&entry.envelope, &redaction).expect("a tombstone").text().to_owned(),
        }
    };
    let messages: Vec<_> = entries.iter().map(message).collect();
    let redaction = MessageRedaction { id: messages[0].id.clone(), by: by.clone(), reason: None, messages };
    let params = serde_json::to_string(&redaction).expect("plain JSON");
    let payload = format!(r#"{{"jsonrpc":"2.0","method":"{REDACTED_METHOD}","params":{params}}}"#);
    envelope(notice, "system:gateway", &format!(r#""kind":"mcp","payload":{payload}"#))
}

/// A request to the host that has the secret.
pub(crate) fn secret_request(request: &str) -> Envelope {
    let payload = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{SECRET}"}}}}"#);
    envelope(request, "alice", &format!(r#""to":["system:gateway"],"kind":"mcp","payload":{payload}"#))
}

/// Everything that can be read of a topic, in every way: nothing of it has the secret.
async fn readable(log: &impl TopicLog, room: &TopicName, before: &[&Arc<Entry>]) -> Vec<String> {
    let begin = salon_protocol::Position { offset: before[0].position.offset - 1, ..before[0].position };
    let forward = log.read(room, Span::After(begin), 1000).await.expect("a page from an old position");
    let back = log.read(room, Span::Newest, 1000).await.expect("the newest page");
    let tailed = follow(&mut log.tail(room, begin), forward.len()).await;
    for entries in [&forward, &back, &tailed] {
        for entry in entries.iter() {
            assert!(!entry.envelope.text().contains(SECRET), "{}", entry.envelope.text());
        }
        for entry in before {
            let found = entries.iter().find(|found| found.envelope.id() == entry.envelope.id());
            let found = found.expect("a tombstone in its place");
            assert!(found.envelope.is_redacted());
            let (place, sender) = (found.position, found.envelope.from());
            assert_eq!((place, sender, found.arrived), (entry.position, entry.envelope.from(), entry.arrived));
        }
    }
    for entry in before {
        let found = log.find(room, entry.envelope.id()).await.expect("a lookup").expect("a tombstone");
        assert!(found.envelope.is_redacted() && found.position == entry.position);
        // A page that ends just before it, and one that begins at it.
        let next = log.read(room, Span::After(entry.position), 1).await.expect("a page");
        assert_eq!(next.len(), 1);
        assert!(next[0].position.offset > entry.position.offset);
        let one = log.read(room, Span::Before(next[0].position), 1).await.expect("a page");
        assert_eq!(ids(&one), [entry.envelope.id().to_string()]);
    }
    assert_eq!(ids(&forward), ids(&tailed));
    ids(&forward)
}

pub(super) async fn redacted_is_gone(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let begin = start(&log, &room).await;
    append(&log, &room, presence("j1", "join", "alice")).await;
    let settled = append(&log, &room, line("s1", "alice", SECRET)).await;
    append_lines(&log, &room, 0..3).await;
    // So that some of it is where it is kept for long, and some is not yet.
    engine.trim(&log).await;
    let said = append(&log, &room, line("s2", "alice", SECRET)).await;
    let request = append(&log, &room, secret_request("r1")).await;
    append_lines(&log, &room, 3..5).await;
    let mut tail = log.tail(&room, begin);
    follow(&mut tail, 9).await;

    let targets = [&settled, &said, &request];
    let notice = append(&log, &room, redaction("n1", &targets)).await;
    assert_eq!(ids(&follow(&mut tail, 1).await), ["n1"], "a tail goes on with the notice");
    let all = ["s1", "e0", "e1", "e2", "s2", "r1", "e3", "e4", "n1"];
    assert_eq!(readable(&log, &room, &targets).await, all);
    // The same again is not stored again, nor is anything else under its id.
    assert_eq!(log.append(&room, line("s1", "alice", SECRET)).await.err(), Some(AppendError::IdConflict));
    assert_eq!(log.append(&room, line("s1", "alice", "other")).await.err(), Some(AppendError::IdConflict));
    let again = log.append(&room, redaction("n1", &targets)).await.expect("the same notice again");
    assert!(again.repeated && again.entry.position == notice.position);
    // The first redaction counts.
    append(&log, &room, redaction("n2", &[&settled])).await;

    let log = engine.restart(log).await;
    engine.trim(&log).await;
    let all = ["s1", "e0", "e1", "e2", "s2", "r1", "e3", "e4", "n1", "n2"];
    assert_eq!(readable(&log, &room, &targets).await, all);
    // The call still waits, and can be answered.
    assert_eq!(asked(&log.standing(&room).await.expect("a standing").waiting), ["r1"]);
    append(&log, &room, response("a1", "system:gateway", "r1")).await;
    let log = engine.restart(log).await;
    assert_eq!(log.append(&room, line("s2", "alice", SECRET)).await.err(), Some(AppendError::IdConflict));
    assert_eq!(readable(&log, &room, &targets).await.last().map(String::as_str), Some("a1"));
    assert!(log.find(&room, &id("n1")).await.expect("a lookup").is_some());
    assert!(log.standing(&room).await.expect("a standing").waiting.is_empty());
}
