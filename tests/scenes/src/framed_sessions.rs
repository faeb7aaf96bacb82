//! Sessions of the framed door over real connections: they outlive these, and what was not acknowledged comes again.

use libtest_mimic::Trial;
use salon_testkit::framed::{FramedAnswer, FramedClient, header};
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestToken, eventually, within};
use serde_json::{Value, json};

use crate::room::{join, next};
use crate::tables::{self, Logs};

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "framed::session",
        &[
            ("outlives its connection", Logs::Every, |engine| Box::pin(outlives(engine))),
            ("ends when nobody comes back", Logs::Every, |engine| Box::pin(nobody_comes_back(engine))),
            ("delivers again what was not acknowledged", Logs::Every, |engine| Box::pin(delivers_again(engine))),
            ("delivers no redacted text again", Logs::Every, |engine| Box::pin(delivers_no_redacted_text(engine))),
            ("stores once what is sent twice", Logs::Every, |engine| Box::pin(sent_twice(engine))),
            ("answers in any order, over two connections", Logs::SqliteOnly, |engine| Box::pin(any_order(engine))),
            ("ends when its client says so", Logs::Every, |engine| Box::pin(disconnects(engine))),
            ("ends with its token", Logs::SqliteOnly, |engine| Box::pin(token_ends(engine))),
            ("ends with the gateway", Logs::Every, |engine| Box::pin(shutdown(engine))),
            ("carries bytes", Logs::SqliteOnly, |engine| Box::pin(bytes(engine))),
            ("is one of not too many", Logs::SqliteOnly, |engine| Box::pin(too_many(engine))),
            ("is one of not too many over a connection", Logs::SqliteOnly, |engine| {
                Box::pin(too_many_over_one(engine))
            }),
            ("has no seat in a full room", Logs::Every, |engine| Box::pin(full_room(engine))),
            ("keeps its secrets", Logs::Every, |engine| Box::pin(secrets(engine))),
        ],
    )
}

/// A gateway with bob in the room, and alice connected by frames.
struct Stage {
    gateway: TestGateway,
    bob: TestSocket,
    line: FramedClient,
    session: String,
}

impl Stage {
    /// Clients that hang up first are not waited for.
    async fn end(self) -> Result<(), Failure> {
        let Self { gateway, bob, line, .. } = self;
        drop((bob, line));
        gateway.stop().await
    }

    async fn set(engine: TestEngine, settings: &[(&str, &str)], claims: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut options = TestOptions::new(engine);
        for (key, value) in settings {
            options = options.set(key, value)?;
        }
        let gateway = TestGateway::start(options).await?;
        let mut bob = join(&gateway, "bob").await?;
        let mut token = TestToken::new("alice");
        for (claim, value) in claims {
            token.claim(claim, value)?;
        }
        let mut line = FramedClient::open(gateway.framed_address()).await?;
        let session = line.connect("alice", "room:alpha", &gateway.token(&token)?).await?;
        hears(&mut bob, |frame| frame["payload"]["event"] == "join").await?;
        Ok(Self { gateway, bob, line, session })
    }

    async fn reopen(&mut self) -> Result<(), Failure> {
        self.line = FramedClient::open(self.gateway.framed_address()).await?;
        Ok(())
    }

    async fn send(&mut self, id: &str, payload: Value) -> Result<FramedAnswer, Failure> {
        let body = json!({"sessionId": self.session, "payload": payload});
        self.line.ask(id, "SEND", &body).await
    }

    async fn receive(&mut self, id: &str, timeout: u64) -> Result<Vec<Value>, Failure> {
        let reply = self.line.ask(id, "RECEIVE", &json!({"sessionId": self.session, "timeout": timeout})).await?;
        Ok(reply.messages()?.iter().map(|message| serde_json::from_str(message).unwrap_or_default()).collect())
    }

