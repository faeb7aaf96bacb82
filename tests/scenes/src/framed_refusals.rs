//! What the framed door refuses, over real connections: lengths that cannot be, frames that never end, strangers, and requests that make no
//! sense. Each has its code, and whether the connection goes on is said of each.

use std::net::SocketAddr;

use libtest_mimic::Trial;
use salon_testkit::framed::{FramedAnswer, FramedClient, frame, header};
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestToken};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::tables::{Case, Logs, check_all, trial};

/// The message limit here, in bytes.
const LIMIT: u32 = 4096;

/// The limit of a header, in bytes.
const MAX_HEADER: u32 = 64 << 10;

/// What becomes of the connection.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    GoesOn,
    Ends,
}

struct Refused {
    name: String,
    bytes: Vec<u8>,
    status: u64,
    code: &'static str,
    /// A part of the sentence.
    told: &'static str,
    then: Then,
}

impl Case for Refused {
    fn name(&self) -> String {
        self.name.clone()
    }
}

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    if !Logs::SqliteOnly.include(engine) {
        return Vec::new();
    }
    let refusals: [(&str, Vec<Refused>); 4] =
        [("lengths", lengths()), ("headers", headers()), ("waits", waits()), ("strangers", strangers())];
    let refusals = refusals.into_iter().map(|(name, table)| {
        trial(engine, &format!("framed::refused::{name}"), move || async move {
            check_all(table, async || Door::open(engine).await, refuse).await?.gateway.stop().await
        })
    });
    let others = [
        trial(engine, "framed::not_let_in", move || async move {
            check_all(entering(), async || Door::open(engine).await, not_let_in).await?.gateway.stop().await
        }),
        trial(engine, "framed::absurd_waits", move || async move {
            check_all(absurd_waits(), async || Door::open(engine).await, wait_absurdly).await?.gateway.stop().await
        }),
        trial(engine, "framed::stalled", move || stall_all(engine)),
    ];
    refusals.chain(others).collect()
}

/// A gateway whose cases each bring participants of their own.
struct Door {
    gateway: TestGateway,
    cases: usize,
}

impl Door {
    async fn open(engine: TestEngine) -> Result<Self, Failure> {
        let options = TestOptions::new(engine).set("limits.message", &LIMIT.to_string())?.set("limits.rate", "0")?;
        Ok(Self { gateway: TestGateway::start(options).await?, cases: 0 })
    }

    /// A participant that nobody has been, connected to its session in a room.
    async fn connect(&mut self, who: &str, topic: &str) -> Result<(FramedClient, String), Failure> {
        self.cases += 1;
        let who = format!("{who}-{}", self.cases);
        let mut line = FramedClient::open(self.gateway.framed_address()).await?;
        let session = line.connect(&who, topic, &self.gateway.token(&TestToken::new(&who))?).await?;
        Ok((line, session))
    }
}

fn refused(name: impl Into<String>, bytes: Vec<u8>, status: u64, code: &'static str, then: Then) -> Refused {
    Refused { name: name.into(), bytes, status, code, told: "", then }
}

impl Refused {
    fn saying(mut self, told: &'static str) -> Self {
        self.told = told;
        self
    }
}

/// A frame whose lengths are what they are said to be.
fn announced(header_length: u32, header: &[u8], body_length: u32, body: &[u8]) -> Vec<u8> {
    [&header_length.to_be_bytes(), header, &body_length.to_be_bytes(), body].concat()
}

/// A header of so many bytes that asks for something.
fn padded(bytes: u32) -> Vec<u8> {
    let mut text = header("padded", "RECEIVE");
    text["pad"] = "".into();
    let short = text.to_string().len();
    text["pad"] = "x".repeat(bytes as usize - short).into();
    text.to_string().into_bytes()
}

