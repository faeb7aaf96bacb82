//! What rooms do when their log is late, has a gap or fails. Everything else about rooms is told as scenes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use salon_log::sqlite::{Sqlite, SqliteOptions};
use salon_log::{
    AppendError, Appended, Claim, Durability, Lapses, Lease, LogHealth, ReadError, Retention, RetentionRules,
    RosterVersion, Span, Standing, Tail, Tailed, TopicLog, TopicSummary,
};
use salon_protocol::{
    CloseReason, Code, Draft, Entry, Envelope, EnvelopeId, Limits, Participant, ParticipantId, Position, Stamp,
    TopicName,
};
use tokio::sync::{Semaphore, watch};

use crate::{
    Admission, Arrival, BridgeSettings, ByteRates, Cursor, Deliver, Happening, Interest, Rate, Rooms, Seat, Settings,
    Timings, Witness,
};

mod approvals;
mod deletion;
mod ghosts;
mod quotas;
mod repair;
mod turns;

/// A real log that a test can hold up, and have fail.
struct Faulty {
    log: Sqlite,
    /// Each batch of a tail, each append and each search waits for a permit of its own kind.
    tails: Arc<Semaphore>,
    appends: Arc<Semaphore>,
    finds: Arc<Semaphore>,
    /// Whether appends, searches and standings are out of reach.
    is_unreachable: AtomicBool,
    /// Ends every tail with an error.
    broken: watch::Sender<bool>,
    /// Envelopes that tails pass over, as if retention had removed everything up to them.
    missed: Arc<Mutex<HashSet<String>>>,
    /// Whether there may be other nodes.
    is_shared: bool,
    /// How often the roster was read, and its version.
    roster_reads: AtomicUsize,
    roster_version: AtomicU64,
    /// How often the roster changes while it is read.
    changes_during_reads: AtomicU64,
}

const PLENTY: usize = 10_000;

impl Faulty {
    fn new() -> Arc<Self> {
        Arc::new(Self::build(false))
    }

    /// As one of several nodes, of which the others hold nothing.
    fn shared() -> Arc<Self> {
        Arc::new(Self::build(true))
    }

    fn build(is_shared: bool) -> Self {
        Self {
            log: Sqlite::temporary(SqliteOptions::default()).expect("a log"),
            tails: Arc::new(Semaphore::new(PLENTY)),
            appends: Arc::new(Semaphore::new(PLENTY)),
            finds: Arc::new(Semaphore::new(PLENTY)),
            is_unreachable: AtomicBool::new(false),
            broken: watch::Sender::new(false),
            missed: Arc::default(),
            is_shared,
            roster_reads: AtomicUsize::new(0),
            roster_version: AtomicU64::new(0),
            changes_during_reads: AtomicU64::new(0),
        }
    }

    fn rooms(self: &Arc<Self>) -> Rooms {
        self.rooms_with(settings())
    }

    fn rooms_with(self: &Arc<Self>, settings: Settings) -> Rooms {
        Rooms::new(self.clone(), settings, Box::new(|_| Box::pin(std::future::pending())))
    }

    fn outage<T: Send + 'static>(&self, error: T) -> Option<BoxFuture<'static, T>> {
        self.is_unreachable.load(Ordering::SeqCst).then(|| std::future::ready(error).boxed())
    }
}

async fn permit(permits: Arc<Semaphore>) {
    permits.acquire().await.expect("never closed").forget();
}

/// What a tail yields instead when some envelopes are missed: a gap after the last of them.
fn miss(tailed: Tailed, missed: &HashSet<String>) -> Vec<Tailed> {
    let Tailed::Entries(entries) = tailed else { return vec![tailed] };
    let last = entries.iter().rposition(|entry| missed.contains(entry.envelope.id().as_str()));
    let Some(last) = last else { return vec![Tailed::Entries(entries)] };
    let (resume, rest) = (entries[last].position, entries[last + 1..].to_vec());
    let gap = Tailed::Gap { resume };
    if rest.is_empty() { vec![gap] } else { vec![gap, Tailed::Entries(rest)] }
}

