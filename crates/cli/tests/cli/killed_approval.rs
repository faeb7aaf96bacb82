//! A gateway that is killed after it has stored that a held call is approved, and before it has stored the call: the call is stored by the next one, once.
//!
//! Deliberately absent: a moment that is guessed. On SQLite, the gateway is killed while the call is held, and the decision is put into its log: that is what
//! a gateway leaves that is killed right after the decision. On NATS the way to the server is held up by the decision itself.

use salon_testkit::http::HttpCall;
use salon_testkit::{TestSocket, TestSocketEvent, within};
use serde_json::{Value, json};

use crate::salon::{Home, Running, Signal};

pub(crate) const TOPIC: &str = "room:a";

/// A participant by MCPx that comes back after what it has seen.
struct Actor {
    id: &'static str,
    token: String,
    socket: Option<TestSocket>,
    /// The last entry it has seen.
    last: Option<String>,
    /// Everything but presence.
    seen: Vec<Value>,
}

impl Actor {
    async fn new(home: &Home, id: &'static str, further: &str) -> Self {
        let ran = home.salon(&format!("token {TOPIC} --as {id} {further}")).await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        Self { id, token: ran.stdout.trim().to_owned(), socket: None, last: None, seen: Vec::new() }
    }

    async fn enter(&mut self, running: &Running) {
        let after = self.last.as_ref().map_or(String::new(), |id| format!("&after={id}"));
        let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}{after}")).bearer(&self.token);
        let socket = TestSocket::connect(running.address, call).await.expect("an answer").expect("a socket");
        self.socket = Some(socket);
        self.until("the welcome", |came| came["payload"]["event"] == "welcome").await;
    }

    async fn say(&mut self, mut envelope: Value) {
        let (protocol, ts) = ("mcp-x/v0", "2025-08-17T14:00:00Z");
        for (name, value) in [("protocol", protocol), ("ts", ts), ("from", self.id), ("kind", "mcp")] {
            envelope[name] = json!(value);
        }
        let socket = self.socket.as_mut().expect("it has entered");
        socket.text(envelope.to_string()).await.expect("sent");
    }

    async fn call(&mut self, id: &str, callee: &str, tool: &str, arguments: Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        let payload = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.say(json!({ "id": id, "to": [callee], "payload": payload })).await;
    }

    /// Reads until something wanted comes.
    async fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let id = self.id;
        within(what, self.read_until(wanted)).await.unwrap_or_else(|why| panic!("{id}: {why}"))
    }

    async fn read_until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let socket = self.socket.as_mut().expect("it has entered");
            let frame = match socket.next_unbounded().await {
                TestSocketEvent::Text(text) => serde_json::from_str::<Value>(&text).expect("JSON"),
                other => panic!("{} got {other:?} after {:?}", self.id, self.seen),
            };
            if frame["kind"] != "system" && frame["payload"]["event"] != "heartbeat" {
                self.last = frame["id"].as_str().map(str::to_owned);
            }
            if frame["kind"] != "presence" {
                self.seen.push(frame.clone());
            }
            if wanted(&frame) {
                return frame;
            }
        }
    }

    /// How often it has seen an entry.
    fn count(&self, id: &str) -> usize {
        self.seen.iter().filter(|frame| frame["id"] == id).count()
    }
}

fn is(id: &str) -> impl Fn(&Value) -> bool {
    move |frame| frame["id"] == id
}

fn is_notice(method: &str) -> impl Fn(&Value) -> bool {
    move |frame| frame["payload"]["method"] == method
}

/// A room in which bob's calls to robot wait for alice.
pub(crate) struct HeldCall {
    alice: Actor,
    bob: Actor,
    robot: Actor,
    /// Of the held call, `c1`.
    digest: String,
}

impl HeldCall {
    pub(crate) async fn begin(home: &Home, running: &Running) -> Self {
        let mut alice = Actor::new(home, "alice", "--permission operator").await;
        let (mut bob, mut robot) = (Actor::new(home, "bob", "").await, Actor::new(home, "robot", "").await);
        for actor in [&mut alice, &mut bob, &mut robot] {
            actor.enter(running).await;
        }
        let rules = json!([{ "hold": "call:robot/*", "approvers": ["alice"] }]);
        alice.call("s1", "system:gateway", "topic.configure", json!({ "change": { "rules": rules } })).await;
        bob.until("the rules", is_notice("notifications/topic/settings")).await;
        bob.call("c1", "robot", "move", json!({ "x": 1 })).await;
        bob.until("the hold", |frame| frame["payload"]["event"] == "held").await;
        let requested = alice.until("the hold", is_notice("notifications/approval/requested")).await;
        robot.until("the hold", is_notice("notifications/approval/requested")).await;
        let digest = requested["payload"]["params"]["digest"].as_str().expect("a digest").to_owned();
        Self { alice, bob, robot, digest }
    }

    /// Alice approves the call, and does not wait for the answer.
    pub(crate) async fn approve(&mut self) {
        let arguments = json!({ "id": "c1", "digest": self.digest, "decision": "approve" });
        self.alice.call("d1", "system:gateway", "approval.decide", arguments).await;
    }

    /// The notice that she has, as the gateway would write it.
    pub(crate) fn decision(&self) -> String {
        let params = json!({ "id": "c1", "digest": self.digest, "decision": "approved", "by": "alice" });
        let payload = json!({ "jsonrpc": "2.0", "method": "notifications/approval/decided", "params": params });
        json!({
            "protocol": "mcp-x/v0", "id": "decided", "ts": "2025-08-17T14:00:00Z", "from": "system:gateway", "to": [],
            "correlation_id": "c1", "kind": "mcp", "payload": payload,
        })
        .to_string()
    }

    /// Everybody comes back to the next gateway, and hears of the call once, also after it is killed once more.
    pub(crate) async fn end(mut self, mut serve: impl AsyncFnMut() -> Running) {
        let running = serve().await;
        self.robot.enter(&running).await;
        self.robot.until("the call", is("c1")).await;
        let result = json!({ "content": [] });
        let payload = json!({ "jsonrpc": "2.0", "id": 1, "result": result });
        self.robot.say(json!({ "id": "r1", "to": ["bob"], "correlation_id": "c1", "payload": payload })).await;
        self.bob.enter(&running).await;
        self.bob.until("the answer", is("r1")).await;
        running.signal(Signal::KILL);
        running.end().await;

        let running = serve().await;
        for actor in [&mut self.robot, &mut self.bob, &mut self.alice] {
            actor.enter(&running).await;
        }
        let payload = json!({ "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": "over" } });
        self.alice.say(json!({ "id": "over", "payload": payload })).await;
        for actor in [&mut self.robot, &mut self.bob, &mut self.alice] {
            actor.until("the end", is("over")).await;
            let decided = actor.seen.iter().filter(|frame| is_notice("notifications/approval/decided")(frame)).count();
            let counts = (actor.count("c1"), decided, actor.count("r1"));
            assert_eq!(counts, (1, 1, 1), "{} saw the call, the decision and the answer", actor.id);
            let failed = actor.seen.iter().find(|frame| frame["payload"]["event"] == "error");
            assert!(failed.is_none(), "{} was told {failed:?}", actor.id);
        }
        running.signal(Signal::TERM);
        assert_eq!(running.end().await.code, Some(0));
    }
}
