//! Requests that only a raw socket can make: what HTTP and WebSocket leave to be refused, and with which status.

use std::net::SocketAddr;

use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestToken, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::tables::{Case, Logs, check_all, trial};

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    if !Logs::SqliteOnly.include(engine) {
        return Vec::new();
    }
    vec![
        trial(engine, "wire::ambiguous requests", move || table(engine, ambiguous())),
        trial(engine, "wire::handshakes", move || table(engine, handshakes())),
    ]
}

/// A request, and what its answer begins with.
struct RawRequest {
    name: &'static str,
    text: String,
    /// The status, and a header or a part of the body that must be there.
    status: u16,
    has: &'static str,
}

impl Case for RawRequest {
    fn name(&self) -> String {
        self.name.to_owned()
    }
}

struct Fixture {
    gateway: TestGateway,
    token: String,
}

async fn table(engine: TestEngine, requests: Vec<RawRequest>) -> Result<(), Failure> {
    let open = async || {
        let gateway = TestGateway::start(TestOptions::new(engine)).await?;
        let token = gateway.token(&TestToken::new("mallory"))?;
        Ok(Fixture { gateway, token })
    };
    check_all(requests, open, check).await?.gateway.stop().await
}

async fn check(fixture: &mut Fixture, case: RawRequest) -> Result<(), Failure> {
    let address = fixture.gateway.address();
    let text = case.text.replace("HOST", &address.to_string()).replace("TOKEN", &fixture.token);
    // Characters up to 255 are bytes, so that a request can be other than UTF-8.
    let bytes: Vec<u8> = text.chars().map(|character| character as u8).collect();
    let answer = answer(address, &bytes).await?;
    if answer.get(9..12) != Some(&*case.status.to_string()) || !answer.contains(case.has) {
        return Err(format!("expected {} with {:?}, came {answer}", case.status, case.has));
    }
    let present = HttpCall::new("GET", "/v0/topics/room:a/participants").bearer(&fixture.token).send(address).await?;
    if present.body.contains("mallory") { Err(format!("mallory is in the room: {}", present.body)) } else { Ok(()) }
}

/// What comes back until the gateway closes, or until the answer says that it is over.
async fn answer(address: SocketAddr, request: &[u8]) -> Result<String, Failure> {
    let reading = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request).await?;
        let mut bytes = Vec::new();
        // A refusal has a body of JSON; the answer to a HEAD, and a WebSocket's, end with their head.
        while !(bytes.ends_with(b"}") || bytes.ends_with(b"\r\n\r\n") && !has_body(&bytes)) {
            if stream.read_buf(&mut bytes).await? == 0 {
                break;
            }
        }
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    within("the answer to a raw request", reading).await?.map_err(|error| error.to_string())
}

fn has_body(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    !head.starts_with("HTTP/1.1 101 ") && !head.starts_with("HTTP/1.1 405 ")
}

fn raw(name: &'static str, status: u16, has: &'static str, lines: &[&str]) -> RawRequest {
    RawRequest { name, text: format!("{}\r\n\r\n", lines.join("\r\n")), status, has }
}

