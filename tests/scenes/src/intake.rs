//! What a gateway takes in at once: bodies, reads and connections have limits, and a request beyond one gets an answer that says so.

use std::net::SocketAddr;
use std::time::Duration;

use libtest_mimic::Trial;
use salon_testkit::framed::{FramedClient, header};
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestToken, within};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::browser::BrowserSignIn;
use crate::tables::{self, Logs};

const MESSAGES: &str = "/v0/topics/room:a/messages";

/// More requests than a limit of a few allows, however slow the machine is.
const REQUESTS: usize = 60;

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "intake",
        &[
            ("a body that is announced too long is not read", Logs::SqliteOnly, |engine| Box::pin(announced(engine))),
            ("bodies on their way are counted", Logs::SqliteOnly, |engine| Box::pin(counted(engine))),
            ("bytes of bodies on their way are counted", Logs::SqliteOnly, |engine| Box::pin(weighed(engine))),
            ("a body that stops coming is given up", Logs::SqliteOnly, |engine| Box::pin(silent(engine))),
            ("a body that comes too slowly is given up", Logs::SqliteOnly, |engine| Box::pin(trickling(engine))),
            ("malformed input spends the rate", Logs::SqliteOnly, |engine| Box::pin(malformed(engine))),
            ("malformed MCP input spends the rate", Logs::SqliteOnly, |engine| Box::pin(malformed_mcp(engine))),
            ("malformed framed input spends the rate", Logs::SqliteOnly, |engine| Box::pin(malformed_framed(engine))),
            ("reads have a rate", Logs::SqliteOnly, |engine| Box::pin(reads(engine))),
            ("connections beyond the limit are answered", Logs::SqliteOnly, |engine| Box::pin(beyond(engine))),
            ("framed connections beyond the limit are answered", Logs::SqliteOnly, |engine| {
                Box::pin(framed_beyond(engine))
            }),
        ],
    )
}

/// A POST whose body comes later, or not at all.
struct SlowPost {
    stream: TcpStream,
    came: Vec<u8>,
}

impl SlowPost {
    async fn begin(address: SocketAddr, token: &str, length: usize) -> Result<Self, Failure> {
        let head = format!(
            "POST {MESSAGES} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.write_all(head.as_bytes()).await.map_err(|error| error.to_string())?;
        Ok(Self { stream, came: Vec::new() })
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).await.map_err(|error| error.to_string())
    }

    /// The next status that the gateway says, which is 100 where it wants the body.
    async fn status(&mut self) -> Result<u16, Failure> {
        within("the status of a POST", async {
            loop {
                if let Some(end) = self.came.windows(4).position(|four| four == b"\r\n\r\n") {
                    let head = String::from_utf8_lossy(&self.came[..end]).into_owned();
                    self.came.drain(..end + 4);
                    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                    return status.ok_or_else(|| format!("no status in {head}"));
                }
                let read = self.stream.read_buf(&mut self.came).await;
                if read.map_err(|error| error.to_string())? == 0 {
                    return Err("the gateway closed without an answer".into());
                }
            }
        })
        .await?
    }
}

fn expect(what: &str, status: u16, expected: u16) -> Result<(), Failure> {
    if status == expected { Ok(()) } else { Err(format!("{what}: expected {expected}, came {status}")) }
}

async fn announced(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine).set("limits.message", "1000")?.set("limits.answer", "1000")?;
    let gateway = TestGateway::start(options).await?;
    let token = gateway.token(&TestToken::new("mallory"))?;
    let mut long = SlowPost::begin(gateway.address(), &token, 1001).await?;
    expect("a body over the limit", long.status().await?, 413)?;
    let mut fitting = SlowPost::begin(gateway.address(), &token, 1000).await?;
    expect("a body within it", fitting.status().await?, 100)?;
    drop((long, fitting));
    gateway.stop().await
}

async fn counted(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.bodies_per_sender", "2")?).await?;
    let address = gateway.address();
    let (mallory, bob) = (gateway.token(&TestToken::new("mallory"))?, gateway.token(&TestToken::new("bob"))?);
    let mut first = SlowPost::begin(address, &mallory, 10).await?;
    expect("the first", first.status().await?, 100)?;
    let mut second = SlowPost::begin(address, &mallory, 10).await?;
    expect("the second", second.status().await?, 100)?;
    let mut third = SlowPost::begin(address, &mallory, 10).await?;
    expect("one too many", third.status().await?, 429)?;
    let mut other = SlowPost::begin(address, &bob, 10).await?;
    expect("somebody else's", other.status().await?, 100)?;
    // One that is complete counts no more.
    first.send(b"0123456789").await?;
    expect("the first, complete", first.status().await?, 400)?;
    let mut again = SlowPost::begin(address, &mallory, 10).await?;
    expect("another", again.status().await?, 100)?;
    drop((first, second, third, other, again));
    gateway.stop().await
}

