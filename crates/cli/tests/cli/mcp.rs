//! `salon mcp`: lines on one side, a WebSocket on the other. The gateway's side is played by hand, so that it can do everything a
//! gateway may do to a client.

use std::net::SocketAddr;
use std::process::Stdio;

use futures_util::{SinkExt, StreamExt};
use salon_testkit::{run, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{ChildStdin, Command};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::salon::{BINARY, Home, Ran};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
const WELCOME: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Where a gateway would be.
struct BridgeScene {
    home: Home,
    listener: TcpListener,
    address: SocketAddr,
}

/// The gateway's end of one connection.
struct Session {
    socket: WebSocketStream<TcpStream>,
    /// What was asked for: the path, the subprotocol, and whether a token was shown.
    asked: String,
}

/// The command, as a client has it.
struct Client {
    child: tokio::process::Child,
    stdin: Option<ChildStdin>,
    lines: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStdout>>,
}

impl BridgeScene {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        Self { home: Home::new(), listener, address }
    }

    async fn command(&self, arguments: &[&str]) -> Command {
        let token = self.home.token("room:alpha", "claude").await;
        let mut command = self.home.command(BINARY);
        command.arg("mcp").args(arguments).env("SALON_GATEWAY", format!("http://{}", self.address));
        command.env("SALON_TOKEN", token).stdin(Stdio::piped());
        command
    }

    async fn client(&self, arguments: &[&str]) -> Client {
        let mut child = self.command(arguments).await.spawn().expect("it starts");
        let stdin = child.stdin.take();
        let lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().expect("a pipe")));
        Client { child, stdin, lines }
    }

    async fn accept(&self, limit: Option<usize>) -> Session {
        let (stream, _) = within("a connection", self.listener.accept()).await.expect("in time").expect("it comes");
        let mut asked = String::new();
        #[expect(clippy::result_large_err, reason = "the library asks for this error")]
        let callback = |request: &Request, mut response: Response| {
            let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
            let bearer = header("authorization").starts_with("Bearer ey");
            asked = format!("{} {} {bearer}", request.uri(), header("sec-websocket-protocol"));
            response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().expect("a value"));
            if let Some(limit) = limit {
                response.headers_mut().insert("salon-message-limit", limit.into());
            }
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, callback).await.expect("a WebSocket");
        Session { socket, asked }
    }

    /// Answers the next connection with a refusal.
    async fn refuse(&self, head: &str, body: &str) {
        let (mut stream, _) = within("a connection", self.listener.accept()).await.expect("in time").expect("it comes");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.expect("a request"), 0);
        }
        let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.expect("it reads");
    }
}

impl Session {
    async fn says(&mut self, text: &str) {
        self.socket.send(Frame::text(text)).await.expect("it is connected");
    }

    async fn hears(&mut self) -> String {
        // Waiting clients are pinged, so the whole of it has the deadline.
        let hearing = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Frame::Text(text))) => return text.as_str().to_owned(),
                    Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
                    Some(Ok(Frame::Close(_))) => {
                        // The reader writes the Close frame in return.
                        let _ = self.socket.flush().await;
                        return "(closed)".into();
                    }
                    other => return format!("({other:?})"),
                }
            }
        };
        within("a text", hearing).await.expect("in time")
    }
}

