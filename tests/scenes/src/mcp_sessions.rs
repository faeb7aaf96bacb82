//! Sessions of MCP clients over real connections: how they begin and end, whose they are, and what the room sees of them.

use std::net::IpAddr;

use libtest_mimic::Trial;
use salon_testkit::http::{EventStream, HttpAnswer, HttpCall};
use salon_testkit::{
    Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken, eventually,
};
use serde_json::{Value, json};

use crate::browser::BrowserSignIn;
use crate::room::{join, next};
use crate::tables::{self, Logs};

const ROOM: &str = "/mcp/room:alpha";

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "mcp::session",
        &[
            ("begins, is seen and ends", Logs::Every, |engine| Box::pin(begins_and_ends(engine))),
            ("is only its participant's, at its own address", Logs::SqliteOnly, |engine| {
                Box::pin(is_only_its_own(engine))
            }),
            ("is not needed without a handshake", Logs::Every, |engine| Box::pin(stateless(engine))),
            ("over HTTP+SSE", Logs::SqliteOnly, |engine| Box::pin(http_and_sse(engine))),
            ("over HTTP+SSE that begins with a POST", Logs::SqliteOnly, |engine| Box::pin(sse_by_post(engine))),
            ("with somebody called poll", Logs::SqliteOnly, |engine| Box::pin(called_poll(engine))),
            ("over WebSocket", Logs::SqliteOnly, |engine| Box::pin(websocket(engine))),
            ("makes room by ending the idlest", Logs::SqliteOnly, |engine| Box::pin(too_many(engine))),
            ("makes room for a request without one", Logs::SqliteOnly, |engine| Box::pin(too_many_stateless(engine))),
            ("makes no room at a full address", Logs::SqliteOnly, |engine| Box::pin(full_address(engine))),
            ("ends with its token", Logs::SqliteOnly, |engine| Box::pin(token_ends(engine))),
            ("ends with the gateway", Logs::Every, |engine| Box::pin(shutdown(engine))),
            ("has no seat in a full room", Logs::Every, |engine| Box::pin(full_room(engine))),
            ("is counted where it is refused", Logs::SqliteOnly, |engine| Box::pin(counted(engine))),
            ("ends when its client has vanished", Logs::SqliteOnly, |engine| Box::pin(vanishes(engine))),
            ("may try again while participants come back", Logs::SqliteOnly, |engine| Box::pin(tries_again(engine))),
            ("sees what a server added in silence", Logs::SqliteOnly, |engine| Box::pin(revalidates(engine))),
            ("is counted where the draft dialect is refused", Logs::SqliteOnly, |engine| {
                Box::pin(draft_counted(engine))
            }),
            ("keeps a stream no longer than its token", Logs::SqliteOnly, |engine| Box::pin(stream_ends(engine))),
            ("keeps a stream no longer than its sign-in", Logs::SqliteOnly, |engine| Box::pin(sign_in_ends(engine))),
            ("goes on where its stream broke off", Logs::SqliteOnly, |engine| Box::pin(resumes(engine))),
        ],
    )
}

fn initialize(revision: &str) -> String {
    let client = json!({ "name": "An editor", "version": "1" });
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

fn ping(id: u32) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string()
}

/// Somebody with a token and perhaps a session.
struct Client<'g> {
    gateway: &'g TestGateway,
    token: String,
    session: Option<String>,
}

impl<'g> Client<'g> {
    fn new(gateway: &'g TestGateway, name: &str) -> Result<Self, Failure> {
        Ok(Self { gateway, token: gateway.token(&TestToken::new(name))?, session: None })
    }

    /// One whose handshake is done.
    async fn initialized(gateway: &'g TestGateway, name: &str) -> Result<Self, Failure> {
        let mut client = Self::new(gateway, name)?;
        client.initialize(ROOM).await?;
        Ok(client)
    }

