//! Bridges: participants that speak for others.

use salon_client::protocol::{Code, EnvelopeId, ParticipantKind, PresenceEvent, Timestamp};
use salon_client::{
    CallError, Client, Event, Events, Gateway, Ghost, Outgoing, PublishError, RequestOptions, StaticToken, Toolbox,
};
use salon_testkit::{TestEngine, TestGateway, TestOptions, TestToken, within};
use serde_json::json;

use crate::stage::{Scissors, client, entering, heard, history, id, quick, topic};

async fn gateway() -> TestGateway {
    let options = TestOptions::new(TestEngine::Sqlite).set("auth.namespaces", "matrix:*=bridge:matrix").unwrap();
    TestGateway::start(options).await.unwrap()
}

/// A client with the token of a bridge.
fn bridge(gateway: &TestGateway, address: Gateway, claims: &[(&str, &str)]) -> Client {
    let mut token = TestToken::new("bridge:matrix");
    token.claim("acts_for", "matrix:*").unwrap();
    for (claim, value) in claims {
        token.claim(claim, value).unwrap();
    }
    Client::new(address, StaticToken::new(gateway.token(&token).unwrap()))
}

fn direct(gateway: &TestGateway) -> Gateway {
    Gateway::new(&format!("http://{}", gateway.address())).unwrap()
}

fn ann() -> Ghost {
    Ghost::new(id("matrix:ann")).name("Ann").kind(ParticipantKind::Human)
}

/// The next join or leave of a ghost, whatever else happens before it.
async fn presence(events: &mut Events) -> (PresenceEvent, String) {
    let next = async {
        loop {
            let Some(Event::Envelope(envelope)) = events.next().await else { continue };
            let presence = envelope.presence().filter(|presence| presence.participant.via.is_some());
            if let Some(presence) = presence {
                return (presence.event, presence.participant.name.unwrap_or_default());
            }
        }
    };
    within("a join or a leave of a ghost", next).await.unwrap()
}

fn code(error: PublishError) -> Code {
    match error {
        PublishError::Refused(refusal) => refusal.code,
        other => panic!("not refused: {other}"),
    }
}