    async fn bob_says(&mut self, id: &str) -> Result<(), Failure> {
        let text = crate::room::envelope("bob", id, "", r#""method":"notifications/note""#);
        self.bob.text(text).await?;
        hears(&mut self.bob, |frame| frame["id"] == id).await.map(drop)
    }
}

/// The next thing that somebody hears which is meant.
async fn hears(socket: &mut TestSocket, meant: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
    loop {
        let frame: Value = serde_json::from_str(&next(socket).await?).map_err(|e| e.to_string())?;
        if meant(&frame) {
            return Ok(frame);
        }
    }
}

fn ids(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["id"].as_str().unwrap_or_default()).collect()
}

fn expect<T: PartialEq + std::fmt::Debug>(came: T, expected: T) -> Result<(), Failure> {
    if came == expected { Ok(()) } else { Err(format!("expected {expected:?}, came {came:?}")) }
}

async fn outlives(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    stage.reopen().await?;
    let sent = stage.send("s1", json!("over another connection")).await?;
    expect(sent.code(), 200)?;
    // Nothing but this: alice neither left nor came.
    let frame = hears(&mut stage.bob, |_| true).await?;
    expect(&frame["payload"]["params"]["text"], &json!("over another connection"))?;
    stage.end().await
}

async fn nobody_comes_back(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[("framed-session-timeout", "50")], &[]).await?;
    stage.reopen().await?;
    hears(&mut stage.bob, |frame| frame["payload"]["event"] == "leave").await?;
    let sent = stage.send("s1", json!("too late")).await?;
    expect((sent.code(), &sent.json()["code"]), (401, &json!("unauthorized")))?;
    stage.end().await
}

async fn delivers_again(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    stage.bob_says("e1").await?;
    expect(ids(&stage.receive("r1", 10_000).await?), vec!["e1"])?;
    stage.bob_says("e2").await?;
    // Lost before it was acknowledged: the same batch, and then what is new.
    stage.reopen().await?;
    expect(ids(&stage.receive("r2", 10_000).await?), vec!["e1"])?;
    expect(ids(&stage.receive("r3", 10_000).await?), vec!["e2"])?;
    expect(ids(&stage.receive("r4", 0).await?), vec![])?;
    // Acknowledged: nothing comes again.
    stage.reopen().await?;
    expect(ids(&stage.receive("r5", 0).await?), vec![])?;
    // The answer itself is lost with the connection that waits for it.
    let body = json!({"sessionId": stage.session, "timeout": 10_000}).to_string();
    stage.line.request(&header("r6", "RECEIVE"), body.as_bytes()).await?;
    stage.reopen().await?;
    stage.bob_says("e3").await?;
    expect(ids(&stage.receive("r7", 10_000).await?), vec!["e3"])?;
    stage.end().await
}

/// A batch that was not acknowledged has a tombstone in the place of what was redacted meanwhile.
async fn delivers_no_redacted_text(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[("auth.create_topics", "anyone")], &[]).await?;
    let call = |id: &str, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let rest = format!(r#""id":"{id}","method":"tools/call","params":{params}"#);
        crate::room::envelope("bob", id, r#""to":["system:gateway"],"#, &rest)
    };
    let chat = r#""method":"notifications/chat/message","params":{"text":"hunter2"}"#;
    stage.bob.text(crate::room::envelope("bob", "e1", "", chat)).await?;
    hears(&mut stage.bob, |frame| frame["id"] == "e1").await?;
    let first = stage.receive("r1", 5000).await?;
    let of_chat = |messages: &[Value]| messages.iter().find(|message| message["id"] == "e1").cloned();
    expect(of_chat(&first).map(|message| message["payload"]["params"]["text"].clone()), Some(json!("hunter2")))?;
    // The connection is lost before the batch is acknowledged.
    let (line, bob) = (stage.line, &mut stage.bob);
    drop(line);
    bob.text(call("s1", "topic.configure", json!({"change": {"title": "ours"}}))).await?;
    hears(bob, |frame| frame["correlation_id"] == "s1").await?;
    bob.text(call("m1", "message.redact", json!({"id": "e1"}))).await?;
    let redacted = hears(bob, |frame| frame["correlation_id"] == "m1").await?;
    expect(redacted["payload"]["result"]["structuredContent"]["redacted"].clone(), json!(["e1"]))?;
    stage.line = FramedClient::open(stage.gateway.framed_address()).await?;
    let again = stage.receive("r2", 5000).await?;
    expect(of_chat(&again).map(|message| message["payload"]["params"]["text"].clone()), Some(json!("(redacted)")))?;
    stage.end().await
}

