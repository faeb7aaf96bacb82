//! What the door of the Machine Context Protocol refuses, over a WebSocket and over HTTP: each as an error message of the protocol, with its code and
//! the message it is about, and over HTTP with the status that fits. A refused client can go on, and nothing has reached the room.

use libtest_mimic::Trial;
use salon_testkit::http::{HttpAnswer, HttpCall};
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken, within};
use serde_json::{Value, json};

use crate::room::{join, next};
use crate::tables::{Case, Logs, check_all, trial, trials as trials_of};

/// The message limit here, in bytes.
const LIMIT: usize = 4096;

const TOPIC: &str = "room:alpha";

/// What carol offers: it needs a whole number, and a permission.
const TOOL: &str = r#"{"id":"arm","capabilities":[{"name":"move","parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}},{"name":"stop"}]}"#;
const LOCKED: &str = r#"{"id":"door","capabilities":[{"name":"open"}],"security":{"permissions":["keys"]}}"#;

struct Refused {
    name: String,
    /// `$ME` is the participant that sends it, and `$ID` the id of the message.
    text: String,
    code: &'static str,
    status: u16,
    /// Whether the message is known by its id.
    named: bool,
    /// Whether it is too long to be read where it is a body.
    unread: bool,
    /// Whether the callee's side refused it, after the room had heard of the call.
    by_callee: bool,
}

impl Case for Refused {
    fn name(&self) -> String {
        self.name.clone()
    }
}

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    let mut all = trials_of(
        engine,
        "machine",
        &[
            ("refused_too_often", Logs::SqliteOnly, |engine| Box::pin(too_often(engine))),
            // The place of a participant is the log's to give.
            ("refused_streams", Logs::Every, |engine| Box::pin(streams(engine))),
        ],
    );
    if Logs::SqliteOnly.include(engine) {
        let tables: [(&str, Vec<Refused>); 4] =
            [("texts", texts()), ("headers", headers()), ("calls", calls()), ("seals", seals())];
        all.extend(tables.into_iter().map(|(name, table)| {
            trial(engine, &format!("machine::refused::{name}"), move || async move {
                check_all(table, async || Floor::open(engine).await, refuse).await?.close().await
            })
        }));
    }
    all
}

/// A refused message counts against the rate like a published one, over HTTP too.
async fn too_often(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine).set("limits.rate", "1")?.set("limits.burst", "4")?;
    let gateway = TestGateway::start(options).await?;
    let value = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let seal = json!({ "integrity": { "alg": "HS256", "keyId": "t-1", "value": value } });
    let sealed = message("notification", "*", |message| message["metadata"] = seal);
    let (long, nothing) = ("x".repeat(2 << 20), "hello".to_owned());
    for (who, body, status) in [("alice", sealed, 403), ("bob", nothing, 400), ("carol", long, 413)] {
        let mut token = TestToken::new(who);
        token.claim("jti", "t-1")?;
        let token = gateway.token(&token)?;
        let mut refused = Vec::new();
        // Only somebody slower than one message a second would never come to the limit.
        while refused.len() < 50 && refused.last() != Some(&429) {
            let call = HttpCall::new("POST", format!("/context/v1/messages?topic={TOPIC}"));
            let answer =
                call.bearer(&token).body(sent_by(&body, who, &format!("m1-{who}"))).send(gateway.address()).await?;
            if answer.status == 429 && (!answer.body.contains("rate_limited") || answer.header("retry-after").is_none())
            {
                return Err(format!("{who} does not learn when to try again: {answer:?}"));
            }
            refused.push(answer.status);
        }
        if refused.len() < 5 || refused[..4] != [status; 4] || refused.last() != Some(&429) {
            return Err(format!("expected {status} four times and 429 in the end, came {refused:?}"));
        }
        within("a message that is not read", paused(&gateway, &token, who, &body)).await??;
    }
    gateway.stop().await
}

