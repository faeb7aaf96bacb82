//! What a cursor yields when log and ring are not in step. Everything else about rooms is told as scenes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use salon_log::sqlite::{Options, Sqlite};
use salon_log::{
    AppendError, Appended, Claim, Durability, Found, Health, Lapses, Lease, ReadError, Retention, RetentionRules, Span,
    Standing, Tail, TopicLog, TopicSummary,
};
use salon_protocol::{Draft, Entry, Envelope, EnvelopeId, Limits, ParticipantId, Position, Stamp, TopicName};
use tokio::sync::{Semaphore, watch};

use crate::{Cursor, Happening, Interest, Rate, Rooms, Settings, Timings};

/// A real log whose tails come late: each batch waits for a permit.
struct Late {
    log: Sqlite,
    permits: Arc<Semaphore>,
}

impl TopicLog for Late {
    fn append_stamped(
        &self,
        topic: &TopicName,
        envelope: Envelope,
        stamp: Option<Stamp>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        self.log.append_stamped(topic, envelope, stamp)
    }
    fn read(
        &self,
        topic: &TopicName,
        span: Span,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>> {
        self.log.read(topic, span, limit)
    }
    fn tail(&self, topic: &TopicName, after: Position) -> Tail {
        let permits = self.permits.clone();
        let late = self.log.tail(topic, after).then(move |tailed| {
            let permits = permits.clone();
            async move {
                permits.acquire().await.expect("never closed").forget();
                tailed
            }
        });
        Box::pin(late)
    }
    fn find(&self, topic: &TopicName, id: &EnvelopeId) -> BoxFuture<'static, Result<Option<Found>, ReadError>> {
        self.log.find(topic, id)
    }
    fn standing(&self, topic: &TopicName) -> BoxFuture<'static, Result<Standing, ReadError>> {
        self.log.standing(topic)
    }
    fn claim(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        claim: Claim,
        lost: Box<dyn FnOnce() + Send + Sync>,
    ) -> BoxFuture<'static, Result<Lease, ReadError>> {
        self.log.claim(topic, participant, claim, lost)
    }
    fn roster(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<ParticipantId>, ReadError>> {
        self.log.roster(topic)
    }
    fn is_elsewhere(&self, topic: &TopicName, participant: &ParticipantId) -> bool {
        self.log.is_elsewhere(topic, participant)
    }
    fn lapses(&self) -> Lapses {
        self.log.lapses()
    }
    fn gone(&self) -> Option<watch::Receiver<u64>> {
        self.log.gone()
    }
    fn topics(&self) -> BoxFuture<'static, Result<Vec<TopicSummary>, ReadError>> {
        self.log.topics()
    }
    fn health(&self) -> watch::Receiver<Health> {
        self.log.health()
    }
    fn durability(&self) -> Durability {
        self.log.durability()
    }
    fn close(&self) -> BoxFuture<'static, ()> {
        self.log.close()
    }
}

fn chat(id: &str) -> Envelope {
    let text = format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/x"}}}}"#
    );
    Draft::parse(text, &Limits::default()).expect("an envelope").trust()
}

fn settings() -> Settings {
    Settings {
        ring: 1 << 20,
        rings: 1 << 20,
        rate: Rate::default(),
        participants: 0,
        grace: Duration::from_secs(45),
        leaves: [7; 16],
        witness: None,
        timings: Timings::default(),
    }
}

/// A room whose ring begins after `e2` and has not heard of `e3` and `e4`, which are in the log.
struct Behind {
    rooms: Rooms,
    log: Arc<dyn TopicLog>,
    topic: TopicName,
    permits: Arc<Semaphore>,
    _first: Cursor,
}