async fn sent_twice(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    let first = stage.send("s1", json!("once")).await?.json();
    stage.reopen().await?;
    let again = stage.send("s1", json!("once")).await?.json();
    expect(&again, &first)?;
    let other = stage.send("s1", json!("something else")).await?;
    expect((other.code(), &other.json()["code"]), (400, &json!("id_conflict")))?;
    stage.send("s2", json!("then")).await?;
    let texts = |frame: Value| frame["payload"]["params"]["text"].clone();
    expect(texts(hears(&mut stage.bob, |_| true).await?), json!("once"))?;
    expect(texts(hears(&mut stage.bob, |_| true).await?), json!("then"))?;
    stage.end().await
}

async fn any_order(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    let wait = json!({"sessionId": stage.session, "timeout": 30_000}).to_string();
    stage.line.request(&header("waits", "RECEIVE"), wait.as_bytes()).await?;
    // While one request waits, others are answered: here, and on a second connection.
    expect(stage.send("s1", json!("meanwhile")).await?.code(), 200)?;
    let mut second = FramedClient::open(stage.gateway.framed_address()).await?;
    let sent = second.ask("s2", "SEND", &json!({"sessionId": stage.session, "payload": "elsewhere"})).await?;
    expect(sent.code(), 200)?;
    stage.bob_says("e1").await?;
    let reply = stage.line.reply().await?;
    expect(&reply.header["id"], &json!("waits"))?;
    expect(reply.messages()?.len(), 1)?;
    drop(second);
    stage.end().await
}

async fn disconnects(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    let body = json!({"sessionId": stage.session, "reason": "shift over"});
    let reply = stage.line.ask("d1", "DISCONNECT", &body).await?;
    expect(&reply.json()["status"], &json!("disconnected"))?;
    if !reply.json()["timestamp"].is_u64() {
        return Err(format!("no time: {}", reply.body));
    }
    let leave = hears(&mut stage.bob, |frame| frame["kind"] == "presence").await?;
    expect((&leave["payload"]["event"], &leave["payload"]["reason"]), (&json!("leave"), &json!("shift over")))?;
    for method in ["SEND", "RECEIVE", "DISCONNECT"] {
        let reply = stage.line.ask("after", method, &json!({"sessionId": stage.session, "payload": "x"})).await?;
        expect(reply.code(), 401)?;
    }
    stage.end().await
}

async fn token_ends(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[("expires", "3")]).await?;
    let body = json!({"sessionId": stage.session, "timeout": 30_000});
    let reply = stage.line.ask("r1", "RECEIVE", &body).await?;
    expect((reply.code(), &reply.json()["message"]), (401, &json!("the token has expired")))?;
    hears(&mut stage.bob, |frame| frame["payload"]["event"] == "leave").await?;
    stage.end().await
}

async fn shutdown(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    let body = json!({"sessionId": stage.session, "timeout": 30_000}).to_string();
    stage.line.request(&header("r1", "RECEIVE"), body.as_bytes()).await?;
    // The answer to this says that the request before it has been heard.
    expect(stage.send("s1", json!("x")).await?.code(), 200)?;
    let Stage { gateway, bob, mut line, .. } = stage;
    drop(bob);
    let told = async {
        let reply = line.reply().await?;
        expect((reply.code(), &reply.json()["code"]), (503, &json!("closing")))?;
        expect(line.next().await?.is_none(), true)
    };
    // Read meanwhile: a gateway that stops waits for its clients to hang up.
    let (stopped, told) = tokio::join!(gateway.stop(), told);
    stopped.and(told)
}