    async fn initialize(&mut self, path: &str) -> Result<(), Failure> {
        let answer = expect(200, self.post(path, &initialize("2025-06-18")).await?)?;
        let id = answer.header("mcp-session-id").ok_or("there is no session")?;
        if id.len() < 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("`{id}` can be guessed"));
        }
        self.session = Some(id.to_owned());
        expect(202, self.post(path, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?).map(drop)
    }

    fn call(&self, method: &str, path: &str) -> HttpCall {
        let call =
            HttpCall::new(method, path).bearer(&self.token).header("Accept", "application/json, text/event-stream");
        match &self.session {
            Some(id) => call.header("Mcp-Session-Id", id),
            None => call,
        }
    }

    async fn post(&self, path: &str, body: &str) -> Result<HttpAnswer, Failure> {
        self.call("POST", path).body(body).send(self.gateway.address()).await
    }

    async fn delete(&self) -> Result<HttpAnswer, Failure> {
        self.call("DELETE", ROOM).send(self.gateway.address()).await
    }

    async fn listen(&self, path: &str) -> Result<EventStream, Failure> {
        let opened = EventStream::open(self.gateway.address(), &self.call("GET", path)).await?;
        opened.map_err(|answer| format!("expected a stream, came {answer:?}"))
    }
}

fn expect(status: u16, answer: HttpAnswer) -> Result<HttpAnswer, Failure> {
    if answer.status == status { Ok(answer) } else { Err(format!("expected {status}, came {answer:?}")) }
}

fn read(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}

/// The next presence of the room.
async fn presence(socket: &mut TestSocket) -> Result<Value, Failure> {
    loop {
        let frame = read(&next(socket).await?)?;
        if frame["kind"] == "presence" {
            return Ok(frame["payload"].clone());
        }
    }
}

async fn sees(socket: &mut TestSocket, event: &str, name: &str) -> Result<(), Failure> {
    let seen = presence(socket).await?;
    let participant = &seen["participant"];
    if seen["event"] == event && participant["id"] == "alice" && participant["name"] == name {
        return Ok(());
    }
    Err(format!("expected to see alice {event} as {name}, saw {seen}"))
}

async fn ends(mut stream: EventStream) -> Result<(), Failure> {
    while stream.next().await?.is_some() {}
    Ok(())
}

async fn begins_and_ends(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut bob = join(&gateway, "bob").await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    sees(&mut bob, "join", "An editor").await?;
    let stream = alice.listen(ROOM).await?;
    let pong = expect(200, alice.post(ROOM, &ping(1)).await?)?;
    if read(&pong.body)? != json!({ "jsonrpc": "2.0", "id": 1, "result": {} }) {
        return Err(format!("not an answer to a ping: {pong:?}"));
    }
    expect(204, alice.delete().await?)?;
    ends(stream).await?;
    sees(&mut bob, "leave", "An editor").await?;
    expect(404, alice.post(ROOM, &ping(2)).await?)?;
    expect(404, alice.delete().await?)?;
    drop(bob);
    gateway.stop().await
}

async fn is_only_its_own(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let mallory = Client { session: alice.session.clone(), ..Client::new(&gateway, "mallory")? };
    expect(404, mallory.post(ROOM, &ping(1)).await?)?;
    expect(404, mallory.delete().await?)?;
    expect(404, mallory.call("GET", ROOM).send(gateway.address()).await?)?;
    expect(404, mallory.post("/message", &ping(1)).await?)?;
    for elsewhere in ["/mcp/room:beta", "/mcp/room:alpha/bob", "/sse?topic=room:beta", "/sse?participant=bob"] {
        expect(404, alice.post(elsewhere, &ping(2)).await?)?;
    }
    expect(200, alice.post("/sse?topic=room:alpha", &ping(3)).await?)?;
    expect(200, alice.post(ROOM, &ping(4)).await?)?;
    gateway.stop().await
}

fn discover() -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "A modern editor", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } }).to_string()
}

async fn stateless(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut bob = join(&gateway, "bob").await?;
    let alice = Client::new(&gateway, "alice")?;
    for session in [None, Some("whatever".to_owned())] {
        let alice = Client { session, token: alice.token.clone(), gateway: &gateway };
        let call = alice.call("POST", ROOM).header("MCP-Protocol-Version", "2026-07-28");
        let call = call.header("Mcp-Method", "server/discover").body(discover());
        let answer = expect(200, call.send(gateway.address()).await?)?;
        if answer.header("mcp-session-id").is_some() || read(&answer.body)?["result"]["resultType"] != "complete" {
            return Err(format!("not an answer of the stateless revision: {answer:?}"));
        }
    }
    let seen = presence(&mut bob).await?;
    let participant = &seen["participant"];
    if participant["name"] != "A modern editor" || participant["mcp"]["version"] != "2026-07-28" {
        return Err(format!("expected to see a modern editor with its revision, saw {seen}"));
    }
    let metrics = expect(200, HttpCall::new("GET", "/metrics").send(gateway.address()).await?)?;
    if !metrics.body.lines().any(|line| line == "salon_connections 2") {
        return Err(format!("bob is one and alice another, however much she asks: {}", metrics.body));
    }
    drop(bob);
    gateway.stop().await
}