async fn weighed(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine)
        .set("limits.message", "1000")?
        .set("limits.answer", "1000")?
        .set("limits.body_bytes_per_sender", "1500")?;
    let gateway = TestGateway::start(options).await?;
    let token = gateway.token(&TestToken::new("mallory"))?;
    let mut posts = [
        SlowPost::begin(gateway.address(), &token, 1000).await?,
        SlowPost::begin(gateway.address(), &token, 1000).await?,
    ];
    for post in &mut posts {
        expect("a body within the limit", post.status().await?, 100)?;
        post.send(&[b'x'; 900]).await?;
    }
    let [first, second] = &mut posts;
    // Whichever comes second does not fit beside the other, which then can be completed.
    let (status, other) = tokio::select! {
        status = first.status() => (status?, second),
        status = second.status() => (status?, first),
    };
    expect("1800 bytes together", status, 429)?;
    other.send(&[b'x'; 100]).await?;
    expect("the other, complete", other.status().await?, 400)?;
    drop(posts);
    gateway.stop().await
}

async fn silent(engine: TestEngine) -> Result<(), Failure> {
    let hour = "3600000";
    let options = TestOptions::new(engine).set("body-idle-timeout", "100")?.set("body-timeout", hour)?;
    let gateway = TestGateway::start(options).await?;
    let token = gateway.token(&TestToken::new("mallory"))?;
    let mut post = SlowPost::begin(gateway.address(), &token, 10).await?;
    expect("the head", post.status().await?, 100)?;
    post.send(b"0").await?;
    expect("silence", post.status().await?, 408)?;
    gateway.stop().await
}

/// A byte every now and then is no silence. The body as a whole has a deadline.
async fn trickling(engine: TestEngine) -> Result<(), Failure> {
    let hour = "3600000";
    let options = TestOptions::new(engine).set("body-idle-timeout", hour)?.set("body-timeout", "300")?;
    let gateway = TestGateway::start(options).await?;
    let token = gateway.token(&TestToken::new("mallory"))?;
    let mut post = SlowPost::begin(gateway.address(), &token, 100_000).await?;
    expect("the head", post.status().await?, 100)?;
    loop {
        if let Ok(status) = tokio::time::timeout(Duration::from_millis(50), post.status()).await {
            break expect("a body that trickles", status?, 408)?;
        }
        // The gateway may have closed by now; its answer is read all the same.
        let _ = post.send(b"0").await;
    }
    gateway.stop().await
}

/// Repeats a request until it is refused for its rate. All before that are answered with `usual`.
async fn until_limited(address: SocketAddr, call: &HttpCall, usual: u16) -> Result<(), Failure> {
    for _ in 0..REQUESTS {
        match call.send(address).await?.status {
            429 => return Ok(()),
            status => expect("a request within the rate", status, usual)?,
        }
    }
    Err(format!("{REQUESTS} requests were within the rate"))
}

async fn malformed(engine: TestEngine) -> Result<(), Failure> {
    let gateway =
        TestGateway::start(TestOptions::new(engine).set("limits.rate", "1")?.set("limits.burst", "5")?).await?;
    for (who, path, body) in
        [("mallory", MESSAGES, "{\"id\""), ("marvin", MESSAGES, "{}"), ("moriarty", "/v0/tickets", "{}")]
    {
        let call = HttpCall::new("POST", path).bearer(&gateway.token(&TestToken::new(who))?).body(body);
        until_limited(gateway.address(), &call, 400).await?;
    }
    let topic = "/v0/topics/room:a";
    let long = format!("{topic}?reason={}", "x".repeat(1001));
    for (who, call) in [
        ("medea", HttpCall::new("POST", "/v0/auth/revocations").body("{\"all\"")),
        ("morgana", HttpCall::new("POST", "/v0/auth/revocations").body("{}")),
        ("mordred", HttpCall::new("PATCH", topic).header("If-Match", "3").body("{}")),
        ("macbeth", HttpCall::new("DELETE", long)),
    ] {
        let stranger = call.send(gateway.address()).await?.status;
        expect("malformed input of a stranger", stranger, 401)?;
        let mut token = TestToken::new(who);
        token.claim("permissions", "revoke")?;
        until_limited(gateway.address(), &call.bearer(&gateway.token(&token)?), 400).await?;
    }
    gateway.stop().await
}

