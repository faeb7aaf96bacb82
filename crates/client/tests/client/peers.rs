//! Other participants as MCP servers: handshakes, lists, calls.

use std::sync::Arc;
use std::time::Duration;

use salon_client::mcp::{
    Content, Elicitation, ElicitationAnswer, LogLevel, Reference, Sampling, SamplingAnswer, Tool, ToolResult,
};
use salon_client::protocol::{Message, PresenceEvent};
use salon_client::{CallError, Event, Events, Room, RpcError, ToolCall, ToolError, Toolbox};
use salon_testkit::within;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;

use crate::stage::{entering, gateway, history, id};

/// How often a method was sent by somebody, as the room remembers it.
pub(crate) async fn count(room: &Room, from: &str, method: &str) -> usize {
    let all = history(room.client()).await;
    let sent = all.iter().filter(|envelope| envelope.from().as_str() == from);
    sent.filter(|envelope| match envelope.message() {
        Some(Message::Request { method: sent, .. } | Message::Notification { method: sent }) => &**sent == method,
        _ => false,
    })
    .count()
}

/// Waits until somebody sends a method.
pub(crate) async fn until_sent(events: &mut Events, from: &str, wanted: &str) {
    within(wanted, async {
        loop {
            let Some(Event::Envelope(envelope)) = events.next().await else { panic!("the room ended") };
            let sent = match envelope.message() {
                Some(Message::Request { method, .. } | Message::Notification { method }) => &**method == wanted,
                _ => false,
            };
            if sent && envelope.from().as_str() == from {
                return;
            }
        }
    })
    .await
    .unwrap();
}

async fn until_presence(events: &mut Events, who: &str, wanted: PresenceEvent) {
    within("presence", async {
        loop {
            let Some(Event::Envelope(envelope)) = events.next().await else { panic!("the room ended") };
            if envelope.presence().is_some_and(|told| told.event == wanted && told.participant.id.as_str() == who) {
                return;
            }
        }
    })
    .await
    .unwrap();
}

/// Waits until somebody joins.
pub(crate) async fn until_joined(events: &mut Events, who: &str) {
    until_presence(events, who, PresenceEvent::Join).await;
}

fn any() -> serde_json::Value {
    json!({"type": "object"})
}

pub(crate) fn echo() -> Toolbox {
    Toolbox::new("echo").tool("say", "Repeats what it is given", any(), |call: ToolCall| async move {
        Ok(call.argument::<String>("text")?.into())
    })
}

