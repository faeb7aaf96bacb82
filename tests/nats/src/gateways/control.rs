//! What is decided about a topic at one gateway counts at all of them.

use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use salon_testkit::{TestGateway, TestSocket, TestSocketEvent, TestToken};
use serde_json::{Value, json};

use super::{chat, connect, host_call, next_where, presence, two};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        a_topic_deleted_at_one_gateway_is_gone_at_the_other,
        what_somebody_says_of_itself_at_one_gateway_is_seen_at_the_other,
    ]
}

async fn asked(gateway: &TestGateway, method: &str, path: &str) -> (u16, Value) {
    let mut operator = TestToken::new("root");
    operator.claim("permissions", "operator").expect("a claim");
    let call = HttpCall::new(method, path).bearer(&gateway.token(&operator).expect("a token"));
    let answer = call.send(gateway.address()).await.expect("an answer");
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

/// The code that a connection is closed with, after whatever comes before.
async fn closed(socket: &mut TestSocket) -> u16 {
    loop {
        match socket.next().await.expect("a frame") {
            TestSocketEvent::Closed(code, _) => return code,
            TestSocketEvent::Text(_) => {}
            other => panic!("instead of a close there was {other:?}"),
        }
    }
}

async fn a_topic_deleted_at_one_gateway_is_gone_at_the_other() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut alice = connect(&one, "alice", "").await;
    let mut bob = connect(&two, "bob", "").await;
    next_where(&mut alice, presence("join", "bob")).await;
    alice.text(chat("alice", "secret")).await.expect("sent");
    next_where(&mut bob, |came| came["id"] == "secret").await;
    assert_eq!(asked(&one, "DELETE", "/v0/topics/room:a").await.0, 204);
    assert_eq!((closed(&mut alice).await, closed(&mut bob).await), (4404, 4404));
    for gateway in [&one, &two] {
        let (status, page) = asked(gateway, "GET", "/v0/topics/room:a/history").await;
        assert_eq!((status, page["history"].clone()), (200, json!([])), "{page}");
        assert_eq!(asked(gateway, "GET", "/v0/topics/room:a").await.0, 404);
    }
    // Who comes back begins another topic, at either gateway.
    let mut bob = connect(&two, "bob", "").await;
    let mut alice = connect(&one, "alice", "").await;
    next_where(&mut bob, presence("join", "alice")).await;
    bob.text(chat("bob", "anew")).await.expect("sent");
    next_where(&mut alice, |came| came["id"] == "anew").await;
    let (_, page) = asked(&one, "GET", "/v0/topics/room:a/history").await;
    assert!(!page.to_string().contains("secret"), "{page}");
}

async fn what_somebody_says_of_itself_at_one_gateway_is_seen_at_the_other() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut alice = connect(&one, "alice", "").await;
    let mut bob = connect(&two, "bob", "").await;
    next_where(&mut alice, presence("join", "bob")).await;
    alice.text(host_call("p1", "presence.set", &json!({ "status": "away" }))).await.expect("sent");
    let said = next_where(&mut bob, presence("status", "alice")).await;
    assert_eq!(said["payload"]["participant"]["status"], json!({ "status": "away" }));
    let (_, present) = asked(&two, "GET", "/v0/topics/room:a/participants").await;
    assert_eq!(present["participants"][0]["status"], json!({ "status": "away" }), "{present}");
    alice.text(host_call("p2", "presence.set", &json!({ "status": null }))).await.expect("sent");
    let ended = next_where(&mut bob, presence("status", "alice")).await;
    assert_eq!((&ended["payload"]["participant"]["status"], &ended["correlation_id"]), (&Value::Null, &said["id"]));
}
