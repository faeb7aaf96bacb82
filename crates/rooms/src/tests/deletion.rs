//! A deletion is witnessed once, whether the room reads of it or misses it in a gap.

use super::*;

fn deletion() -> Envelope {
    let text = r#"{"protocol":"mcp-x/v0","id":"d1","ts":"2025-08-17T14:00:00Z","from":"system:gateway","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/topic/deleted","params":{"by":"alice"}}}"#;
    Envelope::restore(text).expect("an envelope")
}

#[tokio::test]
async fn a_deletion_is_witnessed_once() {
    for is_missed in [false, true] {
        let (log, seen) = (Faulty::new(), Arc::<Mutex<Vec<String>>>::default());
        if is_missed {
            log.missed.lock().expect("unpoisoned").insert("d1".into());
        }
        let noted = seen.clone();
        let witness: Witness = Box::new(move |_, batch| {
            let ids = batch.entries().iter().map(|entry| entry.envelope.id().to_string());
            noted.lock().expect("unpoisoned").extend(ids);
        });
        // A room that has missed the notice is not waited for.
        let mut timings = Timings::default();
        if is_missed {
            timings.submission_timeout = Duration::from_millis(10);
        }
        let rooms = log.rooms_with(Settings { witness: Some(witness), timings, ..settings() });
        let topic = TopicName::new("room:gone").expect("a name");
        log.append(&topic, chat("e1")).await.expect("stored");
        let cursor = rooms.observe(&topic, None, Interest::default(), None).await.expect("a cursor");
        rooms.delete(&topic, deletion()).await.expect("deleted");
        assert_eq!(*seen.lock().expect("unpoisoned"), ["d1"], "missed: {is_missed}");
        drop(cursor);
        rooms.close().await;
        log.close().await;
    }
}

/// The notice may be witnessed before the room reads it, together with others: those are witnessed when it does.
#[tokio::test]
async fn what_comes_with_a_deletion_is_witnessed() {
    let (log, seen) = (Faulty::new(), Arc::<Mutex<Vec<String>>>::default());
    let noted = seen.clone();
    let witness: Witness = Box::new(move |_, batch| {
        let ids = batch.entries().iter().map(|entry| entry.envelope.id().to_string());
        noted.lock().expect("unpoisoned").extend(ids);
    });
    let rooms = log.rooms_with(Settings { witness: Some(witness), ..settings() });
    let topic = TopicName::new("room:gone").expect("a name");
    log.append(&topic, chat("e1")).await.expect("stored");
    let cursor = rooms.observe(&topic, None, Interest::default(), None).await.expect("a cursor");
    let visit = rooms.visit_open(&topic).expect("an open room");
    visit.room().is_deletion_witnessed.store(true, Ordering::SeqCst);
    let entry = |offset, envelope| {
        let position = Position { epoch: 1, offset };
        Arc::new(Entry { position, arrived: salon_protocol::Timestamp(0), stamp: None, envelope })
    };
    let entries = vec![entry(1000, chat("e2")), entry(1001, deletion())];
    let taken = visit.room().fold_in(entries).expect("entries");
    visit.room().report(&taken);
    assert_eq!(*seen.lock().expect("unpoisoned"), ["e2"]);
    drop((cursor, visit));
    rooms.close().await;
    log.close().await;
}
