//! What one participant can take from the others: rooms, messages, bytes.

use super::*;

fn who(id: &str) -> ParticipantId {
    ParticipantId::new(id).expect("an id")
}

fn topic(number: usize) -> TopicName {
    TopicName::new(format!("room:{number}")).expect("a name")
}

/// A message of alice's, with a number of bytes to spare.
fn padded(id: &str, extra: usize) -> Draft {
    let text = format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"alice","to":[],"kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/x","params":{{"x":"{}"}}}}}}"#,
        "x".repeat(extra)
    );
    Draft::parse(text, &Limits::default()).expect("a draft")
}

/// The same as [`padded`], of somebody else.
fn padded_of(id: &str, from: &str, extra: usize) -> Draft {
    let text = padded(id, extra).envelope().text().replace(r#""from":"alice""#, &format!(r#""from":"{from}""#));
    Draft::parse(text, &Limits::default()).expect("a draft")
}

fn request(id: &str, from: &str, to: &str) -> Draft {
    let text = format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}","to":["{to}"],"kind":"mcp","payload":{{"jsonrpc":"2.0","id":1,"method":"ping"}}}}"#
    );
    Draft::parse(text, &Limits::default()).expect("a draft")
}

#[tokio::test]
async fn no_room_is_opened_in_order_to_refuse_and_the_rate_is_taken_first() {
    let log = Faulty::new();
    let rate = Rate { per_second: 1, burst: 2 };
    let rooms = log.rooms_with(Settings { rate, ..settings() });
    let alice = who("alice");
    for number in 0..2 {
        let refused = rooms.publish(&topic(number), &alice, request(&format!("r{number}"), "alice", "bob")).await;
        let refusal = refused.err().expect("alice is in no room");
        assert_eq!((refusal.code, refusal.regarding.is_some()), (Code::Forbidden, true));
    }
    let third = rooms.publish(&topic(2), &alice, request("r2", "alice", "bob")).await.expect("judged");
    assert_eq!(third.outcome().await.expect_err("beyond the rate").code, Code::RateLimited);
    assert_eq!(rooms.listed(), 0, "a room was opened in order to refuse");
}

#[tokio::test]
async fn a_participant_that_opens_too_many_rooms_has_its_idle_ones_closed() {
    let log = Faulty::new();
    let rooms = log.rooms_with(Settings { rate: Rate::UNLIMITED, rooms_each: 3, ..settings() });
    for number in 0..10 {
        let publishing = rooms.publish(&topic(number), &who("alice"), padded(&format!("e{number}"), 0)).await;
        publishing.expect("judged").outcome().await.expect("stored");
    }
    assert_eq!(rooms.listed(), 3);
    // Rooms that are in use are not closed.
    let mut seats = Vec::new();
    for number in 20..23 {
        seats.push(rooms.enter(&topic(number), admission("alice", None)).await.expect("a seat"));
    }
    let refused = rooms.enter(&topic(23), admission("alice", None)).await.err().expect("three are in use");
    assert_eq!(refused.code, Code::RateLimited);
    assert!(refused.message.contains("`limits.rooms_per_participant`"), "{}", refused.message);
    rooms.enter(&topic(20), admission("bob", None)).await.expect("an open room is open to all");
    rooms.enter(&topic(24), admission("bob", None)).await.expect("the limit is alice's");
}

#[tokio::test]
async fn the_gateway_has_a_limit_of_open_rooms() {
    let log = Faulty::new();
    let rooms = log.rooms_with(Settings { rooms: 2, ..settings() });
    let _first = rooms.enter(&topic(1), admission("alice", None)).await.expect("a seat");
    let _second = rooms.enter(&topic(2), admission("bob", None)).await.expect("a seat");
    let refused = rooms.enter(&topic(3), admission("carol", None)).await.err().expect("two are open");
    assert_eq!(refused.code, Code::RateLimited);
    assert!(refused.message.contains("`limits.rooms`"), "{}", refused.message);
}

