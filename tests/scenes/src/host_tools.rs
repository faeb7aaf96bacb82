//! Every tool of the gateway answers as its `outputSchema` says.

use std::collections::BTreeSet;

use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, Scratch, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken};
use serde_json::{Value, json};

use crate::tables::{self, Logs};

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "host_tools",
        &[
            ("answer as their schemas say", Logs::Every, |engine| Box::pin(answers_fit(engine))),
            ("are in the audit trail where they remove something", Logs::Every, |engine| Box::pin(removals(engine))),
        ],
    )
}

/// A call of each tool, in an order in which all of them succeed. `$ID` and `$DIGEST` are of the call that is held.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("presence.get", json!({})),
        ("presence.set", json!({ "status": "working", "text": "testing", "until": "2027-01-01T00:00:00Z" })),
        ("presence.get", json!({})),
        ("presence.set", json!({ "status": null })),
        ("dm.open", json!({ "with": ["bob"] })),
        ("chat.say", json!({ "text": "hello" })),
        ("chat.edit", json!({ "id": "$SAID", "text": "hello!" })),
        ("message.status", json!({ "id": "$SAID" })),
        ("chat.retract", json!({ "id": "$SAID" })),
        ("message.redact", json!({ "id": "$SAID", "reason": "a test" })),
        ("history.get", json!({ "limit": 3 })),
        ("room.search", json!({ "query": "hello" })),
        ("room.find_tools", json!({ "query": "wait" })),
        ("room.call_all", json!({ "tool": "move", "timeout_ms": 0 })),
        ("room.wait", json!({ "timeout_ms": 0 })),
        ("topic.get", json!({})),
        ("topic.configure", json!({ "change": { "rules": [{ "hold": "call:bob/*", "self_approval": true }] } })),
        ("topic.get", json!({})),
        ("participant.pause", json!({ "participant": "carol" })),
        ("participant.resume", json!({ "participant": "carol" })),
        ("participant.remove", json!({ "participant": "carol" })),
        ("participant.readmit", json!({ "participant": "carol" })),
        ("room.stop", json!({})),
        ("room.resume", json!({})),
        ("approval.list", json!({})),
        ("approval.decide", json!({ "id": "held", "digest": "$DIGEST", "decision": "deny", "reason": "a test" })),
        ("context.put", json!({ "key": "plan", "value": { "steps": [1, 2] } })),
        ("context.get", json!({ "key": "plan" })),
        ("context.list", json!({})),
        ("context.watch", json!({ "key": "plan" })),
        ("context.delete", json!({ "key": "plan" })),
        ("context.history", json!({ "key": "plan" })),
    ]
}

struct Caller {
    socket: TestSocket,
    requests: usize,
}

impl Caller {
    async fn join(gateway: &TestGateway, id: &str) -> Result<Self, Failure> {
        let token = gateway.token(&TestToken::new(id))?;
        let call = HttpCall::new("GET", "/v0/ws?topic=room:alpha").bearer(&token);
        let socket = TestSocket::connect(gateway.address(), call).await?;
        let socket = socket.map_err(|answer| format!("{id} cannot join: {} {}", answer.status, answer.body))?;
        Ok(Self { socket, requests: 0 })
    }

    /// The next envelope that fits.
    async fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
        loop {
            match self.socket.next().await? {
                TestSocketEvent::Text(text) => {
                    let envelope = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
                    if fits(&envelope) {
                        return Ok(envelope);
                    }
                }
                other => return Err(format!("{other:?} came")),
            }
        }
    }

    async fn send(&mut self, id: &str, to: &str, method: &str, params: &Value) -> Result<(), Failure> {
        let payload = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let envelope = json!({
            "protocol": "mcp-x/v0", "id": id, "ts": "2026-01-01T00:00:00Z", "from": "alice", "to": [to], "kind": "mcp", "payload": payload
        });
        self.socket.text(envelope.to_string()).await
    }

    async fn ask_host(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        self.requests += 1;
        let id = format!("r{}", self.requests);
        self.send(&id, "system:gateway", method, params).await?;
        let answer = self
            .wait_for(|envelope| {
                envelope["correlation_id"] == id
                    && envelope["from"] == "system:gateway"
                    && envelope["payload"]["method"].is_null()
                    && envelope["kind"] == "mcp"
            })
            .await?;
        match &answer["payload"]["result"] {
            Value::Null => Err(format!("{method} {params}: {}", answer["payload"])),
            result => Ok(result.clone()),
        }
    }
}