#[tokio::test]
async fn a_bridge_speaks_for_its_ghosts() {
    let gateway = gateway().await;
    let (alice, mut events) = entering(&gateway, "alice").join_listening().await.unwrap();
    let room = bridge(&gateway, direct(&gateway), &[]).room(topic()).join().await.unwrap();
    room.enter_ghost(ann()).await.unwrap();
    assert_eq!(presence(&mut events).await, (PresenceEvent::Join, "Ann".into()));
    assert_eq!(room.ghosts(), [ann()]);
    let said = room.publish_as(&id("matrix:ann"), Outgoing::chat("hello")).await.unwrap();
    assert_eq!(said.from(), &id("matrix:ann"));
    assert_eq!(heard(&mut events).await.unwrap(), "hello");

    // What a bridge says again after a crash is stored once.
    let again = || {
        let envelope = EnvelopeId::new("$event:server").unwrap();
        Outgoing::chat("once").id(envelope).ts(Timestamp(1_700_000_000_000)).correlation(said.id().clone())
    };
    for _ in 0..2 {
        let stored = room.publish_as(&id("matrix:ann"), again()).await.unwrap();
        assert_eq!(stored.id().as_str(), "$event:server");
    }
    assert_eq!(
        code(room.publish_as(&id("matrix:ann"), again().to([id("alice")])).await.unwrap_err()),
        Code::IdConflict
    );

    // Others can ask a ghost, which offers nothing.
    let refused = alice.request(&id("matrix:ann"), "tools/list", &json!({})).await.unwrap().result().await;
    assert!(matches!(refused, Err(CallError::Answered(error)) if error.code == -32601));
    alice.request(&id("matrix:ann"), "ping", &json!({})).await.unwrap().result().await.unwrap();
    let offers = alice.tools().await;
    assert!(offers.silent.is_empty(), "nobody asks a ghost by itself: {:?}", offers.silent);

    assert_eq!(code(room.publish_as(&id("matrix:bob"), Outgoing::chat("hi")).await.unwrap_err()), Code::FromMismatch);
    assert_eq!(code(room.enter_ghost(Ghost::new(id("alice"))).await.unwrap_err()), Code::Forbidden);
    let call = room.request_as(&id("matrix:ann"), &id("alice"), "tools/list", &json!({}), RequestOptions::new()).await;
    assert!(
        matches!(call.unwrap().result().await, Err(CallError::Refused(refusal)) if refusal.code == Code::Forbidden)
    );
    room.leave_ghost(&id("matrix:ann"), Some("gone")).await.unwrap();
    assert_eq!(presence(&mut events).await, (PresenceEvent::Leave, "Ann".into()));
    assert_eq!(room.ghosts(), []);
    let once = history(&client(&gateway, "carol")).await;
    assert_eq!(once.iter().filter(|envelope| envelope.id().as_str() == "$event:server").count(), 1);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_ghost_calls_where_its_bridge_lets_it() {
    let gateway = gateway().await;
    let room = bridge(&gateway, direct(&gateway), &[("ghosts_call", "true")]).room(topic()).join().await.unwrap();
    let _robot = entering(&gateway, "robot").offer(Toolbox::new("robot")).join().await.unwrap();
    room.enter_ghost(ann()).await.unwrap();
    let options = RequestOptions::new;
    let call = room.request_as(&id("matrix:ann"), &id("robot"), "ping", &json!({}), options()).await.unwrap();
    call.result().await.unwrap();
    // One that nobody waits for is withdrawn in the ghost's name.
    let silent = entering(&gateway, "silent").answer_by_hand().join_listening().await.unwrap();
    let call = room.request_as(&id("matrix:ann"), &id("silent"), "x/wait", &json!({}), options()).await.unwrap();
    call.cancel("enough").await;
    let mut events = silent.1;
    let cancelled = async {
        loop {
            let Some(Event::Envelope(envelope)) = events.next().await else { continue };
            if envelope.payload().contains("notifications/cancelled") {
                return envelope.from().clone();
            }
        }
    };
    assert_eq!(within("a cancellation", cancelled).await.unwrap(), id("matrix:ann"));
    gateway.stop().await.unwrap();
}

/// Cuts the bridge's connection over and over: its ghosts stay, and what they say is stored once and in order.
#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_cost_no_ghost_and_no_message() {
    const LINES: usize = 120;
    let gateway = gateway().await;
    let scissors = Scissors::new(&gateway);
    let (_alice, mut events) = entering(&gateway, "alice").join_listening().await.unwrap();
    let through = Gateway::through(scissors.clone());
    let room = bridge(&gateway, through, &[]).room(topic()).backoff(quick()).join().await.unwrap();
    room.enter_ghost(ann()).await.unwrap();
    room.enter_ghost(Ghost::new(id("matrix:bob")).name("Bob")).await.unwrap();
    for n in 0..LINES {
        if n % 20 == 10 {
            scissors.cut();
        }
        let ghost = if n % 2 == 0 { "matrix:ann" } else { "matrix:bob" };
        room.publish_as(&id(ghost), Outgoing::chat(&n.to_string())).await.unwrap();
    }
    for n in 0..LINES {
        assert_eq!(heard(&mut events).await.unwrap(), n.to_string());
    }
    assert_eq!(room.ghosts().len(), 2);
    let stored = history(&client(&gateway, "carol")).await;
    let ghosts = stored.iter().filter_map(|envelope| envelope.presence()).filter(|one| one.participant.via.is_some());
    let seen: Vec<_> = ghosts.map(|one| (one.event, one.participant.name.unwrap_or_default())).collect();
    assert_eq!(seen, [(PresenceEvent::Join, "Ann".to_owned()), (PresenceEvent::Join, "Bob".to_owned())]);
    gateway.stop().await.unwrap();
}
