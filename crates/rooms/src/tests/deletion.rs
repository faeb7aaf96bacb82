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
