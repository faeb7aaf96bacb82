//! What a token is good for where the Machine Context Protocol is concerned: a call is permitted what the token permits that it came
//! with, one that demands signatures opens no door where nothing can be signed, and of those without one little is read.

use libtest_mimic::Trial;
use salon_testkit::framed::FramedClient;
use salon_testkit::http::{EventStream, HttpAnswer, HttpCall};
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken};
use serde_json::{Value, json};

use crate::browser::BrowserSignIn;
use crate::room::{envelope, next};
use crate::tables::{self, Logs};

const TOPIC: &str = "room:alpha";
const MODERN: &str = "2026-07-28";

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "machine::tokens",
        &[
            ("a session that two tokens use", Logs::Every, |engine| Box::pin(one_session(engine))),
            ("a session that a second token did not find", Logs::SqliteOnly, |engine| Box::pin(not_found(engine))),
            ("a session beside one with more", Logs::Every, |engine| Box::pin(two_sessions(engine))),
            ("requests without a session", Logs::Every, |engine| Box::pin(stateless(engine))),
            ("an envelope over REST", Logs::Every, |engine| Box::pin(published(engine))),
            ("a caller that hangs up at once", Logs::Every, |engine| Box::pin(hung_up(engine))),
            ("a message over HTTP", Logs::Every, |engine| Box::pin(posted(engine))),
            ("a stream by a browser's ticket", Logs::SqliteOnly, |engine| Box::pin(signed_out(engine))),
            ("one that demands signatures", Logs::SqliteOnly, |engine| Box::pin(must_sign(engine))),
            ("the first message of a stranger", Logs::SqliteOnly, |engine| Box::pin(stranger(engine))),
        ],
    )
}

/// A gateway, a robot whose arm needs a permission, and two tokens of alice's.
struct Stage {
    gateway: TestGateway,
    robot: TestSocket,
    strong: String,
    weak: String,
}

fn read(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

fn expect(status: u16, answer: HttpAnswer) -> Result<HttpAnswer, Failure> {
    if answer.status == status { Ok(answer) } else { Err(format!("expected {status}, came {answer:?}")) }
}

/// The answer is that alice is not permitted it.
fn is_forbidden(body: &str) -> Result<(), Failure> {
    let said = body.contains("needs the permission `drive`") && body.contains("forbidden");
    if said { Ok(()) } else { Err(format!("expected a no, came {body}")) }
}

fn message(kind: &str, id: &str, to: &str, payload: &Value) -> String {
    let header = json!({ "version": "1.0", "messageId": id, "timestamp": "2025-03-21T10:00:00Z", "messageType": kind, "destination": to });
    json!({ "header": header, "payload": payload }).to_string()
}

async fn machine(gateway: &TestGateway, token: Option<&str>) -> Result<TestSocket, Failure> {
    let call = HttpCall::new("GET", format!("/context/v1/ws?topic={TOPIC}"));
    let call = token.into_iter().fold(call, HttpCall::bearer);
    TestSocket::connect(gateway.address(), call).await?.map_err(|answer| format!("refused: {answer:?}"))
}

impl Stage {
    async fn open(engine: TestEngine) -> Result<Self, Failure> {
        let gateway = TestGateway::start(TestOptions::new(engine)).await?;
        let mut permitted = TestToken::new("alice");
        permitted.claim("permissions", "drive")?;
        let (strong, weak) = (gateway.token(&permitted)?, gateway.token(&TestToken::new("alice"))?);
        let mut robot = machine(&gateway, Some(&gateway.token(&TestToken::new("robot"))?)).await?;
        let tool =
            json!({ "id": "arm", "capabilities": [{ "name": "move" }], "security": { "permissions": ["drive"] } });
        let register = json!({ "tool": { "id": "registry", "capability": "register", "parameters": tool } });
        robot.text(message("request", "r1", "system:gateway", &register)).await?;
        while read(&next(&mut robot).await?)?["header"]["requestId"] != "r1" {}
        Ok(Self { gateway, robot, strong, weak })
    }

    /// The robot is asked, and not before anything else was: a refused caller did not get so far.
    async fn is_asked(&mut self) -> Result<String, Failure> {
        loop {
            let came = read(&next(&mut self.robot).await?)?;
            if came["header"]["messageType"] == "request" {
                return Ok(came["header"]["messageId"].as_str().unwrap_or_default().to_owned());
            }
        }
    }

    async fn answers(&mut self) -> Result<(), Failure> {
        let asked = self.is_asked().await?;
        let header = json!({ "version": "1.0", "messageId": format!("a-{asked}"), "timestamp": "2025-03-21T10:00:00Z", "messageType": "response", "requestId": asked });
        self.robot.text(json!({ "header": header, "payload": { "result": "moved" } }).to_string()).await
    }

    async fn sit(&self, token: &str, query: &str) -> Result<TestSocket, Failure> {
        let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}{query}")).bearer(token);
        let mut socket = TestSocket::connect(self.gateway.address(), call)
            .await?
            .map_err(|answer| format!("refused: {answer:?}"))?;
        next(&mut socket).await?;
        Ok(socket)
    }

    async fn close(self) -> Result<(), Failure> {
        drop(self.robot);
        self.gateway.stop().await
    }

    /// Begins a session of MCP; gives its id and what the robot's arm is called there.
    async fn session(&self, token: &str) -> Result<(String, String), Failure> {
        let answer = expect(200, mcp(token, None, &initialize()).send(self.gateway.address()).await?)?;
        let id = answer.header("mcp-session-id").ok_or("there is no session")?.to_owned();
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let listed = expect(200, mcp(token, Some(&id), &list).send(self.gateway.address()).await?)?;
        Ok((id, arm(&listed.body)?))
    }

    async fn call(&self, token: &str, session: &str, arm: &str) -> Result<String, Failure> {
        Ok(expect(200, mcp(token, Some(session), &call_of(arm)).send(self.gateway.address()).await?)?.body)
    }
}