/// Tells when it is dropped.
struct Dropped(mpsc::Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

/// A tool that says when it has begun, never ends, and says when it is given up.
pub(crate) fn stuck() -> (Toolbox, mpsc::Receiver<&'static str>) {
    let (tell, told) = mpsc::channel(16);
    let toolbox = Toolbox::new("stuck").tool("wait", "Never ends", any(), move |_| {
        let tell = tell.clone();
        async move {
            let _guard = Dropped(tell.clone());
            tell.send("begun").await?;
            std::future::pending().await
        }
    });
    (toolbox, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_handshake_serves_everyone_who_wants_it() {
    let gateway = gateway().await;
    let bob = entering(&gateway, "bob").offer(echo()).join().await.unwrap();
    let alice = entering(&gateway, "alice").name("Alice").join().await.unwrap();
    let calls = (0..20).map(|n| {
        let peer = alice.peer(&id("bob"));
        tokio::spawn(async move {
            peer.server().await.unwrap();
            peer.call_tool("say", &json!({"text": n.to_string()})).await.unwrap().text()
        })
    });
    for (n, said) in
        within("twenty answers", futures_util::future::join_all(calls)).await.unwrap().into_iter().enumerate()
    {
        assert_eq!(said.unwrap(), n.to_string());
    }
    assert_eq!(count(&alice, "alice", "initialize").await, 1);
    assert_eq!(count(&alice, "alice", "notifications/initialized").await, 1);
    assert_eq!(count(&alice, "alice", "tools/call").await, 20);
    let server = alice.peer(&id("bob")).server().await.unwrap();
    assert_eq!(server.protocol_version, "2025-06-18");
    assert_eq!(server.server_info.as_ref().unwrap().name, "echo");
    drop(bob);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_participant_that_needs_no_handshake_is_called_at_once() {
    let gateway = gateway().await;
    let _bob = entering(&gateway, "bob").offer(echo()).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let said = alice.peer(&id("bob")).call_tool("say", &json!({"text": "hello"})).into_future();
    assert_eq!(within("an answer", said).await.unwrap().unwrap().text(), "hello");
    assert_eq!((count(&alice, "alice", "initialize").await, count(&alice, "alice", "tools/call").await), (0, 1));
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_handshake_is_not_cancelled_when_its_first_asker_goes() {
    let gateway = gateway().await;
    let (bob, mut bobs) = entering(&gateway, "bob").answer_by_hand().join_listening().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let asking = tokio::spawn({
        let peer = alice.peer(&id("bob"));
        async move { peer.server().await }
    });
    until_sent(&mut bobs, "alice", "initialize").await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    // Every notice of the abort is in the room before this.
    alice.say("marker").await.unwrap();
    assert_eq!(count(&alice, "alice", "notifications/cancelled").await, 0);
    // The next who asks waits for the same handshake.
    let asking = tokio::spawn({
        let peer = alice.peer(&id("bob"));
        async move { peer.server().await }
    });
    let asked = history(alice.client())
        .await
        .into_iter()
        .find(|envelope| envelope.from().as_str() == "alice" && envelope.message().is_some());
    let asked = asked.unwrap();
    assert_eq!(asked.to(), [id("bob")]);
    let Some(Message::Request { id: number, .. }) = asked.message() else { panic!("no request: {asked:?}") };
    let number: u64 = number.to_json().parse().unwrap();
    let answer =
        json!({"jsonrpc": "2.0", "id": number, "result": {"protocolVersion": "2025-06-18", "capabilities": {}}});
    let correlation = Some(asked.id().clone());
    let outgoing =
        salon_client::Outgoing::new(to_raw_value(&answer).unwrap()).to([id("alice")]).correlation(correlation);
    bob.publish(outgoing).await.unwrap();
    within("the handshake", asking).await.unwrap().unwrap().unwrap();
    assert_eq!(count(&alice, "alice", "initialize").await, 1);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_participant_that_starts_over_gets_a_new_handshake() {
    let gateway = gateway().await;
    let (alice, mut events) = entering(&gateway, "alice").join_listening().await.unwrap();
    for times in 1..=2 {
        let bob = entering(&gateway, "bob").offer(echo()).join().await.unwrap();
        let peer = alice.peer(&id("bob"));
        within("ping", peer.ping()).await.unwrap().unwrap();
        assert_eq!(within("tools", peer.tools()).await.unwrap().unwrap().len(), 1);
        assert_eq!(count(&alice, "alice", "initialize").await, times);
        assert_eq!(count(&alice, "alice", "tools/list").await, times);
        bob.leave().await;
        until_presence(&mut events, "bob", PresenceEvent::Leave).await;
    }
    let absent = alice.peer(&id("bob")).tools().await.unwrap_err();
    assert!(matches!(absent, CallError::Gone(_)), "{absent}");
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn lists_are_kept_until_they_change() {
    let gateway = gateway().await;
    let toolbox = echo();
    let _bob = entering(&gateway, "bob").offer(toolbox.clone()).join().await.unwrap();
    let (alice, mut events) = entering(&gateway, "alice").join_listening().await.unwrap();
    let peer = alice.peer(&id("bob"));
    for _ in 0..3 {
        assert!(peer.tool("say").await.unwrap().is_some());
    }
    assert_eq!(count(&alice, "alice", "tools/list").await, 1);

    toolbox.add(Tool::new("sing", "Sings", &any()), |_| async { Ok("la".into()) });
    until_sent(&mut events, "bob", "notifications/tools/list_changed").await;
    let names: Vec<_> = peer.tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["say", "sing"]);
    assert_eq!(peer.call_tool("sing", &()).await.unwrap().text(), "la");

    assert!(toolbox.remove("sing") && !toolbox.remove("sing"));
    until_sent(&mut events, "bob", "notifications/tools/list_changed").await;
    assert!(peer.tool("sing").await.unwrap().is_none());
    assert_eq!(count(&alice, "alice", "tools/list").await, 3);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn long_lists_are_read_to_the_end_and_endless_ones_are_not() {
    let gateway = gateway().await;
    let many = Toolbox::new("many");
    for n in 0..250 {
        many.add(Tool::new(format!("tool-{n:03}"), "One of many", &any()), |_| async { Ok("".into()) });
    }
    let _bob = entering(&gateway, "bob").offer(many).join().await.unwrap();
    let endless = Toolbox::new("endless").method("tools/list", |_| async {
        Ok(to_raw_value(&json!({"tools": [{"name": "a"}, {"nameless": true}], "nextCursor": "again"})).unwrap())
    });
    let _carol = entering(&gateway, "carol").offer(endless).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();

    let tools = within("every page", alice.peer(&id("bob")).tools()).await.unwrap().unwrap();
    assert_eq!(tools.len(), 250);
    assert_eq!(tools[249].name, "tool-249");
    assert_eq!(count(&alice, "alice", "tools/list").await, 3);

    let error = within("an end", alice.peer(&id("carol")).tools()).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the answer cannot be read: the answer to `tools/list` does not end");
    // A cursor that leads nowhere is followed once.
    assert_eq!(count(&alice, "alice", "tools/list").await, 5);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn progress_is_told_as_it_is_made() {
    let gateway = gateway().await;
    let counting = Toolbox::new("counting").tool("count", "Counts", any(), |call: ToolCall| async move {
        for n in 1..=3 {
            call.progress(f64::from(n), Some(3.0), Some(&format!("step {n}"))).await;
        }
        Ok("done".into())
    });
    let _bob = entering(&gateway, "bob").offer(counting).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let peer = alice.peer(&id("bob"));

    let (tell, mut told) = mpsc::channel(8);
    let call = peer.call_tool("count", &json!({})).on_progress(move |progress| tell.try_send(progress).unwrap());
    assert_eq!(within("the result", call.into_future()).await.unwrap().unwrap().text(), "done");
    let mut steps = Vec::new();
    while let Some(progress) = told.recv().await {
        steps.push((progress.progress, progress.total, progress.message.unwrap()));
    }
    assert_eq!(steps, [1, 2, 3].map(|n| (f64::from(n), Some(3.0), format!("step {n}"))));

    let mut running = peer.call_tool("count", &json!({})).start().await.unwrap();
    let mut reports = 0;
    while within("progress", running.progress()).await.unwrap().is_some() {
        reports += 1;
    }
    assert_eq!(reports, 3);
    assert_eq!(running.result().await.unwrap().text(), "done");
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_call_stops_the_tool() {
    let gateway = gateway().await;
    let (toolbox, mut told) = stuck();
    let _bob = entering(&gateway, "bob").offer(toolbox).join().await.unwrap();
    let (alice, mut events) = entering(&gateway, "alice").join_listening().await.unwrap();
    let peer = alice.peer(&id("bob"));

    let running = peer.call_tool("wait", &()).start().await.unwrap();
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("begun"));
    running.cancel("enough").await;
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("dropped"));

    // Dropping the handle, and running out of time, have the same effect.
    let running = peer.call_tool("wait", &()).start().await.unwrap();
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("begun"));
    drop(running);
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("dropped"));

    let late = within("a time-out", peer.call_tool("wait", &()).timeout(Duration::from_millis(50)).into_future());
    assert!(matches!(late.await.unwrap(), Err(CallError::TimedOut)));
    let late = within("a time-out", peer.call_tool("wait", &()).at_most(Duration::from_millis(50)).into_future());
    assert!(matches!(late.await.unwrap(), Err(CallError::TimedOut)));
    for _ in 0..4 {
        until_sent(&mut events, "alice", "notifications/cancelled").await;
    }
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_callee_that_leaves_fails_its_calls_at_once() {
    let gateway = gateway().await;
    let (toolbox, mut told) = stuck();
    let bob = entering(&gateway, "bob").offer(toolbox).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    // Without a limit of its own: only the leave can end it.
    let running =
        alice.peer(&id("bob")).call_tool("wait", &()).timeout(Duration::from_secs(3600)).start().await.unwrap();
    assert_eq!(within("the tool", told.recv()).await.unwrap(), Some("begun"));
    bob.leave().await;
    let error = within("the end of the call", running.result()).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Gone(_)), "{error}");
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_done_is_said_so() {
    let gateway = gateway().await;
    let toolbox = echo()
        .tool("fail", "Fails", any(), |_| async { Err(ToolError::failed("out of paper")) })
        .tool("parse", "Fails in a library", any(), |_| async { Ok("x".parse::<i32>()?.to_string().into()) })
        .tool("refuse", "Answers an error", any(), |_| async { Err(RpcError::new(-7, "not today").into()) });
    let _bob = entering(&gateway, "bob").offer(toolbox).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let peer = alice.peer(&id("bob"));
    let code = |error: CallError| match error {
        CallError::Answered(error) => (error.code, error.message),
        other => panic!("{other}"),
    };
    let failed = peer.call_tool("nothing", &()).await.unwrap_err();
    assert_eq!(code(failed), (-32602, "there is no tool `nothing` here".into()));
    let failed = peer.call_tool("say", &()).await.unwrap_err();
    assert_eq!(code(failed), (-32602, "the argument `text` is missing".into()));
    let failed = peer.call_tool("say", &json!({"text": 7})).await.unwrap_err();
    assert!(code(failed).1.starts_with("the argument `text`: invalid type"));
    let failed = peer.call_tool("say", &json!(["text"])).await.unwrap_err();
    assert_eq!(code(failed), (-32602, "the arguments of `say` must be an object".into()));
    assert_eq!(code(peer.call_tool("refuse", &()).await.unwrap_err()), (-7, "not today".into()));
    assert_eq!(code(peer.request("no/such", &json!({})).await.unwrap_err()).0, -32601);
    assert_eq!(code(peer.request("initialize", &json!({})).await.unwrap_err()).0, -32602);
    for (tool, text) in [("fail", "out of paper"), ("parse", "invalid digit found in string")] {
        let result = peer.call_tool(tool, &json!({})).await.unwrap();
        assert!(result.is_error);
        assert_eq!(result.text(), text);
    }
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn versions_are_negotiated() {
    let gateway = gateway().await;
    let _bob = entering(&gateway, "bob").offer(echo().instructions("Say something")).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    for (asked, answered) in [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("2199-01-01", "2025-06-18")]
    {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
        let answer = alice.request(&id("bob"), "initialize", &params).await.unwrap().result().await.unwrap();
        let answer: serde_json::Value = serde_json::from_str(answer.get()).unwrap();
        assert_eq!(answer["protocolVersion"], answered);
        assert_eq!(answer["capabilities"], json!({"tools": {"listChanged": true}}));
        assert_eq!(answer["instructions"], "Say something");
    }
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn numbers_of_any_size_pass() {
    const NUMBERS: &str = r#"{"z":123456789012345678901234567890,"a":9007199254740993,"f":1.10}"#;
    let gateway = gateway().await;
    let mirror = Toolbox::new("mirror").tool("mirror", "Gives back", any(), |call: ToolCall| async move {
        Ok(ToolResult::structured(call.arguments_raw())?)
    });
    let _bob = entering(&gateway, "bob").offer(mirror).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let arguments = RawValue::from_string(NUMBERS.into()).unwrap();
    let result = alice.peer(&id("bob")).call_tool("mirror", &arguments).await.unwrap();
    assert_eq!(result.structured.as_ref().unwrap().get(), NUMBERS);
    assert_eq!(result.text(), NUMBERS);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_callee_can_ask_its_caller_back() {
    let gateway = gateway().await;
    let asking = Toolbox::new("asking").tool("order", "Asks first", any(), |call: ToolCall| async move {
        let schema = json!({"type": "object", "properties": {"size": {"type": "string"}}});
        let answer = call.elicit(&Elicitation::new("Which size?", &schema)).await?;
        let size = answer.content.map(|content| content.get().to_owned()).unwrap_or_default();
        let messages = [salon_client::mcp::PromptMessage::user("a word")];
        let said = call.sample(&Sampling::new(messages, 10)).await?;
        Ok(format!("{:?} {size} {}", answer.action, said.content.as_text().unwrap_or_default()).into())
    });
    let _bob = entering(&gateway, "bob").offer(asking).join().await.unwrap();
    let person = Toolbox::new("person")
        .on_elicitation(|question, request| async move {
            assert_eq!((question.message.as_str(), request.from().as_str()), ("Which size?", "bob"));
            ElicitationAnswer::accept(&json!({"size": "large"})).map_err(|error| RpcError::internal(error.to_string()))
        })
        .on_sampling(|conversation, _| async move {
            let asked = conversation.messages[0].content.as_text().unwrap_or_default().to_owned();
            Ok(SamplingAnswer::new(format!("{asked}: yes"), "a model"))
        })
        .roots([salon_client::mcp::Root::new("file:///tmp")]);
    let alice = entering(&gateway, "alice").offer(person).join().await.unwrap();
    let result =
        within("the order", alice.peer(&id("bob")).call_tool("order", &()).into_future()).await.unwrap().unwrap();
    assert_eq!(result.text(), r#"Accept {"size":"large"} a word: yes"#);

    let roots = _bob.peer(&id("alice")).request("roots/list", &json!({})).await.unwrap();
    assert_eq!(roots.get(), r#"{"roots":[{"uri":"file:///tmp"}]}"#);
    // What it can be asked was said with the request: the other needs no handshake.
    let all = history(alice.client()).await;
    let greeting =
        all.iter().find(|envelope| envelope.from().as_str() == "alice" && envelope.message().is_some()).unwrap();
    let params: serde_json::Value = serde_json::from_str(greeting.params().unwrap()).unwrap();
    let said = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*said, json!({"elicitation": {}, "sampling": {}, "roots": {}}));
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn resources_and_prompts_work_the_same_way() {
    let gateway = gateway().await;
    let answer = |value: serde_json::Value| {
        let raw: Arc<RawValue> = to_raw_value(&value).unwrap().into();
        move |_: salon_client::Request| {
            let raw = raw.clone();
            async move { Ok(RawValue::from_string(raw.get().to_owned()).unwrap()) }
        }
    };
    let shelf = Toolbox::new("shelf")
        .capability("resources", json!({"subscribe": true}))
        .capability("prompts", json!({}))
        .method("resources/list", answer(json!({"resources": [{"uri": "memo:1", "name": "one"}]})))
        .method(
            "resources/templates/list",
            answer(json!({"resourceTemplates": [{"uriTemplate": "memo:{n}", "name": "any"}]})),
        )
        .method("resources/read", answer(json!({"contents": [{"uri": "memo:1", "text": "milk"}]})))
        .method("resources/subscribe", answer(json!({})))
        .method("resources/unsubscribe", answer(json!({})))
        .method(
            "prompts/list",
            answer(json!({"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": true}]}]})),
        )
        .method(
            "prompts/get",
            answer(json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}]})),
        )
        .method("completion/complete", answer(json!({"completion": {"values": ["Bob"], "hasMore": false}})))
        .method("logging/setLevel", answer(json!({})));
    let bob = entering(&gateway, "bob").offer(shelf).join().await.unwrap();
    let _carol = entering(&gateway, "carol").offer(echo()).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let peer = alice.peer(&id("bob"));

    assert_eq!(peer.resources().await.unwrap()[0].uri, "memo:1");
    assert_eq!(peer.resource_templates().await.unwrap()[0].uri_template, "memo:{n}");
    assert_eq!(peer.read_resource("memo:1").await.unwrap()[0].text.as_deref(), Some("milk"));
    let prompts = peer.prompts().await.unwrap();
    assert!(prompts[0].arguments[0].required);
    let filled = peer.get_prompt("greet", &json!({"who": "Bob"})).await.unwrap();
    assert!(matches!(&filled.messages[0].content, Content::Text(text) if text.text == "Hello"));
    let reference = Reference::Prompt { name: "greet".into() };
    assert_eq!(peer.complete(&reference, "who", "B").await.unwrap().values, ["Bob"]);
    peer.set_log_level(LogLevel::Warning).await.unwrap();

    let mut subscription = peer.subscribe("memo:1").await.unwrap();
    for uri in ["memo:10", "memo:1"] {
        bob.notify(&[id("alice")], "notifications/resources/updated", &json!({"uri": uri})).await.unwrap();
    }
    assert_eq!(within("an update", subscription.changed()).await.unwrap().as_deref(), Some("memo:1"));
    peer.unsubscribe("memo:1").await.unwrap();
    bob.leave().await;
    assert_eq!(within("the end", subscription.changed()).await.unwrap(), None);

    // A participant that offers none is not asked.
    let carol = alice.peer(&id("carol"));
    assert!(carol.resources().await.unwrap().is_empty() && carol.prompts().await.unwrap().is_empty());
    assert_eq!(count(&alice, "alice", "prompts/list").await, 1);
    gateway.stop().await.unwrap();
}

/// What a tool does is its own affair: neither its panic nor its waiting keeps the participant from anything.
#[tokio::test]
async fn a_tool_that_panics_or_waits_harms_only_itself() {
    let gateway = gateway().await;
    let (began, mut begun) = mpsc::channel(1);
    let tools = Toolbox::new("bob")
        .tool("panic", "Panics", any(), |call: ToolCall| {
            assert!(call.name().is_empty(), "on purpose");
            async { Ok("never".into()) }
        })
        .tool("wait", "Waits", any(), move |call: ToolCall| {
            let began = began.clone();
            async move {
                let _room = call.room();
                began.send(()).await.unwrap();
                std::future::pending::<()>().await;
                Ok("never".into())
            }
        })
        .tool("ping", "Answers", any(), |_: ToolCall| async { Ok("pong".into()) });
    let bob = entering(&gateway, "bob").offer(tools).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let peer = alice.peer(&id("bob"));
    let failed = within("the panic", async { peer.call_tool("panic", &json!({})).await }).await.unwrap();
    assert!(matches!(failed, Err(CallError::Answered(_))), "{failed:?}");
    let pong = peer.call_tool("ping", &json!({})).await.unwrap();
    assert_eq!(pong.text(), "pong");
    // A call that waits for ever does not keep its callee in a room that it has let go of.
    let waiting = peer.call_tool("wait", &json!({})).start().await.unwrap();
    within("the tool to begin", begun.recv()).await.unwrap().unwrap();
    drop(bob);
    let gone = within("the leave", waiting.result()).await.unwrap();
    assert!(matches!(gone, Err(CallError::Gone(_))), "{gone:?}");
    gateway.stop().await.unwrap();
}

/// The arguments of a tool, from which its schema is made.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Book {
    /// Where to go
    place: String,
    #[serde(default)]
    seats: u8,
}

#[tokio::test]
async fn a_typed_tool_has_a_schema_and_refuses_what_does_not_fit() {
    let gateway = gateway().await;
    let tools =
        Toolbox::new("travel").typed_tool("book", "Books seats", |Book { place, seats }, call: ToolCall| async move {
            Ok(format!("{seats} to {place} for {}", call.caller()).into())
        });
    let bob = entering(&gateway, "bob").offer(tools).join().await.unwrap();
    let alice = entering(&gateway, "alice").join().await.unwrap();
    let peer = alice.peer(&id("bob"));
    let tool = peer.tool("book").await.unwrap().unwrap();
    let schema: serde_json::Value = serde_json::from_str(tool.input_schema.get()).unwrap();
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["place"])));
    assert_eq!(schema["properties"]["place"], json!({"type": "string", "description": "Where to go"}));
    let booked = peer.call_tool("book", &json!({"place": "Rome", "seats": 2})).await.unwrap();
    assert_eq!(booked.text(), "2 to Rome for alice");
    for (arguments, why) in [
        (json!({"seats": 2}), "missing field `place`"),
        (json!({"place": "Rome", "seats": 300}), "invalid value: integer `300`, expected u8"),
        (json!(["Rome"]), "must be an object"),
    ] {
        let refused = peer.call_tool("book", &arguments).await;
        let Err(CallError::Answered(RpcError { code: RpcError::INVALID_PARAMS, message, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert!(message.starts_with("the arguments of `book` ") && message.contains(why), "{message}");
    }
    drop(bob);
    gateway.stop().await.unwrap();
}