async fn bytes(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    let mut head = header("b1", "SEND");
    head["contentType"] = "image/x-dots".into();
    head["sessionId"] = stage.session.as_str().into();
    head["destination"] = "bob".into();
    stage.line.request(&head, &[0, 255, 16, 128]).await?;
    expect(stage.line.reply().await?.code(), 200)?;
    let frame = hears(&mut stage.bob, |_| true).await?;
    let params = json!({"contentType": "image/x-dots", "data": "AP8QgA==", "encoding": "base64"});
    expect((&frame["payload"]["method"], &frame["payload"]["params"]), (&json!("notifications/data"), &params))?;
    expect(&frame["to"], &json!(["bob"]))?;
    stage.end().await
}

async fn too_many(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.connections_per_participant", "2")?).await?;
    let token = gateway.token(&TestToken::new("alice"))?;
    let mut line = FramedClient::open(gateway.framed_address()).await?;
    line.connect("alice", "room:1", &token).await?;
    let session = line.connect("alice", "room:2", &token).await?;
    let body = json!({"clientInfo": {"id": "alice"}, "token": token, "topic": "room:3"});
    let reply = line.ask("c3", "CONNECT", &body).await?;
    expect((reply.code(), &reply.json()["code"]), (429, &json!("rate_limited")))?;
    line.ask("d2", "DISCONNECT", &json!({"sessionId": session})).await?;
    within("the place to be free", connects(&mut line, &body)).await??;
    drop(line);
    gateway.stop().await
}

/// Connects as soon as there is a place: it is free once the session that had it has gone, which may take a moment.
async fn connects(line: &mut FramedClient, body: &Value) -> Result<(), Failure> {
    let connected = eventually("a place", async || match line.ask("again", "CONNECT", body).await {
        Ok(reply) if reply.code() != 200 => None,
        answered => Some(answered.map(drop)),
    });
    connected.await?
}

/// Only sessions that have not ended count.
async fn too_many_over_one(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut line = FramedClient::open(gateway.framed_address()).await?;
    let connect = |who: &str| -> Result<Value, Failure> {
        let token = gateway.token(&TestToken::new(who))?;
        Ok(json!({"clientInfo": {"id": who}, "token": token, "topic": "room:alpha"}))
    };
    let mut first = None;
    for at in 0..64 {
        let who = format!("sensor-{at}");
        let session = line.connect(&who, "room:alpha", &gateway.token(&TestToken::new(&who))?).await?;
        first.get_or_insert(session);
    }
    let last = connect("sensor-64")?;
    let refused = line.ask("c64", "CONNECT", &last).await?;
    expect((refused.code(), &refused.json()["code"]), (429, &json!("rate_limited")))?;
    line.ask("d0", "DISCONNECT", &json!({"sessionId": first})).await?;
    within("its place to be free", connects(&mut line, &last)).await??;
    drop(line);
    gateway.stop().await
}

async fn full_room(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.participants", "1")?).await?;
    let bob = join(&gateway, "bob").await?;
    let mut line = FramedClient::open(gateway.framed_address()).await?;
    let token = gateway.token(&TestToken::new("alice"))?;
    let body = json!({"clientInfo": {"id": "alice"}, "token": token, "topic": "room:alpha"});
    let reply = line.ask("c1", "CONNECT", &body).await?;
    expect((reply.code(), &reply.json()["code"]), (429, &json!("rate_limited")))?;
    drop((bob, line));
    gateway.stop().await
}

/// Neither the token nor the session's id is seen by anybody else.
async fn secrets(engine: TestEngine) -> Result<(), Failure> {
    let mut stage = Stage::set(engine, &[], &[]).await?;
    let body = json!({"sessionId": stage.session, "payload": {"text": "hello"}, "token": "open-sesame"});
    expect(stage.line.ask("s1", "SEND", &body).await?.code(), 200)?;
    let heard = hears(&mut stage.bob, |_| true).await?.to_string();
    let token = stage.gateway.token(&TestToken::new("bob"))?;
    let history =
        HttpCall::new("GET", "/v0/topics/room:alpha/history").bearer(&token).send(stage.gateway.address()).await?;
    for secret in [stage.session.as_str(), "open-sesame"] {
        if heard.contains(secret) || history.body.contains(secret) {
            return Err(format!("`{secret}` is in the room"));
        }
    }
    stage.end().await
}
