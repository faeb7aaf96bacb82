//! A participant that speaks only MCP 2026-07-28, called as any other.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use salon_client::mcp::{ElicitationAnswer, LogLevel, Root};
use salon_client::protocol::Message;
use salon_client::{CallError, Outgoing, Request, ResultError, Room, RpcError, Service, Toolbox};
use salon_testkit::{TestGateway, within};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::peers::count;
use crate::stage::{entering, gateway, id};

const REVISION: &str = "2026-07-28";
const META: &str = "io.modelcontextprotocol/";

type Answer = BoxFuture<'static, Result<Value, RpcError>>;

/// Answers as a server of 2026-07-28 does: without a handshake, and only to requests that say who asks.
struct Modern<F> {
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    answer: F,
}

impl<F: Fn(&str, &Value, Request) -> Answer + Send + Sync + 'static> Service for Modern<F> {
    fn request(&self, request: Request) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let method = request.method().to_owned();
        let params: Value = request.params().unwrap_or_default();
        let meta = |key: &str| params["_meta"][format!("{META}{key}")].clone();
        if matches!(&*method, "initialize" | "ping" | "logging/setLevel" | "resources/subscribe") {
            return std::future::ready(Err(RpcError::method_not_found(&method))).boxed();
        }
        if meta("protocolVersion") != REVISION || !meta("clientCapabilities").is_object() {
            return std::future::ready(Err(RpcError::invalid_params("`_meta` does not say who asks"))).boxed();
        }
        self.requests.lock().push((method.clone(), params.clone()));
        let answer = (self.answer)(&method, &params, request);
        async move { Ok(to_raw_value(&answer.await?).unwrap()) }.boxed()
    }
}

struct Stage {
    gateway: TestGateway,
    bob: Room,
    /// What bob was asked: methods and parameters.
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Stage {
    async fn new(answer: impl Fn(&str, &Value, Request) -> Answer + Send + Sync + 'static) -> Self {
        let gateway = gateway().await;
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let service = Modern { requests: requests.clone(), answer };
        let bob = entering(&gateway, "bob").versions([REVISION]).offer(service).join().await.unwrap();
        Self { gateway, bob, requests }
    }

    fn asked(&self, method: &str) -> Vec<Value> {
        let requests = self.requests.lock();
        requests.iter().filter(|(asked, _)| asked == method).map(|(_, params)| params.clone()).collect()
    }
}

fn done(result: Value) -> Answer {
    std::future::ready(Ok(result)).boxed()
}

fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [REVISION],
        "capabilities": { "tools": {}, "resources": { "subscribe": true } },
        "instructions": "be gentle",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "Bob's", "version": "7" } },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_discovered_listed_and_called_without_a_handshake() {
    let stage = Stage::new(|method, params, request| match method {
        "server/discover" => done(discovered()),
        "tools/list" => {
            let name = if params["cursor"] == "2" { "book" } else { "look" };
            let mut page = json!({ "resultType": "complete", "tools": [{ "name": name }], "ttlMs": 60_000 });
            if params["cursor"].is_null() {
                page["nextCursor"] = "2".into();
            }
            done(page)
        }
        "resources/list" => done(json!({ "resultType": "complete", "resources": [{ "uri": "a:b", "name": "b" }] })),
        _ => async move {
            request.progress(1.0, Some(2.0), Some("half way")).await;
            Ok(text("booked"))
        }
        .boxed(),
    })
    .await;
    let alice = entering(&stage.gateway, "alice").name("Alice").join().await.unwrap();
    let bob = alice.peer(&id("bob"));
    within("a sign of life", bob.ping()).await.unwrap().unwrap();
    let server = within("the server", bob.server()).await.unwrap().unwrap();
    assert_eq!((&*server.protocol_version, server.instructions.as_deref()), (REVISION, Some("be gentle")));
    assert_eq!(server.server_info.as_ref().unwrap().name, "Bob's");

    // Kept for as long as it says; where it says nothing, not at all.
    for _ in 0..2 {
        let tools = within("its tools", bob.tools()).await.unwrap().unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["look", "book"]);
        assert_eq!(bob.resources().await.unwrap().len(), 1);
    }
    assert_eq!((stage.asked("tools/list").len(), stage.asked("resources/list").len()), (2, 2));
    assert!(bob.prompts().await.unwrap().is_empty());

    bob.set_log_level(LogLevel::Warning).await.unwrap();
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let tell = seen.clone();
    let call = bob.call_tool("book", &json!({ "n": 1 })).on_progress(move |at| tell.lock().push(at.progress));
    assert_eq!(within("the result", call.into_future()).await.unwrap().unwrap().text(), "booked");
    assert_eq!(*seen.lock(), [1.0]);
    let params = stage.asked("tools/call").remove(0);
    assert_eq!((&params["name"], &params["arguments"]), (&json!("book"), &json!({ "n": 1 })));
    let meta = |key: &str| &params["_meta"][format!("{META}{key}")];
    assert_eq!((meta("clientInfo")["name"].as_str(), meta("logLevel")), (Some("Alice"), &json!("warning")));
    assert_eq!(count(&alice, "alice", "initialize").await, 0);
    drop(stage.bob);
    stage.gateway.stop().await.unwrap();
}

