//! What is decided about a topic at one gateway counts at all of them.

use std::cell::Cell;

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
        of_two_decisions_at_two_gateways_the_first_counts,
        a_call_cancelled_at_one_gateway_and_approved_at_the_other_is_sent_or_not_and_never_both,
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

/// The call of a tool.
fn tool_call(from: &str, to: &str, id: &str, name: &str, arguments: &Value) -> String {
    let payload = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
    json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": from, "to": [to], "kind": "mcp", "payload": payload })
        .to_string()
}

/// Has calls of robot held in the topic.
async fn hold_calls(gateway: &TestGateway) {
    let mut operator = TestToken::new("root");
    operator.claim("permissions", "operator").expect("a claim");
    let rules = json!({ "rules": [{ "hold": "call:robot/*", "approvers": ["alice", "carol"] }] });
    let call = HttpCall::new("PUT", "/v0/topics/room:a").bearer(&gateway.token(&operator).expect("a token"));
    let answer = call.body(rules.to_string()).send(gateway.address()).await.expect("an answer");
    assert_eq!(answer.status / 100, 2, "{}", answer.body);
}

/// What an approver answers about a held call, once it has read of it.
async fn decide(socket: &mut TestSocket, from: &str, id: &str, held: &Value, decision: &str) {
    let params = &held["payload"]["params"];
    let arguments = json!({ "id": params["id"], "digest": params["digest"], "decision": decision });
    socket.text(tool_call(from, "system:gateway", id, "approval.decide", &arguments)).await.expect("sent");
}

/// Whether a decision counted.
async fn counted(socket: &mut TestSocket, id: &str) -> bool {
    let answer = next_where(socket, |came| came["correlation_id"] == id && came["payload"]["result"].is_object()).await;
    answer["payload"]["result"]["isError"] != true
}

/// How often an envelope is in the history, at both gateways alike.
async fn stored(gateways: [&TestGateway; 2], id: &str) -> usize {
    let mut counts = Vec::new();
    for gateway in gateways {
        let (_, page) = asked(gateway, "GET", "/v0/topics/room:a/history?limit=1000").await;
        counts.push(page["history"].as_array().expect("a page").iter().filter(|entry| entry["id"] == id).count());
    }
    assert_eq!(counts[0], counts[1]);
    counts[0]
}

fn requested(call: &str) -> impl Fn(&Value) -> bool {
    move |came| {
        came["payload"]["method"] == "notifications/approval/requested" && came["payload"]["params"]["id"] == call
    }
}

/// The outcome of a call, as its caller hears it: its answer, or why there is none.
fn outcome_of(call: &str) -> impl Fn(&Value) -> bool {
    move |came| {
        let is_failure = came["kind"] == "system" && came["payload"]["event"] == "error";
        came["correlation_id"] == call && (is_failure || came["payload"]["result"].is_object())
    }
}

async fn of_two_decisions_at_two_gateways_the_first_counts() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    hold_calls(&one).await;
    let mut robot = connect(&one, "robot", "").await;
    let mut bob = connect(&two, "bob", "").await;
    let mut alice = connect(&one, "alice", "").await;
    let mut carol = connect(&two, "carol", "").await;
    for round in 0..5 {
        let call = format!("c{round}");
        bob.text(tool_call("bob", "robot", &call, "move", &json!({}))).await.expect("sent");
        let held = next_where(&mut alice, requested(&call)).await;
        next_where(&mut carol, requested(&call)).await;
        let (yes, no) = (format!("yes{round}"), format!("no{round}"));
        decide(&mut alice, "alice", &yes, &held, "approve").await;
        decide(&mut carol, "carol", &no, &held, "deny").await;
        let (approved, denied) = (counted(&mut alice, &yes).await, counted(&mut carol, &no).await);
        assert_ne!(approved, denied, "one of two decisions counts");
        if approved {
            next_where(&mut robot, |came| came["id"] == call.as_str()).await;
            let payload = json!({ "jsonrpc": "2.0", "id": call, "result": {} });
            let answer = json!({ "protocol": "mcp-x/v0", "id": format!("r{round}"), "ts": "2025-08-17T14:00:00Z", "from": "robot", "to": ["bob"], "kind": "mcp", "correlation_id": call, "payload": payload });
            robot.text(answer.to_string()).await.expect("sent");
        }
        let outcome = next_where(&mut bob, outcome_of(&call)).await;
        assert_eq!(outcome["payload"]["result"].is_object(), approved, "{outcome}");
        assert_eq!(stored([&one, &two], &call).await, usize::from(approved));
    }
}

async fn a_call_cancelled_at_one_gateway_and_approved_at_the_other_is_sent_or_not_and_never_both() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    hold_calls(&one).await;
    let mut robot = connect(&one, "robot", "").await;
    let mut bob = connect(&two, "bob", "").await;
    let mut alice = connect(&one, "alice", "").await;
    for round in 0..5 {
        let call = format!("c{round}");
        bob.text(tool_call("bob", "robot", &call, "move", &json!({}))).await.expect("sent");
        let held = next_where(&mut alice, requested(&call)).await;
        decide(&mut alice, "alice", &format!("yes{round}"), &held, "approve").await;
        let payload = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call } });
        let cancellation = json!({ "protocol": "mcp-x/v0", "id": format!("x{round}"), "ts": "2025-08-17T14:00:00Z", "from": "bob", "to": ["robot"], "kind": "mcp", "correlation_id": call, "payload": payload });
        bob.text(cancellation.to_string()).await.expect("sent");
        counted(&mut alice, &format!("yes{round}")).await;
        next_where(&mut robot, |came| came["id"] == format!("x{round}")).await;
        // Either it was withdrawn in time, which its caller hears, or it waits for an answer, which its callee still may give.
        let fence = format!("fence{round}");
        alice.text(chat("alice", &fence)).await.expect("sent");
        let failures = Cell::new(0);
        next_where(&mut bob, |came| {
            failures.set(failures.get() + usize::from(outcome_of(&call)(came)));
            came["id"] == fence.as_str()
        })
        .await;
        assert_eq!(failures.get() + stored([&one, &two], &call).await, 1, "the call is sent or has failed");
    }
}
