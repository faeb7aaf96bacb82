//! Who delivers: the room's task, or the thread that has stored a message. In either case everything comes once and in order.

use std::sync::mpsc;

use super::*;
use crate::{Batch, BatchOutlet, OfferOutcome};

/// Takes everything, and tells by which thread it was offered.
struct RecordingOutlet(Mutex<mpsc::Sender<(String, Vec<String>)>>);

impl BatchOutlet for RecordingOutlet {
    fn offer(&self, batch: &Arc<Batch>) -> OfferOutcome {
        let ids = batch.entries().iter().map(|entry| entry.envelope.id().to_string()).collect();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().expect("unpoisoned").send((thread, ids)).expect("the test listens");
        OfferOutcome::Written
    }
}

fn ids(told: &[Happening]) -> Vec<String> {
    told.iter().flat_map(Happening::entries).map(|entry| entry.envelope.id().to_string()).collect()
}

fn sqlite(settings: Settings) -> (Arc<Sqlite>, Rooms) {
    let log = Arc::new(Sqlite::temporary(SqliteOptions::default()).expect("a log"));
    let rooms = Rooms::new(log.clone(), settings, Box::new(|_| Box::pin(std::future::pending())));
    (log, rooms)
}

#[tokio::test]
async fn the_thread_that_stored_a_message_delivers_it() {
    let (log, rooms) = sqlite(settings());
    let mut cursor = rooms.observe(&room(), None, Interest::default(), None).await.expect("a cursor");
    log.append(&room(), chat("e1")).await.expect("stored");
    let mut told = Vec::new();
    soon("e1", cursor.next(&mut told, 1 << 20)).await.expect("more");
    let (sender, received) = mpsc::channel();
    cursor.attach(Arc::new(RecordingOutlet(Mutex::new(sender))));
    assert!(cursor.next(&mut told, 1 << 20).now_or_never().is_none(), "the cursor is up to date");
    // The only thread of the runtime waits here, so the room's task does nothing.
    let append = log.append(&room(), chat("e2"));
    let offered = received.recv_timeout(Duration::from_secs(20)).expect("delivered without the room's task");
    assert_eq!(offered, ("log-writer".to_owned(), vec!["e2".to_owned()]));
    append.await.expect("stored");
    let append = log.append(&room(), chat("e3"));
    assert_eq!(received.recv_timeout(Duration::from_secs(20)).expect("the next one, too").1, ["e3"]);
    append.await.expect("stored");
    drop(cursor);
    rooms.close().await;
    log.close().await;
}

/// Single messages are delivered by the one, bursts by the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_comes_once_and_in_order() {
    let (log, rooms) = sqlite(settings());
    let mut cursor = rooms.observe(&room(), None, Interest::default(), None).await.expect("a cursor");
    let wanted: Vec<_> = (0..1_000).map(|number| format!("e{number}")).collect();
    let appends = async {
        for some in wanted.chunks(20) {
            let (single, burst) = some.split_at(5);
            for id in single {
                log.append(&room(), chat(id)).await.expect("stored");
            }
            let burst = burst.iter().map(|id| log.append(&room(), chat(id)));
            futures_util::future::try_join_all(burst).await.expect("stored");
        }
    };
    let mut told = Vec::new();
    let reads = async {
        while ids(&told).last() != wanted.last() {
            soon("more", cursor.next(&mut told, 1 << 20)).await.expect("more");
        }
    };
    tokio::join!(appends, reads);
    assert_eq!(ids(&told), wanted);
    drop(cursor);
    rooms.close().await;
    log.close().await;
}

/// A join waits for others to be told with it. A message does not.
#[tokio::test]
async fn a_message_does_not_wait_for_more_joins() {
    let timings = Timings { presence_delay: Duration::from_secs(3600), ..Timings::default() };
    let (log, rooms) = sqlite(Settings { timings, ..settings() });
    let topic = room();
    let joins = rooms.enter(&topic, admission("bob", None));
    let publishes = async {
        while log.read(&topic, Span::Newest, 1).await.expect("readable").is_empty() {
            tokio::task::yield_now().await;
        }
        log.append(&topic, chat("e1")).await.expect("stored");
    };
    let (arrival, ()) =
        soon("the join, told together with the message", async { tokio::join!(joins, publishes) }).await;
    drop(arrival.expect("a seat"));
    log.append(&topic, chat("e2")).await.expect("stored");
    rooms.dismiss();
    drop((rooms, log));
}