/// A client with too many refusals is not read for a while: not even a good message, whose refusal then does not name it.
async fn paused(gateway: &TestGateway, token: &str, who: &str, wrong: &str) -> Result<(), Failure> {
    let post = async |body: &str| {
        let call = HttpCall::new("POST", format!("/context/v1/messages?topic={TOPIC}"));
        call.bearer(token).body(sent_by(body, who, &format!("m1-{who}"))).send(gateway.address()).await
    };
    let good = message("notification", "*", |_| {});
    // The while may be over before the good one comes.
    loop {
        if post(wrong).await?.status == 429 {
            let answer = post(&good).await?;
            if answer.status == 429 && !answer.body.contains("requestId") {
                return Ok(());
            }
        }
    }
}

/// A stream that reconnects by itself while a WebSocket has its place is refused, and does not count as a message.
async fn streams(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine).set("limits.rate", "1")?.set("limits.burst", "4")?;
    let gateway = TestGateway::start(options).await?;
    let mut alice = enter(&gateway, "alice").await?;
    // Once it is answered it has the place.
    alice.text("hello".to_owned()).await?;
    about(&mut alice, None).await?;
    let mut token = TestToken::new("alice");
    token.claim("jti", "t-1")?;
    let token = gateway.token(&token)?;
    let mut came = Vec::new();
    for _ in 0..20 {
        let call =
            HttpCall::new("GET", format!("/context/v1/stream?topic={TOPIC}")).header("accept", "text/event-stream");
        came.push(call.bearer(&token).send(gateway.address()).await?.status);
    }
    let call = HttpCall::new("POST", format!("/context/v1/messages?topic={TOPIC}"));
    let text = sent_by(&message("notification", "*", |_| {}), "alice", "m1");
    came.push(call.bearer(&token).body(text).send(gateway.address()).await?.status);
    if came != [409; 21] {
        return Err(format!("expected 409 each time, came {came:?}"));
    }
    drop(alice);
    gateway.stop().await
}

fn refused(name: impl Into<String>, text: impl Into<String>, code: &'static str, status: u16) -> Refused {
    Refused { name: name.into(), text: text.into(), code, status, named: true, unread: false, by_callee: false }
}

impl Refused {
    fn nameless(self) -> Self {
        Self { named: false, ..self }
    }

    fn unread(self) -> Self {
        Self { unread: true, ..self }
    }

    fn by_callee(self) -> Self {
        Self { by_callee: true, ..self }
    }
}

/// A message with a header that is right, but for what is changed.
fn message(kind: &str, destination: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut message = json!({
        "header": {
            "version": "1.0", "messageId": "$ID", "timestamp": "2025-03-21T10:00:00Z", "messageType": kind,
            "source": "$ME", "destination": destination,
        },
        "payload": {},
    });
    change(&mut message);
    message.to_string()
}

fn sent_by(text: &str, who: &str, id: &str) -> String {
    text.replace("$ME", who).replace("$ID", id)
}

