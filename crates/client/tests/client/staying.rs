//! Staying in a room: nothing is lost or doubled, whatever happens to the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use salon_client::protocol::EnvelopeId;
use salon_client::{Client, End, Event, Gateway, Link, PublishError, Refreshing, StaticToken};
use salon_testkit::{TestEngine, TestOptions, TestToken, within};
use tokio::io::AsyncReadExt;

use crate::stage::{Scissors, client, entering, gateway, heard, history, quick, topic};

#[tokio::test]
async fn what_is_said_is_heard_in_order_by_everybody() {
    let gateway = gateway().await;
    let (alice, mut alices) = entering(&gateway, "alice").join_listening().await.unwrap();
    let (bob, mut bobs) = entering(&gateway, "bob").join_listening().await.unwrap();
    alice.say("one").await.unwrap();
    let two = bob.say_markdown("*two*").await.unwrap();
    alice.reply(two.id(), "three").await.unwrap();
    for events in [&mut alices, &mut bobs] {
        for line in ["one", "*two*", "three"] {
            assert_eq!(heard(events).await.unwrap(), line);
        }
    }
    let here: Vec<_> = alice.roster().into_iter().map(|one| one.id.to_string()).collect();
    assert_eq!(here, ["alice", "bob"]);
    within("bob to leave", bob.leave()).await.unwrap();
    within("the leave to be heard", async {
        while alice.is_present(&crate::stage::id("bob")) {
            alices.next().await.unwrap();
        }
    })
    .await
    .unwrap();
    gateway.stop().await.unwrap();
}