async fn vanishes(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("vanished-timeout", "100")?).await?;
    let mut bob = join(&gateway, "bob").await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    sees(&mut bob, "join", "An editor").await?;
    drop(alice.listen(ROOM).await?);
    sees(&mut bob, "leave", "An editor").await?;
    expect(404, alice.post(ROOM, &ping(1)).await?)?;
    drop(bob);
    gateway.stop().await
}

async fn tries_again(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("return-window", "600000")?).await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "files__read" } });
    let answer = expect(200, alice.post(ROOM, &call.to_string()).await?)?;
    let error = &read(&answer.body)?["error"];
    if error["code"] != -32000 || !error["data"]["retryAfterMs"].is_number() {
        return Err(format!("the client would not try again: {error}"));
    }
    gateway.stop().await
}

/// Answers the next request of a method to somebody.
async fn answer(socket: &mut TestSocket, method: &str, result: Value) -> Result<(), Failure> {
    loop {
        let frame = read(&next(socket).await?)?;
        if frame["payload"]["method"] == method {
            let payload = json!({ "jsonrpc": "2.0", "id": frame["payload"]["id"], "result": result });
            let id = format!("re-{}", frame["id"].as_str().unwrap_or_default());
            let said = json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": "bob",
                "to": [frame["from"]], "kind": "mcp", "correlation_id": frame["id"], "payload": payload });
            return socket.text(said.to_string()).await;
        }
    }
}

async fn revalidates(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("list-max-age", "0")?).await?;
    let mut bob = join(&gateway, "bob").await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let server = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "b", "version": "1" } });
    let tools = |names: &[&str]| {
        let tools: Vec<_> =
            names.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
        json!({ "tools": tools })
    };
    let serving = async {
        answer(&mut bob, "initialize", server).await?;
        answer(&mut bob, "tools/list", tools(&["one"])).await
    };
    let (listed, served) = tokio::join!(alice.post(ROOM, &list), serving);
    served?;
    let first = expect(200, listed?)?;
    let (listed, served) =
        tokio::join!(alice.post(ROOM, &list), answer(&mut bob, "tools/list", tools(&["one", "two"])));
    served?;
    let second = expect(200, listed?)?;
    if !first.body.contains("bob__one") || first.body.contains("bob__two") || !second.body.contains("bob__two") {
        return Err(format!("first {}, then {}", first.body, second.body));
    }
    drop(bob);
    gateway.stop().await
}

async fn http_and_sse(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut token = TestToken::new("alice");
    token.claim("topics", "room:alpha")?;
    let alice = Client { token: gateway.token(&token)?, ..Client::new(&gateway, "alice")? };
    let mut stream = alice.listen("/sse").await?;
    let first = stream.next().await?.ok_or("the stream ended")?;
    if first.event.as_deref() != Some("endpoint") || !first.data.starts_with("/message?sessionId=") {
        return Err(format!("expected the endpoint, came {first:?}"));
    }
    expect(202, alice.post(&first.data, &initialize("2024-11-05")).await?)?;
    let answer = stream.next().await?.ok_or("the stream ended")?;
    let result = &read(&answer.data)?["result"];
    if answer.event.as_deref() != Some("message") || result["protocolVersion"] != "2024-11-05" {
        return Err(format!("expected the answer to initialize, came {answer:?}"));
    }
    expect(202, alice.post(&first.data, &ping(1)).await?)?;
    let answer = stream.next().await?.ok_or("the stream ended")?;
    if read(&answer.data)? != json!({ "jsonrpc": "2.0", "id": 1, "result": {} }) {
        return Err(format!("expected the answer to the ping, came {answer:?}"));
    }
    gateway.stop().await?;
    ends(stream).await
}