async fn answers_fit(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("auth.create_topics", "anyone")?).await?;
    let mut alice = Caller::join(&gateway, "alice").await?;
    let _bob = Caller::join(&gateway, "bob").await?;
    // Once there are settings, everything is listed that an owner may call.
    let configured = json!({ "name": "topic.configure", "arguments": { "change": { "title": "Tools" } } });
    alice.ask_host("tools/call", &configured).await?;
    let listed = alice.ask_host("tools/list", &json!({})).await?;
    let tools = listed["tools"].as_array().ok_or("no tools")?.clone();
    let mut left: BTreeSet<String> = tools.iter().filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect();
    let mut known = [("$SAID", String::new()), ("$DIGEST", String::new())];
    for (name, arguments) in calls() {
        if name == "approval.list" {
            let call = json!({ "name": "move", "arguments": {} });
            alice.send("held", "bob", "tools/call", &call).await?;
            let held =
                alice.wait_for(|envelope| envelope["payload"]["method"] == "notifications/approval/requested").await?;
            known[1].1 = held["payload"]["params"]["digest"].as_str().unwrap_or_default().to_owned();
        }
        let mut written = arguments.to_string();
        known.iter().for_each(|(variable, value)| written = written.replace(variable, value));
        let arguments: Value = serde_json::from_str(&written).map_err(|error| error.to_string())?;
        let result = alice.ask_host("tools/call", &json!({ "name": name, "arguments": arguments })).await?;
        // That nobody offers a tool is an error with a result.
        if result["isError"] == true && result["structuredContent"].is_null() {
            return Err(format!("{name} {arguments} fails: {result}"));
        }
        let tool = tools.iter().find(|tool| tool["name"] == name).ok_or(format!("{name} is not listed"))?;
        let found = &result["structuredContent"];
        let schema = jsonschema::validator_for(&tool["outputSchema"]).map_err(|error| format!("{name}: {error}"))?;
        if let Err(error) = schema.validate(found) {
            return Err(format!("{name} {arguments} answers {found}, which its outputSchema does not allow: {error}"));
        }
        if name == "chat.say" {
            known[0].1 = found["id"].as_str().unwrap_or_default().to_owned();
        }
        left.remove(name);
    }
    if left.is_empty() { Ok(()) } else { Err(format!("these tools are not called here: {left:?}")) }
}

/// What is redacted, the files that go with it, and a topic that is deleted.
async fn removals(engine: TestEngine) -> Result<(), Failure> {
    let trail = Scratch::new().map_err(|error| error.to_string())?;
    let file = trail.path().join("audit.log");
    let options = TestOptions::new(engine).set("auth.create_topics", "anyone")?;
    let options = options.set("audit.file", &file.to_string_lossy())?;
    let gateway = TestGateway::start(options).await?;
    let mut alice = Caller::join(&gateway, "alice").await?;
    let mut uris = Vec::new();
    for author in ["alice", "bob"] {
        let token = gateway.token(&TestToken::new(author))?;
        let put = HttpCall::new("POST", "/v0/topics/room:alpha/files?name=plan.txt").bearer(&token).body("hello");
        let put = put.send(gateway.address()).await?;
        let uploaded: Value = serde_json::from_str(&put.body).map_err(|error| format!("{error}: {}", put.body))?;
        uris.push(uploaded["uri"].as_str().ok_or_else(|| put.body.clone())?.to_owned());
    }
    let content = json!({ "jsonrpc": "2.0", "method": "notifications/note", "params": { "links": uris } });
    let linking = json!({
        "protocol": "mcp-x/v0", "id": "linking", "ts": "2026-01-01T00:00:00Z", "from": "alice", "kind": "mcp", "payload": content
    });
    alice.socket.text(linking.to_string()).await?;
    alice.wait_for(|envelope| envelope["id"] == "linking").await?;
    let redact = json!({ "name": "message.redact", "arguments": { "id": "linking" } });
    alice.ask_host("tools/call", &redact).await?;
    let token = gateway.token(&TestToken::new("alice"))?;
    let deleted = HttpCall::new("DELETE", "/v0/topics/room:alpha").bearer(&token).send(gateway.address()).await?;
    if deleted.status != 204 {
        return Err(format!("the topic is not deleted: {} {}", deleted.status, deleted.body));
    }
    // The trail is whole once the gateway has ended.
    drop(alice);
    gateway.stop().await?;
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_topic = records.filter(|record| record["topic"] == "room:alpha" && record["participant"] == "alice");
    let found: Vec<_> = of_topic.map(|record| (record["event"].clone(), record["reason"].clone())).collect();
    // Bob's file stays until the topic is deleted: alice only links it.
    let id = uris[0].trim_start_matches("salon-file://");
    let removed = [(json!("file_removed"), json!(id)), (json!("message_redacted"), json!("linking"))];
    let expected = [&removed[..], &[(json!("topic_deleted"), Value::Null)]].concat();
    let is_removal = |(event, _): &&(Value, Value)| expected.iter().any(|(kind, _)| kind == event);
    let found: Vec<_> = found.iter().filter(is_removal).cloned().collect();
    if found == expected { Ok(()) } else { Err(format!("the trail has {found:?}")) }
}
