//! A server of the modern era among callers of both.

use serde_json::{Value, json};

use crate::cast::{MODERN, Stage, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_caller_is_asked_what_a_modern_server_wants_to_know() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(MODERN, |_| {});
    guest.here().await;
    let mut alice = stage.caller("alice").await;
    let present = alice.room.roster().into_iter().find(|participant| participant.id.as_str() == "guest").unwrap();
    assert_eq!(present.mcp.versions.last().map(String::as_str), Some("2026-07-28"));

    let hello = alice
        .send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}"#)
        .await;
    let introduced = alice.result(&hello).await;
    assert_eq!(introduced["result"]["serverInfo"]["name"], "modern");
    assert_eq!(introduced["result"]["protocolVersion"], "2025-06-18");

    let list = alice.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
    let list = alice.result(&list).await;
    assert_eq!(list["result"], json!({ "tools": [{ "name": "ask", "inputSchema": { "type": "object" } }] }));

    let request = alice.call("ask", "{}").await;
    let progress: Value = serde_json::from_str(alice.heard().await.payload()).unwrap();
    assert_eq!(progress["params"]["progressToken"], 1);
    let question = alice.heard().await;
    assert_eq!(question.correlation(), Some(&request));
    let asked: Value = serde_json::from_str(question.payload()).unwrap();
    assert_eq!((&asked["method"], &asked["params"]["message"]), (&json!("elicitation/create"), &json!("who?")));
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": { "name": "Alice" } } });
    alice.answer(Some(question.id().clone()), &answer.to_string()).await;
    let answer = alice.result(&request).await;
    assert_eq!(text(&answer), "hello Alice, state-1");
    assert_eq!(answer["result"].as_object().unwrap().keys().collect::<Vec<_>>(), ["content"]);
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_caller_of_a_modern_server_hears_it_unchanged() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(MODERN, |_| {});
    guest.here().await;
    let mut alice = stage.caller("alice").await;
    let request = alice
        .send(r#"{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{"name":"ask","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}"#)
        .await;
    let answer = alice.result(&request).await;
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!("m"), &json!("input_required")));
    guest.stop().await;
}
