//! A server that speaks only the draft dialect, in a room among participants who know nothing of it.

#![expect(clippy::unwrap_used, reason = "these are tests, their helpers included")]

use std::process::Stdio;
use std::sync::Arc;

use salon_client::{Client, Discovery, Event, Events, Gateway, Outgoing, Room, StaticToken};
use salon_guests::upstream::{GuestTarget, UrlTransport};
use salon_guests::{GuestError, GuestStatus, Spec};
use salon_protocol::{Envelope, EnvelopeId, Members, ParticipantId, TopicName};
use salon_testkit::{Scratch, TestEngine, TestOptions, TestToken, within};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const SERVER: &str = env!("CARGO_BIN_EXE_draft-server");

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Stdio,
    Http,
    WebSocket,
}

struct Stage {
    gateway: salon_testkit::TestGateway,
    scratch: Scratch,
    statuses: mpsc::UnboundedReceiver<GuestStatus>,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), GuestError>>,
    room: Room,
    events: Events,
    _server: Option<Child>,
}

impl Stage {
    /// The server is a guest, and `alice` is there to call it.
    async fn new(wire: Wire, strict: bool) -> Self {
        let gateway = salon_testkit::TestGateway::start(TestOptions::new(TestEngine::Sqlite)).await.unwrap();
        let scratch = Scratch::new().unwrap();
        let heard = scratch.path().join("heard");
        let mut args: Vec<std::ffi::OsString> = vec!["--heard".into(), heard.into()];
        args.extend(strict.then(|| "--strict".into()));
        let (target, server) = match wire {
            Wire::Stdio => (GuestTarget::Command { program: SERVER.into(), args, env: Vec::new(), cwd: None }, None),
            Wire::Http | Wire::WebSocket => {
                let flag = if wire == Wire::Http { "--http" } else { "--ws" };
                let mut command = Command::new(SERVER);
                command.args([flag, "127.0.0.1:0"]).args(args).stdout(Stdio::piped()).kill_on_drop(true);
                let mut server = command.spawn().unwrap();
                let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
                let url = within("the server's address", said.next_line()).await.unwrap().unwrap().unwrap();
                (GuestTarget::Url { url, headers: Vec::new(), transport: UrlTransport::Auto }, Some(server))
            }
        };
        let client = |id: &str| {
            let at = Gateway::new(&format!("http://{}", gateway.address())).unwrap();
            Client::new(at, StaticToken::new(gateway.token(&TestToken::new(id)).unwrap()))
        };
        let topic = TopicName::new("room:draft").unwrap();
        let (guest, here) = (client("guest"), topic.clone());
        let (told, statuses) = mpsc::unbounded_channel();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let running = tokio::spawn(async move {
            let watch = move |status| drop(told.send(status));
            salon_guests::run(Spec::new("guest", target), move || guest.room(here.clone()), stop, watch).await
        });
        let entering = client("alice").room(topic).answer_by_hand().discovery(Discovery::OnDemand);
        let (room, events) = within("alice to enter", entering.join_listening()).await.unwrap().unwrap();
        Self { gateway, scratch, statuses, shutdown, running, room, events, _server: server }
    }

    /// Waits until the guest is in the room, and says how many tools it has.
    async fn here(&mut self) -> (String, usize) {
        loop {
            match within("a status", self.statuses.recv()).await.unwrap().unwrap() {
                GuestStatus::Here { server, tools } => return (server, tools),
                GuestStatus::Restarting { why, .. } | GuestStatus::SignInNeeded { why, .. } => panic!("{why}"),
                _ => {}
            }
        }
    }

    async fn send(&self, payload: &Value) -> EnvelopeId {
        let to = vec![ParticipantId::new("guest").unwrap()];
        let payload = RawValue::from_string(payload.to_string()).unwrap();
        self.publish(to, payload).await
    }

    async fn publish(&self, to: Vec<ParticipantId>, payload: Box<RawValue>) -> EnvelopeId {
        let publish = self.room.publish(Outgoing::new(payload).to(to));
        within("a message to be stored", publish).await.unwrap().unwrap().id().clone()
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let request = self.send(&request).await;
        self.answer(&request).await
    }

    async fn until(&mut self, what: &str, fits: impl Fn(&Envelope) -> bool) -> Arc<Envelope> {
        let search = async {
            loop {
                match self.events.next().await.expect("alice stays") {
                    Event::Envelope(envelope) if fits(&envelope) => return envelope,
                    _ => {}
                }
            }
        };
        within(what, search).await.unwrap()
    }

    async fn answer(&mut self, request: &EnvelopeId) -> Value {
        let is_answer = |envelope: &Envelope| {
            let payload = Members::parse(envelope.payload()).unwrap_or_default();
            envelope.correlation() == Some(request) && payload.get("method").is_none()
        };
        let answer = self.until("an answer", is_answer).await;
        serde_json::from_str(answer.payload()).unwrap()
    }

    async fn told(&mut self, method: &str) -> Value {
        let named = serde_json::to_string(method).unwrap();
        let fits = |envelope: &Envelope| {
            let payload = Members::parse(envelope.payload()).unwrap_or_default();
            envelope.from().as_str() == "guest" && payload.get("method").is_some_and(|said| said.get() == named)
        };
        let told = self.until(method, fits).await;
        serde_json::from_str(told.payload()).unwrap()
    }

