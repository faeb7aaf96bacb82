//! `salon mcp` in a real room.

use std::process::Stdio;

use salon_testkit::{eventually, run, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::stage::{Stage, TOPIC, Working};

/// An MCP client, as far as it takes one here.
struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Client {
    async fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let mut command = stage.person(&stage.token("helper", ""), &["mcp", TOPIC]);
        let mut child = command.args(arguments).stdin(Stdio::piped()).spawn().expect("it starts");
        let stdin = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut client = Self { child, stdin, lines };
        let info = json!({ "name": "Helping hand", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let welcome = client.ask(0, "initialize", hello).await;
        assert_eq!(welcome["result"]["protocolVersion"], "2025-06-18", "{welcome}");
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn say(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    }

    /// The answer to a request; notifications pass by.
    async fn answer(&mut self, id: u64) -> Value {
        let answering = async {
            while let Some(line) = self.lines.next_line().await.expect("UTF-8") {
                let message: Value = serde_json::from_str(&line).expect("standard output has messages alone");
                if message["id"] == id {
                    return message;
                }
            }
            panic!("it ended without an answer to {id}");
        };
        within("an answer", answering).await.expect("in time")
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.answer(id).await
    }

    async fn tools(&mut self, id: u64) -> Vec<String> {
        let listed = self.ask(id, "tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("a list: {listed}"));
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    async fn end(self) -> Option<i32> {
        drop(self.stdin);
        let output = within("the end", self.child.wait_with_output()).await.expect("in time").expect("it was started");
        output.status.code()
    }
}

#[test]
fn a_client_uses_the_tools_of_a_room_and_is_seen_in_it() {
    run(async {
        let stage = Stage::new().await;
        let (robot, _working) = stage.robot().await;
        let mut client = Client::start(&stage, &[]).await;
        let tools = client.tools(1).await;
        for name in ["chat_say", "robot__move", "robot__ask"] {
            assert!(tools.iter().any(|tool| tool == name), "{name} is not in {tools:?}");
        }
        let call = json!({ "name": "robot__move", "arguments": { "x": 1, "y": 2 } });
        let moved = client.ask(2, "tools/call", call).await;
        assert_eq!(moved["result"]["content"][0]["text"], "moved to (1, 2)", "{moved}");
        let present = robot.roster().into_iter().find(|one| one.id.as_str() == "helper").expect("it is present");
        assert_eq!(present.name.as_deref(), Some("Helping hand"));
        assert_eq!(client.end().await, Some(0));

        let mut client = Client::start(&stage, &["--only", "robot"]).await;
        let tools = client.tools(1).await;
        assert!(tools.contains(&"move".to_owned()) && !tools.contains(&"chat_say".to_owned()), "{tools:?}");
        assert_eq!(client.end().await, Some(0));
        stage.gateway.stop().await.expect("it stops");
    });
}

#[test]
fn a_restart_of_the_gateway_is_survived() {
    run(async {
        let mut stage = Stage::new().await;
        let (robot, mut working) = stage.robot().await;
        let mut client = Client::start(&stage, &[]).await;
        let hang = json!({ "name": "robot__hang", "arguments": {} });
        client.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": hang })).await;
        assert_eq!(within("the call", working.recv()).await.expect("in time"), Some(Working::Begun));
        stage.gateway.restart().await.expect("it starts again");
        let lost = client.answer(1).await;
        assert!(lost["error"]["message"].is_string(), "{lost}");
        // The robot comes back in its own time.
        let helper = salon_protocol::ParticipantId::new("helper").expect("an id");
        let is_back = async || {
            let is_present = robot.is_present(&helper);
            (is_present && client.tools(2).await.contains(&"robot__echo".to_owned())).then_some(())
        };
        eventually("the robot to be back", is_back).await.expect("in time");
        let echoed = client.ask(3, "tools/call", json!({ "name": "robot__echo", "arguments": { "a": 1 } })).await;
        assert_eq!(echoed["result"]["content"][0]["text"], r#"{"a":1}"#, "{echoed}");
        assert_eq!(client.end().await, Some(0));
        stage.gateway.stop().await.expect("it stops");
    });
}

#[test]
fn a_client_of_the_draft_dialect_does_the_same_in_its_own_words() {
    run(async {
        let stage = Stage::new().await;
        let (robot, _working) = stage.robot().await;
        let mut command = stage.person(&stage.token("helper", ""), &["mcp", TOPIC]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let stdin = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut client = Client { child, stdin, lines };
        let welcome = client.ask(0, "initialize", json!({ "mcpVersion": "2025-06-18" })).await;
        assert_eq!(welcome["result"]["server"]["name"], "salon", "{welcome}");
        client.say(&json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} })).await;
        let listed = client.ask(1, "tools/list", json!({})).await;
        let tools = listed["result"].as_array().unwrap_or_else(|| panic!("an array: {listed}"));
        assert!(tools.iter().any(|tool| tool["name"] == "robot__move"), "{listed}");
        let call = json!({ "name": "robot__move", "arguments": { "x": 1, "y": 2 } });
        let moved = client.ask(2, "tools/invoke", call).await;
        assert_eq!(moved["result"], json!({ "status": "success", "output": "moved to (1, 2)" }), "{moved}");
        assert!(robot.is_present(&salon_protocol::ParticipantId::new("helper").expect("an id")));
        assert_eq!(client.ask(3, "shutdown", json!({})).await["result"], Value::Null);
        client.say(&json!({ "jsonrpc": "2.0", "method": "exit" })).await;
        // Its input stays open: the word is enough.
        let output = within("the end", client.child.wait()).await.expect("in time").expect("it was started");
        assert_eq!(output.code(), Some(0));
        drop(client.stdin);
        stage.gateway.stop().await.expect("it stops");
    });
}
