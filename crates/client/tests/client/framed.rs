//! Sessions of framed TCP against a real gateway.

use std::time::Duration;

use salon_client::{Event, Events, FramedAddress, FramedEntry, FramedError, FramedSession};
use salon_protocol::{Presence, PresenceEvent};
use salon_testkit::{TestEngine, TestOptions, TestToken, within};
use serde_json::json;

use crate::stage::{Scissors, client, entering, gateway, history, id, topic};

const WAIT: Duration = Duration::from_secs(20);

fn entry() -> FramedEntry {
    FramedEntry::new().topic(topic()).capabilities(["lift"])
}

async fn connect(gateway: &salon_testkit::TestGateway, address: FramedAddress) -> FramedSession {
    let token = gateway.token(&TestToken::new("lift")).unwrap();
    let (who, entry) = (id("lift"), entry());
    within("a session", FramedSession::connect(address, &who, &token, &entry)).await.unwrap().unwrap()
}

fn address(gateway: &salon_testkit::TestGateway) -> FramedAddress {
    FramedAddress::new(&format!("tcp://{}", gateway.framed_address())).unwrap()
}

/// The next time that somebody comes or goes as it is meant.
async fn presence(events: &mut Events, meant: PresenceEvent) -> Presence {
    let heard = async {
        loop {
            let Some(told) = events.next().await else { panic!("the room ended") };
            if let Event::Envelope(envelope) = told
                && let Some(presence) = envelope.presence()
                && presence.event == meant
                && presence.participant.id == id("lift")
            {
                return presence;
            }
        }
    };
    within("somebody to come or go", heard).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_speaks_listens_and_leaves() {
    let gateway = gateway().await;
    let bob = entering(&gateway, "bob").join().await.unwrap();
    let mut events = bob.events();
    let mut lift = connect(&gateway, address(&gateway)).await;
    assert_eq!(presence(&mut events, PresenceEvent::Join).await.participant.capabilities, ["lift"]);
    let said = lift.send("going up", None).await.unwrap();
    let raw = serde_json::value::RawValue::from_string(r#"{"floor": 12345678901234567890}"#.into()).unwrap();
    lift.send(&raw, Some(&id("bob"))).await.unwrap();
    lift.send_bytes("image/x-dots", &[0, 255], None).await.unwrap();
    bob.say("thank you").await.unwrap();
    let came = within("what bob said", lift.receive(WAIT)).await.unwrap().unwrap();
    assert_eq!((came.len(), came[0].sender.as_str(), came[0].kind.as_str()), (1, "bob", "mcp"));
    assert!(came[0].payload.get().contains("thank you"));
    assert!(lift.receive(Duration::ZERO).await.unwrap().is_empty());

    let refused = lift.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}), Some(&id("ghost"))).await;
    let Err(FramedError::Refused { code: 400, word, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(word, "recipient_not_found");
    let session = lift.id().to_owned();
    lift.disconnect(Some("shift over")).await.unwrap();
    let gone = FramedSession::resume(address(&gateway), session).receive(Duration::ZERO).await;
    assert!(matches!(gone, Err(FramedError::Refused { code: 401, .. })), "{gone:?}");

    let leave = presence(&mut events, PresenceEvent::Leave).await;
    assert_eq!(leave.reason.as_deref(), Some("shift over"));
    let stored = history(&client(&gateway, "bob")).await;
    let of_lift: Vec<_> = stored.iter().filter(|envelope| envelope.from() == &id("lift")).collect();
    assert_eq!(of_lift.iter().map(|envelope| envelope.id()).next(), Some(&said));
    assert!(of_lift[1].payload().contains(r#""data":{"floor": 12345678901234567890}"#));
    assert!(of_lift[2].payload().contains(r#""data":"AP8=""#));
    drop(bob);
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_lose_and_double_nothing() {
    let gateway = gateway().await;
    let bob = entering(&gateway, "bob").join().await.unwrap();
    let scissors = Scissors::at(gateway.framed_address());
    let mut lift = connect(&gateway, FramedAddress::through(scissors.clone())).await;
    let mut heard = Vec::new();
    for number in 0..10 {
        bob.say(&format!("down {number}")).await.unwrap();
        scissors.cut();
        lift.send(&format!("up {number}"), None).await.unwrap();
        // What was received before this may come again, and is not handed out again.
        scissors.cut();
        while heard.len() <= number {
            let came = within("what bob said", lift.receive(WAIT)).await.unwrap().unwrap();
            heard.extend(came.iter().map(|message| message.payload.get().to_owned()));
        }
    }
    for (number, payload) in heard.iter().enumerate() {
        assert!(payload.contains(&format!("down {number}\"")), "{heard:?}");
    }
    let stored = history(&client(&gateway, "bob")).await;
    let said: Vec<_> = stored.iter().filter(|envelope| envelope.from() == &id("lift")).collect();
    assert_eq!(said.len(), 10);
    drop((bob, lift));
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_why() {
    let gateway = gateway().await;
    let token = gateway.token(&TestToken::new("lift")).unwrap();
    let not_its_own = FramedSession::connect(address(&gateway), &id("bob"), &token, &entry()).await;
    assert!(matches!(not_its_own, Err(FramedError::Refused { code: 403, .. })), "{not_its_own:?}");
    let no_token = FramedSession::connect(address(&gateway), &id("lift"), "", &entry()).await;
    assert!(matches!(no_token, Err(FramedError::Refused { code: 401, .. })), "{no_token:?}");
    // A door of another kind.
    let http = FramedAddress::new(&format!("tcp://{}", gateway.address())).unwrap();
    let wrong = FramedSession::connect(http, &id("lift"), &token, &entry()).await;
    assert!(matches!(wrong, Err(FramedError::Unreadable(_) | FramedError::Unreachable { .. })), "{wrong:?}");
    gateway.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_does_not_end_is_answered_with_408() {
    let options = TestOptions::new(TestEngine::Sqlite).set("frame-timeout", "1000").unwrap();
    let gateway = salon_testkit::TestGateway::start(options).await.unwrap();
    // A session may be silent.
    let mut lift = connect(&gateway, address(&gateway)).await;
    let mut slow = salon_testkit::framed::FramedClient::open(gateway.framed_address()).await.unwrap();
    slow.bytes(&[0, 0, 0, 100, b'{']).await.unwrap();
    let reply = slow.reply().await.unwrap();
    assert_eq!((reply.code(), &reply.json()["code"]), (408, &json!("timeout")));
    assert!(slow.next().await.unwrap().is_none(), "the connection ends");
    lift.send("still here", None).await.unwrap();
    drop(lift);
    gateway.stop().await.unwrap();
}