impl Client {
    async fn says(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    async fn hears(&mut self) -> String {
        let line = within("a line", self.lines.next_line()).await.expect("in time").expect("UTF-8");
        line.unwrap_or_else(|| "(the end)".into())
    }

    fn has_no_more_to_say(&mut self) {
        self.stdin = None;
    }

    /// How it ended: what it still said, what it complained of, and the exit code.
    async fn ended(mut self) -> Ran {
        let mut stdout = String::new();
        loop {
            match self.hears().await.as_str() {
                "(the end)" => break,
                line => stdout.push_str(&format!("{line}\n")),
            }
        }
        drop(self.stdin);
        let output = within("the end", self.child.wait_with_output()).await.expect("in time").expect("it was started");
        Ran { code: output.status.code(), stdout, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
    }
}

/// A client and a gateway that have greeted each other.
async fn greeted(place: &BridgeScene) -> (Client, Session) {
    let mut client = place.client(&["room:alpha"]).await;
    let mut session = place.accept(None).await;
    client.says(HELLO).await;
    assert_eq!(session.hears().await, HELLO);
    session.says(WELCOME).await;
    assert_eq!(client.hears().await, WELCOME);
    client.says(INITIALIZED).await;
    assert_eq!(session.hears().await, INITIALIZED);
    (client, session)
}

#[test]
fn texts_pass_both_ways_and_the_last_answers_are_waited_for() {
    run(async {
        let place = BridgeScene::new().await;
        let mut client = place.client(&["room:alpha", "--as", "claude"]).await;
        let mut session = place.accept(None).await;
        assert_eq!(session.asked, "/mcp/room:alpha mcp true");
        let odd = r#"{"params":{"n":12345678901234567890, "é":"\u0000"},"method":"tools/call","id":"a"}"#;
        client.says("").await;
        client.says(odd).await;
        assert_eq!(session.hears().await, odd);
        session.says("{\"method\":\"notifications/progress\",\n \"params\":{}}").await;
        assert_eq!(client.hears().await, r#"{"method":"notifications/progress","params":{}}"#);
        client.says("nonsense").await;
        let wrong = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not JSON"}}"#;
        assert_eq!(client.hears().await, wrong);

        client.says(r#"{"id":"b","method":"ping"}"#).await;
        client.has_no_more_to_say();
        assert_eq!(session.hears().await, r#"{"id":"b","method":"ping"}"#);
        session.says(r#"{"id":"b","result":{}}"#).await;
        session.says(r#"{"id":"a","result":{}}"#).await;
        assert_eq!(session.hears().await, "(closed)");
        let Ran { code, stdout, stderr } = client.ended().await;
        assert_eq!(stdout, "{\"id\":\"b\",\"result\":{}}\n{\"id\":\"a\",\"result\":{}}\n");
        assert_eq!((code, &*stderr), (Some(0), ""));
    });
}

#[test]
fn one_participant_has_an_address_of_its_own() {
    run(async {
        let place = BridgeScene::new().await;
        let mut client = place.client(&["room:alpha", "--only", "robot-1"]).await;
        let mut session = place.accept(None).await;
        assert_eq!(session.asked, "/mcp/room:alpha/robot-1 mcp true");
        client.has_no_more_to_say();
        assert_eq!(session.hears().await, "(closed)");
        assert_eq!(client.ended().await.code, Some(0));
    });
}

#[test]
fn a_lost_gateway_is_waited_for_and_greeted_again() {
    run(async {
        let place = BridgeScene::new().await;
        let (mut client, mut session) = greeted(&place).await;
        client.says(r#"{"id":1,"method":"tools/call"}"#).await;
        assert_eq!(session.hears().await, r#"{"id":1,"method":"tools/call"}"#);
        drop(session);
        let gone = client.hears().await;
        assert!(
            gone.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the gateway is gone"#),
            "{gone}"
        );
        assert!(gone.ends_with(r#"; reconnecting"}}"#), "{gone}");

        // A gateway that only just comes up says so.
        place.refuse("503 Service Unavailable", r#"{"error":"not yet","code":"closing"}"#).await;
        client.says(r#"{"id":2,"method":"tools/list"}"#).await;
        let mut session = place.accept(None).await;
        let hello = session.hears().await;
        let id = hello.split('"').find(|part| part.starts_with("salon-")).expect("an id of its own").to_owned();
        assert_eq!(hello, HELLO.replace("\"id\":0", &format!("\"id\":\"{id}\"")));
        session.says(&WELCOME.replace("\"id\":0", &format!("\"id\":\"{id}\""))).await;
        assert_eq!(session.hears().await, INITIALIZED);
        assert_eq!(session.hears().await, r#"{"id":2,"method":"tools/list"}"#);
        session.says(r#"{"id":2,"result":{}}"#).await;
        assert_eq!(client.hears().await, r#"{"id":2,"result":{}}"#);
        client.has_no_more_to_say();
        let Ran { code, stdout, stderr } = client.ended().await;
        assert_eq!((code, &*stdout), (Some(0), ""));
        let lines: Vec<_> = stderr.lines().collect();
        assert!(lines[0].starts_with("the gateway is gone: ") && lines[1..] == ["the gateway is back"], "{stderr}");
    });
}

#[test]
fn a_gateway_that_refuses_to_take_it_back_ends_it() {
    run(async {
        let place = BridgeScene::new().await;
        let (mut client, mut session) = greeted(&place).await;
        client.says(r#"{"id":1,"method":"a"}"#).await;
        session.hears().await;
        drop(session);
        assert!(client.hears().await.contains("the gateway is gone"));
        client.says(r#"{"id":2,"method":"b"}"#).await;
        let refusal = r#"{"error":"topic `room:alpha` is not open to this token","code":"forbidden"}"#;
        place.refuse("403 Forbidden", refusal).await;
        let Ran { code, stdout, stderr } = client.ended().await;
        assert_eq!(
            stdout,
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32000,\"message\":\"the gateway does not let this client in again\"}}\n"
        );
        assert_eq!(code, Some(5));
        assert!(stderr.contains("error: topic `room:alpha` is not open to this token\n\nhint: "), "{stderr}");
    });
}

#[test]
fn a_message_beyond_the_limit_is_refused_and_the_connection_stays() {
    run(async {
        let place = BridgeScene::new().await;
        let mut client = place.client(&["room:alpha"]).await;
        let mut session = place.accept(Some(1000)).await;
        let long = "x".repeat(1000);
        client.says(&format!(r#"{{"params":"{long}","method":"a","id":1}}"#)).await;
        let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the message has 1033 bytes; this gateway takes at most 1000"}}"#;
        assert_eq!(client.hears().await, refused);
        client.says(r#"{"id":2,"method":"b"}"#).await;
        assert_eq!(session.hears().await, r#"{"id":2,"method":"b"}"#);
        session.says(r#"{"id":2,"result":{}}"#).await;
        assert_eq!(client.hears().await, r#"{"id":2,"result":{}}"#);
        client.has_no_more_to_say();
        assert_eq!(session.hears().await, "(closed)");
        assert_eq!(client.ended().await.code, Some(0));
    });
}

#[test]
fn much_passes_while_nobody_reads_for_a_while() {
    run(async {
        let place = BridgeScene::new().await;
        let mut client = place.client(&["room:alpha"]).await;
        let session = place.accept(None).await;
        const MESSAGES: usize = 400;
        let long = "x".repeat(20_000);
        let text = |n: usize| format!(r#"{{"method":"n","params":["{long}",{n}]}}"#);
        // Both sides write all of it before either reads, as far as the pipes go.
        let (mut far_out, mut far_in) = session.socket.split();
        let gateway_says = async {
            for n in 0..MESSAGES {
                far_out.send(Frame::text(text(n))).await.expect("connected");
            }
        };
        let gateway_hears = async {
            for n in 0..MESSAGES {
                let frame =
                    within("a text", far_in.next()).await.expect("in time").expect("connected").expect("a frame");
                assert_eq!(frame.to_text().expect("text"), text(n));
            }
        };
        let mut stdin = client.stdin.take().expect("open");
        let client_says = async {
            for n in 0..MESSAGES {
                stdin.write_all(format!("{}\n", text(n)).as_bytes()).await.expect("it reads");
            }
        };
        tokio::join!(gateway_says, gateway_hears, client_says, async {
            for n in 0..MESSAGES {
                assert_eq!(client.hears().await, text(n));
            }
        });
        drop(stdin);
        assert_eq!(client.ended().await.code, Some(0));
    });
}

#[test]
fn it_stops_when_asked() {
    run(async {
        let place = BridgeScene::new().await;
        let (mut client, mut session) = greeted(&place).await;
        client.says(r#"{"id":1,"method":"a"}"#).await;
        session.hears().await;
        let pid = client.child.id().expect("it runs").to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.expect("a command").success());
        assert_eq!(session.hears().await, "(closed)");
        let ran = client.ended().await;
        let closed = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"the connection to the gateway has been closed\"}}\n";
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), closed, ""));
    });
}

#[test]
fn it_ends_when_nobody_reads() {
    run(async {
        let place = BridgeScene::new().await;
        let (client, mut session) = greeted(&place).await;
        let Client { mut child, stdin, lines } = client;
        drop(lines);
        session.says(r#"{"method":"notifications/a"}"#).await;
        assert_eq!(session.hears().await, "(closed)");
        let ended = within("the end", child.wait()).await.expect("in time").expect("it was started");
        assert_eq!(ended.code(), Some(0));
        drop(stdin);
    });
}

#[test]
fn what_keeps_it_from_starting_is_told() {
    run(async {
        let place = BridgeScene::new().await;
        let told = |ran: Ran| {
            let told = format!("{}{}exit: {}", ran.stdout, ran.stderr, ran.code.expect("no signal"));
            told.replace(&place.address.to_string(), "ADDRESS")
                .replace(&place.home.path().display().to_string(), "HOME")
        };
        let client = place.client(&["room:alpha"]).await;
        place.refuse("401 Unauthorized", r#"{"error":"the token has expired","code":"unauthorized"}"#).await;
        place.refuse("401 Unauthorized", r#"{"error":"the token has expired","code":"unauthorized"}"#).await;
        insta::assert_snapshot!(told(client.ended().await), @"
        error: the token has expired

        hint: `salon doctor` looks at the token; `salon login http://ADDRESS` stores another
        exit: 5
        ");
        let client = place.client(&["room:alpha"]).await;
        place.refuse("404 Not Found", "<html>").await;
        insta::assert_snapshot!(told(client.ended().await), @"
        error: the answer was 404 Not Found, and not a gateway's

        hint: is `http://ADDRESS` a Salon gateway?
        exit: 7
        ");
        insta::assert_snapshot!(told(place.client(&["room:beta"]).await.ended().await), @"
        error: topic `room:beta` is not open to this token

        hint: run `salon token room:beta --as claude`
        exit: 2
        ");
        // Of two tokens, which one counts is said.
        let file = place.home.path().join("other.token");
        std::fs::write(&file, place.home.token("room:alpha", "other").await).expect("written");
        insta::assert_snapshot!(told(place.client(&["room:beta", "--token-file", "other.token"]).await.ended().await), @"
        `other` in room:beta by the token from `other.token`; not used: the token from `SALON_TOKEN`
        error: topic `room:beta` is not open to this token

        hint: run `salon token room:beta --as other`
        exit: 2
        ");
        let BridgeScene { home, listener, address } = place;
        drop(listener);
        let here = format!("mcp room:alpha --gateway http://{address}");
        let shown = |text: String| text.replace(&address.to_string(), "ADDRESS");
        insta::assert_snapshot!(shown(home.told(&here).await), @"
        error: who is the client to be?

        hint: name it with `--as ID`
        exit: 2
        ");
        insta::assert_snapshot!(shown(home.told(&format!("{here} --as claude")).await), @"
        error: the gateway at `http://ADDRESS` cannot be reached: Connection refused (os error 111)

        hint: start one with `salon serve`, or name another with `--gateway` or `SALON_GATEWAY`
        exit: 7
        ");
    });
}