async fn sse_by_post(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut alice = Client::new(&gateway, "alice")?;
    alice.initialize("/sse?topic=room:alpha").await?;
    let mut stream = alice.listen("/sse").await?;
    expect(202, alice.post("/message", &ping(7)).await?)?;
    let answer = stream.next().await?.ok_or("the stream ended")?;
    if read(&answer.data)?["id"] != 7 {
        return Err(format!("expected the answer to the ping, came {answer:?}"));
    }
    expect(204, alice.call("DELETE", "/sse").send(gateway.address()).await?)?;
    ends(stream).await?;
    gateway.stop().await
}

/// The address that would be its own is another's, which says where it is found.
async fn called_poll(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut poll = join(&gateway, "poll").await?;
    let alice = Client::new(&gateway, "alice")?;
    let taken = "/mcp/room:alpha/poll";
    let hello = initialize("2025-06-18");
    let posted = expect(400, alice.post(taken, &hello).await?)?;
    let listened = expect(405, alice.call("GET", taken).send(gateway.address()).await?)?;
    for answer in [posted, listened] {
        if !answer.body.contains("/sse?topic={topic}&participant=poll") {
            return Err(format!("it is not said where `poll` is found: {answer:?}"));
        }
    }
    let address = "/sse?topic=room:alpha&participant=poll";
    let asked = async {
        loop {
            let frame = read(&next(&mut poll).await?)?;
            if frame["from"] == "alice" && frame["to"] == json!(["poll"]) {
                return Ok::<(), Failure>(());
            }
        }
    };
    tokio::select! {
        asked = asked => asked?,
        answer = alice.post(address, &hello) => return Err(format!("`poll` was not asked: {answer:?}")),
    }
    drop(poll);
    gateway.stop().await
}

async fn websocket(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut bob = join(&gateway, "bob").await?;
    let token = gateway.token(&TestToken::new("alice"))?;
    let ticket = HttpCall::new("POST", "/v0/tickets").bearer(&token).body(r#"{"topic":"room:alpha"}"#);
    let ticket = read(&expect(201, ticket.send(gateway.address()).await?)?.body)?;
    let by_ticket = format!("{ROOM}?ticket={}", ticket["ticket"].as_str().unwrap_or_default());
    let ways = [
        (HttpCall::new("GET", ROOM).bearer(&token).header("Sec-WebSocket-Protocol", "mcp"), Some("mcp")),
        (HttpCall::new("GET", ROOM).header("Sec-WebSocket-Protocol", format!("mcp, bearer.{token}")), Some("mcp")),
        (HttpCall::new("GET", ROOM).bearer(&token), None),
        (HttpCall::new("GET", by_ticket), None),
    ];
    for (call, subprotocol) in ways {
        let connected = TestSocket::connect(gateway.address(), call).await?;
        let mut alice = connected.map_err(|answer| format!("expected a WebSocket, came {answer:?}"))?;
        if alice.subprotocol.as_deref() != subprotocol {
            return Err(format!("expected {subprotocol:?}, came {:?}", alice.subprotocol));
        }
        alice.text(initialize("2025-06-18")).await?;
        let answer = read(&next(&mut alice).await?)?;
        if answer["result"]["protocolVersion"] != "2025-06-18" {
            return Err(format!("expected the answer to initialize, came {answer}"));
        }
        sees(&mut bob, "join", "An editor").await?;
        alice.text(ping(1)).await?;
        while read(&next(&mut alice).await?)?["id"] != 1 {}
        alice.close().await?;
        sees(&mut bob, "leave", "An editor").await?;
    }
    drop(bob);
    gateway.stop().await
}

async fn too_many(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.connections_per_participant", "2")?).await?;
    let first = Client::initialized(&gateway, "alice").await?;
    let second = Client::initialized(&gateway, "alice").await?;
    expect(200, first.post(ROOM, &ping(1)).await?)?;
    // The second has been idle for longer.
    let third = Client::initialized(&gateway, "alice").await?;
    expect(404, second.post(ROOM, &ping(2)).await?)?;
    expect(200, first.post(ROOM, &ping(3)).await?)?;
    let streams = (first.listen(ROOM).await?, third.listen(ROOM).await?);
    expect(429, Client::new(&gateway, "alice")?.post(ROOM, &initialize("2025-06-18")).await?)?;
    expect(200, first.post(ROOM, &ping(4)).await?)?;
    expect(200, third.post(ROOM, &ping(5)).await?)?;
    Client::initialized(&gateway, "bob").await?;
    drop(streams);
    gateway.stop().await
}

async fn too_many_stateless(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.connections_per_participant", "1")?).await?;
    let first = Client::initialized(&gateway, "alice").await?;
    let call = Client::new(&gateway, "alice")?.call("POST", ROOM).header("MCP-Protocol-Version", "2026-07-28");
    let call = call.header("Mcp-Method", "server/discover").body(discover());
    expect(200, call.send(gateway.address()).await?)?;
    expect(404, first.post(ROOM, &ping(1)).await?)?;
    gateway.stop().await
}

/// Ending a session that counts for another address would not help: it stays.
async fn full_address(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.connections_per_address", "4")?).await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let elsewhere = IpAddr::from([127, 0, 0, 2]);
    let initialize_elsewhere = async |who: &str| {
        let call = Client::new(&gateway, who)?.call("POST", ROOM).from(elsewhere);
        call.body(initialize("2025-06-18")).send(gateway.address()).await
    };
    for who in ["bob", "carol", "dave", "erin"] {
        expect(200, initialize_elsewhere(who).await?)?;
    }
    expect(429, initialize_elsewhere("alice").await?)?;
    expect(200, alice.post(ROOM, &ping(1)).await?)?;
    // One of her own at the full address does make room.
    let first = expect(200, initialize_elsewhere("bob").await?)?;
    let second = expect(200, initialize_elsewhere("bob").await?)?;
    let bob = |answer: &HttpAnswer| -> Result<Client<'_>, Failure> {
        Ok(Client { session: answer.header("mcp-session-id").map(str::to_owned), ..Client::new(&gateway, "bob")? })
    };
    expect(404, bob(&first)?.post(ROOM, &ping(2)).await?)?;
    expect(200, bob(&second)?.post(ROOM, &ping(3)).await?)?;
    gateway.stop().await
}