#[tokio::test]
async fn bytes_have_a_rate() {
    let log = Faulty::new();
    let byte_rates = ByteRates {
        participant: Rate { per_second: 1, burst: 2000 },
        topic: Rate::UNLIMITED,
        gateway: Rate::UNLIMITED,
    };
    let rooms = log.rooms_with(Settings { rate: Rate::UNLIMITED, byte_rates, ..settings() });
    let alice = rooms.enter(&topic(1), admission("alice", None)).await.expect("a seat").seat;
    alice.publish(padded("e1", 1000)).outcome().await.expect("stored");
    let refused = alice.publish(padded("e2", 1000)).outcome().await.expect_err("too many bytes");
    assert_eq!((refused.code, refused.regarding.is_some()), (Code::RateLimited, true));
    alice.publish(padded("e3", 100)).outcome().await.expect("a smaller one still fits");
}

/// The budgets of the topic and of the gateway are everybody's. Each refusal names its setting, also where the room is closed.
#[tokio::test]
async fn bytes_of_a_topic_and_of_the_gateway_have_a_rate() {
    let limited = Rate { per_second: 1, burst: 4000 };
    for (byte_rates, setting, is_elsewhere_refused) in [
        (ByteRates { topic: limited, ..ByteRates::UNLIMITED }, "`limits.topic_byte_rate`", false),
        (ByteRates { gateway: limited, ..ByteRates::UNLIMITED }, "`limits.gateway_byte_rate`", true),
    ] {
        let log = Faulty::new();
        let rooms = log.rooms_with(Settings { rate: Rate::UNLIMITED, byte_rates, ..settings() });
        let refused = |outcome: Result<salon_log::Appended, salon_protocol::Refusal>, what: &str| {
            let refused = outcome.expect_err(what);
            assert_eq!((refused.code, refused.regarding.is_some()), (Code::RateLimited, true), "{setting}: {what}");
            assert!(refused.message.contains(setting), "{}", refused.message);
        };
        let bob = rooms.enter(&topic(1), admission("bob", None)).await.expect("a seat").seat;
        let alice = rooms.enter(&topic(1), admission("alice", None)).await.expect("a seat").seat;
        alice.publish(padded("e1", 3000)).outcome().await.expect("stored");
        refused(alice.publish(padded("e2", 1000)).outcome().await, "alice has spent it");
        refused(bob.publish(padded_of("r1", "bob", 1000)).outcome().await, "bob shares it");
        let posted = rooms.publish(&topic(1), &who("alice"), padded("e3", 1000)).await.expect("judged");
        refused(posted.outcome().await, "a POST shares it");
        // A room that nobody has opened: what is posted there costs the same.
        let first = rooms.publish(&topic(2), &who("alice"), padded("e4", 3000)).await.expect("judged").outcome().await;
        if is_elsewhere_refused {
            refused(first, "the gateway's bytes are spent");
        } else {
            first.expect("another topic has its own");
            let second = rooms.publish(&topic(2), &who("alice"), padded("e5", 1000)).await.expect("judged");
            refused(second.outcome().await, "a second POST there");
        }
    }
}

#[tokio::test]
async fn joins_have_a_rate_and_messages_do_not_spend_it() {
    let log = Faulty::new();
    let rooms = log.rooms_with(Settings { rate: Rate { per_second: 1, burst: 2 }, ..settings() });
    let alice = rooms.enter(&topic(1), admission("alice", None)).await.expect("a seat").seat;
    for id in ["e1", "e2"] {
        alice.publish(padded(id, 10)).outcome().await.expect("stored");
    }
    drop(alice);
    drop(rooms.enter(&topic(1), admission("alice", None)).await.expect("a seat again"));
    let refused = rooms.enter(&topic(1), admission("alice", None)).await.map(drop).expect_err("a third join");
    assert_eq!(refused.code, Code::RateLimited);
    rooms.enter(&topic(1), admission("bob", None)).await.expect("a seat for somebody else");
}

/// Reads until an envelope comes.
async fn hear(seat: &mut Seat, id: &str) {
    let mut heard = Vec::new();
    while !heard.iter().flat_map(Happening::entries).any(|entry| entry.envelope.id().as_str() == id) {
        std::future::poll_fn(|cx| seat.poll_next(cx, &mut heard, 1 << 20)).await.expect("more");
    }
}