fn mcp(token: &str, session: Option<&str>, body: &Value) -> HttpCall {
    let call = HttpCall::new("POST", format!("/mcp/{TOPIC}")).bearer(token).body(body.to_string());
    let call = call.header("Accept", "application/json, text/event-stream");
    session.into_iter().fold(call, |call, id| call.header("Mcp-Session-Id", id))
}

fn initialize() -> Value {
    let client = json!({ "name": "x", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn call_of(arm: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": arm, "arguments": {} } })
}

/// What the robot's arm is called in a list.
fn arm(listed: &str) -> Result<String, Failure> {
    let found = listed.split("\"name\":\"robot__").nth(1).and_then(|rest| rest.split('"').next());
    Ok(format!("robot__{}", found.ok_or_else(|| format!("no arm in {listed}"))?))
}

async fn one_session(engine: TestEngine) -> Result<(), Failure> {
    let stage = Stage::open(engine).await?;
    let (id, arm) = stage.session(&stage.strong).await?;
    is_forbidden(&stage.call(&stage.weak, &id, &arm).await?)?;
    // From then on the session may do what both permit.
    is_forbidden(&stage.call(&stage.strong, &id, &arm).await?)?;
    stage.close().await
}

/// A request at another address than the session's is answered as if there were none, and takes nothing from it.
async fn not_found(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::open(engine).await?;
    let (id, arm) = stage.session(&stage.strong).await?;
    for elsewhere in ["/mcp/room:beta", "/mcp/room:alpha/robot"] {
        let call = HttpCall { path: elsewhere.into(), ..mcp(&stage.weak, Some(&id), &call_of(&arm)) };
        expect(404, call.send(stage.gateway.address()).await?)?;
    }
    let call = mcp(&stage.strong, Some(&id), &call_of(&arm));
    let address = stage.gateway.address();
    let (answer, answered) = tokio::join!(call.send(address), stage.answers());
    answered?;
    let answer = expect(200, answer?)?;
    if !answer.body.contains("moved") {
        return Err(format!("the session lost its permission: {answer:?}"));
    }
    stage.close().await
}

async fn two_sessions(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::open(engine).await?;
    let (weak, arm) = stage.session(&stage.weak).await?;
    let call = HttpCall::new("GET", format!("/mcp/{TOPIC}")).bearer(&stage.strong);
    let connected = TestSocket::connect(stage.gateway.address(), call).await?;
    let mut strong = connected.map_err(|answer| format!("refused: {answer:?}"))?;
    strong.text(initialize().to_string()).await?;
    strong.text(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string()).await?;
    let mut heard = String::new();
    while !heard.contains("robot__") {
        heard = next(&mut strong).await?;
    }
    let own = self::arm(&heard)?;
    is_forbidden(&stage.call(&stage.weak, &weak, &arm).await?)?;
    // A client that only reads, or is refused, changes nothing.
    let follow = HttpCall::new("GET", format!("/v0/topics/{TOPIC}/stream")).bearer(&stage.weak);
    let reader = EventStream::open(stage.gateway.address(), &follow).await?.map_err(|answer| format!("{answer:?}"))?;
    strong.text(call_of(&own).to_string()).await?;
    stage.answers().await?;
    while !next(&mut strong).await?.contains("moved") {}
    drop((reader, strong));
    stage.close().await
}

async fn stateless(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::open(engine).await?;
    let (address, strong, weak) = (stage.gateway.address(), stage.strong.clone(), stage.weak.clone());
    let ask = |token: &str, method: &str, name: Option<&str>| {
        let client = json!({ "name": "x", "version": "1" });
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientInfo": client, "io.modelcontextprotocol/clientCapabilities": {} });
        let mut params = json!({ "_meta": meta });
        let call = |params: &Value| {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            mcp(token, None, &body).header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method)
        };
        match name {
            Some(name) => {
                params["name"] = name.into();
                params["arguments"] = json!({});
                call(&params).header("Mcp-Name", name)
            }
            None => call(&params),
        }
    };
    let listed = expect(200, ask(&strong, "tools/list", None).send(address).await?)?;
    let arm = arm(&listed.body)?;
    // Each request is permitted what its own token permits, whichever came before it.
    for _ in 0..2 {
        let answer = ask(&weak, "tools/call", Some(&arm)).send(address).await?;
        is_forbidden(&expect(200, answer)?.body)?;
        let call = ask(&strong, "tools/call", Some(&arm));
        let (answer, answered) = tokio::join!(call.send(address), stage.answers());
        answered?;
        let answer = expect(200, answer?)?;
        if !answer.body.contains("moved") {
            return Err(format!("the robot was not asked: {answer:?}"));
        }
    }
    // In the room it is one participant all the while. Read from history: somebody in the room who offers nothing is waited for by lists.
    let history = HttpCall::new("GET", format!("/v0/topics/{TOPIC}/history")).bearer(&strong);
    let history = read(&expect(200, history.send(address).await?)?.body)?;
    let entries = history["messages"].as_array().ok_or_else(|| format!("no history: {history}"))?;
    let of_alice = entries.iter().filter(|entry| entry["payload"]["participant"]["id"] == "alice");
    let seen: Vec<&Value> = of_alice.map(|entry| &entry["payload"]["event"]).collect();
    if seen != ["join"] {
        return Err(format!("expected one join of alice's, saw {seen:?}"));
    }
    stage.close().await
}

/// The answer to a request in the room.
async fn answer_to(socket: &mut TestSocket, request: &str) -> Result<String, Failure> {
    loop {
        let came = next(socket).await?;
        if read(&came)?["correlation_id"] == request {
            return Ok(came);
        }
    }
}

fn arm_call(id: &str) -> String {
    let params = r#""id":1,"method":"tools/call","params":{"name":"arm.move","arguments":{}}"#;
    envelope("alice", id, r#""to":["robot"],"#, params)
}

async fn published(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::open(engine).await?;
    let mut alice = stage.sit(&stage.strong, "").await?;
    let publish = |token: &str, id: &str| {
        HttpCall::new("POST", format!("/v0/topics/{TOPIC}/messages")).bearer(token).body(arm_call(id))
    };
    for at in 0..10 {
        let id = format!("w{at}");
        expect(201, publish(&stage.weak, &id).send(stage.gateway.address()).await?)?;
        is_forbidden(&answer_to(&mut alice, &id).await?)?;
    }
    expect(201, publish(&stage.strong, "s1").send(stage.gateway.address()).await?)?;
    if stage.is_asked().await? != "s1" {
        return Err("the robot was asked with the weak token".into());
    }
    drop(alice);
    stage.close().await
}

async fn hung_up(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::open(engine).await?;
    let mut alice = stage.sit(&stage.strong, "&share=true").await?;
    for at in 0..10 {
        let id = format!("w{at}");
        let mut other = stage.sit(&stage.weak, "&share=true").await?;
        other.text(arm_call(&id)).await?;
        drop(other);
        is_forbidden(&answer_to(&mut alice, &id).await?)?;
    }
    alice.text(arm_call("s1")).await?;
    if stage.is_asked().await? != "s1" {
        return Err("the robot was asked with the weak token".into());
    }
    drop(alice);
    stage.close().await
}

async fn posted(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::open(engine).await?;
    let (address, strong, weak) = (stage.gateway.address(), stage.strong.clone(), stage.weak.clone());
    let post = |token: &str, body: String| {
        HttpCall::new("POST", format!("/context/v1/messages?topic={TOPIC}")).bearer(token).body(body)
    };
    let note = message("notification", "n1", "*", &json!({ "context": {} }));
    expect(202, post(&strong, note).send(address).await?)?;
    let call = |id: &str| message("request", id, "robot", &json!({ "tool": { "id": "arm", "capability": "move" } }));
    // Each message is permitted what its own token permits, whichever came before it.
    for round in 0..2 {
        is_forbidden(&expect(403, post(&weak, call(&format!("w{round}"))).send(address).await?)?.body)?;
        let posted = post(&strong, call(&format!("s{round}")));
        let (answer, answered) = tokio::join!(posted.send(address), stage.answers());
        answered?;
        expect(200, answer?)?;
    }
    stage.close().await
}

/// What a browser's tickets opened ends when it signs out. The session that a token began goes on: the room sees nobody leave.
async fn signed_out(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let address = gateway.address();
    let open = async |call: HttpCall| {
        let opened = EventStream::open(address, &call.header("Accept", "text/event-stream")).await?;
        opened.map_err(|answer| format!("expected a stream, came {answer:?}"))
    };
    let token = gateway.token(&TestToken::new("alice"))?;
    let machine = format!("/context/v1/stream?topic={TOPIC}");
    let mut bob = crate::room::join(&gateway, "bob").await?;
    let post = |id: &str| {
        let call = HttpCall::new("POST", format!("/context/v1/messages?topic={TOPIC}")).bearer(&token);
        call.body(message("notification", id, "*", &json!({ "context": {} })))
    };
    expect(202, post("begins").send(address).await?)?;
    let browser = BrowserSignIn::begin(&gateway, "alice").await?;
    let first = browser.ticket(TOPIC).await?;
    let second = browser.ticket(TOPIC).await?;
    let mut leaves = [
        open(HttpCall::new("GET", format!("{machine}&ticket={first}"))).await?,
        open(HttpCall::new("GET", format!("/v0/topics/{TOPIC}/stream?ticket={second}"))).await?,
    ];
    browser.sign_out().await?;
    for stream in &mut leaves {
        while stream.next().await?.is_some() {}
    }
    expect(202, post("still-here").send(address).await?)?;
    loop {
        let came = read(&next(&mut bob).await?)?;
        if came["payload"]["event"] == "leave" {
            return Err(format!("the session ended: {came}"));
        }
        if came["id"] == "still-here" {
            break;
        }
    }
    drop(bob);
    gateway.stop().await
}

async fn must_sign(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut signing = TestToken::new("alice");
    signing.claim("integrity", "required")?;
    let token = gateway.token(&signing)?;
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" }).to_string();
    let topic = |rest: &str| format!("/v0/topics/{TOPIC}{rest}");
    for call in [
        HttpCall::new("GET", "/v0/topics"),
        HttpCall::new("GET", topic("/history")),
        HttpCall::new("GET", topic("/stream")),
        HttpCall::new("POST", topic("/messages")).body(envelope("alice", "m1", "", r#""method":"notifications/note""#)),
        HttpCall::new("POST", format!("/mcp/{TOPIC}"))
            .header("Accept", "application/json, text/event-stream")
            .body(hello),
        HttpCall::new("GET", format!("/sse?topic={TOPIC}")).header("Accept", "text/event-stream"),
    ] {
        let answer = expect(403, call.bearer(&token).send(gateway.address()).await?)?;
        if !answer.body.contains("/context/v1") {
            return Err(format!("it is not said where the token is good: {answer:?}"));
        }
    }
    let ws = |path: String| HttpCall::new("GET", path);
    let refused = |connected: Result<TestSocket, HttpAnswer>| match connected {
        Ok(_) => Err("let in".to_owned()),
        Err(answer) => expect(403, answer).map(drop),
    };
    refused(TestSocket::connect(gateway.address(), ws(format!("/v0/ws?topic={TOPIC}")).bearer(&token)).await?)?;
    refused(TestSocket::connect(gateway.address(), ws(format!("/mcp/{TOPIC}")).bearer(&token)).await?)?;
    let mut framed = FramedClient::open(gateway.framed_address()).await?;
    let body = json!({ "clientInfo": { "id": "alice" }, "topic": TOPIC, "token": token });
    let reply = framed.ask("1", "CONNECT", &body).await?;
    if reply.code() != 403 {
        return Err(format!("expected 403, came {reply:?}"));
    }
    // A ticket is worth what its token is.
    let mut tickets = Vec::new();
    for _ in 0..2 {
        let call = HttpCall::new("POST", "/v0/tickets").bearer(&token).body(json!({ "topic": TOPIC }).to_string());
        let answer = expect(201, call.send(gateway.address()).await?)?;
        tickets.push(read(&answer.body)?["ticket"].as_str().unwrap_or_default().to_owned());
    }
    let path = |door: &str, ticket: &str| format!("{door}?topic={TOPIC}&ticket={ticket}");
    refused(TestSocket::connect(gateway.address(), ws(path("/v0/ws", &tickets[0]))).await?)?;
    let connected = TestSocket::connect(gateway.address(), ws(path("/context/v1/ws", &tickets[1]))).await?;
    let socket = connected.map_err(|answer| format!("refused: {answer:?}"))?;
    drop((socket, framed));
    gateway.stop().await
}

async fn stranger(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let token = gateway.token(&TestToken::new("alice"))?;
    let first = |bytes: usize| {
        let payload = json!({ "context": { "x": "x".repeat(bytes) }, "security": { "token": token } });
        message("notification", "m1", "*", &payload)
    };
    let mut long = machine(&gateway, None).await?;
    long.text(first(64 * 1024)).await?;
    let TestSocketEvent::Text(told) = long.next().await? else { return Err("the close frame has no reason".into()) };
    let told = read(&told)?;
    if told["error"]["code"] != "too_large" {
        return Err(format!("expected too_large, came {told}"));
    }
    match long.next().await? {
        TestSocketEvent::Closed(1009, _) => {}
        other => return Err(format!("expected a close with 1009, came {other:?}")),
    }
    // A known client may send more.
    let mut bob = crate::room::join(&gateway, "bob").await?;
    let mut known = machine(&gateway, None).await?;
    known.text(first(60 * 1024)).await?;
    known.text(message("notification", "m2", "*", &json!({ "context": { "x": "x".repeat(900 * 1024) } }))).await?;
    loop {
        let came = read(&next(&mut bob).await?)?;
        if came["id"] == "m2" {
            break;
        }
    }
    drop((long, known, bob));
    gateway.stop().await
}