impl TopicLog for Faulty {
    fn append_stamped(
        &self,
        topic: &TopicName,
        envelope: Envelope,
        stamp: Option<Stamp>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>> {
        if let Some(refused) = self.outage(Err(AppendError::Unavailable("the test says so".into()))) {
            return refused;
        }
        let (append, permits) = (self.log.append_stamped(topic, envelope, stamp), self.appends.clone());
        Box::pin(async move {
            permit(permits).await;
            append.await
        })
    }
    fn delete(&self, topic: &TopicName, notice: Envelope) -> BoxFuture<'static, Result<Appended, AppendError>> {
        self.log.delete(topic, notice)
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
        let (permits, missed, mut broken) = (self.tails.clone(), self.missed.clone(), self.broken.subscribe());
        let late = self.log.tail(topic, after).then(move |tailed| {
            let permits = permits.clone();
            async move {
                permit(permits).await;
                tailed
            }
        });
        let late = late.flat_map(move |tailed| {
            let missed = missed.lock().expect("unpoisoned");
            let tailed = match tailed {
                Ok(tailed) => miss(tailed, &missed).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(tailed)
        });
        let failure = async move {
            let _ = broken.wait_for(|broken| *broken).await;
            Err(ReadError::Failed("the test says so".into()))
        };
        Box::pin(stream::select(late, stream::once(failure)))
    }
    fn find(&self, topic: &TopicName, id: &EnvelopeId) -> BoxFuture<'static, Result<Option<Arc<Entry>>, ReadError>> {
        if let Some(refused) = self.outage(Err(ReadError::Unavailable("the test says so".into()))) {
            return refused;
        }
        let (find, permits) = (self.log.find(topic, id), self.finds.clone());
        Box::pin(async move {
            permit(permits).await;
            find.await
        })
    }
    fn standing(&self, topic: &TopicName) -> BoxFuture<'static, Result<Standing, ReadError>> {
        let refused = self.outage(Err(ReadError::Unavailable("the test says so".into())));
        refused.unwrap_or_else(|| self.log.standing(topic))
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
        self.roster_reads.fetch_add(1, Ordering::SeqCst);
        let changes = self.changes_during_reads.load(Ordering::SeqCst);
        self.roster_version.fetch_add(changes, Ordering::SeqCst);
        self.log.roster(topic)
    }
    fn roster_version(&self, _: &TopicName) -> Option<RosterVersion> {
        Some(RosterVersion::new(self.roster_version.load(Ordering::SeqCst), 0))
    }
    fn is_elsewhere(&self, topic: &TopicName, participant: &ParticipantId) -> bool {
        self.log.is_elsewhere(topic, participant)
    }
    fn lapses(&self) -> Lapses {
        self.log.lapses()
    }
    fn gone(&self) -> Option<watch::Receiver<u64>> {
        self.is_shared.then(|| watch::Sender::new(0).subscribe())
    }
    fn topics(&self) -> BoxFuture<'static, Result<Vec<TopicSummary>, ReadError>> {
        self.log.topics()
    }
    fn health(&self) -> watch::Receiver<LogHealth> {
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
        byte_rates: ByteRates::UNLIMITED,
        bridges: BridgeSettings::default(),
        participants: 0,
        rooms: 0,
        rooms_each: 0,
        grace: Duration::from_secs(45),
        leaves: [7; 16],
        witness: None,
        timings: Timings::default(),
    }
}

/// A room whose ring begins after `e2` and has not heard of `e3` and `e4`, which are in the log.
struct Behind {
    rooms: Rooms,
    log: Arc<Faulty>,
    topic: TopicName,
    _first: Cursor,
}

impl Behind {
    async fn new() -> Self {
        let log = Faulty::new();
        log.tails.forget_permits(PLENTY);
        let rooms = log.rooms();
        let topic = TopicName::new("room:late").expect("a name");
        for id in ["e1", "e2"] {
            log.append(&topic, chat(id)).await.expect("stored");
        }
        let first = rooms.observe(&topic, None, Interest::default(), None).await.expect("a cursor");
        for id in ["e3", "e4"] {
            log.append(&topic, chat(id)).await.expect("stored");
        }
        Self { rooms, log, topic, _first: first }
    }

    async fn resume_after(&self, id: &str) -> Cursor {
        let id = EnvelopeId::new(id).expect("an id");
        self.rooms.observe(&self.topic, Some(&id), Interest::default(), None).await.expect("a cursor")
    }

