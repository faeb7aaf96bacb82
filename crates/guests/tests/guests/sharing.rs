//! Many callers, one server.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use salon_guests::{Expose, GuestStatus};
use salon_protocol::ParticipantId;
use salon_testkit::within;
use serde_json::{Value, json};

use crate::cast::{LEGACY, Stage, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_callers_with_the_same_ids_never_hear_each_other() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let names: Vec<_> = (0..20).map(|n| format!("caller-{n}")).collect();
    let callers = join_all(names.iter().map(|name| stage.caller(name))).await;
    let calls = callers.into_iter().zip(&names).map(|(mut caller, name)| async move {
        let request = caller.call("together", &format!(r#"{{"count":20,"text":"{name}"}}"#)).await;
        let (progress, answer) = (caller.heard().await, caller.heard().await);
        for envelope in [&progress, &answer] {
            assert_eq!(envelope.correlation(), Some(&request));
        }
        assert_eq!(
            progress.payload(),
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":1,"progress":1,"message":"{name}"}}}}"#)
        );
        let answer: Value = serde_json::from_str(answer.payload()).unwrap();
        assert_eq!((&answer["id"], text(&answer)), (&json!(1), name.as_str()));
    });
    join_all(calls).await;
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_share_a_server_unless_they_are_isolated() {
    for isolated in [false, true] {
        let stage = Stage::new().await;
        let mut guest = stage.guest(LEGACY, |spec| spec.isolated = isolated);
        guest.here().await;
        let mut processes = Vec::new();
        let mut callers = [stage.caller("alice").await, stage.caller("bob").await];
        for caller in &mut callers {
            let request = caller.call("pid", "{}").await;
            processes.push(text(&caller.result(&request).await).to_owned());
        }
        assert_eq!(processes[0] != processes[1], isolated, "{processes:?}");
        guest.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_clients_that_can_be_asked_leave_one_process_and_one_that_asks_for_it_has_its_own() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let mut processes = BTreeSet::new();
    let mut callers = Vec::new();
    for number in 0..10 {
        let mut caller = stage.caller(&format!("caller-{number}")).await;
        let hello = caller.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"x","version":"1"}}}"#).await;
        caller.result(&hello).await;
        let request = caller.call("pid", "{}").await;
        processes.insert(text(&caller.result(&request).await).to_owned());
        callers.push(caller);
    }
    assert_eq!(processes.len(), 1, "{processes:?}");
    let alone = &mut callers[0];
    let request = alone.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid","_meta":{"io.modelcontextprotocol/clientCapabilities":{"experimental":{"salon/isolated":{}}}}}}"#).await;
    assert!(processes.insert(text(&alone.result(&request).await).to_owned()), "{processes:?}");
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_question_goes_to_the_participant_whose_call_caused_it() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let mut callers = Vec::new();
    for name in ["alice", "bob"] {
        let mut caller = stage.caller(name).await;
        let hello = caller
            .send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"x","version":"1"}}}"#)
            .await;
        let introduced = caller.result(&hello).await;
        assert_eq!(introduced["result"]["serverInfo"]["name"], "legacy");
        caller.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        callers.push((name, caller));
    }
    // One after the other: nothing on a pipe says whose call a question belongs to.
    for (name, caller) in &mut callers {
        let request = caller.call("sample", "{}").await;
        let question = caller.heard().await;
        assert_eq!(question.correlation(), Some(&request));
        let asked: Value = serde_json::from_str(question.payload()).unwrap();
        assert_eq!(asked["method"], "sampling/createMessage");
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "by": name } });
        caller.answer(Some(question.id().clone()), &answer.to_string()).await;
        assert_eq!(text(&caller.result(&request).await), format!(r#"{{"by": "{name}"}}"#));
    }
    // While another's call runs, neither is asked, and the call goes on with the reason.
    let [(_, alice), (_, bob)] = &mut callers[..] else { panic!("two callers") };
    alice.call("hang", "{}").await;
    alice.heard().await;
    let request = bob.call("sample", "{}").await;
    let refused = bob.result(&request).await;
    assert!(text(&refused).contains("nothing says whose question it is"), "{refused}");
    // Somebody who offers nothing is not asked anything: the server hears so.
    let mut carol = stage.caller("carol").await;
    let request = carol.call("sample", "{}").await;
    assert!(text(&carol.result(&request).await).contains("-32601"));
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_one_participant_do_not_undo_each_others_handshake() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let (mut first, mut second) = (stage.session("alice").await, stage.session("alice").await);
    let to = ParticipantId::new("guest").unwrap();
    for (caller, capabilities) in [(&first, json!({ "sampling": {} })), (&second, json!({}))] {
        let info = json!({ "name": "x", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": info });
        let call = caller.room.request(&to, "initialize", &hello).await.unwrap();
        within("a handshake", call.result()).await.unwrap().unwrap();
    }
    let call = first.room.request(&to, "tools/call", &json!({ "name": "sample" })).await.unwrap();
    let question = first.until("a question", |envelope| envelope.payload().contains("sampling/createMessage")).await;
    assert_eq!((question.to_session(), question.correlation()), (Some(first.room.session()), Some(call.id())));
    let asked: Value = serde_json::from_str(question.payload()).unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "by": "the first" } });
    first.answer(Some(question.id().clone()), &answer.to_string()).await;
    let result = within("an answer", call.result()).await.unwrap().unwrap();
    assert!(result.get().contains("the first"), "{result}");
    // The other offers nothing, and the server hears so.
    let call = second.room.request(&to, "tools/call", &json!({ "name": "sample" })).await.unwrap();
    let result = within("an answer", call.result()).await.unwrap().unwrap();
    assert!(result.get().contains("-32601"), "{result}");
    // The end of a session frees what was kept for it, though its participant stays.
    let session = first.room.session().clone();
    first.room.leave().await;
    let is_it = |envelope: &salon_protocol::Envelope| envelope.payload().contains("notifications/session/ended");
    let ended = second.until("word of the end", is_it).await;
    assert_eq!((ended.from_session(), ended.to()), (Some(&session), &[to][..]));
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_cancels_what_was_asked() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let (alice, mut bob) = (stage.caller("alice").await, stage.caller("bob").await);
    alice.call("hang", "{}").await;
    let watching = bob.call("cancelled", "{}").await;
    alice.room.leave().await;
    assert_eq!(text(&bob.result(&watching).await), "1 cancelled");
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_tells_its_tools_when_it_comes_and_when_they_change() {
    let stage = Stage::new().await;
    let mut alice = stage.caller("alice").await;
    let mut guest = stage.guest(LEGACY, |_| {});
    alice.guest_joins().await;
    let announced = |payload: &str| -> Vec<String> {
        let payload: Value = serde_json::from_str(payload).unwrap();
        assert_eq!(payload["method"], "notifications/tools/list_changed");
        serde_json::from_value(payload["params"]["tools"].clone()).unwrap()
    };
    let first = alice
        .until("an announcement", |envelope| envelope.from().as_str() == "guest" && envelope.to().is_empty())
        .await;
    assert_eq!(announced(first.payload()).len(), 9);
    assert_eq!(guest.here().await, GuestStatus::Here { server: "legacy 1".into(), tools: 9 });
    alice.call("grow", "{}").await;
    let second = alice
        .until("an announcement", |envelope| envelope.from().as_str() == "guest" && envelope.to().is_empty())
        .await;
    assert_eq!(announced(second.payload()).last().map(String::as_str), Some("grown"));
    assert_eq!(guest.here().await, GuestStatus::Here { server: "legacy 1".into(), tools: 10 });
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_exposed_is_refused() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |spec| spec.expose = Expose { prompts: false, ..Expose::default() });
    guest.here().await;
    let mut alice = stage.caller("alice").await;
    let hello = alice.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#).await;
    // The server itself takes no wishes for log lines; the guest does.
    let capabilities = json!({ "tools": { "listChanged": true }, "logging": {} });
    assert_eq!(alice.result(&hello).await["result"]["capabilities"], capabilities);
    let refused = alice.send(r#"{"jsonrpc":"2.0","id":"p","method":"prompts/list"}"#).await;
    let refused = alice.result(&refused).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("p"), &json!(-32601)));
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_large_is_an_error_not_silence() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let mut alice = stage.caller("alice").await;
    // A little over the gateway's limit, and so far over it that a gateway would hang up.
    for bytes in [4_300_000, 9_000_000] {
        let request = alice.call("big", &format!(r#"{{"bytes":{bytes}}}"#)).await;
        let error = alice.result(&request).await["error"].take();
        assert_eq!(error["data"]["code"], "too_large");
        assert!(error["message"].as_str().is_some_and(|message| message.contains("`limits.answer`")), "{error}");
    }
    // Longer than any message that is no answer.
    let request = alice.call("big", r#"{"bytes":1100000}"#).await;
    assert_eq!(text(&alice.result(&request).await).len(), 1_100_000);
    let request = alice.call("echo", r#"{"text":"still here"}"#).await;
    assert_eq!(text(&alice.result(&request).await), "still here");
    guest.stop().await;
}