fn lengths() -> Vec<Refused> {
    let small = header("small", "RECEIVE").to_string().into_bytes();
    let length = u32::try_from(small.len()).expect("small");
    let big_endian = "big-endian";
    let mut table = vec![
        refused("a header of no bytes", announced(0, b"", 2, b"{}"), 400, "invalid_json", Then::GoesOn),
        refused("a body of no bytes", frame(&small, b""), 400, "invalid_json", Then::GoesOn),
        refused("no bytes at all", announced(0, b"", 0, b""), 400, "invalid_json", Then::GoesOn),
        refused(
            "a header one byte below the limit",
            frame(&padded(MAX_HEADER - 1), b"{}"),
            401,
            "unauthorized",
            Then::GoesOn,
        ),
        refused("a header at the limit", frame(&padded(MAX_HEADER), b"{}"), 401, "unauthorized", Then::GoesOn),
        refused(
            "a header in little-endian",
            [&length.to_le_bytes(), &small[..], &[2, 0, 0, 0], b"{}"].concat(),
            400,
            "too_large",
            Then::Ends,
        )
        .saying("little-endian this one would be"),
        refused(
            "a body in little-endian",
            [&length.to_be_bytes(), &small[..], &[2, 0, 0, 0], b"{}"].concat(),
            400,
            "too_large",
            Then::Ends,
        )
        .saying("little-endian this one would be 2"),
        refused(
            "a body that is longer than it says",
            [frame(&small, b"{}"), b"more of it".to_vec()].concat(),
            401,
            "unauthorized",
            Then::Ends,
        ),
        refused(
            "a request over HTTP",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            400,
            "too_large",
            Then::Ends,
        )
        .saying(big_endian),
    ];
    for (name, announced_length) in
        [("one byte over the limit", MAX_HEADER + 1), ("0x7FFFFFFF", 0x7fff_ffff), ("0xFFFFFFFF", u32::MAX)]
    {
        let bytes = announced_length.to_be_bytes().to_vec();
        table.push(refused(format!("a header of {name}"), bytes, 400, "too_large", Then::Ends).saying(big_endian));
    }
    for (name, body_length) in
        [("one byte over the limit", LIMIT + 1), ("0x7FFFFFFF", 0x7fff_ffff), ("0xFFFFFFFF", u32::MAX)]
    {
        let bytes = announced(length, &small, body_length, b"");
        table.push(refused(format!("a body of {name}"), bytes, 400, "too_large", Then::Ends).saying(big_endian));
    }
    for bytes in [LIMIT - 1, LIMIT] {
        let body = format!("{{\"pad\":\"{}\"}}", "x".repeat(bytes as usize - 10));
        let code = "unauthorized";
        table.push(refused(
            format!("a body of {bytes} bytes, but of no session"),
            frame(&small, body.as_bytes()),
            401,
            code,
            Then::GoesOn,
        ));
    }
    table
}