    /// Lets the room hear of everything, and of `e5`; gives all that a cursor yields until then.
    async fn catch_up(self, mut cursor: Cursor, mut told: Vec<Happening>) -> Vec<String> {
        self.log.tails.add_permits(PLENTY);
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
async fn a_page_ahead_of_the_ring_is_not_delivered_twice() {
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
    let log = Sqlite::temporary(SqliteOptions { retention: kept, ..SqliteOptions::default() }).expect("a log");
    let log = Arc::new(log);
    // The log trims soon after it is opened. This waits for that, so that the next trimming is the one below.
    log.trim_now().await;
    let topic = TopicName::new("room:short").expect("a name");
    for number in 1..=ENTRIES {
        log.append(&topic, chat(&format!("e{number}"))).await.expect("stored");
    }
    let rooms = Rooms::new(log.clone(), settings(), Box::new(|_| Box::pin(std::future::pending())));
    let first = EnvelopeId::new("e1").expect("an id");
    let mut cursor = rooms.observe(&topic, Some(&first), Interest::default(), None).await.expect("a cursor");
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

/// Longer than anything here takes: what has not happened by then never does.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(20), future).await;
    done.unwrap_or_else(|_| panic!("{what} did not happen"))
}

fn room() -> TopicName {
    TopicName::new("room:a").expect("a name")
}

fn admission(id: &str, after: Option<&str>) -> Admission {
    Admission {
        participant: Participant::new(ParticipantId::new(id).expect("a name")),
        claim: Claim::Exclusive,
        after: after.map(|after| EnvelopeId::new(after).expect("an id")),
        recent: None,
        deliver: Deliver::All,
        echo: true,
        stamp: None,
        ghosts: None,
    }
}

async fn enter(rooms: &Rooms, id: &str) -> Arrival {
    soon("entering", rooms.enter(&room(), admission(id, None))).await.expect("a seat")
}

fn draft(id: &str, from: &str, rest: &str, payload: &str) -> Draft {
    let text = format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}",{rest},"kind":"mcp","payload":{{"jsonrpc":"2.0",{payload}}}}}"#
    );
    Draft::parse(text, &Limits::default()).expect("a draft")
}