fn texts() -> Vec<Refused> {
    let whole = message("notification", "*", |_| {});
    let with = |payload: &str| whole.replace(r#""payload":{}"#, &format!(r#""payload":{payload}"#));
    let deep = format!("{}1{}", "[".repeat(64), "]".repeat(64));
    vec![
        refused("no JSON", "hello", "invalid_json", 400).nameless(),
        refused("a message that is cut off", &whole[..whole.len() - 1], "invalid_json", 400).nameless(),
        refused("two messages", format!("{whole}{whole}"), "invalid_json", 400).nameless(),
        refused("a list", format!("[{whole}]"), "invalid_envelope", 400).nameless(),
        refused("no header", r#"{"payload":{}}"#, "invalid_envelope", 400).nameless(),
        refused("a header that is not an object", r#"{"header":"m1"}"#, "invalid_envelope", 400).nameless(),
        refused("a payload that is not an object", with("[]"), "invalid_envelope", 400),
        refused("a key that stands twice", with(r#"{"a":1,"a":2}"#), "invalid_json", 400),
        refused("half a character", with(r#"{"a":"\ud800"}"#), "invalid_json", 400),
        refused("too deep", with(&format!(r#"{{"a":{deep}}}"#)), "too_deep", 400),
        refused("too long", with(&format!(r#"{{"a":"{}"}}"#, "x".repeat(LIMIT))), "too_large", 413).unread(),
    ]
}

fn headers() -> Vec<Refused> {
    let with = |key: &'static str, value: Value| {
        message("notification", "*", |message| match value {
            Value::Null => drop(message["header"].as_object_mut().map(|header| header.remove(key))),
            value => message["header"][key] = value,
        })
    };
    let odd = "invalid_envelope";
    let mut table = vec![
        refused("no version", with("version", Value::Null), odd, 400),
        refused("no messageId", with("messageId", Value::Null), odd, 400).nameless(),
        refused("a messageId that is a number", with("messageId", json!(1)), odd, 400).nameless(),
        refused("no timestamp", with("timestamp", Value::Null), odd, 400),
        refused("an invalid timestamp", with("timestamp", json!("yesterday")), odd, 400),
        refused("no messageType", with("messageType", Value::Null), odd, 400),
        refused("an unknown messageType", with("messageType", json!("shout")), odd, 400),
        refused("nobody to tell", with("destination", Value::Null), "recipient_required", 400),
        refused("a destination that names nobody", with("destination", json!("b/ob")), odd, 400),
    ];
    for version in ["2.0", "0.9", "1", "one"] {
        let text = with("version", json!(version));
        table.push(refused(format!("the version {version}"), text, "unsupported_protocol", 400));
    }
    for source in ["bob", "system:gateway", "nobody"] {
        let text = with("source", json!(source));
        table.push(refused(format!("as if from {source}"), text, "from_mismatch", 403));
    }
    table
}

fn calls() -> Vec<Refused> {
    let call = |to: &str, tool: Value| message("request", to, |message| message["payload"]["tool"] = tool);
    let arm = |parameters: Value| call("carol", json!({"id": "arm", "capability": "move", "parameters": parameters}));
    let answer = |kind: &str, request: Value| {
        message(kind, "bob", |message| {
            message["header"]["requestId"] = request;
            message["error"] = json!({"code": "x", "message": "x"});
        })
    };
    let register = |parameters: Value| {
        call("system:gateway", json!({"id": "registry", "capability": "register", "parameters": parameters}))
    };
    let wrong = "invalid_parameters";
    vec![
        refused("no tool", call("carol", Value::Null), wrong, 400),
        refused("a tool without an id", call("carol", json!({})), wrong, 400),
        refused("parameters that are a list", arm(json!([1])), wrong, 400),
        refused("nobody who is there", call("zoe", json!({"id": "arm"})), "recipient_not_found", 404),
        refused("everybody", call("*", json!({"id": "arm"})), "recipient_required", 400),
        refused("a tool that is not registered", call("carol", json!({"id": "leg"})), "not_found", 404),
        refused(
            "a capability that is not registered",
            call("carol", json!({"id": "arm", "capability": "jump"})),
            "not_found",
            404,
        ),
        refused("a parameter of another type", arm(json!({"x": "far"})), wrong, 400).by_callee(),
        refused("a parameter that is no whole number", arm(json!({"x": 1.5})), wrong, 400).by_callee(),
        refused("a parameter that is missing", arm(json!({})), wrong, 400).by_callee(),
        refused("a parameter too many", arm(json!({"x": 1, "y": 1})), wrong, 400).by_callee(),
        refused(
            "a tool that needs a permission",
            call("carol", json!({"id": "door", "capability": "open"})),
            "forbidden",
            403,
        )
        .by_callee(),
        refused("an unknown tool of the gateway", call("system:gateway", json!({"id": "x"})), "not_found", 404),
        refused("a registration without capabilities", register(json!({"id": "t"})), wrong, 400),
        refused(
            "a registration with an invalid schema",
            register(json!({"id": "t", "capabilities": [{"name": "c", "parameters": {"type": "thing"}}]})),
            wrong,
            400,
        ),
        refused("an answer to nothing", answer("response", Value::Null), "correlation_required", 400),
        refused("an answer to nobody's request", answer("response", json!("q1")), "correlation_mismatch", 409),
        refused("an error to nobody's request", answer("error", json!("q1")), "correlation_mismatch", 409),
    ]
}

fn seals() -> Vec<Refused> {
    let sealed = |integrity: Value| {
        message("notification", "*", |message| message["metadata"] = json!({"integrity": integrity}))
    };
    let value = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let odd = "invalid_parameters";
    vec![
        refused("an invalid seal", sealed(json!("yes")), odd, 400),
        refused("a seal without a value", sealed(json!({"alg": "HS256", "keyId": "t-1"})), odd, 400),
        refused("a seal of another kind", sealed(json!({"alg": "none", "keyId": "t-1", "value": value})), odd, 400),
        refused(
            "a seal in other letters",
            sealed(json!({"alg": "HS256", "keyId": "t-1", "value": format!("{value}=")})),
            odd,
            400,
        ),
        refused(
            "a seal that is wrong",
            sealed(json!({"alg": "HS256", "keyId": "t-1", "value": value})),
            "forbidden",
            403,
        ),
        refused(
            "a seal with somebody's key",
            sealed(json!({"alg": "EdDSA", "keyId": "other", "value": value.repeat(2)})),
            "forbidden",
            403,
        ),
        refused(
            "somebody else's token",
            message("notification", "*", |message| message["payload"]["security"] = json!({"token": "secret"})),
            "unauthorized",
            401,
        ),
        refused(
            "more permissions than the token has",
            message("notification", "*", |message| message["payload"]["security"] = json!({"permissions": ["keys"]})),
            "forbidden",
            403,
        ),
    ]
}

async fn enter(gateway: &TestGateway, who: &str) -> Result<TestSocket, Failure> {
    let mut token = TestToken::new(who);
    token.claim("jti", "t-1")?;
    let call = HttpCall::new("GET", format!("/context/v1/ws?topic={TOPIC}")).bearer(&gateway.token(&token)?);
    TestSocket::connect(gateway.address(), call).await?.map_err(|answer| format!("not let in: {answer:?}"))
}

/// Lets anything pass until a message about that request comes.
async fn about(socket: &mut TestSocket, request: Option<&str>) -> Result<Value, Failure> {
    loop {
        let TestSocketEvent::Text(text) = socket.next().await? else { return Err("the connection ended".into()) };
        let message: Value = serde_json::from_str(&text).map_err(|error| format!("no JSON ({error}): {text}"))?;
        let header = &message["header"];
        if header["messageType"] != "notification" && header["requestId"].as_str() == request {
            return Ok(message);
        }
    }
}

/// The protocol's own form of an error, whole.
fn check(came: &Value, refused: &Refused, me: &str, id: Option<&str>) -> Result<(), Failure> {
    let (header, error) = (&came["header"], &came["error"]);
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let by = if refused.by_callee { "carol" } else { "system:gateway" };
    let right = header["version"] == "1.0"
        && text(&header["messageId"])
        && text(&header["timestamp"])
        && header["messageType"] == "error"
        && header["source"] == by
        && header["destination"] == me
        && header["requestId"].as_str() == id
        && error["code"] == refused.code
        && text(&error["message"])
        && came["payload"].is_null()
        && !came.to_string().contains("secret");
    if right { Ok(()) } else { Err(format!("{me} was told {came} about {}", refused.text)) }
}

/// The participants that the cases share: bob hears the room, carol offers tools, alice has a WebSocket and dave has none.
struct Floor {
    gateway: TestGateway,
    bob: TestSocket,
    carol: TestSocket,
    alice: TestSocket,
    dave: String,
    cases: usize,
}

impl Floor {
    async fn open(engine: TestEngine) -> Result<Self, Failure> {
        let options = TestOptions::new(engine).set("limits.message", &LIMIT.to_string())?.set("limits.rate", "0")?;
        let gateway = TestGateway::start(options).await?;
        let bob = join(&gateway, "bob").await?;
        let mut carol = enter(&gateway, "carol").await?;
        for (id, tool) in [("t1", TOOL), ("t2", LOCKED)] {
            let mut register: Value = serde_json::from_str(tool).map_err(|error| error.to_string())?;
            let tool = json!({"id": "registry", "capability": "register", "parameters": register.take()});
            let text = message("request", "system:gateway", |message| message["payload"]["tool"] = tool);
            carol.text(sent_by(&text, "carol", id)).await?;
            if about(&mut carol, Some(id)).await?["header"]["messageType"] != "response" {
                return Err("the tools were not registered".into());
            }
        }
        let alice = enter(&gateway, "alice").await?;
        let mut token = TestToken::new("dave");
        token.claim("jti", "t-1")?;
        let dave = gateway.token(&token)?;
        Ok(Self { gateway, bob, carol, alice, dave, cases: 0 })
    }

    async fn post(&self, body: String) -> Result<HttpAnswer, Failure> {
        let call = HttpCall::new("POST", format!("/context/v1/messages?topic={TOPIC}"));
        call.bearer(&self.dave).body(body).send(self.gateway.address()).await
    }

    async fn close(self) -> Result<(), Failure> {
        let Self { gateway, bob, carol, alice, .. } = self;
        drop((alice, bob, carol));
        gateway.stop().await
    }
}

async fn refuse(floor: &mut Floor, refused: Refused) -> Result<(), Failure> {
    floor.cases += 1;
    let case = floor.cases;
    let by = |me: &str| {
        let id = format!("m{case}-{me}");
        (sent_by(&refused.text, me, &id), id)
    };
    let (text, id) = by("alice");
    let id = refused.named.then_some(&*id);
    floor.alice.text(text).await?;
    let came = about(&mut floor.alice, id).await?;
    check(&came, &refused, "alice", id)?;
    floor.alice.text(proof("alice", case)).await?;

    // The same over HTTP, from a participant that has no WebSocket.
    let (text, id) = by("dave");
    let answer = floor.post(text).await?;
    let came: Value = serde_json::from_str(&answer.body).map_err(|error| format!("{error}: {answer:?}"))?;
    check(&came, &refused, "dave", (refused.named && !refused.unread).then_some(&*id))?;
    if answer.status != refused.status {
        return Err(format!("expected the status {}, came {answer:?}", refused.status));
    }
    let answer = floor.post(proof("dave", case)).await?;
    if answer.status != 202 {
        return Err(format!("the next message was not taken: {answer:?}"));
    }
    heard_only_the_proofs(&mut floor.bob, case, refused.by_callee).await
}

fn proof(who: &str, case: usize) -> String {
    sent_by(&message("notification", "*", |_| {}), who, &proof_id(who, case))
}

fn proof_id(who: &str, case: usize) -> String {
    format!("proof-{who}-{case}")
}

/// What either has said in the room, in whatever order, is the proof that it can go on; and before it a call, where that got so far.
async fn heard_only_the_proofs(bob: &mut TestSocket, case: usize, called: bool) -> Result<(), Failure> {
    let mut missing = vec!["alice", "dave"];
    while !missing.is_empty() {
        let text = next(bob).await?;
        let entry: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let Some(at) = missing.iter().position(|&who| entry["from"] == who) else { continue };
        if entry["id"] == proof_id(missing[at], case) {
            missing.remove(at);
        } else if !called {
            return Err(format!("the room heard {text}"));
        }
    }
    Ok(())
}