/// A participant that is asked by many answers as often as it is asked, however low its own rate is.
#[tokio::test]
async fn answers_are_paid_for_by_the_call() {
    let log = Faulty::new();
    let rooms = log.rooms_with(Settings { rate: Rate { per_second: 1, burst: 20 }, ..settings() });
    let mut bob = rooms.enter(&topic(1), admission("bob", None)).await.expect("a seat").seat;
    let answer = |number: usize, id: &str| {
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"bob","to":["caller{number}"],"correlation_id":"r{number}","kind":"mcp","payload":{{"jsonrpc":"2.0","id":1,"result":{{}}}}}}"#
        );
        Draft::parse(text, &Limits::default()).expect("a draft")
    };
    let mut callers = Vec::new();
    for number in 0..30 {
        let caller = format!("caller{number}");
        let seat = rooms.enter(&topic(1), admission(&caller, None)).await.expect("a seat").seat;
        seat.publish(request(&format!("r{number}"), &caller, "bob")).outcome().await.expect("asked");
        callers.push(seat);
        hear(&mut bob, &format!("r{number}")).await;
        bob.publish(answer(number, &format!("a{number}"))).outcome().await.expect("an answer is free");
    }
    // Nobody asked for a second answer.
    for attempt in 0..20 {
        let refused = bob.publish(answer(1, &format!("again{attempt}"))).outcome().await.expect_err("answered before");
        assert_eq!(refused.code, Code::CorrelationMismatch);
    }
    let refused = bob.publish(answer(1, "again")).outcome().await.expect_err("its own rate is used up");
    assert_eq!(refused.code, Code::RateLimited);
}

/// How far bob has come with a call of somebody's.
fn progress(id: &str, request: &str, caller: &str) -> Draft {
    let text = format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"bob","to":["{caller}"],"correlation_id":"{request}","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":1,"progress":1}}}}}}"#
    );
    Draft::parse(text, &Limits::default()).expect("a draft")
}

#[tokio::test]
async fn progress_is_paid_for_by_the_call() {
    let log = Faulty::new();
    let rooms = log.rooms_with(Settings { rate: Rate { per_second: 1, burst: 10 }, ..settings() });
    let mut bob = rooms.enter(&topic(1), admission("bob", None)).await.expect("a seat").seat;
    let mut callers = Vec::new();
    for number in 0..60 {
        let caller = format!("caller{number}");
        let seat = rooms.enter(&topic(1), admission(&caller, None)).await.expect("a seat").seat;
        seat.publish(request(&format!("r{number}"), &caller, "bob")).outcome().await.expect("asked");
        callers.push(seat);
        hear(&mut bob, &format!("r{number}")).await;
        let told = progress(&format!("p{number}"), &format!("r{number}"), &caller);
        bob.publish(told).outcome().await.expect("progress costs bob nothing");
    }
    for number in 0..10 {
        let told = progress(&format!("own{number}"), "unknown", "caller0");
        bob.publish(told).outcome().await.expect("bob has all of its own rate");
    }
}

/// A client that hangs up while its room is opened leaves nothing behind.
#[tokio::test]
async fn an_opening_that_is_given_up_is_not_listed() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let mut given_up = 0;
    for number in 0..100 {
        let topic = topic(number);
        let opening = rooms.observe(&topic, None, Interest::default(), None);
        // The log may be faster, and the room is then open.
        given_up += usize::from(opening.now_or_never().is_none());
    }
    assert!(given_up > 0, "the log is never waited for");
    assert_eq!(rooms.listed(), 100 - given_up);
}

#[tokio::test]
async fn a_reader_counts_as_the_opener_of_its_room() {
    let log = Faulty::new();
    let rooms = log.rooms_with(Settings { rooms_each: 1, ..settings() });
    let alice = who("alice");
    let _first = rooms.observe(&topic(1), None, Interest::default(), Some((&alice, None))).await.expect("a cursor");
    let refused =
        rooms.observe(&topic(2), None, Interest::default(), Some((&alice, None))).await.err().expect("one is open");
    assert_eq!(refused.code, Code::RateLimited);
    let unknown = EnvelopeId::new("unknown").expect("an id");
    let missing = rooms.observe(&topic(3), Some(&unknown), Interest::default(), None).await.err().expect("no such id");
    assert_eq!((missing.code, rooms.listed()), (Code::NotFound, 1), "no room is opened for it");
}