/// A request of alice's to bob.
fn asks(id: &str) -> Draft {
    draft(id, "alice", r#""to":["bob"]"#, r#""id":1,"method":"tools/list""#)
}

/// Bob's answer to a request.
fn answers(id: &str, request: &str) -> Draft {
    draft(id, "bob", &format!(r#""to":["alice"],"correlation_id":"{request}""#), r#""id":1,"result":{}"#)
}

/// Reads until something comes that is wanted.
async fn until(seat: &mut Seat, what: &str, is_wanted: impl Fn(&Happening) -> bool) -> Vec<Happening> {
    let mut out = Vec::new();
    let reading = async {
        while !out.iter().any(&is_wanted) {
            std::future::poll_fn(|cx| seat.poll_next(cx, &mut out, 1 << 20)).await.expect("more");
        }
    };
    soon(what, reading).await;
    out
}

fn fails(request: &'static str) -> impl Fn(&Happening) -> bool {
    move |happening| matches!(happening, Happening::CallFailed(failed) if failed.request.as_str() == request)
}

fn brings(id: &'static str) -> impl Fn(&Happening) -> bool {
    move |happening| happening.entries().iter().any(|entry| entry.envelope.id().as_str() == id)
}

async fn close(rooms: Rooms, log: Arc<Faulty>) {
    rooms.close().await;
    log.close().await;
}

/// The fold is restored at the log's head after a gap, and the entries up to there come by afterwards: calls that fail by one of them
/// fail all the same.
#[tokio::test]
async fn a_call_that_fails_behind_a_gap_is_told() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let (bob, mut alice) = (enter(&rooms, "bob").await, enter(&rooms, "alice").await.seat);
    alice.publish(asks("r1")).outcome().await.expect("stored");
    until(&mut alice, "the request", brings("r1")).await;
    log.tails.forget_permits(PLENTY);
    log.missed.lock().expect("unpoisoned").insert("missed".into());
    log.append(&room(), chat("missed")).await.expect("stored");
    drop(bob);
    let left = async {
        while log.standing(&room()).await.expect("a standing").present.len() > 1 {
            tokio::task::yield_now().await;
        }
    };
    soon("bob's leave", left).await;
    // The room hears of the gap, and alice reads on from the log, before the leave comes by.
    log.tails.add_permits(1);
    until(&mut alice, "what the room has missed", brings("missed")).await;
    log.tails.add_permits(PLENTY);
    until(&mut alice, "the failure of her call", fails("r1")).await;
    drop(alice);
    close(rooms, log).await;
}

#[tokio::test]
async fn entering_a_room_that_ends_is_refused() {
    let log = Faulty::new();
    let rooms = log.rooms();
    log.appends.forget_permits(PLENTY);
    let topic = room();
    let mut entering = Box::pin(rooms.enter(&topic, admission("alice", None)));
    let standing = async {
        while log.standing(&room()).await.expect("a standing").present.is_empty() {
            assert!(entering.as_mut().now_or_never().is_none(), "let in before the join is acknowledged");
            tokio::task::yield_now().await;
        }
    };
    soon("the join", standing).await;
    log.broken.send_replace(true);
    let ended = async {
        while rooms.census().1 > 0 {
            tokio::task::yield_now().await;
        }
    };
    soon("the end of the room", ended).await;
    log.appends.add_permits(PLENTY);
    // The join may have been folded before the room ended; then there is a seat, which ends at once.
    match soon("an answer", entering).await {
        Err(refusal) => assert_eq!(refusal.code, Code::Closing),
        Ok(mut arrival) => {
            let reason = std::future::poll_fn(|cx| arrival.seat.poll_rest(cx));
            assert_eq!(soon("the end of the seat", reason).await, CloseReason::Internal);
        }
    }
    close(rooms, log).await;
}

#[tokio::test]
async fn a_cursor_over_a_room_that_has_ended_ends() {
    let log = Faulty::new();
    let rooms = log.rooms();
    log.append(&room(), chat("e1")).await.expect("stored");
    let first = EnvelopeId::new("e1").expect("an id");
    let mut cursor = rooms.observe(&room(), Some(&first), Interest::default(), None).await.expect("a cursor");
    log.broken.send_replace(true);
    let ended = async {
        while rooms.census().1 > 0 {
            tokio::task::yield_now().await;
        }
    };
    soon("the end of the room", ended).await;
    let end = async {
        let mut out = Vec::new();
        while cursor.next(&mut out, 1 << 20).await.is_ok() {}
    };
    soon("the end of the cursor", end).await;
    drop(cursor);
    close(rooms, log).await;
}

#[tokio::test]
async fn a_room_that_could_not_be_opened_takes_no_memory() {
    let log = Faulty::new();
    let rooms = log.rooms();
    log.is_unreachable.store(true, Ordering::SeqCst);
    for number in 0..10 {
        let topic = TopicName::new(format!("room:{number}")).expect("a name");
        let refused = rooms.observe(&topic, None, Interest::default(), None).await.err().map(|refusal| refusal.code);
        assert_eq!(refused, Some(Code::Closing));
    }
    assert_eq!(rooms.listed(), 0);
    log.is_unreachable.store(false, Ordering::SeqCst);
    assert_eq!(enter(&rooms, "alice").await.roster.len(), 1);
    close(rooms, log).await;
}

#[tokio::test]
async fn a_participant_that_could_not_join_joins_the_next_time() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let _bob = enter(&rooms, "bob").await;
    log.is_unreachable.store(true, Ordering::SeqCst);
    let refused = soon("an answer", rooms.enter(&room(), admission("alice", None))).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(Code::Closing));
    log.is_unreachable.store(false, Ordering::SeqCst);
    let alice = enter(&rooms, "alice").await;
    assert_eq!(alice.roster.len(), 2, "she is in the room, and nobody knows");
    assert_eq!(log.standing(&room()).await.expect("a standing").present.len(), 2);
    drop(alice);
    close(rooms, log).await;
}