fn headers() -> Vec<Refused> {
    let of = |change: fn(&mut Value)| {
        let mut header = header("odd", "SEND");
        change(&mut header);
        frame(header.to_string().as_bytes(), b"{}")
    };
    vec![
        refused("a header that is not JSON", frame(b"SEND hello", b"{}"), 400, "invalid_json", Then::GoesOn),
        refused("a header that is no text", frame(b"\xff\xfe{}", b"{}"), 400, "invalid_json", Then::GoesOn),
        refused(
            "a header that is cut off",
            frame(br#"{"id":"a","method":"SE"#, b"{}"),
            400,
            "invalid_json",
            Then::GoesOn,
        ),
        refused(
            "a header without an id",
            of(|header| drop(header.as_object_mut().map(|h| h.remove("id")))),
            400,
            "invalid_envelope",
            Then::GoesOn,
        ),
        refused(
            "another version",
            of(|header| header["version"] = "MCP/2.0".into()),
            400,
            "unsupported_protocol",
            Then::GoesOn,
        ),
        refused(
            "an unknown method",
            of(|header| header["method"] = "SUBSCRIBE".into()),
            400,
            "not_found",
            Then::GoesOn,
        ),
        refused(
            "a method in small letters",
            of(|header| header["method"] = "send".into()),
            400,
            "not_found",
            Then::GoesOn,
        ),
        refused(
            "an invalid time",
            of(|header| header["timestamp"] = "yesterday".into()),
            400,
            "invalid_envelope",
            Then::GoesOn,
        ),
    ]
}

fn waits() -> Vec<Refused> {
    // The session is put in where it says `$SESSION`.
    [json!(-1), json!("-1"), json!("soon"), json!(""), json!(true), json!([]), json!({}), Value::Null]
        .into_iter()
        .map(|timeout| {
            let name = format!("waiting for {timeout}");
            let body = json!({"sessionId": "$SESSION", "timeout": timeout}).to_string();
            refused(
                name,
                frame(header("wait", "RECEIVE").to_string().as_bytes(), body.as_bytes()),
                400,
                "invalid_parameters",
                Then::GoesOn,
            )
        })
        .collect()
}

fn strangers() -> Vec<Refused> {
    let with = |method: &str, session: &str| {
        let body = json!({"sessionId": session, "payload": "x"}).to_string();
        frame(header("stranger", method).to_string().as_bytes(), body.as_bytes())
    };
    let mut table: Vec<Refused> = ["SEND", "RECEIVE", "DISCONNECT"]
        .map(|method| {
            let bytes = with(method, "00112233445566778899aabbccddeeff");
            refused(format!("{method} in somebody's session"), bytes, 401, "unauthorized", Then::GoesOn)
        })
        .into();
    table.push(refused("a session that is no id", with("SEND", "'; --"), 401, "unauthorized", Then::GoesOn));
    table.push(refused(
        "no session",
        frame(header("none", "SEND").to_string().as_bytes(), b"{}"),
        401,
        "unauthorized",
        Then::GoesOn,
    ));
    for (name, session) in [
        ("a session and a blank", "$SESSION "),
        ("a session and a digit", "$SESSION0"),
        ("a session after something", "x$SESSION"),
        ("an empty session", ""),
    ] {
        table.push(refused(name, with("SEND", session), 401, "unauthorized", Then::GoesOn));
    }
    let mut binary = header("binary", "SEND");
    binary["contentType"] = "binary".into();
    let bytes = frame(binary.to_string().as_bytes(), br#"{"sessionId":"$SESSION"}"#);
    table.push(refused("a binary body that names its session inside", bytes, 401, "unauthorized", Then::GoesOn));
    table
}

fn check(reply: &FramedAnswer, status: u64, code: &str, told: &str) -> Result<(), Failure> {
    let body = reply.json();
    let message = body["message"].as_str().unwrap_or_default();
    if reply.code() == status
        && body["status"] == "error"
        && body["code"] == code
        && !message.is_empty()
        && message.contains(told)
    {
        return Ok(());
    }
    Err(format!("expected {status} {code} with {told:?}, came {} {}", reply.header, reply.body))
}

/// An error on one connection is answered there, and its session goes on.
async fn refuse(door: &mut Door, refused: Refused) -> Result<(), Failure> {
    let (mut line, session) = door.connect("alice", "room:alpha").await?;
    let bytes = replace(&refused.bytes, b"$SESSION", session.as_bytes());
    line.bytes(&bytes).await?;
    check(&line.reply().await?, refused.status, refused.code, refused.told)?;
    match refused.then {
        Then::GoesOn => {}
        Then::Ends => {
            // What follows a whole frame may be another's beginning: then its length is what ends the connection.
            while line.next().await?.is_some() {}
            // The session does not end with it.
            line = FramedClient::open(door.gateway.framed_address()).await?;
        }
    }
    let reply = line.ask("proof", "SEND", &json!({"sessionId": session, "payload": "still here"})).await?;
    if reply.json()["status"] != "accepted" {
        return Err(format!("the session did not go on: {}", reply.body));
    }
    Ok(())
}

/// The bytes with a mark replaced, and the body's length with it.
fn replace(bytes: &[u8], mark: &[u8], by: &[u8]) -> Vec<u8> {
    let Some(at) = bytes.windows(mark.len()).position(|window| window == mark) else { return bytes.to_vec() };
    let header = u32::from_be_bytes(bytes[..4].try_into().expect("a length")) as usize;
    let body = [&bytes[8 + header..at], by, &bytes[at + mark.len()..]].concat();
    frame(&bytes[4..4 + header], &body)
}

struct Entering {
    name: &'static str,
    body: fn(&TestGateway) -> Result<Value, Failure>,
    status: u64,
    code: &'static str,
}

impl Case for Entering {
    fn name(&self) -> String {
        self.name.to_owned()
    }
}

/// A token with some claims set.
fn token(gateway: &TestGateway, claims: &[(&str, &str)]) -> Result<String, Failure> {
    let mut token = TestToken::new("alice");
    for (claim, value) in claims {
        token.claim(claim, value)?;
    }
    gateway.token(&token)
}

fn entering() -> Vec<Entering> {
    let entering = |name, status, code, body| Entering { name, body, status, code };
    vec![
        entering("no token", 401, "unauthorized", |_| {
            Ok(json!({"clientInfo": {"id": "alice"}, "topic": "room:alpha"}))
        }),
        entering("an invalid token", 401, "unauthorized", |_| {
            Ok(json!({"clientInfo": {"id": "alice"}, "topic": "room:alpha", "token": "open sesame"}))
        }),
        entering("a token that is over", 401, "unauthorized", |gateway| {
            Ok(
                json!({"clientInfo": {"id": "alice"}, "topic": "room:alpha", "token": token(gateway, &[("expires", "-60")])?}),
            )
        }),
        entering("another room", 403, "forbidden", |gateway| {
            Ok(
                json!({"clientInfo": {"id": "alice"}, "topic": "room:beta", "token": token(gateway, &[("topics", "room:alpha")])?}),
            )
        }),
        entering("another name", 403, "forbidden", |gateway| {
            Ok(json!({"clientInfo": {"id": "bob"}, "topic": "room:alpha", "token": token(gateway, &[])?}))
        }),
        entering("no room, where there are several", 400, "invalid_parameters", |gateway| {
            Ok(json!({"clientInfo": {"id": "alice"}, "token": token(gateway, &[("topics", "room:alpha,room:beta")])?}))
        }),
        entering("an invalid room", 400, "invalid_parameters", |gateway| {
            Ok(json!({"clientInfo": {"id": "alice"}, "topic": "room/alpha", "token": token(gateway, &[])?}))
        }),
        entering("nobody", 400, "invalid_parameters", |gateway| {
            Ok(json!({"topic": "room:alpha", "token": token(gateway, &[])?}))
        }),
    ]
}

async fn not_let_in(Door { gateway, .. }: &mut Door, entering: Entering) -> Result<(), Failure> {
    let mut line = FramedClient::open(gateway.framed_address()).await?;
    let body = (entering.body)(gateway)?;
    let reply = line.ask("c1", "CONNECT", &body).await?;
    check(&reply, entering.status, entering.code, "")?;
    if let Some(token) = body["token"].as_str()
        && reply.body.contains(token)
    {
        return Err(format!("the token is in the refusal: {}", reply.body));
    }
    // The connection goes on, and the right words open the door.
    let only = token(gateway, &[("topics", "room:alpha")])?;
    let reply = line.ask("c2", "CONNECT", &json!({"clientInfo": {"id": "alice"}, "token": only})).await?;
    if reply.json()["topic"] != "room:alpha" {
        return Err(format!("the only room was not entered: {}", reply.body));
    }
    Ok(())
}

/// A time to wait, as it is written in a request.
struct AbsurdWait(&'static str);

impl Case for AbsurdWait {
    fn name(&self) -> String {
        self.0.to_owned()
    }
}

fn absurd_waits() -> [AbsurdWait; 6] {
    ["0.5", "30001", "9007199254740993", "99999999999999999999999999", "\"99999999999999999999999999\"", "1e400"]
        .map(AbsurdWait)
}

/// A time beyond all bounds is the longest there is: what is there already comes at once. Each case has a room of its own.
async fn wait_absurdly(door: &mut Door, AbsurdWait(timeout): AbsurdWait) -> Result<(), Failure> {
    let topic = format!("room:{}", door.cases);
    let (mut line, session) = door.connect("alice", &topic).await?;
    let (mut bob, bobs) = door.connect("bob", &topic).await?;
    bob.ask("s1", "SEND", &json!({"sessionId": bobs, "payload": "hello"})).await?;
    let body = format!(r#"{{"sessionId":"{session}","timeout":{timeout}}}"#);
    let reply = line.ask_text("r1", "RECEIVE", &body).await?;
    if reply.code() != 200 || reply.messages()?.is_empty() {
        return Err(format!("expected what was there, came {} {}", reply.header, reply.body));
    }
    Ok(())
}

/// Frames that begin and do not end, and whether the last of them has its header.
fn begun() -> Vec<(&'static str, Vec<u8>, bool)> {
    let whole = frame(header("slow", "RECEIVE").to_string().as_bytes(), b"{\"sessionId\":\"x\"}");
    vec![
        ("a single byte", whole[..1].to_vec(), false),
        ("a length", whole[..4].to_vec(), false),
        ("half a header", whole[..20].to_vec(), false),
        ("a header", whole[..whole.len() - 21].to_vec(), true),
        ("all but one byte", whole[..whole.len() - 1].to_vec(), true),
        ("a whole frame and the beginning of another", [&whole[..], &whole[..9]].concat(), false),
        ("nothing", Vec::new(), false),
    ]
}

/// All of them at once: each waits for the same time to pass.
async fn stall_all(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("frame-timeout", "200")?).await?;
    // Silence between frames is no stall for a connection that has a session.
    let mut alice = FramedClient::open(gateway.framed_address()).await?;
    let session = alice.connect("alice", "room:alpha", &gateway.token(&TestToken::new("alice"))?).await?;
    let address = gateway.framed_address();
    let mut stalled = JoinSet::new();
    for (name, begun, has_header) in begun() {
        stalled.spawn(async move { stall(address, begun, has_header).await.map_err(|e| format!("{name}: {e}")) });
    }
    let outcomes = stalled.join_all().await;
    let failures: Vec<Failure> = outcomes.into_iter().filter_map(Result::err).collect();
    if !failures.is_empty() {
        return Err(failures.join("\n"));
    }
    let reply = alice.ask("s1", "SEND", &json!({"sessionId": session, "payload": "hello"})).await?;
    if reply.json()["status"] != "accepted" {
        return Err(format!("somebody else suffered for it: {}", reply.body));
    }
    drop(alice);
    gateway.stop().await
}

async fn stall(gateway: SocketAddr, begun: Vec<u8>, has_header: bool) -> Result<(), Failure> {
    let mut slow = FramedClient::open(gateway).await?;
    slow.bytes(&begun).await?;
    let mut reply = slow.reply().await?;
    if reply.code() == 401 {
        reply = slow.reply().await?;
    }
    check(&reply, 408, "timeout", "")?;
    let named = reply.header["id"] == "slow";
    if named != has_header {
        return Err(format!("the answer names what it had of the header, and nothing else: {}", reply.header));
    }
    if slow.next().await?.is_some() {
        return Err("the connection went on".into());
    }
    Ok(())
}