impl Behind {
    async fn new() -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let log = Sqlite::temporary(Options::default()).expect("a log");
        let log: Arc<dyn TopicLog> = Arc::new(Late { log, permits: permits.clone() });
        let rooms = Rooms::new(log.clone(), settings(), Box::new(|_| Box::pin(std::future::pending())));
        let topic = TopicName::new("room:late").expect("a name");
        for id in ["e1", "e2"] {
            log.append(&topic, chat(id)).await.expect("stored");
        }
        let first = rooms.observe(&topic, None, Interest::default()).await.expect("a cursor");
        for id in ["e3", "e4"] {
            log.append(&topic, chat(id)).await.expect("stored");
        }
        Self { rooms, log, topic, permits, _first: first }
    }

    async fn resume_after(&self, id: &str) -> Cursor {
        let id = EnvelopeId::new(id).expect("an id");
        self.rooms.observe(&self.topic, Some(&id), Interest::default()).await.expect("a cursor")
    }

    /// Lets the room hear of everything, and of `e5`; gives all that a cursor yields until then.
    async fn catch_up(self, mut cursor: Cursor, mut told: Vec<Happening>) -> Vec<String> {
        self.permits.add_permits(100);
        self.log.append(&self.topic, chat("e5")).await.expect("stored");
        let ids = |told: &[Happening]| -> Vec<String> {
            told.iter().flat_map(Happening::entries).map(|entry| entry.envelope.id().to_string()).collect()
        };
        while ids(&told).last().map(String::as_str) != Some("e5") {
            cursor.next(&mut told, 1 << 20).await.expect("more");
        }
        drop(cursor);
        self.rooms.close().await;
        self.log.close().await;
        ids(&told)
    }
}

/// A page of the log can be ahead of what the room has heard. Those entries come again by the ring, and must not be told twice.
#[tokio::test]
async fn a_page_ahead_of_the_ring_is_not_told_twice() {
    let behind = Behind::new().await;
    let mut cursor = behind.resume_after("e1").await;
    let mut told = Vec::new();
    cursor.next(&mut told, 1 << 20).await.expect("a page");
    assert_eq!(behind.catch_up(cursor, told).await, ["e2", "e3", "e4", "e5"]);
}

/// Somebody can resume after an envelope that the room has not heard of yet: it was published a moment ago.
#[tokio::test]
async fn resuming_ahead_of_the_ring_tells_only_what_follows() {
    let behind = Behind::new().await;
    let cursor = behind.resume_after("e3").await;
    assert_eq!(behind.catch_up(cursor, Vec::new()).await, ["e4", "e5"]);
}

/// Retention does not wait for a reader that resumed far behind: it is told of the gap, once, and goes on with what is kept.
#[tokio::test]
async fn a_reader_that_retention_overtakes_is_told_of_the_gap() {
    // More than the pages a cursor may have read or asked for when the log is trimmed.
    const ENTRIES: usize = 600;
    let kept = RetentionRules { default: Retention { age: None, count: Some(3) }, ..RetentionRules::default() };
    let log = Sqlite::temporary(Options { retention: kept, ..Options::default() }).expect("a log");
    let log = Arc::new(log);
    let topic = TopicName::new("room:short").expect("a name");
    for number in 1..=ENTRIES {
        log.append(&topic, chat(&format!("e{number}"))).await.expect("stored");
    }
    let rooms = Rooms::new(log.clone(), settings(), Box::new(|_| Box::pin(std::future::pending())));
    let first = EnvelopeId::new("e1").expect("an id");
    let mut cursor = rooms.observe(&topic, Some(&first), Interest::default()).await.expect("a cursor");
    let mut told = Vec::new();
    cursor.next(&mut told, 1).await.expect("a page");
    log.trim_now().await;
    let last = format!("e{ENTRIES}");
    let is_last = |happening: &Happening| happening.entries().iter().any(|entry| entry.envelope.id().as_str() == last);
    while !told.iter().any(is_last) {
        cursor.next(&mut told, 1 << 20).await.expect("more");
    }
    let gap = told.iter().position(|happening| matches!(happening, Happening::Gap)).expect("a gap");
    let ids = |told: &[Happening]| -> Vec<String> {
        told.iter().flat_map(Happening::entries).map(|entry| entry.envelope.id().to_string()).collect()
    };
    let before: Vec<_> = (2..2 + gap).map(|number| format!("e{number}")).collect();
    assert_eq!(ids(&told[..gap]), before, "everything up to the gap");
    assert_eq!(ids(&told[gap + 1..]), ["e598", "e599", "e600"], "what is kept, after one gap");
    assert_eq!(told.len(), gap + 4);
    drop(cursor);
    rooms.close().await;
    log.close().await;
}