/// Cuts the speaker's and the listener's connections over and over while one talks to the other.
#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_lose_and_double_nothing() {
    const LINES: usize = 400;
    let gateway = gateway().await;
    let scissors = Scissors::new(&gateway);
    let through = |id: &str| {
        let token = gateway.token(&TestToken::new(id)).unwrap();
        Client::new(Gateway::through(scissors.clone()), StaticToken::new(token)).room(topic()).backoff(quick())
    };
    let (alice, mut alices) = through("alice").join_listening().await.unwrap();
    let (bob, mut bobs) = through("bob").join_listening().await.unwrap();

    let talking = {
        let scissors = scissors.clone();
        tokio::spawn(async move {
            for n in 0..LINES {
                if n % 40 == 20 {
                    scissors.cut();
                }
                alice.say(&n.to_string()).await.unwrap();
            }
            alice
        })
    };
    for n in 0..LINES {
        assert_eq!(heard(&mut bobs).await.unwrap(), n.to_string());
        assert_eq!(heard(&mut alices).await.unwrap(), n.to_string());
    }
    let alice = within("the speaker", talking).await.unwrap().unwrap();
    let said = history(bob.client()).await.into_iter().filter(|envelope| envelope.chat().is_some()).count();
    assert_eq!(said, LINES);
    drop(alice);
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_gateway_is_found_again() {
    let mut gateway = gateway().await;
    let (alice, _) = entering(&gateway, "alice").join_listening().await.unwrap();
    let (_bob, mut bobs) = entering(&gateway, "bob").join_listening().await.unwrap();
    alice.say("before").await.unwrap();
    let talking = tokio::spawn({
        let alice = alice.clone();
        async move {
            for n in 0..50 {
                alice.say(&n.to_string()).await.unwrap();
            }
        }
    });
    assert_eq!(heard(&mut bobs).await.unwrap(), "before");
    let mut link = alice.link();
    gateway.restart().await.unwrap();
    for n in 0..50 {
        assert_eq!(heard(&mut bobs).await.unwrap(), n.to_string());
    }
    within("the speaker", talking).await.unwrap().unwrap();
    within("a live link", link.wait_for(|link| matches!(link, Link::Live))).await.unwrap().unwrap();
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_listener_that_fell_behind_catches_up_from_the_history() {
    const LINES: usize = 3000;
    let options = TestOptions::new(TestEngine::Sqlite).set("limits.rate", "0").unwrap();
    let gateway = salon_testkit::TestGateway::start(options).await.unwrap();
    let (alice, mut idle) = entering(&gateway, "alice").join_listening().await.unwrap();
    let saying = (0..LINES).map(|n| {
        let alice = alice.clone();
        async move { alice.say(&n.to_string()).await.unwrap() }
    });
    let mut said: Vec<EnvelopeId> =
        futures_util::future::join_all(saying).await.iter().map(|e| e.id().clone()).collect();
    let mut heard = Vec::new();
    while heard.len() < LINES {
        match within("a line", idle.next()).await.unwrap() {
            Some(Event::Envelope(envelope)) if envelope.chat().is_some() => heard.push(envelope.id().clone()),
            Some(Event::Envelope(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    let stored: Vec<_> = history(alice.client()).await.into_iter().filter(|e| e.chat().is_some()).collect();
    assert_eq!(heard, stored.iter().map(|e| e.id().clone()).collect::<Vec<_>>());
    said.sort();
    heard.sort();
    assert_eq!(heard, said);
    // What the ring still holds is not delivered again, and it is live.
    assert!(crate::stage::heard(&mut idle).now_or_never().is_none());
    alice.say("now").await.unwrap();
    assert_eq!(crate::stage::heard(&mut idle).await.unwrap(), "now");
    gateway.stop().await.unwrap();
}

/// A listener may do something else at the same time, and cancel the wait whenever that is ready.
#[tokio::test]
async fn a_listener_that_gives_up_while_catching_up_loses_nothing() {
    const LINES: usize = 1500;
    let options = TestOptions::new(TestEngine::Sqlite).set("limits.rate", "0").unwrap();
    let gateway = salon_testkit::TestGateway::start(options).await.unwrap();
    let (alice, mut idle) = entering(&gateway, "alice").join_listening().await.unwrap();
    for n in 0..LINES {
        alice.say(&n.to_string()).await.unwrap();
    }
    // The first look finds that something was missed and begins to read it; it is given up at once.
    assert!(idle.next().now_or_never().is_none());
    for n in 0..LINES {
        assert_eq!(heard(&mut idle).await.unwrap(), n.to_string());
    }
    gateway.stop().await.unwrap();
}

/// Something that accepts connections and closes them is a gateway on its way down or up, not the end.
#[tokio::test]
async fn a_door_that_is_slammed_is_knocked_on_again() {
    let gateway = gateway().await;
    let scissors = Scissors::new(&gateway);
    let slammed = Arc::new(AtomicU32::new(0));
    let way = Slamming { way: scissors.clone(), left: slammed.clone() };
    let token = gateway.token(&TestToken::new("alice")).unwrap();
    let entering = Client::new(Gateway::through(way), StaticToken::new(token)).room(topic()).backoff(quick());
    let alice = entering.join().await.unwrap();
    slammed.store(3, Ordering::SeqCst);
    scissors.cut();
    alice.say("back").await.unwrap();
    assert_eq!(slammed.load(Ordering::SeqCst), 0);
    gateway.stop().await.unwrap();
}

/// Connects to nobody for a number of times.
struct Slamming {
    way: Scissors,
    left: Arc<AtomicU32>,
}

impl salon_client::Dial for Slamming {
    fn dial(&self) -> futures_util::future::BoxFuture<'_, std::io::Result<Box<dyn salon_client::Wire>>> {
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            // It listens to the request, and hangs up without a word.
            let (near, mut far) = tokio::io::duplex(4096);
            tokio::spawn(async move { far.read_u8().await });
            return Box::pin(async move { Ok(Box::new(near) as Box<dyn salon_client::Wire>) });
        }
        self.way.dial()
    }
}

#[tokio::test]
async fn a_publisher_that_is_too_fast_is_slowed_down_and_loses_nothing() {
    let options =
        TestOptions::new(TestEngine::Sqlite).set("limits.rate", "50").unwrap().set("limits.burst", "5").unwrap();
    let gateway = salon_testkit::TestGateway::start(options).await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let saying = (0..30).map(|n| {
        let alice = alice.clone();
        async move { alice.say(&n.to_string()).await.map(drop) }
    });
    let outcomes = within("everything to be said", futures_util::future::join_all(saying)).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let said = history(alice.client()).await.into_iter().filter(|envelope| envelope.chat().is_some()).count();
    assert_eq!(said, 30);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_newer_connection_takes_the_seat_for_good() {
    let gateway = gateway().await;
    let (old, mut events) = entering(&gateway, "alice").join_listening().await.unwrap();
    let new = entering(&gateway, "alice").join().await.unwrap();
    assert!(matches!(within("the end", old.ended()).await.unwrap(), End::Replaced));
    within("the events to end", async { while events.next().await.is_some() {} }).await.unwrap();
    assert!(matches!(old.say("still here").await, Err(PublishError::Ended(End::Replaced))));
    new.say("here").await.unwrap();
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_token_that_ran_out_is_replaced_by_a_fresh_one() {
    let gateway = gateway().await;
    let mut short = TestToken::new("alice");
    short.claim("expires", "3").unwrap();
    let tokens = [gateway.token(&short).unwrap(), gateway.token(&TestToken::new("alice")).unwrap()];
    let asked = Arc::new(AtomicU32::new(0));
    let provider = Refreshing::new({
        let asked = asked.clone();
        move || {
            let n = asked.fetch_add(1, Ordering::SeqCst) as usize;
            let token = tokens[n.min(1)].clone();
            async move { Ok(salon_client::Token::from(token)) }
        }
    });
    let address = Gateway::new(&format!("http://{}", gateway.address())).unwrap();
    let room = Client::new(address, provider).room(topic()).backoff(quick()).join().await.unwrap();
    let mut link = room.link();
    within("the connection to end", link.wait_for(|link| matches!(link, Link::Connecting { .. })))
        .await
        .unwrap()
        .unwrap();
    room.say("with a new token").await.unwrap();
    assert!(asked.load(Ordering::SeqCst) >= 2);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_token_for_another_topic_is_told_at_once() {
    let gateway = gateway().await;
    let mut token = TestToken::new("alice");
    token.claim("topics", "room:other").unwrap();
    let address = Gateway::new(&format!("http://{}", gateway.address())).unwrap();
    let client = Client::new(address, StaticToken::new(gateway.token(&token).unwrap()));
    let error = client.room(topic()).join().await.unwrap_err();
    assert!(error.to_string().contains("room:lab"), "{error}");
    gateway.stop().await.unwrap();
    let error = client.health().await.unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn rest_answers_without_a_seat() {
    let gateway = gateway().await;
    let bob = entering(&gateway, "bob").join().await.unwrap();
    let alice = client(&gateway, "alice");
    assert_eq!(alice.topics().await.unwrap(), [topic()]);
    let here = alice.participants(&topic()).await.unwrap();
    assert_eq!(here.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["bob"]);
    let payload = serde_json::value::to_raw_value(&serde_json::json!({
        "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": "by post" } }));
    let outgoing = salon_client::Outgoing::new(payload.unwrap());
    let mut events = bob.events();
    let (_, text) = salon_client::internal::compose(&crate::stage::id("alice"), &outgoing);
    alice.publish(&topic(), text).await.unwrap();
    assert_eq!(heard(&mut events).await.unwrap(), "by post");
    assert_eq!(alice.health().await.unwrap().protocol, "mcp-x/v0");
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn events_are_a_stream() {
    use futures_util::StreamExt;

    let gateway = gateway().await;
    let (alice, events) = entering(&gateway, "alice").join_listening().await.unwrap();
    let lines = events.filter_map(|event| {
        let Event::Envelope(envelope) = event else { panic!("nothing is missed: {event:?}") };
        std::future::ready(envelope.chat().map(|chat| chat.text))
    });
    for text in ["one", "two", "three"] {
        alice.say(text).await.unwrap();
    }
    // Taken as far as they are there, then waited for, then over.
    let mut lines = Box::pin(lines);
    let first: Vec<_> = within("two lines", lines.by_ref().take(2).collect()).await.unwrap();
    assert_eq!(first, ["one", "two"]);
    let rest = tokio::spawn(lines.collect::<Vec<_>>());
    alice.say("four").await.unwrap();
    alice.leave().await;
    assert_eq!(within("the end", rest).await.unwrap().unwrap(), ["three", "four"]);
    gateway.stop().await.unwrap();
}