async fn stream_ends(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut short = TestToken::new("alice");
    short.claim("expires", "4")?;
    let mut alice = Client::initialized(&gateway, "alice").await?;
    let long = std::mem::replace(&mut alice.token, gateway.token(&short)?);
    let stream = alice.listen(ROOM).await?;
    alice.token = long;
    ends(stream).await?;
    expect(200, alice.post(ROOM, &ping(1)).await?)?;
    gateway.stop().await
}

/// A browser's ticket opens a stream of a session that a token began. Signing out ends the stream, and not the session.
async fn sign_in_ends(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let browser = BrowserSignIn::begin(&gateway, "alice").await?;
    let ticket = browser.ticket("room:alpha").await?;
    let session = alice.session.as_deref().unwrap_or_default();
    let call = HttpCall::new("GET", format!("{ROOM}?ticket={ticket}")).header("Accept", "text/event-stream");
    let opened = EventStream::open(gateway.address(), &call.header("Mcp-Session-Id", session)).await?;
    let stream = opened.map_err(|answer| format!("expected a stream, came {answer:?}"))?;
    browser.sign_out().await?;
    ends(stream).await?;
    expect(200, alice.post(ROOM, &ping(1)).await?)?;
    gateway.stop().await
}

async fn token_ends(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut short = TestToken::new("alice");
    short.claim("expires", "4")?;
    let short = gateway.token(&short)?;
    let mut extended = Client { token: short.clone(), ..Client::new(&gateway, "alice")? };
    extended.initialize(ROOM).await?;
    let mut ending = Client { token: short, ..Client::new(&gateway, "alice")? };
    ending.initialize(ROOM).await?;
    let long = gateway.token(&TestToken::new("alice"))?;
    extended.token = long.clone();
    expect(200, extended.post(ROOM, &ping(1)).await?)?;
    ends(ending.listen(ROOM).await?).await?;
    // The stream ends before its session does, and a request in between would extend it.
    eventually("the end of the session", async || {
        let metrics = HttpCall::new("GET", "/metrics").send(gateway.address()).await.ok()?;
        metrics.body.lines().any(|line| line == "salon_connections 1").then_some(())
    })
    .await?;
    ending.token = long;
    expect(404, ending.post(ROOM, &ping(2)).await?)?;
    expect(200, extended.post(ROOM, &ping(3)).await?)?;
    gateway.stop().await
}