    /// Ends the guest; gives what its server heard.
    async fn end(self) -> Vec<String> {
        self.shutdown.cancel();
        within("the guest to end", self.running).await.unwrap().unwrap().unwrap();
        let heard = std::fs::read_to_string(self.scratch.path().join("heard")).unwrap();
        drop((self.room, self.events));
        self.gateway.stop().await.unwrap();
        heard.lines().map(str::to_owned).collect()
    }
}

async fn takes_part(wire: Wire) {
    let mut stage = Stage::new(wire, false).await;
    assert_eq!(stage.here().await, ("draft-server 1.0.0".to_owned(), 7), "{wire:?}");

    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    let introduced = stage.ask("initialize", &hello).await;
    assert_eq!(introduced["result"]["serverInfo"], json!({ "name": "draft-server", "version": "1.0.0" }));
    assert_eq!(introduced["result"]["protocolVersion"], "2025-06-18");
    let tools = stage.ask("tools/list", &json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "echo");
    let resources = stage.ask("resources/list", &json!({})).await;
    assert_eq!(resources["result"]["resources"], json!([{ "uri": "memo://1", "name": "a memo" }]));

    // Numbers beyond what a double holds, and words beyond ASCII, come back as they were written.
    let arguments = r#"{"city":"Zürich 東京","n":123456789012345678901234567890}"#;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"é","method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
    );
    let call = stage.publish(vec![ParticipantId::new("guest").unwrap()], RawValue::from_string(call).unwrap()).await;
    let echoed = stage.until("the echo", |envelope| envelope.correlation() == Some(&call)).await;
    assert!(echoed.payload().contains(&format!(r#""structuredContent":{arguments}"#)), "{}", echoed.payload());
    assert!(echoed.payload().contains(r#""id":"é""#), "{}", echoed.payload());

    let said = stage.ask("tools/call", &json!({ "name": "say" })).await;
    assert_eq!(said["result"], json!({ "content": [{ "type": "text", "text": "Grüße, said the server" }] }));
    let failed = stage.ask("tools/call", &json!({ "name": "fail" })).await;
    assert_eq!(failed["result"], json!({ "content": [{ "type": "text", "text": "it broke" }], "isError": true }));
    let refused = stage.ask("tools/call", &json!({ "name": "need" })).await;
    assert_eq!(refused["error"], json!({ "code": -32602, "message": "Missing required parameter 'city'" }));

    // Changes are announced by MCP's notifications, and the changed items can be used.
    let grown = stage.ask("tools/call", &json!({ "name": "grow" })).await;
    assert_eq!(grown["result"]["content"][0]["text"], "true");
    loop {
        let changed = stage.told("notifications/tools/list_changed").await;
        if changed["params"]["tools"].as_array().is_some_and(|tools| tools.contains(&json!("grown"))) {
            break;
        }
    }
    let grown = stage.ask("tools/call", &json!({ "name": "grown" })).await;
    assert_eq!(grown["result"], json!({ "content": [{ "type": "text", "text": "tall" }] }));
    assert_eq!(stage.ask("resources/subscribe", &json!({ "uri": "memo://1" })).await["result"], json!({}));
    let touched =
        stage.send(&json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": { "name": "touch" } })).await;
    let updated = stage.told("notifications/resources/updated").await;
    assert_eq!(updated["params"], json!({ "uri": "memo://1" }));
    assert_eq!(stage.answer(&touched).await["result"]["content"], json!([]));

    let heard = stage.end().await;
    assert_eq!(heard[heard.len() - 2..], ["shutdown", "exit"], "{wire:?}: {heard:?}");
    assert!(
        heard.contains(&"initialized".to_owned()) && !heard.iter().any(|method| method == "tools/call"),
        "{heard:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_takes_part() {
    takes_part(Wire::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_behind_http_takes_part() {
    takes_part(Wire::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_behind_a_websocket_takes_part() {
    takes_part(Wire::WebSocket).await;
}

/// Progress carries the caller's token, and a cancelled call is cancelled at the server.
async fn gets_on(wire: Wire) {
    let mut stage = Stage::new(wire, false).await;
    stage.here().await;
    let params = json!({ "name": "wait", "_meta": { "progressToken": "mine" } });
    stage.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    let progress = stage.told("notifications/progress").await;
    let expected = json!({ "progressToken": "mine", "progress": 25, "total": 100, "message": "Searching..." });
    assert_eq!(progress["params"], expected);
    stage.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })).await;
    let said = stage.ask("tools/call", &json!({ "name": "say" })).await;
    assert_eq!(said["result"]["content"][0]["text"], "Grüße, said the server");
    let heard = stage.end().await;
    assert!(heard.contains(&"cancel".to_owned()), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_get_on_and_are_taken_back() {
    gets_on(Wire::Stdio).await;
    gets_on(Wire::WebSocket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_only_its_own_parameters_is_asked_again() {
    for wire in [Wire::Stdio, Wire::Http, Wire::WebSocket] {
        let mut stage = Stage::new(wire, true).await;
        assert_eq!(stage.here().await.1, 7, "{wire:?}");
        let heard = stage.end().await;
        assert_eq!(heard.last().map(String::as_str), Some("exit"), "{wire:?}: {heard:?}");
    }
}