/// Asks for `questions` until it gets answers, then says what they were.
async fn asking(questions: Value) -> Stage {
    Stage::new(move |method, params, _| match method {
        "server/discover" => done(discovered()),
        _ if params["inputResponses"].is_null() => {
            done(json!({ "resultType": "input_required", "inputRequests": questions, "requestState": { "round": 1 } }))
        }
        _ => done(text(&format!("{} {}", params["inputResponses"], params["requestState"]))),
    })
    .await
}

fn form() -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    json!({ "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": schema } })
}

#[tokio::test]
async fn what_it_asks_back_is_answered_and_the_call_goes_on() {
    let stage = asking(json!({ "who": form(), "where": { "method": "roots/list" } })).await;
    let tools = Toolbox::new("alice").roots([Root::new("file:///tmp")]).on_elicitation(|asked, request| async move {
        assert_eq!((&*asked.message, request.from().as_str(), request.method()), ("Who?", "bob", "elicitation/create"));
        Ok(ElicitationAnswer::accept(&json!({ "name": "Ann" })).unwrap())
    });
    let alice = entering(&stage.gateway, "alice").offer(tools).join().await.unwrap();
    let call = alice.peer(&id("bob")).call_tool("book", &json!({ "n": 1 }));
    let result = within("the result", call.into_future()).await.unwrap().unwrap();
    assert_eq!(
        result.text(),
        r#"{"where":{"roots":[{"uri":"file:///tmp"}]},"who":{"action":"accept","content":{"name":"Ann"}}} {"round":1}"#
    );
    let rounds = stage.asked("tools/call");
    assert_eq!(rounds.len(), 2);
    for params in rounds {
        assert_eq!(params["_meta"][format!("{META}clientCapabilities")], json!({ "elicitation": {}, "roots": {} }));
        assert_eq!((&params["name"], &params["arguments"]), (&json!("book"), &json!({ "n": 1 })));
    }
    drop(stage.bob);
    stage.gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_person_who_cannot_be_asked_declines_or_cancels() {
    let stage = asking(json!({ "who": form() })).await;
    let nobody = entering(&stage.gateway, "nobody").join().await.unwrap();
    let broken = Toolbox::new("broken").on_elicitation(|_, _| async { panic!("a bug of the person's program") });
    let broken = entering(&stage.gateway, "broken").offer(broken).join().await.unwrap();
    for (room, action) in [(nobody, "decline"), (broken, "cancel")] {
        let call = room.peer(&id("bob")).call_tool("book", &());
        let result = within("the result", call.into_future()).await.unwrap().unwrap();
        assert_eq!(result.text(), format!(r#"{{"who":{{"action":"{action}"}}}} {{"round":1}}"#));
    }
    drop(stage.bob);
    stage.gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_fails_that_asks_for_what_nobody_here_gives() {
    let sampling = json!({ "method": "sampling/createMessage", "params": { "messages": [] } });
    let stage = asking(json!({ "what": sampling })).await;
    let alice = entering(&stage.gateway, "alice").join().await.unwrap();
    let call = alice.peer(&id("bob")).call_tool("book", &());
    let failed = within("the failure", call.into_future()).await.unwrap();
    let Err(CallError::NoInput { method, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(method, "sampling/createMessage");
    drop(stage.bob);
    stage.gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_that_only_asks_is_given_up() {
    let stage = Stage::new(|method, _, _| match method {
        "server/discover" => std::future::ready(Err(RpcError::method_not_found("server/discover"))).boxed(),
        _ => done(json!({ "resultType": "input_required", "inputRequests": { "where": { "method": "roots/list" } } })),
    })
    .await;
    let tools = Toolbox::new("alice").roots([]);
    let alice = entering(&stage.gateway, "alice").offer(tools).join().await.unwrap();
    let call = alice.peer(&id("bob")).call_tool("book", &());
    let failed = within("the failure", call.into_future()).await.unwrap();
    assert!(matches!(failed, Err(CallError::Unreadable(ResultError::TooMuchInput(_)))), "{failed:?}");
    assert_eq!(stage.asked("tools/call").len(), 11);
    drop(stage.bob);
    stage.gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_call_is_cancelled_in_whichever_round_it_is() {
    let (tell, mut told) = mpsc::channel::<&str>(8);
    let stage = Stage::new(move |method, params, request| match method {
        "server/discover" => done(discovered()),
        _ if params["name"] == "second" && params["inputResponses"].is_null() => {
            done(json!({ "resultType": "input_required", "inputRequests": { "where": { "method": "roots/list" } } }))
        }
        _ => {
            let tell = tell.clone();
            // The work is dropped when it is cancelled, so somebody else has to watch.
            tokio::spawn(async move {
                tell.send("begun").await.unwrap();
                request.cancelled().cancelled().await;
                tell.send("cancelled").await.unwrap();
            });
            std::future::pending().boxed()
        }
    })
    .await;
    let alice = entering(&stage.gateway, "alice").offer(Toolbox::new("alice").roots([])).join().await.unwrap();
    for tool in ["first", "second"] {
        let call = tokio::spawn(alice.peer(&id("bob")).call_tool(tool, &()).into_future());
        assert_eq!(within("the work", told.recv()).await.unwrap(), Some("begun"), "{tool}");
        call.abort();
        assert_eq!(within("its end", told.recv()).await.unwrap(), Some("cancelled"), "{tool}");
    }
    // Too late in either round.
    let call = alice.peer(&id("bob")).call_tool("second", &()).timeout(Duration::from_millis(50));
    assert!(matches!(within("the end", call.into_future()).await.unwrap(), Err(CallError::TimedOut)));
    drop(stage.bob);
    stage.gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_subscription_is_a_request_that_stays_open() {
    let (tell, mut told) = mpsc::channel::<&str>(8);
    let stage = Stage::new(move |method, params, request| match method {
        "server/discover" => done(discovered()),
        "subscriptions/listen" => {
            assert_eq!(params["notifications"], json!({ "resourceSubscriptions": ["a:b"] }));
            let tell = tell.clone();
            tokio::spawn(async move {
                notify(&request, "notifications/subscriptions/acknowledged", json!({})).await;
                notify(&request, "notifications/resources/updated", json!({ "uri": "a:other" })).await;
                notify(&request, "notifications/resources/updated", json!({ "uri": "a:b" })).await;
                request.cancelled().cancelled().await;
                tell.send("cancelled").await.unwrap();
            });
            std::future::pending().boxed()
        }
        _ => done(json!({})),
    })
    .await;
    let alice = entering(&stage.gateway, "alice").join().await.unwrap();
    let bob = alice.peer(&id("bob"));
    let mut subscription = within("the subscription", bob.subscribe("a:b")).await.unwrap().unwrap();
    assert_eq!(within("a change", subscription.changed()).await.unwrap().as_deref(), Some("a:b"));
    bob.unsubscribe("a:b").await.unwrap();
    drop(subscription);
    assert_eq!(within("its end", told.recv()).await.unwrap(), Some("cancelled"));
    assert_eq!(count(&alice, "alice", "resources/subscribe").await, 0);
    drop(stage.bob);
    stage.gateway.stop().await.unwrap();
}

/// Notifies the maker of a request about it.
async fn notify(request: &Request, method: &str, mut params: Value) {
    let Some(Message::Request { id, .. }) = request.envelope().message() else { panic!("a request") };
    params["_meta"] =
        json!({ "io.modelcontextprotocol/subscriptionId": serde_json::from_str::<Value>(&id.to_json()).unwrap() });
    let payload = to_raw_value(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).unwrap();
    let outgoing = Outgoing::new(payload).to([request.from().clone()]).correlation(request.envelope().id().clone());
    request.room().publish(outgoing).await.unwrap();
}