async fn shutdown(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let stream = alice.listen(ROOM).await?;
    // A client without a handshake is refused as well.
    let call = HttpCall::new("GET", ROOM).bearer(&alice.token);
    let connected = TestSocket::connect(gateway.address(), call).await?;
    let mut socket = connected.map_err(|answer| format!("expected a WebSocket, came {answer:?}"))?;
    let unintroduced = Client::new(&gateway, "bob")?.listen("/sse?topic=room:alpha").await?;
    let told = async {
        match socket.next().await? {
            TestSocketEvent::Closed(1001, _) => {}
            other => return Err(format!("expected to be told that the gateway goes, came {other:?}")),
        }
        ends(stream).await?;
        ends(unintroduced).await
    };
    // Read meanwhile: a gateway that stops waits for its clients to hang up.
    let (stopped, told) = tokio::join!(gateway.stop(), told);
    stopped.and(told)
}

async fn full_room(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.participants", "1")?).await?;
    let bob = join(&gateway, "bob").await?;
    let alice = Client::new(&gateway, "alice")?;
    let answer = alice.post(ROOM, &initialize("2025-06-18")).await?;
    let refused = read(&answer.body)?;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    if refused["id"] != 0 || message != "the room is full; the limit is 1 participant" {
        return Err(format!("expected to be told that the room is full, came {answer:?}"));
    }
    drop(bob);
    gateway.stop().await
}

/// A no that is an answer is counted like any other.
async fn counted(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let nobodys = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "nobody__t" } });
    let answer = expect(200, alice.post(ROOM, &nobodys.to_string()).await?)?;
    if read(&answer.body)?["error"]["code"] != -32602 {
        return Err(format!("expected a no, came {answer:?}"));
    }
    // Refused before any session hears of it, and within one.
    expect(400, alice.post(ROOM, "[]").await?)?;
    let metrics = expect(200, HttpCall::new("GET", "/metrics").send(gateway.address()).await?)?;
    let line = r#"salon_refusals_total{code="invalid_parameters"} 2"#;
    if !metrics.body.lines().any(|told| told == line) {
        return Err(format!("expected {line}, came {}", metrics.body));
    }
    gateway.stop().await
}

async fn draft_counted(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let token = gateway.token(&TestToken::new("alice"))?;
    let connected = TestSocket::connect(gateway.address(), HttpCall::new("GET", ROOM).bearer(&token)).await?;
    let mut alice = connected.map_err(|answer| format!("refused: {answer:?}"))?;
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "mcpVersion": "2025-06-18", "clientCapabilities": {} } });
    alice.text(hello.to_string()).await?;
    next(&mut alice).await?;
    alice.text("{").await?;
    next(&mut alice).await?;
    let metrics = expect(200, HttpCall::new("GET", "/metrics").send(gateway.address()).await?)?;
    let line = r#"salon_refusals_total{code="invalid_json"} 1"#;
    if !metrics.body.lines().any(|counted| counted == line) {
        return Err(format!("expected {line}, came {}", metrics.body));
    }
    drop(alice);
    gateway.stop().await
}

/// A stream resends what came after the last event its reader has seen.
async fn resumes(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let alice = Client::initialized(&gateway, "alice").await?;
    let mut stream = alice.listen(ROOM).await?;
    for id in [1, 2] {
        expect(202, alice.post("/message", &ping(id)).await?)?;
    }
    let first = stream.next().await?.ok_or("the stream ended")?;
    drop(stream);
    let after = first.id.ok_or("an event has no id")?;
    let call = alice.call("GET", ROOM).header("Last-Event-ID", after);
    let again = EventStream::open(gateway.address(), &call).await?;
    let mut again = again.map_err(|answer| format!("expected a stream, came {answer:?}"))?;
    let came = again.next().await?.ok_or("the stream ended")?;
    if read(&first.data)?["id"] != 1 || read(&came.data)?["id"] != 2 {
        return Err(format!("expected 1 and then 2, came {} and {}", first.data, came.data));
    }
    drop(again);
    gateway.stop().await
}
