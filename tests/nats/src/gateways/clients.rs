//! MCP clients while NATS is out of reach: what they have said and asked for meanwhile is not lost.

use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use salon_testkit::{TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken};
use serde_json::{Value, json};

use super::among::patiently;
use super::{connect, next_where};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![what_a_client_answers_and_whom_it_calls_first_waits_until_nats_is_back,]
}

const SERVER: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;

/// Says something as one of those that speak in envelopes.
async fn say(socket: &mut TestSocket, (from, id): (&str, &str), correlation: &Value, payload: Value) {
    let mut envelope = json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": from, "to": ["alice"], "kind": "mcp", "payload": payload });
    if correlation.is_string() {
        envelope["correlation_id"] = correlation.clone();
    }
    socket.text(envelope.to_string()).await.expect("sent");
}

/// Answers the next request of a method.
async fn answer(socket: &mut TestSocket, (from, id): (&str, &str), method: &str, result: Value) {
    let asked = next_where(socket, |came| came["to"] == json!([from]) && came["payload"]["method"] == method).await;
    let payload = json!({ "jsonrpc": "2.0", "id": asked["payload"]["id"], "result": result });
    say(socket, (from, id), &asked["id"], payload).await;
}

/// A client that has a person to ask.
async fn alice(gateway: &TestGateway) -> TestSocket {
    let token = gateway.token(&TestToken::new("alice")).expect("a token");
    let call = HttpCall::new("GET", "/mcp/room:a").bearer(&token);
    let mut alice = TestSocket::connect(gateway.address(), call).await.expect("an answer").expect("a socket");
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "c", "version": "1" } });
    ask(&mut alice, 0, "initialize", params).await;
    next_where(&mut alice, |came| came["id"] == 0).await;
    alice
}

async fn ask(alice: &mut TestSocket, id: u64, method: &str, params: Value) {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    alice.text(request.to_string()).await.expect("sent");
}

/// Waits for the log message of an outage, or of its end, at a level.
async fn told(alice: &mut TestSocket, level: &str) {
    patiently("alice to be told", async {
        loop {
            match alice.next_unbounded().await {
                TestSocketEvent::Text(text) if text.contains(&format!(r#""level":"{level}""#)) => break,
                TestSocketEvent::Text(_) => {}
                other => panic!("instead of a text there was {other:?}"),
            }
        }
    })
    .await;
}

async fn what_a_client_answers_and_whom_it_calls_first_waits_until_nats_is_back() {
    let mut servers = NatsServers::one().await.expect("a NATS server");
    let gateway =
        TestGateway::start(TestOptions::on_nats(&servers.url(), "salon").expect("options")).await.expect("a gateway");
    let mut bob = connect(&gateway, "bob", "").await;
    let mut carol = connect(&gateway, "carol", "").await;
    let mut alice = alice(&gateway).await;
    let server: Value = serde_json::from_str(SERVER).expect("JSON");
    ask(&mut alice, 1, "tools/call", json!({ "name": "bob__book" })).await;
    answer(&mut bob, ("bob", "b1"), "initialize", server.clone()).await;
    let call = next_where(&mut bob, |came| came["payload"]["method"] == "tools/call").await;
    let question = json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } });
    let question = json!({ "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": question });
    say(&mut bob, ("bob", "q1"), &call["id"], question).await;
    let asked = next_where(&mut alice, |came| came["method"] == "elicitation/create").await;

    servers.kill(0).await.expect("killed");
    told(&mut alice, "warning").await;
    let given = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": {} } });
    alice.text(given.to_string()).await.expect("sent");
    ask(&mut alice, 2, "tools/call", json!({ "name": "carol__book" })).await;
    // What is said last is refused last: by then neither the answer nor the handshake with carol was stored.
    ask(&mut alice, 3, "tools/call", json!({ "name": "bob__book" })).await;
    let refused = next_where(&mut alice, |came| came["id"] == 3).await;
    assert_eq!(refused["error"]["data"]["code"], "closing", "{refused}");

    servers.revive(0).await.expect("revived");
    told(&mut alice, "notice").await;
    let answered = next_where(&mut bob, |came| came["correlation_id"] == "q1").await;
    assert_eq!(answered["payload"]["result"]["action"], "accept", "{answered}");
    answer(&mut carol, ("carol", "c1"), "initialize", server).await;
    answer(&mut carol, ("carol", "c2"), "tools/call", json!({ "content": [] })).await;
    let called = next_where(&mut alice, |came| came["id"] == 2).await;
    assert_eq!(called["result"], json!({ "content": [] }), "{called}");
    gateway.stop().await.expect("stopped");
}