#[tokio::test]
async fn a_second_answer_is_refused_though_nobody_waits_for_the_first() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let (bob, mut alice) = (enter(&rooms, "bob").await.seat, enter(&rooms, "alice").await.seat);
    alice.publish(asks("r1")).outcome().await.expect("stored");
    until(&mut alice, "the request", brings("r1")).await;
    // Its session ends before it knows what became of the answer.
    drop(bob.publish(answers("a1", "r1")));
    let refused = bob.publish(answers("a2", "r1")).outcome().await.err().map(|refusal| refusal.code);
    assert_eq!(refused, Some(Code::CorrelationMismatch));
    let repeated = bob.publish(answers("a1", "r1")).outcome().await.map(|appended| appended.repeated);
    assert_eq!(repeated, Ok(true), "the same answer again is the same answer");
    drop((alice, bob));
    close(rooms, log).await;
}

#[tokio::test]
async fn an_answer_to_a_call_that_has_failed_is_refused() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let (bob, mut alice) = (enter(&rooms, "bob").await.seat, enter(&rooms, "alice").await.seat);
    alice.publish(asks("r1")).outcome().await.expect("stored");
    until(&mut alice, "the request", brings("r1")).await;
    drop(bob);
    until(&mut alice, "the failure of her call", fails("r1")).await;
    let bob = soon("entering", rooms.enter(&room(), admission("bob", Some("r1")))).await.expect("a seat").seat;
    let refusal = bob.publish(answers("a1", "r1")).outcome().await.expect_err("her call has failed");
    assert_eq!((refusal.code, refusal.regarding.expect("an id").as_str()), (Code::CallEnded, "a1"));
    bob.publish(draft("e1", "bob", r#""to":[]"#, r#""method":"notifications/x""#)).outcome().await.expect("stored");
    let heard = until(&mut alice, "what he says next", brings("e1")).await;
    assert!(!heard.iter().any(brings("a1")), "the call has ended twice");
    drop((alice, bob));
    close(rooms, log).await;
}

/// One more is refused and no earlier one is cancelled for it; a sender that sends a stored one again is told that it is stored.
#[tokio::test]
async fn a_participant_with_a_thousand_calls_waiting_is_refused_another() {
    let log = Faulty::new();
    let unlimited = Settings { rate: Rate { per_second: 0, burst: 0 }, ..settings() };
    let rooms = Rooms::new(log.clone(), unlimited, Box::new(|_| Box::pin(std::future::pending())));
    let (bob, mut alice) = (enter(&rooms, "bob").await.seat, enter(&rooms, "alice").await.seat);
    let calls: Vec<_> = (1..=1000).map(|number| alice.publish(asks(&format!("r{number}")))).collect();
    for call in calls {
        call.outcome().await.expect("stored");
    }
    until(&mut alice, "the last request", brings("r1000")).await;
    let refusal = alice.publish(asks("r1001")).outcome().await.expect_err("as many wait as may");
    assert_eq!(
        refusal.to_string(),
        "rate_limited: 1000 calls of yours wait for an answer in this room already, which is the limit"
    );
    assert_eq!(refusal.regarding.expect("an id").as_str(), "r1001");
    let repeated = alice.publish(asks("r1")).outcome().await.map(|appended| appended.repeated);
    assert_eq!(repeated, Ok(true));
    bob.publish(answers("a1", "r1")).outcome().await.expect("the oldest call still waits");
    until(&mut alice, "the answer", brings("a1")).await;
    alice.publish(asks("r1001")).outcome().await.expect("an answer has made room");
    drop((alice, bob));
    close(rooms, log).await;
}

#[tokio::test]
async fn a_refusal_names_its_draft_when_the_log_cannot_be_read() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let (bob, alice) = (enter(&rooms, "bob").await.seat, enter(&rooms, "alice").await.seat);
    log.is_unreachable.store(true, Ordering::SeqCst);
    // Both must be looked up: a request that is not known, and a recipient who is not there.
    let nobody = draft("r1", "alice", r#""to":["carol"]"#, r#""id":1,"method":"tools/list""#);
    for (publishing, id) in [(bob.publish(answers("a1", "r0")), "a1"), (alice.publish(nobody), "r1")] {
        let refusal = publishing.outcome().await.expect_err("the log is out of reach");
        assert_eq!((refusal.code, refusal.regarding.as_ref().map(EnvelopeId::as_str)), (Code::Closing, Some(id)));
    }
    log.is_unreachable.store(false, Ordering::SeqCst);
    drop((alice, bob));
    close(rooms, log).await;
}