/// What reaches no session of the MCP door, in each of the ways that it has.
async fn malformed_mcp(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine).set("limits.rate", "1")?.set("limits.burst", "5")?;
    let gateway = TestGateway::start(options.set("limits.message", "1000")?.set("limits.answer", "1000")?).await?;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let long = "x".repeat(2000);
    for (who, path, kind, body, usual) in [
        ("mallory", "/mcp/room:a", "application/json", "{\"id\"", 400),
        ("marvin", "/mcp/room:a", "application/json", list, 400),
        ("moriarty", "/mcp/room:a", "text/plain", list, 415),
        ("medea", "/mcp/room:a", "application/json", &*long, 413),
        ("morgana", "/mcp/room:a/poll", "application/json", "[]", 400),
        ("mordred", "/message?sessionId=none", "application/json", list, 404),
    ] {
        let call = HttpCall::new("POST", path).bearer(&gateway.token(&TestToken::new(who))?);
        until_limited(gateway.address(), &call.header("Content-Type", kind).body(body), usual).await?;
    }
    gateway.stop().await
}

/// Frames on the connection of a session that do not reach it.
async fn malformed_framed(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine).set("limits.rate", "1")?.set("limits.burst", "5")?;
    let gateway = TestGateway::start(options).await?;
    for (who, method, body, usual) in [
        ("mallory", "SUBSCRIBE", json!({}), 400),
        ("marvin", "SEND", json!({"payload": "x"}), 401),
        ("moriarty", "RECEIVE", json!({"sessionId": "00112233445566778899aabbccddeeff"}), 401),
    ] {
        let mut line = FramedClient::open(gateway.framed_address()).await?;
        line.connect(who, "room:a", &gateway.token(&TestToken::new(who))?).await?;
        until_framed_limited(&mut line, method, &body.to_string(), usual).await?;
    }
    gateway.stop().await
}

async fn until_framed_limited(line: &mut FramedClient, method: &str, body: &str, usual: u64) -> Result<(), Failure> {
    for number in 0..REQUESTS {
        line.request(&header(&format!("f{number}"), method), body.as_bytes()).await?;
        match line.reply().await?.code() {
            429 => return Ok(()),
            code if code == usual => {}
            code => return Err(format!("a frame within the rate: expected {usual}, came {code}")),
        }
    }
    Err(format!("{REQUESTS} frames were within the rate"))
}

async fn reads(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.read_rate", "1")?).await?;
    for (who, path) in [
        ("mallory", "/v0/topics"),
        ("marvin", "/v0/topics/room:a/participants"),
        ("moriarty", "/v0/topics/room:a/history"),
    ] {
        let call = HttpCall::new("GET", path).bearer(&gateway.token(&TestToken::new(who))?);
        until_limited(gateway.address(), &call, 200).await?;
    }
    // What a door would do with the request does not matter: neither finds a session here.
    for (who, path, accept, usual) in [
        ("medea", "/mcp/room:a?sessionId=none", "text/event-stream", 404),
        ("morgana", "/sse?topic=room:a&sessionId=none", "text/event-stream", 404),
        ("mordred", "/context/v1/stream?topic=room:a", "application/json", 406),
    ] {
        let call = HttpCall::new("GET", path).bearer(&gateway.token(&TestToken::new(who))?).header("Accept", accept);
        until_limited(gateway.address(), &call, usual).await?;
    }
    let browser = BrowserSignIn::begin(&gateway, "macbeth").await?;
    until_limited(gateway.address(), &browser.call("GET", "/v0/session"), 200).await?;
    let ticket = HttpCall::new("POST", "/v0/tickets").bearer(&gateway.token(&TestToken::new("moloch"))?);
    until_limited(gateway.address(), &ticket.body(r#"{"topic":"room:a"}"#), 201).await?;
    gateway.stop().await
}

async fn beyond(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.connections_per_address", "2")?).await?;
    let address = gateway.address();
    // Connections are accepted in their order, so that these two are counted before the next.
    let connect = || TcpStream::connect(address);
    let (first, second) = (connect().await, connect().await);
    let refused = HttpCall::new("GET", "/v0/openapi.json").send(address).await?;
    expect("one too many", refused.status, 429)?;
    if refused.header("retry-after").is_none() || !refused.body.contains("the limit is 2") {
        return Err(format!("the refusal does not say what to do: {refused:?}"));
    }
    for path in ["/health", "/ready"] {
        expect(path, HttpCall::new("GET", path).send(address).await?.status, 200)?;
    }
    drop((first, second));
    gateway.stop().await
}

async fn framed_beyond(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.connections_per_address", "2")?).await?;
    let address = gateway.framed_address();
    let (first, second) = (FramedClient::open(address).await?, FramedClient::open(address).await?);
    let mut third = FramedClient::open(address).await?;
    let reply = third.reply().await?;
    let body = reply.json();
    if reply.code() != 429 || body["code"] != "rate_limited" || !reply.body.contains("the limit is 2") {
        return Err(format!("the refusal does not say what to do: {} {}", reply.header, reply.body));
    }
    if let Some(more) = third.next().await? {
        return Err(format!("the connection goes on: {more:?}"));
    }
    drop((first, second));
    gateway.stop().await
}