/// RFC 9112 §3.2 and §6: what two readers could understand differently is refused.
fn ambiguous() -> Vec<RawRequest> {
    let get = "GET /v0/openapi.json HTTP/1.1";
    vec![
        raw("one host", 200, "", &[get, "Host: HOST"]),
        raw("no host", 400, "`Host`", &[get]),
        raw("no host in HTTP/1.0", 400, "`Host`", &["GET /v0/openapi.json HTTP/1.0"]),
        raw("two hosts", 400, "`Host`", &[get, "Host: HOST", "Host: HOST"]),
        raw("two different hosts", 400, "`Host`", &[get, "Host: HOST", "Host: evil.example"]),
        raw("an absolute target", 200, "", &["GET http://HOST/v0/openapi.json HTTP/1.1", "Host: HOST"]),
        raw(
            "an absolute target elsewhere",
            400,
            "names another host",
            &["GET http://evil.example/v0/openapi.json HTTP/1.1", "Host: HOST"],
        ),
        raw(
            "an absolute target here and a host elsewhere",
            400,
            "names another host",
            &["GET http://HOST/v0/openapi.json HTTP/1.1", "Host: evil.example"],
        ),
        raw(
            "an absolute target with somebody in it",
            400,
            "names another host",
            &["GET http://me@HOST/v0/openapi.json HTTP/1.1", "Host: HOST"],
        ),
        raw("an origin", 200, "", &[get, "Host: HOST", "Origin: http://HOST"]),
        raw("two origins", 400, "`Origin`", &[get, "Host: HOST", "Origin: http://HOST", "Origin: http://HOST"]),
        raw(
            "a body in chunks",
            201,
            "ticket",
            &[
                "POST /v0/tickets HTTP/1.1",
                "Host: HOST",
                "Authorization: Bearer TOKEN",
                "Transfer-Encoding: chunked",
                "",
                "11",
                "{\"topic\":\"room:a\"",
                "1",
                "}",
                "0",
            ],
        ),
        raw(
            "a body that is no UTF-8",
            400,
            "\"code\":\"invalid_json\"",
            &[
                "POST /v0/topics/room:a/messages HTTP/1.1",
                "Host: HOST",
                "Authorization: Bearer TOKEN",
                "Content-Length: 1",
                "",
                "\u{ff}",
            ],
        ),
        // RFC 9112 §6.1: a coding that is not understood.
        raw(
            "a body in gzip and chunks",
            501,
            "`Transfer-Encoding`",
            &[
                "POST /v0/tickets HTTP/1.1",
                "Host: HOST",
                "Authorization: Bearer TOKEN",
                "Transfer-Encoding: gzip, chunked",
                "",
                "1",
                "}",
                "0",
            ],
        ),
        // RFC 9112 §6.3: where a body ends that is not in chunks last, nobody can know.
        raw(
            "a body in gzip",
            400,
            "connection: close",
            &[
                "POST /v0/tickets HTTP/1.1",
                "Host: HOST",
                "Authorization: Bearer TOKEN",
                "Transfer-Encoding: gzip",
                "",
                "x",
            ],
        ),
    ]
}

/// RFC 6455 §4.2.1: what the handshake of a client has.
fn handshakes() -> Vec<RawRequest> {
    let key = "Sec-WebSocket-Key: c2Fsb24tdGVzdGtpdC0wMQ==";
    let ask = |name, status, has, method: &str, path: &str, more: &[&str]| {
        let first = format!("{method} {path} HTTP/1.1");
        let head = ["Host: HOST", "Authorization: Bearer TOKEN", "Connection: Upgrade", "Upgrade: websocket"];
        let lines: Vec<&str> = [first.as_str()].into_iter().chain(head).chain(more.iter().copied()).collect();
        raw(name, status, has, &lines)
    };
    let (mcpx, version) = ("/v0/ws?topic=room:a", "Sec-WebSocket-Version: 13");
    vec![
        ask("a look at the head of MCPx", 405, "", "HEAD", mcpx, &[version, key]),
        ask("a look at the head of MCP", 405, "", "HEAD", "/mcp/room:a", &[version, key]),
        ask("a look at the head of the machines'", 405, "", "HEAD", "/context/v1/ws?topic=room:a", &[version, key]),
        ask("no key", 400, "`Sec-WebSocket-Key`", "GET", mcpx, &[version]),
        ask("two keys", 400, "`Sec-WebSocket-Key`", "GET", mcpx, &[version, key, key]),
        ask("a key of a word", 400, "`Sec-WebSocket-Key`", "GET", mcpx, &[version, "Sec-WebSocket-Key: hello"]),
        ask(
            "a key of 15 bytes",
            400,
            "`Sec-WebSocket-Key`",
            "GET",
            mcpx,
            &[version, "Sec-WebSocket-Key: c2Fsb24tdGVzdGtpdC0x"],
        ),
        ask(
            "a key in base64url",
            400,
            "`Sec-WebSocket-Key`",
            "GET",
            mcpx,
            &[version, "Sec-WebSocket-Key: _2Fsb24tdGVzdGtpdC0wMQ=="],
        ),
        ask("another version", 426, "sec-websocket-version: 13", "GET", mcpx, &["Sec-WebSocket-Version: 8", key]),
        ask("two versions", 426, "sec-websocket-version: 13", "GET", mcpx, &[version, "Sec-WebSocket-Version: 8", key]),
        ask("no version", 426, "sec-websocket-version: 13", "GET", mcpx, &[key]),
        raw(
            "no WebSocket at all",
            426,
            "sec-websocket-version: 13",
            &["GET /v0/ws?topic=room:a HTTP/1.1", "Host: HOST", "Authorization: Bearer TOKEN"],
        ),
    ]
}
